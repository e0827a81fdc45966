//! Routes that an embedding program serves beside the dialects.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use bytes::Bytes;
use gladhand::providers::Toolbox;
use gladhand_auth::resource::Withdrawal;
use gladhand_server::http::{Http, HttpOptions, RouteAccess, SideBody, SideOrigin, SideResponse, SideRoutes};
use http::{Request, Response};
use tokio::sync::mpsc;

use crate::authorize::Credulous;
use crate::server::Embedded;
use crate::support::PATIENCE;

/// `/report` needs the authorization of the endpoint, `/page` checks its own. The events never end by themselves.
#[derive(Debug, Default)]
struct Pages {
    open: Mutex<Vec<mpsc::Sender<Bytes>>>,
}

impl SideRoutes for Pages {
    fn access(&self, path: &str) -> Option<RouteAccess> {
        match path {
            "/report" | "/report/events" => Some(RouteAccess::Endpoint),
            "/page" | "/page/events" | "/mcp" => Some(RouteAccess::Own),
            _ => None,
        }
    }

    fn respond<'a>(&'a self, request: Request<Bytes>, from: SideOrigin) -> SideResponse<'a> {
        let body = match request.uri().path() {
            "/page/events" | "/report/events" => {
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

#[test]
fn a_stream_of_a_side_route_ends_when_its_reader_loses_access() {
    let server = server();
    let open = |path: &str, name: &str| {
        let mut stream = server.connect();
        stream.send("GET", path, &[("Accept", "text/event-stream"), ("X-Name", name)], "");
        assert_eq!(stream.head().status, 200);
        assert!(stream.event().is_some());
        stream
    };
    let mut ada = open("/report/events", "ada");
    let mut others = [open("/report/events", "eve"), open("/page/events", "ada")];
    let names = vec!["ada".to_owned()];
    server.access.set_guard(Arc::new(Credulous), Withdrawal { names, ..Withdrawal::default() });
    assert!(ada.event().is_none(), "the stream ends");
    assert_eq!(server.connect().ask("POST", "/report", &[("X-Name", "eve")], "hi").status, 200);
    let stopping = std::thread::spawn(move || drop(server));
    // The other streams lasted until the server stopped.
    for stream in &mut others {
        while stream.event().is_some() {}
    }
    stopping.join().expect("the server stops");
}

#[test]
fn streams_of_side_routes_count_among_the_event_streams_of_their_party() {
    let options = HttpOptions { streams: 1, ..HttpOptions::default() };
    let http = Http {
        authorize: Some(Arc::new(Credulous)),
        side_routes: vec![Arc::new(Pages::default())],
        options,
        ..Http::default()
    };
    let server = Embedded::with(Toolbox, http);
    let open = || {
        let mut stream = server.connect();
        stream.send("GET", "/report/events", &[("X-Name", "ada")], "");
        let status = stream.head().status;
        (stream, status)
    };
    let first = open();
    assert_eq!((first.1, open().1), (200, 503));
    drop(first);
    let deadline = Instant::now() + PATIENCE;
    while open().1 != 200 {
        assert!(Instant::now() < deadline, "the stream that was closed still counts");
    }
}
