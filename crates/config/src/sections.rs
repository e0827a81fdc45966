//! The small sections: `[toolbox]`, `[mcp]`, `[limits]`, `[http]`, `[metrics]`,
//! `[telemetry]` and `[record]`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use http::HeaderMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::Url;

use crate::Hidden;
use crate::upstreams::header_map;

/// Settings of the toolbox: our own three tools.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ToolboxConfig {
    /// Whether the toolbox is enabled.
    pub enabled: bool,
}

impl Default for ToolboxConfig {
    fn default() -> Self {
        Self { enabled: true }
    }
}

/// Settings of the MCP dialect.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct McpConfig {
    /// Return an empty list instead of an error for unsupported list methods.
    pub empty_lists: bool,
    /// For how many milliseconds clients may cache lists (2026-07-28).
    pub cache_ms: u64,
}

/// Limits. When one is reached, the caller gets an error in its own dialect.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Longest line in bytes.
    #[schemars(range(min = 1024, max = 1_073_741_824))]
    pub line_bytes: usize,
    /// Calls of one session that may wait or run.
    #[schemars(range(min = 1, max = 100_000))]
    pub in_flight: usize,
    /// Tools on a page of a list.
    #[schemars(range(min = 1, max = 10_000))]
    pub page_size: usize,
    /// How long calls in flight may take to finish when the session ends, in milliseconds.
    #[schemars(range(min = 0, max = 3_600_000))]
    pub drain_ms: u64,
    /// Over stdio, stay awake for up to 100 microseconds if requests closely follow the responses.
    pub busy_poll: bool,
}

impl Default for Limits {
    fn default() -> Self {
        let line_bytes = gladhand_core::wire::lines::MAX_LINE;
        Self { line_bytes, in_flight: 1024, page_size: 100, drain_ms: 5000, busy_poll: true }
    }
}

/// Settings and bounds of HTTP.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HttpConfig {
    /// Hosts that requests may be addressed to, in addition to loopback names and the listening address.
    pub allow_hosts: Vec<String>,
    /// Origins of web pages that may send requests, in addition to those on an allowed host.
    pub allow_origins: Vec<String>,
    /// Connections that may be open.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub connections: usize,
    /// Sessions that may be open. Beyond it, an idle session is closed for a new one.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub sessions: usize,
    /// Close a session after this many seconds without a request or a pending call.
    #[schemars(range(min = 1, max = 604_800))]
    pub idle_s: u64,
    /// Event streams that may be open.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub streams: usize,
    /// Exchanges of one session that may be open.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub streams_per_session: usize,
    /// Calls without a session that may run.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub in_flight: usize,
    /// Bytes of a stream that are kept for a reader that is slow or lost its connection.
    #[schemars(range(min = 4096, max = 1_073_741_824))]
    pub replay_bytes: usize,
    /// Bytes that are kept for absent readers and callers, over all sessions.
    #[schemars(range(min = 1_048_576, max = 1_073_741_824))]
    pub kept_bytes: usize,
    /// How long the head of a request may take, the wait for it on an open connection included, in milliseconds.
    #[schemars(range(min = 10, max = 3_600_000))]
    pub head_ms: u64,
    /// How long the body of a request may take, in milliseconds.
    #[schemars(range(min = 10, max = 3_600_000))]
    pub body_ms: u64,
    /// Send a keep-alive on an event stream after this many milliseconds of silence.
    #[schemars(range(min = 10, max = 3_600_000))]
    pub keep_alive_ms: u64,
}

impl Default for HttpConfig {
    fn default() -> Self {
        Self {
            allow_hosts: Vec::new(),
            allow_origins: Vec::new(),
            connections: 20_000,
            sessions: 10_000,
            idle_s: 1800,
            streams: 20_000,
            streams_per_session: 256,
            in_flight: 10_000,
            replay_bytes: 256 * 1024,
            kept_bytes: 256 * 1024 * 1024,
            head_ms: 60_000,
            body_ms: 30_000,
            keep_alive_ms: 15_000,
        }
    }
}

/// `[metrics]`: numbers for Prometheus at `/metrics`.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MetricsConfig {
    /// Whether a server over HTTP serves `/metrics`.
    pub enabled: bool,
}

/// `[telemetry]`: traces and metrics for a collector of OpenTelemetry.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TelemetryConfig {
    /// The address of a collector that takes OTLP over HTTP. Without it, nothing is sent.
    pub otlp: Option<String>,
    /// Headers of every request to it.
    pub headers: BTreeMap<String, Hidden>,
    /// How often metrics are sent, in seconds. 0: never.
    #[schemars(range(min = 0, max = 86_400))]
    pub metrics_period_s: u64,
    /// Whether spans contain arguments and results.
    pub payloads: bool,
    /// The name of this service.
    pub service_name: String,
}

impl Default for TelemetryConfig {
    fn default() -> Self {
        let service_name = "gladhand".to_owned();
        Self { otlp: None, headers: BTreeMap::new(), metrics_period_s: 60, payloads: false, service_name }
    }
}

impl TelemetryConfig {
    /// The address of the collector.
    pub fn collector(&self) -> Option<Url> {
        // A wrong one is a mistake of the file.
        self.otlp.as_deref().and_then(|address| Url::parse(address).ok())
    }

    /// The headers of every request. On failure, returns the name of the first invalid header.
    pub fn headers(&self) -> Result<HeaderMap, String> {
        header_map(&self.headers)
    }

    /// The mistakes in values, as key and message.
    pub(crate) fn mistakes(&self) -> Vec<(String, String)> {
        let url = self.otlp.as_deref().map(Url::parse);
        let has_credentials =
            |url: &Url| !url.username().is_empty() || url.password().is_some() || url.query().is_some();
        let wrong_address = match url {
            Some(Ok(url)) if !["http", "https"].contains(&url.scheme()) => {
                Some("expected an address that begins with http:// or https://")
            }
            // They would be shown with it.
            Some(Ok(url)) if has_credentials(&url) => {
                Some("credentials and a query cannot be part of it; use `telemetry.headers`")
            }
            Some(Err(_)) => Some("expected an address that begins with http:// or https://"),
            _ => None,
        };
        let wrong_header =
            self.headers().err().map(|name| format!("`{name}` is no header, or its value cannot be sent"));
        let address = wrong_address.map(|message| ("telemetry.otlp".to_owned(), message.to_owned()));
        let header = wrong_header.map(|message| ("telemetry.headers".to_owned(), message));
        address.into_iter().chain(header).collect()
    }
}

/// `[record]`: recordings of all sessions, for `gladhand serve`.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RecordConfig {
    /// Folder for one recording per process. Without it, nothing is recorded.
    pub folder: Option<PathBuf>,
    /// Size in MiB at which a new part of a recording begins.
    #[schemars(range(min = 1, max = 1_048_576))]
    pub max_mib: u64,
    /// Regular expressions for text to mask, in addition to secrets.
    pub mask: Vec<String>,
}

impl Default for RecordConfig {
    fn default() -> Self {
        Self { folder: None, max_mib: 64, mask: Vec::new() }
    }
}
