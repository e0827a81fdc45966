//! Drives a session: one step of the state machine, all actions that follow from it, and running calls.
//!
//! Steps are short and run under one lock. A provider may call back into the session while it runs, so the lock is
//! released before calling the hub: lock, step, unlock, call the hub, lock, record the result. A result that is ready
//! by then needs no task and no channel.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, MutexGuard, Weak};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use gladhand_core::negotiation::Agreement;
use gladhand_core::operations::{Call, CallId, Failure, FailureKind, Outcome, outcome_weight};
use gladhand_core::wire::{Frame, Frames};
use gladhand_dialects::mcp::McpServer;
use gladhand_dialects::mcp::revision::Revision;
use gladhand_dialects::{Action, Ambient, Lane, Output, Server};
use gladhand_hub::{Answer, CallName, Caller, Work};
use tokio::task::AbortHandle;

use super::lanes::OutgoingFrame;
use super::pending_response::InlineCall;
use super::session::{Inner, Manner, Running, Session};
use super::shared::SMALL;
use super::who::Who;
use crate::session_log::SessionLog;
use gladhand_session::violations;

/// The hub's answer to a call.
enum Said {
    Outcome(Outcome),
    Later(Work),
    AsTask(Work),
}

impl Session {
    /// Takes a step and performs all actions that follow from it.
    pub(super) fn drive<'a>(
        &self,
        lane: Lane,
        who: Option<&Who>,
        step: impl FnOnce(&mut McpServer, &mut Ambient<'_>, &mut Output<'a>),
    ) {
        let mut inner = self.lock();
        inner.clock.tick();
        self.drive_on(inner, lane, who, false, step);
    }

    /// Like `drive`, for a caller that holds the lock and has updated the clock. If a connection waits for the response
    /// and there is only one call, the call is returned for inline polling.
    pub(super) fn drive_on<'a>(
        &self,
        mut inner: MutexGuard<'_, Inner>,
        lane: Lane,
        who: Option<&Who>,
        waits: bool,
        step: impl FnOnce(&mut McpServer, &mut Ambient<'_>, &mut Output<'a>),
    ) -> Option<InlineCall> {
        let mut errands = self.step(&mut inner, lane, who, step);
        self.set_alarm(&mut inner);
        drop(inner);
        let (is_only, mut carried) = (errands.len() == 1, None);
        while !errands.is_empty() {
            let mut following = Vec::new();
            for errand in errands {
                let Some((call, name, said)) = self.run(errand) else { continue };
                let mut inner = self.lock();
                // The call was cancelled in between.
                let Some(running) = inner.running.get_mut(&call) else { continue };
                if !matches!(said, Said::Outcome(_)) {
                    running.busy = Some(self.visit.busy(name));
                }
                match said {
                    Said::Outcome(outcome) => {
                        let outcome = self.within_bound(outcome, running);
                        inner.running.remove(&call);
                        following.extend(self.step(&mut inner, lane, None, |server, ambient, out| {
                            server.resolve(call, outcome, ambient, out);
                        }));
                    }
                    Said::Later(work) if waits && is_only && carried.is_none() => {
                        carried = Some(InlineCall { call, work })
                    }
                    Said::Later(work) => running.task = Some(self.spawn(call, work)),
                    Said::AsTask(work) => {
                        running.task = Some(self.spawn(call, work));
                        following.extend(self.step(&mut inner, lane, None, |server, ambient, out| {
                            server.goes_on_as_task(call, ambient, out);
                        }));
                    }
                }
                self.set_alarm(&mut inner);
            }
            errands = following;
        }
        carried
    }

    /// Takes one step, and performs all actions except those that need the hub without the lock.
    fn step<'a>(
        &self,
        inner: &mut Inner,
        lane: Lane,
        who: Option<&Who>,
        step: impl FnOnce(&mut McpServer, &mut Ambient<'_>, &mut Output<'a>),
    ) -> Vec<Action<'a>> {
        let mut out = Output::onto(Frames::default());
        let mut ambient = inner.clock.ambient();
        ambient.lane = lane;
        ambient.principal = who.unwrap_or(&self.who).principal.as_deref();
        ambient.party = self.among_many(who).map(|who| who.party);
        ambient.scopes = self.among_many(who).and_then(|who| who.scopes.clone());
        step(&mut inner.server, &mut ambient, &mut out);
        inner.send(&mut out, self.manner);
        out.actions.into_iter().filter_map(|action| self.perform(inner, lane, who, action)).collect()
    }

    /// The sender of a message, if several callers share the session.
    fn among_many<'w>(&self, who: Option<&'w Who>) -> Option<&'w Who> {
        who.filter(|_| self.manner == Manner::Stateless)
    }

    /// Performs an action, or returns it for the hub.
    fn perform<'a>(&self, inner: &mut Inner, lane: Lane, who: Option<&Who>, action: Action<'a>) -> Option<Action<'a>> {
        match action {
            Action::Deliver(mut call, agreement) => {
                let caller = who.unwrap_or(&self.who);
                (call.terms.principal, call.terms.party) = (caller.principal.clone(), Some(caller.party));
                call.terms.scopes.clone_from(&caller.scopes);
                if self.manner != Manner::Stateless && caller.scopes.is_some() {
                    call.terms.record = Some(Arc::clone(&self.record));
                }
                let who = self.among_many(who).cloned();
                inner.running.insert(call.id, Running { lane, who, task: None, under_way: None, busy: None });
                return Some(Action::Deliver(call, agreement));
            }
            Action::Unwatch(..) | Action::RootsChanged => return Some(action),
            Action::Cancel(call) => inner.cancel(call),
            Action::Opened(ref agreement) => {
                self.opened(inner, agreement);
                self.visit.opened(agreement, who.unwrap_or(&self.who).principal.as_deref());
                if !agreement.per_request {
                    return Some(action);
                }
            }
            // Any client may try to open a session, so this is not a warning.
            Action::Refused(refusal) => tracing::info!(%refusal, "no session"),
            Action::Dropped(what) => tracing::debug!(what, "dropped"),
            Action::Declined(declined) => {
                let principal = who.unwrap_or(&self.who).principal.as_deref();
                violations::write_down(self.shared.hub(), &declined, principal, self.session());
            }
            Action::Passed(what) => tracing::debug!(what, "let pass"),
            Action::Answered(question, answered) => inner.questions.answered(question, answered),
            Action::LetGo(lane, pause) => {
                if self.manner == Manner::Session
                    && let Some(stream) = inner.lanes.get(lane)
                {
                    stream.let_go(pause);
                }
            }
            // This dialect has no goodbye. The transport ends a session.
            Action::Close(_) => {}
        }
        None
    }

    fn opened(&self, inner: &mut Inner, agreement: &Agreement) {
        let (dialect, version, client) = (agreement.dialect, agreement.version.as_str(), &agreement.client.name);
        if self.manner == Manner::Stateless {
            tracing::debug!(dialect, version, client, "new terms of requests without a session");
        } else {
            inner.log = Some(SessionLog::open(agreement, self.visit.id()));
            inner.client.clone_from(client);
            inner.lanes.primes = Revision::named(version).is_some_and(Revision::has_polling);
        }
    }

    /// Performs an action that needs the hub, without the lock. Returns the hub's answer to a call.
    fn run(&self, errand: Action<'_>) -> Option<(CallId, CallName, Said)> {
        match errand {
            Action::Deliver(call, agreement) => return Some(self.deliver(call, &agreement)),
            Action::Unwatch(uri, id) => self.shared.hub().unwatch(&uri, id),
            Action::Opened(_) => {
                if let Some(this) = self.this.upgrade() {
                    let caller: Arc<dyn Caller> = this;
                    self.shared.hub().joined(&caller);
                }
            }
            Action::RootsChanged => self.shared.hub().roots_changed(self.session()),
            _ => {}
        }
        None
    }

    fn deliver(&self, call: Call<'_>, agreement: &Arc<Agreement>) -> (CallId, CallName, Said) {
        let (id, name) = (call.id, self.visit.count(&call.operation));
        let Some(this) = self.this.upgrade() else {
            let failure = Failure::new(FailureKind::Stopping, "the session has ended");
            return (id, name, Said::Outcome(Err(failure)));
        };
        let caller: Arc<dyn Caller> = this;
        let said = match self.shared.hub().answer(call, agreement, &caller) {
            Answer::Now(outcome) => Said::Outcome(outcome),
            Answer::AsTask(work) => Said::AsTask(work),
            Answer::Later(mut work) | Answer::TaskLater(mut work) => {
                // Many calls complete on the first poll. They need neither a task nor a stream.
                match poll_guarded(&mut work, &mut Context::from_waker(Waker::noop())) {
                    Poll::Ready(outcome) => Said::Outcome(outcome),
                    Poll::Pending => Said::Later(work),
                }
            }
        };
        (id, name, said)
    }

    /// Spawns a call as a task, whose outcome returns to this session.
    fn spawn(&self, call: CallId, mut work: Work) -> AbortHandle {
        let this = Weak::clone(&self.this);
        let task = async move {
            let outcome = std::future::poll_fn(|cx| poll_guarded(&mut work, cx)).await;
            if let Some(session) = this.upgrade() {
                session.finished(call, outcome, None);
            }
        };
        self.shared.calls.spawn_on(task, &self.shared.runtime()).abort_handle()
    }

    /// Spawns a former inline call as a task, if it still runs.
    pub(super) fn go_on(&self, InlineCall { call, work }: InlineCall) {
        if !self.lock().running.contains_key(&call) {
            return;
        }
        let task = self.spawn(call, work);
        match self.lock().running.get_mut(&call) {
            Some(running) => running.task = Some(task),
            // The call was cancelled in between, or is done.
            None => task.abort(),
        }
    }

    /// Records the outcome of a call. A connection that is polling this lane needs no wake-up.
    pub(super) fn finished(&self, call: CallId, outcome: Outcome, awake: Option<Lane>) {
        let mut inner = self.lock();
        let Some(running) = inner.running.remove(&call) else { return };
        if let Some(lane) = awake {
            inner.lanes.is_awake(lane);
        }
        let outcome = self.within_bound(outcome, &running);
        inner.clock.tick();
        // Under the same lock: a concurrent cancellation would otherwise find neither a call nor a response.
        self.drive_on(inner, running.lane, None, false, |server, ambient, out| {
            server.resolve(call, outcome, ambient, out);
        });
        let mut inner = self.lock();
        if self.manner == Manner::Pair && inner.ended && inner.running.is_empty() {
            inner.lanes.end(Lane::MAIN);
        }
    }

    /// The outcome of a call, or a failure if it is large and too many responses wait to be read.
    fn within_bound(&self, outcome: Outcome, running: &Running) -> Outcome {
        let party = running.who.as_ref().unwrap_or(&self.who).party;
        let has_room = outcome_weight(&outcome) <= SMALL || self.shared.has_room_for_large_answer(party);
        if has_room { outcome } else { Err(Failure::not_kept()) }
    }

    /// Sets the timer for the next deadline of the state machine.
    fn set_alarm(&self, inner: &mut Inner) {
        let Some(deadline) = inner.server.deadline() else { return };
        if inner.ended {
            return;
        }
        let this = Weak::clone(&self.this);
        inner.alarm.set(deadline, &inner.clock, &self.shared.runtime(), move || {
            if let Some(session) = this.upgrade() {
                session.wake();
            }
        });
    }

    fn wake(&self) {
        self.lock().alarm.went_off();
        self.drive(Lane::MAIN, None, |server, ambient, out| {
            if server.deadline().is_some_and(|deadline| deadline <= ambient.now.elapsed) {
                server.wake(ambient, out);
            }
        });
    }
}

impl Inner {
    /// Hands the lines of a step to their streams.
    fn send(&mut self, out: &mut Output<'_>, manner: Manner) {
        if out.wire.is_empty() {
            return;
        }
        let (wire, frames) = std::mem::take(&mut out.wire).into_parts();
        let wire = Bytes::from(wire);
        for Frame { span, lane, kind } in frames {
            let lane = if manner == Manner::Pair { Lane::MAIN } else { lane };
            self.lanes.push(lane, OutgoingFrame { line: line_of(&wire, span), kind });
        }
    }

    /// Cancels a call. If its exchange waits for nothing else, the exchange ends without a response.
    fn cancel(&mut self, call: CallId) {
        let Some(Running { lane, task, .. }) = self.running.remove(&call) else { return };
        if let Some(task) = task {
            task.abort();
        }
        if lane != Lane::MAIN && !self.running.values().any(|running| running.lane == lane) {
            self.lanes.end(lane);
        }
    }

    /// Whether the reader of a call's stream keeps up.
    pub(super) fn has_room(&mut self, about: Option<CallId>) -> bool {
        let running = about.and_then(|call| self.running.get(&call));
        let lane = running.map(|running| running.lane);
        !lane.and_then(|lane| self.lanes.get(lane)).is_some_and(|stream| stream.is_behind())
    }
}

/// A line of the step's output. A short line is copied, so that it does not keep a long buffer in memory.
fn line_of(wire: &Bytes, span: Range<usize>) -> Bytes {
    if span.len() * 2 < wire.len() { Bytes::copy_from_slice(&wire[span]) } else { wire.slice(span) }
}

/// Polls a call. A panic fails this call only.
pub(super) fn poll_guarded(work: &mut Work, cx: &mut Context<'_>) -> Poll<Outcome> {
    // The call shares no mutable state with us, so a panic leaves nothing half changed. It is not polled again.
    let polled = catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(cx)));
    polled.unwrap_or_else(|_| Poll::Ready(Err(Failure::panicked())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_line_keeps_no_long_one_in_memory() {
        let wire = Bytes::from([&b"short\n"[..], &[b'x'; 1000]].concat());
        let is_part = |line: &Bytes| wire.as_ptr_range().contains(&line.as_ptr());
        let (short, long) = (line_of(&wire, 0..5), line_of(&wire, 6..1006));
        assert_eq!((&short[..], long.len()), (&b"short"[..], 1000));
        assert!(!is_part(&short) && is_part(&long), "the long line is not copied");
    }
}
