//! Splits output into lines, and very long lines into pieces.

/// Minimum length of a piece, so that each holds a whole character.
const MIN_PIECE_BYTES: usize = 8;

/// Splits a stream of bytes into lines with their line ends, or pieces of lines. The chunking of the input makes no
/// difference.
#[derive(Debug)]
pub(super) struct LineSplitter {
    held: Vec<u8>,
    max_bytes: usize,
}

impl LineSplitter {
    /// Creates a splitter whose pieces have at most `max_bytes` bytes.
    pub(super) fn with_limit(max_bytes: usize) -> Self {
        Self { held: Vec::new(), max_bytes: max_bytes.max(MIN_PIECE_BYTES) }
    }

    /// Consumes bytes until a piece is complete. Returns `None` when all bytes are consumed.
    pub(super) fn next(&mut self, bytes: &mut &[u8]) -> Option<String> {
        let room = self.max_bytes - self.held.len();
        let near = &bytes[..bytes.len().min(room)];
        let end = near.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
        let (taken, rest) = bytes.split_at(end.unwrap_or(near.len()));
        self.held.extend_from_slice(taken);
        *bytes = rest;
        if end.is_some() {
            return self.last();
        }
        if self.held.len() < self.max_bytes {
            return None;
        }
        let tail = self.held.split_off(self.held.len() - unfinished(&self.held));
        let piece = self.last();
        self.held = tail;
        piece
    }

    /// Returns the rest, at the end of the stream.
    pub(super) fn last(&mut self) -> Option<String> {
        let piece = String::from_utf8_lossy(&self.held).into_owned();
        self.held.clear();
        Some(piece).filter(|piece| !piece.is_empty())
    }
}

/// How many bytes at the end are the beginning of an incomplete character.
fn unfinished(bytes: &[u8]) -> usize {
    let is_start = |byte: u8| byte & 0b1100_0000 != 0b1000_0000;
    let Some(back) = bytes.iter().rev().take(3).position(|byte| is_start(*byte)) else { return 0 };
    let length = match bytes[bytes.len() - 1 - back] {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => 1,
    };
    if back + 1 < length { back + 1 } else { 0 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cut<'a>(chunks: impl Iterator<Item = &'a [u8]>, max_bytes: usize) -> Vec<String> {
        let mut splitter = LineSplitter::with_limit(max_bytes);
        let mut all = Vec::new();
        for mut chunk in chunks {
            while let Some(piece) = splitter.next(&mut chunk) {
                all.push(piece);
            }
            assert!(chunk.is_empty());
        }
        all.extend(splitter.last());
        all
    }

    #[test]
    fn lines_keep_their_line_ends_and_the_last_line_may_have_none() {
        assert_eq!(cut([&b"one\n\ntw"[..], b"o\nthree"].into_iter(), 100), ["one\n", "\n", "two\n", "three"]);
    }

    #[test]
    fn a_long_line_is_cut_between_characters() {
        assert_eq!(cut([&b"0123456\xc3\xa4bc\n"[..]].into_iter(), 8), ["0123456", "\u{e4}bc\n"]);
    }

    #[test]
    fn invalid_utf8_is_replaced() {
        assert_eq!(cut([&b"a\xffb\n\x80\x80\x80\x80\x80\x80\x80\x80\x80"[..]].into_iter(), 8)[0], "a\u{fffd}b\n");
    }

    proptest! {
        #[test]
        fn any_chunking_gives_the_same_pieces(
            bytes in prop::collection::vec(prop_oneof![any::<u8>(), Just(b'\n'), Just(0xe2), Just(0x82)], 0..200),
            size in 1usize..20,
            max_bytes in 8usize..30,
        ) {
            let whole = cut([&bytes[..]].into_iter(), max_bytes);
            prop_assert_eq!(&cut(bytes.chunks(size), max_bytes), &whole);
            prop_assert_eq!(whole.concat().matches('\n').count(), bytes.iter().filter(|byte| **byte == b'\n').count());
            // An invalid byte becomes a replacement character of three bytes.
            prop_assert!(whole.iter().all(|piece| piece.len() <= 3 * max_bytes));
        }

        #[test]
        fn text_comes_through_unchanged(text in "(\\PC|\n){0,100}", max_bytes in 8usize..30) {
            let pieces = cut([text.as_bytes()].into_iter(), max_bytes);
            prop_assert!(pieces.iter().all(|piece| piece.len() <= max_bytes));
            prop_assert_eq!(pieces.concat(), text);
        }
    }
}
