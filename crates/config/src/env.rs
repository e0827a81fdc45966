//! Environment variables that we read, named in one place.

use std::ffi::OsStr;

use gladhand_core::Secret;
use gladhand_redaction::{Life, learn};

use super::ConfigError;

/// The configuration file.
pub const CONFIG: &str = "GLADHAND_CONFIG";
/// The data folder.
pub const DATA_DIR: &str = "GLADHAND_DATA_DIR";
/// The log filter.
pub const LOG: &str = "GLADHAND_LOG";
/// A token that A2E agents must present, and that `open --as a2e` presents.
pub const A2E_TOKEN: &str = "GLADHAND_A2E_TOKEN";
/// A bearer token that commands present to MCP servers over HTTP.
pub const MCP_TOKEN: &str = "GLADHAND_MCP_TOKEN";
/// The token of the console.
pub const CONSOLE_TOKEN: &str = "GLADHAND_CONSOLE_TOKEN";
/// The passphrase of the secret store.
pub const PASSPHRASE: &str = "GLADHAND_PASSPHRASE";
/// The configuration files of all outer instances, so that a nested instance can detect recursion.
pub const WITHIN: &str = "GLADHAND_WITHIN";
/// How long our own server waits for upstreams before it answers a command of ours, in milliseconds, and the name of the
/// tool that the command needs.
pub const LIST_WAIT: &str = "GLADHAND_LIST_WAIT";
/// The address of the service that searches the web for the agent.
pub const EXA_BASE: &str = "GLADHAND_EXA_BASE";
/// The prefix of environment variables that hold secrets.
pub const SECRET: &str = "GLADHAND_SECRET_";

/// Whether this variable is withheld from every program that we start: upstreams, tools of the agent, the browser. Only the
/// command of `gladhand record` has it, because that command runs as without us.
pub fn is_never_passed_on(name: &OsStr) -> bool {
    [A2E_TOKEN, MCP_TOKEN, CONSOLE_TOKEN, PASSPHRASE, LIST_WAIT].iter().any(|ours| name == *ours)
        || name.as_encoded_bytes().starts_with(SECRET.as_bytes())
}

/// The variables of our environment that are withheld from every program.
pub fn never_passed_on() -> Vec<String> {
    let names = std::env::vars_os().map(|(name, _)| name).filter(|name| is_never_passed_on(name));
    names.filter_map(|name| name.into_string().ok()).collect()
}

/// The token in `GLADHAND_A2E_TOKEN`; none if it is not set or empty.
pub fn token_in_environment() -> Result<Option<Secret>, ConfigError> {
    secret_in_environment(A2E_TOKEN)
}

/// The token in `GLADHAND_MCP_TOKEN`; none if it is not set or empty.
pub fn mcp_token_in_environment() -> Result<Option<Secret>, ConfigError> {
    secret_in_environment(MCP_TOKEN)
}

/// The token in `GLADHAND_CONSOLE_TOKEN`; none if it is not set or empty.
pub fn console_token_in_environment() -> Result<Option<Secret>, ConfigError> {
    secret_in_environment(CONSOLE_TOKEN)
}

/// The passphrase in `GLADHAND_PASSPHRASE`; none if it is not set or empty.
pub fn passphrase_in_environment() -> Result<Option<Secret>, ConfigError> {
    secret_in_environment(PASSPHRASE)
}

fn secret_in_environment(name: &'static str) -> Result<Option<Secret>, ConfigError> {
    match std::env::var(name) {
        Ok(token) if token.is_empty() => Ok(None),
        Ok(token) => {
            learn(&token, Life::Process);
            Ok(Some(Secret::new(token)))
        }
        Err(std::env::VarError::NotPresent) => Ok(None),
        // Continuing without the token would let every client in.
        Err(std::env::VarError::NotUnicode(_)) => Err(ConfigError::TokenNotText(name)),
    }
}
