//! All agents of one server, found by the ids of their sessions, and what is done to all of them.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock, Weak};
use std::time::{Duration, Instant};

use gladhand_dialects::shares::giving_way;
use gladhand_dialects::{Door, Party, Pass, Stop, a2e};

use super::super::session_id::SessionId;
use super::super::shared::Shared;
use super::super::who::Who;
use super::AgentLimits;
use super::session::AgentSession;
use crate::Service;
use crate::edges::clock::Clock;

/// The shortest and the longest pause between two looks for sessions whose time is over.
const TIDY: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(30));

/// Withheld capabilities that the operator has configured on purpose. The others are there by default.
const CONFIGURED: [&str; 3] = ["proc", "skill", "env"];

/// Whether agents must show who they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::edges::http) enum Trust {
    /// They must: with a token in their handshake, or in every request.
    Tokens,
    /// Anybody may come in.
    Anybody,
}

impl Trust {
    /// How agents of a service are let in that asks for authorization of its own, or does not.
    pub(in crate::edges::http) fn of(service: &Service, is_authorized: bool) -> Self {
        if is_authorized || service.access().asks_for_passes() { Self::Tokens } else { Self::Anybody }
    }

    /// Says at the start what is not offered, and what would change that.
    pub(in crate::edges::http) fn announce(self, service: &Service) {
        if self == Self::Tokens {
            return;
        }
        let open = service.hub().open_capabilities();
        let mut withheld = service.hub().capabilities();
        withheld.retain(|name| !open.contains(name));
        if withheld.is_empty() {
            return tracing::info!("no token is configured: A2E agents are let in with any");
        }
        let message = format!(
            "no token is configured, so agents do not get {} over HTTP (set `a2e.tokens` in the configuration, or {})",
            withheld.join(", "),
            crate::config::env::A2E_TOKEN
        );
        match withheld.iter().any(|name| CONFIGURED.contains(name)) {
            true => tracing::warn!("{message}"),
            false => tracing::info!("{message}"),
        }
    }
}

/// All agents of one server.
#[derive(Debug)]
pub(in crate::edges::http) struct Agents {
    shared: Arc<Shared>,
    limits: AgentLimits,
    open: RwLock<HashMap<SessionId, Arc<AgentSession>>>,
}

impl Agents {
    pub(in crate::edges::http) fn new(shared: Arc<Shared>, limits: AgentLimits) -> Self {
        Self { shared, limits, open: RwLock::default() }
    }

    /// Opens a session; none if there are too many and no other gives way to it.
    pub(super) fn open(self: &Arc<Self>, who: Who) -> Option<SessionId> {
        // Looked at before anything is made, because there may be many who try.
        let count = self.open.read().unwrap_or_else(PoisonError::into_inner).len();
        if count >= self.limits.sessions && !self.make_room(who.party) {
            return None;
        }
        let id = SessionId::draw();
        let clock = Clock::start();
        let leaving = Leaving { agents: Arc::downgrade(self), id };
        let epoch = self.shared.service.access().epoch();
        let session = AgentSession::new(Arc::clone(&self.shared), who, self.door(&clock), clock, leaving);
        self.open.write().unwrap_or_else(PoisonError::into_inner).insert(id, Arc::clone(&session));
        if self.shared.service.access().epoch() != epoch {
            // Those who hold sessions to the passes of now may have looked before this was there.
            self.hold_to(&session, &self.shared.service.access().passes());
        }
        Some(id)
    }

    /// The session of an id, for the one who opened it.
    pub(super) fn find(&self, id: &str, who: &Who) -> Option<Arc<AgentSession>> {
        let id = SessionId::read(id)?;
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        open.get(&id).filter(|session| session.who.principal == who.principal).cloned()
    }

    /// Ends sessions that give way to a newcomer, as those of MCP do; says whether there are any.
    fn make_room(&self, newcomer: Party) -> bool {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        let holders: Vec<_> = open.iter().map(|(id, session)| session.holder(*id)).collect();
        let leaving = giving_way(self.limits.sessions, &holders, newcomer);
        let leaving: Vec<_> = leaving.iter().filter_map(|id| open.get(id).cloned()).collect();
        drop(open);
        tracing::info!(ended = leaving.len(), "too many sessions of agents");
        leaving.iter().for_each(|session| session.end());
        !leaving.is_empty()
    }

    /// Ends sessions whose time is over, again and again.
    pub(in crate::edges::http) async fn end_overdue(&self) {
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
    pub(in crate::edges::http) fn follow_access(&self) {
        let passes = self.shared.service.access().passes();
        self.all().iter().for_each(|session| self.hold_to(session, &passes));
    }

    fn hold_to(&self, session: &AgentSession, passes: &[Pass]) {
        match self.shared.has_withdrawn(&session.who) {
            true => session.end(),
            false => session.readmit(passes),
        }
    }

    /// Everybody takes nothing new from now on.
    pub(in crate::edges::http) fn stop(&self, stop: Stop) {
        self.all().iter().for_each(|session| session.stop(stop));
    }

    /// Everybody is done: what is still in flight fails.
    pub(in crate::edges::http) fn end_all(&self) {
        self.all().iter().for_each(|session| session.end());
    }

    fn all(&self) -> Vec<Arc<AgentSession>> {
        self.open.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Our side towards a new agent.
    fn door(&self, clock: &Clock) -> Door {
        let mut setup = self.shared.service.setup(clock);
        if Trust::of(&self.shared.service, self.shared.authorize().is_some()) == Trust::Anybody {
            setup.menu.capabilities = self.shared.hub().open_capabilities();
        }
        Door::pinned(&a2e::DIALECT, setup)
    }
}

/// Where a session is written down, so that it can strike itself off.
#[derive(Debug)]
pub(super) struct Leaving {
    agents: Weak<Agents>,
    id: SessionId,
}

impl Leaving {
    /// The session is over: nobody finds it any more.
    pub(super) fn leave(&self) {
        if let Some(agents) = self.agents.upgrade() {
            agents.open.write().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
        }
    }
}
