//! Fluxloop 0.1.0: one JSON object per line; handshakes and requests in, responses and errors out.
//!
//! Follows our digest `fluxloop` (§§2–7, 9, 20, 22). The dialect has two forms: that of the protocol page and that of
//! the shipped server. A line shows its form and is answered in the same form. Everything except the envelope is
//! shared. The shipped server crashes on any malformed line and prints runtime errors. This one answers as the digest
//! recommends, and continues.

use gladhand_core::negotiation::Offer;
use gladhand_core::wire::Frames;
use gladhand_core::wire::lines::Terminator;
use gladhand_core::wire::text::{BadUtf8, ByteOrderMark, LoneSurrogate};
use gladhand_core::wire::{RawValue, TextPolicy};

use crate::ambient::Ambient;
use crate::side::{Claim, Dialect, FirstLine};

mod answers;
mod client;
mod envelope;
mod numbers;
mod opening;
mod queue;
mod server;

pub use opening::CAPABILITIES;

/// The dialect.
pub static DIALECT: Dialect = Dialect {
    name: "fluxloop",
    versions: &[opening::VERSION],
    text: TextPolicy {
        terminator: Terminator::Lf,
        byte_order_mark: ByteOrderMark::Refuse,
        bad_utf8: BadUtf8::Refuse,
        lone_surrogate: LoneSurrogate::Refuse,
    },
    has_tokens: false,
    has_http: false,
    has_agent: false,
    carried: &[],
    claim,
    recognizes_reply,
    describe: envelope::describe,
    offer: |_| Offer::default(),
    carriers: opening::carriers,
    rules: || &opening::ROWS,
    refusal_line,
    server: |setup| Box::new(server::FluxloopServer::new(setup)),
    client: |setup| Box::new(client::FluxloopClient::new(setup)),
};

fn refusal_line(line: &FirstLine<'_>, why: &str, _: &mut Ambient<'_>, wire: &mut Frames) {
    let parsed = envelope::ParsedLine::read(line.text);
    let error = envelope::Error::new("internal_error", why).with(&serde_json::json!({"reason": "unavailable"}));
    envelope::write_error(wire, parsed.form, parsed.id.map(RawValue::get), &error);
}

/// Members that no Fluxloop message has. A line with one of them and an unknown `type` belongs to another dialect.
const FOREIGN: [&str; 3] = ["a2e", "version", "req_id"];

fn claim(first: &FirstLine<'_>) -> Claim {
    let Some(members) = &first.members else { return Claim::No };
    if members.has("jsonrpc") {
        return Claim::No;
    }
    match (members.has("type"), members.str("type").as_deref()) {
        (false, _) if members.has("tool") => Claim::Certain,
        (_, Some("handshake" | "request")) => Claim::Certain,
        (_, Some(word)) if !word.contains('/') && !FOREIGN.iter().any(|name| members.has(name)) => Claim::Plausible,
        _ => Claim::No,
    }
}

/// Whether a line is an error envelope, which is the same in both forms.
fn recognizes_reply(line: &FirstLine<'_>) -> bool {
    let Some(members) = line.members.as_ref().filter(|members| !FOREIGN.iter().any(|name| members.has(name))) else {
        return false;
    };
    let is_error = members.str("type").is_some_and(|word| word == "error");
    is_error && members.object("error").is_some_and(|error| error.str("code").is_some())
}
