//! The outgoing messages of one agent: a queue of unread messages, and the one event stream that reads them.
//!
//! No message is dropped. If a connection breaks or another stream replaces it, messages that may not have left it go
//! to the next stream. Delivering a message twice is better than losing it: the agent matches a response by its
//! request.
//!
//! A message counts until it has left its connection. The queue therefore exceeds the high-water mark by at most one
//! outcome, plus the responses to a few requests that stop a call.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

use bytes::Bytes;

use super::super::served::ConnectionState;
use super::super::stream::Taken;

/// Above this many unsent bytes, the session accepts no messages and writes no outcomes.
const HIGH_WATER: usize = 128 * 1024;

/// A message of this size is handed out without a copy, as an event of its own.
const LARGE: usize = 16 * 1024;

/// The approximate cost of a message beyond its text.
const OVERHEAD: usize = 64;

/// How many messages that stop a call are accepted above the high-water mark, until there is room again.
const MOST_STOPS: u32 = 64;

/// The outgoing messages of one agent.
#[derive(Debug, Default)]
pub(super) struct Outlet {
    unread: VecDeque<Bytes>,
    bytes: usize,
    reader: Option<Reader>,
    readers: u64,
    /// How many messages that stop a call were accepted since the queue was full.
    stops: u32,
    /// No further messages will be queued.
    has_ended: bool,
}

#[derive(Debug)]
struct Reader {
    token: u64,
    line: Arc<ConnectionState>,
    /// Messages handed to the connection that may not have left it. `flushes` is the connection's flush count at that
    /// time.
    handed: Vec<Bytes>,
    handed_bytes: usize,
    flushes: u64,
    /// Whether the reader has begun to pass on a large message, and has not passed on all of it.
    has_begun: bool,
    waker: Option<Waker>,
}

impl Reader {
    /// Whether everything that the reader received has left the connection.
    fn is_out(&self) -> bool {
        !self.has_begun && self.line.flushes() > self.flushes
    }

    /// Whether the unsent bytes reach the high-water mark, so that nothing more is written until they leave.
    fn has_much(&self) -> bool {
        self.handed_bytes >= HIGH_WATER
    }

    /// The number of bytes handed over that may not have left the connection.
    fn unsent(&self) -> usize {
        if self.is_out() { 0 } else { self.handed_bytes }
    }
}

impl Outlet {
    /// Appends a message.
    pub(super) fn push(&mut self, message: Bytes) {
        self.bytes += message.len() + OVERHEAD;
        self.unread.push_back(message);
        self.wake();
    }

    /// Ends the queue. The reader still receives the remaining messages.
    pub(super) fn end(&mut self) {
        self.has_ended = true;
        self.wake();
    }

    /// Attaches a reader on a connection. It replaces the current reader.
    pub(super) fn attach(&mut self, line: Arc<ConnectionState>) -> u64 {
        // Wake the current reader, so that it notices the replacement.
        self.wake();
        if let Some(reader) = self.reader.take() {
            self.take_back(reader);
        }
        self.readers += 1;
        let flushes = line.flushes();
        let (token, handed) = (self.readers, Vec::new());
        self.reader = Some(Reader { token, line, handed, handed_bytes: 0, flushes, has_begun: false, waker: None });
        token
    }

    /// Detaches a reader.
    pub(super) fn detach(&mut self, token: u64) {
        if let Some(reader) = self.reader.take_if(|reader| reader.token == token) {
            self.take_back(reader);
        }
    }

    /// Hands the waiting messages to a reader.
    pub(super) fn take(&mut self, token: u64, waker: &Waker) -> Taken {
        let Some(reader) = self.reader.as_mut().filter(|reader| reader.token == token) else { return Taken::End };
        if reader.is_out() {
            reader.handed.clear();
            reader.handed_bytes = 0;
        }
        if reader.line.has_ended() {
            // The peer has closed its sending side and is most likely gone. Messages sent now would be lost.
            return Taken::End;
        }
        if self.unread.is_empty() {
            if self.has_ended {
                return Taken::End;
            }
            match &mut reader.waker {
                Some(known) => known.clone_from(waker),
                none => *none = Some(waker.clone()),
            }
            if reader.has_much() {
                // Outcomes may wait until these messages leave, and the connection does not poll again by itself.
                reader.line.wake_when_flushed(waker);
            }
            return Taken::Nothing;
        }
        let small = self.unread.iter().take_while(|message| message.len() < LARGE).count();
        let next = self.unread.drain(..small.max(1));
        let mut events = Vec::new();
        for message in next {
            let cost = message.len() + OVERHEAD;
            self.bytes -= cost;
            reader.handed_bytes += cost;
            if small > 0 {
                events.extend_from_slice(b"data: ");
                events.extend_from_slice(&message);
                events.extend_from_slice(b"\n\n");
            }
            reader.handed.push(message);
        }
        self.unread.shrink_to(16);
        reader.flushes = reader.line.flushes();
        match reader.handed.last() {
            Some(message) if small == 0 => {
                let message = message.clone();
                reader.has_begun = true;
                Taken::Message(message)
            }
            _ => Taken::Events(events.into()),
        }
    }

    /// A reader has passed on all of a large message.
    pub(super) fn passed_on(&mut self, token: u64) {
        if let Some(reader) = self.reader.as_mut().filter(|reader| reader.token == token) {
            reader.has_begun = false;
            reader.flushes = reader.line.flushes();
        }
    }

    /// Whether the agent keeps up with reading its messages.
    pub(super) fn has_room(&self) -> bool {
        self.bytes + self.reader.as_ref().map_or(0, Reader::unsent) < HIGH_WATER
    }

    /// Whether the reader holds enough unsent bytes that outcomes may be waiting for them to leave.
    pub(super) fn has_handed_much(&self) -> bool {
        self.reader.as_ref().is_some_and(Reader::has_much)
    }

    /// Whether one more message that stops a call is accepted although the queue is full.
    pub(super) fn takes_stop(&mut self) -> bool {
        self.stops = if self.has_room() { 1 } else { self.stops + 1 };
        self.stops <= MOST_STOPS
    }

    /// Whether a reader is attached.
    pub(super) fn is_read(&self) -> bool {
        self.reader.is_some()
    }

    fn take_back(&mut self, reader: Reader) {
        if !reader.is_out() {
            for message in reader.handed.into_iter().rev() {
                self.bytes += message.len() + OVERHEAD;
                self.unread.push_front(message);
            }
        }
    }

    fn wake(&mut self) {
        if let Some(waker) = self.reader.as_mut().and_then(|reader| reader.waker.take()) {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(outlet: &mut Outlet, token: u64) -> String {
        match outlet.take(token, Waker::noop()) {
            Taken::Events(wire) => String::from_utf8(wire.to_vec()).unwrap(),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn messages_that_did_not_leave_a_connection_go_to_the_next() {
        let mut outlet = Outlet::default();
        outlet.push(Bytes::from_static(b"a"));
        let first = Arc::<ConnectionState>::default();
        let reader = outlet.attach(Arc::clone(&first));
        assert_eq!(taken(&mut outlet, reader), "data: a\n\n");
        first.flushed();
        outlet.push(Bytes::from_static(b"b"));
        assert_eq!(taken(&mut outlet, reader), "data: b\n\n");
        outlet.push(Bytes::from_static(b"c"));
        let second = outlet.attach(Arc::default());
        assert_eq!(taken(&mut outlet, reader), "End", "the second reader replaced the first");
        assert_eq!(taken(&mut outlet, second), "data: b\n\ndata: c\n\n");
        outlet.detach(second);
        outlet.end();
        let third = outlet.attach(Arc::default());
        assert_eq!(taken(&mut outlet, third), "data: b\n\ndata: c\n\n");
        assert_eq!(taken(&mut outlet, third), "End");
    }

    #[test]
    fn a_connection_that_ended_its_input_receives_no_messages() {
        let mut outlet = Outlet::default();
        let line = Arc::<ConnectionState>::default();
        let reader = outlet.attach(Arc::clone(&line));
        line.ended();
        outlet.push(Bytes::from_static(b"a"));
        assert_eq!(taken(&mut outlet, reader), "End");
        let next = outlet.attach(Arc::default());
        assert_eq!(taken(&mut outlet, next), "data: a\n\n");
    }

    #[test]
    fn a_large_message_is_handed_out_without_a_copy() {
        let mut outlet = Outlet::default();
        let large = Bytes::from(vec![b'x'; LARGE]);
        for message in [Bytes::from_static(b"a"), Bytes::from_static(b"b"), large.clone(), Bytes::from_static(b"c")] {
            outlet.push(message);
        }
        for _ in 0..2 {
            let line = Arc::<ConnectionState>::default();
            let reader = outlet.attach(Arc::clone(&line));
            assert_eq!(taken(&mut outlet, reader), "data: a\n\ndata: b\n\n");
            let Taken::Message(message) = outlet.take(reader, Waker::noop()) else { panic!("a large message") };
            assert_eq!(message.as_ptr(), large.as_ptr());
            line.flushed();
            assert!(!outlet.reader.as_ref().unwrap().is_out(), "only a part has left");
            outlet.passed_on(reader);
            assert_eq!(taken(&mut outlet, reader), "data: c\n\n");
            assert_eq!((taken(&mut outlet, reader), outlet.bytes), ("Nothing".to_owned(), 0));
            outlet.detach(reader);
        }
    }

    fn fill(outlet: &mut Outlet) {
        while outlet.has_room() {
            outlet.push(Bytes::from_static(&[b'x'; 1000]));
        }
    }

    #[test]
    fn the_outlet_is_full_until_its_messages_have_left_the_connection() {
        let mut outlet = Outlet::default();
        fill(&mut outlet);
        // If a connection breaks before anything has left it, the outlet stays full.
        for _ in 0..3 {
            let reader = outlet.attach(Arc::default());
            assert!(taken(&mut outlet, reader).len() >= HIGH_WATER / 2);
            assert!(!outlet.has_room());
            outlet.detach(reader);
            assert!(!outlet.has_room());
        }
        let line = Arc::<ConnectionState>::default();
        let reader = outlet.attach(Arc::clone(&line));
        taken(&mut outlet, reader);
        let woken = Arc::new(Flag::default());
        let waker = Waker::from(Arc::clone(&woken));
        assert_eq!(outlet.take(reader, &waker), Taken::Nothing);
        assert!(!outlet.has_room() && !woken.is_set());
        line.flushed();
        assert!(outlet.has_room() && woken.is_set(), "the reader polls again for waiting messages");
        assert_eq!(taken(&mut outlet, reader), "Nothing");
    }

    #[test]
    fn a_few_messages_that_stop_a_call_are_accepted_when_the_outlet_is_full() {
        let mut outlet = Outlet::default();
        fill(&mut outlet);
        let count = |outlet: &mut Outlet| (0..1000).take_while(|_| outlet.takes_stop()).count();
        assert_eq!((count(&mut outlet), count(&mut outlet)), (64, 0));
        let broken = outlet.attach(Arc::default());
        taken(&mut outlet, broken);
        outlet.detach(broken);
        assert_eq!(count(&mut outlet), 0, "nothing has left");
        let line = Arc::<ConnectionState>::default();
        let reader = outlet.attach(Arc::clone(&line));
        taken(&mut outlet, reader);
        line.flushed();
        assert!(outlet.takes_stop());
    }

    #[derive(Default)]
    struct Flag(std::sync::atomic::AtomicBool);

    impl Flag {
        fn is_set(&self) -> bool {
            self.0.load(std::sync::atomic::Ordering::Relaxed)
        }
    }

    impl std::task::Wake for Flag {
        fn wake(self: Arc<Self>) {
            self.0.store(true, std::sync::atomic::Ordering::Relaxed);
        }
    }
}
