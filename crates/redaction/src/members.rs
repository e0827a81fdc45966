//! Decides which values in JSON are secret because of the name of a member.
//!
//! All strings and numbers below a sensitive name are secret, and so is the `value` of an object whose `name` is
//! sensitive. A JSON Schema of such a member is no secret: it describes one.

use std::ops::Range;

use gladhand_core::wire::text::MAX_DEPTH;
use gladhand_core::wire::tokens::{JsonToken, JsonTokens, decoded};

use crate::names::{is_sensitive_container, is_sensitive_number};

/// How the values in an array or an object are treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Inside {
    /// Their text is searched.
    #[default]
    Searched,
    /// They are masked.
    Masked,
    /// They are masked, except those that describe a value in a JSON Schema.
    Schema,
}

/// How one value is treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Treatment {
    /// Whether it is masked if it is a string.
    pub(crate) masks_string: bool,
    /// Whether it is masked if it is a number.
    pub(crate) masks_number: bool,
    /// If it is an array or an object: how its values are treated.
    pub(crate) inside: Inside,
}

impl Treatment {
    pub(crate) const MASKED: Self = Self { masks_string: true, masks_number: true, inside: Inside::Masked };

    /// The treatment of an item of an array.
    pub(crate) fn of_item(inside: Inside) -> Self {
        match inside {
            Inside::Masked => Self::MASKED,
            Inside::Searched | Inside::Schema => Self { inside, ..Self::default() },
        }
    }

    /// The treatment of the value of a member. `is_property` says that the object lists the properties of a schema.
    pub(crate) fn of_member(name: &str, object: Inside, is_property: bool, is_secret: fn(&str) -> bool) -> Self {
        match object {
            Inside::Masked => Self::MASKED,
            Inside::Schema if is_property => Self { inside: Inside::Schema, ..Self::MASKED },
            Inside::Schema if SCHEMA_WORDS.contains(&name) => Self { inside: Inside::Schema, ..Self::default() },
            Inside::Schema => Self::MASKED,
            Inside::Searched if !is_secret(name) => Self::default(),
            Inside::Searched => {
                let inside = match is_sensitive_container(name) {
                    true if is_property => Inside::Schema,
                    true => Inside::Masked,
                    false => Inside::Searched,
                };
                Self { masks_string: true, masks_number: is_sensitive_number(name), inside }
            }
        }
    }
}

/// Members of a JSON Schema that describe a value and do not contain one, as `default` and `const` do.
const SCHEMA_WORDS: [&str; 28] = [
    "$comment",
    "$ref",
    "additionalProperties",
    "allOf",
    "anyOf",
    "deprecated",
    "description",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "items",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "oneOf",
    "pattern",
    "prefixItems",
    "properties",
    "required",
    "title",
    "type",
    "uniqueItems",
];

/// Whether the value of a member lists the properties of a JSON Schema.
pub(crate) fn lists_properties(name: &str) -> bool {
    ["properties", "patternProperties"].contains(&name)
}

/// What a member means in an object that is a pair of a name and a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum PairMember {
    #[default]
    Other,
    Name,
    Value,
}

impl PairMember {
    pub(crate) fn of(name: &str) -> Self {
        let is = |known: &str| name.eq_ignore_ascii_case(known);
        if is("name") || is("key") {
            Self::Name
        } else if is("value") {
            Self::Value
        } else {
            Self::Other
        }
    }
}

/// Finds the objects that are a pair of a value and then a sensitive name, by their first byte. In JSON that is not
/// read to its end, the name of a value may be missing: it counts as sensitive.
pub(crate) fn secret_pairs(json: &str, is_whole: bool, is_secret: fn(&str) -> bool) -> Vec<usize> {
    struct Open {
        begin: usize,
        is_object: bool,
        has_value: bool,
        has_name: bool,
    }
    let mut found = Vec::new();
    // Most messages have no such member.
    if !["alue", "ALUE", "\\u"].iter().any(|part| json.contains(part)) {
        return found;
    }
    let mut open: Vec<Open> = Vec::new();
    let (mut is_name, mut member) = (false, PairMember::Other);
    for (token, range) in JsonTokens::of(json) {
        match token {
            JsonToken::BeginObject | JsonToken::BeginArray => {
                if open.len() == MAX_DEPTH {
                    return found;
                }
                is_name = token == JsonToken::BeginObject;
                open.push(Open { begin: range.start, is_object: is_name, has_value: false, has_name: false });
            }
            JsonToken::EndObject | JsonToken::EndArray => {
                open.pop();
                is_name = false;
            }
            JsonToken::Colon => is_name = false,
            JsonToken::Comma => {
                is_name = open.last().is_some_and(|last| last.is_object);
                member = PairMember::Other;
            }
            JsonToken::String if is_name => {
                member = PairMember::of(&decoded(json, inside(&range)));
                if let Some(last) = open.last_mut().filter(|_| member == PairMember::Value) {
                    last.has_value = true;
                }
            }
            JsonToken::String if std::mem::take(&mut member) == PairMember::Name => {
                let Some(last) = open.last_mut() else { continue };
                if last.has_value && is_secret(&decoded(json, inside(&range))) {
                    found.push(last.begin);
                }
                last.has_name = true;
            }
            JsonToken::String | JsonToken::Word => {}
        }
    }
    let unnamed = open.iter().filter(|last| !is_whole && last.has_value && !last.has_name);
    found.extend(unnamed.map(|last| last.begin));
    found.sort_unstable();
    found
}

/// The range of a string without its quotes.
fn inside(string: &Range<usize>) -> Range<usize> {
    string.start + 1..(string.end - 1).max(string.start + 1)
}
