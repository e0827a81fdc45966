//! package.json and related files.

use serde_json::{Map, Value};

use super::{Manifest, Usage, in_one_line, json_object, place, yaml};

const TABLES: [(&str, Usage); 4] = [
    ("dependencies", Usage::Runtime),
    ("devDependencies", Usage::Development),
    ("peerDependencies", Usage::Peer),
    ("optionalDependencies", Usage::Optional),
];

pub(super) fn package_json(text: &str) -> Result<Manifest, String> {
    let object = json_object(text)?;
    let mut manifest = Manifest { name: string(&object, "name"), ..Manifest::default() };
    tables(&mut manifest, text, &object);
    manifest.workspace = match object.get("workspaces") {
        Some(Value::Array(patterns)) => strings(patterns),
        Some(Value::Object(table)) => {
            table.get("packages").and_then(Value::as_array).map_or_else(Vec::new, |p| strings(p))
        }
        _ => Vec::new(),
    };
    // `pnpm@9.1.0+sha512…` names the package manager, regardless of lock files.
    let manager = string(&object, "packageManager");
    manifest.managers = match manager.as_deref().and_then(|given| given.split('@').next()) {
        Some("pnpm") => vec!["pnpm"],
        Some("yarn") => vec!["yarn"],
        Some("bun") => vec!["bun"],
        _ => Vec::new(),
    };
    manifest.managers.push("npm");
    manifest.entry_points.extend(string(&object, "main"));
    match object.get("bin") {
        Some(Value::String(path)) => manifest.entry_points.push(path.clone()),
        Some(Value::Object(paths)) => {
            manifest.entry_points.extend(paths.values().filter_map(Value::as_str).map(str::to_owned))
        }
        _ => {}
    }
    if let Some(Value::Object(scripts)) = object.get("scripts") {
        let scripts = scripts.iter().filter_map(|(name, command)| Some((name.clone(), command.as_str()?.to_owned())));
        manifest.scripts = scripts.collect();
    }
    let started = ["start", "dev", "serve"].iter().filter_map(|name| manifest.scripts.get(*name));
    let started: Vec<String> = started.flat_map(|command| started_files(command)).collect();
    manifest.entry_points.extend(started);
    Ok(manifest)
}

/// `node server.js` and `tsx watch src/index.ts` start those files.
fn started_files(command: &str) -> Vec<String> {
    let mut words = command.split_whitespace().peekable();
    let mut files = Vec::new();
    while let Some(word) = words.next() {
        if matches!(word, "node" | "tsx" | "ts-node" | "ts-node-dev" | "nodemon" | "bun" | "deno") {
            let is_file = |word: &&str| [".js", ".mjs", ".cjs", ".ts", ".mts"].iter().any(|end| word.ends_with(end));
            let options = |word: &&str| word.starts_with('-') || matches!(*word, "run" | "watch");
            files.extend(words.clone().find(|word| !options(word)).filter(is_file).map(str::to_owned));
        }
    }
    files
}

/// The dependency tables of package.json, and of the like tables in lock files.
pub(super) fn tables(manifest: &mut Manifest, text: &str, object: &Map<String, Value>) {
    for (key, usage) in TABLES {
        let Some(Value::Object(table)) = object.get(key) else { continue };
        let from = place(text, &format!("\"{key}\""));
        for (name, requirement) in table {
            manifest.depends(text, from, name, requirement.as_str(), usage);
        }
    }
}

/// Imports of Deno name packages of npm and of JSR; both are known by their names.
pub(super) fn deno_json(text: &str) -> Result<Manifest, String> {
    let value: Value = yaml(text).or_else(|_| serde_json::from_str(text).map_err(in_one_line))?;
    let Value::Object(object) = value else { return Err("the top level is no object".to_owned()) };
    let mut manifest = Manifest { name: string(&object, "name"), managers: vec!["deno"], ..Manifest::default() };
    let from = place(text, "\"imports\"");
    let imports = object.get("imports").and_then(Value::as_object).into_iter().flatten();
    for (_, target) in imports {
        let Some(target) = target.as_str() else { continue };
        let package = target.strip_prefix("npm:").or_else(|| target.strip_prefix("jsr:"));
        let Some(package) = package else { continue };
        let (name, requirement) = match package.rfind('@').filter(|&at| at > 0) {
            Some(at) => (&package[..at], Some(&package[at + 1..])),
            None => (package, None),
        };
        let written = target;
        manifest.depends_as(text, from, written, name.to_owned(), requirement, Usage::Runtime);
    }
    if let Some(Value::Array(members)) = object.get("workspace") {
        manifest.workspace = strings(members);
    }
    Ok(manifest)
}

pub(super) fn pnpm_workspace(text: &str) -> Result<Manifest, String> {
    let packages = yaml(text)?.get("packages").and_then(Value::as_array).map_or_else(Vec::new, |found| strings(found));
    Ok(Manifest { workspace: packages, managers: vec!["pnpm", "npm"], ..Manifest::default() })
}

fn string(object: &Map<String, Value>, key: &str) -> Option<String> {
    object.get(key).and_then(Value::as_str).map(str::to_owned)
}

fn strings(values: &[Value]) -> Vec<String> {
    values.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn npm_dependencies_workspaces_and_entry_points_are_read() {
        let text = "{\"name\":\"a\",\"packageManager\":\"pnpm@9.0.0\",\"main\":\"lib/x.js\",\"bin\":{\"a\":\"./cli.mjs\"},\n\
                    \"scripts\":{\"start\":\"NODE_ENV=production node --enable-source-maps server.js\",\"dev\":\"tsx watch src/index.ts\"},\n\
                    \"workspaces\":{\"packages\":[\"apps/*\"]},\n\"dependencies\":{\n\"express\":\"^5\"},\"devDependencies\":{\"next\":1}}";
        let manifest = package_json(text).unwrap();
        assert_eq!(manifest.managers, ["pnpm", "npm"]);
        assert_eq!(manifest.workspace, ["apps/*"]);
        assert_eq!(manifest.entry_points, ["lib/x.js", "./cli.mjs", "server.js", "src/index.ts"]);
        let found: Vec<_> = manifest
            .dependencies
            .iter()
            .map(|d| (d.name.as_str(), d.requirement.as_deref(), d.usage, d.line))
            .collect();
        assert_eq!(found, [("express", Some("^5"), Usage::Runtime, 5), ("next", None, Usage::Development, 5)]);
    }

    #[test]
    fn a_package_json_without_an_object_is_refused_with_a_reason() {
        assert_eq!(package_json("[1]").unwrap_err(), "the top level is no object");
        assert!(package_json("{\"a\":1,}").unwrap_err().contains("line 1"));
    }

    #[test]
    fn deno_names_packages_by_where_they_come_from() {
        let text =
            "{\"imports\":{\"hono\":\"jsr:@hono/hono@^4.6\",\"x\":\"npm:express\",\"std/\":\"https://deno.land/\"}}";
        let found: Vec<_> =
            deno_json(text).unwrap().dependencies.into_iter().map(|d| (d.name, d.requirement)).collect();
        assert_eq!(found, [("@hono/hono".to_owned(), Some("^4.6".to_owned())), ("express".to_owned(), None)]);
    }
}
