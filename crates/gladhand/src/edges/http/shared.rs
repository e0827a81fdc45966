//! What all sessions of one server have in common.

use std::sync::atomic::{AtomicUsize, Ordering};

use gladhand_dialects::{Door, mcp};
use gladhand_hub::Hub;
use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;

use super::session::Manner;
use crate::Service;
use crate::config::HttpConfig;
use crate::edges::clock::Clock;

/// How many bytes of requests may be on their way in at once, over all connections.
const MOST_READING: usize = 256 * 1024 * 1024;

/// What all sessions of one server have in common.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) service: Service,
    pub(super) config: HttpConfig,
    /// Calls that run as tasks.
    pub(super) calls: TaskTracker,
    /// Where tasks run, whoever starts them.
    pub(super) runtime: Handle,
    streams: AtomicUsize,
    reading: AtomicUsize,
}

impl Shared {
    pub(super) fn new(service: Service, config: HttpConfig, runtime: Handle) -> Self {
        Self {
            service,
            config,
            calls: TaskTracker::new(),
            runtime,
            streams: AtomicUsize::new(0),
            reading: AtomicUsize::new(0),
        }
    }

    /// A door for a new peer.
    pub(super) fn door(&self, manner: Manner, clock: &Clock) -> Door {
        let mut setup = self.service.setup(clock);
        if manner == Manner::Stateless {
            // One door for everybody.
            setup.max_in_flight = self.config.in_flight;
        }
        Door::pinned(&mcp::DIALECT, setup)
    }

    /// Who answers calls.
    pub(super) fn hub(&self) -> &Hub {
        self.service.hub()
    }

    /// Whether one more stream may be opened.
    pub(super) fn has_room_for_streams(&self) -> bool {
        self.streams.load(Ordering::Relaxed) < self.config.streams
    }

    /// A stream begins.
    pub(super) fn stream_opened(&self) {
        self.streams.fetch_add(1, Ordering::Relaxed);
    }

    /// A stream is over.
    pub(super) fn stream_closed(&self) {
        self.streams.fetch_sub(1, Ordering::Relaxed);
    }

    /// Room for a request that is being read.
    pub(super) fn reading(&self) -> Reading<'_> {
        Reading { shared: self, bytes: 0 }
    }
}

/// The room that one request takes while it is read. Given back when it is dropped.
#[derive(Debug)]
pub(super) struct Reading<'s> {
    shared: &'s Shared,
    bytes: usize,
}

impl Reading<'_> {
    /// Takes room for more bytes; says whether there is.
    pub(super) fn grow(&mut self, bytes: usize) -> bool {
        self.bytes += bytes;
        self.shared.reading.fetch_add(bytes, Ordering::Relaxed) + bytes <= MOST_READING
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.shared.reading.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
