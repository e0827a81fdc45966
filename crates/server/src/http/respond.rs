//! Responses, each kind made in one place.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use gladhand_core::wire::{Frames, rpc};
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, WWW_AUTHENTICATE};
use http::{Response, StatusCode};
use hyper::body::{Body, Frame, SizeHint};
use tokio::time::Sleep;

use super::a2e::AgentStream;
use super::events::Events;
use super::refusals::refused;
use super::side_routes::SideStream;

/// Names a session, on requests and on the answer that opens one.
pub(super) const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");

/// Why a sender that has lost access is refused.
pub(super) const WITHDRAWN: &str = "the token is not valid any more";

/// How long a stream lasts whose token lasts longer.
const LONGEST_STREAM: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The body of a response.
#[derive(Debug)]
pub(super) enum Content {
    /// All of it, or nothing once it is sent.
    Whole(Bytes),
    /// Events as they come.
    Events(Box<Events>),
    /// Messages to an agent as they come.
    Messages(Box<AgentStream>),
    /// Parts of a side route as they arrive.
    Side(Box<SideStream>),
    /// Something of the above that ends with the token of its reader.
    Expiring(Box<(Self, Pin<Box<Sleep>>)>),
}

impl Body for Content {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut *self {
            Self::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Self::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Self::Events(events) => Pin::new(&mut **events).poll_frame(cx),
            Self::Messages(messages) => Pin::new(&mut **messages).poll_frame(cx),
            Self::Side(side) => side.poll_part(cx).map(|part| part.map(|part| Ok(Frame::data(part)))),
            Self::Expiring(expiring) => {
                let (content, end) = &mut **expiring;
                match end.as_mut().poll(cx) {
                    Poll::Ready(()) => Poll::Ready(None),
                    Poll::Pending => Pin::new(content).poll_frame(cx),
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(bytes) if bytes.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Events(_) | Self::Messages(_) | Self::Side(_) | Self::Expiring(_) => SizeHint::default(),
        }
    }
}

/// The same response, which ends at a time (in seconds since 1970) if it is a stream.
pub(super) fn until(response: Response<Content>, expires: u64) -> Response<Content> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    // A timer cannot be set for any time that a token may name.
    let left = Duration::from_secs(expires).saturating_sub(now).min(LONGEST_STREAM);
    response.map(|content| match content {
        Content::Whole(_) => content,
        stream => Content::Expiring(Box::new((stream, Box::pin(tokio::time::sleep(left))))),
    })
}

/// A status and nothing else.
pub(super) fn empty(status: StatusCode) -> Response<Content> {
    whole(status, Bytes::new())
}

/// A few words for people.
pub(super) fn text(status: StatusCode, words: &'static str) -> Response<Content> {
    let mut response = whole(status, Bytes::from_static(words.as_bytes()));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

/// One line of JSON.
pub(super) fn json(status: StatusCode, line: Bytes) -> Response<Content> {
    let mut response = whole(status, line);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// A refusal of the transport's own: a JSON-RPC error that answers no request in particular.
pub(super) fn refusal(status: StatusCode, message: &'static str) -> Response<Content> {
    error(status, &rpc::Error::new(rpc::code::INVALID_REQUEST, message))
}

/// Too much is under way, or we are about to leave.
pub(super) fn unavailable(reason: &'static str, message: &'static str) -> Response<Content> {
    let error = rpc::Error::new(rpc::code::INTERNAL_ERROR, message).with(&serde_json::json!({ "reason": reason }));
    self::error(StatusCode::SERVICE_UNAVAILABLE, &error)
}

/// The sender was let in, and has lost access since.
pub(super) fn withdrawn() -> Response<Content> {
    let mut response = refusal(StatusCode::UNAUTHORIZED, WITHDRAWN);
    response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    refused(response, WITHDRAWN)
}

/// A method that a path does not have.
pub(super) fn not_allowed(allowed: &'static str) -> Response<Content> {
    let mut response = refusal(StatusCode::METHOD_NOT_ALLOWED, "this method is not allowed here");
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    response
}

/// A stream of events.
pub(super) fn events(events: Events) -> Response<Content> {
    let mut response = Response::new(Content::Events(Box::new(events)));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // Proxies that collect answers before they pass them on leave this one alone.
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    response
}

fn error(status: StatusCode, error: &rpc::Error<'_>) -> Response<Content> {
    let mut line = Frames::default();
    rpc::error(&mut line, None, error);
    line.pop();
    json(status, line.into_bytes().into())
}

fn whole(status: StatusCode, bytes: Bytes) -> Response<Content> {
    let mut response = Response::new(Content::Whole(bytes));
    *response.status_mut() = status;
    response
}
