//! Waits for the response to one POST, and decides between a plain response and an event stream.
//!
//! A response that arrives within the grace period is sent with a known length, which costs less than an event stream.
//! If another message comes first, or the grace period ends, the exchange becomes an event stream. The client then sees
//! that the request is alive.
//!
//! While the connection waits, it polls the call itself ([`InlineCall`]). When it stops waiting, the call becomes a
//! task.

use std::sync::Arc;
use std::task::{Context, Poll};

use gladhand_dialects::Lane;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::events::Events;
use super::lanes::OutgoingFrame;
use super::session::Session;
use crate::driver::{InlineCall, poll_guarded};

/// The result of waiting.
#[derive(Debug)]
pub(super) enum WaitResult {
    /// The response.
    Answer(OutgoingFrame),
    /// Another message came first, or the grace period ended: the event stream that carries everything.
    Stream(Events),
    /// The exchange is over, and no response will come.
    Nothing,
}

/// An exchange whose response is pending. If it is dropped, the session learns that the client stopped waiting.
#[derive(Debug)]
pub(super) struct PendingResponse {
    session: Arc<Session>,
    lane: Lane,
    carried: Option<InlineCall>,
    /// Makes shutdown wait for the inline call, as for a task.
    under_way: Option<TaskTrackerToken>,
    is_waiting: bool,
}

impl PendingResponse {
    pub(super) fn new(session: Arc<Session>, lane: Lane, carried: Option<InlineCall>) -> Self {
        Self { session, lane, carried, under_way: None, is_waiting: true }
    }

    /// Returns the response if it arrives within the grace period, otherwise the event stream that will carry it.
    pub(super) async fn soon(mut self) -> WaitResult {
        let session = Arc::clone(&self.session);
        self.under_way = Some(session.shared.calls.token());
        let answer = std::future::poll_fn(|cx| {
            self.carry_on(cx);
            self.session.poll_answer(self.lane, cx.waker())
        });
        let came = tokio::select! {
            biased;
            answer = answer => answer,
            () = session.shared.coarse_timer.run_out() => None,
        };
        self.is_waiting = false;
        self.hand_over();
        match came {
            Some(frame) => WaitResult::Answer(frame),
            None => self.session.stream(self.lane).map_or(WaitResult::Nothing, WaitResult::Stream),
        }
    }

    /// Polls the inline call once, and records its outcome in the session when it is done.
    fn carry_on(&mut self, cx: &mut Context<'_>) {
        let Some(InlineCall { call, work }) = &mut self.carried else { return };
        if let Poll::Ready(outcome) = poll_guarded(work, cx) {
            let call = *call;
            self.carried = None;
            self.session.finished(call, outcome, Some(self.lane));
        }
    }

    /// Moves an unfinished inline call to a task.
    fn hand_over(&mut self) {
        if let Some(carried) = self.carried.take() {
            self.session.go_on(carried);
        }
    }
}

impl Drop for PendingResponse {
    fn drop(&mut self) {
        self.hand_over();
        if self.is_waiting {
            self.session.give_up(self.lane);
        }
    }
}
