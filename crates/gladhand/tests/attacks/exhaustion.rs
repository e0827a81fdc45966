//! Exhaustion: one peer cannot use up the connections, sessions or memory of the others.

use std::net::Ipv4Addr;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;

use crate::client::{Connection, open_session, open_session_with, stateless_call};
use crate::known::{Hostile, configured, reply, tool};
use crate::serving::{Agent, PING, Server, until, with};
use crate::support::{MCP_INITIALIZED, Process, mcp_call, mcp_initialize};

/// Another address of this machine, which counts as another party.
#[cfg(target_os = "linux")]
const ELSEWHERE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

const ANN: (&str, &str) = ("Authorization", "Bearer open-sesame");
const BOB: (&str, &str) = ("Authorization", "Bearer open-barley");
const TOKENS: &str =
    "[authorization]\ntokens = [{ name = 'ann', token = 'open-sesame' }, { name = 'bob', token = 'open-barley' }]\n";

/// Resident memory in KiB.
pub(crate) fn memory(server: &Server) -> usize {
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
        // The allocator gives whole pages back, so a part of what each took may stay behind for the next.
        until("memory is returned", || memory(server) < before + COUNT);
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

#[cfg(target_os = "linux")]
#[test]
fn the_head_of_a_request_takes_little_until_it_is_whole() {
    const COUNT: usize = 500;
    let server = Server::start("");
    let half = |length: usize| format!("POST /mcp HTTP/1.1\r\nHost: localhost\r\nX: {}", "x".repeat(length));
    let whole = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    (0..50).for_each(|_| assert!(is_well(&mut server.connect())));
    let before = memory(&server);
    let open = |_| {
        let mut connection = server.connect();
        connection.send_bytes(half(15_000).as_bytes());
        connection
    };
    let connections: Vec<_> = (0..COUNT).map(open).collect();
    until("all are accepted", || open_files(&server) >= COUNT);
    (0..5).for_each(|_| assert!(is_well(&mut server.connect())));
    let each = memory(&server).saturating_sub(before) * 1024 / COUNT;
    assert!(each < 24 * 1024, "{each} bytes for each connection");
    drop(connections);
    let mut long = server.connect();
    long.send_bytes(half(60_000).as_bytes());
    assert_eq!(long.head().status, 431);
    // A request before it, and a part of it in the same packet, change nothing.
    let mut later = server.connect();
    later.send_bytes(format!("{whole}{}", half(60_000)).as_bytes());
    while !later.some_bytes().is_empty() {}
    let mut many = server.connect();
    for length in [10, 7_000, 12_000, 15_000, 100] {
        let padding = "x".repeat(length);
        assert_eq!(many.ask("GET", "/healthz", &[("X", &padding)], "").status, 200, "{length}");
    }
}

/// The error code of a request to store a text of this many bytes.
fn remember(host: &mut crate::a2e_agent::Agent, memory: &serde_json::Value, key: usize, bytes: usize) -> String {
    let entry = json!({"key": {"k": key}, "content": "x".repeat(bytes), "tier": "working"});
    let stored = host.ask(json!({"type": "memory/store/req", "memory_id": memory, "entries": [entry]}));
    stored["code"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn working_memory_of_all_sessions_is_bounded() {
    let prepared = crate::a2e_agent::Prepared::new("[a2e.memory]\nworking_total_bytes = 1000000\n");
    let host = prepared.listen(&[]);
    let open = || {
        let mut agent = crate::a2e_agent::Agent::open(&host);
        assert_eq!(agent.shake_hands("ann", &["memory"], "")["ok"], true);
        let memory = agent.ask(json!({"type": "memory/init/req"}))["memory_id"].clone();
        (agent, memory)
    };
    let mut sessions: Vec<_> = (0..4).map(|_| open()).collect();
    for (agent, memory) in &mut sessions[..3] {
        assert_eq!(remember(agent, memory, 0, 300_000), "");
    }
    let (first, rest) = sessions.split_at_mut(1);
    let (agent, memory) = &mut rest[2];
    assert_eq!(remember(agent, memory, 0, 300_000), "memory_full");
    // An empty tag takes more memory than its text.
    let entry = json!({"key": {}, "content": "x", "tier": "working", "tags": vec![""; 100_000]});
    let refused = agent.ask(json!({"type": "memory/store/req", "memory_id": memory, "entries": [entry]}));
    assert_eq!(refused["message"], "entries.0: it has more than 256 tags", "{refused}");
    // Replaced and forgotten entries free memory.
    let (other, of_other) = &mut first[0];
    assert_eq!(remember(other, of_other, 0, 10), "");
    assert_eq!(remember(agent, memory, 0, 300_000), "");
}

#[cfg(target_os = "linux")]
#[test]
fn json_of_agents_takes_no_more_memory_than_its_bound() {
    let server = Server::start("");
    let before = memory(&server);
    // Short text that takes a hundred times as much memory as a tree.
    let dense = || vec![json!({"": 0}); 3_900_000 / 7];
    let chain = json!({"type": "chain/req", "id": "c", "nodes": [{"node_id": "a", "kind": "tool", "name": "x"}],
        "entry_node": "a", "initial_input": {"n": dense()}});
    let reset = json!({"type": "env/reset/req", "id": "e", "env_name": "counter", "options": {"n": dense()}});
    for _ in 0..4 {
        let mut agent = Agent::unopened(&server, &[]);
        let caps = ["chains", "env", "tools"];
        let handshake = json!({"type": "handshake/req", "id": "h", "agent_id": "ann", "agent_caps": caps});
        assert_eq!(agent.send(&server, &[], &handshake), 200);
        assert_eq!(agent.hear().expect("an answer")["ok"], true);
        for message in [&chain, &reset] {
            assert_eq!(agent.send(&server, &[], message), 200);
            let refused = agent.hear().expect("an answer").to_string();
            assert!(refused.contains("it has more than 200000 JSON values"), "{refused:.500}");
        }
    }
    let grown = memory(&server).saturating_sub(before);
    assert!(grown < 200 * 1024, "{grown} KiB");
}

#[cfg(target_os = "linux")]
#[test]
fn memory_of_large_sessions_is_returned_when_they_end() {
    let server = Server::start("");
    let before = memory(&server);
    // The allocator returns large pieces by itself, and keeps small ones.
    let small = "x".repeat(20_000);
    let mut sessions = Vec::new();
    for _ in 0..8 {
        let mut agent = Agent::unopened(&server, &[]);
        let mut ask = |mut message: serde_json::Value| {
            message["id"] = json!("1");
            assert_eq!(agent.send(&server, &[], &message), 200);
            agent.hear().expect("an answer")
        };
        ask(json!({"type": "handshake/req", "agent_id": "ann", "agent_caps": ["memory"]}));
        let memory = ask(json!({"type": "memory/init/req"}))["memory_id"].clone();
        for part in 0..2 {
            let entry = |key: usize| json!({"key": {"k": [part, key]}, "content": small, "tier": "working"});
            let entries: Vec<_> = (0..180).map(entry).collect();
            let stored = ask(json!({"type": "memory/store/req", "memory_id": memory, "entries": entries}));
            assert_eq!(stored["type"], "memory/store/resp", "{stored}");
        }
        sessions.push(agent);
    }
    let full = memory(&server);
    assert!(full > before + 50 * 1024, "{before} {full}");
    // The memory of the last session lies behind that of the others.
    let _last = sessions.pop();
    for agent in &mut sessions {
        assert_eq!(agent.send(&server, &[], &json!({"type": "shutdown", "id": "z", "grace_s": 0})), 200);
    }
    until("memory is returned", || memory(&server) < before + 25 * 1024);
}

#[test]
fn an_upstream_that_sends_unreadable_lines_is_ended_and_fills_no_log() {
    let fine = json!({"content": [{"type": "text", "text": "all is well"}]});
    let hostile = Hostile::new(&json!([tool("flood"), tool("fine")])).answering("call_fine", &fine);
    std::fs::write(hostile.at("ask_flood"), b"\xff{]\nnot a message\n\n".repeat(2100)).expect("the folder is there");
    let server = Server::start(&format!("[upstreams.h]\ncommand = {}\n", json!(hostile.command())));
    let call = |tool| {
        let (headers, body) = stateless_call(1, tool, "{}");
        server.connect().post(&with(&headers, &[]), &body).body
    };
    let answer = call("h__flood");
    assert!(answer.contains("sent 4096 unreadable lines in a row"), "{answer}");
    until("the upstream is opened again", || call("h__fine").contains("all is well"));
    let log = server.log();
    let dropped = log.lines().filter(|line| line.contains("dropped what the upstream sent")).count();
    assert!((1..=20).contains(&dropped), "{dropped} lines");
}

#[test]
fn calls_of_agents_have_a_bound_of_all_sessions() {
    let server = Server::start("");
    let (large, mut taken) = ("x".repeat(15_000_000), Vec::new());
    let mut sessions: Vec<_> = (0..3).map(|_| Agent::open(&server, &[], "any")).collect();
    for agent in &mut sessions {
        let call = |number: usize| {
            json!({"type": "tool/call/req", "id": format!("c{number}"), "tool_name": "wait",
                "arguments": {"ms": 600_000, "pad": large}})
        };
        taken.push((0..5).take_while(|number| agent.send(&server, &[], &call(*number)) == 200).count());
    }
    assert_eq!(taken, [5, 3, 0], "128 MiB in all");
    let small = json!({"type": "ping", "id": "p"});
    assert_eq!(sessions[2].send(&server, &[], &small), 200, "small messages go on");
}

#[cfg(target_os = "linux")]
#[test]
fn large_calls_without_a_session_keep_no_other_client_from_its_calls() {
    let server = Server::start("");
    let (headers, large) = stateless_call(1, "wait", &format!(r#"{{"ms":600000,"pad":"{}"}}"#, "x".repeat(14_000_000)));
    let (small_headers, small) = stateless_call(2, "echo", r#"{"message":"mine"}"#);
    let (here, elsewhere) = (|| server.connect(), || Connection::open_from(ELSEWHERE, server.address()));
    let begin = |connect: &dyn Fn() -> Connection| {
        let begun = |_| {
            let mut connection = connect();
            connection.send_post(&headers, &large);
            (connection.head().status == 200).then_some(connection)
        };
        (0..20).map_while(begun).collect::<Vec<_>>()
    };
    let running = begin(&here);
    assert_eq!(running.len(), 9, "128 MiB in all");
    for connect in [&here as &dyn Fn() -> Connection, &elsewhere] {
        assert!(connect().post(&small_headers, &small).body.contains("mine"), "small calls go on");
    }
    assert_eq!(begin(&elsewhere).len(), 4, "an equal part");
    drop(running);
    until("there is room again", || begin(&here).len() == 9);
}

#[test]
fn stop_requests_of_an_agent_that_does_not_read_are_limited() {
    let server = Server::start("");
    for kind in ["proc/kill/req", "multi_agent/terminate"] {
        let mut connection = server.connect();
        let id = connection.ask("POST", "/session", &[], "").json()["session_id"].as_str().expect("an id").to_owned();
        let own = [("X-Session-Id", id.as_str())];
        let handshake = json!({"a2e": "1.0", "type": "handshake/req", "id": "h", "agent_id": "tester",
            "agent_caps": ["tools"], "auth_token": "any"});
        assert_eq!(connection.ask("POST", "/send", &own, &handshake.to_string()).status, 200);
        let mut send = |kind: &str, number: usize| {
            let message = json!({"type": kind, "id": format!("{number:06}{}", "i".repeat(4000))});
            connection.ask("POST", "/send", &own, &message.to_string()).status
        };
        let pings = (0..1000).take_while(|number| send("ping", *number) == 200).count();
        let stops = (0..1000).take_while(|number| send(kind, 1000 + number) == 200).count();
        assert!((10..100).contains(&pings) && stops == 64, "{pings} {stops}");
        // Every message that was taken is answered, and then there is room again.
        let mut stream = server.connect();
        stream.send("GET", "/stream", &own, "");
        assert_eq!(stream.head().status, 200);
        let answers: Vec<_> = (0..1 + pings + stops).map(|_| stream.event().expect("an answer").json()).collect();
        let of = |kind: &str| answers.iter().filter(|answer| answer["type"] == kind).count();
        assert_eq!((of("pong"), of("error")), (pings, stops));
        until("there is room", || send(kind, 2000) == 200);
    }
}

/// An agent with these capabilities, and the answer to its handshake.
fn agent_with(server: &Server, capabilities: &[&str]) -> (Agent, serde_json::Value) {
    let mut agent = Agent::unopened(server, &[]);
    let handshake = json!({"type": "handshake/req", "id": "h", "agent_id": "ann", "agent_caps": capabilities,
        "auth_token": "hush"});
    assert_eq!(agent.send(server, &[], &handshake), 200);
    let opened = agent.hear().expect("an answer");
    (agent, opened)
}

#[cfg(target_os = "linux")]
#[test]
fn events_of_a_host_for_an_agent_that_does_not_read_have_a_bound() {
    let folder = tempfile::tempdir().expect("a folder");
    let (inner, data) = (folder.path().join("inner.toml"), folder.path().join("data"));
    std::fs::write(&inner, "[a2e.proc]\nallowed = ['yes']\n").expect("it can be written");
    let arguments = ["serve".as_ref(), "--dialect".as_ref(), "a2e".as_ref(), "--config".as_ref(), inner.as_path()];
    let arguments = [&arguments[..], &["--data-dir".as_ref(), data.as_path()]].concat();
    let host = format!("speak = 'a2e'\ncommand = '{}'\nargs = {arguments:?}\n", env!("CARGO_BIN_EXE_gladhand"));
    let server =
        Server::start(&format!("[a2e]\ntokens = ['hush']\ncapabilities = ['memory']\n[upstreams.host]\n{host}"));
    // A list of tools opens the host, and then it is known what it has.
    let (mut first, _) = agent_with(&server, &["tools"]);
    assert_eq!(first.send(&server, &[], &json!({"type": "tool/list/req", "id": "l"})), 200);
    assert!(first.hear().expect("a list").to_string().contains("host__echo"));
    let before = memory(&server);
    let (mut agent, opened) = agent_with(&server, &["tools", "proc"]);
    assert!(opened.to_string().contains("proc"), "{opened}");
    let spawn = json!({"type": "proc/spawn/req", "id": "s", "cmd": ["yes"]});
    assert_eq!(agent.send(&server, &[], &spawn), 200);
    until("the session with the host ends", || server.log().contains("its client does not read its events"));
    assert!(memory(&server) < before + 40 * 1024, "{} KiB after {before}", memory(&server));
    // Events from before that are not lost.
    let told = |agent: &mut Agent| agent.hear().expect("the stream goes on")["type"] == "proc/read/event";
    assert!(told(&mut agent) || told(&mut agent));
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
fn a_principal_with_a_thousand_sessions_leaves_another_its_sessions_and_calls() {
    let server = Server::start(&format!("{TOKENS}[http]\nsessions = 1000\n[a2e]\nsessions = 1000\n"));
    let mut connection = server.connect();
    let greedy: Vec<_> = (0..1000).map(|_| open_session_with(&mut connection, "2025-11-25", &[BOB])).collect();
    let call_that_runs = |id: &String| {
        let mut running = server.connect();
        running.send_post(&[BOB, ("Mcp-Session-Id", id)], &mcp_call(1, "wait", r#"{"ms":600000}"#));
        assert_eq!(running.head().status, 200);
        running
    };
    let _running: Vec<_> = greedy.iter().take(40).map(call_that_runs).collect();
    let handshake = json!({"a2e": "1.0", "type": "handshake/req", "id": "h", "agent_id": "bob",
        "agent_caps": ["tools"], "auth_token": "any"})
    .to_string();
    for _ in 0..1000 {
        let opened = connection.ask("POST", "/session", &[BOB], "").json();
        let id = opened["session_id"].as_str().expect("an id").to_owned();
        assert_eq!(connection.ask("POST", "/send", &[BOB, ("X-Session-Id", &id)], &handshake).status, 200);
    }

    let mut connection = server.connect();
    let own: Vec<_> = (0..100).map(|_| open_session_with(&mut connection, "2025-11-25", &[ANN])).collect();
    for id in &own {
        let answer = connection.post(&[ANN, ("Mcp-Session-Id", id)], &mcp_call(1, "echo", r#"{"message":"mine"}"#));
        assert!(answer.status == 200 && answer.body.contains("mine"), "{answer:?}");
    }
    let (headers, body) = stateless_call(1, "echo", r#"{"message":"mine"}"#);
    assert!(connection.post(&with(&headers, &[ANN]), &body).body.contains("mine"));
    let agents: Vec<_> = (0..20).map(|_| Agent::open(&server, &[ANN], "any")).collect();
    let call = json!({"type": "tool/call/req", "id": "c", "tool_name": "echo", "arguments": {"message": "mine"}});
    for mut agent in agents {
        assert_eq!(agent.send(&server, &[ANN], &call), 200);
        assert!(agent.hear().expect("an answer").to_string().contains("mine"));
    }
}

#[test]
fn idle_sessions_of_agents_give_way_and_busy_ones_do_not() {
    let server = Server::start("[a2e]\nsessions = 2\n");
    let busy = Agent::open(&server, &[], "any");
    let Agent { id, stream } = Agent::open(&server, &[], "any");
    drop(stream);
    let ping = json!({"type": "ping", "id": "p"}).to_string();
    let is_there = |id: &str| server.connect().ask("POST", "/send", &[("X-Session-Id", id)], &ping).status == 200;
    until("it may open in place of the idle one", || {
        assert!(is_there(&busy.id));
        server.connect().ask("POST", "/session", &[], "").status == 200
    });
    assert!(is_there(&id), "a session without a handshake takes no place of one with it");
    let _other = Agent::open(&server, &[], "any");
    until("the idle one has given way", || !is_there(&id));
    assert!(is_there(&busy.id));
}

/// Opens sessions of agents without a handshake, each from another of this many addresses.
#[cfg(target_os = "linux")]
fn flood_of_agents(server: &Server, count: usize, addresses: usize) {
    for number in 0..count {
        let source = Ipv4Addr::new(127, 0, 1, u8::try_from(number % addresses).expect("few addresses"));
        let opened = Connection::open_from(source, server.address()).ask("POST", "/session", &[], "");
        assert_eq!(opened.status, 200, "{opened:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn agents_without_a_handshake_take_no_place_of_agents_with_one() {
    let server = Server::start("[a2e]\nsessions = 3\n");
    let idle: Vec<_> = (0..3).map(|_| Agent::open(&server, &[], "any").id).collect();
    flood_of_agents(&server, 40, 20);
    let ping = json!({"type": "ping", "id": "p"}).to_string();
    for id in &idle {
        assert_eq!(server.connect().ask("POST", "/send", &[("X-Session-Id", id)], &ping).status, 200);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_flood_of_agents_evicts_no_agent_between_opening_and_handshake() {
    let server = Server::start("[a2e]\nsessions = 20\nhandshake_seconds = 600\n");
    let handshake = json!({"a2e": "1.0", "type": "handshake/req", "id": "h", "agent_id": "tester",
        "agent_caps": ["tools"], "auth_token": "any"});
    // A few addresses hold more than their shares, and lose those.
    let opened = server.connect().ask("POST", "/session", &[], "");
    let id = opened.json()["session_id"].as_str().expect("an id").to_owned();
    flood_of_agents(&server, 200, 8);
    let sent = server.connect().ask("POST", "/send", &[("X-Session-Id", &id)], &handshake.to_string());
    assert_eq!(sent.status, 200, "{sent:?}");
    // With more addresses than places, sessions that no agent reads give way first.
    let mut agent = Agent::unopened(&server, &[]);
    flood_of_agents(&server, 200, 100);
    assert_eq!(agent.send(&server, &[], &handshake), 200);
    assert_eq!(agent.hear().expect("an answer")["ok"], true);
}

/// The log lines about refused requests.
fn refusals(server: &Server) -> Vec<String> {
    server.log().lines().filter(|line| line.contains("request refused")).map(str::to_owned).collect()
}

#[cfg(target_os = "linux")]
#[test]
fn refused_requests_are_logged_without_secrets_and_a_flood_fills_no_log() {
    let config = "[authorization]\ntool_scopes = { echo = ['ops'] }\n\
        tokens = [{ name = 'ann', token = 'open-sesame', scopes = [] }]\n";
    let server = Server::start_at("127.0.0.1:0", config, &["-v"]);
    let ann = ("Authorization", "Bearer open-sesame");
    let session = open_session_with(&mut server.connect(), "2025-11-25", &[ann]);
    let call = mcp_call(1, "echo", r#"{"message":"x"}"#);
    let refused = [
        (403, vec![("Host", "rebound.example:80"), ann], PING, "host=\"rebound.example:80\""),
        (403, vec![("Origin", "http://evil.example"), ann], PING, "Origin is not allowed"),
        (401, vec![], PING, "no token"),
        (401, vec![("Authorization", "Bearer hush-hush-secret")], PING, "reason="),
        (403, vec![ann, ("Mcp-Session-Id", session.as_str())], call.as_str(), "the token lacks scope"),
    ];
    for (count, (status, headers, body, reason)) in refused.into_iter().enumerate() {
        let answer = server.connect().post(&headers, body);
        assert_eq!(answer.status, status, "{answer:?}");
        if count == 0 {
            assert!(answer.body.contains("--allow-host"), "{answer:?}");
        }
        until("it is logged", || refusals(&server).len() > count);
        let line = &refusals(&server)[count];
        let expected = [reason, "from=127.0.0.1", "method=POST", &format!("status={status}")];
        assert!(expected.iter().all(|part| line.contains(part)), "{line}");
        assert_eq!(line.contains("--allow-host"), count == 0, "{line}");
    }
    // The address has had its lines, and another one still gets its own, with the number of those left out.
    for _ in 0..300 {
        assert_eq!(server.connect().post(&[], PING).status, 401);
    }
    assert_eq!(Connection::open_from(ELSEWHERE, server.address()).post(&[], PING).status, 401);
    until("it is logged", || refusals(&server).len() > 5);
    let lines = refusals(&server);
    assert!(lines.len() == 6 && lines[5].contains("from=127.0.0.2") && lines[5].contains("unlogged=300"), "{lines:?}");
    let log = server.log();
    assert!(["hush", "open-sesame", &session].iter().all(|secret| !log.contains(secret)), "{log}");
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

#[test]
fn a_result_that_is_costly_to_check_fails_its_call_and_nothing_else() {
    let alternatives: Vec<_> = (0..9000).map(|n| json!({"const": format!("c{n}")})).collect();
    let schema = json!({"type": "object", "properties": {"a": {"items": {"anyOf": alternatives}}}});
    let costly = json!({"name": "costly", "inputSchema": {"type": "object"}, "outputSchema": schema});
    let result = json!({"content": [], "structuredContent": {"a": vec![1; 300_000]}});
    let fine = json!({"content": [{"type": "text", "text": "fine"}]});
    let hostile = Hostile::new(&json!([costly, tool("fine")]));
    let hostile = hostile.answering("call_costly", &result).answering("call_fine", &fine);
    let config = hostile.configuration("[policy]\nvalidate_arguments = true");
    let mut process = Process::start(configured(&config, &["serve"]));
    process.ask(&mcp_initialize("2025-11-25"));
    process.send(MCP_INITIALIZED);
    let answer = reply(&mut process, 1, &mcp_call(1, "h__costly", "{}"));
    assert!(answer.to_string().contains("cannot be checked against its output schema"), "{answer}");
    let answer = reply(&mut process, 2, &mcp_call(2, "h__fine", "{}"));
    assert_eq!(answer["result"]["content"][0]["text"], "fine", "{answer}");
}

#[test]
fn a_list_with_too_many_entries_is_a_named_error() {
    let template = |n: usize| json!({"name": "t", "uriTemplate": format!("e:{{x}}{n}")});
    let resource = |n: usize| json!({"name": "r", "uri": format!("e:{n}")});
    let hostile = Hostile::new(&json!(vec![tool("t"); 10_001]))
        .answering(
            "resources_templates_list",
            &json!({"resourceTemplates": (0..15_000).map(template).collect::<Vec<_>>()}),
        )
        .answering("resources_list", &json!({"resources": (0..15_000).map(resource).collect::<Vec<_>>()}));
    let mut process = Process::start(configured(&hostile.configuration("[toolbox]\nenabled = false"), &["serve"]));
    process.ask(&mcp_initialize("2025-11-25"));
    process.send(MCP_INITIALIZED);
    for (id, method, list, most) in
        [(1, "tools/list", "tools", 10_000), (2, "resources/templates/list", "resourceTemplates", 1000)]
    {
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method});
        let told = reply(&mut process, id, &request.to_string());
        let expected = format!("the upstream's list of `{list}` has more than {most} entries");
        assert!(told["error"]["message"].as_str().is_some_and(|message| message.contains(&expected)), "{told}");
    }
}
