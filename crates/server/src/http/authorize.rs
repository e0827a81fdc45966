//! Who may come in: the step between a request that is well-formed and the one who serves it.

use std::future::Future;
use std::pin::Pin;

use bytes::Bytes;
use gladhand_auth::Scopes;
use gladhand_auth::resource::Principal;
use http::Response;
use http::request::Parts;

/// Who a request comes from, or the answer (401, 403) that it gets instead of being served.
pub type Authorized = Result<Option<Principal>, Box<Response<Bytes>>>;

/// Decides for each request who it comes from and whether it is served.
///
/// The name of the returned principal binds sessions and parked calls: other principals cannot use them.
pub trait Authorize: Send + Sync {
    /// Judges a request by its head.
    fn authorize<'a>(&'a self, head: &'a Parts) -> Pin<Box<dyn Future<Output = Authorized> + Send + 'a>>;

    /// Judges the message of a request whose head was judged before: `Err` is the answer that it gets instead of being
    /// served.
    fn permit(&self, _principal: &Principal, _message: &[u8]) -> Result<(), Box<Response<Bytes>>> {
        Ok(())
    }

    /// The same for a message whose tools only the caller can determine.
    fn permit_tools(
        &self,
        _principal: &Principal,
        _tools: &dyn Fn() -> Vec<String>,
    ) -> Result<(), Box<Response<Bytes>>> {
        Ok(())
    }

    /// The answer to a principal that names a session whose content needs scopes which its token lacks.
    fn insufficient_scope(&self, principal: &Principal, needed: &Scopes) -> Box<Response<Bytes>> {
        Box::new(principal.insufficient_scope(needed).map(Bytes::from))
    }

    /// A document that tells strangers how to become acquainted, if this is a path of one. No authorization is needed
    /// to read it.
    fn document(&self, _path: &str) -> Option<Response<Bytes>> {
        None
    }
}

gladhand_core::debug_as_name!(Authorize);
