//! `gladhand probe`: what it reports about servers of every kind, how it ends, and that it leaves no process.
#![cfg(unix)]

mod support;

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Output, Stdio};

use serde_json::{Value, json};
use support::gladhand;
use support::terminal::Terminal;
use unicode_width::UnicodeWidthStr as _;

/// An MCP server of the handshake era with known faults: it writes a banner, lists a tool twice, answers no unknown
/// version, and adds each line that it reads to a file.
const FAULTY: &str = r#"echo "Server ready"
while read -r line; do
  printf '%s\n' "$line" >> "$LOG"
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *2099-12-31*) ;;
    *'"initialize"'*)
      version=$(printf '%s' "$line" | sed -n 's/.*"protocolVersion":"\([^"]*\)".*/\1/p')
      echo '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}'
      echo '{"jsonrpc":"2.0","id":'$id',"result":{"protocolVersion":"'$version'","capabilities":{"tools":{},"prompts":{}},"serverInfo":{"name":"@acme/Faulty Server","version":"1"},"instructions":"Be careful."}}' ;;
    *'"tools/list"'*)
      echo '{"jsonrpc":"2.0","id":999,"result":{}}'
      echo '{"jsonrpc":"2.0","id":'$id',"result":{"tools":[{"name":"a","inputSchema":{"type":"object"}},{"name":"a","inputSchema":{"type":"object"}}]}}' ;;
    *'"id"'*) echo '{"jsonrpc":"2.0","id":'$id',"error":{"code":-32601,"message":"Method not found"}}' ;;
  esac
done"#;

fn probe(arguments: &[&str], script: Option<&str>) -> Command {
    let mut command = gladhand();
    command.arg("probe").args(arguments).env_remove("COLUMNS");
    if let Some(script) = script {
        command.args(["--", "sh", "-c", script]);
    }
    command
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

fn report(output: &Output) -> Value {
    serde_json::from_str(&text(output)).unwrap_or_else(|error| panic!("{error}: {}", text(output)))
}

fn codes(report: &Value) -> Vec<&str> {
    report["oddities"]
        .as_array()
        .expect("an array")
        .iter()
        .map(|oddity| oddity["code"].as_str().expect("a text"))
        .collect()
}

#[test]
fn our_own_server_opens_in_every_dialect_and_version() {
    let output = probe(&["--json"], None).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let report = report(&output);
    let clients = report["clients"].as_array().unwrap();
    assert_eq!((&report["opened"], &report["best"], clients.len()), (&json!(true), &json!("mcp@2026-07-28"), 8));
    for client in clients {
        assert_eq!((&client["opened"], &client["version"]), (&json!(true), &client["asked_version"]), "{client:#}");
        let tools = client["lists"].as_array().unwrap().iter().find(|list| list["list"] == "tools");
        assert!(tools.unwrap()["count"].as_u64().unwrap() >= 3, "{client:#}");
        assert!(client["opening_ms"].as_f64().unwrap() > 0.0);
    }
    let unknown: Vec<_> = report["unknown_versions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|unknown| format!("{} {} {}", unknown["dialect"], unknown["answer"], unknown["version"]).replace('"', ""))
        .collect();
    let expected =
        ["mcp refuses null", "mcp offers 2025-11-25", "loaf offers 1.0.0", "a2e refuses null"].map(str::to_owned);
    assert_eq!(unknown, expected);
    assert_eq!(report["early_requests"]["before_initialize"]["answer"], "refuses");
}

#[test]
fn the_faults_of_a_server_are_named_and_no_tool_is_called() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("lines");
    let output = probe(&["--json", "--timeout", "10"], Some(FAULTY)).env("LOG", &log).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let report = report(&output);
    assert_eq!(report["best"], "mcp@2025-11-25");
    assert_eq!(report["server"], json!({"name": "@acme/Faulty Server", "version": "1", "instructions": 11}));
    let codes = codes(&report);
    for code in [
        "stdout_junk",
        "early_message",
        "unknown_id",
        "listed_twice",
        "list_failed",
        "unknown_version_silent",
        "serves_before_initialize",
        "serves_before_initialized",
    ] {
        assert!(codes.contains(&code), "{code} is not among {codes:?}");
    }
    let lines = std::fs::read_to_string(&log).unwrap();
    assert!(lines.contains("tools/list") && lines.contains("2099-12-31"), "{lines}");
    assert!(!lines.contains("tools/call"), "{lines}");
}

#[test]
fn the_suggested_configuration_is_valid() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("lines");
    let output = probe(&["--json", "--timeout", "10"], Some(FAULTY)).env("LOG", &log).output().unwrap();
    let config = report(&output)["config"].as_str().unwrap().to_owned();
    assert!(config.starts_with("[upstreams.faulty-server]\ncommand = [\"sh\", \"-c\", "), "{config}");
    let file = folder.path().join("gladhand.toml");
    std::fs::write(&file, config).unwrap();
    let checked = gladhand().args(["config", "check", "--json"]).arg(&file).output().unwrap();
    assert_eq!(checked.status.code(), Some(0), "{}", text(&checked));
}

#[test]
fn a_server_of_another_dialect_is_configured_with_that_dialect() {
    let mut command = probe(&["--json", "--timeout", "10"], None);
    command.args(["--", env!("CARGO_BIN_EXE_gladhand"), "serve", "--dialect", "loaf"]);
    let report = report(&command.output().unwrap());
    assert_eq!(report["best"], "loaf@1.0.0");
    assert!(report["config"].as_str().unwrap().ends_with("speak = \"loaf\"\n"), "{report:#}");
}

/// `gladhand serve --http` at a free port, until the end of the test.
struct Served {
    child: Child,
    url: String,
}

impl Served {
    fn start() -> Self {
        let mut command = gladhand();
        command.args(["serve", "--http", "127.0.0.1:0"]).stdin(Stdio::null()).stdout(Stdio::null());
        let mut child = command.stderr(Stdio::piped()).spawn().expect("the program is built");
        let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines().map_while(Result::ok);
        let url = lines.find_map(|line| Some(line.split_once("listening on ")?.1.trim().to_owned()));
        // It must never wait for the test to read its log.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, url: url.expect("it listens") }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_server_over_http_is_probed_at_its_url() {
    let server = Served::start();
    let output = probe(&["--json", &server.url], None).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let report = report(&output);
    let opened = report["clients"].as_array().unwrap().iter().filter(|client| client["opened"] == true).count();
    // A2E is not served at the URL of the MCP endpoint.
    assert!(opened >= 4, "{report:#}");
    assert!(report["config"].as_str().unwrap().contains("\nurl = \"http://127.0.0.1:"), "{report:#}");
    let unknown = report["unknown_versions"].as_array().unwrap();
    assert!(unknown.iter().any(|unknown| unknown["answer"] == "offers"), "{unknown:?}");
    assert!(unknown.iter().any(|unknown| unknown["code"] == -32022), "{unknown:?}");
}

/// A name, a server that is none, and an oddity.
const BROKEN: [(&str, &str, &str); 6] = [
    ("silent", "cat >/dev/null", "silent_at_opening"),
    ("crashing", "echo no licence >&2; exit 3", "ends_at_opening"),
    ("junk", "echo Welcome; echo '{not json'; cat >/dev/null", "stdout_junk"),
    ("HTTP", r"printf 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n'; cat >/dev/null", "http_on_stdout"),
    ("endless", "exec yes", "floods"),
    ("echo", "exec cat", "repeats_input"),
];

#[test]
fn a_target_that_is_no_server_ends_with_4_in_time_and_is_described() {
    std::thread::scope(|scope| {
        for (name, script, oddity) in BROKEN {
            scope.spawn(move || {
                let begun = std::time::Instant::now();
                let output = probe(&["--json", "--timeout", "6"], Some(script)).output().unwrap();
                assert_eq!(output.status.code(), Some(4), "{name}: {}", text(&output));
                assert!(begun.elapsed().as_secs() < 20, "{name}: {:?}", begun.elapsed());
                let report = report(&output);
                assert!(codes(&report).contains(&oddity), "{name}: {report:#}");
                assert_eq!((&report["opened"], &report["error"]["exit"]), (&json!(false), &json!(4)), "{name}");
                assert_eq!(report["config"], Value::Null, "{name}");
            });
        }
    });
}

#[test]
fn a_program_that_cannot_be_started_is_reported_once() {
    let mut command = probe(&[], None);
    let output = command.args(["--", "/no/such/server"]).output().unwrap();
    assert_eq!(output.status.code(), Some(4));
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(errors.contains("could not start `/no/such/server`"), "{errors}");
}

#[test]
fn no_line_of_the_report_is_wider_than_the_terminal() {
    for columns in [60, 80, 120] {
        for script in [None, Some("echo no licence found anywhere, and this line is long enough >&2; exit 3")] {
            let output = probe(&[], script).env("COLUMNS", columns.to_string()).output().unwrap();
            let page = text(&output);
            // The configuration is to be copied, so it is never broken.
            let report = page.split("configuration, in").next().unwrap_or_default();
            let widest = report.lines().max_by_key(|line| line.width()).unwrap_or_default();
            assert!(widest.width() <= columns, "{columns} columns: {widest}\n{page}");
            assert!(page.contains("oddities") && !page.contains('\u{1b}'), "{page}");
        }
    }
}

#[test]
fn ctrl_c_ends_a_probe_at_once_and_leaves_no_process() {
    let folder = tempfile::tempdir().unwrap();
    let pids = folder.path().join("pids");
    let stubborn = "echo $$ >> \"$PIDS\"; trap '' TERM INT HUP; while :; do sleep 0.05; done";
    let mut command = probe(&[], Some(stubborn));
    command.env("PIDS", &pids);
    let mut terminal = Terminal::with_columns(80, command);
    terminal.until("opening as 8 clients");
    let deadline = std::time::Instant::now() + support::PATIENCE;
    let started = || std::fs::read_to_string(&pids).unwrap_or_default().lines().count();
    while started() < 8 {
        assert!(std::time::Instant::now() < deadline, "{} of 8 servers started", started());
        std::thread::yield_now();
    }
    let begun = std::time::Instant::now();
    terminal.interrupt();
    assert_eq!(terminal.ends(), Some(130));
    assert!(begun.elapsed().as_secs() < 3, "{:?}", begun.elapsed());
    for pid in std::fs::read_to_string(&pids).unwrap().lines() {
        let process = std::path::PathBuf::from(format!("/proc/{pid}"));
        while process.exists() {
            assert!(std::time::Instant::now() < deadline, "process {pid} is still there");
            std::thread::yield_now();
        }
    }
}
