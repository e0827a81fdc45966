//! Tests of turns as in the recordings of loaf, in memory.

use std::collections::VecDeque;

use gladhand_agent_tools::{Guarded, GuardedPath, RunResult};
use gladhand_core::wire::json;
use gladhand_models::{HistoryItem, ModelError, Piece, Segment, Thinking};
use serde_json::Value;

use super::requests::Sent;
use super::*;
use crate::moment::Moment;
use crate::payloads::{CompactionReport, PendingImage};

/// A session with a simulated driver.
pub(super) struct Stage {
    pub(super) session: Session,
    pub(super) events: Vec<(String, Value)>,
    pub(super) jobs: VecDeque<Job>,
    pub(super) reports: Vec<Result<CompactionReport, String>>,
    pub(super) cancelled: usize,
    pub(super) last_message: u64,
    pub(super) ids: u64,
    pub(super) debug: bool,
    pub(super) provider: String,
    pub(super) window: u64,
    /// Whether decisions on calls are separate jobs for the test. Otherwise they are made immediately.
    pub(super) decides_later: bool,
}

impl Stage {
    pub(super) fn new() -> Self {
        Self::named("s")
    }

    pub(super) fn named(id: &str) -> Self {
        Self {
            session: Session::new(id.to_owned(), None, Moment(0)),
            events: Vec::new(),
            jobs: VecDeque::new(),
            reports: Vec::new(),
            cancelled: 0,
            last_message: 0,
            ids: 0,
            debug: false,
            provider: "openrouter".to_owned(),
            window: 32_000,
            decides_later: false,
        }
    }

    pub(super) fn step<T>(&mut self, act: impl FnOnce(&mut Session, &mut StepContext<'_>) -> T) -> T {
        let (ids, session) = (&mut self.ids, self.session.id.clone());
        let mut new_id = || {
            *ids += 1;
            format!("{session}-{ids}")
        };
        let tools = ToolTotals { count: 1, units: 40 };
        let mut context = StepContext {
            now: Moment(1000),
            last_message: &mut self.last_message,
            new_id: &mut new_id,
            request_sizes: RequestSizes { provider: Some(self.provider.clone()), pinned: 1559, tools },
            debug: self.debug,
            effects: Vec::new(),
        };
        let result = act(&mut self.session, &mut context);
        for effect in context.effects {
            match effect {
                Effect::Emit(event) => {
                    let payload =
                        serde_json::from_str(event.payload.get()).unwrap_or_else(|_| event.payload.get().into());
                    self.events.push((event.kind.to_owned(), payload));
                }
                Effect::Do(job) => self.jobs.push_back(job),
                Effect::Report(report) => self.reports.push(report),
                Effect::Cancel => self.cancelled += 1,
                Effect::Keep(_) | Effect::Journal(..) | Effect::Ended => {}
            }
        }
        assert!(self.jobs.len() <= 1, "expected one job at a time: {:?}", self.jobs);
        if !self.decides_later && matches!(self.jobs.front(), Some(Job::Decide(_))) {
            self.work("");
        }
        result
    }

    pub(super) fn target(&self) -> Target {
        Target {
            provider: self.provider.clone(),
            model: "acme/plain-1".to_owned(),
            thinking: Thinking::Off,
            routing: "any".to_owned(),
            window: self.window,
        }
    }

    pub(super) fn send(&mut self, text: &str, enqueue: bool) -> Result<Sent, String> {
        let prompt = Prompt { text: text.to_owned(), images: Vec::new(), enqueue };
        self.step(|session, context| session.send(prompt, context)).map_err(|failure| failure.message)
    }

    /// Ends the pending job normally. A round ends with this answer.
    pub(super) fn work(&mut self, answer: &str) {
        let target = self.target();
        match self.jobs.pop_front() {
            None => {}
            Some(Job::Prepare { .. }) => {
                let prepared = Prepared { target, images: Vec::new(), skills: Vec::new(), unsaved: None };
                self.step(|session, context| session.prepared(Ok(prepared), context));
            }
            Some(Job::Begin) => self.step(|session, context| session.begin(context)),
            Some(Job::Summarise { .. }) => {
                self.step(|session, context| session.summarised(Ok("SUMMARY TEXT".to_owned()), context));
            }
            Some(Job::Round { .. }) => {
                let piece = Piece { segments: vec![Segment::Answer(answer.to_owned())], thoughts: Vec::new() };
                self.step(|session, context| session.piece_received(&piece, context));
                self.step(|session, context| session.round_ended(Ok(Vec::new()), context));
            }
            Some(Job::Decide(call)) => self.step(|session, context| session.call_decided(call, context)),
            Some(Job::Run(_)) => {
                let ran = RunResult { ok: true, output: json::to_raw("done"), error: None };
                self.step(|session, context| session.tool_ended(ran, context));
            }
            Some(Job::Save(_)) => self.step(|session, context| session.saved(Ok(()), context)),
        }
    }

    /// Ends jobs until a round is pending.
    pub(super) fn work_to_round(&mut self) {
        while !self.jobs.is_empty() && !matches!(self.jobs.front(), Some(Job::Round { .. })) {
            self.work("");
        }
    }

    pub(super) fn work_to_end(&mut self, answer: &str) {
        while !self.jobs.is_empty() {
            self.work(answer);
        }
    }

    /// All events so far in short form: kinds, with labels and texts.
    pub(super) fn transcript(&mut self) -> Vec<String> {
        let short = |(kind, payload): (String, Value)| {
            let kind = kind.strip_prefix("session.").map_or(kind.as_str(), |rest| rest).to_owned();
            let text = |pointer: &str| payload.pointer(pointer).and_then(Value::as_str).map(Into::into);
            let detail: Option<String> = match &*kind {
                "status" => text("/status_label").map(|label: String| match text("/turn_id") {
                    Some(turn) => format!("{label} @{turn}"),
                    None => label,
                }),
                "message.appended" => text("/message/text"),
                "stream.chunk" => text("/chunk/answerText"),
                "error" | "compaction.failed" => text("/message"),
                "tool.call.started" => text("/data/call/name"),
                "debug" => text("/stage"),
                _ => text("/decision"),
            };
            match detail {
                Some(detail) => format!("{kind} {detail}"),
                None => kind,
            }
        };
        std::mem::take(&mut self.events).into_iter().map(short).collect()
    }
}

pub(super) fn wanted(id: &str, verdict: Verdict) -> Wanted {
    Wanted {
        tool: ToolIdentity::Agent { name: "bash".to_owned(), edition: 0 },
        provider_name: "bash".to_owned(),
        call_id: id.to_owned(),
        input: json::raw("{}".to_owned()),
        is_too_deep: false,
        provider_signature: None,
        effect: "runs",
        guarded_paths: Vec::new(),
        verdict,
    }
}

#[test]
fn events_of_two_turns_have_the_recorded_order() {
    let mut stage = Stage::new();
    stage.send("  hi  ", false).unwrap();
    stage.work("");
    assert_eq!(stage.transcript(), ["status preparing... @s-1"], "the caller gets its answer at this point");
    stage.work_to_end("Hello there.");
    let expected = [
        "status drafting response... @s-1",
        "message.appended hi",
        "context.estimate",
        "status drafting response...",
        "stream.chunk Hello there.",
        "message.appended Hello there.",
        "context.estimate",
        "completed",
        "status ready",
    ];
    assert_eq!(stage.transcript(), expected);
    stage.send("again", false).unwrap();
    stage.work_to_end("Second answer.");
    let events = stage.transcript();
    assert_eq!(
        events[..3],
        ["status preparing... @s-3", "status compressing context... @s-3", "status drafting response... @s-3"]
    );
    let state: Value = stage.step(|session, context| serde_json::from_str(session.state(context).get()).unwrap());
    assert_eq!(state["contextTokenBreakdown"]["conversation_tokens"], 90);
    assert_eq!(state["messages"][3], serde_json::json!({"id": 4, "kind": "assistant", "text": "Second answer."}));
}

#[test]
fn payloads_equal_the_recordings_byte_for_byte() {
    let mut stage = Stage::named("6d1d");
    stage.send("hi", false).unwrap();
    stage.work_to_round();
    let raw = stage.step(|session, context| {
        session.piece_received(
            &Piece { segments: vec![Segment::Answer("Hello there.".to_owned())], thoughts: Vec::new() },
            context,
        );
        let events = context.effects.iter().map(|effect| match effect {
            Effect::Emit(event) => event.payload.get().to_owned(),
            other => panic!("unexpected effect: {other:?}"),
        });
        events.collect::<Vec<_>>()
    });
    let expected = [
        r#"{"session_id":"6d1d","pending":true,"status_label":"drafting response..."}"#,
        r#"{"session_id":"6d1d","turn_id":"6d1d-1","chunk":{"thoughts":[],"answerText":"Hello there.","segments":[{"kind":"answer","text":"Hello there."}]}}"#,
    ];
    assert_eq!(raw, expected);
    let state = stage.step(|session, context| session.state(context));
    let start = r#"{"id":"6d1d","createdAt":"1970-01-01T00:00:00.000Z","updatedAt":"1970-01-01T00:00:01.000Z","pending":true,"statusLabel":"drafting response...","messages":[{"id":1,"kind":"user","text":"hi"}],"history":[],"queue":[],"pendingSteerCount":0,"conversationProvider":null,"activeSessionId":"6d1d-2","contextTokenEstimate":"#;
    assert!(state.get().starts_with(start), "{state}");
}

#[test]
fn the_queue_continues_after_ready() {
    let mut stage = Stage::new();
    stage.send("one", false).unwrap();
    assert_eq!(stage.send("busy", false).unwrap_err(), "session is busy; use enqueue=true to queue the prompt");
    let sent = stage.send("two", true).unwrap();
    assert!(sent.queued);
    stage.work_to_end("x");
    let events = stage.transcript();
    assert_eq!(events[1], "status queued (1)");
    let ready = events.iter().position(|line| line == "status ready").unwrap();
    assert_eq!(events[ready + 1], format!("status preparing... @{}", sent.turn_id));
    assert_eq!(events.iter().filter(|line| *line == "completed").count(), 2);
}

#[test]
fn steering_is_applied_between_rounds_and_late_messages_are_counted() {
    let mut stage = Stage::new();
    assert!(!stage.session.steer("nobody listens"));
    stage.send("start", false).unwrap();
    stage.work_to_round();
    assert!(stage.session.steer("  use plan B  ") && stage.session.steer("and hurry"));
    stage.jobs.clear();
    stage.step(|session, context| session.round_ended(Ok(vec![wanted("c1", Verdict::Run)]), context));
    stage.transcript();
    stage.work("");
    let expected = [
        "tool.call.completed",
        "tool.results",
        "context.estimate",
        "message.appended use plan B",
        "message.appended and hurry",
        "status steer applied; continuing...",
    ];
    assert_eq!(stage.transcript(), expected);
    stage.session.steer("too late");
    stage.work_to_end("adjusted");
    assert_eq!(
        stage.transcript().last().unwrap(),
        "message.appended 1 steer message(s) were queued too late and not applied."
    );
    assert_eq!(stage.session.history.messages().len(), 4);
}

#[test]
fn an_answer_lists_its_parts_between_tool_calls() {
    let mut stage = Stage::new();
    stage.send("go", false).unwrap();
    stage.work_to_round();
    let piece = Piece { segments: vec![Segment::Answer("Let me look.".to_owned())], thoughts: Vec::new() };
    stage.step(|session, context| session.piece_received(&piece, context));
    stage.jobs.clear();
    stage.step(|session, context| session.round_ended(Ok(vec![wanted("c1", Verdict::Run)]), context));
    stage.work_to_end("Two lines.");
    let answer = &stage.events.iter().rfind(|(kind, _)| kind == "session.message.appended").unwrap().1["message"];
    let segments = ["Let me look.", "Two lines."];
    let expected = serde_json::json!({"id": 2, "kind": "assistant", "text": segments.concat(), "segments": segments});
    assert_eq!(*answer, expected);
}

#[test]
fn an_interrupt_before_the_first_byte_keeps_the_prompt() {
    let mut stage = Stage::new();
    stage.send("start", false).unwrap();
    stage.work_to_round();
    stage.transcript();
    assert!(stage.step(|session, context| session.interrupt(context)));
    assert!(!stage.step(|session, context| session.interrupt(context)));
    assert_eq!(stage.cancelled, 1);
    stage.jobs.clear();
    stage.step(|session, context| session.round_ended(Err(ModelError::Cancelled), context));
    stage.work_to_end("");
    let expected =
        ["status interrupting...", "message.appended response interrupted by user.", "interrupted", "status ready"];
    assert_eq!(stage.transcript(), expected);
    assert_eq!(stage.session.history.messages()[0].text, "start");
}

#[test]
fn an_interrupt_in_the_last_tool_of_a_round_sends_the_results_first() {
    let mut stage = Stage::new();
    stage.send("start", false).unwrap();
    stage.work_to_round();
    let piece = Piece { segments: vec![Segment::Answer("Starting. ".to_owned())], thoughts: Vec::new() };
    stage.step(|session, context| session.piece_received(&piece, context));
    stage.jobs.clear();
    stage.step(|session, context| session.round_ended(Ok(vec![wanted("c1", Verdict::Run)]), context));
    stage.step(|session, context| session.interrupt(context));
    stage.transcript();
    stage.jobs.clear();
    let ran = RunResult { ok: false, output: json::to_raw("x"), error: Some("process aborted".to_owned()) };
    stage.step(|session, context| session.tool_ended(ran, context));
    stage.work_to_end("");
    let expected = [
        "tool.call.completed",
        "tool.results",
        "context.estimate",
        "context.estimate",
        "message.appended Starting.",
        "context.estimate",
        "message.appended response interrupted by user. partial output kept.",
        "interrupted",
        "status ready",
    ];
    assert_eq!(stage.transcript(), expected);
}

#[test]
fn a_failed_turn_does_not_change_the_history() {
    let mut stage = Stage::new();
    stage.send("a", false).unwrap();
    stage.work_to_round();
    stage.transcript();
    stage.jobs.clear();
    let error = ModelError::Status { status: 401, message: "No auth credentials found".to_owned() };
    stage.step(|session, context| session.round_ended(Err(error), context));
    let expected = [
        "message.appended inference error: 401 No auth credentials found",
        "context.estimate",
        "error 401 No auth credentials found",
        "status ready",
    ];
    assert_eq!(stage.transcript(), expected);
    assert!(!stage.session.has_history() && !stage.session.is_busy());
}

#[test]
fn a_conversation_that_became_too_long_is_compacted_and_continued() {
    let mut stage = Stage::new();
    stage.send("long", false).unwrap();
    stage.work_to_round();
    stage.transcript();
    stage.jobs.clear();
    let error = ModelError::Failed("This model's maximum context length is 8000".to_owned());
    stage.step(|session, context| session.round_ended(Err(error), context));
    while !matches!(stage.jobs.front(), Some(Job::Prepare { .. })) {
        stage.work("");
    }
    let events = stage.transcript();
    let expected = [
        "context.estimate",
        "status compressing context... @s-1",
        "compaction.started",
        "compaction.anchor_selected",
        "compaction.summary_merged",
        "compaction.completed",
        "context.estimate",
        "message.appended context overflow detected; compressed context (1,580 -> 1,588 est. tokens). continuing...",
        "status ready",
        "status preparing... @s-3",
    ];
    assert_eq!(events, expected);
    stage.work_to_end("on we go");
    assert_eq!(stage.transcript().iter().filter(|line| *line == "completed").count(), 1);
}

#[test]
fn a_failed_overflow_compaction_follows_the_inference_error() {
    let mut stage = Stage::new();
    stage.send("long", false).unwrap();
    stage.work_to_round();
    stage.transcript();
    stage.jobs.clear();
    let error = ModelError::Failed("This model's maximum context length is 8000".to_owned());
    stage.step(|session, context| session.round_ended(Err(error), context));
    while !matches!(stage.jobs.front(), Some(Job::Summarise { .. })) {
        stage.work("");
    }
    stage.jobs.clear();
    stage.step(|session, context| session.summarised(Err("503 overloaded".to_owned()), context));
    let expected = [
        "context.estimate",
        "status compressing context... @s-1",
        "compaction.started",
        "compaction.failed 503 overloaded",
        "message.appended inference error: This model's maximum context length is 8000",
        "message.appended auto-compression failed: context compaction failed: 503 overloaded",
        "error context compaction failed: 503 overloaded",
        "status ready",
    ];
    assert_eq!(stage.transcript(), expected);
}

#[test]
fn compress_sends_the_recorded_events() {
    let mut stage = Stage::new();
    stage.send("question one", false).unwrap();
    stage.work_to_end("answer one");
    stage.transcript();
    let target = stage.target();
    stage.step(|session, context| session.compress(target, context)).unwrap();
    stage.work_to_end("");
    let expected = [
        "status compressing context...",
        "compaction.started",
        "compaction.anchor_selected",
        "compaction.summary_merged",
        "compaction.completed",
        "context.estimate",
        "message.appended context compression complete: 1,605 -> 1,588 est. tokens.",
        "status ready",
    ];
    assert_eq!(stage.transcript(), expected);
    let report = json::to_raw(stage.reports[0].as_ref().unwrap());
    let expected = r#"{"compressed":true,"reason":"manual","estimated_tokens_before":1605,"estimated_tokens_after":1588,"model_context_window":32000,"target_limit":23680,"anchor_event_index_before":0,"anchor_event_index_after":0}"#;
    assert_eq!(report.get(), expected);
}

#[test]
fn another_provider_gets_a_summary_of_the_conversation() {
    let mut stage = Stage::new();
    stage.send("hi", false).unwrap();
    stage.work_to_end("from openrouter");
    stage.transcript();
    (stage.provider, stage.window) = ("openai".to_owned(), 100_000);
    stage.send("continue", false).unwrap();
    stage.work_to_end("from openai");
    let events = stage.transcript();
    assert_eq!(events[2], "compaction.started");
    assert_eq!(
        events[7],
        "message.appended provider switched: openrouter -> openai. context compressed (1,604 -> 1,588 est. tokens)."
    );
}

#[test]
fn a_call_waits_for_approval() {
    let mut stage = Stage::new();
    stage.send("go", false).unwrap();
    stage.work_to_round();
    stage.transcript();
    stage.jobs.clear();
    let calls = vec![wanted("c1", Verdict::Ask), wanted("c2", Verdict::Ask)];
    stage.step(|session, context| session.round_ended(Ok(calls), context));
    assert_eq!(stage.transcript(), ["approval.requested"]);
    assert!(
        !stage.step(|session, context| session.decide("c2", true, false, context)),
        "the turn waits for the decision on c1"
    );
    assert!(stage.step(|session, context| session.decide("c1", true, true, context)));
    stage.work("");
    let expected = [
        "approval.resolved allow",
        "tool.call.started bash",
        "context.estimate",
        "tool.call.completed",
        "tool.call.started bash",
        "context.estimate",
    ];
    assert_eq!(stage.transcript(), expected, "the second call is allowed together with the first");
}

/// Ends the pending round with these calls.
fn call_tools(stage: &mut Stage, calls: Vec<Wanted>) {
    stage.work_to_round();
    stage.jobs.clear();
    stage.step(|session, context| session.round_ended(Ok(calls), context));
}

/// The id of the call that waits for approval.
fn asked_about(stage: &Stage) -> String {
    let asked = stage.events.iter().rfind(|(kind, _)| kind == "session.approval.requested");
    asked.map(|(_, payload)| payload["call_id"].as_str().unwrap().to_owned()).expect("a call waits for approval")
}

#[test]
fn calls_with_the_same_id_are_approved_one_by_one() {
    let mut stage = Stage::new();
    stage.send("go", false).unwrap();
    call_tools(&mut stage, vec![wanted("c1", Verdict::Ask), wanted("c1", Verdict::Ask)]);
    assert!(stage.step(|session, context| session.decide("c1", true, false, context)));
    stage.work("");
    assert!(
        !stage.step(|session, context| session.decide("c1", true, false, context)),
        "c1 is the first call, which was already decided"
    );
    let second = asked_about(&stage);
    assert_ne!(second, "c1");
    assert!(stage.step(|session, context| session.decide(&second, true, false, context)));
    stage.work("");
    // Calls and results have the ids that clients see.
    let Some(Job::Round { history, .. }) = stage.jobs.front() else { panic!("{:?}", stage.jobs) };
    let ids = |item: &HistoryItem| match item {
        HistoryItem::Assistant { calls, .. } => calls.iter().map(|call| call.call_id.clone()).collect(),
        HistoryItem::Result { call_id, .. } => vec![call_id.clone()],
        HistoryItem::User { .. } => Vec::new(),
    };
    assert_eq!(history.iter().flat_map(ids).collect::<Vec<_>>(), ["c1", &second, "c1", &second]);
}

#[test]
fn a_late_decision_does_not_approve_a_call_of_a_later_round_or_turn() {
    let mut stage = Stage::new();
    for turn in 0..2 {
        stage.send("go", false).unwrap();
        for round in 0..2 {
            call_tools(&mut stage, vec![wanted("c1", Verdict::Ask)]);
            let late = stage.step(|session, context| session.decide("c1", true, false, context));
            assert_eq!(late, (turn, round) == (0, 0), "turn {turn}, round {round}");
            let asked = asked_about(&stage);
            stage.step(|session, context| session.decide(&asked, true, false, context));
            stage.work("");
        }
        stage.work_to_end("done");
    }
}

#[test]
fn a_turn_ends_at_its_limit_of_bytes() {
    let mut stage = Stage::new();
    stage.send("go", false).unwrap();
    let mut results = 0;
    while stage.session.is_busy() {
        call_tools(&mut stage, vec![wanted("c", Verdict::Run)]);
        stage.jobs.clear();
        let output = json::to_raw(&"x".repeat(512 * 1024));
        stage.step(|session, context| session.tool_ended(RunResult { ok: true, output, error: None }, context));
        if let Some(Job::Round { history, .. }) = stage.jobs.front() {
            let Some(HistoryItem::Result { output, .. }) = history.last() else {
                panic!("the last item must be a result")
            };
            assert!(output.get().len() < 263_000 && output.get().contains("[cut: "));
        } else {
            stage.work_to_end("");
        }
        results += 1;
    }
    assert_eq!(results, 64, "16 MiB of results with 256 KiB each");
    let limit = "the turn ended at its limit of 16 MiB of replies, calls and tool results";
    let events = stage.transcript();
    assert_eq!(events[events.len() - 2..], [format!("error {limit}"), "status ready".to_owned()]);
    assert!(events.contains(&format!("message.appended {limit}")));
    assert_eq!(stage.session.history.messages()[0].text, "go", "the prompt stays in the history");
}

#[test]
fn arguments_count_for_the_limit_of_a_turn() {
    let mut stage = Stage::new();
    stage.send("go", false).unwrap();
    let input = json::to_raw(&serde_json::json!({"x": "y".repeat(17 * 1024 * 1024)}));
    call_tools(&mut stage, vec![Wanted { input, ..wanted("c", Verdict::Run) }]);
    assert!(matches!(stage.jobs.front(), Some(Job::Save(_))), "the call must not run: {:?}", stage.jobs);
}

#[test]
fn a_turn_ends_at_its_limit_of_requests() {
    let mut stage = Stage::new();
    stage.send("go", false).unwrap();
    let mut rounds = 0;
    while stage.session.is_busy() {
        call_tools(&mut stage, vec![wanted("c", Verdict::Run)]);
        stage.work("");
        rounds += 1;
        if matches!(stage.jobs.front(), Some(Job::Save(_))) {
            stage.work("");
        }
    }
    assert_eq!(rounds, 500);
    let limit = "error the turn ended at its limit of 500 requests to the model";
    assert!(stage.transcript().contains(&limit.to_owned()));
}

#[test]
fn an_approval_request_gives_a_reason_for_each_path() {
    let place = |path: &str, why| GuardedPath { path: path.into(), why };
    let guarded_paths = vec![
        place("/etc/hosts", Guarded::Outside),
        place("/srv/.git/hooks/pre-commit", Guarded::Steering),
        place("/srv/.env", Guarded::Secret),
    ];
    let reason = Wanted { guarded_paths, ..wanted("c1", Verdict::Ask) }.reason();
    let expected = "/etc/hosts is outside of the workspace; /srv/.git/hooks/pre-commit decides which programs run; \
                    /srv/.env may hold secrets";
    assert_eq!(reason.as_deref(), Some(expected));
    assert_eq!(wanted("c1", Verdict::Ask).reason(), None);
}

fn of_hub(upstream: &str) -> ToolIdentity {
    ToolIdentity::Hub { name: "bash".to_owned(), upstream: upstream.to_owned(), own: "bash".to_owned() }
}

#[test]
fn a_decision_for_the_session_covers_only_that_tool_and_path() {
    let secret = GuardedPath { path: "/home/u/.ssh/key".into(), why: Guarded::Secret };
    let first = wanted("c1", Verdict::Ask);
    let made_again = ToolIdentity::Agent { name: "bash".to_owned(), edition: 1 };
    let others = [
        Wanted { tool: made_again, ..wanted("c2", Verdict::Ask) },
        Wanted { tool: of_hub("a"), ..wanted("c2", Verdict::Ask) },
        Wanted { guarded_paths: vec![secret.clone()], ..wanted("c2", Verdict::Ask) },
    ];
    let pairs = others.map(|other| (first.clone(), other)).into_iter();
    let taken_over = ["a", "b"].map(|upstream| Wanted { tool: of_hub(upstream), ..wanted("c1", Verdict::Ask) });
    let [by_a, by_b] = taken_over;
    let by_b = Wanted { call_id: "c2".to_owned(), ..by_b };
    for (first, other) in pairs.chain([(by_a, by_b)]) {
        let mut stage = Stage::new();
        stage.send("go", false).unwrap();
        stage.work_to_round();
        stage.jobs.clear();
        stage.step(|session, context| session.round_ended(Ok(vec![first, other]), context));
        assert!(stage.step(|session, context| session.decide("c1", true, true, context)));
        stage.events.clear();
        stage.work("");
        assert_eq!(stage.transcript().last().map(String::as_str), Some("approval.requested"));
        assert!(
            stage.step(|session, context| session.decide("c2", true, false, context)),
            "the second call needs its own approval"
        );
    }
}

#[test]
fn each_call_of_a_reply_is_decided_when_it_is_the_next_one() {
    let mut stage = Stage { decides_later: true, ..Stage::new() };
    stage.send("go", false).unwrap();
    stage.work_to_round();
    stage.jobs.clear();
    let calls = vec![wanted("c1", Verdict::Run), wanted("c2", Verdict::Run)];
    stage.step(|session, context| session.round_ended(Ok(calls), context));
    stage.work("");
    stage.work("");
    stage.transcript();
    let Some(Job::Decide(second)) = stage.jobs.pop_front() else { panic!("{:?}", stage.jobs) };
    let denied = Wanted { verdict: Verdict::Refuse("not any more".to_owned()), ..second };
    stage.step(|session, context| session.call_decided(denied, context));
    assert!(
        matches!(stage.jobs.front(), Some(Job::Round { number: 2, .. })),
        "the call must not run: {:?}",
        stage.jobs
    );
}

#[test]
fn a_turn_whose_step_panics_ends_and_the_session_continues() {
    for is_lost in [false, true] {
        let mut stage = Stage::new();
        stage.send("go", false).unwrap();
        stage.work_to_round();
        stage.transcript();
        stage.jobs.clear();
        let turn = stage.session.turn_id().map(ToOwned::to_owned);
        if is_lost {
            stage.session.activity = state::Activity::Idle;
        }
        stage.step(|session, context| session.step_panicked(turn, context));
        assert_eq!(stage.transcript(), ["error the turn failed unexpectedly", "status ready"]);
        stage.send("again", false).unwrap();
        stage.work_to_end("Here.");
        assert_eq!(stage.transcript().pop().as_deref(), Some("status ready"));
    }
}

#[test]
fn calls_and_results_may_be_json_that_cannot_be_parsed() {
    let deep = format!("{}1{}", "{\"a\":".repeat(400), "}".repeat(400));
    for odd in [&*deep, r#"{"a":1e999}"#, r#"{"a":"\ud800"}"#] {
        let raw = || json::raw(odd.to_owned());
        let mut stage = Stage::new();
        stage.send("go", false).unwrap();
        stage.work_to_round();
        stage.jobs.clear();
        let call = Wanted { input: raw(), ..wanted("c1", Verdict::Run) };
        stage.step(|session, context| session.round_ended(Ok(vec![call]), context));
        stage.jobs.clear();
        stage.step(|session, context| session.tool_ended(RunResult { ok: true, output: raw(), error: None }, context));
        assert!(matches!(stage.jobs.front(), Some(Job::Round { number: 2, .. })), "{:?}", stage.jobs);
    }
}

#[test]
fn the_result_of_a_refused_call_gives_the_model_the_reason() {
    let mut stage = Stage::new();
    stage.send("go", false).unwrap();
    stage.work_to_round();
    stage.jobs.clear();
    stage.step(|session, context| session.round_ended(Ok(vec![wanted("c1", Verdict::Ask)]), context));
    stage.events.clear();
    stage.step(|session, context| session.approvers_left(context));
    let completed = &stage.events.iter().find(|(kind, _)| kind == "session.tool.call.completed").unwrap().1;
    assert_eq!(completed["data"]["executed"]["error"], approval::no_approver(&wanted("c1", Verdict::Ask)));
    assert!(matches!(stage.jobs.front(), Some(Job::Round { number: 2, .. })));
}

#[test]
fn clearing_stops_the_turn_and_keeps_nothing_of_it() {
    let mut stage = Stage::new();
    stage.send("start", false).unwrap();
    stage.work_to_round();
    stage.transcript();
    assert!(stage.step(|session, context| session.clear(context)));
    stage.jobs.clear();
    stage.step(|session, context| session.round_ended(Err(ModelError::Cancelled), context));
    assert_eq!(stage.transcript(), ["status interrupting...", "interrupted", "status ready"]);
    assert!(!stage.session.has_history() && stage.session.message_count() == 0);
}

#[test]
fn a_turn_that_cannot_run_ends_at_once() {
    let mut stage = Stage::new();
    let images = vec![PendingImage::default()];
    stage.step(|session, context| session.send(Prompt { images, ..Prompt::default() }, context)).unwrap();
    stage.jobs.clear();
    let problem = NotReady::BadImage("file not found: /x.png".to_owned());
    stage.step(|session, context| session.prepared(Err(problem), context));
    let expected = [
        "status preparing... @s-1",
        "message.appended inference error: file not found: /x.png",
        "error file not found: /x.png",
        "status ready",
    ];
    assert_eq!(stage.transcript(), expected);
}

#[test]
fn a_failed_save_is_noted_and_the_turn_completes() {
    let mut stage = Stage::new();
    stage.send("hi", false).unwrap();
    while !matches!(stage.jobs.front(), Some(Job::Save(_))) {
        stage.work("yes");
    }
    stage.transcript();
    stage.jobs.clear();
    stage.step(|session, context| session.saved(Err("no space left on device".to_owned()), context));
    let expected = ["message.appended chat history save failed: no space left on device", "completed", "status ready"];
    assert_eq!(stage.transcript(), expected);
}

#[test]
fn with_debugging_the_stages_follow_their_events() {
    let mut stage = Stage::new();
    stage.debug = true;
    stage.send("go", false).unwrap();
    stage.work_to_round();
    stage.jobs.clear();
    stage.step(|session, context| session.round_ended(Ok(vec![wanted("c1", Verdict::Run)]), context));
    stage.transcript();
    stage.work_to_end("done");
    let expected = [
        "tool.call.completed",
        "debug tool_call_completed",
        "tool.results",
        "debug tool_results",
        "context.estimate",
        "status drafting response...",
        "stream.chunk done",
        "debug response_final",
        "message.appended done",
        "context.estimate",
        "completed",
        "status ready",
    ];
    assert_eq!(stage.transcript(), expected);
}
