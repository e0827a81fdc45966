//! The selected model and its options.

use gladhand_models::{ModelOption, Thinking};

use gladhand_models::Provider;

/// The routing value that pins no provider.
pub(super) const ANY: &str = "any";

/// A selected model and its options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Choice {
    /// The id of the model; empty if none is selected.
    pub(super) model: String,
    /// The provider that was selected with it.
    pub(super) provider: Option<Provider>,
    /// The thinking level.
    pub(super) thinking: Thinking,
    /// The provider that runs the model at OpenRouter.
    pub(super) routing: String,
}

/// Parses a thinking level of the dialect.
pub(super) fn thinking_of_word(word: &str) -> Option<Thinking> {
    Some(match word {
        "OFF" => Thinking::Off,
        "MINIMAL" => Thinking::Minimal,
        "LOW" => Thinking::Low,
        "MEDIUM" => Thinking::Medium,
        "HIGH" => Thinking::High,
        "XHIGH" => Thinking::XHigh,
        _ => return None,
    })
}

/// The thinking level for a model when `wanted` was requested (§10.4). If the model does not support it, its
/// default is used, or else the middle of its supported levels. `None` stands for an unknown level.
pub(super) fn fitting(wanted: Option<Thinking>, option: &ModelOption) -> Thinking {
    let supported = option.supported_thinking_levels.as_deref().unwrap_or_default();
    let is_supported = |level: &Thinking| supported.is_empty() || supported.contains(level);
    let middle = supported.get(supported.len().saturating_sub(1) / 2).copied();
    wanted.filter(is_supported).or(option.default_thinking_level).or(middle).unwrap_or(Thinking::Medium)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Thinking::{High, Low, Medium, Off, XHigh};

    #[test]
    fn an_unsupported_level_becomes_the_default_or_the_middle() {
        let option = |supported: Option<&[Thinking]>, default| ModelOption {
            id: "m".to_owned(),
            provider: "p".to_owned(),
            label: String::new(),
            description: String::new(),
            supported_thinking_levels: supported.map(<[_]>::to_vec),
            default_thinking_level: default,
            routing_providers: None,
            context_window_tokens: None,
        };
        for (wanted, supported, default, expected) in [
            (Some(High), Some([Low, High].as_slice()), Some(Low), High),
            (Some(XHigh), Some(&[Low, High]), Some(High), High),
            (None, Some(&[Off]), Some(Off), Off),
            (Some(XHigh), Some(&[Off, Low, Medium, High]), None, Low),
            (Some(XHigh), Some(&[Off, Low, Medium]), None, Low),
            (Some(XHigh), None, Some(Low), XHigh),
            (None, None, Some(Low), Low),
            (None, None, None, Medium),
        ] {
            let option = option(supported, default);
            assert_eq!(fitting(wanted, &option), expected, "{wanted:?} {option:?}");
        }
    }

    #[test]
    fn thinking_levels_parse_from_their_wire_names() {
        for level in [Off, Thinking::Minimal, Low, Medium, High, XHigh] {
            let word = serde_json::to_value(level).unwrap();
            assert_eq!(thinking_of_word(word.as_str().unwrap()), Some(level));
        }
        assert_eq!(thinking_of_word("low"), None);
    }
}
