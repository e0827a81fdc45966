//! An answer that is not here yet.
//!
//! Most answers come soon, and then one response of a known length is less work for everybody than a stream of events.
//! Whatever else comes first makes a stream of the exchange, and so does waiting for too long: whoever asked shall see
//! that somebody is there.

use std::sync::Arc;

use bytes::Bytes;
use gladhand_dialects::Lane;

use super::events::Events;
use super::session::Session;

/// What came of waiting.
#[derive(Debug)]
pub(super) enum Came {
    /// The answer.
    Answer(Bytes),
    /// Something else, or nothing in time: the stream on which everything comes.
    Stream(Events),
    /// Nothing, and nothing will.
    Nothing,
}

/// An exchange whose answer is awaited. Dropping it tells the session that nobody waits.
#[derive(Debug)]
pub(super) struct Awaited {
    session: Arc<Session>,
    lane: Lane,
    is_waiting: bool,
}

impl Awaited {
    pub(super) fn new(session: Arc<Session>, lane: Lane) -> Self {
        Self { session, lane, is_waiting: true }
    }

    /// The answer if it comes soon, or else the stream on which it will come.
    pub(super) async fn soon(mut self) -> Came {
        let answer = std::future::poll_fn(|cx| self.session.poll_answer(self.lane, cx.waker()));
        let came = tokio::select! {
            biased;
            answer = answer => answer,
            () = self.session.shared.sandglass.run_out() => None,
        };
        self.is_waiting = false;
        match came {
            Some(line) => Came::Answer(line),
            None => self.session.stream(self.lane).map_or(Came::Nothing, Came::Stream),
        }
    }
}

impl Drop for Awaited {
    fn drop(&mut self) {
        if self.is_waiting {
            self.session.give_up(self.lane);
        }
    }
}
