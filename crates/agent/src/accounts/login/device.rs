//! OpenAI login with a code that the user enters on another device. It resembles RFC 8628, but is a different
//! protocol.

use std::time::Duration;

use gladhand_core::Secret;
use serde_json::{Value, json};

use super::openai::{PATIENCE, trade};
use super::{Step, number, quoted, unanswered};
use crate::accounts::credentials::OpenAiLogin;
use crate::accounts::provider::Provider;
use crate::accounts::web::Answer;
use crate::accounts::{Accounts, Tell};

/// Why the login failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Trouble {
    /// The issuer does not support device codes.
    #[error("Device code login is not enabled for this OAuth issuer.")]
    NotEnabled,
    /// Any other reason.
    #[error("{0}")]
    Other(String),
}

impl From<String> for Trouble {
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
pub(super) async fn sign_in(accounts: &Accounts, client_id: &str, tell: Tell<'_>) -> Result<OpenAiLogin, Trouble> {
    let issuer = &accounts.settings.openai.issuer;
    let pending = begin(accounts, client_id).await?;
    let page = format!("{issuer}/codex/device");
    Step::Url { provider: Provider::OpenAi, url: &page }.tell(tell);
    Step::DeviceCode {
        provider: Provider::OpenAi,
        verification_url: &page,
        user_code: &pending.user_code,
        interval_seconds: pending.interval,
        expires_in_seconds: pending.expires_in,
    }
    .tell(tell);
    let confirmed = tokio::time::timeout(PATIENCE, confirmed(accounts, &pending)).await;
    let (code, verifier) =
        confirmed.map_err(|_| Trouble::Other("OAuth device login timed out after 15 minutes.".to_owned()))??;
    Ok(trade(accounts, client_id, &code, &format!("{issuer}/deviceauth/callback"), &verifier).await?)
}

async fn begin(accounts: &Accounts, client_id: &str) -> Result<Pending, Trouble> {
    const WHAT: &str = "Device code request";
    let answer = post(accounts, WHAT, "usercode", &json!({"client_id": client_id})).await?;
    match answer.status {
        404 => return Err(Trouble::NotEnabled),
        status if !answer.is_success() => {
            return Err(format!("{WHAT} failed ({status}): {}", quoted(&answer, &[])).into());
        }
        _ => {}
    }
    let said: Value = answer.read().unwrap_or_default();
    let text = |names: &[&str]| {
        let texts = names.iter().filter_map(|name| said[name].as_str());
        texts.map(str::trim).find(|text| !text.is_empty()).map(str::to_owned)
    };
    let (Some(id), Some(user_code)) = (text(&["device_auth_id"]), text(&["user_code", "usercode"])) else {
        return Err(format!("{WHAT} returned an incomplete payload.").into());
    };
    let (interval, expires_in) = (number(&said["interval"], 5), number(&said["expires_in"], 900));
    Ok(Pending { id: Secret::new(id), user_code, interval, expires_in })
}

/// Polls for the authorization code and its verifier. In this protocol the issuer creates both.
async fn confirmed(accounts: &Accounts, pending: &Pending) -> Result<(Secret, Secret), Trouble> {
    const WHAT: &str = "Device code poll";
    let question = json!({"device_auth_id": pending.id.expose(), "user_code": pending.user_code});
    loop {
        let answer = post(accounts, WHAT, "token", &question).await?;
        match answer.status {
            403 | 404 => tokio::time::sleep(Duration::from_secs(pending.interval)).await,
            status if !answer.is_success() => {
                return Err(format!("{WHAT} failed ({status}): {}", quoted(&answer, &[pending.id.expose()])).into());
            }
            _ => {
                let said: Value = answer.read().unwrap_or_default();
                let secret = |name: &str| said[name].as_str().map(Secret::new);
                let both = secret("authorization_code").zip(secret("code_verifier"));
                return Ok(both.ok_or_else(|| format!("{WHAT} returned an incomplete payload."))?);
            }
        }
    }
}

async fn post(accounts: &Accounts, what: &'static str, name: &str, body: &Value) -> Result<Answer, Trouble> {
    let address = format!("{}/api/accounts/deviceauth/{name}", accounts.settings.openai.issuer);
    let request = accounts.credentials.web.post(&address).map_err(unanswered(what))?;
    Ok(Answer::to(request.json(body)).await.map_err(unanswered(what))?)
}
