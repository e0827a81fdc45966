//! One peer behind HTTP: our side towards it, the ways back to the peer, and what is running for it.
//!
//! This file is what others may do with a session; how that side is driven is in `driver`.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Poll, Waker};
use std::time::Instant;

use bytes::Bytes;
use gladhand_core::operations::{CallId, Failure, FailureKind, Notice, ScopeRecord};
use gladhand_dialects::mcp::{McpServer, Message};
use gladhand_dialects::shares::Holder;
use gladhand_dialects::{Breach, Lane, Server, Stop};
use gladhand_hub::{Asking, Busy, Caller, Portion, SessionId, Visit};
use tokio::task::AbortHandle;

use super::alarm::Alarm;
use super::events::Events;
use super::lanes::Lanes;
use super::pending_response::PendingResponse;
use super::session_id::SessionId as WireId;
use super::shared::{Shared, count_calls};
use super::stream::{Numbering, ReaderToken, Stream, Taken};
use super::who::Who;
use crate::edges::clock::Clock;
use crate::edges::questions::Questions;
use crate::edges::session_log::SessionLog;
use crate::edges::violations;

/// What a session's side may keep for calls in flight before it takes no more.
const MOST_HELD: usize = 64 * 1024 * 1024;

/// How a peer uses HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Manner {
    /// Streamable HTTP with a session: streams can be resumed, and a lost connection cancels nothing.
    Session,
    /// Streamable HTTP without one: whoever lets go of an exchange gives it up.
    Stateless,
    /// One stream for everything that we say (2024-11-05).
    Pair,
}

/// What became of a message that was posted.
#[derive(Debug)]
pub(super) enum Posted {
    /// It wants no answer.
    Accepted,
    /// Its answer.
    Answer(Bytes),
    /// Its answer takes a while, or is more than one line.
    Later(PendingResponse),
    /// Too much is under way.
    Busy,
}

/// One peer.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) manner: Manner,
    /// Who opened it; nobody else may use it.
    pub(super) who: Who,
    /// The scopes that its content needs. Another token of the principal may lack some of them.
    pub(super) record: Arc<ScopeRecord>,
    pub(super) shared: Arc<Shared>,
    /// Itself among all sessions.
    pub(super) visit: Visit,
    /// Whether it broke a rule that is enforced.
    refused: AtomicBool,
    /// Itself, for whoever answers calls.
    pub(super) this: Weak<Self>,
    inner: Mutex<Inner>,
}

/// What changes, under one lock.
#[derive(Debug)]
pub(super) struct Inner {
    pub(super) server: McpServer,
    pub(super) clock: Clock,
    pub(super) lanes: Lanes,
    /// Calls that were delivered and have not ended.
    pub(super) running: BTreeMap<CallId, Running>,
    pub(super) questions: Questions,
    /// The moment for which a timer is set, and the timer.
    pub(super) alarm: Alarm,
    used: Instant,
    /// What the downstream calls itself, once it has.
    pub(super) client: String,
    /// While it is open.
    pub(super) log: Option<SessionLog>,
    /// Nothing new is taken any more.
    pub(super) ended: bool,
}

/// A call that was delivered.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) lane: Lane,
    /// Whose it is, where the session is not somebody's.
    pub(super) who: Option<Who>,
    /// How to stop it, once it is a task.
    pub(super) task: Option<AbortHandle>,
    /// What the message that it came with takes of the bound of all sessions, if that is large.
    pub(super) under_way: Option<Arc<Portion>>,
    /// Shows it as running, unless it is answered at once.
    pub(super) busy: Option<Busy>,
}

impl Session {
    pub(super) fn new(manner: Manner, shared: Arc<Shared>, who: Who) -> Arc<Self> {
        let clock = Clock::start();
        let numbering = if manner == Manner::Session { Numbering::Numbered } else { Numbering::Plain };
        let inner = Inner {
            server: shared.server(manner, who.party, &clock),
            clock,
            lanes: Lanes::new(numbering, shared.config.replay_bytes, shared.kept.portion(who.party)),
            running: BTreeMap::new(),
            questions: Questions::default(),
            alarm: Alarm::default(),
            used: Instant::now(),
            client: String::new(),
            log: None,
            ended: false,
        };
        let visit = match manner {
            Manner::Stateless => shared.hub().visit_without_session(),
            Manner::Session | Manner::Pair => shared.hub().visit(),
        };
        Arc::new_cyclic(|this| {
            let (this, inner) = (Weak::clone(this), Mutex::new(inner));
            let record = Arc::default();
            Self { manner, who, record, shared, visit, refused: AtomicBool::new(false), this, inner }
        })
    }

    /// What there is has changed: whoever comes without a session is offered what there is now.
    pub(super) fn offer_anew(&self) {
        if self.manner == Manner::Stateless {
            let service = &self.shared.service;
            self.lock().server.offer(service.identified(), service.menu());
        }
    }

    /// Whether a message carries an opening that was agreed on before, of this version.
    pub(super) fn knows(&self, message: &Message<'_>, version: &str) -> bool {
        self.lock().server.knows(message, version)
    }

    /// A message came. In a session its sender is the principal of the session, but may have another token with other
    /// scopes.
    pub(super) fn post(&self, message: Message<'_>, who: &Who) -> Posted {
        // On a pair of addresses the answer goes elsewhere.
        let asks = self.manner != Manner::Pair && message.wants_answer();
        let (inner, lane, under_way) = {
            let mut inner = self.lock();
            inner.touch();
            // Who gives something up, or answers a question of ours, is never in the way.
            let is_busy =
                asks && (inner.lanes.under_way() >= self.most_exchanges() || !self.shared.streams.admits(who.party));
            // Those without a session share a side, and have only the bound that is shared fairly.
            let holds_much = self.manner != Manner::Stateless && inner.server.held() > MOST_HELD;
            if inner.ended || is_busy || holds_much {
                return Posted::Busy;
            }
            let under_way = match message.wants_answer() {
                true => count_calls(&self.shared.under_way, message.size(), self.calls_beside(&inner), who.party),
                false => Ok(None),
            };
            let Ok(under_way) = under_way else { return Posted::Busy };
            let lane = if self.manner == Manner::Pair { Lane::MAIN } else { inner.lanes.open() };
            (inner, lane, under_way)
        };
        let (mut breaches, text) = (Vec::new(), message.text());
        let carried = self.drive_on(inner, lane, Some(who), asks, |server, ambient, out| {
            server.take(message, ambient, out);
            breaches = violations::of_actions(&out.actions);
        });
        if !breaches.is_empty() {
            self.broke(&breaches, text.as_bytes());
        }
        let mut inner = self.lock();
        if under_way.is_some() {
            let calls = inner.running.values_mut().filter(|running| running.lane == lane);
            calls.filter(|running| running.under_way.is_none()).for_each(|call| call.under_way.clone_from(&under_way));
        }
        if lane == Lane::MAIN {
            return Posted::Accepted;
        }
        if carried.is_none()
            && let Some(line) = inner.lanes.take_answer(lane)
        {
            return Posted::Answer(line);
        }
        if !asks {
            inner.lanes.remove(lane);
            return Posted::Accepted;
        }
        if self.manner == Manner::Stateless {
            inner.lanes.belongs_to(lane, who.clone());
        }
        drop(inner);
        Posted::Later(PendingResponse::new(self.held(), lane, carried))
    }

    /// Waits for the answer of an exchange: `None` once it has become anything but an answer.
    pub(super) fn poll_answer(&self, lane: Lane, waker: &Waker) -> Poll<Option<Bytes>> {
        self.lock().lanes.poll_answer(lane, waker)
    }

    /// Reads an exchange as a stream, unless it is over.
    pub(super) fn stream(&self, lane: Lane) -> Option<Events> {
        let reader = self.lock().lanes.get(lane)?.attach();
        Some(self.events(lane, reader))
    }

    /// Nobody waits for the answer of an exchange any more.
    pub(super) fn give_up(&self, lane: Lane) {
        let mut inner = self.lock();
        if inner.lanes.take_answer(lane).is_some() {
            return;
        }
        // As if it had been a stream, and its reader had gone.
        let reader = inner.lanes.get(lane).map(Stream::attach);
        drop(inner);
        if let Some(reader) = reader {
            self.let_go(lane, reader);
        }
    }

    /// The downstream broke rules. Where there is no session, there is none to refuse.
    fn broke(&self, breaches: &[Breach], body: &[u8]) {
        let client = self.lock().client.clone();
        if violations::note_client(self.shared.hub(), &client, breaches, body) && self.manner != Manner::Stateless {
            self.refused.store(true, Ordering::Relaxed);
            if self.manner == Manner::Pair {
                self.end(Stop::Terminated);
            }
        }
    }

    /// Whether it broke a rule that is enforced, so that whoever knows it by its id is to end it.
    pub(super) fn is_refused(&self) -> bool {
        self.refused.load(Ordering::Relaxed)
    }

    /// Reads the main stream; whoever read it before reads it no more.
    pub(super) fn listen(&self) -> Events {
        let mut inner = self.lock();
        inner.touch();
        let reader = inner.lanes.main().attach();
        drop(inner);
        self.events(Lane::MAIN, reader)
    }

    /// Reads a stream on from an event, if the rest is still kept.
    pub(super) fn resume(&self, lane: Lane, last_seen: u64) -> Option<Events> {
        let mut inner = self.lock();
        inner.touch();
        let reader = inner.lanes.get(lane)?.resume(last_seen)?;
        drop(inner);
        Some(self.events(lane, reader))
    }

    /// What there is for the reader of a stream.
    pub(super) fn take(&self, lane: Lane, reader: ReaderToken, waker: &Waker) -> Taken {
        self.lock().lanes.take(lane, reader, waker)
    }

    /// The reader of a stream is gone.
    pub(super) fn let_go(&self, lane: Lane, reader: ReaderToken) {
        let mut inner = self.lock();
        inner.touch();
        let unanswered = inner.lanes.detach(lane, reader);
        if self.manner == Manner::Stateless {
            inner.lanes.remove(lane);
            drop(inner);
            if unanswered {
                self.drive(Lane::MAIN, None, |server, ambient, out| server.hung_up(lane, ambient, out));
            }
        }
    }

    /// Something changed for everybody.
    pub(super) fn notice(&self, notice: Notice) {
        self.drive(Lane::MAIN, None, |server, ambient, out| server.notice(notice, ambient, out));
    }

    /// Takes nothing new, ends what only waits for news; calls in flight go on.
    pub(super) fn stop(&self, stop: Stop) {
        self.drive(Lane::MAIN, None, |server, ambient, out| server.stop(stop, ambient, out));
        let mut inner = self.lock();
        inner.ended = true;
        if self.manner != Manner::Pair || inner.running.is_empty() {
            inner.lanes.end(Lane::MAIN);
        }
    }

    /// Ends the session: calls in flight are failed, streams are ended.
    pub(super) fn end(&self, stop: Stop) {
        if !self.lock().ended {
            self.stop(stop);
        }
        self.fail_everything();
        let mut inner = self.lock();
        inner.questions.forget();
        inner.lanes.end_all();
        inner.alarm.stop();
        inner.log = None;
    }

    /// Ends the exchanges of some, where many share a session: their calls in flight are failed, their streams are ended.
    pub(super) fn end_exchanges(&self, is_theirs: impl Fn(&Who) -> bool) {
        let calls: Vec<_> = {
            let mut inner = self.lock();
            let theirs = inner.running.extract_if(.., |_, running| running.who.as_ref().is_some_and(&is_theirs));
            theirs.map(|(call, running)| (call, running.task)).collect()
        };
        // The newest first: ending one that runs would start the next of a dialect's queue.
        for (call, task) in calls.into_iter().rev() {
            task.iter().for_each(AbortHandle::abort);
            let failure = Failure::new(FailureKind::Stopping, "the token is not valid any more");
            self.drive(Lane::MAIN, None, |server, ambient, out| server.resolve(call, Err(failure), ambient, out));
        }
        let unanswered = self.lock().lanes.unanswered(&is_theirs);
        for lane in unanswered {
            self.drive(Lane::MAIN, None, |server, ambient, out| server.hung_up(lane, ambient, out));
            self.lock().lanes.end(lane);
        }
    }

    /// Whether nobody has used it since a moment, and nobody is waiting for anything. Also tidies up.
    pub(super) fn is_idle(&self, since: Instant, answers_kept_since: Instant) -> bool {
        let mut inner = self.lock();
        inner.lanes.forget(answers_kept_since);
        inner.is_idle() && inner.used < since
    }

    /// Itself as one of many, under its id.
    pub(super) fn holder(&self, id: WireId) -> Holder<WireId, Instant> {
        let inner = self.lock();
        Holder { id, party: self.who.party, used: inner.used, is_idle: inner.is_idle() }
    }

    fn fail_everything(&self) {
        loop {
            let calls = {
                let mut inner = self.lock();
                let running = std::mem::take(&mut inner.running);
                running.into_values().filter_map(|running| running.task).for_each(|task| task.abort());
                let mut calls = inner.server.in_flight();
                calls.sort_unstable();
                calls
            };
            if calls.is_empty() {
                return;
            }
            // The newest first: ending one that runs would start the next of a dialect's queue.
            for call in calls.into_iter().rev() {
                let failure = Failure::new(FailureKind::Stopping, "the session ended before the call did");
                self.drive(Lane::MAIN, None, |server, ambient, out| server.resolve(call, Err(failure), ambient, out));
            }
        }
    }

    /// How many exchanges may be under way. Without a session everybody shares what there is for all.
    fn most_exchanges(&self) -> usize {
        match self.manner {
            Manner::Stateless => usize::MAX,
            Manner::Session | Manner::Pair => self.shared.config.streams_per_session,
        }
    }

    /// How many calls of the session are under way. Those without a session have a bound on calls of their own.
    fn calls_beside(&self, inner: &Inner) -> usize {
        if self.manner == Manner::Stateless { 0 } else { inner.running.len() }
    }

    fn events(&self, lane: Lane, reader: ReaderToken) -> Events {
        let mut inner = self.lock();
        let party = inner.lanes.owner(lane).unwrap_or(&self.who).party;
        inner.lanes.count_unwritten(lane, || self.shared.unwritten.portion(party));
        drop(inner);
        Events::new(self.held(), lane, reader, party)
    }

    /// Itself, by whoever holds it already.
    fn held(&self) -> Arc<Self> {
        self.this.upgrade().expect("a session that is being used is there")
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Whether nobody waits for anything.
    fn is_idle(&self) -> bool {
        self.running.is_empty() && !self.lanes.is_busy()
    }

    /// Somebody uses it now.
    pub(super) fn touch(&mut self) {
        self.clock.tick();
        self.used = self.clock.instant(self.clock.now().elapsed).into_std();
    }
}

impl Caller for Session {
    fn tell(&self, notice: Notice) {
        let has_room = self.lock().has_room(notice.about());
        if has_room || matches!(notice, Notice::ComeBackLater(..)) {
            self.notice(notice);
        }
    }

    fn session(&self) -> SessionId {
        self.visit.id()
    }

    fn ask(&self, call: Option<CallId>, questions: Vec<Asking>) {
        let asked = {
            let mut inner = self.lock();
            if inner.ended {
                return;
            }
            inner.questions.number(questions)
        };
        self.drive(Lane::MAIN, None, |server, ambient, out| server.ask(call, asked, ambient, out));
    }
}
