//! The sessions of a hub as `gladhand ps` shows them: client, age, number of calls, and the calls that run.
//!
//! A call that is answered at once costs one atomic addition here. A call that takes a while is also entered in a list of
//! its session, under a lock that only a status request shares. Arguments are not kept.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use gladhand_core::negotiation::Agreement;
use gladhand_core::operations::Operation;
use gladhand_core::sync::Unpoisoned as _;
use gladhand_redaction::{redact, shorten};

use crate::call_log::without_query;
use crate::call_observers::{kind, name};
use crate::hub::{Hub, Inner};
use crate::provider::SessionId;
use crate::status::{ClientStatus, RunningCall, SessionStatus};

/// Clients that are kept of those that use no session.
const CLIENTS: usize = 16;

/// Running calls that a status shows of one session.
const SHOWN: usize = 64;

/// The maximum length of a text of a client about itself, in characters.
const LONGEST: usize = 128;

/// Sessions, and the requests without one, by their numbers.
#[derive(Debug, Default)]
pub(crate) struct Presences(Mutex<BTreeMap<u64, Arc<Presence>>>);

impl Presences {
    fn all(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Presence>>> {
        self.0.lock().unpoisoned()
    }
}

#[derive(Debug)]
struct Presence {
    session: SessionId,
    /// When it began, in seconds since 1970.
    since: u64,
    clients: Mutex<Vec<ClientStatus>>,
    calls: AtomicU64,
    running: Mutex<Running>,
}

#[derive(Debug, Default)]
struct Running {
    newest: u64,
    /// Number of calls that ended, and how long they took in total.
    ended: u64,
    waited: Duration,
    calls: Vec<(u64, CallName, Instant)>,
}

impl Presence {
    fn running(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unpoisoned()
    }

    fn status(&self) -> SessionStatus {
        let mut clients = self.clients.lock().unpoisoned().clone();
        for ClientStatus { name, version, revision, .. } in &mut clients {
            [name, version, revision].into_iter().for_each(|text| *text = redact(text).into_owned());
        }
        let running = self.running();
        let shown = running.calls.iter().take(SHOWN).map(|(_, call, since)| RunningCall {
            kind: call.kind.to_owned(),
            name: redact(&call.shown()).into_owned(),
            seconds: since.elapsed().as_secs(),
        });
        SessionStatus {
            session: (self.session != SessionId::NONE).then_some(self.session.0),
            clients,
            since: self.since,
            calls: self.calls.load(Ordering::Relaxed),
            under_way: running.calls.len(),
            running: shown.collect(),
            waited_calls: running.ended,
            waited_us: u64::try_from(running.waited.as_micros()).unwrap_or(u64::MAX),
        }
    }
}

impl Hub {
    /// A session with a downstream begins; it ends when this is dropped.
    pub fn visit(&self) -> Visit {
        let number = self.inner.sessions.fetch_add(1, Ordering::Relaxed);
        self.inner.visitors.fetch_add(1, Ordering::Relaxed);
        self.present(number, SessionId(number))
    }

    /// Stands for all downstreams of a transport that use no session.
    pub fn visit_without_session(&self) -> Visit {
        self.present(self.inner.sessions.fetch_add(1, Ordering::Relaxed), SessionId::NONE)
    }

    fn present(&self, number: u64, session: SessionId) -> Visit {
        let presence = Arc::new(Presence {
            session,
            since: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs(),
            clients: Mutex::default(),
            calls: AtomicU64::new(0),
            running: Mutex::default(),
        });
        self.inner.presences.all().insert(number, Arc::clone(&presence));
        Visit { hub: Arc::downgrade(&self.inner), number, presence }
    }

    /// The sessions that are open, the oldest first. Requests without a session are one entry, once there was one.
    pub fn sessions(&self) -> Vec<SessionStatus> {
        let all: Vec<_> = self.inner.presences.all().values().cloned().collect();
        let all = all.iter().map(|presence| presence.status());
        all.filter(|status| status.session.is_some() || !status.clients.is_empty()).collect()
    }
}

/// A session of a downstream, as long as it lasts.
#[derive(Debug)]
pub struct Visit {
    hub: Weak<Inner>,
    number: u64,
    presence: Arc<Presence>,
}

impl Visit {
    /// The session's name.
    pub fn id(&self) -> SessionId {
        self.presence.session
    }

    /// The opening ended in an agreement. `principal`: the client's identity according to the transport.
    pub fn opened(&self, agreement: &Agreement, principal: Option<&str>) {
        let client = ClientStatus {
            name: short(&agreement.client.name),
            version: short(&agreement.client.version),
            principal: principal.or_else(|| agreement.principal()).map(short),
            dialect: agreement.dialect.to_owned(),
            revision: short(&agreement.version),
        };
        let mut clients = self.presence.clients.lock().unpoisoned();
        if self.id() != SessionId::NONE {
            clients.clear();
        }
        clients.retain(|known| *known != client);
        if clients.len() == CLIENTS {
            clients.remove(0);
        }
        clients.push(client);
    }

    /// Counts a call that was delivered, and returns its name for [`Self::busy`].
    pub fn count(&self, operation: &Operation<'_>) -> CallName {
        self.presence.calls.fetch_add(1, Ordering::Relaxed);
        CallName::of(operation)
    }

    /// Shows a call as running until the returned value is dropped.
    pub fn busy(&self, call: CallName) -> Busy {
        let presence = Arc::clone(&self.presence);
        let mut running = presence.running();
        running.newest += 1;
        let number = running.newest;
        running.calls.push((number, call, Instant::now()));
        drop(running);
        Busy { presence, number }
    }

    /// The session ends now, although this may still be held for a while.
    pub fn end(&self) {
        let Some(hub) = self.hub.upgrade() else { return };
        let was_present = hub.presences.all().remove(&self.number).is_some();
        if was_present && self.id() != SessionId::NONE {
            hub.left(self.id());
        }
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.end();
    }
}

/// A running call of a session.
#[derive(Debug)]
pub struct Busy {
    presence: Arc<Presence>,
    number: u64,
}

impl Drop for Busy {
    fn drop(&mut self) {
        let mut running = self.presence.running();
        if let Some(at) = running.calls.iter().position(|(number, ..)| *number == self.number) {
            let (_, _, since) = running.calls.swap_remove(at);
            running.ended += 1;
            running.waited += since.elapsed();
        }
    }
}

/// The name of a call in a fixed buffer, so that it costs no allocation. Longer names are cut off.
#[derive(Clone, Copy)]
pub struct CallName {
    kind: &'static str,
    length: u8,
    is_cut: bool,
    bytes: [u8; Self::LONGEST],
}

impl CallName {
    const LONGEST: usize = 64;

    fn of(operation: &Operation<'_>) -> Self {
        let kind = kind(operation);
        let name = without_query(kind, name(operation));
        let cut = &name.as_bytes()[..name.floor_char_boundary(Self::LONGEST)];
        let mut bytes = [0; Self::LONGEST];
        bytes[..cut.len()].copy_from_slice(cut);
        Self { kind, length: cut.len() as u8, is_cut: cut.len() < name.len(), bytes }
    }

    /// The name, with a mark if it was cut.
    fn shown(&self) -> String {
        let mark = if self.is_cut { "…" } else { "" };
        format!("{}{mark}", self.name())
    }

    fn name(&self) -> &str {
        // It was cut at a character boundary.
        std::str::from_utf8(&self.bytes[..usize::from(self.length)]).unwrap_or_default()
    }
}

impl std::fmt::Debug for CallName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("CallName").field(&self.kind).field(&self.name()).finish()
    }
}

fn short(text: &str) -> String {
    shorten(text, LONGEST).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kit;
    use gladhand_core::negotiation::{Defined, Minimum, Offer, Peer, Rules, VersionRule, agree};
    use gladhand_core::operations::ToolCall;
    use gladhand_core::operations::call::no_arguments;

    fn agreement(client: &str) -> Agreement {
        let rules = Rules {
            dialect: "test",
            versions: VersionRule::Common,
            minimum: Minimum::Nothing,
            defines: |_, _, _| Defined::Yes,
        };
        let offer = Offer::new(Peer::new(client, "1.2"), ["7"]);
        agree(&rules, &offer, &offer).expect("one version on both sides")
    }

    fn calling(name: &str) -> Operation<'_> {
        Operation::CallTool(ToolCall { name: name.into(), arguments: no_arguments() })
    }

    #[test]
    fn a_session_is_shown_with_its_client_and_calls() {
        let hub = Hub::new(vec![Box::new(Kit::new())]).unwrap();
        let visit = hub.visit();
        assert_eq!(hub.sessions()[0].clients, [], "it has not opened yet");
        visit.opened(&agreement("editor"), Some("alice"));
        visit.count(&calling("quick"));
        let long = format!("slow{}", "ü".repeat(64));
        let busy = visit.busy(visit.count(&calling(&long)));
        let [session] = &hub.sessions()[..] else { panic!("one session") };
        assert_eq!((session.session, session.calls, session.under_way), (Some(visit.id().0), 2, 1));
        let client = ClientStatus {
            name: "editor".to_owned(),
            version: "1.2".to_owned(),
            principal: Some("alice".to_owned()),
            dialect: "test".to_owned(),
            revision: "7".to_owned(),
        };
        assert_eq!(session.clients, [client]);
        assert_eq!(session.running[0].name, format!("slow{}…", "ü".repeat(30)), "names are cut between characters");
        drop(busy);
        let [session] = &hub.sessions()[..] else { panic!("one session") };
        assert_eq!((session.under_way, session.waited_calls), (0, 1));
        drop(visit);
        assert_eq!(hub.sessions(), []);
    }

    #[test]
    fn a_secret_that_a_cut_divides_is_not_shown() {
        gladhand_redaction::learn("sesame-in-a-long-name", gladhand_redaction::Life::Process);
        let hub = Hub::new(vec![Box::new(Kit::new())]).unwrap();
        let visit = hub.visit();
        visit.opened(&agreement(&format!("{}sesame-in-a-long-name", "c".repeat(110))), None);
        let _busy = visit.busy(visit.count(&calling(&format!("{}sesame-in-a-long-name", "t".repeat(50)))));
        let [session] = &hub.sessions()[..] else { panic!("one session") };
        assert_eq!(session.clients[0].name, format!("{}***…", "c".repeat(110)));
        assert_eq!(session.running[0].name, format!("{}***…", "t".repeat(50)));
    }

    #[test]
    fn clients_without_a_session_share_an_entry_that_does_not_grow() {
        let hub = Hub::new(vec![Box::new(Kit::new())]).unwrap();
        let visit = hub.visit_without_session();
        assert_eq!((hub.sessions(), hub.status().sessions), (Vec::new(), 0), "there was no request yet");
        for number in 0..100 {
            visit.opened(&agreement(&format!("client {number}")), None);
        }
        visit.opened(&agreement("client 90"), None);
        let [session] = &hub.sessions()[..] else { panic!("one entry") };
        assert_eq!((session.session, session.clients.len()), (None, CLIENTS));
        assert_eq!(session.clients.last().map(|client| client.name.as_str()), Some("client 90"), "the newest is last");
        drop(visit);
        assert_eq!(hub.sessions(), []);
    }
}
