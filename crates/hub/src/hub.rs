//! The hub between providers and sessions: mounts providers, and registers and removes sessions. How a call finds its
//! provider is in `routing`.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, RwLock};

use gladhand_core::negotiation::{Agreement, Offer};
use gladhand_core::operations::{Failure, Notice, Party, Prompt, Resource, Template, Terms, Tool, WatchId};
use gladhand_core::sync::Unpoisoned as _;
use gladhand_core::validation::Validation;
use tokio::sync::broadcast;

use crate::agent::Agent;
use crate::call_observers::CallObservers;
use crate::change_notifier::{AnnouncingProvider, ChangeNotifier};
use crate::claims::Claims;
use crate::governed_calls;
use crate::list_refresh::ListRefresh;
use crate::per_session_routes::PerSessionRoutes;
use crate::policy::{Governor, Invisible, Offender, Violations, Who};
use crate::portions::Portions;
use crate::provider::{Caller, Context, Declared, Features, Provider, SessionId, Settling, viewer};
use crate::provider_features::Opening;
use crate::routes::{HubError, Mount, Routes};
use crate::session_registry::SessionRegistry;
use crate::session_status::Presences;
use crate::status::{HubStatus, Offence};
use crate::watched::{Change, Hearers, Subscriber, Watched};

/// Number of changes that a session may fall behind. Further changes push out the oldest, and the session learns that
/// it missed some.
const CHANGES: usize = 64;

/// Maximum memory in bytes that the messages of running requests to capabilities may take as trees. Parties share it.
const MESSAGES: usize = 256 * 1024 * 1024;

/// Finds the provider that answers a call. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Hub {
    pub(crate) inner: Arc<Inner>,
    pub(crate) notifier: ChangeNotifier,
}

#[derive(Debug)]
pub(crate) struct Inner {
    routes: RwLock<Arc<Routes>>,
    /// The providers that the next refresh asks.
    mounts: Mutex<Arc<[Mount]>>,
    /// Refreshes one after the other, so that the later of two changes wins.
    refresh: ListRefresh,
    watched: Watched,
    /// The routes of sessions that see lists of their own.
    per_session_routes: PerSessionRoutes,
    /// Which provider each name belongs to.
    claims: Claims,
    changes: broadcast::Sender<Notice>,
    /// Whether there is a validation.
    is_validating: AtomicBool,
    /// Validates arguments and results against the schemas of the tools.
    validation: RwLock<Option<Arc<dyn Validation>>>,
    /// The mode for invisible text: an [`Invisible`].
    invisible: AtomicU8,
    /// The number of the next session.
    pub(crate) sessions: AtomicU64,
    /// Sessions that have begun and not ended.
    pub(crate) visitors: AtomicUsize,
    pub(crate) presences: Presences,
    pub(crate) observers: CallObservers,
    agent: OnceLock<Arc<dyn Agent>>,
    open_sessions: SessionRegistry,
    /// The names of the required upstreams.
    pub(crate) required: RwLock<Arc<[String]>>,
    governor: OnceLock<Arc<Governor>>,
    violations: OnceLock<Arc<Violations>>,
    /// Bytes that the messages of running requests to capabilities take in memory at most.
    pub(crate) messages: Arc<Portions>,
}

impl Inner {
    pub(crate) fn routes(&self) -> Arc<Routes> {
        Arc::clone(&self.routes.read().unpoisoned())
    }

    /// Something changed: asks the providers for their lists again if one of the lists changed, then notifies every
    /// session.
    pub(crate) fn changed(&self, notice: Notice) {
        if matches!(notice, Notice::ToolsChanged | Notice::ResourcesChanged | Notice::PromptsChanged) {
            return self.refresh(vec![notice]);
        }
        // Sending without a receiver is no failure.
        let _ = self.changes.send(notice);
    }

    /// Asks the providers for their lists again, then sends notices to every session.
    fn refresh(&self, notices: Vec<Notice>) {
        let notices = self.refresh.run(notices, || self.show());
        if notices.iter().any(|notice| matches!(notice, Notice::ResourcesChanged)) {
            self.watched.follow(&self.routes());
        }
        for notice in notices {
            // Sending without a receiver is no failure.
            let _ = self.changes.send(notice);
        }
    }

    /// A resource changed. `by`: the provider that reports it.
    pub(crate) fn updated(&self, uri: &str, by: Option<&AnnouncingProvider>, hearers: Hearers<'_>) {
        let (routes, governor) = (self.routes(), self.governor.get());
        let denied = |change: Change<'_>, subscribers: &[Arc<Subscriber>]| {
            let by_policy = governor.map(|governor| governed_calls::denied(governor, change, subscribers, &routes));
            let others = subscribers.iter().filter(|subscriber| !hearers.have(&subscriber.who()));
            others.map(|subscriber| subscriber.id).chain(by_policy.into_iter().flatten()).collect()
        };
        let updates = self.watched.updates(uri, by.map(|by| &by.provider), denied);
        if let (Some(by), []) = (by, &updates[..]) {
            by.note_unwatched(uri);
        }
        for update in updates {
            // Sending without a receiver is no failure.
            let _ = self.changes.send(Notice::ResourceUpdated(update));
        }
    }

    /// A session has ended: drops the state that was kept for it.
    pub(crate) fn left(&self, session: SessionId) {
        self.visitors.fetch_sub(1, Ordering::Relaxed);
        self.open_sessions.leave(session);
        self.routes().mounts.iter().for_each(|mount| mount.provider.left(session));
        if let Some(agent) = self.agent.get() {
            agent.left(session);
        }
        self.per_session_routes.left(session);
        if let Some(governor) = self.governor.get() {
            governor.left(session);
        }
    }

    fn tell_of_all_lists(&self) {
        for notice in [Notice::ToolsChanged, Notice::ResourcesChanged, Notice::PromptsChanged] {
            // Sending without a receiver is no failure.
            let _ = self.changes.send(notice);
        }
    }

    pub(crate) fn is_pinning(&self) -> bool {
        self.governor.get().is_some_and(|governor| governor.is_pinning())
    }

    /// See [`Hub::look_again`].
    pub(crate) fn look_again(&self) {
        self.refresh(vec![Notice::ToolsChanged, Notice::ResourcesChanged, Notice::PromptsChanged]);
    }

    /// Asks the providers for their lists again, and notifies no session.
    pub(crate) fn show_again(&self) {
        self.refresh(Vec::new());
    }

    fn show(&self) {
        let mounts = Arc::clone(&self.mounts.lock().unpoisoned());
        let routes = Arc::new(self.ask(mounts, None));
        // The previous routes may hold the last reference to a provider, which is dropped without a lock.
        let _previous = std::mem::replace(&mut *self.routes.write().unpoisoned(), routes);
        self.per_session_routes.all_changed();
    }

    fn ask(&self, mounts: Arc<[Mount]>, session: Option<SessionId>) -> Routes {
        let (mut routes, _) = Routes::ask(mounts, &self.claims, session);
        if let Some(governor) = self.governor.get() {
            routes.stopped = governor.look(&routes);
        }
        // After the pins, which compare definitions as the provider sent them.
        routes.screened(self.invisible(), &self.claims)
    }

    /// The validation of calls, if there is one.
    pub(crate) fn validation(&self) -> Option<Arc<dyn Validation>> {
        if !self.is_validating.load(Ordering::Relaxed) {
            return None;
        }
        self.validation.read().unpoisoned().clone()
    }

    /// The mode for invisible text.
    pub(crate) fn invisible(&self) -> Invisible {
        Invisible::of(self.invisible.load(Ordering::Relaxed))
    }

    /// The routes that a caller sees.
    pub(crate) fn routes_for(&self, terms: &Terms<'_>, agreement: &Agreement, session: SessionId) -> Arc<Routes> {
        if self.per_session_routes.is_empty() {
            return self.routes();
        }
        let viewer = viewer(agreement, session, terms.principal.as_deref());
        let mounts = &self.routes().mounts;
        let numbers = || mounts.iter().map(|mount| mount.provider.list_number(viewer)).collect();
        let own = self.per_session_routes.routes(viewer, numbers, || self.ask(Arc::clone(mounts), Some(viewer)));
        own.unwrap_or_else(|| self.routes())
    }

    /// A viewer sees lists different from the common ones.
    pub(crate) fn lists_found_for(&self, viewer: SessionId) {
        self.per_session_routes.changed(viewer);
    }

    /// A viewer sees the common lists.
    pub(crate) fn lists_forgotten_for(&self, viewer: SessionId) {
        self.per_session_routes.left(viewer);
    }

    /// One session sees different lists than before. All sessions are notified, and most of them will find their lists
    /// unchanged.
    pub(crate) fn lists_changed_for(&self, session: SessionId) {
        self.per_session_routes.changed(session);
        self.tell_of_all_lists();
    }
}

impl Hub {
    /// A hub in front of these providers. Names are shown unchanged, in this order, and must be unique.
    pub fn new(providers: Vec<Box<dyn Provider>>) -> Result<Self, HubError> {
        let mounts = providers.into_iter().map(|provider| Mount::plain(Arc::from(provider))).collect();
        let (hub, duplicate) = Self::build(mounts);
        match duplicate {
            Some(error) => Err(error),
            None => Ok(hub),
        }
    }

    /// A hub in front of these providers, shown in this order. If two providers have the same name, one of them gets
    /// another name, or none: see `claims`.
    pub fn of(mounts: Vec<Mount>) -> Self {
        Self::build(mounts).0
    }

    fn build(mounts: Vec<Mount>) -> (Self, Option<HubError>) {
        let claims = Claims::default();
        let mounts: Arc<[Mount]> = mounts.into();
        let (routes, duplicate) = Routes::ask(Arc::clone(&mounts), &claims, None);
        let inner = Arc::new(Inner {
            routes: RwLock::new(Arc::new(routes)),
            mounts: Mutex::new(mounts),
            refresh: ListRefresh::default(),
            watched: Watched::default(),
            per_session_routes: PerSessionRoutes::default(),
            claims,
            changes: broadcast::Sender::new(CHANGES),
            is_validating: AtomicBool::new(false),
            validation: RwLock::default(),
            invisible: AtomicU8::new(Invisible::Show as u8),
            sessions: AtomicU64::new(1),
            visitors: AtomicUsize::new(0),
            presences: Presences::default(),
            observers: CallObservers::default(),
            agent: OnceLock::new(),
            open_sessions: SessionRegistry::default(),
            required: RwLock::new(Arc::new([])),
            governor: OnceLock::new(),
            violations: OnceLock::new(),
            messages: Portions::lasting(MESSAGES, 0),
        });
        let hub = Self::behind(inner);
        hub.mounts().iter().for_each(|mount| mount.provider.attach(&hub.notifier.for_provider(&mount.provider)));
        (hub, duplicate)
    }

    /// The hub that a notifier belongs to.
    pub(crate) fn behind(inner: Arc<Inner>) -> Self {
        Self { notifier: ChangeNotifier::of(&inner), inner }
    }

    /// Replaces the providers, and notifies every session. Providers that stay are not disturbed. New ones learn about
    /// the open sessions and the watched resources.
    pub fn remount(&self, mounts: Vec<Mount>) {
        let added = |mounts: &[Mount], before: &[Mount]| {
            let is_new = |mount: &&Mount| !before.iter().any(|old| Arc::ptr_eq(&old.provider, &mount.provider));
            mounts.iter().filter(is_new).cloned().collect::<Vec<_>>()
        };
        let mounts: Arc<[Mount]> = mounts.into();
        let before = Arc::clone(&self.inner.mounts.lock().unpoisoned());
        // Before a session can call the new providers, and therefore before they open anything.
        added(&mounts, &before).iter().for_each(|mount| self.inner.open_sessions.announce_opening(&*mount.provider));
        let before = std::mem::replace(&mut *self.inner.mounts.lock().unpoisoned(), Arc::clone(&mounts));
        self.inner.show_again();
        for Mount { provider, .. } in added(&mounts, &before) {
            provider.attach(&self.notifier.for_provider(&provider));
            self.inner.open_sessions.announce_sessions(&*provider);
        }
        self.inner.watched.follow(&self.inner.routes());
        self.inner.tell_of_all_lists();
    }

    /// Validates arguments and structured results against the schemas of the tools, or leaves that to the tools (the
    /// default).
    pub fn validating(self, validation: Option<Arc<dyn Validation>>) -> Self {
        let mut current = self.inner.validation.write().unpoisoned();
        self.inner.is_validating.store(validation.is_some(), Ordering::Relaxed);
        *current = validation;
        drop(current);
        self
    }

    /// Strips or refuses invisible text of providers from now on, or passes it unchanged (the default).
    pub fn screening(self, mode: Invisible) -> Self {
        let before = self.inner.invisible.swap(mode as u8, Ordering::Relaxed);
        if before != mode as u8 {
            // Hiding part of the lists from a caller needs a governor.
            self.inner.governor.get_or_init(Arc::default);
            self.look_again();
        }
        self
    }

    /// The mode for invisible text of providers.
    pub fn invisible(&self) -> Invisible {
        self.inner.invisible()
    }

    /// Applies a policy to all calls. Once only: a governor takes other policies later.
    pub fn governed(self, governor: Arc<Governor>) -> Self {
        let observer = governor.observer();
        match self.inner.governor.set(governor) {
            Ok(()) => observer.into_iter().for_each(|observer| self.observe_calls(observer)),
            Err(_) => tracing::warn!("the hub is governed already"),
        }
        self.inner.show_again();
        self
    }

    /// Sets the agent. Once only, before the first session.
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

    /// The governor that applies a policy to calls, if there is one.
    pub fn governor(&self) -> Option<&Arc<Governor>> {
        self.inner.governor.get()
    }

    /// Whether the instructions of an upstream changed and are withheld until a user approves them.
    pub fn withholds_instructions(&self, upstream: &str) -> bool {
        self.inner.routes().stopped.withholds_instructions(upstream)
    }

    /// Counts protocol violations of downstreams in `violations`. Once only, before the first session.
    pub fn noting(self, violations: Arc<Violations>) -> Self {
        if self.inner.violations.set(violations).is_err() {
            tracing::warn!("violations are counted elsewhere already");
        }
        self
    }

    /// The counter for protocol violations of downstreams.
    pub fn violations(&self) -> &Arc<Violations> {
        self.inner.violations.get_or_init(Arc::default)
    }

    /// Asks all providers for their lists again, and notifies every session. For changes of what callers may see that
    /// do not come from a provider.
    pub fn look_again(&self) {
        self.inner.look_again();
    }

    /// A notifier that does not keep the hub alive.
    pub fn notifier(&self) -> ChangeNotifier {
        self.notifier.clone()
    }

    /// Waits until all providers know their lists, or have given up for now.
    pub async fn settled(&self) {
        self.settle(self.unsettled()).await;
    }

    /// Waits for providers, all at once, and then until the definitions that they list are pinned.
    pub(crate) async fn settle(&self, unsettled: Vec<Settling>) {
        settle(unsettled).await;
        if let Some(storing) = self.storing_pins() {
            storing.await;
        }
    }

    /// If definitions are being pinned: a future that ends when they are.
    pub(crate) fn storing_pins(&self) -> Option<Settling> {
        self.governor()?.storing()
    }

    /// There will be exactly one session, and its client declares this offer.
    pub fn expects(&self, client: &Offer) {
        self.inner.open_sessions.expect(client);
        self.inner.routes().mounts.iter().for_each(|mount| mount.provider.opening(Opening::Offer(client)));
    }

    /// Whether there will be exactly one session.
    pub fn expects_one_session(&self) -> bool {
        self.inner.open_sessions.expects_one()
    }

    /// There will be exactly one session, and it speaks this dialect.
    pub fn speaks(&self, dialect: &str) {
        self.inner.routes().mounts.iter().for_each(|mount| mount.provider.opening(Opening::Dialect(dialect)));
    }

    /// Closes everything that the providers hold open. Called once, at shutdown.
    pub async fn closed(&self) {
        // The agent first: its remaining work may need the other providers.
        if let Some(agent) = self.agent() {
            agent.closing().await;
        }
        settle(self.inner.routes().mounts.iter().filter_map(|mount| mount.provider.closing()).collect()).await;
    }

    pub(crate) fn unsettled(&self) -> Vec<Settling> {
        self.inner.routes().mounts.iter().filter_map(|mount| mount.provider.settling()).collect()
    }

    /// Subscribes a caller to changes of a resource. The subscription counts against the limit of its party.
    pub(crate) fn watch(
        &self,
        uri: &str,
        by: &Who<'_>,
        party: Option<Party>,
        routes: &Routes,
    ) -> Result<WatchId, Failure> {
        let policy = self.governor().map_or(0, |governor| governor.policy_number());
        let watching = self.inner.watched.add(uri, Subscriber::new(by, policy), party, routes);
        let now = self.inner.routes();
        if !Arc::ptr_eq(&now.mounts, &routes.mounts) {
            // The providers have been replaced since the call arrived.
            self.inner.watched.follow(&now);
        }
        watching
    }

    /// Ends one [`Operation::Watch`](gladhand_core::operations::Operation::Watch), by its URI and the id from its
    /// reply.
    pub fn unwatch(&self, uri: &str, id: WatchId) {
        self.inner.watched.remove(uri, id);
    }

    /// Whether a watched resource has no known provider, but a provider that does not know its lists yet may have it.
    pub fn has_resource_without_provider(&self) -> bool {
        self.inner.watched.has_resource_without_provider()
    }

    /// A session is open.
    pub fn joined(&self, caller: &Arc<dyn Caller>) {
        self.inner.open_sessions.join(caller);
        self.inner.routes().mounts.iter().for_each(|mount| mount.provider.joined(caller));
    }

    /// The roots (folders) of a session have changed.
    pub fn roots_changed(&self, session: SessionId) {
        self.inner.routes().mounts.iter().for_each(|mount| mount.provider.roots_changed(session));
    }

    /// A receiver for changes that concern all sessions, from now on.
    pub fn changes(&self) -> broadcast::Receiver<Notice> {
        self.inner.changes.subscribe()
    }

    /// The combined features of all providers.
    pub fn features(&self) -> Features {
        let routes = self.inner.routes();
        let all = routes.mounts.iter().map(|mount| mount.provider.features());
        // One provider that may write log lines is enough.
        let nobody = Features {
            silent: !routes.mounts.is_empty(),
            tool_changes: self.governor().is_some_and(|by| by.stops_changes()),
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

    /// The capabilities that concern only the providers and their clients. If two have the same name, the first counts.
    pub fn declares(&self) -> Declared {
        let mut all: Declared = Vec::new();
        for (capability, settings) in self.inner.routes().mounts.iter().flat_map(|mount| mount.provider.declares()) {
            if !all.iter().any(|(known, _)| *known == capability) {
                all.push((capability, settings));
            }
        }
        all
    }

    /// A snapshot for status reports.
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
            conflicts: self.inner.claims.conflicts(),
        }
    }

    /// The providers, and how their names are shown. It ignores policy: what a caller may see and call is decided
    /// elsewhere in the hub.
    pub fn mounts(&self) -> Arc<[Mount]> {
        Arc::clone(&self.inner.routes().mounts)
    }

    /// The providers of which a caller sees anything.
    pub fn mounts_for(&self, context: &Context<'_>) -> Vec<Mount> {
        let routes = self.inner.routes_for(context.terms, context.agreement, context.caller.session());
        let view = self.view(&routes, context);
        let is_seen = |place: usize| view.as_ref().is_none_or(|view| view.sees(place));
        let seen = routes.mounts.iter().enumerate().filter(|(place, _)| is_seen(*place));
        seen.map(|(_, mount)| mount.clone()).collect()
    }

    /// All current tools, in a fixed order.
    pub fn tools(&self) -> Arc<[Tool]> {
        Arc::clone(&self.inner.routes().tools)
    }

    /// The capabilities besides tools that a provider serves completely.
    pub fn capabilities(&self) -> Vec<&'static str> {
        self.inner.routes().capabilities().collect()
    }

    /// The capabilities that may be granted over a network to a client without a token, as their providers declare.
    pub fn open_capabilities(&self) -> Vec<&'static str> {
        let routes = self.inner.routes();
        let is_open = |name: &&'static str| {
            let mount = routes.capability(name).and_then(|place| routes.mounts.get(place));
            mount.is_some_and(|mount| mount.provider.open_capabilities().contains(name))
        };
        routes.capabilities().filter(is_open).collect()
    }

    /// All current resources, in a fixed order.
    pub fn resources(&self) -> Arc<[Resource]> {
        Arc::clone(&self.inner.routes().resources)
    }

    /// All current templates, in a fixed order.
    pub fn templates(&self) -> Arc<[Template]> {
        Arc::clone(&self.inner.routes().templates)
    }

    /// All current prompts, in a fixed order.
    pub fn prompts(&self) -> Arc<[Prompt]> {
        Arc::clone(&self.inner.routes().prompts)
    }
}

/// Waits for all futures at once: a slow one does not delay the others.
async fn settle(unsettled: Vec<Settling>) {
    futures_util::future::join_all(unsettled).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kit;
    use gladhand_core::operations::ToolResult;

    fn named(names: &[&str]) -> Box<dyn Provider> {
        let kit = names.iter().fold(Kit::new(), |kit, name| {
            kit.tool(Tool::plain(*name, "Does nothing."), |_, _| Ok(ToolResult::text("")))
        });
        Box::new(kit)
    }

    #[test]
    fn two_tools_of_one_name_are_refused() {
        let error = Hub::new(vec![named(&["a", "b"]), named(&["b"])]).unwrap_err();
        assert_eq!(error, HubError::Duplicate { what: "tool", name: "b".to_owned() });
    }

    #[test]
    fn tools_keep_the_order_of_their_providers() {
        let hub = Hub::new(vec![named(&["z", "b"]), named(&["a"])]).unwrap();
        assert_eq!(hub.tools().iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), ["z", "b", "a"]);
    }
}
