//! A bounded queue between the sessions at a tap and the thread that writes their entries.
//!
//! A session never waits: if the queue is full, the entry is dropped and counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use gladhand_core::wire::lines::MAX_LINE;
use gladhand_recording::{EntryKind, Headers, HttpExchange, PeerName, Sender, SessionEnd};
use gladhand_session::tap::{
    Direction, HttpExchange as TappedExchange, SessionOpened, TapListener, TappedFrame, TappedPeer, TappedSession,
};

use super::{kind_word, too_long};

/// The bounds of a queue.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QueueBounds {
    /// Maximum number of entries.
    pub(crate) entries: usize,
    /// Maximum size of their messages, in bytes.
    pub(crate) bytes: usize,
}

/// Makes a queue: the listener for the tap, and the entries for the thread that writes them.
pub(crate) fn tap_queue(bounds: QueueBounds) -> (Arc<TapQueue>, QueuedEntries) {
    let (queue, queued) = sync_channel(bounds.entries);
    let (waiting, dropped) = (Arc::<AtomicUsize>::default(), Arc::<AtomicU64>::default());
    let listener =
        TapQueue { queue, max_bytes: bounds.bytes, waiting: Arc::clone(&waiting), dropped: Arc::clone(&dropped) };
    (Arc::new(listener), QueuedEntries { queued, waiting, dropped })
}

/// The longest path that is recorded whole, in characters.
const MAX_PATH: usize = 1024;

/// An entry that waits to be written.
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

/// The listener that fills the queue.
pub(crate) struct TapQueue {
    queue: SyncSender<Queued>,
    max_bytes: usize,
    /// Bytes of messages in the queue.
    waiting: Arc<AtomicUsize>,
    dropped: Arc<AtomicU64>,
}

impl TapQueue {
    /// Waits until everything in the queue is written, or until a time.
    pub(crate) fn flush_until(&self, deadline: Instant) {
        let (done, written) = sync_channel(1);
        while self.queue.try_send(Queued::Flush(done.clone())).is_err() {
            if Instant::now() >= deadline {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        drop(done);
        let _ = written.recv_timeout(deadline.saturating_duration_since(Instant::now()));
    }

    fn push(&self, queued: Queued) -> bool {
        let is_queued = self.queue.try_send(queued).is_ok();
        if !is_queued {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        is_queued
    }
}

impl TapListener for TapQueue {
    fn frame(&self, frame: &TappedFrame<'_>) {
        let bytes = frame.bytes.len();
        if self.waiting.fetch_add(bytes, Ordering::Relaxed) + bytes > self.max_bytes {
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

    fn exchange(&self, exchange: &TappedExchange<'_>) {
        let kind = EntryKind::Http(HttpExchange {
            method: exchange.method.as_str().to_owned(),
            path: exchange.path.chars().take(MAX_PATH).collect(),
            status: exchange.status.as_u16(),
            request: headers(exchange.shown_request()),
            response: headers(exchange.shown_response()),
        });
        self.push(Queued::Event { at: exchange.at, session: name(exchange.session), kind });
    }

    fn closed(&self, session: TappedSession) {
        let kind = EntryKind::Closed(SessionEnd::default());
        self.push(Queued::Event { at: Instant::now(), session: name(session), kind });
    }
}

/// The entries of a queue, for the thread that writes them.
pub(crate) struct QueuedEntries {
    queued: Receiver<Queued>,
    waiting: Arc<AtomicUsize>,
    dropped: Arc<AtomicU64>,
}

/// What came out of a queue.
pub(crate) enum Taken {
    /// An entry. `kind` is `None` for a blank line.
    Entry { at: Instant, session: String, kind: Option<EntryKind> },
    /// Everything must be written now. The sender is told by dropping the value.
    Flush(SyncSender<()>),
    /// Nothing came in time.
    Nothing,
}

impl QueuedEntries {
    /// Waits for the next entry. `None`: there will be no other.
    pub(crate) fn next(&self, longest: Duration) -> Option<Taken> {
        match self.queued.recv_timeout(longest) {
            Ok(queued) => Some(self.taken(queued)),
            Err(RecvTimeoutError::Timeout) => Some(Taken::Nothing),
            Err(RecvTimeoutError::Disconnected) => None,
        }
    }

    /// The number of entries that were dropped since the last call.
    pub(crate) fn take_dropped(&self) -> u64 {
        self.dropped.swap(0, Ordering::Relaxed)
    }

    fn taken(&self, queued: Queued) -> Taken {
        match queued {
            Queued::Line { at, session, from, dialect, kind, line } => {
                let text = || EntryKind::Text { from, is_stderr: false, text: too_long(MAX_LINE) };
                // The tap passes a line that was too long without its bytes.
                let kind = if line.is_empty() { Some(text()) } else { EntryKind::of_line(from, &line, dialect, kind) };
                self.waiting.fetch_sub(line.len(), Ordering::Relaxed);
                Taken::Entry { at, session, kind }
            }
            Queued::Event { at, session, kind } => Taken::Entry { at, session, kind: Some(kind) },
            Queued::Flush(done) => Taken::Flush(done),
        }
    }
}

fn headers(shown: Vec<(String, String)>) -> Headers {
    let mut headers = Headers::new();
    for (name, value) in shown {
        let joined = headers.entry(name).or_default();
        if !joined.is_empty() {
            joined.push_str(", ");
        }
        joined.push_str(&value);
    }
    headers
}

/// The id of a session in entries.
pub(crate) fn name(session: TappedSession) -> String {
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
