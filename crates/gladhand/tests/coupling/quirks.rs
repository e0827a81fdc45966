//! Habits that servers in the field have, each behind the bridge.

use serde_json::{Value, json};

use crate::bridge::{Client, Era, Script, everything, until};
use crate::support::{MCP_INITIALIZED, Process, gladhand, mcp_initialize};

fn old(habits: &[&str]) -> Client {
    Client::with(Era::Stateless, Script::of(Era::Handshake, habits), everything(), &[])
}

/// The whole of a session, in short.
fn works(mut client: Client) {
    assert!(client.tools().contains(&"echo".to_owned()));
    assert_eq!(client.text("echo"), "grüezi");
    assert_eq!(client.text("ask"), "Hello, ada!");
    client.close();
}

#[test]
fn a_question_that_cannot_be_undone_is_asked_in_a_process_of_its_own() {
    works(old(&["never-forgets"]));
}

#[test]
fn a_server_that_dies_of_the_discovery_request_is_opened() {
    works(old(&["dies-of-questions"]));
}

#[test]
fn a_server_that_ignores_the_discovery_request_is_opened() {
    works(old(&["ignores-questions"]));
}

#[test]
fn a_server_that_accepts_the_wrong_era_is_opened_in_its_own() {
    let client = old(&["serves-the-wrong-era"]);
    let calls = |client: &Client| client.script.requests("tools/list");
    let mut client = client;
    assert_eq!(client.text("echo"), "grüezi");
    assert!(calls(&client).iter().all(|call| !call.to_string().contains("io.modelcontextprotocol/")));
    assert_eq!(client.script.requests("initialize").len(), 1);
    works(client);
}

#[test]
fn a_server_that_ignores_unknown_members_gets_none() {
    let script = Script::of(Era::Handshake, &["drops-silently"]);
    let mut client = Client::with(Era::Handshake, script, everything(), &[]);
    let params = json!({"name": "echo", "arguments": {"message": "x"}, "unheard": null});
    let call = json!({"jsonrpc": "2.0", "id": 70, "method": "tools/call", "params": params, "extra": 1});
    client.process.send(&call.to_string());
    assert_eq!(client.answer_to(70)["result"]["content"][0]["text"], "x");
    client.process.send(r#"{"jsonrpc":"2.0","id":71,"method":"tools/list","params":null}"#);
    assert!(client.answer_to(71)["id"] == 71);
    works(client);
}

#[test]
fn calls_under_one_id_are_two_calls_for_the_server() {
    for server in Era::BOTH {
        let mut client = Client::open(Era::Handshake, server);
        let call = crate::support::mcp_call(7, "echo", r#"{"message":"x"}"#);
        client.process.send(&call);
        client.process.send(&call);
        let answers = [client.process.value(), client.process.value()];
        assert!(answers.iter().all(|answer| answer["id"] == 7), "{answers:?}");
        let calls = client.script.requests("tools/call");
        let ids: std::collections::BTreeSet<String> = calls.iter().map(|call| call["id"].to_string()).collect();
        assert_eq!(ids.len(), calls.len(), "ids of ours are used once");
        works(client);
    }
}

#[test]
fn an_error_of_code_0_is_an_error_with_its_words() {
    for era in Era::BOTH {
        for server in Era::BOTH {
            let mut client = Client::open(era, server);
            let failed = client.call("code0", json!({}));
            assert_eq!(failed["error"]["message"], "nothing in particular", "{failed}");
            works(client);
        }
    }
}

#[test]
fn late_answers_to_a_cancelled_call_are_dropped() {
    for era in Era::BOTH {
        let script = Script::of(Era::Handshake, &["answers-cancelled"]);
        let mut client = Client::with(era, script, everything(), &[]);
        client.meta = json!({"progressToken": "p"});
        let id = client.send("tools/call", json!({"name": "linger", "arguments": {}}));
        client.hear_of("notifications/progress");
        client.notify("notifications/cancelled", json!({"requestId": id}));
        client.meta = json!({});
        until("the server knows of it", || client.text("lingered") == "1");
        assert_eq!(client.heard, Vec::<Value>::new());
        works(client);
    }
}

#[test]
fn early_messages_of_a_server_do_not_disturb_the_opening() {
    for era in Era::BOTH {
        let script = Script::of(Era::Handshake, &["speaks-first"]);
        let mut client = Client::with(era, script, everything(), &[]);
        assert_eq!(client.text("echo"), "grüezi");
        if era == Era::Handshake {
            let watched = client.request("resources/subscribe", json!({"uri": "test://watched"}));
            assert!(watched.get("result").is_some(), "{watched}");
        }
        client.heard.clear();
        works(client);
    }
}

/// A server that writes the members of its definitions and results in an order of its own.
const UNUSUAL_ORDER: &str = r#"
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/^{"jsonrpc":"2.0","id":\([0-9]*\),.*/\1/p')
  case "$line" in
    *'"method":"initialize"'*) result='{"protocolVersion":"2025-06-18","capabilities":{"tools":{},"prompts":{},"resources":{}},"serverInfo":{"name":"s","version":"1"}}';;
    *'"method":"tools/list"'*) result=$TOOLS;;
    *'"method":"tools/call"'*) result=$RESULT;;
    *'"method":"prompts/list"'*) result=$PROMPTS;;
    *'"method":"prompts/get"'*) result=$PROMPT;;
    *'"method":"resources/list"'*) result=$RESOURCES;;
    *'"method":"resources/read"'*) result=$CONTENTS;;
    *) result='{}';;
  esac
  [ -z "$id" ] || echo '{"jsonrpc":"2.0","id":'"$id"',"result":'"$result"'}'
done"#;

#[test]
fn members_arrive_in_the_order_of_the_server() {
    let answers = [
        (
            "TOOLS",
            "tools/list",
            r#"{"tools":[{"annotations":{"z":1,"a":2},"inputSchema":{"type":"object","properties":{}},"description":"d","x":[],"name":"t","title":"T"},{"name":"u","description":"","inputSchema":{"type":"object"}}]}"#,
        ),
        (
            "RESULT",
            "tools/call",
            r#"{"_meta":{"k":1},"structuredContent":{"b":1,"a":2},"x":1,"content":[{"text":"hi","type":"text"}]}"#,
        ),
        (
            "PROMPTS",
            "prompts/list",
            r#"{"prompts":[{"arguments":[{"required":true,"name":"a"}],"name":"t","description":"d"}]}"#,
        ),
        (
            "PROMPT",
            "prompts/get",
            r#"{"description":"d","messages":[{"content":{"type":"text","text":"x"},"role":"user"}]}"#,
        ),
        ("RESOURCES", "resources/list", r#"{"resources":[{"mimeType":"text/plain","name":"r","uri":"test://r"}]}"#),
        ("CONTENTS", "resources/read", r#"{"_meta":{"k":1},"contents":[{"text":"x","uri":"test://r"}]}"#),
    ];
    let mut command = gladhand();
    command.args(["bridge", "--", "sh", "-c", UNUSUAL_ORDER]);
    command.envs(answers.iter().map(|(variable, _, result)| (variable, result)));
    let mut bridge = Process::start(command);
    assert!(bridge.ask(&mcp_initialize("2025-06-18"))["result"].is_object());
    bridge.send(MCP_INITIALIZED);
    for (id, (_, method, result)) in answers.iter().enumerate() {
        let params = r#"{"name":"t","uri":"test://r","arguments":{}}"#;
        bridge.send(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#));
        assert_eq!(bridge.line().trim_end(), format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#), "{method}");
    }
}
