//! Tests of unreadable answers: the pending call fails immediately.

use gladhand_core::negotiation::Refusal;
use gladhand_core::operations::FailureKind;
use gladhand_core::wire::{Fault, Skim};
use gladhand_dialects::testing::{bare_call, client_setup};
use gladhand_dialects::{ClientSetup, Event, Loss};

use crate::client::{EVERYTHING, Hand, opened_with};
use crate::*;

fn deep() -> String {
    format!("{}{}", "[".repeat(200), "]".repeat(200))
}

/// A client with a pending call, whose request has the id 2.
fn calling(exchanges: bool) -> Hand {
    let mut hand = opened_with(ClientSetup { exchanges, ..client_setup("2025-11-25") }, EVERYTHING);
    hand.calls(1, bare_call("t"));
    hand
}

#[test]
fn an_unreadable_answer_fails_its_call() {
    let deep = deep();
    for (answer, problem) in [
        (format!(r#"{{"jsonrpc":"2.0","id":2,"result":{{"content":[],"x":{deep}}}}}"#), "nests deeper than 128"),
        (format!(r#"{{"result":{{"x":{deep}}},"jsonrpc":"2.0","id":2.0}}"#), "nests deeper than 128"),
        (r#"{"jsonrpc":"2.0","id":2,"result":{"x":NaN}}"#.to_owned(), "not valid JSON"),
        (r#"{"jsonrpc":"2.0","id":2}"#.to_owned(), "neither a result nor an error"),
        (r#"[{"jsonrpc":"2.0","id":2,"result":{}}]"#.to_owned(), "batch"),
    ] {
        let mut hand = calling(false);
        hand.reads(answer.as_bytes());
        let failure = hand.take_outcome(1).unwrap_err();
        assert_eq!(failure.kind, FailureKind::UpstreamError, "{answer}");
        assert!(failure.message.contains(problem), "{failure}");
    }
    let mut hand = calling(false);
    let skim = Skim::of(br#"{"jsonrpc":"2.0","id":2,"result":"#);
    hand.step(|client, ambient, heard| {
        client.handle_unreadable_line(&Fault::TooLong { limit: 5 }, &skim, ambient, heard)
    });
    let failure = hand.take_outcome(1).unwrap_err();
    assert_eq!(failure.kind, FailureKind::TooLong);
    assert!(failure.message.contains("longer than 5 bytes"), "{failure}");
}

#[test]
fn an_unreadable_line_without_a_known_id_fails_no_call() {
    let deep = deep();
    for line in [
        format!(r#"{{"jsonrpc":"2.0","id":2,"method":"x","params":{deep}}}"#),
        format!(r#"{{"jsonrpc":"2.0","id":3,"result":{deep}}}"#),
        deep.clone(),
        "nonsense".to_owned(),
    ] {
        let mut hand = calling(false);
        hand.reads(line.as_bytes());
        assert!(hand.is_open(1), "{line}");
        assert_eq!(hand.drops(), 1, "{line}");
    }
}

#[test]
fn an_exchange_identifies_the_answered_call() {
    let mut hand = calling(true);
    hand.lane = gladhand_dialects::Lane(2);
    hand.reads(b"nonsense");
    assert!(hand.is_open(1), "a readable answer may still follow");
    hand.reads(format!(r#"{{"jsonrpc":"2.0","error":{}}}"#, deep()).as_bytes());
    assert_eq!(hand.take_outcome(1).unwrap_err().kind, FailureKind::UpstreamError);
    assert!(hand.events.iter().any(|event| matches!(event, Event::LetGo(lane) if lane.0 == 2)));
    let mut hand = calling(true);
    hand.take_sent();
    hand.loses(2, Loss::TooLong(5));
    assert!(hand.take_outcome(1).unwrap_err().message.contains("longer than 5 bytes"));
    assert_eq!(hand.sent, NOTHING, "the request must not be repeated");
}

#[test]
fn an_unreadable_opening_is_refused() {
    for version in ["2025-11-25", STATELESS] {
        let mut hand = Hand::new(client_setup(version));
        hand.reads(format!(r#"{{"jsonrpc":"2.0","id":1,"result":{}}}"#, deep()).as_bytes());
        assert!(matches!(hand.take_opening(), Err(Refusal::PeerMisbehaved { .. })), "{version}");
    }
}
