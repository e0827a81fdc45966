//! The difference between two texts, as a person sees it.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};

const OLD: Style = AnsiColor::Red.on_default();
const NEW: Style = AnsiColor::Green.on_default();

/// How many lines are shown around the difference.
const AROUND: usize = 2;

/// The lines between the first and the last difference of two texts, with some lines around them.
pub(super) fn of(before: &str, after: &str) -> String {
    let (old, new): (Vec<_>, Vec<_>) = (before.lines().collect(), after.lines().collect());
    let same = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let rest = old.len().min(new.len()) - same;
    let tail = old.iter().rev().zip(new.iter().rev()).take(rest).take_while(|(old, new)| old == new).count();
    let mut text = String::new();
    let mut show = |style: Style, mark: char, lines: &[&str]| {
        for line in lines {
            // A string takes everything.
            let _ = writeln!(text, "{style}{mark} {line}{style:#}");
        }
    };
    show(Style::new(), ' ', &new[same.saturating_sub(AROUND)..same]);
    show(OLD, '-', &old[same..old.len() - tail]);
    show(NEW, '+', &new[same..new.len() - tail]);
    show(Style::new(), ' ', &new[new.len() - tail..new.len().min(new.len() - tail + AROUND)]);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    #[test]
    fn a_diff_shows_what_is_different_and_a_little_around_it() {
        let (before, after) = ("1\n2\n3\n4\n5\n6\n", "1\n2\n3\nx\n4b\n5\n6\n");
        assert_eq!(plain(&of(before, after)), "  2\n  3\n- 4\n+ x\n+ 4b\n  5\n  6\n");
        assert_eq!(plain(&of("", "a\n")), "+ a\n");
        assert_eq!(plain(&of("a\na\n", "a\na\na\n")), "  a\n  a\n+ a\n");
    }
}
