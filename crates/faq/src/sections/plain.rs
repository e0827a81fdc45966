//! Plain text: a heading is an underlined line, or a line between blank lines that is in capitals or begins with a number.

use super::{Cutter, LineKind};

/// Longer lines are sentences.
const LONGEST: usize = 70;

pub(super) fn read(text: &str, cutter: &mut Cutter) {
    let lines: Vec<&str> = text.lines().collect();
    let blank = |at: Option<usize>| at.and_then(|at| lines.get(at)).is_none_or(|line| line.trim().is_empty());
    let mut at = 0;
    while let Some(line) = lines.get(at) {
        let alone = blank(at.checked_sub(1)) && blank(at.checked_add(1));
        if !line.trim().is_empty() && lines.get(at + 1).is_some_and(|next| is_underline(next)) && !is_underline(line) {
            let level = if lines[at + 1].trim_start().starts_with('=') { 1 } else { 2 };
            cutter.heading(level, line, at + 1);
            at += 2;
            continue;
        }
        match (alone, level(line)) {
            (true, Some(level)) => cutter.heading(level, line, at + 1),
            _ => cutter.text(line, at + 1, LineKind::Text),
        }
        at += 1;
    }
}

fn is_underline(line: &str) -> bool {
    let line = line.trim();
    line.len() >= 3 && ["=", "-", "~", "*"].iter().any(|mark| line.trim_start_matches(mark).is_empty())
}

/// The level of a line between blank lines, if it looks like a heading: `INSTALLING`, `2.1 Flags`, `Chapter 3: Use`.
fn level(line: &str) -> Option<usize> {
    let text = line.trim();
    if line.starts_with([' ', '\t']) || text.chars().count() > LONGEST || text.ends_with(['.', ',', ';', '!']) {
        return None;
    }
    let letters = || text.chars().filter(|c| c.is_alphabetic());
    let shouts = letters().count() > 2 && letters().all(|c| !c.is_lowercase());
    let number = text.split_whitespace().next().unwrap_or_default().trim_end_matches(['.', ')']);
    let numbered = number.starts_with(|c: char| c.is_ascii_digit())
        && number.chars().all(|c| c.is_ascii_digit() || c == '.')
        && letters().next().is_some_and(char::is_uppercase);
    if numbered { Some(number.split('.').count()) } else { (shouts || text.starts_with("Chapter ")).then_some(1) }
}

#[cfg(test)]
mod tests {
    use super::super::tests::outline;
    use crate::sections::Format;

    #[test]
    fn lines_that_look_like_headings_are_headings() {
        let text = "intro text\n\nINSTALLING\n\nRun it.\n\n2.1 Flags\n\nThere are two.\n\nNotes\n=====\nDone, and\nOK\nso on\n";
        assert_eq!(
            outline(Format::Plain, text),
            [
                "1  > name: intro text",
                "3  > INSTALLING: Run it.",
                "7 INSTALLING > 2.1 Flags: There are two.",
                "11  > Notes: Done, and OK so"
            ]
        );
    }
}
