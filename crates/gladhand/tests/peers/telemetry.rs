//! Metrics and traces, taken by real collectors: Prometheus, and a receiver on the official definitions of OTLP.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::installed::{GLADHAND, peers, python};
use crate::support::{MCP_INITIALIZED, PATIENCE, Process, gladhand, mcp_call, mcp_initialize};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CLIENT_SPAN: &str = "00f067aa0ba902b7";

/// A program of the test, which ends with it.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The collector: its address, and the requests that it takes.
struct Collector {
    _running: Running,
    url: String,
    requests: Receiver<Value>,
}

impl Collector {
    fn start() -> Self {
        let words = python("pytelemetry", "telemetry/collector.py");
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the collector starts");
        let stdout = BufReader::new(child.stdout.take().expect("piped"));
        let (sender, requests) = channel();
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                let _ = sender.send(serde_json::from_str(&line).expect("a line of JSON"));
            }
        });
        let port: Value = requests.recv_timeout(PATIENCE).expect("the collector says where it is");
        Self { _running: Running(child), url: format!("http://127.0.0.1:{}", port["port"]), requests }
    }

    /// Takes requests until a condition holds for all of one kind.
    fn until<T>(&self, kind: &str, condition: impl Fn(&[Value]) -> Option<T>) -> T {
        let mut all = Vec::new();
        let begun = Instant::now();
        loop {
            let left = PATIENCE.saturating_sub(begun.elapsed());
            let request = self.requests.recv_timeout(left).unwrap_or_else(|_| panic!("in vain: {all:#?}"));
            all.extend(request[kind].as_array().into_iter().flatten().cloned());
            if let Some(result) = condition(&all) {
                return result;
            }
        }
    }
}

/// A session with a server over stdio, and one call with a trace.
fn traced_call(mut command: Command, tool: &str) -> (Process, Value) {
    command.stdin(Stdio::piped());
    let mut process = Process::start(command);
    process.ask(&mcp_initialize("2025-11-25"));
    process.send(MCP_INITIALIZED);
    let meta = format!(r#""_meta":{{"traceparent":"00-{TRACE}-{CLIENT_SPAN}-01","baggage":"user=ann"}},"arguments":"#);
    let call = mcp_call(1, tool, r#"{"message":"hello"}"#).replacen("\"arguments\":", &meta, 1);
    let answer = process.ask(&call);
    (process, answer)
}

#[test]
fn an_otlp_receiver_gets_the_whole_tree_of_a_call_across_two_upstreams() {
    let collector = Collector::start();
    let folder = tempfile::tempdir().expect("a folder");
    let telemetry = format!("[telemetry]\notlp = '{}'\nmetrics_period_s = 1\n", collector.url);
    let write = |name: &str, upstream: Option<(&str, &str)>| {
        let upstream = upstream.map_or_else(String::new, |(name, file)| {
            format!(
                "[toolbox]\nenabled = false\n[upstreams.{name}]\ncommand = '{GLADHAND}'\nargs = ['serve', '--config', '{file}']\n"
            )
        });
        let path = folder.path().join(format!("{name}.toml")).display().to_string();
        std::fs::write(&path, format!("{telemetry}service_name = '{name}'\n{upstream}")).expect("it can be written");
        path
    };
    let far = write("far", None);
    let middle = write("middle", Some(("b", &far)));
    let front = write("front", Some(("a", &middle)));
    let mut command = gladhand();
    command.args(["serve", "--config", &front]).env("GLADHAND_DATA_DIR", folder.path().join("data"));
    let (process, answer) = traced_call(command, "a__b__echo");
    assert_eq!(answer["result"]["content"][0]["text"], "hello", "{answer}");

    let spans = collector.until("spans", |spans| {
        let own: Vec<_> = spans.iter().filter(|span| span["trace"] == TRACE).cloned().collect();
        (own.len() >= 5).then_some(own)
    });
    assert_eq!(spans.len(), 5, "{spans:#?}");
    let (server, client) = (2, 3);
    let mut parent = json!(CLIENT_SPAN);
    let mut outer = i64::MAX;
    for (kind, tool) in
        [(server, "a__b__echo"), (client, "b__echo"), (server, "b__echo"), (client, "echo"), (server, "echo")]
    {
        let span = spans.iter().find(|span| span["parent"] == parent).unwrap_or_else(|| panic!("{tool}: {spans:#?}"));
        assert_eq!((&span["kind"], &span["status"]), (&json!(kind), &json!(0)), "{span:#}");
        assert_eq!(span["name"], format!("tools/call {tool}"));
        let attributes = &span["attributes"];
        assert_eq!(attributes["gen_ai.tool.name"], tool);
        assert_eq!(attributes["gen_ai.operation.name"], "execute_tool");
        assert_eq!(
            (&attributes["mcp.method.name"], &attributes["network.transport"]),
            (&json!("tools/call"), &json!("pipe"))
        );
        let ns = span["ns"].as_i64().expect("a duration");
        assert!((1..=outer).contains(&ns), "a child is within its parent: {span:#}");
        outer = ns;
        parent = span["id"].clone();
    }

    let operations = collector.until("metrics", |metrics| {
        let of_calls = |metric: &&Value| {
            metric["name"] == "mcp.client.operation.duration"
                && metric["points"][0]["attributes"]["gen_ai.tool.name"] == "echo"
        };
        metrics.iter().find(of_calls).cloned()
    });
    assert_eq!(
        (&operations["kind"], &operations["unit"], &operations["cumulative"]),
        (&json!("histogram"), &json!("s"), &json!(true))
    );
    let point = &operations["points"][0];
    let buckets = point["buckets"].as_array().expect("buckets");
    assert_eq!(buckets.len(), point["bounds"].as_array().expect("bounds").len() + 1);
    assert_eq!((&point["count"], buckets.iter().filter_map(Value::as_u64).sum::<u64>()), (&json!(1), 1));
    assert_eq!(process.finish().0, 0);
}

/// The body of a response to a GET request.
fn get(address: SocketAddr, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    text.split_once("\r\n\r\n").map(|(_, body)| body.to_owned())
}

#[test]
fn prometheus_scrapes_the_metrics_and_answers_queries_about_them() {
    let free = || TcpListener::bind("127.0.0.1:0").expect("a free port").local_addr().expect("an address");
    let folder = tempfile::tempdir().expect("a folder");
    let (ours, theirs) = (free(), free());
    let mut command = gladhand();
    command.args(["serve", "--metrics", "--http", &ours.to_string()]).stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let _gladhand = Running(command.env("GLADHAND_DATA_DIR", folder.path()).spawn().expect("it starts"));
    let begun = Instant::now();
    while get(ours, "/readyz").is_none() {
        assert!(begun.elapsed() < PATIENCE, "it does not listen");
        std::thread::sleep(Duration::from_millis(10));
    }

    let configuration = folder.path().join("prometheus.yml");
    let scrape = format!(
        "global:\n  scrape_interval: 200ms\nscrape_configs:\n  - job_name: gladhand\n    static_configs:\n      - targets: ['{ours}']\n"
    );
    std::fs::write(&configuration, scrape).expect("it can be written");
    let mut prometheus = Command::new(peers().join("bin/prometheus"));
    prometheus.arg(format!("--config.file={}", configuration.display()));
    prometheus.arg(format!("--storage.tsdb.path={}", folder.path().join("tsdb").display()));
    prometheus.arg(format!("--web.listen-address={theirs}"));
    prometheus.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let _prometheus = Running(prometheus.spawn().expect("Prometheus starts"));

    // Stateless requests need no session.
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "echo", "arguments": {"message": "hello"}, "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {}}}})
    .to_string();
    let mut stream = TcpStream::connect(ours).expect("it listens");
    write!(
        stream,
        "POST /mcp HTTP/1.1\r\nHost: {ours}\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
         MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: echo\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{call}",
        call.len()
    )
    .expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    assert!(answer.contains("hello"), "{answer}");

    let query = |query: &str| -> Option<Value> {
        let encoded: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let answer = get(theirs, &format!("/api/v1/query?query={encoded}"))?;
        let answer: Value = serde_json::from_str(&answer).ok()?;
        answer["data"]["result"].as_array()?.first().map(|first| first["value"][1].clone())
    };
    let becomes = |text: &str, expected: &str| {
        let begun = Instant::now();
        loop {
            let value = query(text);
            if value == Some(json!(expected)) {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "{text}: {value:?}");
            std::thread::sleep(Duration::from_millis(100));
        }
    };
    becomes("up", "1");
    becomes("mcp_server_operation_duration_seconds_count{gen_ai_tool_name=\"echo\",error_type=\"\"}", "1");
    // A quantile shows that Prometheus takes the buckets for those of a histogram.
    becomes(
        "histogram_quantile(1, sum by (le) (mcp_server_operation_duration_seconds_bucket{gen_ai_tool_name=\"echo\"})) > bool 0",
        "1",
    );
    becomes("gladhand_ready", "1");
    becomes("count(gladhand_build_info)", "1");
}
