//! Tests of the OpenAI login, against an issuer that replays recorded responses of the real one.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use gladhand_agent::accounts::Accounts;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{Mutex, MutexGuard};

use crate::service::Service;
use crate::{RecordedEvents, codex_models, parameter, seed, selected, settings, shown, visit};

/// The issuer knows one port, so only one browser login can run at a time.
static PORT: Mutex<()> = Mutex::const_new(());

/// A token with these claims.
fn token(claims: &Value) -> String {
    format!("h.{}.s", URL_SAFE_NO_PAD.encode(claims.to_string()))
}

struct Scene {
    folder: tempfile::TempDir,
    service: Service,
    accounts: Arc<Accounts>,
    events: RecordedEvents,
    _port: MutexGuard<'static, ()>,
}

impl Scene {
    async fn new() -> Self {
        let port = PORT.lock().await;
        let (folder, service) = (tempfile::tempdir().unwrap(), Service::start().await);
        service.has("/codex/models", codex_models());
        let accounts = Accounts::open(settings(folder.path(), &service));
        Self { folder, service, accounts, events: RecordedEvents::default(), _port: port }
    }

    /// Runs a login. Returns the error message if it fails.
    async fn connect(&self, mode: &str, originator: Option<&str>) -> Result<Value, String> {
        let send_event = |event| self.events.record(event);
        let connected = self.accounts.connect_openai(Some(mode), originator, &send_event).await;
        connected.map(|changed| shown(changed.result)).map_err(|failure| failure.message)
    }

    /// Checks that a failure was reported both as an event and in the answer.
    fn assert_failed(&self, message: &str) {
        let events = self.events.all();
        assert_eq!(events.first().unwrap(), &("auth.flow.started", json!({"provider": "openai"})));
        assert_eq!(events.last().unwrap(), &("auth.flow.failed", json!({"provider": "openai", "message": message})));
    }
}

const USERCODE: &str = "/issuer/api/accounts/deviceauth/usercode";
const POLL: &str = "/issuer/api/accounts/deviceauth/token";
const TOKEN: &str = "/issuer/oauth/token";

#[tokio::test]
async fn a_device_code_signs_in() {
    let scene = Scene::new().await;
    let id = token(&json!({"https://api.openai.com/auth": {"chatgpt_account_id": "acct-77"}}));
    scene
        .service
        .has(USERCODE, json!({"device_auth_id": "dev-1", "user_code": "ABCD-1234", "interval": "1", "expires_in": 600}))
        .says(POLL, 403, "pending")
        .has(POLL, json!({"authorization_code": "code-1", "code_verifier": "ver-1"}))
        .has(TOKEN, json!({"id_token": id, "access_token": "acc-1", "refresh_token": "ref-1"}))
        .says(TOKEN, 400, "no key for you");
    let completed = json!({"provider": "openai", "login_method": "device_code", "account_id": "acct-77"});
    assert_eq!(scene.connect("device_code", None).await.unwrap(), completed);

    let page = scene.service.at("/issuer/codex/device");
    let expected = [
        ("auth.flow.started", json!({"provider": "openai"})),
        ("auth.flow.url", json!({"provider": "openai", "url": page})),
        (
            "auth.flow.device_code",
            json!({"provider": "openai", "verification_url": page, "user_code": "ABCD-1234", "interval_seconds": 1,
                "expires_in_seconds": 600}),
        ),
        ("auth.flow.completed", completed),
    ];
    assert_eq!(scene.events.all(), expected);
    let first = json!({"selectedModel": "gpt-5-codex", "selectedThinking": "HIGH", "selectedOpenRouterProvider": "any",
        "selectedProvider": "openai"});
    assert_eq!(selected(&scene.accounts), first);

    assert_eq!(scene.service.seen(USERCODE)[0].body, r#"{"client_id":"client-1"}"#);
    assert_eq!(scene.service.seen(POLL).len(), 2);
    let trade = &scene.service.seen(TOKEN)[0];
    for (name, value) in [
        ("grant_type", "authorization_code"),
        ("code", "code-1"),
        ("code_verifier", "ver-1"),
        ("client_id", "client-1"),
        ("redirect_uri", &scene.service.at("/issuer/deviceauth/callback")),
    ] {
        assert_eq!(trade.form(name).as_deref(), Some(value));
    }
    let auth: Value =
        serde_json::from_str(&std::fs::read_to_string(scene.folder.path().join("data/auth.json")).unwrap()).unwrap();
    assert_eq!((&auth["auth_mode"], &auth["tokens"]), (&json!("chatgpt"), &json!({"account_id": "acct-77"})));
    // The login survives a restart.
    let again = Accounts::open(settings(scene.folder.path(), &scene.service));
    assert!(again.auth_status().has_openai_token);
    assert!(!format!("{again:?}").contains("acc-1"));
}

#[tokio::test]
async fn a_browser_signs_in_and_sees_the_welcome_page() {
    let scene = Scene::new().await;
    scene.service.has(TOKEN, json!({"id_token": "not-a-jwt", "access_token": "acc-2", "refresh_token": "ref-2"}));
    let person = async {
        let url = scene.events.url().await;
        let names: Vec<String> = url.query_pairs().map(|(name, _)| name.into_owned()).collect();
        let expected = "response_type client_id redirect_uri scope code_challenge code_challenge_method \
            id_token_add_organizations codex_cli_simplified_flow originator state";
        assert_eq!(names.join(" "), expected);
        assert_eq!(parameter(&url, "scope"), "openid profile email offline_access");
        assert_eq!(parameter(&url, "originator"), "my-client");
        assert_eq!(parameter(&url, "code_challenge_method"), "S256");
        let (redirect, state) = (parameter(&url, "redirect_uri"), parameter(&url, "state"));
        assert!(redirect.ends_with("/auth/callback"), "{redirect}");
        let (status, body, next) = visit(&format!("{redirect}?code=c0de&state={state}")).await;
        let success = redirect.replace("/auth/callback", "/success");
        assert_eq!((status, body.as_str(), next.as_ref()), (302, "", Some(&success)));
        let (status, body, _) = visit(&success).await;
        assert!(status == 200 && body.contains("signed in"), "{body}");
        parameter(&url, "code_challenge")
    };
    let (connected, challenge) = tokio::join!(scene.connect("browser", Some("my-client")), person);
    let completed = json!({"provider": "openai", "login_method": "browser", "account_id": null});
    assert_eq!(connected.unwrap(), completed);
    assert_eq!(scene.events.all().last().unwrap(), &("auth.flow.completed", completed));
    let verifier = scene.service.seen(TOKEN)[0].form("code_verifier").unwrap();
    let digest = ring::digest::digest(&ring::digest::SHA256, verifier.as_bytes());
    assert_eq!((URL_SAFE_NO_PAD.encode(digest), verifier.len()), (challenge, 86));
}

#[tokio::test]
async fn a_failed_sign_in_page_shows_the_reason() {
    let scene = Scene::new().await;
    for (target, (status, page), message) in [
        ("/auth/callback?code=x&state=wrong", (400, "State mismatch."), "OAuth login failed: state mismatch."),
        (
            "/auth/callback?error=denied&error_description=user+said+no&state=STATE",
            (400, "user said no"),
            "OAuth login failed: user said no",
        ),
        ("/cancel", (200, "Login cancelled."), "OAuth login cancelled."),
    ] {
        scene.events.0.lock().unwrap().clear();
        let person = async {
            let url = scene.events.url().await;
            let home = parameter(&url, "redirect_uri").replace("/auth/callback", "");
            assert_eq!(visit(&format!("{home}/elsewhere")).await.0, 404);
            let target = target.replace("STATE", &parameter(&url, "state"));
            let (seen, body, _) = visit(&format!("{home}{target}")).await;
            assert_eq!((seen, body.as_str()), (status, page));
        };
        let (connected, ()) = tokio::join!(scene.connect("browser", None), person);
        assert_eq!(connected.unwrap_err(), message);
        scene.assert_failed(message);
    }
    assert!(scene.service.seen(TOKEN).is_empty());
    assert!(!scene.accounts.auth_status().has_openai_token);
}

#[tokio::test]
async fn an_issuer_without_device_codes_is_detected() {
    let scene = Scene::new().await;
    scene.service.says(USERCODE, 404, "x").says(USERCODE, 500, "boom").has(USERCODE, json!({"user_code": ""}));
    for message in [
        "Device code login is not enabled for this OAuth issuer.",
        "Device code request failed (500): boom",
        "Device code request returned an incomplete payload.",
    ] {
        assert_eq!(scene.connect("device_code", None).await.unwrap_err(), message);
        scene.assert_failed(message);
    }
    scene.service.drops(USERCODE).has(USERCODE, json!({"device_auth_id": "dev-1", "usercode": "X"})).says(
        POLL,
        410,
        format!("gone {}", "y".repeat(300)),
    );
    let message = format!("Device code poll failed (410): gone {}", "y".repeat(175));
    assert_eq!(scene.connect("device_code", None).await.unwrap_err(), message);
    let (_, shown) = scene.events.all().into_iter().rfind(|(kind, _)| *kind == "auth.flow.device_code").unwrap();
    assert_eq!((&shown["interval_seconds"], &shown["expires_in_seconds"]), (&json!(5), &json!(900)));
}

#[tokio::test]
async fn a_refused_code_is_not_repeated_in_the_error() {
    let scene = Scene::new().await;
    scene
        .service
        .has(USERCODE, json!({"device_auth_id": "dev-1", "user_code": "X"}))
        .has(POLL, json!({"authorization_code": "code-1", "code_verifier": "ver-1"}))
        .says(TOKEN, 400, "code-1 with ver-1 is used up")
        .has(TOKEN, json!({"access_token": "acc"}));
    let message = scene.connect("device_code", None).await.unwrap_err();
    assert_eq!(message, "OAuth token exchange failed (400): *** with *** is used up");
    let message = scene.connect("device_code", None).await.unwrap_err();
    assert_eq!(message, "OAuth token exchange returned an incomplete payload.");
}

#[tokio::test]
async fn a_login_without_a_client_id_names_the_missing_setting() {
    let (folder, service) = (tempfile::tempdir().unwrap(), Service::start().await);
    let mut settings = settings(folder.path(), &service);
    settings.openai.client_id = None;
    settings.google.client_id = None;
    let accounts = Accounts::open(settings);
    let events = RecordedEvents::default();
    let send_event = |event| events.record(event);
    let message = accounts.connect_openai(None, None, &send_event).await.unwrap_err().message;
    assert!(message.contains("GLADHAND_OPENAI_CLIENT_ID"), "{message}");
    let message = accounts.connect_antigravity(&send_event).await.unwrap_err().message;
    assert!(message.contains("GLADHAND_GOOGLE_CLIENT_ID"), "{message}");
    let kinds: Vec<_> = events.all().into_iter().map(|(kind, _)| kind).collect();
    assert_eq!(kinds, ["auth.flow.started", "auth.flow.failed", "auth.flow.started", "auth.flow.failed"]);
}

#[tokio::test]
async fn a_cancelled_login_releases_its_port() {
    let scene = Scene::new().await;
    let mut headless = settings(scene.folder.path(), &scene.service);
    headless.headless = true;
    let accounts = Accounts::open(headless);
    let send_event = |event| scene.events.record(event);
    // In `auto` mode, an issuer without device codes is used with a browser instead.
    let port = {
        let login = accounts.connect_openai(Some("auto"), None, &send_event);
        tokio::pin!(login);
        let url = tokio::select! {
            url = scene.events.url() => url,
            connected = &mut login => panic!("{connected:?}"),
        };
        assert_eq!(scene.service.seen(USERCODE).len(), 1);
        url::Url::parse(&parameter(&url, "redirect_uri")).unwrap().port().unwrap()
    };
    TcpListener::bind(("127.0.0.1", port)).await.unwrap();
}

#[tokio::test]
async fn a_login_is_renewed_before_it_expires_and_once_when_rejected() {
    let scene = Scene::new().await;
    let kept = json!({"version": 1, "accessToken": token(&json!({"exp": 1})), "refreshToken": "ref-1"}).to_string();
    seed(scene.folder.path(), &json!({"openai_chatgpt_auth": kept}));
    scene
        .service
        .has(TOKEN, json!({"access_token": "acc-2", "refresh_token": "ref-2"}))
        .has(TOKEN, json!({"access_token": "acc-3"}))
        .says(TOKEN, 400, "used up")
        .drops("/codex/models")
        .has("/codex/models", codex_models())
        .says("/codex/models", 401, "old")
        .has("/codex/models", codex_models())
        .says("/codex/models", 401, "old");
    let accounts = Accounts::open(settings(scene.folder.path(), &scene.service));
    accounts.refresh().await;
    accounts.refresh().await;
    accounts.refresh().await;
    let shown: Vec<_> = scene.service.seen("/codex/models").into_iter().collect();
    let shown: Vec<_> = shown.iter().map(|seen| seen.header("authorization").unwrap()).collect();
    assert_eq!(shown, ["Bearer acc-2", "Bearer acc-2", "Bearer acc-3", "Bearer acc-3"]);
    let renewals: Vec<_> = scene.service.seen(TOKEN).iter().map(|seen| seen.form("refresh_token").unwrap()).collect();
    assert_eq!(renewals, ["ref-1", "ref-2", "ref-2"]);
}
