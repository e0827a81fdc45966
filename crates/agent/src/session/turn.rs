//! A turn from its preparation to its last request (`loaf` §13.1, §13.2).

use gladhand_models::{HistoryItem, ModelError, Piece, Segment};
use serde_json::json;

use super::calls::Wanted;
use super::compaction::Compaction;
use super::ending::{End, is_overflow, title_of};
use super::history;
use super::requests::COMPRESSING;
use super::state::{Activity, Session};
use super::step::{Chat, Effect, Job, NotReady, Prepared, StepContext, Target};
use super::window::high_watermark;
use crate::moment::Moment;
use crate::payloads::{ChatMessage, Chunk, Executed, Failed, Image, Kind, Role, Streamed};
use crate::text;

/// The state of a turn, between a prompt and its answer.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) id: String,
    /// The prompt as the user typed it.
    pub(super) prompt: String,
    /// The prompt with labels for the images.
    pub(super) text: String,
    pub(super) images: Vec<Image>,
    pub(super) prepared: Option<Prepared>,
    /// Whether the prompt was added to the visible messages.
    pub(super) is_shown: bool,
    /// The items that this turn adds to the history for the model: prompt, answers, calls, results, steering.
    pub(super) items: Vec<HistoryItem>,
    /// How many bytes of these items come from the model and from tools.
    pub(super) kept_bytes: usize,
    /// The whole answer so far.
    pub(super) answer: String,
    /// The answer, by request.
    pub(super) segments: Vec<String>,
    /// The steering messages that were applied.
    pub(super) steered: Vec<String>,
    pub(super) round: Round,
    /// The requested calls that have not started, the next one last.
    pub(super) calls: Vec<Wanted>,
    pub(super) executed: Vec<Executed>,
    pub(super) stop: Option<Stop>,
    pub(super) awaits: Awaits,
}

/// One request of a turn.
#[derive(Debug, Default)]
pub(super) struct Round {
    pub(super) number: u32,
    /// The part of the answer in this request.
    pub(super) text: String,
    pub(super) thoughts: usize,
    pub(super) began: Moment,
}

/// How a turn is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stop {
    /// Whether a note says that the user interrupted it.
    pub(super) noted: bool,
    /// Whether the conversation so far is kept.
    pub(super) kept: bool,
}

/// The state that a turn waits in.
#[derive(Debug)]
pub(super) enum Awaits {
    Preparation,
    Beginning,
    /// Waits for a summary before the turn starts.
    Summary(Compaction),
    Round,
    /// Waits for the decision about the next call.
    Decision,
    /// Waits for approval of this call.
    Approval(Wanted),
    Tool(Wanted),
    /// The chat is being saved. Then the turn ends in this way.
    Saving(End),
    /// Waits for a summary, because the conversation became too long.
    Recovery(Compaction),
}

impl Turn {
    pub(super) fn new(id: String, prompt: String, now: Moment) -> Self {
        Self {
            id,
            text: prompt.clone(),
            prompt,
            images: Vec::new(),
            prepared: None,
            is_shown: false,
            items: Vec::new(),
            kept_bytes: 0,
            answer: String::new(),
            segments: Vec::new(),
            steered: Vec::new(),
            round: Round { began: now, ..Round::default() },
            calls: Vec::new(),
            executed: Vec::new(),
            stop: None,
            awaits: Awaits::Preparation,
        }
    }

    /// The model, as soon as it is known.
    pub(super) fn target(&self) -> Option<&Target> {
        self.prepared.as_ref().map(|prepared| &prepared.target)
    }

    /// Whether the end is decided, so that the turn cannot be stopped any more.
    pub(super) fn is_over(&self) -> bool {
        matches!(&self.awaits, Awaits::Saving(End::Completed { .. } | End::Interrupted { .. } | End::Failed(_)))
    }

    /// Ends the segment of the current request, and returns its text.
    pub(super) fn end_segment(&mut self) -> String {
        let round_text = std::mem::take(&mut self.round.text);
        let segment = text::trim(&round_text);
        if !segment.is_empty() {
            self.segments.push(segment.to_owned());
        }
        round_text
    }

    /// The prompt as a message.
    pub(super) fn message(&self) -> ChatMessage {
        ChatMessage { role: Role::User, text: self.text.clone(), images: self.images.clone() }
    }
}

impl Session {
    /// The preparation has ended.
    pub(crate) fn prepared(&mut self, prepared: Result<Prepared, NotReady>, context: &mut StepContext<'_>) {
        let Some(mut turn) = self.turn_that(|awaits| matches!(awaits, Awaits::Preparation)) else { return };
        match prepared {
            Ok(mut prepared) => {
                if !prepared.skills.is_empty() {
                    self.note(context, format!("skills applied: {}", prepared.skills.join(", ")));
                }
                turn.images = std::mem::take(&mut prepared.images);
                turn.text = labelled(&turn.prompt, turn.images.len());
                turn.prepared = Some(prepared);
                self.wait(turn, Awaits::Beginning);
                context.request_job(Job::Begin);
            }
            Err(_) if turn.stop.is_some() => self.finish_interrupted(turn, context),
            Err(NotReady::NoModel(why)) => {
                self.note(context, &*why);
                self.conclude(turn, &End::Failed(why), context);
            }
            Err(NotReady::BadImage(why)) => {
                self.note(context, format!("inference error: {why}"));
                self.conclude(turn, &End::Failed(why), context);
            }
        }
    }

    /// Starts the turn, after the caller got its answer.
    pub(crate) fn begin(&mut self, context: &mut StepContext<'_>) {
        let Some(turn) = self.turn_that(|awaits| matches!(awaits, Awaits::Beginning)) else { return };
        let Some(target) = turn.target().cloned() else { return };
        if self.chat.is_none() {
            let title = self.title.take().unwrap_or_else(|| title_of(&turn));
            self.chat = Some(Chat::new((context.new_id)(), context.now, title));
        }
        if turn.stop.is_some() {
            return self.finish_interrupted(turn, context);
        }
        if self.history.is_empty() {
            return self.converse(turn, context);
        }
        self.status(context, COMPRESSING, Some(&turn.id));
        let switched = self.conversation_provider.as_ref().is_some_and(|before| *before != target.provider);
        let is_full = context.request_sizes.pinned + self.history.tokens() > high_watermark(target.window);
        let reason = match (switched, is_full) {
            (true, _) => "provider_switch",
            (false, true) => "auto",
            (false, false) => return self.converse(turn, context),
        };
        let compaction = self.start_compaction(reason, Some(&turn.id), target, None, context);
        self.wait(turn, Awaits::Summary(compaction));
    }

    /// Sends the prompt to the model.
    pub(super) fn converse(&mut self, mut turn: Box<Turn>, context: &mut StepContext<'_>) {
        if let Some(why) = turn.prepared.as_ref().and_then(|prepared| prepared.unsaved.as_ref()) {
            self.note(context, format!("history save disabled for this turn: {why}"));
        }
        let is_thinking = turn.target().is_some_and(|target| target.thinking != gladhand_models::Thinking::Off);
        let label = if is_thinking { "thinking..." } else { DRAFTING };
        self.status(context, label, Some(&turn.id));
        self.show(&mut turn, context);
        turn.items.push(history::item(&turn.message()));
        turn.round.began = context.now;
        self.keep_prompt(&turn, context);
        self.next_round(turn, context);
    }

    /// Writes the prompt to disk before the first request, so that it is not lost.
    fn keep_prompt(&self, turn: &Turn, context: &mut StepContext<'_>) {
        let Some(prepared) = turn.prepared.as_ref().filter(|prepared| prepared.unsaved.is_none()) else { return };
        if let Some(mut file) = self.chat_file(prepared.target.clone(), context) {
            file.messages.push(turn.message());
            context.effects.push(Effect::Keep(file));
        }
    }

    /// Adds the prompt to the visible messages, once.
    pub(super) fn show(&mut self, turn: &mut Turn, context: &mut StepContext<'_>) {
        if turn.is_shown {
            return;
        }
        turn.is_shown = true;
        self.append(context, Kind::User, turn.text.clone(), turn.images.clone());
        let payload = json!({"text": turn.text, "image_count": turn.images.len()});
        self.journal(context, turn, "user_msg", &payload);
    }

    /// Starts the next request, with the steering messages that arrived meanwhile.
    pub(super) fn next_round(&mut self, mut turn: Box<Turn>, context: &mut StepContext<'_>) {
        turn.round = Round { number: turn.round.number + 1, began: turn.round.began, ..Round::default() };
        let steering = std::mem::take(&mut self.steering);
        if !steering.is_empty() {
            for text in &steering {
                self.append(context, Kind::User, text.clone(), Vec::new());
                turn.items.push(HistoryItem::User { text: text.clone(), images: Vec::new() });
            }
            self.status(context, "steer applied; continuing...", None);
            let preview = |text: &String| json!({"role": "user", "preview": text::prefix(text, 160)});
            let messages: Vec<_> = steering.iter().map(preview).collect();
            self.debug(context, &turn.id, "steer_injected", &json!({"count": steering.len(), "messages": messages}));
            turn.steered.extend(steering);
        }
        let mut history = self.history.items();
        history.extend(turn.items.iter().cloned());
        context.request_job(Job::Round { number: turn.round.number, history });
        self.wait(turn, Awaits::Round);
    }

    /// Receives a piece of the model's output.
    pub(crate) fn piece_received(&mut self, piece: &Piece, context: &mut StepContext<'_>) {
        let Some(mut turn) = self.turn_that(|awaits| matches!(awaits, Awaits::Round)) else { return };
        // Output after an interruption is not shown.
        if turn.stop.is_none() {
            self.stream(&mut turn, piece, context);
        }
        self.wait(turn, Awaits::Round);
    }

    /// Shows a piece, and collects its answer text.
    pub(super) fn stream(&mut self, turn: &mut Turn, piece: &Piece, context: &mut StepContext<'_>) {
        let mut thoughts = piece.thoughts.iter();
        let mut answer_text = String::new();
        for segment in &piece.segments {
            match segment {
                Segment::Thought(thought) => {
                    turn.round.thoughts += 1;
                    // The beginning of the thought describes its subject better than the latest piece.
                    let so_far = thoughts.next().unwrap_or(thought);
                    self.status(context, format!("thinking: {}", text::thought_title(so_far)), None);
                }
                Segment::Answer(answer) => {
                    answer_text.push_str(answer);
                    self.status(context, DRAFTING, None);
                }
            }
        }
        turn.answer.push_str(&answer_text);
        turn.round.text.push_str(&answer_text);
        let chunk = Chunk { thoughts: &piece.thoughts, answer_text, segments: &piece.segments };
        context.emit("session.stream.chunk", &Streamed { session_id: &self.id, turn_id: &turn.id, chunk });
    }

    /// A request has ended.
    pub(crate) fn round_ended(&mut self, ended: Result<Vec<Wanted>, ModelError>, context: &mut StepContext<'_>) {
        let Some(turn) = self.turn_that(|awaits| matches!(awaits, Awaits::Round)) else { return };
        match ended {
            _ if turn.stop.is_some() => self.finish_interrupted(turn, context),
            Ok(calls) if calls.is_empty() => self.finish_completed(turn, context),
            Ok(calls) => self.take_calls(turn, calls, context),
            Err(error) => self.fail(turn, error.to_string(), context),
        }
    }

    /// A request to the model has failed.
    fn fail(&mut self, turn: Box<Turn>, message: String, context: &mut StepContext<'_>) {
        if is_overflow(&message) && self.overflows < OVERFLOWS {
            return self.keep_overflowed(turn, message, context);
        }
        self.note(context, format!("inference error: {message}"));
        self.journal(context, &turn, "error_observed", &json!({"message": message}));
        self.conclude(turn, &End::Failed(message), context);
    }

    /// Takes the running turn, if it waits for this. The caller must put it back with [`Self::wait`], or end it.
    pub(super) fn turn_that(&mut self, is_awaited: impl FnOnce(&Awaits) -> bool) -> Option<Box<Turn>> {
        match std::mem::replace(&mut self.activity, Activity::Idle) {
            Activity::Turn(turn) if is_awaited(&turn.awaits) => Some(turn),
            other => {
                self.activity = other;
                None
            }
        }
    }

    /// Puts the turn back in this state.
    pub(super) fn wait(&mut self, mut turn: Box<Turn>, awaits: Awaits) {
        turn.awaits = awaits;
        self.activity = Activity::Turn(turn);
    }

    pub(super) fn emit_failed(&self, turn: &Turn, message: &str, context: &mut StepContext<'_>) {
        context.emit("session.error", &Failed { session_id: &self.id, turn_id: &turn.id, message });
    }
}

/// The status label during an answer.
pub(super) const DRAFTING: &str = "drafting response...";
/// How often in sequence a conversation that became too long is compacted and continued.
const OVERFLOWS: u32 = 3;

/// The prompt with a label for each image that it does not mention.
fn labelled(prompt: &str, images: usize) -> String {
    let mut text = prompt.to_owned();
    for number in 1..=images {
        let label = format!("[Image {number}]");
        if !text.to_lowercase().contains(&label.to_lowercase()) {
            if !text.is_empty() {
                text.push(' ');
            }
            text.push_str(&label);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_labelled_if_the_prompt_does_not_mention_them() {
        assert_eq!(labelled("", 2), "[Image 1] [Image 2]");
        assert_eq!(labelled("compare [image 1] please", 2), "compare [image 1] please [Image 2]");
        assert_eq!(labelled("none", 0), "none");
    }
}
