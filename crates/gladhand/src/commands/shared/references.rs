//! Resolves references of the configuration: `${VAR}` and `${secret:NAME}`.

use std::path::{Path, PathBuf};

use gladhand_auth::Roots;
use gladhand_core::Secret;

use crate::config::{Lookup, env};
use crate::secrets;

/// The variables of our environment, and the secrets: in the environment, else in the store.
#[derive(Debug, Clone, Default)]
pub(in crate::commands) struct Sources {
    data: Option<PathBuf>,
}

impl Sources {
    /// With the store in this data folder.
    pub(in crate::commands) fn with_store_in(data: Option<PathBuf>) -> Self {
        Self { data }
    }

    /// Does something that looks things up here.
    pub(in crate::commands) fn lookup<R>(&self, then: impl FnOnce(&Lookup<'_>) -> R) -> R {
        then(&Lookup { variable: &variable, secret: &|name| self.secret(name), authorities: &authorities })
    }

    /// The secret of a name; what can be done if there is none.
    fn secret(&self, name: &str) -> Result<Secret, String> {
        let variable = variable_of(name);
        if let Some(value) = std::env::var(&variable).ok().filter(|value| !value.is_empty()) {
            return Ok(Secret::new(value));
        }
        let stored = match &self.data {
            Some(data) => {
                let secrets = secrets::open(data).map_err(|error| error.to_string())?;
                secrets.get(name).map_err(|error| error.to_string())?
            }
            None => None,
        };
        stored.ok_or_else(|| format!("run `gladhand secret set {name}`, or set the variable {variable}"))
    }
}

/// A variable of our environment. `PWD` is the current folder, also if the program that started us is no shell.
fn variable(name: &str) -> Option<String> {
    match name {
        "PWD" => std::env::current_dir().ok()?.into_os_string().into_string().ok(),
        name => std::env::var(name).ok(),
    }
}

/// Whether a file has certificate authorities, and what is wrong with it if it has none.
pub(in crate::commands) fn authorities(file: &Path) -> Result<(), String> {
    Roots::read(Some(file)).map(drop).map_err(|error| error.to_string())
}

/// The variable that a secret can be given in.
pub(in crate::commands) fn variable_of(name: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    format!("{}{}", env::SECRET, name.chars().map(letter).collect::<String>())
}

/// Tokens of ours that a server of our own does not get: they are for its clients. It resolves secrets itself. All other programs get
/// none of [`env::never_passed_on`].
pub(in crate::commands) fn hidden_from_ourselves() -> Vec<String> {
    [env::A2E_TOKEN, env::MCP_TOKEN].map(str::to_owned).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_secret_has_advice_with_command_and_variable() {
        let advice = "run `gladhand secret set no-such.one`, or set the variable GLADHAND_SECRET_NO_SUCH_ONE";
        let found = Sources::default().lookup(|lookup| (lookup.secret)("no-such.one").map(drop));
        assert_eq!(found.unwrap_err(), advice);
    }
}
