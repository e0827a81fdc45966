//! Keeps the lists of an upstream current: requests them again when they change, and publishes them to the hub.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use gladhand_core::operations::{Failure, FailureKind};
use gladhand_core::sync::Unpoisoned as _;
use gladhand_hub::{List, SessionId};
use tokio::time::Instant;

use super::lists::Lists;
use super::upstream_connection::UpstreamConnection;
use super::{Inner, Listing, memory};
use crate::upstream::Upstream;

/// The result of a refresh.
pub(super) enum Refreshed {
    /// The lists have this many entries.
    Lists { entries: usize },
    /// There is no session, or its lists are not shown to any caller.
    Nothing,
    /// No list could be had.
    Failed,
}

impl Inner {
    /// The main connection is open: refresh the lists and renew the subscriptions.
    pub(super) fn opened(&self, session: &Upstream) {
        // The upstream may be a different program than before.
        self.is_stateless_only.store(false, Ordering::Relaxed);
        self.listing.send_if_modified(|listing| {
            let has_failed = matches!(listing, Listing::Failed(_));
            if has_failed {
                *listing = Listing::Unknown;
            }
            has_failed
        });
        self.forget_viewers();
        self.stale.mark_new(Arc::downgrade(&self.main().0));
        self.watch_all(session);
    }

    /// Starts the task that refreshes changed lists.
    pub(super) fn keep(self: &Arc<Self>) {
        self.keeper.get_or_init(|| {
            let (this, stale) = (Arc::downgrade(self), Arc::clone(&self.stale));
            tokio::spawn(async move {
                loop {
                    let (changed, connection) = stale.take().await;
                    let Some(this) = Weak::upgrade(&this) else { return };
                    match this.refresh(&changed, &connection).await {
                        Refreshed::Lists { entries } => stale.rest(connection, Instant::now(), entries),
                        Refreshed::Nothing => {}
                        Refreshed::Failed => stale.retry(&changed, connection, Instant::now()),
                    }
                }
            })
            .abort_handle()
        });
    }

    /// Refreshes the changed lists.
    pub(super) async fn refresh(
        self: &Arc<Self>,
        changed: &[List],
        connection: &Weak<UpstreamConnection>,
    ) -> Refreshed {
        let Some(connection) = connection.upgrade() else { return Refreshed::Nothing };
        // One refresh at a time: a slower earlier one could overwrite newer lists.
        let one_at_a_time = Arc::clone(&self.refreshing).lock_owned().await;
        let is_for_all = self.is_main(&connection);
        let Some(session) = connection.session() else {
            if is_for_all {
                self.note_unlisted(&Failure::new(FailureKind::UpstreamLost, "the session ended before it was listed"));
            }
            return Refreshed::Nothing;
        };
        let own =
            self.connections().own.iter().find(|(_, own)| Arc::ptr_eq(own, &connection)).map(|(session, _)| *session);
        // Lists of a separate connection may reveal the actions of its caller, so other callers do not see them.
        let viewer = if is_for_all { SessionId::NONE } else { own.unwrap_or(connection.kind) };
        if viewer == SessionId::NONE && !is_for_all {
            return Refreshed::Nothing;
        }
        let before = if is_for_all { self.known() } else { self.seen_by(viewer) };
        self.note_asked_for(viewer);
        let begun = Instant::now();
        let lists = match &before {
            Some(before) if changed.len() < List::ALL.len() => {
                before.refreshed(changed, &session, &self.spec, None).await
            }
            _ => Lists::fetch(&session, &self.spec, None).await,
        };
        self.viewers().took(viewer, begun.elapsed());
        let received = match lists {
            Ok(lists) => Arc::new(lists),
            Err(failure) => {
                tracing::warn!(upstream = self.spec.name, %failure, "what the upstream has could not be listed");
                if before.is_none() {
                    self.note_trouble(Some(&failure));
                }
                if is_for_all {
                    self.note_unlisted(&failure);
                }
                return Refreshed::Failed;
            }
        };
        connection.pinning.note(&session, &received);
        let lists = Arc::new(Arc::unwrap_or_clone(received).completed_by(before.as_deref()));
        let entries = lists.entries();
        let different = lists.different(before.as_deref());
        if is_for_all {
            // Publishing a long list takes time, and this thread also serves other calls.
            let this = Arc::clone(self);
            let show = move || {
                this.show(lists, before, &different);
                drop(one_at_a_time);
            };
            let _ = tokio::task::spawn_blocking(show).await;
        } else if !different.is_empty() {
            self.show_to(viewer, lists);
        }
        Refreshed::Lists { entries }
    }

    /// Publishes lists to all callers that share the main connection.
    pub(super) fn show(&self, lists: Arc<Lists>, before: Option<Arc<Lists>>, different: &[List]) {
        *self.lists.lock().unpoisoned() = Some(Arc::clone(&lists));
        let says_something_else = before.as_ref().is_none_or(|before| before.instructions != lists.instructions);
        // A list that could not be fetched would be remembered as empty.
        let is_worth_it = lists.is_complete() && (says_something_else || !different.is_empty());
        if let Some(file) = self.spec.remembered_in.as_ref().filter(|_| is_worth_it) {
            memory::remember(file, &lists);
        }
        if let Some(notifier) = self.notifier.get() {
            if says_something_else {
                notifier.instructions_changed();
            }
            for list in different {
                match list {
                    List::Tools => notifier.tools_changed(),
                    List::Resources => notifier.resources_changed(),
                    List::Prompts => notifier.prompts_changed(),
                }
            }
        }
        self.main_lists_change(before.as_ref(), different);
        self.listing.send_replace(Listing::Shown);
    }

    /// Waits until the lists are known and published to the hub, or could not be had.
    pub(super) async fn listed(&self) {
        let mut listing = self.listing.subscribe();
        let is_settled = |listing: &Listing| !matches!(listing, Listing::Unknown);
        // The sender lives as long as the provider.
        let _ = listing.wait_for(is_settled).await;
    }

    /// No list of the upstream could be had. Lists from before stay.
    fn note_unlisted(&self, failure: &Failure) {
        self.listing.send_if_modified(|listing| {
            let is_unknown = !matches!(listing, Listing::Shown);
            if is_unknown {
                *listing = Listing::Failed(failure.clone());
            }
            is_unknown
        });
    }

    /// Why no list could be had.
    pub(super) fn listing_failure(&self) -> Option<Failure> {
        match &*self.listing.borrow() {
            Listing::Failed(failure) => Some(failure.clone()),
            Listing::Unknown | Listing::Shown => None,
        }
    }
}
