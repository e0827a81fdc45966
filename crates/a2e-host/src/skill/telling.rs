//! What is told while a skill is carried out.

use std::sync::{Arc, Mutex, PoisonError};

use gladhand_core::operations::CapabilityEvent;
use gladhand_core::wire::{Id, json};
use gladhand_hub::Caller;
use serde_json::{Value, json};

/// Tells whoever called a skill.
#[derive(Debug)]
pub(super) struct Telling {
    caller: Arc<dyn Caller>,
    request: Option<Id>,
    skill: String,
    /// Whether it is told also what happens between the beginning and the end.
    streams: bool,
    events: Mutex<u64>,
}

impl Telling {
    /// Tells a caller, in answer to its request, of a skill.
    pub(super) fn to(caller: Arc<dyn Caller>, request: Option<Id>, skill: String, streams: bool) -> Self {
        Self { caller, request, skill, streams, events: Mutex::new(0) }
    }

    /// The skill, as it was called.
    pub(super) fn skill(&self) -> &str {
        &self.skill
    }

    /// Tells how the skill stands.
    pub(super) fn tell(&self, kind: &str, mut data: Value) {
        data["skill"] = json!(self.skill);
        data["ts"] = json!(crate::now());
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        let fields = json::to_raw(&json!({"kind": kind, "data": data, "seq": *events}));
        *events += 1;
        self.caller.push(CapabilityEvent { kind: "skill/event", request: self.request.clone(), fields });
    }

    /// Tells something that comes of the skill, to who wants to hear such; then waits for the caller to keep up.
    pub(super) async fn stream(&self, kind: &str, data: Value) {
        if self.streams {
            self.tell(kind, data);
            match self.caller.keeping_up() {
                Some(behind) => behind.await,
                // Others have work to do, too.
                None => tokio::task::coop::consume_budget().await,
            }
        }
    }
}
