//! OpenAI login with a code that the user enters on another device. It resembles RFC 8628, but is a different
//! protocol.

use std::time::Duration;

use gladhand_core::Secret;
use serde_json::{Value, json};

use super::openai::{CONSENT_TIMEOUT, exchange_code};
use super::{Step, number, quoted, request_failed};
use crate::accounts::credentials::OpenAiLogin;
use crate::accounts::web::Answer;
use crate::accounts::{Accounts, EventSink};
use gladhand_models::Provider;

/// Why the login failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum DeviceLoginError {
    /// The issuer does not support device codes.
    #[error("Device code login is not enabled for this OAuth issuer.")]
    NotEnabled,
    /// Any other reason.
    #[error("{0}")]
    Other(String),
}

impl From<String> for DeviceLoginError {
    fn from(text: String) -> Self {
        Self::Other(text)
    }
}

/// A login that the user must confirm.
struct Pending {
    id: Secret,
    user_code: String,
    interval: u64,
    expires_in: u64,
}

/// Shows a code, and waits until the user has entered it.
pub(super) async fn sign_in(
    accounts: &Accounts,
    client_id: &str,
    events: EventSink<'_>,
) -> Result<OpenAiLogin, DeviceLoginError> {
    let issuer = &accounts.settings.openai.issuer;
    let pending = begin(accounts, client_id).await?;
    let page = format!("{issuer}/codex/device");
    Step::Url { provider: Provider::OPENAI, url: &page }.send(events);
    Step::DeviceCode {
        provider: Provider::OPENAI,
        verification_url: &page,
        user_code: &pending.user_code,
        interval_seconds: pending.interval,
        expires_in_seconds: pending.expires_in,
    }
    .send(events);
    let confirmed = tokio::time::timeout(CONSENT_TIMEOUT, confirmed(accounts, &pending)).await;
    let (code, verifier) = confirmed
        .map_err(|_| DeviceLoginError::Other("OAuth device login timed out after 15 minutes.".to_owned()))??;
    Ok(exchange_code(accounts, client_id, &code, &format!("{issuer}/deviceauth/callback"), &verifier).await?)
}

async fn begin(accounts: &Accounts, client_id: &str) -> Result<Pending, DeviceLoginError> {
    const REQUEST_NAME: &str = "Device code request";
    let answer = post(accounts, REQUEST_NAME, "usercode", &json!({"client_id": client_id})).await?;
    match answer.status {
        404 => return Err(DeviceLoginError::NotEnabled),
        status if !answer.is_success() => {
            return Err(format!("{REQUEST_NAME} failed ({status}): {}", quoted(&answer, &[])).into());
        }
        _ => {}
    }
    let payload: Value = answer.read().unwrap_or_default();
    let text = |names: &[&str]| {
        let texts = names.iter().filter_map(|name| payload[name].as_str());
        texts.map(str::trim).find(|text| !text.is_empty()).map(str::to_owned)
    };
    let (Some(id), Some(user_code)) = (text(&["device_auth_id"]), text(&["user_code", "usercode"])) else {
        return Err(format!("{REQUEST_NAME} returned an incomplete payload.").into());
    };
    let (interval, expires_in) = (number(&payload["interval"], 5), number(&payload["expires_in"], 900));
    Ok(Pending { id: Secret::new(id), user_code, interval, expires_in })
}

/// Polls for the authorization code and its verifier. In this protocol the issuer creates both.
async fn confirmed(accounts: &Accounts, pending: &Pending) -> Result<(Secret, Secret), DeviceLoginError> {
    const REQUEST_NAME: &str = "Device code poll";
    let request = json!({"device_auth_id": pending.id.expose(), "user_code": pending.user_code});
    loop {
        let answer = post(accounts, REQUEST_NAME, "token", &request).await?;
        match answer.status {
            403 | 404 => tokio::time::sleep(Duration::from_secs(pending.interval)).await,
            status if !answer.is_success() => {
                return Err(
                    format!("{REQUEST_NAME} failed ({status}): {}", quoted(&answer, &[pending.id.expose()])).into()
                );
            }
            _ => {
                let payload: Value = answer.read().unwrap_or_default();
                let secret = |name: &str| payload[name].as_str().map(Secret::new);
                let both = secret("authorization_code").zip(secret("code_verifier"));
                return Ok(both.ok_or_else(|| format!("{REQUEST_NAME} returned an incomplete payload."))?);
            }
        }
    }
}

async fn post(
    accounts: &Accounts,
    request_name: &'static str,
    name: &str,
    body: &Value,
) -> Result<Answer, DeviceLoginError> {
    let address = format!("{}/api/accounts/deviceauth/{name}", accounts.settings.openai.issuer);
    let request = accounts.credentials.web.post(&address).map_err(request_failed(request_name))?;
    Ok(Answer::to(request.json(body)).await.map_err(request_failed(request_name))?)
}
