//! Links between the pages point to headings that exist.

use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};

use crate::pages::{names, page};

/// The lines of a page outside of fenced blocks.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut is_fenced = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_fenced ^= is_fence;
        !is_fenced && !is_fence
    })
}

/// The anchors of the headings of a page, as GitHub makes them.
fn anchors(text: &str) -> Vec<String> {
    let mut seen = HashMap::<String, usize>::new();
    let headings = prose(text).filter(|line| line.starts_with('#'));
    headings
        .map(|line| {
            let title = line.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
            let anchor: String = title.chars().filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_')).collect();
            let count = seen.entry(anchor.clone()).and_modify(|count| *count += 1).or_default();
            if *count == 0 { anchor } else { format!("{anchor}-{count}") }
        })
        .collect()
}

/// The targets of the links of a page, also of those that are broken into two lines.
fn targets(text: &str) -> Vec<String> {
    let text = prose(text).collect::<Vec<_>>().join("\n");
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    targets.map(|(target, _)| target.to_owned()).collect()
}

/// The page that a link names, from the folder of the repository.
fn linked(from: &str, to: &str) -> String {
    let mut path = PathBuf::from(from);
    path.pop();
    for part in Path::new(to).components() {
        match part {
            Component::ParentDir => drop(path.pop()),
            part => path.push(part),
        }
    }
    path.display().to_string()
}

#[test]
fn every_link_to_a_heading_points_to_one() {
    let (mut wrong, mut checked) = (Vec::new(), 0);
    for name in names() {
        for target in targets(&page(&name)) {
            let Some((file, anchor)) = target.split_once('#').filter(|_| !target.contains("://")) else { continue };
            let to = if file.is_empty() { name.clone() } else { linked(&name, file) };
            checked += 1;
            if !anchors(&page(&to)).iter().any(|known| known == anchor) {
                wrong.push(format!("{name}: {target}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(checked > 100, "only {checked} links were found");
}

#[test]
fn anchors_are_made_as_github_makes_them() {
    let text = "# Output of `open`\n## A, b & c_d\n```sh\n# no heading\n```\n## A, b & c_d\n";
    assert_eq!(anchors(text), ["output-of-open", "a-b--c_d", "a-b--c_d-1"]);
    assert_eq!(targets("a [b\nc](d.md#e) `f` [g](#h)\n```\n[i](j)\n```\n"), ["d.md#e", "#h"]);
    assert_eq!(linked("docs/a.md", "../README.md"), "README.md");
}
