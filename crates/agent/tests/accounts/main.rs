//! Tests of accounts against scripted services on loopback.

#![expect(clippy::unwrap_used, reason = "test helpers may panic like tests")]

mod choice;
mod google;
mod keys;
mod openai;
mod service;

use std::path::Path;
use std::sync::{Arc, Mutex};

use gladhand_agent::accounts::{AccountSettings, Accounts, Provider};
use gladhand_core::Secret;
use gladhand_core::operations::AgentEvent;
use gladhand_store::{SecretLocations, Secrets};
use serde::Serialize;
use serde_json::{Value, json};

use self::service::Service;

/// Settings with a separate data folder, with every service at the scripted address.
fn settings(folder: &Path, service: &Service) -> AccountSettings {
    let places = SecretLocations { data: folder.join("data"), config: folder.join("config"), passphrase: None };
    let mut settings = AccountSettings::new(folder.join("data"));
    settings.secrets = Some(Arc::new(Secrets::open(places).unwrap()));
    for (id, path) in [("openrouter", "/or"), ("anthropic", "/anthropic"), ("openai", "/codex"), ("antigravity", "/cc")]
    {
        settings.providers[provider(id)].base = Some(service.at(path));
    }
    for id in ["ollama", "llamacpp"] {
        settings.providers[provider(id)].base = None;
    }
    settings.openai.backend = service.at("/backend");
    settings.openai.issuer = service.at("/issuer");
    settings.openai.client_id = Some("client-1".to_owned());
    settings.google.token = service.at("/gtoken");
    settings.google.profile = service.at("/profile");
    settings.google.client_id = Some("client-2".to_owned());
    settings.google.client_secret = Some(Secret::new("client-secret"));
    settings
}

fn provider(id: &str) -> Provider {
    Provider::of_id(id).unwrap()
}

/// Creates loaf's plain file of secrets in the data folder.
fn seed(folder: &Path, secrets: &Value) {
    std::fs::create_dir_all(folder.join("data")).unwrap();
    std::fs::write(folder.join("data/secrets-fallback.json"), secrets.to_string()).unwrap();
}

/// The JSON that clients see.
fn shown(value: impl Serialize) -> Value {
    serde_json::to_value(value).unwrap()
}

/// The part of the snapshot about the selected model.
fn selected(accounts: &Accounts) -> Value {
    shown(accounts.snapshot())["model"].take()
}

/// Records events.
#[derive(Clone, Default)]
struct RecordedEvents(Arc<Mutex<Vec<(&'static str, Value)>>>);

impl RecordedEvents {
    fn record(&self, event: AgentEvent) {
        let payload = serde_json::from_str(event.payload.get()).unwrap();
        self.0.lock().unwrap().push((event.kind, payload));
    }

    fn all(&self) -> Vec<(&'static str, Value)> {
        self.0.lock().unwrap().clone()
    }

    /// The address that the user must open, once the event has arrived.
    async fn url(&self) -> url::Url {
        loop {
            let events = self.all();
            if let Some((_, payload)) = events.iter().rev().find(|(kind, _)| *kind == "auth.flow.url") {
                return payload["url"].as_str().unwrap().parse().unwrap();
            }
            tokio::task::yield_now().await;
        }
    }
}

/// A query parameter of an address.
fn parameter(url: &url::Url, name: &str) -> String {
    url.query_pairs().find(|(key, _)| key == name).unwrap_or_else(|| panic!("{url} has no {name}")).1.into_owned()
}

/// Sends a browser request. Returns the status, the body and the redirect address.
async fn visit(url: &str) -> (u16, String, Option<String>) {
    let client = gladhand_tls::client_builder().redirect(reqwest::redirect::Policy::none()).no_proxy().build().unwrap();
    let response = client.get(url).send().await.unwrap();
    let location = response.headers().get("location").map(|value| value.to_str().unwrap().to_owned());
    (response.status().as_u16(), response.text().await.unwrap(), location)
}

/// The models of the scripted services.
fn openrouter_models() -> Value {
    json!({"data": [
        {"id": "acme/plain-1", "name": "Acme: Plain 1", "description": "no reasoning",
         "supported_parameters": ["tools", "temperature"], "context_length": 32000},
        {"id": "acme/think-1", "name": "Acme: Think 1", "description": "reasons",
         "supported_parameters": ["tools", "reasoning", "include_reasoning"], "context_length": 128000},
    ]})
}

fn codex_models() -> Value {
    json!({"models": [
        {"slug": "gpt-5-codex", "display_name": "GPT-5 Codex", "description": "coding model", "priority": 1,
         "supported_reasoning_levels": [{"effort": "low"}, {"effort": "medium"}, {"effort": "high"}],
         "default_reasoning_level": "medium", "context_window": 200000},
        {"slug": "gpt-5-mini", "display_name": "GPT-5 mini", "description": "small model", "priority": 2},
    ]})
}

fn antigravity_models() -> Value {
    json!({
        "models": {
            "gemini-3-pro-high": {
                "displayName": "Gemini 3 Pro (High)", "supportsThinking": true, "maxTokens": 1000000,
                "quotaInfo": {"remainingFraction": 0.755, "resetTime": "2026-01-02T00:00:00Z"},
            },
            "claude-sonnet": {"displayName": "Claude Sonnet", "quotaInfo": {"remainingFraction": 0.2}},
            "other": {"displayName": "Other", "quotaInfo": {"remainingFraction": 0.3}},
        },
        "agentModelSorts": [{"groups": [{"modelIds": ["gemini-3-pro-high", "missing-id"]}]}],
    })
}
