//! Checks a file against the schema of the settings, and finds all mistakes in one pass: unknown and missing keys, values of
//! another kind, unknown words and numbers out of range. The search ends after [`MOST_MISTAKES`].

use std::ops::Range;

use serde_json::Value;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::mistake::{Mistake, one_of};
use super::schema::{ADVICE, properties};
use super::source::{Problem, Source};

/// A mistake, and the key that has to be left out of the file because of it.
pub(crate) struct FoundMistake {
    pub(crate) path: Vec<String>,
    pub(crate) problem: Problem,
}

/// How many mistakes of a file are collected at most. A tool can write the file of a server, so the number of mistakes in
/// it must not decide how long the server works on it.
pub(crate) const MOST_MISTAKES: usize = 10_000;

/// The mistakes of a file: all of them, or the first [`MOST_MISTAKES`] and one more.
pub(crate) fn check_schema(source: &Source<'_>, schema: &Value) -> Vec<FoundMistake> {
    let mut walk = Walk { source, found: Vec::new() };
    walk.table(&source.root, 0..0, schema, &KeyPath::default());
    walk.found
}

/// Where in the file a value is.
#[derive(Debug, Clone, Default)]
struct KeyPath {
    /// As it is shown: `policy.rules#2.effect`.
    shown: String,
    /// The keys to it, up to the first list.
    path: Vec<String>,
    is_in_list: bool,
}

impl KeyPath {
    fn member(&self, key: &str) -> Self {
        let mut place = self.clone();
        if !place.shown.is_empty() {
            place.shown.push('.');
        }
        place.shown.push_str(key);
        if !place.is_in_list {
            place.path.push(key.to_owned());
        }
        place
    }

    fn item(&self, index: usize) -> Self {
        Self { shown: format!("{}#{}", self.shown, index + 1), is_in_list: true, ..self.clone() }
    }
}

struct Walk<'s, 't> {
    source: &'s Source<'t>,
    found: Vec<FoundMistake>,
}

impl Walk<'_, '_> {
    fn found(&mut self, at: Range<usize>, place: &KeyPath, mistake: &Mistake<'_>) {
        if self.is_full() {
            return;
        }
        let problem = self.source.at(Some(at), &place.shown, &mistake.to_string());
        self.found.push(FoundMistake { path: place.path.clone(), problem });
    }

    fn is_full(&self) -> bool {
        self.found.len() > MOST_MISTAKES
    }

    fn table(&mut self, table: &DeTable<'_>, span: Range<usize>, schema: &Value, place: &KeyPath) {
        for (key, value) in table.iter() {
            if self.is_full() {
                return;
            }
            let (name, inside) = (key.get_ref().as_ref(), place.member(key.get_ref()));
            let known = properties(schema).and_then(|known| known.get(name));
            match known.or_else(|| schema.get("additionalProperties")) {
                Some(Value::Bool(false)) => {
                    let known = properties(schema).into_iter().flat_map(|known| known.keys().map(String::as_str));
                    self.found(key.span(), &inside, &Mistake::UnknownKey { key: name, known: known.collect() });
                }
                Some(schema) => self.value(key.span(), value, schema, &inside),
                None => {}
            }
        }
        for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            if !table.contains_key(name) {
                self.found(span.clone(), place, &Mistake::MissingKey(name));
            }
        }
    }

    fn value(&mut self, key: Range<usize>, value: &Spanned<DeValue<'_>>, schema: &Value, place: &KeyPath) {
        let Some(schema) = chosen(schema, value.get_ref()) else {
            return self.found(value.span(), place, &Mistake::Expected(kind(schema)));
        };
        if let (DeValue::String(word), Some(known)) = (value.get_ref(), words(schema)) {
            if !known.contains(&word.as_ref()) {
                self.found(value.span(), place, &Mistake::UnknownWord { key: &place.shown, word, known });
            }
            return;
        }
        match value.get_ref() {
            DeValue::Integer(_) | DeValue::Float(_) if !is_in_range(value.get_ref(), schema) => {
                let bound = |name: &str| schema.get(name).map(Value::to_string);
                let advice = schema.get(ADVICE).and_then(Value::as_str);
                let (least, most) = (bound("minimum"), bound("maximum"));
                self.found(key, place, &Mistake::OutOfRange { least, most, advice });
            }
            DeValue::Array(items) => {
                let Some(schema) = schema.get("items") else { return };
                for (index, item) in items.iter().enumerate() {
                    if self.is_full() {
                        return;
                    }
                    self.value(item.span(), item, schema, &place.item(index));
                }
            }
            DeValue::Table(table) => self.table(table, value.span(), schema, place),
            _ => {}
        }
    }
}

/// The schema, or the alternative in it, that is meant for this kind of value.
fn chosen<'s>(schema: &'s Value, value: &DeValue<'_>) -> Option<&'s Value> {
    if let Some(ways) = schema["anyOf"].as_array() {
        // The last one that fits is the most general one.
        return ways.iter().rev().find_map(|way| chosen(way, value));
    }
    if words(schema).is_some() {
        return value.is_str().then_some(schema);
    }
    let types = match &schema["type"] {
        Value::Array(types) => types.iter().filter_map(Value::as_str).collect(),
        Value::String(one) => vec![one.as_str()],
        // Any value.
        _ => return Some(schema),
    };
    let fits = |name: &&str| match *name {
        "string" => value.is_str(),
        "boolean" => matches!(value, DeValue::Boolean(_)),
        "integer" => integer(value).is_some(),
        "number" => matches!(value, DeValue::Float(_)) || integer(value).is_some(),
        "array" => matches!(value, DeValue::Array(_)),
        "object" => matches!(value, DeValue::Table(_)),
        _ => false,
    };
    types.iter().any(fits).then_some(schema)
}

/// The words that a schema allows, if it allows only certain ones.
fn words(schema: &Value) -> Option<Vec<&str>> {
    if let Some(word) = schema["const"].as_str() {
        return Some(vec![word]);
    }
    if let Some(words) = schema["enum"].as_array() {
        return Some(words.iter().filter_map(Value::as_str).collect());
    }
    let ways: Option<Vec<_>> = schema["oneOf"].as_array()?.iter().map(words).collect();
    ways.map(|ways| ways.concat())
}

fn integer(value: &DeValue<'_>) -> Option<i128> {
    let DeValue::Integer(integer) = value else { return None };
    i128::from_str_radix(integer.as_str(), integer.radix()).ok()
}

/// Whether a number is within the bounds of a schema, and of numbers at all.
fn is_in_range(value: &DeValue<'_>, schema: &Value) -> bool {
    if let Some(number) = integer(value).filter(|_| schema["type"] == "integer") {
        let bound =
            |name: &str| schema[name].as_i64().map(i128::from).or_else(|| schema[name].as_u64().map(i128::from));
        let (least, most) = (bound("minimum").unwrap_or(0), bound("maximum").unwrap_or_else(|| i128::from(i64::MAX)));
        return (least..=most).contains(&number);
    }
    let number = match value {
        DeValue::Float(float) => float.as_str().parse::<f64>().ok(),
        _ => integer(value).map(|number| number as f64),
    };
    let (least, most) = (schema["minimum"].as_f64(), schema["maximum"].as_f64());
    number.is_some_and(|number| least.is_none_or(|least| least <= number) && most.is_none_or(|most| number <= most))
}

/// The kind of value that a schema wants.
fn kind(schema: &Value) -> String {
    if let Some(ways) = schema["anyOf"].as_array() {
        let ways: Vec<_> = ways.iter().map(kind).collect();
        return ways.join(" or ");
    }
    if let Some(words) = words(schema) {
        return one_of(&words);
    }
    let name = |name: &str| match name {
        "integer" => "a whole number",
        "number" => "a number",
        "boolean" => "true or false",
        "array" if schema["items"]["type"] == "string" => "a list of strings",
        "array" => "a list",
        "object" => "a table",
        _ => "a string",
    };
    match &schema["type"] {
        Value::Array(types) => types.iter().filter_map(Value::as_str).map(name).collect::<Vec<_>>().join(" or "),
        types => name(types.as_str().unwrap_or_default()).to_owned(),
    }
}
