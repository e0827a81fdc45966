//! Their servers, with our client: what each of them has is tried, and found out without being told the era.

use std::ffi::OsString;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use gladhand::negotiation::Capability;
use gladhand::operations::{Answered, Notice, Operation, Outcome, Progress, Question, QuestionKind, Reply, ToolCall};
use gladhand::upstream::{Options, Target, Upstream, UpstreamEvents};
use gladhand::wire::json::to_raw;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::habits::Habits;
use super::listening::Listening;
use super::{Cell, Row, Seen, Transport, versions};
use crate::installed::{node, peers, python};

/// Longer than a cell takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

const NO_SUBSCRIPTIONS: &str = "Version 1 of the Python SDK never declares resource subscriptions.";
const NO_ELICITATION: &str = "This version of the Python SDK has no elicitation.";
const DIES_OF_IT: &str = "A server on this version of the Python SDK ends its session when a call is cancelled.";
const LISTENING_ONLY: &str = "Version 2 of the Python SDK supports resource subscriptions in the stateless era only.";
const NOT_LISTENED_TO: &str = "FastMCP serves no `subscriptions/listen`, and declares no subscriptions.";
const ONLY_TOOLS: &str = "The server has only tools, which send no requests and report no progress.";

pub(super) fn rows() -> Vec<Row> {
    use Transport::{Http, Sse, Stdio};
    let mut rows = Vec::new();
    let mut add = |peer: String, server: Vec<OsString>, on: &[Transport], revision, absent: &[(Cell, &'static str)]| {
        for transport in on.iter().copied() {
            rows.push(row(peer.clone(), Start::Way(server.clone()), transport, revision, absent, Habits::ours));
        }
    };

    let peer = versions::npm("TypeScript SDK", "npm", "@modelcontextprotocol/sdk");
    add(peer, node("matrix/ts-v1-server.mjs"), &[Stdio, Http, Sse], "2025-11-25", &[]);

    let peer = versions::npm("TypeScript SDK", "npm", "@modelcontextprotocol/server");
    add(peer, node("matrix/ts-v2-server.mjs"), &[Stdio, Http], "2026-07-28", &[]);

    let peer = versions::npm("TypeScript SDK, stateless only,", "npm", "@modelcontextprotocol/server");
    let mut server = node("matrix/ts-v2-server.mjs");
    server.push("modern".into());
    add(peer, server, &[Stdio, Http], "2026-07-28", &[]);

    let absent = [(Cell::Subscribe, NO_SUBSCRIPTIONS), (Cell::Elicit, NO_ELICITATION), (Cell::Cancel, DIES_OF_IT)];
    let peer = versions::python("Python SDK", "pyold", "mcp");
    add(peer, python("pyold", "matrix/py_v1_server.py"), &[Stdio, Http, Sse], "2024-11-05", &absent);
    let peer = versions::python("Python SDK", "py1", "mcp");
    add(peer, python("py1", "matrix/py_v1_server.py"), &[Stdio, Http, Sse], "2025-11-25", &absent[..1]);
    let peer = versions::python("Python SDK", "py2", "mcp");
    let server = python("py2", "matrix/py_v2_server.py");
    add(peer.clone(), server.clone(), &[Stdio, Http], "2026-07-28", &[]);
    add(peer, server, &[Sse], "2025-11-25", &[(Cell::Subscribe, LISTENING_ONLY)]);

    let peer = versions::python("FastMCP", "pyservers", "fastmcp");
    let absent = [(Cell::Subscribe, NOT_LISTENED_TO)];
    let server = python("pyservers", "matrix/fastmcp_server.py");
    add(peer.clone(), server.clone(), &[Stdio, Http], "2026-07-28", &absent);
    add(peer, server, &[Sse], "2025-11-25", &absent);

    let server = vec![peers().join("cargo/release/rmcp-matrix").into()];
    add(versions::rmcp(), server, &[Stdio, Http], "2026-07-28", &[]);

    rows.extend(reference_servers());
    rows
}

/// The servers that the protocol's authors publish as examples of their craft.
fn reference_servers() -> Vec<Row> {
    let modules = peers().join("npm/node_modules/@modelcontextprotocol");
    let script = |package: &str| -> Vec<OsString> {
        vec![peers().join("bin/node").into(), modules.join(package).join("dist/index.js").into()]
    };
    let version = |package: &str| versions::npm(package, "npm", &format!("@modelcontextprotocol/{package}"));
    let mut rows: Vec<Row> = [Transport::Stdio, Transport::Http, Transport::Sse]
        .map(|transport| {
            let start = Start::Port(script("server-everything"));
            row(version("server-everything"), start, transport, "2025-11-25", &[], Habits::everything)
        })
        .into();
    let tools_only: Vec<_> =
        [Cell::Progress, Cell::Cancel, Cell::Elicit, Cell::Sample, Cell::Subscribe, Cell::Read, Cell::Prompt]
            .map(|cell| (cell, ONLY_TOOLS))
            .into();
    let git = vec![peers().join("pyservers/bin/python").into(), "-m".into(), "mcp_server_git".into()];
    for (peer, server, revision, habits) in [
        (
            version("server-filesystem"),
            Start::InFolder(script("server-filesystem")),
            "2025-11-25",
            Habits::filesystem as fn() -> Habits,
        ),
        (version("server-memory"), Start::Alone(script("server-memory")), "2025-11-25", Habits::memory),
        (
            versions::python("mcp-server-git", "pyservers", "mcp-server-git"),
            Start::InRepository(git),
            "2026-07-28",
            Habits::git,
        ),
    ] {
        rows.push(row(peer, server, Transport::Stdio, revision, &tools_only, habits));
    }
    rows
}

/// How a server is started.
enum Start {
    /// `stdio`, or `http PORT` and the like, says how it is to be talked to.
    Way(Vec<OsString>),
    /// So does a word, with the port in the environment.
    Port(Vec<OsString>),
    /// It gets a folder to work in.
    InFolder(Vec<OsString>),
    /// Its folder is a git repository.
    InRepository(Vec<OsString>),
    /// It needs nothing.
    Alone(Vec<OsString>),
}

fn row(
    peer: String,
    start: Start,
    transport: Transport,
    revision: &'static str,
    absent: &[(Cell, &'static str)],
    habits: fn() -> Habits,
) -> Row {
    let session = Box::new(move |row: &Row| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(session(row, &start, &habits()))
    });
    Row { peer, mode: "auto", transport, revision, absent: absent.to_vec(), session }
}

async fn session(row: &Row, start: &Start, habits: &Habits) -> Seen {
    let folder = tempfile::tempdir().expect("a folder for the server");
    let (target, _listening) = target(row.transport, start, folder.path());
    let (host, mut heard) = Ears::new();
    let names = ["sampling", "elicitation", "elicitation.form"];
    let provides = names.map(|name| (Capability::named(name), None)).to_vec();
    let options = Options { provides, ..Options::default() };
    let mut seen = Seen::new();
    let opened = soon(Upstream::open(&target, options, Arc::clone(&host) as Arc<dyn UpstreamEvents>)).await;
    let upstream = match opened.and_then(|opened| opened.map_err(|error| error.to_string())) {
        Ok(upstream) => upstream,
        Err(why) => return [(Cell::Open, Err(why))].into(),
    };
    let version = upstream.agreement().version.clone();
    let is_expected = version == row.revision;
    seen.insert(Cell::Open, if is_expected { Ok(()) } else { Err(format!("{version} is spoken")) });
    let trial = Trial { upstream, host, folder: folder.path().to_str().expect("paths are UTF-8") };
    let mut note = |cell, result: Result<Result<(), String>, String>| {
        seen.insert(cell, result.and_then(|result| result));
    };
    note(Cell::List, soon(trial.list(habits.call.tool)).await);
    note(Cell::Call, soon(trial.call(&habits.call)).await);
    if let Some(step) = &habits.progress {
        note(Cell::Progress, soon(trial.progress(step, &mut heard)).await);
    }
    for (cell, step) in [(Cell::Elicit, &habits.elicit), (Cell::Sample, &habits.sample)] {
        if let Some(step) = step {
            note(cell, soon(trial.call(step)).await);
        }
    }
    if let Some((uri, touch)) = &habits.subscribe {
        note(Cell::Subscribe, soon(trial.subscribe(uri, touch, &mut heard)).await);
    }
    if let Some((uri, words)) = &habits.read {
        note(Cell::Read, soon(trial.read(uri, words)).await);
    }
    if let Some(step) = &habits.prompt {
        note(Cell::Prompt, soon(trial.prompt(step)).await);
    }
    // Not before everything else: an old server may die of it.
    if let Some((linger, proof)) = &habits.cancel {
        note(Cell::Cancel, soon(trial.cancel(linger, proof, &mut heard)).await);
    }
    note(Cell::Close, soon(trial.upstream.close()).await.map(Ok));
    seen
}

/// Where the server is, and the process that listens there if one does.
fn target(transport: Transport, start: &Start, folder: &std::path::Path) -> (Target, Option<Listening>) {
    let with = |words: &[OsString], more: &[&std::ffi::OsStr]| {
        let words = words.iter().map(OsString::as_os_str).chain(more.iter().copied());
        Target::Command(words.map(|word| word.to_str().expect("paths are UTF-8").to_owned()).collect())
    };
    match (start, transport) {
        (Start::Alone(words), _) => (with(words, &[]), None),
        (Start::InFolder(words), _) => (with(words, &[folder.as_os_str()]), None),
        (Start::InRepository(words), _) => {
            let made = Command::new("git").args(["init", "--quiet"]).arg(folder).status().expect("git starts");
            assert!(made.success(), "git makes no repository");
            (with(words, &[]), None)
        }
        // Its own words come last.
        (Start::Way(words), Transport::Stdio) => {
            let (program, own) = words.split_at(words.len().min(2));
            let own: Vec<_> = own.iter().map(OsString::as_os_str).collect();
            (with(program, &[&["stdio".as_ref()], own.as_slice()].concat()), None)
        }
        (Start::Port(words), Transport::Stdio) => (with(words, &["stdio".as_ref()]), None),
        (Start::Way(words), _) => {
            let listening = Listening::by_arguments(words, transport);
            (listening.target(transport), Some(listening))
        }
        (Start::Port(words), _) => {
            let listening = Listening::by_environment(words, transport);
            (listening.target(transport), Some(listening))
        }
    }
}

/// One session with a server.
pub(crate) struct Trial<'t> {
    pub(crate) upstream: Upstream,
    pub(crate) host: Arc<Ears>,
    pub(crate) folder: &'t str,
}

/// A call and the words that its answer must have.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub(crate) tool: &'static str,
    pub(crate) arguments: Value,
    pub(crate) words: &'static str,
}

impl Trial<'_> {
    pub(crate) async fn make(&self, operation: Operation<'_>) -> Outcome {
        self.upstream.call_for(operation, Arc::clone(&self.host) as Arc<dyn UpstreamEvents>).await
    }

    pub(crate) fn tool(&self, step: &Step) -> Operation<'static> {
        let arguments = step.arguments.to_string().replace("FOLDER", self.folder);
        let arguments: Value = serde_json::from_str(&arguments).expect("arguments stay JSON");
        Operation::CallTool(ToolCall { name: step.tool.into(), arguments: std::borrow::Cow::Owned(to_raw(&arguments)) })
    }

    pub(crate) async fn list(&self, tool: &str) -> Result<(), String> {
        match self.make(Operation::ListTools).await {
            Ok(Reply::Tools(tools)) if tools.iter().any(|listed| listed.name == tool) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    }

    pub(crate) async fn call(&self, step: &Step) -> Result<(), String> {
        match self.make(self.tool(step)).await {
            Ok(Reply::Tool(result)) => has(&result.joined_text(), step.words),
            other => Err(format!("{other:?}")),
        }
    }

    pub(crate) async fn progress(&self, step: &Step, heard: &mut Heard) -> Result<(), String> {
        self.call(step).await?;
        let mut reports = Vec::new();
        while let Ok(report) = heard.progress.try_recv() {
            reports.push(report.progress);
        }
        let grows = reports.windows(2).all(|pair| pair[0] < pair[1]);
        if reports.len() > 1 && grows { Ok(()) } else { Err(format!("progress: {reports:?}")) }
    }

    /// Gives a call up at its first sign of progress; the server must have noticed, or at least go on.
    pub(crate) async fn cancel(&self, linger: &Step, proof: &Step, heard: &mut Heard) -> Result<(), String> {
        let call = self.make(self.tool(linger));
        tokio::select! {
            outcome = call => return Err(format!("it was not given up: {outcome:?}")),
            _ = heard.progress.recv() => {}
        }
        // It may take the server a moment to act on it.
        let mut last = self.call(proof).await;
        for _ in 0..20 {
            if last.is_ok() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
            last = self.call(proof).await;
        }
        last
    }

    async fn subscribe(&self, uri: &str, touch: &Step, heard: &mut Heard) -> Result<(), String> {
        match self.make(Operation::Watch(uri.into())).await {
            Ok(Reply::Done) => {}
            other => return Err(format!("{other:?}")),
        }
        self.call(touch).await?;
        let updated = heard.updates.recv().await;
        self.upstream.unwatch(uri);
        has(&updated.unwrap_or_default(), uri)
    }

    async fn read(&self, uri: &str, words: &str) -> Result<(), String> {
        match self.make(Operation::ReadResource(uri.into())).await {
            Ok(Reply::Contents(contents)) => has(&format!("{:?}", contents.parts), words),
            other => Err(format!("{other:?}")),
        }
    }

    async fn prompt(&self, step: &Step) -> Result<(), String> {
        let Operation::CallTool(call) = self.tool(step) else { unreachable!("a step is a call") };
        match self.make(Operation::GetPrompt(call)).await {
            Ok(Reply::Prompt(prompt)) => has(&format!("{:?}", prompt.messages), step.words),
            other => Err(format!("{other:?}")),
        }
    }
}

fn has(text: &str, words: &str) -> Result<(), String> {
    if text.contains(words) { Ok(()) } else { Err(format!("{text:?} has no {words:?}")) }
}

pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> Result<T, String> {
    timeout(PATIENCE, future).await.map_err(|_| "nothing came".to_owned())
}

/// Answers for a user and a model, and reports the notifications that it receives.
pub(crate) struct Ears {
    progress: mpsc::UnboundedSender<Progress>,
    updates: mpsc::UnboundedSender<String>,
    changes: mpsc::UnboundedSender<()>,
}

/// The received notifications.
pub(crate) struct Heard {
    pub(crate) progress: mpsc::UnboundedReceiver<Progress>,
    updates: mpsc::UnboundedReceiver<String>,
    /// Changes of the list of tools.
    pub(crate) changes: mpsc::UnboundedReceiver<()>,
}

impl Ears {
    pub(crate) fn new() -> (Arc<Self>, Heard) {
        let (progress, hear_progress) = mpsc::unbounded_channel();
        let (updates, hear_updates) = mpsc::unbounded_channel();
        let (changes, hear_changes) = mpsc::unbounded_channel();
        let heard = Heard { progress: hear_progress, updates: hear_updates, changes: hear_changes };
        (Arc::new(Self { progress, updates, changes }), heard)
    }
}

impl UpstreamEvents for Ears {
    fn ask(&self, question: Question) -> BoxFuture<'static, Answered> {
        let answer = match question.kind {
            QuestionKind::Roots => json!({"roots": []}),
            QuestionKind::Elicit => json!({"action": "accept", "content": {"name": "ada"}}),
            QuestionKind::Sample => {
                json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": "Bern"}})
            }
        };
        Box::pin(async move { Ok(to_raw(&answer)) })
    }

    fn notice(&self, notice: Notice) {
        // The receiver may be gone.
        match notice {
            Notice::Progress(_, progress) => drop(self.progress.send(progress)),
            Notice::ResourceUpdated(update) => drop(self.updates.send(update.uri)),
            Notice::ToolsChanged => drop(self.changes.send(())),
            _ => {}
        }
    }
}
