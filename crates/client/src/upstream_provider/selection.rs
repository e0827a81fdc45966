//! Selects the connection for a caller: the shared main connection, a connection of the caller's session, or a turn on a
//! pooled one.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use gladhand_core::operations::{Failure, FailureKind, Operation, Party};
use gladhand_dialects::mcp::revision::Revision;
use gladhand_hub::SessionId;
use tokio::sync::watch;

use super::client_roots::Allowed;
use super::connection_budget::Permit;
use super::events::{ConnectionEvents, Session};
use super::forwarding::ForwardedCall;
use super::upstream_connection::{ClientProfile, UpstreamConnection};
use super::{Inner, pool};
use crate::upstream::{Speak, Target};

impl Inner {
    /// The main connection, if this caller may share it.
    pub(super) fn shared_connection(&self, forwarded: &ForwardedCall) -> Option<Arc<UpstreamConnection>> {
        let (main, is_alone) = self.main();
        let needs_none = || !forwarded.needs_own_connection() && !self.is_isolated(forwarded);
        (is_alone || needs_none()).then_some(main)
    }

    /// Whether the state behind the connection must not be shared with another caller.
    pub(super) fn is_isolated(&self, forwarded: &ForwardedCall) -> bool {
        self.spec.isolated || matches!(forwarded.operation, Operation::Capability(_))
    }

    /// The connection for a caller that can answer requests or must be isolated, with a turn on it if turns apply.
    pub(super) async fn connection_for(
        self: &Arc<Self>,
        forwarded: &ForwardedCall,
    ) -> Result<(Arc<UpstreamConnection>, Option<pool::Turn>), Failure> {
        let client = ClientProfile::of_agreement(&forwarded.agreement);
        let may_share = !self.is_isolated(forwarded) && self.open_main().await?.agreement().per_request;
        if may_share && !self.may_shake_hands(&client) {
            return Ok((self.main().0, None));
        }
        let caller = &forwarded.events.caller;
        if caller.session() == SessionId::NONE {
            return self.turn(forwarded, client).await;
        }
        let existing = self.connections().own.get(&caller.session()).cloned();
        let own = match existing {
            Some(own) => own,
            None => match self.add_own(forwarded, client) {
                Some(own) => own,
                None if !forwarded.can_be_asked() && !self.is_isolated(forwarded) => return Ok((self.main().0, None)),
                None => {
                    let why = "there is no room for another server of its own, which this session needs";
                    return Err(Failure::new(FailureKind::Busy, why));
                }
            },
        };
        if may_share && !self.is_in_era_of_client(&own).await {
            self.drop_own(caller.session(), &own);
            return Ok((self.main().0, None));
        }
        Ok((own, None))
    }

    /// A connection for listing what the upstream offers this caller.
    pub(super) async fn listing_connection(
        self: &Arc<Self>,
        forwarded: &ForwardedCall,
    ) -> Result<(Arc<UpstreamConnection>, Option<pool::Turn>), Failure> {
        let client = ClientProfile::of_agreement(&forwarded.agreement);
        let is_shared = self.open_main().await?.agreement().per_request && !self.may_shake_hands(&client);
        if is_shared { Ok((self.main().0, None)) } else { self.turn(forwarded, client).await }
    }

    /// A turn on a connection that no other call uses at the same time.
    pub(super) async fn turn(
        &self,
        forwarded: &ForwardedCall,
        client: ClientProfile,
    ) -> Result<(Arc<UpstreamConnection>, Option<pool::Turn>), Failure> {
        let party = forwarded.terms.party;
        let pool = self.connections().pools.of(&identity(forwarded), &client.declares);
        let kind = forwarded.kind();
        let another = || {
            let place = self.place(party)?;
            Some(UpstreamConnection::pooled(Arc::clone(&self.spec), client, self.connection_events(None), place, kind))
        };
        let turn = pool.turn(&forwarded.events, party, another).await?;
        Ok((Arc::clone(turn.connection()), Some(turn)))
    }

    /// Whether the upstream agreed to a handshake on a connection that was opened to try one.
    pub(super) async fn is_in_era_of_client(self: &Arc<Self>, own: &Arc<UpstreamConnection>) -> bool {
        let session = match own.session() {
            Some(session) => Ok(session),
            None => self.open_other(own, true).await,
        };
        let is_stateless = session.as_ref().is_ok_and(|session| session.agreement().per_request);
        if is_stateless {
            // The opening cache is keyed by the state of the command's files, which the server may change. Remember it
            // here too.
            self.is_stateless_only.store(true, Ordering::Relaxed);
        }
        session.is_ok() && !is_stateless
    }

    /// Removes and closes the connection of a session.
    pub(super) fn drop_own(&self, session: SessionId, own: &Arc<UpstreamConnection>) {
        self.connections().own.retain(|of, connection| *of != session || !Arc::ptr_eq(connection, own));
        let own = Arc::clone(own);
        tokio::spawn(async move { own.close().await });
    }

    /// A connection for the caller's session only. Returns `None` if the budget is used up.
    pub(super) fn add_own(&self, forwarded: &ForwardedCall, client: ClientProfile) -> Option<Arc<UpstreamConnection>> {
        let caller = &forwarded.events.caller;
        let place = self.place(forwarded.terms.party)?;
        let mut connections = self.connections();
        let own = connections.own.entry(caller.session()).or_insert_with(|| {
            let session = watch::Sender::new(Some(Arc::downgrade(caller))).subscribe();
            UpstreamConnection::new(Arc::clone(&self.spec), client, self.connection_events(Some(session)), Some(place))
        });
        Some(Arc::clone(own))
    }

    /// Whether the upstream may be opened in the client's own era, if that era has a handshake.
    pub(super) fn may_shake_hands(&self, client: &ClientProfile) -> bool {
        let options = &self.spec.options;
        client.revision.is_some_and(Revision::has_initialize)
            && !self.is_stateless_only.load(Ordering::Relaxed)
            && !matches!(options.speak, Speak::As(..))
            && options.eras.may_shake_hands(&self.spec.target)
    }

    /// A place for a connection that not all callers share. If the budget is used up, an unused connection is closed.
    pub(super) fn place(&self, party: Option<Party>) -> Option<Permit> {
        loop {
            if let Some(place) = self.spec.connection_budget.take(party) {
                return Some(place);
            }
            let spare = self.connections().pools.spare()?;
            spare.vacate();
            tokio::spawn(async move { spare.close().await });
        }
    }

    pub(super) fn connection_events(&self, session: Option<Session>) -> ConnectionEvents {
        ConnectionEvents::new(session, self.notifier.get().cloned(), Arc::clone(&self.stale), self.allowed_roots())
    }

    /// The main connection, and whether only one downstream session will ever exist.
    pub(super) fn main(&self) -> (Arc<UpstreamConnection>, bool) {
        let mut connections = self.connections();
        let is_alone = connections.expected.is_some();
        if let Some(main) = &connections.main {
            return (Arc::clone(main), is_alone);
        }
        let session = is_alone.then(|| self.session.subscribe());
        let client = connections.expected.clone().unwrap_or_default();
        let main = UpstreamConnection::new(Arc::clone(&self.spec), client, self.connection_events(session), None);
        connections.main = Some(Arc::clone(&main));
        (main, is_alone)
    }

    pub(super) fn is_main(&self, connection: &Arc<UpstreamConnection>) -> bool {
        self.connections().main.as_ref().is_some_and(|main| Arc::ptr_eq(main, connection))
    }

    /// The folders in which a caller's roots may lie. On stdio the client runs as the user who started us, and may name
    /// any folder.
    pub(super) fn allowed_roots(&self) -> Allowed {
        let is_open = || self.is_alone.get().is_some() || matches!(self.spec.target, Target::Url(_));
        self.allowed_roots.get_or_init(|| (!is_open()).then(|| self.spec.client_roots.clone().into())).clone()
    }
}

/// The identity of a caller without a session: its principal, and its declared name and version.
fn identity(forwarded: &ForwardedCall) -> String {
    let client = &forwarded.agreement.client;
    let principal = forwarded.terms.principal.as_deref().unwrap_or_default();
    format!("{principal:?} {:?} {:?}", client.name, client.version)
}
