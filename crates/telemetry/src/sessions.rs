//! The metrics of sessions, which the tap reports.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Instant;

use gladhand_core::sync::Unpoisoned as _;
use gladhand_session::tap::{OpeningRefused, SessionOpened, TapListener, TappedFrame, TappedPeer, TappedSession};

use crate::metrics::{ServiceMetrics, version_of};

/// The sessions that are open, so that their duration is known when they end.
#[derive(Debug, Default)]
pub(crate) struct OpenSessions(Mutex<HashMap<TappedSession, OpenSession>>);

#[derive(Debug)]
struct OpenSession {
    at: Instant,
    dialect: &'static str,
    version: String,
    /// The name of the upstream, if the session is with one.
    upstream: Option<String>,
    transport: &'static str,
}

impl OpenSession {
    fn role(&self) -> &'static str {
        if self.upstream.is_some() { "client" } else { "server" }
    }

    fn upstream(&self) -> &str {
        self.upstream.as_deref().unwrap_or_default()
    }

    fn count(&self, metrics: &ServiceMetrics, change: i64) {
        let labels = [self.role(), self.dialect, version_of(self.dialect, &self.version), self.upstream()];
        metrics.sessions.with(&labels, |gauge| gauge.add(change));
    }
}

impl TapListener for ServiceMetrics {
    fn wants_frames(&self) -> bool {
        false
    }

    fn frame(&self, _: &TappedFrame<'_>) {}

    fn opened(&self, opened: &SessionOpened) {
        let (upstream, transport) = match &opened.peer {
            TappedPeer::Client { .. } => (None, self.transport.word()),
            TappedPeer::Server { upstream, url, .. } => {
                (Some(upstream.clone().unwrap_or_default()), if url.is_some() { "tcp" } else { "pipe" })
            }
        };
        let version = opened.version.clone();
        let open = OpenSession { at: opened.at, dialect: opened.dialect, version, upstream, transport };
        let labels = [open.role(), open.dialect, &open.version, open.upstream(), "opened"];
        self.openings.with(&labels, |counter| counter.add(1));
        open.count(self, 1);
        self.open.0.lock().unpoisoned().insert(opened.session, open);
    }

    fn closed(&self, session: TappedSession) {
        let Some(open) = self.open.0.lock().unpoisoned().remove(&session) else { return };
        open.count(self, -1);
        let version = version_of(open.dialect, &open.version);
        let lasted = open.at.elapsed();
        match &open.upstream {
            None => self
                .server_sessions
                .with(&[open.dialect, version, open.transport], |histogram| histogram.record(lasted)),
            Some(upstream) => self
                .client_sessions
                .with(&[open.dialect, version, open.transport, upstream], |histogram| histogram.record(lasted)),
        }
    }

    fn refused(&self, refused: &OpeningRefused<'_>) {
        let role = if refused.upstream.is_some() { "client" } else { "server" };
        let (dialect, upstream) = (refused.dialect.unwrap_or_default(), refused.upstream.unwrap_or_default());
        self.openings.with(&[role, dialect, "", upstream, refused.reason], |counter| counter.add(1));
    }

    fn http_refused(&self, status: u16) {
        self.http_refusals.with(&[&status.to_string()], |counter| counter.add(1));
    }
}
