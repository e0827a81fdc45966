//! `gladhand serve`: one downstream on stdin and stdout, or any number over HTTP.

mod assembly;
mod mounted;
mod recursion;
mod reload;

use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use gladhand_dialects::{CacheHints, Dialect, REGISTRY};
use gladhand_hub::Hub;
use tracing::Level;

use crate::access_log::AccessLog;
use crate::authorization::FollowedAccess;
use crate::commands::CommandError;
use crate::commands::console::Console;
use crate::commands::shared::arguments::{ListenArgs, WhoApproves};
use crate::commands::shared::settings::{self, Part, Settings};
use crate::config::{self, Config, ConfigError, HttpConfig};
use crate::exit::Exit;
use crate::from_config;
use crate::line_file::FlushGuard;
use crate::policy_setup;
use crate::recorder::followers::TapFollowers;
use crate::recorder::{self, NotRecorded};
use crate::telemetry::Telemetry;
use crate::{logging, utc};
pub(super) use assembly::{Assembly, Reached};
use gladhand_process::open_files;
use gladhand_server::Service;
use gladhand_server::downstream::Ended;
use gladhand_server::http::{Http, Tls};
use gladhand_server::refusal_line;
use gladhand_session::clock::Clock;
use gladhand_telemetry::OperationTransport;
pub(super) use mounted::{ListWaits, Memory, reach};
pub(super) use recursion::Within;
use reload::{Following, HangUp, Reader};

const SERVE_HELP: &str = "\
The client's first line selects the dialect, unless --dialect does. Stdout
carries protocol lines only; logs go to stderr.

With --http, MCP is served at /mcp (and at /sse for clients of 2024-11-05) and
A2E at /session, /send and /stream. Stdin and stdout are not used. A request
must name a loopback host, the address itself or a host of --allow-host. The
server's health is at /healthz, /readyz and /health. With --console, a page at
/console shows sessions, messages and calls.

With --metrics, numbers for Prometheus are at /metrics. They need the
authorization of the endpoint, if it has one.

Tools of the servers in the configuration file ([upstreams.NAME]) are served
under names such as NAME__tool. Changes of the file apply while it runs. If a
program that this process starts could have written the file, only changes
that narrow apply at once. The others wait for `gladhand config trust FILE` or
a restart; `gladhand ps` shows that a change waits.

Examples:
  gladhand serve
  gladhand serve --dialect mcp -v
  gladhand serve --http 127.0.0.1:8080 --console
  gladhand serve --http 0.0.0.0:443 --allow-host mcp.example.com \\
    --tls-cert cert.pem --tls-key key.pem
  printf '{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"rpc.handshake\"}\\n' | gladhand serve

GLADHAND_A2E_TOKEN is a token for A2E agents, in addition to those in the
configuration.

When stdin closes or a signal arrives, calls in flight finish or fail, all
output is written, and the exit code is 0. A second signal, or a signal before
the client's first line, ends the process immediately with 130 or 143.";

/// Options of `serve`.
#[derive(Debug, Args)]
#[command(after_help = SERVE_HELP)]
pub struct ServeArgs {
    /// Whom to serve, and how.
    #[command(flatten)]
    pub listen: ListenArgs,
    /// Who approves tools of the agent that may do harm [default: ask].
    #[arg(long, value_name = "WHOM")]
    pub approve: Option<WhoApproves>,
}

/// Serves until the downstream ends.
pub fn run(args: &ServeArgs) -> Result<ExitCode, CommandError> {
    let data = config::data_dir(args.listen.data_dir.as_deref());
    let Settings { mut config, layers } = settings(&args.listen, Part::Whole)?;
    if let Some(approve) = args.approve {
        config.agent.approve = approve.into();
    }
    let reached = reached(&args.listen, &config)?;
    let assembly = Assembly::of(&mut config, &layers, data.as_deref(), reached, ListWaits::of_environment());
    let Assembly { hub, agent, tap, mounted, is_circle } = assembly;
    let _recording = recorder::folder::start(&config.record, &tap).map_err(not_recording)?;
    let followers = TapFollowers::of(&tap, Vec::new(), &config.record.mask).map_err(CommandError::usage)?;
    let service = Service::new(hub.clone()).tapped(tap).followed_by(Arc::<TapFollowers>::clone(&followers));
    let service = service.with_chore(gladhand_agent_tools::remove_leftovers);
    let access = Arc::new(FollowedAccess::of(service.access()));
    let service = match is_circle || (layers.own.is_none() && layers.project.is_none()) {
        false => {
            let hang_up = hang_up_means(&args.listen);
            let named = args.listen.config.clone();
            let reader = Reader::new(named, data.as_deref(), layers, config.clone())
                .approving(args.approve.map(Into::into))
                .reporting(service.change_status());
            let following = Following::new(mounted, hub, Arc::clone(&access), data, &config).with(agent);
            let following = reload::follow(reader, following, hang_up);
            service.alongside(following).outliving_hang_ups(hang_up == HangUp::Reload)
        }
        true => service,
    };
    let data = config::data_dir(args.listen.data_dir.as_deref());
    let ended = serve(service.shown_as("serve", data), &access, &args.listen, config);
    followers.finish();
    ended
}

/// Who can reach what we serve. Tokens of A2E leave MCP open, which is served at the same addresses.
fn reached(args: &ListenArgs, config: &Config) -> Result<Reached, CommandError> {
    let token = config::token_in_environment().map_err(CommandError::usage)?;
    let has_passes = from_config::passes(&config.a2e, token).iter().any(|pass| !pass.token.expose().is_empty());
    let is_a2e_closed = args.dialect == "a2e" && has_passes;
    Ok(match args.http.is_empty() {
        true => Reached::Here,
        false if config.authorization.is_required() || is_a2e_closed => Reached::WithToken,
        false => Reached::ByAnyone,
    })
}

/// SIGHUP means the end of the session to a process that has a terminal or serves one peer on stdio. To a service it
/// means: reload the configuration.
fn hang_up_means(args: &ListenArgs) -> HangUp {
    let has_terminal = std::io::stdin().is_terminal() || std::io::stderr().is_terminal();
    if args.http.is_empty() || has_terminal { HangUp::Stop } else { HangUp::Reload }
}

/// The configuration that holds, and its files.
pub(super) fn settings(args: &ListenArgs, part: Part) -> Result<Settings, CommandError> {
    if !args.http.is_empty() {
        // Before anything is made that has a part of the open files.
        open_files::raise();
    }
    let data = config::data_dir(args.data_dir.as_deref());
    let settings = settings::load(args.config.as_deref(), data.as_deref(), part, settings::log).map_err(|error| {
        excuse(args, &error);
        CommandError::usage(error)
    })?;
    let files: Vec<_> = settings.layers.in_force().map(|file| &file.path).collect();
    tracing::debug!(config = ?files, data_dir = ?data, "settings");
    Ok(settings)
}

/// Tells the peer too why there is nothing to be had here: many show what comes back, and not what is on stderr.
fn excuse(args: &ListenArgs, error: &ConfigError) {
    if !args.http.is_empty() || std::io::stdin().is_terminal() {
        return;
    }
    let service = Service::new(Hub::of(Vec::new()));
    let service = match dialect(&args.dialect) {
        Some(dialect) => service.pinned(dialect),
        None => service,
    };
    let clock = Clock::start();
    let door = service.door(&clock);
    if let Err(error) = refusal_line::send(&door, clock, &error.to_string()) {
        tracing::debug!(%error, "the peer could not be told");
    }
}

/// Serves what a service has, on the terms of the configuration, to whom the command line says.
pub(super) fn serve(
    service: Service,
    access: &FollowedAccess,
    args: &ListenArgs,
    config: Config,
) -> Result<ExitCode, CommandError> {
    let data = config::data_dir(args.data_dir.as_deref());
    let (service, _policy) = policy_setup::govern(service, &config, data.as_deref())?;
    let access_log = AccessLog::start(&config.access_log)?;
    if let Some(log) = access_log.clone() {
        service.hub().observe_calls(Arc::new(log));
    }
    let _access_log = FlushGuard(access_log.map(|log| log.queue));
    let token = config::token_in_environment().map_err(CommandError::usage)?;
    from_config::follow(access, &config, token).map_err(CommandError::usage)?;
    let cache = CacheHints { ttl_ms: config.mcp.cache_ms, public: false };
    let mut service = service
        .max_parallel(config.a2e.max_parallel)
        .token_advice(format!("set `a2e.tokens` in the configuration, or {}", config::env::A2E_TOKEN))
        .limits(from_config::limits(&config.limits))
        .empty_lists(config.mcp.empty_lists)
        .cache(cache);
    if let Some(dialect) = dialect(&args.dialect) {
        service = service.pinned(dialect);
    }
    let serves_metrics = !args.http.is_empty() && (args.metrics || config.metrics.enabled);
    let transport = if args.http.is_empty() { OperationTransport::Stdio } else { OperationTransport::Http };
    let telemetry =
        Telemetry::start(&config.telemetry, serves_metrics, transport, &service).map_err(CommandError::usage)?;
    if !args.http.is_empty() {
        let mut http = http(args, config.http)?;
        if let Some(telemetry) = telemetry.as_ref().filter(|_| serves_metrics) {
            http.side_routes.push(telemetry.route());
        }
        http.agents = from_config::agent_limits(&config.a2e);
        let speaks_both = dialect(&args.dialect).is_none();
        let console = args.console.then(|| console(&service, args, &http, &config.record.mask)).transpose()?;
        http.side_routes.extend(console.as_ref().map(Console::routes));
        let announce = |urls: &[String]| {
            announce(urls, speaks_both);
            console.iter().for_each(|console| console.announce(urls));
        };
        return ended(service.serve_http(http, announce).map_err(not_listening)?);
    }
    if std::io::stdin().is_terminal() {
        let hint = "waiting for a peer's first line on this terminal; Ctrl-D ends";
        logging::say(Level::INFO, hint, &[], &format!("gladhand: {hint}\n"));
    }
    ended(service.serve_stdio()?)
}

/// The console that `--console` asks for.
fn console(service: &Service, args: &ListenArgs, http: &Http, mask: &[String]) -> Result<Arc<Console>, CommandError> {
    let is_proxied = !http.options.allow_hosts.is_empty();
    let data = config::data_dir(args.data_dir.as_deref());
    Console::live(service, &args.http, is_proxied, args.dialect != "a2e", data.as_deref(), mask).map(Arc::new)
}

/// Why the sessions cannot be recorded as `[record]` asks.
fn not_recording(error: NotRecorded) -> CommandError {
    let hint = "make the folder of [record], or remove the section";
    match error {
        NotRecorded::Mask(mask) => CommandError::usage(mask).hint("correct `record.mask`"),
        error => CommandError::from(error).hint(hint),
    }
}

/// Why the server cannot listen for HTTP, with a suggestion.
pub(in crate::commands) fn not_listening(error: std::io::Error) -> CommandError {
    let hint = match error.kind() {
        std::io::ErrorKind::AddrInUse => {
            "another process listens there: choose another port, or let the system choose one with --http 127.0.0.1:0"
        }
        std::io::ErrorKind::AddrNotAvailable => "this machine has no such address: 127.0.0.1 is always there",
        std::io::ErrorKind::PermissionDenied => "ports below 1024 may need a privilege: choose a higher one",
        _ => return error.into(),
    };
    CommandError::from(error).hint(hint)
}

pub(in crate::commands) fn ended(ended: Ended) -> Result<ExitCode, CommandError> {
    match ended {
        Ended::Cleanly => Ok(Exit::Success.into()),
        Ended::DownstreamGone => {
            tracing::info!("the downstream stopped reading");
            Ok(Exit::Success.into())
        }
        // Told twice: not even the log is waited for.
        Ended::AtOnce(status) => std::process::exit(i32::from(status)),
    }
}

/// How to serve over HTTP: what the flags say, and what the configuration adds to it.
fn http(args: &ListenArgs, mut config: HttpConfig) -> Result<Http, CommandError> {
    if !["auto", "mcp", "a2e"].contains(&args.dialect.as_str()) {
        let error = anyhow::anyhow!("{} cannot be spoken over HTTP", args.dialect);
        return Err(CommandError::usage(error).hint("leave --dialect away, or serve it on stdin and stdout"));
    }
    config.allow_hosts.extend(args.allow_host.iter().cloned());
    config.allow_origins.extend(args.allow_origin.iter().cloned());
    let files = args.tls_cert.clone().zip(args.tls_key.clone());
    let tls = files.map(|(certificate, key)| Tls { certificate, key });
    Ok(Http { listen: args.http.clone(), tls, options: from_config::http_options(config), ..Http::default() })
}

/// Says where the server listens, at every log level. Agents of A2E use the address without the path of MCP.
fn announce(urls: &[String], speaks_both: bool) {
    for url in urls {
        let human = format!("{}  INFO listening on {url}\n", utc::now());
        logging::say(Level::INFO, "listening", &[("url", url)], &human);
        if let Some(base) = url.strip_suffix("/mcp").filter(|_| speaks_both) {
            let human = format!("{}  INFO A2E agents connect to {base}\n", utc::now());
            logging::say(Level::INFO, "A2E agents connect here", &[("url", base)], &human);
        }
    }
}

/// The dialect of a name; none for `auto`.
fn dialect(name: &str) -> Option<&'static Dialect> {
    REGISTRY.iter().copied().find(|dialect| dialect.name == name)
}
