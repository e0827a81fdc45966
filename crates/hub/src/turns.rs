//! Turns at something that serves only a few callers at once, such as a database: a queue that parties share.
//!
//! A party that waits for many turns does not delay the others: free turns go around the parties that wait. A party
//! never has all turns, if there are several, so that another party need not wait for the end of its work.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use gladhand_core::operations::Party;
use gladhand_core::sync::Unpoisoned as _;
use tokio::sync::oneshot;

/// A number of turns, and the parties that wait for one.
#[derive(Debug)]
pub struct Turns {
    /// How many turns there are.
    most: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The number of turns that each party has.
    taken: HashMap<Option<Party>, usize>,
    /// The parties that wait, the next one first, with their callers in order of arrival.
    waiting: VecDeque<(Option<Party>, VecDeque<oneshot::Sender<Turn>>)>,
}

/// One turn, given back when it is dropped.
#[derive(Debug)]
pub struct Turn {
    turns: Arc<Turns>,
    party: Option<Party>,
}

impl Turns {
    /// So many turns at once.
    pub fn of(most: usize) -> Arc<Self> {
        Arc::new(Self { most, state: Mutex::default() })
    }

    /// Waits for a turn of a party. `None`: of the only client, or of ourselves.
    pub async fn take(self: &Arc<Self>, party: Option<Party>) -> Turn {
        let waiting = {
            let mut state = self.lock();
            if self.has_turn_for(&state, party) {
                *state.taken.entry(party).or_default() += 1;
                return Turn { turns: Arc::clone(self), party };
            }
            let (sender, receiver) = oneshot::channel();
            match state.waiting.iter_mut().find(|(waiting, _)| *waiting == party) {
                Some((_, callers)) => callers.push_back(sender),
                None => state.waiting.push_back((party, VecDeque::from([sender]))),
            }
            receiver
        };
        match waiting.await {
            Ok(turn) => turn,
            // A sender is dropped only after its receiver.
            Err(_) => std::future::pending().await,
        }
    }

    fn has_turn_for(&self, state: &State, party: Option<Party>) -> bool {
        let own = state.taken.get(&party).copied().unwrap_or_default();
        let most_of_one = if party.is_some() { self.most.saturating_sub(1).max(1) } else { self.most };
        state.taken.values().sum::<usize>() < self.most && own < most_of_one
    }

    /// Gives free turns to the parties that wait, one after the other.
    fn go_on(self: &Arc<Self>) {
        loop {
            let mut state = self.lock();
            // Callers that do not wait any more.
            state.waiting.iter_mut().for_each(|(_, callers)| callers.retain(|caller| !caller.is_closed()));
            state.waiting.retain(|(_, callers)| !callers.is_empty());
            let next = state.waiting.iter().position(|(party, _)| self.has_turn_for(&state, *party));
            let Some((party, mut callers)) = next.and_then(|next| state.waiting.remove(next)) else { return };
            let caller = callers.pop_front();
            if !callers.is_empty() {
                state.waiting.push_back((party, callers));
            }
            *state.taken.entry(party).or_default() += 1;
            let turn = Turn { turns: Arc::clone(self), party };
            drop(state);
            // If the caller has stopped waiting, dropping the turn gives it back.
            drop(caller.map(|caller| caller.send(turn)));
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unpoisoned()
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut state = self.turns.lock();
        if let Some(taken) = state.taken.get_mut(&self.party) {
            *taken -= 1;
            if *taken == 0 {
                state.taken.remove(&self.party);
            }
        }
        drop(state);
        self.turns.go_on();
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn poll(work: std::pin::Pin<&mut impl Future<Output = Turn>>) -> Option<Turn> {
        match work.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(turn) => Some(turn),
            Poll::Pending => None,
        }
    }

    #[test]
    fn a_party_that_waits_for_many_turns_does_not_delay_another() {
        let turns = Turns::of(3);
        let take = |party: u64| Box::pin(turns.take(Some(Party(party))));
        let mut held: Vec<_> = (0..2).map(|_| poll(take(1).as_mut()).expect("it is free")).collect();
        let mut greedy: Vec<_> = (0..100).map(|_| take(1)).collect();
        assert!(greedy.iter_mut().all(|waiting| poll(waiting.as_mut()).is_none()), "one party does not have all turns");
        let other = poll(take(2).as_mut()).expect("the last turn is for another party");
        let (mut second, mut third) = (take(2), take(3));
        assert!(poll(second.as_mut()).is_none() && poll(third.as_mut()).is_none());
        drop(held.pop());
        let first = poll(greedy.remove(0).as_mut()).expect("it was the first that waited");
        drop(held.pop());
        let second = poll(second.as_mut()).expect("it goes around, although calls of the first party wait longer");
        drop(other);
        let third = poll(third.as_mut()).expect("and on to the next party");
        drop((first, second, third));
        let rest: Vec<_> = greedy.iter_mut().map_while(|waiting| poll(waiting.as_mut())).collect();
        assert_eq!(rest.len(), 2, "the first party gets further turns up to its maximum");
        drop(rest);
        drop(greedy);
        let state = turns.lock();
        assert!(state.taken.is_empty() && state.waiting.is_empty());
    }

    #[test]
    fn a_caller_that_stops_waiting_keeps_no_turn() {
        let turns = Turns::of(1);
        let turn = poll(pin!(turns.take(None))).expect("it is free");
        {
            let mut gone = pin!(turns.take(None));
            assert!(poll(gone.as_mut()).is_none());
        }
        let mut given = Box::pin(turns.take(Some(Party(1))));
        assert!(poll(given.as_mut()).is_none());
        drop(turn);
        // It was given a turn and never looked.
        drop(given);
        assert!(poll(pin!(turns.take(None))).is_some());
    }
}
