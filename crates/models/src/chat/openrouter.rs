//! Client for OpenRouter, which gives one account access to the models of many providers.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use async_trait::async_trait;
use gladhand_core::Order as _;
use http::{HeaderMap, HeaderName};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::request::{Body, Reasoning, Routing};
use crate::catalogue::{Document, by_label, entries, text, window};
use crate::exchange::Exchange;
use crate::provider::{Connection, KeyInfo, ProviderInfo, Requirement};
use crate::service::Service;
use crate::web::{Request, Web, failed, header};
use crate::{Credential, Listener, ModelError, ModelOption, Models, Round, RoundResult, Thinking};

/// OpenRouter, with a key.
pub(crate) static PROVIDER: ProviderInfo = ProviderInfo {
    id: "openrouter",
    name: "OpenRouter",
    requires: Requirement::Credential,
    key: Some(KeyInfo { variable: "OPENROUTER_API_KEY", stored_as: Some("openrouter_api_key") }),
    login: None,
    default_base: Some(OpenRouter::BASE),
    base_variable: Some("GLADHAND_OPENROUTER_BASE"),
    model_variable: None,
    is_of_loaf: true,
    has_routing: true,
    is_probable: |id| id.contains("gemini") || id.contains("claude"),
    missing: "openrouter model selected, but no openrouter api key is available",
    connect: |Connection { web, base, key, .. }| {
        let key = key.ok_or_else(|| failed(PROVIDER.missing))?;
        Ok(Arc::new(OpenRouter::new(web, base.as_deref().unwrap_or(OpenRouter::BASE), Arc::new(key))?))
    },
};

/// An account at OpenRouter.
#[derive(Debug)]
pub struct OpenRouter {
    service: Service,
}

impl OpenRouter {
    /// The base address of the API.
    pub const BASE: &str = "https://openrouter.ai/api/v1";

    /// Creates a client for the account that owns the key.
    pub fn new(web: Web, base: &str, key: Arc<dyn Credential>) -> Result<Self, ModelError> {
        Ok(Self { service: Service::new(web, PROVIDER.name, base, Some(key))? })
    }

    /// The providers that can run a model.
    pub async fn routing_providers(&self, model: &str) -> Result<Vec<String>, ModelError> {
        let Some((author, slug)) = model.split_once('/') else { return Ok(Vec::new()) };
        let document = self.document(&["models", author, slug, "endpoints"]).await?;
        if !document.status.is_success() {
            let (status, body) = (document.status.as_u16(), document.text);
            return Err(failed(format!("OpenRouter model endpoints fetch failed ({status}): {body}")));
        }
        let providers = routing_names(&document.read(PROVIDER.name)?["data"]);
        Ok(if providers.is_empty() { BTreeSet::from([normalized(author)]) } else { providers }.into_iter().collect())
    }

    async fn document(&self, path: &[&str]) -> Result<Document, ModelError> {
        let request = Request::get(self.service.endpoint(path)).with(self.headers()?);
        self.service.document(&request).await
    }

    fn headers(&self) -> Result<HeaderMap, ModelError> {
        let identity = self.service.web.identity();
        let mut headers = HeaderMap::new();
        headers.insert(HeaderName::from_static("x-title"), header(&identity.name)?);
        if let Some(home) = &identity.home {
            headers.insert(HeaderName::from_static("http-referer"), header(home)?);
        }
        Ok(headers)
    }
}

#[async_trait]
impl Models for OpenRouter {
    fn provider(&self) -> &str {
        PROVIDER.id
    }

    async fn catalogue(&self) -> Result<Vec<ModelOption>, ModelError> {
        // Routing providers are optional: if that request fails, the catalogue is returned without them.
        let (models, endpoints) = tokio::join!(self.document(&["models"]), self.document(&["models", "endpoints"]));
        let models = models?.read(PROVIDER.name)?;
        let endpoints = endpoints.and_then(|document| document.read(PROVIDER.name)).unwrap_or_default();
        let routing_names: HashMap<&str, Vec<String>> = entries(&endpoints["data"])
            .iter()
            .filter_map(|entry| Some((text(entry, &["id"])?, routing_names(entry).into_iter().collect())))
            .collect();
        let mut options: Vec<ModelOption> =
            entries(&models["data"]).iter().filter_map(|entry| option(entry, &routing_names)).collect();
        options.order_by(|a, b| by_label(&a.label, &b.label));
        Ok(options)
    }

    async fn round(
        &self,
        round: &Round,
        listener: &mut (dyn Listener + '_),
        cancel: &CancellationToken,
    ) -> Result<RoundResult, ModelError> {
        let mut body = Body::of(round);
        body.reasoning = effort(round.thinking).map(|effort| Reasoning { effort, exclude: false });
        body.include_reasoning = Some(body.reasoning.is_some());
        body.provider = round.routing.as_deref().map(|routing| Routing { order: [routing], allow_fallbacks: false });
        let request =
            Request::post(self.service.endpoint(&["chat", "completions"]), body.to_bytes()).with(self.headers()?);
        let mut exchange = Exchange::new(&self.service, round, listener, cancel);
        super::run(&mut exchange, &request).await
    }
}

fn effort(thinking: Thinking) -> Option<&'static str> {
    match thinking {
        Thinking::Off => None,
        Thinking::Minimal | Thinking::Low => Some("low"),
        Thinking::Medium => Some("medium"),
        Thinking::High | Thinking::XHigh => Some("high"),
    }
}

fn option(entry: &Value, routing_names: &HashMap<&str, Vec<String>>) -> Option<ModelOption> {
    use Thinking::{High, Low, Medium, Minimal, Off};
    let id = text(entry, &["id"])?;
    let parameters = entries(&entry["supported_parameters"]);
    let thinks = parameters.iter().filter_map(Value::as_str).any(|name| name.contains("reasoning"));
    Some(ModelOption {
        id: id.to_owned(),
        provider: PROVIDER.id.to_owned(),
        label: text(entry, &["name"]).unwrap_or(id).to_owned(),
        description: text(entry, &["description"]).unwrap_or_default().to_owned(),
        supported_thinking_levels: Some(if thinks { vec![Off, Minimal, Low, Medium, High] } else { vec![Off] }),
        default_thinking_level: Some(if thinks { Medium } else { Off }),
        routing_providers: Some(routing_names.get(id).cloned().unwrap_or_default()),
        context_window_tokens: window(entry),
    })
}

/// All providers that run a model, under the names that a request can use.
fn routing_names(entry: &Value) -> BTreeSet<String> {
    let names = ["tag", "provider", "provider_slug", "provider_name"];
    let endpoints = entries(&entry["endpoints"]).iter();
    endpoints
        .flat_map(|endpoint| names.iter().filter_map(|name| endpoint[name].as_str()))
        .map(normalized)
        .filter(|name| !name.is_empty())
        .collect()
}

/// The form of a name that a request can use: `Acme Cloud` becomes `acme-cloud`.
fn normalized(name: &str) -> String {
    let mut whole = String::with_capacity(name.len());
    for character in name.to_lowercase().chars() {
        match character {
            '-' | ' ' | '_' if whole.ends_with('-') => {}
            '-' | ' ' | '_' => whole.push('-'),
            'a'..='z' | '0'..='9' | '/' => whole.push(character),
            _ => {}
        }
    }
    whole.trim_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_normalized() {
        for (name, expected) in [
            ("Acme Cloud", "acme-cloud"),
            ("acme/fp8", "acme/fp8"),
            ("Beta_Host Inc.", "beta-host-inc"),
            ("--a -- b--", "a-b"),
            ("Ünï", "n"),
            ("...", ""),
        ] {
            assert_eq!(normalized(name), expected);
        }
    }
}
