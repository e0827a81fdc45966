//! The HTTP rules of 2026-07-28: headers that mirror the body, and the status of a response.
//!
//! The HTTP server uses these before it passes a stateless request to the server side. Errors in `_meta` are answered
//! here, because HTTP requires a status for them that the same error code does not have elsewhere.

use std::borrow::Cow;
use std::collections::HashSet;

use gladhand_core::wire::json::{self, Kind, RawValue};
use gladhand_core::wire::rpc::{self, Envelope, code};
use gladhand_core::wire::{FrameKind, Frames, Id, Line, Members, values};

use super::batch::MAX_BATCH;
pub use super::header_params::{
    BadAnnotation, HeaderParam, Mirrors, PREFIX, decode_header_value, encode_header_value, header_params,
};
use super::ids::is_same;
use super::message::{Message, Params};
use super::meta::Meta;
use super::revision::Revision;
use super::{errors, stateless};
use crate::side::Posting;

/// The header with the protocol version of a request.
pub const VERSION_HEADER: &str = "MCP-Protocol-Version";
/// The header with the method of a request.
pub const METHOD_HEADER: &str = "Mcp-Method";
/// The header with the name, URI or task of a request.
pub const NAME_HEADER: &str = "Mcp-Name";

/// The response to a request that is not passed to the server side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    /// The HTTP status.
    pub status: u16,
    /// The body, without a line break.
    pub body: String,
}

/// Whether a message, or one of a batch, answers the request of this id.
pub fn answers(text: &str, id: u64) -> bool {
    let is_answer = |text: &str| {
        let envelope = Envelope::parse(text).ok().filter(|envelope| envelope.method.is_none());
        let answered = envelope.and_then(|envelope| envelope.id).map(|id| id.get().parse::<f64>());
        answered.is_some_and(|answered| answered == Ok(id as f64))
    };
    if !text.trim_start().starts_with('[') {
        return is_answer(text);
    }
    let parts = values::items(text).unwrap_or_default();
    parts.into_iter().any(|part| is_answer(part.get()))
}

/// How to post a line of a client in a revision, by default the newest with a handshake. `is_open`: the handshake got its
/// answer. Arguments of tools are not mirrored in headers, because that needs the schema of the tool.
pub fn posting(line: &str, revision: Option<Revision>, is_open: bool) -> Posting {
    super::client::posting(line, revision.unwrap_or(Revision::HANDSHAKE[0]), is_open, |_, _, _| {})
}

/// Whether a body is an error response.
pub fn is_error(text: &str) -> bool {
    Envelope::parse(text).is_ok_and(|envelope| envelope.error.is_some())
}

/// The message of an error response.
pub fn error_message(text: &str) -> Option<String> {
    let error = Envelope::parse(text).ok()?.error?;
    Members::of(error)?.str("message").map(Cow::into_owned)
}

/// The names of all tools that a body calls, each once, parsed like in the server side. A batch that the server side
/// refuses for its length calls none.
pub fn called_tools(body: &[u8]) -> Vec<String> {
    // An unreadable body calls no tool: the server side refuses it.
    let Ok(Some(text)) = super::DIALECT.text.read(Line::Bytes(body)) else { return Vec::new() };
    let one = |message: &str| {
        let envelope = Envelope::picking(message, ["name"]).ok()?;
        let [name] = envelope.params.filter(|_| envelope.method_name().as_deref() == Some("tools/call"))?.members;
        name.and_then(json::string).map(Cow::into_owned)
    };
    if !text.trim_start().starts_with('[') {
        return one(&text).into_iter().collect();
    }
    let parts = values::items(&text).ok().filter(|parts| parts.len() <= MAX_BATCH).unwrap_or_default();
    let mut known = HashSet::new();
    parts.into_iter().filter_map(|part| one(part.get())).filter(|name| known.insert(name.clone())).collect()
}

/// The parameter of a method that the name header mirrors.
pub fn named_by(method: &str) -> Option<&'static str> {
    match method {
        "tools/call" | "prompts/get" => Some("name"),
        "resources/read" => Some("uri"),
        "tasks/get" | "tasks/update" | "tasks/cancel" => Some("taskId"),
        _ => None,
    }
}

/// Compares a stateless request with its headers. `header` must ignore the case of names. `mirrors` are those of the
/// tools that the caller may call. `knows_opening`: [`McpServer::knows`](super::McpServer::knows) the opening of the
/// request.
///
/// A message that is not a request passes: the server side answers it.
pub fn check_headers<'h>(
    header: &dyn Fn(&str) -> Option<&'h str>,
    message: &Message<'_>,
    mirrors: &Mirrors,
    knows_opening: bool,
) -> Result<(), Rejection> {
    let Some(call) = message.call() else { return Ok(()) };
    let (Some(method), Some(id)) = (call.method.as_deref(), call.envelope.id) else { return Ok(()) };
    let params = call.params().unwrap_or(Params::NONE);
    let named = match named_by(method) {
        Some("name") => params.name(),
        Some("uri") => params.uri(),
        Some(_) => params.task_id(),
        None => None,
    };
    let named = named.and_then(json::string);
    let opening = if knows_opening { Ok(()) } else { check_version(header(VERSION_HEADER), params.meta()) };
    let checked = opening
        .and_then(|()| is_text(METHOD_HEADER, header(METHOD_HEADER), method))
        .and_then(|()| match &named {
            Some(named) => is_text(NAME_HEADER, header(NAME_HEADER), named),
            None => Ok(()),
        })
        .and_then(|()| match &named {
            Some(tool) if method == "tools/call" => check_arguments(header, mirrors.of(tool), params.arguments()),
            _ => Ok(()),
        });
    checked.map_err(|error| {
        let id = Some(id).filter(|id| Id::is_string_or_number(id) && Id::is_keepable(id)).map(Id::of);
        let mut line = Frames::default();
        rpc::error(&mut line, id.as_ref(), &error);
        let body = String::from_utf8_lossy(&line).trim_end().to_owned();
        Rejection { status: 400, body }
    })
}

/// Checks the version in the header and in `_meta`, and the other required members of `_meta`.
fn check_version(header: Option<&str>, meta: Option<&RawValue>) -> Result<(), rpc::Error<'static>> {
    let meta = meta.and_then(Meta::of).unwrap_or_default();
    if let Some(version) = meta.version.and_then(json::string) {
        is_text(VERSION_HEADER, header, &version)?;
    }
    stateless::required(&meta)?;
    stateless::log_level(&meta)?;
    Ok(())
}

fn check_arguments<'h>(
    header: &dyn Fn(&str) -> Option<&'h str>,
    params: &[HeaderParam],
    arguments: Option<&RawValue>,
) -> Result<(), rpc::Error<'static>> {
    for param in params {
        let (name, value) = (param.header.as_str(), header(&param.header));
        match arguments.and_then(|arguments| param.argument(arguments)).map(|raw| (Kind::of(raw), raw)) {
            None if value.is_some() => {
                return Err(errors::header_mismatch(name, "mirrors an absent argument"));
            }
            Some((Kind::String, raw)) => is_text(name, value, &json::string(raw).unwrap_or_default())?,
            Some((Kind::Number, raw)) => {
                let value = value.ok_or_else(|| errors::header_mismatch(name, "is missing"))?;
                let is_equal = decode_header_value(value).is_some_and(|value| is_same(&value, raw.get()));
                is_equal.then_some(()).ok_or_else(|| errors::header_mismatch(name, "does not match the body"))?;
            }
            Some((Kind::Bool, raw)) => is_text(name, value, raw.get())?,
            // The tool itself refuses arguments that cannot be mirrored.
            _ => {}
        }
    }
    Ok(())
}

/// Checks that a header is present and matches the body.
fn is_text(name: &str, value: Option<&str>, expected: &str) -> Result<(), rpc::Error<'static>> {
    let value = value.ok_or_else(|| errors::header_mismatch(name, "is missing"))?;
    match decode_header_value(value) {
        None => Err(errors::header_mismatch(name, "is not valid base64")),
        Some(value) if value != expected => Err(errors::header_mismatch(name, "does not match the body")),
        Some(_) => Ok(()),
    }
}

/// The HTTP status for the response to a stateless request.
pub fn status(response: FrameKind) -> u16 {
    match response {
        FrameKind::Error {
            code:
                code::PARSE_ERROR
                | code::INVALID_REQUEST
                | errors::HEADER_MISMATCH
                | errors::MISSING_CLIENT_CAPABILITY
                | errors::UNSUPPORTED_VERSION,
            ..
        } => 400,
        FrameKind::Error { code: code::METHOD_NOT_FOUND, .. } => 404,
        _ => 200,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_calls_each_tool_once_and_a_batch_that_is_too_long_calls_none() {
        let call =
            |name: &str| format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{name}"}}}}"#);
        let batch = |length: usize| {
            format!("[{}]", [call("a"), call("b")].iter().cycle().take(length).cloned().collect::<Vec<_>>().join(","))
        };
        assert_eq!(called_tools(call("a").as_bytes()), ["a"]);
        assert_eq!(called_tools(batch(MAX_BATCH).as_bytes()), ["a", "b"]);
        assert!(called_tools(batch(MAX_BATCH + 1).as_bytes()).is_empty());
    }
}
