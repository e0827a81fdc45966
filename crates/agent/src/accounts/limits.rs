//! Remaining usage limits of subscriptions (§9.7).

use gladhand_core::operations::Failure;
use gladhand_models::{ModelError, Provider, Quota};
use serde::Serialize;
use serde_json::{Number, Value};

use super::web::Answer;
use super::{Accounts, failure};

/// The remaining limits at each provider with a login.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Limits {
    openai: Option<Report<OpenAiLimits>>,
    antigravity: Option<Report<AntigravityLimits>>,
}

/// The result of one provider.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
enum Report<T> {
    Fetched { ok: bool, snapshot: T },
    Failed { ok: bool, message: String },
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct OpenAiLimits {
    plan_type: Option<String>,
    primary: Option<Window>,
    secondary: Option<Window>,
}

/// The usage within a time window.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Window {
    used_percent: Number,
    remaining_percent: Number,
    limit_window_seconds: Option<Number>,
    reset_at_epoch_seconds: Option<Number>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct AntigravityLimits {
    models: Vec<ModelLimit>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct ModelLimit {
    name: String,
    remaining_percent: u8,
    reset_time: Option<String>,
}

impl Accounts {
    /// Fetches the remaining limits from all providers with a login.
    pub async fn limits(&self) -> Result<Limits, Failure> {
        let held = self.credentials.held();
        if held.openai.is_none() && held.google.is_none() {
            return Err(failure("limits requires at least one oauth provider"));
        }
        let openai = async { if held.openai.is_some() { Some(self.openai_limits().await.into()) } else { None } };
        let google = async { if held.google.is_some() { Some(self.antigravity_limits().await.into()) } else { None } };
        let (openai, antigravity) = tokio::join!(openai, google);
        Ok(Limits { openai, antigravity })
    }

    async fn openai_limits(&self) -> Result<OpenAiLimits, String> {
        let signed_out = || Provider::OPENAI.missing.to_owned();
        let mut login = self.credentials.openai().await.ok_or_else(signed_out)?;
        let address = format!("{}/wham/usage", self.settings.openai.backend);
        let mut renewed = false;
        loop {
            let mut request = self.credentials.web.get(&address).map_err(unfetched)?.bearer_auth(login.access.expose());
            if let Some(account) = &login.account {
                request = request.header("chatgpt-account-id", account);
            }
            let answer = Answer::to(request).await.map_err(unfetched)?;
            if answer.status == 401
                && !std::mem::replace(&mut renewed, true)
                && let Some(newer) = self.credentials.renew_openai(&login.access).await
            {
                login = newer;
                continue;
            }
            if !answer.is_success() {
                let text = shortened(answer.without(&[login.access.expose()]));
                return Err(format!("OpenAI usage fetch failed ({}): {text}", answer.status));
            }
            let usage = answer.read().ok_or("OpenAI usage fetch failed: the answer is not JSON")?;
            return Ok(OpenAiLimits::of(&usage));
        }
    }

    async fn antigravity_limits(&self) -> Result<AntigravityLimits, String> {
        let text = |error: ModelError| error.to_string();
        let quotas = self.antigravity().map_err(text)?.quotas().await.map_err(text)?;
        Ok(AntigravityLimits { models: quotas.into_iter().filter_map(ModelLimit::of).collect() })
    }
}

impl<T> From<Result<T, String>> for Report<T> {
    fn from(result: Result<T, String>) -> Self {
        match result {
            Ok(snapshot) => Self::Fetched { ok: true, snapshot },
            Err(message) => Self::Failed { ok: false, message },
        }
    }
}

impl OpenAiLimits {
    fn of(usage: &Value) -> Self {
        let windows = |limit: &Value| (Window::of(&limit["primary_window"]), Window::of(&limit["secondary_window"]));
        let mut found = windows(&usage["rate_limit"]);
        if found == (None, None) {
            let is_codex = |name: &Value| name.as_str().is_some_and(|name| name.eq_ignore_ascii_case("codex"));
            let mut others = usage["additional_rate_limits"].as_array().into_iter().flatten();
            let codex = others.find(|limit| is_codex(&limit["metered_feature"]) || is_codex(&limit["limit_name"]));
            found = codex.map_or((None, None), |limit| windows(&limit["rate_limit"]));
        }
        let plan_type = usage["plan_type"].as_str().map(str::to_owned);
        Self { plan_type, primary: found.0, secondary: found.1 }
    }
}

impl Window {
    fn of(window: &Value) -> Option<Self> {
        let used = window["used_percent"].as_f64()?.clamp(0.0, 100.0);
        Some(Self {
            used_percent: plain(used)?,
            remaining_percent: plain(100.0 - used)?,
            limit_window_seconds: window["limit_window_seconds"].as_f64().and_then(plain),
            reset_at_epoch_seconds: window["reset_at"].as_f64().and_then(plain),
        })
    }
}

impl ModelLimit {
    /// `None` for models that are not used in conversations.
    fn of(quota: Quota) -> Option<Self> {
        let name = quota.model.to_lowercase();
        let is_shown = ["claude", "gemini", "image"].iter().any(|part| name.contains(part));
        let remaining_percent = (quota.remaining.clamp(0.0, 1.0) * 100.0).round() as u8;
        is_shown.then_some(Self { name: quota.model, remaining_percent, reset_time: quota.resets_at })
    }
}

/// A number as JavaScript writes it: integers without a fraction.
fn plain(number: f64) -> Option<Number> {
    let is_whole = number.fract() == 0.0 && number.abs() < 9e15;
    if is_whole { Some((number as i64).into()) } else { Number::from_f64(number) }
}

/// A text of at most 180 characters.
fn shortened(text: String) -> String {
    if text.chars().count() <= 180 {
        return text;
    }
    text.chars().take(177).chain("...".chars()).collect()
}

fn unfetched(error: super::web::RequestError) -> String {
    format!("OpenAI usage fetch failed: {error}")
}
