//! `gladhand open`: what it draws, that `--json` says the same, how it ends, and what it leaves behind.
#![cfg(unix)]

mod support;

use std::io::BufRead as _;
use std::process::{Command, Output};

use serde_json::Value;
use support::terminal::Terminal;
use support::{assert_snapshot, gladhand, without_numbers, without_random_names};
use unicode_width::UnicodeWidthStr as _;

const TOKEN: &str = "sesame-open-up";

/// Answers an MCP `initialize` with an unknown version.
const FROM_THE_FUTURE: &str = r#"read -r line; echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2099-01-01","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}'; cat >/dev/null"#;
/// Refuses loaf's handshake.
const STRICT: &str = r#"read -r line; echo '{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"unsupported protocol_version: 1.0.0","data":{"reason":"unsupported_protocol_version","supported":"2.0.0"}}}'; cat >/dev/null"#;
/// Talks, but no protocol.
const GARBAGE: &str = "echo Welcome to my server; echo '{not json'; echo '\u{1b}[31mred\u{1b}[0m'; cat >/dev/null";

/// Name, arguments of `open`, server (none: our own), exit code.
const CASES: [Case; 14] = [
    ("mcp_2024-11-05", &["--as", "mcp@2024-11-05"], None, 0),
    ("mcp_2025-03-26", &["--as", "mcp@2025-03-26"], None, 0),
    ("mcp_2025-06-18", &["--as", "mcp@2025-06-18", "--declare", "roots,sampling"], None, 0),
    ("mcp_2025-11-25", &["--as", "mcp@2025-11-25"], None, 0),
    ("mcp_2026-07-28", &["--as", "mcp@2026-07-28"], None, 0),
    ("loaf", &["--as", "loaf"], None, 0),
    ("fluxloop", &["--as", "fluxloop"], None, 0),
    ("a2e", &["--as", "a2e", "--want", "tools,proc"], None, 0),
    ("a2e_no_capability", &["--as", "a2e", "--want", "proc"], None, 3),
    ("mcp_version_mismatch", &["--as", "mcp@2025-11-25"], Some(FROM_THE_FUTURE), 3),
    ("loaf_refused", &["--as", "loaf"], Some(STRICT), 3),
    ("exits_at_once", &["--as", "mcp"], Some("echo no licence found >&2; exit 7"), 4),
    // Until the timeout, the server must have started and said everything, also on a busy machine.
    ("silent", &["--as", "fluxloop", "--timeout", "10"], Some("cat >/dev/null"), 4),
    ("garbage", &["--as", "mcp", "--timeout", "10"], Some(GARBAGE), 4),
];

/// A case: its name, the arguments of `open`, the server and the exit code.
type Case = (&'static str, &'static [&'static str], Option<&'static str>, i32);

/// Tests all cases side by side, because some of them wait for their timeout.
fn each_case(test: impl Fn(Case) + Sync) {
    std::thread::scope(|scope| {
        let test = &test;
        let running = CASES.map(|case| (case.0, scope.spawn(move || test(case))));
        let failed: Vec<_> = running.into_iter().filter_map(|(name, case)| case.join().err().map(|_| name)).collect();
        assert!(failed.is_empty(), "{failed:?}");
    });
}

fn open(arguments: &[&str], server: Option<&str>) -> Command {
    let mut command = gladhand();
    command.arg("open").args(arguments).env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE").env_remove("COLUMNS");
    if let Some(script) = server {
        command.args(["--", "sh", "-c", script]);
    }
    command
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

/// Without what changes from run to run: times, random names, the path of our own program.
fn steady(text: &str) -> String {
    let text = without_numbers(&without_random_names(text), &["ts", "uptime_seconds", "at_ms", "took_ms"]);
    let mut shown = String::new();
    for line in text.lines() {
        shown.push_str(without_log_time(&without_milliseconds(line)).trim_end());
        shown.push('\n');
    }
    shown
}

/// The time of a log line becomes `TIME`.
fn without_log_time(line: &str) -> String {
    let is_time = |word: &&str| word.len() == 24 && word.ends_with('Z') && word.as_bytes()[10] == b'T';
    line.split(' ').find(is_time).map_or_else(|| line.to_owned(), |time| line.replacen(time, "TIME", 1))
}

/// `0.5 ms`, with the blanks before it, becomes `T ms`.
fn without_milliseconds(line: &str) -> String {
    let Some(end) = line.find(" ms") else { return line.to_owned() };
    let number = line[..end]
        .rfind(|c: char| !c.is_ascii_digit() && c != '.')
        .map_or(0, |at| at + line[at..].chars().next().map_or(1, char::len_utf8));
    if number == end {
        return line.to_owned();
    }
    format!("{} T{}", line[..number].trim_end(), &line[end..])
}

/// The page with each message on one line, however many it was broken into.
fn unbroken(page: &str) -> String {
    let mut joined = String::new();
    let mut message = String::new();
    for line in page.lines().chain([""]) {
        let piece = line.strip_prefix("    │ ").and_then(|rest| rest.strip_suffix(" │"));
        match piece {
            Some(piece) => message.push_str(piece),
            None => {
                if !message.is_empty() {
                    joined.push_str(&format!("    │ {}\n", message.trim_end()));
                    message.clear();
                }
                joined.push_str(&format!("{line}\n"));
            }
        }
    }
    joined
}

#[test]
fn the_drawing_is_the_exchange() {
    each_case(|(name, arguments, server, code)| {
        let output = open(arguments, server).env("COLUMNS", "100").output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{name}: {}", text(&output));
        // Where a message is broken depends on the length of what varies in it.
        let varies = name.starts_with("a2e");
        let page = steady(&if varies { unbroken(&text(&output)) } else { text(&output) });
        assert_snapshot(&format!("open_{name}.txt"), &page);
        assert!(!text(&output).contains('\u{1b}'), "{name}: no colours on a pipe, none from the server either");
    });
}

/// As the drawing shows a text: what would move the cursor is escaped.
fn visible(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { c.escape_default().to_string() } else { c.to_string() }).collect()
}

#[test]
fn the_revision_of_mcp_is_found_out_as_in_every_other_command() {
    let handshake_only = r#"while read -r line; do case "$line" in
      *'"initialize"'*) echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}' ;;
      *'"id"'*) echo '{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"Method not found"}}' ;;
    esac; done"#;
    for (server, revision) in [(None, "2026-07-28"), (Some(handshake_only), "2025-11-25")] {
        let output = open(&["--as", "mcp", "--json"], server).output().unwrap();
        let report: Value = serde_json::from_str(&text(&output)).unwrap();
        assert_eq!((&report["dialect"], &report["version"]), (&"mcp".into(), &revision.into()), "{report}");
    }
}

#[test]
fn a_server_that_is_known_to_speak_another_dialect_is_opened_as_the_client_that_was_named() {
    let folder = tempfile::tempdir().unwrap();
    let dialect = |client: &str| {
        let mut command = gladhand();
        command.args(["open", "--json", "--timeout", "10", "--as", client, "--", env!("CARGO_BIN_EXE_gladhand")]);
        command.args(["serve", "--dialect", "a2e"]).env("GLADHAND_DATA_DIR", folder.path());
        let report: Value = serde_json::from_str(&text(&command.output().unwrap())).unwrap();
        (report["dialect"].as_str().map(ToOwned::to_owned), report["opened"].as_bool())
    };
    assert_eq!(dialect("auto"), (Some("a2e".to_owned()), Some(true)));
    assert_eq!(dialect("mcp"), (Some("mcp".to_owned()), Some(false)));
}

#[test]
fn the_json_and_the_drawing_agree() {
    each_case(|(name, arguments, server, code)| {
        let (drawn, printed) = std::thread::scope(|scope| {
            let drawn = scope.spawn(|| open(arguments, server).output().unwrap());
            let printed = open(&[arguments, &["--json"]].concat(), server).output().unwrap();
            (drawn.join().unwrap(), printed)
        });
        assert_eq!((drawn.status.code(), printed.status.code()), (Some(code), Some(code)), "{name}");
        let page = steady(&unbroken(&text(&drawn)));
        let report: Value = serde_json::from_str(&text(&printed)).unwrap();
        assert_eq!(report["opened"], code == 0, "{name}");
        // The same messages, in the same order and direction.
        let raw = steady(&text(&printed));
        let mut at = 0;
        let messages = report["messages"].as_array().unwrap();
        for message in messages {
            let arrow = if message["from"] == "client" { "▶│" } else { "◀" };
            at += page[at..].find(arrow).unwrap_or_else(|| panic!("{name}: no arrow for {message} in\n{page}"));
            at += page[at..].find('\n').unwrap();
        }
        let arrows = page.matches("▶│").count() + page.matches('◀').count();
        assert_eq!(arrows, messages.len(), "{name}");
        let drawn: Vec<_> = page.lines().filter_map(|line| line.strip_prefix("    │ ")).collect();
        assert_eq!(drawn.len(), messages.len(), "{name}");
        for (drawn, message) in drawn.iter().zip(messages) {
            // A long message is drawn up to a point.
            let drawn = &drawn.trim_end().strip_suffix('…').unwrap_or(drawn);
            match message.get("message") {
                Some(_) => assert!(raw.contains(drawn), "{name}: {drawn} is drawn and not printed"),
                None => assert_eq!(*drawn, visible(message["text"].as_str().unwrap()), "{name}"),
            }
        }
        // The same terms, in force or not.
        for term in report["agreement"]["terms"].as_array().into_iter().flatten() {
            let capability = term["capability"].as_str().unwrap();
            let row = page.lines().find(|line| line.split_whitespace().next() == Some(capability));
            let row = row.unwrap_or_else(|| panic!("{name}: no row for {capability} in\n{page}"));
            assert_eq!(row.contains(" yes"), term["verdict"] == "agreed", "{name}: {row}");
        }
        // The same verdict.
        match report["refusal"]["message"].as_str() {
            None => assert!(page.contains("  open  "), "{name}: {page}"),
            Some(why) => {
                let reason = report["refusal"]["reason"].as_str().unwrap();
                // A long line is broken between words.
                let unbroken = page.split_whitespace().collect::<Vec<_>>().join(" ");
                assert!(unbroken.contains(&format!(" no session {why} ({reason})")), "{name}: {why}\n{page}");
            }
        }
        let stderr = report["stderr"].as_array().unwrap();
        assert_eq!(page.matches("  stderr: ").count(), stderr.len(), "{name}");
    });
}

#[test]
fn colours_are_for_terminals_only() {
    let plain = text(&open(&["--as", "fluxloop"], None).output().unwrap());
    let refused =
        text(&open(&["--as", "fluxloop"], None).env("NO_COLOR", "1").env("CLICOLOR_FORCE", "1").output().unwrap());
    assert_eq!((plain.contains('\u{1b}'), refused.contains('\u{1b}')), (false, false));
}

#[test]
fn the_token_is_presented_and_never_shown() {
    let served = env!("CARGO_BIN_EXE_gladhand");
    for (with, code, reason) in [(TOKEN, 0, None), ("another-secret", 3, Some("auth_failed"))] {
        for json in [true, false] {
            let mut command = gladhand();
            command.args(["-vvv", "open", "--as", "a2e"]).env("GLADHAND_A2E_TOKEN", with);
            if json {
                command.arg("--json");
            }
            // The server expects its own.
            command.args(["--", "env", &format!("GLADHAND_A2E_TOKEN={TOKEN}"), served, "-vvv", "serve"]);
            let output = command.output().unwrap();
            assert_eq!(output.status.code(), Some(code), "{}", text(&output));
            let errors = String::from_utf8_lossy(&output.stderr).into_owned();
            if json {
                let report: Value = serde_json::from_str(&text(&output)).unwrap();
                assert_eq!(report["refusal"]["reason"].as_str(), reason);
                assert_eq!(report["messages"][0]["message"]["auth_token"], "***");
            }
            // The command line of the server is ours to show; what was sent is not.
            let shown = text(&output).replace(&format!("GLADHAND_A2E_TOKEN={TOKEN}"), "");
            for secret in [TOKEN, "another-secret"] {
                assert!(!shown.contains(secret) && !errors.contains(secret), "{shown}\n{errors}");
            }
        }
    }
}

#[test]
fn invalid_targets_of_open_are_reported_with_exit_codes() {
    for (arguments, code, words) in [
        (&["--as", "mcp", "--", "/no/such/server"][..], 4, "could not start `/no/such/server`"),
        (&["--as", "mcp", "--json", "--", "/no/such/server"][..], 4, r#""reason":"not_started""#),
        (&["--as", "mcp@1999-01-01"][..], 2, "invalid value 'mcp@1999-01-01'"),
        (&["--as", "smoke-signals"][..], 2, "invalid value 'smoke-signals'"),
        (&["--as", "mcp", "--timeout", "0"][..], 2, "--timeout"),
        (&["ftp://x/"][..], 2, "`ftp://x/` cannot be opened: a URL begins with http:// or https://"),
        (&["--want", "nosuch"][..], 2, "--want: there is no capability `nosuch` of a server\nhint: known names: "),
        (&["--as", "mcp", "--declare", "foo"][..], 2, "no capability `foo` of a client\nhint: known names: roots, "),
        (&[][..], 0, "opening as mcp@2026-07-28"),
    ] {
        let output = gladhand().arg("open").args(arguments).output().unwrap();
        let everything = text(&output) + &String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{everything}");
        assert!(everything.contains(words), "{words} is not in\n{everything}");
    }
}

#[test]
fn nothing_is_wider_than_the_terminal() {
    let far = "x".repeat(90);
    let wordy = format!(
        r#"read -r line; echo '{{"jsonrpc":"2.0","id":1,"result":{{"protocolVersion":"2025-11-25","capabilities":{{"experimental":{{"org.example/{far}":{{}}}}}},"serverInfo":{{"name":"書類 {far}","version":"1"}}}}}}'; cat >/dev/null"#
    );
    let dying = format!("echo {far} {far} >&2; exit 7");
    for columns in [60, 61, 72, 80, 99, 132] {
        for (arguments, server) in [
            (&["--as", "mcp@2026-07-28"][..], None),
            (&["--as", "fluxloop"], None),
            (&["--as", "a2e", "--want", "tools,proc"], None),
            (&["--as", "mcp", "--want", "tools", "--declare", "roots.listChanged"], Some(wordy.as_str())),
            (&["--as", "mcp"], Some(dying.as_str())),
            (&["--as", "all", "--timeout", "20"], Some(dying.as_str())),
        ] {
            let output = open(arguments, server).env("COLUMNS", columns.to_string()).output().unwrap();
            let page = text(&output);
            assert!(page.lines().count() > 5, "{page}");
            let widest = page.lines().max_by_key(|line| line.width()).unwrap_or_default();
            assert!(widest.width() <= columns, "{columns} columns, {arguments:?}: {widest}\n{page}");
        }
    }
}

#[test]
fn the_opening_timeout_includes_the_detection_of_the_dialect() {
    let begun = std::time::Instant::now();
    let output = open(&["--timeout", "5"], Some("exec sleep 300")).output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{}", text(&output));
    assert!(text(&output).contains("did not answer the opening within 5 s"), "{}", text(&output));
    let hint = "it wrote nothing to stdout: does it speak mcp, loaf, a2e or fluxloop on stdin and stdout?";
    assert!(in_words(&text(&output)).contains(hint), "{}", text(&output));
    assert!(begun.elapsed().as_secs_f64() < 7.0, "{:?}", begun.elapsed());
}

#[test]
fn open_shows_its_current_attempt_and_can_be_interrupted() {
    let stubborn = "trap '' TERM INT HUP; while :; do sleep 0.05; done";
    for (arguments, told) in [
        (&[][..], "finding out what it speaks: mcp, then "),
        (&["--as", "all"], "opening as 8 clients, at most 30 s"),
        (&["--as", "mcp"], "\"method\":\"initialize\""),
    ] {
        let mut terminal = Terminal::with_columns(80, open(arguments, Some(stubborn)));
        terminal.until(told);
        let begun = std::time::Instant::now();
        terminal.interrupt();
        terminal.until("interrupted");
        assert_eq!(terminal.ends(), Some(130), "{arguments:?}");
        assert!(begun.elapsed().as_secs() < 3, "{arguments:?}: {:?}", begun.elapsed());
    }
}

#[test]
fn each_phase_of_an_opening_shows_its_timeout() {
    let mut terminal = Terminal::with_columns(80, open(&["--timeout", "4"], Some("exec sleep 300")));
    terminal.until("finding out what it speaks: mcp, then loaf, a2e, fluxloop, at most 4 s …");
    terminal.until("opening as mcp@");
    terminal.until("waiting for an answer as mcp@");
    terminal.until(", at most 2 s …");
    terminal.until("did not answer the opening within 4 s");
    assert_eq!(terminal.ends(), Some(4));
}

/// A server that gives every request the same answer. It ends with the test.
fn always_answering(answer: &'static str) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/", listener.local_addr().expect("an address"));
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut lines = std::io::BufReader::new(stream.try_clone().expect("a second handle")).lines();
            while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
            let _ = std::io::Write::write_all(&mut stream, answer.as_bytes());
        }
    });
    url
}

#[test]
fn an_answer_that_is_no_protocol_message_is_described() {
    let page = "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nConnection: close\r\n\r\n<html>hi</html>";
    let broken = "HTTP/1.1 501 Not Implemented\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    for (answer, message, hint) in [
        (
            page,
            "the answer is a web page (HTTP status 200)",
            "is this the URL of an MCP endpoint (its path is often /mcp)?",
        ),
        (broken, "the server answered with HTTP status 501", "is it running"),
    ] {
        let url = always_answering(answer);
        for client in ["auto", "mcp@2025-11-25"] {
            let output = open(&["--as", client, "--json", &url], None).output().unwrap();
            let report: Value = serde_json::from_str(&text(&output)).unwrap();
            assert_eq!(output.status.code(), Some(4), "{report:#}");
            assert!(report["error"]["message"].as_str().unwrap().contains(message), "{report:#}");
            let hints = report["hints"].as_array().unwrap();
            assert!(hints.len() == 1 && hints[0].as_str().unwrap().contains(hint), "{report:#}");
        }
    }
}

/// The page with one blank between words, however its lines are broken.
fn in_words(page: &str) -> String {
    page.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn every_client_is_tried_and_shown_in_one_table() {
    let output = open(&["--as", "all"], None).env("COLUMNS", "80").output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_snapshot("open_all.txt", &steady(&text(&output)));
    // It speaks one revision, and says nothing in any other dialect.
    let one = r#"read -r line; case "$line" in *initialize*) echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}';; esac; cat >/dev/null"#;
    let output = open(&["--as", "all", "--json"], Some(one)).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let report: Value = serde_json::from_str(&text(&output)).unwrap();
    let attempts = report["attempts"].as_array().unwrap();
    let shown: Vec<_> = attempts
        .iter()
        .map(|attempt| {
            let of = |name: &str| attempt[name].as_str().unwrap_or("-").to_owned();
            format!("{} {} {}", of("dialect"), of("asked_version"), of("version"))
        })
        .collect();
    let expected = [
        "mcp 2026-07-28 -",
        "mcp 2025-11-25 2025-06-18",
        "mcp 2025-06-18 2025-06-18",
        "mcp 2025-03-26 2025-06-18",
        "mcp 2024-11-05 2025-06-18",
        "loaf 1.0.0 -",
        "a2e 1.0 -",
        "fluxloop 0.1.0 -",
    ];
    assert_eq!((&report["opened"], shown), (&Value::Bool(true), expected.map(str::to_owned).to_vec()));
    assert_eq!(attempts[0]["refusal"]["reason"], "timed_out");
    // No opening succeeds: the exit code is that of the first client.
    let output = open(&["--as", "all", "--json"], Some("exit 7")).output().unwrap();
    let report: Value = serde_json::from_str(&text(&output)).unwrap();
    assert_eq!((output.status.code(), &report["opened"]), (Some(4), &Value::Bool(false)));
    assert!(report["attempts"].as_array().unwrap().iter().all(|attempt| attempt["exit"] == "exit status: 7"));
    // The table says what to do about it.
    let page = in_words(&text(&open(&["--as", "all"], Some("echo no licence found >&2; exit 7")).output().unwrap()));
    for line in ["hint: it wrote nothing to stdout", "stderr: no licence found"] {
        assert_eq!(page.matches(line).count(), 1, "{line}: {page}");
    }
    assert!(page.contains("the server ended before the session was open (exit status: 7)"), "{page}");
    assert!(!page.contains("gladhand bridge"), "{page}");
    let page = in_words(&text(&open(&["--as", "all"], Some(one)).output().unwrap()));
    assert_eq!(page.matches("hint: ").count(), 1, "{page}");
    assert!(page.contains("hint: `gladhand bridge -- sh -c"), "{page}");
    assert!(page.contains("` makes the server open with every client"), "{page}");
    let output = open(&["--as", "all", "--want", "tools"], None).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let output = gladhand().args(["open", "--as", "all", "--", "no-such-program"]).output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(4), 0), "{errors}");
    assert_eq!(errors.matches("could not start `no-such-program`").count(), 1, "{errors}");
}

#[test]
fn no_process_is_left_behind() {
    let folder = tempfile::tempdir().unwrap();
    let cases = [
        ("one that ignores the end of its input", "echo $$ >PIDS; exec sleep 300"),
        ("one with a child of its own", "echo $$ >PIDS; sleep 300 & echo $! >>PIDS; wait"),
        ("one that ignores a polite request", "trap '' TERM INT HUP; echo $$ >PIDS; while :; do sleep 0.05; done"),
    ];
    std::thread::scope(|scope| {
        for (number, (name, script)) in cases.into_iter().enumerate() {
            let pids = folder.path().join(number.to_string());
            scope.spawn(move || {
                let script = script.replace("PIDS", pids.to_str().unwrap());
                let output = open(&["--as", "loaf", "--timeout", "1"], Some(&script)).output().unwrap();
                assert_eq!(output.status.code(), Some(4), "{name}");
                for pid in std::fs::read_to_string(&pids).unwrap().lines() {
                    // A killed process may take a moment to disappear.
                    let begun = std::time::Instant::now();
                    while let Some(state) = running(pid) {
                        assert!(begun.elapsed().as_secs() < 10, "{name}: process {pid} is still there: {state}");
                        std::thread::sleep(std::time::Duration::from_millis(10));
                    }
                }
            });
        }
    });
}

/// The state of a running process, as the system reports it.
fn running(pid: &str) -> Option<String> {
    let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    (!state.is_empty() && !state.contains(") Z ")).then_some(state)
}

#[test]
fn a_program_that_repeats_its_input_is_called_no_server() {
    let output = open(&["--as", "mcp@2025-06-18"], Some("cat")).output().unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(shown.contains("it is no server") && !shown.contains("--as all"), "{shown}");
    assert!(shown.lines().all(|line| line.width() <= 80), "not wider than a usual terminal: {shown}");
}

/// A server that repeats the token that it receives, in every place where it can.
const PARROT: &str = r#"read -r line; token=$(printf '%s' "$line" | sed 's/.*"auth_token":"\([^"]*\)".*/\1/')
id=$(printf '%s' "$line" | sed 's/.*"id":"\([^"]*\)".*/\1/')
echo "log: got $token"; echo "log: got $token" >&2
printf '{"type":"handshake/resp","id":"x","req_id":"%s","session_id":"%s","accepted_caps":[{"capability":"tools","enabled":true,"metadata":{"auth_token":"%s"}}],"max_parallel":4,"ok":OK,"reason":"%s","note":{"Token":"%s"}}\n' "$id" "$token" "$token" "$token" "$token"
cat >/dev/null"#;

#[test]
fn a_token_that_the_server_repeats_is_not_shown_either() {
    for ok in ["true", "false"] {
        for arguments in [&["--as", "a2e"][..], &["--as", "a2e", "--json"], &["-v", "--as", "a2e"]] {
            let output =
                open(arguments, Some(&PARROT.replace("OK", ok))).env("GLADHAND_A2E_TOKEN", TOKEN).output().unwrap();
            let errors = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(if ok == "true" { 0 } else { 3 }), "{}", text(&output));
            assert!(text(&output).contains("***"), "{}", text(&output));
            assert!(!text(&output).contains(TOKEN), "{}", text(&output));
            assert!(!errors.contains(TOKEN), "{errors}");
            assert_eq!(arguments[0] == "-v", errors.contains("stderr: log: got ***"), "{errors}");
        }
    }
}

#[test]
fn nothing_that_a_server_wrote_moves_the_cursor() {
    let escape = r"\u001b[2J\u001b]0;title\u0007\u009b1m";
    let long = "x".repeat(30_000);
    for answer in [
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"result":{{"protocolVersion":"2025-11-25","capabilities":{{"{escape}":{{}},"{long}":{{}}}},"serverInfo":{{"name":"{escape}","version":"{escape}"}}}}}}"#
        ),
        format!(r#"{{"jsonrpc":"2.0","id":1,"error":{{"code":-1,"message":"{escape}"}}}}"#),
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"result":{{"protocolVersion":"{escape}","capabilities":{{}},"serverInfo":{{"name":"a","version":"1"}}}}}}"#
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("answer");
        std::fs::write(&file, format!("{answer}\n")).unwrap();
        let script =
            format!("read -r line; cat {}; printf '\\033[2Jlast words\\n' >&2; cat >/dev/null", file.display());
        let output = open(&["--as", "mcp"], Some(&script)).output().unwrap();
        assert!(matches!(output.status.code(), Some(0 | 3)), "{:?}", output.status);
        let page = text(&output);
        let moves = |c: char| c.is_control() && c != '\n';
        assert!(!page.contains(moves), "{page:?}");
        assert!(page.lines().all(|line| line.chars().count() < 300), "{page}");
    }
}

/// A server over HTTP that ends with the test.
struct Listening {
    child: std::process::Child,
    url: String,
}

impl Listening {
    fn start() -> Self {
        let mut command = gladhand();
        command.args(["serve", "--http", "127.0.0.1:0"]);
        let mut child = command.stderr(std::process::Stdio::piped()).spawn().expect("it starts");
        let mut line = String::new();
        let errors = child.stderr.take().expect("it is piped");
        std::io::BufReader::new(errors).read_line(&mut line).expect("it says where it listens");
        let url = line.split_whitespace().find(|word| word.starts_with("http://")).expect("a URL").to_owned();
        Self { child, url }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_url_is_opened_as_a_command_is() {
    let server = Listening::start();
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"] {
        let client = format!("mcp@{version}");
        let page = text(&open(&["--as", &client, &server.url], None).output().unwrap());
        assert!(page.contains(&format!("open  mcp {version} with gladhand")), "{page}");
        let reports = [open(&["--as", &client, &server.url, "--json"], None), open(&["--as", &client, "--json"], None)];
        let [over_http, over_stdio] = reports.map(|mut command| {
            let output = command.output().unwrap();
            assert_eq!(output.status.code(), Some(0), "{}", text(&output));
            serde_json::from_str::<Value>(&text(&output)).unwrap()
        });
        assert_eq!((&over_http["url"], &over_http["command"]), (&Value::from(&*server.url), &Value::Array(Vec::new())));
        assert_eq!((over_http["agreement"].get("version"), &over_stdio["url"]), (Some(&version.into()), &Value::Null));
        let client_lines = |report: &Value| {
            let all = report["messages"].as_array().unwrap().clone();
            all.into_iter()
                .filter(|message| message["from"] == "client")
                .map(|message| message["message"].clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(client_lines(&over_http), client_lines(&over_stdio), "{version}");
    }
    // The older pair of addresses is found out.
    let pair = server.url.replace("/mcp", "/sse");
    let page = text(&open(&["--as", "mcp@2024-11-05", &pair], None).output().unwrap());
    assert!(page.contains("open  mcp 2024-11-05 with gladhand"), "{page}");
}

#[test]
fn failures_at_a_url_are_reported_with_exit_codes() {
    let server = Listening::start();
    let elsewhere = server.url.replace("/mcp", "/nothing");
    for (arguments, code, words) in [
        (&["--as", "mcp", &elsewhere][..], 3, "nothing is served at this path"),
        (&["--as", "mcp", "http://127.0.0.1:9/mcp"], 4, "(unreachable)"),
        (&["--as", "mcp", "--json", "http://127.0.0.1:9/mcp"], 4, r#""reason":"unreachable""#),
        (&["--as", "loaf", &server.url], 2, "loaf is not spoken over HTTP"),
        (&["--as", "a2e", &server.url], 3, "is this the URL of a host of A2E?"),
        (&["--as", "mcp", &server.url, "more"], 2, "unexpected argument 'more'"),
        (&["--as", "mcp", &server.url, "--", "more"], 2, "not both"),
        (&["--as", "mcp", "--header", "nonsense", &server.url], 2, "--header wants `Name: value`"),
    ] {
        let output = open(arguments, None).output().unwrap();
        let everything = text(&output) + &String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {everything}");
        assert!(everything.contains(words), "{arguments:?}: {words} is not in\n{everything}");
    }
}
