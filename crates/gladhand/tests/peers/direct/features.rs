//! The columns of the table: which trials belong to a feature, and how well a session did them.

use std::fmt;

use serde_json::{Map, Value};

use super::compare;

/// Something that a client and a server do with each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Feature {
    Identity,
    Capabilities,
    Extensions,
    List,
    Call,
    Progress,
    Cancel,
    Log,
    Elicit,
    Sample,
    Roots,
    Resources,
    Subscribe,
    Prompts,
    Completion,
    Changes,
    Tasks,
}

impl Feature {
    pub(super) const ALL: [Self; 17] = [
        Self::Identity,
        Self::Capabilities,
        Self::Extensions,
        Self::List,
        Self::Call,
        Self::Progress,
        Self::Cancel,
        Self::Log,
        Self::Elicit,
        Self::Sample,
        Self::Roots,
        Self::Resources,
        Self::Subscribe,
        Self::Prompts,
        Self::Completion,
        Self::Changes,
        Self::Tasks,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Capabilities => "capabilities",
            Self::Extensions => "extensions",
            Self::List => "list",
            Self::Call => "call",
            Self::Progress => "progress",
            Self::Cancel => "cancel",
            Self::Log => "log",
            Self::Elicit => "elicit",
            Self::Sample => "sample",
            Self::Roots => "roots",
            Self::Resources => "resources",
            Self::Subscribe => "subscribe",
            Self::Prompts => "prompts",
            Self::Completion => "completion",
            Self::Changes => "list changes",
            Self::Tasks => "tasks",
        }
    }

    /// Whether a trial shows something of this feature.
    fn has(self, trial: &Value) -> bool {
        let done = trial["do"].as_str().unwrap_or_default();
        match self {
            Self::Identity => done == "identity" || trial["name"] == "client",
            Self::Capabilities | Self::Extensions => done == "capabilities",
            Self::List => done == "tools",
            Self::Call => done == "call" && !Self::ALL.into_iter().any(|other| other != self && other.has(trial)),
            Self::Progress => trial["reports"] == true,
            Self::Cancel => done == "cancel",
            Self::Log => done == "log",
            Self::Elicit => trial["asks"] == "elicit",
            Self::Sample => trial["asks"] == "sample",
            Self::Roots => trial["name"] == "roots",
            Self::Resources => matches!(done, "resources" | "templates" | "read"),
            Self::Subscribe => done == "watch",
            Self::Prompts => matches!(done, "prompts" | "prompt"),
            Self::Completion => done == "complete",
            Self::Changes => done == "change",
            Self::Tasks => done == "task",
        }
    }

    /// How well a session did the trials of this feature. If the client speaks another era directly than through us, what
    /// only one of them has is left out.
    pub(super) fn mark(self, trials: &[Value], seen: &Map<String, Value>, is_other_era: bool) -> Mark {
        let is_counted = |trial: &Value| !is_other_era || compare::exists_in_both_eras(trial);
        let of_it = trials.iter().filter(|trial| self.has(trial) && is_counted(trial));
        let verdicts: Vec<bool> = of_it.map(|trial| self.is_done(trial, seen)).collect();
        match verdicts.iter().filter(|done| **done).count() {
            0 => Mark::None,
            done if done == verdicts.len() => Mark::All,
            _ => Mark::Some,
        }
    }

    fn is_done(self, trial: &Value, seen: &Map<String, Value>) -> bool {
        let nothing = Value::Null;
        let name = trial["name"].as_str().unwrap_or_default();
        let (saw, opened) = (seen.get(name).unwrap_or(&nothing), seen.get("open").is_some_and(compare::works));
        let is_error = saw["result"]["isError"] == true;
        let has_some = |member: &str| saw[member].as_object().is_some_and(|members| !members.is_empty());
        match self {
            _ if trial["fails"] == true => opened && (is_error || saw.get("error").is_some()),
            Self::Extensions => has_some("extensions") || has_some("experimental"),
            Self::Progress => saw["reports"].as_array().is_some_and(|reports| !reports.is_empty()),
            Self::Cancel => saw["cancelled"] == true && saw["proven"] == true,
            Self::Changes => saw["told"] == true && saw["after"] == true,
            _ => compare::works(saw) && !is_error,
        }
    }
}

/// How much of a feature works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mark {
    None,
    Some,
    All,
}

impl Mark {
    pub(super) fn parse(text: &str) -> Option<Self> {
        [Self::None, Self::Some, Self::All].into_iter().find(|mark| mark.to_string() == text)
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "–",
            Self::Some => "◐",
            Self::All => "✓",
        })
    }
}
