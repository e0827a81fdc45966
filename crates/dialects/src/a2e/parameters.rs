//! Converts JSON Schema to `ToolParameter` lists and back (a2e §9.2).
//!
//! A2E's parameters express less than a schema: a name, one of six types, a description, whether it is required, an
//! enumeration of strings, nested properties. The conversion drops everything else. Schemas are untrusted, so depth,
//! followed references and written parameters are limited.

use std::borrow::Cow;
use std::collections::BTreeSet;

use gladhand_core::wire::json::Kind;
use gladhand_core::wire::{Members, RawValue, json, values};

use super::fields::text_of;
use super::message::{Object, write_list};

const TYPES: [&str; 6] = ["string", "integer", "number", "boolean", "object", "array"];
const MAX_DEPTH: usize = 8;
const MAX_HOPS: usize = 8;
const MAX_PARAMETERS: usize = 2000;

/// Writes the properties of an object schema as a list of `ToolParameter`.
pub(super) fn write_parameters(out: &mut Vec<u8>, schema: Option<&RawValue>) {
    let Some(schema) = schema else { return out.extend_from_slice(b"[]") };
    let mut writer = Writer { root: schema, left: MAX_PARAMETERS };
    let object = writer.effective(schema);
    let required = required(&object);
    let properties = object.object("properties").unwrap_or_default();
    write_list(out, properties.iter(), |out, (name, raw)| {
        writer.write(out, name, raw, required.contains(name), 1);
    });
}

/// Builds an object schema from a list of `ToolParameter`.
pub(super) fn schema_of(parameters: Option<&RawValue>) -> Box<RawValue> {
    let items = parameters.and_then(|raw| values::items(raw.get()).ok()).unwrap_or_default();
    let named = items.into_iter().filter_map(|raw| {
        let members = Members::of(raw)?;
        Some((members.raw("name").and_then(text_of)?, members))
    });
    let mut out = Vec::new();
    write_schema(&mut out, None, named.collect(), 0);
    json::raw(String::from_utf8_lossy(&out).into_owned())
}

struct Writer<'a> {
    root: &'a RawValue,
    left: usize,
}

impl<'a> Writer<'a> {
    fn write(&mut self, out: &mut Vec<u8>, name: &str, raw: &'a RawValue, is_required: bool, depth: usize) {
        self.left = self.left.saturating_sub(1);
        let schema = self.effective(raw);
        // A description next to a reference is more specific than that of the referenced schema.
        let own_description = Members::of(raw).and_then(|members| members.raw("description"));
        let description =
            own_description.or_else(|| schema.raw("description")).filter(|raw| Kind::of(raw) == Kind::String);
        let kind = type_of(&schema);
        let parameter = Object::open(out)
            .with("name", name)
            .with("type", kind)
            .raw("description", description.map_or(r#""""#, RawValue::get))
            .with("required", &is_required)
            .with("enum", &strings_of(schema.raw("enum")));
        let nested = match kind {
            "object" if depth < MAX_DEPTH && self.left > 0 => schema.object("properties"),
            _ => None,
        };
        let parameter = match nested {
            None => parameter.raw("properties", "null"),
            Some(properties) => parameter.written("properties", |out| {
                let required = required(&schema);
                let mut object = Object::open(out);
                for (name, raw) in properties.iter() {
                    if self.left == 0 {
                        break;
                    }
                    object = object.written(name, |out| self.write(out, name, raw, required.contains(name), depth + 1));
                }
                object.close();
            }),
        };
        parameter.close();
    }

    /// The effective schema, after following references within the document and "this or null" alternatives.
    fn effective(&self, raw: &'a RawValue) -> Members<'a> {
        let mut schema = Members::of(raw).unwrap_or_default();
        for _ in 0..MAX_HOPS {
            let next = match schema.str("$ref") {
                Some(reference) => self.resolve(&reference),
                None if schema.has("type") || schema.has("properties") || schema.has("enum") => None,
                None => ["anyOf", "oneOf", "allOf"].iter().find_map(|word| first_branch(schema.raw(word)?)),
            };
            match next.and_then(Members::of) {
                Some(next) => schema = next,
                None => break,
            }
        }
        schema
    }

    fn resolve(&self, reference: &str) -> Option<&'a RawValue> {
        let mut schema = self.root;
        for part in reference.strip_prefix("#/")?.split('/') {
            schema = Members::of(schema)?.raw(&part.replace("~1", "/").replace("~0", "~"))?;
        }
        Some(schema)
    }
}

fn first_branch(raw: &RawValue) -> Option<&RawValue> {
    let branches = values::items(raw.get()).ok()?;
    let is_null =
        |raw: &RawValue| Members::of(raw).and_then(|members| members.str("type")).is_some_and(|t| t == "null");
    branches.into_iter().find(|branch| !is_null(branch))
}

/// One of the six types: the named one, or a guess from the other members.
fn type_of(schema: &Members<'_>) -> &'static str {
    let known = |raw: &RawValue| {
        let word = json::string(raw)?;
        TYPES.into_iter().find(|known| *known == word)
    };
    let named = schema.raw("type").and_then(|raw| match Kind::of(raw) {
        Kind::Array => {
            let several = values::items(raw.get()).ok()?;
            several.into_iter().find_map(known)
        }
        _ => known(raw),
    });
    named.unwrap_or_else(|| match () {
        () if schema.has("properties") || schema.has("additionalProperties") => "object",
        () if schema.has("items") || schema.has("prefixItems") => "array",
        () => "string",
    })
}

/// The values of an enumeration, if all are strings.
fn strings_of(raw: Option<&RawValue>) -> Option<Vec<&RawValue>> {
    let values = values::items(raw?.get()).ok()?;
    let all_strings = !values.is_empty() && values.iter().all(|value| Kind::of(value) == Kind::String);
    all_strings.then_some(values)
}

fn required<'a>(schema: &Members<'a>) -> BTreeSet<Cow<'a, str>> {
    let names: Vec<&RawValue> =
        schema.raw("required").and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
    names.into_iter().filter_map(json::string).collect()
}

fn write_schema(
    out: &mut Vec<u8>,
    description: Option<&RawValue>,
    parameters: Vec<(Cow<'_, str>, Members<'_>)>,
    depth: usize,
) {
    let is_required = |members: &Members<'_>| members.raw("required").is_some_and(|raw| raw.get() == "true");
    let required: Vec<_> =
        parameters.iter().filter(|(_, members)| is_required(members)).map(|(name, _)| name.as_ref()).collect();
    let mut schema = Object::open(out).with("type", "object");
    if let Some(description) = description {
        schema = schema.raw("description", description.get());
    }
    schema = schema.written("properties", |out| {
        let mut properties = Object::open(out);
        for (name, members) in &parameters {
            properties = properties.written(name, |out| write_property(out, members, depth));
        }
        properties.close();
    });
    if !required.is_empty() {
        schema = schema.with("required", &required);
    }
    schema.close();
}

fn write_property(out: &mut Vec<u8>, parameter: &Members<'_>, depth: usize) {
    let description = parameter.raw("description").filter(|raw| Kind::of(raw) == Kind::String && raw.get() != r#""""#);
    let nested = parameter.object("properties").filter(|_| depth < MAX_DEPTH);
    if let Some(nested) = nested {
        let named = nested.iter().filter_map(|(name, raw)| Some((Cow::Owned(name.to_owned()), Members::of(raw)?)));
        return write_schema(out, description, named.collect(), depth + 1);
    }
    let mut schema = Object::open(out);
    // An unknown type carries no information, so it is left out.
    if let Some(kind) = parameter.str("type").filter(|word| TYPES.contains(&word.as_ref())) {
        schema = schema.with("type", kind.as_ref());
    }
    if let Some(description) = description {
        schema = schema.raw("description", description.get());
    }
    if let Some(values) = strings_of(parameter.raw("enum")) {
        schema = schema.with("enum", &values);
    }
    schema.close();
}
