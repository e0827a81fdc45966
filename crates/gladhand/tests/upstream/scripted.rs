//! An HTTP server whose every answer a test writes by hand, down to the bytes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// A request as it came.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    /// By their names in lower case.
    pub(crate) headers: HashMap<String, String>,
    /// The body, if it is JSON.
    pub(crate) body: Value,
}

impl Request {
    /// The JSON-RPC method.
    pub(crate) fn call(&self) -> &str {
        self.body["method"].as_str().unwrap_or_default()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// A JSON answer to it.
    pub(crate) fn result(&self, result: &str) -> Answer {
        json(200, "", &self.message(result))
    }

    /// The message that answers it.
    pub(crate) fn message(&self, result: &str) -> String {
        format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, self.body["id"])
    }
}

/// The response, and the fate of the connection.
#[derive(Debug)]
pub(crate) enum Answer {
    /// This, and the connection is closed.
    Close(String),
    /// This, and the connection stays until the other side closes it.
    Hold(String),
    /// Nothing, and the connection stays.
    Silence,
}

/// A response with a body of JSON and further headers, each ended by CRLF.
pub(crate) fn json(status: u16, headers: &str, body: &str) -> Answer {
    Answer::Close(format!(
        "HTTP/1.1 {status} x\r\ncontent-type: application/json\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    ))
}

/// A response without a body.
pub(crate) fn empty(status: u16) -> Answer {
    Answer::Close(format!("HTTP/1.1 {status} x\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"))
}

/// The beginning of a stream, which ends when the connection does.
pub(crate) fn stream(events: &str) -> String {
    format!("HTTP/1.1 200 x\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n{events}")
}

/// A running server.
#[derive(Debug)]
pub(crate) struct Scripted {
    pub(crate) url: String,
    requests: Arc<Mutex<Vec<Request>>>,
    /// Requests whose connection the other side closed while it was held.
    pub(crate) dropped: mpsc::UnboundedReceiver<Request>,
    task: tokio::task::JoinHandle<()>,
}

impl Scripted {
    /// Starts a server that answers by a script: a function of the request and how many came before it.
    pub(crate) async fn start(script: impl Fn(&Request, usize) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let requests = Arc::<Mutex<Vec<Request>>>::default();
        let (tell, dropped) = mpsc::unbounded_channel();
        let (script, seen) = (Arc::new(script), Arc::clone(&requests));
        let task = tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                let (script, seen, tell) = (Arc::clone(&script), Arc::clone(&seen), tell.clone());
                tokio::spawn(async move {
                    let decide = |request: &Request| {
                        let mut seen = seen.lock().unwrap();
                        seen.push(request.clone());
                        script(request, seen.len() - 1)
                    };
                    serve(connection, decide, tell).await;
                });
            }
        });
        Self { url, requests, dropped, task }
    }

    /// The requests so far.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    /// The JSON-RPC methods that came so far, or the HTTP methods of what was no JSON-RPC.
    pub(crate) fn calls(&self) -> Vec<String> {
        let name = |request: &Request| match request.call() {
            "" => request.method.clone(),
            call => call.to_owned(),
        };
        self.requests().iter().map(name).collect()
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(mut connection: TcpStream, decide: impl Fn(&Request) -> Answer, tell: mpsc::UnboundedSender<Request>) {
    let Some(request) = read(&mut connection).await else { return };
    let (text, hold) = match decide(&request) {
        Answer::Close(text) => (text, false),
        Answer::Hold(text) => (text, true),
        Answer::Silence => (String::new(), true),
    };
    let _ = connection.write_all(text.as_bytes()).await;
    if hold {
        while connection.read(&mut [0; 64]).await.is_ok_and(|length| length > 0) {}
        let _ = tell.send(request);
    }
}

async fn read(connection: &mut TcpStream) -> Option<Request> {
    let mut bytes = Vec::new();
    let head = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
        if connection.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let text = String::from_utf8(bytes[..head].to_vec()).ok()?;
    let mut lines = text.lines();
    let mut words = lines.next()?.split(' ');
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let headers: HashMap<_, _> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
        .collect();
    let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    while bytes.len() < head + length {
        if connection.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
    let body = serde_json::from_slice(&bytes[head..head + length]).unwrap_or(Value::Null);
    Some(Request { method, path, headers, body })
}
