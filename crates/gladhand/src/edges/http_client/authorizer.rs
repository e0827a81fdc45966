//! Where the authorization of HTTP requests comes from: a fixed token, or somebody who can get one.

use std::fmt;

use futures_util::future::BoxFuture;
use gladhand_accord::Secret;
use http::HeaderValue;
use url::Url;

/// Gives HTTP requests their `Authorization`, and is told when that was not good enough.
pub trait Authorizer: fmt::Debug + Send + Sync {
    /// The value of `Authorization` for the next request, marked as sensitive; `None`: go without.
    fn header(&self) -> BoxFuture<'_, Option<HeaderValue>>;

    /// A request was answered with 401 or 403. True: what [`Authorizer::header`] gives now is worth another try.
    fn challenged(&self, challenge: Challenge) -> BoxFuture<'_, bool>;
}

/// What a server said when it refused a request.
#[derive(Debug, Clone)]
pub struct Challenge {
    /// The endpoint.
    pub url: Url,
    /// 401 or 403.
    pub status: u16,
    /// Its `WWW-Authenticate` headers, as far as they are text.
    pub www_authenticate: Vec<String>,
}

/// A token that somebody configured. There is no other, so a challenge is final.
#[derive(Debug)]
pub struct Bearer(Secret);

impl Bearer {
    /// Presents this token.
    pub fn new(token: Secret) -> Self {
        Self(token)
    }
}

impl Authorizer for Bearer {
    fn header(&self) -> BoxFuture<'_, Option<HeaderValue>> {
        let value = HeaderValue::from_str(&format!("Bearer {}", self.0.expose())).ok().map(|mut value| {
            value.set_sensitive(true);
            value
        });
        Box::pin(std::future::ready(value))
    }

    fn challenged(&self, _challenge: Challenge) -> BoxFuture<'_, bool> {
        Box::pin(std::future::ready(false))
    }
}
