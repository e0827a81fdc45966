//! Ways that are used by one call at a time, so that whoever is asked something can only be that call's caller.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use gladhand_dialects::Askable;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::way::Way;

/// How many ways there may be at once for callers who can be asked the same things; further calls wait for their turn.
const MOST: usize = 8;

/// How many kinds of callers are told apart; of more, the ways of the others are let go first.
const KINDS: usize = 16;

/// The ways for all kinds of callers.
#[derive(Debug, Default)]
pub(super) struct Pools {
    by_kind: HashMap<String, Arc<Pool>>,
}

impl Pools {
    /// The ways for callers who can be asked these things.
    pub(super) fn of(&mut self, provides: &Askable) -> (Arc<Pool>, Askable) {
        let kind = provides.iter().map(|(capability, settings)| {
            format!("{}={}\n", capability.0, settings.as_ref().map_or("", |raw| raw.get()))
        });
        let kind: String = kind.collect();
        if self.by_kind.len() >= KINDS && !self.by_kind.contains_key(&kind) {
            self.by_kind.retain(|_, pool| Arc::strong_count(pool) > 1);
        }
        (Arc::clone(self.by_kind.entry(kind).or_default()), provides.clone())
    }

    /// All ways that nobody uses.
    pub(super) fn idle(&self) -> Vec<Arc<Way>> {
        let idle = |pool: &Arc<Pool>| pool.idle.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.by_kind.values().flat_map(idle).collect()
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
    turns: Arc<Semaphore>,
}

impl Default for Pool {
    fn default() -> Self {
        Self { idle: Mutex::default(), turns: Arc::new(Semaphore::new(MOST)) }
    }
}

impl Pool {
    /// A way that nobody else uses until the turn is dropped.
    pub(super) async fn turn(self: &Arc<Self>, another: impl FnOnce() -> Arc<Way>) -> Turn {
        let permit = Arc::clone(&self.turns).acquire_owned().await.ok();
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        Turn { pool: Arc::clone(self), way: idle.unwrap_or_else(another), _permit: permit }
    }
}

/// A turn on a way.
#[derive(Debug)]
pub(super) struct Turn {
    pool: Arc<Pool>,
    way: Arc<Way>,
    _permit: Option<OwnedSemaphorePermit>,
}

impl Turn {
    pub(super) fn way(&self) -> &Arc<Way> {
        &self.way
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.pool.idle.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&self.way));
    }
}
