//! What a schema can cost, found out before it is used.
//!
//! References let a short schema stand for a long one. Without recursion that is a number: how many subschemas there are
//! once all references are followed. With recursion it depends on the value: where a subschema leads back to itself in
//! several places, the work may grow with the power of the value's depth.

use serde_json::{Map, Value};

/// How many subschemas a schema may have once its references are followed.
const MOST_SUBSCHEMAS: u64 = 10_000;

/// How many evaluations a value may cost by recursion.
const MOST_EVALUATIONS: u64 = 1_000_000;

/// Keywords whose subschemas look at a part of the value; all others look at the same value again.
const DESCENDING: &[&str] = &[
    "properties",
    "patternProperties",
    "additionalProperties",
    "unevaluatedProperties",
    "items",
    "prefixItems",
    "additionalItems",
    "unevaluatedItems",
    "contains",
];

/// Keywords that hold values and no subschemas.
const VALUES: &[&str] = &["const", "enum", "default", "examples", "required", "type"];

/// Keywords whose value is looked at only when something refers to it.
const DEFINITIONS: &[&str] = &["$defs", "definitions"];

/// What a schema can cost.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Weight {
    subschemas: u64,
    /// In how many places it leads back to itself.
    recursions: u64,
}

impl Weight {
    /// Weighs a schema, or says why it is too heavy for any value.
    pub(crate) fn of(schema: &Value) -> Result<Self, String> {
        let mut scale = Scale { root: schema, open: Vec::new(), weight: Self { subschemas: 0, recursions: 0 } };
        scale.add(schema, 0)?;
        Ok(scale.weight)
    }

    /// Whether a value can be looked at in reasonable time.
    pub(crate) fn allows(self, value: &Value) -> bool {
        let depth = u32::try_from(depth(value)).unwrap_or(u32::MAX);
        self.recursions <= 1
            || self.recursions.saturating_pow(depth).saturating_mul(self.subschemas) <= MOST_EVALUATIONS
    }
}

struct Scale<'a> {
    root: &'a Value,
    /// What references led to, and how deep in the value that was: the way from the root to here.
    open: Vec<(&'a Value, usize)>,
    weight: Weight,
}

impl<'a> Scale<'a> {
    fn add(&mut self, schema: &'a Value, depth: usize) -> Result<(), String> {
        self.weight.subschemas += 1;
        if self.weight.subschemas > MOST_SUBSCHEMAS {
            return Err(format!("it has more than {MOST_SUBSCHEMAS} subschemas once its references are followed"));
        }
        match schema {
            Value::Object(members) => self.add_members(members, depth),
            Value::Array(items) => items.iter().try_for_each(|item| self.add(item, depth)),
            _ => Ok(()),
        }
    }

    fn add_members(&mut self, members: &'a Map<String, Value>, depth: usize) -> Result<(), String> {
        for (keyword, value) in members {
            let keyword = keyword.as_str();
            if VALUES.contains(&keyword) || DEFINITIONS.contains(&keyword) {
                continue;
            }
            match (keyword, value) {
                ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(reference)) => {
                    self.follow(reference, depth)?;
                }
                // The members of these are names, which may be those of keywords.
                ("properties" | "patternProperties", Value::Object(named)) => {
                    named.values().try_for_each(|schema| self.add(schema, depth + 1))?;
                }
                ("dependentSchemas", Value::Object(named)) => {
                    named.values().try_for_each(|schema| self.add(schema, depth))?;
                }
                _ => self.add(value, depth + usize::from(DESCENDING.contains(&keyword)))?,
            }
        }
        Ok(())
    }

    fn follow(&mut self, reference: &str, depth: usize) -> Result<(), String> {
        let target = self.target(reference).ok_or_else(|| format!("{reference:?} leads out of it"))?;
        match self.open.iter().find(|(open, _)| std::ptr::eq(*open, target)) {
            Some((_, same)) if *same == depth => Err(format!("{reference:?} leads to itself and nowhere else")),
            Some(_) => {
                self.weight.recursions += 1;
                Ok(())
            }
            None => {
                self.open.push((target, depth));
                self.add(target, depth)?;
                self.open.pop();
                Ok(())
            }
        }
    }

    /// What a reference within the schema leads to, by JSON Pointer or anchor.
    fn target(&self, reference: &str) -> Option<&'a Value> {
        let fragment = reference.strip_prefix('#')?;
        if fragment.is_empty() || fragment.starts_with('/') {
            // Escapes of URIs are for names that no tool has; what is not found is not followed.
            return self.root.pointer(fragment);
        }
        anchored(self.root, fragment)
    }
}

fn anchored<'a>(schema: &'a Value, name: &str) -> Option<&'a Value> {
    match schema {
        Value::Object(members) => {
            let is_it = |keyword| members.get(keyword).and_then(Value::as_str) == Some(name);
            let here = (is_it("$anchor") || is_it("$dynamicAnchor")).then_some(schema);
            here.or_else(|| members.values().find_map(|member| anchored(member, name)))
        }
        Value::Array(items) => items.iter().find_map(|item| anchored(item, name)),
        _ => None,
    }
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or(0),
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}
