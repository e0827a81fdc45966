//! Subscriptions to resources: the subscribers of each resource, and the provider that watches it for them.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use gladhand_core::operations::{Failure, FailureKind, Party, Update, WatchId, subscription_weight, wholes_of};
use gladhand_core::sync::Unpoisoned as _;

use crate::policy::Who;
use crate::portions::{Portion, Portions};
use crate::provider::{Provider, SessionId};
use crate::routes::Routes;

/// Maximum number of subscriptions over all sessions. A subscription with a long URI counts as several.
const MOST_SUBSCRIPTIONS: usize = 32_768;

/// All subscriptions of the hub.
#[derive(Debug)]
pub(crate) struct Watched {
    subscriptions: Mutex<Subscriptions>,
    /// The limit on subscriptions, shared by parties.
    room: Arc<Portions>,
}

impl Default for Watched {
    fn default() -> Self {
        Self { subscriptions: Mutex::default(), room: Portions::of(MOST_SUBSCRIPTIONS, 0) }
    }
}

#[derive(Debug, Default)]
struct Subscriptions {
    /// The newest subscription.
    newest: u64,
    /// By the names under which the resources are shown.
    by_uri: BTreeMap<String, Watch>,
    /// The shown URIs by the providers' own URIs.
    shown: BTreeMap<String, BTreeSet<String>>,
    /// Calls of `watch` and `unwatch` that providers have not got yet, in order.
    pending: VecDeque<WatchRequest>,
    /// Whether a thread makes these calls.
    is_notifying: bool,
}

/// A provider is to watch a resource, or to stop.
#[derive(Debug)]
struct WatchRequest {
    provider: Arc<dyn Provider>,
    /// The provider's own URI.
    own: String,
    what: Watching,
}

#[derive(Debug)]
enum Watching {
    Begins(Option<Identity>),
    Ends,
}

impl WatchRequest {
    fn send(self) {
        match self.what {
            Watching::Begins(by) => self.provider.watch(&self.own, by.as_ref().map(Identity::who).as_ref()),
            Watching::Ends => self.provider.unwatch(&self.own),
        }
    }
}

impl Subscriptions {
    /// The watched resources that a URI is a part of: a URI of a provider, or a shown one.
    fn wholes_of(&self, uri: &str, is_own: bool) -> Vec<(&String, &Watch)> {
        if !is_own {
            return wholes_of(&self.by_uri, uri).collect();
        }
        let shown = wholes_of(&self.shown, uri).flat_map(|(_, shown)| shown);
        shown.filter_map(|shown| self.by_uri.get_key_value(shown)).collect()
    }

    fn index(&mut self, own: &str, shown: &str) {
        self.shown.entry(own.to_owned()).or_default().insert(shown.to_owned());
    }

    fn forget(&mut self, own: &str, shown: &str) {
        let Some(names) = self.shown.get_mut(own) else { return };
        names.remove(shown);
        if names.is_empty() {
            self.shown.remove(own);
        }
    }
}

#[derive(Debug, Default)]
struct Watch {
    subscribers: Vec<Arc<Subscriber>>,
    /// The provider that watches the resource, or `None` if no provider is known to have it.
    at: Option<WatchedResource>,
}

/// A caller that subscribed to a resource. On each change, policy decides whether the subscriber may receive it.
#[derive(Debug)]
pub(crate) struct Subscriber {
    pub(crate) id: WatchId,
    identity: Identity,
    /// The policy under which the subscription was granted: see [`Governor::policy_number`](crate::policy::Governor).
    pub(crate) policy: u64,
    /// The share of the limit that this subscription takes.
    _portion: Option<Portion>,
}

/// A [`Who`] that is kept.
#[derive(Debug, Clone)]
struct Identity {
    principal: Option<Box<str>>,
    client: Box<str>,
    session: SessionId,
    scopes: Option<Box<str>>,
}

impl Identity {
    fn who(&self) -> Who<'_> {
        Who {
            principal: self.principal.as_deref(),
            client: &self.client,
            session: self.session,
            scopes: self.scopes.as_deref(),
        }
    }
}

impl Subscriber {
    /// A caller that subscribes while this policy is in force.
    pub(crate) fn new(who: &Who<'_>, policy: u64) -> Self {
        let identity = Identity {
            principal: who.principal.map(Into::into),
            client: who.client.into(),
            session: who.session,
            scopes: who.scopes.map(Into::into),
        };
        Self { id: WatchId(0), identity, policy, _portion: None }
    }

    pub(crate) fn who(&self) -> Who<'_> {
        self.identity.who()
    }
}

/// The subscribers that receive a change.
#[derive(Debug, Clone, Copy)]
pub enum Hearers<'a> {
    /// All of them.
    All,
    /// One session.
    Session(SessionId),
    /// Callers without a session of one principal.
    Sessionless(Option<&'a str>),
}

impl Hearers<'_> {
    /// Whether a subscriber is one of them.
    pub(crate) fn have(&self, who: &Who<'_>) -> bool {
        match self {
            Self::All => true,
            Self::Session(session) => who.session == *session,
            Self::Sessionless(principal) => who.session == SessionId::NONE && who.principal == *principal,
        }
    }
}

/// A resource of a provider.
#[derive(Debug)]
struct WatchedResource {
    provider: Weak<dyn Provider>,
    /// The provider's own URI for it.
    own: String,
}

/// A change of a watched resource.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Change<'a> {
    /// The provider that has the resource.
    pub(crate) provider: &'a Weak<dyn Provider>,
    /// The URI of the changed part, as the provider knows it.
    pub(crate) own: &'a str,
    /// The same URI, as it is shown.
    pub(crate) shown: &'a str,
}

impl Watched {
    /// Adds a subscription of a party.
    pub(crate) fn add(
        &self,
        uri: &str,
        subscriber: Subscriber,
        party: Option<Party>,
        routes: &Routes,
    ) -> Result<WatchId, Failure> {
        let resource = WatchedResource::of(uri, routes).ok_or_else(|| Failure::unknown_resource(uri))?;
        let mut portion = self.room.portion(party.unwrap_or(Party(0)));
        if !portion.grow(subscription_weight(uri)) {
            return Err(Failure::new(FailureKind::Busy, "busy: too many subscriptions; try again later"));
        }
        let mut guard = self.lock();
        let watched = &mut *guard;
        watched.newest += 1;
        let id = WatchId(watched.newest);
        let watch = watched.by_uri.entry(uri.to_owned()).or_default();
        let before = watch.own();
        watch.move_to(resource, routes, Some(&subscriber.identity), &mut watched.pending);
        watch.subscribers.push(Arc::new(Subscriber { id, _portion: Some(portion), ..subscriber }));
        let now = watch.own();
        if before != now {
            before.iter().for_each(|own| watched.forget(own, uri));
            now.iter().for_each(|own| watched.index(own, uri));
        }
        drop(guard);
        self.notify_providers();
        Ok(id)
    }

    /// A subscription ends.
    pub(crate) fn remove(&self, uri: &str, id: WatchId) {
        let mut guard = self.lock();
        let watched = &mut *guard;
        let Some(watch) = watched.by_uri.get_mut(uri) else { return };
        watch.subscribers.retain(|subscriber| subscriber.id != id);
        if watch.subscribers.is_empty()
            && let Some(Watch { at: Some(resource), .. }) = watched.by_uri.remove(uri)
        {
            watched.forget(&resource.own, uri);
            watched.pending.extend(resource.request(Watching::Ends));
        }
        drop(guard);
        self.notify_providers();
    }

    /// After a change of the routes: notifies providers that now have a watched resource, and providers that are still
    /// mounted but no longer have it.
    pub(crate) fn follow(&self, routes: &Routes) {
        // Finding the provider of a resource may call providers, so it happens without the lock.
        let uris: Vec<_> = self.lock().by_uri.keys().cloned().collect();
        let found = uris.into_iter().map(|uri| {
            let resource = WatchedResource::of(&uri, routes);
            (uri, resource)
        });
        let mut found: HashMap<_, _> = found.collect();
        let mut guard = self.lock();
        let watched = &mut *guard;
        for (uri, watch) in &mut watched.by_uri {
            // A resource that is watched only since then has the provider of the current routes.
            let Some(found) = found.remove(uri) else { continue };
            match found {
                Some(resource) => watch.move_to(resource, routes, None, &mut watched.pending),
                // A resource that is not listed for a while may still exist, as long as its provider is mounted.
                None => watch.at = watch.at.take().filter(|resource| resource.is_mounted(routes)),
            }
        }
        let owned = watched.by_uri.iter().filter_map(|(uri, watch)| Some((watch.own()?, uri.clone())));
        let owned: Vec<_> = owned.collect();
        watched.shown.clear();
        owned.iter().for_each(|(own, uri)| watched.index(own, uri));
        drop(guard);
        self.notify_providers();
    }

    /// Whether a watched resource has no known provider.
    pub(crate) fn has_resource_without_provider(&self) -> bool {
        self.lock().by_uri.values().any(|watch| watch.at.is_none())
    }

    /// The notices of a change of a resource, or of a part of it, under the shown URIs. `by`: the provider that
    /// announces the change, by its own URI. A provider announces changes only of resources that are watched at this
    /// provider. Without `by`, this process announces the change, by the shown URI. `denied` returns the subscribers
    /// that may not receive it.
    pub(crate) fn updates(
        &self,
        uri: &str,
        by: Option<&Weak<dyn Provider>>,
        denied: impl Fn(Change<'_>, &[Arc<Subscriber>]) -> Vec<WatchId>,
    ) -> Vec<Update> {
        let changed = |(watched, watch): (&String, &Watch)| {
            let at = watch.at.as_ref().filter(|at| by.is_none_or(|by| Weak::ptr_eq(by, &at.provider)))?;
            let whole = if by.is_some() { &at.own } else { watched };
            let part = &uri[whole.len()..];
            let (own, shown) = (format!("{}{part}", at.own), format!("{watched}{part}"));
            Some((Weak::clone(&at.provider), own, shown, watch.subscribers.clone()))
        };
        let changed: Vec<_> = self.lock().wholes_of(uri, by.is_some()).into_iter().filter_map(changed).collect();
        let mut updates: BTreeMap<String, Vec<WatchId>> = BTreeMap::new();
        for (provider, own, shown, subscribers) in changed {
            let denied = denied(Change { provider: &provider, own: &own, shown: &shown }, &subscribers);
            updates.entry(shown).or_default().extend(denied);
        }
        updates.into_iter().map(|(uri, denied)| Update { uri, denied }).collect()
    }

    /// Makes pending calls of `watch` and `unwatch`, in order and without the lock, because a provider may call the hub
    /// back. If another call does so already, possibly one further up on this thread, that call makes the rest.
    fn notify_providers(&self) {
        let mut watched = self.lock();
        if std::mem::replace(&mut watched.is_notifying, true) {
            return;
        }
        let notifying = Notifying(self);
        while let Some(request) = watched.pending.pop_front() {
            drop(watched);
            request.send();
            watched = self.lock();
        }
        // Under the same lock: a request that is added later finds no thread that makes it.
        watched.is_notifying = false;
        std::mem::forget(notifying);
    }

    fn lock(&self) -> MutexGuard<'_, Subscriptions> {
        self.subscriptions.lock().unpoisoned()
    }
}

/// A thread makes pending calls. If a provider panics, a later call of `notify_providers` makes the rest.
struct Notifying<'w>(&'w Watched);

impl Drop for Notifying<'_> {
    fn drop(&mut self) {
        self.0.lock().is_notifying = false;
    }
}

impl Watch {
    /// The URI that the watching provider uses.
    fn own(&self) -> Option<String> {
        self.at.as_ref().map(|at| at.own.clone())
    }

    fn move_to(
        &mut self,
        resource: WatchedResource,
        routes: &Routes,
        by: Option<&Identity>,
        pending: &mut VecDeque<WatchRequest>,
    ) {
        if self.at.as_ref().is_some_and(|at| at.is_same(&resource)) {
            return;
        }
        pending.extend(resource.request(Watching::Begins(by.cloned())));
        let before = self.at.replace(resource).filter(|before| before.is_mounted(routes));
        pending.extend(before.and_then(|before| before.request(Watching::Ends)));
    }
}

impl WatchedResource {
    fn of(uri: &str, routes: &Routes) -> Option<Self> {
        let route = routes.resource(uri)?;
        Some(Self { provider: Arc::downgrade(&routes.mounts[route.mount].provider), own: route.own })
    }

    fn request(&self, what: Watching) -> Option<WatchRequest> {
        Some(WatchRequest { provider: self.provider.upgrade()?, own: self.own.clone(), what })
    }

    fn is_same(&self, other: &Self) -> bool {
        Weak::ptr_eq(&self.provider, &other.provider) && self.own == other.own
    }

    /// Whether its provider is still mounted.
    fn is_mounted(&self, routes: &Routes) -> bool {
        routes.place(&self.provider).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Answer, ChangeNotifier, Context, Hub, Mount, Naming, ResourceProvider};
    use gladhand_core::operations::{Notice, Resource, Tool, ToolCall};

    /// Has resources, and records the calls of `watch` and `unwatch`.
    #[derive(Debug, Default)]
    struct Shelf {
        has: Mutex<Vec<&'static str>>,
        heard: Mutex<Vec<String>>,
        notifier: Mutex<Option<ChangeNotifier>>,
    }

    impl Shelf {
        /// Announces that a resource changed.
        fn rings(&self, uri: &str) {
            self.notifier.lock().unwrap().as_ref().unwrap().resource_updated(uri);
        }

        fn with(has: &[&'static str]) -> Arc<Self> {
            Arc::new(Self { has: Mutex::new(has.to_vec()), ..Self::default() })
        }

        fn heard(&self) -> Vec<String> {
            std::mem::take(&mut self.heard.lock().unwrap())
        }
    }

    impl Provider for Shelf {
        fn tools(&self) -> Vec<Tool> {
            Vec::new()
        }

        fn call(&self, _: ToolCall<'_>, _: &Context<'_>) -> Answer {
            unreachable!("it has no tools")
        }

        fn attach(&self, notifier: &ChangeNotifier) {
            *self.notifier.lock().unwrap() = Some(notifier.clone());
        }

        fn as_resources(&self) -> Option<&dyn ResourceProvider> {
            Some(self)
        }
    }

    impl ResourceProvider for Shelf {
        fn resources(&self) -> Vec<Resource> {
            self.has.lock().unwrap().iter().map(|uri| Resource::new(*uri, *uri, "")).collect()
        }

        fn watch(&self, uri: &str, _by: Option<&Who<'_>>) {
            self.heard.lock().unwrap().push(format!("+{uri}"));
        }

        fn unwatch(&self, uri: &str) {
            self.heard.lock().unwrap().push(format!("-{uri}"));
        }
    }

    fn watch(hub: &Hub, uri: &str) -> Option<WatchId> {
        let who = Who { principal: None, client: "c", session: SessionId::NONE, scopes: None };
        hub.watch(uri, &who, None, &hub.inner.routes()).ok()
    }

    /// The URIs of all notices of changes so far.
    fn told(changes: &mut tokio::sync::broadcast::Receiver<Notice>) -> Vec<String> {
        let told = std::iter::from_fn(|| changes.try_recv().ok());
        told.map(|notice| if let Notice::ResourceUpdated(update) = notice { update.uri } else { String::new() })
            .collect()
    }

    fn mount(shelf: &Arc<Shelf>) -> Mount {
        Mount::plain(Arc::clone(shelf) as _)
    }

    #[test]
    fn only_the_first_and_last_subscription_reach_the_provider() {
        let shelf = Shelf::with(&["a:1"]);
        let hub = Hub::of(vec![mount(&shelf)]);
        let [first, second] = [watch(&hub, "a:1"), watch(&hub, "a:1")].map(Option::unwrap);
        assert_eq!(watch(&hub, "a:2"), None);
        assert_eq!(shelf.heard(), ["+a:1"]);
        hub.unwatch("a:1", first);
        hub.unwatch("a:1", first);
        assert!(shelf.heard().is_empty());
        hub.unwatch("a:1", second);
        hub.unwatch("a:1", second);
        assert_eq!(shelf.heard(), ["-a:1"]);
    }

    #[test]
    fn subscriptions_have_a_bound_that_parties_share() {
        let hub = Hub::of(vec![mount(&Shelf::with(&["a:1"]))]);
        let who = Who { principal: None, client: "c", session: SessionId::NONE, scopes: None };
        let watch = |party| hub.watch("a:1", &who, Some(Party(party)), &hub.inner.routes());
        let first: Vec<_> = std::iter::from_fn(|| watch(1).ok()).take(2 * MOST_SUBSCRIPTIONS).collect();
        assert_eq!(first.len(), MOST_SUBSCRIPTIONS);
        assert_eq!(watch(1).unwrap_err().kind, FailureKind::Busy);
        assert!(watch(2).is_ok(), "another party gets its share");
        first.into_iter().rev().take(2).for_each(|id| hub.unwatch("a:1", id));
        assert!(watch(1).is_ok());
    }

    #[test]
    fn only_the_watched_provider_can_report_updates_of_a_resource() {
        let (honest, liar) = (Shelf::with(&["a:1"]), Shelf::with(&["b:1"]));
        let hub = Hub::of(vec![mount(&liar), mount(&honest)]);
        assert!(watch(&hub, "a:1").is_some());
        let mut changes = hub.changes();
        liar.rings("a:1");
        liar.rings("a:1/part");
        liar.rings("b:1");
        honest.rings("a:2");
        assert_eq!(told(&mut changes), Vec::<String>::new());
        honest.rings("a:1");
        honest.rings("a:1/part");
        assert_eq!(told(&mut changes), ["a:1", "a:1/part"]);
        hub.remount(vec![mount(&liar)]);
        told(&mut changes);
        honest.rings("a:1");
        assert_eq!(told(&mut changes), Vec::<String>::new(), "it is no longer mounted");
    }

    #[test]
    fn a_flood_of_updates_that_no_subscription_wants_pushes_out_no_other_notice() {
        let (honest, liar) = (Shelf::with(&["a:1"]), Shelf::with(&["b:1"]));
        let hub = Hub::of(vec![mount(&liar), mount(&honest)]);
        assert!(watch(&hub, "a:1").is_some());
        let mut changes = hub.changes();
        honest.rings("a:1");
        (0..10_000).for_each(|n| liar.rings(&format!("b:{n}")));
        honest.rings("a:1");
        assert_eq!(told(&mut changes), ["a:1", "a:1"], "no session falls behind");
    }

    #[test]
    fn an_update_has_the_uri_that_subscribers_use() {
        let (first, second) = (Shelf::with(&["a:1"]), Shelf::with(&["a:1"]));
        let prefixed = Mount { naming: Naming::prefixed("x"), ..mount(&second) };
        let hub = Hub::of(vec![mount(&first), prefixed]);
        let shown = hub.resources()[1].uri.clone();
        assert!(watch(&hub, &shown).is_some() && watch(&hub, "a:1").is_some());
        let mut changes = hub.changes();
        second.rings("a:1/part");
        assert_eq!(told(&mut changes), [format!("{shown}/part")]);
        first.rings("a:1");
        assert_eq!(told(&mut changes), ["a:1"]);
    }

    #[test]
    fn watches_move_to_a_replacement_provider() {
        let (old, stays, new) = (Shelf::with(&["a:1"]), Shelf::with(&["b:1"]), Shelf::with(&["a:1"]));
        let hub = Hub::of(vec![mount(&old), mount(&stays)]);
        let id = watch(&hub, "a:1").unwrap();
        assert!(watch(&hub, "b:1").is_some());
        assert_eq!((old.heard(), stays.heard()), (vec!["+a:1".to_owned()], vec!["+b:1".to_owned()]));
        hub.remount(vec![mount(&new), mount(&stays)]);
        assert_eq!(new.heard(), ["+a:1"]);
        assert!(stays.heard().is_empty(), "nothing changed for this provider");
        assert!(old.heard().is_empty(), "this provider is no longer mounted");
        hub.unwatch("a:1", id);
        assert_eq!(new.heard(), ["-a:1"]);
    }

    #[test]
    fn watches_are_sent_to_a_provider_that_lists_a_resource_late() {
        let (old, new) = (Shelf::with(&["a:1"]), Shelf::with(&[]));
        let hub = Hub::of(vec![mount(&old)]);
        assert!(watch(&hub, "a:1").is_some() && !hub.has_resource_without_provider());
        hub.remount(vec![mount(&new)]);
        assert!(new.heard().is_empty() && hub.has_resource_without_provider());
        new.has.lock().unwrap().push("a:1");
        hub.inner.changed(Notice::ResourcesChanged);
        assert_eq!(new.heard(), ["+a:1"]);
        assert!(!hub.has_resource_without_provider());
    }

    #[test]
    fn a_watched_resource_stays_with_its_first_provider() {
        let (first, second) = (Shelf::with(&[]), Shelf::with(&["a:1"]));
        let hub = Hub::of(vec![mount(&first), mount(&second)]);
        assert!(watch(&hub, "a:1").is_some());
        assert_eq!(second.heard(), ["+a:1"]);
        first.has.lock().unwrap().push("a:1");
        hub.inner.changed(Notice::ResourcesChanged);
        assert!(first.heard().is_empty() && second.heard().is_empty(), "the URI does not belong to the other provider");
        let renamed = Mount { naming: Naming { prefix: Some("x".to_owned()), ..Naming::default() }, ..mount(&first) };
        hub.remount(vec![renamed, mount(&second)]);
        assert!(first.heard().is_empty() && second.heard().is_empty(), "names of tools do not matter");
    }

    #[test]
    fn an_unlisted_resource_stays_watched() {
        let shelf = Shelf::with(&["a:1"]);
        let hub = Hub::of(vec![mount(&shelf)]);
        let id = watch(&hub, "a:1").unwrap();
        shelf.has.lock().unwrap().clear();
        hub.inner.changed(Notice::ResourcesChanged);
        assert!(!hub.has_resource_without_provider());
        hub.unwatch("a:1", id);
        assert_eq!(shelf.heard(), ["+a:1", "-a:1"]);
    }
}
