//! How wide the screen is, and text that is broken to fit it.

use std::fmt::Write as _;

/// Narrower than this nothing is broken: it would not get better.
pub(super) const NARROWEST: usize = 20;

/// The width of the terminal that stdout is; `None` if it is none, unless somebody says how wide it is.
pub(super) fn width() -> Option<usize> {
    let named = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    named.or_else(terminal_width)
}

/// The width of the terminal that stdout is, as it is now.
pub(super) fn terminal_width() -> Option<usize> {
    #[cfg(unix)]
    {
        let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
        (size.ws_col > 0).then_some(usize::from(size.ws_col))
    }
    #[cfg(not(unix))]
    None
}

/// Appends a line behind so many blanks, broken between words where it is wider than the screen. Where there is no
/// screen it stays whole: whoever reads it then may be a program.
pub(super) fn write_line(text: &mut String, indent: usize, line: &str, width: Option<usize>) {
    let room = width.map(|width| width.saturating_sub(indent)).filter(|room| *room >= NARROWEST);
    for row in rows(line, room) {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{:indent$}{row}", "");
    }
}

fn rows(line: &str, room: Option<usize>) -> Vec<&str> {
    let Some(room) = room else { return vec![line.trim_end()] };
    // What is indented stays so, as lists and examples are.
    let hanging = line.chars().take_while(|c| *c == ' ').count();
    let (mut rows, mut start, mut last_blank, mut column) = (Vec::new(), 0, None, 0);
    for (at, c) in line.char_indices() {
        if c == ' ' && column > hanging {
            last_blank = Some(at);
        }
        column += 1;
        if let Some(blank) = last_blank.filter(|_| column > room) {
            rows.push(line[start..blank].trim_end());
            start = blank + 1;
            column = line[start..=at].chars().count();
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
    fn a_word_that_does_not_fit_stays_whole() {
        let url = "https://example.org/a/very/long/address";
        assert_eq!(written(0, &format!("see {url} there"), Some(20)), format!("see\n{url}\nthere\n"));
        assert_eq!(written(0, &format!("    {url}"), Some(20)), format!("    {url}\n"));
    }
}
