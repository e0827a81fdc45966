//! Tests of the authorization client with real sockets. Cases of the conformance suite are not repeated here.

mod fake;

use std::sync::Arc;

use gladhand_auth::AuthError;
use gladhand_auth::client::{MemoryStore, Revocation, TokenStore};
use http::StatusCode;
use serde_json::json;

use fake::Fake;

fn memory() -> Arc<dyn TokenStore> {
    Arc::new(MemoryStore::default())
}

#[tokio::test]
async fn many_challenged_requests_ask_the_user_once() {
    let fake = Fake::start().await;
    let authorizer = fake.authorizer(memory());
    let one = || fake.call(&authorizer);
    let (a, b, c, d) = tokio::join!(one(), one(), one(), one());
    for answer in [a, b, c, d] {
        assert_eq!(answer.unwrap(), StatusCode::OK);
    }
    let world = fake.world.lock().unwrap();
    assert_eq!((world.count("/authorize"), world.count("/register"), world.count("/token")), (1, 1, 1));
}

#[tokio::test]
async fn after_a_restart_the_stored_token_is_used_and_an_old_one_renewed() {
    let kept = Arc::new(MemoryStore::default());
    let store = || kept.clone();
    let fake = Fake::start().await;
    fake.call(&fake.authorizer(store())).await.unwrap();
    fake.call(&fake.authorizer(store())).await.unwrap();
    assert_eq!(fake.world.lock().unwrap().count("/token"), 1);

    let mut record = store().records(fake.url.as_str()).unwrap().remove(0);
    record.grant.as_mut().unwrap().renew_at = Some(1);
    store().keep(&record).unwrap();
    fake.call(&fake.authorizer(store())).await.unwrap();
    let world = fake.world.lock().unwrap();
    assert_eq!((world.count("/authorize"), world.count("/register"), world.count("/token")), (1, 1, 2));
    assert_eq!(world.last("/token", "refresh_token"), Some("more-token-1"));
    assert_eq!(world.last("/token", "client_id"), Some("client-1"));
}

#[tokio::test]
async fn if_a_token_cannot_be_renewed_the_user_is_asked_again() {
    for (code, registrations) in [("invalid_grant", 1), ("invalid_client", 2)] {
        let fake = Fake::start().await;
        let authorizer = fake.authorizer(memory());
        fake.call(&authorizer).await.unwrap();
        {
            let mut world = fake.world.lock().unwrap();
            world.accepted = None;
            world.no_refresh = Some(code);
        }
        fake.call(&authorizer).await.unwrap();
        let world = fake.world.lock().unwrap();
        assert_eq!((world.count("/authorize"), world.count("/register")), (2, registrations), "{code}");
    }
}

#[tokio::test]
async fn a_server_that_rejects_every_token_asks_the_user_once() {
    let fake = Fake::start().await;
    fake.world.lock().unwrap().deaf = true;
    let error = fake.call(&fake.authorizer(memory())).await.unwrap_err();
    assert!(matches!(error, AuthError::TokenRejected { .. }), "{error}");
    assert_eq!(fake.world.lock().unwrap().count("/authorize"), 1);
}

#[tokio::test]
async fn a_token_of_a_type_that_was_not_requested_is_not_used() {
    let fake = Fake::start().await;
    // The authorization server binds tokens to keys without announcing it.
    fake.world.lock().unwrap().dpop = true;
    let error = fake.call(&fake.authorizer(memory())).await.unwrap_err();
    assert!(matches!(error, AuthError::InvalidResponse { .. }), "{error}");
    assert_eq!(fake.world.lock().unwrap().count("/authorize"), 1);
}

#[tokio::test]
async fn wider_scopes_are_requested_once_in_addition_to_earlier_ones() {
    let fake = Fake::start().await;
    let authorizer = fake.authorizer(memory());
    fake.call(&authorizer).await.unwrap();
    fake.world.lock().unwrap().scope = Some("admin");
    fake.call(&authorizer).await.unwrap();
    assert_eq!(fake.world.lock().unwrap().last("/authorize", "scope"), Some("basic admin"));
    // This server never grants a scope that consists of two words.
    fake.world.lock().unwrap().scope = Some("never ever");
    let error = fake.call(&authorizer).await.unwrap_err();
    assert!(matches!(error, AuthError::ScopeNotGranted { .. }), "{error}");
    assert_eq!(fake.world.lock().unwrap().count("/authorize"), 3);
}

#[tokio::test]
async fn a_bound_token_survives_a_restart_with_its_key() {
    let kept = Arc::new(MemoryStore::default());
    let store = || kept.clone();
    let fake = Fake::start().await;
    {
        let mut world = fake.world.lock().unwrap();
        world.dpop = true;
        world.metadata = vec![("dpop_signing_alg_values_supported", json!(["ES256"]))];
    }
    fake.call(&fake.authorizer(store())).await.unwrap();
    fake.call(&fake.authorizer(store())).await.unwrap();
    assert_eq!(fake.world.lock().unwrap().count("/token"), 1);
}

#[tokio::test]
async fn unsafe_authorization_servers_are_not_used() {
    let cases = [
        ("code_challenge_methods_supported", json!(["plain"])),
        ("authorization_endpoint", json!("http://as.example/authorize")),
        ("token_endpoint", json!("file:///token")),
        ("issuer", json!("https://other.example")),
    ];
    for (name, value) in cases {
        let fake = Fake::start().await;
        fake.world.lock().unwrap().metadata = vec![(name, value)];
        let error = fake.call(&fake.authorizer(memory())).await.unwrap_err();
        let expected = matches!(
            error,
            AuthError::MissingFeature { .. } | AuthError::UnsafeAddress { .. } | AuthError::OtherIssuer { .. }
        );
        assert!(expected, "{name}: {error}");
        assert_eq!(fake.world.lock().unwrap().count("/authorize"), 0, "{name}");
    }
}

#[tokio::test]
async fn tokens_are_never_printed() {
    let fake = Fake::start().await;
    let store = Arc::new(MemoryStore::default());
    let authorizer = fake.authorizer(store.clone());
    fake.call(&authorizer).await.unwrap();
    let printed = format!("{authorizer:?} {store:?}");
    assert!(printed.contains("client-1") && !printed.contains("token-1"), "{printed}");
}

#[tokio::test]
async fn signing_out_revokes_if_possible_and_always_deletes() {
    for (endpoint, expected) in [(Some("/revoke"), "Done"), (Some("/away"), "Failed"), (None, "Unsupported")] {
        let fake = Fake::start().await;
        if let Some(path) = endpoint {
            let url = fake.url.join(path).unwrap();
            fake.world.lock().unwrap().metadata = vec![("revocation_endpoint", json!(url.as_str()))];
        }
        let store = memory();
        let authorizer = fake.authorizer(store.clone());
        fake.call(&authorizer).await.unwrap();
        let ended = authorizer.sign_out().await.unwrap();
        let outcome = match &ended[..] {
            [(_, Revocation::Done)] => "Done",
            [(_, Revocation::Failed(_))] => "Failed",
            [(_, Revocation::Unsupported)] => "Unsupported",
            _ => "something else",
        };
        assert_eq!(outcome, expected);
        assert!(store.records(fake.url.as_str()).unwrap().is_empty());
        {
            let world = fake.world.lock().unwrap();
            let revoked: Vec<_> = world.log.iter().filter(|(path, _)| path == "/revoke").collect();
            let tokens: Vec<_> = revoked.iter().map(|(_, form)| form[0].1.as_str()).collect();
            let all: &[&str] = if outcome == "Done" { &["more-token-1", "token-1"] } else { &[] };
            assert_eq!(tokens, all);
        }
        fake.call(&authorizer).await.unwrap();
        assert_eq!(fake.world.lock().unwrap().count("/authorize"), 2, "the token is not used after signing out");
        assert!(fake.authorizer(memory()).sign_out().await.unwrap().is_empty());
    }
}

/// A store that always fails.
#[derive(Debug)]
struct Locked;

impl TokenStore for Locked {
    fn records(&self, _server: &str) -> std::io::Result<Vec<gladhand_auth::client::Record>> {
        Err(std::io::Error::other("it is locked"))
    }

    fn keep(&self, _record: &gladhand_auth::client::Record) -> std::io::Result<()> {
        Err(std::io::Error::other("it is locked"))
    }

    fn forget(&self, _server: &str) -> std::io::Result<()> {
        Err(std::io::Error::other("it is locked"))
    }
}

#[tokio::test]
async fn a_failing_store_only_affects_servers_that_require_a_token() {
    let fake = Fake::start().await;
    fake.world.lock().unwrap().open = true;
    assert_eq!(fake.call(&fake.authorizer(Arc::new(Locked))).await.unwrap(), StatusCode::OK);
    fake.world.lock().unwrap().open = false;
    let error = fake.call(&fake.authorizer(Arc::new(Locked))).await.unwrap_err();
    assert_eq!(error.to_string(), "could not use the token store: it is locked");
    assert_eq!(
        fake.world.lock().unwrap().count("/authorize"),
        0,
        "the user is not asked if the token could not be stored"
    );
}
