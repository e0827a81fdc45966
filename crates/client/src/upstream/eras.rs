//! Remembers which protocol an upstream spoke when it was last opened, so that later connections need no probing.
//!
//! A verdict holds for a program as it is now, and not for ever: a new one might be of the new era. One that turns out
//! wrong is forgotten.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gladhand_core::sync::Unpoisoned as _;
use gladhand_dialects::mcp::revision::Revision;
use gladhand_dialects::{REGISTRY, mcp};
use serde::{Deserialize, Serialize};

use super::target::Target;

/// How long a verdict is believed.
const GOOD_FOR: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// How many verdicts a file holds.
const MOST: usize = 1000;

/// The protocol that an upstream was found to speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// MCP, in these eras.
    Mcp(Spoken),
    /// Another dialect, of this name.
    Other(&'static str),
}

/// An era of MCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Era {
    /// A session opens with `initialize`.
    Handshake,
    /// Every request stands alone.
    Stateless,
}

impl Era {
    /// The era of a revision.
    pub(super) fn of(revision: Revision) -> Self {
        if revision.is_stateless() { Self::Stateless } else { Self::Handshake }
    }

    /// The other era.
    pub(super) fn other(self) -> Self {
        match self {
            Self::Handshake => Self::Stateless,
            Self::Stateless => Self::Handshake,
        }
    }

    /// The newest revision of the era.
    pub(super) fn newest(self) -> Revision {
        match self {
            Self::Handshake => Revision::HANDSHAKE[0],
            Self::Stateless => Revision::STATELESS[0],
        }
    }
}

/// Which eras of MCP a server speaks, as far as that is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Spoken {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    handshake: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stateless: Option<bool>,
}

impl Spoken {
    /// Whether the server speaks an era; `None` if it was not tried.
    pub(super) fn has(self, era: Era) -> Option<bool> {
        match era {
            Era::Handshake => self.handshake,
            Era::Stateless => self.stateless,
        }
    }

    fn set(&mut self, era: Era, speaks: bool) {
        match era {
            Era::Handshake => self.handshake = Some(speaks),
            Era::Stateless => self.stateless = Some(speaks),
        }
    }

    /// The era to try first for a client that prefers one: that one, unless the server is known not to speak it.
    pub(super) fn first(self, preferred: Era) -> Era {
        if self.has(preferred) == Some(false) { preferred.other() } else { preferred }
    }
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
    /// The name of the dialect.
    speaks: String,
    /// The eras of MCP.
    #[serde(flatten)]
    eras: Spoken,
}

impl Kept {
    fn is_good(&self) -> bool {
        now().saturating_sub(self.found) < GOOD_FOR.as_secs()
    }

    fn verdict(&self) -> Option<Verdict> {
        let dialect = REGISTRY.iter().find(|dialect| dialect.name == self.speaks)?;
        Some(if dialect.name == mcp::DIALECT.name { Verdict::Mcp(self.eras) } else { Verdict::Other(dialect.name) })
    }
}

impl Eras {
    /// Verdicts that are kept in a file between runs. An unreadable file counts as empty.
    pub fn kept_in(file: impl Into<PathBuf>) -> Self {
        let file = file.into();
        let kept = gladhand_store::read_state(&file).ok().and_then(|text| serde_json::from_slice(&text).ok());
        Self { verdicts: Arc::new(Mutex::new(kept.unwrap_or_default())), file: Some(file) }
    }

    /// The protocol that an upstream is known to speak.
    pub(super) fn find(&self, target: &Target) -> Option<Verdict> {
        let verdicts = self.verdicts.lock().unpoisoned();
        verdicts.get(&key(target)).filter(|kept| kept.is_good()).and_then(Kept::verdict)
    }

    /// The eras of MCP that an upstream is known to speak.
    pub(super) fn spoken(&self, target: &Target) -> Spoken {
        match self.find(target) {
            Some(Verdict::Mcp(spoken)) => spoken,
            _ => Spoken::default(),
        }
    }

    /// Whether an upstream may speak MCP with a handshake: it did, or it was never asked.
    pub fn may_shake_hands(&self, target: &Target) -> bool {
        self.spoken(target).has(Era::Handshake) != Some(false)
    }

    /// Remembers whether an upstream speaks an era of MCP.
    pub(super) fn learn(&self, target: &Target, era: Era, speaks: bool) {
        let mut spoken = self.spoken(target);
        spoken.set(era, speaks);
        self.remember(target, Verdict::Mcp(spoken));
    }

    /// Remembers what an upstream was found to speak.
    pub(super) fn remember(&self, target: &Target, verdict: Verdict) {
        if self.find(target) == Some(verdict) {
            return;
        }
        let mut verdicts = self.verdicts.lock().unpoisoned();
        verdicts.retain(|_, kept| kept.is_good());
        if verdicts.len() >= MOST {
            verdicts.clear();
        }
        let (speaks, eras) = match verdict {
            Verdict::Mcp(eras) => (mcp::DIALECT.name, eras),
            Verdict::Other(name) => (name, Spoken::default()),
        };
        verdicts.insert(key(target), Kept { found: now(), speaks: speaks.to_owned(), eras });
        self.keep(&verdicts);
    }

    /// Forgets what was remembered of an upstream.
    pub fn forget(&self, target: &Target) {
        let mut verdicts = self.verdicts.lock().unpoisoned();
        if verdicts.remove(&key(target)).is_some() {
            self.keep(&verdicts);
        }
    }

    fn keep(&self, verdicts: &HashMap<String, Kept>) {
        if let Some(file) = &self.file {
            let text = serde_json::to_vec(verdicts).unwrap_or_default();
            if let Err(error) = gladhand_store::files::replace(file, &text) {
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

/// An upstream as it is now: an address, or the words of a command and the age of the programs and scripts that they name;
/// hashed because either may hold secrets.
fn key(target: &Target) -> String {
    let mut hasher = DefaultHasher::new();
    match target {
        Target::Url(url) => url.hash(&mut hasher),
        Target::Command(words) => {
            for word in words {
                let program = std::fs::metadata(word).ok().filter(|data| is_program(Path::new(word), data));
                let modified = program.and_then(|data| data.modified().ok());
                let age = modified.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
                (word, age).hash(&mut hasher);
            }
        }
    }
    format!("{:016x}", hasher.finish())
}

/// Whether a file is a program or a script, and no data that a program works on.
fn is_program(path: &Path, data: &std::fs::Metadata) -> bool {
    const SCRIPTS: [&str; 10] = ["py", "pyz", "js", "mjs", "cjs", "ts", "jar", "rb", "php", "lua"];
    let is_script = path.extension().and_then(OsStr::to_str).is_some_and(|extension| SCRIPTS.contains(&extension));
    data.is_file() && (is_script || data.permissions().mode() & 0o111 != 0)
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
        let (file, program) = (folder.path().join("a/eras.json"), folder.path().join("server.py"));
        std::fs::write(&program, "1").unwrap();
        let command = |argument: &str| Target::Command(vec![program.to_str().unwrap().to_owned(), argument.to_owned()]);
        let eras = Eras::kept_in(&file);
        assert_eq!(eras.find(&command("x")), None);
        eras.remember(&command("x"), Verdict::Other("loaf"));
        eras.learn(&command("z"), Era::Stateless, true);
        let again = Eras::kept_in(&file);
        let found = ["x", "y", "z"].map(|argument| again.find(&command(argument)));
        assert_eq!(found, [Some(Verdict::Other("loaf")), None, Some(Verdict::Mcp(again.spoken(&command("z"))))]);
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
        eras.learn(&one, Era::Handshake, true);
        eras.learn(&other, Era::Handshake, true);
        assert!(!std::fs::read_to_string(&file).unwrap().contains("secret"));
        eras.forget(&one);
        let again = Eras::kept_in(&file);
        assert_eq!(again.find(&one), None);
        assert_eq!(again.spoken(&other).has(Era::Handshake), Some(true));
    }

    #[test]
    fn the_preferred_era_comes_first_unless_the_server_is_known_not_to_speak_it() {
        let at = Target::parse(&["https://example.org/mcp".to_owned()]).unwrap();
        let eras = Eras::default();
        let first = |preferred| eras.spoken(&at).first(preferred);
        assert_eq!(
            [first(Era::Handshake), first(Era::Stateless)],
            [Era::Handshake, Era::Stateless],
            "nothing is known"
        );
        eras.learn(&at, Era::Stateless, true);
        assert_eq!(first(Era::Handshake), Era::Handshake, "the other era was never tried");
        eras.learn(&at, Era::Handshake, false);
        assert_eq!([first(Era::Handshake), first(Era::Stateless)], [Era::Stateless, Era::Stateless]);
    }
}
