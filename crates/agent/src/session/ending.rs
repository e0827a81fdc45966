//! How turns end (`loaf` §13.3 to §13.6).

use gladhand_models::{Piece, Said, Segment};
use serde_json::json;

use super::asked::COMPRESSING;
use super::bounds::TurnBound;
use super::compaction::Standalone;
use super::scene::{ChatFile, Effect, Job, Scene, Target};
use super::state::{Occupation, READY, Session};
use super::turn::{Awaits, Turn};
use crate::payloads::{ChatMessage, Completed, FinalRound, Interrupted, QueueItem, Role};
use crate::text;

/// The end of a turn.
#[derive(Debug)]
pub(super) enum End {
    /// The turn has an answer.
    Completed {
        /// The length of the answer.
        length: usize,
    },
    /// The turn was interrupted.
    Interrupted {
        /// Whether a partial answer was kept.
        partial: bool,
    },
    /// The conversation was too long for the model, with this error message. Another turn continues it.
    Overflowed(String),
    /// The turn failed, for this reason.
    Failed(String),
}

impl Session {
    pub(super) fn finish_completed(&mut self, mut turn: Box<Turn>, scene: &mut Scene<'_>) {
        if turn.answer.is_empty() {
            let nothing = Segment::Answer("(No response text returned)".to_owned());
            self.stream(&mut turn, &Piece { segments: vec![nothing], thoughts: Vec::new() }, scene);
        }
        let round = &turn.round;
        let data = FinalRound {
            tool_round: round.number,
            thought_count: round.thoughts,
            answer_length: text::length(&round.text),
            duration_ms: scene.now.0.saturating_sub(round.began.0),
            answer_preview: text::beginning(&round.text, 400),
        };
        self.debug(scene, &turn.id, "response_final", &data);
        let answer = std::mem::take(&mut turn.answer);
        let length = text::length(&answer);
        turn.end_segment();
        let segments = std::mem::take(&mut turn.segments);
        self.append_answer(scene, answer.clone(), segments);
        self.keep(&turn, &answer);
        self.journal(scene, &turn, "assistant_msg", &json!({"text": answer}));
        self.overflows = 0;
        self.save_and_end(turn, End::Completed { length }, scene);
    }

    /// Ends an interrupted turn, and keeps its partial answer.
    pub(super) fn finish_interrupted(&mut self, mut turn: Box<Turn>, scene: &mut Scene<'_>) {
        let stop = turn.stop.expect("the turn was stopped");
        if !stop.kept {
            return self.conclude(turn, &End::Interrupted { partial: false }, scene);
        }
        self.show(&mut turn, scene);
        let partial = self.keep_partial(&mut turn, scene);
        if stop.noted {
            let kept = if partial { " partial output kept." } else { "" };
            self.note(scene, format!("response interrupted by user.{kept}"));
        }
        self.save_and_end(turn, End::Interrupted { partial }, scene);
    }

    /// Keeps the partial answer of a turn whose conversation was too long for the model.
    pub(super) fn keep_overflowed(&mut self, mut turn: Box<Turn>, message: String, scene: &mut Scene<'_>) {
        self.keep_partial(&mut turn, scene);
        self.save_and_end(turn, End::Overflowed(message), scene);
    }

    /// Ends a turn at one of its limits, and keeps the answer so far. A later turn can continue from there.
    pub(super) fn end_at_bound(&mut self, mut turn: Box<Turn>, bound: TurnBound, scene: &mut Scene<'_>) {
        self.keep_partial(&mut turn, scene);
        let message = bound.to_string();
        self.note(scene, &*message);
        self.journal(scene, &turn, "error_observed", &json!({"message": message}));
        self.save_and_end(turn, End::Failed(message), scene);
    }

    /// The chat was saved, or could not be.
    pub(crate) fn saved(&mut self, saved: Result<(), String>, scene: &mut Scene<'_>) {
        if let Occupation::Compaction(_) = self.occupation {
            return self.standalone_saved(saved, scene);
        }
        let is_awaited = |awaits: &Awaits| match awaits {
            Awaits::Saving(_) => true,
            Awaits::Summary(compaction) | Awaits::Recovery(compaction) => compaction.is_merged(),
            _ => false,
        };
        let Some(mut turn) = self.turn_that(is_awaited) else { return };
        match std::mem::replace(&mut turn.awaits, Awaits::Round) {
            Awaits::Saving(end) => {
                let is_news = !std::mem::replace(&mut self.is_unsaved, saved.is_err());
                if let Some(why) = saved.err().filter(|_| is_news) {
                    let when = match &end {
                        End::Interrupted { .. } => " after interruption",
                        End::Overflowed(_) => " after overflow",
                        End::Failed(_) => " after a failure",
                        End::Completed { .. } => "",
                    };
                    self.note(scene, format!("chat history save failed{when}: {why}"));
                }
                self.end_or_recover(turn, end, scene);
            }
            Awaits::Summary(compaction) => self.summary_saved(turn, &compaction, saved, scene),
            Awaits::Recovery(compaction) => self.recovery_saved(turn, &compaction, saved, scene),
            _ => {}
        }
    }

    /// Compacts a conversation that became too long, and then continues it.
    fn recover(&mut self, turn: Box<Turn>, message: &str, scene: &mut Scene<'_>) {
        let Some(target) = turn.target().cloned() else { return };
        self.journal(scene, &turn, "error_observed", &json!({"message": message}));
        if turn.stop.is_some() {
            return self.conclude(turn, &End::Interrupted { partial: false }, scene);
        }
        self.status(scene, COMPRESSING, Some(&turn.id));
        let about = unfinished(&turn, scene, Some(message));
        let mut compaction = self.start_compaction("auto", Some(&turn.id), target, Some(about), scene);
        compaction.overflow = Some(message.to_owned());
        self.wait(turn, Awaits::Recovery(compaction));
    }

    /// Continues the work of a turn in another turn, after its conversation was compacted.
    pub(super) fn continue_later(&mut self, turn: Box<Turn>, scene: &mut Scene<'_>) {
        self.overflows += 1;
        let item = QueueItem {
            id: (scene.new_id)(),
            text: CONTINUE.to_owned(),
            images: Vec::new(),
            enqueued_at: scene.now.text(),
        };
        self.queue.push_front(item);
        self.rest(turn, scene);
    }

    /// Sends the event about the end of a turn, and continues with the queue.
    pub(super) fn conclude(&mut self, turn: Box<Turn>, end: &End, scene: &mut Scene<'_>) {
        let (session_id, turn_id) = (&*self.id, &*turn.id);
        match end {
            End::Completed { length } => {
                scene.tell("session.completed", &Completed { session_id, turn_id, answer_length: *length });
            }
            End::Interrupted { partial } => {
                scene.tell("session.interrupted", &Interrupted { session_id, turn_id, partial_output: *partial });
            }
            End::Failed(message) | End::Overflowed(message) => self.tell_failed(&turn, message, scene),
        }
        if !matches!(end, End::Completed { .. }) {
            self.overflows = 0;
        }
        self.rest(turn, scene);
    }

    /// A step panicked. The current work of the session ends here, because no other job will finish it. `turn` is
    /// the turn that ran before the step.
    pub(crate) fn broke(&mut self, turn: Option<String>, scene: &mut Scene<'_>) {
        let why = || "the turn failed unexpectedly".to_owned();
        match (std::mem::replace(&mut self.occupation, Occupation::Idle), turn) {
            (Occupation::Turn(turn), _) => self.conclude(turn, &End::Failed(why()), scene),
            // The step had taken the turn out of the session.
            (Occupation::Idle, Some(id)) => {
                self.conclude(Box::new(Turn::new(id, String::new(), scene.now)), &End::Failed(why()), scene);
            }
            (Occupation::Compaction(_) | Occupation::Idle, _) => {
                self.status(scene, READY, None);
                scene.effects.push(Effect::Report(Err(why())));
                scene.effects.push(Effect::Ended);
                self.drain(scene);
            }
        }
    }

    /// The session is idle for a moment. A pending compaction comes first, then the queue.
    fn rest(&mut self, turn: Box<Turn>, scene: &mut Scene<'_>) {
        self.occupation = Occupation::Idle;
        self.updated_at = scene.now;
        self.status(scene, READY, None);
        scene.effects.push(Effect::Ended);
        let late = std::mem::take(&mut self.steering).len();
        if late > 0 {
            self.note(scene, format!("{late} steer message(s) were queued too late and not applied."));
        }
        match self.compress_next.take() {
            Some(target) => {
                self.label = COMPRESSING.to_owned();
                let about = turn.is_shown.then(|| unfinished(&turn, scene, None));
                self.compact(Standalone::manual(target), about, scene);
            }
            None => self.drain(scene),
        }
    }

    /// Starts the next queued prompt.
    pub(super) fn drain(&mut self, scene: &mut Scene<'_>) {
        if let Some(QueueItem { id, text, images, .. }) = self.queue.pop_front() {
            self.start_turn(id, text, images, scene);
        }
    }

    /// Shows and keeps the prompt and the partial answer. Returns whether there is a partial answer.
    fn keep_partial(&mut self, turn: &mut Turn, scene: &mut Scene<'_>) -> bool {
        let partial = text::trim(&turn.answer).to_owned();
        if !partial.is_empty() {
            turn.end_segment();
            self.append_answer(scene, partial.clone(), std::mem::take(&mut turn.segments));
        }
        self.keep(turn, &partial);
        if !partial.is_empty() {
            self.journal(scene, turn, "assistant_msg", &json!({"text": partial}));
        }
        !partial.is_empty()
    }

    /// Adds a turn to the history.
    fn keep(&mut self, turn: &Turn, answer: &str) {
        let message = |role, text: &str| ChatMessage { role, text: text.to_owned(), images: Vec::new() };
        self.history.push(turn.message());
        for text in &turn.steered {
            self.history.push(message(Role::User, text));
        }
        self.history.push(message(Role::Assistant, answer));
        if let Some(target) = turn.target() {
            self.conversation_provider = Some(target.provider.clone());
        }
    }

    fn save_and_end(&mut self, turn: Box<Turn>, end: End, scene: &mut Scene<'_>) {
        // A turn that was stopped before its model was known cannot be saved.
        let Some(prepared) = turn.prepared.as_ref().filter(|prepared| prepared.unsaved.is_none()) else {
            return self.end_or_recover(turn, end, scene);
        };
        let target = prepared.target.clone();
        match self.chat_file(target, scene) {
            Some(file) => {
                self.wait(turn, Awaits::Saving(end));
                scene.wants(Job::Save(file));
            }
            None => self.end_or_recover(turn, end, scene),
        }
    }

    fn end_or_recover(&mut self, turn: Box<Turn>, end: End, scene: &mut Scene<'_>) {
        match end {
            End::Overflowed(message) => self.recover(turn, &message, scene),
            end => self.conclude(turn, &end, scene),
        }
    }

    /// The current content of the chat.
    pub(super) fn chat_file(&self, target: Target, scene: &Scene<'_>) -> Option<ChatFile> {
        let chat = self.chat.clone()?;
        Some(ChatFile { chat, target, updated_at: scene.now.text(), messages: self.history.messages().to_vec() })
    }
}

/// The prompt that continues a conversation after a compaction.
const CONTINUE: &str =
    "Continue if you have next steps, or stop and ask for clarification if you are unsure how to proceed.";

/// The title of a chat, from its first prompt.
pub(super) fn title_of(turn: &Turn) -> String {
    let image = || {
        let first = turn.images.first()?;
        let name = first.path.rsplit(['/', '\\']).next().unwrap_or(&first.path);
        Some(format!("image: {name}"))
    };
    text::title(&turn.prompt).or_else(image).unwrap_or_else(|| "untitled chat".to_owned())
}

/// Whether an error message says that the conversation is too long for the model.
pub(super) fn is_overflow(message: &str) -> bool {
    const SIGNS: [&str; 12] = [
        "context length",
        "context window",
        "context limit",
        "maximum context",
        "max context",
        "prompt is too long",
        "input is too long",
        "token limit",
        "too many tokens",
        "context overflow",
        "context_length_exceeded",
        "prompt_too_large",
    ];
    let message = message.to_lowercase();
    SIGNS.iter().any(|sign| message.contains(sign))
}

/// The description of an unfinished turn, for the summary.
fn unfinished(turn: &Turn, scene: &Scene<'_>, overflow: Option<&str>) -> Said {
    let mut text = format!(
        "The last turn was not finished.\nturn: {}\nstopped at: {}\nactive prompt: {}",
        turn.id,
        scene.now.text(),
        turn.prompt
    );
    let draft = text::trim(&turn.answer);
    if !draft.is_empty() {
        text.push_str("\ndraft of the answer so far:\n");
        text.push_str(draft);
    }
    if let Some(message) = overflow {
        text.push_str("\nthe conversation was too long for the model: ");
        text.push_str(message);
    }
    Said::User { text, images: Vec::new() }
}
