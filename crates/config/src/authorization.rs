//! `[authorization]`: whose tokens open the HTTP endpoint.

use std::collections::BTreeMap;
use std::path::PathBuf;

use gladhand_core::Secret;
use gladhand_redaction::{Life, MASK, learn};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whose tokens open the HTTP endpoint. With neither issuers nor tokens, every client that can reach it may use it.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
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
    /// How tokens that are bound to a key are treated.
    pub dpop: DpopConfig,
    /// Authorization servers whose tokens are accepted.
    pub issuers: Vec<IssuerConfig>,
    /// Tokens that are accepted as they are.
    pub tokens: Vec<TokenConfig>,
    /// Whether no request is let in because all tokens of the file are new and not trusted yet.
    #[serde(skip)]
    pub is_closed: bool,
}

/// Whether tokens of issuers may or must be bound to a key of their owner (RFC 9449).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
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
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
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
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenConfig {
    /// Whom it stands for.
    pub name: String,
    /// The token.
    #[serde(deserialize_with = "token", serialize_with = "masked")]
    #[schemars(with = "String")]
    pub token: Secret,
    /// The scopes that it grants. Absent: everything.
    pub scopes: Option<Vec<String>>,
}

impl AuthorizationConfig {
    /// Returns tokens that no request could present, as key and message, and removes them.
    pub(crate) fn take_mistakes(&mut self) -> Vec<(String, String)> {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
        let fits = |token: &TokenConfig| {
            let text = token.token.expose();
            !text.is_empty() && text.bytes().all(is_part)
        };
        let wrong = self.tokens.iter().enumerate().filter(|(_, token)| !fits(token));
        let problem = "a token is a string of letters, digits and - . _ ~ + / =";
        let wrong =
            wrong.map(|(at, _)| (format!("authorization.tokens#{}.token", at + 1), problem.to_owned())).collect();
        self.tokens.retain(fits);
        wrong
    }

    /// Whether every request over HTTP needs a token.
    pub fn is_required(&self) -> bool {
        !self.issuers.is_empty() || !self.tokens.is_empty()
    }
}

fn masked<S: serde::Serializer>(_: &Secret, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(MASK)
}

fn token<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Secret, D::Error> {
    let text = String::deserialize(deserializer)?;
    learn(&text, Life::Process);
    Ok(Secret::new(text))
}
