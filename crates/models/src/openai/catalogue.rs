//! Selects the models of OpenAI that can hold a conversation, and their thinking levels.

use gladhand_core::Order as _;
use serde_json::Value;

use crate::catalogue::{by_label, entries, text, window};
use crate::{ModelOption, Thinking};

/// The maximum number of models that are shown.
const MAX_MODELS: usize = 120;

/// Parts of ids of models that do not converse in text. The API lists them too.
const NON_CHAT_MARKERS: [&str; 8] =
    ["audio", "realtime", "image", "transcribe", "tts", "instruct", "search", "moderation"];

/// The models of a list, most important first. ChatGPT describes its models; the API only returns ids.
pub(super) fn options(list: &Value) -> Vec<ModelOption> {
    let described = entries(&list["models"]).iter().filter_map(Entry::described);
    let named = entries(&list["data"]).iter().filter_map(Entry::named);
    let mut found: Vec<Entry> = described.chain(named).collect();
    found.order_by(|a, b| {
        let rank = |entry: &Entry| (entry.priority, family(&entry.option.id));
        rank(a).cmp(&rank(b)).then_with(|| by_label(&a.option.label, &b.option.label))
    });
    found.into_iter().take(MAX_MODELS).map(|entry| entry.option).collect()
}

/// Whether the thinking level of a model can be set.
pub(super) fn can_think(id: &str) -> bool {
    !["gpt-3", "gpt-4", "chatgpt"].iter().any(|old| id.starts_with(old))
}

struct Entry {
    priority: i64,
    option: ModelOption,
}

impl Entry {
    fn described(entry: &Value) -> Option<Self> {
        let id = text(entry, &["slug", "id"]).filter(|id| converses(id))?;
        Some(Self { priority: entry["priority"].as_i64().unwrap_or(i64::MAX), option: option(id, entry) })
    }

    fn named(entry: &Value) -> Option<Self> {
        let is_other = |id: &str| NON_CHAT_MARKERS.iter().any(|marker| id.contains(marker));
        let id = text(entry, &["id"]).filter(|id| converses(id) && !is_other(id))?;
        Some(Self { priority: i64::MAX, option: option(id, entry) })
    }
}

fn option(id: &str, entry: &Value) -> ModelOption {
    use Thinking::{High, Low, Medium, Minimal, Off};
    let reported = entries(&entry["supported_reasoning_levels"]).iter();
    let mut levels: Vec<Thinking> =
        reported.filter_map(|level| level["effort"].as_str().or(level.as_str())).filter_map(thinking).collect();
    levels.order();
    levels.dedup();
    if levels.is_empty() {
        levels = if can_think(id) { vec![Minimal, Low, Medium, High] } else { vec![Off] };
    }
    let is_small = id.contains("mini") || id.contains("nano");
    let usual = if is_small { Low } else { Medium };
    let default = entry["default_reasoning_level"].as_str().and_then(thinking).unwrap_or(usual);
    ModelOption {
        id: id.to_owned(),
        provider: super::PROVIDER.id.to_owned(),
        label: text(entry, &["display_name", "title", "name"]).unwrap_or(id).to_owned(),
        description: text(entry, &["description"]).unwrap_or_default().to_owned(),
        default_thinking_level: Some(if levels.contains(&default) { default } else { levels[(levels.len() - 1) / 2] }),
        supported_thinking_levels: Some(levels),
        routing_providers: None,
        context_window_tokens: window(entry),
    }
}

fn thinking(effort: &str) -> Option<Thinking> {
    Some(match effort {
        "none" => Thinking::Off,
        "minimal" => Thinking::Minimal,
        "low" => Thinking::Low,
        "medium" => Thinking::Medium,
        "high" => Thinking::High,
        "xhigh" => Thinking::XHigh,
        _ => return None,
    })
}

/// Whether this is the id of a model that converses in text.
pub(super) fn converses(id: &str) -> bool {
    ["gpt-", "o1", "o3", "o4"].iter().any(|start| id.starts_with(start)) || id.contains("codex")
}

/// The position of a model family in the list.
fn family(id: &str) -> usize {
    let families = ["codex", "gpt-5", "gpt-", "o4", "o3"];
    families.iter().position(|name| id.starts_with(name) || (*name == "codex" && id.contains(name))).unwrap_or(5)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plain_list_of_the_api_is_filtered_and_sorted() {
        let ids = ["whisper-1", "o3", "gpt-4o", "gpt-4o-audio-preview", "gpt-5-mini", "gpt-5", "gpt-5-codex", "o1-pro"];
        let list = serde_json::json!({"data": ids.map(|id| serde_json::json!({"id": id}))});
        let options = options(&list);
        let shown: Vec<&str> = options.iter().map(|option| option.id.as_str()).collect();
        assert_eq!(shown, ["gpt-5-codex", "gpt-5", "gpt-5-mini", "gpt-4o", "o3", "o1-pro"]);
        assert_eq!(options[3].supported_thinking_levels, Some(vec![Thinking::Off]));
        assert_eq!(options[3].default_thinking_level, Some(Thinking::Off));
    }

    #[test]
    fn the_number_of_models_is_limited() {
        let list: Vec<Value> = (0..200).map(|number| serde_json::json!({"slug": format!("gpt-{number}")})).collect();
        assert_eq!(options(&serde_json::json!({"models": list})).len(), MAX_MODELS);
        assert!(options(&serde_json::json!([])).is_empty());
    }
}
