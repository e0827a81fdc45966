//! Routes of the embedding program beside the dialects: metrics, pages, their data.
//!
//! A request reaches such a route only after the guard on `Host` and `Origin`, as every other request. The route states
//! for each path whether the authorization of the endpoint applies, too. A route has no session, and its requests do not
//! pass the tap.

use std::fmt;
use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use gladhand_auth::resource::Principal;
use gladhand_hub::Portion;
use http::{Request, Response};
use tokio::sync::mpsc;

/// A response that arrives later.
pub type SideResponse<'a> = Pin<Box<dyn Future<Output = Response<SideBody>> + Send + 'a>>;

/// Routes that the embedding program serves. A path of a dialect, or of a health check, never reaches them.
pub trait SideRoutes: Send + Sync {
    /// The access to a path, or `None` if nothing is served there.
    fn access(&self, path: &str) -> Option<RouteAccess>;

    /// Answers a request for one of its paths.
    fn respond<'a>(&'a self, request: Request<Bytes>, from: SideOrigin) -> SideResponse<'a>;
}

gladhand_core::debug_as_name!(SideRoutes);

/// The authorization of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouteAccess {
    /// The authorization of the endpoint applies, if it has one.
    Endpoint,
    /// The route checks credentials of its own.
    Own,
}

/// The origin of a request for a route.
#[derive(Debug, Clone)]
pub struct SideOrigin {
    /// The address of the client. `None` on a Unix socket.
    pub address: Option<IpAddr>,
    /// The principal, if the authorization of the endpoint applies and names one.
    pub principal: Option<Principal>,
}

/// The body of a response.
#[derive(Debug)]
pub enum SideBody {
    /// All of it.
    Whole(Bytes),
    /// Events as they arrive (`text/event-stream`). The sender learns that the client is gone when sending fails. The bound of
    /// the channel is the bound of what waits for a slow client. A stop of the server ends the stream, and so does the
    /// loss of the access that the route states. The stream counts among the event streams of its party.
    Stream(mpsc::Receiver<Bytes>),
}

/// A stream that a client reads.
pub(super) struct SideStream {
    pub(super) parts: mpsc::Receiver<Bytes>,
    /// Ends when the stream must end.
    pub(super) end: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// Its part of all streams.
    pub(super) _portion: Portion,
}

impl SideStream {
    /// Polls the next part.
    pub(super) fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        match self.end.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(None),
            Poll::Pending => self.parts.poll_recv(cx),
        }
    }
}

impl fmt::Debug for SideStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SideStream").field("parts", &self.parts).finish_non_exhaustive()
    }
}
