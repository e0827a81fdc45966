//! Finds model servers on this machine without configuration.

use std::time::Duration;

use crate::{ModelOption, Models};

/// A server on this machine that does not respond within this time counts as absent.
const TIMEOUT: Duration = Duration::from_millis(750);

/// The models of a server that may run on this machine, or `None` if there is no server with at least one model. Any
/// other program that listens there is recognized by its response: it returns no list of models.
pub async fn detect(server: &dyn Models) -> Option<Vec<ModelOption>> {
    let models = tokio::time::timeout(TIMEOUT, server.catalogue()).await.ok()?.ok()?;
    Some(models).filter(|models| !models.is_empty())
}
