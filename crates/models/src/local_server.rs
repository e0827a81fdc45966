//! Finds model servers on this machine without configuration.

use std::time::Duration;

use futures_util::future::join_all;

use crate::{Compatible, ModelOption, Models, Web};

/// A server on this machine that does not respond within this time counts as absent.
const TIMEOUT: Duration = Duration::from_millis(750);

/// An address at which a server may run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate<'a> {
    /// The name of the provider if a server is found there.
    pub provider: &'a str,
    /// The address.
    pub base: &'a str,
}

/// The default addresses of common model servers.
pub const LOCAL_SERVERS: &[Candidate<'static>] = &[
    Candidate { provider: "ollama", base: "http://127.0.0.1:11434/v1" },
    Candidate { provider: "llamacpp", base: "http://127.0.0.1:8080/v1" },
];

/// Looks for a server with at least one model, at all addresses in parallel. The first address in the list wins.
/// Any other program that listens there is recognized by its response: it returns no list of models.
pub async fn detect(web: &Web, places: &[Candidate<'_>]) -> Option<(Compatible, Vec<ModelOption>)> {
    let looks = places.iter().map(async |place| {
        let server = Compatible::new(web.clone(), place.provider, place.base, None).ok()?;
        let models = tokio::time::timeout(TIMEOUT, server.catalogue()).await.ok()?.ok()?;
        (!models.is_empty()).then_some((server, models))
    });
    join_all(looks).await.into_iter().flatten().next()
}
