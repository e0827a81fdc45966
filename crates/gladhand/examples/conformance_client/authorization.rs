//! How the client gets into the servers of the authorization scenarios: by what a scenario's context says.

use std::sync::Arc;

use gladhand::Secret;
use gladhand::auth::AuthError;
use gladhand::auth::client::{
    Authorizer, Browser, ClientIdentity, ClientProof, Flow, IdentityProvider, MemoryStore, Options, Pending, SigningKey,
};
use serde_json::Value;
use url::Url;

/// The document that the suite expects to be our client id where such documents are supported.
const CLIENT_METADATA: &str = "https://conformance-test.local/client-metadata.json";

/// The authorizer for a scenario.
pub(crate) fn authorizer(scenario: &str, server: &str, context: &Value) -> anyhow::Result<Authorizer> {
    let text = |name: &str| context[name].as_str().map(str::to_owned);
    let secret = |name: &str| text(name).map(Secret::new);
    let proof = match (secret("client_secret"), secret("private_key_pem")) {
        (Some(secret), _) => ClientProof::Secret(secret),
        (None, Some(pem)) => {
            ClientProof::Key(SigningKey { algorithm: text("signing_algorithm").unwrap_or_default(), pem })
        }
        (None, None) => ClientProof::None,
    };
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
    } else if scenario.starts_with("auth/client-credentials") {
        Flow::ClientCredentials
    } else {
        Flow::Code(Arc::new(Willing::new()?))
    };
    Ok(Authorizer::new(Options {
        server: Url::parse(server)?,
        flow,
        client: text("client_id").map(|id| ClientIdentity { id, proof, issuer: text("issuer") }),
        client_metadata_url: Some(Url::parse(CLIENT_METADATA)?),
        client_name: "Gladhand".to_owned(),
        roots: gladhand_auth::Roots::default(),
        store: Arc::new(MemoryStore::default()),
    })?)
}

/// A browser whose person always agrees: the suite's authorization servers redirect at once.
struct Willing(reqwest::Client);

impl Willing {
    fn new() -> anyhow::Result<Self> {
        Ok(Self(gladhand_tls::client_builder().no_proxy().redirect(reqwest::redirect::Policy::none()).build()?))
    }
}

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
