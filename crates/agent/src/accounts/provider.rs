//! Who has models.

use std::fmt;

use serde::{Serialize, Serializer};

/// Whoever has models, in the order in which their models are shown and in which one of them is taken when nothing was
/// chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Provider {
    /// OpenAI, with a ChatGPT login or a key.
    OpenAi,
    /// Google Cloud Code, with a Google login.
    Antigravity,
    /// OpenRouter, with a key.
    OpenRouter,
    /// Anthropic, with a key.
    Anthropic,
    /// A server that was configured and speaks as OpenAI does.
    Compatible,
    /// An Ollama on this machine.
    Ollama,
    /// A llama.cpp server on this machine.
    LlamaCpp,
    /// The model that came with this program.
    Local,
}

impl Provider {
    /// All of them, in order.
    pub const ALL: [Self; 8] = [
        Self::OpenAi,
        Self::Antigravity,
        Self::OpenRouter,
        Self::Anthropic,
        Self::Compatible,
        Self::Ollama,
        Self::LlamaCpp,
        Self::Local,
    ];

    /// Its name in settings, options and files.
    pub fn word(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Antigravity => "antigravity",
            Self::OpenRouter => "openrouter",
            Self::Anthropic => "anthropic",
            Self::Compatible => "compatible",
            Self::Ollama => "ollama",
            Self::LlamaCpp => "llamacpp",
            Self::Local => "local",
        }
    }

    /// Its name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::OpenAi => "OpenAI",
            Self::Antigravity => "Antigravity",
            Self::OpenRouter => "OpenRouter",
            Self::Anthropic => "Anthropic",
            Self::Compatible => "the configured server",
            Self::Ollama => "Ollama",
            Self::LlamaCpp => "llama.cpp",
            Self::Local => "the local model",
        }
    }

    /// The one of this name.
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|provider| provider.word() == word)
    }

    /// Whether loaf knows it. The others are ours, and each start finds them anew: `state.json` does not list them.
    pub(super) fn is_of_loaf(self) -> bool {
        matches!(self, Self::OpenAi | Self::Antigravity | Self::OpenRouter)
    }

    /// Whether it was set up on purpose, and does not merely happen to run on this machine.
    pub(super) fn is_configured(self) -> bool {
        !matches!(self, Self::Ollama | Self::LlamaCpp | Self::Local)
    }

    /// Who probably has a model of this id, for ids that no catalogue knows (§10.5).
    pub(super) fn guess(model: &str) -> Option<Self> {
        let name = model.rsplit('/').next().unwrap_or(model);
        if ["gpt-", "o1", "o3", "o4"].iter().any(|start| name.starts_with(start)) || name.contains("codex") {
            return Some(Self::OpenAi);
        }
        (name.contains("gemini") || name.contains("claude")).then_some(Self::OpenRouter)
    }
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl Serialize for Provider {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.word())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_and_are_in_order() {
        for provider in Provider::ALL {
            assert_eq!(Provider::of_word(provider.word()), Some(provider));
        }
        assert!(Provider::ALL.is_sorted());
        assert_eq!(Provider::of_word("vertex"), None);
    }

    #[test]
    fn unknown_ids_are_guessed_by_their_last_part() {
        for (model, provider) in [
            ("gpt-5", Some(Provider::OpenAi)),
            ("openai/o3-mini", Some(Provider::OpenAi)),
            ("x/some-codex-1", Some(Provider::OpenAi)),
            ("google/gemini-3", Some(Provider::OpenRouter)),
            ("claude-5", Some(Provider::OpenRouter)),
            ("gpt-5/acme", None),
            ("acme/plain-1", None),
            ("", None),
        ] {
            assert_eq!(Provider::guess(model), provider, "{model}");
        }
    }
}
