//! The threads that serve connections.
//!
//! Each has a runtime of its own, and a connection stays with the thread that it was given to: waking another thread
//! for a request costs more than answering it. A thread whose requests follow its answers closely stays awake for them:
//! see [`BusyPoller`].

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use tokio::runtime::{Builder, Handle};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::edges::busy_poll::BusyPoller;

/// All threads that serve connections.
#[derive(Debug)]
pub(crate) struct WorkerThreads {
    /// The one that accepts connections.
    first: Arc<Worker>,
    /// Known when there is a second connection: to count the cores takes a while.
    others: OnceLock<Vec<Arc<Worker>>>,
    is_done: CancellationToken,
}

/// One thread.
#[derive(Debug, Default)]
struct Worker {
    /// Where its tasks run: none while it was not needed, and for the one that accepts.
    runtime: OnceLock<Option<Handle>>,
    connections: AtomicUsize,
    busy_poller: Arc<BusyPoller>,
}

impl WorkerThreads {
    /// Whoever runs the server, and nobody else.
    pub(super) fn of_one() -> Self {
        Self { first: Arc::default(), others: OnceLock::from(Vec::new()), is_done: CancellationToken::new() }
    }

    /// A thread for each core. All but this one start when they are needed, and end when the guard is dropped.
    pub(crate) fn of_all_cores() -> (Self, DropGuard) {
        let workers = Self { others: OnceLock::new(), ..Self::of_one() };
        let guard = workers.is_done.clone().drop_guard();
        (workers, guard)
    }

    /// What the thread that accepts has to do besides. It stays awake for requests only where it has nothing else to do
    /// and where there are more cores: nobody could send one meanwhile.
    pub(super) async fn keep_awake(&self) {
        self.first.busy_poller.wanted().await;
        if !self.others().is_empty() {
            self.first.busy_poller.run().await;
        }
    }

    /// A place for a new connection, with whoever has the fewest.
    pub(super) fn slot(&self) -> Slot {
        let worker = if self.first.is_free() { &self.first } else { self.with_fewest() };
        worker.connections.fetch_add(1, Ordering::Relaxed);
        Slot { worker: Arc::clone(worker) }
    }

    fn with_fewest(&self) -> &Arc<Worker> {
        let others = self.others().iter().min_by_key(|worker| worker.connections.load(Ordering::Relaxed));
        let Some(other) = others.filter(|other| other.has_fewer_than(&self.first)) else { return &self.first };
        other.runtime.get_or_init(|| {
            let started = start_worker(Arc::clone(&other.busy_poller), self.is_done.clone());
            started.inspect_err(|error| tracing::warn!(%error, "no thread for connections")).ok()
        });
        other
    }

    fn others(&self) -> &[Arc<Worker>] {
        self.others.get_or_init(|| {
            let cores = std::thread::available_parallelism().map_or(1, usize::from);
            (1..cores).map(|_| Arc::default()).collect()
        })
    }
}

impl Worker {
    fn is_free(&self) -> bool {
        self.connections.load(Ordering::Relaxed) == 0
    }

    fn has_fewer_than(&self, other: &Self) -> bool {
        self.connections.load(Ordering::Relaxed) < other.connections.load(Ordering::Relaxed)
    }
}

/// Starts another thread.
fn start_worker(busy_poller: Arc<BusyPoller>, is_done: CancellationToken) -> io::Result<Handle> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let handle = runtime.handle().clone();
    let work = move || {
        runtime.spawn(async move { busy_poller.run().await });
        runtime.block_on(is_done.cancelled());
        runtime.shutdown_background();
    };
    std::thread::Builder::new().name("connections".to_owned()).spawn(work)?;
    Ok(handle)
}

/// A connection's place with one of the threads, given back when this is dropped.
#[derive(Debug)]
pub(super) struct Slot {
    worker: Arc<Worker>,
}

impl Slot {
    /// Where the tasks of the connection run; none where that is here.
    pub(super) fn runtime(&self) -> Option<&Handle> {
        self.worker.runtime.get()?.as_ref()
    }

    /// Whoever is to know when requests come and are answered.
    pub(super) fn busy_poller(&self) -> &BusyPoller {
        &self.worker.busy_poller
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.worker.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_go_to_whoever_has_the_fewest() {
        let workers = WorkerThreads { others: OnceLock::from(vec![Arc::default()]), ..WorkerThreads::of_one() };
        let first = workers.slot();
        assert!(first.runtime().is_none(), "with whoever accepts");
        let second = workers.slot();
        assert!(second.runtime().is_some(), "with somebody else");
        drop(first);
        let third = workers.slot();
        assert!(third.runtime().is_none(), "there is room again");
        workers.is_done.cancel();
    }
}
