//! Carries capability requests, their responses and the host's questions between a host and the original caller (a2e
//! §§10–19). Only the envelope is rewritten; the other members pass through unparsed.

use gladhand_core::operations::{Answered, CapabilityCall, Question, QuestionKind};
use gladhand_core::wire::{FrameKind, Frames};
use gladhand_core::wire::{Members, RawValue, json};

use super::message::MessageWriter;
use crate::ambient::Ambient;

/// The members of the envelope, which are written separately for each message.
const ENVELOPE: [&str; 6] = ["type", "id", "version", "a2e", "ts", "req_id"];

/// The members of a host's question that its answer repeats.
#[derive(Debug)]
pub(super) struct PendingQuestion {
    request: Box<RawValue>,
    server: Box<RawValue>,
    mcp_request: Box<RawValue>,
    kind: QuestionKind,
}

impl PendingQuestion {
    /// Reads a question of the host.
    pub(super) fn of(kind: QuestionKind, members: &Members<'_>) -> Self {
        let raw = |name: &str| members.raw(name).map_or_else(|| json::to_raw(""), ToOwned::to_owned);
        Self { request: raw("id"), server: raw("server_id"), mcp_request: raw("mcp_request_id"), kind }
    }

    /// Writes the answer.
    pub(super) fn answer(&self, answered: Answered, ambient: &mut Ambient<'_>, wire: &mut Frames) {
        let result = answered.as_deref().ok().and_then(Members::of);
        let value = |name: &str| result.as_ref().and_then(|result| result.some(name)).map(RawValue::get);
        let name = match self.kind {
            QuestionKind::Sample => "mcp/sample/resp",
            QuestionKind::Roots | QuestionKind::Elicit => "mcp/root/list/resp",
        };
        let message =
            MessageWriter::request(name, ambient).0.of_kind(FrameKind::Result).raw("req_id", self.request.get());
        let message = message.raw("server_id", self.server.get()).raw("mcp_request_id", self.mcp_request.get());
        let message = match self.kind {
            QuestionKind::Sample => message
                .raw("role", value("role").unwrap_or(r#""assistant""#))
                .raw("content", value("content").unwrap_or("{}"))
                .raw("model", value("model").unwrap_or(r#""""#))
                .raw("stop_reason", value("stopReason").unwrap_or(r#""""#))
                .with("error", &answered.as_ref().err().map_or_else(String::new, ToString::to_string)),
            QuestionKind::Roots | QuestionKind::Elicit => message.raw("roots", value("roots").unwrap_or("[]")),
        };
        message.send(wire);
    }
}

/// The host's question in MCP's parameters, which all dialects share for questions.
pub(super) fn to_question(kind: QuestionKind, members: &Members<'_>) -> Question {
    let words = [
        ("messages", "messages"),
        ("model_preferences", "modelPreferences"),
        ("system_prompt", "systemPrompt"),
        ("include_context", "includeContext"),
        ("temperature", "temperature"),
        ("max_tokens", "maxTokens"),
        ("stop_sequences", "stopSequences"),
        ("metadata", "metadata"),
    ];
    let words = if kind == QuestionKind::Sample { &words[..] } else { &[] };
    let values = words.iter().filter_map(|(theirs, ours)| Some((*ours, members.some(theirs)?)));
    let params: std::collections::BTreeMap<_, _> = values.collect();
    Question { key: None, kind, params: json::to_raw(&params) }
}

/// Adds the members of a capability request to a message for the host. The session id becomes the host's own.
pub(super) fn carry(mut message: MessageWriter, call: &CapabilityCall<'_>, session: &str) -> MessageWriter {
    let members = Members::of(&call.message).unwrap_or_default();
    for (name, raw) in members.iter().filter(|(name, _)| !ENVELOPE.contains(name)) {
        message = match name {
            // A session id in the request is the id of the session with us.
            "session_id" if raw.get() != r#""""# => message.with(name, session),
            _ => message.raw(name, raw.get()),
        };
    }
    message
}

/// The members of a message without its envelope.
pub(super) fn own_members(members: &Members<'_>) -> Box<RawValue> {
    let own = members.iter().filter(|(name, _)| !ENVELOPE.contains(name));
    let mut object = Vec::from(*b"{");
    for (name, raw) in own {
        if object.len() > 1 {
            object.push(b',');
        }
        json::write(&mut object, name);
        object.push(b':');
        object.extend_from_slice(raw.get().as_bytes());
    }
    object.push(b'}');
    json::raw(String::from_utf8_lossy(&object).into_owned())
}
