//! All open connections: how many there may be, and which give way when there are too many.
//!
//! A connection belongs to the address that it comes from, and to a principal as soon as one proves its identity on it. The
//! rule is that of [`giving_way`]: connections without a request under way give way first, and a party below its share
//! always gets a connection.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use gladhand_core::sync::Unpoisoned as _;
use gladhand_dialects::Party;
use gladhand_dialects::shares::{Holder, giving_way};
use gladhand_hub::Portions;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, TryAcquireError};
use tokio_util::sync::CancellationToken;

use super::served::ConnectionState;
use crate::memory;

/// How often it is looked whether many connections are gone.
const TIDY: Duration = Duration::from_secs(2);

/// When the number of connections has dropped by this many, unused memory is given back.
const MANY: usize = 500;

/// At how many looks after that it is given back too.
const LOOKS: u8 = 2;

/// The same when sessions have released this many bytes.
const MUCH: usize = 32 * 1024 * 1024;

/// All open connections.
#[derive(Debug)]
pub(super) struct Connections {
    most: usize,
    /// One for each connection that may be open, also while it is being closed.
    seats: Arc<Semaphore>,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    lines: HashMap<u64, Arc<ConnectionState>>,
    /// How many there have been.
    opened: u64,
    /// The most that there were at once since memory was last given back.
    peak: usize,
    /// The memory that sessions had returned (`Portions::returned`) when memory was last given back.
    returned: usize,
    /// At how many more looks memory is given back: the rest of a burst may still go, or be freed only now.
    looks_left: u8,
}

/// The permit of one open connection. Dropping it gives the permit back.
#[derive(Debug)]
pub(super) struct ConnectionPermit {
    connections: Arc<Connections>,
    id: u64,
    pub(super) line: Arc<ConnectionState>,
    _seat: OwnedSemaphorePermit,
}

impl Connections {
    /// A limit of `most` connections.
    pub(super) fn of(most: usize) -> Self {
        Self { most, seats: Arc::new(Semaphore::new(most)), open: Mutex::default() }
    }

    /// The permit for a new connection of a party. `None` if the party has its share and all are in use, or on shutdown.
    pub(super) async fn admit(
        self: &Arc<Self>,
        party: Party,
        stopping: &CancellationToken,
    ) -> Option<ConnectionPermit> {
        let seat = match Arc::clone(&self.seats).try_acquire_owned() {
            Ok(seat) => seat,
            Err(TryAcquireError::Closed) => return None,
            // Those who give way are gone in a moment.
            Err(TryAcquireError::NoPermits) if self.make_room(party) => {
                Arc::clone(&self.seats).acquire_owned().await.ok()?
            }
            Err(TryAcquireError::NoPermits) => return None,
        };
        let line = Arc::new(ConnectionState::new(party, stopping.child_token()));
        let mut open = self.lock();
        open.opened += 1;
        let id = open.opened;
        open.lines.insert(id, Arc::clone(&line));
        open.peak = open.peak.max(open.lines.len());
        drop(open);
        Some(ConnectionPermit { connections: Arc::clone(self), id, line, _seat: seat })
    }

    /// No connection is accepted any more.
    pub(super) fn close(&self) {
        self.seats.close();
    }

    /// Gives the memory of many connections, and of large sessions, back to the system after they are gone, again and again.
    pub(super) async fn give_memory_back(&self) {
        loop {
            tokio::time::sleep(TIDY).await;
            if self.has_shrunk() {
                // It holds up those who want memory meanwhile, so it is done for many connections at once.
                let _ = tokio::task::spawn_blocking(memory::give_back).await;
            }
        }
    }

    /// Whether many connections, or much that sessions kept, are gone since this was last so.
    fn has_shrunk(&self) -> bool {
        let (mut open, returned) = (self.lock(), Portions::returned());
        let is_rest = open.looks_left > 0 && open.peak > open.lines.len();
        let has_shrunk = open.peak >= open.lines.len() + MANY || returned - open.returned >= MUCH || is_rest;
        let gives_back = has_shrunk || open.looks_left > 0;
        if has_shrunk {
            open.returned = returned;
            open.peak = open.lines.len();
            open.lines.shrink_to_fit();
            open.looks_left = LOOKS;
        } else {
            open.looks_left = open.looks_left.saturating_sub(1);
        }
        gives_back
    }

    /// Ends connections that give way to a newcomer; says whether there are any.
    fn make_room(&self, newcomer: Party) -> bool {
        let mut open = self.lock();
        let holder = |(id, line): (&u64, &Arc<ConnectionState>)| Holder {
            id: *id,
            party: line.party(),
            used: line.used(),
            is_idle: line.at_rest().is_some(),
        };
        let holders: Vec<_> = open.lines.iter().map(holder).collect();
        let leaving = giving_way(self.most, &holders, newcomer);
        tracing::debug!(ended = leaving.len(), "too many connections");
        // Not to be asked twice.
        leaving.iter().filter_map(|id| open.lines.remove(id)).for_each(|line| line.leave());
        !leaving.is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unpoisoned()
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.connections.lock().lines.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_idle_connection_gives_way_and_a_busy_one_only_above_its_share() {
        let (connections, stopping) = (Arc::new(Connections::of(2)), CancellationToken::new());
        let admit = |party: u64| {
            let (connections, stopping) = (Arc::clone(&connections), stopping.clone());
            tokio::spawn(async move { connections.admit(Party(party), &stopping).await })
        };
        let first = admit(1).await.unwrap().expect("there is room");
        let second = admit(1).await.unwrap().expect("there is room");
        second.line.ask();
        let third = admit(1);
        first.line.leaving().cancelled().await;
        assert!(!second.line.leaving().is_cancelled(), "it has a request under way");
        drop(first);
        let third = third.await.unwrap().expect("there is room again");
        third.line.ask();
        assert!(admit(1).await.unwrap().is_none(), "all are in use by the same party");
        let other = admit(2);
        second.line.leaving().cancelled().await;
        drop(second);
        let other = other.await.unwrap().expect("its share");
        other.line.ask();
        assert!(admit(2).await.unwrap().is_none() && admit(1).await.unwrap().is_none(), "both have their shares");
        connections.close();
        drop(other);
        assert!(admit(2).await.unwrap().is_none());
    }

    #[test]
    fn memory_is_given_back_after_sessions_returned_much() {
        let connections = Connections::of(2);
        connections.has_shrunk();
        drop(Portions::lasting(MUCH, 0).portion(Party(1)).with(MUCH));
        assert!(connections.has_shrunk());
        (0..LOOKS).for_each(|_| assert!(connections.has_shrunk(), "what is freed late is given back too"));
    }

    #[tokio::test]
    async fn a_connection_counts_for_the_principal_that_uses_it() {
        let (connections, stopping) = (Arc::new(Connections::of(2)), CancellationToken::new());
        let first = connections.admit(Party(1), &stopping).await.expect("there is room");
        let second = connections.admit(Party(1), &stopping).await.expect("there is room");
        first.line.belongs_to(Party(7));
        first.line.ask();
        second.line.ask();
        assert!(
            connections.admit(Party(7), &stopping).await.is_none()
                && connections.admit(Party(1), &stopping).await.is_none()
        );
        assert!(
            !stopping.is_cancelled() && !first.line.leaving().is_cancelled() && !second.line.leaving().is_cancelled()
        );
    }
}
