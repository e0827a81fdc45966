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

use gladhand_core::operations::{Failure, Operation, Party};
use gladhand_core::sync::Unpoisoned as _;
use gladhand_dialects::passed_on;
use gladhand_dialects::shares::{Holder, giving_way};
use gladhand_hub::{Context, List, Listed, SessionId, Settling, viewer};

use super::Inner;
use super::forwarding::ForwardedCall;
use super::lists::Lists;
use super::stale::pause_after;
use super::upstream_connection::UpstreamConnection;

/// How many kinds of callers without a session have separate lists. Parties share them: above this, kinds of the largest
/// party are dropped first.
const KINDS: usize = 32;

/// How long lists without change notifications stay valid, unless a call has ended since.
const FRESH: Duration = Duration::from_secs(1);

/// How long a list request waits for an upstream to list again.
const RELISTING: Duration = Duration::from_secs(2);

/// How many viewers with a slow upstream are remembered.
const SLOW: usize = 1024;

/// How to list for a viewer.
enum Pace {
    /// The list request waits for the upstream.
    Wait,
    /// The upstream is asked, and the list request does not wait.
    Background,
    /// The upstream is not asked.
    Rest,
}

/// The lists that each viewer sees.
#[derive(Debug, Default)]
pub(super) struct Viewers {
    /// The separate lists of a viewer; `None` if the viewer sees the lists of the main connection.
    own: HashMap<SessionId, Option<Arc<Lists>>>,
    /// When lists were last requested, and how many calls had ended by then.
    asked_for: HashMap<SessionId, (u64, Instant)>,
    /// The kinds of callers that have entries above, with the party that wanted them last, and when.
    kinds: HashMap<SessionId, (Party, Instant)>,
    /// Viewers for whom the upstream took too long to list: how often in a row, and until when it is not asked again. It
    /// is asked in the background only, and list requests do not wait.
    slow: HashMap<SessionId, (u32, Instant)>,
}

impl Viewers {
    pub(super) fn remove(&mut self, viewer: SessionId) {
        self.own.remove(&viewer);
        self.asked_for.remove(&viewer);
        self.slow.remove(&viewer);
    }

    /// The upstream took this long to list for a viewer.
    pub(super) fn took(&mut self, viewer: SessionId, time: Duration) {
        if time < RELISTING {
            self.slow.remove(&viewer);
            return;
        }
        if self.slow.len() >= SLOW {
            self.slow.clear();
        }
        let (failures, until) = self.slow.entry(viewer).or_insert_with(|| (0, Instant::now()));
        *failures = failures.saturating_add(1);
        *until = Instant::now() + pause_after(*failures);
    }

    /// How to list for a viewer, if an attempt may take this long.
    fn pace(&mut self, viewer: SessionId, longest: Duration) -> Pace {
        let Some((_, until)) = self.slow.get_mut(&viewer) else { return Pace::Wait };
        let now = Instant::now();
        if *until > now {
            return Pace::Rest;
        }
        // Until this attempt ends, no other begins.
        *until = now + longest;
        Pace::Background
    }

    /// Makes room for a kind of callers of a party. Returns the kinds that gave way and had separate lists.
    fn make_room(&mut self, kind: SessionId, party: Party) -> Vec<SessionId> {
        let mut gone = Vec::new();
        if !self.kinds.contains_key(&kind) && self.kinds.len() >= KINDS {
            let holder = |(id, (party, used)): (&SessionId, &(Party, Instant))| Holder {
                id: *id,
                party: *party,
                used: *used,
                is_idle: true,
            };
            let holders: Vec<_> = self.kinds.iter().map(holder).collect();
            for leaving in giving_way(KINDS, &holders, party) {
                self.kinds.remove(&leaving);
                self.asked_for.remove(&leaving);
                self.slow.remove(&leaving);
                gone.extend(self.own.remove(&leaving).flatten().map(|_| leaving));
            }
        }
        self.kinds.insert(kind, (party, Instant::now()));
        gone
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
        let longest = self.spec.longest_list_wait();
        let pace = self.viewers().pace(kind, longest);
        if matches!(pace, Pace::Rest) {
            return None;
        }
        let party = context.terms.party.unwrap_or(Party(0));
        let (inner, forwarded) =
            (Arc::clone(self), ForwardedCall::of(Operation::ListTools, context, self.allowed_roots()));
        let finding = async move {
            let begun = Instant::now();
            let found = tokio::time::timeout(longest, inner.find_for(kind, party, &forwarded)).await;
            inner.viewers().took(kind, begun.elapsed());
            match found {
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
        };
        Some(match pace {
            Pace::Background => Box::pin(async move { drop(tokio::spawn(finding)) }),
            _ => Box::pin(finding),
        })
    }

    /// Lists the content of a connection again, if it may have changed without a notification.
    fn relisting(self: &Arc<Self>, viewer: SessionId, connection: Arc<UpstreamConnection>) -> Option<Settling> {
        let quiet = self.outdated(viewer, self.seen_by(viewer))?;
        connection.session()?;
        let connection = Arc::downgrade(&connection);
        if self.viewers().slow.contains_key(&viewer) {
            self.stale.mark(&quiet, connection);
            return None;
        }
        let inner = Arc::clone(self);
        Some(Box::pin(async move {
            if tokio::time::timeout(RELISTING, inner.refresh(&quiet, &connection)).await.is_err() {
                inner.viewers().took(viewer, RELISTING);
            }
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
    async fn find_for(
        self: &Arc<Self>,
        kind: SessionId,
        party: Party,
        forwarded: &ForwardedCall,
    ) -> Result<(), Failure> {
        // Before the upstream is asked, so that failures leave nothing behind.
        let gone = self.viewers().make_room(kind, party);
        self.forgotten(gone);
        let (connection, turn) = match self.shared_connection(forwarded) {
            Some(connection) => (connection, None),
            None => self.listing_connection(forwarded).await?,
        };
        let session = match connection.session() {
            Some(session) => session,
            None if self.is_main(&connection) => self.open_main().await?,
            None => self.open_other(&connection, false).await?,
        };
        self.note_asked_for(kind);
        let client = (Arc::clone(&forwarded.agreement), Arc::clone(&forwarded.events) as _);
        let lists = Lists::fetch(&session, &self.spec, Some(client)).await?;
        // A session makes its calls on a separate connection, and no longer needs this one.
        if let Some(turn) = turn.filter(|_| forwarded.events.caller.session() == SessionId::NONE) {
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
            // Meanwhile others may have wanted its place.
            let mut forgotten = viewers.make_room(kind, party);
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
            viewers.kinds.clear();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_party_with_many_kinds_of_callers_pushes_out_its_own() {
        let mut viewers = Viewers::default();
        let mut see = |kind: u64, party: u64| {
            let gone = viewers.make_room(SessionId(kind), Party(party));
            viewers.own.insert(SessionId(kind), Some(Arc::default()));
            viewers.asked_for.insert(SessionId(kind), (0, Instant::now()));
            (gone, viewers.own.len(), viewers.asked_for.len(), viewers.kinds.len())
        };
        (0..4).for_each(|kind| drop(see(kind, 1)));
        for kind in 100..1000 {
            let (gone, own, asked_for, kinds) = see(kind, 2);
            assert!(gone.iter().all(|gone| gone.0 >= 100), "the other party keeps its lists");
            assert!(own <= KINDS && asked_for <= KINDS && kinds <= KINDS);
        }
        let (gone, ..) = see(5, 1);
        assert!(gone.len() == 1 && gone[0].0 >= 100, "a party below its share gets a place of the largest");
        assert!(see(5, 1).0.is_empty(), "it is known");
    }
}
