//! Bytes of files as text, and lines in it.

use std::borrow::Cow;

/// The text of a file: UTF-8 with what is invalid replaced, or UTF-16 if it begins with its mark, which is
/// what a redirection in an older PowerShell makes of `pip freeze`.
pub(crate) fn decode(bytes: &[u8]) -> Cow<'_, str> {
    match bytes {
        [0xEF, 0xBB, 0xBF, rest @ ..] => String::from_utf8_lossy(rest),
        [0xFF, 0xFE, rest @ ..] => Cow::Owned(utf16(rest, u16::from_le_bytes)),
        [0xFE, 0xFF, rest @ ..] => Cow::Owned(utf16(rest, u16::from_be_bytes)),
        _ => String::from_utf8_lossy(bytes),
    }
}

fn utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> String {
    let units = bytes.chunks_exact(2).map(|pair| unit([pair[0], pair[1]]));
    char::decode_utf16(units).map(|read| read.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
}

/// Whether the bytes are no text at all.
pub(crate) fn is_binary(bytes: &[u8]) -> bool {
    let head = &bytes[..bytes.len().min(8192)];
    !head.starts_with(&[0xFF, 0xFE]) && !head.starts_with(&[0xFE, 0xFF]) && memchr::memchr(0, head).is_some()
}

/// How many lines there are: LF, CR and CRLF end one, and a last one without an end counts.
pub(crate) fn lines(bytes: &[u8]) -> usize {
    let ends = memchr::memchr2_iter(b'\n', b'\r', bytes)
        .filter(|&at| bytes[at] == b'\n' || bytes.get(at + 1) != Some(&b'\n'))
        .count();
    match bytes.last() {
        None | Some(b'\n' | b'\r') => ends,
        Some(_) => ends + 1,
    }
}

/// The number, from 1, of the line that a byte is in.
pub(crate) fn line_at(text: &str, at: usize) -> usize {
    1 + memchr::memchr_iter(b'\n', &text.as_bytes()[..at.min(text.len())]).count()
}

/// The line that a byte is in, trimmed, and cut if it is very long.
pub(crate) fn line_text(text: &str, at: usize) -> String {
    let at = at.min(text.len());
    let start = text[..at].rfind('\n').map_or(0, |end| end + 1);
    let end = text[at..].find('\n').map_or(text.len(), |length| at + length);
    shortened(text[start..end].trim(), 200)
}

/// At most so many characters.
pub(crate) fn shortened(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The position of a name as a whole word, at or after a position: `next` is not in `next-auth`, nor in `@types/next`.
pub(crate) fn whole_word(text: &str, name: &str, from: usize) -> Option<usize> {
    let belongs = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '/' | '@' | '.');
    let from = from.min(text.len());
    let mut hits = memchr::memmem::find_iter(&text.as_bytes()[from..], name).map(|at| from + at);
    hits.find(|&at| {
        !text[..at].chars().next_back().is_some_and(belongs)
            && !text[at + name.len()..].chars().next().is_some_and(belongs)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_line_end_counts_once() {
        assert_eq!(lines(b"a\rb\r\nc\nd"), 4);
        assert_eq!(lines(b""), 0);
        assert_eq!(lines(b"one\n"), 1);
        assert_eq!(lines(b"\n\n"), 2);
    }

    #[test]
    fn utf_16_is_read_by_its_mark() {
        let little: Vec<u8> =
            [0xFF, 0xFE].into_iter().chain("flask\r\n".encode_utf16().flat_map(u16::to_le_bytes)).collect();
        assert_eq!(decode(&little), "flask\r\n");
        assert!(!is_binary(&little));
        assert!(is_binary(b"\x7fELF\0"));
        assert_eq!(decode(b"\xEF\xBB\xBFa\xFF"), "a\u{FFFD}");
    }

    #[test]
    fn a_name_is_found_only_as_a_whole() {
        let text = "next-auth\n@types/next\n\"next\": 1";
        assert_eq!(whole_word(text, "next", 0), Some(23));
        assert_eq!(line_at(text, 23), 3);
        assert_eq!(line_text(text, 23), "\"next\": 1");
        assert_eq!(whole_word(text, "next", 25), None);
    }
}
