//! The threads that serve connections.
//!
//! Each has a runtime of its own, and a connection stays with the thread that it was given to: waking another thread
//! for a request costs more than answering it. A thread whose requests follow its answers closely stays awake for them:
//! see [`Lookout`].

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use tokio::runtime::{Builder, Handle};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::lookout::Lookout;

/// All threads that serve connections.
#[derive(Debug)]
pub(crate) struct Crew {
    /// The one that accepts connections.
    first: Arc<Hand>,
    /// Known when there is a second connection: to count the cores takes a while.
    others: OnceLock<Vec<Arc<Hand>>>,
    is_done: CancellationToken,
}

/// One thread.
#[derive(Debug, Default)]
struct Hand {
    /// Where its tasks run: none while it was not needed, and for the one that accepts.
    runtime: OnceLock<Option<Handle>>,
    connections: AtomicUsize,
    lookout: Arc<Lookout>,
}

impl Crew {
    /// Whoever runs the server, and nobody else.
    pub(super) fn of_one() -> Self {
        Self { first: Arc::default(), others: OnceLock::from(Vec::new()), is_done: CancellationToken::new() }
    }

    /// A thread for each core. All but this one start when they are needed, and end when the guard is dropped.
    pub(crate) fn of_all_cores() -> (Self, DropGuard) {
        let crew = Self { others: OnceLock::new(), ..Self::of_one() };
        let guard = crew.is_done.clone().drop_guard();
        (crew, guard)
    }

    /// What the thread that accepts has to do besides. It stays awake for requests only where it has nothing else to do
    /// and where there are more cores: nobody could send one meanwhile.
    pub(super) async fn keep_awake(&self) {
        self.first.lookout.wanted().await;
        if !self.others().is_empty() {
            self.first.lookout.keep().await;
        }
    }

    /// A place for a new connection, with whoever has the fewest.
    pub(super) fn seat(&self) -> Seat {
        let hand = if self.first.is_free() { &self.first } else { self.with_fewest() };
        hand.connections.fetch_add(1, Ordering::Relaxed);
        Seat { hand: Arc::clone(hand) }
    }

    fn with_fewest(&self) -> &Arc<Hand> {
        let others = self.others().iter().min_by_key(|hand| hand.connections.load(Ordering::Relaxed));
        let Some(other) = others.filter(|other| other.has_fewer_than(&self.first)) else { return &self.first };
        other.runtime.get_or_init(|| {
            let hired = hire(Arc::clone(&other.lookout), self.is_done.clone());
            hired.inspect_err(|error| tracing::warn!(%error, "no thread for connections")).ok()
        });
        other
    }

    fn others(&self) -> &[Arc<Hand>] {
        self.others.get_or_init(|| {
            let cores = std::thread::available_parallelism().map_or(1, usize::from);
            (1..cores).map(|_| Arc::default()).collect()
        })
    }
}

impl Hand {
    fn is_free(&self) -> bool {
        self.connections.load(Ordering::Relaxed) == 0
    }

    fn has_fewer_than(&self, other: &Self) -> bool {
        self.connections.load(Ordering::Relaxed) < other.connections.load(Ordering::Relaxed)
    }
}

/// Starts another thread.
fn hire(lookout: Arc<Lookout>, is_done: CancellationToken) -> io::Result<Handle> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let handle = runtime.handle().clone();
    let work = move || {
        runtime.spawn(async move { lookout.keep().await });
        runtime.block_on(is_done.cancelled());
        runtime.shutdown_background();
    };
    std::thread::Builder::new().name("connections".to_owned()).spawn(work)?;
    Ok(handle)
}

/// A connection's place with one of the threads, given back when this is dropped.
#[derive(Debug)]
pub(super) struct Seat {
    hand: Arc<Hand>,
}

impl Seat {
    /// Where the tasks of the connection run; none where that is here.
    pub(super) fn runtime(&self) -> Option<&Handle> {
        self.hand.runtime.get()?.as_ref()
    }

    /// Whoever is to know when requests come and are answered.
    pub(super) fn lookout(&self) -> &Lookout {
        &self.hand.lookout
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.hand.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_go_to_whoever_has_the_fewest() {
        let crew = Crew { others: OnceLock::from(vec![Arc::default()]), ..Crew::of_one() };
        let first = crew.seat();
        assert!(first.runtime().is_none(), "with whoever accepts");
        let second = crew.seat();
        assert!(second.runtime().is_some(), "with somebody else");
        drop(first);
        let third = crew.seat();
        assert!(third.runtime().is_none(), "there is room again");
        crew.is_done.cancel();
    }
}
