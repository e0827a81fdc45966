//! Ways that are used by one call at a time, so that whoever is asked something can only be that call's caller.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gladhand_dialects::Askable;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use super::hosting::CallHost;
use super::way::Way;

/// How many ways there may be at once for callers who can be asked the same things; further calls wait for their turn,
/// and calls whose callers do not answer give way.
const MOST: usize = 16;

/// How many kinds of callers are told apart; of more, the ways of the others are let go first.
const KINDS: usize = 16;

/// The ways for all kinds of callers.
#[derive(Debug, Default)]
pub(super) struct Pools {
    by_kind: HashMap<String, Arc<Pool>>,
}

impl Pools {
    /// The ways for callers of one identity who can be asked these things. What one caller left behind must never reach
    /// another: an upstream may still ask something when its call has long ended.
    pub(super) fn of(&mut self, identity: &str, provides: &Askable) -> (Arc<Pool>, Askable) {
        let kind = provides.iter().map(|(capability, settings)| {
            format!("{}={}\n", capability.0, settings.as_ref().map_or("", |raw| raw.get()))
        });
        let kind: String = std::iter::once(format!("{identity}\n")).chain(kind).collect();
        if self.by_kind.len() >= KINDS && !self.by_kind.contains_key(&kind) {
            self.by_kind.retain(|_, pool| Arc::strong_count(pool) > 1);
        }
        (Arc::clone(self.by_kind.entry(kind).or_default()), provides.clone())
    }

    /// All ways, used or not.
    pub(super) fn ways(&self) -> Vec<Arc<Way>> {
        let idle = |pool: &Arc<Pool>| pool.idle.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let taken = |pool: &Arc<Pool>| pool.taken().iter().map(|taken| Arc::clone(&taken.way)).collect::<Vec<_>>();
        self.by_kind.values().flat_map(|pool| idle(pool).into_iter().chain(taken(pool))).collect()
    }

    /// Takes all ways that nobody uses.
    pub(super) fn drain(&mut self) -> Vec<Arc<Way>> {
        let idle = |pool: &Arc<Pool>| std::mem::take(&mut *pool.idle.lock().unwrap_or_else(PoisonError::into_inner));
        self.by_kind.drain().flat_map(|(_, pool)| idle(&pool)).collect()
    }
}

/// The ways for one kind of callers.
#[derive(Debug)]
pub(super) struct Pool {
    /// Ways that nobody uses, the one used last at the end: it is the one that is used next.
    idle: Mutex<Vec<Arc<Way>>>,
    /// Calls that have a way, the oldest first.
    taken: Mutex<Vec<Arc<Taken>>>,
    turns: Arc<Semaphore>,
}

/// A call that has a way.
#[derive(Debug)]
struct Taken {
    call: Arc<CallHost>,
    way: Arc<Way>,
    wanted: Notify,
}

impl Default for Pool {
    fn default() -> Self {
        Self { idle: Mutex::default(), taken: Mutex::default(), turns: Arc::new(Semaphore::new(MOST)) }
    }
}

impl Pool {
    /// A way that nobody else uses until the turn is dropped.
    ///
    /// A caller without a session may never come back to answer what it was asked, and nobody would notice. So if all
    /// ways are taken, the oldest call that waits for its caller gives way.
    pub(super) async fn turn(self: &Arc<Self>, call: &Arc<CallHost>, another: impl FnOnce() -> Arc<Way>) -> Turn {
        let permit = match Arc::clone(&self.turns).try_acquire_owned() {
            Ok(permit) => Some(permit),
            Err(_) => {
                if let Some(oldest) = self.taken().iter().find(|taken| taken.call.is_waiting()) {
                    oldest.wanted.notify_one();
                }
                Arc::clone(&self.turns).acquire_owned().await.ok()
            }
        };
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let way = idle.unwrap_or_else(another);
        let taken = Arc::new(Taken { call: Arc::clone(call), way, wanted: Notify::new() });
        self.taken().push(Arc::clone(&taken));
        Turn { pool: Arc::clone(self), taken, is_over: false, _permit: permit }
    }

    fn taken(&self) -> MutexGuard<'_, Vec<Arc<Taken>>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A turn on a way.
#[derive(Debug)]
pub(super) struct Turn {
    pool: Arc<Pool>,
    taken: Arc<Taken>,
    /// Whether the call has come to its end, so that nothing of it is left on the way.
    is_over: bool,
    _permit: Option<OwnedSemaphorePermit>,
}

impl Turn {
    pub(super) fn way(&self) -> &Arc<Way> {
        &self.taken.way
    }

    /// The call has come to its end: the way may be used again.
    pub(super) fn end(mut self) {
        self.is_over = true;
    }

    /// Ends when somebody else needs the way more.
    pub(super) async fn wanted(&self) {
        self.taken.wanted.notified().await;
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.pool.taken().retain(|taken| !Arc::ptr_eq(taken, &self.taken));
        if self.is_over {
            self.pool.idle.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&self.taken.way));
        } else if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let way = Arc::clone(&self.taken.way);
            runtime.spawn(async move { way.close().await });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_of_different_identity_share_no_way() {
        let mut pools = Pools::default();
        let mut of = |identity: &str| pools.of(identity, &Vec::new()).0;
        let (alice, bob, again) = (of("alice"), of("bob"), of("alice"));
        assert!(!Arc::ptr_eq(&alice, &bob) && Arc::ptr_eq(&alice, &again));
    }
}
