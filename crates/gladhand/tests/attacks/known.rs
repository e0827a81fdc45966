//! Attacks that other software of this kind fell for, and that belong to no other module.
//!
//! [`Hostile`] is an upstream that answers what a test wants it to answer. [`Server`] is the built program over HTTP.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use gladhand_models::scripted::{Reply, Route, Script, ScriptedProvider};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::support::terminal::Terminal;
use crate::support::{Process, gladhand, mcp_call};

use crate::client::{
    Connection, STATELESS, call_with_progress, open_session, open_session_with, stateless, stateless_call,
};

/// An MCP server that answers each method with the content of the file of that name. Before it answers a call of a
/// tool, it asks the question in `ask_TOOL`. It answers no call while there is a file `hold`, and it records its input.
const SCRIPT: &str = r#"
cd "$1" || exit 1
while IFS= read -r line; do
    printf '%s\n' "$line" >> heard
    id=$(printf '%s\n' "$line" | sed -n 's/.*"id":\([^,}]*\).*/\1/p')
    method=$(printf '%s\n' "$line" | sed -n 's/.*"method":"\([^"]*\)".*/\1/p' | tr / _)
    [ -n "$id" ] && [ -n "$method" ] || continue
    if [ "$method" = tools_call ]; then
        name=$(printf '%s\n' "$line" | sed -n 's/.*"name":"\([a-z]*\)".*/\1/p')
        if [ -f "ask_$name" ]; then
            cat "ask_$name"
            IFS= read -r answer
            printf '%s\n' "$answer" > answered
        fi
        method="call_$name"
        while [ -f "hold" ]; do sleep 0.05; done
    fi
    if [ -f "$method" ]; then
        printf '{"jsonrpc":"2.0","id":%s,"result":' "$id"
        cat "$method"
        printf '}\n'
    else
        printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}\n' "$id"
    fi
done
"#;

/// An upstream that answers what it is told to.
pub(crate) struct Hostile {
    folder: TempDir,
}

impl Hostile {
    /// One with these tools.
    pub(crate) fn new(tools: &Value) -> Self {
        let hostile = Self { folder: tempfile::tempdir().expect("there is room for a folder") };
        std::fs::write(hostile.at("script"), SCRIPT).expect("the folder is there");
        let capabilities = json!({"tools": {}, "prompts": {}, "resources": {}});
        let opening = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities,
            "serverInfo": {"name": "hostile", "version": "1"}});
        hostile
            .answering("initialize", &opening)
            .answering("tools_list", &json!({"tools": tools}))
            .answering("prompts_list", &json!({"prompts": []}))
            .answering("resources_list", &json!({"resources": []}))
            .answering("resources_templates_list", &json!({"resourceTemplates": []}))
            .answering("ping", &json!({}))
    }

    /// Answers a method, or the call of a tool as `call_TOOL`.
    pub(crate) fn answering(self, method: &str, result: &Value) -> Self {
        std::fs::write(self.at(method), result.to_string()).expect("the folder is there");
        self
    }

    /// Asks this before it answers the call of a tool.
    pub(crate) fn asking(self, tool: &str, params: &Value) -> Self {
        let question = json!({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": params});
        std::fs::write(self.at(&format!("ask_{tool}")), format!("{question}\n")).expect("the folder is there");
        self
    }

    /// The command line that starts it.
    pub(crate) fn command(&self) -> Vec<String> {
        let folder = self.folder.path().display().to_string();
        vec!["/bin/sh".to_owned(), format!("{folder}/script"), folder]
    }

    /// A configuration that has it as the upstream `h`, and more.
    pub(crate) fn configuration(&self, more: &str) -> PathBuf {
        let file = self.at("gladhand.toml");
        let text = format!("{more}\n[upstreams.h]\ncommand = {}\n", json!(self.command()));
        std::fs::write(&file, text).expect("the folder is there");
        file
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.at(name)).unwrap_or_default()
    }
}

/// The program with a data folder and a configuration of its own.
pub(crate) fn configured(config: &Path, arguments: &[&str]) -> Command {
    let mut command = gladhand();
    command.args(arguments).env("GLADHAND_CONFIG", config);
    command.env("GLADHAND_DATA_DIR", config.with_file_name("data")).env("NO_COLOR", "1").env("TERM", "dumb");
    command
}

/// A tool that takes anything.
pub(crate) fn tool(name: &str) -> Value {
    json!({"name": name, "description": "Does it.", "inputSchema": {"type": "object"}})
}

/// The built program over HTTP.
struct Server {
    child: Child,
    address: SocketAddr,
    /// The folder of the configuration, unless the test owns it.
    folder: Option<TempDir>,
}

const TOKENS: &str = "[authorization]\ntokens = [{ name = \"ann\", token = \"anns-token\" }, { name = \"bob\", token = \"bobs-token\" }]\n";
const ANN: (&str, &str) = ("Authorization", "Bearer anns-token");
const BOB: (&str, &str) = ("Authorization", "Bearer bobs-token");

impl Server {
    fn start(config: &str) -> Self {
        let folder = tempfile::tempdir().expect("there is room for a folder");
        let file = folder.path().join("gladhand.toml");
        std::fs::write(&file, config).expect("the folder is there");
        let mut server = Self::with(&file);
        server.folder = Some(folder);
        server
    }

    /// With the configuration in a file.
    fn with(file: &Path) -> Self {
        let mut command = configured(file, &["serve", "--http", "127.0.0.1:0"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program is built");
        let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines().map_while(Result::ok);
        let url = lines.find_map(|line| Some(line.split_once("listening on ")?.1.to_owned())).expect("it listens");
        // It must never wait for us to read its log.
        std::thread::spawn(move || lines.for_each(drop));
        let address = url.split('/').nth(2).and_then(|address| address.parse().ok()).expect("an address");
        Self { child, address, folder: None }
    }

    fn connect(&self) -> Connection {
        Connection::open(self.address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Writes a request and returns its answer; notifications before it are skipped.
pub(crate) fn reply(process: &mut Process, id: u64, request: &str) -> Value {
    process.send(request);
    loop {
        let message = process.value();
        if message["id"] == id {
            return message;
        }
        assert!(message["id"].is_null(), "this is another answer: {message}");
    }
}

const LIST: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;

#[test]
fn a_page_whose_name_was_rebound_to_loopback_gets_nothing() {
    let server = Server::start("");
    let mut connection = server.connect();
    let port = server.address.port();
    let evil = format!("evil.example:{port}");
    let page = format!("http://{evil}");
    // A browser sends the first pair after the name was rebound to 127.0.0.1, and the second across origins.
    let own = format!("127.0.0.1:{port}");
    for headers in [[("Host", evil.as_str()), ("Origin", page.as_str())], [("Host", own.as_str()), ("Origin", &page)]] {
        for (method, path) in
            [("POST", "/mcp"), ("GET", "/mcp"), ("DELETE", "/mcp"), ("POST", "/session"), ("POST", "/rpc")]
        {
            let response = connection.ask(method, path, &headers, "{}");
            assert!(matches!(response.status, 403 | 404), "{method} {path}: {response:?}");
            assert_eq!(response.header("access-control-allow-origin"), None);
            assert_eq!(response.header("mcp-session-id"), None);
        }
    }
}

#[test]
fn a_malformed_host_is_no_way_around_the_check() {
    let server = Server::start("");
    let body = crate::support::mcp_initialize("2025-11-25");
    let request = |target: &str, hosts: &str| {
        let types = "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n";
        format!("POST {target} HTTP/1.1\r\n{hosts}{types}Content-Length: {}\r\n\r\n{body}", body.len())
    };
    let mut attempts = vec![
        request("/mcp", ""),
        request("/mcp", "Host: localhost\r\nHost: evil.example\r\n"),
        request("/mcp", "Host: evil.example\r\nHost: localhost\r\n"),
        request("http://evil.example/mcp", "Host: localhost\r\n"),
        request("http://evil.example/mcp", "Host: evil.example\r\n"),
    ];
    for host in [
        "localhost@evil.example",
        "localhost:80@evil.example",
        "evil.example/localhost",
        "evil.example#localhost",
        "localhost,evil.example",
        "localhost evil.example",
        "[::1].evil.example",
        "[::1",
        "::1.evil.example",
        "localhost:80:80",
        "localhost%00.evil.example",
        "0.0.0.0.evil.example",
        "localhost\\evil.example",
        "LOCALHOST.EVIL.EXAMPLE",
        "",
    ] {
        attempts.push(request("/mcp", &format!("Host: {host}\r\n")));
    }
    for attempt in attempts {
        let mut connection = server.connect();
        connection.send_bytes(attempt.as_bytes());
        if let Some(response) = connection.try_response() {
            assert!(matches!(response.status, 400 | 403), "{attempt}\n{response:?}");
        }
    }
}

#[test]
fn the_token_of_a_client_is_sent_to_no_upstream() {
    let recorder = Recorder::start();
    let config = format!("{TOKENS}[upstreams.h]\nurl = \"http://{}/mcp\"\n", recorder.address);
    let server = Server::start(&config);
    let mut connection = server.connect();
    let session = open_session_with(&mut connection, "2025-11-25", &[ANN]);
    let meta = r#"{"x":1,"_meta":{"a":"b"}}"#;
    let headers = [ANN, ("Mcp-Session-Id", session.as_str()), ("Cookie", "anns-cookie")];
    let answer = connection.post(&headers, &mcp_call(1, "h__take", meta));
    assert!(answer.body.contains("taken"), "{answer:?}");
    let heard: Vec<String> = recorder.heard.try_iter().collect();
    assert!(heard.iter().any(|request| request.contains("tools/call")), "{heard:?}");
    for request in &heard {
        for secret in ["anns-token", "anns-cookie", "authorization", session.as_str()] {
            assert!(!request.to_lowercase().contains(&secret.to_lowercase()), "{secret} in {request}");
        }
    }
}

/// A server of MCP over HTTP that keeps every request, head and all.
struct Recorder {
    address: SocketAddr,
    heard: Receiver<String>,
}

impl Recorder {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let (sender, heard) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (Ok(mut stream), sender) = (stream, sender.clone()) else { return };
                std::thread::spawn(move || {
                    while let Some((head, body)) = request(&mut stream) {
                        let answered = answer(&body);
                        if sender.send(format!("{head}{body}")).is_err()
                            || stream.write_all(answered.as_bytes()).is_err()
                        {
                            return;
                        }
                    }
                });
            }
        });
        Self { address, heard }
    }
}

/// The head and the body of the next request on a connection.
fn request(stream: &mut impl Read) -> Option<(String, String)> {
    let (mut bytes, mut byte) = (Vec::new(), [0]);
    while !bytes.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).ok()?;
        bytes.push(byte[0]);
    }
    let head = String::from_utf8(bytes).ok()?;
    let length = head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length:")?.trim().parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut body).ok()?;
    Some((head, String::from_utf8(body).ok()?))
}

/// The recorder's answer to a message.
fn answer(body: &str) -> String {
    let message: Value = serde_json::from_str(body).unwrap_or_default();
    let result = match message["method"].as_str() {
        Some("initialize") => json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
            "serverInfo": {"name": "recorder", "version": "1"}}),
        Some("tools/list") => json!({"tools": [tool("take")]}),
        Some("tools/call") => json!({"content": [{"type": "text", "text": "taken"}]}),
        _ if message["id"].is_null() => return "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n".to_owned(),
        _ => {
            let error =
                json!({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "no such method"}});
            return response(&error.to_string());
        }
    };
    response(&json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string())
}

fn response(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

#[test]
fn clients_of_one_upstream_never_get_each_others_answers() {
    // The upstream is this program itself, so all calls share one channel.
    let upstream = json!([env!("CARGO_BIN_EXE_gladhand"), "serve"]);
    let server = Server::start(&format!("{TOKENS}[upstreams.u]\ncommand = {upstream}\n"));
    let clients: Vec<_> = [(ANN, "anns"), (BOB, "bobs")]
        .into_iter()
        .map(|(token, word)| {
            let mut connection = server.connect();
            let session = open_session_with(&mut connection, "2025-11-25", &[token]);
            std::thread::spawn(move || {
                for number in 0..40 {
                    let said = format!("{word}-{number}");
                    // The same ids on both sides, and answers that come at about the same time.
                    let call = mcp_call(number, "u__echo", &json!({"message": said}).to_string());
                    let answer = connection.post(&[token, ("Mcp-Session-Id", &session)], &call);
                    let text = answer.json()["result"]["content"][0]["text"].clone();
                    assert_eq!(text, said, "{answer:?}");
                }
            })
        })
        .collect();
    clients.into_iter().for_each(|client| client.join().expect("every answer is its own"));
}

#[test]
fn a_session_id_is_of_no_use_to_another_principal() {
    let server = Server::start(TOKENS);
    let mut connection = server.connect();
    let sessions: Vec<_> = (0..4).map(|_| open_session_with(&mut connection, "2025-11-25", &[ANN])).collect();
    assert!(sessions.iter().all(|session| session.len() >= 32), "they can be guessed: {sessions:?}");
    let anns = ("Mcp-Session-Id", sessions[0].as_str());
    for (thief, status) in [(&[BOB, anns][..], 404), (&[anns], 401)] {
        assert_eq!(connection.post(thief, LIST).status, status);
        assert_eq!(
            connection.ask("GET", "/mcp", &[thief, &[("Accept", "text/event-stream")]].concat(), "").status,
            status
        );
        assert_eq!(connection.ask("DELETE", "/mcp", thief, "").status, status);
    }
    assert_eq!(connection.post(&[ANN, anns], LIST).status, 200, "and it is still there");
}

#[test]
fn a_task_is_visible_only_to_the_principal_that_started_it() {
    let mut slow = tool("slow");
    slow["execution"] = json!({"taskSupport": "optional"});
    let result = json!({"content": [{"type": "text", "text": "for ann only"}]});
    let hostile = Hostile::new(&json!([slow])).answering("call_slow", &result);
    let config = hostile.configuration(TOKENS);
    // The first process remembers the tools, so that the server offers tasks from its first request on.
    let mut process = Process::start(configured(&config, &["serve"]));
    process.ask(&crate::support::mcp_initialize("2025-11-25"));
    reply(&mut process, 1, LIST);
    process.finish();
    let server = Server::with(&config);
    let mut connection = server.connect();
    let extended = |id: u64, method: &str, params: &str| {
        let extension = r#"Capabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#;
        stateless(id, method, params).replace(r#"Capabilities":{}"#, extension)
    };
    let mut ask = |who, method: &str, name: &str, params: &str| {
        let headers = [who, ("MCP-Protocol-Version", STATELESS), ("Mcp-Method", method), ("Mcp-Name", name)];
        last(&connection.post(&headers, &extended(1, method, params)))
    };
    let begun = ask(ANN, "tools/call", "h__slow", r#""name":"h__slow","arguments":{}"#);
    let task = begun["result"]["taskId"].as_str().unwrap_or_else(|| panic!("no task: {begun}")).to_owned();
    let about = format!(r#""taskId":"{task}","inputResponses":{{}}"#);
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let stolen = ask(BOB, method, &task, &about);
        assert_eq!(stolen["error"]["code"], -32602, "{method}: {stolen}");
        assert!(!stolen.to_string().contains("for ann only"));
    }
    let own = ask(ANN, "tasks/get", &task, &about);
    assert!(["working", "completed"].contains(&own["result"]["status"].as_str().unwrap_or_default()), "{own}");
}

/// The last message of an answer, whether it came alone or on a stream.
fn last(response: &crate::client::Response) -> Value {
    let data = response.body.lines().filter_map(|line| line.strip_prefix("data: ")).next_back();
    let text = data.unwrap_or(&response.body);
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error} in {response:?}"))
}

#[test]
fn a_stream_is_not_replayed_into_another_session() {
    for config in ["", TOKENS] {
        let server = Server::start(config);
        let mut connection = server.connect();
        let (ann, bob): (&[_], &[_]) = if config.is_empty() { (&[], &[]) } else { (&[ANN], &[BOB]) };
        let [anns, bobs] = [ann, bob].map(|who| open_session_with(&mut connection, "2025-11-25", who));
        let headers = [ann, &[("Mcp-Session-Id", anns.as_str())]].concat();
        connection.send_post(&headers, &call_with_progress(5, "wait", r#"{"ms":100,"steps":2}"#));
        connection.head();
        let mut ids = Vec::new();
        while let Some(event) = connection.event() {
            ids.extend(event.id);
        }
        assert!(ids.len() >= 3, "{ids:?}");
        for id in &ids {
            let headers = [bob, &[("Mcp-Session-Id", bobs.as_str()), ("Last-Event-ID", id)]].concat();
            let mut connection = server.connect();
            connection.send("GET", "/mcp", &headers, "");
            assert_eq!(connection.head().status, 400, "{id}: this is no event of that session");
        }
        let headers = [ann, &[("Mcp-Session-Id", anns.as_str()), ("Last-Event-ID", &ids[0])]].concat();
        let again = connection.ask("GET", "/mcp", &headers, "");
        assert_eq!(again.body.matches("data: {").count(), 3, "who owns it gets it again: {again:?}");
    }
}

#[test]
fn headers_that_contradict_the_body_are_refused() {
    let server = Server::start("");
    let mut connection = server.connect();
    let (_, body) = stateless_call(1, "wait", r#"{"ms":0}"#);
    let version = ("MCP-Protocol-Version", STATELESS);
    for headers in [
        &[version, ("Mcp-Method", "tools/call"), ("Mcp-Name", "echo")][..],
        &[version, ("Mcp-Method", "tools/list"), ("Mcp-Name", "wait")],
        &[version, ("Mcp-Method", "tools/list")],
        &[version, ("Mcp-Method", "tools/call")],
        &[("MCP-Protocol-Version", "2025-11-25"), ("Mcp-Method", "tools/call"), ("Mcp-Name", "wait")],
        &[version, ("Mcp-Method", "tools/call"), ("Mcp-Name", "echo"), ("Mcp-Name", "wait")],
    ] {
        let response = connection.post(headers, &body);
        assert_eq!(response.status, 400, "{headers:?}: {response:?}");
        assert!(!response.body.contains("\"result\""), "{response:?}");
    }
}

#[test]
fn a_second_request_cannot_be_hidden_in_the_body_of_the_first() {
    let server = Server::start("");
    let inner = mcp_call(666, "echo", r#"{"message":"smuggled"}"#);
    let hidden = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{inner}",
        inner.len()
    );
    let chunked = format!("0\r\n\r\n{hidden}");
    let length = chunked.len();
    for lengths in [
        format!("Content-Length: {length}\r\nTransfer-Encoding: chunked\r\n"),
        format!("Transfer-Encoding: chunked\r\nContent-Length: {length}\r\n"),
        format!("Content-Length: {length}\r\nContent-Length: 5\r\n"),
        format!("Content-Length: {length}, 5\r\n"),
        format!("Content-Length: +{length}\r\n"),
        format!("Content-Length: {length}\r\nTransfer-Encoding: xchunked\r\n"),
        format!("Content-Length: {length}\r\nTransfer-Encoding : chunked\r\n"),
        format!("Content-Length: {length}\r\nTransfer-Encoding: identity, chunked\r\n"),
        format!("Content-Length: {length}\r\n Transfer-Encoding: chunked\r\n"),
    ] {
        let mut connection = server.connect();
        let head = format!("POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{lengths}\r\n");
        connection.send_bytes(format!("{head}{chunked}").as_bytes());
        // At most one answer, and it is no answer to the hidden request.
        if let Some(first) = connection.try_response() {
            assert!((400..500).contains(&first.status) && !first.body.contains("666"), "{lengths}: {first:?}");
            connection.finish();
            if let Some(second) = connection.try_response() {
                assert!(!second.body.contains("666") && !second.body.contains("smuggled"), "{lengths}: {second:?}");
                assert!((400..500).contains(&second.status), "{lengths}: {second:?}");
            }
        }
    }
    let mut connection = server.connect();
    open_session(&mut connection, "2025-11-25");
}

#[test]
fn a_result_without_end_fails_its_call_and_nothing_else() {
    let bomb = json!({"content": [{"type": "text", "text": "A".repeat(24 << 20)}]});
    let fine = json!({"content": [{"type": "text", "text": "fine"}]});
    let hostile =
        Hostile::new(&json!([tool("bomb"), tool("fine")])).answering("call_bomb", &bomb).answering("call_fine", &fine);
    let mut process = Process::start(configured(&hostile.configuration(""), &["serve"]));
    process.ask(&crate::support::mcp_initialize("2025-11-25"));
    process.send(crate::support::MCP_INITIALIZED);
    for round in 0..3 {
        let answer = reply(&mut process, round, &mcp_call(round, "h__bomb", "{}"));
        assert_eq!(answer["id"], round);
        let failed = answer["error"].is_object() || answer["result"]["isError"] == true;
        assert!(failed && answer.to_string().len() < 10_000, "the call fails, and says so briefly");
        let answer = reply(&mut process, 100 + round, &mcp_call(100 + round, "h__fine", "{}"));
        assert_eq!(answer["result"]["content"][0]["text"], "fine", "{answer}");
    }
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.id())).unwrap_or_default();
    let peak =
        status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    assert!(peak.is_none_or(|peak| peak < 160 * 1024), "{peak:?} kB were used at most");
}

/// A model that does what a script says, and a home for who talks to it.
pub(crate) struct Model {
    pub(crate) home: TempDir,
    provider: ScriptedProvider,
    _runtime: Runtime,
}

const COMPLETIONS: &str = "/v1/chat/completions";

impl Model {
    /// One that wants a tool called with arguments as they are written here, and then has done.
    pub(crate) fn calling(tool: &str, arguments: &str) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let models = Reply::json(&json!({"object": "list", "data": [{"id": "parrot", "object": "model"}]}));
        let piece = |delta: Value, end: Value| {
            let choice = json!({"index": 0, "delta": delta, "finish_reason": end});
            json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "parrot", "choices": [choice]})
        };
        let function = json!({"name": tool, "arguments": arguments});
        let call = json!({"index": 0, "id": "call-1", "type": "function", "function": function});
        let wants = [piece(json!({"tool_calls": [call]}), json!("tool_calls")), json!("[DONE]")];
        let says = [piece(json!({"content": "I have done it."}), json!("stop")), json!("[DONE]")];
        let route = |path: &str, replies, otherwise| Route { method: None, path: path.to_owned(), replies, otherwise };
        let replies = vec![Reply::events(&wants), Reply::events(&says)];
        let routes = vec![route("/v1/models", Vec::new(), Some(models)), route(COMPLETIONS, replies, None)];
        let provider = runtime.block_on(ScriptedProvider::start(Script { routes })).expect("a free port");
        Self { home: tempfile::tempdir().expect("there is room for a folder"), provider, _runtime: runtime }
    }

    /// `gladhand chat` with this model and a configuration, in the home.
    pub(crate) fn chat(&self, config: &str, arguments: &[&str]) -> Command {
        let file = self.home.path().join("config.toml");
        std::fs::write(&file, config).expect("the folder is there");
        let mut command = configured(&file, &["chat"]);
        for name in ["OPENAI_API_KEY", "OPENROUTER_API_KEY", "ANTHROPIC_API_KEY"] {
            command.env_remove(name);
        }
        command.args(arguments).current_dir(self.home.path());
        command.env("GLADHAND_OLLAMA_BASE", "").env("GLADHAND_LLAMACPP_BASE", "");
        command.env("GLADHAND_COMPATIBLE_BASE", format!("{}/v1", self.provider.origin()));
        command
    }

    /// The last message that the model got.
    pub(crate) fn told(&self) -> String {
        let request = self.provider.requests_of(COMPLETIONS).pop().expect("it was asked");
        request.body["messages"].as_array().and_then(|messages| messages.last()).expect("a message").to_string()
    }
}

#[test]
fn an_approval_question_shows_the_command_that_will_run() {
    // Given twice, reordered, erased from the screen, and pushed out of sight.
    let command = format!("echo {} \u{202e}\u{1b}[2K\r{}; touch made", "x".repeat(9000), " ".repeat(2000));
    let arguments = format!(r#"{{"command":"ls","command":{}}}"#, json!(command));
    let model = Model::calling("bash", &arguments);
    let mut terminal = Terminal::start(model.chat("", &[]));
    terminal.until("› ");
    terminal.types("do it\r");
    let seen = terminal.until("allow? [y]es, [n]o, [a]lways in this chat, [s]how all: ");
    for shown in
        ["command: ls", "characters are left out here", r"\u{202e}\u{1b}[2K\u{d}", "(2000 blanks)", "; touch made"]
    {
        assert!(seen.contains(shown), "{shown} is missing: {seen:?}");
    }
    for hidden in ["\u{202e}", "\u{1b}[2K"] {
        let asked = &seen[seen.find("wants to run").expect("it asks")..];
        assert!(!asked.contains(hidden), "{seen:?}");
    }
    terminal.types("s\r");
    let all = terminal.until("allow? [y]es, [n]o, [a]lways in this chat: ");
    assert!(all.contains(&"x".repeat(9000)) && all.contains("; touch made"), "everything is shown when asked for");
    terminal.types("n\r");
    terminal.until("I have done it.");
    assert!(!model.home.path().join("made").exists());
}

#[test]
fn a_line_break_in_a_path_forges_no_question() {
    let aside = tempfile::tempdir().expect("there is room for a folder");
    let path = aside.path().join("a\nallow? [y]es: y\nread_file");
    std::fs::write(&path, "x").expect("the folder is there");
    let model = Model::calling("read_file", &json!({"file_path": path}).to_string());
    let mut terminal = Terminal::start(model.chat("", &[]));
    terminal.until("› ");
    terminal.types("do it\r");
    let seen = terminal.until("allow? [y]es, [n]o, [a]lways in this chat: ");
    assert!(seen.contains(r"a\u{a}allow? [y]es: y\u{a}read_file is outside of the workspace"), "{seen:?}");
    let mut lines = seen.lines().map(str::trim_end).filter(|line| line.starts_with("allow?"));
    assert!(lines.all(|line| line == "allow? [y]es, [n]o, [a]lways in this chat:"), "{seen:?}");
    terminal.types("n\r");
    terminal.until("I have done it.");
}
