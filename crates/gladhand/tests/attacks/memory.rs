//! Data of agents: another principal whose agent has the same name sees nothing of it.

use serde_json::{Value, json};

use crate::a2e_agent::{Agent, Prepared, ask, remembered};

const KEPT: [&str; 3] = ["memory", "learning", "planning"];

/// The stored data that an agent sees, after it has added an entry of each kind.
fn sees_after(mut ask: impl FnMut(Value) -> Value, name: &str) -> Value {
    let before = json!({
        "memory": remembered(&mut ask, None),
        "components": ask(json!({"type": "learn/stats/req"}))["components"],
        "plans": ask(json!({"type": "planning/plan/list"}))["plans"].as_array().map(Vec::len),
        "tasks": ask(json!({"type": "planning/task/list"}))["tasks"].as_array().map(Vec::len),
    });
    remembered(&mut ask, Some(("episodic", name)));
    remembered(&mut ask, Some(("semantic", name)));
    let experience = json!({"action": {"component_name": name}, "reward": 1.0});
    ask(json!({"type": "learn/experience/req", "experiences": [experience]}));
    let plan = ask(json!({"type": "planning/plan/create", "name": name}))["plan_id"].clone();
    ask(json!({"type": "planning/task/add", "plan_id": plan, "title": name}));
    before
}

fn nothing() -> Value {
    json!({"memory": [], "components": [], "plans": 0, "tasks": 0})
}

#[test]
fn tokens_of_a2e_are_principals_of_their_own() {
    let tokens = "[a2e]\ntokens = ['one', 'two']\n[[a2e.agents]]\nid = 'ann'\ntoken = 'own'\n\
                  [[a2e.agents]]\nid = 'ann'\ntoken = 'newer'\n";
    let prepared = Prepared::new(tokens);
    let host = prepared.listen(&[]);
    for token in ["one", "two", "own"] {
        let mut agent = Agent::open(&host);
        assert_eq!(agent.shake_hands("ann", &KEPT, token)["ok"], true);
        assert_eq!(sees_after(|request| agent.ask(request), token), nothing(), "{token}");
    }
    host.finish();
    // After a restart, each finds its own again. Both tokens of an agent stand for that agent.
    let host = prepared.listen(&[]);
    for (token, whose) in [("one", "one"), ("two", "two"), ("own", "own"), ("newer", "own")] {
        let mut agent = Agent::open(&host);
        agent.shake_hands("ann", &KEPT, token);
        assert_eq!(remembered(|request| agent.ask(request), None), [json!(whose), json!(whose)], "{token}");
        let plans = agent.ask(json!({"type": "planning/plan/list"}));
        assert_eq!(plans["plans"][0]["name"], whose, "{token}");
    }
    // On standard streams the same tokens stand for the same principals.
    let mut process = prepared.on_streams();
    let hello = json!({"type": "handshake/req", "agent_id": "ann", "agent_caps": KEPT, "auth_token": "one"});
    assert_eq!(ask(&mut process, hello)["ok"], true);
    assert_eq!(remembered(|request| ask(&mut process, request), None), [json!("one"), json!("one")]);
}

#[test]
fn tokens_of_requests_are_principals_of_their_own() {
    let tokens = "[authorization]\ntokens = [{ name = 'alice', token = 'a' }, { name = 'bob', token = 'b' }]\n";
    let prepared = Prepared::new(tokens);
    let host = prepared.listen(&[]);
    for bearer in ["a", "b"] {
        let mut agent = Agent::with_bearer(&host, bearer);
        agent.shake_hands("ann", &KEPT, "");
        assert_eq!(sees_after(|request| agent.ask(request), bearer), nothing(), "{bearer}");
    }
    for bearer in ["a", "b"] {
        let mut agent = Agent::with_bearer(&host, bearer);
        agent.shake_hands("ann", &KEPT, "");
        assert_eq!(remembered(|request| agent.ask(request), None), [json!(bearer), json!(bearer)], "a new session");
    }
}

#[test]
fn an_agent_without_a_token_over_http_sees_no_data_of_the_local_user() {
    let prepared = Prepared::new("");
    let hello = json!({"type": "handshake/req", "agent_id": "ann", "agent_caps": KEPT});
    let mut process = prepared.on_streams();
    ask(&mut process, hello.clone());
    assert_eq!(sees_after(|request| ask(&mut process, request), "local"), nothing());
    assert_eq!(process.finish().0, 0);
    let host = prepared.listen(&[]);
    let mut agent = Agent::open(&host);
    agent.shake_hands("ann", &KEPT, "local");
    assert_eq!(sees_after(|request| agent.ask(request), "stranger"), nothing());
    host.finish();
    let mut process = prepared.on_streams();
    ask(&mut process, hello);
    assert_eq!(remembered(|request| ask(&mut process, request), None), [json!("local"), json!("local")]);
}

#[test]
fn agents_of_one_principal_share_everything_except_private_memory() {
    let agents = "[[a2e.agents]]\nid = 'ann'\ntoken = 'a'\nprincipal = 'team'\n\
                  [[a2e.agents]]\nid = 'bob'\ntoken = 'b'\nprincipal = 'team'\n\
                  [[a2e.agents]]\nid = 'eve'\ntoken = 'e'\n";
    let prepared = Prepared::new(agents);
    let host = prepared.listen(&[]);
    let mut ann = Agent::open(&host);
    ann.shake_hands("ann", &KEPT, "a");
    sees_after(|request| ann.ask(request), "ann");
    let mut bob = Agent::open(&host);
    bob.shake_hands("bob", &KEPT, "b");
    assert_eq!(remembered(|request| bob.ask(request), None), [json!("ann")], "semantic memory alone");
    assert_eq!(bob.ask(json!({"type": "planning/plan/list"}))["plans"][0]["name"], "ann");
    let mut eve = Agent::open(&host);
    eve.shake_hands("eve", &KEPT, "e");
    assert_eq!(sees_after(|request| eve.ask(request), "eve"), nothing());
}

#[test]
fn stored_files_do_not_contain_the_token() {
    let prepared = Prepared::new("[a2e]\ntokens = ['a-token-that-nobody-else-has']\n");
    let host = prepared.listen(&[]);
    let mut agent = Agent::open(&host);
    agent.shake_hands("ann", &KEPT, "a-token-that-nobody-else-has");
    sees_after(|request| agent.ask(request), "x");
    host.finish();
    for file in std::fs::read_dir(prepared.path().join("data")).unwrap().flatten().filter(|file| file.path().is_file())
    {
        let bytes = std::fs::read(file.path()).unwrap();
        assert!(!String::from_utf8_lossy(&bytes).contains("a-token-that-nobody"), "{:?}", file.path());
    }
}
