//! The calls of the hub that a console keeps: who called what, which rule decided, who answered, and how long it took.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use gladhand_core::operations::{CallId, Operation};
use gladhand_core::sync::Unpoisoned as _;
use gladhand_hub::{CallObserver, CallOrigin, EndedCall, ObservedCall};
use gladhand_session::tap::TappedSession;
use serde_json::{Value, json};

use super::events::ConsoleEvents;
use crate::commands::shared::recordings::rounded;
use crate::recorder::{Masks, tap_queue};

/// Number of calls that are kept.
const MAX_CALLS: usize = 2000;

/// The newest calls.
#[derive(Debug)]
pub(super) struct Calls {
    /// The time from which milliseconds count.
    started: Instant,
    events: Arc<ConsoleEvents>,
    masks: Arc<Masks>,
    kept: Mutex<VecDeque<KeptCall>>,
    /// The number of the next call. Ids of the hub are unique within a session only.
    next: AtomicU64,
}

/// A call.
#[derive(Debug, Clone)]
pub(super) struct KeptCall {
    number: u64,
    call: CallId,
    begun: Instant,
    /// The id of its session.
    pub(super) session: String,
    pub(super) name: String,
    pub(super) begun_ms: f64,
    pub(super) ended_ms: Option<f64>,
    /// The upstream and its own name for the target.
    pub(super) target: Option<(String, String)>,
    /// The call as the page shows it.
    shown: Value,
}

impl Calls {
    /// Keeps no call so far.
    pub(super) fn new(started: Instant, events: Arc<ConsoleEvents>, masks: Arc<Masks>) -> Self {
        Self { started, events, masks, kept: Mutex::default(), next: AtomicU64::new(1) }
    }

    /// The newest calls, the oldest first.
    pub(super) fn all(&self) -> Vec<Value> {
        self.kept.lock().unpoisoned().iter().map(KeptCall::to_json).collect()
    }

    /// A call by its number.
    pub(super) fn find(&self, number: u64) -> Option<KeptCall> {
        self.kept.lock().unpoisoned().iter().rev().find(|call| call.number == number).cloned()
    }

    fn ms(&self, at: Instant) -> f64 {
        rounded(at.saturating_duration_since(self.started).as_secs_f64() * 1e3)
    }
}

impl KeptCall {
    /// The call as the page shows it.
    pub(super) fn to_json(&self) -> Value {
        self.shown.clone()
    }
}

impl CallObserver for Calls {
    fn observes(&self, operation: &Operation<'_>, _: CallOrigin) -> bool {
        // Lists are requested all the time, and conversations with the agent have their own messages.
        !matches!(
            operation,
            Operation::ListTools
                | Operation::ListResources
                | Operation::ListTemplates
                | Operation::ListPrompts
                | Operation::Agent(_)
        )
    }

    fn begun(&self, call: &ObservedCall) {
        let session = tap_queue::name(TappedSession::Downstream(call.session));
        let text = |text: &str| self.masks.shown(text);
        let begun_ms = self.ms(call.begun);
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let name = text(&call.name);
        let shown = json!({
            "id": number.to_string(),
            "session": session,
            "client": text(&call.client),
            "principal": call.principal.as_deref().map(text),
            "dialect": call.dialect,
            "version": text(&call.dialect_version),
            "kind": call.kind,
            "name": name,
            "stand_in": call.origin == CallOrigin::StandIn,
            "begun_ms": begun_ms,
            "bytes_in": call.bytes_in,
        });
        self.events.push(&json!({"t": "call", "call": shown}));
        let (begun, call) = (call.begun, call.id);
        let kept = KeptCall { number, call, begun, session, name, begun_ms, ended_ms: None, target: None, shown };
        let mut calls = self.kept.lock().unpoisoned();
        if calls.len() == MAX_CALLS {
            calls.pop_front();
        }
        calls.push_back(kept);
    }

    fn ended(&self, ended: &EndedCall<'_>) {
        let call = ended.call;
        let mut calls = self.kept.lock().unpoisoned();
        let is_it = |kept: &&mut KeptCall| (kept.call, kept.begun) == (call.id, call.begun) && kept.ended_ms.is_none();
        let Some(kept) = calls.iter_mut().rev().find(is_it) else { return };
        let ended_ms = self.ms(call.begun + ended.duration);
        kept.ended_ms = Some(ended_ms);
        kept.target = call.target().map(|target| (target.upstream.clone(), target.own.clone()));
        let target = call.target();
        kept.shown["ended_ms"] = ended_ms.into();
        kept.shown["duration_ms"] = ended.duration_ms().into();
        kept.shown["outcome"] = ended.word().into();
        kept.shown["bytes_out"] = ended.bytes_out().into();
        kept.shown["upstream"] = target.map(|target| self.masks.shown(&target.upstream)).into();
        kept.shown["own"] = target.map(|target| self.masks.shown(&target.own)).into();
        kept.shown["rule"] = call.rule().map(|rule| self.masks.shown(rule)).into();
        if let Some(Err(failure)) = ended.outcome {
            kept.shown["failure"] = self.masks.shown(&failure.message).into();
        }
        let event = json!({"t": "call", "call": kept.shown});
        drop(calls);
        self.events.push(&event);
    }
}
