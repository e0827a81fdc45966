//! The contract between a dialect and its driver.
//!
//! A side takes one input at a time. It answers with lines (appended to [`Output::wire`], each ended by LF) and with
//! actions or events. **One step, then drain**: the driver handles everything that a step produced before it takes the
//! next step. A side never calls back and never waits.
//!
//! The name of a method says who acts:
//!
//! | name | meaning |
//! |---|---|
//! | `handle_*` | an event outside of the side: a line, the outcome of a call, a timeout, a closed connection |
//! | a plain verb | a command of our own program: `open`, `call`, `cancel`, `ask`, `answer`, `notify`, `stop`, `close` |
//! | `set_*` | a setting that changes while the side runs: the offer, the passes |
//! | `poll_timeout` | when to call `handle_timeout`; the driver asks after each step |
//! | a noun | a property, without effect: `in_flight`, `held_bytes`, `posting` |
//!
//! Both sides call requests by their direction. A server side keeps `IncomingRequest`s, which it received and has not
//! answered. A client side keeps `OutgoingRequest`s, which it sent and which have no response yet. A `QueuedCall` waits to be
//! sent, and a `PendingQuestion` waits for its answer.

use std::sync::Arc;
use std::time::Duration;

use gladhand_core::Secret;
use gladhand_core::negotiation::{Agreement, Capability, Offer, Peer, Refusal, Rule, Side};
use gladhand_core::operations::{
    Answered, Call, CallId, Failure, Feature, Level, Notice, Outcome, Question, QuestionId, QuestionKind, WatchId,
};
use gladhand_core::wire::{Fault, FrameSummary, Frames, Members, RawValue, Skim, TextPolicy};

pub use gladhand_core::wire::Lane;

use crate::ambient::{Ambient, Moment};
use crate::rule_violation::{REQUEST_NOT_AGREED, RuleViolation};
use crate::storage::Storage;

/// A dialect, as the rest of the program sees it.
#[derive(Debug)]
pub struct Dialect {
    /// The name: `mcp`, `a2e`, `loaf`, `fluxloop`.
    pub name: &'static str,
    /// The versions that can be requested by name, preferred first.
    pub versions: &'static [&'static str],
    /// The rules for the text of a line.
    pub text: TextPolicy,
    /// Whether the opening carries a token. If it does and no token is configured, any token is accepted.
    pub has_tokens: bool,
    /// Whether the dialect has a form over HTTP.
    pub has_http: bool,
    /// Whether the dialect has agent sessions.
    pub has_agent: bool,
    /// The capabilities other than tools whose messages pass through unparsed.
    pub carried: &'static [&'static str],
    /// How strongly the dialect claims a first line.
    pub claim: fn(&FirstLine<'_>) -> Claim,
    /// Whether a line is the reply of a server of this dialect to a client that began in another dialect. This
    /// identifies the server's dialect.
    pub recognizes_reply: fn(&FirstLine<'_>) -> bool,
    /// Describes a received line, for observers of a session. `None`: the line is no message of this dialect.
    pub describe: fn(&str) -> Option<FrameSummary<'_>>,
    /// The offer in a client's first line, as far as that line contains it.
    pub offer: fn(&FirstLine<'_>) -> Offer,
    /// The rows of the method table that carry a feature. Empty: the dialect does not have the feature.
    pub carriers: fn(Feature) -> Vec<Rule>,
    /// The whole method table, as the gate reads it.
    pub rules: fn() -> &'static [Rule],
    /// Answers a first line with the dialect's error for a session that cannot be served. Writes nothing if the line
    /// expects no answer.
    pub refusal_line: fn(&FirstLine<'_>, &str, &mut Ambient<'_>, &mut Frames),
    /// Creates our side towards a downstream.
    pub server: fn(ServerSetup) -> Box<dyn Server>,
    /// Creates our side towards an upstream. The version is one of `versions`.
    pub client: fn(ClientSetup) -> Box<dyn Client>,
}

/// The extension that lets calls become tasks. We declare it ourselves, independent of the client.
pub const TASKS_EXTENSION: &str = "extensions.io.modelcontextprotocol/tasks";

/// Capabilities of a client with their settings, in the names that all dialects share.
pub type Declared = Vec<(Capability, Option<Box<RawValue>>)>;

/// Maximum size in bytes of a server's capability settings that are only displayed.
pub(crate) const MAX_SETTINGS_BYTES: usize = 4 * 1024;

/// How certain a dialect is that a first line belongs to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Claim {
    /// The line does not belong to this dialect.
    No,
    /// The line may belong to this dialect. The dialect answers it immediately, without delivering a call. The next
    /// line may still decide otherwise.
    Plausible,
    /// The line belongs to this dialect, and so does the session from now on.
    Certain,
}

/// A first line that is valid JSON.
#[derive(Debug)]
pub struct FirstLine<'a> {
    /// The whole text.
    pub text: &'a str,
    /// Its members, if it is an object.
    pub members: Option<Members<'a>>,
}

/// The features that we provide to a downstream.
#[derive(Debug, Clone, Default)]
pub struct Menu {
    /// Whether tools are provided.
    pub tools: bool,
    /// Whether the list of tools may change while a session is open.
    pub tool_changes: bool,
    /// Whether resources are provided.
    pub resources: bool,
    /// Whether the list of resources may change while a session is open.
    pub resource_changes: bool,
    /// Whether we report changes of a single resource.
    pub resource_updates: bool,
    /// Whether prompts are provided.
    pub prompts: bool,
    /// Whether the list of prompts may change while a session is open.
    pub prompt_changes: bool,
    /// Whether arguments can be completed.
    pub completions: bool,
    /// Whether log lines are forwarded.
    pub logging: bool,
    /// Whether there is an agent.
    pub agent: bool,
    /// The capabilities other than tools whose messages pass through unparsed.
    pub capabilities: Vec<&'static str>,
    /// Whether some tool can run as a task.
    pub tasks: bool,
    /// Instructions for the downstream's model.
    pub instructions: Option<String>,
    /// Extensions by their prefixed names, with settings.
    pub extensions: Vec<(String, Box<RawValue>)>,
    /// Experimental features by name, with settings.
    pub experimental: Vec<(String, Box<RawValue>)>,
    /// Return an empty list instead of an error for unsupported list methods. Some hosts abandon a server that returns
    /// the error.
    pub empty_lists: bool,
    /// Why no session can be served, if that is the case. A dialect whose opening can report this refuses the opening.
    pub outage: Option<String>,
    /// Cache lifetimes of responses.
    pub cache: CacheHints,
}

/// How long, and for which users, a downstream may cache a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CacheHints {
    /// Lifetime in milliseconds. 0: request it again each time.
    pub ttl_ms: u64,
    /// Whether the response is the same for all clients.
    pub public: bool,
}

/// A credential that admits a downstream, if the dialect has tokens.
#[derive(Debug, Clone)]
pub struct Pass {
    /// The token that the client must present.
    pub token: Secret,
    /// The self-reported name of the client that may use it. `None`: any client.
    pub client: Option<String>,
    /// The capabilities that it grants. `None`: all.
    pub capabilities: Option<Vec<String>>,
    /// The principal that it stands for ([`Agreement::pass`]). All passes without a principal stand for the same one.
    pub principal: Option<Arc<str>>,
}

impl Pass {
    /// A token that is valid for any client and any capability.
    pub fn any(token: Secret) -> Self {
        Self { token, client: None, capabilities: None, principal: None }
    }
}

/// How to treat a message that was not agreed. It is reported in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unagreed {
    /// It is dropped, or refused on behalf of its recipient.
    #[default]
    Refused,
    /// It passes as if it had been agreed, if it has a meaning.
    Passes,
}

/// The parameters of a server side.
#[derive(Debug, Clone)]
pub struct ServerSetup {
    /// Our identity.
    pub identity: Peer,
    /// Further members of our identity (`title`, `icons`, `description`, `websiteUrl`), if the dialect has them.
    pub about: Vec<(String, Box<RawValue>)>,
    /// The features that we provide.
    pub menu: Menu,
    /// The accepted credentials, if the dialect has tokens. Empty: any client with any token is admitted.
    pub passes: Vec<Pass>,
    /// Maximum number of concurrent calls, if the dialect limits them.
    pub max_parallel: u32,
    /// Number of entries per page of a list, if the dialect has pages.
    pub page_size: usize,
    /// Maximum number of queued and running calls. Beyond it, the dialect answers "busy".
    pub max_in_flight: usize,
    /// The time at which this side was created.
    pub started: Moment,
    /// How to treat messages that were not agreed.
    pub unagreed: Unagreed,
    /// Holds outcomes until their callers fetch them.
    pub storage: Arc<dyn Storage>,
}

/// The parameters of a client side.
#[derive(Debug, Clone)]
pub struct ClientSetup {
    /// Our identity.
    pub identity: Peer,
    /// The version to request: one of the dialect's `versions`.
    pub version: String,
    /// The capabilities that we want from the upstream, in the dialect's names. `None`: all.
    pub wants: Option<Vec<Capability>>,
    /// The capabilities that we provide to the upstream, in the dialect's names, with settings.
    pub provides: Vec<(Capability, Option<Box<RawValue>>)>,
    /// The token to present, if the dialect has tokens.
    pub token: Option<Secret>,
    /// The minimum level of log lines, if the dialect can express it. `None`: the upstream decides.
    pub log_level: Option<Level>,
    /// Whether to subscribe to list changes, if the dialect requires a subscription.
    pub listen: bool,
    /// Whether each of our requests is an exchange of its own, as on HTTP. The request id then is its [`Lane`].
    pub exchanges: bool,
    /// How to treat messages that were not agreed.
    pub unagreed: Unagreed,
}

/// The output of one step.
#[derive(Debug)]
pub struct Output<'a> {
    /// Lines to send, appended to the earlier content.
    pub wire: Frames,
    /// Further actions, in order.
    pub actions: Vec<Action<'a>>,
}

impl Output<'_> {
    /// An output that continues a buffer of unsent lines.
    pub fn onto(wire: Frames) -> Self {
        Self { wire, actions: Vec::new() }
    }

    /// The same output without borrowed data.
    pub fn into_owned(self) -> Output<'static> {
        let actions = self.actions.into_iter().map(Action::into_owned).collect();
        Output { wire: self.wire, actions }
    }

    /// Sends the lines written from now on to this lane.
    pub fn go(&mut self, lane: Lane) {
        self.wire.go(lane);
    }
}

/// An action that a server side requests.
#[derive(Debug)]
pub enum Action<'a> {
    /// Find a provider for this call, and pass the outcome to [`Server::handle_outcome`] exactly once.
    Deliver(Call<'a>, Arc<Agreement>),
    /// The caller cancelled the call. An outcome that still arrives is ignored.
    Cancel(CallId),
    /// A session is open. In stateless MCP: a new agreement is in force.
    Opened(Arc<Agreement>),
    /// The opening was refused. The client may try again.
    Refused(Refusal),
    /// A message was dropped without an answer, as the dialect requires. [`RuleViolation::of`](crate::RuleViolation::of) says whether
    /// the message violated a rule.
    Dropped(&'static str),
    /// A request was refused because of the agreement.
    Declined(Declined),
    /// A message was not agreed but passed anyway ([`Unagreed::Passes`]). [`RuleViolation::of`](crate::RuleViolation::of) gives the
    /// violated rule.
    Passed(&'static str),
    /// A question passed to [`Server::ask`] was answered, or cannot be answered.
    Answered(QuestionId, Answered),
    /// A subscription to the resource with this URI ends. Cancels its [`gladhand_core::operations::Operation::Watch`].
    Unwatch(String, WatchId),
    /// The working folders of the downstream changed.
    RootsChanged,
    /// Close this exchange. The caller fetches the rest after a pause. Only on transports that support it.
    LetGo(Lane, Duration),
    /// Stop reading, wait this long for calls in flight, fail the remaining ones, flush, close.
    Close(Duration),
}

impl Action<'_> {
    /// The same action without borrowed data.
    pub fn into_owned(self) -> Action<'static> {
        match self {
            Self::Deliver(call, agreement) => Action::Deliver(call.into_owned(), agreement),
            Self::Cancel(call) => Action::Cancel(call),
            Self::Opened(agreement) => Action::Opened(agreement),
            Self::Refused(refusal) => Action::Refused(refusal),
            Self::Dropped(description) => Action::Dropped(description),
            Self::Declined(declined) => Action::Declined(declined),
            Self::Passed(description) => Action::Passed(description),
            Self::Answered(question, answered) => Action::Answered(question, answered),
            Self::Unwatch(uri, id) => Action::Unwatch(uri, id),
            Self::RootsChanged => Action::RootsChanged,
            Self::LetGo(lane, pause) => Action::LetGo(lane, pause),
            Self::Close(grace) => Action::Close(grace),
        }
    }
}

/// A request that was refused because its capability is not in force.
#[derive(Debug, Clone)]
pub struct Declined {
    /// The name of the request on the wire: `proc/spawn/req`, `resources/read`.
    pub request: String,
    /// The required capability.
    pub capability: &'static str,
    /// The agreement in force.
    pub agreement: Arc<Agreement>,
}

impl Declined {
    /// The rule that the peer violated with this request.
    pub fn violation(&self) -> Option<RuleViolation> {
        RuleViolation::of(REQUEST_NOT_AGREED)
    }
}

/// Why we end a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// The peer closed its side.
    InputClosed,
    /// SIGINT, Ctrl-C.
    Interrupted,
    /// SIGTERM.
    Terminated,
    /// SIGHUP: the terminal was closed.
    HungUp,
}

/// Our side towards a downstream.
///
/// The driver must resolve every delivered call exactly once, in any order. The side writes exactly one answer for it,
/// unless the dialect specifies otherwise.
pub trait Server: Send {
    /// Processes a line. Its text passed the dialect's policy and the limits, but may still be invalid JSON.
    fn handle_line<'a>(&mut self, text: &'a str, ambient: &mut Ambient<'_>, out: &mut Output<'a>);

    /// Processes a line that cannot be read.
    fn handle_unreadable_line(&mut self, fault: &Fault, ambient: &mut Ambient<'_>, out: &mut Output<'_>);

    /// Ends a delivered call. An unknown id (cancelled, or resolved before) is ignored.
    fn handle_outcome(&mut self, call: CallId, outcome: Outcome, ambient: &mut Ambient<'_>, out: &mut Output<'_>);

    /// Sends a notice to the downstream, if the agreement and the caller want it.
    fn notify(&mut self, notice: Notice, ambient: &mut Ambient<'_>, out: &mut Output<'_>);

    /// Sends questions of a provider to the caller of a call, or to the session if there is no call. Each question ends
    /// in exactly one [`Action::Answered`], now or later, unless its call ends first.
    fn ask(
        &mut self,
        _call: Option<CallId>,
        questions: Vec<(QuestionId, Question)>,
        _ambient: &mut Ambient<'_>,
        out: &mut Output<'_>,
    ) {
        // By default, a dialect cannot ask questions.
        let unsupported = |(id, question): (QuestionId, Question)| {
            Action::Answered(id, Err(Failure::missing_capability(question.kind.capability())))
        };
        out.actions.extend(questions.into_iter().map(unsupported));
    }

    /// Continues a call as a task, if the caller accepts one: tells the caller how to fetch the result later. The
    /// outcome is passed to [`Server::handle_outcome`] as usual.
    fn continue_as_task(&mut self, _call: CallId, _ambient: &mut Ambient<'_>, _out: &mut Output<'_>) {}

    /// The peer closed an exchange before its answer was written.
    fn handle_lane_closed(&mut self, _lane: Lane, _ambient: &mut Ambient<'_>, _out: &mut Output<'_>) {}

    /// Changes our identity and the features that we provide. This applies to later agreements; existing ones stay.
    fn set_offer(&mut self, _identity: Peer, _menu: Menu) {}

    /// Replaces the accepted passes. A session that the new passes would not have opened in its present form ends: its
    /// calls in flight are answered, and [`Action::Close`] follows.
    fn set_passes(&mut self, _passes: &[Pass], _ambient: &mut Ambient<'_>, _out: &mut Output<'_>) {}

    /// Ends the session. No line follows; calls in flight are still resolved.
    fn stop(&mut self, stop: Stop, ambient: &mut Ambient<'_>, out: &mut Output<'_>);

    /// Called at the time given by [`Server::poll_timeout`].
    fn handle_timeout(&mut self, _ambient: &mut Ambient<'_>, _out: &mut Output<'_>) {}

    /// When to call [`Server::handle_timeout`], on the clock of [`Moment::elapsed`].
    fn poll_timeout(&self) -> Option<Duration> {
        None
    }

    /// Accepted calls without an answer, including queued ones.
    fn in_flight(&self) -> Vec<CallId>;

    /// The number of bytes kept for them that the peer controls: ids, names, queued arguments, answers that wait for
    /// their turn. Above a limit of its choice, the driver stops reading.
    fn held_bytes(&self) -> usize;
}

gladhand_core::debug_as_name!(Server);

/// The client capabilities of an agreement for questions during a call, in the names that all dialects share.
pub fn askable(agreement: &Agreement) -> impl Iterator<Item = (Capability, Option<Box<RawValue>>)> {
    let terms = agreement.agreed(Side::Client).filter(|term| is_askable(&term.capability));
    terms.map(|term| (term.capability.clone(), term.settings.clone()))
}

/// The client capabilities of an agreement that we declare to an upstream, when we open a session or make a call for
/// that client: those for questions, and those that concern only the client and the upstream.
pub fn passed_on(agreement: &Agreement) -> impl Iterator<Item = (Capability, Option<Box<RawValue>>)> {
    let terms = agreement.agreed(Side::Client).filter(|term| is_passed_on(&term.capability));
    terms.map(|term| (term.capability.clone(), term.settings.clone()))
}

/// Whether we declare a client's capability to an upstream.
pub fn is_passed_on(capability: &Capability) -> bool {
    let is_their_own = matches!(capability.0.split_once('.'), Some(("extensions" | "experimental", _)));
    is_askable(capability) || is_their_own && capability.0 != TASKS_EXTENSION
}

/// The server capabilities of an agreement whose messages pass through unparsed.
pub fn carried(agreement: &Agreement) -> impl Iterator<Item = &'static str> {
    let dialect = crate::REGISTRY.iter().find(|dialect| dialect.name == agreement.dialect);
    let carried = dialect.map_or(&[][..], |dialect| dialect.carried);
    carried.iter().copied().filter(|name| agreement.allows(Side::Server, name))
}

/// The name as a static string, if a dialect passes the messages of this capability through unparsed.
pub fn carried_name(name: &str) -> Option<&'static str> {
    crate::REGISTRY.iter().flat_map(|dialect| dialect.carried).copied().find(|carried| *carried == name)
}

/// Whether a client capability permits a question.
pub fn is_askable(capability: &Capability) -> bool {
    let whole = capability.0.split('.').next().unwrap_or_default();
    [QuestionKind::Elicit, QuestionKind::Sample, QuestionKind::Roots].iter().any(|kind| kind.capability() == whole)
}

/// An event of a client side.
#[derive(Debug)]
pub enum Event {
    /// The session is open.
    Opened(Arc<Agreement>),
    /// The opening was refused.
    Refused(Refusal),
    /// A call ended.
    Answered(CallId, Outcome),
    /// The upstream sent a notice.
    Notice(Notice),
    /// The upstream asks a question, during a call or on its own. Answer it exactly once with [`Client::answer`],
    /// unless [`Event::Unasked`] comes first.
    Asked(QuestionId, Option<CallId>, Question),
    /// The upstream withdrew the question.
    Unasked(QuestionId),
    /// This exchange is not needed any more. Only if each request is an exchange.
    LetGo(Lane),
    /// A message without a meaning here was dropped.
    Dropped(&'static str),
    /// A message was not agreed but passed anyway ([`Unagreed::Passes`]).
    Passed(&'static str),
}

/// How an exchange ended without an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Loss {
    /// The request did not reach a server that would process it. Contains the reason.
    Unsent(Box<str>),
    /// The request was not sent, because its client has its share of requests. It must not be sent again. Contains the reason.
    Busy(&'static str),
    /// The request was sent, but the connection broke before the answer.
    Broken,
    /// The request was refused because the session has ended. A new session must be opened.
    Session,
    /// The answer was only this HTTP status, without a usable body.
    Status(u16),
    /// The answer exceeds the limit of this many bytes.
    TooLong(usize),
    /// The answer does not fit into the memory shared with other incoming answers.
    NoRoom,
    /// The upstream denies us access. Contains the reason.
    Denied(Box<str>),
    /// The answer was a web page, with this HTTP status.
    WebPage(u16),
    /// The upstream refuses this request with HTTP status 403 and this message. Credentials would not help.
    Forbidden(Box<str>),
}

/// How to post a line of ours over HTTP.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Posting {
    /// Its headers.
    pub headers: Vec<(String, String)>,
    /// The exchange that it opens. `None`: no exchange of its own.
    pub exchange: Option<Lane>,
    /// Its effect on the transport.
    pub effect: PostingEffect,
}

/// The effect of a posted line on the transport of its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PostingEffect {
    /// No special effect.
    #[default]
    None,
    /// It opens a session.
    Opens,
    /// It completes the opening of a session.
    HasOpened,
    /// It only reports that roots have changed, so that several in a row say no more than one.
    RootsChanged,
    /// It cancels a request.
    Cancels,
}

/// The output of one step of a client side.
#[derive(Debug, Default)]
pub struct Heard {
    /// Lines to send, appended to the earlier content.
    pub wire: Frames,
    /// The events, in order.
    pub events: Vec<Event>,
}

/// Our side towards an upstream.
///
/// [`Client::open`] comes first; calls are allowed after [`Event::Opened`]. Every call ends in exactly one
/// [`Event::Answered`], also when the upstream disconnects ([`Client::handle_disconnect`]).
pub trait Client: Send {
    /// Starts the opening.
    fn open(&mut self, ambient: &mut Ambient<'_>, heard: &mut Heard);

    /// Processes a line. Its text passed the dialect's policy and the limits, but may still be invalid JSON.
    fn handle_line(&mut self, text: &str, ambient: &mut Ambient<'_>, heard: &mut Heard);

    /// Processes a line that cannot be read. `skim` contains the members that a scan found in it.
    fn handle_unreadable_line(&mut self, fault: &Fault, skim: &Skim, ambient: &mut Ambient<'_>, heard: &mut Heard);

    /// Makes a call under an id chosen by the driver. `behalf` is the agreement with the caller, which defines the
    /// questions that the caller accepts. `None`: the call is our own.
    fn call(&mut self, call: Call<'_>, behalf: Option<&Arc<Agreement>>, ambient: &mut Ambient<'_>, heard: &mut Heard);

    /// The working folders of the client that we call for changed.
    fn handle_roots_changed(&mut self, _ambient: &mut Ambient<'_>, _heard: &mut Heard) {}

    /// Answers a question of the upstream.
    fn answer(&mut self, _question: QuestionId, _answered: Answered, _ambient: &mut Ambient<'_>, _heard: &mut Heard) {}

    /// Ends the subscription to a resource.
    fn unwatch(&mut self, _uri: &str, _ambient: &mut Ambient<'_>, _heard: &mut Heard) {}

    /// Cancels a call. It is answered as cancelled immediately. The upstream is notified if the dialect supports it.
    fn cancel(&mut self, call: CallId, ambient: &mut Ambient<'_>, heard: &mut Heard);

    /// The upstream disconnected: a pending opening is refused, and pending calls fail.
    fn handle_disconnect(&mut self, ambient: &mut Ambient<'_>, heard: &mut Heard);

    /// An exchange ended without an answer. [`Lane::MAIN`] stands for everything that belongs to no request.
    fn handle_lost_exchange(&mut self, _lane: Lane, _loss: Loss, _ambient: &mut Ambient<'_>, _heard: &mut Heard) {}

    /// Called at the time given by [`Client::poll_timeout`].
    fn handle_timeout(&mut self, _ambient: &mut Ambient<'_>, _heard: &mut Heard) {}

    /// When to call [`Client::handle_timeout`], on the clock of [`Moment::elapsed`].
    fn poll_timeout(&self) -> Option<Duration> {
        None
    }

    /// How to post a line of ours over HTTP.
    fn posting(&self, _line: &str) -> Posting {
        Posting::default()
    }

    /// Sends the closing message, if the dialect has one.
    fn close(&mut self, _ambient: &mut Ambient<'_>, _heard: &mut Heard) {}
}

gladhand_core::debug_as_name!(Client);

#[cfg(test)]
mod tests {
    use super::*;

    /// A vector of actions begins with room for four. Allocators serve up to 1 KiB from a cache of the thread.
    #[test]
    fn four_actions_fit_into_a_small_allocation() {
        assert!(4 * size_of::<Action<'_>>() <= 1024);
    }
}
