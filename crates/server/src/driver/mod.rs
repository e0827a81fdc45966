//! The driver of a downstream session. Every transport uses this one: standard input and output, MCP over HTTP, A2E over
//! HTTP.
//!
//! A step of our side yields lines and actions. The driver hands the lines to the transport, performs the actions, and
//! hands calls to the hub. A provider may call back into the session while it runs. If other threads use the session, its
//! lock is therefore released before calling the hub: lock, step, unlock, call the hub, lock, record the outcome. A call
//! that is done by then needs no task. [`Driver`] is the state behind the lock, [`DriverHandle`] the session around it, and
//! [`Transport`] has the differences.

mod questions;
mod session_log;
mod transport;

use std::borrow::Borrow;
use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use gladhand_core::Order as _;
use gladhand_core::negotiation::Agreement;
use gladhand_core::number_map::NumberMap;
use gladhand_core::operations::{CallId, Failure, FailureKind, Notice, Outcome};
use gladhand_core::wire::Line;
use gladhand_dialects::{Action, Ambient, Lane, Output, RuleViolation, Server};
use gladhand_hub::{Answer, Asking, Busy, CallName, Caller, Hub, SessionId, Visit, Work};
use gladhand_session::clock::Clock;
use gladhand_session::tap::{SessionTap, Tap, TappedPeer, TappedSession};
use gladhand_session::violations;

use questions::Questions;
use session_log::SessionLog;

pub(crate) use transport::{Abort, Report, Transport};

/// A session in the hub and at the tap. It needs no lock.
#[derive(Debug)]
pub(crate) struct Registration {
    pub(crate) hub: Hub,
    pub(crate) visit: Visit,
    tap: SessionTap,
}

impl Registration {
    pub(crate) fn new(hub: Hub, visit: Visit, tap: &Arc<Tap>) -> Arc<Self> {
        let tap = SessionTap::new(Arc::clone(tap), TappedSession::Downstream(visit.id()));
        Arc::new(Self { hub, visit, tap })
    }

    /// The opening ended in an agreement. `principal` is the client's identity according to the transport.
    fn opened(&self, agreement: &Agreement, principal: Option<&str>) {
        self.visit.opened(agreement, principal);
        let client = &agreement.client;
        let principal = principal.or_else(|| agreement.principal()).map(str::to_owned);
        let peer = TappedPeer::Client { name: client.name.clone(), version: client.version.clone(), principal };
        self.tap.opened(agreement, peer);
    }

    /// The id of the session in the hub.
    pub(crate) fn session(&self) -> SessionId {
        self.visit.id()
    }
}

/// The state of one session.
#[derive(Debug)]
pub(crate) struct Driver<T: Transport> {
    pub(crate) side: T::Side,
    pub(crate) clock: Clock,
    pub(crate) transport: T,
    registration: Arc<Registration>,
    /// Delivered calls that have not ended. If other threads do not use the session, only those that run as tasks.
    running: NumberMap<CallId, RunningCall<T>>,
    /// Outcomes that wait until the transport has room.
    settled: VecDeque<WaitingOutcome<T>>,
    questions: Questions,
    /// The name that the client declares, once it is known.
    client: Option<String>,
    /// Present while the session is open.
    log: Option<SessionLog>,
    has_ended: bool,
}

/// A call that was delivered.
struct RunningCall<T: Transport> {
    ticket: T::Ticket,
    /// Aborts the call once it runs as a task.
    task: Option<T::AbortHandle>,
    /// Marks the call as running, unless it is done at once.
    busy: Option<Busy>,
}

impl<T: Transport> fmt::Debug for RunningCall<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunningCall").finish_non_exhaustive()
    }
}

/// An outcome that waits until the transport has room.
struct WaitingOutcome<T: Transport> {
    call: CallId,
    outcome: Outcome,
    _kept: T::Kept,
}

impl<T: Transport> fmt::Debug for WaitingOutcome<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitingOutcome").field("call", &self.call).finish_non_exhaustive()
    }
}

/// A call that a waiting connection polls itself, which saves a task.
pub(crate) struct InlineCall {
    pub(crate) call: CallId,
    pub(crate) work: Work,
}

impl fmt::Debug for InlineCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InlineCall").field("call", &self.call).finish_non_exhaustive()
    }
}

/// How a call that takes time goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Continuation {
    /// As a task.
    AsTask,
    /// As a task, and the caller gets a task of its dialect to fetch the outcome with.
    AsTaskOfCaller,
    /// A connection waits for the answer. If there is only one call, the connection polls it.
    Inline,
}

impl<T: Transport> Driver<T> {
    pub(crate) fn new(side: T::Side, clock: Clock, transport: T, registration: Arc<Registration>) -> Self {
        Self {
            side,
            clock,
            transport,
            registration,
            running: NumberMap::default(),
            settled: VecDeque::new(),
            questions: Questions::default(),
            client: None,
            log: None,
            has_ended: false,
        }
    }

    /// The tap sees a line that the peer sent. Comes before the step that processes the line.
    #[inline]
    pub(crate) fn tap_received(&self, lane: Lane, line: Line<'_>) {
        if self.registration.tap.is_on() {
            self.registration.tap.received(T::dialect(&self.side), lane, line);
        }
    }

    /// Takes the step that processes a line of the peer. Also returns the rules that the line violates, for
    /// [`DriverHandle::note_violations`].
    #[inline]
    pub(crate) fn receive<'a>(
        &mut self,
        sender: T::Sender<'_>,
        (lane, line): (Lane, Line<'_>),
        step: impl FnOnce(&mut T::Side, &mut Ambient<'_>, &mut Output<'a>),
    ) -> (Vec<Action<'a>>, Vec<RuleViolation>) {
        self.tap_received(lane, line);
        let mut violated = Vec::new();
        let actions = self.step(sender, |side, ambient, out| {
            step(side, ambient, out);
            violated = violations::of_actions(&out.actions);
        });
        (actions, violated)
    }

    /// Takes one step and performs its actions. Returns those that need the hub, for [`DriverHandle::follow_up`].
    #[inline]
    pub(crate) fn step<'a>(
        &mut self,
        sender: T::Sender<'_>,
        step: impl FnOnce(&mut T::Side, &mut Ambient<'_>, &mut Output<'a>),
    ) -> Vec<Action<'a>> {
        let mut out = Output::onto(self.transport.lend());
        let mut ambient = self.clock.ambient();
        self.transport.introduce(sender, &mut ambient);
        step(&mut self.side, &mut ambient, &mut out);
        let Output { wire, mut actions } = out;
        if self.registration.tap.is_on() {
            let is_carried = |frame: &_| self.transport.carries(frame);
            self.registration.tap.sent(T::dialect(&self.side), &wire, is_carried);
        }
        self.transport.send(wire);
        // In place: a call is large, and most steps have one action or none.
        actions.retain_mut(|action| match action {
            Action::Deliver(call, _) => {
                let ticket = self.transport.accept(sender, call);
                if T::IS_SHARED {
                    self.running.insert(call.id, RunningCall { ticket, task: None, busy: None });
                }
                true
            }
            action => self.perform(sender, action),
        });
        actions
    }

    /// Performs an action other than a call, or the part of it that needs no hub. Returns whether the hub must perform the
    /// rest.
    fn perform(&mut self, sender: T::Sender<'_>, action: &mut Action<'_>) -> bool {
        match action {
            Action::Opened(agreement) => {
                if self.transport.opened(agreement) {
                    self.client.get_or_insert_default().clone_from(&agreement.client.name);
                    // Requests that carry their own terms are one session on one channel.
                    if self.log.is_none() || !agreement.per_request {
                        drop(self.log.take());
                        self.log = Some(SessionLog::open(agreement, self.registration.session()));
                    }
                }
                self.registration.opened(agreement, self.transport.principal(sender));
                return !agreement.per_request;
            }
            Action::Deliver(..) | Action::Unwatch(..) | Action::RootsChanged => return true,
            Action::Cancel(call) => self.cancel(*call),
            Action::Refused(refusal) => {
                self.registration.tap.refused(T::dialect(&self.side), refusal.word());
                self.transport.refused(refusal);
            }
            Action::Dropped(what) => tracing::debug!(what, "dropped"),
            Action::Declined(declined) => {
                let Registration { hub, visit, .. } = &*self.registration;
                violations::write_down(hub, declined, self.transport.principal(sender), visit.id());
            }
            Action::Passed(what) => tracing::debug!(what, "let pass"),
            Action::Answered(..) => {
                // The answer is taken out. What is left in its place is dropped with the action.
                if let Action::Answered(question, answered) = std::mem::replace(action, Action::RootsChanged) {
                    self.questions.answered(question, answered);
                }
            }
            Action::LetGo(lane, pause) => self.transport.let_go(*lane, *pause),
            Action::Close(grace) => {
                tracing::info!(grace_s = grace.as_secs(), "the downstream said goodbye");
                self.transport.close(*grace, &self.clock);
            }
        }
        false
    }

    fn cancel(&mut self, call: CallId) {
        self.settled.retain(|settled| settled.call != call);
        let Some(RunningCall { ticket, task, .. }) = self.running.remove(&call) else { return };
        task.iter().for_each(Abort::abort);
        self.transport.cancelled(ticket, self.running.values().map(|running| &running.ticket));
    }

    /// A call takes time. Returns further actions for the hub, and the call if it goes on inline.
    fn pend(
        &mut self,
        call: CallId,
        name: CallName,
        continuation: Continuation,
        work: Work,
    ) -> (Vec<Action<'static>>, Option<InlineCall>) {
        match continuation {
            Continuation::Inline => (Vec::new(), self.start(call, name, None).map(|_| InlineCall { call, work })),
            Continuation::AsTask => {
                self.start(call, name, Some(work));
                (Vec::new(), None)
            }
            Continuation::AsTaskOfCaller => match self.start(call, name, Some(work)) {
                Some(sender) => {
                    (self.step(sender, |side, ambient, out| side.continue_as_task(call, ambient, out)), None)
                }
                None => (Vec::new(), None),
            },
        }
    }

    /// Shows a call as running, and runs its work as a task. `None` if the call was cancelled in between.
    fn start(&mut self, call: CallId, name: CallName, work: Option<Work>) -> Option<T::Sender<'static>> {
        if !T::IS_SHARED {
            let ticket = T::Ticket::default();
            self.running.insert(call, RunningCall { ticket, task: None, busy: None });
        }
        let running = self.running.get_mut(&call)?;
        running.busy = Some(self.registration.visit.busy(name));
        running.task = work.map(|work| self.transport.spawn(call, work));
        Some(T::sender_of(Some(&running.ticket)))
    }

    /// Runs a former inline call as a task, if it is still wanted.
    pub(crate) fn go_on(&mut self, InlineCall { call, work }: InlineCall) {
        if let Some(running) = self.running.get_mut(&call) {
            running.task = Some(self.transport.spawn(call, work));
        }
    }

    /// Records the outcome of a call, and writes it if the transport has room. The outcome of a call that was cancelled in
    /// between is dropped.
    // On the way of every call: inlined, an outcome is not copied from function to function.
    #[inline(always)]
    pub(crate) fn settle(&mut self, call: CallId, mut outcome: Outcome) -> Vec<Action<'static>> {
        let ticket = self.running.get(&call).map(|running| &running.ticket);
        if T::IS_SHARED && ticket.is_none() {
            return Vec::new();
        }
        let is_next = self.settled.is_empty();
        let kept = self.transport.weigh(ticket, &mut outcome, is_next);
        if is_next && self.transport.has_room() {
            return self.write(call, outcome);
        }
        self.settled.push_back(WaitingOutcome { call, outcome, _kept: kept });
        Vec::new()
    }

    /// Writes the outcome of a call, after all reports from before its end.
    #[inline(always)]
    fn write(&mut self, call: CallId, outcome: Outcome) -> Vec<Action<'static>> {
        let mut actions = Vec::new();
        while let Some(report) = self.transport.next_report() {
            append(&mut actions, self.report(report));
        }
        // Without tasks and other threads, no call is registered.
        let running = if self.running.is_empty() { None } else { self.running.remove(&call) };
        let sender = T::sender_of(running.as_ref().map(|running| &running.ticket));
        append(&mut actions, self.step(sender, |side, ambient, out| side.handle_outcome(call, outcome, ambient, out)));
        actions
    }

    /// Writes waiting outcomes and reports, as far as the transport has room.
    pub(crate) fn write_waiting(&mut self) -> Vec<Action<'static>> {
        let mut actions = Vec::new();
        while self.transport.has_room()
            && let Some(WaitingOutcome { call, outcome, .. }) = self.settled.pop_front()
        {
            actions.extend(self.write(call, outcome));
        }
        while self.transport.has_room()
            && let Some(report) = self.transport.next_report()
        {
            actions.extend(self.report(report));
        }
        actions
    }

    /// Passes a report of a provider to the caller.
    pub(crate) fn report(&mut self, report: Report) -> Vec<Action<'static>> {
        match report {
            Report::Notice(notice) => self.notify(notice),
            Report::Questions(call, questions) => self.ask(call, questions),
        }
    }

    /// Sends a notice.
    pub(crate) fn notify(&mut self, notice: Notice) -> Vec<Action<'static>> {
        self.step(T::sender_of(None), |side, ambient, out| side.notify(notice, ambient, out))
    }

    /// Asks the client questions of a provider.
    pub(crate) fn ask(&mut self, call: Option<CallId>, questions: Vec<Asking>) -> Vec<Action<'static>> {
        let asked = self.questions.number(questions);
        self.step(T::sender_of(None), |side, ambient, out| side.ask(call, asked, ambient, out))
    }

    /// Wakes our side if its deadline has passed.
    pub(crate) fn wake(&mut self) -> Vec<Action<'static>> {
        match self.side.poll_timeout() {
            Some(deadline) if deadline <= self.clock.now().elapsed => {
                self.step(T::sender_of(None), T::Side::handle_timeout)
            }
            _ => Vec::new(),
        }
    }

    /// Fails every unfinished call with an error that says so.
    pub(crate) fn fail_everything(&mut self) -> Vec<Action<'static>> {
        let mut actions = Vec::new();
        self.settled.clear();
        loop {
            let running = std::mem::take(&mut self.running);
            running.into_values().filter_map(|running| running.task).for_each(|task| task.abort());
            let mut calls = self.side.in_flight();
            calls.order();
            if calls.is_empty() {
                return actions;
            }
            // Newest first: ending a running call would start the next call in the dialect's queue.
            for call in calls.into_iter().rev() {
                let failure = Failure::new(FailureKind::Stopping, "the session ended before the call did");
                let more = self.fail(call, failure);
                // A call that starts now fails in the next round.
                actions.extend(more.into_iter().filter(|action| !matches!(action, Action::Deliver(..))));
            }
        }
    }

    /// Fails a call.
    pub(crate) fn fail(&mut self, call: CallId, failure: Failure) -> Vec<Action<'static>> {
        self.step(T::sender_of(None), |side, ambient, out| side.handle_outcome(call, Err(failure), ambient, out))
    }

    /// Aborts the calls whose tickets a predicate selects, and returns them, the oldest first. The caller must fail them.
    pub(crate) fn abort(&mut self, is_meant: impl Fn(&T::Ticket) -> bool) -> Vec<CallId> {
        let meant = self.running.extract_if(|_, running| is_meant(&running.ticket));
        let abort = |(call, running): (CallId, RunningCall<T>)| {
            running.task.iter().for_each(Abort::abort);
            call
        };
        let mut calls: Vec<_> = meant.map(abort).collect();
        calls.sort_unstable();
        calls
    }

    /// Ends the session: every call fails, and nothing is delivered any more.
    pub(crate) fn end(&mut self) -> Vec<Action<'static>> {
        self.clock.tick();
        let actions = self.fail_everything();
        self.has_ended = true;
        self.questions.forget();
        self.log = None;
        self.registration.tap.closed();
        actions
    }

    /// Whether the session has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// The name that the client declares, once it is known.
    pub(crate) fn client(&self) -> Option<&str> {
        self.client.as_deref()
    }

    /// The number of delivered calls that have not ended.
    pub(crate) fn running(&self) -> usize {
        self.running.len()
    }

    /// The ticket of a running call.
    pub(crate) fn ticket(&self, call: CallId) -> Option<&T::Ticket> {
        self.running.get(&call).map(|running| &running.ticket)
    }
}

/// A session that is driven: its driver, behind a lock if other threads use it, and the rest, which needs no lock.
pub(crate) trait DriverHandle: Sized {
    type Transport: Transport;

    /// The session in the hub.
    fn registration(&self) -> &Registration;

    /// The way back to the caller.
    type Caller<'s>: Borrow<Arc<dyn Caller>>
    where
        Self: 's;

    /// The way back to the caller, which providers keep. `None` if the session is being dropped.
    fn caller(&self) -> Option<Self::Caller<'_>>;

    /// Uses the driver, under the lock of the session. The hub is never called meanwhile.
    fn locked<R>(&mut self, work: impl FnOnce(&mut Driver<Self::Transport>) -> R) -> R;

    /// Takes a step now, and does everything that follows from it.
    fn drive(&mut self, step: impl FnOnce(&mut Driver<Self::Transport>) -> Vec<Action<'static>>) {
        let actions = self.locked(|driver| {
            driver.clock.tick();
            step(driver)
        });
        self.follow_up(actions, Continuation::AsTask);
    }

    /// Hands calls and other actions to the hub, and does everything that follows. Returns a call that goes on inline.
    fn follow_up(&mut self, mut actions: Vec<Action<'_>>, continuation: Continuation) -> Option<InlineCall> {
        let (is_only, mut inline) = (actions.len() == 1, None);
        while !actions.is_empty() {
            let mut next = Vec::new();
            for action in actions {
                let Action::Deliver(call, agreement) = action else {
                    self.inform(action);
                    continue;
                };
                let Registration { hub, visit, .. } = self.registration();
                let (id, name) = (call.id, visit.count(&call.operation));
                // Without a session there is no one to answer.
                let answer = hub.answer(call, &agreement, self.caller()?.borrow());
                let (work, continuation) = match answer {
                    Answer::Now(outcome) => {
                        append(&mut next, self.record(id, outcome)?);
                        continue;
                    }
                    Answer::AsTask(work) => (work, Continuation::AsTaskOfCaller),
                    Answer::Later(mut work) | Answer::TaskLater(mut work) => {
                        // Many calls complete on the first poll. They need neither a task nor a stream.
                        if let Poll::Ready(outcome) = poll_guarded(&mut work, &mut Context::from_waker(Waker::noop())) {
                            append(&mut next, self.record(id, outcome)?);
                            continue;
                        }
                        (work, if is_only && inline.is_none() { continuation } else { Continuation::AsTask })
                    }
                };
                let pended = self.locked(|driver| {
                    let is_open = !driver.has_ended;
                    is_open.then(|| driver.pend(id, name, continuation, work))
                });
                let (more, carried) = pended?;
                append(&mut next, more);
                inline = inline.or(carried);
            }
            actions = next;
        }
        inline
    }

    /// Records the outcome of a call. `None` if the session has ended.
    #[inline(always)]
    fn record(&mut self, call: CallId, outcome: Outcome) -> Option<Vec<Action<'static>>> {
        self.locked(|driver| if driver.has_ended { None } else { Some(driver.settle(call, outcome)) })
    }

    /// Records the rules that a line violates. Returns whether the session must end.
    fn note_violations(&mut self, violated: &[RuleViolation], line: &[u8]) -> bool {
        if violated.is_empty() {
            return false;
        }
        let client = self.locked(|driver| driver.client().unwrap_or_default().to_owned());
        violations::note_client(&self.registration().hub, &client, violated, line)
    }

    /// Performs an action other than a call that needs the hub.
    fn inform(&self, action: Action<'_>) {
        let Registration { hub, visit, .. } = self.registration();
        match action {
            Action::Opened(_) => {
                if let Some(caller) = self.caller() {
                    hub.joined(caller.borrow());
                }
            }
            Action::Unwatch(uri, id) => hub.unwatch(&uri, id),
            Action::RootsChanged => hub.roots_changed(visit.id()),
            _ => {}
        }
    }
}

/// Appends actions to others. Usually there are none.
#[inline(always)]
fn append<'a>(actions: &mut Vec<Action<'a>>, more: Vec<Action<'a>>) {
    if !more.is_empty() {
        actions.extend(more);
    }
}

/// Polls a call. A panic fails this call only.
pub(crate) fn poll_guarded(work: &mut Work, cx: &mut Context<'_>) -> Poll<Outcome> {
    // The call shares no mutable state with us, so a panic leaves nothing half changed. It is not polled again.
    let polled = catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(cx)));
    polled.unwrap_or_else(|_| Poll::Ready(Err(Failure::panicked())))
}

/// Runs a call to its end.
pub(crate) async fn finish_guarded(mut work: Work) -> Outcome {
    std::future::poll_fn(|cx| poll_guarded(&mut work, cx)).await
}
