//! Sessions over HTTP with servers that behave.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::BoxFuture;
use gladhand::Secret;
use gladhand::auth::AuthError;
use gladhand::negotiation::Capability;
use gladhand::operations::{Answered, FailureKind, Notice, Operation, Question, Reply};
use gladhand::upstream::{Attempt, Authorizer, Bearer, OpenError, Options, UpstreamEvents, accept_defaults};
use http::{HeaderMap, Method, StatusCode};
use tokio::sync::mpsc;
use url::Url;

use crate::scripted::{Answer, Request, Scripted, empty, json, stream};
use crate::*;

/// The answers to an opening; everything else goes to the test.
pub(crate) fn opening(request: &Request) -> Option<Answer> {
    let capabilities =
        r#""capabilities":{"tools":{"listChanged":true},"resources":{}},"serverInfo":{"name":"s","version":"1"}"#;
    match request.call() {
        "server/discover" => Some(
            request
                .result(&format!(r#"{{"resultType":"complete","supportedVersions":["2026-07-28"],{capabilities}}}"#)),
        ),
        "initialize" => {
            let version = request.body["params"]["protocolVersion"].clone();
            let result = format!(r#"{{"protocolVersion":{version},{capabilities}}}"#);
            Some(json(200, "Mcp-Session-Id: s-1\r\n", &request.message(&result)))
        }
        "notifications/initialized" => Some(empty(202)),
        "" if request.method == "GET" => Some(empty(405)),
        "" if request.method == "DELETE" => Some(empty(200)),
        _ => None,
    }
}

const DONE: &str = r#"{"content":[{"type":"text","text":"done"}]}"#;

#[tokio::test]
async fn a_session_is_named_in_every_request_and_deleted_at_its_end() {
    let server = Scripted::start(|request, _| opening(request).unwrap_or_else(|| request.result(DONE))).await;
    let upstream = open(&[&server.url], speaking("2025-06-18")).await.unwrap();
    assert_eq!(upstream.agreement().version, "2025-06-18");
    assert!(matches!(soon(upstream.call(tool("t"))).await, Ok(Reply::Tool(_))));
    soon(upstream.close()).await;
    let requests = server.requests();
    let first = &requests[0];
    assert_eq!((first.header("mcp-session-id"), first.header("mcp-protocol-version")), (None, None));
    assert_eq!(first.header("accept"), Some("application/json, text/event-stream"));
    for request in &requests[1..] {
        let named = (request.header("mcp-session-id"), request.header("mcp-protocol-version"));
        assert_eq!(named, (Some("s-1"), Some("2025-06-18")), "{request:?}");
    }
    let mut calls = server.calls();
    calls.sort();
    assert_eq!(calls, ["DELETE", "GET", "initialize", "notifications/initialized", "tools/call"]);
    assert_eq!(server.calls()[1], "notifications/initialized", "nothing overtakes it");
    let failure = soon(upstream.call(tool("t"))).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::UpstreamLost);
}

#[tokio::test]
async fn many_root_changes_cause_one_notification_to_the_upstream() {
    let server = Scripted::start(|request, _| opening(request).unwrap_or_else(|| request.result(DONE))).await;
    let provides = ["roots", "roots.listChanged"].map(|name| (Capability::named(name), None)).to_vec();
    let upstream = open(&[&server.url], Options { provides, ..speaking("2025-06-18") }).await.unwrap();
    let heard = || server.calls().iter().filter(|call| *call == "notifications/roots/list_changed").count();
    for round in 1..3 {
        // The loop of the session does not run meanwhile.
        (0..1000).for_each(|_| upstream.roots_changed());
        tokio::task::yield_now().await;
        soon(upstream.call(tool("t"))).await.unwrap();
        assert_eq!(heard(), round);
    }
}

#[tokio::test]
async fn a_stateless_server_gets_headers_and_no_session() {
    let server = Scripted::start(|request, _| opening(request).unwrap_or_else(|| request.result(DONE))).await;
    let upstream = open(&[&server.url], Options::default()).await.unwrap();
    assert_eq!(upstream.agreement().version, "2026-07-28");
    soon(upstream.call(tool("t"))).await.unwrap();
    soon(upstream.close()).await;
    assert_eq!(server.calls(), ["server/discover", "tools/call"]);
    let requests = server.requests();
    let call = &requests[1];
    assert_eq!((call.header("mcp-method"), call.header("mcp-name")), (Some("tools/call"), Some("t")));
    assert_eq!(call.header("mcp-protocol-version"), Some("2026-07-28"));
}

/// Tells a test what it hears, and accepts every form.
#[derive(Debug)]
struct Listener(mpsc::UnboundedSender<String>);

impl UpstreamEvents for Listener {
    fn ask(&self, question: Question) -> BoxFuture<'static, Answered> {
        let answer = accept_defaults(&question);
        Box::pin(async move { answer })
    }

    fn notice(&self, notice: Notice) {
        let _ = self.0.send(format!("{notice:?}"));
    }
}

#[tokio::test]
async fn messages_on_the_stream_of_a_call_belong_to_the_call() {
    let server = Scripted::start(|request, _| {
        let progress = |token: &serde_json::Value| {
            format!(r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":1}}}}"#)
        };
        match request.call() {
            "tools/call" => {
                let question = r#"{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{"a":{"type":"integer","default":7}}}}}"#;
                let token = &request.body["params"]["_meta"]["progressToken"];
                let events = format!("data: {}\n\ndata: {question}\n\ndata: {}\n\n", progress(token), request.message(DONE));
                Answer::Close(stream(&events))
            }
            _ => opening(request).unwrap_or_else(|| empty(202)),
        }
    })
    .await;
    let (tell, mut heard) = mpsc::unbounded_channel();
    let host = Arc::new(Listener(tell));
    let provides = vec![(Capability::named("elicitation"), None)];
    let options = Options { provides, ..speaking("2025-11-25") };
    let upstream = open(&[&server.url], options).await.unwrap();
    let reply = soon(upstream.call_for(tool("t"), host)).await.unwrap();
    assert!(matches!(reply, Reply::Tool(result) if result.joined_text() == "done"));
    assert!(soon(heard.recv()).await.unwrap().starts_with("Progress(CallId(1)"));
    soon(async {
        while !server.requests().iter().any(|request| request.body["id"] == "q") {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let answer = server.requests().into_iter().find(|request| request.body["id"] == "q").unwrap();
    assert_eq!(answer.body["result"]["content"]["a"], 7);
}

#[tokio::test]
async fn notifications_on_the_main_stream_are_received() {
    let server = Scripted::start(|request, _| match request.method.as_str() {
        "GET" => {
            Answer::Hold(stream("data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n"))
        }
        _ => opening(request).unwrap_or_else(|| request.result(DONE)),
    })
    .await;
    let (tell, mut heard) = mpsc::unbounded_channel();
    let upstream = open_for(&[&server.url], speaking("2025-11-25"), Arc::new(Listener(tell))).await.unwrap();
    assert_eq!(soon(heard.recv()).await.unwrap(), "ToolsChanged");
    drop(upstream);
    let mut server = server;
    assert_eq!(soon(server.dropped.recv()).await.unwrap().method, "GET", "the last handle ends the session");
}

#[tokio::test]
async fn a_dropped_call_closes_its_exchange() {
    for (version, says_so) in [("2026-07-28", false), ("2025-11-25", true)] {
        let mut server = Scripted::start(|request, _| match request.call() {
            "tools/call" => Answer::Hold(stream(": waiting\n\n")),
            _ => opening(request).unwrap_or_else(|| empty(202)),
        })
        .await;
        let upstream = open(&[&server.url], speaking(version)).await.unwrap();
        {
            let call = upstream.call(tool("t"));
            tokio::pin!(call);
            soon(async {
                while !server.calls().contains(&"tools/call".to_owned()) {
                    let _ = tokio::time::timeout(Duration::from_millis(5), &mut call).await;
                }
            })
            .await;
        }
        assert_eq!(soon(server.dropped.recv()).await.unwrap().call(), "tools/call");
        soon(upstream.close()).await;
        let cancelled = server.calls().contains(&"notifications/cancelled".to_owned());
        assert_eq!(cancelled, says_so, "{version}");
    }
}

/// Has a better token from the second time on.
#[derive(Debug, Default)]
struct Learning(AtomicUsize);

impl Authorizer for Learning {
    fn authorize<'a>(
        &'a self,
        _attempt: &'a mut Attempt,
        _method: &'a Method,
        _url: &'a Url,
        headers: &'a mut HeaderMap,
    ) -> BoxFuture<'a, Result<(), AuthError>> {
        let tries = self.0.load(Ordering::Relaxed);
        headers.insert("authorization", format!("Bearer {tries}").parse().unwrap());
        Box::pin(async { Ok(()) })
    }

    fn challenged<'a>(
        &'a self,
        _attempt: &'a mut Attempt,
        status: StatusCode,
        headers: &'a HeaderMap,
    ) -> BoxFuture<'a, Result<(), AuthError>> {
        assert_eq!((status.as_u16(), headers["www-authenticate"].as_bytes()), (401, &b"Bearer realm=\"x\""[..]));
        self.0.fetch_add(1, Ordering::Relaxed);
        Box::pin(async { Ok(()) })
    }
}

#[tokio::test]
async fn authorization_is_asked_for_and_tried_again() {
    let guarded = |request: &Request, _: usize| match request.header("authorization") {
        Some("Bearer 1") => opening(request).unwrap_or_else(|| request.result(DONE)),
        _ => json(401, "WWW-Authenticate: Bearer realm=\"x\"\r\n", "{}"),
    };
    let server = Scripted::start(guarded).await;
    let options = Options { authorizer: Some(Arc::new(Learning::default())), ..Options::default() };
    let upstream = open(&[&server.url], options).await.unwrap();
    soon(upstream.call(tool("t"))).await.unwrap();
    assert_eq!(server.calls(), ["server/discover", "server/discover", "tools/call"]);

    let server = Scripted::start(guarded).await;
    let refused = open(&[&server.url], Options::default()).await;
    assert!(matches!(refused, Err(OpenError::Unauthorized { .. })), "{refused:?}");
    let bearer = Some(Arc::new(Bearer::new(Secret::new("1"))) as Arc<dyn Authorizer>);
    assert!(open(&[&server.url], Options { authorizer: bearer, ..Options::default() }).await.is_ok());
}

#[tokio::test]
async fn a_forbidden_call_fails_with_the_reason_of_the_challenge() {
    let server = Scripted::start(|request, _| match request.call() {
        "tools/call" => {
            let challenge = r#"WWW-Authenticate: Bearer error="insufficient_scope", error_description="t needs admin""#;
            json(403, &format!("{challenge}\r\n"), "{}")
        }
        _ => opening(request).unwrap_or_else(|| empty(500)),
    })
    .await;
    let upstream = open(&[&server.url], Options::default()).await.unwrap();
    let failure = soon(upstream.call(tool("t"))).await.unwrap_err();
    let expected = "the upstream does not let us in: HTTP status 403 (insufficient_scope, t needs admin)";
    assert_eq!(failure.message, expected);
    assert_eq!(server.calls(), ["server/discover", "tools/call"]);
}

#[tokio::test]
async fn lists_are_fetched_page_by_page() {
    let server = Scripted::start(|request, _| match request.call() {
        "tools/list" if request.body["params"]["cursor"].is_null() => {
            request.result(r#"{"tools":[{"name":"a"}],"nextCursor":"n"}"#)
        }
        "tools/list" => request.result(r#"{"tools":[{"name":"b"}]}"#),
        _ => opening(request).unwrap_or_else(|| empty(500)),
    })
    .await;
    let upstream = open(&[&server.url], Options::default()).await.unwrap();
    let reply = soon(upstream.call(Operation::ListTools)).await.unwrap();
    assert!(matches!(reply, Reply::Tools(tools) if tools.len() == 2));
}
