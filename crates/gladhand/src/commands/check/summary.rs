//! The results of all exchanges, rule by rule.

use gladhand_check::{Exchange, Level, Line, Rule, Subject, Verdict, judge, rules};
use gladhand_core::negotiation::Side;

/// How many failures of one rule are shown.
const MOST_SHOWN: usize = 3;

/// The judged target, and the result.
#[derive(Debug)]
pub(super) struct Summary {
    /// The command or the URL, as a person would type it.
    pub(super) target: String,
    pub(super) subject: Subject,
    pub(super) exchanges: Vec<Judged>,
    /// The rules of the judged dialects, in the order of the table.
    pub(super) checks: Vec<Check>,
}

/// One exchange that was judged.
#[derive(Debug)]
pub(super) struct Judged {
    pub(super) exchange: Exchange,
}

impl Judged {
    /// Whether the judged side sent nothing in answer.
    pub(super) fn is_silent(&self) -> bool {
        let has = |side| self.exchange.lines.iter().any(|line| line.from == side);
        !(has(Side::Server) && has(Side::Client))
    }

    /// `mcp@2025-11-25`.
    pub(super) fn client(&self) -> String {
        format!("{}@{}", self.exchange.dialect, self.exchange.version)
    }
}

/// A rule and its results.
#[derive(Debug)]
pub(super) struct Check {
    pub(super) rule: &'static Rule,
    pub(super) kept: usize,
    pub(super) broken: usize,
    pub(super) evidence: Vec<Evidence>,
}

/// One place where a rule is broken.
#[derive(Debug)]
pub(super) struct Evidence {
    /// The number of the exchange.
    pub(super) exchange: usize,
    pub(super) note: String,
    pub(super) lines: Vec<Line>,
}

impl Check {
    pub(super) fn verdict(&self) -> Verdict {
        match (self.broken, self.kept) {
            (0, 0) => Verdict::Untested,
            (0, _) => Verdict::Kept,
            _ => Verdict::Broken,
        }
    }
}

impl Summary {
    /// Judges all exchanges.
    pub(super) fn of(target: String, subject: Subject, exchanges: Vec<Exchange>) -> Self {
        let is_judged = |rule: &&'static Rule| {
            let has = |exchange: &Exchange| exchange.dialect == rule.dialect || rule.dialect == gladhand_check::LINT;
            rule.subject == subject && exchanges.iter().any(has)
        };
        let check = |rule| Check { rule, kept: 0, broken: 0, evidence: Vec::new() };
        let mut checks: Vec<Check> = rules().filter(is_judged).map(check).collect();
        for (number, exchange) in exchanges.iter().enumerate() {
            for outcome in judge(exchange, subject) {
                let Some(check) = checks.iter_mut().find(|check| check.rule.id == outcome.rule.id) else { continue };
                check.kept += outcome.kept;
                check.broken += outcome.broken;
                let room = MOST_SHOWN.saturating_sub(check.evidence.len());
                check.evidence.extend(outcome.failures.into_iter().take(room).map(|failure| Evidence {
                    exchange: number,
                    note: failure.note,
                    lines: failure.lines.iter().filter_map(|line| exchange.lines.get(*line).cloned()).collect(),
                }));
            }
        }
        let exchanges = exchanges.into_iter().map(|exchange| Judged { exchange }).collect();
        Self { target, subject, exchanges, checks }
    }

    /// The number of broken rules that count as failures.
    pub(super) fn broken(&self, is_strict: bool) -> usize {
        let counts = |check: &&Check| is_strict || check.rule.level == Level::Must;
        self.with(Verdict::Broken).filter(counts).count()
    }

    /// The checks with a verdict.
    pub(super) fn with(&self, verdict: Verdict) -> impl Iterator<Item = &Check> {
        self.checks.iter().filter(move |check| check.verdict() == verdict)
    }

    /// The number of broken rules of a level.
    pub(super) fn broken_of(&self, level: Level) -> usize {
        self.with(Verdict::Broken).filter(|check| check.rule.level == level).count()
    }

    /// The clients as which a session was judged, each once.
    pub(super) fn clients(&self) -> Vec<String> {
        let mut clients: Vec<String> = Vec::new();
        for judged in self.exchanges.iter().filter(|judged| !judged.is_silent()) {
            let client = judged.client();
            if !clients.contains(&client) {
                clients.push(client);
            }
        }
        clients
    }
}
