//! The older pair of addresses.

use serde_json::json;

use crate::server::Program;
use crate::support::{MCP_INITIALIZED, mcp_call, mcp_initialize};

#[test]
fn a_session_lives_and_ends_with_its_stream() {
    let program = Program::start(&[]);
    let mut stream = program.connect();
    stream.send("GET", "/sse", &[("Accept", "text/event-stream")], "");
    assert_eq!(stream.head().header("content-type"), Some("text/event-stream"));
    let endpoint = stream.event().expect("where to post");
    assert_eq!(endpoint.name.as_deref(), Some("endpoint"));
    let path = endpoint.data;
    assert!(path.starts_with("/messages?sessionId="), "{path}");
    let mut connection = program.connect();
    let mut post = |body: &str| {
        let response = connection.ask("POST", &path, &[("Content-Type", "application/json")], body);
        (response.status, response.body)
    };
    assert_eq!(post(&mcp_initialize("2024-11-05")).0, 202);
    let opened = stream.event().expect("an answer");
    assert_eq!(opened.name.as_deref(), Some("message"));
    assert_eq!(opened.json()["result"]["protocolVersion"], "2024-11-05");
    assert_eq!(post(MCP_INITIALIZED).0, 202);
    assert_eq!(post(&mcp_call(1, "wait", r#"{"ms":30}"#)).0, 202);
    assert_eq!(post(&mcp_call(2, "echo", r#"{"message":"x"}"#)).0, 202);
    assert_eq!(stream.event().expect("the quick one").json()["id"], json!(2));
    assert_eq!(stream.event().expect("the slow one").json()["id"], json!(1));
    assert_eq!(post("{"), (400, "the body is no JSON-RPC message\n".to_owned()));
    drop(stream);
    // It takes a moment until the end of the connection is noticed.
    let begun = std::time::Instant::now();
    while post(MCP_INITIALIZED).0 != 404 {
        assert!(begun.elapsed() < crate::support::PATIENCE, "the session does not end");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

#[test]
fn a_session_of_one_transport_is_none_of_the_other() {
    let program = Program::start(&[]);
    let mut connection = program.connect();
    let session = crate::client::open_session(&mut connection, "2025-11-25");
    for path in ["/messages".to_owned(), "/messages?sessionId=x".to_owned(), format!("/messages?sessionId={session}")] {
        assert_eq!(connection.ask("POST", &path, &[], "{}").status, 404, "{path}");
    }
    assert_eq!(connection.ask("POST", "/sse", &[], "").status, 405);
    assert_eq!(connection.ask("GET", "/messages", &[], "").status, 405);
}
