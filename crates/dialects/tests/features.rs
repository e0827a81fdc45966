//! Checks that the feature table in the docs matches the tables of the gates.

use std::fmt::Write as _;

use gladhand_core::operations::Feature;
use gladhand_dialects::{REGISTRY, versions_with};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/dialects.md");

/// One row for each feature, one column for each dialect.
fn table() -> String {
    let names: Vec<_> = REGISTRY.iter().map(|dialect| dialect.name).collect();
    let mut table = format!("| feature | {} |\n|---|{}\n", names.join(" | "), "---|".repeat(names.len()));
    for feature in Feature::ALL {
        let _ = write!(table, "| {} |", feature.word());
        for dialect in REGISTRY {
            let versions = versions_with(dialect, feature);
            let cell = match versions.as_slice() {
                [] => "no".to_owned(),
                all if all.len() == dialect.versions.len() => "yes".to_owned(),
                [first, ..] => format!("since {first}"),
            };
            let _ = write!(table, " {cell} |");
        }
        table.push('\n');
    }
    table
}

#[test]
fn the_docs_contain_the_feature_table() {
    let page = std::fs::read_to_string(PAGE).unwrap();
    assert!(page.contains(&table()), "docs/dialects.md must have this table:\n{}", table());
}

#[test]
fn a_feature_is_never_removed_by_a_later_version() {
    for dialect in REGISTRY {
        let mut all = dialect.versions.to_vec();
        all.sort_unstable();
        for feature in Feature::ALL {
            let versions = versions_with(dialect, feature);
            assert!(all.ends_with(&versions), "{} {}: {versions:?}", dialect.name, feature.word());
        }
    }
}
