//! Forwards calls to an upstream: the copy of a call that outlives its request, repetition after a lost connection, and
//! turns on pooled connections.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use gladhand_core::negotiation::Agreement;
use gladhand_core::operations::{Failure, FailureKind, Operation, Outcome, Terms};
use gladhand_dialects::{askable, passed_on};
use gladhand_hub::{Answer, Context, SessionId, viewer};

use super::client_roots::Allowed;
use super::events::CallEvents;
use super::subscriptions::Subscriber;
use super::upstream_connection::UpstreamConnection;
use super::{Inner, UpstreamProvider};
use crate::upstream::{Target, Upstream};

/// How many sessions a call tries, if each ends before the call could be made.
const SESSIONS: usize = 8;

/// How long a response is held back for log lines that the server wrote earlier but sent on another stream.
const LATE_LOGS: Duration = Duration::from_millis(20);

/// A call to be forwarded.
pub(super) struct ForwardedCall {
    pub(super) operation: Operation<'static>,
    pub(super) terms: Terms<'static>,
    pub(super) agreement: Arc<Agreement>,
    pub(super) events: Arc<CallEvents>,
}

impl ForwardedCall {
    pub(super) fn of(operation: Operation<'_>, context: &Context<'_>, roots: Allowed) -> Self {
        Self {
            operation: operation.into_owned(),
            terms: context.terms.clone().into_owned(),
            agreement: Arc::clone(context.agreement),
            events: CallEvents::of(context, roots),
        }
    }

    /// Whether an upstream with a handshake needs a separate session for this caller: the caller can answer requests,
    /// or its session declares a feature that the upstream must know.
    pub(super) fn needs_own_connection(&self) -> bool {
        let has_session = self.events.caller.session() != SessionId::NONE;
        self.can_be_asked() || has_session && passed_on(&self.agreement).next().is_some()
    }

    /// Whose lists the caller sees.
    pub(super) fn viewer(&self) -> SessionId {
        viewer(&self.agreement, self.events.caller.session(), self.terms.principal.as_deref())
    }

    /// The viewer id that callers without a session share if they see the same lists as this caller.
    pub(super) fn kind(&self) -> SessionId {
        viewer(&self.agreement, SessionId::NONE, self.terms.principal.as_deref())
    }

    pub(super) fn can_be_asked(&self) -> bool {
        askable(&self.agreement).next().is_some()
    }
}

impl UpstreamProvider {
    /// Forwards a call on the connection that its caller may use.
    pub(super) fn pass_on(&self, operation: Operation<'_>, repeatable: bool, context: &Context<'_>) -> Answer {
        let inner = Arc::clone(&self.inner);
        let forwarded = ForwardedCall::of(operation, context, inner.allowed_roots());
        let may_become_task = inner.known().is_some_and(|lists| lists.tasks);
        let mut repeatable = repeatable;
        let work = async move {
            loop {
                match inner.run(&forwarded).await {
                    Err(failure) if repeatable && failure.kind == FailureKind::UpstreamLost => {
                        tracing::debug!(upstream = inner.spec.name, %failure, "a call that may be repeated is repeated");
                        repeatable = false;
                    }
                    outcome => return outcome,
                }
            }
        };
        // If the upstream decides which calls become tasks, the downstream session follows that decision.
        if may_become_task { Answer::TaskLater(Box::pin(work)) } else { Answer::Later(Box::pin(work)) }
    }
}

impl Inner {
    async fn run(self: &Arc<Self>, forwarded: &ForwardedCall) -> Outcome {
        let outcome = self.run_on_a_connection(forwarded).await;
        self.ended.fetch_add(1, Ordering::Relaxed);
        outcome
    }

    async fn run_on_a_connection(self: &Arc<Self>, forwarded: &ForwardedCall) -> Outcome {
        let (connection, turn) = match self.shared_connection(forwarded) {
            Some(connection) => (connection, None),
            // The rare waiting path is boxed, so that the future of a call stays small.
            None => Box::pin(self.connection_for(forwarded)).await?,
        };
        let _under_way = connection.events.begin(&forwarded.events);
        let Some(turn) = turn else { return self.make(forwarded, &connection).await };
        Box::pin(async move {
            // Declared before the call: if this future is dropped, the server receives the cancellation before the
            // connection is reused.
            let mut turn = turn;
            turn.outlives_its_call();
            tokio::select! {
                outcome = self.make(forwarded, &connection) => {
                    // After a timeout, the server may still be busy with the call.
                    let is_late = matches!(&outcome, Err(failure) if failure.kind == FailureKind::TimedOut);
                    if !is_late {
                        turn.end();
                    }
                    outcome
                }
                () = turn.wanted() => {
                    turn.close();
                    Err(Failure::new(FailureKind::Busy, "others needed the server while a question was open"))
                }
            }
        })
        .await
    }

    /// Makes a call on a connection. If the session ends before the call could be sent, the next session makes it.
    async fn make(self: &Arc<Self>, forwarded: &ForwardedCall, connection: &Arc<UpstreamConnection>) -> Outcome {
        for _ in 0..SESSIONS {
            let session = match connection.session() {
                Some(session) => session,
                None if self.is_main(connection) => Box::pin(self.open_main()).await?,
                None => Box::pin(self.open_other(connection, true)).await?,
            };
            if self.is_pinning()
                && let Err(failure) = Box::pin(self.check_pins(connection, &session, forwarded)).await
            {
                if session.is_over() && failure.kind != FailureKind::Denied {
                    continue;
                }
                return Err(failure);
            }
            if self.subscriptions.are_unanswered() {
                Box::pin(self.subscriptions.answered(&Subscriber::of(forwarded))).await;
            }
            let mut terms = forwarded.terms.clone();
            let hub = self.notifier.get().filter(|hub| hub.observes_upstreams());
            let in_force = hub.map(|_| session.agreement());
            let observation = hub.zip(in_force.as_deref()).and_then(|(hub, in_force)| {
                hub.observe_upstream((&self.label, self.address()), in_force, &forwarded.operation, &mut terms)
            });
            let call = || (forwarded.operation.clone(), terms);
            let (agreement, events) = (Arc::clone(&forwarded.agreement), Arc::clone(&forwarded.events));
            let outcome = session.call_on_behalf(call, forwarded.terms.party, agreement, events as _).await;
            match (observation, &outcome) {
                (Some(observation), Some(outcome)) => observation.end(outcome),
                (Some(observation), None) => observation.discard(),
                (None, _) => {}
            }
            if let Some(outcome) = outcome {
                if self.may_log_late(forwarded, &session) {
                    Box::pin(tokio::time::sleep(LATE_LOGS)).await;
                }
                return outcome;
            }
        }
        let why = format!("upstream {}: it ended {SESSIONS} times before the call could be made", self.spec.name);
        Err(Failure::new(FailureKind::UpstreamLost, why))
    }

    /// Host and port of the upstream, if it is reached over HTTP.
    fn address(&self) -> Option<(&str, u16)> {
        match &self.spec.target {
            Target::Url(url) => Some((url.host_str()?, url.port_or_known_default()?)),
            Target::Command(_) => None,
        }
    }

    /// Whether log lines of a call may arrive after its response. A server of the handshake era may send them on a
    /// separate stream, and a client of the stateless era receives them only during its request.
    fn may_log_late(&self, forwarded: &ForwardedCall, session: &Upstream) -> bool {
        let is_over_http = matches!(self.spec.target, Target::Url(_));
        let is_stateless = forwarded.agreement.per_request && forwarded.terms.log_level.is_some();
        is_over_http && is_stateless && !session.agreement().per_request
    }
}
