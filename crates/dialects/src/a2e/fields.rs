//! Reads the fields of a message, and collects all problems with them (a2e §3.3).
//!
//! An absent field has its default. A present field must have its type; `null` counts as present. Booleans are JSON
//! booleans, integers may be written `5.0`, strings are never coerced.

use std::borrow::Cow;

use gladhand_core::wire::json::{Kind, RawValue};
use gladhand_core::wire::{Members, json, values};

/// Maximum number of reported problems, one per line. It bounds the answer to a hostile list of a million wrong items.
const MAX_PROBLEMS: usize = 20;

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

    /// A string. Default: empty.
    pub(super) fn text(&mut self, name: &str) -> Cow<'a, str> {
        self.optional_text(name).unwrap_or_default()
    }

    /// A string of at most this many bytes, for data that is kept; empty by default.
    pub(super) fn short_text(&mut self, name: &str, longest: usize) -> Cow<'a, str> {
        let text = self.text(name);
        self.at_most(name, &text, longest);
        text
    }

    /// Reports a problem if a string has more bytes than this.
    pub(super) fn at_most(&mut self, name: &str, text: &str, longest: usize) {
        if text.len() > longest {
            self.problem(name, format!("longer than {longest} bytes"));
        }
    }

    /// A string, if present.
    pub(super) fn optional_text(&mut self, name: &str) -> Option<Cow<'a, str>> {
        let raw = self.members.raw(name)?;
        let text = text_of(raw);
        if text.is_none() {
            self.expected(name, "a string", raw);
        }
        text
    }

    /// A list of strings. Default: empty.
    pub(super) fn texts(&mut self, name: &str) -> Vec<Cow<'a, str>> {
        let Some(raw) = self.members.raw(name) else { return Vec::new() };
        let Ok(items) = values::items(raw.get()) else {
            self.expected(name, "a list", raw);
            return Vec::new();
        };
        let mut texts = Vec::with_capacity(items.len());
        for (at, item) in items.into_iter().enumerate() {
            match text_of(item) {
                Some(text) => texts.push(text),
                None if self.problems.len() >= MAX_PROBLEMS => break,
                None => self.expected(&format!("{name}.{at}"), "a string", item),
            }
        }
        texts
    }

    /// A boolean. Default: false.
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

    /// An integer, if present.
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

    /// A field that must be present, of any type.
    pub(super) fn required(&mut self, name: &str) {
        if !self.members.has(name) {
            self.problem(name, "required".to_owned());
        }
    }

    /// An object, if present.
    pub(super) fn optional_object(&mut self, name: &str) {
        if self.members.has(name) {
            let _ = self.object(name);
        }
    }

    /// A number, if present.
    pub(super) fn number(&mut self, name: &str) {
        if let Some(raw) = self.members.raw(name).filter(|raw| number_of(raw).is_none()) {
            self.expected(name, "a number", raw);
        }
    }

    /// A list of objects, if present.
    pub(super) fn objects(&mut self, name: &str) {
        let Some(raw) = self.members.raw(name) else { return };
        let Ok(items) = values::items(raw.get()) else {
            return self.expected(name, "a list", raw);
        };
        for (at, item) in items.into_iter().enumerate().filter(|(_, item)| Kind::of(item) != Kind::Object) {
            self.expected(&format!("{name}.{at}"), "an object", item);
        }
    }

    /// An object whose values are strings, if present.
    pub(super) fn text_map(&mut self, name: &str) {
        let Some(raw) = self.members.raw(name) else { return };
        let Some(map) = Members::of(raw) else { return self.expected(name, "an object", raw) };
        for (key, value) in map.iter().filter(|(_, value)| Kind::of(value) != Kind::String) {
            self.expected(&format!("{name}.{key}"), "a string", value);
        }
    }

    /// Checks the envelope, of which only the type and the id were read before. Returns the version of the message; of
    /// the two keys, that of the published page wins.
    pub(super) fn envelope(&mut self) -> Option<Cow<'a, str>> {
        let (page, reference) = (self.optional_text("a2e"), self.optional_text("version"));
        if let Some(raw) = self.members.raw("ts") {
            // The reference accepts numeric strings here, and hand-written clients send them.
            let number = text_of(raw).map_or_else(|| number_of(raw), |text| text.trim().parse().ok());
            if number.is_none_or(|number: f64| !number.is_finite()) {
                self.expected("ts", "a number", raw);
            }
        }
        page.or(reference)
    }

    /// The problems, if there are any: the path of each field and the problem.
    pub(super) fn finish(self) -> Result<(), Vec<(String, String)>> {
        if self.problems.is_empty() { Ok(()) } else { Err(self.problems) }
    }

    fn expected(&mut self, path: &str, expected_type: &str, raw: &RawValue) {
        if self.problems.len() >= MAX_PROBLEMS {
            return;
        }
        self.problem(path, format!("expected {expected_type}, got {}", described(raw)));
    }

    fn problem(&mut self, path: &str, problem: String) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push((path.to_owned(), problem));
        }
    }
}

/// The text of a raw string. A string with an unpaired surrogate stays escaped.
pub(super) fn text_of(raw: &RawValue) -> Option<Cow<'_, str>> {
    json::string(raw).or_else(|| {
        let inner = raw.get().strip_prefix('"')?.strip_suffix('"')?;
        Some(Cow::Borrowed(inner))
    })
}

/// The value of a number without a fraction, in any notation. Values beyond 64 bits saturate.
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

/// The kind of a value, for people. Never the value itself, which the peer controls.
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
