//! Questions in the middle of a call without a session (2026-07-28): round trips.

use std::time::Duration;

use gladhand_core::operations::{CallId, Failure, FailureKind, Notice, Progress, Question, QuestionId};
use gladhand_dialects::{CacheHints, Lane, Party, Stop};
use serde_json::json;

use crate::questions::{EVERYTHING, answer, ask, delivered, form};
use crate::*;

const MINUTES: Duration = Duration::from_secs(60);

/// A call of `echo` by a client that declares these capabilities, with more members of its parameters.
fn calls(id: &str, declared: &str, more: &str) -> String {
    let line = stateless(id, "tools/call", &format!("{ECHO}{more}"), "");
    line.replace(r#"clientCapabilities":{}"#, &format!(r#"clientCapabilities":{declared}"#))
}

pub(crate) fn call(id: &str) -> String {
    calls(id, EVERYTHING, "")
}

/// The same call again with answers, which are the members of an object, and a state.
pub(crate) fn again(id: &str, answers: &str, state: &Value) -> String {
    calls(id, EVERYTHING, &format!(r#","inputResponses":{{{answers}}},"requestState":{state}"#))
}

/// The result of the only line, which must ask for input under this id; its state apart.
pub(crate) fn asked(lines: Vec<String>, id: u64) -> (Value, Value) {
    let mut line = only(lines);
    assert_eq!((&line["id"], &line["result"]["resultType"]), (&json!(id), &json!("input_required")), "{line}");
    let mut result = line["result"].take();
    assert!(result["_meta"]["io.modelcontextprotocol/serverInfo"].is_object() && result["ttlMs"].is_null());
    (result["inputRequests"].take(), result["requestState"].take())
}

const YES: &str = r#"{"action":"accept","content":{}}"#;

#[test]
fn a_call_that_asks_is_answered_with_its_questions_and_goes_on_with_their_answers() {
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
    assert_eq!(methods[1], ("q3", json!("sampling/createMessage")), "a name that is taken is made up");
    assert_eq!(methods[2], ("who", json!("elicitation/create")));
    assert_eq!(requests["who"]["params"]["message"], "Who?");
    assert!(server.door.in_flight().is_empty(), "its request is answered");

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
    assert_eq!(error(server.line(&again("3", &answers, &state))), (json!(3), -32602), "a state is good once");
}

#[test]
fn what_has_no_answer_is_asked_again_under_a_new_state() {
    let mut server = server().holding();
    let id = delivered(&mut server, &call("1"));
    let questions = vec![(QuestionId(1), form().named("a")), (QuestionId(2), form().named("b"))];
    let (_, first) = asked(server.ask(id, questions), 1);
    let (remaining, second) = asked(server.line(&again("2", &format!(r#""a":{YES},"b":12"#), &first)), 2);
    assert_eq!(remaining.as_object().unwrap().keys().collect::<Vec<_>>(), ["b"]);
    assert_eq!(answer(&mut server).0, 1);
    assert_ne!(first, second);
    let (_, third) = asked(server.line(&again("3", "", &second)), 3);
    // Asked while the caller is away: it comes with what remains.
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
fn a_state_is_good_only_as_it_was_given_and_for_whom_and_what() {
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
    assert_eq!(server.line(&good), NOTHING, "nothing of that used it up");
    assert_eq!(answer(&mut server).0, 1);
}

#[test]
fn a_state_is_good_only_with_the_scopes_that_the_call_needed() {
    let mut server = server().holding();
    (server.principal, server.scopes) = (Some("alice".to_owned()), Some("ops".into()));
    let id = delivered(&mut server, &call("1"));
    server.delivered[0].call.terms.record.as_ref().expect("the result is kept").add(["ops"]);
    let (_, state) = asked(ask(&mut server, id, 1, form().named("a")), 1);
    let good = again("2", &format!(r#""a":{YES}"#), &state);
    server.scopes = Some("talk".into());
    let refused = only(server.line(&good));
    assert_eq!(refused["error"]["data"]["detail"], json!({"scope": "ops"}), "{refused}");
    assert!(server.answered.is_empty());
    server.scopes = Some("ops talk".into());
    assert_eq!(server.line(&good), NOTHING, "nothing of that used it up");
}

#[test]
fn only_what_this_request_declared_is_asked() {
    let mut server = server().holding();
    let id = delivered(&mut server, &calls("1", r#"{"sampling":{}}"#, ""));
    let questions =
        vec![(QuestionId(1), form()), (QuestionId(2), Question::sample(&json!({"maxTokens": 1})).named("s"))];
    let (requests, state) = asked(server.ask(id, questions), 1);
    assert_eq!(requests.as_object().unwrap().keys().collect::<Vec<_>>(), ["s"]);
    assert_eq!(answer(&mut server), (1, Err(FailureKind::MissingCapability)));
    // Who comes back with less cannot be asked what remains.
    let line = again("2", "", &state).replace(EVERYTHING, r#"{"roots":{}}"#);
    assert_eq!(server.line(&line), NOTHING);
    assert_eq!(answer(&mut server), (2, Err(FailureKind::MissingCapability)));
    // Declared nothing, or asked about something that cannot wait.
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
fn a_page_to_visit_has_no_id_of_its_own() {
    let mut server = server().holding();
    let id = delivered(&mut server, &call("1"));
    let page = json!({"mode": "url", "url": "https://example.org", "message": "?", "elicitationId": "x"});
    let (requests, _) = asked(ask(&mut server, id, 1, Question::elicit(&page).named("p")), 1);
    assert_eq!(requests["p"]["params"], json!({"mode": "url", "url": "https://example.org", "message": "?"}));
}

#[test]
fn prompts_and_resources_wait_as_well_and_what_was_asked_for_is_not_kept() {
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
fn answers_that_come_before_they_are_asked_for_are_taken() {
    let mut server = server().holding();
    let given = format!(r#","inputResponses":{{"a":{YES},"b":12345,"other":{YES}}}"#);
    let id = delivered(&mut server, &calls("1", EVERYTHING, &given));
    assert_eq!(ask(&mut server, id, 1, form().named("a")), NOTHING);
    assert_eq!(answer(&mut server), (1, Ok(value(YES))));
    asked(ask(&mut server, id, 2, form().named("a")), 1);

    let id = delivered(&mut server, &calls("2", EVERYTHING, &given));
    let (requests, _) = asked(ask(&mut server, id, 3, form().named("b")), 2);
    assert!(requests["b"].is_object(), "a number is no answer");
    for ignored in [r#","inputResponses":null"#, r#","inputResponses":[]"#] {
        let id = delivered(&mut server, &calls("3", EVERYTHING, ignored));
        asked(ask(&mut server, id, 4, form().named("a")), 3);
    }
}

#[test]
fn a_caller_that_does_not_come_back_ends_its_call() {
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
    assert_eq!(server.cancelled, [first], "who came back has time again");
    server.advance(5 * MINUTES);
    assert_eq!(server.cancelled, [first, second]);
    assert_eq!((server.door.deadline(), server.door.held()), (None, 0));
    assert!(server.answered.is_empty());
}

#[test]
fn the_outcome_of_a_call_that_did_not_wait_is_kept_for_its_caller() {
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
    assert_eq!((server.cancelled.len(), server.door.deadline()), (0, None), "it has ended by itself");
}

#[test]
fn what_is_said_about_a_call_follows_its_newest_request() {
    let mut server = server().holding();
    let token =
        |line: String, token: &str| line.replace(r#""_meta":{"#, &format!(r#""_meta":{{"progressToken":{token},"#));
    let progress = |step: f64| Progress { progress: step, total: None, message: None };
    server.lane = Lane(1);
    let id = delivered(&mut server, &token(call("1"), "10"));
    let told = only(server.notice(Notice::Progress(id, progress(1.0))));
    assert_eq!(told["params"]["progressToken"], 10);
    let (_, state) = asked(ask(&mut server, id, 1, form().named("a")), 1);
    assert_eq!(server.notice(Notice::Progress(id, progress(2.0))), NOTHING, "nobody listens");
    assert!(server.hung_up(Lane(1)).is_empty() && server.cancelled.is_empty(), "there is nothing left to hang up on");
    server.line(&cancel("1"));
    assert!(server.cancelled.is_empty() && server.dropped.len() == 1, "nor to cancel");
    server.lane = Lane(2);
    server.line(&token(again("2", &format!(r#""a":{YES}"#), &state), "20"));
    let told = only(server.notice(Notice::Progress(id, progress(1.0))));
    assert_eq!((&told["params"]["progressToken"], server.lanes.as_slice()), (&json!(20), [Lane(2)].as_slice()));
    server.hung_up(Lane(2));
    assert_eq!(server.cancelled, [id]);
}

#[test]
fn parked_calls_are_bounded_and_do_not_crowd_out_others() {
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
fn at_the_end_parked_calls_are_ended_at_once() {
    let mut server = server().holding();
    let parked = delivered(&mut server, &call("1"));
    asked(ask(&mut server, parked, 1, form()), 1);
    let open = delivered(&mut server, &call("2"));
    assert_eq!(server.stop(Stop::InputClosed), NOTHING);
    assert_eq!((server.cancelled.clone(), server.door.in_flight()), (vec![parked], vec![open]));
    server.answered.clear();
    assert_eq!(ask(&mut server, open, 2, form()), NOTHING, "nobody could come back");
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
    assert_eq!(in_flight, 4, "nor all the calls in flight");
    server.party = Some(Party(4));
    assert_eq!(server.line(&call("1")), NOTHING);
}
