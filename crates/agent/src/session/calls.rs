//! Runs the tool calls that a model requests in a turn, one after the other.

use std::hash::{DefaultHasher, Hash, Hasher};

use gladhand_agent_tools::{GuardedPath, RunResult};
use gladhand_core::wire::{RawValue, json as wire};
use gladhand_models::{HistoryItem, WantedCall};
use serde::Serialize;
use serde_json::json;

use super::bounds::bounded;
use super::state::Session;
use super::step::{Job, StepContext};
use super::turn::{Awaits, Turn};
use crate::payloads::{ApprovalRequested, CallStarted, CallsEnded, Executed, InTurn, StartedCall};

/// The tool that a call refers to. It is resolved once, from the name that the model used. Policy, approval and
/// execution use the identity and never that name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum ToolIdentity {
    /// A tool of the agent, by its own name and its edition.
    Agent { name: String, edition: u64 },
    /// A tool of the hub: the name shown to the caller, the provider, and the name that the provider uses.
    Hub { name: String, upstream: String, own: String },
    /// There is no tool with this name.
    Unknown { name: String },
}

impl ToolIdentity {
    /// The tool's own name.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Agent { name, .. } | Self::Hub { name, .. } | Self::Unknown { name } => name,
        }
    }
}

/// The subject of a decision for the rest of a session: a tool, and the paths that it uses outside the workspace.
pub(super) type DecisionSubject = (ToolIdentity, Vec<GuardedPath>);

/// A call that a model requested.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    /// The tool.
    pub(crate) tool: ToolIdentity,
    /// The name that the model used.
    pub(crate) provider_name: String,
    pub(crate) call_id: String,
    /// A JSON object; empty if the arguments were nested too deeply.
    pub(crate) input: Box<RawValue>,
    /// Whether the arguments were nested too deeply.
    pub(crate) is_too_deep: bool,
    /// A signature of the provider over its call, which it requires back.
    pub(crate) provider_signature: Option<Box<RawValue>>,
    /// The effect of the tool as one word.
    pub(crate) effect: &'static str,
    /// The paths that the call uses and that need approval.
    pub(crate) guarded_paths: Vec<GuardedPath>,
    /// The decision. It is made just before the call runs; until then it is a refusal.
    pub(crate) verdict: Verdict,
}

impl Wanted {
    /// The tool's own name.
    pub(crate) fn name(&self) -> &str {
        self.tool.name()
    }

    /// Whether no tool had this name when it was resolved.
    pub(crate) fn is_unknown(&self) -> bool {
        matches!(self.tool, ToolIdentity::Unknown { .. })
    }

    /// The call in the form that the provider sent.
    pub(crate) fn as_wanted(&self) -> WantedCall {
        WantedCall {
            call_id: self.call_id.clone(),
            name: self.provider_name.clone(),
            input: self.input.clone(),
            seal: self.provider_signature.clone(),
        }
    }

    /// The subject of a decision for the rest of the session. A decision about a tool does not cover other paths.
    pub(super) fn decision_subject(&self) -> DecisionSubject {
        (self.tool.clone(), self.guarded_paths.clone())
    }

    /// Why the call needs approval besides its effect: the paths that it uses, as text.
    pub(crate) fn reason(&self) -> Option<String> {
        let place = |place: &GuardedPath| format!("{} {}", place.path.display(), place.why.words());
        let places: Vec<_> = self.guarded_paths.iter().map(place).collect();
        (!places.is_empty()).then(|| places.join("; "))
    }
}

/// Whether a call may run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The call may run.
    Run,
    /// The call may run after approval.
    Ask,
    /// The call may not run, for this reason.
    Refuse(String),
}

/// A digest of an id, so that long ids take no memory. If two ids have the same digest, the second call only gets
/// another id.
fn digest_of(id: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    hasher.finish()
}

impl Session {
    /// Handles the tool calls of a round. The next round starts when all of them have ended.
    pub(super) fn take_calls(&mut self, mut turn: Box<Turn>, mut calls: Vec<Wanted>, context: &mut StepContext<'_>) {
        self.make_ids_unique(&mut calls, context);
        let text = turn.end_segment();
        turn.remember(HistoryItem::Assistant { text, calls: calls.iter().map(Wanted::as_wanted).collect() });
        calls.reverse();
        turn.calls = calls;
        turn.executed.clear();
        self.next_call(turn, context);
    }

    /// Replaces the id of a call if an earlier call of this session had the same id. A model chooses ids, and an
    /// approval identifies the call only by its id.
    fn make_ids_unique(&mut self, calls: &mut [Wanted], context: &mut StepContext<'_>) {
        for call in calls {
            while !self.call_ids.insert(digest_of(&call.call_id)) {
                call.call_id = (context.new_id)();
            }
        }
    }

    /// Continues with the next call, or with the next request. The driver decides each call when it is the next
    /// one, because the policy may have changed since the request.
    pub(super) fn next_call(&mut self, mut turn: Box<Turn>, context: &mut StepContext<'_>) {
        let bound = turn.reached();
        let call = turn.calls.pop();
        if call.is_none() {
            self.emit_results(&mut turn, context);
        }
        match (bound, call) {
            (Some(bound), _) => self.end_at_bound(turn, bound, context),
            (None, None) => self.next_round(turn, context),
            (None, Some(call)) => {
                context.request_job(Job::Decide(call));
                self.wait(turn, Awaits::Decision);
            }
        }
    }

    /// The driver has decided the next call.
    pub(crate) fn call_decided(&mut self, call: Wanted, context: &mut StepContext<'_>) {
        let Some(turn) = self.turn_that(|awaits| matches!(awaits, Awaits::Decision)) else { return };
        if turn.stop.is_some() {
            return self.finish_interrupted(turn, context);
        }
        let verdict = match self.session_decisions.get(&call.decision_subject()) {
            Some(true) if call.verdict == Verdict::Ask => Verdict::Run,
            Some(false) if call.verdict == Verdict::Ask => Verdict::Refuse(super::approval::denied(call.name())),
            _ => call.verdict.clone(),
        };
        match verdict {
            Verdict::Run => self.start_call(turn, call, context),
            Verdict::Refuse(why) => self.refuse_call(turn, &call, why, context),
            Verdict::Ask => {
                let requested = ApprovalRequested {
                    session_id: &self.id,
                    turn_id: &turn.id,
                    call_id: &call.call_id,
                    tool: call.name(),
                    effect: call.effect,
                    input: &call.input,
                    reason: call.reason(),
                };
                context.emit("session.approval.requested", &requested);
                self.wait(turn, Awaits::Approval(call));
            }
        }
    }

    pub(super) fn start_call(&mut self, turn: Box<Turn>, call: Wanted, context: &mut StepContext<'_>) {
        self.emit_started(&turn, &call, context);
        context.request_job(Job::Run(call.clone()));
        self.wait(turn, Awaits::Tool(call));
    }

    /// Completes a call that may not run. The model gets the reason and can react to it.
    pub(super) fn refuse_call(
        &mut self,
        mut turn: Box<Turn>,
        call: &Wanted,
        why: String,
        context: &mut StepContext<'_>,
    ) {
        self.emit_started(&turn, call, context);
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Refused<'a> {
            call_id: &'a str,
            tool: &'a str,
            status: &'a str,
        }
        let status = if call.is_unknown() { "not_found" } else { "denied" };
        let output = wire::to_raw(&Refused { call_id: &call.call_id, tool: call.name(), status });
        let result = RunResult { ok: false, output, error: Some(why) };
        self.emit_completed(&mut turn, call, result, context);
        self.next_call(turn, context);
    }

    /// A tool has ended.
    pub(crate) fn tool_ended(&mut self, result: RunResult, context: &mut StepContext<'_>) {
        let Some(mut turn) = self.turn_that(|awaits| matches!(awaits, Awaits::Tool(_))) else { return };
        // The next state is set below.
        let Awaits::Tool(call) = std::mem::replace(&mut turn.awaits, Awaits::Round) else { return };
        self.emit_completed(&mut turn, &call, result, context);
        if turn.stop.is_none() {
            return self.next_call(turn, context);
        }
        if turn.calls.is_empty() {
            self.emit_results(&mut turn, context);
        }
        self.finish_interrupted(turn, context);
    }

    fn emit_started(&self, turn: &Turn, call: &Wanted, context: &mut StepContext<'_>) {
        let started = CallStarted {
            tool_round: turn.round.number,
            call: StartedCall {
                name: call.name(),
                input: &call.input,
                provider_tool_name: &call.provider_name,
                call_id: &call.call_id,
            },
        };
        self.emit_in_turn(turn, "session.tool.call.started", "tool_call_started", &started, context);
        // `json!` panics on raw JSON that it cannot parse: nested too deeply, or with a number that is too large.
        #[derive(Serialize)]
        struct CommandRun<'a> {
            call_id: &'a str,
            input: &'a RawValue,
            tool: &'a str,
        }
        let payload = CommandRun { call_id: &call.call_id, input: &call.input, tool: call.name() };
        self.journal(context, turn, "command_run", &payload);
    }

    fn emit_completed(&self, turn: &mut Turn, call: &Wanted, result: RunResult, context: &mut StepContext<'_>) {
        let RunResult { ok, output, error } = bounded(result);
        turn.remember(HistoryItem::Result {
            call_id: call.call_id.clone(),
            name: call.provider_name.clone(),
            output: output.clone(),
            error: error.clone(),
        });
        let executed = Executed { name: call.name().to_owned(), ok, input: call.input.clone(), result: output, error };
        let ended = CallsEnded { tool_round: turn.round.number, executed: &executed };
        self.emit_in_turn(turn, "session.tool.call.completed", "tool_call_completed", &ended, context);
        turn.executed.push(executed);
    }

    fn emit_results(&self, turn: &mut Turn, context: &mut StepContext<'_>) {
        #[derive(Serialize)]
        struct ToolResult<'a> {
            ok: bool,
            result: &'a RawValue,
            tool: &'a str,
        }
        let executed = std::mem::take(&mut turn.executed);
        let ended = CallsEnded { tool_round: turn.round.number, executed: &executed };
        self.emit_in_turn(turn, "session.tool.results", "tool_results", &ended, context);
        for call in &executed {
            let payload = ToolResult { ok: call.ok, result: &call.result, tool: &call.name };
            self.journal(context, turn, "tool_result", &payload);
            if !call.ok {
                let message = call.error.as_deref().unwrap_or("the tool reported no reason");
                self.journal(context, turn, "error_observed", &json!({"tool": call.name, "message": message}));
            }
        }
    }

    fn emit_in_turn(
        &self,
        turn: &Turn,
        kind: &'static str,
        stage: &str,
        data: &impl Serialize,
        context: &mut StepContext<'_>,
    ) {
        context.emit(kind, &InTurn { session_id: &self.id, turn_id: &turn.id, data });
        self.debug(context, &turn.id, stage, data);
    }
}
