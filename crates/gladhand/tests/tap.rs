//! The tap sees every frame of every session exactly once, in order, and nothing else: on standard input and output, over
//! HTTP in both eras, in A2E over HTTP, and in sessions with upstreams.
#![cfg(unix)]

mod support;

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gladhand::Service;
use gladhand::dialects::Stop;
use gladhand::hub::Kit;
use gladhand::operations::{Operation, Progress, Reply, Tool, ToolCall, ToolResult};
use gladhand::upstream::{IgnoreEvents, Options, Speak, Target, Upstream};
use gladhand_core::operations::Failure;
use gladhand_core::operations::call::no_arguments;
use gladhand_core::sync::Unpoisoned as _;
use gladhand_core::wire::FrameKind;
use gladhand_server::downstream;
use gladhand_server::http::Http;
use gladhand_server::stdio::{Input, Output};
use gladhand_session::clock::Clock;
use gladhand_session::tap::{Direction, Tap, TapListener, TappedFrame, TappedSession};
use reqwest::header::HeaderMap;
use serde_json::{Value, json};
use support::{MCP_INITIALIZED, mcp_call, mcp_initialize};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};

/// A frame in one word: its direction and kind, and its bytes.
type Seen = (&'static str, String);

#[derive(Default)]
struct Recorder {
    seen: Mutex<Vec<Seen>>,
    sessions: Mutex<Vec<TappedSession>>,
    dialects: Mutex<Vec<Option<&'static str>>>,
}

impl TapListener for Recorder {
    fn frame(&self, frame: &TappedFrame<'_>) {
        let word = match (frame.direction, frame.kind) {
            (Direction::Received, Some(FrameKind::Request)) => "> request",
            (Direction::Received, Some(FrameKind::Notice)) => "> notice",
            (Direction::Received, Some(FrameKind::Result)) => "> result",
            (Direction::Received, Some(FrameKind::Error { .. })) => "> error",
            (Direction::Received, Some(FrameKind::Batch)) => "> batch",
            (Direction::Received, None) => "> unreadable",
            (Direction::Sent, Some(FrameKind::Request)) => "< request",
            (Direction::Sent, Some(FrameKind::Notice)) => "< notice",
            (Direction::Sent, Some(FrameKind::Result)) => "< result",
            (Direction::Sent, Some(FrameKind::Error { .. })) => "< error",
            (Direction::Sent, Some(FrameKind::Batch)) => "< batch",
            (Direction::Sent, None) => panic!("a frame of ours has a kind"),
        };
        self.seen.lock().unpoisoned().push((word, String::from_utf8_lossy(frame.bytes).into_owned()));
        let mut sessions = self.sessions.lock().unpoisoned();
        if !sessions.contains(&frame.session) {
            sessions.push(frame.session);
        }
        let mut dialects = self.dialects.lock().unpoisoned();
        if !dialects.contains(&frame.dialect) {
            dialects.push(frame.dialect);
        }
    }
}

impl Recorder {
    fn attached(tap: &Arc<Tap>) -> Arc<Self> {
        let recorder = Arc::<Self>::default();
        // Attached for as long as the test runs.
        std::mem::forget(tap.attach(Arc::clone(&recorder) as Arc<dyn TapListener>));
        recorder
    }

    fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unpoisoned().clone()
    }

    /// The bytes of one direction, `<` or `>`.
    fn bytes(&self, direction: &str) -> Vec<String> {
        self.seen().into_iter().filter(|(word, _)| word.starts_with(direction)).map(|(_, text)| text).collect()
    }
}

/// A service with a tool that answers at once and one that reports progress first.
fn service(tap: &Arc<Tap>) -> Service {
    let kit = Kit::new().tool(Tool::plain("echo", "Says it again."), |_, _| Ok(ToolResult::text("echo"))).slow_tool(
        Tool::plain("work", "Takes a moment."),
        |_, reporter| async move {
            reporter.progress(Progress { progress: 1.0, total: Some(2.0), message: None });
            tokio::time::sleep(Duration::from_millis(20)).await;
            Ok::<_, Failure>(ToolResult::text("done"))
        },
    );
    Service::new(kit.into_hub().expect("tool names are unique")).tapped(Arc::clone(tap))
}

/// A call of `work` that wants progress reports.
fn work(id: u64) -> String {
    let params = json!({"name": "work", "arguments": {}, "_meta": {"progressToken": "p"}});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).to_string()
}

#[tokio::test]
async fn every_line_on_standard_input_and_output_passes_the_tap() {
    let tap = Arc::<Tap>::default();
    let recorder = Recorder::attached(&tap);
    let (ours, theirs) = UnixStream::pair().unwrap();
    let (input, output) = (OwnedFd::from(ours.try_clone().unwrap()), OwnedFd::from(ours));
    let served = downstream::serve(
        service(&tap),
        Clock::start(),
        Input::from_fd(input).unwrap(),
        Output::from_fd(output).unwrap(),
    );
    theirs.set_nonblocking(true).unwrap();
    let (reading, mut writing) = tokio::net::UnixStream::from_std(theirs).unwrap().into_split();
    let initialize = mcp_initialize("2025-11-25");
    let (echo, work) = (mcp_call(1, "echo", "{}"), work(2));
    let lines = [initialize.as_str(), MCP_INITIALIZED, "", &echo, "{", &work];
    let talk = async {
        let mut answers = BufReader::new(reading).lines();
        let mut wire = Vec::new();
        // One line at a time, so that the order on the wire is known: after the line that ends an exchange, the next.
        for (line, answered) in lines.iter().zip([1, 0, 0, 1, 1, 2]) {
            writing.write_all(format!("{line}\n").as_bytes()).await.unwrap();
            wire.extend(Some(((*line).to_owned(), '>')).filter(|(line, _)| !line.is_empty()));
            for _ in 0..answered {
                wire.push((answers.next_line().await.unwrap().unwrap(), '<'));
            }
        }
        writing.shutdown().await.unwrap();
        assert_eq!(answers.next_line().await.unwrap(), None);
        wire
    };
    let (served, wire) = tokio::join!(served, talk);
    assert_eq!(served.unwrap(), downstream::Ended::Cleanly);
    let seen = recorder.seen();
    let words: Vec<_> = seen.iter().map(|(word, _)| *word).collect();
    let expected = [
        "> request",
        "< result",
        "> notice",
        "> request",
        "< result",
        "> unreadable",
        "< error",
        "> request",
        "< notice",
        "< result",
    ];
    assert_eq!(words, expected);
    let seen: Vec<_> = seen.into_iter().map(|(word, text)| (text, word.chars().next().unwrap())).collect();
    assert_eq!(seen, wire);
    assert_eq!(*recorder.dialects.lock().unpoisoned(), [Some("mcp")]);
    assert!(matches!(recorder.sessions.lock().unpoisoned()[..], [TappedSession::Downstream(_)]));
}

/// A server over HTTP, as long as this is kept.
struct Served {
    /// Without a path.
    url: String,
    recorder: Arc<Recorder>,
    client: reqwest::Client,
    _stop: tokio::sync::oneshot::Sender<Stop>,
}

impl Served {
    async fn start() -> Self {
        let tap = Arc::<Tap>::default();
        let recorder = Recorder::attached(&tap);
        let http = Http { listen: vec!["127.0.0.1:0".parse().expect("an address")], ..Http::default() };
        let server = service(&tap).bind_http(http).await.expect("a free port");
        let url = server.urls()[0].trim_end_matches("/mcp").to_owned();
        let (stop, stopped) = tokio::sync::oneshot::channel();
        tokio::spawn(server.run(async { stopped.await.unwrap_or(Stop::Terminated) }));
        let client = gladhand_tls::client_builder().no_proxy().build().expect("a client");
        Self { url, recorder, client, _stop: stop }
    }

    /// Posts a message. Returns the messages of the answer and its headers.
    async fn post(&self, path: &str, headers: &[(&str, &str)], body: &str) -> (Vec<String>, HeaderMap) {
        let mut request = self.client.post(format!("{}{path}", self.url)).body(body.to_owned());
        let usual = [("content-type", "application/json"), ("accept", "application/json, text/event-stream")];
        for (name, value) in usual.iter().chain(headers) {
            request = request.header(*name, *value);
        }
        let response = request.send().await.expect("the server answers");
        let headers = response.headers().clone();
        let is_stream =
            headers.get("content-type").is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
        let text = response.text().await.expect("the answer is text");
        let messages = match is_stream {
            true => text.lines().filter_map(|line| line.strip_prefix("data: ")).map(str::to_owned).collect(),
            false => Some(text).filter(|text| !text.is_empty()).into_iter().collect(),
        };
        (messages, headers)
    }
}

#[tokio::test]
async fn every_message_of_a_session_over_http_passes_the_tap() {
    let served = Served::start().await;
    let mut wire = Vec::new();
    let initialize = mcp_initialize("2025-11-25");
    let (opened, headers) = served.post("/mcp", &[], &initialize).await;
    let session = headers["mcp-session-id"].to_str().unwrap();
    wire.push(initialize);
    wire.extend(opened);
    for message in [MCP_INITIALIZED.to_owned(), mcp_call(1, "echo", "{}"), work(2), mcp_call(3, "none", "{}")] {
        let headers = [("mcp-session-id", session), ("mcp-protocol-version", "2025-11-25")];
        let (answers, _) = served.post("/mcp", &headers, &message).await;
        wire.push(message);
        // An event without data begins a stream that can be resumed. It is no frame.
        wire.extend(answers.into_iter().filter(|answer| !answer.is_empty()));
    }
    let seen = served.recorder.seen();
    assert_eq!(seen.iter().map(|(_, text)| text.clone()).collect::<Vec<_>>(), wire);
    let words: Vec<_> = seen.iter().map(|(word, _)| *word).collect();
    let pair = ["> request", "< result"];
    let expected = [&pair[..], &["> notice"], &pair, &["> request", "< notice", "< result"]].concat();
    assert_eq!(words[..expected.len()], expected);
    assert_eq!(words[expected.len()], "> request");
    assert_eq!(words.len(), expected.len() + 2);
    assert!(matches!(served.recorder.sessions.lock().unpoisoned()[..], [TappedSession::Downstream(_)]));
}

/// A call of stateless MCP.
fn stateless_call(id: u64, tool: &str, more: &Value) -> String {
    let mut meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "c", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    meta.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    let params = json!({"name": tool, "arguments": {}, "_meta": meta});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).to_string()
}

#[tokio::test]
async fn every_message_of_stateless_mcp_passes_the_tap() {
    let served = Served::start().await;
    let mut wire = Vec::new();
    let calls = [("echo", json!({})), ("work", json!({"progressToken": "p"})), ("none", json!({}))];
    for (id, (tool, more)) in calls.iter().enumerate() {
        let message = stateless_call(id as u64, tool, more);
        let headers = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", tool)];
        let (answers, _) = served.post("/mcp", &headers, &message).await;
        wire.push(message);
        wire.extend(answers);
    }
    let notice = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}"#;
    let headers = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "notifications/cancelled")];
    assert_eq!(served.post("/mcp", &headers, notice).await.0, [""; 0]);
    wire.push(notice.to_owned());
    let seen = served.recorder.seen();
    assert_eq!(seen.iter().map(|(_, text)| text.clone()).collect::<Vec<_>>(), wire);
    assert_eq!(seen.iter().filter(|(word, _)| *word == "< notice").count(), 1, "{seen:?}");
    assert_eq!(seen.last().unwrap().0, "> notice");
}

#[tokio::test]
async fn every_message_of_an_a2e_session_over_http_passes_the_tap() {
    let served = Served::start().await;
    let (session, _) = served.post("/session", &[], "").await;
    let session: Value = serde_json::from_str(&session[0]).unwrap();
    let session = session["session_id"].as_str().unwrap().to_owned();
    let request = served.client.get(format!("{}/stream", served.url)).header("x-session-id", &session);
    let mut stream = request.send().await.unwrap();
    let mut read = String::new();
    let mut wire = Vec::new();
    let handshake = json!({"a2e": "1.0", "type": "handshake/req", "id": "1", "ts": 1.5, "agent_id": "c", "agent_caps": ["tools"],
            "auth_token": ""});
    let call = json!({"a2e": "1.0", "type": "tool/call/req", "id": "2", "ts": 1.5, "tool_name": "echo", "params": {}});
    let unknown =
        json!({"a2e": "1.0", "type": "tool/call/req", "id": "3", "ts": 1.5, "tool_name": "none", "params": {}});
    for (message, answers) in [(handshake, 1), (call, 1), (unknown, 1)] {
        let message = message.to_string();
        served.post("/send", &[("x-session-id", &session)], &message).await;
        wire.push(message);
        for _ in 0..answers {
            while !read.contains("\n\n") {
                let chunk = stream.chunk().await.unwrap().expect("the stream is open");
                read.push_str(std::str::from_utf8(&chunk).unwrap());
            }
            let (event, rest) = read.split_once("\n\n").unwrap();
            wire.push(event.strip_prefix("data: ").unwrap().to_owned());
            read = rest.to_owned();
        }
    }
    let seen = served.recorder.seen();
    assert_eq!(seen.iter().map(|(_, text)| text.clone()).collect::<Vec<_>>(), wire);
    let words: Vec<_> = seen.iter().map(|(word, _)| &word[..1]).collect();
    assert_eq!(words, [">", "<", ">", "<", ">", "<"]);
    assert_eq!(*served.recorder.dialects.lock().unpoisoned(), [Some("a2e")]);
}

/// Opens a session with an upstream, calls two tools, and closes it. Returns the frames that its tap saw.
async fn call_upstream(target: &Target, speak: &str) -> Arc<Recorder> {
    let tap = Arc::<Tap>::default();
    let recorder = Recorder::attached(&tap);
    let options = Options { speak: Speak::parse(speak).expect("a dialect"), tap, ..Options::default() };
    let upstream = Upstream::open(target, options, Arc::new(IgnoreEvents)).await.expect("it opens");
    for tool in ["echo", "work"] {
        let call = ToolCall { name: tool.into(), arguments: no_arguments() };
        let reply = upstream.call(Operation::CallTool(call)).await;
        assert!(matches!(reply, Ok(Reply::Tool(_))), "{reply:?}");
    }
    upstream.close().await;
    assert!(matches!(recorder.sessions.lock().unpoisoned()[..], [TappedSession::Upstream(_)]));
    recorder
}

#[tokio::test]
async fn an_upstream_over_http_and_its_server_see_the_same_frames() {
    for (speak, path, frames) in
        [("mcp@2025-11-25", "/mcp", (4, 3)), ("mcp@2026-07-28", "/mcp", (3, 3)), ("a2e", "", (4, 3))]
    {
        let served = Served::start().await;
        let target = Target::parse(&[format!("{}{path}", served.url)]).unwrap();
        let upstream = call_upstream(&target, speak).await;
        assert_eq!(upstream.bytes("<"), served.recorder.bytes(">"), "{speak}");
        assert_eq!(upstream.bytes(">"), served.recorder.bytes("<"), "{speak}");
        assert_eq!((upstream.bytes("<").len(), upstream.bytes(">").len()), frames, "{speak}");
    }
}

#[tokio::test]
async fn every_line_of_an_upstream_process_passes_the_tap() {
    let folder = tempfile::tempdir().unwrap();
    let (to, from) = (folder.path().join("to"), folder.path().join("from"));
    let program = support::gladhand().get_program().to_str().unwrap().to_owned();
    for speak in ["mcp@2025-06-18", "mcp@2026-07-28", "fluxloop"] {
        let script = format!("tee '{}' | '{program}' serve | tee '{}'", to.display(), from.display());
        let target = Target::Command(vec!["sh".to_owned(), "-c".to_owned(), script]);
        let tap = Arc::<Tap>::default();
        let recorder = Recorder::attached(&tap);
        let options = Options { speak: Speak::parse(speak).unwrap(), tap, ..Options::default() };
        let upstream = Upstream::open(&target, options, Arc::new(IgnoreEvents)).await.unwrap();
        let listed = upstream.call(Operation::ListTools).await;
        assert!(matches!(listed, Ok(Reply::Tools(_))), "{speak}: {listed:?}");
        upstream.close().await;
        let lines = |path| std::fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(recorder.bytes("<"), lines(&to), "{speak}");
        assert_eq!(recorder.bytes(">"), lines(&from), "{speak}");
        assert!(recorder.seen().len() >= 4, "{speak}: {:?}", recorder.seen());
    }
}
