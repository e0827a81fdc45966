//! Replies that come in pieces, with bounds on one event and on all of them.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::stream::BoxStream;
use futures_util::{StreamExt, TryStreamExt};
use reqwest::Response;
use sse_stream::{Sse, SseByteStream};

/// The most that one event may hold, in mebibytes. Pictures come in one event.
pub(crate) const MAX_EVENT_MIB: usize = 16;
const MAX_EVENT: usize = MAX_EVENT_MIB * 1024 * 1024;
/// The most that a whole reply may hold, in mebibytes.
pub(crate) const MAX_REPLY_MIB: usize = 32;
pub(crate) const MAX_REPLY: usize = MAX_REPLY_MIB * 1024 * 1024;

/// A stream of events under way.
pub(crate) struct Events {
    stream: BoxStream<'static, Result<Sse, sse_stream::Error>>,
    /// Bytes since the last event.
    unread: Arc<AtomicUsize>,
    /// Bytes before that.
    read: usize,
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").field("read", &self.read).finish_non_exhaustive()
    }
}

/// What is wrong with a stream, besides that it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// An event, or all of them, hold more than we keep.
    TooLong,
    /// It is not text.
    NotText,
}

#[derive(Debug, thiserror::Error)]
enum Broken {
    #[error("too long")]
    TooLong,
    #[error(transparent)]
    Network(reqwest::Error),
}

impl Events {
    /// The events of a response.
    pub(crate) fn of(response: Response) -> Self {
        let unread = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&unread);
        let bytes = response.bytes_stream().map_err(Broken::Network).and_then(move |chunk| {
            let length = counted.fetch_add(chunk.len(), Ordering::Relaxed) + chunk.len();
            let checked = if length <= MAX_EVENT + chunk.len() { Ok(chunk) } else { Err(Broken::TooLong) };
            std::future::ready(checked)
        });
        Self { stream: SseByteStream::new(bytes).boxed(), unread, read: 0 }
    }

    /// The data of the next event; `None` when the stream has ended, by itself or because the connection broke. Every
    /// protocol that we read marks its end, so the two need not be told apart.
    pub(crate) async fn next(&mut self) -> Result<Option<String>, Flaw> {
        loop {
            let event = match self.stream.next().await {
                None => return Ok(None),
                Some(Ok(event)) => event,
                Some(Err(sse_stream::Error::Body(_))) if self.unread.load(Ordering::Relaxed) > MAX_EVENT => {
                    return Err(Flaw::TooLong);
                }
                Some(Err(sse_stream::Error::Body(_))) => return Ok(None),
                Some(Err(_)) => return Err(Flaw::NotText),
            };
            self.read += self.unread.swap(0, Ordering::Relaxed);
            if self.read > MAX_REPLY {
                return Err(Flaw::TooLong);
            }
            // What an event is called is repeated in its data wherever it matters.
            if let Some(data) = event.data.filter(|data| !data.trim().is_empty()) {
                return Ok(Some(data));
            }
        }
    }
}
