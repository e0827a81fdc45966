//! `gladhand bridge`: connects one server to the downstream clients.

use std::path::PathBuf;

use crate::commands::shared::arguments::{AS, ListenArgs, clients, seconds, sizes};
use clap::{Args, ValueHint};
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
use crate::commands::shared::opened_server;
use crate::commands::shared::settings::{Part, Settings};
use crate::commands::shared::sign_in;
use crate::commands::{CommandError, serve};
use crate::config;
use crate::exit::Exit;
use crate::recorder::followers::TapFollowers;
use crate::recorder::tapped::TapRecording;
use crate::recorder::{Existing, FileRecorder, MAX_MIB, Masks};
use crate::terminal::text::quoted;
use gladhand_client::upstream::{Authorizer, Bearer, Options, Speak, Target};
use gladhand_client::upstream_provider::{ConnectionBudget, Spec, UpstreamProvider};
use gladhand_server::Service;

const BRIDGE_HELP: &str = "\
The client and the server may speak any dialect and revision. Messages are
translated; a feature that one side lacks is not offered to the other. The
server starts with the client's first line and receives the capabilities that
this client declared. With --http, clients share a server process unless a
request of the server could reach the wrong client.

In the configuration of a client, put `gladhand bridge --` before the command
of a server.

Examples:
  gladhand bridge -- npx -y @modelcontextprotocol/server-everything stdio
  gladhand bridge https://example.org/mcp
  gladhand bridge --http 127.0.0.1:8080 -- my-old-server --stdio
  gladhand bridge --http 127.0.0.1:8080 --console -- my-server
  gladhand bridge --record session.ndjson -- my-server

GLADHAND_MCP_TOKEN is the bearer token for a server over HTTP, and
GLADHAND_A2E_TOKEN the token in the handshake with an A2E host.";

/// Options of `bridge`.
#[derive(Debug, Args)]
#[command(after_help = BRIDGE_HELP)]
pub struct BridgeArgs {
    /// URL of the server, unless a command follows.
    pub url: Option<String>,
    /// As which client to talk to the server.
    #[arg(long = "as", value_name = "DIALECT[@VERSION]", default_value = "auto", value_parser = clients(), ignore_case = true, help = AS)]
    pub client: String,
    /// Limit for opening the server, in seconds.
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    pub timeout: u64,
    /// Limit for a call without progress, in seconds; 0: no limit.
    #[arg(long, value_name = "SECONDS", default_value = "300", value_parser = clap::value_parser!(u64).range(..=86_400))]
    pub call_timeout: u64,
    /// Send this header with every HTTP request to the server; may be repeated.
    #[arg(long, value_name = "NAME: VALUE")]
    pub header: Vec<String>,
    /// Trust the certificate authorities in this PEM file, in addition to those of the system.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub ca: Option<PathBuf>,
    /// Start a separate server process for every client.
    #[arg(long, requires = "http")]
    pub isolate: bool,
    /// Folder that HTTP clients may send to the server as a root; may be repeated. Other roots on this machine are
    /// removed from the answers of clients.
    #[arg(long, value_name = "FOLDER", requires = "http", value_hint = ValueHint::DirPath)]
    pub client_root: Vec<PathBuf>,
    /// Record all messages of the clients and of the server in this file. An earlier recording becomes FILE.1.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub record: Option<PathBuf>,
    /// Mask text that matches this regular expression in the recording; may be repeated.
    #[arg(long, value_name = "REGEX", requires = "record")]
    pub mask: Vec<String>,
    /// Size in MiB at which a new part of the recording begins.
    #[arg(long, value_name = "N", requires = "record", default_value_t = MAX_MIB, value_parser = sizes())]
    pub max_mib: u64,
    /// Whom to serve, and how.
    #[command(flatten)]
    pub listen: ListenArgs,
    /// Command that starts the server.
    #[arg(last = true, value_name = "COMMAND", value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<String>,
}

/// Couples until the downstream ends.
pub fn run(args: &BridgeArgs) -> Result<ExitCode, CommandError> {
    let Settings { config, .. } = serve::settings(&args.listen, Part::WithoutUpstreams)?;
    let mut spec = spec(args)?;
    spec.options.violations = Arc::new(Violations::new(config.policy.violations));
    spec.options.line_bytes = config.limits.line_bytes;
    let (upstream, service) = coupled(spec);
    let _recording = recording(args, &service)?;
    let followers = TapFollowers::of(service.tap(), server_words(args), &args.mask).map_err(CommandError::usage)?;
    let service = service.shown_as("bridge", config::data_dir(args.listen.data_dir.as_deref()));
    let service = service.followed_by(Arc::<TapFollowers>::clone(&followers));
    let access = FollowedAccess::of(service.access());
    let ended = serve::serve(service, &access, &args.listen, config);
    followers.finish();
    let ended = ended?;
    match upstream.trouble(List::Tools) {
        // The client may be gone before the error is written.
        Some(failure) if args.listen.http.is_empty() => {
            Err(CommandError::new(Exit::PeerFailed, anyhow!(quoted(&failure.message))))
        }
        _ => Ok(ended),
    }
}

/// The upstream, and the service in front of it. They share one tap.
fn coupled(spec: Spec) -> (Arc<UpstreamProvider>, Service) {
    let tap = Arc::clone(&spec.options.tap);
    let upstream = Arc::new(UpstreamProvider::new(spec));
    let hub = Hub::of(vec![Mount::plain(Arc::clone(&upstream) as _)]);
    let service = Service::new(hub).tapped(tap).in_front_of(Arc::<UpstreamProvider>::clone(&upstream));
    (upstream, service.waiting_for_upstreams())
}

/// The recording that `--record` asks for.
fn recording(args: &BridgeArgs, service: &Service) -> Result<Option<TapRecording>, CommandError> {
    let Some(file) = &args.record else { return Ok(None) };
    let masks = Masks::of(&args.mask).map_err(CommandError::usage)?;
    let recorder = FileRecorder::begin(file, Existing::MoveAside, &server_words(args), args.max_mib, masks)?;
    Ok(Some(TapRecording::start(service.tap(), recorder)?))
}

/// The URL or command of the server.
fn server_words(args: &BridgeArgs) -> Vec<String> {
    args.url.iter().chain(&args.command).cloned().collect()
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
    let roots = opened_server::roots(&target, args.ca.as_deref())?;
    let headers = opened_server::headers(&args.header).map_err(CommandError::usage)?;
    let options = Options {
        speak,
        opening_timeout: Duration::from_secs(args.timeout),
        call_timeout: (args.call_timeout > 0).then(|| Duration::from_secs(args.call_timeout)),
        token: config::token_in_environment().map_err(CommandError::usage)?,
        authorizer: authorizer(&target, &headers, token, &roots),
        headers,
        roots,
        hidden: config::env::never_passed_on(),
        eras: opened_server::eras(args.listen.data_dir.as_deref()),
        ..Options::default()
    };
    // The lists are not cached: a bridge offers exactly what the server has now.
    Ok(Spec {
        name: name(&target),
        target,
        options,
        isolated: args.isolate,
        client_roots: args.client_root.clone(),
        connection_budget: ConnectionBudget::default(),
        list_wait: None,
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
            sign_in::non_interactive_authorizer(url, roots).map(|authorizer| Arc::new(authorizer) as _)
        }
        (Target::Command(_), None) => None,
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command};

    #[test]
    fn a_server_that_needs_long_is_waited_for_until_it_has_opened() {
        let cli = Cli::try_parse_from(["gladhand", "bridge", "--", "my-server"]).unwrap();
        let Command::Bridge(args) = cli.command else { panic!("it is a bridge") };
        assert_eq!(spec(&args).unwrap().list_wait, None);
    }

    #[test]
    fn the_service_and_its_upstream_share_one_tap() {
        let spec = Spec {
            name: "test".to_owned(),
            target: Target::Command(vec!["true".to_owned()]),
            options: Options::default(),
            isolated: false,
            client_roots: Vec::new(),
            connection_budget: ConnectionBudget::default(),
            list_wait: None,
            remembered_in: None,
        };
        let tap = Arc::clone(&spec.options.tap);
        assert!(Arc::ptr_eq(coupled(spec).1.tap(), &tap));
    }
}
