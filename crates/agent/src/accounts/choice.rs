//! What was chosen: a model, and how it is to be used.

use gladhand_models::{ModelOption, Thinking};

use super::provider::Provider;

/// The routing that pins nobody.
pub(super) const ANY: &str = "any";

/// A model, and how it is to be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Choice {
    /// Its id; empty when none was chosen.
    pub(super) model: String,
    /// Who was said to have it.
    pub(super) provider: Option<Provider>,
    /// How much it is to think.
    pub(super) thinking: Thinking,
    /// Who is to run it at OpenRouter.
    pub(super) routing: String,
}

/// A level in the words of the dialect.
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

/// The level that a model is used with when `wanted` was asked for (§10.4): what it does not support becomes its default,
/// or failing that the middle of what it supports. None stands for a level that does not exist.
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
    fn a_level_that_does_not_fit_becomes_the_default_or_the_middle() {
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
    fn words_are_those_of_the_wire() {
        for level in [Off, Thinking::Minimal, Low, Medium, High, XHigh] {
            let word = serde_json::to_value(level).unwrap();
            assert_eq!(thinking_of_word(word.as_str().unwrap()), Some(level));
        }
        assert_eq!(thinking_of_word("low"), None);
    }
}
