//! Records the sessions that pass a tap.
//!
//! A session hands its messages to a bounded queue, and a thread writes them. If the queue is full, messages are dropped
//! and counted: a session never waits for the disk.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use gladhand_core::wire::lines::MAX_LINE;
use gladhand_recording::{EntryKind, PeerName, Sender, SessionEnd};
use gladhand_session::tap::{
    Attached, Direction, SessionOpened, Tap, TapListener, TappedFrame, TappedPeer, TappedSession,
};

use super::{FileRecorder, kind_word, too_long};

/// Maximum number of entries that wait for the disk.
const MAX_ENTRIES: usize = 8192;

/// Maximum size of the messages that wait for the disk, in bytes.
const MAX_BYTES: usize = 64 * 1024 * 1024;

/// How long the end of the process waits for the last entries.
const LAST_ENTRIES: Duration = Duration::from_secs(2);

/// A recording of all sessions that pass a tap. It ends when this is dropped, which waits for the last entries.
#[must_use = "dropping it ends the recording"]
pub(crate) struct TapRecording {
    attached: Option<Attached>,
    listener: Arc<Listener>,
}

impl fmt::Debug for TapRecording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TapRecording").finish_non_exhaustive()
    }
}

impl TapRecording {
    /// Records what passes the tap from now on.
    pub(crate) fn start(tap: &Arc<Tap>, recorder: FileRecorder) -> io::Result<Self> {
        let (queue, queued) = sync_channel(MAX_ENTRIES);
        let listener = Arc::new(Listener { queue, waiting: Arc::default(), dropped: Arc::default() });
        let (waiting, dropped) = (Arc::clone(&listener.waiting), Arc::clone(&listener.dropped));
        let write = move || write_all(recorder, &queued, &waiting, &dropped);
        std::thread::Builder::new().name("recording".to_owned()).spawn(write)?;
        let attached = tap.attach(Arc::clone(&listener) as Arc<dyn TapListener>);
        Ok(Self { attached: Some(attached), listener })
    }
}

impl Drop for TapRecording {
    fn drop(&mut self) {
        drop(self.attached.take());
        let (done, written) = sync_channel(1);
        let begun = Instant::now();
        while self.listener.queue.try_send(Queued::Flush(done.clone())).is_err() && begun.elapsed() < LAST_ENTRIES {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = written.recv_timeout(LAST_ENTRIES.saturating_sub(begun.elapsed()));
    }
}

/// An entry that waits for the disk.
enum Queued {
    Line {
        at: Instant,
        session: String,
        from: Sender,
        dialect: Option<&'static str>,
        kind: Option<&'static str>,
        line: Vec<u8>,
    },
    Event {
        at: Instant,
        session: String,
        kind: EntryKind,
    },
    /// Everything before this is written, then the sender is told.
    Flush(SyncSender<()>),
}

struct Listener {
    queue: SyncSender<Queued>,
    /// Bytes of messages in the queue.
    waiting: Arc<AtomicUsize>,
    dropped: Arc<AtomicU64>,
}

impl Listener {
    fn push(&self, queued: Queued) -> bool {
        let is_queued = self.queue.try_send(queued).is_ok();
        if !is_queued {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        is_queued
    }
}

impl TapListener for Listener {
    fn frame(&self, frame: &TappedFrame<'_>) {
        let bytes = frame.bytes.len();
        if self.waiting.fetch_add(bytes, Ordering::Relaxed) + bytes > MAX_BYTES {
            self.waiting.fetch_sub(bytes, Ordering::Relaxed);
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let line = Queued::Line {
            at: frame.at,
            session: name(frame.session),
            from: sender(frame.session, frame.direction),
            dialect: frame.dialect,
            kind: frame.kind.and_then(kind_word),
            line: frame.bytes.to_vec(),
        };
        if !self.push(line) {
            self.waiting.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    fn opened(&self, opened: &SessionOpened) {
        let peer = match opened.peer.clone() {
            TappedPeer::Client { name, version, principal } => PeerName { name, version, principal, upstream: None },
            TappedPeer::Server { name, version, upstream, .. } => PeerName { name, version, principal: None, upstream },
        };
        let (dialect, version) = (opened.dialect.to_owned(), opened.version.clone());
        let kind = EntryKind::Opened { dialect, version, peer };
        self.push(Queued::Event { at: opened.at, session: name(opened.session), kind });
    }

    fn closed(&self, session: TappedSession) {
        let kind = EntryKind::Closed(SessionEnd::default());
        self.push(Queued::Event { at: Instant::now(), session: name(session), kind });
    }
}

fn name(session: TappedSession) -> String {
    match session {
        TappedSession::Downstream(id) => format!("client-{}", id.0),
        TappedSession::Upstream(number) => format!("server-{number}"),
    }
}

/// The side that sent a message, by its role: to an upstream, this process is the client.
fn sender(session: TappedSession, direction: Direction) -> Sender {
    match (session, direction) {
        (TappedSession::Downstream(_), Direction::Received) | (TappedSession::Upstream(_), Direction::Sent) => {
            Sender::Client
        }
        (TappedSession::Downstream(_), Direction::Sent) | (TappedSession::Upstream(_), Direction::Received) => {
            Sender::Server
        }
    }
}

fn write_all(mut recorder: FileRecorder, queue: &Receiver<Queued>, waiting: &AtomicUsize, dropped: &AtomicU64) {
    while let Ok(queued) = queue.recv() {
        recorder.count_dropped(dropped.swap(0, Ordering::Relaxed));
        match queued {
            Queued::Line { at, session, from, dialect, kind, line } => {
                let text = || EntryKind::Text { from, is_stderr: false, text: too_long(MAX_LINE) };
                // The tap passes a line that was too long without its bytes.
                let entry = if line.is_empty() { Some(text()) } else { EntryKind::of_line(from, &line, dialect, kind) };
                if let Some(entry) = entry {
                    recorder.record(at, Some(session), entry);
                }
                waiting.fetch_sub(line.len(), Ordering::Relaxed);
            }
            Queued::Event { at, session, kind } => recorder.record(at, Some(session), kind),
            Queued::Flush(done) => {
                recorder.finish();
                let _ = done.send(());
            }
        }
    }
}
