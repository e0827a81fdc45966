//! Who may come in: the step between a request that is well-formed and the one who serves it.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use gladhand_auth::resource::{Guard, Wants};
use http::Response;
use http::request::Parts;

/// Who a request comes from, or the answer (401, 403) that it gets instead of being served.
pub type Authorized = Result<Option<Arc<str>>, Box<Response<Bytes>>>;

/// Decides for each request who it comes from and whether it is served.
///
/// What it returns as the principal binds sessions and parked calls: nobody else can use them.
pub trait Authorize: fmt::Debug + Send + Sync {
    /// Judges a request by its head.
    fn authorize<'a>(&'a self, head: &'a Parts) -> Pin<Box<dyn Future<Output = Authorized> + Send + 'a>>;

    /// A document that tells strangers how to become acquainted, if this is a path of one. Everybody may read it.
    fn document(&self, _path: &str) -> Option<Response<Bytes>> {
        None
    }
}

impl Authorize for Guard {
    fn authorize<'a>(&'a self, head: &'a Parts) -> Pin<Box<dyn Future<Output = Authorized> + Send + 'a>> {
        Box::pin(async move {
            match self.check(&head.headers, Wants::default()).await {
                Ok(principal) => Ok(Some(principal.name)),
                Err(refusal) => Err(Box::new(refusal.map(Bytes::from))),
            }
        })
    }

    fn document(&self, path: &str) -> Option<Response<Bytes>> {
        self.metadata(path).map(|document| document.map(Bytes::from))
    }
}
