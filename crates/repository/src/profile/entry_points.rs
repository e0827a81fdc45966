//! Where the programs of a project begin.

use std::collections::BTreeSet;

use crate::manifest::Format;
use crate::survey::{FileFacts, Project, Survey, folder};

/// Ends of paths, in whole parts, at which programs begin.
const ANYWHERE: [&str; 16] = [
    "src/server.ts",
    "src/index.ts",
    "src/main.ts",
    "src/server.js",
    "src/index.js",
    "src/main.js",
    "src/app.ts",
    "src/app.js",
    "main.py",
    "manage.py",
    "app.py",
    "__main__.py",
    "wsgi.py",
    "asgi.py",
    "src/main.rs",
    "config.ru",
];

/// Paths from the project's folder at which programs begin.
const AT_TOP: [&str; 22] = [
    "server.js",
    "server.mjs",
    "server.cjs",
    "server.ts",
    "index.js",
    "index.mjs",
    "index.cjs",
    "index.ts",
    "app.js",
    "app.mjs",
    "app.ts",
    "main.ts",
    "server.py",
    "next.config.js",
    "next.config.mjs",
    "next.config.ts",
    "next.config.cjs",
    "bin/rails",
    "artisan",
    "public/index.php",
    "index.php",
    "app.rb",
];

/// The files in which programs of a project begin, as seen from the root.
pub(crate) fn of(survey: &Survey, project: &Project) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for file in survey.files_of(project).filter(|file| !file.aside) {
        if file.is_main && file.language.is_some() || by_path(project.inner(&file.path), file) {
            found.insert(file.path.clone());
        }
        if file.format.is_some() {
            found.extend(named(survey, file));
        }
    }
    found
}

fn by_path(inner: &str, file: &FileFacts) -> bool {
    let ends_with =
        |end: &&str| inner.strip_suffix(*end).is_some_and(|before| before.is_empty() || before.ends_with('/'));
    let rust_program = inner.starts_with("src/bin/") && inner.ends_with(".rs");
    let is_code = file.language.is_some() && Format::of(&file.path).is_none();
    is_code && (ANYWHERE.iter().any(ends_with) || AT_TOP.contains(&inner) || rust_program)
}

/// Files that a manifest names, if they are there.
fn named(survey: &Survey, file: &FileFacts) -> Vec<String> {
    let Some(manifest) = &file.manifest else { return Vec::new() };
    let folder = folder(&file.path);
    let within = |path: &str| {
        let path = path.trim_start_matches("./");
        if folder.is_empty() { path.to_owned() } else { format!("{folder}/{path}") }
    };
    let mut found: Vec<String> = manifest.entry_points.iter().map(|path| within(path)).collect();
    for module in &manifest.entry_modules {
        let path = module.replace('.', "/");
        let places = [
            format!("{path}.py"),
            format!("{path}/__main__.py"),
            format!("src/{path}.py"),
            format!("src/{path}/__main__.py"),
            format!("{path}/__init__.py"),
        ];
        found.extend(places.iter().map(|path| within(path)).find(|path| survey.has_file(path)));
    }
    found.retain(|path| survey.has_file(path));
    found
}
