//! The console over HTTP: who may use it, what it tells, and its bounds. `tests/peers` looks at the page in a browser.
#![cfg(unix)]

mod support;

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Method, StatusCode};
use serde_json::{Value, json};
use support::{PATIENCE, gladhand, mcp_call, mcp_initialize};
use tempfile::TempDir;

/// The toolbox alone.
const QUIET: &str = "[agent]\nenabled = false\n[repository]\nenabled = false\n";

/// A server with a console.
struct Server {
    child: Child,
    folder: TempDir,
    /// The address of the console, with the token if it has one.
    console: String,
    client: Client,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    fn start(config: &str, arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("gladhand.toml");
        std::fs::write(&file, config).expect("it can be written");
        let mut command = gladhand();
        command.args(["serve", "--http", "127.0.0.1:0", "--console", "--config"]).arg(&file).args(arguments);
        command.env("GLADHAND_DATA_DIR", folder.path().join("data"));
        Self::spawn(command, folder)
    }

    fn spawn(mut command: Command, folder: TempDir) -> Self {
        command.current_dir(folder.path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program is built");
        let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines().map_while(Result::ok);
        let console =
            lines.find_map(|line| Some(line.split_once("console listening on ")?.1.to_owned())).expect("a console");
        std::thread::spawn(move || lines.for_each(drop));
        let client = gladhand_tls::client_builder().no_proxy().timeout(PATIENCE).build().expect("a client");
        Self { child, folder, console, client }
    }

    /// The address of a path. The console's address has no other token.
    fn at(&self, path: &str) -> String {
        let base = self.console.split("/console").next().expect("an address");
        format!("{base}{path}")
    }

    /// The token of the console.
    fn token(&self) -> Option<&str> {
        self.console.split_once("?token=").map(|(_, token)| token)
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> (StatusCode, HeaderMap, String) {
        let mut request = self.client.request(method, self.at(path)).body(body.to_owned());
        for (name, value) in headers {
            let value = HeaderValue::from_str(value).expect("a header");
            request = request.header(HeaderName::from_bytes(name.as_bytes()).expect("a header"), value);
        }
        let response = request.send().await.expect("an answer");
        let (status, headers) = (response.status(), response.headers().clone());
        (status, headers, response.text().await.expect("text"))
    }

    async fn get(&self, path: &str, headers: &[(&str, &str)]) -> (StatusCode, HeaderMap, String) {
        self.ask(Method::GET, path, headers, "").await
    }

    /// Data of the console, with its token.
    async fn data(&self, path: &str) -> Value {
        let bearer = format!("Bearer {}", self.token().unwrap_or("none"));
        let (status, _, text) = self.get(&format!("/console/data/{path}"), &[("authorization", &bearer)]).await;
        assert!(status.is_success(), "{status}: {text}");
        serde_json::from_str(&text).expect("JSON")
    }

    /// Data of the console, as soon as it is like this. Messages reach the console a moment after the client.
    async fn data_when(&self, path: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        for _ in 0..500 {
            let found = self.data(path).await;
            if is_so(&found) {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("{path} stays {}", self.data(path).await);
    }

    /// A message of an MCP client. Returns the answer and the session.
    async fn mcp(&self, session: Option<&str>, message: &str) -> (Value, String) {
        let json = [("content-type", "application/json"), ("accept", "application/json, text/event-stream")];
        let mut headers = json.to_vec();
        headers.extend(session.map(|session| ("mcp-session-id", session)));
        let (_, headers, text) = self.ask(Method::POST, "/mcp", &headers, message).await;
        let session = headers.get("mcp-session-id").map(|id| id.to_str().expect("text").to_owned());
        let data = text.lines().find_map(|line| line.strip_prefix("data: ").filter(|data| data.contains("jsonrpc")));
        (serde_json::from_str(data.unwrap_or(&text)).unwrap_or_default(), session.unwrap_or_default())
    }

    /// A session in which `echo` was called with a message.
    async fn session(&self, message: &Value) -> String {
        let (_, session) = self.mcp(None, &mcp_initialize("2025-06-18")).await;
        self.mcp(Some(&session), support::MCP_INITIALIZED).await;
        let (answer, _) =
            self.mcp(Some(&session), &mcp_call(1, "echo", &json!({"message": message}).to_string())).await;
        assert!(answer["result"].is_object(), "{answer}");
        session
    }
}

fn sessions(overview: &Value) -> Vec<&Value> {
    overview["sessions"].as_array().into_iter().flatten().filter(|session| session["name"] == "test").collect()
}

#[tokio::test]
async fn on_loopback_the_page_is_open_to_its_own_origin_and_strict() {
    let server = Server::start(QUIET, &[]);
    assert_eq!(server.token(), None);
    let (status, headers, page) = server.get("/console", &[]).await;
    assert_eq!(status, StatusCode::OK);
    let policy = headers["content-security-policy"].to_str().expect("text");
    for part in
        ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "require-trusted-types-for 'script'"]
    {
        assert!(policy.contains(part), "{policy}");
    }
    assert!(!policy.contains("unsafe"), "{policy}");
    assert_eq!(headers["x-content-type-options"], "nosniff");
    assert_eq!(headers["cache-control"], "no-store");
    // Every file that the page names is there.
    let files: Vec<_> = page.split('"').filter(|part| part.starts_with("/console/")).collect();
    assert!(files.len() >= 2, "{page}");
    for file in files {
        assert_eq!(server.get(file, &[]).await.0, StatusCode::OK, "{file}");
    }
    for (path, headers, expected) in [
        ("/console", &[("origin", "https://evil.example")][..], 403),
        ("/console", &[("host", "evil.example")], 403),
        ("/console/data/overview", &[("origin", "http://127.0.0.1:1")], 403),
        ("/console/data/overview", &[("sec-fetch-site", "cross-site")], 403),
        ("/console/data/session?id=nobody", &[], 404),
        ("/console/data/call?id=x", &[], 404),
        ("/console/nothing", &[], 404),
        ("/console/export?id=client-1&as=exe", &[], 400),
    ] {
        assert_eq!(server.get(path, headers).await.0.as_u16(), expected, "{path} {headers:?}");
    }
    assert_eq!(server.ask(Method::POST, "/console", &[], "").await.0, StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(server.get("/console/data/open", &[]).await.0, StatusCode::METHOD_NOT_ALLOWED);
}

#[tokio::test]
async fn without_the_option_nothing_is_served_at_the_path_of_the_console() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = gladhand();
    command.args(["serve", "--http", "127.0.0.1:0"]).env("GLADHAND_DATA_DIR", folder.path());
    command.current_dir(folder.path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program is built");
    let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines().map_while(Result::ok);
    let url = lines.find_map(|line| Some(line.split_once("listening on ")?.1.to_owned())).expect("it listens");
    let client = gladhand_tls::client_builder().no_proxy().build().expect("a client");
    let answer = client.get(url.replace("/mcp", "/console")).send().await.expect("an answer");
    assert_eq!(answer.status(), StatusCode::NOT_FOUND);
    child.kill().expect("it runs");
    child.wait().expect("it ends");
}

#[tokio::test]
async fn with_authorization_the_console_has_its_own_token_and_no_access_to_the_endpoint() {
    let config = format!("{QUIET}[[authorization.tokens]]\nname = 'ann'\ntoken = 'token-of-ann-123'\n");
    let server = Server::start(&config, &[]);
    let token = server.token().expect("the address has the token").to_owned();
    for headers in [&[][..], &[("authorization", "Bearer token-of-ann-123")], &[("cookie", "gladhand_console_1=x")]] {
        for path in ["/console", "/console/app.js", "/console/data/overview", "/console/events", "/console?token=x"] {
            let (status, answer, _) = server.get(path, headers).await;
            assert_eq!((status.as_u16(), answer.contains_key("www-authenticate")), (401, true), "{path} {headers:?}");
        }
    }
    let (status, headers, page) = server.get(&format!("/console?token={token}"), &[]).await;
    assert_eq!(status, StatusCode::OK);
    assert!(!page.contains(&token));
    let cookie = headers["set-cookie"].to_str().expect("text");
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict") && cookie.contains("Path=/console"));
    let cookie = cookie.split(';').next().expect("a cookie");
    assert_eq!(server.get("/console/app.js", &[("cookie", cookie)]).await.0, StatusCode::OK);
    let overview = server.data("overview").await;
    assert_eq!((&overview["needs_token"], &overview["mcp"]), (&json!(true), &json!(true)));
    assert!(!overview.to_string().contains("token-of-ann"), "{overview}");
    // The token of the console opens nothing else.
    let bearer = format!("Bearer {token}");
    let headers = [("authorization", bearer.as_str()), ("cookie", cookie), ("content-type", "application/json")];
    let answer = server.ask(Method::POST, "/mcp", &headers, &mcp_initialize("2025-06-18")).await;
    assert_eq!(answer.0, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn a_console_that_another_host_name_leads_to_needs_its_token() {
    let server = Server::start(QUIET, &["--allow-host", "mcp.example.com"]);
    assert!(server.token().is_some());
    assert_eq!(server.get("/console", &[]).await.0, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn sessions_calls_and_their_path_are_shown_without_secrets() {
    let secret = "ghp_abcdefghijklmnopqrstuvwxyz0123456789";
    let server = Server::start(QUIET, &[]);
    let hostile = format!("<img src=x onerror=alert(1)> \u{1b}[2J \u{202e} {secret}");
    server.session(&json!(hostile)).await;
    let is_complete = |overview: &Value| {
        let session = sessions(overview).first().map(|session| session["messages"].clone());
        session == Some(json!(5)) && overview["calls"][0]["outcome"] == "ok"
    };
    let overview = server.data_when("overview", is_complete).await;
    let session = sessions(&overview)[0];
    assert_eq!((&session["dialect"], &session["version"]), (&json!("mcp"), &json!("2025-06-18")));
    assert_eq!((&session["calls"], &session["errors"]), (&json!(1), &json!(0)));
    assert_eq!(session["latencies"].as_array().map(Vec::len), Some(1));
    let id = session["id"].as_str().expect("text");
    let shown = server.data(&format!("session?id={id}")).await;
    let labels: Vec<_> = shown["lines"].as_array().expect("a list").iter().map(|line| line["label"].clone()).collect();
    let expected = [
        "initialize #0",
        "result #0 of initialize",
        "notifications/initialized",
        "tools/call #1",
        "result #1 of tools/call",
    ];
    assert_eq!(labels, expected);
    let call = server.data(&format!("call?id={}", overview["calls"][0]["id"].as_str().expect("text"))).await;
    assert_eq!((&call["call"]["upstream"], &call["call"]["own"]), (&json!("toolbox"), &json!("echo")));
    assert_eq!(call["client_request"]["line"]["label"], "tools/call #1");
    assert_eq!(call["client_answer"]["line"]["label"], "result #1 of tools/call");
    assert_eq!(call["upstream_request"], Value::Null, "the toolbox is part of this process");
    for export in ["recording", "html"] {
        let (status, headers, text) = server.get(&format!("/console/export?id={id}&as={export}"), &[]).await;
        assert!(
            status.is_success() && headers["content-disposition"].to_str().expect("text").starts_with("attachment")
        );
        assert!(!text.contains(secret), "{text}");
        assert!(export == "recording" || !text.contains("<img src=x"), "{text}");
        if export == "recording" {
            let file = server.folder.path().join("exported.jsonl");
            std::fs::write(&file, text).expect("it can be written");
            let output = gladhand().arg("show").arg(&file).arg("--json").output().expect("it starts");
            let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
            assert_eq!(report["sessions"][0]["messages"].as_array().map(Vec::len), Some(5), "{report}");
        }
    }
    for text in [overview.to_string(), shown.to_string(), call.to_string()] {
        assert!(!text.contains(secret), "{text}");
    }
    assert!(shown.to_string().contains("***"), "{shown}");
}

#[tokio::test]
async fn calls_of_two_sessions_with_equal_ids_stay_apart() {
    let server = Server::start(QUIET, &[]);
    server.session(&json!("one")).await;
    server.session(&json!("two")).await;
    let overview =
        server.data_when("overview", |overview| overview["calls"].as_array().is_some_and(|all| all.len() == 2));
    let overview = overview.await;
    let [one, two] = [&overview["calls"][0], &overview["calls"][1]];
    assert_ne!((&one["id"], &one["session"]), (&two["id"], &two["session"]));
    for (call, message) in [(one, "one"), (two, "two")] {
        let id = call["id"].as_str().expect("text");
        let path = server.data_when(&format!("call?id={id}"), |path| path["client_answer"].is_object()).await;
        assert!(path["client_request"]["line"]["text"].as_str().is_some_and(|text| text.contains(message)), "{path}");
        assert_eq!(path["client_request"]["session"], call["session"]);
    }
}

#[tokio::test]
async fn a_call_that_policy_refuses_names_its_rule() {
    let rule = "[[policy.rules]]\nname = 'no-echo'\ntools = ['echo']\nwhen = 'message == \"stop\"'\neffect = 'deny'\n";
    let server = Server::start(&format!("{QUIET}{rule}"), &[]);
    let (_, session) = server.mcp(None, &mcp_initialize("2025-06-18")).await;
    server.mcp(Some(&session), support::MCP_INITIALIZED).await;
    server.mcp(Some(&session), &mcp_call(1, "echo", r#"{"message":"stop"}"#)).await;
    let is_refused = |overview: &Value| overview["calls"][0]["rule"].is_string();
    let overview = server.data_when("overview", is_refused).await;
    let call = &overview["calls"][0];
    assert_eq!((&call["rule"], &call["name"]), (&json!("no-echo"), &json!("echo")), "{call}");
    assert!(call["failure"].is_string() && call["outcome"] != "ok", "{call}");
}

#[tokio::test]
async fn the_agreement_of_a_session_has_the_errors_that_its_closed_requests_really_get() {
    let server = Server::start(QUIET, &[]);
    let session = server.session(&json!("hi")).await;
    let overview = server.data_when("overview", |overview| !sessions(overview).is_empty()).await;
    let id = sessions(&overview)[0]["id"].as_str().expect("text");
    let agreed = server.data(&format!("agreement?id={id}")).await;
    let tools = agreed["terms"].as_array().expect("terms").iter().find(|term| term["capability"] == "tools");
    assert_eq!(tools.map(|term| &term["agreed"]), Some(&json!(true)), "{agreed}");
    let closed = agreed["closed"].as_array().expect("a list").iter().find(|request| request["name"] == "prompts/list");
    let told: Value =
        serde_json::from_str(closed.expect("it is closed")["answer"].as_str().expect("text")).expect("JSON");
    let request = r#"{"jsonrpc":"2.0","id":"closed","method":"prompts/list","params":{}}"#;
    let (really, _) = server.mcp(Some(&session), request).await;
    assert_eq!(told, really);
}

#[tokio::test]
async fn the_events_contain_sessions_messages_and_calls_and_readers_are_bounded() {
    let server = Server::start(QUIET, &[]);
    let mut readers = Vec::new();
    for _ in 0..16 {
        let response = server.client.get(server.at("/console/events")).send().await.expect("an answer");
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        readers.push(response);
    }
    let (status, headers, _) = server.get("/console/events", &[]).await;
    assert_eq!((status, headers.contains_key("retry-after")), (StatusCode::SERVICE_UNAVAILABLE, true));
    server.session(&json!("hi")).await;
    let mut reader = readers.pop().expect("a reader");
    let mut seen = String::new();
    while !(seen.contains(r#""t":"session""#) && seen.contains("tools/call #1") && seen.contains(r#""outcome":"ok""#)) {
        let part = reader.chunk().await.expect("events").expect("the stream goes on");
        seen.push_str(&String::from_utf8_lossy(&part));
    }
    drop(reader);
    // The place of a reader that has left is free again.
    for attempt in 0.. {
        let response = server.client.get(server.at("/console/events")).send().await.expect("an answer");
        if response.status().is_success() {
            break;
        }
        assert!(attempt < 100, "the place stays taken");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn behind_a_bridge_the_path_of_a_call_leads_to_the_server_and_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = gladhand();
    command.args(["bridge", "--http", "127.0.0.1:0", "--console", "--", env!("CARGO_BIN_EXE_gladhand"), "serve"]);
    command.env("GLADHAND_DATA_DIR", folder.path().join("data"));
    let server = Server::spawn(command, folder);
    server.session(&json!("over the bridge")).await;
    let is_over = |overview: &Value| overview["calls"][0]["outcome"] == "ok";
    let overview = server.data_when("overview", is_over).await;
    let id = overview["calls"][0]["id"].as_str().expect("text").to_owned();
    let path = server.data_when(&format!("call?id={id}"), |path| path["client_answer"].is_object()).await;
    for step in ["client_request", "upstream_request", "upstream_answer", "client_answer"] {
        let text = path[step]["line"]["text"].as_str();
        assert!(text.is_some_and(|text| text.contains("over the bridge")), "{step}: {path}");
    }
    assert_eq!(overview["status"]["upstreams"][0]["state"], "open", "{overview}");
}

#[tokio::test]
async fn a_changed_definition_is_approved_only_behind_the_token() {
    let pin = json!({"files/read": {"shown": "files__read", "sha256": "a", "since": "2026-01-01T00:00:00Z",
        "covers": "whole", "text": "{\"description\":\"Reads.\"}",
        "changed": {"sha256": "b", "at": "2026-01-02T00:00:00Z", "text": "{\"description\":\"Sends <b>ghp_abcdefghijklmnopqrstuvwxyz0123456789\"}"}}});
    let approval = json!({"key": "files/read", "sha256": "b"}).to_string();
    for (arguments, status) in [(&[][..], 403), (&["--allow-host", "x.example"], 200)] {
        let server = Server::start(QUIET, arguments);
        let data = server.folder.path().join("data");
        std::fs::create_dir_all(&data).expect("a folder");
        std::fs::write(data.join("pins.json"), pin.to_string()).expect("it can be written");
        let waiting = server.data("pins").await;
        assert_eq!(
            waiting[0]["changes"],
            json!([r#"description: "Reads." -> "Sends <b>ghp_abcdefghijklmnopqrstuvwxyz0123456789""#])
        );
        assert_eq!(server.data("overview").await["may_approve"], status == 200);
        let bearer = format!("Bearer {}", server.token().unwrap_or("none"));
        let headers = [("authorization", bearer.as_str())];
        let stale = approval.replace("\"b\"", "\"a\"");
        let refused = server.ask(Method::POST, "/console/data/approve", &headers, &stale).await.0.as_u16();
        assert_eq!(refused, if status == 200 { 409 } else { 403 });
        let answer = server.ask(Method::POST, "/console/data/approve", &headers, &approval).await;
        assert_eq!(answer.0.as_u16(), status, "{}", answer.2);
        assert_eq!(server.data("pins").await == json!([]), status == 200);
    }
}

#[tokio::test]
async fn a_page_asks_for_the_opening_of_two_offers() {
    let server = Server::start(QUIET, &[]);
    let dialects = server.data("dialects").await;
    let names: Vec<_> = dialects.as_array().expect("a list").iter().map(|dialect| dialect["name"].clone()).collect();
    assert_eq!(names, ["mcp", "loaf", "a2e", "fluxloop"]);
    let open = |body: String| server.ask(Method::POST, "/console/data/open", &[], Box::leak(body.into_boxed_str()));
    let (status, _, text) = open(json!({"dialect": "mcp", "server": ["tools"], "client": []}).to_string()).await;
    assert!(status.is_success() && text.contains("resources/read"), "{text}");
    for (body, expected) in [("{", 400), ("[]", 400), (r#"{"dialect":"mcp","version":"x"}"#, 400)] {
        assert_eq!(open(body.to_owned()).await.0.as_u16(), expected, "{body}");
    }
    assert_eq!(open(format!("\"{}\"", "x".repeat(70_000))).await.0, StatusCode::PAYLOAD_TOO_LARGE);
}

#[tokio::test]
async fn a_recording_is_shown_in_the_same_page_behind_a_token() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("session.jsonl");
    write_recording(&file);
    let mut command = gladhand();
    command.arg("console").arg(&file);
    let server = Server::spawn(command, folder);
    assert_eq!(server.get("/console", &[]).await.0, StatusCode::UNAUTHORIZED);
    let overview = server.data("overview").await;
    assert_eq!((&overview["title"], &overview["live"]), (&json!("session.jsonl"), &json!(false)));
    assert_eq!(overview["remarks"], json!(["1 line of the recording could not be read"]));
    assert_eq!(overview["sessions"][0]["id"], "client-1");
    let shown = server.data("session?id=client-1").await;
    assert_eq!(shown["lines"].as_array().map(Vec::len), Some(3), "{shown}");
    assert!(!shown.to_string().contains("hunter22"), "{shown}");
    let agreed = server.data("agreement?id=client-1").await;
    assert_eq!((&agreed["version"], &agreed["terms"][0]["capability"]), (&json!("2025-06-18"), &json!("prompts")));
    let missing = gladhand().args(["console", "/nowhere/x.jsonl"]).output().expect("it starts");
    assert_eq!(missing.status.code(), Some(2));
}

/// A recording of an opening, with a password that is not masked and a line that is cut.
fn write_recording(file: &Path) {
    let entry =
        |from: &str, message: Value| json!({"ms": 1.5, "session": "client-1", "from": from, "message": message});
    let result = json!({"jsonrpc": "2.0", "id": 0, "result": {"protocolVersion": "2025-06-18",
        "capabilities": {"prompts": {}}, "serverInfo": {"name": "s", "version": "1"}, "password": "hunter22"}});
    let initialize: Value = serde_json::from_str(&mcp_initialize("2025-06-18")).expect("JSON");
    let lines = [
        json!({"gladhand_recording": 1, "version": "0.1.0", "started_ms": 5}).to_string(),
        entry("client", initialize).to_string(),
        entry("server", result).to_string(),
        entry("client", json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).to_string(),
        "{\"ms\":1,".to_owned(),
    ];
    std::fs::write(file, lines.join("\n") + "\n").expect("it can be written");
}
