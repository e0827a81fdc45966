//! One agent behind HTTP: our side towards it, what is on its way to it, and what is running for it.
//!
//! This file is what others may do with a session; how our side is driven is in `driver`.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::Waker;
use std::time::{Duration, Instant};

use gladhand_dialects::shares::Holder;
use gladhand_dialects::{Door, Pass, Stop};
use gladhand_hub::{Asking, Caller, SessionId, Settling, Visit};
use gladhand_operations::{AgentEvent, CallId, CapabilityEvent, Notice, Outcome};
use gladhand_wire::Line as Text;
use tokio::task::AbortHandle;

use super::super::alarm::Alarm;
use super::super::served::Line;
use super::super::session_id::SessionId as WireId;
use super::super::shared::Shared;
use super::super::stream::Taken;
use super::super::who::Who;
use super::agents::Leaving;
use super::outlet::Outlet;
use super::stream::AgentStream;
use crate::edges::clock::Clock;
use crate::edges::following::Following;
use crate::edges::questions::Questions;
use crate::edges::violations;

/// What our side may keep for calls in flight before it takes no more.
const MOST_HELD: usize = 64 * 1024 * 1024;

/// What became of a message that was sent.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Sent {
    /// It is taken, whatever it is.
    Taken,
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
    /// Itself among all sessions, and its presence there, which ends with the session.
    id: SessionId,
    visit: Mutex<Option<Visit>>,
    /// Events that wait for room.
    pub(super) following: Arc<Following>,
    /// Itself, for whoever answers calls.
    pub(super) this: Weak<Self>,
    /// Strikes it off when it ends.
    leaving: Leaving,
    begun: Instant,
    inner: Mutex<Inner>,
}

/// What changes, under one lock.
#[derive(Debug)]
pub(super) struct Inner {
    pub(super) door: Door,
    pub(super) clock: Clock,
    pub(super) outlet: Outlet,
    /// Calls that were delivered and have not ended; how to stop those that are tasks.
    pub(super) running: HashMap<CallId, Option<AbortHandle>>,
    /// Outcomes that wait until there is room for them.
    pub(super) settled: VecDeque<(CallId, Outcome)>,
    pub(super) questions: Questions,
    /// The moment for which a timer is set, and the timer.
    pub(super) alarm: Alarm,
    used: Instant,
    /// What the agent calls itself, once it was let in.
    pub(super) client: Option<String>,
    /// Nothing new is taken any more; what is in flight at this moment of the session's time fails.
    pub(super) closing: Option<Duration>,
    pub(super) has_ended: bool,
}

impl AgentSession {
    pub(super) fn new(shared: Arc<Shared>, who: Who, door: Door, clock: Clock, leaving: Leaving) -> Arc<Self> {
        let begun = Instant::now();
        let inner = Inner {
            door,
            clock,
            outlet: Outlet::default(),
            running: HashMap::new(),
            settled: VecDeque::new(),
            questions: Questions::default(),
            alarm: Alarm::default(),
            used: begun,
            client: None,
            closing: None,
            has_ended: false,
        };
        let visit = shared.hub().visit();
        Arc::new_cyclic(|this| Self {
            shared,
            who,
            id: visit.id(),
            visit: Mutex::new(Some(visit)),
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
        // Who wants to stop something may say so, whatever it has not read.
        let is_busy = !inner.outlet.has_room() || inner.door.held() > MOST_HELD;
        if is_busy && !super::calls::stops_something(message) {
            return Sent::Busy;
        }
        let mut breaches = Vec::new();
        let errands = self.step(&mut inner, |door, ambient, out| {
            ambient.scopes.clone_from(&who.scopes);
            door.receive(Text::Bytes(message), ambient, out);
            breaches = violations::of_actions(&out.actions);
        });
        self.follow_up(inner, errands);
        if !breaches.is_empty() {
            let client = self.lock().client.clone().unwrap_or_default();
            if violations::note_client(self.shared.hub(), &client, &breaches, message) {
                self.end();
            }
        }
        Sent::Taken
    }

    /// Reads what it says on a connection; whoever read it before reads it no more. Nothing if it is over.
    pub(super) fn listen(&self, line: Arc<Line>) -> Option<AgentStream> {
        let mut inner = self.lock();
        if inner.has_ended {
            return None;
        }
        inner.touch();
        let reader = inner.outlet.attach(line);
        drop(inner);
        Some(AgentStream::new(self.this.upgrade()?, reader))
    }

    /// What there is for the reader.
    pub(super) fn take(&self, reader: u64, waker: &Waker) -> Taken {
        let mut inner = self.lock();
        let taken = inner.outlet.take(reader, waker);
        if matches!(taken, Taken::Events(_)) && !inner.has_ended {
            // There is room now for what waited.
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
        inner.questions.forget();
        inner.outlet.end();
        inner.alarm.stop();
        drop(inner);
        self.following.close();
        // What is kept for it goes now, and not when the last connection has heard of it.
        let visit = self.visit.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(visit);
        self.leaving.leave();
    }

    /// Whether its time is over: nobody shook hands, or nobody has used it for too long and nobody waits for anything.
    pub(super) fn is_overdue(&self, now: Instant, handshake: Duration, idle: Duration) -> bool {
        let inner = self.lock();
        let is_late = |since: Instant, patience| now.saturating_duration_since(since) > patience;
        inner.client.is_none() && is_late(self.begun, handshake) || inner.is_idle() && is_late(inner.used, idle)
    }

    /// Itself as one of many, under its id. One without a handshake counts as used before all others.
    pub(super) fn holder(&self, id: WireId) -> Holder<WireId, (bool, Instant)> {
        let inner = self.lock();
        Holder { id, party: self.who.party, used: (inner.client.is_some(), inner.used), is_idle: inner.is_idle() }
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
        if inner.outlet.has_room() && !inner.has_ended {
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

    fn session(&self) -> SessionId {
        self.id
    }

    fn ask(&self, call: Option<CallId>, questions: Vec<Asking>) {
        let mut inner = self.lock();
        if inner.has_ended {
            return;
        }
        inner.clock.tick();
        let asked = inner.questions.number(questions);
        let errands = self.step(&mut inner, |door, ambient, out| door.ask(call, asked, ambient, out));
        self.follow_up(inner, errands);
    }
}
