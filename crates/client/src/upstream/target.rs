//! Upstream targets, as users write them.

use std::fmt;

use gladhand_redaction::{Life, learn_text, learn_words, redact, redact_words};
use url::Url;

/// Where an upstream is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A program to start and talk to on its stdin and stdout: it and its arguments.
    Command(Vec<String>),
    /// An MCP endpoint, or a host of A2E, to talk to over HTTP.
    Url(Url),
}

/// The text does not name an upstream.
#[derive(Debug, thiserror::Error)]
pub enum BadTarget {
    /// Nothing was named.
    #[error("name a command or a URL")]
    Nothing,
    /// It looks like a URL and is none.
    #[error("`{text}` is no URL: {source}")]
    NoUrl {
        /// The text that was given.
        text: String,
        /// The parse error.
        source: url::ParseError,
    },
    /// It is a URL that cannot be opened.
    #[error("`{0}` cannot be opened: a URL begins with http:// or https://")]
    OtherScheme(String),
    /// A URL takes no arguments.
    #[error("nothing can follow a URL, and `{0}` does")]
    Trailing(String),
}

impl Target {
    /// The target that the words of a command line name: one that begins with `http://` or `https://` is a URL,
    /// anything else a command.
    pub fn parse(words: &[String]) -> Result<Self, BadTarget> {
        let first = words.first().filter(|first| !first.is_empty()).ok_or(BadTarget::Nothing)?;
        let is_url = ["http://", "https://"]
            .iter()
            .any(|scheme| first.get(..scheme.len()).is_some_and(|beginning| beginning.eq_ignore_ascii_case(scheme)));
        let is_scheme = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
        let scheme = first.split_once("://").map(|(scheme, _)| scheme);
        if scheme.is_some_and(|scheme| !scheme.is_empty() && is_scheme(scheme)) && !is_url {
            return Err(BadTarget::OtherScheme(redact(first).into_owned()));
        }
        match words {
            _ if !is_url => Ok(Self::Command(words.to_vec())),
            [_, trailing, ..] => Err(BadTarget::Trailing(trailing.clone())),
            _ => {
                let url = Url::parse(first);
                url.map(Self::Url).map_err(|source| BadTarget::NoUrl { text: first.clone(), source })
            }
        }
    }
}

impl Target {
    /// Makes known to the redaction what is secret in it.
    pub fn learn_secrets(&self, life: Life) {
        match self {
            Self::Command(words) => learn_words(words, life),
            Self::Url(url) => learn_text(url.as_str(), life),
        }
    }

    /// Where it is, without anything that may be a secret: the program, or the address without its query.
    pub fn place(&self) -> String {
        match self {
            Self::Command(words) => words.first().cloned().unwrap_or_default(),
            Self::Url(url) => place_of(url),
        }
    }
}

/// An address without its credentials and its query.
pub(super) fn place_of(url: &Url) -> String {
    format!("{}{}", url.origin().ascii_serialization(), url.path())
}

/// Without secrets.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command(words) => f.write_str(&redact_words(words).join(" ")),
            Self::Url(url) => f.write_str(&redact(url.as_str())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<Target, BadTarget> {
        Target::parse(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn a_target_with_an_http_scheme_is_a_url() {
        assert!(matches!(parse(&["HTTP://localhost:1/mcp"]), Ok(Target::Url(url)) if url.port() == Some(1)));
        assert!(matches!(parse(&["server", "http://x"]), Ok(Target::Command(words)) if words.len() == 2));
        assert!(matches!(parse(&[]), Err(BadTarget::Nothing)));
        assert!(matches!(parse(&["http://"]), Err(BadTarget::NoUrl { .. })));
        assert!(matches!(parse(&["ftp://x/"]), Err(BadTarget::OtherScheme(url)) if url == "ftp://x/"));
        assert!(matches!(parse(&["./a://b"]), Ok(Target::Command(_))));
        assert!(matches!(parse(&["http://x", "y"]), Err(BadTarget::Trailing(word)) if word == "y"));
    }

    #[test]
    fn the_place_of_a_target_contains_no_secret() {
        assert_eq!(parse(&["http://a:secret@x/mcp?key=secret"]).unwrap().place(), "http://x/mcp");
        assert_eq!(parse(&["server", "--key=secret"]).unwrap().place(), "server");
    }

    #[test]
    fn secrets_of_a_target_are_not_shown() {
        assert_eq!(parse(&["http://a:secret@x/?key=secret&a=1"]).unwrap().to_string(), "http://***@x/?key=***&a=1");
        assert_eq!(parse(&["server", "--key", "secret"]).unwrap().to_string(), "server --key ***");
    }
}
