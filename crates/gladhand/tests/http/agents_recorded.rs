//! The recorded HTTP exchanges of A2E, played to the program: what was asked is asked again.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use crate::client::{Connection, Event, Response};
use crate::server::Program;

/// The line of `http_endpoints` whose answer differs from the recording, and its status. Bytes that are no text are
/// treated like all garbage, and the error is on the stream (a2e §20.2; the reference breaks down there).
const DIFFERENCE: (usize, u16) = (20, 200);

/// The lines of a recording: which, whether the client sent it, and the text.
fn recorded(file: &str) -> Vec<(usize, bool, String)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../transcripts/a2e/{file}.ndjson"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let lines = text.lines().enumerate().map(|(at, line)| {
        let line: Value = serde_json::from_str(line).expect("a line of a recording");
        (at + 1, line["dir"] == "c2s", line["raw"].as_str().expect("raw text").to_owned())
    });
    lines.collect()
}

/// The first line, the headers and the body of a recorded request or response.
fn parts(text: &str) -> (&str, Vec<(&str, &str)>, &str) {
    let (head, body) = text.split_once("\n\n").unwrap_or((text, ""));
    let mut lines = head.lines();
    let first = lines.next().unwrap_or_default();
    (first, lines.filter_map(|line| line.split_once(": ")).collect(), body)
}

/// Sends what the recorded client sent.
fn send(connection: &mut Connection, text: &str) {
    let (first, headers, body) = parts(text);
    let mut words = first.split(' ');
    let (method, path) = (words.next().expect("a method"), words.next().expect("a path"));
    if !body.contains('\u{fffd}') {
        return connection.send(method, path, &headers, body);
    }
    // The recording could not show the bytes, which are no text.
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let head = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n{headers}Content-Length: 2\r\n\r\n");
    connection.send_bytes(&[head.as_bytes(), b"\xff\xfe"].concat());
}

/// Compares an answer with the recorded one; the ids of sessions are ours.
fn compare(line: usize, text: &str, got: &Response, sessions: &mut BTreeMap<String, String>) {
    let (status, headers, body) = parts(text);
    let status: u16 = status.parse().expect("a status");
    if line == DIFFERENCE.0 {
        assert_ne!(status, DIFFERENCE.1, "{line} makes no difference");
        assert_eq!(got.status, DIFFERENCE.1, "{line}");
        return;
    }
    assert_eq!(got.status, status, "{line}: {text}");
    for (name, value) in headers {
        assert_eq!(got.header(name), Some(value), "{line}: {name}");
    }
    let (mut recorded, mut ours): (Value, Value) =
        (serde_json::from_str(body).expect("recorded JSON"), serde_json::from_str(&got.body).expect("JSON"));
    if let (Some(recorded), Some(ours)) = (recorded.get_mut("session_id"), ours.get_mut("session_id")) {
        let text = |id: &mut Value| id.take().as_str().expect("an id").to_owned();
        sessions.insert(text(recorded), text(ours));
    }
    assert_eq!(ours, recorded, "{line}");
}

#[test]
fn recorded_answers_of_every_path_are_given() {
    let program = Program::start(&[]);
    let mut connection = program.connect();
    let mut sessions = BTreeMap::new();
    for (line, is_asked, text) in recorded("http_endpoints") {
        if is_asked {
            let text =
                sessions.iter().fold(text, |text, (recorded, ours): (&String, &String)| text.replace(recorded, ours));
            send(&mut connection, &text);
        } else {
            compare(line, &text, &connection.response(), &mut sessions);
        }
    }
    assert_eq!(sessions.len(), 2, "two sessions were opened");
}

#[test]
fn the_recorded_stream_is_sent() {
    let program = Program::start(&[]);
    let (mut connection, mut stream) = (program.connect(), program.connect());
    let session = connection.ask("POST", "/session", &[], "").json()["session_id"].as_str().expect("an id").to_owned();
    let mut is_posted = false;
    for (line, is_asked, text) in recorded("http_sse_raw") {
        if is_asked {
            is_posted = text.starts_with("POST");
            send(if is_posted { &mut connection } else { &mut stream }, &text.replace("<SID>", &session));
            if is_posted {
                let sent = connection.response();
                assert_eq!((sent.status, sent.json()), (200, json!({"ok": true})), "{line}");
            }
            continue;
        }
        let text = text.replace("\r\n", "\n");
        if let Some(status) = text.strip_prefix("HTTP/1.1 ") {
            let (status, headers, _) = parts(status);
            let head = stream.head();
            assert_eq!(head.status.to_string(), status.split(' ').next().expect("a status"));
            for (name, value) in
                headers.into_iter().filter(|(name, _)| !["date", "server", "connection"].contains(name))
            {
                assert_eq!(head.header(name), Some(value), "{name}");
            }
        }
        for data in text.lines().filter_map(|line| line.strip_prefix("data: ")) {
            let event = stream.event().expect("the stream goes on");
            let Event { id: None, name: None, retry: None, .. } = &event else { panic!("more than data: {event:?}") };
            let (mut recorded, mut got): (Value, Value) = (serde_json::from_str(data).expect("JSON"), event.json());
            recorded["a2e"] = json!("1.0");
            for varies in ["id", "ts", "uptime_seconds"] {
                assert!(!got[varies].take().is_null() && !recorded[varies].take().is_null(), "{varies}");
            }
            assert_eq!(got, recorded, "{line}");
        }
    }
    assert!(is_posted, "the last message was sent while somebody listened");
}
