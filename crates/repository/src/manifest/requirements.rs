//! requirements.txt, and single requirements as PEP 508 writes them.

use super::{Manifest, Usage};

pub(super) fn runtime(text: &str) -> Result<Manifest, String> {
    read(text, Usage::Runtime)
}

pub(super) fn development(text: &str) -> Result<Manifest, String> {
    read(text, Usage::Development)
}

/// The purpose of the requirements in a file with this name.
pub(super) fn usage(name: &str) -> Usage {
    let aside = ["dev", "test", "lint", "docs", "ci", "typing"];
    let mut words = name.split(|c: char| !c.is_ascii_alphanumeric());
    if words.any(|word| aside.iter().any(|one| word.starts_with(one))) { Usage::Development } else { Usage::Runtime }
}

fn read(text: &str, usage: Usage) -> Result<Manifest, String> {
    let mut manifest = Manifest { managers: vec!["pip"], ..Manifest::default() };
    let mut from = 0;
    for line in text.split_inclusive('\n') {
        let start = from;
        from += line.len();
        // A comment begins at the start or after a blank; `#egg=` in an address is none.
        let line = line.find(" #").map_or(line, |at| &line[..at]).trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let requirement = match line.strip_prefix("-e ").or_else(|| line.strip_prefix("--editable ")) {
            Some(editable) => editable.trim(),
            None if line.starts_with('-') => continue,
            None => line,
        };
        if let Some(found) = Requirement::read(requirement) {
            manifest.depends_as(text, start, found.written, found.name, found.versions, usage);
        }
    }
    Ok(manifest)
}

/// One requirement: `uvicorn[standard]>=0.20; python_version < "3.13"`, or an address with a name.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Requirement<'a> {
    /// As it is compared: lower case, with single hyphens.
    pub(super) name: String,
    pub(super) written: &'a str,
    pub(super) versions: Option<&'a str>,
}

impl<'a> Requirement<'a> {
    pub(super) fn read(text: &'a str) -> Option<Self> {
        if let Some((_, egg)) = text.split_once("#egg=") {
            let written = name_at_start(egg)?;
            return Some(Self { name: normal(written), written, versions: None });
        }
        let written = name_at_start(text)?;
        let rest = text[written.len()..].trim_start();
        let rest = match rest.strip_prefix('[') {
            Some(extras) => extras.split_once(']')?.1.trim_start(),
            None => rest,
        };
        let end = rest.find([';', '\\']).unwrap_or(rest.len());
        let end = rest.find(" --").map_or(end, |options| options.min(end));
        let versions = rest[..end].trim().trim_start_matches('(').trim_end_matches(')');
        // Everything else after a name is a path or an address.
        let is_versions = versions.is_empty() || versions.starts_with(['=', '<', '>', '~', '!', '@']);
        is_versions.then(|| Self { name: normal(written), written, versions: Some(versions).filter(|v| !v.is_empty()) })
    }
}

fn name_at_start(text: &str) -> Option<&str> {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '-' | '_' | '.')).unwrap_or(text.len());
    let name = text[..end].trim_end_matches(['-', '_', '.']);
    name.starts_with(|c: char| c.is_ascii_alphanumeric()).then_some(name)
}

/// The spelling in which PyPI compares names.
pub(super) fn normal(name: &str) -> String {
    let mut normal = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            '-' | '_' | '.' if normal.ends_with('-') => {}
            '-' | '_' | '.' => normal.push('-'),
            other => normal.push(other.to_ascii_lowercase()),
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_requirements_and_nothing_else() {
        let text = "# flask was removed\n--index-url https://flask.example/simple\n-r base.txt\nFastAPI[all]>=0.110,<1 ; python_version > '3.8'  # django\n\
                    uvicorn==0.29 --hash=sha256:abc\n-e git+https://example/x#egg=Lang_Chain\n./local/express\nhttps://host/flask.whl\n\
                    starlette @ https://host/starlette.whl\nJinja2 (>=3)\n";
        let manifest = runtime(text).unwrap();
        let found: Vec<_> =
            manifest.dependencies.iter().map(|d| (d.name.as_str(), d.requirement.as_deref(), d.line)).collect();
        assert_eq!(
            found,
            [
                ("fastapi", Some(">=0.110,<1"), 4),
                ("uvicorn", Some("==0.29"), 5),
                ("lang-chain", None, 6),
                ("starlette", Some("@ https://host/starlette.whl"), 9),
                ("jinja2", Some(">=3"), 10),
            ]
        );
    }

    #[test]
    fn requirement_files_for_development_are_recognised_by_name() {
        assert_eq!(usage("requirements-dev.txt"), Usage::Development);
        assert_eq!(usage("test_requirements.txt"), Usage::Development);
        assert_eq!(usage("requirements.txt"), Usage::Runtime);
        assert_eq!(usage("requirements-prod.txt"), Usage::Runtime);
    }
}
