//! Policy: which callers may do what, how often, and what the audit log records.
//!
//! [`Policy`] is plain data and pure decisions. [`Governor`] holds the state that changes while a policy is applied.
//! How the hub uses it is in `governed_calls.rs`, one folder up.

mod asking;
mod audit;
mod condition;
mod decision;
mod governor;
mod grammar;
pub(crate) mod invisible;
mod limits;
mod parties;
mod paths;
mod pins;
mod profile;
mod rule;
mod unambiguous_json;
mod view;
mod violation;

use gladhand_core::operations::ScopeRecord;
use gladhand_core::wire::RawValue;

pub use audit::{Auditor, Record};
pub use condition::{Expression, ExpressionError};
pub use decision::{Considered, Decision, Explanation};
pub use governor::Governor;
pub(crate) use governor::{ConsentRequest, Course};
pub use invisible::{Invisible, invisible_in, refusal};
pub use limits::{Limit, Rate};
pub use parties::{CallTarget, Callers, Kind, NeededScopes, Subjects, Tools, UnknownClass, Who};
pub use pins::{Definition, DefinitionSource, PinMode, Pinboard, Pinned, Standing, Stopped};
pub use profile::Profile;
pub use rule::{Effect, Match, Rule};
pub(crate) use view::{View, Views};
pub use violation::{Handling, Offender, Violation, Violations};

/// A policy. The default allows everything.
#[derive(Debug, Default)]
pub struct Policy {
    /// Rules. The first that matches a call decides. A call that matches no rule is allowed.
    pub rules: Vec<Rule>,
    /// Further lists of rules, from sources that may only restrict. Each list decides separately, and the strictest
    /// decision wins: an `allow` in one list never overrides another list.
    pub narrowing: Vec<Vec<Rule>>,
    /// Limits. All that match a call apply to it.
    pub limits: Vec<Limit>,
    /// Profiles that restrict what certain callers see. The first that matches a caller counts.
    pub profiles: Vec<Profile>,
    /// The reaction to changed definitions.
    pub pins: PinMode,
    /// Scopes that principals need.
    pub scopes: Vec<NeededScopes>,
}

impl Policy {
    /// Decides on a call.
    pub fn decide(&self, who: &Who<'_>, what: &CallTarget<'_>, arguments: &RawValue) -> Decision {
        self.decide_with(who, what, arguments, |_, _| {})
    }

    /// Decides on a call, and explains the decision rule by rule.
    pub fn explain(&self, who: &Who<'_>, what: &CallTarget<'_>, arguments: &RawValue) -> Explanation {
        let mut rules = Vec::new();
        let decision = self.decide_with(who, what, arguments, |rule, verdict| {
            rules.push(Considered { rule: rule.name.clone(), effect: rule.effect, verdict });
        });
        Explanation { decision, rules }
    }

    fn decide_with(
        &self,
        who: &Who<'_>,
        what: &CallTarget<'_>,
        arguments: &RawValue,
        mut considered: impl FnMut(&Rule, Match),
    ) -> Decision {
        let mut strictest = decision::decide(&self.rules, who, what, arguments, &mut considered);
        for rules in &self.narrowing {
            strictest = strictest.or_stricter(decision::decide(rules, who, what, arguments, &mut considered));
        }
        strictest
    }

    /// Every list of rules.
    fn lists(&self) -> impl Iterator<Item = &Vec<Rule>> {
        std::iter::once(&self.rules).chain(&self.narrowing)
    }

    /// The scopes that a caller lacks for a thing, separated by spaces. If it lacks none, the needed scopes are
    /// recorded for later readers of the result.
    pub(crate) fn lacking_scopes(
        &self,
        who: &Who<'_>,
        what: &CallTarget<'_>,
        record: Option<&ScopeRecord>,
    ) -> Option<String> {
        let granted = who.scopes.filter(|_| !self.scopes.is_empty())?;
        let needed = NeededScopes::of(&self.scopes, what);
        let is_lacking = |scope: &&str| !granted.split(' ').any(|granted| granted == *scope);
        let lacking: Vec<_> = needed.iter().copied().filter(is_lacking).collect();
        if lacking.is_empty() {
            record.filter(|_| !needed.is_empty()).inspect(|record| record.add(needed));
            return None;
        }
        Some(lacking.join(" "))
    }

    /// The rule that denies a thing to a caller regardless of the arguments, if there is one.
    pub fn denied_always(&self, who: &Who<'_>, what: &CallTarget<'_>) -> Option<&Rule> {
        self.lists().find_map(|rules| decision::denied_always(rules, who, what))
    }

    /// The profile of a caller, if it has one.
    pub fn profile(&self, who: &Who<'_>) -> Option<&Profile> {
        self.profiles.iter().find(|profile| profile.fits(who))
    }

    /// Whether the policy is empty, and has no effect.
    pub fn is_empty(&self) -> bool {
        let has_no_rules = self.lists().all(Vec::is_empty);
        has_no_rules
            && self.limits.is_empty()
            && self.profiles.is_empty()
            && self.scopes.is_empty()
            && self.pins == PinMode::Off
    }

    /// Whether all callers see the same as under another policy. Conservative, because the callers are not known here.
    fn shows_the_same_as(&self, other: &Self) -> bool {
        fn shown(policy: &Policy) -> impl Iterator<Item = (&[Callers], &Subjects, Effect, bool)> {
            let rules = policy.lists().flatten();
            rules.map(|rule| (&*rule.who, &rule.about, rule.effect, rule.is_conditional()))
        }
        let hides_the_same = !(self.hides_anything() || other.hides_anything()) || shown(self).eq(shown(other));
        hides_the_same && self.profiles == other.profiles && self.pins == other.pins
    }

    /// Whether any caller sees less than everything.
    fn hides_anything(&self) -> bool {
        let hides = |rule: &Rule| rule.effect == Effect::Deny && !rule.is_conditional();
        !self.profiles.is_empty() || self.lists().flatten().any(hides)
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
