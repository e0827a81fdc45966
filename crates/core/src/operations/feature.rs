//! The features of the neutral model. A dialect may lack some of them.

/// A feature that two sides can use with each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Feature {
    /// List and call tools.
    Tools,
    /// Notify the client when the list of tools changes.
    ToolChanges,
    /// List and read resources.
    Resources,
    /// List resource templates.
    Templates,
    /// Notify the client when the list of resources changes.
    ResourceChanges,
    /// Notify the client when a resource changes.
    ResourceUpdates,
    /// List and fill in prompts.
    Prompts,
    /// Notify the client when the list of prompts changes.
    PromptChanges,
    /// Complete arguments.
    Completion,
    /// Report the progress of a call to the caller.
    Progress,
    /// Let the caller cancel a call.
    Cancellation,
    /// Send log lines to the client.
    Logging,
    /// Ask the user of the client a question.
    Elicitation,
    /// Send a request to the client's model.
    Sampling,
    /// Ask the client for its working folders.
    Roots,
    /// Continue a call as a task whose result the caller fetches later.
    Tasks,
}

impl Feature {
    /// All features, in display order.
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

    /// The name of the feature, for programs and people.
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
