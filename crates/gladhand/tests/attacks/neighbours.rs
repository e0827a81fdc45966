//! Neighbours: what one principal does at a shared upstream must not reach another principal.

use serde_json::{Value, json};

use crate::client::{Connection, STATELESS};
use crate::serving::Server;
use crate::support::example;

const TOKENS: &str =
    "[authorization]\ntokens = [{ name = 'ann', token = 'ann-token' }, { name = 'bob', token = 'bob-token' }]\n";

/// A server with one upstream of the handshake era that can be asked to change.
fn shared(options: &str, habits: &[&str]) -> (Server, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut words =
        vec![json!(example("scripted").get_program().to_str()), json!(folder.path().join("log")), json!("handshake")];
    words.extend(habits.iter().map(|habit| json!(habit)));
    let config = format!("{TOKENS}[upstreams.s]\ncommand = {}\n{options}", Value::from(words));
    (Server::start(&config), folder)
}

/// A principal that declares something, with a session or without.
struct Someone {
    connection: Connection,
    bearer: String,
    capabilities: Value,
    session: Option<String>,
}

impl Someone {
    fn new(server: &Server, token: &str, capabilities: Value, has_session: bool) -> Self {
        let bearer = format!("Bearer {token}");
        let mut someone = Self { connection: server.connect(), bearer, capabilities, session: None };
        if has_session {
            let params = json!({"protocolVersion": "2025-11-25", "capabilities": someone.capabilities,
                "clientInfo": {"name": "c", "version": "1"}});
            let body = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}).to_string();
            let opened = someone.connection.post(&[("Authorization", &someone.bearer)], &body);
            someone.session = Some(opened.header("mcp-session-id").expect("a session").to_owned());
            let headers = [
                ("Authorization", someone.bearer.as_str()),
                ("Mcp-Session-Id", someone.session.as_deref().expect("it has one")),
            ];
            someone.connection.post(&headers, crate::support::MCP_INITIALIZED);
        }
        someone
    }

    /// The whole answer to a request, as text.
    fn ask(&mut self, method: &str, mut params: Value) -> String {
        let mut headers = vec![("Authorization", self.bearer.as_str())];
        let name = params["name"].as_str().map(str::to_owned).unwrap_or_default();
        match &self.session {
            Some(session) => headers.push(("Mcp-Session-Id", session)),
            None => {
                headers.extend([("MCP-Protocol-Version", STATELESS), ("Mcp-Method", method)]);
                if !name.is_empty() {
                    headers.push(("Mcp-Name", &name));
                }
                params["_meta"] = json!({
                    "io.modelcontextprotocol/protocolVersion": STATELESS,
                    "io.modelcontextprotocol/clientCapabilities": self.capabilities,
                    "io.modelcontextprotocol/clientInfo": {"name": "c", "version": "1"},
                });
            }
        }
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
        self.connection.post(&headers, &body).body
    }

    fn call(&mut self, tool: &str) -> String {
        self.ask("tools/call", json!({"name": tool, "arguments": {}}))
    }
}

#[test]
fn tools_added_by_a_call_of_one_principal_are_listed_to_no_other() {
    for (options, habits) in [("", &[][..]), ("isolated = true\n", &[]), ("", &["changes-quietly"])] {
        let (server, _folder) = shared(options, habits);
        let asked = json!({"elicitation": {}});
        let mut ann = Someone::new(&server, "ann-token", asked.clone(), false);
        assert!(ann.call("s__grow").contains("grown"));
        crate::serving::until("ann sees it", || ann.ask("tools/list", json!({})).contains("s__grown"));
        for has_session in [true, false] {
            for capabilities in [json!({}), asked.clone()] {
                let mut bob = Someone::new(&server, "bob-token", capabilities, has_session);
                let listed = bob.ask("tools/list", json!({}));
                assert!(listed.contains("s__grow\"") && !listed.contains("s__grown"), "{options}{habits:?}: {listed}");
            }
        }
    }
}

#[test]
fn failures_of_a_hidden_upstream_are_not_shown_to_the_principal() {
    let vault = "[upstreams.vault]\ncommand = ['sh', '-c', 'echo payroll.internal >&2; exit 3']\n";
    for hidden in [
        "[[policy.rules]]\nwho = ['principal:bob']\nupstreams = ['vault']\neffect = 'deny'\n",
        "[profiles.p]\nwho = ['principal:bob']\nupstreams = ['other']\n",
    ] {
        let server = Server::start(&format!("{TOKENS}{vault}{hidden}"));
        let mut ann = Someone::new(&server, "ann-token", json!({}), true);
        assert!(ann.call("vault__look").contains("vault"), "ann hears of it");
        let mut bob = Someone::new(&server, "bob-token", json!({}), true);
        for method in ["tools/list", "resources/list", "prompts/list"] {
            let listed = bob.ask(method, json!({}));
            assert!(!listed.contains("vault") && !listed.contains("payroll"), "{method}: {listed}");
        }
        let called = bob.call("vault__look");
        assert!(!called.contains("payroll"), "{called}");
        let unknown = bob.call("vault__other");
        assert!(!unknown.contains("payroll"), "{unknown}");
    }
}
