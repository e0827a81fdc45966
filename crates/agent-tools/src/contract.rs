//! What the agent asks of a tool, and what it hears.

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use gladhand_core::wire::RawValue;
use tokio_util::sync::CancellationToken;

/// A set of tools and what they share.
#[async_trait]
pub trait Bench: std::fmt::Debug + Send + Sync {
    /// Its tools, sorted by name. The list may grow (tools that the model makes itself).
    fn tools(&self) -> Vec<ToolDescription>;

    /// Gets ready what takes a while and is not needed before somebody asks for tools. Does nothing the second time.
    async fn ready(&self) {}

    /// The places that a call would use and that need approval before it runs. Reads the file system.
    async fn reach(&self, _run: &Run<'_>) -> Vec<Place> {
        Vec::new()
    }

    /// Runs one tool. Unknown tools, wrong input and tools that break down are results too: nothing here fails.
    async fn run(&self, run: Run<'_>) -> Ran;

    /// A session has ended: what its tools left running ends.
    async fn forget(&self, session: &str);

    /// Everything ends: whatever still runs, in whatever group or session of processes, is ended. Bounded.
    async fn close(&self);
}

/// A tool, as models and clients are told of it.
#[derive(Debug, Clone)]
pub struct ToolDescription {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: String,
    /// What it takes; none where a custom tool gave no usable schema.
    pub input_schema: Option<Box<RawValue>>,
    /// What it may do to the world: what approval is decided by.
    pub effect: Effect,
    /// Which edition of the tool this is: a tool that was made anew under the same name has another. 0 for a built-in tool.
    pub edition: u64,
    /// Whether a model made it since this program started. A rule that allows its name was not meant for it.
    pub is_made_by_model: bool,
}

/// What a tool may do to the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Effect {
    /// It reads. Outside of the workspace that needs approval ([`Bench::reach`]).
    Reads,
    /// It changes files.
    Writes,
    /// It runs programs, which may do anything.
    Runs,
    /// It talks to the network.
    Network,
}

/// One call of a tool.
#[derive(Debug)]
pub struct Run<'a> {
    /// The tool.
    pub name: &'a str,
    /// The edition of it that was decided about. Another one is not run.
    pub edition: u64,
    /// The call's id, for reports of failure.
    pub call_id: &'a str,
    /// A JSON object.
    pub input: &'a RawValue,
    /// The session that it is for: working directory and environment of the shell are kept per session.
    pub session: &'a str,
    /// Where that session works.
    pub folder: &'a Path,
    /// Whether file tools use that folder freely.
    pub is_workspace: bool,
    /// The places that were approved for this call ([`Bench::reach`]).
    pub approved: &'a [Place],
    /// Ends the call: processes are told to stop, then killed with their whole group.
    pub cancel: &'a CancellationToken,
}

/// A file or a folder that a call uses and that has to be approved.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Place {
    /// Its real path.
    pub path: PathBuf,
    /// Why it has to be approved.
    pub why: Guarded,
}

/// Why a place has to be approved. An approval for one reason covers those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Guarded {
    /// It is outside of the workspace.
    Outside,
    /// It is in the workspace, is to be written, and says which programs run.
    Steering,
    /// It may hold secrets.
    Secret,
}

impl Guarded {
    /// The reason in words that follow the path.
    pub fn words(self) -> &'static str {
        match self {
            Self::Outside => "is outside of the workspace",
            Self::Steering => "says which programs run",
            Self::Secret => "may hold secrets",
        }
    }
}

/// How a call of a tool ended.
#[derive(Debug, Clone)]
pub struct Ran {
    /// Whether it did what it was asked for.
    pub ok: bool,
    /// What came out: any JSON.
    pub output: Box<RawValue>,
    /// Why it did not.
    pub error: Option<String>,
}
