//! Metrics and traces of a service: the route that serves metrics, and the export to a collector.

mod exporter;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gladhand_redaction::{Life, learn_header};
use gladhand_server::Service;
use gladhand_server::http::{RouteAccess, SideBody, SideOrigin, SideResponse, SideRoutes};
use gladhand_session::tap::Attached;
use gladhand_telemetry::{OperationTransport, ServiceMetrics, Tracer, prometheus};
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response, StatusCode};

use crate::config::TelemetryConfig;
use exporter::{ExportOptions, Exporting, MetricsSource};

/// The path of the metrics.
const METRICS: &str = "/metrics";

/// What observes a service. Dropping it ends the observation, and sends what waits to the collector.
#[derive(Debug)]
pub(crate) struct Telemetry {
    source: MetricsSource,
    _attached: Attached,
    _exporting: Option<Exporting>,
}

/// Why telemetry cannot be started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TelemetryError {
    /// A header cannot be sent.
    #[error("`telemetry.headers`: `{0}` is no header, or its value cannot be sent")]
    Header(String),
    /// The operating system refuses a thread.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Telemetry {
    /// Observes a service as the configuration asks for; `None` if it asks for nothing. `serves_metrics`: whether metrics
    /// are served over HTTP.
    pub(crate) fn start(
        config: &TelemetryConfig,
        serves_metrics: bool,
        transport: OperationTransport,
        service: &Service,
    ) -> Result<Option<Self>, TelemetryError> {
        let collector = config.collector();
        if !serves_metrics && collector.is_none() {
            return Ok(None);
        }
        let (hub, tap) = (service.hub().clone(), Arc::clone(service.tap()));
        let (metrics, attached) = ServiceMetrics::start(transport, &hub, &tap);
        let source = MetricsSource { metrics, hub, tap };
        let Some(collector) = collector else {
            return Ok(Some(Self { source, _attached: attached, _exporting: None }));
        };
        let headers = config.headers().map_err(TelemetryError::Header)?;
        for (name, value) in &headers {
            learn_header(name.as_str(), &String::from_utf8_lossy(value.as_bytes()), Life::Process);
        }
        let options = ExportOptions {
            collector,
            headers,
            metrics_period: (config.metrics_period_s > 0).then(|| Duration::from_secs(config.metrics_period_s)),
            service: config.service_name.clone(),
        };
        let (spans, exporting) = exporter::start(options, source.clone())?;
        source.hub.observe_calls(Arc::new(Tracer::new(spans, transport, config.payloads)));
        Ok(Some(Self { source, _attached: attached, _exporting: Some(exporting) }))
    }

    /// The route that serves the metrics.
    pub(crate) fn route(&self) -> Arc<dyn SideRoutes> {
        Arc::new(MetricsRoute(self.source.clone()))
    }
}

/// Serves `/metrics`, with the authorization of the endpoint.
#[derive(Debug)]
struct MetricsRoute(MetricsSource);

impl SideRoutes for MetricsRoute {
    fn access(&self, path: &str) -> Option<RouteAccess> {
        (path == METRICS).then_some(RouteAccess::Endpoint)
    }

    fn respond<'a>(&'a self, request: Request<Bytes>, _: SideOrigin) -> SideResponse<'a> {
        let is_read = [Method::GET, Method::HEAD].contains(request.method());
        let body = match request.method() {
            &Method::GET => self.0.text(),
            _ => String::new(),
        };
        let mut response = Response::new(SideBody::Whole(body.into()));
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(prometheus::CONTENT_TYPE));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if !is_read {
            headers.insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
        }
        Box::pin(async move { response })
    }
}

impl MetricsSource {
    /// The metrics now, as text.
    fn text(&self) -> String {
        prometheus::render(&self.metrics.snapshot(&self.hub, &self.tap))
    }
}
