//! The threads that serve connections.
//!
//! Each thread has a separate runtime, and a connection stays on its thread: waking another thread for a request costs
//! more than answering it.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use tokio::runtime::{Builder, Handle};
use tokio_util::sync::{CancellationToken, DropGuard};

/// All threads that serve connections.
#[derive(Debug)]
pub(crate) struct WorkerThreads {
    /// The thread that accepts connections.
    first: Arc<Worker>,
    /// Set with the second connection: counting the cores takes a while.
    others: OnceLock<Vec<Arc<Worker>>>,
    is_done: CancellationToken,
}

/// One thread.
#[derive(Debug, Default)]
struct Worker {
    /// The runtime for its tasks. Unset until needed, and `None` for the accepting thread.
    runtime: OnceLock<Option<Handle>>,
    connections: AtomicUsize,
}

impl WorkerThreads {
    /// Only the thread that runs the server.
    pub(super) fn of_one() -> Self {
        Self { first: Arc::default(), others: OnceLock::from(Vec::new()), is_done: CancellationToken::new() }
    }

    /// A thread for each core. All but this one start when they are needed, and end when the guard is dropped.
    pub(crate) fn of_all_cores() -> (Self, DropGuard) {
        let workers = Self { others: OnceLock::new(), ..Self::of_one() };
        let guard = workers.is_done.clone().drop_guard();
        (workers, guard)
    }

    /// A slot for a new connection, on the thread with the fewest.
    pub(super) fn slot(&self) -> Slot {
        let worker = if self.first.is_free() { &self.first } else { self.with_fewest() };
        worker.connections.fetch_add(1, Ordering::Relaxed);
        Slot { worker: Arc::clone(worker) }
    }

    fn with_fewest(&self) -> &Arc<Worker> {
        let others = self.others().iter().min_by_key(|worker| worker.connections.load(Ordering::Relaxed));
        let Some(other) = others.filter(|other| other.has_fewer_than(&self.first)) else { return &self.first };
        other.runtime.get_or_init(|| {
            let started = start_worker(self.is_done.clone());
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
fn start_worker(is_done: CancellationToken) -> io::Result<Handle> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let handle = runtime.handle().clone();
    let work = move || {
        runtime.block_on(is_done.cancelled());
        runtime.shutdown_background();
    };
    std::thread::Builder::new().name("connections".to_owned()).spawn(work)?;
    Ok(handle)
}

/// The slot of a connection on one thread, returned on drop.
#[derive(Debug)]
pub(super) struct Slot {
    worker: Arc<Worker>,
}

impl Slot {
    /// The runtime for the tasks of the connection; `None` for the current one.
    pub(super) fn runtime(&self) -> Option<&Handle> {
        self.worker.runtime.get()?.as_ref()
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
    fn a_connection_is_assigned_to_the_worker_with_the_fewest() {
        let workers = WorkerThreads { others: OnceLock::from(vec![Arc::default()]), ..WorkerThreads::of_one() };
        let first = workers.slot();
        assert!(first.runtime().is_none(), "on the accepting thread");
        let second = workers.slot();
        assert!(second.runtime().is_some(), "on another thread");
        drop(first);
        let third = workers.slot();
        assert!(third.runtime().is_none(), "there is room again");
        workers.is_done.cancel();
    }
}
