//! Routes that an embedding program serves beside the dialects.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use gladhand::providers::Toolbox;
use gladhand_server::http::{Http, RouteAccess, SideBody, SideOrigin, SideResponse, SideRoutes};
use http::{Request, Response};
use tokio::sync::mpsc;

use crate::authorize::Credulous;
use crate::server::Embedded;

/// `/report` needs the authorization of the endpoint, `/page` checks its own. `/page/events` never ends by itself.
#[derive(Debug, Default)]
struct Pages {
    open: Mutex<Vec<mpsc::Sender<Bytes>>>,
}

impl SideRoutes for Pages {
    fn access(&self, path: &str) -> Option<RouteAccess> {
        match path {
            "/report" => Some(RouteAccess::Endpoint),
            "/page" | "/page/events" | "/mcp" => Some(RouteAccess::Own),
            _ => None,
        }
    }

    fn respond<'a>(&'a self, request: Request<Bytes>, from: SideOrigin) -> SideResponse<'a> {
        let body = match request.uri().path() {
            "/page/events" => {
                let (sender, receiver) = mpsc::channel(4);
                let _ = sender.try_send(Bytes::from_static(b"data: 1\n\n"));
                self.open.lock().expect("no panic").push(sender);
                SideBody::Stream(receiver)
            }
            path => {
                let principal = from.principal.map(|principal| principal.name);
                let body = String::from_utf8_lossy(request.body()).into_owned();
                SideBody::Whole(format!("{path} {principal:?} {body}").into())
            }
        };
        Box::pin(async move { Response::new(body) })
    }
}

fn server() -> Embedded {
    let http =
        Http { authorize: Some(Arc::new(Credulous)), side_routes: vec![Arc::new(Pages::default())], ..Http::default() };
    Embedded::with(Toolbox, http)
}

#[test]
fn a_side_route_has_the_authorization_that_it_states_and_the_guard_applies_to_all() {
    let server = server();
    let mut connection = server.connect();
    let mut ask = |path: &str, headers: &[(&str, &str)]| {
        let answer = connection.ask("POST", path, headers, "hi");
        (answer.status, answer.body)
    };
    assert_eq!(ask("/report", &[]).0, 401);
    assert_eq!(ask("/report", &[("X-Name", "ada")]), (200, r#"/report Some("ada") hi"#.to_owned()));
    assert_eq!(ask("/page", &[]), (200, "/page None hi".to_owned()));
    assert_eq!(ask("/page", &[("Origin", "https://evil.example")]).0, 403);
    assert_eq!(ask("/mcp", &[]).0, 401, "a route never takes a path of a dialect");
    assert_eq!(ask("/other", &[("X-Name", "ada")]).0, 404);
}

#[test]
fn a_stream_of_a_side_route_ends_when_the_server_stops() {
    let server = server();
    let mut stream = server.connect();
    stream.send("GET", "/page/events", &[("Accept", "text/event-stream")], "");
    assert_eq!(stream.head().status, 200);
    assert!(stream.event().is_some());
    let stopping = std::thread::spawn(move || drop(server));
    while stream.event().is_some() {}
    stopping.join().expect("the server stops");
}
