//! Client for Anthropic's Messages API.

mod reply;
mod request;

use std::sync::Arc;

use async_trait::async_trait;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::catalogue::{entries, text, window};
use crate::exchange::{Exchange, Reply, payload};
use crate::provider::{Connection, KeyInfo, ProviderInfo, Requirement, never};
use crate::service::Service;
use crate::web::{CredentialHeader, Request, Web, failed};
use crate::{Credential, Listener, ModelError, ModelOption, Models, Round, RoundResult, Thinking};

/// Anthropic, with a key.
pub(crate) static PROVIDER: ProviderInfo = ProviderInfo {
    id: "anthropic",
    name: "Anthropic",
    requires: Requirement::Credential,
    key: Some(KeyInfo { variable: "ANTHROPIC_API_KEY", stored_as: None }),
    login: None,
    default_base: Some(Anthropic::BASE),
    base_variable: Some("GLADHAND_ANTHROPIC_BASE"),
    model_variable: None,
    is_of_loaf: false,
    has_routing: false,
    is_probable: never,
    missing: "this provider is not configured",
    connect: |Connection { web, base, key, .. }| {
        let key = key.ok_or_else(|| failed(PROVIDER.missing))?;
        Ok(Arc::new(Anthropic::new(web, base.as_deref().unwrap_or(Anthropic::BASE), Arc::new(key))?))
    },
};

/// An account at Anthropic.
#[derive(Debug)]
pub struct Anthropic {
    service: Service,
}

impl Anthropic {
    /// The base address of the API.
    pub const BASE: &str = "https://api.anthropic.com/v1";

    /// Creates a client for the account that owns the key.
    pub fn new(web: Web, base: &str, key: Arc<dyn Credential>) -> Result<Self, ModelError> {
        Ok(Self { service: Service::new(web, PROVIDER.name, base, Some(key))? })
    }

    fn with_usual_headers(request: Request) -> Request {
        let version = (HeaderName::from_static("anthropic-version"), HeaderValue::from_static("2023-06-01"));
        request.with(HeaderMap::from_iter([version])).with_credential_header(CredentialHeader::Key("x-api-key"))
    }
}

#[async_trait]
impl Models for Anthropic {
    fn provider(&self) -> &str {
        PROVIDER.id
    }

    async fn catalogue(&self) -> Result<Vec<ModelOption>, ModelError> {
        let mut url = self.service.endpoint(&["models"]);
        url.query_pairs_mut().append_pair("limit", "1000");
        let request = Self::with_usual_headers(Request::get(url));
        // The list is sorted newest first. That order is useful to users, so it is kept.
        Ok(entries(&self.service.json(&request).await?["data"]).iter().filter_map(option).collect())
    }

    async fn round(
        &self,
        round: &Round,
        listener: &mut (dyn Listener + '_),
        cancel: &CancellationToken,
    ) -> Result<RoundResult, ModelError> {
        let request = Request::post(self.service.endpoint(&["messages"]), request::body(round));
        let request = Self::with_usual_headers(request);
        let mut exchange = Exchange::new(&self.service, round, listener, cancel);
        exchange
            .debug("request", |fields| fields.and("payload", &payload(request.body.as_deref().unwrap_or_default())))
            .await;
        loop {
            match attempt(&mut exchange, &request).await {
                Err(error) => exchange.wait_before_retry(error).await?,
                result => return result,
            }
        }
    }
}

async fn attempt(exchange: &mut Exchange<'_>, request: &Request) -> Result<RoundResult, ModelError> {
    let response = exchange.ask_for_success(request).await?;
    match exchange.reply(response).await? {
        Reply::Events(events) => reply::read_stream(exchange, events).await,
        Reply::Whole(_) => Err(failed("Anthropic answered without a stream.")),
    }
}

fn option(entry: &Value) -> Option<ModelOption> {
    use Thinking::{High, Low, Medium, Minimal, Off, XHigh};
    let id = text(entry, &["id"])?;
    let thinks = Mode::of(id) != Mode::Never;
    Some(ModelOption {
        id: id.to_owned(),
        provider: PROVIDER.id.to_owned(),
        label: text(entry, &["display_name"]).unwrap_or(id).to_owned(),
        description: String::new(),
        supported_thinking_levels: Some(if thinks { vec![Off, Minimal, Low, Medium, High, XHigh] } else { vec![Off] }),
        default_thinking_level: Some(if thinks { Medium } else { Off }),
        routing_providers: None,
        context_window_tokens: Some(window(entry).unwrap_or(200_000)),
    })
}

/// How thinking is configured for a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// The model does not support thinking.
    Never,
    /// The request sets a token budget for thinking.
    Budget,
    /// The request sets an effort level, and the model decides how much to think.
    Effort,
}

impl Mode {
    /// Reads the generation from the model id: `claude-3-7-sonnet-…`, `claude-opus-4-1-…`, `claude-fable-5`.
    fn of(id: &str) -> Self {
        let mut numbers =
            id.split(['-', '.']).filter_map(|part| part.parse::<u32>().ok()).filter(|number| *number < 1000);
        let generation = numbers.next().map(|major| (major, numbers.next().unwrap_or(0)));
        match generation {
            Some(generation) if generation < (3, 7) => Self::Never,
            Some(generation) if generation < (4, 6) => Self::Budget,
            // An id without a number belongs to a model newer than the generations above.
            _ => Self::Effort,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generations_are_read_from_ids() {
        for (id, expected) in [
            ("claude-3-haiku-20240307", Mode::Never),
            ("claude-3-5-sonnet-20241022", Mode::Never),
            ("claude-3-7-sonnet-20250219", Mode::Budget),
            ("claude-sonnet-4-20250514", Mode::Budget),
            ("claude-haiku-4-5", Mode::Budget),
            ("claude-opus-4-6", Mode::Effort),
            ("claude-opus-4-7", Mode::Effort),
            ("claude-fable-5", Mode::Effort),
        ] {
            assert_eq!(Mode::of(id), expected, "{id}");
        }
    }
}
