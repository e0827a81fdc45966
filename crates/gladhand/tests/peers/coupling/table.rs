//! The coupling as people read it.

use std::fmt::Write as _;

use super::servers::Server;
use super::verdict::Verdict;
use super::{Cell, Pair};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/coupling.md");

/// The test generates the text between these.
const BEGIN: &str = "<!-- made from the verdicts of the coupling by a test -->\n";
const END: &str = "<!-- end of what is made -->\n";

/// A table for each server, and the reason for each cell that is not exact.
pub(super) fn render(pairs: &[&Pair<'_>], servers: &[Server]) -> String {
    let mut reasons = Vec::new();
    let mut tables = String::new();
    for server in servers {
        let of_it = pairs.iter().copied().filter(|pair| std::ptr::eq(pair.server, server));
        let _ = write!(tables, "\n### To {}\n\n{}", server.name, rows(of_it, &mut reasons));
    }
    let mut text = format!("\n{}\n{tables}\n", sums(pairs));
    for (number, reason) in reasons.iter().enumerate() {
        let _ = writeln!(text, "{}. {reason}", number + 1);
    }
    text.push('\n');
    text
}

/// How many cells there are of each kind.
fn sums(pairs: &[&Pair<'_>]) -> String {
    let (mut exact, mut emulated, mut absent) = (0, 0, 0);
    for verdict in pairs.iter().flat_map(|pair| Cell::ALL.map(|cell| pair.verdict(cell))) {
        match verdict {
            Verdict::Exact => exact += 1,
            Verdict::Emulated(_) => emulated += 1,
            Verdict::Absent(_) => absent += 1,
        }
    }
    let all = exact + emulated + absent;
    format!("{} pairs, {all} cells: {exact} exact, {emulated} emulated, {absent} absent.\n", pairs.len())
}

fn rows<'m>(pairs: impl Iterator<Item = &'m Pair<'m>>, reasons: &mut Vec<&'static str>) -> String {
    let names: String = Cell::ALL.iter().map(|cell| format!(" {} |", cell.name())).collect();
    let mut text = format!("| client | way | direct |{names}\n|---|---|:-:|{}\n", ":-:|".repeat(Cell::ALL.len()));
    for pair in pairs {
        let direct = if pair.client.can_talk_to(pair.server) { "✓" } else { "–" };
        let _ = write!(text, "| {} | {} | {direct} |", pair.client.name, pair.way.name());
        for cell in Cell::ALL {
            let _ = match pair.verdict(cell) {
                Verdict::Exact => write!(text, " ✓ |"),
                Verdict::Emulated(reason) => write!(text, " ≈ {} |", number(reason, reasons)),
                Verdict::Absent(reason) => write!(text, " – {} |", number(reason, reasons)),
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

/// The differences between the page in the docs and the table.
pub(super) fn check_page(table: &str) -> Option<String> {
    let page = std::fs::read_to_string(PAGE).expect("there is a page about the coupling");
    let (before, rest) = page.split_once(BEGIN).expect("the page has a place for the table");
    let (_, after) = rest.split_once(END).expect("the place has an end");
    let made = format!("{before}{BEGIN}{table}{END}{after}");
    if std::env::var_os("GLADHAND_BLESS").is_some() {
        std::fs::write(PAGE, &made).expect("the page can be written");
        return None;
    }
    (page != made)
        .then(|| "docs/coupling.md is not what the verdicts say: run this test with GLADHAND_BLESS=1".to_owned())
}
