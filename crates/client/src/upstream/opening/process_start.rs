//! Starts the process of an upstream, and opens a session with it.

use gladhand_core::negotiation::Refusal;
use gladhand_dialects::{Dialect, Speak, mcp};
use gladhand_process::child::{ChildPeer, Manner};
use gladhand_process::child_lines::ChildLines;
use gladhand_process::child_log::ChildLog;
use gladhand_process::surroundings::Surroundings;
use tokio::time::Instant;

use super::super::process_end::ProcessEnd;
use super::super::transport::Transport;
use super::{Attempt, OpenError, Opened};
use crate::http_client::Style;
use crate::upstream::Options;

/// Starts a process that speaks a dialect in lines of at most `line_bytes`. It does not inherit the variables named in
/// `hidden`. Its stderr goes to `log`, if there is one.
pub async fn start_process(
    command: &[String],
    surroundings: &Surroundings,
    hidden: &[String],
    dialect: &Dialect,
    line_bytes: usize,
    mut log: Option<ChildLog>,
) -> Result<Transport, OpenError> {
    let hidden: Vec<_> = hidden.iter().map(String::as_str).collect();
    let on_stderr = move |text: &str| log.iter_mut().for_each(|log| log.write(text));
    let child = ChildPeer::start(command, surroundings, &hidden, on_stderr).await;
    let child = child.map_err(|source| {
        let program = command.first().cloned().unwrap_or_default();
        OpenError::NotStarted { program, source }
    })?;
    Ok(Transport::Child(Box::new(ChildLines::new(child, dialect.text.terminator, line_bytes))))
}

impl Attempt<'_> {
    /// Starts a process and opens a session with it.
    pub(super) async fn start(
        &self,
        command: &[String],
        dialect: &'static Dialect,
        version: &str,
    ) -> Result<Opened, OpenError> {
        let program = || command.first().map(String::as_str).unwrap_or_default();
        let log = ChildLog::new(self.options.name.as_deref().unwrap_or_else(program));
        let Options { surroundings, hidden, line_bytes, .. } = self.options;
        let transport = start_process(command, surroundings, hidden, dialect, *line_bytes, Some(log)).await?;
        let mut driver = self.driver(dialect, version, transport, Style::OneStream);
        driver.recognizes_dialects = matches!(self.options.speak, Speak::Auto) && dialect.name == mcp::DIALECT.name;
        match driver.open(self.until.saturating_duration_since(Instant::now())).await {
            Ok(agreement) => Ok((driver, agreement)),
            Err(Refusal::TimedOut { .. }) => {
                driver.transport.close(Manner::Hurried).await;
                Err(self.timed_out())
            }
            Err(refusal) => {
                if let Some(dialect) = driver.recognized {
                    self.recognized.get_or_init(|| dialect);
                }
                let process = match refusal {
                    Refusal::PeerGone => ProcessEnd::of(&mut driver.transport).await,
                    _ => None,
                };
                driver.transport.close(Manner::Hurried).await;
                Err(OpenError::Refused { refusal, process })
            }
        }
    }
}
