//! Lock files of poetry, uv, pdm and pipenv: chosen versions.

use serde_json::Value as Json;
use toml::Value;

use super::requirements::normal;
use super::{Manifest, json_object, toml_table};

pub(super) fn poetry(text: &str) -> Result<Manifest, String> {
    packages(text, vec!["poetry", "pip"])
}

pub(super) fn uv(text: &str) -> Result<Manifest, String> {
    packages(text, vec!["uv", "pip"])
}

pub(super) fn pdm(text: &str) -> Result<Manifest, String> {
    packages(text, vec!["pdm", "pip"])
}

/// All three list packages as `[[package]]` with name and version.
fn packages(text: &str, managers: Vec<&'static str>) -> Result<Manifest, String> {
    let table = toml_table(text)?;
    let packages = table.get("package").and_then(Value::as_array).into_iter().flatten();
    let version =
        |package: &Value| Some((normal(package.get("name")?.as_str()?), package.get("version")?.as_str()?.to_owned()));
    Ok(Manifest { managers, locked: packages.filter_map(version).collect(), ..Manifest::default() })
}

pub(super) fn pipfile(text: &str) -> Result<Manifest, String> {
    let object = json_object(text)?;
    let tables = ["default", "develop"].iter().filter_map(|key| object.get(*key)?.as_object());
    let version = |(name, entry): (&String, &Json)| {
        Some((normal(name), entry.get("version")?.as_str()?.trim_start_matches('=').to_owned()))
    };
    let locked = tables.flatten().filter_map(version).collect();
    Ok(Manifest { managers: vec!["pipenv", "pip"], locked, ..Manifest::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chosen_versions_are_read() {
        let lock = "version = 1\n[[package]]\nname = \"Fast_API\"\nversion = \"0.1\"\n[[package]]\nname = \"local\"\n";
        let manifest = uv(lock).unwrap();
        assert_eq!(manifest.locked.get("fast-api").map(String::as_str), Some("0.1"));
        assert_eq!(manifest.managers, ["uv", "pip"]);
        let pipenv = pipfile("{\"default\":{\"flask\":{\"version\":\"==3.0\"}}}").unwrap();
        assert_eq!(pipenv.locked.get("flask").map(String::as_str), Some("3.0"));
    }
}
