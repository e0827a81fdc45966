//! What a client makes of a host's answers: the handshake, errors, events (a2e §§5, 7, 26).
//!
//! Hosts differ: one version key or the other, capabilities nobody knows, a `null` where a string
//! belongs, bare `NaN`. What can be understood is understood; what cannot is the host's misbehaviour.

use std::borrow::Cow;

use gladhand_core::negotiation::{Agreement, Capability, Minimum, Offer, Peer, Refusal, Wants, agree};
use gladhand_core::operations::{Failure, FailureKind, Level, Log, Notice, Progress};
use gladhand_core::wire::json::Kind;
use gladhand_core::wire::{Id, Members, RawValue, json};

use super::capabilities::{self, VERSION};
use super::errors;
use super::fields::{integer_of, text_of};
use crate::side::{ClientSetup, LONGEST_SETTINGS};

/// Names that a host invents are only shown, so a few are enough.
const MOST_UNKNOWN_NAMES: usize = 32;
const DEFAULT_MAX_PARALLEL: i64 = 4;

/// What we ask for: what the setup wants, or everything worth asking for.
pub(super) fn wanted(setup: &ClientSetup) -> Vec<Capability> {
    match &setup.wants {
        Some(wants) => wants.clone(),
        None => capabilities::worth_asking_for().map(Capability::named).collect(),
    }
}

/// An agreement out of a `handshake/resp`, or why there is none.
pub(super) fn read_handshake(members: &Members<'_>, setup: &ClientSetup) -> Result<Agreement, Refusal> {
    let misbehaved = |problem: &str| Refusal::PeerMisbehaved { problem: problem.to_owned() };
    let version = members.raw("a2e").or_else(|| members.raw("version"));
    let version = match version {
        Some(raw) => Some(text_of(raw).ok_or_else(|| misbehaved("the version is no string"))?),
        None => None,
    };
    match members.raw("ok").map(RawValue::get) {
        // The reference's model takes a missing `ok` as true.
        Some("true") | None => {}
        Some("false") => return Err(read_refusal(members, setup, version.as_deref())),
        Some(_) => return Err(misbehaved("`ok` is no boolean")),
    }
    let session = match members.raw("session_id") {
        Some(raw) if !Id::is_keepable(raw) => return Err(misbehaved("`session_id` is too long")),
        Some(raw) => Some(text_of(raw).ok_or_else(|| misbehaved("`session_id` is no string"))?),
        None => None,
    };
    let max_parallel = match members.raw("max_parallel") {
        Some(raw) => integer_of(raw).filter(|number| *number > 0),
        None => Some(DEFAULT_MAX_PARALLEL),
    };
    let max_parallel = max_parallel.ok_or_else(|| misbehaved("`max_parallel` is no positive integer"))?;
    let mut host = Offer::new(Peer::default(), version);
    read_grants(members.raw("accepted_caps"), &mut host).map_err(misbehaved)?;
    let agent = Offer {
        wants: Wants::Only(wanted(setup).into_iter().collect()),
        ..Offer::new(setup.identity.clone(), [setup.version.as_str()])
    };
    // A host that grants nothing has still opened a session: the reference does that.
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
    let entries: Vec<&RawValue> = serde_json::from_str(raw.get()).map_err(|_| "`accepted_caps` is no list")?;
    let mut unknown = 0;
    for entry in entries {
        let entry = Members::of(entry).ok_or("an entry of `accepted_caps` is no object")?;
        let name = entry.raw("capability").and_then(text_of).ok_or("an entry of `accepted_caps` has no name")?;
        match entry.raw("enabled").map(RawValue::get) {
            Some("true") | None => {}
            Some("false") => continue,
            Some(_) => return Err("`enabled` is no boolean"),
        }
        if !capabilities::is_known(&name) {
            unknown += 1;
            if unknown > MOST_UNKNOWN_NAMES {
                continue;
            }
        }
        let is_kept = |raw: &&RawValue| raw.get() != "{}" && raw.get().len() <= LONGEST_SETTINGS;
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

/// The failure in an `error` that answers a call, which may be of a capability that has words of its own.
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
    // Of what has a kind of its own we know more than hosts do that never say that something is worth a retry.
    let is_open = matches!(kind, FailureKind::UpstreamError | FailureKind::Capability("runtime_error"));
    let is_lasting = is_open && members.raw("retryable").is_none_or(|told| told.get() != "true");
    Failure { kind, message, data: Some(json::to_raw(&data)), is_lasting }
}

/// What an event of a call tells; `None` where the neutral model has no word for it.
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

/// The same text with `null` for the bare `NaN` and `Infinity` that the reference host writes.
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

/// How many bytes a string takes, its quotes included; all of the text if it never ends.
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
