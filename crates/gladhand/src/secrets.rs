//! Where this user's secrets are.

use std::path::Path;

use gladhand_store::{SecretError, SecretLocations, Secrets};

use crate::config::{self, ConfigError, env};

/// Why the secrets are out of reach.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoSecrets {
    /// The user has no folders.
    #[error("there is no home folder to keep secrets in")]
    Homeless,
    /// The passphrase is none.
    #[error(transparent)]
    Passphrase(#[from] ConfigError),
    /// The store does not open.
    #[error("could not open the secret store: {0}")]
    Closed(#[from] SecretError),
}

impl NoSecrets {
    /// A hint for the user.
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::Homeless => Some(format!("set {}", env::DATA_DIR)),
            Self::Passphrase(_) => None,
            Self::Closed(error) => error.hint(env::PASSPHRASE),
        }
    }
}

/// Opens the secrets in a data folder.
pub(crate) fn open(data: &Path) -> Result<Secrets, NoSecrets> {
    let config = config::config_dir().ok_or(NoSecrets::Homeless)?;
    let passphrase = config::passphrase_in_environment()?;
    Ok(Secrets::open(SecretLocations { data: data.to_owned(), config, passphrase })?)
}
