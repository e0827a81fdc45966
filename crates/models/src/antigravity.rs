//! Client for Antigravity: Google's models behind Cloud Code. Each reply is one JSON document; there is no
//! streaming.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use gladhand_core::Order as _;
use gladhand_core::sync::Unpoisoned as _;
use gladhand_core::wire::RawValue;
use http::{HeaderMap, HeaderName};
use serde::Serialize;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use crate::catalogue::{entries, text};
use crate::exchange::{Exchange, payload, shortened, trimmed};
use crate::provider::{Connection, Login, ProviderInfo, Requirement, never};
use crate::request_parts::{outcome, picture};
use crate::service::Service;
use crate::web::{Base, Request, Web, failed, header};
use crate::{
    Credential, HistoryItem, Listener, ModelError, ModelOption, Models, Piece, Round, RoundResult, Segment, Thinking,
    Usage, WantedCall,
};

/// The maximum number of characters of an error response that is shown to the user.
const MAX_SHOWN: usize = 280;

/// Google Cloud Code, with a Google login.
pub(crate) static PROVIDER: ProviderInfo = ProviderInfo {
    id: "antigravity",
    name: "Antigravity",
    requires: Requirement::Credential,
    key: None,
    login: Some(Login::Google),
    default_base: Some(Antigravity::BASE),
    base_variable: Some("GLADHAND_ANTIGRAVITY_BASE"),
    model_variable: None,
    is_of_loaf: true,
    has_routing: false,
    is_probable: never,
    missing: "antigravity model selected, but no antigravity oauth token is available",
    connect: |Connection { web, base, login, .. }| {
        let login = login.ok_or_else(|| failed(PROVIDER.missing))?;
        Ok(Arc::new(Antigravity::new(web, base.as_deref().unwrap_or(Antigravity::BASE), login.credential)?))
    },
};

/// The account of a user who signed in to Antigravity.
#[derive(Debug)]
pub struct Antigravity {
    /// Its address identifies the account. It also serves all other requests, unless the account uses `cloud`.
    service: Service,
    /// The address for accounts under the Google Cloud terms of service.
    cloud: Base,
    /// The project as the service reported it last.
    project: Mutex<Option<Project>>,
}

/// The remaining quota of one model.
#[derive(Debug, Clone, PartialEq)]
pub struct Quota {
    /// The id of the model.
    pub model: String,
    /// The remaining fraction, from 0 (nothing left) to 1 (full).
    pub remaining: f64,
    /// When the quota is full again, in the format of the service.
    pub resets_at: Option<String>,
}

/// The address and project id that serve an account's models.
#[derive(Debug, Clone)]
struct Project {
    base: Base,
    id: String,
}

impl Antigravity {
    /// The address that identifies accounts.
    pub const BASE: &str = "https://daily-cloudcode-pa.googleapis.com";
    /// The address for accounts under the Google Cloud terms of service.
    pub const CLOUD_BASE: &str = "https://cloudcode-pa.googleapis.com";

    /// Creates a client that authenticates with a token. A `base` other than [`Self::BASE`] is used for all
    /// requests.
    pub fn new(web: Web, base: &str, token: Arc<dyn Credential>) -> Result<Self, ModelError> {
        let cloud = if base == Self::BASE { Self::CLOUD_BASE } else { base };
        let service = Service::new(web, PROVIDER.id, base, Some(token))?;
        Ok(Self { service, cloud: Base::parse(cloud)?, project: Mutex::default() })
    }

    fn request(&self, base: &Base, method: &str, body: &impl Serialize) -> Result<Request, ModelError> {
        let identity = self.service.web.identity();
        let mut headers = HeaderMap::new();
        headers.insert(HeaderName::from_static("x-client-name"), header(&identity.name)?);
        headers.insert(HeaderName::from_static("x-client-version"), header(&identity.version)?);
        let body = serde_json::to_vec(body).expect("text and raw JSON are always JSON");
        Ok(Request::post(base.join(&[&format!("v1internal:{method}")]), body).with(headers))
    }

    fn account_request(&self) -> Result<Request, ModelError> {
        let identity = self.service.web.identity();
        let metadata = json!({
            "ideType": "IDE_UNSPECIFIED", "platform": "PLATFORM_UNSPECIFIED", "pluginType": "GEMINI",
            "ideName": identity.name, "ideVersion": identity.version, "pluginVersion": identity.version,
        });
        self.request(&self.service.base, "loadCodeAssist", &json!({"metadata": metadata}))
    }

    fn store_project(&self, response: &Value) -> Project {
        let project = &response["cloudaicompanionProject"];
        let is_cloud = response["currentTier"]["usesGcpTos"] == true;
        let project = Project {
            base: if is_cloud { &self.cloud } else { &self.service.base }.clone(),
            id: project.as_str().or_else(|| project["id"].as_str()).unwrap_or_default().to_owned(),
        };
        *self.project.lock().unpoisoned() = Some(project.clone());
        project
    }

    /// Returns the project of the account. The service is asked again in each turn, because a user can change
    /// plans.
    async fn project(&self, exchange: &mut Exchange<'_>) -> Result<Project, ModelError> {
        let known = self.project.lock().unpoisoned().clone();
        match known {
            Some(project) if exchange.round().number > 1 => Ok(project),
            _ => Ok(self.store_project(&ask(exchange, &self.account_request()?).await?)),
        }
    }

    /// The remaining quota of each model that has one, in the order of the catalogue.
    pub async fn quotas(&self) -> Result<Vec<Quota>, ModelError> {
        let list = self.list().await?;
        let quota = |option: ModelOption| {
            let quota = &list["models"][&option.id]["quotaInfo"];
            let remaining = quota["remainingFraction"].as_f64()?;
            Some(Quota { model: option.id, remaining, resets_at: quota["resetTime"].as_str().map(str::to_owned) })
        };
        Ok(options(&list).into_iter().filter_map(quota).collect())
    }

    /// Requests the list of available models.
    async fn list(&self) -> Result<Value, ModelError> {
        let project = self.store_project(&self.document(&self.account_request()?).await?);
        let request = self.request(&project.base, "fetchAvailableModels", &json!({"project": project.id}))?;
        self.document(&request).await
    }

    async fn document(&self, request: &Request) -> Result<Value, ModelError> {
        let document = self.service.document(request).await?;
        if !document.status.is_success() {
            return Err(refused(document.status.as_u16(), &document.text));
        }
        document.read(PROVIDER.id)
    }

    async fn converse(&self, exchange: &mut Exchange<'_>) -> Result<RoundResult, ModelError> {
        let project = self.project(exchange).await?;
        let round = exchange.round();
        let body = body(round, &project.id, &self.service.web.identity().name);
        let request = self.request(&project.base, "generateContent", &body)?;
        exchange
            .debug("request", |fields| {
                let fields = fields.prepend("provider", &PROVIDER.id);
                fields.and("payload", &payload(request.body.as_deref().unwrap_or_default()))
            })
            .await;
        let response = ask(exchange, &request).await?;
        exchange.debug("response_raw", |fields| fields.and("response", &response)).await;
        let response = if response["response"].is_object() { &response["response"] } else { &response };
        let parts = entries(&response["candidates"][0]["content"]["parts"]);
        exchange.deliver(piece(parts, round.thinking)).await;
        let wanted: Vec<(usize, &Value)> =
            parts.iter().enumerate().filter(|(_, part)| part["functionCall"].is_object()).collect();
        exchange.check_calls(wanted.len())?;
        if !wanted.is_empty() {
            let raw: Value = wanted.iter().map(|(_, part)| part["functionCall"].clone()).collect();
            exchange.debug("tool_calls", |fields| fields.and("functionCalls", &raw)).await;
        }
        let tokens = &response["usageMetadata"];
        let count = |name: &str| tokens[name].as_u64().unwrap_or_default();
        let usage = tokens.is_object().then(|| Usage {
            input_tokens: count("promptTokenCount"),
            output_tokens: count("candidatesTokenCount") + count("thoughtsTokenCount"),
        });
        Ok(RoundResult { calls: wanted.into_iter().map(|(at, part)| call(exchange, at, part)).collect(), usage })
    }
}

#[async_trait]
impl Models for Antigravity {
    fn provider(&self) -> &str {
        PROVIDER.id
    }

    async fn catalogue(&self) -> Result<Vec<ModelOption>, ModelError> {
        Ok(options(&self.list().await?))
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

/// Requests a JSON document, within the timeout for whole responses.
async fn ask(exchange: &mut Exchange<'_>, request: &Request) -> Result<Value, ModelError> {
    let timeout = exchange.web().timeouts().whole;
    let fetch = async {
        let response = exchange.ask(request).await?;
        if !response.status().is_success() {
            let status = response.status().as_u16();
            let text = exchange.refusal(response).await?;
            return Err(refused(status, &exchange.clean(&text)));
        }
        let body = exchange.whole(response).await?;
        exchange.read(&body)
    };
    tokio::time::timeout(timeout, fetch).await.unwrap_or_else(|_| Err(failed("antigravity request timed out.")))
}

fn refused(status: u16, text: &str) -> ModelError {
    failed(format!("[cloudcode {status}] {}", shortened(text.trim(), MAX_SHOWN)))
}

fn body(round: &Round, project: &str, name: &str) -> Value {
    let mut contents: Vec<(&str, Vec<Value>)> = Vec::new();
    for item in &round.history {
        let (role, parts) = parts(item);
        match contents.last_mut() {
            // All tool results of one round must be in one message.
            Some((last, before)) if *last == role && matches!(item, HistoryItem::Result { .. }) => before.extend(parts),
            _ if parts.is_empty() => {}
            _ => contents.push((role, parts)),
        }
    }
    let contents: Value = contents.into_iter().map(|(role, parts)| json!({"role": role, "parts": parts})).collect();
    let mut request = json!({"model": round.model, "contents": contents});
    if !round.tools.is_empty() {
        let declarations = round.tools.iter().map(
            |tool| json!({"name": tool.name, "description": tool.description, "parametersJsonSchema": tree(&tool.schema)}),
        );
        request["tools"] = json!([{"functionDeclarations": declarations.collect::<Value>()}]);
        request["toolConfig"] = json!({"functionCallingConfig": {"mode": "AUTO"}});
    }
    if !round.instructions.is_empty() {
        request["systemInstruction"] = json!({"role": "user", "parts": [{"text": round.instructions}]});
    }
    json!({
        "project": project, "requestId": format!("agent-{}-{}", round.turn, round.number), "request": request,
        "model": round.model, "userAgent": name, "requestType": "agent",
    })
}

/// Parses raw JSON. Returns an empty object if that fails: the text comes from upstreams and models, and `json!`
/// would panic.
fn tree(raw: &RawValue) -> Value {
    serde_json::from_str(raw.get()).unwrap_or_else(|_| json!({}))
}

fn parts(item: &HistoryItem) -> (&'static str, Vec<Value>) {
    match item {
        HistoryItem::User { text, images } => {
            let pictures = images.iter().filter_map(|url| picture(url));
            let pictures = pictures.map(|(kind, data)| json!({"inlineData": {"mimeType": kind, "data": data}}));
            ("user", std::iter::once(json!({"text": text})).chain(pictures).collect())
        }
        HistoryItem::Assistant { text, calls } => {
            let words = Some(trimmed(text)).filter(|text| !text.is_empty()).map(|text| json!({"text": text}));
            let calls = calls.iter().map(|call| {
                let mut part =
                    json!({"functionCall": {"id": call.call_id, "name": call.name, "args": tree(&call.input)}});
                if let Some(seal) = &call.seal {
                    part["thoughtSignature"] = tree(seal);
                }
                part
            });
            ("model", words.into_iter().chain(calls).collect())
        }
        HistoryItem::Result { call_id, name, output, error } => {
            let response = json!({"result": outcome(output, error.as_deref())});
            ("user", vec![json!({"functionResponse": {"name": name, "response": response, "id": call_id}})])
        }
    }
}

/// The whole reply as one piece. Thoughts are dropped if thinking is off.
fn piece(parts: &[Value], thinking: Thinking) -> Piece {
    let mut piece = Piece::default();
    for part in parts {
        let data = &part["inlineData"];
        match (part["text"].as_str(), data["data"].as_str()) {
            (Some(""), _) => {}
            (Some(_), _) if part["thought"] == true && thinking == Thinking::Off => {}
            (Some(text), _) if part["thought"] == true => {
                piece.thoughts.push(text.to_owned());
                piece.segments.push(Segment::Thought(text.to_owned()));
            }
            (Some(text), _) => piece.segments.push(Segment::Answer(text.to_owned())),
            (None, Some(picture)) => {
                let kind = data["mimeType"].as_str().unwrap_or("image/png");
                piece.segments.push(Segment::Answer(format!("![image](data:{kind};base64,{picture})")));
            }
            (None, None) => {}
        }
    }
    piece
}

fn call(exchange: &Exchange<'_>, at: usize, part: &Value) -> WantedCall {
    let call = &part["functionCall"];
    let name = call["name"].as_str().unwrap_or_default();
    let none = Value::Object(Map::new());
    let raw = |value: &Value| -> Box<RawValue> {
        serde_json::value::to_raw_value(value).expect("a JSON value can be serialized")
    };
    WantedCall {
        call_id: text(call, &["id"]).map_or_else(|| exchange.generated_id(name, at), str::to_owned),
        name: name.to_owned(),
        input: raw(if call["args"].is_object() { &call["args"] } else { &none }),
        seal: Some(&part["thoughtSignature"]).filter(|seal| seal.is_string()).map(raw),
    }
}

/// The models of a list: recommended models first, then the others by id.
fn options(list: &Value) -> Vec<ModelOption> {
    let Some(models) = list["models"].as_object() else { return Vec::new() };
    let sorts = entries(&list["agentModelSorts"]).iter();
    let groups = sorts.flat_map(|sort| entries(&sort["groups"]));
    let recommended = groups.flat_map(|group| entries(&group["modelIds"])).filter_map(Value::as_str);
    let mut others: Vec<&str> = models.keys().map(String::as_str).collect();
    others.order();
    let mut options: Vec<ModelOption> = Vec::new();
    for id in recommended.chain(others) {
        let is_known = options.iter().any(|option| option.id == id);
        match models.get(id) {
            Some(model) if !is_known && model["disabled"] != true => options.push(option(id, model)),
            _ => {}
        }
    }
    options
}

fn option(id: &str, model: &Value) -> ModelOption {
    use Thinking::{High, Low, Medium, Minimal, Off, XHigh};
    let thinks = model["supportsThinking"] == true;
    // The output shares the context window with the input.
    let window = model["maxTokens"].as_u64().map(|whole| {
        let output = model["maxOutputTokens"].as_u64().unwrap_or(0);
        whole.checked_sub(output).filter(|rest| *rest > 0).unwrap_or(whole)
    });
    ModelOption {
        id: id.to_owned(),
        provider: PROVIDER.id.to_owned(),
        label: text(model, &["displayName"]).unwrap_or(id).to_owned(),
        description: "antigravity catalog model".to_owned(),
        supported_thinking_levels: Some(if thinks { vec![Off, Minimal, Low, Medium, High, XHigh] } else { vec![Off] }),
        default_thinking_level: Some(if thinks { High } else { Off }),
        routing_providers: None,
        context_window_tokens: window,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WantedCall;

    #[test]
    fn json_that_cannot_be_parsed_becomes_an_empty_object() {
        let raw = |text: &str| RawValue::from_string(text.to_owned()).unwrap();
        let call = |input| WantedCall { call_id: "1".to_owned(), name: "t".to_owned(), input, seal: None };
        for odd in [r#"{"a":1e999}"#, r#"{"a":"\ud800"}"#] {
            let (_, parts) = parts(&HistoryItem::Assistant { text: String::new(), calls: vec![call(raw(odd))] });
            assert_eq!(parts[0]["functionCall"]["args"], json!({}), "{odd}");
        }
    }
}
