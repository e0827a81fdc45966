//! Manifests and lock files, each read by a real parser of its format.
//!
//! A manifest names the project, its dependencies, its entry points and the other projects that belong to it. A lock
//! file lists the chosen versions. A file that cannot be parsed becomes a warning of the scan.

mod adding;
mod dotnet;
mod go;
mod gradle;
mod maven;
mod node;
mod node_locks;
mod php;
mod python;
mod python_locks;
mod requirements;
mod ruby;
mod rust;

use std::collections::BTreeMap;

use serde::Deserialize;

pub(crate) use self::adding::{Addition, addition};
use crate::text;

/// Maximum number of dependencies that are read from a manifest. Real projects have fewer, but a file may be malicious.
const MOST: usize = 10_000;

/// A package ecosystem. Names are unique only within one of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Ecosystem {
    Cargo,
    Composer,
    Go,
    Maven,
    Npm,
    Nuget,
    Pypi,
    Rubygems,
}

/// The purpose of a dependency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Usage {
    /// Needed to run.
    Runtime,
    /// Needed to run with an optional feature.
    Optional,
    /// Needed to build, test or develop.
    Development,
    /// Provided by the user of the package.
    Peer,
}

/// One dependency of a project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Dependency {
    /// The name in the normalized spelling of the ecosystem.
    pub(crate) name: String,
    /// The version requirement, as written.
    pub(crate) requirement: Option<String>,
    pub(crate) usage: Usage,
    /// The line, from 1.
    pub(crate) line: usize,
    /// The text of that line.
    pub(crate) text: String,
}

/// The contents of a manifest or lock file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Manifest {
    /// The project's own name.
    pub(crate) name: Option<String>,
    pub(crate) dependencies: Vec<Dependency>,
    /// Chosen versions by name; only lock files have them.
    pub(crate) locked: BTreeMap<String, String>,
    /// Patterns of folders that are members of this workspace.
    pub(crate) workspace: Vec<String>,
    /// Package managers, best evidence first.
    pub(crate) managers: Vec<&'static str>,
    /// Entry points (files), relative to the manifest.
    pub(crate) entry_points: Vec<String>,
    /// Commands that can be run by name.
    pub(crate) scripts: BTreeMap<String, String>,
    /// Entry points given as dotted names of Python modules. Their files are searched for later.
    pub(crate) entry_modules: Vec<String>,
}

/// The format of a manifest.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Format {
    /// The package ecosystem.
    pub(crate) ecosystem: Ecosystem,
    /// The role of the file for its folder.
    pub(crate) role: Role,
    read: fn(&str) -> Result<Manifest, String>,
}

/// The role of a manifest for its folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// The folder is a project.
    Project,
    /// The file only lists chosen versions.
    Lock,
    /// The file adds to another manifest.
    Addition,
}

impl Format {
    /// The format of the file with this path, if it is a manifest.
    pub(crate) fn of(path: &str) -> Option<Self> {
        let name = path.rsplit('/').next().unwrap_or(path);
        let project = |ecosystem, read| Some(Self { ecosystem, role: Role::Project, read });
        let lock = |ecosystem, read| Some(Self { ecosystem, role: Role::Lock, read });
        let addition = |ecosystem, read| Some(Self { ecosystem, role: Role::Addition, read });
        match name {
            "package.json" => project(Ecosystem::Npm, node::package_json),
            "deno.json" | "deno.jsonc" => project(Ecosystem::Npm, node::deno_json),
            "pnpm-workspace.yaml" => addition(Ecosystem::Npm, node::pnpm_workspace),
            "package-lock.json" | "npm-shrinkwrap.json" => lock(Ecosystem::Npm, node_locks::package_lock),
            "yarn.lock" => lock(Ecosystem::Npm, node_locks::yarn_lock),
            "pnpm-lock.yaml" => lock(Ecosystem::Npm, node_locks::pnpm_lock),
            "bun.lock" => lock(Ecosystem::Npm, node_locks::bun_lock),
            "bun.lockb" => lock(Ecosystem::Npm, node_locks::bun_lockb),
            "pyproject.toml" => project(Ecosystem::Pypi, python::pyproject),
            "Pipfile" => project(Ecosystem::Pypi, python::pipfile),
            "setup.cfg" => project(Ecosystem::Pypi, python::setup_cfg),
            "setup.py" => project(Ecosystem::Pypi, python::setup_py),
            "environment.yml" | "environment.yaml" => project(Ecosystem::Pypi, python::conda),
            "poetry.lock" => lock(Ecosystem::Pypi, python_locks::poetry),
            "uv.lock" => lock(Ecosystem::Pypi, python_locks::uv),
            "pdm.lock" => lock(Ecosystem::Pypi, python_locks::pdm),
            "Pipfile.lock" => lock(Ecosystem::Pypi, python_locks::pipfile),
            "Cargo.toml" => project(Ecosystem::Cargo, rust::cargo_toml),
            "Cargo.lock" => lock(Ecosystem::Cargo, rust::cargo_lock),
            "go.mod" => project(Ecosystem::Go, go::go_mod),
            "go.work" => addition(Ecosystem::Go, go::go_work),
            "pom.xml" => project(Ecosystem::Maven, maven::pom),
            "build.gradle" | "build.gradle.kts" => project(Ecosystem::Maven, gradle::build),
            "settings.gradle" | "settings.gradle.kts" => addition(Ecosystem::Maven, gradle::settings),
            "libs.versions.toml" => addition(Ecosystem::Maven, gradle::catalog),
            "Gemfile" | "gems.rb" => project(Ecosystem::Rubygems, ruby::gemfile),
            "Gemfile.lock" => lock(Ecosystem::Rubygems, ruby::gemfile_lock),
            "composer.json" => project(Ecosystem::Composer, php::composer_json),
            "composer.lock" => lock(Ecosystem::Composer, php::composer_lock),
            "packages.config" => addition(Ecosystem::Nuget, dotnet::packages_config),
            _ if name.ends_with(".csproj") || name.ends_with(".fsproj") => project(Ecosystem::Nuget, dotnet::project),
            _ if name.ends_with(".sln") => addition(Ecosystem::Nuget, dotnet::solution),
            _ if name.ends_with(".gemspec") => project(Ecosystem::Rubygems, ruby::gemspec),
            _ if is_requirements(path, name) => match requirements::usage(name) {
                Usage::Runtime => project(Ecosystem::Pypi, requirements::runtime),
                _ => addition(Ecosystem::Pypi, requirements::development),
            },
            _ => None,
        }
    }

    /// Parses the file, or returns the reason why it cannot be parsed.
    pub(crate) fn read(&self, bytes: &[u8]) -> Result<Manifest, String> {
        (self.read)(&text::decode(bytes))
    }
}

/// `requirements.txt`, `requirements-dev.txt`, `dev-requirements.in`, `requirements/base.txt`.
fn is_requirements(path: &str, name: &str) -> bool {
    let Some(stem) = name.strip_suffix(".txt").or_else(|| name.strip_suffix(".in")) else { return false };
    let folder = path.rsplit('/').nth(1);
    stem.starts_with("requirements") || stem.ends_with("requirements") || folder == Some("requirements")
}

impl Manifest {
    /// Adds a dependency, which is written somewhere in `text` at or after `from`.
    fn depends(&mut self, text: &str, from: usize, name: &str, requirement: Option<&str>, usage: Usage) {
        self.depends_as(text, from, name, name.to_owned(), requirement, usage);
    }

    /// The same, for a name whose normalized spelling differs from the written one.
    fn depends_as(
        &mut self,
        text: &str,
        from: usize,
        written: &str,
        name: String,
        requirement: Option<&str>,
        usage: Usage,
    ) {
        if self.dependencies.len() >= MOST {
            return;
        }
        let at = text::whole_word(text, written, from).or_else(|| text.find(written)).unwrap_or(0);
        let requirement = requirement.map(str::trim).filter(|given| !given.is_empty()).map(str::to_owned);
        let (line, text) = (text::line_at(text, at), text::line_text(text, at));
        self.dependencies.push(Dependency { name, requirement, usage, line, text });
    }
}

/// The error of a parser, in one line.
fn in_one_line(why: impl std::fmt::Display) -> String {
    let told = why.to_string();
    let mut lines = told.lines().map(str::trim).filter(|line| !line.is_empty());
    text::shortened(lines.next().unwrap_or("not readable"), 160)
}

/// Parses a JSON object. Comments and trailing commas are errors.
fn json_object(text: &str) -> Result<serde_json::Map<String, serde_json::Value>, String> {
    match serde_json::from_str(text).map_err(in_one_line)? {
        serde_json::Value::Object(object) => Ok(object),
        _ => Err("the top level is no object".to_owned()),
    }
}

fn toml_table(text: &str) -> Result<toml::Table, String> {
    text.parse().map_err(|why: toml::de::Error| {
        let line = why.span().map_or(1, |span| text::line_at(text, span.start));
        format!("line {line}: {}", in_one_line(why.message()))
    })
}

fn yaml(text: &str) -> Result<serde_json::Value, String> {
    serde_saphyr::from_str(text).map_err(in_one_line)
}

/// The position of a table or key in a manifest, after which names are searched for.
fn place(text: &str, key: &str) -> usize {
    text.find(key).unwrap_or(0)
}
