//! Tests of both sides of A2E, separately and against each other.

mod calls;
mod capabilities;
mod client;
mod conversions;
mod opening;

use gladhand_core::Secret;
use serde_json::{Value, json};

use super::DIALECT;
use crate::side::{Pass, ServerSetup};
use crate::testing::{TestServer, server_setup};

const HELLO: &str = r#"{"type":"handshake/req","id":"h","agent_id":"probe","agent_caps":["tools"]}"#;

fn with_token() -> ServerSetup {
    ServerSetup { passes: ["dev-secret", ""].map(|token| Pass::any(Secret::new(token))).into(), ..server_setup() }
}

/// A server that keeps calls pending until the test resolves them.
fn holding(setup: ServerSetup) -> TestServer {
    let mut server = TestServer::pinned(&DIALECT, setup);
    server.answers_itself = false;
    server
}

/// A server with an open session.
fn open(setup: ServerSetup) -> TestServer {
    let mut server = holding(setup);
    assert_eq!(say(&mut server, HELLO)[0]["ok"], json!(true));
    server
}

/// The answer to a line, without the envelopes.
fn say(server: &mut TestServer, line: &str) -> Vec<Value> {
    bodies(&server.bytes(line.as_bytes()))
}

/// Messages without their envelopes, which are checked here.
fn bodies(lines: &[String]) -> Vec<Value> {
    lines.iter().map(|line| body(line)).collect()
}

fn body(line: &str) -> Value {
    assert!(line.is_ascii() && line.starts_with(r#"{"type":""#), "{line}");
    let mut message: Value = serde_json::from_str(line).unwrap();
    let object = message.as_object_mut().unwrap();
    let id = object.remove("id").unwrap();
    assert!(id.as_str().is_some_and(|id| id.len() == 32 && id.bytes().all(|b| b.is_ascii_hexdigit())), "{line}");
    assert_eq!(object.remove("version"), Some(json!("1.0")));
    assert_eq!(object.remove("a2e"), Some(json!("1.0")));
    assert!(object.remove("ts").unwrap().is_f64());
    message
}

/// The request id, the code and the kind of an error, for tables.
fn error_of(message: &Value) -> (String, String, String) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    for field in ["req_id", "code", "message", "detail", "retryable", "capability_name"] {
        assert!(!message[field].is_null(), "{field} in {message}");
    }
    (text(&message["req_id"]), text(&message["code"]), text(&message["detail"]["kind"]))
}

#[test]
fn first_lines_are_claimed_by_their_types() {
    use crate::side::{Claim, FirstLine};
    let cases = [
        (r#"{"type":"handshake/req"}"#, Claim::Certain),
        (r#"{"type":"ping","id":"p"}"#, Claim::Certain),
        (r#"{"type":"planning/plan/list"}"#, Claim::Certain),
        (r#"{"type":"SUBAGENT_LIST_REQ"}"#, Claim::Certain),
        (r#"{"a2e":"1.0"}"#, Claim::Certain),
        (r#"{"a2e":1}"#, Claim::No),
        (r#"{"type":"error","req_id":"x"}"#, Claim::Certain),
        (r#"{"type":"error","version":"1.0"}"#, Claim::Certain),
        (r#"{"type":"error","id":"1"}"#, Claim::No),
        (r#"{"type":"handshake","id":"1"}"#, Claim::No),
        (r#"{"type":"no/such/type"}"#, Claim::Plausible),
        (r#"{"type":"request","tool":"a/b"}"#, Claim::No),
        (r#"{"method":"ping","id":1}"#, Claim::No),
        (r#"{"type":7}"#, Claim::No),
        ("[]", Claim::No),
    ];
    for (text, expected) in cases {
        let members = gladhand_core::wire::Members::parse(text).ok();
        assert_eq!((DIALECT.claim)(&FirstLine { text, members }), expected, "{text}");
    }
}
