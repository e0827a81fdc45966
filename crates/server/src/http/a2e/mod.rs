//! A2E over HTTP (a2e §20.2): messages of the agent are posted, ours arrive on one stream of events.
//!
//! `agents` knows all sessions, `session` holds our side of one under a lock, `transport` the way to the agent, `outlet` is what is on its way
//! to the agent, `stream` the body that carries it. Only the dialect parses a message ([`Message`]).

mod agents;

mod outlet;
mod session;
mod stream;
mod transport;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gladhand_auth::resource::Principal;
use gladhand_dialects::a2e::{DIALECT, Message};
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Method, Response, StatusCode};
use hyper::body::Incoming;

use super::endpoint::Endpoint;
use super::refusals::refused;
use super::request::read_body;
use super::request_origin::RequestOrigin;
use super::respond::{self, Content};
use super::served::ConnectionState;
use session::{AgentSession, Sent};

pub(super) use agents::{Agents, Trust};
pub(super) use stream::AgentStream;

/// Where sessions begin.
pub(super) const SESSION: &str = "/session";
/// Where messages go.
pub(super) const SEND: &str = "/send";
/// Where answers and events come from.
pub(super) const STREAM: &str = "/stream";
/// Where it is asked whether we are well.
pub(super) const HEALTH: &str = "/health";

/// Names a session.
pub(super) const SESSION_ID: HeaderName = HeaderName::from_static("x-session-id");

/// Bounds on sessions of A2E over HTTP.
#[derive(Debug, Clone, Copy)]
pub struct AgentLimits {
    /// How many may be open, and how many more may wait for their handshake.
    pub sessions: usize,
    /// Close a session after this long without a request, an open stream or a running call.
    pub idle: Duration,
    /// Close a session that has not sent its handshake by then.
    pub handshake: Duration,
}

impl Default for AgentLimits {
    fn default() -> Self {
        Self { sessions: 2000, idle: Duration::from_secs(30 * 60), handshake: Duration::from_secs(10) }
    }
}

/// Says that we are well.
pub(super) fn health(method: &Method) -> Response<Content> {
    match *method {
        Method::GET => respond::json(StatusCode::OK, Bytes::from_static(br#"{"status":"ok"}"#)),
        _ => not_allowed("GET"),
    }
}

/// Serves a request to one of the other paths.
pub(super) async fn serve(
    endpoint: &Endpoint,
    agents: &Arc<Agents>,
    head: &Parts,
    body: Incoming,
    who: RequestOrigin,
    sender: Option<&Principal>,
    line: &Arc<ConnectionState>,
) -> Response<Content> {
    match (head.uri.path(), &head.method) {
        (SESSION, &Method::POST) => match agents.begin(who) {
            Some(id) => {
                let line = format!(r#"{{"session_id":"{}"}}"#, id.written());
                respond::json(StatusCode::OK, line.into())
            }
            None => too_many_sessions(),
        },
        (SEND, &Method::POST) => send(endpoint, agents, head, body, &who, sender).await,
        (STREAM, &Method::GET) => stream(endpoint, agents, head, &who, sender, line),
        (STREAM, _) => not_allowed("GET"),
        _ => not_allowed("POST"),
    }
}

async fn send(
    endpoint: &Endpoint,
    agents: &Agents,
    head: &Parts,
    body: Incoming,
    who: &RequestOrigin,
    sender: Option<&Principal>,
) -> Response<Content> {
    let session = match find(endpoint, agents, head, who, sender) {
        Ok(session) => session,
        Err(refusal) => return *refusal,
    };
    if !endpoint.shared.has_room_for_answers(who.party) {
        return busy();
    }
    let body = match read_body(body, &endpoint.shared, who.party).await {
        Ok(body) => body,
        Err(refusal) => {
            let status = refusal.status();
            return detail(status, status.canonical_reason().unwrap_or_default());
        }
    };
    let line = on_one_line(&body);
    let message = Message::of(&line);
    if endpoint.shared.has_withdrawn(who) {
        return refused(detail(StatusCode::UNAUTHORIZED, respond::WITHDRAWN), respond::WITHDRAWN);
    }
    if let (Some(authorize), Some(sender)) = (endpoint.shared.authorize(), sender)
        && let Err(denied) = authorize.permit_tools(sender, &|| message.called_tools())
    {
        endpoint.shared.refused_for_scopes(sender, &DIALECT, &message.called_tools());
        return denied.map(Content::Whole);
    }
    if !session.is_open() && !agents.has_room_for(session.who.party) {
        return too_many_sessions();
    }
    let sent = session.send(message, &line, who);
    if sent == Sent::Opened {
        agents.opened(&session);
    }
    match sent {
        Sent::Taken | Sent::Opened => respond::json(StatusCode::OK, Bytes::from_static(br#"{"ok":true}"#)),
        Sent::Deaf => not_found(),
        Sent::Busy => busy(),
    }
}

fn stream(
    endpoint: &Endpoint,
    agents: &Agents,
    head: &Parts,
    who: &RequestOrigin,
    sender: Option<&Principal>,
    line: &Arc<ConnectionState>,
) -> Response<Content> {
    let session = match find(endpoint, agents, head, who, sender) {
        Ok(session) => session,
        Err(refusal) => return *refusal,
    };
    if !endpoint.shared.streams.admits(who.party) {
        return detail(StatusCode::SERVICE_UNAVAILABLE, "Too many streams");
    }
    let Some(stream) = session.listen(Arc::clone(line), who) else { return not_found() };
    let mut response = Response::new(Content::Messages(Box::new(stream)));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // Proxies that collect answers before they pass them on leave this one alone.
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    response
}

/// The session that a request names, if its sender may use it.
fn find(
    endpoint: &Endpoint,
    agents: &Agents,
    head: &Parts,
    who: &RequestOrigin,
    sender: Option<&Principal>,
) -> Result<Arc<AgentSession>, Box<Response<Content>>> {
    let Some(id) = head.headers.get(SESSION_ID).filter(|id| !id.is_empty()) else {
        return Err(Box::new(detail(StatusCode::BAD_REQUEST, "Missing X-Session-Id")));
    };
    let session = id.to_str().ok().and_then(|id| agents.find(id, who)).ok_or_else(|| Box::new(not_found()))?;
    endpoint.permit_content(&session.record, who, sender)?;
    Ok(session)
}

/// A message without line ends, which would end it too early wherever it is passed on. In JSON they mean nothing.
fn on_one_line(message: &Bytes) -> Cow<'_, [u8]> {
    let message = message.trim_ascii();
    if memchr::memchr2(b'\n', b'\r', message).is_none() {
        return Cow::Borrowed(message);
    }
    let is_end = |byte: u8| matches!(byte, b'\n' | b'\r');
    message.iter().map(|byte| if is_end(*byte) { b' ' } else { *byte }).collect::<Vec<_>>().into()
}

/// A refusal, in the form that A2E's hosts give it.
pub(super) fn detail(status: StatusCode, detail: &str) -> Response<Content> {
    respond::json(status, serde_json::json!({ "detail": detail }).to_string().into())
}

/// No session has this id, or it is over.
fn not_found() -> Response<Content> {
    detail(StatusCode::NOT_FOUND, "Session not found")
}

fn too_many_sessions() -> Response<Content> {
    detail(StatusCode::SERVICE_UNAVAILABLE, "Too many sessions")
}

/// The agent does not read what it is sent, or too many requests are in flight.
fn busy() -> Response<Content> {
    detail(StatusCode::SERVICE_UNAVAILABLE, "Busy: read the stream, and try again later")
}

fn not_allowed(allowed: &'static str) -> Response<Content> {
    let mut response = detail(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed");
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    response
}
