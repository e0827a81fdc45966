//! The report of a probe as text that fits the terminal.

use std::fmt::Write as _;

use crate::commands::shared::drawing::{BAD, Drawing, FAINT, GOOD, STRONG, headline};
use crate::commands::{CommandError, written};
use crate::terminal::layout::{columns, write_labelled};
use crate::terminal::text::plain;

use super::questions::{Answer, UnknownVersion};
use super::report::{ClientReport, ListReport, Report};

/// The lists with a column of their own.
const COLUMNS: [&str; 3] = ["tools", "resources", "prompts"];

/// Prints the report.
pub(super) fn print(report: &Report) -> Result<(), CommandError> {
    let mut drawing = Drawing::new();
    let text = page(report, drawing.width);
    drawing.print(&text);
    written(drawing.written)
}

fn page(report: &Report, width: usize) -> String {
    let mut text = headline("probe", &report.shown, width);
    server(report, width, &mut text);
    clients(report, width, &mut text);
    if let Some(best) = report.preferred() {
        capabilities(best, width, &mut text);
        steps(best, width, &mut text);
    }
    unknown_versions(report, width, &mut text);
    oddities(report, width, &mut text);
    configuration(report, &mut text);
    for hint in &report.hints {
        write_labelled(&mut text, "  hint: ", &plain(hint), width);
    }
    for line in &report.stderr {
        write_labelled(&mut text, &format!("  {FAINT}stderr:{FAINT:#} "), &plain(line), width);
    }
    text
}

fn title(name: &str, text: &mut String) {
    // Writing to a String cannot fail.
    let _ = writeln!(text, "  {STRONG}{name}{STRONG:#}");
}

fn server(report: &Report, width: usize, text: &mut String) {
    let Some(server) = &report.server else {
        write_labelled(text, &format!("  {BAD}no session{BAD:#}  "), "in any dialect", width);
        text.push('\n');
        return;
    };
    let name = match (server.name.as_str(), server.version.as_str()) {
        ("", _) => "a server that gave no name".to_owned(),
        (name, version) => plain(format!("{name} {version}").trim()),
    };
    let instructions = match server.instructions {
        Some(length) => format!(", with instructions of {length} characters"),
        None => String::new(),
    };
    let best = report.best.as_deref().unwrap_or_default();
    write_labelled(text, &format!("  {GOOD}open{GOOD:#}  "), &format!("{best} with {name}{instructions}"), width);
    text.push('\n');
}

/// One row for each client: the time to open and the sizes of the lists, or why there is no session.
fn clients(report: &Report, width: usize, text: &mut String) {
    let widest = report.clients.iter().map(|client| columns(&client.name())).max().unwrap_or(0);
    let [tools, resources, prompts] = COLUMNS;
    let _ =
        writeln!(text, "  {STRONG}{:<widest$}  {:>11}  {tools}  {resources}  {prompts}{STRONG:#}", "client", "opening");
    let mut above: Option<&str> = None;
    for client in &report.clients {
        let name = client.name();
        if !client.opened {
            let message = client.message.as_deref().unwrap_or_default();
            let reason = if above == Some(message) { "the same".to_owned() } else { plain(message) };
            above = Some(message);
            write_labelled(text, &format!("  {name:<widest$}  {BAD}no{BAD:#}  "), &reason, width);
            continue;
        }
        above = None;
        let _ = write!(text, "  {name:<widest$}  {:>8.1} ms", client.opening_ms);
        for column in COLUMNS {
            let count = match client.list(column) {
                Some(ListReport { count: Some(count), .. }) => count.to_string(),
                Some(_) => "error".to_owned(),
                None => "-".to_owned(),
            };
            let _ = write!(text, "  {count:>0$}", column.len());
        }
        text.push('\n');
        if client.version.as_ref() != Some(&client.asked_version) {
            let version = plain(client.version.as_deref().unwrap_or_default());
            let line = format!("the server chose {version} instead");
            write_labelled(text, &format!("  {:<widest$}  ", ""), &line, width);
        }
    }
    text.push('\n');
}

fn capabilities(best: &ClientReport, width: usize, text: &mut String) {
    title(&format!("capabilities in force as {}", best.name()), text);
    let names = match best.capabilities.as_slice() {
        [] => "none".to_owned(),
        names => plain(&names.join(", ")),
    };
    write_labelled(text, "  ", &names, width);
    text.push('\n');
}

/// The time of each step of the preferred client.
fn steps(best: &ClientReport, width: usize, text: &mut String) {
    title(&format!("steps as {}", best.name()), text);
    let _ = writeln!(text, "  {:<20}{:>8.1} ms", "opening", best.opening_ms);
    for list in &best.lists {
        let what = match (&list.count, &list.error) {
            (Some(count), _) => count.to_string(),
            (None, Some(error)) => plain(error),
            (None, None) => String::new(),
        };
        write_labelled(text, &format!("  {:<20}{:>8.1} ms  ", list.list, list.ms), &what, width);
    }
    text.push('\n');
}

fn unknown_versions(report: &Report, width: usize, text: &mut String) {
    if report.unknown_versions.is_empty() {
        return;
    }
    title("asked for an unknown version", text);
    for UnknownVersion { dialect, asked, like, answer, ms } in &report.unknown_versions {
        let answer = match answer {
            Answer::Accepts => "accepts it".to_owned(),
            Answer::Offers { version } => format!("offers {version}"),
            Answer::Refuses { code: Some(code), message } => format!("error {code}: {message}"),
            Answer::Refuses { code: None, message } => format!("refuses: {message}"),
            Answer::Silent => "is silent".to_owned(),
            Answer::Ends => "ends".to_owned(),
        };
        let line = format!("{} (in the form of {like}, {ms:.1} ms)", plain(&answer));
        write_labelled(text, &format!("  {dialect} {asked}  "), &line, width);
    }
    text.push('\n');
}

fn oddities(report: &Report, width: usize, text: &mut String) {
    title("oddities", text);
    if report.oddities.is_empty() {
        text.push_str("  none seen\n");
    }
    for oddity in &report.oddities {
        let line = format!("{} ({})", plain(&oddity.message), oddity.clients.join(", "));
        write_labelled(text, "  - ", &line, width);
    }
    text.push('\n');
}

/// The section as it is written into the file, never broken.
fn configuration(report: &Report, text: &mut String) {
    let Some(config) = &report.config else { return };
    title("configuration, in gladhand.toml", text);
    for line in config.lines() {
        let _ = writeln!(text, "  {}", plain(line));
    }
    text.push('\n');
}
