//! One scan of a repository: every relevant file is read once, and the facts in it are kept.
//!
//! Profile, detection and plans are all made from a survey, so that a workflow reads the tree a single time.

use std::collections::BTreeMap;

use gladhand_ignore_files::{GlobError, glob, glob_set};
use globset::GlobSet;

use crate::frameworks::{self, Finding};
use crate::language::Language;
use crate::manifest::{Format, Manifest, Role};
use crate::root::Root;
use crate::source::Family;
use crate::walk::{Content, Scan};
use crate::{RepositoryError, Setting, text};

/// The largest file that is read as a whole after the scan.
const LARGEST: u64 = 8 << 20;

/// The result of one scan of a tree.
#[derive(Debug)]
pub(crate) struct Survey {
    pub(crate) root: Root,
    /// Every file, in the order of paths.
    pub(crate) files: Vec<FileFacts>,
    pub(crate) directories: usize,
    /// The projects in the tree, the root first, then by path.
    pub(crate) projects: Vec<Project>,
    pub(crate) warnings: Vec<String>,
    /// Manifests that could not be read, with the reason.
    pub(crate) broken: Vec<(String, String)>,
}

/// The facts about one file.
#[derive(Debug, Default)]
pub(crate) struct FileFacts {
    pub(crate) path: String,
    pub(crate) language: Option<Language>,
    pub(crate) lines: usize,
    pub(crate) format: Option<Format>,
    pub(crate) manifest: Option<Manifest>,
    /// The evidence for frameworks.
    pub(crate) findings: Vec<Finding>,
    /// Whether a program starts in this file, judged by its content.
    pub(crate) is_main: bool,
    /// It is for tests, examples or documentation.
    pub(crate) aside: bool,
}

/// A folder that is a project of its own.
#[derive(Debug, Default)]
pub(crate) struct Project {
    /// Relative to the root; empty for the root itself.
    pub(crate) path: String,
    /// Its files, as places in the survey's list.
    pub(crate) files: Vec<usize>,
    /// Another manifest names it as a member.
    pub(crate) declared: bool,
}

impl Survey {
    /// Looks at a tree. A root that is a file has nothing in it.
    pub(crate) fn take(root: Root, setting: &Setting<'_>) -> Result<Self, RepositoryError> {
        let scan = Scan::new(setting.limits, setting.progress, &setting.places.secrets);
        let mut survey = Self {
            root,
            files: Vec::new(),
            directories: 0,
            projects: Vec::new(),
            warnings: Vec::new(),
            broken: Vec::new(),
        };
        if survey.root.path().is_dir() {
            survey.read(&scan, setting)?;
        } else {
            survey.warnings.push(format!("{} is a file, not a folder; nothing was read.", survey.root.shown()));
        }
        survey.find_projects();
        Ok(survey)
    }

    fn read(&mut self, scan: &Scan<'_>, setting: &Setting<'_>) -> Result<(), RepositoryError> {
        let listing = scan.list(self.root.path())?;
        let limits = setting.limits;
        let wanted = |path: &str| match Format::of(path) {
            Some(format) if format.role == Role::Lock => Some(limits.lock_bytes),
            Some(_) => Some(limits.source_bytes),
            None if Language::by_name(path).is_some() => Some(limits.source_bytes),
            None if Language::may_be_script(path) => Some(limits.source_bytes.min(64 * 1024)),
            None => None,
        };
        let read = scan.read(self.root.path(), &listing.files, wanted, FileFacts::of)?;
        self.directories = listing.directories;
        self.warnings = listing.warnings;
        if scan.was_late() {
            self.warnings
                .push("Time was up before all files were read; the answer covers a part of the tree.".to_owned());
        }
        let (mut unreadable, mut cut) = (0, 0);
        for (path, facts) in listing.files.into_iter().zip(read) {
            let facts = match facts {
                None => FileFacts { aside: is_aside(&path), path, ..FileFacts::default() },
                Some(read) => {
                    unreadable += usize::from(read.unreadable);
                    cut += usize::from(read.cut);
                    self.broken.extend(read.broken.map(|why| (read.facts.path.clone(), why)));
                    read.facts
                }
            };
            self.files.push(facts);
        }
        if unreadable > 0 {
            self.warnings.push(format!("{unreadable} files could not be read."));
        }
        if cut > 0 {
            self.warnings.push(format!("{cut} files are very large; only their beginning was read."));
        }
        self.warnings.extend(self.broken.iter().map(|(path, why)| format!("{path} could not be read: {why}.")));
        Ok(())
    }

    /// A folder with a manifest is a project, unless it is there for tests or examples.
    fn find_projects(&mut self) {
        let members = self.declared_members();
        let mut folders: BTreeMap<String, bool> = BTreeMap::from([(String::new(), false)]);
        for file in self.files.iter().filter(|file| !file.aside) {
            let is_project = file.format.is_some_and(|format| format.role == Role::Project)
                || file.manifest.is_some() && is_old_lock(file);
            if is_project {
                let folder = project_folder(&file.path);
                let declared = members.is_match(folder);
                folders.entry(folder.to_owned()).or_insert(declared);
            }
        }
        self.projects =
            folders.into_iter().map(|(path, declared)| Project { path, files: Vec::new(), declared }).collect();
        for (at, file) in self.files.iter().enumerate() {
            let project = self.project_of(&file.path);
            self.projects[project].files.push(at);
        }
    }

    fn declared_members(&self) -> GlobSet {
        let mut patterns = Vec::new();
        for file in &self.files {
            let folder = folder(&file.path);
            for pattern in file
                .manifest
                .iter()
                .flat_map(|manifest| &manifest.workspace)
                .filter(|pattern| !pattern.starts_with('!'))
            {
                let pattern = pattern.trim_start_matches("./").trim_end_matches('/');
                let whole = if folder.is_empty() { pattern.to_owned() } else { format!("{folder}/{pattern}") };
                patterns.extend(glob(&whole));
            }
        }
        glob_set(patterns).unwrap_or_else(|_| GlobSet::empty())
    }

    /// Only the files that fit one of the patterns; without patterns, all.
    pub(crate) fn narrowed(mut self, patterns: &[String]) -> Result<Self, RepositoryError> {
        if patterns.is_empty() {
            return Ok(self);
        }
        let wrong = |why: GlobError| RepositoryError::WrongType {
            param: "globs".to_owned(),
            expected: format!("patterns of paths: {why}"),
        };
        let globs = patterns.iter().map(|pattern| glob(pattern)).collect::<Result<Vec<_>, _>>().map_err(wrong)?;
        let set = glob_set(globs).map_err(wrong)?;
        self.files.retain(|file| set.is_match(&file.path));
        self.find_projects();
        Ok(self)
    }

    /// The project that a path belongs to: the deepest one around it.
    pub(crate) fn project_of(&self, path: &str) -> usize {
        let around = |project: &Project| {
            project.path.is_empty() || path.strip_prefix(&project.path).is_some_and(|rest| rest.starts_with('/'))
        };
        self.projects.iter().rposition(around).unwrap_or(0)
    }

    /// The files of a project.
    pub(crate) fn files_of<'s>(&'s self, project: &'s Project) -> impl Iterator<Item = &'s FileFacts> {
        project.files.iter().map(|&at| &self.files[at])
    }

    pub(crate) fn has_file(&self, path: &str) -> bool {
        self.files.binary_search_by(|file| file.path.as_str().cmp(path)).is_ok()
    }

    /// The text of a file, unless it is very large.
    pub(crate) fn text_of(&self, path: &str) -> Option<String> {
        Some(text::decode(&self.bytes_of(path)?).into_owned())
    }

    /// The text of a file that is written as every program expects it.
    pub(crate) fn plain_text_of(&self, path: &str) -> Option<String> {
        String::from_utf8(self.bytes_of(path)?).ok().filter(|text| !text.starts_with('\u{feff}'))
    }

    fn bytes_of(&self, path: &str) -> Option<Vec<u8>> {
        let file = self.root.inside(path).ok()?;
        self.root.secrets().read(&file, LARGEST).ok()
    }
}

impl Project {
    /// A path of the project as seen from its own folder.
    pub(crate) fn inner<'p>(&self, path: &'p str) -> &'p str {
        if self.path.is_empty() { path } else { path.get(self.path.len() + 1..).unwrap_or(path) }
    }

    /// A path as seen from the root.
    pub(crate) fn outer(&self, inner: &str) -> String {
        if self.path.is_empty() { inner.to_owned() } else { format!("{}/{inner}", self.path) }
    }
}

/// The facts of a file, with the warnings about it.
struct Read {
    facts: FileFacts,
    broken: Option<String>,
    unreadable: bool,
    cut: bool,
}

impl FileFacts {
    fn of(path: &str, content: Content<'_>) -> Read {
        let bytes = content.bytes();
        let aside = is_aside(path);
        let format = Format::of(path);
        let mut facts = Self { path: path.to_owned(), aside, format, ..Self::default() };
        let mut broken = None;
        if let (Some(format), Content::Whole(bytes)) = (format, content) {
            match format.read(bytes) {
                Ok(manifest) => facts.manifest = Some(manifest),
                Err(why) => broken = Some(why),
            }
        }
        facts.language = Language::of(path, bytes);
        if let Some(language) = facts.language {
            facts.lines = text::lines(bytes);
            facts.is_main = begins_program(language, path, bytes);
            if let Some(family) = Family::of(language)
                && frameworks::TABLE.may_concern(family, bytes)
            {
                facts.findings = frameworks::findings(language, family, path, &text::decode(bytes));
            }
        }
        Read {
            facts,
            broken,
            unreadable: matches!(content, Content::Unreadable),
            cut: matches!(content, Content::Beginning(_)),
        }
    }
}

/// Whether a program of a compiled language begins in a file.
fn begins_program(language: Language, path: &str, bytes: &[u8]) -> bool {
    let contains = |needle: &str| memchr::memmem::find(bytes, needle.as_bytes()).is_some();
    match language {
        Language::Go => contains("package main") && contains("func main(") && !path.ends_with("_test.go"),
        Language::Java => contains("static void main("),
        Language::Kotlin => contains("fun main("),
        Language::Csharp => {
            path.ends_with("Program.cs") || contains("static void Main(") || contains("static async Task Main(")
        }
        _ => false,
    }
}

/// Whether a file is there for tests, examples or documentation, by its folders and its name.
fn is_aside(path: &str) -> bool {
    const FOLDERS: [&str; 22] = [
        "test",
        "tests",
        "__tests__",
        "testing",
        "testdata",
        "spec",
        "specs",
        "fixtures",
        "__fixtures__",
        "__mocks__",
        "mocks",
        "e2e",
        "cypress",
        "example",
        "examples",
        "sample",
        "samples",
        "docs",
        "doc",
        "benchmarks",
        "bench",
        "templates",
    ];
    let mut parts = path.split('/').rev();
    let name = parts.next().unwrap_or_default();
    let stem = name.split('.').next().unwrap_or_default();
    let test_file = name.contains(".test.")
        || name.contains(".spec.")
        || stem.starts_with("test_")
        || stem.ends_with("_test")
        || stem == "conftest";
    // Java packages can have any name; the program is below `src/main`.
    let is_program = path.starts_with("src/main/") || path.contains("/src/main/");
    test_file || !is_program && parts.any(|folder| FOLDERS.contains(&folder.to_ascii_lowercase().as_str()))
}

/// A lock file with the requirements of the project serves as a manifest.
fn is_old_lock(file: &FileFacts) -> bool {
    file.manifest.as_ref().is_some_and(|manifest| !manifest.dependencies.is_empty())
}

/// The folder that a manifest makes a project: `requirements/base.txt` belongs to the folder above.
fn project_folder(path: &str) -> &str {
    let folder = folder(path);
    match folder.strip_suffix("requirements") {
        Some("") if path.ends_with(".txt") || path.ends_with(".in") => "",
        Some(above) if above.ends_with('/') => above.trim_end_matches('/'),
        _ => folder,
    }
}

/// The folder that a path is in; empty for the root.
pub(crate) fn folder(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_and_examples_are_recognised_by_their_paths() {
        for aside in [
            "tests/a.py",
            "src/__tests__/a.ts",
            "a.test.ts",
            "pkg/a_test.go",
            "test_a.py",
            "Examples/x/main.py",
            "spec/a.rb",
        ] {
            assert!(is_aside(aside), "{aside}");
        }
        for not in
            ["src/contest.py", "latest/a.py", "src/main/java/samples/App.java", "src/testimony.ts", "app/main.py"]
        {
            assert!(!is_aside(not), "{not}");
        }
    }

    #[test]
    fn requirements_in_a_folder_of_their_own_belong_above() {
        assert_eq!(project_folder("requirements/base.txt"), "");
        assert_eq!(project_folder("api/requirements/base.txt"), "api");
        assert_eq!(project_folder("api/requirements.txt"), "api");
    }
}
