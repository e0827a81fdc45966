//! What a browser is shown that is redirected to us.

use gladhand_auth::client::{Page, Visit};
use http::StatusCode;

/// A document that says that all is well.
pub(super) const WELCOME: &str = "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
    <meta name=\"viewport\" content=\"width=device-width\">\n<title>Signed in</title>\n\
    <style>body{font:1.1rem/1.5 system-ui;margin:20vh auto;max-width:26rem;padding:0 1rem;color-scheme:light dark}</style>\n\
    <h1>You are signed in.</h1>\n<p>You can close this page and go back.</p>\n</html>\n";

/// The page for whatever nobody waits for.
pub(super) fn not_found() -> Page {
    Page::text(StatusCode::NOT_FOUND, "Not found.")
}

/// A page that says what is wrong.
pub(super) fn wrong(text: &str) -> Page {
    Page::text(StatusCode::BAD_REQUEST, text)
}

/// Whether a browser asks for this path.
pub(super) fn asks(visit: &Visit, path: &str) -> bool {
    visit.method == "GET" && visit.path == path
}

/// A value of the query that has something in it.
pub(super) fn value(visit: &Visit, name: &str) -> Option<String> {
    visit.value(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
}
