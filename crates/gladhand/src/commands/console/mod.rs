//! The console: a page in the browser that shows what passes between clients and servers, live or from a recording.
//!
//! `serve --console` and `bridge --console` serve it beside the endpoint, and `gladhand console FILE` serves a recording.
//! The console listens to the tap and to the calls of the hub. It decides nothing and calls nothing: to try a tool, the
//! page is an ordinary client of the endpoint, under the same policy and authorization as every client. All texts are
//! masked before they are kept.

mod access;
mod calls;
mod dialects;
mod events;
mod export;
mod files;
mod kept;
mod memory;
mod pins;
mod reenact;
mod routes;
mod trace;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

use anyhow::Context as _;
use clap::{Args, ValueHint};
use gladhand_core::negotiation::Side;
use gladhand_core::sync::Unpoisoned as _;
use gladhand_core::wire::json as raw_json;
use gladhand_dialects::{REGISTRY, dialect_of_line};
use gladhand_hub::Hub;
use gladhand_recording::{Entry, EntryKind};
use gladhand_server::Service;
use gladhand_server::access::Access;
use gladhand_server::http::{Address, Http, SideRoutes};
use serde_json::{Value, json};
use tracing::Level;

use crate::commands::shared::recordings::{self, rounded};
use crate::commands::{CommandError, note, serve};
use crate::config::{self, env};
use crate::logging;
use crate::recorder::Masks;
use crate::utc;
use access::ConsoleAccess;
use calls::Calls;
use events::ConsoleEvents;
use kept::{KeptLimits, KeptMessages, KeptSession};
use memory::TapMemory;
use pins::Pins;

const CONSOLE_HELP: &str = "\
Serves the recording as a page on a loopback address until Ctrl-C, and prints
the address with its token on stderr. The other parts of a rotated recording
(FILE.1, FILE.2 and so on) are read too. The page of a running server comes with
`gladhand serve --http ADDRESS --console`.

Examples:
  gladhand console session.ndjson
  gladhand console session.ndjson --http 127.0.0.1:9000";

/// Number of messages of a session that are sent to a page at once.
const MAX_SESSION_LINES: usize = 1000;

/// Maximum size of their texts, in bytes. The first messages count.
const MAX_SESSION_BYTES: usize = 8 * 1024 * 1024;

/// Options of `console`.
#[derive(Debug, Args)]
#[command(after_help = CONSOLE_HELP)]
pub struct ConsoleArgs {
    /// The recording.
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// Serve the page at this address, HOST:PORT.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    pub http: Address,
}

/// Serves a recording until it is told to stop.
pub fn run(args: &ConsoleArgs) -> Result<ExitCode, CommandError> {
    let console = Arc::new(Console::of_recording(args)?);
    let http = Http { listen: vec![args.http.clone()], side_routes: vec![console.routes()], ..Http::default() };
    let service = Service::new(Hub::of(Vec::new()));
    let ended = service.serve_http(http, |urls| console.announce(urls)).map_err(serve::not_listening)?;
    serve::ended(ended)
}

/// A console.
#[derive(Debug)]
pub(in crate::commands) struct Console {
    access: Arc<ConsoleAccess>,
    /// The name of the recording. Empty for a running process.
    title: String,
    started_ms: u64,
    kept: Arc<Mutex<KeptMessages>>,
    events: Arc<ConsoleEvents>,
    /// The parts of a console that only a running process has.
    live: Option<Arc<LiveParts>>,
    /// The defects of a recording, for people.
    remarks: Vec<String>,
    /// The address of the server without a path, once it listens.
    base: OnceLock<String>,
}

/// The parts of a console that only a running process has.
#[derive(Debug)]
struct LiveParts {
    hub: Hub,
    calls: Arc<Calls>,
    /// The time from which milliseconds count.
    started: Instant,
    /// Whether the endpoint speaks MCP, so that the page can be a client of it.
    has_mcp: bool,
    /// The masks of everything that is shown, except changed definitions.
    masks: Arc<Masks>,
    /// The pins of the data folder, if there is one.
    pins: Option<Pins>,
    _memory: TapMemory,
}

impl LiveParts {
    /// The upstreams and counts of the hub, without secrets.
    fn status(&self) -> Value {
        let status = raw_json::to_raw(&self.hub.status());
        let masked = self.masks.message(&status).unwrap_or(status);
        serde_json::from_str(masked.get()).unwrap_or_default()
    }

    fn ms(&self) -> f64 {
        rounded(self.started.elapsed().as_secs_f64() * 1e3)
    }
}

impl Console {
    /// The console of a service that is served at these addresses. `is_proxied`: other host names lead to it, too. `mask`:
    /// patterns that are masked in addition to secrets.
    pub(in crate::commands) fn live(
        service: &Service,
        listen: &[Address],
        is_proxied: bool,
        has_mcp: bool,
        data: Option<&Path>,
        mask: &[String],
    ) -> Result<Self, CommandError> {
        let (started, events) = (Instant::now(), Arc::<ConsoleEvents>::default());
        let kept = Arc::new(Mutex::new(KeptMessages::new(KeptLimits::LIVE)));
        let masks = || Masks::of(mask).map_err(CommandError::usage);
        let memory = TapMemory::start(service.tap(), started, Arc::clone(&kept), Arc::clone(&events), masks()?)?;
        let masks = Arc::new(masks()?);
        let calls = Arc::new(Calls::new(started, Arc::clone(&events), Arc::clone(&masks)));
        service.hub().observe_calls(Arc::clone(&calls) as _);
        let hub = service.hub().clone();
        let is_exposed = is_proxied || !listen.iter().all(is_loopback);
        Ok(Self {
            access: access(is_exposed, Some(Arc::clone(service.access())))?,
            title: String::new(),
            started_ms: now_ms(),
            kept,
            events,
            live: Some(Arc::new(LiveParts {
                hub,
                calls,
                started,
                has_mcp,
                masks,
                pins: data.map(Pins::in_folder),
                _memory: memory,
            })),
            remarks: Vec::new(),
            base: OnceLock::new(),
        })
    }

    /// The console of a recording.
    fn of_recording(args: &ConsoleArgs) -> Result<Self, CommandError> {
        let (mut kept, mut masks) = (KeptMessages::new(KeptLimits::RECORDING), Masks::default());
        let (mut started_ms, mut bad) = (0, 0_u64);
        for (path, mut reader) in recordings::parts(&args.file)? {
            started_ms = reader.header().started_ms;
            loop {
                let reading = || format!("cannot read {}", path.display());
                let next = reader.next_entry().with_context(reading)?;
                let Some((_, entry)) = next.or_else(|| reader.last_entry()) else { break };
                match entry {
                    Ok(Entry { kind: EntryKind::Dropped(entries), .. }) => kept.dropped += entries,
                    Ok(mut entry) => {
                        masks.apply(&mut entry);
                        kept.add(entry.session.as_deref().unwrap_or_default(), entry.ms, entry.kind);
                    }
                    Err(_) => bad += 1,
                }
            }
        }
        let remarks = match bad {
            0 => Vec::new(),
            1 => vec!["1 line of the recording could not be read".to_owned()],
            bad => vec![format!("{bad} lines of the recording could not be read")],
        };
        remarks.iter().for_each(|remark| note(&format!("warning: {remark}")));
        Ok(Self {
            access: access(true, None)?,
            title: args.file.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            started_ms,
            kept: Arc::new(Mutex::new(kept)),
            events: Arc::default(),
            live: None,
            remarks,
            base: OnceLock::new(),
        })
    }

    /// The routes, for the HTTP server.
    pub(in crate::commands) fn routes(self: &Arc<Self>) -> Arc<dyn SideRoutes> {
        routes::shared(self)
    }

    /// Says where the page is, at every log level.
    pub(in crate::commands) fn announce(&self, urls: &[String]) {
        let Some(url) = urls.iter().find(|url| url.starts_with("http")) else { return };
        let base = url.trim_end_matches("/mcp").trim_end_matches('/').to_owned();
        say(&self.access.address(self.base.get_or_init(|| base)));
    }

    /// Tells the operator the address with the token, if an authorization that was added later makes it necessary.
    fn tell_token(&self) {
        if let Some(base) = self.base.get().filter(|_| self.access.must_tell()) {
            say(&self.access.address(base));
        }
    }

    fn kept<R>(&self, read: impl FnOnce(&KeptMessages) -> R) -> R {
        read(&self.kept.lock().unpoisoned())
    }

    /// Everything but messages.
    fn overview(&self) -> Value {
        let (sessions, dropped) =
            self.kept(|kept| (kept.sessions().into_iter().map(KeptSession::summary).collect::<Value>(), kept.dropped));
        let live = self.live.as_deref();
        json!({
            "title": self.title,
            "version": env!("CARGO_PKG_VERSION"),
            "live": live.is_some(),
            "mcp": live.is_some_and(|live| live.has_mcp),
            "needs_token": self.access.endpoint_needs_token(),
            "may_approve": live.is_some() && self.access.needs_token(),
            "started_ms": self.started_ms,
            "now_ms": live.map(LiveParts::ms),
            "sessions": sessions,
            "calls": live.map(|live| live.calls.all()),
            "status": live.map(LiveParts::status),
            "dropped": dropped,
            "remarks": self.remarks,
        })
    }

    /// The messages of a session.
    fn session(&self, id: &str) -> Option<Value> {
        self.kept(|kept| {
            let session = kept.session(id)?;
            let mut bytes = 0;
            let fits = |line: &&kept::KeptLine| {
                bytes += line.bytes();
                bytes <= MAX_SESSION_BYTES
            };
            let lines = session.lines().take(MAX_SESSION_LINES).take_while(fits).map(kept::KeptLine::whole);
            let lines = lines.collect::<Value>();
            Some(json!({"session": session.summary(), "lines": lines}))
        })
    }

    /// The agreement of a session, from its messages.
    fn agreement(&self, id: &str) -> Option<Value> {
        let (dialect, version, from_client, from_server) = self.kept(|kept| {
            let session = kept.session(id)?;
            let text = |side| move |line: &kept::KeptLine| (line.line.from == side).then(|| line.line.text.clone());
            let from_client = session.lines().find_map(text(Side::Client))?;
            let from_server: Vec<_> = session.lines().filter_map(text(Side::Server)).take(8).collect();
            let said = || dialect_of_line(REGISTRY, from_client.as_bytes());
            let dialect = session.known_dialect().or_else(said);
            Some((dialect, session.version.clone(), from_client, from_server))
        })?;
        let from_server: Vec<_> = from_server.iter().map(String::as_str).collect();
        let version = version.unwrap_or_default();
        let reenactment = dialect.and_then(|dialect| reenact::session(dialect, &version, &from_client, &from_server));
        Some(reenactment.map_or(Value::Null, |reenactment| reenactment.to_json()))
    }

    /// The path of a call.
    fn call(&self, id: &str) -> Option<Value> {
        let call = self.live.as_ref()?.calls.find(id.parse().ok()?)?;
        Some(self.kept(|kept| trace::trace(kept, &call)))
    }

    fn exported(&self, id: &str, export: fn(&KeptSession, u64) -> String) -> Option<String> {
        self.kept(|kept| kept.session(id).map(|session| export(session, self.started_ms)))
    }
}

/// The access of a console, with the token in the environment if there is one.
fn access(is_exposed: bool, endpoint: Option<Arc<Access>>) -> Result<Arc<ConsoleAccess>, CommandError> {
    let chosen = config::console_token_in_environment().map_err(CommandError::usage)?;
    let access = ConsoleAccess::new(is_exposed, endpoint, chosen).map_err(CommandError::usage);
    access.map(Arc::new).map_err(|error| error.hint(format!("set {} to another one", env::CONSOLE_TOKEN)))
}

/// Whether only this machine can connect. A socket in the file system may be served to others by a proxy.
fn is_loopback(address: &Address) -> bool {
    let Address::Tcp(address) = address else { return false };
    let host = address.rsplit_once(':').map_or(address.as_str(), |(host, _)| host);
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    host.eq_ignore_ascii_case("localhost")
        || bare.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn now_ms() -> u64 {
    u64::try_from(gladhand_system::since_1970().as_millis()).unwrap_or(u64::MAX)
}

/// Says where the page is. The token is part of the address, so this is not a log line, which would mask it. A log in JSON
/// masks it.
fn say(address: &str) {
    if logging::is_json() && address.contains("?token=") {
        tracing::warn!("this log masks the token of the console: choose one with {}", env::CONSOLE_TOKEN);
    }
    let human = format!("{}  INFO console listening on {address}\n", utc::now());
    logging::say(Level::INFO, "console", &[("url", address)], &human);
}
