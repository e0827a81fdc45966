//! Both eras at one address, at once.

use serde_json::json;

use crate::client::{open_session, stateless_call};
use crate::server::Program;
use crate::support::mcp_call;

#[test]
fn both_eras_are_served_at_one_address_at_once() {
    let program = Program::start(&[]);
    std::thread::scope(|scope| {
        for client in 0..4_u64 {
            let program = &program;
            scope.spawn(move || {
                let mut connection = program.connect();
                let session = (client % 2 == 0).then(|| open_session(&mut connection, "2025-11-25"));
                for round in 0..50 {
                    // The same ids everywhere: nothing may be mixed up.
                    let said = format!("{client}-{round}");
                    let arguments = format!(r#"{{"message":"{said}"}}"#);
                    let answer = match &session {
                        Some(session) => {
                            connection.post(&[("Mcp-Session-Id", session)], &mcp_call(round, "echo", &arguments))
                        }
                        None => {
                            let (headers, body) = stateless_call(round, "echo", &arguments);
                            connection.post(&headers, &body)
                        }
                    };
                    let answer = answer.json();
                    let text = &answer["result"]["content"][0]["text"];
                    assert_eq!((&answer["id"], text), (&json!(round), &json!(said)));
                    assert_eq!(answer["result"]["resultType"].is_string(), session.is_none());
                }
            });
        }
    });
}

#[test]
fn slow_calls_of_both_eras_do_not_delay_each_other() {
    let program = Program::start(&[]);
    let mut slow = program.connect();
    let (headers, body) = stateless_call(1, "wait", r#"{"ms":60000}"#);
    slow.send_post(&headers, &body);
    assert_eq!(slow.head().status, 200);
    let mut connection = program.connect();
    let session = open_session(&mut connection, "2025-06-18");
    for id in 0..20 {
        let echoed = connection.post(&[("Mcp-Session-Id", &session)], &mcp_call(id, "echo", r#"{"message":"x"}"#));
        assert_eq!(echoed.status, 200);
        let (headers, body) = stateless_call(id, "echo", r#"{"message":"x"}"#);
        assert_eq!(connection.post(&headers, &body).status, 200);
    }
}
