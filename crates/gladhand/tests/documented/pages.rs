//! The pages that users read, and the fenced snippets in them.

use std::fmt;
use std::path::{Path, PathBuf};

/// The folder of the repository.
pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository is there")
}

/// A fenced block of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Snippet {
    /// As in `docs/a2e.md`.
    pub(crate) page: String,
    /// The line of its fence.
    pub(crate) line: usize,
    /// The heading that it stands under.
    pub(crate) heading: String,
    pub(crate) language: String,
    pub(crate) text: String,
}

impl Snippet {
    /// Whether it stands in this page, under this heading, in this language.
    pub(crate) fn is(&self, page: &str, heading: &str, language: &str) -> bool {
        (self.page.as_str(), self.heading.as_str(), self.language.as_str()) == (page, heading, language)
    }
}

impl fmt::Display for Snippet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { page, line, heading, language, .. } = self;
        write!(f, "{page}:{line} ({language}, under `{heading}`)")
    }
}

/// The names of the pages: README.md and those in docs.
pub(crate) fn names() -> Vec<String> {
    let folder = repository().join("docs");
    let docs = std::fs::read_dir(folder).expect("docs are there").map(|entry| entry.expect("a file").file_name());
    let docs = docs.map(|name| format!("docs/{}", name.to_str().expect("UTF-8")));
    let mut names: Vec<_> = docs.filter(|name| name.ends_with(".md")).collect();
    names.sort();
    names.insert(0, "README.md".to_owned());
    names
}

/// All snippets of README.md and docs.
pub(crate) fn snippets() -> Vec<Snippet> {
    names().into_iter().flat_map(of).collect()
}

/// The text of a page.
pub(crate) fn page(name: &str) -> String {
    std::fs::read_to_string(repository().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn of(name: String) -> Vec<Snippet> {
    let (mut all, mut heading, mut open) = (Vec::new(), String::new(), None::<Snippet>);
    for (at, line) in page(&name).lines().enumerate() {
        match (line.trim_start().strip_prefix("```"), &mut open) {
            (Some(_), Some(_)) => all.extend(open.take()),
            (Some(language), None) => {
                let language = language.trim().to_owned();
                let (page, heading) = (name.clone(), heading.clone());
                open = Some(Snippet { page, line: at + 1, heading, language, text: String::new() });
            }
            (None, Some(snippet)) => snippet.text += &format!("{line}\n"),
            (None, None) => {
                if let Some(title) = line.strip_prefix('#') {
                    heading = title.trim_start_matches('#').trim().to_owned();
                }
            }
        }
    }
    assert!(open.is_none(), "{name}: a fence is not closed");
    all
}
