//! The body of a response, and the state that it shares with its connection.
//!
//! A client may close its sending side and still wait for a response. A disconnected client looks the same until data
//! is written to it. While a response is pending, the end of input is therefore hidden from hyper, and a comment is
//! sent from time to time: writing it fails if the client is gone.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use futures_util::task::AtomicWaker;
use gladhand_dialects::Party;
use hyper::body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep};
use tokio_util::sync::CancellationToken;

use super::events::NOTHING_NEW;
use super::respond::Content;

/// How often to probe a client that has closed its sending side.
const PROBE: Duration = Duration::from_secs(1);

/// The state shared by the reading and writing halves of a connection and by its observers.
#[derive(Debug)]
pub(super) struct ConnectionState {
    /// The number of requests received.
    asked: AtomicU32,
    /// The number of requests answered.
    answered: AtomicU32,
    is_serving: AtomicBool,
    has_ended: AtomicBool,
    flushes: AtomicU64,
    /// The task that waits for the next flush.
    flush_waker: AtomicWaker,
    opened: Instant,
    /// When the last response was written, in milliseconds after the connection opened.
    rested_ms: AtomicU32,
    /// The party whose share of all connections it takes.
    party: AtomicU64,
    leaving: CancellationToken,
}

impl Default for ConnectionState {
    fn default() -> Self {
        Self::new(Party(0), CancellationToken::new())
    }
}

impl ConnectionState {
    /// The state of a new connection, which ends when `leaving` is cancelled.
    pub(super) fn new(party: Party, leaving: CancellationToken) -> Self {
        Self {
            asked: AtomicU32::new(0),
            answered: AtomicU32::new(0),
            is_serving: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
            flushes: AtomicU64::new(0),
            flush_waker: AtomicWaker::new(),
            opened: Instant::now(),
            rested_ms: AtomicU32::new(0),
            party: AtomicU64::new(party.0),
            leaving,
        }
    }

    /// When the connection was opened.
    pub(super) fn opened(&self) -> Instant {
        self.opened
    }

    /// All requests are answered at this time.
    pub(super) fn rests(&self, now: Instant) {
        let ms = now.saturating_duration_since(self.opened).as_millis();
        self.rested_ms.store(u32::try_from(ms).unwrap_or(u32::MAX), Ordering::Relaxed);
    }

    /// When it was last used.
    pub(super) fn used(&self) -> Instant {
        self.opened + Duration::from_millis(self.rested_ms.load(Ordering::Relaxed).into())
    }

    /// A principal uses the connection, which counts towards that party's share from now on.
    pub(super) fn belongs_to(&self, party: Party) {
        self.party.store(party.0, Ordering::Relaxed);
    }

    /// The party whose share of all connections it takes.
    pub(super) fn party(&self) -> Party {
        Party(self.party.load(Ordering::Relaxed))
    }

    /// Ends the connection.
    pub(super) fn leave(&self) {
        self.leaving.cancel();
    }

    /// Cancelled when the connection is to end.
    pub(super) fn leaving(&self) -> &CancellationToken {
        &self.leaving
    }

    /// The head of a request came.
    pub(super) fn ask(&self) {
        self.asked.fetch_add(1, Ordering::Relaxed);
    }

    /// A complete request has arrived. A client that ends its input from now on may still wait for the response.
    pub(super) fn heard(&self) {
        self.is_serving.store(true, Ordering::Relaxed);
    }

    /// The number of answered requests, or `None` while one is pending.
    pub(super) fn at_rest(&self) -> Option<u32> {
        let answered = self.answered.load(Ordering::Relaxed);
        (self.asked.load(Ordering::Relaxed) == answered).then_some(answered)
    }

    /// Whether a response is pending.
    pub(super) fn is_serving(&self) -> bool {
        self.is_serving.load(Ordering::Relaxed)
    }

    /// The client has ended its input. Returns whether a response is still being written.
    pub(super) fn ended(&self) -> bool {
        self.has_ended.store(true, Ordering::Relaxed);
        self.is_serving()
    }

    /// Whether the client has ended its input.
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed)
    }

    /// All data handed to the connection was written.
    pub(super) fn flushed(&self) {
        self.flushes.fetch_add(1, Ordering::Relaxed);
        self.flush_waker.wake();
    }

    /// Wakes a task when all data handed to the connection was written.
    pub(super) fn wake_when_flushed(&self, waker: &Waker) {
        self.flush_waker.register(waker);
    }

    /// How often all data was written. Data handed over since the last change may still be buffered.
    pub(super) fn flushes(&self) -> u64 {
        self.flushes.load(Ordering::Relaxed)
    }
}

/// Marks an exchange as pending until it is dropped.
#[derive(Debug)]
pub(super) struct Serving(Arc<ConnectionState>);

impl Serving {
    pub(super) fn on(line: Arc<ConnectionState>) -> Self {
        line.heard();
        Self(line)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.is_serving.store(false, Ordering::Relaxed);
        self.0.answered.fetch_add(1, Ordering::Relaxed);
    }
}

/// The body of a response.
#[derive(Debug)]
pub(super) struct Served {
    content: Content,
    serving: Serving,
    /// When to probe the client again.
    probe: Option<Pin<Box<Sleep>>>,
}

impl Served {
    pub(super) fn new(content: Content, serving: Serving) -> Self {
        Self { content, serving, probe: None }
    }

    /// Sends an empty comment at regular intervals.
    fn probe(&mut self, cx: &mut Context<'_>) -> Poll<Bytes> {
        let next = Instant::now() + PROBE;
        match &mut self.probe {
            Some(probe) => {
                std::task::ready!(probe.as_mut().poll(cx));
                probe.as_mut().reset(next);
            }
            none => *none = Some(Box::pin(tokio::time::sleep_until(next))),
        }
        Poll::Ready(NOTHING_NEW)
    }
}

impl Body for Served {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = &mut *self;
        match Pin::new(&mut this.content).poll_frame(cx) {
            // Only streams are ever pending, and clients ignore comments there.
            Poll::Pending if this.serving.0.has_ended() => this.probe(cx).map(|nothing| Some(Ok(Frame::data(nothing)))),
            polled => polled,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.content.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.content.size_hint()
    }
}
