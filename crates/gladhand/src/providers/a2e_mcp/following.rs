//! Resources of configured servers that agents follow. The hub reports their changes.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use gladhand_core::operations::{CapabilityEvent, Failure, FailureKind, Notice, Update, WatchId, subscription_weight};
use gladhand_core::sync::Unpoisoned as _;
use gladhand_core::wire::json;
use gladhand_hub::{Caller, Hub, SessionId};
use serde_json::json;
use tokio::sync::broadcast::error::RecvError;
use tokio::task::AbortHandle;

use super::Listener;

/// How many resources of configured servers a session may follow; one with a long URI counts as several.
const FOLLOWED: usize = 1000;

/// Who follows what.
#[derive(Debug, Default)]
pub(super) struct Following {
    sessions: Mutex<HashMap<SessionId, Followed>>,
    telling: OnceLock<AbortHandle>,
}

/// The resources that a session follows, by URI.
#[derive(Debug)]
struct Followed {
    agent: Listener,
    uris: BTreeMap<String, Subscription>,
}

#[derive(Debug)]
struct Subscription {
    server: String,
    id: WatchId,
}

impl Following {
    fn sessions(&self) -> MutexGuard<'_, HashMap<SessionId, Followed>> {
        self.sessions.lock().unpoisoned()
    }

    /// A session follows a resource from now on. The hub has agreed to report its changes. False: it did so before.
    pub(super) fn add(
        self: &Arc<Self>,
        caller: &Arc<dyn Caller>,
        server: &str,
        (uri, id): (&str, WatchId),
        hub: &Hub,
    ) -> Result<bool, Failure> {
        self.telling.get_or_init(|| tokio::spawn(tell(Arc::downgrade(self), hub.changes())).abort_handle());
        let mut sessions = self.sessions();
        let agent = || Followed { agent: Arc::downgrade(caller), uris: BTreeMap::new() };
        let followed = sessions.entry(caller.session()).or_insert_with(agent);
        if followed.uris.contains_key(uri) {
            return Ok(false);
        }
        let uris = followed.uris.keys().map(String::as_str).chain([uri]);
        if uris.map(subscription_weight).sum::<usize>() > FOLLOWED {
            let message = format!("at most {FOLLOWED} resources are followed");
            return Err(Failure::new(FailureKind::Busy, message));
        }
        followed.uris.insert(uri.to_owned(), Subscription { server: server.to_owned(), id });
        Ok(true)
    }

    /// A session has ended. Returns what it followed.
    pub(super) fn left(&self, session: SessionId) -> Vec<(String, WatchId)> {
        let followed = self.sessions().remove(&session);
        let followed = followed.into_iter().flat_map(|followed| followed.uris);
        followed.map(|(uri, subscription)| (uri, subscription.id)).collect()
    }

    /// A resource has changed. An agent that does not read hears nothing of it.
    fn changed(&self, update: &Update) {
        let sessions = self.sessions();
        let concerned = sessions.values().filter_map(|one| Some((one.agent.upgrade()?, one.uris.get(&update.uri)?)));
        let permitted = concerned.filter(|(_, subscription)| !update.denied.contains(&subscription.id));
        for (agent, Subscription { server, .. }) in permitted.filter(|(agent, _)| agent.keeping_up().is_none()) {
            let (method, params) = ("notifications/resources/updated", json!({"uri": update.uri}));
            let fields = json::to_raw(&json!({"server_id": server, "method": method, "params": params}));
            agent.push(CapabilityEvent { kind: "mcp/server/push", request: None, fields });
        }
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        if let Some(telling) = self.telling.get() {
            telling.abort();
        }
    }
}

/// Forwards changes until no session follows a resource any more, or the hub is gone.
async fn tell(following: std::sync::Weak<Following>, mut changes: tokio::sync::broadcast::Receiver<Notice>) {
    loop {
        match changes.recv().await {
            Ok(Notice::ResourceUpdated(update)) => match following.upgrade() {
                Some(following) => following.changed(&update),
                None => return,
            },
            Ok(_) | Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return,
        }
    }
}
