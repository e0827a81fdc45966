//! Servers that break, forget, repeat themselves or say nothing.

use gladhand::negotiation::Refusal;
use gladhand::operations::{FailureKind, Operation, Outcome, Party, Reply, Terms};
use gladhand::upstream::{OpenError, Options, ResponseBudget};
use tokio::task::JoinSet;

use crate::scripted::{Answer, Request, Scripted, empty, json, stream};
use crate::sessions::opening;
use crate::*;

const DONE: &str = r#"{"content":[]}"#;

fn first(seen: &[Request], call: &str) -> bool {
    seen.iter().filter(|request| request.call() == call).count() == 1
}

/// A server that breaks its first answer to everything but the opening, and is well afterwards.
async fn breaking(broken: fn(&Request) -> Answer) -> Scripted {
    let seen = std::sync::Mutex::new(Vec::new());
    Scripted::start(move |request, _| {
        if let Some(answer) = opening(request) {
            return answer;
        }
        let mut seen = seen.lock().unwrap();
        seen.push(request.clone());
        if first(&seen, request.call()) { broken(request) } else { request.result(r#"{"tools":[],"content":[]}"#) }
    })
    .await
}

#[tokio::test]
async fn a_stream_that_is_cut_costs_a_call_and_no_list() {
    for version in ["2026-07-28", "2025-11-25"] {
        // In the middle of the event that is the answer.
        let server = breaking(|request| {
            let event = format!("data: {}\n\n", request.message(r#"{"tools":[],"content":[]}"#));
            Answer::Close(stream(&event[..event.len() / 2]))
        })
        .await;
        let upstream = open(&[&server.url], speaking(version)).await.unwrap();
        assert!(matches!(soon(upstream.call(Operation::ListTools)).await, Ok(Reply::Tools(_))), "{version}");
        let failure = soon(upstream.call(tool("t"))).await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::UpstreamLost, "{version}");
        assert!(soon(upstream.call(tool("t"))).await.is_ok());
    }
}

#[tokio::test]
async fn a_stream_with_ids_is_taken_up_where_it_broke() {
    let server = Scripted::start(|request, _| match (request.call(), request.header("last-event-id")) {
        ("tools/call", _) => Answer::Close(stream("id: e1\nretry: 10\ndata: \n\n")),
        ("", Some("e1")) => Answer::Close(stream("id: e2\ndata: \n\n")),
        ("", Some("e2")) => {
            let answer = r#"{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"at last"}]}}"#;
            Answer::Close(stream(&format!("data: {answer}\n\n")))
        }
        _ => opening(request).unwrap_or_else(|| empty(500)),
    })
    .await;
    let upstream = open(&[&server.url], speaking("2025-11-25")).await.unwrap();
    let reply = soon(upstream.call(tool("t"))).await.unwrap();
    assert!(matches!(reply, Reply::Tool(result) if result.joined_text() == "at last"));
}

#[tokio::test]
async fn duplicate_and_stray_answers_are_ignored() {
    let server = breaking(|request| {
        let stray = r#"{"jsonrpc":"2.0","id":99,"result":{}}"#;
        let answer = request.message(r#"{"content":[]}"#);
        Answer::Close(stream(&format!("data: {stray}\n\ndata: nonsense\n\ndata: {answer}\n\ndata: {answer}\n\n")))
    })
    .await;
    let upstream = open(&[&server.url], speaking("2025-11-25")).await.unwrap();
    assert!(soon(upstream.call(tool("t"))).await.is_ok());
    assert!(soon(upstream.call(tool("t"))).await.is_ok());
}

#[tokio::test]
async fn cancellations_that_a_server_does_not_take_hold_up_no_other_call() {
    let server = Scripted::start(|request, _| match (request.call(), request.body["params"]["name"].as_str()) {
        ("notifications/cancelled", _) | ("tools/call", Some("slow")) => Answer::Silence,
        _ => opening(request).unwrap_or_else(|| request.result(DONE)),
    })
    .await;
    let upstream = open(&[&server.url], speaking("2025-11-25")).await.unwrap();
    let slow: Vec<_> = (0..100)
        .map(|_| {
            let upstream = upstream.clone();
            tokio::spawn(async move { upstream.call(tool("slow")).await })
        })
        .collect();
    let came = |what: &str| server.calls().iter().filter(|call| *call == what).count();
    while came("tools/call") < slow.len() {
        tokio::task::yield_now().await;
    }
    slow.iter().for_each(tokio::task::JoinHandle::abort);
    while came("notifications/cancelled") == 0 {
        tokio::task::yield_now().await;
    }
    // A cancellation that is not taken times out after as long as the test waits.
    assert!(tokio::time::timeout(PATIENCE / 3, upstream.call(tool("t"))).await.is_ok());
}

/// A call of a party.
async fn call_of(upstream: Upstream, party: u64, name: &'static str) -> Outcome {
    let party = Some(Party(party));
    let call = || (tool(name), Terms { party, ..Terms::default() });
    let agreement = upstream.agreement();
    upstream.call_on_behalf(call, party, agreement, Arc::new(IgnoreEvents)).await.expect("the session is open")
}

#[tokio::test]
async fn answers_that_arrive_have_a_bound_over_all_calls_and_a_share_for_each_party() {
    for version in ["2026-07-28", "2025-11-25"] {
        let server = Scripted::start(|request, _| match request.body["params"]["name"].as_str() {
            // All but the end of the answer.
            Some("slow") => {
                let half = request.message(&format!(r#"{{"content":[],"x":"{}"#, "x".repeat(200_000)));
                Answer::Hold(stream(&format!("data: {half}")))
            }
            Some(_) => request.result(&format!(r#"{{"content":[],"x":"{}"}}"#, "x".repeat(150_000))),
            None => opening(request).unwrap_or_else(|| empty(500)),
        })
        .await;
        let options = Options { response_budget: ResponseBudget::of(500_000), ..speaking(version) };
        let upstream = open(&[&server.url], options).await.unwrap();
        let mut slow: JoinSet<_> = (0..3).map(|_| call_of(upstream.clone(), 1, "slow")).collect();
        let failure = soon(slow.join_next()).await.unwrap().unwrap().unwrap_err();
        let expected = (FailureKind::TooLong, "the result is too large to be kept".to_owned());
        assert_eq!((failure.kind, failure.message), expected, "{version}: the third has no room");
        let failure = soon(call_of(upstream.clone(), 1, "t")).await.unwrap_err();
        assert_eq!((failure.kind, failure.message), expected, "{version}: nor has another");
        assert!(soon(call_of(upstream.clone(), 2, "t")).await.is_ok(), "{version}: another party has its share");
        slow.shutdown().await;
        while soon(call_of(upstream.clone(), 1, "t")).await.is_err() {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn a_session_forgotten_by_the_server_is_reopened() {
    let server = Scripted::start(|request, before| match (request.call(), request.header("mcp-session-id")) {
        ("initialize", _) if before > 0 => {
            let result = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"2"}}"#;
            json(200, "Mcp-Session-Id: s-2\r\n", &request.message(result))
        }
        ("tools/call", Some("s-1")) => empty(404),
        ("tools/call", Some("s-2")) => request.result(DONE),
        _ => opening(request).unwrap_or_else(|| empty(500)),
    })
    .await;
    let upstream = open(&[&server.url], speaking("2025-11-25")).await.unwrap();
    assert_eq!(upstream.agreement().server.version, "1");
    let both = tokio::join!(upstream.call(tool("t")), upstream.call(tool("t")));
    assert!(both.0.is_ok() && both.1.is_ok(), "{both:?}");
    assert_eq!(upstream.agreement().server.version, "2");
    let openings = server.calls().iter().filter(|call| *call == "initialize").count();
    assert_eq!(openings, 2, "one lost session, one new session");
}

#[tokio::test]
async fn a_silent_server_causes_timeouts() {
    let server = Scripted::start(|_, _| Answer::Silence).await;
    let patience = Duration::from_millis(200);
    let refused = open(&[&server.url], Options { opening_timeout: patience, ..Options::default() }).await;
    assert!(matches!(refused, Err(OpenError::Refused { refusal: Refusal::TimedOut { .. }, .. })), "{refused:?}");
    assert_eq!(server.calls(), ["server/discover"], "silence is no sign of an era");

    let server = Scripted::start(|request, _| opening(request).unwrap_or(Answer::Silence)).await;
    let options = Options { call_timeout: Some(patience), ..Options::default() };
    let upstream = open(&[&server.url], options).await.unwrap();
    assert_eq!(soon(upstream.call(tool("t"))).await.unwrap_err().kind, FailureKind::TimedOut);
}

#[tokio::test]
async fn an_unreachable_address_is_no_refusal() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    drop(listener);
    assert!(matches!(open(&[&url], Options::default()).await, Err(OpenError::Unreachable(_))));
    let server = Scripted::start(|_, _| empty(503)).await;
    assert!(matches!(open(&[&server.url], Options::default()).await, Err(OpenError::Unreachable(_))));
    assert_eq!(server.calls(), ["server/discover"], "an outage is no sign of an era");
}

#[tokio::test]
async fn redirects_are_followed_at_home_only() {
    let elsewhere = Scripted::start(|request, _| opening(request).unwrap_or_else(|| empty(500))).await;
    let away = elsewhere.url.clone();
    let server = Scripted::start(move |request, _| match request.path.as_str() {
        "/mcp" => Answer::Close(format!(
            "HTTP/1.1 307 x\r\nlocation: {}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
            if request.header("x-away").is_some() { away.as_str() } else { "/elsewhere" }
        )),
        _ => opening(request).unwrap_or_else(|| request.result(DONE)),
    })
    .await;
    let upstream = open(&[&server.url], speaking("2026-07-28")).await.unwrap();
    assert!(soon(upstream.call(tool("t"))).await.is_ok());
    let headers =
        http::HeaderMap::from_iter([(http::HeaderName::from_static("x-away"), http::HeaderValue::from_static("1"))]);
    assert!(open(&[&server.url], Options { headers, ..speaking("2026-07-28") }).await.is_err());
    assert!(elsewhere.requests().is_empty(), "nobody there was named by anybody");
}

#[tokio::test]
async fn an_event_without_end_is_not_read_without_end() {
    let server = breaking(|_| {
        let mut event = "data: ".to_owned();
        event.push_str(&"x".repeat(40 * 1024 * 1024));
        Answer::Hold(stream(&event))
    })
    .await;
    let upstream = open(&[&server.url], speaking("2026-07-28")).await.unwrap();
    let failure = soon(upstream.call(tool("t"))).await.unwrap_err();
    assert!(failure.message.contains("longer than"), "{failure}");
}

#[tokio::test]
async fn an_answer_that_cannot_be_taken_is_not_waited_for() {
    let deep: fn(&Request) -> Answer = |request| request.result(&format!("{}{}", "[".repeat(200), "]".repeat(200)));
    let long: fn(&Request) -> Answer = |request| request.result(&format!(r#"{{"x":"{}"}}"#, "x".repeat(17 << 20)));
    let events: fn(&Request) -> Answer = |request| {
        let event = request.message(&format!("{}{}", "[".repeat(200), "]".repeat(200)));
        Answer::Hold(stream(&format!("data: {event}\n\n")))
    };
    let (unreadable, too_long) = (FailureKind::UpstreamError, FailureKind::TooLong);
    for (broken, kind, problem) in
        [(deep, unreadable, "nests deeper"), (long, too_long, "longer than"), (events, unreadable, "nests deeper")]
    {
        for version in ["2026-07-28", "2025-11-25"] {
            let server = breaking(broken).await;
            let upstream = open(&[&server.url], speaking(version)).await.unwrap();
            let failure = soon(upstream.call(Operation::ListTools)).await.unwrap_err();
            assert_eq!(failure.kind, kind);
            assert!(failure.message.contains(problem), "{version}: {failure}");
        }
    }
}
