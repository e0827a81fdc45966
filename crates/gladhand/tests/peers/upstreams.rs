//! Sessions of ours with real servers: found out of which era they are, used, asked by them, and ended.

use std::ffi::OsString;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use gladhand::accord::Capability;
use gladhand::operations::{
    Answered, CompletionCall, CompletionOf, Notice, Operation, Outcome, Question, QuestionKind, Reply, ToolCall,
};
use gladhand::upstream::{Alone, Host, Options, Target, Upstream};
use gladhand::wire::json;
use serde_json::json;
use tokio::sync::mpsc;

use crate::installed::{node, peers, python};

/// Longer than any peer needs on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);

#[tokio::test]
async fn servers_over_stdio_are_found_out_and_used() {
    let mut modern = node("servers/ts-v2.mjs");
    modern.push("modern".into());
    for (server, version) in [
        (node("servers/ts-v1.mjs"), "2025-11-25"),
        (node("servers/ts-v2.mjs"), "2026-07-28"),
        (modern, "2026-07-28"),
        (python("py1", "servers/py_v1.py"), "2025-11-25"),
        (python("py2", "servers/py_v2.py"), "2026-07-28"),
        (vec![peers().join("cargo/release/rmcp-echo").into()], "2026-07-28"),
    ] {
        let upstream = open(command(&server), Options::default(), Arc::new(Alone)).await;
        assert_eq!(upstream.agreement().version, version, "{server:?}");
        let Ok(Reply::Tools(tools)) = soon(upstream.call(Operation::ListTools)).await else { panic!() };
        assert!(tools.iter().any(|tool| tool.name == "echo"), "{tools:?}");
        assert_eq!(text(soon(upstream.call(tool("echo", &json!({"message": "grüezi"})))).await), "grüezi");
        soon(upstream.close()).await;
    }
}

#[tokio::test]
async fn server_everything_is_used_in_full_on_every_transport() {
    let everything = peers().join("npm/node_modules/@modelcontextprotocol/server-everything/dist/index.js");
    let words: Vec<OsString> = vec![peers().join("bin/node").into(), everything.into()];
    let stdio: Vec<_> = words.iter().cloned().chain(["stdio".into()]).collect();
    use_everything(command(&stdio)).await;
    for (transport, path) in [("streamableHttp", "mcp"), ("sse", "sse")] {
        let server = Listening::start(&words, transport);
        let url = format!("http://127.0.0.1:{}/{path}", server.port);
        use_everything(Target::parse(&[url]).expect("a URL")).await;
    }
}

async fn use_everything(target: Target) {
    let (tell, mut heard) = mpsc::unbounded_channel();
    let names = ["roots", "sampling", "elicitation", "elicitation.form"];
    let provides = names.map(|name| (Capability::named(name), None)).to_vec();
    let host = Arc::new(Person(tell));
    let upstream = open(target, Options { provides, ..Options::default() }, Arc::clone(&host) as Arc<dyn Host>).await;
    assert_eq!(upstream.agreement().version, "2025-11-25");
    let call = |operation| soon(upstream.call_for(operation, Arc::clone(&host) as Arc<dyn Host>));

    let Ok(Reply::Tools(tools)) = call(Operation::ListTools).await else { panic!() };
    assert!(tools.len() > 10, "{}", tools.len());
    let Ok(Reply::Resources(resources)) = call(Operation::ListResources).await else { panic!() };
    let uri = resources[0].uri.as_str();
    let Ok(Reply::Contents(contents)) = call(Operation::ReadResource(uri.into())).await else { panic!() };
    assert!(!contents.parts.is_empty());
    let Ok(Reply::Templates(templates)) = call(Operation::ListTemplates).await else { panic!() };
    assert!(!templates.is_empty());
    assert!(matches!(call(Operation::Watch(uri.into())).await, Ok(Reply::Done)));
    upstream.unwatch(uri);
    let Ok(Reply::Prompts(prompts)) = call(Operation::ListPrompts).await else { panic!() };
    assert!(prompts.iter().any(|prompt| prompt.name == "args-prompt"), "{prompts:?}");
    let arguments = std::borrow::Cow::Owned(json::to_raw(&json!({"city": "Bern"})));
    let prompt = Operation::GetPrompt(ToolCall { name: "args-prompt".into(), arguments });
    let Ok(Reply::Prompt(prompt)) = call(prompt).await else { panic!() };
    assert!(prompt.messages[0].get().contains("Bern"));
    let of = CompletionOf::Prompt("completable-prompt".into());
    let completion = CompletionCall { of, argument: "department".into(), value: "E".into(), context: None };
    let Ok(Reply::Completion(completion)) = call(Operation::Complete(completion)).await else { panic!() };
    assert_eq!(completion.values, ["Engineering"]);

    assert_eq!(text(call(tool("echo", &json!({"message": "x"}))).await), "Echo: x");
    let long = tool("trigger-long-running-operation", &json!({"duration": 0.2, "steps": 2}));
    assert!(text(call(long).await).contains("completed"));
    assert!(soon(heard.recv()).await.expect("progress").starts_with("Progress"));
    let sampling = tool("trigger-sampling-request", &json!({"prompt": "x", "maxTokens": 5}));
    assert!(text(call(sampling).await).contains("what the model says"));
    assert!(text(call(tool("trigger-elicitation-request", &json!({}))).await).contains("decline"));
    // It comes only as a task.
    let research = call(tool("simulate-research-query", &json!({"topic": "x"}))).await;
    assert!(text(research).contains("Research"));
    soon(upstream.close()).await;
}

/// Answers for a model and a person, and tells of what it hears.
struct Person(mpsc::UnboundedSender<String>);

impl Host for Person {
    fn ask(&self, question: Question) -> BoxFuture<'static, Answered> {
        let answer = match question.kind {
            QuestionKind::Roots => json!({"roots": []}),
            QuestionKind::Elicit => json!({"action": "decline"}),
            QuestionKind::Sample => json!({
                "role": "assistant", "model": "m", "content": {"type": "text", "text": "what the model says"},
            }),
        };
        Box::pin(async move { Ok(json::to_raw(&answer)) })
    }

    fn notice(&self, notice: Notice) {
        if matches!(notice, Notice::Progress(..)) {
            // Nobody may be listening any more.
            let _ = self.0.send(format!("{notice:?}"));
        }
    }
}

/// A server process that listens on a port of its own.
struct Listening {
    child: Child,
    port: u16,
}

impl Listening {
    fn start(words: &[OsString], transport: &str) -> Self {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port");
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).arg(transport).env("PORT", free.port().to_string());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let server = Self { child: command.spawn().expect("the server starts"), port: free.port() };
        let start = std::time::Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", server.port)).is_err() {
            assert!(start.elapsed() < PATIENCE, "the server does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        server
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn command(words: &[OsString]) -> Target {
    Target::Command(words.iter().map(|word| word.to_str().expect("paths are UTF-8").to_owned()).collect())
}

async fn open(target: Target, options: Options, host: Arc<dyn Host>) -> Upstream {
    soon(Upstream::open(&target, options, host)).await.unwrap_or_else(|error| panic!("{target}: {error}"))
}

async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("it comes")
}

fn tool(name: &'static str, arguments: &serde_json::Value) -> Operation<'static> {
    let arguments = std::borrow::Cow::Owned(json::to_raw(arguments));
    Operation::CallTool(ToolCall { name: name.into(), arguments })
}

fn text(outcome: Outcome) -> String {
    match outcome {
        Ok(Reply::Tool(result)) => result.joined_text(),
        other => panic!("no result of a tool: {other:?}"),
    }
}
