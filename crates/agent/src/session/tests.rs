//! Turns as the recordings show them, in memory.

use std::collections::VecDeque;

use gladhand_models::{ModelError, Piece, Segment, Thinking};
use gladhand_wire::json;
use gladhand_workbench::Ran;
use serde_json::Value;

use super::asked::Sent;
use super::*;
use crate::moment::Moment;
use crate::payloads::{CompactionReport, PendingImage};

/// A session with a world around it that does what it is told.
pub(super) struct Stage {
    pub(super) session: Session,
    pub(super) told: Vec<(String, Value)>,
    pub(super) jobs: VecDeque<Job>,
    pub(super) reports: Vec<Result<CompactionReport, String>>,
    pub(super) cancelled: usize,
    last_message: u64,
    ids: u64,
    pub(super) debug: bool,
    pub(super) provider: String,
    pub(super) window: u64,
}

impl Stage {
    pub(super) fn new() -> Self {
        Self::named("s")
    }

    pub(super) fn named(id: &str) -> Self {
        Self {
            session: Session::new(id.to_owned(), None, Moment(0)),
            told: Vec::new(),
            jobs: VecDeque::new(),
            reports: Vec::new(),
            cancelled: 0,
            last_message: 0,
            ids: 0,
            debug: false,
            provider: "openrouter".to_owned(),
            window: 32_000,
        }
    }

    pub(super) fn step<T>(&mut self, act: impl FnOnce(&mut Session, &mut Scene<'_>) -> T) -> T {
        let (ids, session) = (&mut self.ids, self.session.id.clone());
        let mut new_id = || {
            *ids += 1;
            format!("{session}-{ids}")
        };
        let tools = ToolTotals { count: 1, units: 40 };
        let mut scene = Scene {
            now: Moment(1000),
            last_message: &mut self.last_message,
            new_id: &mut new_id,
            scales: Scales { provider: Some(self.provider.clone()), pinned: 1559, tools },
            debug: self.debug,
            effects: Vec::new(),
        };
        let result = act(&mut self.session, &mut scene);
        for effect in scene.effects {
            match effect {
                Effect::Tell(event) => {
                    let payload = serde_json::from_str(event.payload.get()).expect("payloads are JSON");
                    self.told.push((event.kind.to_owned(), payload));
                }
                Effect::Do(job) => self.jobs.push_back(job),
                Effect::Report(report) => self.reports.push(report),
                Effect::Cancel => self.cancelled += 1,
                Effect::Keep(_) | Effect::Journal(..) | Effect::Ended => {}
            }
        }
        assert!(self.jobs.len() <= 1, "one job at a time: {:?}", self.jobs);
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
        self.step(|session, scene| session.send(prompt, scene)).map_err(|failure| failure.message)
    }

    /// The job that is waited for, done in the ordinary way; a round says this.
    pub(super) fn work(&mut self, answer: &str) {
        let target = self.target();
        match self.jobs.pop_front() {
            None => {}
            Some(Job::Prepare { .. }) => {
                let prepared = Prepared { target, images: Vec::new(), skills: Vec::new(), unsaved: None };
                self.step(|session, scene| session.prepared(Ok(prepared), scene));
            }
            Some(Job::Begin) => self.step(|session, scene| session.begin(scene)),
            Some(Job::Summarise { .. }) => {
                self.step(|session, scene| session.summarised(Ok("SUMMARY TEXT".to_owned()), scene));
            }
            Some(Job::Round { .. }) => {
                let piece = Piece { segments: vec![Segment::Answer(answer.to_owned())], thoughts: Vec::new() };
                self.step(|session, scene| session.heard(&piece, scene));
                self.step(|session, scene| session.round_ended(Ok(Vec::new()), scene));
            }
            Some(Job::Run(_)) => {
                let ran = Ran { ok: true, output: json::to_raw("done"), error: None };
                self.step(|session, scene| session.ran(ran, scene));
            }
            Some(Job::Save(_)) => self.step(|session, scene| session.saved(Ok(()), scene)),
        }
    }

    /// Works until a round is waited for.
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

    /// What was told since, in short: kinds, with labels and texts.
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
        std::mem::take(&mut self.told).into_iter().map(short).collect()
    }
}

pub(super) fn wanted(id: &str, verdict: Verdict) -> Wanted {
    Wanted {
        tool: ToolIdentity::Workbench { name: "bash".to_owned(), edition: 0 },
        provider_name: "bash".to_owned(),
        call_id: id.to_owned(),
        input: json::raw("{}".to_owned()),
        seal: None,
        effect: "runs",
        reach: Vec::new(),
        verdict,
    }
}

#[test]
fn two_turns_are_told_in_the_order_of_the_recordings() {
    let mut stage = Stage::new();
    stage.send("  hi  ", false).unwrap();
    stage.work("");
    assert_eq!(stage.transcript(), ["status preparing... @s-1"], "the answer to the call comes here");
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
    let told = stage.transcript();
    assert_eq!(
        told[..3],
        ["status preparing... @s-3", "status compressing context... @s-3", "status drafting response... @s-3"]
    );
    let state: Value = stage.step(|session, scene| serde_json::from_str(session.state(scene).get()).unwrap());
    assert_eq!(state["contextTokenBreakdown"]["conversation_tokens"], 90);
    assert_eq!(state["messages"][3], serde_json::json!({"id": 4, "kind": "assistant", "text": "Second answer."}));
}

#[test]
fn payloads_are_those_of_the_recordings_to_the_byte() {
    let mut stage = Stage::named("6d1d");
    stage.send("hi", false).unwrap();
    stage.work_to_round();
    let raw = stage.step(|session, scene| {
        session
            .heard(&Piece { segments: vec![Segment::Answer("Hello there.".to_owned())], thoughts: Vec::new() }, scene);
        let told = scene.effects.iter().map(|effect| match effect {
            Effect::Tell(event) => event.payload.get().to_owned(),
            other => panic!("nothing else was to happen: {other:?}"),
        });
        told.collect::<Vec<_>>()
    });
    let expected = [
        r#"{"session_id":"6d1d","pending":true,"status_label":"drafting response..."}"#,
        r#"{"session_id":"6d1d","turn_id":"6d1d-1","chunk":{"thoughts":[],"answerText":"Hello there.","segments":[{"kind":"answer","text":"Hello there."}]}}"#,
    ];
    assert_eq!(raw, expected);
    let state = stage.step(|session, scene| session.state(scene));
    let start = r#"{"id":"6d1d","createdAt":"1970-01-01T00:00:00.000Z","updatedAt":"1970-01-01T00:00:01.000Z","pending":true,"statusLabel":"drafting response...","messages":[{"id":1,"kind":"user","text":"hi"}],"history":[],"queue":[],"pendingSteerCount":0,"conversationProvider":null,"activeSessionId":"6d1d-2","contextTokenEstimate":"#;
    assert!(state.get().starts_with(start), "{state}");
}

#[test]
fn the_queue_goes_on_after_ready() {
    let mut stage = Stage::new();
    stage.send("one", false).unwrap();
    assert_eq!(stage.send("busy", false).unwrap_err(), "session is busy; use enqueue=true to queue the prompt");
    let sent = stage.send("two", true).unwrap();
    assert!(sent.queued);
    stage.work_to_end("x");
    let told = stage.transcript();
    assert_eq!(told[1], "status queued (1)");
    let ready = told.iter().position(|line| line == "status ready").unwrap();
    assert_eq!(told[ready + 1], format!("status preparing... @{}", sent.turn_id));
    assert_eq!(told.iter().filter(|line| *line == "completed").count(), 2);
}

#[test]
fn steering_is_heard_between_rounds_and_what_is_late_is_counted() {
    let mut stage = Stage::new();
    assert!(!stage.session.steer("nobody listens"));
    stage.send("start", false).unwrap();
    stage.work_to_round();
    assert!(stage.session.steer("  use plan B  ") && stage.session.steer("and hurry"));
    stage.jobs.clear();
    stage.step(|session, scene| session.round_ended(Ok(vec![wanted("c1", Verdict::Run)]), scene));
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
fn the_parts_of_an_answer_between_tools_can_be_told_apart() {
    let mut stage = Stage::new();
    stage.send("go", false).unwrap();
    stage.work_to_round();
    let piece = Piece { segments: vec![Segment::Answer("Let me look.".to_owned())], thoughts: Vec::new() };
    stage.step(|session, scene| session.heard(&piece, scene));
    stage.jobs.clear();
    stage.step(|session, scene| session.round_ended(Ok(vec![wanted("c1", Verdict::Run)]), scene));
    stage.work_to_end("Two lines.");
    let answer = &stage.told.iter().rfind(|(kind, _)| kind == "session.message.appended").unwrap().1["message"];
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
    assert!(stage.step(|session, scene| session.interrupt(scene)));
    assert!(!stage.step(|session, scene| session.interrupt(scene)));
    assert_eq!(stage.cancelled, 1);
    stage.jobs.clear();
    stage.step(|session, scene| session.round_ended(Err(ModelError::Cancelled), scene));
    stage.work_to_end("");
    let expected =
        ["status interrupting...", "message.appended response interrupted by user.", "interrupted", "status ready"];
    assert_eq!(stage.transcript(), expected);
    assert_eq!(stage.session.history.messages()[0].text, "start");
}

#[test]
fn an_interrupt_in_the_last_tool_of_a_round_tells_the_results_first() {
    let mut stage = Stage::new();
    stage.send("start", false).unwrap();
    stage.work_to_round();
    let piece = Piece { segments: vec![Segment::Answer("Starting. ".to_owned())], thoughts: Vec::new() };
    stage.step(|session, scene| session.heard(&piece, scene));
    stage.jobs.clear();
    stage.step(|session, scene| session.round_ended(Ok(vec![wanted("c1", Verdict::Run)]), scene));
    stage.step(|session, scene| session.interrupt(scene));
    stage.transcript();
    stage.jobs.clear();
    let ran = Ran { ok: false, output: json::to_raw("x"), error: Some("process aborted".to_owned()) };
    stage.step(|session, scene| session.ran(ran, scene));
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
fn a_failure_leaves_the_history_as_it_was() {
    let mut stage = Stage::new();
    stage.send("a", false).unwrap();
    stage.work_to_round();
    stage.transcript();
    stage.jobs.clear();
    let error = ModelError::Status { status: 401, message: "No auth credentials found".to_owned() };
    stage.step(|session, scene| session.round_ended(Err(error), scene));
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
    stage.step(|session, scene| session.round_ended(Err(error), scene));
    while !matches!(stage.jobs.front(), Some(Job::Prepare { .. })) {
        stage.work("");
    }
    let told = stage.transcript();
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
    assert_eq!(told, expected);
    stage.work_to_end("on we go");
    assert_eq!(stage.transcript().iter().filter(|line| *line == "completed").count(), 1);
}

#[test]
fn compress_is_told_as_in_the_recordings() {
    let mut stage = Stage::new();
    stage.send("question one", false).unwrap();
    stage.work_to_end("answer one");
    stage.transcript();
    let target = stage.target();
    stage.step(|session, scene| session.compress(target, scene)).unwrap();
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
fn another_provider_gets_the_conversation_in_few_words() {
    let mut stage = Stage::new();
    stage.send("hi", false).unwrap();
    stage.work_to_end("from openrouter");
    stage.transcript();
    (stage.provider, stage.window) = ("openai".to_owned(), 100_000);
    stage.send("continue", false).unwrap();
    stage.work_to_end("from openai");
    let told = stage.transcript();
    assert_eq!(told[2], "compaction.started");
    assert_eq!(
        told[7],
        "message.appended provider switched: openrouter -> openai. context compressed (1,604 -> 1,588 est. tokens)."
    );
}

#[test]
fn a_call_waits_until_somebody_allows_it() {
    let mut stage = Stage::new();
    stage.send("go", false).unwrap();
    stage.work_to_round();
    stage.transcript();
    stage.jobs.clear();
    let calls = vec![wanted("c1", Verdict::Ask), wanted("c2", Verdict::Ask)];
    stage.step(|session, scene| session.round_ended(Ok(calls), scene));
    assert_eq!(stage.transcript(), ["approval.requested"]);
    assert!(!stage.step(|session, scene| session.decide("c2", true, false, scene)), "c1 is asked about");
    assert!(stage.step(|session, scene| session.decide("c1", true, true, scene)));
    stage.work("");
    let expected = [
        "approval.resolved allow",
        "tool.call.started bash",
        "context.estimate",
        "tool.call.completed",
        "tool.call.started bash",
        "context.estimate",
    ];
    assert_eq!(stage.transcript(), expected, "the second is allowed with the first");
}

#[test]
fn what_was_allowed_for_the_session_covers_that_tool_and_that_place_only() {
    let secret = gladhand_workbench::Place { path: "/home/u/.ssh/key".into(), is_sensitive: true };
    let first = wanted("c1", Verdict::Ask);
    let made_anew = ToolIdentity::Workbench { name: "bash".to_owned(), edition: 1 };
    let others = [
        Wanted { tool: made_anew, ..wanted("c2", Verdict::Ask) },
        Wanted { tool: ToolIdentity::Hub { name: "bash".to_owned() }, ..wanted("c2", Verdict::Ask) },
        Wanted { reach: vec![secret.clone()], ..wanted("c2", Verdict::Ask) },
    ];
    for other in others {
        let mut stage = Stage::new();
        stage.send("go", false).unwrap();
        stage.work_to_round();
        stage.jobs.clear();
        stage.step(|session, scene| session.round_ended(Ok(vec![first.clone(), other]), scene));
        assert!(stage.step(|session, scene| session.decide("c1", true, true, scene)));
        stage.told.clear();
        stage.work("");
        assert_eq!(stage.transcript().last().map(String::as_str), Some("approval.requested"));
        assert!(stage.step(|session, scene| session.decide("c2", true, false, scene)), "it is asked about by itself");
    }
}

#[test]
fn a_refused_call_tells_the_model_why() {
    let mut stage = Stage::new();
    stage.send("go", false).unwrap();
    stage.work_to_round();
    stage.jobs.clear();
    stage.step(|session, scene| session.round_ended(Ok(vec![wanted("c1", Verdict::Ask)]), scene));
    stage.told.clear();
    stage.step(|session, scene| session.left_alone(scene));
    let completed = &stage.told.iter().find(|(kind, _)| kind == "session.tool.call.completed").unwrap().1;
    assert_eq!(completed["data"]["executed"]["error"], approval::nobody(&wanted("c1", Verdict::Ask)));
    assert!(matches!(stage.jobs.front(), Some(Job::Round { number: 2, .. })));
}

#[test]
fn clearing_stops_the_turn_and_keeps_nothing_of_it() {
    let mut stage = Stage::new();
    stage.send("start", false).unwrap();
    stage.work_to_round();
    stage.transcript();
    assert!(stage.step(|session, scene| session.clear(scene)));
    stage.jobs.clear();
    stage.step(|session, scene| session.round_ended(Err(ModelError::Cancelled), scene));
    assert_eq!(stage.transcript(), ["status interrupting...", "interrupted", "status ready"]);
    assert!(!stage.session.has_history() && stage.session.message_count() == 0);
}

#[test]
fn a_turn_that_cannot_run_ends_at_once() {
    let mut stage = Stage::new();
    let images = vec![PendingImage::default()];
    stage.step(|session, scene| session.send(Prompt { images, ..Prompt::default() }, scene)).unwrap();
    stage.jobs.clear();
    let problem = NotReady::BadImage("file not found: /x.png".to_owned());
    stage.step(|session, scene| session.prepared(Err(problem), scene));
    let expected = [
        "status preparing... @s-1",
        "message.appended inference error: file not found: /x.png",
        "error file not found: /x.png",
        "status ready",
    ];
    assert_eq!(stage.transcript(), expected);
}

#[test]
fn disk_trouble_is_noted_and_the_turn_ends_well() {
    let mut stage = Stage::new();
    stage.send("hi", false).unwrap();
    while !matches!(stage.jobs.front(), Some(Job::Save(_))) {
        stage.work("yes");
    }
    stage.transcript();
    stage.jobs.clear();
    stage.step(|session, scene| session.saved(Err("no space left on device".to_owned()), scene));
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
    stage.step(|session, scene| session.round_ended(Ok(vec![wanted("c1", Verdict::Run)]), scene));
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
