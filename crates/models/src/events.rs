//! Reads server-sent events, with limits on one event and on the whole reply.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::stream::BoxStream;
use futures_util::{StreamExt, TryStreamExt};
use reqwest::Response;
use sse_stream::{Sse, SseByteStream};

/// The maximum size of one event in MiB. An image arrives in one event.
pub(crate) const MAX_EVENT_MIB: usize = 16;
const MAX_EVENT: usize = MAX_EVENT_MIB * 1024 * 1024;
/// The maximum size of a whole reply in MiB.
pub(crate) const MAX_REPLY_MIB: usize = 32;
pub(crate) const MAX_REPLY: usize = MAX_REPLY_MIB * 1024 * 1024;

/// An open event stream.
pub(crate) struct Events {
    stream: BoxStream<'static, Result<Sse, sse_stream::Error>>,
    /// Bytes received since the last event.
    unread: Arc<AtomicUsize>,
    /// Bytes of all events before that.
    read: usize,
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").field("read", &self.read).finish_non_exhaustive()
    }
}

/// A defect of a stream other than its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamDefect {
    /// One event, or all of them together, exceed the size limit.
    TooLong,
    /// The stream is not valid text.
    NotText,
}

#[derive(Debug, thiserror::Error)]
enum ByteStreamError {
    #[error("too long")]
    TooLong,
    #[error(transparent)]
    Network(reqwest::Error),
}

impl Events {
    /// Reads the events of a response.
    pub(crate) fn of(response: Response) -> Self {
        let unread = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&unread);
        let bytes = response.bytes_stream().map_err(ByteStreamError::Network).and_then(move |chunk| {
            let length = counted.fetch_add(chunk.len(), Ordering::Relaxed) + chunk.len();
            let checked = if length <= MAX_EVENT + chunk.len() { Ok(chunk) } else { Err(ByteStreamError::TooLong) };
            std::future::ready(checked)
        });
        Self { stream: SseByteStream::new(bytes).boxed(), unread, read: 0 }
    }

    /// Returns the data of the next event, or `None` at the end of the stream. A broken connection also counts as
    /// the end: every supported protocol marks the end of a reply, so callers detect a reply that is incomplete.
    pub(crate) async fn next(&mut self) -> Result<Option<String>, StreamDefect> {
        loop {
            let event = match self.stream.next().await {
                None => return Ok(None),
                Some(Ok(event)) => event,
                Some(Err(sse_stream::Error::Body(_))) if self.unread.load(Ordering::Relaxed) > MAX_EVENT => {
                    return Err(StreamDefect::TooLong);
                }
                Some(Err(sse_stream::Error::Body(_))) => return Ok(None),
                Some(Err(_)) => return Err(StreamDefect::NotText),
            };
            self.read += self.unread.swap(0, Ordering::Relaxed);
            if self.read > MAX_REPLY {
                return Err(StreamDefect::TooLong);
            }
            // Event names are ignored: where the name matters, the data repeats it.
            if let Some(data) = event.data.filter(|data| !data.trim().is_empty()) {
                return Ok(Some(data));
            }
        }
    }
}
