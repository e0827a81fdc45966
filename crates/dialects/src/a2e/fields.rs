//! Reading the fields of a message, and remembering everything that is wrong with them (a2e §3.3).
//!
//! A field that is absent has its default; a field that is there must have its type, `null`
//! included. Booleans are JSON booleans, integers may be written `5.0`, strings are never coerced.

use std::borrow::Cow;

use gladhand_core::wire::json::{Kind, RawValue};
use gladhand_core::wire::{Members, json};

/// Problems are told one per line; a hostile list of a million wrong items is not told in full.
const MOST_PROBLEMS: usize = 20;

/// The members of a message, and the problems found so far.
#[derive(Debug)]
pub(super) struct Fields<'m, 'a> {
    members: &'m Members<'a>,
    problems: Vec<(String, String)>,
}

impl<'m, 'a> Fields<'m, 'a> {
    /// The fields of a message.
    pub(super) fn of(members: &'m Members<'a>) -> Self {
        Self { members, problems: Vec::new() }
    }

    /// A string; empty by default.
    pub(super) fn text(&mut self, name: &str) -> Cow<'a, str> {
        self.optional_text(name).unwrap_or_default()
    }

    /// A string of at most so many bytes, for what is kept; empty by default.
    pub(super) fn short_text(&mut self, name: &str, longest: usize) -> Cow<'a, str> {
        let text = self.text(name);
        self.at_most(name, &text, longest);
        text
    }

    /// Objects to a string that has more bytes than this.
    pub(super) fn at_most(&mut self, name: &str, text: &str, longest: usize) {
        if text.len() > longest {
            self.problem(name, format!("longer than {longest} bytes"));
        }
    }

    /// A string, if it is there.
    pub(super) fn optional_text(&mut self, name: &str) -> Option<Cow<'a, str>> {
        let raw = self.members.raw(name)?;
        let text = text_of(raw);
        if text.is_none() {
            self.expected(name, "a string", raw);
        }
        text
    }

    /// A list of strings; empty by default.
    pub(super) fn texts(&mut self, name: &str) -> Vec<Cow<'a, str>> {
        let Some(raw) = self.members.raw(name) else { return Vec::new() };
        let Ok(items) = serde_json::from_str::<Vec<&'a RawValue>>(raw.get()) else {
            self.expected(name, "a list", raw);
            return Vec::new();
        };
        let mut texts = Vec::with_capacity(items.len());
        for (at, item) in items.into_iter().enumerate() {
            match text_of(item) {
                Some(text) => texts.push(text),
                None if self.problems.len() >= MOST_PROBLEMS => break,
                None => self.expected(&format!("{name}.{at}"), "a string", item),
            }
        }
        texts
    }

    /// A boolean; false by default.
    pub(super) fn flag(&mut self, name: &str) -> bool {
        match self.members.raw(name) {
            None => false,
            Some(raw) if Kind::of(raw) == Kind::Bool => raw.get() == "true",
            Some(raw) => {
                self.expected(name, "a boolean", raw);
                false
            }
        }
    }

    /// An integer, if it is there.
    pub(super) fn integer(&mut self, name: &str) -> Option<i64> {
        let raw = self.members.raw(name)?;
        let integer = integer_of(raw);
        if integer.is_none() {
            self.expected(name, "an integer", raw);
        }
        integer
    }

    /// A mandatory object.
    pub(super) fn object(&mut self, name: &str) -> Option<&'a RawValue> {
        match self.members.raw(name) {
            Some(raw) if Kind::of(raw) == Kind::Object => return Some(raw),
            Some(raw) => self.expected(name, "an object", raw),
            None => self.problem(name, "required".to_owned()),
        }
        None
    }

    /// A field that must be there, whatever it is.
    pub(super) fn required(&mut self, name: &str) {
        if !self.members.has(name) {
            self.problem(name, "required".to_owned());
        }
    }

    /// An object, if it is there.
    pub(super) fn optional_object(&mut self, name: &str) {
        if self.members.has(name) {
            let _ = self.object(name);
        }
    }

    /// A number, if it is there.
    pub(super) fn number(&mut self, name: &str) {
        if let Some(raw) = self.members.raw(name).filter(|raw| number_of(raw).is_none()) {
            self.expected(name, "a number", raw);
        }
    }

    /// A list of objects, if it is there.
    pub(super) fn objects(&mut self, name: &str) {
        let Some(raw) = self.members.raw(name) else { return };
        let Ok(items) = serde_json::from_str::<Vec<&'a RawValue>>(raw.get()) else {
            return self.expected(name, "a list", raw);
        };
        for (at, item) in items.into_iter().enumerate().filter(|(_, item)| Kind::of(item) != Kind::Object) {
            self.expected(&format!("{name}.{at}"), "an object", item);
        }
    }

    /// An object whose values are strings, if it is there.
    pub(super) fn text_map(&mut self, name: &str) {
        let Some(raw) = self.members.raw(name) else { return };
        let Some(map) = Members::of(raw) else { return self.expected(name, "an object", raw) };
        for (key, value) in map.iter().filter(|(_, value)| Kind::of(value) != Kind::String) {
            self.expected(&format!("{name}.{key}"), "a string", value);
        }
    }

    /// The members of the envelope, of which only the type and the id were looked at before. Returns
    /// the version that the message says it is of; of the two spellings the page's own wins.
    pub(super) fn envelope(&mut self) -> Option<Cow<'a, str>> {
        let (page, reference) = (self.optional_text("a2e"), self.optional_text("version"));
        if let Some(raw) = self.members.raw("ts") {
            // The reference takes numeric strings here, and hand-written clients send them.
            let number = text_of(raw).map_or_else(|| number_of(raw), |text| text.trim().parse().ok());
            if number.is_none_or(|number: f64| !number.is_finite()) {
                self.expected("ts", "a number", raw);
            }
        }
        page.or(reference)
    }

    /// What is wrong, if anything: the path of a field and the problem with it.
    pub(super) fn finish(self) -> Result<(), Vec<(String, String)>> {
        if self.problems.is_empty() { Ok(()) } else { Err(self.problems) }
    }

    fn expected(&mut self, path: &str, what: &str, raw: &RawValue) {
        if self.problems.len() >= MOST_PROBLEMS {
            return;
        }
        self.problem(path, format!("expected {what}, got {}", described(raw)));
    }

    fn problem(&mut self, path: &str, problem: String) {
        if self.problems.len() < MOST_PROBLEMS {
            self.problems.push((path.to_owned(), problem));
        }
    }
}

/// The text of a raw string. One that holds half a surrogate pair stays escaped as it was written.
pub(super) fn text_of(raw: &RawValue) -> Option<Cow<'_, str>> {
    json::string(raw).or_else(|| {
        let inner = raw.get().strip_prefix('"')?.strip_suffix('"')?;
        Some(Cow::Borrowed(inner))
    })
}

/// The value of a number without a fraction, however it is written; beyond 64 bits it saturates.
pub(super) fn integer_of(raw: &RawValue) -> Option<i64> {
    let number = number_of(raw)?;
    raw.get().parse().ok().or_else(|| (number.is_finite() && number.fract() == 0.0).then_some(number as i64))
}

fn number_of(raw: &RawValue) -> Option<f64> {
    match Kind::of(raw) {
        Kind::Number => raw.get().parse().ok(),
        _ => None,
    }
}

/// A value for people: never the value itself, which may be anything.
pub(super) fn described(raw: &RawValue) -> &'static str {
    match Kind::of(raw) {
        Kind::Object => "an object",
        Kind::Array => "a list",
        Kind::String => "a string",
        Kind::Number => "a number",
        Kind::Bool => "a boolean",
        Kind::Null => "null",
    }
}
