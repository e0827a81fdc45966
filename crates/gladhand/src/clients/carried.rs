//! Settings of other programs beyond the address of a server: which of ours they become, and which have no counterpart.
//!
//! Nothing is dropped silently. A setting without a counterpart is named in a note, unless it has no effect there either.

use serde_json::{Map, Value};

use super::Client;

/// The longest time that a configuration can set, in milliseconds.
const LONGEST_MS: f64 = 86_400_000.0;

/// A second, in milliseconds.
const SECOND: f64 = 1000.0;

/// Claude Code ignores shorter timeouts, in milliseconds.
const CLAUDE_CODE_LEAST_MS: f64 = 1000.0;

/// Members without an effect on a session with the server.
const IDLE: [&str; 9] = ["type", "source", "transport", "dev", "gallery", "version", "name", "description", "icon"];

/// A larger number of seconds is probably meant as milliseconds. Older versions of Zed counted in those.
const MOST_SECONDS: f64 = 1000.0;

/// Takes the timeouts out of an entry, as keys of ours with their values. Timeouts whose unit is not known stay. A note
/// names each one that is longer than a person would choose.
pub(super) fn timeouts(
    server: &mut Map<String, Value>,
    client: Option<Client>,
    notes: &mut Vec<String>,
) -> Vec<(&'static str, Option<Value>)> {
    let mut taken = Vec::new();
    for theirs in ["startup_timeout_sec", "startup_timeout_ms", "tool_timeout_sec", "timeout"] {
        let Some((ours, unit)) = meaning(theirs, client) else { continue };
        let Some(number) = server.get(theirs).and_then(Value::as_f64) else { continue };
        let milliseconds = (number * unit).round();
        let is_ignored_there = client == Some(Client::ClaudeCode) && milliseconds < CLAUDE_CODE_LEAST_MS;
        let is_there_already = taken.iter().any(|(key, _)| *key == ours);
        if (1.0..=LONGEST_MS).contains(&milliseconds) && !is_ignored_there && !is_there_already {
            server.remove(theirs);
            if unit == SECOND && number > MOST_SECONDS {
                notes
                    .push(format!("{theirs} is taken as {number} seconds: if it means milliseconds, correct `{ours}`"));
            }
            taken.push((ours, Some(Value::from(milliseconds as u64))));
        }
    }
    taken
}

/// The key of ours for a timeout, and the number of milliseconds in its unit.
fn meaning(theirs: &str, client: Option<Client>) -> Option<(&'static str, f64)> {
    const CALL: &str = "call_timeout_ms";
    Some(match (theirs, client?) {
        ("startup_timeout_sec", Client::Codex) => ("timeout_ms", SECOND),
        ("startup_timeout_ms", Client::Codex) => ("timeout_ms", 1.0),
        ("tool_timeout_sec", Client::Codex) => (CALL, SECOND),
        ("timeout", Client::Cline | Client::Zed) => (CALL, SECOND),
        ("timeout", Client::GeminiCli | Client::CopilotCli | Client::ClaudeCode) => (CALL, 1.0),
        _ => return None,
    })
}

/// The names that are shown and hidden. For some programs, an empty list of names shows none; for us it shows all.
pub(super) fn names(only: Option<Value>, hide: Option<Value>, client: Option<Client>) -> [Option<Value>; 2] {
    let everything = || Value::from(vec!["*"]);
    let shows_none =
        matches!(client, Some(Client::CopilotCli | Client::Codex)) && only == Some(Value::from(vec![(); 0]));
    match shows_none {
        true => [None, Some(everything())],
        false => [only.filter(|only| *only != everything()), hide],
    }
}

/// A note about members that are not taken over, if there are some.
pub(super) fn left_behind(server: &Map<String, Value>) -> Option<String> {
    let left: Vec<_> = server
        .iter()
        .filter(|(key, value)| !IDLE.contains(&key.as_str()) && !is_nothing(value))
        .map(|(key, _)| reason(key).map_or_else(|| key.clone(), |why| format!("{key} ({why})")))
        .collect();
    (!left.is_empty()).then(|| format!("not taken over: {}", left.join(", ")))
}

/// Whether a value says nothing.
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

/// Why a member has no counterpart, and what to do about it.
fn reason(key: &str) -> Option<&'static str> {
    Some(match key {
        "alwaysAllow" | "autoApprove" | "autoApproved" | "trust" => "the client itself decides when to ask",
        "envFile" => "write its variables to `env`",
        "timeout" | "startup_timeout_sec" | "startup_timeout_ms" | "tool_timeout_sec" => {
            "`call_timeout_ms` is the time for a call, `timeout_ms` the one for the start"
        }
        "oauth" | "auth" => "`auth = \"oauth\"` and `gladhand login` sign in",
        "env" => "a server at a URL has no variables",
        "cwd" => "a server at a URL has no folder",
        "headers" | "http_headers" => "only a server at a URL has headers",
        "url" | "serverUrl" | "httpUrl" => "the command is used",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn taken(server: Value, client: Client) -> (Value, Option<String>) {
        let Value::Object(mut server) = server else { panic!("no object") };
        let taken = timeouts(&mut server, Some(client), &mut Vec::new());
        let taken = taken.into_iter().map(|(key, value)| (key.to_owned(), value.unwrap_or_default()));
        (taken.collect(), left_behind(&server))
    }

    #[test]
    fn timeouts_become_milliseconds_in_the_unit_of_their_program() {
        for (server, client, expected) in [
            (json!({"timeout": 90}), Client::Cline, json!({"call_timeout_ms": 90_000})),
            (json!({"timeout": 90}), Client::Zed, json!({"call_timeout_ms": 90_000})),
            (json!({"timeout": 90_000}), Client::GeminiCli, json!({"call_timeout_ms": 90_000})),
            (json!({"timeout": 90_000}), Client::CopilotCli, json!({"call_timeout_ms": 90_000})),
            (json!({"timeout": 90_000}), Client::ClaudeCode, json!({"call_timeout_ms": 90_000})),
            (
                json!({"startup_timeout_sec": 1.5, "startup_timeout_ms": 3, "tool_timeout_sec": 60}),
                Client::Codex,
                json!({"timeout_ms": 1500, "call_timeout_ms": 60_000}),
            ),
        ] {
            assert_eq!(taken(server.clone(), client).0, expected, "{server} of {client:?}");
        }
        for (server, client) in [
            (json!({"timeout": 90}), Client::Cursor),
            (json!({"timeout": 0}), Client::Cline),
            (json!({"timeout": -1}), Client::Cline),
            (json!({"timeout": "soon"}), Client::Cline),
            (json!({"timeout": 100_000}), Client::Cline),
            (json!({"timeout": 500}), Client::ClaudeCode),
        ] {
            let (none, note) = taken(server.clone(), client);
            assert_eq!(none, json!({}), "{server} of {client:?}");
            assert!(note.unwrap_or_default().starts_with("not taken over: timeout ("), "{server} of {client:?}");
        }
    }

    #[test]
    fn a_timeout_of_many_seconds_is_noted() {
        let notes = |timeout: u64, client: Client| {
            let mut notes = Vec::new();
            timeouts(&mut Map::from_iter([("timeout".to_owned(), json!(timeout))]), Some(client), &mut notes);
            notes
        };
        let expected = "timeout is taken as 60000 seconds: if it means milliseconds, correct `call_timeout_ms`";
        assert_eq!(notes(60_000, Client::Zed), [expected]);
        assert!(notes(60, Client::Zed).is_empty() && notes(60_000, Client::GeminiCli).is_empty());
    }

    #[test]
    fn an_imported_setting_without_a_counterpart_is_named_unless_it_is_empty() {
        let note = |server| taken(server, Client::Cursor).1;
        assert_eq!(
            note(json!({"type": "stdio", "alwaysAllow": [], "settings": {}, "trust": false, "dev": {"a": 1}})),
            None
        );
        assert_eq!(
            note(json!({"alwaysAllow": ["x"], "envFile": ".env", "strange": 1})).as_deref(),
            Some(
                "not taken over: alwaysAllow (the client itself decides when to ask), envFile (write its variables to \
                 `env`), strange"
            )
        );
    }

    #[test]
    fn an_empty_list_of_tools_shows_none_where_it_means_that() {
        let none = || Some(json!([]));
        assert_eq!(names(none(), None, Some(Client::CopilotCli)), [None, Some(json!(["*"]))]);
        assert_eq!(names(none(), None, Some(Client::GeminiCli)), [none(), None]);
        assert_eq!(names(Some(json!(["*"])), None, Some(Client::CopilotCli)), [None, None]);
    }
}
