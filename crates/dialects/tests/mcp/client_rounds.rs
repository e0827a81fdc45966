//! Tests of calls that a stateless server answers with questions.

use gladhand_core::negotiation::Capability;
use gladhand_core::operations::{Call, CallId, Failure, FailureKind, Operation, QuestionKind, Reply};
use gladhand_core::wire::json;
use gladhand_dialects::testing::{bare_call, client_setup};
use gladhand_dialects::{ClientSetup, Event, Party};

use crate::client::{EVERYTHING, Hand, opened_with, result};
use crate::*;

const ELICIT: &str = r#""who":{"method":"elicitation/create","params":{"message":"who?"}}"#;
const ROOTS: &str = r#""where":{"method":"roots/list"}"#;

fn asked() -> Hand {
    let provides = ["elicitation", "roots"].map(|name| (Capability::named(name), None)).to_vec();
    opened_with(ClientSetup { provides, ..client_setup(STATELESS) }, EVERYTHING)
}

fn input_required(id: u64, members: &str) -> String {
    result(&id.to_string(), &format!(r#"{{"resultType":"input_required",{members}}}"#))
}

#[test]
fn a_call_is_repeated_with_the_answers_and_the_state() {
    let mut hand = asked();
    hand.calls(1, bare_call("t"));
    let first = hand.sent[0].clone();
    hand.take_sent();
    hand.hears(&input_required(2, &format!(r#""inputRequests":{{{ELICIT},{ROOTS}}},"requestState":"\u0061 \"b\"""#)));
    let questions = hand.take_asked();
    let shown: Vec<_> =
        questions.iter().map(|(_, call, question)| (*call, question.kind, question.key.as_deref())).collect();
    let call = Some(CallId(1));
    assert_eq!(shown, [(call, QuestionKind::Elicit, Some("who")), (call, QuestionKind::Roots, Some("where"))]);
    hand.answers(questions[1].0, Ok(json::raw(r#"{"roots":[]}"#.to_owned())));
    assert_eq!(hand.sent, NOTHING, "the call must wait for the missing answer");
    hand.answers(questions[0].0, Ok(json::raw(r#"{"action":"accept","content":{"a":1.0}}"#.to_owned())));
    let answers = r#""inputResponses":{"who":{"action":"accept","content":{"a":1.0}},"where":{"roots":[]}},"requestState":"\u0061 \"b\"","#;
    let expected = first.replace(r#""id":2"#, r#""id":3"#).replace(r#""_meta""#, &format!(r#"{answers}"_meta""#));
    assert_eq!(hand.sent, [expected.replace(r#""progressToken":2"#, r#""progressToken":3"#)]);
    hand.hears(&result("3", r#"{"resultType":"complete","content":[]}"#));
    assert!(matches!(hand.take_outcome(1), Ok(Reply::Tool(_))));
}

#[test]
fn a_state_is_optional_and_sufficient() {
    let mut hand = asked();
    hand.calls(1, Operation::ReadResource("a:b".into()));
    hand.take_sent();
    hand.hears(&input_required(2, &format!(r#""inputRequests":{{{ELICIT}}}"#)));
    let (id, ..) = hand.take_asked().remove(0);
    hand.answers(id, Ok(json::raw(r#"{"action":"decline"}"#.to_owned())));
    let again = hand.only_sent();
    assert!(again["params"].get("requestState").is_none() && again["params"]["inputResponses"]["who"].is_object());
    hand.hears(&input_required(3, r#""requestState":"s""#));
    let again = hand.only_sent();
    assert!(again["params"].get("inputResponses").is_none());
    assert_eq!((&again["params"]["requestState"], &again["params"]["uri"]), (&"s".into(), &"a:b".into()));
}

#[test]
fn the_number_of_question_rounds_is_limited() {
    let mut hand = asked();
    hand.calls(1, bare_call("t"));
    let mut id = 2;
    while hand.is_open(1) {
        hand.hears(&input_required(id, r#""requestState":"s""#));
        id += 1;
    }
    assert_eq!(hand.take_outcome(1).unwrap_err().kind, FailureKind::UpstreamError);
    assert_eq!(id, 2 + 17);
}

#[test]
fn a_question_that_cannot_be_asked_fails_the_call() {
    for members in [
        r#""inputRequests":{"s":{"method":"sampling/createMessage","params":{}}}"#,
        r#""inputRequests":{"u":{"method":"elicitation/create","params":{"mode":"url"}}}"#,
        r#""inputRequests":{"n":{"method":"nonsense"}}"#,
        r#""inputRequests":{"e":{"method":"elicitation/create","params":{"mode":"dance"}}}"#,
        r#""inputRequests":{}"#,
        r#""other":1"#,
    ] {
        let mut hand = asked();
        hand.calls(1, bare_call("t"));
        hand.hears(&input_required(2, members));
        assert_eq!(hand.take_outcome(1).unwrap_err().kind, FailureKind::UpstreamError, "{members}");
        assert!(hand.take_asked().is_empty());
    }
    let mut hand = asked();
    hand.calls(1, Operation::ListTools);
    hand.hears(&input_required(2, r#""requestState":"s""#));
    assert!(hand.take_outcome(1).is_err(), "a list must not be answered with questions");
}

#[test]
fn a_missing_answer_cancels_an_elicitation_and_fails_other_questions() {
    let unanswered = || Failure::new(FailureKind::Unanswered, "no");
    let mut hand = asked();
    hand.calls(1, bare_call("t"));
    hand.take_sent();
    hand.hears(&input_required(2, &format!(r#""inputRequests":{{{ELICIT}}}"#)));
    let (id, ..) = hand.take_asked().remove(0);
    hand.answers(id, Err(unanswered()));
    assert_eq!(hand.only_sent()["params"]["inputResponses"]["who"]["action"], "cancel");
    hand.hears(&input_required(3, &format!(r#""inputRequests":{{{ELICIT},{ROOTS}}}"#)));
    let questions = hand.take_asked();
    hand.answers(questions[1].0, Err(unanswered()));
    assert_eq!(hand.take_outcome(1).unwrap_err().kind, FailureKind::Unanswered);
    assert!(matches!(hand.events[..], [Event::Unasked(unasked)] if unasked == questions[0].0));
    hand.answers(questions[0].0, Ok(json::raw("{}".to_owned())));
    assert_eq!(hand.sent, NOTHING);
}

#[test]
fn a_call_can_be_cancelled_while_it_waits_for_answers() {
    let mut hand = asked();
    hand.calls(1, bare_call("t"));
    hand.take_sent();
    hand.hears(&input_required(2, &format!(r#""inputRequests":{{{ELICIT}}}"#)));
    assert_eq!(hand.take_asked().len(), 1);
    hand.cancels(1);
    assert_eq!(hand.take_outcome(1).unwrap_err().kind, FailureKind::Cancelled);
    assert_eq!((hand.sent.len(), hand.events.len()), (0, 1), "there is no request to cancel");
}

#[test]
fn callers_that_leave_questions_unanswered_keep_no_other_from_being_asked() {
    let mut hand = asked();
    let mut id = 1;
    let mut is_asked = |hand: &mut Hand, party: u64| {
        id += 1;
        let mut call = Call::new(CallId(id), bare_call("t"));
        call.terms.party = Some(Party(party));
        hand.step(|client, ambient, heard| client.call(call, None, ambient, heard));
        hand.hears(&input_required(id, &format!(r#""inputRequests":{{{ELICIT}}}"#)));
        let is_asked = hand.is_open(id);
        assert_eq!(hand.take_asked().len(), usize::from(is_asked));
        is_asked
    };
    let shares = [1, 2, 3].map(|party| (0..1000).take_while(|_| is_asked(&mut hand, party)).count());
    assert_eq!(shares, [128, 64, 32]);
    // The calls of the first two parties are 2 to 130 and 131 to 195, those that were refused included.
    hand.cancels(196);
    assert!(is_asked(&mut hand, 3), "a call that ends gives its place back");
}

#[test]
fn states_of_waiting_calls_have_a_bound_that_parties_share() {
    let mut hand = asked();
    let (mut id, state) = (1, "s".repeat(4 * 1024 * 1024));
    let mut waits = |party: u64| {
        id += 1;
        let mut call = Call::new(CallId(id), bare_call("t"));
        call.terms.party = Some(Party(party));
        hand.step(|client, ambient, heard| client.call(call, None, ambient, heard));
        hand.hears(&input_required(id, &format!(r#""inputRequests":{{{ELICIT}}},"requestState":"{state}""#)));
        hand.take_asked();
        hand.is_open(id)
    };
    let shares = [1, 2].map(|party| (0..100).take_while(|_| waits(party)).count());
    assert_eq!(shares, [3, 2], "a party keeps at most half of what the others leave");
}
