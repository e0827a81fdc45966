//! `gladhand secret`: keeps secrets on this machine, encrypted. Values come in by a hidden prompt or a pipe, and never out.

mod prompt;

use std::io::{IsTerminal as _, Read as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::anyhow;
use clap::{Args, Subcommand, ValueHint};
use gladhand_core::Secret;
use gladhand_store::{KeyLocation, SecretError, Secrets};
use serde_json::json;

use crate::commands::{CommandError, print_report, written};
use crate::config::{self, env};
use crate::exit::Exit;
use crate::secrets::{self, NoSecrets};
use crate::terminal::text::plain;

/// No secret is longer; what is piped in is not read further.
const LONGEST: u64 = 1024 * 1024;

const SECRET_HELP: &str = "\
Secrets are stored in one encrypted file in the data folder. Its key is derived
from GLADHAND_PASSPHRASE if that is set. Otherwise the key is a file in the
config folder, so that a copy of the data folder alone reveals nothing.

Examples:
  gladhand secret set github  prompt for the value, without echo
  pass show github | gladhand secret set github
  gladhand secret list
  gladhand secret rm github";

/// Options of `secret`.
#[derive(Debug, Args)]
#[command(after_help = SECRET_HELP, arg_required_else_help = true)]
pub struct SecretArgs {
    #[command(subcommand)]
    command: SecretCommand,
    /// Data folder [default: the user's data folder].
    #[arg(long, value_name = "DIR", env = env::DATA_DIR, value_hint = ValueHint::DirPath, global = true)]
    data_dir: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long, global = true)]
    json: bool,
}

const SET_HELP: &str = "\
Examples:
  gladhand secret set github
  pass show github | gladhand secret set github";

const LIST_HELP: &str = "\
Examples:
  gladhand secret list
  gladhand secret list --json";

const RM_HELP: &str = "\
Examples:
  gladhand secret rm github";

#[derive(Debug, Subcommand)]
enum SecretCommand {
    /// Store a secret under a name, from a hidden prompt or from stdin.
    #[command(after_help = SET_HELP)]
    Set {
        /// Name of the secret.
        name: String,
        /// Rejected with an explanation: other users of this machine can read command lines.
        #[arg(hide = true, value_parser = |_: &str| Ok::<_, std::convert::Infallible>(()))]
        value: Option<()>,
    },
    /// List the names of all secrets, and the file that contains them.
    #[command(after_help = LIST_HELP)]
    List,
    /// Delete a secret.
    #[command(after_help = RM_HELP)]
    Rm {
        /// Name of the secret.
        name: String,
    },
}

/// Keeps, lists or forgets.
pub fn run(args: SecretArgs) -> Result<ExitCode, CommandError> {
    let folder = config::data_dir(args.data_dir.as_deref()).ok_or_else(|| closed(NoSecrets::Homeless))?;
    // Opened before the user is asked for a value, so that they type nothing in vain.
    let secrets = secrets::open(&folder).map_err(closed)?;
    match args.command {
        SecretCommand::Set { name, value: Some(()) } => {
            let error = anyhow!("the value of a secret is not taken from the command line, where others can read it");
            let name = plain(&name);
            let hint = format!("`gladhand secret set {name}` asks for it, and reads it where stdin is a pipe or file");
            return Err(CommandError::usage(error).hint(hint));
        }
        SecretCommand::Set { name, value: None } => {
            let Some(value) = value(&name)? else { return Err(CommandError::usage(anyhow!("nothing was entered"))) };
            secrets.set(&name, value).map_err(refused)?;
            if args.json {
                let key_location = secrets.key_location().map_err(refused)?;
                let report = json!({"name": name, "file": secrets.file(), "key": word(key_location)});
                return print_report(report, None);
            }
            say(&format!("kept `{}` in {}", plain(&name), whereabouts(&secrets)?));
        }
        SecretCommand::List if !args.json => {
            let names = secrets.names().map_err(refused)?;
            let lines: String = names.iter().map(|name| format!("{}\n", plain(name))).collect();
            written(anstream::stdout().write_all(lines.as_bytes()))?;
            match names.is_empty() {
                true => say(&format!("no secrets yet; they would be in {}", whereabouts(&secrets)?)),
                false => say(&format!("kept in {}", whereabouts(&secrets)?)),
            }
        }
        SecretCommand::List => {
            let key_location = secrets.key_location().map_err(refused)?;
            let key = Some(secrets.key_file()).filter(|_| key_location == KeyLocation::File);
            let names = secrets.names().map_err(refused)?;
            let report = json!({"names": names, "file": secrets.file(), "key": word(key_location), "key_file": key});
            return print_report(report, None);
        }
        SecretCommand::Rm { name } => {
            if !secrets.remove(&name).map_err(refused)? {
                return Err(CommandError::usage(anyhow!("there is no secret `{}`", plain(&name))));
            }
            if args.json {
                return print_report(json!({"name": name}), None);
            }
            say(&format!("forgot `{}`", plain(&name)));
        }
    }
    Ok(Exit::Success.into())
}

/// The value to store; none if it is empty.
fn value(name: &str) -> Result<Option<Secret>, CommandError> {
    if std::io::stdin().is_terminal() {
        return Ok(prompt::ask(&format!("value of `{}` (not shown): ", plain(name)))?);
    }
    let mut text = String::new();
    if std::io::stdin().take(LONGEST + 1).read_to_string(&mut text)? as u64 > LONGEST {
        return Err(refused(SecretError::TooLong));
    }
    let text = Secret::new(text);
    // The line end is not part of the value.
    let value = text.expose().strip_suffix('\n').unwrap_or_else(|| text.expose());
    let value = value.strip_suffix('\r').unwrap_or(value);
    Ok((!value.is_empty()).then(|| Secret::new(value)))
}

fn whereabouts(secrets: &Secrets) -> Result<String, CommandError> {
    let file = secrets.file().display();
    Ok(match secrets.key_location().map_err(refused)? {
        KeyLocation::File => format!("{file}, encrypted with the key in {}", secrets.key_file().display()),
        KeyLocation::Passphrase => format!("{file}, encrypted with the passphrase in {}", env::PASSPHRASE),
        KeyLocation::Keychain => format!("{file}, encrypted with a key in the keychain"),
    })
}

fn word(key_location: KeyLocation) -> &'static str {
    match key_location {
        KeyLocation::File => "file",
        KeyLocation::Passphrase => "passphrase",
        KeyLocation::Keychain => "keychain",
    }
}

fn say(text: &str) {
    super::note(text);
}

fn refused(error: SecretError) -> CommandError {
    match error {
        error @ (SecretError::BadName | SecretError::TooLong) => CommandError::usage(error),
        error => closed(NoSecrets::Closed(error)),
    }
}

fn closed(error: NoSecrets) -> CommandError {
    let hint = error.hint();
    let error = CommandError::new(Exit::Failure, error);
    match hint {
        Some(hint) => error.hint(hint),
        None => error,
    }
}
