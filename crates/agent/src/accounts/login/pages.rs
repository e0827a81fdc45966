//! The pages that the redirect address shows in the browser.

use gladhand_auth::client::{Page, Visit};
use http::StatusCode;

/// The page after a successful login.
pub(super) const WELCOME: &str = "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
    <meta name=\"viewport\" content=\"width=device-width\">\n<title>Signed in</title>\n\
    <style>body{font:1.1rem/1.5 system-ui;margin:20vh auto;max-width:26rem;padding:0 1rem;color-scheme:light dark}</style>\n\
    <h1>You are signed in.</h1>\n<p>You can close this page and go back.</p>\n</html>\n";

/// The page for any other path.
pub(super) fn not_found() -> Page {
    Page::text(StatusCode::NOT_FOUND, "Not found.")
}

/// A page with an error message.
pub(super) fn wrong(text: &str) -> Page {
    Page::text(StatusCode::BAD_REQUEST, text)
}

/// Whether a browser requests this path.
pub(super) fn asks(visit: &Visit, path: &str) -> bool {
    visit.method == "GET" && visit.path == path
}

/// A query value that is not empty.
pub(super) fn value(visit: &Visit, name: &str) -> Option<String> {
    visit.value(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
}
