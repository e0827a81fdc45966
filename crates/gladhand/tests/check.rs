//! `gladhand check`: our own sides keep the rules, faulty peers of every dialect are caught, and the reports can be read.
#![cfg(unix)]

mod support;

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Output, Stdio};

use serde_json::{Value, json};
use support::gladhand;
use support::terminal::Terminal;
use unicode_width::UnicodeWidthStr as _;

/// An MCP server with faults: it answers `initialize` with the version that it is asked for, gives one tool no schema,
/// serves prompts without the capability, answers unknown methods with another code, and logs each line.
const FAULTY_MCP: &str = r#"while read -r line; do
  printf '%s\n' "$line" >> "$LOG"
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\("[^"]*"\|[0-9]*\).*/\1/p')
  case "$line" in
    *'"initialize"'*)
      version=$(printf '%s' "$line" | sed -n 's/.*"protocolVersion":"\([^"]*\)".*/\1/p')
      echo '{"jsonrpc":"2.0","id":'$id',"result":{"protocolVersion":"'$version'","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}' ;;
    *'"tools/list"'*)
      echo '{"jsonrpc":"2.0","id":'$id',"result":{"tools":[{"name":"delete_all","annotations":{"readOnlyHint":true}}]}}' ;;
    *'"prompts/list"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":{"prompts":[]}}' ;;
    *'"ping"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":{}}' ;;
    *'"id":'*'"method":'*|*'"method":'*'"id":'*) echo '{"jsonrpc":"2.0","id":'$id',"error":{"code":-32000,"message":"no"}}' ;;
  esac
done"#;

/// A host of A2E with the defects of the reference: no member `a2e`, no refusals, and requests before the handshake are
/// executed.
const FAULTY_A2E: &str = r#"while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":"\([^"]*\)".*/\1/p')
  n=$((n+1)); head='"id":"h'$n'","version":"1.0","ts":1.5,"req_id":"'$id'"'
  case "$line" in
    *'"handshake/req"'*) echo '{"type":"handshake/resp",'$head',"session_id":"s'$n'","accepted_caps":[{"capability":"tools","enabled":true,"metadata":{}}],"max_parallel":4,"ok":true,"reason":""}' ;;
    *'"tool/list/req"'*) echo '{"type":"tool/list/resp",'$head',"tools":[]}' ;;
    *'"ping"'*) echo '{"type":"pong",'$head',"uptime_seconds":0.1}' ;;
    *) echo '{"type":"error",'$head',"code":"parse_error","message":"Unknown type","detail":{},"retryable":false}' ;;
  esac
done"#;

/// A loaf server that refuses no version, answers batches, and gives no reasons.
const FAULTY_LOAF: &str = r#"while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\("[^"]*"\|[0-9]*\|null\).*/\1/p')
  case "$line" in
    *'"rpc.handshake"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":{"protocol_version":"1.0.0","server_name":"loaf","capabilities":{},"methods":["system.ping","rpc.handshake"]}}' ;;
    *'"id":'*'"system.ping"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":{"ok":true,"time":"now"}}' ;;
    *'"id":'*) echo '{"jsonrpc":"2.0","id":'${id:-null}',"error":{"code":-32601,"message":"no"}}' ;;
  esac
done"#;

/// The shipped Fluxloop server in short: it ends at a line that is no JSON, and knows no `tool_not_found`.
const FAULTY_FLUXLOOP: &str = r#"while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\("[^"]*"\).*/\1/p')
  case "$line" in
    *'"type":'*'"id":'*|*'"id":'*'"type":'*) ;;
    *) exit 1 ;;
  esac
  case "$line" in
    *'"handshake"'*) echo '{"type":"response","id":'$id',"result":{"name":"fluxloop","version":"0.0.1","capabilities":["faq"]}}' ;;
    *) echo '{"type":"error","error":{"code":"unknown_tool","message":"Unknown tool"},"id":'$id'}' ;;
  esac
done"#;

fn check(arguments: &[&str], script: Option<&str>) -> Command {
    let mut command = gladhand();
    command.arg("check").args(arguments).env_remove("COLUMNS");
    if let Some(script) = script {
        command.args(["--", "sh", "-c", script]);
    }
    command
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

fn report(output: &Output) -> Value {
    let told = text(output);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    serde_json::from_str(&told).unwrap_or_else(|error| panic!("{error}: {told}\n{errors}"))
}

/// The names of the broken rules of a level.
fn broken(report: &Value, levels: &[&str]) -> Vec<String> {
    let checks = report["checks"].as_array().expect("an array").iter();
    let of_level = checks.filter(|check| levels.contains(&check["level"].as_str().expect("a text")));
    let broken = of_level.filter(|check| check["verdict"] == "broken");
    broken.map(|check| check["id"].as_str().expect("a text").to_owned()).collect()
}

#[test]
fn our_own_server_keeps_every_rule_of_every_dialect() {
    let output = check(&["--server", "--json"], None).output().unwrap();
    let report = report(&output);
    assert_eq!(broken(&report, &["must", "should"]), [""; 0], "{report:#}");
    assert_eq!(output.status.code(), Some(0), "{report:#}");
    assert_eq!(report["clients"].as_array().unwrap().len(), 8);
    assert!(report["kept"].as_u64().unwrap() >= 150, "{}", report["kept"]);
    for dialect in ["mcp", "a2e", "loaf", "fluxloop", "lint"] {
        let checks = report["checks"].as_array().unwrap().iter();
        let kept = checks.filter(|check| check["dialect"] == dialect && check["verdict"] == "kept").count();
        assert!(kept >= 10, "{dialect}: {kept}");
    }
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
fn our_own_server_keeps_every_rule_over_http() {
    let server = Served::start();
    let output = check(&["--server", "--json", &server.url], None).output().unwrap();
    let report = report(&output);
    assert_eq!(broken(&report, &["must", "should"]), [""; 0], "{report:#}");
    assert_eq!(output.status.code(), Some(0), "{report:#}");
    // Only over HTTP is there a status to judge.
    let kept = |id: &str| {
        let checks = report["checks"].as_array().unwrap();
        checks.iter().any(|check| check["id"] == id && check["verdict"] == "kept")
    };
    for id in ["mcp.http.request-status", "mcp.http.not-found-status", "mcp.http.version-status"] {
        assert!(kept(id), "{id}: {report:#}");
    }
}

/// A dialect, a faulty server, and rules that it breaks.
const FAULTY: [(&str, &str, &[&str]); 4] = [
    (
        "mcp@2025-11-25",
        FAULTY_MCP,
        &[
            "mcp.initialize.unknown-version",
            "mcp.tools.input-schema",
            "mcp.gate.prompts-closed",
            "mcp.error.unknown-method",
            "mcp.pages.bad-cursor",
            "lint.tool.description",
            "lint.annotation.read-only",
        ],
    ),
    (
        "a2e",
        FAULTY_A2E,
        &[
            "a2e.message.a2e",
            "a2e.gate.handshake-first",
            "a2e.reject.version",
            "a2e.reject.no-caps",
            "a2e.tools.unknown",
        ],
    ),
    (
        "loaf",
        FAULTY_LOAF,
        &[
            "loaf.handshake.strict",
            "loaf.handshake.own-methods",
            "loaf.ping.time",
            "loaf.error.reason",
            "loaf.error.parse",
        ],
    ),
    (
        "fluxloop",
        FAULTY_FLUXLOOP,
        &["fluxloop.handshake.tools", "fluxloop.tools.unknown", "fluxloop.error.survives", "fluxloop.error.parse"],
    ),
];

#[test]
fn a_faulty_server_of_each_dialect_is_caught_with_the_exchange_that_shows_it() {
    let folder = tempfile::tempdir().unwrap();
    for (dialect, script, expected) in FAULTY {
        let log = folder.path().join(dialect);
        let arguments = ["--server", "--json", "--timeout", "2", "--only", dialect];
        let output = check(&arguments, Some(script)).env("LOG", &log).output().unwrap();
        let report = report(&output);
        assert_eq!((output.status.code(), &report["error"]["code"]), (Some(5), &json!("rule_broken")), "{report:#}");
        let broken = broken(&report, &["must", "should", "lint"]);
        for rule in expected {
            assert!(broken.iter().any(|broken| broken == rule), "{dialect}: {rule} is not among {broken:?}");
        }
        for check in report["checks"].as_array().unwrap().iter().filter(|check| check["verdict"] == "broken") {
            let failure = &check["failures"][0];
            assert!(failure["note"].as_str().is_some_and(|note| !note.is_empty()), "{check:#}");
            assert!(!failure["messages"].as_array().unwrap().is_empty(), "{check:#}");
            assert!(check["section"].as_str().is_some_and(|section| !section.is_empty()), "{check:#}");
        }
    }
    let lines = std::fs::read_to_string(folder.path().join("mcp@2025-11-25")).unwrap();
    assert!(lines.contains("gladhand_no_such_name") && !lines.contains("delete_all"), "no tool is called: {lines}");
}

#[test]
fn the_report_has_formats_for_people_and_for_ci() {
    let run = |format: &str| {
        let arguments = ["--server", "--timeout", "2", "--only", "loaf", "--format", format];
        let output = check(&arguments, Some(FAULTY_LOAF)).env("COLUMNS", "80").output().unwrap();
        assert_eq!(output.status.code(), Some(5), "{format}");
        text(&output)
    };
    let page = run("list");
    assert!(page.contains("MUST    loaf.handshake.strict") && page.contains("rules kept"), "{page}");
    let widest = page.lines().max_by_key(|line| line.width()).unwrap_or_default();
    assert!(widest.width() <= 80, "{widest}");
    let junit = run("junit");
    let failures = junit.matches("<failure ").count();
    assert!(
        junit.starts_with("<?xml") && junit.contains(&format!("failures=\"{failures}\"")) && failures > 0,
        "{junit}"
    );
    assert!(junit.trim_end().ends_with("</testsuites>") && !junit.contains("\"time\":\"now\""), "quotes are escaped");
    let sarif: Value = serde_json::from_str(&run("sarif")).unwrap();
    assert_eq!(sarif["version"], "2.1.0");
    let results = sarif["runs"][0]["results"].as_array().unwrap();
    let strict = results.iter().find(|result| result["ruleId"] == "loaf.handshake.strict").unwrap();
    assert_eq!(strict["level"], "error", "{strict:#}");
}

#[test]
fn a_server_without_a_session_ends_with_4() {
    for (script, seconds) in [("exit 3", 30), ("exec yes", 60)] {
        let begun = std::time::Instant::now();
        let output = check(&["--server", "--json", "--timeout", "2"], Some(script)).output().unwrap();
        assert_eq!(output.status.code(), Some(4), "{script}: {}", text(&output));
        assert!(begun.elapsed().as_secs() < seconds, "{script}: {:?}", begun.elapsed());
    }
}

#[test]
fn all_rules_are_listed() {
    let output = check(&["--list", "--json"], None).output().unwrap();
    let checks = report(&output)["checks"].as_array().unwrap().clone();
    assert!(output.status.success() && checks.len() >= 150, "{}", checks.len());
    for dialect in ["mcp", "a2e", "loaf", "fluxloop", "lint"] {
        assert!(checks.iter().any(|check| check["dialect"] == dialect), "{dialect}");
    }
    let page = text(&check(&["--list"], None).env("COLUMNS", "60").output().unwrap());
    assert!(page.contains("mcp.initialize.version") && page.ends_with(&format!("{} rules\n", checks.len())), "{page}");
    assert!(page.lines().all(|line| line.width() <= 60), "{page}");
}

#[test]
fn our_own_client_keeps_the_rules() {
    let own = env!("CARGO_BIN_EXE_gladhand");
    for (speak, version) in [("mcp", "mcp@2025-11-25"), ("a2e", "a2e@1.0"), ("loaf", "loaf@1.0.0")] {
        let mut command = check(&["--client", "--json", "--only", speak], None);
        let output = command.args(["--", own, "tools", "--as", speak, "--", "{server}"]).output().unwrap();
        let report = report(&output);
        assert_eq!(broken(&report, &["must", "should"]), [""; 0], "{speak}: {report:#}");
        assert_eq!(output.status.code(), Some(0), "{speak}: {report:#}");
        assert!(report["clients"].as_array().unwrap().iter().any(|client| client == version), "{speak}: {report:#}");
        assert!(report["kept"].as_u64().unwrap() >= 3, "{speak}: {report:#}");
    }
}

#[test]
fn a_faulty_client_is_caught() {
    // It begins with a request, and never answers.
    let faulty = r#"mkfifo "$DIR/in$$"; (printf '{"jsonrpc":"2.0","id":1,"method":"tools/list"}\n{"jsonrpc":"2.0","method":"notifications/initialized"}\n'; sleep 1) > "$DIR/in$$" & $0 "$@" < "$DIR/in$$" >/dev/null"#;
    let folder = tempfile::tempdir().unwrap();
    let mut command = check(&["--client", "--json", "--only", "mcp"], None);
    command.args(["--", "sh", "-c", faulty, "{server}"]).env("DIR", folder.path());
    let output = command.output().unwrap();
    let report = report(&output);
    assert_eq!(output.status.code(), Some(5), "{report:#}");
    let broken = broken(&report, &["must"]);
    for rule in ["mcp.client.opens", "mcp.client.response-present"] {
        assert!(broken.iter().any(|broken| broken == rule), "{rule} is not among {broken:?}");
    }
}

#[test]
fn wrong_usage_is_reported_with_advice() {
    for (arguments, words) in [
        (&["--client", "--", "my-client"][..], "write {server} there"),
        (&[][..], "check needs --server, --client or --list"),
        (&["--list", "--format", "junit"][..], "the formats `list` and `json` only"),
        (&["--client", "--", "/no/such/client", "{server}"][..], "could not start `/no/such/client`"),
        (&["--server", "--", "/no/such/server"][..], "could not start `/no/such/server`"),
    ] {
        let output = check(&[], None).args(arguments).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(matches!(output.status.code(), Some(2 | 4)) && errors.contains(words), "{words}: {errors}");
    }
}

#[test]
fn ctrl_c_ends_a_check_at_once() {
    let stubborn = "trap '' TERM INT HUP; while :; do sleep 0.05; done";
    let mut terminal = Terminal::with_columns(80, check(&["--server"], Some(stubborn)));
    terminal.until("finding out what the server speaks");
    let begun = std::time::Instant::now();
    terminal.interrupt();
    assert_eq!(terminal.ends(), Some(130));
    assert!(begun.elapsed().as_secs() < 3, "{:?}", begun.elapsed());
}
