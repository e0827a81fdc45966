//! Notifications of changes: subscriptions in the handshake era, and the single stream of 2026-07-28 that replaces
//! them.
//!
//! The filter of a stream cannot change while it runs. To add a resource, the client opens another stream, waits for
//! its acknowledgement, and only then ends the old one. No change is missed in between. A stream that ends is reopened
//! after a pause. Everything that may have changed meanwhile is then reported as changed.

use std::collections::BTreeSet;
use std::time::Duration;

use gladhand_core::negotiation::Side;
use gladhand_core::operations::{Failure, Notice, Reply, Update};
use gladhand_core::wire::{Members, RawValue, json, pick, rpc};

use super::call_kind::CallKind;
use super::work::{OutgoingRequest, Params, Work};
use super::{Answer, McpClient, Phase, our_id};
use crate::mcp::meta::SUBSCRIPTION_ID;
use crate::side::{Event, Heard, Lane};

/// Pause before a stream that ended is reopened. It doubles each time, up to a maximum.
const MIN_PAUSE: Duration = Duration::from_millis(250);
const MAX_PAUSE: Duration = Duration::from_secs(60);

/// The list changes that a stream can report: the required capability, the member of the filter, and the notice.
const LISTS: [(&str, &str, Notice); 3] = [
    ("tools.listChanged", "toolsListChanged", Notice::ToolsChanged),
    ("prompts.listChanged", "promptsListChanged", Notice::PromptsChanged),
    ("resources.listChanged", "resourcesListChanged", Notice::ResourcesChanged),
];

/// The state of the subscriptions.
#[derive(Debug)]
pub(super) struct Listening {
    /// Whether changes of lists are wanted.
    lists: bool,
    /// The acknowledged stream.
    current: Option<Stream>,
    /// The stream that was requested and is not acknowledged yet.
    pending: Option<Stream>,
    /// Calls that wait until a stream covers their resource.
    waiting: Vec<Work>,
    /// Subscribed resources that the upstream no longer reports. They are requested again when fewer resources are
    /// subscribed, and when a stream is reopened.
    refused: BTreeSet<String>,
    /// When to reopen a stream.
    due: Option<Duration>,
    /// How many streams ended in a row.
    ends: u32,
    /// Whether changes may have been missed.
    has_gap: bool,
}

#[derive(Debug)]
struct Stream {
    id: u64,
    uris: BTreeSet<String>,
}

impl Listening {
    pub(super) fn new(lists: bool) -> Self {
        let (waiting, refused) = (Vec::new(), BTreeSet::new());
        Self { lists, current: None, pending: None, waiting, refused, due: None, ends: 0, has_gap: false }
    }

    pub(super) fn due(&self) -> Option<Duration> {
        self.due
    }

    /// Whether an id is that of a stream.
    pub(super) fn is_under(&self, id: u64) -> bool {
        self.current.iter().chain(&self.pending).any(|stream| stream.id == id)
    }

    /// Removes and returns the waiting calls for which `picked` is true.
    pub(super) fn take_waiting(&mut self, picked: impl FnMut(&Work) -> bool) -> Vec<Work> {
        let (taken, left) = std::mem::take(&mut self.waiting).into_iter().partition(picked);
        self.waiting = left;
        taken
    }
}

impl McpClient {
    /// Replaces the stream if it does not match the wanted subscriptions.
    pub(super) fn listen(&mut self, heard: &mut Heard) {
        if !self.spoken().is_stateless() || !matches!(self.phase, Phase::Open(_)) || self.listening.pending.is_some() {
            return;
        }
        let wanted = self.watched.keys().filter(|uri| !self.listening.refused.contains(*uri));
        let uris: BTreeSet<String> = wanted.cloned().collect();
        let filter = self.filter(&uris);
        let fits = match &self.listening.current {
            Some(current) => current.uris == uris,
            None => filter.is_empty(),
        };
        if fits {
            return;
        }
        self.listening.due = None;
        if filter.is_empty() {
            if let Some(current) = self.listening.current.take() {
                self.end_stream(&current, heard);
            }
            return;
        }
        let params = format!(r#""notifications":{{{filter}}}"#);
        let id = self.send_other("subscriptions/listen", &params, OutgoingRequest::Listen, heard);
        self.listening.pending = Some(Stream { id, uris });
    }

    /// The members of the filter for all wanted changes.
    fn filter(&self, uris: &BTreeSet<String>) -> String {
        let mut filter = Params::default();
        for (capability, member, _) in LISTS {
            if self.listening.lists && self.is_agreed(Side::Server, capability) {
                filter.raw(member, &json::to_raw(&true));
            }
        }
        if !uris.is_empty() {
            filter.raw("resourceSubscriptions", &json::to_raw(uris));
        }
        filter.0
    }

    pub(super) fn listen_if_due(&mut self, now: Duration, heard: &mut Heard) {
        if self.listening.due.is_some_and(|due| due <= now) {
            self.listening.due = None;
            self.listen(heard);
        }
    }

    /// Subscribes to a resource through the stream.
    pub(super) fn watch_by_listening(&mut self, work: Box<Work>, heard: &mut Heard) {
        let CallKind::Watch { uri } = &work.kind else { return };
        if self.listening.current.as_ref().is_some_and(|current| current.uris.contains(uri)) {
            return self.done(&work, Ok(Reply::Done), heard);
        }
        self.listening.refused.remove(uri);
        self.listening.waiting.push(*work);
        self.listen(heard);
    }

    /// Repeats the subscriptions of the old session in a new session.
    pub(super) fn watch_again(&mut self, heard: &mut Heard) {
        if !self.may_send("resources/subscribe") {
            return;
        }
        for uri in self.watched.keys().cloned().collect::<Vec<_>>() {
            let mut params = Params::default();
            params.text("uri", &uri);
            self.send_quietly("resources/subscribe", &params.0, heard);
        }
    }

    /// Removes one subscription to a resource. Returns true if it was the last.
    pub(super) fn remove_subscription(&mut self, uri: &str) -> bool {
        let Some(count) = self.watched.get_mut(uri) else { return false };
        *count -= 1;
        let is_last = *count == 0 && self.watched.remove(uri).is_some();
        if is_last {
            self.listening.refused.clear();
        }
        is_last
    }

    /// Whether a notification belongs to a subscription of ours. In the handshake era, all do.
    pub(super) fn is_of_subscription(&self, params: Option<&RawValue>) -> bool {
        !self.spoken().is_stateless() || subscription(params).is_some_and(|id| self.listening.is_under(id))
    }

    pub(super) fn listen_acknowledged(&mut self, params: Option<&RawValue>, heard: &mut Heard) {
        let acknowledged = subscription(params);
        let Some(mut stream) = self.listening.pending.take_if(|pending| Some(pending.id) == acknowledged) else {
            heard.events.push(Event::Dropped("an acknowledgement without a pending subscription"));
            return;
        };
        self.listening.ends = 0;
        let honoured = honoured(params);
        let asked_for = |work: &Work| matches!(&work.kind, CallKind::Watch { uri } if stream.uris.contains(uri));
        for work in self.listening.take_waiting(asked_for) {
            let CallKind::Watch { uri } = &work.kind else { continue };
            let outcome = match &honoured {
                Honoured::All => Ok(Reply::Done),
                Honoured::Only(uris) if uris.contains(uri) => Ok(Reply::Done),
                Honoured::Only(_) => Err(Failure::unknown_resource(uri)),
                Honoured::None => Err(Failure::cannot_watch()),
            };
            if outcome.is_err() {
                stream.uris.remove(uri);
            }
            self.done(&work, outcome, heard);
        }
        if std::mem::take(&mut self.listening.has_gap) {
            self.report_gap(&stream, heard);
        }
        if let Some(old) = self.listening.current.replace(stream) {
            self.end_stream(&old, heard);
        }
        self.listen(heard);
    }

    /// Reports everything as changed, because changes were missed while no stream was open.
    fn report_gap(&self, stream: &Stream, heard: &mut Heard) {
        for (capability, _, notice) in LISTS {
            if self.listening.lists && self.is_agreed(Side::Server, capability) {
                heard.events.push(Event::Notice(notice));
            }
        }
        let updates = stream.uris.iter().map(|uri| Event::Notice(Notice::ResourceUpdated(Update::of(uri.clone()))));
        heard.events.extend(updates);
    }

    /// A stream has ended: with a result in the regular case, or with an error that refuses it.
    pub(super) fn listen_answered(&mut self, id: u64, answer: Answer<'_>, now: Duration, heard: &mut Heard) {
        match answer {
            Ok(_) => self.listen_ended(id, now),
            Err(error) => self.listen_refused(id, |kind| kind.failure(error), now, heard),
        }
    }

    /// A stream ended. Calls that wait for it wait for the next one.
    pub(super) fn listen_ended(&mut self, id: u64, now: Duration) {
        let listening = &mut self.listening;
        listening.current.take_if(|stream| stream.id == id);
        listening.pending.take_if(|stream| stream.id == id);
        let is_served = listening.current.is_some() && listening.waiting.is_empty();
        if !is_served && listening.pending.is_none() {
            let pause = MIN_PAUSE.saturating_mul(1 << listening.ends.min(10)).min(MAX_PAUSE);
            listening.ends = listening.ends.saturating_add(1);
            listening.has_gap |= listening.current.is_none();
            listening.refused.clear();
            listening.due = Some(now + pause);
        }
    }

    /// The upstream refuses a stream, perhaps because of too many resources. The calls that caused it fail. The stream
    /// is requested again with fewer resources, so that changes of lists are still reported.
    pub(super) fn listen_refused(
        &mut self,
        id: u64,
        why: impl Fn(&CallKind) -> Failure,
        now: Duration,
        heard: &mut Heard,
    ) {
        let Some(Stream { uris, .. }) = self.listening.pending.take_if(|stream| stream.id == id) else {
            return self.listen_ended(id, now);
        };
        let asked_for = |work: &Work| matches!(&work.kind, CallKind::Watch { uri } if uris.contains(uri));
        let newest = self.listening.take_waiting(asked_for);
        if newest.is_empty() {
            self.reduce_request(uris);
        }
        for work in newest {
            let failure = why(&work.kind);
            self.done(&work, Err(failure), heard);
        }
        if self.listening.current.is_none() || !self.listening.waiting.is_empty() {
            self.listen(heard);
        }
    }

    /// A stream without new resources was refused. If there is no other stream, half of the resources are left out. If
    /// the lists alone are refused, they are not requested again.
    fn reduce_request(&mut self, uris: BTreeSet<String>) {
        if self.listening.current.is_some() {
            return;
        }
        self.listening.lists &= !uris.is_empty();
        let kept = uris.len() / 2;
        self.listening.refused.extend(uris.into_iter().skip(kept));
    }

    fn end_stream(&mut self, stream: &Stream, heard: &mut Heard) {
        self.requests.remove(&stream.id);
        if self.exchanges {
            heard.events.push(Event::LetGo(Lane(stream.id)));
        } else {
            let params = serde_json::json!({"requestId": stream.id});
            rpc::notification(&mut heard.wire, "notifications/cancelled", Some(&params));
        }
    }
}

/// The stream that a message belongs to.
fn subscription(params: Option<&RawValue>) -> Option<u64> {
    let [meta] = pick(params?, ["_meta"])?;
    let [id] = pick(meta?, [SUBSCRIPTION_ID])?;
    // Some servers write the number as a string.
    let id = id?;
    our_id(id.get()).or_else(|| json::string(id)?.parse().ok())
}

/// The resources that an acknowledgement confirms.
enum Honoured {
    /// The acknowledgement has no list, so all are confirmed.
    All,
    /// Only these.
    Only(BTreeSet<String>),
    /// The acknowledgement has other members, but no resources.
    None,
}

fn honoured(params: Option<&RawValue>) -> Honoured {
    let filter = params.and_then(Members::of).and_then(|params| params.object("notifications"));
    let Some(filter) = filter else { return Honoured::All };
    let Some(uris) = filter.raw("resourceSubscriptions") else { return Honoured::None };
    let uris = super::results::array(uris).unwrap_or_default();
    Honoured::Only(uris.into_iter().filter_map(json::string).map(Into::into).collect())
}
