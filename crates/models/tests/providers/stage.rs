//! Shared test code: a listener that records everything, a clock that does not wait, and rounds.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use gladhand_core::Secret;
use gladhand_core::wire::RawValue;
use gladhand_models::scripted::{Reply, Script, ScriptedProvider};
use gladhand_models::{
    Clock, Credential, HistoryItem, Identity, Listener, ModelError, Models, Piece, Round, RoundResult, Segment,
    Thinking, Timeouts, ToolOffer, WantedCall, Web,
};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

pub(crate) const KEY: &str = "sk-secret-of-the-test";

/// Records everything that it receives.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    pub(crate) pieces: Vec<Piece>,
    pub(crate) stages: Vec<(&'static str, Value)>,
    /// Cancels the round after this many pieces.
    pub(crate) enough: Option<(usize, CancellationToken)>,
}

#[async_trait]
impl Listener for Recorder {
    async fn piece(&mut self, piece: Piece) {
        self.pieces.push(piece);
        if let Some((count, cancel)) = &self.enough
            && self.pieces.len() == *count
        {
            cancel.cancel();
        }
    }

    async fn debug(&mut self, stage: &'static str, data: Box<RawValue>) {
        let text = data.get();
        assert!(!text.contains(KEY), "{stage} tells the key: {text}");
        self.stages.push((stage, serde_json::from_str(text).expect("JSON")));
    }
}

impl Recorder {
    /// The answer, piece by piece.
    pub(crate) fn answers(&self) -> Vec<&str> {
        let segments = self.pieces.iter().flat_map(|piece| &piece.segments);
        segments
            .filter_map(|segment| if let Segment::Answer(text) = segment { Some(text.as_str()) } else { None })
            .collect()
    }

    /// The thoughts, piece by piece, each with the beginning of the thought so far.
    pub(crate) fn thoughts(&self) -> Vec<(&str, &str)> {
        let mut thoughts = Vec::new();
        for piece in &self.pieces {
            for segment in &piece.segments {
                if let Segment::Thought(text) = segment {
                    thoughts.push((text.as_str(), piece.thoughts.last().map_or("", String::as_str)));
                }
            }
        }
        thoughts
    }

    /// The names of the debug stages, in order.
    pub(crate) fn stage_names(&self) -> Vec<&str> {
        self.stages.iter().map(|(stage, _)| *stage).collect()
    }

    /// The data of the first debug stage with this name.
    pub(crate) fn stage(&self, name: &str) -> &Value {
        &self.stages.iter().find(|(stage, _)| *stage == name).expect("no debug data for this stage").1
    }
}

/// A clock that records delays and does not wait.
#[derive(Debug, Default)]
pub(crate) struct Hurry(pub(crate) Mutex<Vec<Duration>>);

impl Clock for Hurry {
    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        self.0.lock().expect("no other holder of this lock panics").push(time);
        Box::pin(std::future::ready(()))
    }

    fn chance(&self) -> f64 {
        0.5
    }
}

impl Hurry {
    pub(crate) fn waits(&self) -> Vec<u128> {
        self.0.lock().expect("no other holder of this lock panics").iter().map(Duration::as_millis).collect()
    }
}

/// A scripted provider and an HTTP client for it.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) provider: ScriptedProvider,
    pub(crate) web: Web,
    pub(crate) clock: Arc<Hurry>,
}

impl Stage {
    pub(crate) async fn new() -> Self {
        Self::with(Timeouts::default()).await
    }

    pub(crate) async fn with(timeouts: Timeouts) -> Self {
        let provider = ScriptedProvider::start(Script::default()).await.expect("loopback has free ports");
        let clock = Arc::new(Hurry::default());
        let web = Web::with_clock(Identity::default(), timeouts, Arc::clone(&clock) as Arc<dyn Clock>);
        Self { provider, web, clock }
    }

    /// An address below the provider's.
    pub(crate) fn at(&self, path: &str) -> String {
        format!("{}{path}", self.provider.origin())
    }

    /// Adds replies to a path.
    pub(crate) fn says(&self, path: &str, replies: impl IntoIterator<Item = Reply>) {
        replies.into_iter().for_each(|reply| self.provider.push(path, reply));
    }
}

pub(crate) fn key() -> Arc<dyn Credential> {
    Arc::new(Secret::new(KEY))
}

/// A first round with one user message.
pub(crate) fn round(model: &str, text: &str) -> Round {
    Round {
        number: 1,
        turn: "turn-1".to_owned(),
        model: model.to_owned(),
        thinking: Thinking::Off,
        routing: None,
        instructions: "Be brief.".to_owned(),
        history: vec![user(text)],
        tools: Arc::from([ToolOffer {
            name: "bash".to_owned(),
            description: "Runs a command.".to_owned(),
            schema: raw(r#"{"type":"object","properties":{"command":{"type":"string"}}}"#),
        }]),
    }
}

pub(crate) fn user(text: &str) -> HistoryItem {
    HistoryItem::User { text: text.to_owned(), images: Vec::new() }
}

/// The next round, with results for the calls of this one.
pub(crate) fn next(round: &Round, text: &str, calls: Vec<WantedCall>, outputs: &[(&str, Option<&str>)]) -> Round {
    let mut next = round.clone();
    next.number += 1;
    let results = calls.iter().zip(outputs).map(|(call, (output, error))| HistoryItem::Result {
        call_id: call.call_id.clone(),
        name: call.name.clone(),
        output: raw(output),
        error: error.map(str::to_owned),
    });
    let results: Vec<HistoryItem> = results.collect();
    next.history.push(HistoryItem::Assistant { text: text.to_owned(), calls });
    next.history.extend(results);
    next
}

pub(crate) fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).expect("the test data is valid JSON")
}

/// Runs a round.
pub(crate) async fn run(models: &dyn Models, round: &Round) -> (Result<RoundResult, ModelError>, Recorder) {
    let mut recorder = Recorder::default();
    let heard = models.round(round, &mut recorder, &CancellationToken::new()).await;
    (heard, recorder)
}

/// Runs a round that must succeed.
pub(crate) async fn hear(models: &dyn Models, round: &Round) -> (RoundResult, Recorder) {
    let (heard, recorder) = run(models, round).await;
    (heard.expect("the round succeeds"), recorder)
}

/// Runs a round that must fail, and returns the error message.
pub(crate) async fn fails(models: &dyn Models, round: &Round) -> String {
    run(models, round).await.0.expect_err("the round fails").to_string()
}

/// The requested calls in short: id, name and input.
pub(crate) fn wanted(heard: &RoundResult) -> Vec<(&str, &str, &str)> {
    heard.calls.iter().map(|call| (call.call_id.as_str(), call.name.as_str(), call.input.get())).collect()
}
