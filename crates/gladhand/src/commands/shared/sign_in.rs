//! Getting into servers that want authorization: a person agrees in a browser once, and the tokens are kept.

use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gladhand_auth::client::{Authorizer, Browser, Flow, Loopback, Options, Pending, open_in_browser};
use gladhand_auth::{AuthError, Roots};
use url::Url;

use crate::authorization::KeptTokens;
use crate::config;

/// How a person is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::commands) enum Manner {
    /// While they wait for something else, and only if they are there.
    InPassing,
    /// They came to sign in, and want the page opened.
    OnPurpose,
    /// They came to sign in, and open the page themselves.
    WithoutBrowser,
}

/// An authorizer for the server at this address; none where no credentials may be sent to it. `asked` becomes true when
/// a person is asked to sign in.
pub(in crate::commands) async fn authorizer(
    server: &Url,
    manner: Manner,
    roots: &Roots,
    asked: Arc<AtomicBool>,
) -> Option<Authorizer> {
    let show = move |address: &Url| {
        asked.store(true, Ordering::Relaxed);
        show(address, manner);
    };
    let browser: Arc<dyn Browser> = match manner {
        Manner::InPassing if !is_interactive() => Arc::new(NoBrowser),
        _ => Arc::new(Loopback::bind(0, show).await.ok()?),
    };
    with_browser(server, browser, roots)
}

/// The same, without asking a user.
pub(in crate::commands) fn non_interactive_authorizer(server: &Url, roots: &Roots) -> Option<Authorizer> {
    with_browser(server, Arc::new(NoBrowser), roots)
}

fn with_browser(server: &Url, browser: Arc<dyn Browser>, roots: &Roots) -> Option<Authorizer> {
    let options = Options {
        server: server.clone(),
        flow: Flow::Code(browser),
        client: None,
        client_metadata_url: None,
        client_name: "Gladhand".to_owned(),
        store: Arc::new(tokens()?),
        roots: roots.clone(),
    };
    Authorizer::new(options).inspect_err(|error| tracing::debug!(%error, "no credentials for this address")).ok()
}

/// The tokens of this user; none without a home.
pub(in crate::commands) fn tokens() -> Option<KeptTokens> {
    let named = std::env::var_os(config::env::DATA_DIR).map(PathBuf::from);
    config::data_dir(named.as_deref()).map(KeptTokens::at)
}

/// Whether a user can be asked at this terminal: stdin and stderr are terminals.
pub(in crate::commands) fn is_interactive() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Shows the whole address, so that the user sees where it leads before opening it.
fn show(address: &Url, manner: Manner) {
    let words = match manner {
        Manner::InPassing => "The server wants you to sign in. If no browser opens, open this page:",
        Manner::OnPurpose => "If no browser opens, open this page to sign in:",
        Manner::WithoutBrowser => "Open this page on this machine to sign in:",
    };
    // If stderr is closed, the message is lost. The status line of a command that waits may be there.
    let clear = if std::io::stderr().is_terminal() { "\r\u{1b}[K" } else { "" };
    let _ = writeln!(anstream::stderr(), "{clear}{words}\n{address}");
    if manner != Manner::WithoutBrowser {
        open_in_browser(address, &config::env::never_passed_on());
    }
}

/// A browser for processes without a terminal: only stored tokens can be used.
struct NoBrowser;

impl Browser for NoBrowser {
    fn redirect_uri(&self) -> &str {
        "http://127.0.0.1/callback"
    }

    fn visit<'a>(&'a self, _address: &'a Url, _state: &'a str) -> Pending<'a, Result<String, AuthError>> {
        // The hint is part of the text: the error may become a failed call of a client.
        let error = "cannot sign in without a terminal (`gladhand login` signs in once)";
        Box::pin(std::future::ready(Err(AuthError::Browser(error.to_owned()))))
    }
}
