//! Subscriptions to resources of an upstream, at all connections that are open.
//!
//! A client that has subscribed hears of what its next call changes, so that call must not overtake the subscription. Calls
//! of other clients do not wait for it.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gladhand_core::operations::Operation;
use gladhand_core::sync::Unpoisoned as _;
use gladhand_hub::SessionId;
use gladhand_hub::policy::Who;
use tokio::sync::watch;

use super::Inner;
use super::forwarding::ForwardedCall;
use crate::upstream::Upstream;

/// How long a call waits for an answer to a subscription that its caller asked for.
const SUBSCRIBING: Duration = Duration::from_secs(2);

/// The resources that sessions subscribe to at an upstream.
#[derive(Debug, Default)]
pub(super) struct Subscriptions {
    /// The watched resources, with the caller that was the first to subscribe.
    watched: Mutex<BTreeMap<String, Option<Subscriber>>>,
    /// How many subscriptions of each subscriber the upstream has not answered.
    unanswered: Arc<watch::Sender<HashMap<Subscriber, usize>>>,
}

/// A caller that waits for its own subscriptions.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Subscriber {
    session: SessionId,
    principal: Option<Box<str>>,
}

impl Subscriber {
    /// The caller of a call.
    pub(super) fn of(forwarded: &ForwardedCall) -> Self {
        let principal = forwarded.terms.principal.as_deref().map(Into::into);
        Self { session: forwarded.events.caller.session(), principal }
    }

    fn who(who: &Who<'_>) -> Self {
        Self { session: who.session, principal: who.principal.map(Into::into) }
    }
}

impl Subscriptions {
    /// Whether the upstream has any subscription to answer.
    pub(super) fn are_unanswered(&self) -> bool {
        !self.unanswered.borrow().is_empty()
    }

    /// Waits until the upstream has answered the subscriptions of a caller, or has had enough time to.
    pub(super) async fn answered(&self, by: &Subscriber) {
        let mut unanswered = self.unanswered.subscribe();
        // The sender lives as long as this.
        let _ = unanswered.wait_for(|unanswered| !unanswered.contains_key(by)).await;
    }
}

impl Inner {
    /// Subscribes to a resource at every connection that is open. A resource may change at the end of any connection: there may be a
    /// process of its own at each. A connection that is opened later subscribes to everything that is watched.
    pub(super) fn watch(self: &Arc<Self>, uri: &str, by: Option<&Who<'_>>) {
        let by = by.map(Subscriber::who);
        self.subscriptions.watched.lock().unpoisoned().insert(uri.to_owned(), by.clone());
        for session in self.open_sessions() {
            self.watch_by(&session, uri.to_owned(), by.clone());
        }
        if self.main().0.session().is_none() {
            let inner = Arc::clone(self);
            tokio::spawn(async move { drop(inner.open_main().await) });
        }
    }

    pub(super) fn unwatch(&self, uri: &str) {
        self.subscriptions.watched.lock().unpoisoned().remove(uri);
        self.open_sessions().iter().for_each(|session| session.unwatch(uri));
    }

    /// Subscribes to every watched resource, at a connection that was opened just now.
    pub(super) fn watch_all(&self, session: &Upstream) {
        let watched = self.subscriptions.watched.lock().unpoisoned().clone();
        watched.into_iter().for_each(|(uri, by)| self.watch_by(session, uri, by));
    }

    fn watch_by(&self, session: &Upstream, uri: String, by: Option<Subscriber>) {
        let session = session.clone();
        let unanswered = by.map(|by| Unanswered::of(&self.subscriptions.unanswered, by));
        tokio::spawn(async move {
            let mut subscribing = std::pin::pin!(session.call(Operation::Watch(uri.into())));
            let outcome = match tokio::time::timeout(SUBSCRIBING, &mut subscribing).await {
                Ok(outcome) => outcome,
                Err(_) => {
                    drop(unanswered);
                    subscribing.await
                }
            };
            if let Err(failure) = outcome {
                tracing::debug!(%failure, "a resource is not watched");
            }
        });
    }
}

/// A subscription that an upstream has not answered, as long as this is kept.
struct Unanswered {
    all: Arc<watch::Sender<HashMap<Subscriber, usize>>>,
    by: Subscriber,
}

impl Unanswered {
    fn of(all: &Arc<watch::Sender<HashMap<Subscriber, usize>>>, by: Subscriber) -> Self {
        all.send_modify(|unanswered| *unanswered.entry(by.clone()).or_default() += 1);
        Self { all: Arc::clone(all), by }
    }
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        self.all.send_modify(|unanswered| {
            if let Some(count) = unanswered.get_mut(&self.by) {
                *count -= 1;
                if *count == 0 {
                    unanswered.remove(&self.by);
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;

    #[tokio::test]
    async fn a_call_waits_for_subscriptions_of_its_own_caller_only() {
        let subscriptions = Subscriptions::default();
        let by = |principal: &str| Subscriber { session: SessionId::NONE, principal: Some(principal.into()) };
        let (ann, bob) = (by("ann"), by("bob"));
        let of = |by: &Subscriber| Unanswered::of(&subscriptions.unanswered, by.clone());
        let open = [of(&bob), of(&bob)];
        assert!(subscriptions.are_unanswered());
        assert!(subscriptions.answered(&ann).now_or_never().is_some());
        assert!(subscriptions.answered(&bob).now_or_never().is_none());
        let [first, second] = open;
        drop(first);
        assert!(subscriptions.answered(&bob).now_or_never().is_none());
        drop(second);
        assert!(subscriptions.answered(&bob).now_or_never().is_some());
        assert!(!subscriptions.are_unanswered());
    }
}
