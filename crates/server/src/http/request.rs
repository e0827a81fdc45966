//! Checks a request before its message is parsed: content types, size, time.

use std::task::Poll;

use bytes::Bytes;
use gladhand_dialects::Party;
use http::header::{ACCEPT, CONTENT_ENCODING, CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};

use super::respond::{self, Content};
use super::shared::Shared;

/// The kind of a stream.
pub(super) const EVENTS: &str = "text/event-stream";

/// Reads a body of a party, within bounds of size, memory and time.
pub(super) async fn read_body(mut body: Incoming, shared: &Shared, party: Party) -> Result<Bytes, Response<Content>> {
    let limit = shared.service.bounds().line_bytes;
    if body.size_hint().lower() > limit as u64 {
        return Err(too_large());
    }
    let (within, declared) = (shared.options.body, body.size_hint().exact());
    // No more is ever reserved than the client declared.
    let most = declared.and_then(|declared| usize::try_from(declared).ok()).unwrap_or(limit).min(limit);
    let read = async {
        let mut room = shared.reading.portion(party);
        let mut whole = Bytes::new();
        let mut parts: Option<Vec<u8>> = None;
        while let Some(frame) = body.frame().await {
            // The request was cut off: the client can no longer read an answer.
            let Ok(frame) = frame else {
                return Err(respond::refusal(StatusCode::BAD_REQUEST, "the body was cut off"));
            };
            let Ok(data) = frame.into_data() else { continue };
            let length = whole.len() + parts.as_ref().map_or(0, Vec::len) + data.len();
            if length > limit {
                return Err(too_large());
            }
            let capacity = capacity(parts.as_ref().map_or(0, Vec::capacity), length, most);
            // The share grows before the memory, and has the size of the memory.
            if room.amount() < capacity && !room.resize(capacity) {
                return Err(respond::unavailable("busy", "busy: too much is being read; try again later"));
            }
            // Nearly always there is only one part, and it need not be copied.
            if whole.is_empty() && parts.is_none() {
                whole = data;
            } else {
                let parts = parts.get_or_insert_with(|| std::mem::take(&mut whole).into());
                parts.reserve_exact(capacity.saturating_sub(parts.len()));
                parts.extend_from_slice(&data);
            }
        }
        Ok(parts.map_or(whole, Bytes::from))
    };
    let mut read = std::pin::pin!(read);
    // In most cases the whole body has arrived already, and no timer is needed.
    if let Poll::Ready(read) = std::future::poll_fn(|cx| Poll::Ready(read.as_mut().poll(cx))).await {
        return read;
    }
    match tokio::time::timeout(within, read).await {
        Ok(read) => read,
        Err(_) => Err(respond::refusal(StatusCode::REQUEST_TIMEOUT, "the body took too long")),
    }
}

/// The capacity of a buffer that had `before` and shall have `length`: it doubles, up to `most`.
fn capacity(before: usize, length: usize, most: usize) -> usize {
    if length <= before { before } else { (2 * before).min(most).max(length) }
}

fn too_large() -> Response<Content> {
    respond::refusal(StatusCode::PAYLOAD_TOO_LARGE, "the body is longer than the maximum size of a message")
}

/// Whether the body says that it is JSON, in the only encoding that JSON has.
pub(super) fn is_json(headers: &HeaderMap) -> bool {
    let Some(kind) = headers.get(CONTENT_TYPE) else { return false };
    // The most frequent value needs no parsing.
    if kind == "application/json" {
        return true;
    }
    let Ok(kind) = kind.to_str() else { return false };
    let mut parts = kind.split(';');
    let is_json = parts.next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"));
    is_json && parts.all(|parameter| !is_charset(parameter) || is_utf8(parameter))
}

fn is_charset(parameter: &str) -> bool {
    parameter.split_once('=').is_some_and(|(name, _)| name.trim().eq_ignore_ascii_case("charset"))
}

fn is_utf8(charset: &str) -> bool {
    let value = charset.split_once('=').map_or("", |(_, value)| value.trim().trim_matches('"'));
    value.eq_ignore_ascii_case("utf-8") || value.eq_ignore_ascii_case("utf8")
}

/// Whether the body travels as it is: nothing is unpacked here.
pub(super) fn is_unpacked(headers: &HeaderMap) -> bool {
    headers.get_all(CONTENT_ENCODING).iter().all(|encoding| encoding.as_bytes().eq_ignore_ascii_case(b"identity"))
}

/// Whether the sender takes an answer and a stream of events.
pub(super) fn accepts_both(headers: &HeaderMap) -> bool {
    let is_usual = |accept: &HeaderValue| accept == "application/json, text/event-stream";
    headers.get(ACCEPT).is_some_and(is_usual) || accepts(headers, "application/json") && accepts(headers, EVENTS)
}

/// Whether the sender takes a kind of answer. Who says nothing takes everything.
pub(super) fn accepts(headers: &HeaderMap, kind: &str) -> bool {
    let mut accept = headers.get_all(ACCEPT).iter().peekable();
    if accept.peek().is_none() {
        return true;
    }
    let family = kind.split_once('/').map_or(kind, |(family, _)| family);
    let ranges = accept.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
    ranges.map(|range| range.split(';').next().unwrap_or_default().trim()).any(|range| {
        let in_family = range.strip_suffix("/*").is_some_and(|range| range.eq_ignore_ascii_case(family));
        range == "*/*" || in_family || range.eq_ignore_ascii_case(kind)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_bodies_are_compared_without_most_of_their_parameters() {
        let is_json = |kind: &str| is_json(&HeaderMap::from_iter([(CONTENT_TYPE, kind.parse().unwrap())]));
        assert!(is_json("application/json") && is_json("Application/JSON; charset=utf-8"));
        assert!(is_json("application/json;v=1; Charset=\"UTF-8\"") && !is_json("application/json; charset=latin1"));
        assert!(!is_json("text/plain") && !is_json("application/jsonl") && !super::is_json(&HeaderMap::new()));
    }

    #[test]
    fn a_buffer_doubles_and_reserves_no_more_than_was_declared() {
        assert_eq!(capacity(0, 1000, 65_000), 1000, "the first part is not copied");
        assert_eq!(capacity(0, 3000, 65_000), 3000);
        assert_eq!(capacity(3000, 2500, 65_000), 3000, "there is enough");
        assert_eq!(capacity(3000, 3001, 65_000), 6000);
        assert_eq!(capacity(40_000, 40_001, 65_000), 65_000);
        assert_eq!(capacity(0, 10, 5), 10, "what has arrived is counted");
    }

    #[test]
    fn ranges_of_accepted_kinds_are_understood() {
        let accepts = |accept: &str, kind| accepts(&HeaderMap::from_iter([(ACCEPT, accept.parse().unwrap())]), kind);
        for accept in ["*/*", "text/event-stream", "application/json, text/Event-Stream;q=0.5", "text/*"] {
            assert!(accepts(accept, "text/event-stream"), "{accept}");
        }
        for accept in ["application/json", "application/*", "text/event", ""] {
            assert!(!accepts(accept, "text/event-stream"), "{accept}");
        }
        assert!(super::accepts(&HeaderMap::new(), "text/event-stream"));
    }
}
