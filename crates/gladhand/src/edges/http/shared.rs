//! What all sessions of one server have in common.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use gladhand_dialects::mcp::McpServer;
use gladhand_dialects::mcp::http::Mirrors;
use gladhand_hub::Hub;
use gladhand_operations::Tool;
use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;

use super::authorize::Authorize;
use super::sandglass::Sandglass;
use super::session::Manner;
use super::who::Who;
use crate::Service;
use crate::config::HttpConfig;
use crate::edges::clock::Clock;

/// How many bytes of requests may be on their way in at once, over all connections.
const MOST_READING: usize = 256 * 1024 * 1024;

/// How many bytes of answers may wait to be written, over all connections, before nothing more is taken in.
const MOST_UNWRITTEN: usize = 256 * 1024 * 1024;

/// Answers up to this size are not counted: there are many of them, and they are soon gone.
const SMALL_ANSWER: usize = 64 * 1024;

/// What all sessions of one server have in common.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) service: Service,
    pub(super) config: HttpConfig,
    /// Who may come in, where the service's own guard is not asked.
    authorize: Option<Arc<dyn Authorize>>,
    /// Calls that run as tasks.
    pub(super) calls: TaskTracker,
    /// For how long answers are waited for without a stream.
    pub(super) sandglass: Arc<Sandglass>,
    /// Where tasks run that are started from outside.
    runtime: Handle,
    /// Read off these tools.
    mirrors: RwLock<(Arc<[Tool]>, Arc<Mirrors>)>,
    streams: AtomicUsize,
    reading: AtomicUsize,
    unwritten: Arc<AtomicUsize>,
}

impl Shared {
    pub(super) fn new(
        service: Service,
        config: HttpConfig,
        authorize: Option<Arc<dyn Authorize>>,
        runtime: Handle,
    ) -> Self {
        Self {
            service,
            config,
            authorize,
            calls: TaskTracker::new(),
            sandglass: Arc::default(),
            runtime,
            mirrors: RwLock::new((Arc::new([]), Arc::default())),
            streams: AtomicUsize::new(0),
            reading: AtomicUsize::new(0),
            unwritten: Arc::default(),
        }
    }

    /// Decides who may come in; none where no one is asked for a token.
    pub(super) fn authorize(&self) -> Option<Arc<dyn Authorize>> {
        let guard = || self.service.access().guard().map(|guard| guard as Arc<dyn Authorize>);
        self.authorize.clone().or_else(guard)
    }

    /// Whether a principal has lost access since it was let in.
    pub(super) fn has_withdrawn(&self, who: &Who) -> bool {
        self.service.access().has_withdrawn(who.principal.as_deref(), who.epoch)
    }

    /// Our side towards a new peer.
    pub(super) fn server(&self, manner: Manner, clock: &Clock) -> McpServer {
        let mut setup = self.service.setup(clock);
        if manner == Manner::Stateless {
            // One for everybody.
            setup.max_in_flight = self.config.in_flight;
        }
        McpServer::new(setup)
    }

    /// Which arguments are mirrored in headers, by the tools that there are now.
    pub(super) fn mirrors(&self) -> Arc<Mirrors> {
        let tools = self.hub().tools();
        let known = self.mirrors.read().unwrap_or_else(PoisonError::into_inner);
        if Arc::ptr_eq(&known.0, &tools) {
            return Arc::clone(&known.1);
        }
        drop(known);
        let mirrors = Arc::new(Mirrors::new(&tools));
        *self.mirrors.write().unwrap_or_else(PoisonError::into_inner) = (tools, Arc::clone(&mirrors));
        mirrors
    }

    /// Where tasks run: with the connection that they are for, where somebody wants them started there.
    pub(super) fn runtime(&self) -> Handle {
        Handle::try_current().unwrap_or_else(|_| self.runtime.clone())
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

    /// Whether what was answered before has been read, by and large.
    pub(super) fn has_room_for_answers(&self) -> bool {
        self.unwritten.load(Ordering::Relaxed) < MOST_UNWRITTEN
    }

    /// An answer that counts until it is written.
    pub(super) fn counted(&self, answer: Bytes) -> Bytes {
        if answer.len() <= SMALL_ANSWER {
            return answer;
        }
        self.unwritten.fetch_add(answer.len(), Ordering::Relaxed);
        Bytes::from_owner(Unwritten { answer, all: Arc::clone(&self.unwritten) })
    }

    /// Room for a request that is being read.
    pub(super) fn reading(&self) -> Reading<'_> {
        Reading { shared: self, bytes: 0 }
    }
}

/// An answer that waits to be written. Whoever writes it drops it when that is done.
#[derive(Debug)]
struct Unwritten {
    answer: Bytes,
    all: Arc<AtomicUsize>,
}

impl AsRef<[u8]> for Unwritten {
    fn as_ref(&self) -> &[u8] {
        &self.answer
    }
}

impl Drop for Unwritten {
    fn drop(&mut self) {
        self.all.fetch_sub(self.answer.len(), Ordering::Relaxed);
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
