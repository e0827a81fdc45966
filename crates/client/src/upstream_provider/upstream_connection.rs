//! One connection to an upstream: a session that is opened when it is needed, and again after it broke.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use gladhand_core::negotiation::{Agreement, Capability, Offer, Peer};
use gladhand_core::operations::{Failure, FailureKind, Operation};
use gladhand_core::sync::Unpoisoned as _;
use gladhand_dialects::mcp::revision::Revision;
use gladhand_dialects::{Declared, TASKS_EXTENSION, is_passed_on, passed_on};
use gladhand_hub::SessionId;
use gladhand_session::tap::OpeningRefused;

use super::Spec;
use super::breaker::{Breaker, Permission};
use super::connection_budget::Permit;
use super::events::ConnectionEvents;
use super::pinning::Pinning;
use crate::upstream::{Options, Upstream, UpstreamEvents};

/// The client that a connection is opened for. By default that is no client in particular, and the upstream hears of us.
#[derive(Debug, Clone, Default)]
pub(super) struct ClientProfile {
    /// Who the client says it is.
    peer: Option<Peer>,
    /// The revision of MCP that it speaks.
    pub(super) revision: Option<Revision>,
    /// The client capabilities that are declared to the upstream.
    pub(super) declares: Declared,
}

impl ClientProfile {
    /// The client that makes this offer.
    pub(super) fn of_offer(offer: &Offer) -> Self {
        let passed_on = offer.provides.iter().filter(|(capability, _)| is_passed_on(capability));
        Self {
            peer: Some(offer.peer.clone()).filter(|peer| !peer.name.is_empty()),
            revision: offer.versions.first().and_then(|version| Revision::named(version)),
            declares: passed_on.map(|(capability, settings)| (capability.clone(), settings.clone())).collect(),
        }
    }

    /// The client of an agreement.
    pub(super) fn of_agreement(agreement: &Agreement) -> Self {
        Self {
            peer: Some(agreement.client.clone()).filter(|peer| !peer.name.is_empty()),
            revision: Revision::named(&agreement.version),
            declares: passed_on(agreement).collect(),
        }
    }
}

/// How long a server may take to answer after a call was cancelled.
const ANSWERING: Duration = Duration::from_secs(5);

/// One connection to an upstream.
#[derive(Debug)]
pub(super) struct UpstreamConnection {
    spec: Arc<Spec>,
    client: ClientProfile,
    pub(super) events: Arc<ConnectionEvents>,
    /// The definitions that were compared with the pins.
    pub(super) pinning: Pinning,
    /// The callers without a session that it is for, where it is one of a pool.
    pub(super) kind: SessionId,
    /// Its place among those that are counted.
    place: Mutex<Option<Permit>>,
    /// The session and when it began. One that ended by itself stays until its end is noted.
    session: Mutex<Option<(Upstream, Instant)>>,
    /// When the opening that is under way began.
    opening_since: Mutex<Option<Instant>>,
    /// How often it was opened.
    openings: AtomicU64,
    /// Held while the connection is being opened, so that it is opened only once.
    opening: tokio::sync::Mutex<Breaker>,
}

impl UpstreamConnection {
    pub(super) fn new(
        spec: Arc<Spec>,
        client: ClientProfile,
        events: ConnectionEvents,
        place: Option<Permit>,
    ) -> Arc<Self> {
        Self::with(spec, client, events, place, None)
    }

    /// A way of a pool for callers of one kind.
    pub(super) fn pooled(
        spec: Arc<Spec>,
        client: ClientProfile,
        events: ConnectionEvents,
        place: Permit,
        kind: SessionId,
    ) -> Arc<Self> {
        Self::with(spec, client, events, Some(place), Some(kind))
    }

    fn with(
        spec: Arc<Spec>,
        client: ClientProfile,
        events: ConnectionEvents,
        place: Option<Permit>,
        kind: Option<SessionId>,
    ) -> Arc<Self> {
        let (is_pooled, kind) = (kind.is_some(), kind.unwrap_or(SessionId::NONE));
        let (session, openings, opening) = (Mutex::default(), AtomicU64::new(0), tokio::sync::Mutex::default());
        Arc::new_cyclic(|connection| {
            let events = Arc::new(events.of(connection, is_pooled));
            Self {
                spec,
                client,
                events,
                pinning: Pinning::default(),
                kind,
                place: Mutex::new(place),
                session,
                opening_since: Mutex::default(),
                openings,
                opening,
            }
        })
    }

    /// The name of the upstream.
    pub(super) fn name(&self) -> &str {
        &self.spec.name
    }

    /// The session if it is open.
    pub(super) fn session(&self) -> Option<Upstream> {
        let session = self.lock();
        session.as_ref().map(|(session, _)| session).filter(|session| !session.is_over()).cloned()
    }

    /// For how long it has been opening, if it is.
    pub(super) fn opening_for(&self) -> Option<Duration> {
        self.opening_since.lock().unpoisoned().map(|since| since.elapsed())
    }

    /// How often it had to be opened again.
    pub(super) fn restarts(&self) -> u64 {
        self.openings.load(Ordering::Relaxed).saturating_sub(1)
    }

    /// The session, opened if need be. The opening continues even if its caller stops waiting; `ended` receives its
    /// result.
    pub(super) async fn open(
        self: &Arc<Self>,
        ended: impl FnOnce(&Result<Upstream, Failure>) + Send + 'static,
    ) -> Result<Upstream, Failure> {
        if let Some(session) = self.session() {
            return Ok(session);
        }
        let connection = Arc::clone(self);
        let opening = tokio::spawn(async move {
            let mut breaker = connection.opening.lock().await;
            if let Some(session) = connection.session() {
                return Ok(session);
            }
            let opened = connection.open_now(&mut breaker).await;
            ended(&opened);
            opened
        });
        let broke_down = |_| Err(Failure::new(FailureKind::Internal, "the upstream could not be opened"));
        opening.await.unwrap_or_else(broke_down)
    }

    async fn open_now(self: &Arc<Self>, breaker: &mut Breaker) -> Result<Upstream, Failure> {
        let name = &self.spec.name;
        let lost = |why: String| Failure::new(FailureKind::UpstreamLost, format!("upstream {name}: {why}"));
        self.note_end(breaker);
        match breaker.permission(Instant::now()) {
            Permission::Now => {}
            Permission::After(pause) => tokio::time::sleep(pause).await,
            Permission::Refused(why) => return Err(lost(why)),
        }
        let ClientProfile { peer, revision, declares } = self.client.clone();
        // Tasks are looked after here, for every client.
        let tasks = (Capability::named(TASKS_EXTENSION), None);
        let options = Options {
            name: Some(name.clone()),
            client: peer,
            client_revision: revision,
            provides: declares.into_iter().chain([tasks]).collect(),
            listen: true,
            ..self.spec.options.clone()
        };
        let events: Arc<dyn UpstreamEvents> = Arc::clone(&self.events) as _;
        *self.opening_since.lock().unpoisoned() = Some(Instant::now());
        let opened = Upstream::open(&self.spec.target, options, events).await;
        *self.opening_since.lock().unpoisoned() = None;
        match opened {
            Ok(session) => {
                let agreement = session.agreement();
                let (dialect, version, server) = (agreement.dialect, &agreement.version, &agreement.server.name);
                tracing::info!(upstream = name, dialect, version, server, "upstream open");
                *self.lock() = Some((session.clone(), Instant::now()));
                self.openings.fetch_add(1, Ordering::Relaxed);
                self.watch_over(&session);
                Ok(session)
            }
            Err(error) => {
                let refused = OpeningRefused { upstream: Some(name), dialect: None, reason: error.word() };
                self.spec.options.tap.refused(&refused);
                let why = error.to_string();
                let pause = breaker.failed(&why, Instant::now());
                tracing::warn!(upstream = name, %error, pause_ms = pause.as_millis(), "upstream not open");
                Err(lost(why))
            }
        }
    }

    /// Notes the end of the session when it ends by itself.
    fn watch_over(self: &Arc<Self>, session: &Upstream) {
        let (connection, ended) = (Arc::downgrade(self), session.ended());
        tokio::spawn(async move {
            ended.await;
            let Some(connection) = connection.upgrade() else { return };
            connection.note_end(&mut *connection.opening.lock().await);
        });
    }

    /// Tells the breaker of a session that ended by itself, once. One that was closed on purpose is not here any more.
    fn note_end(&self, breaker: &mut Breaker) {
        let Some((session, begun)) = self.lock().take_if(|(session, _)| session.is_over()) else { return };
        tracing::warn!(upstream = self.spec.name, "upstream lost");
        breaker.ended("it ended by itself", session.was_called(), begun, Instant::now());
    }

    fn lock(&self) -> MutexGuard<'_, Option<(Upstream, Instant)>> {
        self.session.lock().unpoisoned()
    }

    /// Whether the server answers a request in time. The list of tools is the request that every dialect has.
    pub(super) async fn is_answering(&self) -> bool {
        let Some(session) = self.session() else { return false };
        let listed = tokio::time::timeout(ANSWERING, session.call(Operation::ListTools)).await;
        // An error is an answer, too.
        listed.is_ok() && !session.is_over()
    }

    /// Gives up its place: it is about to be closed.
    pub(super) fn vacate(&self) {
        drop(self.place.lock().unpoisoned().take());
    }

    /// Ends the session, if it is open.
    pub(super) async fn close(&self) {
        let session = self.lock().take();
        if let Some((session, _)) = session {
            session.close().await;
        }
    }
}
