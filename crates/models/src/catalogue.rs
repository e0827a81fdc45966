//! Reads model lists of services, and helpers that bring their entries into one form.

use std::cmp::Ordering;
use std::time::Duration;

use gladhand_core::Secret;
use gladhand_redaction::redact_with;
use gladhand_tls::{BodyError, read_body};
use http::StatusCode;
use serde_json::Value;

use crate::ModelError;
use crate::exchange::{message_of, shortened};
use crate::service::Service;
use crate::web::{Request, failed, timed_out};

/// The timeout for a list. Lists are short, and a user waits for them.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The maximum size of a list in bytes.
const MAX_LIST: usize = 32 * 1024 * 1024;

/// A document of a service, and the status of its response.
#[derive(Debug)]
pub(crate) struct Document {
    pub(crate) status: StatusCode,
    pub(crate) text: String,
}

impl Document {
    /// Requests a document. If the service rejects the credential and another one is available, the request is
    /// repeated once.
    pub(crate) async fn ask(service: &Service, request: &Request) -> Result<Self, ModelError> {
        let fetch = async {
            let Some(credential) = service.credential() else { return Self::once(service, request, None).await };
            let token = credential.token().await?;
            let document = Self::once(service, request, Some(&token)).await?;
            if document.status != StatusCode::UNAUTHORIZED {
                return Ok(document);
            }
            match credential.another(&token).await {
                Some(token) => Self::once(service, request, Some(&token)).await,
                None => Ok(document),
            }
        };
        tokio::time::timeout(TIMEOUT, fetch).await.map_err(|_| timed_out())?
    }

    async fn once(service: &Service, request: &Request, token: Option<&Secret>) -> Result<Self, ModelError> {
        let mut response = service.web.send(request, token).await?;
        let status = response.status();
        let body = read_body(&mut response, MAX_LIST).await.map_err(|error| match error {
            BodyError::TooLarge => failed(format!("{} sent a list of more than 32 MiB.", service.name)),
            BodyError::Failed(_) => ModelError::Unreachable,
        })?;
        let mut text = String::from_utf8_lossy(&body).into_owned();
        if !status.is_success() {
            text = redact_with(&text, token.map(Secret::expose)).into_owned();
        }
        Ok(Self { status, text })
    }

    /// Parses the document as JSON, if the response was successful.
    pub(crate) fn read(&self, name: &str) -> Result<Value, ModelError> {
        if !self.status.is_success() {
            let message = shortened(&message_of(&self.text), 2000);
            return Err(ModelError::Status { status: self.status.as_u16(), message });
        }
        serde_json::from_str(&self.text).map_err(|_| failed(format!("{name} sent a list that is not JSON.")))
    }
}

/// The items of a JSON array, or an empty slice for any other value.
pub(crate) fn entries(list: &Value) -> &[Value] {
    list.as_array().map_or(&[], Vec::as_slice)
}

/// The first of these members that is a non-empty string.
pub(crate) fn text<'a>(entry: &'a Value, names: &[&str]) -> Option<&'a str> {
    names.iter().filter_map(|name| entry[name].as_str()).map(str::trim).find(|text| !text.is_empty())
}

/// The size of the model's context window in tokens. Each service uses a different member name for it.
pub(crate) fn window(entry: &Value) -> Option<u64> {
    let names = ["context_length", "context_window", "max_context_length", "max_model_len", "max_input_tokens"];
    let direct = names.iter().map(|name| &entry[name]);
    let nested = [&entry["top_provider"]["context_length"], &entry["meta"]["n_ctx_train"]];
    direct.chain(nested).filter_map(Value::as_u64).find(|tokens| *tokens > 0)
}

/// Compares labels without regard to case. Case only decides between labels that are otherwise equal.
pub(crate) fn by_label(a: &str, b: &str) -> Ordering {
    // Punctuation sorts first, in the order of the root collation.
    const SIGNS: &str = "_-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$";
    let key = |character: char| match SIGNS.find(character) {
        _ if character.is_whitespace() => (0, 0),
        Some(at) => (1, at as u32),
        None if character.is_ascii_digit() => (2, u32::from(character)),
        None => (3, character.to_lowercase().next().map_or(0, u32::from)),
    };
    let lower_first = |text: &str| text.chars().map(char::is_uppercase).collect::<Vec<_>>();
    a.chars().map(key).cmp(b.chars().map(key)).then_with(|| lower_first(a).cmp(&lower_first(b)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_sort_without_regard_to_case() {
        let mut labels = ["beta", "Alpha: B", "alpha", "Alpha", "Alpha 2", "10", "Alpha-2", "Deep", "(new)"];
        labels.sort_by(|a, b| by_label(a, b));
        assert_eq!(labels, ["(new)", "10", "alpha", "Alpha", "Alpha 2", "Alpha-2", "Alpha: B", "beta", "Deep"]);
    }

    #[test]
    fn context_windows_are_found_under_many_names() {
        let tokens = |text: &str| window(&serde_json::from_str(text).unwrap());
        assert_eq!(tokens(r#"{"context_length":8000}"#), Some(8000));
        assert_eq!(tokens(r#"{"context_length":null,"top_provider":{"context_length":5}}"#), Some(5));
        assert_eq!(tokens(r#"{"meta":{"n_ctx_train":4096}}"#), Some(4096));
        assert_eq!(tokens(r#"{"context_length":0}"#), None);
        assert_eq!(tokens("[]"), None);
    }
}
