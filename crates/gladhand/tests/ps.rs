//! Running processes as an operator sees them: `gladhand ps`, and calls in the log.

mod support;

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};
use support::mcp_call;
use support::terminal::Terminal;
use support::user::User;

fn sockets(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn ps_shows_sessions_of_processes_with_any_data_folder() {
    let user = User::new();
    let mut first = user.session("one", &["serve"]);
    let second = user.session("two", &["serve"]);
    first.ask(&mcp_call(1, "echo", r#"{"message":"hi"}"#));
    first.send(&mcp_call(2, "wait", r#"{"ms":600000}"#));
    // A server without upstreams opens its socket a moment after its start.
    let all = user.until("both are there and the call runs", |all| {
        all.len() == 2 && all.iter().any(|one| one["sessions"][0]["under_way"] == 1)
    });
    let of = |process: &support::Process| all.iter().find(|one| one["pid"] == process.id()).expect("it is found");
    let session = &of(&first)["sessions"][0];
    let client = json!({"name": "test", "version": "1", "principal": null, "dialect": "mcp", "revision": "2025-06-18"});
    assert_eq!((&session["clients"], &session["calls"]), (&json!([client]), &json!(2)));
    assert_eq!((&session["running"][0]["kind"], &session["running"][0]["name"]), (&json!("tool"), &json!("wait")));
    assert!(session["since"].as_u64().is_some_and(|since| since > 1_700_000_000), "{session}");
    assert_eq!(of(&second)["sessions"][0]["calls"], 0);
    assert!(of(&second)["data_dir"].as_str().is_some_and(|folder| folder.ends_with("/two")));
    let mode = std::fs::metadata(user.run_folder()).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o700);

    let mut terminal = Terminal::with_columns(60, {
        let mut command = user.gladhand("elsewhere");
        command.arg("ps");
        command
    });
    let seen = terminal.until("idle");
    assert!(seen.contains("session: test 1, mcp 2025-06-18") && seen.contains("running wait for"), "{seen}");
    first.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}"#);
    user.until("no call runs", |all| all.iter().all(|one| one["sessions"][0]["under_way"] == 0));
    assert_eq!(first.finish().0, 0);
    assert_eq!(second.finish().0, 0);
    assert_eq!(sockets(&user.run_folder()), [""; 0], "a process that ends removes its socket");
}

#[test]
fn sockets_that_dead_processes_left_are_removed() {
    let user = User::new();
    let alive = user.session("data", &["serve"]);
    user.until("it is seen", |all| all.len() == 1);
    for name in ["1.sock", "1.tap"] {
        drop(UnixListener::bind(user.run_folder().join(name)).expect("a socket"));
    }
    assert_eq!(user.ps().len(), 1);
    assert_eq!(sockets(&user.run_folder()), [format!("{}.sock", alive.id()), format!("{}.tap", alive.id())]);
}

#[test]
fn a_folder_that_others_may_enter_is_not_used() {
    let user = User::new();
    std::fs::create_dir_all(user.run_folder()).expect("a folder");
    std::fs::set_permissions(user.run_folder(), std::fs::Permissions::from_mode(0o777)).expect("it is ours");
    let _process = user.session("data", &["serve"]);
    user.until("it is found in the folder of the user", |all| all.len() == 1);
    assert_eq!(sockets(&user.run_folder()), [""; 0]);
}

#[test]
fn ps_watch_continues_until_it_is_interrupted() {
    let user = User::new();
    let _process = user.session("data", &["serve"]);
    user.until("it is seen", |all| all.len() == 1);
    let watch = |arguments: &[&str]| {
        let mut command = user.gladhand("elsewhere");
        command.args(["ps", "--watch"]).args(arguments).env("TERM", "xterm");
        command
    };
    let mut terminal = Terminal::with_columns(60, watch(&[]));
    let seen = terminal.until("idle");
    assert!(seen.starts_with("\u{1b}[?1049h") && seen.contains("Ctrl-C ends"), "{seen:?}");
    terminal.until("Ctrl-C ends");
    terminal.resize(80);
    terminal.interrupt();
    terminal.until("\u{1b}[?1049l");
    assert_eq!(terminal.ends(), Some(130));

    let mut child = watch(&[]).stdout(Stdio::piped()).spawn().expect("it starts");
    let lines: Vec<_> = BufReader::new(child.stdout.take().expect("piped")).lines().take(8).flatten().collect();
    assert!(!lines.concat().contains('\u{1b}'), "{lines:?}");
    assert_eq!(lines.iter().filter(|line| line.contains("gladhand serve")).count(), 2, "{lines:?}");
    // Its pipe is closed, so it ends by itself.
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
    let mut child = watch(&["--json"]).stdout(Stdio::piped()).spawn().expect("it starts");
    for line in BufReader::new(child.stdout.take().expect("piped")).lines().take(2) {
        let all: Vec<Value> = serde_json::from_str(&line.expect("a line")).expect("JSON");
        assert_eq!(all.len(), 1);
    }
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
}

const DENYING: &str = "[[policy.rules]]\nname = 'no-waiting'\ntools = ['wait']\neffect = 'deny'\n";

#[test]
fn calls_and_denials_are_logged_without_arguments() {
    let user = User::new();
    std::fs::write(user.at("deny.toml"), DENYING).expect("it can be written");
    let log = |arguments: &[&str]| {
        let mut process = user.session("data", &[&["serve", "--config", "deny.toml"], arguments].concat());
        process.ask(&mcp_call(1, "echo", r#"{"message":"open sesame"}"#));
        process.ask(&mcp_call(2, "wait", r#"{"ms":1}"#));
        process.ask(&mcp_call(3, "no\\u001b[2Jne", "{}"));
        process.finish().2
    };
    assert_eq!(log(&[]), "", "nothing is logged without -v");
    let human = log(&["-v"]);
    for line in human.lines() {
        let time = line.split(' ').next().unwrap_or_default();
        assert!(time.len() == 24 && time.ends_with('Z') && time.contains('T'), "no time in {line}");
    }
    assert!(!human.contains("sesame") && !human.contains('\u{1b}'), "{human}");
    assert!(human.contains(r#"call kind="tool" name="echo" outcome="ok" duration_ms="#), "{human}");
    let denied = r#"call kind="tool" name="wait" outcome="denied" rule="no-waiting" duration_ms="#;
    assert!(human.contains(denied), "{human}");
    let call = human.lines().find(|line| line.contains(r#"name="echo""#)).expect("the call is logged");
    let opened = human.lines().find(|line| line.contains("session open")).expect("the session is logged");
    let session = opened.split(' ').find(|word| word.starts_with("session=")).expect("it has a number");
    assert!(call.contains(session) && call.contains("client="), "{human}");
    let closed = human.lines().find(|line| line.contains("session closed")).expect("its end is logged");
    assert!(closed.contains(session) && closed.contains("client="), "{human}");
    let json = log(&["-v", "--log-format", "json"]);
    let lines: Vec<Value> = json.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let calls: Vec<_> = lines.iter().filter(|line| line["target"] == "gladhand::calls").collect();
    let outcomes: Vec<_> = calls.iter().map(|call| &call["fields"]["outcome"]).collect();
    assert_eq!(outcomes, ["ok", "denied", "unknown_tool"], "{json}");
    assert!(calls.iter().all(|call| call["fields"]["duration_ms"].is_f64()), "{json}");
}

#[test]
fn a_cancelled_call_is_logged_as_such() {
    let user = User::new();
    let mut process = user.session("data", &["serve", "-v"]);
    process.send(&mcp_call(1, "wait", r#"{"ms":600000}"#));
    process.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#);
    process.ask(&mcp_call(2, "echo", r#"{"message":"hi"}"#));
    let log = process.finish().2;
    assert!(log.contains(r#"name="wait" outcome="cancelled""#), "{log}");
}

#[test]
fn with_json_logs_everything_on_stderr_is_json() {
    let user = User::new();
    std::fs::write(user.at("wrong.toml"), "nonsense = 1\n").expect("it can be written");
    // A bridge starts its server with the first line.
    std::fs::write(user.at("line"), "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n").expect("it can be written");
    let line = || std::fs::File::open(user.at("line")).expect("it was written");
    let failures: [&[&str]; 6] = [
        &["serve", "--nonsense"],
        &["--log-format=json", "nonsense"],
        &["serve", "--config", "wrong.toml"],
        &["serve", "--config", "missing.toml", "-q"],
        &["bridge", "--", "/no/such/program"],
        &["serve", "--http", "256.0.0.1:0"],
    ];
    for arguments in failures {
        let mut command = user.gladhand("data");
        command.args(["--log-format", "json"]).args(arguments).stdin(line());
        if arguments[0] == "--log-format=json" {
            command = user.gladhand("data");
            command.args(arguments).stdin(Stdio::null());
        }
        let output = command.output().expect("it starts");
        let errors = String::from_utf8(output.stderr).expect("UTF-8");
        assert!(!output.status.success() && !errors.is_empty(), "{arguments:?}");
        for line in errors.lines() {
            let line: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in {errors}"));
            let has_all = ["timestamp", "level", "target"].iter().all(|name| line[*name].is_string());
            assert!(has_all && line["fields"]["message"].is_string(), "{line}");
        }
    }
    let mut bad = user.gladhand("data");
    let output = bad.args(["serve", "--log-format", "json"]).env("GLADHAND_LOG", "a=b=c").output().expect("it starts");
    let line: Value = serde_json::from_slice(&output.stderr).expect("one JSON object");
    assert!(line["fields"]["message"].as_str().is_some_and(|message| message.contains("GLADHAND_LOG")), "{line}");

    let mut server = user.gladhand("data");
    server.args(["serve", "--http", "127.0.0.1:0", "--log-format", "json", "-q"]).stderr(Stdio::piped());
    let mut server = server.spawn().expect("it starts");
    let mut line = String::new();
    BufReader::new(server.stderr.take().expect("piped")).read_line(&mut line).expect("a line");
    server.kill().expect("it runs");
    server.wait().expect("it ends");
    let line: Value = serde_json::from_str(&line).expect("JSON");
    assert!(line["fields"]["url"].as_str().is_some_and(|url| url.starts_with("http://127.0.0.1:")), "{line}");
}

#[test]
fn an_upstream_that_has_not_opened_yet_is_shown_as_opening() {
    let user = User::new();
    let config = "[upstreams.silent]\ncommand = [\"sh\", \"-c\", \"exec sleep 600\"]\n";
    std::fs::write(user.at("gladhand.toml"), config).expect("it can be written");
    let config = user.at("gladhand.toml").display().to_string();
    let process = user.session("a", &["serve", "--config", &config]);
    let all = user.until("it is opening", |all| all.iter().any(|one| one["hub"]["upstreams"][0]["state"] == "opening"));
    let detail = all[0]["hub"]["upstreams"][0]["detail"].as_str().unwrap_or_default();
    assert!(detail.starts_with("for ") && detail.ends_with(" s"), "{detail}");
    drop(process);
}
