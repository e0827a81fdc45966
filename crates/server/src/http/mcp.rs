//! MCP's Streamable HTTP, both eras at one address.
//!
//! A request that carries its own opening, in its body or in its version header, needs no session and
//! gets none. Everything else belongs to a session: `initialize` opens one, and its id comes back in a
//! header from then on.

use std::sync::Arc;

use bytes::Bytes;
use gladhand_auth::resource::Principal;
use gladhand_core::wire::FrameKind;
use gladhand_dialects::Party;
use gladhand_dialects::mcp::Message;
use gladhand_dialects::mcp::http::{check_headers, status};
use gladhand_dialects::mcp::revision::Revision;
use http::header::{HeaderName, HeaderValue};
use http::request::Parts;
use http::{HeaderMap, Method, Response, StatusCode};
use hyper::body::Incoming;

use super::endpoint::Endpoint;
use super::events::Events;
use super::pending_response::WaitResult;
use super::request::{EVENTS, accepts, accepts_both, is_json, is_unpacked};
use super::request_origin::RequestOrigin;
use super::respond::{self, Content, SESSION_ID};
use super::served::ConnectionState;
use super::session::{Manner, Posted, Session};
use super::session_id::SessionId;
use super::stream;

/// The methods of this path in the handshake era.
const METHODS: &str = "GET, POST, DELETE, OPTIONS";

const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// Serves one request.
pub(super) async fn serve(
    endpoint: &Endpoint,
    head: &Parts,
    body: Incoming,
    who: RequestOrigin,
    sender: Option<&Principal>,
    line: &ConnectionState,
) -> Response<Content> {
    let headers = &head.headers;
    let version = Version::of(headers);
    match head.method {
        Method::POST if !is_json(headers) => {
            respond::refusal(StatusCode::UNSUPPORTED_MEDIA_TYPE, "Content-Type must be application/json, in UTF-8")
        }
        Method::POST if !is_unpacked(headers) => {
            respond::refusal(StatusCode::UNSUPPORTED_MEDIA_TYPE, "Content-Encoding must be identity")
        }
        Method::POST if !endpoint.shared.has_room_for_answers(who.party) => {
            respond::unavailable("busy", "busy: too many answers wait to be read; try again later")
        }
        Method::POST => match endpoint.read(body, &who, sender).await {
            Ok(body) => {
                line.heard();
                post(endpoint, headers, version, &body, who, sender).await
            }
            Err(refusal) => refusal,
        },
        // There is nothing to listen to and nothing to end where there are no sessions.
        Method::GET | Method::DELETE if version == Version::Stateless => respond::not_allowed("POST, OPTIONS"),
        Method::GET | Method::DELETE if version == Version::Unknown => unknown_version(),
        Method::GET if !accepts(headers, EVENTS) => {
            respond::refusal(StatusCode::NOT_ACCEPTABLE, "Accept must allow text/event-stream")
        }
        Method::GET => match find(endpoint, headers, &who, sender) {
            Ok((_, session)) => listen(endpoint, headers, &session, &who),
            Err(refusal) => *refusal,
        },
        Method::DELETE => match find(endpoint, headers, &who, sender) {
            Ok((id, _)) => {
                endpoint.sessions.end(id);
                respond::empty(StatusCode::NO_CONTENT)
            }
            Err(refusal) => *refusal,
        },
        _ => respond::not_allowed(METHODS),
    }
}

/// The content of the version header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    Absent,
    Handshake,
    Stateless,
    Unknown,
}

impl Version {
    fn of(headers: &HeaderMap) -> Self {
        let Some(version) = headers.get(PROTOCOL_VERSION) else { return Self::Absent };
        match version.to_str().ok().and_then(|version| Revision::named(version.trim())) {
            Some(revision) if revision.is_stateless() => Self::Stateless,
            Some(_) => Self::Handshake,
            None => Self::Unknown,
        }
    }
}

async fn post(
    endpoint: &Endpoint,
    headers: &HeaderMap,
    version: Version,
    body: &Bytes,
    who: RequestOrigin,
    sender: Option<&Principal>,
) -> Response<Content> {
    let Some(message) = Message::of(body) else {
        // On stdio this would be an empty line, which gets no answer.
        return respond::refusal(StatusCode::BAD_REQUEST, "the body is empty");
    };
    if version == Version::Stateless || !message.is_readable() || message.is_stateless() {
        return stateless(endpoint, headers, &message, body, &who).await;
    }
    if !accepts_both(headers) {
        let problem = "Accept must allow both application/json and text/event-stream";
        return respond::refusal(StatusCode::NOT_ACCEPTABLE, problem);
    }
    if message.request() == Some("initialize") && !headers.contains_key(SESSION_ID) {
        return open(endpoint, &message, body, who).await;
    }
    let (id, session) = match find(endpoint, headers, &who, sender) {
        Ok(found) => found,
        Err(refusal) => return *refusal,
    };
    if version == Version::Unknown {
        return unknown_version();
    }
    let posted = session.post(&message, body, &who);
    if session.is_refused() {
        endpoint.sessions.end(id);
    }
    answer(endpoint, who.party, posted, |kind| match kind {
        // An error that names no request answers the exchange as a whole.
        FrameKind::Error { names_request: false, .. } => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    })
    .await
}

/// A message that needs no session.
async fn stateless(
    endpoint: &Endpoint,
    headers: &HeaderMap,
    message: &Message<'_>,
    body: &[u8],
    who: &RequestOrigin,
) -> Response<Content> {
    if !message.wants_answer() {
        // A client cancels a request by closing its exchange; an id would not even tell which client's request is
        // meant.
        endpoint.sessions.stateless().ignore(body);
        return respond::empty(StatusCode::ACCEPTED);
    }
    let mirrors = endpoint.shared.mirrors().await;
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let version = headers.get(PROTOCOL_VERSION).and_then(|version| version.to_str().ok());
    let knows_opening = version.is_some_and(|version| endpoint.sessions.stateless().knows(message, version));
    if let Err(rejection) = check_headers(&header, message, &mirrors, knows_opening) {
        let status = StatusCode::from_u16(rejection.status).unwrap_or(StatusCode::BAD_REQUEST);
        return respond::json(status, rejection.body.into());
    }
    let posted = endpoint.sessions.stateless().post(message, body, who);
    if endpoint.shared.has_withdrawn(who) {
        // Those who look for what is to be ended may have looked before this was there.
        endpoint.sessions.end_withdrawn();
    }
    answer(endpoint, who.party, posted, |kind| StatusCode::from_u16(status(kind)).unwrap_or(StatusCode::OK)).await
}

/// `initialize` without a session opens one, unless the answer is an error.
async fn open(endpoint: &Endpoint, initialize: &Message<'_>, body: &[u8], who: RequestOrigin) -> Response<Content> {
    let Some(session) = endpoint.sessions.prepare(Manner::Session, who) else {
        return respond::unavailable("busy", "busy: too many sessions; try again later");
    };
    let posted = session.post(initialize, body, &session.who);
    let is_open = matches!(&posted, Posted::Answer(frame) if frame.kind == FrameKind::Result);
    let mut response = answer(endpoint, session.who.party, posted, |_| StatusCode::OK).await;
    if is_open {
        let id = endpoint.sessions.open(session).written();
        let id = HeaderValue::from_str(&id).expect("hex digits are visible");
        response.headers_mut().insert(SESSION_ID, id);
    }
    response
}

/// The stream that the session talks on by itself, or one that was lost.
fn listen(endpoint: &Endpoint, headers: &HeaderMap, session: &Session, who: &RequestOrigin) -> Response<Content> {
    if !endpoint.shared.streams.admits(session.who.party) {
        return respond::unavailable("busy", "busy: too many streams; try again later");
    }
    let held = |events: Events| respond::events(events.held_to(who.scopes.clone()));
    let Some(last) = headers.get(LAST_EVENT_ID) else { return held(session.listen()) };
    let known = last.to_str().ok().and_then(stream::event_id);
    match known.and_then(|(lane, last_seen)| session.resume(lane, last_seen)) {
        Some(events) => held(events),
        None => respond::refusal(
            StatusCode::BAD_REQUEST,
            "Last-Event-ID is unknown, or the events after it are no longer stored",
        ),
    }
}

/// The session that a request names, if its sender may use it.
fn find(
    endpoint: &Endpoint,
    headers: &HeaderMap,
    who: &RequestOrigin,
    sender: Option<&Principal>,
) -> Result<(SessionId, Arc<Session>), Box<Response<Content>>> {
    let Some(named) = headers.get(SESSION_ID) else {
        let problem = "a Mcp-Session-Id header is needed: `initialize` opens a session";
        return Err(Box::new(respond::refusal(StatusCode::BAD_REQUEST, problem)));
    };
    let id = named.to_str().ok().and_then(SessionId::read);
    let Some((id, session)) = id.and_then(|id| Some((id, endpoint.sessions.find(id, who)?))) else {
        let problem = "no such session: `initialize` opens a new one";
        return Err(Box::new(respond::refusal(StatusCode::NOT_FOUND, problem)));
    };
    endpoint.permit_content(&session.record, who, sender)?;
    Ok((id, session))
}

fn unknown_version() -> Response<Content> {
    respond::refusal(StatusCode::BAD_REQUEST, "MCP-Protocol-Version names an unsupported version")
}

/// The response to what a party posted. The status of an answer depends on the era.
async fn answer(
    endpoint: &Endpoint,
    party: Party,
    posted: Posted,
    status: impl FnOnce(FrameKind) -> StatusCode,
) -> Response<Content> {
    let came = match posted {
        Posted::Accepted => WaitResult::Nothing,
        Posted::Answer(frame) => WaitResult::Answer(frame),
        Posted::Later(awaited) => awaited.soon().await,
        Posted::Busy => {
            return respond::unavailable("busy", "busy: too many requests in flight; try again later");
        }
    };
    match came {
        WaitResult::Nothing => respond::empty(StatusCode::ACCEPTED),
        WaitResult::Answer(frame) => respond::json(status(frame.kind), endpoint.shared.counted(frame.line, party)),
        WaitResult::Stream(events) => respond::events(events),
    }
}
