//! Parses a host's answers for the client: the handshake, errors, events (a2e §§5, 7, 26).
//!
//! Hosts differ: they use one of two version keys, unknown capabilities, `null` where a string belongs, or a bare
//! `NaN`. Such answers are accepted as far as possible. Other deviations are reported as misbehaviour of the host.

use std::borrow::Cow;

use gladhand_core::negotiation::{Agreement, Capability, Minimum, Offer, Peer, Refusal, Wants, agree};
use gladhand_core::operations::{Failure, FailureKind, Level, Log, Notice, Progress};
use gladhand_core::wire::json::Kind;
use gladhand_core::wire::{Id, Members, RawValue, json, values};

use super::capabilities::{self, VERSION};
use super::errors;
use super::fields::{integer_of, text_of};
use crate::side::{ClientSetup, MAX_SETTINGS_BYTES};

/// Maximum number of unknown capability names that are kept. They are only displayed.
const MAX_UNKNOWN_NAMES: usize = 32;
const DEFAULT_MAX_PARALLEL: i64 = 4;

/// The capabilities to request: those of the setup, or all useful ones.
pub(super) fn wanted(setup: &ClientSetup) -> Vec<Capability> {
    match &setup.wants {
        Some(wants) => wants.clone(),
        None => capabilities::default_names().map(Capability::named).collect(),
    }
}

/// The agreement in a `handshake/resp`, or the refusal.
pub(super) fn read_handshake(members: &Members<'_>, setup: &ClientSetup) -> Result<Agreement, Refusal> {
    let misbehaved = |problem: &str| Refusal::PeerMisbehaved { problem: problem.to_owned() };
    let version = members.raw("a2e").or_else(|| members.raw("version"));
    let version = match version {
        Some(raw) => Some(text_of(raw).ok_or_else(|| misbehaved("the version is not a string"))?),
        None => None,
    };
    match members.raw("ok").map(RawValue::get) {
        // The reference model treats a missing `ok` as true.
        Some("true") | None => {}
        Some("false") => return Err(read_refusal(members, setup, version.as_deref())),
        Some(_) => return Err(misbehaved("`ok` is not a boolean")),
    }
    let session = match members.raw("session_id") {
        Some(raw) if !Id::is_keepable(raw) => return Err(misbehaved("`session_id` is too long")),
        Some(raw) => Some(text_of(raw).ok_or_else(|| misbehaved("`session_id` is not a string"))?),
        None => None,
    };
    let max_parallel = match members.raw("max_parallel") {
        Some(raw) => integer_of(raw).filter(|number| *number > 0),
        None => Some(DEFAULT_MAX_PARALLEL),
    };
    let max_parallel = max_parallel.ok_or_else(|| misbehaved("`max_parallel` is not a positive integer"))?;
    let mut host = Offer::new(Peer::default(), version);
    read_grants(members.raw("accepted_caps"), &mut host).map_err(misbehaved)?;
    let agent = Offer {
        wants: Wants::Only(wanted(setup).into_iter().collect()),
        ..Offer::new(setup.identity.clone(), [setup.version.as_str()])
    };
    // A host that grants no capability has still opened a session, as the reference host does.
    let agreement = agree(&capabilities::rules(Minimum::Nothing), &agent, &host)?;
    Ok(Agreement {
        version: VERSION.to_owned(),
        session: session.filter(|session| !session.is_empty()).map(Cow::into_owned),
        per_request: false,
        instructions: None,
        max_parallel: Some(u32::try_from(max_parallel).unwrap_or(u32::MAX)),
        ..agreement
    })
}

fn read_grants(raw: Option<&RawValue>, host: &mut Offer) -> Result<(), &'static str> {
    let Some(raw) = raw else { return Ok(()) };
    let entries = values::items(raw.get()).map_err(|_| "`accepted_caps` is not a list")?;
    let mut unknown = 0;
    for entry in entries {
        let entry = Members::of(entry).ok_or("an entry of `accepted_caps` is not an object")?;
        let name = entry.raw("capability").and_then(text_of).ok_or("an entry of `accepted_caps` has no name")?;
        match entry.raw("enabled").map(RawValue::get) {
            Some("true") | None => {}
            Some("false") => continue,
            Some(_) => return Err("`enabled` is not a boolean"),
        }
        if !capabilities::is_known(&name) {
            unknown += 1;
            if unknown > MAX_UNKNOWN_NAMES {
                continue;
            }
        }
        let is_kept = |raw: &&RawValue| raw.get() != "{}" && raw.get().len() <= MAX_SETTINGS_BYTES;
        let settings = entry.some("metadata").filter(is_kept).map(ToOwned::to_owned);
        host.provides.insert(Capability::from_wire(name), settings);
    }
    Ok(())
}

fn read_refusal(members: &Members<'_>, setup: &ClientSetup, version: Option<&str>) -> Refusal {
    let reason = members.raw("reason").and_then(text_of).unwrap_or_default();
    match reason.as_ref() {
        "auth_failed" => Refusal::AuthFailed,
        "version_mismatch" => Refusal::VersionMismatch {
            asked: vec![setup.version.clone()],
            spoken: version.map(str::to_owned).into_iter().collect(),
        },
        "no_caps" => Refusal::NoCapabilities { wanted: wanted(setup) },
        "server_error" => Refusal::ServerError { problem: "the host reports server_error".to_owned() },
        "" => Refusal::PeerRefused { code: "none".to_owned(), message: "the host gave no reason".to_owned() },
        reason => Refusal::PeerRefused { code: reason.to_owned(), message: "handshake failed".to_owned() },
    }
}

/// The refusal in an `error` that answers the handshake.
pub(super) fn read_refusing_error(members: &Members<'_>) -> Refusal {
    let text = |name: &str| members.raw(name).and_then(text_of).unwrap_or_default().into_owned();
    Refusal::PeerRefused { code: text("code"), message: text("message") }
}

/// The failure in an `error` that answers a call. A capability other than tools may use its own error codes.
pub(super) fn read_error(members: &Members<'_>, is_carried: bool) -> Failure {
    let text = |name: &str| members.raw(name).and_then(text_of).unwrap_or_default();
    let code = text("code");
    let detail = members.object("detail").unwrap_or_default();
    let word = |name: &str| detail.str(name).unwrap_or_default();
    let own = errors::CODES.iter().find(|own| **own == code).filter(|_| is_carried);
    let kind = match code.as_ref() {
        _ if own.is_some() => FailureKind::Capability(own.copied().unwrap_or("runtime_error")),
        "unknown_tool" => FailureKind::UnknownTool,
        "tool_denied" => FailureKind::Denied,
        "tool_error" if word("kind") == "arguments" => FailureKind::InvalidArguments,
        "tool_error" => FailureKind::ToolFailed,
        "timeout" => FailureKind::TimedOut,
        "runtime_error" if word("reason") == FailureKind::Busy.word() => FailureKind::Busy,
        _ => FailureKind::UpstreamError,
    };
    let message = match text("message") {
        message if message.is_empty() => format!("the host answered {code}"),
        message => message.into_owned(),
    };
    let data = serde_json::json!({"code": code, "detail": members.some("detail")});
    // For kinds of their own, our classification is better than `retryable`: some hosts never set that flag.
    let is_open = matches!(kind, FailureKind::UpstreamError | FailureKind::Capability("runtime_error"));
    let is_lasting = is_open && members.raw("retryable").is_none_or(|value| value.get() != "true");
    Failure { kind, message, data: Some(json::to_raw(&data)), is_lasting }
}

/// The notice in an event of a call. `None` if the neutral model has no equivalent.
pub(super) fn read_event(call: gladhand_core::operations::CallId, members: &Members<'_>) -> Option<Notice> {
    let data = members.object("data").unwrap_or_default();
    let kind = members.raw("kind").and_then(text_of).unwrap_or(Cow::Borrowed("status"));
    let message = data.raw("message").filter(|raw| Kind::of(raw) == Kind::String);
    match kind.as_ref() {
        "progress" => {
            let progress = data.raw("pct").and_then(|raw| raw.get().parse().ok()).unwrap_or(0.0);
            let message = message.and_then(text_of).filter(|text| !text.is_empty()).map(Cow::into_owned);
            Some(Notice::Progress(call, Progress { progress, total: Some(100.0), message }))
        }
        "log" | "status" => {
            let level = data.str("level").and_then(|word| Level::from_word(&word)).unwrap_or(Level::Info);
            Some(Notice::Log(Some(call), Log::from_upstream(level, None, message?.to_owned())))
        }
        _ => None,
    }
}

/// The same text with bare `NaN` and `Infinity`, which the reference host writes, replaced by `null`. `None` if there
/// are none.
pub(super) fn without_bare_words(text: &str) -> Option<String> {
    let mut repaired = String::with_capacity(text.len());
    let (mut rest, mut found) = (text, false);
    while let Some(character) = rest.chars().next() {
        let word = ["NaN", "-Infinity", "Infinity"].into_iter().find(|word| rest.starts_with(word));
        let taken = match (character, word) {
            ('"', _) => string_length(rest),
            (_, Some(word)) => {
                found = true;
                repaired.push_str("null");
                rest = &rest[word.len()..];
                continue;
            }
            _ => character.len_utf8(),
        };
        repaired.push_str(&rest[..taken]);
        rest = &rest[taken..];
    }
    found.then_some(repaired)
}

/// The length of a string in bytes, including its quotes. The whole text if the string does not end.
fn string_length(text: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}
