//! `analyze_repository`: what a repository is made of.

pub(crate) mod entry_points;

use std::collections::{BTreeMap, BTreeSet};

use gladhand_core::Order as _;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::frameworks::{self, Framework};
use crate::manifest::Role;
use crate::root::Root;
use crate::survey::{Project, Survey};
use crate::{RepositoryError, Setting, Stage};

/// From how many lines on a repository is large.
const LARGE: usize = 100_000;

/// The input of `analyze_repository`.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct AnalyzeInput {
    /// The folder of the repository. `~` is the home folder; a relative path starts at the working folder.
    #[serde(default)]
    pub root: Option<String>,
    /// Patterns of paths to read, such as `src/**`. By default, all files are read.
    #[serde(default)]
    pub globs: Option<Vec<String>>,
}

/// The contents of a repository.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Profile {
    /// The folder, absolute and without links.
    pub root: String,
    /// Programming languages, the one with most files first.
    pub languages: Vec<String>,
    /// Package managers, sorted.
    pub package_managers: Vec<String>,
    /// Entry points: files in which programs start, relative to the root, sorted.
    pub entry_points: Vec<String>,
    /// Frameworks and libraries that manifests name, sorted.
    pub framework_candidates: Vec<String>,
    /// Names of risks.
    pub risk_flags: Vec<String>,
    /// The size of the repository.
    pub stats: Stats,
    /// The same risks with their reasons.
    pub risks: Vec<Risk>,
    /// Files that declare dependencies, and lock files.
    pub manifests: Vec<String>,
    /// The projects of the repository, except the one at its root.
    pub members: Vec<Member>,
    /// The result of `detect_frameworks`, which needs no files if it gets this profile.
    pub detected_frameworks: Vec<Framework>,
    /// Files that could not be read, and limits that were reached.
    pub warnings: Vec<String>,
}

/// The amount of code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, JsonSchema)]
pub struct Stats {
    /// The number of source files.
    pub files: usize,
    /// The number of their lines.
    pub loc: usize,
    /// The number of folders that were read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub directories: Option<usize>,
}

/// A risk of the repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Risk {
    /// Its name.
    pub flag: &'static str,
    /// The reason, in one sentence.
    pub message: String,
}

/// A project within the repository.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Member {
    /// Its folder, relative to the root.
    pub path: String,
    /// Its name, from its manifest.
    pub name: Option<String>,
    /// Whether a workspace declares it.
    pub declared: bool,
    /// As in the whole profile.
    pub languages: Vec<String>,
    /// As in the whole profile.
    pub package_managers: Vec<String>,
    /// As in the whole profile.
    pub entry_points: Vec<String>,
    /// As in the whole profile.
    pub framework_candidates: Vec<String>,
    /// As in the whole profile.
    pub stats: Stats,
}

/// Analyses the contents of a repository.
pub fn analyze_repository(input: &AnalyzeInput, setting: &Setting<'_>) -> Result<Profile, RepositoryError> {
    let root = Root::existing(setting.places, input.root.as_deref())?;
    let survey = Survey::take(root, setting)?;
    let survey = survey.narrowed(input.globs.as_deref().unwrap_or_default())?;
    setting.progress.report(Stage::Analyze, 1, Some(1));
    Ok(Profile::of(&survey))
}

impl Profile {
    pub(crate) fn of(survey: &Survey) -> Self {
        let parts: Vec<Part> = survey.projects.iter().map(|project| Part::of(survey, project)).collect();
        let whole = parts.iter().fold(Part::default(), Part::joined);
        let stats = Stats { directories: Some(survey.directories), ..whole.stats() };
        let risks = risks(survey, &whole);
        let members = survey.projects.iter().zip(parts).filter(|(project, _)| !project.path.is_empty());
        Self {
            root: survey.root.shown(),
            languages: whole.languages(),
            package_managers: strings(&whole.managers),
            entry_points: strings(&whole.entry_points),
            framework_candidates: strings(&whole.candidates),
            risk_flags: risks.iter().map(|risk| risk.flag.to_owned()).collect(),
            stats,
            risks,
            manifests: survey
                .files
                .iter()
                .filter(|file| file.manifest.is_some() && !file.aside)
                .map(|file| file.path.clone())
                .collect(),
            members: members.map(|(project, part)| part.into_member(project)).collect(),
            detected_frameworks: frameworks::in_tree(survey),
            warnings: survey.warnings.clone(),
        }
    }
}

/// The contents of one project.
#[derive(Debug, Clone, Default)]
struct Part {
    name: Option<String>,
    /// Files and lines by language.
    code: BTreeMap<&'static str, (usize, usize)>,
    managers: BTreeSet<String>,
    entry_points: BTreeSet<String>,
    candidates: BTreeSet<String>,
}

impl Part {
    fn of(survey: &Survey, project: &Project) -> Self {
        let mut part = Self { entry_points: entry_points::of(survey, project), ..Self::default() };
        for file in survey.files_of(project) {
            if let Some(language) = file.language {
                let (files, lines) = part.code.entry(language.name()).or_default();
                *files += 1;
                *lines += file.lines;
            }
            if let Some(manifest) = file.manifest.as_ref().filter(|_| !file.aside) {
                part.managers.extend(manifest.managers.iter().map(|manager| (*manager).to_owned()));
                if part.name.is_none() {
                    part.name.clone_from(&manifest.name);
                }
            }
        }
        part.candidates = frameworks::candidates(survey, project);
        part
    }

    fn joined(mut self, other: &Self) -> Self {
        for (language, (files, lines)) in &other.code {
            let sum = self.code.entry(language).or_default();
            *sum = (sum.0 + files, sum.1 + lines);
        }
        self.managers.extend(other.managers.iter().cloned());
        self.entry_points.extend(other.entry_points.iter().cloned());
        self.candidates.extend(other.candidates.iter().cloned());
        self
    }

    /// Most files first; among equals, by name.
    fn languages(&self) -> Vec<String> {
        let mut languages: Vec<_> = self.code.iter().collect();
        languages.order_by_key(|(name, (files, _))| (std::cmp::Reverse(*files), **name));
        languages.into_iter().map(|(name, _)| (*name).to_owned()).collect()
    }

    fn stats(&self) -> Stats {
        let (files, loc) = self.code.values().fold((0, 0), |(files, loc), one| (files + one.0, loc + one.1));
        Stats { files, loc, directories: None }
    }

    fn into_member(self, project: &Project) -> Member {
        Member {
            path: project.path.clone(),
            declared: project.declared,
            languages: self.languages(),
            stats: self.stats(),
            package_managers: strings(&self.managers),
            entry_points: strings(&self.entry_points),
            framework_candidates: strings(&self.candidates),
            name: self.name,
        }
    }
}

fn strings(set: &BTreeSet<String>) -> Vec<String> {
    set.iter().cloned().collect()
}

fn risks(survey: &Survey, whole: &Part) -> Vec<Risk> {
    let mut risks = Vec::new();
    let mut add = |flag, message: String| risks.push(Risk { flag, message });
    match whole.entry_points.len() {
        0 => add("missing_entrypoint", "No file was found in which a program begins.".to_owned()),
        1 => {}
        count => add("multiple_entrypoints", format!("Programs begin in {count} files.")),
    }
    for (folder, managers) in mixed_managers(survey) {
        let place = if folder.is_empty() { "The root" } else { folder };
        add("mixed_package_managers", format!("{place} has lock files of {}.", managers.join(" and ")));
    }
    let loc = whole.stats().loc;
    if loc > LARGE {
        add("large_repository", format!("There are {loc} lines of code."));
    }
    for (path, why) in &survey.broken {
        add("broken_manifest", format!("{path} could not be read: {why}."));
    }
    risks
}

/// Folders whose lock files were written by different programs for the same packages.
fn mixed_managers(survey: &Survey) -> Vec<(&str, Vec<&'static str>)> {
    let mut writers: BTreeMap<_, BTreeSet<&'static str>> = BTreeMap::new();
    for file in survey.files.iter().filter(|file| !file.aside) {
        if let (Some(format), Some(manifest)) = (file.format.filter(|format| format.role == Role::Lock), &file.manifest)
        {
            writers
                .entry((crate::survey::folder(&file.path), format.ecosystem))
                .or_default()
                .extend(manifest.managers.first());
        }
    }
    let mixed = writers.into_iter().filter(|(_, managers)| managers.len() > 1);
    mixed.map(|((folder, _), managers)| (folder, managers.into_iter().collect())).collect()
}
