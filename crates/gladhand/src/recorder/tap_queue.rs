//! A bounded queue between the sessions at a tap and the thread that writes their entries.
//!
//! A session never waits: if the queue is full, the entry is dropped and counted. Sessions share the queue, so one that
//! fills it displaces no other.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use gladhand_core::operations::Party;
use gladhand_core::wire::lines::MAX_LINE;
use gladhand_hub::{Portion, Portions};
use gladhand_recording::{EntryKind, Headers, HttpExchange, PeerName, Sender, SessionEnd};
use gladhand_session::tap::{
    Direction, HttpExchange as TappedExchange, SessionOpened, TapListener, TappedFrame, TappedPeer, TappedSession,
};

use super::{kind_word, too_long};

/// A longer line that its session could not read is recorded as its length.
const MAX_UNREAD_BYTES: usize = 1024 * 1024;

/// The bounds of a queue. A session that has less than an equal share gets more when all is taken, up to twice the bounds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QueueBounds {
    /// Maximum number of entries.
    pub(crate) entries: usize,
    /// Maximum size of their messages, in bytes. Each entry counts as an equal part of this in addition.
    pub(crate) bytes: usize,
}

/// Makes a queue: the listener for the tap, and the entries for the thread that writes them.
pub(crate) fn tap_queue(bounds: QueueBounds) -> (Arc<TapQueue>, QueuedEntries) {
    let (queue, queued) = sync_channel(2 * bounds.entries);
    let dropped = Arc::<AtomicU64>::default();
    let entry_bytes = bounds.bytes / bounds.entries;
    let listener =
        TapQueue { queue, waiting: Portions::of(bounds.bytes, 0), entry_bytes, dropped: Arc::clone(&dropped) };
    (Arc::new(listener), QueuedEntries { queued, dropped })
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
    queue: SyncSender<(Queued, Option<Portion>)>,
    /// The memory of the queue, which sessions share.
    waiting: Arc<Portions>,
    /// How much an entry counts in addition to its message.
    entry_bytes: usize,
    dropped: Arc<AtomicU64>,
}

impl TapQueue {
    /// Waits until everything in the queue is written, or until a time.
    pub(crate) fn flush_until(&self, deadline: Instant) {
        let (done, written) = sync_channel(1);
        while self.queue.try_send((Queued::Flush(done.clone()), None)).is_err() {
            if Instant::now() >= deadline {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        drop(done);
        let _ = written.recv_timeout(deadline.saturating_duration_since(Instant::now()));
    }

    fn push(&self, queued: Queued) {
        let admitted = match &queued {
            Queued::Line { session, line, .. } => self.admit(session, line.len()),
            Queued::Event { session, .. } => self.admit(session, 0),
            Queued::Flush(_) => None,
        };
        self.send(queued, admitted);
    }

    /// A place in the queue for a message of a session.
    fn admit(&self, session: &str, bytes: usize) -> Option<Portion> {
        let mut party = DefaultHasher::new();
        session.hash(&mut party);
        let mut portion = self.waiting.portion(Party(party.finish()));
        portion.grow(bytes + self.entry_bytes).then_some(portion)
    }

    fn send(&self, queued: Queued, admitted: Option<Portion>) {
        let is_queued = admitted.is_some_and(|portion| self.queue.try_send((queued, Some(portion))).is_ok());
        if !is_queued {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl TapListener for TapQueue {
    fn frame(&self, frame: &TappedFrame<'_>) {
        let (session, from) = (name(frame.session), sender(frame.session, frame.direction));
        let (at, bytes) = (frame.at, frame.bytes.len());
        if frame.kind.is_none() && bytes > MAX_UNREAD_BYTES {
            let kind = EntryKind::Text { from, is_stderr: false, text: unread(bytes) };
            return self.push(Queued::Event { at, session, kind });
        }
        // The line is copied only if it has a place.
        let admitted = self.admit(&session, bytes);
        let line = if admitted.is_some() { frame.bytes.to_vec() } else { Vec::new() };
        let kind = frame.kind.and_then(kind_word);
        self.send(Queued::Line { at, session, from, dialect: frame.dialect, kind, line }, admitted);
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
    queued: Receiver<(Queued, Option<Portion>)>,
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
            // The place is free again when the entry is taken.
            Ok((queued, _)) => Some(taken(queued)),
            Err(RecvTimeoutError::Timeout) => Some(Taken::Nothing),
            Err(RecvTimeoutError::Disconnected) => None,
        }
    }

    /// The number of entries that were dropped since the last call.
    pub(crate) fn take_dropped(&self) -> u64 {
        self.dropped.swap(0, Ordering::Relaxed)
    }
}

fn taken(queued: Queued) -> Taken {
    match queued {
        Queued::Line { at, session, from, dialect, kind, line } => {
            let text = || EntryKind::Text { from, is_stderr: false, text: too_long(MAX_LINE) };
            // The tap passes a line that was too long without its bytes.
            let kind = if line.is_empty() { Some(text()) } else { EntryKind::of_line(from, &line, dialect, kind) };
            Taken::Entry { at, session, kind }
        }
        Queued::Event { at, session, kind } => Taken::Entry { at, session, kind: Some(kind) },
        Queued::Flush(done) => Taken::Flush(done),
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

/// The text of an entry for a long line that its session could not read.
fn unread(bytes: usize) -> String {
    format!("(a line of {bytes} bytes that could not be read is not recorded)")
}

#[cfg(test)]
mod tests {
    use gladhand_core::wire::{FrameKind, Lane};
    use gladhand_hub::SessionId;

    use super::*;

    const BOUNDS: QueueBounds = QueueBounds { entries: 64, bytes: 64 * 1024 };

    fn pass(queue: &TapQueue, session: u64, kind: Option<FrameKind>, bytes: &[u8]) {
        let session = TappedSession::Downstream(SessionId(session));
        let (direction, lane, dialect) = (Direction::Received, Lane::MAIN, None);
        let (at, unix) = (Instant::now(), Duration::ZERO);
        queue.frame(&TappedFrame { session, direction, at, unix, dialect, lane, kind, bytes });
    }

    /// The sessions and texts of all entries in a queue.
    fn entries(queued: &QueuedEntries) -> Vec<(String, Option<EntryKind>)> {
        let next = || match queued.next(Duration::ZERO) {
            Some(Taken::Entry { session, kind, .. }) => Some((session, kind)),
            _ => None,
        };
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn a_session_that_fills_the_queue_displaces_no_other() {
        for message in [vec![b'1'; 8000], vec![b'1']] {
            let (queue, queued) = tap_queue(BOUNDS);
            (0..1000).for_each(|_| pass(&queue, 1, Some(FrameKind::Notice), &message));
            (0..3).for_each(|_| pass(&queue, 2, Some(FrameKind::Notice), &message));
            let taken = entries(&queued);
            let of_second = taken.iter().filter(|(session, _)| session == "client-2").count();
            assert_eq!(of_second, 3, "of {}", taken.len());
            assert!(taken.len() < 2 * BOUNDS.entries && taken.len() * message.len() < 2 * BOUNDS.bytes);
            assert_eq!(queued.take_dropped() as usize, 1003 - taken.len());
            pass(&queue, 1, Some(FrameKind::Notice), &message);
            assert_eq!(entries(&queued).len(), 1, "places are free again");
        }
    }

    #[test]
    fn a_long_line_that_was_not_read_is_recorded_as_its_length() {
        let (queue, queued) = tap_queue(QueueBounds { bytes: 16 * 1024 * 1024, ..BOUNDS });
        let long = vec![b'['; MAX_UNREAD_BYTES + 1];
        pass(&queue, 1, None, &long);
        pass(&queue, 1, None, b"[");
        let taken = entries(&queued);
        let texts: Vec<_> = taken.iter().map(|(_, kind)| kind.as_ref()).collect();
        let [Some(EntryKind::Text { text: first, .. }), Some(EntryKind::Text { text: second, .. })] = texts[..] else {
            panic!("{taken:?}");
        };
        assert_eq!(first, "(a line of 1048577 bytes that could not be read is not recorded)");
        assert_eq!(second, "[");
    }
}
