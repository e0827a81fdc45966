//! A configuration file, and the folders of the user.

use std::io::Read;
use std::path::{Path, PathBuf};

use etcetera::BaseStrategy;

use super::reading::{Examined, read_through};
#[cfg(test)]
use super::{Config, Problem};
use super::{Reading, Source, UpstreamConfig};

/// The largest configuration file.
const LARGEST: u64 = 1024 * 1024;

/// A configuration file's text, bounded.
pub fn read(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    gladhand_store::files::no_pipe(path)?;
    let read = fs_err::File::open(path)?.take(LARGEST + 1).read_to_string(&mut text);
    let length = read.map_err(|error| match error.kind() {
        std::io::ErrorKind::InvalidData => {
            std::io::Error::new(error.kind(), format!("{} is not UTF-8", path.display()))
        }
        _ => error,
    })?;
    if length as u64 > LARGEST {
        return Err(std::io::Error::other(format!("{} is larger than {LARGEST} bytes", path.display())));
    }
    Ok(text)
}

/// A configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Where it is.
    pub path: PathBuf,
    /// The content of the file.
    pub text: String,
}

impl File {
    /// Parses the file, or returns all mistakes in it.
    #[cfg(test)]
    pub fn parse(&self, reading: Reading<'_>) -> Result<Config, Vec<Problem>> {
        self.examine(reading).sound()
    }

    /// Parses as much of the file as possible, and collects all mistakes in it.
    pub fn examine(&self, reading: Reading<'_>) -> Examined<'_> {
        // Relative paths begin in the folder of the file.
        read_through(&self.text, self.path.parent(), reading)
    }

    /// The settings of all upstreams as written, for display. References in them are not looked up.
    pub fn all_written(&self) -> Vec<(String, UpstreamConfig)> {
        let (source, _) = Source::read(&self.text);
        source.parse().0.unwrap_or_default().upstreams.0
    }
}

/// The file in the user's config folder.
pub fn users_file() -> Option<PathBuf> {
    config_dir().map(|folder| folder.join("gladhand.toml"))
}

/// The data folder: `--data-dir` or `GLADHAND_DATA_DIR` (clap merges the two), else the user's. An empty name counts as
/// none: it would mean the current folder.
pub fn data_dir(named: Option<&Path>) -> Option<PathBuf> {
    let user = || users_folders().map(|dirs| dirs.data_dir().join("gladhand"));
    named.filter(|named| !named.as_os_str().is_empty()).map(Path::to_owned).or_else(user)
}

/// The user's config folder.
pub fn config_dir() -> Option<PathBuf> {
    users_folders().map(|dirs| dirs.config_dir().join("gladhand"))
}

/// The user's home folder. A relative one is ignored: it would be a folder of the current one, which may be a stranger's.
pub fn home_dir() -> Option<PathBuf> {
    etcetera::home_dir().ok().filter(|home| home.is_absolute())
}

/// The folders of the user.
fn users_folders() -> Option<impl BaseStrategy> {
    home_dir()?;
    etcetera::choose_base_strategy().ok()
}
