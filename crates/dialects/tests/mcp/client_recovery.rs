//! Tests of lost exchanges, lost sessions and cancelled calls.

use gladhand_core::operations::{Call, CallId, FailureKind, Operation, Party, Reply};
use gladhand_dialects::testing::{bare_call, client_setup};
use gladhand_dialects::{ClientSetup, Event, Lane, Loss};

use crate::client::{EVERYTHING, Hand, opened_with, result};
use crate::*;

fn over_http(version: &str) -> Hand {
    opened_with(ClientSetup { exchanges: true, ..client_setup(version) }, EVERYTHING)
}

#[test]
fn a_broken_exchange_is_repeated_only_without_side_effects() {
    for version in [STATELESS, "2025-11-25"] {
        let mut hand = over_http(version);
        hand.calls(1, Operation::ReadResource("a:b".into()));
        hand.calls(2, bare_call("t"));
        hand.take_sent();
        hand.loses(2, Loss::Broken);
        let again = hand.only_sent();
        assert_eq!((&again["method"], &again["id"]), (&"resources/read".into(), &4.into()));
        hand.loses(3, Loss::Broken);
        assert_eq!(hand.take_outcome(2).unwrap_err().kind, FailureKind::UpstreamLost);
        hand.loses(4, Loss::Broken);
        hand.loses(5, Loss::Broken);
        assert_eq!(
            hand.take_outcome(1).unwrap_err().kind,
            FailureKind::UpstreamLost,
            "the number of repetitions must be limited"
        );
        hand.loses(5, Loss::Broken);
        hand.loses(99, Loss::Unsent("no way there".into()));
        assert!(hand.events.is_empty());
    }
}

#[test]
fn an_unsent_request_is_sent_again() {
    let mut hand = over_http(STATELESS);
    hand.calls(1, bare_call("t"));
    hand.take_sent();
    hand.loses(2, Loss::Unsent("no way there".into()));
    assert_eq!(hand.only_sent()["method"], "tools/call");
    hand.hears_on(3, &result("3", r#"{"content":[]}"#));
    assert!(hand.take_outcome(1).is_ok());
}

#[test]
fn a_request_beyond_the_share_of_its_client_is_not_sent_again() {
    let mut hand = over_http(STATELESS);
    hand.calls(1, bare_call("t"));
    hand.take_sent();
    hand.loses(2, Loss::Busy("too many requests"));
    assert_eq!(hand.take_outcome(1).unwrap_err().kind, FailureKind::Busy);
    assert!(hand.take_sent().is_empty(), "a repetition would get around the share");
}

#[test]
fn the_caller_gets_the_reason_for_denied_access() {
    let mut hand = over_http(STATELESS);
    hand.calls(1, bare_call("t"));
    hand.take_sent();
    hand.loses(2, Loss::Denied("not of this team".into()));
    let failure = hand.take_outcome(1).unwrap_err();
    assert_eq!(failure.message, "the upstream does not let us in: not of this team");
    assert!(hand.take_sent().is_empty(), "a denied request must not be repeated");
}

#[test]
fn an_http_status_is_reported_as_a_failure() {
    let mut hand = over_http(STATELESS);
    hand.calls(1, Operation::ListTools);
    hand.loses(2, Loss::Status(503));
    let failure = hand.take_outcome(1).unwrap_err();
    assert_eq!(failure.kind, FailureKind::UpstreamError);
    assert!(failure.message.contains("503"), "{}", failure.message);
    let mut hand = Hand::new(ClientSetup { exchanges: true, ..client_setup(STATELESS) });
    hand.loses(1, Loss::Status(404));
    assert_eq!(hand.take_opening().unwrap_err().word(), "peer_refused");
}

#[test]
fn an_error_with_a_wrong_id_answers_its_exchange() {
    let error = r#"{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"no"}}"#;
    let mut hand = over_http("2025-11-25");
    hand.calls(1, bare_call("t"));
    hand.calls(2, bare_call("t"));
    hand.hears_on(3, error);
    hand.hears_on(2, &error.replace(r#""id":"server-error","#, ""));
    assert!(hand.take_outcome(2).is_err() && hand.take_outcome(1).is_err());
    hand.hears(error);
    assert_eq!(hand.drops(), 1, "on the main lane, the error must be dropped");
}

#[test]
fn an_ended_session_is_reopened_and_its_calls_continue() {
    let mut hand = over_http("2025-11-25");
    hand.calls(1, Operation::Watch("a:b".into()));
    hand.hears_on(2, &result("2", "{}"));
    assert!(hand.take_outcome(1).is_ok());
    hand.calls(2, bare_call("t"));
    hand.calls(3, bare_call("u"));
    hand.take_sent();
    hand.loses(3, Loss::Session);
    assert_eq!(hand.only_sent()["method"], "initialize");
    hand.loses(4, Loss::Unsent("no way there".into()));
    hand.calls(4, Operation::ListTools);
    hand.calls(5, Operation::ListPrompts);
    hand.cancels(5);
    assert_eq!(hand.take_outcome(5).unwrap_err().kind, FailureKind::Cancelled);
    assert_eq!(hand.sent, NOTHING, "no request may be sent without a session");
    let opening = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"resources":{"subscribe":true}},"serverInfo":{"name":"s","version":"3"}}"#;
    hand.hears_on(5, &result("5", opening));
    assert_eq!(hand.take_opening().unwrap().server.version, "3");
    let methods: Vec<_> = hand.take_sent().iter().map(|line| line["method"].clone()).collect();
    let expected = ["notifications/initialized", "resources/subscribe", "tools/call", "tools/call", "tools/list"];
    assert_eq!(methods, expected);
    hand.hears_on(9, &result("9", r#"{"tools":[]}"#));
    assert!(matches!(hand.take_outcome(4), Ok(Reply::Tools(_))));
}

#[test]
fn repeated_requests_belong_to_the_party_of_their_call() {
    let mut hand = over_http("2025-11-25");
    for party in [1, 2] {
        let mut call = Call::new(CallId(party), bare_call("t"));
        call.terms.party = Some(Party(party));
        hand.step(|client, ambient, heard| client.call(call, None, ambient, heard));
    }
    hand.parties.clear();
    // One call waits for the new session because the old one was lost, the other because it was not sent.
    hand.loses(2, Loss::Session);
    hand.loses(3, Loss::Unsent("no way there".into()));
    let opening =
        r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"3"}}"#;
    hand.hears_on(4, &result("4", opening));
    // `initialize` and `notifications/initialized` belong to no call.
    assert_eq!(hand.parties, [None, None, Some(Party(1)), Some(Party(2))]);
}

#[test]
fn a_session_that_cannot_be_reopened_fails_its_calls() {
    let mut hand = over_http("2025-11-25");
    hand.calls(1, bare_call("t"));
    hand.loses(2, Loss::Session);
    hand.loses(3, Loss::Status(500));
    assert_eq!(hand.take_outcome(1).unwrap_err().kind, FailureKind::UpstreamLost);
    assert!(hand.take_opening().is_err());
    hand.calls(2, bare_call("t"));
    assert_eq!(hand.take_outcome(2).unwrap_err().kind, FailureKind::UpstreamLost);
    let mut hand = over_http("2025-11-25");
    hand.loses(0, Loss::Session);
    hand.calls(1, bare_call("t"));
    hand.step(|client, ambient, heard| client.handle_disconnect(ambient, heard));
    assert_eq!(hand.take_outcome(1).unwrap_err().kind, FailureKind::UpstreamLost);
}

#[test]
fn a_call_is_cancelled_in_the_way_of_era_and_transport() {
    for (version, exchanges, says_so) in
        [("2025-11-25", false, true), ("2025-11-25", true, true), (STATELESS, false, true), (STATELESS, true, false)]
    {
        let mut hand = opened_with(ClientSetup { exchanges, ..client_setup(version) }, EVERYTHING);
        hand.calls(1, bare_call("t"));
        hand.take_sent();
        hand.cancels(1);
        hand.cancels(1);
        let cancelled: Vec<_> = hand.take_sent().iter().map(|line| line["params"]["requestId"].clone()).collect();
        assert_eq!(cancelled.len(), usize::from(says_so), "{version} {exchanges}");
        let let_go = hand.events.iter().filter(|event| matches!(event, Event::LetGo(Lane(2)))).count();
        assert_eq!(let_go, usize::from(exchanges));
        assert_eq!(hand.take_outcome(1).unwrap_err().kind, FailureKind::Cancelled);
        hand.hears_on(if exchanges { 2 } else { 0 }, &result("2", r#"{"content":[]}"#));
        assert_eq!(hand.drops(), 1, "a late answer must be dropped");
    }
}
