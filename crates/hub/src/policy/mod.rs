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

use gladhand_wire::RawValue;

pub use audit::{Auditor, Record};
pub use decision::{Considered, Decision, Explanation};
pub use expression::{Expression, ExpressionError};
pub use governor::Governor;
pub(crate) use governor::{Asked, Course, Logged};
pub use invisible::{Invisible, invisible_in, refusal};
pub use limits::{Limit, Rate};
pub use parties::{Callers, Tools, UnknownClass, What, Who};
pub use pins::{Definition, PinMode, Pinboard, Standing};
pub use profile::Profile;
pub use rule::{ArgumentSchema, Effect, Match, Rule};
pub(crate) use view::{View, Views};
pub use violation::{Handling, Offender, Violation, Violations};

/// What is allowed. By default: everything.
#[derive(Debug, Default)]
pub struct Policy {
    /// Rules; the first that matches a call decides. A call that none matches is allowed.
    pub rules: Vec<Rule>,
    /// Limits; all that fit a call hold for it.
    pub limits: Vec<Limit>,
    /// What certain callers get to see; the first that fits a caller counts.
    pub profiles: Vec<Profile>,
    /// What is done about tools that changed.
    pub pins: PinMode,
}

impl Policy {
    /// What becomes of a call.
    pub fn decide(&self, who: &Who<'_>, what: &What<'_>, arguments: &RawValue) -> Decision {
        decision::decide(&self.rules, who, what, arguments, |_, _| {})
    }

    /// What becomes of a call, and how that came to be, rule by rule.
    pub fn explain(&self, who: &Who<'_>, what: &What<'_>, arguments: &RawValue) -> Explanation {
        let mut rules = Vec::new();
        let decision = decision::decide(&self.rules, who, what, arguments, |rule, verdict| {
            rules.push(Considered { rule: rule.name.clone(), effect: rule.effect, verdict });
        });
        Explanation { decision, rules }
    }

    /// The rule that denies a tool to somebody whatever the arguments, if there is one.
    pub fn denied_always(&self, who: &Who<'_>, what: &What<'_>) -> Option<&Rule> {
        decision::denied_always(&self.rules, who, what)
    }

    /// The profile of a caller, if it has one.
    pub fn profile(&self, who: &Who<'_>) -> Option<&Profile> {
        self.profiles.iter().find(|profile| profile.fits(who))
    }

    /// Whether it says nothing, so that all is as it would be without it.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty() && self.limits.is_empty() && self.profiles.is_empty() && self.pins == PinMode::Off
    }

    /// Whether everybody gets to see the same as under another policy, as far as can be told without knowing everybody.
    fn shows_the_same_as(&self, other: &Self) -> bool {
        fn shown(policy: &Policy) -> impl Iterator<Item = (&[Callers], &[Tools], Effect, bool)> {
            policy.rules.iter().map(|rule| (&*rule.who, &*rule.tools, rule.effect, rule.is_conditional()))
        }
        let hides_the_same = !(self.hides_anything() || other.hides_anything()) || shown(self).eq(shown(other));
        hides_the_same && self.profiles == other.profiles && self.pins == other.pins
    }

    /// Whether anybody gets to see less than everything.
    fn hides_anything(&self) -> bool {
        let hides = |rule: &Rule| rule.effect == Effect::Deny && !rule.is_conditional();
        !self.profiles.is_empty() || self.rules.iter().any(hides)
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
