//! The lists of an upstream, remembered between runs.

use std::path::Path;
use std::time::{Duration, SystemTime};

use gladhand_hub::Listed;

use super::lists::Lists;

/// The largest file that is read.
const LARGEST: u64 = 16 * 1024 * 1024;

/// How long unused lists are remembered.
const REMEMBERED: Duration = Duration::from_secs(90 * 24 * 60 * 60);

/// How far the modification time of a file may be behind its last use.
const A_DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The remembered lists. Returns `None` if the file is missing or unreadable.
pub(super) fn recall(file: &Path) -> Option<Lists> {
    let metadata = std::fs::metadata(file).ok()?;
    if age(&metadata, SystemTime::now()).is_some_and(|age| age > A_DAY) {
        note_use(file);
    }
    serde_json::from_slice(&gladhand_store::read_regular(file, LARGEST).ok()?).ok()
}

/// The remembered names that can be hidden and renamed: tools and prompts. Returns `None` if nothing is remembered.
pub fn names(file: &Path) -> Option<Vec<String>> {
    let Lists { tools, prompts, .. } = recall(file)?;
    Some(tools.into_iter().map(|tool| tool.name).chain(prompts.into_iter().map(|prompt| prompt.name)).collect())
}

/// All remembered lists and the instructions. Returns `None` if nothing is remembered.
pub fn listed(file: &Path) -> Option<(Listed, Option<String>)> {
    let lists = recall(file)?;
    Some((lists.listed(), lists.instructions))
}

/// Remembers lists. If that fails, they are fetched again in the next run.
pub(super) fn remember(file: &Path, lists: &Lists) {
    let text = serde_json::to_vec(lists).unwrap_or_default();
    if let Err(error) = gladhand_store::files::replace(file, &text) {
        tracing::debug!(%error, "what an upstream has could not be remembered");
    }
}

/// Removes lists that were not used for long: their upstreams are no longer configured.
pub fn forget_unused(folder: &Path, now: SystemTime) {
    let Ok(files) = std::fs::read_dir(folder) else { return };
    for file in files.flatten() {
        let is_unused = |metadata| age(&metadata, now).is_some_and(|age| age > REMEMBERED);
        let is_file = file.file_type().is_ok_and(|kind| kind.is_file());
        if is_file && file.metadata().is_ok_and(is_unused) {
            match std::fs::remove_file(file.path()) {
                Ok(()) => {
                    tracing::debug!(file = %file.path().display(), "removed the remembered lists of an unused upstream")
                }
                Err(error) => tracing::debug!(%error, "could not remove the remembered lists of an unused upstream"),
            }
        }
    }
}

/// Sets the modification time to the last use. The content is written only when the lists change.
fn note_use(file: &Path) {
    let noted = std::fs::File::options().append(true).open(file).and_then(|file| file.set_modified(SystemTime::now()));
    if let Err(error) = noted {
        tracing::debug!(%error, "that an upstream is used could not be noted");
    }
}

fn age(metadata: &std::fs::Metadata, now: SystemTime) -> Option<Duration> {
    now.duration_since(metadata.modified().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unused_files_of_the_memory_are_deleted_and_used_ones_kept() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        std::fs::create_dir(file("folder")).unwrap();
        let long_ago = SystemTime::now() - REMEMBERED - A_DAY;
        for name in ["used.json", "unused.json", "new.json"] {
            std::fs::write(file(name), "{}").unwrap();
            if name != "new.json" {
                std::fs::File::options().append(true).open(file(name)).unwrap().set_modified(long_ago).unwrap();
            }
        }
        recall(&file("used.json"));
        forget_unused(folder.path(), SystemTime::now());
        let left = ["used.json", "unused.json", "new.json", "folder"].map(|name| file(name).exists());
        assert_eq!(left, [true, false, true, true]);
        forget_unused(folder.path(), SystemTime::now() + 2 * REMEMBERED);
        assert!(!file("new.json").exists() && file("folder").exists());
        forget_unused(&file("nowhere"), SystemTime::now());
    }
}
