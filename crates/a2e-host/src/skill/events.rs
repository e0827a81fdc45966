//! The events of a running skill.

use std::sync::{Arc, Mutex};

use gladhand_core::operations::CapabilityEvent;
use gladhand_core::sync::Unpoisoned as _;
use gladhand_core::wire::{Id, json};
use gladhand_hub::Caller;
use serde_json::{Value, json};

/// Sends events to the client that called a skill.
#[derive(Debug)]
pub(super) struct SkillEvents {
    caller: Arc<dyn Caller>,
    request: Option<Id>,
    skill: String,
    /// Whether the client also wants the events between start and end.
    streams: bool,
    events: Mutex<u64>,
}

impl SkillEvents {
    /// Sends events to a caller, in response to its request.
    pub(super) fn to(caller: Arc<dyn Caller>, request: Option<Id>, skill: String, streams: bool) -> Self {
        Self { caller, request, skill, streams, events: Mutex::new(0) }
    }

    /// The name of the skill, as the client wrote it.
    pub(super) fn skill(&self) -> &str {
        &self.skill
    }

    /// Sends an event.
    pub(super) fn tell(&self, kind: &str, mut data: Value) {
        data["skill"] = json!(self.skill);
        data["ts"] = json!(crate::now());
        let mut events = self.events.lock().unpoisoned();
        let fields = json::to_raw(&json!({"kind": kind, "data": data, "seq": *events}));
        *events += 1;
        self.caller.push(CapabilityEvent { kind: "skill/event", request: self.request.clone(), fields });
    }

    /// Sends an intermediate event if the client wants such, and waits while the client is behind with reading.
    pub(super) async fn stream(&self, kind: &str, data: Value) {
        if self.streams {
            self.tell(kind, data);
            match self.caller.keeping_up() {
                Some(behind) => behind.await,
                // Let other tasks run.
                None => tokio::task::coop::consume_budget().await,
            }
        }
    }
}
