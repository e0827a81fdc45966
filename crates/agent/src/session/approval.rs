//! Calls that need approval.

use super::calls::Wanted;
use super::scene::Scene;
use super::state::Session;
use super::turn::{Awaits, Turn};
use crate::payloads::ApprovalResolved;

impl Session {
    /// A client decides a call. Returns whether the turn waits for the decision on this call. The id of a call is
    /// unique in the session, so a second or late decision never reaches another call.
    pub(crate) fn decide(&mut self, call_id: &str, allow: bool, always: bool, scene: &mut Scene<'_>) -> bool {
        let Some((turn, call)) = self.asking(|call| call.call_id == call_id) else { return false };
        if always {
            self.decided.insert(call.decided(), allow);
        }
        self.tell_resolved(&turn, &call, if allow { "allow" } else { "deny" }, scene);
        if allow {
            self.start_call(turn, call, scene);
        } else {
            let why = denied(call.name());
            self.refuse_call(turn, &call, why, scene);
        }
        true
    }

    /// The last client that could approve calls has disconnected.
    pub(crate) fn left_alone(&mut self, scene: &mut Scene<'_>) {
        let Some((turn, call)) = self.asking(|_| true) else { return };
        self.tell_resolved(&turn, &call, "cancelled", scene);
        let why = nobody(&call);
        self.refuse_call(turn, &call, why, scene);
    }

    /// Ends the wait for a decision, because the turn was stopped.
    pub(super) fn stop_asking(&mut self, scene: &mut Scene<'_>) {
        let Some((turn, call)) = self.asking(|_| true) else { return };
        self.tell_resolved(&turn, &call, "cancelled", scene);
        self.finish_interrupted(turn, scene);
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

    fn tell_resolved(&self, turn: &Turn, call: &Wanted, decision: &str, scene: &mut Scene<'_>) {
        let resolved = ApprovalResolved {
            session_id: &self.id,
            turn_id: &turn.id,
            call_id: &call.call_id,
            tool: call.name(),
            decision,
        };
        scene.tell("session.approval.resolved", &resolved);
    }
}

/// The message to the model about a call that the user denied.
pub(super) fn denied(tool: &str) -> String {
    format!("{tool} was not run: the user did not allow it")
}

/// The message to the model about a call that no connected client can approve.
pub(crate) fn nobody(call: &Wanted) -> String {
    let why = call.reason().map(|reason| format!(" ({reason})")).unwrap_or_default();
    format!("{} was not run: it needs approval{why}, and no client that is connected can give it", call.name())
}
