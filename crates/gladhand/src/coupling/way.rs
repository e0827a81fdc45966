//! One way to an upstream: a session that is opened when it is needed, and again after it broke.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use gladhand_accord::Capability;
use gladhand_dialects::Askable;
use gladhand_operations::{Failure, FailureKind};

use super::Spec;
use super::breaker::Breaker;
use super::hosting::WayHost;
use super::pinning::Pinning;
use super::room::Place;
use crate::upstream::{Host, OpenError, Options, Upstream};

/// What an upstream must know so that it may make tasks of calls.
pub(super) const TASKS: &str = "extensions.io.modelcontextprotocol/tasks";

/// One way to an upstream.
#[derive(Debug)]
pub(super) struct Way {
    spec: Arc<Spec>,
    provides: Askable,
    pub(super) host: Arc<WayHost>,
    /// What was compared with the pins.
    pub(super) pinning: Pinning,
    /// Its place among those that are counted.
    place: Mutex<Option<Place>>,
    /// The session, while it is open.
    session: Mutex<Option<Upstream>>,
    /// How often it was opened.
    openings: AtomicU64,
    /// Held by whoever opens it, so that it is opened once.
    opening: tokio::sync::Mutex<Breaker>,
}

impl Way {
    pub(super) fn new(spec: Arc<Spec>, provides: Askable, host: WayHost, place: Option<Place>) -> Arc<Self> {
        let (session, openings, opening) = (Mutex::default(), AtomicU64::new(0), tokio::sync::Mutex::default());
        Arc::new_cyclic(|way| {
            let host = Arc::new(host.of(way));
            Self {
                spec,
                provides,
                host,
                pinning: Pinning::default(),
                place: Mutex::new(place),
                session,
                openings,
                opening,
            }
        })
    }

    /// The session if it is open.
    pub(super) fn session(&self) -> Option<Upstream> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner).clone().filter(|session| !session.is_over())
    }

    /// How often it had to be opened again.
    pub(super) fn restarts(&self) -> u64 {
        self.openings.load(Ordering::Relaxed).saturating_sub(1)
    }

    /// The session, opened if need be. Whoever stops waiting does not stop the opening; `opened` is told of a new one.
    pub(super) async fn open(
        self: &Arc<Self>,
        opened: impl FnOnce(&Upstream) + Send + 'static,
    ) -> Result<Upstream, Failure> {
        if let Some(session) = self.session() {
            return Ok(session);
        }
        let way = Arc::clone(self);
        let opening = tokio::spawn(async move {
            let mut breaker = way.opening.lock().await;
            if let Some(session) = way.session() {
                return Ok(session);
            }
            way.open_now(&mut breaker).await.inspect(opened)
        });
        let broke_down = |_| Err(Failure::new(FailureKind::Internal, "the upstream could not be opened"));
        opening.await.unwrap_or_else(broke_down)
    }

    async fn open_now(self: &Arc<Self>, breaker: &mut Breaker) -> Result<Upstream, Failure> {
        let name = &self.spec.name;
        let lost = |why: String| Failure::new(FailureKind::UpstreamLost, format!("upstream {name}: {why}"));
        if let Some(objection) = breaker.objection(Instant::now()) {
            return Err(lost(objection));
        }
        // Tasks are looked after here, whoever they are for.
        let tasks = (Capability::named(TASKS), None);
        let provides = self.provides.iter().cloned().chain([tasks]).collect();
        let options = Options { name: Some(name.clone()), provides, listen: true, ..self.spec.options.clone() };
        let host: Arc<dyn Host> = Arc::clone(&self.host) as _;
        match Upstream::open(&self.spec.target, options, host).await {
            Ok(session) => {
                let agreement = session.agreement();
                let (dialect, version, server) = (agreement.dialect, &agreement.version, &agreement.server.name);
                tracing::info!(upstream = name, dialect, version, server, "upstream open");
                *self.session.lock().unwrap_or_else(PoisonError::into_inner) = Some(session.clone());
                self.openings.fetch_add(1, Ordering::Relaxed);
                self.watch_over(&session);
                Ok(session)
            }
            Err(error) => {
                let why = reason(&error);
                let pause = breaker.failed(&why, Instant::now());
                tracing::warn!(upstream = name, %error, pause_ms = pause.as_millis(), "upstream not open");
                Err(lost(why))
            }
        }
    }

    /// Takes note when the session ends by itself.
    fn watch_over(self: &Arc<Self>, session: &Upstream) {
        let (way, ended, begun) = (Arc::downgrade(self), session.ended(), Instant::now());
        tokio::spawn(async move {
            ended.await;
            let Some(way) = way.upgrade() else { return };
            let mut breaker = way.opening.lock().await;
            {
                let mut session = way.session.lock().unwrap_or_else(PoisonError::into_inner);
                if session.is_none() {
                    // It was closed on purpose.
                    return;
                }
                // Somebody may have opened the next one already.
                session.take_if(|session| session.is_over());
            }
            tracing::warn!(upstream = way.spec.name, "upstream lost");
            breaker.ended("it ended by itself", begun, Instant::now());
        });
    }

    /// Gives up its place: it is about to be closed.
    pub(super) fn vacate(&self) {
        drop(self.place.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// Ends the session, if it is open.
    pub(super) async fn close(&self) {
        let session = self.session.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(session) = session {
            session.close().await;
        }
    }
}

/// Why there is no session, with the last thing that a process had to say about it.
fn reason(error: &OpenError) -> String {
    match error {
        OpenError::Refused { refusal, last_words } if !last_words.is_empty() => {
            format!("{refusal}; the last it said: {}", last_words.last().map_or("", String::as_str))
        }
        other => other.to_string(),
    }
}
