//! The recorded HTTP exchanges of A2E, played to the program: what was asked is asked again.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use crate::client::{Connection, Response};
use crate::server::Program;

/// Lines of `http_endpoints` that are answered with another status than recorded, and why.
const DIFFERENCES: [(usize, u16, &str); 1] = [(20, 400, "a2e §20.2: text that is no UTF-8 is the client's fault")];

/// What one line of a recording says: who spoke, and the text.
fn recorded(file: &str) -> Vec<(usize, bool, String)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../transcripts/a2e/{file}.ndjson"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let lines = text.lines().enumerate().map(|(at, line)| {
        let line: Value = serde_json::from_str(line).expect("a line of a recording");
        (at + 1, line["dir"] == "c2s", line["raw"].as_str().expect("raw text").to_owned())
    });
    lines.collect()
}

/// A head and what follows it; the head as its first line and its headers.
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
    if body.contains('\u{fffd}') {
        // The recording shows so what it could not show: bytes that are no text.
        connection.send(method, path, &[&headers[..], &[("Expect-Bytes", "2")]].concat(), "  ");
        return;
    }
    connection.send(method, path, &headers, body);
}

#[test]
fn recorded_answers_of_every_path_are_given() {
    let program = Program::start(&[]);
    let mut connection = program.connect();
    let mut sessions: BTreeMap<String, String> = BTreeMap::new();
    for (line, is_ours, text) in recorded("http_endpoints") {
        if is_ours {
            let text = sessions.iter().fold(text, |text, (recorded, ours)| text.replace(recorded, ours));
            send(&mut connection, &text);
        } else {
            compare(line, &text, &connection.response(), &mut sessions);
        }
    }
}

