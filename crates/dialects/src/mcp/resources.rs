//! Requests for resources: reading, and subscriptions of the handshake era.

use std::borrow::Cow;
use std::sync::Arc;

use gladhand_core::operations::Operation;
use gladhand_core::wire::json;
use gladhand_core::wire::rpc;

use super::capabilities::InForce;
use super::errors;
use super::incoming_requests::{RequestKind, Watcher};
use super::requests::NoticeOptions;
use super::server::{McpServer, Request};
use super::watches::MAX_URI_BYTES;
use crate::side::Output;

impl McpServer {
    pub(super) fn read_resource<'a>(
        &mut self,
        request: Request<'_, 'a>,
        notice_options: NoticeOptions<'_>,
        in_force: &Arc<InForce>,
        out: &mut Output<'a>,
    ) {
        match uri(&request) {
            Ok(uri) => {
                let request_kind = RequestKind::Contents { uri: uri.as_ref().into() };
                self.deliver(request, request_kind, Operation::ReadResource(uri), notice_options, in_force, out);
            }
            Err(error) => self.refuse(&request.to, &error, out),
        }
    }

    pub(super) fn subscribe<'a>(&mut self, request: Request<'_, 'a>, in_force: &Arc<InForce>, out: &mut Output<'a>) {
        let error = match uri(&request) {
            Ok(uri) if self.watches.contains(&uri) => return self.done(&request.to, out),
            Ok(uri) if uri.len() > MAX_URI_BYTES => errors::invalid_params("`uri` is longer than 4096 bytes"),
            Ok(uri) if !self.watches.has_room_for(&uri) => errors::busy("resources to watch"),
            Ok(uri) => {
                let request_kind = RequestKind::Watch { uri: uri.as_ref().into(), by: Watcher::Session };
                return self.deliver(
                    request,
                    request_kind,
                    Operation::Watch(uri),
                    NoticeOptions::default(),
                    in_force,
                    out,
                );
            }
            Err(error) => error,
        };
        self.refuse(&request.to, &error, out);
    }

    pub(super) fn unsubscribe(&mut self, request: Request<'_, '_>, out: &mut Output<'_>) {
        match uri(&request) {
            Ok(uri) => {
                self.watches.remove(&uri, out);
                self.done(&request.to, out);
            }
            Err(error) => self.refuse(&request.to, &error, out),
        }
    }
}

/// The URI in a request.
fn uri<'a>(request: &Request<'_, 'a>) -> Result<Cow<'a, str>, rpc::Error<'static>> {
    request.params.uri().and_then(json::string).ok_or_else(|| errors::invalid_params("`uri` must be a string"))
}
