//! The clients that receive events.

use std::sync::{Arc, Mutex, MutexGuard};

use gladhand_core::operations::AgentEvent;
use gladhand_core::sync::Unpoisoned as _;
use gladhand_hub::{Caller, SessionId};

/// All connected clients that have called the agent.
#[derive(Debug, Default)]
pub(super) struct Followers(Mutex<Vec<Follower>>);

#[derive(Debug)]
struct Follower {
    caller: Arc<dyn Caller>,
    /// Whether the client can approve calls.
    approves: bool,
}

impl Followers {
    /// Adds the caller, once. A call without a session has no client that could receive events.
    pub(super) fn follow(&self, caller: &Arc<dyn Caller>) {
        let session = caller.session();
        let mut followers = self.lock();
        if session != SessionId::NONE && !followers.iter().any(|follower| follower.caller.session() == session) {
            followers.push(Follower { caller: Arc::clone(caller), approves: false });
        }
    }

    /// Marks a client as able to approve calls.
    pub(super) fn approves(&self, caller: &Arc<dyn Caller>) {
        let session = caller.session();
        let mut followers = self.lock();
        followers.iter_mut().filter(|follower| follower.caller.session() == session).for_each(|it| it.approves = true);
    }

    /// Removes a client that has disconnected.
    pub(super) fn remove(&self, session: SessionId) {
        self.lock().retain(|follower| follower.caller.session() != session);
    }

    /// Sends an event to all clients.
    pub(super) fn emit(&self, event: &AgentEvent) {
        self.lock().iter().for_each(|follower| follower.caller.event(event.clone()));
    }

    /// Waits until all clients have caught up (backpressure).
    pub(super) async fn keeping_up(&self) {
        let behind: Vec<_> = self.lock().iter().filter_map(|follower| follower.caller.keeping_up()).collect();
        for settling in behind {
            settling.await;
        }
    }

    /// Whether any client can approve calls.
    pub(super) fn can_approve(&self) -> bool {
        self.lock().iter().any(|follower| follower.approves)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Follower>> {
        self.0.lock().unpoisoned()
    }
}
