//! How wide the screen is, and text that is broken to fit it.

use std::fmt::Write as _;
use std::io::IsTerminal as _;

use unicode_width::UnicodeWidthChar as _;

/// Narrower than this nothing is broken: it would not get better.
pub(crate) const NARROWEST: usize = 20;

/// The width that messages on a terminal have at most if the terminal does not tell its own.
const USUAL: usize = 80;

/// The width of the terminal that stdout is; `None` if it is none, unless `COLUMNS` says how wide it is.
pub(crate) fn width() -> Option<usize> {
    named_width().or_else(terminal_width)
}

/// The width of messages on stderr, at most 80 columns: longer lines are hard to read. `None` if it is no terminal.
pub(crate) fn message_width() -> Option<usize> {
    let stderr = std::io::stderr();
    readable_width(stderr.is_terminal(), width_of(stderr))
}

/// The same for messages that are what a command reports, on stdout.
pub(crate) fn report_width() -> Option<usize> {
    readable_width(std::io::stdout().is_terminal(), terminal_width())
}

fn readable_width(is_terminal: bool, width: Option<usize>) -> Option<usize> {
    let terminal = || is_terminal.then(|| width.unwrap_or(USUAL));
    named_width().or_else(terminal).map(|width| width.min(USUAL))
}

/// The current width of the terminal on stdout.
pub(crate) fn terminal_width() -> Option<usize> {
    width_of(std::io::stdout())
}

/// How many rows the terminal that stdout is has now.
#[cfg(unix)]
pub(crate) fn terminal_height() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    (size.ws_row > 0).then_some(usize::from(size.ws_row))
}

fn named_width() -> Option<usize> {
    std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok())
}

#[cfg(unix)]
fn width_of(terminal: impl std::os::fd::AsFd) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(terminal).ok()?;
    (size.ws_col > 0).then_some(usize::from(size.ws_col))
}

#[cfg(not(unix))]
fn width_of<T>(_: T) -> Option<usize> {
    None
}

/// A message of one or more lines, each broken between words where it is wider than this. It ends with a line break.
pub(crate) fn message(text: &str, width: Option<usize>) -> String {
    let mut broken = String::new();
    text.lines().for_each(|line| write_line(&mut broken, 0, line, width));
    broken
}

/// Appends a line behind so many blanks, broken between words where it is wider than the screen. Where there is no
/// screen it stays whole: a program may read it then.
pub(crate) fn write_line(text: &mut String, indent: usize, line: &str, width: Option<usize>) {
    let room = width.map(|width| width.saturating_sub(indent)).filter(|room| *room >= NARROWEST);
    for row in rows(line, room) {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{:indent$}{row}", "");
    }
}

/// Appends a line behind a label, which may have colours. The line is broken to fit the screen, and its rows stand below
/// each other.
pub(crate) fn write_labelled(text: &mut String, label: &str, line: &str, width: usize) {
    let indent = columns(&anstream::adapter::strip_str(label).to_string());
    for (number, row) in fitted(line, width.saturating_sub(indent)).iter().enumerate() {
        let _ = match number {
            0 => writeln!(text, "{label}{row}"),
            _ => writeln!(text, "{:indent$}{row}", ""),
        };
    }
}

/// A line broken between words to fit so many columns. A word that is wider than that is broken as well.
pub(crate) fn fitted(line: &str, room: usize) -> Vec<String> {
    let room = room.max(NARROWEST);
    let mut fitted: Vec<String> = Vec::new();
    for row in rows(line, Some(room)) {
        // The next row may fit behind the last piece of a broken word.
        match fitted.last_mut() {
            Some(last) if columns(last) + 1 + columns(row) <= room => {
                last.push(' ');
                last.push_str(row);
            }
            _ => fitted.extend(pieces(row, room)),
        }
    }
    fitted
}

/// Cuts text into pieces of this many columns.
pub(crate) fn pieces(text: &str, room: usize) -> Vec<String> {
    let (mut pieces, mut piece, mut column) = (Vec::new(), String::new(), 0);
    for c in text.chars() {
        let columns = columns_of(c);
        if column + columns > room {
            pieces.push(std::mem::take(&mut piece));
            column = 0;
        }
        piece.push(c);
        column += columns;
    }
    pieces.push(piece);
    pieces
}

/// How many columns a text takes on a screen.
pub(crate) fn columns(text: &str) -> usize {
    text.chars().map(columns_of).sum()
}

fn columns_of(c: char) -> usize {
    c.width().unwrap_or(0)
}

fn rows(line: &str, room: Option<usize>) -> Vec<&str> {
    let Some(room) = room else { return vec![line.trim_end()] };
    // Indented text, such as lists and examples, keeps its indent.
    let hanging = line.chars().take_while(|c| *c == ' ').count();
    let (mut rows, mut start, mut last_blank, mut column) = (Vec::new(), 0, None, 0);
    for (at, c) in line.char_indices() {
        if c == ' ' && column > hanging {
            last_blank = Some(at);
        }
        column += columns_of(c);
        if let Some(blank) = last_blank.filter(|_| column > room) {
            rows.push(line[start..blank].trim_end());
            start = blank + 1;
            column = columns(&line[start..at + c.len_utf8()]);
            last_blank = None;
        }
    }
    rows.push(line[start..].trim_end());
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(indent: usize, line: &str, width: Option<usize>) -> String {
        let mut text = String::new();
        write_line(&mut text, indent, line, width);
        text
    }

    #[test]
    fn a_line_is_broken_between_words_and_indented() {
        let line = "Read the contents of a file as text, grüezi mitenand everybody.";
        let expected = "  Read the contents of a\n  file as text, grüezi\n  mitenand everybody.\n";
        assert_eq!(written(2, line, Some(24)), expected);
        assert_eq!(written(2, line, None), format!("  {line}\n"));
        assert_eq!(written(2, line, Some(10)), format!("  {line}\n"), "too narrow to be of use");
        assert_eq!(written(0, "", Some(30)), "\n");
    }

    #[test]
    fn a_fitted_line_is_never_wider_than_the_screen() {
        let line = format!("see https://example.org/{} there: 書類は二列です", "x".repeat(60));
        for room in NARROWEST..120 {
            let rows = fitted(&line, room);
            assert!(rows.iter().all(|row| columns(row) <= room), "{room}: {rows:?}");
            let bare = |text: &str| text.replace(' ', "");
            assert_eq!(bare(&rows.concat()), bare(&line), "{room}");
        }
    }

    #[test]
    fn a_word_that_does_not_fit_stays_whole() {
        let url = "https://example.org/a/very/long/address";
        assert_eq!(written(0, &format!("see {url} there"), Some(20)), format!("see\n{url}\nthere\n"));
        assert_eq!(written(0, &format!("    {url}"), Some(20)), format!("    {url}\n"));
    }
}
