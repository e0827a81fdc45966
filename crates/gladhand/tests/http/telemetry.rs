//! The export of spans and metrics to a collector of OpenTelemetry.

use std::net::TcpListener;
use std::time::Instant;

use rustix::process::Signal;

use crate::client::{Connection, open_session};
use crate::collector::{Collector, ReadSpan};
use crate::server::Program;
use crate::support::{PATIENCE, gladhand, mcp_call};

const GLADHAND: &str = env!("CARGO_BIN_EXE_gladhand");
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CLIENT_SPAN: &str = "b7ad6b7169203331";
const SERVER: u64 = 2;
const CLIENT: u64 = 3;

fn call(
    connection: &mut Connection,
    session: &str,
    id: u64,
    tool: &str,
    arguments: &str,
    flags: &str,
) -> serde_json::Value {
    let headers = [("Mcp-Session-Id", session), ("MCP-Protocol-Version", "2025-11-25")];
    let meta =
        format!(r#""_meta":{{"traceparent":"00-{TRACE}-{CLIENT_SPAN}-{flags}","tracestate":"a=b"}},"arguments":"#);
    let message = mcp_call(id, tool, arguments).replacen("\"arguments\":", &meta, 1);
    assert!(message.contains("traceparent"), "{message}");
    let answer = connection.post(&headers, &message);
    assert_eq!(answer.status, 200);
    answer.json()
}

/// A configuration with a collector, and with another Gladhand as upstream.
fn configuration(collector: &Collector, upstream: Option<(&str, &str)>) -> String {
    let upstream = upstream.map_or_else(String::new, |(name, file)| {
        format!("[toolbox]\nenabled = false\n[upstreams.{name}]\ncommand = '{GLADHAND}'\nargs = ['serve', '--config', '{file}']\n")
    });
    format!("[telemetry]\notlp = '{}'\nmetrics_period_s = 1\nheaders = {{ X-Team = 'red' }}\n{upstream}", collector.url)
}

fn attribute<'s>(span: &'s ReadSpan, name: &str) -> &'s str {
    span.attributes.get(name).map_or("", String::as_str)
}

#[test]
fn one_call_across_two_upstreams_is_one_tree_of_spans() {
    let collector = Collector::start();
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: String| {
        let path = folder.path().join(name).display().to_string();
        std::fs::write(&path, text).expect("it can be written");
        path
    };
    let far = write("far.toml", configuration(&collector, None));
    let middle = write("middle.toml", configuration(&collector, Some(("far", &far))));
    let front = write("front.toml", configuration(&collector, Some(("middle", &middle))));
    let program = Program::start(&["--config", &front]);
    let mut connection = program.connect();
    let session = open_session(&mut connection, "2025-11-25");
    let answer = call(&mut connection, &session, 7, "middle__far__echo", r#"{"message":"hello"}"#, "01");
    assert_eq!(answer["result"]["content"][0]["text"], "hello");

    let spans = collector.spans_of(TRACE, 5);
    assert_eq!(spans.len(), 5, "{spans:#?}");
    let mut parent = CLIENT_SPAN.to_owned();
    for (kind, tool) in [
        (SERVER, "middle__far__echo"),
        (CLIENT, "far__echo"),
        (SERVER, "far__echo"),
        (CLIENT, "echo"),
        (SERVER, "echo"),
    ] {
        let child = spans.iter().find(|span| span.parent == parent).unwrap_or_else(|| panic!("{tool}: {spans:#?}"));
        assert_eq!((child.kind, child.name.as_str(), child.status), (kind, &*format!("tools/call {tool}"), 0));
        assert_eq!(
            ["mcp.method.name", "gen_ai.tool.name", "gen_ai.operation.name", "gladhand.dialect", "error.type"]
                .map(|name| attribute(child, name)),
            ["tools/call", tool, "execute_tool", "mcp", ""]
        );
        let transport = if parent == CLIENT_SPAN { "tcp" } else { "pipe" };
        assert_eq!(attribute(child, "network.transport"), transport);
        assert!(!child.attributes.contains_key("gen_ai.tool.call.arguments"), "arguments only on request");
        parent.clone_from(&child.id);
    }
    assert_eq!(
        attribute(spans.iter().find(|span| span.parent == CLIENT_SPAN).unwrap(), "mcp.protocol.version"),
        "2025-11-25"
    );

    // Metrics go to the same collector, and every request has the configured headers.
    let request = collector.wait_for(|exported| exported.iter().find(|one| one.path == "/v1/metrics").cloned());
    assert_eq!(request.headers.get("x-team").map(String::as_str), Some("red"));
    assert_eq!(request.headers.get("content-type").map(String::as_str), Some("application/x-protobuf"));
    let name = b"mcp.server.operation.duration";
    assert!(request.body.windows(name.len()).any(|window| window == name));
}

#[test]
fn a_failed_call_is_an_error_and_an_unsampled_one_is_not_exported() {
    let collector = Collector::start();
    let text = configuration(&collector, None).replace("metrics_period_s = 1", "metrics_period_s = 0\npayloads = true");
    let (mut program, _folder) = Program::configured(&text);
    let mut connection = program.connect();
    let session = open_session(&mut connection, "2025-11-25");
    call(&mut connection, &session, 1, "echo", r#"{"message":"unsampled"}"#, "00");
    call(&mut connection, &session, 2, "echo", r#"{"message":"ghp_0123456789abcdefghijABCDEFGHIJ012345"}"#, "01");
    call(&mut connection, &session, 3, "nothing", "{}", "01");
    // The end of the process sends what waits.
    program.signal(Signal::TERM);
    assert!(program.wait().success());
    let spans = collector.spans_of(TRACE, 2);
    assert_eq!(spans.len(), 2, "{spans:#?}");
    let [echo, nothing] = ["tools/call echo", "tools/call"]
        .map(|name| spans.iter().find(|span| span.name == name).unwrap_or_else(|| panic!("{name}: {spans:#?}")));
    assert_eq!((echo.status, attribute(echo, "gen_ai.tool.call.arguments")), (0, r#"{"message":"***"}"#));
    assert!(attribute(echo, "gen_ai.tool.call.result").contains("***"), "{echo:#?}");
    assert_eq!((nothing.status, attribute(nothing, "error.type")), (2, "unknown_tool"));
    assert_eq!(attribute(nothing, "mcp.session.id"), attribute(echo, "mcp.session.id"));
    assert_ne!(attribute(nothing, "mcp.session.id"), session, "the session id of HTTP is a secret");
}

#[test]
fn a_collector_that_is_gone_or_silent_delays_no_call_and_no_end() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let gone = TcpListener::bind("127.0.0.1:0").expect("a free port").local_addr().expect("an address");
    for address in [silent.local_addr().expect("an address"), gone] {
        let (mut program, _folder) =
            Program::configured(&format!("[telemetry]\notlp = 'http://{address}'\nmetrics_period_s = 1\n"));
        let mut connection = program.connect();
        let session = open_session(&mut connection, "2025-11-25");
        for id in 0..2000 {
            let answer = call(&mut connection, &session, id, "echo", r#"{"message":"hello"}"#, "01");
            assert_eq!(answer["result"]["content"][0]["text"], "hello");
        }
        let begun = Instant::now();
        program.signal(Signal::TERM);
        assert!(program.wait().success());
        assert!(begun.elapsed() < PATIENCE / 2, "{:?}", begun.elapsed());
    }
    drop(silent);
}

#[test]
fn a_wrong_address_of_a_collector_is_a_mistake_with_its_place() {
    for (value, expected) in [
        ("ftp://otel.example", "expected an address that begins with http:// or https://"),
        ("nowhere", "expected an address that begins with http:// or https://"),
        ("http://user:word@otel.example", "credentials and a query cannot be part of it; use `telemetry.headers`"),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("gladhand.toml");
        std::fs::write(&file, format!("[telemetry]\notlp = '{value}'\n")).expect("it can be written");
        let output = gladhand().args(["config", "check", "--config"]).arg(&file).output().expect("it starts");
        let text = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(!output.status.success() && text.contains(expected) && text.contains("gladhand.toml:2:8"), "{text}");
    }
}
