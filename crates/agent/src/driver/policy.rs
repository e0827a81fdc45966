//! The policy that decides which tools may run.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, RwLock};

use gladhand_agent_tools::{Effect, ToolDescription};
use gladhand_core::operations::KnownName;
use gladhand_core::sync::Unpoisoned as _;

/// Which tools may run: by tool name, otherwise by effect.
#[derive(Debug, Clone)]
pub struct Policy {
    /// Whether calls that would need approval run without it. Denied calls stay denied.
    pub approve_all: bool,
    /// Whether calls that would need approval are denied.
    pub approve_none: bool,
    /// Rules for single tools, by any of their names.
    pub tools: HashMap<String, Rule>,
    /// The rule for tools that read.
    pub reads: Rule,
    /// The rule for tools that change files.
    pub writes: Rule,
    /// The rule for tools that run programs.
    pub runs: Rule,
    /// The rule for tools that use the network.
    pub network: Rule,
    /// The minimum rule for calls that use files outside the workspace, or files that may contain secrets.
    pub outside: Rule,
    /// Effects that are always denied: no rule for a single tool can allow them.
    pub denied: HashSet<Effect>,
}

/// The current policy. It can be replaced while conversations run. Each call is decided by the policy at that time.
#[derive(Debug, Clone, Default)]
pub struct LivePolicy(Arc<RwLock<Arc<Policy>>>);

impl LivePolicy {
    /// Starts with this policy.
    pub fn new(policy: Policy) -> Self {
        Self(Arc::new(RwLock::new(Arc::new(policy))))
    }

    /// Replaces the policy for all later decisions.
    pub fn replace(&self, policy: Policy) {
        *self.0.write().unpoisoned() = Arc::new(policy);
    }

    /// The current policy.
    pub(super) fn now(&self) -> Arc<Policy> {
        Arc::clone(&self.0.read().unpoisoned())
    }
}

/// Whether a tool may run. Later variants are stricter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// The tool may run.
    Allow,
    /// The tool may run after approval, each time or once for the session.
    Ask,
    /// The tool may not run.
    Deny,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            approve_all: false,
            approve_none: false,
            tools: HashMap::new(),
            reads: Rule::Allow,
            writes: Rule::Ask,
            runs: Rule::Ask,
            network: Rule::Ask,
            outside: Rule::Ask,
            denied: HashSet::new(),
        }
    }
}

impl Policy {
    /// The rule for a tool with these names. If several rules match, the strictest counts. A rule that allows only
    /// counts for a name that no tool of another provider can have.
    pub(super) fn rule(&self, tool: &ToolDescription, names: &[KnownName]) -> Rule {
        if self.denied.contains(&tool.effect) {
            return Rule::Deny;
        }
        let by_effect = match tool.effect {
            Effect::Reads => self.reads,
            Effect::Writes => self.writes,
            Effect::Runs => self.runs,
            Effect::Network => self.network,
        };
        let rules = names.iter().filter_map(|known| Some((*self.tools.get(&known.name)?, known.is_exclusive)));
        let named =
            rules.filter(|(rule, is_exclusive)| *rule > Rule::Allow || *is_exclusive).map(|(rule, _)| rule).max();
        let rule = match named {
            // The operator's rule was not meant for code that a model wrote under this name.
            Some(named) if tool.is_made_by_model => by_effect.max(named),
            Some(named) => named,
            None => by_effect,
        };
        self.approved(rule)
    }

    /// The minimum rule for a call that uses files outside the workspace.
    pub(super) fn beyond_workspace(&self) -> Rule {
        self.approved(self.outside)
    }

    /// `approve_all` and `approve_none` answer every question. They do not change denials.
    fn approved(&self, rule: Rule) -> Rule {
        match rule {
            Rule::Ask if self.approve_none => Rule::Deny,
            Rule::Ask if self.approve_all => Rule::Allow,
            rule => rule,
        }
    }
}

/// The effect of a tool as one word.
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

    /// The rule for a tool that has no other names.
    fn ruled(policy: &Policy, tool: &ToolDescription) -> Rule {
        policy.rule(tool, &[known(&tool.name, true)])
    }

    fn known(name: &str, is_exclusive: bool) -> KnownName {
        KnownName { name: name.to_owned(), is_exclusive }
    }

    #[test]
    fn a_tool_is_denied_by_any_of_its_names_and_allowed_by_its_own_names_only() {
        let push = tool("push", Effect::Runs);
        let names = [known("push", false), known("git__push", true)];
        for (rules, expected) in [
            (&[("push", Rule::Deny)][..], Rule::Deny),
            (&[("git__push", Rule::Deny)], Rule::Deny),
            (&[("push", Rule::Deny), ("git__push", Rule::Allow)], Rule::Deny),
            (&[("push", Rule::Ask), ("git__push", Rule::Allow)], Rule::Ask),
            (&[("push", Rule::Allow)], Rule::Ask),
            (&[("git__push", Rule::Allow)], Rule::Allow),
            (&[("other", Rule::Deny)], Rule::Ask),
        ] {
            let tools = rules.iter().map(|(name, rule)| ((*name).to_owned(), *rule)).collect();
            assert_eq!(Policy { tools, ..Policy::default() }.rule(&push, &names), expected, "{rules:?}");
        }
    }

    #[test]
    fn approve_none_denies_everything_that_needs_approval() {
        let tools = HashMap::from([("bash".to_owned(), Rule::Ask), ("make".to_owned(), Rule::Allow)]);
        let policy = Policy { approve_none: true, tools, writes: Rule::Ask, ..Policy::default() };
        for (name, effect, rule) in [
            ("bash", Effect::Runs, Rule::Deny),
            ("python", Effect::Runs, Rule::Deny),
            ("apply_patch", Effect::Writes, Rule::Deny),
            ("make", Effect::Runs, Rule::Allow),
            ("read_file", Effect::Reads, Rule::Allow),
        ] {
            assert_eq!(ruled(&policy, &tool(name, effect)), rule, "{name}");
        }
        assert_eq!(policy.beyond_workspace(), Rule::Deny);
    }

    fn tool(name: &str, effect: Effect) -> ToolDescription {
        let (description, input_schema) = (String::new(), None);
        ToolDescription {
            name: name.to_owned(),
            description,
            input_schema,
            effect,
            edition: 0,
            is_made_by_model: false,
        }
    }

    #[test]
    fn a_rule_for_a_tool_overrides_the_rule_for_its_effect() {
        let mut policy = Policy::default();
        policy.tools.insert("bash".to_owned(), Rule::Deny);
        assert_eq!(ruled(&policy, &tool("bash", Effect::Runs)), Rule::Deny);
        assert_eq!(ruled(&policy, &tool("run_js", Effect::Runs)), Rule::Ask);
        assert_eq!(ruled(&policy, &tool("read_file", Effect::Reads)), Rule::Allow);
    }

    #[test]
    fn approve_all_does_not_allow_denied_calls() {
        let mut policy = Policy { approve_all: true, network: Rule::Deny, ..Policy::default() };
        policy.tools.extend([("bash".to_owned(), Rule::Deny), ("search_web".to_owned(), Rule::Allow)]);
        assert_eq!(ruled(&policy, &tool("bash", Effect::Runs)), Rule::Deny);
        assert_eq!(ruled(&policy, &tool("fetch", Effect::Network)), Rule::Deny);
        assert_eq!(ruled(&policy, &tool("run_js", Effect::Runs)), Rule::Allow);
        assert_eq!(policy.beyond_workspace(), Rule::Allow);
        assert_eq!(
            ruled(&policy, &tool("search_web", Effect::Network)),
            Rule::Allow,
            "a rule for a tool overrides the default of its effect"
        );
        policy.denied.insert(Effect::Network);
        assert_eq!(
            ruled(&policy, &tool("search_web", Effect::Network)),
            Rule::Deny,
            "a rule for a tool does not override a denied effect"
        );
        policy.outside = Rule::Deny;
        assert_eq!(policy.beyond_workspace(), Rule::Deny);
    }

    #[test]
    fn an_allowed_name_does_not_allow_a_tool_made_by_a_model() {
        let mut policy = Policy::default();
        policy.tools.extend([("mine".to_owned(), Rule::Allow), ("never".to_owned(), Rule::Deny)]);
        let made = |name| ToolDescription { edition: 3, is_made_by_model: true, ..tool(name, Effect::Runs) };
        assert_eq!(ruled(&policy, &tool("mine", Effect::Runs)), Rule::Allow);
        assert_eq!(ruled(&policy, &made("mine")), Rule::Ask);
        assert_eq!(ruled(&policy, &made("never")), Rule::Deny);
    }
}
