//! `gladhand serve`: one downstream on stdin and stdout.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use gladhand_dialects::{Dialect, REGISTRY};
use gladhand_hub::Hub;

use crate::Service;
use crate::cli::ServeArgs;
use crate::commands::CommandError;
use crate::config;
use crate::edges::downstream::Ended;
use crate::exit::Exit;
use crate::providers::Toolbox;

/// Serves until the downstream ends.
pub fn run(args: &ServeArgs) -> Result<ExitCode, CommandError> {
    let (config, path) = config::load(args.config.as_deref()).map_err(CommandError::usage)?;
    let data_dir = config::data_dir(args.data_dir.as_deref());
    tracing::debug!(config = ?path, ?data_dir, "settings");
    let mut tokens = config.a2e.tokens;
    tokens.extend(config::token_in_environment().map_err(CommandError::usage)?);
    let hub = Hub::new(vec![Box::new(Toolbox)])?;
    let mut service = Service::new(hub).tokens(tokens).max_parallel(config.a2e.max_parallel).limits(config.limits);
    if let Some(dialect) = dialect(&args.dialect) {
        service = service.pinned(dialect);
    }
    if std::io::stdin().is_terminal() {
        let hint = "gladhand serve: waiting for a peer's first line on this terminal; Ctrl-D ends";
        let _ = writeln!(std::io::stderr(), "{hint}");
    }
    match service.serve_stdio()? {
        Ended::Cleanly => Ok(Exit::Success.into()),
        Ended::DownstreamGone => {
            tracing::info!("the downstream stopped reading");
            Ok(Exit::Success.into())
        }
        // Told twice: not even the log is waited for.
        Ended::AtOnce(status) => std::process::exit(i32::from(status)),
    }
}

/// The dialect of a name; none for `auto`.
fn dialect(name: &str) -> Option<&'static Dialect> {
    REGISTRY.iter().copied().find(|dialect| dialect.name == name)
}
