//! Policy: who may do what, how much of it, and what is written down of it.
//!
//! [`Policy`] is plain data and pure decisions; [`Governor`] holds what changes while it is applied. How a hub asks it
//! is in `governed.rs`, one folder up.

mod arguments;
mod asking;
mod audit;
mod decision;
mod expression;
mod governor;
mod grammar;
pub(crate) mod invisible;
mod limits;
mod parties;
mod paths;
mod pins;
mod profile;
mod rule;
mod view;
mod violation;

use gladhand_core::operations::ScopeRecord;
use gladhand_core::wire::RawValue;

pub use audit::{Auditor, Record};
pub use decision::{Considered, Decision, Explanation};
pub use expression::{Expression, ExpressionError};
pub use governor::Governor;
pub(crate) use governor::{Asked, Course, Logged};
pub use invisible::{Invisible, invisible_in, refusal};
pub use limits::{Limit, Rate};
pub use parties::{Callers, Kind, NeededScopes, Subjects, Tools, UnknownClass, What, Who};
pub use pins::{Definition, PinMode, Pinboard, Pinned, Standing, Stopped};
pub use profile::Profile;
pub use rule::{ArgumentSchema, Effect, Match, Rule};
pub(crate) use view::{View, Views};
pub use violation::{Handling, Offender, Violation, Violations};

/// What is allowed. By default: everything.
#[derive(Debug, Default)]
pub struct Policy {
    /// Rules; the first that matches a call decides. A call that none matches is allowed.
    pub rules: Vec<Rule>,
    /// Further lists of rules, from sources that may only narrow. Each list decides on its own, and the strictest decision
    /// holds: an `allow` in one of them never overrides another list.
    pub narrowing: Vec<Vec<Rule>>,
    /// Limits; all that fit a call hold for it.
    pub limits: Vec<Limit>,
    /// What certain callers get to see; the first that fits a caller counts.
    pub profiles: Vec<Profile>,
    /// What is done about definitions that changed.
    pub pins: PinMode,
    /// Scopes that principals need.
    pub scopes: Vec<NeededScopes>,
}

impl Policy {
    /// What becomes of a call.
    pub fn decide(&self, who: &Who<'_>, what: &What<'_>, arguments: &RawValue) -> Decision {
        self.decide_with(who, what, arguments, |_, _| {})
    }

    /// What becomes of a call, and how that came to be, rule by rule.
    pub fn explain(&self, who: &Who<'_>, what: &What<'_>, arguments: &RawValue) -> Explanation {
        let mut rules = Vec::new();
        let decision = self.decide_with(who, what, arguments, |rule, verdict| {
            rules.push(Considered { rule: rule.name.clone(), effect: rule.effect, verdict });
        });
        Explanation { decision, rules }
    }

    fn decide_with(
        &self,
        who: &Who<'_>,
        what: &What<'_>,
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

    /// The scopes that a caller lacks for something, separated by spaces. If it lacks none, the needed ones are recorded for
    /// later readers of the result.
    pub(crate) fn lacking_scopes(
        &self,
        who: &Who<'_>,
        what: &What<'_>,
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

    /// The rule that denies something to a caller whatever the arguments, if there is one.
    pub fn denied_always(&self, who: &Who<'_>, what: &What<'_>) -> Option<&Rule> {
        self.lists().find_map(|rules| decision::denied_always(rules, who, what))
    }

    /// The profile of a caller, if it has one.
    pub fn profile(&self, who: &Who<'_>) -> Option<&Profile> {
        self.profiles.iter().find(|profile| profile.fits(who))
    }

    /// Whether it says nothing, so that all is as it would be without it.
    pub fn is_empty(&self) -> bool {
        let has_no_rules = self.lists().all(Vec::is_empty);
        has_no_rules
            && self.limits.is_empty()
            && self.profiles.is_empty()
            && self.scopes.is_empty()
            && self.pins == PinMode::Off
    }

    /// Whether everybody gets to see the same as under another policy, as far as can be told without knowing everybody.
    fn shows_the_same_as(&self, other: &Self) -> bool {
        fn shown(policy: &Policy) -> impl Iterator<Item = (&[Callers], &Subjects, Effect, bool)> {
            let rules = policy.lists().flatten();
            rules.map(|rule| (&*rule.who, &rule.about, rule.effect, rule.is_conditional()))
        }
        let hides_the_same = !(self.hides_anything() || other.hides_anything()) || shown(self).eq(shown(other));
        hides_the_same && self.profiles == other.profiles && self.pins == other.pins
    }

    /// Whether anybody gets to see less than everything.
    fn hides_anything(&self) -> bool {
        let hides = |rule: &Rule| rule.effect == Effect::Deny && !rule.is_conditional();
        !self.profiles.is_empty() || self.lists().flatten().any(hides)
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
