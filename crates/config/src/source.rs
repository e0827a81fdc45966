//! The text of a configuration file as a tree with the position of every value, and the mistakes in it.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use gladhand_core::Order as _;
use gladhand_core::wire::invisible::{Layout, escape};
use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::Config;
use super::deserializer::SettingValue;
use super::schema::RULES;
use super::schema_check::{FoundMistake, MOST_MISTAKES, check_schema};

/// The message about a value that fits the schema and still cannot be read.
pub(crate) const UNREADABLE: &str = "this cannot be read";

/// One mistake in a configuration file. It never quotes a value, which may be a secret. Text that it quotes from the
/// file contains no control characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The line, from 1; 0 for what has no place in the file.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// The key, as in `upstreams.git.cwd`, or `policy.rules#2.effect` in the second item of a list; empty where the text is
    /// no TOML.
    pub key: String,
    /// The error message.
    pub message: String,
}

impl Problem {
    /// The message, after the key unless the message names it.
    pub fn without_place(&self) -> Cow<'_, str> {
        let Self { key, message, .. } = self;
        match key.is_empty() || message.contains(&format!("`{key}`")) {
            true => message.into(),
            false => format!("{key}: {message}").into(),
        }
    }

    /// Whether it is one of this key, or of one inside it.
    pub fn is_of(&self, path: &[&str]) -> bool {
        let inside = self.key.strip_prefix(&path.join("."));
        inside.is_some_and(|inside| inside.is_empty() || inside.starts_with('.'))
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line > 0 {
            write!(f, "line {}, column {}: ", self.line, self.column)?;
        }
        f.write_str(&self.without_place())
    }
}

/// A file's text that is TOML.
#[derive(Debug)]
pub struct Source<'t> {
    positions: Positions<'t>,
    pub(super) root: DeTable<'t>,
}

impl<'t> Source<'t> {
    /// Reads the text, as far as it can be, and says everything that is wrong with it if it is no TOML.
    pub fn read(text: &'t str) -> (Self, Vec<Problem>) {
        let (root, mistakes) = DeTable::parse_recoverable(text);
        let source = Self { positions: Positions::of(text), root: root.into_inner() };
        let problem = |mistake: &toml::de::Error| source.at(mistake.span(), "", mistake.message());
        let problems = mistakes.iter().take(MOST_MISTAKES + 1).map(problem).collect();
        (source, bounded(problems))
    }

    /// Reads the settings, and leaves out keys with mistakes.
    pub fn parse(&self) -> (Option<Config>, Vec<Problem>) {
        let found = if self.root.is_empty() { Vec::new() } else { check_schema(self, &RULES) };
        if found.len() > MOST_MISTAKES {
            return (None, bounded(found.into_iter().map(|FoundMistake { problem, .. }| problem).collect()));
        }
        let (mut rest, mut problems) = (self.root.clone(), Vec::new());
        for FoundMistake { path, problem } in found {
            remove(&mut rest, &path);
            problems.push(problem);
        }
        match Config::deserialize(SettingValue::of(rest)) {
            Ok(config) => (Some(config), problems),
            Err(error) => {
                problems.push(self.at(error.span, "", UNREADABLE));
                (None, problems)
            }
        }
    }

    /// All keys of all sections, in the order of the file. A section that is no table has none.
    pub(super) fn keys(&self) -> Vec<(&str, &str)> {
        let mut keys = Vec::new();
        for (section, value) in self.root.iter() {
            let DeValue::Table(table) = value.get_ref() else { continue };
            keys.extend(
                table.iter().map(|(key, _)| (key.span().start, section.get_ref().as_ref(), key.get_ref().as_ref())),
            );
        }
        keys.order_by_key(|(start, ..)| *start);
        keys.into_iter().map(|(_, section, key)| (section, key)).collect()
    }

    /// The tables in a list of a section. An item that is no table counts as an empty one.
    pub(super) fn items(&self, section: &str, list: &str) -> Vec<DeTable<'t>> {
        let Some(DeValue::Array(items)) = self.value(&[section, list]).map(Spanned::get_ref) else { return Vec::new() };
        let table = |item: &Spanned<DeValue<'t>>| match item.get_ref() {
            DeValue::Table(table) => table.clone(),
            _ => DeTable::new(),
        };
        items.iter().map(table).collect()
    }

    /// A problem with the value of a key, or with the nearest table around it.
    pub fn problem(&self, path: &[&str], message: impl Into<String>) -> Problem {
        self.at(Some(self.span(path)), &path.join("."), &message.into())
    }

    /// The same, at the value itself.
    pub(super) fn problem_of_value(&self, path: &[&str], message: impl Into<String>) -> Problem {
        let value = self.value(path).map_or_else(|| self.span(path), Spanned::span);
        self.at(Some(value), &path.join("."), &message.into())
    }

    fn value(&self, path: &[&str]) -> Option<&Spanned<DeValue<'t>>> {
        let (last, before) = path.split_last()?;
        let mut table = &self.root;
        for name in before {
            let DeValue::Table(inner) = member(table, name, &mut (0..0))? else { return None };
            table = inner;
        }
        match last.rsplit_once('#') {
            Some((name, number)) => {
                let DeValue::Array(items) = table.get(name)?.get_ref() else { return None };
                items.get(number.parse::<usize>().ok()?.checked_sub(1)?)
            }
            None => table.get(*last),
        }
    }

    /// Where a key is in the text, or the nearest table around it. The second item of a list is `key#2`.
    pub(super) fn span(&self, path: &[&str]) -> Range<usize> {
        let mut found = 0..0;
        let mut table = &self.root;
        for name in path {
            let Some(value) = member(table, name, &mut found) else { break };
            let DeValue::Table(inner) = value else { break };
            table = inner;
        }
        found
    }

    pub(super) fn at(&self, span: Option<Range<usize>>, key: &str, message: &str) -> Problem {
        let (line, column) = span.map_or((0, 0), |span| self.positions.place(span.start));
        Problem { line, column, key: harmless(key), message: harmless(message) }
    }
}

/// The value under a key of a table, or an item of the list under that key, and its place.
fn member<'s, 't>(table: &'s DeTable<'t>, name: &str, place: &mut Range<usize>) -> Option<&'s DeValue<'t>> {
    let of_key = |name: &str| table.get_key_value(name);
    if let Some((key, value)) = of_key(name) {
        *place = key.span();
        return Some(value.get_ref());
    }
    let (name, number) = name.rsplit_once('#')?;
    let (key, value) = of_key(name)?;
    *place = key.span();
    let DeValue::Array(items) = value.get_ref() else { return None };
    let item = items.get(number.parse::<usize>().ok()?.checked_sub(1)?)?;
    *place = item.span();
    Some(item.get_ref())
}

/// Text of the file as one line, in which everything can be seen.
fn harmless(text: &str) -> String {
    escape(text, Layout::Line).into_owned()
}

/// From the beginning of the file to its end.
pub(super) fn in_order(mut problems: Vec<Problem>) -> Vec<Problem> {
    problems.order_by_key(|problem| (problem.line, problem.column));
    problems
}

/// At most [`MOST_MISTAKES`], in the order of the file. If there are more, a last problem says so.
pub(super) fn bounded(problems: Vec<Problem>) -> Vec<Problem> {
    let mut problems = in_order(problems);
    if problems.len() > MOST_MISTAKES {
        let Problem { line, column, .. } = problems[MOST_MISTAKES];
        problems.truncate(MOST_MISTAKES);
        let message = format!("there are more than {MOST_MISTAKES} mistakes in this file: the search ends here");
        problems.push(Problem { line, column, key: String::new(), message });
    }
    problems
}

/// A text, with an index that makes the line and column of a byte cheap to find.
#[derive(Debug)]
struct Positions<'t> {
    text: &'t str,
    /// Where each line begins.
    lines: Vec<usize>,
    /// The number of characters before each [`STEP`] of bytes.
    characters: Vec<usize>,
}

/// The bytes between two entries of the index of characters.
const STEP: usize = 1024;

impl<'t> Positions<'t> {
    fn of(text: &'t str) -> Self {
        let lines = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        let mut sum = 0;
        let counted = text.as_bytes().chunks(STEP).map(|chunk| {
            let before = sum;
            sum += characters(chunk);
            before
        });
        Self { text, lines, characters: counted.collect() }
    }

    /// The line and column of a byte, from 1.
    fn place(&self, at: usize) -> (usize, usize) {
        let at = if self.text.is_char_boundary(at) { at } else { self.text.len() };
        let line = self.lines.partition_point(|start| *start <= at);
        let start = self.lines.get(line.saturating_sub(1)).copied().unwrap_or_default();
        (line, self.characters_before(at) - self.characters_before(start) + 1)
    }

    fn characters_before(&self, at: usize) -> usize {
        let step = (at / STEP).min(self.characters.len().saturating_sub(1));
        let known = self.characters.get(step).copied().unwrap_or_default();
        known + characters(self.text.as_bytes().get(step * STEP..at).unwrap_or_default())
    }
}

/// The number of characters that begin in these bytes of UTF-8.
fn characters(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte & 0xC0 != 0x80).count()
}

/// Takes away what is at a path.
fn remove(table: &mut DeTable<'_>, path: &[String]) {
    let Some((name, inside)) = path.split_first() else { return };
    if inside.is_empty() {
        table.remove(name.as_str());
    } else if let Some(DeValue::Table(inner)) = table.get_mut(name.as_str()).map(Spanned::get_mut) {
        remove(inner, inside);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(text: &str) -> Vec<String> {
        let (source, problems) = Source::read(text);
        let problems = if problems.is_empty() { in_order(source.parse().1) } else { problems };
        problems.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_key_with_a_mistake_is_reported_once_with_its_place_and_without_its_value() {
        let text = "[upstreams.a]\ntimeout_ms = \"hush\"\nisolated = \"hush\"\nenv = { X = 5 }\n\n[upstreams.b]\ntimout_ms = 1\n\
                    args = ['x', 5]\ninherit_env = 7\n";
        assert_eq!(
            problems(text),
            [
                "line 2, column 14: upstreams.a.timeout_ms: expected a whole number",
                "line 3, column 12: upstreams.a.isolated: expected true or false",
                "line 4, column 13: upstreams.a.env.X: expected a string",
                "line 7, column 1: upstreams.b.timout_ms: there is no key `timout_ms`: did you mean `timeout_ms`?",
                "line 8, column 14: upstreams.b.args#2: expected a string",
                "line 9, column 15: upstreams.b.inherit_env: expected `all` or a list of strings",
            ]
        );
    }

    #[test]
    fn valid_keys_are_read_although_other_keys_are_invalid() {
        let (source, _) = Source::read("[limits]\npage_size = 7\nin_flight = true\n[two]\n");
        let (config, problems) = source.parse();
        let limits = config.unwrap().limits;
        assert_eq!((limits.page_size, limits.in_flight, problems.len()), (7, 1024, 2));
    }

    #[test]
    fn places_are_the_same_as_counted_from_the_beginning() {
        let text = "ä = 1\n\n".to_owned() + &"é€x".repeat(900) + "\n" + &"y\n".repeat(700) + "ü";
        let positions = Positions::of(&text);
        for (at, _) in text.char_indices().chain([(text.len(), ' ')]) {
            let before = &text[..at];
            let column = before.rsplit('\n').next().map_or(1, |start| start.chars().count() + 1);
            assert_eq!(positions.place(at), (before.matches('\n').count() + 1, column), "{at}");
        }
        assert_eq!(Positions::of("").place(0), (1, 1));
    }

    #[test]
    fn every_toml_syntax_error_is_reported() {
        let problems = problems("a = \nb = 1\nc = [\n");
        assert!(problems.len() >= 2 && problems[0].starts_with("line 1, column 5: "), "{problems:?}");
    }
}
