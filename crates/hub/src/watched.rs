//! Resources that somebody wants to hear of, and who was told so.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::provider::Provider;
use crate::routes::Routes;

/// Resources that somebody wants to hear of, by the names under which they are shown.
#[derive(Debug, Default)]
pub(crate) struct Watched(Mutex<HashMap<String, Watch>>);

#[derive(Debug, Default)]
struct Watch {
    /// How many want to hear of it.
    wanted: usize,
    /// Who was told so, unless nobody is known to have it.
    at: Option<Place>,
}

/// A resource of a provider.
#[derive(Debug)]
struct Place {
    provider: Weak<dyn Provider>,
    /// What the provider itself calls it.
    own: String,
}

impl Watched {
    /// One more wants to hear of a resource. Whether there is such.
    pub(crate) fn add(&self, uri: &str, routes: &Routes) -> bool {
        let Some(place) = Place::of(uri, routes) else { return false };
        let mut watched = self.lock();
        let watch = watched.entry(uri.to_owned()).or_default();
        watch.wanted += 1;
        watch.move_to(place, routes);
        true
    }

    /// One less wants to hear of it.
    pub(crate) fn remove(&self, uri: &str) {
        let mut watched = self.lock();
        let Some(watch) = watched.get_mut(uri) else { return };
        watch.wanted -= 1;
        if watch.wanted == 0
            && let Some(Watch { at: Some(place), .. }) = watched.remove(uri)
            && let Some(provider) = place.provider.upgrade()
        {
            provider.unwatch(&place.own);
        }
    }

    /// Others may have what is watched now: they are told, and whoever is left and does not have it any more is too.
    pub(crate) fn follow(&self, routes: &Routes) {
        for (uri, watch) in &mut *self.lock() {
            match Place::of(uri, routes) {
                Some(place) => watch.move_to(place, routes),
                // What is not listed for a while may still be there, as long as its provider is.
                None => watch.at = watch.at.take().filter(|place| place.is_mounted(routes)),
            }
        }
    }

    /// Whether something is watched that nobody is known to have.
    pub(crate) fn misses_somebody(&self) -> bool {
        self.lock().values().any(|watch| watch.at.is_none())
    }

    /// Held while providers are told, so that they hear everything in the order in which it happened.
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Watch>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watch {
    fn move_to(&mut self, place: Place, routes: &Routes) {
        if self.at.as_ref().is_some_and(|at| at.is_same(&place)) {
            return;
        }
        if let Some(provider) = place.provider.upgrade() {
            provider.watch(&place.own);
        }
        if let Some(before) = self.at.replace(place).filter(|before| before.is_mounted(routes))
            && let Some(provider) = before.provider.upgrade()
        {
            provider.unwatch(&before.own);
        }
    }
}

impl Place {
    fn of(uri: &str, routes: &Routes) -> Option<Self> {
        let route = routes.resource(uri)?;
        Some(Self { provider: Arc::downgrade(&routes.mounts[route.mount].provider), own: route.own })
    }

    fn is_same(&self, other: &Self) -> bool {
        Weak::ptr_eq(&self.provider, &other.provider) && self.own == other.own
    }

    /// Whether its provider is still there.
    fn is_mounted(&self, routes: &Routes) -> bool {
        routes.mounts.iter().any(|mount| Weak::ptr_eq(&self.provider, &Arc::downgrade(&mount.provider)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Answer, Context, Hub, Mount, Naming};
    use gladhand_operations::{Notice, Resource, Tool, ToolCall};

    /// Has resources, and writes down what it hears of them.
    #[derive(Debug, Default)]
    struct Shelf {
        has: Mutex<Vec<&'static str>>,
        heard: Mutex<Vec<String>>,
    }

    impl Shelf {
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

        fn resources(&self) -> Vec<Resource> {
            self.has.lock().unwrap().iter().map(|uri| Resource::new(*uri, *uri, "")).collect()
        }

        fn call(&self, _: ToolCall<'_>, _: &Context<'_>) -> Answer {
            unreachable!("it has no tools")
        }

        fn watch(&self, uri: &str) {
            self.heard.lock().unwrap().push(format!("+{uri}"));
        }

        fn unwatch(&self, uri: &str) {
            self.heard.lock().unwrap().push(format!("-{uri}"));
        }
    }

    fn watch(hub: &Hub, uri: &str) -> bool {
        hub.watch(uri, &hub.inner.routes())
    }

    fn mount(shelf: &Arc<Shelf>) -> Mount {
        Mount::plain(Arc::clone(shelf) as _)
    }

    #[test]
    fn the_first_and_the_last_who_want_to_hear_are_told_on() {
        let shelf = Shelf::with(&["a:1"]);
        let hub = Hub::of(vec![mount(&shelf)]);
        assert!(watch(&hub, "a:1") && watch(&hub, "a:1") && !watch(&hub, "a:2"));
        assert_eq!(shelf.heard(), ["+a:1"]);
        hub.unwatch("a:1");
        assert!(shelf.heard().is_empty());
        hub.unwatch("a:1");
        hub.unwatch("a:1");
        assert_eq!(shelf.heard(), ["-a:1"]);
    }

    #[test]
    fn who_takes_the_place_of_another_is_told_what_is_watched() {
        let (old, stays, new) = (Shelf::with(&["a:1"]), Shelf::with(&["b:1"]), Shelf::with(&["a:1"]));
        let hub = Hub::of(vec![mount(&old), mount(&stays)]);
        assert!(watch(&hub, "a:1") && watch(&hub, "b:1"));
        assert_eq!((old.heard(), stays.heard()), (vec!["+a:1".to_owned()], vec!["+b:1".to_owned()]));
        hub.remount(vec![mount(&new), mount(&stays)]);
        assert_eq!(new.heard(), ["+a:1"]);
        assert!(stays.heard().is_empty(), "nothing changed for it");
        assert!(old.heard().is_empty(), "it is gone");
        hub.unwatch("a:1");
        assert_eq!(new.heard(), ["-a:1"]);
    }

    #[test]
    fn who_says_later_what_it_has_is_told_then() {
        let (old, new) = (Shelf::with(&["a:1"]), Shelf::with(&[]));
        let hub = Hub::of(vec![mount(&old)]);
        assert!(watch(&hub, "a:1") && !hub.misses_somebody());
        hub.remount(vec![mount(&new)]);
        assert!(new.heard().is_empty() && hub.misses_somebody());
        new.has.lock().unwrap().push("a:1");
        hub.inner.changed(Notice::ResourcesChanged);
        assert_eq!(new.heard(), ["+a:1"]);
        assert!(!hub.misses_somebody());
    }

    #[test]
    fn what_is_watched_stays_with_the_provider_that_had_it_first() {
        let (first, second) = (Shelf::with(&[]), Shelf::with(&["a:1"]));
        let hub = Hub::of(vec![mount(&first), mount(&second)]);
        assert!(watch(&hub, "a:1"));
        assert_eq!(second.heard(), ["+a:1"]);
        first.has.lock().unwrap().push("a:1");
        hub.inner.changed(Notice::ResourcesChanged);
        assert!(first.heard().is_empty() && second.heard().is_empty(), "the URI is not the other's");
        let renamed = Mount { naming: Naming { prefix: Some("x".to_owned()), ..Naming::default() }, ..mount(&first) };
        hub.remount(vec![renamed, mount(&second)]);
        assert!(first.heard().is_empty() && second.heard().is_empty(), "the names of tools are no matter");
    }

    #[test]
    fn what_is_not_listed_for_a_while_stays_watched() {
        let shelf = Shelf::with(&["a:1"]);
        let hub = Hub::of(vec![mount(&shelf)]);
        assert!(watch(&hub, "a:1"));
        shelf.has.lock().unwrap().clear();
        hub.inner.changed(Notice::ResourcesChanged);
        assert!(!hub.misses_somebody());
        hub.unwatch("a:1");
        assert_eq!(shelf.heard(), ["+a:1", "-a:1"]);
    }
}
