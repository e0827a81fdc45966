//! Client for OpenAI's Responses API, with an API key or with the token of a user who signed in to ChatGPT.
//!
//! The service stores nothing: each round sends the whole conversation. If a stream ends too early, a new request
//! includes the answer received so far, so that the model continues from there.

mod catalogue;
mod reply;
mod request;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use gladhand_core::sync::Unpoisoned as _;
use http::{HeaderMap, HeaderName};
use reqwest::Response;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use self::reply::StreamResult;
use crate::debug_fields::DebugFields;
use crate::exchange::{Exchange, Reply, payload};
use crate::provider::{Connection, KeyInfo, Login, ProviderInfo, Requirement};
use crate::service::Service;
use crate::web::{Request, Web, failed, header};
use crate::{Credential, Listener, ModelError, ModelOption, Models, Round, RoundResult};

/// How often an interrupted stream is continued within one round.
const MAX_CUTS: usize = 3;
/// The maximum number of turns that are tracked. Beyond it the oldest one is forgotten.
const MAX_TURNS: usize = 256;
/// A header that the service sends in a response and expects in the next request of the same turn.
const TURN_STATE: &str = "x-codex-turn-state";

/// OpenAI, with a ChatGPT login or a key.
pub(crate) static PROVIDER: ProviderInfo = ProviderInfo {
    id: "openai",
    name: "OpenAI",
    requires: Requirement::Credential,
    key: Some(KeyInfo { variable: "OPENAI_API_KEY", stored_as: None }),
    login: Some(Login::ChatGpt),
    default_base: None,
    base_variable: Some("GLADHAND_OPENAI_BASE"),
    model_variable: None,
    is_of_loaf: true,
    has_routing: false,
    is_probable: catalogue::converses,
    missing: "openai model selected, but no chatgpt oauth token is available",
    connect: |Connection { web, base, key, login, .. }| {
        let (default_base, account, token): (_, _, Arc<dyn Credential>) = match (login, key) {
            (Some(login), _) => (OpenAi::CHATGPT_BASE, Account::ChatGpt { id: login.account }, login.credential),
            (None, Some(key)) => (OpenAi::API_BASE, Account::Key, Arc::new(key)),
            (None, None) => return Err(failed(PROVIDER.missing)),
        };
        Ok(Arc::new(OpenAi::new(web, base.as_deref().unwrap_or(default_base), account, token)?))
    },
};

/// An account at OpenAI.
#[derive(Debug)]
pub struct OpenAi {
    service: Service,
    account: Account,
    /// The latest turn state of each running turn, oldest turn first.
    turns: Mutex<VecDeque<(String, String)>>,
}

/// The kind of an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Account {
    /// An API account, identified by its key.
    Key,
    /// The account of a user who signed in to ChatGPT.
    ChatGpt {
        /// The id of the account, if known.
        id: Option<String>,
    },
}

impl OpenAi {
    /// The base address for API keys.
    pub const API_BASE: &str = "https://api.openai.com/v1";
    /// The base address for users who signed in to ChatGPT.
    pub const CHATGPT_BASE: &str = "https://chatgpt.com/backend-api/codex";

    /// Creates a client for an account with its credential.
    pub fn new(web: Web, base: &str, account: Account, token: Arc<dyn Credential>) -> Result<Self, ModelError> {
        Ok(Self { service: Service::new(web, PROVIDER.name, base, Some(token))?, account, turns: Mutex::default() })
    }

    /// Runs a round until the model is done or requests tool calls.
    async fn converse(&self, exchange: &mut Exchange<'_>) -> Result<RoundResult, ModelError> {
        let mut before = String::new();
        for cuts in 0.. {
            let body = request::body(exchange.round(), &before);
            let request =
                Request::post(self.service.endpoint(&["responses"]), body).with(self.turn_headers(exchange.round())?);
            exchange.debug("request", |fields| add_request(fields, &request)).await;
            let result = loop {
                match self.attempt(exchange, &request).await {
                    Err(error) => exchange.wait_before_retry(error).await?,
                    Ok(result) => break result,
                }
            };
            if result.is_complete || result.wants_calls() {
                return result.into_round_result(exchange).await;
            }
            if cuts == MAX_CUTS {
                break;
            }
            let status = result.status();
            exchange
                .debug("response_continue", |fields| {
                    fields.and("responseStatus", &status).and("reason", &"stream_ended_early")
                })
                .await;
            before.push_str(&result.answer);
        }
        Err(failed("OpenAI stream ended before the response was complete."))
    }

    async fn attempt(&self, exchange: &mut Exchange<'_>, request: &Request) -> Result<StreamResult, ModelError> {
        let response = exchange.ask_for_success(request).await?;
        let state = turn_state(&response);
        if let Some(state) = &state {
            self.remember(exchange.round(), state.clone());
        }
        match exchange.reply(response).await? {
            Reply::Events(events) => reply::read_stream(exchange, events, state).await,
            Reply::Whole(_) => Err(failed("OpenAI answered without a stream.")),
        }
    }

    /// The headers that identify this client and the account.
    fn headers(&self) -> Result<HeaderMap, ModelError> {
        let mut headers = HeaderMap::new();
        let Account::ChatGpt { id } = &self.account else { return Ok(headers) };
        let identity = self.service.web.identity();
        headers.insert(HeaderName::from_static("originator"), header(&identity.name)?);
        headers.insert(HeaderName::from_static("version"), header(&identity.version)?);
        if let Some(id) = id {
            headers.insert(HeaderName::from_static("chatgpt-account-id"), header(id)?);
        }
        Ok(headers)
    }

    fn turn_headers(&self, round: &Round) -> Result<HeaderMap, ModelError> {
        let mut headers = self.headers()?;
        if matches!(self.account, Account::ChatGpt { .. }) {
            headers.insert(HeaderName::from_static("session_id"), header(&round.turn)?);
            let turns = self.turns.lock().unpoisoned();
            if let Some((_, state)) = turns.iter().find(|(turn, _)| *turn == round.turn) {
                headers.insert(HeaderName::from_static(TURN_STATE), header(state)?);
            }
        }
        Ok(headers)
    }

    fn remember(&self, round: &Round, state: String) {
        let mut turns = self.turns.lock().unpoisoned();
        turns.retain(|(turn, _)| *turn != round.turn);
        if turns.len() == MAX_TURNS {
            turns.pop_front();
        }
        turns.push_back((round.turn.clone(), state));
    }
}

#[async_trait]
impl Models for OpenAi {
    fn provider(&self) -> &str {
        PROVIDER.id
    }

    async fn catalogue(&self) -> Result<Vec<ModelOption>, ModelError> {
        let mut url = self.service.endpoint(&["models"]);
        if matches!(self.account, Account::ChatGpt { .. }) {
            url.query_pairs_mut().append_pair("client_version", &self.service.web.identity().version);
        }
        let request = Request::get(url).with(self.headers()?);
        Ok(catalogue::options(&self.service.json(&request).await?))
    }

    async fn round(
        &self,
        round: &Round,
        listener: &mut (dyn Listener + '_),
        cancel: &CancellationToken,
    ) -> Result<RoundResult, ModelError> {
        let mut exchange = Exchange::new(&self.service, round, listener, cancel);
        self.converse(&mut exchange).await
    }
}

fn turn_state(response: &Response) -> Option<String> {
    Some(response.headers().get(TURN_STATE)?.to_str().ok()?.to_owned())
}

/// Adds a request to debug output, without its credential.
fn add_request(fields: DebugFields, request: &Request) -> DebugFields {
    let mut headers = json!({"authorization": "[redacted]"});
    for (name, value) in &request.headers {
        headers[name.as_str()] = json!(String::from_utf8_lossy(value.as_bytes()));
    }
    fields.and("payload", &payload(request.body.as_deref().unwrap_or_default())).and("headers", &headers)
}
