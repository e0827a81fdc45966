//! The comparison as text that fits the terminal.

use std::fmt::Write as _;

use crate::commands::shared::drawing::{BAD, Drawing, GOOD, STRONG, headline};
use crate::commands::{CommandError, written};
use crate::terminal::layout::write_labelled;
use crate::terminal::text::plain;

use super::comparison::{Client, Comparison, ListDifference, Session};

/// How many names of a list are shown.
const MOST_NAMES: usize = 5;

/// Prints the comparison.
pub(super) fn print(comparison: &Comparison) -> Result<(), CommandError> {
    let mut drawing = Drawing::new();
    let text = page(comparison, drawing.width);
    drawing.print(&text);
    written(drawing.written)
}

fn page(comparison: &Comparison, width: usize) -> String {
    let mut text = headline("loss and gain through the bridge", &comparison.shown, width);
    let offered = comparison.server_features.join(", ");
    write_labelled(&mut text, &format!("  {STRONG}the server has{STRONG:#}  "), &offered, width);
    text.push('\n');
    for client in &comparison.clients {
        self::client(client, width, &mut text);
    }
    text
}

fn client(client: &Client, width: usize, text: &mut String) {
    // Writing to a String cannot fail.
    let _ = writeln!(text, "  {STRONG}{}{STRONG:#}", client.name());
    write_labelled(text, "    directly            ", &session(&client.direct), width);
    write_labelled(text, "    through the bridge  ", &session(&client.bridge), width);
    if !client.gains.is_empty() {
        write_labelled(text, &format!("    {GOOD}gains{GOOD:#}  "), &client.gains.join(", "), width);
    }
    if !client.loses.is_empty() {
        write_labelled(text, &format!("    {BAD}loses{BAD:#}  "), &client.loses.join(", "), width);
    }
    for list in &client.lists {
        write_labelled(text, "    list   ", &difference(list), width);
    }
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for unavailable in &client.unavailable {
        match reasons.iter_mut().find(|(known, _)| *known == unavailable.message) {
            Some((_, features)) => features.push(unavailable.feature),
            None => reasons.push((&unavailable.message, vec![unavailable.feature])),
        }
    }
    for (reason, features) in reasons {
        write_labelled(text, "    never  ", &format!("{}: {}", features.join(", "), plain(reason)), width);
    }
    text.push('\n');
}

fn session(session: &Session) -> String {
    match (&session.version, &session.message) {
        (Some(version), _) => format!("open, version {}", plain(version)),
        (None, Some(message)) => format!("no session: {}", plain(message)),
        (None, None) => "no session".to_owned(),
    }
}

fn difference(list: &ListDifference) -> String {
    let names = |names: &[String]| {
        let mut shown: Vec<_> = names.iter().take(MOST_NAMES).map(|name| plain(name)).collect();
        if names.len() > MOST_NAMES {
            shown.push(format!("{} more", names.len() - MOST_NAMES));
        }
        shown.join(", ")
    };
    let mut parts = Vec::new();
    if !list.only_direct.is_empty() {
        parts.push(format!("only directly: {}", names(&list.only_direct)));
    }
    if !list.only_bridge.is_empty() {
        parts.push(format!("only through the bridge: {}", names(&list.only_bridge)));
    }
    format!("{}; {}", list.list, parts.join("; "))
}
