//! `search_web`: searches the web with Exa.

mod answer;

use std::time::Duration;

use gladhand_core::javascript;
use gladhand_redaction::redact_with;
use gladhand_tls::{BodyError, Clients, read_body};
use reqwest::Url;
use serde::Serialize;

use crate::outcome::{Outcome, Problem, done, failed};
use crate::tool_set::Job;

/// Timeout of a search.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum size of a response, in bytes.
const MAX_RESPONSE_BYTES: usize = 8 * 1024 * 1024;

/// Maximum length of a forwarded error message, in UTF-16 units.
const MAX_ERROR_UNITS: usize = 2000;

/// Sends searches.
#[derive(Debug)]
pub(crate) struct Searcher {
    clients: Clients,
}

impl Default for Searcher {
    fn default() -> Self {
        Self { clients: Clients::new(|builder| builder.timeout(TIMEOUT)) }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SearchRequest<'a> {
    query: &'a str,
    r#type: &'a str,
    num_results: usize,
    contents: Contents<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    highlights: Option<Highlights<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    include_domains: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    exclude_domains: Vec<String>,
}

#[derive(Serialize)]
struct Contents<'a> {
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    text: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    highlights: Option<Highlights<'a>>,
}

#[derive(Serialize, Clone, Copy)]
#[serde(rename_all = "camelCase")]
struct Highlights<'a> {
    query: &'a str,
    num_sentences: usize,
    highlights_per_url: usize,
}

/// The members of every report, with or without results.
#[derive(Serialize)]
struct SearchSummary<'a> {
    status: &'a str,
    query: &'a str,
    r#type: &'a str,
    num_results: usize,
}

impl Searcher {
    /// Runs the tool.
    pub(crate) async fn run(&self, job: &Job<'_>) -> Outcome {
        let Some(query) = job.input.word("query") else {
            return Err(Problem::invalid("search_web requires a non-empty `query` string."));
        };
        let Some(key) = (job.tools.settings.exa_key)() else {
            return Err(Problem::invalid("search_web unavailable: missing exa api key. run /onboarding to set one."));
        };
        let kind = match job.input.word("type").unwrap_or("auto") {
            kind @ ("auto" | "fast" | "neural" | "deep") => kind,
            _ => return Err(Problem::invalid("`type` must be one of: auto, fast, neural, deep.")),
        };
        let num_results = job.input.within("num_results", 8, 1, 25);
        let highlights = job.input.flag("include_highlights", true).then(|| Highlights {
            query: job.input.word("highlight_query").unwrap_or(query),
            num_sentences: job.input.within("highlight_sentences", 2, 1, 10),
            highlights_per_url: job.input.within("highlights_per_url", 3, 1, 10),
        });
        let request_body = SearchRequest {
            query,
            r#type: kind,
            num_results,
            contents: Contents { text: job.input.flag("include_text", false), highlights },
            highlights,
            include_domains: job.input.list("include_domains"),
            exclude_domains: job.input.list("exclude_domains"),
        };
        let summary = |status| SearchSummary { status, query, r#type: kind, num_results };
        let answer = tokio::select! {
            // If the call is cancelled at the same time, report that.
            biased;
            () = job.stop.cancelled() => Err("exa search aborted".to_owned()),
            answer = self.ask(&job.tools.settings.exa_base, &key, &request_body) => answer,
        };
        let found = answer.and_then(|answer| {
            answer::read(&answer).map_err(|error| format!("exa search failed: the answer makes no sense: {error}"))
        });
        #[derive(Serialize)]
        struct Report<'a> {
            #[serde(flatten)]
            summary: SearchSummary<'a>,
            #[serde(flatten)]
            found: answer::SearchResults,
        }
        Ok(match found {
            Ok(found) => done(&Report { summary: summary("ok"), found }),
            Err(error) => failed(&summary("error"), error),
        })
    }

    /// The body of the response, or the error.
    async fn ask(&self, base: &str, key: &str, request_body: &SearchRequest<'_>) -> Result<Vec<u8>, String> {
        let failed = |error: reqwest::Error| format!("exa search failed: {}", error.without_url());
        let url = Url::parse(&format!("{}/search", base.trim_end_matches('/')))
            .map_err(|_| "exa search failed: its configured address is not valid")?;
        let request = self.clients.client(&url).map_err(failed)?.post(url).header("x-api-key", key).json(request_body);
        let mut response = request.send().await.map_err(failed)?;
        let status = response.status();
        let body = read_body(&mut response, MAX_RESPONSE_BYTES).await.map_err(|error| match error {
            BodyError::TooLarge => "exa search failed: the answer is too large".to_owned(),
            BodyError::Failed(error) => failed(error),
        })?;
        if status.is_success() {
            return Ok(body);
        }
        let error_text = String::from_utf8_lossy(&body);
        let error_text = redact_with(&error_text, [key]);
        Err(format!(
            "exa search failed ({}): {}",
            status.as_u16(),
            javascript::prefix(javascript::trim(&error_text), MAX_ERROR_UNITS)
        ))
    }
}
