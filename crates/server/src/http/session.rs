//! One MCP peer behind HTTP: its server state machine, its streams, and its running calls.
//!
//! This file holds the operations that other modules perform on a session. `crate::driver` drives the state machine;
//! `transport` is the way to the peer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::{Poll, Waker};
use std::time::Instant;

use gladhand_core::operations::{CallId, Failure, FailureKind, Notice, Outcome, ScopeRecord};
use gladhand_core::sync::Unpoisoned as _;
use gladhand_core::wire::Line;
use gladhand_dialects::mcp::{McpServer, Message};
use gladhand_dialects::shares::Holder;
use gladhand_dialects::{Action, Ambient, Lane, Output, RuleViolation, Server, Stop};
use gladhand_hub::{Asking, Caller, SessionId};

use super::events::Events;
use super::lanes::{Lanes, OutgoingFrame};
use super::pending_response::PendingResponse;
use super::request_origin::RequestOrigin;
use super::session_id::SessionId as WireId;
use super::shared::{Shared, count_calls};
use super::stream::{Numbering, ReaderToken, Stream, Taken};
use super::transport::{HttpTransport, Sender};
use super::wake_timer::WakeTimer;
use crate::driver::{Continuation, Driver, DriverHandle, InlineCall, Registration};
use gladhand_session::clock::Clock;

/// How many bytes a session may hold for calls in flight. Above this, it refuses new requests.
const MOST_HELD: usize = 64 * 1024 * 1024;

/// How a peer uses HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Manner {
    /// Streamable HTTP with a session: streams can be resumed, and a lost connection cancels nothing.
    Session,
    /// Streamable HTTP without a session: when the connection of an exchange closes, its call is cancelled.
    Stateless,
    /// One event stream carries every message to the client (2024-11-05).
    OldTransport,
}

/// The result of posting a message.
#[derive(Debug)]
pub(super) enum Posted {
    /// The message needs no response.
    Accepted,
    /// The response.
    Answer(OutgoingFrame),
    /// The response is pending, or needs an event stream.
    Later(PendingResponse),
    /// The session or its party has reached a limit.
    Busy,
}

/// One peer.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) manner: Manner,
    /// The caller that opened the session. Only this caller may use it.
    pub(super) who: RequestOrigin,
    /// The scopes that its content needs. Another token of the principal may lack some of them.
    pub(super) record: Arc<ScopeRecord>,
    pub(super) shared: Arc<Shared>,
    /// The session's registration with the hub.
    registration: Arc<Registration>,
    /// Whether the client broke an enforced rule.
    refused: AtomicBool,
    /// A weak reference to this session, which providers use to call back.
    pub(super) this: Weak<Self>,
    inner: Mutex<Inner>,
}

/// The mutable state, under one lock.
#[derive(Debug)]
struct Inner {
    driver: Driver<HttpTransport>,
    /// The pending timer and its deadline.
    wake_timer: WakeTimer,
    used: Instant,
    /// The session accepts no further messages.
    is_closed: bool,
}

impl DriverHandle for &Session {
    type Transport = HttpTransport;
    type Caller<'s>
        = Arc<dyn Caller>
    where
        Self: 's;

    fn registration(&self) -> &Registration {
        &self.registration
    }

    fn caller(&self) -> Option<Arc<dyn Caller>> {
        self.this.upgrade().map(|this| this as Arc<dyn Caller>)
    }

    fn locked<R>(&mut self, work: impl FnOnce(&mut Driver<HttpTransport>) -> R) -> R {
        let mut inner = self.lock();
        let done = work(&mut inner.driver);
        self.set_wake_timer(&mut inner);
        done
    }
}

impl Session {
    pub(super) fn new(manner: Manner, shared: Arc<Shared>, who: RequestOrigin) -> Arc<Self> {
        let clock = Clock::start();
        let numbering = if manner == Manner::Session { Numbering::Numbered } else { Numbering::Plain };
        let visit = match manner {
            Manner::Stateless => shared.hub().visit_without_session(),
            Manner::Session | Manner::OldTransport => shared.hub().visit(),
        };
        let registration = Registration::new(shared.hub().clone(), visit, shared.service.tap());
        Arc::new_cyclic(|this| {
            let (this, record) = (Weak::clone(this), Arc::<ScopeRecord>::default());
            let transport = HttpTransport {
                lanes: Lanes::new(numbering, shared.options.replay_bytes, shared.kept.portion(who.party)),
                manner,
                who: who.clone(),
                record: Arc::clone(&record),
                shared: Arc::clone(&shared),
                session: Weak::clone(&this),
            };
            let server = shared.server(manner, who.party, &clock);
            let driver = Driver::new(server, clock, transport, Arc::clone(&registration));
            let inner = Inner { driver, wake_timer: WakeTimer::default(), used: Instant::now(), is_closed: false };
            let (refused, inner) = (AtomicBool::new(false), Mutex::new(inner));
            Self { manner, who, record, shared, registration, refused, this, inner }
        })
    }

    /// Takes a step of the server side, and does everything that follows from it.
    fn drive(&self, step: impl FnOnce(&mut McpServer, &mut Ambient<'_>, &mut Output<'static>)) {
        let mut this = self;
        DriverHandle::drive(&mut this, |driver| driver.step(Sender::NONE, step));
    }

    fn follow_up(&self, actions: Vec<Action<'_>>, pending: Continuation) -> Option<InlineCall> {
        let mut this = self;
        DriverHandle::follow_up(&mut this, actions, pending)
    }

    /// Runs a former inline call as a task, if it still runs.
    pub(super) fn go_on(&self, call: InlineCall) {
        self.lock().driver.go_on(call);
    }

    /// Records the outcome of a call. A connection that is polling this lane needs no wake-up.
    pub(super) fn finished(&self, call: CallId, outcome: Outcome, awake: Option<Lane>) {
        let mut inner = self.lock();
        if inner.driver.ticket(call).is_none() {
            return;
        }
        if let Some(lane) = awake {
            inner.lanes().is_awake(lane);
        }
        inner.driver.clock.tick();
        // Under the same lock: a concurrent cancellation would otherwise find neither a call nor a response.
        let actions = inner.driver.settle(call, outcome);
        self.set_wake_timer(&mut inner);
        drop(inner);
        self.follow_up(actions, Continuation::AsTask);
        if self.manner == Manner::OldTransport {
            let mut inner = self.lock();
            if inner.is_closed && inner.driver.running() == 0 {
                inner.lanes().end(Lane::MAIN);
            }
        }
    }

    /// Sets the timer for the next deadline of the state machine.
    fn set_wake_timer(&self, inner: &mut Inner) {
        let Some(deadline) = inner.driver.side.poll_timeout() else { return };
        if inner.is_closed {
            return;
        }
        let this = Weak::clone(&self.this);
        inner.wake_timer.set(deadline, &inner.driver.clock, &self.shared.runtime(), move || {
            if let Some(session) = this.upgrade() {
                session.wake();
            }
        });
    }

    fn wake(&self) {
        self.lock().wake_timer.fired();
        let mut this = self;
        DriverHandle::drive(&mut this, Driver::wake);
    }

    /// Updates the offer of the stateless side after the provided content has changed.
    pub(super) fn offer_anew(&self) {
        if self.manner == Manner::Stateless {
            let service = &self.shared.service;
            self.lock().driver.side.set_offer(service.identified(), service.menu());
        }
    }

    /// Whether the message carries an opening of this version that the server already agreed to.
    pub(super) fn knows(&self, message: &Message<'_>, version: &str) -> bool {
        self.lock().driver.side.knows(message, version)
    }

    /// The id of the session in the hub.
    pub(super) fn in_hub(&self) -> SessionId {
        self.registration.session()
    }

    /// The tap sees a message that is accepted and changes nothing.
    pub(super) fn ignore(&self, body: &[u8]) {
        self.lock().driver.tap_received(Lane::MAIN, Line::Bytes(body));
    }

    /// Processes one message, which was parsed from a body. In a session, the sender is the principal of the session, but
    /// its token may have different scopes.
    pub(super) fn post(&self, message: &Message<'_>, body: &[u8], who: &RequestOrigin) -> Posted {
        // With a pair of addresses, the response goes to the event stream of the session.
        let asks = self.manner != Manner::OldTransport && message.wants_answer();
        let mut inner = self.lock();
        inner.touch();
        // Limits apply to requests only. Cancellations and responses to our requests always pass.
        let is_busy =
            asks && (inner.lanes().under_way() >= self.most_exchanges() || !self.shared.streams.admits(who.party));
        // Stateless callers share one server side, so only the fair global limit applies to them.
        let holds_much = self.manner != Manner::Stateless && inner.driver.side.held_bytes() > MOST_HELD;
        if inner.is_closed || is_busy || holds_much {
            return Posted::Busy;
        }
        let under_way = match message.wants_answer() {
            true => count_calls(&self.shared.under_way, message.size(), self.calls_beside(&inner), who.party),
            false => Ok(None),
        };
        let Ok(under_way) = under_way else { return Posted::Busy };
        let lane = if self.manner == Manner::OldTransport { Lane::MAIN } else { inner.lanes().open() };
        let (sender, text) = (Sender { lane, who: Some(who), under_way: under_way.as_ref() }, message.text());
        let frame = (lane, Line::Bytes(body));
        let (actions, violated) =
            inner.driver.receive(sender, frame, |server, ambient, out| server.take(message, ambient, out));
        self.set_wake_timer(&mut inner);
        drop(inner);
        let carried = self.follow_up(actions, if asks { Continuation::Inline } else { Continuation::AsTask });
        self.note(&violated, text.as_bytes());
        let mut inner = self.lock();
        if lane == Lane::MAIN {
            return Posted::Accepted;
        }
        if carried.is_none()
            && let Some(frame) = inner.lanes().take_answer(lane)
        {
            return Posted::Answer(frame);
        }
        if !asks {
            inner.lanes().remove(lane);
            return Posted::Accepted;
        }
        if self.manner == Manner::Stateless {
            inner.lanes().belongs_to(lane, who.clone());
        }
        drop(inner);
        Posted::Later(PendingResponse::new(self.held(), lane, carried))
    }

    /// Waits for the response of an exchange. Returns `None` once the exchange needs an event stream.
    pub(super) fn poll_answer(&self, lane: Lane, waker: &Waker) -> Poll<Option<OutgoingFrame>> {
        self.lock().lanes().poll_answer(lane, waker)
    }

    /// Reads an exchange as an event stream. Returns `None` if the exchange is over.
    pub(super) fn stream(&self, lane: Lane) -> Option<Events> {
        let reader = self.lock().lanes().get(lane)?.attach();
        Some(self.events(lane, reader))
    }

    /// The client stopped waiting for the response of an exchange.
    pub(super) fn give_up(&self, lane: Lane) {
        let mut inner = self.lock();
        if inner.lanes().take_answer(lane).is_some() {
            return;
        }
        // Treat it like an event stream whose reader disconnected.
        let reader = inner.lanes().get(lane).map(Stream::attach);
        drop(inner);
        if let Some(reader) = reader {
            self.let_go(lane, reader);
        }
    }

    /// Records protocol violations of the client. A stateless exchange has no session to end.
    fn note(&self, violated: &[RuleViolation], body: &[u8]) {
        let mut this = self;
        if this.note_violations(violated, body) && self.manner != Manner::Stateless {
            self.refused.store(true, Ordering::Relaxed);
            if self.manner == Manner::OldTransport {
                self.end(Stop::Terminated);
            }
        }
    }

    /// Whether the client broke an enforced rule. The caller must then end the session by its id.
    pub(super) fn is_refused(&self) -> bool {
        self.refused.load(Ordering::Relaxed)
    }

    /// Attaches a reader to the main stream. It replaces the previous reader.
    pub(super) fn listen(&self) -> Events {
        let mut inner = self.lock();
        inner.touch();
        let reader = inner.lanes().main().attach();
        drop(inner);
        self.events(Lane::MAIN, reader)
    }

    /// Resumes a stream after the given event, if the later events are still stored.
    pub(super) fn resume(&self, lane: Lane, last_seen: u64) -> Option<Events> {
        let mut inner = self.lock();
        inner.touch();
        let reader = inner.lanes().get(lane)?.resume(last_seen)?;
        drop(inner);
        Some(self.events(lane, reader))
    }

    /// Returns the events that are ready for the reader of a stream.
    pub(super) fn take(&self, lane: Lane, reader: ReaderToken, waker: &Waker) -> Taken {
        self.lock().lanes().take(lane, reader, waker)
    }

    /// The reader of a stream disconnected.
    pub(super) fn let_go(&self, lane: Lane, reader: ReaderToken) {
        let mut inner = self.lock();
        inner.touch();
        let unanswered = inner.lanes().detach(lane, reader);
        if self.manner == Manner::Stateless {
            inner.lanes().remove(lane);
            drop(inner);
            if unanswered {
                self.drive(|server, ambient, out| server.handle_lane_closed(lane, ambient, out));
            }
        }
    }

    /// Sends a notification about a change that concerns every client.
    pub(super) fn notify(&self, notice: Notice) {
        self.drive(|server, ambient, out| server.notify(notice, ambient, out));
    }

    /// Refuses new messages and ends subscriptions. Calls in flight continue.
    pub(super) fn stop(&self, stop: Stop) {
        self.drive(|server, ambient, out| server.stop(stop, ambient, out));
        let mut inner = self.lock();
        inner.is_closed = true;
        if self.manner != Manner::OldTransport || inner.driver.running() == 0 {
            inner.lanes().end(Lane::MAIN);
        }
    }

    /// Ends the session: calls in flight fail, and all streams end.
    pub(super) fn end(&self, stop: Stop) {
        if !self.lock().is_closed {
            self.stop(stop);
        }
        let mut inner = self.lock();
        let actions = inner.driver.end();
        inner.lanes().end_all();
        inner.wake_timer.stop();
        drop(inner);
        self.follow_up(actions, Continuation::AsTask);
    }

    /// Ends the exchanges of selected callers in a shared session: their calls in flight fail, and their streams end.
    pub(super) fn end_exchanges(&self, is_theirs: impl Fn(&RequestOrigin) -> bool) {
        let calls = self.lock().driver.abort(|ticket| ticket.who.as_ref().is_some_and(&is_theirs));
        // Newest first: ending a running call would start the next call in the dialect's queue.
        for call in calls.into_iter().rev() {
            let failure = Failure::new(FailureKind::Stopping, "the token is not valid any more");
            self.drive(|server, ambient, out| server.handle_outcome(call, Err(failure), ambient, out));
        }
        let unanswered = self.lock().lanes().unanswered(&is_theirs);
        for lane in unanswered {
            self.drive(|server, ambient, out| server.handle_lane_closed(lane, ambient, out));
            self.lock().lanes().end(lane);
        }
    }

    /// Whether the session is idle and was last used before `since`. Also removes expired responses.
    pub(super) fn is_idle(&self, since: Instant, answers_kept_since: Instant) -> bool {
        let mut inner = self.lock();
        inner.lanes().forget(answers_kept_since);
        inner.is_idle() && inner.used < since
    }

    /// Describes this session, under its id, for the limit on sessions.
    pub(super) fn holder(&self, id: WireId) -> Holder<WireId, Instant> {
        let inner = self.lock();
        Holder { id, party: self.who.party, used: inner.used, is_idle: inner.is_idle() }
    }

    /// The maximum number of concurrent exchanges. Stateless callers share the global limit instead.
    fn most_exchanges(&self) -> usize {
        match self.manner {
            Manner::Stateless => usize::MAX,
            Manner::Session | Manner::OldTransport => self.shared.options.streams_per_session,
        }
    }

    /// The number of running calls in this session. Stateless calls have a separate limit, so they count as zero.
    fn calls_beside(&self, inner: &Inner) -> usize {
        if self.manner == Manner::Stateless { 0 } else { inner.driver.running() }
    }

    fn events(&self, lane: Lane, reader: ReaderToken) -> Events {
        let mut inner = self.lock();
        let party = inner.lanes().owner(lane).unwrap_or(&self.who).party;
        inner.lanes().count_unwritten(lane, || self.shared.unwritten.portion(party));
        drop(inner);
        Events::new(self.held(), lane, reader, party)
    }

    /// An owning reference to this session. The caller already holds one.
    fn held(&self) -> Arc<Self> {
        self.this.upgrade().expect("the caller holds a reference to this session")
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unpoisoned()
    }
}

impl Inner {
    fn lanes(&mut self) -> &mut Lanes {
        &mut self.driver.transport.lanes
    }

    /// Whether no call runs and no exchange is pending.
    fn is_idle(&self) -> bool {
        self.driver.running() == 0 && !self.driver.transport.lanes.is_busy()
    }

    /// Records that the session is in use.
    fn touch(&mut self) {
        let clock = &mut self.driver.clock;
        clock.tick();
        self.used = clock.instant(clock.now().elapsed).into_std();
    }
}

impl Caller for Session {
    fn tell(&self, notice: Notice) {
        let keeps_up = {
            let mut inner = self.lock();
            let ticket = notice.about().and_then(|call| inner.driver.ticket(call));
            let lane = ticket.map(|ticket| ticket.lane);
            inner.driver.transport.keeps_up(lane)
        };
        if keeps_up || matches!(notice, Notice::ComeBackLater(..)) {
            self.notify(notice);
        }
    }

    fn session(&self) -> SessionId {
        self.registration.session()
    }

    fn ask(&self, call: Option<CallId>, questions: Vec<Asking>) {
        if self.lock().is_closed {
            return;
        }
        let mut this = self;
        DriverHandle::drive(&mut this, |driver| driver.ask(call, questions));
    }
}
