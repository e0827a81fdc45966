//! The loop that drives a session with an upstream. One task owns the client state machine and the transport.
//!
//! Each event that wakes the loop is one [`Wake`]. After each step, the loop performs every action of the client before
//! the next event.

mod backpressure;
mod lone_call;
mod questions;

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use gladhand_core::negotiation::{Agreement, Refusal};
use gladhand_core::number_map::NumberMap;
use gladhand_core::operations::{Answered, Call, CallId, Failure, FailureKind, Notice, Outcome, Party, QuestionId};
use gladhand_core::wire::{Fault, Line, Members, Skim};
use gladhand_dialects::{Client, Dialect, Event, FirstLine, Heard, Lane, REGISTRY, RuleViolation};
use gladhand_hub::policy::{Offender, Violations};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{AbortHandle, JoinError, JoinSet};
use tokio::time::{Instant, Sleep};

use super::COMMANDS;
use super::call_slots::CallSlot;
use super::events::UpstreamEvents;
use super::http_evidence::HttpEvidence;
use super::options::Options;
use super::process_end::{ProcessEnd, named};
use super::redacted;
use super::transport::{Inbound, Transport};
use super::unsent_budget::{Origin, UnsentLines};
use gladhand_process::child::Manner;
use gladhand_session::clock::Clock;
use gladhand_session::tap::{SessionTap, TappedPeer};
use gladhand_session::violations;

/// After this many unreadable lines without a message between them, the session ends.
const MAX_UNREADABLE: u64 = 4096;

/// Deadlines that are closer together than this are one.
const SAME_TIME: Duration = Duration::from_millis(100);

/// A call from a session handle. It waits in the queue while the upstream does not read its input.
pub(super) struct Command {
    pub(super) call: Call<'static>,
    /// The agreement of the caller, if the call is made on behalf of one.
    pub(super) caller: Option<Arc<Agreement>>,
    pub(super) events: Option<Arc<dyn UpstreamEvents>>,
    /// When the call times out, counted from when it was made. `None`: never.
    pub(super) expires: Option<Instant>,
    pub(super) reply: oneshot::Sender<Outcome>,
}

/// Messages to the loop that never wait for room. Their number is bounded: a cancellation keeps the slot of its call, a
/// roots change is queued at most once, and the loop takes all queued messages before it takes more calls.
#[derive(Debug)]
pub(super) enum Aside {
    /// End the session, and report when that is done.
    Close(oneshot::Sender<()>),
    /// The caller cancelled this call.
    Cancel(CallId, CallSlot),
    /// Unsubscribe from changes of a resource.
    Unwatch(String),
    /// The roots of the caller have changed.
    RootsChanged,
}

/// The receiving ends that connect session handles to the loop.
pub(super) struct Ports {
    pub(super) commands: mpsc::Receiver<Command>,
    pub(super) asides: mpsc::UnboundedReceiver<Aside>,
    /// Set while a roots change is queued or waits for room. Meanwhile, no other is queued.
    pub(super) roots_changed: Arc<AtomicBool>,
    pub(super) agreement: watch::Sender<Arc<Agreement>>,
}

/// A running session.
pub(super) struct Driver {
    client: Box<dyn Client>,
    dialect: &'static Dialect,
    clock: Clock,
    tap: SessionTap,
    /// Whether a person sees every line, so that the log need not name unreadable ones.
    pub(super) is_shown: bool,
    /// Lines that could not be read.
    unreadable: Unreadable,
    pub(super) transport: Transport,
    events: Arc<dyn UpstreamEvents>,
    call_timeout: Option<Duration>,
    calls: NumberMap<CallId, Pending>,
    /// Calls that wait because the upstream does not read its input, the oldest first. Their timeouts run.
    backlog: VecDeque<Command>,
    /// A lower bound for the next call timeout. The call it came from may be answered already.
    next_timeout: Option<Instant>,
    /// A timer for the next deadline, which many calls share.
    alarm: Option<Pin<Box<Sleep>>>,
    /// Server requests that wait for their answers.
    answer_tasks: JoinSet<(QuestionId, Answered)>,
    asked: NumberMap<QuestionId, (AbortHandle, Option<CallId>)>,
    /// The identity under which violations are counted.
    offender: Offender,
    /// The name of the upstream in the configuration, if it has one.
    name: Option<String>,
    violations: Arc<Violations>,
    /// Lines that wait because the upstream does not read them.
    unsent: UnsentLines,
    /// The party whose call this step concerns, if known. Its lines, and responses to them, use that party's share.
    party: Option<Party>,
    /// The origin of the lines that this step writes.
    origin: Origin,
    /// Whether to notify the upstream that the roots have changed.
    roots_changed: bool,
    /// The reply channel of the handle that closed the session.
    closed: Option<oneshot::Sender<()>>,
    /// Why the session is to be ended, reported to pending calls.
    lost: Option<Lost>,
    /// How to end the upstream process.
    manner: Manner,
    /// Whether the session is over: the upstream has closed its output, or is lost.
    is_gone: bool,
    /// How the upstream process ended, reported to pending calls.
    ending: Option<String>,
    /// Whether the dialect of the upstream is still undecided.
    pub(super) recognizes_dialects: bool,
    /// Another dialect that the upstream has been found to speak.
    pub(super) recognized: Option<&'static Dialect>,
    /// The result of the opening, until it is taken.
    opening: Option<Result<Arc<Agreement>, Refusal>>,
    /// The last HTTP results, which explain a failed opening.
    pub(super) evidence: HttpEvidence,
}

struct Pending {
    reply: oneshot::Sender<Outcome>,
    events: Option<Arc<dyn UpstreamEvents>>,
    party: Option<Party>,
    /// When the call times out. `None` while the call waits for the answer to a server request, or if there is no timeout.
    expires: Option<Instant>,
}

/// Counts lines of an upstream that could not be read.
#[derive(Debug, Default)]
struct Unreadable {
    /// Those that the log names.
    all: u64,
    /// All since the last message.
    in_a_row: u64,
}

/// Why a session is to be ended.
struct Lost {
    why: String,
    /// Whether the upstream does not read. Then the calls that wait for that fail too.
    is_deaf: bool,
}

/// The events that can wake the loop.
enum Wake {
    Inbound(Inbound),
    Command(Command),
    /// `None`: the last handle is gone.
    Aside(Option<Aside>),
    Answer(Result<(QuestionId, Answered), JoinError>),
    Time,
}

impl Driver {
    pub(super) fn new(
        dialect: &'static Dialect,
        client: Box<dyn Client>,
        transport: Transport,
        events: Arc<dyn UpstreamEvents>,
        options: &Options,
    ) -> Self {
        Self {
            client,
            dialect,
            clock: Clock::start(),
            tap: SessionTap::new(Arc::clone(&options.tap), transport.tapped_session()),
            is_shown: false,
            unreadable: Unreadable::default(),
            transport,
            events,
            call_timeout: options.call_timeout,
            offender: Offender::Server(options.called.clone()),
            violations: Arc::clone(&options.violations),
            calls: NumberMap::default(),
            backlog: VecDeque::new(),
            next_timeout: None,
            alarm: None,
            answer_tasks: JoinSet::new(),
            asked: NumberMap::default(),
            name: options.name.clone(),
            unsent: UnsentLines::new(options.unsent.clone()),
            party: None,
            origin: Origin::Other,
            roots_changed: false,
            closed: None,
            lost: None,
            manner: Manner::Polite,
            is_gone: false,
            ending: None,
            recognizes_dialects: false,
            recognized: None,
            opening: None,
            evidence: HttpEvidence::default(),
        }
    }

    /// Opens the session.
    pub(super) async fn open(&mut self, timeout: Duration) -> Result<Arc<Agreement>, Refusal> {
        let opening = tokio::time::timeout(timeout, self.open_without_timeout()).await;
        opening.unwrap_or(Err(Refusal::TimedOut { seconds: timeout.as_secs() }))
    }

    /// Opens the session without a timeout. The caller ends the opening by dropping the future.
    pub(super) async fn open_without_timeout(&mut self) -> Result<Arc<Agreement>, Refusal> {
        self.step(|client, clock, heard| client.open(&mut clock.ambient(), heard));
        loop {
            if let Some(opening) = self.opening.take() {
                self.recognizes_dialects = false;
                return opening;
            }
            if let Some(dialect) = self.recognized {
                return Err(Refusal::PeerMisbehaved { problem: format!("it answers in {}", dialect.name) });
            }
            self.handle_next().await;
        }
    }

    /// Processes everything that the upstream sends, until it is gone.
    pub(super) async fn listen(&mut self) {
        while !self.is_gone {
            self.handle_next().await;
        }
    }

    /// Handles one event before the handles are served.
    async fn handle_next(&mut self) {
        let wake = self.wake(None).await;
        self.handle(wake);
        self.conclude();
        // A server that floods must not delay timeouts, signals and listeners of the tap.
        tokio::task::yield_now().await;
    }

    /// Sends the closing message, if the dialect has one.
    pub(super) fn send_closing_message(&mut self) {
        self.step(|client, clock, heard| client.close(&mut clock.ambient(), heard));
    }

    /// Serves the handles until the last one is dropped, one of them closes the session, or the upstream is gone.
    pub(super) async fn run(mut self, mut ports: Ports) {
        while self.closed.is_none() && !self.is_gone {
            if let Some(Ok(agreement)) = self.opening.take() {
                ports.agreement.send_replace(agreement);
            }
            match self.wake(Some(&mut ports)).await {
                Wake::Aside(None) => break,
                wake => {
                    if matches!(wake, Wake::Inbound(Inbound::Gone)) {
                        // Close the queue before any call fails: the next caller must find the session over.
                        ports.commands.close();
                        if !self.calls.is_empty() {
                            self.ending = self.process_end().await;
                        }
                    }
                    if matches!(wake, Wake::Command(_)) {
                        self.take_asides(&mut ports);
                    }
                    // If a close overtakes a call, the call is not made, and its caller sees that.
                    if self.closed.is_none() {
                        self.handle(wake);
                    }
                }
            }
            if self.is_gone {
                break;
            }
            self.take_asides(&mut ports);
            if self.closed.is_some() {
                break;
            }
            self.catch_up(&mut ports);
            // If many calls run, others are about to start. Writing them together wakes the upstream once.
            if self.calls.len() > 1 && self.transport.has_unsent() {
                tokio::task::yield_now().await;
                self.catch_up(&mut ports);
            }
            if self.lost.is_some() {
                // As above: the next caller must find the session over.
                ports.commands.close();
                self.backlog.extend(std::iter::from_fn(|| ports.commands.try_recv().ok()));
                self.conclude();
            }
        }
        ports.commands.close();
        // Calls that were not sent are dropped with their reply channels, which their callers notice.
        self.backlog.clear();
        while ports.commands.try_recv().is_ok() {}
        self.send_closing_message();
        self.step(|client, clock, heard| client.handle_disconnect(&mut clock.ambient(), heard));
        self.transport.close(self.manner).await;
        self.tap.closed();
        if let Some(closed) = self.closed {
            let _ = closed.send(());
        }
    }

    /// Waits for the next event.
    async fn wake(&mut self, ports: Option<&mut Ports>) -> Wake {
        let deadline = self.client.poll_timeout().map(|deadline| self.clock.instant(deadline));
        match (deadline.into_iter().chain(self.next_timeout).chain(self.stalls_at()).min(), &mut self.alarm) {
            (Some(next), Some(alarm)) if alarm.deadline() != next => alarm.as_mut().reset(next),
            (Some(next), none @ None) => *none = Some(Box::pin(tokio::time::sleep_until(next))),
            (Some(_), Some(_)) => {}
            (None, alarm) => *alarm = None,
        }
        let alarm = async {
            match &mut self.alarm {
                Some(alarm) => alarm.await,
                None => std::future::pending().await,
            }
        };
        let (has_room, is_gone) = (self.backlog.len() < COMMANDS, self.is_gone);
        let (commands, asides) = ports.map(|ports| (&mut ports.commands, &mut ports.asides)).unzip();
        tokio::select! {
            inbound = self.transport.next(), if !is_gone => Wake::Inbound(inbound),
            Some(answer) = self.answer_tasks.join_next() => Wake::Answer(answer),
            aside = receive_aside(asides) => Wake::Aside(aside),
            Some(command) = receive(commands), if has_room => Wake::Command(command),
            () = alarm => Wake::Time,
        }
    }

    /// Takes all other events that are ready, so that everything that follows from them is written at once.
    fn catch_up(&mut self, ports: &mut Ports) {
        while self.lost.is_none()
            && let Some(inbound) = self.transport.ready()
        {
            self.inbound(inbound);
        }
        // Take at most one full queue, so that other tasks get their turn.
        for _ in 0..COMMANDS {
            if self.transport.is_full() || self.lost.is_some() {
                return;
            }
            let waiting = self.backlog.pop_front().or_else(|| ports.commands.try_recv().ok());
            let Some(command) = waiting else { return };
            self.take_asides(ports);
            if self.closed.is_some() {
                return;
            }
            self.call(command);
        }
    }

    /// Takes all queued asides, so that calls never arrive faster than they are cancelled. Asides come before the next
    /// call: if a caller cancels a call and then makes another, the upstream sees both in that order.
    fn take_asides(&mut self, ports: &mut Ports) {
        while let Ok(aside) = ports.asides.try_recv() {
            self.aside(aside);
        }
        if self.roots_changed && !self.transport.is_full() {
            self.roots_changed = false;
            // Clear the flag before the line is written: a later change needs another notification.
            ports.roots_changed.store(false, Ordering::Release);
            self.step(|client, clock, heard| client.handle_roots_changed(&mut clock.ambient(), heard));
        }
    }

    fn aside(&mut self, aside: Aside) {
        match aside {
            Aside::Close(closed) => self.closed = Some(closed),
            Aside::Cancel(call, _slot) => {
                self.backlog.retain(|waiting| waiting.call.id != call);
                self.cancel(call);
            }
            Aside::Unwatch(uri) => {
                self.step(|client, clock, heard| client.unwatch(&uri, &mut clock.ambient(), heard));
            }
            Aside::RootsChanged => self.roots_changed = true,
        }
    }

    fn handle(&mut self, wake: Wake) {
        self.clock.tick();
        self.settle_unsent();
        match wake {
            Wake::Inbound(inbound) => self.inbound(inbound),
            Wake::Command(command) if self.transport.is_full() || !self.backlog.is_empty() => {
                self.note_expiry(command.expires);
                self.backlog.push_back(command);
            }
            Wake::Command(command) => self.call(command),
            Wake::Aside(aside) => aside.into_iter().for_each(|aside| self.aside(aside)),
            Wake::Answer(Ok((question, answered))) => self.answered(question, answered),
            Wake::Answer(Err(error)) => self.answer_task_failed(&error),
            Wake::Time => self.handle_deadline(),
        }
    }

    fn inbound(&mut self, inbound: Inbound) {
        self.evidence.note(&inbound);
        // Messages that follow from a response belong to the same caller.
        self.party = match &inbound {
            Inbound::Message(lane, ..) | Inbound::Lost(lane, _) => self.transport.party(*lane),
            Inbound::Garbled(..) | Inbound::Room | Inbound::Gone => None,
        };
        self.process_inbound(inbound);
        self.party = None;
    }

    fn process_inbound(&mut self, inbound: Inbound) {
        match inbound {
            Inbound::Message(lane, bytes, _) => {
                if self.tap.is_on() {
                    self.tap.received(Some(self.dialect), lane, Line::Bytes(&bytes));
                }
                if self.recognizes_dialects {
                    self.recognized = recognizes_reply(&bytes);
                    if self.recognized.is_some() {
                        return;
                    }
                }
                let breaches = match self.dialect.text.read(Line::Bytes(&bytes)) {
                    Ok(Some(text)) => self.receive(lane, &text),
                    Ok(None) => return,
                    Err(fault) => self.garbled(lane, &fault, &Skim::of(&bytes)),
                };
                self.broke(&breaches, &bytes);
            }
            Inbound::Garbled(fault, skim) => {
                if let (true, &Fault::TooLong { limit }) = (self.tap.is_on(), &fault) {
                    self.tap.received(Some(self.dialect), Lane::MAIN, Line::TooLong { limit });
                }
                let breaches = self.garbled(Lane::MAIN, &fault, &skim);
                self.broke(&breaches, &[]);
            }
            Inbound::Lost(lane, loss) => {
                self.step(|client, clock, heard| client.handle_lost_exchange(lane, loss, &mut clock.ambient(), heard));
            }
            // The loop checks the waiting commands again.
            Inbound::Room => {}
            Inbound::Gone => {
                self.is_gone = true;
                self.step(|client, clock, heard| client.handle_disconnect(&mut clock.ambient(), heard));
            }
        }
    }

    /// Processes a line. Returns the rules that it breaks.
    fn receive(&mut self, lane: Lane, text: &str) -> Vec<RuleViolation> {
        let mut breaches = Vec::new();
        self.origin = Origin::Answer;
        self.step(|client, clock, heard| {
            let mut ambient = clock.ambient();
            ambient.lane = lane;
            client.handle_line(text, &mut ambient, heard);
            breaches = violations::of_events(&heard.events);
        });
        self.origin = Origin::Other;
        breaches
    }

    /// Processes a line that cannot be parsed. If it answers a call, that call fails. Otherwise it is logged: the first
    /// one, and then ever fewer.
    fn garbled(&mut self, lane: Lane, fault: &Fault, skim: &Skim) -> Vec<RuleViolation> {
        if skim.answered().is_none() && !self.is_shown {
            self.unreadable.all += 1;
            let count = self.unreadable.all;
            if count.is_power_of_two() {
                tracing::warn!(%fault, count, "dropped what the upstream sent");
            }
        }
        let mut breaches = Vec::new();
        self.origin = Origin::Answer;
        self.step(|client, clock, heard| {
            let mut ambient = clock.ambient();
            ambient.lane = lane;
            client.handle_unreadable_line(fault, skim, &mut ambient, heard);
            breaches = violations::of_events(&heard.events);
        });
        self.origin = Origin::Other;
        breaches
    }

    /// Counts protocol violations of the upstream. If a rule is enforced, the session ends. It also ends after too many
    /// unreadable lines without a message between them.
    fn broke(&mut self, breaches: &[RuleViolation], line: &[u8]) {
        let is_unreadable = breaches.iter().any(RuleViolation::is_unreadable);
        self.unreadable.in_a_row = if is_unreadable { self.unreadable.in_a_row + 1 } else { 0 };
        if self.unreadable.in_a_row > MAX_UNREADABLE {
            let why =
                format!("the session was ended because the server sent {MAX_UNREADABLE} unreadable lines in a row");
            self.lost.get_or_insert(Lost { why, is_deaf: false });
        }
        let Some(violation) = violations::note(&self.violations, &self.offender, breaches, line) else { return };
        self.lost = Some(Lost { why: format!("the session was ended because the {violation}"), is_deaf: false });
    }

    fn call(&mut self, command: Command) {
        let Command { call, caller, events, expires, reply } = command;
        // The caller stopped waiting.
        if reply.is_closed() {
            return;
        }
        self.note_expiry(expires);
        let (id, party, mut heard) = (call.id, call.terms.party, Heard::default());
        self.client.call(call, caller.as_ref(), &mut self.clock.ambient(), &mut heard);
        let is_only_a_line = heard.events.is_empty() && heard.wire.frames().len() == 1;
        if is_only_a_line && self.transport.would_be_behind(heard.wire.len()) && !self.unsent.admits(party) {
            let busy = Failure::new(FailureKind::Busy, "too many bytes of this client wait for upstreams to read them");
            let _ = reply.send(Err(busy));
            self.withdraw(id);
            return;
        }
        self.calls.insert(id, Pending { reply, events, party, expires });
        (self.party, self.origin) = (party, if is_only_a_line { Origin::Call(id) } else { Origin::Other });
        self.perform(heard);
        (self.party, self.origin) = (None, Origin::Other);
    }

    /// The deadline of a wait that starts now.
    fn expiry(&mut self) -> Option<Instant> {
        let expires = Instant::now() + self.call_timeout?;
        self.note_expiry(Some(expires));
        Some(expires)
    }

    fn note_expiry(&mut self, expires: Option<Instant>) {
        self.next_timeout = self.next_timeout.into_iter().chain(expires).min();
    }

    /// A deadline has passed: the client state machine wants to be woken, or a call timed out.
    fn handle_deadline(&mut self) {
        let now = Instant::now();
        // The call that fills the buffer was made shortly before that, and its own timeout must not hide the stall.
        if self.stalls_at().is_some_and(|stalls| stalls <= now + SAME_TIME) {
            self.stalled();
            return;
        }
        // A server request without a call may belong to any call, and its answer may take long. Extend every timeout.
        if let (true, Some(timeout)) = (self.asked.values().any(|(_, call)| call.is_none()), self.call_timeout) {
            self.calls
                .values_mut()
                .filter_map(|call| call.expires.as_mut())
                .for_each(|expires| *expires = now + timeout);
        }
        let is_over = |pending: &Pending| pending.expires.is_some_and(|expires| expires <= now);
        let expired: Vec<_> = self.calls.iter().filter(|(_, call)| is_over(call)).map(|(id, _)| *id).collect();
        for call in expired {
            if let Some(pending) = self.calls.remove(&call) {
                let seconds = self.call_timeout.unwrap_or_default().as_secs_f32();
                let message = format!("the upstream gave no sign of life for {seconds} s");
                let failure = Failure::new(FailureKind::TimedOut, message);
                let _ = pending.reply.send(Err(failure));
            }
            self.cancel(call);
        }
        self.expire_backlog(now);
        let waiting = self.backlog.iter().filter_map(|waiting| waiting.expires);
        self.next_timeout = self.calls.values().filter_map(|call| call.expires).chain(waiting).min();
        if self.client.poll_timeout().is_some_and(|deadline| deadline <= self.clock.now().elapsed) {
            self.step(|client, clock, heard| client.handle_timeout(&mut clock.ambient(), heard));
        }
    }

    /// Runs one step of the client state machine, and performs all its actions.
    fn step(&mut self, step: impl FnOnce(&mut dyn Client, &mut Clock, &mut Heard)) {
        let mut heard = Heard::default();
        step(&mut *self.client, &mut self.clock, &mut heard);
        self.perform(heard);
    }

    /// Performs all actions of a step.
    fn perform(&mut self, heard: Heard) {
        let unsent = self.transport.send(&heard.wire, self.party, |line| self.client.posting(line));
        if self.tap.is_on() {
            self.tap.sent(Some(self.dialect), &heard.wire, |frame| !unsent.contains(&frame.span.start));
        }
        if let Some(behind) = self.transport.behind().filter(|_| !heard.wire.is_empty()) {
            self.count_unsent(behind.end - heard.wire.len() as u64..behind.end, &heard.wire);
        }
        // Server requests of one call that arrive together are passed on together.
        let (mut asked_in, mut asked) = (None, Vec::new());
        for event in heard.events {
            match event {
                Event::Asked(id, call, question) => {
                    if call != asked_in {
                        self.ask(asked_in, std::mem::take(&mut asked));
                    }
                    asked_in = call;
                    asked.push((id, question));
                }
                event => {
                    self.ask(asked_in, std::mem::take(&mut asked));
                    self.event(event);
                }
            }
        }
        self.ask(asked_in, asked);
    }

    /// The upstream, as listeners of the tap see it.
    fn tapped_peer(&self, agreement: &Agreement) -> TappedPeer {
        TappedPeer::Server {
            name: agreement.server.name.clone(),
            version: agreement.server.version.clone(),
            upstream: self.name.clone(),
            process: self.transport.process(),
            url: self.transport.url(),
        }
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Opened(agreement) => {
                let agreement = redacted::agreement(agreement);
                self.tap.opened(&agreement, self.tapped_peer(&agreement));
                self.opening = Some(Ok(agreement));
            }
            Event::Refused(refusal) => self.opening = Some(Err(redacted::refusal(refusal))),
            Event::Answered(call, outcome) => {
                if let Some(pending) = self.calls.remove(&call) {
                    // The caller may be gone.
                    let _ = pending.reply.send(outcome.map_err(|failure| self.failed(failure)));
                }
            }
            Event::Notice(notice) => self.notice(notice),
            Event::Asked(id, call, question) => self.ask(call, vec![(id, question)]),
            Event::Unasked(question) => {
                if let Some((answer_task, call)) = self.asked.remove(&question) {
                    answer_task.abort();
                    self.resume_timeout(call);
                }
            }
            Event::LetGo(lane) => self.transport.let_go(lane),
            Event::Dropped(what) => tracing::debug!(what, "dropped what the upstream sent"),
            Event::Passed(what) => tracing::debug!(what, "let pass what the upstream sent"),
        }
    }

    /// How the process ended while calls were running.
    async fn process_end(&mut self) -> Option<String> {
        let end = ProcessEnd::of(&mut self.transport).await?;
        Some(end.describe(&named(self.name.as_deref()), "during the call"))
    }

    /// The failure that the caller receives. If the upstream process ended, the message says how.
    fn failed(&self, failure: Failure) -> Failure {
        match (&self.ending, failure.kind) {
            (Some(ending), FailureKind::UpstreamLost) => Failure { message: ending.clone(), ..failure },
            _ => redacted::failure(failure),
        }
    }

    fn notice(&mut self, notice: Notice) {
        let notice = redacted::notice(notice);
        let expires = self.expiry();
        let pending = notice.about().and_then(|call| self.calls.get_mut(&call));
        let events = match pending {
            Some(pending) => {
                // The notice shows that the call is alive. A call that continues as a task is polled, and has no
                // timeout.
                let is_task = matches!(notice, Notice::GoesOnAsTask(_));
                pending.expires = pending.expires.and(expires).filter(|_| !is_task);
                pending.events.as_ref()
            }
            None => None,
        };
        events.unwrap_or(&self.events).notice(notice);
    }
}

/// The dialect of a server whose reply shows that it does not understand us.
fn recognizes_reply(line: &[u8]) -> Option<&'static Dialect> {
    let text = std::str::from_utf8(line).ok()?;
    let line = FirstLine { text, members: Members::parse(text).ok() };
    REGISTRY.iter().copied().find(|dialect| (dialect.recognizes_reply)(&line))
}

async fn receive(commands: Option<&mut mpsc::Receiver<Command>>) -> Option<Command> {
    match commands {
        Some(commands) => commands.recv().await,
        None => std::future::pending().await,
    }
}

async fn receive_aside(asides: Option<&mut mpsc::UnboundedReceiver<Aside>>) -> Option<Aside> {
    match asides {
        Some(asides) => asides.recv().await,
        None => std::future::pending().await,
    }
}
