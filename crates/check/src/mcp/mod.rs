//! MCP: the rules of all five revisions, a table for each part of the specification.
//!
//! Sections name the pages of the published specification, such as `basic/lifecycle`.

pub(crate) mod base;
pub(crate) mod calls;
pub(crate) mod client;
pub(crate) mod gate;
pub(crate) mod lists;
pub(crate) mod opening;
pub(crate) mod stateless;

use serde_json::Value;

use crate::message::{Message, Pair, View, brief, shown};
use crate::rule::{Level, Rule};
use crate::tally::Tally;

/// The revisions with a handshake, oldest first.
pub(crate) const HANDSHAKE: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

/// The revision without one.
pub(crate) const STATELESS: &str = "2026-07-28";

const fn must(id: &'static str, section: &'static str, about: &'static str, judge: fn(&View<'_>, &mut Tally)) -> Rule {
    Rule::new("mcp", Level::Must, id, section, about, judge)
}

const fn should(
    id: &'static str,
    section: &'static str,
    about: &'static str,
    judge: fn(&View<'_>, &mut Tally),
) -> Rule {
    Rule::new("mcp", Level::Should, id, section, about, judge)
}

/// A rule of the revisions with a handshake.
const fn handshake(rule: Rule) -> Rule {
    rule.between(HANDSHAKE[0], HANDSHAKE[3])
}

/// The version that the server chose, if it answered `initialize`.
pub(crate) fn version_in_force<'v>(view: &'v View<'_>) -> Option<&'v str> {
    let chosen = view.messages.iter().find_map(|message| message.text_at("/result/protocolVersion"));
    chosen.filter(|version| HANDSHAKE.contains(version))
}

/// Whether a member must be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Presence {
    Required,
    Optional,
}
use Presence::Required;

/// A member of each entry of a list has the right type.
fn entry_member(
    view: &View<'_>,
    tally: &mut Tally,
    (method, list): (&str, &str),
    (name, presence): (&str, Presence),
    fits: fn(&Value) -> bool,
) {
    for (pair, entry) in view.entries(method, list) {
        let value = entry.get(name);
        if value.is_some() || presence == Required {
            tally.expect(value.is_some_and(fits), &pair.lines(), || {
                format!("`{name}` of {} is {}", label(entry), shown(value))
            });
        }
    }
}

/// A member of each result of a method has the right type.
fn result_member(
    view: &View<'_>,
    tally: &mut Tally,
    method: &str,
    (pointer, presence): (&str, Presence),
    fits: fn(&Value) -> bool,
) {
    for (pair, result) in view.results(method) {
        let value = result.pointer(pointer);
        if value.is_some() || presence == Required {
            tally.expect(value.is_some_and(fits), &pair.lines(), || {
                format!("`{}` is {}", pointer.trim_start_matches('/'), shown(value))
            });
        }
    }
}

/// How an entry of a list is called.
fn label(entry: &Value) -> String {
    let name = ["name", "uri", "uriTemplate"].into_iter().find_map(|key| entry.get(key)?.as_str());
    name.map_or_else(|| "an entry without a name".to_owned(), |name| format!("`{}`", brief(name)))
}

/// The answers to requests with this method are errors with one of these codes.
fn refused_with(tally: &mut Tally, pairs: Vec<Pair<'_, '_>>, codes: &[i64]) {
    for pair in pairs {
        let code = pair.answer.error_code();
        tally.expect(code.is_some_and(|code| codes.contains(&code)), &pair.lines(), || match code {
            Some(code) => format!("the code is {code}"),
            None => "the request succeeds".to_owned(),
        });
    }
}

/// The capabilities that the server declared in the last opening that it answered.
fn declared<'v>(view: &'v View<'_>) -> Option<&'v Value> {
    view.messages.iter().rev().find_map(|message| message.at("/result/capabilities"))
}

/// Whether the server declared a capability, `resources/subscribe` and so on.
fn declares(view: &View<'_>, pointer: &str) -> Option<bool> {
    let declared = declared(view)?;
    Some(match declared.pointer(pointer) {
        Some(Value::Bool(is)) => *is,
        Some(value) => !value.is_null(),
        None => false,
    })
}

/// Whether the client declared a capability in its opening.
fn client_declares(view: &View<'_>, name: &str) -> bool {
    let pointers = ["/params/capabilities", "/params/_meta/io.modelcontextprotocol~1clientCapabilities"];
    view.messages.iter().any(|message| {
        pointers.iter().any(|pointer| message.at(pointer).is_some_and(|declared| declared.get(name).is_some()))
    })
}

fn is_object(value: &Value) -> bool {
    value.is_object()
}

/// Whether a message of the client is the notification that ends the handshake.
fn is_initialized(message: &Message<'_>) -> bool {
    message.method() == Some("notifications/initialized")
}
