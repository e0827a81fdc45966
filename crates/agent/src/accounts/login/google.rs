//! Antigravity login: a Google authorization code with PKCE and a required state.

use std::time::Duration;

use gladhand_auth::client::{Page, Pkce, Visit, random};
use gladhand_core::Secret;
use http::StatusCode;
use serde_json::Value;

use super::pages::{asks, not_found, value, wrong};
use super::{Profile, Step, quoted, unanswered};
use crate::accounts::credentials::{GoogleLogin, Issued, unix_now};
use crate::accounts::provider::Provider;
use crate::accounts::web::Answer;
use crate::accounts::{Accounts, Tell, env};

/// How long the user has to give consent.
const PATIENCE: Duration = Duration::from_secs(10 * 60);
/// A short timeout, because the profile can also be fetched later.
const PROFILE_PATIENCE: Duration = Duration::from_secs(5);
/// The requested scopes, each relative to [`SCOPE_BASE`].
const SCOPES: [&str; 5] = ["cloud-platform", "userinfo.email", "userinfo.profile", "cclog", "experimentsandconfigs"];
const SCOPE_BASE: &str = "https://www.googleapis.com/auth/";

/// Runs the login.
pub(super) async fn sign_in(accounts: &Accounts, tell: Tell<'_>) -> Result<GoogleLogin, String> {
    const WHAT: &str = "OAuth token exchange";
    let places = &accounts.settings.google;
    let client_id = places.client_id.as_deref();
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
    Step::Url { provider: Provider::Antigravity, url: &format!("{}?{query}", places.authorize) }.tell(tell);

    let code = match tokio::time::timeout(PATIENCE, callback.wait(|visit| greet(visit, &state))).await {
        Ok(Ok(brought)) => brought?,
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
    let client_secret = places.client_secret.as_ref().map_or("", Secret::expose);
    if !client_secret.is_empty() {
        form.push(("client_secret", client_secret));
    }
    let request = accounts.credentials.web.post(&places.token).map_err(unanswered(WHAT))?;
    let answer = Answer::to(request.form(&form)).await.map_err(unanswered(WHAT))?;
    if !answer.is_success() {
        let said = quoted(&answer, &[code.expose(), pkce.verifier.expose(), client_secret]);
        return Err(format!("{WHAT} failed ({}): {said}", answer.status));
    }
    let issued = answer.read::<Issued>().and_then(|issued| Some((issued.access_token.clone()?, issued)));
    let (access, issued) = issued.ok_or_else(|| format!("{WHAT} returned an incomplete payload."))?;
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
    let request = request.timeout(PROFILE_PATIENCE).bearer_auth(login.access.expose());
    let answer = Answer::to(request).await.ok()?;
    let said: Value = answer.read().filter(|_| answer.is_success())?;
    let text = |name: &str| said[name].as_str().map(str::to_owned);
    let (email, name) = (text("email"), text("name"));
    if email.is_none() && name.is_none() {
        return None;
    }
    Some(Profile { email: email.unwrap_or_default(), name: name.unwrap_or_default(), picture: text("picture") })
}

/// The page for a request, and its effect on the login.
fn greet(visit: &Visit, state: &str) -> (Page, Option<Result<Secret, String>>) {
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
            let (page, brought) = greet(&visit("GET", target), "s");
            let brought = brought.map(|brought| brought.map(|code| code.expose().to_owned()));
            assert_eq!((page, brought), expected, "{target}");
        }
        assert!(greet(&visit("OPTIONS", "/oauth-callback?code=c&state=s"), "s").1.is_none());
    }
}
