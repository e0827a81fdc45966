//! Reads an agent's requests: first the type and the id of a line, then the fields of its type (a2e §§3, 7.3, 9).

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use gladhand_core::operations::{CapabilityCall, Operation, ToolCall};
use gladhand_core::wire::json::{Kind, RawValue};
use gladhand_core::wire::values;
use gladhand_core::wire::{Fault, Id, Line, Members};

use super::DIALECT;
use super::errors::{ErrorBody, Undecodable};
use super::fields::{self, Fields};
use super::incoming_requests::{HeldBack, RequestKind};
use super::registry::{self, MessageType};
use super::schemas;
use super::tools::Filter;

const DEFAULT_CALL_TIMEOUT: Duration = Duration::from_secs(30);
const MAX_CALL_TIMEOUT: Duration = Duration::from_secs(7 * 24 * 3600);
const DEFAULT_SKILL_TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum size in bytes of a message that an agent may send although it does not read our messages.
const MAX_STOP_BYTES: usize = 8 * 1024;

/// A message of an agent that is parsed once, for its transport and for the server side.
pub struct Message<'a> {
    pub(super) read: Read<'a>,
}

/// The parsed content.
pub(super) enum Read<'a> {
    /// A blank line.
    Blank,
    /// A message of a known type.
    Decoded(Decoded<'a>),
    /// A line that is no message of A2E, with its error response.
    Rejected(Rejected),
    /// A line that is not valid text.
    Unreadable(Fault),
}

impl fmt::Debug for Message<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = if let Read::Decoded(decoded) = &self.read { decoded.message.name } else { "" };
        f.debug_struct("Message").field("type", &name).finish_non_exhaustive()
    }
}

impl<'a> Message<'a> {
    /// Parses a line.
    pub fn of(line: &'a [u8]) -> Self {
        match DIALECT.text.read(Line::Bytes(line)) {
            Ok(None) => Self { read: Read::Blank },
            Ok(Some(Cow::Borrowed(text))) => Self::parse(text),
            // This dialect refuses invalid UTF-8 and never repairs it.
            Ok(Some(Cow::Owned(_))) => Self { read: Read::Unreadable(Fault::NotUtf8 { at: 0 }) },
            Err(fault) => Self { read: Read::Unreadable(fault) },
        }
    }

    /// Parses the text of a line.
    pub(super) fn parse(text: &'a str) -> Self {
        Self { read: decode(text).map_or_else(Read::Rejected, Read::Decoded) }
    }

    /// The tools that it calls. A message that the server side rejects calls none.
    pub fn called_tools(&self) -> Vec<String> {
        let Read::Decoded(Decoded { message, members, .. }) = &self.read else { return Vec::new() };
        let word = |members: &Members<'_>, name: &str| members.str(name).unwrap_or_default().into_owned();
        match message.name {
            "tool/call/req" => vec![word(members, "tool_name")],
            "chain/req" => {
                let nodes = members.raw("nodes").and_then(|nodes| values::items(nodes.get()).ok());
                let nodes = nodes.unwrap_or_default().into_iter().filter_map(Members::of);
                nodes.filter(|node| word(node, "kind") == "tool").map(|node| word(&node, "name")).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Whether it stops the session, a process or a subagent, and is small. A transport accepts such a message also
    /// from an agent that does not read our messages.
    pub fn stops_something(&self) -> bool {
        let Read::Decoded(Decoded { message, text, .. }) = &self.read else { return false };
        text.len() <= MAX_STOP_BYTES && ["shutdown", "proc/kill/req", "multi_agent/terminate"].contains(&message.name)
    }
}

/// A decoded line: an object with a known type and a valid id.
pub(super) struct Decoded<'a> {
    pub(super) text: &'a str,
    pub(super) members: Members<'a>,
    pub(super) id: Option<Id>,
    pub(super) message: &'static MessageType,
}

/// The error response to a line that was rejected.
pub(super) struct Rejected {
    pub(super) id: Option<Id>,
    pub(super) error: ErrorBody,
}

/// A request: its kind, its operation, its session and its timeout.
pub(super) struct Request<'a> {
    /// The session that the request names. Empty if it names none.
    pub(super) session_id: Cow<'a, str>,
    pub(super) request_kind: RequestKind,
    pub(super) operation: Operation<'a>,
    /// The caller's timeout, if the host must enforce it.
    pub(super) timeout: Option<Duration>,
}

/// Reads the type and the id of a line.
fn decode(text: &str) -> Result<Decoded<'_>, Rejected> {
    let reject = |id, error| Rejected { id, error };
    let members = Members::parse(text).map_err(|error| {
        let error = match serde_json::from_str::<&RawValue>(text) {
            Ok(raw) if Kind::of(raw) != Kind::Object => {
                let message = format!("a message is an object, not {}", fields::described(raw));
                ErrorBody::parse(Undecodable::Schema, message)
            }
            _ => ErrorBody::garbled(&error.into()),
        };
        reject(None, error)
    })?;
    let id = match members.raw("id") {
        None => None,
        Some(raw) if Kind::of(raw) == Kind::String && Id::is_keepable(raw) => Some(Id::of(raw)),
        Some(raw) if Kind::of(raw) == Kind::String => {
            let problem = format!("longer than {} bytes", Id::MAX_BYTES);
            return Err(reject(None, ErrorBody::fields(&[("id".to_owned(), problem)])));
        }
        Some(raw) => {
            let problem = format!("expected a string, got {}", fields::described(raw));
            return Err(reject(None, ErrorBody::fields(&[("id".to_owned(), problem)])));
        }
    };
    let name = match members.raw("type") {
        None => Cow::Borrowed("None"),
        Some(raw) => match fields::text_of(raw) {
            Some(name) => name,
            None => {
                let problem = format!("expected a string, got {}", fields::described(raw));
                return Err(reject(id, ErrorBody::fields(&[("type".to_owned(), problem)])));
            }
        },
    };
    match registry::find(&name) {
        Some(message) => Ok(Decoded { text, members, id, message }),
        None => Err(reject(id, ErrorBody::unknown_type(&name))),
    }
}

/// The last step of reading fields: checks the envelope and returns the problems.
pub(super) fn checked(mut fields: Fields<'_, '_>) -> Result<(), ErrorBody> {
    fields.envelope();
    fields.finish().map_err(|problems| ErrorBody::fields(&problems))
}

/// Reads a request of a capability.
pub(super) fn read<'a>(line: &Decoded<'a>) -> Result<Request<'a>, ErrorBody> {
    match line.message.name {
        "tool/list/req" => read_list(&line.members),
        "tool/call/req" => read_call(&line.members),
        _ => carry(line),
    }
}

fn read_list<'a>(members: &Members<'a>) -> Result<Request<'a>, ErrorBody> {
    let mut fields = Fields::of(members);
    fields.text("filter_kind");
    let tags = fields.texts("filter_tags");
    let filter = Filter::new(&fields.text("query"), &tags, fields.flag("include_deferred"));
    checked(fields)?;
    let request_kind = RequestKind::List(filter);
    Ok(Request { session_id: Cow::Borrowed(""), request_kind, operation: Operation::ListTools, timeout: None })
}

fn read_call<'a>(members: &Members<'a>) -> Result<Request<'a>, ErrorBody> {
    let mut fields = Fields::of(members);
    let session_id = fields.text("session_id");
    let name = fields.text("tool_name");
    let arguments = fields.object("arguments");
    fields.text("correlation_id");
    let streaming = fields.flag("streaming");
    let timeout = timeout(&mut fields, DEFAULT_CALL_TIMEOUT);
    checked(fields)?;
    let arguments = arguments.map_or_else(gladhand_core::operations::call::no_arguments, Cow::Borrowed);
    let request_kind = RequestKind::Tool { name: name.clone().into_owned(), streaming, events: 0 };
    let operation = Operation::CallTool(ToolCall { name, arguments });
    Ok(Request { session_id, request_kind, operation, timeout: Some(timeout) })
}

/// A request that is passed to the provider of its capability. Only the types of its fields are checked.
fn carry<'a>(line: &Decoded<'a>) -> Result<Request<'a>, ErrorBody> {
    let message = line.message;
    schemas::check(message.name, &line.members).map_err(|problems| ErrorBody::fields(&problems))?;
    let mut fields = Fields::of(&line.members);
    let session_id = match message.name {
        "proc/spawn/req" | "toolkit/configure/req" | "chain/req" => fields.text("session_id"),
        _ => Cow::Borrowed(""),
    };
    // The host enforces a timeout only for a skill. A chain reports its own timeout, and a process outlives its
    // request.
    let timeout = (message.name == "skill/call/req").then(|| timeout(&mut fields, DEFAULT_SKILL_TIMEOUT));
    let raw: &RawValue =
        serde_json::from_str(line.text).map_err(|error| ErrorBody::parse(Undecodable::Json, error.to_string()))?;
    let operation = Operation::Capability(CapabilityCall {
        kind: message.name,
        capability: message.capability,
        request: line.id.clone(),
        message: Cow::Borrowed(raw),
    });
    Ok(Request {
        session_id,
        request_kind: RequestKind::Capability { message, held_back: HeldBack::default() },
        operation,
        timeout,
    })
}

fn timeout(fields: &mut Fields<'_, '_>, default: Duration) -> Duration {
    match fields.integer("timeout") {
        Some(seconds @ 1..) => Duration::from_secs(seconds.unsigned_abs()).min(MAX_CALL_TIMEOUT),
        _ => default,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_that_stop_something_are_recognised() {
        let stops = |line: &str| Message::of(line.as_bytes()).stops_something();
        assert!(stops(r#"{"type":"shutdown"}"#) && stops(r#"{"type":"proc/kill/req","proc_id":"p"}"#));
        assert!(!stops(r#"{"type":"ping"}"#) && !stops("shutdown") && !stops(" "));
        assert!(!stops(&format!(r#"{{"type":"proc/kill/req","proc_id":"{}"}}"#, "p".repeat(MAX_STOP_BYTES))));
    }

    #[test]
    fn tools_are_named_by_calls_and_by_chains() {
        let called = |line: &str| Message::of(line.as_bytes()).called_tools();
        assert_eq!(called(r#"{"type":"tool\/call/req","tool_name":"a\u0062","nodes":1}"#), ["ab"]);
        assert_eq!(called(r#"{"type":"ping","type":"tool/call/req","tool_name":"a","tool_name":"b"}"#), ["b"]);
        let chain = r#"{"type":"chain/req","nodes":[{"kind":"tool","name":"a"},{"kind":"proc","name":"b"}]}"#;
        assert_eq!(called(chain), ["a"]);
        for other in ["", "{", r#"{"type":"tool/list/req","tool_name":"a"}"#, "[]"] {
            assert!(called(other).is_empty(), "{other}");
        }
    }
}
