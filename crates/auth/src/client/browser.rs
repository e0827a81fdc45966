//! The step that needs a person: an authorization address is opened, and the redirect comes back to us.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::Ipv4Addr;
use std::pin::Pin;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;
use url::Url;

use crate::error::AuthError;

/// A person has this long to agree.
const PATIENCE: Duration = Duration::from_secs(300);
/// A browser sends its request at once.
const READ_PATIENCE: Duration = Duration::from_secs(2);
/// No redirect has a longer request head.
const LONGEST_HEAD: usize = 64 * 1024;
/// The path that we are redirected to.
const CALLBACK: &str = "/callback";

/// A future in a box, as methods of trait objects return them.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Takes an authorization address to a person and brings back the query of the redirect.
pub trait Browser: Send + Sync {
    /// Where redirects are to lead. It stays the same, because it becomes part of registrations.
    fn redirect_uri(&self) -> &str;

    /// Visits the address and returns the query of the redirect that answers it. `state` tells this redirect from
    /// others that may arrive.
    fn visit<'a>(&'a self, address: &'a Url, state: &'a str) -> Pending<'a, Result<String, AuthError>>;
}

/// Shows the address to the person and listens on loopback for the redirect.
pub struct Loopback {
    redirect_uri: String,
    /// One visit at a time.
    listener: Mutex<TcpListener>,
    show: Box<dyn Fn(&Url) + Send + Sync>,
}

impl Loopback {
    /// Listens on a port of loopback (0: any that is free). `show` brings an address before the person, for instance by
    /// printing it and calling [`open_in_browser`].
    pub async fn bind(port: u16, show: impl Fn(&Url) + Send + Sync + 'static) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let redirect_uri = format!("http://{}{CALLBACK}", listener.local_addr()?);
        Ok(Self { redirect_uri, listener: Mutex::new(listener), show: Box::new(show) })
    }

    async fn redirected(&self, address: &Url, state: &str) -> Result<String, AuthError> {
        let listener = self.listener.lock().await;
        (self.show)(address);
        loop {
            let (stream, _) = listener.accept().await.map_err(|error| AuthError::Browser(error.to_string()))?;
            // A connection that stays silent must not keep the person's own one waiting for long.
            if let Ok(Ok(Some(query))) = tokio::time::timeout(READ_PATIENCE, receive(stream, state)).await {
                return Ok(query);
            }
        }
    }
}

impl Browser for Loopback {
    fn redirect_uri(&self) -> &str {
        &self.redirect_uri
    }

    fn visit<'a>(&'a self, address: &'a Url, state: &'a str) -> Pending<'a, Result<String, AuthError>> {
        Box::pin(async move {
            match tokio::time::timeout(PATIENCE, self.redirected(address, state)).await {
                Ok(redirected) => redirected,
                Err(_) => Err(AuthError::Browser("nobody agreed in time".to_owned())),
            }
        })
    }
}

impl fmt::Debug for Loopback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loopback").field("redirect_uri", &self.redirect_uri).finish_non_exhaustive()
    }
}

/// Opens an address in the browser of the desktop, if there is one. Whether it worked cannot be known.
pub fn open_in_browser(address: &Url) {
    let (program, arguments): (&str, &[&str]) = match std::env::consts::OS {
        "macos" => ("open", &[]),
        "windows" => ("rundll32", &["url.dll,FileProtocolHandler"]),
        _ => ("xdg-open", &[]),
    };
    let mut command = tokio::process::Command::new(program);
    command.args(arguments).arg(address.as_str());
    // Whatever it prints must not end up between our lines.
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if let Err(error) = command.spawn() {
        tracing::debug!(program, %error, "no browser to open");
    }
}

/// Answers one request of a browser. The query, if it is the redirect that is waited for.
async fn receive(mut stream: TcpStream, state: &str) -> io::Result<Option<String>> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        if head.len() > LONGEST_HEAD || stream.read_buf(&mut head).await? == 0 {
            return Ok(None);
        }
    }
    let query = redirect_query(&head).filter(|query| {
        url::form_urlencoded::parse(query.as_bytes()).any(|(name, value)| name == "state" && value == state)
    });
    let (status, text) = match query {
        Some(_) => ("200 OK", "Thank you. You can close this page and go back."),
        None => ("404 Not Found", "Nothing is waiting for this."),
    };
    let answer = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {}\r\n\
         cache-control: no-store\r\nconnection: close\r\n\r\n{text}",
        text.len()
    );
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await?;
    Ok(query)
}

/// The query of a GET of our callback.
fn redirect_query(head: &[u8]) -> Option<String> {
    let line = std::str::from_utf8(head).ok()?.lines().next()?;
    let target = line.strip_prefix("GET ")?.split(' ').next()?;
    target.strip_prefix(CALLBACK)?.strip_prefix('?').map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn get(port: u16, target: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        stream.write_all(format!("GET {target} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn only_the_expected_redirect_ends_the_wait() {
        let (shown, mut seen) = tokio::sync::mpsc::unbounded_channel();
        let loopback = Loopback::bind(0, move |address| shown.send(address.clone()).unwrap()).await.unwrap();
        let port = Url::parse(loopback.redirect_uri()).unwrap().port().unwrap();
        let address = Url::parse("https://as.example/authorize").unwrap();
        let person = async {
            assert_eq!(seen.recv().await.unwrap(), address);
            for other in
                ["/favicon.ico", "/callback", "/callback?code=c&state=other", "/callback?state=other%26state=mine"]
            {
                assert!(get(port, other).await.starts_with("HTTP/1.1 404"), "{other}");
            }
            assert!(get(port, "/callback?code=c&state=mine").await.starts_with("HTTP/1.1 200"));
        };
        let (query, ()) = tokio::join!(loopback.visit(&address, "mine"), person);
        assert_eq!(query.unwrap(), "code=c&state=mine");
    }
}
