//! The tap: the one place that every frame of every session passes, for recordings, metrics and consoles.
//!
//! Sessions with downstreams and with upstreams hand each frame to a [`Tap`], in both directions and in the order of the
//! session. Listeners are attached and detached at any time. Without a listener, a session pays one relaxed load for each
//! step. A listener borrows the bytes and must return at once. If it needs more time, it copies them into a queue with a
//! bound of its own: the tap keeps nothing and waits for no listener.
//!
//! A message that a transport refuses before a session sees it does not pass, and neither does the refusal: an HTTP
//! request with wrong headers (also those that mirror a stateless MCP request), without authorization, for an unknown
//! session, or above a limit; and the first line of a client on standard input that a faulty configuration refuses. The
//! bytes of a line that was too long to be kept are empty.

use std::borrow::Cow;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use gladhand_core::sync::Unpoisoned as _;
use gladhand_core::wire::rpc;
use gladhand_core::wire::{Frame, FrameKind, FrameSummary, Frames, Lane, Line, TextPolicy};
use gladhand_dialects::Dialect;
use gladhand_hub::SessionId;

/// A session, as the tap names it. The names of one process are unique, except that all requests of stateless MCP over
/// HTTP share [`SessionId::NONE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TappedSession {
    /// A session of a client of ours, by its id in the hub.
    Downstream(SessionId),
    /// A session with a server, by its number in this process.
    Upstream(u64),
}

impl TappedSession {
    /// The name of a new session with an upstream.
    pub fn next_upstream() -> Self {
        static OPENED: AtomicU64 = AtomicU64::new(1);
        Self::Upstream(OPENED.fetch_add(1, Ordering::Relaxed))
    }
}

/// The direction of a frame, as this process sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// The peer sent the frame.
    Received,
    /// We sent the frame.
    Sent,
}

/// A frame that passes the tap.
#[derive(Debug, Clone, Copy)]
pub struct TappedFrame<'a> {
    /// Its session.
    pub session: TappedSession,
    /// Its direction.
    pub direction: Direction,
    /// When it passed, on the monotonic clock.
    pub at: Instant,
    /// When it passed, as time since 1970.
    pub unix: Duration,
    /// The name of the dialect. `None` as long as no line has decided it.
    pub dialect: Option<&'static str>,
    /// Its exchange, on a transport that has more than one.
    pub lane: Lane,
    /// Its kind. `None`: a received line that is unreadable.
    pub kind: Option<FrameKind>,
    /// Its bytes, without the line break.
    pub bytes: &'a [u8],
}

/// Receives the frames of a tap.
pub trait TapListener: Send + Sync {
    /// Takes notice of a frame. The session waits meanwhile: this must not block, and must not call the session.
    fn frame(&self, frame: &TappedFrame<'_>);
}

type Listeners = Arc<[(u64, Arc<dyn TapListener>)]>;

/// The place where frames pass. All sessions of one process usually share one.
pub struct Tap {
    is_on: AtomicBool,
    /// Replaced as a whole, so that no lock is held while a listener runs.
    listeners: RwLock<Listeners>,
    attached: AtomicU64,
}

impl Default for Tap {
    fn default() -> Self {
        Self { is_on: AtomicBool::new(false), listeners: RwLock::new(Arc::new([])), attached: AtomicU64::new(0) }
    }
}

impl fmt::Debug for Tap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tap").field("listeners", &self.listeners.read().unpoisoned().len()).finish()
    }
}

impl Tap {
    /// Attaches a listener until the returned value is dropped.
    pub fn attach(self: &Arc<Self>, listener: Arc<dyn TapListener>) -> Attached {
        let id = self.attached.fetch_add(1, Ordering::Relaxed);
        self.change(|listeners| listeners.push((id, listener)));
        Attached { tap: Arc::clone(self), id }
    }

    /// Whether there is a listener.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    fn change(&self, change: impl FnOnce(&mut Vec<(u64, Arc<dyn TapListener>)>)) {
        let mut listeners = self.listeners.write().unpoisoned();
        let mut changed = listeners.to_vec();
        change(&mut changed);
        self.is_on.store(!changed.is_empty(), Ordering::Relaxed);
        *listeners = changed.into();
    }

    fn pass(&self, frame: &TappedFrame<'_>) {
        let listeners = Arc::clone(&self.listeners.read().unpoisoned());
        listeners.iter().for_each(|(_, listener)| listener.frame(frame));
    }
}

/// A listener that is attached. Dropping this detaches it.
#[derive(Debug)]
pub struct Attached {
    tap: Arc<Tap>,
    id: u64,
}

impl Drop for Attached {
    fn drop(&mut self) {
        self.tap.change(|listeners| listeners.retain(|(id, _)| *id != self.id));
    }
}

/// The tap, as one session uses it.
#[derive(Debug)]
pub struct SessionTap {
    tap: Arc<Tap>,
    session: TappedSession,
}

impl SessionTap {
    /// The tap for a session.
    pub fn new(tap: Arc<Tap>, session: TappedSession) -> Self {
        Self { tap, session }
    }

    /// Whether there is a listener. The caller asks before each step, so that nothing is prepared for no listener.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.tap.is_on()
    }

    /// The peer sent a line. A blank line is no frame.
    #[cold]
    pub fn received(&self, dialect: Option<&'static Dialect>, lane: Lane, line: Line<'_>) {
        let policy = dialect.map_or(TextPolicy::UNDECIDED, |dialect| dialect.text);
        let describe = dialect
            .map_or(rpc::describe as for<'a> fn(&'a str) -> Option<FrameSummary<'a>>, |dialect| dialect.describe);
        let kind = match policy.read(line) {
            Ok(None) => return,
            Ok(Some(Cow::Borrowed(text))) => describe(text).map(|summary| summary.kind),
            Ok(Some(Cow::Owned(text))) => describe(&text).map(|summary| summary.kind),
            Err(_) => None,
        };
        let bytes = if let Line::Bytes(bytes) = line { bytes } else { &[] };
        self.pass(Direction::Received, dialect, lane, kind, bytes);
    }

    /// We send the lines of a step, except those that `is_carried` excludes.
    #[cold]
    pub fn sent(&self, dialect: Option<&'static Dialect>, wire: &Frames, is_carried: impl Fn(&Frame) -> bool) {
        for frame in wire.frames().iter().filter(|frame| is_carried(frame)) {
            self.pass(Direction::Sent, dialect, frame.lane, Some(frame.kind), &wire[frame.span.clone()]);
        }
    }

    fn pass(
        &self,
        direction: Direction,
        dialect: Option<&'static Dialect>,
        lane: Lane,
        kind: Option<FrameKind>,
        bytes: &[u8],
    ) {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let (session, dialect, at) = (self.session, dialect.map(|dialect| dialect.name), Instant::now());
        self.tap.pass(&TappedFrame { session, direction, at, unix, dialect, lane, kind, bytes });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use gladhand_dialects::mcp;

    use super::*;

    #[derive(Default)]
    struct Seen(Mutex<Vec<(Direction, Option<FrameKind>, String)>>);

    impl TapListener for Seen {
        fn frame(&self, frame: &TappedFrame<'_>) {
            let text = String::from_utf8_lossy(frame.bytes).into_owned();
            self.0.lock().unwrap().push((frame.direction, frame.kind, text));
        }
    }

    #[test]
    fn each_listener_sees_the_frames_of_its_time() {
        let tap = Arc::new(Tap::default());
        let session = SessionTap::new(Arc::clone(&tap), TappedSession::next_upstream());
        let (first, second) = (Arc::<Seen>::default(), Arc::<Seen>::default());
        assert!(!session.is_on());
        let attached = tap.attach(Arc::clone(&first) as Arc<dyn TapListener>);
        assert!(session.is_on());
        let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        session.received(Some(&mcp::DIALECT), Lane::MAIN, Line::Bytes(ping.as_bytes()));
        let also = tap.attach(Arc::clone(&second) as Arc<dyn TapListener>);
        session.received(Some(&mcp::DIALECT), Lane::MAIN, Line::Bytes(b"  "));
        drop(attached);
        session.received(Some(&mcp::DIALECT), Lane::MAIN, Line::Bytes(b"{"));
        drop(also);
        assert!(!session.is_on());
        let of = |seen: &Seen| seen.0.lock().unwrap().clone();
        assert_eq!(of(&first), [(Direction::Received, Some(FrameKind::Request), ping.to_owned())]);
        assert_eq!(of(&second), [(Direction::Received, None, "{".to_owned())]);
    }
}
