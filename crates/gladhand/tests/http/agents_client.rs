//! A host of A2E at an address, as an upstream: our client against our host, and against one that fails.

use std::borrow::Cow;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gladhand::Secret;
use gladhand::negotiation::Refusal;
use gladhand::operations::{FailureKind, Operation, Reply, ToolCall};
use gladhand::upstream::{Eras, IgnoreEvents, OpenError, Options, Speak, Target, Upstream};
use gladhand::wire::json;
use rustix::process::Signal;
use serde_json::json;

use crate::agents::{Agent, call, handshake};
use crate::server::Program;
use crate::support::{PATIENCE, Process, gladhand, mcp_call, mcp_initialize};

fn base(address: SocketAddr) -> String {
    format!("http://{address}")
}

fn as_agent() -> Options {
    Options { speak: Speak::parse("a2e").expect("a dialect"), ..Options::default() }
}

async fn open(url: &str, options: Options) -> Result<Upstream, OpenError> {
    let target = Target::parse(&[url.to_owned()]).expect("a URL");
    tokio::time::timeout(PATIENCE, Upstream::open(&target, options, Arc::new(IgnoreEvents))).await.expect("it ends")
}

fn tool(name: &'static str, arguments: &serde_json::Value) -> Operation<'static> {
    Operation::CallTool(ToolCall { name: name.into(), arguments: Cow::Owned(json::to_raw(arguments)) })
}

async fn echo(upstream: &Upstream, message: &str) -> String {
    match upstream.call(tool("echo", &json!({ "message": message }))).await {
        Ok(Reply::Tool(result)) => result.joined_text(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn our_client_opens_calls_and_leaves_our_host() {
    let (program, _folder) = Program::configured("[a2e]\nsessions = 2\ntokens = ['hush']\n");
    let url = base(program.address());
    let refused = open(&url, as_agent()).await;
    assert!(matches!(refused, Err(OpenError::Refused { refusal: Refusal::AuthFailed, .. })), "{refused:?}");
    // A refused client keeps its place until the time for a handshake is over; a client that leaves makes room for the
    // next.
    for _ in 0..3 {
        let upstream = open(&url, Options { token: Some(Secret::new("hush")), ..as_agent() }).await.unwrap();
        assert_eq!((upstream.agreement().dialect, upstream.agreement().max_parallel), ("a2e", Some(4)));
        let Ok(Reply::Tools(tools)) = upstream.call(Operation::ListTools).await else { panic!() };
        assert!(tools.iter().any(|tool| tool.name == "echo"));
        let said: Vec<_> = (0..20).map(|number| format!("grüße {number}")).collect();
        let heard = futures_util::future::join_all(said.iter().map(|said| echo(&upstream, said))).await;
        assert_eq!(heard, said);
        upstream.close().await;
    }
}

#[tokio::test]
async fn the_dialect_at_an_address_is_detected_and_remembered() {
    let program = Program::start(&[]);
    let eras = Eras::default();
    for _ in 0..2 {
        for (url, dialect) in [(base(program.address()), "a2e"), (program.url.clone(), "mcp")] {
            let upstream = open(&url, Options { eras: eras.clone(), ..Options::default() }).await.unwrap();
            assert_eq!(upstream.agreement().dialect, dialect, "{url}");
            assert_eq!(echo(&upstream, "x").await, "x");
            upstream.close().await;
        }
    }
    let target = Target::parse(&[base(program.address())]).unwrap();
    let options = Options { eras, ..Options::default() };
    assert_eq!(options.expected(&target).map(|(dialect, _)| dialect.name), Some("a2e"));
    // Who is neither is told as before.
    let only_mcp = Program::start(&["--dialect", "mcp"]);
    let neither = open(&base(only_mcp.address()), Options::default()).await;
    assert!(matches!(neither, Err(OpenError::Refused { .. })), "{neither:?}");
}

/// A proxy that cuts the first stream after its first message has passed.
fn cutting(to: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let has_cut = Arc::new(AtomicBool::new(false));
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let has_cut = Arc::clone(&has_cut);
            std::thread::spawn(move || pass_on(client, TcpStream::connect(to).expect("it listens"), &has_cut));
        }
    });
    address
}

fn pass_on(mut client: TcpStream, mut server: TcpStream, has_cut: &AtomicBool) {
    let mut back = (server.try_clone().expect("a socket"), client.try_clone().expect("a socket"));
    let is_stream = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&is_stream);
    std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(length @ 1..) = client.read(&mut bytes) {
            asked.fetch_or(bytes.starts_with(b"GET /stream"), Ordering::SeqCst);
            if server.write_all(&bytes[..length]).is_err() {
                return;
            }
        }
        let _ = server.shutdown(Shutdown::Both);
    });
    let mut bytes = [0; 4096];
    while let Ok(length @ 1..) = back.0.read(&mut bytes) {
        let is_message = bytes[..length].windows(6).any(|window| window == b"data: ");
        let is_cut = is_message && is_stream.load(Ordering::SeqCst) && !has_cut.swap(true, Ordering::SeqCst);
        if is_cut {
            // The host closes its side once it knows that its reader is gone. Only then does the client get the message
            // and go on: an answer that the host writes to a broken connection is lost, because A2E acknowledges nothing.
            let _ = back.0.shutdown(Shutdown::Write);
            while let Ok(1..) = back.0.read(&mut [0; 4096]) {}
        }
        if back.1.write_all(&bytes[..length]).is_err() || is_cut {
            break;
        }
    }
    let _ = back.0.shutdown(Shutdown::Both);
    let _ = back.1.shutdown(Shutdown::Both);
}

#[tokio::test]
async fn a_stream_that_breaks_is_taken_up_again() {
    let program = Program::start(&[]);
    let upstream = open(&base(cutting(program.address())), as_agent()).await.unwrap();
    for number in 0..10 {
        let said = number.to_string();
        assert_eq!(tokio::time::timeout(PATIENCE, echo(&upstream, &said)).await.unwrap(), said);
    }
    upstream.close().await;
}

#[tokio::test]
async fn calls_fail_when_the_host_is_gone() {
    let mut program = Program::start(&[]);
    let upstream = open(&base(program.address()), as_agent()).await.unwrap();
    assert_eq!(echo(&upstream, "x").await, "x");
    program.signal(Signal::KILL);
    program.wait();
    let failed = tokio::time::timeout(PATIENCE, upstream.call(tool("echo", &json!({"message": "x"})))).await.unwrap();
    assert_eq!(failed.unwrap_err().kind, FailureKind::UpstreamLost);
}

#[test]
fn a_host_is_reached_by_every_command_and_through_another_host() {
    let host = Program::start(&[]);
    let url = base(host.address());
    // The second is reached over HTTP, in either dialect.
    let (front, _folder) =
        Program::configured(&format!("[toolbox]\nenabled = false\n[upstreams.host]\nurl = '{url}'\nspeak = 'a2e'\n"));
    let mut agent = Agent::open(|| front.connect());
    let answer = agent.ask(&call("c", "host__echo", &json!({"message": "through both"})));
    assert!(answer["data"].to_string().contains("through both"), "{answer}");
    let session = crate::client::open_session(&mut front.connect(), "2025-11-25");
    let called = mcp_call(1, "host__echo", r#"{"message":"hi"}"#);
    let answer = front.connect().post(&[("Mcp-Session-Id", &session)], &called);
    assert_eq!(answer.json()["result"]["content"][0]["text"], "hi", "{answer:?}");
    // A bridge, and the commands for people.
    let mut bridge = gladhand();
    bridge.args(["bridge", "--as", "a2e", &url]);
    let mut bridge = Process::start(bridge);
    assert!(bridge.ask(&mcp_initialize("2025-11-25"))["result"].is_object());
    let answer = bridge.ask(&mcp_call(1, "echo", r#"{"message":"bridged"}"#));
    assert_eq!(answer["result"]["content"][0]["text"], "bridged", "{answer}");
    let run = |arguments: &[&str]| {
        let output = gladhand().args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert_eq!(run(&["call", "--as", "a2e", "echo", "message=called", &url]).trim(), "called");
    assert!(run(&["open", "--as", "a2e", "--json", &url]).contains("handshake/resp"));
    assert!(run(&["open", &url]).contains("a2e"), "it is found out");
    let refused = gladhand().args(["open", "--as", "loaf", &url]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn a_host_that_asks_for_a_token_gets_the_one_in_the_environment() {
    let (host, _folder) = Program::configured("[[a2e.agents]]\nid = 'gladhand'\ntoken = 'hush'\n");
    let url = base(host.address());
    let refused = gladhand().args(["open", "--as", "a2e", &url]).output().unwrap();
    assert!(!refused.status.success());
    let opened = gladhand().args(["open", "--as", "a2e", &url]).env("GLADHAND_A2E_TOKEN", "hush").output().unwrap();
    let shown = String::from_utf8_lossy(&opened.stdout).into_owned();
    assert!(opened.status.success() && !shown.contains("hush"), "{shown}");
    let other = Agent::unopened(|| host.connect()).ask(&handshake(&["tools"], "hush"));
    assert_eq!(other["reason"], "auth_failed", "it is another's");
}

#[tokio::test]
async fn an_agent_finds_the_host_by_the_start_line_the_session_path_and_the_hint() {
    let mut program = Program::start(&[]);
    let host = base(program.address());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut program.stderr, &mut line).expect("a line");
    assert!(line.trim_end().ends_with(&format!("A2E agents connect to {host}")), "{line}");
    let upstream = open(&format!("{host}/session"), as_agent()).await.expect("the session path names the host");
    assert_eq!(echo(&upstream, "x").await, "x");
    upstream.close().await;
    let mut command = gladhand();
    let output = command.args(["tools", "--as", "a2e", &program.url]).output().expect("it starts");
    let told = String::from_utf8_lossy(&output.stderr).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(told.contains(&format!("an A2E host has its base URL instead: {host}")), "{told}");
}

#[test]
fn a_refused_connection_hints_at_host_and_port() {
    let closed = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("an address");
    let output = gladhand().args(["tools", &format!("http://{closed}/mcp")]).output().expect("it starts");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("hint: is it running, and are host and port right?"), "{told}");
}
