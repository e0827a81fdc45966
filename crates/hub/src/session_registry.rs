//! The sessions that are open, for providers that come later.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use gladhand_core::negotiation::Offer;
use gladhand_core::sync::Unpoisoned as _;

use crate::provider::{Caller, Provider, SessionId};
use crate::provider_features::Opening;

/// The sessions that are open.
#[derive(Default)]
pub(crate) struct SessionRegistry {
    /// The offer of the client, if there will be exactly one session.
    expected: Mutex<Option<Offer>>,
    open: Mutex<HashMap<SessionId, Weak<dyn Caller>>>,
}

impl SessionRegistry {
    /// There will be one session and no other.
    pub(crate) fn expect(&self, client: &Offer) {
        *self.expected.lock().unpoisoned() = Some(client.clone());
    }

    /// Whether there will be one session and no other.
    pub(crate) fn expects_one(&self) -> bool {
        self.expected.lock().unpoisoned().is_some()
    }

    /// Registers an open session. Call this before the providers are notified, so that a provider that is added meanwhile
    /// does not miss it.
    pub(crate) fn join(&self, caller: &Arc<dyn Caller>) {
        if caller.session() != SessionId::NONE {
            self.open().insert(caller.session(), Arc::downgrade(caller));
        }
    }

    /// A session has ended.
    pub(crate) fn leave(&self, session: SessionId) {
        self.open().remove(&session);
    }

    /// Notifies a provider of the sessions to expect.
    pub(crate) fn announce_opening(&self, provider: &dyn Provider) {
        let expected = self.expected.lock().unpoisoned().clone();
        if let Some(client) = &expected {
            provider.opening(Opening::Offer(client));
        }
    }

    /// Notifies a provider of the open sessions.
    pub(crate) fn announce_sessions(&self, provider: &dyn Provider) {
        let here: Vec<_> = self.open().values().filter_map(Weak::upgrade).collect();
        here.iter().for_each(|caller| provider.joined(caller));
    }

    fn open(&self) -> MutexGuard<'_, HashMap<SessionId, Weak<dyn Caller>>> {
        self.open.lock().unpoisoned()
    }
}

impl fmt::Debug for SessionRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionRegistry").field("open", &self.open().len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Asking, Hub, Kit, Mount, SessionObserver};
    use gladhand_core::negotiation::Capability;
    use gladhand_core::operations::{CallId, Notice, Tool, ToolCall};

    /// Records its notifications.
    #[derive(Debug, Default)]
    struct Listener(Mutex<Vec<String>>);

    impl Listener {
        fn heard(&self) -> Vec<String> {
            std::mem::take(&mut self.0.lock().unwrap())
        }
    }

    impl Provider for Listener {
        fn tools(&self) -> Vec<Tool> {
            Vec::new()
        }

        fn call(&self, _: ToolCall<'_>, _: &crate::Context<'_>) -> crate::Answer {
            unreachable!("it has no tools")
        }

        fn as_session_observer(&self) -> Option<&dyn SessionObserver> {
            Some(self)
        }
    }

    impl SessionObserver for Listener {
        fn opening(&self, fact: Opening<'_>) {
            let Opening::Offer(client) = fact else { return };
            self.0.lock().unwrap().push(format!("expects {}", client.provides.len()));
        }

        fn joined(&self, caller: &Arc<dyn Caller>) {
            self.0.lock().unwrap().push(format!("joined {}", caller.session().0));
        }

        fn left(&self, session: SessionId) {
            self.0.lock().unwrap().push(format!("left {}", session.0));
        }
    }

    #[derive(Debug)]
    struct Client(SessionId);

    impl Caller for Client {
        fn tell(&self, _: Notice) {}
        fn ask(&self, _: Option<CallId>, _: Vec<Asking>) {}
        fn session(&self) -> SessionId {
            self.0
        }
    }

    #[test]
    fn a_provider_that_is_mounted_later_learns_of_the_open_sessions() {
        let hub = Hub::of(vec![Mount::plain(Arc::new(Kit::new()))]);
        hub.expects(&Offer::default().providing(Capability::from_wire("elicitation")));
        let (first, second) = (hub.visit(), hub.visit());
        let clients: Vec<Arc<dyn Caller>> =
            [&first, &second].into_iter().map(|visit| Arc::new(Client(visit.id())) as _).collect();
        clients.iter().for_each(|client| hub.joined(client));
        hub.joined(&(Arc::new(Client(SessionId::NONE)) as _));
        drop(first);
        let listener = Arc::new(Listener::default());
        let mount = Mount::plain(Arc::clone(&listener) as _);
        hub.remount(vec![mount.clone()]);
        assert_eq!(listener.heard(), ["expects 1".to_owned(), format!("joined {}", second.id().0)]);
        hub.remount(vec![mount.clone(), mount]);
        assert!(listener.heard().is_empty(), "it knows already");
    }
}
