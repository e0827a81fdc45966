//! What clients ask of a session.

use gladhand_core::operations::{Failure, FailureKind};

use super::compaction::Standalone;
use super::scene::{Effect, Job, Scene, Target};
use super::state::{Occupation, Session};
use super::turn::{Stop, Turn};
use crate::payloads::{PendingImage, QueueItem, Status};
use crate::text;

/// Prompts that may wait.
const QUEUED: usize = 256;
/// How much they may be together, in bytes.
const QUEUED_BYTES: usize = 64 * 1024 * 1024;
/// Texts that may wait to be said into a turn.
const STEERING: usize = 256;
/// How much they may be together, in bytes.
const STEERING_BYTES: usize = 16 * 1024 * 1024;

/// What is said.
#[derive(Debug, Clone, Default)]
pub(crate) struct Prompt {
    /// In words.
    pub(crate) text: String,
    /// In pictures.
    pub(crate) images: Vec<PendingImage>,
    /// Whether it may wait.
    pub(crate) enqueue: bool,
}

/// What became of a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sent {
    /// Its turn.
    pub(crate) turn_id: String,
    /// Whether it waits.
    pub(crate) queued: bool,
}

impl Session {
    /// Somebody says something.
    pub(crate) fn send(&mut self, prompt: Prompt, scene: &mut Scene<'_>) -> Result<Sent, Failure> {
        let Prompt { text, images, enqueue } = prompt;
        let text = text::trim(&text).to_owned();
        if text.is_empty() && images.is_empty() {
            return Err(refused("session.send requires non-empty text or at least one image"));
        }
        if !self.is_busy() {
            let turn_id = (scene.new_id)();
            self.start_turn(turn_id.clone(), text, images, scene);
            return Ok(Sent { turn_id, queued: false });
        }
        if !enqueue {
            return Err(refused("session is busy; use enqueue=true to queue the prompt"));
        }
        let item = QueueItem { id: (scene.new_id)(), text, images, enqueued_at: scene.now.text() };
        let bytes: usize = self.queue.iter().chain([&item]).map(weight).sum();
        if self.queue.len() >= QUEUED || bytes > QUEUED_BYTES {
            return Err(Failure::new(FailureKind::Busy, "the queue of the session is full"));
        }
        let turn_id = item.id.clone();
        self.queue.push_back(item);
        self.updated_at = scene.now;
        let label = format!("queued ({})", self.queue.len());
        let queued = Status { session_id: &self.id, pending: true, status_label: &label, turn_id: None };
        scene.tell("session.status", &queued);
        Ok(Sent { turn_id, queued: true })
    }

    /// Somebody says something into the running turn. Whether there is one.
    pub(crate) fn steer(&mut self, text: &str) -> bool {
        let waiting: usize = self.steering.iter().map(String::len).sum();
        let has_room = self.steering.len() < STEERING && waiting + text.len() <= STEERING_BYTES;
        let accepted = self.has_turn() && has_room;
        if accepted {
            self.steering.push(text::trim(text).to_owned());
        }
        accepted
    }

    /// Somebody wants the running turn to stop. Whether it will.
    pub(crate) fn interrupt(&mut self, scene: &mut Scene<'_>) -> bool {
        let stops = matches!(&self.occupation, Occupation::Turn(turn) if turn.stop.is_none() && !turn.is_over());
        if stops {
            self.status(scene, "interrupting...", None);
            self.stop(Stop { noted: true, kept: true }, scene);
        }
        stops
    }

    /// Forgets what waits. How much that was.
    pub(crate) fn clear_queue(&mut self, scene: &Scene<'_>) -> usize {
        self.updated_at = scene.now;
        std::mem::take(&mut self.queue).len()
    }

    /// Forgets everything said, and stops what runs: nothing of it is kept. Whether something runs that has to end first.
    pub(crate) fn clear(&mut self, scene: &mut Scene<'_>) -> bool {
        self.messages.clear();
        self.history = Default::default();
        self.steering.clear();
        self.chat = None;
        self.conversation_provider = None;
        self.overflows = 0;
        self.updated_at = scene.now;
        if self.interruptible() {
            self.status(scene, "interrupting...", None);
        }
        self.stop(Stop { noted: false, kept: false }, scene);
        self.is_busy()
    }

    /// Everything ends: nothing waits any more, and what runs is stopped.
    pub(crate) fn shut(&mut self, scene: &mut Scene<'_>) {
        self.queue.clear();
        self.steering.clear();
        self.stop(Stop { noted: false, kept: true }, scene);
    }

    /// Has the conversation compacted, by this model: now, or when the running turn has been stopped. Ends in
    /// [`Effect::Report`].
    pub(crate) fn compress(&mut self, target: Target, scene: &mut Scene<'_>) -> Result<(), Failure> {
        match &self.occupation {
            Occupation::Compaction(_) => Err(refused("the conversation is being compressed already")),
            Occupation::Turn(_) if self.compress_next.is_some() => {
                Err(refused("the conversation is being compressed already"))
            }
            Occupation::Turn(_) => {
                self.status(scene, COMPRESSING, None);
                self.compress_next = Some(target);
                self.stop(Stop { noted: false, kept: true }, scene);
                Ok(())
            }
            Occupation::Idle => {
                self.status(scene, COMPRESSING, None);
                self.compact(Standalone::manual(target), None, scene);
                Ok(())
            }
        }
    }

    /// Has the conversation compacted for a model that is about to be chosen. Ends in [`Effect::Report`].
    pub(crate) fn compress_for(&mut self, target: Target, scene: &mut Scene<'_>) -> Result<(), Failure> {
        if self.is_busy() {
            return Err(refused("session is busy; interrupt it before its context is compressed"));
        }
        let switched = self.conversation_provider.as_deref().is_some_and(|before| before != target.provider);
        let reason = if switched { "provider_switch" } else { "auto" };
        self.compact(Standalone::quiet(reason, target), None, scene);
        Ok(())
    }

    pub(super) fn start_turn(&mut self, id: String, text: String, images: Vec<PendingImage>, scene: &mut Scene<'_>) {
        self.steering.clear();
        self.updated_at = scene.now;
        self.status(scene, "preparing...", Some(&id));
        self.occupation = Occupation::Turn(Box::new(Turn::new(id, text.clone(), scene.now)));
        scene.wants(Job::Prepare { text, images });
    }

    /// Whether a turn runs that nobody has stopped yet.
    fn interruptible(&self) -> bool {
        matches!(&self.occupation, Occupation::Turn(turn) if turn.stop.is_none() && !turn.is_over())
    }

    /// Stops what runs, if it can still be stopped. Of two wishes the stronger one counts.
    fn stop(&mut self, wish: Stop, scene: &mut Scene<'_>) {
        match &mut self.occupation {
            Occupation::Idle => {}
            Occupation::Compaction(running) => {
                // Without the conversation its summary is worth nothing.
                if !wish.kept {
                    running.discarded = true;
                    scene.effects.push(Effect::Cancel);
                }
            }
            Occupation::Turn(turn) if turn.is_over() => {}
            Occupation::Turn(turn) => {
                let before = turn.stop.unwrap_or(wish);
                turn.stop = Some(Stop { noted: before.noted && wish.noted, kept: before.kept && wish.kept });
                scene.effects.push(Effect::Cancel);
                self.stop_asking(scene);
            }
        }
    }
}

/// The label while a conversation is put into few words.
pub(super) const COMPRESSING: &str = "compressing context...";

fn refused(message: &str) -> Failure {
    Failure::new(FailureKind::Internal, message)
}

fn weight(item: &QueueItem) -> usize {
    let image = |image: &PendingImage| image.path.len() + image.data_url.as_ref().map_or(0, String::len);
    item.text.len() + item.images.iter().map(image).sum::<usize>()
}
