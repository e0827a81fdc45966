//! The echo tool over Streamable HTTP, as fast as rmcp's own settings allow.
//!
//! Sessions in the handshake era, where rmcp always answers with an event stream; in the stateless era answers
//! are plain JSON. No priming events, and Nagle's algorithm is off: with it an answer in two writes waits 40 ms.

use std::io;
use std::sync::Arc;

use axum::Router;
use axum::serve::ListenerExt;
use rmcp::transport::streamable_http_server::session::local::{LocalSessionManager, SessionConfig};
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::TcpListener;

use crate::Server;

pub(crate) async fn serve(port: u16) -> io::Result<()> {
    let mut sessions = LocalSessionManager::default();
    sessions.session_config = SessionConfig::default();
    sessions.session_config.sse_retry = None;
    let config = StreamableHttpServerConfig::default().with_json_response(true).with_sse_retry(None);
    let service = StreamableHttpService::new(|| Ok(Server), Arc::new(sessions), config);
    let router = Router::new().nest_service("/mcp", service);
    let listener = TcpListener::bind(("127.0.0.1", port)).await?.tap_io(|stream| {
        let _ = stream.set_nodelay(true);
    });
    axum::serve(listener, router).await
}
