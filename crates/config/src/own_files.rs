//! The files of Gladhand itself, which no tool reads or writes: the configuration files in use, and the files that they
//! name.

use std::path::{Path, PathBuf};

use super::{Config, Layers, config_dir};

/// The data folder, and the files that are private: no tool reads or writes them, not even with approval.
#[derive(Debug, Clone)]
pub struct OwnFiles {
    /// The data folder.
    pub data: PathBuf,
    /// The private files.
    pub private: Vec<PathBuf>,
}

impl From<PathBuf> for OwnFiles {
    /// The files of every configuration: the config folder and the secret store.
    fn from(data: PathBuf) -> Self {
        let private = config_dir().into_iter().chain([data.join("secrets.sealed")]).collect();
        Self { data, private }
    }
}

impl OwnFiles {
    /// The files of every configuration, and those of this one: its layers, the audit file, the access log, the recordings and
    /// the keys of issuers.
    pub fn of(data: &Path, config: &Config, layers: &Layers) -> Self {
        let keys = config.authorization.issuers.iter().filter_map(|issuer| issuer.jwks_file.as_deref());
        let logs = [&config.audit.file, &config.access_log.file, &config.record.folder];
        let named = logs.into_iter().filter_map(|path| path.as_deref()).chain(keys);
        Self::from(data.to_owned()).with(layers.files_in_use().chain(named))
    }

    /// Adds private files.
    pub fn with<'p>(mut self, files: impl IntoIterator<Item = &'p Path>) -> Self {
        let whole = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        self.private.extend(files.into_iter().map(whole));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::super::{File, Project, Reading, Standing};
    use super::*;

    #[test]
    fn every_file_in_force_is_private() {
        let text = "[audit]\nfile = 'audit.jsonl'\n[access_log]\nfile = 'access.jsonl'\n[record]\nfolder = 'recordings'\n[[authorization.issuers]]\nissuer = 'x'\njwks_file = 'keys.json'\n";
        let own = File { path: "/etc/named.toml".into(), text: text.to_owned() };
        let config = own.parse(Reading::AsWritten).unwrap();
        let project = |standing| {
            let file = File { path: "/home/ann/shop/gladhand.toml".into(), text: String::new() };
            let layers = Layers { own: Some(own.clone()), project: Some(Project { file, standing }), is_named: false };
            OwnFiles::of(Path::new("/data"), &config, &layers).private
        };
        let always =
            ["/data/secrets.sealed", "/etc/named.toml", "audit.jsonl", "access.jsonl", "recordings", "keys.json"];
        let is_in = |all: &[PathBuf], name: &str| all.iter().any(|path| path.ends_with(name.trim_start_matches('/')));
        for standing in [Standing::Trusted(Default::default()), Standing::Unknown] {
            let is_trusted = standing != Standing::Unknown;
            let private = project(standing);
            assert!(private.iter().all(|path| path.is_absolute()), "{private:?}");
            for name in always {
                assert!(is_in(&private, name), "{name}: {private:?}");
            }
            assert_eq!(is_in(&private, "/home/ann/shop/gladhand.toml"), is_trusted, "{private:?}");
        }
    }
}
