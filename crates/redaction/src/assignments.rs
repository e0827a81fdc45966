//! Values after a sensitive name with blanks around the sign: `password: x`, `api_key = "x"`.
//!
//! Sentences have the same form (`token: the word after it`). The name begins its line or part of a line in a setting,
//! and its value ends it. In other text, only a value that looks random counts.

use std::ops::Range;

use memchr::memchr2_iter;

use crate::flags::is_value;
use crate::names::is_sensitive;
use crate::rules::{is_header, is_name, quoted, value_end};

/// Names that are ordinary words too.
const ORDINARY: [&str; 11] = [
    "auth",
    "authorization",
    "bearer",
    "cookie",
    "credential",
    "credentials",
    "key",
    "pass",
    "pat",
    "sig",
    "signature",
];

/// Words that say something about a secret in the place of its value.
const STATES: [&str; 42] = [
    "absent",
    "accepted",
    "any",
    "bool",
    "boolean",
    "changed",
    "created",
    "default",
    "denied",
    "disabled",
    "empty",
    "enabled",
    "error",
    "expected",
    "expired",
    "failed",
    "false",
    "found",
    "hidden",
    "incorrect",
    "int",
    "integer",
    "invalid",
    "missing",
    "nil",
    "none",
    "null",
    "number",
    "object",
    "ok",
    "optional",
    "redacted",
    "refused",
    "rejected",
    "required",
    "revoked",
    "str",
    "string",
    "true",
    "undefined",
    "unknown",
    "unset",
];

/// Minimum length in bytes of a value among other words.
const MIN_RANDOM_BYTES: usize = 6;

/// Minimum length in bytes of a value of digits.
const MIN_DIGITS: usize = 4;

/// Finds such values. Every run of blanks or of characters of a name is searched a few times at most.
pub(crate) fn spans(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut covered = 0;
    for at in memchr2_iter(b'=', b':', text.as_bytes()).skip_while(|at| *at == 0) {
        if at < covered {
            continue;
        }
        let (before, after) = (&text[..at], &text[at + 1..]);
        let named = before.trim_end_matches(BLANKS);
        let begin = at + 1 + (after.len() - after.trim_start_matches(BLANKS).len());
        let has_blanks = named.len() < before.len() || begin > at + 1;
        let is_quoted = text[begin..].starts_with(QUOTES);
        if named.is_empty() || !(has_blanks || (is_quoted && text[at..].starts_with(':'))) {
            continue;
        }
        let named = named.trim_end_matches(['"', '\'', '`', '\\']);
        let name = &named[named.rfind(|letter| !is_name(letter)).map_or(0, |last| last + char_length(named, last))..];
        if !is_assigned(name) {
            continue;
        }
        let value = quoted(text, begin).unwrap_or_else(|| begin..value_end(text, begin));
        let is_setting = begins_setting(&named[..named.len() - name.len()]) && ends_setting(&text[value.end..]);
        covered = value.end;
        if is_secret(&text[value.clone()], is_setting) {
            found.push(value);
        }
    }
    found
}

const BLANKS: [char; 2] = [' ', '\t'];
const QUOTES: [char; 2] = ['"', '\''];

/// Whether the value of this name is a secret. A header has rules of its own.
fn is_assigned(name: &str) -> bool {
    let name = name.trim_start_matches('-');
    let is_ordinary = ORDINARY.iter().any(|ordinary| ordinary.eq_ignore_ascii_case(name));
    is_sensitive(name) && !is_ordinary && !is_header(name)
}

/// Whether a setting can begin after this text: at the start of a line, which may be escaped, in a list, or after a word
/// of a shell.
fn begins_setting(before: &str) -> bool {
    let before = before.trim_end_matches(BLANKS);
    let words = ["export", "set", "const", "let", "var"];
    let is_word = |word: &&str| {
        let rest = before.strip_suffix(*word);
        rest.is_some_and(|rest| !rest.ends_with(is_name))
    };
    before.is_empty() || before.ends_with(|last| "\r\n\\-{[(,;|&?\"'`".contains(last)) || words.iter().any(is_word)
}

/// Whether a setting can end before this text.
fn ends_setting(after: &str) -> bool {
    let after = after.trim_start_matches(['"', '\'', '`']);
    let rest = after.trim_start_matches(BLANKS);
    rest.is_empty()
        || rest.starts_with(['\r', '\n', '#', '\\'])
        || after.starts_with([',', ';', '}', ')', ']', '&', '<'])
}

/// Whether a text in the place of a value is one.
fn is_secret(value: &str, is_setting: bool) -> bool {
    let is_code = value.contains(['(', '[', '{']) || value.contains("://") || value.starts_with(['/', '.', '~', '$']);
    let is_state = STATES.iter().any(|state| state.eq_ignore_ascii_case(value.trim_end_matches(['.', '!', '?'])));
    let has = |test: fn(&u8) -> bool| value.as_bytes().iter().any(test);
    let (has_digit, has_letter) = (has(u8::is_ascii_digit), has(|byte| !byte.is_ascii_digit()));
    let is_random = has_digit && has_letter && value.len() >= MIN_RANDOM_BYTES;
    let is_number = !has_letter && value.len() < MIN_DIGITS;
    is_value(value) && !is_state && (value.contains("${") || (!is_code && !is_number && (is_setting || is_random)))
}

/// The length of the character that begins here.
fn char_length(text: &str, at: usize) -> usize {
    text[at..].chars().next().map_or(0, char::len_utf8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redact;

    #[test]
    fn values_with_blanks_around_the_sign_are_masked() {
        for (text, shown) in [
            ("password: hush", "password: ***"),
            ("Password = hush", "Password = ***"),
            ("api_key: \"hush\"", "api_key: \"***\""),
            ("  secret_key : 'hu sh'", "  secret_key : '***'"),
            ("aws_secret_access_key = hush", "aws_secret_access_key = ***"),
            ("export API_TOKEN= hush", "export API_TOKEN= ***"),
            ("a: 1\npassword: hush\nb: 2", "a: 1\npassword: ***\nb: 2"),
            ("a: 1\\npassword: hush\\nb: 2", "a: 1\\npassword: ***\\nb: 2"),
            ("- token: hush # mine", "- token: *** # mine"),
            ("{user: ann, password: hush}", "{user: ann, password: ***}"),
            ("\"password\" : \"hush\"", "\"password\" : \"***\""),
            ("login failed, password: hunter2 for ann", "login failed, password: *** for ann"),
            ("client_secret: hunter2 (expires)", "client_secret: *** (expires)"),
            ("otp: 123456", "otp: ***"),
            ("password: ${P:-hush}", "password: ${P:-***}"),
        ] {
            assert_eq!(redact(text), shown);
            assert_eq!(redact(shown), shown);
        }
    }

    #[test]
    fn sentences_and_code_stay_as_they_are() {
        for text in [
            "token: the word after it",
            "the token: is missing",
            "password: required",
            "error: invalid token: unexpected end",
            "unexpected token: \"<\"",
            "unexpected token: \"identifier\" in line 3",
            "key: value, Key = x",
            "auth: none, pass: 12, signature: string",
            "Pat: hello, how are you",
            "token = parser.next()",
            "password = os.environ[\"X\"]",
            "token: 12, max_tokens: 100000, total_tokens = 123456",
            "secret: /run/secrets/x1",
            "password:\n  min: 8",
            "password: ${secret:p}",
            "password: ***",
            "if token == expected1234 {",
            "token => value123",
            "std::token::Token123",
            "missing secret: set it with `gladhand secret set`",
            "upstreams.a.token: expected a string",
        ] {
            assert_eq!(redact(text), text);
        }
    }

    #[test]
    fn the_search_time_is_linear_in_the_length_of_the_text() {
        for piece in ["token : ", "token =", ": ", " =", "token: \"", "token: ${", "\\\":", "token: x ", "a:'"] {
            let text = piece.repeat(1 << 15);
            assert!(spans(&text).len() <= text.len());
            let blanks = format!("token:{}x", " ".repeat(1 << 18));
            assert_eq!(spans(&blanks).len(), 1);
        }
    }
}
