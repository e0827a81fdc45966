//! Signs out: revokes tokens where the issuer supports it, and deletes them.

use gladhand_core::Secret;

use super::Authorizer;
use super::dpop::Prover;
use super::identity::Client;
use super::store::{Grant, Record};
use super::token::TokenEndpoint;
use crate::error::AuthError;

/// The result of revoking a token.
#[derive(Debug)]
pub enum Revocation {
    /// The token is revoked.
    Done,
    /// The issuer does not support revocation: the token stays valid until it expires.
    Unsupported,
    /// The revocation failed.
    Failed(AuthError),
}

impl Authorizer {
    /// Revokes and deletes all tokens that were issued to us for the server. Returns the result for each issuer;
    /// the tokens are deleted in any case.
    pub async fn sign_out(&self) -> Result<Vec<(String, Revocation)>, AuthError> {
        let _guard = self.token_lock.lock().await;
        let server = self.options.server.as_str();
        let records = self.options.store.records(server)?;
        let mut ended = Vec::new();
        for record in records {
            if let Some(grant) = &record.grant {
                let revocation = self.revoke(&record, grant).await.unwrap_or_else(Revocation::Failed);
                ended.push((record.issuer.clone(), revocation));
            }
        }
        self.drop_token();
        self.options.store.forget(server)?;
        Ok(ended)
    }

    async fn revoke(&self, record: &Record, grant: &Grant) -> Result<Revocation, AuthError> {
        let server = self.authorization_server(&record.issuer).await?;
        let Some(address) = server.revocation_endpoint.as_deref().filter(|_| server.issuer == record.issuer) else {
            return Ok(Revocation::Unsupported);
        };
        let url = self.web.admit(address)?;
        let client = Client::identify(&self.web, &self.options, &server, record.registration.as_ref(), None).await?;
        let prover = grant.key.as_ref().map(Prover::restore).transpose()?;
        let endpoint =
            TokenEndpoint { web: &self.web, url, issuer: &server.issuer, client: &client, prover: prover.as_ref() };
        // The refresh token goes first: some servers then revoke the access token too.
        let tokens: [(Option<&Secret>, &str); 2] =
            [(grant.refresh_token.as_ref(), "refresh_token"), (Some(&grant.access_token), "access_token")];
        for (token, kind) in tokens {
            if let Some(token) = token {
                endpoint.revoke(token, kind).await?;
            }
        }
        Ok(Revocation::Done)
    }
}
