//! Replays recorded peers: real clients open our server, and our client opens real servers.

use std::path::{Path, PathBuf};

use gladhand_core::negotiation::{Refusal, Side};
use gladhand_core::operations::{Call, Operation, Reply, ToolCall};
use gladhand_core::wire::json;
use gladhand_dialects::testing::client_setup;

use crate::client::Hand;
use crate::*;

struct Recorded {
    to_server: bool,
    message: Value,
    process: u64,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../transcripts/mcp")
}

fn read(path: &Path) -> Vec<Recorded> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let lines = text.lines().map(value).filter(|line| line["msg"].is_object());
    lines
        .map(|line| Recorded {
            to_server: line["dir"] == "c2s",
            message: line["msg"].clone(),
            process: line["proc"].as_u64().unwrap_or(1),
        })
        .collect()
}

fn recordings(of: impl Fn(&str) -> bool) -> Vec<(String, Vec<Recorded>)> {
    let mut all = Vec::new();
    for peer in std::fs::read_dir(folder()).unwrap().flatten().filter(|entry| entry.path().is_dir()) {
        let name = peer.file_name().into_string().unwrap();
        if of(&name) {
            for file in std::fs::read_dir(peer.path()).unwrap().flatten() {
                let scenario = file.path().file_stem().unwrap().to_str().unwrap().to_owned();
                all.push((format!("{name}/{scenario}"), read(&file.path())));
            }
        }
    }
    all.sort_by(|one, other| one.0.cmp(&other.0));
    all
}

/// Each recorded client, line by line, against a new server for each process that it started.
#[test]
fn recorded_clients_can_open_our_server() {
    let clients = recordings(|peer| peer.starts_with("client-"));
    assert!(clients.len() >= 12, "only {} recordings", clients.len());
    for (name, recorded) in clients {
        let mut echoes = 0;
        let mut server = server();
        let mut process = 1;
        for line in recorded.iter().filter(|line| line.to_server) {
            if line.process != process {
                (server, process) = (crate::server(), line.process);
            }
            let answers = server.line(&line.message.to_string());
            if line.message["id"].is_null() {
                assert_eq!(answers, NOTHING, "{name}");
                continue;
            }
            let answer = only(answers);
            assert_eq!(answer["id"], line.message["id"], "{name}");
            assert!(answer["error"].is_null(), "{name}: {answer}");
            if line.message["method"] == "tools/call" {
                assert_eq!(answer["result"]["content"][0]["text"], "hi", "{name}");
                echoes += 1;
            }
        }
        assert_eq!(server.opened.len(), 1, "{name}");
        assert_eq!(echoes, 1, "{name}");
    }
}

/// Answers our client's requests like the recorded server.
fn answer_from(recorded: &[Recorded], hand: &mut Hand, name: &str) {
    for sent in hand.take_sent() {
        if sent["id"].is_null() {
            continue;
        }
        let same = |line: &&Recorded| {
            line.to_server
                && line.message["method"] == sent["method"]
                && line.message["params"]["arguments"] == sent["params"]["arguments"]
        };
        let asked =
            recorded.iter().find(same).unwrap_or_else(|| panic!("the recording of {name} has no request {sent}"));
        let answer = recorded.iter().find(|line| {
            !line.to_server && line.message["id"] == asked.message["id"] && line.message["method"].is_null()
        });
        let mut answer =
            answer.unwrap_or_else(|| panic!("the recording of {name} has no answer to {sent}")).message.clone();
        answer["id"] = sent["id"].clone();
        hand.hears(&answer.to_string());
    }
}

#[test]
fn our_client_can_open_recorded_servers() {
    let servers = recordings(|peer| !peer.starts_with("client-"));
    assert!(servers.len() >= 30, "only {} recordings", servers.len());
    for (name, recorded) in servers {
        let asked = name.rsplit_once('/').unwrap().1;
        let version = asked.strip_prefix("legacy_").unwrap_or(STATELESS);
        let mut hand = Hand::new(client_setup(version));
        answer_from(&recorded, &mut hand, &name);
        let opening = hand.take_opening();
        let first = &recorded.iter().find(|line| !line.to_server).unwrap().message;
        if let Some(code) = first["error"]["code"].as_i64() {
            // Servers of the handshake era refuse the stateless opening, each with its own message.
            let message = first["error"]["message"].as_str().unwrap().to_owned();
            assert_eq!(opening.unwrap_err(), Refusal::PeerRefused { code: code.to_string(), message }, "{name}");
            continue;
        }
        let agreement = opening.unwrap_or_else(|refusal| panic!("{name}: {refusal}"));
        let declared = &first["result"]["capabilities"];
        let spoken = first["result"]["protocolVersion"].as_str().unwrap_or(STATELESS);
        assert_eq!(agreement.version, spoken, "{name}");
        assert_eq!(agreement.asked_version.as_deref(), (spoken != version).then_some(version), "{name}");
        for (capability, settings) in declared.as_object().unwrap() {
            assert!(agreement.term(Side::Server, capability).is_some(), "{name} {capability}");
            for flag in ["listChanged", "subscribe"] {
                let dotted = format!("{capability}.{flag}");
                assert_eq!(agreement.allows(Side::Server, &dotted), settings[flag] == true, "{name} {dotted}");
            }
        }
        assert!(agreement.allows(Side::Server, "tools"), "{name}");

        hand.calls(1, Operation::ListTools);
        answer_from(&recorded, &mut hand, &name);
        let Ok(Reply::Tools(tools)) = hand.take_outcome(1) else { panic!("{name}") };
        assert!(tools.iter().any(|tool| tool.name == "echo"), "{name}");

        let arguments = std::borrow::Cow::Owned(json::raw(r#"{"message":"hi"}"#.to_owned()));
        let call = ToolCall { name: "echo".into(), arguments };
        hand.step(|client, ambient, heard| {
            client.call(
                Call::new(gladhand_core::operations::CallId(2), Operation::CallTool(call)),
                None,
                ambient,
                heard,
            );
        });
        answer_from(&recorded, &mut hand, &name);
        let Ok(Reply::Tool(result)) = hand.take_outcome(2) else { panic!("{name}") };
        assert!(result.joined_text().contains("hi") && !result.failed, "{name}: {result:?}");
    }
}
