//! What callers see of an upstream whose lists depend on what its client declares.
//!
//! A server may list a tool only to clients that can be asked something. A caller that declares a capability therefore sees the
//! lists of a connection that was opened for such a client. Callers of one principal and client that declare the same are of one kind
//! and see the same, so that one connection is enough to find out. A session that has a way of its own sees the lists of that connection.
//! A server may also list what a call left behind in its process. So lists never pass from one kind to another.
//!
//! Some servers change their lists and do not tell. Where an upstream does not declare that it tells, a caller that lists
//! waits until the upstream has listed again, as if the two talked directly.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use gladhand_core::operations::{Failure, Operation};
use gladhand_dialects::passed_on;
use gladhand_hub::{Context, List, Listed, SessionId, Settling, viewer};

use super::lists::Lists;
use super::upstream_connection::UpstreamConnection;
use super::{Errand, Inner, SETTLING};

/// How many kinds of callers without a session see lists of their own. With more of them, those found so far are forgotten.
const KINDS: usize = 32;

/// How long lists of an upstream that does not tell of changes are taken as they are, unless a call has ended since.
const FRESH: Duration = Duration::from_secs(1);

/// How long a caller that lists waits for an upstream to list again.
const RELISTING: Duration = Duration::from_secs(2);

/// What viewers see.
#[derive(Debug, Default)]
pub(super) struct Viewers {
    /// The lists of those whose lists may not be those of the main connection; `None`: they are.
    own: HashMap<SessionId, Option<Arc<Lists>>>,
    /// When lists were last asked for, and how many calls had ended by then.
    asked_for: HashMap<SessionId, (u64, Instant)>,
}

impl Viewers {
    pub(super) fn remove(&mut self, viewer: SessionId) {
        self.own.remove(&viewer);
        self.asked_for.remove(&viewer);
    }

    /// Takes out all kinds of callers, and says which of them saw lists of their own.
    fn take_kinds(&mut self) -> Vec<SessionId> {
        self.asked_for.retain(|viewer, _| !viewer.is_kind());
        let kinds: Vec<_> = self.own.keys().copied().filter(|viewer| viewer.is_kind()).collect();
        kinds.into_iter().filter(|kind| matches!(self.own.remove(kind), Some(Some(_)))).collect()
    }
}

impl Inner {
    pub(super) fn viewers(&self) -> MutexGuard<'_, Viewers> {
        self.viewers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a viewer sees, where that is its own.
    pub(super) fn listed_for(&self, viewer: SessionId) -> Option<Listed> {
        self.viewers().own.get(&viewer)?.as_ref().map(|lists| lists.listed())
    }

    /// The number of the lists that a viewer sees, where these are its own.
    pub(super) fn list_number(&self, viewer: SessionId) -> Option<u64> {
        self.viewers().own.get(&viewer)?.as_ref().map(|lists| lists.number)
    }

    /// What a session sees.
    pub(super) fn seen_by(&self, session: SessionId) -> Option<Arc<Lists>> {
        let own = self.viewers().own.get(&session).cloned().flatten();
        own.or_else(|| self.known())
    }

    /// Finds out what a caller sees, if that may be its own and is not known.
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
                        // What it adopted before may be outdated.
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

    /// Lists again what is at the end of a connection, where that may have changed without a word.
    fn relisting(self: &Arc<Self>, viewer: SessionId, connection: Arc<UpstreamConnection>) -> Option<Settling> {
        let quiet = self.outdated(viewer, self.seen_by(viewer))?;
        connection.session()?;
        let inner = Arc::clone(self);
        Some(Box::pin(async move {
            let _ = tokio::time::timeout(RELISTING, inner.refresh(&quiet, &Arc::downgrade(&connection))).await;
        }))
    }

    /// Which of a viewer's lists may have changed without a word.
    fn outdated(&self, viewer: SessionId, lists: Option<Arc<Lists>>) -> Option<Vec<List>> {
        let quiet = lists.map(|lists| lists.quiet.clone()).filter(|quiet| !quiet.is_empty())?;
        let ended = self.ended.load(Ordering::Relaxed);
        let is_fresh = |(before, at): &(u64, Instant)| *before == ended && at.elapsed() < FRESH;
        let is_outdated = !self.viewers().asked_for.get(&viewer).is_some_and(is_fresh);
        is_outdated.then_some(quiet)
    }

    /// The lists of a viewer are asked for now.
    pub(super) fn note_asked_for(&self, viewer: SessionId) {
        let ended = self.ended.load(Ordering::Relaxed);
        self.viewers().asked_for.insert(viewer, (ended, Instant::now()));
    }

    /// Lists what is at the end of a connection for callers of one kind.
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
        // A session makes its calls by a way of its own, and needs this one no longer.
        if let Some(turn) = turn.filter(|_| errand.host.caller.session() == SessionId::NONE) {
            turn.end();
        }
        let before = self.viewers().own.get(&kind).cloned().flatten();
        // Lists that are as they were stay the same to all who see them.
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

    /// Lets a viewer see what callers of its kind see, if that is known and nothing is known of the viewer itself.
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

    /// Viewers see what others see again.
    fn forgotten(&self, viewers: Vec<SessionId>) {
        if let Some(notifier) = self.notifier.get() {
            viewers.into_iter().for_each(|viewer| notifier.lists_forgotten_for(viewer));
        }
    }

    /// The upstream may be another from now on: what callers see is found out anew, but for sessions with a way of their own,
    /// where the upstream says whether its lists have changed.
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

    /// Shows other lists to one session.
    pub(super) fn show_to(&self, session: SessionId, lists: Arc<Lists>) {
        self.viewers().own.insert(session, Some(lists));
        if let Some(notifier) = self.notifier.get() {
            notifier.lists_changed_for(session);
        }
    }

    /// The lists of the main connection change. Sessions with a way of their own go on seeing what they have seen.
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
