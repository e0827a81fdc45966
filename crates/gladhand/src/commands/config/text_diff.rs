//! The difference between two texts, as a person sees it.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use diffy::{DiffOptions, Line};

const OLD: Style = AnsiColor::Red.on_default();
const NEW: Style = AnsiColor::Green.on_default();

/// How many lines are shown around each difference.
const AROUND: usize = 2;

/// The lines that differ, with some lines around them.
pub(super) fn of(before: &str, after: &str) -> String {
    let mut options = DiffOptions::new();
    let patch = options.set_context_len(AROUND).create_patch(before, after);
    let mut text = String::new();
    for (at, hunk) in patch.hunks().iter().enumerate() {
        if at > 0 {
            text.push_str("  …\n");
        }
        for line in hunk.lines() {
            let (style, mark, line) = match line {
                Line::Context(line) => (Style::new(), ' ', line),
                Line::Delete(line) => (OLD, '-', line),
                Line::Insert(line) => (NEW, '+', line),
            };
            // A string takes everything.
            let _ = writeln!(text, "{style}{mark} {}{style:#}", line.trim_end_matches(['\r', '\n']));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_shown_with_a_little_around_it() {
        let plain = |before, after| anstream::adapter::strip_str(&of(before, after)).to_string();
        let (before, after) = ("1\n2\n3\n4\n5\n6\n7\n8\n9\n", "0\n1\n2\n3\nx\n4b\n5\n6\n7\n8\n9\n");
        let expected = "+ 0\n  1\n  2\n  3\n- 4\n+ x\n+ 4b\n  5\n  6\n";
        assert_eq!(plain(before, after), expected);
        assert_eq!(plain("", "a\n"), "+ a\n");
        assert_eq!(
            plain("1\n2\n3\n4\n5\n6\n7\n", "0\n1\n2\n3\n4\n5\n6\n7\n8\n"),
            "+ 0\n  1\n  2\n  …\n  6\n  7\n+ 8\n"
        );
    }
}
