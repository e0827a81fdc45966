//! The body of an event stream: hands on what a session writes, and says something when it is silent.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use gladhand_dialects::{Lane, Party};
use hyper::body::{Body, Frame};
use tokio::time::{Instant, Sleep};

use super::portions::Portion;
use super::session::Session;
use super::sessions::Farewell;
use super::stream::{ReaderToken, Taken};

/// A comment that readers ignore and that keeps the connection from looking dead.
pub(super) const NOTHING_NEW: Bytes = Bytes::from_static(b":\n\n");

/// One reader of one stream. Dropping it tells the session that the reader is gone.
#[derive(Debug)]
pub(super) struct Events {
    session: Arc<Session>,
    lane: Lane,
    reader: ReaderToken,
    /// What goes before everything else.
    preface: Option<Bytes>,
    /// Ends the session together with the stream, where they are one.
    farewell: Option<Farewell>,
    /// When to say something although there is nothing to say.
    silence: Pin<Box<Sleep>>,
    every: Duration,
    /// Its part of all streams.
    _portion: Portion,
}

impl Events {
    pub(super) fn new(session: Arc<Session>, lane: Lane, reader: ReaderToken, party: Party) -> Self {
        let portion = session.shared.streams.portion(party).with(1);
        let every = session.shared.config.keep_alive();
        let silence = Box::pin(tokio::time::sleep(every));
        Self { session, lane, reader, preface: None, farewell: None, silence, every, _portion: portion }
    }

    /// The same stream with something before everything else, and a session that ends with it.
    pub(super) fn with(mut self, preface: Bytes, farewell: Farewell) -> Self {
        self.preface = Some(preface);
        self.farewell = Some(farewell);
        self
    }
}

impl Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = &mut *self;
        let events = match this.preface.take() {
            Some(preface) => Some(preface),
            None => match this.session.take(this.lane, this.reader, cx.waker()) {
                Taken::End => return Poll::Ready(None),
                Taken::Events(events) => Some(events),
                Taken::Nothing => this.silence.as_mut().poll(cx).is_ready().then_some(NOTHING_NEW),
            },
        };
        let Some(events) = events else { return Poll::Pending };
        this.silence.as_mut().reset(Instant::now() + this.every);
        Poll::Ready(Some(Ok(Frame::data(events))))
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.session.let_go(self.lane, self.reader);
    }
}
