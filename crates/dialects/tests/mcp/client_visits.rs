//! Tests of calls that are refused until the user has visited a page.

use gladhand_core::negotiation::Capability;
use gladhand_core::operations::{Answered, CallId, Failure, FailureKind, QuestionKind, Reply};
use gladhand_core::wire::json;
use gladhand_dialects::testing::{bare_call, client_setup};
use gladhand_dialects::{ClientSetup, Event};

use crate::client::{EVERYTHING, Hand, opened_with, result};
use crate::*;

const BOTH: [&str; 3] = ["elicitation", "elicitation.form", "elicitation.url"];

fn hand(version: &str, names: &[&'static str]) -> Hand {
    let provides = names.iter().map(|name| (Capability::named(name), None)).collect();
    opened_with(ClientSetup { provides, ..client_setup(version) }, EVERYTHING)
}

fn page(id: &str) -> String {
    format!(r#"{{"mode":"url","elicitationId":"{id}","url":"https://a.test/{id}","message":"sign in"}}"#)
}

fn refusal(id: u64, pages: &[String]) -> String {
    let error = format!(r#"{{"code":-32042,"message":"not yet","data":{{"elicitations":[{}]}}}}"#, pages.join(","));
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#)
}

fn complete(id: &str) -> String {
    let params = format!(r#"{{"elicitationId":"{id}"}}"#);
    format!(r#"{{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{params}}}"#)
}

fn answer(action: &str) -> Answered {
    Ok(json::raw(format!(r#"{{"action":"{action}"}}"#)))
}

/// A call that is refused until these pages are visited, with its request.
fn refused(pages: &[&str]) -> (Hand, Value) {
    let mut hand = hand("2025-11-25", &BOTH);
    hand.calls(1, bare_call("t"));
    let sent = hand.only_sent();
    hand.hears(&refusal(2, &pages.iter().map(|id| page(id)).collect::<Vec<_>>()));
    (hand, sent)
}

/// Checks that the call was repeated with a new id and is otherwise identical.
fn is_made_again(hand: &mut Hand, first: &Value, id: u64) {
    let again = hand.only_sent();
    assert_eq!(again["id"], id);
    assert_eq!((&again["method"], &again["params"]["name"]), (&first["method"], &first["params"]["name"]));
    assert_eq!(again["params"]["arguments"], first["params"]["arguments"]);
}

#[test]
fn a_call_is_repeated_after_all_pages_were_visited() {
    let (mut hand, first) = refused(&["a", "b"]);
    let asked = hand.take_asked();
    let shown: Vec<_> = asked.iter().map(|(_, call, question)| (*call, question.kind, question.params.get())).collect();
    let call = Some(CallId(1));
    assert_eq!(shown, [(call, QuestionKind::Elicit, &*page("a")), (call, QuestionKind::Elicit, &*page("b"))]);
    hand.hears(&complete("b"));
    hand.answers(asked[0].0, answer("accept"));
    hand.hears(&complete("a"));
    assert_eq!(hand.sent, NOTHING, "the user has not agreed to the other page");
    hand.answers(asked[1].0, answer("accept"));
    is_made_again(&mut hand, &first, 3);
    hand.hears(&result("3", r#"{"content":[]}"#));
    assert!(matches!(hand.take_outcome(1), Ok(Reply::Tool(_))));
}

#[test]
fn without_a_report_a_call_is_repeated_after_a_pause() {
    let (mut hand, first) = refused(&["a"]);
    let asked = hand.take_asked();
    hand.answers(asked[0].0, answer("accept"));
    assert_eq!(hand.sent, NOTHING, "the user may still be on the page");
    hand.wakes();
    is_made_again(&mut hand, &first, 3);
    hand.hears(&refusal(3, &[page("a")]));
    assert!(hand.take_asked().is_empty());
    hand.hears(&complete("a"));
    is_made_again(&mut hand, &first, 4);
    hand.hears(&refusal(4, &[page("a"), page("c")]));
    assert_eq!(hand.take_asked().len(), 1, "another page");
}

#[test]
fn the_number_of_repeated_visits_is_limited() {
    let (mut hand, _) = refused(&["a"]);
    let mut id = 2;
    while hand.is_open(1) {
        for (question, ..) in hand.take_asked() {
            hand.answers(question, answer("accept"));
        }
        hand.wakes();
        id += 1;
        hand.hears(&refusal(id, &[page(&id.to_string())]));
    }
    assert_eq!(hand.take_outcome(1).unwrap_err().kind, FailureKind::UpstreamError);
    assert_eq!(id, 2 + 16);
    assert!(!hand.has_deadline());
}

#[test]
fn a_declined_visit_fails_the_call() {
    for action in ["decline", "cancel", "dance"] {
        let (mut hand, _) = refused(&["a", "b"]);
        let asked = hand.take_asked();
        hand.answers(asked[0].0, answer(action));
        let failure = hand.take_outcome(1).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Unanswered);
        assert!(matches!(hand.events[..], [Event::Unasked(unasked)] if unasked == asked[1].0));
        assert!(hand.sent.is_empty() && !hand.has_deadline());
    }
}

#[test]
fn without_a_user_the_caller_gets_the_required_pages() {
    let (mut asked, _) = refused(&["a"]);
    let (question, ..) = asked.take_asked().remove(0);
    asked.answers(question, Err(Failure::missing_capability("elicitation.url")));
    let mut unasked = hand("2025-11-25", &["elicitation", "elicitation.form"]);
    let mut older = hand("2025-06-18", &BOTH);
    for hand in [&mut unasked, &mut older] {
        hand.calls(1, bare_call("t"));
        hand.hears(&refusal(2, &[page("a")]));
    }
    for mut hand in [asked, unasked, older] {
        let failure = hand.take_outcome(1).unwrap_err();
        assert_eq!(failure.kind, FailureKind::UpstreamError);
        assert_eq!(failure.message, "not yet (visit first: https://a.test/a)");
        let data = value(failure.data.unwrap().get());
        assert_eq!((&data["code"], &data["data"]["elicitations"][0]), (&(-32042).into(), &value(&page("a"))));
        assert!(hand.take_asked().is_empty());
    }
}

#[test]
fn an_error_without_a_page_is_an_ordinary_error() {
    let bad = [r#"{"mode":"url","url":"https://a.test"}"#, r#"{"elicitationId":"a","url":"https://a.test"}"#, "1"];
    for pages in [vec![], vec![page("a"), bad[0].to_owned()], vec![bad[1].to_owned()], vec![bad[2].to_owned()]] {
        let mut hand = hand("2025-11-25", &BOTH);
        hand.calls(1, bare_call("t"));
        hand.hears(&refusal(2, &pages));
        assert_eq!(hand.take_outcome(1).unwrap_err().kind, FailureKind::UpstreamError, "{pages:?}");
        assert!(hand.take_asked().is_empty());
    }
}

#[test]
fn a_call_can_be_cancelled_or_lost_during_a_visit() {
    let (mut hand, _) = refused(&["a"]);
    hand.cancels(1);
    assert_eq!(hand.take_outcome(1).unwrap_err().kind, FailureKind::Cancelled);
    assert!(hand.events.iter().any(|event| matches!(event, Event::Unasked(_))) && hand.sent.is_empty());
    let (mut hand, _) = refused(&["a"]);
    hand.step(|client, ambient, heard| client.handle_disconnect(ambient, heard));
    assert_eq!(hand.take_outcome(1).unwrap_err().kind, FailureKind::UpstreamLost);
    assert!(hand.events.iter().any(|event| matches!(event, Event::Unasked(_))) && !hand.has_deadline());
}
