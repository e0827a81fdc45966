//! One A2E agent behind HTTP: its server state machine, its outgoing messages, and its running calls.
//!
//! This file holds the operations that other modules perform on a session. The `driver` module drives the state
//! machine.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::Waker;
use std::time::{Duration, Instant};

use gladhand_core::operations::{
    AgentEvent, CallId, CapabilityEvent, Failure, FailureKind, Notice, Outcome, ScopeRecord, outcome_weight,
};
use gladhand_core::sync::Unpoisoned as _;
use gladhand_core::wire::Line;
use gladhand_dialects::shares::Holder;
use gladhand_dialects::{Door, Party, Pass, Stop};
use gladhand_hub::{Asking, Busy, CallName, Caller, Portion, SessionId, Settling, Visit};
use tokio::task::AbortHandle;

use super::super::alarm::Alarm;
use super::super::served::ConnectionState;
use super::super::session_id::SessionId as WireId;
use super::super::shared::{SMALL, Shared};
use super::super::stream::Taken;
use super::super::who::Who;
use super::agents::Leaving;
use super::outlet::Outlet;
use super::stream::AgentStream;
use crate::following::Following;
use crate::questions::Questions;
use crate::session_log::SessionLog;
use gladhand_session::clock::Clock;
use gladhand_session::violations;

/// How many bytes the server side may hold for calls in flight. Above this, it refuses new requests.
const MOST_HELD: usize = 64 * 1024 * 1024;

/// Outcomes up to this size are not counted while they wait: a session has few of them.
const SMALL_OUTCOME: usize = 4 * 1024;

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
    pub(super) who: Who,
    /// The scopes that its content needs. Another token of the principal may lack some of them.
    pub(super) record: Arc<ScopeRecord>,
    /// The id of this session in the hub.
    id: SessionId,
    /// Queues events until the stream has room.
    pub(super) following: Arc<Following>,
    /// A weak reference to this session, which providers use to call back.
    pub(super) this: Weak<Self>,
    /// Unregisters the session when it ends.
    pub(super) leaving: Leaving,
    begun: Instant,
    inner: Mutex<Inner>,
}

/// The mutable state, under one lock.
#[derive(Debug)]
pub(super) struct Inner {
    pub(super) door: Door,
    pub(super) clock: Clock,
    pub(super) outlet: Outlet,
    /// The registration with the hub, until the session ends.
    pub(super) visit: Option<Visit>,
    /// Calls that were delivered and have not ended.
    pub(super) running: HashMap<CallId, Running>,
    /// Outcomes that wait until the stream has room.
    pub(super) settled: VecDeque<Settled>,
    /// The bytes of waiting and running calls, within the global limit.
    under_way: Portion,
    /// The bytes of waiting events, within the global limit.
    events: Portion,
    /// Whether the party stays within its share of that limit.
    has_room_for_events: bool,
    pub(super) questions: Questions,
    /// The pending timer and its deadline.
    pub(super) alarm: Alarm,
    used: Instant,
    /// The name that the agent declares, once it is admitted.
    pub(super) client: Option<String>,
    /// Present while the session is open.
    pub(super) log: Option<SessionLog>,
    /// Set while closing: the session accepts nothing new, and calls in flight fail at this time of the session clock.
    pub(super) closing: Option<Duration>,
    pub(super) has_ended: bool,
}

/// An outcome that waits until the stream has room.
#[derive(Debug)]
pub(super) struct Settled {
    pub(super) call: CallId,
    pub(super) outcome: Outcome,
    /// The share of the global byte limit that a large outcome occupies.
    _kept: Option<Portion>,
}

/// A call that was delivered.
#[derive(Debug)]
pub(super) struct Running {
    /// The name of the call, until the call is shown as running.
    pub(super) name: Option<CallName>,
    /// Aborts the call once it runs as a task, and marks it as running.
    pub(super) task: Option<(AbortHandle, Option<Busy>)>,
}

impl AgentSession {
    pub(super) fn new(shared: Arc<Shared>, who: Who, door: Door, clock: Clock, leaving: Leaving) -> Arc<Self> {
        let begun = Instant::now();
        let (under_way, events) = (shared.under_way.portion(who.party), shared.kept.portion(who.party));
        let visit = shared.hub().visit();
        let id = visit.id();
        let inner = Inner {
            door,
            clock,
            outlet: Outlet::default(),
            visit: Some(visit),
            running: HashMap::new(),
            settled: VecDeque::new(),
            under_way,
            events,
            has_room_for_events: true,
            questions: Questions::default(),
            alarm: Alarm::default(),
            used: begun,
            client: None,
            log: None,
            closing: None,
            has_ended: false,
        };
        Arc::new_cyclic(|this| Self {
            shared,
            who,
            record: Arc::default(),
            id,
            following: Arc::default(),
            this: Weak::clone(this),
            leaving,
            begun,
            inner: Mutex::new(inner),
        })
    }

    /// Processes one message of the session's principal, whose token may have different scopes than the opening token.
    /// A response goes to the event stream.
    pub(super) fn send(&self, message: &[u8], who: &Who) -> Sent {
        let mut inner = self.lock();
        inner.touch();
        if inner.closing.is_some() || inner.has_ended {
            return Sent::Deaf;
        }
        let is_busy = !self.may_speak(&inner) || !inner.has_room_for(message.len());
        // Even with unread messages, an agent may send a few requests that stop a call.
        if is_busy && !(super::calls::stops_something(message) && inner.outlet.takes_stop()) {
            inner.count_under_way();
            return Sent::Busy;
        }
        let (was_open, mut breaches) = (inner.client.is_some(), Vec::new());
        let errands = self.step(&mut inner, |door, ambient, out| {
            ambient.scopes.clone_from(&who.scopes);
            door.receive(Line::Bytes(message), ambient, out);
            breaches = violations::of_actions(&out.actions);
        });
        let has_opened = !was_open && inner.client.is_some();
        self.follow_up(inner, errands);
        if !breaches.is_empty() {
            let client = self.lock().client.clone().unwrap_or_default();
            if violations::note_client(self.shared.hub(), &client, &breaches, message) {
                self.end();
            }
        }
        if has_opened { Sent::Opened } else { Sent::Taken }
    }

    /// Whether the handshake has arrived.
    pub(super) fn is_open(&self) -> bool {
        self.lock().client.is_some()
    }

    /// Attaches a reader to the event stream. It replaces the previous reader. Returns `None` if the session is over.
    pub(super) fn listen(&self, line: Arc<ConnectionState>, who: &Who) -> Option<AgentStream> {
        let mut inner = self.lock();
        if inner.has_ended {
            return None;
        }
        inner.touch();
        let reader = inner.outlet.attach(line);
        drop(inner);
        Some(AgentStream::new(self.this.upgrade()?, reader, who.scopes.clone()))
    }

    /// Returns the events that are ready for the reader.
    pub(super) fn take(&self, reader: u64, waker: &Waker) -> Taken {
        let mut inner = self.lock();
        let was_full = inner.outlet.has_handed_much();
        let taken = inner.outlet.take(reader, waker);
        if (was_full || matches!(taken, Taken::Events(_))) && !inner.has_ended {
            // The stream may now have room for waiting outcomes.
            self.follow_up(inner, VecDeque::new());
        }
        taken
    }

    /// The reader disconnected.
    pub(super) fn let_go(&self, reader: u64) {
        let mut inner = self.lock();
        inner.touch();
        inner.outlet.detach(reader);
    }

    /// Applies new passes. The session ends if none of them admits it.
    pub(super) fn readmit(&self, passes: &[Pass]) {
        let mut inner = self.lock();
        if inner.has_ended {
            return;
        }
        inner.clock.tick();
        let errands = self.step(&mut inner, |door, ambient, out| door.readmit(passes, ambient, out));
        self.follow_up(inner, errands);
    }

    /// Refuses new messages. Calls in flight continue for a grace period.
    pub(super) fn stop(&self, stop: Stop) {
        let mut inner = self.lock();
        inner.clock.tick();
        let errands = self.step(&mut inner, |door, ambient, out| door.stop(stop, ambient, out));
        let grace = self.shared.service.bounds().drain;
        inner.close(grace);
        self.follow_up(inner, errands);
    }

    /// Ends the session: calls in flight fail, and the reader receives the remaining messages before the end.
    pub(super) fn end(&self) {
        let mut inner = self.lock();
        if std::mem::replace(&mut inner.has_ended, true) {
            return;
        }
        self.fail_everything(&mut inner);
        inner.under_way.resize(0);
        inner.count_events(0);
        inner.questions.forget();
        inner.outlet.end();
        inner.alarm.stop();
        inner.log = None;
        // Release the session's resources now, without waiting for the last connection to close.
        let visit = inner.visit.take();
        drop(inner);
        self.following.close();
        drop(visit);
        self.leaving.leave();
    }

    /// Whether the session has expired: no handshake in time, or idle for too long.
    pub(super) fn is_overdue(&self, now: Instant, handshake: Duration, idle: Duration) -> bool {
        let inner = self.lock();
        let is_late = |since: Instant, patience| now.saturating_duration_since(since) > patience;
        inner.client.is_none() && is_late(self.begun, handshake) || inner.is_idle() && is_late(inner.used, idle)
    }

    /// Describes this session, under its id, for the limit on sessions. A session without a reader counts as older than
    /// all sessions with one: reading takes a connection, and connections have a separate limit.
    pub(super) fn holder(&self, id: WireId) -> Holder<WireId, (bool, Instant)> {
        let inner = self.lock();
        let used = (inner.outlet.is_read(), inner.used);
        Holder { id, party: self.who.party, used, is_idle: inner.is_idle() }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unpoisoned()
    }
}

impl Inner {
    /// Whether no call runs and no reader is attached. Before the handshake, a reader does not count.
    fn is_idle(&self) -> bool {
        self.running.is_empty() && !(self.client.is_some() && self.outlet.is_read())
    }

    /// Queues the outcome of a call until the stream has room. If the outcome is large, no reader takes it immediately
    /// and the party has used up its share, a failure replaces it.
    pub(super) fn settle(&mut self, call: CallId, mut outcome: Outcome, shared: &Shared, party: Party) {
        let weight = outcome_weight(&outcome);
        let mut kept = None;
        if weight > SMALL_OUTCOME && !(self.is_taken_at_once() && shared.has_room_for_large_answer(party)) {
            let mut portion = shared.kept.portion(party);
            if portion.grow(weight) {
                kept = Some(portion);
            } else {
                outcome = Err(Failure::not_kept());
            }
        }
        self.settled.push_back(Settled { call, outcome, _kept: kept });
    }

    /// Whether a reader takes the next outcome without delay.
    fn is_taken_at_once(&self) -> bool {
        self.outlet.is_read() && self.outlet.has_room() && self.settled.is_empty()
    }

    /// Whether the server side may hold this many more bytes.
    fn has_room_for(&mut self, more: usize) -> bool {
        let held = self.door.held();
        // Small amounts are not counted, so that small calls touch no state shared between sessions.
        held <= MOST_HELD && (held + more <= SMALL || self.under_way.resize(held + more))
    }

    /// Updates the counted bytes if they changed by more than a small amount.
    pub(super) fn count_under_way(&mut self) {
        let held = Some(self.door.held()).filter(|held| *held > SMALL).unwrap_or_default();
        if held.abs_diff(self.under_way.amount()) > SMALL {
            self.under_way.resize(held);
        }
    }

    /// Counts the bytes of waiting events. Small amounts are not counted and always fit.
    pub(super) fn count_events(&mut self, bytes: usize) {
        let counted = if bytes > SMALL { bytes } else { 0 };
        self.has_room_for_events =
            counted == self.events.amount() && self.has_room_for_events || self.events.resize(counted) || counted == 0;
    }

    /// Records that the session is in use.
    fn touch(&mut self) {
        self.clock.tick();
        self.used = Instant::now();
    }

    /// Refuses new messages from now on, and lets calls in flight run for the grace period.
    pub(super) fn close(&mut self, grace: Duration) {
        let fail_at = self.clock.now().elapsed + grace;
        self.closing = Some(self.closing.map_or(fail_at, |earlier| earlier.min(fail_at)));
    }
}

impl Caller for AgentSession {
    fn tell(&self, notice: Notice) {
        let mut inner = self.lock();
        if self.may_speak(&inner) && !inner.has_ended {
            inner.clock.tick();
            let errands = self.step(&mut inner, |door, ambient, out| door.notice(notice, ambient, out));
            self.follow_up(inner, errands);
        }
    }

    fn event(&self, event: AgentEvent) {
        self.tell_in_order(Notice::Agent(event));
    }

    fn push(&self, event: CapabilityEvent) {
        self.tell_in_order(Notice::Capability(event));
    }

    fn keeping_up(&self) -> Option<Settling> {
        self.following.keeping_up()
    }

    fn has_room_for_events(&self) -> bool {
        self.following.has_room() && self.lock().has_room_for_events
    }

    fn session(&self) -> SessionId {
        self.id
    }

    fn ask(&self, call: Option<CallId>, questions: Vec<Asking>) {
        let mut inner = self.lock();
        if inner.has_ended {
            return;
        }
        if !self.may_speak(&inner) {
            let unread = || Failure::new(FailureKind::Busy, "the agent does not read its stream");
            // If a task no longer waits, it needs no response.
            questions.into_iter().for_each(|asking| drop(asking.answer.send(Err(unread()))));
            return;
        }
        inner.clock.tick();
        let asked = inner.questions.number(questions);
        let errands = self.step(&mut inner, |door, ambient, out| door.ask(call, asked, ambient, out));
        self.follow_up(inner, errands);
    }
}
