//! `subscriptions/listen` (2026-07-28): long-lived requests for notices of change.
//!
//! The acknowledgement comes first and names what is honoured; only that follows, tagged with the
//! id of the request. A listener that is cancelled hears nothing more; one that we end gets the
//! empty result and the notice that it is over.

use gladhand_accord::Side;
use gladhand_wire::Id;
use gladhand_wire::json::{Kind, RawValue};

use super::capabilities::InForce;
use super::errors;
use super::ids::is_same;
use super::meta::SUBSCRIPTION_ID;
use super::pending::{ReplyTo, Way};
use super::render::Renderer;
use super::server::{McpServer, Request};
use crate::side::{Lane, Output};
use gladhand_wire::pick;

/// How many subscriptions may be open at once.
pub(super) const MAX_LISTENERS: usize = 64;

/// Everybody who listens.
#[derive(Debug, Default)]
pub(super) struct Listeners {
    all: Vec<Listener>,
}

#[derive(Debug)]
struct Listener {
    id: Id,
    lane: Lane,
    tools_changed: bool,
}

impl Listeners {
    /// Ends the newest subscription under a peer's id; `false` if there is none.
    pub(super) fn cancel(&mut self, id: &RawValue) -> bool {
        let at = self.all.iter().rposition(|listener| is_same(listener.id.as_json(), id.get()));
        at.map(|at| self.all.remove(at)).is_some()
    }

    /// Ends the subscriptions of an exchange that is no more.
    pub(super) fn hung_up(&mut self, lane: Lane) {
        self.all.retain(|listener| listener.lane != lane);
    }

    /// Tells those who asked that the list of tools changed.
    pub(super) fn tell_tools_changed(&self, out: &mut Output<'_>) {
        for listener in self.all.iter().filter(|listener| listener.tools_changed) {
            out.go(listener.lane);
            begin_tagged(&mut out.wire, "notifications/tools/list_changed", &listener.id);
            out.wire.extend_from_slice(b"}}\n");
        }
    }

    /// Ends all subscriptions from our side.
    pub(super) fn close(&mut self, render: &Renderer, out: &mut Output<'_>) {
        for Listener { id, lane, .. } in self.all.drain(..) {
            out.go(lane);
            let wire = &mut out.wire;
            render.listen_result(wire, &id);
            // An exchange of its own ends with the result; on a shared channel the end is said as well.
            if lane != Lane::MAIN {
                continue;
            }
            wire.extend_from_slice(br#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"#);
            wire.extend_from_slice(id.as_json().as_bytes());
            wire.extend_from_slice(br#","reason":"the server is stopping"}}"#);
            wire.push(b'\n');
        }
    }
}

impl McpServer {
    pub(super) fn listen(&mut self, request: Request<'_>, in_force: &InForce, out: &mut Output<'_>) {
        let filter = request.all_params().and_then(|params| pick(params, ["notifications"]));
        let filter = filter.and_then(|[filter]| filter).filter(|raw| Kind::of(raw) == Kind::Object);
        let Some([tools_changed]) = filter.and_then(|filter| pick(filter, ["toolsListChanged"])) else {
            let error = errors::invalid_params("`notifications` must be an object that says what to listen for");
            return self.refuse(&request.to, &error, out);
        };
        if self.listeners.all.len() >= MAX_LISTENERS {
            return self.refuse(&request.to, &errors::busy("subscriptions"), out);
        }
        let is_asked = tools_changed.is_some_and(|flag| flag.get() == "true");
        let tools_changed = is_asked && in_force.agreement.allows(Side::Server, "tools.listChanged");
        let ReplyTo { id, way: Way { lane, .. } } = request.to;
        out.go(lane);
        begin_tagged(&mut out.wire, "notifications/subscriptions/acknowledged", &id);
        out.wire.extend_from_slice(br#","notifications":{"#);
        if tools_changed {
            out.wire.extend_from_slice(br#""toolsListChanged":true"#);
        }
        out.wire.push(b'}');
        out.wire.extend_from_slice(b"}}\n");
        self.listeners.all.push(Listener { id, lane, tools_changed });
    }
}

/// A notification up to behind its `_meta`, which names the subscription.
fn begin_tagged(wire: &mut Vec<u8>, method: &str, subscription: &Id) {
    wire.extend_from_slice(br#"{"jsonrpc":"2.0","method":""#);
    wire.extend_from_slice(method.as_bytes());
    wire.extend_from_slice(br#"","params":{"_meta":{""#);
    wire.extend_from_slice(SUBSCRIPTION_ID.as_bytes());
    wire.extend_from_slice(br#"":"#);
    wire.extend_from_slice(subscription.as_json().as_bytes());
    wire.push(b'}');
}
