//! Bounds: sizes, times, numbers, memory.

use std::time::Duration;

use crate::client::{Connection, call_with_progress, open_session};
use crate::server::Program;
use crate::support::{mcp_call, mcp_initialize};

const PING: &str = r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#;

#[test]
fn a_body_that_is_too_long_is_refused_before_it_is_read() {
    let (program, _folder) = Program::configured("[limits]\nline_bytes = 4096\n");
    let mut connection = program.connect();
    connection.send_bytes(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 99999999999\r\n\r\n");
    assert_eq!(connection.head().status, 413);
    // Also when it does not say beforehand how long it is.
    let mut connection = program.connect();
    connection.send_bytes(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n");
    for _ in 0..5 {
        connection.send_bytes(format!("400\r\n{}\r\n", "x".repeat(1024)).as_bytes());
    }
    assert_eq!(connection.head().status, 413);
}

#[test]
fn a_body_in_many_pieces_is_read_whole() {
    let program = Program::start(&[]);
    let mut connection = program.connect();
    let session = open_session(&mut connection, "2025-11-25");
    let text = "x".repeat(300_000);
    let body = mcp_call(1, "echo", &format!(r#"{{"message":"{text}"}}"#));
    connection.send_bytes(
        format!("POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nMcp-Session-Id: {session}\r\nTransfer-Encoding: chunked\r\n\r\n").as_bytes(),
    );
    for piece in body.as_bytes().chunks(7000) {
        connection.send_bytes(format!("{:x}\r\n", piece.len()).as_bytes());
        connection.send_bytes(piece);
        connection.send_bytes(b"\r\n");
    }
    connection.send_bytes(b"0\r\n\r\n");
    let answer = connection.response();
    assert_eq!(answer.json()["result"]["content"][0]["text"].as_str().map(str::len), Some(300_000));
}

#[test]
fn slow_requests_are_cut_off_by_their_timeouts() {
    let (program, _folder) = Program::configured("[http]\nhead_ms = 200\nbody_ms = 200\n");
    let mut silent = program.connect();
    let mut in_the_head = program.connect();
    in_the_head.send_bytes(b"POST /mcp HTTP/1.1\r\nHost: loc");
    let mut in_the_body = program.connect();
    in_the_body.send_bytes(
        b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{",
    );
    assert_eq!(in_the_body.head().status, 408);
    assert!(silent.ends() && in_the_head.ends());
    assert_eq!(program.connect().ask("GET", "/healthz", &[], "").status, 200);
}

#[test]
fn a_head_that_is_too_large_is_refused() {
    let program = Program::start(&[]);
    let mut connection = program.connect();
    let large = "x".repeat(100_000);
    connection.send_bytes(format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: {large}").as_bytes());
    assert_eq!(connection.head().status, 431);
}

#[test]
fn too_many_sessions_and_streams_are_refused() {
    let (program, _folder) = Program::configured("[http]\nsessions = 2\nstreams = 2\n");
    let mut connection = program.connect();
    let sessions: Vec<_> = (0..2).map(|_| open_session(&mut connection, "2025-11-25")).collect();
    let mut streams: Vec<Connection> = Vec::new();
    for session in &sessions {
        let mut stream = program.connect();
        stream.send("GET", "/mcp", &[("Mcp-Session-Id", session)], "");
        assert_eq!(stream.head().status, 200);
        streams.push(stream);
    }
    let headers = [("Mcp-Session-Id", sessions[0].as_str())];
    assert_eq!(program.connect().ask("GET", "/mcp", &headers, "").status, 503);
    let refused = connection.post(&[], &mcp_initialize("2025-11-25"));
    assert_eq!((refused.status, &refused.json()["error"]["data"]["reason"]), (503, &"busy".into()));
    assert_eq!(connection.ask("DELETE", "/mcp", &headers, "").status, 204);
    // The session's stream ends on a connection of its own, so its place is free a moment later.
    let opens = (0..1000).any(|_| {
        std::thread::sleep(Duration::from_millis(5));
        connection.post(&[], &mcp_initialize("2025-11-25")).status == 200
    });
    assert!(opens, "there is room again");
}

#[test]
fn an_idle_session_is_evicted_for_a_new_one() {
    let (program, _folder) = Program::configured("[http]\nsessions = 3\n");
    let mut connection = program.connect();
    let open: Vec<_> = (0..3).map(|_| open_session(&mut connection, "2025-11-25")).collect();
    let is_there = |connection: &mut Connection, session: &str| {
        connection.post(&[("Mcp-Session-Id", session)], PING).status == 200
    };
    // The oldest has a stream, the second a call in flight, the third was used last.
    let mut stream = program.connect();
    stream.send("GET", "/mcp", &[("Mcp-Session-Id", &open[0])], "");
    assert_eq!(stream.head().status, 200);
    let mut waiting = program.connect();
    waiting.send_post(&[("Mcp-Session-Id", &open[1])], &mcp_call(1, "wait", r#"{"ms":60000}"#));
    assert_eq!(waiting.head().status, 200);
    assert!(is_there(&mut connection, &open[2]));
    let newest = open_session(&mut connection, "2025-11-25");
    assert_eq!(connection.post(&[("Mcp-Session-Id", &open[2])], PING).status, 404);
    for session in [&open[0], &open[1], &newest] {
        assert!(is_there(&mut connection, session));
    }
}

#[test]
fn a_session_at_its_limit_can_still_cancel_calls() {
    let (program, _folder) = Program::configured("[http]\nstreams_per_session = 1\n");
    let mut connection = program.connect();
    let session = open_session(&mut connection, "2025-11-25");
    let headers = [("Mcp-Session-Id", session.as_str())];
    let mut waiting = program.connect();
    waiting.send_post(&headers, &mcp_call(1, "wait", r#"{"ms":60000}"#));
    waiting.head();
    assert_eq!(connection.post(&headers, PING).status, 503);
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
    assert_eq!(connection.post(&headers, cancel).status, 202);
    assert_eq!(connection.post(&headers, PING).status, 200);
}

#[test]
fn an_idle_session_ends_unless_its_main_stream_is_open() {
    let (program, _folder) = Program::configured("[http]\nidle_s = 1\nkeep_alive_ms = 100\n");
    let mut connection = program.connect();
    let (idle, heard) = (open_session(&mut connection, "2025-11-25"), open_session(&mut connection, "2025-11-25"));
    let mut main = program.connect();
    main.send("GET", "/mcp", &[("Mcp-Session-Id", &heard)], "");
    main.head();
    std::thread::sleep(Duration::from_millis(1800));
    assert_eq!(connection.post(&[("Mcp-Session-Id", &idle)], PING).status, 404);
    assert_eq!(connection.post(&[("Mcp-Session-Id", &heard)], PING).status, 200);
}

#[test]
fn thousands_of_idle_sessions_take_little_memory() {
    let program = Program::start(&[]);
    let mut connection = program.connect();
    let before = memory(program.id());
    for _ in 0..2000 {
        open_session(&mut connection, "2025-11-25");
    }
    let each = (memory(program.id()) - before) / 2000;
    assert!(each < 16, "{each} KiB for each session");
}

#[test]
fn a_slow_reader_in_one_session_delays_no_other_session() {
    let program = Program::start(&[]);
    let mut slow = program.connect();
    let session = open_session(&mut slow, "2025-11-25");
    slow.send_post(&[("Mcp-Session-Id", &session)], &call_with_progress(1, "wait", r#"{"ms":60000,"steps":1000}"#));
    let mut quick = program.connect();
    for id in 0..100 {
        assert_eq!(
            quick.post(&[("Mcp-Session-Id", &session)], &mcp_call(id, "echo", r#"{"message":"x"}"#)).status,
            200
        );
    }
}

/// Resident memory in KiB.
pub(crate) fn memory(process: u32) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("a Linux process");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line of its own");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}
