//! The two forms of the envelope: reads a line in either form, and writes lines in both (`fluxloop` §§3–6).

use std::borrow::Cow;

use gladhand_core::operations::call::no_arguments;
use gladhand_core::wire::json::{self, Kind, RawValue};
use gladhand_core::wire::{Fault, Members};
use gladhand_core::wire::{FrameKind, FrameSummary, Frames};
use serde::Serialize;

use super::numbers;

/// The form of an envelope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// The form of the protocol page: `type`, `params`, bare results.
    Page,
    /// The form of the shipped server: `tool` next to its parameters, wrapped results.
    Shipped,
}

/// A parsed line.
#[derive(Debug)]
pub(super) struct ParsedLine<'a> {
    /// The form of the line and of its answer.
    pub(super) form: Form,
    /// The id as written. Absent and `null` are equivalent.
    pub(super) id: Option<&'a RawValue>,
    /// The request, or the error in the line.
    pub(super) request: Result<Request<'a>, Error>,
}

/// The request in a line.
#[derive(Debug)]
pub(super) enum Request<'a> {
    /// Asks for our identity and the tools.
    Handshake,
    /// Calls a tool.
    Call {
        /// The name as sent.
        tool: Cow<'a, str>,
        /// The parameters: an object.
        params: Cow<'a, RawValue>,
    },
}

impl<'a> ParsedLine<'a> {
    /// Parses a line.
    pub(super) fn read(text: &'a str) -> Self {
        let garbage = |error| ParsedLine { form: Form::Page, id: None, request: Err(error) };
        if !text.starts_with('{') {
            return garbage(match serde_json::from_str::<&RawValue>(text) {
                Ok(_) => Error::new(INVALID_PAYLOAD, "Decoded payload is not a JSON object"),
                Err(error) => Error::unreadable(&error.into()),
            });
        }
        match Members::parse(text) {
            Ok(_) if numbers::holds_out_of_range(text) => garbage(Error::new(INVALID_PAYLOAD, "Number out of range")),
            Ok(members) => Self::classify(&members),
            Err(error) => garbage(Error::unreadable(&error.into())),
        }
    }

    fn classify(members: &Members<'a>) -> Self {
        let parsed = |form, request| ParsedLine { form, id: members.some("id"), request };
        if members.has("jsonrpc") {
            let error = Error::new(INVALID_PAYLOAD, "This session speaks Fluxloop: JSON-RPC is not answered in it");
            return parsed(Form::Page, Err(error));
        }
        let kind = members.str("type");
        match (members.has("type"), kind.as_deref()) {
            (false, _) if members.has("tool") => {
                parsed(Form::Shipped, call(members, || Ok(Cow::Owned(parameters_beside(members)))))
            }
            (false, _) => parsed(Form::Page, Err(Error::missing("type"))),
            (true, Some("handshake")) => parsed(Form::Page, Ok(Request::Handshake)),
            (true, Some("request")) if !members.has("tool") => parsed(Form::Page, Err(Error::missing("tool"))),
            (true, Some("request")) => parsed(Form::Page, call(members, || parameters_within(members))),
            (true, kind) => parsed(Form::Page, Err(Error::unknown_type(kind))),
        }
    }
}

fn call<'a>(
    members: &Members<'a>,
    params: impl FnOnce() -> Result<Cow<'a, RawValue>, Error>,
) -> Result<Request<'a>, Error> {
    let tool = members.str("tool").ok_or_else(|| Error::wrong_kind("tool", "string"))?;
    if tool == HANDSHAKE {
        return Ok(Request::Handshake);
    }
    Ok(Request::Call { tool, params: params()? })
}

/// Page form: the member `params`.
fn parameters_within<'a>(members: &Members<'a>) -> Result<Cow<'a, RawValue>, Error> {
    match members.some("params") {
        None => Ok(no_arguments()),
        Some(raw) if Kind::of(raw) == Kind::Object => Ok(Cow::Borrowed(raw)),
        Some(_) => Err(Error::wrong_kind("params", "object")),
    }
}

/// Shipped form: all members except `id` and `tool`.
fn parameters_beside(members: &Members<'_>) -> Box<RawValue> {
    let mut object = Vec::from(*b"{");
    for (name, value) in members.iter().filter(|(name, _)| !RESERVED.contains(name)) {
        push_member(&mut object, name, value);
    }
    object.push(b'}');
    json::raw(String::from_utf8_lossy(&object).into_owned())
}

/// Members of a shipped request that are not parameters.
pub(super) const RESERVED: [&str; 2] = ["id", "tool"];

/// The tool that every server has.
pub(super) const HANDSHAKE: &str = "handshake";

const INVALID_PAYLOAD: &str = "invalid_payload";

/// An error object.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Error {
    /// The error code, for programs.
    code: Cow<'static, str>,
    /// The description, for people.
    message: String,
    /// Further details, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<Box<RawValue>>,
}

impl Error {
    /// An error without details.
    pub(super) fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code: Cow::Borrowed(code), message: message.into(), details: None }
    }

    /// The same error with details.
    pub(super) fn with<T: Serialize + ?Sized>(self, details: &T) -> Self {
        Self { details: Some(json::to_raw(details)), ..self }
    }

    /// A line that is not JSON, or exceeds the limits.
    pub(super) fn unreadable(fault: &Fault) -> Self {
        Self::new(INVALID_PAYLOAD, format!("Malformed line: {fault}"))
    }

    fn missing(member: &str) -> Self {
        let message = format!("Missing member: {member}");
        Self::new(INVALID_PAYLOAD, message).with(&serde_json::json!({"missing": member}))
    }

    fn wrong_kind(member: &str, expected: &str) -> Self {
        #[derive(Serialize)]
        struct Details<'a> {
            param: &'a str,
            expected: &'a str,
        }
        let message = format!("{member} must be of type {expected}");
        Self::new(INVALID_PAYLOAD, message).with(&Details { param: member, expected })
    }

    fn unknown_type(kind: Option<&str>) -> Self {
        let message = match kind {
            Some(kind) => format!("Unexpected message type: {kind}"),
            None => "Message type must be a string".to_owned(),
        };
        Self::new(INVALID_PAYLOAD, message).with(&serde_json::json!({"types": ["handshake", "request"]}))
    }
}

/// Describes a received line. `None` if it is no message of Fluxloop. A request of the shipped form has no type: its tool
/// stands for it.
pub(super) fn describe(text: &str) -> Option<FrameSummary<'_>> {
    let members = Members::parse(text).ok()?;
    let (id, word) = (members.some("id"), members.str("type"));
    let (kind, name) = match word.as_deref() {
        Some("handshake" | "request") => (FrameKind::Request, word),
        Some("response") => (FrameKind::Result, word),
        Some("error") => (FrameKind::Error { code: 0, names_request: id.is_some() }, word),
        None if members.has("tool") => (FrameKind::Request, members.str("tool")),
        _ => return None,
    };
    Some(FrameSummary { kind, name, id })
}

/// Appends a response in a form.
pub(super) fn write_response<T: Serialize + ?Sized>(out: &mut Frames, form: Form, id: Option<&str>, result: &T) {
    out.begin(FrameKind::Result);
    write_line(out, form, "response", id, "result", result);
}

/// Appends an error in a form.
pub(super) fn write_error(out: &mut Frames, form: Form, id: Option<&str>, error: &Error) {
    out.begin(FrameKind::Error { code: 0, names_request: id.is_some() });
    write_line(out, form, "error", id, "error", error);
}

/// The page puts the id before the body, the shipped server after it. Without an id, both forms are identical. The form
/// of an unreadable line is therefore irrelevant.
fn write_line<T: Serialize + ?Sized>(
    out: &mut Frames,
    form: Form,
    kind: &str,
    id: Option<&str>,
    member: &str,
    body: &T,
) {
    let begin = out.len();
    out.push(b'{');
    push_member(out, "type", kind);
    let push_id = |out: &mut Vec<u8>| {
        if let Some(id) = id {
            out.extend_from_slice(br#","id":"#);
            out.extend_from_slice(id.as_bytes());
        }
    };
    match form {
        Form::Page => {
            push_id(out);
            push_member(out, member, body);
        }
        Form::Shipped => {
            push_member(out, member, body);
            push_id(out);
        }
    }
    // The id and the body can contain raw JSON of a peer.
    json::flatten(&mut out[begin..]);
    out.push(b'}');
    out.end();
}

/// Appends a member to an open object, with a comma unless it is the first.
pub(super) fn push_member<T: Serialize + ?Sized>(out: &mut Vec<u8>, name: &str, value: &T) {
    if out.last() != Some(&b'{') {
        out.push(b',');
    }
    json::write(out, name);
    out.push(b':');
    json::write(out, value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_described_by_type_or_tool() {
        let of = |text: &'static str| {
            let summary = describe(text)?;
            Some((summary.kind, summary.name?.into_owned(), summary.id.map(RawValue::get)))
        };
        let request = (FrameKind::Request, "request".to_owned(), Some("1"));
        assert_eq!(of(r#"{"type":"request","id":1,"tool":"echo"}"#), Some(request));
        assert_eq!(of(r#"{"tool":"echo"}"#), Some((FrameKind::Request, "echo".to_owned(), None)));
        let error = FrameKind::Error { code: 0, names_request: true };
        assert_eq!(of(r#"{"type":"error","id":"a"}"#), Some((error, "error".to_owned(), Some("\"a\""))));
        assert_eq!((of("{}"), of("[]")), (None, None));
    }
}
