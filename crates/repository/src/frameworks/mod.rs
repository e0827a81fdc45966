//! `detect_frameworks`: the frameworks that a repository uses, with the evidence.
//!
//! The detection rules are data, see `frameworks/README.md`. Evidence is weighed separately for each project of the
//! tree, so that a dependency of one member does not count for another.

mod evidence;
mod findings;
mod from_profile;
mod table;

use std::borrow::Cow;
use std::collections::BTreeSet;

use gladhand_core::Order as _;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(crate) use self::evidence::managers;
use self::evidence::{Candidate, ProjectEvidence};
pub(crate) use self::findings::{Finding, findings, with_plain_line_ends};
pub use self::table::Kind;
pub(crate) use self::table::TABLE;
use crate::profile::entry_points;
use crate::recipes::Recipes;
use crate::root::Root;
use crate::survey::{FileFacts, Project, Survey};
use crate::{RepositoryError, Setting, Stage};

/// The input of `detect_frameworks`.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct DetectInput {
    /// A result of `analyze_repository`. If its root can be read, the answer comes from the files there, otherwise from the profile.
    #[serde(default, deserialize_with = "crate::input::object")]
    pub repository_profile: Option<ProfileInput>,
    /// The folder of the repository, instead of a profile.
    #[serde(default)]
    pub root: Option<String>,
    /// The integration target whose recipes are recommended: `fluxloop` by default.
    #[serde(default)]
    pub target: Option<String>,
}

/// The members of a profile that the tools read.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProfileInput {
    /// The folder that it describes.
    #[serde(default)]
    pub root: Option<String>,
    /// Programming languages.
    #[serde(default)]
    pub languages: Option<Vec<String>>,
    /// Package managers.
    #[serde(default)]
    pub package_managers: Option<Vec<String>>,
    /// Entry points.
    #[serde(default)]
    pub entry_points: Option<Vec<String>>,
    /// Frameworks that manifests name.
    #[serde(default)]
    pub framework_candidates: Option<Vec<String>>,
    /// The frameworks that `analyze_repository` detected. With them, a profile gives the same answer as the files.
    #[serde(default, deserialize_with = "crate::input::readable_or_nothing")]
    #[schemars(with = "Option<Vec<serde_json::Value>>")]
    pub detected_frameworks: Option<Vec<Framework>>,
}

/// Which frameworks a repository uses.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Detection {
    /// The frameworks, the most likely first.
    pub frameworks: Vec<Framework>,
    /// The recommended integration of each framework for which the target has a recipe.
    pub recommended_patterns: Vec<Recommendation>,
    /// The frameworks of each project, if the repository has several.
    pub members: Vec<MemberFrameworks>,
    /// Limits and doubts of the answer.
    pub warnings: Vec<String>,
}

/// A framework that is used.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Framework {
    /// Its name.
    pub name: String,
    /// From 0 to 0.99, with two decimals.
    pub confidence: f64,
    /// Positions where code could be inserted: existing files, and text that occurs exactly once in each.
    #[serde(rename = "insertAnchors")]
    pub insert_anchors: Vec<InsertAnchor>,
    /// One sentence for each kind of evidence.
    pub reasons: Vec<String>,
    /// Its name for people.
    pub title: String,
    /// The kind of framework.
    pub kind: Kind,
    /// Its version, if a lock file or an exact requirement states it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version_detected: Option<String>,
    /// The evidence, with files and lines.
    pub evidence: Vec<Evidence>,
    /// The projects that use it, by their folders; `.` is the root.
    pub members: Vec<String>,
}

/// A position where code could be inserted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InsertAnchor {
    /// The file, relative to the root.
    pub filepath: String,
    /// Literal text of it.
    pub pattern: String,
    /// The line that the statement begins in, from 1.
    pub line: usize,
}

/// A piece of evidence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Evidence {
    /// `constructor`, `import`, `dependency` or `file`.
    pub kind: Cow<'static, str>,
    /// The file, relative to the root.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The text of the line.
    pub text: String,
    /// The weight of this kind of evidence.
    pub weight: f64,
}

/// How a framework is integrated.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Recommendation {
    /// The framework.
    pub framework: String,
    /// The pattern by which the integration runs the application.
    pub runner_pattern: String,
    /// The URL of the documentation.
    pub doc_url: String,
    /// The confidence of the framework.
    pub confidence: f64,
    /// The reason.
    pub rationale: String,
}

/// The frameworks of one project.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct MemberFrameworks {
    /// Its folder; `.` is the root.
    pub path: String,
    /// The frameworks, the most likely first.
    pub frameworks: Vec<Framework>,
}

/// Detects the frameworks that a repository uses.
pub fn detect_frameworks(input: &DetectInput, setting: &Setting<'_>) -> Result<Detection, RepositoryError> {
    let target = setting.recipes.target(input.target.as_deref())?;
    let profile = input.repository_profile.clone().unwrap_or_default();
    if input.root.is_none() && !profile.is_readable(setting) {
        return Ok(from_profile::detect(&profile, target));
    }
    let root = Root::existing(setting.places, input.root.as_deref().or(profile.root.as_deref()))?;
    let survey = Survey::take(root, setting)?;
    setting.progress.report(Stage::Detect, 1, Some(1));
    Ok(Detection::of(&survey, target))
}

impl ProfileInput {
    /// Whether the folder that it describes exists and may be read.
    pub(crate) fn is_readable(&self, setting: &Setting<'_>) -> bool {
        self.root.is_some()
            && Root::existing(setting.places, self.root.as_deref()).is_ok_and(|root| root.path().is_dir())
    }
}

impl Detection {
    pub(crate) fn of(survey: &Survey, target: &crate::recipes::Target) -> Self {
        let mut members: Vec<MemberFrameworks> = Vec::new();
        for project in &survey.projects {
            let found = in_project(survey, project);
            let path = if project.path.is_empty() { "." } else { &project.path };
            members.push(MemberFrameworks { path: path.to_owned(), frameworks: found });
        }
        let frameworks = merged(&members);
        if members.len() == 1 {
            members.clear();
        }
        Self::new(frameworks, members, survey.warnings.clone(), target)
    }

    pub(crate) fn new(
        frameworks: Vec<Framework>,
        members: Vec<MemberFrameworks>,
        mut warnings: Vec<String>,
        target: &crate::recipes::Target,
    ) -> Self {
        if frameworks.is_empty() {
            warnings.push(NONE_FOUND.to_owned());
        }
        let recommend = |framework: &Framework| {
            let recipe = target.recipe(&framework.name)?;
            Some(Recommendation {
                framework: framework.name.clone(),
                runner_pattern: recipe.runner_pattern.clone(),
                doc_url: recipe.doc_url.clone(),
                confidence: framework.confidence,
                rationale: framework.reasons.join(" "),
            })
        };
        let recommended_patterns = frameworks.iter().filter_map(recommend).collect();
        Self { frameworks, recommended_patterns, members, warnings }
    }

    /// The framework with the highest confidence that has a recipe.
    pub(crate) fn primary(&self, target: &crate::recipes::Target) -> Option<&Framework> {
        self.frameworks.iter().find(|framework| target.recipe(&framework.name).is_some())
    }
}

/// The warning of an answer without frameworks.
pub(crate) const NONE_FOUND: &str = "No supported frameworks detected.";

impl Framework {
    /// Merges the same framework from another project. The reasons and evidence of the higher confidence come first.
    fn merge(&mut self, mut other: Self) {
        if other.confidence > self.confidence {
            std::mem::swap(self, &mut other);
        }
        self.insert_anchors.append(&mut other.insert_anchors);
        self.evidence.append(&mut other.evidence);
        self.reasons
            .extend(other.reasons.into_iter().filter(|reason| !self.reasons.contains(reason)).collect::<Vec<_>>());
        self.members.append(&mut other.members);
        self.members.order();
        self.version_detected = self.version_detected.take().or(other.version_detected);
    }
}

/// The frameworks of a whole tree, highest confidence first.
pub(crate) fn in_tree(survey: &Survey) -> Vec<Framework> {
    let found = |project: &Project| MemberFrameworks { path: String::new(), frameworks: in_project(survey, project) };
    merged(&survey.projects.iter().map(found).collect::<Vec<_>>())
}

/// The projects in which a framework is detected, by index, each with the statements that create the application
/// object.
pub(crate) fn projects_with<'s>(survey: &'s Survey, name: &str) -> Vec<(usize, Vec<(&'s FileFacts, &'s Finding)>)> {
    let of = |(index, project): (usize, &'s Project)| {
        let candidate = detected_in(survey, project).into_iter().find(|candidate| candidate.known.name == name)?;
        Some((index, candidate.constructors()))
    };
    survey.projects.iter().enumerate().filter_map(of).collect()
}

/// The frameworks of several projects together, highest confidence first.
fn merged(members: &[MemberFrameworks]) -> Vec<Framework> {
    let mut frameworks: Vec<Framework> = Vec::new();
    for framework in members.iter().flat_map(|member| &member.frameworks) {
        match frameworks.iter_mut().find(|known| known.name == framework.name) {
            Some(known) => known.merge(framework.clone()),
            None => frameworks.push(framework.clone()),
        }
    }
    sort(&mut frameworks);
    frameworks
}

/// The frameworks that are detected in one project, with their evidence.
fn detected_in<'s>(survey: &'s Survey, project: &'s Project) -> Vec<Candidate<'s>> {
    let evidence = ProjectEvidence::of(survey, project);
    let candidates = TABLE.frameworks.iter().enumerate().map(|(index, known)| Candidate::of(&evidence, index, known));
    let mut detected: Vec<Candidate<'_>> = candidates.filter(Candidate::is_detected).collect();
    let replaced: BTreeSet<&str> =
        detected.iter().flat_map(|candidate| &candidate.known.replaces).map(String::as_str).collect();
    detected.retain(|candidate| !replaced.contains(candidate.known.name.as_str()) || candidate.is_constructed());
    detected
}

/// The frameworks of one project.
fn in_project(survey: &Survey, project: &Project) -> Vec<Framework> {
    let detected = detected_in(survey, project);
    let entry_points: Vec<String> = entry_points::of(survey, project).into_iter().collect();
    let mut found: Vec<Framework> =
        detected.into_iter().map(|candidate| candidate.into_framework(&entry_points)).collect();
    sort(&mut found);
    found
}

/// Sorts by confidence, highest first; then by number of projects, then in the order of the table.
fn sort(frameworks: &mut [Framework]) {
    let index = |name: &str| TABLE.frameworks.iter().position(|known| known.name == name);
    frameworks.order_by(|a, b| {
        let by_confidence = b.confidence.total_cmp(&a.confidence);
        by_confidence.then(b.members.len().cmp(&a.members.len())).then_with(|| index(&a.name).cmp(&index(&b.name)))
    });
}

/// Names of frameworks and libraries that the manifests of a project name.
pub(crate) fn candidates(survey: &Survey, project: &Project) -> BTreeSet<String> {
    ProjectEvidence::of(survey, project).candidates()
}

/// The target of the recipes, by name.
pub(crate) fn default_target(recipes: &Recipes) -> Result<&crate::recipes::Target, RepositoryError> {
    recipes.target(None)
}
