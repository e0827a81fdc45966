//! The command line as users see it: help, mistakes, logs, manual pages.

mod support;

use std::io::Write;
use std::process::{Output, Stdio};

use gladhand::exit::Exit;
use support::gladhand;

fn run(arguments: &[&str]) -> Output {
    gladhand().args(arguments).stdin(Stdio::null()).output().expect("it starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

#[test]
fn help_shows_the_commands_and_an_example_for_each() {
    let help = text(&run(&["--help"]).stdout);
    for word in ["serve", "open", "completions", "man", "Examples:", "Exit codes:"] {
        assert!(help.contains(word), "{word} is missing in:\n{help}");
    }
    for command in ["serve", "open", "chat", "secret", "login", "logout"] {
        let help = text(&run(&[command, "--help"]).stdout);
        assert!(help.contains("Examples:") && help.contains(&format!("gladhand {command}")), "{help}");
    }
    // Every dialect of the registry can be pinned.
    let serve = text(&run(&["serve", "--help"]).stdout);
    for dialect in gladhand_dialects::REGISTRY {
        assert!(serve.contains(dialect.name), "{serve}");
    }
}

#[test]
fn the_short_and_the_long_help_begin_alike() {
    let first =
        |flag: &str| text(&run(&[flag]).stdout).lines().next().map(|line| line.trim_end_matches('.').to_owned());
    assert!(first("-h").is_some_and(|line| line.starts_with("Connects any agent client")), "{:?}", first("-h"));
    assert_eq!(first("-h"), first("--help"));
}

#[test]
fn the_version_is_the_packages() {
    let output = run(&["--version"]);
    assert_eq!(text(&output.stdout), format!("gladhand {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn usage_errors_exit_with_2_and_list_the_possible_values() {
    for (arguments, expected) in [
        (&["serve", "--dialect", "mpc"][..], "[possible values: auto, mcp, loaf, a2e, fluxloop]"),
        (&["open", "--as", "foo"], "[possible values: auto, all, mcp, mcp@2025-11-25,"),
        (&["open", "--as", "mcp@1999-01-01"], "mcp@2026-07-28, loaf, a2e, fluxloop]"),
        (&["open", "--as", "mcp", "--timeout", "0.5"], "expected whole seconds, from 1 to 3600"),
        (&["sevre"], "similar subcommand"),
        (&["serve", "--config", "no/such/file.toml"], "no/such/file.toml"),
        (&["doctor", "--config", "no/such/file.toml"], "no/such/file.toml"),
        (&["policy", "approve", "nosuch"], "nothing of that name waits"),
        (&["repo", "analyze", "no/such/folder"], "no/such/folder does not exist"),
        (&["repo", "plan", "--target", "nosuch"], "there are these targets: fluxloop, gladhand, mcp-server"),
        (&["chat", "--resume", "nosuch", "-p", "hi"], "nosuch"),
    ] {
        let output = run(arguments);
        let errors = text(&output.stderr);
        assert!(errors.contains(expected), "{arguments:?}: {errors}");
        assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(2), ""), "{arguments:?}");
    }
}

#[test]
fn a_configuration_mistake_is_reported_with_its_place_and_without_secrets() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("gladhand.toml"), "[a2e]\ntokens = [\"hush\"]\nmax_paralel = 1\n").unwrap();
    let mut command = gladhand();
    command.arg("serve").current_dir(folder.path()).env("GLADHAND_CONFIG", "gladhand.toml");
    let output = command.stdin(Stdio::null()).output().unwrap();
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(errors.contains("gladhand.toml") && errors.contains("line 3, column 1"), "{errors}");
    assert!(!errors.contains("hush"), "{errors}");
}

#[test]
fn the_configuration_is_found_by_flag_then_environment_then_user() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("config/gladhand");
    std::fs::create_dir_all(&home).unwrap();
    // Each place has another mistake, so that the complaint tells which one was read.
    let write = |path: &std::path::Path, key: &str| std::fs::write(path, format!("{key} = 1\n")).unwrap();
    write(&folder.path().join("by_flag.toml"), "flag_key");
    write(&folder.path().join("by_env.toml"), "env_key");
    write(&home.join("gladhand.toml"), "user_key");
    let complaint = |flag: bool, env: bool| {
        let mut command = gladhand();
        command.arg("serve").current_dir(folder.path()).env("XDG_CONFIG_HOME", folder.path().join("config"));
        command.stdin(Stdio::null());
        if flag {
            command.args(["--config", "by_flag.toml"]);
        }
        if env {
            command.env("GLADHAND_CONFIG", "by_env.toml");
        }
        text(&command.output().unwrap().stderr)
    };
    assert!(complaint(true, true).contains("flag_key"));
    assert!(complaint(false, true).contains("env_key"));
    assert!(complaint(false, false).contains("user_key"));
    // A project file is not read before it is trusted, and never instead of the user's own.
    write(&folder.path().join("gladhand.toml"), "folder_key");
    assert!(complaint(false, false).contains("user_key"));
}

#[test]
fn a_log_filter_that_is_none_is_refused() {
    let output = gladhand().arg("serve").env("GLADHAND_LOG", "a=b=c").stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("GLADHAND_LOG"), "{}", text(&output.stderr));
}

#[test]
fn logs_go_to_stderr_as_lines_or_as_json() {
    let logged = |arguments: &[&str]| {
        let mut child = gladhand();
        child.arg("serve").args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = child.spawn().unwrap();
        child.stdin.take().unwrap().write_all(b"{\"type\":\"handshake\",\"id\":\"1\"}\n").unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(text(&output.stdout).lines().count(), 1);
        text(&output.stderr)
    };
    assert_eq!(logged(&[]), "", "quiet unless something is odd");
    let human = logged(&["-v"]);
    assert!(human.contains("the first line decided the dialect") && !human.contains('\u{1b}'), "{human}");
    for line in logged(&["-v", "--log-format", "json"]).lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(line["level"].is_string() && line["fields"]["message"].is_string(), "{line}");
    }
}

#[test]
fn completions_and_manual_pages_are_made() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = text(&run(&["completions", shell]).stdout);
        assert!(script.contains("gladhand") && script.contains("open"), "{shell}");
    }
    assert!(text(&run(&["man"]).stdout).contains(".TH gladhand 1"));
    let folder = tempfile::tempdir().unwrap();
    assert!(run(&["man", "--out", folder.path().to_str().unwrap()]).status.success());
    assert!(folder.path().join("gladhand-serve.1").exists());
    // Exit codes and notes are filled to the width of the page.
    let page = std::fs::read_to_string(folder.path().join("gladhand-config-check.1")).unwrap();
    let status = page.split_once(".SH \"EXIT STATUS\"\n").expect("it has exit codes").1;
    assert!(status.starts_with(".TP 4\n") && !status.contains(".nf"), "{status}");
    let notes = page.split_once(".SH NOTES\n").expect("it has notes").1;
    assert!(!notes.lines().next().unwrap_or_default().starts_with(".nf"), "{notes}");
}

#[test]
fn the_documented_exit_codes_are_the_real_ones() {
    let page = include_str!("../../../docs/stability.md");
    for (exit, meaning) in Exit::TABLE {
        let row = format!("| {} | {meaning} |", exit as u8);
        assert!(page.contains(&row), "{row} is not in docs/stability.md");
    }
}

#[test]
fn help_is_not_wider_than_80_columns_and_leaves_examples_as_they_are() {
    fn check(command: &mut clap::Command) {
        let help = command.render_long_help().to_string();
        for line in help.lines() {
            assert!(line.chars().count() <= 80, "{}: {line}", command.get_name());
        }
        let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        for line in after.lines() {
            assert!(help.lines().any(|shown| shown == line), "{}: {line}\n{help}", command.get_name());
        }
        command.get_subcommands_mut().for_each(check);
    }
    let mut cli = <gladhand::cli::Cli as clap::CommandFactory>::command();
    cli.build();
    check(&mut cli);
}

#[test]
fn a_missing_program_is_reported_once_and_an_address_gets_a_url_hint() {
    let output = run(&["tools", "localhost:9"]);
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(4));
    assert_eq!(errors.matches("No such file").count(), usize::from(cfg!(unix)), "{errors}");
    assert!(errors.contains("http://localhost:9/mcp"), "{errors}");
}

#[test]
fn an_unreachable_address_is_reported_with_the_reason() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let errors = text(&run(&["tools", &format!("http://{closed}/mcp")]).stderr);
    assert!(errors.contains(&format!("no connection to {closed}: connection refused")), "{errors}");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let errors = text(&run(&["serve", "--http", &taken]).stderr);
    assert!(errors.contains(&taken) && errors.contains("--http 127.0.0.1:0"), "{errors}");
}

#[test]
fn a_bridge_reports_a_server_that_does_not_start_on_stderr() {
    let mut child = gladhand();
    child.args(["bridge", "-q", "--", "no-such-program-anywhere"]);
    let mut child = child.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let ping = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n";
    child.stdin.take().unwrap().write_all(ping).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(4));
    assert!(text(&output.stderr).contains("could not start `no-such-program-anywhere`"), "{}", text(&output.stderr));
}

#[test]
fn a_client_that_leaves_without_a_word_starts_no_server() {
    let folder = tempfile::tempdir().unwrap();
    let witness = folder.path().join("started");
    let server = format!("touch '{}'; cat", witness.display());
    let output = run(&["bridge", "--", "sh", "-c", &server]);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
    assert!(!witness.exists());
}

#[test]
fn a_bridge_whose_server_does_not_start_refuses_the_handshake_of_an_agent() {
    let mut child = gladhand();
    child.args(["bridge", "-q", "--", "false"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = child.spawn().unwrap();
    let handshake = r#"{"a2e":"1.0","type":"handshake/req","id":"1","agent_id":"a","agent_caps":["tools"]}"#;
    child.stdin.take().unwrap().write_all(format!("{handshake}\n").as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let answer = text(&output.stdout);
    assert_eq!((output.status.code(), answer.lines().count()), (Some(4), 1), "{answer}");
    assert!(answer.contains("handshake/resp") && answer.contains(r#""ok":false,"reason":"server_error""#), "{answer}");
}

#[test]
fn tools_of_a_loaf_server_without_tools_call_are_not_listed() {
    let handshake = r#"{"jsonrpc":"2.0","id":1,"result":{"protocol_version":"1.0.0","server_name":"loaf","methods":["rpc.handshake","session.send","tools.list"],"capabilities":{}}}"#;
    let tools = r#"{"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"read","description":"reads"}]}}"#;
    let server = format!("read -r line; echo '{handshake}'; while read -r line; do echo '{tools}'; done");
    let mut child = gladhand();
    child.args(["bridge", "-q", "--as", "loaf", "--", "sh", "-c", &server]);
    child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = child.spawn().unwrap();
    let lines = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/list"}
"#;
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let answers = text(&output.stdout);
    let listed: serde_json::Value = serde_json::from_str(answers.lines().last().unwrap_or_default()).unwrap();
    assert_eq!(listed["result"]["tools"], serde_json::json!([]), "{answers}");
}

#[test]
fn a_broken_configuration_is_reported_in_the_dialect_of_the_peer() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("gladhand.toml"), "[a2e]\nmax_paralel = 1\n").unwrap();
    for (line, expected) in [
        (r#"{"jsonrpc":"2.0","id":"a","method":"initialize","params":{}}"#, r#"{"jsonrpc":"2.0","id":"a","error":{"#),
        (r#"{"jsonrpc":"2.0","id":7,"method":"rpc.handshake"}"#, r#"{"jsonrpc":"2.0","id":7,"error":{"#),
        (r#"{"type":"handshake","id":"1"}"#, r#"{"type":"error","id":"1","error":{"#),
        (r#"{"a2e":"1.0","type":"handshake/req","id":"1"}"#, r#"{"type":"handshake/resp","id":""#),
        (r#"{"a2e":"1.0","type":"tool/list/req","id":"1"}"#, r#"{"type":"error","id":""#),
    ] {
        let mut child = gladhand();
        child
            .arg("serve")
            .current_dir(folder.path())
            .env("GLADHAND_CONFIG", "gladhand.toml")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = child.stderr(Stdio::piped()).spawn().unwrap();
        // It stays open: the answer must not wait for the end.
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(format!("{line}\n").as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        drop(stdin);
        let answer = text(&output.stdout);
        assert_eq!((output.status.code(), answer.lines().count()), (Some(2), 1), "{answer}");
        assert!(answer.starts_with(expected), "{answer}");
        // The answer to an agent's handshake contains only a reason code, so the message is on stderr.
        let told = if answer.contains("handshake/resp") {
            assert!(answer.contains(r#""ok":false,"reason":"server_error""#), "{answer}");
            text(&output.stderr)
        } else {
            answer
        };
        assert!(told.contains("gladhand.toml") && told.contains("line 2, column 1"), "{told}");
        assert!(told.contains("did you mean `max_parallel`?"), "{told}");
    }
}

#[test]
fn the_value_of_a_secret_on_the_command_line_is_neither_taken_nor_repeated() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = gladhand();
    command
        .args(["secret", "set", "github", "hush"])
        .env("HOME", folder.path())
        .env("GLADHAND_DATA_DIR", folder.path());
    let output = command.env("XDG_CONFIG_HOME", folder.path()).stdin(Stdio::null()).output().unwrap();
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(errors.contains("`gladhand secret set github` asks for it") && !errors.contains("hush"), "{errors}");
}
