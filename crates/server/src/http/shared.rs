//! State that all sessions of one server share.

use std::sync::{Arc, RwLock};

use bytes::Bytes;
use gladhand_auth::resource::Principal;
use gladhand_core::operations::{Outcome, Tool};
use gladhand_core::sync::Unpoisoned as _;
use gladhand_dialects::mcp::McpServer;
use gladhand_dialects::mcp::http::Mirrors;
use gladhand_dialects::storage::{Reservation, Storage};
use gladhand_dialects::{Dialect, Party};
use gladhand_hub::{Hub, Portion, Portions, Work};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tokio_util::task::TaskTracker;

use super::authorize::Authorize;
use super::coarse_timer::CoarseTimer;
use super::options::HttpOptions;
use super::request_origin::RequestOrigin;
use super::session::Manner;
use crate::Service;
use crate::driver::finish_guarded;
use gladhand_session::clock::Clock;

/// How many bytes of requests may be on their way in at once, over all connections.
const MOST_READING: usize = 256 * 1024 * 1024;

/// How many bytes of first messages that are not complete may be kept, over all connections.
const MOST_UNFINISHED: usize = 64 * 1024 * 1024;

/// A connection with so few of them does not count for its party while little of the bound is in use.
const BEGINNING: usize = 4 * 1024;

/// How many bytes of answers may wait to be written, over all connections, before nothing more is taken in.
const MOST_UNWRITTEN: usize = 256 * 1024 * 1024;

/// How many bytes of answers may wait to be written before large results are replaced by failures.
const FAR_TOO_MANY_UNWRITTEN: usize = 2 * MOST_UNWRITTEN;

/// How many bytes of calls may be under way, over all sessions, before nothing more is taken in.
const MOST_UNDER_WAY: usize = 128 * 1024 * 1024;

/// Calls up to this size do not count in that bound while few are under way in their session, and as this many bytes
/// otherwise.
const SMALL_CALL: usize = 4 * 1024;

/// So many calls of a session are few.
const FEW_CALLS: usize = 16;

/// Requests up to this size are not counted for their party while little of the bound is in use: there are many, and they
/// are soon gone.
pub(super) const SMALL: usize = 64 * 1024;

/// Answers up to this size are not counted. A connection has one of them at a time.
const SMALL_ANSWER: usize = 4 * 1024;

/// State that all sessions of one server share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) service: Service,
    pub(super) options: HttpOptions,
    /// Who may come in, where the service's own guard is not asked.
    authorize: Option<Arc<dyn Authorize>>,
    /// Calls that run as tasks.
    pub(super) calls: TaskTracker,
    /// For how long answers are waited for without a stream.
    pub(super) coarse_timer: Arc<CoarseTimer>,
    /// Where tasks run that are started from outside.
    runtime: Handle,
    /// Read off these tools.
    mirrors: RwLock<(Arc<[Tool]>, Arc<Mirrors>)>,
    /// Held while a new list of tools is read for `mirrors`.
    reading_mirrors: tokio::sync::Mutex<()>,
    /// Streams that are open.
    pub(super) streams: Arc<Portions>,
    /// Bytes of requests that are being read.
    pub(super) reading: Arc<Portions>,
    /// Bytes of first messages that are not complete.
    pub(super) unfinished: Arc<Portions>,
    /// Bytes of answers that wait to be written.
    pub(super) unwritten: Arc<Portions>,
    /// Bytes of calls that wait or run.
    pub(super) under_way: Arc<Portions>,
    /// Bytes that are kept for readers and callers that are away: of streams, of tasks, of calls that wait for their
    /// callers, of batches, and of outcomes for agents.
    pub(super) kept: Arc<Portions>,
}

impl Shared {
    pub(super) fn new(
        service: Service,
        options: HttpOptions,
        authorize: Option<Arc<dyn Authorize>>,
        runtime: Handle,
    ) -> Self {
        let (streams, kept) = (Portions::of(options.streams, 0), Portions::lasting(options.kept_bytes, 0));
        Self {
            service,
            options,
            authorize,
            calls: TaskTracker::new(),
            coarse_timer: Arc::default(),
            runtime,
            mirrors: RwLock::new((Arc::new([]), Arc::default())),
            reading_mirrors: tokio::sync::Mutex::default(),
            streams,
            reading: Portions::of(MOST_READING, SMALL),
            unfinished: Portions::of(MOST_UNFINISHED, BEGINNING),
            // Answers count although there is no room, so one party may have all up to the upper limit.
            unwritten: Portions::with_ceiling(MOST_UNWRITTEN, 2 * FAR_TOO_MANY_UNWRITTEN),
            under_way: Portions::lasting(MOST_UNDER_WAY, 0),
            kept,
        }
    }

    /// Decides who may come in; none where no one is asked for a token.
    pub(super) fn authorize(&self) -> Option<Arc<dyn Authorize>> {
        self.authorize.clone().or_else(|| self.service.access().guard())
    }

    /// Whether a principal has lost access since it was let in.
    pub(super) fn has_withdrawn(&self, who: &RequestOrigin) -> bool {
        self.service.access().has_withdrawn(who.principal.as_deref(), who.epoch)
    }

    /// Our side towards a new peer, which takes the share of a party.
    pub(super) fn server(&self, manner: Manner, party: Party, clock: &Clock) -> McpServer {
        let mut setup = self.service.setup(clock);
        setup.storage = Arc::new(SharedStorage { kept: Arc::clone(&self.kept), party });
        if manner == Manner::Stateless {
            // All stateless requests share one limit.
            setup.max_in_flight = self.options.in_flight;
        }
        McpServer::new(setup)
    }

    /// Which arguments are mirrored in headers, by the tools that there are now.
    pub(super) async fn mirrors(&self) -> Arc<Mirrors> {
        let tools = self.hub().tools();
        match self.known_mirrors(&tools) {
            Some(known) => known,
            None => Box::pin(self.read_mirrors(tools)).await,
        }
    }

    fn known_mirrors(&self, tools: &Arc<[Tool]>) -> Option<Arc<Mirrors>> {
        let known = self.mirrors.read().unpoisoned();
        Arc::ptr_eq(&known.0, tools).then(|| Arc::clone(&known.1))
    }

    /// Reads a list once, however many requests need it. An upstream chooses the schemas, so a long list is read on
    /// another thread.
    async fn read_mirrors(&self, tools: Arc<[Tool]>) -> Arc<Mirrors> {
        let _reading = self.reading_mirrors.lock().await;
        if let Some(known) = self.known_mirrors(&tools) {
            return known;
        }
        let mirrors = if Mirrors::is_quick(&tools) {
            Mirrors::new(&tools)
        } else {
            let read = Arc::clone(&tools);
            let read = self.runtime().spawn_blocking(move || Mirrors::new(&read)).await;
            read.unwrap_or_else(|_| Mirrors::new(&tools))
        };
        let mirrors = Arc::new(mirrors);
        *self.mirrors.write().unpoisoned() = (tools, Arc::clone(&mirrors));
        mirrors
    }

    /// The runtime for tasks: the runtime of the current connection, or the main one outside of any runtime.
    pub(super) fn runtime(&self) -> Handle {
        Handle::try_current().unwrap_or_else(|_| self.runtime.clone())
    }

    /// Runs a call as a task that shutdown waits for.
    pub(super) fn spawn(&self, work: Work, done: impl FnOnce(Outcome) + Send + 'static) -> AbortHandle {
        let task = async move { done(finish_guarded(work).await) };
        self.calls.spawn_on(task, &self.runtime()).abort_handle()
    }

    /// Who answers calls.
    pub(super) fn hub(&self) -> &Hub {
        self.service.hub()
    }

    /// Writes down calls that were refused because the sender's token lacks scopes.
    pub(super) fn refused_for_scopes(&self, sender: &Principal, dialect: &Dialect, tools: &[String]) {
        if let Some(governor) = self.hub().governor() {
            governor.refused_for_scopes(&sender.name, dialect.name, tools);
        }
    }

    /// Whether what a party was answered before has been read, by and large.
    pub(super) fn has_room_for_answers(&self, party: Party) -> bool {
        self.unwritten.admits(party)
    }

    /// Whether a party may be sent one more large answer to a call that it has made.
    pub(super) fn has_room_for_large_answer(&self, party: Party) -> bool {
        self.unwritten.admits_within(FAR_TOO_MANY_UNWRITTEN, party)
    }

    /// An answer to a party that counts among those that are kept until it is read.
    pub(super) fn kept_answer(&self, answer: Bytes, party: Party) -> Bytes {
        let portion = self.kept.portion(party).with(answer.len());
        Bytes::from_owner(Unwritten { answer, _portion: portion })
    }

    /// An answer to a party that counts until it is written.
    pub(super) fn counted(&self, answer: Bytes, party: Party) -> Bytes {
        if answer.len() <= SMALL_ANSWER {
            return answer;
        }
        let portion = self.unwritten.portion(party).with(answer.len());
        Bytes::from_owner(Unwritten { answer, _portion: portion })
    }
}

/// There is no room in a bound.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NoRoom;

/// The share of the limit on calls that a message with this many bytes and calls takes, given the number of other calls
/// in its session. `None`: it does not count.
pub(super) fn count_calls(
    under_way: &Arc<Portions>,
    (bytes, calls): (usize, usize),
    others: usize,
    party: Party,
) -> Result<Option<Arc<Portion>>, NoRoom> {
    if bytes <= SMALL_CALL && others + calls <= FEW_CALLS {
        return Ok(None);
    }
    let mut portion = under_way.portion(party);
    if portion.grow(bytes.max(calls * SMALL_CALL)) { Ok(Some(Arc::new(portion))) } else { Err(NoRoom) }
}

/// The storage of one side, within the bound of all sessions.
#[derive(Debug)]
struct SharedStorage {
    kept: Arc<Portions>,
    /// The party of the peer that the side serves.
    party: Party,
}

impl Storage for SharedStorage {
    fn reserve(&self, party: Option<Party>) -> Box<dyn Reservation> {
        Box::new(SharedReservation(self.kept.portion(party.unwrap_or(self.party))))
    }
}

#[derive(Debug)]
struct SharedReservation(Portion);

impl Reservation for SharedReservation {
    fn resize(&mut self, bytes: usize) -> bool {
        let before = self.0.amount();
        let has_room = self.0.resize(bytes);
        if !has_room {
            self.0.resize(before);
        }
        has_room
    }
}

/// An answer that waits to be written. The writer drops it after writing.
#[derive(Debug)]
struct Unwritten {
    answer: Bytes,
    _portion: Portion,
}

impl AsRef<[u8]> for Unwritten {
    fn as_ref(&self) -> &[u8] {
        &self.answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many calls of this size a party has under way in one session before one is refused.
    fn fill(under_way: &Arc<Portions>, length: usize, party: u64) -> Vec<Option<Arc<Portion>>> {
        let mut calls = Vec::new();
        while let Ok(call) = count_calls(under_way, (length, 1), calls.len(), Party(party)) {
            calls.push(call);
            assert!(calls.len() < 100_000, "no call is refused");
        }
        calls
    }

    #[test]
    fn every_call_of_a_batch_counts() {
        let under_way = Portions::lasting(MOST_UNDER_WAY, 0);
        let count = |calls, others| count_calls(&under_way, (100 * calls, calls), others, Party(1));
        let counted = |calls, others| count(calls, others).map(|portion| portion.map_or(0, |portion| portion.amount()));
        assert_eq!((counted(16, 0), counted(8, 8)), (Ok(0), Ok(0)), "they are few");
        assert_eq!((counted(17, 0), counted(9, 8)), (Ok(17 * SMALL_CALL), Ok(9 * SMALL_CALL)));
        let batches: Vec<_> = std::iter::from_fn(|| count(1024, 0).ok()).take(100).collect();
        assert_eq!(batches.len(), MOST_UNDER_WAY / (1024 * SMALL_CALL));
    }

    #[test]
    fn calls_of_every_size_count_for_their_party() {
        for length in [100, 60_000, 15_000_000] {
            let under_way = Portions::lasting(MOST_UNDER_WAY, 0);
            let first = fill(&under_way, length, 1);
            let counted = first.iter().flatten().map(|call| call.amount()).sum::<usize>();
            assert!(counted <= MOST_UNDER_WAY && counted + length.max(SMALL_CALL) > MOST_UNDER_WAY, "{length}");
            let second = fill(&under_way, length, 2);
            let part = second.iter().flatten().map(|call| call.amount()).sum::<usize>();
            assert!(part <= MOST_UNDER_WAY / 2 && part + length.max(SMALL_CALL) >= MOST_UNDER_WAY / 2, "{length}");
            // A few small calls of each session go on.
            assert!(count_calls(&under_way, (SMALL_CALL, 1), 0, Party(1)).is_ok());
            drop((first, second));
            assert!(count_calls(&under_way, (MOST_UNDER_WAY, 1), 0, Party(1)).is_ok(), "all is given back");
        }
    }
}
