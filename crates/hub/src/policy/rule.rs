//! One rule: the callers and things that it applies to, its conditions, and its effect.

use std::fmt;

use gladhand_core::validation::{ArgumentSchema, TOO_COSTLY, Verdict};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::condition::Expression;
use super::parties::{CallTarget, Callers, Subjects, Who, any_fits};

/// One rule. Of an ordered list of them, the first that matches a call decides.
#[derive(Debug)]
pub struct Rule {
    /// The name that identifies the rule in messages and records.
    pub name: String,
    /// The callers that it applies to; all if empty.
    pub who: Vec<Callers>,
    /// The things that it applies to.
    pub about: Subjects,
    /// A condition on the arguments.
    pub when: Option<Expression>,
    /// A JSON Schema that the arguments must match.
    pub schema: Option<Box<dyn ArgumentSchema>>,
    /// The effect if all of that matches.
    pub effect: Effect,
    /// The reason, for the person or client that sees the effect.
    pub reason: String,
}

/// The effect of a matching rule.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Effect {
    /// The call is made.
    Allow,
    /// The call is refused.
    Deny,
    /// The person at the client is asked first.
    Ask,
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
            Self::Ask => "ask",
        })
    }
}

/// Whether a rule matches a call, and if not, why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "match", rename_all = "snake_case")]
pub enum Match {
    /// It does.
    Matches,
    /// It applies to other callers.
    OtherCallers,
    /// It applies to other tools, or to other kinds of things.
    OtherTools,
    /// Its condition does not hold.
    ConditionDoesNotHold {
        /// The condition, as it was written.
        condition: String,
    },
    /// The arguments do not match its schema.
    SchemaDoesNotHold,
    /// The arguments are ambiguous, so the condition cannot be checked.
    Unreadable {
        /// The problem.
        problem: String,
    },
}

impl fmt::Display for Match {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Matches => f.write_str("matches"),
            Self::OtherCallers => f.write_str("is about other callers"),
            Self::OtherTools => f.write_str("is about something else"),
            Self::ConditionDoesNotHold { condition } => write!(f, "`{condition}` does not hold"),
            Self::SchemaDoesNotHold => f.write_str("the arguments do not fit its schema"),
            Self::Unreadable { problem } => write!(f, "the arguments cannot be read for certain: {problem}"),
        }
    }
}

impl Rule {
    /// A rule that applies to all callers and things.
    pub fn new(name: impl Into<String>, effect: Effect) -> Self {
        Self {
            name: name.into(),
            who: Vec::new(),
            about: Subjects::default(),
            when: None,
            schema: None,
            effect,
            reason: String::new(),
        }
    }

    /// Whether it looks at the arguments.
    pub(super) fn is_conditional(&self) -> bool {
        self.when.is_some() || self.schema.is_some()
    }

    /// Whether it applies to this caller and this thing, regardless of the arguments.
    pub(super) fn concerns(&self, who: &Who<'_>, what: &CallTarget<'_>) -> Match {
        let is_about_it = match self.effect {
            Effect::Allow => self.about.fit(what),
            Effect::Deny | Effect::Ask => what.is_within(|what| self.about.fit(what)),
        };
        if !is_about_it {
            Match::OtherTools
        } else if !any_fits(&self.who, |callers| callers.fits(who)) {
            Match::OtherCallers
        } else {
            Match::Matches
        }
    }

    /// Whether its conditions hold.
    pub(super) fn holds(&self, arguments: Result<&Value, &String>) -> Match {
        if !self.is_conditional() {
            return Match::Matches;
        }
        let arguments = match arguments {
            Ok(arguments) => arguments,
            Err(problem) => return Match::Unreadable { problem: problem.clone() },
        };
        if let Some(when) = self.when.as_ref().filter(|when| !when.holds(arguments)) {
            return Match::ConditionDoesNotHold { condition: when.to_string() };
        }
        match self.schema.as_ref().map_or(Verdict::Fits, |schema| schema.verdict(arguments)) {
            Verdict::Fits => Match::Matches,
            Verdict::DoesNotFit => Match::SchemaDoesNotHold,
            Verdict::CannotBeTold => Match::Unreadable { problem: TOO_COSTLY.to_owned() },
        }
    }
}
