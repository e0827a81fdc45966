//! Authorization: who may come in over HTTP (`[authorization]` of the configuration), and where the tokens are that get us
//! into the servers of others.

mod admission;
mod tokens;

use std::collections::BTreeMap;
use std::path::PathBuf;

use gladhand_auth::Scopes;
use gladhand_auth::resource::{Dpop, Issuer, KeySource, KnownToken, Policy, ToolScopes};
use gladhand_core::Secret;
use gladhand_redaction::{Life, learn};
use serde::{Deserialize, Serialize};
use url::Url;

use gladhand_server::http::ENDPOINT;

pub use admission::{Admission, FollowedAccess, random_token, unnamed_pass};
pub use tokens::KeptTokens;

/// Whose tokens open the HTTP endpoint. With neither issuers nor tokens, it is open to everybody who can reach it.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct AuthorizationConfig {
    /// Our own address as callers know it. Tokens of issuers must be made for it.
    pub resource: Option<String>,
    /// Further audiences that mean us.
    pub audiences: Vec<String>,
    /// Scopes that every request needs.
    pub scopes: Vec<String>,
    /// Scopes that calls of single tools need besides, by name; `*` in a name stands for any letters.
    pub tool_scopes: BTreeMap<String, Vec<String>>,
    /// What is made of tokens that are bound to a key.
    pub dpop: DpopConfig,
    /// Authorization servers whose tokens are accepted.
    pub issuers: Vec<IssuerConfig>,
    /// Tokens that are accepted as they are.
    pub tokens: Vec<TokenConfig>,
    /// Whether no request is let in because a change that asks for the first token is not trusted yet.
    #[serde(skip)]
    pub(crate) is_closed: bool,
}

/// Whether tokens of issuers may or must be bound to a key of their owner (RFC 9449).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DpopConfig {
    /// Bound tokens are refused.
    Off,
    /// Both kinds are accepted.
    #[default]
    Accepted,
    /// Only bound ones are.
    Required,
}

/// `[[authorization.issuers]]`
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct IssuerConfig {
    /// The identifier, exactly as the issuer writes it.
    pub issuer: String,
    /// The address of its keys. Neither this nor a file: its metadata says where they are.
    pub jwks_url: Option<String>,
    /// A file with its keys.
    pub jwks_file: Option<PathBuf>,
}

/// `[[authorization.tokens]]`
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TokenConfig {
    /// Whom it stands for.
    pub name: String,
    /// The token.
    #[serde(deserialize_with = "token", serialize_with = "masked")]
    pub token: Secret,
    /// What it may be used for. Absent: everything.
    pub scopes: Option<Vec<String>>,
}

/// What is wrong with the section as a whole.
#[derive(Debug, thiserror::Error)]
pub enum BadAuthorization {
    /// Tokens of issuers are made for somebody, and we do not know under which name that would be us.
    #[error("authorization.resource must be set when there are issuers")]
    NoResource,
    /// Something that should be an address.
    #[error("authorization: `{0}` is not a URL")]
    NotUrl(String),
    /// Two places for one thing.
    #[error("authorization: the keys of {0} are either at jwks_url or in jwks_file")]
    TwoPlaces(String),
    /// The guard does not accept it.
    #[error("authorization: {0}")]
    Unusable(#[from] gladhand_auth::AuthError),
}

impl AuthorizationConfig {
    /// Whether every request over HTTP needs a token.
    pub fn is_required(&self) -> bool {
        !self.issuers.is_empty() || !self.tokens.is_empty()
    }

    /// Whom these settings let in.
    pub fn admission(&self) -> Result<Admission, BadAuthorization> {
        if !self.is_required() {
            return Ok(if self.is_closed { Admission::NoOne } else { Admission::Everyone });
        }
        let url = |text: &String| Url::parse(text).map_err(|_| BadAuthorization::NotUrl(text.clone()));
        let resource = self.resource.as_ref().map(url).transpose()?;
        if resource.is_none() && !self.issuers.is_empty() {
            return Err(BadAuthorization::NoResource);
        }
        let mut issuers = Vec::new();
        for IssuerConfig { issuer, jwks_url, jwks_file } in &self.issuers {
            let keys = match (jwks_url, jwks_file) {
                (None, None) => KeySource::Metadata,
                (Some(address), None) => KeySource::Url(url(address)?),
                (None, Some(file)) => KeySource::File(file.clone()),
                (Some(_), Some(_)) => return Err(BadAuthorization::TwoPlaces(issuer.clone())),
            };
            issuers.push(Issuer { issuer: issuer.clone(), keys });
        }
        let list = |scopes: &Vec<String>| -> Scopes { scopes.iter().map(String::as_str).collect() };
        let (scopes, audiences) = (list(&self.scopes), self.audiences.clone());
        let tools: ToolScopes = self.tool_scopes.iter().map(|(name, scopes)| (name, list(scopes))).collect();
        // Whoever writes a token into this file means it to be enough, unless they say for what.
        let mut everything = scopes.clone();
        everything.add(&tools.all());
        let known = |TokenConfig { name, token, scopes }: &TokenConfig| KnownToken {
            name: name.clone(),
            token: token.clone(),
            scopes: scopes.as_ref().map_or_else(|| everything.clone(), list),
        };
        let tokens = self.tokens.iter().map(known).collect();
        let dpop = match self.dpop {
            DpopConfig::Off => Dpop::Off,
            DpopConfig::Accepted => Dpop::Accepted,
            DpopConfig::Required => Dpop::Required,
        };
        let endpoint = ENDPOINT.to_owned();
        let policy = Policy { resource, endpoint, audiences, issuers, tokens, scopes, tools, dpop };
        Ok(Admission::Policy(Box::new(policy)))
    }
}

fn masked<S: serde::Serializer>(_: &Secret, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(crate::config::MASK)
}

fn token<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Secret, D::Error> {
    // serde's own complaint would quote what it found, which is a secret.
    let text = toml::Value::deserialize(deserializer)?.as_str().map(str::to_owned).unwrap_or_default();
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
    if text.is_empty() || !text.bytes().all(fits) {
        return Err(serde::de::Error::custom("a token is a string of letters, digits and - . _ ~ + / ="));
    }
    learn(&text, Life::Process);
    Ok(Secret::new(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard(text: &str) -> Result<bool, String> {
        let config: AuthorizationConfig = toml::from_str(text).map_err(|error| error.message().to_owned())?;
        let followed =
            |admission: Admission| FollowedAccess::default().follow(&admission, Vec::new()).map_err(Into::into);
        config.admission().and_then(followed).map_err(|error: BadAuthorization| error.to_string())
    }

    #[test]
    fn settings_become_a_guard_or_a_complaint() {
        assert_eq!(guard(""), Ok(false));
        assert_eq!(guard("tokens = [{name = 'ann', token = 'a-b'}]"), Ok(true));
        let resource = "resource = 'https://me.example/mcp'";
        assert_eq!(guard(&format!("{resource}\nissuers = [{{issuer = 'https://as.example'}}]")), Ok(true));
        assert_eq!(
            guard("tool_scopes = {'a*' = ['x']}\ntokens = [{name = 'ann', token = 'a', scopes = []}]"),
            Ok(true)
        );
        let wrong = [
            ("dpop = 'perhaps'", "unknown variant `perhaps`, expected one of `off`, `accepted`, `required`"),
            (
                "issuers = [{issuer = 'https://as.example'}]",
                "authorization.resource must be set when there are issuers",
            ),
            ("resource = 'me'\ntokens = [{name = 'ann', token = 'x'}]", "authorization: `me` is not a URL"),
            (
                "resource = 'https://me.example'\nissuers = [{issuer = 'http://as.example'}]",
                "authorization: http://as.example/ is not an address to send credentials to: it must be https, or \
                 loopback for a loopback server",
            ),
            (
                "tokens = [{name = 'ann', token = 'two words'}]",
                "a token is a string of letters, digits and - . _ ~ + / =",
            ),
        ];
        for (text, complaint) in wrong {
            assert_eq!(guard(text), Err(complaint.to_owned()));
        }
    }
}
