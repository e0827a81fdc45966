//! Sessions that see lists of their own, because a provider has something for them that others have not.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::provider::SessionId;
use crate::routes::Routes;

/// What such sessions see.
#[derive(Debug, Default)]
pub(crate) struct Apart {
    /// How many there are; where there is nobody, nobody has to look.
    count: AtomicUsize,
    /// `None`: to be asked for when it is needed.
    routes: Mutex<HashMap<SessionId, Option<Arc<Routes>>>>,
}

impl Apart {
    /// A session sees lists of its own from now on, or others than it did.
    pub(crate) fn changed(&self, session: SessionId) {
        self.update(|routes| drop(routes.insert(session, None)));
    }

    /// A session has ended.
    pub(crate) fn left(&self, session: SessionId) {
        if self.count.load(Ordering::Relaxed) > 0 {
            self.update(|routes| drop(routes.remove(&session)));
        }
    }

    /// What others see has changed, which may be a part of what each of these sees.
    pub(crate) fn all_changed(&self) {
        self.update(|routes| routes.values_mut().for_each(|routes| *routes = None));
    }

    /// What a session sees, if that is its own; asked for if need be.
    pub(crate) fn routes(&self, session: SessionId, ask: impl FnOnce() -> Routes) -> Option<Arc<Routes>> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        self.lock().get_mut(&session).map(|routes| Arc::clone(routes.get_or_insert_with(|| Arc::new(ask()))))
    }

    fn update(&self, update: impl FnOnce(&mut HashMap<SessionId, Option<Arc<Routes>>>)) {
        let mut routes = self.lock();
        update(&mut routes);
        self.count.store(routes.len(), Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Option<Arc<Routes>>>> {
        self.routes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
