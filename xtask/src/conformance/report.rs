//! What a run of the suite says: for the person who started it, and as a page.

use std::fmt::Write as _;

use super::explained;
use super::leg::{Checks, Leg, Role};
use super::server::{Behind, Way};

/// Totals of each leg, and everything that is bad.
pub(crate) fn summary(legs: &[Leg]) -> String {
    let mut text = String::new();
    for leg in legs {
        let _ = writeln!(text, "{} {}{}: {}", leg.role.word(), leg.revision, through(leg.way), totals(leg));
        for (scenario, checks) in &leg.results {
            if checks.passed() {
                continue;
            }
            let counts = if scenario.unscored.is_some() { " (not scored)" } else { "" };
            let _ = writeln!(text, "  {}{counts}: {}", scenario.name, counted(checks));
            for (id, said) in &checks.bad {
                let why = explained::reason(id, leg.revision, leg.way);
                let _ = writeln!(text, "    {id}: {}", why.or_else(|| said.lines().next()).unwrap_or_default());
            }
        }
        if !leg.content && leg.way == Way::Direct {
            let _ = writeln!(text, "  the suite itself is not content; see target/conformance");
        }
    }
    text.trim_end().to_owned()
}

/// The page for `docs/`.
pub(crate) fn page(legs: &[Leg], version: &str) -> String {
    let mut text = String::from("# MCP conformance\n\n");
    let _ = writeln!(
        text,
        "<!-- Written by `cargo xtask conformance --write`; not typed. -->\n\n\
         What the official suite, `@modelcontextprotocol/conformance` {version}, says of the fixture server\n\
         (`crates/gladhand/examples/conformance_server`) and the fixture client\n\
         (`crates/gladhand/examples/conformance_client`). A scenario passes if none of its checks fails or warns.\n\
         Scenarios that the suite runs and does not score are shown with its reason.\n"
    );
    let _ = writeln!(text, "| role | revision | scored scenarios passed | others passed |\n|---|---|---|---|");
    let (direct, bridged): (Vec<_>, Vec<_>) = legs.iter().partition(|leg| leg.way == Way::Direct);
    for leg in &direct {
        let (scored, others) = (count(leg, true), count(leg, false));
        let _ = writeln!(
            text,
            "| {} | {} | {}/{} | {}/{} |",
            leg.role.word(),
            leg.revision,
            scored.0,
            scored.1,
            others.0,
            others.1
        );
    }
    text.push_str(&behind_the_bridge(&bridged));
    for leg in &direct {
        let role = if leg.role == Role::Server { "Server" } else { "Client" };
        let _ = writeln!(text, "\n## {role}, {}\n\n| scenario | checks passed | |\n|---|---|---|", leg.revision);
        for (scenario, checks) in &leg.results {
            let verdict = if checks.passed() { "passed" } else { "**failed**" };
            let note = scenario.unscored.as_ref().map_or_else(String::new, |why| format!(", not scored: {why}"));
            let _ = writeln!(text, "| `{}` | {} | {verdict}{note} |", scenario.name, counted(checks));
        }
    }
    text
}

/// What becomes of the server's scenarios behind `gladhand bridge`, and why not all of them can pass there.
fn behind_the_bridge(legs: &[&Leg]) -> String {
    let mut text = String::from(
        "\n## Server, through the bridge\n\n\
         The same suite and the same server, with `gladhand bridge --http` between them, which speaks to the server in the\n\
         era of the suite or in the other.\n\n\
         | suite's revision | spoken to the server | server behind | scored scenarios passed | others passed |\n\
         |---|---|---|---|---|\n",
    );
    let mut left = String::new();
    for leg in legs {
        let Way::Bridged(behind, spoken) = leg.way else { continue };
        let (scored, others) = (count(leg, true), count(leg, false));
        let _ = writeln!(
            text,
            "| {} | {spoken} | {} | {}/{} | {}/{} |",
            leg.revision,
            behind.word(),
            scored.0,
            scored.1,
            others.0,
            others.1
        );
        // The same is true wherever the server is.
        if behind == Behind::Http {
            continue;
        }
        for (scenario, checks) in &leg.results {
            for (id, _) in &checks.bad {
                let why = explained::reason(id, leg.revision, leg.way).unwrap_or("**failed**");
                let _ = writeln!(left, "| {} | {spoken} | `{}` | `{id}` | {why} |", leg.revision, scenario.name);
            }
        }
    }
    text.push_str("\nWhat passes without the bridge and cannot pass behind it:\n\n");
    text.push_str("| suite's revision | spoken to the server | scenario | check | why |\n|---|---|---|---|---|\n");
    text + &left
}

/// The way, where there is something between.
fn through(way: Way) -> String {
    match way {
        Way::Direct => String::new(),
        Way::Bridged(behind, spoken) => format!(" through the bridge to {spoken} over {}", behind.word()),
    }
}

fn counted(checks: &Checks) -> String {
    let skipped = if checks.skipped > 0 { format!(" ({} skipped)", checks.skipped) } else { String::new() };
    format!("{}/{}{skipped}", checks.good, checks.made())
}

fn totals(leg: &Leg) -> String {
    let (scored, others) = (count(leg, true), count(leg, false));
    format!("{}/{} scored, {}/{} others", scored.0, scored.1, others.0, others.1)
}

/// How many scenarios passed, of how many: of those that count, or of the others.
fn count(leg: &Leg, scored: bool) -> (usize, usize) {
    let of = || leg.results.iter().filter(|(scenario, _)| scenario.unscored.is_none() == scored);
    (of().filter(|(_, checks)| checks.passed()).count(), of().count())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::requirements::Scenario;

    #[test]
    fn the_page_shows_every_scenario_and_the_totals() {
        let scenario =
            |name: &str, why: Option<&str>| Scenario { name: name.to_owned(), unscored: why.map(Into::into) };
        let good = Checks { good: 2, skipped: 1, bad: Vec::new() };
        let bad = Checks { good: 1, skipped: 0, bad: vec![("id".to_owned(), "said".to_owned())] };
        let results = vec![(scenario("one", None), good), (scenario("two", Some("pending")), bad)];
        let legs = [Leg { role: Role::Server, revision: "2026-07-28", way: Way::Direct, results, content: true }];
        let page = page(&legs, "1.2.3");
        for line in [
            "| server | 2026-07-28 | 1/1 | 0/1 |",
            "## Server, 2026-07-28",
            "| `one` | 2/2 (1 skipped) | passed |",
            "| `two` | 1/2 | **failed**, not scored: pending |",
        ] {
            assert!(page.lines().any(|found| found == line), "{page}");
        }
        assert!(legs[0].passed(), "what is not scored does not count");
        assert_eq!(summary(&legs).lines().last(), Some("    id: said"));
    }
}
