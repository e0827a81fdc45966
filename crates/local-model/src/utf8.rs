//! Decodes the bytes of tokens as UTF-8. A token can end in the middle of a character.

/// Holds back the bytes of an incomplete character.
#[derive(Debug, Default)]
pub(crate) struct Utf8 {
    rest: Vec<u8>,
}

impl Utf8 {
    /// Adds bytes, and returns all characters that are complete now.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> String {
        self.rest.extend_from_slice(bytes);
        let mut text = String::new();
        let mut whole = 0;
        for chunk in self.rest.utf8_chunks() {
            text.push_str(chunk.valid());
            whole += chunk.valid().len();
            let is_cut = whole + chunk.invalid().len() == self.rest.len() && may_go_on(chunk.invalid());
            if is_cut {
                break;
            }
            if !chunk.invalid().is_empty() {
                text.push(char::REPLACEMENT_CHARACTER);
                whole += chunk.invalid().len();
            }
        }
        self.rest.drain(..whole);
        text
    }
}

/// Whether these bytes can become a character when more bytes follow.
fn may_go_on(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|why| why.error_len().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_split_into_bytes_is_joined() {
        for text in ["naïve", "日本語", "👍🏽 ok"] {
            let mut utf8 = Utf8::default();
            let pieces: Vec<String> = text.bytes().map(|byte| utf8.push(&[byte])).collect();
            assert_eq!(pieces.concat(), text);
            assert!(!pieces.concat().contains(char::REPLACEMENT_CHARACTER));
        }
    }

    #[test]
    fn an_invalid_byte_sequence_becomes_one_replacement_character() {
        let mut utf8 = Utf8::default();
        assert_eq!(utf8.push(b"a\xff"), "a\u{fffd}");
        assert_eq!(utf8.push(b"\xe6\x97"), "");
        assert_eq!(utf8.push(b"b"), "\u{fffd}b");
    }
}
