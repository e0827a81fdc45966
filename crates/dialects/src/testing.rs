//! Test support for all dialects: a driver for each side, a client-server pair, and a clock that tests advance.
//!
//! This module is compiled for tests only and is not part of the product.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use gladhand_core::negotiation::{Agreement, Peer};
use gladhand_core::operations::{
    Answered, Call, CallId, Failure, FailureKind, Notice, Operation, Outcome, Question, QuestionId, Reply, Terms, Tool,
    ToolResult, call::no_arguments,
};
use gladhand_core::wire::rpc::Envelope;
use gladhand_core::wire::{FrameKind, Frames, Line, Lines, Skim, json, pick};

use crate::ambient::{Ambient, Entropy, Moment, Party};
use crate::door::Door;
use crate::side::{
    Action, Client, ClientSetup, Dialect, Event, Heard, Lane, Menu, Output, Pass, Server, ServerSetup, Stop, Unagreed,
};
use crate::storage::Unshared;

/// Ids that count up from 1.
#[derive(Debug, Default)]
pub struct Counting(u128);

impl Entropy for Counting {
    fn bits(&mut self) -> u128 {
        self.0 += 1;
        self.0
    }
}

/// A setup with tools and logging, no token, and small limits.
pub fn server_setup() -> ServerSetup {
    ServerSetup {
        identity: Peer::new("gladhand", "0.0.0-test"),
        about: Vec::new(),
        menu: Menu { tools: true, tool_changes: true, logging: true, ..Menu::default() },
        passes: Vec::new(),
        max_parallel: 4,
        page_size: 100,
        max_in_flight: 64,
        started: Moment::default(),
        unagreed: Unagreed::default(),
        storage: Arc::new(Unshared),
    }
}

/// A client that requests a version and all capabilities.
pub fn client_setup(version: &str) -> ClientSetup {
    ClientSetup {
        identity: Peer::new("tester", "1.0"),
        version: version.to_owned(),
        wants: None,
        provides: Vec::new(),
        token: None,
        log_level: None,
        listen: false,
        exchanges: false,
        unagreed: Unagreed::default(),
    }
}

/// A time that changes only with `elapsed`: 2026-01-01T00:00:00Z plus that duration.
pub fn moment(elapsed: Duration) -> Moment {
    Moment { elapsed, unix: Duration::from_secs(1_767_225_600) + elapsed }
}

/// A call that the server side delivered and that has no answer yet.
#[derive(Debug)]
pub struct Delivered {
    /// The call.
    pub call: Call<'static>,
    /// The agreement of the call.
    pub agreement: Arc<Agreement>,
}

/// A server side behind a door, driven by a test.
#[derive(Debug)]
pub struct TestServer {
    /// The door.
    pub door: Door,
    /// Delivered calls that the test has not resolved.
    pub delivered: VecDeque<Delivered>,
    /// Calls that were cancelled.
    pub cancelled: Vec<CallId>,
    /// The grace period, if the side asked to be closed.
    pub closed: Option<Duration>,
    /// The reported agreements.
    pub opened: Vec<Arc<Agreement>>,
    /// The identifiers of the reported refusals.
    pub refused: Vec<&'static str>,
    /// The descriptions of dropped messages.
    pub dropped: Vec<&'static str>,
    /// Questions that were answered, or cannot be answered.
    pub answered: Vec<(QuestionId, Answered)>,
    /// Resources whose subscription ended.
    pub unwatched: Vec<String>,
    /// How often the downstream reported changed folders.
    pub roots_changes: usize,
    /// Exchanges that the side wants to close.
    pub let_go: Vec<(Lane, Duration)>,
    /// The lane of the next step.
    pub lane: Lane,
    /// The authenticated principal of the peer.
    pub principal: Option<String>,
    /// The scopes of the input, separated by spaces.
    pub scopes: Option<Arc<str>>,
    /// The party whose share the next step uses.
    pub party: Option<Party>,
    /// The lane of each line of the last step.
    pub lanes: Vec<Lane>,
    /// The kinds of the lines of the last step.
    pub kinds: Vec<FrameKind>,
    /// Whether delivered calls are answered immediately with [`answer`]. Otherwise they wait in `delivered`.
    pub answers_itself: bool,
    entropy: Counting,
    elapsed: Duration,
}

impl TestServer {
    /// A server of one dialect that answers calls itself.
    pub fn pinned(dialect: &'static Dialect, setup: ServerSetup) -> Self {
        Self::behind(Door::pinned(dialect, setup))
    }

    /// A server that detects the dialect.
    pub fn detecting(registry: &'static [&'static Dialect], setup: ServerSetup) -> Self {
        Self::behind(Door::detecting(registry, setup))
    }

    fn behind(door: Door) -> Self {
        Self {
            door,
            delivered: VecDeque::new(),
            cancelled: Vec::new(),
            closed: None,
            opened: Vec::new(),
            refused: Vec::new(),
            dropped: Vec::new(),
            answered: Vec::new(),
            unwatched: Vec::new(),
            roots_changes: 0,
            let_go: Vec::new(),
            lane: Lane::MAIN,
            principal: None,
            scopes: None,
            party: None,
            lanes: Vec::new(),
            kinds: Vec::new(),
            answers_itself: true,
            entropy: Counting::default(),
            elapsed: Duration::ZERO,
        }
    }

    /// Keeps calls pending until the test resolves them.
    pub fn holding(mut self) -> Self {
        self.answers_itself = false;
        self
    }

    /// Feeds one line of text and returns the lines of the answer.
    pub fn line(&mut self, line: &str) -> Vec<String> {
        self.bytes(line.as_bytes())
    }

    /// Feeds one line of bytes and returns the lines of the answer.
    pub fn bytes(&mut self, line: &[u8]) -> Vec<String> {
        self.frame(Line::Bytes(line))
    }

    /// Feeds one frame and returns the lines of the answer.
    pub fn frame(&mut self, line: Line<'_>) -> Vec<String> {
        self.step(|door, ambient, out| {
            let mut inner = Output::onto(std::mem::take(&mut out.wire));
            door.handle_frame(line, ambient, &mut inner);
            *out = inner.into_owned();
        })
    }

    /// Resolves the oldest delivered call with [`answer`].
    pub fn resolve_next(&mut self) -> Vec<String> {
        let Delivered { call, agreement } = self.delivered.pop_front().expect("a delivered call must be pending");
        let outcome = answer(&call, &agreement);
        self.resolve(call.id, outcome)
    }

    /// Resolves a call.
    pub fn resolve(&mut self, call: CallId, outcome: Outcome) -> Vec<String> {
        self.step(|door, ambient, out| door.handle_outcome(call, outcome, ambient, out))
    }

    /// Sends a notice.
    pub fn notify(&mut self, notice: Notice) -> Vec<String> {
        self.step(|door, ambient, out| door.notify(notice, ambient, out))
    }

    /// Sends questions to the caller of a call.
    pub fn ask(&mut self, call: CallId, questions: Vec<(QuestionId, Question)>) -> Vec<String> {
        self.step(|door, ambient, out| door.ask(Some(call), questions, ambient, out))
    }

    /// Sends questions to the session.
    pub fn ask_session(&mut self, questions: Vec<(QuestionId, Question)>) -> Vec<String> {
        self.step(|door, ambient, out| door.ask(None, questions, ambient, out))
    }

    /// Changes the provided features.
    pub fn set_offer(&mut self, menu: Menu) {
        self.door.set_offer(Peer::default(), menu);
    }

    /// Continues a call as a task.
    pub fn continue_as_task(&mut self, call: CallId) -> Vec<String> {
        self.step(|door, ambient, out| door.continue_as_task(call, ambient, out))
    }

    /// The peer closes an exchange.
    pub fn handle_lane_closed(&mut self, lane: Lane) -> Vec<String> {
        self.step(|door, ambient, out| door.handle_lane_closed(lane, ambient, out))
    }

    /// Replaces the accepted passes.
    pub fn set_passes(&mut self, passes: &[Pass]) -> Vec<String> {
        self.step(|door, ambient, out| door.set_passes(passes, ambient, out))
    }

    /// Ends the session from our side.
    pub fn stop(&mut self, stop: Stop) -> Vec<String> {
        self.step(|door, ambient, out| door.stop(stop, ambient, out))
    }

    /// Advances the clock, and wakes the side if its deadline has passed.
    pub fn advance(&mut self, by: Duration) -> Vec<String> {
        self.elapsed += by;
        match self.door.poll_timeout() {
            Some(deadline) if deadline <= self.elapsed => self.step(Door::handle_timeout),
            _ => Vec::new(),
        }
    }

    fn step(&mut self, step: impl FnOnce(&mut Door, &mut Ambient<'_>, &mut Output<'static>)) -> Vec<String> {
        let mut out = Output::onto(Frames::default());
        let now = moment(self.elapsed);
        let principal = self.principal.clone();
        let mut ambient = Ambient::new(now, &mut self.entropy);
        (ambient.lane, ambient.principal, ambient.party) = (self.lane, principal.as_deref(), self.party);
        ambient.scopes.clone_from(&self.scopes);
        step(&mut self.door, &mut ambient, &mut out);
        loop {
            let mut outcomes = Vec::new();
            for action in std::mem::take(&mut out.actions) {
                match action {
                    Action::Deliver(call, agreement) if self.answers_itself => {
                        let outcome = answer(&call, &agreement);
                        outcomes.push((call.id, outcome));
                    }
                    Action::Deliver(call, agreement) => self.delivered.push_back(Delivered { call, agreement }),
                    Action::Cancel(call) => {
                        self.delivered.retain(|delivered| delivered.call.id != call);
                        self.cancelled.push(call);
                    }
                    Action::Opened(agreement) => self.opened.push(agreement),
                    Action::Refused(refusal) => self.refused.push(refusal.word()),
                    Action::Dropped(description) | Action::Passed(description) => self.dropped.push(description),
                    Action::Declined(declined) => {
                        self.dropped.extend(declined.violation().map(|violation| violation.description))
                    }
                    Action::Answered(question, answered) => self.answered.push((question, answered)),
                    Action::Unwatch(uri, _) => self.unwatched.push(uri),
                    Action::RootsChanged => self.roots_changes += 1,
                    Action::LetGo(lane, pause) => self.let_go.push((lane, pause)),
                    Action::Close(grace) => self.closed = Some(grace),
                }
            }
            if outcomes.is_empty() {
                break;
            }
            for (call, outcome) in outcomes {
                let mut ambient = Ambient::new(now, &mut self.entropy);
                self.door.handle_outcome(call, outcome, &mut ambient, &mut out);
            }
        }
        check_kinds(&out.wire);
        self.lanes = out.wire.frames().iter().map(|frame| frame.lane).collect();
        self.kinds = out.wire.frames().iter().map(|frame| frame.kind).collect();
        lines_of(&out.wire)
    }
}

/// Panics unless every line is the frame that it says it is, and every byte belongs to a frame.
pub fn check_kinds(wire: &Frames) {
    assert_eq!(wire.frames().last().map_or(0, |frame| frame.span.end + 1), wire.len(), "bytes outside of a frame");
    for frame in wire.frames() {
        let line = std::str::from_utf8(&wire[frame.span.clone()]).expect("sent lines must be UTF-8");
        assert!(!line.contains('\n'), "a frame of several lines: {line}");
        let Ok(envelope) = Envelope::parse(line) else {
            assert!(frame.kind == FrameKind::Batch && line.starts_with('['), "{:?}: {line}", frame.kind);
            continue;
        };
        // The other dialects have no member that tells the kind of every message.
        if envelope.jsonrpc.is_none() {
            continue;
        }
        let is_true = match frame.kind {
            FrameKind::Result => envelope.result.is_some(),
            FrameKind::Error { code, names_request } => {
                let written = envelope.error.and_then(|error| pick(error, ["code"])).and_then(|[code]| code);
                written.is_some_and(|written| written.get() == code.to_string())
                    // Some peers name a request `null`.
                    && (names_request || envelope.id.is_some_and(|id| id.get() == "null"))
            }
            FrameKind::Request => envelope.method.is_some() && envelope.id.is_some(),
            FrameKind::Notice => envelope.method.is_some() && envelope.id.is_none(),
            FrameKind::Batch => false,
        };
        assert!(is_true, "{:?}: {line}", frame.kind);
    }
}

/// The lines in a buffer of sent bytes. Panics unless each is valid JSON and ended by LF.
pub fn lines_of(wire: &[u8]) -> Vec<String> {
    let text = std::str::from_utf8(wire).expect("sent lines must be UTF-8");
    assert!(text.is_empty() || text.ends_with('\n'), "the last line has no LF: {text}");
    let lines: Vec<_> = text.lines().map(str::to_owned).collect();
    for line in &lines {
        serde_json::from_str::<&json::RawValue>(line).unwrap_or_else(|error| panic!("{error} in {line}"));
    }
    lines
}

/// The tools of [`answer`]: `echo` and `fail`.
pub fn tools() -> Arc<[Tool]> {
    let schema = r#"{"type":"object","properties":{"message":{"type":"string","description":"what to say"}},"required":["message"]}"#;
    Arc::from([
        Tool::new("echo", "Returns its message", json::raw(schema.to_owned())),
        Tool::new("fail", "Fails with its message", json::raw(schema.to_owned())),
    ])
}

/// Answers calls of test tools: `echo` returns the message, `fail` reports it as a failure of the tool.
pub fn answer(call: &Call<'_>, _agreement: &Agreement) -> Outcome {
    let Operation::CallTool(tool) = &call.operation else {
        return Ok(Reply::Tools(tools()));
    };
    let message = gladhand_core::wire::Members::of(&tool.arguments).and_then(|members| members.raw("message"));
    match (tool.name.as_ref(), message) {
        ("echo" | "fail", None) => Err(Failure::invalid_argument("message", "required")),
        ("echo", Some(raw)) if json::string(raw).is_none() && !raw.get().starts_with('"') => {
            Err(Failure::invalid_argument("message", "expected a string"))
        }
        ("echo", Some(raw)) => Ok(Reply::Tool(ToolResult {
            content: vec![gladhand_core::operations::Content::Text(raw.to_owned())],
            ..ToolResult::default()
        })),
        ("fail", Some(raw)) => Ok(Reply::Tool(ToolResult::failure(&json::string(raw).unwrap_or_default()))),
        (name, _) => Err(Failure::unknown_tool(name)),
    }
}

/// A client side and a server side of one dialect, wired to each other in memory.
#[derive(Debug)]
pub struct Pair {
    /// The server.
    pub server: TestServer,
    /// The client.
    pub client: Box<dyn Client>,
    /// Events of the client that the test has not taken.
    pub events: Vec<Event>,
    /// Every sent line, with its direction: `->` to the server, `<-` to the client.
    pub transcript: Vec<String>,
    entropy: Counting,
    next_call: u64,
    text: gladhand_core::wire::TextPolicy,
}

impl Pair {
    /// Two sides before their opening.
    pub fn new(dialect: &'static Dialect, server: ServerSetup, client: ClientSetup) -> Self {
        Self {
            server: TestServer::pinned(dialect, server),
            client: (dialect.client)(client),
            events: Vec::new(),
            transcript: Vec::new(),
            entropy: Counting(1_000_000),
            next_call: 0,
            text: dialect.text,
        }
    }

    /// Opens the session and returns the client's agreement, or the identifier of the refusal.
    pub fn open(&mut self) -> Result<Arc<Agreement>, &'static str> {
        self.step(|client, ambient, heard| client.open(ambient, heard));
        let mut outcome = Err("the client reported neither an agreement nor a refusal");
        for event in std::mem::take(&mut self.events) {
            match event {
                Event::Opened(agreement) => outcome = Ok(agreement),
                Event::Refused(refusal) => outcome = Err(refusal.word()),
                other => self.events.push(other),
            }
        }
        outcome
    }

    /// Calls a tool and returns its outcome. Panics unless there is exactly one.
    pub fn call_tool(&mut self, name: &str, arguments: &str) -> Outcome {
        let arguments = std::borrow::Cow::Owned(json::raw(arguments.to_owned()));
        self.call(Operation::CallTool(gladhand_core::operations::ToolCall { name: name.into(), arguments }))
    }

    /// Lists all tools.
    pub fn list_tools(&mut self) -> Arc<[Tool]> {
        match self.call(Operation::ListTools) {
            Ok(Reply::Tools(tools)) => tools,
            other => panic!("expected a list of tools, got {other:?}"),
        }
    }

    /// Makes a call and returns its outcome. Panics unless there is exactly one.
    pub fn call(&mut self, operation: Operation<'_>) -> Outcome {
        let id = self.begin(operation, false);
        let mut outcomes = self.take_answers(id);
        assert_eq!(outcomes.len(), 1, "outcomes of {id:?}: {outcomes:?}\n{}", self.transcript.join("\n"));
        outcomes.remove(0)
    }

    /// Starts a call without waiting for its outcome.
    pub fn begin(&mut self, operation: Operation<'_>, wants_progress: bool) -> CallId {
        self.begin_for(operation, Terms { wants_progress, ..Terms::default() }, None)
    }

    /// Starts a call on behalf of another caller.
    pub fn begin_for(&mut self, operation: Operation<'_>, terms: Terms<'_>, behalf: Option<&Arc<Agreement>>) -> CallId {
        self.next_call += 1;
        let id = CallId(self.next_call);
        self.step(|client, ambient, heard| client.call(Call { id, operation, terms }, behalf, ambient, heard));
        id
    }

    /// Takes the outcomes of a call so far.
    pub fn take_answers(&mut self, id: CallId) -> Vec<Outcome> {
        let (answers, rest): (Vec<_>, Vec<_>) = std::mem::take(&mut self.events)
            .into_iter()
            .partition(|event| matches!(event, Event::Answered(call, _) if *call == id));
        self.events = rest;
        answers
            .into_iter()
            .filter_map(|event| match event {
                Event::Answered(_, outcome) => Some(outcome),
                _ => None,
            })
            .collect()
    }

    /// Runs one step of the client, and everything that follows until both sides are idle.
    pub fn step(&mut self, step: impl FnOnce(&mut dyn Client, &mut Ambient<'_>, &mut Heard)) {
        let mut heard = Heard::default();
        step(&mut *self.client, &mut Ambient::new(moment(Duration::ZERO), &mut self.entropy), &mut heard);
        self.settle(heard);
    }

    /// Passes lines to the client that the server wrote outside of a step.
    pub fn hear(&mut self, lines: &[String]) {
        let mut heard = Heard::default();
        self.deliver(lines, &mut heard);
        self.settle(heard);
    }

    fn settle(&mut self, mut heard: Heard) {
        loop {
            self.events.append(&mut heard.events);
            if heard.wire.is_empty() {
                return;
            }
            let mut lines = Lines::default();
            lines.push(&std::mem::take(&mut heard.wire));
            while let Some(line) = lines.next_line() {
                if let Line::Bytes(bytes) = line {
                    self.transcript.push(format!("-> {}", String::from_utf8_lossy(bytes)));
                }
                let answers = self.server.frame(line);
                self.deliver(&answers, &mut heard);
            }
        }
    }

    fn deliver(&mut self, lines: &[String], heard: &mut Heard) {
        for line in lines {
            self.transcript.push(format!("<- {line}"));
            let mut ambient = Ambient::new(moment(Duration::ZERO), &mut self.entropy);
            match self.text.read(Line::Bytes(line.as_bytes())) {
                Ok(Some(text)) => self.client.handle_line(&text, &mut ambient, heard),
                Ok(None) => {}
                Err(fault) => {
                    self.client.handle_unreadable_line(&fault, &Skim::of(line.as_bytes()), &mut ambient, heard)
                }
            }
        }
    }
}

/// A tool call without arguments.
pub fn bare_call(name: &'static str) -> Operation<'static> {
    Operation::CallTool(gladhand_core::operations::ToolCall { name: name.into(), arguments: no_arguments() })
}

/// A failure of the given kind.
pub fn a_failure(kind: FailureKind) -> Failure {
    Failure::new(kind, "as the test wished")
}
