//! Property tests: for any order of client, model and tool actions, each turn ends once and events keep their
//! order.

use std::collections::HashMap;

use gladhand_agent_tools::RunResult;
use gladhand_core::wire::json;
use gladhand_models::{ModelError, Piece, Segment};
use proptest::prelude::*;
use serde_json::Value;

use super::tests::{Stage, wanted};
use super::*;

/// An event in one of the sessions.
#[derive(Debug, Clone)]
enum Happening {
    Send {
        enqueue: bool,
    },
    Steer,
    Interrupt,
    ClearQueue,
    Clear,
    Compress,
    CompressFor,
    Decide {
        allow: bool,
        always: bool,
    },
    LeftAlone,
    Shut,
    /// The pending job ends, in one of its possible ways.
    Ends(u8),
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        4 => any::<bool>().prop_map(|enqueue| Happening::Send { enqueue }),
        1 => Just(Happening::Steer),
        1 => Just(Happening::Interrupt),
        1 => Just(Happening::ClearQueue),
        1 => Just(Happening::Clear),
        1 => Just(Happening::Compress),
        1 => Just(Happening::CompressFor),
        2 => any::<(bool, bool)>().prop_map(|(allow, always)| Happening::Decide { allow, always }),
        1 => Just(Happening::LeftAlone),
        1 => Just(Happening::Shut),
        12 => any::<u8>().prop_map(Happening::Ends),
    ]
}

/// The number of pending reports for accepted compactions.
#[derive(Default)]
struct Owed(usize);

fn happen(stage: &mut Stage, owed: &mut Owed, action: &Happening) {
    match action {
        Happening::Send { enqueue } => {
            let was_busy = stage.session.is_busy();
            assert_eq!(stage.send("text", *enqueue).is_ok(), !was_busy || *enqueue);
        }
        Happening::Steer => assert_eq!(stage.session.steer("left"), stage.session.has_turn()),
        Happening::Interrupt => {
            let turn = stage.session.turn_id().map(ToOwned::to_owned);
            let stopped = stage.step(|session, context| session.interrupt(context));
            if stopped && turn.as_deref() == stage.session.turn_id() {
                assert!(!stage.step(|session, context| session.interrupt(context)), "a turn is stopped once");
            }
        }
        Happening::ClearQueue => {
            stage.step(|session, context| session.clear_queue(context));
        }
        Happening::Clear => {
            stage.step(|session, context| session.clear(context));
        }
        Happening::Compress => {
            let target = stage.target();
            owed.0 += usize::from(stage.step(|session, context| session.compress(target, context)).is_ok());
        }
        Happening::CompressFor => {
            let target = stage.target();
            owed.0 += usize::from(stage.step(|session, context| session.compress_for(target, context)).is_ok());
        }
        Happening::Decide { allow, always } => {
            let requested = stage.events.iter().rfind(|(kind, _)| kind == "session.approval.requested");
            let id = requested.and_then(|(_, payload)| payload["call_id"].as_str()).unwrap_or("none").to_owned();
            stage.step(|session, context| session.decide(&id, *allow, *always, context));
            let again = stage.step(|session, context| session.decide(&id, *allow, *always, context));
            assert!(!again, "a request is answered once");
        }
        Happening::LeftAlone => stage.step(|session, context| session.approvers_left(context)),
        Happening::Shut => stage.step(|session, context| session.shut_down(context)),
        Happening::Ends(how) => end_job(stage, *how),
    }
}

fn end_job(stage: &mut Stage, how: u8) {
    let target = stage.target();
    let failure = || Err("it broke".to_owned());
    match stage.jobs.front() {
        Some(Job::Prepare { .. }) if how.is_multiple_of(8) => {
            stage.jobs.clear();
            stage.step(|session, context| session.prepared(Err(NotReady::NoModel("no model".to_owned())), context));
        }
        Some(Job::Prepare { .. }) => {
            stage.jobs.clear();
            let unsaved = (how % 8 == 1).then(|| "read only".to_owned());
            let skills = vec!["alpha".to_owned()];
            let prepared = Prepared { target, images: Vec::new(), skills, unsaved };
            stage.step(|session, context| session.prepared(Ok(prepared), context));
        }
        Some(Job::Summarise { .. }) if how.is_multiple_of(3) => {
            stage.jobs.clear();
            stage.step(|session, context| session.summarised(failure(), context));
        }
        Some(Job::Save(_)) if how.is_multiple_of(4) => {
            stage.jobs.clear();
            stage.step(|session, context| session.saved(failure().map(|_| ()), context));
        }
        Some(Job::Run(_)) if how.is_multiple_of(3) => {
            stage.jobs.clear();
            let ran = RunResult { ok: false, output: json::to_raw("no"), error: None };
            stage.step(|session, context| session.tool_ended(ran, context));
        }
        Some(Job::Round { .. }) => end_round(stage, how),
        _ => stage.work(""),
    }
}

fn end_round(stage: &mut Stage, how: u8) {
    for at in 0..how % 3 {
        let segment = if at == 0 { Segment::Thought("**Why**".to_owned()) } else { Segment::Answer("so ".to_owned()) };
        stage.step(|session, context| {
            session.piece_received(&Piece { segments: vec![segment], thoughts: Vec::new() }, context)
        });
    }
    stage.jobs.clear();
    let verdict = |at: u8| match (how >> (at + 3)) % 3 {
        0 => Verdict::Run,
        1 => Verdict::Ask,
        _ => Verdict::Refuse("it is not allowed".to_owned()),
    };
    let ended = match how % 7 {
        0 => Err(ModelError::Failed("context length exceeded".to_owned())),
        1 => Err(ModelError::Unreachable),
        2 | 3 => Ok(Vec::new()),
        _ => Ok((0..=how % 2).map(|at| wanted(&format!("c{}", at + 1), verdict(at))).collect()),
    };
    stage.step(|session, context| session.round_ended(ended, context));
}

/// A busy session waits for one thing; an idle session waits for nothing.
fn is_sound(stage: &Stage) {
    let asks = stage.events.iter().rev().find(|(kind, _)| kind.starts_with("session.approval."));
    let asks = asks.is_some_and(|(kind, _)| kind == "session.approval.requested");
    let waits = usize::from(asks) + stage.jobs.len();
    assert_eq!(waits, usize::from(stage.session.is_busy()), "{:?}", stage.session);
}

/// Checks all events, in order, for the guarantees that clients rely on.
fn check(events: &[(String, Value)]) {
    let mut running: Option<String> = None;
    let mut ended: HashMap<String, usize> = HashMap::new();
    let mut begun_calls = 0i32;
    let mut last_message = 0;
    let mut over = false;
    let mut is_ready = true;
    for (kind, payload) in events {
        let turn = payload.get("turn_id").and_then(Value::as_str);
        if let Some(turn) = turn
            && payload["status_label"] != "preparing..."
        {
            assert_eq!(running.as_deref(), Some(turn), "{kind} belongs to the running turn");
            assert!(!over, "{kind} comes before the end");
        }
        match kind.as_str() {
            "session.status" if payload["status_label"] == "preparing..." => {
                assert!(is_ready, "a turn begins after ready");
                let turn = turn.expect("it has a turn").to_owned();
                assert!(ended.insert(turn.clone(), 0).is_none(), "no turn begins twice");
                (running, over, is_ready) = (Some(turn), false, false);
            }
            "session.status" if payload["status_label"] == "ready" => {
                assert_eq!(payload["pending"], false);
                (running, is_ready) = (None, true);
                begun_calls = 0;
            }
            "session.completed" | "session.interrupted" | "session.error" => {
                *ended.get_mut(turn.expect("it has a turn")).expect("it has begun") += 1;
                over = true;
            }
            "session.tool.call.started" => {
                begun_calls += 1;
                assert_eq!(begun_calls, 1, "one call at a time");
            }
            "session.tool.call.completed" => begun_calls -= 1,
            "session.message.appended" => {
                let id = payload["message"]["id"].as_u64().expect("messages are numbered");
                assert!(id > last_message, "messages are numbered in order");
                last_message = id;
                let text = payload["message"]["text"].as_str().unwrap_or_default();
                if text.starts_with("context overflow detected") && !over {
                    // Another turn continues it. If it was stopped instead, its end is still to come.
                    if let Some(turn) = &running {
                        ended.insert(format!("continued {turn}"), 1);
                    }
                }
            }
            _ => {}
        }
    }
    for (turn, ends) in ended.iter().filter(|(turn, _)| !turn.starts_with("continued")) {
        let continued = ended.contains_key(&format!("continued {turn}"));
        assert!(*ends == 1 || (continued && *ends == 0), "{turn} ended {ends} times");
    }
    assert!(is_ready, "the session must be ready at the end");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn every_turn_ends_once_and_in_order(happenings in prop::collection::vec((0usize..3, happening()), 0..120)) {
        let mut stages = ["a", "b", "c"].map(|id| Stage { decides_later: true, ..Stage::named(id) });
        let mut owed: [Owed; 3] = Default::default();
        for (at, action) in &happenings {
            happen(&mut stages[*at], &mut owed[*at], action);
            is_sound(&stages[*at]);
        }
        for (stage, owed) in stages.iter_mut().zip(owed) {
            // All open work ends normally.
            stage.step(|session, context| session.approvers_left(context));
            let mut steps = 0;
            while stage.session.is_busy() {
                stage.work("the end");
                stage.step(|session, context| session.approvers_left(context));
                steps += 1;
                prop_assert!(steps < 10_000, "the session does not become idle");
            }
            prop_assert_eq!(stage.reports.len(), owed.0, "every compaction is reported once");
            check(&stage.events);
        }
    }
}
