//! What a service wants to see before it answers.

use std::fmt;

use async_trait::async_trait;
use gladhand_core::Secret;

use crate::ModelError;

/// A key or a token, asked for before each request, so that whoever holds it can renew it.
#[async_trait]
pub trait Credential: fmt::Debug + Send + Sync {
    /// The one to use now.
    async fn token(&self) -> Result<Secret, ModelError>;

    /// Another one, after the service turned this one down. Asked at most once for a request.
    async fn another(&self, _refused: &Secret) -> Option<Secret> {
        None
    }
}

/// A key that stays what it is.
#[async_trait]
impl Credential for Secret {
    async fn token(&self) -> Result<Self, ModelError> {
        Ok(self.clone())
    }
}
