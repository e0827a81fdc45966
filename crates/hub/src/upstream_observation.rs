//! Observation of the calls that providers make to upstreams.
//!
//! The observers are those of the hub. Without one, a call costs one atomic load here. A call with a span names it to the
//! upstream in its metadata, as a child of the span of the call that caused it.

use std::borrow::Cow;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use gladhand_core::negotiation::Agreement;
use gladhand_core::operations::{Operation, Outcome, Terms};
use gladhand_core::trace_context::TraceSpan;

use crate::call_observers::{CallObserver, kind, name, word};
use crate::change_notifier::ChangeNotifier;

/// The observers of calls to upstreams.
pub(crate) type UpstreamObservers = Arc<[Arc<dyn CallObserver>]>;

/// A call to an upstream, as observers see it.
#[derive(Debug, Clone, Copy)]
pub struct UpstreamCall<'c> {
    /// The name of the upstream.
    pub upstream: &'c str,
    /// Host and port of the upstream, if it is reached over HTTP.
    pub address: Option<(&'c str, u16)>,
    /// The agreement with the upstream.
    pub agreement: &'c Agreement,
    /// The kind of operation, as in [`ObservedCall::kind`](crate::ObservedCall::kind).
    pub kind: &'static str,
    /// The upstream's own name for the target.
    pub name: &'c str,
    /// The span of the call, if an observer wants spans.
    pub span: Option<TraceSpan>,
}

/// A call to an upstream that has ended.
#[derive(Debug, Clone, Copy)]
pub struct EndedUpstreamCall<'c> {
    /// The call.
    pub call: UpstreamCall<'c>,
    /// The outcome, or `None` if the call was cancelled.
    pub outcome: Option<&'c Outcome>,
    /// How long it took.
    pub duration: Duration,
}

impl EndedUpstreamCall<'_> {
    /// `ok`, `tool_error` if a tool reports a failure itself, `cancelled`, or the word for the kind of failure.
    pub fn word(&self) -> &'static str {
        word(self.outcome)
    }
}

/// A call to an upstream that is observed. If this is dropped before the end, the call was cancelled.
#[derive(Debug)]
pub struct UpstreamObservation<'c> {
    /// `None` once the end was told.
    observers: Option<UpstreamObservers>,
    call: UpstreamCall<'c>,
    begun: Instant,
}

impl ChangeNotifier {
    /// Whether calls to upstreams are observed.
    pub fn observes_upstreams(&self) -> bool {
        self.inner().is_some_and(|hub| hub.observers.has_of_upstreams())
    }

    /// Begins to observe a call to an upstream, if an observer wants that. `terms`: those that go to the upstream. `target`:
    /// the name of the upstream and its address.
    pub fn observe_upstream<'c>(
        &self,
        target: (&'c str, Option<(&'c str, u16)>),
        agreement: &'c Agreement,
        operation: &'c Operation<'_>,
        terms: &mut Terms<'_>,
    ) -> Option<UpstreamObservation<'c>> {
        let hub = self.inner()?;
        let observers = hub.observers.of_upstreams()?;
        let wants_spans = observers.iter().any(|observer| observer.wants_spans());
        let span = wants_spans.then(|| hub.observers.new_span(terms.meta.as_deref()));
        if let Some(span) = span {
            terms.meta = Some(Cow::Owned(span.context.in_meta(terms.meta.as_deref())));
        }
        let (upstream, address) = target;
        let call = UpstreamCall { upstream, address, agreement, kind: kind(operation), name: name(operation), span };
        Some(UpstreamObservation { observers: Some(observers), call, begun: Instant::now() })
    }
}

impl UpstreamObservation<'_> {
    /// The call has ended.
    pub fn end(mut self, outcome: &Outcome) {
        self.notify(Some(outcome));
    }

    /// The call was not sent.
    pub fn discard(mut self) {
        self.observers = None;
    }

    fn notify(&mut self, outcome: Option<&Outcome>) {
        let Some(observers) = self.observers.take() else { return };
        let ended = EndedUpstreamCall { call: self.call, outcome, duration: self.begun.elapsed() };
        observers.iter().for_each(|observer| observer.upstream_ended(&ended));
    }
}

impl Drop for UpstreamObservation<'_> {
    fn drop(&mut self) {
        self.notify(None);
    }
}

/// Ids of traces and spans: hashes of a counter with random keys.
#[derive(Debug, Default)]
pub(crate) struct SpanIds {
    keys: [RandomState; 3],
    drawn: AtomicU64,
}

impl SpanIds {
    /// A new trace id and a new span id.
    pub(crate) fn draw(&self) -> ([u8; 16], [u8; 8]) {
        let number = self.drawn.fetch_add(1, Ordering::Relaxed);
        // Zero would be no id.
        let [high, low, span] = self.keys.each_ref().map(|key| key.hash_one(number).max(1).to_be_bytes());
        let mut trace = [0; 16];
        trace[..8].copy_from_slice(&high);
        trace[8..].copy_from_slice(&low);
        (trace, span)
    }
}
