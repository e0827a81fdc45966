//! Tests of capabilities whose messages pass through: requests, checks, responses, events, questions, passes.

use gladhand_core::Secret;
use gladhand_core::negotiation::Side;
use gladhand_core::operations::{
    CapabilityCall, CapabilityEvent, Failure, FailureKind, Notice, Operation, Question, QuestionId, QuestionKind, Reply,
};
use gladhand_core::wire::json::raw;
use serde_json::json;

use super::super::capabilities::CARRIED;
use super::super::registry::{MessageType, Role, TYPES};
use super::*;
use crate::side::{Event, Menu, Unagreed};
use crate::testing::{Pair, client_setup};

fn everything() -> ServerSetup {
    ServerSetup { menu: Menu { capabilities: CARRIED.to_vec(), ..server_setup().menu }, ..server_setup() }
}

fn hello(caps: &[&str]) -> String {
    json!({"type": "handshake/req", "id": "h", "agent_id": "probe", "agent_caps": caps}).to_string()
}

/// A host that grants every capability.
fn granting(setup: ServerSetup) -> TestServer {
    let mut server = holding(setup);
    assert_eq!(say(&mut server, &hello(CARRIED))[0]["ok"], json!(true));
    server
}

/// The request types that are passed to a provider.
fn requests() -> impl Iterator<Item = &'static MessageType> {
    TYPES.iter().filter(|message| {
        CARRIED.contains(&message.capability)
            && !message.name.starts_with("SUBAGENT_")
            && message.role == Role::Request
            && (message.from == Side::Client || message.name == "mcp/root/list/req")
    })
}

/// The mandatory fields of a type, as in the reference.
fn mandatory(name: &str) -> Value {
    match name {
        "env/reset/req" | "env/space/req" => json!({"env_name": "e"}),
        "env/step/req" => json!({"episode_id": "e", "action": {}}),
        "env/observe/req" | "env/close/req" | "env/render/req" => json!({"episode_id": "e"}),
        "env/batch_step/req" => json!({"episode_ids": ["e"], "actions": [{}]}),
        "memory/store/req" | "memory/retrieve/req" | "memory/forget/req" => json!({"memory_id": "m"}),
        "learn/feedback/req" => json!({"feedbacks": []}),
        "planning/task/add" => json!({"plan_id": "p", "title": "t"}),
        "planning/task/update" => json!({"plan_id": "p", "task_id": "t"}),
        "multi_agent/spawn" => json!({"name": "n"}),
        "multi_agent/delegate" => json!({"subagent_id": "s", "task_name": "t", "instruction": "i"}),
        "multi_agent/await" | "multi_agent/terminate" => json!({"subagent_id": "s"}),
        _ => json!({}),
    }
}

fn message(name: &str, id: &str, fields: &Value) -> String {
    let mut message = fields.clone();
    message["type"] = json!(name);
    message["id"] = json!(id);
    message.to_string()
}

fn last(server: &TestServer) -> (gladhand_core::operations::CallId, &CapabilityCall<'static>) {
    let delivered = &server.delivered.back().unwrap().call;
    let Operation::Capability(call) = &delivered.operation else { panic!("{delivered:?}") };
    (delivered.id, call)
}

#[test]
fn every_capability_request_is_delivered_and_gets_its_response() {
    let mut server = granting(everything());
    assert_eq!(requests().count(), 51);
    for request in requests() {
        let line = message(request.name, "r", &mandatory(request.name));
        assert!(say(&mut server, &line).is_empty(), "{line}");
        let (id, call) = last(&server);
        assert_eq!((call.kind, call.capability, call.message.get()), (request.name, request.capability, &*line));
        assert_eq!(call.request.as_ref().map(gladhand_core::wire::Id::as_json), Some(r#""r""#));
        let answer = bodies(&server.resolve(id, Ok(Reply::Capability(raw(r#"{"x":[1, 2]}"#.to_owned())))));
        let stem = request.name.strip_suffix("/req").unwrap_or(request.name);
        assert_eq!(answer, [json!({"type": format!("{stem}/resp"), "req_id": "r", "x": [1, 2]})]);
    }
}

#[test]
fn a_capability_uses_its_own_error_codes() {
    let mut server = granting(everything());
    say(&mut server, &message("memory/store/req", "m", &mandatory("memory/store/req")));
    let (id, _) = last(&server);
    let failure = Failure::of_capability("memory_not_found", "no such memory");
    let answer = bodies(&server.resolve(id, Err(failure)));
    assert_eq!(error_of(&answer[0]), ("m".into(), "memory_not_found".into(), "".into()));
    assert_eq!(
        (&answer[0]["capability_name"], &answer[0]["retryable"], &answer[0]["message"]),
        (&json!("memory"), &json!(false), &json!("no such memory"))
    );
}

#[test]
fn a_permanent_failure_is_not_retryable() {
    let mut server = granting(everything());
    let cases = [
        (Failure::of_capability("runtime_error", "it broke"), true),
        (Failure::refused("no such thing"), false),
        (Failure::new(FailureKind::UpstreamLost, "it is gone"), true),
        (Failure::new(FailureKind::UpstreamError, "it said no").lasting(), false),
    ];
    for (failure, retryable) in cases {
        say(&mut server, &message("memory/store/req", "m", &mandatory("memory/store/req")));
        let (id, _) = last(&server);
        let answer = bodies(&server.resolve(id, Err(failure)));
        assert_eq!((&answer[0]["code"], &answer[0]["retryable"]), (&json!("runtime_error"), &json!(retryable)));
    }
}

#[test]
fn a_field_that_is_missing_or_of_another_type_is_named() {
    let mut server = granting(everything());
    for request in requests() {
        for (field, _) in mandatory(request.name).as_object().unwrap() {
            let mut fields = mandatory(request.name);
            fields.as_object_mut().unwrap().remove(field);
            let answer = say(&mut server, &message(request.name, "r", &fields));
            assert_eq!(error_of(&answer[0]), ("r".into(), "parse_error".into(), "schema".into()), "{}", request.name);
            assert_eq!(answer[0]["message"], json!(format!("{field}: required")));
            let mut fields = mandatory(request.name);
            fields[field] = json!(7);
            let answer = say(&mut server, &message(request.name, "r", &fields));
            assert!(answer[0]["message"].as_str().unwrap().starts_with(&format!("{field}: expected ")), "{answer:?}");
        }
    }
    let cases = [
        ("proc/spawn/req", json!({"cmd": "ls"}), "cmd: expected a list, got a string"),
        ("proc/spawn/req", json!({"cmd": ["ls", 1]}), "cmd.1: expected a string, got a number"),
        ("proc/spawn/req", json!({"env": {"A": 1}}), "env.A: expected a string, got a number"),
        ("proc/write/req", json!({"eof": 1}), "eof: expected a boolean, got a number"),
        ("memory/store/req", json!({"memory_id": "m", "entries": [1]}), "entries.0: expected an object, got a number"),
        ("memory/retrieve/req", json!({"memory_id": "m", "limit": 1.5}), "limit: expected an integer, got a number"),
        (
            "memory/retrieve/req",
            json!({"memory_id": "m", "min_score": "1"}),
            "min_score: expected a number, got a string",
        ),
        ("env/reset/req", json!({"env_name": "e", "options": null}), "options: expected an object, got null"),
        ("chain/req", json!({"nodes": {}}), "nodes: expected a list, got an object"),
    ];
    for (name, fields, problem) in cases {
        let answer = say(&mut server, &message(name, "r", &fields));
        assert_eq!(answer[0]["message"], json!(problem), "{name} {fields}");
    }
    // A nullable field accepts null, and an integer accepts a fraction of zero.
    for (name, fields) in [
        ("env/reset/req", json!({"env_name": "e", "seed": null})),
        ("env/reset/req", json!({"env_name": "e", "seed": 5.0})),
        ("skill/call/req", json!({"llm_override": null})),
        ("env/plan/req", json!({"episode_id": null, "state": null})),
    ] {
        assert!(say(&mut server, &message(name, "r", &fields)).is_empty(), "{name} {fields}");
        let (id, _) = last(&server);
        server.resolve(id, Ok(Reply::Capability(raw("{}".to_owned()))));
    }
}

#[test]
fn a_foreign_session_id_is_refused() {
    let mut server = granting(everything());
    for name in ["proc/spawn/req", "toolkit/configure/req", "chain/req"] {
        let answer = say(&mut server, &message(name, "r", &json!({"session_id": "elsewhere"})));
        assert_eq!(error_of(&answer[0]), ("r".into(), "unauthorized".into(), "".into()), "{name}");
    }
}

#[test]
fn the_legacy_family_is_refused_and_not_ignored() {
    let mut server = granting(everything());
    let answer = say(&mut server, r#"{"type":"SUBAGENT_LIST_REQ"}"#);
    assert_eq!(error_of(&answer[0]), ("".into(), "invalid_message".into(), "superseded".into()));
}

#[test]
fn output_of_a_process_follows_the_answer_that_it_was_started() {
    let mut server = granting(everything());
    say(&mut server, &message("proc/spawn/req", "s", &json!({"cmd": ["ls"]})));
    let (id, call) = last(&server);
    let event = |text: &str| {
        let fields =
            json!({"kind": "status", "data": {"text": text}, "seq": 0, "proc_id": "p", "stream_type": "stdout"});
        Notice::Capability(call.event("proc/read/event", raw(fields.to_string())))
    };
    let (early, late) = (event("early\n"), event("late\n"));
    assert!(server.notify(early).is_empty());
    let answer = bodies(&server.resolve(id, Ok(Reply::Capability(raw(r#"{"proc_id":"p","ok":true}"#.to_owned())))));
    assert_eq!(answer[0]["type"], json!("proc/spawn/resp"));
    assert_eq!((&answer[1]["type"], &answer[1]["req_id"]), (&json!("proc/read/event"), &json!("s")));
    assert_eq!(answer[1]["data"]["text"], json!("early\n"));
    assert_eq!(bodies(&server.notify(late))[0]["data"]["text"], json!("late\n"));
}

#[test]
fn output_of_a_process_waits_for_the_answer_up_to_a_bound() {
    let mut server = granting(everything());
    say(&mut server, &message("proc/spawn/req", "s", &json!({"cmd": ["yes"]})));
    let (_, call) = last(&server);
    let fields = |seq: usize| raw(json!({"data": {"text": "y".repeat(60_000)}, "seq": seq}).to_string());
    let events = [0, 1, 2, 3, 4, 5].map(|seq| Notice::Capability(call.event("proc/read/event", fields(seq))));
    let told = events.map(|event| bodies(&server.notify(event)));
    assert_eq!(told.each_ref().map(Vec::len), [0, 0, 0, 0, 5, 0]);
    let sequence: Vec<_> = told[4].iter().map(|event| event["seq"].as_u64()).collect();
    assert_eq!(sequence, [0, 1, 2, 3, 4].map(Some), "no event may be lost or reordered");
}

#[test]
fn a_push_belongs_to_no_request() {
    let mut server = granting(everything());
    let push =
        CapabilityEvent { kind: "env/state/push", request: None, fields: raw(r#"{"episode_id":"e"}"#.to_owned()) };
    let told = bodies(&server.notify(Notice::Capability(push)));
    assert_eq!(told, [json!({"type": "env/state/push", "episode_id": "e"})]);
}

#[test]
fn urgent_requests_skip_the_queue() {
    let mut server = granting(ServerSetup { max_parallel: 1, ..everything() });
    say(&mut server, &message("multi_agent/await", "a", &json!({"subagent_id": "s"})));
    say(&mut server, &message("planning/plan/list", "waits", &json!({})));
    assert_eq!(server.delivered.len(), 1);
    for name in ["proc/write/req", "proc/kill/req"] {
        say(&mut server, &message(name, "u", &json!({})));
        assert_eq!(last(&server).1.kind, name);
    }
    say(&mut server, &message("multi_agent/terminate", "t", &json!({"subagent_id": "s"})));
    assert_eq!(server.delivered.len(), 4);
    let first = server.delivered[0].call.id;
    server.resolve(first, Ok(Reply::Capability(raw("{}".to_owned()))));
    assert_eq!(last(&server).1.kind, "planning/plan/list");
}

#[test]
fn an_agent_with_the_mcp_capability_can_be_asked() {
    let mut server = granting(everything());
    let params = json!({"messages": [{"role": "user"}], "maxTokens": 7, "systemPrompt": "be brief"});
    let asked =
        server.ask_session(vec![(QuestionId(1), Question::sample(&params)), (QuestionId(2), Question::roots())]);
    let ids: Vec<String> = asked
        .iter()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["id"].as_str().unwrap().to_owned())
        .collect();
    let expected = json!({"type": "mcp/sample/req", "server_id": "", "mcp_request_id": "1", "messages": [{"role": "user"}],
        "model_preferences": {}, "system_prompt": "be brief", "include_context": "none", "temperature": 1.0,
        "max_tokens": 7, "stop_sequences": [], "metadata": {}});
    assert_eq!(
        bodies(&asked),
        [expected, json!({"type": "mcp/root/list/req", "server_id": "", "mcp_request_id": "2"})]
    );
    let said =
        json!({"req_id": ids[0], "content": {"type": "text", "text": "hi"}, "model": "m", "stop_reason": "endTurn"});
    assert!(say(&mut server, &message("mcp/sample/resp", "x", &said)).is_empty(), "a response gets no answer");
    let said = json!({"req_id": ids[1], "roots": [{"uri": "file:///a", "name": "a"}]});
    assert!(say(&mut server, &message("mcp/root/list/resp", "y", &said)).is_empty());
    let answers: Vec<_> =
        server.answered.iter().map(|(id, answered)| (id.0, answered.as_ref().unwrap().get())).collect();
    assert_eq!(
        answers,
        [
            (1, r#"{"role":"assistant","content":{"text":"hi","type":"text"},"model":"m","stopReason":"endTurn"}"#),
            (2, r#"{"roots":[{"name":"a","uri":"file:///a"}]}"#),
        ]
    );
    // A response that was already processed, or has no question, is dropped.
    assert!(say(&mut server, &message("mcp/root/list/resp", "z", &said)).is_empty());
    let mut without = open(server_setup());
    without.ask_session(vec![(QuestionId(3), Question::roots())]);
    assert!(without.answered[0].1.is_err());
}

#[test]
fn a_pass_grants_its_capabilities_to_its_client() {
    let pass = |token: &str, client: Option<&str>, capabilities: Option<&[&str]>| Pass {
        token: Secret::new(token),
        client: client.map(str::to_owned),
        capabilities: capabilities.map(|names| names.iter().map(|name| (*name).to_owned()).collect()),
        principal: None,
    };
    let passes = vec![
        pass("k1", Some("ann"), Some(&["memory", "tools"])),
        pass("k2", Some("bob"), None),
        pass("k3", None, Some(&["planning"])),
    ];
    let cases = [
        ("ann", "k1", json!(["memory", "tools"]), ""),
        ("ann", "k2", json!([]), "auth_failed"),
        ("bob", "k2", json!(["memory", "proc", "planning", "tools"]), ""),
        ("bob", "k1", json!([]), "auth_failed"),
        ("eve", "k3", json!(["planning"]), ""),
        ("eve", "", json!([]), "auth_failed"),
    ];
    for (agent, token, granted, reason) in cases {
        let mut server = holding(ServerSetup { passes: passes.clone(), ..everything() });
        let hello = json!({"type": "handshake/req", "id": "h", "agent_id": agent, "auth_token": token,
            "agent_caps": ["memory", "proc", "planning", "tools"]});
        let answer = &say(&mut server, &hello.to_string())[0];
        let caps = answer["accepted_caps"].as_array().unwrap().iter().filter(|cap| cap["enabled"] == json!(true));
        let caps: Vec<_> = caps.map(|cap| cap["capability"].clone()).collect();
        assert_eq!((&json!(caps), &answer["reason"]), (&granted, &json!(reason)), "{agent} {token}");
    }
}

#[test]
fn an_agreement_records_the_principal_of_the_token() {
    let pass = |token: &str, client: Option<&str>, principal: Option<&str>| Pass {
        client: client.map(str::to_owned),
        principal: principal.map(Into::into),
        ..Pass::any(Secret::new(token))
    };
    let passes = vec![
        pass("k1", None, Some("one")),
        pass("k2", None, Some("two")),
        pass("k3", None, None),
        pass("k4", None, Some("open")),
        pass("k4", Some("ann"), Some("own")),
    ];
    let stands_for = |passes: Vec<Pass>, token: &str| {
        let mut server = holding(ServerSetup { passes, ..everything() });
        let hello = json!({"type": "handshake/req", "id": "h", "agent_id": "ann", "auth_token": token,
            "agent_caps": ["memory"]});
        assert_eq!(say(&mut server, &hello.to_string())[0]["ok"], json!(true));
        server.opened[0].pass.as_deref().map(str::to_owned)
    };
    for (token, expected) in [("k1", "one"), ("k2", "two"), ("k3", ""), ("k4", "own")] {
        assert_eq!(stands_for(passes.clone(), token).as_deref(), Some(expected), "{token}");
    }
    assert_eq!(stands_for(Vec::new(), "anything"), None, "without passes, a token proves no identity");
}

#[test]
fn an_unagreed_request_passes_only_if_its_capability_is_granted() {
    // The menu has `memory`, and the token also opens `planning`. The agent requests neither.
    let menu = Menu { capabilities: vec!["memory", "planning"], ..server_setup().menu };
    let setup = ServerSetup { menu, unagreed: Unagreed::Passes, ..server_setup() };
    let opens = |capabilities: &[&str]| Pass {
        capabilities: Some(capabilities.iter().map(|name| (*name).to_owned()).collect()),
        ..Pass::any(Secret::new("t"))
    };
    let cases = [
        (Vec::new(), ["memory/init/req", "planning/plan/list"].as_slice()),
        (vec![opens(&["tools", "planning"])], ["planning/plan/list"].as_slice()),
    ];
    for (passes, passing) in cases {
        let mut server = holding(ServerSetup { passes, ..setup.clone() });
        let hello = json!({"type": "handshake/req", "id": "h", "auth_token": "t", "agent_caps": ["tools", "proc"]});
        assert_eq!(say(&mut server, &hello.to_string())[0]["ok"], json!(true));
        for kind in
            ["memory/init/req", "planning/plan/list", "proc/spawn/req", "multi_agent/list", "skill/discover/req"]
        {
            let before = server.delivered.len();
            let answers = say(&mut server, &message(kind, kind, &json!({"cmd": ["ls"]})));
            let is_passed = passing.contains(&kind);
            assert_eq!(server.delivered.len() - before, usize::from(is_passed), "{kind}");
            let refused: Vec<_> = answers.iter().map(|answer| answer["code"].clone()).collect();
            assert_eq!(refused, if is_passed { vec![] } else { vec![json!("capability_missing")] }, "{kind}");
        }
    }
}

#[test]
fn only_known_questions_are_asked() {
    let mut server = granting(everything());
    let elicit = Question { key: None, kind: QuestionKind::Elicit, params: raw("{}".to_owned()) };
    assert!(server.ask_session(vec![(QuestionId(1), elicit)]).is_empty());
    assert!(server.answered[0].1.is_err());
}

/// Our agent and our host. The host grants every capability, and the test resolves its calls.
fn pair() -> Pair {
    let mut pair = Pair::new(&DIALECT, everything(), client_setup("1.0"));
    pair.server.answers_itself = false;
    pair.open().unwrap();
    pair
}

fn carried(kind: &'static str, capability: &'static str, message: &str) -> Operation<'static> {
    let request = Some(gladhand_core::wire::Id::of(&raw(r#""theirs""#.to_owned())));
    let message = std::borrow::Cow::Owned(raw(message.to_owned()));
    Operation::Capability(CapabilityCall { kind, capability, request, message })
}

#[test]
fn our_agent_forwards_requests_responses_and_events() {
    let mut pair = pair();
    let session = pair.server.opened[0].session.clone().unwrap();
    let message = r#"{"type":"proc/spawn/req","id":"theirs","a2e":"1.0","cmd":["ls"],"session_id":"ours"}"#;
    let spawn = pair.begin(carried("proc/spawn/req", "proc", message), false);
    let (id, call) = last(&pair.server);
    let request = call.request.clone();
    let sent: Value = serde_json::from_str(call.message.get()).unwrap();
    assert_eq!((&sent["cmd"], &sent["session_id"]), (&json!(["ls"]), &json!(session)));
    assert_ne!(sent["id"], json!("theirs"));
    let lines = pair.server.resolve(id, Ok(Reply::Capability(raw(r#"{"proc_id":"p","ok":true}"#.to_owned()))));
    pair.hear(&lines);
    let answers = pair.take_answers(spawn);
    let Ok(Reply::Capability(members)) = &answers[0] else { panic!("{answers:?}") };
    assert_eq!(members.get(), r#"{"proc_id":"p","ok":true}"#);
    for (fields, is_known) in [(r#"{"data":{"text":"a"}}"#, true), (r#"{"data":{"code":0}}"#, true), ("{}", false)] {
        let event =
            CapabilityEvent { kind: "proc/read/event", request: request.clone(), fields: raw(fields.to_owned()) };
        let lines = pair.server.notify(Notice::Capability(event));
        pair.hear(&lines);
        match pair.events.pop() {
            Some(Event::Notice(Notice::Capability(event))) => {
                assert_eq!(event.request.as_ref().map(gladhand_core::wire::Id::as_json), Some(r#""theirs""#));
                assert_eq!((event.fields.get(), is_known), (fields, true));
            }
            other => assert!(!is_known && matches!(other, Some(Event::Dropped(_))), "{other:?}"),
        }
    }
}

#[test]
fn our_agent_reports_error_codes_and_missing_grants() {
    let mut pair = pair();
    let call = pair.begin(carried("memory/store/req", "memory", r#"{"memory_id":"m"}"#), false);
    let (id, _) = last(&pair.server);
    let lines = pair.server.resolve(id, Err(Failure::of_capability("memory_not_found", "no such memory")));
    pair.hear(&lines);
    let failure = pair.take_answers(call).remove(0).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Capability("memory_not_found"));
    for failure in [Failure::refused("never"), Failure::of_capability("runtime_error", "not now")] {
        let expected = (failure.kind, failure.is_retryable());
        let call = pair.begin(carried("memory/store/req", "memory", r#"{"memory_id":"m"}"#), false);
        let (id, _) = last(&pair.server);
        let lines = pair.server.resolve(id, Err(failure));
        pair.hear(&lines);
        let failure = pair.take_answers(call).remove(0).unwrap_err();
        assert_eq!((failure.kind, failure.is_retryable()), expected);
    }
    let mut pair = Pair::new(&DIALECT, server_setup(), client_setup("1.0"));
    pair.open().unwrap();
    let call = pair.begin(carried("memory/store/req", "memory", r#"{"memory_id":"m"}"#), false);
    let failure = pair.take_answers(call).remove(0).unwrap_err();
    assert_eq!(failure.message, "the host did not grant the capability memory");
}

#[test]
fn our_agent_passes_questions_of_the_host_on() {
    let mut pair = pair();
    let params = json!({"messages": [], "maxTokens": 9});
    let lines =
        pair.server.ask_session(vec![(QuestionId(5), Question::sample(&params)), (QuestionId(6), Question::roots())]);
    pair.hear(&lines);
    let asked: Vec<_> = std::mem::take(&mut pair.events)
        .into_iter()
        .filter_map(|event| match event {
            Event::Asked(id, None, question) => Some((id, question)),
            _ => None,
        })
        .collect();
    let [(sample, question), (roots, _)] = &asked[..] else { panic!("{asked:?}") };
    let asked: Value = serde_json::from_str(question.params.get()).unwrap();
    assert_eq!((&asked["maxTokens"], &asked["includeContext"]), (&json!(9), &json!("none")));
    let result = raw(r#"{"role":"assistant","content":{"type":"text","text":"hi"},"model":"m"}"#.to_owned());
    pair.step(|client, ambient, heard| client.answer(*sample, Ok(result.clone()), ambient, heard));
    let refused = Failure::new(FailureKind::Unanswered, "no folders");
    pair.step(|client, ambient, heard| client.answer(*roots, Err(refused.clone()), ambient, heard));
    let answers: Vec<_> =
        pair.server.answered.iter().map(|(id, answered)| (id.0, answered.as_ref().unwrap().get())).collect();
    assert_eq!(
        answers,
        [(5, r#"{"role":"assistant","content":{"type":"text","text":"hi"},"model":"m"}"#), (6, r#"{"roots":[]}"#),]
    );
}

#[test]
fn calls_end_when_their_grant_is_revoked() {
    for (hello, keeps_planning) in [
        (json!({"type": "handshake/req", "id": "h2", "agent_caps": ["planning"], "auth_token": "t"}), true),
        (json!({"type": "handshake/req", "id": "h2", "agent_caps": ["planning"], "auth_token": "wrong"}), false),
    ] {
        let passes = vec![Pass::any(Secret::new("t"))];
        let mut server = holding(ServerSetup { max_parallel: 1, passes, ..everything() });
        let first = json!({"type": "handshake/req", "id": "h", "agent_caps": CARRIED, "auth_token": "t"});
        assert_eq!(say(&mut server, &first.to_string())[0]["ok"], json!(true));
        say(&mut server, &message("proc/spawn/req", "runs", &json!({"cmd": ["ls"]})));
        let (_, call) = last(&server);
        let event = Notice::Capability(call.event("proc/read/event", raw("{}".to_owned())));
        say(&mut server, &message("chain/req", "waits", &json!({})));
        say(&mut server, &message("planning/plan/list", "stays", &json!({})));
        let answers = say(&mut server, &hello.to_string());
        let ended: Vec<_> = answers.iter().filter(|answer| answer["type"] == "error").map(error_of).collect();
        let unauthorized = |id: &str| (id.to_owned(), "unauthorized".to_owned(), String::new());
        let mut expected = vec![unauthorized("waits"), unauthorized("runs")];
        if !keeps_planning {
            expected.insert(0, unauthorized("stays"));
        }
        assert_eq!(ended, expected);
        assert!(server.notify(event).is_empty(), "events after the revocation must not be sent");
        let delivered = server.delivered.back().map(|delivered| format!("{:?}", delivered.call.operation));
        assert_eq!(delivered.is_some_and(|operation| operation.contains("planning/plan/list")), keeps_planning);
    }
}
