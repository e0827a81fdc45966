//! The step that says who a request comes from.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use gladhand::edges::http::{Authorize, Authorized, Http};
use gladhand::providers::Toolbox;

use crate::client::open_session_with;
use crate::server::Embedded;

/// Believes whoever says who they are.
#[derive(Debug)]
struct Credulous;

impl Authorize for Credulous {
    fn authorize<'a>(
        &'a self,
        head: &'a http::request::Parts,
    ) -> Pin<Box<dyn Future<Output = Authorized> + Send + 'a>> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            let name = head.headers.get("x-name").and_then(|name| name.to_str().ok()).map(Arc::from);
            let denied = http::Response::builder().status(401).header("WWW-Authenticate", "Bearer");
            name.map(Some).ok_or_else(|| Box::new(denied.body("who?".into()).expect("a response")))
        })
    }
}

#[test]
fn a_session_is_for_the_one_who_opened_it() {
    let http = Http { authorize: Some(Arc::new(Credulous)), ..Http::default() };
    let server = Embedded::with(Toolbox, http);
    let mut connection = server.connect();
    let ping = r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#;
    let nobody = connection.post(&[], ping);
    assert_eq!((nobody.status, nobody.header("www-authenticate"), &*nobody.body), (401, Some("Bearer"), "who?"));
    let session = open_session_with(&mut connection, "2025-11-25", &[("X-Name", "ada")]);
    let mut status = |name| connection.post(&[("X-Name", name), ("Mcp-Session-Id", &session)], ping).status;
    assert_eq!((status("ada"), status("eve")), (200, 404));
    assert_eq!(connection.ask("GET", "/healthz", &[], "").status, 200, "whether we are well is no secret");
}
