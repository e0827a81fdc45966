//! A session with a real server beyond the cells of the matrix: templates, completion, tasks.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use gladhand::operations::{CompletionCall, CompletionOf, Operation, Reply, ToolCall};
use gladhand::upstream::{IgnoreEvents, Options, Target, Upstream};
use gladhand::wire::json;
use serde_json::json;

use crate::installed::peers;

/// Longer than any peer needs on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);

#[tokio::test]
async fn server_everything_has_templates_and_completes_and_works_on_tasks() {
    let everything = peers().join("npm/node_modules/@modelcontextprotocol/server-everything/dist/index.js");
    let words: [OsString; 3] = [peers().join("bin/node").into(), everything.into(), "stdio".into()];
    let words = words.map(|word| word.into_string().expect("paths are UTF-8"));
    let target = Target::Command(words.to_vec());
    let upstream = soon(Upstream::open(&target, Options::default(), Arc::new(IgnoreEvents))).await.expect("it opens");

    let Ok(Reply::Templates(templates)) = soon(upstream.call(Operation::ListTemplates)).await else { panic!() };
    assert!(!templates.is_empty());

    let of = CompletionOf::Prompt("completable-prompt".into());
    let completion = CompletionCall { of, argument: "department".into(), value: "E".into(), context: None };
    let completion = soon(upstream.call(Operation::Complete(completion))).await;
    let Ok(Reply::Completion(completion)) = completion else { panic!("{completion:?}") };
    assert_eq!(completion.values, ["Engineering"]);

    // It comes only as a task, which the list says.
    assert!(matches!(soon(upstream.call(Operation::ListTools)).await, Ok(Reply::Tools(_))));
    let arguments = std::borrow::Cow::Owned(json::to_raw(&json!({"topic": "x"})));
    let research = Operation::CallTool(ToolCall { name: "simulate-research-query".into(), arguments });
    let research = soon(upstream.call(research)).await;
    let Ok(Reply::Tool(research)) = research else { panic!("{research:?}") };
    assert!(research.joined_text().contains("Research"), "{}", research.joined_text());
    soon(upstream.close()).await;
}

async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("it comes")
}
