//! Checks that docs/mcp.md contains the tables of the gate. `GLADHAND_BLESS=1` updates the page.

use std::fmt::Write as _;

use gladhand_core::negotiation::{Defined, Kind, Side};
use gladhand_dialects::mcp::capabilities::{CAPABILITIES, defines};
use gladhand_dialects::mcp::methods::TABLE;
use gladhand_dialects::mcp::revision::Revision;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/mcp.md");

/// The part between these markers is generated here.
const BEGIN: &str = "<!-- made from the method table by a test -->\n";
const END: &str = "<!-- end of what is made -->\n";

fn columns() -> String {
    Revision::ALL.iter().map(|revision| format!(" {} |", revision.as_str())).collect()
}

fn tables() -> String {
    let mut text = String::from(BEGIN);
    let rule = "|---|---|---|".to_owned() + &":-:|".repeat(Revision::ALL.len());
    let _ = writeln!(text, "\n| message | from | opened by |{}\n{rule}", columns());
    for row in TABLE {
        let mark = |revision: &Revision| if row.is_in(revision.as_str()) { " ✓ |" } else { " |" };
        let marks: String = Revision::ALL.iter().map(mark).collect();
        let needs = row.needs.map_or_else(String::new, |need| format!("{}'s `{}`", need.owner.word(), need.capability));
        let name = match row.kind {
            Kind::Call => format!("`{}`", row.name),
            Kind::Notice => format!("*`{}`*", row.name),
        };
        let _ = writeln!(text, "| {name} | {} | {needs} |{marks}", row.from.word());
    }
    let rule = "|---|---|".to_owned() + &":-:|".repeat(Revision::ALL.len());
    let _ = writeln!(text, "\n| capability | of |{}\n{rule}", columns());
    for owner in [Side::Server, Side::Client] {
        for known in CAPABILITIES.iter().filter(|known| known.owner == owner) {
            let mark = |revision: &Revision| match defines(revision.as_str(), owner, known.name) {
                Defined::Yes => " ✓ |",
                _ => " |",
            };
            let marks: String = Revision::ALL.iter().map(mark).collect();
            let _ = writeln!(text, "| `{}` | {} |{marks}", known.name, owner.word());
        }
    }
    text.push('\n');
    text.push_str(END);
    text
}

#[test]
fn the_page_shows_the_tables_that_the_gate_reads() {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let (before, rest) = page.split_once(BEGIN).expect("the page must contain the start marker");
    let (_, after) = rest.split_once(END).expect("the page must contain the end marker");
    let made = format!("{before}{}{after}", tables());
    if std::env::var_os("GLADHAND_BLESS").is_some() {
        std::fs::write(PAGE, &made).unwrap();
    } else {
        assert!(page == made, "docs/mcp.md differs from the tables: run this test with GLADHAND_BLESS=1");
    }
}
