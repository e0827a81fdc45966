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
use super::driver::{Driver, Evidence};
use super::host::Host;
use super::options::{Options, Speak};
use super::target::Target;
use super::transport::Transport;
use crate::edges::child::{ChildPeer, Manner};
use crate::edges::child_lines::ChildLines;
use crate::edges::http_client::{Endpoint, HttpClient, Style};

/// How long a process may say nothing to the first question of the new era before another is asked that of the old.
const SILENCE: Duration = Duration::from_secs(3);

/// How many lines of a process's stderr go with a refusal.
const LAST_WORDS: usize = 8;

/// A session that is open.
type Opened = (Driver, Arc<Agreement>);

/// Opens a session.
pub(super) async fn open(target: &Target, options: &Options, host: Arc<dyn Host>) -> Result<Opened, OpenError> {
    let attempt = Attempt { options, host };
    match (target, options.speak) {
        (Target::Command(command), Speak::As(dialect, version)) => {
            attempt.start(command, dialect, version, options.opening_timeout).await
        }
        (Target::Command(command), Speak::Auto) => attempt.find_out(command).await,
        (Target::Url(_), Speak::As(dialect, _)) if dialect.name != mcp::DIALECT.name => {
            Err(OpenError::NotOverHttp(dialect.name))
        }
        (Target::Url(url), Speak::As(_, version)) if is_stateless(version) => {
            attempt.stateless(url, version).await.map_err(Failed::into_error)
        }
        (Target::Url(url), Speak::As(_, version)) => attempt.with_handshake(url, version).await,
        (Target::Url(url), Speak::Auto) => match attempt.stateless(url, Revision::STATELESS[0].as_str()).await {
            Ok(opened) => Ok(opened),
            Err(failed) if failed.may_be_of_the_handshake() => {
                attempt.with_handshake(url, Revision::HANDSHAKE[0].as_str()).await
            }
            Err(failed) => Err(failed.into_error()),
        },
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
    /// Asks a process of which era it is, and takes another one if it is the older.
    async fn find_out(&self, command: &[String]) -> Result<Opened, OpenError> {
        if self.options.eras.has_handshake(command) {
            return self.shake_hands(command).await;
        }
        let patience = self.options.opening_timeout;
        let probe = self.start(command, &mcp::DIALECT, Revision::STATELESS[0].as_str(), patience);
        tokio::pin!(probe);
        let Ok(answered) = tokio::time::timeout(SILENCE, &mut probe).await else {
            // It may be of the old era, or slow to start. If another one shakes hands first, it is not slow.
            return tokio::select! {
                answered = &mut probe => self.believe(answered, command).await,
                opened = self.shake_hands(command) => opened,
            };
        };
        self.believe(answered, command).await
    }

    /// Takes a session of the new era, or whatever else there is where somebody refused it.
    async fn believe(&self, answered: Result<Opened, OpenError>, command: &[String]) -> Result<Opened, OpenError> {
        match answered {
            Err(OpenError::Refused { refusal, .. }) => {
                tracing::debug!(%refusal, "the upstream is not of the new era");
                self.shake_hands(command).await
            }
            opened_or_failed => opened_or_failed,
        }
    }

    async fn shake_hands(&self, command: &[String]) -> Result<Opened, OpenError> {
        let patience = self.options.opening_timeout;
        let opened = self.start(command, &mcp::DIALECT, Revision::HANDSHAKE[0].as_str(), patience).await?;
        self.options.eras.remember_handshake(command);
        Ok(opened)
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
        let on_stderr = |text: &str| text.lines().for_each(|line| tracing::debug!("upstream: {line}"));
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
        if matches!(failed.evidence.status, Some(400 | 404 | 405)) {
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
                let status = if let Loss::Status(status) = loss { Some(status) } else { None };
                return Err(Failed { refusal: Refusal::PeerGone, evidence: Evidence { status, loss: Some(loss) } });
            }
            Err(_) => return Err(Failed { refusal: timed_out(), evidence: Evidence::default() }),
        };
        let mut driver = self.driver(&mcp::DIALECT, version, Transport::Http(Box::new(http)), style);
        match driver.open(patience).await {
            Ok(agreement) => Ok((driver, agreement)),
            Err(refusal) => {
                let evidence = driver.evidence;
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
        };
        let client = (dialect.client)(setup);
        Driver::new(dialect, client, transport, Arc::clone(&self.host), self.options.call_timeout)
    }
}

impl Failed {
    /// Whether the answer to a question of the new era may be that of somebody who knows only the old one.
    fn may_be_of_the_handshake(&self) -> bool {
        if self.outage().is_some() || matches!(self.evidence.status, Some(401 | 403)) {
            return false;
        }
        match &self.refusal {
            // Silence says nothing: the same question may be answered later.
            Refusal::TimedOut { .. } => false,
            Refusal::VersionMismatch { spoken, .. } => {
                spoken.iter().filter_map(|version| Revision::named(version)).any(Revision::has_initialize)
            }
            // Only the new era has these.
            Refusal::PeerRefused { code, .. } => !matches!(code.as_str(), "-32020" | "-32021" | "-32022"),
            _ => true,
        }
    }

    /// What is out of order, if it is the upstream as a whole.
    fn outage(&self) -> Option<String> {
        match (self.evidence.status, self.evidence.loss) {
            (Some(status @ 500..), _) => Some(format!("HTTP status {status}")),
            (_, Some(Loss::Unsent)) => Some("no connection".to_owned()),
            (None, Some(Loss::Broken)) => Some("the connection broke".to_owned()),
            _ => None,
        }
    }

    fn into_error(self) -> OpenError {
        match (self.outage(), self.evidence.status) {
            (Some(outage), _) => OpenError::Unreachable(outage),
            (None, Some(status @ (401 | 403))) => OpenError::Unauthorized { status },
            _ => OpenError::Refused { refusal: self.refusal, last_words: Vec::new() },
        }
    }
}
