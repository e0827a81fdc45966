//! Commands that add a package, for each package manager.

use super::Package;
use crate::manifest::Ecosystem;
use crate::source::Family;

/// Package managers: where their packages come from, and how one is added.
const MANAGERS: [(&str, Ecosystem, &str); 19] = [
    ("pnpm", Ecosystem::Npm, "pnpm add"),
    ("yarn", Ecosystem::Npm, "yarn add"),
    ("bun", Ecosystem::Npm, "bun add"),
    ("deno", Ecosystem::Npm, "deno add npm:"),
    ("npm", Ecosystem::Npm, "npm install"),
    ("uv", Ecosystem::Pypi, "uv add"),
    ("poetry", Ecosystem::Pypi, "poetry add"),
    ("pdm", Ecosystem::Pypi, "pdm add"),
    ("pipenv", Ecosystem::Pypi, "pipenv install"),
    ("conda", Ecosystem::Pypi, "pip install"),
    ("hatch", Ecosystem::Pypi, "pip install"),
    ("pip", Ecosystem::Pypi, "pip install"),
    ("cargo", Ecosystem::Cargo, "cargo add"),
    ("go", Ecosystem::Go, "go get"),
    ("maven", Ecosystem::Maven, "add to `<dependencies>` of pom.xml: "),
    ("gradle", Ecosystem::Maven, "add to `dependencies` of the build file: implementation "),
    ("bundler", Ecosystem::Rubygems, "bundle add"),
    ("composer", Ecosystem::Composer, "composer require"),
    ("dotnet", Ecosystem::Nuget, "dotnet add package"),
];

/// Where the packages of a manager come from.
pub(crate) fn ecosystem_of(manager: &str) -> Option<Ecosystem> {
    MANAGERS.iter().find(|(name, ..)| *name == manager).map(|&(_, ecosystem, _)| ecosystem)
}

/// The command that adds a package.
pub(crate) fn add_command(manager: &str, package: &Package<'_>) -> Option<String> {
    let (.., command) = MANAGERS.iter().find(|(name, ..)| *name == manager)?;
    let gap = if command.ends_with([':', '=', ' ']) { "" } else { " " };
    let name = package.name;
    // Comparisons and carets mean something to shells.
    let package = match (package.ecosystem, package.versions) {
        (_, None) | (Ecosystem::Maven | Ecosystem::Rubygems | Ecosystem::Nuget, _) => name.to_owned(),
        (Ecosystem::Pypi, Some(versions)) => format!("\"{name}{versions}\""),
        (Ecosystem::Composer, Some(versions)) => format!("\"{name}:{versions}\""),
        (Ecosystem::Npm | Ecosystem::Cargo | Ecosystem::Go, Some(versions)) => format!("\"{name}@{versions}\""),
    };
    Some(format!("{command}{gap}{package}"))
}

/// The manager of a family of languages where a project names none.
pub(crate) fn usual_manager(family: Family) -> &'static str {
    match family {
        Family::Csharp => "dotnet",
        Family::Go => "go",
        Family::Java => "maven",
        Family::Javascript => "npm",
        Family::Php => "composer",
        Family::Python => "pip",
        Family::Ruby => "bundler",
        Family::Rust => "cargo",
    }
}
