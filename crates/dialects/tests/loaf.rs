//! Tests of loaf: both sides against each other, and the tables of the digest.

#![allow(clippy::unwrap_used, reason = "a test stops where it is surprised")]

use std::borrow::Cow;
use std::time::Duration;

use gladhand_core::negotiation::{Side, Verdict, Why};
use gladhand_core::operations::{
    Call, CallId, Content, Failure, FailureKind, Level, Log, Notice, Operation, Outcome, Progress, Reply, Terms,
    ToolCall, ToolResult,
};
use gladhand_core::wire::{Fault, Line, Members, json};
use gladhand_dialects::Server as _;
use gladhand_dialects::loaf::DIALECT;
use gladhand_dialects::testing::{Pair, TestServer, a_failure, bare_call, client_setup, server_setup};
use gladhand_dialects::{Claim, Event, FirstLine, Stop};

fn pair() -> Pair {
    Pair::new(&DIALECT, server_setup(), client_setup("1.0.0"))
}

fn server() -> TestServer {
    TestServer::pinned(&DIALECT, server_setup())
}

fn request(id: &str, method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
}

const SNAPSHOT: &str = r#"{"auth":{"enabledProviders":[],"hasOpenAiToken":false,"hasOpenRouterKey":false,"hasAntigravityToken":false,"antigravityProfile":null},"onboarding":{"completed":false},"model":{"selectedModel":"","selectedThinking":"HIGH","selectedOpenRouterProvider":"any","selectedProvider":null},"sessions":{"count":0,"ids":[]},"skills":{"count":0,"directories":[]}}"#;

const METHODS: &str = r#"["debug.set","rpc.handshake","session.create","session.get","state.get","system.ping","system.shutdown","tools.call","tools.list"]"#;

fn show(outcome: &Outcome) -> String {
    match outcome {
        Ok(Reply::Tool(result)) => format!("{result:?}"),
        Ok(Reply::Tools(tools)) => format!("{tools:?}"),
        Ok(other) => format!("{other:?}"),
        Err(failure) => format!("{:?}: {failure}", failure.kind),
    }
}

#[test]
fn a_pair_opens_with_a_flexible_handshake() {
    let mut pair = pair();
    let heard = pair.open().unwrap();
    let told = pair.server.opened.last().unwrap();
    for agreement in [&heard, told] {
        assert_eq!((agreement.dialect, agreement.version.as_str()), ("loaf", "1.0.0"));
        assert_eq!((agreement.client.name.as_str(), agreement.server.name.as_str()), ("tester", "gladhand"));
        let agreed: Vec<_> = agreement.agreed(Side::Server).map(|term| term.capability.to_string()).collect();
        assert_eq!(agreed, ["events", "handshake", "multi_session", "tools", "tools.call"]);
    }
    assert_eq!(
        pair.transcript,
        [
            r#"-> {"jsonrpc":"2.0","id":1,"method":"rpc.handshake","params":{"client_name":"tester","client_version":"1.0","protocol_version":"1.0.0","strict":false}}"#.to_owned(),
            format!(r#"<- {{"jsonrpc":"2.0","id":1,"result":{{"protocol_version":"1.0.0","server_name":"loaf","capabilities":{{"events":true,"command_execute":false,"multi_session":true,"image_inputs":[]}},"methods":{METHODS},"implementation":{{"name":"gladhand","version":"0.0.0-test"}}}}}}"#),
        ]
    );
}

#[test]
fn the_context_of_a_trace_passes_and_other_metadata_does_not() {
    let mut pair = pair();
    pair.open().unwrap();
    let meta = r#"{"progressToken":1,"traceparent":"00-1-2-01","a":2,"tracestate":"x=y"}"#;
    let meta = json::raw(meta.to_owned());
    pair.step(|client, ambient, heard| {
        let terms = Terms { meta: Some(Cow::Owned(meta)), ..Terms::default() };
        client.call(Call { id: CallId(9), operation: bare_call("echo"), terms }, None, ambient, heard);
    });
    let sent = pair.transcript.iter().rfind(|line| line.contains(r#""method":"tools.call""#)).unwrap();
    assert!(sent.contains(r#""_meta":{"traceparent":"00-1-2-01","tracestate":"x=y"}"#), "{sent}");
    let mut server = server().holding();
    let params = r#"{"name":"echo","arguments":{},"_meta":{"baggage":"k=v","other":1}}"#;
    server.line(&request("1", "tools.call", params));
    let delivered = server.delivered[0].call.terms.meta.as_deref().map(|meta| meta.get().to_owned());
    assert_eq!(delivered.as_deref(), Some(r#"{"baggage":"k=v"}"#));
}

#[test]
fn a_pair_lists_and_calls_tools() {
    let mut pair = pair();
    pair.open().unwrap();
    let names: Vec<_> = pair.list_tools().iter().map(|tool| tool.name.clone()).collect();
    assert_eq!(names, ["echo", "fail"]);
    for (tool, arguments, outcome) in [
        ("echo", r#"{"message":"hi é"}"#, show(&Ok(Reply::Tool(ToolResult::text("hi é"))))),
        ("fail", r#"{"message":"no"}"#, show(&Ok(Reply::Tool(ToolResult::failure("no"))))),
        ("nope", "{}", "UnknownTool: unknown tool: nope".to_owned()),
        ("echo", "{}", "InvalidArguments: invalid params for tools.call: message: required".to_owned()),
    ] {
        assert_eq!(show(&pair.call_tool(tool, arguments)), outcome, "{tool} {arguments}");
    }
    pair.step(|client, ambient, heard| client.close(ambient, heard));
    assert_eq!(pair.server.closed, Some(Duration::from_secs(5)));
    assert!(show(&pair.call_tool("echo", "{}")).starts_with("Internal: "), "closed");
}

#[test]
fn every_outcome_of_a_tool_crosses_the_wire() {
    let image = r#"{"type":"image","data":"","mimeType":"image/png"}"#;
    let block = Content::Block(json::raw(image.to_owned()));
    let results = [
        ToolResult::text("plain"),
        ToolResult::failure("sorry"),
        ToolResult::structured(json::raw(r#"{"n":12345678901234567890.10}"#.to_owned())),
        ToolResult { content: vec![Content::text("a"), block.clone()], ..ToolResult::default() },
        ToolResult { content: vec![Content::text("a"), Content::text("b")], ..ToolResult::default() },
        ToolResult::default(),
    ];
    for result in results {
        let mut pair = pair();
        pair.open().unwrap();
        pair.server.answers_itself = false;
        let call = pair.begin(bare_call("echo"), true);
        let delivered = pair.server.delivered.pop_front().unwrap();
        let lines = pair.server.resolve(delivered.call.id, Ok(Reply::Tool(result.clone())));
        pair.hear(&lines);
        assert_eq!(pair.take_answers(call).iter().map(show).collect::<Vec<_>>(), [show(&Ok(Reply::Tool(result)))]);
    }
}

#[test]
fn every_failure_has_its_code_and_comes_back_as_its_kind() {
    for (kind, code, reason) in [
        (FailureKind::UnknownTool, -32602, "unknown_tool"),
        (FailureKind::InvalidArguments, -32602, "invalid_params"),
        (FailureKind::Busy, -32000, "overloaded"),
        (FailureKind::Denied, -32603, "denied"),
        (FailureKind::Cancelled, -32603, "cancelled"),
        (FailureKind::TimedOut, -32603, "timed_out"),
        (FailureKind::Stopping, -32603, "stopping"),
        (FailureKind::UpstreamLost, -32603, "upstream_lost"),
        (FailureKind::UpstreamError, -32603, "upstream_error"),
        (FailureKind::Internal, -32603, "internal"),
    ] {
        let mut pair = pair();
        pair.open().unwrap();
        pair.server.answers_itself = false;
        let call = pair.begin(bare_call("echo"), false);
        let delivered = pair.server.delivered.pop_front().unwrap();
        let lines = pair.server.resolve(delivered.call.id, Err(a_failure(kind)));
        let line: serde_json::Value = serde_json::from_str(&lines[0]).unwrap();
        assert_eq!((&line["error"]["code"], &line["error"]["data"]["reason"]), (&code.into(), &reason.into()));
        pair.hear(&lines);
        let kinds: Vec<_> = pair.take_answers(call).into_iter().map(|outcome| outcome.unwrap_err().kind).collect();
        assert_eq!(kinds, [kind]);
    }
    // A tool that fails is reported in the result (§16.1), not as an error of the protocol.
    let mut server = server().holding();
    server.line(&request("7", "tools.call", r#"{"name":"echo"}"#));
    let call = server.delivered.pop_front().unwrap().call.id;
    assert_eq!(
        server.resolve(call, Err(a_failure(FailureKind::ToolFailed))),
        [
            r#"{"jsonrpc":"2.0","id":7,"result":{"ok":false,"output":{"tool":"echo","status":"error"},"error":"as the test wished"}}"#
        ]
    );
}

#[test]
fn progress_and_logs_of_a_call_are_events_before_its_response() {
    let mut pair = pair();
    pair.open().unwrap();
    pair.server.answers_itself = false;
    let call = pair.begin(bare_call("echo"), true);
    let id = pair.server.delivered[0].call.id;
    assert!(pair.server.delivered[0].call.terms.wants_progress);
    let progress = Progress { progress: 1.0, total: Some(2.5), message: Some("half".into()) };
    let log = Log::new(Level::Warning, None, json::raw("[1]".into()));
    let mut lines = pair.server.notify(Notice::Progress(id, progress.clone()));
    lines.extend(pair.server.notify(Notice::Log(Some(id), log)));
    assert_eq!(
        lines,
        [
            r#"{"jsonrpc":"2.0","method":"event","params":{"type":"tool.progress","timestamp":"2026-01-01T00:00:00.000Z","payload":{"request_id":2,"progress":1,"total":2.5,"message":"half"}}}"#,
            r#"{"jsonrpc":"2.0","method":"event","params":{"type":"tool.log","timestamp":"2026-01-01T00:00:00.000Z","payload":{"request_id":2,"level":"warning","data":[1]}}}"#,
        ]
    );
    pair.hear(&lines);
    let heard: Vec<_> = pair.events.drain(..).map(|event| format!("{event:?}")).collect();
    assert_eq!(heard.len(), 2);
    assert_eq!(heard[0], format!("{:?}", Event::Notice(Notice::Progress(call, progress))));
    // No events are sent for unknown calls, or after the end.
    assert_eq!(
        pair.server.notify(Notice::Progress(CallId(99), Progress { progress: 0.0, total: None, message: None })),
        [""; 0]
    );
    pair.server.stop(Stop::InputClosed);
    assert_eq!(
        pair.server.notify(Notice::Progress(id, Progress { progress: 2.0, total: None, message: None })),
        [""; 0]
    );
    assert_eq!(pair.server.resolve_next().len(), 1, "the answer must still be sent");
}

#[test]
fn multi_line_json_is_written_on_one_line() {
    let mut pair = pair();
    pair.open().unwrap();
    pair.server.answers_itself = false;
    let arguments = Cow::Owned(json::raw("{\r\"a\":\n1}".to_owned()));
    pair.begin(Operation::CallTool(ToolCall { name: "echo".into(), arguments }), false);
    assert_eq!(
        pair.transcript.last().unwrap(),
        r#"-> {"jsonrpc":"2.0","id":2,"method":"tools.call","params":{"name":"echo","arguments":{ "a": 1}}}"#
    );
    let call = pair.server.delivered[0].call.id;
    let log = Log::new(Level::Info, None, json::raw("[\n1]".into()));
    assert!(pair.server.notify(Notice::Log(Some(call), log))[0].ends_with(r#""data":[ 1]}}}"#));
    let spread = ToolResult::structured(json::raw("{\r\n\"a\":1\n}".to_owned()));
    assert_eq!(
        pair.server.resolve(call, Ok(Reply::Tool(spread))),
        [r#"{"jsonrpc":"2.0","id":2,"result":{"ok":true,"output":{  "a":1 }}}"#]
    );
}

#[test]
fn lines_are_classified_as_in_the_table() {
    let parse = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse error"#;
    let batch = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"batch requests are not supported","data":{"reason":"batch_not_supported"}}}"#;
    let invalid = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"invalid request","data":{"reason":"invalid_request"}}}"#;
    for (line, answer) in [
        ("nope", parse),
        (r#"{"jsonrpc":"2.0","id":1,"method":"system.ping"}{}"#, parse),
        ("[]", batch),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"system.ping"}]"#, batch),
        ("null", invalid),
        ("{}", invalid),
        (r#"{"jsonrpc":2.0,"id":1,"method":"system.ping"}"#, invalid),
        (r#"{"jsonrpc":"2.0","id":1,"method":" \ufeff"}"#, invalid),
        (r#"{"jsonrpc":"2.0","method":""}"#, invalid),
        (r#"{"jsonrpc":"2.0","id":false,"method":""}"#, invalid),
        (r#"{"jsonrpc":"2.0","id":false,"method":"system.ping"}"#, invalid),
        (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, invalid),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"x\ud83d"}"#,
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"method not found: x\ud83d","data":{"reason":"method_not_found","method":"x\ud83d"}}}"#,
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"session.send"}"#,
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"method not found: session.send","data":{"reason":"method_not_found","method":"session.send"}}}"#,
        ),
    ] {
        let answers = server().line(line);
        assert_eq!(answers.len(), 1, "{line}");
        assert!(answers[0].starts_with(answer), "{line}: {answers:?}");
    }
    let mut server = server();
    for silent in ["", "  \t", "\u{feff}", "\u{a0}\u{2003}", r#"{"jsonrpc":"2.0","method":"system.shutdown"}"#] {
        assert_eq!(server.line(silent), [""; 0], "{silent:?}");
    }
    assert_eq!((server.dropped.len(), server.opened.len(), server.closed), (1, 0, None));
}

#[test]
fn a_request_with_an_empty_method_is_answered_under_its_id() {
    for id in ["1", "\"a\"", "1e3", "null"] {
        assert_eq!(
            server().line(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":""}}"#)),
            [format!(
                r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32600,"message":"invalid request","data":{{"reason":"invalid_request"}}}}}}"#
            )]
        );
    }
}

#[test]
fn unreadable_lines_are_parse_errors() {
    let long = server().frame(Line::TooLong { limit: 5 });
    let fault = Fault::TooLong { limit: 5 };
    assert_eq!(
        long,
        [format!(
            r#"{{"jsonrpc":"2.0","id":null,"error":{{"code":-32700,"message":"parse error: {fault}","data":{{"reason":"parse_error"}}}}}}"#
        )]
    );
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    assert!(server().line(&deep)[0].contains(r#""reason":"parse_error""#));
    // Invalid UTF-8 is replaced, and the line is processed.
    let answers = server().bytes(b"{\"jsonrpc\":\"2.0\",\"id\":\"\xff\",\"method\":\"system.ping\"}");
    assert_eq!(
        answers,
        ["{\"jsonrpc\":\"2.0\",\"id\":\"\u{fffd}\",\"result\":{\"ok\":true,\"time\":\"2026-01-01T00:00:00.000Z\"}}"]
    );
}

#[test]
fn ids_come_back_exactly_as_sent() {
    for id in ["1", "1.0", "1e3", "-0", "1e400", "9007199254740993", "\"\"", "\"\\ud83d\"", "null", "\"a\\u0062\""] {
        let answer =
            format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"ok":true,"time":"2026-01-01T00:00:00.000Z"}}}}"#);
        assert_eq!(server().line(&request(id, "system.ping", "[1]")), [answer]);
    }
}

#[test]
fn parameters_are_checked_in_order_with_exact_messages() {
    let object = |method: &str| format!("invalid params for {method}: expected object");
    let field =
        |method: &str, field: &str, must: &str| format!("invalid params for {method}: `{field}` must be {must}");
    for (method, params, message, name) in [
        ("rpc.handshake", "[]", object("rpc.handshake"), None),
        (
            "rpc.handshake",
            r#"{"protocol_version":1,"strict":1}"#,
            field("rpc.handshake", "protocol_version", "a string"),
            Some("protocol_version"),
        ),
        ("rpc.handshake", r#"{"strict":1}"#, field("rpc.handshake", "strict", "a boolean"), Some("strict")),
        ("system.shutdown", r#"{"reason":[]}"#, field("system.shutdown", "reason", "a string"), Some("reason")),
        ("debug.set", "null", object("debug.set"), None),
        ("debug.set", r#"{"super_debug":null}"#, field("debug.set", "super_debug", "a boolean"), Some("super_debug")),
        ("session.create", "5", object("session.create"), None),
        ("session.create", r#"{"title":{}}"#, field("session.create", "title", "a string"), Some("title")),
        (
            "session.get",
            r#"{"session_id":" \ufeff "}"#,
            field("session.get", "session_id", "a non-empty string"),
            Some("session_id"),
        ),
        ("tools.call", "[]", object("tools.call"), None),
        ("tools.call", r#"{"arguments":1}"#, field("tools.call", "name", "a non-empty string"), Some("name")),
        (
            "tools.call",
            r#"{"name":"echo","arguments":[]}"#,
            field("tools.call", "arguments", "an object"),
            Some("arguments"),
        ),
    ] {
        let field = name.map_or(String::new(), |name| format!(r#","field":"{name}""#));
        let answer = format!(
            r#"{{"jsonrpc":"2.0","id":1,"error":{{"code":-32602,"message":"{message}","data":{{"reason":"invalid_params"{field}}}}}}}"#
        );
        assert_eq!(server().line(&request("1", method, params)), [answer]);
    }
}

#[test]
fn a_strict_handshake_for_another_version_is_refused() {
    let mut server = server();
    assert_eq!(
        server.line(&request("1", "rpc.handshake", r#"{"protocol_version":" 2.0.0 ","strict":true}"#)),
        [
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"unsupported protocol_version: 2.0.0","data":{"reason":"unsupported_protocol_version","supported":"1.0.0"}}}"#
        ]
    );
    assert_eq!((server.refused.as_slice(), server.opened.len()), (["version_mismatch"].as_slice(), 0));
    // Flexible: we decide, and the agreement records the requested version.
    server.line(&request("2", "rpc.handshake", r#"{"protocol_version":"2.0.0","client_name":"c"}"#));
    let agreement = &server.opened[0];
    assert_eq!((agreement.version.as_str(), agreement.asked_version.as_deref()), ("1.0.0", Some("2.0.0")));
    for strict in [r#"{"strict":true}"#, r#"{"strict":true,"protocol_version":" 1.0.0"}"#] {
        assert!(server.line(&request("3", "rpc.handshake", strict))[0].contains(r#""server_name":"loaf""#));
    }
}

#[test]
fn a_loaf_session_opens_without_a_handshake_and_the_agreement_records_it() {
    let mut server = server();
    server.line(&request("1", "nope", "{}"));
    assert_eq!(server.opened.len(), 0);
    server.line(&request("1", "system.ping", "{}"));
    server.line(&request("2", "system.ping", "{}"));
    assert_eq!(server.opened.len(), 1);
    let agreement = server.opened[0].clone();
    assert_eq!(agreement.client.name, "");
    assert_eq!(agreement.term(Side::Server, "handshake").unwrap().verdict, Verdict::Refused(Why::NotWanted));
    assert!(agreement.allows(Side::Server, "tools.call"));
    server.line(&request("3", "rpc.handshake", r#"{"client_name":"late"}"#));
    assert_eq!(server.opened.last().unwrap().client.name, "late");
}

#[test]
fn tool_methods_do_not_exist_without_tools_on_the_menu() {
    let mut setup = server_setup();
    setup.menu.tools = false;
    let mut server = TestServer::pinned(&DIALECT, setup.clone());
    for method in ["tools.list", "tools.call"] {
        let answers = server.line(&request("1", method, r#"{"name":"echo"}"#));
        assert!(answers[0].contains(r#""reason":"method_not_found""#), "{answers:?}");
    }
    assert!(!server.line(&request("2", "rpc.handshake", "{}"))[0].contains("tools."));
    let mut pair = Pair::new(&DIALECT, setup, client_setup("1.0.0"));
    pair.open().unwrap();
    assert_eq!(show(&pair.call(bare_call("echo"))), "UpstreamError: the server does not offer tools.call");
}

#[test]
fn sessions_are_created_found_and_bounded() {
    let id = "00000000-0000-4000-8000-000000000001";
    let state = format!(
        r#"{{"id":"{id}","createdAt":"2026-01-01T00:00:00.000Z","updatedAt":"2026-01-01T00:00:00.000Z","pending":false,"statusLabel":"ready","messages":[],"history":[],"queue":[],"pendingSteerCount":0,"conversationProvider":null,"activeSessionId":null,"contextTokenEstimate":0,"contextTokenSource":"history","contextTokenProvider":null,"contextTokenBreakdown":{{"pinned_tokens":0,"conversation_tokens":0,"tool_schema_tokens":0,"provider_overhead_tokens":0}}}}"#
    );
    let snapshot = SNAPSHOT.replace(r#""count":0,"ids":[]"#, &format!(r#""count":1,"ids":["{id}"]"#));
    let mut server = server();
    assert_eq!(
        server.line(&request("1", "session.create", r#"{"title":"t"}"#)),
        [
            format!(
                r#"{{"jsonrpc":"2.0","method":"event","params":{{"type":"state.changed","timestamp":"2026-01-01T00:00:00.000Z","payload":{{"reason":"session_created","session_id":"{id}","snapshot":{snapshot}}}}}}}"#
            ),
            format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"session_id":"{id}","state":{state}}}}}"#),
        ]
    );
    assert_eq!(
        server.line(&request("2", "session.get", &format!(r#"{{"session_id":" {id} "}}"#))),
        [format!(r#"{{"jsonrpc":"2.0","id":2,"result":{state}}}"#)]
    );
    assert_eq!(
        server.line(&request("3", "session.get", r#"{"session_id":"zz"}"#)),
        [
            r#"{"jsonrpc":"2.0","id":3,"error":{"code":-32603,"message":"unknown session: zz","data":{"reason":"unknown_session"}}}"#
        ]
    );
    for _ in 1..1_000 {
        assert_eq!(server.line(&request("4", "session.create", "{}")).len(), 2);
    }
    assert_eq!(
        server.line(&request("5", "session.create", "{}")),
        [
            r#"{"jsonrpc":"2.0","id":5,"error":{"code":-32000,"message":"too many sessions: at most 1000","data":{"reason":"overloaded"}}}"#
        ]
    );
}

#[test]
fn calls_beyond_the_bound_are_overloaded_and_answers_come_in_any_order() {
    let mut setup = server_setup();
    setup.max_in_flight = 2;
    let mut server = TestServer::pinned(&DIALECT, setup).holding();
    for id in ["1", "2"] {
        assert_eq!(server.line(&request(id, "tools.list", "{}")), [""; 0]);
    }
    assert_eq!(
        server.line(&request("3", "tools.list", "{}")),
        [
            r#"{"jsonrpc":"2.0","id":3,"error":{"code":-32000,"message":"too many requests in flight","data":{"reason":"overloaded"}}}"#
        ]
    );
    assert_eq!(server.line(&request("4", "system.ping", "{}")).len(), 1, "other requests must be answered immediately");
    let second = server.delivered.remove(1).unwrap().call.id;
    let stopping = || Err(Failure::new(FailureKind::Stopping, "we are stopping"));
    assert_eq!(
        server.resolve(second, stopping()),
        [
            r#"{"jsonrpc":"2.0","id":2,"error":{"code":-32603,"message":"we are stopping","data":{"reason":"stopping"}}}"#
        ]
    );
    assert_eq!(server.resolve(second, stopping()), [""; 0], "a call must be answered only once");
    assert_eq!(server.door.in_flight(), [server.delivered[0].call.id]);
}

#[test]
fn shutdown_sends_its_event_then_its_answer_then_nothing() {
    let event = |reason: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","method":"event","params":{{"type":"state.changed","timestamp":"2026-01-01T00:00:00.000Z","payload":{{"reason":"{reason}","snapshot":{SNAPSHOT}}}}}}}"#
        )
    };
    let mut server = server().holding();
    server.line(&request("1", "tools.call", r#"{"name":"echo","arguments":{"message":"m"}}"#));
    assert_eq!(
        server.line(&request("2", "system.shutdown", r#"{"reason":" bye "}"#)),
        [event("bye"), r#"{"jsonrpc":"2.0","id":2,"result":{"accepted":true,"reason":"bye"}}"#.to_owned()]
    );
    assert_eq!(server.closed, Some(Duration::from_secs(5)));
    for line in ["garbage", r#"{"jsonrpc":"2.0","id":3,"method":"system.ping"}"#] {
        assert_eq!(server.line(line), [""; 0]);
    }
    assert_eq!(server.frame(Line::TooLong { limit: 1 }), [""; 0]);
    assert_eq!(server.stop(Stop::Terminated), [""; 0]);
    assert_eq!(server.resolve_next(), [r#"{"jsonrpc":"2.0","id":1,"result":{"ok":true,"output":"m"}}"#]);
    for (stop, said) in [
        (Stop::InputClosed, None),
        (Stop::Interrupted, Some(event("sigint"))),
        (Stop::Terminated, Some(event("sigterm"))),
        (Stop::HungUp, Some(event("sigterm"))),
    ] {
        let mut server = TestServer::pinned(&DIALECT, server_setup());
        server.line(&request("1", "system.ping", "{}"));
        assert_eq!(server.stop(stop), said.into_iter().collect::<Vec<_>>());
        assert_eq!(server.stop(Stop::Terminated), [""; 0], "only the first stop may be reported");
    }
}

#[test]
fn a_client_reports_why_the_opening_failed() {
    for (answer, word) in [
        (
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"m","data":{"reason":"unsupported_protocol_version","supported":"2.0.0"}}}"#,
            "version_mismatch",
        ),
        (r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"m"}}"#, "peer_refused"),
        (r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m"}}"#, "peer_refused"),
        (r#"{"jsonrpc":"2.0","id":1,"result":{"protocol_version":"9.0.0","methods":[]}}"#, "version_mismatch"),
        (r#"{"jsonrpc":"2.0","id":1,"result":{"protocol_version":"1.0.0"}}"#, "peer_misbehaved"),
        (r#"{"jsonrpc":"2.0","id":1,"result":[]}"#, "peer_misbehaved"),
        (r#"{"jsonrpc":"2.0","id":1}"#, "peer_refused"),
    ] {
        let mut client = Alone::new();
        client.step(|client, ambient, heard| client.open(ambient, heard));
        let events = client.hear(answer);
        assert!(matches!(&events[..], [Event::Refused(refusal)] if refusal.word() == word), "{answer}: {events:?}");
    }
}

#[test]
fn long_settings_of_a_server_are_not_kept() {
    let (long, mut client) = ("x".repeat(10_000), Alone::new());
    client.step(|client, ambient, heard| client.open(ambient, heard));
    let events = client.hear(&format!(
        r#"{{"jsonrpc":"2.0","id":1,"result":{{"protocol_version":"1.0.0","capabilities":{{"events":"{long}"}},"methods":["{long}"]}}}}"#
    ));
    let [Event::Opened(agreement)] = &events[..] else { panic!("{events:?}") };
    let term = agreement.term(Side::Server, "events").unwrap();
    assert!(term.settings.is_none() && agreement.allows(Side::Server, "events"));
}

#[test]
fn every_call_of_a_client_ends_exactly_once() {
    let hello = r#"{"jsonrpc":"2.0","id":1,"result":{"protocol_version":"1.0.0","server_name":"loaf","capabilities":{"events":true,"image_inputs":["path"]},"methods":["tools.call"]}}"#;
    let mut client = Alone::new();
    client.step(|client, ambient, heard| client.open(ambient, heard));
    let events = client.hear(hello);
    let [Event::Opened(agreement)] = &events[..] else { panic!("{events:?}") };
    let settings = agreement.term(Side::Server, "image_inputs").unwrap().settings.as_deref().unwrap();
    assert_eq!((settings.get(), agreement.server.name.as_str()), (r#"["path"]"#, "loaf"));
    for id in 2..=4 {
        let call = CallId(id);
        client.step(|client, ambient, heard| client.call(Call::new(call, bare_call("echo")), None, ambient, heard));
    }
    let cancelled = client.step(|client, ambient, heard| client.cancel(CallId(2), ambient, heard));
    assert!(matches!(&cancelled[..], [Event::Answered(_, Err(failure))] if failure.kind == FailureKind::Cancelled));
    for (line, expected) in [
        (r#"{"jsonrpc":"2.0","id":2,"result":{"ok":true,"output":"late"}}"#, "Dropped"),
        (r#"{"jsonrpc":"2.0","id":3,"result":{"ok":true,"output":"x"}}"#, "Answered(CallId(3), Ok("),
        (r#"{"jsonrpc":"2.0","id":3,"result":{"ok":true,"output":"x"}}"#, "Dropped"),
        (r#"{"jsonrpc":"2.0","id":"4","result":{"ok":true,"output":"x"}}"#, "Dropped"),
        (r#"{"jsonrpc":"2.0","id":9,"method":"ask"}"#, "Dropped"),
        ("[]", "Dropped"),
        (hello, "Dropped"),
    ] {
        let events = client.hear(line);
        assert_eq!(events.len(), 1, "{line}");
        assert!(format!("{:?}", events[0]).starts_with(expected), "{line}: {events:?}");
    }
    assert!(
        client.hear(r#"{"jsonrpc":"2.0","method":"event","params":{"type":"state.changed","payload":{}}}"#).is_empty()
    );
    let lost = client.step(|client, ambient, heard| client.handle_disconnect(ambient, heard));
    assert!(matches!(&lost[..], [Event::Answered(_, Err(failure))] if failure.kind == FailureKind::UpstreamLost));
    assert!(client.step(|client, ambient, heard| client.handle_disconnect(ambient, heard)).is_empty());
}

/// A client side without a server.
struct Alone(Box<dyn gladhand_dialects::Client>);

impl Alone {
    fn new() -> Self {
        Self((DIALECT.client)(client_setup("1.0.0")))
    }

    fn hear(&mut self, line: &str) -> Vec<Event> {
        self.step(|client, ambient, heard| client.handle_line(line, ambient, heard))
    }

    fn step(
        &mut self,
        step: impl FnOnce(
            &mut dyn gladhand_dialects::Client,
            &mut gladhand_dialects::Ambient<'_>,
            &mut gladhand_dialects::Heard,
        ),
    ) -> Vec<Event> {
        let mut heard = gladhand_dialects::Heard::default();
        let mut entropy = gladhand_dialects::testing::Counting::default();
        let now = gladhand_dialects::testing::moment(Duration::ZERO);
        step(&mut *self.0, &mut gladhand_dialects::Ambient::new(now, &mut entropy), &mut heard);
        heard.events
    }
}

#[test]
fn any_method_name_identifies_the_dialect() {
    for (line, claim) in [
        (r#"{"jsonrpc":"2.0","id":1,"method":"rpc.handshake"}"#, Claim::Certain),
        (r#"{"jsonrpc":"2.0","id":1,"method":"session.send"}"#, Claim::Certain),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools.call"}"#, Claim::Certain),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#, Claim::No),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, Claim::No),
        (r#"{"id":1,"method":"system.ping"}"#, Claim::No),
        (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, Claim::No),
        ("[]", Claim::No),
    ] {
        let first = FirstLine { text: line, members: Members::parse(line).ok() };
        assert_eq!((DIALECT.claim)(&first), claim, "{line}");
    }
}

#[test]
fn an_answer_that_is_too_long_fails_its_call() {
    let mut pair = pair();
    pair.open().unwrap();
    pair.server.answers_itself = false;
    let call = pair.begin(bare_call("echo"), false);
    let line = pair.server.resolve_next().pop().unwrap();
    let (fault, skim) = (Fault::TooLong { limit: 5 }, gladhand_core::wire::Skim::of(line.as_bytes()));
    pair.step(|client, ambient, heard| client.handle_unreadable_line(&fault, &skim, ambient, heard));
    let outcomes = pair.take_answers(call);
    assert!(matches!(&outcomes[..], [Err(failure)] if failure.kind == FailureKind::TooLong), "{line}: {outcomes:?}");
}
