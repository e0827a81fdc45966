//! The JSON payloads that clients of the agent receive. The order of members is the order on the wire.

use gladhand_core::operations::{AgentEvent, ImageInput};
use gladhand_core::wire::{RawValue, json};
use gladhand_models::Segment;
use serde::{Deserialize, Serialize};

/// Creates an event with this payload.
pub(crate) fn event(kind: &'static str, payload: &impl Serialize) -> AgentEvent {
    AgentEvent { kind, payload: json::to_raw(payload) }
}

/// `session.status`
#[derive(Debug, Serialize)]
pub(crate) struct Status<'a> {
    pub(crate) session_id: &'a str,
    pub(crate) pending: bool,
    pub(crate) status_label: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) turn_id: Option<&'a str>,
}

/// `session.message.appended`
#[derive(Debug, Serialize)]
pub(crate) struct Appended<'a> {
    pub(crate) session_id: &'a str,
    pub(crate) message: &'a UiMessage,
}

/// `session.stream.chunk`
#[derive(Debug, Serialize)]
pub(crate) struct Streamed<'a> {
    pub(crate) session_id: &'a str,
    pub(crate) turn_id: &'a str,
    pub(crate) chunk: Chunk<'a>,
}

/// One piece of a model's output.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Chunk<'a> {
    pub(crate) thoughts: &'a [String],
    pub(crate) answer_text: String,
    pub(crate) segments: &'a [Segment],
}

/// `session.tool.call.started`, `session.tool.call.completed` and `session.tool.results`
#[derive(Debug, Serialize)]
pub(crate) struct InTurn<'a, D> {
    pub(crate) session_id: &'a str,
    pub(crate) turn_id: &'a str,
    pub(crate) data: D,
}

/// The data of `session.tool.call.started`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CallStarted<'a> {
    pub(crate) tool_round: u32,
    pub(crate) call: StartedCall<'a>,
}

/// The call that starts.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StartedCall<'a> {
    pub(crate) name: &'a str,
    pub(crate) input: &'a RawValue,
    pub(crate) provider_tool_name: &'a str,
    pub(crate) call_id: &'a str,
}

/// The data of `session.tool.call.completed` and `session.tool.results`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CallsEnded<E> {
    pub(crate) tool_round: u32,
    pub(crate) executed: E,
}

/// A call that has ended.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Executed {
    pub(crate) name: String,
    pub(crate) ok: bool,
    pub(crate) input: Box<RawValue>,
    pub(crate) result: Box<RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
}

/// `session.completed`
#[derive(Debug, Serialize)]
pub(crate) struct Completed<'a> {
    pub(crate) session_id: &'a str,
    pub(crate) turn_id: &'a str,
    pub(crate) answer_length: usize,
}

/// `session.interrupted`
#[derive(Debug, Serialize)]
pub(crate) struct Interrupted<'a> {
    pub(crate) session_id: &'a str,
    pub(crate) turn_id: &'a str,
    pub(crate) partial_output: bool,
}

/// `session.error`
#[derive(Debug, Serialize)]
pub(crate) struct Failed<'a> {
    pub(crate) session_id: &'a str,
    pub(crate) turn_id: &'a str,
    pub(crate) message: &'a str,
}

/// `session.approval.requested`
#[derive(Debug, Serialize)]
pub(crate) struct ApprovalRequested<'a> {
    pub(crate) session_id: &'a str,
    pub(crate) turn_id: &'a str,
    pub(crate) call_id: &'a str,
    pub(crate) tool: &'a str,
    pub(crate) effect: &'a str,
    pub(crate) input: &'a RawValue,
    /// The files outside the workspace that the call uses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
}

/// `session.approval.resolved`
#[derive(Debug, Serialize)]
pub(crate) struct ApprovalResolved<'a> {
    pub(crate) session_id: &'a str,
    pub(crate) turn_id: &'a str,
    pub(crate) call_id: &'a str,
    pub(crate) tool: &'a str,
    pub(crate) decision: &'a str,
}

/// `session.context.estimate`
#[derive(Debug, Serialize)]
pub(crate) struct Estimate<'a> {
    pub(crate) session_id: &'a str,
    pub(crate) provider: Option<&'a str>,
    pub(crate) source: &'a str,
    pub(crate) total_tokens_estimate: u64,
    pub(crate) breakdown: Breakdown,
}

/// The parts of a token estimate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub(crate) struct Breakdown {
    pub(crate) pinned_tokens: u64,
    pub(crate) conversation_tokens: u64,
    pub(crate) tool_schema_tokens: u64,
    pub(crate) provider_overhead_tokens: u64,
}

impl Breakdown {
    /// The sum of all parts.
    pub(crate) fn total(self) -> u64 {
        self.pinned_tokens + self.conversation_tokens + self.tool_schema_tokens + self.provider_overhead_tokens
    }
}

/// `compaction.started`
#[derive(Debug, Serialize)]
pub(crate) struct CompactionStarted<'a> {
    pub(crate) session_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) turn_id: Option<&'a str>,
    pub(crate) reason: &'a str,
    pub(crate) anchor_event_index_before: u64,
    pub(crate) event_count: usize,
    pub(crate) context_window_tokens: u64,
}

/// `compaction.anchor_selected`
#[derive(Debug, Serialize)]
pub(crate) struct AnchorSelected<'a> {
    pub(crate) session_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) turn_id: Option<&'a str>,
    pub(crate) reason: &'a str,
    pub(crate) anchor_event_index_before: u64,
    pub(crate) anchor_event_index_after: u64,
    pub(crate) delta_event_count: usize,
}

/// `compaction.summary_merged`
#[derive(Debug, Serialize)]
pub(crate) struct SummaryMerged<'a> {
    pub(crate) session_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) turn_id: Option<&'a str>,
    pub(crate) summary_updated_at: String,
    pub(crate) anchor_event_index_after: u64,
}

/// `compaction.completed`
#[derive(Debug, Serialize)]
pub(crate) struct CompactionCompleted<'a> {
    pub(crate) session_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) turn_id: Option<&'a str>,
    pub(crate) compressed: bool,
    pub(crate) reason: &'a str,
    pub(crate) estimated_tokens_before: u64,
    pub(crate) estimated_tokens_after: u64,
    pub(crate) model_context_window: u64,
    pub(crate) target_limit: u64,
    pub(crate) high_watermark_limit: u64,
    pub(crate) anchor_event_index_before: u64,
    pub(crate) anchor_event_index_after: u64,
}

/// `compaction.failed`
#[derive(Debug, Serialize)]
pub(crate) struct CompactionFailed<'a> {
    pub(crate) session_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) turn_id: Option<&'a str>,
    pub(crate) reason: &'a str,
    pub(crate) message: &'a str,
}

/// `session.debug`
#[derive(Debug, Serialize)]
pub(crate) struct Debugged<'a, D> {
    pub(crate) session_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) turn_id: Option<&'a str>,
    pub(crate) stage: &'a str,
    pub(crate) data: D,
}

/// Debug data about the last round of a turn.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FinalRound<'a> {
    pub(crate) tool_round: u32,
    pub(crate) thought_count: usize,
    pub(crate) answer_length: usize,
    pub(crate) duration_ms: u64,
    pub(crate) answer_preview: &'a str,
}

/// A message as shown to users.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct UiMessage {
    pub(crate) id: u64,
    pub(crate) kind: Kind,
    pub(crate) text: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) images: Vec<Image>,
    /// The parts of an answer between tool calls, if there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) segments: Vec<String>,
}

/// The author of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    User,
    Assistant,
    System,
}

/// A message as sent to models and stored in chat files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ChatMessage {
    pub(crate) role: Role,
    pub(crate) text: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) images: Vec<Image>,
}

/// The role of the author.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Role {
    User,
    Assistant,
}

/// A loaded image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Image {
    pub(crate) path: String,
    pub(crate) mime_type: String,
    pub(crate) data_url: String,
    pub(crate) byte_size: u64,
}

/// A queued prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct QueueItem {
    pub(crate) id: String,
    pub(crate) text: String,
    pub(crate) images: Vec<PendingImage>,
    pub(crate) enqueued_at: String,
}

/// An image that is not loaded yet.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub(crate) struct PendingImage {
    pub(crate) path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) mime_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) data_url: Option<String>,
}

impl From<ImageInput<'_>> for PendingImage {
    fn from(image: ImageInput<'_>) -> Self {
        Self {
            path: image.path.into_owned(),
            mime_type: image.mime_type.map(Into::into),
            data_url: image.data_url.map(Into::into),
        }
    }
}

/// The whole state of a session.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionState<'a> {
    pub(crate) id: &'a str,
    pub(crate) created_at: String,
    pub(crate) updated_at: String,
    pub(crate) pending: bool,
    pub(crate) status_label: &'a str,
    pub(crate) messages: &'a [UiMessage],
    pub(crate) history: &'a [ChatMessage],
    pub(crate) queue: &'a std::collections::VecDeque<QueueItem>,
    pub(crate) pending_steer_count: usize,
    pub(crate) conversation_provider: Option<&'a str>,
    pub(crate) active_session_id: Option<&'a str>,
    pub(crate) context_token_estimate: u64,
    pub(crate) context_token_source: &'static str,
    pub(crate) context_token_provider: Option<&'a str>,
    pub(crate) context_token_breakdown: Breakdown,
}

/// The result of a compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct CompactionReport {
    pub(crate) compressed: bool,
    pub(crate) reason: &'static str,
    pub(crate) estimated_tokens_before: u64,
    pub(crate) estimated_tokens_after: u64,
    pub(crate) model_context_window: u64,
    pub(crate) target_limit: u64,
    pub(crate) anchor_event_index_before: u64,
    pub(crate) anchor_event_index_after: u64,
}

/// A summary of a saved chat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ChatSummary {
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) provider: String,
    pub(crate) model: String,
    pub(crate) thinking_level: gladhand_models::Thinking,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) open_router_provider: Option<String>,
    pub(crate) created_at: String,
    pub(crate) updated_at: String,
    pub(crate) message_count: usize,
    #[serde(default)]
    pub(crate) rollout_path: String,
}
