//! Tests of Fluxloop: both sides against each other, and the tables of the digest.

#![allow(clippy::unwrap_used, reason = "a test stops where it is surprised")]

use gladhand_core::negotiation::{Side, Verdict, Why};
use gladhand_core::operations::{
    Call, CallId, Content, Failure, FailureKind, Operation, Outcome, Reply, ToolCall, ToolResult,
};
use gladhand_core::wire::{Line, Members, json};
use gladhand_dialects::Server as _;
use gladhand_dialects::fluxloop::DIALECT;
use gladhand_dialects::testing::{self, Pair, TestServer, a_failure, bare_call, client_setup, server_setup};
use gladhand_dialects::{Ambient, Claim, Client, Event, FirstLine, Heard};

fn pair() -> Pair {
    Pair::new(&DIALECT, server_setup(), client_setup("0.1.0"))
}

fn server() -> TestServer {
    TestServer::pinned(&DIALECT, server_setup())
}

fn show(outcome: &Outcome) -> String {
    match outcome {
        Ok(Reply::Tool(result)) => format!("{result:?}"),
        Ok(Reply::Tools(tools)) => format!("{tools:?}"),
        Ok(other) => format!("{other:?}"),
        Err(failure) => format!("{:?}: {failure}", failure.kind),
    }
}

const IMPLEMENTATION: &str = r#""implementation":{"name":"gladhand","version":"0.0.0-test"}"#;

fn page_hello() -> String {
    format!(
        r#"{{"name":"fluxloop-mcp","version":"0.1.0","capabilities":{{"tools":["handshake","echo","fail"]}},{IMPLEMENTATION}}}"#
    )
}

fn shipped_hello() -> String {
    format!(r#"{{"name":"fluxloop","version":"0.0.1","capabilities":["echo","fail"],{IMPLEMENTATION}}}"#)
}

#[test]
fn a_pair_opens_lists_and_calls_in_page_form() {
    let mut pair = pair();
    let heard = pair.open().unwrap();
    let told = pair.server.opened[0].clone();
    for (agreement, capabilities) in
        [(&heard, vec!["handshake", "tools", "tools.echo", "tools.fail"]), (&told, vec!["handshake", "tools"])]
    {
        assert_eq!((agreement.dialect, agreement.version.as_str()), ("fluxloop", "0.1.0"));
        assert_eq!(agreement.server.name, "gladhand");
        let agreed: Vec<_> = agreement.agreed(Side::Server).map(|term| term.capability.to_string()).collect();
        assert_eq!(agreed, capabilities);
    }
    assert_eq!(
        pair.transcript,
        [
            r#"-> {"type":"handshake","id":"1"}"#.to_owned(),
            format!(r#"<- {{"type":"response","id":"1","result":{}}}"#, page_hello()),
        ]
    );
    let tools = pair.list_tools();
    let listed: Vec<_> = tools.iter().map(|tool| (tool.name.as_str(), tool.input_schema.get())).collect();
    assert_eq!(listed, [("echo", r#"{"type":"object"}"#), ("fail", r#"{"type":"object"}"#)]);
    for (tool, arguments, outcome) in [
        ("echo", r#"{"message":"hi é"}"#, show(&Ok(Reply::Tool(ToolResult::text("hi é"))))),
        ("fail", r#"{"message":"no"}"#, show(&Ok(Reply::Tool(ToolResult::failure("no"))))),
        ("nope", "{}", "UnknownTool: Unknown tool: nope".to_owned()),
        ("echo", "{}", "InvalidArguments: message: required".to_owned()),
        ("echo", r#"{"n":1e400}"#, "InvalidArguments: a number in the arguments is out of range".to_owned()),
        ("echo", r#"{"n":"\ud83d"}"#, "InvalidArguments: the arguments hold half a surrogate pair".to_owned()),
    ] {
        assert_eq!(show(&pair.call_tool(tool, arguments)), outcome, "{tool} {arguments}");
    }
    assert_eq!(pair.server.opened.len(), 1, "announced once");
}

#[test]
fn every_outcome_of_a_tool_crosses_the_wire() {
    let image = json::raw(r#"{"type":"image","data":"","mimeType":"image/png"}"#.to_owned());
    let mixed = ToolResult { content: vec![Content::text("a"), Content::Block(image)], ..ToolResult::default() };
    let outcomes: Vec<Outcome> = vec![
        Ok(Reply::Tool(ToolResult::text("plain"))),
        Ok(Reply::Tool(ToolResult::failure("sorry"))),
        Ok(Reply::Tool(ToolResult::structured(json::raw(r#"{"n":12345678901234567890.10}"#.to_owned())))),
        Ok(Reply::Tool(mixed)),
        Err(a_failure(FailureKind::InvalidArguments)),
        Err(a_failure(FailureKind::Busy)),
        Err(a_failure(FailureKind::Denied)),
        Err(a_failure(FailureKind::Cancelled)),
        Err(a_failure(FailureKind::TimedOut)),
        Err(a_failure(FailureKind::Stopping)),
        Err(a_failure(FailureKind::UpstreamLost)),
        Err(a_failure(FailureKind::UpstreamError)),
        Err(a_failure(FailureKind::Internal)),
    ];
    for outcome in outcomes {
        let expected = show(&outcome);
        let mut pair = pair();
        pair.open().unwrap();
        pair.server.answers_itself = false;
        let call = pair.begin(bare_call("echo"), true);
        let delivered = pair.server.delivered.pop_front().unwrap();
        let lines = pair.server.resolve(delivered.call.id, outcome);
        pair.hear(&lines);
        assert_eq!(pair.take_answers(call).iter().map(show).collect::<Vec<_>>(), [expected]);
    }
}

#[test]
fn each_line_is_answered_in_its_own_form() {
    let (page, shipped) = (page_hello(), shipped_hello());
    for (line, answer) in [
        (r#"{"type":"handshake","id":"1"}"#, format!(r#"{{"type":"response","id":"1","result":{page}}}"#)),
        (r#"{"type":"handshake"}"#, format!(r#"{{"type":"response","result":{page}}}"#)),
        (r#"{"type":"request","id":1.0,"tool":"handshake","params":7}"#, format!(r#"{{"type":"response","id":1.0,"result":{page}}}"#)),
        (
            r#"{"tool":"handshake","id":{"a":[1]}}"#,
            format!(r#"{{"type":"response","result":{{"tool":"handshake","data":{shipped}}},"id":{{"a":[1]}}}}"#),
        ),
        (
            r#"{"tool":"handshake","id":null}"#,
            format!(r#"{{"type":"response","result":{{"tool":"handshake","data":{shipped}}}}}"#),
        ),
        (
            r#"{"type":"request","id":"a","tool":"echo","params":{"message":"m\u00e9"}}"#,
            r#"{"type":"response","id":"a","result":{"text":"m\u00e9"}}"#.to_owned(),
        ),
        (
            r#"{"id":12345678901234567890,"tool":"echo","message":"m","id":2}"#,
            r#"{"type":"response","result":{"tool":"echo","data":{"text":"m"}},"id":2}"#.to_owned(),
        ),
        (
            r#"{"type":"request","id":"a","tool":"fail","params":{"message":"m"}}"#,
            r#"{"type":"error","id":"a","error":{"code":"tool_error","message":"m"}}"#.to_owned(),
        ),
        (
            r#"{"type":"request","id":"a","tool":"faqz"}"#,
            r#"{"type":"error","id":"a","error":{"code":"tool_not_found","message":"Unknown tool: faqz","details":{"availableTools":["handshake","echo","fail"]}}}"#.to_owned(),
        ),
        (
            r#"{"tool":"faqz","id":false}"#,
            r#"{"type":"error","error":{"code":"unknown_tool","message":"Unknown tool 'faqz'"},"id":false}"#.to_owned(),
        ),
        (
            r#"{"type":"request","id":"a","tool":"echo","params":null}"#,
            r#"{"type":"error","id":"a","error":{"code":"invalid_payload","message":"message: required","details":{"param":"message","problem":"required"}}}"#.to_owned(),
        ),
    ] {
        assert_eq!(server().line(line), [answer], "{line}");
    }
}

#[test]
fn every_condition_of_the_table_has_its_answer() {
    let error = |id: &str, message: &str, details: &str| {
        format!(r#"{{"type":"error"{id},"error":{{"code":"invalid_payload","message":"{message}"{details}}}}}"#)
    };
    let types = r#","details":{"types":["handshake","request"]}"#;
    for (line, answer) in [
        ("[]", error("", "Decoded payload is not a JSON object", "")),
        ("null", error("", "Decoded payload is not a JSON object", "")),
        (r#"{"type":"handshake","id":1e400}"#, error("", "Number out of range", "")),
        (r#"{"type":"request","id":1,"tool":"echo","params":{"x":[-1e999]}}"#, error("", "Number out of range", "")),
        ("{}", error("", "Missing member: type", r#","details":{"missing":"type"}"#)),
        (r#"{"id":7}"#, error(r#","id":7"#, "Missing member: type", r#","details":{"missing":"type"}"#)),
        (
            r#"{"type":"request","id":7}"#,
            error(r#","id":7"#, "Missing member: tool", r#","details":{"missing":"tool"}"#),
        ),
        (
            r#"{"type":"request","id":7,"tool":5}"#,
            error(r#","id":7"#, "tool must be of type string", r#","details":{"param":"tool","expected":"string"}"#),
        ),
        (
            r#"{"type":"request","id":7,"tool":"echo","params":[]}"#,
            error(
                r#","id":7"#,
                "params must be of type object",
                r#","details":{"param":"params","expected":"object"}"#,
            ),
        ),
        (r#"{"type":"response","id":7,"result":{}}"#, error(r#","id":7"#, "Unexpected message type: response", types)),
        (r#"{"type":"hello","tool":"echo"}"#, error("", "Unexpected message type: hello", types)),
        (r#"{"type":null,"tool":"echo"}"#, error("", "Message type must be a string", types)),
        (
            r#"{"jsonrpc":"2.0","id":7,"method":"tools/list"}"#,
            error(r#","id":7"#, "This session speaks Fluxloop: JSON-RPC is not answered in it", ""),
        ),
    ] {
        let mut server = server();
        assert_eq!(server.line(line), [answer], "{line}");
        assert!(server.opened.is_empty(), "{line} must not open a session");
    }
    assert_eq!(
        server().line(r#"{"id":7,"tool":null}"#),
        [
            r#"{"type":"error","error":{"code":"invalid_payload","message":"tool must be of type string","details":{"param":"tool","expected":"string"}},"id":7}"#
        ]
    );
    for blank in ["", "  \t \r"] {
        assert_eq!(server().line(blank), [""; 0]);
    }
    assert!(server().frame(Line::TooLong { limit: 9 })[0].contains("longer than 9 bytes"));
}

#[test]
fn answers_keep_the_order_of_requests() {
    let mut server = server().holding();
    let call =
        |id: &str, tool: &str| format!(r#"{{"type":"request","id":{id},"tool":"{tool}","params":{{"message":"m"}}}}"#);
    let mut lines = Vec::new();
    for line in
        [call("1", "echo"), call("2", "nope"), "[1]".into(), r#"{"type":"handshake","id":4}"#.into(), "x".into()]
    {
        lines.extend(server.line(&line));
    }
    assert_eq!(lines, [""; 0]);
    assert_eq!(server.door.in_flight().len(), 3);
    while let Some(waiting) = server.delivered.pop_back() {
        assert_eq!(lines, [""; 0], "answers must wait for the first one");
        let outcome = testing::answer(&waiting.call, &waiting.agreement);
        lines.extend(server.resolve(waiting.call.id, outcome));
    }
    let heads: Vec<_> = lines.iter().map(|line| line.chars().take(25).collect::<String>()).collect();
    assert_eq!(
        heads,
        [
            r#"{"type":"response","id":1"#,
            r#"{"type":"error","id":2,"e"#,
            r#"{"type":"error","error":{"#,
            r#"{"type":"response","id":4"#,
            r#"{"type":"error","error":{"#
        ]
    );
    assert!(server.door.in_flight().is_empty());
}

#[test]
fn beyond_the_limit_the_answer_is_busy_and_in_order() {
    let mut setup = server_setup();
    setup.max_in_flight = 1;
    let mut server = TestServer::pinned(&DIALECT, setup).holding();
    assert_eq!(server.line(r#"{"id":1,"tool":"echo","message":"m"}"#), [""; 0]);
    assert_eq!(server.line(r#"{"id":2,"tool":"echo","message":"m"}"#), [""; 0]);
    assert_eq!(
        server.resolve_next(),
        [
            r#"{"type":"response","result":{"tool":"echo","data":{"text":"m"}},"id":1}"#,
            r#"{"type":"error","error":{"code":"busy","message":"Too many requests in flight"},"id":2}"#
        ]
    );
}

#[test]
fn answers_behind_a_slow_call_are_counted_until_sent() {
    let mut server = server().holding();
    server.line(r#"{"type":"request","id":"slow","tool":"echo"}"#);
    let before = server.door.held_bytes();
    for _ in 0..5_000 {
        assert_eq!(server.line("[]"), [""; 0]);
    }
    assert!(server.door.held_bytes() > before + 5_000 * 100, "{}", server.door.held_bytes());
    assert_eq!(server.resolve_next().len(), 5_001);
    assert_eq!((server.door.held_bytes(), server.door.in_flight().len()), (0, 0));
}

#[test]
fn a_fluxloop_session_opens_without_a_handshake_and_the_agreement_records_it() {
    let mut server = server();
    server.line(r#"{"tool":"echo","message":"m"}"#);
    server.line(r#"{"tool":"echo","message":"m"}"#);
    assert_eq!(server.opened.len(), 1);
    let term = server.opened[0].term(Side::Server, "handshake").unwrap();
    assert_eq!(term.verdict, Verdict::Refused(Why::NotWanted));
    assert!(server.opened[0].allows(Side::Server, "tools"));
    server.line(r#"{"type":"handshake"}"#);
    server.line(r#"{"type":"handshake"}"#);
    assert_eq!(server.opened.len(), 2);
    assert!(server.opened[1].allows(Side::Server, "handshake"));
}

#[test]
fn a_handshake_that_fails_opens_nothing() {
    let mut server = server().holding();
    server.line(r#"{"type":"handshake","id":1}"#);
    let call = server.delivered.pop_front().unwrap().call.id;
    assert_eq!(
        server.resolve(call, Err(Failure::new(FailureKind::Stopping, "we are stopping"))),
        [
            r#"{"type":"error","id":1,"error":{"code":"internal_error","message":"we are stopping","details":{"reason":"stopping"}}}"#
        ]
    );
    assert!(server.opened.is_empty());
    // A request after a pending handshake is served under the same agreement.
    server.line(r#"{"type":"handshake","id":2}"#);
    server.line(r#"{"type":"request","id":3,"tool":"echo"}"#);
    assert!(server.opened.len() == 1 && server.opened[0].allows(Side::Server, "handshake"));
    assert_eq!(server.resolve_next().len() + server.resolve_next().len(), 2);
    assert_eq!(server.opened.len(), 1);
}

#[test]
fn multi_line_json_is_written_on_one_line() {
    let mut server = server().holding();
    server.line("{\"tool\":\"echo\",\"id\":[1,\r2]}");
    let call = server.delivered.pop_front().unwrap().call.id;
    let spread = ToolResult::structured(json::raw("{\r\n\"a\":1\n}".to_owned()));
    assert_eq!(
        server.resolve(call, Ok(Reply::Tool(spread))),
        [r#"{"type":"response","result":{"tool":"echo","data":{  "a":1 }},"id":[1, 2]}"#]
    );
}

/// A client side without a server.
struct Alone(Box<dyn Client>);

impl Alone {
    fn new() -> Self {
        Self((DIALECT.client)(client_setup("0.1.0")))
    }

    fn hear(&mut self, line: &str) -> (String, Vec<Event>) {
        self.step(|client, ambient, heard| client.handle_line(line, ambient, heard))
    }

    fn step(&mut self, step: impl FnOnce(&mut dyn Client, &mut Ambient<'_>, &mut Heard)) -> (String, Vec<Event>) {
        let mut heard = Heard::default();
        let mut entropy = testing::Counting::default();
        let now = testing::moment(std::time::Duration::ZERO);
        step(&mut *self.0, &mut Ambient::new(now, &mut entropy), &mut heard);
        (String::from_utf8(heard.wire.into_bytes()).unwrap(), heard.events)
    }

    fn call(&mut self, id: u64, arguments: &str) -> (String, Vec<Event>) {
        let arguments = std::borrow::Cow::Owned(json::raw(arguments.to_owned()));
        let operation = Operation::CallTool(ToolCall { name: "faq".into(), arguments });
        self.step(|client, ambient, heard| client.call(Call::new(CallId(id), operation), None, ambient, heard))
    }
}

#[test]
fn a_client_detects_the_shipped_server() {
    let mut client = Alone::new();
    let (wire, _) = client.step(|client, ambient, heard| client.open(ambient, heard));
    assert_eq!(wire, "{\"type\":\"handshake\",\"id\":\"1\"}\n");
    let unknown = r#"{"type":"error","error":{"code":"unknown_tool","message":"Unknown tool 'None'"},"id":"1"}"#;
    let (wire, events) = client.hear(unknown);
    assert_eq!((wire.as_str(), events.len()), ("{\"tool\":\"handshake\",\"id\":\"2\"}\n", 0));
    let (_, events) = client.hear(
        r#"{"type":"response","result":{"tool":"handshake","data":{"name":"fluxloop","version":"0.0.1","capabilities":["faq"]}},"id":"2"}"#,
    );
    let [Event::Opened(agreement)] = &events[..] else { panic!("{events:?}") };
    assert_eq!((agreement.server.name.as_str(), agreement.server.version.as_str()), ("fluxloop", "0.0.1"));
    assert!(agreement.allows(Side::Server, "tools.faq"));
    let (wire, _) = client.call(7, r#"{"query":"q","topK":1.0}"#);
    assert_eq!(wire, "{\"id\":\"3\",\"tool\":\"faq\",\"query\":\"q\",\"topK\":1.0}\n");
    let (_, events) = client.hear(r#"{"type":"response","result":{"tool":"faq","data":{"answer":"a"}},"id":"3"}"#);
    let expected = ToolResult::structured(json::raw(r#"{"answer":"a"}"#.to_owned()));
    assert!(matches!(&events[..], [Event::Answered(CallId(7), outcome)] if show(outcome) == format!("{expected:?}")));
    let (wire, events) = client.call(8, r#"{"id":1}"#);
    assert!(wire.is_empty());
    assert!(matches!(&events[..], [Event::Answered(_, Err(failure))] if failure.kind == FailureKind::InvalidArguments));
}

#[test]
fn a_client_reports_why_the_opening_failed() {
    for (answer, word) in [
        (r#"{"type":"error","id":"1","error":{"code":"handshake_required","message":"m"}}"#, "peer_refused"),
        (r#"{"type":"error","error":{"code":"invalid_payload","message":{"a":1}}}"#, "peer_refused"),
        (r#"{"type":"response","id":"1","result":{"capabilities":5}}"#, "peer_misbehaved"),
        (r#"{"type":"response","id":"1","result":[]}"#, "peer_misbehaved"),
        (r#"{"type":"response","id":"1"}"#, "peer_misbehaved"),
    ] {
        let mut client = Alone::new();
        client.step(|client, ambient, heard| client.open(ambient, heard));
        let (_, events) = client.hear(answer);
        assert!(matches!(&events[..], [Event::Refused(refusal)] if refusal.word() == word), "{answer}: {events:?}");
    }
    let mut client = Alone::new();
    client.step(|client, ambient, heard| client.open(ambient, heard));
    client.hear(r#"{"type":"error","error":{"code":"unknown_tool","message":"m"},"id":"1"}"#);
    let (_, events) = client.hear(r#"{"type":"error","error":{"code":"unknown_tool","message":"m"},"id":"2"}"#);
    assert!(
        matches!(&events[..], [Event::Refused(refusal)] if refusal.word() == "peer_refused"),
        "the client must try only two forms"
    );
}

#[test]
fn every_call_of_a_client_ends_exactly_once_in_any_order() {
    let mut client = Alone::new();
    client.step(|client, ambient, heard| client.open(ambient, heard));
    client.hear(
        r#"{"type":"response","id":"1","result":{"name":"n","version":"v","capabilities":{"tools":["handshake"]}}}"#,
    );
    for id in 2..=5 {
        client.call(id, "{}");
    }
    let (_, events) = client.step(|client, ambient, heard| client.cancel(CallId(2), ambient, heard));
    assert!(
        matches!(&events[..], [Event::Answered(CallId(2), Err(failure))] if failure.kind == FailureKind::Cancelled)
    );
    for (line, expected) in [
        (r#"{"type":"response","id":"4","result":{"text":"x"}}"#, "Answered(CallId(4), Ok("),
        (r#"{"type":"response","id":"2","result":{"text":"late"}}"#, "Dropped"),
        (r#"{"type":"response","id":4,"result":{"text":"x"}}"#, "Dropped"),
        (r#"{"type":"response","id":"3"}"#, "Answered(CallId(3), Err("),
        (r#"{"type":"request","id":"5","tool":"x"}"#, "Dropped"),
        (
            r#"{"type":"error","error":{"code":"invalid_payload","message":"Malformed line"}}"#,
            "Answered(CallId(5), Err(",
        ),
        (r#"{"type":"error","error":{"code":"invalid_payload","message":"Malformed line"}}"#, "Dropped"),
        ("[]", "Dropped"),
    ] {
        let (_, events) = client.hear(line);
        assert_eq!(events.len(), 1, "{line}");
        assert!(format!("{:?}", events[0]).starts_with(expected), "{line}: {events:?}");
    }
    client.call(6, "{}");
    let (_, events) = client.step(|client, ambient, heard| client.handle_disconnect(ambient, heard));
    assert!(matches!(&events[..], [Event::Answered(_, Err(failure))] if failure.kind == FailureKind::UpstreamLost));
}

#[test]
fn first_lines_are_claimed_by_their_members() {
    for (line, claim) in [
        (r#"{"type":"handshake","id":"1"}"#, Claim::Certain),
        (r#"{"type":"request","tool":"faq"}"#, Claim::Certain),
        (r#"{"tool":"faq","query":"q"}"#, Claim::Certain),
        (r#"{"type":"response","id":"1"}"#, Claim::Plausible),
        (r#"{"type":"hello"}"#, Claim::Plausible),
        (r#"{"type":"ping","a2e":"1.0"}"#, Claim::No),
        (r#"{"type":"ping","req_id":"1"}"#, Claim::No),
        (r#"{"type":"handshake/req"}"#, Claim::No),
        (r#"{"type":5}"#, Claim::No),
        (r#"{"type":5,"tool":"faq"}"#, Claim::No),
        (r#"{"jsonrpc":"2.0","tool":"faq"}"#, Claim::No),
        ("{}", Claim::No),
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
    let (fault, skim) =
        (gladhand_core::wire::Fault::TooLong { limit: 5 }, gladhand_core::wire::Skim::of(line.as_bytes()));
    pair.step(|client, ambient, heard| client.handle_unreadable_line(&fault, &skim, ambient, heard));
    let outcomes = pair.take_answers(call);
    assert!(matches!(&outcomes[..], [Err(failure)] if failure.kind == FailureKind::TooLong), "{line}: {outcomes:?}");
}
