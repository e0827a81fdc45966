//! Runs rounds on a dedicated thread, and passes the pieces of the answer to the listener.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use async_trait::async_trait;
use gladhand_core::sync::Unpoisoned as _;
use gladhand_core::wire::json::to_raw;
use gladhand_models::{Listener, ModelError, ModelOption, Models, Piece, Round, RoundResult, Segment};
use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::decoder::{CONTEXT, Decoder, TextSink};
use crate::engine::Engine;
use crate::model_file::name_of;

/// How many rounds can wait for the thread, and how many pieces for a slow listener.
const QUEUE: usize = 16;

/// One model in one file. It is loaded in the first round.
#[derive(Debug)]
pub struct LocalModel {
    path: PathBuf,
    name: String,
    load: fn(&Path) -> Result<Engine, String>,
    /// The queue of the thread, once it is running.
    queue: Mutex<Option<mpsc::Sender<Job>>>,
}

/// A round, and the channel for its answer.
struct Job {
    round: Round,
    events: mpsc::Sender<RoundEvent>,
    stop: CancellationToken,
}

/// A message of the thread about a round.
enum RoundEvent {
    Piece(String),
    End(Result<RoundResult, ModelError>),
}

impl LocalModel {
    /// Creates a model for this file. `load` loads it.
    pub fn new(path: &Path, load: fn(&Path) -> Result<Engine, String>) -> Self {
        Self { path: path.to_owned(), name: name_of(path), load, queue: Mutex::default() }
    }

    /// The queue of the thread. The thread is started on first use, and again if it has died.
    fn queue(&self) -> Result<mpsc::Sender<Job>, ModelError> {
        let mut queue = self.queue.lock().unpoisoned();
        if let Some(open) = queue.as_ref().filter(|open| !open.is_closed()) {
            return Ok(open.clone());
        }
        let (sender, jobs) = mpsc::channel(QUEUE);
        let (path, load) = (self.path.clone(), self.load);
        std::thread::Builder::new()
            .name("local-model".to_owned())
            .spawn(move || work(&path, load, jobs))
            .map_err(|why| ModelError::Failed(format!("could not start a thread for the local model: {why}")))?;
        *queue = Some(sender.clone());
        Ok(sender)
    }
}

#[async_trait]
impl Models for LocalModel {
    fn provider(&self) -> &str {
        "local"
    }

    async fn catalogue(&self) -> Result<Vec<ModelOption>, ModelError> {
        Ok(vec![ModelOption {
            id: self.name.clone(),
            provider: self.provider().to_owned(),
            label: format!("{} (local)", self.name),
            description: "Runs inside Gladhand, without network or key. Small: for short, simple requests.".to_owned(),
            supported_thinking_levels: None,
            default_thinking_level: None,
            routing_providers: None,
            context_window_tokens: Some(CONTEXT as u64),
        }])
    }

    async fn round(
        &self,
        round: &Round,
        listener: &mut (dyn Listener + '_),
        cancel: &CancellationToken,
    ) -> Result<RoundResult, ModelError> {
        let (events, mut received) = mpsc::channel(QUEUE);
        // If the caller drops this future, the thread must stop too.
        let stop = cancel.child_token();
        let _stops = stop.clone().drop_guard();
        if listener.wants_debug() {
            let tools: Vec<&str> = round.tools.iter().map(|tool| tool.name.as_str()).collect();
            let asked = json!({"model": self.name, "messages": round.history.len(), "tools": tools});
            listener.debug("request", to_raw(&asked)).await;
        }
        let queue = self.queue()?;
        let job = Job { round: round.clone(), events, stop };
        tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(ModelError::Cancelled),
            sent = queue.send(job) => sent.map_err(|_| died())?,
        }
        loop {
            let event = tokio::select! {
                biased;
                () = cancel.cancelled() => return Err(ModelError::Cancelled),
                event = received.recv() => event,
            };
            match event {
                Some(RoundEvent::Piece(text)) => {
                    listener.piece(Piece { segments: vec![Segment::Answer(text)], thoughts: Vec::new() }).await;
                }
                Some(RoundEvent::End(end)) => return end,
                None => return Err(died()),
            }
        }
    }
}

fn died() -> ModelError {
    ModelError::Failed("the local model stopped in the middle of its work".to_owned())
}

/// The thread: answers jobs in order until all senders are gone.
fn work(path: &Path, load: fn(&Path) -> Result<Engine, String>, mut jobs: mpsc::Receiver<Job>) {
    let mut loaded: Option<Decoder> = None;
    while let Some(Job { round, events, stop }) = jobs.blocking_recv() {
        if stop.is_cancelled() {
            continue;
        }
        let decoder = match &mut loaded {
            Some(decoder) => Ok(decoder),
            // A failed load is retried in the next round, because the file may exist by then.
            None => load(path).map(|engine| loaded.insert(Decoder::new(engine))),
        };
        let mut sink = Channel { events, stop };
        let end = match decoder {
            Ok(decoder) => decoder.answer(&round, &mut sink),
            Err(why) => Err(ModelError::Failed(format!("could not load the local model {}: {why}", path.display()))),
        };
        // If the round was cancelled, the receiver is gone and the error can be ignored.
        let _ = sink.events.blocking_send(RoundEvent::End(end));
    }
}

struct Channel {
    events: mpsc::Sender<RoundEvent>,
    stop: CancellationToken,
}

impl TextSink for Channel {
    fn push(&mut self, text: String) {
        // Sending fails only if the receiver is gone. The next check for cancellation detects that.
        let _ = self.events.blocking_send(RoundEvent::Piece(text));
    }

    fn is_open(&self) -> bool {
        !self.stop.is_cancelled() && !self.events.is_closed()
    }
}

#[cfg(test)]
mod tests;
