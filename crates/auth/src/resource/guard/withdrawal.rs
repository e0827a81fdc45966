//! Which principals lose access when the guard changes: those that the old guard accepts and the new one refuses.
//!
//! The answer is by principal, not by token, because a session belongs to a principal. It can contain too many
//! principals, never too few: a principal that still has access opens a new session with its next request.

use super::{Dpop, Guard, KnownToken};
use crate::resource::Withdrawal;

impl Guard {
    /// The principals that this guard accepts and `next` refuses, or accepts with fewer scopes.
    pub fn withdrawn_by(&self, next: &Self) -> Withdrawal {
        let names = self.tokens.iter().filter(|token| !next.keeps_token(token)).map(|token| token.name.clone());
        let are_all_out = !self.scopes.cover(&next.scopes)
            || !self.verifier.audiences().iter().all(|audience| next.verifier.audiences().contains(audience))
            || next.dpop != self.dpop && next.dpop != Dpop::Accepted;
        let issuers = self.issuers.iter().filter(|issuer| are_all_out || !next.issuers.contains(issuer));
        Withdrawal { names: names.collect(), issuers: issuers.map(|issuer| issuer.issuer.clone()).collect() }
    }

    /// Continues the work of another guard: proofs that were used there are not accepted again.
    pub fn succeeding(mut self, previous: &Self) -> Self {
        if let (Some(proofs), Some(previous)) = (&mut self.proofs, &previous.proofs) {
            proofs.take_over(previous);
        }
        self
    }

    /// Whether this guard knows a token of an earlier guard, for the same principal and with no fewer scopes.
    fn keeps_token(&self, old: &KnownToken) -> bool {
        let is_same = |new: &&KnownToken| new.name == old.name && new.token.matches(&old.token);
        let known = self.tokens.iter().find(is_same);
        known.is_some_and(|new| new.scopes.cover(&old.scopes) && new.scopes.cover(&self.scopes))
    }
}

#[cfg(test)]
mod tests {
    use gladhand_core::Secret;
    use url::Url;

    use super::super::{Issuer, KeySource, Policy};
    use super::*;
    use crate::scopes::Scopes;

    fn token(name: &str, token: &str, scopes: &str) -> KnownToken {
        KnownToken { name: name.to_owned(), token: Secret::new(token), scopes: Scopes::parse(scopes) }
    }

    fn issuer(issuer: &str, file: &str) -> Issuer {
        Issuer { issuer: issuer.to_owned(), keys: KeySource::File(file.into()) }
    }

    fn policy() -> Policy {
        Policy {
            resource: Some(Url::parse("https://me.example/mcp").unwrap()),
            audiences: vec!["also-me".to_owned()],
            issuers: vec![issuer("https://one.example", "/one"), issuer("https://two.example", "/two")],
            tokens: vec![token("ann", "a", "x y"), token("bob", "b", "x")],
            ..Policy::default()
        }
    }

    fn withdrawn(next: Policy) -> (Vec<String>, Vec<String>) {
        let old = Guard::new(policy()).unwrap();
        let Withdrawal { names, issuers } = old.withdrawn_by(&Guard::new(next).unwrap());
        (names, issuers.into_iter().map(|issuer| issuer.replace("https://", "").replace(".example", "")).collect())
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_removed_changed_or_reduced_token_withdraws_its_principal() {
        let with = |tokens: Vec<KnownToken>| withdrawn(Policy { tokens, ..policy() }).0;
        assert_eq!(with(vec![token("bob", "b", "x"), token("ann", "a", "y x z"), token("eve", "e", "")]), names(&[]));
        assert_eq!(with(vec![token("bob", "b", "x")]), names(&["ann"]));
        assert_eq!(with(vec![token("ann", "a", "x y"), token("bob", "other", "x")]), names(&["bob"]));
        assert_eq!(with(vec![token("ann", "a", "x"), token("bob", "b", "x")]), names(&["ann"]));
        assert_eq!(with(vec![token("bob", "a", "x y"), token("ann", "b", "x")]), names(&["ann", "bob"]));
        let stricter = Policy { scopes: Scopes::parse("y"), ..policy() };
        assert_eq!(withdrawn(stricter), (names(&["bob"]), names(&["one", "two"])));
    }

    #[test]
    fn a_removed_or_restricted_issuer_withdraws_all_its_principals() {
        let issuers = |next: Policy| withdrawn(next).1;
        assert_eq!(issuers(policy()), names(&[]));
        assert_eq!(issuers(Policy { issuers: vec![issuer("https://two.example", "/two")], ..policy() }), ["one"]);
        let moved = vec![issuer("https://one.example", "/one"), issuer("https://two.example", "/elsewhere")];
        assert_eq!(issuers(Policy { issuers: moved, ..policy() }), ["two"]);
        for all in [
            Policy { audiences: Vec::new(), ..policy() },
            Policy { resource: Some(Url::parse("https://you.example/mcp").unwrap()), ..policy() },
            Policy { dpop: Dpop::Required, ..policy() },
            Policy { dpop: Dpop::Off, ..policy() },
        ] {
            assert_eq!(issuers(all), ["one", "two"]);
        }
        let wider = vec!["more".to_owned(), "also-me".to_owned()];
        assert_eq!(issuers(Policy { audiences: wider, ..policy() }), names(&[]));
    }
}
