//! Keeps the sessions that pass a tap, on a thread of its own.
//!
//! A session hands its messages to a bounded queue. If the queue is full, messages are dropped and counted: no session
//! waits for the console.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use gladhand_core::sync::Unpoisoned as _;
use gladhand_recording::Entry;
use gladhand_session::tap::{Attached, Tap};
use serde_json::json;

use super::events::ConsoleEvents;
use super::kept::KeptMessages;
use crate::recorder::Masks;
use crate::recorder::tap_queue::{QueueBounds, QueuedEntries, Taken, tap_queue};

/// The bounds of the queue.
const BOUNDS: QueueBounds = QueueBounds { entries: 8192, bytes: 64 * 1024 * 1024 };

/// Keeps what passes a tap until this is dropped.
#[must_use = "dropping it detaches the console"]
pub(super) struct TapMemory {
    _attached: Attached,
}

impl fmt::Debug for TapMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TapMemory").finish_non_exhaustive()
    }
}

impl TapMemory {
    /// Keeps what passes the tap from now on, and tells the pages.
    pub(super) fn start(
        tap: &Arc<Tap>,
        started: Instant,
        kept: Arc<Mutex<KeptMessages>>,
        events: Arc<ConsoleEvents>,
        masks: Masks,
    ) -> io::Result<Self> {
        let (queue, entries) = tap_queue(BOUNDS);
        let keep = move || keep_all(&entries, started, &kept, &events, masks);
        std::thread::Builder::new().name("console".to_owned()).spawn(keep)?;
        Ok(Self { _attached: tap.attach(queue) })
    }
}

fn keep_all(
    entries: &QueuedEntries,
    started: Instant,
    kept: &Mutex<KeptMessages>,
    events: &ConsoleEvents,
    mut masks: Masks,
) {
    while let Some(taken) = entries.next(Duration::MAX) {
        let dropped = entries.take_dropped();
        if dropped > 0 {
            kept.lock().unpoisoned().dropped += dropped;
            events.push(&json!({"t": "lost", "events": dropped}));
        }
        let Taken::Entry { at, session, kind: Some(kind) } = taken else { continue };
        let ms = at.saturating_duration_since(started).as_secs_f64() * 1e3;
        let mut entry = Entry { ms, session: Some(session), kind };
        masks.apply(&mut entry);
        let session = entry.session.unwrap_or_default();
        let event = kept.lock().unpoisoned().add(&session, entry.ms, entry.kind);
        if let Some(event) = event {
            events.push(&event);
        }
    }
}
