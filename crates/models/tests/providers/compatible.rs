use gladhand_models::scripted::Reply;
use gladhand_models::{Compatible, Thinking, detect};
use serde_json::json;

use crate::stage::{Stage, fails, hear, key, round};

const CHAT: &str = "/v1/chat/completions";

#[tokio::test]
async fn a_server_without_a_key_gets_no_credential() {
    let stage = Stage::new().await;
    let events = [
        json!({"choices": null, "usage": null, "error": null}),
        json!({"choices": [{"delta": {"content": null, "reasoning_content": "hm", "tool_calls": null}}]}),
        json!({"choices": [{"delta": {"content": "hello"}, "finish_reason": "stop"}]}),
    ];
    stage.says(CHAT, [Reply::events(&events), Reply::events(&events)]);
    let open = Compatible::new(stage.web.clone(), "ollama", &stage.at("/v1"), None).unwrap();
    let mut asked = round("llama", "hi");
    let (_, recorder) = hear(&open, &asked).await;
    assert_eq!((recorder.thoughts(), recorder.answers()), (vec![("hm", "hm")], vec!["hello"]));
    asked.thinking = Thinking::High;
    let closed = Compatible::new(stage.web.clone(), "house", &stage.at("/v1"), Some(key())).unwrap();
    hear(&closed, &asked).await;
    let requests = stage.provider.requests();
    assert!(!requests[0].headers.contains_key("authorization"));
    assert!(requests[1].headers.contains_key("authorization"));
    let efforts = [&requests[0].body["reasoning_effort"], &requests[1].body["reasoning_effort"]];
    assert_eq!(efforts, [&json!(null), &json!("high")]);
    assert!(requests[0].body.get("include_reasoning").is_none(), "what only OpenRouter knows is not said elsewhere");
}

#[tokio::test]
async fn error_messages_name_the_server() {
    let stage = Stage::new().await;
    stage.says(CHAT, [Reply::json(&json!({"error": "model 'x' not found"})).with_status(404), Reply::events(&[])]);
    let models = Compatible::new(stage.web.clone(), "ollama", &stage.at("/v1"), None).unwrap();
    assert_eq!(fails(&models, &round("x", "hi")).await, "404 model 'x' not found");
    assert_eq!(fails(&models, &round("x", "hi")).await, "ollama stream ended before the reply was complete.");
}

#[tokio::test]
async fn a_server_on_this_machine_is_found_if_it_has_models() {
    let stage = Stage::new().await;
    stage.says("/empty/models", [Reply::json(&json!({"object": "list", "data": []}))]);
    stage.says("/other/models", [Reply::text("<html>It works!</html>")]);
    stage.says("/silent/models", [Reply::stalled()]);
    let list = json!({"data": [{"id": "b"}, {"id": "a", "meta": {"n_ctx_train": 4096}}]});
    stage.says("/v1/models", [Reply::json(&list)]);
    let server = |path: &str| Compatible::new(stage.web.clone(), "here", &stage.at(path), None).unwrap();
    let models = detect(&server("/v1")).await.expect("this one has models");
    let shown: Vec<_> = models.iter().map(|model| (model.id.as_str(), model.context_window_tokens)).collect();
    assert_eq!(shown, [("a", Some(4096)), ("b", None)]);
    for path in ["/empty", "/other", "/silent", "/never"] {
        assert!(detect(&server(path)).await.is_none(), "{path}");
    }
}
