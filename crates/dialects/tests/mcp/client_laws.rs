//! Property test of our client: for any behaviour of the upstream, every call has exactly one outcome.

use gladhand_core::negotiation::Capability;
use gladhand_core::operations::{Failure, FailureKind, Operation};
use gladhand_core::wire::json;
use gladhand_dialects::testing::{bare_call, client_setup};
use gladhand_dialects::{ClientSetup, Event, Loss};
use proptest::prelude::*;

use crate::client::{EVERYTHING, opened_with};
use crate::*;

/// Results of all kinds, valid or not.
const ANSWERS: [&str; 12] = [
    r#""result":{"content":[]}"#,
    r#""result":{"tools":[],"resources":[],"nextCursor":"n"}"#,
    r#""result":{"tools":[{"name":"a","execution":{"taskSupport":"required"}}],"contents":[]}"#,
    r#""result":{"resultType":"input_required","inputRequests":{"e":{"method":"elicitation/create"},"r":{"method":"roots/list"}},"requestState":"s"}"#,
    r#""result":{"resultType":"input_required","requestState":"s"}"#,
    r#""result":{"resultType":"task","taskId":"k","status":"working","pollIntervalMs":1}"#,
    r#""result":{"taskId":"k","status":"input_required","inputRequests":{"e":{"method":"elicitation/create"}}}"#,
    r#""result":{"taskId":"k","status":"completed","result":{"content":[]}}"#,
    r#""result":{"task":{"taskId":"k"}}"#,
    r#""error":{"code":-32020,"message":"m"}"#,
    r#""error":{"code":-32601,"message":"m"}"#,
    r#""result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"resources":{"subscribe":true}}}"#,
];

fn losses() -> [Loss; 4] {
    [Loss::Unsent("no way there".into()), Loss::Broken, Loss::Session, Loss::Status(500)]
}

#[derive(Debug, Clone)]
enum Step {
    Call(usize),
    Hear(u64, usize),
    Ask(u64, usize),
    Acknowledge(u64),
    Lose(u64, usize),
    Cancel(u64),
    Answer(prop::sample::Index, bool),
    Unwatch,
    Wake,
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0usize..5).prop_map(Step::Call),
        6 => (0u64..24, 0..ANSWERS.len()).prop_map(|(id, answer)| Step::Hear(id, answer)),
        1 => (0u64..24, 0usize..3).prop_map(|(lane, method)| Step::Ask(lane, method)),
        1 => (0u64..24).prop_map(Step::Acknowledge),
        3 => (0u64..24, 0..losses().len()).prop_map(|(lane, loss)| Step::Lose(lane, loss)),
        1 => (1u64..16).prop_map(Step::Cancel),
        3 => (any::<prop::sample::Index>(), any::<bool>()).prop_map(|(at, good)| Step::Answer(at, good)),
        1 => Just(Step::Unwatch),
        2 => Just(Step::Wake),
    ]
}

fn operation(choice: usize) -> Operation<'static> {
    match choice {
        0 => Operation::ListTools,
        1 => Operation::ReadResource("a:b".into()),
        2 => Operation::Watch("a:b".into()),
        _ => bare_call("a"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn every_call_has_exactly_one_outcome(
        stateless: bool, exchanges: bool, steps in proptest::collection::vec(steps(), 0..40)
    ) {
        let names = ["elicitation", "roots", "extensions", "extensions.io.modelcontextprotocol/tasks"];
        let provides = names.map(|name| (Capability::named(name), None)).to_vec();
        let version = if stateless { STATELESS } else { "2025-11-25" };
        let setup = ClientSetup { provides, exchanges, listen: true, ..client_setup(version) };
        let tasks = r#","tasks":{"cancel":{},"requests":{"tools":{"call":{}}}}}"#;
        let mut hand = opened_with(setup, &format!("{}{tasks}", EVERYTHING.strip_suffix('}').unwrap()));
        let (mut calls, mut questions) = (0, Vec::new());
        for step in &steps {
            match *step {
                Step::Call(choice) => {
                    calls += 1;
                    hand.calls(calls, operation(choice));
                }
                Step::Hear(id, answer) => {
                    let lane = if exchanges { id } else { 0 };
                    hand.hears_on(lane, &format!(r#"{{"jsonrpc":"2.0","id":{id},{}}}"#, ANSWERS[answer]));
                }
                Step::Ask(lane, method) => {
                    let method = ["roots/list", "elicitation/create", "ping"][method];
                    hand.hears_on(lane, &request(&lane.to_string(), method, "{}"));
                }
                Step::Acknowledge(id) => hand.hears(&format!(
                    r#"{{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{{"_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}}}}}}"#
                )),
                Step::Lose(lane, loss) => hand.loses(lane, losses()[loss].clone()),
                Step::Cancel(call) => hand.cancels(call),
                Step::Answer(at, good) if !questions.is_empty() => {
                    let question = questions.swap_remove(at.index(questions.len()));
                    let bad = Failure::new(FailureKind::Unanswered, "no");
                    hand.answers(question, if good { Ok(json::raw("{}".to_owned())) } else { Err(bad) });
                }
                Step::Unwatch => hand.step(|client, ambient, heard| client.unwatch("a:b", ambient, heard)),
                Step::Wake if hand.has_deadline() => {
                    hand.wakes();
                }
                Step::Answer(..) | Step::Wake => {}
            }
            questions.extend(hand.take_asked().into_iter().map(|(id, ..)| id));
        }
        hand.step(|client, ambient, heard| client.handle_disconnect(ambient, heard));
        for call in 1..=calls {
            let outcomes = hand.events.iter().filter(|event| matches!(event, Event::Answered(id, _) if id.0 == call));
            prop_assert_eq!(outcomes.count(), 1, "outcomes of call {} of {}: {:#?}", call, calls, steps);
        }
    }
}
