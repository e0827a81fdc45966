//! Finds who answers a call.

use std::borrow::Cow;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, Weak};

use gladhand_accord::Agreement;
use gladhand_operations::{
    Call, CompletionCall, CompletionOf, Failure, FailureKind, Level, Log, Notice, Operation, Outcome, Prompt, Reply,
    Resource, TaskSupport, TaskWish, Template, Tool, ToolCall,
};
use gladhand_wire::json;
use tokio::sync::broadcast;

use crate::agent::Agent;
use crate::apart::Apart;
use crate::bell::Bell;
use crate::guests::Guests;
use crate::policy::{Governor, Offender, Violations};
use crate::provider::{Answer, Askable, Caller, Context, Features, Provider, SessionId, Settling, Work};
use crate::routes::{HubError, Mount, Route, Routes};
use crate::stand_ins;
use crate::status::{HubStatus, Offence};

/// Changes that a session may fall behind; later ones push out the oldest, and the session is told that it missed some.
const CHANGES: usize = 64;

/// Finds who answers a call. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Hub {
    inner: Arc<Inner>,
    bell: Bell,
}

#[derive(Debug)]
pub(crate) struct Inner {
    routes: RwLock<Arc<Routes>>,
    /// Held while the providers are asked, so that of two changes the later one is seen.
    asking: Mutex<()>,
    /// How many want to hear of changes of a resource.
    watched: Mutex<HashMap<String, usize>>,
    /// Sessions that see lists of their own.
    apart: Apart,
    changes: broadcast::Sender<Notice>,
    /// Whether arguments and results are held to the tools' schemas.
    validating: AtomicBool,
    sessions: AtomicU64,
    /// Sessions that have begun and not ended.
    visitors: AtomicUsize,
    agent: OnceLock<Arc<dyn Agent>>,
    guests: Guests,
    governor: OnceLock<Arc<Governor>>,
    violations: OnceLock<Arc<Violations>>,
}

impl Inner {
    fn routes(&self) -> Arc<Routes> {
        Arc::clone(&self.routes.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Something changed: asks for the lists again if it was one of them, then tells every session.
    pub(crate) fn changed(&self, notice: Notice) {
        if matches!(notice, Notice::ToolsChanged | Notice::ResourcesChanged | Notice::PromptsChanged) {
            self.show_again();
        }
        // Nobody listening is no failure.
        let _ = self.changes.send(notice);
    }

    fn tell_of_all_lists(&self) {
        for notice in [Notice::ToolsChanged, Notice::ResourcesChanged, Notice::PromptsChanged] {
            // Nobody listening is no failure.
            let _ = self.changes.send(notice);
        }
    }

    fn show_again(&self) {
        let _asking = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        let mounts = Arc::clone(&self.routes().mounts);
        self.show(mounts);
    }

    fn show(&self, mounts: Arc<[Mount]>) {
        let routes = self.ask(mounts, None);
        *self.routes.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(routes);
        self.apart.all_changed();
    }

    fn ask(&self, mounts: Arc<[Mount]>, session: Option<SessionId>) -> Routes {
        let (mut routes, _) = Routes::ask(mounts, session);
        if let Some(governor) = self.governor.get() {
            routes.stopped = governor.look(&routes);
        }
        routes
    }

    /// What a session sees.
    fn routes_for(&self, session: SessionId) -> Arc<Routes> {
        let own = self.apart.routes(session, || self.ask(Arc::clone(&self.routes().mounts), Some(session)));
        own.unwrap_or_else(|| self.routes())
    }

    /// One session sees other lists than it did. Everybody is told, and most will find what they know.
    pub(crate) fn lists_changed_for(&self, session: SessionId) {
        self.apart.changed(session);
        self.tell_of_all_lists();
    }
}

/// What one provider answers. One that panics fails its call, not the session: it is shared and gets nothing by `&mut`,
/// so there is no state of ours that it could have left half changed.
fn guarded(routes: &Routes, mount: usize, answer: impl FnOnce(&dyn Provider) -> Answer) -> Answer {
    let answer = AssertUnwindSafe(|| answer(&*routes.mounts[mount].provider));
    catch_unwind(answer).unwrap_or_else(|_| Answer::Now(Err(Failure::panicked())))
}

impl Hub {
    /// A hub in front of these providers; what they have is shown in this order, under its own names, of which there
    /// must not be two alike.
    pub fn new(providers: Vec<Box<dyn Provider>>) -> Result<Self, HubError> {
        let mounts = providers.into_iter().map(|provider| Mount::plain(Arc::from(provider))).collect();
        let (hub, duplicate) = Self::build(mounts);
        match duplicate {
            Some(error) => Err(error),
            None => Ok(hub),
        }
    }

    /// A hub in front of these providers; what they have is shown in this order. Where two have something of one name,
    /// the later one's gets another.
    pub fn of(mounts: Vec<Mount>) -> Self {
        Self::build(mounts).0
    }

    fn build(mounts: Vec<Mount>) -> (Self, Option<HubError>) {
        let (routes, duplicate) = Routes::ask(mounts.into(), None);
        let inner = Arc::new(Inner {
            routes: RwLock::new(Arc::new(routes)),
            asking: Mutex::default(),
            watched: Mutex::default(),
            apart: Apart::default(),
            changes: broadcast::Sender::new(CHANGES),
            validating: AtomicBool::new(false),
            sessions: AtomicU64::new(1),
            visitors: AtomicUsize::new(0),
            agent: OnceLock::new(),
            guests: Guests::default(),
            governor: OnceLock::new(),
            violations: OnceLock::new(),
        });
        let bell = Bell { hub: Arc::downgrade(&inner) };
        inner.routes().mounts.iter().for_each(|mount| mount.provider.attach(&bell));
        (Self { inner, bell }, duplicate)
    }

    /// The hub that a bell hangs in.
    pub(crate) fn behind(inner: Arc<Inner>, bell: &Bell) -> Self {
        Self { inner, bell: bell.clone() }
    }

    /// Puts other providers in place, and tells every session. Those that were there before go on undisturbed; new ones
    /// hear of the sessions that are open.
    pub fn remount(&self, mounts: Vec<Mount>) {
        {
            let _asking = self.inner.asking.lock().unwrap_or_else(PoisonError::into_inner);
            let before = self.inner.routes();
            let is_new = |mount: &&Mount| !before.mounts.iter().any(|old| Arc::ptr_eq(&old.provider, &mount.provider));
            let mounts: Arc<[Mount]> = mounts.into();
            let new: Vec<_> = mounts.iter().filter(is_new).cloned().collect();
            // Before anybody can call them, and with that before they open anything.
            new.iter().for_each(|mount| self.inner.guests.foretell(&*mount.provider));
            self.inner.show(mounts);
            for Mount { provider, .. } in &new {
                provider.attach(&self.bell);
                self.inner.guests.introduce(&**provider);
            }
        }
        self.inner.tell_of_all_lists();
    }

    /// Holds arguments and structured results to the tools' schemas, or leaves that to the tools (the default).
    pub fn validating(self, validating: bool) -> Self {
        self.inner.validating.store(validating, Ordering::Relaxed);
        self
    }

    /// Holds all calls to a policy. Once only: a governor takes other policies later.
    pub fn governed(self, governor: Arc<Governor>) -> Self {
        if self.inner.governor.set(governor).is_err() {
            tracing::warn!("the hub is governed already");
        }
        self.inner.show_again();
        self
    }

    /// Has this agent. Once only, before the first session.
    pub fn with_agent(self, agent: Arc<dyn Agent>) -> Self {
        if self.inner.agent.set(agent).is_err() {
            tracing::warn!("the hub has an agent already");
        }
        self
    }

    /// The agent, if there is one.
    pub fn agent(&self) -> Option<&Arc<dyn Agent>> {
        self.inner.agent.get()
    }

    /// Who holds calls to a policy, if anybody does.
    pub fn governor(&self) -> Option<&Arc<Governor>> {
        self.inner.governor.get()
    }

    /// Counts what downstreams do against what was negotiated here. Once only, before the first session.
    pub fn noting(self, violations: Arc<Violations>) -> Self {
        if self.inner.violations.set(violations).is_err() {
            tracing::warn!("violations are counted elsewhere already");
        }
        self
    }

    /// Where what downstreams do against what was negotiated is counted.
    pub fn violations(&self) -> &Arc<Violations> {
        self.inner.violations.get_or_init(Arc::default)
    }

    /// What callers get to see may have changed, though no provider has: asks all of them again, and tells every session.
    pub fn look_again(&self) {
        self.inner.show_again();
        self.inner.tell_of_all_lists();
    }

    /// A session with a downstream begins; it ends when this is dropped.
    pub fn visit(&self) -> Visit {
        let id = SessionId(self.inner.sessions.fetch_add(1, Ordering::Relaxed));
        self.inner.visitors.fetch_add(1, Ordering::Relaxed);
        Visit { hub: Arc::downgrade(&self.inner), id }
    }

    /// Waits until all providers know what they have, or have given up for now.
    pub async fn settled(&self) {
        settle(self.unsettled()).await;
    }

    /// There will be one session and no other, and it can be asked this.
    pub fn expects(&self, askable: &Askable) {
        self.inner.guests.expect(askable);
        self.inner.routes().mounts.iter().for_each(|mount| mount.provider.expects(askable));
    }

    /// There will be one session and no other, and it speaks this dialect.
    pub fn speaks(&self, dialect: &str) {
        self.inner.routes().mounts.iter().for_each(|mount| mount.provider.speaks(dialect));
    }

    /// Closes in order what the providers hold open. To be called once, at the end.
    pub async fn closed(&self) {
        // The agent first: what it still does may need the others.
        if let Some(agent) = self.agent() {
            agent.closing().await;
        }
        settle(self.inner.routes().mounts.iter().filter_map(|mount| mount.provider.closing()).collect()).await;
    }

    fn unsettled(&self) -> Vec<Settling> {
        self.inner.routes().mounts.iter().filter_map(|mount| mount.provider.settling()).collect()
    }

    /// Answers a call, now or later.
    pub fn answer(&self, call: Call<'_>, agreement: &Arc<Agreement>, caller: &Arc<dyn Caller>) -> Answer {
        let routes = self.inner.routes_for(caller.session());
        if self.is_answerable(&call.operation, &routes) {
            return self.route(call, routes, agreement, caller);
        }
        let unsettled = self.unsettled();
        if unsettled.is_empty() {
            return self.route(call, routes, agreement, caller);
        }
        let (hub, call) = (self.clone(), call.into_owned());
        let (agreement, caller) = (Arc::clone(agreement), Arc::clone(caller));
        Answer::Later(Box::pin(async move {
            settle(unsettled).await;
            let routes = hub.inner.routes_for(caller.session());
            hub.route(call, routes, &agreement, &caller).outcome().await
        }))
    }

    /// Whether it is known who answers, so that nobody who is still finding out matters.
    fn is_answerable(&self, operation: &Operation<'_>, routes: &Routes) -> bool {
        match operation {
            Operation::CallTool(tool) => routes.place_of(&tool.name).is_some(),
            Operation::GetPrompt(prompt) => routes.prompt(&prompt.name).is_some(),
            Operation::ReadResource(uri) | Operation::Watch(uri) => routes.resource(uri).is_some(),
            Operation::Complete(completion) => routes.completion(&completion.of).is_some(),
            Operation::Capability(call) => routes.capability(call.capability).is_some(),
            Operation::Agent(_) => true,
            Operation::ListTools | Operation::ListResources | Operation::ListTemplates | Operation::ListPrompts => {
                false
            }
        }
    }

    fn route(
        &self,
        call: Call<'_>,
        routes: Arc<Routes>,
        agreement: &Arc<Agreement>,
        caller: &Arc<dyn Caller>,
    ) -> Answer {
        let context = Context { call: call.id, terms: &call.terms, agreement, caller, bell: &self.bell };
        let now = |outcome: Outcome| Answer::Now(outcome);
        // Whoever finds nothing because somebody could not be asked is told so.
        let listed = |is_empty: bool, reply| {
            let trouble = trouble(&routes);
            if let Some(failure) = trouble.as_ref().filter(|_| !is_empty) {
                let log = Log { level: Level::Warning, logger: None, data: json::to_raw(&failure.message) };
                caller.tell(Notice::Log(Some(call.id), log));
            }
            Answer::Now(trouble.filter(|_| is_empty).map_or(Ok(reply), Err))
        };
        let missing = |failure| Answer::Now(Err(trouble(&routes).unwrap_or(failure)));
        // A call of a tool looks for itself, and most there are.
        let is_call = matches!(call.operation, Operation::CallTool(_));
        let view = if is_call { None } else { self.view(&routes, &context) };
        let seen = |route: Option<Route>| route.filter(|to| view.as_ref().is_none_or(|view| view.shows(to.mount)));
        let logged = self.written_down(&call.operation, &routes, &context);
        let answer = match call.operation {
            Operation::CallTool(tool) => {
                let tool = routes.completed(tool, caller.session());
                if let Some(stand_in) = stand_ins::stand_in(&tool.name, &routes, agreement) {
                    let refused = |by: &Arc<Governor>| by.refuses(&stand_in.tool(), &tool.arguments, &context);
                    if let Some(failure) = self.governor().and_then(refused) {
                        return Answer::Now(Err(failure));
                    }
                    return match stand_in.operation(&tool) {
                        Ok(operation) => {
                            let meant = Call { id: call.id, operation, terms: call.terms.clone() };
                            let templates = Arc::clone(&routes.templates);
                            stand_ins::as_answer(self.route(meant, routes, agreement, caller), templates)
                        }
                        Err(failure) => Answer::Now(Err(failure)),
                    };
                }
                let answer = match self.governor() {
                    Some(governor) => self.call_governed(governor, tool, Arc::clone(&routes), &context),
                    None => self.call_tool(tool, Arc::clone(&routes), &context),
                };
                match answer {
                    Answer::Now(Err(failure)) if failure.kind == FailureKind::UnknownTool => missing(failure),
                    answer => answer,
                }
            }
            Operation::ListTools => {
                let tools = view.as_ref().map_or(&routes.tools, |view| &view.tools);
                let is_shown = |tool: &Tool| !self.governor().is_some_and(|by| by.hides(tool, &context));
                let tools = stand_ins::with_stand_ins(tools, &routes, agreement, is_shown);
                listed(tools.is_empty(), Reply::Tools(tools))
            }
            Operation::ListResources => {
                let resources = view.as_ref().map_or(&routes.resources, |view| &view.resources);
                listed(resources.is_empty(), Reply::Resources(Arc::clone(resources)))
            }
            Operation::ListTemplates => {
                let templates = view.as_ref().map_or(&routes.templates, |view| &view.templates);
                listed(templates.is_empty(), Reply::Templates(Arc::clone(templates)))
            }
            Operation::ListPrompts => {
                let prompts = view.as_ref().map_or(&routes.prompts, |view| &view.prompts);
                listed(prompts.is_empty(), Reply::Prompts(Arc::clone(prompts)))
            }
            Operation::ReadResource(uri) => match seen(routes.resource(&uri)) {
                Some(route) => guarded(&routes, route.mount, |provider| provider.read(&route.own, &context)),
                None => self.read_unlisted(&uri, &routes, &context),
            },
            Operation::Watch(uri) => match seen(routes.resource(&uri)) {
                Some(route) => {
                    let mut watched = self.inner.watched.lock().unwrap_or_else(PoisonError::into_inner);
                    let count = watched.entry(uri.clone().into_owned()).or_default();
                    *count += 1;
                    if *count == 1 {
                        routes.mounts[route.mount].provider.watch(&route.own);
                    }
                    now(Ok(Reply::Done))
                }
                None => now(Err(Failure::unknown_resource(&uri))),
            },
            Operation::GetPrompt(prompt) => match seen(routes.prompt(&prompt.name).cloned()) {
                Some(route) => {
                    let prompt = ToolCall { name: Cow::Borrowed(&route.own), arguments: prompt.arguments };
                    guarded(&routes, route.mount, |provider| provider.prompt(prompt, &context))
                }
                None => missing(Failure::unknown_prompt(&prompt.name)),
            },
            Operation::Complete(completion) => match (seen(routes.completion(&completion.of)), &completion.of) {
                (Some(Route { mount, own }), of) => {
                    let of = match of {
                        CompletionOf::Prompt(_) => CompletionOf::Prompt(own.into()),
                        CompletionOf::Template(_) => CompletionOf::Template(own.into()),
                    };
                    let completion = CompletionCall { of, ..completion };
                    guarded(&routes, mount, |provider| provider.complete(completion, &context))
                }
                (None, CompletionOf::Prompt(name)) => now(Err(Failure::unknown_prompt(name))),
                (None, CompletionOf::Template(uri)) => now(Err(Failure::unknown_resource(uri))),
            },
            Operation::Agent(asked) => match self.agent() {
                Some(agent) => agent.ask(asked, &context),
                None => now(Err(Failure::no_agent())),
            },
            Operation::Capability(asked) => match routes.capability(asked.capability) {
                Some(mount) => guarded(&routes, mount, |provider| provider.serve(asked, &context)),
                None => missing(Failure::no_capability(asked.capability)),
            },
        };
        match logged {
            Some(logged) => logged.hold(answer),
            None => answer,
        }
    }

    /// Reads what nobody lists: whoever may have such is asked, one after the other.
    fn read_unlisted(&self, uri: &str, routes: &Arc<Routes>, context: &Context<'_>) -> Answer {
        let may_have_it = |mount: &Mount| mount.provider.features().unlisted_resources;
        let view = self.view(routes, context);
        let is_seen = |index: usize| view.as_ref().is_none_or(|view| view.shows(index));
        let mounts = routes.mounts.iter().enumerate();
        let candidates: Vec<usize> =
            mounts.filter(|(index, mount)| may_have_it(mount) && is_seen(*index)).map(|(index, _)| index).collect();
        match candidates[..] {
            [] => return Answer::Now(Err(Failure::unknown_resource(uri))),
            [one] => return guarded(routes, one, |provider| provider.read(uri, context)),
            _ => {}
        }
        let (uri, routes, bell) = (uri.to_owned(), Arc::clone(routes), self.bell.clone());
        let (call, terms) = (context.call, context.terms.clone().into_owned());
        let (agreement, caller) = (Arc::clone(context.agreement), Arc::clone(context.caller));
        Answer::later(async move {
            for candidate in candidates {
                let answer = {
                    let context = Context { call, terms: &terms, agreement: &agreement, caller: &caller, bell: &bell };
                    guarded(&routes, candidate, |provider| provider.read(&uri, &context))
                };
                match answer.outcome().await {
                    Err(failure) if failure.kind == FailureKind::UnknownResource => {}
                    outcome => return outcome,
                }
            }
            Err(Failure::unknown_resource(&uri))
        })
    }

    fn call_tool(&self, call: ToolCall<'_>, routes: Arc<Routes>, context: &Context<'_>) -> Answer {
        let Some(tool) = routes.place_of(&call.name) else {
            return Answer::Now(Err(Failure::unknown_tool(&call.name)));
        };
        match self.errand(call, tool, routes, context) {
            Ok(errand) => self.run(errand, context),
            Err(failure) => Answer::Now(Err(failure)),
        }
    }

    /// A call of a tool that can be made as it is.
    pub(crate) fn errand<'a>(
        &self,
        call: ToolCall<'a>,
        tool: usize,
        routes: Arc<Routes>,
        context: &Context<'_>,
    ) -> Result<Errand<'a>, Failure> {
        let as_task = is_task(&call.name, context.terms.task, routes.tools[tool].tasks)?;
        if self.inner.validating.load(Ordering::Relaxed) {
            routes.checks[tool].arguments(&routes.tools[tool], &call.arguments)?;
        }
        Ok(Errand { call, tool, as_task, routes })
    }

    /// Makes the call.
    pub(crate) fn run(&self, errand: Errand<'_>, context: &Context<'_>) -> Answer {
        let Errand { call, tool, as_task, routes } = errand;
        let Route { mount, own } = routes.route_of(tool);
        let call = ToolCall { name: Cow::Borrowed(own), arguments: call.arguments };
        let answer = guarded(&routes, *mount, |provider| provider.call(call, context));
        let validating = self.inner.validating.load(Ordering::Relaxed);
        let answer = if validating { checked(answer, routes, tool) } else { answer };
        match answer {
            Answer::Now(outcome) if as_task => Answer::AsTask(Box::pin(std::future::ready(outcome))),
            Answer::Later(work) if as_task => Answer::AsTask(work),
            answer => answer,
        }
    }

    /// Takes back one [`Operation::Watch`].
    pub fn unwatch(&self, uri: &str) {
        let mut watched = self.inner.watched.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(count) = watched.get_mut(uri) else { return };
        *count -= 1;
        if *count == 0 {
            watched.remove(uri);
            let routes = self.inner.routes();
            if let Some(route) = routes.resource(uri) {
                routes.mounts[route.mount].provider.unwatch(&route.own);
            }
        }
    }

    /// A session is open.
    pub fn joined(&self, caller: &Arc<dyn Caller>) {
        self.inner.guests.join(caller);
        self.inner.routes().mounts.iter().for_each(|mount| mount.provider.joined(caller));
    }

    /// The folders that a session works in have changed.
    pub fn roots_changed(&self, session: SessionId) {
        self.inner.routes().mounts.iter().for_each(|mount| mount.provider.roots_changed(session));
    }

    /// What changes for everybody, from now on.
    pub fn changes(&self) -> broadcast::Receiver<Notice> {
        self.inner.changes.subscribe()
    }

    /// What the providers do together beyond answering calls.
    pub fn features(&self) -> Features {
        let routes = self.inner.routes();
        let all = routes.mounts.iter().map(|mount| mount.provider.features());
        // Somebody who may speak is enough.
        let nobody = Features {
            silent: !routes.mounts.is_empty(),
            tool_changes: self.governor().is_some_and(|by| by.stops_tools()),
            ..Features::default()
        };
        all.fold(nobody, |sum, one| Features {
            silent: sum.silent && one.silent,
            questions: sum.questions || one.questions,
            completions: sum.completions || one.completions,
            unlisted_resources: sum.unlisted_resources || one.unlisted_resources,
            resource_updates: sum.resource_updates || one.resource_updates,
            tasks: sum.tasks || one.tasks,
            tool_changes: sum.tool_changes || one.tool_changes,
            resource_changes: sum.resource_changes || one.resource_changes,
            prompt_changes: sum.prompt_changes || one.prompt_changes,
        })
    }

    /// How things stand.
    pub fn status(&self) -> HubStatus {
        let routes = self.inner.routes();
        let offences = self.violations().counts().into_iter().filter_map(|(who, rule, count)| match who {
            Offender::Client(who) => Some(Offence { who, rule: rule.to_owned(), count }),
            Offender::Server(_) => None,
        });
        HubStatus {
            sessions: self.inner.visitors.load(Ordering::Relaxed),
            tools: routes.tools.len(),
            upstreams: routes.mounts.iter().filter_map(|mount| mount.provider.status()).collect(),
            violations: self.violations().handling(),
            offences: offences.collect(),
        }
    }

    /// Who answers calls, and how their names are shown. What a caller may see of it, and call, only the hub itself says.
    pub fn mounts(&self) -> Arc<[Mount]> {
        Arc::clone(&self.inner.routes().mounts)
    }

    /// All tools as they are now, in a fixed order.
    pub fn tools(&self) -> Arc<[Tool]> {
        Arc::clone(&self.inner.routes().tools)
    }

    /// The capabilities beside tools that somebody serves whole.
    pub fn capabilities(&self) -> Vec<&'static str> {
        self.inner.routes().capabilities().collect()
    }

    /// All resources as they are now, in a fixed order.
    pub fn resources(&self) -> Arc<[Resource]> {
        Arc::clone(&self.inner.routes().resources)
    }

    /// All templates as they are now, in a fixed order.
    pub fn templates(&self) -> Arc<[Template]> {
        Arc::clone(&self.inner.routes().templates)
    }

    /// All prompts as they are now, in a fixed order.
    pub fn prompts(&self) -> Arc<[Prompt]> {
        Arc::clone(&self.inner.routes().prompts)
    }
}

/// A call of a tool that can be made as it is.
#[derive(Debug)]
pub(crate) struct Errand<'a> {
    pub(crate) call: ToolCall<'a>,
    /// The tool's place in the routes.
    pub(crate) tool: usize,
    as_task: bool,
    pub(crate) routes: Arc<Routes>,
}

impl Errand<'_> {
    /// The same errand, free of the line it was read from.
    pub(crate) fn into_owned(self) -> Errand<'static> {
        Errand { call: self.call.into_owned(), tool: self.tool, as_task: self.as_task, routes: self.routes }
    }
}

/// A session of a downstream, as long as it lasts.
#[derive(Debug)]
pub struct Visit {
    hub: Weak<Inner>,
    id: SessionId,
}

impl Visit {
    /// The session's name.
    pub fn id(&self) -> SessionId {
        self.id
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        if let Some(hub) = self.hub.upgrade() {
            hub.visitors.fetch_sub(1, Ordering::Relaxed);
            hub.guests.leave(self.id);
            hub.routes().mounts.iter().for_each(|mount| mount.provider.left(self.id));
            if let Some(agent) = hub.agent.get() {
                agent.left(self.id);
            }
            hub.apart.left(self.id);
            if let Some(governor) = hub.governor.get() {
                governor.left(self.id);
            }
        }
    }
}

/// Why somebody does not know what it has, if there is such a one.
fn trouble(routes: &Routes) -> Option<Failure> {
    routes.mounts.iter().find_map(|mount| mount.provider.trouble())
}

async fn settle(unsettled: Vec<Settling>) {
    for settling in unsettled {
        settling.await;
    }
}

/// Whether a call becomes a task, by what its caller wishes and what the tool can.
fn is_task(name: &str, wish: TaskWish, support: TaskSupport) -> Result<bool, Failure> {
    match (wish, support) {
        (TaskWish::Never | TaskWish::Able, TaskSupport::Forbidden) | (TaskWish::Never, TaskSupport::Optional) => {
            Ok(false)
        }
        (TaskWish::Able | TaskWish::Only, TaskSupport::Optional | TaskSupport::Required) => Ok(true),
        (TaskWish::Only, TaskSupport::Forbidden) => {
            Err(Failure::new(FailureKind::NotAsTask, format!("{name} cannot be had as a task")))
        }
        (TaskWish::Never, TaskSupport::Required) => {
            Err(Failure::new(FailureKind::OnlyAsTask, format!("{name} can only be had as a task")))
        }
    }
}

/// The same answer, with its result held to the tool's schema.
fn checked(answer: Answer, routes: Arc<Routes>, tool: usize) -> Answer {
    if routes.tools[tool].output_schema.is_none() {
        return answer;
    }
    let check = move |outcome: Outcome| {
        let reply = outcome?;
        routes.checks[tool].reply(&routes.tools[tool], &reply)?;
        Ok(reply)
    };
    let later = |work: Work, check: Box<dyn FnOnce(Outcome) -> Outcome + Send>| -> Work {
        Box::pin(async move { check(work.await) })
    };
    match answer {
        Answer::Now(outcome) => Answer::Now(check(outcome)),
        Answer::Later(work) => Answer::Later(later(work, Box::new(check))),
        Answer::TaskLater(work) => Answer::TaskLater(later(work, Box::new(check))),
        Answer::AsTask(work) => Answer::AsTask(later(work, Box::new(check))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gladhand_operations::call::no_arguments;
    use gladhand_operations::{CallId, FailureKind, ToolCall, ToolResult};
    use gladhand_wire::json;

    #[derive(Debug)]
    struct Named(&'static [&'static str]);

    impl Provider for Named {
        fn tools(&self) -> Vec<Tool> {
            self.0.iter().map(|name| Tool::new(*name, "", json::raw(r#"{"type":"object"}"#.to_owned()))).collect()
        }

        fn call(&self, call: ToolCall<'_>, _: &Context<'_>) -> Answer {
            Answer::Now(Ok(Reply::Tool(ToolResult::text(&format!("{} of {:?}", call.name, self.0)))))
        }
    }

    #[derive(Debug)]
    struct Nobody;

    impl Caller for Nobody {
        fn tell(&self, _: Notice) {}
        fn ask(&self, _: Option<CallId>, _: Vec<crate::Asking>) {}
    }

    #[derive(Debug)]
    struct Clumsy;

    impl Provider for Clumsy {
        fn tools(&self) -> Vec<Tool> {
            Named(&["stumble"]).tools()
        }

        fn call(&self, _: ToolCall<'_>, _: &Context<'_>) -> Answer {
            panic!("over its own feet")
        }
    }

    #[test]
    fn a_provider_that_panics_fails_its_call_and_nothing_else() {
        let hub = Hub::new(vec![Box::new(Clumsy), Box::new(Named(&["a"]))]).unwrap();
        let nobody: Arc<dyn Caller> = Arc::new(Nobody);
        let agreement = Arc::new(agreement());
        let answer = |name: &'static str| {
            let operation = Operation::CallTool(ToolCall { name: name.into(), arguments: no_arguments() });
            match hub.answer(Call::new(CallId(1), operation), &agreement, &nobody) {
                Answer::Now(outcome) => outcome.map_err(|failure| failure.kind),
                Answer::Later(_) | Answer::TaskLater(_) | Answer::AsTask(_) => panic!("it was to answer at once"),
            }
        };
        assert!(matches!(answer("stumble"), Err(FailureKind::Internal)));
        assert!(matches!(answer("a"), Ok(Reply::Tool(_))));
    }

    fn agreement() -> Agreement {
        use gladhand_accord::{Defined, Minimum, Offer, Peer, Rules, VersionRule, agree};
        let rules = Rules {
            dialect: "test",
            versions: VersionRule::Common,
            minimum: Minimum::Nothing,
            defines: |_, _, _| Defined::Yes,
        };
        let offer = Offer::new(Peer::default(), ["1"]);
        agree(&rules, &offer, &offer).expect("one version on both sides")
    }

    #[test]
    fn two_tools_of_one_name_are_refused() {
        let error = Hub::new(vec![Box::new(Named(&["a", "b"])), Box::new(Named(&["b"]))]).unwrap_err();
        assert_eq!(error, HubError::Duplicate { what: "tool", name: "b".to_owned() });
    }

    #[test]
    fn tools_keep_the_order_of_their_providers() {
        let hub = Hub::new(vec![Box::new(Named(&["z", "b"])), Box::new(Named(&["a"]))]).unwrap();
        assert_eq!(hub.tools().iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), ["z", "b", "a"]);
    }
}
