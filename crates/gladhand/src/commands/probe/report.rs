//! The report of a probe, for the text and for `--json` (`docs/stability.md`).

use std::time::Duration;

use gladhand_core::negotiation::Side;
use gladhand_redaction::redact_words;
use serde::Serialize;

use crate::commands::open::draw::{millis, shown};
use crate::commands::open::exchange::{ListAnswer, Record, Verdict};
use crate::commands::open::report::{Reason, hints_for_all};
use gladhand_client::upstream::Target;

use super::oddities::{self, Oddity};
use super::questions::{Answers, Early, UnknownVersion};
use super::{best, snippet};

/// The description of a server.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// Whether a session opened in any dialect.
    pub(super) opened: bool,
    /// The server as a person would type it.
    #[serde(skip)]
    pub(super) shown: String,
    pub(super) command: Vec<String>,
    pub(super) url: Option<String>,
    pub(super) server: Option<Server>,
    /// The client to prefer: the first that got a session.
    pub(super) best: Option<String>,
    pub(super) clients: Vec<ClientReport>,
    pub(super) unknown_versions: Vec<UnknownVersion>,
    pub(super) early_requests: Option<Early>,
    pub(super) oddities: Vec<Oddity>,
    /// A section of `gladhand.toml`.
    pub(super) config: Option<String>,
    /// Advice for people.
    pub(super) hints: Vec<String>,
    /// The last lines of the server's stderr, if no session opened.
    pub(super) stderr: Vec<String>,
    pub(super) took_ms: f64,
}

/// The server, as it presents itself to the preferred client.
#[derive(Debug, Serialize)]
pub(super) struct Server {
    pub(super) name: String,
    pub(super) version: String,
    /// The number of characters in its instructions; `None` without instructions.
    pub(super) instructions: Option<usize>,
}

/// The server, as one client sees it.
#[derive(Debug, Serialize)]
pub(super) struct ClientReport {
    pub(super) dialect: &'static str,
    pub(super) asked_version: String,
    pub(super) opened: bool,
    /// The version in force.
    pub(super) version: Option<String>,
    /// Why there is no session, for programs and for people.
    pub(super) reason: Option<&'static str>,
    pub(super) message: Option<String>,
    /// From the start of the process, or the first request, to the verdict.
    pub(super) opening_ms: f64,
    /// The capabilities of the server that are in force.
    pub(super) capabilities: Vec<String>,
    pub(super) lists: Vec<ListReport>,
}

/// One list.
#[derive(Debug, Serialize)]
pub(super) struct ListReport {
    pub(super) list: &'static str,
    pub(super) count: Option<usize>,
    pub(super) error: Option<String>,
    pub(super) ms: f64,
}

impl Report {
    pub(super) fn new(target: &Target, records: &[Record], answers: Answers, took: Duration) -> Self {
        let best = best(records);
        let (command, url) = match target {
            Target::Command(words) => (redact_words(words), None),
            Target::Url(_) => (Vec::new(), Some(target.to_string())),
        };
        let (hints, stderr) = match best {
            Some(_) => (Vec::new(), &[][..]),
            None => hints_for_all(records),
        };
        Self {
            opened: best.is_some(),
            shown: shown(target),
            command,
            url,
            server: best.and_then(Server::of),
            best: best.map(|record| format!("{}@{}", record.dialect.name, record.version)),
            clients: records.iter().map(ClientReport::of).collect(),
            oddities: oddities::find(records, &answers),
            config: best.map(|best| snippet::section(target, best, records)),
            unknown_versions: answers.unknown_versions,
            early_requests: answers.early,
            hints,
            stderr: stderr.to_vec(),
            took_ms: millis(took),
        }
    }

    /// The view of the preferred client.
    pub(super) fn preferred(&self) -> Option<&ClientReport> {
        let best = self.best.as_deref()?;
        self.clients.iter().find(|client| client.name() == best)
    }
}

impl Server {
    fn of(record: &Record) -> Option<Self> {
        let Verdict::Opened(agreement) = &record.verdict else { return None };
        Some(Self {
            name: agreement.server.name.clone(),
            version: agreement.server.version.clone(),
            instructions: agreement.instructions.as_ref().map(|text| text.chars().count()),
        })
    }
}

impl ClientReport {
    fn of(record: &Record) -> Self {
        let agreement = match &record.verdict {
            Verdict::Opened(agreement) => Some(agreement),
            _ => None,
        };
        let reason = Reason::of(&record.verdict);
        let capabilities = agreement.map(|agreement| {
            agreement.agreed(Side::Server).map(|term| term.capability.0.to_string()).collect::<Vec<_>>()
        });
        Self {
            dialect: record.dialect.name,
            asked_version: record.version.clone(),
            opened: agreement.is_some(),
            version: agreement.map(|agreement| agreement.version.clone()),
            reason: reason.as_ref().map(|reason| reason.reason),
            message: reason.map(|reason| reason.message),
            opening_ms: millis(record.took),
            capabilities: capabilities.unwrap_or_default(),
            lists: record.lists.iter().map(ListReport::of).collect(),
        }
    }

    /// `mcp@2025-11-25`.
    pub(super) fn name(&self) -> String {
        format!("{}@{}", self.dialect, self.asked_version)
    }

    /// A list by its name.
    pub(super) fn list(&self, name: &str) -> Option<&ListReport> {
        self.lists.iter().find(|list| list.list == name)
    }
}

impl ListReport {
    fn of(answer: &ListAnswer) -> Self {
        Self {
            list: answer.feature.word(),
            count: answer.names.as_ref().ok().map(Vec::len),
            error: answer.names.as_ref().err().cloned(),
            ms: millis(answer.took),
        }
    }
}
