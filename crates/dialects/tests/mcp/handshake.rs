//! Tests of the handshake: versions, states, and the messages that each state allows.

use gladhand_core::operations::Notice;
use gladhand_dialects::mcp::DIALECT;
use gladhand_dialects::testing::{TestServer, server_setup};

use crate::*;

#[test]
fn a_spoken_version_is_echoed_and_any_other_gets_the_newest_of_the_era() {
    for version in HANDSHAKE {
        let mut server = server();
        let answer = only(server.line(&initialize(version)));
        let expected = serde_json::json!({
            "jsonrpc": "2.0",
            "id": 0,
            "result": {
                "protocolVersion": version,
                "capabilities": {"tools": {"listChanged": true}, "logging": {}},
                "serverInfo": {"name": "gladhand", "version": "0.0.0-test"},
            },
        });
        assert_eq!(answer, expected);
        assert!(server.opened.is_empty(), "the session must not be open before `initialized`");
        server.line(INITIALIZED);
        assert_eq!(server.opened[0].asked_version, None);
    }
    for version in ["1999-01-01", "2024-10-07", "2026-07-28", "2099-01-01", "", "latest"] {
        let mut server = server();
        assert_eq!(only(server.line(&initialize(version)))["result"]["protocolVersion"], "2025-11-25", "{version}");
        server.line(INITIALIZED);
        assert_eq!(server.opened[0].version, "2025-11-25");
        assert_eq!(server.opened[0].asked_version.as_deref(), Some(version));
    }
}

#[test]
fn before_the_opening_only_ping_is_served() {
    let mut server = server();
    assert_eq!(server.line(PING), [PONG]);
    for method in [
        "tools/list",
        "tools/call",
        "logging/setLevel",
        "subscriptions/listen",
        "nonsense",
        "notifications/initialized",
    ] {
        let answer = only(server.line(&request("1", method, "{}")));
        assert_eq!(answer["error"]["code"], -32602, "{method}");
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(
            message.contains("`initialize`") && message.contains("io.modelcontextprotocol/protocolVersion"),
            "{message}"
        );
    }
    assert_eq!(server.line(INITIALIZED), NOTHING);
    assert_eq!(error(server.line(&echo("2"))).1, -32602, "an early `initialized` must not open a session");
    assert_eq!(server.line(&cancel("2")), NOTHING);
    assert!(server.delivered.is_empty() && server.opened.is_empty());
    assert_eq!(only(server.line(&initialize("2025-06-18")))["result"]["protocolVersion"], "2025-06-18");
}

#[test]
fn before_initialized_only_replies_are_sent() {
    for version in HANDSHAKE {
        let mut server = server().holding();
        server.line(&initialize(version));
        assert_eq!(server.line(PING), [PONG]);
        assert_eq!(
            server.line(&request("1", "tools/call", &format!(r#"{{{ECHO},"_meta":{{"progressToken":"t"}}}}"#))),
            NOTHING
        );
        let call = server.delivered[0].call.id;
        let progress = |progress| gladhand_core::operations::Progress { progress, total: None, message: None };
        assert_eq!(server.notify(Notice::Progress(call, progress(1.0))), NOTHING);
        assert_eq!(server.notify(Notice::Log(None, notices::log("emergency"))), NOTHING);
        assert_eq!(server.notify(Notice::ToolsChanged), NOTHING);
        assert_eq!(server.notify(Notice::ToolsChanged), NOTHING);
        assert_eq!(only(server.resolve_next())["result"]["content"][0]["text"], "hi");
        let flushed = server.line(INITIALIZED);
        assert_eq!(flushed, [r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#], "{version}");
        assert_eq!(server.line(INITIALIZED), NOTHING, "a second `initialized` must change nothing");
        assert_eq!(server.opened.len(), 1);
    }
}

#[test]
fn a_log_level_in_a_request_of_an_open_session_is_ignored() {
    for version in HANDSHAKE {
        let meta = r#"{"_meta":{"io.modelcontextprotocol/logLevel":"debug"}}"#;
        let answer = only(open(version).line(&request("1", "tools/list", meta)));
        assert!(answer["result"]["tools"].is_array(), "{version}: {answer}");
    }
}

#[test]
fn a_pipelined_handshake_is_served_in_order() {
    let mut server = server();
    let answers: Vec<_> = [&*initialize("2025-11-25"), INITIALIZED, &echo("1"), PING]
        .into_iter()
        .flat_map(|line| server.line(line))
        .collect();
    let ids: Vec<_> = answers.iter().map(|line| value(line)["id"].clone()).collect();
    assert_eq!(ids, [0.into(), 1.into(), Value::from("p")]);
}

#[test]
fn a_second_initialize_restarts_before_initialized_and_is_refused_after_it() {
    let mut server = server();
    server.line(&initialize("2025-11-25"));
    assert_eq!(only(server.line(&initialize("2025-03-26")))["result"]["protocolVersion"], "2025-03-26");
    server.line(INITIALIZED);
    assert_eq!(server.opened.len(), 1);
    assert_eq!(server.opened[0].version, "2025-03-26");
    assert_eq!(error(server.line(&initialize("2025-11-25"))), (0.into(), -32600));
    assert_eq!(only(server.line(&echo("1")))["result"]["content"][0]["text"], "hi", "the session must continue");
}

#[test]
fn initialize_cannot_be_cancelled() {
    let mut server = server();
    server.line(&initialize("2025-11-25"));
    assert_eq!(server.line(&cancel("0")), NOTHING);
    server.line(INITIALIZED);
    assert_eq!(server.opened.len(), 1);
    assert!(server.cancelled.is_empty());
}

#[test]
fn malformed_parameters_of_initialize_are_refused_by_name() {
    let info = r#""clientInfo":{"name":"t","version":"1"}"#;
    for (params, field) in [
        ("null".to_owned(), "protocolVersion"),
        ("{}".to_owned(), "protocolVersion"),
        (format!(r#"{{"protocolVersion":20250618,"capabilities":{{}},{info}}}"#), "protocolVersion"),
        (format!(r#"{{"protocolVersion":"2025-06-18",{info}}}"#), "capabilities"),
        (format!(r#"{{"protocolVersion":"2025-06-18","capabilities":[],{info}}}"#), "capabilities"),
        (r#"{"protocolVersion":"2025-06-18","capabilities":{}}"#.to_owned(), "clientInfo"),
        (r#"{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":"t"}"#.to_owned(), "clientInfo"),
        (
            r#"{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"version":"1"}}"#.to_owned(),
            "clientInfo.name",
        ),
        (
            r#"{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t"}}"#.to_owned(),
            "clientInfo.version",
        ),
        ("[1]".to_owned(), "params"),
    ] {
        let mut server = server();
        let answer = only(server.line(&request("1", "initialize", &params)));
        assert_eq!(answer["error"]["code"], -32602);
        assert!(answer["error"]["message"].as_str().unwrap().contains(&format!("`{field}`")), "{params}: {answer}");
        assert_eq!(
            only(server.line(&initialize("2025-06-18")))["result"]["protocolVersion"],
            "2025-06-18",
            "still open"
        );
    }
}

#[test]
fn unknown_capabilities_become_refused_terms() {
    use gladhand_core::negotiation::{Side, Verdict, Why};
    let mut server = server();
    server.line(&request(
        "1",
        "initialize",
        r#"{"protocolVersion":"2025-06-18","capabilities":{"telepathy":{"range":5},"roots":{},"tasks":{}},"clientInfo":{"name":"t","version":"1"}}"#,
    ));
    server.line(INITIALIZED);
    let agreement = &server.opened[0];
    let term = agreement.term(Side::Client, "telepathy").unwrap();
    assert_eq!(term.verdict, Verdict::Refused(Why::Unknown));
    assert_eq!(term.settings.as_ref().unwrap().get(), r#"{"range":5}"#);
    assert!(agreement.allows(Side::Client, "roots"));
    assert_eq!(agreement.term(Side::Client, "tasks").unwrap().verdict, Verdict::Refused(Why::NotInThisVersion));
}

#[test]
fn batches_are_answered_as_one_line_where_the_revision_has_them() {
    let batch = format!("[{},{INITIALIZED},{PING},{},5]", echo("1"), initialize("2025-03-26"));
    for version in ["2024-11-05", "2025-06-18", "2025-11-25"] {
        assert_eq!(error(open(version).line(&batch)), (Value::Null, -32600), "{version}");
    }
    assert_eq!(error(server().line(&batch)), (Value::Null, -32600), "no batch is allowed before the handshake");

    let mut server = open("2025-03-26").holding();
    assert_eq!(server.line(&batch), NOTHING, "the batch must wait for its last call");
    assert_eq!(server.line(PING), [PONG], "a pending batch must not delay other requests");
    let answers = only(server.resolve_next());
    let summary: Vec<_> =
        answers.as_array().unwrap().iter().map(|part| (part["id"].clone(), part["error"]["code"].clone())).collect();
    let expected = [
        ("p".into(), Value::Null),
        (0.into(), (-32600).into()),
        (Value::Null, (-32600).into()),
        (1.into(), Value::Null),
    ];
    assert_eq!(summary, expected);

    assert_eq!(error(server.line("[]")), (Value::Null, -32600));
    assert_eq!(server.line(&format!("[{INITIALIZED}]")), NOTHING, "notifications get no answer");
    assert_eq!(server.line(r#"[{"jsonrpc":"2.0","id":1,"result":{}}]"#), NOTHING);
    let mixed = format!(r#"[{{"jsonrpc":"2.0","id":1,"result":{{}}}},{PING}]"#);
    assert_eq!(error(server.line(&mixed)), (Value::Null, -32600));
    let long = format!("[{}]", vec![PING; 1025].join(","));
    assert_eq!(error(server.line(&long)), (Value::Null, -32600));
    assert_eq!(error(server.line("[1,")), (Value::Null, -32700));
    let modern = format!("[{}]", stateless("1", "tools/list", "", ""));
    assert_eq!(only(server.line(&modern))[0]["error"]["code"], -32600);
}

#[test]
fn a_cancelled_part_of_a_batch_is_left_out() {
    let mut server = open("2025-03-26").holding();
    assert_eq!(server.line(&format!("[{},{}]", echo("1"), echo("2"))), NOTHING);
    assert_eq!(server.line(&cancel("1")), NOTHING);
    let answers = only(server.resolve_next());
    assert_eq!((answers.as_array().unwrap().len(), &answers[0]["id"]), (1, &2.into()));
    server.line(&format!("[{}]", echo("3")));
    assert_eq!(server.line(&cancel("3")), NOTHING, "a batch without remaining calls gets no answer");
    assert_eq!(server.line(PING), [PONG]);
}

#[test]
fn both_eras_are_distinguished_at_the_door() {
    static OURS: &[&gladhand_dialects::Dialect] = &[&DIALECT];
    let mut server = TestServer::detecting(OURS, server_setup());
    assert_eq!(error(server.line(r#"{"jsonrpc":"2.0","id":1,"method":"x"}"#)).1, -32602);
    assert_eq!(only(server.line(&stateless("1", "tools/call", ECHO, "")))["result"]["resultType"], "complete");
    server.line(&initialize("2025-06-18"));
    server.line(INITIALIZED);
    assert_eq!(only(server.line(&echo("2")))["result"]["resultType"], Value::Null);
    assert_eq!(only(server.line(&stateless("3", "tools/call", ECHO, "")))["result"]["resultType"], "complete");
    let versions: Vec<_> = server.opened.iter().map(|agreement| agreement.version.clone()).collect();
    assert_eq!(versions, [STATELESS, "2025-06-18"]);
}
