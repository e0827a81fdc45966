//! Outgoing lines, and what each of them is.
//!
//! A dialect writes a line and states its kind. Code that sends or observes the line never has to parse it.

use std::borrow::Cow;
use std::ops::{Deref, DerefMut, Range};

use super::RawValue;
use crate::operations::Party;

/// One way back to the peer: the whole channel, or one exchange of a transport that has many (HTTP).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Lane(pub u64);

impl Lane {
    /// The channel itself: the only lane on stdio; on HTTP, everything that belongs to no exchange.
    pub const MAIN: Self = Self(0);
}

/// The kind of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameKind {
    /// The successful answer to a request.
    Result,
    /// The error that answers a request.
    Error {
        /// The code of the error. 0 in a dialect whose codes are not numbers.
        code: i32,
        /// Whether the line names the request that it answers. A line that could not be read has no known request.
        names_request: bool,
    },
    /// The answers to a batch of requests. A received line of this kind is any batch.
    Batch,
    /// A request to the peer, which the peer answers.
    Request,
    /// A message that gets no answer.
    Notice,
}

impl FrameKind {
    /// Whether the line answers a request, so that no other line of its exchange follows.
    pub fn is_answer(self) -> bool {
        matches!(self, Self::Result | Self::Error { .. } | Self::Batch)
    }
}

/// What a received line says about itself, for observers.
#[derive(Debug)]
pub struct FrameSummary<'a> {
    /// The kind of the line.
    pub kind: FrameKind,
    /// The method or the message type, as the dialect names it. `None` in a dialect whose responses have none.
    pub name: Option<Cow<'a, str>>,
    /// The id of the request that the line is or answers, as it was written.
    pub id: Option<&'a RawValue>,
}

/// One written line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Its bytes in the buffer, without the line break.
    pub span: Range<usize>,
    /// Where it goes.
    pub lane: Lane,
    /// Its kind.
    pub kind: FrameKind,
    /// The party to whose call it belongs, if the dialect said so.
    pub party: Option<Party>,
}

/// A buffer of outgoing lines, each ended by LF, with the kind and the lane of each line.
///
/// It dereferences to its bytes, so that a dialect can write a line piece by piece. [`Frames::begin`] comes before a line
/// and [`Frames::end`] after it.
#[derive(Debug, Default)]
pub struct Frames {
    bytes: Vec<u8>,
    frames: Vec<Frame>,
    lane: Lane,
    kind: Option<FrameKind>,
    party: Option<Party>,
    start: usize,
}

impl Frames {
    /// A buffer that continues unsent bytes. Their lines are not among the frames.
    pub fn onto(bytes: Vec<u8>) -> Self {
        Self { start: bytes.len(), bytes, ..Self::default() }
    }

    /// Sends the lines written from now on to this lane.
    pub fn go(&mut self, lane: Lane) {
        self.lane = lane;
    }

    /// Begins a line of this kind.
    pub fn begin(&mut self, kind: FrameKind) {
        debug_assert!(self.kind.is_none(), "the line before this one has no end");
        self.kind = Some(kind);
    }

    /// The line that was begun, or the next one, belongs to a call of this party.
    pub fn count_for(&mut self, party: Option<Party>) {
        self.party = party;
    }

    /// Ends the line.
    pub fn end(&mut self) {
        debug_assert!(self.kind.is_some(), "a line was written that does not say what it is");
        let end = self.bytes.len();
        self.bytes.push(b'\n');
        let kind = self.kind.take().unwrap_or(FrameKind::Notice);
        self.frames.push(Frame { span: self.start..end, lane: self.lane, kind, party: self.party.take() });
        self.start = end + 1;
    }

    /// Appends a whole line without its line break.
    pub fn line(&mut self, kind: FrameKind, line: &[u8]) {
        self.begin(kind);
        self.bytes.extend_from_slice(line);
        self.end();
    }

    /// Appends the lines of another buffer, to the lane of this one.
    pub fn append(&mut self, other: &Self) {
        for frame in &other.frames {
            self.count_for(frame.party);
            self.line(frame.kind, &other.bytes[frame.span.clone()]);
        }
    }

    /// The lines written since the buffer was created, in order.
    pub fn frames(&self) -> &[Frame] {
        &self.frames
    }

    /// The bytes and the lines.
    pub fn into_parts(self) -> (Vec<u8>, Vec<Frame>) {
        (self.bytes, self.frames)
    }

    /// The bytes.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Forgets the lines and keeps the bytes, for a buffer that is used again.
    pub fn forget_frames(&mut self) {
        self.frames.clear();
        self.lane = Lane::MAIN;
        self.start = self.bytes.len();
    }
}

impl Deref for Frames {
    type Target = Vec<u8>;

    fn deref(&self) -> &Vec<u8> {
        &self.bytes
    }
}

impl DerefMut for Frames {
    fn deref_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_has_its_kind_lane_and_place() {
        let mut frames = Frames::onto(b"unsent\n".to_vec());
        frames.begin(FrameKind::Result);
        frames.extend_from_slice(b"{}");
        frames.end();
        frames.go(Lane(7));
        frames.line(FrameKind::Notice, b"[]");
        let expected = [
            Frame { span: 7..9, lane: Lane::MAIN, kind: FrameKind::Result, party: None },
            Frame { span: 10..12, lane: Lane(7), kind: FrameKind::Notice, party: None },
        ];
        assert_eq!(frames.frames(), expected);
        assert_eq!(&frames[..], b"unsent\n{}\n[]\n");
        frames.forget_frames();
        frames.line(FrameKind::Request, b"1");
        let expected = Frame { span: 13..14, lane: Lane::MAIN, kind: FrameKind::Request, party: None };
        assert_eq!(frames.frames(), [expected]);
    }

    #[test]
    fn a_line_belongs_to_the_party_that_was_named_for_it() {
        let (mut frames, mut all) = (Frames::default(), Frames::default());
        frames.line(FrameKind::Notice, b"1");
        frames.begin(FrameKind::Request);
        frames.count_for(Some(Party(7)));
        frames.end();
        frames.line(FrameKind::Notice, b"3");
        let parties = |frames: &Frames| frames.frames().iter().map(|frame| frame.party).collect::<Vec<_>>();
        assert_eq!(parties(&frames), [None, Some(Party(7)), None]);
        all.line(FrameKind::Notice, b"0");
        all.append(&frames);
        assert_eq!(parties(&all), [None, None, Some(Party(7)), None]);
    }
}
