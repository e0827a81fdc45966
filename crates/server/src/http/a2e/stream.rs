//! The body of `GET /stream`: hands on what a session writes, and says something when it is silent.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use gladhand_hub::Portion;
use hyper::body::{Body, Frame};
use tokio::time::{Instant, Sleep};

use super::super::events::NOTHING_NEW;
use super::super::stream::Taken;
use super::session::AgentSession;

/// The reader of one session. Dropping it tells the session that the reader is gone.
#[derive(Debug)]
pub(in crate::http) struct AgentStream {
    session: Arc<AgentSession>,
    reader: u64,
    /// The scopes of the token that asked for the stream. It ends before the first message that comes after a call in the
    /// session needed another scope; the message stays for a reader that comes back with more.
    scopes: Option<Arc<str>>,
    /// The rest of an event that has begun, the last piece first.
    rest: Vec<Bytes>,
    /// When to say something although there is nothing to say.
    silence: Pin<Box<Sleep>>,
    every: Duration,
    /// Its part of all streams.
    _portion: Portion,
}

impl AgentStream {
    pub(super) fn new(session: Arc<AgentSession>, reader: u64, scopes: Option<Arc<str>>) -> Self {
        let portion = session.shared.streams.portion(session.who.party).with(1);
        let every = session.shared.options.keep_alive;
        let silence = Box::pin(tokio::time::sleep(every));
        Self { session, reader, scopes, rest: Vec::new(), silence, every, _portion: portion }
    }
}

impl Body for AgentStream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = &mut *self;
        if let Some(piece) = this.rest.pop() {
            if this.rest.is_empty() {
                this.session.passed_on(this.reader);
            }
            return Poll::Ready(Some(Ok(Frame::data(piece))));
        }
        if this.session.record.needed_beyond(this.scopes.as_deref()).is_some() {
            return Poll::Ready(None);
        }
        let events = match this.session.take(this.reader, cx.waker()) {
            Taken::End => return Poll::Ready(None),
            Taken::Events(events) => events,
            Taken::Message(message) => {
                this.rest.extend([Bytes::from_static(b"\n\n"), message]);
                Bytes::from_static(b"data: ")
            }
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
