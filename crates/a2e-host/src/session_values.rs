//! Values that belong to a session, such as processes and episodes. A session sees only its own values, and they end
//! with it.
//!
//! A caller reserves a place before it makes a value. So the limits hold when several values are made at once, and a
//! value made for a session that has ended finds no place and is dropped.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use gladhand_core::operations::Party;
use gladhand_core::sync::Unpoisoned as _;
use gladhand_hub::{SessionId, Usage};

use crate::starting::ending::{TaskCounter, TaskGuard};

/// The values of all sessions.
#[derive(Debug)]
pub(crate) struct SessionValues<T> {
    state: Arc<Mutex<State<T>>>,
    task_counter: TaskCounter,
}

#[derive(Debug)]
struct State<T> {
    sessions: HashMap<SessionId, ValuesOfSession<T>>,
    /// The host is stopping: no places are given any more.
    closed: bool,
}

/// The values of one session.
#[derive(Debug)]
pub(crate) struct ValuesOfSession<T> {
    /// The party of the session's client; `None` on standard streams.
    party: Option<Party>,
    /// How many values are being made.
    pub(crate) reserved: usize,
    /// The finished values, oldest first.
    pub(crate) items: Vec<Arc<T>>,
}

impl<T> Default for SessionValues<T> {
    fn default() -> Self {
        let state = State { sessions: HashMap::new(), closed: false };
        Self { state: Arc::new(Mutex::new(state)), task_counter: TaskCounter::default() }
    }
}

impl<T> SessionValues<T> {
    /// Reserves a place for one more value if `admit` allows it. `admit` may remove values to make room.
    pub(crate) fn reserve<E>(
        &self,
        (session, party): (SessionId, Option<Party>),
        is_counted: impl Fn(&T) -> bool,
        admit: impl FnOnce(&mut ValuesOfSession<T>, Usage) -> Result<(), E>,
    ) -> Result<Reservation<T>, ReserveError<E>> {
        let mut state = lock(&self.state);
        if state.closed {
            return Err(ReserveError::Closed);
        }
        let counted =
            |values: &ValuesOfSession<T>| values.reserved + values.items.iter().filter(|item| is_counted(item)).count();
        let usage = Usage::of(party, state.sessions.values().map(|values| (values.party, counted(values))));
        let none = || ValuesOfSession { party, reserved: 0, items: Vec::new() };
        let values = state.sessions.entry(session).or_insert_with(none);
        admit(values, usage).map_err(ReserveError::NotAdmitted)?;
        values.reserved += 1;
        Ok(Reservation { state: Arc::clone(&self.state), session, task_guard: Some(self.task_counter.add()) })
    }

    /// Returns one value of a session.
    pub(crate) fn find(&self, session: SessionId, matches: impl Fn(&T) -> bool) -> Option<Arc<T>> {
        lock(&self.state).sessions.get(&session)?.items.iter().find(|item| matches(item)).cloned()
    }

    /// Returns all values of a session, oldest first.
    pub(crate) fn of(&self, session: SessionId) -> Vec<Arc<T>> {
        lock(&self.state).sessions.get(&session).map_or_else(Vec::new, |values| values.items.clone())
    }

    /// Removes one value of a session and returns it.
    pub(crate) fn take(&self, session: SessionId, matches: impl Fn(&T) -> bool) -> Option<Arc<T>> {
        let mut state = lock(&self.state);
        let values = &mut state.sessions.get_mut(&session)?.items;
        let at = values.iter().position(|item| matches(item))?;
        Some(values.remove(at))
    }

    /// Removes a session that has ended, and returns its values.
    pub(crate) fn left(&self, session: SessionId) -> Vec<Arc<T>> {
        lock(&self.state).sessions.remove(&session).map_or_else(Vec::new, |values| values.items)
    }

    /// Removes and returns all values of all sessions. No place is given afterwards.
    pub(crate) fn close(&self) -> Vec<Arc<T>> {
        let mut state = lock(&self.state);
        state.closed = true;
        state.sessions.drain().flat_map(|(_, values)| values.items).collect()
    }

    /// Counts the tasks that still work for a value that had a place.
    pub(crate) fn task_counter(&self) -> &TaskCounter {
        &self.task_counter
    }
}

/// Why no place was reserved.
#[derive(Debug)]
pub(crate) enum ReserveError<E> {
    /// The host is stopping.
    Closed,
    /// The limit is reached.
    NotAdmitted(E),
}

/// A reserved place for a value that is being made. Dropping it releases the reservation.
#[derive(Debug)]
pub(crate) struct Reservation<T> {
    state: Arc<Mutex<State<T>>>,
    session: SessionId,
    task_guard: Option<TaskGuard>,
}

impl<T> Reservation<T> {
    /// Stores the value, unless its session has ended. The task that works for the value holds the returned guard.
    pub(crate) fn fill(mut self, item: &Arc<T>) -> Option<TaskGuard> {
        let mut state = lock(&self.state);
        state.sessions.get_mut(&self.session)?.items.push(Arc::clone(item));
        drop(state);
        self.task_guard.take()
    }
}

impl<T> Drop for Reservation<T> {
    fn drop(&mut self) {
        if let Some(values) = lock(&self.state).sessions.get_mut(&self.session) {
            values.reserved = values.reserved.saturating_sub(1);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unpoisoned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_party_with_all_values_keeps_no_other_from_its_share() {
        let values = SessionValues::<()>::default();
        let mut sessions = 0;
        let mut take = |party: u64| {
            // Each in a session of its own, where no limit of a session applies.
            sessions += 1;
            let place = (SessionId(sessions), Some(Party(party)));
            values.reserve(place, |()| true, |_, usage: Usage| if usage.admits(8) { Ok(()) } else { Err(()) }).ok()
        };
        let mut fill = |party| std::iter::from_fn(|| take(party)).take(100).collect::<Vec<_>>();
        let greedy = fill(1);
        assert_eq!(greedy.len(), 8, "all, while no other party wants any");
        let second = fill(2);
        assert_eq!(second.len(), 4, "an equal share");
        assert_eq!((fill(1).len(), fill(2).len()), (0, 0));
        let others: Vec<_> = (3..100).flat_map(&mut fill).collect();
        assert_eq!(8 + 4 + others.len(), 16, "however many parties there are");
        drop((greedy, others));
        assert_eq!(fill(1).len(), 4, "what is given back can be had again");
    }
}
