//! A session that is only opened, for a caller that shows how the opening goes.
//!
//! The transport is the caller's choice. Nothing is retried, no server request is answered, and the timeout is the
//! caller's: it drops the future.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use gladhand_core::negotiation::{Agreement, Refusal};
use gladhand_core::operations::{Answered, Operation, Outcome, Question};
use gladhand_dialects::{ClientSetup, Dialect};
use gladhand_session::tap::Tap;

use super::driver::Driver;
use super::events::UpstreamEvents;
use super::http_evidence::HttpEvidence;
use super::options::Options;
use super::transport::Transport;

/// A session that is only opened. A tap shows its lines.
pub struct Probe {
    driver: Box<Driver>,
}

/// Leaves every server request unanswered.
struct Silent;

impl UpstreamEvents for Silent {
    fn ask(&self, _question: Question) -> BoxFuture<'static, Answered> {
        Box::pin(std::future::pending())
    }
}

impl Probe {
    /// A session on a transport, as the client of a dialect.
    pub fn new(dialect: &'static Dialect, setup: ClientSetup, transport: Transport, tap: Arc<Tap>) -> Self {
        let options = Options { tap, ..Options::default() };
        let mut driver = Driver::new(dialect, (dialect.client)(setup), transport, Arc::new(Silent), &options);
        driver.is_shown = true;
        Self { driver: Box::new(driver) }
    }

    /// Opens the session.
    pub async fn open(&mut self) -> Result<Arc<Agreement>, Refusal> {
        self.driver.open_without_timeout().await
    }

    /// Processes everything that the upstream sends, until it is gone.
    pub async fn listen(&mut self) {
        self.driver.listen().await;
    }

    /// Makes a call in the open session, and processes everything that the upstream sends until the outcome is there.
    pub async fn call(&mut self, operation: Operation<'static>) -> Outcome {
        self.driver.call_alone(operation).await
    }

    /// Sends the closing message, if the dialect has one.
    pub fn send_closing_message(&mut self) {
        self.driver.send_closing_message();
    }

    /// The facts that HTTP states about an opening that failed.
    pub fn evidence(&self) -> &HttpEvidence {
        &self.driver.evidence
    }

    /// The transport.
    pub fn transport(&mut self) -> &mut Transport {
        &mut self.driver.transport
    }
}

impl std::fmt::Debug for Probe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Probe").field("transport", &self.driver.transport).finish_non_exhaustive()
    }
}
