//! Keeps secrets out of text that people and logs see.
//!
//! [`redact`] is the one function for it. It removes two kinds of text and puts [`MASK`] in their place:
//!
//! - **Known values.** Each part of the program tells [`learn`] a secret when it starts to use it. A known value is
//!   found as it is, percent-encoded, escaped for JSON, and in base64 (alone or inside a longer encoding, as in Basic
//!   authentication). A value with fewer than [`SHORTEST`] bytes is not searched for: it would be found in ordinary
//!   words. The number and the size of the known values are bounded.
//! - **Secrets by their form**, known or not: user and password in a URL, the value of `?api_key=…`, `--password …` and
//!   `"token":"…"`, what follows `Authorization:` or `Bearer`, tokens with the prefix of their issuer (`ghp_…`), signed
//!   tokens (`eyJ….….…`), and private keys in PEM.
//!
//! The border: error texts, refusals, log lines, instructions and status reports are redacted. The content of a tool's
//! result, of a resource or of a prompt is data, and passes unchanged. References such as `${secret:NAME}` are no
//! secrets and stay as they are written.
//!
//! The known values belong to the process, because log lines and errors of all its sessions end in the same places.
//! This crate reads no clock, no file and no environment, and logs nothing.

mod flags;
mod forms;
mod known;
mod names;
mod places;
mod rules;
mod shown;
mod tokens;

use std::borrow::Cow;

pub use known::{Life, SHORTEST, learn};
pub use names::is_sensitive;
pub use places::{places_in_header, places_in_text, places_in_variable, places_in_words};
pub use shown::{
    learn_header, learn_text, learn_variable, learn_words, redact_json, redact_raw, redact_raw_cut, redact_settings,
    redact_words, redact_written,
};

/// Stands in place of a secret.
pub const MASK: &str = "***";

/// How many bytes of an error or a log message of a peer are shown. Longer ones are cut and end with [`CUT`].
pub const LONGEST_MESSAGE: usize = 64 * 1024;

/// Stands in place of text that was cut.
pub const CUT: &str = "… (cut)";

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

/// The same for a message of a peer, which is cut after [`LONGEST_MESSAGE`] bytes: a peer chooses its length.
pub fn redact_cut(text: &str) -> Cow<'_, str> {
    redact_within(text, LONGEST_MESSAGE)
}

/// The same, cut after this many bytes. A known value that the cut divides is found, also percent-encoded, because the search
/// goes on behind the cut.
fn redact_within(text: &str, most: usize) -> Cow<'_, str> {
    if text.len() <= most {
        return redact(text);
    }
    let (kept, searched) = (text.floor_char_boundary(most), text.floor_char_boundary(most + 3 * known::LONGEST));
    let searched = &text[..searched];
    let mut places = known::spans(searched);
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
