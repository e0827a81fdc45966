use gladhand_models::scripted::Reply;
use gladhand_models::{Anthropic, HistoryItem, Models, Thinking, Usage};
use serde_json::{Value, json};

use crate::stage::{KEY, Stage, fails, hear, key, next, round, wanted};

const MESSAGES: &str = "/v1/messages";

fn anthropic(stage: &Stage) -> Anthropic {
    Anthropic::new(stage.web.clone(), &stage.at("/v1"), key()).expect("a valid address")
}

fn start() -> Value {
    let usage = json!({"input_tokens": 10, "cache_read_input_tokens": 5, "output_tokens": 1});
    json!({"type": "message_start", "message": {"id": "msg_1", "model": "claude", "content": [], "usage": usage}})
}

fn block(index: u32, block: Value) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

fn delta(index: u32, kind: &str, name: &str, text: &str) -> Value {
    json!({"type": "content_block_delta", "index": index, "delta": {"type": kind, name: text}})
}

fn words(index: u32, text: &str) -> Value {
    delta(index, "text_delta", "text", text)
}

fn stop(reason: &str) -> [Value; 2] {
    [
        json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 9}}),
        json!({"type": "message_stop"}),
    ]
}

#[tokio::test]
async fn answers_are_streamed() {
    let stage = Stage::new().await;
    let mut events = vec![
        start(),
        block(0, json!({"type": "text", "text": ""})),
        json!({"type": "ping"}),
        words(0, "Hel"),
        words(0, "lo."),
        json!({"type": "content_block_stop", "index": 0}),
    ];
    events.extend(stop("end_turn"));
    stage.says(MESSAGES, [Reply::events(&events)]);
    let mut asked = round("claude-3-haiku-20240307", "hi");
    asked
        .history
        .push(HistoryItem::User { text: String::new(), images: vec!["data:image/png;base64,AAAA".to_owned()] });
    let (heard, recorder) = hear(&anthropic(&stage), &asked).await;
    assert_eq!(recorder.answers(), ["Hel", "lo."]);
    assert_eq!(heard.usage, Some(Usage { input_tokens: 15, output_tokens: 9 }));
    let response = &recorder.stage("response_raw")["response"];
    assert_eq!(
        (&response["content"], &response["stop_reason"]),
        (&json!([{"type": "text", "text": "Hello."}]), &json!("end_turn"))
    );
    let asked = &stage.provider.requests()[0];
    assert_eq!((asked.headers["x-api-key"].as_str(), asked.headers["anthropic-version"].as_str()), (KEY, "2023-06-01"));
    assert!(!asked.headers.contains_key("authorization"));
    let picture = json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}});
    assert_eq!(
        asked.body,
        json!({
            "model": "claude-3-haiku-20240307", "max_tokens": 4096, "stream": true,
            "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
            "tools": [{"name": "bash", "description": "Runs a command.", "input_schema": {
                "type": "object", "properties": {"command": {"type": "string"}}, "additionalProperties": false,
            }}],
            "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}, picture]}],
        })
    );
}

#[tokio::test]
async fn thoughts_are_streamed_and_sent_back_signed_with_their_calls() {
    let stage = Stage::new().await;
    let mut events = vec![
        start(),
        block(0, json!({"type": "thinking", "thinking": "", "signature": ""})),
        delta(0, "thinking_delta", "thinking", "I should "),
        delta(0, "thinking_delta", "thinking", "look."),
        delta(0, "signature_delta", "signature", "sig"),
        block(1, json!({"type": "text", "text": ""})),
        words(1, "Looking."),
        block(2, json!({"type": "tool_use", "id": "toolu_1", "name": "bash", "input": {}})),
        delta(2, "input_json_delta", "partial_json", "{\"command\":"),
        delta(2, "input_json_delta", "partial_json", " \"ls\"}"),
        block(3, json!({"type": "tool_use", "id": "toolu_2", "name": "bash", "input": {}})),
    ];
    events.extend(stop("tool_use"));
    let end: Vec<Value> = [start()].into_iter().chain(stop("end_turn")).collect();
    stage.says(MESSAGES, [Reply::events(&events), Reply::events(&end)]);
    let models = anthropic(&stage);
    let mut first = round("claude-sonnet-4-5", "look");
    first.thinking = Thinking::Low;
    let (heard, recorder) = hear(&models, &first).await;
    assert_eq!(recorder.thoughts(), [("I should ", "I should"), ("look.", "I should look.")]);
    assert_eq!(wanted(&heard), [("toolu_1", "bash", r#"{"command": "ls"}"#), ("toolu_2", "bash", "{}")]);
    let second = next(&first, "Looking.", heard.calls, &[(r#""a.txt""#, None), ("null", Some("no command"))]);
    hear(&models, &second).await;
    let requests = stage.provider.requests();
    assert_eq!(requests[0].body["thinking"], json!({"type": "enabled", "budget_tokens": 2048}));
    assert_eq!(requests[0].body["max_tokens"], 8192 + 2048);
    assert_eq!(
        requests[1].body["messages"].as_array().unwrap()[1..],
        [
            json!({"role": "assistant", "content": [
                {"type": "thinking", "thinking": "I should look.", "signature": "sig"},
                {"type": "text", "text": "Looking."},
                {"type": "tool_use", "id": "toolu_1", "name": "bash", "input": {"command": "ls"}},
                {"type": "tool_use", "id": "toolu_2", "name": "bash", "input": {}},
            ]}),
            json!({"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": "{\"output\":\"a.txt\"}", "is_error": false},
                {"type": "tool_result", "tool_use_id": "toolu_2",
                    "content": "{\"error\":\"no command\",\"output\":null}", "is_error": true},
            ]}),
        ]
    );
}

#[tokio::test]
async fn newer_models_get_an_effort_level() {
    let stage = Stage::new().await;
    let end: Vec<Value> = [start()].into_iter().chain(stop("end_turn")).collect();
    stage.says(MESSAGES, [Reply::events(&end), Reply::events(&end)]);
    let models = anthropic(&stage);
    let mut asked = round("claude-opus-4-7", "hi");
    asked.thinking = Thinking::Medium;
    hear(&models, &asked).await;
    asked.thinking = Thinking::Off;
    asked.history.insert(0, HistoryItem::Assistant { text: "## Summary".to_owned(), calls: Vec::new() });
    hear(&models, &asked).await;
    let bodies: Vec<Value> = stage.provider.requests().into_iter().map(|asked| asked.body).collect();
    assert_eq!(bodies[0]["thinking"], json!({"type": "adaptive", "display": "summarized"}));
    assert_eq!(bodies[0]["output_config"], json!({"effort": "medium"}));
    assert_eq!((bodies[1].get("thinking"), bodies[1].get("output_config")), (None, None));
    let roles: Vec<&Value> = bodies[1]["messages"].as_array().unwrap().iter().map(|message| &message["role"]).collect();
    assert_eq!(roles, ["user", "assistant", "user"], "the first message must be the user's");
}

#[tokio::test]
async fn failures_are_reported() {
    let stage = Stage::new().await;
    let error = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    stage.says(
        MESSAGES,
        [
            Reply::json(&json!({"type": "error", "error": {"message": "invalid x-api-key"}})).with_status(401),
            Reply::events(&[start(), error]),
            Reply::events(&[start(), block(0, json!({"type": "text", "text": "Hi"})), json!({"_cut": true})]),
            Reply::json(&json!({"content": []})),
        ],
    );
    let models = anthropic(&stage);
    for expected in [
        "401 invalid x-api-key",
        "Anthropic stream failed: Overloaded",
        "Anthropic stream ended before the message was complete.",
        "Anthropic answered without a stream.",
    ] {
        assert_eq!(fails(&models, &round("claude-opus-4-1", "hi")).await, expected);
    }
}

#[tokio::test]
async fn the_catalogue_keeps_its_order() {
    let stage = Stage::new().await;
    let list = json!({"data": [
        {"id": "claude-opus-4-7", "display_name": "Claude Opus 4.7", "max_input_tokens": 1_000_000},
        {"id": "claude-3-haiku-20240307", "display_name": "Claude Haiku 3"},
    ]});
    stage.says("/v1/models", [Reply::json(&list)]);
    let options = anthropic(&stage).catalogue().await.unwrap();
    let shown: Vec<_> = options.iter().map(|option| (option.label.as_str(), option.context_window_tokens)).collect();
    assert_eq!(shown, [("Claude Opus 4.7", Some(1_000_000)), ("Claude Haiku 3", Some(200_000))]);
    assert_eq!(options[1].supported_thinking_levels, Some(vec![Thinking::Off]));
}
