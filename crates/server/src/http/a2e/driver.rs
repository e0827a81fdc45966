//! How an agent's session is driven: a step of our side, everything that follows from it, and work that goes on.
//!
//! Steps are short and happen under one lock. A provider may send notifications to the caller while a call runs, so the
//! lock is released before calling the hub. An outcome is written only while the agent reads its
//! stream. The number of concurrent calls is limited, and so is the number of waiting outcomes.

use std::collections::VecDeque;
use std::sync::{Arc, MutexGuard, Weak};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use gladhand_core::negotiation::Agreement;
use gladhand_core::operations::{Call, CallId, Failure, FailureKind, Notice, Outcome};
use gladhand_core::wire::Frames;
use gladhand_dialects::{Action, Ambient, Door, Output};
use gladhand_hub::{Answer, Caller, SessionId, Work};
use tokio::task::AbortHandle;

use super::super::driver::poll_guarded;
use super::session::{AgentSession, Inner, Running, Settled};
use crate::session_log::SessionLog;
use gladhand_session::violations;

impl AgentSession {
    /// One step of our side, and everything that it asks for except what the hub must do once the lock is open.
    pub(super) fn step<'a>(
        &self,
        inner: &mut Inner,
        step: impl FnOnce(&mut Door, &mut Ambient<'_>, &mut Output<'a>),
    ) -> VecDeque<Action<'a>> {
        let mut out = Output::onto(Frames::default());
        let mut ambient = inner.clock.ambient();
        ambient.principal = self.who.principal.as_deref();
        step(&mut inner.door, &mut ambient, &mut out);
        let (wire, frames) = std::mem::take(&mut out.wire).into_parts();
        let wire = Bytes::from(wire);
        for frame in frames {
            inner.outlet.push(self.counted(wire.slice(frame.span), inner.outlet.is_read()));
        }
        out.actions.into_iter().filter_map(|action| self.perform(inner, action)).collect()
    }

    /// Whether our side may be given something to answer or to tell: there is room for it on the way to a reader, or in what
    /// the party may keep for a reader that is away. Outcomes and events need not ask: they have counted before.
    pub(super) fn may_speak(&self, inner: &Inner) -> bool {
        inner.outlet.has_room() && (inner.outlet.is_read() || self.shared.kept.admits(self.who.party))
    }

    /// A message that counts for the party while it waits: for a reader that is there, or for one that is away.
    fn counted(&self, message: Bytes, is_read: bool) -> Bytes {
        if is_read {
            self.shared.counted(message, self.who.party)
        } else {
            self.shared.kept_answer(message, self.who.party)
        }
    }

    /// Does what an action asks for, or hands it back for the hub.
    fn perform<'a>(&self, inner: &mut Inner, action: Action<'a>) -> Option<Action<'a>> {
        match action {
            Action::Deliver(mut call, agreement) => {
                (call.terms.principal, call.terms.party) = (self.who.principal.clone(), Some(self.who.party));
                if call.terms.scopes.is_some() {
                    call.terms.record = Some(Arc::clone(&self.record));
                }
                let name = inner.visit.as_ref().map(|visit| visit.count(&call.operation));
                inner.running.insert(call.id, Running { name, task: None });
                return Some(Action::Deliver(call, agreement));
            }
            Action::Opened(ref agreement) => {
                let session = inner.visit.as_ref().map_or(SessionId::NONE, |visit| visit.id());
                inner.log = Some(SessionLog::open(agreement, session));
                inner.client = Some(agreement.client.name.clone());
                if let Some(visit) = &inner.visit {
                    visit.opened(agreement, self.who.principal.as_deref());
                }
                return Some(action);
            }
            Action::Unwatch(..) | Action::RootsChanged => return Some(action),
            Action::Cancel(call) => {
                if let Some(Running { task: Some((task, _)), .. }) = inner.running.remove(&call) {
                    task.abort();
                }
                inner.settled.retain(|settled| settled.call != call);
            }
            // Any client may try to connect, so this is logged at info level.
            Action::Refused(refusal) => tracing::info!(%refusal, "no session"),
            Action::Dropped(what) => tracing::debug!(what, "dropped"),
            Action::Declined(declined) => {
                let principal = self.who.principal.as_deref();
                violations::write_down(self.shared.hub(), &declined, principal, self.session());
            }
            Action::Passed(what) => tracing::debug!(what, "let pass"),
            Action::Answered(question, answered) => inner.questions.answered(question, answered),
            // There is only one way, and it stays.
            Action::LetGo(..) => {}
            Action::Close(grace) => {
                tracing::info!(grace_s = grace.as_secs(), "the agent said goodbye");
                inner.close(grace);
            }
        }
        None
    }

    /// Does what follows from a step until nothing is left, or nothing more can be written.
    pub(super) fn follow_up<'a>(&'a self, mut inner: MutexGuard<'a, Inner>, mut errands: VecDeque<Action<'_>>) {
        while !inner.has_ended {
            if let Some(errand) = errands.pop_front() {
                drop(inner);
                let said = self.run(errand);
                inner = self.lock();
                match said {
                    Some((call, Said::Outcome(outcome))) => inner.settle(call, outcome, &self.shared, self.who.party),
                    Some((call, Said::Later(work))) => {
                        let Inner { running, visit, .. } = &mut *inner;
                        // A call that was cancelled in between is dropped.
                        if let Some(running) = running.get_mut(&call) {
                            let busy = visit.as_ref().zip(running.name.take()).map(|(visit, name)| visit.busy(name));
                            running.task = Some((self.spawn(call, work), busy));
                        }
                    }
                    None => {}
                }
                continue;
            }
            let next = if inner.outlet.has_room() { inner.settled.pop_front() } else { None };
            let Some(Settled { call, outcome, .. }) = next else {
                self.pass_events_on(&mut inner, |inner| inner.outlet.has_room());
                break;
            };
            // Events from before the outcome are written before it.
            self.pass_events_on(&mut inner, |_| true);
            if inner.running.remove(&call).is_some() {
                errands.extend(self.step(&mut inner, |door, ambient, out| door.resolve(call, outcome, ambient, out)));
            }
        }
        inner.count_under_way();
        self.set_alarm(&mut inner);
        let is_done = inner.closing.is_some() && inner.door.in_flight().is_empty();
        drop(inner);
        if is_done {
            self.end();
        }
    }

    /// Appends an event to the queue, and writes as many as there is room for.
    pub(super) fn tell_in_order(&self, event: Notice) {
        self.following.push(event);
        let mut inner = self.lock();
        if !inner.has_ended {
            inner.clock.tick();
            self.pass_events_on(&mut inner, |inner| inner.outlet.has_room());
            inner.count_events(self.following.bytes());
        }
    }

    /// Writes events while there are any and `may_go_on` agrees.
    fn pass_events_on(&self, inner: &mut Inner, may_go_on: impl Fn(&Inner) -> bool) {
        let mut has_passed = false;
        while may_go_on(inner)
            && let Some(event) = self.following.pop()
        {
            has_passed = true;
            // Events cause no further actions.
            let _ = self.step(inner, |door, ambient, out| door.notice(event, ambient, out));
        }
        if has_passed {
            inner.count_events(self.following.bytes());
        }
    }

    /// Performs an action that needs the hub, without the lock. Returns the hub's answer to a call.
    fn run(&self, errand: Action<'_>) -> Option<(CallId, Said)> {
        match errand {
            Action::Deliver(call, agreement) => return Some(self.deliver(call, &agreement)),
            Action::Opened(_) => {
                if let Some(this) = self.this.upgrade() {
                    let caller: Arc<dyn Caller> = this;
                    self.shared.hub().joined(&caller);
                }
            }
            Action::Unwatch(uri, id) => self.shared.hub().unwatch(&uri, id),
            Action::RootsChanged => self.shared.hub().roots_changed(self.session()),
            _ => {}
        }
        None
    }

    fn deliver(&self, call: Call<'_>, agreement: &Arc<Agreement>) -> (CallId, Said) {
        let id = call.id;
        let Some(this) = self.this.upgrade() else {
            return (id, Said::Outcome(Err(Failure::new(FailureKind::Stopping, "the session has ended"))));
        };
        let caller: Arc<dyn Caller> = this;
        let said = match self.shared.hub().answer(call, agreement, &caller) {
            Answer::Now(outcome) => Said::Outcome(outcome),
            Answer::Later(mut work) | Answer::TaskLater(mut work) | Answer::AsTask(mut work) => {
                // Many calls complete on the first poll, and need no task.
                match poll_guarded(&mut work, &mut Context::from_waker(Waker::noop())) {
                    Poll::Ready(outcome) => Said::Outcome(outcome),
                    Poll::Pending => Said::Later(work),
                }
            }
        };
        (id, said)
    }

    /// Spawns a call as a task, whose outcome returns to this session.
    fn spawn(&self, call: CallId, mut work: Work) -> AbortHandle {
        let this = Weak::clone(&self.this);
        let task = async move {
            let outcome = std::future::poll_fn(|cx| poll_guarded(&mut work, cx)).await;
            if let Some(session) = this.upgrade() {
                let mut inner = session.lock();
                inner.clock.tick();
                inner.settle(call, outcome, &session.shared, session.who.party);
                session.follow_up(inner, VecDeque::new());
            }
        };
        self.shared.calls.spawn_on(task, &self.shared.runtime()).abort_handle()
    }

    /// Fails every unfinished call with an error that says so.
    pub(super) fn fail_everything(&self, inner: &mut Inner) {
        inner.clock.tick();
        inner.settled.clear();
        loop {
            inner.running.drain().filter_map(|(_, running)| running.task).for_each(|(task, _)| task.abort());
            let mut calls = inner.door.in_flight();
            calls.sort_unstable();
            if calls.is_empty() {
                return;
            }
            // Newest first: ending a running call would start the next call in the dialect's queue.
            for call in calls.into_iter().rev() {
                let failure = Failure::new(FailureKind::Stopping, "the session ended before the call did");
                // Calls that start now fail in the next round.
                let _ = self.step(inner, |door, ambient, out| door.resolve(call, Err(failure), ambient, out));
            }
        }
    }

    /// Sets the timer for the next deadline of the state machine, or for the end of a closing session.
    fn set_alarm(&self, inner: &mut Inner) {
        let Some(at) = inner.door.deadline().into_iter().chain(inner.closing).min() else { return };
        if inner.has_ended {
            return;
        }
        let this = Weak::clone(&self.this);
        inner.alarm.set(at, &inner.clock, &self.shared.runtime(), move || {
            if let Some(session) = this.upgrade() {
                session.wake();
            }
        });
    }

    fn wake(&self) {
        let mut inner = self.lock();
        inner.alarm.went_off();
        inner.clock.tick();
        let now = inner.clock.now().elapsed;
        if inner.closing.is_some_and(|fail_at| fail_at <= now) {
            drop(inner);
            return self.end();
        }
        let errands = match inner.door.deadline() {
            Some(deadline) if deadline <= now => self.step(&mut inner, Door::wake),
            _ => VecDeque::new(),
        };
        self.follow_up(inner, errands);
    }
}

/// The hub's answer to a call.
enum Said {
    Outcome(Outcome),
    Later(Work),
}
