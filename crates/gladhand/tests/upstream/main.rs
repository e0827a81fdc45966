//! Sessions with upstreams: real processes, and an HTTP server that does what a test tells it to, good or bad.

#![expect(clippy::unwrap_used, reason = "a helper of a test may panic as the test may")]

mod dialects;
mod eras;
mod faults;
mod processes;
mod scripted;
mod sessions;

use std::sync::Arc;
use std::time::Duration;

use gladhand::operations::call::no_arguments;
use gladhand::operations::{Operation, ToolCall};
use gladhand::upstream::{IgnoreEvents, OpenError, Options, Speak, Target, Upstream, UpstreamEvents};

const GLADHAND: &str = env!("CARGO_BIN_EXE_gladhand");

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

fn speaking(version: &str) -> Options {
    Options { speak: Speak::parse(&format!("mcp@{version}")).unwrap(), ..Options::default() }
}

async fn open(words: &[&str], options: Options) -> Result<Upstream, OpenError> {
    open_for(words, options, Arc::new(IgnoreEvents)).await
}

async fn open_for(words: &[&str], options: Options, host: Arc<dyn UpstreamEvents>) -> Result<Upstream, OpenError> {
    let words: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
    let target = Target::parse(&words).unwrap();
    soon(Upstream::open(&target, options, host)).await
}

fn tool(name: &'static str) -> Operation<'static> {
    Operation::CallTool(ToolCall { name: name.into(), arguments: no_arguments() })
}

/// Waits for something that must come.
async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("it comes")
}
