//! `gladhand bridge`: connects one server to the downstream clients.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use gladhand_auth::Roots;
use gladhand_core::Secret;
use gladhand_hub::policy::Violations;
use gladhand_hub::{Hub, List, Mount, ServerProvider as _};
use http::HeaderMap;
use http::header::AUTHORIZATION;

use crate::authorization::FollowedAccess;
use crate::cli::BridgeArgs;
use crate::commands::plain::quoted;
use crate::commands::settings::{Part, Settings};
use crate::commands::{CommandError, serve, session, sign_in};
use crate::config;
use crate::exit::Exit;
use gladhand_client::upstream::{Authorizer, Bearer, Options, Speak, Target};
use gladhand_client::upstream_provider::{ConnectionBudget, Spec, UpstreamProvider};
use gladhand_server::Service;

/// Couples until the downstream ends.
pub fn run(args: &BridgeArgs) -> Result<ExitCode, CommandError> {
    let Settings { config, .. } = serve::settings(&args.listen, Part::WithoutUpstreams)?;
    let mut spec = spec(args)?;
    spec.options.violations = Arc::new(Violations::new(config.policy.violations));
    spec.options.line_bytes = config.limits.line_bytes;
    let upstream = Arc::new(UpstreamProvider::new(spec));
    let hub = Hub::of(vec![Mount::plain(Arc::clone(&upstream) as _)]);
    let data = config::data_dir(args.listen.data_dir.as_deref());
    let service = Service::new(hub).in_front_of(Arc::<UpstreamProvider>::clone(&upstream)).waiting_for_upstreams();
    let service = service.shown_as("bridge", data);
    let access = FollowedAccess::of(service.access());
    let ended = serve::serve(service, &access, &args.listen, config)?;
    match upstream.trouble(List::Tools) {
        // The client may be gone before the error is written.
        Some(failure) if args.listen.http.is_empty() => {
            Err(CommandError::new(Exit::PeerFailed, anyhow!(quoted(&failure.message))))
        }
        _ => Ok(ended),
    }
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
    let roots = session::roots(&target, args.ca.as_deref())?;
    let headers = session::headers(&args.header).map_err(CommandError::usage)?;
    let options = Options {
        speak,
        opening_timeout: Duration::from_secs(args.timeout),
        call_timeout: (args.call_timeout > 0).then(|| Duration::from_secs(args.call_timeout)),
        token: config::token_in_environment().map_err(CommandError::usage)?,
        authorizer: authorizer(&target, &headers, token, &roots),
        headers,
        roots,
        hidden: config::env::never_passed_on(),
        eras: session::eras(args.listen.data_dir.as_deref()),
        ..Options::default()
    };
    // The lists are not cached: a bridge offers exactly what the server has now.
    Ok(Spec {
        name: name(&target),
        target,
        options,
        isolated: args.isolate,
        client_roots: args.client_root.clone(),
        room: ConnectionBudget::default(),
        remembered_in: None,
    })
}

/// The name of the server in errors and logs. Arguments of a command may be secrets.
fn name(target: &Target) -> String {
    match target {
        Target::Command(words) => words.first().cloned().unwrap_or_default(),
        Target::Url(_) => target.to_string(),
    }
}

/// The credentials for a server that has no header `Authorization`: a token, or the tokens of an earlier login
/// (`gladhand login`). An interactive login is not possible here.
fn authorizer(
    target: &Target,
    headers: &HeaderMap,
    token: Option<Secret>,
    roots: &Roots,
) -> Option<Arc<dyn Authorizer>> {
    match (target, token) {
        _ if headers.contains_key(AUTHORIZATION) => None,
        (_, Some(token)) => Some(Arc::new(Bearer::new(token))),
        (Target::Url(url), None) => {
            sign_in::authorizer_for_nobody(url, roots).map(|authorizer| Arc::new(authorizer) as _)
        }
        (Target::Command(_), None) => None,
    }
}
