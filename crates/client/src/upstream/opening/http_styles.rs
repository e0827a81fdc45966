//! Opens a session over HTTP, in the styles that the revisions of MCP have and in that of A2E.

use std::sync::Arc;

use gladhand_core::negotiation::Refusal;
use gladhand_dialects::mcp::revision::Revision;
use gladhand_dialects::{Dialect, Loss, a2e};
use gladhand_process::child::Manner;
use gladhand_session::tap::SessionExchanges;
use url::Url;

use super::super::http_evidence::HttpEvidence;
use super::super::transport::Transport;
use super::{Attempt, OpenError, Opened};
use crate::http_client::{Endpoint, HttpClient, Style};

/// An attempt over HTTP that failed.
pub(super) struct Failed {
    pub(super) refusal: Refusal,
    pub(super) evidence: HttpEvidence,
}

impl Failed {
    pub(super) fn into_error(self) -> OpenError {
        match (self.evidence.outage(), self.evidence.loss) {
            (Some(outage), _) => OpenError::Unreachable(outage),
            (None, Some(Loss::Denied(why))) => OpenError::Unauthorized { why },
            (None, Some(Loss::Forbidden(why))) => OpenError::Forbidden { why },
            _ => OpenError::refused(self.refusal),
        }
    }
}

impl Style {
    /// The style in which a dialect in this version is opened first.
    pub fn first(dialect: &Dialect, version: &str) -> Self {
        match Revision::named(version) {
            _ if dialect.name == a2e::DIALECT.name => Self::Agent,
            Some(revision) if revision.is_stateless() => Self::Stateless,
            _ => Self::Sessions,
        }
    }

    /// The style to try after this one failed, if the responses suggest that the server has only that one.
    pub fn fallback(self, evidence: &HttpEvidence) -> Option<Self> {
        (self == Self::Sessions && evidence.suggests_one_stream()).then_some(Self::OneStream)
    }
}

impl Attempt<'_> {
    /// Opens a session over HTTP in the style of the dialect and version, or in an older style that the server has. If
    /// both fail, the first error says more.
    pub(super) async fn open_http(
        &self,
        dialect: &'static Dialect,
        url: &Url,
        version: &str,
    ) -> Result<Opened, Failed> {
        let style = Style::first(dialect, version);
        let failed = match self.open_in_style(dialect, url, style, version).await {
            Ok(opened) => return Ok(opened),
            Err(failed) => failed,
        };
        if let Some(older) = style.fallback(&failed.evidence) {
            match self.open_in_style(dialect, url, older, version).await {
                Ok(opened) => return Ok(opened),
                Err(older) => tracing::debug!(refusal = %older.refusal, "nor does the upstream speak 2024-11-05"),
            }
        }
        Err(failed)
    }

    pub(super) fn endpoint(&self, url: &Url) -> Endpoint {
        Endpoint {
            url: url.clone(),
            headers: self.options.headers.clone(),
            authorizer: self.options.authorizer.clone(),
            roots: self.options.roots.clone(),
            line_bytes: self.options.line_bytes,
            response_budget: self.options.response_budget.clone(),
            exchanges: SessionExchanges::of_new_upstream(Arc::clone(&self.options.tap)),
        }
    }

    /// Opens a session over HTTP in one style.
    async fn open_in_style(
        &self,
        dialect: &'static Dialect,
        url: &Url,
        style: Style,
        version: &str,
    ) -> Result<Opened, Failed> {
        let timeout = self.options.opening_timeout;
        let timed_out = || Refusal::TimedOut { seconds: timeout.as_secs() };
        let connected = tokio::time::timeout(timeout, HttpClient::connect(self.endpoint(url), style)).await;
        let http = match connected {
            Ok(Ok(http)) => http,
            Ok(Err(loss)) => {
                let mut evidence = HttpEvidence::default();
                evidence.note_loss(loss);
                return Err(Failed { refusal: evidence.refusal(), evidence });
            }
            Err(_) => return Err(Failed { refusal: timed_out(), evidence: HttpEvidence::default() }),
        };
        let mut driver = self.driver(dialect, version, Transport::Http(Box::new(http)), style);
        match driver.open(timeout).await {
            Ok(agreement) => Ok((driver, agreement)),
            Err(refusal) => {
                let evidence = std::mem::take(&mut driver.evidence);
                driver.transport.close(Manner::Hurried).await;
                Err(Failed { refusal, evidence })
            }
        }
    }
}
