//! The report of a check as text that fits the terminal.

use std::fmt::Write as _;

use gladhand_check::{Level, Subject, Verdict};
use gladhand_core::negotiation::Side;

use crate::commands::shared::drawing::{BAD, Drawing, FAINT, GOOD, STRONG, headline};
use crate::commands::{CommandError, written};
use crate::terminal::layout::write_labelled;
use crate::terminal::text::plain;

use super::summary::{Check, Evidence, Summary};

/// How many characters of a message are shown.
const MESSAGE: usize = 300;

/// Prints the report.
pub(super) fn print(summary: &Summary) -> Result<(), CommandError> {
    let mut drawing = Drawing::new();
    let text = page(summary, drawing.width);
    drawing.print(&text);
    written(drawing.written)
}

fn page(summary: &Summary, width: usize) -> String {
    let title = match summary.subject {
        Subject::Server => "check of a server",
        Subject::Client => "check of a client",
    };
    let mut text = headline(title, &summary.target, width);
    let clients = summary.clients();
    let what = if clients.is_empty() { "no session".to_owned() } else { clients.join(", ") };
    let line = format!("{what}; {} exchanges", summary.exchanges.len());
    write_labelled(&mut text, "  ", &line, width);
    text.push('\n');
    for level in [Level::Must, Level::Should, Level::Lint] {
        for check in summary.with(Verdict::Broken).filter(|check| check.rule.level == level) {
            broken(check, summary, width, &mut text);
        }
    }
    totals(summary, width, &mut text);
    text
}

fn broken(check: &Check, summary: &Summary, width: usize, text: &mut String) {
    let style = if check.rule.level == Level::Must { BAD } else { STRONG };
    // Writing to a String cannot fail.
    let _ = writeln!(text, "  {style}{:<6}{style:#}  {STRONG}{}{STRONG:#}", check.rule.level.word(), check.rule.id);
    let about = format!("{} ({})", check.rule.about, check.rule.section);
    write_labelled(text, "          ", &plain(&about), width);
    for (number, evidence) in check.evidence.iter().enumerate() {
        // One exchange shows the problem. The note of the lint names the tool, and the list that has it is long.
        let with_messages = number == 0 && check.rule.level != Level::Lint;
        self::evidence(evidence, with_messages, summary, width, text);
    }
    let more = check.broken.saturating_sub(check.evidence.len());
    if more > 0 {
        let _ = writeln!(text, "        - and {more} more");
    }
    text.push('\n');
}

fn evidence(evidence: &Evidence, with_messages: bool, summary: &Summary, width: usize, text: &mut String) {
    let judged = summary.exchanges.get(evidence.exchange);
    let place = judged.map(|judged| format!("{}, {}", judged.client(), judged.exchange.name)).unwrap_or_default();
    write_labelled(text, "        - ", &format!("{} ({place})", plain(&evidence.note)), width);
    for line in evidence.lines.iter().filter(|_| with_messages) {
        let arrow = if line.from == Side::Client { "→" } else { "←" };
        let message: String = match line.text.chars().count() {
            ..=MESSAGE => line.text.clone(),
            _ => line.text.chars().take(MESSAGE).chain(['…']).collect(),
        };
        write_labelled(text, &format!("          {FAINT}{arrow}{FAINT:#} "), &plain(&message), width);
    }
}

fn totals(summary: &Summary, width: usize, text: &mut String) {
    let kept = summary.with(Verdict::Kept).count();
    let untested = summary.with(Verdict::Untested).count();
    let [must, should, lint] = [Level::Must, Level::Should, Level::Lint].map(|level| summary.broken_of(level));
    let style = if must == 0 { GOOD } else { BAD };
    let line = format!("{must} MUST, {should} SHOULD, {lint} lint; {kept} rules kept, {untested} not tested");
    write_labelled(text, &format!("  {style}broken{style:#}  "), &line, width);
    text.push('\n');
}
