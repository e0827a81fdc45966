//! An upstream as a provider, so that every downstream session can reach it.
//!
//! An upstream starts when it is first needed. Its lists from the last run are remembered, so that they are available
//! immediately. Callers share one connection to an upstream where that is safe. [`UpstreamProvider`] describes which
//! callers get a separate connection.

mod breaker;
mod client_roots;
mod connection_budget;
mod events;
mod forwarding;
mod lists;
pub mod memory;
mod pinning;
mod pool;
mod refreshing;
mod selection;
mod spec;
mod stale;
mod status;
mod subscriptions;
mod upstream_connection;
mod viewers;

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::time::Duration;

use gladhand_core::negotiation::Peer;
use gladhand_core::operations::{
    CapabilityCall, CompletionCall, Failure, FailureKind, Level, Log, Operation, Prompt, Resource, Template, Tool,
    ToolCall,
};
use gladhand_core::sync::Unpoisoned as _;
use gladhand_core::wire::json;
use gladhand_dialects::carried_name;
use gladhand_hub::policy::Who;
use gladhand_hub::{
    Answer, Caller, CapabilityProvider, ChangeNotifier, CompletionProvider, Context, Declared, Features, List, Listed,
    Opening, PromptProvider, Provider, Represented, ResourceProvider, ServerProvider, SessionId, SessionObserver,
    Settling, UpstreamStatus, ViewerLists,
};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::upstream::Upstream;
pub use memory::forget_unused;

use client_roots::Allowed;
pub use connection_budget::ConnectionBudget;
pub use spec::Spec;

use lists::Lists;
use pool::Pools;
use stale::Stale;
use subscriptions::Subscriptions;
use upstream_connection::{ClientProfile, UpstreamConnection};
use viewers::Viewers;

/// How long a list request waits for an upstream that was late before, if there are other upstreams.
const LATE_WAIT: Duration = Duration::from_secs(1);

/// How long a list request waits for an upstream whose lists are unknown, if `limit` is the longest wait. Requests
/// during one opening share their wait, and an upstream that was late once delays later requests only briefly: its lists
/// are announced when it opens.
fn list_wait(limit: Duration, was_late: bool, opening_for: Option<Duration>) -> Duration {
    let most = if was_late { LATE_WAIT } else { limit };
    most.min(limit.saturating_sub(opening_for.unwrap_or_default()))
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
    listing: watch::Sender<Listing>,
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
    /// Set once the log says that the upstream has not opened yet.
    told_late: OnceLock<()>,
}

/// Whether the lists of an upstream are known to the hub.
#[derive(Debug, Clone)]
enum Listing {
    /// They are requested, or are about to be.
    Unknown,
    Shown,
    /// None could be had, for this reason. They are requested again in the background.
    Failed(Failure),
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
            listing: watch::Sender::new(if remembered.is_some() { Listing::Shown } else { Listing::Unknown }),
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
            told_late: OnceLock::new(),
        };
        Self { inner: Arc::new(inner) }
    }
}

impl Inner {
    fn known(&self) -> Option<Arc<Lists>> {
        self.lists.lock().unpoisoned().clone()
    }

    fn connections(&self) -> MutexGuard<'_, Connections> {
        self.connections.lock().unpoisoned()
    }

    async fn open_main(self: &Arc<Self>) -> Result<Upstream, Failure> {
        let (main, _) = self.main();
        if let Some(session) = main.session() {
            return Ok(session);
        }
        self.keep();
        let this = Arc::downgrade(self);
        // The callers may stop waiting before the opening ends, so the opening itself notes how it ended.
        main.open(move |opened| {
            let Some(this) = this.upgrade() else { return };
            this.note_trouble(opened.as_ref().err());
            if let Ok(session) = opened {
                this.opened(session);
            }
        })
        .await
    }

    /// Opens the main connection and waits for its lists, as long as a list request may wait.
    async fn settle(self: &Arc<Self>) {
        // Only now: before a session is expected, the main connection would be made for no client in particular.
        let (main, _) = self.main();
        let in_time = match self.spec.list_wait {
            Some(limit) => {
                let wait = list_wait(limit, self.told_late.get().is_some(), main.opening_for());
                let settling = async {
                    if self.open_main().await.is_ok() {
                        self.listed().await;
                    }
                };
                tokio::time::timeout(wait, settling).await.is_ok()
            }
            // Nothing can be said for a server that may still open. The opening has its own timeouts.
            None if self.open_main().await.is_err() => true,
            None => tokio::time::timeout(self.spec.longest_list_wait(), self.listed()).await.is_ok(),
        };
        if !in_time && self.told_late.set(()).is_ok() {
            tracing::warn!("upstream `{}` has not opened yet: its tools appear when it does", self.label);
        }
    }

    /// Why the lists are unknown, if a list request waited for them in vain and no attempt has failed.
    fn lateness(&self) -> Option<Failure> {
        self.told_late.get()?;
        let (main, name) = (self.main().0, &self.spec.name);
        let why = match main.opening_for() {
            Some(age) => format!("upstream {name}: it has not opened yet (for {} s)", age.as_secs()),
            None if main.session().is_some() => {
                format!("upstream {name}: it has not answered the request for its lists yet")
            }
            None => format!("upstream {name}: it is not open"),
        };
        Some(Failure::new(FailureKind::UpstreamLost, why))
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
                let Ok(session) = session else { return };
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
            None => {
                let trouble = self.inner.trouble.lock().unpoisoned().clone();
                trouble.or_else(|| self.inner.listing_failure()).or_else(|| self.inner.lateness())
            }
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

    fn tools(&self) -> Vec<Tool> {
        self.inner.known().map(|lists| lists.tools.clone()).unwrap_or_default()
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

    fn settling(&self) -> Option<Settling> {
        let is_settled = match &*self.inner.listing.borrow() {
            Listing::Unknown => false,
            Listing::Shown => true,
            Listing::Failed(_) => self.inner.main().0.session().is_some(),
        };
        if is_settled {
            return None;
        }
        let inner = Arc::clone(&self.inner);
        Some(Box::pin(async move { inner.settle().await }))
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

    fn as_resources(&self) -> Option<&dyn ResourceProvider> {
        Some(self)
    }

    fn as_prompts(&self) -> Option<&dyn PromptProvider> {
        Some(self)
    }

    fn as_completions(&self) -> Option<&dyn CompletionProvider> {
        Some(self)
    }

    fn as_capabilities(&self) -> Option<&dyn CapabilityProvider> {
        Some(self)
    }

    fn as_session_observer(&self) -> Option<&dyn SessionObserver> {
        Some(self)
    }

    fn as_viewer_lists(&self) -> Option<&dyn ViewerLists> {
        Some(self)
    }

    fn as_server(&self) -> Option<&dyn ServerProvider> {
        Some(self)
    }
}

impl ResourceProvider for UpstreamProvider {
    fn resources(&self) -> Vec<Resource> {
        self.inner.known().map(|lists| lists.resources.clone()).unwrap_or_default()
    }

    fn templates(&self) -> Vec<Template> {
        self.inner.known().map(|lists| lists.templates.clone()).unwrap_or_default()
    }

    fn read(&self, uri: &str, context: &Context<'_>) -> Answer {
        self.pass_on(Operation::ReadResource(uri.into()), true, context)
    }

    fn watch(&self, uri: &str, by: Option<&Who<'_>>) {
        self.inner.watch(uri, by);
    }

    fn unwatch(&self, uri: &str) {
        self.inner.unwatch(uri);
    }
}

impl PromptProvider for UpstreamProvider {
    fn prompts(&self) -> Vec<Prompt> {
        self.inner.known().map(|lists| lists.prompts.clone()).unwrap_or_default()
    }

    fn prompt(&self, call: ToolCall<'_>, context: &Context<'_>) -> Answer {
        self.pass_on(Operation::GetPrompt(call), true, context)
    }
}

impl CompletionProvider for UpstreamProvider {
    fn complete(&self, call: CompletionCall<'_>, context: &Context<'_>) -> Answer {
        self.pass_on(Operation::Complete(call), true, context)
    }
}

impl CapabilityProvider for UpstreamProvider {
    fn capabilities(&self) -> Vec<&'static str> {
        let known = self.inner.known();
        let names = known.iter().flat_map(|lists| &lists.capabilities);
        names.filter_map(|name| carried_name(name)).collect()
    }

    fn serve(&self, call: CapabilityCall<'_>, context: &Context<'_>) -> Answer {
        self.pass_on(Operation::Capability(call), false, context)
    }
}

impl SessionObserver for UpstreamProvider {
    fn opening(&self, fact: Opening<'_>) {
        let Opening::Offer(client) = fact else { return };
        let _ = self.inner.is_alone.set(());
        self.inner.connections().expected = Some(ClientProfile::of_offer(client));
    }

    fn joined(&self, caller: &Arc<dyn Caller>) {
        let (main, is_alone) = self.inner.main();
        if is_alone {
            self.inner.session.send_replace(Some(Arc::downgrade(caller)));
            main.events.joined(caller);
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
}

impl ViewerLists for UpstreamProvider {
    fn listed_for(&self, session: SessionId) -> Option<Listed> {
        self.inner.listed_for(session)
    }

    fn list_number(&self, session: SessionId) -> Option<u64> {
        self.inner.list_number(session)
    }

    fn settling_for(&self, context: &Context<'_>) -> Option<Settling> {
        self.inner.settling_for(context)
    }
}

impl ServerProvider for UpstreamProvider {
    fn instructions(&self) -> Option<String> {
        self.inner.known().and_then(|lists| lists.instructions.clone())
    }

    fn declares(&self) -> Declared {
        self.inner.known().map(|lists| lists.declares()).unwrap_or_default()
    }

    fn trouble(&self, list: List) -> Option<Failure> {
        match self.inner.known() {
            Some(lists) => lists.trouble(list).cloned(),
            None => Represented::outage(self),
        }
    }

    fn status(&self) -> Option<UpstreamStatus> {
        Some(self.inner.status())
    }

    fn is_open(&self) -> bool {
        self.inner.all_connections().iter().any(|connection| connection.session().is_some())
    }

    fn open(&self) -> Option<Settling> {
        let inner = Arc::clone(&self.inner);
        Some(Box::pin(async move {
            // The connection logs why it could not be opened.
            let _ = inner.open_main().await;
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upstream_that_does_not_open_delays_lists_once() {
        let seconds = Duration::from_secs;
        let (limit, wait) = (seconds(15), |was_late, opening_for| list_wait(seconds(15), was_late, opening_for));
        assert_eq!(wait(false, None), limit, "the first request starts it");
        assert_eq!(wait(false, Some(seconds(10))), seconds(5), "a second one during the same opening");
        assert_eq!(wait(false, Some(seconds(42))), Duration::ZERO);
        assert_eq!(wait(true, None), LATE_WAIT, "it is opened again");
        assert_eq!(wait(true, Some(seconds(42))), Duration::ZERO);
    }
}
