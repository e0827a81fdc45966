//! Converts JSON Schema to `ToolParameter` lists and back (a2e §9.2).
//!
//! A2E's parameters express less than a schema: a name, one of six types, a description, whether it is required, an
//! enumeration of strings, nested properties. The conversion drops everything else. Schemas are untrusted, so depth,
//! followed references, written parameters and parsed bytes are limited.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};

use gladhand_core::wire::json::Kind;
use gladhand_core::wire::{Members, RawValue, json, values};

use super::fields::text_of;
use super::message::Object;

const TYPES: [&str; 6] = ["string", "integer", "number", "boolean", "object", "array"];
const MAX_DEPTH: usize = 8;
const MAX_HOPS: usize = 8;
const MAX_PARAMETERS: usize = 2000;

/// Maximum number of bytes that are parsed of one schema, in addition to sixteen times its own. A nested part counts with
/// each level, and a referenced one with each reference.
const MAX_PARSED_BYTES: usize = 32 * 1024;

/// Writes the properties of an object schema as a list of `ToolParameter`.
pub(super) fn write_parameters(out: &mut Vec<u8>, schema: Option<&RawValue>) {
    let Some(schema) = schema else { return out.extend_from_slice(b"[]") };
    let bytes = MAX_PARSED_BYTES + 16 * schema.get().len();
    let mut writer = Writer { root: schema, left: MAX_PARAMETERS, bytes, objects: HashMap::new() };
    let object = writer.effective(schema).1;
    let required = required(&object);
    let properties = object.raw("properties").and_then(|raw| writer.members(raw)).unwrap_or_default();
    out.push(b'[');
    for (at, (name, raw)) in properties.iter().enumerate() {
        if writer.is_spent() {
            break;
        }
        if at > 0 {
            out.push(b',');
        }
        writer.write(out, name, raw, required.contains(name), 1);
    }
    out.push(b']');
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
    /// How many more parameters may be written.
    left: usize,
    /// How many more bytes may be parsed.
    bytes: usize,
    /// The objects that references led through, by their JSON pointers with a slash at the end.
    objects: HashMap<String, HashMap<String, &'a RawValue>>,
}

impl<'a> Writer<'a> {
    fn write(&mut self, out: &mut Vec<u8>, name: &str, raw: &'a RawValue, is_required: bool, depth: usize) {
        self.left = self.left.saturating_sub(1);
        // A description next to a reference is more specific than that of the referenced schema.
        let (own_description, schema) = self.effective(raw);
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
            "object" if depth < MAX_DEPTH && !self.is_spent() => {
                schema.raw("properties").and_then(|raw| self.members(raw))
            }
            _ => None,
        };
        let parameter = match nested {
            None => parameter.raw("properties", "null"),
            Some(properties) => parameter.written("properties", |out| {
                let required = required(&schema);
                let mut object = Object::open(out);
                for (name, raw) in properties.iter() {
                    if self.is_spent() {
                        break;
                    }
                    object = object.written(name, |out| self.write(out, name, raw, required.contains(name), depth + 1));
                }
                object.close();
            }),
        };
        parameter.close();
    }

    /// The effective schema, after following references within the document and "this or null" alternatives. Before it,
    /// the description next to the first reference or alternative.
    fn effective(&mut self, raw: &'a RawValue) -> (Option<&'a RawValue>, Members<'a>) {
        let mut schema = self.members(raw).unwrap_or_default();
        let description = schema.raw("description");
        for _ in 0..MAX_HOPS {
            let next = match schema.str("$ref") {
                Some(reference) => self.resolve(&reference),
                None if schema.has("type") || schema.has("properties") || schema.has("enum") => None,
                None => ["anyOf", "oneOf", "allOf"].iter().find_map(|word| self.first_branch(schema.raw(word)?)),
            };
            match next.and_then(|next| self.members(next)) {
                Some(next) => schema = next,
                None => break,
            }
        }
        (description, schema)
    }

    /// The part of the document that a reference names.
    fn resolve(&mut self, reference: &str) -> Option<&'a RawValue> {
        self.parses(reference)?;
        let pointer = reference.strip_prefix("#/")?;
        let (mut found, mut begin) = (self.root, 0);
        for part in pointer.split('/') {
            let place = &pointer[..begin];
            if !self.objects.contains_key(place) {
                let members = self.members(found)?;
                let by_name = members.iter().map(|(name, raw)| (name.to_owned(), raw)).collect();
                self.objects.insert(place.to_owned(), by_name);
            }
            found = self.objects[place].get(&part.replace("~1", "/").replace("~0", "~"))?;
            begin += part.len() + 1;
        }
        Some(found)
    }

    /// The first alternative that is not `null`.
    fn first_branch(&mut self, raw: &'a RawValue) -> Option<&'a RawValue> {
        self.parses(raw.get())?;
        let branches = values::items(raw.get()).ok()?;
        branches.into_iter().find(|branch| {
            self.members(branch).and_then(|members| members.str("type")).is_none_or(|name| name != "null")
        })
    }

    /// Whether nothing more is to be written.
    fn is_spent(&self) -> bool {
        self.left == 0 || self.bytes == 0
    }

    /// The members of an object, if that many bytes may still be parsed.
    fn members(&mut self, raw: &'a RawValue) -> Option<Members<'a>> {
        self.parses(raw.get())?;
        Members::of(raw)
    }

    /// Counts a text that is parsed. `None`: it is too long.
    fn parses(&mut self, text: &str) -> Option<()> {
        let left = self.bytes.checked_sub(text.len());
        self.bytes = left.unwrap_or_default();
        left.map(drop)
    }
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
