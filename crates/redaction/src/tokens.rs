//! Recognises tokens and private keys by their own form, in any text.
//!
//! Issuers give their tokens a prefix for this purpose. A prefix that ordinary words and names have too (`sk-`, `npm_`,
//! `hf_`) counts only if the rest looks random. Like the other rules, the search takes linear time.

use std::ops::Range;
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

/// The form of one kind of token.
struct Form {
    prefix: &'static str,
    /// Minimum number of bytes after the prefix.
    min_bytes: usize,
    /// Characters that may follow, in addition to letters and digits.
    also: &'static str,
    /// A further condition on the bytes after the prefix.
    fits: fn(&str) -> bool,
}

const fn form(prefix: &'static str, min_bytes: usize, also: &'static str, fits: fn(&str) -> bool) -> Form {
    Form { prefix, min_bytes, also, fits }
}

const FORMS: [Form; 24] = [
    form("ghp_", 20, "", any),
    form("gho_", 20, "", any),
    form("ghu_", 20, "", any),
    form("ghs_", 20, "", any),
    form("ghr_", 20, "", any),
    form("github_pat_", 20, "_", any),
    form("glpat-", 16, "_-.", any),
    form("sk-ant-", 16, "_-", any),
    form("sk-", 20, "_-", has_random_part),
    form("sk_live_", 16, "", any),
    form("sk_test_", 16, "", any),
    form("rk_live_", 16, "", any),
    form("xoxa-", 10, "-", has_digit),
    form("xoxb-", 10, "-", has_digit),
    form("xoxe-", 10, "-", has_digit),
    form("xoxp-", 10, "-", has_digit),
    form("xoxr-", 10, "-", has_digit),
    form("xoxs-", 10, "-", has_digit),
    form("AKIA", 16, "", is_key_id),
    form("ASIA", 16, "", is_key_id),
    form("AIza", 30, "_-", any),
    form("npm_", 30, "", any),
    form("hf_", 30, "", any),
    form("eyJ", 20, "_-.", is_jwt),
];

/// The first line of a PEM block begins with this and ends with [`DASHES`].
const BEGIN: &str = "-----BEGIN ";
const END: &str = "-----END ";
const DASHES: &str = "-----";

/// Maximum length of a PEM label, in bytes.
const MAX_LABEL_BYTES: usize = 64;

/// Minimum length in bytes of the first line of a key whose block has no end.
const MIN_LINE_BYTES: usize = 16;

/// Finds tokens and the content of private keys.
pub(crate) fn spans(text: &str) -> Vec<Range<usize>> {
    static PREFIXES: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
        let prefixes = FORMS.iter().map(|form| form.prefix);
        let mut builder = AhoCorasick::builder();
        // Every start searches a few short texts: building the faster automaton would take longer than it saves.
        builder.match_kind(MatchKind::LeftmostLongest).kind(Some(AhoCorasickKind::ContiguousNFA));
        builder.build(prefixes).ok()
    });
    let mut found = private_keys(text);
    let mut covered = 0;
    for prefix in PREFIXES.iter().flat_map(|prefixes| prefixes.find_iter(text)) {
        let (begin, form) = (prefix.start(), &FORMS[prefix.pattern().as_usize()]);
        if begin < covered || !is_apart(&text[..begin]) {
            continue;
        }
        let rest = &text[prefix.end()..];
        let belongs = |c: char| c.is_ascii_alphanumeric() || form.also.contains(c);
        let rest = &rest[..rest.find(|c| !belongs(c)).unwrap_or(rest.len())];
        // A full stop after a token ends a sentence.
        let rest = rest.trim_end_matches('.');
        covered = prefix.end() + rest.len();
        if rest.len() >= form.min_bytes && (form.fits)(rest) {
            found.push(begin..covered);
        }
    }
    found
}

/// Whether a token can begin after this text. An escape (`\n`, `%3D`) before it belongs to the preceding text.
fn is_apart(before: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let bytes = before.as_bytes();
    !before.ends_with(is_word)
        || matches!(bytes, [.., b'\\', b'n' | b'r' | b't'])
        || matches!(bytes, [.., b'%', first, second] if first.is_ascii_hexdigit() && second.is_ascii_hexdigit())
}

fn any(_: &str) -> bool {
    true
}

fn has_digit(rest: &str) -> bool {
    rest.bytes().any(|byte| byte.is_ascii_digit())
}

/// Whether a long part between separators contains a digit among letters: `task-list-of-the-week-12` has no such part.
fn has_random_part(rest: &str) -> bool {
    let is_random =
        |part: &str| part.len() >= 12 && has_digit(part) && part.contains(|c: char| c.is_ascii_alphabetic());
    rest.split(['-', '_']).any(is_random)
}

fn is_key_id(rest: &str) -> bool {
    rest.len() == 16 && rest.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
}

/// Whether the parts of a signed or encrypted token follow the prefix.
fn is_jwt(rest: &str) -> bool {
    let mut parts = rest.split('.');
    let long = |part: Option<&str>| part.is_some_and(|part| part.len() >= 8);
    long(parts.next()) && long(parts.next())
}

/// The content of private keys in PEM, without the lines around it.
fn private_keys(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let (mut covered, mut has_end) = (0, true);
    for (at, _) in text.match_indices(BEGIN) {
        let label = at + BEGIN.len();
        let near = &text[label..text.floor_char_boundary(label + MAX_LABEL_BYTES)];
        let Some(length) = near.find(DASHES).filter(|length| near[..*length].contains("PRIVATE KEY")) else { continue };
        let begin = text.len() - without_breaks(&text[label + length + DASHES.len()..]).len();
        if begin < covered {
            continue;
        }
        let end = has_end.then(|| text[begin..].find(END)).flatten();
        has_end = end.is_some();
        match end {
            Some(length) => {
                covered = begin + length;
                found.push(begin..begin + without_breaks_behind(&text[begin..covered]).len());
            }
            None => {
                let is_line = |c: char| c.is_ascii_alphanumeric() || "+/=".contains(c);
                let line = text[begin..].find(|c| !is_line(c)).unwrap_or(text.len() - begin);
                if line >= MIN_LINE_BYTES {
                    found.push(begin..text.len());
                    break;
                }
            }
        }
    }
    found
}

/// A text without the line breaks at its start, escaped or not.
fn without_breaks(mut text: &str) -> &str {
    loop {
        text = text.trim_start();
        match text.strip_prefix("\\n").or_else(|| text.strip_prefix("\\r")) {
            Some(rest) => text = rest,
            None => return text,
        }
    }
}

/// The same at its end.
fn without_breaks_behind(mut text: &str) -> &str {
    loop {
        text = text.trim_end();
        match text.strip_suffix("\\n").or_else(|| text.strip_suffix("\\r")) {
            Some(rest) => text = rest,
            None => return text,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::redact;

    #[test]
    fn many_line_breaks_in_a_key_do_not_overflow_the_stack() {
        let breaks = "\\n".repeat(1 << 20);
        let text = format!("-----BEGIN PRIVATE KEY-----{breaks}hush{breaks}-----END PRIVATE KEY-----");
        let found: Vec<_> = spans(&text).into_iter().map(|place| &text[place]).collect();
        assert_eq!(found, ["hush"]);
    }

    #[test]
    fn tokens_are_recognised_by_their_form() {
        let random = "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3gH5";
        for token in [
            format!("ghp_{random}"),
            format!("gho_{random}"),
            format!("ghs_{random}"),
            format!("github_pat_11ABCDEFG0_{random}"),
            format!("sk-{random}"),
            format!("sk-proj-{random}_x-{random}"),
            format!("sk-ant-api03-{random}-{random}AA"),
            "xoxb-123456789012-abcdefABCDEF".to_owned(),
            "xoxp-123456789012-abcdefABCDEF".to_owned(),
            "AKIAIOSFODNN7EXAMPLE".to_owned(),
            format!("AIza{random}"),
            format!("glpat-{}", &random[..20]),
            format!("npm_{random}"),
            format!("hf_{random}"),
            format!("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.{random}"),
        ] {
            for (before, after) in [
                ("", ""),
                ("token ", " refused"),
                ("\"", "\","),
                ("a\\n", "\\n"),
                ("x%3D", "&y"),
                ("it was ", ". The server"),
                ("X=", ";"),
            ] {
                let text = format!("{before}{token}{after}");
                assert_eq!(redact(&text), format!("{before}***{after}"), "{text}");
            }
        }
    }

    #[test]
    fn the_content_of_a_private_key_is_masked_and_its_kind_stays() {
        let line = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSj";
        for (text, shown) in [
            (
                format!("a\n-----BEGIN PRIVATE KEY-----\n{line}\n{line}\n-----END PRIVATE KEY-----\nb"),
                "a\n-----BEGIN PRIVATE KEY-----\n***\n-----END PRIVATE KEY-----\nb",
            ),
            (
                format!(r"-----BEGIN RSA PRIVATE KEY-----\n{line}\n-----END RSA PRIVATE KEY-----\n"),
                r"-----BEGIN RSA PRIVATE KEY-----\n***\n-----END RSA PRIVATE KEY-----\n",
            ),
            (
                format!("-----BEGIN OPENSSH PRIVATE KEY-----\n{line}\n{line} and no end"),
                "-----BEGIN OPENSSH PRIVATE KEY-----\n***",
            ),
        ] {
            assert_eq!(redact(&text), shown);
            assert_eq!(redact(shown), shown);
        }
        for plain in [
            format!("-----BEGIN CERTIFICATE-----\n{line}\n-----END CERTIFICATE-----"),
            format!("-----BEGIN PUBLIC KEY-----\n{line}\n-----END PUBLIC KEY-----"),
            "expected -----BEGIN PRIVATE KEY----- in the first line of the file".to_owned(),
        ] {
            assert_eq!(redact(&plain), plain);
        }
    }

    #[test]
    fn ordinary_names_and_arguments_are_not_tokens() {
        for text in [
            "npm_config_registry npm_package_dependencies_typescript npm_lifecycle_event",
            "risk-assessment-of-the-project-2024 task-runner-with-a-very-long-name",
            "sk-learn-extensions-contrib-nightly sk-",
            "disk-0123456789abcdef0123456789 desk-ant-colony-optimization-2",
            "hf_hub_download hf_transfer ghp_ gho_x glpat- xoxb- xoxb-your-token-here",
            "AKIA AKIAIOSFODNN AKIAIOSFODNN7EXAMPLES ASIAPACIFIC",
            "eyJ eyJhbGciOiJIUzI1NiJ9 eyJhbGci.x",
            "-y @modelcontextprotocol/server-filesystem@2025.8.21 /home/ann/work",
            "uvx --from git+https://example.org/a/b@0123456789abcdef0123456789abcdef01234567 serve",
            "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
            "550e8400-e29b-41d4-a716-446655440000",
        ] {
            assert_eq!(redact(text), text);
        }
    }

    #[test]
    fn the_search_time_is_linear_in_the_length_of_the_text() {
        for piece in [
            "ghp_",
            "sk-",
            "eyJ",
            "eyJ.",
            "-----BEGIN PRIVATE KEY-----",
            "-----BEGIN ",
            "-----BEGIN PRIVATE KEY-----\n-----END ",
        ] {
            let text = piece.repeat(1 << 15);
            assert!(spans(&text).len() <= text.len());
        }
    }

    proptest! {
        #[test]
        fn words_of_sentences_and_names_of_programs_stay(text in "([a-z]{1,12}[ ._/:-]){0,12}[0-9]{0,6}") {
            prop_assert!(spans(&text).is_empty(), "{text}");
        }
    }
}
