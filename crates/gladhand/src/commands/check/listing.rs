//! The list of all rules.

use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::anyhow;
use gladhand_check::{Rule, rules};
use serde_json::{Value, json};

use crate::commands::shared::drawing::{Drawing, STRONG};
use crate::commands::{CommandError, print_report, written};
use crate::exit::Exit;
use crate::terminal::layout::write_labelled;

use super::Format;

/// Prints the rules.
pub(super) fn print(format: Format) -> Result<ExitCode, CommandError> {
    match format {
        Format::List => {
            let mut drawing = Drawing::new();
            let text = page(drawing.width);
            drawing.print(&text);
            written(drawing.written)?;
            Ok(Exit::Success.into())
        }
        Format::Json => print_report(json!({ "checks": rules().map(to_json).collect::<Vec<_>>() }), None),
        Format::Junit | Format::Sarif => {
            Err(CommandError::usage(anyhow!("--list has the formats `list` and `json` only")))
        }
    }
}

/// The members that describe a rule.
pub(super) fn to_json(rule: &Rule) -> Value {
    json!({
        "id": rule.id,
        "dialect": rule.dialect,
        "level": rule.level,
        "subject": rule.subject,
        "versions": rule.versions.to_string(),
        "section": rule.section,
        "about": rule.about,
    })
}

fn page(width: usize) -> String {
    let mut text = String::new();
    for rule in rules() {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{STRONG}{}{STRONG:#}", rule.id);
        let line = format!("{}: {} ({}; versions: {})", rule.level.word(), rule.about, rule.section, rule.versions);
        write_labelled(&mut text, "  ", &line, width);
    }
    let _ = writeln!(text, "\n{} rules", rules().count());
    text
}
