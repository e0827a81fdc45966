//! Values that belong to a session, such as processes and episodes. A session sees only its own values, and they end
//! with it.
//!
//! A caller reserves a place before it makes a value. So the limits hold when several values are made at once, and a
//! value made for a session that has ended finds no place and is dropped.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gladhand_hub::SessionId;

use crate::starting::ending::{AtWork, Roster};

/// The values of all sessions.
#[derive(Debug)]
pub(crate) struct Belongings<T> {
    all: Arc<Mutex<All<T>>>,
    roster: Roster,
}

#[derive(Debug)]
struct All<T> {
    sessions: HashMap<SessionId, Few<T>>,
    /// The host is stopping: no places are given any more.
    closed: bool,
}

/// The values of one session.
#[derive(Debug)]
pub(crate) struct Few<T> {
    /// How many values are being made.
    pub(crate) coming: usize,
    /// The finished values, oldest first.
    pub(crate) here: Vec<Arc<T>>,
}

/// How many values are finished or being made, in all sessions together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InAll(pub(crate) usize);

impl<T> Default for Belongings<T> {
    fn default() -> Self {
        let all = All { sessions: HashMap::new(), closed: false };
        Self { all: Arc::new(Mutex::new(all)), roster: Roster::default() }
    }
}

impl<T> Belongings<T> {
    /// Reserves a place for one more value if `admit` allows it. `admit` may remove values to make room.
    pub(crate) fn place<E>(
        &self,
        session: SessionId,
        is_counted: impl Fn(&T) -> bool,
        admit: impl FnOnce(&mut Few<T>, InAll) -> Result<(), E>,
    ) -> Result<Place<T>, NoPlace<E>> {
        let mut all = lock(&self.all);
        if all.closed {
            return Err(NoPlace::Closed);
        }
        let counted = |few: &Few<T>| few.coming + few.here.iter().filter(|item| is_counted(item)).count();
        let in_all = InAll(all.sessions.values().map(counted).sum());
        let few = all.sessions.entry(session).or_insert_with(|| Few { coming: 0, here: Vec::new() });
        admit(few, in_all).map_err(NoPlace::NotAdmitted)?;
        few.coming += 1;
        Ok(Place { all: Arc::clone(&self.all), session, at_work: Some(self.roster.enter()) })
    }

    /// Returns one value of a session.
    pub(crate) fn find(&self, session: SessionId, is_it: impl Fn(&T) -> bool) -> Option<Arc<T>> {
        lock(&self.all).sessions.get(&session)?.here.iter().find(|item| is_it(item)).cloned()
    }

    /// Returns all values of a session, oldest first.
    pub(crate) fn of(&self, session: SessionId) -> Vec<Arc<T>> {
        lock(&self.all).sessions.get(&session).map_or_else(Vec::new, |few| few.here.clone())
    }

    /// Removes one value of a session and returns it.
    pub(crate) fn take(&self, session: SessionId, is_it: impl Fn(&T) -> bool) -> Option<Arc<T>> {
        let mut all = lock(&self.all);
        let here = &mut all.sessions.get_mut(&session)?.here;
        let at = here.iter().position(|item| is_it(item))?;
        Some(here.remove(at))
    }

    /// Removes a session that has ended, and returns its values.
    pub(crate) fn left(&self, session: SessionId) -> Vec<Arc<T>> {
        lock(&self.all).sessions.remove(&session).map_or_else(Vec::new, |few| few.here)
    }

    /// Removes and returns all values of all sessions. No place is given afterwards.
    pub(crate) fn close(&self) -> Vec<Arc<T>> {
        let mut all = lock(&self.all);
        all.closed = true;
        all.sessions.drain().flat_map(|(_, few)| few.here).collect()
    }

    /// Counts the tasks that still work for a value that had a place.
    pub(crate) fn roster(&self) -> &Roster {
        &self.roster
    }
}

/// Why no place was reserved.
#[derive(Debug)]
pub(crate) enum NoPlace<E> {
    /// The host is stopping.
    Closed,
    /// The limit is reached.
    NotAdmitted(E),
}

/// A reserved place for a value that is being made. Dropping it releases the reservation.
#[derive(Debug)]
pub(crate) struct Place<T> {
    all: Arc<Mutex<All<T>>>,
    session: SessionId,
    at_work: Option<AtWork>,
}

impl<T> Place<T> {
    /// Stores the value, unless its session has ended. The task that works for the value holds the returned guard.
    pub(crate) fn fill(mut self, item: &Arc<T>) -> Option<AtWork> {
        let mut all = lock(&self.all);
        all.sessions.get_mut(&self.session)?.here.push(Arc::clone(item));
        drop(all);
        self.at_work.take()
    }
}

impl<T> Drop for Place<T> {
    fn drop(&mut self) {
        if let Some(few) = lock(&self.all).sessions.get_mut(&self.session) {
            few.coming = few.coming.saturating_sub(1);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
