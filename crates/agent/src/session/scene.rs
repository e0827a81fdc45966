//! What a session is given with each step, and what it asks for.

use gladhand_core::operations::AgentEvent;
use gladhand_core::wire::{RawValue, json};
use gladhand_models::{Said, Thinking};
use serde::Serialize;

use super::calls::Wanted;
use super::history::Scales;
use crate::moment::Moment;
use crate::payloads::{self, ChatMessage, CompactionReport, Image, PendingImage};

/// The world around one step.
pub(crate) struct Scene<'a> {
    /// When it is.
    pub(crate) now: Moment,
    /// The number of the last message of any session.
    pub(crate) last_message: &'a mut u64,
    /// Makes an id that nobody has.
    pub(crate) new_id: &'a mut dyn FnMut() -> String,
    /// What is sent along with every request.
    pub(crate) scales: Scales,
    /// Whether everything is told.
    pub(crate) debug: bool,
    /// What is to be done, in this order.
    pub(crate) effects: Vec<Effect>,
}

impl Scene<'_> {
    /// Tells everybody who follows.
    pub(super) fn tell(&mut self, kind: &'static str, payload: &impl Serialize) {
        self.effects.push(Effect::Tell(payloads::event(kind, payload)));
    }

    /// Asks for a job. The session now waits for its outcome.
    pub(super) fn wants(&mut self, job: Job) {
        self.effects.push(Effect::Do(job));
    }
}

/// What is to be done.
#[derive(Debug)]
pub(crate) enum Effect {
    /// This happened.
    Tell(AgentEvent),
    /// The chat is to be written down, so that it is there should everything end now.
    Keep(ChatFile),
    /// This belongs into the journal of the chat.
    Journal(Chat, Entry),
    /// Do this, and bring the outcome.
    Do(Job),
    /// The job that was asked for last is to end soon.
    Cancel,
    /// A turn has ended.
    Ended,
    /// The compaction that somebody asked for has ended.
    Report(Result<CompactionReport, String>),
}

/// What a session waits for.
#[derive(Debug)]
pub(crate) enum Job {
    /// See whether a turn can run. Brings [`Session::prepared`](super::Session::prepared).
    Prepare {
        /// What is said.
        text: String,
        /// Pictures to be loaded.
        images: Vec<PendingImage>,
    },
    /// Nothing, but later. Brings [`Session::begin`](super::Session::begin).
    Begin,
    /// Have a conversation put into few words. Brings [`Session::summarised`](super::Session::summarised).
    Summarise {
        /// By whom.
        target: Target,
        /// The conversation, and the wish at its end.
        said: Vec<Said>,
    },
    /// One request to the model of the turn. Brings [`Session::heard`](super::Session::heard) for each piece, then
    /// [`Session::round_ended`](super::Session::round_ended).
    Round {
        /// Counts from 1.
        number: u32,
        /// Everything said so far.
        said: Vec<Said>,
    },
    /// Decide about the next call. Brings [`Session::decided`](super::Session::decided).
    Decide(Wanted),
    /// Run a tool. Brings [`Session::ran`](super::Session::ran).
    Run(Wanted),
    /// Write the chat down. Brings [`Session::saved`](super::Session::saved).
    Save(ChatFile),
}

/// Where a conversation is written down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Chat {
    /// Its id.
    pub(crate) id: String,
    /// When it began.
    pub(crate) created_at: String,
    /// Its file: inside the data directory, or wherever it was found.
    pub(crate) path: String,
    /// What it is called: as somebody wished, or after the first prompt. It stays.
    pub(crate) title: String,
}

impl Chat {
    /// A new one.
    pub(crate) fn new(id: String, now: Moment, title: String) -> Self {
        let path = format!("sessions/{}/rollout-{}-{id}.jsonl", now.folder(), now.stamp());
        Self { id, created_at: now.text(), path, title }
    }
}

/// A chat as it is written down.
#[derive(Debug, Clone)]
pub(crate) struct ChatFile {
    /// Where.
    pub(crate) chat: Chat,
    /// Who answers.
    pub(crate) target: Target,
    /// When it changed.
    pub(crate) updated_at: String,
    /// What was said.
    pub(crate) messages: Vec<ChatMessage>,
}

/// Who answers: a model, and how it is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) provider: String,
    pub(crate) model: String,
    pub(crate) thinking: Thinking,
    pub(crate) routing: String,
    /// How much it takes in.
    pub(crate) window: u64,
}

/// A turn that can run.
#[derive(Debug, Clone)]
pub(crate) struct Prepared {
    /// Who answers.
    pub(crate) target: Target,
    /// The pictures.
    pub(crate) images: Vec<Image>,
    /// Skills that the prompt names.
    pub(crate) skills: Vec<String>,
    /// Why the chat cannot be written down, if that is known already.
    pub(crate) unsaved: Option<String>,
}

/// A turn that cannot run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NotReady {
    /// Nobody can answer.
    NoModel(String),
    /// A picture could not be loaded.
    BadImage(String),
}

/// A line of the journal, still without its number.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) at: Moment,
    pub(crate) kind: &'static str,
    pub(crate) turn_id: String,
    pub(crate) provider: String,
    pub(crate) payload: Box<RawValue>,
}

impl Entry {
    /// The line, with its number.
    pub(crate) fn line(&self, index: u64) -> String {
        #[derive(Serialize)]
        struct Line<'a> {
            index: u64,
            at_iso: String,
            r#type: &'a str,
            turn_id: &'a str,
            provider: &'a str,
            payload: &'a RawValue,
        }
        let Self { at, kind, turn_id, provider, payload } = self;
        json::to_raw(&Line { index, at_iso: at.text(), r#type: kind, turn_id, provider, payload }).get().to_owned()
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
