//! Where what the configuration refers to is looked up: `${VAR}` and `${secret:NAME}`.

use gladhand_accord::Secret;

use crate::config::{Lookup, env};

/// The variables of our environment, and the secrets.
pub(super) fn lookup() -> Lookup<'static> {
    Lookup { variable: &|name| std::env::var(name).ok(), secret: &secret }
}

/// The secret of a name. This is the one place where a store of secrets is asked.
fn secret(name: &str) -> Result<Secret, String> {
    let variable = variable_of(name);
    let set = std::env::var(&variable).ok().filter(|value| !value.is_empty());
    set.map(Secret::new).ok_or_else(|| format!("set the variable {variable}"))
}

/// The variable that a secret can be given in.
fn variable_of(name: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    format!("{}{}", env::SECRET, name.chars().map(letter).collect::<String>())
}

/// Variables of ours that no program behind us gets.
pub(super) fn hidden() -> Vec<String> {
    let ours = [env::A2E_TOKEN, env::MCP_TOKEN].map(str::to_owned);
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    ours.into_iter().chain(names.filter(|name| name.starts_with(env::SECRET))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_that_is_not_there_says_where_it_could_be() {
        assert_eq!(secret("no-such.one").unwrap_err(), "set the variable GLADHAND_SECRET_NO_SUCH_ONE");
    }
}
