//! pyproject.toml, Pipfile, setup.cfg, setup.py and conda's environment.yml.

use serde_json::Value as Json;
use toml::{Table, Value};

use super::requirements::{Requirement, normal};
use super::{Manifest, Usage, place, toml_table, yaml};
use crate::source;

pub(super) fn pyproject(text: &str) -> Result<Manifest, String> {
    let table = toml_table(text)?;
    let mut manifest = Manifest::default();
    let tool = |name: &str| table.get("tool").and_then(|tools| tools.get(name));
    for (name, manager) in [("uv", "uv"), ("poetry", "poetry"), ("pdm", "pdm"), ("hatch", "hatch")] {
        if tool(name).is_some() {
            manifest.managers.push(manager);
        }
    }
    manifest.managers.push("pip");
    if let Some(project) = table.get("project").and_then(Value::as_table) {
        manifest.name = string(project, "name");
        let from = place(text, "[project");
        requirements(&mut manifest, text, from, project.get("dependencies"), Usage::Runtime);
        for group in values(project.get("optional-dependencies")) {
            requirements(&mut manifest, text, from, Some(group), Usage::Optional);
        }
        scripts(&mut manifest, project.get("scripts"));
    }
    for group in values(table.get("dependency-groups")) {
        requirements(&mut manifest, text, place(text, "[dependency-groups"), Some(group), Usage::Development);
    }
    if let Some(Value::Table(poetry)) = tool("poetry") {
        read_poetry(&mut manifest, text, poetry);
    }
    if let Some(uv) = tool("uv") {
        let from = place(text, "[tool.uv");
        requirements(&mut manifest, text, from, uv.get("dev-dependencies"), Usage::Development);
        let members = uv.get("workspace").and_then(|workspace| workspace.get("members")).and_then(Value::as_array);
        manifest.workspace = members.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
    }
    for group in values(tool("pdm").and_then(|pdm| pdm.get("dev-dependencies"))) {
        requirements(&mut manifest, text, place(text, "[tool.pdm"), Some(group), Usage::Development);
    }
    Ok(manifest)
}

fn read_poetry(manifest: &mut Manifest, text: &str, poetry: &Table) {
    if manifest.name.is_none() {
        manifest.name = string(poetry, "name");
    }
    let from = place(text, "[tool.poetry");
    named(manifest, text, from, poetry.get("dependencies"), Usage::Runtime);
    named(manifest, text, from, poetry.get("dev-dependencies"), Usage::Development);
    for group in values(poetry.get("group")) {
        named(manifest, text, from, group.get("dependencies"), Usage::Development);
    }
    scripts(manifest, poetry.get("scripts"));
}

pub(super) fn pipfile(text: &str) -> Result<Manifest, String> {
    let table = toml_table(text)?;
    let mut manifest = Manifest { managers: vec!["pipenv", "pip"], ..Manifest::default() };
    named(&mut manifest, text, place(text, "[packages]"), table.get("packages"), Usage::Runtime);
    named(&mut manifest, text, place(text, "[dev-packages]"), table.get("dev-packages"), Usage::Development);
    if let Some(Value::Table(scripts)) = table.get("scripts") {
        manifest.scripts =
            scripts.iter().filter_map(|(name, run)| Some((name.clone(), run.as_str()?.to_owned()))).collect();
    }
    Ok(manifest)
}

/// The sections of an INI file that setuptools reads. Lists are indented lines.
pub(super) fn setup_cfg(text: &str) -> Result<Manifest, String> {
    let mut manifest = Manifest { managers: vec!["pip"], ..Manifest::default() };
    let (mut section, mut key, mut from) = ("", String::new(), 0);
    for line in text.split_inclusive('\n') {
        let start = from;
        from += line.len();
        let content = line.trim();
        if content.is_empty() || content.starts_with(['#', ';']) {
            continue;
        }
        if let Some(name) = content.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            (section, key) = (name, String::new());
            continue;
        }
        let value = if line.starts_with(char::is_whitespace) {
            content
        } else {
            let Some((name, value)) = content.split_once(['=', ':']) else { continue };
            key = name.trim().to_owned();
            value.trim()
        };
        let usage = match (section, key.as_str()) {
            ("metadata", "name") => {
                manifest.name = Some(value.to_owned());
                continue;
            }
            ("options", "install_requires") => Usage::Runtime,
            ("options.extras_require", _) => Usage::Optional,
            ("options", "tests_require" | "setup_requires") => Usage::Development,
            _ => continue,
        };
        if let Some(found) = Requirement::read(value) {
            manifest.depends_as(text, start, found.written, found.name, found.versions, usage);
        }
    }
    Ok(manifest)
}

/// The arguments of `setup(…)` that are literal lists. Computed arguments stay unknown.
pub(super) fn setup_py(text: &str) -> Result<Manifest, String> {
    let mut manifest = Manifest { managers: vec!["pip"], ..Manifest::default() };
    for (keyword, value, at) in source::python_keywords(text, "setup") {
        match keyword.as_str() {
            "name" => manifest.name = Some(value),
            "install_requires" => {
                if let Some(found) = Requirement::read(&value) {
                    manifest.depends_as(text, at, found.written, found.name, found.versions, Usage::Runtime);
                }
            }
            _ => {}
        }
    }
    Ok(manifest)
}

pub(super) fn conda(text: &str) -> Result<Manifest, String> {
    let document = yaml(text)?;
    let mut manifest = Manifest { managers: vec!["conda"], ..Manifest::default() };
    let from = place(text, "dependencies:");
    let mut take = |entry: &str| {
        let entry = entry.rsplit("::").next().unwrap_or(entry);
        if let Some(found) = Requirement::read(entry) {
            manifest.depends_as(text, from, found.written, found.name, found.versions, Usage::Runtime);
        }
    };
    for entry in document.get("dependencies").and_then(Json::as_array).into_iter().flatten() {
        match entry {
            Json::String(one) => take(one),
            Json::Object(table) => {
                table.values().filter_map(Json::as_array).flatten().filter_map(Json::as_str).for_each(&mut take)
            }
            _ => {}
        }
    }
    Ok(manifest)
}

/// A list of requirements.
fn requirements(manifest: &mut Manifest, text: &str, from: usize, list: Option<&Value>, usage: Usage) {
    for requirement in list.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
        if let Some(found) = Requirement::read(requirement) {
            manifest.depends_as(text, from, found.written, found.name, found.versions, usage);
        }
    }
}

/// A table of requirements: name to versions, or to a table with them.
fn named(manifest: &mut Manifest, text: &str, from: usize, table: Option<&Value>, usage: Usage) {
    for (name, value) in table.and_then(Value::as_table).into_iter().flatten().filter(|(name, _)| *name != "python") {
        let versions = value.as_str().or_else(|| value.get("version")?.as_str());
        let usage = match value.get("optional").and_then(Value::as_bool) {
            Some(true) => Usage::Optional,
            _ => usage,
        };
        manifest.depends_as(text, from, name, normal(name), versions, usage);
    }
}

/// `tool = "package.module:function"`.
fn scripts(manifest: &mut Manifest, table: Option<&Value>) {
    for (name, target) in table.and_then(Value::as_table).into_iter().flatten() {
        let Some(target) = target.as_str() else { continue };
        manifest.scripts.insert(name.clone(), target.to_owned());
        manifest.entry_modules.push(target.split(':').next().unwrap_or(target).to_owned());
    }
}

fn values(table: Option<&Value>) -> impl Iterator<Item = &Value> {
    table.and_then(Value::as_table).into_iter().flat_map(Table::values)
}

fn string(table: &Table, key: &str) -> Option<String> {
    table.get(key).and_then(Value::as_str).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(manifest: &Manifest) -> Vec<(&str, Usage, usize)> {
        manifest.dependencies.iter().map(|d| (d.name.as_str(), d.usage, d.line)).collect()
    }

    #[test]
    fn every_table_of_pyproject_counts() {
        let text = "[project]\nname = \"x\"\ndependencies = [\n  \"FastAPI>=0.1\", # flask\n]\n[project.optional-dependencies]\nui = [\"flask\"]\n\
                    [project.scripts]\nx = \"x.cli:main\"\n[dependency-groups]\ndev = [\"pytest\", {include-group = \"y\"}]\n\
                    [tool.poetry.dependencies]\npython = \"^3.11\"\nDjango = {version = \"5\", optional = true}\n[tool.poetry.group.test.dependencies]\nhttpx = \"*\"\n\
                    [tool.uv.workspace]\nmembers = [\"packages/*\"]\n";
        let manifest = pyproject(text).unwrap();
        assert_eq!(
            found(&manifest),
            [
                ("fastapi", Usage::Runtime, 4),
                ("flask", Usage::Optional, 4),
                ("pytest", Usage::Development, 11),
                ("django", Usage::Optional, 14),
                ("httpx", Usage::Development, 16),
            ]
        );
        assert_eq!(manifest.managers, ["uv", "poetry", "pip"]);
        assert_eq!(manifest.entry_modules, ["x.cli"]);
        assert_eq!(manifest.workspace, ["packages/*"]);
        assert!(pyproject("[project\nname=1").unwrap_err().starts_with("line 1"));
    }

    #[test]
    fn older_forms_are_read_too() {
        assert_eq!(
            found(&pipfile("[packages]\nflask = \"*\"\n[dev-packages]\npytest = \"*\"\n").unwrap())[0],
            ("flask", Usage::Runtime, 2)
        );
        let cfg = "[metadata]\nname = lib\n[options]\ninstall_requires =\n    starlette>=0.3\n    # flask\n[options.extras_require]\nall = django\n";
        assert_eq!(found(&setup_cfg(cfg).unwrap()), [("starlette", Usage::Runtime, 5), ("django", Usage::Optional, 8)]);
        let setup =
            "from setuptools import setup\nsetup(\n    name='lib',\n    install_requires=['flask>=2', 'click'],\n)\n";
        assert_eq!(found(&setup_py(setup).unwrap()), [("flask", Usage::Runtime, 4), ("click", Usage::Runtime, 4)]);
        let environment =
            "name: x\ndependencies:\n  - python=3.11\n  - conda-forge::fastapi\n  - pip:\n    - langchain==0.2\n";
        let names: Vec<_> = conda(environment).unwrap().dependencies.into_iter().map(|d| d.name).collect();
        assert_eq!(names, ["python", "fastapi", "langchain"]);
    }
}
