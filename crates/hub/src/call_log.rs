//! Logs each call when it ends: what was called, by which principal, the outcome, the duration, the session and its client.
//!
//! Arguments and results are never logged. While the log level leaves these lines out, a call costs one atomic load.

use gladhand_core::operations::Operation;
use gladhand_core::wire::Members;

use crate::call_observers::{CallObserver, CallOrigin, EndedCall, has_target, short};
use crate::provider::SessionId;

/// The log target of these lines, for filters such as `gladhand::calls=info`.
macro_rules! target {
    () => {
        "gladhand::calls"
    };
}

/// Logs calls that clients make, except lists and calls of the agent.
#[derive(Debug)]
pub(crate) struct CallLog;

impl CallObserver for CallLog {
    fn observes(&self, operation: &Operation<'_>, origin: CallOrigin) -> bool {
        tracing::enabled!(target: target!(), tracing::Level::INFO)
            && origin == CallOrigin::Client
            && has_target(operation)
    }

    fn ended(&self, ended: &EndedCall<'_>) {
        let call = ended.call;
        let failure = ended.outcome.and_then(|outcome| outcome.as_ref().err());
        let data = failure.and_then(|failure| failure.data.as_deref());
        // A failure that policy decided names its rule.
        let rule = data.and_then(Members::of).and_then(|data| data.str("rule").map(|rule| short(&rule)));
        // None for requests without a session.
        let session = Some(call.session.0).filter(|_| call.session != SessionId::NONE && !call.session.is_kind());
        let (kind, name, principal) = (call.kind, without_query(call.kind, &call.name), call.principal.as_deref());
        let (outcome, duration_ms, client) = (ended.word(), ended.duration_ms(), &call.client);
        let rule = rule.as_deref();
        tracing::info!(target: target!(), kind, name, principal, outcome, rule, duration_ms, session, client, "call");
    }
}

/// Logs calls of tools that a transport refused, so that the hub never saw them.
pub(crate) fn refused(principal: &str, tools: &[String], rule: &str) {
    for tool in tools {
        let (name, principal) = (short(tool), short(principal));
        tracing::info!(target: target!(), kind = "tool", name, principal, outcome = "denied", rule, duration_ms = 0.0, "call");
    }
}

/// The name of the target of a call. The query and the fragment of a URI may carry arguments, so they are left out.
pub fn without_query<'n>(kind: &str, name: &'n str) -> &'n str {
    match kind {
        "resource" | "subscription" => name.split(['?', '#']).next().unwrap_or_default(),
        _ => name,
    }
}
