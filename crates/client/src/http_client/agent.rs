//! A2E over HTTP (a2e §20.2): a session that is asked for first, messages that are posted one after the other, and one
//! stream for everything that the host says.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gladhand_core::sync::Unpoisoned as _;
use gladhand_core::wire::values;
use gladhand_dialects::{Lane, Loss};
use http::{Method, StatusCode};
use serde_json::Value;
use url::Url;

use super::events::{Position, StreamEvent};
use super::exchange::{MAX_COMPLAINT, Posted, read};
use super::requests::{Wanted, is_event_stream};
use super::{Endpoint, HttpClient, Report, Shared, Style};

/// How often a message is posted that did not get through.
const ATTEMPTS: u32 = 3;

/// How long to wait before it is posted again.
const PAUSE: Duration = Duration::from_secs(1);

/// How long the host may take to say that it has a message.
const SEND_TIMEOUT: Duration = Duration::from_secs(30);

/// How long it may take to say that it is well.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(5);

/// How often in a row the stream may come to nothing before the host counts as gone. The pauses in between double.
const MAX_FAILURES: u32 = 6;

/// A stream that was open for so long was one, even if nothing came.
const LIVELY: Duration = Duration::from_secs(10);

impl HttpClient {
    /// Whether the server at an address reports that it is healthy, in the way of A2E hosts. It changes nothing there.
    pub async fn finds_host(endpoint: Endpoint) -> bool {
        let health = beside(&endpoint.url, "health");
        let (shared, _) = Shared::new(endpoint, Style::Agent);
        let wanted = Wanted { method: Method::GET, url: &health, headers: shared.usual_headers(), body: None };
        let asked = async {
            let response = shared.fetch(&wanted).await.ok().filter(|response| response.status().is_success())?;
            let text = read(response, MAX_COMPLAINT).await.ok()?;
            let said: Value = values::read_bytes(&text).ok()?;
            Some(said["status"] == "ok")
        };
        tokio::time::timeout(HEALTH_TIMEOUT, asked).await.ok().flatten().unwrap_or(false)
    }
}

impl Shared {
    /// Begins a session.
    pub(super) async fn begin_as_agent(&self) -> Result<(), Loss> {
        let url = beside(&self.endpoint.url, "session");
        let body = Some(String::new());
        let wanted = Wanted { method: Method::POST, url: &url, headers: self.usual_headers(), body };
        let response = self.fetch(&wanted).await?;
        let status = response.status();
        if !status.is_success() {
            return Err(Loss::Status(status.as_u16()));
        }
        let said: Option<Value> = values::read_bytes(&read(response, MAX_COMPLAINT).await?).ok();
        let id = said.as_ref().and_then(|said| said["session_id"].as_str());
        let id = id.filter(|id| !id.is_empty()).ok_or(Loss::Status(status.as_u16()))?;
        self.begin_session(Some(id.to_owned()));
        Ok(())
    }

    /// Listens to everything that the host says.
    pub(super) fn start_agent_stream(self: &Arc<Self>) {
        let task = tokio::spawn(Arc::clone(self).read_agent_stream());
        *self.main_stream.lock().unpoisoned() = Some(task.abort_handle());
    }

    async fn read_agent_stream(self: Arc<Self>) {
        let mut failures = 0;
        while failures < MAX_FAILURES {
            // At once after the first end, and then more and more slowly.
            tokio::time::sleep(PAUSE * (1 << failures >> 1)).await;
            failures += 1;
            match self.fetch(&self.streaming(None)).await {
                Ok(response) if response.status().is_success() && is_event_stream(&response) => {
                    let (mut events, opened) = (self.events(response, Position::default(), None), Instant::now());
                    while let Some(said) = events.next().await {
                        failures = 0;
                        if let StreamEvent::Message(message) = said {
                            self.report(Report::Message(Lane::MAIN, message, 200)).await;
                        }
                    }
                    if opened.elapsed() > LIVELY {
                        failures = 0;
                    }
                }
                // The session is over, or never was.
                Ok(response) if response.status().is_client_error() => break,
                Err(Loss::Denied(_) | Loss::Forbidden(_)) => break,
                Ok(_) | Err(_) => {}
            }
        }
        self.report(Report::Gone).await;
    }

    /// Posts a message. One that may have arrived is not posted again: it may be a call that should be made once.
    pub(super) async fn send_as_agent(&self, posted: &Posted) {
        let wanted = self.posting(&posted.line, &posted.headers);
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                tokio::time::sleep(PAUSE).await;
            }
            match tokio::time::timeout(SEND_TIMEOUT, self.fetch(&wanted)).await {
                Ok(Ok(response)) if response.status().is_success() => return,
                Ok(Ok(response)) if response.status() == StatusCode::SERVICE_UNAVAILABLE => {}
                Ok(Err(Loss::Unsent(_))) => {}
                _ => break,
            }
        }
        tracing::debug!("the upstream did not take a message");
        self.report(Report::Gone).await;
    }
}

/// The URL of a resource of a host: `name` is appended to the path of its address. An address that names the session
/// resource itself means the host that has it.
pub(super) fn beside(base: &Url, name: &str) -> Url {
    let mut url = base.clone();
    url.set_query(None);
    url.set_fragment(None);
    let is_session = url.path_segments().and_then(|path| path.rev().find(|part| !part.is_empty())) == Some("session");
    if let Ok(mut path) = url.path_segments_mut() {
        path.pop_if_empty();
        if is_session {
            path.pop();
        }
        path.push(name);
    }
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sibling_paths_are_resolved_below_any_base_url() {
        let session = |base: &str| beside(&Url::parse(base).unwrap(), "session").to_string();
        assert_eq!(session("http://a:8765"), "http://a:8765/session");
        assert_eq!(session("http://a/"), "http://a/session");
        assert_eq!(session("http://a/session"), "http://a/session");
        assert_eq!(session("http://a/x/session/"), "http://a/x/session");
        assert_eq!(session("https://u:p@a/x/y/?q=1#f"), "https://u:p@a/x/y/session");
    }
}
