//! Streams that break, stall or make no sense, and rounds that are cancelled.

use std::time::Duration;

use gladhand_models::scripted::Reply;
use gladhand_models::{Account, Anthropic, Antigravity, Compatible, ModelError, Models, OpenAi, OpenRouter, Timeouts};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::stage::{Ear, KEY, Stage, fails, key, round, run};

const CHAT: &str = "/chat/completions";
const GOOD: &str = "the address is good";

fn word(text: &str) -> Value {
    json!({"choices": [{"delta": {"content": text}}]})
}

/// Every client, and the path that it asks for an answer.
fn everybody(stage: &Stage) -> Vec<(Box<dyn Models>, &'static str)> {
    let (web, base) = (|| stage.web.clone(), stage.at(""));
    let account = Account::ChatGpt { id: None };
    vec![
        (Box::new(OpenRouter::new(web(), &base, key()).expect(GOOD)), CHAT),
        (Box::new(Compatible::new(web(), "house", &base, None).expect(GOOD)), CHAT),
        (Box::new(OpenAi::new(web(), &base, account, key()).expect(GOOD)), "/responses"),
        (Box::new(Anthropic::new(web(), &base, key()).expect(GOOD)), "/messages"),
        (Box::new(Antigravity::new(web(), &base, key()).expect(GOOD)), "/v1internal:loadCodeAssist"),
    ]
}

fn openrouter(stage: &Stage) -> OpenRouter {
    OpenRouter::new(stage.web.clone(), &stage.at(""), key()).expect("a good address")
}

#[tokio::test]
async fn everybody_can_be_cancelled_before_the_answer_begins() {
    let stage = Stage::new().await;
    for (at, (models, path)) in everybody(&stage).into_iter().enumerate() {
        stage.says(path, [Reply::stalled()]);
        let before = stage.provider.requests_of(path).len();
        let cancel = CancellationToken::new();
        let mut ear = Ear::default();
        let asked = round("m", "hi");
        let (heard, ()) = tokio::join!(models.round(&asked, &mut ear, &cancel), async {
            stage.provider.asked(path, before + 1).await;
            cancel.cancel();
        });
        assert_eq!(heard.unwrap_err(), ModelError::Cancelled, "{}", models.provider());
        stage.provider.abandoned(at + 1).await;
    }
}

#[tokio::test]
async fn everybody_can_be_cancelled_before_the_request() {
    let stage = Stage::new().await;
    let cancel = CancellationToken::new();
    cancel.cancel();
    for (models, _) in everybody(&stage) {
        let heard = models.round(&round("m", "hi"), &mut Ear::default(), &cancel).await;
        assert_eq!(heard.unwrap_err(), ModelError::Cancelled, "{}", models.provider());
    }
    assert!(stage.provider.requests().is_empty());
}

#[tokio::test]
async fn streams_can_be_cancelled_in_the_middle() {
    let stage = Stage::new().await;
    let openai = [
        json!({"type": "response.created", "response": {}}),
        json!({"type": "response.output_text.delta", "delta": "a"}),
    ];
    let anthropic = [
        json!({"type": "message_start", "message": {}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "a"}}),
    ];
    let chat = [word("a")];
    let streams: [&[Value]; 4] = [&chat, &chat, &openai, &anthropic];
    for (at, ((models, path), events)) in everybody(&stage).into_iter().zip(streams).enumerate() {
        let events: Vec<Value> = events.iter().cloned().chain([json!({"_stall": true})]).collect();
        stage.says(path, [Reply::events(&events)]);
        let cancel = CancellationToken::new();
        let mut ear = Ear { enough: Some((1, cancel.clone())), ..Ear::default() };
        let heard = models.round(&round("m", "hi"), &mut ear, &cancel).await;
        assert_eq!(heard.unwrap_err(), ModelError::Cancelled, "{}", models.provider());
        assert_eq!(ear.answers(), ["a"], "{}", models.provider());
        stage.provider.abandoned(at + 1).await;
    }
}

#[tokio::test]
async fn garbage_is_called_garbage() {
    let stage = Stage::new().await;
    let raw = |text: &str| json!({"_raw": text});
    stage.says(
        CHAT,
        [
            Reply::events(&[raw("data: {broken\n\n")]),
            Reply::events(&[raw("data: 12\n\n")]),
            Reply::events(&[raw("what is this?\n\n\u{0}\n")]),
            Reply::events(&[word("a"), json!({"_cut": true})]),
            Reply::events(&[word("a"), raw("data: {\"choices\": [{\"finish_reason\": \"stop\"}]}\n")]),
            Reply::text("<html>").with_header("content-type", "text/html; charset=utf-8"),
            Reply::text("not json").with_header("content-type", "application/json"),
        ],
    );
    let models = openrouter(&stage);
    for expected in [
        "OpenRouter sent something that is not the expected JSON.",
        "OpenRouter sent something that is not the expected JSON.",
        "OpenRouter stream ended before the reply was complete.",
        "OpenRouter stream ended before the reply was complete.",
        "OpenRouter stream ended before the reply was complete.",
        "OpenRouter answered with text/html instead of a reply.",
        "OpenRouter sent something that is not the expected JSON.",
    ] {
        assert_eq!(fails(&models, &round("m", "a")).await, expected);
    }
}

#[tokio::test]
async fn an_event_that_never_ends_is_not_kept() {
    let stage = Stage::new().await;
    let mebibyte = "x".repeat(1024 * 1024);
    let mut events = vec![json!({"_raw": "data: "})];
    events.extend(std::iter::repeat_n(json!({"_raw": mebibyte}), 20));
    events.push(json!({"_stall": true}));
    stage.says(CHAT, [Reply::events(&events)]);
    assert_eq!(fails(&openrouter(&stage), &round("m", "a")).await, "OpenRouter sent more than can be kept.");
}

#[tokio::test]
async fn calls_without_end_are_not_kept() {
    let stage = Stage::new().await;
    let calls: Vec<Value> = (0..300).map(|index| json!({"index": index, "id": format!("c{index}")})).collect();
    stage.says(CHAT, [Reply::events(&[json!({"choices": [{"delta": {"tool_calls": calls}}]})])]);
    assert_eq!(fails(&openrouter(&stage), &round("m", "a")).await, "OpenRouter wants more than 256 calls at once.");
}

#[tokio::test]
async fn silence_has_an_end() {
    let stage = Stage::with(Timeouts { first_byte: Duration::from_millis(20), ..Timeouts::default() }).await;
    stage.says(CHAT, [Reply::stalled()]);
    assert_eq!(fails(&openrouter(&stage), &round("m", "a")).await, "Request timed out.");

    let stage = Stage::with(Timeouts { idle: Duration::from_secs(1), ..Timeouts::default() }).await;
    stage.says(CHAT, [Reply::events(&[word("a"), json!({"_stall": true})])]);
    let (heard, ear) = run(&openrouter(&stage), &round("m", "b")).await;
    assert_eq!(heard.unwrap_err().to_string(), "OpenRouter sent nothing for 1 seconds.");
    assert_eq!(ear.answers(), ["a"]);
}

#[tokio::test]
async fn a_key_that_comes_back_in_a_refusal_is_not_repeated() {
    let stage = Stage::new().await;
    stage.says(CHAT, [Reply::json(&json!({"error": {"message": format!("bad key {KEY}!")}})).with_status(401)]);
    stage.says("/models", [Reply::text(format!("bad key {KEY}")).with_status(401)]);
    let models = openrouter(&stage);
    assert_eq!(fails(&models, &round("m", "a")).await, "401 bad key ***!");
    assert_eq!(models.catalogue().await.unwrap_err().to_string(), "401 bad key ***");
    assert!(!format!("{models:?}").contains(KEY));
}
