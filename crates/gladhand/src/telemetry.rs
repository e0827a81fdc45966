//! Metrics of a service, and the route that serves them.

use std::sync::Arc;

use bytes::Bytes;
use gladhand_hub::Hub;
use gladhand_server::http::{RouteAccess, SideBody, SideOrigin, SideResponse, SideRoutes};
use gladhand_session::tap::Tap;
use gladhand_telemetry::{Metrics, prometheus};
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response, StatusCode};

/// The path of the metrics.
const METRICS: &str = "/metrics";

/// Serves `/metrics`, with the authorization of the endpoint.
#[derive(Debug)]
pub(crate) struct MetricsRoute {
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) hub: Hub,
    pub(crate) tap: Arc<Tap>,
}

impl SideRoutes for MetricsRoute {
    fn access(&self, path: &str) -> Option<RouteAccess> {
        (path == METRICS).then_some(RouteAccess::Endpoint)
    }

    fn respond<'a>(&'a self, request: Request<Bytes>, _: SideOrigin) -> SideResponse<'a> {
        let is_read = [Method::GET, Method::HEAD].contains(request.method());
        let body = match request.method() {
            &Method::GET => prometheus::render(&self.metrics.snapshot(&self.hub, &self.tap)),
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
