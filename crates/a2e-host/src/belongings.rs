//! What belongs to sessions, such as processes and episodes: each sees only its own, and none outlives it.
//!
//! A place is taken before something is made, so that limits hold however many are made at once, and so that what is
//! made for a session that ends meanwhile finds no place and goes with it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gladhand_hub::SessionId;

use crate::starting::ending::{AtWork, Roster};

/// The belongings of all sessions.
#[derive(Debug)]
pub(crate) struct Belongings<T> {
    all: Arc<Mutex<All<T>>>,
    roster: Roster,
}

#[derive(Debug)]
struct All<T> {
    sessions: HashMap<SessionId, Few<T>>,
    /// Everything ends: nobody gets a place any more.
    closed: bool,
}

/// The belongings of one session.
#[derive(Debug)]
pub(crate) struct Few<T> {
    /// How many are being made.
    pub(crate) coming: usize,
    /// Those that are there, oldest first.
    pub(crate) here: Vec<Arc<T>>,
}

/// How many are being made or there, in all sessions together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InAll(pub(crate) usize);

impl<T> Default for Belongings<T> {
    fn default() -> Self {
        let all = All { sessions: HashMap::new(), closed: false };
        Self { all: Arc::new(Mutex::new(all)), roster: Roster::default() }
    }
}

impl<T> Belongings<T> {
    /// A place for one more, if `admit` does not mind; it may make room.
    pub(crate) fn place<E>(
        &self,
        session: SessionId,
        is_counted: impl Fn(&T) -> bool,
        admit: impl FnOnce(&mut Few<T>, InAll) -> Result<(), E>,
    ) -> Result<Place<T>, NoPlace<E>> {
        let mut all = lock(&self.all);
        if all.closed {
            return Err(NoPlace::Closed);
        }
        let counted = |few: &Few<T>| few.coming + few.here.iter().filter(|item| is_counted(item)).count();
        let in_all = InAll(all.sessions.values().map(counted).sum());
        let few = all.sessions.entry(session).or_insert_with(|| Few { coming: 0, here: Vec::new() });
        admit(few, in_all).map_err(NoPlace::NotAdmitted)?;
        few.coming += 1;
        Ok(Place { all: Arc::clone(&self.all), session, at_work: Some(self.roster.enter()) })
    }

    /// One of a session's own.
    pub(crate) fn find(&self, session: SessionId, is_it: impl Fn(&T) -> bool) -> Option<Arc<T>> {
        lock(&self.all).sessions.get(&session)?.here.iter().find(|item| is_it(item)).cloned()
    }

    /// All of a session's own, oldest first.
    pub(crate) fn of(&self, session: SessionId) -> Vec<Arc<T>> {
        lock(&self.all).sessions.get(&session).map_or_else(Vec::new, |few| few.here.clone())
    }

    /// Takes one away.
    pub(crate) fn take(&self, session: SessionId, is_it: impl Fn(&T) -> bool) -> Option<Arc<T>> {
        let mut all = lock(&self.all);
        let here = &mut all.sessions.get_mut(&session)?.here;
        let at = here.iter().position(|item| is_it(item))?;
        Some(here.remove(at))
    }

    /// A session has ended: what was its.
    pub(crate) fn left(&self, session: SessionId) -> Vec<Arc<T>> {
        lock(&self.all).sessions.remove(&session).map_or_else(Vec::new, |few| few.here)
    }

    /// Everything ends: what there is.
    pub(crate) fn close(&self) -> Vec<Arc<T>> {
        let mut all = lock(&self.all);
        all.closed = true;
        all.sessions.drain().flat_map(|(_, few)| few.here).collect()
    }

    /// Who is still at work for anything that had a place.
    pub(crate) fn roster(&self) -> &Roster {
        &self.roster
    }
}

/// Why there is no place.
#[derive(Debug)]
pub(crate) enum NoPlace<E> {
    /// Everything ends.
    Closed,
    /// There are enough.
    NotAdmitted(E),
}

/// A place for something that is being made.
#[derive(Debug)]
pub(crate) struct Place<T> {
    all: Arc<Mutex<All<T>>>,
    session: SessionId,
    at_work: Option<AtWork>,
}

impl<T> Place<T> {
    /// Puts it there, unless its session has ended. Whoever works for it holds on to what is returned.
    pub(crate) fn fill(mut self, item: &Arc<T>) -> Option<AtWork> {
        let mut all = lock(&self.all);
        all.sessions.get_mut(&self.session)?.here.push(Arc::clone(item));
        drop(all);
        self.at_work.take()
    }
}

impl<T> Drop for Place<T> {
    fn drop(&mut self) {
        if let Some(few) = lock(&self.all).sessions.get_mut(&self.session) {
            few.coming = few.coming.saturating_sub(1);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
