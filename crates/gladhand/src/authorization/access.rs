//! Who may come in now: the guard of the HTTP endpoint and the passes of A2E. Both follow the configuration.
//!
//! Each change has a number, its epoch. A request or session remembers the epoch in which it was let in, so that it can be
//! found out later whether its principal has lost access since. To be let in costs a request no more than a look at the
//! state of now; sessions are looked through when something changes.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use gladhand_a2e_host::owner;
use gladhand_auth::AuthError;
use gladhand_auth::resource::{Guard, Policy, Withdrawal};
use gladhand_core::Secret;
use gladhand_dialects::Pass;
use tokio::sync::Notify;

/// Whom the HTTP endpoint lets in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Admission {
    /// Every client that can reach it.
    #[default]
    Everyone,
    /// No client.
    NoOne,
    /// Clients with a token that the policy accepts.
    Policy(Box<Policy>),
}

impl Admission {
    /// The guard that decides so; none where every client is let in.
    fn guard(&self) -> Result<Option<Guard>, AuthError> {
        match self {
            Self::Everyone => Ok(None),
            Self::NoOne => Ok(Some(Guard::closed())),
            Self::Policy(policy) => Guard::new(Policy::clone(policy)).map(Some),
        }
    }
}

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
    guard: Option<Arc<Guard>>,
    /// What the guard was made from.
    admission: Admission,
    passes: Vec<Pass>,
    /// Whether the configuration has no pass any more, so that the one above is one that no one has.
    has_lost_passes: bool,
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
    pub fn guard(&self) -> Option<Arc<Guard>> {
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

    /// Lets in whom these two name and no one else, and returns whether that changed something. An unusable policy changes
    /// nothing.
    ///
    /// An endpoint that asked for tokens and has none any more lets in no one.
    pub fn follow(&self, admission: &Admission, passes: Vec<Pass>) -> Result<bool, AuthError> {
        let now = self.state();
        let is_new_guard = *admission != now.admission;
        let guard = if is_new_guard { admission.guard()? } else { None };
        let is_new_pass = if now.has_lost_passes { !passes.is_empty() } else { !are_same(&passes, &now.passes) };
        if is_new_guard {
            self.change(|state, epoch| state.guarded(guard, admission, epoch));
        }
        if is_new_pass {
            self.change(|state, _| {
                state.has_lost_passes = passes.is_empty();
                state.passes = if passes.is_empty() { vec![unknown_pass()] } else { passes };
            });
        }
        Ok(is_new_guard || is_new_pass)
    }

    fn change(&self, change: impl FnOnce(&mut State, u64)) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
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
        Arc::clone(&self.state.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl State {
    fn guarded(&mut self, next: Option<Guard>, admission: &Admission, epoch: u64) {
        self.admission = admission.clone();
        let Some(old) = &self.guard else {
            if let Some(next) = next {
                self.withdrawn.unnamed = epoch;
                self.guard = Some(Arc::new(next));
            }
            return;
        };
        let next = next.unwrap_or_else(|| {
            tracing::warn!(
                "[authorization] has no token and no issuer any more: no request is let in until a token is added; the next start is open to everybody who can reach it"
            );
            Guard::closed()
        });
        self.withdrawn.add(old.withdrawn_by(&next), epoch);
        self.guard = Some(Arc::new(next.succeeding(old)));
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

/// A pass that no one has: the last one was taken back, and an empty list would let in everyone.
fn unknown_pass() -> Pass {
    tracing::warn!("[a2e] has no token any more: no agent is let in until the next start");
    Pass::any(random_token())
}

/// A pass for a token that any agent may use. A token without a name is its own principal.
pub fn unnamed_pass(token: Secret) -> Pass {
    Pass { principal: Some(owner::of_token(&token)), ..Pass::any(token) }
}

/// A token that no client has.
fn random_token() -> Secret {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).expect("the operating system has random bytes once it has booted");
    Secret::new(bytes.map(|byte| format!("{byte:02x}")).concat())
}

fn are_same(some: &[Pass], others: &[Pass]) -> bool {
    let is_same = |one: &Pass, other: &Pass| {
        one.token.matches(&other.token)
            && (&one.client, &one.capabilities, &one.principal)
                == (&other.client, &other.capabilities, &other.principal)
    };
    some.len() == others.len() && some.iter().zip(others).all(|(one, other)| is_same(one, other))
}

#[cfg(test)]
mod tests {
    use gladhand_auth::Scopes;
    use gladhand_auth::resource::{Issuer, KeySource, KnownToken};

    use super::*;

    fn config(tokens: &[(&str, &str)]) -> Admission {
        let known = |(name, token): &(&str, &str)| KnownToken {
            name: (*name).to_owned(),
            token: Secret::new(*token),
            scopes: Scopes::default(),
        };
        match tokens {
            [] => Admission::Everyone,
            _ => {
                let tokens = tokens.iter().map(known).collect();
                Admission::Policy(Box::new(Policy { tokens, ..Policy::default() }))
            }
        }
    }

    fn with_issuer(issuer: &str) -> Admission {
        let issuers = vec![Issuer { issuer: issuer.to_owned(), keys: KeySource::File("/nowhere".into()) }];
        let resource = Some("https://me.example".parse().unwrap());
        Admission::Policy(Box::new(Policy { issuers, resource, ..Policy::default() }))
    }

    fn pass(token: &str) -> Pass {
        Pass::any(Secret::new(token))
    }

    #[test]
    fn only_the_principal_of_a_removed_token_loses_access() {
        let access = Access::default();
        assert!(access.guard().is_none());
        assert!(access.follow(&config(&[("ann", "a"), ("bob", "b")]), Vec::new()).unwrap());
        let since = access.epoch();
        assert!(access.guard().is_some());
        assert!(access.has_withdrawn(None, 0), "who came in before there was a guard");
        assert!(!access.follow(&config(&[("ann", "a"), ("bob", "b")]), Vec::new()).unwrap(), "nothing is different");
        assert_eq!(access.epoch(), since);
        assert!(access.follow(&config(&[("bob", "b")]), Vec::new()).unwrap());
        assert!(access.has_withdrawn(Some("ann"), since) && !access.has_withdrawn(Some("bob"), since));
        assert!(access.follow(&config(&[("bob", "b"), ("ann", "new")]), Vec::new()).unwrap());
        assert!(access.has_withdrawn(Some("ann"), since) && !access.has_withdrawn(Some("ann"), access.epoch()));
    }

    #[test]
    fn what_was_closed_stays_closed() {
        let access = Access::default();
        access.follow(&config(&[("ann", "a")]), vec![pass("p")]).unwrap();
        let since = access.epoch();
        access.follow(&config(&[]), Vec::new()).unwrap();
        assert!(access.guard().is_some() && access.has_withdrawn(Some("ann"), since));
        assert!(access.asks_for_passes() && !access.passes()[0].token.matches(&Secret::new("p")));
        assert!(!access.follow(&config(&[]), Vec::new()).unwrap(), "nothing is different");
        // With a token again, it is open to that one.
        access.follow(&config(&[("bob", "b")]), vec![pass("q")]).unwrap();
        assert!(are_same(&access.passes(), &[pass("q")]));
    }

    #[test]
    fn a_pass_that_stands_for_another_principal_is_another_one() {
        let of = |principal: &str| vec![Pass { principal: Some(principal.into()), ..pass("p") }];
        let access = Access::default();
        access.set_passes(of("named:team"));
        assert!(!access.follow(&config(&[]), of("named:team")).unwrap());
        assert!(access.follow(&config(&[]), of("named:ops")).unwrap());
        assert_eq!(access.passes()[0].principal.as_deref(), Some("named:ops"));
    }

    #[test]
    fn a_policy_that_cannot_be_used_changes_nothing() {
        let access = Access::default();
        access.follow(&config(&[("ann", "a")]), vec![pass("p")]).unwrap();
        let since = access.epoch();
        access.follow(&with_issuer("no address"), Vec::new()).unwrap_err();
        assert_eq!(access.epoch(), since);
        assert!(are_same(&access.passes(), &[pass("p")]));
    }

    #[test]
    fn all_principals_of_a_removed_issuer_lose_access() {
        let with = |issuer: &str| with_issuer(&format!("https://{issuer}.example"));
        let access = Access::default();
        access.follow(&with("one"), Vec::new()).unwrap();
        let since = access.epoch();
        access.follow(&with("two"), Vec::new()).unwrap();
        assert!(access.has_withdrawn(Some("https://one.example ann"), since));
        assert!(!access.has_withdrawn(Some("https://two.example ann"), since));
    }

    #[tokio::test]
    async fn a_change_is_told() {
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
