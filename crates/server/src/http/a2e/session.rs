//! One A2E agent behind HTTP: its server state machine, its outgoing messages, and its running calls.
//!
//! This file holds the operations that other modules perform on a session. `crate::driver` drives the state machine;
//! `transport` is the way to the agent.

use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::Waker;
use std::time::{Duration, Instant};

use gladhand_core::operations::{AgentEvent, CallId, CapabilityEvent, Failure, FailureKind, Notice, ScopeRecord};
use gladhand_core::sync::Unpoisoned as _;
use gladhand_core::wire::{Lane, Line};
use gladhand_dialects::a2e::{Host, Message};
use gladhand_dialects::shares::Holder;
use gladhand_dialects::{Action, Pass, Server, Stop};
use gladhand_hub::{Asking, Caller, Portion, SessionId, Settling};

use super::super::request_origin::RequestOrigin;
use super::super::served::ConnectionState;
use super::super::session_id::SessionId as WireId;
use super::super::shared::{SMALL, Shared};
use super::super::stream::Taken;
use super::super::wake_timer::WakeTimer;
use super::agents::Leaving;
use super::outlet::Outlet;
use super::stream::AgentStream;
use super::transport::AgentTransport;
use crate::driver::{Continuation, Driver, DriverHandle, Registration, Transport as _};
use crate::event_queue::EventQueue;
use gladhand_session::clock::Clock;

/// How many bytes the server side may hold for calls in flight. Above this, it refuses new requests.
const MOST_HELD: usize = 64 * 1024 * 1024;

/// The result of sending a message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Sent {
    /// The message was accepted.
    Taken,
    /// The message was accepted, and was the handshake that opens the session.
    Opened,
    /// The session accepts no further messages.
    Deaf,
    /// The agent does not read its stream, or has too many requests in flight.
    Busy,
}

/// One agent.
#[derive(Debug)]
pub(in crate::http) struct AgentSession {
    pub(in crate::http) shared: Arc<Shared>,
    /// The caller that opened the session. Only this caller may use it.
    pub(super) who: RequestOrigin,
    /// The scopes that its content needs. Another token of the principal may lack some of them.
    pub(super) record: Arc<ScopeRecord>,
    /// The session's registration with the hub.
    registration: Arc<Registration>,
    /// Queues events until the stream has room.
    event_queue: Arc<EventQueue>,
    /// A weak reference to this session, which providers use to call back.
    pub(super) this: Weak<Self>,
    /// Unregisters the session when it ends.
    pub(super) leaving: Leaving,
    begun: Instant,
    inner: Mutex<Inner>,
}

/// The mutable state, under one lock.
#[derive(Debug)]
struct Inner {
    driver: Driver<AgentTransport>,
    /// The bytes of waiting and running calls, within the global limit.
    under_way: Portion,
    /// The pending timer and its deadline.
    wake_timer: WakeTimer,
    used: Instant,
}

impl DriverHandle for &AgentSession {
    type Transport = AgentTransport;
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

    fn locked<R>(&mut self, work: impl FnOnce(&mut Driver<AgentTransport>) -> R) -> R {
        work(&mut self.lock().driver)
    }
}

impl AgentSession {
    /// The id of the session in the hub.
    pub(super) fn in_hub(&self) -> SessionId {
        self.registration.session()
    }

    pub(super) fn new(
        shared: Arc<Shared>,
        who: RequestOrigin,
        host: Host,
        clock: Clock,
        leaving: Leaving,
    ) -> Arc<Self> {
        let begun = Instant::now();
        let registration = Registration::new(shared.hub().clone(), shared.hub().visit(), shared.service.tap());
        Arc::new_cyclic(|this| {
            let (record, event_queue) = (Arc::<ScopeRecord>::default(), Arc::<EventQueue>::default());
            let transport = AgentTransport {
                shared: Arc::clone(&shared),
                who: who.clone(),
                record: Arc::clone(&record),
                event_queue: Arc::clone(&event_queue),
                outlet: Outlet::default(),
                events: shared.kept.portion(who.party),
                has_room_for_events: true,
                closing: None,
                session: Weak::clone(this),
            };
            let inner = Inner {
                driver: Driver::new(host, clock, transport, Arc::clone(&registration)),
                under_way: shared.under_way.portion(who.party),
                wake_timer: WakeTimer::default(),
                used: begun,
            };
            let (this, inner) = (Weak::clone(this), Mutex::new(inner));
            Self { shared, who, record, registration, event_queue, this, leaving, begun, inner }
        })
    }

    /// Takes a step, and does everything that follows from it. Nothing happens once the session has ended.
    pub(super) fn drive(&self, step: impl FnOnce(&mut Driver<AgentTransport>) -> Vec<Action<'static>>) {
        let mut inner = self.lock();
        if inner.driver.has_ended() {
            return;
        }
        inner.driver.clock.tick();
        let actions = step(&mut inner.driver);
        drop(inner);
        self.follow_up(actions);
    }

    /// Does what follows from a step until nothing is left, or nothing more can be written.
    fn follow_up(&self, actions: Vec<Action<'_>>) {
        let mut this = self;
        DriverHandle::follow_up(&mut this, actions, Continuation::AsTask);
        let is_done = loop {
            let mut inner = self.lock();
            if inner.driver.has_ended() {
                return;
            }
            let actions = inner.driver.write_waiting();
            if actions.is_empty() {
                inner.count_under_way();
                self.set_wake_timer(&mut inner);
                break inner.transport().closing.is_some() && inner.driver.side.in_flight().is_empty();
            }
            drop(inner);
            DriverHandle::follow_up(&mut this, actions, Continuation::AsTask);
        };
        if is_done {
            self.end();
        }
    }

    /// Sets the timer for the next deadline of the state machine, or for the end of a closing session.
    fn set_wake_timer(&self, inner: &mut Inner) {
        let closing = inner.transport().closing;
        let Some(at) = inner.driver.side.poll_timeout().into_iter().chain(closing).min() else { return };
        let this = Weak::clone(&self.this);
        inner.wake_timer.set(at, &inner.driver.clock, &self.shared.runtime(), move || {
            if let Some(session) = this.upgrade() {
                session.wake();
            }
        });
    }

    fn wake(&self) {
        let mut inner = self.lock();
        inner.wake_timer.fired();
        inner.driver.clock.tick();
        let now = inner.driver.clock.now().elapsed;
        let is_over = inner.transport().closing.is_some_and(|fail_at| fail_at <= now);
        drop(inner);
        if is_over {
            return self.end();
        }
        self.drive(Driver::wake);
    }

    /// Appends an event to the queue, and writes as many as there is room for.
    fn tell_in_order(&self, event: Notice) {
        self.event_queue.push(event);
        // Events are written before the outcomes that wait behind them.
        self.drive(|driver| {
            let actions = driver.write_waiting();
            let waiting = driver.transport.event_queue.bytes();
            driver.transport.count_events(waiting);
            actions
        });
    }

    /// Processes one message of the session's principal, whose token may have different scopes than the opening token.
    /// A response goes to the event stream.
    pub(super) fn send(&self, message: Message<'_>, line: &[u8], who: &RequestOrigin) -> Sent {
        let mut inner = self.lock();
        inner.touch();
        if inner.transport().closing.is_some() || inner.driver.has_ended() {
            return Sent::Deaf;
        }
        let is_busy = !inner.transport().may_speak() || !inner.has_room_for(line.len());
        // Even with unread messages, an agent may send a few requests that stop a call.
        if is_busy && !(message.stops_something() && inner.transport().outlet.takes_stop()) {
            inner.count_under_way();
            return Sent::Busy;
        }
        let was_open = inner.driver.client().is_some();
        let frame = (Lane::MAIN, Line::Bytes(line));
        let (actions, violated) =
            inner.driver.receive(Some(who), frame, |host, ambient, out| host.take(message, ambient, out));
        let has_opened = !was_open && inner.driver.client().is_some();
        drop(inner);
        self.follow_up(actions);
        let mut this = self;
        if this.note_violations(&violated, line) {
            self.end();
        }
        if has_opened { Sent::Opened } else { Sent::Taken }
    }

    /// Whether the handshake has arrived.
    pub(super) fn is_open(&self) -> bool {
        self.lock().driver.client().is_some()
    }

    /// Attaches a reader to the event stream. It replaces the previous reader. Returns `None` if the session is over.
    pub(super) fn listen(&self, line: Arc<ConnectionState>, who: &RequestOrigin) -> Option<AgentStream> {
        let mut inner = self.lock();
        if inner.driver.has_ended() {
            return None;
        }
        inner.touch();
        let reader = inner.transport().outlet.attach(line);
        drop(inner);
        Some(AgentStream::new(self.this.upgrade()?, reader, who.scopes.clone()))
    }

    /// Returns the events that are ready for the reader.
    pub(super) fn take(&self, reader: u64, waker: &Waker) -> Taken {
        let mut inner = self.lock();
        let outlet = &mut inner.transport().outlet;
        let was_full = outlet.has_handed_much();
        let taken = outlet.take(reader, waker);
        drop(inner);
        if was_full || matches!(taken, Taken::Events(_) | Taken::Message(_)) {
            // The stream may now have room for waiting outcomes.
            self.follow_up(Vec::new());
        }
        match taken {
            // The outlet keeps the messages until they have left, so a copy for the connection counts too.
            Taken::Events(events) => Taken::Events(self.shared.counted(events, self.who.party)),
            other => other,
        }
    }

    /// The reader has passed on all of a large message.
    pub(super) fn passed_on(&self, reader: u64) {
        self.lock().transport().outlet.passed_on(reader);
    }

    /// The reader disconnected.
    pub(super) fn let_go(&self, reader: u64) {
        let mut inner = self.lock();
        inner.touch();
        inner.transport().outlet.detach(reader);
    }

    /// Applies new passes. The session ends if none of them admits it.
    pub(super) fn set_passes(&self, passes: &[Pass]) {
        self.drive(|driver| driver.step(None, |host, ambient, out| host.set_passes(passes, ambient, out)));
    }

    /// Refuses new messages. Calls in flight continue for a grace period.
    pub(super) fn stop(&self, stop: Stop) {
        let grace = self.shared.service.bounds().drain;
        self.drive(|driver| {
            let actions = driver.step(None, |host, ambient, out| host.stop(stop, ambient, out));
            driver.transport.close(grace, &driver.clock);
            actions
        });
    }

    /// Ends the session: calls in flight fail, and the reader receives the remaining messages before the end.
    pub(super) fn end(&self) {
        let mut inner = self.lock();
        if inner.driver.has_ended() {
            return;
        }
        let actions = inner.driver.end();
        inner.under_way.resize(0);
        inner.transport().count_events(0);
        inner.transport().outlet.end();
        inner.wake_timer.stop();
        drop(inner);
        let mut this = self;
        DriverHandle::follow_up(&mut this, actions, Continuation::AsTask);
        self.event_queue.close();
        // Release the session's resources now, without waiting for the last connection to close.
        self.registration.visit.end();
        self.leaving.leave();
    }

    /// Whether the session has expired: no handshake in time, or idle for too long.
    pub(super) fn is_overdue(&self, now: Instant, handshake: Duration, idle: Duration) -> bool {
        let inner = self.lock();
        let is_late = |since: Instant, limit| now.saturating_duration_since(since) > limit;
        inner.driver.client().is_none() && is_late(self.begun, handshake)
            || inner.is_idle() && is_late(inner.used, idle)
    }

    /// Describes this session, under its id, for the limit on sessions. A session without a reader counts as older than
    /// all sessions with one: reading takes a connection, and connections have a separate limit.
    pub(super) fn holder(&self, id: WireId) -> Holder<WireId, (bool, Instant)> {
        let inner = self.lock();
        let used = (inner.driver.transport.outlet.is_read(), inner.used);
        Holder { id, party: self.who.party, used, is_idle: inner.is_idle() }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unpoisoned()
    }
}

impl Inner {
    fn transport(&mut self) -> &mut AgentTransport {
        &mut self.driver.transport
    }

    /// Whether no call runs and no reader is attached. Before the handshake, a reader does not count.
    fn is_idle(&self) -> bool {
        let is_read = self.driver.transport.outlet.is_read();
        self.driver.running() == 0 && !(self.driver.client().is_some() && is_read)
    }

    /// Whether the server side may hold this many more bytes.
    fn has_room_for(&mut self, more: usize) -> bool {
        let held = self.driver.side.held_bytes();
        // Small amounts are not counted, so that small calls touch no state shared between sessions.
        held <= MOST_HELD && (held + more <= SMALL || self.under_way.resize(held + more))
    }

    /// Updates the counted bytes if they changed by more than a small amount.
    fn count_under_way(&mut self) {
        let held = Some(self.driver.side.held_bytes()).filter(|held| *held > SMALL).unwrap_or_default();
        if held.abs_diff(self.under_way.amount()) > SMALL {
            self.under_way.resize(held);
        }
    }

    /// Records that the session is in use.
    fn touch(&mut self) {
        self.driver.clock.tick();
        self.used = Instant::now();
    }
}

impl Caller for AgentSession {
    fn tell(&self, notice: Notice) {
        self.drive(|driver| match driver.transport.may_speak() {
            true => driver.notify(notice),
            false => Vec::new(),
        });
    }

    fn event(&self, event: AgentEvent) {
        self.tell_in_order(Notice::Agent(event));
    }

    fn push(&self, event: CapabilityEvent) {
        self.tell_in_order(Notice::Capability(event));
    }

    fn keeping_up(&self) -> Option<Settling> {
        self.event_queue.keeping_up()
    }

    fn has_room_for_events(&self) -> bool {
        self.event_queue.has_room() && self.lock().driver.transport.has_room_for_events
    }

    fn session(&self) -> SessionId {
        self.registration.session()
    }

    fn ask(&self, call: Option<CallId>, questions: Vec<Asking>) {
        self.drive(|driver| {
            if driver.transport.may_speak() {
                return driver.ask(call, questions);
            }
            let unread = || Failure::new(FailureKind::Busy, "the agent does not read its stream");
            // If a task no longer waits, it needs no response.
            questions.into_iter().for_each(|asking| drop(asking.answer.send(Err(unread()))));
            Vec::new()
        });
    }
}
