//! The body of an event stream: hands on what a session writes, and says something when it is silent.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use gladhand_dialects::{Lane, Party};
use gladhand_hub::Portion;
use hyper::body::{Body, Frame};
use tokio::time::{Instant, Sleep};

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
    /// Sent before all events.
    preface: Option<Bytes>,
    /// Ends the session together with the stream, where they are one.
    farewell: Option<Farewell>,
    /// The scopes of the token that asked for the stream, where the session's id alone led to it.
    held_to: Option<Option<Arc<str>>>,
    /// When to say something although there is nothing to say.
    silence: Pin<Box<Sleep>>,
    every: Duration,
    /// Whose share its events take until they are written.
    party: Party,
    /// Its part of all streams.
    _portion: Portion,
}

impl Events {
    pub(super) fn new(session: Arc<Session>, lane: Lane, reader: ReaderToken, party: Party) -> Self {
        let portion = session.shared.streams.portion(party).with(1);
        let every = session.shared.options.keep_alive;
        let silence = Box::pin(tokio::time::sleep(every));
        Self {
            session,
            lane,
            reader,
            preface: None,
            farewell: None,
            held_to: None,
            silence,
            every,
            party,
            _portion: portion,
        }
    }

    /// The same stream with something before everything else, and a session that ends with it.
    pub(super) fn with(mut self, preface: Bytes, farewell: Farewell) -> Self {
        self.preface = Some(preface);
        self.farewell = Some(farewell);
        self
    }

    /// The same stream for the reader whose token was granted these scopes. It ends before the first event that comes after a
    /// call in the session needed another scope; the event stays for a reader that comes back with more.
    pub(super) fn held_to(mut self, scopes: Option<Arc<str>>) -> Self {
        self.held_to = Some(scopes);
        self
    }

    fn lacks_scopes(&self) -> bool {
        let record = &self.session.record;
        self.held_to.as_ref().is_some_and(|scopes| record.needed_beyond(scopes.as_deref()).is_some())
    }
}

impl Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = &mut *self;
        if this.lacks_scopes() {
            return Poll::Ready(None);
        }
        let events = match this.preface.take() {
            Some(preface) => Some(preface),
            None => match this.session.take(this.lane, this.reader, cx.waker()) {
                Taken::End => return Poll::Ready(None),
                Taken::Events(events) | Taken::Message(events) => Some(this.session.shared.counted(events, this.party)),
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
