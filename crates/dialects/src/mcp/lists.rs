//! The four paged lists.

use gladhand_core::operations::Operation;

/// A paged list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum List {
    /// `tools/list`
    Tools,
    /// `resources/list`
    Resources,
    /// `resources/templates/list`
    Templates,
    /// `prompts/list`
    Prompts,
}

/// A page of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Page {
    /// The list.
    pub(super) of: List,
    /// Offset of the first entry.
    pub(super) from: usize,
}

impl List {
    /// The list of a method.
    pub(super) fn of(method: &str) -> Option<Self> {
        Some(match method {
            "tools/list" => Self::Tools,
            "resources/list" => Self::Resources,
            "resources/templates/list" => Self::Templates,
            "prompts/list" => Self::Prompts,
            _ => return None,
        })
    }

    /// The member of the result that contains the entries.
    pub(super) fn key(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Resources => "resources",
            Self::Templates => "resourceTemplates",
            Self::Prompts => "prompts",
        }
    }

    /// The neutral operation of the list.
    pub(super) fn operation(self) -> Operation<'static> {
        match self {
            Self::Tools => Operation::ListTools,
            Self::Resources => Operation::ListResources,
            Self::Templates => Operation::ListTemplates,
            Self::Prompts => Operation::ListPrompts,
        }
    }
}
