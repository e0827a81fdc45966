//! Reads HTTP/1.1 responses out of a buffer, and the messages out of their bodies.
//!
//! Only what MCP servers send: a body with a length or in chunks, plain JSON or an event stream that ends.

use std::borrow::Cow;

use anyhow::{Context, Result, bail, ensure};
use memchr::{memchr, memmem};

/// A whole response.
#[derive(Debug, PartialEq)]
pub(crate) struct Response<'a> {
    pub(crate) status: u16,
    /// The value of `Mcp-Session-Id`.
    pub(crate) session: Option<&'a str>,
    is_event_stream: bool,
    body: Cow<'a, [u8]>,
}

/// How the end of a body is known.
#[derive(Clone, Copy)]
enum Framing {
    Length(usize),
    Chunked,
}

impl<'a> Response<'a> {
    /// The first response in `bytes` and how many of them it takes, or nothing while it is not all there.
    pub(crate) fn read(bytes: &'a [u8]) -> Result<Option<(Self, usize)>> {
        let Some(end_of_head) = memmem::find(bytes, b"\r\n\r\n") else { return Ok(None) };
        let head = std::str::from_utf8(&bytes[..end_of_head]).context("a head that is no text")?;
        let mut lines = head.split("\r\n");
        let status_line = lines.next().unwrap_or_default();
        let status = status_line.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok());
        let status: u16 = status.with_context(|| format!("no status line: {status_line}"))?;
        let (mut framing, mut session, mut is_event_stream) = (None, None, false);
        for line in lines {
            let (name, value) = line.split_once(':').with_context(|| format!("no header: {line}"))?;
            let value = value.trim_ascii();
            if name.eq_ignore_ascii_case("content-length") {
                framing = Some(Framing::Length(value.parse().context("a length that is no number")?));
            } else if name.eq_ignore_ascii_case("transfer-encoding") {
                ensure!(value.eq_ignore_ascii_case("chunked"), "an unknown transfer encoding: {value}");
                framing = Some(Framing::Chunked);
            } else if name.eq_ignore_ascii_case("content-type") {
                is_event_stream = value.starts_with("text/event-stream");
            } else if name.eq_ignore_ascii_case("mcp-session-id") {
                session = Some(value);
            }
        }
        let start = end_of_head + 4;
        let framed = match framing {
            Some(Framing::Length(length)) => {
                bytes.get(start..start + length).map(|body| (Cow::Borrowed(body), start + length))
            }
            Some(Framing::Chunked) => chunks(bytes, start)?.map(|(body, end)| (Cow::Owned(body), end)),
            None if matches!(status, 202 | 204) => Some((Cow::Borrowed(&[][..]), start)),
            None => bail!("a response with status {status} has neither a length nor chunks"),
        };
        Ok(framed.map(|(body, end)| (Self { status, session, is_event_stream, body }, end)))
    }

    /// The messages in the body. Servers write each on one line, so a `data` line of an event is a whole message.
    pub(crate) fn messages(&self) -> impl Iterator<Item = &[u8]> {
        let plain = (!self.is_event_stream).then_some(&*self.body);
        let lines = self.is_event_stream.then(|| self.body.split(|byte| *byte == b'\n'));
        let events = lines.into_iter().flatten().filter_map(|line| line.strip_prefix(b"data:"));
        plain.into_iter().chain(events).map(<[u8]>::trim_ascii).filter(|message| !message.is_empty())
    }

    /// The beginning of the body, for error messages.
    pub(crate) fn excerpt(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.body[..self.body.len().min(300)])
    }
}

/// The joined chunks that start at `at`, and where they end; nothing while the last one is missing.
fn chunks(bytes: &[u8], mut at: usize) -> Result<Option<(Vec<u8>, usize)>> {
    let mut body = Vec::new();
    loop {
        let Some(newline) = memchr(b'\n', &bytes[at..]) else { return Ok(None) };
        let line = std::str::from_utf8(&bytes[at..at + newline]).context("a chunk without a size")?;
        let digits = line.split(';').next().unwrap_or_default().trim_ascii();
        let size = usize::from_str_radix(digits, 16).with_context(|| format!("no size of a chunk: {line}"))?;
        at += newline + 1;
        // The line end after the data, or after the last size: trailers are not expected.
        let Some(end) = bytes.get(at + size..at + size + 2) else { return Ok(None) };
        ensure!(end == b"\r\n", "a chunk that does not end where it says");
        body.extend_from_slice(&bytes[at..at + size]);
        at += size + 2;
        if size == 0 {
            return Ok(Some((body, at)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JSON: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nMCP-Session-Id: abc\r\nContent-Length: 8\r\n\r\n{\"id\":1}";
    const CHUNKS: &str = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{\"i\r\n5;x=1\r\nd\":1}\r\n0\r\n\r\n";
    const EVENTS: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n\
        19\r\n: hello\nid: 0\ndata: \n\nid:\r\n1c\r\n 1\nevent: message\r\ndata: {\"i\r\n9\r\nd\":1}\r\n\r\n\r\n0\r\n\r\n";
    const ACCEPTED: &str = "HTTP/1.1 202 Accepted\r\ndate: today\r\n\r\n";

    fn messages(text: &str) -> Vec<String> {
        let (response, taken) = Response::read(text.as_bytes()).unwrap().unwrap();
        assert_eq!(taken, text.len());
        response.messages().map(|message| String::from_utf8(message.to_vec()).unwrap()).collect()
    }

    #[test]
    fn every_framing_gives_the_same_message() {
        for text in [JSON, CHUNKS, EVENTS] {
            assert_eq!(messages(text), ["{\"id\":1}"], "{text}");
        }
        assert_eq!(messages(ACCEPTED), Vec::<String>::new());
    }

    #[test]
    fn part_of_a_response_is_none() {
        for text in [JSON, CHUNKS, EVENTS, ACCEPTED] {
            for end in 0..text.len() {
                assert_eq!(Response::read(&text.as_bytes()[..end]).unwrap(), None, "{}", &text[..end]);
            }
        }
    }

    #[test]
    fn bytes_after_a_response_are_not_consumed() {
        for text in [JSON, CHUNKS, EVENTS, ACCEPTED] {
            let two = format!("{text}{JSON}");
            let (_, taken) = Response::read(two.as_bytes()).unwrap().unwrap();
            assert_eq!(&two[taken..], JSON);
        }
    }

    #[test]
    fn status_and_session_are_read() {
        let (json, _) = Response::read(JSON.as_bytes()).unwrap().unwrap();
        assert_eq!((json.status, json.session), (200, Some("abc")));
        let (accepted, _) = Response::read(ACCEPTED.as_bytes()).unwrap().unwrap();
        assert_eq!((accepted.status, accepted.session), (202, None));
    }

    #[test]
    fn nonsense_is_noticed() {
        let wrong = [
            "HTTP/1.0 200 OK\r\n\r\n",
            "HTTP/1.1 200 OK\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nx\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nabc",
        ];
        for text in wrong {
            assert!(Response::read(text.as_bytes()).is_err(), "{text}");
        }
    }
}
