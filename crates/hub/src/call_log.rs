//! Logs each call when it ends: what was called, by which principal, the outcome, the duration, the session and its client.
//!
//! Arguments and results are never logged. While the log level leaves these lines out, a call costs one atomic load.

use std::time::Instant;

use gladhand_core::negotiation::Agreement;
use gladhand_core::operations::{Call, Operation, Outcome, Reply};
use gladhand_core::wire::Members;
use gladhand_redaction::shorten;

use crate::governed::{name, word};
use crate::provider::{Answer, SessionId, Work};

/// The log target of these lines, for filters such as `gladhand::calls=info`.
macro_rules! target {
    () => {
        "gladhand::calls"
    };
}

/// The longest name that is logged, in characters.
const LONGEST: usize = 128;

/// A call under way. Dropping it before the call has ended logs that the call was cancelled.
#[derive(Debug)]
pub(crate) struct CallLog {
    kind: &'static str,
    name: String,
    principal: Option<String>,
    outcome: &'static str,
    rule: Option<String>,
    started: Instant,
    /// None for requests without a session.
    session: Option<u64>,
    client: String,
}

impl CallLog {
    /// Begins the log line of a call, if such lines are logged. Lists and messages to the agent are no calls here.
    pub(crate) fn begin(call: &Call<'_>, agreement: &Agreement, session: SessionId) -> Option<Self> {
        if !tracing::enabled!(target: target!(), tracing::Level::INFO) || !is_logged(&call.operation) {
            return None;
        }
        let principal = call.terms.principal.as_deref().or_else(|| agreement.principal());
        Some(Self {
            kind: word(&call.operation),
            name: short(without_query(&call.operation)),
            principal: principal.map(short),
            outcome: "cancelled",
            rule: None,
            started: Instant::now(),
            session: Some(session.0).filter(|_| session != SessionId::NONE && !session.is_kind()),
            client: short(&agreement.client.name),
        })
    }

    /// The same answer, logged when it is there.
    pub(crate) fn hold(self, answer: Answer) -> Answer {
        match answer {
            Answer::Now(outcome) => Answer::Now(self.end(outcome)),
            Answer::Later(work) => Answer::Later(self.held(work)),
            Answer::TaskLater(work) => Answer::TaskLater(self.held(work)),
            Answer::AsTask(work) => Answer::AsTask(self.held(work)),
        }
    }

    fn held(self, work: Work) -> Work {
        Box::pin(async move { self.end(work.await) })
    }

    fn end(mut self, outcome: Outcome) -> Outcome {
        self.outcome = match &outcome {
            Ok(Reply::Tool(result)) if result.failed => "tool_error",
            Ok(_) => "ok",
            Err(failure) => failure.kind.word(),
        };
        let data = outcome.as_ref().err().and_then(|failure| failure.data.as_deref());
        // A failure that policy decided names its rule.
        self.rule = data.and_then(Members::of).and_then(|data| data.str("rule").map(|rule| short(&rule)));
        outcome
    }
}

impl Drop for CallLog {
    fn drop(&mut self) {
        let Self { kind, name, principal, outcome, rule, started, session, client } = self;
        let duration_ms = (started.elapsed().as_secs_f64() * 1e6).round() / 1e3;
        let (principal, rule) = (principal.as_deref(), rule.as_deref());
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

fn is_logged(operation: &Operation<'_>) -> bool {
    use Operation::{Agent, ListPrompts, ListResources, ListTemplates, ListTools};
    !matches!(operation, Agent(_) | ListTools | ListResources | ListTemplates | ListPrompts)
}

/// The name of the target of a call. The query and the fragment of a URI may carry arguments, so they are left out.
pub(crate) fn without_query<'o>(operation: &'o Operation<'_>) -> &'o str {
    let name = name(operation);
    match operation {
        Operation::ReadResource(_) | Operation::Watch(_) => name.split(['?', '#']).next().unwrap_or_default(),
        _ => name,
    }
}

fn short(text: &str) -> String {
    shorten(text, LONGEST).into_owned()
}
