//! One downstream client on standard input and output: the loop that drives a door and a hub.
//!
//! One `select!` waits for all events. After each event, all actions are performed before the next event. The loop
//! stops reading while the client does not read (output above the high-water mark) and when the session closes. Calls
//! in flight are then finished or failed, their responses are written, and the loop ends. Every stop (end of input,
//! signal, a goodbye of the dialect) takes this one path.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gladhand_core::operations::{AgentEvent, CallId, CapabilityEvent, Failure, FailureKind, Notice, Outcome, Reply};
use gladhand_core::wire::{Line, Lines};
use gladhand_dialects::{Action, Dialect, Door, Opening, Output, Stop};
use gladhand_hub::{Answer, Asking, Busy, CallName, Caller, SessionId, Settling, Visit, Work};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

use crate::Service;
use crate::busy_poll::{BUSY_POLL, BusyPollPolicy};
use crate::following::Following;
use crate::outbox::Outbox;
use crate::questions::Questions;
use crate::session_log::SessionLog;
use crate::signals::{self, Signals};
use crate::stdio::{self, Input};
use gladhand_session::clock::Clock;
use gladhand_session::violations;

/// Above this many unsent bytes, the loop reads no input.
const HIGH_WATER: usize = 1024 * 1024;

/// While the dialect holds more than this many bytes for calls in flight, the loop reads no input.
const MOST_HELD: usize = 64 * 1024 * 1024;

/// How many notices may wait for a client that does not read. Later ones are dropped.
const NOTICES: usize = 256;

/// How long unread output may delay the end.
const FLUSH_GRACE: Duration = Duration::from_secs(2);

/// How a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Normally.
    Cleanly,
    /// The downstream stopped reading.
    DownstreamGone,
    /// A second signal came: exit immediately with this status.
    AtOnce(u8),
}

/// Serves one downstream until it ends.
pub async fn serve(service: Service, clock: Clock, mut input: Input, mut output: stdio::Output) -> io::Result<Ended> {
    let mut signals = Signals::listen()?;
    let mut door = service.door(&clock);
    if let Some(dialect) = door.dialect() {
        announce(&service, &mut door, dialect);
    }
    let mut lines = Lines::with_limit(service.bounds().line_bytes);
    if service.may_ask() || service.hub().agent().is_some() {
        let preparing = prepare(&service, &mut door, &mut input, &mut lines);
        tokio::select! {
            prepared = preparing => prepared?,
            stop = signals.next() => return Ok(Ended::AtOnce(signals::exit_status(stop))),
        }
    }
    let (hub, drain) = (service.hub().clone(), service.bounds().drain);
    let (sender, mut reports) = mpsc::channel(NOTICES);
    let mut changes = hub.changes();
    let (following, visit) = (Arc::new(Following::default()), Arc::new(hub.visit()));
    let mut session = Session {
        door,
        caller: Arc::new(Reports { to_loop: sender, following: Arc::clone(&following), visit: Arc::clone(&visit) }),
        visit,
        following: Follows(Arc::clone(&following)),
        service,
        client: String::new(),
        log: None,
        clock,
        questions: Questions::default(),
        outbox: Outbox::default(),
        tasks: JoinSet::new(),
        running: HashMap::new(),
        drain,
        closing: None,
        signalled: false,
    };
    let access = Arc::clone(session.service.access());
    let mut epoch = access.epoch();
    if session.door.dialect().is_some() {
        // The passes may have changed while the first line was awaited.
        session.readmit();
    }
    session.warn_of_any_token();
    let mut input_open = true;
    // Since when the client reads nothing, so that the loop reads no input.
    let mut stuck: Option<tokio::time::Instant> = None;
    let mut busy_poll = BusyPollPolicy::default();
    loop {
        session.clock.tick();
        let caught_up = session.work_off(&mut lines);
        if !session.outbox.waiting().is_empty() {
            match output.write(session.outbox.waiting()) {
                Ok(written) => {
                    stuck = stuck.filter(|_| written == 0);
                    session.sent(written);
                }
                Err(error) if stdio::is_gone(&error) => return Ok(Ended::DownstreamGone),
                Err(error) => return Err(error),
            }
        }
        if !caught_up && session.may_read() {
            continue;
        }
        let idle = session.outbox.waiting().is_empty();
        if session.closing.is_some() && idle && session.tasks.is_empty() {
            if session.door.in_flight().is_empty() {
                return Ok(Ended::Cleanly);
            }
            session.fail_everything();
            continue;
        }
        busy_poll.replied(Instant::now());
        if busy_poll.should_poll() && idle && input_open && session.may_read() {
            let came = input.read_soon(lines.spare(0), BUSY_POLL);
            busy_poll.polled(came);
            if came {
                continue;
            }
        }
        let is_stuck = input_open && session.closing.is_none() && !session.has_room();
        stuck = is_stuck.then(|| stuck.unwrap_or_else(tokio::time::Instant::now));
        let look_at = stuck.map(|since| since + FLUSH_GRACE);
        let wake_at = session.next_deadline();
        tokio::select! {
            biased;
            stop = signals.next() => {
                if session.signalled {
                    return Ok(Ended::AtOnce(signals::exit_status(stop)));
                }
                session.signalled = true;
                session.stop(stop);
            }
            Some(done) = session.tasks.join_next_with_id(), if !session.tasks.is_empty() => {
                // Reports from before the end of a call must be written before its response.
                while let Ok(report) = reports.try_recv() {
                    // If the client does not read, notices are dropped to save memory.
                    if session.has_room() || matches!(report, Report::Questions(..)) {
                        session.report(report);
                    }
                }
                session.pass_events_on(|_| true);
                session.finished(done);
            }
            () = access.changed_after(epoch), if session.has_tokens() => {
                epoch = access.epoch();
                session.readmit();
            }
            () = following.arrived(), if session.has_room() => session.pass_events_on(Session::has_room),
            Some(report) = reports.recv(), if session.has_room() => session.report(report),
            changed = changes.recv(), if session.has_room() => match changed {
                Ok(notice) => session.notice(notice),
                Err(RecvError::Lagged(_)) => session.missed_changes(),
                // The hub lives as long as the session, so this does not happen.
                Err(RecvError::Closed) => session.stop(Stop::Terminated),
            },
            written = output.writable(), if !idle => written?,
            // While the loop reads no input, only this shows that the client is gone.
            gone = output.gone(), if idle && !session.may_read() => {
                gone?;
                return Ok(Ended::DownstreamGone);
            }
            // A client that left without reading does not return, even if some of its lines were not processed.
            () = sleep_until(look_at), if look_at.is_some() => {
                stuck = None;
                if input.is_hung_up() {
                    input_open = false;
                    session.stop(Stop::InputClosed);
                }
            }
            () = sleep_until(wake_at), if wake_at.is_some() => {
                session.clock.tick();
                if session.closing.is_some_and(|closing| closing.flush_until <= tokio::time::Instant::now()) {
                    return Ok(Ended::DownstreamGone);
                }
                session.wake();
            }
            read = input.read(lines.spare(0)), if input_open && session.may_read() => match read {
                Ok(0) => {
                    input_open = false;
                    if let Some(line) = lines.last_line() {
                        session.clock.tick();
                        session.receive(line);
                    }
                    session.stop(Stop::InputClosed);
                }
                Ok(_) => busy_poll.woken(Instant::now()),
                Err(error) if stdio::is_gone(&error) => {
                    input_open = false;
                    session.stop(Stop::InputClosed);
                }
                Err(error) => return Err(error),
            },
        }
    }
}

/// Looks at the first line, so that upstreams are opened with this client's features.
async fn prepare(service: &Service, door: &mut Door, input: &mut Input, lines: &mut Lines) -> io::Result<()> {
    let was_pinned = door.dialect().is_some();
    let opening = loop {
        if let Some(line) = lines.peek() {
            break door.settle(line);
        }
        if lines.pending() > service.bounds().line_bytes {
            break None;
        }
        // The main loop sees the end of input again. A client that leaves without a line needs no upstream.
        if input.read(lines.spare(0)).await? == 0 {
            match lines.pending() {
                0 => return Ok(()),
                _ => break None,
            }
        }
    };
    if let Some(Opening { dialect, .. }) = &opening {
        if let Some(settling) = service.hub().agent().filter(|_| dialect.has_agent).and_then(|agent| agent.settling()) {
            settling.await;
        }
        if !was_pinned {
            announce_decided(service, door, dialect);
        }
    }
    service.hub().expects(&opening.map(|opening| opening.offer).unwrap_or_default());
    service.open_upstreams().await;
    door.offer(service.identified(), service.menu());
    Ok(())
}

/// Announces a dialect that the first line decided.
fn announce_decided(service: &Service, door: &mut Door, dialect: &Dialect) {
    tracing::info!(dialect = dialect.name, "the first line decided the dialect");
    announce(service, door, dialect);
}

/// Tells the providers which dialect is spoken before the session opens: some offer more in certain dialects.
fn announce(service: &Service, door: &mut Door, dialect: &Dialect) {
    service.hub().speaks(dialect.name);
    door.offer(service.identified(), service.menu());
}

async fn sleep_until(deadline: Option<tokio::time::Instant>) {
    if let Some(deadline) = deadline {
        tokio::time::sleep_until(deadline).await;
    }
}

/// A message from a provider to the caller.
#[derive(Debug)]
enum Report {
    Notice(Notice),
    Questions(Option<CallId>, Vec<Asking>),
}

/// The channel from providers to the loop.
#[derive(Debug)]
struct Reports {
    to_loop: mpsc::Sender<Report>,
    following: Arc<Following>,
    visit: Arc<Visit>,
}

/// The loop's end of the event queue. Dropping it releases waiting providers.
#[derive(Debug)]
struct Follows(Arc<Following>);

impl Drop for Follows {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Caller for Reports {
    fn tell(&self, notice: Notice) {
        let _ = self.to_loop.try_send(Report::Notice(notice));
    }

    fn event(&self, event: AgentEvent) {
        self.following.push(Notice::Agent(event));
    }

    fn push(&self, event: CapabilityEvent) {
        self.following.push(Notice::Capability(event));
    }

    fn keeping_up(&self) -> Option<Settling> {
        self.following.keeping_up()
    }

    fn has_room_for_events(&self) -> bool {
        self.following.has_room()
    }

    fn session(&self) -> SessionId {
        self.visit.id()
    }

    fn ask(&self, call: Option<CallId>, questions: Vec<Asking>) {
        use mpsc::error::TrySendError;
        if let Err(TrySendError::Full(Report::Questions(_, questions))) =
            self.to_loop.try_send(Report::Questions(call, questions))
        {
            for asking in questions {
                let busy = Failure::new(FailureKind::Busy, "too much is waiting for this caller");
                let _ = asking.answer.send(Err(busy));
            }
        }
    }
}

/// When a closing session gives up.
#[derive(Debug, Clone, Copy)]
struct Closing {
    /// When calls in flight fail.
    fail_at: tokio::time::Instant,
    /// When unread output is abandoned.
    flush_until: tokio::time::Instant,
}

/// A call that runs as a task.
struct Running {
    call: CallId,
    task: AbortHandle,
    /// Marks the call as running.
    _busy: Busy,
}

/// Everything about the session that is not a byte channel.
struct Session {
    door: Door,
    service: Service,
    /// The name that the client declares; empty until then.
    client: String,
    /// Present while the session is open.
    log: Option<SessionLog>,
    clock: Clock,
    caller: Arc<dyn Caller>,
    visit: Arc<Visit>,
    following: Follows,
    questions: Questions,
    outbox: Outbox,
    tasks: JoinSet<Outcome>,
    running: HashMap<tokio::task::Id, Running>,
    drain: Duration,
    closing: Option<Closing>,
    signalled: bool,
}

impl Session {
    fn may_read(&self) -> bool {
        self.closing.is_none() && self.has_room() && self.door.held() < MOST_HELD
    }

    /// Whether the client keeps up with reading.
    fn has_room(&self) -> bool {
        self.outbox.waiting().len() < HIGH_WATER
    }

    /// Processes lines until none is left (true) or reading must stop (false).
    fn work_off(&mut self, lines: &mut Lines) -> bool {
        while self.may_read() {
            let Some(line) = lines.next_line() else { return true };
            self.receive(line);
            lines.end_lines_at(self.door.text().terminator);
        }
        false
    }

    /// The client has read this many bytes. While it reads, the end waits for it.
    fn sent(&mut self, written: usize) {
        self.outbox.sent(written);
        if let Some(closing) = &mut self.closing
            && written > 0
        {
            closing.flush_until = closing.flush_until.max(tokio::time::Instant::now() + FLUSH_GRACE);
        }
    }

    fn receive(&mut self, line: Line<'_>) {
        tracing::trace!(bytes = if let Line::Bytes(bytes) = line { bytes.len() } else { 0 }, "line in");
        let opening = match line {
            Line::Bytes(bytes) if self.door.dialect().is_none() => self.door.settle(bytes),
            _ => None,
        };
        if let Some(Opening { dialect, .. }) = &opening {
            announce_decided(&self.service, &mut self.door, dialect);
            self.readmit();
        }
        let mut out = Output::onto(self.outbox.lend());
        self.door.receive(line, &mut self.clock.ambient(), &mut out);
        if opening.is_some() {
            self.warn_of_any_token();
        }
        let breaches = violations::of_actions(&out.actions);
        self.perform(out);
        if !breaches.is_empty() {
            let line = if let Line::Bytes(bytes) = line { bytes } else { &[] };
            if violations::note_client(self.service.hub(), &self.client, &breaches, line) {
                self.close(Duration::ZERO);
            }
        }
    }

    fn warn_of_any_token(&self) {
        if self.door.accepts_any_token() {
            // The user who started us may use any token.
            tracing::info!("{}", self.service.advised("no token is configured: any token is accepted"));
        }
    }

    /// Whether the downstream came in with a token, or may have to.
    fn has_tokens(&self) -> bool {
        self.door.dialect().is_some_and(|dialect| dialect.has_tokens)
    }

    /// Applies the current passes to the session.
    fn readmit(&mut self) {
        let passes = self.service.access().passes();
        self.clock.tick();
        self.step(|door, ambient, out| door.readmit(&passes, ambient, out));
    }

    fn notice(&mut self, notice: Notice) {
        self.clock.tick();
        self.step(|door, ambient, out| door.notice(notice, ambient, out));
    }

    fn report(&mut self, report: Report) {
        match report {
            Report::Notice(notice) => self.notice(notice),
            Report::Questions(call, questions) => {
                let asked = self.questions.number(questions);
                self.clock.tick();
                self.step(|door, ambient, out| door.ask(call, asked, ambient, out));
            }
        }
    }

    /// Writes events while there are any and `may_go_on` agrees.
    fn pass_events_on(&mut self, may_go_on: impl Fn(&Self) -> bool) {
        while may_go_on(self)
            && let Some(event) = self.following.0.pop()
        {
            self.notice(event);
        }
    }

    /// Notices were lost, so every list may have changed.
    fn missed_changes(&mut self) {
        for notice in [Notice::ToolsChanged, Notice::ResourcesChanged, Notice::PromptsChanged] {
            self.notice(notice);
        }
    }

    fn stop(&mut self, stop: Stop) {
        tracing::info!(why = ?stop, "stopping");
        self.clock.tick();
        // A second stop while closing: do not wait for calls in flight any longer.
        let again = self.closing.is_some();
        self.step(|door, ambient, out| door.stop(stop, ambient, out));
        self.close(if again { Duration::ZERO } else { self.drain });
    }

    /// A deadline has passed.
    fn wake(&mut self) {
        if self.closing.is_some_and(|closing| closing.fail_at <= tokio::time::Instant::now()) {
            self.fail_everything();
        }
        if self.door.deadline().is_some_and(|deadline| deadline <= self.clock.now().elapsed) {
            self.step(Door::wake);
        }
    }

    fn finished(&mut self, done: Result<(tokio::task::Id, Outcome), tokio::task::JoinError>) {
        let (task, outcome) = match done {
            Ok((task, outcome)) => (task, outcome),
            // A cancelled task has no waiting caller. A panic is our fault, and its caller receives a failure.
            Err(error) => (error.id(), Err(Failure::panicked())),
        };
        if let Some(Running { call, .. }) = self.running.remove(&task) {
            self.clock.tick();
            self.step(|door, ambient, out| door.resolve(call, outcome, ambient, out));
        }
    }

    fn step(&mut self, step: impl FnOnce(&mut Door, &mut gladhand_dialects::Ambient<'_>, &mut Output<'_>)) {
        let mut out = Output::onto(self.outbox.lend());
        step(&mut self.door, &mut self.clock.ambient(), &mut out);
        self.perform(out);
    }

    /// Performs all actions of a step, and the actions that follow, until none is left.
    fn perform(&mut self, mut out: Output<'_>) {
        while !out.actions.is_empty() {
            for action in std::mem::take(&mut out.actions) {
                match action {
                    Action::Deliver(call, agreement) => {
                        let (id, name) = (call.id, self.visit.count(&call.operation));
                        let answer = self.service.hub().answer(call, &agreement, &self.caller);
                        // Events from before the response are written before it.
                        while let Some(event) = self.following.0.pop() {
                            self.door.notice(event, &mut self.clock.ambient(), &mut out);
                        }
                        match answer {
                            Answer::Now(outcome) => {
                                self.door.resolve(id, outcome, &mut self.clock.ambient(), &mut out);
                            }
                            Answer::AsTask(work) => {
                                self.door.goes_on_as_task(id, &mut self.clock.ambient(), &mut out);
                                self.spawn(id, name, work);
                            }
                            Answer::Later(work) | Answer::TaskLater(work) => self.spawn(id, name, work),
                        }
                    }
                    Action::Cancel(call) => self.cancel(call),
                    Action::Opened(agreement) => {
                        // Requests that carry their own terms are one session on this channel.
                        if self.log.is_none() || !agreement.per_request {
                            drop(self.log.take());
                            self.log = Some(SessionLog::open(&agreement, self.visit.id()));
                        }
                        self.visit.opened(&agreement, None);
                        self.client.clone_from(&agreement.client.name);
                        if !agreement.per_request {
                            self.service.hub().joined(&self.caller);
                        }
                    }
                    Action::Refused(refusal) => tracing::warn!(%refusal, "no session"),
                    Action::Dropped(what) => tracing::debug!(what, "dropped"),
                    Action::Declined(declined) => {
                        violations::write_down(self.service.hub(), &declined, None, self.caller.session());
                    }
                    Action::Passed(what) => tracing::debug!(what, "let pass"),
                    Action::Answered(question, answered) => self.questions.answered(question, answered),
                    Action::Unwatch(uri, id) => self.service.hub().unwatch(&uri, id),
                    Action::RootsChanged => self.service.hub().roots_changed(self.caller.session()),
                    // Standard output is the only stream, and stays open.
                    Action::LetGo(..) => {}
                    Action::Close(grace) => {
                        tracing::info!(grace_s = grace.as_secs(), "the downstream said goodbye");
                        self.close(grace);
                    }
                }
            }
        }
        self.outbox.put_back(out.wire);
    }

    fn spawn(&mut self, call: CallId, name: CallName, work: Work) {
        let task = self.tasks.spawn(work);
        self.running.insert(task.id(), Running { call, task, _busy: self.visit.busy(name) });
    }

    fn cancel(&mut self, call: CallId) {
        self.running.retain(|_, running| {
            if running.call == call {
                running.task.abort();
            }
            running.call != call
        });
    }

    fn close(&mut self, grace: Duration) {
        let now = tokio::time::Instant::now();
        let fail_at = self.closing.map_or(now + grace, |closing| closing.fail_at.min(now + grace));
        if self.closing.is_none()
            && let Some(agent) = self.service.hub().agent()
        {
            // Stopped turns may still send events.
            let closing = agent.closing();
            self.tasks.spawn(async {
                closing.await;
                Ok(Reply::Done)
            });
        }
        // Without a grace period, the loop fails calls in flight when it checks its deadlines. Here, the responses of
        // the current step are not written yet.
        self.closing = Some(Closing { fail_at, flush_until: fail_at + FLUSH_GRACE });
    }

    /// The grace period is over: every unfinished call fails with an error that says so.
    fn fail_everything(&mut self) {
        self.abort_all();
        loop {
            // Newest first: ending a running call would start the next call in the dialect's queue.
            let mut calls = self.door.in_flight();
            calls.sort_unstable();
            if calls.is_empty() {
                break;
            }
            for call in calls.into_iter().rev() {
                let failure = Failure::new(FailureKind::Stopping, "the session ended before the call did");
                self.step(|door, ambient, out| door.resolve(call, Err(failure), ambient, out));
            }
            self.abort_all();
        }
    }

    fn abort_all(&mut self) {
        self.running.drain().for_each(|(_, running)| running.task.abort());
        self.tasks.detach_all();
    }

    fn next_deadline(&self) -> Option<tokio::time::Instant> {
        let side = self.door.deadline().map(|elapsed| self.clock.instant(elapsed));
        let closing = self.closing.map(|closing| {
            if self.tasks.is_empty() { closing.flush_until } else { closing.fail_at.min(closing.flush_until) }
        });
        side.into_iter().chain(closing).min()
    }
}
