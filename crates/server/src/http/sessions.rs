//! All sessions of one server, found by their ids, and operations on all of them.

use std::collections::HashMap;
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};

use gladhand_core::operations::Notice;
use gladhand_core::sync::Unpoisoned as _;
use gladhand_dialects::shares::giving_way;
use gladhand_dialects::{Party, Stop};
use tokio::sync::broadcast::error::RecvError;

use super::request_origin::RequestOrigin;
use super::session::{Manner, Session};
use super::session_id::SessionId;
use super::shared::Shared;

/// How long a response is kept after its reader disconnected.
const ANSWERS_KEPT: Duration = Duration::from_secs(5 * 60);

/// The longest interval between searches for idle sessions.
const TIDY: Duration = Duration::from_secs(30);

/// How many sessions are notified of a change before other tasks get a turn.
const BREATH: usize = 256;

/// All sessions of one server.
#[derive(Debug)]
pub(super) struct Sessions {
    shared: Arc<Shared>,
    open: RwLock<HashMap<SessionId, Arc<Session>>>,
    /// The shared session of all stateless callers.
    stateless: Arc<Session>,
}

impl Sessions {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let stateless = Session::new(Manner::Stateless, Arc::clone(&shared), RequestOrigin::NOBODY);
        Self { shared, open: RwLock::default(), stateless }
    }

    /// The session that serves requests without a session id.
    pub(super) fn stateless(&self) -> &Session {
        &self.stateless
    }

    /// The session with this id, if this caller opened it.
    pub(super) fn find(&self, id: SessionId, who: &RequestOrigin) -> Option<Arc<Session>> {
        let open = self.open.read().unpoisoned();
        open.get(&id).filter(|session| session.who.principal == who.principal).cloned()
    }

    /// The id of a session in the hub, for the tap.
    pub(super) fn in_hub(&self, id: SessionId) -> Option<gladhand_hub::SessionId> {
        Some(self.open.read().unpoisoned().get(&id)?.in_hub())
    }

    /// A session that is not open yet. Returns `None` if there are too many and no other session gives way.
    pub(super) fn prepare(&self, manner: Manner, who: RequestOrigin) -> Option<Arc<Session>> {
        let count = self.open.read().unpoisoned().len();
        let has_room = count < self.shared.options.sessions || self.make_room(who.party);
        has_room.then(|| Session::new(manner, Arc::clone(&self.shared), who))
    }

    /// Ends sessions that give way to a new one. Returns whether there were any. Their clients notice with their next
    /// request, and open new sessions.
    fn make_room(&self, newcomer: Party) -> bool {
        let open = self.open.read().unpoisoned();
        let holders: Vec<_> = open.iter().map(|(id, session)| session.holder(*id)).collect();
        drop(open);
        let leaving = giving_way(self.shared.options.sessions, &holders, newcomer);
        tracing::debug!(ended = leaving.len(), "too many sessions");
        leaving.iter().for_each(|id| self.end(*id));
        !leaving.is_empty()
    }

    /// Opens a session under a new id.
    pub(super) fn open(&self, session: Arc<Session>) -> SessionId {
        let id = SessionId::draw();
        let who = session.who.clone();
        self.open.write().unpoisoned().insert(id, session);
        if self.shared.has_withdrawn(&who) {
            // The search for withdrawn sessions may have run before this session was registered.
            self.end(id);
        }
        id
    }

    /// Ends a session.
    pub(super) fn end(&self, id: SessionId) {
        let session = self.open.write().unpoisoned().remove(&id);
        if let Some(session) = session {
            session.end(Stop::InputClosed);
        }
    }

    /// Ends the sessions and exchanges of callers that lost access: calls in flight fail, and streams end.
    pub(super) fn end_withdrawn(&self) {
        let open = self.open.read().unpoisoned();
        let is_over = |session: &Session| self.shared.has_withdrawn(&session.who);
        let over: Vec<_> = open.iter().filter(|(_, session)| is_over(session)).map(|(id, _)| *id).collect();
        drop(open);
        if !over.is_empty() {
            tracing::info!(sessions = over.len(), "ending sessions of those who have lost access");
        }
        over.into_iter().for_each(|id| self.end(id));
        self.stateless.end_exchanges(|who| self.shared.has_withdrawn(who));
    }

    /// Notifies all sessions of changes while the hub reports any.
    pub(super) async fn pass_on_changes(&self) {
        let mut changes = self.shared.hub().changes();
        loop {
            let notices = match changes.recv().await {
                Ok(notice) => vec![notice],
                // Notices were lost, so every list may have changed.
                Err(RecvError::Lagged(_)) => {
                    vec![Notice::ToolsChanged, Notice::ResourcesChanged, Notice::PromptsChanged]
                }
                Err(RecvError::Closed) => return,
            };
            let is_list = |notice: &Notice| {
                matches!(notice, Notice::ToolsChanged | Notice::ResourcesChanged | Notice::PromptsChanged)
            };
            let offers_differ = notices.iter().any(is_list);
            for sessions in self.all().chunks(BREATH) {
                for session in sessions {
                    if offers_differ {
                        session.offer_anew();
                    }
                    notices.iter().for_each(|notice| session.notify(notice.clone()));
                }
                tokio::task::yield_now().await;
            }
        }
    }

    /// Repeatedly ends idle sessions.
    pub(super) async fn end_idle(&self) {
        let idle = self.shared.options.idle;
        loop {
            tokio::time::sleep(TIDY.min(idle / 4)).await;
            let now = Instant::now();
            let earlier = |by| now.checked_sub(by).unwrap_or(now);
            let (since, answers) = (earlier(idle), earlier(ANSWERS_KEPT));
            self.stateless.is_idle(since, answers);
            let open = self.open.read().unpoisoned();
            let idle: Vec<_> =
                open.iter().filter(|(_, session)| session.is_idle(since, answers)).map(|(id, _)| *id).collect();
            drop(open);
            if !idle.is_empty() {
                tracing::debug!(sessions = idle.len(), "ending idle sessions");
            }
            idle.into_iter().for_each(|id| self.end(id));
        }
    }

    /// All sessions refuse new messages from now on.
    pub(super) fn stop(&self, stop: Stop) {
        self.all().iter().for_each(|session| session.stop(stop));
    }

    /// Ends all sessions: calls in flight fail.
    pub(super) fn end_all(&self, stop: Stop) {
        self.all().iter().for_each(|session| session.end(stop));
        self.open.write().unpoisoned().clear();
    }

    fn all(&self) -> Vec<Arc<Session>> {
        let open = self.open.read().unpoisoned();
        open.values().chain([&self.stateless]).cloned().collect()
    }
}

/// Ends a session when it is dropped.
#[derive(Debug)]
pub(super) struct Farewell {
    sessions: Arc<Sessions>,
    id: SessionId,
}

impl Farewell {
    pub(super) fn new(sessions: Arc<Sessions>, id: SessionId) -> Self {
        Self { sessions, id }
    }
}

impl Drop for Farewell {
    fn drop(&mut self) {
        self.sessions.end(self.id);
    }
}
