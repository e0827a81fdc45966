//! Removes secrets from the entries of a recording.

use std::collections::HashMap;
use std::ops::Range;

use gladhand_core::wire::RawValue;
use gladhand_recording::{Entry, EntryKind, HttpExchange, Sender};
use gladhand_redaction::{MASK, redact_at, redact_raw_at};
use regex::{Regex, RegexBuilder};

/// Maximum number of patterns.
const MAX_PATTERNS: usize = 64;

/// Maximum length of a pattern, in bytes.
const MAX_PATTERN_BYTES: usize = 4096;

/// Maximum size of a compiled pattern, in bytes.
const MAX_COMPILED_BYTES: usize = 1024 * 1024;

/// Maximum number of lines in a private key. The largest keys in use have about 200.
const MAX_KEY_LINES: u32 = 400;

/// A pattern that cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BadMask {
    /// It is not a regular expression, or it is too large.
    #[error("mask {0} cannot be used: {1}")]
    Pattern(usize, regex::Error),
    /// It is too long.
    #[error("mask {0} has more than {MAX_PATTERN_BYTES} bytes")]
    TooLong(usize),
    /// There are too many.
    #[error("more than {MAX_PATTERNS} masks")]
    TooMany,
}

/// The masks of a recording: the secrets that are masked everywhere, and patterns of the user.
#[derive(Debug, Default)]
pub(crate) struct Masks {
    patterns: Vec<Regex>,
    /// The private keys that began in one line of text and have not ended: how many more lines they may have.
    keys: HashMap<(Option<String>, Sender, bool), u32>,
}

impl Masks {
    /// Compiles the patterns of the user.
    pub(crate) fn of(patterns: &[String]) -> Result<Self, BadMask> {
        if patterns.len() > MAX_PATTERNS {
            return Err(BadMask::TooMany);
        }
        let compile = |(number, pattern): (usize, &String)| match pattern.len() {
            ..=MAX_PATTERN_BYTES => {
                let mut builder = RegexBuilder::new(pattern);
                builder.size_limit(MAX_COMPILED_BYTES).dfa_size_limit(MAX_COMPILED_BYTES);
                builder.build().map_err(|error| BadMask::Pattern(number, error))
            }
            _ => Err(BadMask::TooLong(number)),
        };
        let patterns = (1..).zip(patterns).map(compile).collect::<Result<_, _>>()?;
        Ok(Self { patterns, keys: HashMap::new() })
    }

    /// Masks a command line that has no other secrets.
    pub(crate) fn words(&self, words: &[String]) -> Vec<String> {
        words.iter().map(|word| self.shown(word)).collect()
    }

    /// Masks an entry.
    pub(crate) fn apply(&mut self, entry: &mut Entry) {
        match &mut entry.kind {
            EntryKind::Message { message, .. } => {
                if let Some(masked) = self.message(message) {
                    *message = masked;
                }
            }
            EntryKind::Text { from, is_stderr, text } => {
                let origin = (entry.session.clone(), *from, *is_stderr);
                *text = self.line(origin, text);
            }
            EntryKind::Opened { peer, version, .. } => {
                let optional = peer.principal.iter_mut().chain(&mut peer.upstream);
                for text in [&mut peer.name, &mut peer.version, version].into_iter().chain(optional) {
                    *text = self.shown(text);
                }
            }
            EntryKind::Http(exchange) => {
                let HttpExchange { path, request, response, .. } = exchange;
                for text in std::iter::once(path).chain(request.values_mut()).chain(response.values_mut()) {
                    *text = self.shown(text);
                }
            }
            EntryKind::Closed(end) => {
                end.reason = end.reason.as_deref().map(|reason| self.shown(reason));
                self.keys.retain(|(session, ..), _| *session != entry.session);
            }
            EntryKind::Dropped(_) => {}
        }
    }

    /// Masks JSON. `None` if there is nothing to mask.
    pub(crate) fn message(&self, message: &RawValue) -> Option<Box<RawValue>> {
        redact_raw_at(message, |text| self.found(text))
    }

    /// Masks a line of text. A private key may extend over many lines.
    fn line(&mut self, origin: (Option<String>, Sender, bool), text: &str) -> String {
        let has_key = |edge: &str| text.find(edge).is_some_and(|at| text[at..].contains("PRIVATE KEY-----"));
        let ends = has_key("-----END ");
        if let Some(left) = self.keys.get_mut(&origin) {
            *left -= 1;
            if ends || *left == 0 {
                self.keys.remove(&origin);
            }
            if !ends {
                return MASK.to_owned();
            }
            // The end may follow a line of the key.
            let end = text.find("-----END ").unwrap_or_default();
            let before = if text[..end].trim().is_empty() { "" } else { MASK };
            return format!("{before}{}", self.plain(&text[end..]));
        }
        if has_key("-----BEGIN ") && !ends {
            self.keys.insert(origin, MAX_KEY_LINES);
        }
        self.plain(text)
    }

    fn plain(&self, text: &str) -> String {
        // Log lines may be JSON.
        let message = text.contains(['{', '[']).then(|| serde_json::from_str::<&RawValue>(text).ok()).flatten();
        let masked = message.and_then(|message| self.message(message));
        let masked = masked.as_deref().map_or(text, RawValue::get);
        self.shown(masked)
    }

    /// Masks a short text.
    pub(crate) fn shown(&self, text: &str) -> String {
        redact_at(text, self.found(text)).into_owned()
    }

    /// The places in a text that the patterns match. Matches that overlap or touch are one place.
    fn found(&self, text: &str) -> Vec<Range<usize>> {
        let mut found: Vec<Range<usize>> = Vec::new();
        for pattern in &self.patterns {
            // Matches of one pattern are in order. They are joined before the next pattern adds its own.
            found.extend(pattern.find_iter(text).map(|found| found.range()).filter(|range| !range.is_empty()));
            found.sort_by_key(|range| range.start);
            found.dedup_by(|next, last| {
                let touches = next.start <= last.end;
                last.end = if touches { last.end.max(next.end) } else { last.end };
                touches
            });
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(masks: &mut Masks, text: &str) -> String {
        let kind = EntryKind::Text { from: Sender::Server, is_stderr: true, text: text.to_owned() };
        let mut entry = Entry { ms: 0.0, session: None, kind };
        masks.apply(&mut entry);
        let EntryKind::Text { text, .. } = entry.kind else { panic!("no text") };
        text
    }

    fn message(masks: &mut Masks, text: &str) -> String {
        let kind = EntryKind::of_line(Sender::Client, text.as_bytes(), None, None).unwrap();
        let mut entry = Entry { ms: 0.0, session: None, kind };
        masks.apply(&mut entry);
        let EntryKind::Message { message, .. } = entry.kind else { panic!("no message") };
        message.get().to_owned()
    }

    #[test]
    fn patterns_mask_every_string_and_text() {
        let mut masks = Masks::of(&[r"cust-\d+".to_owned(), "x*".to_owned()]).unwrap();
        assert_eq!(text(&mut masks, "for cust-1 and cust-22"), "for *** and ***");
        let shown = message(&mut masks, r#"{"id": 1.0,"params":{"cust-7":["a","cust-123456"],"token":"t"}}"#);
        assert_eq!(shown, r#"{"id": 1.0,"params":{"***":["a","***"],"token":"***"}}"#);
        assert_eq!(message(&mut masks, r#"{"id": 1.0}"#), r#"{"id": 1.0}"#, "the rest keeps its spelling");
    }

    #[test]
    fn a_pattern_does_not_split_a_secret() {
        let mut masks = Masks::of(&["ghp_".to_owned()]).unwrap();
        assert_eq!(text(&mut masks, "t ghp_aB3dE5gH7jK9mN1pQ3sT5vW7yZ9b"), "t ***");
    }

    #[test]
    fn touching_matches_are_masked_as_one_place() {
        let mut masks = Masks::of(&["cust-[0-9]+".to_owned(), "[0-9]".to_owned(), "t-1".to_owned()]).unwrap();
        let count = 100_000;
        let many = "cust-1 ".repeat(count);
        assert_eq!(masks.found(&many).len(), count, "overlapping matches are joined");
        assert_eq!(masks.found(&"cust-1".repeat(count)).len(), 1, "touching matches are joined");
        assert_eq!(text(&mut masks, &many), "*** ".repeat(count));
        let json = format!(r#"{{"a":"{many}","a":"cust-1"}}"#);
        assert_eq!(message(&mut masks, &json), format!(r#"{{"a":"{}","a":"***"}}"#, "*** ".repeat(count)));
        assert_eq!(text(&mut masks, "a 1 b cust-22x"), "a *** b ***x", "a match of one byte is masked too");
    }

    #[test]
    fn bad_patterns_are_refused() {
        for patterns in
            [vec!["(".to_owned()], vec!["x".repeat(5000)], vec![r"\w{900}{90}".to_owned()], vec!["a".to_owned(); 65]]
        {
            assert!(Masks::of(&patterns).is_err());
        }
    }

    #[test]
    fn a_private_key_of_many_lines_is_masked_and_the_text_after_it_is_not() {
        let mut masks = Masks::default();
        let key =
            ["-----BEGIN RSA PRIVATE KEY-----", "MIIEvQIBADANBg", "kqhkiG9w", "-----END RSA PRIVATE KEY-----", "next"];
        let shown: Vec<_> = key.iter().map(|line| text(&mut masks, line)).collect();
        assert_eq!(shown, [key[0], "***", "***", key[3], "next"]);
        text(&mut masks, key[0]);
        for _ in 0..MAX_KEY_LINES {
            assert_eq!(text(&mut masks, "x"), "***");
        }
        assert_eq!(text(&mut masks, "x"), "x", "a key has an end");
    }
}
