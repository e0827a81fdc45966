//! OpenAI login in a browser on this machine: an authorization code with PKCE.

use std::time::Duration;

use gladhand_auth::client::{Callback, Page, Pkce, Visit, random};
use gladhand_core::Secret;
use http::StatusCode;
use url::Url;

use super::pages::{WELCOME, asks, not_found, value, wrong};
use super::{Method, Step, account, device, quoted, request_failed};
use crate::accounts::credentials::{Issued, OpenAiLogin};
use crate::accounts::web::Answer;
use crate::accounts::{Accounts, EventSink, env};
use gladhand_models::Provider;

/// How long the user has to give consent.
pub(super) const CONSENT_TIMEOUT: Duration = Duration::from_secs(15 * 60);
/// The redirect port that the issuer expects.
const PORT: u16 = 1455;
const SCOPES: &str = "openid profile email offline_access";

/// Runs a login with the requested method.
pub(super) async fn sign_in(
    accounts: &Accounts,
    mode: Option<&str>,
    originator: Option<&str>,
    events: EventSink<'_>,
) -> Result<(Method, OpenAiLogin), String> {
    let client_id = accounts.settings.openai.client_id.as_deref();
    let client_id = client_id
        .ok_or_else(|| format!("no OAuth client id is configured for OpenAI: set {}", env::OPENAI_CLIENT_ID))?;
    let mode = mode.unwrap_or("auto");
    if mode == "device_code" || mode == "auto" && accounts.settings.headless {
        match device::sign_in(accounts, client_id, events).await {
            Err(device::DeviceLoginError::NotEnabled) if mode == "auto" => {}
            Err(trouble) => return Err(trouble.to_string()),
            Ok(login) => return Ok((Method::DeviceCode, login)),
        }
    }
    let originator = originator.unwrap_or(&accounts.settings.identity.name);
    Ok((Method::Browser, in_browser(accounts, client_id, originator, events).await?))
}

async fn in_browser(
    accounts: &Accounts,
    client_id: &str,
    originator: &str,
    events: EventSink<'_>,
) -> Result<OpenAiLogin, String> {
    let (pkce, state) = (Pkce::generate(), random());
    let callback = accounts.callback(PORT).await?;
    let redirect_uri = format!("http://localhost:{}/auth/callback", callback.port());
    let mut url = Url::parse(&format!("{}/oauth/authorize", accounts.settings.openai.issuer))
        .map_err(|_| format!("the value of {} is not a valid address", env::OPENAI_ISSUER))?;
    url.query_pairs_mut()
        .append_pair("response_type", "code")
        .append_pair("client_id", client_id)
        .append_pair("redirect_uri", &redirect_uri)
        .append_pair("scope", SCOPES)
        .append_pair("code_challenge", &pkce.challenge)
        .append_pair("code_challenge_method", "S256")
        .append_pair("id_token_add_organizations", "true")
        .append_pair("codex_cli_simplified_flow", "true")
        .append_pair("originator", originator)
        .append_pair("state", &state);
    Step::Url { provider: Provider::OPENAI, url: url.as_str() }.send(events);
    let code = wait(&callback, &state).await?;
    accounts.show_last_page(callback, |visit| {
        let is_welcome = asks(visit, "/success");
        if is_welcome { (Page::html(WELCOME), Some(())) } else { (not_found(), None) }
    });
    exchange_code(accounts, client_id, &code, &redirect_uri, &pkce.verifier).await
}

async fn wait(callback: &Callback, state: &str) -> Result<Secret, String> {
    let port = callback.port();
    match tokio::time::timeout(CONSENT_TIMEOUT, callback.wait(|visit| respond(visit, state, port))).await {
        Ok(Ok(received)) => received,
        Ok(Err(error)) => Err(format!("could not listen for the browser: {error}")),
        Err(_) => Err("OAuth login timed out after 15 minutes.".to_owned()),
    }
}

/// The page for a request, and its effect on the login.
fn respond(visit: &Visit, state: &str, port: u16) -> (Page, Option<Result<Secret, String>>) {
    let login_failed = |reason: &str| Some(Err(format!("OAuth login failed: {reason}")));
    if asks(visit, "/cancel") {
        return (Page::text(StatusCode::OK, "Login cancelled."), Some(Err("OAuth login cancelled.".to_owned())));
    }
    if asks(visit, "/success") {
        return (Page::html(WELCOME), None);
    }
    if !asks(visit, "/auth/callback") {
        return (not_found(), None);
    }
    if !visit.value("state").is_some_and(|echo| Secret::new(echo).matches(&Secret::new(state))) {
        return (wrong("State mismatch."), login_failed("state mismatch."));
    }
    match value(visit, "code") {
        Some(code) => (Page::redirect(format!("http://localhost:{port}/success")), Some(Ok(Secret::new(code)))),
        None => {
            let reason = value(visit, "error_description").unwrap_or_else(|| "Missing authorization code.".to_owned());
            (wrong(&reason), login_failed(&reason))
        }
    }
}

/// Exchanges a code for a login. Also requests an API key, which not all accounts get.
pub(super) async fn exchange_code(
    accounts: &Accounts,
    client_id: &str,
    code: &Secret,
    redirect_uri: &str,
    verifier: &Secret,
) -> Result<OpenAiLogin, String> {
    const REQUEST_NAME: &str = "OAuth token exchange";
    let address = format!("{}/oauth/token", accounts.settings.openai.issuer);
    let form = [
        ("grant_type", "authorization_code"),
        ("code", code.expose()),
        ("redirect_uri", redirect_uri),
        ("client_id", client_id),
        ("code_verifier", verifier.expose()),
    ];
    let request = accounts.credentials.web.post(&address).map_err(request_failed(REQUEST_NAME))?;
    let answer = Answer::to(request.form(&form)).await.map_err(request_failed(REQUEST_NAME))?;
    if !answer.is_success() {
        let quoted = quoted(&answer, &[code.expose(), verifier.expose()]);
        return Err(format!("{REQUEST_NAME} failed ({}): {quoted}", answer.status));
    }
    let issued = answer.read::<Issued>();
    let (Some(id), Some(access), Some(refresh)) =
        issued.map(|issued| (issued.id_token, issued.access_token, issued.refresh_token)).unwrap_or_default()
    else {
        return Err(format!("{REQUEST_NAME} returned an incomplete payload."));
    };
    let mut login = OpenAiLogin {
        access: Secret::new(access),
        account: None,
        refresh: Some(Secret::new(refresh)),
        id: Some(Secret::new(id)),
        api_key: None,
    };
    login.account = account(&login);
    login.api_key = api_key(accounts, &address, client_id, &login).await;
    Ok(login)
}

async fn api_key(accounts: &Accounts, address: &str, client_id: &str, login: &OpenAiLogin) -> Option<Secret> {
    let form = [
        ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
        ("client_id", client_id),
        ("requested_token", "openai-api-key"),
        ("subject_token", login.id.as_ref()?.expose()),
        ("subject_token_type", "urn:ietf:params:oauth:token-type:id_token"),
    ];
    let answer = Answer::to(accounts.credentials.web.post(address).ok()?.form(&form)).await.ok()?;
    let issued: Issued = answer.read().filter(|_| answer.is_success())?;
    issued.access_token.map(Secret::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirect_requests_get_the_expected_pages() {
        let visit = |target: &str| {
            let (path, query) = target.split_once('?').unwrap_or((target, ""));
            Visit { method: "GET".to_owned(), path: path.to_owned(), query: query.to_owned() }
        };
        let login_failed = |reason: &str| Some(Err(format!("OAuth login {reason}")));
        for (target, page, outcome) in [
            ("/auth/callback?state=s&code=c", Page::redirect("http://localhost:9/success"), Some(Ok("c".to_owned()))),
            ("/auth/callback?state=t&code=c", wrong("State mismatch."), login_failed("failed: state mismatch.")),
            ("/auth/callback?code=c", wrong("State mismatch."), login_failed("failed: state mismatch.")),
            (
                "/auth/callback?state=s&error=denied&error_description=user+said+no",
                wrong("user said no"),
                login_failed("failed: user said no"),
            ),
            (
                "/auth/callback?state=s&error=denied",
                wrong("Missing authorization code."),
                login_failed("failed: Missing authorization code."),
            ),
            ("/cancel", Page::text(StatusCode::OK, "Login cancelled."), login_failed("cancelled.")),
            ("/success", Page::html(WELCOME), None),
            ("/favicon.ico", not_found(), None),
        ] {
            let (shown, received) = respond(&visit(target), "s", 9);
            let received = received.map(|received| received.map(|code| code.expose().to_owned()));
            assert_eq!((shown, received), (page, outcome), "{target}");
        }
    }
}
