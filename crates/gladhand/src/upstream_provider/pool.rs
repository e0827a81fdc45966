//! Connections that are used by one call at a time, so that whoever is asked something can only be that call's caller.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gladhand_core::operations::{Failure, FailureKind, Party};
use gladhand_dialects::Declared;
use gladhand_dialects::shares::Bound;
use tokio::sync::{Notify, oneshot};

use super::hosting::CallHost;
use super::upstream_connection::UpstreamConnection;

/// How many connections there may be at once for callers who can be asked the same things, of which no party gets more than
/// half of what the others leave; further calls wait for their turn, and calls whose callers do not answer give connection.
const MOST: usize = 16;

/// How many calls may wait for their turn, shared in the same connection.
const MOST_WAITING: usize = 256;

/// How many kinds of callers are told apart; of more, the connections of the others are let go first.
const KINDS: usize = 16;

/// The connections for all kinds of callers.
#[derive(Debug, Default)]
pub(super) struct Pools {
    by_kind: HashMap<String, Arc<Pool>>,
}

impl Pools {
    /// The connections for callers of one identity who can be asked these things. What one caller left behind must never reach
    /// another: an upstream may still ask something when its call has long ended.
    pub(super) fn of(&mut self, identity: &str, declares: &Declared) -> Arc<Pool> {
        let kind = declares.iter().map(|(capability, settings)| {
            format!("{}={}\n", capability.0, settings.as_ref().map_or("", |raw| raw.get()))
        });
        let kind: String = std::iter::once(format!("{identity}\n")).chain(kind).collect();
        if self.by_kind.len() >= KINDS && !self.by_kind.contains_key(&kind) {
            self.by_kind.retain(|_, pool| Arc::strong_count(pool) > 1);
        }
        Arc::clone(self.by_kind.entry(kind).or_default())
    }

    /// All connections, used or not.
    pub(super) fn connections(&self) -> Vec<Arc<UpstreamConnection>> {
        let connections = |pool: &Arc<Pool>| {
            let state = pool.lock();
            let taken = state.taken.iter().map(|taken| Arc::clone(&taken.connection));
            state.idle.iter().cloned().chain(taken).collect::<Vec<_>>()
        };
        self.by_kind.values().flat_map(connections).collect()
    }

    /// Takes all connections that nobody uses.
    pub(super) fn drain(&mut self) -> Vec<Arc<UpstreamConnection>> {
        self.by_kind.drain().flat_map(|(_, pool)| std::mem::take(&mut pool.lock().idle)).collect()
    }

    /// Takes a connection that nobody uses and whose place others need.
    pub(super) fn spare(&self) -> Option<Arc<UpstreamConnection>> {
        self.by_kind.values().find_map(|pool| {
            let idle = &mut pool.lock().idle;
            (!idle.is_empty()).then(|| idle.remove(0))
        })
    }
}

/// The connections for one kind of callers.
#[derive(Debug, Default)]
pub(super) struct Pool {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Connections that nobody uses, the one used last at the end: it is the one that is used next.
    idle: Vec<Arc<UpstreamConnection>>,
    /// Calls that have a connection, the oldest first.
    taken: Vec<Arc<Taken>>,
    /// Whose turns are under connection, whether they have a connection yet or not.
    turns: Vec<Option<Party>>,
    /// Calls that wait for their turn, the oldest first.
    waiting: VecDeque<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    party: Option<Party>,
    turn: oneshot::Sender<Permit>,
}

/// A call that has a connection.
#[derive(Debug)]
struct Taken {
    call: Arc<CallHost>,
    party: Option<Party>,
    connection: Arc<UpstreamConnection>,
    wanted: Notify,
    /// Whether it was told that somebody else needs the connection more.
    gives_way: AtomicBool,
}

impl State {
    fn admits(&self, party: Option<Party>) -> bool {
        self.would_admit(party, self.turns.len())
    }

    /// Whether a party could have a turn if so many were taken.
    fn would_admit(&self, party: Option<Party>, taken: usize) -> bool {
        let own = |party| self.turns.iter().filter(|turn| **turn == Some(party)).count();
        Bound { limit: MOST, used: taken }.admits(1, party, own)
    }

    fn lets_wait(&self, party: Option<Party>) -> bool {
        let own = |party| self.waiting.iter().filter(|waiting| waiting.party == Some(party)).count();
        Bound { limit: MOST_WAITING, used: self.waiting.len() }.admits(1, party, own)
    }

    /// Tells the oldest call that waits for its caller to give connection to a call of this party. Who has had its share can
    /// only ask its own.
    fn make_room(&self, party: Option<Party>) {
        let may_ask_others = self.turns.len() >= MOST && self.would_admit(party, MOST - 1);
        let may_go = |taken: &&Arc<Taken>| {
            let is_asked = taken.gives_way.load(Ordering::Relaxed) || !taken.call.is_waiting();
            !is_asked && (may_ask_others || taken.party == party)
        };
        if let Some(oldest) = self.taken.iter().find(may_go) {
            oldest.gives_way.store(true, Ordering::Relaxed);
            oldest.wanted.notify_one();
        }
    }

    /// The next call whose turn it is.
    fn next(&mut self) -> Option<Waiting> {
        self.waiting.retain(|waiting| !waiting.turn.is_closed());
        let at = self.waiting.iter().position(|waiting| self.admits(waiting.party))?;
        let next = self.waiting.remove(at)?;
        self.turns.push(next.party);
        Some(next)
    }
}

/// The right to a turn, as long as this is kept.
#[derive(Debug)]
struct Permit {
    pool: Arc<Pool>,
    party: Option<Party>,
}

impl Drop for Permit {
    fn drop(&mut self) {
        {
            let mut state = self.pool.lock();
            if let Some(at) = state.turns.iter().position(|party| *party == self.party) {
                state.turns.swap_remove(at);
            }
        }
        self.pool.serve();
    }
}

impl Pool {
    /// A connection that nobody else uses until the turn is dropped; `another` makes one if there is room for it.
    ///
    /// A caller without a session may never come back to answer what it was asked, and nobody would notice. So if all
    /// connections are taken, the oldest call that waits for its caller gives connection.
    pub(super) async fn turn(
        self: &Arc<Self>,
        call: &Arc<CallHost>,
        party: Option<Party>,
        another: impl FnOnce() -> Option<Arc<UpstreamConnection>>,
    ) -> Result<Turn, Failure> {
        let busy = |why: &str| Failure::new(FailureKind::Busy, why);
        let permit = self.permit(party).ok_or_else(|| busy("too many calls wait for the server"))?;
        let permit = permit.await.map_err(|_| busy("the server is being closed"))?;
        let idle = self.lock().idle.pop();
        let connection = idle.or_else(another).ok_or_else(|| busy("there is no room for another server of its own"))?;
        let (wanted, gives_way) = (Notify::new(), AtomicBool::new(false));
        let taken = Arc::new(Taken { call: Arc::clone(call), party, connection, wanted, gives_way });
        self.lock().taken.push(Arc::clone(&taken));
        Ok(Turn { taken, is_over: false, permit })
    }

    /// Queues for a turn; `None` if too many do already.
    fn permit(self: &Arc<Self>, party: Option<Party>) -> Option<oneshot::Receiver<Permit>> {
        let (turn, permit) = oneshot::channel();
        {
            let mut state = self.lock();
            state.waiting.retain(|waiting| !waiting.turn.is_closed());
            if !state.lets_wait(party) {
                return None;
            }
            if !state.admits(party) {
                state.make_room(party);
            }
            state.waiting.push_back(Waiting { party, turn });
        }
        self.serve();
        Some(permit)
    }

    /// Hands out the turns that there are.
    fn serve(self: &Arc<Self>) {
        loop {
            let Some(Waiting { party, turn }) = self.lock().next() else { return };
            // Whoever stopped waiting at this very moment gives it back.
            let _ = turn.send(Permit { pool: Arc::clone(self), party });
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A turn on a connection.
#[derive(Debug)]
pub(super) struct Turn {
    taken: Arc<Taken>,
    /// Whether the call has come to its end, so that nothing of it is left on the connection.
    is_over: bool,
    permit: Permit,
}

impl Turn {
    pub(super) fn connection(&self) -> &Arc<UpstreamConnection> {
        &self.taken.connection
    }

    /// The call has come to its end: the connection may be used again.
    pub(super) fn end(mut self) {
        self.is_over = true;
    }

    /// Ends when somebody else needs the connection more.
    pub(super) async fn wanted(&self) {
        self.taken.wanted.notified().await;
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut state = self.permit.pool.lock();
        state.taken.retain(|taken| !Arc::ptr_eq(taken, &self.taken));
        if self.is_over {
            state.idle.push(Arc::clone(&self.taken.connection));
        } else if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let connection = Arc::clone(&self.taken.connection);
            runtime.spawn(async move { connection.close().await });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_of_different_identity_share_no_connection() {
        let mut pools = Pools::default();
        let mut of = |identity: &str| pools.of(identity, &Vec::new());
        let (alice, bob, again) = (of("alice"), of("bob"), of("alice"));
        assert!(!Arc::ptr_eq(&alice, &bob) && Arc::ptr_eq(&alice, &again));
    }

    /// Queues for a turn, and takes it if there is one.
    fn ask(pool: &Arc<Pool>, party: u64) -> Result<Permit, oneshot::Receiver<Permit>> {
        let mut permit = pool.permit(Some(Party(party))).expect("there is room to wait");
        permit.try_recv().map_err(|_| permit)
    }

    #[test]
    fn no_party_takes_all_the_turns_and_whoever_waits_longest_is_next() {
        let pool = Arc::new(Pool::default());
        let mut turns: Vec<_> = (0..MOST / 2).map(|_| ask(&pool, 1).unwrap()).collect();
        let mut waiting: Vec<_> = (0..2).map(|_| ask(&pool, 1).unwrap_err()).collect();
        let other = ask(&pool, 2).unwrap();
        drop(turns.pop());
        assert!(waiting[0].try_recv().is_ok_and(|turn| turn.party == Some(Party(1))));
        assert!(waiting[1].try_recv().is_ok(), "the first was given back at once, and the next one has it");
        drop(other);
    }

    #[test]
    fn who_stops_waiting_keeps_nobody_and_who_waits_too_often_is_told() {
        let pool = Arc::new(Pool::default());
        let turns: Vec<_> = (0..MOST / 2).map(|_| ask(&pool, 1).unwrap()).collect();
        let waiting: Vec<_> = std::iter::from_fn(|| pool.permit(Some(Party(1)))).collect();
        assert_eq!(waiting.len(), MOST_WAITING / 2);
        assert!(pool.permit(Some(Party(2))).is_some(), "others may still wait, and have a turn");
        drop(waiting);
        drop(turns);
        assert!(ask(&pool, 1).is_ok());
        assert_eq!(pool.lock().turns.len(), 0, "nobody has one any more");
    }
}
