//! What is on its way to one agent: messages that nobody has read yet, and the one stream that reads them.
//!
//! Nothing is dropped. What was handed to a connection and is not known to have left it when it broke, or when another
//! stream took its place, goes to the next one: rather twice than never, since who asked knows an answer by its request.
//!
//! A message counts until it has left its connection. So what waits for an agent never exceeds the high-water mark by more
//! than one outcome, and the answers to a few messages that stop something.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

use bytes::Bytes;

use super::super::served::Line;
use super::super::stream::Taken;

/// If more bytes than this have not left, nothing more is taken in and no outcome is written.
const HIGH_WATER: usize = 128 * 1024;

/// What one message costs beyond its text, roughly.
const OVERHEAD: usize = 64;

/// How many messages that stop something are taken in beyond the high-water mark, until there is room again.
const MOST_STOPS: u32 = 64;

/// Messages on their way to one agent.
#[derive(Debug, Default)]
pub(super) struct Outlet {
    unread: VecDeque<Bytes>,
    bytes: usize,
    reader: Option<Reader>,
    readers: u64,
    /// Messages that stop something, taken in since there was no room.
    stops: u32,
    /// Nothing more comes.
    has_ended: bool,
}

#[derive(Debug)]
struct Reader {
    token: u64,
    line: Arc<Line>,
    /// What it was handed, and may not have left since its connection had gone out so many times.
    handed: Vec<Bytes>,
    handed_bytes: usize,
    flushes: u64,
    waker: Option<Waker>,
}

impl Reader {
    /// Whether everything that it was handed has gone out.
    fn is_out(&self) -> bool {
        self.line.flushes() > self.flushes
    }

    /// Whether it was handed so much that nothing more is written until that has left.
    fn has_much(&self) -> bool {
        self.handed_bytes >= HIGH_WATER
    }

    /// How many bytes it was handed that may not have left.
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

    /// Nothing more comes: whoever reads gets what there is.
    pub(super) fn end(&mut self) {
        self.has_ended = true;
        self.wake();
    }

    /// A reader on a connection. It replaces whoever reads now.
    pub(super) fn attach(&mut self, line: Arc<Line>) -> u64 {
        // Whoever reads now finds out that it is replaced.
        self.wake();
        if let Some(reader) = self.reader.take() {
            self.take_back(reader);
        }
        self.readers += 1;
        let flushes = line.flushes();
        self.reader =
            Some(Reader { token: self.readers, line, handed: Vec::new(), handed_bytes: 0, flushes, waker: None });
        self.readers
    }

    /// A reader is gone.
    pub(super) fn detach(&mut self, token: u64) {
        if let Some(reader) = self.reader.take_if(|reader| reader.token == token) {
            self.take_back(reader);
        }
    }

    /// Hands a reader what there is for it.
    pub(super) fn take(&mut self, token: u64, waker: &Waker) -> Taken {
        let Some(reader) = self.reader.as_mut().filter(|reader| reader.token == token) else { return Taken::End };
        if reader.is_out() {
            reader.handed.clear();
            reader.handed_bytes = 0;
        }
        if reader.line.has_ended() {
            // It looks as if it waited for more, and is gone in all likelihood: what it is sent now would be lost.
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
                // Outcomes may wait until this has left, and its connection does not ask for more by itself.
                reader.line.wake_when_flushed(waker);
            }
            return Taken::Nothing;
        }
        let mut events = Vec::with_capacity(self.bytes);
        for message in self.unread.drain(..) {
            events.extend_from_slice(b"data: ");
            events.extend_from_slice(&message);
            events.extend_from_slice(b"\n\n");
            reader.handed.push(message);
        }
        self.unread.shrink_to(16);
        reader.handed_bytes += std::mem::take(&mut self.bytes);
        reader.flushes = reader.line.flushes();
        Taken::Events(events.into())
    }

    /// Whether the agent reads what it is sent.
    pub(super) fn has_room(&self) -> bool {
        self.bytes + self.reader.as_ref().map_or(0, Reader::unsent) < HIGH_WATER
    }

    /// Whether the reader was handed so much that something may wait until that has left.
    pub(super) fn has_handed_much(&self) -> bool {
        self.reader.as_ref().is_some_and(Reader::has_much)
    }

    /// Whether one more message that stops something is taken in although there is no room.
    pub(super) fn takes_stop(&mut self) -> bool {
        self.stops = if self.has_room() { 1 } else { self.stops + 1 };
        self.stops <= MOST_STOPS
    }

    /// Whether somebody reads.
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
    fn what_did_not_leave_a_connection_goes_to_the_next() {
        let mut outlet = Outlet::default();
        outlet.push(Bytes::from_static(b"a"));
        let first = Arc::<Line>::default();
        let reader = outlet.attach(Arc::clone(&first));
        assert_eq!(taken(&mut outlet, reader), "data: a\n\n");
        first.flushed();
        outlet.push(Bytes::from_static(b"b"));
        assert_eq!(taken(&mut outlet, reader), "data: b\n\n");
        outlet.push(Bytes::from_static(b"c"));
        let second = outlet.attach(Arc::default());
        assert_eq!(taken(&mut outlet, reader), "End", "it was replaced");
        assert_eq!(taken(&mut outlet, second), "data: b\n\ndata: c\n\n");
        outlet.detach(second);
        outlet.end();
        let third = outlet.attach(Arc::default());
        assert_eq!(taken(&mut outlet, third), "data: b\n\ndata: c\n\n");
        assert_eq!(taken(&mut outlet, third), "End");
    }

    #[test]
    fn whoever_says_that_nothing_more_will_come_is_sent_nothing_more() {
        let mut outlet = Outlet::default();
        let line = Arc::<Line>::default();
        let reader = outlet.attach(Arc::clone(&line));
        line.ended();
        outlet.push(Bytes::from_static(b"a"));
        assert_eq!(taken(&mut outlet, reader), "End");
        let next = outlet.attach(Arc::default());
        assert_eq!(taken(&mut outlet, next), "data: a\n\n");
    }

    fn fill(outlet: &mut Outlet) {
        while outlet.has_room() {
            outlet.push(Bytes::from_static(&[b'x'; 1000]));
        }
    }

    #[test]
    fn it_is_full_until_what_it_has_has_left_the_connection() {
        let mut outlet = Outlet::default();
        fill(&mut outlet);
        // A connection that breaks before anything has left makes no room.
        for _ in 0..3 {
            let reader = outlet.attach(Arc::default());
            assert!(taken(&mut outlet, reader).len() >= HIGH_WATER / 2);
            assert!(!outlet.has_room());
            outlet.detach(reader);
            assert!(!outlet.has_room());
        }
        let line = Arc::<Line>::default();
        let reader = outlet.attach(Arc::clone(&line));
        taken(&mut outlet, reader);
        let woken = Arc::new(Flag::default());
        let waker = Waker::from(Arc::clone(&woken));
        assert_eq!(outlet.take(reader, &waker), Taken::Nothing);
        assert!(!outlet.has_room() && !woken.is_set());
        line.flushed();
        assert!(outlet.has_room() && woken.is_set(), "the reader comes back for what waits");
        assert_eq!(taken(&mut outlet, reader), "Nothing");
    }

    #[test]
    fn a_few_messages_that_stop_something_are_taken_although_it_is_full() {
        let mut outlet = Outlet::default();
        fill(&mut outlet);
        let count = |outlet: &mut Outlet| (0..1000).take_while(|_| outlet.takes_stop()).count();
        assert_eq!((count(&mut outlet), count(&mut outlet)), (64, 0));
        let broken = outlet.attach(Arc::default());
        taken(&mut outlet, broken);
        outlet.detach(broken);
        assert_eq!(count(&mut outlet), 0, "nothing has left");
        let line = Arc::<Line>::default();
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
