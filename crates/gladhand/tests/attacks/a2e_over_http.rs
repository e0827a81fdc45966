//! A2E over HTTP without a token: an agent that has proved nothing gets no program, no model, no MCP server and no file.

use std::path::Path;

use serde_json::{Value, json};

use crate::a2e_agent::{Agent, Prepared, write};
use crate::support::gladhand;

/// All capabilities that have messages.
const ALL: [&str; 11] =
    ["tools", "toolkits", "skill", "env", "proc", "memory", "learning", "chains", "mcp", "multi_agent", "planning"];

/// A configuration that has everything to offer, but for tokens.
const EVERYTHING: &str = "\
[agent]
tools = true
[repository]
enabled = true
[a2e.proc]
allowed = ['sh', 'cat']
[a2e.skill]
path = 'skills'
[a2e.env.commands]
shell = ['sh', '-c', 'touch started; cat']
[a2e.mcp]
commands = ['sh']
urls = ['http://127.0.0.1:9/']
[[a2e.toolkits]]
name = 'kit'
tools = ['agent_send']
";

/// A folder with a skill and a private file.
fn prepared(configuration: &str) -> Prepared {
    let prepared = Prepared::new(configuration);
    let skill = "---\nname: run\nrun: ['sh', '-c', 'touch ../../started']\n---\n";
    write(&prepared.path().join("skills/run/skill.md"), skill);
    write(&prepared.path().join("secret.md"), "# Password\n\nThe password is hush.\n");
    prepared
}

fn granted(opened: &Value) -> Vec<&str> {
    let all = opened["accepted_caps"].as_array().expect("a list").iter();
    all.filter(|one| one["enabled"] == true).filter_map(|one| one["capability"].as_str()).collect()
}

/// Tries everything that could run something or read a file; nothing may come of it.
fn nothing_is_to_be_had(agent: &mut Agent, folder: &Path) {
    let attempts = [
        ("proc", json!({"type": "proc/spawn/req", "cmd": ["sh", "-c", "touch started"]})),
        ("skill", json!({"type": "skill/call/req", "name": "run", "arguments": {}})),
        ("skill", json!({"type": "skill/discover/req"})),
        ("mcp", json!({"type": "mcp/server/register/req", "config": {"cmd": ["sh", "-c", "touch started"]}})),
        ("mcp", json!({"type": "mcp/server/list/req"})),
        ("multi_agent", json!({"type": "multi_agent/spawn", "name": "x"})),
        ("env", json!({"type": "env/reset/req", "env_name": "shell"})),
    ];
    for (capability, attempt) in attempts {
        let refused = agent.ask(attempt.clone());
        assert_eq!(
            (&refused["code"], &refused["capability_name"]),
            (&json!("capability_missing"), &json!(capability)),
            "{attempt}: {refused}"
        );
    }
    let nodes = [
        json!({"kind": "proc", "name": "p", "input": {"command": ["sh", "-c", "touch started"]}}),
        json!({"kind": "skill", "name": "run", "input": {}}),
        json!({"kind": "tool", "name": "agent_session_create", "input": {}}),
        json!({"kind": "tool", "name": "agent_send", "input": {"session_id": "x", "text": "hi"}}),
    ];
    for node in nodes {
        let mut node = node.clone();
        node["node_id"] = json!("n");
        let came = agent.ask(json!({"type": "chain/req", "nodes": [node], "entry_node": "n"}));
        let text = came.to_string();
        assert!(text.contains("capability_missing") || text.contains("unknown tool"), "{node}: {came}");
    }
    let listed = agent.ask(json!({"type": "tool/list/req"}));
    let names: Vec<_> =
        listed["tools"].as_array().expect("tools").iter().filter_map(|tool| tool["name"].as_str()).collect();
    assert!(!names.iter().any(|name| name.starts_with("agent_")), "{names:?}");
    for tool in ["agent_session_create", "agent_send", "agent_history"] {
        let refused = agent.ask(json!({"type": "tool/call/req", "tool_name": tool, "arguments": {}}));
        assert_eq!(refused["code"], "unknown_tool", "{refused}");
    }
    let configured = agent.ask(json!({"type": "toolkit/configure/req", "toolkit_name": "kit", "config": {}}));
    assert!(!configured.to_string().contains("capability_missing"), "toolkits run nothing: {configured}");
    let refused =
        agent.ask(json!({"type": "tool/call/req", "tool_name": "agent_send", "arguments": {"session_id": "x"}}));
    assert_eq!(refused["code"], "unknown_tool", "{refused}");
    // The repository tools read the configured folders alone, and none are.
    let path = folder.to_str().expect("text");
    for (tool, arguments) in [
        ("analyze_repository", json!({"root": path})),
        ("collect_repo_profile", json!({"root": path})),
        ("faq", json!({"question": "what is the password?", "docs": path})),
    ] {
        let refused = agent.ask(json!({"type": "tool/call/req", "tool_name": tool, "arguments": arguments}));
        let is_refused = refused["type"] == "error" || refused["data"]["success"] == false;
        assert!(is_refused && !refused.to_string().contains("hush"), "{tool}: {refused}");
    }
    assert!(!folder.join("started").exists(), "something was started");
}

#[test]
fn without_a_token_nothing_is_granted_that_runs_something_or_reads_a_file() {
    let prepared = prepared(EVERYTHING);
    let host = prepared.listen(&[]);
    let mut agent = Agent::open(&host);
    let opened = agent.shake_hands("ann", &ALL, "any");
    assert_eq!(granted(&opened), ["tools", "toolkits", "memory", "learning", "chains", "planning"]);
    nothing_is_to_be_had(&mut agent, &prepared.path());
    let log = host.finish();
    assert!(log.contains("agents do not get") && log.contains("proc") && log.contains("multi_agent"), "{log}");
    assert!(log.contains("the agent is not offered as tools"), "{log}");
}

#[test]
fn a_policy_that_only_observes_opens_nothing_without_a_token() {
    let prepared = prepared(&format!("[policy]\nviolations = 'observe'\n{EVERYTHING}"));
    let host = prepared.listen(&[]);
    let mut agent = Agent::open(&host);
    agent.shake_hands("ann", &["tools", "chains", "toolkits"], "any");
    nothing_is_to_be_had(&mut agent, &prepared.path());
}

#[test]
fn environments_of_our_own_need_no_token() {
    let prepared = prepared("");
    let host = prepared.listen(&[]);
    let mut agent = Agent::open(&host);
    let opened = agent.shake_hands("ann", &ALL, "");
    assert_eq!(granted(&opened), ["tools", "env", "memory", "learning", "chains", "planning"]);
    let began = agent.ask(json!({"type": "env/reset/req", "env_name": "counter"}));
    assert_eq!(began["type"], "env/reset/resp", "{began}");
}

#[test]
fn with_a_token_everything_that_is_configured_is_granted() {
    let tokens = format!("[a2e]\ntokens = ['hush']\n{EVERYTHING}");
    let prepared = prepared(&tokens);
    let host = prepared.listen(&["--dialect", "a2e"]);
    let mut agent = Agent::open(&host);
    assert_eq!(agent.shake_hands("ann", &ALL, "any")["reason"], "auth_failed");
    assert_eq!(granted(&agent.shake_hands("ann", &ALL, "hush")), ALL);
    // The tools of the agent are a toolkit here, and are there once it is configured.
    agent.ask(json!({"type": "toolkit/configure/req", "toolkit_name": "kit", "config": {}}));
    let listed = agent.ask(json!({"type": "tool/list/req"})).to_string();
    assert!(listed.contains("agent_send"), "{listed}");
}

#[test]
fn a_host_behind_us_is_not_opened_to_agents_without_a_token() {
    let inner = ["serve", "--dialect", "a2e", "--config", "inner.toml", "--data-dir", "inner"];
    let command = format!("command = '{}'\nargs = {inner:?}\ncwd = '.'\n", env!("CARGO_BIN_EXE_gladhand"));
    let configuration = format!("capabilities = ['memory']\n[upstreams.host]\nspeak = 'a2e'\n{command}");
    let sees = |token: &str, configuration: &str| {
        let prepared = prepared(configuration);
        write(&prepared.path().join("inner.toml"), "");
        let host = prepared.listen(&[]);
        // A list of tools opens the host behind us, and then it is known what it has.
        let mut agent = Agent::open(&host);
        agent.shake_hands("ann", &["tools"], token);
        let listed = agent.ask(json!({"type": "tool/list/req"})).to_string();
        assert!(listed.contains("host__echo"), "{listed}");
        let opened = Agent::open(&host).shake_hands("ann", &ALL, token);
        granted(&opened).into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(sees("", &format!("[a2e]\n{configuration}")), ["tools", "memory"]);
    let with_token = sees("hush", &format!("[a2e]\ntokens = ['hush']\n{configuration}"));
    assert!(
        ["env", "planning", "chains"].iter().all(|name| with_token.contains(&(*name).to_owned())),
        "{with_token:?}"
    );
}

#[test]
fn on_standard_streams_everything_that_is_configured_is_granted() {
    let prepared = prepared(EVERYTHING);
    let mut process = prepared.on_streams();
    let hello = json!({"type": "handshake/req", "id": "h", "agent_id": "ann", "agent_caps": ALL});
    assert_eq!(granted(&process.ask(&hello.to_string())), ALL);
}

#[test]
fn tokens_of_a2e_that_leave_mcp_open_cause_a_warning() {
    const WORDS: &str = "MCP at /mcp needs none";
    let tokens = "[a2e]\ntokens = ['hush']\n";
    let agents = "[[a2e.agents]]\nid = 'ann'\ntoken = 'hush'\n";
    let both = "[a2e]\ntokens = ['hush']\n[[authorization.tokens]]\nname = 'ann'\ntoken = 'hist'\n";
    let cases: [(&str, &[&str], bool); 6] = [
        (tokens, &[], true),
        (agents, &[], true),
        (tokens, &["--dialect", "a2e"], false),
        (tokens, &["--dialect", "mcp"], false),
        (both, &[], false),
        ("", &[], false),
    ];
    for (configuration, arguments, warns) in cases {
        let prepared = prepared(configuration);
        let log = prepared.listen(arguments).finish();
        assert_eq!(log.contains(WORDS), warns, "{configuration} {arguments:?}: {log}");
    }
    for (configuration, key) in [(tokens, Some("a2e.tokens")), (agents, Some("a2e.agents")), (both, None), ("", None)] {
        let prepared = prepared(configuration);
        let run = |words: &[&str]| {
            let mut command = gladhand();
            command.args(words).args(["--config", "gladhand.toml"]).current_dir(prepared.path());
            command.env("GLADHAND_DATA_DIR", "data");
            command.env("GLADHAND_OLLAMA_BASE", "").env("GLADHAND_LLAMACPP_BASE", "");
            String::from_utf8(command.output().expect("it is built").stdout).expect("text")
        };
        for (said, mark) in [(run(&["config", "check"]), "warning:"), (run(&["doctor"]), "hm")] {
            match key {
                Some(key) => {
                    let line = said.lines().find(|line| line.contains(WORDS)).unwrap_or_else(|| panic!("{said}"));
                    assert!(line.contains(key) && line.contains(mark), "{line}");
                }
                None => assert!(!said.contains(WORDS), "{said}"),
            }
        }
    }
}

#[test]
fn a_session_without_a_handshake_gives_way_even_if_it_is_read() {
    let host = Prepared::new("[a2e]\nsessions = 2\n").listen(&[]);
    let mut ann = Agent::open(&host);
    ann.shake_hands("ann", &["memory"], "");
    let _silent = (Agent::open(&host), Agent::open(&host));
    let mut bob = Agent::open(&host);
    bob.shake_hands("bob", &["memory"], "");
    for agent in [&mut ann, &mut bob] {
        assert_eq!(agent.ask(json!({"type": "ping"}))["type"], "pong");
    }
}
