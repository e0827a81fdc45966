//! Violations: which peer broke which rule of the negotiated protocol, how often, and the reaction.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Mutex;

use gladhand_core::sync::Unpoisoned as _;
use serde::{Deserialize, Serialize};

/// Maximum number of bytes of an offending line that are shown.
const SHOWN: usize = 200;

/// Maximum number of offenders that are counted by name. Peers choose their names, so there may be any number of them.
const COUNTED: usize = 1024;

/// The reaction to a violation. In every mode it is counted and logged.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Handling {
    /// It passes unchanged, where there is something that it could mean. Every kind of violation is logged as a warning.
    Observe,
    /// It is translated, dropped or answered on the offender's behalf, so that the other side never sees it.
    #[default]
    Repair,
    /// The offender's session is ended.
    Enforce,
}

/// The peer that broke a rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(tag = "side", content = "name", rename_all = "lowercase")]
pub enum Offender {
    /// A downstream, by its declared name.
    Client(String),
    /// An upstream, by its configured name.
    Server(String),
}

impl fmt::Display for Handling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Observe => "observe",
            Self::Repair => "repair",
            Self::Enforce => "enforce",
        })
    }
}

impl fmt::Display for Offender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(name) => write!(f, "client `{name}`"),
            Self::Server(name) => write!(f, "server `{name}`"),
        }
    }
}

/// One violation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The peer.
    pub who: Offender,
    /// The rule's name.
    pub rule: &'static str,
    /// A description of the offending message.
    pub told: &'static str,
    /// The offending line, shortened, with control characters escaped.
    pub line: String,
}

impl Violation {
    /// A violation, with the line as it came.
    pub fn new(who: Offender, rule: &'static str, told: &'static str, line: &[u8]) -> Self {
        Self { who, rule, told, line: shown(line) }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} broke the rule `{}`: {}", self.who, self.rule, self.told)
    }
}

/// A printable form of a line, at most 200 bytes of it.
fn shown(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(&line[..line.len().min(SHOWN)]);
    // A character that the cut divides is left out, so that the beginning of a secret is found before the mark.
    let text = if line.len() > SHOWN { text.trim_end_matches('\u{fffd}') } else { &text };
    let mut shown = String::new();
    for character in text.chars() {
        if character.is_control() { shown.extend(character.escape_default()) } else { shown.push(character) }
    }
    if line.len() > SHOWN { shown + "…" } else { shown }
}

/// Counts violations and decides on the reaction.
#[derive(Debug, Default)]
pub struct Violations {
    handling: Mutex<Handling>,
    counts: Mutex<BTreeMap<(Offender, &'static str), u64>>,
}

impl Violations {
    /// The rules that a peer broke, and how often.
    pub fn of(&self, who: &Offender) -> Vec<(&'static str, u64)> {
        let counts = self.counts();
        counts.into_iter().filter(|(offender, ..)| offender == who).map(|(_, rule, count)| (rule, count)).collect()
    }

    /// Handles violations in this mode.
    pub fn new(handling: Handling) -> Self {
        Self { handling: Mutex::new(handling), counts: Mutex::default() }
    }

    /// Handles violations in this mode from now on.
    pub fn handle(&self, handling: Handling) {
        *self.handling.lock().unpoisoned() = handling;
    }

    /// Counts a violation, and logs it: the first of its kind, and then ever fewer. Returns the reaction.
    pub fn note(&self, violation: &Violation) -> Handling {
        let count = {
            let mut counts = self.counts.lock().unpoisoned();
            let mut key = (violation.who.clone(), violation.rule);
            if counts.len() >= COUNTED && !counts.contains_key(&key) {
                key.0 = match key.0 {
                    Offender::Client(_) => Offender::Client("others".to_owned()),
                    Offender::Server(_) => Offender::Server("others".to_owned()),
                };
            }
            let count = counts.entry(key).or_default();
            *count += 1;
            *count
        };
        let Violation { rule, line, .. } = violation;
        let handling = self.handling();
        if handling == Handling::Repair {
            if count.is_power_of_two() {
                tracing::info!(rule, line, count, "{violation}");
            }
        } else if count.is_power_of_two() || handling == Handling::Enforce {
            tracing::warn!(rule, line, count, "{violation}");
        }
        handling
    }

    /// The reaction to violations.
    pub fn handling(&self) -> Handling {
        *self.handling.lock().unpoisoned()
    }

    /// The number of violations by peer and rule.
    pub fn counts(&self) -> Vec<(Offender, &'static str, u64)> {
        let counts = self.counts.lock().unpoisoned();
        counts.iter().map(|((who, rule), count)| (who.clone(), *rule, *count)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn violations_are_counted_by_peer_and_rule() {
        let violations = Violations::new(Handling::Enforce);
        let client = || Offender::Client("c".to_owned());
        for (who, rule) in [(client(), "a"), (client(), "a"), (client(), "b"), (Offender::Server("c".to_owned()), "a")]
        {
            assert_eq!(violations.note(&Violation::new(who, rule, "something", b"")), Handling::Enforce);
        }
        violations.handle(Handling::Observe);
        assert_eq!(violations.note(&Violation::new(client(), "b", "something", b"")), Handling::Observe);
        let server = Offender::Server("c".to_owned());
        assert_eq!(violations.counts(), [(client(), "a", 2), (client(), "b", 2), (server, "a", 1)]);
        for number in 0..5000 {
            violations.note(&Violation::new(Offender::Client(number.to_string()), "a", "something", b""));
        }
        assert!(violations.counts().len() <= COUNTED + 2);
    }

    #[test]
    fn a_line_is_shown_short_and_harmless() {
        let violation = |line: &[u8]| Violation::new(Offender::Client("c".to_owned()), "r", "t", line).line;
        assert_eq!(violation(b"a\x1b[31m\n\xff\"\\"), "a\\u{1b}[31m\\n\u{fffd}\"\\");
        let long = violation("ä".repeat(300).as_bytes());
        assert_eq!(long, "ä".repeat(100) + "…");
        gladhand_redaction::learn("sesame-in-än-offence", gladhand_redaction::Life::Process);
        for before in [184, 189] {
            let long = violation(format!("{}sesame-in-än-offence and more", " ".repeat(before)).as_bytes());
            assert_eq!(gladhand_redaction::redact(&long), format!("{}***…", " ".repeat(before)));
        }
    }
}
