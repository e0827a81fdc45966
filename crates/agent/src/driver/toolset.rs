//! All tools that a conversation has: those of the workbench and those of the hub.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use gladhand_hub::policy::{Invisible, refusal};
use gladhand_hub::{Answer, Asking, Caller};
use gladhand_models::{ToolOffer, WantedCall};
use gladhand_operations::{
    Call, CallId, Failure, FailureKind, Notice, Operation, Reply, Terms, Tool, ToolCall, ToolResult,
};
use gladhand_wire::{Members, RawValue, json};
use gladhand_workbench::{Effect, Ran, ToolDescription};
use tokio_util::sync::CancellationToken;

use super::policy::{Rule, word};
use super::{Asker, Core};
use crate::session::approval::nobody;
use crate::session::{ToolTotals, Verdict, Wanted};
use crate::text;

/// The longest name that every provider takes.
const LONGEST_NAME: usize = 64;

/// The tools of a turn.
#[derive(Debug)]
pub(super) struct Toolset {
    /// Sorted by name.
    tools: Vec<ToolDescription>,
    /// Those that the hub has.
    of_hub: HashSet<String>,
    /// As models are told of them.
    pub(super) offers: Arc<[ToolOffer]>,
    /// The places of the tools, by the names that models use.
    by_offer: HashMap<String, usize>,
}

impl Core {
    /// All tools as they are now, for somebody.
    pub(super) fn toolset(&self, asker: Option<&Asker>) -> Toolset {
        let mut tools = self.bench.tools();
        let own: HashSet<_> = tools.iter().map(|tool| tool.name.clone()).collect();
        let others = self.hub_tools(asker);
        let others: Vec<_> = others.iter().filter(|tool| !own.contains(&tool.name)).map(described).collect();
        let of_hub = others.iter().map(|tool| tool.name.clone()).collect();
        tools.extend(others);
        tools.sort_by(|one, other| text::collate(&one.name, &other.name));
        let (mut offers, mut by_offer) = (Vec::new(), HashMap::new());
        for (at, tool) in tools.iter().enumerate() {
            let name = safe_name(&tool.name, |name| by_offer.contains_key(name));
            by_offer.insert(name.clone(), at);
            let schema = tool.input_schema.clone().unwrap_or_else(|| json::raw(ANYTHING.to_owned()));
            offers.push(ToolOffer { name, description: tool.description.clone(), schema });
        }
        Toolset { tools, of_hub, offers: offers.into(), by_offer }
    }

    /// Keeps in mind how much there is to say of the tools.
    pub(super) fn weigh_tools(&self, toolset: &Toolset) {
        let units = |tool: &ToolDescription| {
            let schema = tool.input_schema.as_ref().map_or(0, |schema| text::length(schema.get()));
            (text::length(&tool.name) + text::length(&tool.description) + schema) as u64
        };
        let totals = ToolTotals { count: toolset.tools.len() as u64, units: toolset.tools.iter().map(units).sum() };
        self.house().tools = totals;
    }

    /// A call that a model wants, as this house knows it.
    pub(super) fn wanted(&self, toolset: &Toolset, call: WantedCall) -> Wanted {
        let tool = toolset.by_offer.get(&call.name).map(|at| &toolset.tools[*at]);
        // The workbench answers for tools that nobody has: it says so.
        let (name, effect) = tool.map_or((&call.name, Effect::Reads), |tool| (&tool.name, tool.effect));
        let verdict = match self.settings.policy.rule(name, effect) {
            _ if tool.is_none() => Verdict::Run,
            Rule::Allow => Verdict::Run,
            Rule::Deny => Verdict::Refuse(format!("{name} was not run: it is forbidden here")),
            Rule::Ask if self.followers.can_approve() => Verdict::Ask,
            Rule::Ask => Verdict::Refuse(nobody(name)),
        };
        Wanted {
            name: name.clone(),
            effect: word(effect),
            provider_name: call.name,
            call_id: call.call_id,
            input: call.input,
            seal: call.seal,
            verdict,
        }
    }

    /// Calls a tool of the hub.
    pub(super) async fn call_hub(
        &self,
        call: &Wanted,
        asker: &Asker,
        folder: &Path,
        cancel: &CancellationToken,
    ) -> Ran {
        let Some(hub) = self.hub.get() else { return failed(call, "error", "there is no hub") };
        let arguments = std::borrow::Cow::Borrowed(&*call.input);
        let operation = Operation::CallTool(ToolCall { name: (&*call.name).into(), arguments });
        let folder = Some(Arc::from(folder));
        let terms = Terms { principal: asker.principal.clone(), folder, ..Terms::default() };
        let inside: Arc<dyn Caller> = Arc::new(Inside);
        let answer = hub.answer(Call { id: CallId(0), operation, terms }, &asker.agreement, &inside);
        let outcome = tokio::select! {
            biased;
            () = cancel.cancelled() => return failed(call, "aborted", "the call was aborted"),
            outcome = answer.outcome() => outcome,
        };
        match outcome {
            Ok(Reply::Tool(result)) => ran(&result),
            Ok(_) => failed(call, "error", "the tool answered something else than a result"),
            Err(failure) => failed(call, "error", &failure.message),
        }
    }

    /// Applies the mode for invisible text to the result of a workbench tool. The hub does so for its own tools.
    pub(super) fn screened(&self, call: &Wanted, ran: Ran) -> Ran {
        let invisible = self.invisible();
        let said = invisible.json(ran.output).and_then(|output| {
            let error = ran.error.map(|error| invisible.text(error)).transpose()?;
            Ok(Ran { ok: ran.ok, output, error })
        });
        said.unwrap_or_else(|found| failed(call, "error", &refusal("the result", &found)))
    }

    /// The mode for invisible text.
    pub(super) fn invisible(&self) -> Invisible {
        self.hub.get().map(|hub| hub.invisible()).unwrap_or_default()
    }

    /// What the hub shows to somebody, or all that it has.
    fn hub_tools(&self, asker: Option<&Asker>) -> Arc<[Tool]> {
        let Some(hub) = self.hub.get() else { return Arc::from([]) };
        let Some(asker) = asker else { return hub.tools() };
        let terms = Terms { principal: asker.principal.clone(), ..Terms::default() };
        let inside: Arc<dyn Caller> = Arc::new(Inside);
        let call = Call { id: CallId(0), operation: Operation::ListTools, terms };
        match hub.answer(call, &asker.agreement, &inside) {
            Answer::Now(Ok(Reply::Tools(tools))) => tools,
            Answer::Now(_) => Arc::from([]),
            // Somebody does not know yet what it has: those of it come with a later turn.
            Answer::Later(_) | Answer::TaskLater(_) | Answer::AsTask(_) => hub.tools(),
        }
    }
}

impl Toolset {
    /// Whether a tool is one of the hub's.
    pub(super) fn is_of_hub(&self, name: &str) -> bool {
        self.of_hub.contains(name)
    }

    /// As clients are told of them.
    pub(super) fn list(&self) -> Box<RawValue> {
        #[derive(serde::Serialize)]
        struct Listed<'a> {
            name: &'a str,
            description: &'a str,
            #[serde(skip_serializing_if = "Option::is_none")]
            input_schema: Option<&'a RawValue>,
        }
        #[derive(serde::Serialize)]
        struct All<'a> {
            tools: Vec<Listed<'a>>,
        }
        let mut tools = Vec::new();
        for ToolDescription { name, description, input_schema, .. } in &self.tools {
            tools.push(Listed { name, description, input_schema: input_schema.as_deref() });
        }
        json::to_raw(&All { tools })
    }
}

/// The schema of a tool that has none.
const ANYTHING: &str = r#"{"type":"object","properties":{}}"#;

fn described(tool: &Tool) -> ToolDescription {
    let annotations = tool.extra.iter().find(|(member, _)| member == "annotations");
    let hints = annotations.and_then(|(_, annotations)| Members::of(annotations));
    let reads = hints.is_some_and(|hints| hints.raw("readOnlyHint").is_some_and(|hint| hint.get() == "true"));
    ToolDescription {
        name: tool.name.clone(),
        description: tool.description.clone(),
        input_schema: Some(tool.input_schema.clone()),
        effect: if reads { Effect::Reads } else { Effect::Runs },
    }
}

/// A name that every provider takes and that no other tool has.
fn safe_name(name: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let mut safe = String::with_capacity(name.len());
    for character in name.chars() {
        let is_fine = character.is_ascii_alphanumeric() || character == '_' || character == '-';
        let character = if is_fine { character } else { '_' };
        if character != '_' || !safe.ends_with('_') {
            safe.push(character);
        }
    }
    let safe = safe.trim_matches('_');
    let mut safe = match safe.chars().next() {
        Some(first) if first.is_ascii_alphabetic() => safe.to_owned(),
        _ => format!("tool_{safe}"),
    };
    safe.truncate(LONGEST_NAME);
    let mut unique = safe.clone();
    let mut number = 2;
    while is_taken(&unique) {
        let end = format!("_{number}");
        unique = format!("{}{end}", &safe[..safe.len().min(LONGEST_NAME - end.len())]);
        number += 1;
    }
    unique
}

fn ran(result: &ToolResult) -> Ran {
    let text = result.joined_text();
    let only_text = result.content.iter().all(|content| matches!(content, gladhand_operations::Content::Text(_)));
    let output = match &result.structured {
        Some(structured) => structured.clone(),
        None if only_text => json::to_raw(&text),
        None => json::to_raw(&result.content.iter().map(|content| content.to_block()).collect::<Vec<_>>()),
    };
    Ran { ok: !result.failed, output, error: result.failed.then_some(text) }
}

/// A call that came to nothing.
pub(super) fn failed(call: &Wanted, status: &str, why: &str) -> Ran {
    let output = serde_json::json!({"callId": call.call_id, "tool": call.name, "status": status});
    Ran { ok: false, output: json::to_raw(&output), error: Some(why.to_owned()) }
}

/// Whoever calls a tool of the hub from in here. Nobody is behind it who could answer a question.
#[derive(Debug)]
struct Inside;

impl Caller for Inside {
    fn tell(&self, _: Notice) {}

    fn ask(&self, _: Option<CallId>, questions: Vec<Asking>) {
        for asking in questions {
            let nobody =
                Failure::new(FailureKind::Unanswered, "a tool that the agent calls cannot ask anybody anything");
            // Who does not wait for an answer any more need not have one.
            let _ = asking.answer.send(Err(nobody));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_made_safe_for_every_provider() {
        let safe = |name| safe_name(name, |_| false);
        assert_eq!([safe("a.b::c"), safe("_x_"), safe("9 lives"), safe("ß")], ["a_b_c", "x", "tool_9_lives", "tool_"]);
        assert_eq!(safe(&"x".repeat(80)).len(), 64);
        assert_eq!(safe_name("a.b", |name| name == "a_b" || name == "a_b_2"), "a_b_3");
    }
}
