//! Revocation: a removed token stops working at reload, and open sessions of its principal end.

use serde_json::{Value, json};

use crate::client::{STATELESS, open_session_with, stateless};
use crate::serving::{Agent, PING, Server, until};
use crate::support::{Process, mcp_call};

const ANN: (&str, &str) = ("Authorization", "Bearer open-sesame");
const BOB: (&str, &str) = ("Authorization", "Bearer open-barley");
const WAIT: &str = r#"{"ms":600000}"#;

/// Streams say nothing by themselves, so that to wait for them in vain has a bound.
const QUIET: &str = "[http]\nkeep_alive_ms = 3600000\n";

/// `[authorization]` with the tokens of some principals.
fn tokens(names: &[&str]) -> String {
    let token = |name: &&str| match *name {
        "ann" => "{ name = 'ann', token = 'open-sesame' }",
        "new ann" => "{ name = 'ann', token = 'open-rye' }",
        _ => "{ name = 'bob', token = 'open-barley' }",
    };
    format!("{QUIET}[authorization]\ntokens = [{}]\n", names.iter().map(token).collect::<Vec<_>>().join(", "))
}

/// The status of a `ping` in a session.
fn ping(server: &Server, who: (&str, &str), session: &str) -> u16 {
    server.connect().post(&[who, ("Mcp-Session-Id", session)], PING).status
}

/// Waits until a token is refused.
fn until_refused(server: &Server, who: (&str, &str)) {
    until("the token is refused", || server.connect().post(&[who], PING).status == 401);
}

#[test]
fn a_removed_token_stops_working_at_reload_and_its_sessions_end() {
    let server = Server::start(&tokens(&["ann", "bob"]));
    let session = |who| open_session_with(&mut server.connect(), "2025-11-25", &[who]);
    let (anns, bobs) = (session(ANN), session(BOB));
    let listen = |who, session: &str| {
        let mut stream = server.connect();
        stream.send("GET", "/mcp", &[who, ("Mcp-Session-Id", session), ("Accept", "text/event-stream")], "");
        assert_eq!(stream.head().status, 200);
        stream
    };
    let (mut of_ann, mut of_bob) = (listen(ANN, &anns), listen(BOB, &bobs));
    let mut running = server.connect();
    running.send_post(&[ANN, ("Mcp-Session-Id", &anns)], &mcp_call(1, "wait", WAIT));
    let mut pair = server.connect();
    pair.send("GET", "/sse", &[ANN, ("Accept", "text/event-stream")], "");
    assert_eq!(pair.head().status, 200);
    let endpoint = pair.event().expect("the address for messages");
    assert_eq!(endpoint.name.as_deref(), Some("endpoint"));
    // Longer than an answer is waited for without a stream, so that the call runs when the token goes.
    let head = running.head();
    assert_eq!(head.header("content-type"), Some("text/event-stream"), "{head:?}");

    server.reconfigure(&tokens(&["bob"]));
    until_refused(&server, ANN);
    until("the stream ends", || of_ann.event().is_none());
    until("the older stream ends", || pair.event().is_none());
    let answer = std::iter::from_fn(|| running.event()).map(|event| event.data).find(|data| data.contains("\"id\":1"));
    let answer: Value = serde_json::from_str(&answer.expect("every call is answered")).expect("JSON");
    assert!(answer["error"].is_object(), "{answer}");
    assert_eq!(ping(&server, ANN, &anns), 401);
    assert_eq!(ping(&server, BOB, &bobs), 200, "who stays is not disturbed");
    // The same principal with another token does not find the old session again.
    server.reconfigure(&tokens(&["bob", "new ann"]));
    let new = ("Authorization", "Bearer open-rye");
    until("the new token is accepted", || server.connect().post(&[new], PING).status != 401);
    assert_eq!(ping(&server, new, &anns), 404);
    // Of the others nothing was lost meanwhile.
    let changed = "[[policy.rules]]\ntools = ['echo']\neffect = 'deny'\n";
    server.reconfigure(&format!("{}{changed}", tokens(&["bob", "new ann"])));
    until("the stream goes on", || of_bob.event().expect("it goes on").data.contains("list_changed"));
}

#[test]
fn calls_without_a_session_end_with_the_token_and_others_go_on() {
    let server = Server::start(&tokens(&["ann", "bob"]));
    let call = |who| {
        let headers = [who, ("MCP-Protocol-Version", STATELESS), ("Mcp-Method", "tools/call"), ("Mcp-Name", "wait")];
        let mut connection = server.connect();
        let message = stateless(5, "tools/call", &format!(r#""name":"wait","arguments":{WAIT}"#));
        connection.send_post(&headers, &message);
        assert_eq!(connection.head().header("content-type"), Some("text/event-stream"), "it takes a while");
        connection
    };
    let listen = |who| {
        let headers = [who, ("MCP-Protocol-Version", STATELESS), ("Mcp-Method", "subscriptions/listen")];
        let mut connection = server.connect();
        let message = stateless(6, "subscriptions/listen", r#""notifications":{"toolsListChanged":true}"#);
        connection.send_post(&headers, &message);
        assert_eq!(connection.head().header("content-type"), Some("text/event-stream"));
        connection
    };
    let (mut anns, mut listening, mut bobs) = (call(ANN), listen(ANN), listen(BOB));
    let _bobs_call = call(BOB);
    server.reconfigure(&tokens(&["bob"]));
    let last = std::iter::from_fn(|| anns.event()).last().expect("an answer");
    assert!(last.json()["error"].is_object(), "{last:?}");
    while listening.event().is_some() {}
    server.reconfigure(&format!("{}[[policy.rules]]\ntools = ['echo']\neffect = 'deny'\n", tokens(&["bob"])));
    until("the stream of another goes on", || {
        bobs.event().expect("it goes on").data.contains("notifications/tools/list_changed")
    });
}

#[test]
fn a_request_that_is_still_being_sent_is_not_served_after_its_token_is_gone() {
    let server = Server::start(&tokens(&["ann"]));
    let agent = Agent::unopened(&server, &[ANN]);
    let slowly = |path: &str| {
        let mut slow = server.connect();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{}: {}\r\n\
             X-Session-Id: {}\r\nContent-Length: {}\r\n\r\n",
            ANN.0,
            ANN.1,
            agent.id,
            PING.len()
        );
        slow.send_bytes(head.as_bytes());
        slow.send_bytes(&PING.as_bytes()[..10]);
        slow
    };
    let slow = [slowly("/mcp"), slowly("/send")];
    server.reconfigure(&tokens(&["bob"]));
    until_refused(&server, ANN);
    for mut slow in slow {
        slow.send_bytes(&PING.as_bytes()[10..]);
        assert_eq!(slow.response().status, 401);
    }
}

#[test]
fn the_last_token_that_is_removed_opens_the_endpoint_to_no_one() {
    let server = Server::start(&format!("{}[a2e]\ntokens = ['hush']\n", tokens(&["ann"])));
    server.reconfigure("");
    until_refused(&server, ANN);
    assert_eq!(server.connect().post(&[], PING).status, 401);
    assert_eq!(server.connect().ask("POST", "/session", &[], "").status, 401);
}

#[test]
fn a_first_token_closes_an_open_endpoint_at_reload() {
    let server = Server::start(QUIET);
    let session = open_session_with(&mut server.connect(), "2025-11-25", &[]);
    let mut stream = server.connect();
    stream.send("GET", "/mcp", &[("Mcp-Session-Id", &session), ("Accept", "text/event-stream")], "");
    assert_eq!(stream.head().status, 200);
    server.reconfigure(&tokens(&["ann"]));
    until("a token is asked for", || server.connect().post(&[], PING).status == 401);
    while stream.event().is_some() {}
    assert_eq!(ping(&server, ANN, &session), 404);
}

/// An upstream that is a program, so that it could have written the configuration.
fn program() -> String {
    format!("[upstreams.a]\ncommand = ['{}', 'serve', '--config', '/dev/null']\n", env!("CARGO_BIN_EXE_gladhand"))
}

#[test]
fn an_untrusted_first_token_closes_an_open_endpoint_to_all_clients() {
    let server = Server::start(&format!("{QUIET}{}", program()));
    let session = open_session_with(&mut server.connect(), "2025-11-25", &[]);
    let mut stream = server.connect();
    stream.send("GET", "/mcp", &[("Mcp-Session-Id", &session), ("Accept", "text/event-stream")], "");
    assert_eq!(stream.head().status, 200);
    server.reconfigure(&(tokens(&["ann"]) + &program()));
    until_refused(&server, ("X-Token", "none"));
    while stream.event().is_some() {}
    // A tool could have written the token, so the token opens nothing either.
    assert_eq!(server.connect().post(&[ANN], PING).status, 401);
    assert_eq!(server.connect().ask("POST", "/session", &[ANN], "").status, 401);
    let warning = "adds a first token: the endpoint, which was open, accepts no client until";
    until("the log says so", || server.log().contains(warning));
    server.trust();
    until("the token opens it", || server.connect().post(&[ANN], PING).status != 401);
    assert_eq!(server.connect().post(&[], PING).status, 401);
}

#[test]
fn a_first_token_of_agents_that_is_not_trusted_yet_lets_no_agent_in() {
    let server = Server::start(&format!("{QUIET}{}", program()));
    let mut agent = Agent::open(&server, &[], "any");
    server.reconfigure(&format!("{QUIET}[a2e]\ntokens = ['hush']\n{}", program()));
    while agent.hear().is_some() {}
    let is_let_in = |token: &str| {
        let mut agent = Agent::unopened(&server, &[]);
        let handshake = json!({"a2e": "1.0", "type": "handshake/req", "id": "h", "agent_id": "tester",
            "agent_caps": ["tools"], "auth_token": token});
        agent.send(&server, &[], &handshake);
        agent.hear().is_some_and(|answer| answer["ok"] == true)
    };
    assert!(!is_let_in("any") && !is_let_in("hush") && !is_let_in(""));
    server.trust();
    until("the token lets an agent in", || is_let_in("hush"));
    assert!(!is_let_in("any"));
}

#[test]
fn an_agent_loses_its_session_with_its_token() {
    let server = Server::start(&format!("{QUIET}[a2e]\ntokens = ['first', 'second']\n"));
    let (mut first, mut second) = (Agent::open(&server, &[], "first"), Agent::open(&server, &[], "second"));
    let late = Agent::unopened(&server, &[]);
    let wait = json!({"type": "tool/call/req", "id": "w", "tool_name": "wait", "arguments": {"ms": 600_000}});
    assert_eq!(first.send(&server, &[], &wait), 200);
    server.reconfigure(&format!("{QUIET}[a2e]\ntokens = ['second']\n"));
    let answer = first.hear().expect("every call is answered");
    assert_eq!((&answer["req_id"], &answer["type"]), (&json!("w"), &json!("error")), "{answer}");
    assert!(first.hear().is_none(), "the stream ends");
    assert_eq!(first.send(&server, &[], &json!({"type": "ping", "id": "p"})), 404);
    assert_eq!(second.send(&server, &[], &json!({"type": "ping", "id": "p"})), 200);
    assert_eq!(second.hear().expect("it goes on")["type"], "pong");
    // A handshake after the change is checked against the current tokens.
    let mut late = late;
    let handshake = json!({"type": "handshake/req", "id": "h", "agent_id": "late", "agent_caps": ["tools"],
        "auth_token": "first"});
    assert_eq!(late.send(&server, &[], &handshake), 200);
    assert_eq!(late.hear().expect("an answer")["reason"], "auth_failed");
}

#[test]
fn an_agent_loses_its_session_with_the_token_of_the_endpoint() {
    let server = Server::start(&tokens(&["ann", "bob"]));
    let (mut anns, mut bobs) = (Agent::open(&server, &[ANN], "any"), Agent::open(&server, &[BOB], "any"));
    let wait = json!({"type": "tool/call/req", "id": "w", "tool_name": "wait", "arguments": {"ms": 600_000}});
    assert_eq!(anns.send(&server, &[ANN], &wait), 200);
    server.reconfigure(&tokens(&["bob"]));
    assert_eq!(anns.hear().expect("every call is answered")["req_id"], "w");
    assert!(anns.hear().is_none(), "the stream ends");
    assert_eq!(anns.send(&server, &[ANN], &json!({"type": "ping", "id": "p"})), 401);
    assert_eq!(bobs.send(&server, &[BOB], &json!({"type": "ping", "id": "p"})), 200);
    assert_eq!(bobs.hear().expect("it goes on")["type"], "pong");
}

#[test]
fn an_agent_on_stdio_loses_its_session_with_its_token() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("gladhand.toml");
    let write =
        |token: &str| std::fs::write(&file, format!("[a2e]\ntokens = ['{token}']\n")).expect("it can be written");
    write("first");
    let mut process = Process::serve(&["--config", file.to_str().expect("text")]);
    let handshake = json!({"type": "handshake/req", "id": "h", "agent_id": "a", "agent_caps": ["tools"],
        "auth_token": "first"});
    assert_eq!(process.ask(&handshake.to_string())["ok"], true);
    process.send(r#"{"type":"tool/call/req","id":"w","tool_name":"wait","arguments":{"ms":600000}}"#);
    write("second");
    let answer = process.value();
    assert_eq!((&answer["req_id"], &answer["type"]), (&json!("w"), &json!("error")), "{answer}");
    assert!(process.wait().success());
}

#[test]
fn stricter_scopes_hold_from_the_next_call_on() {
    let config = |scopes: &str| {
        format!(
            "[authorization]\ntool_scopes = {{ {scopes} }}\ntokens = [{{ name = 'ann', token = 'open-sesame', scopes = [] }}]\n"
        )
    };
    let server = Server::start(&config(""));
    let session = open_session_with(&mut server.connect(), "2025-11-25", &[ANN]);
    let headers = [ANN, ("Mcp-Session-Id", session.as_str())];
    let call = |server: &Server| server.connect().post(&headers, &mcp_call(3, "echo", r#"{"message":"hi"}"#)).status;
    assert_eq!(call(&server), 200);
    server.reconfigure(&config("echo = ['talk']"));
    until("the call is refused", || call(&server) == 403);
    assert_eq!(ping(&server, ANN, &session), 200, "the session goes on");
}

#[test]
fn a_broken_file_takes_no_token_away() {
    let server = Server::start(&tokens(&["ann"]));
    let session = open_session_with(&mut server.connect(), "2025-11-25", &[ANN]);
    for broken in ["tokens = [", "issuers = [{ issuer = 'https://as.example' }]"] {
        let complaints = || server.log().matches("the old configuration stays in force").count();
        let before = complaints();
        server.reconfigure(&format!("[authorization]\n{broken}\n"));
        until("the file is complained of", || complaints() > before);
        assert_eq!(ping(&server, ANN, &session), 200);
    }
}
