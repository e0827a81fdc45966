//! Why a request is refused, and the response (RFC 6750).

use http::{HeaderValue, Response, StatusCode, header};
use serde_json::json;

use crate::scopes::Scopes;

/// The accepted signature algorithms, as named in the header of a proof.
pub(crate) const ALGORITHMS: [&str; 5] = ["ES256", "ES384", "EdDSA", "RS256", "PS256"];

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The request has no token. The response reports no error, only the requirements.
    NoToken,
    /// The `Authorization` header is malformed.
    Malformed(&'static str),
    /// The token is not valid.
    InvalidToken(&'static str),
    /// The proof for the token is not valid.
    InvalidProof(&'static str),
    /// The token lacks scopes.
    InsufficientScope,
    /// The token cannot be checked, for instance because the issuer's keys cannot be fetched. The client is not at
    /// fault.
    Undecided(&'static str),
}

/// The reason for a refusal, in the extensions of the response. It is a fixed text and contains nothing that the
/// client sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused(pub &'static str);

/// How a token is presented.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Scheme {
    /// Without a proof (RFC 6750).
    #[default]
    Bearer,
    /// With a proof of possession (RFC 9449).
    Dpop,
}

impl Refusal {
    /// The reason as text.
    pub fn why(self) -> &'static str {
        match self {
            Self::NoToken => "no token",
            Self::Malformed(why) | Self::InvalidToken(why) | Self::InvalidProof(why) | Self::Undecided(why) => why,
            Self::InsufficientScope => "the token lacks scope",
        }
    }

    /// The response. Its challenge contains the scheme, the metadata address and the required scopes, if there are
    /// any.
    pub fn response(self, scheme: Scheme, metadata: Option<&str>, needed: &Scopes) -> Response<String> {
        let (status, code) = match self {
            Self::NoToken => (StatusCode::UNAUTHORIZED, None),
            Self::Malformed(_) => (StatusCode::BAD_REQUEST, Some("invalid_request")),
            Self::InvalidToken(_) => (StatusCode::UNAUTHORIZED, Some("invalid_token")),
            Self::InvalidProof(_) => (StatusCode::UNAUTHORIZED, Some("invalid_dpop_proof")),
            Self::InsufficientScope => (StatusCode::FORBIDDEN, Some("insufficient_scope")),
            Self::Undecided(_) => (StatusCode::SERVICE_UNAVAILABLE, Some("temporarily_unavailable")),
        };
        let body = json!({"error": code.unwrap_or("unauthorized"), "error_description": self.why()});
        let mut response = json_response(status, body.to_string());
        response.extensions_mut().insert(Refused(self.why()));
        if matches!(self, Self::Undecided(_)) {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("10"));
            return response;
        }
        let scope = Some(needed.to_string()).filter(|scope| !scope.is_empty());
        let description = code.map(|_| self.why());
        let (word, algorithms) = match scheme {
            Scheme::Bearer => ("Bearer", None),
            Scheme::Dpop => ("DPoP", Some(ALGORITHMS.join(" "))),
        };
        let parameters = [
            ("error", code),
            ("error_description", description),
            ("scope", scope.as_deref()),
            ("resource_metadata", metadata),
            ("algs", algorithms.as_deref()),
        ];
        let given = parameters.iter().filter_map(|(name, value)| Some(format!("{name}=\"{}\"", quotable((*value)?))));
        let challenge = format!("{word} {}", given.collect::<Vec<_>>().join(", "));
        let value = HeaderValue::try_from(challenge.trim_end()).expect("only visible ASCII was kept");
        response.headers_mut().insert(header::WWW_AUTHENTICATE, value);
        response
    }
}

/// The characters that are allowed in a quoted string.
fn quotable(text: &str) -> String {
    text.chars().filter(|letter| matches!(letter, ' '..='~') && !matches!(letter, '"' | '\\')).collect()
}

/// A JSON response that must not be cached.
pub(crate) fn json_response(status: StatusCode, body: String) -> Response<String> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
