//! The input of a session step, and its effects.

use gladhand_core::operations::AgentEvent;
use gladhand_core::wire::{RawValue, json};
use gladhand_models::{HistoryItem, Thinking};
use serde::Serialize;

use super::calls::Wanted;
use super::history::RequestSizes;
use crate::moment::Moment;
use crate::payloads::{self, ChatMessage, CompactionReport, Image, PendingImage};

/// The environment of one step.
pub(crate) struct StepContext<'a> {
    /// The current time.
    pub(crate) now: Moment,
    /// The number of the last message of any session.
    pub(crate) last_message: &'a mut u64,
    /// Generates a unique id.
    pub(crate) new_id: &'a mut dyn FnMut() -> String,
    /// The parts of every request that count for token estimates.
    pub(crate) request_sizes: RequestSizes,
    /// Whether debug events are sent.
    pub(crate) debug: bool,
    /// The effects, in order.
    pub(crate) effects: Vec<Effect>,
}

impl StepContext<'_> {
    /// Sends an event to all clients.
    pub(super) fn emit(&mut self, kind: &'static str, payload: &impl Serialize) {
        self.effects.push(Effect::Emit(payloads::event(kind, payload)));
    }

    /// Requests a job. The session now waits for its result.
    pub(super) fn request_job(&mut self, job: Job) {
        self.effects.push(Effect::Do(job));
    }
}

/// An effect of a step.
#[derive(Debug)]
pub(crate) enum Effect {
    /// Send this event.
    Emit(AgentEvent),
    /// Write the chat during a turn, so that it survives a sudden end of the process.
    Keep(ChatFile),
    /// Append this entry to the journal of the chat.
    Journal(Chat, Entry),
    /// Run this job and deliver its result.
    Do(Job),
    /// Cancel the last job.
    Cancel,
    /// A turn has ended.
    Ended,
    /// The compaction that a client requested has ended.
    Report(Result<CompactionReport, String>),
}

/// A job that a session waits for.
#[derive(Debug)]
pub(crate) enum Job {
    /// Check whether a turn can run. Results in [`Session::prepared`](super::Session::prepared).
    Prepare {
        /// The text of the prompt.
        text: String,
        /// The images to load.
        images: Vec<PendingImage>,
    },
    /// Continue later, after the caller got its answer. Results in [`Session::begin`](super::Session::begin).
    Begin,
    /// Summarize a conversation. Results in [`Session::summarised`](super::Session::summarised).
    Summarise {
        /// The model.
        target: Target,
        /// The conversation, with the request for a summary at its end.
        history: Vec<HistoryItem>,
    },
    /// Send one request to the model of the turn. Results in [`Session::piece_received`](super::Session::piece_received) for each
    /// piece, then in [`Session::round_ended`](super::Session::round_ended).
    Round {
        /// The number of the request, starting at 1.
        number: u32,
        /// The conversation so far.
        history: Vec<HistoryItem>,
    },
    /// Decide the next call. Results in [`Session::decided`](super::Session::decided).
    Decide(Wanted),
    /// Run a tool. Results in [`Session::ran`](super::Session::ran).
    Run(Wanted),
    /// Save the chat. Results in [`Session::saved`](super::Session::saved).
    Save(ChatFile),
}

/// The identity and the file of a chat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Chat {
    /// The id.
    pub(crate) id: String,
    /// When the chat was created.
    pub(crate) created_at: String,
    /// The path: inside the data directory, or where the file was found.
    pub(crate) path: String,
    /// The title: given by a client, or taken from the first prompt. It never changes.
    pub(crate) title: String,
}

impl Chat {
    /// A new chat.
    pub(crate) fn new(id: String, now: Moment, title: String) -> Self {
        let path = format!("sessions/{}/rollout-{}-{id}.jsonl", now.folder(), now.stamp());
        Self { id, created_at: now.text(), path, title }
    }
}

/// The content of a chat file.
#[derive(Debug, Clone)]
pub(crate) struct ChatFile {
    /// The chat.
    pub(crate) chat: Chat,
    /// The model.
    pub(crate) target: Target,
    /// When it changed.
    pub(crate) updated_at: String,
    /// The messages.
    pub(crate) messages: Vec<ChatMessage>,
}

/// A model, and how it is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) provider: String,
    pub(crate) model: String,
    pub(crate) thinking: Thinking,
    pub(crate) routing: String,
    /// The size of the context window in tokens.
    pub(crate) window: u64,
}

/// The result of preparing a turn that can run.
#[derive(Debug, Clone)]
pub(crate) struct Prepared {
    /// The model.
    pub(crate) target: Target,
    /// The loaded images.
    pub(crate) images: Vec<Image>,
    /// The skills that the prompt names.
    pub(crate) skills: Vec<String>,
    /// Why the chat cannot be saved, if that is already known.
    pub(crate) unsaved: Option<String>,
}

/// Why a turn cannot run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NotReady {
    /// No model is available.
    NoModel(String),
    /// An image could not be loaded.
    BadImage(String),
}

/// A journal entry, without its index.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) at: Moment,
    pub(crate) kind: &'static str,
    pub(crate) turn_id: String,
    pub(crate) provider: String,
    pub(crate) payload: Box<RawValue>,
}

impl Entry {
    /// The line of the entry with its index.
    pub(crate) fn line(&self, index: u64) -> String {
        #[derive(Serialize)]
        struct JournalLine<'a> {
            index: u64,
            at_iso: String,
            r#type: &'a str,
            turn_id: &'a str,
            provider: &'a str,
            payload: &'a RawValue,
        }
        let Self { at, kind, turn_id, provider, payload } = self;
        json::to_raw(&JournalLine { index, at_iso: at.text(), r#type: kind, turn_id, provider, payload })
            .get()
            .to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_line_has_the_order_of_the_recordings() {
        let entry = Entry {
            at: Moment(1_794_705_293_015),
            kind: "user_msg",
            turn_id: "t".to_owned(),
            provider: "openrouter".to_owned(),
            payload: json::to_raw(&serde_json::json!({"text": "second question", "image_count": 0})),
        };
        let payload = entry.payload.get();
        let expected = format!(
            r#"{{"index":2,"at_iso":"2026-11-15T01:14:53.015Z","type":"user_msg","turn_id":"t","provider":"openrouter","payload":{payload}}}"#
        );
        assert_eq!(entry.line(2), expected);
    }
}
