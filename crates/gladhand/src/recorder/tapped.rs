//! Records the sessions that pass a tap in a file.
//!
//! A session hands its messages to a bounded queue, and a thread writes them: a session never waits for the disk.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gladhand_session::tap::{Attached, Tap, TapListener};

use super::FileRecorder;
use super::tap_queue::{QueueBounds, QueuedEntries, Taken, TapQueue, tap_queue};

/// What may wait for the disk.
const BOUNDS: QueueBounds = QueueBounds { entries: 8192, bytes: 64 * 1024 * 1024 };

/// How long the end of the process waits for the last entries.
const LAST_ENTRIES: Duration = Duration::from_secs(2);

/// A recording of all sessions that pass a tap. It ends when this is dropped, which waits for the last entries.
#[must_use = "dropping it ends the recording"]
pub(crate) struct TapRecording {
    attached: Option<Attached>,
    queue: Arc<TapQueue>,
}

impl fmt::Debug for TapRecording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TapRecording").finish_non_exhaustive()
    }
}

impl TapRecording {
    /// Records what passes the tap from now on.
    pub(crate) fn start(tap: &Arc<Tap>, recorder: FileRecorder) -> io::Result<Self> {
        let (queue, entries) = tap_queue(BOUNDS);
        let write = move || write_all(recorder, &entries);
        std::thread::Builder::new().name("recording".to_owned()).spawn(write)?;
        let attached = tap.attach(Arc::clone(&queue) as Arc<dyn TapListener>);
        Ok(Self { attached: Some(attached), queue })
    }
}

impl Drop for TapRecording {
    fn drop(&mut self) {
        drop(self.attached.take());
        self.queue.flush_until(Instant::now() + LAST_ENTRIES);
    }
}

fn write_all(mut recorder: FileRecorder, entries: &QueuedEntries) {
    let mut longest = Duration::MAX;
    while let Some(taken) = entries.next(longest) {
        recorder.count_dropped(entries.take_dropped());
        match taken {
            Taken::Entry { at, session, kind: Some(kind) } => {
                // Entries that wait already are written together with this one.
                recorder.collect();
                recorder.record(at, Some(session), kind);
                longest = Duration::ZERO;
            }
            Taken::Nothing => {
                recorder.flush();
                longest = Duration::MAX;
            }
            Taken::Flush(_done) => recorder.finish(),
            Taken::Entry { .. } => {}
        }
    }
}
