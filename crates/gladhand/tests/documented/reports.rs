//! Under `--json` a command prints one object on one line of stdout, failures included, in the shape of `docs/stability.md`.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::gladhand;

/// A folder with a user's home, and files that commands are tried with.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().expect("there is room for a folder"));
        place.write("wrong.toml", "[a2e]\nmax_paralel = 1\n");
        place.write("plan.json", "{}");
        place.write("no-plan.json", "[1]");
        place.write("empty/README.md", "# Nothing\n");
        place.write("app/requirements.txt", "fastapi==0.115.0\n");
        place.write("app/main.py", "from fastapi import FastAPI\n\napp = FastAPI()\n");
        place
    }

    fn write(&self, name: &str, text: &str) {
        let file = self.0.path().join(name);
        std::fs::create_dir_all(file.parent().expect("a folder")).expect("there is room for a folder");
        std::fs::write(file, text).expect("there is room for a file");
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = gladhand();
        let home = self.path().join("home");
        command.args(arguments).current_dir(self.path()).stdin(Stdio::null());
        command.env("HOME", &home).env("XDG_CONFIG_HOME", &home).env("XDG_DATA_HOME", &home);
        command.env("GLADHAND_OLLAMA_BASE", "").env("GLADHAND_LLAMACPP_BASE", "");
        for key in ["OPENROUTER_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GLADHAND_COMPATIBLE_BASE"] {
            command.env_remove(key);
        }
        command
    }

    /// Runs a command under `--json` and returns its exit code and its report, which must be one line and have an error
    /// exactly if the command failed.
    fn report(&self, arguments: &[&str]) -> (i32, Value) {
        let output = self.command(arguments).output().expect("it starts");
        let (code, report) = report(&output).unwrap_or_else(|told| panic!("{arguments:?}: {told}"));
        let error = &report["error"];
        assert_eq!(error.is_object(), code != 0, "{arguments:?}: {code} {report}");
        if error.is_object() {
            assert_eq!(error["exit"], code, "{arguments:?}: {report}");
            let members: Vec<_> = error.as_object().expect("an object").keys().map(String::as_str).collect();
            assert_eq!(members, ["code", "exit", "hint", "message"], "{arguments:?}");
            assert!(error["message"].as_str().is_some_and(|message| !message.is_empty()), "{arguments:?}: {report}");
        }
        (code, report)
    }
}

fn report(output: &Output) -> Result<(i32, Value), String> {
    let (told, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let report = serde_json::from_str(&told).map_err(|error| format!("{error}: {told}\n{errors}"))?;
    match (output.status.code(), told.lines().count()) {
        _ if errors.contains("error:") => Err(format!("an error is told twice: {errors}")),
        (Some(code), 1) => Ok((code, report)),
        (code, lines) => Err(format!("{lines} lines, exit code {code:?}: {told}")),
    }
}

/// A server whose one tool reports a failure.
const FAILING: &str = r#"while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"initialize"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}' ;;
    *'"tools/list"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":{"tools":[{"name":"fail","inputSchema":{"type":"object"}}]}}' ;;
    *'"tools/call"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":{"content":[{"type":"text","text":"no luck"}],"isError":true}}' ;;
  esac
done"#;

#[test]
fn a_failure_is_one_object_with_code_exit_message_and_hint() {
    let place = Place::new();
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let closed = format!("http://{closed}/mcp");
    let cases: &[(&[&str], i32, &str)] = &[
        (&["sevre", "--json"], 2, "usage"),
        (&["tools", "--json", "--nonsense"], 2, "usage"),
        (&["open", "--as", "telnet", "--json"], 2, "usage"),
        (&["secret", "rm", "--json"], 2, "usage"),
        (&["tools", "--json", &closed], 4, "unreachable"),
        (&["tools", "--json", "--", "no-such-program-anywhere"], 4, "not_started"),
        (&["tools", "--json", "--as", "mcp", "--", "false"], 4, "peer_gone"),
        (&["call", "nosuch", "--json"], 2, "unknown_tool"),
        (&["call", "echo", "--json"], 2, "usage"),
        (&["call", "fail", "--json", "--as", "mcp@2025-11-25", "--", "sh", "-c", FAILING], 5, "tool_failed"),
        (&["resources", "--read", "no:such", "--json"], 2, "unknown_resource"),
        (&["prompts", "--get", "nosuch", "--json"], 2, "unknown_prompt"),
        (&["open", "--json", "--as", "mcp@2025-06-18", "--", "false"], 4, "peer_gone"),
        (&["open", "--json", "--as", "mcp", &closed], 4, "unreachable"),
        (&["open", "--json", "--as", "loaf", &closed], 2, "usage"),
        (&["chat", "--json", "-p", "hi"], 2, "usage"),
        (&["chat", "--json", "-p", "hi", "--resume", "nosuch"], 2, "usage"),
        (&["config", "check", "wrong.toml", "--json"], 2, "usage"),
        (&["config", "show", "--json", "--config", "nosuch.toml"], 2, "usage"),
        (&["config", "trust", "--json"], 2, "usage"),
        (&["doctor", "--json", "--config", "wrong.toml"], 1, "failure"),
        (&["repo", "analyze", "nosuch", "--json"], 2, "usage"),
        (&["repo", "frameworks", "nosuch", "--json"], 2, "usage"),
        (&["repo", "faq", "", "--json"], 2, "usage"),
        (&["repo", "faq", "why", "--docs", "nosuch", "--json"], 2, "usage"),
        (&["repo", "plan", "app", "--target", "nosuch", "--json"], 2, "usage"),
        (&["repo", "plan", "app", "--framework", "nosuch", "--json"], 2, "usage"),
        (&["repo", "plan", "empty", "--json"], 2, "usage"),
        (&["repo", "validate", "app", "--plan", "no-plan.json", "--json"], 2, "usage"),
        (&["repo", "validate", "app", "--plan", "plan.json", "--json"], 1, "failure"),
        (&["policy", "test", "x", "--args", "{", "--json"], 2, "usage"),
        (&["policy", "approve", "nosuch", "--json"], 2, "usage"),
        (&["secret", "rm", "nosuch", "--json"], 2, "usage"),
        (&["login", "--json", &closed], 4, "unreachable"),
        (&["logout", "--json", "nowhere"], 2, "usage"),
    ];
    for (arguments, code, word) in cases {
        let (ended, report) = place.report(arguments);
        assert_eq!((ended, report["error"]["code"].as_str()), (*code, Some(*word)), "{arguments:?}: {report}");
    }
}

#[test]
fn a_report_is_one_object_without_an_error() {
    let place = Place::new();
    let cases: &[(&[&str], &str)] = &[
        (&["tools", "--json"], "tools"),
        (&["resources", "--json"], "resources"),
        (&["prompts", "--json"], "prompts"),
        (&["call", "echo", "message=hi", "--json"], "content"),
        (&["open", "--json"], "opened"),
        (&["config", "check", "--json"], "ok"),
        (&["config", "show", "--json"], "upstreams"),
        (&["config", "trust", "--list", "--json"], "trusted"),
        (&["config", "trust", "--revoke", "--json"], "revoked"),
        (&["repo", "analyze", "app", "--json"], "languages"),
        (&["repo", "frameworks", "app", "--json"], "frameworks"),
        (&["repo", "faq", "How are secrets kept?", "--json"], "answer"),
        (&["repo", "plan", "app", "--json"], "edits"),
        (&["policy", "test", "echo", "--json"], "decision"),
        (&["policy", "approve", "--json"], "waiting"),
        (&["secret", "list", "--json"], "names"),
        (&["logout", "--json", "https://example.org/mcp"], "forgotten"),
    ];
    for (arguments, member) in cases {
        let (code, report) = place.report(arguments);
        assert!(code == 0 && report.get(member).is_some(), "{arguments:?}: {code} {report}");
    }
}

#[test]
fn a_secret_is_kept_and_forgotten_with_a_report() {
    let place = Place::new();
    place.write("value", "hush hush\n");
    let file = std::fs::File::open(place.path().join("value")).unwrap();
    let output = place.command(&["secret", "set", "github", "--json"]).stdin(file).output().unwrap();
    let (code, kept) = report(&output).unwrap();
    assert_eq!((code, &kept["name"], &kept["key"]), (0, &json!("github"), &json!("file")), "{kept}");
    assert_eq!(place.report(&["secret", "rm", "github", "--json"]), (0, json!({"name": "github"})));
}

#[test]
fn a_wrong_target_or_framework_is_a_mistake_of_usage_with_the_list() {
    let place = Place::new();
    let (_, report) = place.report(&["repo", "plan", "app", "--target", "nosuch", "--json"]);
    assert_eq!(report["error"]["hint"], "there are these targets: fluxloop, gladhand, mcp-server");
    let output = place.command(&["repo", "plan", "app", "--framework", "nosuch"]).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{errors}");
    assert!(errors.contains("there are these frameworks: ") && errors.contains("fastapi"), "{errors}");
}

#[test]
fn an_invalid_log_filter_is_reported_as_json() {
    let place = Place::new();
    let output = place.command(&["tools", "--json"]).env("GLADHAND_LOG", "a=b=c").output().unwrap();
    assert_eq!(report(&output).map(|(code, report)| (code, report["error"]["code"].clone())), Ok((2, json!("usage"))));
}

#[test]
fn the_stdout_of_a_command_without_the_flag_stays_clean() {
    let output = Place::new().command(&["serve", "--json"]).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{errors}");
    assert!(errors.contains("unexpected argument '--json'"), "{errors}");
}

#[test]
pub(crate) fn the_page_shows_the_shape_and_all_codes() {
    let page = include_str!("../../../../docs/stability.md");
    for (exit, _) in gladhand::exit::Exit::TABLE.iter().skip(1) {
        assert!(page.contains(&format!("`{}`", exit.word())), "{}", exit.word());
    }
    let (_, example) = page.split_once("```json\n").expect("the shape is shown");
    let example: Value = serde_json::from_str(example.split("```").next().unwrap_or_default()).unwrap();
    let (_, report) = Place::new().report(&["repo", "plan", "app", "--target", "nosuch", "--json"]);
    assert_eq!(example, report);
}
