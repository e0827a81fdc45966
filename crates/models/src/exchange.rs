//! Runs one round against a service: retries, size limits on replies, and cancellation at any moment.
//!
//! There are two layers of retries. Each request is sent up to three times if the service has a temporary failure.
//! A round that hits a rate limit is started again, up to eight attempts with growing delays, as long as the
//! listener has received nothing.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use gladhand_core::Secret;
use gladhand_core::wire::{RawValue, values};
use gladhand_redaction::redact_with;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};
use reqwest::Response;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::debug_fields::DebugFields;
use crate::events::{Events, MAX_EVENT_MIB, MAX_REPLY, MAX_REPLY_MIB, StreamDefect};
use crate::service::Service;
use crate::web::{Request, Web, failed, timed_out};
use crate::{Listener, ModelError, Piece, Round, Segment};

/// The maximum number of retries of one request.
const RETRIES: u32 = 2;
/// The delay before the first retry. The delay before the second one is twice as long.
const FIRST_RETRY_DELAY: Duration = Duration::from_millis(500);
/// A delay that the service requests is ignored if it is this long or longer.
const MAX_REQUESTED_DELAY: Duration = Duration::from_secs(60);
/// The maximum number of attempts of one round when the service reports a rate limit.
const MAX_ATTEMPTS: u32 = 8;
const FIRST_ROUND_DELAY: Duration = Duration::from_millis(1250);
const MAX_ROUND_DELAY: Duration = Duration::from_secs(20);
const JITTER: Duration = Duration::from_millis(500);
/// The maximum number of bytes read from an error response.
const MAX_REFUSAL: usize = 64 * 1024;
/// The maximum number of characters of it that are shown to the user.
const MAX_SHOWN: usize = 2000;

/// The maximum number of tool calls in one reply.
pub(crate) const MAX_CALLS: usize = 256;
/// The maximum number of JSON values of one reply that are kept in memory.
const MAX_VALUES: usize = values::MAX_VALUES;

/// A running round.
pub(crate) struct Exchange<'a> {
    service: &'a Service,
    listener: &'a mut (dyn Listener + 'a),
    cancel: &'a CancellationToken,
    round: &'a Round,
    /// The credential that was sent last. It is removed from messages.
    sent_credential: Option<Secret>,
    attempt: u32,
    has_output: bool,
    /// The number of JSON values of this reply that are kept until the reply ends.
    kept: usize,
}

/// A reply, by its transfer format.
#[derive(Debug)]
pub(crate) enum Reply {
    /// Server-sent events.
    Events(Events),
    /// One document.
    Whole(Bytes),
}

impl<'a> Exchange<'a> {
    pub(crate) fn new(
        service: &'a Service,
        round: &'a Round,
        listener: &'a mut (dyn Listener + 'a),
        cancel: &'a CancellationToken,
    ) -> Self {
        Self { service, listener, cancel, round, sent_credential: None, attempt: 1, has_output: false, kept: 0 }
    }

    pub(crate) fn web(&self) -> &'a Web {
        &self.service.web
    }

    pub(crate) fn name(&self) -> &'a str {
        &self.service.name
    }

    pub(crate) fn round(&self) -> &'a Round {
        self.round
    }

    /// Passes a piece to the listener, unless it is empty.
    pub(crate) async fn deliver(&mut self, piece: Piece) {
        if !piece.segments.is_empty() {
            self.has_output = true;
            self.listener.piece(piece).await;
        }
    }

    /// Passes a piece of the answer to the listener.
    pub(crate) async fn answer(&mut self, text: impl Into<String>) {
        let text = text.into();
        if !text.is_empty() {
            self.deliver(Piece { segments: vec![Segment::Answer(text)], thoughts: Vec::new() }).await;
        }
    }

    /// Sends debug data to the listener, if it wants debug data: the round number and the fields that `add_fields` adds.
    pub(crate) async fn debug(&mut self, stage: &'static str, add_fields: impl FnOnce(DebugFields) -> DebugFields) {
        if self.listener.wants_debug() {
            let fields = add_fields(DebugFields::default().and("toolRound", &self.round.number));
            self.listener.debug(stage, fields.into_json()).await;
        }
    }

    /// Decides what happens after a failed attempt. Returns `Ok` after a delay if the round may be started again,
    /// else the error.
    pub(crate) async fn wait_before_retry(&mut self, error: ModelError) -> Result<(), ModelError> {
        if self.has_output || self.attempt == MAX_ATTEMPTS || !is_rate_limit(&error) {
            return Err(error);
        }
        let pause = FIRST_ROUND_DELAY.saturating_mul(1 << (self.attempt - 1)).min(MAX_ROUND_DELAY);
        let pause = pause + JITTER.mul_f64(self.service.web.clock().chance().clamp(0.0, 1.0));
        let attempt = self.attempt;
        let delay = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
        let text = error.to_string();
        self.debug("retry_429", |fields| {
            let fields = fields.and("attempt", &attempt).and("maxAttempts", &MAX_ATTEMPTS);
            fields.and("delayMs", &delay).and("error", &text)
        })
        .await;
        self.attempt += 1;
        or_cancelled(self.cancel, self.service.web.clock().sleep(pause)).await
    }

    /// Sends a request, with retries for temporary failures. Returns the response with any status.
    pub(crate) async fn ask(&mut self, request: &Request) -> Result<Response, ModelError> {
        let mut token = match self.service.credential() {
            Some(credential) => Some(or_cancelled(self.cancel, credential.token()).await??),
            None => None,
        };
        let (mut tries, mut is_renewed) = (0, false);
        loop {
            let answer = or_cancelled(self.cancel, self.service.web.send(request, token.as_ref())).await?;
            self.sent_credential.clone_from(&token);
            let hint = match &answer {
                Ok(response) if response.status() == StatusCode::UNAUTHORIZED && !is_renewed => {
                    is_renewed = true;
                    let (Some(credential), Some(refused)) = (self.service.credential(), &token) else { return answer };
                    match or_cancelled(self.cancel, credential.another(refused)).await? {
                        Some(another) => token = Some(another),
                        None => return answer,
                    }
                    continue;
                }
                Ok(response) if is_temporary_failure(response.status()) => requested_delay(response.headers()),
                Err(ModelError::Unreachable) => None,
                _ => return answer,
            };
            if tries == RETRIES {
                return answer;
            }
            let pause = hint.unwrap_or_else(|| FIRST_RETRY_DELAY * (1 << tries));
            or_cancelled(self.cancel, self.service.web.clock().sleep(pause)).await?;
            tries += 1;
        }
    }

    /// Sends a request, and fails unless the response is successful.
    pub(crate) async fn ask_for_success(&mut self, request: &Request) -> Result<Response, ModelError> {
        let response = self.ask(request).await?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let text = self.refusal(response).await?;
        Err(ModelError::Status { status: status.as_u16(), message: self.clean(&message_of(&text)) })
    }

    /// Returns the reply in a response, as an event stream or as one document.
    pub(crate) async fn reply(&mut self, response: Response) -> Result<Reply, ModelError> {
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        match kind.as_str() {
            "text/event-stream" => Ok(Reply::Events(Events::of(response))),
            "" | "application/json" => self.whole(response).await.map(Reply::Whole),
            _ => {
                Err(failed(format!("{} answered with {} instead of a reply.", self.service.name, shortened(&kind, 80))))
            }
        }
    }

    /// Returns the data of the next event, or `None` at the end of the stream.
    pub(crate) async fn next(&mut self, events: &mut Events) -> Result<Option<String>, ModelError> {
        let idle = self.service.web.timeouts().idle;
        match or_cancelled(self.cancel, tokio::time::timeout(idle, events.next())).await? {
            Ok(Ok(data)) => Ok(data),
            Ok(Err(StreamDefect::TooLong)) => Err(self.too_long()),
            Ok(Err(StreamDefect::NotText)) => {
                Err(failed(format!("{} sent something that is not text.", self.service.name)))
            }
            Err(_) => Err(failed(format!("{} sent nothing for {} seconds.", self.service.name, idle.as_secs()))),
        }
    }

    /// Reads the whole body of a response.
    pub(crate) async fn whole(&mut self, mut response: Response) -> Result<Bytes, ModelError> {
        let idle = self.service.web.timeouts().idle;
        let mut body = BytesMut::new();
        loop {
            match or_cancelled(self.cancel, tokio::time::timeout(idle, response.chunk())).await? {
                Ok(Ok(None)) => return Ok(body.freeze()),
                Ok(Ok(Some(chunk))) if body.len() + chunk.len() > MAX_REPLY => return Err(self.too_long()),
                Ok(Ok(Some(chunk))) => body.extend_from_slice(&chunk),
                Ok(Err(_)) => return Err(ModelError::Unreachable),
                Err(_) => return Err(timed_out()),
            }
        }
    }

    /// Reads the body of an error response, up to [`MAX_REFUSAL`].
    pub(crate) async fn refusal(&mut self, mut response: Response) -> Result<String, ModelError> {
        let idle = self.service.web.timeouts().idle;
        let mut body = Vec::new();
        // An error response that breaks off is still an error response, so the part that arrived is used.
        while let Ok(Ok(Some(chunk))) = or_cancelled(self.cancel, tokio::time::timeout(idle, response.chunk())).await? {
            body.extend_from_slice(&chunk[..chunk.len().min(MAX_REFUSAL - body.len())]);
            if body.len() == MAX_REFUSAL {
                break;
            }
        }
        Ok(String::from_utf8_lossy(&body).into_owned())
    }

    /// Parses JSON from the service. Text with too many values is refused before memory is allocated for them.
    pub(crate) fn read<T: DeserializeOwned>(&self, text: &[u8]) -> Result<T, ModelError> {
        if values::in_text(text) > MAX_VALUES {
            return Err(self.too_many_values());
        }
        // The parser's message is not used, because it can quote the content.
        serde_json::from_slice(text)
            .map_err(|_| failed(format!("{} sent something that is not the expected JSON.", self.service.name)))
    }

    /// A message for users: without secrets and with limited length.
    pub(crate) fn clean(&self, text: &str) -> String {
        shortened(&redact_with(text, self.sent_credential.as_ref().map(Secret::expose)), MAX_SHOWN)
    }

    /// Generates an id for a call that has none.
    pub(crate) fn generated_id(&self, tool: &str, index: usize) -> String {
        format!("{tool}-{}-{index}", self.round.number)
    }

    /// Counts JSON values that are kept until the reply ends. Together they have the same limit as one event.
    pub(crate) fn keep(&mut self, value: &Value) -> Result<(), ModelError> {
        self.count_kept(values::in_tree(value))
    }

    /// Counts the values of JSON that is assembled from pieces of text, like [`Self::keep`].
    pub(crate) fn keep_text(&mut self, text: &str) -> Result<(), ModelError> {
        self.count_kept(values::in_text(text.as_bytes()))
    }

    fn count_kept(&mut self, values: usize) -> Result<(), ModelError> {
        self.kept += values;
        if self.kept > MAX_VALUES { Err(self.too_many_values()) } else { Ok(()) }
    }

    /// Refuses a reply with too many tool calls.
    pub(crate) fn check_calls(&self, count: usize) -> Result<(), ModelError> {
        match count > MAX_CALLS {
            true => {
                Err(failed(format!("{} requested more than {MAX_CALLS} tool calls in one reply.", self.service.name)))
            }
            false => Ok(()),
        }
    }

    fn too_long(&self) -> ModelError {
        let name = &self.service.name;
        failed(format!("{name} sent more than {MAX_EVENT_MIB} MiB in one event or {MAX_REPLY_MIB} MiB in one reply."))
    }

    fn too_many_values(&self) -> ModelError {
        failed(format!("{} sent a reply of more than {MAX_VALUES} JSON values.", self.service.name))
    }
}

/// Waits for a future, unless the round is cancelled first.
async fn or_cancelled<T>(cancel: &CancellationToken, future: impl Future<Output = T>) -> Result<T, ModelError> {
    tokio::select! {
        biased;
        () = cancel.cancelled() => Err(ModelError::Cancelled),
        value = future => Ok(value),
    }
}

/// The request body as JSON for debug output.
pub(crate) fn payload(body: &[u8]) -> Option<&RawValue> {
    serde_json::from_slice(body).ok()
}

/// The arguments of a call: the object that the model wrote, or `{}`.
pub(crate) fn arguments(text: &str) -> Box<RawValue> {
    serde_json::from_str::<Box<RawValue>>(text)
        .ok()
        .filter(|raw| raw.get().starts_with('{'))
        .unwrap_or_else(|| RawValue::from_string("{}".to_owned()).expect("an empty object is JSON"))
}

/// The text without surrounding whitespace.
pub(crate) fn trimmed(text: &str) -> &str {
    text.trim_matches(|character: char| character.is_whitespace() || character == '\u{feff}')
}

/// The thought so far, repeated with each of its pieces. Only the beginning is repeated: repeating the whole
/// thought would make the total size grow quadratically.
pub(crate) fn thought_beginning(thought: &str) -> String {
    const REPEATED: usize = 2048;
    let begun = trimmed(thought);
    begun[..begun.floor_char_boundary(REPEATED)].to_owned()
}

/// The first `max_chars` characters of a text.
pub(crate) fn shortened(text: &str, max_chars: usize) -> String {
    text.chars().take(max_chars).collect()
}

fn is_temporary_failure(status: StatusCode) -> bool {
    matches!(status.as_u16(), 408 | 409 | 429) || status.is_server_error()
}

fn is_rate_limit(error: &ModelError) -> bool {
    match error {
        ModelError::Status { status: 429, .. } => true,
        ModelError::Status { message, .. } | ModelError::Failed(message) => {
            let message = message.to_lowercase();
            message.contains("rate limit") || message.contains("too many requests")
        }
        ModelError::Cancelled | ModelError::Unreachable => false,
    }
}

/// The retry delay that the service requests, if it is below [`MAX_REQUESTED_DELAY`]. HTTP dates are ignored: services
/// send a date for maintenance, and that takes longer than a caller waits.
fn requested_delay(headers: &HeaderMap) -> Option<Duration> {
    let number = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse::<f64>().ok();
    let seconds = number("retry-after-ms").map(|millis| millis / 1000.0).or_else(|| number("retry-after"))?;
    Duration::try_from_secs_f64(seconds).ok().filter(|pause| *pause < MAX_REQUESTED_DELAY)
}

/// The message of an error response: the message member, or the whole text if it is not JSON.
pub(crate) fn message_of(text: &str) -> String {
    let nothing = "status code (no body)";
    let Ok(document) = serde_json::from_str::<Value>(text) else {
        let text = text.trim();
        return if text.is_empty() { nothing } else { text }.to_owned();
    };
    match &document["error"] {
        Value::Null => nothing.to_owned(),
        Value::String(message) => message.clone(),
        error => match &error["message"] {
            Value::Null => error.to_string(),
            Value::String(message) => message.clone(),
            message => message.to_string(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_objects_are_arguments() {
        for (text, expected) in [
            (r#"{"a": 1}"#, r#"{"a": 1}"#),
            (r#" {"a":1} "#, r#"{"a":1}"#),
            ("", "{}"),
            ("{not json", "{}"),
            ("[1]", "{}"),
            (r#""{}""#, "{}"),
            ("null", "{}"),
            ("{} {}", "{}"),
        ] {
            assert_eq!(arguments(text).get(), expected, "{text:?}");
        }
    }

    #[test]
    fn the_message_of_an_error_response_is_found() {
        for (text, expected) in [
            (r#"{"error":{"message":"slow down","code":429}}"#, "slow down"),
            (r#"{"error":{"code":429}}"#, r#"{"code":429}"#),
            (r#"{"error":"no such model"}"#, "no such model"),
            (r#"{"detail":"Unsupported parameter"}"#, "status code (no body)"),
            ("[]", "status code (no body)"),
            (" ", "status code (no body)"),
            ("no model", "no model"),
        ] {
            assert_eq!(message_of(text), expected, "{text:?}");
        }
    }

    #[test]
    fn requested_retry_delays_are_limited() {
        let delay = |name: &'static str, value: &'static str| {
            requested_delay(&HeaderMap::from_iter([(
                http::HeaderName::from_static(name),
                http::HeaderValue::from_static(value),
            )]))
        };
        assert_eq!(delay("retry-after-ms", "10"), Some(Duration::from_millis(10)));
        assert_eq!(delay("retry-after", "1.5"), Some(Duration::from_millis(1500)));
        for value in ["-1", "60", "1e300", "NaN", "soon", ""] {
            assert_eq!(delay("retry-after", value), None, "{value}");
        }
    }
}
