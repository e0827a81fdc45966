//! Lines on their way to a peer that may be slow to read them.

use std::ops::Range;

use super::Frames;

/// A buffer that grew for something large shrinks back to this once it is empty.
const COMFORTABLE: usize = 256 * 1024;

/// Written but not sent: state machines append at the end, the edge sends from the front.
#[derive(Debug, Default)]
pub struct Outbox {
    bytes: Frames,
    /// How much of the front has been sent and is only kept because moving the rest costs more.
    sent: usize,
}

impl Outbox {
    /// The bytes that are still to be sent.
    pub fn waiting(&self) -> &[u8] {
        &self.bytes[self.sent..]
    }

    /// Appends whole lines.
    pub fn append(&mut self, lines: &[u8]) {
        self.bytes.extend_from_slice(lines);
    }

    /// Removes waiting bytes. The range counts from the first waiting byte.
    pub fn remove(&mut self, waiting: Range<usize>) {
        self.bytes.drain(self.sent + waiting.start..self.sent + waiting.end);
        self.sent(0);
        // The rest may wait for long.
        self.bytes.shrink_to(COMFORTABLE);
    }

    /// Removes everything.
    pub fn clear(&mut self) {
        self.sent(self.waiting().len());
    }

    /// Hands the buffer to a step that appends to it; [`Outbox::put_back`] must follow.
    pub fn lend(&mut self) -> Frames {
        // The lines of earlier steps have been handled, and their bytes may have moved.
        self.bytes.forget_frames();
        std::mem::take(&mut self.bytes)
    }

    /// Takes the buffer back.
    pub fn put_back(&mut self, bytes: Frames) {
        debug_assert!(self.bytes.is_empty(), "something was written into a buffer that is lent out");
        self.bytes = bytes;
    }

    /// The first `length` bytes of what was waiting are sent.
    pub fn sent(&mut self, length: usize) {
        self.sent += length;
        if self.sent >= self.bytes.len() {
            self.bytes.clear();
            self.bytes.shrink_to(COMFORTABLE);
            self.sent = 0;
        } else if self.sent > self.bytes.len() / 2 {
            // Each byte is moved at most once for each time it was written.
            self.bytes.drain(..self.sent);
            self.sent = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outbox_that_is_sent_in_pieces_loses_no_byte() {
        let (mut outbox, mut out) = (Outbox::default(), Vec::new());
        for round in 0..100_u8 {
            let mut bytes = outbox.lend();
            bytes.extend([round; 7]);
            outbox.put_back(bytes);
            let piece = outbox.waiting()[..usize::from(round % 9).min(outbox.waiting().len())].to_vec();
            outbox.sent(piece.len());
            out.extend(piece);
        }
        out.extend_from_slice(outbox.waiting());
        assert_eq!(out, (0..100_u8).flat_map(|round| [round; 7]).collect::<Vec<_>>());
    }
    #[test]
    fn a_removed_line_leaves_the_others_whole() {
        let mut outbox = Outbox::default();
        outbox.append(b"one\ntwo\nthree\n");
        outbox.sent(2);
        outbox.remove(2..6);
        assert_eq!(outbox.waiting(), b"e\nthree\n");
        outbox.append(&vec![b'x'; 16 * COMFORTABLE]);
        outbox.remove(8..8 + 16 * COMFORTABLE);
        assert_eq!(outbox.waiting(), b"e\nthree\n");
        assert!(outbox.bytes.capacity() <= COMFORTABLE, "memory is returned");
        outbox.clear();
        assert!(outbox.waiting().is_empty());
    }
}
