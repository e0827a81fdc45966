//! A2E 1.0, both sides: typed messages, and one handshake that grants capabilities.
//!
//! Where the published page and the reference implementation disagree, the page's security rules apply (token, version,
//! capabilities, gate, `max_parallel`), with the reference's spelling. Both spellings of the version key are written
//! and read. A capability that the setup does not serve is granted as `enabled:false`, and its messages are answered as
//! missing.
//!
//! `opening` is the host's handshake, `incoming_requests` enforces `max_parallel` and timeouts, `tools` and `parameters` render
//! the neutral model, `fields` reads it, and `answers` parses a host's answers for the client.

mod answers;
pub mod capabilities;
mod carrying;
mod client;
mod errors;
mod fields;
mod incoming_requests;
mod message;
mod opening;
mod parameters;
mod questions;
pub mod registry;
mod requests;
mod results;
mod schemas;
mod server;
mod tools;

use gladhand_core::negotiation::{Offer, Refusal};
use gladhand_core::wire::Frames;
use gladhand_core::wire::text::{BadUtf8, ByteOrderMark, LoneSurrogate};
use gladhand_core::wire::{Id, Terminator, TextPolicy};

use crate::ambient::Ambient;
use crate::side::{Claim, Dialect, FirstLine};

pub use requests::Message;
pub use server::Host;

/// The dialect.
pub static DIALECT: Dialect = Dialect {
    name: "a2e",
    versions: &[capabilities::VERSION],
    text: TextPolicy {
        terminator: Terminator::Lf,
        byte_order_mark: ByteOrderMark::Refuse,
        bad_utf8: BadUtf8::Refuse,
        lone_surrogate: LoneSurrogate::Carry,
    },
    has_tokens: true,
    has_http: true,
    has_agent: false,
    carried: capabilities::CARRIED,
    claim,
    recognizes_reply,
    describe: registry::describe,
    offer: |_| Offer::default(),
    carriers: registry::carriers,
    rules: || registry::RULES,
    refusal_line,
    server: |setup| Box::new(Host::new(setup)),
    client: |setup| Box::new(client::Agent::new(setup)),
};

fn refusal_line(line: &FirstLine<'_>, why: &str, ambient: &mut Ambient<'_>, wire: &mut Frames) {
    let id = line.members.as_ref().and_then(|members| members.some("id")).map(Id::of);
    let kind = line.members.as_ref().and_then(|members| members.str("type"));
    if kind.is_some_and(|kind| kind == "handshake/req") {
        let refusal = Refusal::ServerError { problem: why.to_owned() };
        return opening::refuse(id.as_ref(), &refusal, 0, ambient, wire);
    }
    errors::ErrorBody::unavailable(why).send(id.as_ref(), ambient, wire);
}

/// Whether a first line is A2E.
fn claim(line: &FirstLine<'_>) -> Claim {
    let Some(members) = &line.members else { return Claim::No };
    if members.str("a2e").is_some() {
        return Claim::Certain;
    }
    let Some(name) = members.str("type") else { return Claim::No };
    match registry::find(&name) {
        // `error` is the only type that other envelopes use as well, so it needs another member as evidence.
        Some(_) if name == "error" => match members.has("version") || members.has("req_id") {
            true => Claim::Certain,
            false => Claim::No,
        },
        Some(_) => Claim::Certain,
        None if name.contains('/') => Claim::Plausible,
        None => Claim::No,
    }
}

/// Whether a line is a host's error. A client that begins in another dialect gets no other message.
fn recognizes_reply(line: &FirstLine<'_>) -> bool {
    let Some(members) = &line.members else { return false };
    members.str("type").is_some_and(|name| name == "error") && members.has("req_id") && members.str("code").is_some()
}

#[cfg(test)]
#[path = "tests/mod.rs"]
mod tests;
