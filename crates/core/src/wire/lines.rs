//! Splits bytes into lines: a push parser whose result does not depend on how the bytes are chunked.
//!
//! It splits at terminators, limits the length of a line, and continues after a line that is too long. It does not look
//! inside a line: [`crate::wire::text`] handles carriage returns, byte-order marks and invalid UTF-8.

use std::ops::Range;

use memchr::{memchr, memchr2};

use crate::wire::skim::Skim;

/// Default maximum length of a line: 16 MiB.
pub const MAX_LINE: usize = 16 * 1024 * 1024;

/// The buffer shrinks to this capacity after a long line, in bytes.
const SHRINK_CAPACITY: usize = 256 * 1024;

/// Which bytes end a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Terminator {
    /// Only LF. A CR before it belongs to the line.
    #[default]
    Lf,
    /// LF, CR and CRLF. The empty line between CR and LF is a blank line, which is never answered.
    LfOrCr,
}

/// One line without its terminator, or the report that a line was too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Line<'a> {
    /// The bytes between two terminators.
    Bytes(&'a [u8]),
    /// A line that exceeded the limit, reported once it has ended. Its bytes are discarded, except for those in
    /// [`Lines::skimmed`]. The next line is intact.
    TooLong {
        /// The limit that it exceeded.
        limit: usize,
    },
}

/// Collects bytes and returns lines.
///
/// Add bytes with [`Lines::spare`] or [`Lines::push`], then call [`Lines::next_line`] until it returns `None`.
#[derive(Debug)]
pub struct Lines {
    buffer: Vec<u8>,
    /// Start of the first unread line.
    start: usize,
    /// The bytes from `start` up to here contain no terminator.
    searched: usize,
    limit: usize,
    terminator: Terminator,
    /// Set while the current line exceeds the limit: bytes up to the next terminator are dropped after [`Skim`] has
    /// scanned them.
    overlong: Option<Skim>,
    /// The scan of the last line that was too long.
    skimmed: Skim,
}

impl Default for Lines {
    fn default() -> Self {
        Self::with_limit(MAX_LINE)
    }
}

impl Lines {
    /// A splitter that rejects lines of more than `limit` bytes.
    pub fn with_limit(limit: usize) -> Self {
        Self {
            buffer: Vec::new(),
            start: 0,
            searched: 0,
            limit,
            terminator: Terminator::Lf,
            overlong: None,
            skimmed: Skim::default(),
        }
    }

    /// Changes the terminator, starting with the next unread line.
    pub fn end_lines_at(&mut self, terminator: Terminator) {
        if self.terminator != terminator {
            self.terminator = terminator;
            self.searched = self.start;
        }
    }

    /// Adds bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.reclaim();
        self.buffer.extend_from_slice(bytes);
    }

    /// The buffer itself, for a transport that reads directly into its spare capacity.
    ///
    /// At least `capacity` bytes are free. Only append to it: the existing bytes are unread input.
    pub fn spare(&mut self, capacity: usize) -> &mut Vec<u8> {
        self.reclaim();
        self.buffer.reserve(capacity);
        &mut self.buffer
    }

    /// The next complete line, if there is one.
    pub fn next_line(&mut self) -> Option<Line<'_>> {
        let unread = &self.buffer[self.searched..];
        let found = match self.terminator {
            Terminator::Lf => memchr(b'\n', unread),
            Terminator::LfOrCr => memchr2(b'\n', b'\r', unread),
        };
        let Some(offset) = found else {
            self.searched = self.buffer.len();
            self.drop_overlong_start();
            return None;
        };
        let (from, to) = (self.start, self.searched + offset);
        self.start = to + 1;
        self.searched = self.start;
        if self.overlong.is_some() || to - from > self.limit {
            return Some(self.too_long(from..to));
        }
        Some(Line::Bytes(&self.buffer[from..to]))
    }

    /// The unread bytes up to the first LF, without consuming them. `None` if there is no LF yet.
    pub fn peek(&self) -> Option<&[u8]> {
        let unread = &self.buffer[self.start..];
        memchr(b'\n', unread).map(|end| &unread[..end])
    }

    /// The remaining input after the end of the stream: a last line without a terminator.
    pub fn last_line(&mut self) -> Option<Line<'_>> {
        let from = self.start;
        self.start = self.buffer.len();
        self.searched = self.start;
        if self.overlong.is_some() {
            return Some(self.too_long(from..self.start));
        }
        Some(Line::Bytes(&self.buffer[from..])).filter(|_| from < self.start)
    }

    /// The scan of the last line that was too long.
    pub fn skimmed(&self) -> &Skim {
        &self.skimmed
    }

    /// The number of unread bytes in the buffer.
    pub fn pending(&self) -> usize {
        self.buffer.len() - self.start
    }

    /// Drops the buffered part of a line that already exceeds the limit.
    fn drop_overlong_start(&mut self) {
        if self.overlong.is_some() || self.buffer.len() - self.start > self.limit {
            self.overlong.get_or_insert_default().feed(&self.buffer[self.start..]);
            self.clear();
        }
    }

    /// Reports a line that was too long. `rest` is its last part.
    fn too_long(&mut self, rest: Range<usize>) -> Line<'static> {
        self.skimmed = self.overlong.take().unwrap_or_default();
        self.skimmed.feed(&self.buffer[rest]);
        Line::TooLong { limit: self.limit }
    }

    fn clear(&mut self) {
        self.buffer.clear();
        self.buffer.shrink_to(SHRINK_CAPACITY);
        self.start = 0;
        self.searched = 0;
    }

    /// Frees space at the front of the buffer. This is cheap in the usual case, when everything was read.
    fn reclaim(&mut self) {
        if self.start == 0 {
            return;
        }
        if self.start == self.buffer.len() {
            self.clear();
        } else if self.start >= self.buffer.len() / 2 {
            self.buffer.drain(..self.start);
            self.searched -= self.start;
            self.start = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(lines: &mut Lines) -> Vec<Option<Vec<u8>>> {
        let mut found = Vec::new();
        while let Some(line) = lines.next_line() {
            found.push(match line {
                Line::Bytes(bytes) => Some(bytes.to_vec()),
                Line::TooLong { .. } => None,
            });
        }
        found
    }

    fn split(input: &[u8], cuts: &[usize], limit: usize, terminator: Terminator) -> Vec<Option<Vec<u8>>> {
        let mut lines = Lines::with_limit(limit);
        lines.end_lines_at(terminator);
        let mut found = Vec::new();
        let mut rest = input;
        for cut in cuts {
            let (head, tail) = rest.split_at((*cut).min(rest.len()));
            lines.push(head);
            found.extend(all(&mut lines));
            rest = tail;
        }
        lines.spare(rest.len()).extend_from_slice(rest);
        found.extend(all(&mut lines));
        found.extend(lines.last_line().map(|line| match line {
            Line::Bytes(bytes) => Some(bytes.to_vec()),
            Line::TooLong { .. } => None,
        }));
        found
    }

    #[test]
    fn a_line_over_the_limit_is_reported_once_and_the_next_is_intact() {
        let mut input = vec![b'x'; 50];
        input.extend_from_slice(b"\nok\n");
        for size in [1, 3, 7, 11, 60] {
            let cuts = vec![size; 60];
            assert_eq!(split(&input, &cuts, 10, Terminator::Lf), vec![None, Some(b"ok".to_vec())], "chunks of {size}");
        }
    }

    #[test]
    fn an_overlong_line_keeps_the_id_that_it_answers() {
        let input = format!("{{\"result\":\"{}\",\"id\":7}}\nok\n", "x".repeat(50));
        for size in [1, 3, 7, 11, 100] {
            let mut lines = Lines::with_limit(10);
            for piece in input.as_bytes().chunks(size) {
                lines.push(piece);
                while let Some(Line::TooLong { .. }) = lines.next_line() {
                    assert_eq!(lines.skimmed().answered(), Some("7"), "chunks of {size}");
                }
            }
            assert_eq!(lines.skimmed().answered(), Some("7"), "chunks of {size}");
        }
    }

    #[test]
    fn an_overlong_line_does_not_stay_in_memory() {
        let mut lines = Lines::with_limit(1000);
        for _ in 0..10_000 {
            lines.push(&[b'x'; 1000]);
            while lines.next_line().is_some() {}
        }
        assert_eq!(lines.pending(), 0);
        assert!(lines.buffer.capacity() <= SHRINK_CAPACITY);
    }

    #[test]
    fn a_lone_carriage_return_ends_a_line_only_with_the_terminator_lf_or_cr() {
        assert_eq!(split(b"a\rb\r\nc", &[], 10, Terminator::Lf), [Some(b"a\rb\r".to_vec()), Some(b"c".to_vec())]);
        assert_eq!(
            split(b"a\rb\r\nc", &[], 10, Terminator::LfOrCr),
            [Some(b"a".to_vec()), Some(b"b".to_vec()), Some(b"".to_vec()), Some(b"c".to_vec())]
        );
    }

    proptest! {
        #[test]
        fn any_chunking_gives_the_same_lines(
            input in proptest::collection::vec(prop_oneof![Just(b'\n'), Just(b'\r'), Just(b'a'), any::<u8>()], 0..200),
            cuts in proptest::collection::vec(0usize..20, 0..40),
            limit in 1usize..30,
            cr in any::<bool>(),
        ) {
            let terminator = if cr { Terminator::LfOrCr } else { Terminator::Lf };
            // A last line without terminator is only bounded by the next push, so add a terminator.
            let mut input = input;
            input.push(b'\n');
            prop_assert_eq!(split(&input, &[], limit, terminator), split(&input, &cuts, limit, terminator));
        }
    }
}
