//! The loopback listener that receives the redirect of a browser.
//!
//! It serves one connection at a time and decides nothing: the caller chooses the page for each visit, and which
//! visit ends the wait.

use std::io;
use std::net::Ipv4Addr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use url::form_urlencoded;

/// The timeout for the request of a browser, and for sending the page.
const TIMEOUT: Duration = Duration::from_secs(2);
/// The maximum length of a request head. Redirects are never longer.
const MAX_HEAD_BYTES: usize = 64 * 1024;

/// A loopback port for redirects. It is closed when this value is dropped.
#[derive(Debug)]
pub struct Callback {
    listener: TcpListener,
    port: u16,
}

/// A request of a browser.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Visit {
    /// The method, usually `GET`.
    pub method: String,
    /// The path, without the query.
    pub path: String,
    /// The query, exactly as received.
    pub query: String,
}

/// The response to a browser.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    status: http::StatusCode,
    headers: Vec<(&'static str, String)>,
    text: String,
}

impl Callback {
    /// Listens on a loopback port (0: any free port).
    pub async fn bind(port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let port = listener.local_addr()?.port();
        Ok(Self { listener, port })
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Answers each visit with the page from `respond`, until one of them contains the expected result.
    pub async fn wait<T>(&self, mut respond: impl FnMut(&Visit) -> (Page, Option<T>)) -> io::Result<T> {
        loop {
            let (mut stream, _) = self.listener.accept().await?;
            // A connection that sends nothing must not block the user's browser for long.
            let Ok(Ok(Some(visit))) = tokio::time::timeout(TIMEOUT, receive(&mut stream)).await else { continue };
            let (page, found) = respond(&visit);
            // The result counts even if the browser does not wait for the page.
            let _ = tokio::time::timeout(TIMEOUT, page.send(&mut stream)).await;
            if let Some(found) = found {
                return Ok(found);
            }
        }
    }
}

impl Visit {
    /// The first value of this name in the query.
    pub fn value(&self, name: &str) -> Option<String> {
        form_urlencoded::parse(self.query.as_bytes()).find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
    }
}

impl Page {
    /// A plain text page.
    pub fn text(status: http::StatusCode, text: impl Into<String>) -> Self {
        let headers = vec![("content-type", "text/plain; charset=utf-8".to_owned())];
        Self { status, headers, text: text.into() }
    }

    /// An HTML page.
    pub fn html(text: impl Into<String>) -> Self {
        let headers = vec![("content-type", "text/html; charset=utf-8".to_owned())];
        Self { status: http::StatusCode::OK, headers, text: text.into() }
    }

    /// A redirect to another address.
    pub fn redirect(to: impl Into<String>) -> Self {
        Self { status: http::StatusCode::FOUND, headers: vec![("location", to.into())], text: String::new() }
    }

    /// Adds a header.
    pub fn with(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }

    async fn send(&self, stream: &mut TcpStream) -> io::Result<()> {
        let mut answer = format!("HTTP/1.1 {}\r\n", self.status);
        for (name, value) in &self.headers {
            answer.push_str(&format!("{name}: {value}\r\n"));
        }
        answer.push_str(&format!(
            "content-length: {}\r\ncache-control: no-store\r\nconnection: close\r\n\r\n{}",
            self.text.len(),
            self.text
        ));
        stream.write_all(answer.as_bytes()).await?;
        stream.shutdown().await
    }
}

/// Reads one request head. `None` if there is none or it is invalid.
async fn receive(stream: &mut TcpStream) -> io::Result<Option<Visit>> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        if head.len() > MAX_HEAD_BYTES || stream.read_buf(&mut head).await? == 0 {
            return Ok(None);
        }
    }
    Ok(visit(&head))
}

fn visit(head: &[u8]) -> Option<Visit> {
    let line = std::str::from_utf8(head).ok()?.lines().next()?;
    let mut words = line.split(' ');
    let (method, target) = (words.next()?.to_owned(), words.next()?);
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    Some(Visit { method, path: path.to_owned(), query: query.to_owned() })
}
