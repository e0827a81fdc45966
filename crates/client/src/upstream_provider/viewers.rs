//! The lists that each caller sees, if an upstream's lists depend on the declared client features.
//!
//! A server may list a tool only to clients that can answer requests. A caller that declares such a feature therefore
//! sees the lists of a connection that declares it too. Callers with the same principal, client and features form one
//! kind and see the same lists, so one connection is enough to fetch them. A session with a separate connection sees
//! the lists of that connection. A server may also list state that a call left in its process, so lists never pass from
//! one kind to another.
//!
//! Some servers change their lists without a notification. If an upstream does not declare list notifications, a list
//! request waits until the upstream has listed again, as if client and server were connected directly.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};

use gladhand_core::operations::{Failure, Operation};
use gladhand_core::sync::Unpoisoned as _;
use gladhand_dialects::passed_on;
use gladhand_hub::{Context, List, Listed, SessionId, Settling, viewer};

use super::lists::Lists;
use super::upstream_connection::UpstreamConnection;
use super::{Errand, Inner, SETTLING};

/// How many kinds of callers without a session have separate lists. Above this, the lists found so far are dropped.
const KINDS: usize = 32;

/// How long lists without change notifications stay valid, unless a call has ended since.
const FRESH: Duration = Duration::from_secs(1);

/// How long a list request waits for an upstream to list again.
const RELISTING: Duration = Duration::from_secs(2);

/// What viewers see.
#[derive(Debug, Default)]
pub(super) struct Viewers {
    /// The separate lists of a viewer; `None` if the viewer sees the lists of the main connection.
    own: HashMap<SessionId, Option<Arc<Lists>>>,
    /// When lists were last requested, and how many calls had ended by then.
    asked_for: HashMap<SessionId, (u64, Instant)>,
}

impl Viewers {
    pub(super) fn remove(&mut self, viewer: SessionId) {
        self.own.remove(&viewer);
        self.asked_for.remove(&viewer);
    }

    /// Removes all kinds of callers, and returns those that had separate lists.
    fn take_kinds(&mut self) -> Vec<SessionId> {
        self.asked_for.retain(|viewer, _| !viewer.is_kind());
        let kinds: Vec<_> = self.own.keys().copied().filter(|viewer| viewer.is_kind()).collect();
        kinds.into_iter().filter(|kind| matches!(self.own.remove(kind), Some(Some(_)))).collect()
    }
}

impl Inner {
    pub(super) fn viewers(&self) -> MutexGuard<'_, Viewers> {
        self.viewers.lock().unpoisoned()
    }

    /// The separate lists of a viewer, if it has any.
    pub(super) fn listed_for(&self, viewer: SessionId) -> Option<Listed> {
        self.viewers().own.get(&viewer)?.as_ref().map(|lists| lists.listed())
    }

    /// The number of a viewer's separate lists, if it has any.
    pub(super) fn list_number(&self, viewer: SessionId) -> Option<u64> {
        self.viewers().own.get(&viewer)?.as_ref().map(|lists| lists.number)
    }

    /// The lists that a session sees.
    pub(super) fn seen_by(&self, session: SessionId) -> Option<Arc<Lists>> {
        let own = self.viewers().own.get(&session).cloned().flatten();
        own.or_else(|| self.known())
    }

    /// Fetches the lists that a caller sees, if they may be separate and are unknown.
    pub(super) fn settling_for(self: &Arc<Self>, context: &Context<'_>) -> Option<Settling> {
        let (main, is_alone) = self.main();
        if is_alone || passed_on(context.agreement).next().is_none() {
            return self.relisting(SessionId::NONE, main);
        }
        let principal = context.terms.principal.as_deref();
        let (viewer, kind) = (context.viewer(), viewer(context.agreement, SessionId::NONE, principal));
        let is_known = self.viewers().own.contains_key(&viewer) || self.adopt(viewer, kind);
        let own = self.connections().own.get(&viewer).cloned();
        if let (true, Some(own)) = (is_known, own) {
            return self.relisting(viewer, own);
        }
        if is_known && self.outdated(kind, self.seen_by(viewer)).is_none() {
            return None;
        }
        let (inner, errand) = (Arc::clone(self), Errand::of(Operation::ListTools, context, self.allowed_roots()));
        Some(Box::pin(async move {
            match tokio::time::timeout(SETTLING, inner.find_for(kind, &errand)).await {
                Ok(Ok(())) => {
                    let has_own = inner.connections().own.contains_key(&viewer);
                    if !has_own && viewer != kind {
                        // The lists that it adopted before may be outdated.
                        let before = inner.viewers().own.remove(&viewer).flatten();
                        inner.forgotten(before.map(|_| viewer).into_iter().collect());
                    }
                    inner.adopt(viewer, kind);
                }
                Ok(Err(failure)) => {
                    tracing::debug!(upstream = inner.spec.name, %failure, "this caller sees what others see");
                }
                Err(_) => tracing::debug!(upstream = inner.spec.name, "what this caller sees is not known in time"),
            }
        }))
    }

    /// Lists the content of a connection again, if it may have changed without a notification.
    fn relisting(self: &Arc<Self>, viewer: SessionId, connection: Arc<UpstreamConnection>) -> Option<Settling> {
        let quiet = self.outdated(viewer, self.seen_by(viewer))?;
        connection.session()?;
        let inner = Arc::clone(self);
        Some(Box::pin(async move {
            let _ = tokio::time::timeout(RELISTING, inner.refresh(&quiet, &Arc::downgrade(&connection))).await;
        }))
    }

    /// The lists of a viewer that may have changed without a notification.
    fn outdated(&self, viewer: SessionId, lists: Option<Arc<Lists>>) -> Option<Vec<List>> {
        let quiet = lists.map(|lists| lists.quiet.clone()).filter(|quiet| !quiet.is_empty())?;
        let ended = self.ended.load(Ordering::Relaxed);
        let is_fresh = |(before, at): &(u64, Instant)| *before == ended && at.elapsed() < FRESH;
        let is_outdated = !self.viewers().asked_for.get(&viewer).is_some_and(is_fresh);
        is_outdated.then_some(quiet)
    }

    /// Records that the lists of a viewer are requested now.
    pub(super) fn note_asked_for(&self, viewer: SessionId) {
        let ended = self.ended.load(Ordering::Relaxed);
        self.viewers().asked_for.insert(viewer, (ended, Instant::now()));
    }

    /// Fetches the lists of a connection for callers of one kind.
    async fn find_for(self: &Arc<Self>, kind: SessionId, errand: &Errand) -> Result<(), Failure> {
        let (connection, turn) = match self.shared_connection(errand) {
            Some(connection) => (connection, None),
            None => self.listing_connection(errand).await?,
        };
        let session = match connection.session() {
            Some(session) => session,
            None if self.is_main(&connection) => self.open_main().await?,
            None => self.open_other(&connection, false).await?,
        };
        self.note_asked_for(kind);
        let client = (Arc::clone(&errand.agreement), Arc::clone(&errand.host) as _);
        let lists = Lists::fetch(&session, &self.spec, Some(client)).await?;
        // A session makes its calls on a separate connection, and no longer needs this one.
        if let Some(turn) = turn.filter(|_| errand.host.caller.session() == SessionId::NONE) {
            turn.end();
        }
        let before = self.viewers().own.get(&kind).cloned().flatten();
        // Unchanged lists keep their identity for all viewers.
        let as_before = before.filter(|before| lists.different(Some(before)).is_empty());
        let differs = !lists.different(self.known().as_deref()).is_empty();
        let lists = differs.then(|| as_before.unwrap_or_else(|| Arc::new(lists)));
        let is_own = lists.is_some();
        let forgotten = {
            let mut viewers = self.viewers();
            let kinds = viewers.own.keys().filter(|viewer| viewer.is_kind()).count();
            let mut forgotten = if kinds >= KINDS { viewers.take_kinds() } else { Vec::new() };
            let before = viewers.own.insert(kind, lists).flatten();
            forgotten.extend(before.map(|_| kind));
            forgotten
        };
        self.forgotten(forgotten);
        if let Some(notifier) = self.notifier.get().filter(|_| is_own) {
            notifier.lists_found_for(kind);
        }
        Ok(())
    }

    /// Lets a viewer see the lists of its kind, if these are known and the viewer has none.
    fn adopt(&self, viewer: SessionId, kind: SessionId) -> bool {
        let is_own = {
            let mut viewers = self.viewers();
            let Some(lists) = viewers.own.get(&kind).cloned() else { return false };
            viewers.own.entry(viewer).or_insert(lists).is_some()
        };
        if let Some(notifier) = self.notifier.get().filter(|_| is_own) {
            notifier.lists_found_for(viewer);
        }
        true
    }

    /// Viewers return to the common lists.
    fn forgotten(&self, viewers: Vec<SessionId>) {
        if let Some(notifier) = self.notifier.get() {
            viewers.into_iter().for_each(|viewer| notifier.lists_forgotten_for(viewer));
        }
    }

    /// The upstream may be a different program from now on, so the lists are fetched again. Sessions with a separate
    /// connection are excluded: there, the upstream reports list changes.
    pub(super) fn forget_viewers(&self) {
        let forgotten = {
            let connections = self.connections();
            let mut viewers = self.viewers();
            viewers.asked_for.retain(|viewer, _| connections.own.contains_key(viewer));
            let all: Vec<_> =
                viewers.own.keys().copied().filter(|viewer| !connections.own.contains_key(viewer)).collect();
            all.into_iter().filter(|viewer| matches!(viewers.own.remove(viewer), Some(Some(_)))).collect()
        };
        self.forgotten(forgotten);
    }

    /// Publishes separate lists to one session.
    pub(super) fn show_to(&self, session: SessionId, lists: Arc<Lists>) {
        self.viewers().own.insert(session, Some(lists));
        if let Some(notifier) = self.notifier.get() {
            notifier.lists_changed_for(session);
        }
    }

    /// The lists of the main connection change. Sessions with a separate connection keep their lists.
    pub(super) fn main_lists_change(&self, before: Option<&Arc<Lists>>, different: &[List]) {
        if different.is_empty() {
            return;
        }
        self.forget_viewers();
        let apart: Vec<_> = {
            let connections = self.connections();
            let mut viewers = self.viewers();
            for session in connections.own.keys() {
                let lists = viewers.own.entry(*session).or_default();
                *lists = lists.take().or_else(|| before.cloned());
            }
            viewers.own.iter().filter(|(_, lists)| lists.is_some()).map(|(viewer, _)| *viewer).collect()
        };
        let Some(notifier) = self.notifier.get() else { return };
        apart.into_iter().for_each(|session| notifier.lists_changed_for(session));
    }
}
