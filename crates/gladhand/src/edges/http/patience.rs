//! A connection whose peer must take what it is sent.
//!
//! Answers wait in memory until they are written. A peer that takes nothing for a while is let go, so that nobody can
//! make us keep them for as long as it likes.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use super::served::Line;

/// A stream that fails when nothing could be written to it for too long.
#[derive(Debug)]
pub(super) struct Patient<S> {
    stream: S,
    patience: Duration,
    /// Set while a write is waiting.
    stalled: Option<Pin<Box<Sleep>>>,
    line: Arc<Line>,
    /// Whether the end was reached before.
    was_at_end: bool,
}

impl<S> Patient<S> {
    pub(super) fn new(stream: S, patience: Duration, line: Arc<Line>) -> Self {
        Self { stream, patience, stalled: None, line, was_at_end: false }
    }

    /// Passes on what a write came to; one that waits is given its time.
    fn watched<T>(&mut self, written: Poll<io::Result<T>>, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let patience = self.patience;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(Instant::now() + patience)));
        ready!(stalled.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the peer does not read")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let (before, has_room) = (buf.filled().len(), buf.remaining() > 0);
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        let has_ended = has_room && matches!(read, Poll::Ready(Ok(()))) && buf.filled().len() == before;
        if !has_ended {
            return read;
        }
        if self.line.ended() {
            // Whoever reads asks again when the response is out.
            return Poll::Pending;
        }
        if !std::mem::replace(&mut self.was_at_end, true) {
            // What came just before may be a whole request: it is looked at first.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
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
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    #[tokio::test]
    async fn a_peer_that_does_not_read_is_let_go() {
        let (ours, mut theirs) = tokio::io::duplex(16);
        let mut patient = Patient::new(ours, Duration::from_millis(50), Arc::default());
        patient.write_all(&[7; 16]).await.unwrap();
        theirs.read_exact(&mut [0; 16]).await.unwrap();
        let refused = patient.write_all(&[7; 64]).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::TimedOut);
        drop(theirs);
    }
}
