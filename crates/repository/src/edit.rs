//! Edits of a plan, applied to text in memory.

use std::ops::Range;

use diffy::{DiffOptions, PatchFormatter};
use gladhand_core::Order as _;

use crate::frameworks::with_plain_line_ends;
use crate::language::Language;
use crate::source::import_place;

/// How many lines an anchor may have.
const MOST_ANCHOR_LINES: usize = 40;

/// A file as an edit sees it: with plain line ends, regardless of those on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Document {
    pub(crate) text: String,
    has_crlf: bool,
}

impl Document {
    pub(crate) fn new(text: &str) -> Self {
        Self { text: with_plain_line_ends(text).into_owned(), has_crlf: text.contains("\r\n") }
    }

    /// The text as it is on disk.
    fn on_disk(&self, text: &str) -> String {
        if self.has_crlf { text.replace('\n', "\r\n") } else { text.to_owned() }
    }

    /// The unified diff to another text.
    pub(crate) fn diff(&self, path: &str, after: &str) -> String {
        let (before, after) = (self.on_disk(&self.text), self.on_disk(after));
        unified(&format!("a/{path}"), path, &before, &after)
    }
}

/// The unified diff that makes a new file.
pub(crate) fn creation(path: &str, text: &str) -> String {
    unified("/dev/null", path, "", text)
}

fn unified(from: &str, path: &str, before: &str, after: &str) -> String {
    if before == after {
        return String::new();
    }
    let mut options = DiffOptions::new();
    options.set_context_len(3).set_original_filename(from.to_owned()).set_modified_filename(format!("b/{path}"));
    let patch = options.create_patch(before, after);
    // A blank line of the file keeps the mark of its line in the patch.
    PatchFormatter::new().suppress_blank_empty(false).fmt_patch(&patch).to_string()
}

/// Where code goes, seen from an anchor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    After,
    Before,
    Replace,
    Append,
}

impl Direction {
    /// The direction that an anchor's type names.
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "after_match" => Some(Self::After),
            "before_match" => Some(Self::Before),
            "replace_match" => Some(Self::Replace),
            "append_file" => Some(Self::Append),
            _ => None,
        }
    }
}

/// A change of one place of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) range: Range<usize>,
    pub(crate) text: String,
}

/// The change that puts code at an anchor that is found at `at`.
pub(crate) fn place_code(text: &str, at: Range<usize>, direction: Direction, code: &str) -> Change {
    let line_start = text[..at.start].rfind('\n').map_or(0, |end| end + 1);
    let line_end = text[at.end..].find('\n').map_or(text.len(), |length| at.end + length);
    let indent: String = text[line_start..].chars().take_while(|c| matches!(c, ' ' | '\t')).collect();
    match direction {
        Direction::Replace => Change { range: at, text: code.to_owned() },
        Direction::Before => Change { range: line_start..line_start, text: format!("{}\n", indented(code, &indent)) },
        Direction::After => insert_line(text, line_end, &indented(code, &indent)),
        Direction::Append => append(text, code),
    }
}

/// The change that puts code at the end of a text.
pub(crate) fn append(text: &str, code: &str) -> Change {
    insert_line(text, text.trim_end_matches('\n').len(), code)
}

/// The change that puts an import where imports are.
pub(crate) fn place_import(language: Option<Language>, path: &str, text: &str, import: &str) -> Change {
    let at = language.map_or(0, |language| import_place(language, path, text));
    let import = import.trim_matches('\n');
    let before = if at > 0 && !text[..at].ends_with('\n') { "\n" } else { "" };
    Change { range: at..at, text: format!("{before}{import}\n") }
}

/// The whole lines before a position and the part of its own line before it: as few lines as make the text unique.
pub(crate) fn anchor_before(text: &str, at: usize) -> Option<&str> {
    let mut ends = memchr::memrchr_iter(b'\n', &text.as_bytes()[..at]).map(|end| end + 1).chain([0]);
    let is_unique =
        |anchor: &&str| !anchor.trim().is_empty() && memchr::memmem::find_iter(text.as_bytes(), anchor).count() == 1;
    ends.by_ref().take(MOST_ANCHOR_LINES).map(|start| &text[start..at]).find(is_unique)
}

/// Text as a line, or lines, of its own behind a place at the end of a line.
fn insert_line(text: &str, at: usize, line: &str) -> Change {
    let line = line.trim_end_matches('\n');
    let at_end = at == text.len();
    let text = if at_end { format!("\n{line}\n") } else { format!("\n{line}") };
    Change { range: at..at, text }
}

fn indented(code: &str, indent: &str) -> String {
    let code = code.trim_end_matches('\n');
    let lines = code.split('\n').map(|line| if line.is_empty() { String::new() } else { format!("{indent}{line}") });
    lines.collect::<Vec<_>>().join("\n")
}

/// Two changes that want the same letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Overlap(pub(crate) usize, pub(crate) usize);

/// The first two changes that overlap. Insertions at the same place do not: they go in order.
pub(crate) fn overlap(changes: &[&Change]) -> Option<Overlap> {
    for (later, b) in changes.iter().enumerate() {
        for (earlier, a) in changes[..later].iter().enumerate() {
            let disjoint = a.range.end <= b.range.start || b.range.end <= a.range.start;
            if !disjoint {
                return Some(Overlap(earlier, later));
            }
        }
    }
    None
}

/// The text with all changes, which must not overlap.
pub(crate) fn apply(text: &str, changes: &[&Change]) -> String {
    let mut sorted: Vec<&Change> = changes.to_vec();
    sorted.order_by_key(|change| (change.range.start, change.range.end));
    let (mut result, mut at) = (String::with_capacity(text.len()), 0);
    for change in sorted {
        result.push_str(&text[at..change.range.start]);
        result.push_str(&change.text);
        at = change.range.end;
    }
    result.push_str(&text[at..]);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_takes_the_indentation_of_its_anchor() {
        let text = "def make():\n    app = F(\n        1,\n    )\n    return app\n";
        let pattern = "app = F(\n        1,\n    )";
        let at = text.find(pattern).unwrap();
        let change = place_code(text, at..at + pattern.len(), Direction::After, "@app.x\ndef y(): pass\n");
        assert_eq!(
            apply(text, &[&change]),
            "def make():\n    app = F(\n        1,\n    )\n    @app.x\n    def y(): pass\n    return app\n"
        );
    }

    #[test]
    fn every_direction_places_code_as_named() {
        let at = 2..3;
        let done = |direction| apply("a\nb\nc", &[&place_code("a\nb\nc", at.clone(), direction, "x")]);
        assert_eq!(done(Direction::After), "a\nb\nx\nc");
        assert_eq!(done(Direction::Before), "a\nx\nb\nc");
        assert_eq!(done(Direction::Replace), "a\nx\nc");
        assert_eq!(done(Direction::Append), "a\nb\nc\nx\n");
    }

    #[test]
    fn an_anchor_has_as_many_lines_as_it_takes() {
        let text = "[a]\nx = [\n]\n[b]\nx = [\n]\n";
        assert_eq!(anchor_before(text, 9), Some("[a]\nx = ["));
        assert_eq!(anchor_before(text, 3), Some("[a]"));
        assert_eq!(anchor_before("\n\n", 2), None);
    }

    #[test]
    fn overlaps_are_found_and_insertions_at_one_place_are_none() {
        let change = |range: Range<usize>| Change { range, text: "x".to_owned() };
        assert_eq!(overlap(&[&change(0..3), &change(2..4)]), Some(Overlap(0, 1)));
        assert_eq!(overlap(&[&change(1..1), &change(1..1), &change(1..2)]), None);
        assert_eq!(overlap(&[&change(0..4), &change(2..2)]), Some(Overlap(0, 1)));
    }

    #[test]
    fn the_diff_of_a_file_keeps_its_line_ends() {
        let document = Document::new("a\r\nb\r\n");
        let diff = document.diff("x.txt", "a\nnew\nb\n");
        assert_eq!(diff, "--- a/x.txt\n+++ b/x.txt\n@@ -1,2 +1,3 @@\n a\r\n+new\r\n b\r\n");
        assert_eq!(creation("y", "1\n"), "--- /dev/null\n+++ b/y\n@@ -0,0 +1 @@\n+1\n");
    }
}
