//! An upstream is opened as the client in front of it: in that client's era and revision, under its name, with what it declares.

use serde_json::{Value, json};

use crate::bridge::{Client, Era, HANDSHAKE, STATELESS, Script, client_info, everything, until};

/// The client information that a server received, in `initialize` or in a stateless request.
fn told(script: &Script, server: Era) -> Value {
    match server {
        Era::Handshake => script.requests("initialize").last().expect("it was opened")["params"].clone(),
        Era::Stateless => {
            let call = script.requests("tools/call").pop().expect("it was called");
            let meta = |name: &str| call["params"]["_meta"][format!("io.modelcontextprotocol/{name}")].clone();
            json!({"clientInfo": meta("clientInfo"), "capabilities": meta("clientCapabilities")})
        }
    }
}

#[test]
fn a_server_of_both_eras_is_spoken_to_in_the_revision_of_its_client() {
    for (era, version) in [
        (Era::Handshake, Some("2025-06-18")),
        (Era::Handshake, Some("2024-11-05")),
        (Era::Handshake, None),
        (Era::Stateless, None),
    ] {
        let script = Script::of(Era::Stateless, &["speaks-both"]);
        let mut client = Client::speaking(era, version, script, everything(), &[]);
        assert_eq!(client.text("echo"), "grüezi");
        let opened: Vec<_> = client.script.requests("initialize");
        let versions: Vec<_> = opened.iter().map(|opened| opened["params"]["protocolVersion"].clone()).collect();
        match era {
            Era::Handshake => assert_eq!(versions, [version.unwrap_or(HANDSHAKE)], "{version:?}"),
            Era::Stateless => assert_eq!(versions, [""; 0], "{version:?}"),
        }
        assert_eq!(client.script.processes().len(), 1, "{era:?} {version:?}: it is started once");
        client.close();
    }
}

#[test]
fn an_unknown_revision_is_answered_with_a_handshake_revision() {
    let script = Script::of(Era::Stateless, &["speaks-both"]);
    let mut process = crate::support::Process::start(script.bridge(&[]));
    let params = json!({"protocolVersion": "2099-01-01", "capabilities": {}, "clientInfo": client_info()});
    process.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).to_string());
    assert_eq!(process.value()["result"]["protocolVersion"], HANDSHAKE);
    assert_eq!(script.requests("initialize").len(), 1);
    assert_eq!(process.finish().0, 0);
}

#[test]
fn names_and_declarations_pass_both_ways_in_every_pair() {
    for era in Era::BOTH {
        for server in Era::BOTH {
            let mut declared = everything();
            declared["extensions"] = json!({"com.example/client": {"c": 3}});
            declared["experimental"] = json!({"client": {"d": 4}});
            let mut client = Client::with(era, Script::of(server, &[]), declared, &[]);
            assert_eq!(client.text("echo"), "grüezi");
            let told = told(&client.script, server);
            assert_eq!(told["clientInfo"], client_info(), "{era:?} to {server:?}");
            let capabilities = &told["capabilities"];
            assert_eq!(capabilities["extensions"]["com.example/client"], json!({"c": 3}), "{era:?} to {server:?}");
            assert_eq!(capabilities["experimental"], json!({"client": {"d": 4}}), "{era:?} to {server:?}");
            let opened = match era {
                Era::Handshake => client.opened.clone(),
                Era::Stateless => client.request("server/discover", json!({}))["result"].clone(),
            };
            let info = match era {
                Era::Handshake => &opened["serverInfo"],
                Era::Stateless => &opened["_meta"]["io.modelcontextprotocol/serverInfo"],
            };
            let name = format!("scripted-{}", server.name());
            let whole = json!({"name": name, "version": "7", "title": "Scripted", "websiteUrl": "https://example.org/scripted", "icons": [{"src": "https://example.org/icon.png"}]});
            assert_eq!(*info, whole, "{era:?} to {server:?}");
            let capabilities = &opened["capabilities"];
            assert_eq!(capabilities["extensions"]["com.example/server"], json!({"a": 1}), "{era:?} to {server:?}");
            assert_eq!(capabilities["experimental"], json!({"server": {"b": 2}}), "{era:?} to {server:?}");
            client.close();
        }
    }
}

#[test]
fn a_session_without_a_log_level_gets_all_log_lines_of_its_server() {
    let script = Script::of(Era::Handshake, &["logs-at-once"]);
    let mut client = Client::with(Era::Handshake, script, json!({}), &[]);
    let line = client.hear_of("notifications/message");
    assert_eq!((&line["params"]["level"], &line["params"]["data"]), (&json!("debug"), &json!("open")), "{line}");
    assert_eq!(client.script.requests("logging/setLevel"), [Value::Null; 0], "the client named no level");
    client.close();
}

#[test]
fn lists_of_a_server_depend_on_the_declared_capabilities_in_every_pair() {
    for era in Era::BOTH {
        for server in Era::BOTH {
            for (declared, has_it) in [(json!({"elicitation": {}}), true), (json!({}), false)] {
                let script = Script::of(server, &["has-a-private-tool"]);
                let mut client = Client::with(era, script, declared, &[]);
                let has = client.tools().contains(&"private".to_owned());
                assert_eq!(has, has_it, "{era:?} to {server:?}");
                client.close();
            }
        }
    }
}

#[test]
fn the_era_of_a_server_is_detected_once_and_remembered() {
    let script = Script::of(Era::Stateless, &[]);
    let data = tempfile::tempdir().expect("a folder");
    let data = data.path().to_str().expect("text");
    let mut client = Client::with(Era::Handshake, script, everything(), &["--data-dir", data]);
    assert_eq!(client.text("echo"), "grüezi");
    until("both were asked", || client.script.processes().len() == 2);
    let Client { process, script, .. } = client;
    assert_eq!(process.finish().0, 0);
    let mut again = Client::with(Era::Handshake, script, everything(), &["--data-dir", data]);
    assert_eq!(again.text("echo"), "grüezi");
    assert_eq!(again.script.processes().len(), 3, "the second time it is opened at once in its own era");
    assert_eq!(
        again.script.requests("server/discover").last().expect("asked")["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"],
        STATELESS
    );
    again.close();
}
