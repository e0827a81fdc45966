//! Policy over HTTP: proven identities, questions without a session, sessions that are ended.

use serde_json::{Value, json};

use crate::client::{Connection, STATELESS, open_session, open_session_with};
use crate::server::Program;
use crate::support::mcp_call;

#[test]
fn rules_of_one_principal_do_not_affect_another() {
    let (server, _folder) = Program::configured(
        r#"
        [authorization]
        tokens = [{ name = "ann", token = "open-sesame" }, { name = "bob", token = "open-barley" }]
        [[policy.rules]]
        name = "not-ann"
        who = ["principal:ann"]
        tools = ["wait"]
        effect = "deny"
        "#,
    );
    let mut connection = server.connect();
    for (token, expected) in
        [("open-sesame", vec!["echo", "agreement"]), ("open-barley", vec!["echo", "agreement", "wait"])]
    {
        let bearer = format!("Bearer {token}");
        let session = open_session_with(&mut connection, "2025-11-25", &[("Authorization", &bearer)]);
        let headers = [("Authorization", bearer.as_str()), ("Mcp-Session-Id", session.as_str())];
        let listed = connection.post(&headers, r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#).json();
        let names: Vec<_> = listed["result"]["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
        assert_eq!(names, expected, "{token}");
        let called = connection.post(&headers, &mcp_call(2, "wait", r#"{"ms":0}"#));
        assert_eq!(called.body.contains("rule `not-ann`"), expected.len() == 2, "{called:?}");
    }
}

const ASKING: &str = "[[policy.rules]]\nname = \"careful\"\ntools = [\"echo\"]\neffect = \"ask\"\n";

#[test]
fn without_a_session_the_question_is_an_answer_and_yes_is_for_this_once() {
    let (server, _folder) = Program::configured(ASKING);
    let mut connection = server.connect();
    let headers = [("MCP-Protocol-Version", STATELESS), ("Mcp-Method", "tools/call"), ("Mcp-Name", "echo")];
    let call = |id: u64| {
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {
            "name": "echo",
            "arguments": {"message": "hi"},
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": STATELESS,
                "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
            },
        }})
    };
    let yes = json!({"action": "accept", "content": {"answer": "yes"}});
    let mut in_advance = call(1);
    in_advance["params"]["inputResponses"] = json!({"consent": yes, "q0": yes, "q1": yes, "q2": yes});
    let asked = connection.post(&headers, &in_advance.to_string()).json();
    let requests = asked["result"]["inputRequests"].as_object().expect("an answer in advance does not count");
    let (name, question) = requests.iter().next().expect("a question");
    assert_eq!(question["params"]["message"], "Allow echo with {\"message\":\"hi\"}?", "{asked}");
    assert_eq!(question["params"]["requestedSchema"]["properties"]["answer"]["enum"], json!(["yes", "no"]));
    let mut retry = call(2);
    retry["params"]["requestState"] = asked["result"]["requestState"].clone();
    retry["params"]["inputResponses"] = json!({ name: yes });
    let answer = last(&mut connection, &headers, &retry);
    assert_eq!(answer["result"]["content"][0]["text"], "hi", "{answer}");
    let again = last(&mut connection, &headers, &call(3));
    assert_eq!(again["result"]["resultType"], "input_required", "{again}");
}

/// The answer to a request, whether it comes alone or as the last event of a stream.
fn last(connection: &mut Connection, headers: &[(&str, &str)], request: &Value) -> Value {
    let answer = connection.post(headers, &request.to_string());
    match answer.body.lines().rev().find_map(|line| line.strip_prefix("data: ")) {
        Some(event) => serde_json::from_str(event).expect("JSON"),
        None => answer.json(),
    }
}

#[test]
fn a_session_that_broke_a_rule_is_known_no_more_and_others_are() {
    let (server, _folder) = Program::configured("[policy]\nviolations = \"enforce\"\n");
    let mut connection = server.connect();
    let (bad, good) = (open_session(&mut connection, "2025-06-18"), open_session(&mut connection, "2025-06-18"));
    let mut post = |session: &str, body: &str| connection.post(&[("Mcp-Session-Id", session)], body);
    let refused = post(&bad, r#"{"jsonrpc":"2.0","id":1,"method":"prompts/list"}"#);
    assert_eq!((refused.status, &refused.json()["error"]["code"]), (200, &json!(-32601)), "{refused:?}");
    let ping = r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#;
    assert_eq!((post(&bad, ping).status, post(&good, ping).status), (404, 200));
}
