//! The interactive step: opens an authorization address in a browser, and receives the redirect.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::Ipv4Addr;
use std::pin::Pin;
use std::process::Stdio;
use std::time::Duration;

use http::StatusCode;
use tokio::sync::Mutex;
use url::Url;

use super::callback::{Callback, Page, Visit};
use crate::error::AuthError;

/// How long the user has to give consent.
const TIMEOUT: Duration = Duration::from_secs(300);
/// The path of the redirect address.
const PATH: &str = "/callback";

/// A boxed future, as methods of trait objects return it.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Sends the user to an authorization address, and returns the query of the redirect.
pub trait Browser: Send + Sync {
    /// The redirect address. It never changes, because it becomes part of registrations.
    fn redirect_uri(&self) -> &str;

    /// Visits the address and returns the query of the redirect that answers it. `state` distinguishes this
    /// redirect from others that may arrive.
    fn visit<'a>(&'a self, address: &'a Url, state: &'a str) -> Pending<'a, Result<String, AuthError>>;
}

/// Shows the address to the user, and listens on loopback for the redirect.
pub struct Loopback {
    redirect_uri: String,
    /// Locked during a visit, so that there is one at a time.
    callback: Mutex<Callback>,
    show: Box<dyn Fn(&Url) + Send + Sync>,
}

impl Loopback {
    /// Listens on a loopback port (0: any free port). `show` presents an address to the user, for instance by
    /// printing it and calling [`open_in_browser`].
    pub async fn bind(port: u16, show: impl Fn(&Url) + Send + Sync + 'static) -> io::Result<Self> {
        let callback = Callback::bind(port).await?;
        let redirect_uri = format!("http://{}:{}{PATH}", Ipv4Addr::LOCALHOST, callback.port());
        Ok(Self { redirect_uri, callback: Mutex::new(callback), show: Box::new(show) })
    }

    async fn redirected(&self, address: &Url, state: &str) -> Result<String, AuthError> {
        let callback = self.callback.lock().await;
        (self.show)(address);
        callback.wait(|visit| respond(visit, state)).await.map_err(|error| AuthError::Browser(error.to_string()))
    }
}

impl Browser for Loopback {
    fn redirect_uri(&self) -> &str {
        &self.redirect_uri
    }

    fn visit<'a>(&'a self, address: &'a Url, state: &'a str) -> Pending<'a, Result<String, AuthError>> {
        Box::pin(async move {
            match tokio::time::timeout(TIMEOUT, self.redirected(address, state)).await {
                Ok(redirected) => redirected,
                Err(_) => Err(AuthError::Browser("consent was not given in time".to_owned())),
            }
        })
    }
}

impl fmt::Debug for Loopback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loopback").field("redirect_uri", &self.redirect_uri).finish_non_exhaustive()
    }
}

/// Opens an address in the desktop browser, if there is one. The result is unknown. Only web addresses are opened:
/// for others the desktop would start other programs. The browser does not get the variables in `hidden`.
pub fn open_in_browser(address: &Url, hidden: &[String]) {
    let Some(address) = encoded(address) else {
        tracing::debug!("not a web address, not opened in a browser");
        return;
    };
    let (program, arguments): (&str, &[&str]) = match std::env::consts::OS {
        "macos" => ("open", &[]),
        "windows" => ("rundll32", &["url.dll,FileProtocolHandler"]),
        _ => ("xdg-open", &[]),
    };
    let mut command = tokio::process::Command::new(program);
    command.args(arguments).arg(address);
    for name in hidden {
        command.env_remove(name);
    }
    // The output of the browser must not mix with our output lines.
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if let Err(error) = command.spawn() {
        tracing::debug!(program, %error, "could not start a browser");
    }
}

/// An address that is safe to pass to programs that open it. `None` if it is not a web address.
///
/// We start no shell, but some of these programs are shell scripts. So every character with a special meaning in a
/// shell is encoded: control characters, blanks, quotes, expansions and command separators.
fn encoded(address: &Url) -> Option<String> {
    let is_of_web = matches!(address.scheme(), "http" | "https") && address.has_host();
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:/?#[]@&+,=%".contains(&byte);
    let encode = |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    is_of_web.then(|| address.as_str().bytes().map(encode).collect())
}

/// Returns the query if this is the expected redirect, and the page to show.
fn respond(visit: &Visit, state: &str) -> (Page, Option<String>) {
    if visit.method == "GET" && visit.path == PATH && visit.value("state").is_some_and(|echo| echo == state) {
        let page = Page::text(StatusCode::OK, "Thank you. You can close this page and go back.");
        return (page, Some(visit.query.clone()));
    }
    (Page::text(StatusCode::NOT_FOUND, "No sign-in is waiting for this request."), None)
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;

    async fn get(port: u16, target: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        stream.write_all(format!("GET {target} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[test]
    fn the_address_for_the_browser_is_encoded() {
        let shown = |address: &str| encoded(&Url::parse(address).unwrap());
        let hostile = "https://as.example/a'b\"c`d$(touch x);e|f<g>*\n?q='x\"&y=$z`w^{}\\ #f'\"g";
        let opened = shown(hostile).unwrap();
        assert!(opened.starts_with("https://as.example/a%27b%22c%60d%24%28touch%20x%29%3Be%7Cf%3Cg%3E%2A"), "{opened}");
        let is_harmless = |letter: char| letter.is_ascii_alphanumeric() || "-._~:/?#[]@&+,=%".contains(letter);
        assert!(opened.chars().all(is_harmless), "{opened}");
        let usual =
            "https://as.example/authorize?response_type=code&scope=a%20b&redirect_uri=http%3A%2F%2F127.0.0.1%3A1";
        assert_eq!(shown(usual).as_deref(), Some(usual), "an encoded address does not change");
        for other in ["file:///etc/passwd", "javascript:alert(1)", "data:text/html,x", "ms-msdt:/id", "mailto:a@b"] {
            assert_eq!(shown(other), None, "{other}");
        }
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
