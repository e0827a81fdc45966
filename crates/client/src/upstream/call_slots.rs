//! CallSlots for calls that are under way at an upstream, shared by parties.

use std::sync::Arc;

use gladhand_core::operations::{Failure, FailureKind, Party};
use gladhand_hub::{Portion, Portions};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

/// How many calls of parties may be under way at once, and how many without a party. A party may have all slots that no
/// other party uses. When all are taken, a party below an equal part still gets one.
const MAX_CALLS: usize = 1024;

/// The slots of one session with an upstream.
#[derive(Debug)]
pub(super) struct CallSlots {
    without_party: Arc<Semaphore>,
    shares: Arc<Portions>,
}

/// The slot of one call, given back when it is dropped.
#[derive(Debug)]
pub(super) enum CallSlot {
    WithoutParty(#[expect(dead_code, reason = "it is given back when it is dropped")] OwnedSemaphorePermit),
    OfParty(#[expect(dead_code, reason = "it is given back when it is dropped")] Portion),
}

impl CallSlots {
    pub(super) fn new() -> Self {
        Self { without_party: Arc::new(Semaphore::new(MAX_CALLS)), shares: Portions::of(MAX_CALLS, 0) }
    }

    /// A slot for a call. A call without a party waits for one: it is our own, or the only client's. A party that has its
    /// share is busy, and so is the upstream if no slot is free when the call expires.
    pub(super) async fn take(&self, party: Option<Party>, expires: Option<Instant>) -> Result<CallSlot, Failure> {
        let busy = || Failure::new(FailureKind::Busy, "too many calls of this client are under way at the upstream");
        let Some(party) = party else {
            let permit = match Arc::clone(&self.without_party).try_acquire_owned() {
                Ok(permit) => Some(permit),
                // The rare waiting path is boxed, so that the future of a call stays small.
                Err(_) => Box::pin(before(expires, Arc::clone(&self.without_party).acquire_owned()))
                    .await
                    .and_then(Result::ok),
            };
            return permit.map(CallSlot::WithoutParty).ok_or_else(busy);
        };
        // A party without a slot gets its first one, however many parties there are.
        if self.shares.admits(party) { Ok(CallSlot::OfParty(self.shares.portion(party).with(1))) } else { Err(busy()) }
    }
}

/// The output of a future that is ready before a call expires.
pub(super) async fn before<T>(expires: Option<Instant>, future: impl Future<Output = T>) -> Option<T> {
    match expires {
        Some(expires) => tokio::time::timeout_at(expires, future).await.ok(),
        None => Some(future.await),
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn a_party_that_has_all_slots_keeps_no_other_from_its_calls() {
        let slots = CallSlots::new();
        let take = |party| slots.take(party, None).now_or_never();
        let taken = |party| std::iter::from_fn(|| take(party)?.ok()).take(2 * MAX_CALLS).collect::<Vec<_>>();
        let greedy = taken(Some(Party(1)));
        assert_eq!(greedy.len(), MAX_CALLS);
        assert!(matches!(take(Some(Party(1))), Some(Err(Failure { kind: FailureKind::Busy, .. }))));
        let other = taken(Some(Party(2)));
        assert_eq!(other.len(), MAX_CALLS / 2, "an equal part");
        let own = taken(None);
        assert_eq!(own.len(), MAX_CALLS);
        assert!(take(None).is_none(), "it waits");
        drop((greedy, other, own));
        assert!(matches!((take(Some(Party(1))), take(None)), (Some(Ok(_)), Some(Ok(_)))));
    }
}
