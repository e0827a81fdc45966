//! The interface between the agent and its tools.

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use gladhand_core::wire::RawValue;
use tokio_util::sync::CancellationToken;

/// A set of tools and their shared state.
#[async_trait]
pub trait ToolProvider: Send + Sync {
    /// The tools, sorted by name. The list may grow when the model creates tools.
    fn tools(&self) -> Vec<ToolDescription>;

    /// Prepares what takes a while and is needed only when tools are first listed. Further calls do nothing.
    async fn ready(&self) {}

    /// The places that a call would use and that need approval before it runs. Reads the file system.
    async fn guarded_paths(&self, _run: &Run<'_>) -> Vec<GuardedPath> {
        Vec::new()
    }

    /// Runs one tool. Unknown tools, invalid input and failures of a tool are results too: this never fails.
    async fn run(&self, run: Run<'_>) -> RunResult;

    /// Ends everything that the tools of an ended session left running.
    async fn forget(&self, session: &str);

    /// Ends everything that still runs, in every process group and session. The time for this is bounded.
    async fn close(&self);
}

gladhand_core::debug_as_name!(ToolProvider);

/// The description of a tool, for models and clients.
#[derive(Debug, Clone)]
pub struct ToolDescription {
    /// The name.
    pub name: String,
    /// The description.
    pub description: String,
    /// The schema of its input; `None` if a custom tool has no usable schema.
    pub input_schema: Option<Box<RawValue>>,
    /// The effect, by which approval is decided.
    pub effect: Effect,
    /// The edition: a tool that is created again under the same name has another one. 0 for a built-in tool.
    pub edition: u64,
    /// Whether a model created it since this program started. A rule that allows its name was not meant for it.
    pub is_made_by_model: bool,
}

/// The effect of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Effect {
    /// It reads. Reading outside of the workspace needs approval ([`ToolProvider::guarded_paths`]).
    Reads,
    /// It changes files.
    Writes,
    /// It runs programs, which may do anything.
    Runs,
    /// It accesses the network.
    Network,
}

/// One call of a tool.
#[derive(Debug)]
pub struct Run<'a> {
    /// The name of the tool.
    pub name: &'a str,
    /// The edition that was approved. Another edition is not run.
    pub edition: u64,
    /// The id of the call, for error reports.
    pub call_id: &'a str,
    /// The input: a JSON object.
    pub input: &'a RawValue,
    /// The session of the call. Working directory and environment of the shell are kept per session.
    pub session: &'a str,
    /// The working directory of that session.
    pub folder: &'a Path,
    /// Whether file tools may use that folder freely.
    pub is_workspace: bool,
    /// The places that were approved for this call ([`ToolProvider::guarded_paths`]).
    pub approved: &'a [GuardedPath],
    /// Cancels the call: processes are terminated, then killed with their whole group.
    pub cancel: &'a CancellationToken,
}

/// A file or folder that a call uses and that needs approval.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct GuardedPath {
    /// Its real path.
    pub path: PathBuf,
    /// Why it needs approval.
    pub why: Guarded,
}

/// Why a place needs approval. An approval for one reason also covers the reasons before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Guarded {
    /// It is outside of the workspace.
    Outside,
    /// It is in the workspace, the call writes it, and it decides which programs run.
    Steering,
    /// It may hold secrets.
    Secret,
}

impl Guarded {
    /// The reason, as words that follow the path.
    pub fn words(self) -> &'static str {
        match self {
            Self::Outside => "is outside of the workspace",
            Self::Steering => "decides which programs run",
            Self::Secret => "may hold secrets",
        }
    }
}

/// The result of a tool call.
#[derive(Debug, Clone)]
pub struct RunResult {
    /// Whether it succeeded.
    pub ok: bool,
    /// The output: any JSON.
    pub output: Box<RawValue>,
    /// The error, if it failed.
    pub error: Option<String>,
}
