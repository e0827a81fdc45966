//! The differences between transports, as the driver sees them.

use std::time::Duration;

use gladhand_core::negotiation::{Agreement, Refusal};
use gladhand_core::operations::{Call, CallId, Notice, Outcome};
use gladhand_core::wire::{Frame, Frames};
use gladhand_dialects::{Ambient, Dialect, Lane, Server};
use gladhand_hub::{Asking, Work};

use gladhand_session::clock::Clock;

/// The transport of one session: where frames go, and who sends messages.
pub(crate) trait Transport: Sized {
    /// Our side of the dialect.
    type Side: Server;

    /// The origin of a message.
    type Sender<'s>: Copy;

    /// What the transport keeps for a call until it ends.
    type Ticket: Default;

    /// What the transport keeps for an outcome that waits for room.
    type Kept;

    /// Aborts a call that goes on beside the session.
    type AbortHandle: Abort;

    /// Whether other threads use the session. If so, its lock is released while the hub is called, and a delivered call is
    /// registered before that, so that it can be cancelled.
    const IS_SHARED: bool;

    /// The dialect of the session, once it is known.
    fn dialect(side: &Self::Side) -> Option<&'static Dialect>;

    /// The sender of a message, for a step that continues a call.
    fn sender_of(ticket: Option<&Self::Ticket>) -> Self::Sender<'static>;

    /// A buffer for the lines of a step. [`Transport::send`] takes it back.
    fn lend(&mut self) -> Frames {
        Frames::default()
    }

    /// Sends the lines of a step.
    fn send(&mut self, wire: Frames);

    /// Whether a line reaches the peer. The line of a call whose client left does not.
    fn carries(&self, _frame: &Frame) -> bool {
        true
    }

    /// States the sender of a message to our side.
    fn introduce<'a, 's: 'a>(&'a self, _sender: Self::Sender<'s>, _ambient: &mut Ambient<'a>) {}

    /// The authenticated principal that sends a message.
    fn principal<'a, 's: 'a>(&'a self, _sender: Self::Sender<'s>) -> Option<&'a str> {
        None
    }

    /// States the caller of a call.
    fn accept(&mut self, sender: Self::Sender<'_>, call: &mut Call<'_>) -> Self::Ticket;

    /// Whether an outcome may be written now. Otherwise it waits until [`Driver::write_waiting`](super::Driver).
    fn has_room(&self) -> bool {
        true
    }

    /// Counts an outcome, or replaces it by a failure if there is no room for it. `is_next`: no other outcome waits.
    fn weigh(&mut self, ticket: Option<&Self::Ticket>, outcome: &mut Outcome, is_next: bool) -> Self::Kept;

    /// The next message of a provider to the caller that must be written before an outcome.
    fn next_report(&mut self) -> Option<Report> {
        None
    }

    /// Runs a call as a task, whose outcome comes back to the session.
    fn spawn(&mut self, call: CallId, work: Work) -> Self::AbortHandle;

    /// A call was cancelled, while these others run.
    fn cancelled<'t>(&mut self, _ticket: Self::Ticket, _others: impl Iterator<Item = &'t Self::Ticket>)
    where
        Self: 't,
    {
    }

    /// A session opened, or new terms are in force. Returns whether this is a session to be logged.
    fn opened(&mut self, _agreement: &Agreement) -> bool {
        true
    }

    /// The opening was refused.
    fn refused(&self, refusal: &Refusal) {
        // Any client may try to open a session, so this is not a warning.
        tracing::info!(%refusal, "no session");
    }

    /// The dialect closes an exchange; the caller fetches the rest after a pause.
    fn let_go(&mut self, _lane: Lane, _pause: Duration) {}

    /// The dialect ends the session after a grace period for calls in flight.
    fn close(&mut self, _grace: Duration, _clock: &Clock) {}
}

/// Aborts a call that goes on beside its session.
pub(crate) trait Abort {
    fn abort(&self);
}

impl Abort for tokio::task::AbortHandle {
    fn abort(&self) {
        Self::abort(self);
    }
}

impl Abort for futures_util::future::AbortHandle {
    fn abort(&self) {
        Self::abort(self);
    }
}

/// A message from a provider to its caller.
#[derive(Debug)]
pub(crate) enum Report {
    Notice(Notice),
    Questions(Option<CallId>, Vec<Asking>),
}
