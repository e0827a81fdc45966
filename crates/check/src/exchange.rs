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

/// The ids, as JSON, of the client's requests that the server has not answered yet.
pub fn unanswered(dialect: &str, lines: &[Line]) -> Vec<String> {
    let of = |side| lines.iter().filter(move |line| line.from == side);
    let parsed = |line: &Line| serde_json::from_str::<Value>(&line.text).ok();
    // In A2E an event may come before the answer.
    let is_event = |message: &Value| message["type"].as_str().is_some_and(|kind| kind.ends_with("/event"));
    let is_answer = |message: &Value| message.get("method").is_none() && !is_event(message);
    let answers: Vec<Value> = of(Side::Server).filter_map(parsed).filter(is_answer).collect();
    let answer_id = if dialect == "a2e" { "req_id" } else { "id" };
    let wants_answer = |request: &Value| match dialect {
        "a2e" => request["type"].as_str().is_some_and(|kind| kind == "ping" || kind.ends_with("/req")),
        "fluxloop" => request.get("type").is_some(),
        _ => request.get("method").is_some(),
    };
    let requests = of(Side::Client).filter_map(parsed).filter(wants_answer);
    let ids = requests.filter_map(|request| request.get("id").cloned());
    ids.filter(|id| !answers.iter().any(|answer| answer.get(answer_id) == Some(id))).map(|id| id.to_string()).collect()
}
