//! The configuration of a command: its files are found and read, and the user hears what is not used of them.

use std::io::Write as _;
use std::path::Path;

use super::lookup::Sources;
use super::plain::plain;
use crate::config::{self, Config, ConfigError, Layers, Loaded, Reading, SetAside, TrustStore, env};

/// A configuration and the files that it comes from.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) config: Config,
    pub(super) layers: Layers,
}

/// Which part of the configuration a command needs.
#[derive(Debug, Clone, Copy)]
pub(super) enum Part {
    /// All of it, with what upstreams refer to.
    Whole,
    /// All but the upstreams.
    WithoutUpstreams,
    /// All of it, as it is written.
    AsWritten,
}

/// Finds and reads the configuration. What is not used of it is a line each on stderr.
pub(super) fn load(named: Option<&Path>, data: Option<&Path>, part: Part) -> Result<Settings, ConfigError> {
    let layers = Layers::find(named, &TrustStore::in_folder(data))?;
    let sources = Sources::with_store_in(data.map(Path::to_owned));
    let loaded = sources.lookup(|lookup| {
        layers.load(match part {
            Part::Whole => Reading::Whole(lookup),
            Part::WithoutUpstreams => Reading::WithoutUpstreams,
            Part::AsWritten => Reading::AsWritten,
        })
    });
    if let Some(line) = layers.untrusted() {
        note(&line);
    }
    let Loaded { config, set_aside } = loaded?;
    if let Some((file, _)) = layers.trusted_project() {
        for SetAside(problem) in set_aside {
            note(&format!("{}: {problem}", file.path.display()));
        }
    }
    Ok(Settings { config, layers })
}

/// Notes what is not used of the files that apply here, for a command that leaves them to another process.
pub(super) fn note_unused(named: Option<&Path>) {
    let data = config::data_dir(std::env::var_os(env::DATA_DIR).as_deref().map(Path::new));
    // The other process reports a file that is wrong.
    let _ = load(named, data.as_deref(), Part::AsWritten);
}

/// One line on stderr, in one write.
fn note(line: &str) {
    // A reader that has closed stderr misses the note and nothing else.
    let _ = anstream::stderr().write_all(format!("gladhand: {}\n", plain(line)).as_bytes());
}
