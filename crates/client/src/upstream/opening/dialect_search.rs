//! Finds the dialect of an upstream.
//!
//! MCP is tried first. If the upstream answers in another dialect, that dialect is used. If a process stays silent, the
//! other dialects are tried in turn. A process may hang or exit after a wrong first request, so each attempt uses a
//! process of its own. Over HTTP, A2E is tried if the server answers MCP requests as no MCP server would.

use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use gladhand_dialects::mcp::revision::Revision;
use gladhand_dialects::{Dialect, REGISTRY, a2e, mcp};
use url::Url;

use super::super::eras::Verdict;
use super::first_success::first_success;
use super::http_styles::Failed;
use super::{Attempt, OpenError, Opened, REMEMBERED_SHARE, SILENCE};
use crate::http_client::HttpClient;
use crate::upstream::Target;

/// How long a process may stay silent in both eras before the other dialects are tried, each [`SILENCE`] after the
/// previous one. A process that starts slowly still has until the end.
const LONGER_SILENCE: Duration = Duration::from_secs(6);

/// A dialect to try, in one of its versions.
type Candidate = (&'static Dialect, &'static str);

impl Attempt<'_> {
    /// Opens a session in the dialect that a process speaks. A remembered dialect is tried first, and forgotten if it
    /// is no longer right.
    pub(super) async fn find_dialect(&self, target: &Target, command: &[String]) -> Result<Opened, OpenError> {
        let eras = &self.options.eras;
        let mut remembered_error = None;
        match eras.find(target) {
            Some(Verdict::Mcp(_)) => return self.find_era(target).await,
            Some(Verdict::Other(name)) => {
                let known = REGISTRY.iter().copied().filter(|dialect| dialect.name == name);
                let opening = self.first_of(command, known.map(preferred).collect());
                match tokio::time::timeout(self.options.opening_timeout / REMEMBERED_SHARE, opening).await {
                    Ok(Err(OpenError::NotStarted { program, source })) => {
                        return Err(OpenError::NotStarted { program, source });
                    }
                    Ok(Ok(opened)) => return opened,
                    Ok(Err(error)) => remembered_error = Some(error),
                    Err(_) => {}
                }
                eras.forget(target);
            }
            None => {}
        }
        let mcp = async { Box::pin(self.find_era(target)).await.map(Ok) };
        let others = async {
            let recognized = self.recognized.get().map(|dialect| vec![preferred(dialect), mcp_with_handshake()]);
            let others = || REGISTRY.iter().copied().filter(|dialect| dialect.name != mcp::DIALECT.name);
            Box::pin(self.first_of(command, recognized.unwrap_or_else(|| others().map(preferred).collect()))).await
        };
        let silence = LONGER_SILENCE.min(self.options.opening_timeout / 2);
        let is_final = |error: &OpenError| self.recognized.get().is_none() && !error.is_silence();
        match first_success(mcp, silence, others, is_final).await {
            Ok(Ok((driver, agreement))) => {
                if agreement.dialect != mcp::DIALECT.name {
                    eras.remember(target, Verdict::Other(agreement.dialect));
                }
                Ok((driver, agreement))
            }
            Ok(Err(refused)) => Err(refused),
            Err((mcp, other)) => {
                Err(remembered_error.or_else(|| other.filter(|_| self.recognized.get().is_some())).unwrap_or(mcp))
            }
        }
    }

    /// Opens a session in the dialect spoken at a URL. MCP is tried first. Another dialect is tried only if the
    /// responses say nothing about MCP, or if the server is known to speak that dialect.
    pub(super) async fn find_dialect_at(&self, target: &Target, url: &Url) -> Result<Opened, OpenError> {
        let (eras, (dialect, version)) = (&self.options.eras, preferred(&a2e::DIALECT));
        if eras.find(target) == Some(Verdict::Other(dialect.name)) {
            match self.open_http(dialect, url, version).await {
                Ok(opened) => return Ok(opened),
                Err(failed) if failed.evidence.outage().is_some() => return Err(failed.into_error()),
                Err(failed) => tracing::debug!(refusal = %failed.refusal, "no host of A2E any more"),
            }
            eras.forget(target);
        }
        let error = match self.find_era(target).await {
            Err(error) if error.may_be_another_dialect() => error,
            decided => return decided,
        };
        if !HttpClient::finds_host(self.endpoint(url)).await {
            return Err(error);
        }
        match self.open_http(dialect, url, version).await.map_err(Failed::into_error) {
            Ok(opened) => {
                eras.remember(target, Verdict::Other(dialect.name));
                Ok(opened)
            }
            Err(refused) => Err(if refused.is_understood() { refused } else { error }),
        }
    }

    /// Opens a session with the first candidate that succeeds or refuses in its own dialect. The next candidate is
    /// tried when the previous one has failed or stayed silent for a while. If all fail, the first error is returned.
    async fn first_of(
        &self,
        command: &[String],
        candidates: Vec<Candidate>,
    ) -> Result<Result<Opened, OpenError>, OpenError> {
        let mut candidates = candidates.into_iter();
        let (mut tried, mut first_error) = (FuturesUnordered::new(), None);
        loop {
            if let Some((dialect, version)) = candidates.next() {
                tried.push(self.start(command, dialect, version));
            }
            let next = async {
                match candidates.len() {
                    0 => std::future::pending().await,
                    _ => tokio::time::sleep(SILENCE).await,
                }
            };
            tokio::select! {
                ended = tried.next() => match ended {
                    Some(Ok(opened)) => return Ok(Ok(opened)),
                    Some(Err(error)) if error.is_understood() => return Ok(Err(error)),
                    Some(Err(error)) => drop(first_error.get_or_insert(error)),
                    None => return Err(first_error.unwrap_or_else(|| self.timed_out())),
                },
                () = next => {}
            }
        }
    }
}

/// A dialect in the version that it prefers.
fn preferred(dialect: &'static Dialect) -> Candidate {
    (dialect, dialect.versions.first().copied().unwrap_or_default())
}

/// MCP in its newest revision with a handshake.
fn mcp_with_handshake() -> Candidate {
    (&mcp::DIALECT, Revision::HANDSHAKE[0].as_str())
}
