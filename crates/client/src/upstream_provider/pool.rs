//! A pool of connections that serve one call at a time, so that a server request can only be for the caller of that
//! call.
//!
//! A client without a session expects that its next call finds the server state that its last call left. The next call
//! therefore gets the oldest idle connection, and the connection of a cancelled call is kept:
//!
//! - Only the party that cancelled the call uses the connection from then on. The server may ignore the cancellation,
//!   continue the call and send a request, which would reach the call that uses the connection by then.
//! - The server must first answer another request. Many servers run one call at a time, and a new call would wait for
//!   the cancelled one. If the server does not answer in time, it is closed, and the next call gets another connection.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use gladhand_core::operations::{Failure, FailureKind, Party};
use gladhand_core::sync::Unpoisoned as _;
use gladhand_dialects::Declared;
use gladhand_dialects::shares::Bound;
use tokio::sync::{Notify, oneshot, watch};

use super::events::CallEvents;
use super::upstream_connection::UpstreamConnection;

/// The maximum number of connections for callers with the same client features. No party gets more than half of what
/// the others leave. Further calls wait for a turn, and calls whose callers do not answer a server request give way.
const MOST: usize = 16;

/// How many calls may wait for a turn, shared between parties in the same way.
const MOST_WAITING: usize = 256;

/// How many kinds of callers have a pool. Above this, the connections of other kinds are closed first.
const KINDS: usize = 16;

/// The connections for all kinds of callers.
#[derive(Debug, Default)]
pub(super) struct Pools {
    by_kind: HashMap<String, Arc<Pool>>,
}

impl Pools {
    /// The pool for callers of one identity with these client features. State that one caller left must never reach
    /// another: an upstream may still send a request long after its call has ended.
    pub(super) fn of(&mut self, identity: &str, declares: &Declared) -> Arc<Pool> {
        let kind = declares.iter().map(|(capability, settings)| {
            format!("{}={}\n", capability.0, settings.as_ref().map_or("", |raw| raw.get()))
        });
        let kind: String = std::iter::once(format!("{identity}\n")).chain(kind).collect();
        if self.by_kind.len() >= KINDS && !self.by_kind.contains_key(&kind) {
            // Unused pools of the same identity first: with many kinds of calls, one caller must not end those of others.
            let (before, of_identity) = (self.by_kind.len(), format!("{identity}\n"));
            self.by_kind.retain(|kind, pool| Arc::strong_count(pool) > 1 || !kind.starts_with(&of_identity));
            if self.by_kind.len() == before {
                self.by_kind.retain(|_, pool| Arc::strong_count(pool) > 1);
            }
        }
        Arc::clone(self.by_kind.entry(kind).or_default())
    }

    /// All connections, used or not.
    pub(super) fn connections(&self) -> Vec<Arc<UpstreamConnection>> {
        let connections = |pool: &Arc<Pool>| {
            let state = pool.lock();
            let members =
                state.idle.iter().map(|idle| &idle.member).chain(state.taken.iter().map(|taken| &taken.member));
            members.map(|member| Arc::clone(&member.connection)).collect::<Vec<_>>()
        };
        self.by_kind.values().flat_map(connections).collect()
    }

    /// Takes all idle connections.
    pub(super) fn drain(&mut self) -> Vec<Arc<UpstreamConnection>> {
        let idle = self.by_kind.drain().flat_map(|(_, pool)| std::mem::take(&mut pool.lock().idle));
        idle.map(|idle| idle.member.connection).collect()
    }

    /// Takes an idle connection whose place is needed elsewhere.
    pub(super) fn spare(&self) -> Option<Arc<UpstreamConnection>> {
        self.by_kind.values().find_map(|pool| pool.lock().idle.pop()).map(|idle| idle.member.connection)
    }
}

/// The connections for one kind of callers.
#[derive(Debug, Default)]
pub(super) struct Pool {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Connections that no call uses, the oldest first.
    idle: Vec<Idle>,
    /// How many connections there have been.
    made: u64,
    /// Calls that have a connection, the oldest first.
    taken: Vec<Arc<Taken>>,
    /// The party of each turn in use, with or without a connection yet.
    turns: Vec<Option<Party>>,
    /// Calls that wait for their turn, the oldest first.
    waiting: VecDeque<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    party: Option<Party>,
    turn: oneshot::Sender<Permit>,
}

/// A connection of the pool.
#[derive(Debug, Clone)]
struct Member {
    connection: Arc<UpstreamConnection>,
    /// A running number: an older connection has a smaller one.
    number: u64,
    users: Users,
}

/// Whose calls may use a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Users {
    All,
    /// Only calls of the party that cancelled a call there.
    Only(Option<Party>),
}

/// A connection that no call uses.
#[derive(Debug)]
struct Idle {
    member: Member,
    /// The check whether the server still answers after a cancelled call. The channel closes when the check is over. If
    /// the server does not answer, the connection leaves the idle list before that.
    check: Option<watch::Receiver<()>>,
}

impl Idle {
    fn is_for(&self, party: Option<Party>) -> bool {
        match self.member.users {
            Users::All => true,
            Users::Only(only) => only == party,
        }
    }

    /// The running check, if any.
    fn check(&self) -> Option<watch::Receiver<()>> {
        self.check.clone().filter(|check| check.has_changed().is_ok())
    }
}

/// A call that has a connection.
#[derive(Debug)]
struct Taken {
    call: Arc<CallEvents>,
    party: Option<Party>,
    member: Member,
    wanted: Notify,
    /// Whether the call was asked to give way.
    gives_way: AtomicBool,
}

impl State {
    fn admits(&self, party: Option<Party>) -> bool {
        self.would_admit(party, self.turns.len())
    }

    /// Whether a party could get a turn if this many were taken.
    fn would_admit(&self, party: Option<Party>, taken: usize) -> bool {
        let own = |party| self.turns.iter().filter(|turn| **turn == Some(party)).count();
        Bound { limit: MOST, used: taken }.admits(1, party, own)
    }

    fn lets_wait(&self, party: Option<Party>) -> bool {
        let own = |party| self.waiting.iter().filter(|waiting| waiting.party == Some(party)).count();
        Bound { limit: MOST_WAITING, used: self.waiting.len() }.admits(1, party, own)
    }

    /// Asks the oldest call that waits for its caller to give way to a call of this party. A party that has used up its
    /// share can only displace its own calls.
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

    /// Takes the oldest idle connection that this party may use. If the server there is being checked, returns the
    /// check and takes nothing.
    fn take_idle(&mut self, party: Option<Party>) -> Option<Result<Member, watch::Receiver<()>>> {
        let at = self.idle.iter().position(|idle| idle.is_for(party))?;
        Some(match self.idle[at].check() {
            Some(check) => Err(check),
            None => Ok(self.idle.remove(at).member),
        })
    }

    /// Takes an idle connection of another party if the pool is too large for one more. Without this limit, each party
    /// could leave behind a connection that no other party may use.
    fn excess(&mut self) -> Option<Arc<UpstreamConnection>> {
        // Each turn has a connection, or is about to get one.
        let are_too_many = self.idle.len() + self.turns.len() > MOST;
        self.idle.pop_if(|_| are_too_many).map(|idle| idle.member.connection)
    }

    fn add_idle(&mut self, idle: Idle) {
        let at = self.idle.partition_point(|older| older.member.number < idle.member.number);
        self.idle.insert(at, idle);
    }

    /// Takes the next call that may have a turn.
    fn next(&mut self) -> Option<Waiting> {
        self.waiting.retain(|waiting| !waiting.turn.is_closed());
        let at = self.waiting.iter().position(|waiting| self.admits(waiting.party))?;
        let next = self.waiting.remove(at)?;
        self.turns.push(next.party);
        Some(next)
    }
}

/// The right to a turn, until it is dropped.
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
    /// Returns a connection for exclusive use until the turn is dropped. `another` creates one if there is room.
    ///
    /// A caller without a session may never return to answer a server request, and the server cannot notice that. If
    /// all connections are taken, the oldest call that waits for its caller therefore gives way.
    pub(super) async fn turn(
        self: &Arc<Self>,
        call: &Arc<CallEvents>,
        party: Option<Party>,
        another: impl FnOnce() -> Option<Arc<UpstreamConnection>>,
    ) -> Result<Turn, Failure> {
        let busy = |why: &str| Failure::new(FailureKind::Busy, why);
        let permit = self.permit(party).ok_or_else(|| busy("too many calls wait for the server"))?;
        let permit = permit.await.map_err(|_| busy("the server is being closed"))?;
        let idle = self.idle(party).await;
        let member = match idle {
            Some(member) => member,
            None => {
                if let Some(connection) = self.lock().excess() {
                    connection.vacate();
                    tokio::spawn(async move { connection.close().await });
                }
                self.add(another().ok_or_else(|| busy("there is no room for another server of its own"))?)
            }
        };
        let (wanted, gives_way) = (Notify::new(), AtomicBool::new(false));
        let taken = Arc::new(Taken { call: Arc::clone(call), party, member, wanted, gives_way });
        self.lock().taken.push(Arc::clone(&taken));
        Ok(Turn { taken, afterwards: Afterwards::Close, permit })
    }

    /// An idle connection for a call of a party. Waits for a running check of the server.
    async fn idle(&self, party: Option<Party>) -> Option<Member> {
        loop {
            let taken = self.lock().take_idle(party)?;
            match taken {
                Ok(member) => return Some(member),
                Err(mut check) => {
                    // Ends with an error when the check is over: nothing is ever sent.
                    let _ = check.changed().await;
                }
            }
        }
    }

    fn add(&self, connection: Arc<UpstreamConnection>) -> Member {
        let mut state = self.lock();
        state.made += 1;
        Member { connection, number: state.made, users: Users::All }
    }

    /// Keeps the connection of a cancelled call. If the server no longer answers, the connection is closed.
    fn keep(self: &Arc<Self>, member: Member, runtime: &tokio::runtime::Handle) {
        let (connection, (done, check)) = (Arc::clone(&member.connection), watch::channel(()));
        self.lock().add_idle(Idle { member, check: Some(check) });
        let pool = Arc::downgrade(self);
        runtime.spawn(async move {
            if connection.is_answering().await {
                return;
            }
            tracing::debug!(
                upstream = connection.name(),
                "server closed: it does not answer after a call was cancelled"
            );
            if let Some(pool) = pool.upgrade() {
                pool.lock().idle.retain(|idle| !Arc::ptr_eq(&idle.member.connection, &connection));
            }
            drop(done);
            connection.close().await;
        });
    }

    /// Queues for a turn. Returns `None` if the queue is full.
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

    /// Hands out the free turns.
    fn serve(self: &Arc<Self>) {
        loop {
            let Some(Waiting { party, turn }) = self.lock().next() else { return };
            // If the receiver is gone, the permit is dropped, which returns the turn.
            let _ = turn.send(Permit { pool: Arc::clone(self), party });
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unpoisoned()
    }
}

/// A turn on a connection.
#[derive(Debug)]
pub(super) struct Turn {
    taken: Arc<Taken>,
    afterwards: Afterwards,
    permit: Permit,
}

/// The fate of a connection when its turn is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Afterwards {
    /// Any call of the pool may use it.
    Reuse,
    /// The server may still be busy with the call. The connection is reused if the server answers.
    Keep,
    Close,
}

impl Turn {
    pub(super) fn connection(&self) -> &Arc<UpstreamConnection> {
        &self.taken.member.connection
    }

    /// The call has ended, so the connection may be reused.
    pub(super) fn end(mut self) {
        self.afterwards = Afterwards::Reuse;
    }

    /// From now on, a cancelled call leaves its connection to the next call of its party.
    pub(super) fn outlives_its_call(&mut self) {
        self.afterwards = Afterwards::Keep;
    }

    /// Closes the connection: a server request of its call is open, and its caller does not answer.
    pub(super) fn close(mut self) {
        self.afterwards = Afterwards::Close;
    }

    /// Completes when another call needs the connection more.
    pub(super) async fn wanted(&self) {
        self.taken.wanted.notified().await;
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let (pool, mut member) = (&self.permit.pool, self.taken.member.clone());
        pool.lock().taken.retain(|taken| !Arc::ptr_eq(taken, &self.taken));
        // Without a session, no call was made or the server is gone.
        let has_leftovers = member.connection.session().is_some();
        match (self.afterwards, tokio::runtime::Handle::try_current()) {
            (Afterwards::Keep, Ok(runtime)) if has_leftovers => {
                member.users = Users::Only(self.taken.party);
                pool.keep(member, &runtime);
            }
            (Afterwards::Reuse | Afterwards::Keep, _) => pool.lock().add_idle(Idle { member, check: None }),
            (Afterwards::Close, Ok(runtime)) => drop(runtime.spawn(async move { member.connection.close().await })),
            (Afterwards::Close, Err(_)) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;
    use crate::upstream::{Options, Target};
    use crate::upstream_provider::events::ConnectionEvents;
    use crate::upstream_provider::upstream_connection::ClientProfile;
    use crate::upstream_provider::{ConnectionBudget, Spec};

    #[test]
    fn callers_of_different_identity_share_no_connection() {
        let mut pools = Pools::default();
        let mut of = |identity: &str| pools.of(identity, &Vec::new());
        let (alice, bob, again) = (of("alice"), of("bob"), of("alice"));
        assert!(!Arc::ptr_eq(&alice, &bob) && Arc::ptr_eq(&alice, &again));
    }

    /// Queues for a turn, and takes it if one is free.
    fn ask(pool: &Arc<Pool>, party: u64) -> Result<Permit, oneshot::Receiver<Permit>> {
        let mut permit = pool.permit(Some(Party(party))).expect("the queue has room");
        permit.try_recv().map_err(|_| permit)
    }

    /// An idle connection that was never opened.
    fn idle(pool: &Pool, users: Users, check: Option<watch::Receiver<()>>) -> u64 {
        let spec = Arc::new(Spec {
            name: "test".to_owned(),
            target: Target::Command(vec!["true".to_owned()]),
            options: Options::default(),
            isolated: false,
            client_roots: Vec::new(),
            connection_budget: ConnectionBudget::default(),
            list_wait: None,
            remembered_in: None,
        });
        let events = ConnectionEvents::new(None, None, Arc::default(), None);
        let connection = UpstreamConnection::new(spec, ClientProfile::default(), events, None);
        let member = Member { users, ..pool.add(connection) };
        let number = member.number;
        pool.lock().add_idle(Idle { member, check });
        number
    }

    #[tokio::test]
    async fn the_oldest_connection_comes_first_and_that_of_a_cancelled_call_is_for_its_party_alone() {
        let pool = Arc::new(Pool::default());
        let (ann, bob) = (Some(Party(1)), Some(Party(2)));
        let cancelled = idle(&pool, Users::Only(ann), None);
        let (first, second) = (idle(&pool, Users::All, None), idle(&pool, Users::All, None));
        let take = async |party| pool.idle(party).await.map(|member| member.number);
        assert_eq!(take(bob).await, Some(first));
        assert_eq!(take(ann).await, Some(cancelled));
        assert_eq!(take(ann).await, Some(second));
        let again = idle(&pool, Users::Only(ann), None);
        assert_eq!((take(bob).await, take(None).await, take(ann).await), (None, None, Some(again)));
    }

    #[test]
    fn idle_connections_of_parties_are_bounded() {
        let pool = Arc::new(Pool::default());
        for party in 0..MOST as u64 - 1 {
            idle(&pool, Users::Only(Some(Party(party))), None);
        }
        let first = ask(&pool, 100).unwrap();
        assert!(pool.lock().excess().is_none());
        let second = ask(&pool, 101).unwrap();
        assert!(pool.lock().excess().is_some() && pool.lock().excess().is_none());
        drop((first, second));
    }

    #[tokio::test]
    async fn a_call_waits_until_its_server_is_known_to_answer() {
        let pool = Arc::new(Pool::default());
        let (done, check) = watch::channel(());
        let checked = idle(&pool, Users::Only(None), Some(check));
        let mut taking = std::pin::pin!(pool.idle(None));
        assert!(taking.as_mut().now_or_never().is_none());
        drop(done);
        assert_eq!(taking.await.map(|member| member.number), Some(checked));
        // If the server does not answer, its connection is removed before the check is over.
        let (done, check) = watch::channel(());
        idle(&pool, Users::Only(None), Some(check));
        let mut taking = std::pin::pin!(pool.idle(None));
        assert!(taking.as_mut().now_or_never().is_none());
        pool.lock().idle.clear();
        drop(done);
        assert!(taking.await.is_none());
    }

    #[test]
    fn a_party_gets_half_of_the_turns_and_the_longest_waiting_call_is_next() {
        let pool = Arc::new(Pool::default());
        let mut turns: Vec<_> = (0..MOST / 2).map(|_| ask(&pool, 1).unwrap()).collect();
        let mut waiting: Vec<_> = (0..2).map(|_| ask(&pool, 1).unwrap_err()).collect();
        let other = ask(&pool, 2).unwrap();
        drop(turns.pop());
        assert!(waiting[0].try_recv().is_ok_and(|turn| turn.party == Some(Party(1))));
        assert!(waiting[1].try_recv().is_ok(), "the first turn was returned, and the next call has it");
        drop(other);
    }

    #[test]
    fn an_abandoned_wait_frees_its_turn_and_waiting_calls_are_limited() {
        let pool = Arc::new(Pool::default());
        let turns: Vec<_> = (0..MOST / 2).map(|_| ask(&pool, 1).unwrap()).collect();
        let waiting: Vec<_> = std::iter::from_fn(|| pool.permit(Some(Party(1)))).collect();
        assert_eq!(waiting.len(), MOST_WAITING / 2);
        assert!(pool.permit(Some(Party(2))).is_some(), "other parties may still wait and get a turn");
        drop(waiting);
        drop(turns);
        assert!(ask(&pool, 1).is_ok());
        assert_eq!(pool.lock().turns.len(), 0, "all turns were returned");
    }
}
