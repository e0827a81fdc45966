//! All tools that a conversation has: those of the workbench and those of the hub.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use gladhand_hub::policy::{Invisible, refusal};
use gladhand_hub::{Asking, Caller};
use gladhand_models::{ToolOffer, WantedCall};
use gladhand_operations::{
    Call, CallId, Failure, FailureKind, Notice, Operation, Reply, Terms, Tool, ToolCall, ToolResult,
};
use gladhand_wire::{RawValue, json};
use gladhand_workbench::{Effect, Ran, ToolDescription};

use super::policy::{Rule, word};
use super::runner::Workplace;
use super::{Asker, Core};
use crate::session::approval::nobody;
use crate::session::{ToolIdentity, ToolTotals, Verdict, Wanted};
use crate::text;

/// The longest name that every provider takes.
const LONGEST_NAME: usize = 64;

/// How long a turn waits for the tools of upstreams that are still starting.
const SETTLING: Duration = Duration::from_secs(10);

/// The tools of a turn.
#[derive(Debug)]
pub(super) struct Toolset {
    /// Sorted by name.
    tools: Vec<Offered>,
    /// As models are told of them.
    pub(super) offers: Arc<[ToolOffer]>,
    /// The places of the tools, by the names that models use. There is no other way from a name to a tool.
    by_offer: HashMap<String, usize>,
    /// The tools of the workbench at that time, by name and edition.
    workbench: Vec<(String, u64)>,
}

/// A tool of a turn.
#[derive(Debug)]
struct Offered {
    identity: ToolIdentity,
    description: ToolDescription,
}

impl Offered {
    fn of_workbench(description: ToolDescription) -> Self {
        let identity = ToolIdentity::Workbench { name: description.name.clone(), edition: description.edition };
        Self { identity, description }
    }

    /// Annotations of an upstream are only claims. A tool of the hub counts as one that runs programs, unless a provider of
    /// this process vouches for it.
    fn of_hub(tool: &Tool) -> Self {
        let description = ToolDescription {
            name: tool.name.clone(),
            description: tool.description.clone(),
            input_schema: Some(tool.input_schema.clone()),
            effect: if tool.vouched_read_only { Effect::Reads } else { Effect::Runs },
            edition: 0,
            is_made_by_model: false,
        };
        Self { identity: ToolIdentity::Hub { name: tool.name.clone() }, description }
    }
}

impl Toolset {
    /// The tools of the workbench and of the hub. Of two tools of one name that of the workbench counts, unless a model made it.
    pub(super) fn of(workbench: Vec<ToolDescription>, hub: &[Tool]) -> Self {
        let known = workbench.iter().map(|tool| (tool.name.clone(), tool.edition)).collect();
        let of_hub: HashSet<&str> = hub.iter().map(|tool| tool.name.as_str()).collect();
        let stays = |tool: &ToolDescription| !(tool.is_made_by_model && of_hub.contains(tool.name.as_str()));
        let mut tools: Vec<_> = workbench.into_iter().filter(stays).map(Offered::of_workbench).collect();
        let own: HashSet<_> = tools.iter().map(|tool| tool.description.name.clone()).collect();
        tools.extend(hub.iter().filter(|tool| !own.contains(&tool.name)).map(Offered::of_hub));
        tools.sort_by(|one, other| text::collate(&one.description.name, &other.description.name));
        let (mut offers, mut by_offer) = (Vec::new(), HashMap::new());
        for (at, Offered { description: tool, .. }) in tools.iter().enumerate() {
            let name = safe_name(&tool.name, |name| by_offer.contains_key(name));
            by_offer.insert(name.clone(), at);
            let schema = tool.input_schema.clone().unwrap_or_else(|| json::raw(ANYTHING.to_owned()));
            offers.push(ToolOffer { name, description: tool.description.clone(), schema });
        }
        Self { tools, offers: offers.into(), by_offer, workbench: known }
    }

    /// The one tool that a name of a model means, if it means any.
    fn resolve(&self, name: &str) -> Option<&Offered> {
        self.by_offer.get(name).map(|at| &self.tools[*at])
    }

    /// Whether the workbench still has the same tools.
    pub(super) fn is_current(&self, workbench: &[ToolDescription]) -> bool {
        let now = workbench.iter().map(|tool| (&tool.name, tool.edition));
        now.eq(self.workbench.iter().map(|(name, edition)| (name, *edition)))
    }
}

impl Core {
    /// All tools that are known by now.
    pub(super) fn known_tools(&self) -> Toolset {
        let hub = self.hub.get().map(|hub| hub.tools()).unwrap_or_default();
        Toolset::of(self.bench.tools(), &hub)
    }

    /// All tools that a caller gets to see.
    pub(super) async fn toolset(&self, asker: &Asker) -> Toolset {
        let hub = self.hub_tools(asker).await;
        Toolset::of(self.bench.tools(), &hub)
    }

    /// Keeps in mind how much there is to say of the tools.
    pub(super) fn weigh_tools(&self, toolset: &Toolset) {
        let units = |Offered { description: tool, .. }: &Offered| {
            let schema = tool.input_schema.as_ref().map_or(0, |schema| text::length(schema.get()));
            (text::length(&tool.name) + text::length(&tool.description) + schema) as u64
        };
        let totals = ToolTotals { count: toolset.tools.len() as u64, units: toolset.tools.iter().map(units).sum() };
        self.house().tools = totals;
    }

    /// A call that a model wants, resolved to one tool, and what is decided about that.
    pub(super) async fn wanted(&self, toolset: &Toolset, call: WantedCall, at: &Workplace) -> Wanted {
        let found = toolset.resolve(&call.name);
        let tool = found.map_or_else(|| ToolIdentity::Unknown { name: call.name.clone() }, |it| it.identity.clone());
        let effect = found.map_or(Effect::Reads, |found| found.description.effect);
        let mut wanted = Wanted {
            tool,
            effect: word(effect),
            provider_name: call.name,
            call_id: call.call_id,
            input: call.input,
            seal: call.seal,
            reach: Vec::new(),
            verdict: Verdict::Run,
        };
        if let Some(run) = at.run(&wanted) {
            let reach = self.bench.reach(&run).await;
            wanted.reach = reach;
        }
        wanted.verdict = match found {
            Some(found) => self.verdict(&found.description, &wanted),
            None => Verdict::Refuse(format!("unknown tool: {}", wanted.name())),
        };
        wanted
    }

    fn verdict(&self, tool: &ToolDescription, wanted: &Wanted) -> Verdict {
        let policy = self.settings.policy.now();
        let rule = policy.rule(tool);
        let rule = if wanted.reach.is_empty() { rule } else { rule.max(policy.beyond_workspace()) };
        match rule {
            Rule::Allow => Verdict::Run,
            Rule::Deny => Verdict::Refuse(format!("{} was not run: it is forbidden here", tool.name)),
            Rule::Ask if self.followers.can_approve() => Verdict::Ask,
            Rule::Ask => Verdict::Refuse(nobody(wanted)),
        }
    }

    /// Calls a tool of the hub.
    pub(super) async fn call_hub(&self, call: &Wanted, asker: &Asker, at: &Workplace) -> Ran {
        let ToolIdentity::Hub { name } = &call.tool else { return failed(call, "error", "it is no tool of the hub") };
        let Some(hub) = self.hub.get() else { return failed(call, "error", "there is no hub") };
        let arguments = std::borrow::Cow::Borrowed(&*call.input);
        let operation = Operation::CallTool(ToolCall { name: name.into(), arguments });
        let terms = Terms { folder: Some(Arc::from(&*at.folder)), ..asker.terms.clone() };
        let inside: Arc<dyn Caller> = Arc::new(Inside);
        let answer = hub.answer(Call { id: CallId(0), operation, terms }, &asker.agreement, &inside);
        let outcome = tokio::select! {
            biased;
            () = at.cancel.cancelled() => return failed(call, "aborted", "the call was aborted"),
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

    /// The tools that the hub shows to a caller. Waits up to [`SETTLING`] for upstreams that are still starting.
    async fn hub_tools(&self, asker: &Asker) -> Arc<[Tool]> {
        let Some(hub) = self.hub.get() else { return Arc::default() };
        let inside: Arc<dyn Caller> = Arc::new(Inside);
        let call = Call { id: CallId(0), operation: Operation::ListTools, terms: asker.terms.clone() };
        let listed = hub.answer(call, &asker.agreement, &inside).outcome();
        match tokio::time::timeout(SETTLING, listed).await {
            Ok(Ok(Reply::Tools(tools))) => tools,
            Ok(_) => Arc::default(),
            // Tools that are missing come with a later turn. The hub applies its policy to each call anyway.
            Err(_) => hub.tools(),
        }
    }
}

impl Toolset {
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
        for Offered { description: ToolDescription { name, description, input_schema, .. }, .. } in &self.tools {
            tools.push(Listed { name, description, input_schema: input_schema.as_deref() });
        }
        json::to_raw(&All { tools })
    }
}

/// The schema of a tool that has none.
const ANYTHING: &str = r#"{"type":"object","properties":{}}"#;

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
    let output = serde_json::json!({"callId": call.call_id, "tool": call.name(), "status": status});
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
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::super::policy::Policy;
    use super::*;

    /// Names that are near each other once they are made safe.
    fn name() -> impl Strategy<Value = String> {
        prop_oneof![
            "[aB](__|_|\\.|:|-)[aB]((__|_|\\.)2)?",
            "_?a_?(_2|_3)?",
            Just("c__write_everything".to_owned()),
            Just("my.tool".to_owned()),
            "x{62,66}(_2)?",
        ]
    }

    /// Ways in which a model may write the name of a tool.
    fn spellings(name: &str) -> Vec<String> {
        let mut all = vec![
            name.to_owned(),
            safe_name(name, |_| false),
            name.replace("__", "_"),
            name.replace('_', "__"),
            name.replace(['.', ':', '-'], "_"),
            name.replace('_', "."),
            name.to_uppercase(),
            name.to_lowercase(),
            name.chars().take(LONGEST_NAME).collect(),
            format!(" {name}"),
            format!("{name} "),
            format!("functions.{name}"),
        ];
        let numbered: Vec<_> = all.iter().flat_map(|name| ["_2", "_3"].map(|end| format!("{name}{end}"))).collect();
        all.extend(numbered);
        all
    }

    fn rule() -> impl Strategy<Value = Rule> {
        prop_oneof![Just(Rule::Allow), Just(Rule::Ask), Just(Rule::Deny)]
    }

    fn effect() -> impl Strategy<Value = Effect> {
        prop_oneof![Just(Effect::Reads), Just(Effect::Writes), Just(Effect::Runs), Just(Effect::Network)]
    }

    prop_compose! {
        fn policy()(
            approve_all in any::<bool>(),
            tools in prop::collection::hash_map(name(), rule(), 0..6),
            (reads, writes, runs, network) in (rule(), rule(), rule(), rule()),
            denied in prop::collection::hash_set(effect(), 0..2),
        ) -> Policy {
            Policy { approve_all, tools, reads, writes, runs, network, denied, ..Policy::default() }
        }
    }

    prop_compose! {
        fn workbench()(
            tools in prop::collection::hash_map(name(), (effect(), any::<bool>()), 0..6),
        ) -> Vec<ToolDescription> {
            let mut edition = 0;
            let describe = |(name, (effect, is_made_by_model))| {
                edition += 1;
                let description = String::new();
                ToolDescription { name, description, input_schema: None, effect, edition, is_made_by_model }
            };
            tools.into_iter().map(describe).collect()
        }
    }

    prop_compose! {
        fn hub()(tools in prop::collection::hash_map(name(), (any::<bool>(), any::<bool>()), 0..6)) -> Vec<Tool> {
            let lying = serde_json::json!({"readOnlyHint": true});
            let tool = |(name, (vouched_read_only, claims))| {
                let tool = Tool { vouched_read_only, ..Tool::plain(name, "") };
                if claims { tool.with("annotations", &lying) } else { tool }
            };
            tools.into_iter().map(tool).collect()
        }
    }

    proptest! {
        #[test]
        fn every_spelling_means_what_one_tool_means_or_nothing(
            workbench in workbench(), hub in hub(), policy in policy(),
        ) {
            let toolset = Toolset::of(workbench.clone(), &hub);
            // The rule of each tool, found without any name that a model uses.
            let mut decided: HashMap<ToolIdentity, Rule> = HashMap::new();
            for tool in &workbench {
                let identity = ToolIdentity::Workbench { name: tool.name.clone(), edition: tool.edition };
                decided.insert(identity, policy.rule(tool));
            }
            for tool in &hub {
                let identity = ToolIdentity::Hub { name: tool.name.clone() };
                decided.insert(identity, policy.rule(&Offered::of_hub(tool).description));
                if !tool.vouched_read_only {
                    prop_assert_eq!(Offered::of_hub(tool).description.effect, Effect::Runs, "claims count for nothing");
                }
            }
            let names = workbench.iter().map(|tool| &tool.name).chain(hub.iter().map(|tool| &tool.name));
            let offered: HashSet<_> = toolset.offers.iter().map(|offer| offer.name.clone()).collect();
            prop_assert_eq!(offered.len(), toolset.tools.len(), "each tool has a name of its own");
            for spelling in names.flat_map(|name| spellings(name)) {
                let found = toolset.resolve(&spelling);
                prop_assert_eq!(found.is_some(), offered.contains(&spelling), "{} was not offered", spelling);
                let Some(found) = found else { continue };
                prop_assert_eq!(Some(&policy.rule(&found.description)), decided.get(&found.identity), "{}", spelling);
            }
            let identities: HashSet<_> = offered.iter().filter_map(|name| toolset.resolve(name)).map(|it| &it.identity).collect();
            prop_assert_eq!(identities.len(), offered.len(), "no tool has two names");
        }
    }

    #[test]
    fn names_are_made_safe_for_every_provider() {
        let safe = |name| safe_name(name, |_| false);
        assert_eq!([safe("a.b::c"), safe("_x_"), safe("9 lives"), safe("ß")], ["a_b_c", "x", "tool_9_lives", "tool_"]);
        assert_eq!(safe(&"x".repeat(80)).len(), 64);
        assert_eq!(safe_name("a.b", |name| name == "a_b" || name == "a_b_2"), "a_b_3");
    }
}
