//! The tap: the one place that every frame of every session passes, for recordings, metrics and consoles.
//!
//! Sessions with downstreams and with upstreams hand each frame to a [`Tap`], in both directions and in the order of the
//! session. Listeners are attached and detached at any time. Without a listener, a session pays one relaxed load for each
//! step. A listener borrows the bytes and must return at once. If it needs more time, it copies them into a queue with a
//! bound of its own: the tap keeps nothing and waits for no listener.
//!
//! A listener also learns which sessions there are: [`TapListener::opened`] says who the peer is, and
//! [`TapListener::closed`] comes when no more frames can pass.
//!
//! ```text
//! frames of the opening   pass before the peer is known: era detection may open and discard several sessions
//! opened                  the opening succeeded; once for each session, and at the attachment for each open session
//! frames                  until the session ends
//! closed                  once for each session that was opened or passed a frame while there was a listener
//! ```
//!
//! Requests of stateless MCP over HTTP have no session ([`SessionId::NONE`]): they are neither opened nor closed. The tap
//! knows no network address of a client; the principal is what a client was authenticated as.
//!
//! Over HTTP, the method, status and some headers of each exchange pass as well ([`HttpExchange`]), also if a request is
//! refused before a session sees it.
//!
//! A message that a transport refuses before a session sees it does not pass, and neither does the body of the refusal: an
//! HTTP request with wrong headers (also those that mirror a stateless MCP request), without authorization, for an unknown
//! session, or above a limit; and the first line of a client on standard input that a faulty configuration refuses. The
//! bytes of a line that was too long to be kept are empty.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, Instant};

use gladhand_core::negotiation::Agreement;
use gladhand_core::striped::Striped;
use gladhand_core::sync::Unpoisoned as _;
use gladhand_core::wire::rpc;
use gladhand_core::wire::{Frame, FrameKind, FrameSummary, Frames, Lane, Line, TextPolicy};
use gladhand_dialects::Dialect;
use gladhand_hub::SessionId;

pub use crate::exchange::{HttpExchange, SessionExchanges};

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

/// A session whose opening succeeded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionOpened {
    /// The session.
    pub session: TappedSession,
    /// When it opened, on the monotonic clock.
    pub at: Instant,
    /// When it opened, as time since 1970.
    pub unix: Duration,
    /// The name of the dialect.
    pub dialect: &'static str,
    /// The version of the dialect in force.
    pub version: String,
    /// The other side.
    pub peer: TappedPeer,
}

/// The other side of a session. The names are what it calls itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TappedPeer {
    /// A client of ours.
    Client {
        /// Its name. May be empty.
        name: String,
        /// Its version. May be empty.
        version: String,
        /// Who it is, if the transport or the dialect authenticated it.
        principal: Option<String>,
    },
    /// A server that we connected to.
    Server {
        /// Its name. May be empty.
        name: String,
        /// Its version. May be empty.
        version: String,
        /// The name of the upstream in the configuration, or the registered id.
        upstream: Option<String>,
        /// The id of its process, if it is one.
        process: Option<u32>,
        /// Its URL without credentials and query, if it is reached over HTTP.
        url: Option<String>,
    },
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

/// Receives the frames of a tap. The session waits meanwhile: a method must not block, and must not call the session or
/// the tap.
pub trait TapListener: Send + Sync {
    /// Whether frames are passed to it. Default: yes. A listener that needs only sessions costs nothing for each frame.
    fn wants_frames(&self) -> bool {
        true
    }

    /// A frame passes.
    fn frame(&self, frame: &TappedFrame<'_>);

    /// The opening of a session succeeded, or the listener is attached while the session is open.
    fn opened(&self, _opened: &SessionOpened) {}

    /// A session ended: no more of its frames pass.
    fn closed(&self, _session: TappedSession) {}

    /// An HTTP request got its response. The messages in their bodies pass as frames.
    fn exchange(&self, _exchange: &HttpExchange<'_>) {}

    /// An opening failed.
    fn refused(&self, _refused: &OpeningRefused<'_>) {}

    /// An HTTP request got a response with an error status.
    fn http_refused(&self, _status: u16) {}
}

/// An opening that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpeningRefused<'r> {
    /// The name of the upstream, if the session would have been with one.
    pub upstream: Option<&'r str>,
    /// The name of the dialect, if it was known.
    pub dialect: Option<&'static str>,
    /// The reason as one word.
    pub reason: &'static str,
}

/// The messages that passed in one direction, with all peers of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Traffic {
    /// Whether the peers are upstreams.
    pub is_with_upstream: bool,
    /// The direction.
    pub direction: Direction,
    /// The number of messages.
    pub messages: u64,
    /// Their bytes, without line breaks.
    pub bytes: u64,
}

/// Counts the messages of one direction.
#[derive(Debug, Default)]
struct TrafficCounter {
    messages: AtomicU64,
    bytes: AtomicU64,
}

impl TrafficCounter {
    fn count(&self, bytes: usize) {
        self.messages.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

type Listeners = Arc<[(u64, Arc<dyn TapListener>)]>;

/// The place where frames pass. All sessions of one process usually share one.
pub struct Tap {
    /// Whether sessions do anything for the tap: [`is_on::FRAMES`], [`is_on::TRAFFIC`] or both.
    is_on: AtomicU8,
    /// With clients and with upstreams, received and sent.
    traffic: Striped<[[TrafficCounter; 2]; 2]>,
    /// Replaced as a whole, so that no lock is held while a listener runs.
    listeners: RwLock<Listeners>,
    attached: AtomicU64,
    /// The sessions that are open. The lock is held while listeners are told of one, and while a listener is attached, so
    /// that each listener learns of each session once and in order.
    open: Mutex<HashMap<TappedSession, Arc<SessionOpened>>>,
}

/// What sessions do for the tap.
mod is_on {
    /// They pass frames to listeners.
    pub(super) const FRAMES: u8 = 1;
    /// They count messages.
    pub(super) const TRAFFIC: u8 = 2;
}

impl Default for Tap {
    fn default() -> Self {
        Self {
            is_on: AtomicU8::new(0),
            traffic: Default::default(),
            listeners: RwLock::new(Arc::new([])),
            attached: AtomicU64::new(0),
            open: Mutex::default(),
        }
    }
}

impl fmt::Debug for Tap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tap").field("listeners", &self.listeners.read().unpoisoned().len()).finish()
    }
}

impl Tap {
    /// Attaches a listener until the returned value is dropped. The listener is told of the sessions that are open.
    pub fn attach(self: &Arc<Self>, listener: Arc<dyn TapListener>) -> Attached {
        let id = self.attached.fetch_add(1, Ordering::Relaxed);
        let open = self.open.lock().unpoisoned();
        let mut sessions: Vec<_> = open.values().collect();
        sessions.sort_by_key(|opened| opened.at);
        sessions.into_iter().for_each(|opened| listener.opened(opened));
        self.change(|listeners| listeners.push((id, listener)));
        Attached { tap: Arc::clone(self), id }
    }

    /// Whether frames are passed or counted.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed) != 0
    }

    /// Counts messages from now on.
    pub fn count_traffic(&self) {
        self.is_on.fetch_or(is_on::TRAFFIC, Ordering::Relaxed);
    }

    /// The messages that were counted so far.
    pub fn traffic(&self) -> Vec<Traffic> {
        let mut all = Vec::new();
        for (peer, is_with_upstream) in [false, true].into_iter().enumerate() {
            for (way, direction) in [Direction::Received, Direction::Sent].into_iter().enumerate() {
                let copies = || self.traffic.all().map(|copy| &copy[peer][way]);
                let messages = copies().map(|copy| copy.messages.load(Ordering::Relaxed)).sum();
                let bytes = copies().map(|copy| copy.bytes.load(Ordering::Relaxed)).sum();
                all.push(Traffic { is_with_upstream, direction, messages, bytes });
            }
        }
        all
    }

    /// An opening failed.
    pub fn refused(&self, refused: &OpeningRefused<'_>) {
        self.listeners().iter().for_each(|(_, listener)| listener.refused(refused));
    }

    /// An HTTP request got a response with an error status.
    pub fn http_refused(&self, status: u16) {
        self.listeners().iter().for_each(|(_, listener)| listener.http_refused(status));
    }

    fn has(&self, flag: u8) -> bool {
        self.is_on.load(Ordering::Relaxed) & flag != 0
    }

    fn change(&self, change: impl FnOnce(&mut Vec<(u64, Arc<dyn TapListener>)>)) {
        let mut listeners = self.listeners.write().unpoisoned();
        let mut changed = listeners.to_vec();
        change(&mut changed);
        match changed.iter().any(|(_, listener)| listener.wants_frames()) {
            true => self.is_on.fetch_or(is_on::FRAMES, Ordering::Relaxed),
            false => self.is_on.fetch_and(!is_on::FRAMES, Ordering::Relaxed),
        };
        *listeners = changed.into();
    }

    fn pass(&self, frame: &TappedFrame<'_>) {
        self.listeners().iter().for_each(|(_, listener)| listener.frame(frame));
    }

    /// An HTTP exchange passes. The caller has asked whether the tap is on.
    #[cold]
    pub fn exchange(&self, exchange: &HttpExchange<'_>) {
        self.listeners().iter().for_each(|(_, listener)| listener.exchange(exchange));
    }

    fn opened(&self, opened: SessionOpened) {
        let mut open = self.open.lock().unpoisoned();
        self.listeners().iter().for_each(|(_, listener)| listener.opened(&opened));
        open.insert(opened.session, Arc::new(opened));
    }

    fn closed(&self, session: TappedSession, has_passed: bool) {
        let mut open = self.open.lock().unpoisoned();
        if open.remove(&session).is_some() || has_passed {
            self.listeners().iter().for_each(|(_, listener)| listener.closed(session));
        }
    }

    fn listeners(&self) -> Listeners {
        Arc::clone(&self.listeners.read().unpoisoned())
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

/// The tap, as one session uses it. Dropping this closes the session at the tap.
#[derive(Debug)]
pub struct SessionTap {
    tap: Arc<Tap>,
    session: TappedSession,
    state: AtomicU8,
}

/// States of a session at the tap.
mod state {
    /// No listener knows of the session.
    pub(super) const UNKNOWN: u8 = 0;
    /// A frame passed.
    pub(super) const PASSED: u8 = 1;
    /// The session opened.
    pub(super) const OPENED: u8 = 2;
    /// The session ended.
    pub(super) const CLOSED: u8 = 3;
}

impl SessionTap {
    /// The tap for a session.
    pub fn new(tap: Arc<Tap>, session: TappedSession) -> Self {
        Self { tap, session, state: AtomicU8::new(state::UNKNOWN) }
    }

    /// The opening succeeded. Only the first call has an effect: a session keeps its identity when it is reopened.
    pub fn opened(&self, agreement: &Agreement, peer: TappedPeer) {
        if self.is_sessionless() || self.state.load(Ordering::Relaxed) >= state::OPENED {
            return;
        }
        self.state.store(state::OPENED, Ordering::Relaxed);
        let (dialect, version) = (agreement.dialect, agreement.version.clone());
        let (session, at, unix) = (self.session, Instant::now(), gladhand_system::since_1970());
        self.tap.opened(SessionOpened { session, at, unix, dialect, version, peer });
    }

    /// The session ended, although the value may still be held for a while.
    pub fn closed(&self) {
        let state = self.state.swap(state::CLOSED, Ordering::Relaxed);
        if state != state::CLOSED && state != state::UNKNOWN && !self.is_sessionless() {
            self.tap.closed(self.session, state == state::PASSED);
        }
    }

    /// Whether the frames are requests without a session.
    fn is_sessionless(&self) -> bool {
        self.session == TappedSession::Downstream(SessionId::NONE)
    }

    /// Whether frames are passed or counted. The caller asks before each step, so that nothing is prepared in vain.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.tap.is_on()
    }

    /// The peer sent a line. A blank line is no frame.
    #[cold]
    pub fn received(&self, dialect: Option<&'static Dialect>, lane: Lane, line: Line<'_>) {
        if let (true, Line::Bytes(bytes)) = (self.tap.has(is_on::TRAFFIC), line) {
            self.counter(Direction::Received).count(bytes.len());
        }
        if !self.tap.has(is_on::FRAMES) {
            return;
        }
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
            if self.tap.has(is_on::TRAFFIC) {
                self.counter(Direction::Sent).count(frame.span.len());
            }
            if !self.tap.has(is_on::FRAMES) {
                continue;
            }
            self.pass(Direction::Sent, dialect, frame.lane, Some(frame.kind), &wire[frame.span.clone()]);
        }
    }

    /// An opening of a client failed.
    pub fn refused(&self, dialect: Option<&'static Dialect>, reason: &'static str) {
        self.tap.refused(&OpeningRefused { upstream: None, dialect: dialect.map(|dialect| dialect.name), reason });
    }

    fn counter(&self, direction: Direction) -> &TrafficCounter {
        let peer = usize::from(matches!(self.session, TappedSession::Upstream(_)));
        &self.tap.traffic.own()[peer][usize::from(direction == Direction::Sent)]
    }

    fn pass(
        &self,
        direction: Direction,
        dialect: Option<&'static Dialect>,
        lane: Lane,
        kind: Option<FrameKind>,
        bytes: &[u8],
    ) {
        // Fails if the session is known already.
        let _ = self.state.compare_exchange(state::UNKNOWN, state::PASSED, Ordering::Relaxed, Ordering::Relaxed);
        let (at, unix) = (Instant::now(), gladhand_system::since_1970());
        let (session, dialect) = (self.session, dialect.map(|dialect| dialect.name));
        self.tap.pass(&TappedFrame { session, direction, at, unix, dialect, lane, kind, bytes });
    }
}

impl Drop for SessionTap {
    fn drop(&mut self) {
        self.closed();
    }
}

#[cfg(test)]
mod tests {
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
    fn each_tap_listener_gets_frames_only_while_attached() {
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

    /// Wants sessions only.
    #[derive(Default)]
    struct Refusals(Mutex<Vec<(&'static str, u16)>>);

    impl TapListener for Refusals {
        fn wants_frames(&self) -> bool {
            false
        }

        fn frame(&self, _: &TappedFrame<'_>) {
            panic!("it wants no frames");
        }

        fn refused(&self, refused: &OpeningRefused<'_>) {
            self.0.lock().unwrap().push((refused.reason, 0));
        }

        fn http_refused(&self, status: u16) {
            self.0.lock().unwrap().push(("", status));
        }
    }

    #[test]
    fn messages_are_counted_without_a_listener_of_frames_and_refusals_reach_the_listener() {
        let tap = Arc::new(Tap::default());
        let refusals = Arc::<Refusals>::default();
        let attached = tap.attach(Arc::clone(&refusals) as Arc<dyn TapListener>);
        let session = SessionTap::new(Arc::clone(&tap), TappedSession::next_upstream());
        assert!(!session.is_on(), "this listener costs nothing for each frame");
        tap.count_traffic();
        assert!(session.is_on());
        session.received(Some(&mcp::DIALECT), Lane::MAIN, Line::Bytes(b"{}"));
        session.received(Some(&mcp::DIALECT), Lane::MAIN, Line::Bytes(b"{}{}"));
        session.refused(Some(&mcp::DIALECT), "no_common_version");
        tap.http_refused(401);
        assert_eq!(*refusals.0.lock().unwrap(), [("no_common_version", 0), ("", 401)]);
        drop(attached);
        let passed: Vec<_> = tap.traffic().into_iter().filter(|traffic| traffic.messages > 0).collect();
        let expected = Traffic { is_with_upstream: true, direction: Direction::Received, messages: 2, bytes: 6 };
        assert_eq!(passed, [expected]);
        assert!(session.is_on(), "a listener that leaves does not stop the counting");
    }

    #[derive(Default)]
    struct Closed(Mutex<Vec<TappedSession>>);

    impl TapListener for Closed {
        fn frame(&self, _: &TappedFrame<'_>) {}

        fn closed(&self, session: TappedSession) {
            self.0.lock().unwrap().push(session);
        }
    }

    #[test]
    fn a_session_that_passed_a_frame_is_closed_once_and_requests_without_a_session_never() {
        let tap = Arc::new(Tap::default());
        let closed = Arc::<Closed>::default();
        let _attached = tap.attach(Arc::clone(&closed) as Arc<dyn TapListener>);
        let (tried, sessionless) = (TappedSession::next_upstream(), TappedSession::Downstream(SessionId::NONE));
        for session in [tried, sessionless] {
            let session = SessionTap::new(Arc::clone(&tap), session);
            session.received(Some(&mcp::DIALECT), Lane::MAIN, Line::Bytes(b"{}"));
            session.closed();
        }
        drop(SessionTap::new(Arc::clone(&tap), TappedSession::next_upstream()));
        assert_eq!(*closed.0.lock().unwrap(), [tried]);
    }
}
