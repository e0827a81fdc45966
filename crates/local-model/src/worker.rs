//! The model as the agent knows it: rounds go to a thread of its own, and pieces come back.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use gladhand_core::wire::json::to_raw;
use gladhand_models::{Heard, Listener, ModelError, ModelOption, Models, Piece, Round, Segment};
use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::engine::Engine;
use crate::place::name_of;
use crate::speaker::{CONTEXT, Hearer, Speaker};

/// How many rounds may wait for the one thread, and how many pieces for a slow listener.
const QUEUE: usize = 16;

/// One model in one file. Nothing is loaded before the first round.
#[derive(Debug)]
pub struct LocalModel {
    path: PathBuf,
    name: String,
    load: fn(&Path) -> Result<Engine, String>,
    /// The way to the thread, once there is one.
    queue: Mutex<Option<mpsc::Sender<Job>>>,
}

/// A round, and where its answer goes.
struct Job {
    round: Round,
    told: mpsc::Sender<Told>,
    stop: CancellationToken,
}

/// What the thread says about a round.
enum Told {
    Piece(String),
    End(Result<Heard, ModelError>),
}

impl LocalModel {
    /// The model in this file, which `load` knows to load.
    pub fn new(path: &Path, load: fn(&Path) -> Result<Engine, String>) -> Self {
        Self { path: path.to_owned(), name: name_of(path), load, queue: Mutex::default() }
    }

    /// The way to the thread, which is started the first time and whenever it has died.
    fn queue(&self) -> Result<mpsc::Sender<Job>, ModelError> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
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
        hear: &mut (dyn Listener + '_),
        cancel: &CancellationToken,
    ) -> Result<Heard, ModelError> {
        let (told, mut answers) = mpsc::channel(QUEUE);
        // Whoever forgets this future wants the thread to stop as well.
        let stop = cancel.child_token();
        let _stops = stop.clone().drop_guard();
        if hear.is_curious() {
            let tools: Vec<&str> = round.tools.iter().map(|tool| tool.name.as_str()).collect();
            let asked = json!({"model": self.name, "messages": round.said.len(), "tools": tools});
            hear.debug("request", to_raw(&asked)).await;
        }
        let queue = self.queue()?;
        let job = Job { round: round.clone(), told, stop };
        tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(ModelError::Cancelled),
            sent = queue.send(job) => sent.map_err(|_| died())?,
        }
        loop {
            let told = tokio::select! {
                biased;
                () = cancel.cancelled() => return Err(ModelError::Cancelled),
                told = answers.recv() => told,
            };
            match told {
                Some(Told::Piece(text)) => {
                    hear.piece(Piece { segments: vec![Segment::Answer(text)], thoughts: Vec::new() }).await;
                }
                Some(Told::End(end)) => return end,
                None => return Err(died()),
            }
        }
    }
}

fn died() -> ModelError {
    ModelError::Failed("the local model stopped in the middle of its work".to_owned())
}

/// The thread: answers one job after the other until nobody can send any more.
fn work(path: &Path, load: fn(&Path) -> Result<Engine, String>, mut jobs: mpsc::Receiver<Job>) {
    let mut loaded: Option<Speaker> = None;
    while let Some(Job { round, told, stop }) = jobs.blocking_recv() {
        if stop.is_cancelled() {
            continue;
        }
        let speaker = match &mut loaded {
            Some(speaker) => Ok(speaker),
            // What could not be loaded is tried again the next time: the file may have come.
            None => load(path).map(|engine| loaded.insert(Speaker::new(engine))),
        };
        let mut hearer = Channel { told, stop };
        let end = match speaker {
            Ok(speaker) => speaker.answer(&round, &mut hearer),
            Err(why) => Err(ModelError::Failed(format!("could not load the local model {}: {why}", path.display()))),
        };
        // Nobody waits for the end of what was cancelled.
        let _ = hearer.told.blocking_send(Told::End(end));
    }
}

struct Channel {
    told: mpsc::Sender<Told>,
    stop: CancellationToken,
}

impl Hearer for Channel {
    fn hear(&mut self, text: String) {
        // Fails only when nobody listens any more, which the next step notices.
        let _ = self.told.blocking_send(Told::Piece(text));
    }

    fn is_listening(&self) -> bool {
        !self.stop.is_cancelled() && !self.told.is_closed()
    }
}

#[cfg(test)]
mod tests;
