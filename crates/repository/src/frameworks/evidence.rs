//! The evidence for a framework in one project, and the confidence that it adds up to.

use std::collections::BTreeSet;

use super::findings::{Finding, anchor, with_plain_line_ends};
use super::table::{FileRule, FindingKind, FrameworkRules, Kind, RuleId, TABLE, Table};
use super::{Evidence, Framework, InsertAnchor};
use crate::manifest::{Dependency, Ecosystem, Format, Role, Usage};
use crate::source::Family;
use crate::survey::{FileFacts, Project, Survey, folder};
use crate::text;
use gladhand_core::Order as _;

/// How many pieces of evidence and anchors an answer shows for one framework of a project.
const MOST_SHOWN: usize = 8;

/// The evidence of a project for any framework, gathered once.
pub(super) struct ProjectEvidence<'s> {
    survey: &'s Survey,
    project: &'s Project,
    manifests: Vec<&'s FileFacts>,
    sources: Vec<&'s FileFacts>,
    /// Conventional files of frameworks, with the rule that matches.
    conventions: Vec<(&'s FileFacts, RuleId)>,
}

impl<'s> ProjectEvidence<'s> {
    pub(super) fn of(survey: &'s Survey, project: &'s Project) -> Self {
        let mut evidence =
            Self { survey, project, manifests: Vec::new(), sources: Vec::new(), conventions: Vec::new() };
        for file in survey.files_of(project) {
            if !file.findings.is_empty() {
                evidence.sources.push(file);
            }
            if !file.aside {
                if file.manifest.is_some() {
                    evidence.manifests.push(file);
                }
                evidence.conventions.extend(TABLE.rules_for(project.inner(&file.path)).map(|rule| (file, rule)));
            }
        }
        evidence
    }

    /// Names of frameworks and libraries that the manifests name.
    pub(super) fn candidates(&self) -> BTreeSet<String> {
        let named = TABLE.frameworks.iter().filter(|known| !dependencies(self, known).is_empty());
        named.map(|known| known.name.clone()).collect()
    }
}

/// The evidence of a project for one framework.
pub(super) struct Candidate<'s> {
    pub(super) known: &'static FrameworkRules,
    survey: &'s Survey,
    project: &'s Project,
    dependencies: Dependencies<'s>,
    source: Vec<(&'s FileFacts, &'s Finding)>,
    files: Vec<FileEvidence>,
}

struct FileEvidence {
    path: String,
    weak: bool,
    line: usize,
    text: String,
    anchor: Option<String>,
}

impl<'s> Candidate<'s> {
    pub(super) fn of(evidence: &ProjectEvidence<'s>, index: usize, known: &'static FrameworkRules) -> Self {
        let ProjectEvidence { survey, project, .. } = *evidence;
        let mut candidate =
            Self { known, survey, project, dependencies: Vec::new(), source: Vec::new(), files: Vec::new() };
        if is_itself(evidence, known) {
            return candidate;
        }
        candidate.dependencies = dependencies(evidence, known);
        for file in &evidence.sources {
            let about = file.findings.iter().filter(|finding| finding.framework == index);
            candidate.source.extend(about.map(|finding| (*file, finding)));
        }
        let rules = evidence.conventions.iter().filter(|(_, rule)| rule.framework == index);
        candidate.files =
            rules.filter_map(|(file, rule)| convention(survey, file, &known.files[rule.number])).collect();
        // Constructors first, those at the top of files first, tests last.
        candidate.source.order_by_key(|(file, finding)| {
            let asks = finding.inside && finding.found == FindingKind::Import;
            (file.aside, finding.found, asks, finding.bound.is_none())
        });
        candidate.dependencies.order_by_key(|(_, dependency, _)| dependency.usage);
        candidate
    }

    /// Whether the source creates the framework's application object.
    pub(super) fn is_constructed(&self) -> bool {
        !self.constructors().is_empty()
    }

    /// The statements that create the framework's application object.
    pub(super) fn constructors(&self) -> Vec<(&'s FileFacts, &'s Finding)> {
        let is_one = |(file, finding): &&(&FileFacts, &Finding)| {
            finding.found == FindingKind::Constructor && !file.aside && !self.is_local(finding)
        };
        self.source.iter().filter(is_one).copied().collect()
    }

    /// Whether the evidence is sufficient to report the framework.
    pub(super) fn is_detected(&self) -> bool {
        let needed = self.dependencies.iter().any(|(_, dependency, _)| dependency.usage == Usage::Runtime);
        let imported =
            self.source.iter().any(|(file, finding)| !file.aside && !finding.inside && !self.is_local(finding));
        let shown = self.is_constructed() || imported || self.files.iter().any(|file| !file.weak);
        let detected = needed || shown && !(self.known.needs_dependency && self.dependencies.is_empty());
        detected && self.known.kind != Kind::Library
    }

    /// Whether a Python module is one of the project's own, unless the framework is also a dependency.
    fn is_local(&self, finding: &Finding) -> bool {
        let is_python = |file: &FileFacts| file.path.ends_with(".py");
        let at = |path: String| self.survey.has_file(&self.project.outer(&path));
        self.dependencies.is_empty()
            && self.survey.files_of(self.project).any(is_python)
            && (at(format!("{}.py", finding.module))
                || at(format!("{}/__init__.py", finding.module))
                || at(format!("src/{}/__init__.py", finding.module)))
    }

    /// The framework in the form of the answer.
    pub(super) fn into_framework(self, entry_points: &[String]) -> Framework {
        let table = &*TABLE;
        let mut assessment =
            Assessment { confidence: 0.0, evidence: Vec::new(), reasons: Vec::new(), most: table.weights.most };
        if let Some(family) = self.family() {
            let weight = table.weights.language.get(&family).copied().unwrap_or_default();
            assessment.add_weight(weight, language_reason(family, &self.managers()));
        }
        self.add_source(table, entry_points, &mut assessment);
        self.add_dependencies(table, &mut assessment);
        self.add_files(table, &mut assessment);
        let member = if self.project.path.is_empty() { ".".to_owned() } else { self.project.path.clone() };
        Framework {
            name: self.known.name.clone(),
            confidence: (assessment.confidence * 100.0).round() / 100.0,
            insert_anchors: self.anchors(),
            reasons: assessment.reasons,
            title: self.known.title.clone(),
            kind: self.known.kind,
            version_detected: self.version(),
            evidence: assessment.evidence,
            members: vec![member],
        }
    }

    fn add_source(&self, table: &Table, entry_points: &[String], assessment: &mut Assessment) {
        let Some((file, best)) = self.source.first() else { return };
        let full = table.weight(self.known, best.found);
        let weight = if file.aside || best.inside && best.found == FindingKind::Import { full / 2.0 } else { full };
        let (path, title) = (&file.path, &self.known.title);
        let reason = match best.found {
            FindingKind::Constructor if entry_points.contains(path) => {
                format!("Entry point {path} suggests {title} usage.")
            }
            FindingKind::Constructor => format!("{path} makes a {title} application."),
            FindingKind::Import | FindingKind::File => format!("{path} imports {title}."),
        };
        assessment.add_weight(weight, reason);
        for (file, finding) in self.source.iter().take(MOST_SHOWN) {
            let kind = if finding.found == FindingKind::Constructor { "constructor" } else { "import" };
            assessment.add_evidence(
                kind,
                &file.path,
                finding.line,
                &finding.text,
                table.weight(self.known, finding.found),
            );
        }
    }

    fn add_dependencies(&self, table: &Table, assessment: &mut Assessment) {
        let Some((file, best, ecosystem)) = self.dependencies.first() else { return };
        let full = table.weights.dependency.get(ecosystem).copied().unwrap_or_default();
        let weight = if best.usage == Usage::Runtime { full } else { full / 2.0 };
        let name = &self.known.name;
        let file_name = file.path.rsplit('/').next().unwrap_or(&file.path);
        assessment.add_weight(
            weight,
            match ecosystem {
                Ecosystem::Npm => format!("{file_name} suggests {name}."),
                Ecosystem::Pypi => format!("Dependency analysis found {name}."),
                _ => format!("{file_name} names {}.", best.name),
            },
        );
        for (file, dependency, _) in self.dependencies.iter().take(MOST_SHOWN) {
            assessment.add_evidence("dependency", &file.path, dependency.line, &dependency.text, full);
        }
    }

    fn add_files(&self, table: &Table, assessment: &mut Assessment) {
        let full = table.weight(self.known, FindingKind::File);
        let Some(best) = self.files.iter().min_by_key(|file| file.weak) else { return };
        assessment.add_weight(
            if best.weak { full / 2.0 } else { full },
            format!("{} is where {} keeps it.", best.path, self.known.title),
        );
        for file in self.files.iter().take(MOST_SHOWN) {
            assessment.add_evidence("file", &file.path, file.line, &file.text, full);
        }
    }

    /// The language family of the evidence.
    fn family(&self) -> Option<Family> {
        let in_source = self.source.first().and_then(|(file, _)| Family::of(file.language?));
        let in_manifest = || self.dependencies.first().map(|(.., ecosystem)| family_of(*ecosystem));
        in_source.or_else(in_manifest).or_else(|| self.known.families().next())
    }

    fn managers(&self) -> Vec<&'static str> {
        let Some(family) = self.family() else { return Vec::new() };
        managers(self.survey, self.project, family)
    }

    /// The places where code could go: existing files, and text that occurs exactly once in each.
    fn anchors(&self) -> Vec<InsertAnchor> {
        let in_source = self.constructors().into_iter().filter_map(|(file, finding)| {
            Some(InsertAnchor { filepath: file.path.clone(), pattern: finding.anchor.clone()?, line: finding.line })
        });
        let in_files = self.files.iter().filter_map(|file| {
            Some(InsertAnchor { filepath: file.path.clone(), pattern: file.anchor.clone()?, line: file.line })
        });
        let mut anchors: Vec<InsertAnchor> = Vec::new();
        for anchor in in_source.chain(in_files).take(MOST_SHOWN) {
            if !anchors.contains(&anchor) {
                anchors.push(anchor);
            }
        }
        anchors
    }

    /// The version in the lock file, or the only version that the manifest allows.
    fn version(&self) -> Option<String> {
        let (file, dependency, _) = self.dependencies.first()?;
        let locks = self.survey.files.iter().filter(|lock| {
            let near = folder(&lock.path);
            near == folder(&file.path) || near.is_empty()
        });
        let locked = locks.filter_map(|lock| lock.manifest.as_ref()?.locked.get(&dependency.name).cloned()).next();
        let pinned = || {
            let wanted = dependency.requirement.as_deref()?.trim();
            let exact = wanted.strip_prefix("==").unwrap_or(wanted).trim();
            let plain = exact.strip_prefix('v').unwrap_or(exact);
            let is_version = plain.starts_with(|c: char| c.is_ascii_digit())
                && plain.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+'));
            (is_version && plain.contains('.')).then(|| plain.to_owned())
        };
        locked.or_else(pinned)
    }
}

/// Accumulated evidence.
struct Assessment {
    confidence: f64,
    most: f64,
    evidence: Vec<Evidence>,
    reasons: Vec<String>,
}

impl Assessment {
    /// The first kind of evidence gives its whole weight, each further one a fifth.
    fn add_weight(&mut self, weight: f64, reason: String) {
        let added = if self.confidence == 0.0 { weight } else { self.confidence + weight / 5.0 };
        self.confidence = added.min(self.most);
        self.reasons.push(reason);
    }

    fn add_evidence(&mut self, kind: &'static str, file: &str, line: usize, text: &str, weight: f64) {
        self.evidence.push(Evidence { kind: kind.into(), file: file.to_owned(), line, text: text.to_owned(), weight });
    }
}

/// The package managers of a family in a project, or at the root above it.
pub(crate) fn managers(survey: &Survey, project: &Project, family: Family) -> Vec<&'static str> {
    let of = |project: &Project| {
        let mut found: Vec<&'static str> = Vec::new();
        for file in survey
            .files_of(project)
            .filter(|file| !file.aside && file.format.is_some_and(|format| family_of(format.ecosystem) == family))
        {
            for manager in file.manifest.iter().flat_map(|manifest| &manifest.managers) {
                if !found.contains(manager) {
                    found.push(manager);
                }
            }
        }
        found
    };
    let mut own = of(project);
    let special = |managers: &[&str]| managers.iter().any(|manager| !matches!(*manager, "npm" | "pip"));
    if let Some(root) = survey.projects.first().filter(|_| !special(&own)) {
        own.extend(of(root).into_iter().filter(|manager| special(&[manager])));
    }
    own.order_by_key(|manager| matches!(*manager, "npm" | "pip"));
    own
}

/// The language family of an ecosystem.
pub(crate) fn family_of(ecosystem: Ecosystem) -> Family {
    match ecosystem {
        Ecosystem::Cargo => Family::Rust,
        Ecosystem::Composer => Family::Php,
        Ecosystem::Go => Family::Go,
        Ecosystem::Maven => Family::Java,
        Ecosystem::Npm => Family::Javascript,
        Ecosystem::Nuget => Family::Csharp,
        Ecosystem::Pypi => Family::Python,
        Ecosystem::Rubygems => Family::Ruby,
    }
}

fn language_reason(family: Family, managers: &[&'static str]) -> String {
    let language = match family {
        Family::Csharp => "C#",
        Family::Go => "Go",
        Family::Java => "Java",
        Family::Javascript => "JavaScript/TypeScript",
        Family::Php => "PHP",
        Family::Python => "Python",
        Family::Ruby => "Ruby",
        Family::Rust => "Rust",
    };
    match managers.first() {
        Some(manager) => format!("{language} project with {manager} detected."),
        None => format!("{language} project detected."),
    }
}

/// Whether the project is the framework itself, which is not among its own dependencies.
fn is_itself(evidence: &ProjectEvidence<'_>, known: &FrameworkRules) -> bool {
    evidence.manifests.iter().any(|file| {
        let name = file.manifest.as_ref().and_then(|manifest| manifest.name.as_deref());
        file.format
            .zip(name)
            .is_some_and(|(format, name)| known.is_dependency(format.ecosystem, &name.to_ascii_lowercase()))
    })
}

type Dependencies<'s> = Vec<(&'s FileFacts, &'s Dependency, Ecosystem)>;

/// The dependencies in the manifests of a project. Lock files count only if there is no manifest in their folder.
fn dependencies<'s>(evidence: &ProjectEvidence<'s>, known: &FrameworkRules) -> Dependencies<'s> {
    let mut found = Vec::new();
    for file in &evidence.manifests {
        let (Some(format), Some(manifest)) = (file.format, &file.manifest) else { continue };
        let beside = |other: &&FileFacts| {
            let same = |one: Format| one.role == Role::Project && one.ecosystem == format.ecosystem;
            folder(&other.path) == folder(&file.path) && other.format.is_some_and(same)
        };
        if format.role == Role::Lock && evidence.manifests.iter().any(beside) {
            continue;
        }
        let named = manifest.dependencies.iter().filter(|one| known.is_dependency(format.ecosystem, &one.name));
        found.extend(named.map(|dependency| (*file, dependency, format.ecosystem)));
    }
    found
}

/// The evidence of a conventional file.
fn convention(survey: &Survey, file: &FileFacts, rule: &FileRule) -> Option<FileEvidence> {
    let mut evidence =
        FileEvidence { path: file.path.clone(), weak: rule.weak, line: 1, text: file.path.clone(), anchor: None };
    if rule.contains.is_none() && rule.anchor.is_none() {
        return Some(evidence);
    }
    let content = survey.text_of(&file.path)?;
    let content = with_plain_line_ends(&content);
    if let Some(needle) = &rule.contains {
        let at = content.find(needle.as_str())?;
        (evidence.line, evidence.text) = (text::line_at(&content, at), text::line_text(&content, at));
    }
    if let Some(at) = rule.anchor.as_ref().and_then(|needle| content.find(needle.as_str())) {
        let end = content[at..].find('\n').map_or(content.len(), |length| at + length);
        evidence.anchor = anchor(&content, &(at..at + content[at..end].trim_end().len()));
        (evidence.line, evidence.text) = (text::line_at(&content, at), text::line_text(&content, at));
    }
    Some(evidence)
}
