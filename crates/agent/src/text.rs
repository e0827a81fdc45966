//! Text functions as clients of the agent use them: lengths in UTF-16 units, white space as in JavaScript.

use std::cmp::Ordering;

pub(crate) use gladhand_core::javascript::{length, prefix, trim};

use gladhand_core::javascript::is_white_space;

/// Replaces each run of white space by one blank, and removes it at both ends.
pub(crate) fn collapse(text: &str) -> String {
    let words: Vec<&str> = text.split(is_white_space).filter(|word| !word.is_empty()).collect();
    words.join(" ")
}

/// A number with commas between the thousands.
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A file size for display: `70.0 b`, `1.50 kb`, `12.3 mb`.
pub(crate) fn size(bytes: u64) -> String {
    let (mut value, mut unit) = (bytes as f64, "b");
    for larger in ["kb", "mb"] {
        if value < 1024.0 {
            break;
        }
        (value, unit) = (value / 1024.0, larger);
    }
    let decimals = match value {
        _ if unit == "b" => 0,
        value if value < 10.0 => 2,
        value if value < 100.0 => 1,
        _ => 0,
    };
    format!("{value:.decimals$} {unit}")
}

/// The title of a thought: its bold beginning, otherwise its first line.
pub(crate) fn thought_title(thought: &str) -> String {
    let thought = trim(thought);
    let bold = thought.strip_prefix("**").and_then(|rest| rest.split_once("**")).map(|(title, _)| trim(title));
    let line = || thought.lines().next().map(trim);
    let title = bold.filter(|title| !title.is_empty()).or_else(line).filter(|title| !title.is_empty());
    title.unwrap_or("reasoning").to_lowercase()
}

/// A title for a chat: one line of at most 80 units; `None` if the text is blank.
pub(crate) fn title(text: &str) -> Option<String> {
    let line = collapse(text);
    if line.is_empty() {
        return None;
    }
    Some(if length(&line) <= 80 { line } else { format!("{}...", prefix(&line, 77)) })
}

/// The display order of names: case only matters between names that are otherwise equal.
pub(crate) fn collate(one: &str, other: &str) -> Ordering {
    fn rank(character: char) -> (u8, char) {
        let lower = character.to_lowercase().next().unwrap_or(character);
        match lower {
            // The common marks in names have this order, not that of their codes.
            '_' => (0, '\0'),
            '-' => (0, '\u{1}'),
            _ if lower.is_numeric() => (2, lower),
            _ if lower.is_alphabetic() => (3, lower),
            _ => (1, lower),
        }
    }
    let by_letters = one.chars().map(rank).cmp(other.chars().map(rank));
    // Lower case before upper case.
    by_letters.then_with(|| other.cmp(one))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_white_space_become_one_blank() {
        assert_eq!(collapse("  first   question\nwith  spaces "), "first question with spaces");
    }

    #[test]
    fn numbers_and_sizes_are_formatted_for_display() {
        assert_eq!([0, 999, 1605, 1_234_567].map(thousands), ["0", "999", "1,605", "1,234,567"]);
        let sizes = [70, 1536, 8 * 1024 * 1024 + 4, 20 * 1024 * 1024, 300 * 1024].map(size);
        assert_eq!(sizes, ["70 b", "1.50 kb", "8.00 mb", "20.0 mb", "300 kb"]);
    }

    #[test]
    fn a_thought_is_titled_by_its_bold_beginning_or_its_first_line() {
        assert_eq!(thought_title("**Adding Numbers**\n\nTwo plus two."), "adding numbers");
        assert_eq!(thought_title("plain first line\nsecond"), "plain first line");
        assert_eq!(thought_title("**open"), "**open");
        assert_eq!(thought_title(" \n"), "reasoning");
    }

    #[test]
    fn long_titles_are_cut() {
        let long = title(&format!("first   question {}", "x".repeat(90))).unwrap();
        assert_eq!((length(&long), long.ends_with("xxx...")), (80, true));
        assert_eq!(title(" \n "), None);
    }

    #[test]
    fn names_are_sorted_without_regard_to_case() {
        let mut names = ["headings", "Deep", "alpha", "a_b", "ab", "Alpha", "a-b"];
        names.sort_by(|one, other| collate(one, other));
        assert_eq!(names, ["a_b", "a-b", "ab", "alpha", "Alpha", "Deep", "headings"]);
    }
}
