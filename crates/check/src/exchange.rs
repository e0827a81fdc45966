//! The lines that passed between a client and a server.

use gladhand_core::negotiation::Side;
use serde_json::Value;

/// A recorded exchange: one session, or the attempt to open one.
#[derive(Debug, Clone)]
pub struct Exchange {
    /// The dialect of the client: `mcp`, `a2e`, `loaf` or `fluxloop`.
    pub dialect: String,
    /// The version that the client asked for.
    pub version: String,
    /// Why these lines were sent: the name of a script, or of a session of a recording.
    pub name: String,
    /// The lines, in order.
    pub lines: Vec<Line>,
    /// Whether each side had time to answer. If it had not, a missing answer breaks no rule.
    pub is_complete: bool,
    /// Whether the exchange passed over HTTP.
    pub is_http: bool,
}

/// One line.
#[derive(Debug, Clone)]
pub struct Line {
    /// Who sent it.
    pub from: Side,
    /// Its text, without the line break.
    pub text: String,
    /// Milliseconds since the begin of the exchange.
    pub ms: f64,
    /// The HTTP status under which it came.
    pub status: Option<u16>,
}

/// The id, as JSON, under which a line of the client wants an answer.
pub fn asked_id(dialect: &str, line: &str) -> Option<String> {
    let message: Value = serde_json::from_str(line).ok()?;
    let wants_answer = match dialect {
        "a2e" => message["type"].as_str().is_some_and(|kind| kind == "ping" || kind.ends_with("/req")),
        "fluxloop" => message.get("type").is_some(),
        _ => message.get("method").is_some(),
    };
    message.get("id").filter(|_| wants_answer).map(Value::to_string)
}

/// The id, as JSON, that a line of the server answers.
pub fn answered_id(dialect: &str, line: &str) -> Option<String> {
    let message: Value = serde_json::from_str(line).ok()?;
    // In A2E an event may come before the answer.
    let is_event = message["type"].as_str().is_some_and(|kind| kind.ends_with("/event"));
    let id = message.get(if dialect == "a2e" { "req_id" } else { "id" });
    id.filter(|_| message.get("method").is_none() && !is_event).map(Value::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_and_its_answer_have_the_same_id() {
        let cases = [
            ("mcp", r#"{"id":"a","method":"ping"}"#, r#"{"id":"a","result":{}}"#),
            ("loaf", r#"{"id":null,"method":"system.ping"}"#, r#"{"id":null,"result":{}}"#),
            ("a2e", r#"{"type":"ping","id":"p"}"#, r#"{"type":"pong","id":"x","req_id":"p"}"#),
            ("fluxloop", r#"{"type":"handshake","id":"1"}"#, r#"{"type":"response","id":"1"}"#),
        ];
        for (dialect, request, answer) in cases {
            assert_eq!(asked_id(dialect, request), answered_id(dialect, answer), "{dialect}");
            assert!(asked_id(dialect, request).is_some(), "{dialect}");
        }
    }

    #[test]
    fn notifications_events_and_broken_lines_have_none() {
        assert_eq!(asked_id("mcp", r#"{"method":"notifications/initialized"}"#), None);
        assert_eq!(asked_id("a2e", r#"{"type":"pong","id":"1"}"#), None);
        assert_eq!(answered_id("mcp", r#"{"id":1,"method":"ping"}"#), None);
        assert_eq!(answered_id("a2e", r#"{"type":"tool/event","req_id":"1"}"#), None);
        assert_eq!(answered_id("mcp", "{"), None);
    }
}
