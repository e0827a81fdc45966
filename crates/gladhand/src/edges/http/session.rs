//! One peer behind HTTP: a door, the ways back to the peer, and what is running for it.
//!
//! Steps are short and happen under one lock. Whoever answers a call may tell or ask its caller from
//! within the call, so the hub is asked while the lock is open: lock, step, open, ask the hub, lock,
//! hand in what it said. An answer that is there by then costs no task and no channel.

use std::collections::HashMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use gladhand_accord::Agreement;
use gladhand_dialects::mcp::revision::Revision;
use gladhand_dialects::{Action, Ambient, Door, Lane, Output, Stop};
use gladhand_hub::{Answer, Asking, Caller, Work};
use gladhand_operations::{Answered, Call, CallId, Failure, FailureKind, Notice, Outcome, QuestionId};
use gladhand_wire::Line;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use super::events::Events;
use super::lanes::Lanes;
use super::shared::Shared;
use super::stream::{Numbering, ReaderToken, Taken};
use crate::edges::clock::Clock;

/// What a session's side may keep for calls in flight before it takes no more.
const MOST_HELD: usize = 64 * 1024 * 1024;

/// Names a session towards its peer. Whoever knows it may use the session, so it is never shown.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct SessionId(u128);

impl SessionId {
    /// A fresh one that nobody can guess.
    pub(super) fn draw() -> Self {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).expect("the operating system has random bytes once it has booted");
        Self(u128::from_ne_bytes(bytes))
    }

    /// Reads one as it is written.
    pub(super) fn read(text: &str) -> Option<Self> {
        let is_ours = text.len() == 32 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        is_ours.then(|| u128::from_str_radix(text, 16).ok().map(Self)).flatten()
    }

    /// As it goes over the wire.
    pub(super) fn written(self) -> String {
        format!("{:032x}", self.0)
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

/// How a peer uses HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Manner {
    /// Streamable HTTP with a session: streams can be resumed, and a lost connection cancels nothing.
    Session,
    /// Streamable HTTP without one: whoever lets go of an exchange gives it up.
    Stateless,
    /// One stream for everything that we say (2024-11-05).
    Pair,
}

/// What became of a message that was posted.
#[derive(Debug)]
pub(super) enum Posted {
    /// It wants no answer.
    Accepted,
    /// Its answer.
    Answer(Bytes),
    /// Its answer takes a while, or is more than one line.
    Stream(Events),
    /// Too much is under way.
    Busy,
}

/// One peer.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) manner: Manner,
    /// Who opened it; nobody else may use it.
    pub(super) principal: Option<Arc<str>>,
    pub(super) shared: Arc<Shared>,
    /// Itself, for whoever answers calls.
    this: Weak<Self>,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    door: Door,
    clock: Clock,
    lanes: Lanes,
    /// Calls that were delivered and have not ended.
    running: HashMap<CallId, Running>,
    /// Where answers to questions go.
    questions: HashMap<QuestionId, oneshot::Sender<Answered>>,
    asked: u64,
    /// The moment for which a timer is set, and the timer.
    alarm: Option<(Duration, AbortHandle)>,
    used: Instant,
    ended: bool,
}

/// A call that was delivered.
#[derive(Debug)]
struct Running {
    lane: Lane,
    /// How to stop it, once it is a task.
    task: Option<AbortHandle>,
}

/// A call on its way to the hub.
type Delivery<'a> = (Call<'a>, Arc<Agreement>);

/// What the hub said to a call.
enum Said {
    Outcome(Outcome),
    Later(Work),
    AsTask(Work),
}

impl Session {
    pub(super) fn new(manner: Manner, shared: Arc<Shared>, principal: Option<Arc<str>>) -> Arc<Self> {
        let clock = Clock::start();
        let numbering = if manner == Manner::Session { Numbering::Numbered } else { Numbering::Plain };
        let inner = Inner {
            door: shared.door(manner, &clock),
            clock,
            lanes: Lanes::new(numbering, shared.config.replay_bytes),
            running: HashMap::new(),
            questions: HashMap::new(),
            asked: 0,
            alarm: None,
            used: Instant::now(),
            ended: false,
        };
        Arc::new_cyclic(|this| Self { manner, principal, shared, this: Weak::clone(this), inner: Mutex::new(inner) })
    }

    /// A message came. `asks` says whether it wants an answer.
    pub(super) fn post(&self, body: &[u8], asks: bool, principal: Option<&str>) -> Posted {
        let lane = {
            let mut inner = self.lock();
            inner.used = Instant::now();
            let per_session =
                self.manner != Manner::Session || inner.lanes.under_way() < self.shared.config.streams_per_session;
            if inner.ended || !per_session || !self.shared.has_room_for_streams() || inner.door.held() > MOST_HELD {
                return Posted::Busy;
            }
            if self.manner == Manner::Pair { Lane::MAIN } else { inner.lanes.open() }
        };
        self.drive(lane, principal, |door, ambient, out| door.receive(Line::Bytes(body), ambient, out));
        if lane == Lane::MAIN {
            return Posted::Accepted;
        }
        let mut inner = self.lock();
        let Some(stream) = inner.lanes.get(lane) else { return Posted::Accepted };
        if stream.ended().is_some()
            && let Some(line) = stream.only_line().cloned()
        {
            inner.lanes.remove(lane);
            return Posted::Answer(line);
        }
        if !asks {
            inner.lanes.remove(lane);
            return Posted::Accepted;
        }
        let reader = stream.attach();
        drop(inner);
        Posted::Stream(self.events(lane, reader))
    }

    /// Reads the main stream; whoever read it before reads it no more.
    pub(super) fn listen(&self) -> Events {
        let mut inner = self.lock();
        inner.used = Instant::now();
        let reader = inner.lanes.main().attach();
        drop(inner);
        self.events(Lane::MAIN, reader)
    }

    /// Reads a stream on from an event, if the rest is still kept.
    pub(super) fn resume(&self, lane: Lane, last_seen: u64) -> Option<Events> {
        let mut inner = self.lock();
        inner.used = Instant::now();
        let reader = inner.lanes.get(lane)?.resume(last_seen)?;
        drop(inner);
        Some(self.events(lane, reader))
    }

    /// What there is for the reader of a stream.
    pub(super) fn take(&self, lane: Lane, reader: ReaderToken, waker: &Waker) -> Taken {
        self.lock().lanes.get(lane).map_or(Taken::End, |stream| stream.take(reader, waker))
    }

    /// The reader of a stream is gone.
    pub(super) fn let_go(&self, lane: Lane, reader: ReaderToken) {
        let mut inner = self.lock();
        inner.used = Instant::now();
        let Some(stream) = inner.lanes.get(lane) else { return };
        stream.detach(reader);
        let unanswered = stream.ended().is_none();
        if self.manner == Manner::Stateless {
            inner.lanes.remove(lane);
            drop(inner);
            if unanswered {
                self.drive(Lane::MAIN, None, |door, ambient, out| door.hung_up(lane, ambient, out));
            }
        }
    }

    /// Something changed for everybody.
    pub(super) fn notice(&self, notice: Notice) {
        self.drive(Lane::MAIN, None, |door, ambient, out| door.notice(notice, ambient, out));
    }

    /// Takes nothing new, ends what only waits for news; calls in flight go on.
    pub(super) fn stop(&self, stop: Stop) {
        self.drive(Lane::MAIN, None, |door, ambient, out| door.stop(stop, ambient, out));
        let mut inner = self.lock();
        inner.ended = true;
        if self.manner != Manner::Pair || inner.running.is_empty() {
            inner.lanes.end(Lane::MAIN);
        }
    }

    /// Ends the session: calls in flight are failed, streams are ended.
    pub(super) fn end(&self, stop: Stop) {
        if !self.lock().ended {
            self.stop(stop);
        }
        self.fail_everything();
        let mut inner = self.lock();
        inner.questions.clear();
        inner.lanes.end_all();
        if let Some((_, alarm)) = inner.alarm.take() {
            alarm.abort();
        }
    }

    /// Whether nobody has used it since a moment, and nobody is waiting for anything. Also tidies up.
    pub(super) fn is_idle(&self, since: Instant, answers_kept_since: Instant) -> bool {
        let mut inner = self.lock();
        inner.lanes.forget(answers_kept_since);
        inner.used < since && inner.running.is_empty() && !inner.lanes.is_busy()
    }

    fn fail_everything(&self) {
        loop {
            let calls = {
                let mut inner = self.lock();
                inner.running.drain().filter_map(|(_, running)| running.task).for_each(|task| task.abort());
                let mut calls = inner.door.in_flight();
                calls.sort_unstable();
                calls
            };
            if calls.is_empty() {
                return;
            }
            // The newest first: ending one that runs would start the next of a dialect's queue.
            for call in calls.into_iter().rev() {
                let failure = Failure::new(FailureKind::Stopping, "the session ended before the call did");
                self.drive(Lane::MAIN, None, |door, ambient, out| door.resolve(call, Err(failure), ambient, out));
            }
        }
    }

    /// Takes a step and does what follows from it, until nothing is left.
    fn drive<'a>(
        &self,
        lane: Lane,
        principal: Option<&str>,
        step: impl FnOnce(&mut Door, &mut Ambient<'_>, &mut Output<'a>),
    ) {
        let mut deliveries = {
            let mut inner = self.lock();
            inner.clock.tick();
            let principal = principal.or(self.principal.as_deref());
            let deliveries = self.step(&mut inner, lane, principal, step);
            self.set_alarm(&mut inner);
            deliveries
        };
        while !deliveries.is_empty() {
            let said: Vec<_> = deliveries.into_iter().map(|(call, agreement)| self.deliver(call, &agreement)).collect();
            let mut inner = self.lock();
            deliveries = Vec::new();
            for (call, said) in said {
                // Cancelled in between: nobody wants to know.
                let Some(running) = inner.running.get_mut(&call) else { continue };
                match said {
                    Said::Outcome(outcome) => {
                        inner.running.remove(&call);
                        deliveries.extend(self.step(&mut inner, lane, None, |door, ambient, out| {
                            door.resolve(call, outcome, ambient, out);
                        }));
                    }
                    Said::Later(work) => running.task = Some(self.spawn(call, work)),
                    Said::AsTask(work) => {
                        running.task = Some(self.spawn(call, work));
                        deliveries.extend(self.step(&mut inner, lane, None, |door, ambient, out| {
                            door.goes_on_as_task(call, ambient, out);
                        }));
                    }
                }
            }
            self.set_alarm(&mut inner);
        }
    }

    /// One step of the door, and everything that it asks for except calls.
    fn step<'a>(
        &self,
        inner: &mut Inner,
        lane: Lane,
        principal: Option<&str>,
        step: impl FnOnce(&mut Door, &mut Ambient<'_>, &mut Output<'a>),
    ) -> Vec<Delivery<'a>> {
        let mut out = Output::onto(Vec::new());
        let mut ambient = inner.clock.ambient();
        ambient.lane = lane;
        ambient.principal = principal;
        step(&mut inner.door, &mut ambient, &mut out);
        inner.send(&mut out, self.manner);
        let mut deliveries = Vec::new();
        for action in out.actions {
            match action {
                Action::Deliver(call, agreement) => {
                    inner.running.insert(call.id, Running { lane, task: None });
                    deliveries.push((call, agreement));
                }
                Action::Cancel(call) => inner.cancel(call),
                Action::Opened(agreement) => self.opened(inner, &agreement),
                Action::Refused(refusal) => tracing::warn!(%refusal, "no session"),
                Action::Dropped(what) => tracing::debug!(what, "dropped"),
                Action::Answered(question, answered) => {
                    if let Some(answer) = inner.questions.remove(&question) {
                        // Whoever asked may have stopped waiting.
                        let _ = answer.send(answered);
                    }
                }
                Action::Unwatch(uri) => self.shared.hub().unwatch(&uri),
                Action::LetGo(lane, pause) => {
                    if self.manner == Manner::Session
                        && let Some(stream) = inner.lanes.get(lane)
                    {
                        stream.let_go(pause);
                    }
                }
                // There is no goodbye in this dialect; a session that ends is ended by its transport.
                Action::Close(_) => {}
            }
        }
        deliveries
    }

    fn opened(&self, inner: &mut Inner, agreement: &Agreement) {
        let (dialect, version, client) = (agreement.dialect, agreement.version.as_str(), &agreement.client.name);
        if self.manner == Manner::Stateless {
            tracing::debug!(dialect, version, client, "new terms of requests without a session");
        } else {
            tracing::info!(dialect, version, client, "session open");
            inner.lanes.primes = Revision::named(version).is_some_and(Revision::has_polling);
        }
    }

    /// Asks the hub, without a lock.
    fn deliver(&self, call: Call<'_>, agreement: &Arc<Agreement>) -> (CallId, Said) {
        let id = call.id;
        let Some(this) = self.this.upgrade() else {
            return (id, Said::Outcome(Err(Failure::new(FailureKind::Stopping, "the session has ended"))));
        };
        let caller: Arc<dyn Caller> = this;
        let said = match self.shared.hub().answer(call, agreement, &caller) {
            Answer::Now(outcome) => Said::Outcome(outcome),
            Answer::AsTask(work) => Said::AsTask(work),
            Answer::Later(mut work) | Answer::TaskLater(mut work) => {
                // Much that could take a while does not: then it needs neither a task nor a stream.
                match poll_guarded(&mut work, &mut Context::from_waker(Waker::noop())) {
                    Poll::Ready(outcome) => Said::Outcome(outcome),
                    Poll::Pending => Said::Later(work),
                }
            }
        };
        (id, said)
    }

    /// Lets work go on as a task; its outcome comes back here.
    fn spawn(&self, call: CallId, mut work: Work) -> AbortHandle {
        let this = Weak::clone(&self.this);
        let task = async move {
            let outcome = std::future::poll_fn(|cx| poll_guarded(&mut work, cx)).await;
            if let Some(session) = this.upgrade() {
                session.finished(call, outcome);
            }
        };
        self.shared.calls.spawn_on(task, &self.shared.runtime).abort_handle()
    }

    fn finished(&self, call: CallId, outcome: Outcome) {
        let Some(running) = self.lock().running.remove(&call) else { return };
        self.drive(running.lane, None, |door, ambient, out| door.resolve(call, outcome, ambient, out));
        let mut inner = self.lock();
        if self.manner == Manner::Pair && inner.ended && inner.running.is_empty() {
            inner.lanes.end(Lane::MAIN);
        }
    }

    /// Sees to it that the door is woken when it wants to be.
    fn set_alarm(&self, inner: &mut Inner) {
        let Some(deadline) = inner.door.deadline() else { return };
        if inner.ended || inner.alarm.as_ref().is_some_and(|(set, _)| *set <= deadline) {
            return;
        }
        let (at, this) = (inner.clock.instant(deadline), Weak::clone(&self.this));
        let timer = self.shared.runtime.spawn(async move {
            tokio::time::sleep_until(at).await;
            if let Some(session) = this.upgrade() {
                session.wake();
            }
        });
        if let Some((_, replaced)) = inner.alarm.replace((deadline, timer.abort_handle())) {
            replaced.abort();
        }
    }

    fn wake(&self) {
        self.lock().alarm = None;
        self.drive(Lane::MAIN, None, |door, ambient, out| {
            if door.deadline().is_some_and(|deadline| deadline <= ambient.now.elapsed) {
                door.wake(ambient, out);
            }
        });
    }

    fn events(&self, lane: Lane, reader: ReaderToken) -> Events {
        // Whoever calls this holds the session.
        let session = self.this.upgrade().expect("a session that is being used is there");
        Events::new(session, lane, reader)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Hands the lines of a step to the ways on which they go.
    fn send(&mut self, out: &mut Output<'_>, manner: Manner) {
        if out.wire.is_empty() {
            return;
        }
        let pieces: Vec<_> = out.pieces().map(|(lane, piece)| (lane, piece.len())).collect();
        let wire = Bytes::from(std::mem::take(&mut out.wire));
        let mut begin = 0;
        for (lane, length) in pieces {
            let lane = if manner == Manner::Pair { Lane::MAIN } else { lane };
            let piece = wire.slice(begin..begin + length);
            begin += length;
            let mut from = 0;
            for end in memchr::memchr_iter(b'\n', &piece) {
                self.lanes.push(lane, piece.slice(from..end));
                from = end + 1;
            }
        }
    }

    /// Nobody wants a call any more. An exchange that waited for nothing else ends without an answer.
    fn cancel(&mut self, call: CallId) {
        let Some(Running { lane, task }) = self.running.remove(&call) else { return };
        if let Some(task) = task {
            task.abort();
        }
        if lane != Lane::MAIN && !self.running.values().any(|running| running.lane == lane) {
            self.lanes.end(lane);
        }
    }

    /// Whether whoever hears of a call takes what it is sent.
    fn has_room(&mut self, about: Option<CallId>) -> bool {
        let running = about.and_then(|call| self.running.get(&call));
        let lane = running.map(|running| running.lane);
        !lane.and_then(|lane| self.lanes.get(lane)).is_some_and(|stream| stream.is_behind())
    }
}

impl Caller for Session {
    fn tell(&self, notice: Notice) {
        let has_room = self.lock().has_room(notice.about());
        if has_room || matches!(notice, Notice::ComeBackLater(..)) {
            self.notice(notice);
        }
    }

    fn ask(&self, call: CallId, questions: Vec<Asking>) {
        let asked = {
            let mut inner = self.lock();
            if inner.ended {
                return;
            }
            // A question whose answer nobody awaits any more is forgotten here, at the latest.
            inner.questions.retain(|_, answer| !answer.is_closed());
            let mut asked = Vec::with_capacity(questions.len());
            for Asking { question, answer } in questions {
                inner.asked += 1;
                let id = QuestionId(inner.asked);
                inner.questions.insert(id, answer);
                asked.push((id, question));
            }
            asked
        };
        self.drive(Lane::MAIN, None, |door, ambient, out| door.ask(call, asked, ambient, out));
    }
}

/// Polls work that may panic: that fails its call and nothing else.
fn poll_guarded(work: &mut Work, cx: &mut Context<'_>) -> Poll<Outcome> {
    // Nothing of ours is touched by it, so nothing of ours can be left half changed; it is not polled again.
    let polled = catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(cx)));
    polled.unwrap_or_else(|_| Poll::Ready(Err(Failure::panicked())))
}
