//! Finds the era of an MCP server: sessions that open with a handshake, or stateless requests.
//!
//! The era that suits the client is tried first, and then the other one. A remembered era decides which one is first. A
//! status about authorization or an outage says nothing about the era.

use std::time::Duration;

use gladhand_dialects::mcp;
use gladhand_dialects::mcp::revision::Revision;

use super::super::eras::Era;
use super::first_success::first_success;
use super::http_styles::Failed;
use super::{Attempt, OpenError, Opened, REMEMBERED_SHARE, SILENCE};
use crate::upstream::Target;

impl Attempt<'_> {
    /// Opens an MCP session in the era that suits the client best, or else in the other one. A remembered era decides
    /// which one is tried first, and is forgotten if it is no longer right.
    pub(super) async fn find_era(&self, target: &Target) -> Result<Opened, OpenError> {
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
        let is_remembered = spoken.has(era) == Some(true);
        let silence = match target {
            _ if is_remembered => self.options.opening_timeout / REMEMBERED_SHARE,
            // The server may be of the other era, or slow to start. A second process shows which.
            Target::Command(_) => SILENCE,
            // Over HTTP the attempt itself ends in time.
            Target::Url(_) => Duration::MAX,
        };
        let is_final = |error: &OpenError| {
            let is_of_this_era = era == Era::Stateless && error.is_of_stateless_era();
            // Over HTTP, a retry may succeed later, unless the remembered era was wrong for a new server.
            let is_late = matches!(target, Target::Url(_)) && (error.is_late() || error.is_outage() && !is_remembered);
            is_late || is_of_this_era || error.is_independent_of_era() || self.recognized.get().is_some()
        };
        match first_success(first, silence, second, is_final).await {
            Ok((driver, agreement)) => {
                let suits =
                    Revision::named(&agreement.version).is_some_and(|spoken| Era::of(spoken) == Era::of(preferred));
                let why = if suits { why } else { "the server does not speak the era that suits the client best" };
                self.tell_choice(target, &agreement, why);
                Ok((driver, agreement))
            }
            Err((error, other_error)) => {
                if !error.is_independent_of_era() && !error.is_outage() {
                    eras.forget(target);
                }
                let (handshake, stateless) = match era {
                    Era::Handshake => (Some(error), other_error),
                    Era::Stateless => (other_error, Some(error)),
                };
                let stateless = stateless.filter(|error| handshake.is_none() || error.is_of_stateless_era());
                Err(stateless.or(handshake).unwrap_or_else(|| self.timed_out()))
            }
        }
    }

    /// Opens a session of MCP in a revision, or an older one of its era that the server offers instead.
    async fn open_in(&self, target: &Target, revision: Revision) -> Result<Opened, OpenError> {
        let version = revision.as_str();
        match target {
            Target::Command(command) => self.start(command, &mcp::DIALECT, version).await,
            Target::Url(url) => self.open_http(&mcp::DIALECT, url, version).await.map_err(Failed::into_error),
        }
    }
}
