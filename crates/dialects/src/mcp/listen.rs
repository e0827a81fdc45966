//! `subscriptions/listen` (2026-07-28): long-lived requests for change notifications.
//!
//! The acknowledgement comes first and lists the confirmed items. Only these are reported, tagged with the id of the
//! request. A cancelled or disconnected listener gets nothing more. A listener that we end gets the empty result and,
//! on a shared channel, also a cancellation notice.

use std::collections::BTreeSet;
use std::sync::Arc;

use gladhand_core::negotiation::Side;
use gladhand_core::operations::{Call, Operation, Update, WatchId, subscription_weight};
use gladhand_core::wire::json::{self, Kind, RawValue};
use gladhand_core::wire::{FrameKind, Frames, Id, Members, rpc, values};

use super::capabilities::InForce;
use super::changes::{Change, Changes};
use super::errors;
use super::ids::is_same;
use super::incoming_requests::{IncomingRequest, ReplyRoute, ReplyTo, RequestKind, Watcher};
use super::meta::SUBSCRIPTION_ID;
use super::render::Renderer;
use super::server::{McpServer, Request};
use super::watches::{MAX_URI_BYTES, Watches};
use crate::ambient::{Ambient, Party};
use crate::shares::Bound;
use crate::side::{Action, Lane, Output};

/// Maximum number of open subscriptions per lane, and in total.
const MAX_PER_LANE: usize = 64;
const MAX_LISTENERS: usize = 1024;

/// Maximum number of resources and tasks in all subscriptions. A resource with a long URI counts as several.
const MAX_WATCHED: usize = 4096;

/// Maximum number of bytes of notices for one change of a task, unless a single notice is larger.
const MAX_NOTICE_BYTES: usize = 32 * 1024 * 1024;

/// Identifies a subscription on this side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ListenerId(u64);

/// All listeners.
#[derive(Debug, Default)]
pub(super) struct Listeners {
    all: Vec<Listener>,
    next: u64,
}

#[derive(Debug)]
struct Listener {
    key: ListenerId,
    id: Id,
    lane: Lane,
    /// The party whose share it uses.
    party: Option<Party>,
    /// The lists whose changes it receives.
    wants: Changes,
    /// The resources whose changes it receives.
    watches: Watches,
    /// The tasks whose changes it receives.
    tasks: BTreeSet<String>,
    /// Its share of the limit on resources and tasks.
    watching: usize,
    /// The number of its pending resource subscriptions. The acknowledgement waits for them.
    unanswered: usize,
    /// The changes before the acknowledgement.
    unreported: Changes,
}

impl Listeners {
    /// Ends the newest subscription of a lane with a peer's id. `false` if there is none.
    pub(super) fn cancel(&mut self, id: &RawValue, lane: Lane, out: &mut Output<'_>) -> bool {
        let is_meant = |listener: &Listener| listener.lane == lane && is_same(listener.id.as_json(), id.get());
        let at = self.all.iter().rposition(is_meant);
        at.map(|at| self.all.remove(at).watches.clear(out)).is_some()
    }

    /// Ends the subscriptions of a closed exchange.
    pub(super) fn handle_lane_closed(&mut self, lane: Lane, out: &mut Output<'_>) {
        let gone = self.all.extract_if(.., |listener| listener.lane == lane);
        gone.for_each(|mut listener| listener.watches.clear(out));
    }

    /// Notifies the listeners that a list changed.
    pub(super) fn report_list_change(&mut self, change: Change, out: &mut Output<'_>) {
        for listener in self.all.iter_mut().filter(|listener| listener.wants.contains(change)) {
            if listener.unanswered > 0 {
                listener.unreported.insert(change);
            } else {
                listener.send_notice(change.method(), None, out);
            }
        }
    }

    /// Notifies the listeners that a resource changed.
    pub(super) fn report_update(&mut self, method: &str, update: &Update, out: &mut Output<'_>) {
        for listener in &mut self.all {
            if listener.unanswered > 0 {
                listener.watches.record_update(update);
            } else if listener.watches.cover(update) {
                listener.send_notice(method, Some(("uri", &update.uri)), out);
            }
        }
    }

    /// Notifies the listeners of a task's state, given as members of a notice. Before its acknowledgement, a listener
    /// gets nothing. The notice contains the whole result, so the number of listeners is limited by
    /// [`MAX_NOTICE_BYTES`]; the others must poll the task.
    pub(super) fn report_task(&self, method: &str, task: &str, members: &[u8], out: &mut Output<'_>) {
        let is_told = |listener: &&Listener| listener.unanswered == 0 && listener.tasks.contains(task);
        for listener in self.all.iter().filter(is_told).take((MAX_NOTICE_BYTES / members.len().max(1)).max(1)) {
            out.go(listener.lane);
            begin_tagged(&mut out.wire, method, &listener.id);
            out.wire.push(b',');
            out.wire.extend_from_slice(members);
            out.wire.push(b'}');
            rpc::finish(&mut out.wire);
        }
    }

    /// A resource subscription of a listener was answered. If the listener is gone, the subscription is cancelled.
    pub(super) fn watched(&mut self, key: ListenerId, uri: &str, granted: Option<WatchId>, out: &mut Output<'_>) {
        let Some(listener) = self.all.iter_mut().find(|listener| listener.key == key) else {
            out.actions.extend(granted.map(|id| Action::Unwatch(uri.to_owned(), id)));
            return;
        };
        if let Some(id) = granted {
            listener.watches.add(uri, id, out);
        }
        listener.unanswered -= 1;
        if listener.unanswered == 0 {
            listener.acknowledge(out);
        }
    }

    /// Ends all subscriptions from our side.
    pub(super) fn close(&mut self, render: &Renderer, out: &mut Output<'_>) {
        for Listener { id, lane, mut watches, .. } in self.all.drain(..) {
            out.go(lane);
            render.listen_result(&mut out.wire, &id);
            // A separate exchange ends with the result. On a shared channel, a cancellation notice follows as well.
            if lane == Lane::MAIN {
                let wire = &mut out.wire;
                wire.begin(FrameKind::Notice);
                wire.extend_from_slice(
                    br#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"#,
                );
                wire.extend_from_slice(id.as_bytes());
                wire.extend_from_slice(br#","reason":"the server is stopping"}"#);
                rpc::finish(wire);
            }
            watches.clear(out);
        }
    }

    /// Whether a party may have one more listener on a lane, with this many watched items.
    fn has_room_for(&self, lane: Lane, watching: usize, party: Option<Party>) -> bool {
        let of = |party| self.all.iter().filter(move |listener| listener.party == Some(party));
        let count = Bound { limit: MAX_LISTENERS, used: self.all.len() };
        let watched = Bound { limit: MAX_WATCHED, used: self.all.iter().map(|listener| listener.watching).sum() };
        self.all.iter().filter(|listener| listener.lane == lane).count() < MAX_PER_LANE
            && count.admits(1, party, |party| of(party).count())
            && watched.admits(watching, party, |party| of(party).map(|listener| listener.watching).sum())
    }
}

impl Listener {
    /// Sends the first notice of every subscription, and the changes before it.
    fn acknowledge(&mut self, out: &mut Output<'_>) {
        out.go(self.lane);
        begin_tagged(&mut out.wire, "notifications/subscriptions/acknowledged", &self.id);
        let mut honoured = serde_json::Map::new();
        honoured.extend(self.wants.iter().map(|change| (change.filter().to_owned(), true.into())));
        if self.watches.len() > 0 {
            honoured.insert("resourceSubscriptions".to_owned(), self.watches.uris().collect());
        }
        if !self.tasks.is_empty() {
            honoured.insert("taskIds".to_owned(), self.tasks.iter().cloned().collect());
        }
        out.wire.extend_from_slice(br#","notifications":"#);
        json::write(&mut out.wire, &honoured);
        out.wire.push(b'}');
        rpc::finish(&mut out.wire);
        for change in std::mem::take(&mut self.unreported).iter() {
            self.send_notice(change.method(), None, out);
        }
        for uri in self.watches.take_unreported() {
            self.send_notice("notifications/resources/updated", Some(("uri", &uri)), out);
        }
    }

    /// Sends one change notice.
    fn send_notice(&self, method: &str, param: Option<(&str, &str)>, out: &mut Output<'_>) {
        out.go(self.lane);
        begin_tagged(&mut out.wire, method, &self.id);
        if let Some((name, value)) = param {
            out.wire.push(b',');
            json::write(&mut out.wire, name);
            out.wire.push(b':');
            json::write(&mut out.wire, value);
        }
        out.wire.push(b'}');
        rpc::finish(&mut out.wire);
    }
}

impl McpServer {
    pub(super) fn listen(
        &mut self,
        request: Request<'_, '_>,
        in_force: &Arc<InForce>,
        ambient: &Ambient<'_>,
        out: &mut Output<'_>,
    ) {
        let Filter { wants, uris, mut tasks } = match read_filter(request.all_params(), in_force) {
            Ok(filter) => filter,
            Err(error) => return self.refuse(&request.to, &error, out),
        };
        tasks.retain(|task| self.tasks.find(Some(&**task), ambient, in_force.revision).is_ok());
        let party = request.party;
        let watching = uris.iter().map(|uri| subscription_weight(uri)).sum::<usize>() + tasks.len();
        if !self.listeners.has_room_for(request.to.route.lane, watching, party) {
            return self.refuse(&request.to, &errors::busy("subscriptions"), out);
        }
        let ReplyTo { id, route: ReplyRoute { lane, .. } } = request.to;
        self.listeners.next += 1;
        let key = ListenerId(self.listeners.next);
        for uri in &uris {
            let to = ReplyTo { id: id.clone(), route: ReplyRoute { lane, batch: None } };
            let request_kind = RequestKind::Watch { uri: uri.as_str().into(), by: Watcher::Listener(key) };
            let call = self.incoming.insert(IncomingRequest::new(to, request_kind, in_force));
            let call = Call::new(call, Operation::Watch(uri.clone().into()));
            out.actions.push(Action::Deliver(call, Arc::clone(&in_force.agreement)));
        }
        let (watches, unreported) = (Watches::default(), Changes::default());
        let unanswered = uris.len();
        let mut listener = Listener { key, id, lane, party, wants, watches, tasks, watching, unanswered, unreported };
        if uris.is_empty() {
            listener.acknowledge(out);
        }
        self.listeners.all.push(listener);
    }
}

/// The parsed filter of a subscription.
struct Filter {
    wants: Changes,
    uris: BTreeSet<String>,
    tasks: BTreeSet<String>,
}

/// Parses the filter, limited to agreed items. Fails if it is malformed.
fn read_filter(params: Option<&RawValue>, in_force: &InForce) -> Result<Filter, rpc::Error<'static>> {
    let filter = params.and_then(Members::of).and_then(|params| params.object("notifications"));
    let filter = filter
        .ok_or_else(|| errors::invalid_params("`notifications` must be an object with the changes to listen for"))?;
    let mut wants = Changes::default();
    for change in Change::ALL {
        let is_asked = filter.raw(change.filter()).is_some_and(|flag| flag.get() == "true");
        if is_asked && in_force.gate.admit(Side::Server, change.method()).is_ok() {
            wants.insert(change);
        }
    }
    let names = |member: &str| match filter.some(member) {
        None => Ok(BTreeSet::new()),
        Some(list) => {
            let list = Some(list).filter(|list| Kind::of(list) == Kind::Array);
            let names = list.and_then(|list| values::read::<BTreeSet<String>>(list.get()).ok());
            names.ok_or_else(|| errors::invalid_params(format!("`{member}` must be a list of strings")))
        }
    };
    let (mut uris, mut tasks) = (names("resourceSubscriptions")?, names("taskIds")?);
    if uris.iter().any(|uri| uri.len() > MAX_URI_BYTES) {
        return Err(errors::invalid_params("a URI of `resourceSubscriptions` is longer than 4096 bytes"));
    }
    let may_tell = |notice| in_force.gate.admit(Side::Server, notice).is_ok();
    if !may_tell("notifications/resources/updated") {
        uris.clear();
    }
    if !may_tell("notifications/tasks") {
        tasks.clear();
    }
    Ok(Filter { wants, uris, tasks })
}

/// Writes a notification up to and including its `_meta`, which names the subscription.
fn begin_tagged(wire: &mut Frames, method: &str, subscription: &Id) {
    wire.begin(FrameKind::Notice);
    wire.extend_from_slice(br#"{"jsonrpc":"2.0","method":""#);
    wire.extend_from_slice(method.as_bytes());
    wire.extend_from_slice(br#"","params":{"_meta":{""#);
    wire.extend_from_slice(SUBSCRIPTION_ID.as_bytes());
    wire.extend_from_slice(br#"":"#);
    wire.extend_from_slice(subscription.as_bytes());
    wire.push(b'}');
}
