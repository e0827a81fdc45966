//! The model providers.

use std::fmt;

use serde::{Serialize, Serializer};

/// A model provider. The order of the variants is the display order, and the order of preference if no model is
/// selected.
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
    /// A configured server that is compatible with OpenAI.
    Compatible,
    /// An Ollama server on this machine.
    Ollama,
    /// A llama.cpp server on this machine.
    LlamaCpp,
    /// The model that is embedded in this program.
    Local,
}

impl Provider {
    /// All providers, in order.
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

    /// The identifier in settings, options and files.
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

    /// The display name.
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

    /// The provider with this identifier.
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|provider| provider.word() == word)
    }

    /// Whether loaf knows the provider. The others exist only in Gladhand. Each start finds them again, so
    /// `state.json` does not list them.
    pub(super) fn is_of_loaf(self) -> bool {
        matches!(self, Self::OpenAi | Self::Antigravity | Self::OpenRouter)
    }

    /// Whether the user configured the provider. The others are found or built in.
    pub(super) fn is_configured(self) -> bool {
        !matches!(self, Self::Ollama | Self::LlamaCpp | Self::Local)
    }

    /// The probable provider of a model id that is in no catalogue (§10.5).
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
    fn provider_names_parse_back_and_are_sorted() {
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
