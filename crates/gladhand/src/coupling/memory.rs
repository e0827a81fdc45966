//! What an upstream had, remembered between runs.

use std::path::Path;

use super::lists::Lists;

/// The largest file that is read again.
const LARGEST: u64 = 16 * 1024 * 1024;

/// What was remembered; nothing if there is nothing, or nothing that can be read.
pub(super) fn recall(file: &Path) -> Option<Lists> {
    let length = std::fs::metadata(file).ok()?.len();
    if length > LARGEST {
        return None;
    }
    serde_json::from_slice(&std::fs::read(file).ok()?).ok()
}

/// The names of what an upstream had that can be hidden and renamed: tools and prompts. None if nothing is remembered.
pub(crate) fn names(file: &Path) -> Option<Vec<String>> {
    let Lists { tools, prompts, .. } = recall(file)?;
    Some(tools.into_iter().map(|tool| tool.name).chain(prompts.into_iter().map(|prompt| prompt.name)).collect())
}

/// Remembers. What cannot be remembered is asked for again next time.
pub(super) fn remember(file: &Path, lists: &Lists) {
    let text = serde_json::to_vec(lists).unwrap_or_default();
    if let Err(error) = crate::files::replace(file, &text) {
        tracing::debug!(%error, "what an upstream has could not be remembered");
    }
}
