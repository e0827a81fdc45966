//! How the line of a script is posted over HTTP: the headers that a correct client adds, and the exchange.

use gladhand_dialects::mcp::http::{METHOD_HEADER, NAME_HEADER, VERSION_HEADER, named_by};
use gladhand_dialects::mcp::revision::Revision;
use gladhand_dialects::{Lane, Posting, PostingEffect};
use serde_json::Value;

/// How a line is posted in a session of this dialect and version. Lines without a number as id get `spare` as lane.
pub(super) fn posting(dialect: &str, version: &str, line: &str, spare: u64) -> Posting {
    let message: Value = serde_json::from_str(line).unwrap_or_default();
    let lane = message.get("id").map(|id| id.as_u64().unwrap_or(spare)).map(Lane);
    let method = message["method"].as_str().unwrap_or_default();
    if dialect != "mcp" {
        return Posting { exchange: lane, ..Posting::default() };
    }
    let effect = match method {
        "initialize" => PostingEffect::Opens,
        "notifications/initialized" => PostingEffect::HasOpened,
        _ => PostingEffect::None,
    };
    let revision = Revision::named(version);
    let mut headers = Vec::new();
    let mut header = |name: &str, value: &str| headers.push((name.to_owned(), value.to_owned()));
    if revision.is_some_and(Revision::is_stateless) {
        let named = message.pointer("/params/_meta/io.modelcontextprotocol~1protocolVersion");
        header(VERSION_HEADER, named.and_then(Value::as_str).unwrap_or(version));
        header(METHOD_HEADER, method);
        if let Some(name) = named_by(method).and_then(|name| message["params"][name].as_str()) {
            header(NAME_HEADER, name);
        }
    } else if method != "initialize" && revision.is_some_and(Revision::has_version_header) {
        header(VERSION_HEADER, version);
    }
    Posting { headers, exchange: lane, effect }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stateless_request_has_the_headers_of_its_members() {
        let line = r#"{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"t","_meta":{"io.modelcontextprotocol/protocolVersion":"2099-12-31"}}}"#;
        let posted = posting("mcp", "2026-07-28", line, 9);
        let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let expected =
            [header(VERSION_HEADER, "2099-12-31"), header(METHOD_HEADER, "tools/call"), header(NAME_HEADER, "t")];
        assert_eq!((posted.headers, posted.exchange), (expected.to_vec(), Some(Lane(5))));
    }

    #[test]
    fn the_version_header_begins_after_initialize() {
        let opening = posting("mcp", "2025-06-18", r#"{"id":1,"method":"initialize"}"#, 9);
        assert_eq!((opening.headers.len(), opening.effect), (0, PostingEffect::Opens));
        let list = posting("mcp", "2025-06-18", r#"{"id":"a","method":"tools/list"}"#, 9);
        assert_eq!((list.headers.len(), list.exchange), (1, Some(Lane(9))));
        assert_eq!(posting("mcp", "2025-03-26", r#"{"id":2,"method":"tools/list"}"#, 9).headers.len(), 0);
    }
}
