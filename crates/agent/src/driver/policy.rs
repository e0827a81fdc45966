//! Which tools may run.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, PoisonError, RwLock};

use gladhand_agent_tools::{Effect, ToolDescription};
use gladhand_core::operations::KnownName;

/// Which tools may run: by their names, else by what they may do to the world.
#[derive(Debug, Clone)]
pub struct Policy {
    /// Whether everything that is not denied runs without asking.
    pub approve_all: bool,
    /// Whether everything that would have to be asked about is denied.
    pub approve_none: bool,
    /// For single tools, by any name that they are known by.
    pub tools: HashMap<String, Rule>,
    /// For tools that read.
    pub reads: Rule,
    /// For those that change files.
    pub writes: Rule,
    /// For those that run programs.
    pub runs: Rule,
    /// For those that talk to the network.
    pub network: Rule,
    /// For calls that use files outside of the workspace, or files that may hold secrets: never less than the rule of the tool.
    pub outside: Rule,
    /// Effects that are denied outright: no rule for a single tool allows them.
    pub denied: HashSet<Effect>,
}

/// The policy in force, which can be replaced while conversations go on. Each call is decided by the policy of its moment.
#[derive(Debug, Clone, Default)]
pub struct LivePolicy(Arc<RwLock<Arc<Policy>>>);

impl LivePolicy {
    /// Begins with a policy.
    pub fn new(policy: Policy) -> Self {
        Self(Arc::new(RwLock::new(Arc::new(policy))))
    }

    /// Decides by another policy from the next call on.
    pub fn replace(&self, policy: Policy) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(policy);
    }

    /// The policy in force.
    pub(super) fn now(&self) -> Arc<Policy> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Whether a tool may run. A later one is stricter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
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
    /// The rule for a tool that is known by these names. Of several rules that name the tool, the strictest counts. A rule that
    /// allows counts only by a name that no tool of another provider can have.
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
            // The operator did not mean code that a model wrote under this name.
            Some(named) if tool.is_made_by_model => by_effect.max(named),
            Some(named) => named,
            None => by_effect,
        };
        self.approved(rule)
    }

    /// The least strict rule for a call that uses something beyond the workspace.
    pub(super) fn beyond_workspace(&self) -> Rule {
        self.approved(self.outside)
    }

    /// Approval of everything or of nothing answers every question, and changes nothing about what is denied.
    fn approved(&self, rule: Rule) -> Rule {
        match rule {
            Rule::Ask if self.approve_none => Rule::Deny,
            Rule::Ask if self.approve_all => Rule::Allow,
            rule => rule,
        }
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

    /// The rule for a tool that is known by its own name alone.
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
    fn a_question_does_not_loosen_what_nobody_approves() {
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
    fn a_tool_of_its_own_rule_comes_before_what_it_does() {
        let mut policy = Policy::default();
        policy.tools.insert("bash".to_owned(), Rule::Deny);
        assert_eq!(ruled(&policy, &tool("bash", Effect::Runs)), Rule::Deny);
        assert_eq!(ruled(&policy, &tool("run_js", Effect::Runs)), Rule::Ask);
        assert_eq!(ruled(&policy, &tool("read_file", Effect::Reads)), Rule::Allow);
    }

    #[test]
    fn what_is_denied_is_denied_whatever_is_approved() {
        let mut policy = Policy { approve_all: true, network: Rule::Deny, ..Policy::default() };
        policy.tools.extend([("bash".to_owned(), Rule::Deny), ("search_web".to_owned(), Rule::Allow)]);
        assert_eq!(ruled(&policy, &tool("bash", Effect::Runs)), Rule::Deny);
        assert_eq!(ruled(&policy, &tool("fetch", Effect::Network)), Rule::Deny);
        assert_eq!(ruled(&policy, &tool("run_js", Effect::Runs)), Rule::Allow);
        assert_eq!(policy.beyond_workspace(), Rule::Allow);
        assert_eq!(ruled(&policy, &tool("search_web", Effect::Network)), Rule::Allow, "an exception to a default");
        policy.denied.insert(Effect::Network);
        assert_eq!(ruled(&policy, &tool("search_web", Effect::Network)), Rule::Deny, "no exception to what was denied");
        policy.outside = Rule::Deny;
        assert_eq!(policy.beyond_workspace(), Rule::Deny);
    }

    #[test]
    fn a_name_that_was_allowed_allows_nothing_that_a_model_made() {
        let mut policy = Policy::default();
        policy.tools.extend([("mine".to_owned(), Rule::Allow), ("never".to_owned(), Rule::Deny)]);
        let made = |name| ToolDescription { edition: 3, is_made_by_model: true, ..tool(name, Effect::Runs) };
        assert_eq!(ruled(&policy, &tool("mine", Effect::Runs)), Rule::Allow);
        assert_eq!(ruled(&policy, &made("mine")), Rule::Ask);
        assert_eq!(ruled(&policy, &made("never")), Rule::Deny);
    }
}
