//! One round as seen by the client of a service: requests with retries, replies with bounds, and an end at any moment.
//!
//! Retries have two layers. Each request is tried three times when the service is briefly unwell; and a round that met a
//! rate limit is begun anew up to eight times, with growing pauses, as long as nothing of it was heard.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use gladhand_core::Secret;
use gladhand_core::wire::RawValue;
use gladhand_redaction::redact_with;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};
use reqwest::Response;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::events::{Events, Flaw, MAX_EVENT_MIB, MAX_REPLY, MAX_REPLY_MIB};
use crate::told::Told;
use crate::values;
use crate::web::{Request, Web, failed, timed_out};
use crate::{Credential, Listener, ModelError, Piece, Round, Segment};

/// How often a request is repeated.
const RETRIES: u32 = 2;
/// The pause before the first repetition; the next one is twice as long.
const FIRST_RETRY: Duration = Duration::from_millis(500);
/// No service may ask for a longer pause than this within one request.
const LONGEST_HINT: Duration = Duration::from_secs(60);
/// How often a round is begun at rate limits.
const MAX_ATTEMPTS: u32 = 8;
const FIRST_PAUSE: Duration = Duration::from_millis(1250);
const LONGEST_PAUSE: Duration = Duration::from_secs(20);
const JITTER: Duration = Duration::from_millis(500);
/// How much of a refusal is read, in bytes.
const MAX_REFUSAL: usize = 64 * 1024;
/// How much of it people are shown, in characters.
const MAX_SHOWN: usize = 2000;

/// The most calls that one reply may want.
pub(crate) const MAX_CALLS: usize = 256;
/// The most JSON values that one reply may keep in memory.
const MAX_VALUES: usize = 200_000;

/// A service, and what it takes to be let in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Access<'a> {
    pub(crate) web: &'a Web,
    /// What the service is called in texts for people.
    pub(crate) name: &'a str,
    pub(crate) credential: Option<&'a dyn Credential>,
}

/// One round under way.
pub(crate) struct Exchange<'a> {
    access: Access<'a>,
    hear: &'a mut (dyn Listener + 'a),
    cancel: &'a CancellationToken,
    round: &'a Round,
    /// The credential that was shown last, so that it can be kept out of texts.
    shown: Option<Secret>,
    attempt: u32,
    has_spoken: bool,
    /// The JSON values of this reply that are kept until its end.
    kept: usize,
}

/// A reply, by the form in which it comes.
#[derive(Debug)]
pub(crate) enum Reply {
    /// In pieces.
    Events(Events),
    /// At once.
    Whole(Bytes),
}

impl<'a> Exchange<'a> {
    pub(crate) fn new(
        access: Access<'a>,
        round: &'a Round,
        hear: &'a mut (dyn Listener + 'a),
        cancel: &'a CancellationToken,
    ) -> Self {
        Self { access, hear, cancel, round, shown: None, attempt: 1, has_spoken: false, kept: 0 }
    }

    pub(crate) fn web(&self) -> &'a Web {
        self.access.web
    }

    pub(crate) fn name(&self) -> &'a str {
        self.access.name
    }

    pub(crate) fn round(&self) -> &'a Round {
        self.round
    }

    /// Passes a piece on; an empty one says nothing.
    pub(crate) async fn say(&mut self, piece: Piece) {
        if !piece.segments.is_empty() {
            self.has_spoken = true;
            self.hear.piece(piece).await;
        }
    }

    /// Passes on a piece of the answer.
    pub(crate) async fn answer(&mut self, text: impl Into<String>) {
        let text = text.into();
        if !text.is_empty() {
            self.say(Piece { segments: vec![Segment::Answer(text)], thoughts: Vec::new() }).await;
        }
    }

    /// Tells whoever looks for a fault, if anybody does: the round, and what is added to it.
    pub(crate) async fn debug(&mut self, stage: &'static str, tell: impl FnOnce(Told) -> Told) {
        if self.hear.is_curious() {
            let told = tell(Told::default().and("toolRound", &self.round.number));
            self.hear.debug(stage, told.into_json()).await;
        }
    }

    /// What to do after an attempt failed: returns once the round may be begun anew, else with the error.
    pub(crate) async fn after(&mut self, error: ModelError) -> Result<(), ModelError> {
        if self.has_spoken || self.attempt == MAX_ATTEMPTS || !is_rate_limit(&error) {
            return Err(error);
        }
        let pause = FIRST_PAUSE.saturating_mul(1 << (self.attempt - 1)).min(LONGEST_PAUSE);
        let pause = pause + JITTER.mul_f64(self.access.web.clock().chance().clamp(0.0, 1.0));
        let attempt = self.attempt;
        let delay = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
        let text = error.to_string();
        self.debug("retry_429", |told| {
            let told = told.and("attempt", &attempt).and("maxAttempts", &MAX_ATTEMPTS);
            told.and("delayMs", &delay).and("error", &text)
        })
        .await;
        self.attempt += 1;
        unless(self.cancel, self.access.web.clock().sleep(pause)).await
    }

    /// Makes a request, again if the service is briefly unwell, and gives its answer whatever that says.
    pub(crate) async fn ask(&mut self, request: &Request) -> Result<Response, ModelError> {
        let mut token = match self.access.credential {
            Some(credential) => Some(unless(self.cancel, credential.token()).await??),
            None => None,
        };
        let (mut tries, mut is_renewed) = (0, false);
        loop {
            let answer = unless(self.cancel, self.access.web.send(request, token.as_ref())).await?;
            self.shown.clone_from(&token);
            let hint = match &answer {
                Ok(response) if response.status() == StatusCode::UNAUTHORIZED && !is_renewed => {
                    is_renewed = true;
                    let (Some(credential), Some(refused)) = (self.access.credential, &token) else { return answer };
                    match unless(self.cancel, credential.another(refused)).await? {
                        Some(another) => token = Some(another),
                        None => return answer,
                    }
                    continue;
                }
                Ok(response) if is_unwell(response.status()) => pause_asked_for(response.headers()),
                Err(ModelError::Unreachable) => None,
                _ => return answer,
            };
            if tries == RETRIES {
                return answer;
            }
            let pause = hint.unwrap_or_else(|| FIRST_RETRY * (1 << tries));
            unless(self.cancel, self.access.web.clock().sleep(pause)).await?;
            tries += 1;
        }
    }

    /// Makes a request that must succeed.
    pub(crate) async fn ask_for_success(&mut self, request: &Request) -> Result<Response, ModelError> {
        let response = self.ask(request).await?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let text = self.refusal(response).await?;
        Err(ModelError::Status { status: status.as_u16(), message: self.clean(&message_of(&text)) })
    }

    /// The reply in a response, in pieces or whole.
    pub(crate) async fn reply(&mut self, response: Response) -> Result<Reply, ModelError> {
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        match kind.as_str() {
            "text/event-stream" => Ok(Reply::Events(Events::of(response))),
            "" | "application/json" => self.whole(response).await.map(Reply::Whole),
            _ => {
                Err(failed(format!("{} answered with {} instead of a reply.", self.access.name, shortened(&kind, 80))))
            }
        }
    }

    /// The data of the next event, or nothing at the end of the stream.
    pub(crate) async fn next(&mut self, events: &mut Events) -> Result<Option<String>, ModelError> {
        let idle = self.access.web.timeouts().idle;
        match unless(self.cancel, tokio::time::timeout(idle, events.next())).await? {
            Ok(Ok(data)) => Ok(data),
            Ok(Err(Flaw::TooLong)) => Err(self.too_long()),
            Ok(Err(Flaw::NotText)) => Err(failed(format!("{} sent something that is not text.", self.access.name))),
            Err(_) => Err(failed(format!("{} sent nothing for {} seconds.", self.access.name, idle.as_secs()))),
        }
    }

    /// The whole body of a response.
    pub(crate) async fn whole(&mut self, mut response: Response) -> Result<Bytes, ModelError> {
        let idle = self.access.web.timeouts().idle;
        let mut body = BytesMut::new();
        loop {
            match unless(self.cancel, tokio::time::timeout(idle, response.chunk())).await? {
                Ok(Ok(None)) => return Ok(body.freeze()),
                Ok(Ok(Some(chunk))) if body.len() + chunk.len() > MAX_REPLY => return Err(self.too_long()),
                Ok(Ok(Some(chunk))) => body.extend_from_slice(&chunk),
                Ok(Err(_)) => return Err(ModelError::Unreachable),
                Err(_) => return Err(timed_out()),
            }
        }
    }

    /// What a response that is no success says, as far as it is worth reading.
    pub(crate) async fn refusal(&mut self, mut response: Response) -> Result<String, ModelError> {
        let idle = self.access.web.timeouts().idle;
        let mut body = Vec::new();
        // A refusal that breaks off still refuses.
        while let Ok(Ok(Some(chunk))) = unless(self.cancel, tokio::time::timeout(idle, response.chunk())).await? {
            body.extend_from_slice(&chunk[..chunk.len().min(MAX_REFUSAL - body.len())]);
            if body.len() == MAX_REFUSAL {
                break;
            }
        }
        Ok(String::from_utf8_lossy(&body).into_owned())
    }

    /// Reads JSON that the service sent. Text with too many values is refused before memory is taken for them.
    pub(crate) fn read<T: DeserializeOwned>(&self, text: &[u8]) -> Result<T, ModelError> {
        if values::in_text(text) > MAX_VALUES {
            return Err(self.too_many_values());
        }
        // The parser's own message may quote what was said.
        serde_json::from_slice(text)
            .map_err(|_| failed(format!("{} sent something that is not the expected JSON.", self.access.name)))
    }

    /// A text for people, without what is secret and not longer than they read.
    pub(crate) fn clean(&self, text: &str) -> String {
        shortened(&redact_with(text, self.shown.as_ref().map(Secret::expose)), MAX_SHOWN)
    }

    /// An id for a call that came without one.
    pub(crate) fn made_up_id(&self, tool: &str, index: usize) -> String {
        format!("{tool}-{}-{index}", self.round.number)
    }

    /// Counts JSON that is kept until the reply ends. All of it together has the bound of one event.
    pub(crate) fn keep(&mut self, value: &Value) -> Result<(), ModelError> {
        self.count_kept(values::in_tree(value))
    }

    /// The same for JSON that is put together from pieces of text.
    pub(crate) fn keep_text(&mut self, text: &str) -> Result<(), ModelError> {
        self.count_kept(values::in_text(text.as_bytes()))
    }

    fn count_kept(&mut self, values: usize) -> Result<(), ModelError> {
        self.kept += values;
        if self.kept > MAX_VALUES { Err(self.too_many_values()) } else { Ok(()) }
    }

    /// Refuses a reply that wants too many calls.
    pub(crate) fn check_calls(&self, count: usize) -> Result<(), ModelError> {
        match count > MAX_CALLS {
            true => Err(failed(format!("{} wants more than {MAX_CALLS} calls at once.", self.access.name))),
            false => Ok(()),
        }
    }

    fn too_long(&self) -> ModelError {
        let name = self.access.name;
        failed(format!("{name} sent more than {MAX_EVENT_MIB} MiB in one event or {MAX_REPLY_MIB} MiB in one reply."))
    }

    fn too_many_values(&self) -> ModelError {
        failed(format!("{} sent a reply of more than {MAX_VALUES} JSON values.", self.access.name))
    }
}

/// Waits for something, unless the round is cancelled before.
async fn unless<T>(cancel: &CancellationToken, future: impl Future<Output = T>) -> Result<T, ModelError> {
    tokio::select! {
        biased;
        () = cancel.cancelled() => Err(ModelError::Cancelled),
        value = future => Ok(value),
    }
}

/// The body of a request as those see it who look for a fault.
pub(crate) fn payload(body: &[u8]) -> Option<&RawValue> {
    serde_json::from_slice(body).ok()
}

/// The arguments of a call: the object that the model wrote, or an empty one.
pub(crate) fn arguments(text: &str) -> Box<RawValue> {
    serde_json::from_str::<Box<RawValue>>(text)
        .ok()
        .filter(|raw| raw.get().starts_with('{'))
        .unwrap_or_else(|| RawValue::from_string("{}".to_owned()).expect("an empty object is JSON"))
}

/// Text without the space around it.
pub(crate) fn trimmed(text: &str) -> &str {
    text.trim_matches(|character: char| character.is_whitespace() || character == '\u{feff}')
}

/// A thought so far, as each of its pieces repeats it: its beginning, which says what it is about. All of it with every
/// piece would be as much again for each.
pub(crate) fn so_far(thought: &str) -> String {
    const REPEATED: usize = 2048;
    let begun = trimmed(thought);
    begun[..begun.floor_char_boundary(REPEATED)].to_owned()
}

/// The beginning of a text.
pub(crate) fn shortened(text: &str, most: usize) -> String {
    text.chars().take(most).collect()
}

fn is_unwell(status: StatusCode) -> bool {
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

/// The pause that a service asks for, where it is one that can be waited for. A date is not understood: the services that
/// send one at all send it for maintenance, which takes longer than a caller waits.
fn pause_asked_for(headers: &HeaderMap) -> Option<Duration> {
    let number = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse::<f64>().ok();
    let seconds = number("retry-after-ms").map(|millis| millis / 1000.0).or_else(|| number("retry-after"))?;
    Duration::try_from_secs_f64(seconds).ok().filter(|pause| *pause < LONGEST_HINT)
}

/// What a refusal says: the message in it, or all of it when it is no JSON.
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
    fn a_refusal_says_its_message() {
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
    fn pauses_that_are_asked_for_are_kept_within_reason() {
        let asked = |name: &'static str, value: &'static str| {
            pause_asked_for(&HeaderMap::from_iter([(
                http::HeaderName::from_static(name),
                http::HeaderValue::from_static(value),
            )]))
        };
        assert_eq!(asked("retry-after-ms", "10"), Some(Duration::from_millis(10)));
        assert_eq!(asked("retry-after", "1.5"), Some(Duration::from_millis(1500)));
        for value in ["-1", "60", "1e300", "NaN", "soon", ""] {
            assert_eq!(asked("retry-after", value), None, "{value}");
        }
    }
}
