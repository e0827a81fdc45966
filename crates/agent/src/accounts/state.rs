//! `state.json` (§18.1): enabled providers, the selected model, and the input history.
//!
//! The file is read leniently, because other programs and other versions write it too. Invalid members count as
//! missing, and unknown members are preserved.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::Path;

use gladhand_core::wire::{Members, RawValue, json};
use gladhand_models::Thinking;
use serde::Serialize;

use super::choice::{ANY, Choice, thinking_of_word};
use super::files;
use crate::moment::Moment;
use gladhand_models::Provider;

/// The maximum number of prompts in the history.
const PROMPTS: usize = 200;

/// The file of older versions, in the folder in which they were started.
const OLD: &str = ".loaf-state.json";

/// The known members. All others are preserved.
const OURS: [&str; 10] = [
    "version",
    "authProviders",
    "authProvider",
    "selectedModel",
    "selectedThinking",
    "selectedOpenRouterProvider",
    "selectedProvider",
    "onboardingCompleted",
    "inputHistory",
    "updatedAt",
];

/// Members of old versions that contain secrets in plain text, and the names of these secrets in the vault.
pub(super) const PLAIN: [(&str, &str); 2] =
    [("openRouterApiKey", super::vault::OPENROUTER), ("exaApiKey", super::vault::EXA)];

/// The content of the file.
#[derive(Debug, Clone)]
pub(super) struct State {
    /// The enabled providers of loaf, in the order of enabling.
    pub(super) enabled: Vec<Provider>,
    /// The globally selected model.
    pub(super) choice: Choice,
    /// Whether onboarding is completed.
    pub(super) onboarded: bool,
    prompts: VecDeque<String>,
    others: BTreeMap<String, Box<RawValue>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Written<'a> {
    version: u8,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    auth_providers: &'a [Provider],
    #[serde(skip_serializing_if = "Option::is_none")]
    auth_provider: Option<Provider>,
    selected_model: &'a str,
    selected_thinking: Thinking,
    selected_open_router_provider: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    selected_provider: Option<Provider>,
    onboarding_completed: bool,
    input_history: &'a VecDeque<String>,
    updated_at: String,
    #[serde(flatten)]
    others: &'a BTreeMap<String, Box<RawValue>>,
}

impl State {
    /// Reads the file. Returns the default state if it is missing or invalid.
    pub(super) fn read(file: &Path) -> Self {
        files::read(file).and_then(|text| Self::of(&text)).unwrap_or_default()
    }

    /// Moves the file of an older version to the current location, unless a file exists there already.
    pub(super) fn migrate(file: &Path, started_in: &Path) {
        let old = started_in.join(OLD);
        let Some(text) = files::read(&old).filter(|text| Self::of(text).is_some()) else { return };
        if !file.exists() && files::replace(file, &text).is_err() {
            return;
        }
        if let Err(error) = files::remove(&old) {
            tracing::debug!(%error, "could not remove the state file of an older version");
        }
    }

    /// Writes the file.
    pub(super) fn write(&self, file: &Path) -> io::Result<()> {
        // loaf finds its own three providers by the model id. The other providers must be written explicitly.
        let selected_provider = self.choice.provider.filter(|provider| !provider.is_of_loaf);
        let written = Written {
            version: 1,
            auth_providers: &self.enabled,
            auth_provider: self.enabled.first().copied(),
            selected_model: &self.choice.model,
            selected_thinking: self.choice.thinking,
            selected_open_router_provider: &self.choice.routing,
            selected_provider,
            onboarding_completed: self.onboarded,
            input_history: &self.prompts,
            updated_at: Moment::now().text(),
            others: &self.others,
        };
        files::replace(file, &(serde_json::to_string_pretty(&written)? + "\n"))
    }

    /// Adds a prompt to the input history.
    pub(super) fn remember(&mut self, prompt: &str) {
        let prompt = prompt.trim();
        if prompt.is_empty() {
            return;
        }
        self.prompts.push_back(prompt.to_owned());
        while self.prompts.len() > PROMPTS {
            self.prompts.pop_front();
        }
    }

    /// The input history, oldest first.
    pub(super) fn prompts(&self) -> impl Iterator<Item = &str> {
        self.prompts.iter().map(String::as_str)
    }

    /// The text of an unknown member.
    pub(super) fn other(&self, name: &str) -> Option<String> {
        self.others.get(name).and_then(|raw| json::string(raw)).map(|text| text.trim().to_owned())
    }

    /// Removes an unknown member.
    pub(super) fn drop_other(&mut self, name: &str) {
        self.others.remove(name);
    }

    fn of(text: &str) -> Option<Self> {
        let members = Members::parse(text).ok()?;
        let fresh = Self::default();
        let providers = match members.some("authProviders").map(texts).filter(|words| !words.is_empty()) {
            Some(words) => words,
            None => members.str("authProvider").into_iter().map(|word| word.into_owned()).collect(),
        };
        let mut enabled = Vec::new();
        for word in providers {
            // The identifier in older versions.
            let word = if word == "vertex" { "openrouter" } else { word.as_str() };
            let provider = Provider::of_id(word).filter(|provider| provider.is_of_loaf);
            enabled.extend(provider.filter(|provider| !enabled.contains(provider)));
        }
        let routing = members.str("selectedOpenRouterProvider").map(|routing| routing.trim().to_lowercase());
        let choice = Choice {
            model: members.str("selectedModel").map(|model| model.trim().to_owned()).unwrap_or_default(),
            provider: members.str("selectedProvider").and_then(|word| Provider::of_id(&word)),
            thinking: members
                .str("selectedThinking")
                .and_then(|word| thinking_of_word(&word))
                .unwrap_or(fresh.choice.thinking),
            routing: routing.filter(|routing| !routing.is_empty()).unwrap_or(fresh.choice.routing),
        };
        let mut state = Self {
            enabled,
            choice,
            onboarded: members.raw("onboardingCompleted").is_some_and(|raw| raw.get() == "true"),
            prompts: VecDeque::new(),
            others: members
                .iter()
                .filter(|(name, _)| !OURS.contains(name))
                .map(|(name, raw)| (name.to_owned(), raw.to_owned()))
                .collect(),
        };
        for prompt in members.some("inputHistory").map(texts).unwrap_or_default() {
            state.remember(&prompt);
        }
        Some(state)
    }
}

impl Default for State {
    fn default() -> Self {
        Self {
            enabled: Vec::new(),
            choice: Choice { model: String::new(), provider: None, thinking: Thinking::High, routing: ANY.to_owned() },
            onboarded: false,
            prompts: VecDeque::new(),
            others: BTreeMap::new(),
        }
    }
}

/// The strings of an array. Other items are skipped.
fn texts(raw: &RawValue) -> Vec<String> {
    let items: Vec<&RawValue> = serde_json::from_str(raw.get()).unwrap_or_default();
    items.into_iter().filter_map(json::string).map(|text| text.into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads and writes a state, and returns its text without the timestamp.
    fn rewritten(text: &str) -> String {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("data/state.json");
        files::replace(&file, text).unwrap();
        State::read(&file).write(&file).unwrap();
        let text = files::read(&file).unwrap();
        text.lines().filter(|line| !line.contains("updatedAt")).map(|line| line.trim().trim_end_matches(',')).collect()
    }

    const FRESH: &str = r#"{"version": 1"selectedModel": """selectedThinking": "HIGH""selectedOpenRouterProvider": "any""onboardingCompleted": false"inputHistory": []}"#;

    #[test]
    fn invalid_members_count_as_missing() {
        for text in ["", "{", "[]", "null", "{}", r#"{"selectedModel":4,"inputHistory":"x","authProviders":{}}"#] {
            assert_eq!(rewritten(text), FRESH, "{text}");
        }
        assert_eq!(rewritten(r#"{"selectedThinking":"banana","authProviders":["acme",1]}"#), FRESH);
    }

    #[test]
    fn a_state_is_written_as_it_was_read_with_unknown_members() {
        let text = r#"{"version":7,"authProvider":"vertex","selectedModel":" m ","selectedThinking":"XHIGH",
            "selectedOpenRouterProvider":"Acme","onboardingCompleted":true,"inputHistory":[" a ",""," ",2,"b"],"new":[1]}"#;
        assert_eq!(
            rewritten(text),
            concat!(
                r#"{"version": 1"authProviders": ["openrouter"]"authProvider": "openrouter""selectedModel": "m""#,
                r#""selectedThinking": "XHIGH""selectedOpenRouterProvider": "acme""onboardingCompleted": true"#,
                r#""inputHistory": ["a""b"]"new": [1]}"#
            )
        );
    }

    #[test]
    fn only_the_last_prompts_are_kept() {
        let mut state = State::default();
        (0..250).for_each(|number| state.remember(&format!(" {number} ")));
        assert_eq!(state.prompts().count(), PROMPTS);
        assert_eq!(state.prompts().next(), Some("50"));
    }

    #[test]
    fn an_old_file_is_moved_unless_a_newer_one_exists() {
        let folder = tempfile::tempdir().unwrap();
        let (old, file) = (folder.path().join(OLD), folder.path().join("data/state.json"));
        for (text, expected) in [(r#"{"selectedModel":"old"}"#, "old"), (r#"{"selectedModel":"older"}"#, "old")] {
            std::fs::write(&old, text).unwrap();
            State::migrate(&file, folder.path());
            assert_eq!(State::read(&file).choice.model, expected);
            assert!(!old.exists());
        }
    }

    #[cfg(unix)]
    #[test]
    fn the_file_is_private_to_its_owner() {
        use std::os::unix::fs::PermissionsExt as _;

        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("data/state.json");
        State::default().write(&file).unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&file), mode(file.parent().unwrap())), (0o600, 0o700));
    }
}
