//! MCP, all five revisions, both sides.
//!
//! Four revisions open with `initialize`. In the fifth (2026-07-28), every request carries its own opening in `_meta`.
//! One server side serves both eras and distinguishes them for each request. A client side speaks the requested
//! revision. The differences between revisions are data, in the tables of `methods`, `capabilities` and `revision`.

mod batch;
pub mod capabilities;
mod changes;
mod client;
mod conversation;
mod cursor;
mod errors;
mod header_params;
pub mod http;
mod ids;
mod incoming_requests;
mod kept_notices;
mod listen;
mod lists;
mod member_order;
mod message;
mod meta;
pub mod methods;
mod notices;
mod opening;
mod parked;
mod phrasing;
mod prompts;
mod questions;
mod render;
mod requests;
mod resources;
pub mod revision;
mod server;
mod stateless;
mod task_answers;
mod tasks;
mod watches;

use gladhand_core::wire::Frames;
use gladhand_core::wire::TextPolicy;
use gladhand_core::wire::text::{BadUtf8, ByteOrderMark, LoneSurrogate};
use gladhand_core::wire::{Id, Terminator, json, rpc};

use crate::ambient::Ambient;
use crate::side::{Claim, Dialect, FirstLine};

pub use message::Message;
pub use server::McpServer;

/// The dialect.
pub static DIALECT: Dialect = Dialect {
    name: "mcp",
    versions: &revision::Revision::NAMES,
    text: TextPolicy {
        terminator: Terminator::Lf,
        byte_order_mark: ByteOrderMark::Skip,
        bad_utf8: BadUtf8::Refuse,
        lone_surrogate: LoneSurrogate::Carry,
    },
    has_tokens: false,
    has_http: true,
    has_agent: false,
    carried: &[],
    claim,
    // We try MCP first, so an MCP server need not be recognised by its errors.
    recognizes_reply: |_| false,
    describe: rpc::describe,
    offer: opening::offer_in_first_line,
    carriers: methods::carriers,
    rules: || methods::TABLE,
    refusal_line,
    server: |setup| Box::new(McpServer::new(setup)),
    client: |setup| Box::new(client::McpClient::new(setup)),
};

fn refusal_line(line: &FirstLine<'_>, why: &str, _: &mut Ambient<'_>, wire: &mut Frames) {
    if let Some(id) = line.members.as_ref().and_then(|members| members.some("id")) {
        rpc::error(wire, Some(&Id::of(id)), &errors::internal("unavailable", why.to_owned(), None));
    }
}

/// A JSON-RPC line is plausible. A method or a `_meta` of MCP makes it certain.
fn claim(first: &FirstLine<'_>) -> Claim {
    let Some(members) = &first.members else {
        return if first.text.starts_with('[') { Claim::Plausible } else { Claim::No };
    };
    if !members.has("jsonrpc") {
        return Claim::No;
    }
    let method = members.raw("method").and_then(json::string).unwrap_or_default();
    // No MCP method contains a dot without a slash. Other dialects have such methods.
    if method.contains('.') && !method.contains('/') {
        return Claim::Plausible;
    }
    let carries_opening = || {
        let meta = members.object("params").and_then(|params| params.raw("_meta"));
        meta.and_then(meta::Meta::of).is_some_and(|meta| meta.is_stateless())
    };
    if methods::is_known(&method) || method.starts_with("notifications/") || carries_opening() {
        Claim::Certain
    } else {
        Claim::Plausible
    }
}

#[cfg(test)]
#[path = "claim_tests.rs"]
mod tests;
