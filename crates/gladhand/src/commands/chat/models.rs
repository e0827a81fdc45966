//! Choosing a model by name.

use std::fmt::Write as _;

use gladhand_core::operations::{AgentCall, ModelChoice};
use gladhand_models::{Provider, Requirement, alternatives};
use serde::Deserialize;

use super::talk::{Speaker, Talk};
use crate::commands::CommandError;
use crate::terminal::text::plain;

/// For whom a model is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum For {
    /// For this chat.
    Now,
    /// For everything that comes.
    Good,
}

/// The available models.
#[derive(Debug, Deserialize)]
pub(super) struct Models {
    models: Vec<Model>,
}

#[derive(Debug, Deserialize)]
struct Model {
    id: String,
    provider: String,
    #[serde(default)]
    label: String,
}

impl Models {
    /// All that can be had now.
    pub(super) async fn all(talk: &Talk) -> Result<Self, CommandError> {
        let listed = talk.ask(AgentCall::Models { provider: None }).await?;
        Ok(serde_json::from_str(listed.get())?)
    }

    /// As a list for people, with a mark at the one that answers.
    pub(super) fn list(&self, speaker: Option<&Speaker>) -> String {
        let mut text = String::new();
        for Model { id, provider, label } in &self.models {
            let is_chosen = speaker.is_some_and(|speaker| speaker.model == *id && speaker.provider == *provider);
            let mark = if is_chosen { '*' } else { ' ' };
            let label = if label == id { "" } else { label };
            let line = format!("{mark} {provider}/{id}  {label}");
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{}", plain(line.trim_end()));
        }
        text
    }

    /// The model that the user means: `PROVIDER/ID`, an id, or a provider, which means its first model.
    fn find(&self, wanted: &str) -> Option<&Model> {
        let is_meant = |model: &&Model| {
            wanted.strip_prefix(model.provider.as_str()).and_then(|rest| rest.strip_prefix('/')) == Some(&model.id)
        };
        let of = |is_it: &dyn Fn(&&Model) -> bool| self.models.iter().find(is_it);
        of(&is_meant).or_else(|| of(&|model| model.id == wanted)).or_else(|| of(&|model| model.provider == wanted))
    }

    /// The first of them.
    fn some(&self) -> String {
        let list = self.list(None);
        let mut some: Vec<&str> = list.lines().take(FEW).collect();
        if self.models.len() > FEW {
            some.push("  … (`/model` in a chat lists all)");
        }
        some.join("\n")
    }

    /// Models with names similar to the requested one.
    fn like(&self, wanted: &str) -> Vec<String> {
        let word = wanted.rsplit('/').next().unwrap_or(wanted).to_lowercase();
        let alike = self.models.iter().filter(|model| model.id.to_lowercase().contains(&word));
        alike.take(5).map(|model| plain(&format!("{}/{}", model.provider, model.id))).collect()
    }
}

/// Selects the model that the user names.
pub(super) async fn choose(talk: &Talk, wanted: &str, scope: For) -> Result<(), CommandError> {
    let models = Models::all(talk).await?;
    let Some(model) = models.find(wanted) else {
        let error = CommandError::usage(anyhow::anyhow!("there is no model `{}`", plain(wanted)));
        let like = models.like(wanted);
        return Err(match wanted {
            "local" => error.hint(LOCAL),
            _ if !like.is_empty() => error.hint(format!("did you mean {}?", like.join(", "))),
            _ if models.models.is_empty() => return Err(super::nobody(talk).await),
            _ => error.hint(format!("there are:\n{}", models.some())),
        });
    };
    let choice = ModelChoice {
        model: model.id.as_str().into(),
        provider: model.provider.as_str().into(),
        // None in particular: the model's own default.
        thinking: "".into(),
        routing: None,
        session: Some(talk.session.as_str().into()),
        compress: false,
        only_session: scope == For::Now,
    };
    talk.ask(AgentCall::SelectModel(Box::new(choice))).await?;
    Ok(())
}

/// How many models are named beside an error.
const FEW: usize = 12;

/// The reason if there is no local model.
const LOCAL: &str = match cfg!(feature = "local-model") {
    true => {
        "its file SmolLM2-135M-Instruct.Q4_1.gguf is missing from the folder `models` of the data folder: `cargo xtask \
         model` in the source tree fetches it"
    }
    false => {
        "this build cannot run one: `cargo xtask model`, and then \
         `cargo install --path crates/gladhand --features local-model`"
    }
};

/// Advice for a user without a model.
pub(in crate::commands) fn ways() -> String {
    let mut ways = vec![format!("set {}", alternatives(&Provider::key_variables()))];
    for provider in Provider::all() {
        if provider.key.is_some_and(|key| key.stored_as.is_some()) {
            ways.push(format!("type `/auth {provider} KEY` in a chat"));
        }
    }
    let with_address = Provider::all().filter(|provider| provider.requires == Requirement::Address);
    for variable in with_address.filter_map(|provider| provider.base_variable) {
        ways.push(format!("set {variable} to the URL of a server that speaks as OpenAI does"));
    }
    let servers = alternatives(&Provider::local_servers());
    ways.push(format!("start an {servers} server on this machine; it is found by itself"));
    ways.push(match cfg!(feature = "local-model") {
        true => "run `cargo xtask model` once: it fetches the weights of the small model that runs here".to_owned(),
        false => "build with the feature local-model, and run `cargo xtask model` once".to_owned(),
    });
    format!("the quickest ways to a model:\n  {}", ways.join("\n  "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_found_by_id_provider_or_label() {
        let models: Models = serde_json::from_str(
            r#"{"models": [{"id": "gpt-5", "provider": "openai", "label": "GPT-5"},
                {"id": "openai/gpt-5", "provider": "openrouter", "label": "openai/gpt-5"},
                {"id": "small", "provider": "local"}]}"#,
        )
        .unwrap();
        let found = |wanted: &str| models.find(wanted).map(|model| format!("{}:{}", model.provider, model.id));
        assert_eq!(found("openai/gpt-5").unwrap(), "openai:gpt-5");
        assert_eq!(found("openrouter/openai/gpt-5").unwrap(), "openrouter:openai/gpt-5");
        assert_eq!(found("small").unwrap(), "local:small");
        assert_eq!(found("local").unwrap(), "local:small");
        assert_eq!(found("gpt"), None);
        assert_eq!(models.like("x/gpt"), ["openai/gpt-5", "openrouter/openai/gpt-5"]);
        let speaker = Speaker { model: "small".to_owned(), provider: "local".to_owned() };
        let expected = "  openai/gpt-5  GPT-5\n  openrouter/openai/gpt-5\n* local/small\n";
        assert_eq!(models.list(Some(&speaker)), expected);
    }
}
