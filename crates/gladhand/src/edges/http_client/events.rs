//! Streams of events, with a bound on how much one event may hold.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::stream::BoxStream;
use futures_util::{StreamExt, TryStreamExt};
use reqwest::Response;
use sse_stream::{Sse, SseByteStream};

/// The pauses that a server may ask for before a stream is taken up again.
const PAUSES: std::ops::RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(60);

/// How long to wait if it does not ask.
pub(super) const USUAL_PAUSE: Duration = Duration::from_secs(1);

/// A stream of events under way, and where to take it up again should it break.
pub(super) struct Events {
    stream: BoxStream<'static, Result<Sse, sse_stream::Error>>,
    /// Bytes since the last event, and how many there may be.
    unread: Arc<AtomicUsize>,
    limit: usize,
    /// Whether it broke because an event was too long.
    pub(super) is_too_long: bool,
    pub(super) position: Position,
}

/// How far a stream has come.
#[derive(Debug, Clone)]
pub(super) struct Position {
    /// The id of the last event that had one.
    pub(super) last_id: Option<String>,
    /// How long to wait before going on from there.
    pub(super) pause: Duration,
}

impl Default for Position {
    fn default() -> Self {
        Self { last_id: None, pause: USUAL_PAUSE }
    }
}

/// Something that a stream said.
#[derive(Debug)]
pub(super) enum Said {
    /// A message.
    Message(String),
    /// An event of another name.
    Other { name: String, data: String },
}

#[derive(Debug, thiserror::Error)]
enum Broken {
    #[error("an event holds more than {0} bytes")]
    TooLong(usize),
    #[error(transparent)]
    Network(reqwest::Error),
}

impl Events {
    /// The events of a response, going on from a position, each of at most `limit` bytes.
    pub(super) fn of(response: Response, position: Position, limit: usize) -> Self {
        let unread = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&unread);
        let bytes = response.bytes_stream().map_err(Broken::Network).and_then(move |chunk| {
            let length = counted.fetch_add(chunk.len(), Ordering::Relaxed) + chunk.len();
            let checked = if length <= limit + chunk.len() { Ok(chunk) } else { Err(Broken::TooLong(limit)) };
            std::future::ready(checked)
        });
        Self { stream: SseByteStream::new(bytes).boxed(), unread, limit, is_too_long: false, position }
    }

    /// The next thing said; `None` when the stream has ended, in whatever way.
    pub(super) async fn next(&mut self) -> Option<Said> {
        loop {
            let event = match self.stream.next().await? {
                Ok(event) => event,
                Err(error) => {
                    tracing::debug!(%error, "a stream of the upstream broke");
                    self.is_too_long = self.unread.load(Ordering::Relaxed) > self.limit;
                    return None;
                }
            };
            self.unread.store(0, Ordering::Relaxed);
            if let Some(id) = event.id {
                self.position.last_id = Some(id).filter(|id| !id.is_empty());
            }
            if let Some(pause) = event.retry {
                self.position.pause = Duration::from_millis(pause).clamp(*PAUSES.start(), *PAUSES.end());
            }
            // An event without data marks a position and says nothing.
            let Some(data) = event.data.filter(|data| !data.trim().is_empty()) else { continue };
            return Some(match event.event {
                None => Said::Message(data),
                Some(name) if name == "message" || name.is_empty() => Said::Message(data),
                Some(name) => Said::Other { name, data },
            });
        }
    }
}
