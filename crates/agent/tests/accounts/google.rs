//! Tests of the Antigravity login.

use gladhand_agent::accounts::Accounts;
use serde_json::json;

use crate::service::Service;
use crate::{RecordedEvents, antigravity_models, parameter, seed, settings, shown, visit};

fn script(service: &Service) {
    service
        .has("/gtoken", json!({"access_token": "g-access", "refresh_token": "g-refresh", "expires_in": 3600}))
        .has(
            "/profile",
            json!({"email": "user@example.test", "name": "Test User", "picture": "https://example.test/p"}),
        )
        .has("/cc/v1internal:loadCodeAssist", json!({"cloudaicompanionProject": "proj-1"}))
        .has("/cc/v1internal:fetchAvailableModels", antigravity_models());
}

#[tokio::test]
async fn a_browser_signs_in_with_a_proof_and_a_state() {
    let (folder, service) = (tempfile::tempdir().unwrap(), Service::start().await);
    script(&service);
    let accounts = Accounts::open(settings(folder.path(), &service));
    let events = RecordedEvents::default();
    let send_event = |event| events.record(event);
    let person = async {
        let url = events.url().await;
        assert!(url.as_str().starts_with("https://accounts.google.com/o/oauth2/v2/auth?access_type=offline&scope="));
        assert!(url.as_str().contains("cloud-platform%20https%3A%2F%2Fwww.googleapis.com"), "{url}");
        assert_eq!(parameter(&url, "code_challenge_method"), "S256");
        let redirect = parameter(&url, "redirect_uri");
        // A request without a code changes nothing.
        assert_eq!(visit(&redirect).await.0, 400);
        let state = parameter(&url, "state");
        let (status, _, next) = visit(&format!("{redirect}?code=g0&state={state}")).await;
        assert_eq!((status, next.as_deref()), (302, Some("/oauth-success")));
        assert_eq!(visit(&redirect.replace("/oauth-callback", "/oauth-success")).await.0, 200);
    };
    let (connected, ()) = tokio::join!(accounts.connect_antigravity(&send_event), person);
    let connected = connected.unwrap();
    let profile = json!({"email": "user@example.test", "name": "Test User", "picture": "https://example.test/p"});
    let completed = json!({"provider": "antigravity", "profile": profile});
    assert_eq!((connected.reason, shown(connected.result)), ("auth_antigravity_connected", completed.clone()));
    let kinds: Vec<_> = events.all().into_iter().map(|(kind, _)| kind).collect();
    assert_eq!(kinds, ["auth.flow.started", "auth.flow.url", "auth.flow.completed"]);
    assert_eq!(events.all()[2].1, completed);
    let snapshot = shown(accounts.snapshot());
    assert_eq!(snapshot["auth"]["antigravityProfile"], profile);
    assert_eq!(snapshot["model"]["selectedModel"], "gemini-3-pro-high");

    let trade = &service.seen("/gtoken")[0];
    assert_eq!(trade.form("client_secret").as_deref(), Some("client-secret"));
    assert!(trade.form("code_verifier").is_some());
    assert_eq!(service.seen("/profile")[0].header("authorization"), Some("Bearer g-access"));
    assert!(accounts.ready(&accounts.chosen(None)).is_ok());
}

#[tokio::test]
async fn a_refused_or_forged_redirect_does_not_sign_in() {
    let (folder, service) = (tempfile::tempdir().unwrap(), Service::start().await);
    let accounts = Accounts::open(settings(folder.path(), &service));
    for (query, page, message) in [
        ("error=access_denied", "Authentication failed: access_denied", "OAuth authorization failed: access_denied"),
        ("code=g0&state=other", "State mismatch.", "OAuth login rejected due to state mismatch."),
        ("code=g0", "State mismatch.", "OAuth login rejected due to state mismatch."),
    ] {
        let events = RecordedEvents::default();
        let send_event = |event| events.record(event);
        let person = async {
            let redirect = parameter(&events.url().await, "redirect_uri");
            let (status, body, _) = visit(&format!("{redirect}?{query}")).await;
            assert_eq!((status, body.as_str()), (400, page));
        };
        let (connected, ()) = tokio::join!(accounts.connect_antigravity(&send_event), person);
        assert_eq!(connected.unwrap_err().message, message);
        let failed = json!({"provider": "antigravity", "message": message});
        assert_eq!(events.all().last().unwrap(), &("auth.flow.failed", failed));
    }
    assert!(service.seen("/gtoken").is_empty());
}

#[tokio::test]
async fn an_expired_login_is_renewed_at_the_start() {
    let (folder, service) = (tempfile::tempdir().unwrap(), Service::start().await);
    script(&service);
    let kept = json!({"version": 1, "accessToken": "tok-g", "refreshToken": "ref-g", "expiryDateSeconds": 5,
        "tokenType": "Bearer"});
    seed(folder.path(), &json!({"antigravity_oauth_token_info": kept.to_string()}));
    let accounts = Accounts::open(settings(folder.path(), &service));
    accounts.refresh().await;
    // The profile and the models both needed the login, and were served by one renewal.
    let renewals = service.seen("/gtoken");
    assert_eq!(renewals.len(), 1);
    assert_eq!(renewals[0].form("refresh_token").as_deref(), Some("ref-g"));
    for path in ["/profile", "/cc/v1internal:loadCodeAssist", "/cc/v1internal:fetchAvailableModels"] {
        assert_eq!(service.seen(path)[0].header("authorization"), Some("Bearer g-access"), "{path}");
    }
    assert_eq!(shown(accounts.snapshot())["auth"]["antigravityProfile"]["name"], "Test User");
}
