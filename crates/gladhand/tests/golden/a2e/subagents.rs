//! A model for subagents, which answers when it is let to.

use std::sync::Arc;

use gladhand_models::scripted::{Reply, Route, Script, ScriptedProvider};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::replay::Run;

/// The line of `multi_agent` in which the task is awaited: until then it runs.
const AWAITED: usize = 13;

/// A model that answers one question.
pub(super) struct Model {
    provider: Arc<ScriptedProvider>,
    _runtime: Runtime,
}

impl Model {
    pub(super) fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let piece = |delta: Value, finish: Value| {
            json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "parrot",
                "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
        };
        let said = [piece(json!({"content": "It is done."}), Value::Null), piece(json!({}), json!("stop"))];
        let answer = Reply::events(&[&said[..], &[json!("[DONE]")]].concat()).behind("awaited");
        let models = Reply::json(&json!({"object": "list", "data": [{"id": "parrot", "object": "model"}]}));
        let route = |path: &str, replies, otherwise| Route { method: None, path: path.to_owned(), replies, otherwise };
        let routes =
            vec![route("/v1/models", Vec::new(), Some(models)), route("/v1/chat/completions", vec![answer], None)];
        let provider = runtime.block_on(ScriptedProvider::start(Script { routes })).expect("a free port");
        Self { provider: Arc::new(provider), _runtime: runtime }
    }

    /// A run in which it is the model, and answers once it is waited for.
    pub(super) fn asked_in(&self, mut run: Run) -> Run {
        run.command.env("GLADHAND_COMPATIBLE_BASE", format!("{}/v1", self.provider.origin()));
        let provider = Arc::clone(&self.provider);
        run.then = Some((AWAITED, Box::new(move || provider.release("awaited"))));
        run
    }
}
