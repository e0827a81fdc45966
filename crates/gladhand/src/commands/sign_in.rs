//! Getting into servers that want authorization: a person agrees in a browser once, and the tokens are kept.

use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gladhand_auth::AuthError;
use gladhand_auth::client::{Authorizer, Browser, FileStore, Flow, Loopback, Options, Pending, open_in_browser};
use url::Url;

use crate::config;

/// The file of the data folder that tokens are kept in.
const TOKENS: &str = "tokens.json";

/// Somebody who can get into the server at this address; none where no credentials may travel to it. `asked` becomes
/// true when a person is asked to sign in.
pub(super) async fn authorizer(server: &Url, asked: Arc<AtomicBool>) -> Option<Authorizer> {
    let show = move |address: &Url| {
        asked.store(true, Ordering::Relaxed);
        show(address);
    };
    let browser: Arc<dyn Browser> = match is_anybody_there() {
        true => Arc::new(Loopback::bind(0, show).await.ok()?),
        false => Arc::new(Nobody),
    };
    with_browser(server, browser)
}

/// The same where nobody is to be asked.
pub(super) fn authorizer_for_nobody(server: &Url) -> Option<Authorizer> {
    with_browser(server, Arc::new(Nobody))
}

fn with_browser(server: &Url, browser: Arc<dyn Browser>) -> Option<Authorizer> {
    let named = std::env::var_os(config::env::DATA_DIR).map(PathBuf::from);
    let folder = config::data_dir(named.as_deref())?;
    let options = Options {
        server: server.clone(),
        flow: Flow::Code(browser),
        client: None,
        client_metadata_url: None,
        client_name: "Gladhand".to_owned(),
        store: Arc::new(FileStore::at(folder.join(TOKENS))),
    };
    Authorizer::new(options).inspect_err(|error| tracing::debug!(%error, "no credentials for this address")).ok()
}

/// Whether somebody sits at the terminal.
pub(super) fn is_anybody_there() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// The address goes before the person in full: whoever opens it should see where it leads.
fn show(address: &Url) {
    // Nobody reads stderr: then there is nobody to tell.
    let _ = writeln!(
        anstream::stderr(),
        "The server wants you to sign in. If no browser opens, open this page:\n{address}"
    );
    open_in_browser(address);
}

/// Where there is no person, only tokens that are kept get in.
struct Nobody;

impl Browser for Nobody {
    fn redirect_uri(&self) -> &str {
        "http://127.0.0.1/callback"
    }

    fn visit<'a>(&'a self, _address: &'a Url, _state: &'a str) -> Pending<'a, Result<String, AuthError>> {
        let nobody = AuthError::Browser("nobody is there to sign in: run this once in a terminal".to_owned());
        Box::pin(std::future::ready(Err(nobody)))
    }
}
