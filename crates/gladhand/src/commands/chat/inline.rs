//! Inline Markdown: code, bold, italics, escapes.

use anstyle::Style;

use super::ink::Ink;
use super::markdown::{CODE, HOLD};

/// Shows the beginning of a text as far as it is known what it is. How many bytes that was, and its last character.
pub(super) fn show(
    text: &str,
    style: Style,
    mut before: Option<char>,
    is_end: bool,
    ink: &mut Ink,
) -> (usize, Option<char>) {
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        let found = match first {
            '\\' => escaped(rest, is_end),
            '`' => code(rest, is_end),
            '*' | '_' => emphasis(rest, first, before, is_end),
            _ => Some(Found::Plain(rest.find(['\\', '`', '*', '_']).unwrap_or(rest.len()))),
        };
        let Some(found) = found else { break };
        let length = match found {
            Found::Plain(length) => {
                ink.put(&rest[..length], style);
                length
            }
            Found::Escaped => {
                ink.put(&rest[1..2], style);
                2
            }
            Found::Code { marks, length } => {
                ink.put(&rest[marks..marks + length], CODE);
                length + 2 * marks
            }
            Found::Emphasis { marks, length } => {
                let style = if marks >= 2 { style.bold() } else { style };
                let style = if marks != 2 { style.italic() } else { style };
                show(&rest[marks..marks + length], style, None, true, ink);
                length + 2 * marks
            }
        };
        before = rest[..length].chars().next_back();
        at += length;
    }
    (at, before)
}

/// The element at the beginning of a text.
enum Found {
    /// Literal text of this many bytes.
    Plain(usize),
    /// A literal character, behind a backslash.
    Escaped,
    /// Code: its length in bytes, and the number of marks on either side.
    Code { marks: usize, length: usize },
    /// Emphasized text: its length in bytes, and the number of marks on either side.
    Emphasis { marks: usize, length: usize },
}

fn escaped(text: &str, is_end: bool) -> Option<Found> {
    match text[1..].chars().next() {
        None => is_end.then_some(Found::Plain(1)),
        Some(c) if c.is_ascii_punctuation() => Some(Found::Escaped),
        Some(_) => Some(Found::Plain(1)),
    }
}

fn code(text: &str, is_end: bool) -> Option<Found> {
    let marks = run(text, '`');
    if marks == text.len() && !is_end && marks < HOLD {
        return None;
    }
    let (window, is_whole) = window(&text[marks..], is_end);
    match end_of_code(window, marks) {
        Some(length) if marks + length + marks < marks + window.len() || is_whole => {
            Some(Found::Code { marks, length })
        }
        None if is_whole => Some(Found::Plain(marks)),
        _ => None,
    }
}

/// The end of code that began with this many marks; exactly as many close it.
fn end_of_code(text: &str, marks: usize) -> Option<usize> {
    let mut at = 0;
    while let Some(found) = text[at..].find('`') {
        at += found;
        let length = run(&text[at..], '`');
        if length == marks && at > 0 {
            return Some(at);
        }
        at += length;
    }
    None
}

fn emphasis(text: &str, mark: char, before: Option<char>, is_end: bool) -> Option<Found> {
    let marks = run(text, mark);
    if marks == text.len() && !is_end && marks <= 3 {
        return None;
    }
    let opens = text[marks..].chars().next().is_some_and(|next| !next.is_whitespace())
        && !before.is_some_and(|before| before.is_alphanumeric() || before == mark);
    if marks > 3 || !opens {
        return Some(Found::Plain(marks));
    }
    let (window, is_whole) = window(&text[marks..], is_end);
    match end_of_emphasis(window, mark, marks, is_whole) {
        End::At(length) => Some(Found::Emphasis { marks, length }),
        End::Nowhere if is_whole => Some(Found::Plain(marks)),
        End::Nowhere | End::Unknown => None,
    }
}

enum End {
    At(usize),
    Nowhere,
    /// It depends on what comes.
    Unknown,
}

fn end_of_emphasis(text: &str, mark: char, marks: usize, is_whole: bool) -> End {
    let (mut at, mut before) = (0, ' ');
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        let length = match first {
            '\\' => 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
            '`' => {
                let marks = run(rest, '`');
                match end_of_code(&rest[marks..], marks) {
                    Some(length) if at + length + 2 * marks < text.len() || is_whole => length + 2 * marks,
                    None if is_whole => marks,
                    _ => return End::Unknown,
                }
            }
            c if c == mark => {
                let length = run(rest, mark);
                let next = rest[length..].chars().next();
                if next.is_none() && !is_whole {
                    return End::Unknown;
                }
                let is_inside_word = mark == '_' && next.is_some_and(char::is_alphanumeric);
                if length == marks && !before.is_whitespace() && !is_inside_word {
                    return End::At(at);
                }
                length
            }
            c => c.len_utf8(),
        };
        before = rest[..length].chars().next_back().unwrap_or(before);
        at += length;
    }
    End::Nowhere
}

/// The part of a text in which something is looked for, and whether more of the text would change nothing.
fn window(text: &str, is_end: bool) -> (&str, bool) {
    if text.len() < HOLD { (text, is_end) } else { (&text[..text.floor_char_boundary(HOLD)], true) }
}

fn run(text: &str, mark: char) -> usize {
    text.len() - text.trim_start_matches(mark).len()
}
