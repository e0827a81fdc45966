//! The requirements of the suite for a revision: its own list, read from its package.

use super::leg::Role;

/// One scenario of a leg.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Scenario {
    pub(crate) name: String,
    /// Why it does not count; none: it counts.
    pub(crate) unscored: Option<String>,
}

/// Reads the scenarios of a role from the suite's YAML: lists under `server:` and `client:`, and entries of
/// `scenario`, `leg` and `reason` under `not_scored:`. It uses no more of YAML than lines.
pub(crate) fn read(text: &str, role: Role) -> Vec<Scenario> {
    let mut scenarios = Vec::new();
    let mut section = "";
    let mut open: Option<Scenario> = None;
    for line in text.lines() {
        let line = line.split(" #").next().unwrap_or(line).trim_end();
        let entry = line.trim_start().trim_start_matches("- ");
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(name) = line.strip_suffix(':').filter(|name| !name.starts_with(' ')) {
            section = name;
        } else if section == role.word() {
            scenarios.push(Scenario { name: entry.to_owned(), unscored: None });
        } else if section == "not_scored" {
            match entry.split_once(": ") {
                Some(("scenario", name)) => open = Some(Scenario { name: name.to_owned(), unscored: None }),
                Some(("leg", leg)) if leg != role.word() => open = None,
                Some(("reason", reason)) => {
                    let unscored = Some(reason.to_owned());
                    scenarios.extend(open.take().map(|scenario| Scenario { unscored, ..scenario }));
                }
                _ => {}
            }
        }
    }
    scenarios
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scenarios_of_a_role_are_those_that_count_and_then_those_that_do_not() {
        let text = "# a: comment\nserver:\n  - one\n  - two # why\n\nclient:\n  - auth/three\nnot_scored:\n  \
                    - scenario: four\n    leg: server\n    reason: extension\n  - scenario: five\n    leg: client\n    \
                    reason: pending\n";
        let scored = |name: &str| Scenario { name: name.to_owned(), unscored: None };
        let unscored = |name: &str, why: &str| Scenario { unscored: Some(why.to_owned()), ..scored(name) };
        assert_eq!(read(text, Role::Server), [scored("one"), scored("two"), unscored("four", "extension")]);
        assert_eq!(read(text, Role::Client), [scored("auth/three"), unscored("five", "pending")]);
    }
}
