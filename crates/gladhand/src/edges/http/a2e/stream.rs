//! The body of `GET /stream`: hands on what a session writes, and says something when it is silent.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame};
use tokio::time::{Instant, Sleep};

use super::super::events::NOTHING_NEW;
use super::super::portions::Portion;
use super::super::stream::Taken;
use super::session::AgentSession;

/// The reader of one session. Dropping it tells the session that the reader is gone.
#[derive(Debug)]
pub(in crate::edges::http) struct AgentStream {
    session: Arc<AgentSession>,
    reader: u64,
    /// When to say something although there is nothing to say.
    silence: Pin<Box<Sleep>>,
    every: Duration,
    /// Its part of all streams.
    _portion: Portion,
}

impl AgentStream {
    pub(super) fn new(session: Arc<AgentSession>, reader: u64) -> Self {
        let portion = session.shared.streams.portion(session.who.party).with(1);
        let every = session.shared.config.keep_alive();
        Self { session, reader, silence: Box::pin(tokio::time::sleep(every)), every, _portion: portion }
    }
}

impl Body for AgentStream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = &mut *self;
        let events = match this.session.take(this.reader, cx.waker()) {
            Taken::End => return Poll::Ready(None),
            Taken::Events(events) => events,
            Taken::Nothing if this.silence.as_mut().poll(cx).is_ready() => NOTHING_NEW,
            Taken::Nothing => return Poll::Pending,
        };
        this.silence.as_mut().reset(Instant::now() + this.every);
        Poll::Ready(Some(Ok(Frame::data(events))))
    }
}

impl Drop for AgentStream {
    fn drop(&mut self) {
        self.session.let_go(self.reader);
    }
}
