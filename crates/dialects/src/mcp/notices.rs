//! What we tell a downstream unasked.
//!
//! The gate is asked for each notice. What is about a call goes by the call's lane, what is for the session by the
//! main one, what is for a listener by the listener's. Changes that come before a session is open are owed to it, once.
//! What is about a parked call is kept for the caller's next request (`kept_notices`).

use gladhand_accord::Side;
use gladhand_operations::{CallId, Level, Log, Notice, Progress, Update};
use gladhand_wire::rpc;
use serde_json::json;

use super::changes::Change;
use super::render::notices as render;
use super::server::{McpServer, Phase};
use crate::side::{Action, Lane, Output};

/// The level from which log messages of our own are sent until the client sets one.
const UNSET_LEVEL: Level = Level::Warning;

const UPDATED: &str = "notifications/resources/updated";
const ELICITATION_COMPLETE: &str = "notifications/elicitation/complete";

impl McpServer {
    /// Tells of something, if it may and somebody wants to know.
    pub(super) fn tell(&mut self, notice: Notice, out: &mut Output<'_>) {
        if let Some(change) = Change::of(&notice) {
            return self.tell_changed(change, out);
        }
        if let Some(call) = notice.about().filter(|call| self.is_parked(*call)) {
            return self.keep_notice(call, notice);
        }
        match notice {
            Notice::Progress(call, progress) => self.tell_progress(call, &progress, out),
            Notice::Log(call, log) => self.tell_log(call, &log, out),
            Notice::ResourceUpdated(update) => self.tell_updated(&update, out),
            Notice::ElicitationComplete(id) => {
                self.tell_session(ELICITATION_COMPLETE, Some(&json!({"elicitationId": id})), out);
            }
            Notice::ComeBackLater(call, pause) => {
                let Some(call) = self.pending.get_mut(call) else { return };
                // On the channel itself there is no exchange to let go of.
                if call.revision.has_polling() && call.to.way.lane != Lane::MAIN {
                    out.actions.push(Action::LetGo(call.to.way.lane, pause));
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

    /// The session is open: what happened meanwhile is told, once.
    pub(super) fn tell_what_is_owed(&mut self, out: &mut Output<'_>) {
        if matches!(self.phase, Phase::Open(_)) {
            for change in std::mem::take(&mut self.owed).iter() {
                self.tell_session(change.method(), None, out);
            }
            for uri in self.watches.take_owed() {
                self.tell_session(UPDATED, Some(&json!({"uri": uri})), out);
            }
        }
    }

    /// How far a call has come, if its caller wants to know and it is further than before.
    fn tell_progress(&mut self, call: CallId, progress: &Progress, out: &mut Output<'_>) {
        let is_open = matches!(self.phase, Phase::Open(_));
        let Some(call) = self.pending.get_mut(call) else { return };
        let may_speak = is_open || call.revision.is_stateless();
        let is_further = progress.progress.is_finite() && call.progress.is_none_or(|last| progress.progress > last);
        if let Some(token) = call.progress_token.as_deref()
            && may_speak
            && is_further
        {
            call.progress = Some(progress.progress);
            out.go(call.to.way.lane);
            render::progress(&mut out.wire, token, progress, call.revision);
        }
    }

    /// A log message, if the session's level or the request's own lets it through.
    fn tell_log(&mut self, call: Option<CallId>, log: &Log, out: &mut Output<'_>) {
        // What is said about a call that has ended has lost its listener.
        let about = match call {
            None => None,
            Some(call) => match self.pending.get_mut(call) {
                None => return,
                Some(call) => Some((call.revision.is_stateless(), call.log_level, call.to.way.lane)),
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

    /// A list changed: tell those who may be told, and owe it to a session not yet open.
    fn tell_changed(&mut self, change: Change, out: &mut Output<'_>) {
        if matches!(self.phase, Phase::Open(_)) {
            self.tell_session(change.method(), None, out);
        } else {
            self.owed.insert(change);
        }
        self.listeners.tell_changed(change, out);
    }

    /// A resource changed: tell those who watch it.
    fn tell_updated(&mut self, update: &Update, out: &mut Output<'_>) {
        if !matches!(self.phase, Phase::Open(_)) {
            self.watches.owe(update);
        } else if self.watches.cover(update) {
            self.tell_session(UPDATED, Some(&json!({"uri": update.uri})), out);
        }
        self.listeners.tell_updated(UPDATED, update, out);
    }

    fn tell_session(&self, method: &str, params: Option<&serde_json::Value>, out: &mut Output<'_>) {
        if let Phase::Open(session) = &self.phase
            && session.in_force.gate.admit(Side::Server, method).is_ok()
        {
            out.go(Lane::MAIN);
            rpc::notification(&mut out.wire, method, params);
        }
    }
}
