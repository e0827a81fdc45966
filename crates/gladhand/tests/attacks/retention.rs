//! Exhaustion by results that wait: what is kept for readers and callers that are away is bounded over all sessions.

use serde_json::{Value, json};

use crate::client::{open_session_with, stateless_call};
use crate::known::{Hostile, tool};
use crate::serving::{Agent, Server, until, with};
use crate::support::mcp_call;

const MIB: usize = 1024 * 1024;
const BOUND: &str = "[http]\nkept_bytes = 8388608\n";
const NOT_KEPT: &str = "the result is too large to be kept";

const ANN: (&str, &str) = ("Authorization", "Bearer open-sesame");
const BOB: (&str, &str) = ("Authorization", "Bearer open-barley");
const TOKENS: &str =
    "[authorization]\ntokens = [{ name = 'ann', token = 'open-sesame' }, { name = 'bob', token = 'open-barley' }]\n";

/// A server with an upstream whose tool `large` has a result of a million bytes and can be called as a task, and whose tool
/// `small` shows that all calls before it are answered.
struct Stage {
    hostile: Hostile,
    server: Server,
}

impl Stage {
    fn start(config: &str) -> Self {
        let text = |text: &str| json!({"content": [{"type": "text", "text": text}]});
        let mut large = tool("large");
        large["execution"] = json!({"taskSupport": "optional"});
        let hostile = Hostile::new(&json!([large, tool("small")]))
            .answering("call_large", &text(&"x".repeat(1_000_000)))
            .answering("call_small", &text("done"));
        let file = hostile.configuration(config);
        let server = Server::start(&std::fs::read_to_string(file).expect("it was written"));
        let stage = Self { hostile, server };
        stage.pass(&[]);
        stage.pass(&[ANN]);
        stage.hold();
        stage
    }

    /// The upstream answers no call until [`Self::pass`].
    fn hold(&self) {
        std::fs::write(self.hostile.at("hold"), "").expect("the folder is there");
    }

    /// The upstream answers all calls; returns when it has.
    fn pass(&self, headers: &[(&str, &str)]) {
        let _ = std::fs::remove_file(self.hostile.at("hold"));
        for _ in 0..3 {
            let (of_call, call) = stateless_call(1, "h__small", "{}");
            let answer = self.server.connect().post(&with(&of_call, headers), &call);
            assert!(answer.body.contains("done") || answer.status == 401, "{answer:?}");
        }
    }

    /// Resident memory of the server in bytes.
    fn memory(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.server.id())).expect("a Linux process");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line of its own");
        line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") * 1024
    }
}

/// Opens a session and cuts off the answer of a call in it; returns the session and the last event that came.
fn cut_off(server: &Server, headers: &[(&str, &str)]) -> (String, String) {
    let session = open_session_with(&mut server.connect(), "2025-11-25", headers);
    let mut running = server.connect();
    running.send_post(&with(headers, &[("Mcp-Session-Id", &session)]), &mcp_call(1, "h__large", "{}"));
    assert_eq!(running.head().status, 200);
    let last = running.event().and_then(|event| event.id).expect("an event to come back with");
    (session, last)
}

/// Comes back for an answer that was cut off: its size, if it is kept.
fn come_back(server: &Server, headers: &[(&str, &str)], (session, last): &(String, String)) -> Option<usize> {
    let mut stream = server.connect();
    let own = [("Mcp-Session-Id", session.as_str()), ("Accept", "text/event-stream"), ("Last-Event-ID", last)];
    stream.send("GET", "/mcp", &with(headers, &own), "");
    (stream.head().status == 200).then(|| stream.event().expect("the answer").data.len())
}

#[cfg(target_os = "linux")]
#[test]
fn answers_that_no_reader_takes_have_a_bound_of_all_sessions() {
    let stage = Stage::start(&format!("{BOUND}{TOKENS}"));
    let before = stage.memory();
    let cut: Vec<_> = (0..100).map(|_| cut_off(&stage.server, &[BOB])).collect();
    stage.pass(&[ANN]);
    until("memory is bounded", || stage.memory() < before + 40 * MIB);
    // Another principal gets its part although the first has taken all.
    stage.hold();
    let own: Vec<_> = (0..3).map(|_| cut_off(&stage.server, &[ANN])).collect();
    stage.pass(&[ANN]);
    for cut in &own {
        assert!(come_back(&stage.server, &[ANN], cut).is_some_and(|length| length > 1_000_000));
    }
    let kept = cut.iter().filter(|cut| come_back(&stage.server, &[BOB], cut).is_some()).count();
    assert!((6..=10).contains(&kept), "{kept} of {}", cut.len());
    // A reader that stays connected gets its answer, regardless of the stored data.
    let session = open_session_with(&mut stage.server.connect(), "2025-11-25", &[BOB]);
    let answer = stage.server.connect().post(&[BOB, ("Mcp-Session-Id", &session)], &mcp_call(1, "h__large", "{}"));
    assert!(answer.status == 200 && answer.body.len() > 1_000_000, "{}", answer.status);
}

/// Asks in a session for something about tasks.
fn ask(server: &Server, headers: &[(&str, &str)], session: &str, method: &str, params: Value) -> Value {
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
    let answer = server.connect().post(&with(headers, &[("Mcp-Session-Id", session)]), &request);
    serde_json::from_str(&answer.body).unwrap_or_else(|error| panic!("{error} in {answer:?}"))
}

/// Begins tasks in a session; returns their ids.
fn begin(server: &Server, headers: &[(&str, &str)], session: &str, count: usize) -> Vec<String> {
    let call = json!({"name": "h__large", "arguments": {}, "task": {"ttl": 86_400_000}});
    let begun = |_| ask(server, headers, session, "tools/call", call.clone());
    (0..count).map(begun).map(|begun| begun["result"]["task"]["taskId"].as_str().expect("a task").to_owned()).collect()
}

#[cfg(target_os = "linux")]
#[test]
fn results_of_tasks_have_a_bound_of_all_sessions() {
    let stage = Stage::start(&format!("{BOUND}{TOKENS}"));
    let (before, server) = (stage.memory(), &stage.server);
    let open = |who| open_session_with(&mut server.connect(), "2025-11-25", &[who]);
    let sessions: Vec<_> = (0..5).map(|_| open(BOB)).collect();
    let tasks: Vec<_> =
        sessions.iter().flat_map(|id| begin(server, &[BOB], id, 20).into_iter().map(move |task| (id, task))).collect();
    stage.pass(&[ANN]);
    let status = |who, session: &str, task: &str| {
        ask(server, &[who], session, "tasks/get", json!({"taskId": task}))["result"]["status"].clone()
    };
    until("all tasks end", || tasks.iter().all(|(id, task)| status(BOB, id, task) != "working"));
    until("memory is bounded", || stage.memory() < before + 40 * MIB);
    let (kept, failed): (Vec<_>, Vec<_>) = tasks.iter().partition(|(id, task)| status(BOB, id, task) == "completed");
    assert!((6..=9).contains(&kept.len()), "{} of {}", kept.len(), tasks.len());
    let result = |(id, task): &(&String, String)| ask(server, &[BOB], id, "tasks/result", json!({"taskId": task}));
    assert!(result(kept[0])["result"]["content"][0]["text"].as_str().is_some_and(|text| text.len() == 1_000_000));
    let error = &result(failed[0])["error"];
    assert_eq!((&error["code"], &error["message"]), (&json!(-32603), &json!(NOT_KEPT)), "{error}");
    // Another principal gets its part.
    stage.hold();
    let own = open(ANN);
    let task = begin(server, &[ANN], &own, 1).remove(0);
    stage.pass(&[ANN]);
    until("the task ends", || status(ANN, &own, &task) != "working");
    assert_eq!(status(ANN, &own, &task), "completed");
}

#[cfg(target_os = "linux")]
#[test]
fn outcomes_for_agents_that_do_not_read_have_a_bound_of_all_sessions() {
    let stage = Stage::start(BOUND);
    let (before, server) = (stage.memory(), &stage.server);
    let open = |_| {
        let Agent { id, stream } = Agent::open(server, &[], "any");
        drop(stream);
        let send = |call: usize| {
            let call =
                json!({"type": "tool/call/req", "id": format!("c{call}"), "tool_name": "h__large", "arguments": {}});
            server.connect().ask("POST", "/send", &[("X-Session-Id", &id)], &call.to_string()).status
        };
        assert!((0..4).all(|call| send(call) == 200));
        id
    };
    let sessions: Vec<_> = (0..25).map(open).collect();
    stage.pass(&[]);
    until("memory is bounded", || stage.memory() < before + 50 * MIB);
    let (mut whole, mut failed) = (0, 0);
    for id in sessions {
        let mut stream = server.connect();
        stream.send("GET", "/stream", &[("X-Session-Id", &id)], "");
        assert_eq!(stream.head().status, 200);
        let mut answered = Vec::new();
        while answered.len() < 4 {
            let answer = stream.event().expect("an answer").data;
            let id = serde_json::from_str::<Value>(&answer).expect("JSON")["req_id"].clone();
            if id.as_str().is_some_and(|id| id.starts_with('c')) {
                assert!(!answered.contains(&id), "one answer for each call");
                answered.push(id);
                let is_whole = answer.len() > 1_000_000;
                assert!(is_whole || answer.contains(NOT_KEPT), "{answer}");
                (whole, failed) = (whole + usize::from(is_whole), failed + usize::from(!is_whole));
            }
        }
    }
    assert!((6..=12).contains(&whole) && whole + failed == 100, "{whole} {failed}");
}

#[test]
fn calls_of_sessions_have_a_bound_of_all_sessions() {
    let server = Server::start(TOKENS);
    let large = format!(r#"{{"ms":600000,"pad":"{}"}}"#, "x".repeat(15_000_000));
    let mut running = Vec::new();
    let mut is_taken = |headers: &[(&str, &str)], body: &str| {
        let mut connection = server.connect();
        connection.send_post(headers, body);
        let status = connection.head().status;
        running.push(connection);
        status == 200
    };
    let open = |_| open_session_with(&mut server.connect(), "2025-11-25", &[BOB]);
    let sessions: Vec<_> = (0..3).map(open).collect();
    let mut taken = Vec::new();
    for session in &sessions {
        let headers = [BOB, ("Mcp-Session-Id", session)];
        taken.push((0..5).take_while(|id| is_taken(&headers, &mcp_call(*id, "wait", &large))).count());
    }
    assert_eq!(taken, [5, 3, 0], "128 MiB in all");
    // Another principal gets its part, without a session too, and small calls go on.
    let (headers, body) = stateless_call(1, "wait", &large);
    assert!((0..4).all(|_| is_taken(&with(&headers, &[ANN]), &body)));
    assert!(!is_taken(&with(&headers, &[BOB]), &body) && !is_taken(&with(&headers, &[ANN]), &body));
    for who in [ANN, BOB] {
        let (headers, body) = stateless_call(2, "echo", r#"{"message":"mine"}"#);
        assert!(server.connect().post(&with(&headers, &[who]), &body).body.contains("mine"));
    }
}

#[test]
fn unread_answers_of_the_first_revision_have_a_bound_of_all_sessions() {
    let server = Server::start(TOKENS);
    let params =
        json!({"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}});
    let initialize = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}).to_string();
    let large = mcp_call(1, "echo", &format!(r#"{{"message":"{}"}}"#, "x".repeat(8_000_000)));
    let mut unread = Vec::new();
    // The connection has the first large answer, and the stream has the second.
    let mut is_taken = |who| {
        let mut stream = server.connect();
        stream.send("GET", "/sse", &[who, ("Accept", "text/event-stream")], "");
        assert_eq!(stream.head().status, 200);
        let messages = stream.event().expect("where messages go").data;
        unread.push(stream);
        let headers = [who, ("Content-Type", "application/json")];
        let post = |body: &str| server.connect().ask("POST", &messages, &headers, body).status == 202;
        post(&initialize) && post(&large) && post(&large)
    };
    let taken = (0..40).take_while(|_| is_taken(BOB)).count();
    assert!((12..=24).contains(&taken), "{taken} sessions with 16 MB each in 256 MiB");
    assert!(is_taken(ANN), "another principal gets its part");
}

#[test]
fn every_call_of_a_batch_counts_in_the_bound_of_all_sessions() {
    let server = Server::start(TOKENS);
    let calls: Vec<_> = (0..1024).map(|id| mcp_call(id, "wait", r#"{"ms":600000}"#)).collect();
    let batch = format!("[{}]", calls.join(","));
    let mut running = Vec::new();
    let mut is_taken = |who| {
        let session = open_session_with(&mut server.connect(), "2025-03-26", &[who]);
        let mut connection = server.connect();
        connection.send_post(&[who, ("Mcp-Session-Id", &session)], &batch);
        let status = connection.head().status;
        running.push(connection);
        status == 200
    };
    assert_eq!((0..40).take_while(|_| is_taken(BOB)).count(), 32, "128 MiB with 4 KiB for each call");
    assert!(is_taken(ANN), "another principal gets its part");
}

#[test]
fn an_evicted_answer_leaves_room_for_later_ones() {
    let stage = Stage::start(BOUND);
    let server = &stage.server;
    let cut: Vec<_> = (0..20).map(|_| cut_off(server, &[])).collect();
    stage.pass(&[]);
    for (session, _) in &cut {
        assert_eq!(server.connect().ask("DELETE", "/mcp", &[("Mcp-Session-Id", session)], "").status, 204);
    }
    stage.hold();
    let cut = cut_off(server, &[]);
    stage.pass(&[]);
    assert!(come_back(server, &[], &cut).is_some_and(|length| length > 1_000_000));
}

#[cfg(target_os = "linux")]
#[test]
fn client_declarations_are_bounded_per_session_and_over_all_sessions() {
    let stage = Stage::start(&format!("{BOUND}{TOKENS}"));
    let (before, server) = (stage.memory(), &stage.server);
    let open = |who: (&str, &str), bytes: usize| {
        let capabilities = json!({"sampling": {"tools": {"x": {"y": {"z": "x".repeat(bytes)}}}}});
        let client = json!({"name": "c", "version": "1"});
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": client});
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
        let answer = server.connect().post(&[who], &request.to_string());
        let answer: Value = serde_json::from_str(&answer.body).unwrap_or_else(|error| panic!("{error} in {answer:?}"));
        answer["error"]["code"].as_i64()
    };
    assert!((0..5).all(|_| open(BOB, 15_000_000) == Some(-32602)));
    let taken = (0..1000).take_while(|_| open(BOB, 15_000).is_none()).count();
    assert!((100..200).contains(&taken), "{taken} sessions of about 60 KiB in 8 MiB");
    assert!(open(BOB, 10).is_none(), "a usual client gets its session");
    assert!((0..40).all(|_| open(ANN, 15_000).is_none()), "another principal gets its part");
    until("memory is bounded", || stage.memory() < before + 60 * MIB);
}

#[cfg(target_os = "linux")]
#[test]
fn errors_for_agents_that_do_not_read_have_a_bound_of_all_sessions() {
    let stage = Stage::start("[http]\nkept_bytes = 1048576\n");
    let (before, server) = (stage.memory(), &stage.server);
    let begin = || {
        let opened = server.connect().ask("POST", "/session", &[], "");
        opened.json()["session_id"].as_str().expect("an id").to_owned()
    };
    let send = |id: &str, message: &Value| {
        server.connect().ask("POST", "/send", &[("X-Session-Id", id)], &message.to_string()).status
    };
    let hello = |field: &str, text: String| {
        let mut hello = json!({"type": "handshake/req", "id": "h", "agent_id": "ann", "agent_caps": ["memory"]});
        hello[field] = json!(text);
        hello
    };
    // The fields of a handshake are stored up to a maximum length.
    for field in ["version", "agent_id", "auth_token"] {
        assert_eq!(send(&begin(), &hello(field, format!("1.{}", "9".repeat(15_000_000)))), 200);
    }
    // An error repeats little of the message, and counts until it is read.
    let long = json!({"type": "memory/init/req", "id": "m", "scope": {"k".repeat(15_000_000): 1}});
    let many = json!({"type": "memory/init/req", "id": "x".repeat(4000), "scope": {"k".repeat(50_000): 1}});
    let first = begin();
    assert_eq!((send(&first, &hello("version", "1.0".to_owned())), send(&first, &long)), (200, 200));
    let mut taken = 0;
    let refused = (0..40).find_map(|_| {
        let id = begin();
        if send(&id, &hello("version", "1.0".to_owned())) != 200 {
            return Some(id);
        }
        let sent = (0..100).take_while(|_| send(&id, &many) == 200).count();
        taken += sent;
        (sent < 10).then_some(id)
    });
    let refused = refused.expect("the bound is reached");
    assert!((200..400).contains(&taken), "{taken} errors of about 4 KiB in 1 MiB");
    assert_eq!(send(&refused, &json!({"type": "ping", "id": "p"})), 503);
    until("memory is bounded", || stage.memory() < before + 60 * MIB);
    // An agent that reads is served, and reading makes room.
    let mut stream = server.connect();
    stream.send("GET", "/stream", &[("X-Session-Id", &refused)], "");
    assert_eq!(stream.head().status, 200);
    assert_eq!(send(&refused, &json!({"type": "ping", "id": "p"})), 200);
    let is_pong = |event: Option<crate::client::Event>| event.expect("a message").data.contains(r#""pong""#);
    assert!((0..100).any(|_| is_pong(stream.event())));
}
