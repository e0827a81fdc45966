//! Streams that break, stall or contain garbage, and rounds that are cancelled.

use std::time::Duration;

use gladhand_models::scripted::Reply;
use gladhand_models::{Account, Anthropic, Antigravity, Compatible, ModelError, Models, OpenAi, OpenRouter, Timeouts};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::stage::{KEY, Recorder, Stage, fails, key, round, run};

const CHAT: &str = "/chat/completions";
const GOOD: &str = "the address is valid";

fn word(text: &str) -> Value {
    json!({"choices": [{"delta": {"content": text}}]})
}

/// Every client, with the path of its first request in a round.
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
    OpenRouter::new(stage.web.clone(), &stage.at(""), key()).expect("a valid address")
}

#[tokio::test]
async fn every_client_can_be_cancelled_before_the_response_starts() {
    let stage = Stage::new().await;
    for (at, (models, path)) in everybody(&stage).into_iter().enumerate() {
        stage.says(path, [Reply::stalled()]);
        let before = stage.provider.requests_of(path).len();
        let cancel = CancellationToken::new();
        let mut recorder = Recorder::default();
        let asked = round("m", "hi");
        let (heard, ()) = tokio::join!(models.round(&asked, &mut recorder, &cancel), async {
            stage.provider.wait_for_requests(path, before + 1).await;
            cancel.cancel();
        });
        assert_eq!(heard.unwrap_err(), ModelError::Cancelled, "{}", models.provider());
        stage.provider.abandoned(at + 1).await;
    }
}

#[tokio::test]
async fn every_client_can_be_cancelled_before_the_request() {
    let stage = Stage::new().await;
    let cancel = CancellationToken::new();
    cancel.cancel();
    for (models, _) in everybody(&stage) {
        let heard = models.round(&round("m", "hi"), &mut Recorder::default(), &cancel).await;
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
        let mut recorder = Recorder { enough: Some((1, cancel.clone())), ..Recorder::default() };
        let heard = models.round(&round("m", "hi"), &mut recorder, &cancel).await;
        assert_eq!(heard.unwrap_err(), ModelError::Cancelled, "{}", models.provider());
        assert_eq!(recorder.answers(), ["a"], "{}", models.provider());
        stage.provider.abandoned(at + 1).await;
    }
}

#[tokio::test]
async fn garbage_in_a_reply_is_an_error() {
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

const TOO_LONG: &str = "OpenRouter sent more than 16 MiB in one event or 32 MiB in one reply.";

#[tokio::test]
async fn the_size_of_an_event_is_limited() {
    let stage = Stage::new().await;
    let mebibyte = "x".repeat(1024 * 1024);
    let mut events = vec![json!({"_raw": "data: "})];
    events.extend(std::iter::repeat_n(json!({"_raw": mebibyte}), 20));
    events.push(json!({"_stall": true}));
    stage.says(CHAT, [Reply::events(&events)]);
    assert_eq!(fails(&openrouter(&stage), &round("m", "a")).await, TOO_LONG);
}

#[tokio::test]
async fn the_number_of_streamed_calls_is_limited() {
    let stage = Stage::new().await;
    let calls: Vec<Value> = (0..300).map(|index| json!({"index": index, "id": format!("c{index}")})).collect();
    let at_once = json!({"choices": [{"message": {"tool_calls": calls}}]});
    let in_pieces = json!({"choices": [{"delta": {"tool_calls": calls}}]});
    for reply in [Reply::events(&[in_pieces]), Reply::json(&at_once)] {
        stage.says(CHAT, [reply]);
        assert_eq!(
            fails(&openrouter(&stage), &round("m", "a")).await,
            "OpenRouter requested more than 256 tool calls in one reply."
        );
    }
}

#[tokio::test]
async fn the_number_of_calls_is_limited_for_every_service() {
    let stage = Stage::new().await;
    let calls = |call: fn(usize) -> Value| (0..300).map(call).collect::<Vec<Value>>();
    let items = calls(|at| json!({"type": "function_call", "call_id": format!("c{at}"), "name": "t"}));
    let openai = json!({"type": "response.completed", "response": {"status": "completed", "output": items}});
    let mut anthropic = calls(
        |at| json!({"type": "content_block_start", "index": at, "content_block": {"type": "tool_use", "id": format!("c{at}")}}),
    );
    anthropic.push(json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}}));
    let parts = calls(|_| json!({"functionCall": {"name": "t"}}));
    let antigravity = json!({"candidates": [{"content": {"parts": parts}}]});
    stage.says("/responses", [Reply::events(&[openai])]);
    stage.says("/messages", [Reply::events(&anthropic)]);
    stage.says("/v1internal:loadCodeAssist", [Reply::json(&json!({}))]);
    stage.says("/v1internal:generateContent", [Reply::json(&antigravity)]);
    for (models, _) in everybody(&stage).into_iter().skip(2) {
        let failure = fails(&*models, &round("m", "a")).await;
        assert!(failure.ends_with(" requested more than 256 tool calls in one reply."), "{failure}");
    }
}

#[tokio::test]
async fn the_size_of_a_reply_is_limited_streamed_or_not() {
    let stage = Stage::new().await;
    let mebibyte = "x".repeat(1024 * 1024);
    let pieces: Vec<Value> = std::iter::repeat_n(word(&mebibyte), 33).collect();
    let at_once = json!({"choices": [{"message": {"content": mebibyte.repeat(33)}}]});
    for reply in [Reply::events(&pieces), Reply::json(&at_once)] {
        stage.says(CHAT, [reply]);
        assert_eq!(fails(&openrouter(&stage), &round("m", "a")).await, TOO_LONG);
    }
}

/// Each value of a tree takes many times more memory than bytes on the wire.
#[tokio::test]
async fn the_number_of_json_values_is_limited_per_event_and_reply() {
    const TOO_MANY: &str = "sent a reply of more than 200000 JSON values.";
    let stage = Stage::new().await;
    let details = |count: usize| json!({"choices": [{"delta": {"reasoning_details": vec![json!({"": 0}); count]}}]});
    let many = vec![details(50_000); 3];
    let whole = Reply::json(&json!({"choices": [{"message": {"reasoning_details": vec![json!({"": 0}); 150_000]}}]}));
    for reply in [Reply::events(&[details(150_000)]), Reply::events(&many), whole] {
        stage.says(CHAT, [reply]);
        assert_eq!(fails(&openrouter(&stage), &round("m", "a")).await, format!("OpenRouter {TOO_MANY}"));
    }
    let zeros = vec![0; 50_000];
    let item = json!({"type": "response.output_item.done", "item": {"x": zeros}});
    stage.says("/responses", [Reply::events(&vec![item; 5])]);
    let start = json!({"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "c"}});
    let delta = json!({"type": "content_block_delta", "delta": {"partial_json": "0,".repeat(150_000)}});
    let end = json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}});
    stage.says("/messages", [Reply::events(&[start, delta.clone(), delta, end])]);
    stage.says("/v1internal:loadCodeAssist", [Reply::json(&json!(vec![zeros; 5]))]);
    for (models, _) in everybody(&stage).into_iter().skip(2) {
        let failure = fails(&*models, &round("m", "a")).await;
        assert!(failure.ends_with(TOO_MANY), "{failure}");
    }
}

#[tokio::test]
async fn a_silent_stream_times_out() {
    let stage = Stage::with(Timeouts { first_byte: Duration::from_millis(20), ..Timeouts::default() }).await;
    stage.says(CHAT, [Reply::stalled()]);
    assert_eq!(fails(&openrouter(&stage), &round("m", "a")).await, "Request timed out.");

    let stage = Stage::with(Timeouts { idle: Duration::from_secs(1), ..Timeouts::default() }).await;
    stage.says(CHAT, [Reply::events(&[word("a"), json!({"_stall": true})])]);
    let (heard, recorder) = run(&openrouter(&stage), &round("m", "b")).await;
    assert_eq!(heard.unwrap_err().to_string(), "OpenRouter sent nothing for 1 seconds.");
    assert_eq!(recorder.answers(), ["a"]);
}

#[tokio::test]
async fn a_key_that_an_error_response_repeats_is_redacted() {
    let stage = Stage::new().await;
    stage.says(CHAT, [Reply::json(&json!({"error": {"message": format!("bad key {KEY}!")}})).with_status(401)]);
    stage.says("/models", [Reply::text(format!("bad key {KEY}")).with_status(401)]);
    let models = openrouter(&stage);
    assert_eq!(fails(&models, &round("m", "a")).await, "401 bad key ***!");
    assert_eq!(models.catalogue().await.unwrap_err().to_string(), "401 bad key ***");
    assert!(!format!("{models:?}").contains(KEY));
}
