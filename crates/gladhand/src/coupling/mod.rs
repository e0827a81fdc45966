//! The coupling: an upstream as a provider, so that whatever is downstream reaches it.
//!
//! Nothing is started before it is needed. What an upstream had last time is remembered, so that lists are there at
//! once. One way to an upstream is shared by everybody for whom that is safe; see [`Coupled`] for who gets one of
//! their own.

mod breaker;
mod hosting;
mod lists;
pub(crate) mod memory;
mod pinning;
mod pool;
mod room;
mod way;

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::task::Poll;
use std::time::Duration;

use gladhand_accord::Peer;
use gladhand_dialects::{Askable, askable, carried_name};
use gladhand_hub::policy::Offender;
use gladhand_hub::{
    Answer, Bell, Caller, Context, Features, List, Listed, Offence, Provider, SessionId, Settling, UpstreamStatus,
};
use gladhand_operations::{
    CapabilityCall, CompletionCall, Failure, FailureKind, Level, Log, Operation, Outcome, Party, Prompt, Resource,
    Template, Terms, Tool, ToolCall,
};
use gladhand_redaction::redact;
use gladhand_wire::json;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::upstream::{Options, Target, Upstream};
pub(crate) use memory::forget_unused;

use hosting::{CallHost, Session, WayHost};
use lists::{Lists, Stale};
use pool::Pools;
use room::Place;
pub use room::Room;
use way::Way;

/// How long whoever lists waits for an upstream of which nothing is known yet.
const SETTLING: Duration = Duration::from_secs(15);

/// How many sessions may end before a call could be made in one of them.
const SESSIONS: usize = 8;

/// An upstream as it is configured.
#[derive(Debug, Clone)]
pub struct Spec {
    /// What it is called here.
    pub name: String,
    /// Where it is.
    pub target: Target,
    /// How to open it. What is provided is decided by who is downstream.
    pub options: Options,
    /// Whether every session gets a way of its own, whatever was agreed.
    pub isolated: bool,
    /// Room for ways of callers who cannot share one. Upstreams that are served together have it in common.
    pub room: Room,
    /// The file in which what it has is remembered between runs.
    pub remembered_in: Option<PathBuf>,
}

impl Spec {
    /// What it is called where that is written down. Where its name is its command line, which may hold a secret, that is
    /// the program, and a mark that tells it from others of the same program.
    fn label(&self) -> String {
        match &self.target {
            Target::Command(words) if self.name == self.target.to_string() => {
                let program = words.first().map_or("", String::as_str);
                let program = program.rsplit(['/', '\\']).next().unwrap_or(program);
                format!("{program}#{}", &crate::pins::hash(&self.name)[..8])
            }
            _ => self.name.clone(),
        }
    }
}

/// An upstream behind the hub.
///
/// Who shares a way to it:
///
/// - Where only one session will ever be downstream ([`Provider::expects`]), there is one way, opened with exactly what
///   that session can be asked.
/// - Callers who can be asked nothing share the main way.
/// - Where every request says for whom it is made (stateless MCP), everybody shares the main way.
/// - What a capability keeps belongs to one session, which has a way of its own for it.
/// - Otherwise the upstream could not tell whom to ask: a session has a way of its own, and calls without a session take
///   one that no other call uses meanwhile.
#[derive(Debug)]
pub struct Coupled {
    inner: Arc<Inner>,
}

struct Inner {
    spec: Arc<Spec>,
    /// What it is called where that is written down.
    label: String,
    /// What it has, as far as is known.
    lists: Mutex<Option<Arc<Lists>>>,
    /// What sessions with a way of their own see, where that is not the same.
    seen: Mutex<HashMap<SessionId, Arc<Lists>>>,
    /// Whether the hub knows it too. Whoever waits for what there is waits for that.
    is_shown: watch::Sender<bool>,
    stale: Arc<Stale>,
    bell: OnceLock<Bell>,
    ways: Mutex<Ways>,
    /// Why it could not be opened, the last time that was tried.
    trouble: Mutex<Option<Failure>>,
    /// Resources that somebody wants to hear of.
    watched: Mutex<BTreeSet<String>>,
    /// The only session that there will be, once it is open.
    session: watch::Sender<Option<Weak<dyn Caller>>>,
    keeper: OnceLock<AbortHandle>,
}

#[derive(Default)]
struct Ways {
    /// What the one session that will be downstream can be asked.
    expected: Option<Askable>,
    main: Option<Arc<Way>>,
    own: HashMap<SessionId, Arc<Way>>,
    pools: Pools,
}

impl Coupled {
    /// An upstream that is not started yet.
    pub fn new(mut spec: Spec) -> Self {
        spec.options.called = spec.label();
        let remembered = spec.remembered_in.as_deref().and_then(memory::recall);
        let inner = Inner {
            label: spec.label(),
            spec: Arc::new(spec),
            is_shown: watch::Sender::new(remembered.is_some()),
            lists: Mutex::new(remembered.map(Arc::new)),
            seen: Mutex::default(),
            stale: Arc::default(),
            bell: OnceLock::new(),
            ways: Mutex::default(),
            trouble: Mutex::default(),
            watched: Mutex::default(),
            session: watch::Sender::new(None),
            keeper: OnceLock::new(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Who it says it is, and how it says it is to be used, if that is known.
    pub fn introduction(&self) -> Option<(Peer, Option<String>)> {
        self.inner.known().map(|lists| (lists.server.clone(), self.inner.passed_on(&lists).cloned()))
    }

    /// Opens the main way, and says why not if that fails.
    pub async fn open(&self) -> Result<(), Failure> {
        self.inner.open_main().await?;
        self.inner.listed().await;
        Ok(())
    }

    /// Passes a call on, by the way that its caller may take.
    fn pass_on(&self, operation: Operation<'_>, repeatable: bool, context: &Context<'_>) -> Answer {
        let inner = Arc::clone(&self.inner);
        let errand = Errand {
            operation: operation.into_owned(),
            terms: context.terms.clone().into_owned(),
            agreement: Arc::clone(context.agreement),
            host: CallHost::of(context),
        };
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
        // Where the upstream decides what becomes a task, so it is here.
        if may_become_task { Answer::TaskLater(Box::pin(work)) } else { Answer::Later(Box::pin(work)) }
    }
}

/// A call to be passed on.
struct Errand {
    operation: Operation<'static>,
    terms: Terms<'static>,
    agreement: Arc<gladhand_accord::Agreement>,
    host: Arc<CallHost>,
}

impl Inner {
    fn known(&self) -> Option<Arc<Lists>> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn ways(&self) -> MutexGuard<'_, Ways> {
        self.ways.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn run(self: &Arc<Self>, errand: &Errand) -> Outcome {
        let (way, turn) = match self.shared_way(errand) {
            Some(way) => (way, None),
            // What is seldom waited for is kept elsewhere: a call that waits shall be small.
            None => Box::pin(self.way_for(errand)).await?,
        };
        let _under_way = way.host.begin(&errand.host);
        let Some(turn) = turn else { return self.make(errand, &way).await };
        Box::pin(async {
            tokio::select! {
                outcome = self.make(errand, &way) => {
                    turn.end();
                    outcome
                }
                () = turn.wanted() => Err(Failure::new(FailureKind::Busy, "others needed the server while a question was open")),
            }
        })
        .await
    }

    /// Makes a call by a way. If the session there turns out to be over before the call was made, it is made in the next.
    async fn make(self: &Arc<Self>, errand: &Errand, way: &Arc<Way>) -> Outcome {
        for _ in 0..SESSIONS {
            let session = match way.session() {
                Some(session) => session,
                None if self.is_main(way) => Box::pin(self.open_main()).await?,
                None => Box::pin(self.open_other(way)).await?,
            };
            if self.is_pinning()
                && let Err(failure) = Box::pin(self.check_pins(way, &session, &errand.operation)).await
            {
                if session.is_over() && failure.kind != FailureKind::Denied {
                    continue;
                }
                return Err(failure);
            }
            let call = || (errand.operation.clone(), errand.terms.clone());
            let (agreement, host) = (Arc::clone(&errand.agreement), Arc::clone(&errand.host));
            if let Some(outcome) = session.call_on_behalf(call, agreement, host as _).await {
                return outcome;
            }
        }
        let why = format!("upstream {}: it ended {SESSIONS} times before the call could be made", self.spec.name);
        Err(Failure::new(FailureKind::UpstreamLost, why))
    }

    /// The main way, if a caller may take it whoever else does.
    fn shared_way(&self, errand: &Errand) -> Option<Arc<Way>> {
        let (main, is_alone) = self.main();
        let needs_none = || askable(&errand.agreement).next().is_none() && !self.is_isolated(errand);
        (is_alone || needs_none()).then_some(main)
    }

    /// Whether what is kept there for one must not be another's.
    fn is_isolated(&self, errand: &Errand) -> bool {
        self.spec.isolated || matches!(errand.operation, Operation::Capability(_))
    }

    /// The way that a caller may take who can be asked, or must be alone, and a turn on it where turns are taken.
    async fn way_for(self: &Arc<Self>, errand: &Errand) -> Result<(Arc<Way>, Option<pool::Turn>), Failure> {
        let provides: Askable = askable(&errand.agreement).collect();
        if !self.is_isolated(errand) && self.open_main().await?.agreement().per_request {
            return Ok((self.main().0, None));
        }
        let (caller, party) = (&errand.host.caller, errand.terms.party);
        if caller.session() == SessionId::NONE {
            let (pool, key) = self.ways().pools.of(&identity(errand), &provides);
            let another = || {
                let place = self.place(party)?;
                Some(Way::new(Arc::clone(&self.spec), key, self.host(None), Some(place)))
            };
            let turn = pool.turn(&errand.host, party, another).await?;
            return Ok((Arc::clone(turn.way()), Some(turn)));
        }
        if let Some(own) = self.ways().own.get(&caller.session()) {
            return Ok((Arc::clone(own), None));
        }
        let place = self.place(party).ok_or_else(|| {
            Failure::new(FailureKind::Busy, "there is no room for another server of its own, which this session needs")
        })?;
        let mut ways = self.ways();
        let own = ways.own.entry(caller.session()).or_insert_with(|| {
            let session = watch::Sender::new(Some(Arc::downgrade(caller))).subscribe();
            Way::new(Arc::clone(&self.spec), provides, self.host(Some(session)), Some(place))
        });
        Ok((Arc::clone(own), None))
    }

    /// A place for a way that is not shared by all. Ways that nobody uses give way.
    fn place(&self, party: Option<Party>) -> Option<Place> {
        loop {
            if let Some(place) = self.spec.room.take(party) {
                return Some(place);
            }
            let spare = self.ways().pools.spare()?;
            spare.vacate();
            tokio::spawn(async move { spare.close().await });
        }
    }

    fn host(&self, session: Option<Session>) -> WayHost {
        WayHost::new(session, self.bell.get().cloned(), Arc::clone(&self.stale))
    }

    /// The main way, and whether there will never be but one session downstream.
    fn main(&self) -> (Arc<Way>, bool) {
        let mut ways = self.ways();
        let is_alone = ways.expected.is_some();
        if let Some(main) = &ways.main {
            return (Arc::clone(main), is_alone);
        }
        let session = is_alone.then(|| self.session.subscribe());
        let provides = ways.expected.clone().unwrap_or_default();
        let main = Way::new(Arc::clone(&self.spec), provides, self.host(session), None);
        ways.main = Some(Arc::clone(&main));
        (main, is_alone)
    }

    fn is_main(&self, way: &Arc<Way>) -> bool {
        self.ways().main.as_ref().is_some_and(|main| Arc::ptr_eq(main, way))
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

    /// Opens a way that is not the main one. What is listed there may be something else.
    async fn open_other(self: &Arc<Self>, way: &Arc<Way>) -> Result<Upstream, Failure> {
        if let Some(session) = way.session() {
            return Ok(session);
        }
        self.keep();
        let (stale, opened) = (Arc::clone(&self.stale), Arc::downgrade(way));
        let is_own = self.ways().own.values().any(|own| Arc::ptr_eq(own, way));
        way.open(move |_| {
            if is_own {
                stale.mark(&List::ALL, opened);
            }
        })
        .await
    }

    /// Keeps why it could not be opened. Whoever is downstream hears of it where it did not before.
    fn note_trouble(&self, failure: Option<&Failure>) {
        let before = {
            let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
            if let (Some(before), Some(failure)) = (&*trouble, failure)
                && failure.message.starts_with(&before.message)
            {
                // Only when it will be tried again was added to it, which is not true for long.
                return;
            }
            std::mem::replace(&mut *trouble, failure.cloned())
        };
        if let (None, Some(failure), Some(bell)) = (before, failure, self.bell.get()) {
            let (level, logger) = (Level::Warning, Some(self.spec.name.clone()));
            bell.log(Log { level, logger, data: json::to_raw(&failure.message) });
        }
    }

    /// The main way is open: what is listed and watched must be asked for again.
    fn opened(&self, session: &Upstream) {
        self.stale.mark(&List::ALL, Arc::downgrade(&self.main().0));
        let watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let session = session.clone();
        tokio::spawn(async move {
            for uri in watched {
                watch(&session, uri).await;
            }
        });
    }

    /// Sees to it that what is known of the lists is what they are.
    fn keep(self: &Arc<Self>) {
        self.keeper.get_or_init(|| {
            let (this, stale) = (Arc::downgrade(self), Arc::clone(&self.stale));
            tokio::spawn(async move {
                loop {
                    let (changed, way) = stale.take().await;
                    let Some(this) = Weak::upgrade(&this) else { return };
                    this.refresh(&changed, &way).await;
                }
            })
            .abort_handle()
        });
    }

    /// Asks for lists again, where they have changed.
    async fn refresh(&self, changed: &[List], way: &Weak<Way>) {
        let Some(way) = way.upgrade() else { return };
        let own = self.ways().own.iter().find(|(_, own)| Arc::ptr_eq(own, &way)).map(|(session, _)| *session);
        // Of ways without an owner, everybody sees the lists of the one where they changed last.
        let main = || self.main().0.session().filter(|_| own.is_none());
        let Some(session) = way.session().or_else(main) else { return };
        let before = own.map_or_else(|| self.known(), |own| self.seen_by(own));
        let lists = match &before {
            Some(before) if changed.len() < List::ALL.len() => before.refreshed(changed, &session, &self.spec).await,
            _ => Lists::fetch(&session, &self.spec).await,
        };
        let lists = match lists {
            Ok(lists) => Arc::new(lists),
            Err(failure) => {
                tracing::warn!(upstream = self.spec.name, %failure, "what the upstream has could not be listed");
                if before.is_none() {
                    self.note_trouble(Some(&failure));
                }
                return;
            }
        };
        way.pinning.note(&session, &lists);
        let different = lists.different(before.as_deref());
        match own {
            Some(own) if !different.is_empty() => self.show_to(own, lists),
            Some(_) => {}
            None => self.show(lists, before, &different),
        }
    }

    /// Shows lists to everybody. Sessions with a way of their own go on seeing what they have seen: it is said there
    /// whether that has changed.
    fn show(&self, lists: Arc<Lists>, before: Option<Arc<Lists>>, different: &[List]) {
        if let (Some(before), false) = (&before, different.is_empty()) {
            let ways = self.ways();
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            for session in ways.own.keys() {
                seen.entry(*session).or_insert_with(|| Arc::clone(before));
            }
        }
        *self.lists.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&lists));
        let says_something_else = before.as_ref().is_none_or(|before| before.instructions != lists.instructions);
        // A list that could not be had would be remembered as an empty one.
        let is_worth_it = lists.is_complete() && (says_something_else || !different.is_empty());
        if let Some(file) = self.spec.remembered_in.as_ref().filter(|_| is_worth_it) {
            memory::remember(file, &lists);
        }
        if let Some(bell) = self.bell.get() {
            if says_something_else {
                bell.instructions_changed();
            }
            for list in different {
                match list {
                    List::Tools => bell.tools_changed(),
                    List::Resources => bell.resources_changed(),
                    List::Prompts => bell.prompts_changed(),
                }
            }
            let seen: Vec<_> = self.seen.lock().unwrap_or_else(PoisonError::into_inner).keys().copied().collect();
            seen.into_iter().filter(|_| !different.is_empty()).for_each(|session| bell.lists_changed_for(session));
        }
        self.is_shown.send_replace(true);
    }

    /// Shows lists to one session.
    fn show_to(&self, session: SessionId, lists: Arc<Lists>) {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).insert(session, lists);
        if let Some(bell) = self.bell.get() {
            bell.lists_changed_for(session);
        }
    }

    /// What a session sees.
    fn seen_by(&self, session: SessionId) -> Option<Arc<Lists>> {
        let own = self.seen.lock().unwrap_or_else(PoisonError::into_inner).get(&session).cloned();
        own.or_else(|| self.known())
    }

    /// Waits until something is known of the lists, and the hub knows it.
    async fn listed(&self) {
        let mut is_shown = self.is_shown.subscribe();
        let _ = tokio::time::timeout(SETTLING, is_shown.wait_for(|is_shown| *is_shown)).await;
    }
}

/// Lets the first look pass.
///
/// Whoever asked looks once whether the answer is here, and makes a task of what is not. The upstream's loop must be
/// woken from that task: woken before it, the loop is taken over by another thread, which costs more than all the rest
/// of a call.
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

/// Who a caller without a session is: whom it has proved to be, and what it calls itself.
fn identity(errand: &Errand) -> String {
    let client = &errand.agreement.client;
    let principal = errand.terms.principal.as_deref().unwrap_or_default();
    format!("{principal:?} {:?} {:?}", client.name, client.version)
}

async fn watch(session: &Upstream, uri: String) {
    if let Err(failure) = session.call(Operation::Watch(uri.into())).await {
        tracing::debug!(%failure, "a resource is not watched");
    }
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

impl Provider for Coupled {
    fn name(&self) -> &str {
        &self.inner.label
    }

    fn listed_for(&self, session: SessionId) -> Option<Listed> {
        let seen = self.inner.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.get(&session).map(|lists| lists.listed())
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

    fn attach(&self, bell: &Bell) {
        // The first hub is the only one.
        let _ = self.inner.bell.set(bell.clone());
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

    fn watch(&self, uri: &str) {
        self.inner.watched.lock().unwrap_or_else(PoisonError::into_inner).insert(uri.to_owned());
        let (inner, uri) = (Arc::clone(&self.inner), uri.to_owned());
        tokio::spawn(async move {
            // A way that is opened on this occasion watches everything that is to be watched.
            match inner.main().0.session() {
                Some(session) => watch(&session, uri).await,
                None => drop(inner.open_main().await),
            }
        });
    }

    fn unwatch(&self, uri: &str) {
        self.inner.watched.lock().unwrap_or_else(PoisonError::into_inner).remove(uri);
        if let Some(session) = self.inner.main().0.session() {
            session.unwatch(uri);
        }
    }

    fn expects(&self, provides: &Askable) {
        self.inner.ways().expected = Some(provides.clone());
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
            None => self.inner.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }

    fn joined(&self, caller: &Arc<dyn Caller>) {
        if self.inner.main().1 {
            self.inner.session.send_replace(Some(Arc::downgrade(caller)));
        }
    }

    fn roots_changed(&self, session: SessionId) {
        let own = self.inner.ways().own.get(&session).cloned();
        let (main, is_alone) = self.inner.main();
        if let Some(session) = own.or_else(|| is_alone.then_some(main)).and_then(|way| way.session()) {
            session.roots_changed();
        }
    }

    fn left(&self, session: SessionId) {
        let own = self.inner.ways().own.remove(&session);
        self.inner.seen.lock().unwrap_or_else(PoisonError::into_inner).remove(&session);
        if let Some(own) = own
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(async move { own.close().await });
        }
        if self.inner.main().1 {
            // A session that is over cannot be asked.
            self.inner.session.send_replace(None);
        }
    }

    fn status(&self) -> Option<UpstreamStatus> {
        let inner = &self.inner;
        let ways: Vec<_> = {
            let ways = inner.ways();
            ways.main.iter().chain(ways.own.values()).cloned().chain(ways.pools.ways()).collect()
        };
        let open: Vec<_> = ways.iter().filter_map(|way| way.session()).collect();
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
            ways: open.len(),
            calls: ways.iter().map(|way| way.host.calls()).sum(),
            restarts: ways.iter().map(|way| way.restarts()).sum(),
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
        let ways = {
            let mut ways = self.inner.ways();
            let own: Vec<_> = ways.own.drain().map(|(_, way)| way).collect();
            let pooled = ways.pools.drain();
            ways.main.iter().cloned().chain(own).chain(pooled).collect::<Vec<_>>()
        };
        Some(Box::pin(async move {
            futures_util::future::join_all(ways.iter().map(|way| way.close())).await;
        }))
    }
}
