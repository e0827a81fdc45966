//! Tests that a server's answer to a client of another dialect identifies the server's dialect.

use gladhand_core::wire::Members;
use gladhand_dialects::testing::{TestServer, server_setup};
use gladhand_dialects::{Dialect, FirstLine, REGISTRY};

const DISCOVER: &str = r#"{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{}}"#;
const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#;

/// The dialects that recognise this answer.
fn known_by(text: &str) -> Vec<&'static str> {
    let line = FirstLine { text, members: Members::parse(text).ok() };
    REGISTRY.iter().filter(|dialect| (dialect.recognizes_reply)(&line)).map(|dialect| dialect.name).collect()
}

#[test]
fn each_dialect_is_identified_by_its_answer_to_mcp() {
    for dialect in REGISTRY.iter().filter(|dialect: &&&Dialect| dialect.name != "mcp") {
        for line in [DISCOVER, INITIALIZE] {
            let mut server = TestServer::pinned(dialect, server_setup());
            let answers = server.line(line);
            assert_eq!(
                answers.iter().map(|answer| known_by(answer)).collect::<Vec<_>>(),
                [[dialect.name]],
                "{answers:?}"
            );
        }
    }
}

#[test]
fn answers_of_shipped_servers_are_identified_too() {
    for (answer, name) in [
        (
            r#"{"type":"error","id":"7","version":"1.0","ts":1.5,"req_id":"","code":"parse_error","message":"Unknown type None","detail":{},"retryable":false,"capability_name":""}"#,
            "a2e",
        ),
        (r#"{"type":"error","error":{"code":"unknown_tool","message":"Unknown tool 'None'"},"id":1}"#, "fluxloop"),
    ] {
        assert_eq!(known_by(answer), [name]);
    }
}

#[test]
fn an_answer_of_an_mcp_server_identifies_no_other_dialect() {
    for answer in [
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"Method not found"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no","data":{"method":"server/discover"}}}"#,
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no","data":"method_not_found"}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"type"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
        r#"{"level":"error","code":"E1","message":"a log line on stdout"}"#,
        r#"{"type":"error","message":"another"}"#,
        "[]",
        "ready",
    ] {
        assert!(known_by(answer).is_empty(), "{answer}");
    }
}
