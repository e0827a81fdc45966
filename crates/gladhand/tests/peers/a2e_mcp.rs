//! A real server that an agent of A2E registers.

use gladhand::providers::a2e_mcp::RegistrationLimits;
use gladhand::wire::json;
use serde_json::{Value, json};

use crate::installed::peers;
use crate::stage::Stage;

#[tokio::test]
async fn every_feature_of_server_everything_is_available_after_registration() {
    let script = peers().join("npm/node_modules/@modelcontextprotocol/server-everything/dist/index.js");
    let node = peers().join("bin/node");
    let command = [&node, &script].map(|path| path.to_str().expect("paths are UTF-8").to_owned()).to_vec();
    let stage =
        Stage::new(RegistrationLimits { commands: vec![command.clone()], ..RegistrationLimits::default() }, Vec::new());
    let mut cmd = command;
    cmd.push("stdio".to_owned());
    let registered = stage.register(json!({"server_id": "every", "cmd": cmd})).await;
    assert_eq!((&registered["ok"], &registered["server"]["status"]), (&json!(true), &json!("ready")), "{registered}");
    assert_eq!(registered["server"]["server_name"], "mcp-servers/everything");

    assert_eq!(stage.data("every__echo", &json!({"message": "hi"})).await["text"], "Echo: hi");
    let image = stage.data("every__get-tiny-image", &json!({})).await;
    assert_eq!(image["images"].as_array().map(Vec::len), Some(1));
    let research = stage.data("every__simulate-research-query", &json!({"topic": "x"})).await;
    assert!(research["text"].as_str().is_some_and(|text| text.contains("Research")), "{research}");

    // It has tools for those who can be asked only after the opening, and says so.
    stage.pushed("notifications/tools/list_changed").await;
    let mut changes = stage.hub.changes();
    while !stage.tools().await.iter().any(|tool| tool.name == "every__trigger-sampling-request") {
        changes.recv().await.expect("the hub is there");
    }
    let said = json!({"role": "assistant", "content": {"type": "text", "text": "forty-two"}, "model": "m"});
    *stage.agent.answer.lock().unwrap() = Some(json::to_raw(&said));
    let sampled = stage.data("every__trigger-sampling-request", &json!({"prompt": "?"})).await;
    assert!(sampled["text"].as_str().is_some_and(|text| text.contains("forty-two")), "{sampled}");

    let prompts = stage.ask("mcp/prompt/list/req", json!({})).await.unwrap();
    assert!(prompts["prompts"].as_array().unwrap().iter().any(|prompt| prompt["name"] == "simple-prompt"));
    let filled = stage.ask("mcp/prompt/get/req", json!({"name": "simple-prompt"})).await.unwrap();
    assert_eq!(filled["messages"][0]["role"], "user");
    let resources = stage.ask("mcp/resource/list/req", json!({"server_id": "every"})).await.unwrap();
    let uri: &Value = &resources["resources"][0]["uri"];
    let read = stage.ask("mcp/resource/read/req", json!({"uri": uri})).await.unwrap();
    assert!(read["contents"][0]["text"].as_str().is_some_and(|text| !text.is_empty()), "{read}");
    let subscribed = stage.ask("mcp/resource/subscribe/req", json!({"uri": uri})).await.unwrap();
    assert_eq!(subscribed, json!({"ok": true, "error": ""}));
    let gone = stage.ask("mcp/server/unregister/req", json!({"server_id": "every"})).await.unwrap();
    assert_eq!(gone["ok"], true);
}
