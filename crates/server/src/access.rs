//! Who may come in now: the guard of the HTTP endpoint and the passes of A2E. Both may change while the service runs.
//!
//! Each change has a number, its epoch. A request or session remembers the epoch in which it was let in, so that it can be
//! found out later whether its principal has lost access since. To be let in costs a request no more than a look at the
//! state of now; sessions are looked through when something changes.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, RwLock};

use gladhand_auth::resource::Withdrawal;
use gladhand_core::sync::Unpoisoned as _;
use gladhand_dialects::Pass;
use tokio::sync::Notify;

use crate::http::Authorize;

/// Who may come in, and who has lost access.
#[derive(Debug, Default)]
pub struct Access {
    state: RwLock<Arc<State>>,
    /// Counts changes. Written while the state is locked.
    epoch: AtomicU64,
    /// Whether there is a guard, for those who would not look at the state otherwise.
    is_guarded: AtomicBool,
    changed: Notify,
}

#[derive(Debug, Clone, Default)]
struct State {
    guard: Option<Arc<dyn Authorize>>,
    passes: Vec<Pass>,
    withdrawn: Withdrawn,
}

/// The last epoch in which each principal lost access.
#[derive(Debug, Clone, Default)]
struct Withdrawn {
    names: HashMap<String, u64>,
    issuers: HashMap<String, u64>,
    /// Those that came in when there was no guard.
    unnamed: u64,
}

impl Access {
    /// The number of the last change.
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Waits until there is a change after an epoch.
    pub async fn changed_after(&self, epoch: u64) {
        loop {
            let changed = self.changed.notified();
            if self.epoch() != epoch {
                return;
            }
            changed.await;
        }
    }

    /// The guard of the HTTP endpoint, if it has one.
    pub fn guard(&self) -> Option<Arc<dyn Authorize>> {
        if !self.is_guarded.load(Ordering::Acquire) {
            return None;
        }
        self.state().guard.clone()
    }

    /// The passes that let agents in.
    pub fn passes(&self) -> Vec<Pass> {
        self.state().passes.clone()
    }

    /// Whether agents must present a token.
    pub fn asks_for_passes(&self) -> bool {
        self.state().passes.iter().any(|pass| !pass.token.expose().is_empty())
    }

    /// Whether a principal that was let in at an epoch has lost access since; without a name, one that the guard did not
    /// ask for one.
    pub fn has_withdrawn(&self, principal: Option<&str>, epoch: u64) -> bool {
        self.epoch() != epoch && self.state().withdrawn.since(principal, epoch)
    }

    /// Lets agents in with these passes.
    pub fn set_passes(&self, passes: Vec<Pass>) {
        self.change(|state, _| state.passes = passes);
    }

    /// Lets requests over HTTP in if this guard accepts them. The sessions of principals that the change withdraws end. If
    /// there was no guard, so do the sessions of clients that were not asked for a token.
    pub fn set_guard(&self, guard: Arc<dyn Authorize>, withdrawal: Withdrawal) {
        self.change(|state, epoch| {
            if state.guard.replace(guard).is_none() {
                state.withdrawn.unnamed = epoch;
            }
            state.withdrawn.add(withdrawal, epoch);
        });
    }

    fn change(&self, change: impl FnOnce(&mut State, u64)) {
        let mut state = self.state.write().unpoisoned();
        let epoch = self.epoch() + 1;
        let mut next = State::clone(&state);
        change(&mut next, epoch);
        self.is_guarded.store(next.guard.is_some(), Ordering::Release);
        *state = Arc::new(next);
        self.epoch.store(epoch, Ordering::Release);
        drop(state);
        self.changed.notify_waiters();
    }

    fn state(&self) -> Arc<State> {
        Arc::clone(&self.state.read().unpoisoned())
    }
}

impl Withdrawn {
    fn add(&mut self, withdrawal: Withdrawal, epoch: u64) {
        let Withdrawal { names, issuers } = withdrawal;
        for name in &names {
            tracing::warn!(name, "a token was taken back: it is refused from now on");
        }
        self.names.extend(names.into_iter().map(|name| (name, epoch)));
        self.issuers.extend(issuers.into_iter().map(|issuer| (issuer, epoch)));
    }

    fn since(&self, principal: Option<&str>, epoch: u64) -> bool {
        let Some(principal) = principal else { return self.unnamed > epoch };
        let is_later = |known: Option<&u64>| known.is_some_and(|withdrawn| *withdrawn > epoch);
        // A principal of an issuer is named by issuer and subject.
        let issuer = principal.split_once(' ').map_or("", |(issuer, _)| issuer);
        is_later(self.names.get(principal)) || is_later(self.issuers.get(issuer))
    }
}

#[cfg(test)]
mod tests {
    use gladhand_core::Secret;

    use super::*;
    use crate::http::Authorized;

    /// A guard that accepts every request.
    #[derive(Debug)]
    struct Open;

    impl Authorize for Open {
        fn authorize<'a>(
            &'a self,
            _: &'a http::request::Parts,
        ) -> std::pin::Pin<Box<dyn Future<Output = Authorized> + Send + 'a>> {
            Box::pin(std::future::ready(Ok(None)))
        }
    }

    fn pass(token: &str) -> Pass {
        Pass::any(Secret::new(token))
    }

    #[test]
    fn a_new_guard_withdraws_named_principals_and_the_first_guard_all_unnamed_ones() {
        let access = Access::default();
        assert!(access.guard().is_none());
        access.set_guard(Arc::new(Open), Withdrawal::default());
        let since = access.epoch();
        assert!(access.guard().is_some() && access.has_withdrawn(None, 0));
        let issuers = vec!["https://one.example".to_owned()];
        access.set_guard(Arc::new(Open), Withdrawal { names: vec!["ann".to_owned()], issuers });
        assert!(
            access.has_withdrawn(Some("ann"), since) && access.has_withdrawn(Some("https://one.example eve"), since)
        );
        assert!(!access.has_withdrawn(Some("bob"), since) && !access.has_withdrawn(None, since));
        assert!(!access.has_withdrawn(Some("ann"), access.epoch()));
    }

    #[tokio::test]
    async fn a_change_of_access_wakes_its_waiters() {
        let access = Arc::new(Access::default());
        let waiting = tokio::spawn({
            let access = Arc::clone(&access);
            async move { access.changed_after(0).await }
        });
        tokio::task::yield_now().await;
        access.set_passes(vec![pass("p")]);
        waiting.await.unwrap();
        access.changed_after(0).await;
    }
}
