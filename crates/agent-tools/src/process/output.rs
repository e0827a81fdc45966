//! Process output with limits: decodes bytes to text, and keeps only a part of it.

use gladhand_core::javascript;

/// How many UTF-16 units of a stream are kept.
pub(crate) const MAX_KEPT_UNITS: usize = 300_000;

/// How much a tail may grow beyond that before it is shortened.
const SLACK: usize = 65_536;

/// Decodes bytes that arrive in pieces. Invalid sequences become U+FFFD.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    /// The beginning of an incomplete character.
    held: Vec<u8>,
}

impl Decoder {
    /// Passes all complete text to `take`.
    pub(crate) fn decode(&mut self, bytes: &[u8], mut take: impl FnMut(&str)) {
        self.held.extend_from_slice(bytes);
        let mut rest = self.held.as_slice();
        while let Err(error) = std::str::from_utf8(rest) {
            let (valid, after) = rest.split_at(error.valid_up_to());
            take(std::str::from_utf8(valid).unwrap_or_default());
            rest = after;
            match error.error_len() {
                Some(bad) => {
                    take("\u{fffd}");
                    rest = &rest[bad..];
                }
                None => break,
            }
        }
        let complete = std::str::from_utf8(rest).unwrap_or_default();
        take(complete);
        let consumed = self.held.len() - rest.len() + complete.len();
        self.held.drain(..consumed);
    }
}

/// The beginning of a stream.
#[derive(Debug, Default)]
pub(crate) struct Head {
    text: String,
    units: usize,
    is_cut: bool,
}

impl Head {
    /// Appends a piece, as far as there is space.
    pub(crate) fn push(&mut self, piece: &str) {
        let taken = javascript::prefix(piece, MAX_KEPT_UNITS - self.units);
        self.text.push_str(taken);
        self.units += javascript::length(taken);
        self.is_cut |= taken.len() < piece.len();
    }

    /// The text, and whether it was cut.
    pub(crate) fn take(&mut self) -> (String, bool) {
        (std::mem::take(&mut self.text), self.is_cut)
    }
}

/// The end of a stream, which is read piece by piece.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    text: String,
    /// Positions in the whole stream: of the kept text, and of the next unread unit.
    start: usize,
    end: usize,
    cursor: usize,
}

/// The result of reading a [`Tail`].
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Reading {
    /// The text read.
    pub(crate) text: String,
    /// The position after it.
    pub(crate) cursor: usize,
    /// Whether there is more to read.
    pub(crate) has_more: bool,
    /// Whether unread text was dropped before it.
    pub(crate) dropped: bool,
}

impl Tail {
    /// Appends a piece, and drops the oldest text if necessary.
    pub(crate) fn push(&mut self, piece: &str) {
        self.text.push_str(piece);
        self.end += javascript::length(piece);
        if self.end - self.start > MAX_KEPT_UNITS + SLACK {
            self.shorten();
        }
    }

    /// How much was not read yet.
    pub(crate) fn unread(&self) -> usize {
        self.end - self.cursor.max(self.start).max(self.end.saturating_sub(MAX_KEPT_UNITS))
    }

    /// Reads up to `max_units` units from the cursor, and advances the cursor unless `is_peek`.
    pub(crate) fn read(&mut self, max_units: usize, is_peek: bool) -> Reading {
        self.shorten();
        let from = self.cursor.max(self.start);
        let dropped = self.cursor < self.start;
        let unread = &self.text[javascript::offset(&self.text, from - self.start)..];
        let text = javascript::prefix(unread, max_units).to_owned();
        let cursor = from + javascript::length(&text);
        if !is_peek {
            self.cursor = cursor;
        }
        Reading { text, cursor, has_more: cursor < self.end, dropped }
    }

    /// The read position, without reading.
    pub(crate) fn skip(&self) -> Reading {
        Reading { cursor: self.cursor, has_more: self.unread() > 0, ..Reading::default() }
    }

    fn shorten(&mut self) {
        let excess = (self.end - self.start).saturating_sub(MAX_KEPT_UNITS);
        if excess > 0 {
            let at = javascript::offset(&self.text, excess);
            self.start += javascript::length(&self.text[..at]);
            self.text.drain(..at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(pieces: &[&[u8]]) -> String {
        let (mut decoder, mut text) = (Decoder::default(), String::new());
        for piece in pieces {
            decoder.decode(piece, |part| text.push_str(part));
        }
        text
    }

    #[test]
    fn characters_may_be_split_and_bytes_may_be_bad() {
        let smile = "😀".as_bytes();
        assert_eq!(decoded(&[&smile[..1], &smile[1..3], &smile[3..], b"!"]), "😀!");
        assert_eq!(decoded(&[b"a\xffb", b"\xf0\x9f", b"c"]), "a\u{fffd}b\u{fffd}c");
    }

    #[test]
    fn a_head_keeps_the_beginning() {
        let mut head = Head::default();
        head.push(&"x".repeat(MAX_KEPT_UNITS - 1));
        head.push("😀");
        head.push("y");
        let (text, is_cut) = head.take();
        assert!(is_cut);
        assert!(text.ends_with("xy") && text.len() == MAX_KEPT_UNITS);
    }

    #[test]
    fn a_tail_is_read_piece_by_piece() {
        let mut tail = Tail::default();
        tail.push("got:hey\n");
        assert_eq!(tail.unread(), 8);
        assert_eq!(tail.read(3, true).text, "got");
        assert_eq!(tail.read(3, false), Reading { text: "got".into(), cursor: 3, has_more: true, dropped: false });
        assert_eq!(tail.read(99, false), Reading { text: ":hey\n".into(), cursor: 8, has_more: false, dropped: false });
        tail.push(&"z".repeat(MAX_KEPT_UNITS + 10));
        tail.push("!");
        let reading = tail.read(usize::MAX, false);
        assert_eq!((reading.text.len(), reading.cursor, reading.dropped), (MAX_KEPT_UNITS, MAX_KEPT_UNITS + 19, true));
        assert!(!tail.read(1, false).dropped, "dropped text is reported once");
    }
}
