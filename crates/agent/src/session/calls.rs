//! Tools that a model wants called in a turn, one after the other.

use std::hash::{DefaultHasher, Hash, Hasher};

use gladhand_agent_tools::{GuardedPath, Ran};
use gladhand_core::wire::{RawValue, json as wire};
use gladhand_models::{Said, WantedCall};
use serde::Serialize;
use serde_json::json;

use super::bounds::bounded;
use super::scene::{Job, Scene};
use super::state::Session;
use super::turn::{Awaits, Turn};
use crate::payloads::{ApprovalRequested, CallStarted, CallsEnded, Executed, InTurn, StartedCall};

/// Which tool a call means. It is resolved once, from the name that the model used; policy, approval and execution use the
/// identity and never that name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum ToolIdentity {
    /// A tool of the workbench, by its own name and its edition.
    Workbench { name: String, edition: u64 },
    /// A tool of the hub: the name under which the caller is shown it, the provider that has it, and the name that the
    /// provider uses.
    Hub { name: String, upstream: String, own: String },
    /// There is no tool of this name.
    Unknown { name: String },
}

impl ToolIdentity {
    /// The tool's own name.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Workbench { name, .. } | Self::Hub { name, .. } | Self::Unknown { name } => name,
        }
    }
}

/// The subject of a decision for the rest of a session: a tool, and the places that it uses beyond the workspace.
pub(super) type Decided = (ToolIdentity, Vec<GuardedPath>);

/// A call that a model wants.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    /// The tool that it means.
    pub(crate) tool: ToolIdentity,
    /// The name that the model used.
    pub(crate) provider_name: String,
    pub(crate) call_id: String,
    /// A JSON object; empty if the model nested it too deep.
    pub(crate) input: Box<RawValue>,
    /// Whether the model nested the arguments too deep.
    pub(crate) is_too_deep: bool,
    /// What the provider wants back unread.
    pub(crate) seal: Option<Box<RawValue>>,
    /// What it may do to the world, in one word.
    pub(crate) effect: &'static str,
    /// The places that it uses and that need approval.
    pub(crate) reach: Vec<GuardedPath>,
    /// The decision, made just before the call is to run. Until then the call is refused.
    pub(crate) verdict: Verdict,
}

impl Wanted {
    /// The tool's own name.
    pub(crate) fn name(&self) -> &str {
        self.tool.name()
    }

    /// Whether it means no tool that there was when it was resolved.
    pub(crate) fn is_unknown(&self) -> bool {
        matches!(self.tool, ToolIdentity::Unknown { .. })
    }

    /// As the model wanted it.
    pub(crate) fn as_wanted(&self) -> WantedCall {
        WantedCall {
            call_id: self.call_id.clone(),
            name: self.provider_name.clone(),
            input: self.input.clone(),
            seal: self.seal.clone(),
        }
    }

    /// The subject of a decision for the rest of the session. A decision about a tool does not cover other places.
    pub(super) fn decided(&self) -> Decided {
        (self.tool.clone(), self.reach.clone())
    }

    /// Why it needs approval beyond its effect: the places that it uses, in words.
    pub(crate) fn reason(&self) -> Option<String> {
        let place = |place: &GuardedPath| format!("{} {}", place.path.display(), place.why.words());
        let places: Vec<_> = self.reach.iter().map(place).collect();
        (!places.is_empty()).then(|| places.join("; "))
    }
}

/// Whether a call may run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It may.
    Run,
    /// If somebody says so.
    Ask,
    /// It may not, for this reason.
    Refuse(String),
}

/// A number for an id, so that long ids take no memory. Two ids with one number only cost the second call its id.
fn digest_of(id: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    hasher.finish()
}

impl Session {
    /// The model wants these calls made before it goes on.
    pub(super) fn take_calls(&mut self, mut turn: Box<Turn>, mut calls: Vec<Wanted>, scene: &mut Scene<'_>) {
        self.tell_apart(&mut calls, scene);
        let text = turn.end_segment();
        turn.remember(Said::Assistant { text, calls: calls.iter().map(Wanted::as_wanted).collect() });
        calls.reverse();
        turn.calls = calls;
        turn.executed.clear();
        self.next_call(turn, scene);
    }

    /// Gives a call an id of our own if a call of this session had its id before. A model chooses ids, and an approval names
    /// the call by its id alone.
    fn tell_apart(&mut self, calls: &mut [Wanted], scene: &mut Scene<'_>) {
        for call in calls {
            while !self.call_ids.insert(digest_of(&call.call_id)) {
                call.call_id = (scene.new_id)();
            }
        }
    }

    /// The next call, or the next request. The driver decides about each call when it is the next one, because the policy
    /// may have changed since the model was asked.
    pub(super) fn next_call(&mut self, mut turn: Box<Turn>, scene: &mut Scene<'_>) {
        let bound = turn.reached();
        let call = turn.calls.pop();
        if call.is_none() {
            self.tell_results(&mut turn, scene);
        }
        match (bound, call) {
            (Some(bound), _) => self.end_at_bound(turn, bound, scene),
            (None, None) => self.next_round(turn, scene),
            (None, Some(call)) => {
                scene.wants(Job::Decide(call));
                self.wait(turn, Awaits::Decision);
            }
        }
    }

    /// The next call has a verdict.
    pub(crate) fn decided(&mut self, call: Wanted, scene: &mut Scene<'_>) {
        let Some(turn) = self.turn_that(|awaits| matches!(awaits, Awaits::Decision)) else { return };
        if turn.stop.is_some() {
            return self.finish_interrupted(turn, scene);
        }
        let verdict = match self.decided.get(&call.decided()) {
            Some(true) if call.verdict == Verdict::Ask => Verdict::Run,
            Some(false) if call.verdict == Verdict::Ask => Verdict::Refuse(super::approval::denied(call.name())),
            _ => call.verdict.clone(),
        };
        match verdict {
            Verdict::Run => self.start_call(turn, call, scene),
            Verdict::Refuse(why) => self.refuse_call(turn, &call, why, scene),
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
                scene.tell("session.approval.requested", &requested);
                self.wait(turn, Awaits::Approval(call));
            }
        }
    }

    pub(super) fn start_call(&mut self, turn: Box<Turn>, call: Wanted, scene: &mut Scene<'_>) {
        self.tell_started(&turn, &call, scene);
        scene.wants(Job::Run(call.clone()));
        self.wait(turn, Awaits::Tool(call));
    }

    /// A call that may not run has an outcome too: the model can do something about it.
    pub(super) fn refuse_call(&mut self, mut turn: Box<Turn>, call: &Wanted, why: String, scene: &mut Scene<'_>) {
        self.tell_started(&turn, call, scene);
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Refused<'a> {
            call_id: &'a str,
            tool: &'a str,
            status: &'a str,
        }
        let status = if call.is_unknown() { "not_found" } else { "denied" };
        let output = wire::to_raw(&Refused { call_id: &call.call_id, tool: call.name(), status });
        let ran = Ran { ok: false, output, error: Some(why) };
        self.tell_completed(&mut turn, call, ran, scene);
        self.next_call(turn, scene);
    }

    /// A tool has ended.
    pub(crate) fn ran(&mut self, ran: Ran, scene: &mut Scene<'_>) {
        let Some(mut turn) = self.turn_that(|awaits| matches!(awaits, Awaits::Tool(_))) else { return };
        // What is awaited next is decided below.
        let Awaits::Tool(call) = std::mem::replace(&mut turn.awaits, Awaits::Round) else { return };
        self.tell_completed(&mut turn, &call, ran, scene);
        if turn.stop.is_none() {
            return self.next_call(turn, scene);
        }
        if turn.calls.is_empty() {
            self.tell_results(&mut turn, scene);
        }
        self.finish_interrupted(turn, scene);
    }

    fn tell_started(&self, turn: &Turn, call: &Wanted, scene: &mut Scene<'_>) {
        let started = CallStarted {
            tool_round: turn.round.number,
            call: StartedCall {
                name: call.name(),
                input: &call.input,
                provider_tool_name: &call.provider_name,
                call_id: &call.call_id,
            },
        };
        self.tell_in_turn(turn, "session.tool.call.started", "tool_call_started", &started, scene);
        // `json!` panics on raw JSON that it cannot read: nested too deep, or with a number that is too large.
        #[derive(Serialize)]
        struct CommandRun<'a> {
            call_id: &'a str,
            input: &'a RawValue,
            tool: &'a str,
        }
        let payload = CommandRun { call_id: &call.call_id, input: &call.input, tool: call.name() };
        self.journal(scene, turn, "command_run", &payload);
    }

    fn tell_completed(&self, turn: &mut Turn, call: &Wanted, ran: Ran, scene: &mut Scene<'_>) {
        let Ran { ok, output, error } = bounded(ran);
        turn.remember(Said::Result {
            call_id: call.call_id.clone(),
            name: call.provider_name.clone(),
            output: output.clone(),
            error: error.clone(),
        });
        let executed = Executed { name: call.name().to_owned(), ok, input: call.input.clone(), result: output, error };
        let ended = CallsEnded { tool_round: turn.round.number, executed: &executed };
        self.tell_in_turn(turn, "session.tool.call.completed", "tool_call_completed", &ended, scene);
        turn.executed.push(executed);
    }

    fn tell_results(&self, turn: &mut Turn, scene: &mut Scene<'_>) {
        #[derive(Serialize)]
        struct ToolResult<'a> {
            ok: bool,
            result: &'a RawValue,
            tool: &'a str,
        }
        let executed = std::mem::take(&mut turn.executed);
        let ended = CallsEnded { tool_round: turn.round.number, executed: &executed };
        self.tell_in_turn(turn, "session.tool.results", "tool_results", &ended, scene);
        for call in &executed {
            let payload = ToolResult { ok: call.ok, result: &call.result, tool: &call.name };
            self.journal(scene, turn, "tool_result", &payload);
            if !call.ok {
                let message = call.error.as_deref().unwrap_or("the tool reported no reason");
                self.journal(scene, turn, "error_observed", &json!({"tool": call.name, "message": message}));
            }
        }
    }

    fn tell_in_turn(&self, turn: &Turn, kind: &'static str, stage: &str, data: &impl Serialize, scene: &mut Scene<'_>) {
        scene.tell(kind, &InTurn { session_id: &self.id, turn_id: &turn.id, data });
        self.debug(scene, &turn.id, stage, data);
    }
}
