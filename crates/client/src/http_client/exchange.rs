//! Posts one line and receives its response, over any transport style.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use gladhand_core::operations::Party;
use gladhand_dialects::mcp::http as mcp_http;
use gladhand_dialects::{Lane, Loss, Posting, PostingEffect};
use http::StatusCode;
use reqwest::Response;

use super::events::{Events, Position, StreamEvent};
use super::requests::{has_type, is_event_stream, session_of};
use super::response_budget::ReceivedMessage;
use super::{Report, Shared, Style};

/// How many bytes of an error response are read.
pub(super) const MAX_COMPLAINT: usize = 64 * 1024;

/// How long posting a notification may take.
const NOTE_TIMEOUT: Duration = Duration::from_secs(30);

/// How many attempts in a row to resume a broken stream may fail.
const MAX_ATTEMPTS: u32 = 5;

/// A line to be posted.
#[derive(Debug)]
pub(super) struct Posted {
    pub(super) line: String,
    pub(super) headers: Vec<(String, String)>,
    /// The request id; `None` if the line needs no response.
    pub(super) id: Option<u64>,
    /// The party whose share the response uses.
    pub(super) party: Option<Party>,
    /// The effect of the line on the session.
    pub(super) effect: PostingEffect,
}

impl Posted {
    pub(super) fn new(line: &str, party: Option<Party>, posting: Posting) -> Self {
        let Posting { headers, exchange, effect } = posting;
        Self { line: line.to_owned(), headers, id: exchange.map(|Lane(id)| id), party, effect }
    }
}

impl Shared {
    /// Posts a line and reports the result. A request of a party with too many others is not posted.
    pub(super) async fn post_line(self: Arc<Self>, posted: Posted) {
        let exchange = self.endpoint.response_budget.exchange(posted.party);
        if let (None, Some(id)) = (&exchange, posted.id) {
            let loss = Loss::Busy("too many requests of this client are on their way to upstreams");
            return self.report(Report::Lost(Lane(id), loss)).await;
        }
        match posted.id {
            _ if self.style == Style::OneStream => self.post_to_one_stream(&posted).await,
            _ if self.style == Style::Agent => self.send_as_agent(&posted).await,
            Some(id) => {
                if let Err(loss) = self.exchange(id, &posted).await {
                    self.report(Report::Lost(Lane(id), loss)).await;
                }
            }
            None => self.note(&posted).await,
        }
    }

    /// Posts a line that needs no response. The only failure reported is the end of the session.
    async fn note(self: Arc<Self>, posted: &Posted) {
        let session = self.session();
        let wanted = self.posting(&posted.line, &posted.headers);
        match tokio::time::timeout(NOTE_TIMEOUT, self.fetch(&wanted)).await {
            Ok(Ok(response)) if self.ended_session(session.as_deref(), &response) == Some(Loss::Session) => {
                self.report(Report::Lost(Lane::MAIN, Loss::Session)).await;
            }
            Ok(Ok(response)) if !response.status().is_success() => {
                tracing::debug!(status = response.status().as_u16(), "the upstream did not take a notification");
            }
            _ => {}
        }
        if posted.effect == PostingEffect::HasOpened && self.style == Style::Sessions {
            self.start_main_stream();
        }
    }

    /// Posts a request and waits for its response. A response is reported as a message. The error says how the exchange
    /// failed otherwise.
    async fn exchange(&self, id: u64, posted: &Posted) -> Result<(), Loss> {
        if posted.effect == PostingEffect::Opens {
            self.stop_main_stream();
            self.begin_session(None);
        }
        let session = self.session();
        let response = self.fetch(&self.posting(&posted.line, &posted.headers)).await?;
        if let Some(loss) = self.ended_session(session.as_deref(), &response) {
            return Err(loss);
        }
        let status = response.status();
        if !status.is_success() {
            return self.complaint(id, posted.party, response).await;
        }
        if posted.effect == PostingEffect::Opens {
            self.begin_session(session_of(&response));
        }
        if is_event_stream(&response) {
            return self.follow(id, posted.party, response).await;
        }
        let is_page = has_type(&response, "text/html");
        let mut portion = self.endpoint.response_budget.portion(posted.party);
        let bytes = read_while(response, self.endpoint.line_bytes, |more| portion.grow(more)).await?;
        if bytes.trim_ascii().is_empty() {
            return Err(Loss::Status(status.as_u16()));
        }
        if is_page && !bytes.trim_ascii_start().starts_with(b"{") {
            return Err(Loss::WebPage(status.as_u16()));
        }
        self.heard(id, ReceivedMessage::new(bytes, portion), status).await
    }

    /// Handles an error status. Its body may still be a response.
    async fn complaint(&self, id: u64, party: Option<Party>, response: Response) -> Result<(), Loss> {
        let status = response.status();
        let bytes = read(response, MAX_COMPLAINT).await.unwrap_or_default();
        let is_error = mcp_http::is_error(&String::from_utf8_lossy(&bytes));
        if is_error && !matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            let portion = self.endpoint.response_budget.portion(party).with(bytes.len());
            self.heard(id, ReceivedMessage::new(bytes, portion), status).await?;
        }
        Err(Loss::Status(status.as_u16()))
    }

    /// Reports a message. Returns an error if it is not the response.
    async fn heard(&self, id: u64, arrived: ReceivedMessage, status: StatusCode) -> Result<(), Loss> {
        let is_answer = mcp_http::answers(&String::from_utf8_lossy(&arrived.bytes), id);
        self.report(Report::Message(Lane(id), arrived, status.as_u16())).await;
        if is_answer { Ok(()) } else { Err(Loss::Broken) }
    }

    /// The events of a response, which take the share of a party.
    pub(super) fn events(&self, response: Response, position: Position, party: Option<Party>) -> Events {
        Events::of(response, position, self.endpoint.line_bytes, self.endpoint.response_budget.portion(party))
    }

    /// Reads a stream up to the response, and resumes it if it breaks.
    async fn follow(&self, id: u64, party: Option<Party>, response: Response) -> Result<(), Loss> {
        let mut events = self.events(response, Position::default(), party);
        loop {
            while let Some(said) = events.next().await {
                if let StreamEvent::Message(message) = said
                    && self.heard(id, message, StatusCode::OK).await.is_ok()
                {
                    return Ok(());
                }
            }
            if let Some(loss) = events.loss() {
                return Err(loss);
            }
            events = self.take_up(events.position, party).await?;
        }
    }

    /// Resumes a stream that ended before the response.
    async fn take_up(&self, position: Position, party: Option<Party>) -> Result<Events, Loss> {
        if self.style != Style::Sessions || position.last_id.is_none() {
            return Err(Loss::Broken);
        }
        for attempt in 0..MAX_ATTEMPTS {
            tokio::time::sleep(position.pause * (1 << attempt)).await;
            let session = self.session();
            match self.fetch(&self.streaming(position.last_id.as_deref())).await {
                Ok(response) if is_event_stream(&response) && response.status().is_success() => {
                    return Ok(self.events(response, position, party));
                }
                Ok(response) => {
                    if let Some(Loss::Session) = self.ended_session(session.as_deref(), &response) {
                        self.report(Report::Lost(Lane::MAIN, Loss::Session)).await;
                        return Err(Loss::Broken);
                    }
                    if response.status().is_client_error() {
                        return Err(Loss::Broken);
                    }
                }
                Err(denied @ (Loss::Denied(_) | Loss::Forbidden(_))) => return Err(denied),
                Err(_) => {}
            }
        }
        Err(Loss::Broken)
    }

    /// Whether a response says that the session of its request is over. If another session has begun since, the request
    /// was only sent too early.
    pub(super) fn ended_session(&self, session: Option<&str>, response: &Response) -> Option<Loss> {
        let session = session.filter(|_| response.status() == StatusCode::NOT_FOUND)?;
        Some(if self.forget_session(session) { Loss::Session } else { Loss::Unsent("the session was over".into()) })
    }

    /// Posts a line whose response comes on the one event stream.
    async fn post_to_one_stream(&self, posted: &Posted) {
        let wanted = self.posting(&posted.line, &posted.headers);
        let loss = match tokio::time::timeout(NOTE_TIMEOUT, self.fetch(&wanted)).await {
            Ok(Ok(response)) if response.status().is_success() => return,
            Ok(Ok(response)) => Loss::Status(response.status().as_u16()),
            Ok(Err(loss)) => loss,
            Err(_) => Loss::Broken,
        };
        if let Some(id) = posted.id {
            self.report(Report::Lost(Lane(id), loss)).await;
        }
    }
}

/// Reads the body of a response, unless it breaks or is too long. Invalid UTF-8 is left to the message parser.
pub(super) async fn read(response: Response, limit: usize) -> Result<Vec<u8>, Loss> {
    read_while(response, limit, |_| true).await
}

/// Like `read`, while there is room for each further chunk.
async fn read_while(
    response: Response,
    limit: usize,
    mut has_room: impl FnMut(usize) -> bool,
) -> Result<Vec<u8>, Loss> {
    let mut bytes = Vec::new();
    let mut chunks = response.bytes_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|_| Loss::Broken)?;
        if bytes.len() + chunk.len() > limit {
            return Err(Loss::TooLong(limit));
        }
        if !has_room(chunk.len()) {
            return Err(Loss::NoRoom);
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}
