//! Keeps secrets out of text that people and logs see.
//!
//! [`redact`] is the one function for it. It removes two kinds of text and puts [`MASK`] in their place:
//!
//! - **Known values.** Each part of the program tells [`learn`] a secret when it starts to use it. A known value is
//!   found as it is, percent-encoded, escaped for JSON, and in base64 (alone or inside a longer encoding, as in Basic
//!   authentication). A value with fewer than [`SHORTEST`] bytes is not searched for: it would be found in ordinary
//!   words. The number and the size of the known values are bounded.
//! - **Secrets by their form**, known or not: user and password in a URL, the value of `?api_key=…`, `--password=…` and
//!   `"token":"…"`, and what follows `Authorization:` or `Bearer`.
//!
//! The border: error texts, refusals, log lines, instructions and status reports are redacted. The content of a tool's
//! result, of a resource or of a prompt is data, and passes unchanged. References such as `${secret:NAME}` are no
//! secrets and stay as they are written.
//!
//! The known values belong to the process, because log lines and errors of all its sessions end in the same places.
//! This crate reads no clock, no file and no environment, and logs nothing.

mod forms;
mod known;
mod names;
mod rules;
mod shown;

use std::borrow::Cow;

pub use known::{Life, SHORTEST, learn};
pub use names::is_sensitive;
pub use shown::{
    learn_header, learn_text, learn_variable, learn_words, redact_json, redact_raw, redact_settings, redact_words,
    redact_written,
};

/// What stands in place of a secret.
pub const MASK: &str = "***";

/// The text without secrets.
pub fn redact(text: &str) -> Cow<'_, str> {
    redact_with(text, [])
}

/// The same, without these secrets of the exchange that the text comes from: they are removed even where they are too
/// short to be known in general.
pub fn redact_with<'s>(text: &str, secrets: impl IntoIterator<Item = &'s str>) -> Cow<'_, str> {
    /// A shorter text is no secret.
    const SHORTEST_GIVEN: usize = 4;
    let mut text = Cow::Borrowed(text);
    for secret in secrets.into_iter().filter(|secret| secret.len() >= SHORTEST_GIVEN) {
        if text.contains(secret) {
            text = Cow::Owned(text.replace(secret, MASK));
        }
    }
    let text = in_turn(text, known::without_known);
    in_turn(text, rules::without_secrets)
}

/// Applies a step that borrows what it does not change.
fn in_turn<'t>(text: Cow<'t, str>, step: impl for<'s> Fn(&'s str) -> Cow<'s, str>) -> Cow<'t, str> {
    match text {
        Cow::Borrowed(text) => step(text),
        Cow::Owned(text) => match step(&text) {
            Cow::Owned(changed) => Cow::Owned(changed),
            Cow::Borrowed(_) => Cow::Owned(text),
        },
    }
}
