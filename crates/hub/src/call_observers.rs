//! One place for everything that happens once per call: counters, logs and records are [`CallObserver`]s.
//!
//! The hub tells each observer when a call begins and when it ends, for every operation that it routes: also for lists,
//! for calls of the agent, and for calls that it refuses. Without an observer for a call, the call costs one or two
//! atomic loads here, and no allocation.
//!
//! The counters of `gladhand ps` are not an observer. The driver of a session counts on a handle that it holds anyway
//! (`session_status`), which costs one addition; an observer would have to look the session up for each call.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, RwLock};
use std::time::{Duration, Instant};

use gladhand_core::negotiation::Agreement;
use gladhand_core::operations::{
    Call, CallId, CompletionCall, CompletionOf, Content, Operation, Outcome, Reply, ToolResult,
};
use gladhand_core::sync::Unpoisoned as _;
use gladhand_core::trace_context::TraceSpan;
use gladhand_core::wire::RawValue;

use crate::call_log::CallLog;
use crate::hub::Hub;
use crate::policy::Who;
use crate::provider::{Answer, Caller, SessionId, Work};
use crate::upstream_observation::{EndedUpstreamCall, SpanIds, UpstreamObservers};

/// The longest text that a peer chose, in characters. A longer one is cut.
const LONGEST: usize = 128;

/// The largest payload that is kept for observers. Of a larger one, only the size is known.
pub(crate) const LARGEST_PAYLOAD: usize = 64 * 1024;

/// Observes the calls of a hub. Its methods run on the threads that serve sessions, so they must not wait.
pub trait CallObserver: Send + Sync {
    /// Whether it observes a call of this operation. Asked at the beginning of each call.
    fn observes(&self, operation: &Operation<'_>, origin: CallOrigin) -> bool;

    /// Whether it needs the arguments of calls. Default: no.
    fn wants_payloads(&self) -> bool {
        false
    }

    /// Whether calls get a span of their own in a distributed trace. Default: no.
    fn wants_spans(&self) -> bool {
        false
    }

    /// Whether it observes calls to upstreams. Default: no.
    fn observes_upstreams(&self) -> bool {
        false
    }

    /// A call begins.
    fn begun(&self, _call: &ObservedCall) {}

    /// A call has ended.
    fn ended(&self, call: &EndedCall<'_>);

    /// A call to an upstream has ended.
    fn upstream_ended(&self, _call: &EndedUpstreamCall<'_>) {}
}

gladhand_core::debug_as_name!(CallObserver);

/// Where an operation comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallOrigin {
    /// A client called it.
    Client,
    /// A client called a substitute tool, such as `read_resource`, and the hub carries out the operation behind it. The
    /// call of the substitute tool is observed, too.
    StandIn,
}

/// A call, as observers see it. Texts that a peer chose are cut to 128 characters.
#[derive(Debug)]
pub struct ObservedCall {
    /// The id of the call in this process.
    pub id: CallId,
    /// Where the operation comes from.
    pub origin: CallOrigin,
    /// The session, or [`SessionId::NONE`].
    pub session: SessionId,
    /// The principal that the caller has authenticated as.
    pub principal: Option<String>,
    /// The name that the client declares.
    pub client: String,
    /// The version that the client declares.
    pub client_version: String,
    /// The dialect.
    pub dialect: &'static str,
    /// The version of the dialect.
    pub dialect_version: String,
    /// The kind of operation: `tool`, `resource`, `subscription`, `prompt`, `completion`, `capability`, `agent` or
    /// `list`.
    pub kind: &'static str,
    /// The caller's name for the target: of the tool or prompt, the URI of the resource, the type of a capability's
    /// message, or the list.
    pub name: String,
    /// The size of the arguments in bytes.
    pub bytes_in: usize,
    /// The arguments, if an observer wants them and they are not too large.
    pub arguments: Option<Box<RawValue>>,
    /// When the call began.
    pub begun: Instant,
    /// The span of the call, if an observer wants spans. The metadata of the call names it as the parent of further spans.
    pub span: Option<TraceSpan>,
    decision: OnceLock<PolicyDecision>,
    target: OnceLock<CallDestination>,
    rule: OnceLock<String>,
    is_stand_in: AtomicBool,
}

/// The provider of a call, and the provider's own name for the target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallDestination {
    /// The provider.
    pub upstream: String,
    /// Its own name for the target.
    pub own: String,
}

/// A decision of policy on a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PolicyDecision {
    /// The call may run.
    Allow,
    /// A person is asked.
    Ask,
    /// The call is refused.
    Deny,
}

impl PolicyDecision {
    /// The decision as one word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}

/// A call that has ended.
#[derive(Debug, Clone, Copy)]
pub struct EndedCall<'c> {
    /// The call.
    pub call: &'c ObservedCall,
    /// The outcome, or `None` if the call was cancelled.
    pub outcome: Option<&'c Outcome>,
    /// How long it took.
    pub duration: Duration,
}

impl ObservedCall {
    /// The target, once the hub has found it.
    pub fn target(&self) -> Option<&CallDestination> {
        self.target.get()
    }

    /// The rule that refused the call, if one did.
    pub fn rule(&self) -> Option<&str> {
        self.rule.get().map(String::as_str)
    }

    /// The decision of policy, if there is a policy and it decided.
    pub fn decision(&self) -> Option<PolicyDecision> {
        self.decision.get().copied()
    }

    /// Whether it called a substitute tool that policy admitted. The operation behind it is observed as a call of its own,
    /// with [`CallOrigin::StandIn`].
    pub fn is_stand_in(&self) -> bool {
        self.is_stand_in.load(Ordering::Relaxed)
    }

    pub(crate) fn leads_to(&self, upstream: &str, own: &str) {
        let _ = self.target.set(CallDestination { upstream: upstream.to_owned(), own: own.to_owned() });
    }

    pub(crate) fn decided_by(&self, rule: &str) {
        let _ = self.rule.set(rule.to_owned());
        self.decided(PolicyDecision::Deny);
    }

    pub(crate) fn decided(&self, decision: PolicyDecision) {
        // The first decision counts: a person may still refuse what policy lets them decide.
        let _ = self.decision.set(decision);
    }

    pub(crate) fn admitted_as_stand_in(&self) {
        self.is_stand_in.store(true, Ordering::Relaxed);
    }
}

impl EndedCall<'_> {
    /// `ok`, `tool_error` if a tool reports a failure itself, `cancelled`, or the word for the kind of failure.
    pub fn word(&self) -> &'static str {
        word(self.outcome)
    }

    /// The size of the reply in bytes: its raw content.
    pub fn bytes_out(&self) -> usize {
        self.outcome.and_then(|outcome| outcome.as_ref().ok()).map_or(0, reply_bytes)
    }

    /// The duration in milliseconds, to the microsecond.
    pub fn duration_ms(&self) -> f64 {
        (self.duration.as_secs_f64() * 1e6).round() / 1e3
    }
}

/// `ok`, `tool_error` if a tool reports a failure itself, `cancelled`, or the word for the kind of failure.
pub(crate) fn word(outcome: Option<&Outcome>) -> &'static str {
    match outcome {
        None => "cancelled",
        Some(Ok(Reply::Tool(ToolResult { failed: true, .. }))) => "tool_error",
        Some(Ok(_)) => "ok",
        Some(Err(failure)) => failure.kind.word(),
    }
}

/// The observers of a hub.
#[derive(Debug)]
pub(crate) struct CallObservers {
    all: RwLock<Arc<[Arc<dyn CallObserver>]>>,
    /// The observers of calls to upstreams.
    of_upstreams: RwLock<UpstreamObservers>,
    has_of_upstreams: AtomicBool,
    span_ids: SpanIds,
    /// Whether there is any besides the log.
    has_others: AtomicBool,
}

impl Default for CallObservers {
    fn default() -> Self {
        Self {
            all: RwLock::new(Arc::new([Arc::new(CallLog)])),
            of_upstreams: RwLock::new(Arc::new([])),
            has_of_upstreams: AtomicBool::new(false),
            span_ids: SpanIds::default(),
            has_others: AtomicBool::new(false),
        }
    }
}

impl CallObservers {
    pub(crate) fn add(&self, observer: Arc<dyn CallObserver>) {
        if observer.observes_upstreams() {
            let mut of_upstreams = self.of_upstreams.write().unpoisoned();
            *of_upstreams = of_upstreams.iter().cloned().chain([Arc::clone(&observer)]).collect();
            self.has_of_upstreams.store(true, Ordering::Release);
        }
        let mut all = self.all.write().unpoisoned();
        *all = all.iter().cloned().chain([observer]).collect();
        self.has_others.store(true, Ordering::Release);
    }

    pub(crate) fn has_of_upstreams(&self) -> bool {
        self.has_of_upstreams.load(Ordering::Acquire)
    }

    /// The observers of calls to upstreams, if there are any.
    pub(crate) fn of_upstreams(&self) -> Option<UpstreamObservers> {
        self.has_of_upstreams().then(|| Arc::clone(&self.of_upstreams.read().unpoisoned()))
    }

    /// A new span for a call with this metadata.
    pub(crate) fn new_span(&self, meta: Option<&RawValue>) -> TraceSpan {
        TraceSpan::below(meta, self.span_ids.draw())
    }

    /// Begins the observation of a call, if an observer wants it. A call with a span gets it in its metadata.
    pub(crate) fn begin(
        &self,
        call: &mut Call<'_>,
        origin: CallOrigin,
        agreement: &Agreement,
        caller: &Arc<dyn Caller>,
    ) -> Option<Observation> {
        let operation = &call.operation;
        if !self.has_others.load(Ordering::Acquire) && !CallLog.observes(operation, origin) {
            return None;
        }
        let observers = Observing::of(Arc::clone(&self.all.read().unpoisoned()), operation, origin)?;
        // A span without an observer would be missing in its trace.
        let span = observers.iter().any(|one| one.wants_spans()).then(|| self.new_span(call.terms.meta.as_deref()));
        if let Some(span) = span {
            call.terms.meta = Some(Cow::Owned(span.context.in_meta(call.terms.meta.as_deref())));
        }
        let who = Who::in_session(call.terms.principal.as_deref(), agreement, caller.session());
        let sent = sent(operation);
        let bytes_in = sent.map_or(0, |sent| sent.get().len());
        let is_kept = |_: &&RawValue| bytes_in <= LARGEST_PAYLOAD && observers.iter().any(|one| one.wants_payloads());
        let observed = ObservedCall {
            id: call.id,
            origin,
            session: who.session,
            principal: who.principal.map(short),
            client: short(who.client),
            client_version: short(&agreement.client.version),
            dialect: agreement.dialect,
            dialect_version: short(&agreement.version),
            kind: kind(operation),
            name: short(name(operation)),
            bytes_in,
            arguments: sent.filter(is_kept).map(ToOwned::to_owned),
            begun: Instant::now(),
            span,
            decision: OnceLock::new(),
            target: OnceLock::new(),
            rule: OnceLock::new(),
            is_stand_in: AtomicBool::new(false),
        };
        observers.iter().for_each(|observer| observer.begun(&observed));
        Some(Observation { call: Arc::new(observed), observers: Some(observers) })
    }
}

impl Hub {
    /// Observes all calls from now on.
    pub fn observe_calls(&self, observer: Arc<dyn CallObserver>) {
        self.inner.observers.add(observer);
    }
}

/// A call that is observed. If this is dropped before the end, the call was cancelled.
#[derive(Debug)]
pub(crate) struct Observation {
    call: Arc<ObservedCall>,
    /// `None` once the end was told.
    observers: Option<Observing>,
}

/// The observers of one call: a part of the observers of the hub, so that a call allocates no list of its own.
#[derive(Debug)]
struct Observing {
    all: Arc<[Arc<dyn CallObserver>]>,
    /// One bit for each observer. A hub has a handful; those beyond the 64th observe every call.
    which: u64,
}

impl Observing {
    /// The observers that want a call, if there are any.
    fn of(all: Arc<[Arc<dyn CallObserver>]>, operation: &Operation<'_>, origin: CallOrigin) -> Option<Self> {
        let bit = |(at, one): (usize, &Arc<dyn CallObserver>)| u64::from(one.observes(operation, origin)) << at;
        let which = all.iter().take(64).enumerate().map(bit).sum();
        (which != 0 || all.len() > 64).then_some(Self { all, which })
    }

    fn iter(&self) -> impl Iterator<Item = &Arc<dyn CallObserver>> {
        let is_one = |at: usize| at >= 64 || self.which >> at & 1 == 1;
        self.all.iter().enumerate().filter(move |(at, _)| is_one(*at)).map(|(_, one)| one)
    }
}

impl Observation {
    /// The call, so that the hub can add the target and the rule.
    pub(crate) fn call(&self) -> &Arc<ObservedCall> {
        &self.call
    }

    /// The same answer. Its end is the end of the call.
    pub(crate) fn until_answered(self, answer: Answer) -> Answer {
        match answer {
            Answer::Now(outcome) => Answer::Now(self.end(outcome)),
            Answer::Later(work) => Answer::Later(self.until_done(work)),
            Answer::TaskLater(work) => Answer::TaskLater(self.until_done(work)),
            Answer::AsTask(work) => Answer::AsTask(self.until_done(work)),
        }
    }

    fn until_done(self, work: Work) -> Work {
        Box::pin(async move { self.end(work.await) })
    }

    fn end(mut self, outcome: Outcome) -> Outcome {
        self.notify(Some(&outcome));
        outcome
    }

    fn notify(&mut self, outcome: Option<&Outcome>) {
        let Some(observers) = self.observers.take() else { return };
        let ended = EndedCall { call: &self.call, outcome, duration: self.call.begun.elapsed() };
        observers.iter().for_each(|observer| observer.ended(&ended));
    }
}

impl Drop for Observation {
    fn drop(&mut self) {
        self.notify(None);
    }
}

/// The word for a kind of operation.
pub(crate) fn kind(operation: &Operation<'_>) -> &'static str {
    match operation {
        Operation::CallTool(_) => "tool",
        Operation::ReadResource(_) => "resource",
        Operation::Watch(_) => "subscription",
        Operation::GetPrompt(_) => "prompt",
        Operation::Complete(_) => "completion",
        Operation::Capability(_) => "capability",
        Operation::Agent(_) => "agent",
        Operation::ListTools | Operation::ListResources | Operation::ListTemplates | Operation::ListPrompts => "list",
    }
}

/// The caller's name for the target of an operation.
pub(crate) fn name<'o>(operation: &'o Operation<'_>) -> &'o str {
    match operation {
        Operation::CallTool(call) | Operation::GetPrompt(call) => &call.name,
        Operation::ReadResource(uri) | Operation::Watch(uri) => uri,
        Operation::Complete(CompletionCall {
            of: CompletionOf::Prompt(name) | CompletionOf::Template(name), ..
        }) => name,
        Operation::Capability(call) => call.kind,
        Operation::Agent(_) => "",
        Operation::ListTools => "tools",
        Operation::ListResources => "resources",
        Operation::ListTemplates => "resource templates",
        Operation::ListPrompts => "prompts",
    }
}

/// Whether an operation has a target. Lists and calls of the agent have none.
pub(crate) fn has_target(operation: &Operation<'_>) -> bool {
    !matches!(kind(operation), "agent" | "list")
}

/// The arguments that the caller sent.
pub(crate) fn sent<'o>(operation: &'o Operation<'_>) -> Option<&'o RawValue> {
    match operation {
        Operation::CallTool(call) | Operation::GetPrompt(call) => Some(&call.arguments),
        Operation::Capability(call) => Some(&call.message),
        _ => None,
    }
}

/// The size of a reply: its raw content.
pub(crate) fn reply_bytes(reply: &Reply) -> usize {
    let sum = |parts: &[Box<RawValue>]| parts.iter().map(|part| part.get().len()).sum();
    let result = match reply {
        Reply::Tool(result) => result,
        Reply::Contents(contents) => return sum(&contents.parts),
        Reply::Prompt(prompt) => return sum(&prompt.messages),
        Reply::Capability(fields) => return fields.get().len(),
        _ => return 0,
    };
    let blocks = result.content.iter().map(|block| match block {
        Content::Text(raw) | Content::Block(raw) => raw.get().len(),
    });
    blocks.sum::<usize>() + result.structured.as_ref().map_or(0, |data| data.get().len())
}

/// Cuts a text that a peer chose.
pub(crate) fn short(text: &str) -> String {
    gladhand_redaction::shorten(text, LONGEST).into_owned()
}
