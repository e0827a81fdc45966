//! One agent behind HTTP: our side towards it, what is on its way to it, and what is running for it.
//!
//! This file is what others may do with a session; how our side is driven is in `driver`.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::Waker;
use std::time::{Duration, Instant};

use gladhand_core::operations::{
    AgentEvent, CallId, CapabilityEvent, Failure, FailureKind, Notice, Outcome, ScopeRecord, outcome_weight,
};
use gladhand_core::wire::Line as Text;
use gladhand_dialects::shares::Holder;
use gladhand_dialects::{Door, Party, Pass, Stop};
use gladhand_hub::{Asking, Busy, CallName, Caller, Portion, SessionId, Settling, Visit};
use tokio::task::AbortHandle;

use super::super::alarm::Alarm;
use super::super::served::Line;
use super::super::session_id::SessionId as WireId;
use super::super::shared::{SMALL, Shared};
use super::super::stream::Taken;
use super::super::who::Who;
use super::agents::Leaving;
use super::outlet::Outlet;
use super::stream::AgentStream;
use crate::edges::clock::Clock;
use crate::edges::following::Following;
use crate::edges::questions::Questions;
use crate::edges::session_log::SessionLog;
use crate::edges::violations;

/// What our side may keep for calls in flight before it takes no more.
const MOST_HELD: usize = 64 * 1024 * 1024;

/// Outcomes up to this size do not count while they wait: a session has few of them.
const SMALL_OUTCOME: usize = 4 * 1024;

/// What became of a message that was sent.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Sent {
    /// It is taken, whatever it is.
    Taken,
    /// It is taken, and was the handshake that opens the session.
    Opened,
    /// Nothing is listened to any more.
    Deaf,
    /// The agent does not read what it is sent, or asks for too much at once.
    Busy,
}

/// One agent.
#[derive(Debug)]
pub(in crate::edges::http) struct AgentSession {
    pub(in crate::edges::http) shared: Arc<Shared>,
    /// Who opened it; nobody else may use it.
    pub(super) who: Who,
    /// The scopes that its content needs. Another token of the principal may lack some of them.
    pub(super) record: Arc<ScopeRecord>,
    /// Itself among all sessions.
    id: SessionId,
    /// Events that wait for room.
    pub(super) following: Arc<Following>,
    /// Itself, for whoever answers calls.
    pub(super) this: Weak<Self>,
    /// Strikes it off when it ends.
    pub(super) leaving: Leaving,
    begun: Instant,
    inner: Mutex<Inner>,
}

/// What changes, under one lock.
#[derive(Debug)]
pub(super) struct Inner {
    pub(super) door: Door,
    pub(super) clock: Clock,
    pub(super) outlet: Outlet,
    /// Its presence among all sessions, until it ends.
    pub(super) visit: Option<Visit>,
    /// Calls that were delivered and have not ended.
    pub(super) running: HashMap<CallId, Running>,
    /// Outcomes that wait until there is room for them.
    pub(super) settled: VecDeque<Settled>,
    /// What our side keeps of calls that wait or run, within a bound of all sessions.
    under_way: Portion,
    /// What events that wait for room take of what may be kept over all sessions.
    events: Portion,
    /// Whether the party may keep that much.
    has_room_for_events: bool,
    pub(super) questions: Questions,
    /// The moment for which a timer is set, and the timer.
    pub(super) alarm: Alarm,
    used: Instant,
    /// What the agent calls itself, once it was let in.
    pub(super) client: Option<String>,
    /// While it is open.
    pub(super) log: Option<SessionLog>,
    /// Nothing new is taken any more; what is in flight at this moment of the session's time fails.
    pub(super) closing: Option<Duration>,
    pub(super) has_ended: bool,
}

/// An outcome that waits until there is room for it on the stream.
#[derive(Debug)]
pub(super) struct Settled {
    pub(super) call: CallId,
    pub(super) outcome: Outcome,
    /// What it takes of the bound of all sessions, if it is large.
    _kept: Option<Portion>,
}

/// A call that was delivered.
#[derive(Debug)]
pub(super) struct Running {
    /// Its name, until it is shown as running.
    pub(super) name: Option<CallName>,
    /// How to stop it, once it is a task, and what shows it as running.
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

    /// A message came from the principal of the session, whose token may have other scopes than the one that opened it.
    /// Its answer, if it gets one, goes to the stream.
    pub(super) fn send(&self, message: &[u8], who: &Who) -> Sent {
        let mut inner = self.lock();
        inner.touch();
        if inner.closing.is_some() || inner.has_ended {
            return Sent::Deaf;
        }
        let is_busy = !self.may_speak(&inner) || !inner.has_room_for(message.len());
        // An agent may stop something a few times, whatever it has not read.
        if is_busy && !(super::calls::stops_something(message) && inner.outlet.takes_stop()) {
            inner.count_under_way();
            return Sent::Busy;
        }
        let (was_open, mut breaches) = (inner.client.is_some(), Vec::new());
        let errands = self.step(&mut inner, |door, ambient, out| {
            ambient.scopes.clone_from(&who.scopes);
            door.receive(Text::Bytes(message), ambient, out);
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

    /// Whether its handshake has come.
    pub(super) fn is_open(&self) -> bool {
        self.lock().client.is_some()
    }

    /// Reads what it says on a connection; whoever read it before reads it no more. Nothing if it is over.
    pub(super) fn listen(&self, line: Arc<Line>, who: &Who) -> Option<AgentStream> {
        let mut inner = self.lock();
        if inner.has_ended {
            return None;
        }
        inner.touch();
        let reader = inner.outlet.attach(line);
        drop(inner);
        Some(AgentStream::new(self.this.upgrade()?, reader, who.scopes.clone()))
    }

    /// What there is for the reader.
    pub(super) fn take(&self, reader: u64, waker: &Waker) -> Taken {
        let mut inner = self.lock();
        let was_full = inner.outlet.has_handed_much();
        let taken = inner.outlet.take(reader, waker);
        if (was_full || matches!(taken, Taken::Events(_))) && !inner.has_ended {
            // There may be room now for what waited.
            self.follow_up(inner, VecDeque::new());
        }
        taken
    }

    /// The reader is gone.
    pub(super) fn let_go(&self, reader: u64) {
        let mut inner = self.lock();
        inner.touch();
        inner.outlet.detach(reader);
    }

    /// Other passes hold from now on: it ends if they do not open it.
    pub(super) fn readmit(&self, passes: &[Pass]) {
        let mut inner = self.lock();
        if inner.has_ended {
            return;
        }
        inner.clock.tick();
        let errands = self.step(&mut inner, |door, ambient, out| door.readmit(passes, ambient, out));
        self.follow_up(inner, errands);
    }

    /// Takes nothing new; calls in flight go on for a while.
    pub(super) fn stop(&self, stop: Stop) {
        let mut inner = self.lock();
        inner.clock.tick();
        let errands = self.step(&mut inner, |door, ambient, out| door.stop(stop, ambient, out));
        let grace = self.shared.service.bounds().drain();
        inner.close(grace);
        self.follow_up(inner, errands);
    }

    /// Ends it: calls in flight fail, and whoever reads gets what there is, and then the end.
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
        // What is kept for it goes now, and not when the last connection has heard of it.
        let visit = inner.visit.take();
        drop(inner);
        self.following.close();
        drop(visit);
        self.leaving.leave();
    }

    /// Whether its time is over: nobody shook hands, or nobody has used it for too long and nobody waits for anything.
    pub(super) fn is_overdue(&self, now: Instant, handshake: Duration, idle: Duration) -> bool {
        let inner = self.lock();
        let is_late = |since: Instant, patience| now.saturating_duration_since(since) > patience;
        inner.client.is_none() && is_late(self.begun, handshake) || inner.is_idle() && is_late(inner.used, idle)
    }

    /// Itself as one of many, under its id. One that is not read counts as used before all that are: to read it takes a
    /// connection, and those have a bound of their own.
    pub(super) fn holder(&self, id: WireId) -> Holder<WireId, (bool, Instant)> {
        let inner = self.lock();
        let used = (inner.outlet.is_read(), inner.used);
        Holder { id, party: self.who.party, used, is_idle: inner.is_idle() }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Whether nothing runs, and nobody reads who has shaken hands.
    fn is_idle(&self) -> bool {
        self.running.is_empty() && !(self.client.is_some() && self.outlet.is_read())
    }

    /// A call has an outcome, which waits until there is room for it on the stream. If it is large, no reader takes it at
    /// once, and the party may keep no more, a failure takes its place.
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

    /// Whether a reader takes the next outcome without waiting.
    fn is_taken_at_once(&self) -> bool {
        self.outlet.is_read() && self.outlet.has_room() && self.settled.is_empty()
    }

    /// Whether our side may keep so much more.
    fn has_room_for(&mut self, more: usize) -> bool {
        let held = self.door.held();
        // Little is not counted, so that small calls touch nothing that sessions share.
        held <= MOST_HELD && (held + more <= SMALL || self.under_way.resize(held + more))
    }

    /// Counts what our side keeps, if that changed by more than a little.
    pub(super) fn count_under_way(&mut self) {
        let held = Some(self.door.held()).filter(|held| *held > SMALL).unwrap_or_default();
        if held.abs_diff(self.under_way.amount()) > SMALL {
            self.under_way.resize(held);
        }
    }

    /// Counts events that wait for room. A little does not count, and always has room.
    pub(super) fn count_events(&mut self, bytes: usize) {
        let counted = if bytes > SMALL { bytes } else { 0 };
        self.has_room_for_events =
            counted == self.events.amount() && self.has_room_for_events || self.events.resize(counted) || counted == 0;
    }

    /// Somebody uses it now.
    fn touch(&mut self) {
        self.clock.tick();
        self.used = Instant::now();
    }

    /// Takes nothing new from now on, and gives what is in flight so long.
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
            // A task that does not wait any more needs no answer.
            questions.into_iter().for_each(|asking| drop(asking.answer.send(Err(unread()))));
            return;
        }
        inner.clock.tick();
        let asked = inner.questions.number(questions);
        let errands = self.step(&mut inner, |door, ambient, out| door.ask(call, asked, ambient, out));
        self.follow_up(inner, errands);
    }
}
