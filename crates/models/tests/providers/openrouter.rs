use gladhand_models::scripted::Reply;
use gladhand_models::{HistoryItem, Models, OpenRouter, Thinking, Usage};
use serde_json::{Value, json};

use crate::stage::{KEY, Stage, fails, hear, key, next, round, user, wanted};

const CHAT: &str = "/or/chat/completions";

fn openrouter(stage: &Stage) -> OpenRouter {
    OpenRouter::new(stage.web.clone(), &stage.at("/or"), key()).expect("a valid address")
}

fn whole(message: Value) -> Reply {
    Reply::json(&json!({"id": "gen-1", "choices": [{"index": 0, "finish_reason": "stop", "message": message}]}))
}

fn delta(delta: Value) -> Value {
    json!({"id": "gen-1", "created": 5, "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
}

fn end(reason: &str) -> [Value; 3] {
    [
        json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}),
        json!({"choices": [], "usage": {"prompt_tokens": 12, "completion_tokens": 3}}),
        json!("[DONE]"),
    ]
}

#[tokio::test]
async fn a_reply_without_streaming_is_a_thought_and_an_answer() {
    let stage = Stage::new().await;
    let message = json!({"content": "  The answer is 4.\n", "reasoning": "**Adding**\n\nTwo plus two."});
    stage.says(CHAT, [whole(message)]);
    let (heard, recorder) = hear(&openrouter(&stage), &round("acme/think-1", "2+2?")).await;
    assert!(heard.calls.is_empty());
    assert_eq!(recorder.thoughts(), [("**Adding**\n\nTwo plus two.", "**Adding**\n\nTwo plus two.")]);
    assert_eq!(recorder.answers(), ["The answer is 4."]);
    assert_eq!((recorder.pieces.len(), recorder.stage_names()), (2, vec!["request", "response_raw"]));
}

#[tokio::test]
async fn content_may_be_missing_or_in_parts() {
    let stage = Stage::new().await;
    let parts = json!([{"type": "text", "text": " part one "}, {"type": "text", "text": "part two"}]);
    let summaries = json!([{"summary": "first"}, {"summary": "second"}]);
    stage.says(
        CHAT,
        [whole(json!({"content": null})), whole(json!({"content": parts, "reasoning_details": summaries}))],
    );
    let models = openrouter(&stage);
    let (_, recorder) = hear(&models, &round("m", "empty")).await;
    assert!(recorder.pieces.is_empty());
    let (_, recorder) = hear(&models, &round("m", "parts")).await;
    assert_eq!((recorder.thoughts()[0].0, recorder.answers()), ("first\nsecond", vec!["part one\npart two"]));
}

#[tokio::test]
async fn requests_have_the_documented_body() {
    let stage = Stage::new().await;
    stage.says(CHAT, [whole(json!({"content": "ok"})), whole(json!({"content": "ok"}))]);
    let models = openrouter(&stage);
    let mut asked = round("acme/think-1", "hi");
    asked.history.push(HistoryItem::User {
        text: "[Image 1]".to_owned(),
        images: vec!["data:image/png;base64,AAAA".to_owned()],
    });
    hear(&models, &asked).await;
    asked.thinking = Thinking::XHigh;
    asked.routing = Some("acme".to_owned());
    asked.tools = [].into();
    asked.history = vec![user("hi")];
    let (_, recorder) = hear(&models, &asked).await;

    let requests = stage.provider.requests_of(CHAT);
    let picture = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}});
    assert_eq!(
        requests[0].body,
        json!({
            "model": "acme/think-1",
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "hi"},
                {"role": "user", "content": [{"type": "text", "text": "[Image 1]"}, picture]},
            ],
            "stream": true,
            "stream_options": {"include_usage": true},
            "tools": [{"type": "function", "function": {
                "name": "bash", "description": "Runs a command.",
                "parameters": {
                    "type": "object", "properties": {"command": {"type": "string"}}, "additionalProperties": false,
                },
            }}],
            "tool_choice": "auto",
            "parallel_tool_calls": false,
            "include_reasoning": false,
        })
    );
    assert_eq!(
        requests[1].body,
        json!({
            "model": "acme/think-1",
            "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}],
            "stream": true,
            "stream_options": {"include_usage": true},
            "reasoning": {"effort": "high", "exclude": false},
            "include_reasoning": true,
            "provider": {"order": ["acme"], "allow_fallbacks": false},
        })
    );
    assert_eq!(*recorder.stage("request"), json!({"toolRound": 1, "payload": requests[1].body}));
    let headers = &requests[0].headers;
    assert_eq!(headers["authorization"], format!("Bearer {KEY}"));
    assert_eq!(headers["x-title"], "gladhand");
    assert!(headers["user-agent"].starts_with("gladhand/"), "{headers:?}");
}

#[tokio::test]
async fn a_streamed_reply_is_delivered_piece_by_piece() {
    let stage = Stage::new().await;
    let mut events = vec![
        json!({"_raw": ": PROCESSING\n\n"}),
        delta(json!({"role": "assistant", "content": ""})),
        delta(json!({"reasoning": "**Hm"})),
        delta(json!({"reasoning": "**\n", "content": "So"})),
        delta(json!({"content": ", 4.\n"})),
    ];
    events.extend(end("stop"));
    stage.says(CHAT, [Reply::events(&events)]);
    let (heard, recorder) = hear(&openrouter(&stage), &round("m", "2+2?")).await;
    assert_eq!(recorder.thoughts(), [("**Hm", "**Hm"), ("**\n", "**Hm**")]);
    assert_eq!(recorder.answers(), ["So", ", 4.\n"]);
    assert_eq!(recorder.pieces.len(), 3, "segments that arrive together stay in one piece");
    assert_eq!(heard.usage, Some(Usage { input_tokens: 12, output_tokens: 3 }));
    assert_eq!(
        recorder.stage("response_raw")["response"],
        json!({
            "id": "gen-1", "object": "chat.completion", "created": 5, "model": "m",
            "choices": [{"index": 0, "finish_reason": "stop",
                "message": {"role": "assistant", "content": "So, 4.\n", "reasoning": "**Hm**\n"}}],
            "usage": {"prompt_tokens": 12, "completion_tokens": 3},
        })
    );
}

#[tokio::test]
async fn calls_are_assembled_from_parts_and_sent_back_with_their_results() {
    let stage = Stage::new().await;
    let call = |index: u32, id: &str, name: &str, arguments: &str| {
        let function = json!({"name": name, "arguments": arguments});
        json!({"tool_calls": [{"index": index, "id": id, "type": "function", "function": function}]})
    };
    let part =
        |index: u32, arguments: &str| json!({"tool_calls": [{"index": index, "function": {"arguments": arguments}}]});
    let seal = |detail: Value| delta(json!({"reasoning_details": [detail]}));
    let mut events = vec![
        seal(json!({"type": "reasoning.text", "index": 0, "text": "a"})),
        seal(json!({"type": "reasoning.text", "index": 0, "text": "b", "signature": "sig"})),
        delta(json!({"content": "Let me look. "})),
        delta(call(0, "call_1", "bash", "")),
        delta(part(0, "{\"command\": ")),
        delta(call(1, "", "list_dir", "[1]")),
        delta(part(0, "\"ls\"}")),
        delta(call(1, "call_3", "bash", "{broken")),
    ];
    events.extend(end("tool_calls"));
    stage.says(CHAT, [Reply::events(&events), whole(json!({"content": "done"}))]);
    let models = openrouter(&stage);
    let first = round("m", "look");
    let (heard, recorder) = hear(&models, &first).await;
    assert_eq!(
        wanted(&heard),
        [("call_1", "bash", r#"{"command": "ls"}"#), ("call_3", "list_dir", "{}")],
        "an id that comes late belongs to the call of its index"
    );
    assert_eq!(recorder.stage_names(), ["request", "response_raw", "tool_calls"]);

    let outputs = [(r#"{"status":"ok"}"#, None), (r#""no""#, Some("it broke"))];
    let second = next(&first, "Let me look. ", heard.calls, &outputs);
    let (_, recorder) = hear(&models, &second).await;
    assert_eq!(recorder.stage("request")["toolRound"], 2);
    let tool_call = |id: &str, name: &str, arguments: &str| json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}});
    assert_eq!(
        stage.provider.requests_of(CHAT)[1].body["messages"].as_array().expect("messages")[2..],
        [
            json!({
                "role": "assistant", "content": "Let me look.",
                "tool_calls": [tool_call("call_1", "bash", r#"{"command": "ls"}"#), tool_call("call_3", "list_dir", "{}")],
                "reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "ab", "signature": "sig"}],
            }),
            json!({"role": "tool", "tool_call_id": "call_1", "content": r#"{"output":{"status":"ok"}}"#}),
            json!({"role": "tool", "tool_call_id": "call_3", "content": r#"{"error":"it broke","output":"no"}"#}),
        ]
    );
}

#[tokio::test]
async fn calls_without_ids_get_generated_ones() {
    let stage = Stage::new().await;
    let call =
        |id: &str, name: &str| json!({"id": id, "type": "function", "function": {"name": name, "arguments": "{}"}});
    stage.says(CHAT, [whole(json!({"content": null, "tool_calls": [call("c1", "bash"), call("", "list_dir")]}))]);
    let (heard, _) = hear(&openrouter(&stage), &round("m", "go")).await;
    assert_eq!(wanted(&heard), [("c1", "bash", "{}"), ("list_dir-1-1", "list_dir", "{}")]);
}

#[tokio::test]
async fn errors_inside_a_reply_are_errors() {
    let stage = Stage::new().await;
    let error = json!({"error": {"code": 502, "message": format!("upstream said {KEY}")}});
    stage.says(CHAT, [Reply::json(&error), Reply::events(&[delta(json!({"content": "a"})), error])]);
    let models = openrouter(&stage);
    assert_eq!(fails(&models, &round("m", "a")).await, "502 upstream said ***");
    assert_eq!(fails(&models, &round("m", "b")).await, "OpenRouter stream failed: upstream said ***");
}

#[tokio::test]
async fn the_catalogue_is_sorted_and_mapped() {
    let stage = Stage::new().await;
    let models = json!({"data": [
        {"id": "beta/tiny-1", "name": "beta: Tiny 1", "supported_parameters": ["tools"], "context_length": 8000},
        {"id": "acme/think-1", "name": "Acme: Think 1", "description": "reasons",
            "supported_parameters": ["tools", "include_reasoning"], "top_provider": {"context_length": 128_000}},
        {"name": "no id"},
        "nonsense",
    ]});
    let endpoint = json!({"tag": "acme", "provider_name": "Acme Cloud"});
    let endpoints = json!({"data": [{"id": "beta/tiny-1", "endpoints": [endpoint]}]});
    stage.says("/or/models", [Reply::json(&models), Reply::json(&models)]);
    stage.says("/or/models/endpoints", [Reply::json(&endpoints), Reply::text("no").with_status(500)]);
    let openrouter = openrouter(&stage);
    let options = serde_json::to_value(openrouter.catalogue().await.expect("a catalogue")).expect("options are JSON");
    assert_eq!(
        options,
        json!([
            {"id": "acme/think-1", "provider": "openrouter", "label": "Acme: Think 1", "description": "reasons",
                "supportedThinkingLevels": ["OFF", "MINIMAL", "LOW", "MEDIUM", "HIGH"], "defaultThinkingLevel": "MEDIUM",
                "routingProviders": [], "contextWindowTokens": 128_000},
            {"id": "beta/tiny-1", "provider": "openrouter", "label": "beta: Tiny 1", "description": "",
                "supportedThinkingLevels": ["OFF"], "defaultThinkingLevel": "OFF",
                "routingProviders": ["acme", "acme-cloud"], "contextWindowTokens": 8000},
        ])
    );
    let options = openrouter.catalogue().await.expect("the catalogue works without routing providers");
    assert_eq!(options[1].routing_providers, Some(Vec::new()));
}

#[tokio::test]
async fn routing_providers_of_a_model_can_be_fetched() {
    let stage = Stage::new().await;
    let endpoints = json!({"data": {"endpoints": [
        {"tag": "acme/fp8", "provider_name": "Acme Cloud"}, {"provider_name": "Beta_Host Inc."},
    ]}});
    stage.says("/or/models/acme/plain-1/endpoints", [Reply::json(&endpoints)]);
    stage.says("/or/models/Some_Author/m/endpoints", [Reply::json(&json!({"data": {"endpoints": []}}))]);
    stage.says("/or/models/a/b%2Fc/endpoints", [Reply::text("nope").with_status(404)]);
    let models = openrouter(&stage);
    assert_eq!(models.routing_providers("acme/plain-1").await.unwrap(), ["acme-cloud", "acme/fp8", "beta-host-inc"]);
    assert_eq!(models.routing_providers("Some_Author/m").await.unwrap(), ["some-author"]);
    assert!(models.routing_providers("plain").await.unwrap().is_empty());
    let error = models.routing_providers("a/b/c").await.unwrap_err().to_string();
    assert_eq!(error, "OpenRouter model endpoints fetch failed (404): nope");
}
