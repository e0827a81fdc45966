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

/// Stands in place of a secret.
pub const MASK: &str = "***";

/// The text without secrets.
pub fn redact(text: &str) -> Cow<'_, str> {
    redact_with(text, [])
}

/// The same, without these secrets of the exchange that the text comes from: they are removed even where they are too
/// short to be known in general.
pub fn redact_with<'t, 's>(text: &'t str, secrets: impl IntoIterator<Item = &'s str>) -> Cow<'t, str> {
    /// A shorter text is no secret.
    const SHORTEST_GIVEN: usize = 4;
    // All of them are looked for in the text as it came: what one mask cuts in two, another search would not find.
    let mut places = known::spans(text);
    places.extend(rules::spans(text));
    for secret in secrets.into_iter().filter(|secret| secret.len() >= SHORTEST_GIVEN) {
        places.extend(text.match_indices(secret).map(|(at, _)| at..at + secret.len()));
    }
    rules::masked(text, places)
}
