//! The decision: the first matching rule of an ordered list, and an explanation of how it was found.

use std::fmt;

use gladhand_core::wire::RawValue;
use serde::Serialize;
use serde_json::Value;

use super::parties::{CallTarget, Who};
use super::rule::{Effect, Match, Rule};
use super::unambiguous_json;

/// The decision on a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "effect", rename_all = "lowercase")]
pub enum Decision {
    /// The call is made.
    Allow,
    /// The call is refused.
    Deny {
        /// The rule.
        rule: String,
        /// The reason.
        reason: String,
    },
    /// The person at the client is asked first.
    Ask {
        /// The rule.
        rule: String,
        /// The reason.
        reason: String,
    },
}

impl Decision {
    /// The other decision if it is stricter, else this one.
    pub(super) fn or_stricter(self, other: Self) -> Self {
        if other.strictness() > self.strictness() { other } else { self }
    }

    fn strictness(&self) -> u8 {
        match self {
            Self::Allow => 0,
            Self::Ask { .. } => 1,
            Self::Deny { .. } => 2,
        }
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (effect, rule, reason) = match self {
            Self::Allow => return f.write_str("allow"),
            Self::Deny { rule, reason } => ("deny", rule, reason),
            Self::Ask { rule, reason } => ("ask", rule, reason),
        };
        write!(f, "{effect}, by rule `{rule}`")?;
        if reason.is_empty() { Ok(()) } else { write!(f, ": {reason}") }
    }
}

/// The explanation of a decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// The decision.
    pub decision: Decision,
    /// The rules that were checked, in order.
    pub rules: Vec<Considered>,
}

/// A rule that was checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Considered {
    /// Its name.
    pub rule: String,
    /// The effect of the rule.
    pub effect: Effect,
    /// Whether it matched.
    #[serde(flatten)]
    pub verdict: Match,
}

/// The decision of a list of rules. `told` is called for each rule that is checked.
pub(super) fn decide<'r>(
    rules: &'r [Rule],
    who: &Who<'_>,
    what: &CallTarget<'_>,
    raw: &RawValue,
    mut told: impl FnMut(&'r Rule, Match),
) -> Decision {
    // The arguments are parsed when a rule first needs them.
    let mut read: Option<Result<Value, String>> = None;
    for rule in rules {
        let mut verdict = rule.concerns(who, what);
        if verdict == Match::Matches && rule.is_conditional() {
            let arguments = read.get_or_insert_with(|| unambiguous_json::read(raw.get()));
            verdict = rule.holds(arguments.as_ref());
        }
        let decision = match &verdict {
            Match::Matches => Some(decided(rule, rule.effect, rule.reason.clone())),
            // Otherwise a caller could evade this rule with ambiguous arguments.
            Match::Unreadable { .. } => Some(decided(rule, Effect::Deny, verdict.to_string())),
            _ => None,
        };
        told(rule, verdict);
        if let Some(decision) = decision {
            return decision;
        }
    }
    Decision::Allow
}

fn decided(rule: &Rule, effect: Effect, reason: String) -> Decision {
    let rule = rule.name.clone();
    match effect {
        Effect::Allow => Decision::Allow,
        Effect::Deny => Decision::Deny { rule, reason },
        Effect::Ask => Decision::Ask { rule, reason },
    }
}

/// The rule that denies a thing to a caller regardless of the arguments, if there is one.
pub(super) fn denied_always<'r>(rules: &'r [Rule], who: &Who<'_>, what: &CallTarget<'_>) -> Option<&'r Rule> {
    for rule in rules.iter().filter(|rule| rule.concerns(who, what) == Match::Matches) {
        match (rule.effect, rule.is_conditional()) {
            (Effect::Deny, false) => return Some(rule),
            // This rule denies some arguments; a later one may allow others.
            (Effect::Deny, true) => {}
            (Effect::Allow | Effect::Ask, _) => return None,
        }
    }
    None
}
