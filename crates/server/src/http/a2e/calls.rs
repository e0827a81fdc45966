//! Facts about a message that are needed before it is accepted.

use gladhand_core::wire::{Members, RawValue};

/// The tools that a message calls, read as our side reads it. One that cannot be read calls nothing: our side refuses it.
pub(super) fn called_tools(message: &[u8]) -> Vec<String> {
    let text = std::str::from_utf8(message).unwrap_or_default();
    let Ok(members) = Members::parse(text) else { return Vec::new() };
    let word = |members: &Members<'_>, name: &str| members.str(name).unwrap_or_default().into_owned();
    match word(&members, "type").as_str() {
        "tool/call/req" => vec![word(&members, "tool_name")],
        "chain/req" => {
            let nodes = members.raw("nodes").and_then(|nodes| serde_json::from_str::<Vec<&RawValue>>(nodes.get()).ok());
            let nodes = nodes.unwrap_or_default().into_iter().filter_map(Members::of);
            nodes.filter(|node| word(node, "kind") == "tool").map(|node| word(&node, "name")).collect()
        }
        _ => Vec::new(),
    }
}

/// A message that stops something and is taken from an agent that does not read has at most this many bytes.
const LONGEST_STOP: usize = 8 * 1024;

/// Whether a message stops something (the session, a process, a subagent), so that it is taken also from an agent that does
/// not read.
pub(super) fn stops_something(message: &[u8]) -> bool {
    if message.len() > LONGEST_STOP {
        return false;
    }
    let text = std::str::from_utf8(message).unwrap_or_default();
    let kind = Members::parse(text).ok().and_then(|members| members.str("type").map(String::from));
    kind.is_some_and(|kind| ["shutdown", "proc/kill/req", "multi_agent/terminate"].contains(&kind.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stops_something_is_told_from_the_rest() {
        assert!(
            stops_something(br#"{"type":"shutdown"}"#) && stops_something(br#"{"type":"proc/kill/req","proc_id":"p"}"#)
        );
        assert!(!stops_something(br#"{"type":"ping"}"#) && !stops_something(b"shutdown"));
        let long = format!(r#"{{"type":"proc/kill/req","proc_id":"{}"}}"#, "p".repeat(LONGEST_STOP));
        assert!(!stops_something(long.as_bytes()));
    }

    #[test]
    fn tools_are_named_by_calls_and_by_chains() {
        let called = |message: &str| called_tools(message.as_bytes());
        assert_eq!(called(r#"{"type":"tool\/call/req","tool_name":"a\u0062","nodes":1}"#), ["ab"]);
        assert_eq!(called(r#"{"type":"x","type":"tool/call/req","tool_name":"a","tool_name":"b"}"#), ["b"]);
        let chain = r#"{"type":"chain/req","nodes":[{"kind":"tool","name":"a"},{"kind":"proc","name":"b"}]}"#;
        assert_eq!(called(chain), ["a"]);
        for other in ["", "{", r#"{"type":"tool/list/req","tool_name":"a"}"#, "[]"] {
            assert!(called(other).is_empty(), "{other}");
        }
    }
}
