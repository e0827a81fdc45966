//! Verifies JSON web tokens used as access tokens (RFC 9068): issuer, subject and audience.

use gladhand_core::Secret;
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Validation, dangerous, decode, decode_header};
use serde::Deserialize;
use serde_json::Value;

use super::keys::Keys;
use crate::resource::{Principal, Refusal, Scheme};
use crate::scopes::Scopes;
use crate::signatures::install_signatures;

/// The accepted clock difference in seconds.
const LEEWAY: u64 = 30;

/// Verifies tokens of the configured issuers.
pub(crate) struct Verifier {
    issuers: Vec<(String, Keys)>,
    audiences: Vec<String>,
}

#[derive(Deserialize)]
struct Claims {
    iss: String,
    sub: Option<String>,
    client_id: Option<String>,
    scope: Option<String>,
    /// The same as `scope` at servers that write a list.
    scp: Option<Value>,
    /// Set if the token is bound to a key of its owner.
    cnf: Option<Value>,
    /// Checked together with the signature.
    exp: Option<f64>,
}

impl Verifier {
    pub(crate) fn new(issuers: Vec<(String, Keys)>, audiences: Vec<String>) -> Self {
        install_signatures();
        Self { issuers, audiences }
    }

    /// The audiences that mean us.
    pub(crate) fn audiences(&self) -> &[String] {
        &self.audiences
    }

    /// The principal of a token, and the thumbprint of the key that it is bound to, if any.
    pub(crate) async fn verify(&self, token: &Secret) -> Result<(Principal, Option<String>), Refusal> {
        let unknown = Refusal::InvalidToken("the token is unknown");
        if self.issuers.is_empty() {
            return Err(unknown);
        }
        let header = decode_header(token.expose()).map_err(|_| unknown)?;
        // Issuers sign tokens for other purposes with the same keys.
        let is_access_token = header.typ.as_deref().is_none_or(|kind| {
            ["JWT", "at+jwt", "application/at+jwt"].iter().any(|known| kind.eq_ignore_ascii_case(known))
        });
        if !is_access_token {
            return Err(Refusal::InvalidToken("the token is not an access token"));
        }
        if header.crit.is_some() {
            return Err(Refusal::InvalidToken("the token requires an extension that is not supported"));
        }
        // Not verified yet: only used to find the keys that verify the token.
        let claimed: Claims = dangerous::insecure_decode_claims(token.expose()).map_err(|_| unknown)?;
        let (issuer, keys) = self
            .issuers
            .iter()
            .find(|(issuer, _)| *issuer == claimed.iss)
            .ok_or(Refusal::InvalidToken("the issuer of the token is not trusted"))?;

        let id = header.kid.as_deref();
        let set = keys.get(|key| key.suits(id, header.alg)).await;
        let set = set.ok_or(Refusal::Undecided("the keys of the issuer cannot be fetched"))?;
        let mut validation = Validation::new(header.alg);
        validation.leeway = LEEWAY;
        validation.validate_nbf = true;
        validation.set_audience(&self.audiences);
        validation.set_issuer(&[issuer]);
        validation.set_required_spec_claims(&["exp", "iss", "aud"]);
        let mut refusal = Refusal::InvalidToken("the token is signed with an unknown key");
        for key in set.iter().filter(|key| key.suits(id, header.alg)) {
            match decode::<Claims>(token.expose(), &key.key, &validation) {
                Ok(data) => return principal(data.claims),
                Err(error) => refusal = Refusal::InvalidToken(explain(error.kind())),
            }
        }
        Err(refusal)
    }
}

fn principal(claims: Claims) -> Result<(Principal, Option<String>), Refusal> {
    let bound_to = match &claims.cnf {
        None => None,
        Some(Value::Object(binding)) if binding.len() == 1 => binding.get("jkt").and_then(Value::as_str),
        Some(_) => None,
    };
    if claims.cnf.is_some() && bound_to.is_none() {
        // The binding prevents that a thief can use the token. If it cannot be checked, the token must be refused.
        return Err(Refusal::InvalidToken("the token has an unsupported kind of binding"));
    }
    let bound_to = bound_to.map(str::to_owned);
    // All tokens with an empty subject would be the same principal.
    let subject = claims.sub.or(claims.client_id).filter(|subject| !subject.trim().is_empty());
    let subject = subject.ok_or(Refusal::InvalidToken("the token has no subject"))?;
    let mut scopes = Scopes::parse(claims.scope.as_deref().unwrap_or_default());
    match claims.scp {
        Some(Value::String(list)) => scopes.add(&Scopes::parse(&list)),
        Some(Value::Array(list)) => scopes.add(&list.iter().filter_map(Value::as_str).collect()),
        _ => {}
    }
    let name = format!("{} {subject}", claims.iss);
    let scheme = if bound_to.is_some() { Scheme::Dpop } else { Scheme::Bearer };
    let expires = claims.exp.map(|seconds| seconds as u64);
    Ok((Principal { name: name.into(), subject, issuer: Some(claims.iss), scopes, expires, scheme }, bound_to))
}

fn explain(error: &ErrorKind) -> &'static str {
    match error {
        ErrorKind::ExpiredSignature => "the token has expired",
        ErrorKind::ImmatureSignature => "the token is not valid yet",
        ErrorKind::InvalidAudience => "the token is made for another audience",
        ErrorKind::InvalidIssuer => "the issuer of the token is not trusted",
        ErrorKind::MissingRequiredClaim(_) => "the token lacks a claim",
        ErrorKind::InvalidSignature => "the signature of the token is wrong",
        _ => "the token cannot be read",
    }
}
