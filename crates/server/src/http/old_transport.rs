//! The older transport of MCP (2024-11-05): one stream for everything that we say, another address for
//! everything that the client says. The session lives and ends with the stream.

use std::sync::Arc;

use bytes::Bytes;
use gladhand_auth::resource::Principal;
use gladhand_dialects::mcp::Message;
use http::{HeaderMap, Method, Response, StatusCode, Uri};
use hyper::body::Incoming;

use super::endpoint::Endpoint;
use super::request::accepts;
use super::request_origin::RequestOrigin;
use super::respond::{self, Content};
use super::session::{Manner, Posted};
use super::session_id::SessionId;
use super::sessions::Farewell;

/// Where the stream is.
pub(super) const STREAM: &str = "/sse";
/// Where messages go.
pub(super) const MESSAGES: &str = "/messages";

/// Opens a session and its stream.
pub(super) fn stream(
    endpoint: &Endpoint,
    method: &Method,
    headers: &HeaderMap,
    who: RequestOrigin,
) -> Response<Content> {
    if method != Method::GET {
        return respond::not_allowed("GET, OPTIONS");
    }
    if !accepts(headers, "text/event-stream") {
        return respond::refusal(StatusCode::NOT_ACCEPTABLE, "Accept must allow text/event-stream");
    }
    if !endpoint.shared.streams.admits(who.party) {
        return respond::unavailable("busy", "busy: too many streams; try again later");
    }
    let Some(session) = endpoint.sessions.prepare(Manner::OldTransport, who) else {
        return respond::unavailable("busy", "busy: too many sessions; try again later");
    };
    let id = endpoint.sessions.open(Arc::clone(&session));
    let preface = format!("event: endpoint\ndata: {MESSAGES}?sessionId={}\n\n", id.written());
    let farewell = Farewell::new(Arc::clone(&endpoint.sessions), id);
    let events = session.listen().held_to(session.who.scopes.clone());
    respond::events(events.with(Bytes::from(preface), farewell))
}

/// Takes a message; its answer goes to the stream.
pub(super) async fn message(
    endpoint: &Endpoint,
    method: &Method,
    uri: &Uri,
    body: Incoming,
    who: &RequestOrigin,
    sender: Option<&Principal>,
) -> Response<Content> {
    if method != Method::POST {
        return respond::not_allowed("POST, OPTIONS");
    }
    if !endpoint.shared.has_room_for_answers(who.party) {
        return respond::unavailable("busy", "busy: too many answers wait to be read; try again later");
    }
    // Read before the session is looked for: a client that still sends its message might not see the answer.
    let body = match endpoint.read(body, who, sender).await {
        Ok(body) => body,
        Err(refusal) => return refusal,
    };
    let mut parameters = uri.query().unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
    let id = parameters.find(|(name, _)| *name == "sessionId").and_then(|(_, id)| SessionId::read(id));
    let session = id.and_then(|id| endpoint.sessions.find(id, who));
    let Some(session) = session.filter(|session| session.manner == Manner::OldTransport) else {
        return respond::text(StatusCode::NOT_FOUND, "no such session\n");
    };
    if let Err(refusal) = endpoint.permit_content(&session.record, who, sender) {
        return *refusal;
    }
    let Some(message) = Message::of(&body).filter(Message::is_readable) else {
        return respond::text(StatusCode::BAD_REQUEST, "the body is no JSON-RPC message\n");
    };
    match session.post(&message, &body, who) {
        Posted::Busy => respond::unavailable("busy", "busy: too many requests in flight; try again later"),
        _ => respond::text(StatusCode::ACCEPTED, "accepted\n"),
    }
}
