//! Where the authorization of HTTP requests comes from: a fixed token, or a component that can obtain one.

use futures_util::future::{BoxFuture, ready};
use gladhand_auth::{AuthError, client};
use gladhand_core::Secret;
use gladhand_redaction::{Life, learn};
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use url::Url;

pub use gladhand_auth::client::Attempt;

/// Gets HTTP requests into an upstream. The attempt goes with one request through all its tries.
pub trait Authorizer: Send + Sync {
    /// Adds to the headers of a request what lets it in, or nothing if it should go as it is.
    fn authorize<'a>(
        &'a self,
        attempt: &'a mut Attempt,
        method: &'a Method,
        url: &'a Url,
        headers: &'a mut HeaderMap,
    ) -> BoxFuture<'a, Result<(), AuthError>>;

    /// A request was answered with 401 or 403. `Ok`: it is worth another try.
    fn challenged<'a>(
        &'a self,
        attempt: &'a mut Attempt,
        status: StatusCode,
        headers: &'a HeaderMap,
    ) -> BoxFuture<'a, Result<(), AuthError>>;

    /// A request was answered in another way.
    fn answered(&self, _headers: &HeaderMap) {}
}

gladhand_core::debug_as_name!(Authorizer);

impl Authorizer for client::Authorizer {
    fn authorize<'a>(
        &'a self,
        attempt: &'a mut Attempt,
        method: &'a Method,
        url: &'a Url,
        headers: &'a mut HeaderMap,
    ) -> BoxFuture<'a, Result<(), AuthError>> {
        Box::pin(self.authorize(attempt, method, url, headers))
    }

    fn challenged<'a>(
        &'a self,
        attempt: &'a mut Attempt,
        status: StatusCode,
        headers: &'a HeaderMap,
    ) -> BoxFuture<'a, Result<(), AuthError>> {
        Box::pin(self.challenged(attempt, status, headers))
    }

    fn answered(&self, headers: &HeaderMap) {
        self.answered(headers);
    }
}

/// A configured token. There is no other, so a challenge is final.
#[derive(Debug)]
pub struct Bearer(Secret);

impl Bearer {
    /// Presents this token.
    pub fn new(token: Secret) -> Self {
        learn(token.expose(), Life::Recent);
        Self(token)
    }

    /// The same for a token of a project file, which is masked in no message: its author would choose what is masked.
    pub fn of_project(token: Secret) -> Self {
        Self(token)
    }

    /// The value of the header; none if the token cannot be one.
    fn header(&self) -> Option<HeaderValue> {
        let mut value = HeaderValue::from_str(&format!("Bearer {}", self.0.expose())).ok()?;
        value.set_sensitive(true);
        Some(value)
    }
}

impl Authorizer for Bearer {
    fn authorize<'a>(
        &'a self,
        _attempt: &'a mut Attempt,
        _method: &'a Method,
        _url: &'a Url,
        headers: &'a mut HeaderMap,
    ) -> BoxFuture<'a, Result<(), AuthError>> {
        if let Some(value) = self.header() {
            headers.insert(AUTHORIZATION, value);
        }
        Box::pin(ready(Ok(())))
    }

    fn challenged<'a>(
        &'a self,
        _attempt: &'a mut Attempt,
        status: StatusCode,
        headers: &'a HeaderMap,
    ) -> BoxFuture<'a, Result<(), AuthError>> {
        let mut sent = HeaderMap::new();
        sent.extend(self.header().map(|value| (AUTHORIZATION, value)));
        Box::pin(ready(Err(client::denial(status, headers, &sent))))
    }
}
