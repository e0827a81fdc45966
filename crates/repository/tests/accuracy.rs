//! Measures how well frameworks are recognised in the trees of `accuracy/`, and holds us to the bars.
//!
//! `cargo xtask accuracy` shows the table that this prints.

mod common;

use std::collections::BTreeMap;
use std::path::Path;

use gladhand_repository::{
    DetectInput, Detection, IntegrationInput, ValidateInput, detect_frameworks, propose_edit_plan, validate_edit_plan,
};

/// The expected result for a tree.
struct Expected {
    name: String,
    primary: Option<String>,
    frameworks: Vec<String>,
    members: BTreeMap<String, Vec<String>>,
    tree: tempfile::TempDir,
}

/// The expected results, which stand at the beginning of a tree.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    primary: Option<String>,
    frameworks: Vec<String>,
    #[serde(default)]
    members: BTreeMap<String, Vec<String>>,
}

impl Expected {
    fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).expect("trees can be read");
        let head = text.find("-- ").map_or("", |end| &text[..end]);
        let head: Head = toml::from_str(head).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
        let name = path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
        let Head { primary, frameworks, members } = head;
        Self { name, primary, frameworks, members, tree: common::tree(&text) }
    }

    fn detect(&self) -> Detection {
        let input = DetectInput { root: Some(".".to_owned()), ..DetectInput::default() };
        common::within(self.tree.path(), |setting| detect_frameworks(&input, setting))
            .expect("every tree has an answer")
    }
}

fn all() -> Vec<Expected> {
    let entries = std::fs::read_dir(common::folder("accuracy")).expect("the set is there");
    let paths = entries.flatten().map(|entry| entry.path());
    let mut paths: Vec<_> =
        paths.filter(|path| path.extension().is_some_and(|extension| extension == "tree")).collect();
    paths.sort_unstable();
    paths.iter().map(|path| Expected::read(path)).collect()
}

/// Found rightly, found wrongly, missed.
#[derive(Default, Clone, Copy)]
struct Score {
    right: usize,
    wrong: usize,
    missed: usize,
}

impl Score {
    fn share(part: usize, other: usize) -> String {
        if part + other == 0 { "-".to_owned() } else { format!("{:.0} %", 100.0 * part as f64 / (part + other) as f64) }
    }

    fn row(self, name: &str) -> String {
        let Self { right, wrong, missed } = self;
        format!(
            "{name:<16} {right:>5} {wrong:>5} {missed:>6} {:>9} {:>7}",
            Self::share(right, wrong),
            Self::share(right, missed)
        )
    }
}

#[test]
fn the_bars_are_met() {
    let expected = all();
    let mut scores: BTreeMap<String, Score> = BTreeMap::new();
    let (mut primary_right, mut invented, mut anchors, mut anchors_good, mut mistakes) = (0, 0, 0, 0, Vec::new());
    for one in &expected {
        let detection = one.detect();
        let found: Vec<String> = detection.frameworks.iter().map(|framework| framework.name.clone()).collect();
        let first = found.first().cloned();
        if first == one.primary {
            primary_right += 1;
        } else {
            mistakes.push(format!("{}: primary {first:?} instead of {:?}", one.name, one.primary));
        }
        if one.frameworks.is_empty() {
            invented += found.len();
        }
        for name in &found {
            let score = scores.entry(name.clone()).or_default();
            if one.frameworks.contains(name) { score.right += 1 } else { score.wrong += 1 }
        }
        for name in one.frameworks.iter().filter(|name| !found.contains(name)) {
            scores.entry(name.clone()).or_default().missed += 1;
        }
        if found.iter().collect::<std::collections::BTreeSet<_>>() != one.frameworks.iter().collect() {
            mistakes.push(format!("{}: found {found:?} instead of {:?}", one.name, one.frameworks));
        }
        for (path, names) in &one.members {
            let member = detection.members.iter().find(|member| member.path == *path);
            let names_found: Vec<_> = member
                .map(|member| member.frameworks.iter().map(|framework| framework.name.clone()).collect())
                .unwrap_or_default();
            if member.is_none() || names_found != *names {
                mistakes.push(format!("{}: member {path} has {names_found:?} instead of {names:?}", one.name));
            }
        }
        for anchor in detection.frameworks.iter().flat_map(|framework| &framework.insert_anchors) {
            let text = std::fs::read_to_string(one.tree.path().join(&anchor.filepath))
                .unwrap_or_default()
                .replace("\r\n", "\n");
            anchors += 1;
            anchors_good += usize::from(text.matches(&anchor.pattern).count() == 1);
        }
    }
    println!("{:<16} {:>5} {:>5} {:>6} {:>9} {:>7}", "framework", "right", "wrong", "missed", "precision", "recall");
    let total = scores.values().fold(Score::default(), |sum, one| Score {
        right: sum.right + one.right,
        wrong: sum.wrong + one.wrong,
        missed: sum.missed + one.missed,
    });
    for (name, score) in &scores {
        println!("{}", score.row(name));
    }
    println!("{}\n", total.row("all"));
    println!("trees                     {}", expected.len());
    println!("primary framework right   {primary_right} of {} (bar: 95 %)", expected.len());
    println!("frameworks invented       {invented} (bar: 0)");
    println!("anchors that exist once   {anchors_good} of {anchors} (bar: all)");
    for mistake in &mistakes {
        println!("mistake: {mistake}");
    }
    assert!(expected.len() >= 40, "the set is large enough to mean something");
    assert!(primary_right * 100 >= expected.len() * 95, "the primary framework is right in 95 % of the trees");
    assert_eq!(invented, 0, "nothing is invented where there is nothing");
    assert_eq!(anchors_good, anchors, "every anchor exists exactly once");
}

#[test]
fn every_plan_that_is_proposed_is_valid() {
    let mut plans = 0;
    for one in all() {
        let Some(primary) = one.primary.clone() else { continue };
        for target in ["fluxloop", "mcp-server", "gladhand"] {
            common::within(one.tree.path(), |setting| {
                let input = IntegrationInput {
                    framework: Some(primary.clone()),
                    root: Some(".".to_owned()),
                    target: Some(target.to_owned()),
                    ..IntegrationInput::default()
                };
                let Ok(plan) = propose_edit_plan(&input, setting) else { return };
                if plan.edits.is_empty() {
                    assert!(!plan.warnings.is_empty(), "{} {target}: a plan without edits says why", one.name);
                    return;
                }
                plans += 1;
                let written = serde_json::to_value(&plan).unwrap();
                let validation =
                    validate_edit_plan(&ValidateInput { plan: Some(written), root: Some(".".to_owned()) }, setting)
                        .unwrap();
                assert!(validation.valid, "{} {target}: {:#?}\n{:#?}", one.name, validation.problems, plan.patches);
                assert_eq!(
                    plan.patches.len(),
                    plan.edits.iter().map(|edit| &edit.filepath).collect::<std::collections::BTreeSet<_>>().len()
                );
            });
        }
    }
    assert!(plans > 60, "most trees get plans, not {plans}");
}

#[test]
fn the_same_tree_gives_the_same_bytes() {
    for one in all().iter().step_by(7) {
        let first = serde_json::to_string(&one.detect()).unwrap();
        assert_eq!(first, serde_json::to_string(&one.detect()).unwrap(), "{}", one.name);
    }
}
