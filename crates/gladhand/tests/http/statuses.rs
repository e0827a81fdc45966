//! Which status answers what, in both eras.

use serde_json::{Value, json};

use crate::client::{ACCEPT, Connection, Response, STATELESS, open_session, stateless, stateless_call};
use crate::server::Program;
use crate::support::{mcp_call, mcp_initialize};

const PING: &str = r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#;
const JSON: (&str, &str) = ("Content-Type", "application/json");

/// The status, and that the body is a JSON-RPC error for this id.
fn refused(response: &Response, id: Value) -> (u16, i64) {
    let answer = response.json();
    assert_eq!((&answer["jsonrpc"], &answer["id"]), (&json!("2.0"), &id), "{response:?}");
    assert_eq!(response.header("content-type"), Some("application/json"));
    (response.status, answer["error"]["code"].as_i64().expect("a code"))
}

#[test]
fn a_session_is_opened_used_and_ended() {
    let program = Program::start(&[]);
    let mut connection = program.connect();
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let session = open_session(&mut connection, version);
        assert_eq!(session.len(), 32);
        let headers = [("Mcp-Session-Id", session.as_str()), ("MCP-Protocol-Version", version)];
        let pong = connection.post(&headers, PING);
        assert_eq!((pong.status, pong.json()), (200, json!({"jsonrpc": "2.0", "id": 7, "result": {}})));
        let echoed = connection.post(&headers, &mcp_call(8, "echo", r#"{"message":"hé"}"#));
        assert_eq!(echoed.json()["result"]["content"][0]["text"], "hé");
        assert_eq!(connection.ask("DELETE", "/mcp", &headers, "").status, 204);
        for response in [
            connection.post(&headers, PING),
            connection.ask("DELETE", "/mcp", &headers, ""),
            connection.ask("GET", "/mcp", &headers, ""),
        ] {
            assert_eq!(refused(&response, Value::Null), (404, -32600));
        }
    }
}

#[test]
fn a_request_without_a_session_id_is_refused_with_the_reason() {
    let program = Program::start(&[]);
    let mut connection = program.connect();
    for response in [
        connection.post(&[], PING),
        connection.post(&[], r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#),
        connection.ask("GET", "/mcp", &[("Accept", "text/event-stream")], ""),
        connection.ask("DELETE", "/mcp", &[], ""),
    ] {
        assert_eq!(refused(&response, Value::Null), (400, -32600));
    }
    for session in ["nonsense", "00000000000000000000000000000000", "", "é"] {
        let response = connection.post(&[("Mcp-Session-Id", session)], PING);
        assert_eq!(refused(&response, Value::Null), (404, -32600), "{session}");
    }
    let refusal = connection.post(&[], r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}"#);
    assert_eq!((refused(&refusal, json!(0)), refusal.header("mcp-session-id")), ((200, -32602), None));
}

#[test]
fn messages_without_an_answer_are_accepted() {
    let program = Program::start(&[]);
    let mut connection = program.connect();
    let session = open_session(&mut connection, "2025-03-26");
    for body in [
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}}"#,
        r#"{"jsonrpc":"2.0","id":"ours","result":{}}"#,
        r#"{"jsonrpc":"2.0","id":"ours","error":{"code":1,"message":"no"}}"#,
        r#"[{"jsonrpc":"2.0","id":"ours","result":{}}]"#,
    ] {
        let response = connection.post(&[("Mcp-Session-Id", &session)], body);
        assert_eq!((response.status, response.body.as_str()), (202, ""), "{body}");
    }
    let batch = format!("[{PING},{}]", mcp_call(8, "echo", r#"{"message":"x"}"#));
    let answers = connection.post(&[("Mcp-Session-Id", &session)], &batch);
    assert_eq!((answers.status, answers.json()[1]["id"].clone()), (200, json!(8)), "{answers:?}");
}

#[test]
fn types_and_versions_must_be_right() {
    let program = Program::start(&[]);
    let mut connection = program.connect();
    let session = open_session(&mut connection, "2025-11-25");
    let id = ("Mcp-Session-Id", session.as_str());
    let mut status = |method: &str, headers: &[(&str, &str)]| {
        let response = connection.ask(method, "/mcp", headers, if method == "POST" { PING } else { "" });
        assert!(response.status < 400 || response.json()["error"].is_object(), "{response:?}");
        response.status
    };
    assert_eq!(status("POST", &[id, JSON, ("Accept", ACCEPT)]), 200);
    assert_eq!(status("POST", &[id, JSON]), 200, "who accepts nothing in particular accepts everything");
    assert_eq!(status("POST", &[id, JSON, ("Accept", "*/*")]), 200);
    assert_eq!(status("POST", &[id, JSON, ("Accept", "application/json")]), 406);
    assert_eq!(status("POST", &[id, JSON, ("Accept", "text/event-stream")]), 406);
    assert_eq!(status("POST", &[id, ("Content-Type", "text/plain"), ("Accept", ACCEPT)]), 415);
    assert_eq!(status("POST", &[id, ("Accept", ACCEPT)]), 415);
    let latin = ("Content-Type", "application/json; charset=iso-8859-1");
    assert_eq!(status("POST", &[id, latin, ("Accept", ACCEPT)]), 415);
    let (json, gzip) = (("Content-Type", "application/json"), ("Content-Encoding", "gzip"));
    assert_eq!(status("POST", &[id, json, gzip, ("Accept", ACCEPT)]), 415);
    assert_eq!(status("POST", &[id, JSON, ("MCP-Protocol-Version", "2025-06-18")]), 200);
    assert_eq!(status("POST", &[id, JSON, ("MCP-Protocol-Version", "1999-01-01")]), 400);
    assert_eq!(status("GET", &[id, ("MCP-Protocol-Version", "1999-01-01")]), 400);
    assert_eq!(status("GET", &[id, ("Accept", "application/json")]), 406);
    assert_eq!(status("PUT", &[id]), 405);
}

#[test]
fn unreadable_bodies_are_answered_without_an_id() {
    let program = Program::start(&[]);
    let mut connection = program.connect();
    let session = open_session(&mut connection, "2025-11-25");
    for headers in [&[][..], &[("Mcp-Session-Id", session.as_str())]] {
        for (body, code) in [("{", -32700), ("", -32700), ("{}", -32600), ("7", -32600), ("[", -32700)] {
            let response = connection.post(headers, body);
            if body.is_empty() {
                assert_eq!(response.status, 400);
                continue;
            }
            assert_eq!(refused(&response, Value::Null), (400, code), "{body}");
        }
    }
    let batch = connection.post(&[("Mcp-Session-Id", &session)], &format!("[{PING}]"));
    assert_eq!(refused(&batch, Value::Null), (400, -32600), "2025-11-25 has no batches");
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    assert_eq!(connection.post(&[("Mcp-Session-Id", &session)], &deep).status, 400);
}

#[test]
fn requests_without_a_session_get_the_statuses_of_their_era() {
    let program = Program::start(&[]);
    let mut connection = program.connect();
    let version = ("MCP-Protocol-Version", STATELESS);
    let (headers, body) = stateless_call(1, "echo", r#"{"message":"x"}"#);
    let answer = connection.post(&headers, &body);
    assert_eq!((answer.status, &answer.json()["result"]["resultType"]), (200, &json!("complete")));
    assert_eq!(answer.header("mcp-session-id"), None);
    // A session id means nothing here.
    let mut with_session = headers.clone();
    with_session.push(("Mcp-Session-Id", "nonsense"));
    assert_eq!(connection.post(&with_session, &body).status, 200);
    assert_eq!(refused(&connection.post(&headers[..2], &body), json!(1)), (400, -32020));
    assert_eq!(refused(&connection.post(&[], &body), json!(1)), (400, -32020));
    let list = stateless(2, "tools/list", "");
    let other = list.replace(STATELESS, "2099-01-01");
    let headers = [("MCP-Protocol-Version", "2099-01-01"), ("Mcp-Method", "tools/list")];
    assert_eq!(refused(&connection.post(&headers, &other), json!(2)), (400, -32022));
    let bare = r#"{"jsonrpc":"2.0","id":3,"method":"tools/list"}"#;
    assert_eq!(refused(&connection.post(&[version, ("Mcp-Method", "tools/list")], bare), json!(3)), (400, -32602));
    for method in ["initialize", "ping", "logging/setLevel", "no/such"] {
        let response = connection.post(&[version, ("Mcp-Method", method)], &stateless(4, method, ""));
        assert_eq!(refused(&response, json!(4)), (404, -32601), "{method}");
    }
    let notification = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
    assert_eq!(connection.post(&[version], notification).status, 202);
    for method in ["GET", "DELETE"] {
        let response = connection.ask(method, "/mcp", &[version], "");
        assert_eq!((response.status, response.header("allow")), (405, Some("POST, OPTIONS")));
    }
}

#[test]
fn other_http_paths_have_their_documented_status() {
    let program = Program::start(&[]);
    let mut connection = program.connect();
    let mut get = |path: &str| {
        let response = connection.ask("GET", path, &[], "");
        (response.status, response.body)
    };
    assert_eq!(get("/healthz"), (200, "ok\n".to_owned()));
    assert_eq!(get("/readyz"), (200, "ready\n".to_owned()));
    assert_eq!(get("/").0, 404);
    assert_eq!(get("/mcp/").0, 404);
}

#[test]
fn a_session_does_not_outlive_its_server() {
    let program = Program::start(&[]);
    let session = open_session(&mut program.connect(), "2025-11-25");
    drop(program);
    let program = Program::start(&[]);
    assert_eq!(program.connect().post(&[("Mcp-Session-Id", &session)], PING).status, 404);
}

#[test]
fn a_second_initialize_is_for_the_session_to_judge() {
    let program = Program::start(&[]);
    let mut connection: Connection = program.connect();
    let session = open_session(&mut connection, "2025-11-25");
    let again = connection.post(&[("Mcp-Session-Id", &session)], &mcp_initialize("2025-11-25"));
    assert_eq!(refused(&again, json!(0)), (200, -32600));
}
