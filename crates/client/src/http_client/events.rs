//! Streams of events, with a bound on how much one event may hold.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures_util::stream::BoxStream;
use futures_util::{StreamExt, TryStreamExt};
use gladhand_core::sync::Unpoisoned as _;
use gladhand_dialects::Loss;
use gladhand_hub::Portion;
use reqwest::Response;
use sse_stream::{Sse, SseByteStream};

use super::response_budget::ReceivedMessage;

/// The pauses that a server may ask for before a stream is taken up again.
const PAUSES: std::ops::RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(60);

/// How long to wait if it does not ask.
pub(super) const USUAL_PAUSE: Duration = Duration::from_secs(1);

/// Maximum length in bytes of an event id that is kept. A stream with a longer one is not taken up again after it breaks.
const MAX_ID_BYTES: usize = 1024;

/// A stream of events under way, and where to take it up again should it break.
pub(super) struct Events {
    stream: BoxStream<'static, Result<Sse, sse_stream::Error>>,
    /// Bytes that arrived since the last event.
    unread: Arc<Mutex<Unread>>,
    pub(super) position: Position,
}

/// The bytes of an event that is not complete yet.
struct Unread {
    portion: Portion,
    limit: usize,
    /// Why the stream broke, if it is too much.
    loss: Option<Loss>,
}

impl Unread {
    /// Counts a chunk; an error if there was enough before, or there is no room for it.
    fn count(&mut self, chunk: usize) -> Result<(), Broken> {
        self.loss = match self.portion.amount() {
            before if before > self.limit => Some(Loss::TooLong(self.limit)),
            _ if !self.portion.grow(chunk) => Some(Loss::NoRoom),
            _ => return Ok(()),
        };
        Err(Broken::TooMuch(self.limit))
    }
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

impl Position {
    /// An event with an id has arrived.
    fn passed(&mut self, id: String) {
        self.last_id = Some(id).filter(|id| !id.is_empty() && id.len() <= MAX_ID_BYTES);
    }
}

/// An event of a stream.
#[derive(Debug)]
pub(super) enum StreamEvent {
    /// A message.
    Message(ReceivedMessage),
    /// An event of another name.
    Other { name: String, data: String },
}

#[derive(Debug, thiserror::Error)]
enum Broken {
    #[error("an event holds more than {0} bytes, or there is no room for it")]
    TooMuch(usize),
    #[error(transparent)]
    Network(reqwest::Error),
}

impl Events {
    /// The events of a response, going on from a position, each of at most `limit` bytes, which take the portion.
    pub(super) fn of(response: Response, position: Position, limit: usize, portion: Portion) -> Self {
        let unread = Arc::new(Mutex::new(Unread { portion, limit, loss: None }));
        let counted = Arc::clone(&unread);
        let bytes = response.bytes_stream().map_err(Broken::Network).and_then(move |chunk| {
            let mut unread = counted.lock().unpoisoned();
            std::future::ready(unread.count(chunk.len()).map(|()| chunk))
        });
        Self { stream: SseByteStream::new(bytes).boxed(), unread, position }
    }

    /// Why it broke, if what came was too much.
    pub(super) fn loss(&self) -> Option<Loss> {
        self.lock().loss.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Unread> {
        self.unread.lock().unpoisoned()
    }

    /// The next item of the stream; `None` when the stream has ended for any reason.
    pub(super) async fn next(&mut self) -> Option<StreamEvent> {
        loop {
            let event = match self.stream.next().await? {
                Ok(event) => event,
                Err(error) => {
                    tracing::debug!(%error, "a stream of the upstream broke");
                    return None;
                }
            };
            let portion = self.lock().portion.take();
            if let Some(id) = event.id {
                self.position.passed(id);
            }
            if let Some(pause) = event.retry {
                self.position.pause = Duration::from_millis(pause).clamp(*PAUSES.start(), *PAUSES.end());
            }
            // An event without data marks a position and says nothing.
            let Some(data) = event.data.filter(|data| !data.trim().is_empty()) else { continue };
            return Some(match event.event {
                Some(name) if !matches!(name.as_str(), "" | "message") => StreamEvent::Other { name, data },
                _ => StreamEvent::Message(ReceivedMessage::new(data.into_bytes(), portion)),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_event_id_is_not_kept() {
        let mut position = Position::default();
        position.passed("7".repeat(MAX_ID_BYTES));
        assert_eq!(position.last_id.as_ref().map(String::len), Some(MAX_ID_BYTES));
        position.passed("7".repeat(MAX_ID_BYTES + 1));
        assert_eq!(position.last_id, None, "an earlier id would repeat events");
    }
}
