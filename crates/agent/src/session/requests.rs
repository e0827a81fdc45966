//! The requests of clients to a session.

use gladhand_core::operations::{Failure, FailureKind};

use super::compaction::Standalone;
use super::state::{Activity, Session};
use super::step::{Effect, Job, StepContext, Target};
use super::turn::{Stop, Turn};
use crate::payloads::{PendingImage, QueueItem, Status};
use crate::text;

/// The maximum number of queued prompts.
const QUEUED: usize = 256;
/// The maximum total size of queued prompts in bytes.
const QUEUED_BYTES: usize = 64 * 1024 * 1024;
/// The maximum number of pending steering messages.
const STEERING: usize = 256;
/// The maximum total size of pending steering messages in bytes.
const STEERING_BYTES: usize = 16 * 1024 * 1024;

/// A prompt from a client.
#[derive(Debug, Clone, Default)]
pub(crate) struct Prompt {
    /// The text.
    pub(crate) text: String,
    /// The images.
    pub(crate) images: Vec<PendingImage>,
    /// Whether the prompt may be queued.
    pub(crate) enqueue: bool,
}

/// The result of sending a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sent {
    /// The id of its turn.
    pub(crate) turn_id: String,
    /// Whether it was queued.
    pub(crate) queued: bool,
}

impl Session {
    /// Handles a new prompt.
    pub(crate) fn send(&mut self, prompt: Prompt, context: &mut StepContext<'_>) -> Result<Sent, Failure> {
        let Prompt { text, images, enqueue } = prompt;
        let text = text::trim(&text).to_owned();
        if text.is_empty() && images.is_empty() {
            return Err(refused("session.send requires non-empty text or at least one image"));
        }
        if !self.is_busy() {
            let turn_id = (context.new_id)();
            self.start_turn(turn_id.clone(), text, images, context);
            return Ok(Sent { turn_id, queued: false });
        }
        if !enqueue {
            return Err(refused("session is busy; use enqueue=true to queue the prompt"));
        }
        let item = QueueItem { id: (context.new_id)(), text, images, enqueued_at: context.now.text() };
        let bytes: usize = self.queue.iter().chain([&item]).map(weight).sum();
        if self.queue.len() >= QUEUED || bytes > QUEUED_BYTES {
            return Err(Failure::new(FailureKind::Busy, "the queue of the session is full"));
        }
        let turn_id = item.id.clone();
        self.queue.push_back(item);
        self.updated_at = context.now;
        let label = format!("queued ({})", self.queue.len());
        let queued = Status { session_id: &self.id, pending: true, status_label: &label, turn_id: None };
        context.emit("session.status", &queued);
        Ok(Sent { turn_id, queued: true })
    }

    /// Adds a steering message to the running turn. Returns whether it was accepted.
    pub(crate) fn steer(&mut self, text: &str) -> bool {
        let waiting: usize = self.steering.iter().map(String::len).sum();
        let has_room = self.steering.len() < STEERING && waiting + text.len() <= STEERING_BYTES;
        let accepted = self.has_turn() && has_room;
        if accepted {
            self.steering.push(text::trim(text).to_owned());
        }
        accepted
    }

    /// Interrupts the running turn. Returns whether it will stop.
    pub(crate) fn interrupt(&mut self, context: &mut StepContext<'_>) -> bool {
        let stops = matches!(&self.activity, Activity::Turn(turn) if turn.stop.is_none() && !turn.is_over());
        if stops {
            self.status(context, "interrupting...", None);
            self.stop(Stop { noted: true, kept: true }, context);
        }
        stops
    }

    /// Clears the queue. Returns how many prompts were removed.
    pub(crate) fn clear_queue(&mut self, context: &StepContext<'_>) -> usize {
        self.updated_at = context.now;
        std::mem::take(&mut self.queue).len()
    }

    /// Clears the conversation, and stops a running turn without keeping any of it. Returns whether something still
    /// runs and must end first.
    pub(crate) fn clear(&mut self, context: &mut StepContext<'_>) -> bool {
        self.messages.clear();
        self.history = Default::default();
        self.steering.clear();
        self.chat = None;
        self.conversation_provider = None;
        self.overflows = 0;
        self.updated_at = context.now;
        if self.interruptible() {
            self.status(context, "interrupting...", None);
        }
        self.stop(Stop { noted: false, kept: false }, context);
        self.is_busy()
    }

    /// Clears the queue and stops the running turn, because the agent shuts down.
    pub(crate) fn shut_down(&mut self, context: &mut StepContext<'_>) {
        self.queue.clear();
        self.steering.clear();
        self.stop(Stop { noted: false, kept: true }, context);
    }

    /// Compacts the conversation with this model: now, or after the running turn was stopped. Ends in
    /// [`Effect::Report`].
    pub(crate) fn compress(&mut self, target: Target, context: &mut StepContext<'_>) -> Result<(), Failure> {
        match &self.activity {
            Activity::Compaction(_) => Err(refused("the conversation is being compressed already")),
            Activity::Turn(_) if self.compress_next.is_some() => {
                Err(refused("the conversation is being compressed already"))
            }
            Activity::Turn(_) => {
                self.status(context, COMPRESSING, None);
                self.compress_next = Some(target);
                self.stop(Stop { noted: false, kept: true }, context);
                Ok(())
            }
            Activity::Idle => {
                self.status(context, COMPRESSING, None);
                self.compact(Standalone::manual(target), None, context);
                Ok(())
            }
        }
    }

    /// Compacts the conversation for a model that is about to be selected. Ends in [`Effect::Report`].
    pub(crate) fn compress_for(&mut self, target: Target, context: &mut StepContext<'_>) -> Result<(), Failure> {
        if self.is_busy() {
            return Err(refused("session is busy; interrupt it before its context is compressed"));
        }
        let switched = self.conversation_provider.as_deref().is_some_and(|before| before != target.provider);
        let reason = if switched { "provider_switch" } else { "auto" };
        self.compact(Standalone::quiet(reason, target), None, context);
        Ok(())
    }

    pub(super) fn start_turn(
        &mut self,
        id: String,
        text: String,
        images: Vec<PendingImage>,
        context: &mut StepContext<'_>,
    ) {
        self.steering.clear();
        self.updated_at = context.now;
        self.status(context, "preparing...", Some(&id));
        self.activity = Activity::Turn(Box::new(Turn::new(id, text.clone(), context.now)));
        context.request_job(Job::Prepare { text, images });
    }

    /// Whether a turn runs that was not stopped yet.
    fn interruptible(&self) -> bool {
        matches!(&self.activity, Activity::Turn(turn) if turn.stop.is_none() && !turn.is_over())
    }

    /// Stops the running work, if it can still be stopped. Of two requests the stricter one counts.
    fn stop(&mut self, wish: Stop, context: &mut StepContext<'_>) {
        match &mut self.activity {
            Activity::Idle => {}
            Activity::Compaction(running) => {
                // Without the conversation, its summary is useless.
                if !wish.kept {
                    running.discarded = true;
                    context.effects.push(Effect::Cancel);
                }
            }
            Activity::Turn(turn) if turn.is_over() => {}
            Activity::Turn(turn) => {
                let before = turn.stop.unwrap_or(wish);
                turn.stop = Some(Stop { noted: before.noted && wish.noted, kept: before.kept && wish.kept });
                context.effects.push(Effect::Cancel);
                self.stop_asking(context);
            }
        }
    }
}

/// The status label during a compaction.
pub(super) const COMPRESSING: &str = "compressing context...";

fn refused(message: &str) -> Failure {
    Failure::new(FailureKind::Internal, message)
}

fn weight(item: &QueueItem) -> usize {
    let image = |image: &PendingImage| image.path.len() + image.data_url.as_ref().map_or(0, String::len);
    item.text.len() + item.images.iter().map(image).sum::<usize>()
}
