//! `gladhand open --as all`: an opening as every client that we can be, all at once.
//!
//! A server has until `--timeout`. Once it has opened a session, it is known how long it takes to start, and attempts
//! that stay silent for as long again are given up.

use std::time::Duration;

use futures_util::future::join_all;
use gladhand_core::Order as _;
use gladhand_core::negotiation::Refusal;
use gladhand_dialects::{ClientSetup, Dialect, REGISTRY};
use tokio::sync::watch;
use tokio::time::Instant;

use super::exchange::{self, Plan, Record, Running, Verdict};
use crate::commands::shared::opened_server::Access;
use gladhand_client::upstream::Target;

/// How long attempts may stay silent at least after another one opened.
const SILENCE: Duration = Duration::from_secs(3);

/// The clients that a server can be opened as, the newest version of each dialect first.
pub(in crate::commands) fn clients(target: &Target) -> Vec<(&'static Dialect, &'static str)> {
    let is_carried = |dialect: &&'static Dialect| matches!(target, Target::Command(_)) || dialect.has_http;
    let mut clients = Vec::new();
    for dialect in REGISTRY.iter().copied().filter(is_carried) {
        let mut versions = dialect.versions.to_vec();
        versions.order_by(|one, other| other.cmp(one));
        clients.extend(versions.into_iter().map(|version| (dialect, version)));
    }
    clients
}

/// A server to open as each client.
#[derive(Debug)]
pub(in crate::commands) struct Survey<'a> {
    /// The server.
    pub(in crate::commands) target: &'a Target,
    /// How to get into one that is reached over HTTP.
    pub(in crate::commands) access: &'a Access,
    /// The declarations of each client; the version is replaced.
    pub(in crate::commands) setup: &'a ClientSetup,
    /// The limit for each opening.
    pub(in crate::commands) timeout: Duration,
    /// Whether the server's stderr goes into our log.
    pub(in crate::commands) log_stderr: bool,
    /// How long the lists of an open session may take, if they are wanted.
    pub(in crate::commands) lists: Option<Duration>,
    /// Environment variables that the server does not inherit.
    pub(in crate::commands) hidden: Vec<String>,
}

/// Opens a session as each client.
pub(in crate::commands) async fn open(survey: &Survey<'_>) -> Vec<(Record, Running)> {
    let Survey { target, access, timeout, log_stderr, lists, .. } = *survey;
    let begun = Instant::now();
    let deadline = watch::Sender::new(begun + timeout);
    let attempts = clients(target).into_iter().map(|(dialect, version)| {
        let setup = ClientSetup { version: version.to_owned(), ..survey.setup.clone() };
        let hidden = survey.hidden.clone();
        let plan = Plan { dialect, setup, target: target.clone(), access, log_stderr, lists, hidden };
        let deadline = &deadline;
        async move {
            let attempt = exchange::open(plan, too_late(begun, deadline.subscribe()), &mut |_| {}).await;
            if let Verdict::Opened(_) = attempt.0.verdict {
                let more = SILENCE.max(attempt.0.took);
                deadline.send_replace((begun + timeout).min(Instant::now() + more));
            }
            attempt
        }
    });
    join_all(attempts).await
}

/// Waits for a deadline that may move.
async fn too_late(begun: Instant, mut deadline: watch::Receiver<Instant>) -> Verdict {
    loop {
        let until = *deadline.borrow_and_update();
        tokio::select! {
            () = tokio::time::sleep_until(until) => {
                return Verdict::refused(Refusal::TimedOut { seconds: begun.elapsed().as_secs() });
            }
            // Without an attempt that could move it, the deadline stays.
            Ok(()) = deadline.changed() => {}
        }
    }
}
