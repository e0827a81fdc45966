use gladhand_models::scripted::Reply;
use gladhand_models::{Account, HistoryItem, Models, OpenAi, Thinking, Usage};
use serde_json::{Value, json};

use crate::stage::{KEY, Stage, fails, hear, key, next, round, run, wanted};

const RESPONSES: &str = "/codex/responses";

fn chatgpt(stage: &Stage) -> OpenAi {
    let account = Account::ChatGpt { id: Some("acct-1".to_owned()) };
    OpenAi::new(stage.web.clone(), &stage.at("/codex"), account, key()).expect("a valid address")
}

fn created() -> Value {
    json!({"type": "response.created", "response": {"id": "resp_1", "status": "in_progress", "output": []}})
}

fn text(delta: &str) -> Value {
    json!({"type": "response.output_text.delta", "item_id": "msg_1", "delta": delta})
}

fn thought(item: &str, part: u32, delta: &str) -> Value {
    json!({"type": "response.reasoning_summary_text.delta", "item_id": item, "summary_index": part, "delta": delta})
}

fn message(text: &str) -> Value {
    json!({"type": "message", "content": [{"type": "output_text", "text": text}]})
}

fn call(id: &str, name: &str, arguments: &str) -> Value {
    json!({"type": "function_call", "call_id": id, "name": name, "arguments": arguments})
}

fn done(item: &Value) -> Value {
    json!({"type": "response.output_item.done", "item": item})
}

fn completed(output: &[Value]) -> Value {
    let usage = json!({"input_tokens": 7, "output_tokens": 2});
    let response = json!({"id": "resp_1", "status": "completed", "output": output, "usage": usage});
    json!({"type": "response.completed", "response": response})
}

#[tokio::test]
async fn thoughts_and_answers_are_streamed() {
    let stage = Stage::new().await;
    stage.says(
        RESPONSES,
        [Reply::events(&[
            created(),
            thought("rs_1", 0, "**Greeting"),
            thought("rs_1", 0, " the user**\n\nok"),
            thought("rs_1", 1, "more"),
            thought("rs_2", 0, " other"),
            text("Hel"),
            text("lo "),
            json!({"type": "response.something.new", "delta": {"of": "another kind"}, "item_id": 7, "message": []}),
            completed(&[message("Hello ")]),
        ])],
    );
    let mut asked = round("gpt-5-codex", "hi");
    asked.thinking = Thinking::Low;
    asked.tools = [].into();
    let (heard, recorder) = hear(&chatgpt(&stage), &asked).await;
    assert_eq!(
        recorder.thoughts(),
        [
            ("**Greeting", "**Greeting"),
            (" the user**\n\nok", "**Greeting the user**\n\nok"),
            ("more", "**Greeting the user**\n\nok\n\nmore"),
            (" other", "other"),
        ]
    );
    assert_eq!(recorder.answers(), ["Hel", "lo "]);
    assert_eq!(heard.usage, Some(Usage { input_tokens: 7, output_tokens: 2 }));
    let asked = &stage.provider.requests()[0];
    assert_eq!(
        asked.body,
        json!({
            "model": "gpt-5-codex", "instructions": "Be brief.", "store": false, "stream": true,
            "reasoning": {"effort": "low"}, "input": [{"type": "message", "role": "user", "content": "hi"}],
        })
    );
    for (name, value) in [("originator", "gladhand"), ("chatgpt-account-id", "acct-1"), ("session_id", "turn-1")] {
        assert_eq!(asked.headers[name], value);
    }
    assert_eq!(recorder.stage_names(), ["request", "response_raw", "response_stream_summary"]);
    let headers = &recorder.stage("request")["headers"];
    assert_eq!((&headers["authorization"], &headers["session_id"]), (&json!("[redacted]"), &json!("turn-1")));
    assert_eq!(
        *recorder.stage("response_stream_summary"),
        json!({"toolRound": 1, "eventCount": 9, "outputDeltaChars": 6, "reasoningDeltaChars": 35,
            "responseId": "resp_1", "turnStateToken": null})
    );
    assert_eq!(recorder.stage("response_raw")["completedEventSeen"], true);
}

#[tokio::test]
async fn each_call_is_returned_once_and_the_turn_state_is_sent_back() {
    let stage = Stage::new().await;
    let bash = call("call_a", "bash", r#"{"command": "echo hi"}"#);
    let twice = call("call_b", "no_such", "{}");
    stage.says(
        RESPONSES,
        [
            Reply::events(&[created(), text("Checking. "), done(&bash), completed(&[message("Checking. "), bash])])
                .with_header("x-codex-turn-state", "ts-1"),
            Reply::events(&[created(), done(&twice), done(&twice), completed(&[twice.clone(), twice])]),
            Reply::events(&[created(), text("Done."), completed(&[message("Done.")])]),
            Reply::events(&[created(), completed(&[])]),
        ],
    );
    let models = chatgpt(&stage);
    let first = round("gpt-5-codex", "run it");
    let (heard, recorder) = hear(&models, &first).await;
    assert_eq!(wanted(&heard), [("call_a", "bash", r#"{"command": "echo hi"}"#)]);
    assert_eq!(recorder.stage_names(), ["request", "response_raw", "response_stream_summary", "tool_calls"]);
    let second = next(&first, "Checking. ", heard.calls, &[(r#"{"b":1,"a":2}"#, None)]);
    let (heard, _) = hear(&models, &second).await;
    assert_eq!(wanted(&heard), [("call_b", "no_such", "{}")]);
    let third = next(&second, "", heard.calls, &[("null", Some("unknown tool"))]);
    let (heard, recorder) = hear(&models, &third).await;
    assert!(heard.calls.is_empty());
    assert_eq!(recorder.answers(), ["Done."]);
    let mut other = round("gpt-5-codex", "another turn");
    other.turn = "turn-2".to_owned();
    hear(&models, &other).await;

    let requests = stage.provider.requests();
    assert_eq!(
        requests[2].body["input"],
        json!([
            {"type": "message", "role": "user", "content": "run it"},
            {"type": "message", "role": "assistant", "content": "Checking."},
            {"type": "function_call", "call_id": "call_a", "name": "bash", "arguments": "{\"command\": \"echo hi\"}"},
            {"type": "function_call_output", "call_id": "call_a", "output": "{\"a\":2,\"b\":1}"},
            {"type": "function_call", "call_id": "call_b", "name": "no_such", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "call_b", "output": "unknown tool"},
        ])
    );
    let states: Vec<_> = requests.iter().map(|asked| asked.headers.get("x-codex-turn-state").cloned()).collect();
    assert_eq!(states, [None, Some("ts-1".to_owned()), Some("ts-1".to_owned()), None]);
}

#[tokio::test]
async fn text_that_was_not_streamed_is_delivered_at_the_end() {
    let stage = Stage::new().await;
    stage.says(
        RESPONSES,
        [
            Reply::events(&[created(), completed(&[message("Whole answer at once.")])]),
            Reply::events(&[created(), text("Part"), completed(&[message("Part and the rest.")])]),
            Reply::events(&[created(), text("Part"), completed(&[message("Something else.")])]),
            Reply::events(&[created(), done(&message("Only in items.")), completed(&[])]),
            Reply::events(&[created(), completed(&[])]),
        ],
    );
    let models = chatgpt(&stage);
    for expected in [&["Whole answer at once."][..], &["Part", " and the rest."], &["Part"], &["Only in items."], &[]] {
        let (_, recorder) = hear(&models, &round("gpt-5-mini", "go")).await;
        assert_eq!(recorder.answers(), expected);
    }
}

#[tokio::test]
async fn failures_have_the_documented_messages() {
    let stage = Stage::new().await;
    let failed = json!({"type": "response.failed", "response": {"error": {"message": "model melted"}}});
    stage.says(
        RESPONSES,
        [
            Reply::events(&[created(), failed]),
            Reply::events(&[]),
            Reply::json(&json!({"error": {"message": "bad token", "type": "auth"}})).with_status(401),
            Reply::json(&json!({"detail": "Unsupported parameter"})).with_status(400),
            Reply::events(&[json!({"type": "error", "message": format!("no {KEY}")})]),
        ],
    );
    let models = chatgpt(&stage);
    for expected in [
        "OpenAI response failed: model melted",
        "OpenAI stream ended without a response snapshot.",
        "401 bad token",
        "400 status code (no body)",
        "OpenAI stream failed: no ***",
    ] {
        assert_eq!(fails(&models, &round("gpt-5", "go")).await, expected);
    }
}

#[tokio::test]
async fn an_interrupted_stream_is_continued() {
    let stage = Stage::new().await;
    stage.says(
        RESPONSES,
        [
            Reply::events(&[created(), text("Once upon "), json!({"_cut": true})]),
            Reply::events(&[created(), text("a time.")]),
            Reply::events(&[created(), text(" The end."), completed(&[message(" The end.")])]),
        ],
    );
    let (_, recorder) = hear(&chatgpt(&stage), &round("gpt-5", "tell")).await;
    assert_eq!(recorder.answers(), ["Once upon ", "a time.", " The end."]);
    let inputs: Vec<_> = stage.provider.requests().iter().map(|asked| asked.body["input"][1].clone()).collect();
    let so_far = |text: &str| json!({"type": "message", "role": "assistant", "content": text});
    assert_eq!(inputs, [Value::Null, so_far("Once upon"), so_far("Once upon a time.")]);
    assert_eq!(
        *recorder.stage("response_continue"),
        json!({"toolRound": 1, "responseStatus": "in_progress", "reason": "stream_ended_early"})
    );
}

#[tokio::test]
async fn a_stream_that_is_always_interrupted_fails() {
    let stage = Stage::new().await;
    stage.says(RESPONSES, std::iter::repeat_n(Reply::events(&[created(), text("x")]), 10));
    let (heard, recorder) = run(&chatgpt(&stage), &round("gpt-5", "tell")).await;
    assert_eq!(heard.unwrap_err().to_string(), "OpenAI stream ended before the response was complete.");
    assert_eq!(recorder.answers().len(), 4);
}

#[tokio::test]
async fn an_api_key_is_used_without_chatgpt_headers() {
    let stage = Stage::new().await;
    stage.says("/v1/responses", [Reply::events(&[created(), text("ok"), completed(&[message("ok")])])]);
    let models = OpenAi::new(stage.web.clone(), &stage.at("/v1/"), Account::Key, key()).unwrap();
    let mut asked = round("gpt-4o", "look");
    asked.history =
        vec![HistoryItem::User { text: "this".to_owned(), images: vec!["data:image/png;base64,AAAA".to_owned()] }];
    hear(&models, &asked).await;
    let asked = &stage.provider.requests()[0];
    assert_eq!(asked.headers["authorization"], format!("Bearer {KEY}"));
    for name in ["originator", "session_id", "chatgpt-account-id"] {
        assert!(!asked.headers.contains_key(name), "{name}");
    }
    assert_eq!(asked.body.get("reasoning"), None, "a model without thinking gets no `reasoning` member");
    assert_eq!(
        asked.body["input"][0]["content"],
        json!([
            {"type": "input_text", "text": "this"},
            {"type": "input_image", "image_url": "data:image/png;base64,AAAA"},
        ])
    );
}

#[tokio::test]
async fn the_catalogue_is_filtered_and_sorted() {
    let stage = Stage::new().await;
    let list = json!({"models": [
        {"slug": "gpt-5-mini", "display_name": "GPT-5 mini", "description": "small model", "priority": 2,
            "context_window": 100_000},
        {"slug": "dall-e-3", "priority": 0},
        {"slug": "gpt-5-codex", "display_name": "GPT-5 Codex", "description": "coding model", "priority": 1,
            "supported_reasoning_levels": [{"effort": "low"}, {"effort": "medium"}, {"effort": "high"}],
            "default_reasoning_level": "medium", "context_window": 200_000},
    ]});
    stage.says("/codex/models", [Reply::json(&list)]);
    let options = chatgpt(&stage).catalogue().await.unwrap();
    assert_eq!(
        serde_json::to_value(options).unwrap(),
        json!([
            {"id": "gpt-5-codex", "provider": "openai", "label": "GPT-5 Codex", "description": "coding model",
                "supportedThinkingLevels": ["LOW", "MEDIUM", "HIGH"], "defaultThinkingLevel": "MEDIUM",
                "contextWindowTokens": 200_000},
            {"id": "gpt-5-mini", "provider": "openai", "label": "GPT-5 mini", "description": "small model",
                "supportedThinkingLevels": ["MINIMAL", "LOW", "MEDIUM", "HIGH"], "defaultThinkingLevel": "LOW",
                "contextWindowTokens": 100_000},
        ])
    );
    let query = stage.provider.requests()[0].query.clone().unwrap();
    assert!(query.starts_with("client_version="), "{query}");
}
