//! Opens a session with an upstream of which only the target is known.
//!
//! - [`dialect_search`] finds the dialect, and [`era_search`] the era of an MCP server.
//! - [`process_start`] opens a session with a process, and [`http_styles`] one over HTTP.
//! - [`classification`] says what a failed attempt means for the next one.

mod classification;
mod dialect_search;
mod era_search;
mod first_success;
mod http_styles;
mod process_start;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use gladhand_core::negotiation::{Agreement, Refusal};
use gladhand_dialects::{ClientSetup, Dialect, Speak, a2e, mcp};
use gladhand_session::violations;
use tokio::time::Instant;

use super::driver::Driver;
use super::events::UpstreamEvents;
use super::open_error::OpenError;
use super::options::Options;
use super::target::Target;
use super::transport::Transport;
use crate::http_client::Style;
use http_styles::Failed;
pub use process_start::start_process;

/// How long a process may stay silent after the first request of the stateless era before a second process is tried
/// with a handshake.
const SILENCE: Duration = Duration::from_secs(3);

/// A silent upstream gets the opening timeout divided by this in its remembered era or dialect, before others are
/// tried.
const REMEMBERED_SHARE: u32 = 2;

/// A session that is open.
type Opened = (Box<Driver>, Arc<Agreement>);

/// Opens a session.
pub(super) async fn open(
    target: &Target,
    options: &Options,
    events: Arc<dyn UpstreamEvents>,
) -> Result<Opened, OpenError> {
    let attempt =
        Attempt { options, events, until: Instant::now() + options.opening_timeout, recognized: OnceLock::new() };
    let opened = Box::pin(attempt.open(target)).await;
    if let (Speak::As(..), Ok((_, agreement))) = (options.speak, &opened) {
        attempt.tell_choice(target, agreement, "`--as` or `speak` asks for it");
    }
    opened
}

struct Attempt<'o> {
    options: &'o Options,
    events: Arc<dyn UpstreamEvents>,
    /// When a process must have answered.
    until: Instant,
    /// The dialect other than MCP that a process has answered in.
    recognized: OnceLock<&'static Dialect>,
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
            (Target::Url(url), Speak::As(dialect, version)) => {
                self.open_http(dialect, url, version).await.map_err(Failed::into_error)
            }
        }
    }

    /// Says in the log which revision is spoken, and why.
    fn tell_choice(&self, target: &Target, agreement: &Agreement, why: &str) {
        let upstream = self.options.name.clone().unwrap_or_else(|| target.to_string());
        let (dialect, version) = (agreement.dialect, &agreement.version);
        tracing::info!(upstream, dialect, version, why, "revision chosen");
    }

    fn timed_out(&self) -> OpenError {
        let refusal = Refusal::TimedOut { seconds: self.options.opening_timeout.as_secs() };
        OpenError::refused(refusal)
    }

    /// The driver of a session on a transport. `style` is how responses arrive; a process has one stream.
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
