//! What is remembered of upstreams that were opened before, so that the question is not asked each time.
//!
//! Only that one opens with a handshake is worth remembering: whoever has no handshake is found out at the first
//! attempt. A verdict holds for a program as it is now, and not for ever: a new one might be of the new era. One that
//! turns out wrong is forgotten.

use std::collections::HashMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::target::Target;

/// How long a verdict is believed.
const GOOD_FOR: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// How many verdicts a file holds.
const MOST: usize = 1000;

/// Verdicts about upstreams. Clones share them.
#[derive(Clone, Default)]
pub struct Eras {
    /// When each was found to open with a handshake, in seconds since 1970.
    verdicts: Arc<Mutex<HashMap<String, u64>>>,
    file: Option<PathBuf>,
}

impl Eras {
    /// Verdicts that are kept in a file between runs. One that cannot be read is begun anew.
    pub fn kept_in(file: impl Into<PathBuf>) -> Self {
        let file = file.into();
        let kept = std::fs::read(&file).ok().and_then(|text| serde_json::from_slice(&text).ok());
        Self { verdicts: Arc::new(Mutex::new(kept.unwrap_or_default())), file: Some(file) }
    }

    /// Whether an upstream is known to open with a handshake.
    pub(super) fn has_handshake(&self, target: &Target) -> bool {
        let verdicts = self.verdicts.lock().unwrap_or_else(PoisonError::into_inner);
        let found = verdicts.get(&key(target)).copied();
        found.is_some_and(|found| now().saturating_sub(found) < GOOD_FOR.as_secs())
    }

    /// Remembers that an upstream opens with a handshake.
    pub(super) fn remember_handshake(&self, target: &Target) {
        let mut verdicts = self.verdicts.lock().unwrap_or_else(PoisonError::into_inner);
        verdicts.retain(|_, found| now().saturating_sub(*found) < GOOD_FOR.as_secs());
        if verdicts.len() >= MOST {
            verdicts.clear();
        }
        verdicts.insert(key(target), now());
        self.keep(&verdicts);
    }

    /// Forgets what was remembered of an upstream.
    pub(super) fn forget(&self, target: &Target) {
        let mut verdicts = self.verdicts.lock().unwrap_or_else(PoisonError::into_inner);
        if verdicts.remove(&key(target)).is_some() {
            self.keep(&verdicts);
        }
    }

    fn keep(&self, verdicts: &HashMap<String, u64>) {
        if let Some(file) = &self.file {
            let text = serde_json::to_vec(verdicts).unwrap_or_default();
            if let Err(error) = crate::files::replace(file, &text) {
                tracing::debug!(%error, "what was found out about an upstream could not be kept");
            }
        }
    }
}

impl fmt::Debug for Eras {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Eras").field("file", &self.file).finish_non_exhaustive()
    }
}

/// An upstream as it is now: an address, or the words of a command and the age of the files they name; hashed because
/// either may hold secrets.
fn key(target: &Target) -> String {
    let mut hasher = DefaultHasher::new();
    match target {
        Target::Url(url) => url.hash(&mut hasher),
        Target::Command(words) => {
            for word in words {
                let modified = std::fs::metadata(word).and_then(|data| data.modified()).ok();
                let age = modified.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
                (word, age).hash(&mut hasher);
            }
        }
    }
    format!("{:016x}", hasher.finish())
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_is_kept_between_runs_and_belongs_to_one_command() {
        let folder = tempfile::tempdir().unwrap();
        let (file, program) = (folder.path().join("a/eras.json"), folder.path().join("server"));
        std::fs::write(&program, "1").unwrap();
        let command = |argument: &str| Target::Command(vec![program.to_str().unwrap().to_owned(), argument.to_owned()]);
        let eras = Eras::kept_in(&file);
        assert!(!eras.has_handshake(&command("x")));
        eras.remember_handshake(&command("x"));
        let again = Eras::kept_in(&file);
        assert!(again.has_handshake(&command("x")) && !again.has_handshake(&command("y")));
        let older = std::fs::File::options().write(true).open(&program).unwrap();
        older.set_modified(UNIX_EPOCH + Duration::from_secs(1)).unwrap();
        assert!(!again.has_handshake(&command("x")), "another program under the same name");
    }

    #[test]
    fn a_verdict_about_an_address_is_kept_until_it_is_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("eras.json");
        let at = |url: &str| Target::parse(&[url.to_owned()]).unwrap();
        let (one, other) = (at("https://a:secret@example.org/mcp"), at("https://example.org/other"));
        let eras = Eras::kept_in(&file);
        eras.remember_handshake(&one);
        eras.remember_handshake(&other);
        assert!(!std::fs::read_to_string(&file).unwrap().contains("secret"));
        eras.forget(&one);
        let again = Eras::kept_in(&file);
        assert!(!again.has_handshake(&one) && again.has_handshake(&other));
    }
}
