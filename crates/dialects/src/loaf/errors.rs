//! loaf's error objects: code, message and `data.reason`, exactly as in the reference (`loaf` §3).

use gladhand_core::operations::{Failure, FailureKind};
use gladhand_core::wire::rpc::code;
use gladhand_core::wire::{Fault, Id, RawValue, json, rpc};
use gladhand_core::wire::{FrameKind, Frames};
use serde::Serialize;

use super::text::Text;

/// "Server error", which the reference documents but never sends. We use it when a limit is reached.
pub(super) const OVERLOADED: i32 = -32000;

/// An error object. Texts are raw JSON strings, because they may quote an unpaired surrogate.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Error {
    code: i32,
    message: Box<RawValue>,
    data: Box<RawValue>,
}

/// `data`, in the order of the wire.
#[derive(Default, Serialize)]
struct Data<'a> {
    reason: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    supported: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<&'a RawValue>,
}

impl Error {
    fn new(code: i32, message: &str, data: &Data<'_>) -> Self {
        Self::quoting(code, json::to_raw(message), data)
    }

    fn quoting(code: i32, message: Box<RawValue>, data: &Data<'_>) -> Self {
        Self { code, message, data: json::to_raw(data) }
    }

    /// The line is not JSON.
    pub(super) fn parse_error(fault: &Fault) -> Self {
        let data = Data { reason: "parse_error", ..Data::default() };
        Self::new(code::PARSE_ERROR, &format!("parse error: {fault}"), &data)
    }

    /// The line is an array.
    pub(super) fn batch() -> Self {
        let data = Data { reason: "batch_not_supported", ..Data::default() };
        Self::new(code::INVALID_REQUEST, "batch requests are not supported", &data)
    }

    /// The line is JSON, but neither a request nor a notification.
    pub(super) fn invalid_request() -> Self {
        let data = Data { reason: "invalid_request", ..Data::default() };
        Self::new(code::INVALID_REQUEST, "invalid request", &data)
    }

    /// The method does not exist, or is not available in this session.
    pub(super) fn method_not_found(method: &Text<'_>) -> Self {
        let data = Data { reason: "method_not_found", method: Some(method.to_raw()), ..Data::default() };
        Self::quoting(code::METHOD_NOT_FOUND, method.after("method not found: "), &data)
    }

    /// `params` is not an object.
    pub(super) fn not_an_object(method: &str) -> Self {
        let data = Data { reason: "invalid_params", ..Data::default() };
        Self::new(code::INVALID_PARAMS, &format!("invalid params for {method}: expected object"), &data)
    }

    /// A field of `params` has the wrong type.
    pub(super) fn invalid_field(method: &str, field: &str, problem: &str) -> Self {
        let data = Data { reason: "invalid_params", field: Some(field), ..Data::default() };
        Self::new(code::INVALID_PARAMS, &format!("invalid params for {method}: `{field}` {problem}"), &data)
    }

    /// A field of `params` has the right type but a wrong value.
    pub(super) fn wrong_field(field: &str, problem: &str) -> Self {
        let data = Data { reason: "invalid_params", field: Some(field), ..Data::default() };
        Self::new(code::INVALID_PARAMS, problem, &data)
    }

    /// A strict handshake requested another version than ours.
    pub(super) fn unsupported_version(asked: &Text<'_>, supported: &str) -> Self {
        let data = Data { reason: "unsupported_protocol_version", supported: Some(supported), ..Data::default() };
        Self::quoting(code::INVALID_PARAMS, asked.after("unsupported protocol_version: "), &data)
    }

    /// No session has this id. The reference's reason is `internal_error`; §20 item 5 asks for a better one.
    pub(super) fn unknown_session(session: &Text<'_>) -> Self {
        let data = Data { reason: "unknown_session", ..Data::default() };
        Self::quoting(code::INTERNAL_ERROR, session.after("unknown session: "), &data)
    }

    /// A limit of ours is reached.
    pub(super) fn overloaded(message: &str) -> Self {
        let data = Data { reason: "overloaded", ..Data::default() };
        Self::new(OVERLOADED, message, &data)
    }

    /// No session can be served.
    pub(super) fn unavailable(why: &str) -> Self {
        Self::new(code::INTERNAL_ERROR, why, &Data { reason: "unavailable", ..Data::default() })
    }

    /// A call failed.
    pub(super) fn of_failure(failure: &Failure) -> Self {
        let details = failure.data.as_deref();
        let because = |reason| Data { reason, details, ..Data::default() };
        match failure.kind {
            FailureKind::UnknownTool => Self::new(code::INVALID_PARAMS, &failure.message, &because("unknown_tool")),
            FailureKind::InvalidArguments => {
                let data = Data { field: Some("arguments"), ..because("invalid_params") };
                Self::new(code::INVALID_PARAMS, &format!("invalid params for tools.call: {failure}"), &data)
            }
            FailureKind::Busy => Self::new(OVERLOADED, &failure.message, &because("overloaded")),
            kind => Self::new(code::INTERNAL_ERROR, &failure.message, &because(kind.word())),
        }
    }

    /// A request to the agent failed.
    pub(super) fn of_agent(failure: &Failure) -> Self {
        let (code, reason) = match failure.kind {
            FailureKind::InvalidArguments => (code::INVALID_PARAMS, "invalid_params"),
            FailureKind::Busy => (OVERLOADED, "overloaded"),
            kind @ (FailureKind::UnknownSession | FailureKind::Stopping) => (code::INTERNAL_ERROR, kind.word()),
            _ => (code::INTERNAL_ERROR, "internal_error"),
        };
        Self::new(code, &failure.message, &Data { reason, details: failure.data.as_deref(), ..Data::default() })
    }

    /// Appends the error response. `id` is written as `null` if there is none.
    pub(super) fn answer(&self, out: &mut Frames, id: Option<&Id>) {
        out.begin(FrameKind::Error { code: self.code, names_request: id.is_some() });
        out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
        out.extend_from_slice(id.map_or("null", Id::as_json).as_bytes());
        out.extend_from_slice(br#","error":"#);
        json::write(out, self);
        rpc::finish(out);
    }
}
