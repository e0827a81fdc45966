//! The model lists of providers, and `models-cache.json` for times when a provider is unavailable.

use std::collections::BTreeMap;
use std::path::PathBuf;

use gladhand_core::wire::{Members, RawValue};
use gladhand_models::{ModelOption, Thinking};
use serde::{Deserialize, Serialize};

use super::files;
use crate::moment::Moment;
use gladhand_models::Provider;

/// The source of a model list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// The provider returned it.
    Remote,
    /// The provider did not respond; this is an earlier list.
    Cache,
    /// The provider has never responded.
    Fallback,
}

/// The model lists of all providers.
#[derive(Debug)]
pub(super) struct Catalogues {
    file: PathBuf,
    /// Whether the file is written.
    keeps: bool,
    lists: BTreeMap<Provider, List>,
}

#[derive(Debug)]
struct List {
    fetched: String,
    models: Vec<ModelOption>,
    source: Source,
}

/// A list in the file format.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Kept<'a> {
    fetched_at: &'a str,
    models: Vec<KeptModel<'a>>,
}

/// A model in the file format. The provider is the key above it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct KeptModel<'a> {
    id: &'a str,
    label: &'a str,
    description: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    supported_thinking_levels: Option<&'a [Thinking]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    default_thinking_level: Option<Thinking>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    routing_providers: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    context_window_tokens: Option<u64>,
}

/// A model as read from the file. Other programs write the file too, so most members are optional.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReadModel {
    id: String,
    label: Option<String>,
    #[serde(default)]
    description: String,
    supported_thinking_levels: Option<Vec<Thinking>>,
    default_thinking_level: Option<Thinking>,
    routing_providers: Option<Vec<String>>,
    context_window_tokens: Option<u64>,
}

impl Catalogues {
    /// Reads the file. `keeps` decides whether new lists are written to it.
    pub(super) fn read(file: PathBuf, keeps: bool) -> Self {
        let text = files::read(&file).unwrap_or_default();
        let members = Members::parse(&text).unwrap_or_default();
        let lists = members.iter().filter_map(|(word, raw)| {
            let provider = Provider::of_id(word)?;
            let list = Members::of(raw)?;
            let models: Vec<&RawValue> = serde_json::from_str(list.some("models")?.get()).ok()?;
            let models = models.into_iter().filter_map(|raw| ReadModel::option(raw, provider)).collect();
            let fetched = list.str("fetchedAt").unwrap_or_default().into_owned();
            Some((provider, List { fetched, models, source: Source::Cache }))
        });
        Self { lists: lists.collect(), file, keeps }
    }

    /// Stores the answer of a provider (`None` if it did not respond). Returns the current number of models and the
    /// source.
    pub(super) fn put(&mut self, provider: Provider, answered: Option<Vec<ModelOption>>) -> (usize, Source) {
        match (answered, self.lists.get_mut(&provider)) {
            (Some(models), _) => {
                let count = models.len();
                let list = List { fetched: Moment::now().text(), models, source: Source::Remote };
                self.lists.insert(provider, list);
                self.write();
                (count, Source::Remote)
            }
            (None, Some(list)) => {
                list.source = Source::Cache;
                (list.models.len(), Source::Cache)
            }
            (None, None) => (0, Source::Fallback),
        }
    }

    /// Stores the routing providers of a model. They are not written to the file, because they change too often.
    pub(super) fn route(&mut self, provider: Provider, model: &str, routing: &[String]) {
        let models = self.lists.get_mut(&provider).map(|list| &mut list.models).into_iter().flatten();
        for option in models.filter(|option| option.id == model) {
            option.routing_providers = Some(routing.to_vec());
        }
    }

    /// Removes the list of a provider that is not available any more.
    pub(super) fn remove(&mut self, provider: Provider) {
        self.lists.remove(&provider);
    }

    /// Removes all lists, and the file.
    pub(super) fn clear(&mut self) -> std::io::Result<()> {
        self.lists.clear();
        files::remove(&self.file)
    }

    /// The models of a provider.
    pub(super) fn of(&self, provider: Provider) -> &[ModelOption] {
        self.lists.get(&provider).map_or(&[], |list| &list.models)
    }

    /// One model of a provider.
    pub(super) fn find(&self, provider: Provider, model: &str) -> Option<&ModelOption> {
        self.of(provider).iter().find(|option| option.id == model)
    }

    /// Whether the provider itself returned the list in this run.
    pub(super) fn is_known(&self, provider: Provider) -> bool {
        self.lists.get(&provider).is_some_and(|list| list.source == Source::Remote)
    }

    fn write(&self) {
        if !self.keeps {
            return;
        }
        #[derive(Serialize)]
        struct File<'a> {
            version: u8,
            #[serde(flatten)]
            lists: BTreeMap<&'static str, Kept<'a>>,
        }
        // Servers on this machine are queried at each start, so their lists are not written.
        let lists = self.lists.iter().filter(|(provider, _)| provider.is_configured());
        let lists = lists.map(|(provider, list)| {
            let models = list.models.iter().map(KeptModel::of).collect();
            (provider.id, Kept { fetched_at: &list.fetched, models })
        });
        let file = File { version: 1, lists: lists.collect() };
        let written = serde_json::to_string_pretty(&file).map_err(std::io::Error::from);
        if let Err(error) = written.and_then(|text| files::replace(&self.file, &(text + "\n"))) {
            tracing::warn!(%error, "could not write the model cache");
        }
    }
}

impl<'a> KeptModel<'a> {
    fn of(option: &'a ModelOption) -> Self {
        Self {
            id: &option.id,
            label: &option.label,
            description: &option.description,
            supported_thinking_levels: option.supported_thinking_levels.as_deref(),
            default_thinking_level: option.default_thinking_level,
            routing_providers: option.routing_providers.as_deref().unwrap_or_default(),
            context_window_tokens: option.context_window_tokens,
        }
    }
}

impl ReadModel {
    /// Reads a model. `None` if it is invalid; the caller skips it.
    fn option(raw: &RawValue, provider: Provider) -> Option<ModelOption> {
        let model: Self = serde_json::from_str(raw.get()).ok()?;
        // The file omits empty lists. At a provider that routes requests, an empty list is different from a missing one.
        let routing = model.routing_providers.or_else(|| provider.has_routing.then(Vec::new));
        Some(ModelOption {
            provider: provider.id.to_owned(),
            label: model.label.unwrap_or_else(|| model.id.clone()),
            id: model.id,
            description: model.description,
            supported_thinking_levels: model.supported_thinking_levels,
            default_thinking_level: model.default_thinking_level,
            routing_providers: routing,
            context_window_tokens: model.context_window_tokens,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn option(id: &str, routing: &[&str]) -> ModelOption {
        ModelOption {
            id: id.to_owned(),
            provider: "openrouter".to_owned(),
            label: id.to_uppercase(),
            description: "d".to_owned(),
            supported_thinking_levels: Some(vec![Thinking::Off, Thinking::XHigh]),
            default_thinking_level: Some(Thinking::Off),
            routing_providers: Some(routing.iter().map(|name| (*name).to_owned()).collect()),
            context_window_tokens: Some(8000),
        }
    }

    #[test]
    fn a_cached_list_is_used_after_a_restart_if_the_provider_does_not_respond() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("models-cache.json");
        let mut catalogues = Catalogues::read(file.clone(), true);
        assert_eq!(catalogues.put(Provider::OPENROUTER, None), (0, Source::Fallback));
        let models = vec![option("a", &["acme"]), option("b", &[])];
        assert_eq!(catalogues.put(Provider::OPENROUTER, Some(models.clone())), (2, Source::Remote));
        catalogues.route(Provider::OPENROUTER, "a", &["other".to_owned()]);

        let mut again = Catalogues::read(file.clone(), true);
        assert_eq!(again.of(Provider::OPENROUTER), models);
        assert!(!again.is_known(Provider::OPENROUTER));
        assert_eq!(again.put(Provider::OPENROUTER, None), (2, Source::Cache));
        again.clear().unwrap();
        assert!(again.of(Provider::OPENROUTER).is_empty() && !file.exists());
    }

    #[test]
    fn the_file_is_written_as_loaf_writes_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("models-cache.json");
        let mut catalogues = Catalogues::read(file.clone(), true);
        catalogues.put(Provider::OPENROUTER, Some(vec![option("b", &[])]));
        catalogues.put(Provider::of_id("ollama").unwrap(), Some(vec![option("c", &[])]));
        let text = std::fs::read_to_string(&file).unwrap();
        let text: String = text.lines().filter(|line| !line.contains("fetchedAt")).map(str::trim).collect();
        let expected = concat!(
            r#"{"version": 1,"openrouter": {"models": [{"id": "b","label": "B","description": "d","#,
            r#""supportedThinkingLevels": ["OFF","XHIGH"],"defaultThinkingLevel": "OFF","contextWindowTokens": 8000}]}}"#
        );
        assert_eq!(text, expected);
    }

    #[test]
    fn invalid_entries_of_the_file_are_skipped() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("models-cache.json");
        for text in ["", "[]", r#"{"openrouter":4}"#, r#"{"openrouter":{"models":{}}}"#, r#"{"openai":{}}"#] {
            std::fs::write(&file, text).unwrap();
            assert!(Catalogues::read(file.clone(), true).lists.values().all(|list| list.models.is_empty()), "{text}");
        }
        std::fs::write(&file, r#"{"openai":{"models":[4,{"id":"a"},{"id":1},{"id":"b","contextWindowTokens":"x"}]}}"#)
            .unwrap();
        let catalogues = Catalogues::read(file, true);
        let ids: Vec<_> = catalogues.of(Provider::OPENAI).iter().map(|option| option.id.as_str()).collect();
        assert_eq!(ids, ["a"]);
    }
}
