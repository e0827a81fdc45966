//! Cargo.toml and Cargo.lock.

use toml::{Table, Value};

use super::{Manifest, Usage, place, toml_table};

const TABLES: [(&str, Usage); 3] = [
    ("dependencies", Usage::Runtime),
    ("dev-dependencies", Usage::Development),
    ("build-dependencies", Usage::Development),
];

pub(super) fn cargo_toml(text: &str) -> Result<Manifest, String> {
    let table = toml_table(text)?;
    let mut manifest = Manifest { managers: vec!["cargo"], ..Manifest::default() };
    manifest.name = table.get("package").and_then(|package| package.get("name")?.as_str()).map(str::to_owned);
    tables(&mut manifest, text, &table);
    for target in table.get("target").and_then(Value::as_table).into_iter().flat_map(Table::values) {
        if let Value::Table(target) = target {
            tables(&mut manifest, text, target);
        }
    }
    let workspace = table.get("workspace");
    let members = workspace.and_then(|workspace| workspace.get("members")).and_then(Value::as_array);
    manifest.workspace = members.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
    for bin in table.get("bin").and_then(Value::as_array).into_iter().flatten() {
        manifest.entry_points.extend(bin.get("path").and_then(Value::as_str).map(str::to_owned));
    }
    Ok(manifest)
}

fn tables(manifest: &mut Manifest, text: &str, table: &Table) {
    for (key, usage) in TABLES {
        let from = place(text, &format!("{key}]"));
        for (name, value) in table.get(key).and_then(Value::as_table).into_iter().flatten() {
            let package = value.get("package").and_then(Value::as_str).unwrap_or(name);
            let versions = value.as_str().or_else(|| value.get("version")?.as_str());
            let optional = value.get("optional").and_then(Value::as_bool) == Some(true);
            let usage = if optional { Usage::Optional } else { usage };
            manifest.depends_as(text, from, name, package.to_owned(), versions, usage);
        }
    }
}

pub(super) fn cargo_lock(text: &str) -> Result<Manifest, String> {
    let table = toml_table(text)?;
    let packages = table.get("package").and_then(Value::as_array).into_iter().flatten();
    let version = |package: &Value| {
        Some((package.get("name")?.as_str()?.to_owned(), package.get("version")?.as_str()?.to_owned()))
    };
    Ok(Manifest { managers: vec!["cargo"], locked: packages.filter_map(version).collect(), ..Manifest::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renamed_and_inherited_dependencies_are_known_by_their_package() {
        let text = "[package]\nname = \"x\"\n[dependencies]\nweb = { package = \"axum\", version = \"0.7\" }\nserde.workspace = true\n[dev-dependencies]\nrocket = \"1\"\n[workspace]\nmembers = [\"crates/*\"]\n";
        let manifest = cargo_toml(text).unwrap();
        let found: Vec<_> = manifest.dependencies.iter().map(|d| (d.name.as_str(), d.usage, d.line)).collect();
        assert_eq!(
            found,
            [("serde", Usage::Runtime, 5), ("axum", Usage::Runtime, 4), ("rocket", Usage::Development, 7)]
        );
        assert_eq!(manifest.workspace, ["crates/*"]);
    }
}
