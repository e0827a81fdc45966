//! Which tools may run.

use std::collections::HashMap;

use gladhand_workbench::Effect;

/// Which tools may run: by their names, else by what they may do to the world.
#[derive(Debug, Clone)]
pub struct Policy {
    /// Whether everything runs, and nobody is asked.
    pub approve_all: bool,
    /// For single tools.
    pub tools: HashMap<String, Rule>,
    /// For those that read, inside the workspace.
    pub reads: Rule,
    /// For those that change files.
    pub writes: Rule,
    /// For those that run programs.
    pub runs: Rule,
    /// For those that talk to the network.
    pub network: Rule,
}

/// Whether a tool may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// It may.
    Allow,
    /// If somebody says so each time, or once for the session.
    Ask,
    /// It may not.
    Deny,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            approve_all: false,
            tools: HashMap::new(),
            reads: Rule::Allow,
            writes: Rule::Ask,
            runs: Rule::Ask,
            network: Rule::Ask,
        }
    }
}

impl Policy {
    /// The rule for a tool.
    pub(super) fn rule(&self, tool: &str, effect: Effect) -> Rule {
        if self.approve_all {
            return Rule::Allow;
        }
        let by_effect = match effect {
            Effect::Reads => self.reads,
            Effect::Writes => self.writes,
            Effect::Runs => self.runs,
            Effect::Network => self.network,
        };
        self.tools.get(tool).copied().unwrap_or(by_effect)
    }
}

/// What a tool may do to the world, in one word.
pub(super) fn word(effect: Effect) -> &'static str {
    match effect {
        Effect::Reads => "reads",
        Effect::Writes => "writes",
        Effect::Runs => "runs",
        Effect::Network => "network",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_of_its_own_rule_comes_before_what_it_does() {
        let mut policy = Policy::default();
        policy.tools.insert("bash".to_owned(), Rule::Deny);
        assert_eq!(policy.rule("bash", Effect::Runs), Rule::Deny);
        assert_eq!(policy.rule("run_js", Effect::Runs), Rule::Ask);
        assert_eq!(policy.rule("read_file", Effect::Reads), Rule::Allow);
        policy.approve_all = true;
        assert_eq!(policy.rule("bash", Effect::Runs), Rule::Allow);
    }
}
