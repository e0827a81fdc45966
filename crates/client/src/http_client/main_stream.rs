//! Streams that belong to no request: the one beside the exchanges of a session, and the only one of 2024-11-05.

use std::sync::Arc;
use std::time::Duration;

use gladhand_core::sync::Unpoisoned as _;
use gladhand_dialects::{Lane, Loss};
use url::Url;

use super::events::{Events, Position, StreamEvent};
use super::requests::is_event_stream;
use super::{Report, Shared};

/// How long to wait at most before a stream is opened again.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

impl Shared {
    /// Listens to what belongs to no request, where the server has that.
    pub(super) fn start_main_stream(self: &Arc<Self>) {
        let task = tokio::spawn(Arc::clone(self).read_main_stream());
        let mut current = self.main_stream.lock().unpoisoned();
        if let Some(old) = current.replace(task.abort_handle()) {
            old.abort();
        }
    }

    pub(super) fn stop_main_stream(&self) {
        if let Some(task) = self.main_stream.lock().unpoisoned().take() {
            task.abort();
        }
    }

    async fn read_main_stream(self: Arc<Self>) {
        let mut position = Position::default();
        let mut failures = 0;
        loop {
            let session = self.session();
            match self.fetch(&self.streaming(position.last_id.as_deref())).await {
                Ok(response) if response.status().is_success() && is_event_stream(&response) => {
                    let mut events = self.events(response, position, None);
                    while let Some(event) = events.next().await {
                        failures = 0;
                        if let StreamEvent::Message(message) = event {
                            self.report(Report::Message(Lane::MAIN, message, 200)).await;
                        }
                    }
                    position = events.position;
                }
                Ok(response) => {
                    if let Some(Loss::Session) = self.ended_session(session.as_deref(), &response) {
                        return self.report(Report::Lost(Lane::MAIN, Loss::Session)).await;
                    }
                    // 405, or something like it: the server has no such stream.
                    if !response.status().is_server_error() {
                        return;
                    }
                }
                // The next call reports the error to its caller.
                Err(Loss::Denied(_) | Loss::Forbidden(_)) => return,
                Err(_) => {}
            }
            let pause = position.pause.saturating_mul(1 << failures).min(LONGEST_PAUSE);
            failures = (failures + 1).min(10);
            tokio::time::sleep(pause.max(position.pause)).await;
        }
    }

    /// Opens the only stream, and learns from its first event where to post to.
    pub(super) async fn open_one_stream(&self) -> Result<(Events, Url), Loss> {
        let response = self.fetch(&self.streaming(None)).await?;
        if !response.status().is_success() || !is_event_stream(&response) {
            return Err(Loss::Status(response.status().as_u16()));
        }
        let mut events = self.events(response, Position::default(), None);
        while let Some(event) = events.next().await {
            if let StreamEvent::Other { name, data } = event
                && name == "endpoint"
            {
                let endpoint = self.endpoint.url.join(data.trim()).ok();
                // A different origin could be a different server, which must not receive requests for this one.
                let endpoint = endpoint.filter(|endpoint| endpoint.origin() == self.endpoint.url.origin());
                return endpoint.map(|endpoint| (events, endpoint)).ok_or(Loss::Broken);
            }
        }
        Err(Loss::Broken)
    }

    pub(super) async fn read_one_stream(self: Arc<Self>, mut events: Events) {
        while let Some(event) = events.next().await {
            if let StreamEvent::Message(message) = event {
                self.report(Report::Message(Lane::MAIN, message, 200)).await;
            }
        }
        self.report(Report::Gone).await;
    }
}
