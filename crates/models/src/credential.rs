//! Credentials for requests to a service.

use async_trait::async_trait;
use gladhand_core::Secret;

use crate::ModelError;

/// A key or token. It is requested before each use, so that its holder can renew it.
#[async_trait]
pub trait Credential: Send + Sync {
    /// The credential to use now.
    async fn token(&self) -> Result<Secret, ModelError>;

    /// A replacement after the service rejected this credential. Called at most once per request.
    async fn another(&self, _refused: &Secret) -> Option<Secret> {
        None
    }
}

gladhand_core::debug_as_name!(Credential);

/// A key that never changes.
#[async_trait]
impl Credential for Secret {
    async fn token(&self) -> Result<Self, ModelError> {
        Ok(self.clone())
    }
}
