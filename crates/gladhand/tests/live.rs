//! `gladhand tap` and `gladhand top`: running processes, as another program of the same user sees them.
#![cfg(unix)]

mod support;

use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;
use support::terminal::Terminal;
use support::user::User;
use support::{Process, mcp_call};

/// A running `gladhand tap`.
struct Tapped(Process);

impl Tapped {
    /// Follows a process that has a session, with `--json`. The session is opened before this returns.
    fn start(user: &User, arguments: &[&str]) -> Self {
        let mut tapped = Self(Process::start(tap(user, &[&["--json"], arguments].concat())));
        let header = tapped.0.value();
        assert_eq!(header["gladhand_recording"], 2, "{header}");
        tapped
    }

    /// The next entry that fits.
    fn until(&mut self, fits: impl Fn(&Value) -> bool) -> Value {
        loop {
            let entry = self.0.value();
            if fits(&entry) {
                return entry;
            }
        }
    }

    fn opened(&mut self) -> Value {
        self.until(|entry| entry["event"] == "opened")
    }
}

fn tap(user: &User, arguments: &[&str]) -> Command {
    let mut command = user.gladhand("elsewhere");
    command.arg("tap").args(arguments).env("COLUMNS", "80");
    command
}

/// A process of a user that `ps` finds.
fn serving(user: &User, arguments: &[&str]) -> Process {
    let process = user.session("data", arguments);
    user.until("it is seen", |all| all.iter().any(|one| one["pid"] == process.id()));
    process
}

#[test]
fn tap_shows_messages_of_a_running_process_without_secrets() {
    let user = User::new();
    let mut process = serving(&user, &["serve"]);
    let mut tapped = Tapped::start(&user, &[]);
    let opened = tapped.opened();
    assert_eq!((&opened["session"], &opened["peer"]["name"]), (&"client-1".into(), &"test".into()));
    process.ask(&mcp_call(1, "echo", r#"{"message":"key ghp_aB3dE5gH7jK9mN1pQ3sT5vW7yZ9b"}"#));
    let call = tapped.until(|entry| entry["from"] == "client");
    let answer = tapped.until(|entry| entry["from"] == "server");
    assert_eq!(call["message"]["params"]["arguments"]["message"], "key ***");
    assert_eq!((&answer["kind"], &answer["message"]["id"]), (&"response".into(), &1.into()));
    assert_eq!(process.finish().0, 0);
    tapped.until(|entry| entry["event"] == "closed");
    let (code, rest, errors) = tapped.0.finish();
    assert_eq!((code, rest.len()), (0, 0));
    assert!(errors.contains("ended"), "{errors}");
}

#[test]
fn tap_reports_the_end_of_a_killed_process() {
    let user = User::new();
    let process = serving(&user, &["serve"]);
    let mut tapped = Tapped::start(&user, &[&process.id().to_string()]);
    tapped.opened();
    process.signal(Signal::KILL);
    let (code, _, errors) = tapped.0.finish();
    assert_eq!(code, 0, "{errors}");
    assert!(errors.contains(&format!("process {} ended", process.id())), "{errors}");
}

#[test]
fn filters_of_tap_leave_out_other_messages() {
    let user = User::new();
    let mut process = serving(&user, &["serve"]);
    let mut echoes = Tapped::start(&user, &["--tool", "echo"]);
    let mut failures = Tapped::start(&user, &["--errors"]);
    let mut other_session = Tapped::start(&user, &["--session", "client-2"]);
    process.ask(&mcp_call(1, "wait", r#"{"ms":1}"#));
    process.ask(&mcp_call(2, "echo", r#"{"message":"hi"}"#));
    process.ask(&mcp_call(3, "absent", "{}"));
    process.finish();
    let ids = |tapped: &mut Tapped| {
        let rest = tapped.0.rest();
        let entries = rest.iter().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        entries.map(|entry| entry["message"]["id"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(ids(&mut echoes), [2, 2]);
    // An error has no request before it, as its request was no error when it passed.
    assert_eq!(ids(&mut failures), [3]);
    assert_eq!(ids(&mut other_session), [Value::Null; 0]);
}

#[test]
fn tap_draws_messages_in_a_terminal_until_it_is_interrupted() {
    let user = User::new();
    let mut process = serving(&user, &["serve"]);
    let mut terminal = Terminal::with_columns(60, tap(&user, &["serve"]));
    terminal.until("on stdin for test");
    process.ask(&mcp_call(2, "echo", r#"{"message":"hi there"}"#));
    let drawn = terminal.until("hi there");
    assert!(drawn.contains("client-1") && drawn.contains("tools/call"), "{drawn}");
    terminal.interrupt();
    assert_eq!(terminal.wait(), Some(130));
    assert!(terminal.is_usual());
    // The process goes on.
    process.ask(&mcp_call(3, "echo", r#"{"message":"hi"}"#));
}

#[test]
fn tap_lists_the_processes_if_none_of_several_is_named() {
    let user = User::new();
    let first = serving(&user, &["serve"]);
    let second = serving(&user, &["serve"]);
    for arguments in [&[][..], &["serve"], &["test"], &["absent"]] {
        let output = tap(&user, arguments).output().expect("it starts");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{errors}");
        for process in [&first, &second] {
            let line = format!("gladhand tap {}   serve on stdin for test", process.id());
            assert!(errors.contains(&line), "{errors}");
        }
    }
    drop((first, second));
    let output = tap(&User::new(), &[]).output().expect("it starts");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && errors.contains("runs"), "{errors}");
}

#[test]
fn tap_of_a_bridge_shows_both_sides_and_records_them() {
    let user = User::new();
    let server = env!("CARGO_BIN_EXE_gladhand");
    let mut process = serving(&user, &["bridge", "--", server, "serve"]);
    let mut tapped = Tapped::start(&user, &["bridge", "--record", "tapped.jsonl"]);
    tapped.opened();
    tapped.opened();
    process.ask(&mcp_call(1, "echo", r#"{"message":"hi"}"#));
    for session in ["client-1", "server-1"] {
        assert!(tapped.until(|entry| entry["from"] == "client")["session"] == session);
    }
    process.finish();
    assert_eq!(tapped.0.wait().code(), Some(0));
    let mut show = user.gladhand("elsewhere");
    let output = show.args(["show", "tapped.jsonl", "--json", "--tool", "echo"]).output().expect("it starts");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let sessions = report["sessions"].as_array().expect("a list");
    assert_eq!(sessions.len(), 2, "{report}");
    assert!(sessions.iter().all(|session| session["messages"].as_array().map(Vec::len) == Some(2)), "{report}");
}

#[test]
fn a_fifth_tap_is_refused() {
    let user = User::new();
    let _process = serving(&user, &["serve"]);
    let mut others: Vec<_> = (0..4).map(|_| Tapped::start(&user, &[])).collect();
    others.iter_mut().for_each(|other| drop(other.opened()));
    let output = tap(&user, &[]).output().expect("it starts");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("4 programs follow this process already"), "{errors}");
}

fn top(user: &User, arguments: &[&str]) -> Command {
    let mut command = user.gladhand("elsewhere");
    command.arg("top").args(arguments).env("TERM", "xterm").env_remove("COLUMNS");
    command
}

const ENTERS: &str = "\u{1b}[?1049h";
const LEAVES: &str = "\u{1b}[?25h\u{1b}[?1049l";

#[test]
fn top_shows_sessions_and_sorts_them_by_key() {
    let user = User::new();
    let mut process = serving(&user, &["serve"]);
    process.ask(&mcp_call(1, "wait", r#"{"ms":30}"#));
    let mut terminal = Terminal::with_columns(100, top(&user, &[]));
    terminal.until(ENTERS);
    let seen = terminal.until("quit:q");
    assert!(seen.contains("1 process, 1 session") && seen.contains("CALLS/S▾"), "{seen:?}");
    assert!(seen.contains(&format!("{:<7} test", process.id())) && seen.contains("DIALECT"), "{seen:?}");
    terminal.types("l");
    // The call that waited is counted in the first picture only, because the next one is about what happened since.
    terminal.until("LATENCY▾");
    terminal.types("R");
    terminal.until("LATENCY▴");
    // A key is not echoed, and each picture replaces the one before without clearing the screen.
    terminal.types("n");
    let seen = terminal.until("CLIENT▾") + &terminal.until("quit:q");
    assert!(seen.contains("\u{1b}[H") && !seen.contains("\u{1b}[2J") && !seen.contains("\u{1b}[Jn"), "{seen:?}");
    terminal.resize(60);
    loop {
        // A picture of the old size may still come.
        let picture = terminal.until("quit:q");
        if !picture.contains("DIALECT") {
            assert!(picture.contains("CLIENT▾"), "{picture:?}");
            break;
        }
    }
    terminal.types("q");
    terminal.until(LEAVES);
    assert_eq!(terminal.wait(), Some(0));
    assert!(terminal.is_usual());
}

#[test]
fn top_restores_the_terminal_after_signals() {
    let user = User::new();
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let mut terminal = Terminal::with_columns(80, top(&user, &[]));
        terminal.until(ENTERS);
        terminal.until("nothing runs");
        assert!(!terminal.is_usual());
        terminal.signal(signal);
        terminal.until(LEAVES);
        assert_eq!(terminal.wait(), Some(code));
        assert!(terminal.is_usual());
    }
}

#[test]
fn top_needs_a_terminal() {
    let user = User::new();
    let output = top(&user, &[]).stdin(std::process::Stdio::null()).output().expect("it starts");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(output.stdout.is_empty() && errors.contains("ps --watch"), "{errors}");
}
