//! The recorded messages of a server, and the live ones that were compared with them.
//!
//! A live message is compared with the next recorded one of its lane: answers by the id of their request, requests by
//! method, notifications by method and the request that they are about. Between lanes the order is free.

use std::collections::{BTreeSet, HashMap, VecDeque};

use gladhand_core::Order as _;
use gladhand_core::negotiation::Side;
use gladhand_core::wire::{FrameKind, FrameSummary};
use gladhand_dialects::Dialect;
use gladhand_recording::{Bindings, Difference, compare};
use serde_json::Value;

use super::progress_token;
use crate::commands::shared::drawing::{describe, label};
use crate::commands::shared::recordings::Session;

/// How many unexpected messages are kept.
const UNEXPECTED: usize = 1000;

/// Messages that come in order.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Lane {
    Answer(Option<String>),
    Request(Option<String>),
    Notice(Option<String>, Option<String>),
    Text,
}

impl Lane {
    fn of(summary: Option<&FrameSummary<'_>>, text: &str) -> Self {
        let Some(summary) = summary else { return Self::Text };
        let name = || summary.name.as_deref().map(str::to_owned);
        let id = || summary.id.map(|id| id.get().to_owned());
        match summary.kind {
            FrameKind::Result | FrameKind::Error { .. } | FrameKind::Batch => Self::Answer(id()),
            FrameKind::Request => Self::Request(name()),
            FrameKind::Notice => Self::Notice(name(), id().or_else(|| Some(progress_token(text)?.get().to_owned()))),
        }
    }
}

/// How a live message differs.
#[derive(Debug)]
pub(super) struct Finding {
    /// Which message.
    pub(super) message: String,
    /// Its line in the recording. `None`: it was not recorded.
    pub(super) line: Option<u64>,
    pub(super) what: What,
}

#[derive(Debug)]
pub(super) enum What {
    /// These members differ.
    Changed(Vec<Difference>),
    /// It did not come.
    Missing,
    /// It was not recorded.
    Unexpected(String),
}

/// The recorded messages of the server.
pub(super) struct Expected<'s> {
    dialect: &'static Dialect,
    session: &'s Session,
    lanes: HashMap<Lane, VecDeque<usize>>,
    /// Recorded lines that have not arrived and are still waited for.
    awaited: BTreeSet<usize>,
    /// Recorded ids of server requests, with the live ones.
    ids: HashMap<String, String>,
    bindings: Bindings,
    findings: Vec<Finding>,
    /// Live messages.
    pub(super) received: usize,
    /// Live messages that were compared with a recorded one.
    pub(super) compared: usize,
}

impl<'s> Expected<'s> {
    pub(super) fn new(session: &'s Session, dialect: &'static Dialect) -> Self {
        let mut lanes: HashMap<_, VecDeque<_>> = HashMap::new();
        let mut awaited = BTreeSet::new();
        for (at, line) in session.lines.iter().enumerate() {
            if line.from == Side::Server && !line.is_stderr {
                let summary = describe(Some(dialect), &line.text);
                lanes.entry(Lane::of(summary.as_ref(), &line.text)).or_default().push_back(at);
                awaited.insert(at);
            }
        }
        let (ids, bindings, findings) = (HashMap::new(), Bindings::default(), Vec::new());
        Self { dialect, session, lanes, awaited, ids, bindings, findings, received: 0, compared: 0 }
    }

    /// Whether a recorded message before this place has not arrived and is still waited for.
    pub(super) fn lacks_before(&self, at: usize) -> bool {
        self.awaited.first().is_some_and(|first| *first < at)
    }

    /// Gives up the messages before a place.
    pub(super) fn give_up_before(&mut self, at: usize) {
        self.awaited = self.awaited.split_off(&at);
    }

    /// Compares a live message.
    pub(super) fn receive(&mut self, text: &str) {
        self.received += 1;
        let summary = describe(Some(self.dialect), text);
        let lane = Lane::of(summary.as_ref(), text);
        let Some(at) = self.lanes.get_mut(&lane).and_then(VecDeque::pop_front) else {
            if self.findings.len() < UNEXPECTED {
                let what = What::Unexpected(text.to_owned());
                self.findings.push(Finding { message: label(summary.as_ref()), line: None, what });
            }
            return;
        };
        self.compared += 1;
        self.awaited.remove(&at);
        let recorded = &self.session.lines[at];
        let is_request = matches!(lane, Lane::Request(_));
        if let (true, Some(id), Some(live)) = (is_request, &recorded.id, summary.and_then(|summary| summary.id)) {
            self.ids.insert(id.clone(), live.get().to_owned());
        }
        let ignored: &[_] = if is_request { &["id"] } else { &[] };
        // Text that is no JSON, or too deep to be taken apart, is compared as text.
        let value = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_else(|_| text.trim().into());
        let differences = compare(&value(&recorded.text), &value(text), ignored, &mut self.bindings);
        if !differences.is_empty() {
            let what = What::Changed(differences);
            self.findings.push(Finding { message: recorded.label.clone(), line: Some(recorded.number), what });
        }
    }

    /// The request with this id gets no answer.
    pub(super) fn lose(&mut self, id: &str) {
        let lane = self.lanes.get(&Lane::Answer(Some(id.to_owned())));
        if let Some(at) = lane.and_then(|places| places.front()) {
            // It stays in its lane, as a message that is missing.
            self.awaited.remove(at);
        }
    }

    /// A line of the recorded client, as the live server must get it.
    pub(super) fn outgoing(&self, at: usize) -> String {
        let line = &self.session.lines[at];
        let text = self.bindings.apply(&line.text);
        let is_answer = line.kind.is_some_and(FrameKind::is_answer);
        match line.id.as_ref().and_then(|id| self.ids.get(id)).filter(|_| is_answer) {
            Some(live) => super::with_id(self.dialect, &text, live),
            None => text,
        }
    }

    /// Whether recorded messages never came.
    pub(super) fn is_incomplete(&self) -> bool {
        self.lanes.values().any(|lane| !lane.is_empty())
    }

    /// All findings, in the order of the recording; messages that were not recorded come last.
    pub(super) fn findings(&mut self) -> Vec<Finding> {
        let mut findings = std::mem::take(&mut self.findings);
        for at in self.lanes.drain().flat_map(|(_, places)| places) {
            let line = &self.session.lines[at];
            let (message, line) = (line.label.clone(), Some(line.number));
            findings.push(Finding { message, line, what: What::Missing });
        }
        findings.order_by_key(|finding| finding.line.unwrap_or(u64::MAX));
        findings
    }
}
