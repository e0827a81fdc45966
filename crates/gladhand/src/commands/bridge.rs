//! `gladhand bridge`: one server, coupled to whatever is downstream.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use gladhand_hub::{Hub, Mount};

use crate::Service;
use crate::cli::BridgeArgs;
use crate::commands::{CommandError, serve, session};
use crate::config::{self, env};
use crate::coupling::{Coupled, Spec};
use crate::upstream::{Bearer, Eras, Options, Speak, Target};

/// Couples until the downstream ends.
pub fn run(args: &BridgeArgs) -> Result<ExitCode, CommandError> {
    let config = serve::settings(&args.listen)?;
    let upstream = Arc::new(Coupled::new(spec(args)?));
    let hub = Hub::of(vec![Mount::plain(Arc::clone(&upstream) as _)]);
    let service = Service::new(hub).in_front_of(upstream).waiting_for_upstreams();
    serve::serve(service, &args.listen, config)
}

fn spec(args: &BridgeArgs) -> Result<Spec, CommandError> {
    let words = match (&args.url, args.command.is_empty()) {
        (Some(url), true) => vec![url.clone()],
        (None, false) => args.command.clone(),
        (Some(_), false) => {
            return Err(CommandError::usage(anyhow!("give a URL or a command behind `--`, not both")));
        }
        (None, true) => {
            let hint = "as in `gladhand bridge -- my-server` or `gladhand bridge https://example.org/mcp`";
            return Err(CommandError::usage(anyhow!("which server? Name a URL, or a command behind `--`")).hint(hint));
        }
    };
    let target = Target::parse(&words).map_err(CommandError::usage)?;
    let speak = Speak::parse(&args.client)
        .ok_or_else(|| CommandError::usage(anyhow!("there is no client `{}`", args.client)))?;
    let token = config::mcp_token_in_environment().map_err(CommandError::usage)?;
    let data_dir = config::data_dir(args.listen.data_dir.as_deref());
    let options = Options {
        speak,
        opening_timeout: Duration::from_secs(args.timeout),
        headers: session::headers(&args.header).map_err(CommandError::usage)?,
        authorizer: token.map(|token| Arc::new(Bearer::new(token)) as _),
        hidden: vec![env::A2E_TOKEN.to_owned(), env::MCP_TOKEN.to_owned()],
        eras: data_dir.map(|folder| Eras::kept_in(folder.join("eras.json"))).unwrap_or_default(),
        ..Options::default()
    };
    // What it has is asked for each time: a bridge offers exactly what the server has now.
    Ok(Spec { name: name(&target), target, options, isolated: args.isolate, remembered_in: None })
}

/// What errors and logs call the server. Arguments of a command may be secrets.
fn name(target: &Target) -> String {
    match target {
        Target::Command(words) => words.first().cloned().unwrap_or_default(),
        Target::Url(_) => target.to_string(),
    }
}
