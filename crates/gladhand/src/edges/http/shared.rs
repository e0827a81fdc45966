//! What all sessions of one server have in common.

use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use gladhand_auth::resource::Principal;
use gladhand_dialects::mcp::McpServer;
use gladhand_dialects::mcp::http::Mirrors;
use gladhand_dialects::{Dialect, Party};
use gladhand_hub::Hub;
use gladhand_operations::Tool;
use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;

use super::authorize::Authorize;
use super::portions::{Portion, Portions};
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

/// Answers up to this size are not counted, and requests not for their party: there are many, and they are soon gone.
const SMALL: usize = 64 * 1024;

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
    /// Streams that are open.
    pub(super) streams: Arc<Portions>,
    /// Bytes of requests that are being read.
    pub(super) reading: Arc<Portions>,
    unwritten: Arc<Portions>,
}

impl Shared {
    pub(super) fn new(
        service: Service,
        config: HttpConfig,
        authorize: Option<Arc<dyn Authorize>>,
        runtime: Handle,
    ) -> Self {
        let streams = Portions::of(config.streams, 0);
        Self {
            service,
            config,
            authorize,
            calls: TaskTracker::new(),
            sandglass: Arc::default(),
            runtime,
            mirrors: RwLock::new((Arc::new([]), Arc::default())),
            streams,
            reading: Portions::of(MOST_READING, SMALL),
            unwritten: Portions::of(MOST_UNWRITTEN, 0),
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

    /// Writes down calls that were refused because the sender's token lacks scopes.
    pub(super) fn refused_for_scopes(&self, sender: &Principal, dialect: &Dialect, tools: &[String]) {
        if let Some(governor) = self.hub().governor() {
            governor.refused_for_scopes(&sender.name, dialect.name, tools);
        }
    }

    /// Whether what a party was answered before has been read, by and large.
    pub(super) fn has_room_for_answers(&self, party: Party) -> bool {
        self.unwritten.admits(party)
    }

    /// An answer to a party that counts until it is written.
    pub(super) fn counted(&self, answer: Bytes, party: Party) -> Bytes {
        if answer.len() <= SMALL {
            return answer;
        }
        let portion = self.unwritten.portion(party).with(answer.len());
        Bytes::from_owner(Unwritten { answer, _portion: portion })
    }
}

/// An answer that waits to be written. Whoever writes it drops it when that is done.
#[derive(Debug)]
struct Unwritten {
    answer: Bytes,
    _portion: Portion,
}

impl AsRef<[u8]> for Unwritten {
    fn as_ref(&self) -> &[u8] {
        &self.answer
    }
}
