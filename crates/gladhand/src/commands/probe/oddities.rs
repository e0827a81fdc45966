//! The oddities of a server: a pure reading of the recorded openings and the answers to the questions.
//!
//! An oddity is not always a broken rule. `gladhand check` judges rules; `probe` names surprises for a client.

use std::collections::{BTreeMap, BTreeSet};

use gladhand_core::negotiation::{Refusal, Side};
use gladhand_core::wire::FrameKind;
use gladhand_dialects::mcp;
use gladhand_dialects::mcp::revision::Revision;
use serde::Serialize;

use crate::commands::open::exchange::{Record, Verdict};
use crate::commands::shared::drawing::describe;
use gladhand_client::upstream::OpenError;

use super::questions::{Answer, Answers};

/// One surprise, and the clients that saw it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Oddity {
    /// An identifier for programs.
    pub(super) code: &'static str,
    /// For people.
    pub(super) message: String,
    /// `mcp@2025-11-25` and so on.
    pub(super) clients: Vec<String>,
}

/// All oddities, each once.
pub(super) fn find(records: &[Record], answers: &Answers) -> Vec<Oddity> {
    let is_open = |record: &&Record| matches!(record.verdict, Verdict::Opened(_));
    let spoken: BTreeSet<&str> = records.iter().filter(is_open).map(|record| record.dialect.name).collect();
    let mut found = Found::default();
    for (number, record) in records.iter().enumerate() {
        // A server need not be correct in a dialect that it does not speak.
        if spoken.contains(record.dialect.name) || spoken.is_empty() && number == 0 {
            of_record(record, &mut |code, message| found.add(code, message, &name(record)));
        }
    }
    of_answers(answers, &mut found);
    found.0
}

#[derive(Default)]
struct Found(Vec<Oddity>);

impl Found {
    fn add(&mut self, code: &'static str, message: String, client: &str) {
        match self.0.iter_mut().find(|known| known.code == code && known.message == message) {
            Some(known) => known.clients.push(client.to_owned()),
            None => self.0.push(Oddity { code, message, clients: vec![client.to_owned()] }),
        }
    }
}

fn name(record: &Record) -> String {
    format!("{}@{}", record.dialect.name, record.version)
}

fn of_record(record: &Record, odd: &mut dyn FnMut(&'static str, String)) {
    of_messages(record, odd);
    let is_http = |text: &str| text.starts_with("HTTP/1.");
    if record.messages.iter().any(|line| line.from == Side::Server && !line.is_message && is_http(&line.text)) {
        odd("http_on_stdout", "writes HTTP to stdout; a server over HTTP is probed at its URL".to_owned());
    }
    if record.no_messages > 0 {
        odd("stdout_junk", "writes lines to stdout that are no messages".to_owned());
    }
    if record.unfinished > 0 {
        odd("unfinished_line", "leaves a line on stdout without a line break".to_owned());
    }
    if record.unrecorded > 0 {
        odd("floods", "writes more lines than a client reads during an opening".to_owned());
    }
    if record.repeats_us() {
        odd("repeats_input", "sends back what it is sent".to_owned());
    }
    let opens_in_time = |record: &Record| match &record.verdict {
        Verdict::Failed(OpenError::Refused { refusal, .. }) => {
            !matches!(refusal, Refusal::TimedOut { .. } | Refusal::PeerGone)
        }
        _ => true,
    };
    if !opens_in_time(record) {
        match record.exit() {
            Some(exit) => odd("ends_at_opening", format!("its process ends during the opening ({exit})")),
            None => odd("silent_at_opening", "does not answer the opening".to_owned()),
        }
    }
    for list in &record.lists {
        match &list.names {
            Err(why) => odd("list_failed", format!("declares {} and does not list them: {why}", list.feature.word())),
            Ok(names) => {
                let mut seen = BTreeSet::new();
                let twice: BTreeSet<_> = names.iter().filter(|name| !seen.insert(*name)).collect();
                for name in twice.into_iter().take(3) {
                    odd("listed_twice", format!("lists `{name}` twice under {}", list.feature.word()));
                }
            }
        }
    }
}

/// Oddities in the order and the ids of messages.
fn of_messages(record: &Record, odd: &mut dyn FnMut(&'static str, String)) {
    let is_mcp_handshake = record.dialect.name == mcp::DIALECT.name
        && Revision::named(&record.version).is_some_and(Revision::has_initialize);
    let mut sent: BTreeMap<String, bool> = BTreeMap::new();
    let (mut has_sent, mut is_initialized) = (false, false);
    for line in record.messages.iter().filter(|line| line.is_message) {
        let Some(summary) = describe(Some(record.dialect), &line.text) else { continue };
        let id = summary.id.map(|id| id.get().to_owned());
        if line.from == Side::Client {
            has_sent = true;
            is_initialized |= summary.name.as_deref() == Some("notifications/initialized");
            sent.extend(id.map(|id| (id, false)));
            continue;
        }
        let method = summary.name.as_deref().unwrap_or_default();
        match summary.kind {
            _ if !has_sent => odd("speaks_first", "sends messages before the first request".to_owned()),
            FrameKind::Result | FrameKind::Error { names_request: true, .. } => {
                match id.map(|id| (sent.get_mut(&id), id)) {
                    Some((Some(answered), _)) if !*answered => *answered = true,
                    Some((Some(_), id)) => odd("answers_twice", format!("answers the request {id} twice")),
                    Some((None, id)) => odd("unknown_id", format!("answers with the id {id}, which no request has")),
                    None => {}
                }
            }
            FrameKind::Request | FrameKind::Notice
                if is_mcp_handshake && !is_initialized && !matches!(method, "ping" | "notifications/message") =>
            {
                odd("early_message", format!("sends `{method}` before `notifications/initialized`"));
            }
            _ => {}
        }
    }
}

fn of_answers(answers: &Answers, found: &mut Found) {
    for unknown in &answers.unknown_versions {
        let client = format!("{}@{}", unknown.dialect, unknown.like);
        let asked = unknown.asked;
        match &unknown.answer {
            Answer::Silent => {
                found.add("unknown_version_silent", format!("is silent if asked for version {asked}"), &client)
            }
            Answer::Ends => found.add("unknown_version_ends", format!("ends if asked for version {asked}"), &client),
            Answer::Accepts => {
                found.add(
                    "unknown_version_accepted",
                    format!("accepts version {asked}, which does not exist"),
                    &client,
                );
            }
            Answer::Offers { .. } | Answer::Refuses { .. } => {}
        }
    }
    let Some(early) = &answers.early else { return };
    let client = format!("mcp@{}", early.version);
    match &early.before_initialize {
        Answer::Accepts => {
            found.add("serves_before_initialize", "serves requests before `initialize`".to_owned(), &client);
        }
        Answer::Silent => {
            found.add("silent_before_initialize", "is silent to a request before `initialize`".to_owned(), &client);
        }
        Answer::Ends => {
            found.add("ends_before_initialize", "ends at a request before `initialize`".to_owned(), &client)
        }
        Answer::Offers { .. } | Answer::Refuses { .. } => {}
    }
    if matches!(early.initialize, Some(Answer::Silent | Answer::Ends | Answer::Refuses { .. })) {
        let message = "cannot be opened after a request before `initialize`";
        found.add("unusable_after_early_request", message.to_owned(), &client);
    }
    if early.before_initialized == Some(Answer::Accepts) {
        let message = "serves requests before `notifications/initialized`";
        found.add("serves_before_initialized", message.to_owned(), &client);
    }
}
