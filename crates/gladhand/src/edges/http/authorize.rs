//! Who may come in: the step between a request that is well-formed and the one who serves it.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
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
}
