//! Handles calls that do not get a regular answer: cancelled calls, lost requests, invalid answers, and a lost
//! upstream.
//!
//! A lost request is sent again only if that is safe: it never arrived, or repeating it has no side effects.

use std::time::Duration;

use gladhand_core::Order as _;
use gladhand_core::negotiation::Refusal;
use gladhand_core::operations::{CallId, Failure, FailureKind};
use gladhand_core::wire::{Fault, Skim, rpc};

use super::call_kind::CallKind;
use super::results::upstream_error;
use super::work::{OutgoingRequest, Work};
use super::{McpClient, Phase, done, our_id};
use crate::side::{Event, Heard, Lane, Loss};

/// Maximum number of repetitions of a call.
const MAX_REPEATS: usize = 2;

/// The failure after the upstream disconnected.
pub(super) fn gone() -> Failure {
    Failure::new(FailureKind::UpstreamLost, "the upstream disconnected before it answered")
}

/// Maximum number of sessions in a row that may be lost without any answer.
const MAX_REOPENINGS: usize = 4;

impl McpClient {
    /// Cancels a call.
    pub(super) fn cancel_call(&mut self, call: CallId, heard: &mut Heard) {
        let Some(work) = self.take_call(call, heard) else { return };
        self.done(&work, Err(Failure::new(FailureKind::Cancelled, "cancelled by the caller")), heard);
    }

    /// Removes a call from any state, and notifies the upstream if it knows the call.
    fn take_call(&mut self, call: CallId, heard: &mut Heard) -> Option<Box<Work>> {
        let is_it = |work: &Work| work.call == call;
        let id = self.requests.iter().find(|(_, sent)| sent.work().is_some_and(is_it)).map(|(id, _)| *id);
        if let Some(sent) = id.and_then(|id| self.requests.remove(&id)) {
            self.cancel_request(id.unwrap_or_default(), &sent, heard);
            return sent.into_work();
        }
        if let Some(round) = self.abandon_round(call, heard) {
            if let Some(task) = &round.task {
                self.cancel_task(task, heard);
            }
            return Some(round.work);
        }
        if let Some(visit) = self.abandon_visit(call, heard) {
            return Some(visit.work);
        }
        if let Some(at) = self.polls.iter().position(|poll| is_it(&poll.work)) {
            let poll = self.polls.swap_remove(at);
            self.cancel_task(&poll.task, heard);
            return Some(poll.work);
        }
        if let Phase::Reopening { waiting, .. } = &mut self.phase
            && let Some(at) = waiting.iter().position(|sent| sent.work().is_some_and(is_it))
        {
            return waiting.remove(at).into_work();
        }
        self.listening.take_waiting(is_it).pop().map(Box::new)
    }

    /// Cancels a request, in the way of its revision and transport.
    fn cancel_request(&mut self, id: u64, sent: &OutgoingRequest, heard: &mut Heard) {
        let is_said_by_letting_go = self.exchanges && self.spoken().is_stateless();
        match sent.task() {
            Some(task) => self.cancel_task(task, heard),
            None if is_said_by_letting_go => {}
            None => {
                let params = serde_json::json!({"requestId": id, "reason": "cancelled by the caller"});
                rpc::notification(&mut heard.wire, "notifications/cancelled", Some(&params));
            }
        }
        if self.exchanges {
            heard.events.push(Event::LetGo(Lane(id)));
        }
    }

    /// Handles an exchange that ended without an answer.
    pub(super) fn exchange_lost(&mut self, lane: Lane, loss: Loss, now: Duration, heard: &mut Heard) {
        if self.is_awaited(lane.0) && !self.requests.contains_key(&lane.0) {
            return self.refused(refusal(&loss), heard);
        }
        let sent = self.requests.remove(&lane.0);
        if loss == Loss::Session {
            self.reopen(heard);
        }
        match (sent, &loss) {
            (None, _) => {}
            (Some(OutgoingRequest::Listen), Loss::Status(400..500) | Loss::Denied(_) | Loss::Forbidden(_)) => {
                self.listen_refused(lane.0, |_| failure(&loss), now, heard);
            }
            (Some(OutgoingRequest::Listen), _) => self.listen_ended(lane.0, now),
            (Some(sent @ OutgoingRequest::Level(_)), Loss::Status(_)) => self.send_again(sent, heard),
            (Some(mut sent), _) => match self.may_repeat(&mut sent, &loss) {
                true => self.send_again(sent, heard),
                false => sent.into_work().into_iter().for_each(|work| self.done(&work, Err(failure(&loss)), heard)),
            },
        }
    }

    /// Handles an unreadable line. If it is a recognisable answer, the pending request fails.
    pub(super) fn unreadable(&mut self, fault: &Fault, skim: &Skim, lane: Lane, now: Duration, heard: &mut Heard) {
        let by_lane = || Some(lane.0).filter(|_| skim.is_answer() && lane != Lane::MAIN);
        let known = |id: &u64| self.is_awaited(*id);
        match skim.answered().and_then(our_id).filter(known).or_else(by_lane).filter(known) {
            Some(id) => self.invalid_answer(id, Failure::unreadable(fault), now, heard),
            None => heard.events.push(Event::Dropped("a line that cannot be read")),
        }
    }

    /// Handles an invalid answer to a request of ours.
    pub(super) fn invalid_answer(&mut self, id: u64, failure: Failure, now: Duration, heard: &mut Heard) {
        if self.exchanges {
            heard.events.push(Event::LetGo(Lane(id)));
        }
        match self.requests.remove(&id) {
            Some(OutgoingRequest::Listen) => self.listen_ended(id, now),
            Some(OutgoingRequest::Level(work)) => self.send(work, heard),
            Some(sent) => {
                sent.into_work().into_iter().for_each(|work| self.done(&work, Err(failure.clone()), heard));
            }
            None if self.is_awaited(id) => self.refused(Refusal::PeerMisbehaved { problem: failure.message }, heard),
            None => {}
        }
    }

    /// Whether a lost request may be sent again. Counts the repetition.
    fn may_repeat(&self, sent: &mut OutgoingRequest, loss: &Loss) -> bool {
        let is_harmless = !matches!(sent, OutgoingRequest::Work(work) if !work.is_repeatable());
        let Some(work) = sent.work_mut() else { return false };
        work.repeats += 1;
        let may = match loss {
            Loss::Unsent(_) | Loss::Session => true,
            Loss::Broken => is_harmless,
            Loss::Busy(_)
            | Loss::Status(_)
            | Loss::TooLong(_)
            | Loss::WebPage(_)
            | Loss::NoRoom
            | Loss::Denied(_)
            | Loss::Forbidden(_) => false,
        };
        may && work.repeats <= MAX_REPEATS
    }

    /// Opens a new session after the old one ended.
    fn reopen(&mut self, heard: &mut Heard) {
        if matches!(&self.phase, Phase::Open(in_force) if in_force.revision.has_initialize()) {
            self.reopenings += 1;
            if self.reopenings > MAX_REOPENINGS {
                return self.upstream_lost(heard);
            }
            let id = self.initialize(heard);
            self.phase = Phase::Reopening { id, waiting: Vec::new() };
        }
    }

    /// Sends a request again, once there is a session.
    pub(super) fn send_again(&mut self, sent: OutgoingRequest, heard: &mut Heard) {
        if let Phase::Reopening { waiting, .. } = &mut self.phase {
            waiting.push(sent);
            return;
        }
        match sent {
            OutgoingRequest::Work(work) | OutgoingRequest::Level(work) => {
                if let CallKind::Watch { uri } = &work.kind {
                    // A subscription that waited for the session has not been counted yet.
                    self.watched.entry(uri.clone()).or_insert(1);
                }
                self.send(work, heard);
            }
            OutgoingRequest::Relist(work, _) => self.relist(work, heard),
            OutgoingRequest::PollTask(work, task) => self.poll(work, task, heard),
            // It is unknown whether our answers arrived. If not, the upstream asks for them again.
            OutgoingRequest::Update(mut work, task) => {
                work.asked_keys.clear();
                self.poll(work, task, heard);
            }
            OutgoingRequest::Result(work, task) => self.await_task(work, task, heard),
            OutgoingRequest::Listen => {}
        }
    }

    /// The upstream disconnected: every pending call and question ends.
    pub(super) fn upstream_lost(&mut self, heard: &mut Heard) {
        match self.phase {
            Phase::ExpectInitializeResult { .. } | Phase::ExpectDiscoverResult { .. } | Phase::Reopening { .. } => {
                self.refused(Refusal::PeerGone, heard);
            }
            Phase::Unopened | Phase::Open(_) | Phase::Closed => self.phase = Phase::Closed,
        }
        let mut lost: Vec<_> = self.requests.drain().collect();
        lost.order_by_key(|(id, _)| *id);
        let in_flight = lost.into_iter().filter_map(|(_, sent)| sent.work().map(|work| work.call));
        let visiting = self.visits.drain().map(|(call, _)| call);
        let mut asking: Vec<_> = self.rounds.drain().map(|(call, _)| call).chain(visiting).collect();
        asking.order();
        let polled = std::mem::take(&mut self.polls).into_iter().map(|poll| poll.work.call);
        let waiting = self.listening.take_waiting(|_| true).into_iter().map(|work| work.call);
        for call in in_flight.chain(asking).chain(polled).chain(waiting) {
            done(call, Err(gone()), heard);
        }
        let unasked = std::mem::take(&mut self.questions).into_keys().map(Event::Unasked);
        heard.events.extend(unasked);
    }
}

/// The failure for an invalid answer.
pub(super) fn invalid_answer(problem: &str) -> Failure {
    upstream_error(format!("the upstream's answer is invalid: {problem}"))
}

fn refusal(loss: &Loss) -> Refusal {
    match loss {
        Loss::Unsent(_) | Loss::Busy(_) | Loss::Broken | Loss::Session => Refusal::PeerGone,
        Loss::Status(status) => {
            Refusal::PeerRefused { code: status.to_string(), message: format!("HTTP status {status}") }
        }
        Loss::TooLong(_) | Loss::WebPage(_) | Loss::NoRoom => {
            Refusal::PeerMisbehaved { problem: failure(loss).message }
        }
        Loss::Denied(why) => Refusal::PeerRefused { code: "denied".to_owned(), message: why.to_string() },
        Loss::Forbidden(why) => Refusal::PeerRefused { code: "403".to_owned(), message: why.to_string() },
    }
}

fn failure(loss: &Loss) -> Failure {
    match loss {
        Loss::Unsent(why) => {
            Failure::new(FailureKind::UpstreamLost, format!("the upstream could not be reached: {why}"))
        }
        Loss::Busy(why) => Failure::new(FailureKind::Busy, *why),
        Loss::Broken => Failure::new(FailureKind::UpstreamLost, "the connection broke before the upstream answered"),
        Loss::Session => Failure::new(FailureKind::UpstreamLost, "the upstream ended the session before it answered"),
        Loss::Status(status) => upstream_error(format!("the upstream answered with HTTP status {status}")),
        Loss::TooLong(limit) => Failure::unreadable(&Fault::TooLong { limit: *limit }),
        Loss::WebPage(status) => upstream_error(format!("the answer is a web page (HTTP status {status})")),
        Loss::NoRoom => Failure::not_kept(),
        Loss::Denied(why) => upstream_error(format!("the upstream does not let us in: {why}")),
        Loss::Forbidden(why) => upstream_error(format!("the upstream refused the request with HTTP status 403: {why}")),
    }
}
