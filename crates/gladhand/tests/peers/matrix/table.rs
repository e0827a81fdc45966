//! The matrix as people read it.

use std::fmt::Write as _;
use std::path::Path;

use super::{Cell, Row, Seen};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/peers.md");

/// The test generates the text between these.
const BEGIN: &str = "<!-- made from the rows of the matrix by a test -->\n";
const END: &str = "<!-- end of what is made -->\n";

/// Both directions, and why what is absent is absent.
pub(super) fn render(clients: &[(&Row, Seen)], servers: &[(&Row, Seen)]) -> String {
    let mut reasons = Vec::new();
    let clients = rows(clients, &mut reasons);
    let servers = rows(servers, &mut reasons);
    let mut text = format!("\n## Clients of Gladhand\n\n{clients}\n## Servers that Gladhand uses\n\n{servers}\n");
    for (number, reason) in reasons.iter().enumerate() {
        let _ = writeln!(text, "{}. {reason}", number + 1);
    }
    text.push('\n');
    text
}

fn rows(sessions: &[(&Row, Seen)], reasons: &mut Vec<&'static str>) -> String {
    let names: String = Cell::ALL.iter().map(|cell| format!(" {} |", cell.name())).collect();
    let rule = "|---|---|---|---|".to_owned() + &":-:|".repeat(Cell::ALL.len());
    let mut text = format!("| peer | mode | transport | revision |{names}\n{rule}\n");
    for (row, seen) in sessions {
        let _ = write!(text, "| {} | {} | {} | {} |", row.peer, row.mode, row.transport.name(), row.revision);
        for cell in Cell::ALL {
            let _ = match (seen.get(&cell), row.reason(cell)) {
                (Some(Ok(())), _) => write!(text, " ✓ |"),
                (_, Some(reason)) => write!(text, " – {} |", number(reason, reasons)),
                _ => write!(text, " ✗ |"),
            };
        }
        text.push('\n');
    }
    text
}

fn number(reason: &'static str, reasons: &mut Vec<&'static str>) -> usize {
    let found = reasons.iter().position(|known| *known == reason);
    let position = found.unwrap_or_else(|| {
        reasons.push(reason);
        reasons.len() - 1
    });
    position + 1
}

/// Writes the table to a file for the developer, with the results of the cells that have no mark.
pub(super) fn print(table: &str, sessions: &[(&Row, Seen)]) {
    let mut text = table.to_owned();
    for (row, seen) in sessions {
        for (cell, why) in seen.iter().filter_map(|(cell, seen)| Some((cell, seen.as_ref().err()?))) {
            let _ = writeln!(text, "{}: {}: {why}", row.words(), cell.name());
        }
    }
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("it is in the target folder");
    std::fs::write(target.join("peer-matrix.txt"), text).expect("the target folder can be written to");
}

/// The differences between the page in the docs and the table.
pub(super) fn check_page(table: &str) -> Option<String> {
    let page = std::fs::read_to_string(PAGE).expect("there is a page about peers");
    let (before, rest) = page.split_once(BEGIN).expect("the page has a place for the table");
    let (_, after) = rest.split_once(END).expect("the place has an end");
    let made = format!("{before}{BEGIN}{table}{END}{after}");
    if std::env::var_os("GLADHAND_BLESS").is_some() {
        std::fs::write(PAGE, &made).expect("the page can be written");
        return None;
    }
    (page != made).then(|| "docs/peers.md is not what the matrix says: run this test with GLADHAND_BLESS=1".to_owned())
}
