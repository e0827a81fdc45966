//! The errors of this dialect.

use gladhand_core::negotiation::{Closed, Need, Side};
use gladhand_core::operations::{Failure, FailureKind, ScopeRecord, excerpt};
use gladhand_core::wire::json::to_raw;
use gladhand_core::wire::rpc::{Error, code};
use gladhand_core::wire::{Fault, RawValue};
use serde_json::json;

use super::capabilities;
use super::meta;
use super::revision::{Revision, names};
use crate::ambient::Ambient;

/// The resource does not exist (handshake era).
pub(super) const RESOURCE_NOT_FOUND: i32 = -32002;
/// The user must visit a page before the request can be answered (2025-11-25).
pub(super) const URL_ELICITATION_REQUIRED: i32 = -32042;
/// An HTTP header does not match the body (2026-07-28).
pub(super) const HEADER_MISMATCH: i32 = -32020;
/// A request needs a client capability that it did not declare (2026-07-28).
pub(super) const MISSING_CLIENT_CAPABILITY: i32 = -32021;
/// A request names an unsupported version (2026-07-28).
pub(super) const UNSUPPORTED_VERSION: i32 = -32022;

pub(super) fn unreadable(fault: &Fault) -> Error<'static> {
    Error::new(code::PARSE_ERROR, format!("parse error: {fault}"))
}

pub(super) fn invalid_request(why: &'static str) -> Error<'static> {
    Error::new(code::INVALID_REQUEST, why)
}

pub(super) fn invalid_params(why: impl Into<String>) -> Error<'static> {
    Error::new(code::INVALID_PARAMS, why.into())
}

/// Refuses a token without the scopes that the kept result of an earlier request needs.
pub(super) fn check_scopes(record: Option<&ScopeRecord>, ambient: &Ambient<'_>) -> Result<(), Error<'static>> {
    let lacking = record.and_then(|record| record.needed_beyond(ambient.scopes.as_deref()));
    lacking.map_or(Ok(()), |scopes| {
        let message = format!("this needs a scope that was not granted: {scopes}");
        Err(internal(FailureKind::Denied.word(), message, Some(&to_raw(&json!({"scope": scopes})))))
    })
}

/// Before the opening, only `ping` is answered. The error explains how to open a session.
pub(super) fn not_open(method: &str) -> Error<'static> {
    let versions = names(Revision::STATELESS).join(", ");
    invalid_params(format!(
        "{:?} came before a session was open: send `initialize` first, or put `{}` ({versions}) and `{}` into `params._meta` of each request",
        excerpt(method),
        meta::PROTOCOL_VERSION,
        meta::CLIENT_CAPABILITIES,
    ))
}

/// A required key of `_meta` is missing or has the wrong type.
pub(super) fn bad_meta(key: &str, expected: &str) -> Error<'static> {
    invalid_params(format!("`params._meta` must hold `{key}`: {expected}"))
}

/// A header does not match the body.
pub(super) fn header_mismatch(header: &str, problem: &str) -> Error<'static> {
    Error::new(HEADER_MISMATCH, format!("header mismatch: `{header}` {problem}"))
}

pub(super) fn unsupported_version(requested: &str) -> Error<'static> {
    let requested = excerpt(requested);
    let supported = names(Revision::STATELESS);
    Error::new(
        UNSUPPORTED_VERSION,
        format!("protocol version {requested:?} is not spoken in `_meta`; supported: {}", supported.join(", ")),
    )
    .with(&json!({"supported": supported, "requested": requested}))
}

/// The error for a request that the gate rejects.
pub(super) fn closed(method: &str, closed: Closed, revision: Revision) -> Error<'static> {
    let method = &excerpt(method);
    match closed {
        Closed::NotAgreed(need) if need.owner == Side::Client && revision.is_stateless() => {
            missing_client_capability(method, need)
        }
        Closed::NotAgreed(need) => Error::new(
            code::METHOD_NOT_FOUND,
            format!("method not found: {method:?} needs {:?}, which was not agreed", need.capability),
        ),
        Closed::NotInThisVersion => {
            Error::new(code::METHOD_NOT_FOUND, format!("method not found: {method:?} is not in {}", revision.as_str()))
        }
        Closed::Unknown => method_not_found(method),
    }
}

pub(super) fn method_not_found(method: &str) -> Error<'static> {
    Error::new(code::METHOD_NOT_FOUND, format!("method not found: {:?}", excerpt(method)))
}

/// The method needs a client capability that was not declared.
pub(super) fn missing_client_capability(method: &str, need: Need) -> Error<'static> {
    missing_capability(need.capability, format!("{method:?} needs the client capability {:?}", need.capability))
}

/// The request needs a client capability that was not declared.
pub(super) fn missing_capability(capability: &str, message: String) -> Error<'static> {
    let data = json!({"requiredCapabilities": capabilities::required(capability)});
    Error::new(MISSING_CLIENT_CAPABILITY, message).with(&data)
}

/// Too many items of a kind are in use.
pub(super) fn busy(items: &str) -> Error<'static> {
    Error::new(code::INTERNAL_ERROR, format!("busy: too many {items}; try again later"))
        .with(&json!({"reason": "busy"}))
}

/// The error for a failure, with an identifier for programs.
pub(super) fn of(failure: Failure) -> Error<'static> {
    internal(failure.kind.word(), failure.message, failure.data.as_deref())
}

/// An internal error, with an identifier for programs.
pub(super) fn internal(reason: &str, message: String, detail: Option<&RawValue>) -> Error<'static> {
    /// The detail stays raw: it may contain values that a parsed tree cannot represent.
    #[derive(serde::Serialize)]
    struct Data<'a> {
        reason: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        detail: Option<&'a RawValue>,
    }
    Error::new(code::INTERNAL_ERROR, message).with(&Data { reason, detail })
}

#[cfg(test)]
mod tests {
    use gladhand_core::wire::{Frames, rpc};

    use super::*;

    #[test]
    fn errors_repeat_little_of_a_name() {
        let long = "x".repeat(1_000_000);
        let not_in_version = closed(&long, Closed::NotInThisVersion, Revision::STATELESS[0]);
        let failures = [Failure::unknown_tool(&long), Failure::unknown_prompt(&long), Failure::unknown_resource(&long)];
        let errors = [method_not_found(&long), not_open(&long), unsupported_version(&long), not_in_version];
        for error in errors.into_iter().chain(failures.into_iter().map(of)) {
            let mut line = Frames::default();
            rpc::error(&mut line, None, &error);
            assert!(line.len() < 700, "{:.1000}", String::from_utf8_lossy(&line));
        }
    }
}
