//! Tests of questions that a server of the handshake era sends to our client.

use gladhand_core::negotiation::Capability;
use gladhand_core::operations::{CallId, Failure, FailureKind, QuestionKind};
use gladhand_core::wire::json;
use gladhand_dialects::testing::{bare_call, client_setup};
use gladhand_dialects::{ClientSetup, Event, Unagreed};

use crate::client::{EVERYTHING, Hand, opened_with};
use crate::*;

fn providing(version: &str, names: &[&'static str]) -> ClientSetup {
    let provides = names.iter().map(|name| (Capability::named(name), None)).collect();
    ClientSetup { provides, ..client_setup(version) }
}

fn asked(names: &[&'static str]) -> Hand {
    opened_with(providing("2025-11-25", names), EVERYTHING)
}

#[test]
fn a_question_is_passed_on_and_its_answer_written_under_its_id() {
    for (method, capability, kind) in [
        ("roots/list", "roots", QuestionKind::Roots),
        ("sampling/createMessage", "sampling", QuestionKind::Sample),
        ("elicitation/create", "elicitation", QuestionKind::Elicit),
    ] {
        let mut hand = asked(&[capability]);
        hand.calls(7, bare_call("t"));
        hand.take_sent();
        hand.hears(&request("\"q\"", method, r#"{"message":"m"}"#));
        let (id, call, question) = hand.take_asked().remove(0);
        assert_eq!((call, question.kind, question.params.get()), (Some(CallId(7)), kind, r#"{"message":"m"}"#));
        assert_eq!(hand.sent, NOTHING);
        hand.answers(id, Ok(json::raw("{\"x\":\n1.0}".to_owned())));
        assert_eq!(hand.sent, [r#"{"jsonrpc":"2.0","id":"q","result":{"x": 1.0}}"#]);
        hand.answers(id, Ok(json::raw("{}".to_owned())));
        assert_eq!(hand.sent.len(), 1, "a second answer must not be sent");
    }
}

#[test]
fn a_question_belongs_to_a_call_only_if_unambiguous() {
    let mut hand = asked(&["roots"]);
    hand.hears(&request("1", "roots/list", "{}"));
    hand.calls(7, bare_call("t"));
    hand.calls(8, bare_call("t"));
    hand.hears(&request("2", "roots/list", "{}"));
    let calls: Vec<_> = hand.take_asked().into_iter().map(|(_, call, _)| call).collect();
    assert_eq!(calls, [None, None]);
    let setup = ClientSetup { exchanges: true, ..providing("2025-11-25", &["roots"]) };
    let mut hand = opened_with(setup, EVERYTHING);
    hand.calls(7, bare_call("t"));
    hand.calls(8, bare_call("t"));
    hand.hears_on(3, &request("1", "roots/list", "{}"));
    hand.hears(&request("2", "roots/list", "{}"));
    let calls: Vec<_> = hand.take_asked().into_iter().map(|(_, call, _)| call).collect();
    assert_eq!(calls, [Some(CallId(8)), None]);
}

#[test]
fn questions_without_a_capability_are_refused() {
    for (names, method, params, code) in [
        (&["roots"][..], "sampling/createMessage", "{}", -32601),
        (&["elicitation"], "elicitation/create", r#"{"mode":"url"}"#, -32602),
        (&["elicitation", "elicitation.url"], "elicitation/create", r#"{"mode":"form"}"#, -32602),
        (&["elicitation", "elicitation.url"], "elicitation/create", "{}", -32602),
        (&["elicitation", "elicitation.form"], "elicitation/create", r#"{"mode":"dance"}"#, -32602),
        (&["sampling"], "sampling/createMessage", r#"{"tools":[]}"#, -32602),
        (
            &["sampling", "sampling.tools"],
            "sampling/createMessage",
            r#"{"messages":[{"role":"user","content":{"type":"tool_result","toolUseId":"a","content":[]}}]}"#,
            -32602,
        ),
    ] {
        let mut hand = asked(names);
        hand.hears(&request("1", method, params));
        assert_eq!(hand.only_sent()["error"]["code"], code, "{names:?} {method} {params}");
        assert!(hand.take_asked().is_empty());
    }
    let mut hand = opened_with(providing("2025-03-26", &["elicitation"]), EVERYTHING);
    hand.hears(&request("1", "elicitation/create", "{}"));
    assert_eq!(hand.only_sent()["error"]["code"], -32601, "the revision does not have this method");
    let mut hand = asked(&["elicitation", "elicitation.form", "elicitation.url"]);
    hand.hears(&request("1", "elicitation/create", r#"{"mode":"url"}"#));
    hand.hears(&request("2", "elicitation/create", "{}"));
    assert_eq!(hand.take_asked().len(), 2);
}

#[test]
fn a_failed_question_has_its_error_code() {
    for (method, capability, kind, code) in [
        ("sampling/createMessage", "sampling", FailureKind::Unanswered, -1),
        ("sampling/createMessage", "sampling", FailureKind::TimedOut, -32603),
        ("roots/list", "roots", FailureKind::Unanswered, -32603),
        ("elicitation/create", "elicitation", FailureKind::Internal, -32603),
    ] {
        let mut hand = asked(&[capability]);
        hand.hears(&request("1", method, "{}"));
        let (id, ..) = hand.take_asked().remove(0);
        hand.answers(id, Err(Failure::new(kind, "no")));
        let sent = hand.only_sent();
        assert_eq!((&sent["error"]["code"], &sent["error"]["message"]), (&code.into(), &"no".into()));
    }
}

#[test]
fn a_withdrawn_question_gets_no_answer() {
    let mut hand = asked(&["roots"]);
    hand.hears(&request("1", "roots/list", "{}"));
    let (id, ..) = hand.take_asked().remove(0);
    hand.hears(&cancel("2"));
    assert_eq!(hand.drops(), 1);
    hand.hears(&cancel("1.0"));
    assert!(hand.events.iter().any(|event| matches!(event, Event::Unasked(unasked) if *unasked == id)));
    hand.answers(id, Ok(json::raw("{}".to_owned())));
    assert_eq!(hand.sent, NOTHING);
}

#[test]
fn questions_are_bounded_and_end_with_the_session() {
    let mut hand = asked(&["roots"]);
    for id in 0..300 {
        hand.hears(&request(&id.to_string(), "roots/list", "{}"));
    }
    assert_eq!(hand.take_asked().len(), 256);
    let refused = hand.take_sent();
    assert_eq!(refused.len(), 44);
    assert!(refused.iter().all(|line| line["error"]["data"]["reason"] == "busy"));
    hand.step(|client, ambient, heard| client.handle_disconnect(ambient, heard));
    let unasked = hand.events.iter().filter(|event| matches!(event, Event::Unasked(_))).count();
    assert_eq!(unasked, 256);
}

#[test]
fn unagreed_messages_are_refused_or_passed_by_setting() {
    let told = |hand: &Hand| {
        let told = hand.events.iter().filter_map(|event| match event {
            Event::Dropped(told) => Some(("dropped", *told)),
            Event::Passed(told) => Some(("passed", *told)),
            _ => None,
        });
        told.collect::<Vec<_>>()
    };
    let (question, notification) = ("a question that was not agreed", "a notification that was not agreed");
    let changed = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
    let updated = r#"{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a:b"}}"#;
    let mut hand = opened_with(client_setup("2025-11-25"), r#"{"tools":{}}"#);
    hand.hears(&request("1", "roots/list", "{}"));
    hand.hears(updated);
    hand.hears(changed);
    assert_eq!(hand.only_sent()["error"]["code"], -32601);
    assert_eq!(told(&hand), [("dropped", question), ("dropped", notification), ("passed", notification)]);
    assert_eq!(hand.take_notices(), ["ToolsChanged"], "a list change must pass");
    let setup = ClientSetup { unagreed: Unagreed::Passes, ..client_setup("2025-11-25") };
    let mut hand = opened_with(setup, r#"{"tools":{}}"#);
    hand.hears(&request("1", "roots/list", "{}"));
    hand.hears(updated);
    assert_eq!(told(&hand), [("passed", question), ("passed", notification)]);
    assert_eq!(hand.take_asked().len(), 1);
    assert_eq!(hand.take_notices(), [r#"ResourceUpdated(Update { uri: "a:b", denied: [] })"#]);
}
