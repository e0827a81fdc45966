//! The context window of a model, and the limits for compaction.

use gladhand_models::ModelOption;

/// The context window in tokens: from the catalogue, otherwise from the name.
pub(crate) fn window_of(model: &str, option: Option<&ModelOption>) -> u64 {
    if let Some(tokens) = option.and_then(|option| option.context_window_tokens) {
        return tokens.clamp(8_000, 2_000_000);
    }
    let texts = [Some(model), option.map(|option| &*option.label), option.map(|option| &*option.description)];
    if let Some(tokens) = texts.into_iter().flatten().filter_map(largest_hint).max() {
        return tokens;
    }
    match model.to_lowercase() {
        id if id.contains("mini") => 128_000,
        id if id.contains("nano") => 64_000,
        _ => 272_000,
    }
}

/// The largest `128k` or `1m` in a text.
fn largest_hint(text: &str) -> Option<u64> {
    let text = text.to_lowercase();
    let hints = text.split(|c: char| !c.is_ascii_alphanumeric()).filter_map(|word| {
        let (number, unit) = word.split_at_checked(word.len().checked_sub(1)?)?;
        let number: u64 = number.parse().ok()?;
        match unit {
            "k" if (16..=2000).contains(&number) => Some(number * 1000),
            "m" if (1..=2).contains(&number) => Some(number * 1_000_000),
            _ => None,
        }
    });
    hints.max()
}

/// A conversation beyond this size is compacted before it continues.
pub(super) fn high_watermark(window: u64) -> u64 {
    (window * 82 / 100).max(6000)
}

/// The target size of a compaction.
pub(super) fn target_limit(window: u64) -> u64 {
    (window * 74 / 100).max(6000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_context_window_comes_from_the_catalogue_then_from_the_name() {
        let option = |tokens| ModelOption {
            id: "a".to_owned(),
            provider: "openrouter".to_owned(),
            label: "A with 32K".to_owned(),
            description: "or 1m.".to_owned(),
            supported_thinking_levels: None,
            default_thinking_level: None,
            routing_providers: None,
            context_window_tokens: tokens,
        };
        assert_eq!(window_of("a", Some(&option(Some(100)))), 8_000);
        assert_eq!(window_of("a-64k", Some(&option(None))), 1_000_000);
        assert_eq!(window_of("a-64k", None), 64_000);
        assert_eq!(["gpt-5-mini", "x-nano", "x-9000k"].map(|id| window_of(id, None)), [128_000, 64_000, 272_000]);
    }

    #[test]
    fn limits_are_those_of_the_recordings() {
        assert_eq!((target_limit(32_000), high_watermark(32_000)), (23_680, 26_240));
        assert_eq!((target_limit(8_000), high_watermark(8_000)), (6_000, 6_560));
        assert_eq!((target_limit(100_000), high_watermark(100_000)), (74_000, 82_000));
    }
}
