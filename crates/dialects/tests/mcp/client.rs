//! Tests of our client against a server that the test plays.

use gladhand_core::negotiation::{Agreement, Capability, Refusal, Side, Verdict, Why};
use gladhand_core::operations::{
    Answered, Call, CallId, FailureKind, Notice, Operation, Outcome, Party, Question, QuestionId, Reply,
};
use gladhand_core::wire::{Line, Skim};
use gladhand_dialects::mcp::DIALECT;
use gladhand_dialects::testing::{Counting, bare_call, client_setup, lines_of, moment};
use gladhand_dialects::{Ambient, Client, ClientSetup, Event, Heard, Lane, Loss};
use std::sync::Arc;
use std::time::Duration;

use crate::*;

/// A client, with everything that it sent and reported.
pub(crate) struct Hand {
    client: Box<dyn Client>,
    pub(crate) sent: Vec<String>,
    /// The parties of the sent lines.
    pub(crate) parties: Vec<Option<Party>>,
    pub(crate) events: Vec<Event>,
    /// The lane of the next step.
    pub(crate) lane: Lane,
    elapsed: Duration,
}

impl Hand {
    pub(crate) fn new(setup: ClientSetup) -> Self {
        let client = (DIALECT.client)(setup);
        let (sent, parties, events) = (Vec::new(), Vec::new(), Vec::new());
        let mut hand = Self { client, sent, parties, events, lane: Lane::MAIN, elapsed: Duration::ZERO };
        hand.step(|client, ambient, heard| client.open(ambient, heard));
        hand
    }

    pub(crate) fn step(&mut self, step: impl FnOnce(&mut dyn Client, &mut Ambient<'_>, &mut Heard)) {
        let mut heard = Heard::default();
        let mut entropy = Counting::default();
        let mut ambient = Ambient::new(moment(self.elapsed), &mut entropy);
        ambient.lane = self.lane;
        step(&mut *self.client, &mut ambient, &mut heard);
        self.sent.extend(lines_of(&heard.wire));
        self.parties.extend(heard.wire.frames().iter().map(|frame| frame.party));
        self.events.extend(heard.events);
    }

    pub(crate) fn hears(&mut self, line: &str) {
        self.step(|client, ambient, heard| client.handle_line(line, ambient, heard));
    }

    /// Passes bytes to the client that may not be a valid message.
    pub(crate) fn reads(&mut self, bytes: &[u8]) {
        self.step(|client, ambient, heard| match DIALECT.text.read(Line::Bytes(bytes)) {
            Ok(Some(text)) => client.handle_line(&text, ambient, heard),
            Ok(None) => {}
            Err(fault) => client.handle_unreadable_line(&fault, &Skim::of(bytes), ambient, heard),
        });
    }

    pub(crate) fn calls(&mut self, id: u64, operation: Operation<'_>) {
        self.step(|client, ambient, heard| {
            client.call(Call::new(CallId(id), operation).reporting(), None, ambient, heard)
        });
    }

    pub(crate) fn take_sent(&mut self) -> Vec<Value> {
        std::mem::take(&mut self.sent).iter().map(|line| value(line)).collect()
    }

    pub(crate) fn take_opening(&mut self) -> Result<Arc<Agreement>, Refusal> {
        let at = self.events.iter().position(|event| matches!(event, Event::Opened(_) | Event::Refused(_)));
        match self.events.remove(at.expect("the opening must have ended")) {
            Event::Opened(agreement) => Ok(agreement),
            Event::Refused(refusal) => Err(refusal),
            _ => unreachable!(),
        }
    }

    pub(crate) fn take_outcome(&mut self, id: u64) -> Outcome {
        let at = self.events.iter().position(|event| matches!(event, Event::Answered(call, _) if call.0 == id));
        match self.events.remove(at.expect("the call must have an outcome")) {
            Event::Answered(_, outcome) => outcome,
            _ => unreachable!(),
        }
    }

    /// Passes a line to the client on the lane of one of our requests.
    pub(crate) fn hears_on(&mut self, lane: u64, line: &str) {
        self.lane = Lane(lane);
        self.hears(line);
        self.lane = Lane::MAIN;
    }

    pub(crate) fn loses(&mut self, lane: u64, loss: Loss) {
        self.step(|client, ambient, heard| client.handle_lost_exchange(Lane(lane), loss, ambient, heard));
    }

    pub(crate) fn cancels(&mut self, id: u64) {
        self.step(|client, ambient, heard| client.cancel(CallId(id), ambient, heard));
    }

    pub(crate) fn answers(&mut self, question: QuestionId, answered: Answered) {
        self.step(|client, ambient, heard| client.answer(question, answered, ambient, heard));
    }

    /// Advances the clock to the client's next deadline, which must exist, and returns the elapsed time.
    pub(crate) fn wakes(&mut self) -> Duration {
        let before = self.elapsed;
        self.elapsed = self.client.poll_timeout().expect("the client must have a deadline");
        self.step(|client, ambient, heard| client.handle_timeout(ambient, heard));
        self.elapsed - before
    }

    pub(crate) fn has_deadline(&self) -> bool {
        self.client.poll_timeout().is_some()
    }

    pub(crate) fn headers(&self, line: &str) -> Vec<(String, String)> {
        self.client.posting(line).headers
    }

    /// The only sent line, as a tree.
    pub(crate) fn only_sent(&mut self) -> Value {
        let mut sent = self.take_sent();
        assert_eq!(sent.len(), 1, "{sent:?}");
        sent.remove(0)
    }

    /// The reported questions, with their calls.
    pub(crate) fn take_asked(&mut self) -> Vec<(QuestionId, Option<CallId>, Question)> {
        let (asked, rest): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.events).into_iter().partition(|event| matches!(event, Event::Asked(..)));
        self.events = rest;
        let asked = asked.into_iter().filter_map(|event| match event {
            Event::Asked(id, call, question) => Some((id, call, question)),
            _ => None,
        });
        asked.collect()
    }

    /// The reported notices, as text.
    pub(crate) fn take_notices(&mut self) -> Vec<String> {
        let events = std::mem::take(&mut self.events);
        let (notices, rest): (Vec<_>, Vec<_>) = events.into_iter().partition(|event| matches!(event, Event::Notice(_)));
        self.events = rest;
        let notices = notices.iter().filter_map(|event| match event {
            Event::Notice(notice) => Some(format!("{notice:?}")),
            _ => None,
        });
        notices.collect()
    }

    /// Whether a call has no outcome yet.
    pub(crate) fn is_open(&self, id: u64) -> bool {
        !self.events.iter().any(|event| matches!(event, Event::Answered(call, _) if call.0 == id))
    }

    pub(crate) fn drops(&self) -> usize {
        self.events.iter().filter(|event| matches!(event, Event::Dropped(_))).count()
    }
}

pub(crate) fn result(id: &str, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

fn initialize_result(version: &str) -> String {
    initialized_with(version, r#"{"tools":{"listChanged":true},"logging":{},"x":{}}"#)
}

fn initialized_with(version: &str, capabilities: &str) -> String {
    let info = r#"{"name":"s","version":"2"}"#;
    result("1", &format!(r#"{{"protocolVersion":"{version}","capabilities":{capabilities},"serverInfo":{info}}}"#))
}

/// A client in an open session with a server that declares these capabilities. The opening has id 1.
pub(crate) fn opened_with(setup: ClientSetup, capabilities: &str) -> Hand {
    let version = setup.version.clone();
    let mut hand = Hand::new(setup);
    match version.as_str() {
        STATELESS => hand.hears(&result("1", &DISCOVERED.replace(r#"{"tools":{}}"#, capabilities))),
        _ => hand.hears(&initialized_with(&version, capabilities)),
    }
    hand.take_opening().unwrap();
    hand.sent.retain(|line| !line.contains("notifications/initialized"));
    hand.sent.retain(|line| !line.contains("\"id\":1,"));
    hand
}

/// Everything that a server can declare, except tasks.
pub(crate) const EVERYTHING: &str = r#"{"tools":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true},"prompts":{"listChanged":true},"completions":{},"logging":{}}"#;

const DISCOVERED: &str = r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"}"#;

/// A client in an open session. The opening has id 1.
pub(crate) fn open_client(version: &str) -> Hand {
    let mut hand = Hand::new(client_setup(version));
    match version {
        STATELESS => hand.hears(&result("1", DISCOVERED)),
        _ => hand.hears(&initialize_result(version)),
    }
    hand.take_opening().unwrap();
    hand.take_sent();
    hand
}

#[test]
fn the_opening_contains_our_identity_and_capabilities() {
    let provides = vec![(Capability::named("roots"), None), (Capability::named("roots.listChanged"), None)];
    let mut hand = Hand::new(ClientSetup { provides: provides.clone(), ..client_setup("2025-06-18") });
    let expected = serde_json::json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {"roots": {"listChanged": true}},
            "clientInfo": {"name": "tester", "version": "1.0"},
        },
    });
    assert_eq!(hand.take_sent(), [expected]);
    let mut hand = Hand::new(ClientSetup { provides, ..client_setup(STATELESS) });
    let expected = serde_json::json!({
        "jsonrpc": "2.0", "id": 1, "method": "server/discover",
        "params": {"_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "tester", "version": "1.0"},
            "io.modelcontextprotocol/clientCapabilities": {"roots": {"listChanged": true}},
        }},
    });
    assert_eq!(hand.take_sent(), [expected]);
}

#[test]
fn an_older_version_is_accepted_and_an_unknown_one_refused() {
    for version in HANDSHAKE {
        for offered in HANDSHAKE {
            let mut hand = Hand::new(client_setup(version));
            hand.take_sent();
            hand.hears(&initialize_result(offered));
            let agreement = hand.take_opening().unwrap();
            assert_eq!(agreement.version, offered);
            assert_eq!(agreement.asked_version.as_deref(), (version != offered).then_some(version));
            assert_eq!(hand.sent, [INITIALIZED]);
        }
        for offered in ["2099-01-01", "2026-07-28", "2024-10-07"] {
            let mut hand = Hand::new(client_setup(version));
            hand.take_sent();
            hand.hears(&initialize_result(offered));
            let refusal =
                Refusal::VersionMismatch { asked: vec![version.to_owned()], spoken: vec![offered.to_owned()] };
            assert_eq!(hand.take_opening().unwrap_err(), refusal);
            assert_eq!(hand.sent, NOTHING, "no `initialized`");
        }
    }
}

#[test]
fn the_agreement_contains_all_server_declarations() {
    let mut hand = Hand::new(client_setup("2025-06-18"));
    hand.hears(&initialize_result("2025-06-18"));
    let agreement = hand.take_opening().unwrap();
    let terms: Vec<_> =
        agreement.terms.iter().map(|term| (term.owner, term.capability.0.as_ref(), term.verdict)).collect();
    let expected = [
        (Side::Server, "logging", Verdict::Agreed),
        (Side::Server, "tools", Verdict::Agreed),
        (Side::Server, "tools.listChanged", Verdict::Agreed),
        (Side::Server, "x", Verdict::Refused(Why::Unknown)),
    ];
    assert_eq!(terms, expected);
    assert_eq!((agreement.server.name.as_str(), agreement.server.version.as_str()), ("s", "2"));
    let wants = Some(vec![Capability::named("tools")]);
    let mut hand = Hand::new(ClientSetup { wants, ..client_setup("2025-06-18") });
    hand.hears(&initialize_result("2025-06-18"));
    let agreement = hand.take_opening().unwrap();
    assert_eq!(agreement.term(Side::Server, "logging").unwrap().verdict, Verdict::Refused(Why::NotWanted));
}

#[test]
fn every_refused_opening_has_a_reason() {
    let error =
        |code: i64, data: &str| format!(r#"{{"jsonrpc":"2.0","id":1,"error":{{"code":{code},"message":"no"{data}}}}}"#);
    let mismatch = |asked: &str, spoken: &[&str]| Refusal::VersionMismatch {
        asked: vec![asked.to_owned()],
        spoken: spoken.iter().map(|version| (*version).to_owned()).collect(),
    };
    let refused = |code: &str| Refusal::PeerRefused { code: code.to_owned(), message: "no".to_owned() };
    let unsupported = error(-32022, r#","data":{"supported":["2099-01-01"],"requested":"x"}"#);
    for (version, line, expected) in [
        ("2025-11-25", error(-32603, ""), refused("-32603")),
        ("2025-11-25", error(0, ""), refused("0")),
        ("2025-11-25", unsupported.clone(), mismatch("2025-11-25", &["2099-01-01"])),
        (STATELESS, error(-32601, ""), refused("-32601")),
        (STATELESS, unsupported, mismatch(STATELESS, &["2099-01-01"])),
        (STATELESS, result("1", &DISCOVERED.replace("2026-07-28", "2099-01-01")), mismatch(STATELESS, &["2099-01-01"])),
    ] {
        let mut hand = Hand::new(client_setup(version));
        hand.take_sent();
        hand.hears(&line);
        assert_eq!(hand.take_opening().unwrap_err(), expected, "{version} {line}");
        assert_eq!(hand.sent, NOTHING);
    }
    for (version, line) in [
        ("2025-11-25", result("1", "7")),
        ("2025-11-25", result("1", "{}")),
        ("2025-11-25", result("1", r#"{"protocolVersion":"2025-11-25"}"#)),
        ("2025-11-25", result("1", r#"{"protocolVersion":"2025-11-25","capabilities":7}"#)),
        (STATELESS, result("1", r#"{"tools":[]}"#)),
        (STATELESS, result("1", r#"{"supportedVersions":["2026-07-28"],"capabilities":{}}"#)),
        (STATELESS, result("1", r#"{"resultType":"complete","capabilities":{}}"#)),
        (STATELESS, error(-32022, r#","data":{"supported":["2026-07-28"]}"#)),
    ] {
        let mut hand = Hand::new(client_setup(version));
        hand.hears(&line);
        // A server that refuses a version and lists it as supported gets one more try.
        hand.hears(&line.replace(r#""id":1"#, r#""id":2"#));
        assert_eq!(hand.take_opening().unwrap_err().word(), "peer_misbehaved", "{version} {line}");
    }
    let mut hand = Hand::new(client_setup(STATELESS));
    hand.step(|client, ambient, heard| client.handle_disconnect(ambient, heard));
    assert_eq!(hand.take_opening().unwrap_err(), Refusal::PeerGone);
    hand.calls(1, bare_call("x"));
    assert_eq!(hand.take_outcome(1).unwrap_err().kind, FailureKind::UpstreamLost);
}

#[test]
fn declarations_of_a_server_are_bounded() {
    let declares = |bytes: usize| {
        let mut hand = Hand::new(client_setup("2025-11-25"));
        let blob = "x".repeat(bytes);
        hand.hears(&initialized_with("2025-11-25", &format!(r#"{{"experimental":{{"a":{{"b":"{blob}"}}}}}}"#)));
        hand.take_opening().map_err(|refusal| refusal.word())
    };
    assert!(declares(10_000).is_ok());
    assert_eq!(declares(100_000).unwrap_err(), "peer_misbehaved");
    let mut hand = Hand::new(client_setup("2025-11-25"));
    let instructions = format!(r#""instructions":"{}","protocolVersion""#, "é".repeat(200_000));
    hand.hears(&initialize_result("2025-11-25").replace(r#""protocolVersion""#, &instructions));
    let kept = hand.take_opening().unwrap().instructions.clone().unwrap();
    assert_eq!((kept.len(), kept.chars().all(|each| each == 'é')), (256 * 1024, true));
}

#[test]
fn common_deviations_of_servers_are_tolerated() {
    let mut hand = Hand::new(client_setup("2025-11-25"));
    hand.take_sent();
    for line in [
        r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}"#,
        "not json",
        "[1]",
        &result("99", "{}"),
        &result("\"server-error\"", "{}"),
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"x"}}"#,
    ] {
        hand.hears(line);
    }
    assert_eq!(hand.drops(), 7);
    hand.hears(PING);
    assert_eq!(hand.take_sent(), [value(PONG)], "a ping must be answered before the result too");
    hand.hears(&initialize_result("2025-11-25").replace(r#""id":1"#, r#""id":1.0"#));
    assert_eq!(hand.take_opening().unwrap().version, "2025-11-25");
    hand.take_sent();
    hand.calls(5, bare_call("t"));
    hand.hears(&result("2.0", r#"{"content":[]}"#));
    hand.hears(&result("2", r#"{"content":[]}"#));
    assert!(hand.take_outcome(5).is_ok());
    assert_eq!(hand.drops(), 8, "the second answer must be dropped");
    hand.take_sent();
    for method in ["roots/list", "sampling/createMessage", "elicitation/create", "nonsense"] {
        hand.hears(&request("0", method, "{}"));
        assert_eq!(hand.take_sent()[0]["error"]["code"], -32601, "{method}");
    }
}

#[test]
fn a_stateless_server_may_not_ask_anything() {
    let mut hand = open_client(STATELESS);
    hand.hears(PING);
    hand.hears(&request("0", "roots/list", "{}"));
    assert_eq!((hand.sent.len(), hand.drops()), (0, 2));
}

#[test]
fn requests_have_the_form_of_their_era() {
    let mut hand = open_client("2025-06-18");
    hand.step(|client, ambient, heard| client.call(Call::new(CallId(1), bare_call("t")), None, ambient, heard));
    hand.calls(2, bare_call("t"));
    hand.step(|client, ambient, heard| client.call(Call::new(CallId(3), Operation::ListTools), None, ambient, heard));
    let expected = [
        r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"t","arguments":{}}}"#,
        r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"t","arguments":{},"_meta":{"progressToken":3}}}"#,
        r#"{"jsonrpc":"2.0","id":4,"method":"tools/list","params":{}}"#,
    ];
    assert_eq!(hand.sent, expected);
    let mut hand = open_client(STATELESS);
    hand.calls(1, Operation::ListTools);
    let meta = hand.take_sent()[0]["params"]["_meta"].clone();
    let keys: Vec<_> = meta.as_object().unwrap().keys().cloned().collect();
    let expected =
        ["clientCapabilities", "clientInfo", "protocolVersion"].map(|key| format!("io.modelcontextprotocol/{key}"));
    assert_eq!(keys, [&expected[..], &["progressToken".to_owned()]].concat());
}

#[test]
fn pages_are_followed_to_the_end_and_loops_are_detected() {
    for version in DIALECT.versions {
        let mut hand = open_client(version);
        hand.calls(1, Operation::ListTools);
        for (id, page) in [
            (
                2,
                r#"{"tools":[{"name":"a","inputSchema":{"type":"object"},"annotations":{"x":1.0}},{"nameless":1}],"nextCursor":"n"}"#,
            ),
            (3, r#"{"tools":[{"name":"b","title":"B","description":"d"}],"nextCursor":"m"}"#),
            (4, r#"{"tools":[]}"#),
        ] {
            hand.hears(&result(&id.to_string(), page));
        }
        let cursors: Vec<_> = hand.take_sent().iter().map(|line| line["params"]["cursor"].clone()).collect();
        assert_eq!(cursors, [Value::Null, "n".into(), "m".into()]);
        let Ok(Reply::Tools(tools)) = hand.take_outcome(1) else { panic!() };
        let shown: Vec<_> =
            tools.iter().map(|tool| (tool.name.as_str(), tool.title.as_deref(), tool.extra.len())).collect();
        assert_eq!(shown, [("a", None, 1), ("b", Some("B"), 0)]);

        hand.calls(2, Operation::ListTools);
        hand.hears(&result("5", r#"{"tools":[],"nextCursor":"n"}"#));
        hand.hears(&result("6", r#"{"tools":[],"nextCursor":"n"}"#));
        assert_eq!(hand.take_outcome(2).unwrap_err().kind, FailureKind::UpstreamError);

        hand.calls(3, Operation::ListTools);
        let mut pages = 0;
        while !hand.events.iter().any(|event| matches!(event, Event::Answered(..))) {
            pages += 1;
            hand.hears(&result(&(6 + pages).to_string(), &format!(r#"{{"tools":[],"nextCursor":"c{pages}"}}"#)));
        }
        assert_eq!(hand.take_outcome(3).unwrap_err().kind, FailureKind::UpstreamError);
        assert_eq!(pages, 1000);
    }
}

#[test]
fn results_keep_unknown_members() {
    let mut hand = open_client(STATELESS);
    hand.calls(1, bare_call("t"));
    hand.hears(&result(
        "2",
        r#"{"content":[{"type":"text","text":"a\ud83d"},{"type":"text","text":"b","annotations":{}},{"type":"image"}],"structuredContent":[1.0],"isError":true,"resultType":"complete","_meta":{"k":1},"y":2}"#,
    ));
    let Ok(Reply::Tool(result)) = hand.take_outcome(1) else { panic!() };
    let content: Vec<_> = result
        .content
        .iter()
        .map(|content| match content {
            gladhand_core::operations::Content::Text(raw) => ("text", raw.get()),
            gladhand_core::operations::Content::Block(raw) => ("block", raw.get()),
        })
        .collect();
    let expected = [
        ("text", r#""a\ud83d""#),
        ("block", r#"{"type":"text","text":"b","annotations":{}}"#),
        ("block", r#"{"type":"image"}"#),
    ];
    assert_eq!(content, expected);
    assert_eq!(result.structured.unwrap().get(), "[1.0]");
    assert!(result.failed);
    let extra: Vec<_> = result.extra.iter().map(|(name, raw)| (name.as_str(), raw.get())).collect();
    assert_eq!(extra, [("_meta", r#"{"k":1}"#), ("y", "2")]);
}

#[test]
fn an_incomplete_result_is_a_failure_with_a_reason() {
    for (answer, kind, words) in [
        (
            r#""result":{"resultType":"input_required","inputRequests":{"k":{"method":"elicitation/create"},"l":{"method":"roots/list"}}}"#,
            FailureKind::UpstreamError,
            "elicitation/create, roots/list",
        ),
        (r#""result":{"resultType":"task","taskId":"1"}"#, FailureKind::UpstreamError, "\"task\""),
        (r#""result":7"#, FailureKind::UpstreamError, "not an object"),
        (r#""result":{"content":7}"#, FailureKind::UpstreamError, "not an array"),
        (r#""error":{"code":0,"message":"cancelled"}"#, FailureKind::UpstreamError, "cancelled"),
        (r#""error":{"code":-32602,"message":"Tool t not found"}"#, FailureKind::UnknownTool, "unknown tool: t"),
        (r#""error":{"code":-32602,"message":"bad cursor"}"#, FailureKind::UpstreamError, "bad cursor"),
        (r#""error":{"code":-32603,"message":"m","data":{"reason":"busy"}}"#, FailureKind::Busy, "m"),
        (r#""error":{"code":-32603,"message":"m","data":{"reason":"stopping"}}"#, FailureKind::Stopping, "m"),
        (r#""error":7"#, FailureKind::UpstreamError, "error"),
    ] {
        let mut hand = open_client(STATELESS);
        hand.calls(1, bare_call("t"));
        hand.hears(&format!(r#"{{"jsonrpc":"2.0","id":2,{answer}}}"#));
        let failure = hand.take_outcome(1).unwrap_err();
        assert_eq!(failure.kind, kind, "{answer}");
        assert!(failure.message.contains(words), "{}", failure.message);
        if let Some(error) = answer.strip_prefix(r#""error":"#) {
            assert_eq!(failure.data.unwrap().get(), error);
        }
    }
}

#[test]
fn notices_reach_their_call() {
    let mut hand = open_client("2025-11-25");
    hand.calls(7, bare_call("t"));
    hand.hears(r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":2,"progress":1,"total":4,"message":"m"}}"#);
    hand.hears(r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":3,"progress":1}}"#);
    hand.hears(r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"d"}}"#);
    hand.hears(r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"loud","data":"d"}}"#);
    hand.hears(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#);
    hand.hears(r#"{"jsonrpc":"2.0","method":"notifications/prompts/list_changed"}"#);
    let heard: Vec<_> = hand
        .events
        .iter()
        .map(|event| match event {
            Event::Notice(Notice::Progress(call, progress)) => format!("progress of {} {:?}", call.0, progress.total),
            Event::Notice(Notice::Log(None, log)) => format!("log {} {}", log.level.word(), log.data),
            Event::Notice(Notice::ToolsChanged) => "tools changed".to_owned(),
            other => format!("{other:?}"),
        })
        .collect();
    let expected = [
        "progress of 7 Some(4.0)",
        r#"Dropped("a notification without a recipient")"#,
        r#"log error "d""#,
        r#"Dropped("a notification without a recipient")"#,
        "tools changed",
        r#"Passed("a notification that was not agreed")"#,
        "Notice(PromptsChanged)",
    ];
    assert_eq!(heard, expected);
}

#[test]
fn a_lost_upstream_fails_every_call_once() {
    let mut hand = open_client("2025-11-25");
    for id in 1..=3 {
        hand.calls(id, bare_call("t"));
    }
    hand.take_sent();
    hand.step(|client, ambient, heard| client.cancel(CallId(2), ambient, heard));
    assert_eq!(hand.take_sent()[0]["params"]["requestId"], 3);
    assert_eq!(hand.take_outcome(2).unwrap_err().kind, FailureKind::Cancelled);
    hand.step(|client, ambient, heard| client.handle_disconnect(ambient, heard));
    hand.step(|client, ambient, heard| client.handle_disconnect(ambient, heard));
    for id in [1, 3] {
        assert_eq!(hand.take_outcome(id).unwrap_err().kind, FailureKind::UpstreamLost);
    }
    assert!(hand.events.is_empty(), "{:?}", hand.events);
}

#[test]
fn a_batch_from_a_server_is_split_where_it_was_agreed() {
    for (version, answered) in [("2025-03-26", true), ("2025-06-18", false)] {
        let mut hand = open_client(version);
        hand.calls(1, bare_call("t"));
        hand.take_sent();
        hand.hears(&format!("[{},{PING}]", result("2", r#"{"content":[]}"#)));
        assert_eq!(hand.events.iter().any(|event| matches!(event, Event::Answered(_, Ok(_)))), answered, "{version}");
        assert_eq!(hand.take_sent().len(), usize::from(answered));
    }
}
