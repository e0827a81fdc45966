//! The lists whose changes are reported, and sets of them.

use gladhand_core::operations::Notice;

/// A list that changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// The list of tools.
    Tools,
    /// The list of prompts.
    Prompts,
    /// The list of resources, or of resource templates.
    Resources,
}

impl Change {
    pub(super) const ALL: [Self; 3] = [Self::Tools, Self::Prompts, Self::Resources];

    /// The change that a notice reports.
    pub(super) fn of(notice: &Notice) -> Option<Self> {
        Some(match notice {
            Notice::ToolsChanged => Self::Tools,
            Notice::PromptsChanged => Self::Prompts,
            Notice::ResourcesChanged => Self::Resources,
            _ => return None,
        })
    }

    /// The notification that reports the change.
    pub(super) fn method(self) -> &'static str {
        match self {
            Self::Tools => "notifications/tools/list_changed",
            Self::Prompts => "notifications/prompts/list_changed",
            Self::Resources => "notifications/resources/list_changed",
        }
    }

    /// The member of a listener's filter that asks for it.
    pub(super) fn filter(self) -> &'static str {
        match self {
            Self::Tools => "toolsListChanged",
            Self::Prompts => "promptsListChanged",
            Self::Resources => "resourcesListChanged",
        }
    }
}

/// A set of lists.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Changes([bool; 3]);

impl Changes {
    pub(super) fn insert(&mut self, change: Change) {
        self.0[change as usize] = true;
    }

    pub(super) fn contains(self, change: Change) -> bool {
        self.0[change as usize]
    }

    pub(super) fn iter(self) -> impl Iterator<Item = Change> {
        Change::ALL.into_iter().filter(move |change| self.contains(*change))
    }
}
