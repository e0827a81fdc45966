//! Replays recorded A2E exchanges against our host and our agent.
//!
//! Each recorded line of an agent is fed to our host. The answers are compared with those of the reference host by
//! their essence: types, codes, grants, lists and results, without varying values. Each intended difference has a
//! [`Deviation`], which names the section of the digest that requires it. A deviation that no longer differs fails the
//! test.

#![expect(clippy::unwrap_used, reason = "a recording that is not what it was is a failed test")]

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::time::Duration;

use gladhand_core::Secret;
use gladhand_core::negotiation::{Capability, Peer, Side};
use gladhand_core::operations::{
    Call, Content, Failure, FailureKind, Level, Log, Notice, Operation, Outcome, Progress, Reply, Tool, ToolResult,
};
use gladhand_core::wire::json::{raw, to_raw};
use gladhand_dialects::Server as _;
use gladhand_dialects::testing::{Counting, TestServer, client_setup, moment, server_setup};
use gladhand_dialects::{Ambient, ClientSetup, Event, Heard, Pass, ServerSetup, a2e::DIALECT};
use serde_json::{Value, json};

/// One line of a transcript.
struct Recorded {
    from_agent: bool,
    text: String,
    message: Value,
}

fn transcript(name: &str) -> Vec<Recorded> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../transcripts/a2e/{name}.ndjson"));
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let lines = text.lines().map(|line| {
        let line: Value = serde_json::from_str(line).unwrap();
        let message = line.get("msg").cloned().unwrap_or(Value::Null);
        let text = line.get("raw").map_or_else(|| message.to_string(), |raw| raw.as_str().unwrap().to_owned());
        Recorded { from_agent: line["dir"] == "c2s", text, message }
    });
    lines.collect()
}

/// The content of a message without its varying parts.
fn essence(message: &Value) -> String {
    let text = |name: &str| message[name].as_str().unwrap_or_default().to_owned();
    match text("type").as_str() {
        "error" => format!("error {}", text("code")),
        "handshake/resp" if message["ok"] == json!(true) => {
            let entries = message["accepted_caps"].as_array().unwrap().iter();
            let granted = entries.filter(|entry| entry["enabled"] == json!(true));
            let mut names: Vec<_> = granted.map(|entry| entry["capability"].as_str().unwrap()).collect();
            names.sort_unstable();
            format!("granted {}", names.join(" "))
        }
        "handshake/resp" => format!("refused {}", text("reason")),
        "tool/list/resp" => format!("tools {}", message["tools"]),
        "tool/call/resp" => {
            let mut data = message["data"].clone();
            data["duration_ms"] = json!(0);
            format!("result {data}")
        }
        "tool/event" => format!("event {} {}", text("kind"), message["data"]),
        other => other.to_owned(),
    }
}

/// A line of the agent, counted from 0, to which our answer differs from the reference.
struct Deviation {
    line: usize,
    ours: &'static [&'static str],
    because: &'static str,
}

fn deviation(line: usize, ours: &'static [&'static str], because: &'static str) -> Deviation {
    Deviation { line, ours, because }
}

/// The tools of the recorded fixture host.
fn fixture_tools() -> Vec<Tool> {
    let tool = |name: &str, description: &str, parameter: Option<(&str, &str)>, tag: &str| {
        let properties: serde_json::Map<_, _> = parameter
            .iter()
            .map(|(name, kind)| ((*name).to_owned(), json!({"type": kind, "description": name})))
            .collect();
        let required: Vec<_> = parameter.iter().map(|(name, _)| name).collect();
        let schema = json!({"type": "object", "properties": properties, "required": required});
        let flag = |name: &str, value: bool| (name.to_owned(), to_raw(&value));
        Tool {
            tags: if tag.is_empty() { Vec::new() } else { vec![tag.to_owned()] },
            deferred: tag == "deferred",
            extra: vec![flag("streaming", name == "stream"), flag("idempotent", name == "echo")],
            ..Tool::new(name, description, to_raw(&schema))
        }
    };
    vec![
        tool("echo", "Echo the text argument", Some(("text", "string")), "text"),
        tool("sleep", "Sleep for ms milliseconds", Some(("ms", "integer")), "time"),
        tool("stream", "Emit progress events", Some(("n", "integer")), "stream"),
        tool("fail", "Always raises", Some(("message", "string")), ""),
        tool("soft_fail", "Returns an unsuccessful result", None, ""),
        tool("hidden_search", "Deferred tool", None, "deferred"),
    ]
}

/// The events and the result of the fixture's tools.
fn fixture(call: &Call<'_>) -> (Vec<Notice>, Outcome) {
    let Operation::CallTool(tool) = &call.operation else {
        return (Vec::new(), Ok(Reply::Tools(fixture_tools().into())));
    };
    let arguments: Value = serde_json::from_str(tool.arguments.get()).unwrap();
    let structured = |value: Value| Ok(Reply::Tool(ToolResult::structured(to_raw(&value))));
    let mut notices = Vec::new();
    let outcome = match tool.name.as_ref() {
        "echo" => structured(json!({"text": arguments["text"]})),
        "sleep" => structured(json!({"slept_ms": arguments["ms"]})),
        "stream" => {
            let total = arguments["n"].as_u64().unwrap();
            for step in 1..=total {
                let message = Some(format!("step {step}"));
                let progress = Progress { progress: step as f64, total: Some(total as f64), message };
                notices.push(Notice::Progress(call.id, progress));
            }
            let log = Log::new(Level::Info, None, to_raw("finished"));
            notices.push(Notice::Log(Some(call.id), log));
            structured(json!({"steps": total}))
        }
        "fail" => Err(Failure::new(FailureKind::ToolFailed, arguments["message"].as_str().unwrap())),
        "soft_fail" => Ok(Reply::Tool(ToolResult {
            content: vec![Content::text("nope")],
            failed: true,
            extra: vec![("exit_code".into(), raw("3".into())), ("error_code".into(), to_raw("tool_denied"))],
            ..ToolResult::default()
        })),
        "scalar" => Ok(Reply::Tool(ToolResult { structured: Some(raw("42".into())), ..ToolResult::default() })),
        name => Err(Failure::unknown_tool(name)),
    };
    (notices, outcome)
}

/// A host that requires the token of the recordings.
fn host() -> TestServer {
    host_of(ServerSetup { passes: vec![Pass::any(Secret::new("dev-secret"))], ..server_setup() })
}

fn host_of(setup: ServerSetup) -> TestServer {
    let mut server = TestServer::pinned(&DIALECT, setup);
    server.answers_itself = false;
    server
}

/// Runs all delivered calls to their end.
fn run_tools(server: &mut TestServer) -> Vec<String> {
    let mut lines = Vec::new();
    while let Some(delivered) = server.delivered.pop_front() {
        let (notices, outcome) = fixture(&delivered.call);
        for notice in notices {
            lines.extend(server.notify(notice));
        }
        lines.extend(server.resolve(delivered.call.id, outcome));
    }
    lines
}

/// Replays a transcript against our host.
fn replay(name: &str, deviations: &[Deviation]) {
    replay_to(host(), name, deviations);
}

fn replay_to(mut server: TestServer, name: &str, deviations: &[Deviation]) {
    let recorded = transcript(name);
    let mut sessions: BTreeMap<String, String> = BTreeMap::new();
    let mut differences = String::new();
    for (number, line) in recorded.iter().filter(|line| line.from_agent).enumerate() {
        let id = line.message["id"].as_str();
        let theirs: Vec<_> = recorded
            .iter()
            .filter(|answer| !answer.from_agent && id.is_some_and(|id| answer.message["req_id"] == id))
            .map(|answer| &answer.message)
            .collect();
        let mut text = line.text.clone();
        for (theirs, ours) in &sessions {
            text = text.replace(theirs, ours);
        }
        let mut lines = Vec::new();
        // These were recorded in one POST. On a pipe, they are two lines.
        for part in text.split('\n') {
            lines.extend(server.bytes(part.as_bytes()));
            lines.extend(run_tools(&mut server));
        }
        let ours: Vec<Value> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
        if let (Some(theirs), Some(ours)) = (theirs.first(), ours.first())
            && let (Some(theirs), Some(ours)) = (theirs["session_id"].as_str(), ours["session_id"].as_str())
            && !ours.is_empty()
        {
            sessions.insert(theirs.to_owned(), ours.to_owned());
        }
        // An answer without a request id belongs to the line before it.
        let theirs = if theirs.is_empty() { uncorrelated(&recorded, line) } else { theirs };
        let theirs: Vec<_> = theirs.into_iter().map(essence).collect();
        let ours: Vec<_> = ours.iter().map(essence).collect();
        match deviations.iter().find(|deviation| deviation.line == number) {
            Some(Deviation { ours: expected, because, .. }) => {
                let is_as_stated = ours == *expected && ours != theirs;
                if !is_as_stated {
                    let _ = writeln!(differences, "line {number} ({because}):\n  {ours:?}\n  wanted {expected:?}");
                }
            }
            None if ours != theirs => {
                let _ = writeln!(differences, "line {number} {text}:\n  ours   {ours:?}\n  theirs {theirs:?}");
            }
            None => {}
        }
    }
    assert!(differences.is_empty(), "{name}\n{differences}");
}

fn uncorrelated<'a>(recorded: &'a [Recorded], line: &'a Recorded) -> Vec<&'a Value> {
    let after = recorded.iter().skip_while(|other| !std::ptr::eq(*other, line)).skip(1);
    let answers = after.take_while(|other| !other.from_agent).map(|answer| &answer.message);
    let known = |answer: &&Value| {
        let id = answer["req_id"].as_str().unwrap_or_default();
        id.is_empty() || !recorded.iter().any(|line| line.from_agent && line.message["id"] == id)
    };
    answers.filter(known).collect()
}

const ONLY_TOOLS: &str = "we serve tools; the rest is listed with enabled:false (a2e §6.4)";
const AUTH: &str = "the token is checked (a2e §6.3)";
const NO_HANDSHAKE: &str = "a request before the handshake (a2e §6.5)";
const NOT_GRANTED: &str = "a capability that was not granted (a2e §6.5)";
const SILENT: &str = "the reference is silent (a2e §7.3)";
const HOST_ONLY: &str = "a type that only hosts send (a2e §7.3)";
const PARSE: &[&str] = &["error parse_error"];
const INVALID: &[&str] = &["error invalid_message"];
const UNAUTHORIZED: &[&str] = &["error unauthorized"];
const MISSING: &[&str] = &["error capability_missing"];
const TOOLS: &[&str] = &["granted tools"];

#[test]
fn handshakes_are_answered_as_recorded_or_as_the_page_demands() {
    replay("handshake_ok", &[deviation(0, TOOLS, ONLY_TOOLS)]);
    replay("handshake_page_example", &[deviation(0, TOOLS, ONLY_TOOLS)]);
    let wrong = &["refused auth_failed"];
    replay("handshake_wrong_token", &[deviation(0, wrong, AUTH), deviation(1, UNAUTHORIZED, AUTH)]);
    replay("handshake_missing_token", &[deviation(0, wrong, AUTH)]);
    let mismatch = |line| deviation(line, &["refused version_mismatch"], "the version is checked (a2e §6.3)");
    replay("handshake_version_mismatch", &[mismatch(0), mismatch(1), mismatch(2)]);
    let no_caps = |line| deviation(line, &["refused no_caps"], "no usable capability was requested (a2e §6.3)");
    replay("handshake_no_caps", &[no_caps(0), no_caps(1), no_caps(2)]);
    replay("handshake_partial_caps", &[deviation(0, TOOLS, ONLY_TOOLS), deviation(1, TOOLS, ONLY_TOOLS)]);
    replay("handshake_twice", &[no_caps(1), deviation(2, UNAUTHORIZED, "a refusal revokes the grant (a2e §6.5)")]);
    replay("handshake_minimal", &[deviation(0, wrong, AUTH), deviation(1, wrong, AUTH)]);
    replay_to(host_of(server_setup()), "handshake_minimal", &[no_caps(0)]);
    replay("handshake_bad_fields", &[deviation(3, wrong, AUTH)]);
    replay_to(host_of(server_setup()), "handshake_bad_fields", &[]);
    let answered = |line| deviation(line, &["refused no_caps"], "a handshake is always answered (a2e §2 item 5)");
    let twice = "a capability is listed only once (a2e §6.4)";
    replay(
        "handshake_unanswered",
        &[answered(0), answered(1), deviation(3, TOOLS, twice), deviation(4, MISSING, NOT_GRANTED)],
    );
}

#[test]
fn the_gate_is_closed_where_the_reference_leaves_it_open() {
    let unauthorized = |line| deviation(line, UNAUTHORIZED, NO_HANDSHAKE);
    replay("calls_before_handshake", &[unauthorized(0), unauthorized(1), unauthorized(2)]);
    let missing = |line| deviation(line, MISSING, NOT_GRANTED);
    replay("capability_not_granted", &[missing(1), missing(2), missing(3)]);
}

#[test]
fn malformed_lines_are_answered_also_where_the_reference_is_silent() {
    replay("malformed_input", &[]);
    let mut silent: Vec<_> = (1..=9).map(|line| deviation(line, PARSE, SILENT)).collect();
    silent.push(deviation(11, PARSE, SILENT));
    // Two messages with a line break between them are two lines here, but one POST in the recording.
    silent.push(deviation(13, &["pong", "pong"], "on a pipe a line break ends a message (a2e §3.1)"));
    replay("malformed_silent", &silent);
    let host_only: Vec<_> = (1..=7).map(|line| deviation(line, INVALID, HOST_ONLY)).collect();
    replay("host_types_from_client", &host_only);
}

#[test]
fn ping_and_shutdown_are_as_recorded() {
    replay("ping_and_shutdown", &[]);
}

#[test]
fn tools_are_listed_and_searched_as_recorded() {
    let tags = "filter_tags applies to lists too (a2e §9.3)";
    let echo = r#"tools [{"defer_loading":false,"description":"Echo the text argument","idempotent":true,"input_parameters":[{"description":"text","enum":null,"name":"text","properties":null,"required":true,"type":"string"}],"name":"echo","output_parameters":[],"streaming":false,"tags":["text"],"toolkit":null,"version":"1.0.0"}]"#;
    let ours: &'static [&'static str] = Box::leak(Box::new([echo]));
    replay("tools_list_and_search", &[deviation(5, ours, tags)]);
}

#[test]
fn tools_are_called_as_recorded() {
    let unknown = deviation(5, &["error unknown_tool"], "an unknown name has its own error code (a2e §9.3)");
    replay("tools_call_results", &[unknown]);
}

#[test]
fn events_precede_the_result_and_need_a_request() {
    let result = |steps: u64| {
        format!(
            r#"result {{"data":{{"steps":{steps}}},"duration_ms":0,"error":null,"error_code":null,"events":[],"exit_code":null,"success":true,"summary":null,"tool_name":"stream","truncated":false}}"#
        )
    };
    let events = [
        r#"event progress {"message":"step 1","pct":33}"#.to_owned(),
        r#"event progress {"message":"step 2","pct":66}"#.to_owned(),
        r#"event progress {"message":"step 3","pct":100}"#.to_owned(),
        r#"event log {"level":"info","message":"finished"}"#.to_owned(),
        result(3),
    ];
    let leak = |lines: Vec<String>| -> &'static [&'static str] {
        Box::leak(lines.into_iter().map(|line| &*Box::leak(line.into_boxed_str())).collect())
    };
    let no_artifact = deviation(1, leak(events.into()), "the neutral model has no artifacts");
    let not_streaming = deviation(2, leak(vec![result(2)]), "streaming:false is honoured (a2e §9.3)");
    replay("tools_streaming", &[no_artifact, not_streaming]);
}

#[test]
fn of_eight_calls_at_once_four_run() {
    let recorded = transcript("max_parallel_exceeded");
    let mut server = host();
    let mut lines = recorded.iter().filter(|line| line.from_agent);
    server.bytes(lines.next().unwrap().text.as_bytes());
    let session = server.opened[0].session.clone().unwrap();
    let calls: Vec<_> = lines.filter(|line| line.message["type"] == "tool/call/req").collect();
    for call in &calls {
        let text = call.text.replace(call.message["session_id"].as_str().unwrap(), &session);
        assert!(server.bytes(text.as_bytes()).is_empty());
    }
    assert_eq!((server.delivered.len(), server.door.in_flight().len()), (4, calls.len()));
    let mut answered = Vec::new();
    while let Some(delivered) = server.delivered.pop_front() {
        assert!(server.delivered.len() < 4);
        for line in server.resolve(delivered.call.id, fixture(&delivered.call).1) {
            answered.push(serde_json::from_str::<Value>(&line).unwrap()["req_id"].clone());
        }
    }
    assert_eq!(answered, calls.iter().map(|call| call.message["id"].clone()).collect::<Vec<_>>());
}

#[test]
fn shutdown_drains_where_the_reference_drops() {
    let mut server = host();
    let mut answers = Vec::new();
    for line in transcript("shutdown_drops_inflight").iter().filter(|line| line.from_agent) {
        answers.extend(server.bytes(line.text.as_bytes()));
    }
    assert_eq!(
        (answers.len(), server.closed),
        (1, Some(Duration::from_secs(10))),
        "only the handshake may be answered"
    );
    let drained: Vec<_> =
        run_tools(&mut server).iter().map(|line| serde_json::from_str::<Value>(line).unwrap()).collect();
    assert_eq!((drained.len(), &drained[0]["req_id"]), (1, &json!("slow")));
}

/// The events of our agent after the first recorded handshake answer of a host.
fn agent_hears(name: &str) -> Vec<Event> {
    let recorded = transcript(name);
    let asked = &recorded[0].message;
    let names = asked["agent_caps"].as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned());
    let setup = ClientSetup {
        identity: Peer::new(asked["agent_id"].as_str().unwrap(), ""),
        wants: Some(names.map(Capability::from_wire).collect()),
        token: Some(Secret::new(asked["auth_token"].as_str().unwrap())),
        ..client_setup("1.0")
    };
    let mut agent = (DIALECT.client)(setup);
    let mut entropy = Counting::default();
    let mut heard = Heard::default();
    agent.open(&mut Ambient::new(moment(Duration::ZERO), &mut entropy), &mut heard);
    let ours: Value = serde_json::from_slice(&heard.wire).unwrap();
    for field in ["type", "agent_id", "agent_caps", "auth_token"] {
        assert_eq!(ours[field], asked[field], "{field}");
    }
    assert_eq!((&ours["a2e"], &ours["version"]), (&json!("1.0"), &json!("1.0")), "both spellings");
    let before_the_next = recorded[1..].iter().take_while(|line| !line.from_agent);
    for line in before_the_next {
        let text = line.text.replace(asked["id"].as_str().unwrap(), ours["id"].as_str().unwrap());
        agent.handle_line(&text, &mut Ambient::new(moment(Duration::ZERO), &mut entropy), &mut heard);
    }
    heard.events
}

#[test]
fn our_agent_understands_the_recorded_hosts() {
    let refused = [
        ("client_sees_auth_failed", "auth_failed"),
        ("client_sees_version_mismatch", "version_mismatch"),
        ("client_sees_no_caps", "no_capabilities"),
        ("client_sees_server_error", "server_error"),
        ("client_sees_error_to_handshake", "peer_refused"),
    ];
    for (name, word) in refused {
        match agent_hears(name).as_slice() {
            [Event::Refused(refusal)] => assert_eq!(refusal.word(), word, "{name}"),
            other => panic!("{name}: {other:?}"),
        }
    }
    // The reference client rejects the last two, but they can be understood.
    let opened = [
        ("client_sees_partial_grant", "tools"),
        ("client_sees_a2e_key_only", "tools"),
        ("client_sees_unknown_capability", "tools"),
        ("client_sees_null_reason", "tools"),
        ("handshake_ok", "chains env learning mcp memory multi_agent planning proc skill toolkits tools"),
        ("handshake_page_example", "env memory tools"),
    ];
    for (name, granted) in opened {
        match agent_hears(name).as_slice() {
            [Event::Opened(agreement)] => {
                let agreed: Vec<_> = agreement.agreed(Side::Server).map(|term| term.capability.0.as_ref()).collect();
                assert_eq!(agreed.join(" "), granted, "{name}");
                assert_eq!(agreement.max_parallel, Some(4));
            }
            other => panic!("{name}: {other:?}"),
        }
    }
    let shipped = agent_hears("subprocess_as_shipped");
    assert!(
        matches!(shipped.as_slice(), [Event::Dropped(_), Event::Dropped(_)]),
        "a banner and a prefixed line must be dropped: {shipped:?}"
    );
}
