//! What the neutral model has, and a dialect may lack.

/// Something that two sides can do with each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Feature {
    /// Tools are listed and called.
    Tools,
    /// The client hears that the list of tools changed.
    ToolChanges,
    /// Resources are listed and read.
    Resources,
    /// Templates of resources are listed.
    Templates,
    /// The client hears that the list of resources changed.
    ResourceChanges,
    /// The client hears that a resource changed.
    ResourceUpdates,
    /// Prompts are listed and filled in.
    Prompts,
    /// The client hears that the list of prompts changed.
    PromptChanges,
    /// Arguments are completed.
    Completion,
    /// The caller hears how its call is going.
    Progress,
    /// The caller can take a call back.
    Cancellation,
    /// The client gets log lines.
    Logging,
    /// The person at the client can be asked something.
    Elicitation,
    /// The model of the client can be asked something.
    Sampling,
    /// The client can be asked which folders it works in.
    Roots,
    /// A call can go on as a task that the caller comes back for.
    Tasks,
}

impl Feature {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Self; 16] = [
        Self::Tools,
        Self::ToolChanges,
        Self::Resources,
        Self::Templates,
        Self::ResourceChanges,
        Self::ResourceUpdates,
        Self::Prompts,
        Self::PromptChanges,
        Self::Completion,
        Self::Progress,
        Self::Cancellation,
        Self::Logging,
        Self::Elicitation,
        Self::Sampling,
        Self::Roots,
        Self::Tasks,
    ];

    /// Its name, for programs and people alike.
    pub fn word(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::ToolChanges => "tool-changes",
            Self::Resources => "resources",
            Self::Templates => "resource-templates",
            Self::ResourceChanges => "resource-changes",
            Self::ResourceUpdates => "resource-updates",
            Self::Prompts => "prompts",
            Self::PromptChanges => "prompt-changes",
            Self::Completion => "completion",
            Self::Progress => "progress",
            Self::Cancellation => "cancellation",
            Self::Logging => "logging",
            Self::Elicitation => "elicitation",
            Self::Sampling => "sampling",
            Self::Roots => "roots",
            Self::Tasks => "tasks",
        }
    }
}
