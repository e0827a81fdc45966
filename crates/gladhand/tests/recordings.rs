//! `gladhand show` and `gladhand replay`: what they print and send, how they end, and what hostile files do.
#![cfg(unix)]

mod support;

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use gladhand_recording::{Entry, EntryKind, FORMAT, Header, PeerName, Sender, SessionEnd};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use support::{MCP_INITIALIZED, Process, assert_snapshot, gladhand, mcp_call, mcp_initialize};
use unicode_width::UnicodeWidthStr as _;

/// A recording that a test makes line by line.
struct Written {
    text: String,
    ms: f64,
}

impl Written {
    fn new() -> Self {
        let (version, command) = ("0.1.0".to_owned(), vec!["my-server".to_owned(), "--fast".to_owned()]);
        let header = Header { format: FORMAT, version, started_ms: 1_795_031_388_000, command, part: 1 };
        Self { text: format!("{}\n", header.to_line()), ms: 0.0 }
    }

    fn add(mut self, session: &str, kind: EntryKind) -> Self {
        self.ms += 1.5;
        let entry = Entry { ms: self.ms, session: Some(session.to_owned()), kind };
        self.text.push_str(&entry.to_line());
        self.text.push('\n');
        self
    }

    fn message(self, session: &str, from: Sender, text: &str) -> Self {
        let message = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
        let dialect = Some("mcp".to_owned());
        self.add(session, EntryKind::Message { from, dialect, kind: None, message })
    }

    fn client(self, text: &str) -> Self {
        self.message("client-1", Sender::Client, text)
    }

    fn server(self, text: &str) -> Self {
        self.message("client-1", Sender::Server, text)
    }

    fn opened(self) -> Self {
        let peer = PeerName { name: "cursor".to_owned(), version: "1.2".to_owned(), ..PeerName::default() };
        let (dialect, version) = ("mcp".to_owned(), "2025-11-25".to_owned());
        self.add("client-1", EntryKind::Opened { dialect, version, peer })
    }

    fn closed(self) -> Self {
        self.add("client-1", EntryKind::Closed(SessionEnd { reason: Some("exit status: 0".to_owned()) }))
    }

    fn file(&self, folder: &Path) -> PathBuf {
        let file = folder.join("session.ndjson");
        std::fs::write(&file, &self.text).expect("there is room for a file");
        file
    }
}

const INITIALIZED: &str = r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}"#;
const TOOLS: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}}"#;

fn answer(id: u64, text: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":"{text}"}}]}}}}"#)
}

/// A session with a list, a call, a failed call, a log line and a line that is no message.
fn session() -> Written {
    let log = EntryKind::Text { from: Sender::Server, is_stderr: true, text: "ready\u{1b}[31m".to_owned() };
    let garbage = EntryKind::Text { from: Sender::Server, is_stderr: false, text: "hello <b>".to_owned() };
    Written::new()
        .client(&mcp_initialize("2025-11-25"))
        .add("client-1", log)
        .server(INITIALIZED)
        .opened()
        .client(MCP_INITIALIZED)
        .client(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#)
        .server(TOOLS)
        .add("client-1", garbage)
        .client(&mcp_call(2, "echo", r#"{"message":"hi"}"#))
        .server(&answer(2, "hi"))
        .client(&mcp_call(3, "boom", "{}"))
        .server(r#"{"jsonrpc":"2.0","id":3,"error":{"code":-32602,"message":"no tool <boom>"}}"#)
        .closed()
        .message("server-1", Sender::Client, r#"{"jsonrpc":"2.0","id":"x","method":"ping"}"#)
}

fn run(arguments: &[&str]) -> Output {
    let mut command = gladhand();
    command.args(arguments).env("COLUMNS", "80").env_remove("CLICOLOR_FORCE");
    command.output().expect("it starts")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

#[test]
fn a_recording_is_drawn_by_session() {
    let folder = tempfile::tempdir().unwrap();
    let file = session().file(folder.path());
    let output = run(&["show", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let drawn = text(&output);
    assert!(drawn.lines().all(|line| line.width() <= 80), "{drawn}");
    assert_snapshot("show.txt", &drawn);
    let narrow = gladhand().arg("show").arg(&file).args(["--full"]).env("COLUMNS", "60").output().unwrap();
    assert!(text(&narrow).lines().all(|line| line.width() <= 60), "{}", text(&narrow));
}

#[test]
fn filters_keep_requests_with_their_answers() {
    let folder = tempfile::tempdir().unwrap();
    let file = session().file(folder.path());
    let methods = |filter: &[&str]| {
        let mut arguments = vec!["show", file.to_str().unwrap(), "--json"];
        arguments.extend(filter);
        let report = json(&run(&arguments));
        let sessions = report["sessions"].as_array().unwrap().clone();
        let messages = sessions.iter().flat_map(|session| session["messages"].as_array().unwrap().clone());
        let shown = |message: Value| format!("{} {}", message["kind"].as_str().unwrap_or("text"), message["id"]);
        messages.map(shown).collect::<Vec<_>>()
    };
    assert_eq!(
        methods(&["--method", "tools/*"]),
        ["request 1", "response 1", "request 2", "response 2", "request 3", "error 3"]
    );
    assert_eq!(methods(&["--tool", "echo"]), ["request 2", "response 2"]);
    assert_eq!(methods(&["--errors"]), ["request 3", "error 3"]);
    assert_eq!(methods(&["--session", "server-1"]), ["request \"x\""]);
    assert_eq!(methods(&[]).len(), 12);
    let output = run(&["show", file.to_str().unwrap(), "--session", "nosuch"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("client-1, server-1"), "{output:?}");
}

#[test]
fn the_page_is_self_contained_and_escaped() {
    let folder = tempfile::tempdir().unwrap();
    let (file, page) = (session().file(folder.path()), folder.path().join("page.html"));
    let output = run(&["show", file.to_str().unwrap(), "--html", page.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    #[cfg(unix)]
    {
        let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&page).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600, "as private as the recording");
    }
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("default-src 'none'; style-src 'sha256-"), "{page}");
    assert!(page.contains("no tool &lt;boom&gt;") && page.contains("hello &lt;b&gt;"), "{page}");
    for absent in ["<script", "<b>", "<boom", "http:", "https:", "src=", "url(", "\u{1b}", "onload", "style=\""] {
        assert!(!page.contains(absent), "{absent}: {page}");
    }
    assert_eq!(page.matches("<details").count(), page.matches("</details>").count());
    assert_snapshot("show.html", &page);
}

#[test]
fn parts_of_a_rotated_recording_are_read_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let file = session().file(folder.path());
    std::fs::rename(&file, folder.path().join("session.ndjson.1")).unwrap();
    let second = Written::new().client(r#"{"jsonrpc":"2.0","id":9,"method":"ping"}"#);
    std::fs::write(&file, second.text.replace("\"part\":1", "\"part\":2")).unwrap();
    // Another recording under a similar name does not belong to it.
    std::fs::write(folder.path().join("session.ndjson.2"), second.text.replace("388000", "388001")).unwrap();
    let report = json(&run(&["show", file.to_str().unwrap(), "--json"]));
    assert_eq!(report["parts"], 2, "{report}");
    let messages = report["sessions"][0]["messages"].as_array().unwrap();
    assert_eq!((messages.len(), &messages[11]["id"]), (12, &Value::from(9)), "{report}");
}

#[test]
fn a_growing_file_is_followed_until_an_interrupt() {
    let folder = tempfile::tempdir().unwrap();
    let whole = session();
    let (first, rest) = whole.text.split_at(whole.text.len() / 2);
    let file = folder.path().join("growing.ndjson");
    std::fs::write(&file, first).unwrap();
    let mut command = gladhand();
    command.arg("show").arg(&file).arg("--follow");
    let mut process = Process::start(command);
    let until = |process: &mut Process, text: &str| while !process.line().contains(text) {};
    until(&mut process, "tools/list #1");
    let mut growing = std::fs::OpenOptions::new().append(true).open(&file).unwrap();
    std::io::Write::write_all(&mut growing, rest.as_bytes()).unwrap();
    until(&mut process, "error #3 of tools/call");
    process.signal(Signal::INT);
    assert_eq!(process.wait().code(), Some(130));
}

#[test]
fn hostile_and_damaged_files_are_shown_escaped() {
    let folder = tempfile::tempdir().unwrap();
    let evil = "</pre><script>alert(1)</script>\u{1b}]0;x\u{7}\u{202e}";
    let quoted = Value::from(evil).to_string();
    let header = format!(
        r#"{{"gladhand_recording":1,"version":{quoted},"started_ms":18446744073709551615,"command":[{quoted}],"x":1}}"#
    );
    let deep = format!("{}1{}", "[".repeat(5000), "]".repeat(5000));
    let lines = [
        header,
        format!(
            r#"{{"ms":-1e308,"session":{quoted},"event":"opened","dialect":{quoted},"version":{quoted},"peer":{{"name":{quoted},"principal":{quoted}}}}}"#
        ),
        format!(
            r#"{{"ms":1e308,"session":{quoted},"from":"client","message":{{"jsonrpc":"2.0","id":{quoted},"method":{quoted},"params":{{"name":{quoted}}}}}}}"#
        ),
        format!(r#"{{"ms":2,"session":{quoted},"from":"server","message":{deep}}}"#),
        format!(
            r#"{{"ms":3,"session":{quoted},"from":"server","message":{{"jsonrpc":"2.0","id":1e999,"result":{{"x":1e999}}}}}}"#
        ),
        format!(r#"{{"ms":4,"session":{quoted},"from":"server","text":{quoted}}}"#),
        format!("{{\"bad\":{quoted}}}"),
        format!(r#"{{"ms":5,"session":{quoted},"event":"closed","reason":{quoted}}}"#),
        r#"{"ms":6,"event":"dropped","frames":18446744073709551615}"#.to_owned(),
        r#"{"ms":6,"event":"dropped","frames":18446744073709551615}"#.to_owned(),
        r#"{"ms":7,"session":"client-1","from":"cli"#.to_owned(),
    ];
    let file = folder.path().join("hostile.ndjson");
    std::fs::write(&file, lines.join("\n")).unwrap();
    let file = file.to_str().unwrap();
    for arguments in [&["show", file][..], &["show", file, "--full"], &["show", file, "--html", "-"]] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let (shown, told) = (text(&output), String::from_utf8_lossy(&output.stderr).into_owned());
        for shown in [&shown, &told] {
            assert!(!shown.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{shown}");
        }
        assert!(told.contains(":7:") && told.contains(":11: the last line is cut off"), "{told}");
        assert!(arguments.len() < 4 || !shown.contains("<script"), "{shown}");
    }
    let report = json(&run(&["show", file, "--json"]));
    assert_eq!(report["unreadable"], 2, "{report}");
    // Neither side of it can be played, and nothing hangs or panics.
    let output = run(&["replay", file, "--timeout", "1", "--", "cat"]);
    assert!(matches!(output.status.code(), Some(4 | 5)), "{output:?}");
    let mut command = gladhand();
    command.args(["replay", file, "--as", "server"]);
    let mut server = Process::start(command);
    server.send(&mcp_initialize("2025-11-25"));
    assert_eq!(server.value()["error"]["code"], -32601);
    assert_eq!(server.finish().0, 0);
}

#[test]
fn other_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("other");
    for (content, words) in
        [("{}\n", "not a recording"), ("{\"gladhand_recording\":3}\n", "format 3"), ("", "not a recording")]
    {
        std::fs::write(&other, content).unwrap();
        for command in ["show", "replay"] {
            let output = run(&[command, other.to_str().unwrap(), "--json"]);
            assert_eq!(output.status.code(), Some(2), "{output:?}");
            assert!(json(&output)["error"]["message"].as_str().unwrap().contains(words), "{output:?}");
        }
    }
    assert_eq!(run(&["show", "/nonexistent/file"]).status.code(), Some(2));
}

/// A server of MCP in a shell: one line for each line of the client.
fn scripted(folder: &Path, answers: &[&str]) -> PathBuf {
    let script = folder.join("server.sh");
    let steps: String = answers.iter().map(|answer| format!("{answer}\n")).collect();
    std::fs::write(&script, format!("#!/bin/sh\n{steps}cat >/dev/null\n")).expect("there is room for a file");
    script
}

fn replay(file: &Path, arguments: &[&str], server: &[&str]) -> Output {
    let mut command = gladhand();
    command.arg("replay").arg(file).args(arguments).env("COLUMNS", "80").arg("--").args(server);
    command.output().expect("it starts")
}

/// A recording of our own server, made by talking to it.
fn recording_of_serve() -> Written {
    let mut server = Process::serve(&[]);
    let requests = [
        mcp_initialize("2025-11-25"),
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#.to_owned(),
        mcp_call(2, "nosuch", "{}"),
        r#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#.to_owned(),
    ];
    let mut written = Written::new();
    for (at, request) in requests.iter().enumerate() {
        server.send(request);
        written = written.client(request).server(&server.line());
        if at == 0 {
            server.send(MCP_INITIALIZED);
            written = written.opened().client(MCP_INITIALIZED);
        }
    }
    written.closed()
}

#[test]
fn a_replay_against_the_same_server_has_no_differences() {
    let folder = tempfile::tempdir().unwrap();
    let file = recording_of_serve().file(folder.path());
    let program = env!("CARGO_BIN_EXE_gladhand");
    let output = replay(&file, &[], &[program, "serve"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(text(&output).contains("no differences"), "{output:?}");
    let report = json(&replay(&file, &["--json", "--timing", "original"], &[program, "serve"]));
    assert_eq!((&report["sent"], &report["compared"]), (&Value::from(5), &Value::from(4)), "{report}");
    assert_eq!(report["differences"], serde_json::json!([]), "{report}");
}

/// `gladhand serve` or `bridge` over HTTP.
struct OverHttp {
    child: Child,
    url: String,
}

impl OverHttp {
    fn start(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.args(["--http", "127.0.0.1:0"]).spawn().expect("it starts");
        let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines().map_while(Result::ok);
        let url = lines.find_map(|line| Some(line.split_once("listening on ")?.1.to_owned())).expect("it listens");
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, url }
    }

    fn serve() -> Self {
        let mut command = gladhand();
        command.arg("serve");
        Self::start(command)
    }

    fn stop(&mut self) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).expect("a process id");
        kill_process(pid, Signal::TERM).expect("it runs");
        self.child.wait().expect("it ends");
    }
}

impl Drop for OverHttp {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const STATELESS_TOOLS: &str = r#"{"jsonrpc":"2.0","id":"a b","method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"test","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}"#;

#[test]
fn a_replay_against_a_url_compares_the_answers_with_the_recording() {
    let folder = tempfile::tempdir().unwrap();
    let server = OverHttp::serve();
    let file = recording_of_serve().file(folder.path());
    let output = run(&["replay", file.to_str().unwrap(), &server.url]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(text(&output).contains("5 messages of the client sent, 4 messages of the server compared"), "{output:?}");

    let mut stdio = Process::serve(&[]);
    stdio.send(STATELESS_TOOLS);
    let answer = stdio.line();
    let stateless = Written::new().client(STATELESS_TOOLS).server(&answer);
    let version = "2026-07-28".to_owned();
    let opened = EntryKind::Opened { dialect: "mcp".to_owned(), version, peer: PeerName::default() };
    let file = stateless.add("client-1", opened).file(folder.path());
    let output = run(&["replay", file.to_str().unwrap(), &server.url]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(text(&output).contains("1 message of the client sent, 1 message of the server compared"), "{output:?}");

    let differs = Written::new().client(STATELESS_TOOLS).server(&answer.replace("echo", "other"));
    let opened =
        EntryKind::Opened { dialect: "mcp".to_owned(), version: "2026-07-28".to_owned(), peer: PeerName::default() };
    let file = differs.add("client-1", opened).file(folder.path());
    assert_eq!(run(&["replay", file.to_str().unwrap(), &server.url]).status.code(), Some(5));
}

#[test]
fn a_replay_against_a_url_that_does_not_answer_is_a_failure_of_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let file = recording_of_serve().file(folder.path());
    // Nothing listens at a port that was just given back.
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("http://{address}/mcp");
    let output = run(&["replay", file.to_str().unwrap(), "--timeout", "2", &url]);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    let mut server = OverHttp::serve();
    let elsewhere = server.url.replace("/mcp", "/nothing");
    let output = run(&["replay", file.to_str().unwrap(), "--timeout", "2", &elsewhere]);
    assert_eq!(output.status.code(), Some(5), "it answers, with other messages: {output:?}");
    assert!(text(&output).contains("is served at this path"));
    server.stop();
    let both = run(&["replay", file.to_str().unwrap(), &url, "--", "my-server"]);
    assert_eq!(both.status.code(), Some(2), "{both:?}");
}

#[test]
fn a_recording_has_the_http_exchanges_of_clients_and_upstreams_without_credentials() {
    let folder = tempfile::tempdir().unwrap();
    let server = OverHttp::serve();
    let mut command = gladhand();
    let recording = folder.path().join("bridge.jsonl");
    command.args(["bridge", &server.url, "--header", "Authorization: Bearer hush-upstream-1", "--record"]);
    let mut bridge = OverHttp::start({
        command.arg(&recording);
        command
    });
    let tools = gladhand().args(["tools", &bridge.url]).env("GLADHAND_MCP_TOKEN", "hush-client-22").output().unwrap();
    assert!(tools.status.success(), "{tools:?}");
    let wrong = gladhand().args(["tools", &bridge.url.replace("/mcp", "/nothing")]).output().unwrap();
    assert!(!wrong.status.success(), "{wrong:?}");
    bridge.stop();
    let text_of_file = std::fs::read_to_string(&recording).unwrap();
    assert!(!text_of_file.contains("hush-") && !text_of_file.contains("authorization"), "{text_of_file}");
    let file = recording.to_str().unwrap();
    let report = json(&run(&["show", file, "--json"]));
    let sessions = report["sessions"].as_array().unwrap();
    let exchanges = |session: &str| {
        let of_session = |one: &&Value| one["session"].as_str().is_some_and(|id| id.starts_with(session));
        let all = sessions.iter().filter(of_session).flat_map(|one| one["exchanges"].as_array().unwrap().clone());
        all.collect::<Vec<_>>()
    };
    for session in ["client-", "server-"] {
        let of_session = exchanges(session);
        let posts = of_session.iter().filter(|one| one["method"] == "POST" && one["path"] == "/mcp");
        let answered = posts.filter(|one| one["status"] == 200);
        let answered: Vec<_> = answered.filter(|one| one["response"]["content-type"] == "application/json").collect();
        assert!(!answered.is_empty(), "{session}: {report:#}");
        assert_eq!(answered[0]["request"]["content-type"], "application/json");
        assert!(answered.iter().any(|one| one["request"]["mcp-protocol-version"].is_string()), "{answered:#?}");
    }
    let refused = exchanges("client-0").into_iter().find(|one| one["status"] == 404).expect("it is recorded");
    assert_eq!(refused["path"], "/nothing");
    let drawn = text(&run(&["show", file]));
    assert!(drawn.contains("HTTP 200 for POST /mcp") && drawn.contains("HTTP 404 for"), "{drawn}");
    let errors = text(&run(&["show", file, "--errors"]));
    assert!(errors.contains("HTTP 404 for") && !errors.contains("HTTP 200 for"), "{errors}");
    let calls = text(&run(&["show", file, "--method", "tools/*"]));
    assert!(calls.contains("tools/list") && !calls.contains("HTTP"), "{calls}");
}

#[test]
fn a_recording_of_the_first_format_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let written = session();
    let text_of_file = written.text.replacen("\"gladhand_recording\":2", "\"gladhand_recording\":1", 1);
    assert_ne!(text_of_file, written.text);
    let file = Written { text: text_of_file, ms: 0.0 }.file(folder.path());
    let report = json(&run(&["show", file.to_str().unwrap(), "--json"]));
    assert_eq!(report["sessions"][0]["messages"].as_array().map(Vec::len), Some(11), "{report}");
}

#[test]
fn a_replay_names_the_member_that_differs() {
    let folder = tempfile::tempdir().unwrap();
    let mut written = recording_of_serve();
    written.text = written.text.replace("\"name\":\"gladhand\"", "\"name\":\"gladfoot\"");
    let file = written.file(folder.path());
    let program = env!("CARGO_BIN_EXE_gladhand");
    let output = replay(&file, &[], &[program, "serve"]);
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    let told = text(&output);
    for words in ["/result/serverInfo/name", "recorded  \"gladfoot\"", "live      \"gladhand\"", "1 message differs"] {
        assert!(told.contains(words), "{words}: {told}");
    }
    let report = json(&replay(&file, &["--json"], &[program, "serve"]));
    assert_eq!(report["error"]["code"], "different");
    let member = &report["differences"][0]["members"][0];
    assert_eq!((&member["recorded"], &member["live"]), (&"gladfoot".into(), &"gladhand".into()), "{report}");
}

#[test]
fn a_masked_value_equals_any_and_missing_messages_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let mut written = recording_of_serve();
    written.text = written.text.replace("\"name\":\"gladhand\"", "\"name\":\"***\"");
    let written = written.server(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#);
    let file = written.file(folder.path());
    let report = json(&replay(&file, &["--json", "--timeout", "1"], &[env!("CARGO_BIN_EXE_gladhand"), "serve"]));
    assert_eq!(report["differences"].as_array().map(Vec::len), Some(1), "{report}");
    assert_eq!(report["differences"][0]["kind"], "missing", "{report}");
    assert_eq!(report["error"]["exit"], 5);
}

#[test]
fn a_server_request_is_answered_with_its_live_id() {
    let folder = tempfile::tempdir().unwrap();
    let call = mcp_call(1, "ask", "{}");
    let ask = |id: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"elicitation/create","params":{{"message":"name?"}}}}"#)
    };
    let reply = |id: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"action":"accept","content":{{"name":"Ann"}}}}}}"#)
    };
    let file = Written::new()
        .client(&mcp_initialize("2025-11-25"))
        .server(INITIALIZED)
        .opened()
        .client(MCP_INITIALIZED)
        .client(&call)
        .server(&ask("7"))
        .client(&reply("7"))
        .server(&answer(1, "hello Ann"))
        .closed()
        .file(folder.path());
    let (ask_live, done) = (ask("\"live-42\""), answer(1, "hello Ann"));
    let server = scripted(
        folder.path(),
        &[
            &format!("read -r l; echo '{INITIALIZED}'; read -r l"),
            &format!("read -r l; echo '{ask_live}'"),
            &format!("read -r l; case \"$l\" in *'\"id\":\"live-42\"'*Ann*) echo '{done}';; *) exit 9;; esac"),
        ],
    );
    let output = replay(&file, &[], &["sh", server.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");

    // The other side: the client is asked, and the call ends after its answer.
    let mut command = gladhand();
    command.arg("replay").arg(&file).args(["--as", "server"]);
    let mut server = Process::start(command);
    server.ask(&mcp_initialize("2025-11-25"));
    server.send(MCP_INITIALIZED);
    let asked = server.ask(&call.replace("\"id\":1", "\"id\":\"mine\""));
    assert_eq!(asked["method"], "elicitation/create");
    assert!(server.line_within(Duration::from_millis(100)).is_none());
    let ended = server.ask(&reply(&asked["id"].to_string()));
    assert_eq!((&ended["id"], &ended["result"]["content"][0]["text"]), (&"mine".into(), &"hello Ann".into()));
    let unexpected = server.ask(&mcp_call(8, "other", "{}"));
    assert_eq!(unexpected["error"]["code"], -32603, "{unexpected}");
    assert_eq!(unexpected["id"], 8);
    assert_eq!(server.ask(r#"{"jsonrpc":"2.0","id":9,"method":"prompts/list"}"#)["error"]["code"], -32601);
    let (code, _, told) = server.finish();
    assert_eq!(code, 0);
    assert!(told.contains("unexpected tools/call #8") && told.contains("/params/name"), "{told}");
}

#[test]
fn a_server_that_ends_early_or_stays_silent_failed() {
    let folder = tempfile::tempdir().unwrap();
    let file = session().file(folder.path());
    for (script, words) in [("echo no licence >&2; exit 3", "exit status: 3"), ("cat >/dev/null", "wrote no message")] {
        let output = replay(&file, &["--timeout", "1"], &["sh", "-c", script]);
        assert_eq!(output.status.code(), Some(4), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(words), "{output:?}");
    }
    let output = replay(&file, &["--json"], &["/nonexistent/program"]);
    assert_eq!((output.status.code(), &json(&output)["error"]["code"]), (Some(4), &"not_started".into()));
}

#[test]
fn our_own_client_can_use_a_recorded_server() {
    let folder = tempfile::tempdir().unwrap();
    let file = session().file(folder.path());
    let server = |arguments: &[&str]| -> Command {
        let mut command = gladhand();
        command.args(arguments).arg("--").arg(env!("CARGO_BIN_EXE_gladhand")).arg("replay").arg(&file);
        command.args(["--as", "server"]);
        command
    };
    let output = server(&["tools", "--as", "mcp@2025-11-25"]).output().unwrap();
    assert!(output.status.success() && text(&output).contains("echo"), "{output:?}");
    let output = server(&["call", "echo", "message=hi"]).output().unwrap();
    assert_eq!((output.status.code(), text(&output).trim()), (Some(0), "hi"), "{output:?}");
    let output = server(&["call", "echo", "message=other"]).output().unwrap();
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("/params/arguments/message"), "{output:?}");
}
