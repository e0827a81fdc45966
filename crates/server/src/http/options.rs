//! Bounds of a server over HTTP, and which hosts and origins it expects.

use std::time::Duration;

/// Bounds of a server over HTTP, and which hosts and origins it expects.
#[derive(Debug, Clone)]
pub struct HttpOptions {
    /// Hosts that requests may be addressed to, in addition to loopback names and the listening address.
    pub allow_hosts: Vec<String>,
    /// Origins of web pages that may send requests, in addition to those on an allowed host.
    pub allow_origins: Vec<String>,
    /// Connections that may be open.
    pub connections: usize,
    /// Sessions that may be open. Beyond it, an idle session is closed for a new one.
    pub sessions: usize,
    /// A session is closed after this time without a request or a pending call.
    pub idle: Duration,
    /// Event streams that may be open.
    pub streams: usize,
    /// Exchanges of one session that may be open.
    pub streams_per_session: usize,
    /// Calls without a session that may run.
    pub in_flight: usize,
    /// Bytes of a stream that are kept for a reader that is slow or lost its connection.
    pub replay_bytes: usize,
    /// Bytes that are kept for absent readers and callers, over all sessions.
    pub kept_bytes: usize,
    /// How long the head of a request may take, the wait for it on an open connection included.
    pub head: Duration,
    /// How long the body of a request may take.
    pub body: Duration,
    /// The silence after which an event stream sends a keep-alive.
    pub keep_alive: Duration,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            allow_hosts: Vec::new(),
            allow_origins: Vec::new(),
            connections: 20_000,
            sessions: 10_000,
            idle: Duration::from_secs(30 * 60),
            streams: 20_000,
            streams_per_session: 256,
            in_flight: 10_000,
            replay_bytes: 256 * 1024,
            kept_bytes: 256 * 1024 * 1024,
            head: Duration::from_secs(60),
            body: Duration::from_secs(30),
            keep_alive: Duration::from_secs(15),
        }
    }
}
