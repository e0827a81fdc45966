//! How turns end (`loaf` §13.3 to §13.6).

use gladhand_models::{HistoryItem, Piece, Segment};
use serde_json::json;

use super::bounds::TurnBound;
use super::compaction::Standalone;
use super::requests::COMPRESSING;
use super::state::{Activity, READY, Session};
use super::step::{ChatFile, Effect, Job, StepContext, Target};
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
    pub(super) fn finish_completed(&mut self, mut turn: Box<Turn>, context: &mut StepContext<'_>) {
        if turn.answer.is_empty() {
            let nothing = Segment::Answer("(No response text returned)".to_owned());
            self.stream(&mut turn, &Piece { segments: vec![nothing], thoughts: Vec::new() }, context);
        }
        let round = &turn.round;
        let data = FinalRound {
            tool_round: round.number,
            thought_count: round.thoughts,
            answer_length: text::length(&round.text),
            duration_ms: context.now.0.saturating_sub(round.began.0),
            answer_preview: text::prefix(&round.text, 400),
        };
        self.debug(context, &turn.id, "response_final", &data);
        let answer = std::mem::take(&mut turn.answer);
        let length = text::length(&answer);
        turn.end_segment();
        let segments = std::mem::take(&mut turn.segments);
        self.append_answer(context, answer.clone(), segments);
        self.keep(&turn, &answer);
        self.journal(context, &turn, "assistant_msg", &json!({"text": answer}));
        self.overflows = 0;
        self.save_and_end(turn, End::Completed { length }, context);
    }

    /// Ends an interrupted turn, and keeps its partial answer.
    pub(super) fn finish_interrupted(&mut self, mut turn: Box<Turn>, context: &mut StepContext<'_>) {
        let stop = turn.stop.expect("the turn was stopped");
        if !stop.kept {
            return self.conclude(turn, &End::Interrupted { partial: false }, context);
        }
        self.show(&mut turn, context);
        let partial = self.keep_partial(&mut turn, context);
        if stop.noted {
            let kept = if partial { " partial output kept." } else { "" };
            self.note(context, format!("response interrupted by user.{kept}"));
        }
        self.save_and_end(turn, End::Interrupted { partial }, context);
    }

    /// Keeps the partial answer of a turn whose conversation was too long for the model.
    pub(super) fn keep_overflowed(&mut self, mut turn: Box<Turn>, message: String, context: &mut StepContext<'_>) {
        self.keep_partial(&mut turn, context);
        self.save_and_end(turn, End::Overflowed(message), context);
    }

    /// Ends a turn at one of its limits, and keeps the answer so far. A later turn can continue from there.
    pub(super) fn end_at_bound(&mut self, mut turn: Box<Turn>, bound: TurnBound, context: &mut StepContext<'_>) {
        self.keep_partial(&mut turn, context);
        let message = bound.to_string();
        self.note(context, &*message);
        self.journal(context, &turn, "error_observed", &json!({"message": message}));
        self.save_and_end(turn, End::Failed(message), context);
    }

    /// The chat was saved, or could not be.
    pub(crate) fn saved(&mut self, saved: Result<(), String>, context: &mut StepContext<'_>) {
        if let Activity::Compaction(_) = self.activity {
            return self.standalone_saved(saved, context);
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
                    self.note(context, format!("chat history save failed{when}: {why}"));
                }
                self.end_or_recover(turn, end, context);
            }
            Awaits::Summary(compaction) => self.summary_saved(turn, &compaction, saved, context),
            Awaits::Recovery(compaction) => self.recovery_saved(turn, &compaction, saved, context),
            _ => {}
        }
    }

    /// Compacts a conversation that became too long, and then continues it.
    fn recover(&mut self, turn: Box<Turn>, message: &str, context: &mut StepContext<'_>) {
        let Some(target) = turn.target().cloned() else { return };
        self.journal(context, &turn, "error_observed", &json!({"message": message}));
        if turn.stop.is_some() {
            return self.conclude(turn, &End::Interrupted { partial: false }, context);
        }
        self.status(context, COMPRESSING, Some(&turn.id));
        let about = unfinished(&turn, context, Some(message));
        let mut compaction = self.start_compaction("auto", Some(&turn.id), target, Some(about), context);
        compaction.overflow = Some(message.to_owned());
        self.wait(turn, Awaits::Recovery(compaction));
    }

    /// Continues the work of a turn in another turn, after its conversation was compacted.
    pub(super) fn continue_later(&mut self, turn: Box<Turn>, context: &mut StepContext<'_>) {
        self.overflows += 1;
        let item = QueueItem {
            id: (context.new_id)(),
            text: CONTINUE.to_owned(),
            images: Vec::new(),
            enqueued_at: context.now.text(),
        };
        self.queue.push_front(item);
        self.become_idle(turn, context);
    }

    /// Sends the event about the end of a turn, and continues with the queue.
    pub(super) fn conclude(&mut self, turn: Box<Turn>, end: &End, context: &mut StepContext<'_>) {
        let (session_id, turn_id) = (&*self.id, &*turn.id);
        match end {
            End::Completed { length } => {
                context.emit("session.completed", &Completed { session_id, turn_id, answer_length: *length });
            }
            End::Interrupted { partial } => {
                context.emit("session.interrupted", &Interrupted { session_id, turn_id, partial_output: *partial });
            }
            End::Failed(message) | End::Overflowed(message) => self.emit_failed(&turn, message, context),
        }
        if !matches!(end, End::Completed { .. }) {
            self.overflows = 0;
        }
        self.become_idle(turn, context);
    }

    /// A step panicked. The current work of the session ends here, because no other job will finish it. `turn` is
    /// the turn that ran before the step.
    pub(crate) fn step_panicked(&mut self, turn: Option<String>, context: &mut StepContext<'_>) {
        let why = || "the turn failed unexpectedly".to_owned();
        match (std::mem::replace(&mut self.activity, Activity::Idle), turn) {
            (Activity::Turn(turn), _) => self.conclude(turn, &End::Failed(why()), context),
            // The step had taken the turn out of the session.
            (Activity::Idle, Some(id)) => {
                self.conclude(Box::new(Turn::new(id, String::new(), context.now)), &End::Failed(why()), context);
            }
            (Activity::Compaction(_) | Activity::Idle, _) => {
                self.status(context, READY, None);
                context.effects.push(Effect::Report(Err(why())));
                context.effects.push(Effect::Ended);
                self.drain(context);
            }
        }
    }

    /// The session is idle for a moment. A pending compaction comes first, then the queue.
    fn become_idle(&mut self, turn: Box<Turn>, context: &mut StepContext<'_>) {
        self.activity = Activity::Idle;
        self.updated_at = context.now;
        self.status(context, READY, None);
        context.effects.push(Effect::Ended);
        let late = std::mem::take(&mut self.steering).len();
        if late > 0 {
            self.note(context, format!("{late} steer message(s) were queued too late and not applied."));
        }
        match self.compress_next.take() {
            Some(target) => {
                self.label = COMPRESSING.to_owned();
                let about = turn.is_shown.then(|| unfinished(&turn, context, None));
                self.compact(Standalone::manual(target), about, context);
            }
            None => self.drain(context),
        }
    }

    /// Starts the next queued prompt.
    pub(super) fn drain(&mut self, context: &mut StepContext<'_>) {
        if let Some(QueueItem { id, text, images, .. }) = self.queue.pop_front() {
            self.start_turn(id, text, images, context);
        }
    }

    /// Shows and keeps the prompt and the partial answer. Returns whether there is a partial answer.
    fn keep_partial(&mut self, turn: &mut Turn, context: &mut StepContext<'_>) -> bool {
        let partial = text::trim(&turn.answer).to_owned();
        if !partial.is_empty() {
            turn.end_segment();
            self.append_answer(context, partial.clone(), std::mem::take(&mut turn.segments));
        }
        self.keep(turn, &partial);
        if !partial.is_empty() {
            self.journal(context, turn, "assistant_msg", &json!({"text": partial}));
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

    fn save_and_end(&mut self, turn: Box<Turn>, end: End, context: &mut StepContext<'_>) {
        // A turn that was stopped before its model was known cannot be saved.
        let Some(prepared) = turn.prepared.as_ref().filter(|prepared| prepared.unsaved.is_none()) else {
            return self.end_or_recover(turn, end, context);
        };
        let target = prepared.target.clone();
        match self.chat_file(target, context) {
            Some(file) => {
                self.wait(turn, Awaits::Saving(end));
                context.request_job(Job::Save(file));
            }
            None => self.end_or_recover(turn, end, context),
        }
    }

    fn end_or_recover(&mut self, turn: Box<Turn>, end: End, context: &mut StepContext<'_>) {
        match end {
            End::Overflowed(message) => self.recover(turn, &message, context),
            end => self.conclude(turn, &end, context),
        }
    }

    /// The current content of the chat.
    pub(super) fn chat_file(&self, target: Target, context: &StepContext<'_>) -> Option<ChatFile> {
        let chat = self.chat.clone()?;
        Some(ChatFile { chat, target, updated_at: context.now.text(), messages: self.history.messages().to_vec() })
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
fn unfinished(turn: &Turn, context: &StepContext<'_>, overflow: Option<&str>) -> HistoryItem {
    let mut text = format!(
        "The last turn was not finished.\nturn: {}\nstopped at: {}\nactive prompt: {}",
        turn.id,
        context.now.text(),
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
    HistoryItem::User { text, images: Vec::new() }
}
