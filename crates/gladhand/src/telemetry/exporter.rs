//! Sends spans and metrics to a collector of OpenTelemetry (OTLP over HTTP), on a thread of its own.
//!
//! A call never waits for the collector: spans go through a bounded queue, and what does not fit is counted. A batch that
//! the collector cannot take now is sent again with growing pauses, a few times. The log says once that the collector
//! fails, and once that it works again.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use gladhand_hub::Hub;
use gladhand_redaction::redact;
use gladhand_session::tap::Tap;
use gladhand_telemetry::otlp::{self, ExportedService, SpanRecord};
use gladhand_telemetry::{ServiceMetrics, SpanSink};
use gladhand_tls::{Clients, read_body};
use http::HeaderMap;
use http::header::{CONTENT_TYPE, HeaderValue};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use url::Url;

/// How many spans may wait.
const QUEUE: usize = 8192;

/// The largest number of spans in one request.
const BATCH: usize = 512;

/// How long spans wait for more of them.
const LINGER: Duration = Duration::from_secs(1);

/// How long a request may take.
const REQUEST: Duration = Duration::from_secs(10);

/// How often a request is sent, if the collector cannot take it.
const ATTEMPTS: u32 = 4;

/// How long the end of the process waits for the last requests.
const LAST_REQUESTS: Duration = Duration::from_secs(2);

/// The largest response that is read, so that its connection can be used again.
const LARGEST_RESPONSE: usize = 64 * 1024;

/// Where and what to export.
#[derive(Debug)]
pub(crate) struct ExportOptions {
    /// The address of the collector, such as `http://127.0.0.1:4318`.
    pub(crate) collector: Url,
    /// Headers of each request.
    pub(crate) headers: HeaderMap,
    /// How often metrics are sent. `None`: never.
    pub(crate) metrics_period: Option<Duration>,
    /// The value of `service.name`.
    pub(crate) service: String,
}

/// The source of metrics.
#[derive(Debug, Clone)]
pub(crate) struct MetricsSource {
    pub(crate) metrics: Arc<ServiceMetrics>,
    pub(crate) hub: Hub,
    pub(crate) tap: Arc<Tap>,
}

/// The queue of spans.
#[derive(Debug, Clone)]
pub(crate) struct SpanQueue {
    spans: mpsc::Sender<SpanRecord>,
    dropped: Arc<AtomicU64>,
}

impl SpanSink for SpanQueue {
    fn add(&self, span: SpanRecord) {
        if self.spans.try_send(span).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Ends the export when it is dropped: what waits is sent, for a limited time.
#[must_use = "dropping it ends the export"]
pub(crate) struct Exporting {
    stop: Option<oneshot::Sender<()>>,
    ended: std::sync::mpsc::Receiver<()>,
}

impl fmt::Debug for Exporting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Exporting")
    }
}

impl Drop for Exporting {
    fn drop(&mut self) {
        drop(self.stop.take());
        let _ = self.ended.recv_timeout(LAST_REQUESTS + Duration::from_millis(200));
    }
}

/// Starts the thread that exports.
pub(crate) fn start(options: ExportOptions, metrics: MetricsSource) -> io::Result<(SpanQueue, Exporting)> {
    let (spans, waiting) = mpsc::channel(QUEUE);
    let (stop, stopped) = oneshot::channel();
    let (done, ended) = std::sync::mpsc::channel();
    let dropped = Arc::<AtomicU64>::default();
    let exporter = Exporter {
        traces: endpoint(&options.collector, otlp::TRACES_PATH),
        numbers: endpoint(&options.collector, otlp::METRICS_PATH),
        clients: Clients::new(|builder| builder.connect_timeout(Duration::from_secs(5))),
        resource: ExportedService { service: options.service, instance: gladhand_system::random_hex::<16>() },
        headers: options.headers,
        metrics,
        period: options.metrics_period,
        started: gladhand_system::since_1970(),
        dropped: Arc::clone(&dropped),
        batch: Vec::with_capacity(BATCH),
        is_failing: false,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::Builder::new().name("telemetry".to_owned()).spawn(move || {
        runtime.block_on(exporter.run(waiting, stopped));
        runtime.shutdown_background();
        let _ = done.send(());
    })?;
    Ok((SpanQueue { spans, dropped }, Exporting { stop: Some(stop), ended }))
}

/// The address for one kind of data, below that of the collector.
fn endpoint(collector: &Url, path: &str) -> Url {
    let mut url = collector.clone();
    url.set_path(&format!("{}/{path}", collector.path().trim_end_matches('/')));
    url
}

struct Exporter {
    traces: Url,
    numbers: Url,
    clients: Clients,
    resource: ExportedService,
    headers: HeaderMap,
    metrics: MetricsSource,
    period: Option<Duration>,
    started: Duration,
    dropped: Arc<AtomicU64>,
    /// The spans of the next request, or of the one that runs.
    batch: Vec<SpanRecord>,
    is_failing: bool,
}

/// Why a request failed, and whether to send it again.
struct ExportError {
    why: String,
    is_passing: bool,
}

impl Exporter {
    async fn run(mut self, mut waiting: mpsc::Receiver<SpanRecord>, mut stopped: oneshot::Receiver<()>) {
        tokio::select! {
            () = self.export(&mut waiting) => {}
            // A request that runs is dropped, and its spans are sent again: a collector knows spans by their ids.
            _ = &mut stopped => {}
        }
        let _ = timeout(LAST_REQUESTS, self.export_rest(&mut waiting)).await;
    }

    /// Exports until no more spans can come.
    async fn export(&mut self, waiting: &mut mpsc::Receiver<SpanRecord>) {
        let mut next_metrics = self.period.map(|period| Instant::now() + period);
        loop {
            tokio::select! {
                received = waiting.recv_many(&mut self.batch, BATCH) => {
                    if received == 0 {
                        return;
                    }
                    let linger = sleep(LINGER);
                    let mut linger = std::pin::pin!(linger);
                    while self.batch.len() < BATCH {
                        let room = BATCH - self.batch.len();
                        tokio::select! {
                            received = waiting.recv_many(&mut self.batch, room) => if received == 0 { break },
                            () = &mut linger => break,
                        }
                    }
                    self.export_batch(ATTEMPTS).await;
                }
                () = until(next_metrics) => {
                    next_metrics = self.period.map(|period| Instant::now() + period);
                    self.export_metrics(ATTEMPTS).await;
                }
            }
        }
    }

    /// Exports what waits, and the last values of the metrics.
    async fn export_rest(&mut self, waiting: &mut mpsc::Receiver<SpanRecord>) {
        waiting.close();
        loop {
            let room = BATCH - self.batch.len().min(BATCH - 1);
            let received = waiting.recv_many(&mut self.batch, room).await;
            if self.batch.is_empty() && received == 0 {
                break;
            }
            self.export_batch(1).await;
        }
        if self.period.is_some() {
            self.export_metrics(1).await;
        }
    }

    /// Sends the batch. Afterwards it is empty, whether the collector took it or not.
    async fn export_batch(&mut self, attempts: u32) {
        let request = otlp::traces(&self.resource, &self.batch);
        if !self.send(self.traces.clone(), request, attempts).await {
            self.dropped.fetch_add(self.batch.len() as u64, Ordering::Relaxed);
        }
        self.batch.clear();
        let dropped = self.dropped.swap(0, Ordering::Relaxed);
        if dropped > 0 {
            tracing::warn!(spans = dropped, "spans were dropped: the collector does not take them in time");
        }
    }

    async fn export_metrics(&mut self, attempts: u32) {
        let MetricsSource { metrics, hub, tap } = &self.metrics;
        let all = metrics.snapshot(hub, tap);
        let request = otlp::metrics(&self.resource, &all, self.started, gladhand_system::since_1970());
        self.send(self.numbers.clone(), request, attempts).await;
    }

    /// Sends a request until the collector takes it. Returns whether it did.
    async fn send(&mut self, url: Url, request: Vec<u8>, attempts: u32) -> bool {
        for attempt in 1..=attempts {
            match self.post(&url, request.clone()).await {
                Ok(()) => {
                    if std::mem::take(&mut self.is_failing) {
                        tracing::info!("the collector takes telemetry again");
                    }
                    return true;
                }
                Err(ExportError { why, is_passing }) => {
                    if !std::mem::replace(&mut self.is_failing, true) {
                        tracing::warn!("telemetry is not exported: {}", redact(&why));
                    }
                    if !is_passing {
                        return false;
                    }
                }
            }
            if attempt < attempts {
                sleep(LINGER * 2_u32.pow(attempt - 1)).await;
            }
        }
        false
    }

    async fn post(&self, url: &Url, request: Vec<u8>) -> Result<(), ExportError> {
        let passing = |error: reqwest::Error| ExportError { why: causes(&error), is_passing: true };
        let client = self.clients.client(url).map_err(passing)?;
        let request = client
            .post(url.clone())
            .headers(self.headers.clone())
            .header(CONTENT_TYPE, HeaderValue::from_static(otlp::CONTENT_TYPE))
            .timeout(REQUEST)
            .body(request);
        let mut response = request.send().await.map_err(passing)?;
        let status = response.status();
        // A body that is read to its end leaves the connection for the next request.
        let _ = read_body(&mut response, LARGEST_RESPONSE).await;
        match status.is_success() {
            true => Ok(()),
            false => Err(ExportError {
                why: format!("{} answers with status {}", shown(url), status.as_u16()),
                is_passing: [429, 502, 503, 504].contains(&status.as_u16()),
            }),
        }
    }
}

/// An address without credentials and query.
fn shown(url: &Url) -> String {
    format!("{}{}", url.origin().ascii_serialization(), url.path())
}

/// An error with its causes, without the address, whose query may be a secret.
fn causes(error: &reqwest::Error) -> String {
    let mut text = "the collector cannot be reached".to_owned();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

async fn until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_paths_of_otlp_follow_the_path_of_the_collector() {
        for (collector, expected) in [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
            ("https://otel.example/in/", "https://otel.example/in/v1/traces"),
        ] {
            assert_eq!(endpoint(&collector.parse().unwrap(), otlp::TRACES_PATH).as_str(), expected);
        }
    }
}
