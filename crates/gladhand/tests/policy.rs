//! Policy with real processes: what is denied, asked, hidden, bounded, written down and stopped.

mod support;

use std::path::PathBuf;
use std::time::Instant;

use serde_json::{Value, json};
use support::{MCP_INITIALIZED, PATIENCE, Process, gladhand, mcp_call, mcp_initialize};

/// A folder with a configuration.
struct Place(tempfile::TempDir);

impl Place {
    fn with(config: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder for tests");
        std::fs::write(folder.path().join("gladhand.toml"), config).expect("it can be written to");
        Self(folder)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.file(name)).unwrap_or_default()
    }

    fn gladhand(&self, arguments: &[&str]) -> std::process::Command {
        let mut command = gladhand();
        command.args(arguments).current_dir(self.0.path()).env("GLADHAND_DATA_DIR", self.file("data"));
        // A file that is named needs no trust.
        command.env("GLADHAND_CONFIG", "gladhand.toml");
        command
    }

    /// An open session of a client that can be asked, or not.
    fn session(&self, can_be_asked: bool) -> Process {
        let mut process = Process::start(self.gladhand(&["serve"]));
        let capabilities = if can_be_asked { r#"{"elicitation":{}}"# } else { "{}" };
        let opening =
            mcp_initialize("2025-06-18").replace(r#""capabilities":{}"#, &format!(r#""capabilities":{capabilities}"#));
        assert_eq!(process.ask(&opening)["result"]["protocolVersion"], "2025-06-18");
        process.send(MCP_INITIALIZED);
        process
    }

    fn stdout(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let output = self.gladhand(arguments).output().expect("it starts");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned() + &errors)
    }
}

fn echo(id: u64, message: &str) -> String {
    mcp_call(id, "echo", &json!({"message": message}).to_string())
}

fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_default()
}

fn tools(process: &mut Process) -> Vec<String> {
    let answer = process.ask(r#"{"jsonrpc":"2.0","id":"list","method":"tools/list"}"#);
    let tools = answer["result"]["tools"].as_array().expect("a list").iter();
    tools.map(|tool| tool["name"].as_str().expect("a name").to_owned()).collect()
}

#[test]
fn a_denied_call_names_its_rule_and_an_always_denied_tool_is_not_listed() {
    let place = Place::with(
        r#"
        [[policy.rules]]
        name = "no-shouting"
        tools = ["echo"]
        when = 'message ends_with "!"'
        effect = "deny"
        reason = "people sleep here"
        [[policy.rules]]
        name = "no-waiting"
        who = ["test"]
        tools = ["wait"]
        effect = "deny"
        "#,
    );
    let mut process = place.session(false);
    assert_eq!(tools(&mut process), ["echo", "agreement"]);
    assert_eq!(text(&process.ask(&echo(1, "hi"))), "hi");
    let denied = process.ask(&echo(2, "hi!"));
    assert_eq!(denied["result"]["isError"], true, "{denied}");
    assert_eq!(text(&denied), "policy forbids echo (rule `no-shouting`): people sleep here");
    let denied = process.ask(&mcp_call(3, "wait", r#"{"ms":1}"#));
    assert_eq!(text(&denied), "policy forbids wait (rule `no-waiting`)");
}

const ASKING: &str =
    "[[policy.rules]]\nname = \"careful\"\ntools = [\"echo\"]\neffect = \"ask\"\nreason = \"it is loud\"\n";

#[test]
fn a_person_is_asked_by_a_form_and_the_answer_counts() {
    let place = Place::with(ASKING);
    let mut process = place.session(true);
    for (id, answer, expected) in [
        (1, json!({"action": "accept", "content": {"answer": "yes"}}), "hi"),
        (2, json!({"action": "decline"}), "policy forbids echo (rule `careful`): the user did not allow it"),
        (3, json!({"action": "accept", "content": {"answer": "always"}}), "hi"),
    ] {
        let question = process.ask(&echo(id, "hi"));
        assert_eq!(question["method"], "elicitation/create", "{question}");
        let message = question["params"]["message"].as_str().unwrap();
        assert_eq!(message, "Allow echo with {\"message\":\"hi\"}?\nit is loud");
        let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": answer});
        assert_eq!(text(&process.ask(&answer.to_string())), expected);
    }
    assert_eq!(text(&process.ask(&echo(4, "again"))), "again", "always is always");
    let refused = place.session(false).ask(&echo(1, "hi"));
    assert_eq!(
        text(&refused),
        "policy forbids echo (rule `careful`): it is loud; a user must be asked first, and this client cannot ask"
    );
}

#[test]
fn an_exceeded_limit_names_the_time_to_try_again() {
    let place = Place::with("[[policy.limits]]\nname = \"slowly\"\ntools = [\"echo\"]\ncalls = 1\nper_s = 3600\n");
    let mut process = place.session(false);
    assert_eq!(text(&process.ask(&echo(1, "hi"))), "hi");
    let busy = process.ask(&echo(2, "hi")).to_string();
    assert!(busy.contains("echo is limited to 1 calls in 3600 s (limit `slowly`): try again in 3"), "{busy}");
}

#[test]
fn every_call_is_a_line_in_the_audit_file() {
    let place = Place::with(
        r#"
        [audit]
        file = "logs/audit.jsonl"
        [[policy.rules]]
        name = "no-waiting"
        tools = ["wait"]
        effect = "deny"
        "#,
    );
    let mut process = place.session(false);
    process.ask(&echo(1, "a secret"));
    process.ask(&mcp_call(2, "wait", r#"{"ms":1}"#));
    assert_eq!(process.finish().0, 0);
    let text = place.text("logs/audit.jsonl");
    assert!(!text.contains("secret"), "{text}");
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let told = |line: &Value, members: &[&str]| members.iter().map(|name| line[*name].clone()).collect::<Vec<_>>();
    let members = ["client", "dialect", "dialect_version", "upstream", "tool", "own_name", "outcome", "rule"];
    assert_eq!(
        lines.iter().map(|line| told(line, &members)).collect::<Vec<_>>(),
        [
            told(
                &json!({"client": "test", "dialect": "mcp", "dialect_version": "2025-06-18", "upstream": "toolbox", "tool": "echo",
                "own_name": "echo", "outcome": "ok"}),
                &members
            ),
            told(
                &json!({"client": "test", "dialect": "mcp", "dialect_version": "2025-06-18", "upstream": "toolbox", "tool": "wait",
                "own_name": "wait", "outcome": "denied", "rule": "no-waiting"}),
                &members
            ),
        ]
    );
    assert!(lines[0]["time"].as_str().is_some_and(|time| time.ends_with('Z')) && lines[0]["duration_ms"].is_f64());
}

#[test]
fn every_operation_is_a_line_in_the_access_log_without_secrets() {
    let place = Place::with(
        r#"
        [access_log]
        file = "logs/access.jsonl"
        [[policy.rules]]
        name = "no-waiting"
        tools = ["wait"]
        effect = "deny"
        "#,
    );
    let secret = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
    let mut process = place.session(false);
    tools(&mut process);
    process.ask(&echo(1, "hello"));
    process.ask(&mcp_call(2, "wait", r#"{"ms":1}"#));
    process.ask(&mcp_call(3, secret, "{}"));
    process.ask(&mcp_call(4, "echo", r#"{"message":1}"#));
    assert_eq!(process.finish().0, 0);
    let text = place.text("logs/access.jsonl");
    assert!(!text.contains(secret) && !text.contains("hello"), "{text}");
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let told = |line: &Value| {
        let of = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
        [of("client"), of("dialect"), of("dialect_version"), of("operation"), of("tool"), of("outcome")].join(" ")
    };
    assert_eq!(
        lines.iter().map(told).collect::<Vec<_>>(),
        [
            "test mcp 2025-06-18 list tools ok",
            "test mcp 2025-06-18 tool echo ok",
            "test mcp 2025-06-18 tool wait denied",
            "test mcp 2025-06-18 tool *** unknown_tool",
            "test mcp 2025-06-18 tool echo invalid_arguments",
        ]
    );
    let echo = &lines[1];
    assert!(echo["time"].as_str().is_some_and(|time| time.ends_with('Z')) && echo["duration_ms"].is_f64(), "{echo}");
    assert_eq!((&echo["session"], &echo["upstream"]), (&json!(1), &json!("toolbox")));
    assert_eq!((&echo["bytes_in"], echo["bytes_out"].as_u64().is_some_and(|bytes| bytes > 5)), (&json!(19), true));
    assert_eq!(echo.get("principal"), None, "{echo}");
}

#[test]
fn a_changed_tool_is_stopped_until_it_is_approved() {
    let place = Place::with("[policy]\npin = \"stop\"\n");
    assert_eq!(text(&place.session(false).ask(&echo(1, "hi"))), "hi");
    let mut pins: Value = serde_json::from_str(&place.text("data/pins.json")).unwrap();
    pins["toolbox/echo"]["sha256"] = json!("what it was before");
    std::fs::write(place.file("data/pins.json"), pins.to_string()).unwrap();
    let mut process = place.session(false);
    assert_eq!(tools(&mut process), ["agreement", "wait"]);
    let stopped = process.ask(&echo(1, "hi"));
    assert!(text(&stopped).starts_with("echo: the definition changed since 20"), "{stopped}");
    let (_, waiting) = place.stdout(&["policy", "approve"]);
    assert!(waiting.starts_with("echo: known since 20"), "{waiting}");
    assert_eq!(place.stdout(&["policy", "approve", "wait"]).0, Some(2));
    // From anywhere, with the file and the folder named.
    let (config, data) = (place.file("gladhand.toml"), place.file("data"));
    let mut elsewhere = gladhand();
    elsewhere.args(["policy", "approve", "echo", "--config"]).arg(config).arg("--data-dir").arg(data);
    let approved = elsewhere.current_dir("/").output().expect("it starts");
    assert_eq!(String::from_utf8_lossy(&approved.stdout), "approved echo\n", "{approved:?}");
    let begun = Instant::now();
    let mut id = 1;
    loop {
        id += 1;
        process.send(&echo(id, "back"));
        let answer = loop {
            // It may notify that its list has changed, which is ignored here.
            let line = process.value();
            if line["id"] == id {
                break line;
            }
        };
        if text(&answer) == "back" {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "{answer}");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

#[test]
fn a_decision_is_explained() {
    let place = Place::with(
        r#"
        [profiles.readers]
        who = ["client:cursor*"]
        hide = ["git__push"]
        [[policy.rules]]
        name = "alice"
        who = ["principal:alice"]
        effect = "allow"
        [[policy.rules]]
        tools = ["git__*"]
        when = 'branch == "main"'
        effect = "deny"
        reason = "main is protected"
        "#,
    );
    let test = |more: &[&str]| {
        place.stdout(&[&["policy", "test", "git__push", "--args", r#"{"branch":"main"}"#], more].concat())
    };
    let expected = "tool      git__push {\"branch\":\"main\"}\nprincipal -\nclient    cursor-2\nprofile   readers: not seen\n\
                    rule      alice (allow): is about other callers\nrule      #2 (deny): matches\n\
                    decision  deny, by rule `#2`: main is protected\n";
    assert_eq!(test(&["--client", "cursor-2"]), (Some(0), expected.to_owned()));
    let (_, told) = test(&["--principal", "alice", "--json"]);
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!((&told["decision"], &told["seen_as"]), (&json!({"effect": "allow"}), &json!("git__push")));
    std::fs::write(place.file("gladhand.toml"), "[[policy.rules]]\neffect = \"deny\"\nwhen = 'a == '\n").unwrap();
    let (status, told) = test(&[]);
    assert_eq!(status, Some(2));
    assert!(told.contains("line 3, column 8: policy.rules#1.when: at character 6: expected a string"), "{told}");
}

/// A request for what was never agreed: the toolbox has no prompts.
const NOT_AGREED: &str = r#"{"jsonrpc":"2.0","id":7,"method":"prompts/list"}"#;

#[test]
fn an_unagreed_request_is_handled_as_the_violations_setting_requires() {
    for (handling, goes_on) in [("observe", true), ("repair", true), ("enforce", false)] {
        let place = Place::with(&format!("[policy]\nviolations = \"{handling}\"\n"));
        let mut process = place.session(false);
        let answer = process.ask(NOT_AGREED);
        match handling {
            "observe" => assert_eq!(answer["result"]["prompts"], json!([]), "it passes, and there are none: {answer}"),
            _ => assert_eq!(answer["error"]["code"], -32601, "{handling}: {answer}"),
        }
        if goes_on {
            assert_eq!(text(&process.ask(&echo(8, "hi"))), "hi", "{handling}");
            let (_, _, log) = process.finish();
            assert_eq!(log.contains("only_what_was_agreed"), handling == "observe", "{handling}: {log}");
            continue;
        }
        assert_eq!(process.wait().code(), Some(0), "it ends, though nobody closed its input");
        let (_, rest, log) = process.finish();
        assert!(rest.is_empty(), "{rest:?}");
        assert!(
            log.contains("client `test` broke the rule `only_what_was_agreed`: a request that was not agreed"),
            "{log}"
        );
        assert!(log.contains("prompts/list"), "the offending line is shown: {log}");
    }
}

#[cfg(unix)]
#[test]
fn a_server_that_breaks_a_rule_loses_its_session_where_rules_are_enforced() {
    let place = Place::with("[policy]\nviolations = \"enforce\"\n");
    let script = r#""$0" serve | while read -r line; do
        case "$line" in *notifications/progress*) echo "by the way" ;; *) echo "$line" ;; esac
    done"#;
    let server = env!("CARGO_BIN_EXE_gladhand");
    let mut bridge = place.gladhand(&[
        "bridge",
        "--config",
        "gladhand.toml",
        "--as",
        "mcp@2025-06-18",
        "--",
        "sh",
        "-c",
        script,
        server,
    ]);
    // The file is named by its flag, so that the server behind the bridge does not use it too.
    bridge.env_remove("GLADHAND_CONFIG");
    let mut process = Process::start(bridge);
    process.ask(&mcp_initialize("2025-06-18"));
    process.send(MCP_INITIALIZED);
    let call = mcp_call(1, "wait", r#"{"ms":60000,"steps":600}"#)
        .replace(r#""params":{"#, r#""params":{"_meta":{"progressToken":"p"},"#);
    process.send(&call);
    let answer = loop {
        // It may log something on the way.
        let line = process.value();
        if line["id"] == 1 {
            break line.to_string();
        }
    };
    assert!(answer.contains("broke the rule `readable_lines`: a line that cannot be read"), "{answer}");
    assert!(answer.contains("server `sh`"), "{answer}");
}

#[test]
fn a_withheld_tool_is_not_taken_for_a_typo() {
    let program = env!("CARGO_BIN_EXE_gladhand");
    let place = Place::with(&format!(
        "[upstreams.files]\ncommand = ['{program}', 'serve', '--config', '/dev/null']\nhide = ['wait']\n\
         [[policy.rules]]\nname = 'read only'\ntools = ['files__echo', 'agreement']\neffect = 'deny'\nreason = 'ask Ann'\n"
    ));
    let denied = "policy forbids `files__echo` (rule `read only`): ask Ann";
    let (code, said) = place.stdout(&["call", "files__echo", "message=x"]);
    assert!(code == Some(2) && said.contains(denied) && !said.contains("did you mean"), "{said}");
    assert!(said.contains("gladhand policy test files__echo"), "{said}");
    let (_, said) = place.stdout(&["call", "agreement"]);
    assert!(said.contains("policy forbids `agreement` (rule `read only`): ask Ann"), "{said}");
    let (_, said) = place.stdout(&["call", "files__wait"]);
    assert!(said.contains("`files__wait` is hidden by `hide` or `only` of [upstreams.files]"), "{said}");
    let (code, said) = place.stdout(&["call", "files__ecko", "message=x"]);
    assert!(code == Some(2) && said.contains("they have no tool `files__ecko`"), "{said}");
    // For a client, a hidden tool does not exist.
    let answer = place.session(false).ask(&mcp_call(1, "files__wait", "{}")).to_string();
    assert!(answer.contains("unknown tool") && !answer.contains("hid"), "{answer}");
}
