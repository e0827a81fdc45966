//! The state of a session, and operations that many steps use.

use std::collections::{HashMap, HashSet, VecDeque};

use gladhand_core::wire::{RawValue, json};
use serde::Serialize;

use super::calls::DecisionSubject;
use super::compaction::Standalone;
use super::history::History;
use super::step::{Chat, Effect, Entry, StepContext, Target};
use super::turn::Turn;
use crate::moment::Moment;
use crate::payloads::{
    Appended, ChatMessage, Debugged, Estimate, Image, Kind, QueueItem, SessionState, Status, UiMessage,
};

/// One conversation.
#[derive(Debug)]
pub(crate) struct Session {
    pub(super) id: String,
    pub(super) created_at: Moment,
    pub(super) updated_at: Moment,
    /// The title for the first chat, if a client gave one.
    pub(super) title: Option<String>,
    pub(super) label: String,
    pub(super) messages: Vec<UiMessage>,
    pub(super) history: History,
    pub(super) queue: VecDeque<QueueItem>,
    /// The steering messages for the running turn.
    pub(super) steering: Vec<String>,
    pub(super) conversation_provider: Option<String>,
    pub(super) chat: Option<Chat>,
    /// The decisions about tools for the rest of the session.
    pub(super) session_decisions: HashMap<DecisionSubject, bool>,
    /// Digests of the ids of all calls so far.
    pub(super) call_ids: HashSet<u64>,
    /// How many consecutive turns were too long for the model.
    pub(super) overflows: u32,
    /// The model that compacts the conversation after the running turn has ended.
    pub(super) compress_next: Option<Target>,
    /// Whether the chat could not be saved the last time. The error is reported once.
    pub(super) is_unsaved: bool,
    pub(super) activity: Activity,
}

/// The current work of a session.
#[derive(Debug)]
pub(super) enum Activity {
    /// None.
    Idle,
    /// A turn.
    Turn(Box<Turn>),
    /// A compaction that a client requested.
    Compaction(Box<Standalone>),
}

impl Session {
    /// A new session.
    pub(crate) fn new(id: String, title: Option<String>, now: Moment) -> Self {
        Self {
            id,
            created_at: now,
            updated_at: now,
            title,
            label: READY.to_owned(),
            messages: Vec::new(),
            history: History::default(),
            queue: VecDeque::new(),
            steering: Vec::new(),
            conversation_provider: None,
            chat: None,
            session_decisions: HashMap::new(),
            call_ids: HashSet::new(),
            overflows: 0,
            compress_next: None,
            is_unsaved: false,
            activity: Activity::Idle,
        }
    }

    /// The id.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Whether a turn or a compaction runs.
    pub(crate) fn is_busy(&self) -> bool {
        !matches!(self.activity, Activity::Idle)
    }

    /// Whether a turn runs.
    pub(crate) fn has_turn(&self) -> bool {
        matches!(self.activity, Activity::Turn(_))
    }

    /// The id of the running turn.
    pub(crate) fn turn_id(&self) -> Option<&str> {
        match &self.activity {
            Activity::Turn(turn) => Some(&turn.id),
            Activity::Idle | Activity::Compaction(_) => None,
        }
    }

    /// The queued prompts.
    pub(crate) fn queue(&self) -> &VecDeque<QueueItem> {
        &self.queue
    }

    /// Whether the history contains messages.
    pub(crate) fn has_history(&self) -> bool {
        !self.history.is_empty()
    }

    /// The title for lists: the title of the chat, or the first prompt.
    pub(crate) fn title(&self) -> Option<String> {
        let given = self.chat.as_ref().map(|chat| chat.title.clone()).or_else(|| self.title.clone());
        let first = || self.messages.iter().find(|message| message.kind == Kind::User);
        given.or_else(|| first().and_then(|message| crate::text::title(&message.text)))
    }

    /// The times of creation and of the last change.
    pub(crate) fn times(&self) -> (Moment, Moment) {
        (self.created_at, self.updated_at)
    }

    /// The status label.
    pub(crate) fn label(&self) -> &str {
        &self.label
    }

    /// The number of visible messages.
    pub(crate) fn message_count(&self) -> usize {
        self.messages.len()
    }

    /// The whole state as JSON.
    pub(crate) fn state(&self, context: &StepContext<'_>) -> Box<RawValue> {
        let breakdown = context.request_sizes.breakdown(self.history.tokens());
        json::to_raw(&SessionState {
            id: &self.id,
            created_at: self.created_at.text(),
            updated_at: self.updated_at.text(),
            pending: self.is_busy(),
            status_label: &self.label,
            messages: &self.messages,
            history: self.history.messages(),
            queue: &self.queue,
            pending_steer_count: self.steering.len(),
            conversation_provider: self.conversation_provider.as_deref(),
            active_session_id: self.chat.as_ref().map(|chat| &*chat.id),
            context_token_estimate: breakdown.total(),
            context_token_source: SOURCE,
            context_token_provider: context.request_sizes.provider.as_deref().or(self.conversation_provider.as_deref()),
            context_token_breakdown: breakdown,
        })
    }

    /// Replaces the conversation by a saved chat.
    pub(crate) fn resume(
        &mut self,
        chat: Chat,
        provider: String,
        messages: Vec<ChatMessage>,
        context: &mut StepContext<'_>,
    ) {
        debug_assert!(!self.is_busy(), "only an idle session can resume a chat");
        self.messages = messages
            .iter()
            .map(|message| {
                let kind = match message.role {
                    crate::payloads::Role::User => Kind::User,
                    crate::payloads::Role::Assistant => Kind::Assistant,
                };
                numbered(context, kind, message.text.clone(), message.images.clone())
            })
            .collect();
        self.history = History::of(messages);
        self.conversation_provider = Some(provider);
        self.chat = Some(chat);
        self.overflows = 0;
        self.updated_at = context.now;
    }

    /// Sets the status label and sends it to clients.
    pub(super) fn status(&mut self, context: &mut StepContext<'_>, label: impl Into<String>, turn_id: Option<&str>) {
        self.label = label.into();
        let pending = self.label != READY;
        context.emit("session.status", &Status { session_id: &self.id, pending, status_label: &self.label, turn_id });
    }

    /// Adds a visible message.
    pub(super) fn append(&mut self, context: &mut StepContext<'_>, kind: Kind, text: String, images: Vec<Image>) {
        let message = numbered(context, kind, text, images);
        self.append_message(context, message);
    }

    /// Adds a visible answer, as one text and as the parts between tool calls.
    pub(super) fn append_answer(&mut self, context: &mut StepContext<'_>, text: String, segments: Vec<String>) {
        let segments = if segments.len() > 1 { segments } else { Vec::new() };
        let message = UiMessage { segments, ..numbered(context, Kind::Assistant, text, Vec::new()) };
        self.append_message(context, message);
    }

    fn append_message(&mut self, context: &mut StepContext<'_>, message: UiMessage) {
        context.emit("session.message.appended", &Appended { session_id: &self.id, message: &message });
        self.messages.push(message);
        self.updated_at = context.now;
    }

    /// Adds a system note.
    pub(crate) fn note(&mut self, context: &mut StepContext<'_>, text: impl Into<String>) {
        self.append(context, Kind::System, text.into(), Vec::new());
    }

    /// Adds a journal entry, and sends the token estimate after it.
    pub(super) fn journal(
        &self,
        context: &mut StepContext<'_>,
        turn: &Turn,
        kind: &'static str,
        payload: &impl Serialize,
    ) {
        if let (Some(chat), Some(target)) = (&self.chat, turn.target()) {
            let (turn_id, provider) = (turn.id.clone(), target.provider.clone());
            let entry = Entry { at: context.now, kind, turn_id, provider, payload: json::to_raw(payload) };
            context.effects.push(Effect::Journal(chat.clone(), entry));
        }
        self.estimate(context);
    }

    /// Sends the estimated token count of the next request.
    pub(super) fn estimate(&self, context: &mut StepContext<'_>) {
        let breakdown = context.request_sizes.breakdown(self.history.tokens());
        let provider = context.request_sizes.provider.clone().or_else(|| self.conversation_provider.clone());
        let estimate = Estimate {
            session_id: &self.id,
            provider: provider.as_deref(),
            source: SOURCE,
            total_tokens_estimate: breakdown.total(),
            breakdown,
        };
        context.emit("session.context.estimate", &estimate);
    }

    /// Sends a debug event, if debugging is on.
    pub(super) fn debug(&self, context: &mut StepContext<'_>, turn_id: &str, stage: &str, data: &impl Serialize) {
        if context.debug {
            let debugged = Debugged { session_id: &self.id, turn_id: Some(turn_id), stage, data };
            context.emit("session.debug", &debugged);
        }
    }
}

/// The label of an idle session.
pub(super) const READY: &str = "ready";
/// The source of token estimates.
const SOURCE: &str = "history";

fn numbered(context: &mut StepContext<'_>, kind: Kind, text: String, images: Vec<Image>) -> UiMessage {
    *context.last_message += 1;
    UiMessage { id: *context.last_message, kind, text, images, segments: Vec::new() }
}
