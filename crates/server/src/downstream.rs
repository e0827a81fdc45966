//! Serves one downstream client on standard input and output.
//!
//! One `select!` waits for all events. After each event, all actions are performed before the next event. The loop
//! stops reading while the client does not read (output above the high-water mark) and when the session closes. Calls
//! in flight are then finished or failed, their responses are written, and the loop ends. Every reason to stop (end of
//! input, a signal, the closing message of the dialect) takes this path.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use futures_util::future::{AbortHandle, Abortable, Aborted};
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use gladhand_core::negotiation::Refusal;
use gladhand_core::operations::{
    AgentEvent, Call, CallId, CapabilityEvent, Failure, FailureKind, Notice, Outcome, Reply,
};
use gladhand_core::wire::{Frames, Lane, Line, Lines, Outbox};
use gladhand_dialects::{Dialect, Door, Opening, Server, Stop};
use gladhand_hub::{Asking, Caller, Hub, SessionId, Settling, Work};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;

use crate::Service;
use crate::busy_poll::{BUSY_POLL, BusyPollPolicy};
use crate::driver::{Continuation, Driver, DriverHandle, Registration, Report, Transport, poll_guarded};
use crate::event_queue::EventQueue;
use crate::signals::{self, Signals};
use crate::stdio::{self, Input};
use gladhand_session::clock::Clock;

/// Above this many unsent bytes, the loop reads no input.
const HIGH_WATER: usize = 1024 * 1024;

/// While the dialect holds more than this many bytes for calls in flight, the loop reads no input.
const MOST_HELD: usize = 64 * 1024 * 1024;

/// How many notices may wait for a client that does not read. Later ones are dropped.
const NOTICES: usize = 256;

/// Responses of calls that have ended at about the same time, of which one system call writes at most so many.
const WRITTEN_TOGETHER: usize = 64;

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
    let hub = service.hub().clone();
    let (sender, reports) = mpsc::channel(NOTICES);
    let mut changes = hub.changes();
    let (event_queue, has_reported) = (Arc::new(EventQueue::default()), Arc::<AtomicBool>::default());
    let registration = Registration::new(hub.clone(), hub.visit(), service.tap());
    let channel = Channel {
        hub,
        outbox: Outbox::default(),
        running: FuturesUnordered::new(),
        reports,
        has_reported: Arc::clone(&has_reported),
        event_queue: EventQueueReader(Arc::clone(&event_queue)),
        closing: None,
    };
    let reporter = Reports {
        to_loop: sender,
        has_reported,
        event_queue: Arc::clone(&event_queue),
        session: registration.session(),
    };
    let mut session = Session {
        driver: Driver::new(door, clock, channel, Arc::clone(&registration)),
        caller: Arc::new(reporter),
        registration,
        service,
        signalled: false,
    };
    let access = Arc::clone(session.service.access());
    let mut epoch = access.epoch();
    if session.driver.side.dialect().is_some() {
        // The passes may have changed while the first line was awaited.
        session.set_passes();
    }
    session.log_any_token();
    let mut input_open = true;
    // Since when the client reads nothing, so that the loop reads no input.
    let mut stuck: Option<tokio::time::Instant> = None;
    let mut busy_poll = BusyPollPolicy::new(session.service.bounds().busy_poll);
    loop {
        session.driver.clock.tick();
        let caught_up = session.process_lines(&mut lines);
        if !session.channel().outbox.waiting().is_empty() {
            match output.write(session.channel().outbox.waiting()) {
                Ok(written) => {
                    stuck = stuck.filter(|_| written == 0);
                    session.driver.transport.sent(written);
                }
                Err(error) if stdio::is_gone(&error) => return Ok(Ended::DownstreamGone),
                Err(error) => return Err(error),
            }
        }
        if !caught_up && session.may_read() {
            continue;
        }
        let idle = session.channel().outbox.waiting().is_empty();
        if session.channel().closing.is_some() && idle && session.channel().running.is_empty() {
            if session.driver.side.in_flight().is_empty() {
                return Ok(Ended::Cleanly);
            }
            session.fail_everything();
            continue;
        }
        if busy_poll.is_on() {
            busy_poll.replied(Instant::now());
            if busy_poll.should_poll() && idle && input_open && session.may_read() {
                let came = input.read_soon(lines.spare(0), BUSY_POLL);
                busy_poll.polled(came);
                if came {
                    continue;
                }
            }
        }
        let is_stuck = input_open && session.channel().closing.is_none() && !session.keeps_up();
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
            Some(ended) = session.driver.transport.running.next(), if !session.channel().running.is_empty() => {
                session.ended(ended);
                // The responses of calls that have ended meanwhile are written together.
                for _ in 1..WRITTEN_TOGETHER {
                    let Some(Some(ended)) = session.driver.transport.running.next().now_or_never() else { break };
                    session.ended(ended);
                }
            }
            () = access.changed_after(epoch), if session.dialect_has_tokens() => {
                epoch = access.epoch();
                session.set_passes();
            }
            () = event_queue.arrived(), if session.keeps_up() => session.pass_events_on(),
            Some(report) = session.driver.transport.reports.recv(), if session.keeps_up() => {
                session.drive(|driver| driver.report(report));
            }
            changed = changes.recv(), if session.keeps_up() => match changed {
                Ok(notice) => session.drive(|driver| driver.notify(notice)),
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
                session.driver.clock.tick();
                if session.channel().closing.is_some_and(|closing| closing.flush_until <= tokio::time::Instant::now()) {
                    return Ok(Ended::DownstreamGone);
                }
                session.wake();
            }
            read = input.read(lines.spare(0)), if input_open && session.may_read() => match read {
                Ok(0) => {
                    input_open = false;
                    if let Some(line) = lines.last_line() {
                        session.driver.clock.tick();
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
    door.set_offer(service.identified(), service.menu());
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
    door.set_offer(service.identified(), service.menu());
}

async fn sleep_until(deadline: Option<tokio::time::Instant>) {
    if let Some(deadline) = deadline {
        tokio::time::sleep_until(deadline).await;
    }
}

/// The channel from providers to the loop.
#[derive(Debug)]
struct Reports {
    to_loop: mpsc::Sender<Report>,
    /// Set when a report is queued, because looking into the queue costs more.
    has_reported: Arc<AtomicBool>,
    event_queue: Arc<EventQueue>,
    session: SessionId,
}

impl Reports {
    fn report(&self, report: Report) -> Result<(), mpsc::error::TrySendError<Report>> {
        self.to_loop.try_send(report)?;
        self.has_reported.store(true, Ordering::Release);
        Ok(())
    }
}

/// The reading half of the event queue. Dropping it closes the queue, so that waiting providers continue.
#[derive(Debug)]
struct EventQueueReader(Arc<EventQueue>);

impl Drop for EventQueueReader {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Caller for Reports {
    fn tell(&self, notice: Notice) {
        let _ = self.report(Report::Notice(notice));
    }

    fn event(&self, event: AgentEvent) {
        self.event_queue.push(Notice::Agent(event));
    }

    fn push(&self, event: CapabilityEvent) {
        self.event_queue.push(Notice::Capability(event));
    }

    fn keeping_up(&self) -> Option<Settling> {
        self.event_queue.keeping_up()
    }

    fn has_room_for_events(&self) -> bool {
        self.event_queue.has_room()
    }

    fn session(&self) -> SessionId {
        self.session
    }

    fn ask(&self, call: Option<CallId>, questions: Vec<Asking>) {
        use mpsc::error::TrySendError;
        if let Err(TrySendError::Full(Report::Questions(_, questions))) =
            self.report(Report::Questions(call, questions))
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

/// Standard input and output, as the transport of the session.
struct Channel {
    hub: Hub,
    outbox: Outbox,
    /// Calls that run, and the end of an agent's turns. The loop polls them: a task would run on the same thread.
    running: FuturesUnordered<Abortable<Running>>,
    reports: mpsc::Receiver<Report>,
    has_reported: Arc<AtomicBool>,
    event_queue: EventQueueReader,
    closing: Option<Closing>,
}

/// What goes on beside the loop.
struct Running {
    /// The call. `None` for the turns of an agent, which end without an outcome.
    call: Option<CallId>,
    work: Work,
}

impl Future for Running {
    type Output = Option<(CallId, Outcome)>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        poll_guarded(&mut self.work, cx).map(|outcome| self.call.map(|call| (call, outcome)))
    }
}

impl Channel {
    fn run(&self, running: Running) -> AbortHandle {
        let (handle, registration) = AbortHandle::new_pair();
        self.running.push(Abortable::new(running, registration));
        handle
    }

    /// Whether the client keeps up with reading.
    fn keeps_up(&self) -> bool {
        self.outbox.waiting().len() < HIGH_WATER
    }

    /// The client has read this many bytes. While a session closes, each read restarts the flush timeout.
    fn sent(&mut self, written: usize) {
        self.outbox.sent(written);
        if let Some(closing) = &mut self.closing
            && written > 0
        {
            closing.flush_until = closing.flush_until.max(tokio::time::Instant::now() + FLUSH_GRACE);
        }
    }

    /// The oldest report, or else the oldest event.
    fn take_report(&mut self) -> Option<Report> {
        // Cleared before the queue is looked at, so that a report that is queued meanwhile sets it again.
        while self.has_reported.load(Ordering::Relaxed) && self.has_reported.swap(false, Ordering::AcqRel) {
            if let Ok(report) = self.reports.try_recv() {
                self.has_reported.store(true, Ordering::Relaxed);
                // If the client does not read, notices are dropped to save memory.
                if self.keeps_up() || matches!(report, Report::Questions(..)) {
                    return Some(report);
                }
            }
        }
        self.event_queue.0.pop().map(Report::Notice)
    }
}

impl Transport for Channel {
    type Side = Door;
    type Sender<'s> = ();
    type Ticket = ();
    type Kept = ();
    type AbortHandle = AbortHandle;
    const IS_SHARED: bool = false;

    fn dialect(door: &Door) -> Option<&'static Dialect> {
        door.dialect()
    }

    fn sender_of(_ticket: Option<&()>) {}

    fn lend(&mut self) -> Frames {
        self.outbox.lend()
    }

    fn send(&mut self, wire: Frames) {
        self.outbox.put_back(wire);
    }

    fn accept(&mut self, (): (), _call: &mut Call<'_>) {}

    fn weigh(&mut self, _ticket: Option<&()>, _outcome: &mut Outcome, _is_next: bool) {}

    #[inline]
    fn next_report(&mut self) -> Option<Report> {
        let may_have_one = self.has_reported.load(Ordering::Relaxed) || self.event_queue.0.may_have_events();
        if may_have_one { self.take_report() } else { None }
    }

    fn spawn(&mut self, call: CallId, work: Work) -> AbortHandle {
        self.run(Running { call: Some(call), work })
    }

    fn refused(&self, refusal: &Refusal) {
        tracing::warn!(%refusal, "no session");
    }

    fn close(&mut self, grace: Duration, _clock: &Clock) {
        let now = tokio::time::Instant::now();
        let fail_at = self.closing.map_or(now + grace, |closing| closing.fail_at.min(now + grace));
        if self.closing.is_none()
            && let Some(agent) = self.hub.agent()
        {
            // Stopped turns may still send events.
            let closing = agent.closing();
            let turns = Box::pin(closing.map(|()| Ok(Reply::Done)));
            self.run(Running { call: None, work: turns });
        }
        // Without a grace period, the loop fails calls in flight when it checks its deadlines. Here, the responses of
        // the current step are not written yet.
        self.closing = Some(Closing { fail_at, flush_until: fail_at + FLUSH_GRACE });
    }
}

/// Everything about the session that is not a byte channel.
struct Session {
    driver: Driver<Channel>,
    service: Service,
    caller: Arc<dyn Caller>,
    registration: Arc<Registration>,
    signalled: bool,
}

impl DriverHandle for Session {
    type Transport = Channel;
    type Caller<'s> = &'s Arc<dyn Caller>;

    fn registration(&self) -> &Registration {
        &self.registration
    }

    fn caller(&self) -> Option<&Arc<dyn Caller>> {
        Some(&self.caller)
    }

    fn locked<R>(&mut self, work: impl FnOnce(&mut Driver<Channel>) -> R) -> R {
        // One thread drives the session, and providers report through a queue.
        work(&mut self.driver)
    }
}

impl Session {
    fn channel(&self) -> &Channel {
        &self.driver.transport
    }

    fn keeps_up(&self) -> bool {
        self.channel().keeps_up()
    }

    fn may_read(&self) -> bool {
        self.channel().closing.is_none() && self.keeps_up() && self.driver.side.held_bytes() < MOST_HELD
    }

    /// Processes lines until none is left (true) or reading must stop (false).
    fn process_lines(&mut self, lines: &mut Lines) -> bool {
        while self.may_read() {
            let Some(line) = lines.next_line() else { return true };
            self.receive(line);
            lines.end_lines_at(self.driver.side.text().terminator);
        }
        false
    }

    fn receive(&mut self, line: Line<'_>) {
        tracing::trace!(bytes = if let Line::Bytes(bytes) = line { bytes.len() } else { 0 }, "line in");
        let door = &mut self.driver.side;
        let opening = match line {
            Line::Bytes(bytes) if door.dialect().is_none() => door.settle(bytes),
            _ => None,
        };
        if let Some(Opening { dialect, .. }) = &opening {
            announce_decided(&self.service, door, dialect);
            self.set_passes();
        }
        let frame = (Lane::MAIN, line);
        let (actions, violated) =
            self.driver.receive((), frame, |door, ambient, out| door.handle_frame(line, ambient, out));
        if opening.is_some() {
            self.log_any_token();
        }
        self.follow_up(actions, Continuation::AsTask);
        let line = if let Line::Bytes(bytes) = line { bytes } else { &[] };
        if self.note_violations(&violated, line) {
            self.close(Duration::ZERO);
        }
    }

    fn log_any_token(&self) {
        if self.driver.side.accepts_any_token() {
            tracing::info!("{}", self.service.advised("no token is configured: any token is accepted"));
        }
    }

    /// Whether the openings of the detected dialect carry a token.
    fn dialect_has_tokens(&self) -> bool {
        self.driver.side.dialect().is_some_and(|dialect| dialect.has_tokens)
    }

    /// Applies the current passes to the session.
    fn set_passes(&mut self) {
        let passes = self.service.access().passes();
        self.drive(|driver| driver.step((), |door, ambient, out| door.set_passes(&passes, ambient, out)));
    }

    /// Writes events while there are any and the client reads.
    fn pass_events_on(&mut self) {
        while self.keeps_up()
            && let Some(event) = self.driver.transport.event_queue.0.pop()
        {
            self.drive(|driver| driver.notify(event));
        }
    }

    /// Notices were lost, so every list may have changed.
    fn missed_changes(&mut self) {
        for notice in [Notice::ToolsChanged, Notice::ResourcesChanged, Notice::PromptsChanged] {
            self.drive(|driver| driver.notify(notice));
        }
    }

    fn stop(&mut self, stop: Stop) {
        tracing::info!(why = ?stop, "stopping");
        // A second stop while closing: do not wait for calls in flight any longer.
        let again = self.channel().closing.is_some();
        self.drive(|driver| driver.step((), |door, ambient, out| door.stop(stop, ambient, out)));
        self.close(if again { Duration::ZERO } else { self.service.bounds().drain });
    }

    fn close(&mut self, grace: Duration) {
        self.driver.transport.close(grace, &self.driver.clock);
    }

    /// A deadline has passed.
    fn wake(&mut self) {
        if self.channel().closing.is_some_and(|closing| closing.fail_at <= tokio::time::Instant::now()) {
            self.fail_everything();
        }
        self.drive(Driver::wake);
    }

    /// A call that took time has ended, or the turns of an agent have.
    fn ended(&mut self, ended: Result<Option<(CallId, Outcome)>, Aborted>) {
        match ended {
            Ok(Some((call, outcome))) => {
                if self.driver.ticket(call).is_some() {
                    self.drive(|driver| driver.settle(call, outcome));
                }
            }
            // The last events of the turns precede the end of the session. An aborted call has no waiting caller.
            Ok(None) | Err(Aborted) => self.drive(Driver::write_waiting),
        }
    }

    /// The grace period is over: every unfinished call fails with an error that says so.
    fn fail_everything(&mut self) {
        self.drive(Driver::fail_everything);
        self.driver.transport.running.clear();
    }

    fn next_deadline(&self) -> Option<tokio::time::Instant> {
        let side = self.driver.side.poll_timeout().map(|elapsed| self.driver.clock.instant(elapsed));
        let channel = self.channel();
        let closing = channel.closing.map(|closing| {
            if channel.running.is_empty() { closing.flush_until } else { closing.fail_at.min(closing.flush_until) }
        });
        side.into_iter().chain(closing).min()
    }
}
