//! Tests of the agent's side, against our own host and against other hosts.

use gladhand_core::negotiation::{Capability, Refusal, Side, Verdict, Why};
use gladhand_core::operations::{FailureKind, Notice, Operation, Outcome, Reply};
use serde_json::json;

use super::*;
use crate::ambient::Ambient;
use crate::side::Server as _;
use crate::side::{ClientSetup, Event, Heard};
use crate::testing::{Counting, Pair, bare_call, client_setup, moment, tools};

fn pair(server: ServerSetup, client: ClientSetup) -> Pair {
    Pair::new(&DIALECT, server, client)
}

fn wanting(names: &[&'static str]) -> ClientSetup {
    ClientSetup { wants: Some(names.iter().map(|name| Capability::named(name)).collect()), ..client_setup("1.0") }
}

fn kind_of(outcome: &Outcome) -> Result<String, FailureKind> {
    match outcome {
        Ok(Reply::Tool(result)) => Ok(result.joined_text()),
        Ok(Reply::Tools(tools)) => Ok(format!("{} tools", tools.len())),
        Ok(other) => Ok(format!("{other:?}")),
        Err(failure) => Err(failure.kind),
    }
}

#[test]
fn the_two_sides_agree_list_and_call() {
    let mut pair = pair(server_setup(), client_setup("1.0"));
    let agreement = pair.open().unwrap();
    let agreed: Vec<_> = agreement.agreed(Side::Server).map(|term| term.capability.0.as_ref()).collect();
    assert_eq!(agreed, ["tools"]);
    assert_eq!(agreement.terms.len(), 11, "one term for each requested name");
    let theirs = &pair.server.opened[0];
    assert_eq!((&agreement.session, agreement.max_parallel), (&theirs.session, Some(4)));
    assert_eq!(theirs.client.name, "tester");
    let listed = pair.list_tools();
    let names = |tools: &[gladhand_core::operations::Tool]| {
        tools
            .iter()
            .map(|tool| (tool.name.clone(), tool.description.clone(), tool.input_schema.get().to_owned()))
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&listed), names(&tools()));
    let cases = [
        (r#"{"message":"é"}"#, "echo", Ok("é".to_owned())),
        (r#"{"message":"no"}"#, "fail", Ok("no".to_owned())),
        (r#"{}"#, "echo", Err(FailureKind::InvalidArguments)),
        (r#"{}"#, "nope", Err(FailureKind::UnknownTool)),
    ];
    for (arguments, tool, expected) in cases {
        assert_eq!(kind_of(&pair.call_tool(tool, arguments)), expected, "{tool} {arguments}");
    }
    let before = pair.transcript.len();
    pair.step(|client, ambient, heard| client.close(ambient, heard));
    assert!(pair.transcript[before..].iter().any(|line| line.contains(r#""type":"shutdown""#)));
    assert_eq!(pair.server.closed, Some(std::time::Duration::from_secs(10)));
}

#[test]
fn our_agent_understands_the_refusals_of_our_host() {
    let token = |token: &str| ClientSetup { token: Some(Secret::new(token)), ..client_setup("1.0") };
    let old = ClientSetup { version: "2.0".to_owned(), ..token("dev-secret") };
    assert!(pair(with_token(), token("dev-secret")).open().is_ok());
    assert_eq!(pair(with_token(), token("wrong")).open().unwrap_err(), "auth_failed");
    assert_eq!(pair(with_token(), client_setup("1.0")).open().unwrap_err(), "auth_failed");
    assert_eq!(pair(server_setup(), wanting(&["memory"])).open().unwrap_err(), "no_capabilities");
    assert_eq!(pair(server_setup(), wanting(&[])).open().unwrap_err(), "no_capabilities");
    assert_eq!(
        pair(ServerSetup { max_parallel: 0, ..server_setup() }, client_setup("1.0")).open().unwrap_err(),
        "server_error"
    );
    // We always write 1.0, the only version that we speak.
    assert_eq!(pair(with_token(), old).open().unwrap_err(), "version_mismatch");
}

#[test]
fn the_agent_queues_calls_beyond_max_parallel() {
    let mut pair = pair(ServerSetup { max_parallel: 2, ..server_setup() }, client_setup("1.0"));
    pair.server.answers_itself = false;
    pair.open().unwrap();
    let calls: Vec<_> = (0..5).map(|_| pair.begin(bare_call("nope"), false)).collect();
    assert_eq!(pair.server.door.in_flight().len(), 2, "three calls must stay queued at the agent");
    let given_up = calls[3];
    pair.step(|client, ambient, heard| client.cancel(given_up, ambient, heard));
    let mut ended = Vec::new();
    while !pair.server.delivered.is_empty() {
        let lines = pair.server.resolve_next();
        pair.hear(&lines);
        assert!(pair.server.door.in_flight().len() <= 2);
    }
    for event in std::mem::take(&mut pair.events) {
        if let Event::Answered(call, outcome) = event {
            ended.push((call, kind_of(&outcome)));
        }
    }
    let unknown = || Err(FailureKind::UnknownTool);
    let expected = vec![
        (calls[3], Err(FailureKind::Cancelled)),
        (calls[0], unknown()),
        (calls[1], unknown()),
        (calls[2], unknown()),
        (calls[4], unknown()),
    ];
    assert_eq!(ended, expected);
}

#[test]
fn a_cancelled_call_is_answered_here_and_its_late_answer_is_dropped() {
    let mut pair = pair(server_setup(), client_setup("1.0"));
    pair.server.answers_itself = false;
    pair.open().unwrap();
    let call = pair.begin(bare_call("nope"), false);
    let sent = pair.transcript.len();
    pair.step(|client, ambient, heard| client.cancel(call, ambient, heard));
    assert_eq!(pair.transcript.len(), sent, "A2E has no cancellation message");
    assert_eq!(kind_of(&pair.take_answers(call)[0]), Err(FailureKind::Cancelled));
    let lines = pair.server.resolve_next();
    pair.hear(&lines);
    assert!(pair.take_answers(call).is_empty());
    assert!(matches!(pair.events.as_slice(), [Event::Dropped(_)]), "{:?}", pair.events);
}

#[test]
fn progress_is_reported_only_on_request() {
    let mut pair = pair(server_setup(), client_setup("1.0"));
    pair.server.answers_itself = false;
    pair.open().unwrap();
    let call = pair.begin(bare_call("echo"), true);
    let theirs = pair.server.delivered[0].call.id;
    let progress = gladhand_core::operations::Progress { progress: 1.0, total: Some(4.0), message: Some("a".into()) };
    let lines = pair.server.notify(Notice::Progress(theirs, progress));
    pair.hear(&lines);
    let [Event::Notice(Notice::Progress(heard, progress))] = pair.events.as_slice() else {
        panic!("{:?}", pair.events)
    };
    assert_eq!(
        (*heard, progress.progress, progress.total, progress.message.as_deref()),
        (call, 25.0, Some(100.0), Some("a"))
    );
}

/// An agent without a host.
struct Alone {
    client: Box<dyn crate::side::Client>,
    entropy: Counting,
}

impl Alone {
    fn new(setup: ClientSetup) -> Self {
        Self { client: (DIALECT.client)(setup), entropy: Counting::default() }
    }

    fn step(
        &mut self,
        step: impl FnOnce(&mut dyn crate::side::Client, &mut Ambient<'_>, &mut Heard),
    ) -> (Vec<Value>, Vec<Event>) {
        let mut heard = Heard::default();
        let now = moment(std::time::Duration::ZERO);
        step(&mut *self.client, &mut Ambient::new(now, &mut self.entropy), &mut heard);
        let lines = crate::testing::lines_of(&heard.wire);
        (lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect(), heard.events)
    }

    fn open(&mut self) -> String {
        let (lines, _) = self.step(|client, ambient, heard| client.open(ambient, heard));
        lines[0]["id"].as_str().unwrap().to_owned()
    }

    fn hear(&mut self, line: &str) -> Vec<Event> {
        self.step(|client, ambient, heard| client.handle_line(line, ambient, heard)).1
    }
}

fn opened(setup: ClientSetup, answer: &str) -> Result<std::sync::Arc<gladhand_core::negotiation::Agreement>, Refusal> {
    let mut agent = Alone::new(setup);
    let id = agent.open();
    let answer = answer.replace("$ID", &id);
    match agent.hear(&answer).pop() {
        Some(Event::Opened(agreement)) => Ok(agreement),
        Some(Event::Refused(refusal)) => Err(refusal),
        other => panic!("{other:?}"),
    }
}

const GRANT: &str = r#""type":"handshake/resp","req_id":"$ID","session_id":"s","accepted_caps":[{"capability":"tools","enabled":true,"metadata":{}},{"capability":"chains","enabled":false,"metadata":{"reason":"no plugin loaded"}},{"capability":"subagents","enabled":true}],"max_parallel":4.0,"ok":true"#;

#[test]
fn tolerated_variants_of_the_handshake_answer_open_a_session() {
    for form in [r#""a2e":"1.0","#, r#""version":"1.0","#, "", r#""reason":null,"#, r#""x":1,"id":7,"#] {
        let agreement = opened(wanting(&["tools", "chains"]), &format!("{{{form}{GRANT}}}")).unwrap();
        let verdicts: Vec<_> = agreement.terms.iter().map(|term| (term.capability.0.as_ref(), term.verdict)).collect();
        let expected = [
            ("chains", Verdict::Refused(Why::NotProvided)),
            ("subagents", Verdict::Refused(Why::Unknown)),
            ("tools", Verdict::Agreed),
        ];
        assert_eq!(verdicts, expected, "{form}");
    }
    let bare = opened(wanting(&["tools"]), r#"{"type":"handshake/resp"}"#).unwrap();
    assert_eq!((bare.session.clone(), bare.max_parallel, bare.agreed(Side::Server).count()), (None, Some(4), 0));
}

#[test]
fn refusing_and_invalid_handshake_answers_are_distinguished() {
    let refused = |fields: &str| {
        opened(wanting(&["tools"]), &format!(r#"{{"type":"handshake/resp","req_id":"$ID",{fields}}}"#)).unwrap_err()
    };
    let peer_refused = |code: &str, message: &str| Refusal::PeerRefused { code: code.into(), message: message.into() };
    assert_eq!(refused(r#""ok":false,"reason":"auth_failed""#), Refusal::AuthFailed);
    assert_eq!(
        refused(r#""ok":false,"reason":"version_mismatch","a2e":"2.0""#),
        Refusal::VersionMismatch { asked: vec!["1.0".into()], spoken: vec!["2.0".into()] }
    );
    assert_eq!(
        refused(r#""ok":false,"reason":"no_caps""#),
        Refusal::NoCapabilities { wanted: vec![Capability::named("tools")] }
    );
    assert_eq!(refused(r#""ok":false,"reason":"server_error""#).word(), "server_error");
    assert_eq!(refused(r#""ok":false,"reason":"tired""#), peer_refused("tired", "handshake failed"));
    assert_eq!(refused(r#""ok":false,"reason":null"#), peer_refused("none", "the host gave no reason"));
    assert_eq!(refused(r#""ok":true,"a2e":"2.0""#).word(), "version_mismatch");
    let error = r#"{"type":"error","req_id":"$ID","code":"unauthorized","message":"no"}"#;
    assert_eq!(opened(wanting(&["tools"]), error).unwrap_err(), peer_refused("unauthorized", "no"));
    let garbage = [
        r#""ok":"yes""#,
        r#""session_id":7"#,
        r#""accepted_caps":null"#,
        r#""accepted_caps":[7]"#,
        r#""accepted_caps":[{}]"#,
        r#""accepted_caps":[{"capability":"tools","enabled":1}]"#,
        r#""max_parallel":0"#,
        r#""max_parallel":2.5"#,
        r#""a2e":1"#,
    ];
    for fields in garbage {
        assert_eq!(refused(fields).word(), "peer_misbehaved", "{fields}");
    }
    assert_eq!(refused(&format!(r#""session_id":"{}""#, "s".repeat(5000))).word(), "peer_misbehaved");
}

#[test]
fn long_metadata_of_a_grant_is_not_kept() {
    let kept = |bytes: usize| {
        let metadata = format!(r#"{{"about":"{}"}}"#, "x".repeat(bytes));
        let grant = GRANT.replacen(r#""metadata":{}"#, &format!(r#""metadata":{metadata}"#), 1);
        let agreement = opened(wanting(&["tools"]), &format!("{{{grant}}}")).unwrap();
        let term = agreement.term(Side::Server, "tools").unwrap();
        (term.verdict, term.settings.is_some())
    };
    assert_eq!((kept(10), kept(10_000)), ((Verdict::Agreed, true), (Verdict::Agreed, false)));
}

#[test]
fn banners_and_unrelated_messages_are_dropped() {
    let mut agent = Alone::new(client_setup("1.0"));
    let id = agent.open();
    for line in [
        "A2E_SUBPROCESS_HOST_READY",
        "line: {\"type\":\"pong\"}",
        "[]",
        "{}",
        r#"{"type":"handshake/resp","req_id":"other"}"#,
    ] {
        assert!(matches!(agent.hear(line).as_slice(), [Event::Dropped(_)]), "{line}");
    }
    assert!(matches!(agent.hear(&format!("{{{GRANT}}}").replace("$ID", &id)).as_slice(), [Event::Opened(_)]));
}

#[test]
fn the_first_answer_to_a_call_decides_its_outcome() {
    let result =
        r#"{"type":"tool/call/resp","req_id":"$ID","data":{"success":true,"data":{"x":NaN,"y":[-Infinity,"NaN"]}}}"#;
    let cases = [
        (result, Ok(r#"{"x":null,"y":[null,"NaN"]}"#.to_owned())),
        (r#"{"type":"tool/list/resp","req_id":"$ID","tools":[{"name":"a"}]}"#, Ok("1 tools".to_owned())),
        (r#"{"type":"tool/list/resp","req_id":"$ID","tools":[{}]}"#, Err(FailureKind::UpstreamError)),
        (r#"{"type":"tool/call/resp","req_id":"$ID"}"#, Err(FailureKind::UpstreamError)),
        (r#"{"type":"pong","req_id":"$ID"}"#, Err(FailureKind::UpstreamError)),
        (r#"{"type":"error","req_id":"$ID","code":"unknown_tool"}"#, Err(FailureKind::UnknownTool)),
        (r#"{"type":"error","req_id":"$ID","code":"tool_denied"}"#, Err(FailureKind::Denied)),
        (r#"{"type":"error","req_id":"$ID","code":"tool_error"}"#, Err(FailureKind::ToolFailed)),
        (
            r#"{"type":"error","req_id":"$ID","code":"tool_error","detail":{"kind":"arguments"}}"#,
            Err(FailureKind::InvalidArguments),
        ),
        (r#"{"type":"error","req_id":"$ID","code":"timeout"}"#, Err(FailureKind::TimedOut)),
        (
            r#"{"type":"error","req_id":"$ID","code":"runtime_error","detail":{"reason":"busy"}}"#,
            Err(FailureKind::Busy),
        ),
        (r#"{"type":"error","req_id":"$ID","code":"parse_error","detail":null}"#, Err(FailureKind::UpstreamError)),
        (r#"{"type":"error","req_id":"$ID"}"#, Err(FailureKind::UpstreamError)),
    ];
    for (answer, expected) in cases {
        let mut agent = Alone::new(wanting(&["tools"]));
        let id = agent.open();
        agent.hear(&format!("{{{GRANT}}}").replace("$ID", &id));
        let call = gladhand_core::operations::CallId(7);
        let (lines, _) = agent.step(|client, ambient, heard| {
            client.call(gladhand_core::operations::Call::new(call, bare_call("t")), None, ambient, heard)
        });
        let expected_fields = json!({"session_id": "s", "tool_name": "t", "arguments": {}, "correlation_id": "", "streaming": false, "timeout": 3600});
        for (name, value) in expected_fields.as_object().unwrap() {
            assert_eq!(&lines[0][name], value, "{name}");
        }
        let answer = answer.replace("$ID", lines[0]["id"].as_str().unwrap());
        let events = agent.hear(&answer);
        let [Event::Answered(answered, outcome)] = events.as_slice() else { panic!("{events:?}") };
        assert_eq!((*answered, kind_of(outcome)), (call, expected), "{answer}");
        assert!(
            matches!(agent.hear(&answer).as_slice(), [Event::Dropped(_)]),
            "a second final message must be dropped"
        );
    }
}

#[test]
fn calls_fail_without_a_session_and_when_the_host_disconnects() {
    let call = |agent: &mut Alone, id| {
        let (_, events) = agent.step(|client, ambient, heard| {
            client.call(
                gladhand_core::operations::Call::new(gladhand_core::operations::CallId(id), Operation::ListTools),
                None,
                ambient,
                heard,
            );
        });
        events
            .iter()
            .map(|event| match event {
                Event::Answered(_, outcome) => kind_of(outcome).unwrap_err(),
                other => panic!("{other:?}"),
            })
            .collect::<Vec<_>>()
    };
    let mut agent = Alone::new(wanting(&["tools"]));
    assert_eq!(call(&mut agent, 1), [FailureKind::UpstreamLost]);
    agent.open();
    agent.hear(r#"{"type":"handshake/resp"}"#);
    assert_eq!(call(&mut agent, 2), [FailureKind::Denied], "no capability was granted");
    let mut agent = Alone::new(wanting(&["tools"]));
    let id = agent.open();
    agent.hear(&format!("{{{GRANT}}}").replace("$ID", &id));
    for id in 0..6 {
        assert!(call(&mut agent, id).is_empty());
    }
    let (_, closing) = agent.step(|client, ambient, heard| client.close(ambient, heard));
    assert_eq!(closing.len(), 2, "both queued calls must fail");
    assert_eq!(call(&mut agent, 9), [FailureKind::Stopping]);
    let (_, gone) = agent.step(|client, ambient, heard| client.handle_disconnect(ambient, heard));
    assert_eq!(gone.len(), 4);
    let mut agent = Alone::new(wanting(&["tools"]));
    agent.open();
    let (_, gone) = agent.step(|client, ambient, heard| client.handle_disconnect(ambient, heard));
    assert!(matches!(gone.as_slice(), [Event::Refused(Refusal::PeerGone)]));
}

#[test]
fn an_answer_that_is_too_long_fails_its_call() {
    let mut pair = pair(server_setup(), client_setup("1.0"));
    pair.server.answers_itself = false;
    pair.open().unwrap();
    let call = pair.begin(bare_call("echo"), false);
    let line = pair.server.resolve_next().pop().unwrap();
    let (fault, skim) =
        (gladhand_core::wire::Fault::TooLong { limit: 5 }, gladhand_core::wire::Skim::of(line.as_bytes()));
    pair.step(|client, ambient, heard| client.handle_unreadable_line(&fault, &skim, ambient, heard));
    let outcomes = pair.take_answers(call);
    assert!(matches!(&outcomes[..], [Err(failure)] if failure.kind == FailureKind::TooLong), "{line}: {outcomes:?}");
}
