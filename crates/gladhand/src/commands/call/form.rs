//! A form that a server wants a person to fill in, asked line by line.
//!
//! The fields come from the schema of `elicitation/create`, in all spellings that its revisions have: plain types,
//! `enum` with `enumNames`, `oneOf` with titles, and lists of choices.

use std::fmt::Write as _;

use gladhand_core::wire::{Members, RawValue};
use serde_json::{Map, Value, json};

use super::formats::Format;
use crate::terminal::layout::{columns, write_line};
use crate::terminal::text::plain;

/// How many columns are left for an answer behind its prompt.
const ANSWER: usize = 12;

/// How many columns a description has that can stand for a missing title.
const SHORT: usize = 40;

/// The input that declines a question.
pub(super) const DECLINE: &str = "!no";

/// Asks for every field and makes the answer. `ask` shows a prompt, which is broken to fit the width of the screen, and
/// gives the line; `None` when there are no more.
pub(super) fn fill_in(schema: &RawValue, width: Option<usize>, mut ask: impl FnMut(&str) -> Option<String>) -> Value {
    let cancelled = || json!({"action": "cancel"});
    let fields = fields(schema);
    let mut content = Map::new();
    if fields.is_empty() {
        return match ask("  Enter to accept: ") {
            None => cancelled(),
            Some(line) if line.trim() == DECLINE => json!({"action": "decline"}),
            Some(_) => json!({"action": "accept", "content": content}),
        };
    }
    for field in &fields {
        let mut prompt = field.prompt(width);
        loop {
            let Some(line) = ask(&prompt) else { return cancelled() };
            if line.trim() == DECLINE {
                return json!({"action": "decline"});
            }
            match field.read(line.trim()) {
                Ok(value) => {
                    content.extend(value.map(|value| (field.name.clone(), value)));
                    break;
                }
                Err(problem) => prompt = format!("  {problem}; again: "),
            }
        }
    }
    json!({"action": "accept", "content": content})
}

/// The answer if no user is present: every default, and nothing else. `None` if something required has none.
pub(super) fn defaults(schema: &RawValue) -> Option<Value> {
    let mut content = Map::new();
    for field in fields(schema) {
        match field.default {
            Some(default) => {
                content.insert(field.name, default);
            }
            None if field.required => return None,
            None => {}
        }
    }
    Some(json!({"action": "accept", "content": content}))
}

#[derive(Debug)]
struct Field {
    name: String,
    title: String,
    /// Its purpose, if there is a title as well.
    description: Option<String>,
    kind: Kind,
    bounds: Bounds,
    required: bool,
    default: Option<Value>,
}

/// The smallest and the largest value of a number, length of a text, or number of choices.
#[derive(Debug, Default)]
struct Bounds {
    least: Option<serde_json::Number>,
    most: Option<serde_json::Number>,
}

#[derive(Debug)]
enum Kind {
    Text,
    /// Text of a format that is checked.
    Formatted(Format),
    Number,
    Integer,
    YesOrNo,
    /// One of these: value and title.
    One(Vec<(Value, String)>),
    /// Any of these.
    Several(Vec<(Value, String)>),
}

fn fields(schema: &RawValue) -> Vec<Field> {
    let schema = Members::of(schema).unwrap_or_default();
    let required: Vec<String> =
        schema.raw("required").and_then(|names| serde_json::from_str(names.get()).ok()).unwrap_or_default();
    let properties = schema.object("properties").unwrap_or_default();
    let field = |(name, property): (&str, &RawValue)| {
        let property: Value = serde_json::from_str(property.get()).unwrap_or_default();
        let text = |key: &str| property.get(key).and_then(Value::as_str);
        let kind = match text("type") {
            Some("number") => Kind::Number,
            Some("integer") => Kind::Integer,
            Some("boolean") => Kind::YesOrNo,
            Some("array") => Kind::Several(property.get("items").map(choices).unwrap_or_default()),
            _ => match choices(&property) {
                none if none.is_empty() => text("format").and_then(Format::named).map_or(Kind::Text, Kind::Formatted),
                choices => Kind::One(choices),
            },
        };
        let bounds = match &kind {
            Kind::Number | Kind::Integer => Bounds::of(&property, "minimum", "maximum"),
            Kind::Text | Kind::Formatted(_) => Bounds::of(&property, "minLength", "maxLength"),
            Kind::Several(_) => Bounds::of(&property, "minItems", "maxItems"),
            Kind::YesOrNo | Kind::One(_) => Bounds::default(),
        };
        let description = text("description").filter(|description| !description.trim().is_empty());
        // Where there is no title, the description is one.
        let (title, description) = match (text("title"), description) {
            (Some(title), description) => (title, description.filter(|description| *description != title)),
            (None, Some(description)) if columns(description) <= SHORT => (description, None),
            (None, description) => (name, description),
        };
        Field {
            name: name.to_owned(),
            title: plain(title),
            description: description.map(plain),
            kind,
            bounds,
            required: required.iter().any(|required| required == name),
            default: property.get("default").cloned(),
        }
    };
    properties.iter().map(field).collect()
}

/// The values that a schema names, with their titles.
fn choices(schema: &Value) -> Vec<(Value, String)> {
    let shown = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let list = |key: &str| schema.get(key).and_then(Value::as_array);
    if let Some(values) = list("enum") {
        let names = list("enumNames").cloned().unwrap_or_default();
        let title = |(at, value): (usize, &Value)| (value.clone(), names.get(at).map_or_else(|| shown(value), shown));
        return values.iter().enumerate().map(title).collect();
    }
    let titled = list("oneOf").or_else(|| list("anyOf"));
    let choice = |choice: &Value| {
        let value = choice.get("const")?;
        Some((value.clone(), choice.get("title").map_or_else(|| shown(value), shown)))
    };
    titled.into_iter().flatten().filter_map(choice).collect()
}

impl Bounds {
    fn of(property: &Value, least: &str, most: &str) -> Self {
        let number = |key: &str| property.get(key).and_then(Value::as_number).cloned();
        Self { least: number(least), most: number(most) }
    }

    /// Why a value of this size is refused; `unit` follows the number.
    fn refusal(&self, size: f64, unit: &str) -> Option<String> {
        let too_small = self.least.as_ref().filter(|least| least.as_f64().is_some_and(|least| size < least));
        let too_large = self.most.as_ref().filter(|most| most.as_f64().is_some_and(|most| size > most));
        match (too_small, too_large) {
            (Some(least), _) => Some(format!("at least {least}{unit}")),
            (None, Some(most)) => Some(format!("at most {most}{unit}")),
            (None, None) => None,
        }
    }
}

impl Field {
    /// The text before the answer: one row if that fits, else a row for the title and for each choice.
    fn prompt(&self, width: Option<usize>) -> String {
        let mut text = String::new();
        let kind = match &self.kind {
            Kind::Text => String::new(),
            Kind::Formatted(format) => format.example().to_owned(),
            Kind::Number => "a number".to_owned(),
            Kind::Integer => "a whole number".to_owned(),
            Kind::YesOrNo => "y or n".to_owned(),
            Kind::One(choices) => listed(choices).join(", "),
            Kind::Several(choices) => format!("any of {}, with commas", listed(choices).join(", ")),
        };
        let row = noted(&self.title, &[&kind, &self.note()]);
        let room = width.unwrap_or(usize::MAX).saturating_sub(ANSWER);
        if let (true, None) = (columns(&row) + 2 <= room, &self.description) {
            return format!("  {row}: ");
        }
        write_line(&mut text, 2, &self.title, width);
        for line in self.description.iter().flat_map(|description| description.lines()) {
            write_line(&mut text, 4, line, width);
        }
        let (choices, kind) = match &self.kind {
            Kind::One(choices) => (choices.as_slice(), "a number or a name"),
            Kind::Several(choices) => (choices.as_slice(), "numbers or names, with commas"),
            _ => (&[][..], kind.as_str()),
        };
        for choice in listed(choices) {
            write_line(&mut text, 4, &choice, width);
        }
        let notes = noted("", &[kind, &self.note()]);
        let _ = if notes.is_empty() { write!(text, "  > ") } else { write!(text, "  {notes} > ") };
        text
    }

    /// The meaning of an empty line.
    fn note(&self) -> String {
        match (&self.default, self.required) {
            (Some(default), _) => format!("Enter: {}", plain(&self.title_of(default))),
            (None, false) => "Enter: leave out".to_owned(),
            (None, true) => String::new(),
        }
    }

    /// A value as it is offered: a choice by its title.
    fn title_of(&self, value: &Value) -> String {
        if let (Kind::Several(_), Value::Array(values)) = (&self.kind, value) {
            return values.iter().map(|value| self.title_of(value)).collect::<Vec<_>>().join(", ");
        }
        let choices = match &self.kind {
            Kind::One(choices) | Kind::Several(choices) => choices.as_slice(),
            _ => &[],
        };
        let choice = choices.iter().find(|(known, _)| known == value);
        choice
            .map_or_else(|| value.as_str().map_or_else(|| value.to_string(), str::to_owned), |(_, title)| title.clone())
    }

    /// The value of a line; none if it is left out.
    fn read(&self, line: &str) -> Result<Option<Value>, String> {
        if line.is_empty() {
            return match &self.default {
                Some(default) => Ok(Some(default.clone())),
                None if self.required && !matches!(self.kind, Kind::Several(_)) => Err("this one is needed".to_owned()),
                None => Ok(None),
            };
        }
        let value = match &self.kind {
            Kind::Text => Value::String(line.to_owned()),
            Kind::Formatted(format) if format.fits(line) => Value::String(line.to_owned()),
            Kind::Formatted(format) => return Err(format!("that is not {}", format.example())),
            Kind::Number => match line.parse::<f64>().ok().and_then(serde_json::Number::from_f64) {
                Some(number) => Value::Number(number),
                None => return Err("that is no number".to_owned()),
            },
            Kind::Integer => line.parse::<i64>().map(Value::from).map_err(|_| "that is no whole number".to_owned())?,
            Kind::YesOrNo => match line.to_lowercase().as_str() {
                "y" | "yes" | "true" => Value::Bool(true),
                "n" | "no" | "false" => Value::Bool(false),
                _ => return Err("y or n".to_owned()),
            },
            Kind::One(choices) => chosen(choices, line)?,
            Kind::Several(choices) => {
                let each = line.split(',').map(|word| chosen(choices, word.trim()));
                Value::Array(each.collect::<Result<_, _>>()?)
            }
        };
        let refusal = match &value {
            Value::Number(number) => number.as_f64().and_then(|number| self.bounds.refusal(number, "")),
            Value::String(text) => self.bounds.refusal(text.chars().count() as f64, " characters"),
            Value::Array(chosen) => self.bounds.refusal(chosen.len() as f64, " of them"),
            _ => None,
        };
        refusal.map_or(Ok(Some(value)), Err)
    }
}

/// The choices with their numbers.
fn listed(choices: &[(Value, String)]) -> Vec<String> {
    choices.iter().enumerate().map(|(at, (_, title))| format!("{} {}", at + 1, plain(title))).collect()
}

/// A title with notes in brackets.
fn noted(title: &str, notes: &[&str]) -> String {
    let notes: Vec<_> = notes.iter().copied().filter(|note| !note.is_empty()).collect();
    let notes = if notes.is_empty() { String::new() } else { format!("({})", notes.join("; ")) };
    [title, &notes].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}

/// A choice by its number, its title or its value.
fn chosen(choices: &[(Value, String)], word: &str) -> Result<Value, String> {
    let by_number = word.parse::<usize>().ok().and_then(|number| choices.get(number.checked_sub(1)?));
    let by_name = || choices.iter().find(|(value, title)| title == word || value.as_str() == Some(word));
    // As few letters as tell it from the others.
    let by_beginning = || {
        let word = word.to_lowercase();
        let mut fitting =
            choices.iter().filter(|(_, title)| !word.is_empty() && title.to_lowercase().starts_with(&word));
        fitting.next().filter(|_| fitting.next().is_none())
    };
    let found = by_name().or(by_number).or_else(by_beginning);
    found.map(|(value, _)| value.clone()).ok_or_else(|| format!("{:?} is none of them", plain(word)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gladhand_core::wire::json::to_raw;

    fn filled(schema: &str, lines: &[&str]) -> (Value, Vec<String>) {
        filled_at(None, schema, lines)
    }

    fn filled_at(width: Option<usize>, schema: &str, lines: &[&str]) -> (Value, Vec<String>) {
        let schema = gladhand_core::wire::json::raw(schema.to_owned());
        let (mut lines, mut prompts) = (lines.iter(), Vec::new());
        let answer = fill_in(&schema, width, |prompt| {
            prompts.push(prompt.to_owned());
            lines.next().map(|line| (*line).to_owned())
        });
        (answer, prompts)
    }

    #[test]
    fn fields_of_all_kinds_are_asked_and_read() {
        let schema = r#"{"type": "object", "required": ["name", "tone"], "properties": {
            "name": {"type": "string", "title": "Your name"},
            "age": {"type": "integer"},
            "loud": {"type": "boolean", "default": false},
            "tone": {"type": "string", "enum": ["lo", "hi"], "enumNames": ["Low", "High"]},
            "tags": {"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}, {"const": "b", "title": "B"}]}}}}"#;
        let (answer, prompts) = filled(schema, &["Ann", "x", "42", "", "2", "A, b"]);
        let content = json!({"name": "Ann", "age": 42, "loud": false, "tone": "hi", "tags": ["a", "b"]});
        assert_eq!(answer, json!({"action": "accept", "content": content}));
        assert_eq!(prompts[0], "  Your name: ");
        assert_eq!(prompts[1], "  age (a whole number; Enter: leave out): ");
        assert_eq!(prompts[2], "  that is no whole number; again: ");
        assert_eq!(prompts[3], "  loud (y or n; Enter: false): ");
        assert_eq!(prompts[4], "  tone (1 Low, 2 High): ");
        assert_eq!(prompts[5], "  tags (any of 1 A, 2 B, with commas; Enter: leave out): ");
    }

    #[test]
    fn a_value_outside_of_its_bounds_is_asked_for_again() {
        let schema = r#"{"type": "object", "required": ["stars", "code"], "properties": {
            "stars": {"type": "integer", "minimum": 1, "maximum": 5},
            "code": {"type": "string", "minLength": 2, "maxLength": 3},
            "share": {"type": "number", "maximum": 0.5},
            "tags": {"type": "array", "minItems": 2, "items": {"enum": ["a", "b"]}}}}"#;
        let (answer, prompts) = filled(schema, &["99", "0", "5", "x", "abcd", "äöü", "0.6", "0.5", "a", "a, b"]);
        let content = json!({"stars": 5, "code": "äöü", "share": 0.5, "tags": ["a", "b"]});
        assert_eq!(answer, json!({"action": "accept", "content": content}));
        let refusals: Vec<_> = prompts.iter().filter(|prompt| prompt.ends_with("; again: ")).collect();
        let expected = [
            "  at most 5; again: ",
            "  at least 1; again: ",
            "  at least 2 characters; again: ",
            "  at most 3 characters; again: ",
            "  at most 0.5; again: ",
            "  at least 2 of them; again: ",
        ];
        assert_eq!(refusals, expected);
    }

    #[test]
    fn text_of_a_wrong_format_is_asked_for_again() {
        let schema = r#"{"type": "object", "required": ["mail"], "properties": {
            "mail": {"type": "string", "format": "email"}, "day": {"type": "string", "format": "date"},
            "other": {"type": "string", "format": "hostname"}}}"#;
        let (answer, prompts) = filled(schema, &["ann", "ann@example.org", "2026-02-30", "2026-02-28", "?"]);
        let content = json!({"mail": "ann@example.org", "day": "2026-02-28", "other": "?"});
        assert_eq!(answer, json!({"action": "accept", "content": content}));
        let expected = [
            "  mail (an email address): ",
            "  that is not an email address; again: ",
            "  day (a date such as 2026-01-31; Enter: leave out): ",
            "  that is not a date such as 2026-01-31; again: ",
            "  other (Enter: leave out): ",
        ];
        assert_eq!(prompts, expected);
    }

    #[test]
    fn prompts_show_titles_and_are_broken_between_words() {
        let schema = r#"{"type": "object", "properties": {
            "color": {"type": "string", "title": "Favourite colour",
                "description": "The colour in which everything will be painted, inside and outside.",
                "oneOf": [{"const": "red", "title": "Red"}, {"const": "green", "title": "Green"}], "default": "green"},
            "size": {"type": "array", "title": "Sizes that are to be kept in stock",
                "items": {"type": "string", "enum": ["s", "m"]}, "default": ["s", "m"]}}}"#;
        let (answer, prompts) = filled_at(Some(60), schema, &["", "s"]);
        assert_eq!(answer, json!({"action": "accept", "content": {"color": "green", "size": ["s"]}}));
        let expected = "  Favourite colour
    The colour in which everything will be painted, inside
    and outside.
    1 Red
    2 Green
  (a number or a name; Enter: Green) > ";
        assert_eq!(prompts[0], expected);
        let expected = "  Sizes that are to be kept in stock
    1 s
    2 m
  (numbers or names, with commas; Enter: s, m) > ";
        assert_eq!(prompts[1], expected);
    }

    #[test]
    fn a_form_can_be_declined_or_cancelled() {
        let schema = r#"{"type": "object", "properties": {"name": {"type": "string"}}}"#;
        assert_eq!(filled(schema, &["!no"]).0, json!({"action": "decline"}));
        assert_eq!(filled(schema, &[]).0, json!({"action": "cancel"}));
        assert_eq!(filled(schema, &[""]).0, json!({"action": "accept", "content": {}}));
        assert_eq!(filled("{}", &["", ""]).0, json!({"action": "accept", "content": {}}));
        assert_eq!(filled("{}", &["!no"]).0, json!({"action": "decline"}));
    }

    #[test]
    fn defaults_answer_a_form_only_if_no_required_field_is_missing() {
        let schema = json!({"properties": {"a": {"type": "string", "default": "x"}, "b": {"type": "number"}}});
        assert_eq!(defaults(&to_raw(&schema)), Some(json!({"action": "accept", "content": {"a": "x"}})));
        let schema = json!({"properties": {"b": {"type": "number"}}, "required": ["b"]});
        assert_eq!(defaults(&to_raw(&schema)), None);
    }
}
