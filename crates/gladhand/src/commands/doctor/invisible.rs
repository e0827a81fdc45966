//! Invisible text in what upstreams listed when they were last asked.

use std::path::PathBuf;

use gladhand_core::wire::invisible::Found;
use gladhand_hub::policy::{Invisible, invisible_in};

use super::Finding;
use crate::commands::serve::Memory;
use crate::config::Config;
use crate::from_config;

/// How many places of one upstream are named; more are counted.
const NAMED: usize = 5;

/// A finding for each upstream whose tools, prompts, resources or instructions have invisible text.
pub(super) fn findings(config: &Config, data: Option<PathBuf>) -> Vec<Finding> {
    let memory = Memory::in_folder(data);
    let found = config.upstreams.0.iter().filter_map(|(name, upstream)| {
        let (listed, instructions) = memory.listed(name, &from_config::target(upstream)?)?;
        let mut places = invisible_in(listed);
        let mut found = Found::default();
        found.look(instructions.as_deref().unwrap_or_default());
        if !found.is_empty() {
            places.push(("`instructions`".to_owned(), found));
        }
        finding(name, &places, config.policy.invisible)
    });
    found.collect()
}

fn finding(upstream: &str, places: &[(String, Found)], mode: Invisible) -> Option<Finding> {
    let mut named: Vec<_> = places.iter().take(NAMED).map(|(place, found)| format!("{place} has {found}")).collect();
    let more = places.len().saturating_sub(NAMED);
    if more > 0 {
        named.push(format!("{more} more have some"));
    }
    let advice = match mode {
        Invisible::Show => {
            "look at it with `gladhand tools`; `[policy] invisible = \"strip\"` or `\"refuse\"` keeps it from models"
        }
        Invisible::Strip => {
            "models do not see it, because `[policy] invisible` is \"strip\"; ask who wrote it why it is there"
        }
        Invisible::Refuse => {
            "it is not shown to clients, because `[policy] invisible` is \"refuse\"; ask who wrote it why it is there"
        }
    };
    (!named.is_empty()).then(|| Finding::doubtful(&format!("upstream {upstream}"), named.join("; "), advice))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_items_with_invisible_text_are_named_and_the_others_counted() {
        let mut found = Found::default();
        found.look("a\u{200b}");
        let places: Vec<_> = (0..7).map(|number| (format!("tool `{number}`"), found.clone())).collect();
        let told = finding("a", &places, Invisible::Show).unwrap();
        assert!(told.message.starts_with("tool `0` has 1 invisible character (U+200B); tool `1` has"), "{told:?}");
        assert!(told.message.ends_with("; 2 more have some"), "{told:?}");
        assert_eq!(finding("a", &[], Invisible::Show), None);
    }
}
