//! Code that the commands which talk to a server share: choosing the server, opening it and reporting errors.

use std::future::Future;
use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use gladhand_auth::Roots;
use gladhand_core::Secret;
use gladhand_core::negotiation::{Capability, Peer, Refusal};
use gladhand_core::operations::{Failure, FailureKind, Outcome};
use gladhand_core::wire::lines::MAX_LINE;
use gladhand_dialects::{ClientSetup, Stop, Unagreed};
use gladhand_redaction::{Life, learn_header, redact};
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue};
use url::Url;

use super::runtime::wait_for;
use crate::commands::CommandError;
use crate::commands::call::person::{Person, UnavailableUpstream};
use crate::commands::serve::ListWaits;
use crate::commands::shared::arguments::ServerArgs;
use crate::commands::shared::hidden_tools;
use crate::commands::shared::references;
use crate::commands::shared::settings;
use crate::commands::shared::sign_in;
use crate::commands::shared::suggest::shell_word;
use crate::config::{self, Config, env};
use crate::exit::Exit;
use crate::logging;
use crate::terminal::layout;
use crate::terminal::text::quoted;
use gladhand_client::http_client::{Endpoint, ResponseBudget};
use gladhand_client::upstream::open_error::{Credentials, HintFor};
use gladhand_client::upstream::{
    Authorizer, Bearer, Eras, IgnoreEvents, OpenError, Options, Speak, Target, Upstream, UpstreamEvents,
};
use gladhand_server::signals::{self, Signals};
use gladhand_session::tap::SessionExchanges;

/// How long a person may take to sign in.
const SIGNING_IN: Duration = Duration::from_secs(330);

/// How long a server may take to leave after Ctrl-C; then it is killed.
const AFTER_INTERRUPT: Duration = Duration::from_millis(300);

/// The file of the data folder in which it is kept what was found out about servers.
const ERAS: &str = "eras.json";

/// Which server a command asks.
#[derive(Debug)]
pub(in crate::commands) enum AskedServer {
    /// The one that the command line names.
    Named,
    /// Our own, which has this configuration, because the command line names none.
    Ours(Box<Config>),
}

impl AskedServer {
    /// The upstreams that the configuration makes unavailable.
    fn unavailable(&self) -> Vec<UnavailableUpstream> {
        let Self::Ours(config) = self else { return Vec::new() };
        let unavailable = |(name, why): (&str, &str)| UnavailableUpstream {
            name: name.to_owned(),
            message: settings::unavailable(name, why),
        };
        config.upstreams.unavailable().map(unavailable).collect()
    }

    /// The names of the upstreams of our own server.
    fn upstreams(&self) -> Vec<String> {
        let Self::Ours(config) = self else { return Vec::new() };
        config.upstreams.0.iter().filter(|(_, upstream)| upstream.enabled).map(|(name, _)| name.clone()).collect()
    }

    /// Why the upstream that a tool would belong to by its name cannot be asked, if it is one of these.
    pub(in crate::commands) fn outage(&self, tool: &str, unavailable: &[UnavailableUpstream]) -> Option<CommandError> {
        let Self::Ours(config) = self else { return None };
        let enabled = config.upstreams.0.iter().filter(|(_, upstream)| upstream.enabled);
        let fitting = enabled.filter_map(|(name, upstream)| Some((upstream.naming(name).fits(tool)?, name)));
        let (_, name) = fitting.max_by_key(|(fit, _)| *fit)?;
        let outage = unavailable.iter().find(|unavailable| unavailable.name == *name)?;
        let error = reply(Err(Failure::new(FailureKind::UpstreamLost, outage.message.clone()))).err()?;
        Some(error.hint("`gladhand doctor` shows how each upstream is"))
    }

    /// The rule or setting that withholds a tool, if our own server was asked and one does.
    pub(in crate::commands) fn withheld(&self, tool: &str) -> Option<CommandError> {
        match self {
            Self::Named => None,
            Self::Ours(config) => hidden_tools::withheld(tool, config),
        }
    }
}

/// A server and how to talk to it, as the command line says.
#[derive(Debug)]
pub(in crate::commands) struct Plan {
    pub(in crate::commands) target: Target,
    pub(in crate::commands) options: Options,
    timeout: Duration,
    /// The bearer token to present over HTTP.
    token: Option<Secret>,
    /// How a person is asked to sign in, should the server want it.
    pub(in crate::commands) sign_in: sign_in::Manner,
    /// The configuration of our own server, where no server was named.
    own: Option<Config>,
    /// The options of the command line that say which configuration it has.
    own_options: Vec<String>,
    /// The tool that the command needs, if only one.
    tool: Option<String>,
    /// Whether the work handles signals itself once the session is open.
    leaves_signals: bool,
}

/// The part of the timeout that our own server may wait for upstreams, in quarters. In the rest it answers.
const WAIT_FOR_UPSTREAMS: u32 = 3;

impl Plan {
    /// Reads the options; `url` is the word of the command line that names a server, if one does.
    pub(in crate::commands) fn read(args: &ServerArgs, url: Option<&str>) -> Result<Self, CommandError> {
        let is_ours = url.is_none() && args.command.is_empty();
        let own_options = own_options(args)?;
        if !is_ours && let Some(option) = own_options.first() {
            let error = anyhow!("{option} is for your own configuration, which is used if no server is named");
            return Err(CommandError::usage(error).hint(format!("leave out {option}, or the server")));
        }
        let mut target = target(url, &args.command)?;
        if let Target::Command(words) = &mut target {
            words.extend(own_options.iter().cloned());
        }
        let speak = Speak::parse(&args.client)
            .ok_or_else(|| CommandError::usage(anyhow!("there is no client `{}`", args.client)))?;
        let timeout = Duration::from_secs(args.timeout);
        let data_dir = args.data_dir.clone().or_else(|| std::env::var_os(env::DATA_DIR).map(PathBuf::from));
        let token = config::mcp_token_in_environment().map_err(CommandError::usage)?;
        let options = Options {
            roots: roots(&target, args.ca.as_deref())?,
            speak,
            opening_timeout: timeout,
            call_timeout: Some(timeout),
            headers: headers(&args.header).map_err(CommandError::usage)?,
            token: config::token_in_environment().map_err(CommandError::usage)?,
            eras: eras(data_dir.as_deref()),
            hidden: if is_ours { references::hidden_from_ourselves() } else { env::never_passed_on() },
            ..Options::default()
        };
        let own = match is_ours {
            true => {
                // The server that we start says the same, on a stderr that is not shown.
                let named = args.config.clone().or_else(|| std::env::var_os(env::CONFIG).map(PathBuf::from));
                Some(settings::check(named.as_deref(), data_dir.as_deref()).map_err(CommandError::usage)?)
            }
            false => None,
        };
        Ok(Self {
            target,
            options,
            timeout,
            token,
            sign_in: sign_in::Manner::InPassing,
            own,
            own_options,
            tool: None,
            leaves_signals: false,
        })
    }

    /// Declares what can be asked of the person at the terminal, who is to be the host of the session. All commands
    /// declare the same, since what a server has may depend on it.
    pub(in crate::commands) fn for_person(&mut self, person: Person) -> Arc<Person> {
        self.options.provides = person.provides();
        self.options.has_person = true;
        self.options.log_level = Some(person.level());
        match self.asked() {
            AskedServer::Named => Arc::new(person),
            asked @ AskedServer::Ours(_) => Arc::new(person.knowing(asked.upstreams(), asked.unavailable())),
        }
    }

    /// Needs only this tool, so that our own server waits for no other upstream than that of the tool.
    pub(in crate::commands) fn only_for(&mut self, tool: &str) {
        self.tool = Some(tool.to_owned());
    }

    /// Leaves signals to the work once the session is open.
    pub(in crate::commands) fn leave_signals_to_work(&mut self) {
        self.leaves_signals = true;
    }

    /// The server as it would be typed behind a command.
    pub(in crate::commands) fn shown(&self) -> String {
        match &self.target {
            // Without a server, the next command needs none either.
            Target::Command(_) if self.own.is_some() => {
                self.own_options.iter().map(|word| shell_word(word)).collect::<Vec<_>>().join(" ")
            }
            _ => typed(&self.target),
        }
    }

    /// Tells the person of upstreams that are not available, and of pins that cannot be stored, for commands that ask all
    /// upstreams. The server says so at some time or never, because it answers first.
    pub(in crate::commands) fn note_unavailable(&self) {
        self.asked().unavailable().iter().for_each(|upstream| warn(&upstream.message));
        self.own.as_ref().and_then(hidden_tools::unpinned).iter().for_each(|line| settings::note(line));
    }

    /// Which server a command asks.
    pub(in crate::commands) fn asked(&self) -> AskedServer {
        match &self.own {
            Some(config) => AskedServer::Ours(Box::new(config.clone())),
            None => AskedServer::Named,
        }
    }

    /// Opens a session, does the work, closes it. The person, if there is one, sees what is waited for. Ctrl-C and SIGTERM end it wherever it is.
    pub(in crate::commands) fn run<'w, F: Future<Output = Result<ExitCode, CommandError>> + 'w>(
        self,
        person: Option<Arc<Person>>,
        work: impl FnOnce(Upstream) -> F + 'w,
    ) -> Result<ExitCode, CommandError> {
        // Boxed, so that the code below exists once and not for each command.
        self.run_boxed(person, Box::new(|upstream| Box::pin(work(upstream))))
    }

    fn run_boxed(self, person: Option<Arc<Person>>, work: SessionWork<'_>) -> Result<ExitCode, CommandError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        // `open` has no options for the configuration.
        let shown = if self.own_options.is_empty() { self.shown() } else { typed(&self.target) };
        let done = wait_for(&runtime, async {
            let mut signals = Signals::listen()?;
            let (mut options, timeout) = (self.options, self.timeout);
            if self.own.is_some() {
                let usual = ListWaits::default();
                let longest = usual.longest.min(timeout * WAIT_FOR_UPSTREAMS / 4);
                let waits = ListWaits { longest, for_tool: self.tool };
                options.surroundings.variables.push(waits.to_variable());
            }
            let access = Access::to(&self.target, options.headers, options.roots, self.token, self.sign_in).await;
            if access.may_sign_in {
                // A person may take longer than a server.
                options.opening_timeout = timeout.max(SIGNING_IN);
            }
            (options.headers, options.authorizer) = (access.headers.clone(), access.authorizer.clone());
            options.roots = access.roots.clone();
            let events: Arc<dyn UpstreamEvents> = match &person {
                Some(person) => Arc::clone(person) as _,
                None => Arc::new(IgnoreEvents),
            };
            let server = if self.own.is_some() { "gladhand serve".to_owned() } else { self.target.to_string() };
            let what = format!("opening {server}, at most {} s", timeout.as_secs());
            let opening = Upstream::open(&self.target, options, events);
            let opening = async {
                match &person {
                    Some(person) => person.waiting(&what, opening).await,
                    None => opening.await,
                }
            };
            let opened = tokio::select! {
                opened = opening => opened,
                // The opening has a better error message, so it gets a second longer to report its timeout.
                () = access.silence(timeout + Duration::from_secs(1)) => {
                    let refusal = Refusal::TimedOut { seconds: timeout.as_secs() };
                    Err(OpenError::refused(refusal))
                }
                stop = signals.next() => return Ok(stopped(stop)),
            };
            let upstream = opened.map_err(|error| not_open(&error, &self.target, &shown, self.sign_in))?;
            let (done, close_timeout) = tokio::select! {
                done = work(upstream.clone()) => (done, Duration::MAX),
                stop = signals.next(), if !self.leaves_signals => (Ok(stopped(stop)), AFTER_INTERRUPT),
            };
            tokio::select! {
                () = upstream.close() => {}
                () = tokio::time::sleep(close_timeout) => {}
                _ = signals.next() => {}
            }
            done
        });
        // A thread may still wait for the user's answer to a question that no longer matters.
        runtime.shutdown_background();
        done
    }
}

/// The work of a command in an open session.
type SessionWork<'w> =
    Box<dyn FnOnce(Upstream) -> Pin<Box<dyn Future<Output = Result<ExitCode, CommandError>> + 'w>> + 'w>;

/// Says that an upstream cannot be used.
fn warn(message: &str) {
    let message = quoted(&redact(message));
    let human = layout::message(&format!("warning: {message}"), layout::message_width());
    logging::say(tracing::Level::WARN, &message, &[], &human);
}

/// The words of a command line that say which configuration our own server has.
fn own_options(args: &ServerArgs) -> Result<Vec<String>, CommandError> {
    let mut words = Vec::new();
    for (option, path) in [("--config", &args.config), ("--data-dir", &args.data_dir)] {
        if let Some(path) = path {
            let path =
                path.to_str().ok_or_else(|| CommandError::usage(anyhow!("the path of {option} is not UTF-8")))?;
            words.extend([option.to_owned(), path.to_owned()]);
        }
    }
    Ok(words)
}

/// How a command ends that was told to stop. After Ctrl-C, the next output must not stand behind a prompt, so it starts
/// on a new line.
fn stopped(stop: Stop) -> ExitCode {
    if stop == Stop::Interrupted && std::io::stderr().is_terminal() {
        // If stderr is closed, the message is lost.
        let _ = writeln!(std::io::stderr());
    }
    signals::exit_status(stop).into()
}

/// The credentials for requests to a server.
#[derive(Debug)]
pub(in crate::commands) struct Access {
    headers: HeaderMap,
    roots: Roots,
    authorizer: Option<Arc<dyn Authorizer>>,
    /// Whether a person may have to sign in.
    may_sign_in: bool,
    /// Becomes true when a person is asked to.
    asked: Arc<AtomicBool>,
}

impl Access {
    /// Gets in by a header `Authorization`, or else by a token, or else by signing in. A command needs none of them.
    pub(in crate::commands) async fn to(
        target: &Target,
        headers: HeaderMap,
        roots: Roots,
        token: Option<Secret>,
        manner: sign_in::Manner,
    ) -> Self {
        let asked = Arc::new(AtomicBool::new(false));
        let mut access = Self { headers, roots, authorizer: None, may_sign_in: false, asked };
        match (target, token) {
            _ if access.headers.contains_key(AUTHORIZATION) => {}
            (_, Some(token)) => access.authorizer = Some(Arc::new(Bearer::new(token))),
            (Target::Url(url), None) => {
                let authorizer = sign_in::authorizer(url, manner, &access.roots, Arc::clone(&access.asked)).await;
                access.may_sign_in = authorizer.is_some();
                access.authorizer = authorizer.map(|authorizer| Arc::new(authorizer) as _);
            }
            (Target::Command(_), None) => {}
        }
        access
    }

    /// Options of a session that get in the same way.
    pub(in crate::commands) fn options(&self) -> Options {
        let (headers, roots) = (self.headers.clone(), self.roots.clone());
        Options { headers, roots, authorizer: self.authorizer.clone(), ..Options::default() }
    }

    /// The server at an address, with what gets requests into it.
    pub(in crate::commands) fn endpoint(&self, url: Url) -> Endpoint {
        let (headers, roots) = (self.headers.clone(), self.roots.clone());
        let (authorizer, response_budget) = (self.authorizer.clone(), ResponseBudget::default());
        let exchanges = SessionExchanges::default();
        Endpoint { url, headers, roots, authorizer, line_bytes: MAX_LINE, response_budget, exchanges }
    }

    /// Ends when a server has been silent for too long, and never while a person is signing in.
    pub(in crate::commands) async fn silence(&self, timeout: Duration) {
        tokio::time::sleep(timeout).await;
        if self.asked.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
    }
}

/// The server that a command line names: a URL, or a command behind `--`; by default our own.
pub(in crate::commands) fn target(url: Option<&str>, command: &[String]) -> Result<Target, CommandError> {
    let words = match (url, command.is_empty()) {
        (Some(url), true) => vec![url.to_owned()],
        (None, false) => command.to_vec(),
        (None, true) => vec![crate::commands::own_program()?, "serve".to_owned()],
        (Some(_), false) => {
            return Err(CommandError::usage(anyhow!("give a URL or a command behind `--`, not both")));
        }
    };
    let target = Target::parse(&words).map_err(CommandError::usage)?;
    target.learn_secrets(Life::Process);
    Ok(target)
}

/// The protocols of servers as found in other runs, if there is a data folder.
pub(in crate::commands) fn eras(data_dir: Option<&Path>) -> Eras {
    config::data_dir(data_dir).map(|folder| Eras::kept_in(folder.join(ERAS))).unwrap_or_default()
}

/// The client that opens a server: this program, with the capabilities that it declares and the token for A2E in the
/// environment.
pub(in crate::commands) fn client_setup(declared: Vec<Capability>) -> Result<ClientSetup, CommandError> {
    Ok(ClientSetup {
        identity: Peer::new("gladhand", env!("CARGO_PKG_VERSION")),
        version: String::new(),
        wants: None,
        provides: declared.into_iter().map(|name| (name, None)).collect(),
        log_level: None,
        listen: false,
        exchanges: false,
        unagreed: Unagreed::default(),
        token: config::token_in_environment().map_err(CommandError::usage)?,
    })
}

/// Whose certificates are trusted beside those that the system trusts. A command has none.
pub(in crate::commands) fn roots(target: &Target, file: Option<&Path>) -> Result<Roots, CommandError> {
    match target {
        Target::Url(_) => Roots::read(file).map_err(CommandError::usage),
        Target::Command(_) if file.is_some() => Err(CommandError::usage(anyhow!("--ca is for servers at a URL"))),
        Target::Command(_) => Ok(Roots::default()),
    }
}

/// The headers that the command line gives.
pub(in crate::commands) fn headers(lines: &[String]) -> anyhow::Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    for line in lines {
        // The value may be a secret, so complaints name only what is before it.
        let (name, value) = line.split_once(':').context("--header wants `Name: value`")?;
        let key: HeaderName =
            name.trim().parse().with_context(|| format!("`{}` is no name of a header", name.trim()))?;
        let mut value = HeaderValue::from_str(value.trim())
            .map_err(|_| anyhow!("the value of the header `{key}` holds what a header cannot"))?;
        value.set_sensitive(true);
        learn_header(key.as_str(), &String::from_utf8_lossy(value.as_bytes()), Life::Process);
        headers.append(key, value);
    }
    Ok(headers)
}

/// A hint for an answer that exceeds the limit on lines.
const TOO_LONG: &str = "for servers in the configuration, `limits.line_bytes` sets this limit";

/// How to present a token on a command line.
static GIVE_TOKEN: LazyLock<String> =
    LazyLock::new(|| format!("set {}, or give --header 'Authorization: Bearer …'", env::MCP_TOKEN));

/// The same for a command whose purpose is to sign in, and which presents no token.
static GIVE_TOKEN_ELSEWHERE: LazyLock<String> = LazyLock::new(|| {
    format!(
        "if you have a token, other commands present it: set {}, or give `gladhand open URL` and the others --header \
         'Authorization: Bearer …'",
        env::MCP_TOKEN
    )
});

/// How the user of a command can present credentials.
pub(in crate::commands) fn credentials() -> Credentials<'static> {
    Credentials { token: &GIVE_TOKEN, is_interactive: sign_in::is_interactive() }
}

/// The reader of a hint: the user of a command that names the server, as in `server`.
pub(in crate::commands) fn hint_for(server: &str) -> HintFor<'_> {
    HintFor::CommandLine { server, credentials: credentials() }
}

/// A server as it is typed behind a command.
pub(in crate::commands) fn typed(target: &Target) -> String {
    match target {
        Target::Url(_) => target.to_string(),
        Target::Command(_) => format!("-- {target}"),
    }
}

/// The error of a command that got no session. `shown` is the server as it is typed behind a command.
fn not_open(error: &OpenError, target: &Target, shown: &str, sign_in: sign_in::Manner) -> CommandError {
    let credentials = match sign_in {
        sign_in::Manner::InPassing => credentials(),
        sign_in::Manner::OnPurpose | sign_in::Manner::WithoutBrowser => {
            Credentials { token: &GIVE_TOKEN_ELSEWHERE, ..credentials() }
        }
    };
    let hint = error.hint(target, HintFor::CommandLine { server: shown, credentials });
    CommandError::new(crate::commands::exit_of(error), anyhow!(error.to_string())).code(error.word()).hint(hint)
}

/// The reply of a call, or how the command ends without one.
pub(in crate::commands) fn reply(outcome: Outcome) -> Result<gladhand_core::operations::Reply, CommandError> {
    outcome.map_err(|failure: Failure| {
        let exit = match failure.kind {
            FailureKind::UnknownTool | FailureKind::UnknownPrompt | FailureKind::UnknownResource => Exit::Usage,
            FailureKind::UpstreamLost | FailureKind::TimedOut => Exit::PeerFailed,
            _ => Exit::CallFailed,
        };
        let error = CommandError::new(exit, anyhow!(quoted(&failure.message))).code(failure.kind.word());
        match failure.kind {
            FailureKind::TooLong => error.hint(TOO_LONG),
            _ => error,
        }
    })
}
