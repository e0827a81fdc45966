//! Tests of the answers to wrong input: the cases of the field study "servers, handshake era".

use gladhand_core::wire::Line;
use gladhand_dialects::testing::TestServer;

use crate::*;

/// The answer to a line: nothing, the id and code of an error, or the id of a result.
#[derive(Debug, PartialEq)]
enum Got {
    Nothing,
    Error(Value, i64),
    Result(Value),
}

fn got(lines: Vec<String>) -> Got {
    match lines.len() {
        0 => Got::Nothing,
        1 => {
            let line = value(&lines[0]);
            match line["error"]["code"].as_i64() {
                Some(code) => Got::Error(line["id"].clone(), code),
                None => Got::Result(line["id"].clone()),
            }
        }
        _ => panic!("{lines:?}"),
    }
}

#[test]
fn every_line_has_a_defined_answer_and_the_session_continues() {
    use Got::{Error, Nothing, Result};
    let null = || Value::Null;
    let table: Vec<(&[u8], Got)> = vec![
        // Not JSON, or not UTF-8: a parse error without an id.
        (b"{", Error(null(), -32700)),
        (b"not json", Error(null(), -32700)),
        (br#"{"jsonrpc":"2.0","id":1,"method":"ping"} {}"#, Error(null(), -32700)),
        (br#"{"jsonrpc":"2.0","id":NaN,"method":"ping"}"#, Error(null(), -32700)),
        (b"{\"jsonrpc\":\"2.0\",\"id\":\"\xff\",\"method\":\"ping\"}", Error(null(), -32700)),
        (b"{\"jsonrpc\":\"2.0\",\"id\":\"a\0\",\"method\":\"ping\"}", Error(null(), -32700)),
        // JSON, but not a message.
        (b"42", Error(null(), -32600)),
        (b"null", Error(null(), -32600)),
        (b"\"ping\"", Error(null(), -32600)),
        (b"{}", Error(null(), -32600)),
        (br#"{"jsonrpc":"2.0"}"#, Error(null(), -32600)),
        (br#"{"jsonrpc":"2.0","id":7}"#, Error(7.into(), -32600)),
        (br#"{"id":7,"method":"ping"}"#, Error(7.into(), -32600)),
        (br#"{"jsonrpc":"1.0","id":7,"method":"ping"}"#, Error(7.into(), -32600)),
        (br#"{"jsonrpc":2.0,"id":7,"method":"ping"}"#, Error(7.into(), -32600)),
        (br#"{"jsonrpc":"2.0","id":7,"method":5}"#, Error(7.into(), -32600)),
        // Ids: a string or a number is echoed unchanged. Any other value cannot be echoed.
        (br#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, Error(null(), -32600)),
        (br#"{"jsonrpc":"2.0","id":true,"method":"ping"}"#, Error(null(), -32600)),
        (br#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, Error(null(), -32600)),
        (br#"{"jsonrpc":"2.0","id":[1],"method":"ping"}"#, Error(null(), -32600)),
        (br#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, Result(1.5.into())),
        (br#"{"jsonrpc":"2.0","id":1.0,"method":"ping"}"#, Result(1.0.into())),
        (br#"{"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}"#, Result(9007199254740993u64.into())),
        // Extra members and `params: null` are accepted. Of duplicate keys, the last wins.
        (br#"{"jsonrpc":"2.0","id":7,"method":"ping","extra":[{}],"params":null}"#, Result(7.into())),
        (br#"{"jsonrpc":"2.0","id":7,"id":8,"method":"ping"}"#, Result(8.into())),
        (br#"{"jsonrpc":"2.0","id":7,"method":"ping","params":[]}"#, Error(7.into(), -32602)),
        // CRLF, spaces, a byte-order mark, blank lines.
        (b" {\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\"}\r", Result(7.into())),
        (b"\xef\xbb\xbf{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\"}", Result(7.into())),
        (b"", Nothing),
        (b" \t\r", Nothing),
        // Unknown methods, and notifications sent as requests or in the wrong state.
        (br#"{"jsonrpc":"2.0","id":7,"method":"nosuch/method"}"#, Error(7.into(), -32601)),
        (br#"{"jsonrpc":"2.0","id":7,"method":"prompts/list"}"#, Error(7.into(), -32601)),
        (br#"{"jsonrpc":"2.0","id":7,"method":"resources/read","params":{"uri":"x://y"}}"#, Error(7.into(), -32601)),
        (br#"{"jsonrpc":"2.0","id":7,"method":"completion/complete"}"#, Error(7.into(), -32601)),
        (br#"{"jsonrpc":"2.0","id":7,"method":"notifications/initialized"}"#, Error(7.into(), -32601)),
        (br#"{"jsonrpc":"2.0","method":"tools/list"}"#, Nothing),
        (br#"{"jsonrpc":"2.0","method":"notifications/nosuch"}"#, Nothing),
        (br#"{"jsonrpc":"2.0","id":7,"result":{}}"#, Nothing),
        (br#"{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":"x"}}"#, Nothing),
        (br#"{"jsonrpc":"2.0","id":null,"error":null}"#, Nothing),
        // Tools: an unknown tool is an error, a wrong argument is a result for the model.
        (br#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"nope"}}"#, Error(7.into(), -32602)),
        (br#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{}}"#, Error(7.into(), -32602)),
        (
            br#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":{"message":7}}}"#,
            Result(7.into()),
        ),
        // A batch in a revision without batches.
        (br#"[{"jsonrpc":"2.0","id":7,"method":"ping"}]"#, Error(null(), -32600)),
        (b"[]", Error(null(), -32600)),
    ];
    let mut server = open("2025-11-25");
    for (line, expected) in &table {
        assert_eq!(got(server.bytes(line)), *expected, "{}", String::from_utf8_lossy(line));
        assert_eq!(server.line(PING), [PONG], "after {}", String::from_utf8_lossy(line));
    }
}

#[test]
fn limits_are_answered_and_the_next_line_is_intact() {
    let mut server = open("2025-11-25");
    assert_eq!(got(server.frame(Line::TooLong { limit: 16 })), Got::Error(Value::Null, -32700));
    let deep = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{}{}}}"#, "[".repeat(128), "]".repeat(128));
    assert_eq!(got(server.line(&deep)), Got::Error(Value::Null, -32700));
    let nearly = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"echo","arguments":{{"message":"m","x":{}{}}}}}}}"#,
        "[".repeat(125),
        "]".repeat(125)
    );
    assert_eq!(got(server.line(&nearly)), Got::Result(1.into()));
}

#[test]
fn a_lone_surrogate_is_echoed_as_written_but_is_no_name() {
    let lines = open("2025-11-25")
        .line(r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"\ud83d":1,"name":"echo"}}"#);
    assert_eq!(got(lines), Got::Error(Value::Null, -32700));
    let lines = open("2025-11-25").line(
        r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":{"message":"\ud83d"}}}"#,
    );
    assert_eq!(lines, [r#"{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"\ud83d"}]}}"#]);
}

#[test]
fn wrong_input_before_the_opening_does_not_prevent_it() {
    let lines = [
        "42",
        "{}",
        "{",
        "[]",
        "[1]",
        r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
        INITIALIZED,
        r#"{"jsonrpc":"2.0","id":null,"method":"initialize"}"#,
    ];
    let mut server: TestServer = server();
    for line in lines {
        server.line(line);
    }
    assert_eq!(only(server.line(&initialize("2025-06-18")))["result"]["protocolVersion"], "2025-06-18");
}
