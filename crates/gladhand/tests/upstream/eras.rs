//! Finding out over HTTP which era an upstream is of.

use std::sync::atomic::{AtomicBool, Ordering};

use gladhand::negotiation::Refusal;
use gladhand::operations::Reply;
use gladhand::upstream::{Eras, OpenError, Options};

use crate::scripted::{Answer, Request, Scripted, empty, json, stream};
use crate::sessions::opening;
use crate::*;

const DONE: &str = r#"{"content":[]}"#;

/// A server that knows only the handshake and answers anything else so.
async fn of_the_handshake(otherwise: fn(&Request) -> Answer) -> Scripted {
    Scripted::start(move |request, _| match request.call() {
        "server/discover" => otherwise(request),
        _ => opening(request).unwrap_or_else(|| request.result(DONE)),
    })
    .await
}

fn error(request: &Request, status: u16, id: &str, code: i32, data: &str) -> Answer {
    let _ = request;
    json(status, "", &format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"no"{data}}}}}"#))
}

#[tokio::test]
async fn a_server_without_the_stateless_era_is_opened_with_the_handshake() {
    let servers: [fn(&Request) -> Answer; 6] = [
        |request| error(request, 400, "null", -32000, ""),
        |request| error(request, 400, "\"server-error\"", -32600, ""),
        |request| error(request, 200, "1", -32601, ""),
        |request| error(request, 400, "1", -32022, r#","data":{"supported":["2025-11-25"]}"#),
        |_| empty(404),
        // It answers anything, as old servers do.
        |request| request.result(r#"{"tools":[]}"#),
    ];
    for (at, otherwise) in servers.into_iter().enumerate() {
        let server = of_the_handshake(otherwise).await;
        let upstream = open(&[&server.url], Options::default()).await.unwrap();
        assert_eq!(upstream.agreement().version, "2025-11-25", "server {at}");
        assert!(soon(upstream.call(tool("t"))).await.is_ok());
    }
}

#[tokio::test]
async fn the_detected_era_of_an_address_is_remembered() {
    let folder = tempfile::tempdir().unwrap();
    let server = of_the_handshake(|_| empty(404)).await;
    for _ in 0..3 {
        let eras = Eras::kept_in(folder.path().join("eras.json"));
        let upstream = open(&[&server.url], Options { eras, ..Options::default() }).await.unwrap();
        assert!(soon(upstream.call(tool("t"))).await.is_ok());
        soon(upstream.close()).await;
    }
    assert_eq!(server.calls().iter().filter(|call| *call == "server/discover").count(), 1);
}

#[tokio::test]
async fn a_changed_era_of_an_address_is_detected_again() {
    let servers: [fn(&Request) -> Answer; 5] = [
        |request| error(request, 400, "1", -32601, ""),
        |request| error(request, 200, "1", -32022, r#","data":{"supported":["2026-07-28"]}"#),
        |_| empty(404),
        |_| empty(500),
        |_| Answer::Silence,
    ];
    for (at, otherwise) in servers.into_iter().enumerate() {
        let is_new = Arc::new(AtomicBool::new(false));
        let now_new = Arc::clone(&is_new);
        let server = Scripted::start(move |request, _| match (request.call(), now_new.load(Ordering::Relaxed)) {
            ("initialize", true) | ("", true) => otherwise(request),
            ("server/discover", false) => empty(404),
            _ => opening(request).unwrap_or_else(|| request.result(r#"{"resultType":"complete","content":[]}"#)),
        })
        .await;
        let options = Options { opening_timeout: Duration::from_secs(4), ..Options::default() };
        for version in ["2025-11-25", "2026-07-28", "2026-07-28"] {
            let upstream = open(&[&server.url], options.clone()).await.unwrap();
            assert_eq!(upstream.agreement().version, version, "server {at}");
            assert!(soon(upstream.call(tool("t"))).await.is_ok());
            is_new.store(true, Ordering::Relaxed);
        }
    }
}

#[tokio::test]
async fn an_error_of_the_new_era_is_no_reason_to_try_the_old() {
    for code in [-32020, -32021, -32022] {
        let server = Scripted::start(move |request, _| {
            error(request, 400, "1", code, r#","data":{"supported":["2099-01-01"]}"#)
        })
        .await;
        let refused = open(&[&server.url], Options::default()).await.unwrap_err();
        let is_refusal = matches!(
            refused,
            OpenError::Refused { refusal: Refusal::PeerRefused { .. } | Refusal::VersionMismatch { .. }, .. }
        );
        assert!(is_refusal, "{refused:?}");
        assert_eq!(server.calls(), ["server/discover"]);
    }
}

#[tokio::test]
async fn a_server_of_the_first_revision_is_reached_by_its_one_stream() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    // Its answers come on the stream of another request, so it is written by hand.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/sse", listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        let mut events: Option<tokio::net::TcpStream> = None;
        while let Ok((mut connection, _)) = listener.accept().await {
            let mut bytes = vec![0; 65536];
            let mut length = 0;
            let text = loop {
                length += connection.read(&mut bytes[length..]).await.unwrap();
                let text = String::from_utf8_lossy(&bytes[..length]).into_owned();
                let complete = match text.split_once("\r\n\r\n") {
                    Some((_, body)) => text.starts_with("GET") || body.ends_with('}'),
                    None => false,
                };
                if complete {
                    break text;
                }
            };
            if text.starts_with("GET /sse") {
                let endpoint = stream("event: endpoint\ndata: /messages?session=1\n\n");
                connection.write_all(endpoint.as_bytes()).await.unwrap();
                events = Some(connection);
                continue;
            }
            let status = if text.starts_with("POST /messages?session=1") { 202 } else { 405 };
            let response = format!("HTTP/1.1 {status} x\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            connection.write_all(response.as_bytes()).await.unwrap();
            let body: serde_json::Value = serde_json::from_str(text.split_once("\r\n\r\n").unwrap().1).unwrap();
            let result = match body["method"].as_str().unwrap_or_default() {
                "initialize" => {
                    r#"{"protocolVersion":"2024-11-05","capabilities":{"tools":{}},"serverInfo":{"name":"old","version":"1"}}"#
                }
                "tools/call" => DONE,
                _ => continue,
            };
            if let (202, Some(events)) = (status, &mut events) {
                let event = format!(
                    "event: message\ndata: {{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{result}}}\n\n",
                    body["id"]
                );
                events.write_all(event.as_bytes()).await.unwrap();
            }
        }
    });
    let upstream = open(&[&url], Options::default()).await.unwrap();
    assert_eq!(upstream.agreement().version, "2024-11-05");
    assert!(matches!(soon(upstream.call(tool("t"))).await, Ok(Reply::Tool(_))));
    server.abort();
    soon(upstream.close()).await;
}
