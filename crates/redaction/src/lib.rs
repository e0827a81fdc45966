//! Keeps secrets out of text that people and logs see.
//!
//! [`redact`] is the main function. It replaces two kinds of text with [`MASK`]:
//!
//! - **Known values.** Each part of the program passes a secret to [`learn`] when it starts to use it. A known value is
//!   found verbatim, percent-encoded, escaped for JSON, and in base64 (alone or inside a longer encoding, as in Basic
//!   authentication). Its beginning is found before a `…`, the mark of a text that was cut. A value with fewer than [`SHORTEST`] bytes is not searched for: it would match ordinary words.
//!   The number and the size of the known values are limited.
//! - **Secrets by their form**, known or not: user and password in a URL, the value of `?api_key=…`, `--password …` and
//!   `"token":"…"`, the text after `Authorization:` or `Bearer`, tokens with the prefix of their issuer
//!   (`ghp_…`), signed tokens (`eyJ….….…`), and private keys in PEM.
//!
//! Error texts, refusals, log lines, instructions and status reports are redacted. The content of a tool's result, of a
//! resource or of a prompt is data, and passes unchanged. References such as `${secret:NAME}` are not secrets and stay
//! as written.
//!
//! The known values belong to the process, because log lines and errors of all its sessions end in the same places.
//! This crate reads no clock, no file and no environment, and logs nothing.

mod assignments;
mod flags;
mod forms;
mod known;
mod members;
mod names;
mod places;
mod rules;
mod shown;
mod tokens;
mod walk;

use std::borrow::Cow;
use std::ops::Range;

pub use known::{Life, SHORTEST, learn};
pub use names::is_sensitive;
pub use places::{places_in_header, places_in_text, places_in_variable, places_in_words};
pub use shown::{
    learn_header, learn_text, learn_variable, learn_words, redact_json, redact_raw, redact_raw_at, redact_raw_cut,
    redact_settings, redact_words, redact_written,
};

/// Replaces a secret.
pub const MASK: &str = "***";

/// Maximum length in bytes of an error or log message of a peer. Longer ones are cut and end with [`CUT`].
pub const LONGEST_MESSAGE: usize = 64 * 1024;

/// Marks text that was cut.
pub const CUT: &str = "… (cut)";

/// Cuts a name that a peer chose to this many characters, and marks the cut with `…`. The code that shows it calls [`redact`],
/// which also finds the beginning of a value before that mark.
pub fn shorten(text: &str, max_chars: usize) -> Cow<'_, str> {
    // A text has at least as many bytes as characters.
    if text.len() <= max_chars {
        return Cow::Borrowed(text);
    }
    match text.char_indices().nth(max_chars) {
        Some((end, _)) => Cow::Owned(format!("{}…", text[..end].trim_end_matches('…'))),
        None => Cow::Borrowed(text),
    }
}

/// Removes secrets from a text.
pub fn redact(text: &str) -> Cow<'_, str> {
    redact_with(text, [])
}

/// The same, and also removes these few secrets of the current exchange, even if they are too short to be known in
/// general.
pub fn redact_with<'t, 's>(text: &'t str, secrets: impl IntoIterator<Item = &'s str>) -> Cow<'t, str> {
    /// A shorter text is not treated as a secret.
    const MIN_GIVEN_BYTES: usize = 4;
    let secrets = secrets.into_iter().filter(|secret| secret.len() >= MIN_GIVEN_BYTES);
    let places = secrets.flat_map(|secret| text.match_indices(secret).map(|(at, found)| at..at + found.len()));
    redact_at(text, places)
}

/// Removes secrets from a text, and also the text in these places.
pub fn redact_at(text: &str, places: impl IntoIterator<Item = Range<usize>>) -> Cow<'_, str> {
    // All searches run on the original text. After a mask has split a secret, another search would not find it.
    let mut all = known::search().spans(text);
    all.extend(rules::spans(text));
    all.extend(places);
    rules::masked(text, all)
}

/// The same for a message of a peer, cut after [`LONGEST_MESSAGE`] bytes, because the peer chooses its length.
pub fn redact_cut(text: &str) -> Cow<'_, str> {
    redact_within(text, LONGEST_MESSAGE)
}

/// The same, cut after `max_bytes` bytes. The search continues past the cut, so a known value that the cut splits is
/// found, also percent-encoded.
fn redact_within(text: &str, max_bytes: usize) -> Cow<'_, str> {
    if text.len() <= max_bytes {
        return redact(text);
    }
    let (kept, searched) =
        (text.floor_char_boundary(max_bytes), text.floor_char_boundary(max_bytes + 3 * known::MAX_BYTES));
    let searched = &text[..searched];
    let mut places = known::search().spans(searched);
    places.extend(rules::spans(searched));
    places.iter_mut().for_each(|place| place.end = place.end.min(kept));
    places.retain(|place| place.start < place.end);
    let mut shown = rules::masked(&text[..kept], places).into_owned();
    shown.push_str(CUT);
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_message_is_cut_and_a_secret_at_the_cut_is_masked() {
        learn("secret-at-the-cut", Life::Process);
        let before = "x".repeat(LONGEST_MESSAGE - 5);
        assert_eq!(redact_cut(&before), before);
        let cut = redact_cut(&format!("{before}secret-at-the-cut {before}")).into_owned();
        assert_eq!(cut, format!("{before}***{CUT}"));
        let letters = "é".repeat(LONGEST_MESSAGE);
        assert_eq!(redact_cut(&letters), format!("{}{CUT}", &letters[..LONGEST_MESSAGE]));
    }
}
