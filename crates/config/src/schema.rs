//! The JSON Schema of the configuration file, for editors. It is derived from the types of the settings, and the file
//! itself is checked against it ([`super::schema_check`]).

use std::borrow::Cow;
use std::sync::LazyLock;

use gladhand_dialects::{REGISTRY, Speak};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

use super::reading::MOST_UPSTREAMS;
use super::{Config, Hidden, Inherit, UpstreamConfig, Upstreams};

/// A keyword of our own: what to do instead of a value that is out of range. It is not shown to editors.
pub(crate) const ADVICE: &str = "x-advice";

/// The schema that files are checked against.
pub(crate) static RULES: LazyLock<Value> = LazyLock::new(|| {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let mut schema = settings.into_generator().into_root_schema_for::<Config>().to_value();
    adapt(&mut schema);
    schema
});

/// The schema as a whole.
pub fn schema() -> Value {
    let mut schema = RULES.clone();
    without_advice(&mut schema);
    schema
}

/// TOML has no null and no sizes of numbers, so a schema of a file has neither.
fn adapt(schema: &mut Value) {
    let Some(keywords) = schema.as_object_mut() else { return };
    keywords.remove("format");
    // A table of settings has the defaults of its members.
    if keywords.contains_key("properties") || keywords.get("default").is_some_and(Value::is_null) {
        keywords.remove("default");
    }
    if let Some(Value::String(description)) = keywords.get_mut("description") {
        *description = description.replace('\n', " ");
    }
    if let Some(Value::Array(types)) = keywords.get_mut("type") {
        types.retain(|name| name != "null");
        if let [one] = &types[..] {
            let one = one.clone();
            keywords.insert("type".to_owned(), one);
        }
    }
    if let Some(Value::Array(ways)) = keywords.get_mut("anyOf") {
        ways.retain(|way| way["type"] != "null");
        if let [Value::Object(one)] = &mut ways[..] {
            let one = std::mem::take(one);
            keywords.remove("anyOf");
            for (name, value) in one {
                keywords.entry(name).or_insert(value);
            }
        }
    }
    for (name, value) in keywords.iter_mut() {
        match (name.as_str(), value) {
            ("properties", Value::Object(members)) => members.values_mut().for_each(adapt),
            ("items" | "additionalProperties", inner) => adapt(inner),
            ("anyOf" | "oneOf", Value::Array(ways)) => ways.iter_mut().for_each(adapt),
            _ => {}
        }
    }
}

fn without_advice(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            members.remove(ADVICE);
            members.values_mut().for_each(without_advice);
        }
        Value::Array(items) => items.iter_mut().for_each(without_advice),
        _ => {}
    }
}

/// Implements the schema of types that are written as one kind of value.
macro_rules! written_as {
    ($($type:ty => $schema:tt),* $(,)?) => {$(
        impl JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        }
    )*};
}

written_as! {
    Hidden => { "type": "string" },
    super::policy::CallersText => { "type": "string" },
    super::policy::ToolsText => { "type": "string" },
    super::policy::Condition => { "type": "string" },
    super::policy::Schema => { "type": ["object", "boolean"] },
    Inherit => { "anyOf": [{ "const": "all" }, { "type": "array", "items": { "type": "string" } }] },
}

impl JsonSchema for Upstreams {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Upstreams".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "propertyNames": { "pattern": "^[A-Za-z0-9_-]+$" },
            "maxProperties": MOST_UPSTREAMS,
            "additionalProperties": generator.subschema_for::<UpstreamConfig>(),
        })
    }
}

/// One word or several.
pub(crate) fn word_or_words(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }] })
}

/// The dialects that can be spoken to an upstream.
pub(crate) fn spoken(_: &mut SchemaGenerator) -> Schema {
    let names = REGISTRY.iter().flat_map(|dialect| {
        let versions = dialect.versions.iter().map(|version| format!("{}@{version}", dialect.name));
        std::iter::once(dialect.name.to_owned()).chain(versions)
    });
    or_reference(&json!({ "enum": std::iter::once(Speak::AUTO.to_owned()).chain(names).collect::<Vec<_>>() }))
}

/// How tokens for an upstream are obtained.
pub(crate) fn oauth(_: &mut SchemaGenerator) -> Schema {
    or_reference(&json!({ "const": "oauth" }))
}

/// One of these words, or a reference to it.
fn or_reference(words: &Value) -> Schema {
    json_schema!({ "anyOf": [words, { "type": "string", "pattern": "\\$\\{" }] })
}

/// The members of a schema's table.
pub(crate) fn properties(schema: &Value) -> Option<&Map<String, Value>> {
    schema["properties"].as_object()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_has_defaults_ranges_words_and_descriptions() {
        let schema = schema();
        let sections = &schema["properties"];
        assert_eq!(schema["title"], "gladhand.toml");
        let page_size = json!({
            "type": "integer", "minimum": 1, "maximum": 10_000, "default": 100, "description": "Tools on a page of a list."
        });
        assert_eq!(sections["limits"]["properties"]["page_size"], page_size);
        assert_eq!(sections["agent"]["properties"]["compatible_key"]["type"], "string");
        let rule = &sections["policy"]["properties"]["rules"]["items"];
        assert_eq!((&rule["additionalProperties"], &rule["required"]), (&json!(false), &json!(["effect"])));
        let text = schema.to_string();
        for none in ["null", "format", ADVICE, "$ref", "${secret"] {
            assert!(!text.contains(none), "{none}");
        }
    }

    /// Each key has a description, and docs/configuration.md or a page that it links names it.
    #[test]
    fn every_key_is_described_here_and_in_the_documentation() {
        fn look(schema: &Value, path: &str, pages: &str) {
            for (name, inner) in properties(schema).into_iter().flatten() {
                let path = format!("{path}.{name}");
                assert!(inner["description"].as_str().is_some_and(|text| text.ends_with('.')), "{path}: {inner}");
                let is_named =
                    [format!("`{name}`"), format!(".{name}`"), format!("[{}", &path[1..]), format!("`{}", &path[1..])];
                assert!(is_named.iter().any(|named| pages.contains(named)), "{path} is on no page");
                look(inner, &path, pages);
                look(&inner["additionalProperties"], &path, pages);
                look(&inner["items"], &path, pages);
            }
        }
        let pages = concat!(include_str!("../../../docs/configuration.md"), include_str!("../../../docs/policy.md"));
        look(&RULES, "", pages);
    }
}
