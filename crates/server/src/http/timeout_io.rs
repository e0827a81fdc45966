//! A connection with timeouts for a slow or silent peer.
//!
//! Responses stay in memory until they are written. If a peer reads nothing for a while, its connection is closed, so
//! that it cannot hold this memory. A peer that does not complete the head of a request is disconnected too.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use super::first_bytes;
use super::served::ConnectionState;

/// How many bytes are read ahead while a response is pending.
const GLANCE: usize = 256;

/// How long a peer is waited for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timeouts {
    /// How long the head of a request may take, counted from the previous response.
    pub(super) head: Duration,
    /// How long the peer may leave written data unread.
    pub(super) write: Duration,
}

/// A stream that fails when its peer exceeds a timeout.
#[derive(Debug)]
pub(super) struct TimeoutIo<S> {
    stream: S,
    timeouts: Timeouts,
    /// Set while a write is waiting.
    stalled: Option<Pin<Box<Sleep>>>,
    waiting: Waiting,
    line: Arc<ConnectionState>,
    /// Bytes read ahead: the first bytes, or bytes that arrived while a response was pending.
    ahead: Vec<u8>,
    /// Whether the end of the input was seen before.
    was_at_end: bool,
    /// How many bytes were read since the last response, while no request was running.
    head: usize,
}

/// The wait for a request.
#[derive(Debug)]
struct Waiting {
    /// How many requests were answered before this one.
    answered: u32,
    since: Instant,
    /// One timer for all requests. If it fires too early, it is set again.
    timer: Option<Pin<Box<Sleep>>>,
}

impl<S> TimeoutIo<S> {
    /// A stream of which the first bytes were read before.
    pub(super) fn new(first: Vec<u8>, stream: S, timeouts: Timeouts, line: Arc<ConnectionState>) -> Self {
        let waiting = Waiting { answered: 0, since: line.opened(), timer: None };
        Self { stream, timeouts, stalled: None, waiting, line, ahead: first, was_at_end: false, head: 0 }
    }

    /// Passes on the result of a write, and starts the write timeout if it is pending.
    fn watched<T>(&mut self, written: Poll<io::Result<T>>, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let until = || Instant::now() + self.timeouts.write;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until())));
        ready!(stalled.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the peer does not read")))
    }
}

impl Waiting {
    /// Begins the wait if it has not begun. Returns whether it begins now.
    fn begin(&mut self, answered: u32, line: &ConnectionState) -> bool {
        let is_new = self.answered != answered;
        if is_new {
            (self.answered, self.since) = (answered, Instant::now());
            line.rests(self.since);
        }
        is_new
    }

    /// Ready when no byte has arrived within the timeout.
    fn poll_end(&mut self, head: Duration, cx: &mut Context<'_>) -> Poll<()> {
        let until = self.since + head;
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until)));
        loop {
            ready!(timer.as_mut().poll(cx));
            if timer.deadline() >= until {
                return Poll::Ready(());
            }
            timer.as_mut().reset(until);
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TimeoutIo<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let (before, has_room) = (buf.filled().len(), buf.remaining() > 0);
        let at_rest = this.line.at_rest();
        if let Some(answered) = at_rest {
            if this.waiting.begin(answered, &this.line) {
                this.head = 0;
            }
            // The reader asks for more only if the head is not complete yet.
            if this.head >= first_bytes::MOST {
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, "the head is too long")));
            }
        }
        let read = if this.ahead.is_empty() {
            let read = if at_rest.is_some() && buf.remaining() > first_bytes::MOST {
                // No more than a head is read ahead of a request.
                let mut part = ReadBuf::new(buf.initialize_unfilled_to(first_bytes::MOST));
                let read = Pin::new(&mut this.stream).poll_read(cx, &mut part);
                let length = part.filled().len();
                buf.advance(length);
                read
            } else {
                Pin::new(&mut this.stream).poll_read(cx, buf)
            };
            this.head += if at_rest.is_some() { buf.filled().len() - before } else { 0 };
            read
        } else {
            first_bytes::take_from(&mut this.ahead, buf);
            Poll::Ready(Ok(()))
        };
        if at_rest.is_some() && read.is_pending() {
            ready!(this.waiting.poll_end(this.timeouts.head, cx));
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "no request came")));
        }
        let has_ended = has_room && matches!(read, Poll::Ready(Ok(()))) && buf.filled().len() == before;
        if !has_ended {
            return read;
        }
        if self.line.ended() {
            // The reader polls again when the response is written.
            return Poll::Pending;
        }
        if !std::mem::replace(&mut self.was_at_end, true) {
            // The bytes before the end may be a complete request, so they are processed first.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        read
    }
}

impl<S: AsyncRead + Unpin> TimeoutIo<S> {
    /// Checks whether the peer is still connected while a response is pending. hyper does not read at that time: its
    /// buffer is in use.
    fn look(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        if !self.ahead.is_empty() || self.line.has_ended() || !self.line.is_serving() {
            return Ok(());
        }
        let mut bytes = [0; GLANCE];
        let mut glance = ReadBuf::new(&mut bytes);
        match Pin::new(&mut self.stream).poll_read(cx, &mut glance) {
            Poll::Pending => return Ok(()),
            Poll::Ready(read) => read?,
        }
        if glance.filled().is_empty() {
            self.line.ended();
            // Wake the writer of the response, so that it notices the end.
            cx.waker().wake_by_ref();
        } else {
            self.ahead.extend_from_slice(glance.filled());
        }
        Ok(())
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for TimeoutIo<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.watched(written, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.watched(written, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        if matches!(flushed, Poll::Ready(Ok(()))) {
            self.line.flushed();
            self.look(cx)?;
        }
        self.watched(flushed, cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let ended = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.watched(ended, cx)
    }
}

#[cfg(test)]
mod tests {
    use super::super::served::Serving;
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

    fn timed(stream: DuplexStream, line: &Arc<ConnectionState>, head: Duration) -> TimeoutIo<DuplexStream> {
        let timeouts = Timeouts { head, write: Duration::from_millis(50) };
        TimeoutIo::new(Vec::new(), stream, timeouts, Arc::clone(line))
    }

    #[tokio::test]
    async fn a_write_to_a_peer_that_does_not_read_times_out() {
        let (ours, mut theirs) = tokio::io::duplex(16);
        let mut timed = timed(ours, &Arc::default(), Duration::MAX);
        timed.write_all(&[7; 16]).await.unwrap();
        theirs.read_exact(&mut [0; 16]).await.unwrap();
        let refused = timed.write_all(&[7; 64]).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::TimedOut);
        drop(theirs);
    }

    #[tokio::test]
    async fn the_head_timeout_does_not_run_while_a_request_is_served() {
        let (ours, mut theirs) = tokio::io::duplex(16);
        let (head, line) = (Duration::from_millis(50), Arc::<ConnectionState>::default());
        let mut timed = timed(ours, &line, head);
        line.ask();
        let serving = Serving::on(Arc::clone(&line));
        let quiet = tokio::time::timeout(4 * head, timed.read_u8()).await;
        assert!(quiet.is_err(), "however long it takes: {quiet:?}");
        drop(serving);
        theirs.write_u8(7).await.unwrap();
        assert_eq!(timed.read_u8().await.unwrap(), 7);
        assert_eq!(timed.read_u8().await.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn bytes_received_while_a_request_is_served_are_buffered_up_to_a_bound() {
        let (ours, mut theirs) = tokio::io::duplex(1024);
        let line = Arc::<ConnectionState>::default();
        let mut timed = timed(ours, &line, Duration::MAX);
        line.ask();
        let serving = Serving::on(Arc::clone(&line));
        let sent: Vec<u8> = (0..1000_u32).map(|number| number as u8).collect();
        theirs.write_all(&sent).await.unwrap();
        for _ in 0..3 {
            timed.flush().await.unwrap();
            assert_eq!(timed.ahead.len(), GLANCE, "no more than a glance");
        }
        drop(serving);
        let mut read = vec![0; sent.len()];
        timed.read_exact(&mut read[..7]).await.unwrap();
        timed.read_exact(&mut read[7..]).await.unwrap();
        assert_eq!(read, sent);
    }

    #[tokio::test]
    async fn a_disconnect_while_a_request_is_served_is_detected() {
        let (ours, theirs) = tokio::io::duplex(16);
        let line = Arc::<ConnectionState>::default();
        let mut timed = timed(ours, &line, Duration::MAX);
        line.ask();
        let serving = Serving::on(Arc::clone(&line));
        timed.flush().await.unwrap();
        assert!(!line.has_ended());
        drop(theirs);
        timed.flush().await.unwrap();
        assert!(line.has_ended());
        drop(serving);
        assert_eq!(timed.read(&mut [0; 8]).await.unwrap(), 0);
    }

    #[tokio::test]
    async fn a_request_sent_byte_by_byte_does_not_extend_the_timeout() {
        let (ours, mut theirs) = tokio::io::duplex(16);
        let mut timed = timed(ours, &Arc::default(), Duration::from_millis(100));
        let drip = tokio::spawn(async move {
            while theirs.write_u8(7).await.is_ok() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        });
        let refused = loop {
            if let Err(error) = timed.read_u8().await {
                break error;
            }
        };
        assert_eq!(refused.kind(), io::ErrorKind::TimedOut);
        drip.abort();
    }
}
