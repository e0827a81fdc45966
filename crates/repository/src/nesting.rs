//! Tests that no parser of a manifest or source file fails fatally for deeply nested text of an untrusted clone. An overflow
//! of the stack would end the test process.

use std::time::{Duration, Instant};

use crate::language::Language;
use crate::manifest::Format;
use crate::source::{first_mistake, outline};

/// How often each beginning is repeated.
const LEVELS: usize = 15_000;

const MANIFESTS: [&str; 34] = [
    "package.json",
    "deno.jsonc",
    "pnpm-workspace.yaml",
    "package-lock.json",
    "yarn.lock",
    "pnpm-lock.yaml",
    "bun.lock",
    "bun.lockb",
    "pyproject.toml",
    "Pipfile",
    "setup.cfg",
    "environment.yml",
    "poetry.lock",
    "uv.lock",
    "pdm.lock",
    "Pipfile.lock",
    "Cargo.toml",
    "Cargo.lock",
    "go.mod",
    "go.work",
    "pom.xml",
    "build.gradle",
    "settings.gradle",
    "libs.versions.toml",
    "Gemfile",
    "gems.rb",
    "Gemfile.lock",
    "composer.json",
    "composer.lock",
    "packages.config",
    "a.csproj",
    "a.sln",
    "a.gemspec",
    "requirements.txt",
];

const SOURCES: [&str; 11] =
    ["a.py", "a.js", "a.ts", "a.tsx", "a.go", "a.rs", "A.java", "a.kt", "A.cs", "a.rb", "a.php"];

const BEGINNINGS: [&str; 12] = ["{", "[", "(", "{\"a\":", "- ", "? ", "&a [", "<a>", "a={a=", "${", "a.", "/*"];

fn assert_soon(what: &str, beginning: &str, limit: Duration, act: impl FnOnce()) {
    let begun = Instant::now();
    act();
    let took = begun.elapsed();
    assert!(took < limit, "{what} with {beginning:?} took {took:?}");
}

#[test]
fn no_manifest_is_nested_too_deep() {
    for name in MANIFESTS {
        let format = Format::of(name).unwrap_or_else(|| panic!("{name} is a manifest"));
        for beginning in BEGINNINGS {
            let nested = beginning.repeat(LEVELS);
            for text in [nested.clone(), format!("a = {nested}"), format!("{{\"a\": {nested}"), format!("a: {nested}")]
            {
                assert_soon(name, beginning, Duration::from_secs(10), || drop(format.read(text.as_bytes())));
            }
        }
    }
}

#[test]
fn no_source_file_is_nested_too_deep() {
    for name in SOURCES {
        let language = Language::by_name(name).unwrap_or_else(|| panic!("{name} has a language"));
        for beginning in ["{", "(", "a(", "<a>", "/*", "${"] {
            let text = beginning.repeat(LEVELS);
            assert_soon(name, beginning, Duration::from_secs(20), || {
                drop(outline(language, name, &text, &["a."]));
                let _ = first_mistake(language, name, &text);
            });
        }
    }
}
