//! What is remembered of upstreams that were opened before, so that they are not asked each time what they speak.
//!
//! A verdict holds for a program as it is now, and not for ever: a new one might be of the new era. One that turns out
//! wrong is forgotten.

use std::collections::HashMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gladhand_dialects::mcp::revision::Revision;
use gladhand_dialects::{Dialect, REGISTRY, mcp};
use serde::{Deserialize, Serialize};

use super::target::Target;

/// How long a verdict is believed.
const GOOD_FOR: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// How many verdicts a file holds.
const MOST: usize = 1000;

/// What somebody was found to speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// MCP, opened with a handshake.
    Handshake,
    /// MCP without.
    Stateless,
    /// Another dialect, of this name.
    Other(&'static str),
}

/// Verdicts about upstreams. Clones share them.
#[derive(Clone, Default)]
pub struct Eras {
    verdicts: Arc<Mutex<HashMap<String, Kept>>>,
    file: Option<PathBuf>,
}

/// A verdict as it is kept.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Kept {
    /// When it was found out, in seconds since 1970.
    found: u64,
    /// The word for it.
    speaks: String,
}

impl Kept {
    fn is_good(&self) -> bool {
        now().saturating_sub(self.found) < GOOD_FOR.as_secs()
    }
}

impl Verdict {
    fn word(self) -> &'static str {
        match self {
            Self::Handshake => "mcp with handshake",
            Self::Stateless => "mcp",
            Self::Other(dialect) => dialect,
        }
    }

    fn of(word: &str) -> Option<Self> {
        let others = REGISTRY.iter().map(|dialect| Self::Other(dialect.name));
        [Self::Handshake, Self::Stateless].into_iter().chain(others).find(|verdict| verdict.word() == word)
    }
}

impl Eras {
    /// Verdicts that are kept in a file between runs. One that cannot be read is begun anew.
    pub fn kept_in(file: impl Into<PathBuf>) -> Self {
        let file = file.into();
        let kept = std::fs::read(&file).ok().and_then(|text| serde_json::from_slice(&text).ok());
        Self { verdicts: Arc::new(Mutex::new(kept.unwrap_or_default())), file: Some(file) }
    }

    /// What an upstream is known to speak.
    pub(super) fn find(&self, target: &Target) -> Option<Verdict> {
        let verdicts = self.verdicts.lock().unwrap_or_else(PoisonError::into_inner);
        verdicts.get(&key(target)).filter(|kept| kept.is_good()).and_then(|kept| Verdict::of(&kept.speaks))
    }

    /// The dialect and version in which an upstream was opened last, so far as that is known.
    pub fn way(&self, target: &Target) -> Option<(&'static Dialect, &'static str)> {
        let (name, version) = match self.find(target)? {
            Verdict::Handshake => (mcp::DIALECT.name, Revision::HANDSHAKE.first().map(|revision| revision.as_str())),
            Verdict::Stateless => (mcp::DIALECT.name, Revision::STATELESS.first().map(|revision| revision.as_str())),
            Verdict::Other(name) => (name, None),
        };
        let dialect = REGISTRY.iter().copied().find(|dialect| dialect.name == name)?;
        version.or_else(|| dialect.versions.first().copied()).map(|version| (dialect, version))
    }

    /// Remembers what an upstream was found to speak.
    pub(super) fn remember(&self, target: &Target, verdict: Verdict) {
        if self.find(target) == Some(verdict) {
            return;
        }
        let mut verdicts = self.verdicts.lock().unwrap_or_else(PoisonError::into_inner);
        verdicts.retain(|_, kept| kept.is_good());
        if verdicts.len() >= MOST {
            verdicts.clear();
        }
        verdicts.insert(key(target), Kept { found: now(), speaks: verdict.word().to_owned() });
        self.keep(&verdicts);
    }

    /// Forgets what was remembered of an upstream.
    pub fn forget(&self, target: &Target) {
        let mut verdicts = self.verdicts.lock().unwrap_or_else(PoisonError::into_inner);
        if verdicts.remove(&key(target)).is_some() {
            self.keep(&verdicts);
        }
    }

    fn keep(&self, verdicts: &HashMap<String, Kept>) {
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
        assert_eq!(eras.find(&command("x")), None);
        eras.remember(&command("x"), Verdict::Other("loaf"));
        eras.remember(&command("z"), Verdict::Stateless);
        let again = Eras::kept_in(&file);
        let found = ["x", "y", "z"].map(|argument| again.find(&command(argument)));
        assert_eq!(found, [Some(Verdict::Other("loaf")), None, Some(Verdict::Stateless)]);
        let older = std::fs::File::options().write(true).open(&program).unwrap();
        older.set_modified(UNIX_EPOCH + Duration::from_secs(1)).unwrap();
        assert_eq!(again.find(&command("x")), None, "another program under the same name");
    }

    #[test]
    fn a_verdict_about_an_address_is_kept_until_it_is_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("eras.json");
        let at = |url: &str| Target::parse(&[url.to_owned()]).unwrap();
        let (one, other) = (at("https://a:secret@example.org/mcp"), at("https://example.org/other"));
        let eras = Eras::kept_in(&file);
        eras.remember(&one, Verdict::Handshake);
        eras.remember(&other, Verdict::Handshake);
        assert!(!std::fs::read_to_string(&file).unwrap().contains("secret"));
        eras.forget(&one);
        let again = Eras::kept_in(&file);
        assert_eq!((again.find(&one), again.find(&other)), (None, Some(Verdict::Handshake)));
    }
}
