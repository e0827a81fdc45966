//! Frameworks from a profile alone, if the files cannot be read.
//!
//! A profile of `analyze_repository` contains the detected frameworks, which are the answer. For other profiles, the
//! confidence is calculated as Fluxloop's own server does, without two of its mistakes: a language alone is no framework,
//! and there are no anchors in files that were not read.

use super::table::{FrameworkRules, TABLE};
use super::{Detection, Framework, ProfileInput};
use crate::manifest::Ecosystem;
use crate::recipes::Target;
use crate::source::Family;

/// Ends of entry points that suggest a framework, and what each is worth.
const ENTRY_POINTS: [(&str, &str, f64); 5] = [
    ("src/server.ts", "express", 0.70),
    ("app/main.py", "fastapi", 0.70),
    ("pages/api/fluxloop.ts", "nextjs", 0.65),
    ("app/api/fluxloop/route.ts", "nextjs", 0.65),
    ("src/main.ts", "nestjs", 0.65),
];

pub(super) fn detect(profile: &ProfileInput, target: &Target) -> Detection {
    let frameworks = profile.detected_frameworks.clone().unwrap_or_else(|| weighed(profile));
    Detection::new(frameworks, Vec::new(), Vec::new(), target)
}

/// The frameworks that the other members of a profile suggest, the surest first.
fn weighed(profile: &ProfileInput) -> Vec<Framework> {
    let mut frameworks: Vec<Framework> =
        TABLE.frameworks.iter().filter_map(|known| framework(profile, known)).collect();
    let found = frameworks.iter().filter_map(|framework| TABLE.named(&framework.name));
    let replaced: Vec<&str> = found.flat_map(|known| &known.replaces).map(String::as_str).collect();
    // A framework that another one includes is reported only if an entry point gives evidence for it.
    frameworks.retain(|framework| {
        let has_entry_point = framework.reasons.iter().any(|reason| reason.starts_with("Entry point "));
        has_entry_point || !replaced.contains(&framework.name.as_str())
    });
    super::sort(&mut frameworks);
    frameworks
}

fn framework(profile: &ProfileInput, known: &FrameworkRules) -> Option<Framework> {
    let has = |list: &Option<Vec<String>>, names: &[&str]| {
        list.iter().flatten().any(|given| names.iter().any(|name| given.eq_ignore_ascii_case(name)))
    };
    let mut reasons = Vec::new();
    let mut weights = Vec::new();
    for entry in profile.entry_points.iter().flatten() {
        let ends = |end: &str| {
            entry
                .to_ascii_lowercase()
                .strip_suffix(end)
                .is_some_and(|before| before.is_empty() || before.ends_with('/'))
        };
        for (_, _, weight) in ENTRY_POINTS.iter().filter(|(end, name, _)| *name == known.name && ends(end)) {
            weights.push(*weight);
            reasons.push(match known.name.as_str() {
                "nextjs" => format!("Entry point {entry} indicates Next.js API route."),
                "nestjs" => format!("Entry point {entry} indicates NestJS bootstrap file."),
                _ => format!("Entry point {entry} suggests {} usage.", known.title),
            });
        }
    }
    let is_npm = known.ecosystems().any(|ecosystem| ecosystem == Ecosystem::Npm);
    if known.kind != super::Kind::Library && has(&profile.framework_candidates, &[&known.name]) {
        let ecosystem = known.ecosystems().find(|one| *one == Ecosystem::Npm).or_else(|| known.ecosystems().next())?;
        weights.push(TABLE.weights.dependency.get(&ecosystem).copied()?);
        reasons.push(if is_npm {
            format!("package.json suggests {}.", known.name)
        } else {
            format!("Dependency analysis found {}.", known.name)
        });
    }
    if weights.is_empty() {
        return None;
    }
    let javascript = has(&profile.languages, &["typescript", "javascript"]) || has(&profile.package_managers, &["npm"]);
    let python = has(&profile.languages, &["python"]) || has(&profile.package_managers, &["pip"]);
    let families: Vec<Family> = known.families().collect();
    if javascript && families == [Family::Javascript] {
        weights.insert(0, TABLE.weights.language.get(&Family::Javascript).copied()?);
        reasons.insert(0, "JavaScript/TypeScript project with npm detected.".to_owned());
    } else if python && families == [Family::Python] {
        weights.insert(0, TABLE.weights.language.get(&Family::Python).copied()?);
        reasons.insert(0, "Python project with pip detected.".to_owned());
    }
    let sum = weights[0] + weights[1..].iter().sum::<f64>() / 5.0;
    let confidence = (sum.min(TABLE.weights.most) * 100.0).round() / 100.0;
    Some(Framework {
        name: known.name.clone(),
        confidence,
        insert_anchors: Vec::new(),
        reasons,
        title: known.title.clone(),
        kind: known.kind,
        version_detected: None,
        evidence: Vec::new(),
        members: Vec::new(),
    })
}
