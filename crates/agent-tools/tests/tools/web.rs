//! `search_web`, against a server that answers as recorded.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::Shop;

/// Answers one request, and returns its head and body.
async fn answer_once(listener: &TcpListener, status: &str, body: &str) -> (String, String) {
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut request = Vec::new();
    loop {
        stream.read_buf(&mut request).await.unwrap();
        let text = String::from_utf8_lossy(&request).into_owned();
        let Some((head, sent)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
        if sent.len() >= length.unwrap_or(0) {
            let answer =
                format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len());
            stream.write_all(answer.as_bytes()).await.unwrap();
            return (head.to_owned(), sent.to_owned());
        }
    }
}

async fn shop_asking(listener: &TcpListener) -> Shop {
    let base = format!("http://{}", listener.local_addr().unwrap());
    Shop::with(|settings| {
        settings.exa_base = base;
        settings.exa_key = Arc::new(|| Some("exa-test".to_owned()));
    })
    .await
}

#[tokio::test]
async fn searches_are_sent_and_reported_as_recorded() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let shop = shop_asking(&listener).await;
    let body = json!({"requestId": "r1", "results": [
        {"url": "https://example.test/a", "title": "A", "score": 0.5, "publishedDate": "2026-01-01",
         "highlights": ["h1", "h1", "h2"], "highlight_scores": [0.1, 0.2]},
        {"title": ""},
        {"url": "https://example.test/b", "contents": {"text": "body"}},
    ]})
    .to_string();
    let (said, (head, question)) = tokio::join!(
        shop.call("search_web", json!({"query": " q ", "num_results": 99, "include_text": true})),
        answer_once(&listener, "200 OK", &body),
    );
    assert_eq!(
        said.written,
        r#"{"status":"ok","query":"q","type":"auto","num_results":25,"total_results":2,"results":[{"title":"A","url":"https://example.test/a","score":0.5,"published_date":"2026-01-01","highlights":["h1","h2"],"highlight_scores":[0.1,0.2]},{"title":"https://example.test/b","url":"https://example.test/b","text":"body"}],"request_id":"r1"}"#
    );
    assert!(head.starts_with("POST /search HTTP/1.1"));
    assert!(head.to_lowercase().contains("x-api-key: exa-test"));
    assert_eq!(
        question,
        r#"{"query":"q","type":"auto","numResults":25,"contents":{"text":true,"highlights":{"query":"q","numSentences":2,"highlightsPerUrl":3}},"highlights":{"query":"q","numSentences":2,"highlightsPerUrl":3}}"#
    );
    let (said, _) = tokio::join!(
        shop.call("search_web", json!({"query": "q2"})),
        answer_once(&listener, "402 Payment Required", "pay up"),
    );
    assert_eq!(said.error.as_deref(), Some("exa search failed (402): pay up"));
    assert_eq!(said.written, r#"{"status":"error","query":"q2","type":"auto","num_results":8}"#);
}

#[tokio::test]
async fn a_redirect_does_not_carry_the_key_to_another_host() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let elsewhere = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let shop = shop_asking(&listener).await;
    let status = format!("307 Temporary Redirect\r\nlocation: http://{}/", elsewhere.local_addr().unwrap());
    tokio::select! {
        (said, _) = async { tokio::join!(
            shop.call("search_web", json!({"query": "x"})),
            answer_once(&listener, &status, ""),
        ) } => assert_eq!(said.error.as_deref(), Some("exa search failed (307): ")),
        (head, _) = answer_once(&elsewhere, "200 OK", "{}") => panic!("the other host received {head}"),
    }
}

#[tokio::test]
async fn failed_searches_are_results_too() {
    let shop = Shop::open().await;
    let message = "search_web unavailable: missing exa api key. run /onboarding to set one.";
    let said = shop.call("search_web", json!({"query": "x"})).await;
    assert_eq!(said.output, json!({"status": "invalid_input", "message": message}));

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let shop = shop_asking(&listener).await;
    let (said, _) =
        tokio::join!(shop.call("search_web", json!({"query": "x"})), answer_once(&listener, "200 OK", "<html>"),);
    assert!(said.error.unwrap().contains("the answer makes no sense"));
    let cancel = tokio_util::sync::CancellationToken::new();
    let (said, _held) = tokio::join!(shop.call_for("session", "search_web", json!({"query": "x"}), &cancel), async {
        let held = listener.accept().await.unwrap();
        cancel.cancel();
        held
    });
    assert_eq!(said.error.as_deref(), Some("exa search aborted"));
    drop(listener);
    let said = shop.call("search_web", json!({"query": "x"})).await;
    let error = said.error.unwrap();
    assert!(error.starts_with("exa search failed: ") && !error.contains("exa-test"), "{error}");
    assert_eq!(said.output["status"], Value::from("error"));
}
