//! Exhaustion: one peer cannot use up the connections, sessions or memory of the others.

use std::net::Ipv4Addr;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;

use crate::client::{Connection, open_session, open_session_with};
use crate::serving::{Agent, PING, Server, until};
use crate::support::{mcp_call, mcp_initialize};

/// Another address of this machine, which counts as another party.
#[cfg(target_os = "linux")]
const ELSEWHERE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

const ANN: (&str, &str) = ("Authorization", "Bearer open-sesame");
const BOB: (&str, &str) = ("Authorization", "Bearer open-barley");
const TOKENS: &str =
    "[authorization]\ntokens = [{ name = 'ann', token = 'open-sesame' }, { name = 'bob', token = 'open-barley' }]\n";

/// Resident memory in KiB.
fn memory(server: &Server) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.id())).expect("a Linux process");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line of its own");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// How many files the process has open.
fn open_files(server: &Server) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", server.id())).expect("a Linux process").count()
}

fn is_well(connection: &mut Connection) -> bool {
    connection.ask("GET", "/healthz", &[], "").status == 200
}

/// A session whose stream is read on a connection of its own.
fn busy_session(mut connection: Connection, mut stream: Connection, headers: &[(&str, &str)]) -> (String, Connection) {
    let id = open_session_with(&mut connection, "2025-11-25", headers);
    let mut headers = headers.to_vec();
    headers.extend([("Mcp-Session-Id", id.as_str()), ("Accept", "text/event-stream")]);
    stream.send("GET", "/mcp", &headers, "");
    assert_eq!(stream.head().status, 200);
    (id, stream)
}

/// Opens many connections that send no whole message. Each takes less than 4 KiB, and nothing is left of them afterwards.
#[cfg(target_os = "linux")]
fn half_open_cost_little(server: &Server, beginnings: &[&[u8]], ask: impl Fn()) {
    const COUNT: usize = 1500;
    // This process needs as many sockets.
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).expect("up to the maximum");
    (0..50).for_each(|_| ask());
    for beginning in beginnings {
        let (before, files) = (memory(server), open_files(server));
        let open = |_| {
            let mut connection = server.connect();
            connection.send_bytes(beginning);
            connection
        };
        let connections: Vec<_> = (0..COUNT).map(open).collect();
        until("all are accepted", || open_files(server) >= COUNT);
        (0..5).for_each(|_| ask());
        let each = memory(server).saturating_sub(before) * 1024 / COUNT;
        assert!(each < 4096, "{each} bytes for each connection that sent {beginning:?}");
        drop(connections);
        until("all are gone", || open_files(server) < files + 50);
        until("memory is returned", || memory(server) < before + COUNT / 2);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn half_open_connections_cost_little_and_leave_nothing() {
    let server = Server::start("");
    let beginnings: [&[u8]; 4] = [b"", b"POST /mcp HTTP/1.1\r\nHost: loc", b"get /", b"\r\n\r\n"];
    half_open_cost_little(&server, &beginnings, || assert!(is_well(&mut server.connect())));
}

#[cfg(target_os = "linux")]
#[test]
fn half_open_encrypted_connections_cost_little_and_leave_nothing() {
    let file = |name: &str| format!("{}/tests/http/tls/{name}", env!("CARGO_MANIFEST_DIR"));
    let (certificate, key) = (file("cert.pem"), file("key.pem"));
    let server = Server::start_at("127.0.0.1:0", "", &["--tls-cert", &certificate, "--tls-key", &key]);
    // A client without a common version is answered with the end of the connection, which shows that the server runs.
    half_open_cost_little(&server, &[b"", &[22, 3, 1, 2, 0, 1, 0, 1]], || {
        let mut connection = server.connect();
        connection.send_bytes(b"\x15\x03\x01\x00\x02\x02\x28");
        while !connection.some_bytes().is_empty() {}
    });
}

#[test]
fn idle_connections_give_way_and_busy_ones_do_not() {
    let server = Server::start("[http]\nconnections = 4\n");
    let session = open_session(&mut server.connect(), "2025-11-25");
    let mut stream = server.connect();
    stream.send("GET", "/mcp", &[("Mcp-Session-Id", &session), ("Accept", "text/event-stream")], "");
    assert_eq!(stream.head().status, 200);
    let mut running = server.connect();
    running.send_post(&[("Mcp-Session-Id", &session)], &mcp_call(1, "wait", r#"{"ms":600000}"#));
    assert_eq!(running.head().status, 200);
    let mut idle = server.connect();
    assert!(is_well(&mut idle));
    // Each of these takes the place of an older one that has nothing under way.
    for _ in 0..20 {
        let mut newcomer = server.connect();
        assert!(is_well(&mut newcomer));
        std::mem::forget(newcomer);
    }
    assert!(idle.ends());
    let ping = server.connect().post(&[("Mcp-Session-Id", &session)], PING);
    assert_eq!(ping.status, 200);
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
    assert_eq!(server.connect().post(&[("Mcp-Session-Id", &session)], cancel).status, 202);
    while running.event().is_some() {}
    server.reconfigure("[http]\nconnections = 4\n[[policy.rules]]\ntools = ['echo']\neffect = 'deny'\n");
    until("the stream goes on", || stream.event().expect("it goes on").data.contains("list_changed"));
}

#[test]
fn a_flood_of_half_open_connections_locks_no_one_out() {
    let server = Server::start("[http]\nconnections = 100\n");
    let mut flood = Vec::new();
    for round in 0..300 {
        let mut connection = server.connect();
        connection.send_bytes(b"POST /mcp HTTP/1.1\r\nHost:");
        flood.push(connection);
        if round % 50 == 49 {
            assert!(is_well(&mut server.connect()), "after {round}");
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn an_address_that_holds_all_connections_gives_way_to_another() {
    let server = Server::start("[http]\nconnections = 8\nsessions = 100\n");
    let elsewhere = || Connection::open_from(ELSEWHERE, server.address());
    let mut greedy: Vec<_> = Vec::new();
    for _ in 0..8 {
        let mut connection = elsewhere();
        connection.send("GET", "/sse", &[("Accept", "text/event-stream")], "");
        assert_eq!(connection.head().status, 200);
        greedy.push(connection);
    }
    // All are in use: another one of the same party is refused, and one of another party gets its share.
    assert_eq!(elsewhere().try_response().map(|refused| refused.status), Some(503));
    let mut own = Vec::new();
    for _ in 0..4 {
        let mut connection = server.connect();
        connection.send("GET", "/sse", &[("Accept", "text/event-stream")], "");
        assert_eq!(connection.head().status, 200, "its share is four of eight");
        own.push(connection);
    }
    assert_eq!(server.connect().try_response().map(|refused| refused.status), Some(503));
    assert_eq!(elsewhere().try_response().map(|refused| refused.status), Some(503));
}

#[cfg(target_os = "linux")]
#[test]
fn an_address_that_holds_all_sessions_gives_way_to_another() {
    let server = Server::start("[http]\nsessions = 4\n[a2e]\nsessions = 4\n");
    let elsewhere = || Connection::open_from(ELSEWHERE, server.address());
    let greedy: Vec<_> = (0..4).map(|_| busy_session(elsewhere(), elsewhere(), &[])).collect();
    assert_eq!(elsewhere().post(&[], &mcp_initialize("2025-11-25")).status, 503, "all are in use");
    let own: Vec<_> = (0..2).map(|_| busy_session(server.connect(), server.connect(), &[])).collect();
    assert_eq!(server.connect().post(&[], &mcp_initialize("2025-11-25")).status, 503, "it has its share");
    assert_eq!(elsewhere().post(&[], &mcp_initialize("2025-11-25")).status, 503, "and loses none of it");
    let is_there = |id: &str| server.connect().post(&[("Mcp-Session-Id", id)], PING).status == 200;
    assert_eq!(greedy.iter().filter(|(id, _)| is_there(id)).count(), 2);
    assert!(own.iter().all(|(id, _)| is_there(id)));
}

#[test]
fn a_principal_that_holds_all_sessions_gives_way_to_another() {
    let server = Server::start(&format!("{TOKENS}[http]\nsessions = 4\n[a2e]\nsessions = 4\n"));
    let busy = |who| busy_session(server.connect(), server.connect(), &[who]);
    let greedy: Vec<_> = (0..4).map(|_| busy(BOB)).collect();
    let own: Vec<_> = (0..2).map(|_| busy(ANN)).collect();
    let is_there = |who, id: &str| server.connect().post(&[who, ("Mcp-Session-Id", id)], PING).status == 200;
    assert_eq!(greedy.iter().filter(|(id, _)| is_there(BOB, id)).count(), 2);
    assert!(own.iter().all(|(id, _)| is_there(ANN, id)));

    let greedy: Vec<_> = (0..4).map(|_| Agent::open(&server, &[BOB], "any")).collect();
    assert_eq!(server.connect().ask("POST", "/session", &[BOB], "").status, 503, "all are in use");
    let own: Vec<_> = (0..2).map(|_| Agent::open(&server, &[ANN], "any")).collect();
    let ping = json!({"type": "ping", "id": "p"});
    assert_eq!(greedy.iter().filter(|agent| agent.send(&server, &[BOB], &ping) == 200).count(), 2);
    assert!(own.iter().all(|agent| agent.send(&server, &[ANN], &ping) == 200));
}

#[test]
fn idle_sessions_of_agents_give_way_and_busy_ones_do_not() {
    let server = Server::start("[a2e]\nsessions = 2\n");
    let busy = Agent::open(&server, &[], "any");
    let Agent { id, stream } = Agent::open(&server, &[], "any");
    drop(stream);
    let ping = json!({"type": "ping", "id": "p"}).to_string();
    let is_there = |id: &str| server.connect().ask("POST", "/send", &[("X-Session-Id", id)], &ping).status == 200;
    until("it opens in place of the idle one", || {
        assert!(is_there(&busy.id));
        server.connect().ask("POST", "/session", &[], "").status == 200
    });
    assert!(!is_there(&id) && is_there(&busy.id));
}

#[cfg(target_os = "linux")]
#[test]
fn an_address_that_holds_all_streams_leaves_some_to_another() {
    let server = Server::start("[http]\nstreams = 4\n");
    let elsewhere = || Connection::open_from(ELSEWHERE, server.address());
    let _greedy: Vec<_> = (0..4).map(|_| busy_session(elsewhere(), elsewhere(), &[])).collect();
    let mut refused = elsewhere();
    refused.send("GET", "/sse", &[("Accept", "text/event-stream")], "");
    assert_eq!(refused.head().status, 503);
    let own: Vec<_> = (0..2).map(|_| busy_session(server.connect(), server.connect(), &[])).collect();
    // Without a stream left, not even an answer that comes at once could be asked for.
    assert_eq!(own.len(), 2);
}
