//! Sends notices to a downstream.
//!
//! The gate decides on each notice. A notice about a call uses the call's lane, one for the session the main lane, one
//! for a listener the listener's lane. Changes before the session is open are sent once it is open. Notices about a
//! parked call are kept for the caller's next request (`kept_notices`).

use gladhand_core::negotiation::Side;
use gladhand_core::operations::{CallId, Level, Log, Notice, Progress, Update};
use gladhand_core::wire::rpc;
use serde_json::json;

use super::changes::Change;
use super::render::notices as render;
use super::server::{McpServer, Phase};
use crate::side::{Action, Lane, Output};

/// The minimum level of our own log messages until the client sets one.
const UNSET_LEVEL: Level = Level::Warning;

const UPDATED: &str = "notifications/resources/updated";
const ELICITATION_COMPLETE: &str = "notifications/elicitation/complete";

impl McpServer {
    /// Sends a notice, if it is allowed and wanted.
    pub(super) fn send_notice(&mut self, notice: Notice, out: &mut Output<'_>) {
        if let Some(change) = Change::of(&notice) {
            return self.report_list_change(change, out);
        }
        if let Some(call) = notice.about().filter(|call| self.is_parked(*call)) {
            return self.keep_notice(call, notice);
        }
        match notice {
            Notice::Progress(call, progress) => self.send_progress(call, &progress, out),
            Notice::Log(call, log) => self.send_log(call, &log, out),
            Notice::ResourceUpdated(update) => self.report_update(&update, out),
            Notice::ElicitationComplete(id) => {
                self.notify_session(ELICITATION_COMPLETE, Some(&json!({"elicitationId": id})), out);
            }
            Notice::ComeBackLater(call, pause) => {
                let Some(call) = self.incoming.get_mut(call) else { return };
                // The main channel has no exchange that could be closed.
                if call.revision.has_polling() && call.to.route.lane != Lane::MAIN {
                    out.actions.push(Action::LetGo(call.to.route.lane, pause));
                }
            }
            Notice::ToolsChanged
            | Notice::ResourcesChanged
            | Notice::PromptsChanged
            | Notice::GoesOnAsTask(_)
            | Notice::Agent(_)
            | Notice::Capability(_) => {}
        }
    }

    /// Sends the changes that happened before the session was open, once.
    pub(super) fn send_unreported_changes(&mut self, out: &mut Output<'_>) {
        if matches!(self.phase, Phase::Open(_)) {
            for change in std::mem::take(&mut self.unreported).iter() {
                self.notify_session(change.method(), None, out);
            }
            for uri in self.watches.take_unreported() {
                self.notify_session(UPDATED, Some(&json!({"uri": uri})), out);
            }
        }
    }

    /// Sends the progress of a call, if its caller wants it and the value has increased.
    fn send_progress(&mut self, call: CallId, progress: &Progress, out: &mut Output<'_>) {
        let is_open = matches!(self.phase, Phase::Open(_));
        let Some(call) = self.incoming.get_mut(call) else { return };
        let may_speak = is_open || call.revision.is_stateless();
        let is_further = progress.progress.is_finite() && call.progress.is_none_or(|last| progress.progress > last);
        if let Some(token) = call.progress_token.as_deref()
            && may_speak
            && is_further
        {
            call.progress = Some(progress.progress);
            out.go(call.to.route.lane);
            render::progress(&mut out.wire, token, progress, call.revision);
        }
    }

    /// Sends a log message, if the level of the session or of the request allows it.
    fn send_log(&mut self, call: Option<CallId>, log: &Log, out: &mut Output<'_>) {
        // A log message about a call that has ended has no recipient.
        let about = match call {
            None => None,
            Some(call) => match self.incoming.get_mut(call) {
                None => return,
                Some(call) => Some((call.revision.is_stateless(), call.log_level, call.to.route.lane)),
            },
        };
        let wanted = match (about, &self.phase) {
            (Some((true, level, _)), _) => level,
            (_, Phase::Open(session)) => {
                let gate = &session.in_force.gate;
                let admitted = gate.admit(Side::Server, "notifications/message").is_ok();
                let unset = if log.is_from_upstream { Level::Debug } else { UNSET_LEVEL };
                admitted.then(|| session.level.unwrap_or(unset))
            }
            _ => None,
        };
        if wanted.is_some_and(|wanted| log.level >= wanted) {
            out.go(about.map_or(Lane::MAIN, |(.., lane)| lane));
            render::message(&mut out.wire, log);
        }
    }

    /// Reports a changed list to session and listeners, or keeps it until the session is open.
    fn report_list_change(&mut self, change: Change, out: &mut Output<'_>) {
        if matches!(self.phase, Phase::Open(_)) {
            self.notify_session(change.method(), None, out);
        } else {
            self.unreported.insert(change);
        }
        self.listeners.report_list_change(change, out);
    }

    /// Reports a changed resource to its subscribers.
    fn report_update(&mut self, update: &Update, out: &mut Output<'_>) {
        if !matches!(self.phase, Phase::Open(_)) {
            self.watches.record_update(update);
        } else if self.watches.cover(update) {
            self.notify_session(UPDATED, Some(&json!({"uri": update.uri})), out);
        }
        self.listeners.report_update(UPDATED, update, out);
    }

    fn notify_session(&self, method: &str, params: Option<&serde_json::Value>, out: &mut Output<'_>) {
        if let Phase::Open(session) = &self.phase
            && session.in_force.gate.admit(Side::Server, method).is_ok()
        {
            out.go(Lane::MAIN);
            rpc::notification(&mut out.wire, method, params);
        }
    }
}
