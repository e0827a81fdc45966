//! Tests of the scripted provider itself.

use gladhand_core::wire::RawValue;
use gladhand_models::scripted::{Script, ScriptedProvider};
use gladhand_models::{Compatible, Listener, Models, OpenRouter, Piece, Web};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::stage::{Recorder, fails, hear, key, round};

/// A recording of a service: a list, and two turns; the reply of the second one waits at a gate.
const RECORDING: &str = r#"
{"route":"or.models","method":"GET","path":"/or/models","headers":{},"body":null,"response":{"json":{"data":[{"id":"a/b"}]}}}
{"route":"or.chat","method":"POST","path":"/or/chat/completions","headers":{},"body":{},"response":{"json":{"choices":[{"message":{"content":"one"}}]}}}
{"route":"or.chat","method":"POST","path":"/or/chat/completions","headers":{},"body":{},"response":{"json":{"choices":[{"message":{"content":"two <PROVIDER>"}}]},"gate":"g1"}}
"#;

#[tokio::test]
async fn a_recording_is_played_back() {
    let provider = ScriptedProvider::start(Script::of_recording(RECORDING).unwrap()).await.unwrap();
    let models = OpenRouter::new(Web::default(), &format!("{}/or", provider.origin()), key()).unwrap();
    for _ in 0..2 {
        assert_eq!(models.catalogue().await.unwrap().len(), 1, "lists are repeated as often as requested");
    }
    let (_, recorder) = hear(&models, &round("a/b", "first")).await;
    assert_eq!(recorder.answers(), ["one"]);

    let asked = round("a/b", "second");
    let mut recorder = Recorder::default();
    let cancel = CancellationToken::new();
    let (heard, ()) = tokio::join!(models.round(&asked, &mut recorder, &cancel), async {
        provider.wait_for_requests("/or/chat/completions", 2).await;
        provider.release("g1");
    });
    heard.unwrap();
    assert_eq!(recorder.answers(), [format!("two {}", provider.origin())]);
}

#[tokio::test]
async fn expected_members_are_checked() {
    let script = r#"{"routes": [{"path": "/v1/chat/completions",
        "replies": [{"expect": {"model": "wanted"}, "text": "never"}],
        "otherwise": {"status": 404, "text": "used up"}}]}"#;
    let provider = ScriptedProvider::start(Script::parse(script).unwrap()).await.unwrap();
    let models = Compatible::new(Web::default(), "house", &format!("{}/v1", provider.origin()), None).unwrap();
    // The first response is a 500, so the client retries.
    assert_eq!(fails(&models, &round("another", "hi")).await, "404 used up");
    assert_eq!(provider.requests().len(), 2);
}

/// A listener that wants no debug data.
#[derive(Debug)]
struct Trusting;

#[async_trait::async_trait]
impl Listener for Trusting {
    async fn piece(&mut self, _: Piece) {}

    async fn debug(&mut self, stage: &'static str, data: Box<RawValue>) {
        panic!("unexpected debug data: {stage} {data}");
    }

    fn wants_debug(&self) -> bool {
        false
    }
}

#[tokio::test]
async fn a_listener_without_debugging_gets_no_debug_data() {
    let provider = ScriptedProvider::start(Script::of_recording(RECORDING).unwrap()).await.unwrap();
    let models = OpenRouter::new(Web::default(), &format!("{}/or", provider.origin()), key()).unwrap();
    models.round(&round("a/b", "first"), &mut Trusting, &CancellationToken::new()).await.unwrap();
    assert_eq!(provider.requests()[0].body["messages"][1], json!({"role": "user", "content": "first"}));
}
