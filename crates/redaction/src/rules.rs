//! Finds secrets by the form of the text, whether their value is known or not.
//!
//! Each rule finds the places of values in linear time, because an upstream chooses the text. References (`${NAME}`) in
//! a value are not secrets; the default in `${NAME:-default}` may be one. `$${` stands for `${` and begins no reference.

use std::borrow::Cow;
use std::ops::Range;

use memchr::memchr_iter;

use crate::names::is_sensitive;
use crate::{MASK, assignments, flags, tokens};

/// The characters that end a value in free text.
const ENDS: &[char] = &[' ', '\t', '\r', '\n', '"', '\'', '`', '<', '>', '\\', '&', ',', ';', ')', '}', ']', '#'];

/// The characters that end the value of a header.
const LINE_ENDS: &[char] = &['\r', '\n', '"', '\'', '`', '\\', '\u{fffd}'];

/// Maximum length of a reference, in bytes.
const MAX_REFERENCE_BYTES: usize = 256;

/// Maximum length in bytes of a user and password with unusual characters.
const MAX_USERINFO_BYTES: usize = 512;

/// Headers whose value is a secret, in addition to `X-` headers with a sensitive name.
const HEADERS: [&str; 6] = ["authorization", "proxy-authorization", "cookie", "set-cookie", "api-key", "private-token"];

/// Authentication schemes.
pub(crate) const SCHEMES: [&str; 7] = ["bearer", "basic", "dpop", "token", "apikey", "digest", "aws4-hmac-sha256"];

/// Replaces these places with the mask. Places that overlap or touch share one mask.
pub(crate) fn masked(text: &str, mut spans: Vec<Range<usize>>) -> Cow<'_, str> {
    spans.retain(|span| !matches!(text.get(span.clone()), None | Some("" | MASK)));
    if spans.is_empty() {
        return Cow::Borrowed(text);
    }
    spans.sort_unstable_by_key(|span| (span.start, span.end));
    let (mut shown, mut at) = (String::with_capacity(text.len()), None);
    for span in spans {
        let before = at.unwrap_or(0);
        if at.is_none() || span.start > before {
            shown.push_str(&text[before..span.start]);
            shown.push_str(MASK);
        }
        at = Some(before.max(span.end));
    }
    shown.push_str(&text[at.unwrap_or(0)..]);
    Cow::Owned(shown)
}

/// Whether a text is too short for every rule. Most strings of JSON are.
pub(crate) fn is_plain(text: &str) -> bool {
    /// The shortest secret of a rule that needs none of the signs below: `dpop ` and a token.
    const MIN_BYTES: usize = 13;
    let has_sign = || text.bytes().any(|byte| matches!(byte, b'=' | b':' | b'-'));
    text.len() < MIN_BYTES && (text.len() < "pwd=x".len() || !has_sign())
}

/// Finds all secrets in a text.
pub(crate) fn spans(text: &str) -> Vec<Range<usize>> {
    if is_plain(text) {
        return Vec::new();
    }
    let Joined { places: mut found, hidden } = joined(text, userinfo(text));
    found.extend(assigned(text));
    found.extend(headers(text));
    found.extend(assignments::spans(text));
    found.extend(after_schemes(text));
    found.extend(flags::in_text(text));
    found.extend(tokens::spans(text));
    found.into_iter().flat_map(|span| literals(text, span)).chain(hidden).collect()
}

/// Users and passwords in URLs: `scheme://user:password@host`. Each byte is checked only a few times, for any text.
pub(crate) fn userinfo(text: &str) -> Vec<Range<usize>> {
    let is_end = |c: char| c.is_whitespace() || "\"'`<>\\?#".contains(c);
    let mut found = Vec::new();
    // How far the text was searched for the end of a word, and the last `@` in that part.
    let (mut searched, mut last_sign) = (0, None);
    for (at, _) in text.match_indices("://") {
        let begin = at + 3;
        let rest = &text[begin..];
        let authority = &rest[..rest.find(|c| c == '/' || is_end(c)).unwrap_or(rest.len())];
        // A password may contain a slash that should have been encoded. But in the URL of a page, an `@` may come after
        // the slash. There, the part before the slash is a host if its port consists of digits.
        let is_page = ["http", "https"].iter().any(|scheme| text[..at].ends_with(scheme));
        let port = authority.rsplit_once(':').map_or("", |(_, port)| port);
        let is_host = is_page && (port.bytes().all(|byte| byte.is_ascii_digit()) || authority.ends_with(']'));
        let mut end = None;
        if !is_host && authority.contains(':') {
            // The word of a later URL never ends before that of an earlier one, so the search continues where it
            // stopped.
            searched = searched.max(begin);
            let end_of_search = begin + bounded(rest, MAX_USERINFO_BYTES).len();
            let next = text.get(searched..end_of_search).unwrap_or_default();
            let word = &next[..next.find(is_end).unwrap_or(next.len())];
            last_sign = word.rfind('@').map(|sign| searched + sign).or(last_sign);
            searched += word.len();
            end = last_sign.filter(|sign| *sign >= begin);
        }
        found.extend(end.or_else(|| Some(begin + authority.rfind('@')?)).map(|end| begin..end));
    }
    found
}

/// Places that do not overlap.
struct Joined {
    places: Vec<Range<usize>>,
    /// Parts of references that are secrets all the same, because a place begins inside the reference.
    hidden: Vec<Range<usize>>,
}

/// Joins overlapping places, which are sorted by their start, so that no byte is searched for references more than
/// once.
fn joined(text: &str, found: Vec<Range<usize>>) -> Joined {
    let (mut places, mut hidden): (Vec<Range<usize>>, _) = (Vec::new(), Vec::new());
    let mut references = References::new(text);
    let (mut searched, mut reference_end) = (0, 0);
    for place in found {
        match places.last_mut().filter(|last| place.start < last.end) {
            Some(last) => {
                let mut opens = text[searched..place.start].rmatch_indices("${").map(|(at, _)| searched + at);
                let open = opens.find(|open| !is_escaped(text, *open));
                reference_end = open.and_then(|open| references.close(open)).map_or(reference_end, |close| close + 1);
                if place.start < reference_end {
                    hidden.push(place.start..reference_end.min(place.end));
                }
                last.end = last.end.max(place.end);
                searched = place.start;
            }
            None => {
                searched = place.start;
                places.push(place);
            }
        }
    }
    Joined { places, hidden }
}

/// The values of `?name=value`, `--name=value`, `name=value` with a sensitive name.
fn assigned(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut covered = 0;
    for (at, _) in text.match_indices('=') {
        if at < covered {
            continue;
        }
        let named = &text[..at];
        let begin = named.rfind(|c: char| !is_name(c)).map_or(0, |last| last + last_length(named, last));
        let name = &named[begin..];
        let is_parameter = name.starts_with('-') || named[..begin].ends_with(['?', '&', '#', ';']);
        // The field `key` of a log line is not a secret.
        if !is_sensitive(name) || (!is_parameter && name.eq_ignore_ascii_case("key")) {
            continue;
        }
        let value = quoted(text, at + 1).unwrap_or_else(|| at + 1..value_end(text, at + 1));
        covered = value.end;
        found.push(value);
    }
    found
}

/// The values of headers (`Authorization: Bearer x`) and of members (`"token": "x"`) with a sensitive name.
fn headers(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut covered = 0;
    for (at, _) in text.match_indices(':') {
        if at < covered {
            continue;
        }
        let named = text[..at].trim_end_matches(['"', '\'', '\\']);
        let is_member = named.len() < at;
        let begin = named.rfind(|c: char| !is_name(c)).map_or(0, |last| last + last_length(named, last));
        let name = named[begin..].trim_start_matches('-');
        let value = text.len() - text[at + 1..].trim_start_matches(' ').len();
        let value = if is_member { value } else { skip_quotes(text, value) };
        let secret = match is_member {
            true => quoted(text, value).filter(|_| is_sensitive(name)),
            false if is_header(name) => {
                // This word is not checked again.
                let word = value_end(text, value);
                covered = word;
                header_value(text, value..word, name)
            }
            false => None,
        };
        covered = secret.as_ref().map_or(covered, |secret| secret.end);
        found.extend(secret);
    }
    found
}

pub(crate) fn is_header(name: &str) -> bool {
    let is_own = name.get(..2).is_some_and(|beginning| beginning.eq_ignore_ascii_case("x-"));
    HEADERS.iter().any(|header| header.eq_ignore_ascii_case(name)) || (is_own && is_sensitive(name))
}

/// The secret in the value of a header, given its first word.
fn header_value(text: &str, first: Range<usize>, name: &str) -> Option<Range<usize>> {
    let Range { start: begin, end } = first;
    let line_end = || begin + text[begin..].find(LINE_ENDS).unwrap_or(text.len() - begin);
    let word = &text[begin..end];
    let scheme = SCHEMES.iter().find(|scheme| scheme.eq_ignore_ascii_case(word));
    match scheme.filter(|_| text[end..].starts_with(' ')) {
        Some(&("digest" | "aws4-hmac-sha256")) => return Some(end + 1..line_end()),
        // The place of a token in a hint is not a token.
        Some(_) => return Some(end + 1..value_end(text, end + 1)).filter(|value| text[value.clone()] != *"…"),
        None => {}
    }
    if name.to_ascii_lowercase().ends_with("cookie") {
        return word.contains('=').then(|| begin..line_end());
    }
    // A word of a sentence is not a secret.
    (is_opaque(word) || word.starts_with("${")).then_some(begin..end)
}

/// Tokens after `Bearer`, `Basic` and `DPoP`.
fn after_schemes(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    for begin in memchr_iter(b' ', text.as_bytes()).map(|blank| blank + 1) {
        let before = &text.as_bytes()[..begin - 1];
        let has_scheme = |scheme: &&str| {
            let at = before.len().checked_sub(scheme.len());
            at.is_some_and(|at| before[at..].eq_ignore_ascii_case(scheme.as_bytes()) && !text[..at].ends_with(is_name))
        };
        if SCHEMES[..3].iter().any(has_scheme) {
            let rest = &text[begin..];
            let fits = |c: char| c.is_ascii_alphanumeric() || "-._~+/=".contains(c);
            let length = rest.find(|c: char| !fits(c)).unwrap_or(rest.len());
            let value = rest[..length].trim_end_matches('.');
            // `error=` and `realm=` are parameters of a challenge.
            let is_quoted = rest[length..].starts_with('"');
            // A token at the end of a string, as in JSON in a text, has a quote after it too.
            let is_name = value.ends_with('=') && !value.contains(|c: char| c.is_ascii_digit());
            let is_parameter = value.trim_end_matches('=').contains('=') || (is_quoted && is_name);
            if is_opaque(value) && !is_parameter {
                found.push(begin..begin + value.len());
            }
        }
    }
    found
}

/// Whether a text looks like a token, and not like a word of a sentence.
fn is_opaque(text: &str) -> bool {
    let is_odd = |c: char| c.is_ascii_digit() || c.is_ascii_uppercase() || "_=/+~".contains(c);
    text.len() >= 8 && text.chars().skip(1).any(is_odd)
}

/// The parts of a place that are not references.
pub(crate) fn literals(text: &str, place: Range<usize>) -> Vec<Range<usize>> {
    let (mut found, mut begin) = (Vec::new(), place.start);
    let mut rest = begin;
    let mut references = References::new(text);
    while let Some(at) = text.get(rest..place.end).and_then(|rest| rest.find("${")) {
        let open = rest + at;
        let Some(close) = references.close(open) else {
            rest = open + 2;
            continue;
        };
        found.push(begin..open);
        found.extend(text[open..close].find(":-").map(|default| open + default + 2..close));
        (begin, rest) = (close + 1, close + 1);
    }
    found.push(begin..place.end.max(begin));
    // If only separators remain, the place contains only references.
    let is_secret =
        |place: &Range<usize>| text.get(place.clone()).is_some_and(|text| text.contains(char::is_alphanumeric));
    if found.len() > 1 {
        found.retain(is_secret);
    }
    found
}

/// The end of the value that begins here. A reference is part of it.
pub(crate) fn value_end(text: &str, begin: usize) -> usize {
    let mut at = begin;
    let mut references = References::new(text);
    loop {
        if let Some(close) = references.close(at) {
            at = close + 1;
            continue;
        }
        match text[at..].chars().next() {
            Some(letter) if !ENDS.contains(&letter) => at += letter.len_utf8(),
            _ => return at,
        }
    }
}

/// Whether the `${` that begins here stands for itself, as in `$${NAME}`.
fn is_escaped(text: &str, open: usize) -> bool {
    text[..open].ends_with('$')
}

/// Whether a reference begins in this place of a text.
pub(crate) fn has_reference(text: &str, place: Range<usize>) -> bool {
    let begins = |(at, _): (usize, &str)| !is_escaped(text, place.start + at);
    text.get(place.clone()).is_some_and(|part| part.match_indices("${").any(begins))
}

/// Finds the closing braces of references, from left to right. A missing brace is searched for only once.
struct References<'t> {
    text: &'t str,
    /// Before this, no brace closes an open reference.
    searched: usize,
}

impl<'t> References<'t> {
    fn new(text: &'t str) -> Self {
        Self { text, searched: 0 }
    }

    /// Where the reference that begins here closes.
    fn close(&mut self, open: usize) -> Option<usize> {
        if !self.text[open..].starts_with("${") || is_escaped(self.text, open) {
            return None;
        }
        self.searched = self.searched.max(open);
        let end_of_search = open + bounded(&self.text[open..], MAX_REFERENCE_BYTES).len();
        let next = self.text.get(self.searched..end_of_search).unwrap_or_default();
        let found = next.find('}').map(|at| self.searched + at);
        self.searched = found.unwrap_or_else(|| end_of_search.max(self.searched));
        found
    }
}

/// A prefix of a text, of about this length.
fn bounded(text: &str, length: usize) -> &str {
    &text[..text.floor_char_boundary(length)]
}

/// The first byte from here on that is neither a quote nor an escape of one.
fn skip_quotes(text: &str, begin: usize) -> usize {
    text.len() - text[begin..].trim_start_matches(['"', '\'', '\\']).len()
}

/// The content of the quotes that begin here, which may be escaped.
pub(crate) fn quoted(text: &str, begin: usize) -> Option<Range<usize>> {
    let inside = text[begin..].trim_start_matches('\\');
    let quote = inside.chars().next().filter(|quote| ['"', '\''].contains(quote))?;
    let begin = text.len() - inside.len() + 1;
    let length = text[begin..].find([quote, '\\', '\n']).unwrap_or(text.len() - begin);
    Some(begin..begin + length)
}

pub(crate) fn is_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "_-.[]".contains(letter)
}

/// The length of the character that begins here.
fn last_length(text: &str, at: usize) -> usize {
    text[at..].chars().next().map_or(0, char::len_utf8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn without_secrets(text: &str) -> Cow<'_, str> {
        masked(text, spans(text))
    }

    #[test]
    fn text_in_the_form_of_a_secret_is_masked() {
        for (text, shown) in [
            ("postgres://ann:hush@db/x", "postgres://***@db/x"),
            ("postgres://ann:hu/sh@db/x", "postgres://***@db/x"),
            ("mongodb+srv://ann:hu@s/h@db/x?a=b@c", "mongodb+srv://***@db/x?a=b@c"),
            ("https://hush@x.example/?a=1", "https://***@x.example/?a=1"),
            ("https://x/mcp?api_key=hush&b=2#access_token=hush", "https://x/mcp?api_key=***&b=2#access_token=***"),
            ("https://x/?key=hush", "https://x/?key=***"),
            ("server --password=hush -x", "server --password=*** -x"),
            ("docker -e API_KEY=hush x", "docker -e API_KEY=*** x"),
            ("host=x password='hu sh' port=1", "host=x password='***' port=1"),
            ("got Authorization: Bearer hush, no", "got Authorization: Bearer ***, no"),
            ("authorization: hush12345", "authorization: ***"),
            ("X-Api-Key: hush12345\r\nhost: x", "X-Api-Key: ***\r\nhost: x"),
            ("Cookie: a=1; b=2\nx", "Cookie: ***\nx"),
            ("Authorization: Digest username=\"a\"", "Authorization: Digest ***\"a\""),
            ("with bearer hush-12345 it", "with bearer *** it"),
            ("Basic YW5uOmh1c2g=", "Basic ***"),
            (r#"{"token": "hush", "a": 1}"#, r#"{"token": "***", "a": 1}"#),
            (r#"{\"api_key\":\"hush\"}"#, r#"{\"api_key\":\"***\"}"#),
            (r#"{"authorization":"Bearer hush"}"#, r#"{"authorization":"***"}"#),
            ("x?token=${T:-hush}", "x?token=${T:-***}"),
            ("x?token=a${T}b", "x?token=***${T}***"),
            ("srv --password 'hush$${T}'", "srv --password '***'"),
            ("x?token=hush$${T}", "x?token=***}"),
            ("a://b:${x$${://hush:c}@d", "a://***${x$${://***@d"),
        ] {
            assert_eq!(without_secrets(text), shown, "{text}");
        }
    }

    #[test]
    fn the_search_time_is_linear_in_the_length_of_the_text() {
        for piece in
            ["token=", "://", "a://b:c/", "x-token:", "cookie: ", "bearer ", "${", "token=${", "\"token\":", "x-key:a "]
        {
            let text = piece.repeat(1 << 15);
            assert!(spans(&text).len() <= text.len());
        }
    }

    /// With 512 steps for each URL, these texts would take minutes.
    #[test]
    fn urls_inside_urls_are_searched_once() {
        let length = 1 << 24;
        for (piece, places) in [("a://", 0), ("a://b:c@", 1), ("a://b:${@", 1)] {
            let text = piece.repeat(length / piece.len());
            assert_eq!(joined(&text, userinfo(&text)).places.len(), places, "{piece}");
        }
    }

    #[test]
    fn the_word_of_a_url_does_not_depend_on_earlier_urls() {
        let end = |text: &str| userinfo(text).last().cloned().map(|place| text[place].to_owned());
        for (text, last) in [
            ("a://b:c d://e:f/g@h", Some("e:f/g")),
            ("a://b:c/d://e:f@g", Some("e:f")),
            ("a://b:c@d e://f:g", Some("b:c")),
            ("a://b:c@d://e:f", Some("b:c")),
            ("a://b:c/@d?://e:f@g", Some("e:f")),
        ] {
            assert_eq!(end(text).as_deref(), last, "{text}");
        }
        // An `@` that is too far from the first URL is near enough to the second.
        let far = format!("a://b:{}d://e:/{}@", "c".repeat(300), "f".repeat(300));
        assert_eq!(end(&far), Some(format!("e:/{}", "f".repeat(300))));
        assert_eq!(without_secrets("a://b:${x://hush:c}@d"), "a://***${x://***@d", "a place begins in a reference");
        assert_eq!(without_secrets("a://b:${X}://hush:c@d"), "a://***${X}***@d");
        let braces = format!("x?token=${{{}${{T}}hush", "a".repeat(300));
        assert!(!without_secrets(&braces).contains("hush"), "a reference that does not close hides nothing");
    }

    #[test]
    fn ordinary_text_stays_as_it_is() {
        for text in [
            "set GLADHAND_MCP_TOKEN to a bearer token, or give --header 'Authorization: …'",
            "set GLADHAND_MCP_TOKEN, or give --header 'Authorization: Bearer …'",
            "line 3, column 1: authorization: expected a table",
            "upstreams.a.token: expected a string",
            "https://localhost:8080/@scope/package",
            "https://example.org/mcp?profile=a",
            "no connection to 127.0.0.1:80",
            "Bearer realm=\"x\", error=\"invalid_token\"",
            "basic authentication is not supported",
            "max_tokens=100 key=upstreams.a",
            "postgres://${USER}:${secret:db}@host/x?sslmode=require&key=${secret:k}",
            "--token=${secret:t}",
            "tokens: 5, cookie: none",
        ] {
            assert_eq!(without_secrets(text), text);
        }
    }
}
