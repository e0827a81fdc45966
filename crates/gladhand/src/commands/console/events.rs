//! The events of a console, for the pages that read them.
//!
//! The newest events are kept once for all readers. Each reader remembers how far it has read. A reader that is too slow
//! finds events missing and is told how many, so it costs no memory and delays nothing.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use gladhand_core::sync::Unpoisoned as _;
use serde_json::Value;
use tokio::sync::watch;

/// Maximum number of pages that read at the same time.
pub(super) const MAX_READERS: usize = 16;

/// Maximum number of events that are kept for slow readers.
const MAX_EVENTS: usize = 8192;

/// Maximum size of the events that are kept, in bytes.
const MAX_BYTES: usize = 4 * 1024 * 1024;

/// Maximum number of events in one batch.
const MAX_BATCH: usize = 1024;

/// The events of one console.
#[derive(Debug)]
pub(super) struct ConsoleEvents {
    ring: Mutex<Ring>,
    /// The number of the next event.
    next: watch::Sender<u64>,
    readers: AtomicUsize,
}

#[derive(Debug, Default)]
struct Ring {
    events: VecDeque<Box<str>>,
    /// The number of the first event in the ring.
    first: u64,
    bytes: usize,
}

/// Events that a reader has not seen.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct EventBatch {
    /// A JSON list.
    pub(super) json: String,
    /// The number of events before them that are not kept any more.
    pub(super) lost: u64,
    /// Whether there are no events.
    pub(super) is_empty: bool,
}

impl Default for ConsoleEvents {
    fn default() -> Self {
        Self { ring: Mutex::default(), next: watch::Sender::new(0), readers: AtomicUsize::new(0) }
    }
}

impl ConsoleEvents {
    /// Adds an event.
    pub(super) fn push(&self, event: &Value) {
        let text = event.to_string().into_boxed_str();
        let mut ring = self.ring.lock().unpoisoned();
        ring.bytes += text.len();
        ring.events.push_back(text);
        while ring.events.len() > MAX_EVENTS || ring.bytes > MAX_BYTES {
            let Some(oldest) = ring.events.pop_front() else { break };
            ring.bytes -= oldest.len();
            ring.first += 1;
        }
        let next = ring.first + ring.events.len() as u64;
        drop(ring);
        self.next.send_replace(next);
    }

    /// A new reader, which gets the events from now on. `None`: there are too many.
    pub(super) fn reader(self: &Arc<Self>) -> Option<EventReader> {
        let may_enter = |readers: usize| (readers < MAX_READERS).then_some(readers + 1);
        self.readers.fetch_update(Ordering::Relaxed, Ordering::Relaxed, may_enter).ok()?;
        let next = self.next.subscribe();
        let position = *next.borrow();
        Some(EventReader { events: Arc::clone(self), next, position })
    }
}

/// A page that reads events.
#[derive(Debug)]
pub(super) struct EventReader {
    events: Arc<ConsoleEvents>,
    next: watch::Receiver<u64>,
    /// The number of the next event to read.
    position: u64,
}

impl EventReader {
    /// Waits until there is an event.
    pub(super) async fn ready(&mut self) {
        let position = self.position;
        // The sender lives as long as the events.
        let _ = self.next.wait_for(|next| *next > position).await;
    }

    /// The next events, at most a batch of them.
    pub(super) fn read(&mut self) -> EventBatch {
        let ring = self.events.ring.lock().unpoisoned();
        let lost = ring.first.saturating_sub(self.position);
        let begin = usize::try_from(self.position.saturating_sub(ring.first)).unwrap_or(usize::MAX);
        let batch = ring.events.iter().skip(begin).take(MAX_BATCH);
        let (mut json, mut count) = (String::from("["), 0_u64);
        for event in batch {
            if count > 0 {
                json.push(',');
            }
            json.push_str(event);
            count += 1;
        }
        json.push(']');
        self.position += lost + count;
        EventBatch { json, lost, is_empty: count == 0 }
    }
}

impl Drop for EventReader {
    fn drop(&mut self) {
        self.events.readers.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_reader_gets_the_events_since_its_last_batch() {
        let events = Arc::<ConsoleEvents>::default();
        events.push(&json!("before"));
        let mut reader = events.reader().unwrap();
        assert!(reader.read().is_empty);
        events.push(&json!({"a": 1}));
        events.push(&json!(2));
        assert_eq!(reader.read(), EventBatch { json: r#"[{"a":1},2]"#.to_owned(), lost: 0, is_empty: false });
        assert!(reader.read().is_empty);
    }

    #[test]
    fn a_slow_reader_loses_the_oldest_events_and_gets_their_number() {
        let events = Arc::<ConsoleEvents>::default();
        let mut reader = events.reader().unwrap();
        (0..MAX_EVENTS + 5).for_each(|number| events.push(&json!(number)));
        let batch = reader.read();
        assert_eq!((batch.lost, batch.json.starts_with("[5,6,")), (5, true));
        let long = "x".repeat(MAX_BYTES);
        events.push(&json!(long));
        assert!(events.ring.lock().unpoisoned().bytes <= MAX_BYTES);
    }

    #[test]
    fn the_number_of_readers_is_bounded_and_a_reader_that_leaves_makes_room() {
        let events = Arc::<ConsoleEvents>::default();
        let mut readers: Vec<_> = (0..MAX_READERS).map(|_| events.reader().unwrap()).collect();
        assert!(events.reader().is_none());
        readers.pop();
        assert!(events.reader().is_some());
    }
}
