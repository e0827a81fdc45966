//! An upstream as a provider, so that every downstream session can reach it.
//!
//! An upstream starts when it is first needed. Its lists from the last run are remembered, so that they are available
//! immediately. Callers share one connection to an upstream where that is safe. [`UpstreamProvider`] describes which
//! callers get a separate connection.

mod breaker;
mod client_roots;
mod connection_budget;
mod hosting;
mod lists;
pub mod memory;
mod pinning;
mod pool;
mod stale;
mod subscriptions;
mod upstream_connection;
mod viewers;

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::task::Poll;
use std::time::Duration;

use gladhand_core::negotiation::{Offer, Peer};
use gladhand_core::operations::{
    CapabilityCall, CompletionCall, Failure, FailureKind, Level, Log, Operation, Outcome, Party, Prompt, Resource,
    Template, Terms, Tool, ToolCall,
};
use gladhand_core::sync::Unpoisoned as _;
use gladhand_core::wire::json;
use gladhand_dialects::mcp::revision::Revision;
use gladhand_dialects::{askable, carried_name, passed_on};
use gladhand_hub::policy::{Offender, Who};
use gladhand_hub::{
    Answer, Caller, ChangeNotifier, Context, Declared, Features, List, Listed, Offence, Provider, Represented,
    SessionId, Settling, UpstreamStatus, viewer,
};
use gladhand_redaction::redact;
use sha2::{Digest, Sha256};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::upstream::{Options, Speak, Target, Upstream};
pub use memory::forget_unused;

use client_roots::Allowed;
pub use connection_budget::ConnectionBudget;
use connection_budget::Permit;
use hosting::{CallHost, Session, WayHost};
use lists::Lists;
use pool::Pools;
use stale::Stale;
use subscriptions::{Subscriber, Subscriptions};
use upstream_connection::{ClientProfile, UpstreamConnection};
use viewers::Viewers;

/// How long a list request waits for an upstream whose lists are unknown.
const SETTLING: Duration = Duration::from_secs(15);

/// How many sessions a call tries, if each ends before the call could be made.
const SESSIONS: usize = 8;

/// How long a response is held back for log lines that the server wrote earlier but sent on another stream.
const LATE_LOGS: Duration = Duration::from_millis(20);

/// An upstream as it is configured.
#[derive(Debug, Clone)]
pub struct Spec {
    /// The name of the upstream in the configuration.
    pub name: String,
    /// The address or command of the upstream.
    pub target: Target,
    /// How to open a session. The downstream client decides which client features are declared.
    pub options: Options,
    /// Whether every session gets a separate connection, regardless of the agreement.
    pub isolated: bool,
    /// The folders that clients over a network may name as their roots, where the upstream runs on this machine.
    pub client_roots: Vec<PathBuf>,
    /// The shared budget for connections that serve one caller only. Upstreams served together share it.
    pub room: ConnectionBudget,
    /// The file that remembers the upstream's lists between runs.
    pub remembered_in: Option<PathBuf>,
}

impl Spec {
    /// The name for logs and files. If the configured name is the command line, which may contain a secret, the label
    /// is the program name plus a hash that distinguishes it.
    fn label(&self) -> String {
        match &self.target {
            Target::Command(words) if self.name == self.target.to_string() => {
                let program = words.first().map_or("", String::as_str);
                let program = program.rsplit(['/', '\\']).next().unwrap_or(program);
                let digest = Sha256::digest(&self.name);
                format!("{program}#{}", digest[..4].iter().map(|byte| format!("{byte:02x}")).collect::<String>())
            }
            _ => self.name.clone(),
        }
    }
}

/// An upstream behind the hub.
///
/// Callers share a connection to it as follows:
///
/// - If only one downstream session will ever exist ([`Provider::expects`]), one connection declares exactly the client
///   features of that session.
/// - Callers that cannot answer requests share the main connection.
/// - If every request names its client features (stateless MCP), all callers share the main connection.
/// - The state of a capability belongs to one session, which has a separate connection for it.
/// - Otherwise, the upstream could not tell which caller to ask. A session then has a separate connection, and a call
///   without a session takes one that no other call uses at the same time.
#[derive(Debug)]
pub struct UpstreamProvider {
    inner: Arc<Inner>,
}

struct Inner {
    spec: Arc<Spec>,
    /// The name for logs and files.
    label: String,
    /// The lists of the upstream, once known.
    lists: Mutex<Option<Arc<Lists>>>,
    /// The lists per caller, where callers may see different lists.
    viewers: Mutex<Viewers>,
    /// Held while the lists are refreshed.
    refreshing: Arc<tokio::sync::Mutex<()>>,
    /// How many calls have ended.
    ended: AtomicU64,
    /// Whether the upstream refused a handshake and speaks only the stateless era.
    is_stateless_only: AtomicBool,
    /// Whether the hub knows the lists too. List requests wait for this.
    is_shown: watch::Sender<bool>,
    stale: Arc<Stale>,
    notifier: OnceLock<ChangeNotifier>,
    connections: Mutex<Connections>,
    /// Set if only one downstream session will ever exist.
    is_alone: OnceLock<()>,
    allowed_roots: OnceLock<Allowed>,
    /// Why the last attempt to open a session failed.
    trouble: Mutex<Option<Failure>>,
    subscriptions: Subscriptions,
    /// The only downstream session, once it is open.
    session: watch::Sender<Option<Weak<dyn Caller>>>,
    keeper: OnceLock<AbortHandle>,
}

#[derive(Default)]
struct Connections {
    /// The client of the one session that will be downstream.
    expected: Option<ClientProfile>,
    main: Option<Arc<UpstreamConnection>>,
    own: HashMap<SessionId, Arc<UpstreamConnection>>,
    pools: Pools,
}

impl UpstreamProvider {
    /// An upstream that is not started yet.
    pub fn new(mut spec: Spec) -> Self {
        spec.options.called = spec.label();
        let remembered = spec.remembered_in.as_deref().and_then(memory::recall);
        let inner = Inner {
            label: spec.label(),
            spec: Arc::new(spec),
            is_shown: watch::Sender::new(remembered.is_some()),
            lists: Mutex::new(remembered.map(Arc::new)),
            viewers: Mutex::default(),
            refreshing: Arc::default(),
            ended: AtomicU64::new(0),
            is_stateless_only: AtomicBool::new(false),
            stale: Arc::default(),
            notifier: OnceLock::new(),
            connections: Mutex::default(),
            is_alone: OnceLock::new(),
            allowed_roots: OnceLock::new(),
            trouble: Mutex::default(),
            subscriptions: Subscriptions::default(),
            session: watch::Sender::new(None),
            keeper: OnceLock::new(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Opens the main connection, or returns why that failed.
    pub async fn open(&self) -> Result<(), Failure> {
        self.inner.open_main().await?;
        self.inner.listed().await;
        Ok(())
    }

    /// Forwards a call on the connection that its caller may use.
    fn pass_on(&self, operation: Operation<'_>, repeatable: bool, context: &Context<'_>) -> Answer {
        let inner = Arc::clone(&self.inner);
        let errand = Errand::of(operation, context, inner.allowed_roots());
        let may_become_task = inner.known().is_some_and(|lists| lists.tasks);
        let mut repeatable = repeatable;
        let work = async move {
            second_look().await;
            loop {
                match inner.run(&errand).await {
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

/// A call to be forwarded.
struct Errand {
    operation: Operation<'static>,
    terms: Terms<'static>,
    agreement: Arc<gladhand_core::negotiation::Agreement>,
    host: Arc<CallHost>,
}

impl Errand {
    fn of(operation: Operation<'_>, context: &Context<'_>, roots: Allowed) -> Self {
        Self {
            operation: operation.into_owned(),
            terms: context.terms.clone().into_owned(),
            agreement: Arc::clone(context.agreement),
            host: CallHost::of(context, roots),
        }
    }

    /// Whether an upstream with a handshake needs a separate session for this caller: the caller can answer requests,
    /// or its session declares a feature that the upstream must know.
    fn needs_way_of_its_own(&self) -> bool {
        let has_session = self.host.caller.session() != SessionId::NONE;
        self.can_be_asked() || has_session && passed_on(&self.agreement).next().is_some()
    }

    /// Whose lists the caller sees.
    fn viewer(&self) -> SessionId {
        viewer(&self.agreement, self.host.caller.session(), self.terms.principal.as_deref())
    }

    /// The viewer id that callers without a session share if they see the same lists as this caller.
    fn kind(&self) -> SessionId {
        viewer(&self.agreement, SessionId::NONE, self.terms.principal.as_deref())
    }

    fn can_be_asked(&self) -> bool {
        askable(&self.agreement).next().is_some()
    }
}

impl Inner {
    fn known(&self) -> Option<Arc<Lists>> {
        self.lists.lock().unpoisoned().clone()
    }

    fn connections(&self) -> MutexGuard<'_, Connections> {
        self.connections.lock().unpoisoned()
    }

    async fn run(self: &Arc<Self>, errand: &Errand) -> Outcome {
        let outcome = self.run_on_a_connection(errand).await;
        self.ended.fetch_add(1, Ordering::Relaxed);
        outcome
    }

    async fn run_on_a_connection(self: &Arc<Self>, errand: &Errand) -> Outcome {
        let (connection, turn) = match self.shared_connection(errand) {
            Some(connection) => (connection, None),
            // The rare waiting path is boxed, so that the future of a call stays small.
            None => Box::pin(self.way_for(errand)).await?,
        };
        let _under_way = connection.host.begin(&errand.host);
        let Some(turn) = turn else { return self.make(errand, &connection).await };
        Box::pin(async move {
            // Declared before the call: if this future is dropped, the server receives the cancellation before the
            // connection is reused.
            let mut turn = turn;
            turn.outlives_its_call();
            tokio::select! {
                outcome = self.make(errand, &connection) => {
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
    async fn make(self: &Arc<Self>, errand: &Errand, connection: &Arc<UpstreamConnection>) -> Outcome {
        for _ in 0..SESSIONS {
            let session = match connection.session() {
                Some(session) => session,
                None if self.is_main(connection) => Box::pin(self.open_main()).await?,
                None => Box::pin(self.open_other(connection, true)).await?,
            };
            if self.is_pinning()
                && let Err(failure) = Box::pin(self.check_pins(connection, &session, errand)).await
            {
                if session.is_over() && failure.kind != FailureKind::Denied {
                    continue;
                }
                return Err(failure);
            }
            if self.subscriptions.are_unanswered() {
                Box::pin(self.subscriptions.answered(&Subscriber::of(errand))).await;
            }
            let call = || (errand.operation.clone(), errand.terms.clone());
            let (agreement, host) = (Arc::clone(&errand.agreement), Arc::clone(&errand.host));
            if let Some(outcome) = session.call_on_behalf(call, errand.terms.party, agreement, host as _).await {
                if self.may_log_late(errand, &session) {
                    Box::pin(tokio::time::sleep(LATE_LOGS)).await;
                }
                return outcome;
            }
        }
        let why = format!("upstream {}: it ended {SESSIONS} times before the call could be made", self.spec.name);
        Err(Failure::new(FailureKind::UpstreamLost, why))
    }

    /// Whether log lines of a call may arrive after its response. A server of the handshake era may send them on a
    /// separate stream, and a client of the stateless era receives them only during its request.
    fn may_log_late(&self, errand: &Errand, session: &Upstream) -> bool {
        let is_over_http = matches!(self.spec.target, Target::Url(_));
        let is_stateless = errand.agreement.per_request && errand.terms.log_level.is_some();
        is_over_http && is_stateless && !session.agreement().per_request
    }

    /// The main connection, if this caller may share it.
    fn shared_connection(&self, errand: &Errand) -> Option<Arc<UpstreamConnection>> {
        let (main, is_alone) = self.main();
        let needs_none = || !errand.needs_way_of_its_own() && !self.is_isolated(errand);
        (is_alone || needs_none()).then_some(main)
    }

    /// Whether the state behind the connection must not be shared with another caller.
    fn is_isolated(&self, errand: &Errand) -> bool {
        self.spec.isolated || matches!(errand.operation, Operation::Capability(_))
    }

    /// The connection for a caller that can answer requests or must be isolated, with a turn on it if turns apply.
    async fn way_for(
        self: &Arc<Self>,
        errand: &Errand,
    ) -> Result<(Arc<UpstreamConnection>, Option<pool::Turn>), Failure> {
        let client = ClientProfile::of_agreement(&errand.agreement);
        let may_share = !self.is_isolated(errand) && self.open_main().await?.agreement().per_request;
        if may_share && !self.may_shake_hands(&client) {
            return Ok((self.main().0, None));
        }
        let caller = &errand.host.caller;
        if caller.session() == SessionId::NONE {
            return self.turn(errand, client).await;
        }
        let existing = self.connections().own.get(&caller.session()).cloned();
        let own = match existing {
            Some(own) => own,
            None => match self.add_own(errand, client) {
                Some(own) => own,
                None if !errand.can_be_asked() && !self.is_isolated(errand) => return Ok((self.main().0, None)),
                None => {
                    let why = "there is no room for another server of its own, which this session needs";
                    return Err(Failure::new(FailureKind::Busy, why));
                }
            },
        };
        if may_share && !self.is_in_era_of_client(&own).await {
            self.drop_own(caller.session(), &own);
            return Ok((self.main().0, None));
        }
        Ok((own, None))
    }

    /// A connection for listing what the upstream offers this caller.
    async fn listing_connection(
        self: &Arc<Self>,
        errand: &Errand,
    ) -> Result<(Arc<UpstreamConnection>, Option<pool::Turn>), Failure> {
        let client = ClientProfile::of_agreement(&errand.agreement);
        let is_shared = self.open_main().await?.agreement().per_request && !self.may_shake_hands(&client);
        if is_shared { Ok((self.main().0, None)) } else { self.turn(errand, client).await }
    }

    /// A turn on a connection that no other call uses at the same time.
    async fn turn(
        &self,
        errand: &Errand,
        client: ClientProfile,
    ) -> Result<(Arc<UpstreamConnection>, Option<pool::Turn>), Failure> {
        let party = errand.terms.party;
        let pool = self.connections().pools.of(&identity(errand), &client.declares);
        let kind = errand.kind();
        let another = || {
            let place = self.place(party)?;
            Some(UpstreamConnection::pooled(Arc::clone(&self.spec), client, self.host(None), place, kind))
        };
        let turn = pool.turn(&errand.host, party, another).await?;
        Ok((Arc::clone(turn.connection()), Some(turn)))
    }

    /// Whether the upstream agreed to a handshake on a connection that was opened to try one.
    async fn is_in_era_of_client(self: &Arc<Self>, own: &Arc<UpstreamConnection>) -> bool {
        let session = match own.session() {
            Some(session) => Ok(session),
            None => self.open_other(own, true).await,
        };
        let is_stateless = session.as_ref().is_ok_and(|session| session.agreement().per_request);
        if is_stateless {
            // The opening cache is keyed by the state of the command's files, which the server may change. Remember it
            // here too.
            self.is_stateless_only.store(true, Ordering::Relaxed);
        }
        session.is_ok() && !is_stateless
    }

    /// Removes and closes the connection of a session.
    fn drop_own(&self, session: SessionId, own: &Arc<UpstreamConnection>) {
        self.connections().own.retain(|of, connection| *of != session || !Arc::ptr_eq(connection, own));
        let own = Arc::clone(own);
        tokio::spawn(async move { own.close().await });
    }

    /// A connection for the caller's session only. Returns `None` if the budget is used up.
    fn add_own(&self, errand: &Errand, client: ClientProfile) -> Option<Arc<UpstreamConnection>> {
        let caller = &errand.host.caller;
        let place = self.place(errand.terms.party)?;
        let mut connections = self.connections();
        let own = connections.own.entry(caller.session()).or_insert_with(|| {
            let session = watch::Sender::new(Some(Arc::downgrade(caller))).subscribe();
            UpstreamConnection::new(Arc::clone(&self.spec), client, self.host(Some(session)), Some(place))
        });
        Some(Arc::clone(own))
    }

    /// The folders in which a caller's roots may lie. On stdio the client runs as the user who started us, and may name
    /// any folder.
    fn allowed_roots(&self) -> Allowed {
        let is_open = || self.is_alone.get().is_some() || matches!(self.spec.target, Target::Url(_));
        self.allowed_roots.get_or_init(|| (!is_open()).then(|| self.spec.client_roots.clone().into())).clone()
    }

    /// Whether the upstream may be opened in the client's own era, if that era has a handshake.
    fn may_shake_hands(&self, client: &ClientProfile) -> bool {
        let options = &self.spec.options;
        client.revision.is_some_and(Revision::has_initialize)
            && !self.is_stateless_only.load(Ordering::Relaxed)
            && !matches!(options.speak, Speak::As(..))
            && options.eras.may_shake_hands(&self.spec.target)
    }

    /// A place for a connection that not all callers share. If the budget is used up, an unused connection is closed.
    fn place(&self, party: Option<Party>) -> Option<Permit> {
        loop {
            if let Some(place) = self.spec.room.take(party) {
                return Some(place);
            }
            let spare = self.connections().pools.spare()?;
            spare.vacate();
            tokio::spawn(async move { spare.close().await });
        }
    }

    fn host(&self, session: Option<Session>) -> WayHost {
        WayHost::new(session, self.notifier.get().cloned(), Arc::clone(&self.stale), self.allowed_roots())
    }

    /// The main connection, and whether only one downstream session will ever exist.
    fn main(&self) -> (Arc<UpstreamConnection>, bool) {
        let mut connections = self.connections();
        let is_alone = connections.expected.is_some();
        if let Some(main) = &connections.main {
            return (Arc::clone(main), is_alone);
        }
        let session = is_alone.then(|| self.session.subscribe());
        let client = connections.expected.clone().unwrap_or_default();
        let main = UpstreamConnection::new(Arc::clone(&self.spec), client, self.host(session), None);
        connections.main = Some(Arc::clone(&main));
        (main, is_alone)
    }

    fn is_main(&self, connection: &Arc<UpstreamConnection>) -> bool {
        self.connections().main.as_ref().is_some_and(|main| Arc::ptr_eq(main, connection))
    }

    async fn open_main(self: &Arc<Self>) -> Result<Upstream, Failure> {
        let (main, _) = self.main();
        if let Some(session) = main.session() {
            return Ok(session);
        }
        self.keep();
        let this = Arc::downgrade(self);
        let opened = main.open(move |session| {
            if let Some(this) = this.upgrade() {
                this.opened(session);
            }
        });
        let opened = opened.await;
        self.note_trouble(opened.as_ref().err());
        opened
    }

    /// Opens a connection other than the main one. Its lists may differ from the main ones. Unless the caller lists
    /// them, the keeper task does.
    async fn open_other(
        self: &Arc<Self>,
        connection: &Arc<UpstreamConnection>,
        is_to_be_listed: bool,
    ) -> Result<Upstream, Failure> {
        if let Some(session) = connection.session() {
            return Ok(session);
        }
        self.keep();
        let (stale, opened) = (Arc::clone(&self.stale), Arc::downgrade(connection));
        let is_to_be_listed =
            is_to_be_listed && self.connections().own.values().any(|own| Arc::ptr_eq(own, connection));
        let this = Arc::downgrade(self);
        connection
            .open(move |session| {
                if let Some(this) = this.upgrade() {
                    this.watch_all(session);
                }
                if is_to_be_listed {
                    stale.mark_new(opened);
                }
            })
            .await
    }

    /// Records why opening failed. If the failure is new, downstream sessions are notified.
    fn note_trouble(&self, failure: Option<&Failure>) {
        let before = {
            let mut trouble = self.trouble.lock().unpoisoned();
            if let (Some(before), Some(failure)) = (&*trouble, failure)
                && failure.message.starts_with(&before.message)
            {
                // The only difference is the time of the next attempt, which does not stay true for long.
                return;
            }
            std::mem::replace(&mut *trouble, failure.cloned())
        };
        // With several clients, some may not be allowed to know that this upstream exists.
        let notifier = self.notifier.get().filter(|_| self.is_alone.get().is_some());
        if let (None, Some(failure), Some(notifier)) = (before, failure, notifier) {
            notifier.log(Log::new(Level::Warning, Some(self.spec.name.clone()), json::to_raw(&failure.message)));
        }
    }

    /// The main connection is open: refresh the lists and renew the subscriptions.
    fn opened(&self, session: &Upstream) {
        // The upstream may be a different program than before.
        self.is_stateless_only.store(false, Ordering::Relaxed);
        self.forget_viewers();
        self.stale.mark_new(Arc::downgrade(&self.main().0));
        self.watch_all(session);
    }

    fn all_connections(&self) -> Vec<Arc<UpstreamConnection>> {
        let connections = self.connections();
        connections
            .main
            .iter()
            .chain(connections.own.values())
            .cloned()
            .chain(connections.pools.connections())
            .collect()
    }

    /// The open sessions of all connections.
    fn open_sessions(&self) -> Vec<Upstream> {
        self.all_connections().iter().filter_map(|connection| connection.session()).collect()
    }

    /// Starts the task that refreshes changed lists.
    fn keep(self: &Arc<Self>) {
        self.keeper.get_or_init(|| {
            let (this, stale) = (Arc::downgrade(self), Arc::clone(&self.stale));
            tokio::spawn(async move {
                loop {
                    let (changed, connection) = stale.take().await;
                    let Some(this) = Weak::upgrade(&this) else { return };
                    let entries = this.refresh(&changed, &connection).await.unwrap_or_default();
                    stale.rest(connection, Instant::now(), entries);
                }
            })
            .abort_handle()
        });
    }

    /// Refreshes the changed lists, and returns how many entries they have.
    async fn refresh(self: &Arc<Self>, changed: &[List], connection: &Weak<UpstreamConnection>) -> Option<usize> {
        let connection = connection.upgrade()?;
        // One refresh at a time: a slower earlier one could overwrite newer lists.
        let one_at_a_time = Arc::clone(&self.refreshing).lock_owned().await;
        let session = connection.session()?;
        let own =
            self.connections().own.iter().find(|(_, own)| Arc::ptr_eq(own, &connection)).map(|(session, _)| *session);
        // Lists of a separate connection may reveal the actions of its caller, so other callers do not see them.
        let is_for_all = self.is_main(&connection);
        let viewer = if is_for_all { SessionId::NONE } else { own.unwrap_or(connection.kind) };
        if viewer == SessionId::NONE && !is_for_all {
            return None;
        }
        let before = if is_for_all { self.known() } else { self.seen_by(viewer) };
        self.note_asked_for(viewer);
        let lists = match &before {
            Some(before) if changed.len() < List::ALL.len() => {
                before.refreshed(changed, &session, &self.spec, None).await
            }
            _ => Lists::fetch(&session, &self.spec, None).await,
        };
        let received = match lists {
            Ok(lists) => Arc::new(lists),
            Err(failure) => {
                tracing::warn!(upstream = self.spec.name, %failure, "what the upstream has could not be listed");
                if before.is_none() {
                    self.note_trouble(Some(&failure));
                }
                return None;
            }
        };
        connection.pinning.note(&session, &received);
        let lists = Arc::new(Arc::unwrap_or_clone(received).completed_by(before.as_deref()));
        let entries = lists.entries();
        let different = lists.different(before.as_deref());
        if is_for_all {
            // Publishing a long list takes time, and this thread also serves other calls.
            let this = Arc::clone(self);
            let show = move || {
                this.show(lists, before, &different);
                drop(one_at_a_time);
            };
            let _ = tokio::task::spawn_blocking(show).await;
        } else if !different.is_empty() {
            self.show_to(viewer, lists);
        }
        Some(entries)
    }

    /// Publishes lists to all callers that share the main connection.
    fn show(&self, lists: Arc<Lists>, before: Option<Arc<Lists>>, different: &[List]) {
        *self.lists.lock().unpoisoned() = Some(Arc::clone(&lists));
        let says_something_else = before.as_ref().is_none_or(|before| before.instructions != lists.instructions);
        // A list that could not be fetched would be remembered as empty.
        let is_worth_it = lists.is_complete() && (says_something_else || !different.is_empty());
        if let Some(file) = self.spec.remembered_in.as_ref().filter(|_| is_worth_it) {
            memory::remember(file, &lists);
        }
        if let Some(notifier) = self.notifier.get() {
            if says_something_else {
                notifier.instructions_changed();
            }
            for list in different {
                match list {
                    List::Tools => notifier.tools_changed(),
                    List::Resources => notifier.resources_changed(),
                    List::Prompts => notifier.prompts_changed(),
                }
            }
        }
        self.main_lists_change(before.as_ref(), different);
        self.is_shown.send_replace(true);
    }

    /// Waits until the lists are known and published to the hub.
    async fn listed(&self) {
        let mut is_shown = self.is_shown.subscribe();
        let _ = tokio::time::timeout(SETTLING, is_shown.wait_for(|is_shown| *is_shown)).await;
    }
}

/// Stays pending on the first poll.
///
/// The caller polls once to see whether the response is ready, and spawns a task if it is not. The upstream's loop must
/// be woken from that task. If it is woken earlier, another thread takes over the loop, which costs more than the rest
/// of the call.
async fn second_look() {
    let mut is_first = true;
    std::future::poll_fn(|cx| {
        if std::mem::take(&mut is_first) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(())
    })
    .await;
}

/// The identity of a caller without a session: its principal, and its declared name and version.
fn identity(errand: &Errand) -> String {
    let client = &errand.agreement.client;
    let principal = errand.terms.principal.as_deref().unwrap_or_default();
    format!("{principal:?} {:?} {:?}", client.name, client.version)
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(keeper) = self.keeper.get() {
            keeper.abort();
        }
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inner").field("name", &self.spec.name).finish_non_exhaustive()
    }
}

impl Represented for UpstreamProvider {
    fn introduction(&self) -> Option<(Peer, Option<String>)> {
        self.inner.known().map(|lists| (lists.server.clone(), self.inner.passed_on(&lists).cloned()))
    }

    fn outage(&self) -> Option<Failure> {
        match self.inner.known() {
            Some(_) => None,
            None => self.inner.trouble.lock().unpoisoned().clone(),
        }
    }
}

impl Provider for UpstreamProvider {
    fn name(&self) -> &str {
        &self.inner.label
    }

    fn is_upstream(&self) -> bool {
        true
    }

    fn listed_for(&self, session: SessionId) -> Option<Listed> {
        self.inner.listed_for(session)
    }

    fn list_number(&self, session: SessionId) -> Option<u64> {
        self.inner.list_number(session)
    }

    fn tools(&self) -> Vec<Tool> {
        self.inner.known().map(|lists| lists.tools.clone()).unwrap_or_default()
    }

    fn resources(&self) -> Vec<Resource> {
        self.inner.known().map(|lists| lists.resources.clone()).unwrap_or_default()
    }

    fn templates(&self) -> Vec<Template> {
        self.inner.known().map(|lists| lists.templates.clone()).unwrap_or_default()
    }

    fn prompts(&self) -> Vec<Prompt> {
        self.inner.known().map(|lists| lists.prompts.clone()).unwrap_or_default()
    }

    fn instructions(&self) -> Option<String> {
        self.inner.known().and_then(|lists| lists.instructions.clone())
    }

    fn features(&self) -> Features {
        self.inner.known().map_or_else(Lists::unknown, |lists| lists.features())
    }

    fn attach(&self, notifier: &ChangeNotifier) {
        // Only the first hub counts.
        let _ = self.inner.notifier.set(notifier.clone());
    }

    fn call(&self, call: ToolCall<'_>, context: &Context<'_>) -> Answer {
        let repeatable = self.inner.known().is_some_and(|lists| lists.is_repeatable(&call.name));
        self.pass_on(Operation::CallTool(call), repeatable, context)
    }

    fn read(&self, uri: &str, context: &Context<'_>) -> Answer {
        self.pass_on(Operation::ReadResource(uri.into()), true, context)
    }

    fn prompt(&self, call: ToolCall<'_>, context: &Context<'_>) -> Answer {
        self.pass_on(Operation::GetPrompt(call), true, context)
    }

    fn complete(&self, call: CompletionCall<'_>, context: &Context<'_>) -> Answer {
        self.pass_on(Operation::Complete(call), true, context)
    }

    fn capabilities(&self) -> Vec<&'static str> {
        let known = self.inner.known();
        let names = known.iter().flat_map(|lists| &lists.capabilities);
        names.filter_map(|name| carried_name(name)).collect()
    }

    fn serve(&self, call: CapabilityCall<'_>, context: &Context<'_>) -> Answer {
        self.pass_on(Operation::Capability(call), false, context)
    }

    fn watch(&self, uri: &str, by: Option<&Who<'_>>) {
        self.inner.watch(uri, by);
    }

    fn unwatch(&self, uri: &str) {
        self.inner.unwatch(uri);
    }

    fn expects(&self, client: &Offer) {
        let _ = self.inner.is_alone.set(());
        self.inner.connections().expected = Some(ClientProfile::of_offer(client));
    }

    fn settling_for(&self, context: &Context<'_>) -> Option<Settling> {
        self.inner.settling_for(context)
    }

    fn declares(&self) -> Declared {
        self.inner.known().map(|lists| lists.declares()).unwrap_or_default()
    }

    fn settling(&self) -> Option<Settling> {
        if *self.inner.is_shown.borrow() {
            return None;
        }
        let inner = Arc::clone(&self.inner);
        Some(Box::pin(async move {
            let opening = async {
                if inner.open_main().await.is_ok() {
                    inner.listed().await;
                }
            };
            if tokio::time::timeout(SETTLING, opening).await.is_err() {
                tracing::warn!(upstream = inner.spec.name, "still not open: what it has is shown when it is");
            }
        }))
    }

    fn trouble(&self, list: List) -> Option<Failure> {
        match self.inner.known() {
            Some(lists) => lists.trouble(list).cloned(),
            None => Represented::outage(self),
        }
    }

    fn joined(&self, caller: &Arc<dyn Caller>) {
        let (main, is_alone) = self.inner.main();
        if is_alone {
            self.inner.session.send_replace(Some(Arc::downgrade(caller)));
            main.host.joined(caller);
        }
    }

    fn roots_changed(&self, session: SessionId) {
        let own = self.inner.connections().own.get(&session).cloned();
        let (main, is_alone) = self.inner.main();
        if let Some(session) = own.or_else(|| is_alone.then_some(main)).and_then(|connection| connection.session()) {
            session.roots_changed();
        }
    }

    fn left(&self, session: SessionId) {
        let own = self.inner.connections().own.remove(&session);
        self.inner.viewers().remove(session);
        if let Some(own) = own
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(async move { own.close().await });
        }
        if self.inner.main().1 {
            // A session that is over cannot answer requests.
            self.inner.session.send_replace(None);
        }
    }

    fn status(&self) -> Option<UpstreamStatus> {
        let inner = &self.inner;
        let connections = inner.all_connections();
        let open: Vec<_> = connections.iter().filter_map(|connection| connection.session()).collect();
        let (state, detail) = match (open.first(), self.inner.trouble.lock()) {
            (Some(session), _) => {
                let agreement = session.agreement();
                let server = &agreement.server;
                let who = format!("{} {} as {} {}", server.name, server.version, agreement.dialect, agreement.version);
                ("open", Some(who))
            }
            (None, Ok(trouble)) if trouble.is_some() => {
                let own = format!("upstream {}: ", inner.spec.name);
                let why = |failure: &Failure| failure.message.strip_prefix(&own).unwrap_or(&failure.message).to_owned();
                ("failed", trouble.as_ref().map(why))
            }
            _ => ("idle", None),
        };
        Some(UpstreamStatus {
            name: inner.spec.name.clone(),
            target: redact(&inner.spec.target.place()).into_owned(),
            state: state.to_owned(),
            detail: detail.map(|detail| redact(&detail).into_owned()),
            processes: open.iter().filter_map(Upstream::process).collect(),
            connections: open.len(),
            calls: connections.iter().map(|connection| connection.host.calls()).sum(),
            restarts: connections.iter().map(|connection| connection.restarts()).sum(),
            tools: inner.known().map_or(0, |lists| lists.tools.len()),
            unlisted: inner.known().map(|lists| lists.troubles()).unwrap_or_default(),
            offences: {
                let who = inner.label.clone();
                let counts = inner.spec.options.violations.of(&Offender::Server(who.clone()));
                let offence = |(rule, count): (&str, u64)| Offence { who: who.clone(), rule: rule.to_owned(), count };
                counts.into_iter().map(offence).collect()
            },
        })
    }

    fn closing(&self) -> Option<Settling> {
        let connections = {
            let mut connections = self.inner.connections();
            let own: Vec<_> = connections.own.drain().map(|(_, connection)| connection).collect();
            let pooled = connections.pools.drain();
            connections.main.iter().cloned().chain(own).chain(pooled).collect::<Vec<_>>()
        };
        Some(Box::pin(async move {
            futures_util::future::join_all(connections.iter().map(|connection| connection.close())).await;
        }))
    }
}
