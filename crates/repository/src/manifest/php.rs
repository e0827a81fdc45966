//! composer.json and composer.lock.

use serde_json::Value;

use super::node_locks::listed_versions;
use super::{Manifest, Usage, json_object, place};

pub(super) fn composer_json(text: &str) -> Result<Manifest, String> {
    let object = json_object(text)?;
    let name = object.get("name").and_then(Value::as_str).map(str::to_owned);
    let mut manifest = Manifest { name, managers: vec!["composer"], ..Manifest::default() };
    for (key, usage) in [("require", Usage::Runtime), ("require-dev", Usage::Development)] {
        let from = place(text, &format!("\"{key}\""));
        for (name, versions) in object.get(key).and_then(Value::as_object).into_iter().flatten() {
            manifest.depends(text, from, name, versions.as_str(), usage);
        }
    }
    Ok(manifest)
}

pub(super) fn composer_lock(text: &str) -> Result<Manifest, String> {
    let locked = listed_versions(text, &["packages", "packages-dev"])?;
    Ok(Manifest { managers: vec!["composer"], locked, ..Manifest::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_tables_are_read() {
        let manifest =
            composer_json("{\"require\":{\"laravel/framework\":\"^11\"},\"require-dev\":{\"symfony/yaml\":\"*\"}}")
                .unwrap();
        let found: Vec<_> = manifest.dependencies.iter().map(|d| (d.name.as_str(), d.usage)).collect();
        assert_eq!(found, [("laravel/framework", Usage::Runtime), ("symfony/yaml", Usage::Development)]);
        let lock = composer_lock("{\"packages\":[{\"name\":\"laravel/framework\",\"version\":\"v11.2\"}]}").unwrap();
        assert_eq!(lock.locked.get("laravel/framework").map(String::as_str), Some("11.2"));
    }
}
