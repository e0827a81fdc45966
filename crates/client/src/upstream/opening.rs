//! Opens a session with an unknown upstream: finds its dialect, its era and its transport.
//!
//! MCP is tried first. If the upstream shows that it speaks another dialect, that dialect is used. If it stays silent,
//! the other dialects are tried in turn. A process may hang or exit after a wrong first request, so each attempt uses a
//! process that can be discarded. Over HTTP each response says enough. A status about authorization or an outage says
//! nothing about the era. If an HTTP server answers MCP requests as no MCP server would, A2E is tried.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use gladhand_core::negotiation::{Agreement, Refusal};
use gladhand_dialects::mcp::revision::Revision;
use gladhand_dialects::{ClientSetup, Dialect, Loss, REGISTRY, Speak, a2e, mcp};
use tokio::time::Instant;
use url::Url;

use super::OpenError;
use super::driver::Driver;
use super::eras::{Era, Verdict};
use super::events::UpstreamEvents;
use super::options::Options;
use super::target::Target;
use super::transport::{Evidence, Transport};
use crate::http_client::{Endpoint, HttpClient, Style};
use gladhand_process::child::{ChildPeer, Manner};
use gladhand_process::child_lines::ChildLines;
use gladhand_process::child_log::ChildLog;
use gladhand_session::violations;

/// How long a process may stay silent after the first request of the stateless era before a second process is tried
/// with a handshake.
const SILENCE: Duration = Duration::from_secs(3);

/// How long a process may stay silent in both eras before the other dialects are tried, each this long after the
/// previous one. A process that starts slowly still has until the end.
const LONGER_SILENCE: Duration = Duration::from_secs(6);

/// A silent upstream gets the opening timeout divided by this in its remembered era, before the other era is tried.
const BELIEF: u32 = 2;

/// How many lines of a process's stderr go with a refusal.
const LAST_WORDS: usize = 20;

/// A session that is open.
type Opened = (Box<Driver>, Arc<Agreement>);

/// Opens a session.
pub(super) async fn open(
    target: &Target,
    options: &Options,
    events: Arc<dyn UpstreamEvents>,
) -> Result<Opened, OpenError> {
    let attempt = Attempt { options, events, until: Instant::now() + options.opening_timeout, shown: OnceLock::new() };
    let opened = Box::pin(attempt.open(target)).await;
    if let (Speak::As(..), Ok((_, agreement))) = (options.speak, &opened) {
        attempt.tell_choice(target, agreement, "`--as` or `speak` asks for it");
    }
    opened
}

fn is_stateless(version: &str) -> bool {
    Revision::named(version).is_some_and(Revision::is_stateless)
}

struct Attempt<'o> {
    options: &'o Options,
    events: Arc<dyn UpstreamEvents>,
    /// When a process must have answered.
    until: Instant,
    /// The dialect other than MCP that a process has shown to speak.
    shown: OnceLock<&'static Dialect>,
}

/// An attempt over HTTP that came to nothing.
struct Failed {
    refusal: Refusal,
    evidence: Evidence,
}

impl Attempt<'_> {
    /// Opens a session as the options say.
    async fn open(&self, target: &Target) -> Result<Opened, OpenError> {
        match (target, self.options.speak) {
            (Target::Command(command), Speak::As(dialect, version)) => self.start(command, dialect, version).await,
            (Target::Command(command), Speak::Auto) => self.find_dialect(target, command).await,
            (Target::Url(url), Speak::Auto) => self.find_dialect_at(target, url).await,
            (_, Speak::Mcp) => self.find_era(target).await,
            (Target::Url(_), Speak::As(dialect, _)) if !dialect.has_http => Err(OpenError::NotOverHttp(dialect.name)),
            (Target::Url(url), Speak::As(dialect, version)) if dialect.name == a2e::DIALECT.name => {
                self.as_agent(url, version).await.map_err(Failed::into_error)
            }
            (Target::Url(url), Speak::As(_, version)) if is_stateless(version) => {
                self.stateless(url, version).await.map_err(Failed::into_error)
            }
            (Target::Url(url), Speak::As(_, version)) => self.with_handshake(url, version).await,
        }
    }

    /// Says in the log which revision is spoken, and why.
    fn tell_choice(&self, target: &Target, agreement: &Agreement, why: &str) {
        let upstream = self.options.name.clone().unwrap_or_else(|| target.to_string());
        let (dialect, version) = (agreement.dialect, &agreement.version);
        tracing::info!(upstream, dialect, version, why, "revision chosen");
    }

    /// Opens a session in the dialect that a process speaks. A remembered dialect is tried first, and forgotten if it
    /// is no longer right.
    async fn find_dialect(&self, target: &Target, command: &[String]) -> Result<Opened, OpenError> {
        let eras = &self.options.eras;
        let mut believed = None;
        match eras.find(target) {
            Some(Verdict::Mcp(_)) => return self.find_era(target).await,
            Some(Verdict::Other(name)) => {
                let known = REGISTRY.iter().copied().filter(|dialect| dialect.name == name);
                let opening = self.first_of(command, known.map(preferred).collect());
                match tokio::time::timeout(self.options.opening_timeout / BELIEF, opening).await {
                    Ok(Err(OpenError::NotStarted { program, source })) => {
                        return Err(OpenError::NotStarted { program, source });
                    }
                    Ok(Ok(opened)) => return opened,
                    Ok(Err(error)) => believed = Some(error),
                    Err(_) => {}
                }
                eras.forget(target);
            }
            None => {}
        }
        let mcp = async { Box::pin(self.find_era(target)).await.map(Ok) };
        let others = async {
            let shown = self.shown.get().map(|dialect| vec![preferred(dialect), hands()]);
            let others = || REGISTRY.iter().copied().filter(|dialect| dialect.name != mcp::DIALECT.name);
            Box::pin(self.first_of(command, shown.unwrap_or_else(|| others().map(preferred).collect()))).await
        };
        let silence = LONGER_SILENCE.min(self.options.opening_timeout / 2);
        let is_final = |error: &OpenError| self.shown.get().is_none() && !error.is_silence();
        match either(mcp, silence, others, is_final).await {
            Ok(Ok((driver, agreement))) => {
                if agreement.dialect != mcp::DIALECT.name {
                    eras.remember(target, Verdict::Other(agreement.dialect));
                }
                Ok((driver, agreement))
            }
            Ok(Err(refused)) => Err(refused),
            Err((mcp, other)) => Err(believed.or_else(|| other.filter(|_| self.shown.get().is_some())).unwrap_or(mcp)),
        }
    }

    /// Opens a session in the dialect spoken at a URL. MCP is tried first. Another dialect is tried only if the
    /// responses say nothing about MCP, or if the server is known to speak that dialect.
    async fn find_dialect_at(&self, target: &Target, url: &Url) -> Result<Opened, OpenError> {
        let (eras, (dialect, version)) = (&self.options.eras, preferred(&a2e::DIALECT));
        if eras.find(target) == Some(Verdict::Other(dialect.name)) {
            match self.as_agent(url, version).await {
                Ok(opened) => return Ok(opened),
                Err(failed) if failed.evidence.outage().is_some() => return Err(failed.into_error()),
                Err(failed) => tracing::debug!(refusal = %failed.refusal, "no host of A2E any more"),
            }
            eras.forget(target);
        }
        let error = match self.find_era(target).await {
            Err(error) if error.is_of_nobody() => error,
            decided => return decided,
        };
        if !HttpClient::finds_host(self.endpoint(url)).await {
            return Err(error);
        }
        match self.as_agent(url, version).await.map_err(Failed::into_error) {
            Ok(opened) => {
                eras.remember(target, Verdict::Other(dialect.name));
                Ok(opened)
            }
            Err(refused) => Err(if refused.is_understood() { refused } else { error }),
        }
    }

    /// Opens a session with the first candidate that succeeds or refuses in its own dialect. The next candidate is
    /// tried when the previous one has failed or stayed silent for a while. If all fail, the first error is returned.
    async fn first_of(&self, command: &[String], ways: Vec<Way>) -> Result<Result<Opened, OpenError>, OpenError> {
        let mut ways = ways.into_iter();
        let (mut tried, mut first_error) = (FuturesUnordered::new(), None);
        loop {
            if let Some((dialect, version)) = ways.next() {
                tried.push(self.start(command, dialect, version));
            }
            let next = async {
                match ways.len() {
                    0 => std::future::pending().await,
                    _ => tokio::time::sleep(SILENCE).await,
                }
            };
            tokio::select! {
                ended = tried.next() => match ended {
                    Some(Ok(opened)) => return Ok(Ok(opened)),
                    Some(Err(error)) if error.is_understood() => return Ok(Err(error)),
                    Some(Err(error)) => drop(first_error.get_or_insert(error)),
                    None => return Err(first_error.unwrap_or_else(|| self.timed_out())),
                },
                () = next => {}
            }
        }
    }

    /// Opens an MCP session in the era that suits the client best, or else in the other one. A remembered era decides
    /// which one is tried first, and is forgotten if it is no longer right.
    async fn find_era(&self, target: &Target) -> Result<Opened, OpenError> {
        let eras = &self.options.eras;
        let spoken = eras.spoken(target);
        let (preferred, why) = self.options.preferred_revision();
        let era = spoken.first(Era::of(preferred));
        let other = era.other();
        let revision = |era: Era| if era == Era::of(preferred) { preferred } else { era.newest() };
        let first = async {
            self.open_in(target, revision(era)).await.inspect(|_| eras.learn(target, era, true)).inspect_err(|error| {
                if error.rules_out(era) {
                    eras.learn(target, era, false);
                }
            })
        };
        let second = async {
            self.open_in(target, revision(other)).await.inspect(|_| {
                eras.learn(target, other, true);
                // A server that knows only the handshake may not answer any other request.
                if era == Era::Stateless {
                    eras.learn(target, era, false);
                }
            })
        };
        let is_believed = spoken.has(era) == Some(true);
        let silence = match target {
            _ if is_believed => self.options.opening_timeout / BELIEF,
            // The server may be of the other era, or slow to start. A second process shows which.
            Target::Command(_) => SILENCE,
            // Over HTTP the attempt itself ends in time.
            Target::Url(_) => Duration::MAX,
        };
        let is_final = |error: &OpenError| {
            let is_of_this_era = era == Era::Stateless && error.is_of_the_new_era();
            // Over HTTP, a retry may succeed later, unless the remembered era was wrong for a new server.
            let is_late = matches!(target, Target::Url(_)) && (error.is_late() || error.is_outage() && !is_believed);
            is_late || is_of_this_era || error.says_nothing_of_the_era() || self.shown.get().is_some()
        };
        match either(first, silence, second, is_final).await {
            Ok((driver, agreement)) => {
                let suits =
                    Revision::named(&agreement.version).is_some_and(|spoken| Era::of(spoken) == Era::of(preferred));
                let why = if suits { why } else { "the server does not speak the era that suits the client best" };
                self.tell_choice(target, &agreement, why);
                Ok((driver, agreement))
            }
            Err((error, other_error)) => {
                if !error.says_nothing_of_the_era() && !error.is_outage() {
                    eras.forget(target);
                }
                let (hands, probe) = match era {
                    Era::Handshake => (Some(error), other_error),
                    Era::Stateless => (other_error, Some(error)),
                };
                let probe = probe.filter(|probe| hands.is_none() || probe.is_of_the_new_era());
                Err(probe.or(hands).unwrap_or_else(|| self.timed_out()))
            }
        }
    }

    /// Opens a session of MCP in a revision, or an older one of its era that the server offers instead.
    async fn open_in(&self, target: &Target, revision: Revision) -> Result<Opened, OpenError> {
        let version = revision.as_str();
        match target {
            Target::Command(command) => self.start(command, &mcp::DIALECT, version).await,
            Target::Url(url) if revision.is_stateless() => {
                self.stateless(url, version).await.map_err(Failed::into_error)
            }
            Target::Url(url) => self.with_handshake(url, version).await,
        }
    }

    /// Starts a process and opens a session with it.
    async fn start(&self, command: &[String], dialect: &'static Dialect, version: &str) -> Result<Opened, OpenError> {
        let hidden: Vec<_> = self.options.hidden.iter().map(String::as_str).collect();
        let program = || command.first().map(String::as_str).unwrap_or_default();
        let mut log = ChildLog::new(self.options.name.as_deref().unwrap_or_else(program));
        let on_stderr = move |text: &str| log.write(text);
        let child = ChildPeer::start(command, &self.options.surroundings, &hidden, on_stderr).await;
        let child = child.map_err(|source| {
            let program = command.first().cloned().unwrap_or_default();
            OpenError::NotStarted { program, source }
        })?;
        let transport =
            Transport::Child(Box::new(ChildLines::new(child, dialect.text.terminator, self.options.line_bytes)));
        let mut driver = self.driver(dialect, version, transport, Style::OneStream);
        driver.seeks = matches!(self.options.speak, Speak::Auto) && dialect.name == mcp::DIALECT.name;
        match driver.open(self.until.saturating_duration_since(Instant::now())).await {
            Ok(agreement) => Ok((driver, agreement)),
            Err(Refusal::TimedOut { .. }) => {
                driver.transport.close(Manner::Hurried).await;
                Err(self.timed_out())
            }
            Err(refusal) => {
                if let Some(dialect) = driver.shown {
                    self.shown.get_or_init(|| dialect);
                }
                let (exit, last_words) = match refusal {
                    Refusal::PeerGone => driver.transport.ending(LAST_WORDS).await,
                    _ => (None, Vec::new()),
                };
                driver.transport.close(Manner::Hurried).await;
                let exit = exit.map(|status| status.to_string());
                Err(OpenError::Refused { refusal, exit, last_words })
            }
        }
    }

    fn timed_out(&self) -> OpenError {
        let refusal = Refusal::TimedOut { seconds: self.options.opening_timeout.as_secs() };
        OpenError::refused(refusal)
    }

    async fn stateless(&self, url: &Url, version: &str) -> Result<Opened, Failed> {
        self.reach(url, Style::Stateless, version).await
    }

    /// Opens a session of A2E over HTTP.
    async fn as_agent(&self, url: &Url, version: &str) -> Result<Opened, Failed> {
        self.reach_as(&a2e::DIALECT, url, Style::Agent, version).await
    }

    /// Opens a session as all revisions with a handshake do it, the oldest included.
    async fn with_handshake(&self, url: &Url, version: &str) -> Result<Opened, OpenError> {
        let failed = match self.reach(url, Style::Sessions, version).await {
            Ok(opened) => return Ok(opened),
            Err(failed) => failed,
        };
        if failed.evidence.suggests_one_stream() {
            match self.reach(url, Style::OneStream, version).await {
                Ok(opened) => return Ok(opened),
                Err(older) => tracing::debug!(refusal = %older.refusal, "nor does the upstream speak 2024-11-05"),
            }
        }
        Err(failed.into_error())
    }

    /// Opens a session of MCP over HTTP in one style.
    async fn reach(&self, url: &Url, style: Style, version: &str) -> Result<Opened, Failed> {
        self.reach_as(&mcp::DIALECT, url, style, version).await
    }

    fn endpoint(&self, url: &Url) -> Endpoint {
        Endpoint {
            url: url.clone(),
            headers: self.options.headers.clone(),
            authorizer: self.options.authorizer.clone(),
            roots: self.options.roots.clone(),
            line_bytes: self.options.line_bytes,
            response_budget: self.options.response_budget.clone(),
        }
    }

    /// Opens a session over HTTP in one dialect and style.
    async fn reach_as(
        &self,
        dialect: &'static Dialect,
        url: &Url,
        style: Style,
        version: &str,
    ) -> Result<Opened, Failed> {
        let timeout = self.options.opening_timeout;
        let timed_out = || Refusal::TimedOut { seconds: timeout.as_secs() };
        let connected = tokio::time::timeout(timeout, HttpClient::connect(self.endpoint(url), style)).await;
        let http = match connected {
            Ok(Ok(http)) => http,
            Ok(Err(loss)) => {
                let mut evidence = Evidence::default();
                evidence.note_loss(loss);
                return Err(Failed { refusal: evidence.refusal(), evidence });
            }
            Err(_) => return Err(Failed { refusal: timed_out(), evidence: Evidence::default() }),
        };
        let mut driver = self.driver(dialect, version, Transport::Http(Box::new(http)), style);
        match driver.open(timeout).await {
            Ok(agreement) => Ok((driver, agreement)),
            Err(refusal) => {
                let evidence = std::mem::take(&mut driver.evidence);
                driver.transport.close(Manner::Hurried).await;
                Err(Failed { refusal, evidence })
            }
        }
    }

    /// Both sides of a way that answers come back on in some style; a process has one stream.
    fn driver(&self, dialect: &'static Dialect, version: &str, transport: Transport, style: Style) -> Box<Driver> {
        let client = self.options.client.as_ref().filter(|_| dialect.name == mcp::DIALECT.name);
        let mut identity = client.unwrap_or(&self.options.identity).clone();
        if let Some(id) = self.options.agent_id.as_ref().filter(|_| dialect.name == a2e::DIALECT.name) {
            identity.name.clone_from(id);
        }
        let setup = ClientSetup {
            identity,
            version: version.to_owned(),
            wants: None,
            provides: self.options.provides.clone(),
            token: self.options.token.clone(),
            log_level: self.options.log_level,
            listen: self.options.listen,
            exchanges: style.has_exchanges(),
            unagreed: violations::unagreed(&self.options.violations),
        };
        let client = (dialect.client)(setup);
        Box::new(Driver::new(dialect, client, transport, Arc::clone(&self.events), self.options))
    }
}

/// Returns the first of two attempts that succeeds, or the errors of both. The second begins when the first has failed
/// or stayed silent for this long. It does not begin if the first failed with a final error.
async fn either<T, E>(
    first: impl Future<Output = Result<T, E>>,
    silence: Duration,
    second: impl Future<Output = Result<T, E>>,
    is_final: impl Fn(&E) -> bool,
) -> Result<T, (E, Option<E>)> {
    tokio::pin!(first, second);
    match tokio::time::timeout(silence, &mut first).await {
        Ok(Ok(opened)) => return Ok(opened),
        Ok(Err(error)) if is_final(&error) => return Err((error, None)),
        Ok(Err(error)) => return second.await.map_err(|other| (error, Some(other))),
        Err(_) => {}
    }
    // The failure of one attempt says nothing about the other.
    tokio::select! {
        ended = &mut first => match ended {
            Ok(opened) => Ok(opened),
            Err(error) => second.await.map_err(|other| (error, Some(other))),
        },
        ended = &mut second => match ended {
            Ok(opened) => Ok(opened),
            Err(other) => first.await.map_err(|error| (error, Some(other))),
        },
    }
}

/// A dialect, and one of its versions.
type Way = (&'static Dialect, &'static str);

/// A dialect in the version that it prefers.
fn preferred(dialect: &'static Dialect) -> Way {
    (dialect, dialect.versions.first().copied().unwrap_or_default())
}

/// MCP with a handshake.
fn hands() -> Way {
    (&mcp::DIALECT, Revision::HANDSHAKE[0].as_str())
}

impl OpenError {
    /// A refusal of a server of which nothing else is known.
    pub fn refused(refusal: Refusal) -> Self {
        Self::Refused { refusal, exit: None, last_words: Vec::new() }
    }

    /// Whether the upstream sent no response.
    fn is_silence(&self) -> bool {
        matches!(self, Self::Refused { refusal: Refusal::PeerGone | Refusal::TimedOut { .. }, .. })
    }

    /// Whether no answer came in time.
    fn is_late(&self) -> bool {
        matches!(self, Self::Refused { refusal: Refusal::TimedOut { .. }, .. })
    }

    /// Whether a server that speaks the attempted dialect would refuse in this way.
    fn is_understood(&self) -> bool {
        let refusal = match self {
            Self::Refused { refusal, .. } => refusal,
            _ => return false,
        };
        matches!(refusal, Refusal::AuthFailed | Refusal::NoCapabilities { .. } | Refusal::VersionMismatch { .. })
    }

    /// Whether a server of either era would have failed in this way.
    fn says_nothing_of_the_era(&self) -> bool {
        matches!(
            self,
            Self::NotStarted { .. } | Self::Unauthorized { .. } | Self::Forbidden { .. } | Self::NotOverHttp(_)
        )
    }

    /// Whether the server cannot be reached, or is out of order.
    fn is_outage(&self) -> bool {
        matches!(self, Self::Unreachable(_))
    }

    /// Whether a server that fails in this way does not speak an era. A process that ended may have had another reason, but
    /// servers that know only the handshake also end at a question of the other era.
    fn rules_out(&self, era: Era) -> bool {
        let Self::Refused { refusal, .. } = self else { return false };
        match refusal {
            Refusal::TimedOut { .. } => false,
            Refusal::PeerGone => era == Era::Stateless,
            _ => true,
        }
    }

    /// Whether the server may not speak MCP: it answered with a 4xx status, or with "invalid request".
    fn is_of_nobody(&self) -> bool {
        let is_blank = |code: &str| code.starts_with('4') || code == "-32600";
        matches!(self, Self::Refused { refusal: Refusal::PeerRefused { code, .. }, .. } if is_blank(code))
    }

    /// Whether a server of the stateless era refused in a way that no server of the handshake era would.
    fn is_of_the_new_era(&self) -> bool {
        matches!(self, Self::Refused { refusal, .. } if !may_be_of_the_handshake(refusal))
    }
}

/// Whether a server of the handshake era may have sent this refusal to a request of the stateless era.
fn may_be_of_the_handshake(refusal: &Refusal) -> bool {
    match refusal {
        Refusal::VersionMismatch { spoken, .. } => {
            spoken.iter().filter_map(|version| Revision::named(version)).any(Revision::has_initialize)
        }
        // Only the stateless era has these codes.
        Refusal::PeerRefused { code, .. } => !matches!(code.as_str(), "-32020" | "-32021" | "-32022"),
        _ => true,
    }
}

impl Failed {
    fn into_error(self) -> OpenError {
        match (self.evidence.outage(), self.evidence.loss) {
            (Some(outage), _) => OpenError::Unreachable(outage),
            (None, Some(Loss::Denied(why))) => OpenError::Unauthorized { why },
            (None, Some(Loss::Forbidden(why))) => OpenError::Forbidden { why },
            _ => OpenError::refused(self.refusal),
        }
    }
}
