//! What is told of a process: its output, then its end, each event with the next number.

use std::sync::{Arc, Mutex, PoisonError};

use gladhand_core::operations::CapabilityEvent;
use gladhand_core::wire::{Id, json};
use gladhand_hub::Caller;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// One of the two streams of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stream {
    Stdout,
    Stderr,
}

/// Tells whoever had a process started.
#[derive(Debug)]
pub(super) struct Telling {
    caller: Arc<dyn Caller>,
    request: Option<Id>,
    process: String,
    most: u64,
    told: Mutex<Told>,
    is_too_much: CancellationToken,
}

#[derive(Debug, Default)]
struct Told {
    events: u64,
    bytes: u64,
}

impl Telling {
    /// Tells a caller, in answer to its request, of a process that may say so many bytes.
    pub(super) fn to(caller: Arc<dyn Caller>, request: Option<Id>, process: String, most: u64) -> Self {
        let (told, is_too_much) = (Mutex::default(), CancellationToken::new());
        Self { caller, request, process, most, told, is_too_much }
    }

    /// The id of the process.
    pub(super) fn process(&self) -> &str {
        &self.process
    }

    /// Tells a piece of output, unless it was too much already.
    pub(super) fn output(&self, stream: Stream, text: &str) -> bool {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_too_much.is_cancelled() {
            return false;
        }
        told.bytes += text.len() as u64;
        if told.bytes > self.most {
            let message = format!("more than {} bytes of output; the process is ended", self.most);
            self.push(&mut told, "log", stream, &json!({"level": "error", "message": message}));
            self.is_too_much.cancel();
            return false;
        }
        self.push(&mut told, "status", stream, &json!({"text": text}));
        true
    }

    /// Tells the end.
    pub(super) fn end(&self, code: Option<i32>) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let stream = if code == Some(0) { Stream::Stdout } else { Stream::Stderr };
        // Whoever waits for the end has to hear of it, also if nobody knows how it came.
        self.push(&mut told, "status", stream, &json!({"code": code.unwrap_or(-1)}));
    }

    /// Ends when there was more output than there may be.
    pub(super) async fn is_too_much(&self) {
        self.is_too_much.cancelled().await;
    }

    /// Ends when the caller has read enough of what it was told.
    pub(super) async fn keeping_up(&self) {
        match self.caller.keeping_up() {
            Some(behind) => behind.await,
            // Others have work to do, too.
            None => tokio::task::coop::consume_budget().await,
        }
    }

    /// Numbers and order are one: whoever pushes holds the lock.
    fn push(&self, told: &mut Told, kind: &str, stream: Stream, data: &Value) {
        let stream = match stream {
            Stream::Stdout => "stdout",
            Stream::Stderr => "stderr",
        };
        let fields = json::to_raw(&json!({
            "kind": kind,
            "data": data,
            "seq": told.events,
            "proc_id": self.process,
            "stream_type": stream,
        }));
        told.events += 1;
        self.caller.push(CapabilityEvent { kind: "proc/read/event", request: self.request.clone(), fields });
    }
}
