//! An answer that is not here yet.
//!
//! Most answers come soon, and then one response of a known length is less work for everybody than a stream of events.
//! Whatever else comes first makes a stream of the exchange, and so does waiting for too long: whoever asked shall see
//! that somebody is there.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use gladhand_core::operations::CallId;
use gladhand_dialects::Lane;
use gladhand_hub::Work;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::driver::poll_guarded;
use super::events::Events;
use super::session::Session;

/// What came of waiting.
#[derive(Debug)]
pub(super) enum WaitResult {
    /// The answer.
    Answer(Bytes),
    /// Something else, or nothing in time: the stream on which everything comes.
    Stream(Events),
    /// Nothing, and nothing will.
    Nothing,
}

/// A call that whoever waits for its answer carries on with, which costs no task. It is the only one of its exchange.
pub(super) struct InlineCall {
    pub(super) call: CallId,
    pub(super) work: Work,
}

impl fmt::Debug for InlineCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InlineCall").field("call", &self.call).finish_non_exhaustive()
    }
}

/// An exchange whose answer is awaited. Dropping it tells the session that nobody waits.
#[derive(Debug)]
pub(super) struct PendingResponse {
    session: Arc<Session>,
    lane: Lane,
    carried: Option<InlineCall>,
    /// While something is carried on: whoever stops the server waits for it as for any task.
    under_way: Option<TaskTrackerToken>,
    is_waiting: bool,
}

impl PendingResponse {
    pub(super) fn new(session: Arc<Session>, lane: Lane, carried: Option<InlineCall>) -> Self {
        Self { session, lane, carried, under_way: None, is_waiting: true }
    }

    /// The answer if it comes soon, or else the stream on which it will come.
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
            Some(line) => WaitResult::Answer(line),
            None => self.session.stream(self.lane).map_or(WaitResult::Nothing, WaitResult::Stream),
        }
    }

    /// Carries on with what is to be answered.
    fn carry_on(&mut self, cx: &mut Context<'_>) {
        let Some(InlineCall { call, work }) = &mut self.carried else { return };
        if let Poll::Ready(outcome) = poll_guarded(work, cx) {
            let call = *call;
            self.carried = None;
            self.session.finished(call, outcome, Some(self.lane));
        }
    }

    /// Lets what is not done go on without us.
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
