//! Model servers on this machine that nobody had to configure.

use std::time::Duration;

use futures_util::future::join_all;

use crate::{Compatible, ModelOption, Models, Web};

/// A server on this machine answers within this time, or it is not there.
const PATIENCE: Duration = Duration::from_millis(400);

/// Where a server may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate<'a> {
    /// What its provider is called if it is there.
    pub provider: &'a str,
    /// Where to look.
    pub base: &'a str,
}

/// Where the servers that people run listen unless told otherwise.
pub const LOCAL_SERVERS: &[Candidate<'static>] = &[
    Candidate { provider: "ollama", base: "http://127.0.0.1:11434/v1" },
    Candidate { provider: "llamacpp", base: "http://127.0.0.1:8080/v1" },
];

/// Looks for a server that has at least one model, at all places at once; the first place in the list wins. What else
/// may listen there is told apart by its answer: it has no list of models.
pub async fn detect(web: &Web, places: &[Candidate<'_>]) -> Option<(Compatible, Vec<ModelOption>)> {
    let looks = places.iter().map(async |place| {
        let server = Compatible::new(web.clone(), place.provider, place.base, None).ok()?;
        let models = tokio::time::timeout(PATIENCE, server.catalogue()).await.ok()?.ok()?;
        (!models.is_empty()).then_some((server, models))
    });
    join_all(looks).await.into_iter().flatten().next()
}
