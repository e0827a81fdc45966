//! Parses `WWW-Authenticate` (RFC 9110 section 11.6, RFC 6750 section 3, RFC 9728 section 5.1).

use gladhand_redaction::redact_with;
use http::{HeaderMap, header};

use crate::scopes::Scopes;

/// Why a server refused a request: the parameters of all its bearer and DPoP challenges together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Challenge {
    /// The address of the protected-resource metadata.
    pub(crate) resource_metadata: Option<String>,
    /// The scopes that the request needs.
    pub(crate) scopes: Scopes,
    /// The error code.
    pub(crate) error: Option<String>,
    /// The error description of the server.
    pub(crate) description: Option<String>,
    /// Whether the server accepts tokens that are bound to a key.
    pub(crate) dpop: bool,
}

impl Challenge {
    /// Reads all challenges of a response. Unreadable parts are ignored, because a challenge is only a hint.
    pub(crate) fn read(headers: &HeaderMap) -> Self {
        let mut challenge = Self::default();
        for value in headers.get_all(header::WWW_AUTHENTICATE) {
            // A header value can contain bytes that are not text.
            let text = String::from_utf8_lossy(value.as_bytes());
            let mut relevant = false;
            for piece in pieces(&text) {
                match piece {
                    Piece::Scheme(scheme) => {
                        let dpop = scheme.eq_ignore_ascii_case("dpop");
                        challenge.dpop |= dpop;
                        relevant = dpop || scheme.eq_ignore_ascii_case("bearer");
                    }
                    Piece::Parameter(name, value) if relevant => challenge.take(name, value),
                    Piece::Parameter(..) => {}
                }
            }
        }
        challenge
    }

    /// The error of the server on one line, without any of our secrets that it may repeat.
    pub(crate) fn error_text<'a>(&self, secrets: impl IntoIterator<Item = &'a str>) -> Option<String> {
        let text = match (&self.error, &self.description) {
            (Some(code), Some(description)) => format!("{code}, {description}"),
            (code, description) => code.as_ref().or(description.as_ref())?.clone(),
        };
        Some(shortened(&text, secrets))
    }

    fn take(&mut self, name: &str, value: String) {
        match name.to_ascii_lowercase().as_str() {
            "resource_metadata" => self.resource_metadata = Some(value),
            "scope" => self.scopes.add(&Scopes::parse(&value)),
            "error" => self.error = Some(value),
            "error_description" => self.description = Some(value),
            _ => {}
        }
    }
}

/// Text from a peer, shortened to one line, without these secrets. They are removed first: half a secret would not
/// be found.
pub(crate) fn shortened<'a>(text: &str, secrets: impl IntoIterator<Item = &'a str>) -> String {
    /// The maximum number of characters of an explanation.
    const LONGEST: usize = 300;
    redact_with(text, secrets).chars().filter(|letter| !letter.is_control()).take(LONGEST).collect()
}

enum Piece<'a> {
    Scheme(&'a str),
    Parameter(&'a str, String),
}

/// The schemes and parameters in order.
fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut found = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        let length = rest.find([' ', '\t', ',', '=']).unwrap_or(rest.len());
        let (word, after) = rest.split_at(length);
        if word.is_empty() && after.is_empty() {
            return found;
        }
        let behind = after.trim_start_matches([' ', '\t']);
        match behind.strip_prefix('=') {
            Some(value) => {
                let (value, left) = parameter(value.trim_start_matches([' ', '\t']));
                found.push(Piece::Parameter(word, value));
                rest = left;
            }
            None => {
                found.push(Piece::Scheme(word));
                rest = after;
            }
        }
    }
}

/// A quoted string or a token, and the text after it.
fn parameter(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let length = text.find([' ', '\t', ',']).unwrap_or(text.len());
        return (text[..length].to_owned(), &text[length..]);
    };
    let mut value = String::new();
    let mut escaped = false;
    for (at, letter) in quoted.char_indices() {
        match letter {
            _ if escaped => {
                value.push(letter);
                escaped = false;
            }
            '\\' => escaped = true,
            '"' => return (value, &quoted[at + 1..]),
            _ => value.push(letter),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn read(values: &[&str]) -> Challenge {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::WWW_AUTHENTICATE, HeaderValue::from_str(value).unwrap());
        }
        Challenge::read(&headers)
    }

    #[test]
    fn a_bearer_challenge_is_read() {
        assert_eq!(
            read(&[r#"Bearer error="insufficient_scope", scope="a b",resource_metadata = "https://x/y, z=1""#]),
            Challenge {
                resource_metadata: Some("https://x/y, z=1".to_owned()),
                scopes: Scopes::parse("a b"),
                error: Some("insufficient_scope".to_owned()),
                description: None,
                dpop: false,
            }
        );
    }

    #[test]
    fn parameters_of_other_schemes_do_not_count() {
        let challenge = read(&[r#"Basic realm="x", scope="no", DPoP algs="ES256", scope=yes"#, "Digest error=no"]);
        assert_eq!(challenge, Challenge { scopes: Scopes::parse("yes"), dpop: true, ..Challenge::default() });
    }

    #[test]
    fn error_texts_are_short_and_repeat_no_secret() {
        let long =
            format!(r#"Bearer error="no", error_description="{} hush-hush {}""#, "x".repeat(280), "y".repeat(300));
        let error_text = read(&[&long]).error_text(["hush-hush"]).unwrap();
        assert!(error_text.starts_with("no, xxx") && error_text.contains("***") && !error_text.contains("hush"));
        assert_eq!(error_text.chars().count(), 300);
        assert_eq!(Challenge::default().error_text([]), None);
    }

    #[test]
    fn an_invalid_challenge_has_no_parameters() {
        for text in ["", "=", "Bearer", "Bearer =", "Bearer x=\"\\", ",,,", "Bearer \u{e9}==\"a", "\"\"\"="] {
            assert_eq!(read(&[text]), Challenge::default(), "{text:?}");
        }
    }
}
