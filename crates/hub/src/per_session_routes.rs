//! Routes of sessions whose lists differ from the common ones, because a provider lists something only for them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use gladhand_core::sync::Unpoisoned as _;

use crate::provider::SessionId;
use crate::routes::Routes;

/// Distinguishes the lists of one session from those of another: one number per provider.
pub(crate) type ListNumbers = Vec<Option<u64>>;

/// The routes of such sessions.
#[derive(Debug, Default)]
pub(crate) struct PerSessionRoutes {
    /// Number of such sessions. If it is zero, callers skip the lock.
    count: AtomicUsize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// `None`: built on demand.
    sessions: HashMap<SessionId, Option<Arc<Routes>>>,
    /// Routes shared by all sessions that see the same lists.
    shared: HashMap<ListNumbers, Arc<OnceLock<Arc<Routes>>>>,
    /// Number of changes so far.
    changes: u64,
}

impl PerSessionRoutes {
    /// The lists of a session now differ from the common ones, or have changed.
    pub(crate) fn changed(&self, session: SessionId) {
        self.update(|state| drop(state.sessions.insert(session, None)));
    }

    /// A session has ended.
    pub(crate) fn left(&self, session: SessionId) {
        if !self.is_empty() {
            self.update(|state| drop(state.sessions.remove(&session)));
        }
    }

    /// The common lists have changed, and they may be a part of the lists of each of these sessions.
    pub(crate) fn all_changed(&self) {
        self.update(|state| {
            state.shared.clear();
            state.sessions.values_mut().for_each(|routes| *routes = None);
        });
    }

    /// Whether every session sees the common lists.
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// The routes of a session, if they differ from the common ones. Sessions that see the same lists share them.
    ///
    /// Routes are built without a lock, because a provider may call the hub back while its lists are read. Threads that
    /// need the same routes at the same time may therefore build them more than once, and all use the first result.
    pub(crate) fn routes(
        &self,
        session: SessionId,
        numbers: impl FnOnce() -> ListNumbers,
        ask: impl FnOnce() -> Routes,
    ) -> Option<Arc<Routes>> {
        if let Some(routes) = self.lock().sessions.get(&session)? {
            return Some(Arc::clone(routes));
        }
        let before = self.lock().changes;
        let numbers = numbers();
        let shared = Arc::clone(self.lock().shared.entry(numbers).or_default());
        let routes = match shared.get() {
            Some(routes) => Arc::clone(routes),
            None => {
                let built = Arc::new(ask());
                Arc::clone(shared.get_or_init(|| built))
            }
        };
        let mut state = self.lock();
        // These routes may miss a change that happened in the meantime: the next caller asks again.
        if state.changes == before
            && let Some(place) = state.sessions.get_mut(&session)
        {
            *place = Some(Arc::clone(&routes));
        }
        Some(routes)
    }

    fn update(&self, update: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        update(&mut state);
        state.changes += 1;
        // The map itself holds one reference.
        state.shared.retain(|_, routes| {
            let is_used = |routes: &Arc<Routes>| Arc::strong_count(routes) > 1;
            Arc::strong_count(routes) > 1 || routes.get().is_some_and(is_used)
        });
        self.count.store(state.sessions.len(), Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unpoisoned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::Claims;

    #[test]
    fn sessions_that_see_the_same_share_their_routes_until_something_changes() {
        let routes_of = PerSessionRoutes::default();
        let built = AtomicUsize::new(0);
        let routes = |session: u64, number: u64| {
            let ask = || {
                built.fetch_add(1, Ordering::Relaxed);
                Routes::ask(Arc::from([]), &Claims::default(), None).0
            };
            routes_of.routes(SessionId(session), || vec![Some(number)], ask)
        };
        assert!(routes(1, 7).is_none(), "it sees the common lists");
        [1, 2, 3].into_iter().for_each(|session| routes_of.changed(SessionId(session)));
        let (one, two, three) = (routes(1, 7).unwrap(), routes(2, 7).unwrap(), routes(3, 8).unwrap());
        assert!(Arc::ptr_eq(&one, &two) && !Arc::ptr_eq(&one, &three));
        assert_eq!(built.load(Ordering::Relaxed), 2);
        routes_of.all_changed();
        assert!(!Arc::ptr_eq(&one, &routes(1, 7).unwrap()));
        [one, two, three].into_iter().for_each(drop);
        [1, 2, 3].into_iter().for_each(|session| routes_of.left(SessionId(session)));
        assert!(routes_of.lock().shared.is_empty() && routes_of.is_empty());
    }

    #[test]
    fn a_provider_may_ask_for_the_same_routes_while_its_lists_are_read() {
        let routes_of = PerSessionRoutes::default();
        let empty = || Routes::ask(Arc::from([]), &Claims::default(), None).0;
        let (outer, inner) = (SessionId(1), SessionId(2));
        [outer, inner].into_iter().for_each(|session| routes_of.changed(session));
        let mut first = None;
        let ask = || {
            first = routes_of.routes(inner, || vec![Some(7)], empty);
            empty()
        };
        let routes = routes_of.routes(outer, || vec![Some(7)], ask).unwrap();
        assert!(Arc::ptr_eq(&routes, &first.unwrap()), "both sessions use the routes that were built first");
    }
}
