//! What is behind which path, and who may get there.

use std::convert::Infallible;
use std::hash::RandomState;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use gladhand_auth::resource::Principal;
use http::header::{HeaderName, HeaderValue, ORIGIN, VARY};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode, header};
use hyper::body::Incoming;

use super::authorize::Authorize;
use super::guard::{Guard, Turned};
use super::request::read_body;
use super::respond::{self, Content};
use super::served::{Line, Served, Serving};
use super::sessions::Sessions;
use super::shared::Shared;
use super::who::{Visitor, Who};
use super::{mcp, pair};

/// How long a browser may remember what it was told of other origins, in seconds.
const PREFLIGHT_AGE: HeaderValue = HeaderValue::from_static("7200");

/// Everything that answers requests.
#[derive(Debug)]
pub(super) struct Endpoint {
    pub(super) shared: Arc<Shared>,
    pub(super) sessions: Arc<Sessions>,
    pub(super) guard: Guard,
    pub(super) authorize: Option<Arc<dyn Authorize>>,
    pub(super) stopping: AtomicBool,
    /// What parties are told apart by.
    pub(super) secret: RandomState,
}

impl Endpoint {
    /// Answers one request.
    pub(super) async fn answer(
        &self,
        request: Request<Incoming>,
        visitor: Visitor,
        line: Arc<Line>,
    ) -> Result<Response<Served>, Infallible> {
        line.ask();
        let (head, body) = request.into_parts();
        let response = self.respond(&head, body, visitor).await;
        let serving = Serving::on(line);
        tracing::debug!(method = %head.method, path = head.uri.path(), status = response.status().as_u16(), "request");
        Ok(response.map(|content| Served::new(content, serving)))
    }

    async fn respond(&self, head: &Parts, body: Incoming, visitor: Visitor) -> Response<Content> {
        // Whoever asks whether we are well tells us nothing and learns nothing else.
        match head.uri.path() {
            "/healthz" => return respond::text(StatusCode::OK, "ok\n"),
            "/readyz" if self.is_stopping() => return respond::text(StatusCode::SERVICE_UNAVAILABLE, "stopping\n"),
            "/readyz" => return respond::text(StatusCode::OK, "ready\n"),
            _ => {}
        }
        match self.guard.admit(&head.headers, &head.uri, visitor.by_name) {
            Ok(()) => {}
            Err(Turned::Host) => return respond::refusal(StatusCode::FORBIDDEN, "this Host is not served here"),
            Err(Turned::Origin) => return respond::refusal(StatusCode::FORBIDDEN, "this Origin is not allowed here"),
        }
        let origin = head.headers.get(ORIGIN).cloned();
        let mut response = match head.method {
            Method::OPTIONS => preflight(head),
            _ => self.serve(head, body, visitor).await,
        };
        if let Some(origin) = origin {
            share_with(origin, &mut response);
        }
        response
    }

    async fn serve(&self, head: &Parts, body: Incoming, visitor: Visitor) -> Response<Content> {
        let path = head.uri.path();
        if head.method == Method::GET
            && let Some(document) = self.authorize.as_ref().and_then(|authorize| authorize.document(path))
        {
            return document.map(Content::Whole);
        }
        if !["/mcp", pair::STREAM, pair::MESSAGES].contains(&path) {
            return respond::refusal(StatusCode::NOT_FOUND, "nothing is served at this path; MCP is at /mcp");
        }
        if self.is_stopping() {
            return respond::unavailable("stopping", "the server is stopping");
        }
        let principal = match &self.authorize {
            None => None,
            Some(authorize) => match authorize.authorize(head).await {
                Ok(principal) => principal,
                Err(denied) => return denied.map(Content::Whole),
            },
        };
        let who = Who::new(principal.as_ref().map(|principal| Arc::clone(&principal.name)), &visitor, &self.secret);
        match path {
            pair::STREAM => pair::stream(self, &head.method, &head.headers, who),
            pair::MESSAGES => pair::message(self, &head.method, &head.uri, body, &who, principal.as_ref()).await,
            _ => mcp::serve(self, &head.method, &head.headers, body, who, principal.as_ref()).await,
        }
    }

    /// Reads the message of a request, unless whoever sends it may not.
    pub(super) async fn read(&self, body: Incoming, sender: Option<&Principal>) -> Result<Bytes, Response<Content>> {
        let body = read_body(body, &self.shared).await?;
        if let (Some(authorize), Some(sender)) = (&self.authorize, sender) {
            authorize.permit(sender, &body).map_err(|denied| denied.map(Content::Whole))?;
        }
        Ok(body)
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }
}

/// What a browser asks before it lets a page of another origin talk to us.
fn preflight(head: &Parts) -> Response<Content> {
    let mut response = respond::empty(StatusCode::NO_CONTENT);
    let headers = response.headers_mut();
    headers.insert(header::ALLOW, HeaderValue::from_static("GET, POST, DELETE, OPTIONS"));
    if head.headers.contains_key(ORIGIN) {
        headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, DELETE"));
        // Headers that mirror arguments have names of the tools' choosing.
        if let Some(wanted) = head.headers.get(header::ACCESS_CONTROL_REQUEST_HEADERS) {
            headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, wanted.clone());
        }
        headers.insert(header::ACCESS_CONTROL_MAX_AGE, PREFLIGHT_AGE);
    }
    response
}

/// Lets a page of an origin that was let in read the response.
fn share_with(origin: HeaderValue, response: &mut Response<Content>) {
    const EXPOSED: HeaderValue = HeaderValue::from_static("Mcp-Session-Id, WWW-Authenticate");
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
    headers.append(VARY, HeaderValue::from(HeaderName::from_static("origin")));
}
