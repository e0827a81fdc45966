//! The cost of a check, counted before a value is checked against a schema.
//!
//! A short schema can cost much: references stand for long schemas, a subschema may refer to itself in several places, and
//! each item of a long list may meet thousands of alternatives. [`Weight::of`] reads a schema once into parts that name each
//! other by index, so that recursion is a cycle of indices. [`Weight::allows`] walks parts and value together as a validator
//! does, and stops when the budget is used up. Parts of a value that no subschema looks at cost nothing.

use std::collections::HashMap;

use serde_json::{Map, Value};

use self::pattern::states;

#[path = "weight_pattern.rs"]
mod pattern;

/// How many subschemas a schema may have once its references are followed.
const MOST_SUBSCHEMAS: usize = 10_000;

/// How many subschemas may be nested in each other once references are followed: a validator is built by recursion.
const MOST_NESTED: usize = 100;

/// How many steps a check may take: about a third of a second.
const MOST_STEPS: u64 = 4_000_000;

/// How many steps a check may take whose problems are listed: a validator keeps each of them in memory, and checks a part
/// again for every alternative around it.
const MOST_STEPS_WITH_DETAILS: u64 = 50_000;

/// How many subschemas may be open at once while a value is checked: a validator works by recursion.
const MOST_OPEN: usize = 500;

/// How many bytes of a string one state of a pattern sees in one step.
const BYTES_PER_STEP: u64 = 16;

/// The steps of `format: "regex"` for each 16 bytes: the string itself is compiled.
const REGEX_STEPS: u64 = 100_000;

/// About how many bytes a state of a compiled pattern takes: a class of letters is many states in UTF-8.
const STATE_BYTES: usize = 16 * 1024;

/// About how many bytes a compiled subschema takes.
const SUBSCHEMA_BYTES: usize = 1024;

/// The cost of checking a value against a schema.
#[derive(Debug)]
pub(crate) struct Weight {
    parts: Vec<Part>,
    /// The steps for each byte of any value, unless subschemas look at a value repeatedly.
    per_byte: Option<u64>,
    /// How many subschemas there are once references are followed.
    subschemas: usize,
    /// How many patterns they have.
    patterns: usize,
    /// How many states these patterns have.
    states: u64,
}

/// A subschema.
#[derive(Debug, Default)]
struct Part {
    /// Steps for the value itself.
    own: u64,
    /// States of patterns that a string is compared with.
    string_states: u64,
    /// States of patterns that names of members are compared with.
    name_states: u64,
    /// How many patterns it has of its own.
    patterns: usize,
    compares_items: bool,
    /// Whether subschemas of the same value are used a second time, to find out what they have seen.
    looks_twice: bool,
    /// Subschemas of the same value.
    same: Vec<usize>,
    named: HashMap<String, usize>,
    patterned: Vec<usize>,
    /// Subschemas of members that are not `named`.
    others: Vec<usize>,
    /// Subschemas of the names of members.
    names: Vec<usize>,
    items: Vec<usize>,
}

impl Weight {
    /// Weighs a schema, or returns the reason why it cannot be used for any value.
    pub(crate) fn of(schema: &Value) -> Result<Self, String> {
        let is_old = schema.get("$schema").and_then(Value::as_str).is_some_and(|draft| draft.contains("draft-04"));
        let base = if is_old { "id" } else { "$id" };
        if members_of(schema).any(|member| has(member, base)) {
            return Err(format!("a part of it has an `{base}` of its own"));
        }
        let mut anchors = HashMap::new();
        collect_anchors(schema, &mut anchors);
        let mut reader = Reader { root: schema, anchors, parts: Vec::new(), known: HashMap::new() };
        reader.part(schema, 0)?;
        let mut expansion =
            Expansion { parts: &reader.parts, open: Vec::new(), count: 0, patterns: 0, states: 0, per_byte: Some(0) };
        expansion.add(0, 0)?;
        let Expansion { count: subschemas, patterns, states, per_byte, .. } = expansion;
        Ok(Self { parts: reader.parts, per_byte, subschemas, patterns, states })
    }

    /// How many patterns are compiled.
    pub(crate) fn patterns(&self) -> usize {
        self.patterns
    }

    /// About how much memory a validator takes whose patterns may each take so much.
    pub(crate) fn memory(&self, most_of_pattern: usize) -> usize {
        let states = usize::try_from(self.states).unwrap_or(usize::MAX).saturating_mul(STATE_BYTES);
        let patterns = states.min(self.patterns.saturating_mul(most_of_pattern));
        self.subschemas.saturating_mul(SUBSCHEMA_BYTES).saturating_add(patterns)
    }

    /// Whether any value of so many bytes can be checked in reasonable time.
    pub(crate) fn allows_any_of(&self, bytes: usize) -> bool {
        self.per_byte.is_some_and(|steps| steps.saturating_mul(bytes as u64) <= MOST_STEPS)
    }

    /// Whether this value can be checked in reasonable time.
    pub(crate) fn allows(&self, value: &Value) -> bool {
        self.costs_at_most(MOST_STEPS, value)
    }

    /// Whether all problems of this value can be listed in reasonable time and memory.
    pub(crate) fn allows_details(&self, value: &Value) -> bool {
        self.costs_at_most(MOST_STEPS_WITH_DETAILS, value)
    }

    fn costs_at_most(&self, steps: u64, value: &Value) -> bool {
        Budget { parts: &self.parts, steps, open: 0 }.check(0, value).is_some()
    }
}

/// Reads a schema into parts.
struct Reader<'a> {
    root: &'a Value,
    anchors: HashMap<&'a str, &'a Value>,
    parts: Vec<Part>,
    /// Parts by the address of the subschema.
    known: HashMap<*const Value, usize>,
}

impl<'a> Reader<'a> {
    /// The part of a subschema, which is read unless it is known.
    fn part(&mut self, schema: &'a Value, nested: usize) -> Result<usize, String> {
        if let Some(known) = self.known.get(&std::ptr::from_ref(schema)) {
            return Ok(*known);
        }
        if nested > MOST_NESTED {
            return Err(format!("more than {MOST_NESTED} subschemas are nested in each other"));
        }
        let index = self.parts.len();
        if index >= MOST_SUBSCHEMAS {
            return Err(too_many());
        }
        self.parts.push(Part::default());
        self.known.insert(std::ptr::from_ref(schema), index);
        let mut part = Part { own: 1, ..Part::default() };
        for (keyword, value) in schema.as_object().into_iter().flatten() {
            self.add(&mut part, keyword, value, nested + 1)?;
        }
        self.parts[index] = part;
        Ok(index)
    }

    fn add(&mut self, part: &mut Part, keyword: &str, value: &'a Value, nested: usize) -> Result<(), String> {
        match (keyword, value) {
            ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(reference)) => {
                let target = self.target(reference).ok_or_else(|| format!("{reference:?} points out of it"))?;
                part.same.push(self.part(target, nested)?);
            }
            ("allOf" | "anyOf" | "oneOf", Value::Array(schemas)) => self.all(&mut part.same, schemas, nested)?,
            ("not" | "if" | "then" | "else", schema) => part.same.push(self.part(schema, nested)?),
            ("dependentSchemas" | "dependencies", Value::Object(named)) => {
                part.own += size(value);
                self.all(&mut part.same, named.values(), nested)?;
            }
            ("properties", Value::Object(named)) => {
                for (name, schema) in named {
                    let index = self.part(schema, nested)?;
                    part.named.insert(name.clone(), index);
                }
            }
            ("patternProperties", Value::Object(named)) => {
                part.name_states = named.keys().map(|pattern| states(pattern)).fold(0, u64::saturating_add);
                part.patterns += named.len();
                self.all(&mut part.patterned, named.values(), nested)?;
            }
            ("additionalProperties" | "unevaluatedProperties", schema) => {
                part.looks_twice |= keyword == "unevaluatedProperties";
                part.others.push(self.part(schema, nested)?);
            }
            ("propertyNames", schema) => part.names.push(self.part(schema, nested)?),
            ("items" | "prefixItems", Value::Array(schemas)) => self.all(&mut part.items, schemas, nested)?,
            ("items" | "additionalItems" | "unevaluatedItems" | "contains", schema) => {
                part.looks_twice |= keyword == "unevaluatedItems";
                part.items.push(self.part(schema, nested)?);
            }
            ("uniqueItems", Value::Bool(true)) => part.compares_items = true,
            ("pattern", Value::String(pattern)) => {
                part.expect(states(pattern));
                part.patterns += 1;
            }
            ("format", Value::String(format)) if format == "regex" => part.expect(REGEX_STEPS),
            ("enum" | "const" | "required" | "dependentRequired", values) => part.own += size(values),
            _ => {}
        }
        Ok(())
    }

    fn all(
        &mut self,
        parts: &mut Vec<usize>,
        schemas: impl IntoIterator<Item = &'a Value>,
        nested: usize,
    ) -> Result<(), String> {
        for schema in schemas {
            parts.push(self.part(schema, nested)?);
        }
        Ok(())
    }

    /// The target of a reference within the schema, by JSON Pointer or anchor.
    fn target(&self, reference: &str) -> Option<&'a Value> {
        // Escapes of URIs are for names that no tool has.
        let fragment = reference.strip_prefix('#').filter(|fragment| !fragment.contains('%'))?;
        if fragment.is_empty() || fragment.starts_with('/') {
            return self.root.pointer(fragment);
        }
        self.anchors.get(fragment).copied()
    }
}

/// Follows all references, as building a validator does.
struct Expansion<'p> {
    parts: &'p [Part],
    /// The way from the root to here, and how deep in the value each part of it is.
    open: Vec<(usize, usize)>,
    count: usize,
    patterns: usize,
    states: u64,
    per_byte: Option<u64>,
}

impl Expansion<'_> {
    fn add(&mut self, index: usize, depth: usize) -> Result<(), String> {
        match self.open.iter().find(|(open, _)| *open == index) {
            Some((_, same)) if *same == depth => return Err("a reference leads to itself and nowhere else".to_owned()),
            Some(_) => {
                self.per_byte = None;
                return Ok(());
            }
            None => {}
        }
        self.count += 1;
        if self.count > MOST_SUBSCHEMAS {
            return Err(too_many());
        }
        if self.open.len() > MOST_NESTED {
            return Err(format!("more than {MOST_NESTED} subschemas are nested in each other"));
        }
        let part = &self.parts[index];
        // Sorting looks at an item once for each doubling of their number.
        let sorting = if part.compares_items { u64::from(usize::BITS) } else { 0 };
        let own = part.own.saturating_add(sorting);
        let steps = own.saturating_add(part.string_states).saturating_add(part.name_states).saturating_add(2);
        self.per_byte = self.per_byte.filter(|_| !part.looks_twice).map(|all| all.saturating_add(steps));
        self.patterns = self.patterns.saturating_add(part.patterns);
        self.states = self.states.saturating_add(part.string_states).saturating_add(part.name_states);
        self.open.push((index, depth));
        part.same.iter().try_for_each(|same| self.add(*same, depth))?;
        let below = part.named.values().chain(&part.patterned).chain(&part.others).chain(&part.names);
        below.chain(&part.items).try_for_each(|below| self.add(*below, depth + 1))?;
        self.open.pop();
        Ok(())
    }
}

/// The remaining budget of one check.
struct Budget<'p> {
    parts: &'p [Part],
    steps: u64,
    open: usize,
}

impl Budget<'_> {
    fn take(&mut self, steps: u64) -> Option<()> {
        self.steps = self.steps.checked_sub(steps)?;
        Some(())
    }

    /// Pays for a subschema and a value; none if that is too much.
    fn check(&mut self, index: usize, value: &Value) -> Option<()> {
        let parts = self.parts;
        let part = &parts[index];
        self.take(part.own)?;
        self.open += 1;
        if self.open > MOST_OPEN {
            return None;
        }
        part.same.iter().try_for_each(|same| self.check(*same, value))?;
        if part.looks_twice {
            self.look_again(part, value)?;
        }
        match value {
            Value::String(text) => self.take(matching(text, part.string_states.saturating_add(1)))?,
            Value::Array(items) => {
                if part.compares_items {
                    self.take(size(value).saturating_mul(sorting(items.len())))?;
                }
                for below in &part.items {
                    items.iter().try_for_each(|item| self.check(*below, item))?;
                }
            }
            Value::Object(members) if part.looks_at_members() => self.check_members(part, members)?,
            _ => {}
        }
        self.open -= 1;
        Some(())
    }

    /// Pays for finding out what the subschemas of the same value have seen: each is checked again, and so are those in it.
    fn look_again(&mut self, part: &Part, value: &Value) -> Option<()> {
        let parts = self.parts;
        self.open += 1;
        if self.open > MOST_OPEN {
            return None;
        }
        for same in &part.same {
            self.take(1)?;
            self.check(*same, value)?;
            self.look_again(&parts[*same], value)?;
        }
        self.open -= 1;
        Some(())
    }

    fn check_members(&mut self, part: &Part, members: &Map<String, Value>) -> Option<()> {
        for (name, member) in members {
            self.take(matching(name, part.name_states).saturating_add(1))?;
            match part.named.get(name) {
                Some(named) => self.check(*named, member)?,
                None => part.others.iter().try_for_each(|other| self.check(*other, member))?,
            }
            part.patterned.iter().try_for_each(|patterned| self.check(*patterned, member))?;
            if !part.names.is_empty() {
                let name = Value::String(name.clone());
                part.names.iter().try_for_each(|below| self.check(*below, &name))?;
            }
        }
        Some(())
    }
}

impl Part {
    fn expect(&mut self, states: u64) {
        self.string_states = self.string_states.saturating_add(states);
    }

    fn looks_at_members(&self) -> bool {
        !(self.named.is_empty() && self.patterned.is_empty() && self.others.is_empty() && self.names.is_empty())
    }
}

/// The steps of comparing a text with patterns.
fn matching(text: &str, states: u64) -> u64 {
    states.saturating_mul(text.len() as u64) / BYTES_PER_STEP
}

/// How much there is to compare in a value.
fn size(value: &Value) -> u64 {
    let text = |text: &str| text.len() as u64 / BYTES_PER_STEP;
    match value {
        Value::Object(members) => 1 + members.iter().map(|(name, member)| text(name) + size(member)).sum::<u64>(),
        Value::Array(items) => 1 + items.iter().map(size).sum::<u64>(),
        Value::String(string) => 1 + text(string),
        _ => 1,
    }
}

/// How often each item is compared when this many items are sorted.
fn sorting(items: usize) -> u64 {
    u64::from(items.checked_ilog2().unwrap_or_default()) + 1
}

fn too_many() -> String {
    format!("it has more than {MOST_SUBSCHEMAS} subschemas once its references are followed")
}

fn members_of(value: &Value) -> Box<dyn Iterator<Item = &Value> + '_> {
    match value {
        Value::Object(members) => Box::new(members.values()),
        Value::Array(items) => Box::new(items.iter()),
        _ => Box::new(std::iter::empty()),
    }
}

/// Whether a subschema, or a part of it, changes what references mean.
fn has(schema: &Value, base: &str) -> bool {
    schema.get(base).is_some_and(Value::is_string) || members_of(schema).any(|member| has(member, base))
}

/// Finds all anchors; of several with one name, the first counts.
fn collect_anchors<'a>(schema: &'a Value, anchors: &mut HashMap<&'a str, &'a Value>) {
    for keyword in ["$anchor", "$dynamicAnchor"] {
        if let Some(name) = schema.get(keyword).and_then(Value::as_str) {
            anchors.entry(name).or_insert(schema);
        }
    }
    members_of(schema).for_each(|member| collect_anchors(member, anchors));
}
