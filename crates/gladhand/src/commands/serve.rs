//! `gladhand serve`: one downstream on stdin and stdout.

use std::io::IsTerminal;
use std::process::ExitCode;

use gladhand_accord::Secret;
use gladhand_dialects::{Dialect, REGISTRY};
use gladhand_hub::Hub;

use crate::Service;
use crate::cli::ServeArgs;
use crate::commands::CommandError;
use crate::config::{self, env};
use crate::edges::downstream::Ended;
use crate::exit::Exit;
use crate::providers::Toolbox;

/// Serves until the downstream ends.
pub fn run(args: &ServeArgs) -> Result<ExitCode, CommandError> {
    let (config, path) = config::load(args.config.as_deref()).map_err(CommandError::usage)?;
    let data_dir = config::data_dir(args.data_dir.as_deref());
    tracing::debug!(config = ?path, ?data_dir, "settings");
    let mut tokens = config.a2e.tokens;
    tokens.extend(std::env::var(env::A2E_TOKEN).ok().filter(|token| !token.is_empty()).map(Secret::new));
    let hub = Hub::new(vec![Box::new(Toolbox)])?;
    let mut service = Service::new(hub).tokens(tokens).max_parallel(config.a2e.max_parallel).limits(config.limits);
    if let Some(dialect) = dialect(&args.dialect) {
        service = service.pinned(dialect);
    }
    if std::io::stdin().is_terminal() {
        anstream::eprintln!("gladhand serve: waiting for a peer's first line on this terminal; Ctrl-D ends");
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
