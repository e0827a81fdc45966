//! All agents of one server, found by the ids of their sessions, and what is done to all of them.

use std::collections::HashMap;
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak};
use std::time::{Duration, Instant};

use gladhand_core::sync::Unpoisoned as _;
use gladhand_dialects::a2e::Host;
use gladhand_dialects::shares::giving_way;
use gladhand_dialects::{Party, Pass, Stop};

use super::super::request_origin::RequestOrigin;
use super::super::session_id::SessionId;
use super::super::shared::Shared;
use super::AgentLimits;
use super::session::AgentSession;
use crate::Service;
use gladhand_session::clock::Clock;

/// The shortest and the longest pause between two looks for sessions whose time is over.
const TIDY: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(30));

/// Withheld capabilities that the operator has configured on purpose. The others are there by default.
const CONFIGURED: [&str; 3] = ["proc", "skill", "env"];

/// Whether agents must show who they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::http) enum Trust {
    /// They must: with a token in their handshake, or in every request.
    Tokens,
    /// Every agent is accepted.
    Anybody,
}

impl Trust {
    /// How agents of a service are let in that asks for authorization of its own, or does not.
    pub(in crate::http) fn of(service: &Service, is_authorized: bool) -> Self {
        if is_authorized || service.access().asks_for_passes() { Self::Tokens } else { Self::Anybody }
    }

    /// Logs at startup which capabilities are withheld, and how to enable them.
    pub(in crate::http) fn announce(self, service: &Service) {
        if self == Self::Tokens {
            return;
        }
        let open = service.hub().open_capabilities();
        let mut withheld = service.hub().capabilities();
        withheld.retain(|name| !open.contains(name));
        if withheld.is_empty() {
            return tracing::info!("no token is configured: A2E agents are let in with any");
        }
        let names = withheld.join(", ");
        let message = service.advised(&format!("no token is configured, so agents do not get {names} over HTTP"));
        match withheld.iter().any(|name| CONFIGURED.contains(name)) {
            true => tracing::warn!("{message}"),
            false => tracing::info!("{message}"),
        }
    }
}

/// All agents of one server.
///
/// Sessions before and after their handshake have a bound each. Every client can open a session, so one without a handshake never
/// takes the place of one that has it. Both bounds are shared by [`giving_way`].
#[derive(Debug)]
pub(in crate::http) struct Agents {
    shared: Arc<Shared>,
    limits: AgentLimits,
    sessions: RwLock<Sessions>,
}

type ById = HashMap<SessionId, Arc<AgentSession>>;

#[derive(Debug, Default)]
struct Sessions {
    /// Those whose handshake has not come.
    waiting: ById,
    /// Those with a handshake.
    open: ById,
}

impl Agents {
    pub(in crate::http) fn new(shared: Arc<Shared>, limits: AgentLimits) -> Self {
        Self { shared, limits, sessions: RwLock::default() }
    }

    /// Begins a session that waits for its handshake; none if it would find no place after it.
    pub(super) fn begin(self: &Arc<Self>, who: RequestOrigin) -> Option<SessionId> {
        // Looked at before anything is made, because there may be many who try.
        if !self.has_room_for(who.party) || !self.make_room(|sessions| &sessions.waiting, who.party) {
            return None;
        }
        let id = SessionId::draw();
        let clock = Clock::start();
        let leaving = Leaving { agents: Arc::downgrade(self), id };
        let epoch = self.shared.service.access().epoch();
        let session = AgentSession::new(Arc::clone(&self.shared), who, self.host(&clock), clock, leaving);
        self.write().waiting.insert(id, Arc::clone(&session));
        if self.shared.service.access().epoch() != epoch {
            // Those who hold sessions to the passes of now may have looked before this was there.
            self.hold_to(&session, &self.shared.service.access().passes());
        }
        Some(id)
    }

    /// The handshake of a session has come. Sessions of others may give way to it; if none does, it ends itself.
    pub(super) fn opened(&self, session: &AgentSession) {
        let id = session.leaving.id;
        if !self.make_room(|sessions| &sessions.open, session.who.party) {
            return session.end();
        }
        let mut sessions = self.write();
        // It may have ended meanwhile.
        if let Some(session) = sessions.waiting.remove(&id) {
            sessions.open.insert(id, session);
        }
    }

    /// Whether a party gets one more session with a handshake, be it in the place of another.
    pub(super) fn has_room_for(&self, party: Party) -> bool {
        let sessions = self.read();
        sessions.open.len() < self.limits.sessions || !self.giving_way(&sessions.open, party).is_empty()
    }

    /// The session of an id, for the one who opened it.
    pub(super) fn find(&self, id: &str, who: &RequestOrigin) -> Option<Arc<AgentSession>> {
        let id = SessionId::read(id)?;
        let sessions = self.read();
        let session = sessions.open.get(&id).or_else(|| sessions.waiting.get(&id));
        session.filter(|session| session.who.principal == who.principal).cloned()
    }

    /// The id of a session in the hub, for the tap.
    pub(in crate::http) fn in_hub(&self, id: SessionId) -> Option<gladhand_hub::SessionId> {
        let sessions = self.read();
        let session = sessions.open.get(&id).or_else(|| sessions.waiting.get(&id))?;
        Some(session.in_hub())
    }

    /// Makes room for one more among some sessions. The rule is that of sessions of MCP.
    fn make_room(&self, among: impl Fn(&Sessions) -> &ById, newcomer: Party) -> bool {
        let sessions = self.read();
        let among = among(&sessions);
        if among.len() < self.limits.sessions {
            return true;
        }
        let leaving = self.giving_way(among, newcomer);
        drop(sessions);
        tracing::debug!(ended = leaving.len(), "too many sessions of agents");
        leaving.iter().for_each(|session| session.end());
        !leaving.is_empty()
    }

    /// The sessions that give way to a newcomer when there is no place left.
    fn giving_way(&self, among: &ById, newcomer: Party) -> Vec<Arc<AgentSession>> {
        let holders: Vec<_> = among.iter().map(|(id, session)| session.holder(*id)).collect();
        let leaving = giving_way(self.limits.sessions, &holders, newcomer);
        leaving.iter().filter_map(|id| among.get(id).cloned()).collect()
    }

    /// Ends sessions whose time is over, again and again.
    pub(in crate::http) async fn end_overdue(&self) {
        let AgentLimits { idle, handshake, .. } = self.limits;
        let pause = (idle / 4).min(handshake / 4).clamp(TIDY.0, TIDY.1);
        loop {
            tokio::time::sleep(pause).await;
            let now = Instant::now();
            let mut overdue = self.all();
            overdue.retain(|session| session.is_overdue(now, handshake, idle));
            if !overdue.is_empty() {
                tracing::debug!(sessions = overdue.len(), "ending sessions whose time is over");
            }
            overdue.iter().for_each(|session| session.end());
        }
    }

    /// Ends the sessions of those who have lost access, and holds all others to the passes of now.
    pub(in crate::http) fn follow_access(&self) {
        let passes = self.shared.service.access().passes();
        self.all().iter().for_each(|session| self.hold_to(session, &passes));
    }

    fn hold_to(&self, session: &AgentSession, passes: &[Pass]) {
        match self.shared.has_withdrawn(&session.who) {
            true => session.end(),
            false => session.set_passes(passes),
        }
    }

    /// Every session stops accepting new requests.
    pub(in crate::http) fn stop(&self, stop: Stop) {
        self.all().iter().for_each(|session| session.stop(stop));
    }

    /// Every session ends: calls in flight fail.
    pub(in crate::http) fn end_all(&self) {
        self.all().iter().for_each(|session| session.end());
    }

    fn all(&self) -> Vec<Arc<AgentSession>> {
        let sessions = self.read();
        sessions.waiting.values().chain(sessions.open.values()).cloned().collect()
    }

    fn read(&self) -> RwLockReadGuard<'_, Sessions> {
        self.sessions.read().unpoisoned()
    }

    fn write(&self) -> RwLockWriteGuard<'_, Sessions> {
        self.sessions.write().unpoisoned()
    }

    /// Our side towards a new agent.
    fn host(&self, clock: &Clock) -> Host {
        let mut setup = self.shared.service.setup(clock);
        if Trust::of(&self.shared.service, self.shared.authorize().is_some()) == Trust::Anybody {
            setup.menu.capabilities = self.shared.hub().open_capabilities();
        }
        Host::new(setup)
    }
}

/// Where a session is written down, so that it can strike itself off.
#[derive(Debug)]
pub(super) struct Leaving {
    agents: Weak<Agents>,
    id: SessionId,
}

impl Leaving {
    /// The session is over and can no longer be found.
    pub(super) fn leave(&self) {
        if let Some(agents) = self.agents.upgrade() {
            let mut sessions = agents.write();
            let _ = sessions.waiting.remove(&self.id).or_else(|| sessions.open.remove(&self.id));
        }
    }
}
