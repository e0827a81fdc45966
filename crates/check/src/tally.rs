//! Counts how often a rule was kept, and collects where it was broken.

use crate::rule::Rule;

/// How many failures of one rule in one exchange are described. Further ones are counted.
const MOST_FAILURES: usize = 5;

/// Collects the result of one rule.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    kept: usize,
    broken: usize,
    failures: Vec<Failure>,
}

/// One place where a rule is broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The numbers of the lines in the exchange.
    pub lines: Vec<usize>,
    /// The problem.
    pub note: String,
}

/// The result of one rule for one exchange.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The rule.
    pub rule: &'static Rule,
    /// How often it was kept.
    pub kept: usize,
    /// How often it was broken.
    pub broken: usize,
    /// The first places where it was broken.
    pub failures: Vec<Failure>,
}

/// The conclusion about the rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It was kept each time.
    Kept,
    /// It was broken at least once.
    Broken,
    /// The exchange says nothing about it.
    Untested,
}

impl Outcome {
    /// The verdict.
    pub fn verdict(&self) -> Verdict {
        match (self.broken, self.kept) {
            (0, 0) => Verdict::Untested,
            (0, _) => Verdict::Kept,
            _ => Verdict::Broken,
        }
    }
}

impl Tally {
    /// Notes whether the rule is kept on these lines.
    pub(crate) fn expect(&mut self, is_kept: bool, lines: &[usize], note: impl FnOnce() -> String) {
        if is_kept {
            self.kept += 1;
            return;
        }
        self.broken += 1;
        if self.failures.len() < MOST_FAILURES {
            self.failures.push(Failure { lines: lines.to_vec(), note: note() });
        }
    }

    pub(crate) fn into_outcome(self, rule: &'static Rule) -> Outcome {
        Outcome { rule, kept: self.kept, broken: self.broken, failures: self.failures }
    }
}
