//! Tests of keys, onboarding, prompts, limits, and deleting all of it.

use gladhand_agent::accounts::Accounts;
use serde_json::{Value, json};

use crate::service::Service;
use crate::{antigravity_models, codex_models, openrouter_models, seed, selected, settings, shown};

#[tokio::test]
async fn a_key_is_stored_sealed_and_gives_access_to_models() {
    let (folder, service) = (tempfile::tempdir().unwrap(), Service::start().await);
    let accounts = Accounts::open(settings(folder.path(), &service));

    // The service does not respond yet, and nothing is cached.
    let set = accounts.set_openrouter_key("  sk-or-test  ").await.unwrap();
    assert_eq!(set.reason, "openrouter_key_updated");
    assert_eq!(shown(set.result), json!({"configured": true, "model_count": 0, "source": "fallback"}));
    let note = accounts.ready(&accounts.chosen(None)).unwrap_err();
    assert_eq!(note, "select a model from an enabled provider first");

    service.has("/or/models", openrouter_models());
    let set = accounts.set_openrouter_key("sk-or-test").await.unwrap();
    assert_eq!(shown(set.result), json!({"configured": true, "model_count": 2, "source": "remote"}));
    service.drops("/or/models");
    let set = accounts.set_openrouter_key("sk-or-test").await.unwrap();
    assert_eq!(shown(set.result), json!({"configured": true, "model_count": 2, "source": "cache"}));
    assert_eq!(service.seen("/or/models")[0].header("authorization"), Some("Bearer sk-or-test"));
    assert!(service.seen("/or/models")[0].header("user-agent").unwrap().starts_with("gladhand/"));

    // Setting a key does not select a model.
    let expected = json!({
        "auth": {"enabledProviders": ["openrouter"], "hasOpenAiToken": false, "hasOpenRouterKey": true,
                 "hasAntigravityToken": false, "antigravityProfile": null},
        "onboarding": {"completed": false},
        "model": {"selectedModel": "", "selectedThinking": "HIGH", "selectedOpenRouterProvider": "any",
                  "selectedProvider": null},
    });
    assert_eq!(shown(accounts.snapshot()), expected);
    let status = json!({"enabled_providers": ["openrouter"], "has_openai_token": false, "has_openrouter_key": true,
        "has_antigravity_token": false, "antigravity_profile": null});
    assert_eq!(shown(accounts.auth_status()), status);

    for file in std::fs::read_dir(folder.path().join("data")).unwrap() {
        let file = file.unwrap().path();
        let bytes = std::fs::read(&file).unwrap();
        assert!(!bytes.windows(10).any(|part| part == b"sk-or-test"), "{}", file.display());
    }
    assert!(!format!("{accounts:?}").contains("sk-or-test"));
}

#[tokio::test]
async fn the_web_search_key_can_be_skipped() {
    let (folder, service) = (tempfile::tempdir().unwrap(), Service::start().await);
    let accounts = Accounts::open(settings(folder.path(), &service));
    let set = accounts.set_exa_key("exa-test").unwrap();
    assert_eq!((set.reason, shown(set.result)), ("exa_key_updated", json!({"configured": true, "skipped": false})));
    let again = Accounts::open(settings(folder.path(), &service));
    assert_eq!(again.exa_key().unwrap().expose(), "exa-test");
    let set = again.set_exa_key(" SKIP ").unwrap();
    assert_eq!((set.reason, shown(set.result)), ("exa_key_skipped", json!({"configured": false, "skipped": true})));
    assert!(Accounts::open(settings(folder.path(), &service)).exa_key().is_none());
}

#[tokio::test]
async fn onboarding_and_prompts_survive_a_restart() {
    let (folder, service) = (tempfile::tempdir().unwrap(), Service::start().await);
    let accounts = Accounts::open(settings(folder.path(), &service));
    assert_eq!(shown(accounts.onboarding_status()), json!({"completed": false}));
    let done = accounts.complete_onboarding();
    assert_eq!((done.reason, shown(done.result)), ("onboarding_complete", json!({"completed": true})));
    accounts.remember_prompt(" hello ");
    let again = Accounts::open(settings(folder.path(), &service));
    assert_eq!(shown(again.onboarding_status()), json!({"completed": true}));
    assert_eq!(again.prompts(), ["hello"]);
}

#[tokio::test]
async fn plain_secrets_of_old_files_are_moved() {
    let (folder, service) = (tempfile::tempdir().unwrap(), Service::start().await);
    let state = folder.path().join("data/state.json");
    seed(folder.path(), &json!({"exa_api_key": "exa-1"}));
    std::fs::write(&state, json!({"authProvider": "vertex", "openRouterApiKey": "sk-old", "x": 1}).to_string())
        .unwrap();
    let accounts = Accounts::open(settings(folder.path(), &service));
    let status = shown(accounts.auth_status());
    assert_eq!((&status["enabled_providers"], &status["has_openrouter_key"]), (&json!(["openrouter"]), &json!(true)));
    assert_eq!(accounts.exa_key().unwrap().expose(), "exa-1");
    let state: Value = serde_json::from_str(&std::fs::read_to_string(&state).unwrap()).unwrap();
    assert_eq!((&state["openRouterApiKey"], &state["x"]), (&Value::Null, &json!(1)));
    assert!(!folder.path().join("data/secrets-fallback.json").exists());
}

#[tokio::test]
async fn all_data_can_be_deleted() {
    let (folder, service) = (tempfile::tempdir().unwrap(), Service::start().await);
    service.has("/or/models", openrouter_models());
    seed(folder.path(), &json!({"openrouter_api_key": "sk", "exa_api_key": "exa"}));
    let accounts = Accounts::open(settings(folder.path(), &service));
    accounts.refresh().await;
    accounts.complete_onboarding();
    accounts.remember_prompt("a");
    assert_eq!(selected(&accounts)["selectedModel"], "acme/plain-1");

    let forgotten = accounts.forget_everything().unwrap();
    assert_eq!((forgotten.reason, shown(forgotten.result)), ("forgeteverything", json!({"cleared": true})));
    let fresh_folder = tempfile::tempdir().unwrap();
    let fresh = Accounts::open(settings(fresh_folder.path(), &service));
    assert_eq!(accounts.snapshot(), fresh.snapshot());
    let again = Accounts::open(settings(folder.path(), &service));
    again.refresh().await;
    assert_eq!(again.snapshot(), fresh.snapshot());
    assert!(again.prompts().is_empty() && again.models(Some("openrouter")).unwrap().models.is_empty());
}

#[tokio::test]
async fn limits_are_fetched_from_all_providers_with_a_login() {
    let (folder, service) = (tempfile::tempdir().unwrap(), Service::start().await);
    let nobody = Accounts::open(settings(folder.path(), &service));
    assert_eq!(nobody.limits().await.unwrap_err().message, "limits requires at least one oauth provider");

    let openai = json!({"version": 1, "accessToken": "tok-openai", "accountId": "acct-1"}).to_string();
    let google = json!({"version": 1, "accessToken": "tok-g", "refreshToken": "ref-g",
        "expiryDateSeconds": 4102444800_u64, "tokenType": "Bearer"})
    .to_string();
    seed(folder.path(), &json!({"openai_chatgpt_auth": openai, "antigravity_oauth_token_info": google}));
    service
        .has("/codex/models", codex_models())
        .has("/cc/v1internal:loadCodeAssist", json!({"cloudaicompanionProject": "proj-1"}))
        .has("/cc/v1internal:fetchAvailableModels", antigravity_models())
        .has(
            "/backend/wham/usage",
            json!({"plan_type": "plus", "rate_limit": {
                "primary_window": {"used_percent": 12.5, "limit_window_seconds": 18000, "reset_at": 1770000000},
                "secondary_window": {"used_percent": 140, "limit_window_seconds": 604800}}}),
        )
        .says("/backend/wham/usage", 403, format!("tok-openai{}", "x".repeat(300)))
        .has(
            "/backend/wham/usage",
            json!({"additional_rate_limits": [
                {"limit_name": "Codex", "rate_limit": {"primary_window": {"used_percent": -3}}}]}),
        );
    let accounts = Accounts::open(settings(folder.path(), &service));
    let limits = accounts.limits().await.unwrap();
    let expected = concat!(
        r#"{"openai":{"ok":true,"snapshot":{"planType":"plus","primary":{"usedPercent":12.5,"remainingPercent":87.5,"#,
        r#""limitWindowSeconds":18000,"resetAtEpochSeconds":1770000000},"secondary":{"usedPercent":100,"#,
        r#""remainingPercent":0,"limitWindowSeconds":604800,"resetAtEpochSeconds":null}}},"#,
        r#""antigravity":{"ok":true,"snapshot":{"models":[{"name":"gemini-3-pro-high","remainingPercent":76,"#,
        r#""resetTime":"2026-01-02T00:00:00Z"},{"name":"claude-sonnet","remainingPercent":20,"resetTime":null}]}}}"#
    );
    assert_eq!(serde_json::to_string(&limits).unwrap(), expected);
    assert_eq!(service.seen("/backend/wham/usage")[0].header("chatgpt-account-id"), Some("acct-1"));

    let refused = shown(accounts.limits().await.unwrap())["openai"].take();
    let message = format!("OpenAI usage fetch failed (403): ***{}...", "x".repeat(174));
    assert_eq!(refused, json!({"ok": false, "message": message}));
    let third = shown(accounts.limits().await.unwrap())["openai"].take();
    let window =
        json!({"usedPercent": 0, "remainingPercent": 100, "limitWindowSeconds": null, "resetAtEpochSeconds": null});
    assert_eq!(third, json!({"ok": true, "snapshot": {"planType": null, "primary": window, "secondary": null}}));
}

#[tokio::test]
async fn a_late_renewal_does_not_undo_a_sign_out() {
    let (folder, service) = (tempfile::tempdir().unwrap(), Service::start().await);
    let kept = json!({"version": 1, "accessToken": "tok", "refreshToken": "ref", "expiryDateSeconds": 5}).to_string();
    seed(folder.path(), &json!({"antigravity_oauth_token_info": kept}));
    service.has("/gtoken", json!({"access_token": "late", "expires_in": 3600}));
    let gate = service.holds("/gtoken");
    let accounts = Accounts::open(settings(folder.path(), &service));
    let forget = async {
        gate.reached().await;
        accounts.forget_everything().unwrap();
        gate.open();
    };
    tokio::join!(accounts.refresh(), forget);
    assert!(!accounts.auth_status().has_antigravity_token);
    assert!(!Accounts::open(settings(folder.path(), &service)).auth_status().has_antigravity_token);
}
