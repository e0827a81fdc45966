//! A session with an upstream: any server that can be started or reached, behind one handle.
//!
//! ```no_run
//! use std::sync::Arc;
//! use gladhand_client::upstream::{IgnoreEvents, Options, Target, Upstream};
//! use gladhand_core::operations::{Operation, Reply};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let target = Target::parse(&["http://127.0.0.1:3000/mcp".to_owned()])?;
//! let upstream = Upstream::open(&target, Options::default(), Arc::new(IgnoreEvents)).await?;
//! if let Reply::Tools(tools) = upstream.call(Operation::ListTools).await? {
//!     tracing::info!(tools = tools.len(), "listed");
//! }
//! upstream.close().await;
//! # Ok(())
//! # }
//! ```

mod call_slots;
mod defaults;
mod driver;
mod eras;
mod events;
mod http_evidence;
pub mod open_error;
mod opening;
mod options;
mod probe;
mod process_end;
pub mod redacted;
mod target;
pub mod transport;
mod unsent_budget;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use gladhand_core::negotiation::Agreement;
use gladhand_core::operations::{Call, CallId, Failure, FailureKind, Operation, Outcome, Party, Terms};
use gladhand_process::child::StderrTail;
use gladhand_redaction::{self as redaction, Life};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

pub use crate::http_client::{Attempt, Authorizer, Bearer, ResponseBudget};
use call_slots::{CallSlot, CallSlots};
pub use defaults::accept_defaults;
use driver::{Aside, Command, Ports};
pub use eras::Eras;
pub use events::{IgnoreEvents, UpstreamEvents};
pub use gladhand_dialects::Speak;
pub use http_evidence::HttpEvidence;
pub use open_error::{OpenError, Outage};
pub use opening::start_process;
pub use options::Options;
pub use probe::Probe;
pub use process_end::ProcessEnd;
pub use target::{BadTarget, Target};
pub use unsent_budget::UnsentBudget;

/// How many commands may wait for the loop.
const COMMANDS: usize = 64;

/// An open session with an upstream. A cheap handle: clones share the session, which ends when it is closed or the
/// last of them is dropped.
#[derive(Clone)]
pub struct Upstream {
    shared: Arc<Shared>,
}

struct Shared {
    commands: mpsc::Sender<Command>,
    asides: mpsc::UnboundedSender<Aside>,
    /// Whether a roots change is still to be sent to the upstream.
    roots_changed: Arc<AtomicBool>,
    agreement: watch::Receiver<Arc<Agreement>>,
    /// The process that was started for the session.
    process: Option<u32>,
    /// The end of its stderr.
    stderr: Option<StderrTail>,
    /// The name of the upstream in the configuration, if it has one.
    name: Option<String>,
    call_timeout: Option<Duration>,
    slots: CallSlots,
    next_call: AtomicU64,
    /// Whether a call was made on behalf of a caller.
    was_called: AtomicBool,
}

/// Registers the secrets of a target and its options for redaction.
fn learn_secrets(target: &Target, options: &Options) {
    let life = Life::Recent;
    target.learn_secrets(life);
    for (name, value) in &options.headers {
        redaction::learn_header(name.as_str(), &String::from_utf8_lossy(value.as_bytes()), life);
    }
    for (name, value) in &options.surroundings.variables {
        redaction::learn_variable(name, value.expose(), life);
    }
    options.token.iter().for_each(|token| redaction::learn(token.expose(), life));
}

impl Upstream {
    /// Opens a session. Messages and requests of the upstream that belong to no call go to `events`.
    pub async fn open(target: &Target, options: Options, events: Arc<dyn UpstreamEvents>) -> Result<Self, OpenError> {
        if options.masked {
            learn_secrets(target, &options);
        }
        // Two attempts may run at once, and their futures are too large for the stack.
        let opened = Box::pin(opening::open(target, &options, events)).await;
        let (driver, agreement) = opened.map_err(redacted::open_error)?;
        let process = driver.transport.process();
        let stderr = driver.transport.stderr().cloned();
        let (commands, to_loop) = mpsc::channel(COMMANDS);
        let (asides, asides_to_loop) = mpsc::unbounded_channel();
        let (agreements, agreement) = watch::channel(agreement);
        let roots_changed = Arc::<AtomicBool>::default();
        let ports = Ports {
            commands: to_loop,
            asides: asides_to_loop,
            roots_changed: Arc::clone(&roots_changed),
            agreement: agreements,
        };
        // The task ends with the last handle, or when the session is closed.
        tokio::spawn(driver.run(ports));
        let slots = CallSlots::new();
        let (next_call, was_called) = (AtomicU64::new(1), AtomicBool::new(false));
        let shared = Shared {
            commands,
            asides,
            roots_changed,
            agreement,
            process,
            stderr,
            name: options.name,
            call_timeout: options.call_timeout,
            slots,
            next_call,
            was_called,
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// The current agreement. It changes if the session has to be reopened.
    pub fn agreement(&self) -> Arc<Agreement> {
        Arc::clone(&self.shared.agreement.borrow())
    }

    /// The process that was started for it, if one was.
    pub fn process(&self) -> Option<u32> {
        self.shared.process
    }

    /// The last lines that its process wrote to stderr, with secrets.
    pub fn stderr_tail(&self, lines: usize) -> Vec<String> {
        self.shared.stderr.as_ref().map(|stderr| stderr.lines(lines)).unwrap_or_default()
    }

    /// Makes a call without progress reports. Dropping the future cancels the call.
    pub async fn call(&self, operation: Operation<'_>) -> Outcome {
        let operation = operation.into_owned();
        self.make(|| (operation, Terms::default()), None, None, None).await.unwrap_or_else(|| Err(gone()))
    }

    /// Makes a call with a separate receiver for its progress, log lines and requests, as far as they can be attributed to
    /// it. Dropping the future cancels the call.
    pub async fn call_for(&self, operation: Operation<'_>, events: Arc<dyn UpstreamEvents>) -> Outcome {
        let (operation, terms) = (operation.into_owned(), Terms { wants_progress: true, ..Terms::default() });
        self.make(|| (operation, terms), None, None, Some(events)).await.unwrap_or_else(|| Err(gone()))
    }

    /// Makes a call on behalf of a caller, with the caller's agreement, terms and share. Dropping the future cancels
    /// the call. Returns `None` if the session was over before the call was sent, so that another session can make it.
    /// `call` runs only when there is room for it.
    pub async fn call_on_behalf(
        &self,
        call: impl FnOnce() -> (Operation<'static>, Terms<'static>),
        party: Option<Party>,
        agreement: Arc<Agreement>,
        events: Arc<dyn UpstreamEvents>,
    ) -> Option<Outcome> {
        let noted = || {
            if !self.was_called() {
                self.shared.was_called.store(true, Ordering::Relaxed);
            }
            call()
        };
        self.make(noted, party, Some(agreement), Some(events)).await
    }

    /// Whether a call was made on behalf of a caller.
    pub fn was_called(&self) -> bool {
        self.shared.was_called.load(Ordering::Relaxed)
    }

    /// Reports that the caller's roots have changed. If the upstream is behind, several changes become one
    /// notification.
    pub fn roots_changed(&self) {
        if !self.shared.roots_changed.swap(true, Ordering::AcqRel) {
            // Without a session, no notification is needed.
            let _ = self.shared.asides.send(Aside::RootsChanged);
        }
    }

    /// Waits until the session is over, for any reason. Does not keep it open.
    pub fn ended(&self) -> impl Future<Output = ()> + Send + 'static {
        let commands = self.shared.commands.clone();
        async move { commands.closed().await }
    }

    /// Whether the session is over.
    pub fn is_over(&self) -> bool {
        self.shared.commands.is_closed()
    }

    /// Takes back one [`Operation::Watch`] of this URI.
    pub fn unwatch(&self, uri: &str) {
        // Without a session nothing is watched.
        let _ = self.shared.asides.send(Aside::Unwatch(uri.to_owned()));
    }

    /// Ends the session: calls under way fail, a process is ended, an HTTP session deleted.
    pub async fn close(&self) {
        let (closed, wait) = oneshot::channel();
        if self.shared.asides.send(Aside::Close(closed)).is_ok() {
            // An error means that the session was already closed.
            let _ = wait.await;
        }
    }

    async fn make(
        &self,
        call: impl FnOnce() -> (Operation<'static>, Terms<'static>),
        party: Option<Party>,
        caller: Option<Arc<Agreement>>,
        events: Option<Arc<dyn UpstreamEvents>>,
    ) -> Option<Outcome> {
        let expires = self.shared.call_timeout.map(|timeout| Instant::now() + timeout);
        let slot = match self.shared.slots.take(party, expires).await {
            Ok(slot) => slot,
            Err(busy) => return Some(Err(busy)),
        };
        let place = match self.shared.commands.try_reserve() {
            Ok(place) => place,
            Err(TrySendError::Closed(())) => return None,
            // The rare waiting path is boxed, so that the future of a call stays small.
            Err(TrySendError::Full(())) => {
                match Box::pin(call_slots::before(expires, self.shared.commands.reserve())).await {
                    Some(place) => place.ok()?,
                    None => return Some(Err(process_end::unsent(self.shared.name.as_deref()))),
                }
            }
        };
        let id = CallId(self.shared.next_call.fetch_add(1, Ordering::Relaxed));
        let (reply, outcome) = oneshot::channel();
        let (operation, terms) = call();
        place.send(Command { call: Call { id, operation, terms }, caller, events, expires, reply });
        let mut cancel = CancelOnDrop { call: Some((id, slot)), asides: &self.shared.asides };
        let outcome = outcome.await;
        cancel.call = None;
        // Each call that was sent gets an outcome. Only calls that were not sent are dropped.
        outcome.ok()
    }
}

fn gone() -> Failure {
    Failure::new(FailureKind::UpstreamLost, "the session with the upstream is closed")
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstream").field("server", &self.agreement().server).finish_non_exhaustive()
    }
}

/// Cancels a call whose future is dropped before its outcome. The slot is free when the loop has processed the
/// cancellation.
struct CancelOnDrop<'u> {
    call: Option<(CallId, CallSlot)>,
    asides: &'u mpsc::UnboundedSender<Aside>,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        if let Some((call, slot)) = self.call.take() {
            // Without a session there is nothing to cancel.
            let _ = self.asides.send(Aside::Cancel(call, slot));
        }
    }
}
