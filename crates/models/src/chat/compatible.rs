//! Client for any server that implements chat completions: on this machine, in the local network, or at an unknown
//! provider.

use std::sync::Arc;

use async_trait::async_trait;
use gladhand_core::Order as _;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::request::Body;
use crate::catalogue::{by_label, entries, text, window};
use crate::exchange::Exchange;
use crate::provider::{Connection, KeyInfo, ProviderInfo, Requirement, never};
use crate::service::Service;
use crate::web::{Request, Web, failed};
use crate::{Credential, Listener, ModelError, ModelOption, Models, Round, RoundResult, Thinking};

/// A configured server that is compatible with OpenAI.
pub(crate) static PROVIDER: ProviderInfo = ProviderInfo {
    id: "compatible",
    name: "the configured server",
    requires: Requirement::Address,
    key: Some(KeyInfo { variable: "GLADHAND_COMPATIBLE_KEY", stored_as: None }),
    login: None,
    default_base: None,
    base_variable: Some("GLADHAND_COMPATIBLE_BASE"),
    model_variable: Some("GLADHAND_COMPATIBLE_MODEL"),
    is_of_loaf: false,
    has_routing: false,
    is_probable: never,
    missing: "this provider is not configured",
    connect: |connection| connect(&PROVIDER, connection),
};

/// Creates the client of a provider with such a server. An address is required, a key is not.
pub(super) fn connect(info: &ProviderInfo, connection: Connection) -> Result<Arc<dyn Models>, ModelError> {
    let base = connection.base.ok_or_else(|| failed(info.missing))?;
    let key = connection.key.map(|key| Arc::new(key) as Arc<dyn Credential>);
    Ok(Arc::new(Compatible::new(connection.web, info.id, &base, key)?))
}

/// A server that implements chat completions.
#[derive(Debug)]
pub struct Compatible {
    /// Its name is that of the provider in options and settings.
    service: Service,
}

impl Compatible {
    /// Creates a client for the server at this address, which usually ends in `/v1`.
    pub fn new(
        web: Web,
        provider: impl Into<String>,
        base: &str,
        key: Option<Arc<dyn Credential>>,
    ) -> Result<Self, ModelError> {
        Ok(Self { service: Service::new(web, provider.into(), base, key)? })
    }
}

#[async_trait]
impl Models for Compatible {
    fn provider(&self) -> &str {
        &self.service.name
    }

    async fn catalogue(&self) -> Result<Vec<ModelOption>, ModelError> {
        let request = Request::get(self.service.endpoint(&["models"]));
        let list = self.service.json(&request).await?;
        let mut options: Vec<ModelOption> =
            entries(&list["data"]).iter().filter_map(|entry| self.option(entry)).collect();
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
        body.reasoning_effort = match round.thinking {
            // Servers reject this member for models without thinking, so it is only sent when thinking is on.
            Thinking::Off => None,
            Thinking::Minimal | Thinking::Low => Some("low"),
            Thinking::Medium => Some("medium"),
            Thinking::High | Thinking::XHigh => Some("high"),
        };
        let request = Request::post(self.service.endpoint(&["chat", "completions"]), body.to_bytes());
        let mut exchange = Exchange::new(&self.service, round, listener, cancel);
        super::run(&mut exchange, &request).await
    }
}

impl Compatible {
    fn option(&self, entry: &Value) -> Option<ModelOption> {
        let id = text(entry, &["id"])?;
        Some(ModelOption {
            id: id.to_owned(),
            provider: self.provider().to_owned(),
            label: text(entry, &["name", "display_name"]).unwrap_or(id).to_owned(),
            description: text(entry, &["description"]).unwrap_or_default().to_owned(),
            supported_thinking_levels: Some(vec![Thinking::Off, Thinking::Low, Thinking::Medium, Thinking::High]),
            default_thinking_level: Some(Thinking::Off),
            routing_providers: None,
            context_window_tokens: window(entry),
        })
    }
}
