//! Adds a dependency to the text of a manifest, and leaves everything else in it unchanged.
//!
//! The parser of the format finds the position. The result is parsed again: unless it equals the old manifest plus the
//! new dependency, no change is proposed.

use std::borrow::Cow;
use std::collections::BTreeMap;

use gladhand_core::Order as _;
use serde_json::value::RawValue;
use toml::de::{DeTable, DeValue};

use super::{Dependency, Ecosystem, Format, Manifest};
use crate::recipes::Package;

/// Text that goes to one place of a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Addition {
    /// Where it goes.
    pub(crate) at: usize,
    pub(crate) text: String,
}

impl Manifest {
    /// Whether a package is among what the project needs.
    pub(crate) fn needs(&self, package: &Package<'_>) -> bool {
        let name = compared(package);
        self.dependencies.iter().any(|dependency| dependency.name == name)
    }
}

/// The change that adds a package to the manifest with this path and text. `None` if the package is already there, or
/// there is no place for it.
pub(crate) fn addition(path: &str, text: &str, package: &Package<'_>) -> Option<Addition> {
    let format = Format::of(path)?;
    let before = format.read(text.as_bytes()).ok()?;
    if before.needs(package) {
        return None;
    }
    let (at, new) = match path.rsplit('/').next()? {
        "package.json" => in_json(text, "dependencies", package.name, package.versions.unwrap_or("*")),
        "composer.json" => in_json(text, "require", package.name, package.versions.unwrap_or("*")),
        "pyproject.toml" => in_pyproject(text, package),
        "Pipfile" => in_table(text, "[packages]", package),
        "Cargo.toml" => in_table(text, "[dependencies]", package),
        "go.mod" => in_go_mod(text, package),
        // Where every file is checked by its hash, a name alone is refused.
        name if name.ends_with(".txt") || name.ends_with(".in") => {
            let at = last_line(text).filter(|_| !text.contains("--hash="))?;
            Some((at, format!("\n{}", requirement(package))))
        }
        _ => None,
    }?;
    let after = format.read(format!("{}{new}{}", &text[..at], &text[at..]).as_bytes()).ok()?;
    let said = |manifest: &Manifest| -> Vec<(String, Option<String>)> {
        let mut all: Vec<_> = manifest
            .dependencies
            .iter()
            .map(|Dependency { name, requirement, .. }| (name.clone(), requirement.clone()))
            .collect();
        all.order();
        all
    };
    let added = |(name, _): &(String, Option<String>)| *name == compared(package);
    let (kept, now) = (said(&before), said(&after));
    let is_sound = now.iter().filter(|one| added(one)).count() == 1 && now.iter().filter(|one| !added(one)).eq(&kept);
    is_sound.then_some(Addition { at, text: new })
}

/// The name of a package as names are compared.
fn compared(package: &Package<'_>) -> String {
    match package.ecosystem {
        Ecosystem::Pypi => super::requirements::normal(package.name),
        _ => package.name.to_owned(),
    }
}

/// A requirement of Python in one word: `mcp>=1.10,<2`.
fn requirement(package: &Package<'_>) -> String {
    format!("{}{}", package.name, package.versions.unwrap_or_default())
}

/// A member of an object of the top level, which is made at the end if it is not there.
fn in_json(text: &str, key: &str, name: &str, versions: &str) -> Option<(usize, String)> {
    let members: BTreeMap<Cow<'_, str>, &RawValue> = serde_json::from_str(text).ok()?;
    let place = |raw: &RawValue| raw.get().as_ptr() as usize - text.as_ptr() as usize;
    let new = format!("{}: {}", serde_json::Value::from(name), serde_json::Value::from(versions));
    if let Some(table) = members.get(key) {
        let inside = table.get().strip_prefix('{')?;
        let blank = &inside[..inside.len() - inside.trim_start().len()];
        let is_empty = inside.trim_start() == "}";
        // In the style of the next entry: on a line of its own, or behind the brace.
        let new = match blank {
            _ if is_empty => format!(" {new} "),
            "" => format!("{new}, "),
            blank => format!("{blank}{new},"),
        };
        return Some((place(table) + 1, new));
    }
    let last = members.values().max_by_key(|raw| place(raw))?;
    let first = members.values().map(|raw| place(raw)).min()?;
    let before = &text[text.find('{')? + 1..first];
    let blank = &before[..before.len() - before.trim_start().len()];
    let at = place(last) + last.get().len();
    let new = match blank.contains('\n') {
        true => format!(",{blank}\"{key}\": {{{blank}{}{new}{blank}}}", blank.trim_start_matches('\n')),
        false => format!(", \"{key}\": {{ {new} }}"),
    };
    Some((at, new))
}

/// As the project declares what it needs: in the list of the standard, or in the table of Poetry.
fn in_pyproject(text: &str, package: &Package<'_>) -> Option<(usize, String)> {
    let table = DeTable::parse(text).ok()?;
    let project = table.get_ref().get("project").and_then(|project| project.get_ref().as_table());
    let Some(project) = project else { return in_table(text, "[tool.poetry.dependencies]", package) };
    let new = serde_json::Value::from(requirement(package)).to_string();
    match project.get("dependencies") {
        Some(list) => {
            let DeValue::Array(items) = list.get_ref() else { return None };
            let at = list.span().start + 1;
            let first = items.iter().next().map(|item| item.span().start);
            let blank = first.map_or("", |first| &text[at..first]);
            // A comment before the first one stays with it.
            let blank = &blank[..blank.len() - blank.trim_start().len()];
            let new = match (first, blank) {
                (None, _) => new,
                (_, "") => format!("{new}, "),
                (_, blank) => format!("{blank}{new},"),
            };
            Some((at, new))
        }
        None if is_computed(project, "dependencies") => None,
        None => Some((header(text, "[project]")?, format!("\ndependencies = [{new}]"))),
    }
}

/// Whether the value is computed by a program at build time, so that the file does not have it.
fn is_computed(project: &DeTable<'_>, key: &str) -> bool {
    let computed = project.get("dynamic").and_then(|dynamic| dynamic.get_ref().as_array());
    computed.is_some_and(|keys| keys.iter().any(|one| one.get_ref().as_str() == Some(key)))
}

/// A line of a table of TOML, right behind its header.
fn in_table(text: &str, table: &str, package: &Package<'_>) -> Option<(usize, String)> {
    let Package { name, versions, .. } = package;
    Some((header(text, table)?, format!("\n{name} = \"{}\"", versions.unwrap_or("*"))))
}

/// A requirement in `go.mod`. Go needs an exact version, so nothing is added without one.
fn in_go_mod(text: &str, package: &Package<'_>) -> Option<(usize, String)> {
    let new = format!("{} {}", package.name, package.versions?);
    match header(text, "require (") {
        Some(at) => Some((at, format!("\n\t{new}"))),
        None => Some((last_line(text)?, format!("\n\nrequire {new}"))),
    }
}

/// The end of the line that is a header.
fn header(text: &str, header: &str) -> Option<usize> {
    let mut end = 0;
    text.split_inclusive('\n').find_map(|line| {
        let start = end;
        end += line.len();
        let content = line.split('#').next().unwrap_or_default().trim();
        (content == header).then(|| start + line.trim_end_matches('\n').len())
    })
}

/// The end of the last line that is not blank.
fn last_line(text: &str) -> Option<usize> {
    Some(text.trim_end().len()).filter(|end| *end > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn added(path: &str, text: &str, package: &Package<'_>) -> Option<String> {
        let Addition { at, text: new } = addition(path, text, package)?;
        Some(format!("{}{new}{}", &text[..at], &text[at..]))
    }

    fn npm(versions: Option<&'static str>) -> Package<'static> {
        Package { name: "@me/sdk", versions, ecosystem: Ecosystem::Npm }
    }

    fn pypi() -> Package<'static> {
        Package { name: "Me_SDK", versions: Some(">=1,<2"), ecosystem: Ecosystem::Pypi }
    }

    #[test]
    fn an_edited_json_object_keeps_its_indentation() {
        let lines = "{\n  \"name\": \"a\",\n  \"dependencies\": {\n    \"express\": \"^4\"\n  }\n}\n";
        assert_eq!(
            added("a/package.json", lines, &npm(Some("^1"))).unwrap(),
            "{\n  \"name\": \"a\",\n  \"dependencies\": {\n    \"@me/sdk\": \"^1\",\n    \"express\": \"^4\"\n  }\n}\n"
        );
        assert_eq!(
            added("package.json", "{\"dependencies\":{\"express\":\"^4\"}}", &npm(None)).unwrap(),
            "{\"dependencies\":{\"@me/sdk\": \"*\", \"express\":\"^4\"}}"
        );
        assert_eq!(
            added("package.json", "{ \"dependencies\": { \"express\": \"^4\" } }", &npm(None)).unwrap(),
            "{ \"dependencies\": { \"@me/sdk\": \"*\", \"express\": \"^4\" } }"
        );
        assert_eq!(
            added("package.json", "{ \"dependencies\": {} }", &npm(None)).unwrap(),
            "{ \"dependencies\": { \"@me/sdk\": \"*\" } }"
        );
        assert_eq!(
            added("package.json", "{\n\t\"name\": \"a\",\n\t\"private\": true\n}", &npm(None)).unwrap(),
            "{\n\t\"name\": \"a\",\n\t\"private\": true,\n\t\"dependencies\": {\n\t\t\"@me/sdk\": \"*\"\n\t}\n}"
        );
    }

    #[test]
    fn present_packages_and_unreadable_manifests_are_not_edited() {
        assert_eq!(added("package.json", "{\"devDependencies\":{\"@me/sdk\":\"1\"}}", &npm(None)), None);
        for odd in ["{", "{}", "[]", "{\"dependencies\":[]}", "{\"dependencies\":3}"] {
            assert_eq!(added("package.json", odd, &npm(None)), None, "{odd}");
        }
        assert_eq!(added("requirements.txt", "flask\nme.sdk==1\n", &pypi()), None, "another spelling of one name");
        assert_eq!(added("pyproject.toml", "[project]\nname = \"a\"\ndynamic = [\"dependencies\"]\n", &pypi()), None);
        assert_eq!(
            added("go.mod", "module a\n", &Package { ecosystem: Ecosystem::Go, versions: None, ..npm(None) }),
            None
        );
    }

    #[test]
    fn a_python_package_is_added_to_each_kind_of_manifest() {
        let list = "[project]\nname = \"a\"\ndependencies = [\n    # the web\n    \"flask\",\n]\n";
        assert_eq!(
            added("pyproject.toml", list, &pypi()).unwrap(),
            "[project]\nname = \"a\"\ndependencies = [\n    \"Me_SDK>=1,<2\",\n    # the web\n    \"flask\",\n]\n"
        );
        assert_eq!(
            added("pyproject.toml", "[project]\ndependencies = [\"flask\"]\n", &pypi()).unwrap(),
            "[project]\ndependencies = [\"Me_SDK>=1,<2\", \"flask\"]\n"
        );
        assert_eq!(
            added("pyproject.toml", "[project] # ours\nname = \"a\"\n", &pypi()).unwrap(),
            "[project] # ours\ndependencies = [\"Me_SDK>=1,<2\"]\nname = \"a\"\n"
        );
        assert_eq!(
            added("pyproject.toml", "[project]\nname = \"a\"\ndynamic = [\"version\"]\n", &pypi()).unwrap(),
            "[project]\ndependencies = [\"Me_SDK>=1,<2\"]\nname = \"a\"\ndynamic = [\"version\"]\n"
        );
        assert_eq!(
            added("pyproject.toml", "[tool.poetry.dependencies]\npython = \"^3.11\"\n", &pypi()).unwrap(),
            "[tool.poetry.dependencies]\nMe_SDK = \">=1,<2\"\npython = \"^3.11\"\n"
        );
        assert_eq!(added("requirements.txt", "flask\n\n", &pypi()).unwrap(), "flask\nMe_SDK>=1,<2\n\n");
        assert_eq!(
            added("Pipfile", "[packages]\nflask = \"*\"\n", &pypi()).unwrap(),
            "[packages]\nMe_SDK = \">=1,<2\"\nflask = \"*\"\n"
        );
    }

    #[test]
    fn a_package_is_added_to_cargo_and_go_manifests() {
        let cargo = Package { name: "rmcp", versions: None, ecosystem: Ecosystem::Cargo };
        assert_eq!(
            added("Cargo.toml", "[package]\nname = \"a\"\n\n[dependencies]\naxum = \"0.8\"\n", &cargo).unwrap(),
            "[package]\nname = \"a\"\n\n[dependencies]\nrmcp = \"*\"\naxum = \"0.8\"\n"
        );
        let go = Package { name: "example.com/sdk", versions: Some("v1.2.0"), ecosystem: Ecosystem::Go };
        assert_eq!(
            added("go.mod", "module a\n\nrequire (\n\texample.com/b v1.0.0\n)\n", &go).unwrap(),
            "module a\n\nrequire (\n\texample.com/sdk v1.2.0\n\texample.com/b v1.0.0\n)\n"
        );
        assert_eq!(added("go.mod", "module a\n", &go).unwrap(), "module a\n\nrequire example.com/sdk v1.2.0\n");
    }
}
