//! Text of a peer, made harmless for a terminal.

/// The text without what would move the cursor, change colours or turn the reading direction.
pub(super) fn plain(text: &str) -> String {
    text.chars().map(harmless).collect()
}

/// The same for text of several lines: line breaks and tabs stay.
pub(super) fn plain_lines(text: &str) -> String {
    text.chars().map(|c| if matches!(c, '\n' | '\t') { c } else { harmless(c) }).collect()
}

fn harmless(c: char) -> char {
    match c {
        c if c.is_control() => '\u{fffd}',
        '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
        c => c,
    }
}
