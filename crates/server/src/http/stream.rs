//! One stream of server-sent events: its stored events and its reader.
//!
//! One buffer holds both the events that a slow reader has not taken yet and the events that a returning reader may
//! request again. A numbered stream (handshake era) keeps events that were taken, up to a limit. Any other stream drops
//! them. If a reader falls behind the limit, it has lost events, and its stream ends.

use std::collections::VecDeque;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Waker;
use std::time::{Duration, Instant};

use bytes::Bytes;
use gladhand_dialects::Lane;
use gladhand_hub::Portion;

/// The approximate cost of an event beyond its line.
const OVERHEAD: usize = 64;

/// How many bytes of notifications are kept while the main stream has no reader.
const UNATTENDED: usize = 16 * 1024;

/// Streams that hold at most this many bytes do not count towards the global limit.
const UNCOUNTED: usize = 16 * 1024;

/// The step in which stream bytes are counted, so that few events touch state shared between sessions.
const STEP: usize = 4 * 1024;

/// How much of the global limit streams with this many bytes occupy.
pub(super) fn counted(bytes: usize) -> usize {
    if bytes <= UNCOUNTED { 0 } else { bytes.next_multiple_of(STEP) }
}

/// Whether events have numbers, so that a reader can resume after the last one it saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Numbering {
    /// Events are numbered and kept.
    Numbered,
    /// Events have no numbers and are dropped once taken.
    Plain,
}

/// One stream.
#[derive(Debug)]
pub(super) struct Stream {
    lane: Lane,
    numbering: Numbering,
    /// The maximum number of bytes kept.
    most: usize,
    events: VecDeque<Event>,
    /// The number of the first stored event. The first event of a stream has number 1.
    first: u64,
    /// The number of the first event that no reader has taken.
    fresh: u64,
    bytes: usize,
    /// The bytes of all streams of the session.
    all_bytes: Tally,
    /// The share of the limit on unwritten responses that the bytes occupy, if they count there.
    unwritten: Option<Portion>,
    /// When the stream ended.
    ended: Option<Instant>,
    /// The next reader ends before this event: the stream was released before it had a reader.
    let_go: Option<u64>,
    reader: Option<Reader>,
    readers: u64,
}

#[derive(Debug)]
enum Event {
    Line(Bytes),
    /// An event with only a number, which a client can resume from.
    Prime(Duration),
}

#[derive(Debug)]
struct Reader {
    token: ReaderToken,
    next: u64,
    /// The reader ends before this event.
    until: Option<u64>,
    waker: Option<Waker>,
}

/// Identifies one reader of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReaderToken(u64);

/// The result of a read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// Events in wire format.
    Events(Bytes),
    /// One large message, which the reader puts into an event. Only an agent's outlet hands it out, without a copy.
    Message(Bytes),
    /// No event is ready.
    Nothing,
    /// The reader is finished: the stream has ended, was released, or has another reader.
    End,
}

impl Stream {
    /// A stream that keeps at most this many bytes plus one line. Its bytes are added to those of the session.
    pub(super) fn new(lane: Lane, numbering: Numbering, most: usize, all_bytes: Tally) -> Self {
        Self {
            lane,
            numbering,
            most,
            events: VecDeque::new(),
            first: 1,
            fresh: 1,
            bytes: 0,
            all_bytes,
            unwritten: None,
            ended: None,
            let_go: None,
            reader: None,
            readers: 0,
        }
    }

    /// Appends a line.
    pub(super) fn push(&mut self, line: Bytes) {
        self.append(Event::Line(line));
    }

    /// Appends an empty event from which the client can resume.
    pub(super) fn prime(&mut self, pause: Duration) {
        if self.numbering == Numbering::Numbered {
            self.append(Event::Prime(pause));
        }
    }

    /// Ends the stream.
    pub(super) fn end(&mut self) {
        self.ended.get_or_insert_with(Instant::now);
        self.wake();
    }

    /// Ends the current reader, which resumes after a pause.
    pub(super) fn let_go(&mut self, pause: Duration) {
        self.prime(pause);
        let end = self.end_number();
        match &mut self.reader {
            Some(reader) => reader.until = Some(end),
            None => self.let_go = Some(end),
        }
        self.wake();
    }

    /// Counts the events that the reader has not taken as unwritten responses.
    pub(super) fn count_as(&mut self, unwritten: Portion) {
        self.unwritten = Some(unwritten);
        self.count();
    }

    /// Attaches a reader for the events that were not taken yet. It replaces the current reader.
    pub(super) fn attach(&mut self) -> ReaderToken {
        let until = self.let_go.take();
        self.attach_at(self.fresh.max(self.first), until)
    }

    /// Attaches a reader after the last event it saw, if all later events are still stored.
    pub(super) fn resume(&mut self, last_seen: u64) -> Option<ReaderToken> {
        let next = last_seen.checked_add(1)?;
        if next < self.first || next > self.end_number() {
            return None;
        }
        self.let_go = None;
        Some(self.attach_at(next, None))
    }

    /// Detaches a reader.
    pub(super) fn detach(&mut self, token: ReaderToken) {
        self.reader.take_if(|reader| reader.token == token);
    }

    /// Hands the ready events to a reader.
    pub(super) fn take(&mut self, token: ReaderToken, waker: &Waker) -> Taken {
        let end = self.end_number();
        let Some(reader) = self.reader.as_mut().filter(|reader| reader.token == token) else { return Taken::End };
        if reader.next < self.first {
            return Taken::End;
        }
        let until = reader.until.unwrap_or(end).min(end);
        if reader.next >= until {
            if self.ended.is_some() || reader.until.is_some() {
                return Taken::End;
            }
            match &mut reader.waker {
                Some(known) => known.clone_from(waker),
                none => *none = Some(waker.clone()),
            }
            return Taken::Nothing;
        }
        let next = std::mem::replace(&mut reader.next, until);
        let mut wire = Vec::with_capacity(self.bytes);
        for number in next..until {
            let index = usize::try_from(number - self.first).expect("the index is within the stored events");
            self.frame(number, &self.events[index], &mut wire);
        }
        self.fresh = self.fresh.max(until);
        if self.numbering == Numbering::Plain {
            while self.first < until {
                self.forget_first();
            }
            self.count();
        }
        Taken::Events(wire.into())
    }

    /// Drops the events that the reader has taken, or all events if there is no reader.
    pub(super) fn forget(&mut self) {
        let until = self.reader.as_ref().map_or_else(|| self.end_number(), |reader| reader.next);
        while self.first < until {
            self.forget_first();
        }
    }

    /// Whether the reader is further behind than one that keeps up.
    pub(super) fn is_behind(&self) -> bool {
        self.unread() > self.most / 2
    }

    /// Whether a reader was attached and has disconnected.
    pub(super) fn was_read(&self) -> bool {
        self.readers > 0 && self.reader.is_none()
    }

    /// Whether a reader is attached.
    pub(super) fn is_read(&self) -> bool {
        self.reader.is_some()
    }

    /// When the stream ended.
    pub(super) fn ended(&self) -> Option<Instant> {
        self.ended
    }

    /// How many bytes it keeps.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    fn attach_at(&mut self, next: u64, until: Option<u64>) -> ReaderToken {
        // Wake the current reader, so that it notices the replacement.
        self.wake();
        self.readers += 1;
        let token = ReaderToken(self.readers);
        self.reader = Some(Reader { token, next, until, waker: None });
        token
    }

    /// Appends an event. Above the limit, events that were taken are dropped first. Events that were not taken are
    /// dropped only if they exceed the limit even without the new event.
    fn append(&mut self, event: Event) {
        // Notifications without a reader may never be read, so they get less space than responses.
        let is_unattended = self.lane == Lane::MAIN && self.reader.is_none();
        let most = if is_unattended { self.most.min(UNATTENDED) } else { self.most };
        let behind = self.unread();
        self.bytes += event.cost();
        self.all_bytes.add(event.cost());
        self.events.push_back(event);
        while self.bytes > most && (self.first < self.fresh || behind > most) && self.events.len() > 1 {
            self.forget_first();
        }
        self.count();
        self.wake();
    }

    fn count(&mut self) {
        let counted = counted(self.bytes);
        if let Some(portion) = self.unwritten.as_mut().filter(|portion| portion.amount() != counted) {
            // A connected reader gets its events. Without room, requests are refused, and large results become failures.
            portion.resize(counted);
        }
    }

    /// How many bytes no reader has taken yet.
    fn unread(&self) -> usize {
        let taken = usize::try_from(self.fresh.saturating_sub(self.first)).unwrap_or(usize::MAX);
        self.events.iter().skip(taken).map(Event::cost).sum()
    }

    fn forget_first(&mut self) {
        if let Some(event) = self.events.pop_front() {
            self.bytes -= event.cost();
            self.all_bytes.subtract(event.cost());
            self.first += 1;
        }
    }

    fn wake(&mut self) {
        if let Some(waker) = self.reader.as_mut().and_then(|reader| reader.waker.take()) {
            waker.wake();
        }
    }

    /// The number that the next event gets.
    fn end_number(&self) -> u64 {
        self.first + self.events.len() as u64
    }

    fn frame(&self, number: u64, event: &Event, wire: &mut Vec<u8>) {
        if self.numbering == Numbering::Numbered {
            writeln!(wire, "id: {}-{number}", self.lane.0).expect("writing to a buffer cannot fail");
        }
        match event {
            Event::Line(line) => {
                wire.extend_from_slice(b"event: message\ndata: ");
                wire.extend_from_slice(line);
            }
            Event::Prime(pause) => {
                write!(wire, "retry: {}\ndata:", pause.as_millis()).expect("writing to a buffer cannot fail");
            }
        }
        wire.extend_from_slice(b"\n\n");
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.all_bytes.subtract(self.bytes);
    }
}

/// How many bytes the streams of one session keep together.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally(Arc<AtomicUsize>);

impl Tally {
    pub(super) fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    fn add(&self, bytes: usize) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }

    fn subtract(&self, bytes: usize) {
        self.0.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Event {
    fn cost(&self) -> usize {
        OVERHEAD
            + match self {
                Self::Line(line) => line.len(),
                Self::Prime(_) => 0,
            }
    }
}

/// The stream and the event that a `Last-Event-ID` names.
pub(super) fn event_id(text: &str) -> Option<(Lane, u64)> {
    let (lane, number) = text.split_once('-')?;
    Some((Lane(lane.parse().ok()?), number.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLENTY: usize = 1 << 20;

    fn line(text: &'static str) -> Bytes {
        Bytes::from_static(text.as_bytes())
    }

    fn taken(stream: &mut Stream, token: ReaderToken) -> String {
        match stream.take(token, Waker::noop()) {
            Taken::Events(wire) => String::from_utf8(wire.to_vec()).unwrap(),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn a_resumed_reader_gets_only_the_missed_events() {
        let mut stream = Stream::new(Lane(3), Numbering::Numbered, PLENTY, Tally::default());
        let reader = stream.attach();
        stream.push(line("a"));
        stream.push(line("b"));
        assert_eq!(
            taken(&mut stream, reader),
            "id: 3-1\nevent: message\ndata: a\n\nid: 3-2\nevent: message\ndata: b\n\n"
        );
        assert_eq!(taken(&mut stream, reader), "Nothing");
        stream.detach(reader);
        stream.push(line("c"));
        stream.end();
        let again = stream.resume(1).unwrap();
        assert_eq!(
            taken(&mut stream, again),
            "id: 3-2\nevent: message\ndata: b\n\nid: 3-3\nevent: message\ndata: c\n\n"
        );
        assert_eq!(taken(&mut stream, again), "End");
        assert_eq!(taken(&mut stream, reader), "End", "the reader was replaced");
        assert!(stream.resume(4).is_none() && stream.resume(u64::MAX).is_none());
    }

    #[test]
    fn a_stream_released_before_it_is_read_ends_only_the_first_reader() {
        let mut stream = Stream::new(Lane(1), Numbering::Numbered, PLENTY, Tally::default());
        stream.prime(Duration::from_secs(1));
        stream.let_go(Duration::from_millis(50));
        stream.push(line("a"));
        let first = stream.attach();
        assert_eq!(taken(&mut stream, first), "id: 1-1\nretry: 1000\ndata:\n\nid: 1-2\nretry: 50\ndata:\n\n");
        assert_eq!(taken(&mut stream, first), "End");
        let second = stream.resume(2).unwrap();
        assert_eq!(taken(&mut stream, second), "id: 1-3\nevent: message\ndata: a\n\n");
        assert_eq!(taken(&mut stream, second), "Nothing");
    }

    #[test]
    fn a_reader_that_falls_behind_the_bound_is_ended() {
        let mut stream = Stream::new(Lane::MAIN, Numbering::Numbered, 1000, Tally::default());
        let reader = stream.attach();
        for _ in 0..100 {
            stream.push(line("0123456789"));
        }
        assert!(stream.bytes() <= 1200, "{}", stream.bytes());
        assert_eq!(taken(&mut stream, reader), "End");
        assert!(stream.resume(5).is_none());
        assert!(stream.resume(99).is_some());
    }

    #[test]
    fn a_huge_line_does_not_evict_unread_lines_before_it() {
        let mut stream = Stream::new(Lane(1), Numbering::Numbered, 100, Tally::default());
        let reader = stream.attach();
        stream.push(line("a"));
        stream.push(line("0123456789".repeat(100).leak()));
        assert!(taken(&mut stream, reader).contains("data: a\n"));
        stream.push(line("b"));
        assert!(stream.bytes() <= 100, "what was taken is forgotten: {}", stream.bytes());
    }

    #[test]
    fn a_plain_stream_keeps_nothing_that_was_taken() {
        let mut stream = Stream::new(Lane(9), Numbering::Plain, PLENTY, Tally::default());
        let reader = stream.attach();
        stream.prime(Duration::from_secs(1));
        stream.push(line("a"));
        assert_eq!(taken(&mut stream, reader), "event: message\ndata: a\n\n");
        assert_eq!(stream.bytes(), 0);
    }

    #[test]
    fn event_ids_are_read_strictly() {
        assert_eq!(event_id("3-17"), Some((Lane(3), 17)));
        for wrong in ["", "3", "3-", "-1", "a-1", "1-1-1", "99999999999999999999-1"] {
            assert_eq!(event_id(wrong), None, "{wrong}");
        }
    }
}
