//! Checks that docs/check.md contains the table of the rules. `GLADHAND_BLESS=1` updates the page.

use std::fmt::Write as _;

use gladhand_check::{Level, Subject, rules};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/check.md");

/// The part between these markers is generated here.
const BEGIN: &str = "<!-- made from the table of rules by a test -->\n";
const END: &str = "<!-- end of what is made -->\n";

/// The groups of the page: a heading, the dialect and the judged side.
const GROUPS: [(&str, &str, Subject); 9] = [
    ("MCP servers", "mcp", Subject::Server),
    ("MCP clients", "mcp", Subject::Client),
    ("A2E hosts", "a2e", Subject::Server),
    ("A2E agents", "a2e", Subject::Client),
    ("loaf servers", "loaf", Subject::Server),
    ("loaf clients", "loaf", Subject::Client),
    ("Fluxloop servers", "fluxloop", Subject::Server),
    ("Fluxloop clients", "fluxloop", Subject::Client),
    ("Lint", gladhand_check::LINT, Subject::Server),
];

fn table() -> String {
    let mut text = String::from(BEGIN);
    let count = |level| rules().filter(|rule| rule.level == level).count();
    let (all, must, should) = (rules().count(), count(Level::Must), count(Level::Should));
    let _ = writeln!(text, "\n{all} rules: {must} MUST, {should} SHOULD, {} lint.", count(Level::Lint));
    for (heading, dialect, subject) in GROUPS {
        let _ = writeln!(
            text,
            "\n### {heading}\n\n| rule | level | versions | section | asks that |\n|---|---|---|---|---|"
        );
        for rule in rules().filter(|rule| rule.dialect == dialect && rule.subject == subject) {
            let (id, level, versions) = (rule.id, rule.level.word(), rule.versions);
            let _ = writeln!(text, "| `{id}` | {level} | {versions} | {} | {} |", rule.section, rule.about);
        }
    }
    text.push('\n');
    text.push_str(END);
    text
}

#[test]
fn the_page_lists_every_rule() {
    let listed = GROUPS.iter().flat_map(|(_, dialect, subject)| {
        rules().filter(move |rule| rule.dialect == *dialect && rule.subject == *subject)
    });
    assert_eq!(listed.count(), rules().count(), "every rule belongs to a group");
    let page = std::fs::read_to_string(PAGE).unwrap();
    let (before, rest) = page.split_once(BEGIN).expect("the page must contain the start marker");
    let (_, after) = rest.split_once(END).expect("the page must contain the end marker");
    let made = format!("{before}{}{after}", table());
    if std::env::var_os("GLADHAND_BLESS").is_some() {
        std::fs::write(PAGE, &made).unwrap();
    } else {
        assert!(page == made, "docs/check.md differs from the rules: run this test with GLADHAND_BLESS=1");
    }
}
