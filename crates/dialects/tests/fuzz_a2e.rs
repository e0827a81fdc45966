//! Fuzz tests of A2E: any input gives no panic, valid ASCII lines, and one final message for every request.

use std::collections::BTreeMap;
use std::time::Duration;

use gladhand_core::Secret;
use gladhand_core::operations::{Call, CallId, Failure, FailureKind, Notice, Operation, Progress};
use gladhand_core::wire::Line;
use gladhand_dialects::Server as _;
use gladhand_dialects::testing::{Counting, TestServer, answer, client_setup, moment, server_setup};
use gladhand_dialects::{Ambient, Event, Heard, Menu, Pass, ServerSetup, a2e::DIALECT, a2e::registry::TYPES};
use proptest::prelude::*;
use serde_json::{Value, json};

fn host() -> TestServer {
    let menu = Menu { capabilities: DIALECT.carried.to_vec(), ..server_setup().menu };
    let passes = vec![Pass::any(Secret::new("t"))];
    let setup = ServerSetup { max_parallel: 2, max_in_flight: 4, menu, passes, ..server_setup() };
    let mut server = TestServer::pinned(&DIALECT, setup);
    server.answers_itself = false;
    server
}

/// Valid lines, as the start of mutations.
fn session() -> Vec<String> {
    let lines = [
        json!({"a2e": "1.0", "type": "handshake/req", "id": "0", "agent_id": "x", "agent_caps": ["tools", "env", "memory", "proc", "mcp"], "auth_token": "t"}),
        json!({"type": "ping", "id": "1", "ts": 1.5}),
        json!({"type": "tool/list/req", "id": "2", "query": "e", "filter_tags": [], "include_deferred": true}),
        json!({"type": "tool/call/req", "id": "3", "tool_name": "echo", "arguments": {"message": "é"}, "streaming": true, "timeout": 2}),
        json!({"type": "tool/call/req", "id": "4", "tool_name": "fail", "arguments": {"message": "no"}}),
        json!({"type": "tool/call/req", "id": "5", "tool_name": "nope", "arguments": {}}),
        json!({"type": "tool/call/req", "id": "6", "tool_name": "echo", "arguments": {}, "session_id": "other"}),
        json!({"type": "memory/init/req", "id": "7"}),
        json!({"type": "proc/spawn/req", "id": "7a", "cmd": ["ls"], "env": {"A": "b"}}),
        json!({"type": "proc/kill/req", "id": "7b", "proc_id": "p"}),
        json!({"type": "env/reset/req", "id": "7c", "env_name": "e", "seed": 5.0}),
        json!({"type": "mcp/sample/resp", "id": "7d", "req_id": "q", "content": {}}),
        json!({"type": "planning/plan/list", "id": "7e"}),
        json!({"type": "shutdown", "id": "8", "timeout": 1}),
    ];
    lines.iter().map(ToString::to_string).collect()
}

/// Resolves, reports on or times out a call, depending on `choice`.
fn stir(server: &mut TestServer, choice: u8) -> Vec<String> {
    match choice % 5 {
        0 | 1 if !server.delivered.is_empty() => {
            let at = usize::from(choice / 5) % server.delivered.len();
            let delivered = server.delivered.remove(at).expect("the index must be within the delivered calls");
            let outcome = answer(&delivered.call, &delivered.agreement);
            server.resolve(delivered.call.id, outcome)
        }
        2 => {
            let progress = Progress { progress: f64::from(choice), total: None, message: None };
            let call = server.delivered.front().map_or(CallId(1), |delivered| delivered.call.id);
            server.notify(Notice::Progress(call, progress))
        }
        3 => server.advance(Duration::from_millis(u64::from(choice) * 10)),
        4 => {
            // Usually an unknown call; sometimes a call in flight, which then has its outcome.
            let call = CallId(u64::from(choice));
            server.delivered.retain(|delivered| delivered.call.id != call);
            server.resolve(call, Err(Failure::new(FailureKind::Internal, "stray")))
        }
        _ => Vec::new(),
    }
}

fn drain(server: &mut TestServer) -> Vec<String> {
    let mut lines = Vec::new();
    while !server.delivered.is_empty() {
        lines.extend(server.resolve_next());
    }
    assert!(server.door.in_flight().is_empty(), "all delivered calls must be resolved");
    lines
}

fn check(lines: &[String]) {
    // The lines were already checked to be JSON.
    for line in lines {
        assert!(line.is_ascii(), "{line}");
    }
}

/// Feeds bytes as lines to both sides.
fn no_panic(bytes: &[u8]) {
    let mut server = host();
    for (at, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        check(&server.frame(Line::Bytes(line)));
        check(&stir(&mut server, at as u8));
    }
    let mut agent = (DIALECT.client)(client_setup("1.0"));
    let (mut entropy, mut heard) = (Counting::default(), Heard::default());
    let mut ambient = Ambient::new(moment(Duration::ZERO), &mut entropy);
    agent.open(&mut ambient, &mut heard);
    for line in bytes.split(|byte| *byte == b'\n') {
        if let Ok(Some(text)) = DIALECT.text.read(Line::Bytes(line)) {
            agent.handle_line(&text, &mut ambient, &mut heard);
        }
        agent.call(Call::new(CallId(1), Operation::ListTools).reporting(), None, &mut ambient, &mut heard);
        agent.cancel(CallId(1), &mut ambient, &mut heard);
    }
    agent.handle_disconnect(&mut ambient, &mut heard);
    let answered = heard.events.iter().filter(|event| matches!(event, Event::Answered(..))).count();
    assert_eq!(answered, bytes.split(|byte| *byte == b'\n').count(), "each call must have one outcome");
}

/// The session with bytes replaced, inserted and removed.
fn mutated(edits: &[(u16, u8, u8)]) -> Vec<u8> {
    let mut bytes = session().join("\n").into_bytes();
    for &(at, what, byte) in edits {
        let at = usize::from(at) % bytes.len().max(1);
        match what % 3 {
            0 if at < bytes.len() => bytes[at] = byte,
            1 => bytes.insert(at, byte),
            _ if at < bytes.len() => {
                bytes.remove(at);
            }
            _ => {}
        }
    }
    bytes
}

#[test]
fn arbitrary_bytes_and_mutated_sessions() {
    bolero::check!().with_type::<(Vec<u8>, Vec<(u16, u8, u8)>)>().with_iterations(1000).for_each(|(bytes, edits)| {
        no_panic(bytes);
        no_panic(&mutated(edits));
    });
}

/// A field value of any kind.
fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,6}".prop_map(Value::from),
        Just(json!(["tools"])),
        Just(json!({"message": "m"})),
        Just(json!("echo")),
        Just(json!("t")),
    ]
}

/// A request of any type with any fields. The test sets its id later.
fn request() -> impl Strategy<Value = Value> {
    let names: Vec<_> = TYPES.iter().map(|message| message.name).collect();
    let name = prop_oneof![
        3 => Just("tool/call/req"),
        1 => Just("tool/list/req"),
        1 => Just("handshake/req"),
        1 => Just("ping"),
        2 => proptest::sample::select(names),
        1 => Just("no/such/type"),
    ];
    let fields = [
        "agent_caps",
        "auth_token",
        "arguments",
        "tool_name",
        "timeout",
        "streaming",
        "query",
        "session_id",
        "a2e",
        "ts",
    ];
    let fields = proptest::collection::btree_map(proptest::sample::select(fields.to_vec()), value(), 0..4);
    (name, any::<bool>(), fields).prop_map(|(name, sound, fields)| {
        let mut message = json!({"type": name});
        if sound {
            message["arguments"] = json!({"message": "m"});
            message["tool_name"] = json!("echo");
            message["agent_caps"] = json!(["tools"]);
            message["auth_token"] = json!("t");
        } else {
            for (name, value) in fields {
                message[name] = value;
            }
        }
        message
    })
}

/// Whether a call skips the queue (a2e §6.6).
fn is_urgent(call: &Call<'_>) -> bool {
    match &call.operation {
        Operation::Capability(asked) => TYPES.iter().any(|row| row.name == asked.kind && row.is_urgent()),
        _ => false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_request_gets_exactly_one_final_message(
        opens in any::<bool>(),
        requests in proptest::collection::vec((request(), any::<u8>()), 1..30),
    ) {
        let mut server = host();
        let mut lines = Vec::new();
        if opens {
            lines.extend(server.bytes(session()[0].as_bytes()));
        }
        let mut expected = BTreeMap::new();
        for (at, (mut request, choice)) in requests.into_iter().enumerate() {
            let id = format!("r{at}");
            request["id"] = json!(id);
            let came = server.bytes(request.to_string().as_bytes());
            // `shutdown` gets no answer, and neither does any message after it or after the fifth refusal.
            let is_silent = request["type"] == "shutdown" && came.is_empty();
            if server.dropped.is_empty() && !is_silent {
                expected.insert(id, 0);
            }
            lines.extend(came);
            lines.extend(stir(&mut server, choice));
            prop_assert!(server.delivered.iter().filter(|delivered| !is_urgent(&delivered.call)).count() <= 2, "max_parallel");
        }
        lines.extend(drain(&mut server));
        check(&lines);
        for line in &lines {
            let message: Value = serde_json::from_str(line).unwrap();
            if message["type"] != "tool/event"
                && let Some(count) = expected.get_mut(message["req_id"].as_str().unwrap())
            {
                *count += 1;
            }
        }
        prop_assert!(expected.values().all(|count| *count == 1), "{expected:?}\n{}", lines.join("\n"));
    }
}
