//! The report of a check for programs: JSON, JUnit and SARIF.

use std::fmt::Write as _;
use std::process::ExitCode;

use gladhand_check::{Level, Line, Verdict};
use gladhand_core::wire::invisible::{Layout, escape};
use gladhand_redaction::redact;
use serde_json::{Value, json};

use crate::commands::{CommandError, print_report};

use super::listing;
use super::summary::{Check, Evidence, Summary};

/// Prints one JSON object, documented in `docs/stability.md`.
pub(super) fn print_json_report(summary: &Summary, failure: Option<&CommandError>) -> Result<ExitCode, CommandError> {
    let checks: Vec<Value> = summary.checks.iter().map(|check| check_json(check, summary)).collect();
    let report = json!({
        "target": redact(&summary.target),
        "subject": summary.subject,
        "clients": summary.clients(),
        "exchanges": summary.exchanges.len(),
        "kept": summary.with(Verdict::Kept).count(),
        "broken": {
            "must": summary.broken_of(Level::Must),
            "should": summary.broken_of(Level::Should),
            "lint": summary.broken_of(Level::Lint),
        },
        "untested": summary.with(Verdict::Untested).count(),
        "checks": checks,
    });
    print_report(report, failure)
}

fn check_json(check: &Check, summary: &Summary) -> Value {
    let mut value = listing::to_json(check.rule);
    let failures: Vec<Value> = check.evidence.iter().map(|evidence| evidence_json(evidence, summary)).collect();
    if let Some(members) = value.as_object_mut() {
        members.insert("verdict".to_owned(), word(check.verdict()).into());
        members.insert("kept".to_owned(), check.kept.into());
        members.insert("broken".to_owned(), check.broken.into());
        members.insert("failures".to_owned(), failures.into());
    }
    value
}

fn evidence_json(evidence: &Evidence, summary: &Summary) -> Value {
    let judged = summary.exchanges.get(evidence.exchange);
    let message = |line: &Line| {
        let mut value = json!({ "from": line.from, "ms": line.ms });
        let name = if serde_json::from_str::<Value>(&line.text).is_ok() { "message" } else { "text" };
        let content = serde_json::from_str(&line.text).unwrap_or_else(|_| Value::from(line.text.clone()));
        value[name] = content;
        value
    };
    json!({
        "client": judged.map(|judged| judged.client()),
        "exchange": judged.map(|judged| &judged.exchange.name),
        "note": evidence.note,
        "messages": evidence.lines.iter().map(message).collect::<Vec<_>>(),
    })
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Kept => "kept",
        Verdict::Broken => "broken",
        Verdict::Untested => "untested",
    }
}

/// The problem, for a line of a report.
fn problem(check: &Check, summary: &Summary) -> String {
    let mut text = String::new();
    for evidence in &check.evidence {
        let judged = summary.exchanges.get(evidence.exchange);
        let place = judged.map(|judged| format!("{}, {}", judged.client(), judged.exchange.name)).unwrap_or_default();
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{} ({place})", evidence.note);
        for line in &evidence.lines {
            let _ = writeln!(text, "  {}: {}", line.from.word(), line.text);
        }
    }
    redact(&text).into_owned()
}

/// JUnit XML. A broken rule is a failure if it counts for the exit status, otherwise it is in the output of its case.
pub(super) fn junit(summary: &Summary, is_strict: bool) -> String {
    let counts = |check: &Check| is_strict || check.rule.level == Level::Must;
    let failures = summary.with(Verdict::Broken).filter(|check| counts(check)).count();
    let skipped = summary.with(Verdict::Untested).count();
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let _ = writeln!(
        text,
        "<testsuites>\n  <testsuite name=\"{}\" tests=\"{}\" failures=\"{failures}\" errors=\"0\" skipped=\"{skipped}\">",
        xml(&format!("gladhand check {}", redact(&summary.target))),
        summary.checks.len(),
    );
    for check in &summary.checks {
        let rule = check.rule;
        let _ = write!(text, "    <testcase classname=\"{}\" name=\"{}\"", xml(rule.dialect), xml(rule.id));
        let about = xml(&format!("{} {} ({})", rule.level.word(), rule.about, rule.section));
        let _ = match check.verdict() {
            Verdict::Kept => writeln!(text, "/>"),
            Verdict::Untested => writeln!(text, "><skipped message=\"not tested\"/></testcase>"),
            Verdict::Broken if counts(check) => {
                let problem = xml(&problem(check, summary));
                writeln!(text, "><failure message=\"{about}\">{problem}</failure></testcase>")
            }
            Verdict::Broken => {
                let problem = xml(&problem(check, summary));
                writeln!(text, "><system-out>{about}\n{problem}</system-out></testcase>")
            }
        };
    }
    text.push_str("  </testsuite>\n</testsuites>\n");
    text
}

/// Text for XML 1.0, which has no control characters.
fn xml(text: &str) -> String {
    let escaped = escape(text, Layout::Lines);
    escaped.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// SARIF 2.1.0: one result for each broken rule.
pub(super) fn sarif(summary: &Summary) -> String {
    let rule = |check: &Check| {
        json!({
            "id": check.rule.id,
            "shortDescription": { "text": check.rule.about },
            "help": { "text": format!("{}: {}", check.rule.level.word(), check.rule.section) },
            "defaultConfiguration": { "level": level(check.rule.level) },
        })
    };
    let result = |check: &Check| {
        let text = format!("{}\n{}", check.rule.about, problem(check, summary));
        let target = redact(&summary.target).into_owned();
        json!({
            "ruleId": check.rule.id,
            "level": level(check.rule.level),
            "message": { "text": text.trim_end() },
            "locations": [{ "logicalLocations": [{ "fullyQualifiedName": target }] }],
        })
    };
    let log = json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "gladhand",
                "version": env!("CARGO_PKG_VERSION"),
                "rules": summary.checks.iter().map(rule).collect::<Vec<_>>(),
            }},
            "results": summary.with(Verdict::Broken).map(result).collect::<Vec<_>>(),
        }],
    });
    format!("{log}\n")
}

fn level(level: Level) -> &'static str {
    match level {
        Level::Must => "error",
        Level::Should => "warning",
        Level::Lint => "note",
    }
}
