//! The status of an upstream, as `gladhand ps` shows it.

use gladhand_core::operations::Failure;
use gladhand_hub::policy::Offender;
use gladhand_hub::{Offence, UpstreamStatus};
use gladhand_redaction::{redact, shorten};

use super::Inner;
use crate::upstream::Upstream;

/// How many lines of the stderr of a process are shown.
const STDERR_LINES: usize = 5;

/// How many characters of such a line are shown.
const STDERR_LINE: usize = 300;

impl Inner {
    /// The state, connections, calls and violations of the upstream.
    pub(super) fn status(&self) -> UpstreamStatus {
        let connections = self.all_connections();
        let open: Vec<_> = connections.iter().filter_map(|connection| connection.session()).collect();
        let (state, detail) = match (open.first(), self.trouble.lock()) {
            (Some(session), _) => {
                let agreement = session.agreement();
                let server = &agreement.server;
                let who = format!("{} {} as {} {}", server.name, server.version, agreement.dialect, agreement.version);
                ("open", Some(who))
            }
            (None, Ok(trouble)) if trouble.is_some() => {
                let own = format!("upstream {}: ", self.spec.name);
                let why = |failure: &Failure| failure.message.strip_prefix(&own).unwrap_or(&failure.message).to_owned();
                ("failed", trouble.as_ref().map(why))
            }
            _ => match connections.iter().filter_map(|connection| connection.opening_for()).max() {
                Some(age) => ("opening", Some(format!("for {} s", age.as_secs()))),
                None => ("idle", None),
            },
        };
        UpstreamStatus {
            unavailable: false,
            name: self.spec.name.clone(),
            target: redact(&self.spec.target.place()).into_owned(),
            state: state.to_owned(),
            detail: detail.map(|detail| redact(&detail).into_owned()),
            processes: open.iter().filter_map(Upstream::process).collect(),
            connections: open.len(),
            calls: connections.iter().map(|connection| connection.events.calls()).sum(),
            restarts: connections.iter().map(|connection| connection.restarts()).sum(),
            tools: self.known().map_or(0, |lists| lists.tools.len()),
            unlisted: match self.known() {
                Some(lists) => lists.troubles(),
                None => self.listing_failure().map(|failure| failure.message).into_iter().collect(),
            },
            stderr: {
                let lines = open.last().map(|session| session.stderr_tail(STDERR_LINES)).unwrap_or_default();
                lines.iter().map(|line| shorten(&redact(line), STDERR_LINE).into_owned()).collect()
            },
            offences: {
                let who = self.label.clone();
                let counts = self.spec.options.violations.of(&Offender::Server(who.clone()));
                let offence = |(rule, count): (&str, u64)| Offence { who: who.clone(), rule: rule.to_owned(), count };
                counts.into_iter().map(offence).collect()
            },
        }
    }
}
