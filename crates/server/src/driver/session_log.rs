//! The log lines of a session: one when it opens, one when it closes.

use gladhand_core::negotiation::Agreement;
use gladhand_hub::SessionId;

/// A session that was logged as open. Dropping it logs that the session has closed.
#[derive(Debug)]
pub(crate) struct SessionLog {
    session: u64,
    client: String,
}

impl SessionLog {
    /// Logs that a session has opened.
    pub(crate) fn open(agreement: &Agreement, session: SessionId) -> Self {
        let (dialect, version, client) =
            (agreement.dialect, agreement.version.as_str(), agreement.client.name.as_str());
        let SessionId(session) = session;
        match &agreement.asked_version {
            Some(asked) => {
                tracing::warn!(
                    session,
                    dialect,
                    version,
                    asked,
                    client,
                    "session open, not at the version that was asked for"
                );
            }
            None => tracing::info!(session, dialect, version, client, "session open"),
        }
        Self { session, client: client.to_owned() }
    }
}

impl Drop for SessionLog {
    fn drop(&mut self) {
        let Self { session, client } = self;
        tracing::info!(session, client, "session closed");
    }
}
