//! Questions of the host to the agent: sampling by its model, and its working folders (a2e §17).
//!
//! Both come from servers behind us, with MCP's parameters. This module converts them to A2E, and the answers back.

use std::collections::BTreeMap;

use gladhand_core::operations::{Answered, CallId, Failure, FailureKind, Question, QuestionId, QuestionKind};
use gladhand_core::wire::Frames;
use gladhand_core::wire::{Members, RawValue, json};
use serde::Serialize;

use super::fields::text_of;
use super::message::MessageWriter;
use crate::ambient::Ambient;

/// Maximum number of pending questions.
const MAX_PENDING: usize = 64;

/// A question that was sent to the agent.
#[derive(Debug)]
struct PendingQuestion {
    question: QuestionId,
    kind: QuestionKind,
    call: Option<CallId>,
}

/// The pending questions, by the ids of their messages.
#[derive(Debug, Default)]
pub(super) struct Questions(BTreeMap<String, PendingQuestion>);

impl Questions {
    /// Sends a question to the agent, or returns why that is not possible.
    pub(super) fn ask(
        &mut self,
        (id, question): (QuestionId, Question),
        call: Option<CallId>,
        ambient: &mut Ambient<'_>,
        wire: &mut Frames,
    ) -> Result<(), Failure> {
        if self.0.len() >= MAX_PENDING {
            return Err(Failure::new(FailureKind::Busy, "too many questions wait for this agent"));
        }
        let members = Members::of(&question.params);
        let raw = |name: &str| members.as_ref().and_then(|params| params.some(name)).map(RawValue::get);
        let server = question.key.as_deref().unwrap_or_default();
        let name = match question.kind {
            QuestionKind::Sample => "mcp/sample/req",
            QuestionKind::Roots => "mcp/root/list/req",
            QuestionKind::Elicit => return Err(Failure::missing_capability(question.kind.capability())),
        };
        let (message, request) = MessageWriter::request(name, ambient);
        let message = message.with("server_id", server).with("mcp_request_id", &id.0.to_string());
        let message = match question.kind {
            QuestionKind::Sample => message
                .raw("messages", raw("messages").unwrap_or("[]"))
                .raw("model_preferences", raw("modelPreferences").unwrap_or("{}"))
                .raw("system_prompt", raw("systemPrompt").unwrap_or(r#""""#))
                .raw("include_context", raw("includeContext").unwrap_or(r#""none""#))
                .raw("temperature", raw("temperature").unwrap_or("1.0"))
                .raw("max_tokens", raw("maxTokens").unwrap_or("1024"))
                .raw("stop_sequences", raw("stopSequences").unwrap_or("[]"))
                .raw("metadata", raw("metadata").unwrap_or("{}")),
            QuestionKind::Roots | QuestionKind::Elicit => message,
        };
        message.send(wire);
        self.0.insert(request, PendingQuestion { question: id, kind: question.kind, call });
        Ok(())
    }

    /// The agent's answer to a question. `None` if no such question is pending.
    pub(super) fn answered(&mut self, members: &Members<'_>) -> Option<(QuestionId, Answered)> {
        let request = members.raw("req_id").and_then(text_of)?;
        let pending = self.0.remove(request.as_ref())?;
        let answered = match pending.kind {
            QuestionKind::Sample => sampled(members),
            QuestionKind::Roots | QuestionKind::Elicit => {
                let roots = members.raw("roots").map_or("[]", RawValue::get);
                Ok(json::raw(format!(r#"{{"roots":{roots}}}"#)))
            }
        };
        Some((pending.question, answered))
    }

    /// Removes the questions of a call that has ended.
    pub(super) fn call_ended(&mut self, call: CallId) {
        self.0.retain(|_, pending| pending.call != Some(call));
    }
}

/// Converts `mcp/sample/resp` to the result of `sampling/createMessage`.
fn sampled(members: &Members<'_>) -> Answered {
    #[derive(Serialize)]
    struct Result<'a> {
        role: &'a str,
        content: &'a RawValue,
        model: &'a str,
        #[serde(rename = "stopReason", skip_serializing_if = "str::is_empty")]
        stop_reason: &'a str,
    }
    let text = |name: &str| members.raw(name).and_then(text_of).unwrap_or_default();
    let error = text("error");
    if !error.is_empty() {
        return Err(Failure::new(FailureKind::Unanswered, error));
    }
    let Some(content) = members.raw("content") else {
        return Err(Failure::new(FailureKind::Unanswered, "the agent answered without content"));
    };
    let role = text("role");
    let role = if role.is_empty() { "assistant" } else { &role };
    Ok(json::to_raw(&Result { role, content, model: &text("model"), stop_reason: &text("stop_reason") }))
}
