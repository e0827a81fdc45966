//! Calls that need approval.

use super::calls::Wanted;
use super::state::Session;
use super::step::StepContext;
use super::turn::{Awaits, Turn};
use crate::payloads::ApprovalResolved;

impl Session {
    /// A client decides a call. Returns whether the turn waits for the decision on this call. The id of a call is
    /// unique in the session, so a second or late decision never reaches another call.
    pub(crate) fn decide(&mut self, call_id: &str, allow: bool, always: bool, context: &mut StepContext<'_>) -> bool {
        let Some((turn, call)) = self.asking(|call| call.call_id == call_id) else { return false };
        if always {
            self.session_decisions.insert(call.decision_subject(), allow);
        }
        self.emit_resolved(&turn, &call, if allow { "allow" } else { "deny" }, context);
        if allow {
            self.start_call(turn, call, context);
        } else {
            let why = denied(call.name());
            self.refuse_call(turn, &call, why, context);
        }
        true
    }

    /// The last client that could approve calls has disconnected.
    pub(crate) fn approvers_left(&mut self, context: &mut StepContext<'_>) {
        let Some((turn, call)) = self.asking(|_| true) else { return };
        self.emit_resolved(&turn, &call, "cancelled", context);
        let why = no_approver(&call);
        self.refuse_call(turn, &call, why, context);
    }

    /// Ends the wait for a decision, because the turn was stopped.
    pub(super) fn stop_asking(&mut self, context: &mut StepContext<'_>) {
        let Some((turn, call)) = self.asking(|_| true) else { return };
        self.emit_resolved(&turn, &call, "cancelled", context);
        self.finish_interrupted(turn, context);
    }

    /// Takes the running turn and the call that waits for a decision, if there is one. The caller must continue or
    /// end the turn.
    fn asking(&mut self, is_meant: impl FnOnce(&Wanted) -> bool) -> Option<(Box<Turn>, Wanted)> {
        let is_awaited = |awaits: &Awaits| matches!(awaits, Awaits::Approval(call) if is_meant(call));
        let mut turn = self.turn_that(is_awaited)?;
        match std::mem::replace(&mut turn.awaits, Awaits::Round) {
            Awaits::Approval(call) => Some((turn, call)),
            _ => None,
        }
    }

    fn emit_resolved(&self, turn: &Turn, call: &Wanted, decision: &str, context: &mut StepContext<'_>) {
        let resolved = ApprovalResolved {
            session_id: &self.id,
            turn_id: &turn.id,
            call_id: &call.call_id,
            tool: call.name(),
            decision,
        };
        context.emit("session.approval.resolved", &resolved);
    }
}

/// The message to the model about a call that the user denied.
pub(super) fn denied(tool: &str) -> String {
    format!("{tool} was not run: the user did not allow it")
}

/// The message to the model about a call that no connected client can approve.
pub(crate) fn no_approver(call: &Wanted) -> String {
    let why = call.reason().map(|reason| format!(" ({reason})")).unwrap_or_default();
    format!("{} was not run: it needs approval{why}, and no client that is connected can give it", call.name())
}
