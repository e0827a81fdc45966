//! `gladhand shell`: commands from a pipe, and from a person at a terminal.
#![cfg(unix)]

mod support;

use std::process::{Command, Output, Stdio};

use serde_json::Value;
use support::gladhand;
use support::terminal::Terminal;
use tempfile::TempDir;

/// A shell with our own server, in an empty folder.
fn shell(folder: &TempDir, arguments: &[&str]) -> Command {
    let mut command = gladhand();
    command.arg("shell").args(arguments).args(["--", env!("CARGO_BIN_EXE_gladhand"), "serve"]);
    command.current_dir(folder.path()).env("XDG_DATA_HOME", folder.path().join("data")).env("TERM", "xterm");
    command
}

fn piped(folder: &TempDir, arguments: &[&str], lines: &str) -> Output {
    std::fs::write(folder.path().join("lines"), lines).expect("there is room for a file");
    let lines = std::fs::File::open(folder.path().join("lines")).expect("it was written");
    shell(folder, arguments).stdin(Stdio::from(lines)).output().expect("it starts")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

#[test]
fn commands_from_a_pipe_share_one_session() {
    let folder = folder();
    let lines = "# a comment\n\ntools\ncall echo message='two words'\ncall echo message:='\"json\"'\nrecord s.jsonl\n\
                 call echo message=recorded\nrecord\nquit\ncall echo message=never\n";
    let output = piped(&folder, &[], lines);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let shown = text(&output);
    assert!(shown.contains("echo") && shown.contains("\ntwo words\njson\nrecorded\n"), "{shown}");
    assert!(!shown.contains("never"), "{shown}");
    let mut show = gladhand();
    show.args(["show", "s.jsonl", "--json"]).current_dir(folder.path());
    let report: Value = serde_json::from_slice(&show.output().expect("it starts").stdout).expect("JSON");
    let sessions = report["sessions"].as_array().expect("a list");
    assert_eq!(sessions.len(), 1, "one session: {report}");
    assert_eq!(sessions[0]["peer"]["name"], "gladhand", "its peer is known: {report}");
    let messages = sessions[0]["messages"].to_string();
    assert!(messages.contains("recorded") && !messages.contains("two words"), "{messages}");
}

#[test]
fn the_first_command_of_a_pipe_that_fails_ends_the_shell_with_its_exit_code() {
    let folder = folder();
    for (line, code, message) in [
        ("call ecko message=hi", 2, "did you mean `echo`?"),
        ("call echo", 2, "`message` is missing"),
        ("call echo hi", 2, "arguments are written as key=value"),
        ("cal echo message=hi", 2, "did you mean `call`?"),
        ("read", 2, "write: read URI"),
        ("call echo message='hi", 2, "the quote ' does not end"),
        ("read nothing://here", 2, "nothing://here"),
        ("record", 2, "nothing is recorded"),
        ("call read_file path=x", 2, "read_file"),
    ] {
        let output = piped(&folder, &[], &format!("{line}\ncall echo message=later\n"));
        assert_eq!(output.status.code(), Some(code), "{line}: {output:?}");
        assert!(errors(&output).contains(message), "{line}: {}", errors(&output));
        assert!(!text(&output).contains("later"), "{line}");
    }
    let mut missing = gladhand();
    missing.args(["shell", "--", "/no/such/server"]).stdin(Stdio::null());
    assert_eq!(missing.output().expect("it starts").status.code(), Some(4));
}

#[test]
fn no_part_of_a_line_that_is_too_long_is_a_command() {
    let output = piped(&folder(), &[], &format!("call echo message={}\n", "x".repeat(2 * 1024 * 1024)));
    assert_eq!((output.status.code(), text(&output)), (Some(2), String::new()));
    assert!(errors(&output).contains("a command has more than 1 MiB"), "{}", errors(&output));
}

#[test]
fn results_are_json_on_request() {
    let folder = folder();
    let output = piped(&folder, &["--json"], "tools\ncall echo message=hi\nprompts\nresources\n");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let lines: Vec<Value> = text(&output).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines.len(), 4);
    assert!(lines[0]["tools"].is_array() && lines[2]["prompts"].is_array() && lines[3]["resources"].is_array());
    assert_eq!(lines[1]["content"][0]["text"], "hi");
}

#[test]
fn tab_completes_names_and_arguments_and_arrows_recall_lines() {
    let folder = folder();
    let mut terminal = Terminal::with_columns(80, shell(&folder, &[]));
    assert!(terminal.prompt().contains("`help` lists the commands"));
    terminal.types("ca\tech\tmes\thello\r");
    let seen = terminal.until("\nhello\r\n");
    assert!(seen.contains("call echo message="), "{seen:?}");
    terminal.prompt();
    terminal.types("nonsense\r");
    terminal.until("no command is called `nonsense`");
    terminal.prompt();
    terminal.types("\u{1b}[A\u{1b}[A\r");
    terminal.until("\nhello\r\n");
    terminal.prompt();
    terminal.types("\u{4}");
    assert_eq!(terminal.wait(), Some(0));
    assert!(terminal.is_usual());
    let mut again = Terminal::with_columns(80, shell(&folder, &[]));
    again.prompt();
    again.types("\u{1b}[A\u{1b}[A\u{1b}[A\r");
    again.until("\nhello\r\n");
    again.prompt();
    again.types("quit\r");
    assert_eq!(again.wait(), Some(0));
}

#[test]
fn ctrl_c_cancels_the_running_call_and_keeps_the_session() {
    let folder = folder();
    let mut terminal = Terminal::with_columns(80, shell(&folder, &[]));
    terminal.prompt();
    terminal.types("call wait ms=600000\r");
    terminal.until("calling wait");
    terminal.interrupt();
    terminal.until("cancelled");
    terminal.prompt();
    terminal.types("call echo message=still-open\r");
    terminal.until("\nstill-open\r\n");
    terminal.prompt();
    terminal.signal(rustix::process::Signal::TERM);
    assert_eq!(terminal.wait(), Some(143));
    assert!(terminal.is_usual());
}
