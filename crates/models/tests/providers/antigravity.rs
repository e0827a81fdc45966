use std::time::Duration;

use gladhand_models::scripted::Reply;
use gladhand_models::{Antigravity, HistoryItem, Models, Segment, Thinking, Timeouts};
use serde_json::{Value, json};

use crate::stage::{Stage, fails, hear, key, next, round, wanted};

const LOAD: &str = "/cc/v1internal:loadCodeAssist";
const GENERATE: &str = "/cc/v1internal:generateContent";
const LIST: &str = "/cc/v1internal:fetchAvailableModels";

fn antigravity(stage: &Stage) -> Antigravity {
    Antigravity::new(stage.web.clone(), &stage.at("/cc"), key()).expect("a valid address")
}

fn account() -> Reply {
    Reply::json(&json!({"cloudaicompanionProject": "proj-1", "currentTier": {"usesGcpTos": false}}))
}

fn parts(parts: Value) -> Reply {
    let usage = json!({"promptTokenCount": 3, "candidatesTokenCount": 4, "thoughtsTokenCount": 5});
    Reply::json(
        &json!({"response": {"candidates": [{"content": {"role": "model", "parts": parts}}], "usageMetadata": usage}}),
    )
}

#[tokio::test]
async fn a_reply_is_one_piece_and_calls_keep_their_signature() {
    let stage = Stage::new().await;
    stage.says(LOAD, [account(), account()]);
    let call = json!({"functionCall": {"name": "bash", "args": {"command": "echo g"}}, "thoughtSignature": "sig"});
    stage.says(
        GENERATE,
        [
            parts(json!([{"text": "**Plan** it", "thought": true}, {"text": "Looking."}, call])),
            parts(json!([{"text": "thinking more", "thought": true}, {"text": "Answer A"}, {"text": "Answer B"}])),
            parts(
                json!([{"text": "hidden", "thought": true}, {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}]),
            ),
        ],
    );
    let models = antigravity(&stage);
    let mut first = round("gemini-3-pro-high", "go");
    first.thinking = Thinking::High;
    let (heard, recorder) = hear(&models, &first).await;
    assert_eq!(recorder.pieces.len(), 1);
    assert_eq!(
        recorder.pieces[0].segments,
        [Segment::Thought("**Plan** it".to_owned()), Segment::Answer("Looking.".to_owned())]
    );
    assert_eq!(recorder.pieces[0].thoughts, ["**Plan** it"]);
    assert_eq!(wanted(&heard), [("bash-1-2", "bash", r#"{"command":"echo g"}"#)]);
    assert_eq!(heard.usage.map(|usage| (usage.input_tokens, usage.output_tokens)), Some((3, 9)));
    assert_eq!(recorder.stage("request")["provider"], "antigravity");

    let second = next(&first, "Looking.", heard.calls, &[(r#""g""#, None)]);
    let (_, recorder) = hear(&models, &second).await;
    assert_eq!(recorder.answers(), ["Answer A", "Answer B"]);
    let asked = &stage.provider.requests_of(GENERATE)[1].body;
    assert_eq!(
        asked["request"]["contents"],
        json!([
            {"role": "user", "parts": [{"text": "go"}]},
            {"role": "model", "parts": [
                {"text": "Looking."},
                {"functionCall": {"id": "bash-1-2", "name": "bash", "args": {"command": "echo g"}},
                    "thoughtSignature": "sig"},
            ]},
            {"role": "user", "parts": [{"functionResponse": {
                "name": "bash", "response": {"result": "{\"output\":\"g\"}"}, "id": "bash-1-2",
            }}]},
        ])
    );
    assert_eq!((&asked["project"], &asked["userAgent"]), (&json!("proj-1"), &json!("gladhand")));
    assert_eq!(asked["request"]["systemInstruction"]["parts"][0]["text"], "Be brief.");
    assert_eq!(stage.provider.requests_of(LOAD).len(), 1, "the account is requested once per turn");

    let mut third = round("gemini-3-pro-high", "image please");
    third.history =
        vec![HistoryItem::User { text: "this".to_owned(), images: vec!["data:image/png;base64,BBBB".to_owned()] }];
    let (_, recorder) = hear(&models, &third).await;
    assert_eq!(recorder.answers(), ["![image](data:image/png;base64,AAAA)"]);
    assert!(recorder.thoughts().is_empty(), "thinking is off");
    assert_eq!(
        stage.provider.requests_of(GENERATE)[2].body["request"]["contents"][0]["parts"],
        json!([{"text": "this"}, {"inlineData": {"mimeType": "image/png", "data": "BBBB"}}])
    );
}

#[tokio::test]
async fn failures_have_the_documented_messages() {
    let stage = Stage::new().await;
    stage.says(LOAD, [account(), Reply::text("x".repeat(300)).with_status(403)]);
    stage.says(GENERATE, [Reply::text("<html>").with_status(404)]);
    let models = antigravity(&stage);
    assert_eq!(fails(&models, &round("m", "a")).await, "[cloudcode 404] <html>");
    assert_eq!(fails(&models, &round("m", "b")).await, format!("[cloudcode 403] {}", "x".repeat(280)));

    let stage = Stage::with(Timeouts { whole: Duration::from_millis(20), ..Timeouts::default() }).await;
    stage.says(LOAD, [Reply::stalled()]);
    assert_eq!(fails(&antigravity(&stage), &round("m", "c")).await, "antigravity request timed out.");
}

#[tokio::test]
async fn the_catalogue_starts_with_recommended_models() {
    let stage = Stage::new().await;
    stage.says(LOAD, [account()]);
    let list = json!({
        "models": {
            "claude-sonnet": {"displayName": "Claude Sonnet", "maxTokens": 200_000},
            "disabled-one": {"displayName": "Nope", "disabled": true},
            "gemini-3-pro-high": {"displayName": "Gemini 3 Pro (High)", "supportsThinking": true,
                "maxTokens": 1_000_000, "maxOutputTokens": 64_000},
        },
        "agentModelSorts": [{"groups": [{"modelIds": ["gemini-3-pro-high", "missing-id"]}]}],
    });
    stage.says(LIST, [Reply::json(&list)]);
    let options = antigravity(&stage).catalogue().await.unwrap();
    assert_eq!(stage.provider.requests_of(LIST)[0].body, json!({"project": "proj-1"}));
    assert_eq!(
        serde_json::to_value(options).unwrap(),
        json!([
            {"id": "gemini-3-pro-high", "provider": "antigravity", "label": "Gemini 3 Pro (High)",
                "description": "antigravity catalog model",
                "supportedThinkingLevels": ["OFF", "MINIMAL", "LOW", "MEDIUM", "HIGH", "XHIGH"],
                "defaultThinkingLevel": "HIGH", "contextWindowTokens": 936_000},
            {"id": "claude-sonnet", "provider": "antigravity", "label": "Claude Sonnet",
                "description": "antigravity catalog model", "supportedThinkingLevels": ["OFF"],
                "defaultThinkingLevel": "OFF", "contextWindowTokens": 200_000},
        ])
    );
}
