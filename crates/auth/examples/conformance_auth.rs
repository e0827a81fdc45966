//! A small MCP client for the authorization scenarios of the conformance suite: it lists tools and calls the first,
//! through an [`Authorizer`]. The suite gives the address as last argument and the rest in the environment.

use std::sync::Arc;

use gladhand_accord::Secret;
use gladhand_auth::AuthError;
use gladhand_auth::client::{
    Attempt, Authorizer, Browser, ClientIdentity, ClientProof, Flow, IdentityProvider, MemoryStore, Options, Pending,
    SigningKey,
};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use serde_json::{Value, json};
use url::Url;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome<()> {
    let server = Url::parse(&std::env::args().next_back().unwrap_or_default())?;
    let version = std::env::var("MCP_CONFORMANCE_PROTOCOL_VERSION").unwrap_or_else(|_| "2025-11-25".to_owned());
    let context = match std::env::var("MCP_CONFORMANCE_CONTEXT") {
        Ok(text) => serde_json::from_str(&text)?,
        Err(_) => Value::Null,
    };
    let authorizer = Authorizer::new(options(server.clone(), &context)?)?;
    let http = reqwest::Client::builder().no_proxy().build()?;
    let client = Client { http, server, authorizer, version };
    if client.is_stateless() {
        client.ask("tools/list", json!({})).await?;
    } else {
        let hello = json!({
            "protocolVersion": client.version, "capabilities": {}, "clientInfo": {"name": "gladhand", "version": "0"},
        });
        client.ask("initialize", hello).await?;
        client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await?;
        client.ask("tools/list", json!({})).await?;
    }
    client.ask("tools/call", json!({"name": "test-tool", "arguments": {}})).await
}

/// What a scenario's context says about how to get in.
fn options(server: Url, context: &Value) -> Outcome<Options> {
    let text = |name: &str| context[name].as_str().map(str::to_owned);
    let secret = |name: &str| text(name).map(Secret::new);
    let proof = match (secret("client_secret"), secret("private_key_pem")) {
        (Some(secret), _) => ClientProof::Secret(secret),
        (None, Some(pem)) => {
            ClientProof::Key(SigningKey { algorithm: text("signing_algorithm").unwrap_or_default(), pem })
        }
        _ => ClientProof::None,
    };
    let client = text("client_id").map(|id| ClientIdentity { id, proof, issuer: text("issuer") });
    let flow = if let Some(assertion) = secret("valid_jwt") {
        Flow::Workload(Arc::new(assertion))
    } else if let Some(id_token) = secret("idp_id_token") {
        let id = text("idp_client_id").unwrap_or_default();
        Flow::Enterprise(IdentityProvider {
            issuer: text("idp_issuer").unwrap_or_default(),
            token_endpoint: text("idp_token_endpoint"),
            client: ClientIdentity { id, proof: ClientProof::None, issuer: None },
            id_token,
        })
    } else if context["name"].as_str().is_some_and(|name| name.starts_with("auth/client-credentials")) {
        Flow::ClientCredentials
    } else {
        Flow::Code(Arc::new(Willing(reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build()?)))
    };
    Ok(Options {
        server,
        flow,
        client,
        client_metadata_url: Some(Url::parse("https://conformance-test.local/client-metadata.json")?),
        client_name: "Gladhand conformance".to_owned(),
        store: Arc::new(MemoryStore::default()),
    })
}

/// A browser whose person always agrees: the suite's authorization servers redirect at once.
struct Willing(reqwest::Client);

impl Browser for Willing {
    fn redirect_uri(&self) -> &str {
        "http://127.0.0.1:33418/callback"
    }

    fn visit<'a>(&'a self, address: &'a Url, _state: &'a str) -> Pending<'a, Result<String, AuthError>> {
        Box::pin(async move {
            let lost = || AuthError::Browser("no redirect".to_owned());
            let answer = self.0.get(address.clone()).send().await.map_err(|_| lost())?;
            let location = answer.headers().get("location").and_then(|location| location.to_str().ok());
            let target = location.and_then(|location| Url::parse(location).ok()).ok_or_else(lost)?;
            Ok(target.query().unwrap_or_default().to_owned())
        })
    }
}

struct Client {
    http: reqwest::Client,
    server: Url,
    authorizer: Authorizer,
    version: String,
}

impl Client {
    fn is_stateless(&self) -> bool {
        self.version.as_str() >= "2026-07-28"
    }

    async fn ask(&self, method: &str, mut params: Value) -> Outcome<()> {
        if self.is_stateless() {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": self.version,
                "io.modelcontextprotocol/clientCapabilities": {},
                "io.modelcontextprotocol/clientInfo": {"name": "gladhand", "version": "0"},
            });
        }
        self.send(&json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})).await
    }

    async fn send(&self, message: &Value) -> Outcome<()> {
        let mut attempt = Attempt::default();
        loop {
            let mut headers = HeaderMap::new();
            headers.insert("accept", HeaderValue::from_static("application/json, text/event-stream"));
            headers.insert("mcp-protocol-version", HeaderValue::from_str(&self.version)?);
            if self.is_stateless() {
                headers.insert("mcp-method", HeaderValue::from_str(message["method"].as_str().unwrap_or_default())?);
                if let Some(name) = message["params"]["name"].as_str() {
                    headers.insert("mcp-name", HeaderValue::from_str(name)?);
                }
            }
            self.authorizer.authorize(&mut attempt, &Method::POST, &self.server, &mut headers).await?;
            let answer = self.http.post(self.server.clone()).headers(headers).json(message).send().await?;
            match answer.status() {
                status @ (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => {
                    self.authorizer.challenged(&mut attempt, status, answer.headers()).await?;
                }
                status => {
                    self.authorizer.answered(answer.headers());
                    answer.bytes().await?;
                    return if status.is_success() { Ok(()) } else { Err(status.to_string().into()) };
                }
            }
        }
    }
}
