//! Tests of questions during a call without a session (2026-07-28).

use std::time::Duration;

use gladhand_core::operations::{CallId, Failure, FailureKind, Level, Log, Notice, Progress, Question, QuestionId};
use gladhand_dialects::Server as _;
use gladhand_dialects::{CacheHints, Lane, Party, Stop};
use serde_json::json;

use crate::questions::{EVERYTHING, answer, ask, delivered, form};
use crate::*;

const MINUTES: Duration = Duration::from_secs(60);

/// A call of `echo` by a client that declares these capabilities, with further members of its parameters.
fn calls(id: &str, declared: &str, more: &str) -> String {
    let line = stateless(id, "tools/call", &format!("{ECHO}{more}"), "");
    line.replace(r#"clientCapabilities":{}"#, &format!(r#"clientCapabilities":{declared}"#))
}

pub(crate) fn call(id: &str) -> String {
    calls(id, EVERYTHING, "")
}

/// The same call repeated with answers, which are the members of an object, and a state.
pub(crate) fn again(id: &str, answers: &str, state: &Value) -> String {
    calls(id, EVERYTHING, &format!(r#","inputResponses":{{{answers}}},"requestState":{state}"#))
}

/// The result of the only line, which must ask for input under this id, and its state.
pub(crate) fn asked(lines: Vec<String>, id: u64) -> (Value, Value) {
    let mut line = only(lines);
    assert_eq!((&line["id"], &line["result"]["resultType"]), (&json!(id), &json!("input_required")), "{line}");
    let mut result = line["result"].take();
    assert!(result["_meta"]["io.modelcontextprotocol/serverInfo"].is_object() && result["ttlMs"].is_null());
    (result["inputRequests"].take(), result["requestState"].take())
}

const YES: &str = r#"{"action":"accept","content":{}}"#;

#[test]
fn a_call_is_answered_with_questions_and_continues_with_answers() {
    let mut server = server().holding();
    server.lane = Lane(1);
    let call_id = delivered(&mut server, &call("1"));
    let questions = vec![
        (QuestionId(1), form().named("who")),
        (QuestionId(2), Question::roots()),
        (QuestionId(3), Question::sample(&json!({"messages": [], "maxTokens": 1})).named("who")),
    ];
    server.lane = Lane::MAIN;
    let lines = server.ask(call_id, questions);
    assert_eq!(server.lanes, [Lane(1)]);
    let (requests, state) = asked(lines, 1);
    let methods = requests.as_object().unwrap().iter().map(|(key, asked)| (key.as_str(), asked["method"].clone()));
    let methods: Vec<_> = methods.collect();
    assert_eq!(methods[0], ("q2", json!("roots/list")));
    assert_eq!(methods[1], ("q3", json!("sampling/createMessage")), "a key that is in use must be replaced");
    assert_eq!(methods[2], ("who", json!("elicitation/create")));
    assert_eq!(requests["who"]["params"]["message"], "Who?");
    assert!(server.door.in_flight().is_empty(), "its request must be answered");

    server.lane = Lane(2);
    let answers = format!(r#""who":{YES},"q2":{{"roots":[]}},"q3":{{"role":"assistant"}},"other":1"#);
    assert_eq!(server.line(&again("2", &answers, &state)), NOTHING);
    let answered: Vec<_> = server.answered.drain(..).map(|(id, answered)| (id.0, answered.unwrap())).collect();
    let answered: Vec<_> = answered.iter().map(|(id, raw)| (*id, raw.get())).collect();
    assert_eq!(answered, [(1, YES), (2, r#"{"roots":[]}"#), (3, r#"{"role":"assistant"}"#)]);
    server.lane = Lane::MAIN;
    let line = only(server.resolve_next());
    assert_eq!((&line["id"], &line["result"]["resultType"]), (&json!(2), &json!("complete")));
    assert_eq!(server.lanes, [Lane(2)]);
    assert_eq!(
        error(server.line(&again("3", &answers, &state))),
        (json!(3), -32602),
        "a state must be valid only once"
    );
}

#[test]
fn unanswered_questions_are_asked_again_with_a_new_state() {
    let mut server = server().holding();
    let id = delivered(&mut server, &call("1"));
    let questions = vec![(QuestionId(1), form().named("a")), (QuestionId(2), form().named("b"))];
    let (_, first) = asked(server.ask(id, questions), 1);
    let (remaining, second) = asked(server.line(&again("2", &format!(r#""a":{YES},"b":12"#), &first)), 2);
    assert_eq!(remaining.as_object().unwrap().keys().collect::<Vec<_>>(), ["b"]);
    assert_eq!(answer(&mut server).0, 1);
    assert_ne!(first, second);
    let (_, third) = asked(server.line(&again("3", "", &second)), 3);
    // Asked while the call is parked: it is sent with the remaining questions.
    assert_eq!(ask(&mut server, id, 3, form().named("c")), NOTHING);
    let (remaining, fourth) = asked(server.line(&again("4", &format!(r#""b":{YES}"#), &third)), 4);
    assert_eq!(remaining.as_object().unwrap().keys().collect::<Vec<_>>(), ["c"]);
    assert_eq!(server.line(&again("5", &format!(r#""c":{YES}"#), &fourth)), NOTHING);
    // Asked again under the newest request.
    let (_, fifth) = asked(ask(&mut server, id, 4, form().named("d")), 5);
    assert_eq!(server.line(&again("6", &format!(r#""d":{YES}"#), &fifth)), NOTHING);
    assert_eq!(only(server.resolve_next())["id"], 6);
    assert_eq!(server.answered.iter().map(|(id, _)| id.0).collect::<Vec<_>>(), [2, 3, 4]);
}

#[test]
fn a_state_is_valid_only_for_its_principal_and_request() {
    let mut server = server().holding();
    server.principal = Some("alice".to_owned());
    let id = delivered(&mut server, &call("1"));
    let (_, state) = asked(ask(&mut server, id, 1, form().named("a")), 1);
    let answers = format!(r#""a":{YES}"#);
    let good = again("2", &answers, &state);
    let tampered = good.replace(state.as_str().unwrap(), &format!("{}-", state.as_str().unwrap()));
    let with = |members: &str| good.replace(ECHO, members);
    for bad in [
        tampered,
        good.replace(&state.to_string(), "12"),
        good.replace(&state.to_string(), "{}"),
        with(r#""name":"echo","arguments":{"message":"ho"}"#),
        with(r#""name":"fail","arguments":{"message":"hi"}"#),
        with(r#""name":"echo""#),
        good.replace(&format!(r#""inputResponses":{{{answers}}}"#), r#""inputResponses":[]"#),
    ] {
        assert_eq!(error(server.line(&bad)), (json!(2), -32602), "{bad}");
    }
    for other in [Some("bob".to_owned()), None] {
        server.principal = other;
        assert_eq!(error(server.line(&good)), (json!(2), -32602));
    }
    assert!(server.answered.is_empty());
    server.principal = Some("alice".to_owned());
    assert_eq!(server.line(&good), NOTHING, "refused attempts must not invalidate the state");
    assert_eq!(answer(&mut server).0, 1);
}

#[test]
fn a_state_is_valid_only_with_the_needed_scopes() {
    let mut server = server().holding();
    (server.principal, server.scopes) = (Some("alice".to_owned()), Some("ops".into()));
    let id = delivered(&mut server, &call("1"));
    server.delivered[0].call.terms.record.as_ref().expect("a kept result must have a scope record").add(["ops"]);
    let (_, state) = asked(ask(&mut server, id, 1, form().named("a")), 1);
    let good = again("2", &format!(r#""a":{YES}"#), &state);
    server.scopes = Some("talk".into());
    let refused = only(server.line(&good));
    assert_eq!(refused["error"]["data"]["detail"], json!({"scope": "ops"}), "{refused}");
    assert!(server.answered.is_empty());
    server.scopes = Some("ops talk".into());
    assert_eq!(server.line(&good), NOTHING, "refused attempts must not invalidate the state");
}

#[test]
fn only_declared_questions_are_asked() {
    let mut server = server().holding();
    let id = delivered(&mut server, &calls("1", r#"{"sampling":{}}"#, ""));
    let questions =
        vec![(QuestionId(1), form()), (QuestionId(2), Question::sample(&json!({"maxTokens": 1})).named("s"))];
    let (requests, state) = asked(server.ask(id, questions), 1);
    assert_eq!(requests.as_object().unwrap().keys().collect::<Vec<_>>(), ["s"]);
    assert_eq!(answer(&mut server), (1, Err(FailureKind::MissingCapability)));
    // A caller that returns with fewer capabilities cannot be asked the remaining questions.
    let line = again("2", "", &state).replace(EVERYTHING, r#"{"roots":{}}"#);
    assert_eq!(server.line(&line), NOTHING);
    assert_eq!(answer(&mut server), (2, Err(FailureKind::MissingCapability)));
    // No declared capabilities, or a method that cannot be parked.
    let bare = delivered(&mut server, &calls("3", "{}", ""));
    assert_eq!(ask(&mut server, bare, 3, form()), NOTHING);
    assert_eq!(answer(&mut server), (3, Err(FailureKind::MissingCapability)));
    let list =
        stateless("4", "tools/list", "", "").replace(r#"Capabilities":{}"#, r#"Capabilities":{"elicitation":{}}"#);
    let list = delivered(&mut server, &list);
    assert_eq!(ask(&mut server, list, 4, form()), NOTHING);
    assert_eq!(answer(&mut server), (4, Err(FailureKind::Unanswered)));
}

#[test]
fn a_page_to_visit_has_no_separate_id() {
    let mut server = server().holding();
    let id = delivered(&mut server, &call("1"));
    let page = json!({"mode": "url", "url": "https://example.org", "message": "?", "elicitationId": "x"});
    let (requests, _) = asked(ask(&mut server, id, 1, Question::elicit(&page).named("p")), 1);
    assert_eq!(requests["p"]["params"], json!({"mode": "url", "url": "https://example.org", "message": "?"}));
}

#[test]
fn prompts_and_resources_can_be_parked_too() {
    let menu = Menu { cache: CacheHints { ttl_ms: 5000, public: true }, ..whole_menu() };
    let mut server = with_menu(menu, STATELESS);
    let raw = |value: Value| gladhand_core::wire::json::to_raw(&value);
    let contents = || Contents { parts: vec![raw(json!({"uri": "test://a", "text": "x"}))], ..Contents::default() };
    for (method, params, reply) in [
        ("resources/read", r#""uri":"test://a""#, Reply::Contents(contents())),
        ("prompts/get", r#""name":"greet""#, Reply::Prompt(PromptResult::default())),
    ] {
        let line = |id: &str, more: &str| {
            let line = stateless(id, method, &format!("{params}{more}"), "");
            line.replace(r#"Capabilities":{}"#, r#"Capabilities":{"elicitation":{}}"#)
        };
        let id = delivered(&mut server, &line("1", ""));
        let (_, state) = asked(ask(&mut server, id, 1, form().named("a")), 1);
        let answers = format!(r#","inputResponses":{{"a":{YES}}},"requestState":{state}"#);
        assert_eq!(error(server.line(&line("2", &answers).replace(params, r#""uri":"b","name":"b""#))).1, -32602);
        assert_eq!(server.line(&line("3", &answers)), NOTHING);
        let result = only(server.resolve(id, Ok(reply)))["result"].take();
        let hints = (result["ttlMs"].clone(), result["cacheScope"].clone());
        let expected = if method == "resources/read" { (json!(0), json!("private")) } else { Default::default() };
        assert_eq!(hints, expected, "{method}");
    }
    let id = delivered(&mut server, &stateless("4", "resources/read", r#""uri":"test://a""#, ""));
    assert_eq!(only(server.resolve(id, Ok(Reply::Contents(contents()))))["result"]["ttlMs"], 5000);
}

#[test]
fn answers_in_the_first_request_are_used() {
    let mut server = server().holding();
    let given = format!(r#","inputResponses":{{"a":{YES},"b":12345,"other":{YES}}}"#);
    let id = delivered(&mut server, &calls("1", EVERYTHING, &given));
    assert_eq!(ask(&mut server, id, 1, form().named("a")), NOTHING);
    assert_eq!(answer(&mut server), (1, Ok(value(YES))));
    asked(ask(&mut server, id, 2, form().named("a")), 1);

    let id = delivered(&mut server, &calls("2", EVERYTHING, &given));
    let (requests, _) = asked(ask(&mut server, id, 3, form().named("b")), 2);
    assert!(requests["b"].is_object(), "a number is not a valid answer");
    for ignored in [r#","inputResponses":null"#, r#","inputResponses":[]"#] {
        let id = delivered(&mut server, &calls("3", EVERYTHING, ignored));
        asked(ask(&mut server, id, 4, form().named("a")), 3);
    }
}

#[test]
fn a_parked_call_ends_after_its_timeout() {
    let mut server = server().holding();
    let park = |server: &mut TestServer, id: &str| -> (CallId, Value) {
        let call = delivered(server, &call(id));
        (call, asked(ask(server, call, 1, form().named("a")), id.parse().unwrap()).1)
    };
    let (first, first_state) = park(&mut server, "1");
    assert_eq!(server.advance(5 * MINUTES), NOTHING);
    let (second, second_state) = park(&mut server, "2");
    assert_eq!((server.advance(5 * MINUTES), server.cancelled.clone()), (NOTHING, vec![first]));
    assert_eq!(error(server.line(&again("3", "", &first_state))).1, -32602);
    asked(server.line(&again("4", "", &second_state)), 4);
    server.advance(5 * MINUTES);
    assert_eq!(server.cancelled, [first], "a returning caller must get a new timeout");
    server.advance(5 * MINUTES);
    assert_eq!(server.cancelled, [first, second]);
    assert_eq!((server.door.poll_timeout(), server.door.held_bytes()), (None, 0));
    assert!(server.answered.is_empty());
}

#[test]
fn the_outcome_of_a_parked_call_is_kept_for_its_caller() {
    let mut server = server().holding();
    let id = delivered(&mut server, &call("1"));
    let (_, state) = asked(ask(&mut server, id, 1, form().named("a")), 1);
    assert_eq!(server.resolve_next(), NOTHING);
    let line = only(server.line(&again("2", "", &state)));
    assert_eq!((&line["id"], &line["result"]["content"][0]["text"]), (&json!(2), &json!("hi")));
    assert_eq!(error(server.line(&again("3", "", &state))).1, -32602);

    let id = delivered(&mut server, &call("4"));
    asked(ask(&mut server, id, 2, form().named("a")), 4);
    server.resolve_next();
    server.advance(10 * MINUTES);
    assert_eq!((server.cancelled.len(), server.door.poll_timeout()), (0, None), "an ended call must not be cancelled");
}

/// The same request with a progress token and a log level.
pub(crate) fn hearing(line: String, token: u64, level: &str) -> String {
    let wishes = format!(r#""_meta":{{"progressToken":{token},"io.modelcontextprotocol/logLevel":"{level}","#);
    line.replace(r#""_meta":{"#, &wishes)
}

/// A progress report with a message of so many bytes.
pub(crate) fn progress(call: CallId, step: f64, bytes: usize) -> Notice {
    Notice::Progress(call, Progress { progress: step, total: None, message: Some("x".repeat(bytes)) })
}

fn log(call: CallId, level: Level) -> Notice {
    Notice::Log(Some(call), Log::new(level, None, gladhand_core::wire::json::to_raw(&level.word())))
}

#[test]
fn notices_of_a_call_follow_its_newest_request() {
    let mut server = server().holding();
    server.lane = Lane(1);
    let id = delivered(&mut server, &hearing(call("1"), 10, "info"));
    let told = only(server.notify(progress(id, 1.0, 0)));
    assert_eq!(told["params"]["progressToken"], 10);
    let (_, state) = asked(ask(&mut server, id, 1, form().named("a")), 1);
    assert!(
        server.handle_lane_closed(Lane(1)).is_empty() && server.cancelled.is_empty(),
        "the exchange has no call any more"
    );
    server.line(&cancel("1"));
    assert!(server.cancelled.is_empty() && server.dropped.len() == 1, "the request cannot be cancelled any more");
    server.lane = Lane(2);
    assert_eq!(server.line(&hearing(again("2", &format!(r#""a":{YES}"#), &state), 20, "info")), NOTHING);
    let told = only(server.notify(progress(id, 1.0, 0)));
    assert_eq!((&told["params"]["progressToken"], server.lanes.as_slice()), (&json!(20), [Lane(2)].as_slice()));
    server.handle_lane_closed(Lane(2));
    assert_eq!(server.cancelled, [id]);
}

#[test]
fn notices_between_two_rounds_precede_the_response_of_the_second() {
    for (has_ended, is_answered) in [(false, true), (false, false), (true, true)] {
        let mut server = server().holding();
        server.lane = Lane(1);
        let id = delivered(&mut server, &hearing(call("1"), 10, "info"));
        assert_eq!(server.notify(progress(id, 1.0, 0)).len(), 1);
        let (_, state) = asked(ask(&mut server, id, 1, form().named("a")), 1);
        server.lane = Lane::MAIN;
        // A report that goes back is not told, and a level that was not asked for is not either.
        for notice in [progress(id, 2.0, 0), log(id, Level::Debug), log(id, Level::Error), progress(id, 1.5, 0)] {
            assert_eq!(server.notify(notice), NOTHING);
        }
        assert!(server.door.held_bytes() > 0);
        if has_ended {
            assert_eq!(server.resolve_next(), NOTHING);
        }
        server.lane = Lane(2);
        let answers = if is_answered { format!(r#""a":{YES}"#) } else { String::new() };
        let lines = server.line(&hearing(again("2", &answers, &state), 20, "info"));
        assert!(server.lanes.iter().all(|lane| *lane == Lane(2)), "{:?}", server.lanes);
        let lines: Vec<_> = lines.iter().map(|line| value(line)).collect();
        assert_eq!(lines[0]["params"], json!({"progressToken": 20, "progress": 2, "message": ""}));
        assert_eq!(lines[1]["params"], json!({"level": "error", "data": "error"}));
        match (has_ended, is_answered) {
            (true, _) => {
                assert_eq!((&lines[2]["id"], &lines[2]["result"]["resultType"]), (&json!(2), &json!("complete")))
            }
            (false, false) => assert_eq!(lines[2]["result"]["resultType"], "input_required"),
            (false, true) => {
                assert_eq!(lines.len(), 2);
                let told = only(server.notify(progress(id, 3.0, 0)));
                assert_eq!(told["params"]["progress"], 3, "what follows comes at once");
            }
        }
    }
}

#[test]
fn notices_that_the_request_did_not_ask_for_are_not_kept() {
    let mut server = server().holding();
    let id = delivered(&mut server, &call("1"));
    let (_, state) = asked(ask(&mut server, id, 1, form().named("a")), 1);
    let held = server.door.held_bytes();
    for notice in [progress(id, 1.0, 0), log(id, Level::Emergency)] {
        assert_eq!(server.notify(notice), NOTHING);
    }
    assert_eq!(server.door.held_bytes(), held);
    assert_eq!(server.line(&hearing(again("2", &format!(r#""a":{YES}"#), &state), 20, "debug")), NOTHING);
}

#[test]
fn parked_calls_are_limited_separately() {
    let mut server = server().holding();
    for at in 0..256 {
        let id = delivered(&mut server, &call(&at.to_string()));
        asked(ask(&mut server, id, at, form()), at);
    }
    let id = delivered(&mut server, &call("256"));
    assert_eq!(ask(&mut server, id, 256, form()), NOTHING);
    assert_eq!(answer(&mut server), (256, Err(FailureKind::Busy)));
    assert_eq!(server.door.in_flight(), [id]);
}

#[test]
fn parked_calls_end_with_the_session() {
    let mut server = server().holding();
    let parked = delivered(&mut server, &call("1"));
    asked(ask(&mut server, parked, 1, form()), 1);
    let open = delivered(&mut server, &call("2"));
    assert_eq!(server.stop(Stop::InputClosed), NOTHING);
    assert_eq!((server.cancelled.clone(), server.door.in_flight()), (vec![parked], vec![open]));
    server.answered.clear();
    assert_eq!(ask(&mut server, open, 2, form()), NOTHING, "a closing session must not park a call");
    assert_eq!(answer(&mut server), (2, Err(FailureKind::Stopping)));
    assert_eq!(only(server.resolve_next())["id"], 2);
}

#[test]
fn one_peer_of_many_cannot_ask_for_all_questions() {
    let mut server = server().holding();
    let mut asks = |party| {
        server.party = Some(Party(party));
        let id = delivered(&mut server, &call("1"));
        server.ask(id, (0..1500).map(|at| (QuestionId(at), form())).collect());
        1500 - server.answered.drain(..).filter(|(_, answered)| answered.is_err()).count()
    };
    assert_eq!([asks(1), asks(1), asks(2), asks(3)], [512, 0, 256, 128]);
}

#[test]
fn one_peer_of_many_cannot_take_all_the_room() {
    let setup = ServerSetup { max_in_flight: 8, ..server_setup() };
    let mut server = TestServer::pinned(&DIALECT, setup).holding();
    let is_parked = |server: &mut TestServer, party| {
        server.party = Some(Party(party));
        let id = delivered(server, &call("1"));
        let lines = ask(server, id, 1, form());
        let is_parked = lines.first().is_some_and(|line| line.contains("input_required"));
        if !is_parked {
            server.resolve(id, Err(Failure::new(FailureKind::Unanswered, "")));
        }
        is_parked
    };
    let shares = [1, 2].map(|party| (0..).take_while(|_| is_parked(&mut server, party)).count());
    assert_eq!(shares, [128, 64]);

    server.party = Some(Party(3));
    let in_flight = (0..).take_while(|_| server.line(&call("1")).is_empty()).count();
    assert_eq!(in_flight, 4, "one peer must not use all calls in flight");
    server.party = Some(Party(4));
    assert_eq!(server.line(&call("1")), NOTHING);
}
