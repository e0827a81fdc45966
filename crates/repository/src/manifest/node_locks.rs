//! Lock files of npm, yarn, pnpm and bun: chosen versions, and the requirements of the project if the file has them.

use serde_json::Value;

use super::node::tables;
use super::{Manifest, in_one_line, json_object, yaml};

pub(super) fn package_lock(text: &str) -> Result<Manifest, String> {
    let object = json_object(text)?;
    let mut manifest = Manifest { managers: vec!["npm"], ..Manifest::default() };
    if let Some(Value::Object(packages)) = object.get("packages") {
        if let Some(Value::Object(root)) = packages.get("") {
            tables(&mut manifest, text, root);
        }
        for (path, package) in packages {
            // Deeper ones are what dependencies depend on.
            let Some(name) = path.strip_prefix("node_modules/").filter(|name| !name.contains("node_modules/")) else {
                continue;
            };
            if let Some(version) = package.get("version").and_then(Value::as_str) {
                manifest.locked.insert(name.to_owned(), version.to_owned());
            }
        }
    } else if let Some(Value::Object(dependencies)) = object.get("dependencies") {
        let versions = dependencies
            .iter()
            .filter_map(|(name, one)| Some((name.clone(), one.get("version")?.as_str()?.to_owned())));
        manifest.locked = versions.collect();
    }
    Ok(manifest)
}

/// Both generations: version 1 has a format of its own, later ones are YAML that this reads line by line as well, since
/// the few lines that matter are alike.
pub(super) fn yarn_lock(text: &str) -> Result<Manifest, String> {
    let mut manifest = Manifest { managers: vec!["yarn", "npm"], ..Manifest::default() };
    let mut current: Option<String> = None;
    for line in text.lines().filter(|line| !line.trim_start().starts_with('#')) {
        if let Some(head) = line.strip_suffix(':').filter(|_| !line.starts_with(char::is_whitespace)) {
            // `"@babel/core@^7.0.0", "@babel/core@npm:^7.1.0":`
            let first = head.split(',').next().unwrap_or(head).trim().trim_matches('"');
            current = first.char_indices().skip(1).find(|(_, c)| *c == '@').map(|(at, _)| first[..at].to_owned());
        } else if let Some(rest) = line.trim_start().strip_prefix("version") {
            let version = rest.trim_start_matches(':').trim().trim_matches('"');
            if let Some(name) = current.take() {
                manifest.locked.insert(name, version.to_owned());
            }
        }
    }
    Ok(manifest)
}

pub(super) fn pnpm_lock(text: &str) -> Result<Manifest, String> {
    let lock = yaml(text)?;
    let mut manifest = Manifest { managers: vec!["pnpm", "npm"], ..Manifest::default() };
    // A lock file for a single project has its tables at the top, one for a workspace under `importers`.
    let root = lock.pointer("/importers/.").unwrap_or(&lock);
    for table in ["dependencies", "devDependencies", "optionalDependencies"] {
        let Some(Value::Object(entries)) = root.get(table) else { continue };
        for (name, entry) in entries {
            let version = entry.as_str().or_else(|| entry.get("version")?.as_str());
            if let Some(version) = version {
                // `18.2.0(react@18.2.0)`: the version, and the peers that it was chosen with.
                let version = version.split('(').next().unwrap_or(version);
                manifest.locked.insert(name.clone(), version.to_owned());
            }
        }
    }
    Ok(manifest)
}

/// JSON with trailing commas, which YAML reads.
pub(super) fn bun_lock(text: &str) -> Result<Manifest, String> {
    let lock = yaml(text)?;
    let mut manifest = Manifest { managers: vec!["bun", "npm"], ..Manifest::default() };
    if let Some(Value::Object(root)) = lock.pointer("/workspaces/") {
        tables(&mut manifest, text, root);
    }
    for (name, entry) in lock.get("packages").and_then(Value::as_object).into_iter().flatten() {
        let chosen = entry.get(0).and_then(Value::as_str).and_then(|full| full.rsplit_once('@'));
        if let Some((_, version)) = chosen {
            manifest.locked.insert(name.clone(), version.to_owned());
        }
    }
    Ok(manifest)
}

/// Older versions of bun write a binary file. It only shows that the project uses bun.
pub(super) fn bun_lockb(_: &str) -> Result<Manifest, String> {
    Ok(Manifest { managers: vec!["bun", "npm"], ..Manifest::default() })
}

/// A JSON document that lists packages with name and version under a key.
pub(super) fn listed_versions(text: &str, keys: &[&str]) -> Result<std::collections::BTreeMap<String, String>, String> {
    let value: Value = serde_json::from_str(text).map_err(in_one_line)?;
    let packages = keys.iter().filter_map(|key| value.get(key)?.as_array()).flatten();
    let version = |package: &Value| {
        Some((
            package.get("name")?.as_str()?.to_owned(),
            package.get("version")?.as_str()?.trim_start_matches('v').to_owned(),
        ))
    };
    Ok(packages.filter_map(version).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(manifest: Result<Manifest, String>, name: &str) -> String {
        manifest.unwrap().locked.remove(name).unwrap()
    }

    #[test]
    fn the_chosen_version_is_read_from_every_lock_file() {
        let npm = "{\"packages\":{\"\":{\"dependencies\":{\"a\":\"^1\"}},\"node_modules/a\":{\"version\":\"1.2.3\"},\"node_modules/a/node_modules/b\":{\"version\":\"9\"}}}";
        assert_eq!(package_lock(npm).unwrap().dependencies.len(), 1);
        assert_eq!(version(package_lock(npm), "a"), "1.2.3");
        let first = "# yarn lockfile v1\n\n\"@nestjs/core@^10.0.0\":\n  version \"10.3.1\"\n  resolved \"x\"\n";
        assert_eq!(version(yarn_lock(first), "@nestjs/core"), "10.3.1");
        let berry = "__metadata:\n  version: 8\n\n\"next@npm:14.1.0, next@npm:^14\":\n  version: 14.1.0\n";
        assert_eq!(version(yarn_lock(berry), "next"), "14.1.0");
        let pnpm = "lockfileVersion: '9.0'\nimporters:\n  .:\n    dependencies:\n      next:\n        specifier: 14.2.3\n        version: 14.2.3(react@18)\n";
        assert_eq!(version(pnpm_lock(pnpm), "next"), "14.2.3");
        let bun = "{\n  \"lockfileVersion\": 1,\n  \"workspaces\": { \"\": { \"dependencies\": { \"hono\": \"^4\", }, }, },\n  \"packages\": { \"hono\": [\"hono@4.6.1\", \"\", {}, \"sha\"], },\n}\n";
        assert_eq!(version(bun_lock(bun), "hono"), "4.6.1");
        assert_eq!(bun_lock(bun).unwrap().dependencies.len(), 1);
    }
}
