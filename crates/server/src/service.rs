//! A hub and the terms on which it is served: what an embedder puts together.

use std::fmt;
use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gladhand_core::negotiation::Peer;
use gladhand_core::operations::TaskSupport;
use gladhand_core::sync::Unpoisoned as _;
use gladhand_core::validation::Validation;
use gladhand_core::wire::invisible::strip;
use gladhand_core::wire::lines::MAX_LINE;
use gladhand_core::wire::{RawValue, json};
use gladhand_dialects::storage::Unshared;
use gladhand_dialects::{CacheHints, Dialect, Door, Menu, Pass, REGISTRY, ServerSetup, Stop};
use gladhand_hub::policy::{Governor, Invisible, Violations};
use gladhand_hub::{Hub, Represented, UpstreamStatus};

use crate::access::Access;
use crate::control::{ChangeStatus, Control, Followers, Introduction};
use crate::downstream::{self, Ended};
use crate::http::{Http, HttpServer, WorkerThreads};
use crate::signals::{self, Signals};
use crate::stdio::{Input, Output};
use gladhand_session::clock::Clock;
use gladhand_session::tap::Tap;
use gladhand_session::violations;

/// How long a session waits for upstreams whose lists are unknown. Later, their lists are published once they are open.
const FIRST_OPENING: Duration = Duration::from_secs(2);

/// A hub, ready to be served.
#[derive(Debug)]
pub struct Service {
    hub: Hub,
    identity: Peer,
    about: Vec<(String, Box<RawValue>)>,
    instructions: Option<String>,
    extensions: Vec<(String, Box<RawValue>)>,
    empty_lists: bool,
    cache: CacheHints,
    registry: &'static [&'static Dialect],
    pinned: Option<&'static Dialect>,
    access: Arc<Access>,
    max_parallel: u32,
    limits: Limits,
    /// How long the first session waits for upstreams whose lists are unknown.
    opening_timeout: Duration,
    in_front_of: Option<Arc<dyn Represented>>,
    alongside: Option<Work>,
    /// A background job that runs after startup.
    chore: Option<fn()>,
    tools_may_change: bool,
    outlives_hang_ups: bool,
    shown_as: Option<Introduction>,
    change: ChangeStatus,
    followers: Option<Arc<dyn Followers>>,
    token_advice: Option<String>,
    tap: Arc<Tap>,
}

/// Limits. When one is reached, the caller gets an error in its own dialect.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Longest line in bytes.
    pub line_bytes: usize,
    /// Calls of one session that may wait or run.
    pub in_flight: usize,
    /// Tools on a page of a list.
    pub page_size: usize,
    /// How long calls in flight may take to finish when the session ends.
    pub drain: Duration,
    /// Whether the loop of a session over stdio stays awake for up to 100 µs if requests closely follow its responses.
    pub busy_poll: bool,
}

impl Default for Limits {
    fn default() -> Self {
        let drain = Duration::from_secs(5);
        Self { line_bytes: MAX_LINE, in_flight: 1024, page_size: 100, drain, busy_poll: true }
    }
}

/// A future that runs while the service does. The mutex only makes the service `Sync`.
struct Work(Mutex<Pin<Box<dyn Future<Output = ()> + Send>>>);

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Work")
    }
}

impl Service {
    /// Serves a hub in all dialects, with the default limits and no token.
    pub fn new(hub: Hub) -> Self {
        Self {
            hub,
            identity: Peer::new("gladhand", env!("CARGO_PKG_VERSION")),
            about: Vec::new(),
            instructions: None,
            extensions: Vec::new(),
            empty_lists: false,
            cache: CacheHints::default(),
            registry: REGISTRY,
            pinned: None,
            access: Arc::default(),
            max_parallel: 4,
            limits: Limits::default(),
            opening_timeout: FIRST_OPENING,
            in_front_of: None,
            alongside: None,
            chore: None,
            tools_may_change: false,
            outlives_hang_ups: false,
            shown_as: None,
            change: ChangeStatus::default(),
            followers: None,
            token_advice: None,
            tap: Arc::default(),
        }
    }

    /// Hands every frame of every session to this tap.
    pub fn tapped(self, tap: Arc<Tap>) -> Self {
        Self { tap, ..self }
    }

    /// Introduces itself under another name.
    pub fn identity(self, identity: Peer) -> Self {
        Self { identity, ..self }
    }

    /// Says more of itself where the dialect can: `title`, `description`, `icons`, `websiteUrl`.
    pub fn about(mut self, name: impl Into<String>, value: &serde_json::Value) -> Self {
        self.about.push((name.into(), json::to_raw(value)));
        self
    }

    /// Sets the instructions for the client's model.
    pub fn instructions(self, instructions: impl Into<String>) -> Self {
        Self { instructions: Some(instructions.into()), ..self }
    }

    /// Declares a private agreement by its prefixed name, with settings.
    pub fn extension(mut self, name: impl Into<String>, settings: &serde_json::Value) -> Self {
        self.extensions.push((name.into(), json::to_raw(settings)));
        self
    }

    /// Returns an empty list instead of an error for list methods without entries.
    pub fn empty_lists(self, empty_lists: bool) -> Self {
        Self { empty_lists, ..self }
    }

    /// Sets how long clients may cache responses.
    pub fn cache(self, cache: CacheHints) -> Self {
        Self { cache, ..self }
    }

    /// Looks for dialects in another registry.
    pub fn registry(self, registry: &'static [&'static Dialect]) -> Self {
        Self { registry, ..self }
    }

    /// Speaks one dialect, regardless of the first line.
    pub fn pinned(self, dialect: &'static Dialect) -> Self {
        Self { pinned: Some(dialect), ..self }
    }

    /// Tells the operator how to configure a token, where the log says that there is none.
    pub fn token_advice(self, advice: impl Into<String>) -> Self {
        Self { token_advice: Some(advice.into()), ..self }
    }

    /// Lets in whom these passes are for where the dialect has tokens.
    pub fn passes(self, passes: Vec<Pass>) -> Self {
        self.access.set_passes(passes);
        self
    }

    /// Runs this many calls at once where the dialect bounds them.
    pub fn max_parallel(self, max_parallel: u32) -> Self {
        Self { max_parallel, ..self }
    }

    /// Holds arguments and structured results to the tools' schemas, or leaves that to the tools (the default).
    pub fn validating(self, validation: Option<Arc<dyn Validation>>) -> Self {
        Self { hub: self.hub.validating(validation), ..self }
    }

    /// Holds all calls to a policy.
    pub fn governed(self, governor: Arc<Governor>) -> Self {
        Self { hub: self.hub.governed(governor), ..self }
    }

    /// Counts violations by downstream clients, and enforces the rules that are configured.
    pub fn noting(self, violations: Arc<Violations>) -> Self {
        Self { hub: self.hub.noting(violations), ..self }
    }

    /// Keeps to other limits.
    pub fn limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// Represents one upstream, with its identity and instructions.
    pub fn in_front_of(self, upstream: Arc<dyn Represented>) -> Self {
        Self { in_front_of: Some(upstream), ..self }
    }

    /// Is seen by `gladhand ps`, as this command with this data folder.
    pub fn shown_as(self, command: impl Into<String>, data_dir: Option<PathBuf>) -> Self {
        let introduction = Introduction { command: command.into(), data_dir, change: self.change.clone() };
        Self { shown_as: Some(introduction), ..self }
    }

    /// The change of the configuration that `gladhand ps` shows as waiting.
    pub fn change_status(&self) -> ChangeStatus {
        self.change.clone()
    }

    /// Shows messages to `gladhand tap`, if it is seen by `gladhand ps`.
    pub fn followed_by(self, followers: Arc<dyn Followers>) -> Self {
        Self { followers: Some(followers), ..self }
    }

    /// Opens upstreams before the session that they are for, so that what it is offered is exactly what they have.
    pub fn waiting_for_upstreams(self) -> Self {
        Self { opening_timeout: Duration::MAX, ..self }
    }

    /// Does this while it serves, in the runtime that [`Self::serve_stdio`] and [`Self::serve_http`] make. The work may
    /// put other providers behind the hub, so the server declares that the tool list can change.
    pub fn alongside(self, work: impl Future<Output = ()> + Send + 'static) -> Self {
        Self { alongside: Some(Work(Mutex::new(Box::pin(work)))), tools_may_change: true, ..self }
    }

    /// Does not stop on SIGHUP when serving over HTTP, because the background work uses that signal.
    pub fn outliving_hang_ups(self, outlives_hang_ups: bool) -> Self {
        Self { outlives_hang_ups, ..self }
    }

    /// Runs a job once on a separate thread, after one second of serving, so that it does not delay the start.
    pub fn with_chore(self, chore: fn()) -> Self {
        Self { chore: Some(chore), ..self }
    }

    /// Starts the background work.
    fn begin_alongside(&mut self) {
        if let Some(chore) = self.chore.take() {
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_secs(1)).await;
                let _ = tokio::task::spawn_blocking(chore).await;
            });
        }
        if let Some(Work(work)) = self.alongside.take() {
            // It ends with the runtime.
            tokio::spawn(work.into_inner().unpoisoned());
        }
    }

    /// Serves one downstream on standard input and output until it ends.
    ///
    /// One thread is enough for it: the runtime is made here and ends with the session.
    pub fn serve_stdio(mut self) -> io::Result<Ended> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let ended = runtime.block_on(async {
            self.begin_alongside();
            let clock = Clock::start();
            let hub = self.hub.clone();
            let shown = tokio::spawn(shown(hub.clone(), self.shown_as.clone(), self.followers.clone()));
            let ended = downstream::serve(self, clock, Input::stdin()?, Output::stdout()?).await;
            shown.abort();
            // Once it has ended, its socket is gone.
            let _ = shown.await;
            if !matches!(ended, Ok(Ended::AtOnce(_))) {
                hub.closed().await;
            }
            ended
        });
        // A thread may be blocked reading a terminal. Its result is not needed.
        runtime.shutdown_background();
        ended
    }

    /// Serves clients over HTTP until a signal arrives. `listening` is told where, once it is so.
    ///
    /// This thread accepts connections and serves them; others help it as there are more.
    pub fn serve_http(mut self, http: Http, listening: impl FnOnce(&[String])) -> io::Result<Ended> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        // Work on another thread may be needed until the hub is closed.
        let (workers, _workers) = WorkerThreads::of_all_cores();
        let ended = runtime.block_on(async {
            self.begin_alongside();
            let mut signals = match self.outlives_hang_ups {
                true => Signals::except_hang_up()?,
                false => Signals::listen()?,
            };
            let hub = self.hub.clone();
            tokio::select! {
                () = self.open_upstreams() => {}
                stop = signals.next() => return Ok(Ended::AtOnce(signals::exit_status(stop))),
            }
            let (shown_as, followers) = (self.shown_as.clone(), self.followers.clone());
            let server = self.bind_http(http).await?.served_by(workers);
            listening(server.urls());
            let _control = control(&hub, shown_as.as_ref(), server.urls().to_vec(), followers);
            let (first, stop) = tokio::sync::oneshot::channel();
            let mut first = Some(first);
            // The sender is dropped only after it was used.
            let mut run = std::pin::pin!(server.run(async { stop.await.unwrap_or(Stop::Terminated) }));
            loop {
                tokio::select! {
                    biased;
                    stop = signals.next() => match first.take() {
                        // The server is waiting for this value.
                        Some(first) => drop(first.send(stop)),
                        None => return Ok(Ended::AtOnce(signals::exit_status(stop))),
                    },
                    () = &mut run => break,
                }
            }
            tokio::select! {
                () = hub.closed() => Ok(Ended::Cleanly),
                stop = signals.next() => Ok(Ended::AtOnce(signals::exit_status(stop))),
            }
        });
        runtime.shutdown_background();
        ended
    }

    /// Binds an HTTP server for a runtime of the caller's own; [`HttpServer::run`] serves.
    pub async fn bind_http(self, http: Http) -> io::Result<HttpServer> {
        HttpServer::bind(self, http).await
    }

    /// Opens upstreams of which nothing is known yet, so that a session is offered what they declare: extensions,
    /// experimental capabilities and tasks cannot be announced later. Opening goes on after the wait is over.
    pub(crate) async fn open_upstreams(&self) {
        let hub = self.hub.clone();
        let opening = tokio::spawn(async move { hub.settled().await });
        let _ = tokio::time::timeout(self.opening_timeout, opening).await;
    }

    /// Whether a current or future provider may send requests to the client.
    pub(crate) fn may_ask(&self) -> bool {
        self.hub.features().questions || self.tools_may_change
    }

    /// Who answers calls.
    pub fn hub(&self) -> &Hub {
        &self.hub
    }

    /// Whether a dialect is spoken here.
    pub(crate) fn speaks(&self, dialect: &Dialect) -> bool {
        let is_it = |known: &&Dialect| known.name == dialect.name;
        match self.pinned {
            Some(pinned) => is_it(&pinned),
            None => self.registry.iter().any(is_it),
        }
    }

    /// The tap that every frame of every session passes.
    pub fn tap(&self) -> &Arc<Tap> {
        &self.tap
    }

    /// The access rules, which may change while the service runs.
    pub fn access(&self) -> &Arc<Access> {
        &self.access
    }

    /// A message about a missing token, with the advice in parentheses.
    pub(crate) fn advised(&self, message: &str) -> String {
        match &self.token_advice {
            Some(advice) => format!("{message} ({advice})"),
            None => message.to_owned(),
        }
    }

    /// The bounds that hold.
    pub(crate) fn bounds(&self) -> &Limits {
        &self.limits
    }

    /// The identity that we declare.
    pub(crate) fn identified(&self) -> Peer {
        let fronted = self.in_front_of.as_ref().and_then(|upstream| upstream.introduction());
        let fronted = fronted.and_then(|(peer, _)| {
            // The invisible-character check covers the whole description.
            let whole = self.hub.invisible().json(json::to_raw(&peer)).ok()?;
            serde_json::from_str(whole.get()).ok()
        });
        let fronted: Option<Peer> = fronted;
        fronted.filter(|peer| !peer.name.is_empty()).unwrap_or_else(|| self.identity.clone())
    }

    /// The instructions for the client, including a note about each failed upstream.
    fn instructions_now(&self) -> Option<String> {
        let invisible = self.hub.invisible();
        let fronted = || {
            let said = invisible.text(self.in_front_of.as_ref()?.introduction()?.1?);
            said.inspect_err(|found| tracing::warn!("the upstream's instructions are left out: they have {found}")).ok()
        };
        let own = self.instructions.clone().or_else(fronted);
        let status = self.hub.status();
        // With several clients, some may not be allowed to know that this upstream exists.
        let is_told = self.hub.expects_one_session();
        let is_missing = |upstream: &&UpstreamStatus| match upstream.state.as_str() {
            "failed" => true,
            "opening" => upstream.tools == 0,
            _ => false,
        };
        let told = status.upstreams.iter().filter(|_| is_told).filter(is_missing).map(|upstream| {
            let why = upstream.detail.as_deref().unwrap_or("it could not be opened");
            let why = if invisible == Invisible::Show { why.into() } else { strip(why) };
            let why = if upstream.state == "opening" { format!("it has not opened yet, {why}").into() } else { why };
            format!("Not available at the moment: {} ({why}).", upstream.name)
        });
        let all: Vec<_> = own.into_iter().chain(told).collect();
        (!all.is_empty()).then(|| all.join("\n"))
    }

    /// The features of the hub, as an offer to a downstream.
    pub(crate) fn menu(&self) -> Menu {
        let features = self.hub.features();
        let tools = self.hub.tools();
        let tool_changes = features.tool_changes || self.tools_may_change;
        let declared = self.hub.declares();
        let of_upstreams = |map: &'static str| {
            declared.iter().filter_map(move |(capability, settings)| {
                let settings = settings.clone().unwrap_or_else(|| json::raw("{}".to_owned()));
                Some((capability.0.strip_prefix(map)?.to_owned(), settings))
            })
        };
        Menu {
            tools: !tools.is_empty() || tool_changes,
            tool_changes,
            resources: !self.hub.resources().is_empty()
                || !self.hub.templates().is_empty()
                || features.resource_changes,
            resource_changes: features.resource_changes,
            resource_updates: features.resource_updates,
            prompts: !self.hub.prompts().is_empty() || features.prompt_changes,
            prompt_changes: features.prompt_changes,
            completions: features.completions,
            logging: !features.silent,
            agent: self.hub.agent().is_some(),
            capabilities: self.hub.capabilities(),
            tasks: features.tasks || tools.iter().any(|tool| tool.tasks != TaskSupport::Forbidden),
            instructions: self.instructions_now(),
            extensions: self.extensions.iter().cloned().chain(of_upstreams("extensions.")).collect(),
            experimental: of_upstreams("experimental.").collect(),
            empty_lists: self.empty_lists,
            outage: self.in_front_of.as_ref().and_then(|upstream| upstream.outage()).map(|failure| failure.message),
            cache: self.cache,
        }
    }

    /// The setup of a new server side.
    pub(crate) fn setup(&self, clock: &Clock) -> ServerSetup {
        ServerSetup {
            identity: self.identified(),
            about: self.about.clone(),
            menu: self.menu(),
            passes: self.access.passes(),
            max_parallel: self.max_parallel,
            page_size: self.limits.page_size,
            max_in_flight: self.limits.in_flight,
            started: clock.now(),
            unagreed: violations::unagreed(self.hub.violations()),
            storage: Arc::new(Unshared),
        }
    }

    pub fn door(&self, clock: &Clock) -> Door {
        let setup = self.setup(clock);
        match self.pinned {
            Some(dialect) => Door::pinned(dialect, setup),
            None => Door::detecting(self.registry, setup),
        }
    }
}

/// Lets `gladhand ps` see this process until the task is aborted. A start does not wait for the socket: without upstreams,
/// which take longer anyway, it is made a moment later.
async fn shown(hub: Hub, shown_as: Option<Introduction>, followers: Option<Arc<dyn Followers>>) {
    const MOMENT: Duration = Duration::from_millis(100);
    if !hub.features().questions {
        tokio::time::sleep(MOMENT).await;
    }
    let _control = control(&hub, shown_as.as_ref(), Vec::new(), followers);
    std::future::pending::<()>().await;
}

/// Lets `gladhand ps` and `gladhand tap` see us, where that was asked for. Without it everything else goes on.
fn control(
    hub: &Hub,
    shown_as: Option<&Introduction>,
    listening: Vec<String>,
    followers: Option<Arc<dyn Followers>>,
) -> Option<Control> {
    let opened = Control::open(hub.clone(), shown_as?, listening, followers);
    opened.inspect_err(|error| tracing::debug!(%error, "`gladhand ps` does not see this process")).ok()
}
