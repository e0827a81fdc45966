//! Converts the checked `params` of agent methods to neutral calls (`loaf` §§7–11).

use std::borrow::Cow;

use gladhand_core::operations::{AgentCall, ImageInput, ModelChoice};
use gladhand_core::wire::json::Kind;
use gladhand_core::wire::{Members, RawValue, values};

use super::errors::Error;
use super::params::Checked;
use super::text::Text;

/// The accepted model providers: the reference's three, and those that we add. The program compares this list with its
/// table of providers in a test.
///
/// The errors about any other provider name only the three, because the reference fixes their text (`loaf` §§10.3, 10.4).
pub const MODEL_PROVIDERS: &[&str] =
    &["openai", "antigravity", "openrouter", "anthropic", "compatible", "ollama", "llamacpp", "local"];

/// The agent call of a method. `None` if the method does not belong to the agent.
pub(super) fn read_call<'a>(method: &str, params: &Checked<'a>) -> Result<Option<AgentCall<'a>>, Error> {
    let text = |name: &str| params.text(name).map(Text::lossy);
    let text_or_empty = |name: &str| text(name).unwrap_or_default();
    let session = || text_or_empty("session_id");
    Ok(Some(match method {
        "auth.connect.antigravity" => AgentCall::ConnectAntigravity,
        "auth.connect.openai" => AgentCall::ConnectOpenAi { mode: text("mode"), originator: text("originator") },
        "auth.set.exa_key" => AgentCall::SetExaKey(text_or_empty("api_key")),
        "auth.set.openrouter_key" => AgentCall::SetOpenRouterKey(text_or_empty("api_key")),
        "auth.status" => AgentCall::AuthStatus,
        "command.execute" => AgentCall::Command { session: session(), line: text_or_empty("raw_command") },
        "debug.set" => AgentCall::Debug { everything: params.is_true("super_debug") },
        "history.clear_session" => AgentCall::ClearSession(session()),
        "history.get" => {
            AgentCall::HistoryGet { id: text("id"), last: params.is_true("last"), path: text("rollout_path") }
        }
        "history.list" => AgentCall::HistoryList { limit: params.number("limit"), cursor: params.number("cursor") },
        "limits.get" => AgentCall::Limits,
        "model.list" => {
            let provider = text("provider");
            if provider.as_deref().is_some_and(|provider| !MODEL_PROVIDERS.contains(&provider)) {
                return Err(Error::wrong_field("provider", "provider must be one of: openai, openrouter, antigravity"));
            }
            AgentCall::Models { provider }
        }
        "model.openrouter.providers" => AgentCall::RoutingProviders(text_or_empty("model_id")),
        "model.select" => {
            let provider = text_or_empty("provider");
            if !MODEL_PROVIDERS.contains(&&*provider) {
                return Err(Error::wrong_field("provider", "provider must be openai, openrouter, or antigravity"));
            }
            AgentCall::SelectModel(Box::new(ModelChoice {
                model: text_or_empty("model_id"),
                provider,
                thinking: text_or_empty("thinking_level"),
                routing: text("openrouter_provider"),
                session: text("session_id"),
                compress: params.is_true("compress_immediately"),
                only_session: params.is_true("only_session"),
            }))
        }
        "onboarding.complete" => AgentCall::OnboardingComplete,
        "onboarding.status" => AgentCall::OnboardingStatus,
        "session.approve" => AgentCall::Approve {
            session: session(),
            call: text_or_empty("call_id"),
            allow: params.is_true("allow"),
            always: params.is_true("always"),
        },
        "session.create" => AgentCall::Create { title: text("title"), folder: text("cwd") },
        "session.delete" => AgentCall::Delete(session()),
        "session.get" => AgentCall::Get(session()),
        "session.interrupt" => AgentCall::Interrupt(session()),
        "session.list" => AgentCall::List,
        "session.queue.clear" => AgentCall::QueueClear(session()),
        "session.queue.list" => AgentCall::QueueList(session()),
        "session.send" => AgentCall::Send {
            session: session(),
            text: text_or_empty("text"),
            enqueue: params.is_true("enqueue"),
            images: params.raw("images").map(images).unwrap_or_default(),
        },
        "session.steer" => AgentCall::Steer { session: session(), text: text_or_empty("text") },
        "skills.list" => AgentCall::Skills,
        "state.get" => AgentCall::State,
        "system.shutdown" => AgentCall::Shutdown { reason: text("reason") },
        "tools.list" => AgentCall::Tools,
        _ => return Ok(None),
    }))
}

/// Whether the session ends after the answer.
pub(super) fn ends_session(call: &AgentCall<'_>) -> bool {
    match call {
        AgentCall::Shutdown { .. } => true,
        AgentCall::Command { line, .. } => {
            let word = line.split_whitespace().next().unwrap_or_default();
            ["/quit", "/exit"].iter().any(|command| word.eq_ignore_ascii_case(command))
        }
        _ => false,
    }
}

/// Entries without a file and without a data URL are left out. A value that is not a list counts as empty (`loaf`
/// §7.3).
fn images(raw: &RawValue) -> Vec<ImageInput<'_>> {
    let rows: Vec<&RawValue> = match Kind::of(raw) {
        Kind::Array => values::items(raw.get()).unwrap_or_default(),
        _ => Vec::new(),
    };
    rows.into_iter().filter_map(image).collect()
}

fn image(row: &RawValue) -> Option<ImageInput<'_>> {
    let row = Members::of(row)?;
    let one_of = |names: &[&str]| -> Option<Cow<'_, str>> {
        let text = |name: &&str| row.raw(name).and_then(Text::of).map(Text::trimmed).filter(|text| !text.is_empty());
        names.iter().find_map(text).map(Text::lossy)
    };
    let path = one_of(&["path"]);
    let data_url = one_of(&["data_url", "dataUrl"]);
    if path.is_none() && data_url.is_none() {
        return None;
    }
    Some(ImageInput { path: path.unwrap_or_default(), mime_type: one_of(&["mime_type", "mimeType"]), data_url })
}

#[cfg(test)]
mod tests {
    use super::super::methods::{METHODS, Run};
    use super::super::params::{Check, Params};
    use super::*;
    use gladhand_core::wire::json;

    /// Params that pass the checks of a method.
    fn params_for(params: Params) -> String {
        let fields = match params {
            Params::Ignored => return "null".to_owned(),
            Params::Optional(fields) | Params::Required(fields) => fields,
        };
        let value = |check| match check {
            Check::RequiredString | Check::OptionalString => r#""openai""#,
            Check::RequiredBoolean | Check::OptionalBoolean => "true",
            Check::OptionalNumber => "1",
            Check::OptionalObject => "{}",
            Check::Anything => "null",
        };
        let members: Vec<_> =
            fields.iter().map(|field| format!(r#""{}":{}"#, field.name, value(field.check))).collect();
        format!("{{{}}}", members.join(","))
    }

    #[test]
    fn every_method_of_the_agent_becomes_a_call() {
        for method in METHODS {
            let raw = json::raw(params_for(method.params));
            let params = Checked::check(method.name, method.params, Some(&raw)).expect(method.name);
            let is_agent_call = read_call(method.name, &params).expect(method.name).is_some();
            assert_eq!(is_agent_call, matches!(method.run, Run::Agent | Run::AgentOr(_)), "{}", method.name);
        }
    }
}
