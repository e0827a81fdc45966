//! Antigravity login: a Google authorization code with PKCE and a required state.

use std::time::Duration;

use gladhand_auth::client::{Page, Pkce, Visit, random};
use gladhand_core::Secret;
use http::StatusCode;
use serde_json::Value;

use super::pages::{asks, not_found, value, wrong};
use super::{Profile, Step, quoted, request_failed};
use crate::accounts::credentials::{GoogleLogin, Issued, unix_now};
use crate::accounts::web::Answer;
use crate::accounts::{Accounts, EventSink, env};
use gladhand_models::Provider;

/// How long the user has to give consent.
const CONSENT_TIMEOUT: Duration = Duration::from_secs(10 * 60);
/// A short timeout, because the profile can also be fetched later.
const PROFILE_TIMEOUT: Duration = Duration::from_secs(5);
/// The requested scopes, each relative to [`SCOPE_BASE`].
const SCOPES: [&str; 5] = ["cloud-platform", "userinfo.email", "userinfo.profile", "cclog", "experimentsandconfigs"];
const SCOPE_BASE: &str = "https://www.googleapis.com/auth/";

/// Runs the login.
pub(super) async fn sign_in(accounts: &Accounts, events: EventSink<'_>) -> Result<GoogleLogin, String> {
    const REQUEST_NAME: &str = "OAuth token exchange";
    let endpoints = &accounts.settings.google;
    let client_id = endpoints.client_id.as_deref();
    let client_id = client_id.ok_or_else(|| {
        format!(
            "no OAuth client id is configured for antigravity: set {} and {}",
            env::GOOGLE_CLIENT_ID,
            env::GOOGLE_CLIENT_SECRET
        )
    })?;
    let (pkce, state) = (Pkce::generate(), random());
    let callback = accounts.callback(0).await?;
    let redirect_uri = format!("http://localhost:{}/oauth-callback", callback.port());
    let scopes = SCOPES.map(|scope| format!("{SCOPE_BASE}{scope}")).join(" ");
    let parameters = [
        ("access_type", "offline"),
        ("scope", &scopes),
        ("state", &state),
        ("prompt", "consent"),
        ("response_type", "code"),
        ("client_id", client_id),
        ("redirect_uri", &redirect_uri),
        ("code_challenge", &pkce.challenge),
        ("code_challenge_method", "S256"),
    ];
    let query = parameters.map(|(name, value)| format!("{name}={}", encoded(value))).join("&");
    Step::Url { provider: Provider::ANTIGRAVITY, url: &format!("{}?{query}", endpoints.authorize) }.send(events);

    let code = match tokio::time::timeout(CONSENT_TIMEOUT, callback.wait(|visit| respond(visit, &state))).await {
        Ok(Ok(received)) => received?,
        Ok(Err(error)) => return Err(format!("could not listen for the browser: {error}")),
        Err(_) => return Err("OAuth login cancelled.".to_owned()),
    };
    accounts.show_last_page(callback, |visit| {
        let is_welcome = asks(visit, "/oauth-success");
        if is_welcome { (welcome(), Some(())) } else { (not_found(), None) }
    });

    let mut form = vec![
        ("client_id", client_id),
        ("code", code.expose()),
        ("grant_type", "authorization_code"),
        ("redirect_uri", &redirect_uri),
        ("code_verifier", pkce.verifier.expose()),
    ];
    let client_secret = endpoints.client_secret.as_ref().map_or("", Secret::expose);
    if !client_secret.is_empty() {
        form.push(("client_secret", client_secret));
    }
    let request = accounts.credentials.web.post(&endpoints.token).map_err(request_failed(REQUEST_NAME))?;
    let answer = Answer::to(request.form(&form)).await.map_err(request_failed(REQUEST_NAME))?;
    if !answer.is_success() {
        let payload = quoted(&answer, &[code.expose(), pkce.verifier.expose(), client_secret]);
        return Err(format!("{REQUEST_NAME} failed ({}): {payload}", answer.status));
    }
    let issued = answer.read::<Issued>().and_then(|issued| Some((issued.access_token.clone()?, issued)));
    let (access, issued) = issued.ok_or_else(|| format!("{REQUEST_NAME} returned an incomplete payload."))?;
    Ok(GoogleLogin {
        access: Secret::new(access),
        refresh: issued.refresh_token.map(Secret::new),
        expires: unix_now() + issued.expires_in.unwrap_or(GoogleLogin::USUAL),
        kind: issued.token_type.unwrap_or_else(|| "Bearer".to_owned()),
    })
}

/// Fetches the profile of the user.
pub(super) async fn profile(accounts: &Accounts, login: &GoogleLogin) -> Option<Profile> {
    let request = accounts.credentials.web.get(&accounts.settings.google.profile).ok()?;
    let request = request.timeout(PROFILE_TIMEOUT).bearer_auth(login.access.expose());
    let answer = Answer::to(request).await.ok()?;
    let payload: Value = answer.read().filter(|_| answer.is_success())?;
    let text = |name: &str| payload[name].as_str().map(str::to_owned);
    let (email, name) = (text("email"), text("name"));
    if email.is_none() && name.is_none() {
        return None;
    }
    Some(Profile { email: email.unwrap_or_default(), name: name.unwrap_or_default(), picture: text("picture") })
}

/// The page for a request, and its effect on the login.
fn respond(visit: &Visit, state: &str) -> (Page, Option<Result<Secret, String>>) {
    if visit.method == "OPTIONS" {
        let page = Page::text(StatusCode::OK, "")
            .with("access-control-allow-origin", "*")
            .with("access-control-allow-methods", "GET, OPTIONS")
            .with("access-control-allow-headers", "*");
        return (page, None);
    }
    if asks(visit, "/oauth-success") {
        return (welcome(), None);
    }
    if !asks(visit, "/oauth-callback") {
        return (not_found(), None);
    }
    if let Some(error) = value(visit, "error") {
        let reason = value(visit, "error_description").unwrap_or(error);
        let outcome = Err(format!("OAuth authorization failed: {reason}"));
        return (wrong(&format!("Authentication failed: {reason}")), Some(outcome));
    }
    let Some(code) = value(visit, "code") else { return (wrong("Missing authorization code."), None) };
    if !visit.value("state").is_some_and(|echo| Secret::new(echo).matches(&Secret::new(state))) {
        let outcome = Err("OAuth login rejected due to state mismatch.".to_owned());
        return (wrong("State mismatch."), Some(outcome));
    }
    (Page::redirect("/oauth-success"), Some(Ok(Secret::new(code))))
}

fn welcome() -> Page {
    Page::text(StatusCode::OK, "You are signed in. You can close this page and go back.")
}

/// Encodes a query value, with a blank as `%20`.
fn encoded(value: &str) -> String {
    url::form_urlencoded::byte_serialize(value.as_bytes()).collect::<String>().replace('+', "%20")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirect_requests_get_the_expected_pages() {
        let visit = |method: &str, target: &str| {
            let (path, query) = target.split_once('?').unwrap_or((target, ""));
            Visit { method: method.to_owned(), path: path.to_owned(), query: query.to_owned() }
        };
        let mismatch = || Some(Err("OAuth login rejected due to state mismatch.".to_owned()));
        let denied = |reason: &str| {
            (
                wrong(&format!("Authentication failed: {reason}")),
                Some(Err(format!("OAuth authorization failed: {reason}"))),
            )
        };
        for (target, expected) in [
            ("/oauth-callback?code=c&state=s", (Page::redirect("/oauth-success"), Some(Ok("c".to_owned())))),
            ("/oauth-callback?code=c&state=t", (wrong("State mismatch."), mismatch())),
            // The reference implementation accepts a code without a state; this one does not.
            ("/oauth-callback?code=c", (wrong("State mismatch."), mismatch())),
            ("/oauth-callback?error=access_denied", denied("access_denied")),
            ("/oauth-callback?error=x&error_description=not+today", denied("not today")),
            ("/oauth-callback?state=s", (wrong("Missing authorization code."), None)),
            ("/oauth-success", (welcome(), None)),
            ("/", (not_found(), None)),
        ] {
            let (page, received) = respond(&visit("GET", target), "s");
            let received = received.map(|received| received.map(|code| code.expose().to_owned()));
            assert_eq!((page, received), expected, "{target}");
        }
        assert!(respond(&visit("OPTIONS", "/oauth-callback?code=c&state=s"), "s").1.is_none());
    }
}
