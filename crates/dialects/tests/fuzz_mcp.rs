//! Fuzz tests of MCP: any input gives no panic, valid lines, and exactly one reply per request.
//!
//! Runs as an ordinary test with a limited number of cases. `cargo bolero test` explores further.

#![expect(clippy::unwrap_used, reason = "a helper of a test may panic as the test may")]

use std::collections::HashMap;
use std::time::Duration;

use gladhand_core::operations::{
    Call, CallId, Level, Log, Notice, Operation, Progress, Question, QuestionId, Reply, Update, WatchId,
};
use gladhand_core::wire::{Line, Lines, json};
use gladhand_dialects::Server as _;
use gladhand_dialects::mcp::DIALECT;
use gladhand_dialects::testing::{Counting, TestServer, bare_call, client_setup, lines_of, moment, server_setup};
use gladhand_dialects::{Ambient, Heard, Menu, ServerSetup, Stop};
use proptest::prelude::*;
use serde_json::Value;

const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}},"progressToken":"t"}"#;

/// The first request states and task ids of a server, since test ids count up.
const FIRST: &str = "00000000000000000000000000000001";
const SECOND: &str = "00000000000000000000000000000002";

/// A session that uses all features, as the start of mutations.
fn session(version: &str) -> String {
    [
        format!(r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{{"protocolVersion":"{version}","capabilities":{{"roots":{{"listChanged":true}},"elicitation":{{}}}},"clientInfo":{{"name":"f","version":"1"}}}}}}"#),
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"from-1"}}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":"2","method":"tools/call","params":{"name":"echo","arguments":{"message":"\ud83d"},"_meta":{"progressToken":1}}}"#.to_owned(),
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"2"}}"#.to_owned(),
        r#"[{"jsonrpc":"2.0","id":3,"method":"ping"},{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"fail","arguments":{"message":"x"}}}]"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":5,"method":"logging/setLevel","params":{"level":"debug"}}"#.to_owned(),
        format!(r#"{{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{{"name":"echo",{META}}}}}"#),
        format!(r#"{{"jsonrpc":"2.0","id":7,"method":"subscriptions/listen","params":{{"notifications":{{"toolsListChanged":true}},{META}}}}}"#),
        r#"{"jsonrpc":"2.0","id":8,"method":"resources/subscribe","params":{"uri":"a://b"}}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":9,"method":"resources/read","params":{"uri":"a://b"}}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":10,"method":"prompts/get","params":{"name":"p","arguments":{"x":"y"}}}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":11,"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"x","value":""}}}"#.to_owned(),
        format!(r#"{{"jsonrpc":"2.0","id":12,"method":"subscriptions/listen","params":{{"notifications":{{"resourcesListChanged":true,"resourceSubscriptions":["a://b","a://c"]}},{META}}}}}"#),
        r#"{"jsonrpc":"2.0","id":13,"method":"resources/unsubscribe","params":{"uri":"a://b"}}"#.to_owned(),
        format!(r#"{{"jsonrpc":"2.0","id":14,"method":"tools/call","params":{{"name":"echo","requestState":"{FIRST}","inputResponses":{{"q1":{{}},"k":{{}}}},{META}}}}}"#),
        r#"{"jsonrpc":"2.0","id":15,"method":"tools/call","params":{"name":"echo","task":{"ttl":1000}}}"#.to_owned(),
        format!(r#"{{"jsonrpc":"2.0","id":16,"method":"tasks/result","params":{{"taskId":"{SECOND}"}}}}"#),
        format!(r#"{{"jsonrpc":"2.0","id":17,"method":"tasks/update","params":{{"taskId":"{SECOND}","inputResponses":{{"k":{{}}}},{META}}}}}"#),
        r#"{"jsonrpc":"2.0","id":18,"method":"tasks/list","params":{"cursor":"from-1"}}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"tools":[{"name":"a"}],"content":[{"type":"text","text":"x"}]}}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"a"}],"nextCursor":"n","content":[]}}"#.to_owned(),
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":2,"progress":1}}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":3,"error":{"code":-32603,"message":"m","data":{"reason":"busy"}}}"#.to_owned(),
    ]
    .join("\n")
        + "\n"
}

/// Sends two questions to the caller of a call.
fn ask(server: &mut TestServer, call: CallId) -> Vec<String> {
    let form = Question::form("?", &serde_json::json!({"type": "object"}));
    server.ask(call, vec![(QuestionId(1), form.clone().named("k")), (QuestionId(2), form)])
}

/// Sends all kinds of notices and questions for every call.
fn tell_everything(server: &mut TestServer) -> Vec<String> {
    let calls: Vec<_> = server.delivered.iter().map(|delivered| delivered.call.id).collect();
    let mut lines = Vec::new();
    for (at, call) in calls.into_iter().enumerate() {
        if at % 2 == 1 {
            lines.extend(server.continue_as_task(call));
        }
        lines.extend(ask(server, call));
        lines.extend(server.notify(Notice::Progress(call, Progress { progress: 1.0, total: None, message: None })));
        let log = Log::new(Level::Error, None, json::raw("1".to_owned()));
        lines.extend(server.notify(Notice::Log(Some(call), log)));
    }
    for notice in [Notice::ToolsChanged, Notice::ResourcesChanged, Notice::ResourceUpdated(Update::of("a://b"))] {
        lines.extend(server.notify(notice));
    }
    lines
}

/// Resolves the oldest delivered call. Every resource can be watched, and the subscriptions are counted.
fn resolve_next(server: &mut TestServer, watched: &mut usize) {
    match &server.delivered[0].call.operation {
        Operation::Watch(_) => {
            *watched += 1;
            let call = server.delivered.pop_front().unwrap().call.id;
            server.resolve(call, Ok(Reply::Watching(WatchId(1))));
        }
        _ => {
            server.resolve_next();
        }
    }
}

fn feed_server(bytes: &[u8], hold: bool) {
    let menu = Menu {
        tasks: true,
        resources: true,
        resource_changes: true,
        resource_updates: true,
        prompts: true,
        completions: true,
        ..server_setup().menu
    };
    let setup = ServerSetup { page_size: 1, max_in_flight: 4, menu, ..server_setup() };
    let mut server = TestServer::pinned(&DIALECT, setup).holding();
    let mut watched = 0;
    let mut lines = Lines::with_limit(4096);
    lines.push(bytes);
    while let Some(line) = lines.next_line() {
        server.frame(line);
        tell_everything(&mut server);
        while !hold && !server.delivered.is_empty() {
            resolve_next(&mut server, &mut watched);
        }
    }
    server.stop(Stop::InputClosed);
    while !server.delivered.is_empty() {
        resolve_next(&mut server, &mut watched);
    }
    assert_eq!(server.door.in_flight(), Vec::new());
    assert_eq!(server.unwatched.len(), watched, "every subscription of a peer must end with it");
}

fn feed_client(bytes: &[u8], version: &str) {
    let mut client = (DIALECT.client)(client_setup(version));
    let mut entropy = Counting::default();
    let mut ambient = Ambient::new(moment(Duration::ZERO), &mut entropy);
    let mut heard = Heard::default();
    client.open(&mut ambient, &mut heard);
    let mut answers: HashMap<CallId, usize> = HashMap::new();
    let (mut lines, mut calls) = (Lines::with_limit(4096), 0);
    lines.push(bytes);
    while let Some(line) = lines.next_line() {
        match DIALECT.text.read(line) {
            Ok(Some(text)) => client.handle_line(&text, &mut ambient, &mut heard),
            Ok(None) => {}
            Err(fault) => client.handle_unreadable_line(&fault, lines.skimmed(), &mut ambient, &mut heard),
        }
        for operation in [Operation::ListTools, bare_call("a")] {
            calls += 1;
            client.call(Call::new(CallId(calls), operation).reporting(), None, &mut ambient, &mut heard);
        }
    }
    client.cancel(CallId(1), &mut ambient, &mut heard);
    client.handle_disconnect(&mut ambient, &mut heard);
    lines_of(&heard.wire);
    for event in heard.events {
        if let gladhand_dialects::Event::Answered(call, _) = event {
            *answers.entry(call).or_default() += 1;
        }
    }
    for call in 1..=calls {
        assert_eq!(answers.get(&CallId(call)), Some(&1), "outcomes of call {call} of {calls}");
    }
}

#[test]
fn mutated_sessions_never_panic() {
    bolero::check!().with_type::<(u8, Vec<(u16, u8)>, Vec<u8>)>().with_iterations(1000).for_each(
        |(choice, edits, tail)| {
            let version = DIALECT.versions[usize::from(*choice) % DIALECT.versions.len()];
            let mut bytes = session(version).into_bytes();
            for (at, byte) in edits.iter().take(8) {
                let at = usize::from(*at) % bytes.len();
                match choice & 0x30 {
                    0x10 => bytes.truncate(at + 1),
                    0x20 => bytes.insert(at, *byte),
                    _ => bytes[at] = *byte,
                }
            }
            bytes.extend_from_slice(tail);
            bytes.push(b'\n');
            feed_server(&bytes, choice & 0x80 != 0);
            feed_client(&bytes, version);
        },
    );
}

/// A request that is valid JSON-RPC, but not necessarily valid for the server.
fn requests() -> impl Strategy<Value = (&'static str, String)> {
    let methods = vec![
        "tools/call",
        "tools/call",
        "tools/call",
        "tools/list",
        "ping",
        "initialize",
        "logging/setLevel",
        "server/discover",
        "subscriptions/listen",
        "prompts/list",
        "prompts/get",
        "resources/read",
        "tasks/get",
        "tasks/result",
        "tasks/cancel",
        "tasks/update",
        "tasks/list",
        "notifications/initialized",
        "x.y",
    ];
    let params = vec![
        r#""name":"echo","arguments":{"message":"m"}"#,
        r#""name":"echo","arguments":{"message":"m"},"task":{"ttl":5}"#,
        r#""name":"echo","arguments":{"message":"m"},"inputResponses":{"k":{},"q2":{}}"#,
        r#""name":"echo","arguments":{"message":"m"},"inputResponses":{"k":{}},"requestState":"00000000000000000000000000000001""#,
        r#""name":"echo","arguments":{"message":"m"},"inputResponses":{},"requestState":"00000000000000000000000000000002""#,
        r#""taskId":"00000000000000000000000000000001","inputResponses":{"k":{},"q2":{}}"#,
        r#""taskId":"00000000000000000000000000000002","inputResponses":{}"#,
        r#""name":"nope""#,
        r#""name":7"#,
        r#""cursor":"from-1""#,
        r#""cursor":"bad""#,
        r#""level":"info""#,
        r#""notifications":{"toolsListChanged":true}"#,
        r#""protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"p","version":"1"}"#,
    ];
    let meta = vec![
        "",
        META,
        r#""_meta":{"progressToken":9}"#,
        r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2099-01-01"}"#,
        r#""_meta":{"io.modelcontextprotocol/clientCapabilities":{"roots":{}}}"#,
        r#""_meta":7"#,
    ];
    let select = proptest::sample::select::<&'static str>;
    (select(methods), select(params), select(meta)).prop_map(|(method, params, meta)| {
        let comma = if meta.is_empty() { "" } else { "," };
        (method, format!("{{{params}{comma}{meta}}}"))
    })
}

#[derive(Debug, Clone)]
enum Step {
    Send((&'static str, String)),
    Batch(Vec<(&'static str, String)>),
    Cancel(prop::sample::Index),
    Resolve(prop::sample::Index),
    Ask(prop::sample::Index),
    GoOnAsTask(prop::sample::Index),
    Respond(u64),
    Wait,
    Tell,
    Initialized,
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => requests().prop_map(Step::Send),
        2 => proptest::collection::vec(requests(), 1..4).prop_map(Step::Batch),
        1 => any::<prop::sample::Index>().prop_map(Step::Cancel),
        4 => any::<prop::sample::Index>().prop_map(Step::Resolve),
        2 => any::<prop::sample::Index>().prop_map(Step::Ask),
        2 => any::<prop::sample::Index>().prop_map(Step::GoOnAsTask),
        2 => (1u64..6).prop_map(Step::Respond),
        1 => Just(Step::Wait),
        1 => Just(Step::Tell),
        1 => Just(Step::Initialized),
    ]
}

/// Counts the replies in lines by id, including those in batches.
fn count(lines: Vec<String>, replies: &mut HashMap<u64, usize>) {
    for line in lines {
        let line: Value = serde_json::from_str(&line).unwrap();
        let parts = line.as_array().cloned().unwrap_or_else(|| vec![line]);
        for part in parts {
            // A question of ours has an id too, but is not a reply.
            if let Some(id) = part["id"].as_u64().filter(|_| part["method"].is_null()) {
                assert!(part.get("result").is_some() != part.get("error").is_some(), "{part}");
                *replies.entry(id).or_default() += 1;
            } else {
                // A notification of ours, or the refusal of a whole batch.
                assert!(part["method"].is_string() || part["error"]["code"] == -32600, "{part}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn every_request_gets_exactly_one_reply(
        opening in 0usize..6, steps in proptest::collection::vec(steps(), 0..24)
    ) {
        let menu = Menu { tasks: true, prompts: true, resources: true, ..server_setup().menu };
        let setup = ServerSetup { menu, page_size: 1, max_in_flight: 5, ..server_setup() };
        let mut server = TestServer::pinned(&DIALECT, setup).holding();
        let has_batches = opening == 1;
        if let Some(version) = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"].get(opening) {
            for line in session(version).lines().take(2) {
                server.line(line);
            }
        }
        let (mut sent, mut cancelled, mut replies) = (0u64, Vec::new(), HashMap::new());
        let mut next = |(method, params): &(&str, String)| {
            sent += 1;
            format!(r#"{{"jsonrpc":"2.0","id":{sent},"method":"{method}","params":{params}}}"#)
        };
        let mut latest = 0;
        for step in &steps {
            let lines = match step {
                Step::Send(request) => {
                    latest += 1;
                    server.line(&next(request))
                }
                Step::Batch(requests) if has_batches => {
                    latest += requests.len() as u64;
                    let parts: Vec<_> = requests.iter().map(&mut next).collect();
                    server.line(&format!("[{}]", parts.join(",")))
                }
                Step::Batch(_) => Vec::new(),
                Step::Cancel(at) if latest > 0 => {
                    let id = at.index(latest as usize) as u64 + 1;
                    cancelled.push(id);
                    server.line(&format!(
                        r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#
                    ))
                }
                Step::Cancel(_) => Vec::new(),
                Step::Resolve(at) if !server.delivered.is_empty() => {
                    let at = at.index(server.delivered.len());
                    server.delivered.rotate_left(at);
                    server.resolve_next()
                }
                Step::Resolve(_) => Vec::new(),
                Step::Ask(at) if !server.delivered.is_empty() => {
                    let call = server.delivered[at.index(server.delivered.len())].call.id;
                    ask(&mut server, call)
                }
                Step::GoOnAsTask(at) if !server.delivered.is_empty() => {
                    let call = server.delivered[at.index(server.delivered.len())].call.id;
                    server.continue_as_task(call)
                }
                Step::Ask(_) | Step::GoOnAsTask(_) => Vec::new(),
                Step::Respond(id) => server.line(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#)),
                Step::Wait => server.advance(Duration::from_secs(400)),
                Step::Tell => tell_everything(&mut server),
                Step::Initialized => server.line(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#),
            };
            count(lines, &mut replies);
        }
        count(server.stop(Stop::Terminated), &mut replies);
        while !server.delivered.is_empty() {
            count(server.resolve_next(), &mut replies);
        }
        prop_assert_eq!(server.door.in_flight(), Vec::new());
        prop_assert_eq!((server.door.held_bytes(), server.door.poll_timeout()), (0, None), "no data may be left after the session");
        for id in 1..=latest {
            let got = replies.get(&id).copied().unwrap_or_default();
            let least = usize::from(!cancelled.contains(&id));
            prop_assert!((least..=1).contains(&got), "request {id} got {got} replies\n{steps:#?}");
        }
        prop_assert!(replies.keys().all(|id| *id <= latest), "every reply must belong to a request");
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), version in 0usize..5) {
        feed_server(&bytes, true);
        feed_client(&bytes, DIALECT.versions[version]);
        let mut server = TestServer::pinned(&DIALECT, server_setup());
        server.frame(Line::Bytes(&bytes));
    }
}
