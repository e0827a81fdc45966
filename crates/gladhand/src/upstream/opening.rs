//! How a session is opened with somebody of whom nothing is known: which era, which way.
//!
//! A process that is asked the wrong first question may fall silent or die, so the question is put to one that can be
//! thrown away. Over HTTP each answer says enough; statuses that speak of authorization or of an outage say nothing
//! about the era.

use std::sync::Arc;
use std::time::Duration;

use gladhand_accord::{Agreement, Refusal};
use gladhand_dialects::mcp::revision::Revision;
use gladhand_dialects::{ClientSetup, Dialect, Loss, mcp};
use url::Url;

use super::OpenError;
use super::driver::Driver;
use super::host::Host;
use super::options::{Options, Speak};
use super::target::Target;
use super::transport::{Evidence, Transport};
use crate::edges::child::{ChildPeer, Manner};
use crate::edges::child_lines::ChildLines;
use crate::edges::child_log::ChildLog;
use crate::edges::http_client::{Endpoint, HttpClient, Style};
use crate::edges::violations;

/// How long a process may say nothing to the first question of the new era before another is asked that of the old.
const SILENCE: Duration = Duration::from_secs(3);

/// What part of the time for an opening a remembered era is believed in, while nothing comes.
const BELIEF: u32 = 2;

/// How many lines of a process's stderr go with a refusal.
const LAST_WORDS: usize = 20;

/// A session that is open.
type Opened = (Driver, Arc<Agreement>);

/// Opens a session.
pub(super) async fn open(target: &Target, options: &Options, host: Arc<dyn Host>) -> Result<Opened, OpenError> {
    let attempt = Attempt { options, host };
    match (target, options.speak) {
        (Target::Command(command), Speak::As(dialect, version)) => {
            attempt.start(command, dialect, version, options.opening_timeout).await
        }
        (Target::Command(_) | Target::Url(_), Speak::Auto) => attempt.find_out(target).await,
        (Target::Url(_), Speak::As(dialect, _)) if dialect.name != mcp::DIALECT.name => {
            Err(OpenError::NotOverHttp(dialect.name))
        }
        (Target::Url(url), Speak::As(_, version)) if is_stateless(version) => {
            attempt.stateless(url, version).await.map_err(Failed::into_error)
        }
        (Target::Url(url), Speak::As(_, version)) => attempt.with_handshake(url, version).await,
    }
}

fn is_stateless(version: &str) -> bool {
    Revision::named(version).is_some_and(Revision::is_stateless)
}

struct Attempt<'o> {
    options: &'o Options,
    host: Arc<dyn Host>,
}

/// An attempt over HTTP that came to nothing.
struct Failed {
    refusal: Refusal,
    evidence: Evidence,
}

impl Attempt<'_> {
    /// Opens a session in whichever era the upstream turns out to be. What was found out before is tried first, and
    /// forgotten if it is not true any more.
    async fn find_out(&self, target: &Target) -> Result<Opened, OpenError> {
        let eras = &self.options.eras;
        if eras.has_handshake(target) {
            let hands = async {
                self.shake_hands(target).await.inspect_err(|error| {
                    if !error.says_nothing_of_the_era() {
                        eras.forget(target);
                    }
                })
            };
            let belief = self.options.opening_timeout / BELIEF;
            let opened = either(hands, belief, self.probe(target), OpenError::says_nothing_of_the_era).await;
            return opened.map_err(|(hands, _)| hands);
        }
        let hands = async { self.shake_hands(target).await.inspect(|_| eras.remember_handshake(target)) };
        match target {
            // It may be of the old era, or slow to start; the other one will show.
            Target::Command(_) => {
                let opened = either(self.probe(target), SILENCE, hands, OpenError::says_nothing_of_the_era).await;
                opened.map_err(|(probe, hands)| match hands {
                    Some(hands) if !probe.is_of_the_new_era() => hands,
                    _ => probe,
                })
            }
            Target::Url(url) => match self.stateless(url, Revision::STATELESS[0].as_str()).await {
                Err(failed) if failed.may_be_of_the_handshake() => hands.await,
                opened => opened.map_err(Failed::into_error),
            },
        }
    }

    /// Asks the first question of the new era.
    async fn probe(&self, target: &Target) -> Result<Opened, OpenError> {
        let version = Revision::STATELESS[0].as_str();
        match target {
            Target::Command(command) => self.start(command, &mcp::DIALECT, version, self.options.opening_timeout).await,
            Target::Url(url) => self.stateless(url, version).await.map_err(Failed::into_error),
        }
    }

    /// Opens a session as the old era does.
    async fn shake_hands(&self, target: &Target) -> Result<Opened, OpenError> {
        let version = Revision::HANDSHAKE[0].as_str();
        match target {
            Target::Command(command) => self.start(command, &mcp::DIALECT, version, self.options.opening_timeout).await,
            Target::Url(url) => self.with_handshake(url, version).await,
        }
    }

    /// Starts a process and opens a session with it.
    async fn start(
        &self,
        command: &[String],
        dialect: &'static Dialect,
        version: &str,
        patience: Duration,
    ) -> Result<Opened, OpenError> {
        let hidden: Vec<_> = self.options.hidden.iter().map(String::as_str).collect();
        let program = || command.first().map(String::as_str).unwrap_or_default();
        let mut log = ChildLog::new(self.options.name.as_deref().unwrap_or_else(program));
        let on_stderr = move |text: &str| log.write(text);
        let child = ChildPeer::start(command, &self.options.surroundings, &hidden, on_stderr).map_err(|source| {
            let program = command.first().cloned().unwrap_or_default();
            OpenError::NotStarted { program, source }
        })?;
        let transport = Transport::Child(Box::new(ChildLines::new(child, dialect.text.terminator)));
        let mut driver = self.driver(dialect, version, transport, Style::OneStream);
        match driver.open(patience).await {
            Ok(agreement) => Ok((driver, agreement)),
            Err(refusal) => {
                let last_words = match refusal {
                    Refusal::PeerGone => driver.transport.last_words(LAST_WORDS).await,
                    _ => Vec::new(),
                };
                driver.transport.close(Manner::Hurried).await;
                Err(OpenError::Refused { refusal, last_words })
            }
        }
    }

    async fn stateless(&self, url: &Url, version: &str) -> Result<Opened, Failed> {
        self.reach(url, Style::Stateless, version).await
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

    /// Opens a session over HTTP in one style.
    async fn reach(&self, url: &Url, style: Style, version: &str) -> Result<Opened, Failed> {
        let patience = self.options.opening_timeout;
        let endpoint = Endpoint {
            url: url.clone(),
            headers: self.options.headers.clone(),
            authorizer: self.options.authorizer.clone(),
        };
        let timed_out = || Refusal::TimedOut { seconds: patience.as_secs() };
        let connected = tokio::time::timeout(patience, HttpClient::connect(endpoint, style)).await;
        let http = match connected {
            Ok(Ok(http)) => http,
            Ok(Err(loss)) => {
                let mut evidence = Evidence::default();
                evidence.note_loss(loss);
                return Err(Failed { refusal: Refusal::PeerGone, evidence });
            }
            Err(_) => return Err(Failed { refusal: timed_out(), evidence: Evidence::default() }),
        };
        let mut driver = self.driver(&mcp::DIALECT, version, Transport::Http(Box::new(http)), style);
        match driver.open(patience).await {
            Ok(agreement) => Ok((driver, agreement)),
            Err(refusal) => {
                let evidence = std::mem::take(&mut driver.evidence);
                driver.transport.close(Manner::Hurried).await;
                Err(Failed { refusal, evidence })
            }
        }
    }

    /// Both sides of a way that answers come back on in some style; a process has one stream.
    fn driver(&self, dialect: &'static Dialect, version: &str, transport: Transport, style: Style) -> Driver {
        let setup = ClientSetup {
            identity: self.options.identity.clone(),
            version: version.to_owned(),
            wants: None,
            provides: self.options.provides.clone(),
            token: self.options.token.clone(),
            log_level: self.options.log_level,
            listen: self.options.listen,
            exchanges: style != Style::OneStream,
            unagreed: violations::unagreed(&self.options.violations),
        };
        let client = (dialect.client)(setup);
        Driver::new(dialect, client, transport, Arc::clone(&self.host), self.options)
    }
}

/// Takes whichever of two attempts succeeds first; their errors if neither does. The second begins when the first has
/// failed or has said nothing for so long, and not at all if the first failed in a way that is final.
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
    // One that fails says nothing about the other.
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

impl OpenError {
    /// Whether somebody of either era would have failed in this way.
    fn says_nothing_of_the_era(&self) -> bool {
        matches!(self, Self::NotStarted { .. } | Self::Unauthorized { .. } | Self::NotOverHttp(_))
    }

    /// Whether somebody of the new era refused, and nobody of the old one would have said so.
    fn is_of_the_new_era(&self) -> bool {
        matches!(self, Self::Refused { refusal, .. } if !may_be_of_the_handshake(refusal))
    }
}

/// Whether the answer to a question of the new era may be that of somebody who knows the old one.
fn may_be_of_the_handshake(refusal: &Refusal) -> bool {
    match refusal {
        Refusal::VersionMismatch { spoken, .. } => {
            spoken.iter().filter_map(|version| Revision::named(version)).any(Revision::has_initialize)
        }
        // Only the new era has these.
        Refusal::PeerRefused { code, .. } => !matches!(code.as_str(), "-32020" | "-32021" | "-32022"),
        _ => true,
    }
}

impl Failed {
    /// Whether the answer to a question of the new era may be that of somebody who knows only the old one.
    fn may_be_of_the_handshake(&self) -> bool {
        if self.evidence.outage().is_some() || matches!(self.evidence.loss, Some(Loss::Denied(_))) {
            return false;
        }
        // Silence says nothing: the same question may be answered later.
        !matches!(self.refusal, Refusal::TimedOut { .. }) && may_be_of_the_handshake(&self.refusal)
    }

    fn into_error(self) -> OpenError {
        match (self.evidence.outage(), self.evidence.loss) {
            (Some(outage), _) => OpenError::Unreachable(outage),
            (None, Some(Loss::Denied(why))) => OpenError::Unauthorized { why },
            _ => OpenError::Refused { refusal: self.refusal, last_words: Vec::new() },
        }
    }
}
