//! Tests of a door with loaf and Fluxloop: the first line with a certain claim decides.

use gladhand_dialects::testing::{TestServer, server_setup};
use gladhand_dialects::{Dialect, fluxloop, loaf};

static REGISTRY: &[&Dialect] = &[&loaf::DIALECT, &fluxloop::DIALECT];

#[test]
fn the_first_certain_line_names_the_dialect() {
    for (line, name) in [
        (r#"{"jsonrpc":"2.0","id":1,"method":"system.ping"}"#, "loaf"),
        ("\u{feff}{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"rpc.handshake\"}\r", "loaf"),
        (r#"{"type":"handshake","id":"1"}"#, "fluxloop"),
        (r#"{"tool":"echo","message":"m"}"#, "fluxloop"),
    ] {
        let mut server = TestServer::detecting(REGISTRY, server_setup());
        assert_eq!(server.line(line).len(), 1, "{line}");
        assert_eq!(server.door.dialect().map(|dialect| dialect.name), Some(name), "{line}");
    }
}

#[test]
fn garbage_and_plausible_lines_do_not_fix_the_dialect() {
    let mut server = TestServer::detecting(REGISTRY, server_setup());
    for (line, answer) in [
        ("", None),
        ("garbage", Some(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"#)),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"nobody/knows"}"#,
            Some(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"#),
        ),
        (r#"{"type":"hello","id":1}"#, Some(r#"{"type":"error","id":1,"error":{"code":"invalid_payload","#)),
    ] {
        let answers = server.line(line);
        assert_eq!(answers.len(), answer.iter().len(), "{line}");
        assert!(answers.iter().zip(answer).all(|(ours, expected)| ours.starts_with(expected)), "{line}: {answers:?}");
        assert!(server.door.dialect().is_none(), "{line}");
    }
    server.line(r#"{"type":"handshake","id":"1"}"#);
    // After the decision, the same JSON-RPC line is answered by Fluxloop.
    assert_eq!(
        server.line(r#"{"jsonrpc":"2.0","id":1,"method":"system.ping"}"#),
        [
            r#"{"type":"error","id":1,"error":{"code":"invalid_payload","message":"This session speaks Fluxloop: JSON-RPC is not answered in it"}}"#
        ]
    );
}

#[test]
fn a_line_that_was_looked_at_before_is_answered_like_any_other() {
    let certain = r#"{"type":"handshake","id":"1"}"#;
    for line in ["", "garbage", r#"{"type":"hello","id":1}"#, certain] {
        let (mut looked_at, mut other) =
            (TestServer::detecting(REGISTRY, server_setup()), TestServer::detecting(REGISTRY, server_setup()));
        // The loop looks at the first line before it opens upstreams, and again when it processes the line.
        let decided =
            [looked_at.door.settle(line.as_bytes()).is_some(), looked_at.door.settle(line.as_bytes()).is_some()];
        assert_eq!(decided, [line == certain; 2], "{line}");
        assert_eq!(looked_at.line(line), other.line(line), "{line}");
        assert_eq!(looked_at.line(certain), other.line(certain), "{line}");
    }
}
