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

/// All threads that serve connections, the one that accepts them first.
#[derive(Debug)]
pub(crate) struct Crew {
    hands: Vec<Arc<Hand>>,
    /// Whether its threads stay awake for requests: they must have nothing else to do, and where there is only one core
    /// nobody sends a request while we are awake.
    stays_awake: bool,
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
        Self { hands: vec![Arc::default()], stays_awake: false, is_done: CancellationToken::new() }
    }

    /// A thread for each core. All but this one start when they are needed, and end when the guard is dropped.
    pub(crate) fn of_all_cores() -> (Self, DropGuard) {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let is_done = CancellationToken::new();
        let guard = is_done.clone().drop_guard();
        (Self { hands: (0..cores).map(|_| Arc::default()).collect(), stays_awake: cores > 1, is_done }, guard)
    }

    /// What the thread that accepts has to do besides.
    pub(super) async fn keep_awake(&self) {
        if self.stays_awake
            && let Some(hand) = self.hands.first()
        {
            hand.lookout.keep().await;
        }
    }

    /// A place for a new connection, with whoever has the fewest.
    pub(super) fn seat(&self) -> Seat {
        let hands = self.hands.iter().enumerate();
        let fewest = hands.min_by_key(|(_, hand)| hand.connections.load(Ordering::Relaxed));
        let (index, hand) = fewest.expect("there is always one");
        if index > 0 {
            hand.runtime.get_or_init(|| {
                let hired = hire(Arc::clone(&hand.lookout), self.is_done.clone());
                hired.inspect_err(|error| tracing::warn!(%error, "no thread for connections")).ok()
            });
        }
        hand.connections.fetch_add(1, Ordering::Relaxed);
        Seat { hand: Arc::clone(hand) }
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
        let crew = Crew { hands: vec![Arc::default(), Arc::default()], ..Crew::of_one() };
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
