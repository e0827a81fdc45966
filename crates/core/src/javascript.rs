//! Text as programs in JavaScript see it, because peers count and trim this way: lengths in UTF-16 units, and other
//! white space than Unicode's.

/// The length of a text in UTF-16 units.
pub fn length(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.chars().map(char::len_utf16).sum() }
}

/// The longest prefix of a text with at most this many UTF-16 units. Characters are not split.
pub fn prefix(text: &str, units: usize) -> &str {
    // A UTF-16 unit takes at least one byte of UTF-8.
    if text.len() <= units { text } else { &text[..offset(text, units)] }
}

/// The byte offset of the UTF-16 unit with this number, or the length of the text if it has fewer units. The offset of
/// the second unit of a character is the start of this character.
pub fn offset(text: &str, units: usize) -> usize {
    let mut left = units;
    for (at, character) in text.char_indices() {
        match left.checked_sub(character.len_utf16()) {
            Some(rest) if left > 0 => left = rest,
            _ => return at,
        }
    }
    text.len()
}

/// The text without the white space that `trim()` removes.
pub fn trim(text: &str) -> &str {
    text.trim_matches(is_white_space)
}

/// Whether `trim()` removes a character. U+0085 is white space only in Unicode, U+FEFF only in JavaScript.
pub fn is_white_space(character: char) -> bool {
    character == '\u{feff}' || (character.is_whitespace() && character != '\u{85}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_and_prefixes_are_in_utf16_units() {
        assert_eq!((length("aé😀"), length("abc"), length("")), (4, 3, 0));
        assert_eq!(prefix("a😀b", 3), "a😀");
        assert_eq!(prefix("a😀b", 2), "a", "half a pair is left out");
        assert_eq!(prefix("a😀b", 9), "a😀b");
        assert_eq!(prefix("abc", 0), "");
        assert_eq!([0, 1, 2, 3, 4, 9].map(|units| offset("a😀b", units)), [0, 1, 1, 5, 6, 6]);
    }

    #[test]
    fn white_space_is_that_of_javascript() {
        assert_eq!(trim("\u{feff}\u{2028} a b \u{a0}\n"), "a b");
        assert_eq!(trim("\u{85}a\u{85}\n"), "\u{85}a\u{85}");
    }
}
