//! loaf RPC 1.0.0: JSON-RPC requests in, responses and `event` notifications out.
//!
//! Follows our digest `loaf` (§§2–7 for the wire, §11.6 and §16.1 for tools, §12 for events). Methods of the agent
//! (turns, queues, history, logins) require the capability `agent`. Without an agent, most of them are answered with
//! "method not found" (see [`methods`]). We add to the protocol and remove nothing: the method `tools.call`, which lets
//! a loaf client call a tool, three session methods, and our own identity in the handshake's result.
//!
//! There is one intended deviation: the reference formats ids like a JavaScript double (`1.0` becomes `1`). Here an id
//! is returned exactly as it was sent.

use gladhand_core::negotiation::Offer;
use gladhand_core::wire::Frames;
use gladhand_core::wire::lines::Terminator;
use gladhand_core::wire::text::{BadUtf8, ByteOrderMark, LoneSurrogate};
use gladhand_core::wire::{Id, TextPolicy, rpc};

use crate::ambient::Ambient;
use crate::side::{Claim, Dialect, FirstLine};

mod agent;
mod client;
mod errors;
pub mod methods;
mod opening;
mod params;
mod server;
mod sessions;
mod text;
mod tools;

pub use agent::MODEL_PROVIDERS;
pub use opening::CAPABILITIES;

/// The dialect.
pub static DIALECT: Dialect = Dialect {
    name: "loaf",
    versions: &[opening::VERSION],
    text: TextPolicy {
        terminator: Terminator::LfOrCr,
        byte_order_mark: ByteOrderMark::Skip,
        bad_utf8: BadUtf8::Replace,
        lone_surrogate: LoneSurrogate::Carry,
    },
    has_tokens: false,
    has_http: false,
    has_agent: true,
    carried: &[],
    claim,
    recognizes_reply,
    describe: rpc::describe,
    offer: |_| Offer::default(),
    carriers: methods::carriers,
    rules: methods::rules,
    refusal_line,
    server: |setup| Box::new(server::LoafServer::new(setup)),
    client: |setup| Box::new(client::LoafClient::new(setup)),
};

fn refusal_line(line: &FirstLine<'_>, why: &str, _: &mut Ambient<'_>, wire: &mut Frames) {
    if let Some(id) = line.members.as_ref().and_then(|members| members.some("id")) {
        errors::Error::unavailable(why).answer(wire, Some(&Id::of(id)));
    }
}

/// loaf needs no handshake: any of its method names identifies it.
fn claim(first: &FirstLine<'_>) -> Claim {
    let Some(members) = &first.members else { return Claim::No };
    match members.str("method") {
        Some(method) if members.has("jsonrpc") && methods::find(&method).is_some() => Claim::Certain,
        _ => Claim::No,
    }
}

/// Whether a line is loaf's error for an unknown method, which has both a reason and the method in its data.
fn recognizes_reply(line: &FirstLine<'_>) -> bool {
    let error = line.members.as_ref().and_then(|members| members.object("error"));
    let data = error.and_then(|error| error.object("data"));
    data.is_some_and(|data| data.str("reason").is_some_and(|reason| reason == "method_not_found") && data.has("method"))
}
