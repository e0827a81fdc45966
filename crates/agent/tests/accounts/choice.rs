//! Tests of the model selection: what is selected, what is stored, and the defaults.

use std::borrow::Cow;
use std::sync::Arc;

use async_trait::async_trait;
use gladhand_agent::accounts::{AccountSettings, Accounts, DefaultModel, ModelAccess, Provider};
use gladhand_core::Secret;
use gladhand_core::operations::{FailureKind, ModelChoice};
use gladhand_models::{Listener, ModelError, ModelOption, Models, Round, RoundResult, Thinking};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::service::Service;
use crate::{codex_models, openrouter_models, provider, seed, selected, settings, shown};

fn wanted<'a>(model: &'a str, provider: &'a str, thinking: &'a str, routing: Option<&'a str>) -> ModelChoice<'a> {
    ModelChoice {
        model: model.into(),
        provider: provider.into(),
        thinking: thinking.into(),
        routing: routing.map(Cow::Borrowed),
        session: None,
        compress: false,
        only_session: false,
    }
}

async fn with_openrouter(service: &Service, folder: &std::path::Path) -> Arc<Accounts> {
    service.has("/or/models", openrouter_models());
    let accounts = Accounts::open(settings(folder, service));
    accounts.set_openrouter_key("sk-or-test").await.unwrap();
    accounts
}

#[tokio::test]
async fn an_unsupported_selection_is_adjusted() {
    let (folder, service) = (tempfile::tempdir().unwrap(), Service::start().await);
    let accounts = with_openrouter(&service, folder.path()).await;
    for (choice, thinking, routing) in [
        (wanted("acme/think-1", "openrouter", "XHIGH", None), "MEDIUM", "any"),
        (wanted("acme/think-1", "openrouter", "LOW", Some("Acme-Cloud")), "LOW", "acme-cloud"),
        (wanted("acme/plain-1", "openrouter", "banana", None), "OFF", "any"),
    ] {
        let considered = accounts.consider(&choice).unwrap();
        assert_ne!(selected(&accounts)["selectedThinking"], thinking, "`consider` changes nothing");
        let made = accounts.select(&choice).unwrap();
        assert_eq!(made.reason, "model_selected");
        let expected = json!({"selected_model": choice.model, "selected_provider": "openrouter",
            "selected_thinking": thinking, "selected_openrouter_provider": routing});
        assert_eq!(shown(made.result), expected);
        assert_eq!(accounts.chosen(None), considered);
    }
    let refused = accounts.select(&wanted("acme/plain-1", "openai", "LOW", None)).unwrap_err();
    assert_eq!(refused.message, "unknown model for provider openai: acme/plain-1");
    let refused = accounts.select(&wanted("acme/plain-1", "acme", "LOW", None)).unwrap_err();
    assert_eq!(
        (refused.kind, refused.message.as_str(), refused.data.unwrap().get()),
        (
            FailureKind::InvalidArguments,
            "provider must be openai, openrouter, or antigravity",
            r#"{"field":"provider"}"#
        )
    );
    let refused = accounts.models(Some("acme")).unwrap_err();
    assert_eq!(refused.message, "provider must be one of: openai, openrouter, antigravity");
    assert_eq!(accounts.ready(&accounts.chosen(None)).unwrap().provider(), "openrouter");
}

#[tokio::test]
async fn a_selection_survives_a_restart() {
    let (folder, service) = (tempfile::tempdir().unwrap(), Service::start().await);
    let accounts = with_openrouter(&service, folder.path()).await;
    accounts.select(&wanted("acme/think-1", "openrouter", "LOW", Some("acme"))).unwrap();
    let expected = json!({"selectedModel": "acme/think-1", "selectedThinking": "LOW",
        "selectedOpenRouterProvider": "acme", "selectedProvider": "openrouter"});

    // The selection is the same before any provider was asked, after all were, and if none responds (§19.2).
    let again = Accounts::open(settings(folder.path(), &service));
    assert_eq!(selected(&again), expected);
    again.refresh().await;
    again.refreshed().await;
    assert_eq!(selected(&again), expected);
    service.drops("/or/models");
    again.refresh().await;
    assert_eq!(selected(&again), expected);

    // A model that does not exist any more is replaced, with a supported thinking level.
    service.has("/or/models", json!({"data": [openrouter_models()["data"][0]]}));
    again.refresh().await;
    let expected = json!({"selectedModel": "acme/plain-1", "selectedThinking": "OFF",
        "selectedOpenRouterProvider": "acme", "selectedProvider": "openrouter"});
    assert_eq!(selected(&again), expected);
    assert_eq!(selected(&Accounts::open(settings(folder.path(), &service))), expected);
}

#[tokio::test]
async fn a_stored_login_selects_a_model_at_the_start() {
    let (folder, service) = (tempfile::tempdir().unwrap(), Service::start().await);
    service.has("/codex/models", codex_models()).has("/or/models", openrouter_models());
    let login = json!({"version": 1, "accessToken": "tok-openai", "accountId": "acct-1"}).to_string();
    seed(folder.path(), &json!({"openai_chatgpt_auth": login, "openrouter_api_key": "sk-or-test"}));
    let accounts = Accounts::open(settings(folder.path(), &service));
    accounts.refresh().await;
    let list = shown(accounts.models(None).unwrap());
    assert_eq!(list["providers"], json!(["openrouter", "openai"]));
    let ids: Vec<_> = list["models"].as_array().unwrap().iter().map(|model| model["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["gpt-5-codex", "gpt-5-mini", "acme/plain-1", "acme/think-1"]);
    assert_eq!((&list["selected_model"], &list["selected_thinking"]), (&json!("gpt-5-codex"), &json!("HIGH")));
    assert_eq!(service.seen("/codex/models")[0].header("chatgpt-account-id"), Some("acct-1"));
}

#[tokio::test]
async fn an_openai_key_works_without_a_login() {
    let (folder, service) = (tempfile::tempdir().unwrap(), Service::start().await);
    service.has("/codex/models", json!({"data": [{"id": "gpt-5"}, {"id": "whisper"}]}));
    let mut settings = settings(folder.path(), &service);
    settings.providers[Provider::OPENAI].key = Some(Secret::new("sk-openai"));
    let accounts = Accounts::open(settings);
    accounts.refresh().await;
    let status = shown(accounts.auth_status());
    assert_eq!((&status["enabled_providers"], &status["has_openai_token"]), (&json!(["openai"]), &json!(false)));
    assert_eq!(selected(&accounts)["selectedModel"], "gpt-5");
    assert_eq!(accounts.ready(&accounts.chosen(None)).unwrap().provider(), "openai");
    assert_eq!(service.seen("/codex/models")[0].header("authorization"), Some("Bearer sk-openai"));
}

#[tokio::test]
async fn a_session_can_have_its_own_model() {
    let (folder, service) = (tempfile::tempdir().unwrap(), Service::start().await);
    let accounts = with_openrouter(&service, folder.path()).await;
    accounts.select(&wanted("acme/plain-1", "openrouter", "OFF", None)).unwrap();
    let own = ModelChoice {
        session: Some("s".into()),
        only_session: true,
        ..wanted("acme/think-1", "openrouter", "HIGH", None)
    };
    accounts.select(&own).unwrap();
    assert_eq!(accounts.chosen(Some("s")).model, "acme/think-1");
    assert_eq!(accounts.chosen(Some("other")).model, "acme/plain-1");
    accounts.forget_session("s");
    assert_eq!(accounts.chosen(Some("s")).model, "acme/plain-1");
}

#[tokio::test]
async fn a_resumed_chat_uses_its_previous_model() {
    let (folder, service) = (tempfile::tempdir().unwrap(), Service::start().await);
    let accounts = with_openrouter(&service, folder.path()).await;
    assert_eq!(accounts.resume("openrouter", "acme/think-1", Thinking::Low, Some("acme")), "session_resumed");
    assert_eq!(accounts.chosen(None).provider.as_deref(), Some("openrouter"));
    // The selection is not stored yet.
    assert_eq!(selected(&Accounts::open(settings(folder.path(), &service)))["selectedModel"], "");
    // Resuming a chat of a provider without credentials enables the provider, and reports the missing credential.
    for (provider, model, note) in [
        ("openai", "gpt-5", "openai model selected, but no chatgpt oauth token is available"),
        ("antigravity", "gemini-x", "antigravity model selected, but no antigravity oauth token is available"),
    ] {
        accounts.resume(provider, model, Thinking::Low, None);
        assert_eq!(accounts.ready(&accounts.chosen(None)).unwrap_err(), note);
    }
}

#[tokio::test]
async fn missing_credentials_have_the_documented_error_messages() {
    let (folder, service) = (tempfile::tempdir().unwrap(), Service::start().await);
    std::fs::create_dir_all(folder.path().join("data")).unwrap();
    let state = folder.path().join("data/state.json");
    for (state_text, note) in [
        (json!({}), "select a model from an enabled provider first"),
        (json!({"selectedModel": "acme/x"}), "select a model from an enabled provider first"),
        (json!({"selectedModel": "gpt-9"}), "provider openai is not enabled"),
        (json!({"selectedModel": "x/claude-9"}), "provider openrouter is not enabled"),
        (
            json!({"selectedModel": "x/claude-9", "authProviders": ["openrouter"]}),
            "openrouter model selected, but no openrouter api key is available",
        ),
        (json!({"selectedModel": "m", "selectedProvider": "ollama"}), "provider ollama is not enabled"),
    ] {
        std::fs::write(&state, state_text.to_string()).unwrap();
        let accounts = Accounts::open(settings(folder.path(), &service));
        assert_eq!(accounts.ready(&accounts.chosen(None)).unwrap_err(), note, "{state_text}");
    }
}

#[tokio::test]
async fn routing_providers_are_looked_up() {
    let (folder, service) = (tempfile::tempdir().unwrap(), Service::start().await);
    let nobody = Accounts::open(settings(folder.path(), &service));
    let refused = nobody.routing_providers("acme/plain-1").await.unwrap_err();
    assert_eq!(refused.message, "openrouter api key is not configured");
    let accounts = with_openrouter(&service, folder.path()).await;
    let endpoints = json!({"data": {"endpoints": [
        {"tag": "acme/fp8", "provider_name": "Acme Cloud"}, {"provider_name": "Beta_Host Inc."}]}});
    service.has("/or/models/acme/plain-1/endpoints", endpoints).says("/or/models/a/b%2Fc/endpoints", 404, "nope");
    let found = accounts.routing_providers("acme/plain-1").await.unwrap();
    let expected = json!({"model_id": "acme/plain-1", "providers": ["acme-cloud", "acme/fp8", "beta-host-inc"]});
    assert_eq!(shown(found), expected);
    let list = shown(accounts.models(Some("openrouter")).unwrap());
    assert_eq!(list["models"][0]["routingProviders"], expected["providers"]);
    assert!(accounts.routing_providers("noslash").await.unwrap().providers.is_empty());
    let refused = accounts.routing_providers("a/b/c").await.unwrap_err();
    assert_eq!(refused.message, "OpenRouter model endpoints fetch failed (404): nope");
}

/// An embedded model.
#[derive(Debug)]
struct Embedded;

#[async_trait]
impl Models for Embedded {
    fn provider(&self) -> &str {
        "local"
    }

    async fn catalogue(&self) -> Result<Vec<ModelOption>, ModelError> {
        Ok(vec![ModelOption {
            id: "small".to_owned(),
            provider: "local".to_owned(),
            label: "Small".to_owned(),
            description: String::new(),
            supported_thinking_levels: Some(vec![Thinking::Off]),
            default_thinking_level: Some(Thinking::Off),
            routing_providers: None,
            context_window_tokens: Some(4096),
        }])
    }

    async fn round(
        &self,
        _: &Round,
        _: &mut (dyn Listener + '_),
        _: &CancellationToken,
    ) -> Result<RoundResult, ModelError> {
        Ok(RoundResult::default())
    }
}

#[tokio::test]
async fn without_a_selection_the_first_available_model_is_used() {
    let (folder, service) = (tempfile::tempdir().unwrap(), Service::start().await);
    service
        .has("/ollama/models", json!({"object": "list", "data": [{"id": "llama-x"}]}))
        .has("/house/models", json!({"object": "list", "data": [{"id": "house-1"}]}))
        .has("/anthropic/models", json!({"data": [{"id": "claude-x", "display_name": "Claude X"}]}));
    let taken = async |change: &dyn Fn(&mut AccountSettings)| {
        let mut settings = settings(folder.path(), &service);
        change(&mut settings);
        let accounts = Accounts::open(settings);
        accounts.refresh().await;
        let chosen = accounts.chosen(None);
        let ready = accounts.ready(&chosen).unwrap();
        assert_eq!(Some(ready.provider()), chosen.provider.as_deref());
        (chosen.model, selected(&accounts)["selectedModel"].as_str().unwrap().to_owned())
    };
    // A server that merely runs on this machine is used, but not selected permanently.
    assert_eq!(taken(&|to| to.embedded = Some(Arc::new(Embedded))).await, ("small".to_owned(), String::new()));
    let near = |to: &mut AccountSettings| {
        to.embedded = Some(Arc::new(Embedded));
        to.providers[provider("ollama")].base = Some(service.at("/ollama"));
        // This server returns no list of models.
        to.providers[provider("llamacpp")].base = Some(service.at("/elsewhere"));
    };
    assert_eq!(taken(&near).await, ("llama-x".to_owned(), String::new()));
    let house = |to: &mut AccountSettings| {
        near(to);
        to.providers[provider("compatible")].base = Some(service.at("/house"));
    };
    // A configured server is used, but not stored: it may be absent in the next run.
    assert_eq!(taken(&house).await, ("house-1".to_owned(), String::new()));
    let anthropic = |to: &mut AccountSettings| {
        house(to);
        to.providers[provider("anthropic")].key = Some(Secret::new("sk-ant"));
    };
    assert_eq!(taken(&anthropic).await.0, "claude-x");
    assert_eq!(service.seen("/anthropic/models")[0].header("x-api-key"), Some("sk-ant"));
}

#[tokio::test]
async fn a_server_without_a_list_has_the_configured_model() {
    let (folder, service) = (tempfile::tempdir().unwrap(), Service::start().await);
    let mut settings = settings(folder.path(), &service);
    let server = &mut settings.providers[provider("compatible")];
    (server.base, server.model) = (Some(service.at("/silent")), Some("named".to_owned()));
    let accounts = Accounts::open(settings);
    accounts.refresh().await;
    assert_eq!(accounts.chosen(None).model, "named");
}

#[tokio::test]
async fn the_outlook_names_the_model_and_writes_no_files() {
    let (folder, service) = (tempfile::tempdir().unwrap(), Service::start().await);
    let data = folder.path().join("data");
    let look = async |set_up: &dyn Fn(&mut AccountSettings)| {
        let mut settings = AccountSettings { keeps: false, ..settings(&data, &service) };
        set_up(&mut settings);
        let accounts = Accounts::open(settings);
        accounts.refresh().await;
        accounts.default_model()
    };
    assert_eq!(look(&|_| {}).await, DefaultModel::NoProvider);
    let with_key =
        |settings: &mut AccountSettings| settings.providers[Provider::OPENROUTER].key = Some(Secret::new("sk-or-test"));
    let (openrouter, access) = (Provider::OPENROUTER, ModelAccess::Variable("OPENROUTER_API_KEY"));
    let DefaultModel::Trouble(why) = look(&with_key).await else { panic!("expected an error about the model list") };
    assert!(why.starts_with("OpenRouter gives no list of models: 404 "), "{why}");
    service.has("/or/models", serde_json::json!({"data": []}));
    assert_eq!(look(&with_key).await, DefaultModel::Unlisted(vec![(openrouter, access)]));
    service.drops("/or/models").has("/or/models", openrouter_models());
    let expected = DefaultModel::Model { model: "acme/plain-1".to_owned(), provider: openrouter, access };
    assert_eq!(look(&with_key).await, expected);
    let nowhere = |settings: &mut AccountSettings| {
        settings.providers[provider("compatible")].base = Some("http://127.0.0.1:1/v1".to_owned());
    };
    let DefaultModel::Trouble(why) = look(&nowhere).await else { panic!("expected an error about the server") };
    assert_eq!(why, "the configured server http://127.0.0.1:1/v1 unreachable");
    let offline = |settings: &mut AccountSettings| {
        settings.providers[Provider::OPENAI].key = Some(Secret::new("sk-test"));
        settings.providers[Provider::OPENAI].base = Some("http://127.0.0.1:1/v1".to_owned());
    };
    assert_eq!(look(&offline).await, DefaultModel::Trouble("OpenAI unreachable".to_owned()));
    assert!(!data.exists(), "opening without `keeps` must not create files");
}
