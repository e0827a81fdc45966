//! The contract between a dialect and whoever drives it.
//!
//! A side is fed one thing at a time and answers with lines (appended to [`Output::wire`], each
//! ended by LF) and actions or events. **One step, then drain**: the driver takes everything a step
//! produced before it takes the next step. A side never calls back and never waits.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use gladhand_core::Secret;
use gladhand_core::negotiation::{Agreement, Capability, Offer, Peer, Refusal, Rule, Side};
use gladhand_core::operations::{
    Answered, Call, CallId, Failure, Feature, Level, Notice, Outcome, Question, QuestionId, QuestionKind, WatchId,
};
use gladhand_core::wire::{Fault, Members, RawValue, Skim, TextPolicy};

use crate::ambient::{Ambient, Moment};
use crate::breach::{Breach, REQUEST_NOT_AGREED};
use crate::storage::Storage;

/// A wire language: what the rest of the house may know of it.
#[derive(Debug)]
pub struct Dialect {
    /// Its name: `mcp`, `a2e`, `loaf`, `fluxloop`.
    pub name: &'static str,
    /// The versions that can be asked for by name, the preferred one first.
    pub versions: &'static [&'static str],
    /// Its rules for the text of a line.
    pub text: TextPolicy,
    /// Whether its opening carries a token. If so and none is configured, any is accepted.
    pub has_tokens: bool,
    /// Whether it has sessions with an agent.
    pub has_agent: bool,
    /// The capabilities beside tools that it carries whole, in their own words.
    pub carried: &'static [&'static str],
    /// Whether a first line is of this dialect.
    pub claim: fn(&FirstLine<'_>) -> Claim,
    /// Whether a line is how a server of this dialect answers somebody who began in another, so that it is known by it.
    pub recognizes_reply: fn(&FirstLine<'_>) -> bool,
    /// What the client that begins with this line declares, as far as the line says so.
    pub offer: fn(&FirstLine<'_>) -> Offer,
    /// The rows of its table that carry a feature; none: it has no words for it.
    pub carriers: fn(Feature) -> Vec<Rule>,
    /// Answers a first line with why nobody can be served, in the dialect's own error; nothing if it wants no answer.
    pub excuse: fn(&FirstLine<'_>, &str, &mut Ambient<'_>, &mut Vec<u8>),
    /// Our side towards a downstream.
    pub server: fn(ServerSetup) -> Box<dyn Server>,
    /// Our side towards an upstream. The version is one of `versions`.
    pub client: fn(ClientSetup) -> Box<dyn Client>,
}

/// The extension by which calls may become tasks. We declare it ourselves, whoever the client is.
pub const TASKS_EXTENSION: &str = "extensions.io.modelcontextprotocol/tasks";

/// Capabilities of a client with their settings, in the words that all dialects share.
pub type Declared = Vec<(Capability, Option<Box<RawValue>>)>;

/// Settings of a server's capability that are only shown to people are kept up to this many bytes.
pub(crate) const LONGEST_SETTINGS: usize = 4 * 1024;

/// How sure a dialect is that a first line is its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Claim {
    /// It is not.
    No,
    /// It may be. This dialect answers the line, at once and without delivering a call; the next
    /// line may still decide otherwise.
    Plausible,
    /// It is. The session is of this dialect from now on.
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

/// What we can provide to a downstream, apart from the things themselves.
#[derive(Debug, Clone, Default)]
pub struct Menu {
    /// Whether there are tools at all.
    pub tools: bool,
    /// Whether the list of tools may change while a session is open.
    pub tool_changes: bool,
    /// Whether there are resources at all.
    pub resources: bool,
    /// Whether the list of resources may change while a session is open.
    pub resource_changes: bool,
    /// Whether changes of a single resource can be told of.
    pub resource_updates: bool,
    /// Whether there are prompts at all.
    pub prompts: bool,
    /// Whether the list of prompts may change while a session is open.
    pub prompt_changes: bool,
    /// Whether arguments can be completed.
    pub completions: bool,
    /// Whether log lines are passed on.
    pub logging: bool,
    /// Whether there is an agent to talk with.
    pub agent: bool,
    /// The capabilities beside tools that are served whole, in their own words.
    pub capabilities: Vec<&'static str>,
    /// Whether some tool can be had as a task.
    pub tasks: bool,
    /// How to use what there is: a hint for the downstream's model.
    pub instructions: Option<String>,
    /// Private agreements by their prefixed names, with settings.
    pub extensions: Vec<(String, Box<RawValue>)>,
    /// Experimental features that are declared, by name, with settings.
    pub experimental: Vec<(String, Box<RawValue>)>,
    /// Answer lists of what there is none of with an empty list in place of an error: some hosts abandon a server
    /// that says what it has not.
    pub empty_lists: bool,
    /// Why nothing can be served, where that is so. A dialect whose opening can say it refuses the opening.
    pub outage: Option<String>,
    /// For how long answers may be kept.
    pub cache: CacheHints,
}

/// For how long, and for whom, a downstream may keep an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CacheHints {
    /// Milliseconds; nought: ask again each time.
    pub ttl_ms: u64,
    /// Whether an answer is the same for everybody.
    pub public: bool,
}

/// One way back to the peer: the whole channel, or one of the exchanges of a transport that has many (HTTP).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Lane(pub u64);

impl Lane {
    /// The channel itself: the only way there is on stdio; on HTTP what belongs to no exchange.
    pub const MAIN: Self = Self(0);
}

/// What lets a downstream in, where the dialect has tokens.
#[derive(Debug, Clone)]
pub struct Pass {
    /// The token that it must present.
    pub token: Secret,
    /// Whom it is for, by the name that they give themselves; `None`: anybody.
    pub client: Option<String>,
    /// The capabilities that it opens; `None`: all that there are.
    pub capabilities: Option<Vec<String>>,
    /// Whom it stands for ([`Agreement::pass`]). All passes without a principal stand for the same one.
    pub principal: Option<Arc<str>>,
}

impl Pass {
    /// A token that is good for any client and any capability.
    pub fn any(token: Secret) -> Self {
        Self { token, client: None, capabilities: None, principal: None }
    }
}

/// What becomes of a message that was not agreed. It is told of in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unagreed {
    /// It is dropped, or answered on behalf of whom it was meant for.
    #[default]
    Refused,
    /// It passes as if it had been agreed, where there is something that it could mean.
    Passes,
}

/// What a server side is made of.
#[derive(Debug, Clone)]
pub struct ServerSetup {
    /// Who we are.
    pub identity: Peer,
    /// What else we say of ourselves (`title`, `icons`, `description`, `websiteUrl`), where the dialect can say it.
    pub about: Vec<(String, Box<RawValue>)>,
    /// What we provide.
    pub menu: Menu,
    /// Who may come in, where the dialect has tokens. None: anybody, with any token.
    pub passes: Vec<Pass>,
    /// How many calls may run at once, where the dialect bounds them.
    pub max_parallel: u32,
    /// How many entries a page of a list holds, where the dialect has pages.
    pub page_size: usize,
    /// How many calls may wait or run before the dialect's "busy" is the answer.
    pub max_in_flight: usize,
    /// When this side began.
    pub started: Moment,
    /// What becomes of what was not agreed.
    pub unagreed: Unagreed,
    /// Where outcomes wait for callers that come back.
    pub storage: Arc<dyn Storage>,
}

/// What a client side is made of.
#[derive(Debug, Clone)]
pub struct ClientSetup {
    /// Who we are.
    pub identity: Peer,
    /// The version to ask for: one of the dialect's `versions`.
    pub version: String,
    /// What we want of the upstream, in the dialect's words; `None`: everything.
    pub wants: Option<Vec<Capability>>,
    /// What we provide to the upstream, in the dialect's words, with settings.
    pub provides: Vec<(Capability, Option<Box<RawValue>>)>,
    /// The token to present, where the dialect has tokens.
    pub token: Option<Secret>,
    /// From which level on log lines are wanted, where the dialect can say so; `None`: as the upstream likes.
    pub log_level: Option<Level>,
    /// Whether to ask for word of changed lists, where the dialect wants to be asked.
    pub listen: bool,
    /// Whether each request of ours is an exchange of its own, as on HTTP: its id is its [`Lane`].
    pub exchanges: bool,
    /// What becomes of what was not agreed.
    pub unagreed: Unagreed,
}

/// What one step produced.
#[derive(Debug)]
pub struct Output<'a> {
    /// Lines to send, each ended by LF, behind whatever was in it before.
    pub wire: Vec<u8>,
    /// What else is to be done, in order.
    pub actions: Vec<Action<'a>>,
    /// From where on in `wire` lines go which way; what is before the first goes by [`Lane::MAIN`].
    lanes: Vec<(usize, Lane)>,
}

impl Output<'_> {
    /// An output that continues a buffer of unsent lines.
    pub fn onto(wire: Vec<u8>) -> Self {
        Self { wire, actions: Vec::new(), lanes: Vec::new() }
    }

    /// The same output, free of the line it was read from.
    pub fn into_owned(self) -> Output<'static> {
        let actions = self.actions.into_iter().map(Action::into_owned).collect();
        Output { wire: self.wire, actions, lanes: self.lanes }
    }

    /// Lines written from now on go this way. Costs nothing where there is only one.
    pub fn go(&mut self, lane: Lane) {
        let now = self.lanes.last().map_or(Lane::MAIN, |(_, lane)| *lane);
        if now != lane {
            self.lanes.push((self.wire.len(), lane));
        }
    }

    /// What was written, way by way, in the order in which it was written. Empty pieces are left out.
    pub fn pieces(&self) -> impl Iterator<Item = (Lane, &[u8])> {
        self.spans(self.wire.len()).map(|(lane, span)| (lane, &self.wire[span]))
    }

    /// Where the [`Self::pieces`] are, for whoever has taken `wire`, which was so long.
    pub fn spans(&self, length: usize) -> impl Iterator<Item = (Lane, Range<usize>)> {
        let starts = std::iter::once((0, Lane::MAIN)).chain(self.lanes.iter().copied());
        let ends = self.lanes.iter().map(|(start, _)| *start).chain([length]);
        starts.zip(ends).map(|((start, lane), end)| (lane, start..end)).filter(|(_, span)| !span.is_empty())
    }
}

/// What a server side wants done.
#[derive(Debug)]
pub enum Action<'a> {
    /// Find who answers this call, and hand the outcome to [`Server::resolve`] exactly once.
    Deliver(Call<'a>, Arc<Agreement>),
    /// The caller does not want it any more. Its outcome, if one comes, is ignored.
    Cancel(CallId),
    /// A session is open. In stateless MCP: a new agreement is in force.
    Opened(Arc<Agreement>),
    /// There will be no session, for now.
    Refused(Refusal),
    /// Something came that was dropped without an answer, as the dialect demands.
    /// [`Breach::of`](crate::Breach::of) tells whether that broke a rule.
    Dropped(&'static str),
    /// A request was refused because of what was agreed.
    Declined(Declined),
    /// Something was not agreed and passed all the same ([`Unagreed::Passes`]); which rule that breaks tells
    /// [`Breach::of`](crate::Breach::of).
    Passed(&'static str),
    /// A question that was handed to [`Server::ask`] has been answered, or never will be.
    Answered(QuestionId, Answered),
    /// A subscription to the resource of this URI ends: takes back its [`gladhand_core::operations::Operation::Watch`].
    Unwatch(String, WatchId),
    /// The folders that the downstream works in have changed.
    RootsChanged,
    /// Let go of this exchange; the caller comes back for the rest after a pause. Only where the transport can.
    LetGo(Lane, Duration),
    /// Stop reading, give calls in flight this long, fail the rest, flush, close.
    Close(Duration),
}

impl Action<'_> {
    /// The same action, free of the line it was read from.
    pub fn into_owned(self) -> Action<'static> {
        match self {
            Self::Deliver(call, agreement) => Action::Deliver(call.into_owned(), agreement),
            Self::Cancel(call) => Action::Cancel(call),
            Self::Opened(agreement) => Action::Opened(agreement),
            Self::Refused(refusal) => Action::Refused(refusal),
            Self::Dropped(what) => Action::Dropped(what),
            Self::Declined(declined) => Action::Declined(declined),
            Self::Passed(what) => Action::Passed(what),
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
    /// The request, by the name that the wire has for it: `proc/spawn/req`, `resources/read`.
    pub request: String,
    /// The capability that it needs.
    pub capability: &'static str,
    /// What was agreed.
    pub agreement: Arc<Agreement>,
}

impl Declined {
    /// The rule that the peer broke with it.
    pub fn breach(&self) -> Option<Breach> {
        Breach::of(REQUEST_NOT_AGREED)
    }
}

/// Why a session must end from our side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// The peer closed its side.
    InputClosed,
    /// SIGINT, Ctrl-C.
    Interrupted,
    /// SIGTERM.
    Terminated,
    /// SIGHUP: the terminal is gone.
    HungUp,
}

/// Our side towards a downstream.
///
/// Every call that it delivers must be resolved exactly once, in any order; it writes exactly one
/// answer for it unless the dialect says otherwise.
pub trait Server: fmt::Debug + Send {
    /// A line came. Its text passed the dialect's policy and the limits; it may still be no JSON.
    fn receive<'a>(&mut self, text: &'a str, ambient: &mut Ambient<'_>, out: &mut Output<'a>);

    /// A line came that cannot be read.
    fn garbled(&mut self, fault: &Fault, ambient: &mut Ambient<'_>, out: &mut Output<'_>);

    /// A delivered call has ended. An unknown id (cancelled, resolved before) is ignored.
    fn resolve(&mut self, call: CallId, outcome: Outcome, ambient: &mut Ambient<'_>, out: &mut Output<'_>);

    /// Something to tell the downstream, if the agreement and the caller want it.
    fn notice(&mut self, notice: Notice, ambient: &mut Ambient<'_>, out: &mut Output<'_>);

    /// Whoever answers a call asks its caller something, all at once; without a call, somebody asks the session as such.
    /// Each question ends in exactly one [`Action::Answered`], now or later, unless its call ends first.
    fn ask(
        &mut self,
        _call: Option<CallId>,
        questions: Vec<(QuestionId, Question)>,
        _ambient: &mut Ambient<'_>,
        out: &mut Output<'_>,
    ) {
        // What a dialect has no words for cannot be asked.
        let nobody = |(id, question): (QuestionId, Question)| {
            Action::Answered(id, Err(Failure::missing_capability(question.kind.capability())))
        };
        out.actions.extend(questions.into_iter().map(nobody));
    }

    /// A call that was delivered with a wish for a task goes on as one: tell the caller how to come back for it. Its
    /// outcome is handed to [`Server::resolve`] as ever.
    fn goes_on_as_task(&mut self, _call: CallId, _ambient: &mut Ambient<'_>, _out: &mut Output<'_>) {}

    /// The peer let go of an exchange before its answer was written.
    fn hung_up(&mut self, _lane: Lane, _ambient: &mut Ambient<'_>, _out: &mut Output<'_>) {}

    /// Who we are and what we provide is something else from now on. It holds for what is agreed from here; what was
    /// agreed stays.
    fn offer(&mut self, _identity: Peer, _menu: Menu) {}

    /// Other passes hold from now on. A session that they would not have opened as it is ends: its calls in flight are
    /// answered, and [`Action::Close`] follows.
    fn readmit(&mut self, _passes: &[Pass], _ambient: &mut Ambient<'_>, _out: &mut Output<'_>) {}

    /// The session must end. No line comes after this; calls in flight are still resolved.
    fn stop(&mut self, stop: Stop, ambient: &mut Ambient<'_>, out: &mut Output<'_>);

    /// The moment named by [`Server::deadline`] has come.
    fn wake(&mut self, _ambient: &mut Ambient<'_>, _out: &mut Output<'_>) {}

    /// When to call [`Server::wake`], on the clock of [`Moment::elapsed`].
    fn deadline(&self) -> Option<Duration> {
        None
    }

    /// Calls that were accepted and not answered, queued ones included.
    fn in_flight(&self) -> Vec<CallId>;

    /// How many bytes of the peer's making it keeps for them: ids, names, queued arguments, answers
    /// that wait their turn. Above a bound of its choosing the driver stops reading.
    fn held(&self) -> usize;
}

/// What the client of an agreement can be asked in the middle of a call, in the words that all dialects share.
pub fn askable(agreement: &Agreement) -> impl Iterator<Item = (Capability, Option<Box<RawValue>>)> {
    let terms = agreement.agreed(Side::Client).filter(|term| is_askable(&term.capability));
    terms.map(|term| (term.capability.clone(), term.settings.clone()))
}

/// The capabilities of the client of an agreement that an upstream hears of when a session is opened or a call is made for
/// that client: what it can be asked, and what is between it and the upstream alone.
pub fn passed_on(agreement: &Agreement) -> impl Iterator<Item = (Capability, Option<Box<RawValue>>)> {
    let terms = agreement.agreed(Side::Client).filter(|term| is_passed_on(&term.capability));
    terms.map(|term| (term.capability.clone(), term.settings.clone()))
}

/// Whether an upstream hears that a client has a capability.
pub fn is_passed_on(capability: &Capability) -> bool {
    let is_their_own = matches!(capability.0.split_once('.'), Some(("extensions" | "experimental", _)));
    is_askable(capability) || is_their_own && capability.0 != TASKS_EXTENSION
}

/// The capabilities of the server of an agreement that are carried whole, in their own words.
pub fn carried(agreement: &Agreement) -> impl Iterator<Item = &'static str> {
    let dialect = crate::REGISTRY.iter().find(|dialect| dialect.name == agreement.dialect);
    let carried = dialect.map_or(&[][..], |dialect| dialect.carried);
    carried.iter().copied().filter(|name| agreement.allows(Side::Server, name))
}

/// The name of a capability that some dialect carries whole.
pub fn carried_name(name: &str) -> Option<&'static str> {
    crate::REGISTRY.iter().flat_map(|dialect| dialect.carried).copied().find(|carried| *carried == name)
}

/// Whether a capability of a client is that it can be asked something.
pub fn is_askable(capability: &Capability) -> bool {
    let whole = capability.0.split('.').next().unwrap_or_default();
    [QuestionKind::Elicit, QuestionKind::Sample, QuestionKind::Roots].iter().any(|kind| kind.capability() == whole)
}

/// What a client side heard, or wants done.
#[derive(Debug)]
pub enum Event {
    /// The session is open.
    Opened(Arc<Agreement>),
    /// There is no session.
    Refused(Refusal),
    /// A call of ours has ended.
    Answered(CallId, Outcome),
    /// The upstream told us something.
    Notice(Notice),
    /// The upstream asks something, while it works on a call of ours or on its own. To be answered exactly once with
    /// [`Client::answer`], unless [`Event::Unasked`] comes first.
    Asked(QuestionId, Option<CallId>, Question),
    /// The upstream does not want to know any more.
    Unasked(QuestionId),
    /// Nothing is wanted of this exchange any more. Only where each request is one.
    LetGo(Lane),
    /// Something came that makes no sense here and was dropped.
    Dropped(&'static str),
    /// Something was not agreed and passed all the same ([`Unagreed::Passes`]).
    Passed(&'static str),
}

/// How an exchange ended without an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Loss {
    /// The request did not reach anybody who would have worked on it, and this is why.
    Unsent(Box<str>),
    /// The request was sent, and the way back broke.
    Broken,
    /// The request was refused because the session is over: a new one must be opened.
    Session,
    /// An HTTP status was the answer, and nothing that says more.
    Status(u16),
    /// The answer came, and is longer than this many bytes, which is the limit.
    TooLong(usize),
    /// The answer came, and there is no room for it beside others that arrive.
    NoRoom,
    /// The upstream does not let us in, and this is why.
    Denied(Box<str>),
    /// A web page came in place of an answer, with this HTTP status.
    WebPage(u16),
    /// The upstream refuses this request with HTTP status 403 and these words. Credentials would not help.
    Forbidden(Box<str>),
}

/// What one step of a client side produced.
#[derive(Debug, Default)]
pub struct Heard {
    /// Lines to send, each ended by LF, behind whatever was in it before.
    pub wire: Vec<u8>,
    /// What was heard, in order.
    pub events: Vec<Event>,
}

/// Our side towards an upstream.
///
/// [`Client::open`] comes first; calls may be made after [`Event::Opened`]. Every call ends in
/// exactly one [`Event::Answered`], also when the upstream goes away ([`Client::gone`]).
pub trait Client: fmt::Debug + Send {
    /// Begins the opening.
    fn open(&mut self, ambient: &mut Ambient<'_>, heard: &mut Heard);

    /// A line came. Its text passed the dialect's policy and the limits; it may still be no JSON.
    fn receive(&mut self, text: &str, ambient: &mut Ambient<'_>, heard: &mut Heard);

    /// A line came that cannot be read; `skim` is what could be told of it in passing.
    fn garbled(&mut self, fault: &Fault, skim: &Skim, ambient: &mut Ambient<'_>, heard: &mut Heard);

    /// Makes a call under an id of the driver's choosing: on behalf of a caller with whom this was agreed, which says what
    /// that caller can be asked, or on our own.
    fn call(&mut self, call: Call<'_>, behalf: Option<&Arc<Agreement>>, ambient: &mut Ambient<'_>, heard: &mut Heard);

    /// The folders that whoever we call for works in have changed.
    fn roots_changed(&mut self, _ambient: &mut Ambient<'_>, _heard: &mut Heard) {}

    /// The answer to a question of the upstream.
    fn answer(&mut self, _question: QuestionId, _answered: Answered, _ambient: &mut Ambient<'_>, _heard: &mut Heard) {}

    /// A resource need not be watched any more.
    fn unwatch(&mut self, _uri: &str, _ambient: &mut Ambient<'_>, _heard: &mut Heard) {}

    /// Gives up a call. It is answered as cancelled at once; the upstream is told where the dialect can.
    fn cancel(&mut self, call: CallId, ambient: &mut Ambient<'_>, heard: &mut Heard);

    /// The upstream is gone: an opening under way is refused, calls under way fail.
    fn gone(&mut self, ambient: &mut Ambient<'_>, heard: &mut Heard);

    /// An exchange ended without an answer; [`Lane::MAIN`] stands for what belongs to no request.
    fn lost(&mut self, _lane: Lane, _loss: Loss, _ambient: &mut Ambient<'_>, _heard: &mut Heard) {}

    /// The moment named by [`Client::deadline`] has come.
    fn wake(&mut self, _ambient: &mut Ambient<'_>, _heard: &mut Heard) {}

    /// When to call [`Client::wake`], on the clock of [`Moment::elapsed`].
    fn deadline(&self) -> Option<Duration> {
        None
    }

    /// The headers that go with a line of ours where lines travel over HTTP.
    fn headers(&self, _line: &str) -> Vec<(String, String)> {
        Vec::new()
    }

    /// Says goodbye, where the dialect has a word for it.
    fn close(&mut self, _ambient: &mut Ambient<'_>, _heard: &mut Heard) {}
}
