//! Their clients with our servers: the fixture of the conformance suite, and `gladhand serve` for a call to give up.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use super::{Cell, Row, Seen, Transport, versions};
use crate::installed::{GLADHAND, node, peers, python, run};

const HANDSHAKE: &str = "2025-11-25";
const STATELESS: &str = "2026-07-28";

const NO_QUESTIONS: &str = "The Inspector's command line declares neither elicitation nor sampling.";
const NO_NOTICES: &str = "The Inspector's command line shows no notifications.";
const ONE_CALL: &str = "A process of the Inspector's command line makes one call and exits.";

pub(super) fn rows() -> Vec<Row> {
    use Transport::{Http, Sse, Stdio};
    let both = [Stdio, Http];
    let mut rows = Vec::new();
    let mut add = |peer: String, client: Vec<OsString>, mode: &'static str, on: &[Transport], revision| {
        for transport in on.iter().copied() {
            rows.push(row(peer.clone(), client.clone(), mode, transport, revision));
        }
    };

    let peer = versions::npm("TypeScript SDK", "npm", "@modelcontextprotocol/sdk");
    add(peer, node("matrix/ts-v1-client.mjs"), "default", &[Stdio, Http, Sse], HANDSHAKE);

    let peer = versions::npm("TypeScript SDK", "npm", "@modelcontextprotocol/client");
    let client = node("matrix/ts-v2-client.mjs");
    add(peer.clone(), client.clone(), "default", &[Stdio, Http, Sse], HANDSHAKE);
    add(peer.clone(), client.clone(), "auto", &both, STATELESS);
    add(peer, client, STATELESS, &both, STATELESS);

    let peer = versions::python("Python SDK", "py1", "mcp");
    add(peer, python("py1", "matrix/py_v1_client.py"), "default", &[Stdio, Http, Sse], HANDSHAKE);

    let peer = versions::python("Python SDK", "py2", "mcp");
    let client = python("py2", "matrix/py_v2_client.py");
    add(peer.clone(), client.clone(), "legacy", &[Stdio, Http, Sse], HANDSHAKE);
    add(peer.clone(), client.clone(), "auto", &both, STATELESS);
    add(peer, client, STATELESS, &both, STATELESS);

    let peer = versions::python("FastMCP", "pyservers", "fastmcp");
    let client = python("pyservers", "matrix/fastmcp_client.py");
    add(peer.clone(), client.clone(), "legacy", &[Stdio, Http, Sse], HANDSHAKE);
    add(peer, client, "auto", &both, STATELESS);

    let client = vec![peers().join("cargo/release/rmcp-matrix").into(), "client".into()];
    add(versions::rmcp(), client.clone(), "initialize", &both, HANDSHAKE);
    add(versions::rmcp(), client.clone(), "auto", &both, STATELESS);
    add(versions::rmcp(), client, "discover", &both, STATELESS);

    let package = "@modelcontextprotocol/inspector";
    let peer = versions::npm("Inspector CLI", "inspector", package);
    let mut client = node("matrix/inspector-client.mjs");
    client.push(peers().join("inspector/node_modules").join(package).join("clients/launcher/build/index.js").into());
    add(peer.clone(), client.clone(), "legacy", &[Stdio, Http, Sse], HANDSHAKE);
    add(peer.clone(), client, "auto", &both, STATELESS);
    let absent = [
        (Cell::Progress, NO_NOTICES),
        (Cell::Cancel, ONE_CALL),
        (Cell::Elicit, NO_QUESTIONS),
        (Cell::Sample, NO_QUESTIONS),
        (Cell::Subscribe, NO_NOTICES),
    ];
    rows.iter_mut().filter(|row| row.peer == peer).for_each(|row| row.absent.extend(absent));
    rows
}

fn row(peer: String, client: Vec<OsString>, mode: &'static str, transport: Transport, revision: &'static str) -> Row {
    let session = Box::new(move |row: &Row| session(row, &client));
    Row { peer, mode, transport, revision, absent: Vec::new(), session }
}

/// Lets a client talk to separate servers, and compares its results with the expected ones.
fn session(row: &Row, client: &[OsString]) -> Seen {
    let fixture = Ours::start(row.transport, &fixture(), &[], &["127.0.0.1:0"]);
    let toolbox = Ours::start(row.transport, GLADHAND.as_ref(), &["serve"], &["--http", "127.0.0.1:0"]);
    let plan = json!({
        "transport": row.transport.name(),
        "mode": row.mode,
        "fixture": fixture.target,
        "toolbox": toolbox.target,
    });
    let mut words = client.to_vec();
    words.push(plan.to_string().into());
    let printed = run(&words).json;
    let compare = |cell: Cell| {
        let expected = expected(cell, row.revision);
        let seen = printed.get(cell.name())?;
        let verdict = if *seen == expected { Ok(()) } else { Err(format!("{seen} instead of {expected}")) };
        Some((cell, verdict))
    };
    Cell::ALL.into_iter().filter_map(compare).collect()
}

/// The expected results, which are the same for every client.
fn expected(cell: Cell, revision: &str) -> Value {
    match cell {
        Cell::Open => json!(revision),
        Cell::List | Cell::Close => json!(true),
        Cell::Call => json!("This is a simple text response for testing."),
        Cell::Progress => json!([[0, 100], [50, 100]]),
        Cell::Cancel => json!({"cancelled": true, "reports": 1, "afterwards": "still here"}),
        Cell::Elicit => json!(r#"User response: action=accept, content={"email":"ada@example.org","username":"ada"}"#),
        Cell::Sample => json!("LLM response: Bern"),
        Cell::Subscribe => json!("test://watched-resource"),
        Cell::Read => json!("This is the content of the static text resource."),
        Cell::Prompt => json!("Prompt with arguments: arg1='a', arg2='b'"),
    }
}

/// The conformance suite's fixture, which is built with the tests.
fn fixture() -> PathBuf {
    let folder = PathBuf::from(GLADHAND).parent().expect("a folder").join("examples");
    let program = folder.join("conformance_server");
    assert!(program.exists(), "{} is not built: `cargo build --examples`", program.display());
    program
}

/// A server of ours: words for a client to start, or a process that listens.
struct Ours {
    target: Value,
    process: Option<Child>,
}

impl Ours {
    /// `http` is what makes the program listen, and say where in its first line.
    fn start(transport: Transport, program: &std::path::Path, arguments: &[&str], http: &[&str]) -> Self {
        if transport == Transport::Stdio {
            let mut words = vec![program.to_str().expect("paths are UTF-8")];
            words.extend(arguments);
            return Self { target: json!(words), process: None };
        }
        let mut command = Command::new(program);
        command.args(arguments).args(http).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().expect("our own server starts");
        let (stdout, stderr) = (process.stdout.take(), process.stderr.take());
        // The fixture prints it on stdout, the product on stderr; the other stream is closed, which does no harm.
        let says: Box<dyn Read> = match arguments {
            [] => Box::new(stdout.expect("stdout is piped")),
            _ => Box::new(stderr.expect("stderr is piped")),
        };
        let mut line = String::new();
        BufReader::new(says).read_line(&mut line).expect("our own server says where it is");
        let url = line.split_whitespace().find(|word| word.starts_with("http://")).expect("a URL");
        let url = match transport {
            Transport::Sse => url.replace("/mcp", "/sse"),
            _ => url.to_owned(),
        };
        Self { target: json!(url), process: Some(process) }
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}
