//! The streams to one peer: the main stream, and one stream for each open or stored exchange.

use std::collections::VecDeque;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use gladhand_core::number_map::NumberMap;
use gladhand_core::wire::FrameKind;
use gladhand_dialects::Lane;
use gladhand_hub::Portion;

use super::request_origin::RequestOrigin;
use super::stream::{self, Numbering, ReaderToken, Stream, Taken, Tally};

/// How long a client that lost its stream is asked to wait before it reconnects.
const RETRY: Duration = Duration::from_secs(1);

/// A line on its way to the peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OutgoingFrame {
    pub(super) line: Bytes,
    pub(super) kind: FrameKind,
}

/// All streams to one peer.
#[derive(Debug)]
pub(super) struct Lanes {
    numbering: Numbering,
    /// The maximum bytes of one stream, and of all ended streams together.
    most: usize,
    main: Stream,
    exchanges: NumberMap<Lane, Exchange>,
    /// The callers of `exchanges`, if known and if the exchange is pending.
    owners: NumberMap<Lane, RequestOrigin>,
    /// Numbered `exchanges` that have ended and are kept for a returning reader, in the order of their ends.
    ended: VecDeque<Lane>,
    ended_bytes: usize,
    /// The bytes of all streams.
    bytes: Tally,
    /// The share of the global limit that these bytes occupy.
    kept: Portion,
    /// Whether the party stays within its share.
    has_room: bool,
    last: u64,
    /// Whether streams begin with an event from which the client can resume.
    pub(super) primes: bool,
}

/// One exchange. Most exchanges get a response immediately, so a stream is created only if needed.
#[derive(Debug)]
enum Exchange {
    /// Nothing was written yet. The waker belongs to the connection that waits for the response.
    Fresh(Option<Waker>),
    /// Only the response was written.
    Answered(OutgoingFrame),
    /// Any other content.
    Stream(Box<Stream>),
}

impl Exchange {
    fn stream(&self) -> Option<&Stream> {
        match self {
            Self::Stream(stream) => Some(stream),
            Self::Fresh(_) | Self::Answered(_) => None,
        }
    }

    /// Changes the state of the exchange, and wakes a waiting connection.
    fn become_of(&mut self, next: Self) {
        if let Self::Fresh(Some(waker)) = std::mem::replace(self, next) {
            waker.wake();
        }
    }
}

impl Lanes {
    pub(super) fn new(numbering: Numbering, most: usize, kept: Portion) -> Self {
        let bytes = Tally::default();
        Self {
            numbering,
            most,
            main: Stream::new(Lane::MAIN, numbering, most, bytes.clone()),
            exchanges: NumberMap::default(),
            owners: NumberMap::default(),
            ended: VecDeque::new(),
            ended_bytes: 0,
            bytes,
            kept,
            has_room: true,
            last: 0,
            primes: false,
        }
    }

    /// Opens a stream for a new exchange.
    pub(super) fn open(&mut self) -> Lane {
        self.last += 1;
        let lane = Lane(self.last);
        self.exchanges.insert(lane, Exchange::Fresh(None));
        lane
    }

    /// Takes the response of an exchange with no other messages, which ends the exchange.
    pub(super) fn take_answer(&mut self, lane: Lane) -> Option<OutgoingFrame> {
        if !matches!(self.exchanges.get(&lane), Some(Exchange::Answered(_))) {
            return None;
        }
        let Some(Exchange::Answered(frame)) = self.exchanges.remove(&lane) else { return None };
        self.owners.remove(&lane);
        Some(frame)
    }

    /// Waits for the response of an exchange. Returns `None` once the exchange needs an event stream.
    pub(super) fn poll_answer(&mut self, lane: Lane, waker: &Waker) -> Poll<Option<OutgoingFrame>> {
        match self.exchanges.get_mut(&lane) {
            Some(Exchange::Fresh(waiting)) => {
                *waiting = Some(waker.clone());
                Poll::Pending
            }
            _ => Poll::Ready(self.take_answer(lane)),
        }
    }

    /// The connection that waits for the response is awake and polls by itself.
    pub(super) fn is_awake(&mut self, lane: Lane) {
        if let Some(Exchange::Fresh(waiting)) = self.exchanges.get_mut(&lane) {
            *waiting = None;
        }
    }

    /// The main stream, for a new reader.
    pub(super) fn main(&mut self) -> &mut Stream {
        if self.primes {
            self.main.prime(RETRY);
        }
        &mut self.main
    }

    /// An open or stored stream.
    pub(super) fn get(&mut self, lane: Lane) -> Option<&mut Stream> {
        if lane == Lane::MAIN {
            return Some(&mut self.main);
        }
        let exchange = self.exchanges.get_mut(&lane)?;
        if exchange.stream().is_none() {
            let mut stream = Box::new(Stream::new(lane, self.numbering, self.most, self.bytes.clone()));
            if self.primes {
                stream.prime(RETRY);
            }
            let answer = match exchange {
                Exchange::Answered(frame) => Some(std::mem::take(&mut frame.line)),
                Exchange::Fresh(_) | Exchange::Stream(_) => None,
            };
            let is_answered = answer.is_some();
            answer.into_iter().for_each(|line| stream.push(line));
            exchange.become_of(Exchange::Stream(stream));
            if is_answered {
                // End it only after it is a stream: it is then stored and dropped like other ended streams.
                self.end(lane);
            }
        }
        match self.exchanges.get_mut(&lane)? {
            Exchange::Stream(stream) => Some(stream),
            Exchange::Fresh(_) | Exchange::Answered(_) => None,
        }
    }

    /// Writes a line. A response ends its exchange. Lines for a removed exchange are dropped.
    pub(super) fn push(&mut self, lane: Lane, frame: OutgoingFrame) {
        let ends = lane != Lane::MAIN && frame.kind.is_answer();
        if ends && let Some(exchange @ Exchange::Fresh(_)) = self.exchanges.get_mut(&lane) {
            exchange.become_of(Exchange::Answered(frame));
            return;
        }
        if let Some(stream) = self.get(lane) {
            let before = stream.bytes();
            stream.push(frame.line);
            let after = stream.bytes();
            if self.ended.contains(&lane) {
                self.ended_bytes = self.ended_bytes + after - before;
            }
        }
        if ends {
            self.end(lane);
        }
        self.keep_within_bound(lane);
    }

    /// Whether a line that is pushed to this lane reaches the peer.
    pub(super) fn is_open(&self, lane: Lane) -> bool {
        match self.exchanges.get(&lane) {
            _ if lane == Lane::MAIN => self.main.ended().is_none(),
            Some(Exchange::Fresh(_)) => true,
            Some(Exchange::Stream(stream)) => stream.ended().is_none(),
            Some(Exchange::Answered(_)) | None => false,
        }
    }

    /// Hands the ready events to the reader of a stream.
    pub(super) fn take(&mut self, lane: Lane, reader: ReaderToken, waker: &Waker) -> Taken {
        let taken = self.get(lane).map_or(Taken::End, |stream| stream.take(reader, waker));
        if matches!(taken, Taken::Events(_)) {
            self.keep_within_bound(lane);
        }
        taken
    }

    /// Detaches the reader of a stream. Returns whether the stream is still open.
    pub(super) fn detach(&mut self, lane: Lane, reader: ReaderToken) -> bool {
        let Some(stream) = self.get(lane) else { return false };
        stream.detach(reader);
        let is_open = stream.ended().is_none();
        self.keep_within_bound(lane);
        is_open
    }

    /// Counts the stored bytes in the global limit. If the party exceeds its share, responses without a reader are
    /// dropped, oldest first, and finally the stored events of the changed stream. Events that a reader has yet to take
    /// stay.
    fn keep_within_bound(&mut self, changed: Lane) {
        while !self.count() {
            let is_unread = |ended: &Lane| self.exchanges[ended].stream().is_some_and(|stream| !stream.is_read());
            match self.ended.iter().copied().find(is_unread) {
                Some(oldest) => self.remove(oldest),
                None => {
                    self.forget_taken(changed);
                    self.count();
                    return;
                }
            }
        }
    }

    /// Drops the events that the reader of a stream has taken, or all events if it has no reader.
    fn forget_taken(&mut self, lane: Lane) {
        let Some(stream) = self.get(lane) else { return };
        let before = stream.bytes();
        stream.forget();
        let forgotten = before - stream.bytes();
        if self.ended.contains(&lane) {
            self.ended_bytes = self.ended_bytes.saturating_sub(forgotten);
        }
    }

    /// Counts the stored bytes. Returns whether the party stays within its share.
    fn count(&mut self) -> bool {
        // Streams without numbers keep nothing for an absent reader. Their bytes count as unwritten.
        if self.numbering == Numbering::Plain {
            return true;
        }
        let counted = stream::counted(self.bytes.bytes());
        if counted != self.kept.amount() || !self.has_room {
            self.has_room = self.kept.resize(counted);
        }
        self.has_room
    }

    /// Ends a stream.
    pub(super) fn end(&mut self, lane: Lane) {
        let Some(stream) = self.get(lane) else { return };
        if stream.ended().is_some() {
            return;
        }
        stream.end();
        let bytes = stream.bytes();
        if lane == Lane::MAIN || self.numbering == Numbering::Plain {
            return;
        }
        self.ended_bytes += bytes;
        self.ended.push_back(lane);
        while self.ended_bytes > self.most {
            // Drop the oldest stream that was read and that a client could still resume.
            let was_read = |ended: &Lane| self.exchanges[ended].stream().is_some_and(Stream::was_read);
            let oldest = self.ended.iter().copied().find(|ended| *ended != lane && was_read(ended));
            let Some(oldest) = oldest else { break };
            self.remove(oldest);
        }
    }

    /// Counts the bytes of a stream without numbers as unwritten responses.
    pub(super) fn count_unwritten(&mut self, lane: Lane, portion: impl FnOnce() -> Portion) {
        if self.numbering == Numbering::Plain
            && let Some(stream) = self.get(lane)
        {
            stream.count_as(portion());
        }
    }

    /// Records the caller of an exchange.
    pub(super) fn belongs_to(&mut self, lane: Lane, who: RequestOrigin) {
        if self.exchanges.contains_key(&lane) {
            self.owners.insert(lane, who);
        }
    }

    /// The recorded caller of an exchange.
    pub(super) fn owner(&self, lane: Lane) -> Option<&RequestOrigin> {
        self.owners.get(&lane)
    }

    /// The exchanges of selected callers that have no response yet.
    pub(super) fn unanswered(&self, is_theirs: impl Fn(&RequestOrigin) -> bool) -> Vec<Lane> {
        let theirs = self.owners.iter().filter(|(lane, who)| is_theirs(who) && self.is_open(**lane));
        in_order(theirs.map(|(lane, _)| *lane))
    }

    /// Ends all streams.
    pub(super) fn end_all(&mut self) {
        let open = in_order(self.exchanges.keys().copied());
        open.into_iter().chain([Lane::MAIN]).for_each(|lane| self.end(lane));
    }

    /// Removes an exchange and its stored events.
    pub(super) fn remove(&mut self, lane: Lane) {
        let Some(exchange) = self.exchanges.remove(&lane) else { return };
        self.owners.remove(&lane);
        if let Some(at) = self.ended.iter().position(|ended| *ended == lane) {
            self.ended.remove(at);
            self.ended_bytes = self.ended_bytes.saturating_sub(exchange.stream().map_or(0, Stream::bytes));
        }
    }

    /// Drops streams that ended before a given time.
    pub(super) fn forget(&mut self, before: Instant) {
        while let Some(&lane) = self.ended.front()
            && self.exchanges[&lane].stream().and_then(Stream::ended).is_some_and(|ended| ended < before)
        {
            self.remove(lane);
        }
    }

    /// The number of pending exchanges.
    pub(super) fn under_way(&self) -> usize {
        self.exchanges.len() - self.ended.len()
    }

    /// Whether a stream has a reader or an exchange is pending.
    pub(super) fn is_busy(&self) -> bool {
        self.under_way() > 0
            || self.main.is_read()
            || self.exchanges.values().filter_map(Exchange::stream).any(Stream::is_read)
    }
}

/// Lanes in the order in which their exchanges were opened.
fn in_order(lanes: impl Iterator<Item = Lane>) -> Vec<Lane> {
    let mut lanes: Vec<_> = lanes.collect();
    lanes.sort_unstable();
    lanes
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use gladhand_dialects::Party;
    use gladhand_hub::Portions;

    use super::*;

    /// The lanes of a party within the global limit.
    fn bounded(most: usize, all: &Arc<Portions>, party: u64) -> Lanes {
        Lanes::new(Numbering::Numbered, most, all.portion(Party(party)))
    }

    fn lanes(most: usize) -> Lanes {
        bounded(most, &Portions::lasting(usize::MAX, 0), 1)
    }

    /// An exchange whose response has no reader, or whose reader has disconnected.
    fn cut_off(lanes: &mut Lanes, bytes: usize) -> Lane {
        let lane = lanes.open();
        let reader = lanes.get(lane).expect("the exchange is open").attach();
        lanes.detach(lane, reader);
        lanes.push(lane, answer(bytes));
        lane
    }

    fn answer(bytes: usize) -> OutgoingFrame {
        line(&format!(r#"{{"jsonrpc":"2.0","id":1,"result":"{}"}}"#, "x".repeat(bytes)))
    }

    #[test]
    fn answers_beyond_the_bound_of_all_sessions_are_dropped_and_others_get_their_part() {
        let all = Portions::lasting(1_000_000, 0);
        let mut greedy = [bounded(1000, &all, 1), bounded(1000, &all, 1)];
        let kept: Vec<_> = (0..20).map(|at| cut_off(&mut greedy[at % 2], 100_000)).collect();
        let is_kept = |lanes: &mut Lanes, lane: Lane| lanes.exchanges.contains_key(&lane);
        assert!(greedy.iter().all(|lanes| lanes.bytes.bytes() < 120_000), "each keeps its newest");
        let mut many: Vec<_> = (0..20).map(|_| bounded(1000, &all, 1)).collect();
        let newest: Vec<_> = many.iter_mut().map(|lanes| cut_off(lanes, 100_000)).collect();
        let taken: usize = many.iter().chain(&greedy).map(|lanes| lanes.bytes.bytes()).sum();
        assert!((800_000..1_050_000).contains(&taken), "{taken}");
        assert!(!is_kept(&mut many[19], newest[19]) && many[19].kept.amount() == 0, "dropped at once");
        assert_eq!((many[19].ended.len(), many[19].ended_bytes, many[19].bytes.bytes()), (0, 0, 0));
        // Another party still gets its part, and small answers of the first are kept.
        let mut other = bounded(1000, &all, 2);
        let lane = cut_off(&mut other, 400_000);
        assert!(is_kept(&mut other, lane));
        let small = cut_off(&mut many[19], 1000);
        assert!(is_kept(&mut many[19], small));
        drop((greedy, many, kept));
        assert!(all.portion(Party(3)).grow(500_000), "what was kept is given back");
    }

    #[test]
    fn a_line_for_an_ended_exchange_counts_until_the_exchange_is_removed() {
        let mut lanes = lanes(1_000_000);
        let lane = cut_off(&mut lanes, 1000);
        let before = lanes.ended_bytes;
        lanes.push(lane, answer(50_000));
        assert_eq!(lanes.ended_bytes, lanes.bytes.bytes());
        assert!(lanes.ended_bytes > before + 50_000);
        lanes.remove(lane);
        assert_eq!((lanes.ended_bytes, lanes.bytes.bytes()), (0, 0));
    }

    #[test]
    fn unread_bytes_of_a_plain_stream_count_as_unwritten() {
        let (kept, unwritten) = (Portions::lasting(usize::MAX, 0), Portions::of(400_000, 0));
        let mut lanes = Lanes::new(Numbering::Plain, 100_000, kept.portion(Party(1)));
        let lane = lanes.open();
        for lane in [Lane::MAIN, lane] {
            let reader = lanes.get(lane).expect("it is open").attach();
            lanes.count_unwritten(lane, || unwritten.portion(Party(1)));
            lanes.push(lane, answer(10_000));
            assert!(unwritten.admits_within(1, Party(1)), "a little does not count");
            lanes.push(lane, answer(500_000));
            assert!(!unwritten.admits(Party(1)) && unwritten.admits(Party(2)));
            assert!(matches!(lanes.take(lane, reader, Waker::noop()), Taken::Events(_)));
            assert!(unwritten.admits_within(1, Party(1)), "it has left");
        }
        lanes.push(Lane::MAIN, answer(500_000));
        drop(lanes);
        assert!(unwritten.admits_within(1, Party(1)), "it is given back");
    }

    #[test]
    fn an_attached_reader_gets_everything_beyond_the_replay_bound() {
        let all = Portions::lasting(100_000, 0);
        let mut lanes = bounded(1000, &all, 1);
        let lane = lanes.open();
        let reader = lanes.get(lane).expect("it is open").attach();
        lanes.push(lane, answer(500_000));
        let Taken::Events(events) = lanes.take(lane, reader, Waker::noop()) else { panic!("it is for the reader") };
        assert!(events.len() > 500_000);
        assert_eq!((lanes.bytes.bytes(), lanes.ended_bytes), (0, 0), "for no other reader is there room");
        assert_eq!(lanes.take(lane, reader, Waker::noop()), Taken::End);
        // A reader that goes before it has taken the answer leaves nothing.
        let lane = lanes.open();
        let reader = lanes.get(lane).expect("it is open").attach();
        lanes.push(lane, answer(500_000));
        lanes.detach(lane, reader);
        assert!(!lanes.exchanges.contains_key(&lane));
        assert_eq!((lanes.bytes.bytes(), lanes.kept.amount()), (0, 0));
    }

    #[test]
    fn an_answer_that_is_read_as_a_stream_is_over_and_forgotten_like_others() {
        let mut lanes = lanes(1024);
        let lane = lanes.open();
        lanes.push(lane, line(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#));
        let reader = lanes.get(lane).expect("it is kept").attach();
        assert_eq!(lanes.under_way(), 0);
        lanes.get(lane).expect("it is kept").detach(reader);
        assert!(!lanes.is_busy());
        lanes.forget(Instant::now() + Duration::from_secs(1));
        assert!(lanes.get(lane).is_none());
        assert_eq!(lanes.ended_bytes, 0);
    }

    fn line(text: &str) -> OutgoingFrame {
        let kind = if text.contains("method") { FrameKind::Notice } else { FrameKind::Result };
        OutgoingFrame { line: Bytes::copy_from_slice(text.as_bytes()), kind }
    }

    #[test]
    fn an_answer_that_comes_first_is_one_and_anything_else_makes_a_stream() {
        let answer = line(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
        let news = line(r#"{"jsonrpc":"2.0","method":"notifications/progress"}"#);
        let mut lanes = lanes(1000);
        let opened = [lanes.open(), lanes.open(), lanes.open()];
        let poll = |lanes: &mut Lanes| opened.map(|lane| lanes.poll_answer(lane, Waker::noop()));
        assert!(poll(&mut lanes).iter().all(Poll::is_pending));
        lanes.push(opened[0], answer.clone());
        lanes.push(opened[1], news);
        lanes.push(opened[1], answer.clone());
        lanes.end(opened[2]);
        assert_eq!(poll(&mut lanes), [Poll::Ready(Some(answer)), Poll::Ready(None), Poll::Ready(None)]);
        assert!(lanes.get(opened[0]).is_none(), "it is over");
        assert!(lanes.get(opened[1]).is_some() && lanes.get(opened[2]).is_some());
    }

    #[test]
    fn answers_are_kept_for_a_while_and_up_to_a_bound() {
        let mut lanes = lanes(1000);
        let opened: Vec<_> = (0..50).map(|_| lanes.open()).collect();
        assert_eq!(lanes.under_way(), 50);
        for lane in &opened {
            let stream = lanes.get(*lane).unwrap();
            let reader = stream.attach();
            stream.detach(reader);
            lanes.push(*lane, line(&format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, lane.0)));
        }
        assert_eq!(lanes.under_way(), 0);
        let kept = opened.iter().filter(|lane| lanes.get(**lane).is_some()).count();
        assert!((5..15).contains(&kept), "{kept}");
        assert!(lanes.get(opened[49]).is_some(), "the newest is kept");
        lanes.forget(Instant::now() + Duration::from_secs(1));
        assert!(opened.iter().all(|lane| lanes.get(*lane).is_none()));
        assert_eq!(lanes.ended_bytes, 0);
    }
}
