//! Everybody who hears what happens.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gladhand_core::operations::AgentEvent;
use gladhand_hub::{Caller, SessionId};

/// Everybody who has asked something of the agent and is still there.
#[derive(Debug, Default)]
pub(super) struct Followers(Mutex<Vec<Follower>>);

#[derive(Debug)]
struct Follower {
    caller: Arc<dyn Caller>,
    /// Whether it can be asked for approval.
    approves: bool,
}

impl Followers {
    /// Whoever asks something follows, once. A call that belongs to no session has nobody behind it who would listen.
    pub(super) fn follow(&self, caller: &Arc<dyn Caller>) {
        let session = caller.session();
        let mut followers = self.lock();
        if session != SessionId::NONE && !followers.iter().any(|follower| follower.caller.session() == session) {
            followers.push(Follower { caller: Arc::clone(caller), approves: false });
        }
    }

    /// From here on it can be asked for approval.
    pub(super) fn approves(&self, caller: &Arc<dyn Caller>) {
        let session = caller.session();
        let mut followers = self.lock();
        followers.iter_mut().filter(|follower| follower.caller.session() == session).for_each(|it| it.approves = true);
    }

    /// It is gone.
    pub(super) fn leaves(&self, session: SessionId) {
        self.lock().retain(|follower| follower.caller.session() != session);
    }

    /// Tells everybody.
    pub(super) fn tell(&self, event: &AgentEvent) {
        self.lock().iter().for_each(|follower| follower.caller.event(event.clone()));
    }

    /// Waits until everybody has caught up.
    pub(super) async fn keeping_up(&self) {
        let behind: Vec<_> = self.lock().iter().filter_map(|follower| follower.caller.keeping_up()).collect();
        for settling in behind {
            settling.await;
        }
    }

    /// Whether anybody can be asked for approval.
    pub(super) fn can_approve(&self) -> bool {
        self.lock().iter().any(|follower| follower.approves)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Follower>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
