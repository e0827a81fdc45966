//! Routes requests by path, and checks access.

use std::convert::Infallible;
use std::hash::RandomState;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use bytes::Bytes;
use gladhand_auth::Scopes;
use gladhand_auth::resource::Principal;
use gladhand_core::operations::ScopeRecord;
use gladhand_dialects::mcp::DIALECT;
use gladhand_dialects::mcp::http::{METHOD_HEADER, called_tools, decode_header_value};
use gladhand_session::tap::{HttpExchange, TappedSession};
use http::header::{HeaderName, HeaderValue, ORIGIN, VARY};
use http::request::Parts;
use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use tokio_util::sync::CancellationToken;

use super::guard::{Guard, Turned};
use super::refusals::{RefusalLog, refused};
use super::request::{is_json, read_body};
use super::request_origin::{RequestOrigin, Visitor};
use super::respond::{self, Content};
use super::served::{ConnectionState, Served, Serving};
use super::session_id::SessionId;
use super::sessions::Sessions;
use super::shared::Shared;
use super::side_routes::{RouteAccess, SideBody, SideOrigin, SideRoutes, SideStream};
use super::{ENDPOINT, a2e, mcp, old_transport};

/// How long a browser may cache the answer to a preflight request, in seconds.
const PREFLIGHT_AGE: HeaderValue = HeaderValue::from_static("7200");

/// Everything that answers requests.
#[derive(Debug)]
pub(super) struct Endpoint {
    pub(super) shared: Arc<Shared>,
    pub(super) sessions: Arc<Sessions>,
    /// Whether MCP is spoken.
    pub(super) speaks_mcp: bool,
    /// The A2E agents, if A2E is enabled.
    pub(super) agents: Option<Arc<a2e::Agents>>,
    pub(super) guard: Guard,
    pub(super) refusals: RefusalLog,
    pub(super) stopping: AtomicBool,
    /// The hash key that maps peers to parties.
    pub(super) secret: RandomState,
    pub(super) side_routes: Box<[Arc<dyn SideRoutes>]>,
    /// Cancelled when the streams of side routes are to end.
    pub(super) ending_streams: CancellationToken,
}

impl Endpoint {
    /// Answers one request.
    pub(super) async fn answer(
        &self,
        request: Request<Incoming>,
        visitor: Visitor,
        line: Arc<ConnectionState>,
    ) -> Result<Response<Served>, Infallible> {
        line.ask();
        let (head, body) = request.into_parts();
        // The request may end its session.
        let tapped = self.shared.service.tap().is_on().then(|| self.tapped_session(&head.headers));
        let response = self.respond(&head, body, visitor, &line).await;
        self.refusals.note(&response, &head, &visitor);
        if let Some(session) = tapped {
            self.tap_exchange(session, &head, &response);
        }
        if response.status().is_client_error() || response.status().is_server_error() {
            self.shared.service.tap().http_refused(response.status().as_u16());
        }
        let serving = Serving::on(line);
        tracing::debug!(method = %head.method, path = head.uri.path(), status = response.status().as_u16(), "request");
        Ok(response.map(|content| Served::new(content, serving)))
    }

    /// The session that the headers of a request or response name, if it is open.
    #[cold]
    fn tapped_session(&self, headers: &HeaderMap) -> Option<TappedSession> {
        let id = |name| headers.get(name).and_then(|id| id.to_str().ok()).and_then(SessionId::read);
        let of_mcp = || self.sessions.in_hub(id(respond::SESSION_ID)?);
        let of_agent = || self.agents.as_ref()?.in_hub(id(a2e::SESSION_ID)?);
        of_mcp().or_else(of_agent).map(TappedSession::Downstream)
    }

    /// The tap sees the exchange, in the session of the request or in the one that the response begins.
    #[cold]
    fn tap_exchange(&self, session: Option<TappedSession>, head: &Parts, response: &Response<Content>) {
        let session = session.or_else(|| self.tapped_session(response.headers()));
        self.shared.service.tap().exchange(&HttpExchange {
            session: session.unwrap_or(TappedSession::Downstream(gladhand_hub::SessionId::NONE)),
            at: Instant::now(),
            method: &head.method,
            path: head.uri.path(),
            request: &head.headers,
            status: response.status(),
            response: response.headers(),
        });
    }

    async fn respond(
        &self,
        head: &Parts,
        body: Incoming,
        visitor: Visitor,
        line: &Arc<ConnectionState>,
    ) -> Response<Content> {
        // A health check needs no authorization and reveals nothing else.
        match head.uri.path() {
            "/healthz" => return respond::text(StatusCode::OK, "ok\n"),
            "/readyz" if self.is_stopping() => return respond::text(StatusCode::SERVICE_UNAVAILABLE, "stopping\n"),
            // The log names the upstreams: a client without authorization does not learn which there are.
            "/readyz" if !self.shared.service.hub().not_open().is_empty() => {
                return respond::text(StatusCode::SERVICE_UNAVAILABLE, "a required upstream is not open\n");
            }
            "/readyz" => return respond::text(StatusCode::OK, "ready\n"),
            a2e::HEALTH if self.agents.is_some() => return a2e::health(&head.method),
            _ => {}
        }
        let origin = match self.guard.admit(&head.headers, &head.uri, visitor.is_by_name()) {
            Ok(origin) => origin.cloned(),
            Err(turned) => return self.turn_away(head, turned),
        };
        let mut response = match head.method {
            Method::OPTIONS => preflight(head),
            _ => self.serve(head, body, visitor, line).await,
        };
        if let Some(origin) = origin {
            share_with(origin, &mut response);
        }
        response
    }

    async fn serve(
        &self,
        head: &Parts,
        body: Incoming,
        visitor: Visitor,
        line: &Arc<ConnectionState>,
    ) -> Response<Content> {
        let path = head.uri.path();
        if head.method == Method::GET
            && let Some(document) = self.shared.authorize().and_then(|authorize| authorize.document(path))
        {
            return document.map(Content::Whole);
        }
        if !self.side_routes.is_empty()
            && let Some((routes, access)) = self.side_route(path)
        {
            return self.serve_beside(&**routes, access, head, body, visitor, line).await;
        }
        let agents = self.agents_at(head);
        if agents.is_none()
            && !(self.speaks_mcp && [ENDPOINT, old_transport::STREAM, old_transport::MESSAGES].contains(&path))
        {
            // A client that posts JSON is looking for MCP.
            let seeks_mcp = self.speaks_mcp && head.method == Method::POST && is_json(&head.headers);
            return match self.agents {
                Some(_) if !seeks_mcp => a2e::detail(StatusCode::NOT_FOUND, "Not Found"),
                _ => respond::refusal(StatusCode::NOT_FOUND, "nothing is served at this path; MCP is at /mcp"),
            };
        }
        if self.is_stopping() {
            return match agents {
                Some(_) => a2e::detail(StatusCode::SERVICE_UNAVAILABLE, "the server is stopping"),
                None => respond::unavailable("stopping", "the server is stopping"),
            };
        }
        // Looked at before the guard is asked: what changes meanwhile is looked at again.
        let epoch = self.shared.service.access().epoch();
        let principal = match self.shared.authorize() {
            None => None,
            Some(authorize) => match authorize.authorize(head).await {
                Ok(principal) => principal,
                Err(denied) => return denied.map(Content::Whole),
            },
        };
        let who = RequestOrigin::new(principal.as_ref(), &visitor, &self.secret, epoch);
        if principal.is_some() {
            line.belongs_to(who.party);
        }
        let response = match (agents, path) {
            (Some(agents), _) => a2e::serve(self, agents, head, body, who, principal.as_ref(), line).await,
            (None, old_transport::STREAM) => old_transport::stream(self, &head.method, &head.headers, who),
            (None, old_transport::MESSAGES) => {
                old_transport::message(self, &head.method, &head.uri, body, &who, principal.as_ref()).await
            }
            (None, _) => mcp::serve(self, head, body, who, principal.as_ref(), line).await,
        };
        match principal.and_then(|principal| principal.expires) {
            Some(expires) if listens(head) => respond::until(response, expires),
            _ => response,
        }
    }

    /// The routes of the embedding program at a path that no dialect has.
    fn side_route(&self, path: &str) -> Option<(&Arc<dyn SideRoutes>, RouteAccess)> {
        let is_of_mcp = [ENDPOINT, old_transport::STREAM, old_transport::MESSAGES].contains(&path);
        let is_of_a2e = [a2e::SESSION, a2e::SEND, a2e::STREAM].contains(&path);
        if is_of_mcp || is_of_a2e {
            return None;
        }
        self.side_routes.iter().find_map(|routes| routes.access(path).map(|access| (routes, access)))
    }

    /// Answers a request for a route of the embedding program.
    async fn serve_beside(
        &self,
        routes: &dyn SideRoutes,
        access: RouteAccess,
        head: &Parts,
        body: Incoming,
        visitor: Visitor,
        line: &Arc<ConnectionState>,
    ) -> Response<Content> {
        let epoch = self.shared.service.access().epoch();
        let principal = match self.shared.authorize().filter(|_| access == RouteAccess::Endpoint) {
            None => None,
            Some(authorize) => match authorize.authorize(head).await {
                Ok(principal) => principal,
                Err(denied) => return denied.map(Content::Whole),
            },
        };
        let who = RequestOrigin::new(principal.as_ref(), &visitor, &self.secret, epoch);
        if principal.is_some() {
            line.belongs_to(who.party);
        }
        let body = match read_body(body, &self.shared, who.party).await {
            Ok(body) => body,
            Err(refusal) => return refusal,
        };
        let expires = principal.as_ref().and_then(|principal| principal.expires);
        let from = SideOrigin { address: visitor.address(), principal };
        let response = routes.respond(Request::from_parts(head.clone(), body), from).await;
        if matches!(response.body(), SideBody::Stream(_)) && !self.shared.streams.admits(who.party) {
            return respond::unavailable("busy", "busy: too many streams; try again later");
        }
        let response = response.map(|body| match body {
            SideBody::Whole(bytes) => Content::Whole(bytes),
            SideBody::Stream(parts) => {
                let portion = self.shared.streams.portion(who.party).with(1);
                let end = self.end_of_side_stream(access, who);
                Content::Side(Box::new(SideStream { parts, end: Box::pin(end), _portion: portion }))
            }
        });
        match expires {
            Some(expires) => respond::until(response, expires),
            None => response,
        }
    }

    /// Ends when a stream of a side route must end: the server stops, or its reader loses access to the endpoint.
    fn end_of_side_stream(&self, access: RouteAccess, who: RequestOrigin) -> impl Future<Output = ()> + Send + 'static {
        let (shared, stopping) = (Arc::clone(&self.shared), self.ending_streams.clone());
        let withdrawn = async move {
            let known = shared.service.access();
            let mut epoch = who.epoch;
            while access == RouteAccess::Own || !shared.has_withdrawn(&who) {
                known.changed_after(epoch).await;
                epoch = known.epoch();
            }
        };
        async move {
            tokio::select! {
                () = stopping.cancelled() => {}
                () = withdrawn => {}
            }
        }
    }

    /// Reads the message of a request, unless its sender may not send it.
    pub(super) async fn read(
        &self,
        body: Incoming,
        who: &RequestOrigin,
        sender: Option<&Principal>,
    ) -> Result<Bytes, Response<Content>> {
        let body = read_body(body, &self.shared, who.party).await?;
        if self.shared.has_withdrawn(who) {
            return Err(respond::withdrawn());
        }
        if let (Some(authorize), Some(sender)) = (self.shared.authorize(), sender) {
            authorize.permit(sender, &body).map_err(|denied| {
                self.shared.refused_for_scopes(sender, &DIALECT, &called_tools(&body));
                denied.map(Content::Whole)
            })?;
        }
        Ok(body)
    }

    /// Refuses a sender whose token lacks scopes that the content of a session needs.
    pub(super) fn permit_content(
        &self,
        record: &ScopeRecord,
        who: &RequestOrigin,
        sender: Option<&Principal>,
    ) -> Result<(), Box<Response<Content>>> {
        let Some(needed) = record.needed_beyond(who.scopes.as_deref()) else { return Ok(()) };
        let (Some(authorize), Some(sender)) = (self.shared.authorize(), sender) else {
            return Err(Box::new(respond::withdrawn()));
        };
        let denied = authorize.insufficient_scope(sender, &Scopes::parse(&needed));
        Err(Box::new(denied.map(Content::Whole)))
    }

    /// Ends what belongs to those who lose access, whenever that changes.
    pub(super) async fn follow_access(&self) {
        let access = self.shared.service.access();
        let mut epoch = access.epoch();
        loop {
            access.changed_after(epoch).await;
            epoch = access.epoch();
            self.sessions.end_withdrawn();
            self.agents.iter().for_each(|agents| agents.follow_access());
        }
    }

    /// The A2E agents, if the request is for them.
    fn agents_at(&self, head: &Parts) -> Option<&Arc<a2e::Agents>> {
        let is_theirs = [a2e::SESSION, a2e::SEND, a2e::STREAM].contains(&head.uri.path());
        self.agents.as_ref().filter(|_| is_theirs)
    }

    /// A refusal of the guard, in the form of the dialect that is asked for.
    fn turn_away(&self, head: &Parts, turned: Turned) -> Response<Content> {
        let (status, why) = (StatusCode::FORBIDDEN, turned.why());
        let response = match self.agents_at(head) {
            Some(_) => a2e::detail(status, why),
            None => respond::refusal(status, why),
        };
        refused(response, why)
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }
}

/// The answer to the preflight request that a browser sends before a page of another origin may talk to this server.
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

/// Whether a request asks for a stream that has no end of its own. The stream of a call ends with its answer.
fn listens(head: &Parts) -> bool {
    let method = head.headers.get(METHOD_HEADER).and_then(|method| method.to_str().ok()).and_then(decode_header_value);
    head.method == Method::GET || method.is_some_and(|method| method == "subscriptions/listen")
}
