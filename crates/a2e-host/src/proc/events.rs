//! The events of a process: its output, then its end, with increasing sequence numbers.

use std::sync::{Arc, Mutex};

use gladhand_core::operations::CapabilityEvent;
use gladhand_core::sync::Unpoisoned as _;
use gladhand_core::wire::{Id, json};
use gladhand_hub::Caller;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// One of the two output streams of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stream {
    Stdout,
    Stderr,
}

/// Sends events to the client that started a process.
#[derive(Debug)]
pub(super) struct ProcessEvents {
    caller: Arc<dyn Caller>,
    request: Option<Id>,
    process: String,
    max_bytes: u64,
    counts: Mutex<EventCounts>,
    output_limit_exceeded: CancellationToken,
}

#[derive(Debug, Default)]
struct EventCounts {
    events: u64,
    bytes: u64,
}

impl ProcessEvents {
    /// Sends events to a caller, in response to its request. `max_bytes` is the output limit in bytes.
    pub(super) fn to(caller: Arc<dyn Caller>, request: Option<Id>, process: String, max_bytes: u64) -> Self {
        let (counts, output_limit_exceeded) = (Mutex::default(), CancellationToken::new());
        Self { caller, request, process, max_bytes, counts, output_limit_exceeded }
    }

    /// The id of the process.
    pub(super) fn process(&self) -> &str {
        &self.process
    }

    /// Sends a piece of output. Returns false once the output limit is exceeded.
    pub(super) fn output(&self, stream: Stream, text: &str) -> bool {
        let mut counts = self.counts.lock().unpoisoned();
        if self.output_limit_exceeded.is_cancelled() {
            return false;
        }
        counts.bytes += text.len() as u64;
        if counts.bytes > self.max_bytes {
            let message = format!("more than {} bytes of output; the process is ended", self.max_bytes);
            self.push(&mut counts, "log", stream, &json!({"level": "error", "message": message}));
            self.output_limit_exceeded.cancel();
            return false;
        }
        self.push(&mut counts, "status", stream, &json!({"text": text}));
        true
    }

    /// Sends the end event.
    pub(super) fn end(&self, code: Option<i32>) {
        let mut counts = self.counts.lock().unpoisoned();
        let stream = if code == Some(0) { Stream::Stdout } else { Stream::Stderr };
        // The client waits for this event, so send it even if the exit code is unknown.
        self.push(&mut counts, "status", stream, &json!({"code": code.unwrap_or(-1)}));
    }

    /// Waits until the output limit is exceeded.
    pub(super) async fn output_limit_exceeded(&self) {
        self.output_limit_exceeded.cancelled().await;
    }

    /// Waits until the client has read enough of the events.
    pub(super) async fn keeping_up(&self) {
        match self.caller.keeping_up() {
            Some(behind) => behind.await,
            // Let other tasks run.
            None => tokio::task::coop::consume_budget().await,
        }
    }

    /// The caller holds the lock, so that events are sent in the order of their numbers.
    fn push(&self, counts: &mut EventCounts, kind: &str, stream: Stream, data: &Value) {
        let stream = match stream {
            Stream::Stdout => "stdout",
            Stream::Stderr => "stderr",
        };
        let fields = json::to_raw(&json!({
            "kind": kind,
            "data": data,
            "seq": counts.events,
            "proc_id": self.process,
            "stream_type": stream,
        }));
        counts.events += 1;
        self.caller.push(CapabilityEvent { kind: "proc/read/event", request: self.request.clone(), fields });
    }
}
