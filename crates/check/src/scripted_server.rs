//! A scripted server, to judge clients with: a pure state machine that answers lines with lines.
//!
//! It serves just enough of a dialect for a client to open a session and to look around, and then sends what shows
//! whether the client keeps the rules: requests that the client did not permit, a ping, a method that does not exist, a
//! list with pages.

use serde_json::{Value, json};

use crate::mcp::base::UNKNOWN_METHOD;
use crate::mcp::opening::UNKNOWN_VERSION;
use crate::mcp::{HANDSHAKE, STATELESS};

/// How a scripted server behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerScript {
    /// An MCP server with a handshake, which knows no other era.
    Handshake,
    /// An MCP server that answers `initialize` with a version that does not exist.
    UnknownVersion,
    /// A stateless MCP server, which refuses the handshake.
    Stateless,
    /// A host of A2E.
    A2e,
    /// A server of loaf.
    Loaf,
    /// A server of Fluxloop.
    Fluxloop,
}

impl ServerScript {
    /// All scripts.
    pub const ALL: [Self; 6] =
        [Self::Handshake, Self::UnknownVersion, Self::Stateless, Self::A2e, Self::Loaf, Self::Fluxloop];

    /// Its name on a command line.
    pub fn word(self) -> &'static str {
        match self {
            Self::Handshake => "mcp-handshake",
            Self::UnknownVersion => "mcp-unknown-version",
            Self::Stateless => "mcp-stateless",
            Self::A2e => "a2e",
            Self::Loaf => "loaf",
            Self::Fluxloop => "fluxloop",
        }
    }

    /// The script of this name.
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|script| script.word() == word)
    }

    /// The dialect that it speaks.
    pub fn dialect(self) -> &'static str {
        match self {
            Self::Handshake | Self::UnknownVersion | Self::Stateless => "mcp",
            Self::A2e => "a2e",
            Self::Loaf => "loaf",
            Self::Fluxloop => "fluxloop",
        }
    }

    /// The version of the dialect that its rules are taken from.
    pub fn version(self) -> &'static str {
        match self {
            Self::Handshake | Self::UnknownVersion => HANDSHAKE[3],
            Self::Stateless => STATELESS,
            Self::A2e => "1.0",
            Self::Loaf => "1.0.0",
            Self::Fluxloop => "0.1.0",
        }
    }
}

/// A scripted server. It keeps no more than a few flags and numbers.
#[derive(Debug)]
pub struct ScriptedServer {
    script: ServerScript,
    /// The version of the session.
    version: &'static str,
    /// The next id of a request or of a message.
    next_id: u64,
}

impl ScriptedServer {
    /// A server that has not been spoken to.
    pub fn new(script: ServerScript) -> Self {
        Self { script, version: HANDSHAKE[3], next_id: 1 }
    }

    /// Answers a line. A line that is not JSON gets no answer.
    pub fn answer(&mut self, line: &str) -> Vec<String> {
        let Ok(message) = serde_json::from_str::<Value>(line) else { return Vec::new() };
        let answers = match self.script {
            ServerScript::Handshake | ServerScript::UnknownVersion => self.handshake_era(&message),
            ServerScript::Stateless => stateless(&message),
            ServerScript::A2e => self.a2e(&message),
            ServerScript::Loaf => loaf(&message),
            ServerScript::Fluxloop => fluxloop(&message),
        };
        answers.into_iter().map(|answer| answer.to_string()).collect()
    }

    fn handshake_era(&mut self, message: &Value) -> Vec<Value> {
        let method = message["method"].as_str().unwrap_or_default();
        if method == "notifications/initialized" {
            return self.questions();
        }
        let Some(id) = message.get("id").filter(|_| message.get("method").is_some()) else { return Vec::new() };
        if method == "initialize" {
            let asked = message["params"]["protocolVersion"].as_str().unwrap_or_default();
            self.version = HANDSHAKE.iter().find(|known| **known == asked).copied().unwrap_or(HANDSHAKE[3]);
            let version = if self.script == ServerScript::UnknownVersion { UNKNOWN_VERSION } else { self.version };
            return vec![result(
                id,
                &json!({
                    "protocolVersion": version,
                    "capabilities": {"tools": {"listChanged": true}},
                    "serverInfo": {"name": "gladhand-check", "version": "1"},
                }),
            )];
        }
        vec![match method {
            "ping" => result(id, &json!({})),
            "tools/list" if message["params"]["cursor"] == "page-2" => result(id, &json!({"tools": [tool("second")]})),
            "tools/list" => result(id, &json!({"tools": [tool("first")], "nextCursor": "page-2"})),
            "tools/call" => result(id, &json!({"content": [{"type": "text", "text": "done"}]})),
            _ => error(id, -32601, "Method not found"),
        }]
    }

    /// Requests that a client answers in any state, and some that it did not permit.
    fn questions(&mut self) -> Vec<Value> {
        let form = json!({"message": "?", "requestedSchema": {"type": "object", "properties": {}}});
        let prompt = json!({"messages": [], "maxTokens": 1});
        let mut asked = vec![("ping", json!({})), (UNKNOWN_METHOD, json!({})), ("roots/list", json!({}))];
        asked.push(("sampling/createMessage", prompt));
        if self.version >= "2025-06-18" {
            asked.push(("elicitation/create", form));
        }
        let request = |(method, params): (&str, Value)| {
            let id = format!("ask-{}", self.next_id);
            self.next_id += 1;
            json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
        };
        asked.into_iter().map(request).collect()
    }

    fn a2e(&mut self, message: &Value) -> Vec<Value> {
        let mut answer = |kind: &str, members: Value| {
            let id = format!("host-{}", self.next_id);
            self.next_id += 1;
            let mut answer =
                json!({"type": kind, "id": id, "version": "1.0", "a2e": "1.0", "ts": 0.0, "req_id": message["id"]});
            if let (Some(answer), Value::Object(members)) = (answer.as_object_mut(), members) {
                answer.extend(members);
            }
            vec![answer]
        };
        match message["type"].as_str().unwrap_or_default() {
            "handshake/req" => answer(
                "handshake/resp",
                json!({
                    "session_id": "session-1",
                    "accepted_caps": [{"capability": "tools", "enabled": true, "metadata": {}}],
                    "max_parallel": 4, "ok": true, "reason": "",
                }),
            ),
            "ping" => answer("pong", json!({"uptime_seconds": 1.0})),
            "tool/list/req" => answer(
                "tool/list/resp",
                json!({"tools": [{
                    "name": "first", "description": "The first tool.", "input_parameters": [], "output_parameters": [],
                    "streaming": false, "idempotent": true, "tags": [], "version": "1.0.0", "toolkit": null,
                    "defer_loading": false,
                }]}),
            ),
            "tool/call/req" => answer(
                "tool/call/resp",
                json!({"data": {
                    "success": true, "tool_name": message["tool_name"], "data": {"value": "done"}, "duration_ms": 1,
                }}),
            ),
            "shutdown" => Vec::new(),
            _ => answer(
                "error",
                json!({"code": "parse_error", "message": "unknown type", "detail": {}, "retryable": false}),
            ),
        }
    }
}

fn result(id: &Value, result: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

fn error(id: &Value, code: i64, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
}

fn tool(name: &str) -> Value {
    json!({"name": name, "description": "A tool that does nothing.", "inputSchema": {"type": "object"}})
}

fn stateless(message: &Value) -> Vec<Value> {
    let Some(id) = message.get("id").filter(|_| message.get("method").is_some()) else { return Vec::new() };
    let complete = |members: Value| {
        let mut complete = json!({
            "resultType": "complete", "ttlMs": 0, "cacheScope": "private",
            "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "gladhand-check", "version": "1"}},
        });
        if let (Some(complete), Value::Object(members)) = (complete.as_object_mut(), members) {
            complete.extend(members);
        }
        result(id, &complete)
    };
    vec![match message["method"].as_str().unwrap_or_default() {
        "initialize" => {
            let data = json!({"supported": [STATELESS], "requested": message["params"]["protocolVersion"]});
            let refusal = json!({"code": -32022, "message": format!("only {STATELESS} is supported"), "data": data});
            json!({"jsonrpc": "2.0", "id": id, "error": refusal})
        }
        "server/discover" => complete(json!({"supportedVersions": [STATELESS], "capabilities": {"tools": {}}})),
        "tools/list" if message["params"]["cursor"] == "page-2" => complete(json!({"tools": [tool("second")]})),
        "tools/list" => complete(json!({"tools": [tool("first")], "nextCursor": "page-2"})),
        "tools/call" => complete(json!({"content": [{"type": "text", "text": "done"}]})),
        _ => error(id, -32601, "Method not found"),
    }]
}

fn loaf(message: &Value) -> Vec<Value> {
    let Some(id) = message.get("id") else { return Vec::new() };
    let methods = ["rpc.handshake", "system.ping", "system.shutdown", "tools.list"];
    vec![match message["method"].as_str().unwrap_or_default() {
        "rpc.handshake" => result(
            id,
            &json!({
                "protocol_version": "1.0.0", "server_name": "loaf", "capabilities": {"events": true}, "methods": methods,
            }),
        ),
        "system.ping" => result(id, &json!({"ok": true, "time": "2026-01-01T00:00:00.000Z"})),
        "system.shutdown" => result(id, &json!({"accepted": true})),
        "tools.list" => result(id, &json!({"tools": []})),
        method => {
            let data = json!({"reason": "method_not_found", "method": method});
            let refusal = json!({"code": -32601, "message": format!("method not found: {method}"), "data": data});
            json!({"jsonrpc": "2.0", "id": id, "error": refusal})
        }
    }]
}

fn fluxloop(message: &Value) -> Vec<Value> {
    let id = &message["id"];
    let handshake = || {
        let capabilities = json!({"tools": ["handshake", "faq"]});
        json!({"type": "response", "id": id, "result": {"name": "gladhand-check", "version": "1", "capabilities": capabilities}})
    };
    let tool = message["tool"].as_str().unwrap_or_default();
    vec![match (message["type"].as_str().unwrap_or_default(), tool) {
        ("handshake", _) | ("request", "handshake") => handshake(),
        ("request", "faq") => {
            json!({"type": "response", "id": id, "result": {"answer": "No relevant information available.", "citations": []}})
        }
        _ => {
            let details = json!({"availableTools": ["handshake", "faq"]});
            let refusal =
                json!({"code": "tool_not_found", "message": format!("Unknown tool: {tool}"), "details": details});
            json!({"type": "error", "id": id, "error": refusal})
        }
    }]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_script_has_a_name_that_finds_it() {
        for script in ServerScript::ALL {
            assert_eq!(ServerScript::named(script.word()), Some(script));
        }
        assert_eq!(ServerScript::named("nosuch"), None);
    }

    #[test]
    fn a_line_that_is_no_message_gets_no_answer() {
        for script in ServerScript::ALL {
            assert!(ScriptedServer::new(script).answer("{").is_empty());
        }
    }

    #[test]
    fn a_list_has_two_pages() {
        let mut server = ScriptedServer::new(ServerScript::Handshake);
        let list = |server: &mut ScriptedServer, params: &str| {
            server.answer(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{params}}}"#))
        };
        assert!(list(&mut server, "{}")[0].contains("page-2"));
        assert!(!list(&mut server, r#"{"cursor":"page-2"}"#)[0].contains("nextCursor"));
    }
}
