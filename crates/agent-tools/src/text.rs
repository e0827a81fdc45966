//! Counts and trims text as JavaScript does, because limits and lengths on the wire are in UTF-16 units.

/// The length of a text in UTF-16 code units.
pub(crate) fn units(text: &str) -> usize {
    text.chars().map(char::len_utf16).sum()
}

/// The longest prefix of a text with at most `limit` UTF-16 code units.
pub(crate) fn cut(text: &str, limit: usize) -> &str {
    // A UTF-16 unit takes at least one byte of UTF-8.
    if text.len() <= limit { text } else { &text[..offset(text, limit)] }
}

/// The byte offset of the code unit number `units`. A unit inside a character counts as before it.
pub(crate) fn offset(text: &str, units: usize) -> usize {
    let mut left = units;
    for (at, character) in text.char_indices() {
        match left.checked_sub(character.len_utf16()) {
            Some(rest) if left > 0 => left = rest,
            _ => return at,
        }
    }
    text.len()
}

/// Removes whitespace at both ends, by the rules of JavaScript.
pub(crate) fn trim(text: &str) -> &str {
    text.trim_matches(|c: char| (c.is_whitespace() && c != '\u{85}') || c == '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_and_cuts_are_in_utf16_units() {
        assert_eq!(units("aé😀"), 4);
        assert_eq!(cut("a😀b", 3), "a😀");
        assert_eq!(cut("a😀b", 2), "a", "half a pair is left out");
        assert_eq!(cut("a😀b", 9), "a😀b");
        assert_eq!(cut("abc", 0), "");
    }

    #[test]
    fn whitespace_is_that_of_javascript() {
        assert_eq!(trim("\u{feff}\u{2028} a b \u{a0}\n"), "a b");
        assert_eq!(trim("\u{85}a"), "\u{85}a");
    }
}
