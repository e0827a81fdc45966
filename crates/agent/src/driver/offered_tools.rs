//! The tools of a conversation: those of the agent and those of the hub.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use gladhand_agent_tools::{Effect, RunResult, ToolDescription};
use gladhand_core::Order as _;
use gladhand_core::operations::{
    Call, CallId, Failure, FailureKind, KnownName, Notice, Operation, Reply, Terms, Tool, ToolCall, ToolResult,
};
use gladhand_core::wire::{RawValue, json};
use gladhand_hub::policy::{Invisible, refusal};
use gladhand_hub::{Asking, Caller};
use gladhand_models::{ToolOffer, WantedCall};

use super::policy::{Rule, word};
use super::runner::ToolContext;
use super::{Core, Requester};
use crate::session::approval::no_approver;
use crate::session::{ToolIdentity, ToolTotals, Verdict, Wanted};
use crate::text;

/// The maximum length of a tool name that every provider accepts.
const MAX_NAME_BYTES: usize = 64;

/// The maximum length of the number suffix that makes a name unique.
const MAX_SUFFIX_BYTES: usize = 8;

/// The maximum nesting depth of arguments and results. JSON parsers commonly stop at 128, and events add a few
/// levels.
const MAX_DEPTH: usize = 100;

/// How long a turn waits for the tools of upstreams that are still starting.
const UPSTREAM_TIMEOUT: Duration = Duration::from_secs(10);

/// The tools of a turn.
#[derive(Debug)]
pub(super) struct OfferedTools {
    /// Sorted by name.
    tools: Vec<Offered>,
    /// The tools as described to models.
    pub(super) offers: Arc<[ToolOffer]>,
    /// The index of each tool by the name that models use. There is no other way from a name to a tool.
    by_offer: HashMap<String, usize>,
    /// The tools of the agent at that time, by name and edition.
    own_tools: Vec<(String, u64)>,
}

/// A tool of a turn.
#[derive(Debug)]
struct Offered {
    identity: ToolIdentity,
    description: ToolDescription,
    /// The names that policy rules can use for it.
    names: Vec<KnownName>,
    priority: NamePriority,
}

/// Which tool gets a name if several want it: the first of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum NamePriority {
    Agent,
    Hub,
    /// A model made it.
    Made,
    /// A tool of a project. It yields its name to all others.
    Yielding,
}

impl Offered {
    fn of_agent(description: ToolDescription) -> Self {
        let priority = if description.is_made_by_model { NamePriority::Made } else { NamePriority::Agent };
        let identity = ToolIdentity::Agent { name: description.name.clone(), edition: description.edition };
        let names = vec![KnownName { name: description.name.clone(), is_exclusive: true }];
        Self { identity, description, names, priority }
    }

    /// Annotations of an upstream are only claims. A tool of the hub counts as one that runs programs, unless a
    /// provider of this process vouches for it. `is_own` tells whether the agent has a tool of that name that
    /// was not made by a model.
    fn of_hub(tool: &Tool, is_own: impl Fn(&str) -> bool) -> Self {
        let description = ToolDescription {
            name: tool.name.clone(),
            description: tool.description.clone(),
            input_schema: Some(tool.input_schema.clone()),
            effect: if tool.vouched_read_only { Effect::Reads } else { Effect::Runs },
            edition: 0,
            is_made_by_model: false,
        };
        let mut names = tool.origin.as_ref().map(|origin| origin.names.clone()).unwrap_or_default();
        if !names.iter().any(|known| known.name == tool.name) {
            // Tools without an origin belong to the hub itself.
            names.push(KnownName { name: tool.name.clone(), is_exclusive: tool.origin.is_none() });
        }
        for known in &mut names {
            known.is_exclusive &= !is_own(&known.name);
        }
        let (upstream, own) = match &tool.origin {
            Some(origin) => (origin.upstream.clone(), origin.own.clone()),
            None => Default::default(),
        };
        let yields = tool.origin.as_ref().is_some_and(|origin| origin.yields);
        let priority = if yields { NamePriority::Yielding } else { NamePriority::Hub };
        Self { identity: ToolIdentity::Hub { name: tool.name.clone(), upstream, own }, description, names, priority }
    }
}

impl OfferedTools {
    /// The tools of the agent and the hub. If two have the same name, the one of the agent counts, unless a
    /// model made it.
    pub(super) fn of(own_tools: Vec<ToolDescription>, hub: &[Tool]) -> Self {
        let known = own_tools.iter().map(|tool| (tool.name.clone(), tool.edition)).collect();
        let of_hub: HashSet<&str> = hub.iter().map(|tool| tool.name.as_str()).collect();
        let stays = |tool: &ToolDescription| !(tool.is_made_by_model && of_hub.contains(tool.name.as_str()));
        let mut tools: Vec<_> = own_tools.into_iter().filter(stays).map(Offered::of_agent).collect();
        let own: HashSet<_> = tools.iter().map(|tool| tool.description.name.clone()).collect();
        // A rule that allows a name never applies to a tool that a model made.
        let meant = tools.iter().filter(|tool| !tool.description.is_made_by_model);
        let meant: HashSet<_> = meant.map(|tool| tool.description.name.clone()).collect();
        let of_hub = hub.iter().filter(|tool| !own.contains(&tool.name));
        tools.extend(of_hub.map(|tool| Offered::of_hub(tool, |name| meant.contains(name))));
        tools.order_by(|one, other| text::collate(&one.description.name, &other.description.name));
        let names = offered_names(&tools);
        let offer = |(Offered { description: tool, .. }, name): (&Offered, &String)| ToolOffer {
            name: name.clone(),
            description: tool.description.clone(),
            schema: tool.input_schema.clone().unwrap_or_else(|| json::raw(ANYTHING.to_owned())),
        };
        let offers = tools.iter().zip(&names).map(offer).collect();
        let by_offer = names.into_iter().enumerate().map(|(at, name)| (name, at)).collect();
        Self { tools, offers, by_offer, own_tools: known }
    }

    /// The tool that a model means by this name, if there is one.
    fn resolve(&self, name: &str) -> Option<&Offered> {
        self.by_offer.get(name).map(|at| &self.tools[*at])
    }

    /// The tool with this identity.
    fn find(&self, identity: &ToolIdentity) -> Option<&Offered> {
        self.tools.iter().find(|tool| tool.identity == *identity)
    }

    fn identity(&self, name: &str) -> ToolIdentity {
        let found = self.resolve(name).map(|found| found.identity.clone());
        found.unwrap_or_else(|| ToolIdentity::Unknown { name: name.to_owned() })
    }

    /// A call that a model requested, resolved to the tool that was offered to it. It is not decided yet.
    pub(super) fn requested(&self, call: WantedCall) -> Wanted {
        let is_too_deep = json::is_deeper_than(call.input.get().as_bytes(), MAX_DEPTH);
        Wanted {
            tool: self.identity(&call.name),
            effect: word(Effect::Reads),
            provider_name: call.name,
            call_id: call.call_id,
            input: if is_too_deep { json::raw("{}".to_owned()) } else { call.input },
            is_too_deep,
            provider_signature: call.seal,
            guarded_paths: Vec::new(),
            verdict: Verdict::Refuse(String::new()),
        }
    }

    /// Whether the agent still has the same tools.
    pub(super) fn is_current(&self, own_tools: &[ToolDescription]) -> bool {
        let now = own_tools.iter().map(|tool| (&tool.name, tool.edition));
        now.eq(self.own_tools.iter().map(|(name, edition)| (name, *edition)))
    }
}

impl Core {
    /// All tools that are known now.
    pub(super) fn known_tools(&self) -> OfferedTools {
        let hub = self.hub.get().map(|hub| hub.tools()).unwrap_or_default();
        OfferedTools::of(self.tool_provider.tools(), &hub)
    }

    /// All tools that a caller may see.
    pub(super) async fn offered_tools(&self, requester: &Requester) -> OfferedTools {
        let hub = self.hub_tools(requester).await;
        OfferedTools::of(self.tool_provider.tools(), &hub)
    }

    /// Stores the size of the tool descriptions, for token estimates.
    pub(super) fn update_tool_totals(&self, offered_tools: &OfferedTools) {
        let units = |Offered { description: tool, .. }: &Offered| {
            let schema = tool.input_schema.as_ref().map_or(0, |schema| text::length(schema.get()));
            (text::length(&tool.name) + text::length(&tool.description) + schema) as u64
        };
        let totals =
            ToolTotals { count: offered_tools.tools.len() as u64, units: offered_tools.tools.iter().map(units).sum() };
        self.shared().tools = totals;
    }

    /// Decides a call with the current policy. If the name was unknown when the model wrote the call, it is
    /// resolved again: another tool may have created the tool meanwhile.
    pub(super) async fn decide(&self, id: &str, mut call: Wanted) -> Wanted {
        let found = self.with_entry(id, |entry| Some((entry.offered_tools.clone()?, entry.tool_context())));
        let Some((offered_tools, tool_context)) = found else { return call };
        if call.is_unknown() {
            call.tool = offered_tools.identity(&call.provider_name);
        }
        let Some(tool) = offered_tools.find(&call.tool) else {
            call.verdict = Verdict::Refuse(format!("unknown tool: {}", call.name()));
            return call;
        };
        call.effect = word(tool.description.effect);
        if call.is_too_deep {
            call.verdict = Verdict::Refuse(too_deep(&call));
            return call;
        }
        if let Some(run) = tool_context.run(&call) {
            let guarded_paths = self.tool_provider.guarded_paths(&run).await;
            call.guarded_paths = guarded_paths;
        }
        call.verdict = match self.rule(tool, &call) {
            Rule::Allow => Verdict::Run,
            Rule::Deny => Verdict::Refuse(forbidden(&call)),
            Rule::Ask if self.followers.can_approve() => Verdict::Ask,
            Rule::Ask => Verdict::Refuse(no_approver(&call)),
        };
        call
    }

    /// Whether the current policy denies a call that was approved before.
    pub(super) fn is_forbidden(&self, offered_tools: &OfferedTools, call: &Wanted) -> bool {
        offered_tools.find(&call.tool).is_none_or(|tool| self.rule(tool, call) == Rule::Deny)
    }

    fn rule(&self, tool: &Offered, call: &Wanted) -> Rule {
        let policy = self.settings.policy.now();
        let rule = policy.rule(&tool.description, &tool.names);
        if call.guarded_paths.is_empty() { rule } else { rule.max(policy.beyond_workspace()) }
    }

    /// Calls a tool of the hub.
    pub(super) async fn call_hub(&self, call: &Wanted, requester: &Requester, at: &ToolContext) -> RunResult {
        let ToolIdentity::Hub { name, upstream, own } = &call.tool else {
            return failed(call, "error", "it is no tool of the hub");
        };
        let Some(hub) = self.hub.get() else { return failed(call, "error", "there is no hub") };
        let internal_caller: Arc<dyn Caller> = Arc::new(InternalCaller);
        let is_same = || match hub.origin(name, &requester.terms, &requester.agreement, &internal_caller) {
            Some(origin) => origin.upstream == *upstream && origin.own == *own,
            None => upstream.is_empty() && own.is_empty(),
        };
        if !is_same() {
            // An upstream that restarts may not have its list yet.
            self.hub_tools(requester).await;
            if !is_same() {
                return failed(call, "error", "the name belongs to another tool or to none by now");
            }
        }
        let arguments = std::borrow::Cow::Borrowed(&*call.input);
        let operation = Operation::CallTool(ToolCall { name: name.into(), arguments });
        let terms = Terms { folder: Some(Arc::from(&*at.folder)), ..requester.terms.clone() };
        let answer = hub.answer(Call { id: CallId(0), operation, terms }, &requester.agreement, &internal_caller);
        let outcome = tokio::select! {
            biased;
            () = at.cancel.cancelled() => return failed(call, "aborted", "the call was aborted"),
            outcome = answer.outcome() => outcome,
        };
        match outcome {
            Ok(Reply::Tool(result)) => run_result(&result),
            Ok(_) => failed(call, "error", "the tool answered something else than a result"),
            Err(failure) => failed(call, "error", &failure.message),
        }
    }

    /// Applies the mode for invisible text to the result of a tool of the agent. The hub does so for its own tools.
    pub(super) fn screened(&self, call: &Wanted, result: RunResult) -> RunResult {
        let invisible = self.invisible();
        let screened = invisible.json(result.output).and_then(|output| {
            let error = result.error.map(|error| invisible.text(error)).transpose()?;
            Ok(RunResult { ok: result.ok, output, error })
        });
        screened.unwrap_or_else(|found| failed(call, "error", &refusal("the result", &found)))
    }

    /// The mode for invisible text.
    pub(super) fn invisible(&self) -> Invisible {
        self.hub.get().map(|hub| hub.invisible()).unwrap_or_default()
    }

    /// The tools that the hub shows to a caller. Waits up to [`UPSTREAM_TIMEOUT`] for upstreams that are still starting.
    async fn hub_tools(&self, requester: &Requester) -> Arc<[Tool]> {
        let Some(hub) = self.hub.get() else { return Arc::default() };
        let internal_caller: Arc<dyn Caller> = Arc::new(InternalCaller);
        let call = Call { id: CallId(0), operation: Operation::ListTools, terms: requester.terms.clone() };
        let listed = hub.answer(call, &requester.agreement, &internal_caller).outcome();
        match tokio::time::timeout(UPSTREAM_TIMEOUT, listed).await {
            Ok(Ok(Reply::Tools(tools))) => tools,
            Ok(_) => Arc::default(),
            // Missing tools are added in a later turn. The hub applies its policy to each call anyway.
            Err(_) => hub.tools(),
        }
    }
}

impl OfferedTools {
    /// The tools as described to clients.
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

/// The schema for a tool that has none.
const ANYTHING: &str = r#"{"type":"object","properties":{}}"#;

/// The names under which models know the tools, in the order of the tools. Each name is accepted by every provider
/// and unique. If several tools want the same name, the tool with the highest standing gets it; among equals, one
/// that already has this name.
fn offered_names(tools: &[Offered]) -> Vec<String> {
    let requested: Vec<_> = tools.iter().map(|tool| safe_name(&tool.description.name)).collect();
    let mut order: Vec<_> = (0..tools.len()).collect();
    order.order_by_key(|at| (tools[*at].priority, tools[*at].description.name != requested[*at]));
    let mut names = vec![String::new(); tools.len()];
    let (mut taken, mut numbers) = (HashSet::new(), HashMap::new());
    for at in order {
        let name = unique_name(&requested[at], &taken, &mut numbers);
        taken.insert(name.clone());
        names[at] = name;
    }
    names
}

/// A name that every provider accepts.
fn safe_name(name: &str) -> String {
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
    safe.truncate(MAX_NAME_BYTES);
    safe
}

/// The name itself if it is free, otherwise the name with a number. `numbers` holds the last number of each
/// beginning, so that no number is tried twice.
fn unique_name(name: &str, taken: &HashSet<String>, numbers: &mut HashMap<String, usize>) -> String {
    if !taken.contains(name) {
        return name.to_owned();
    }
    let beginning = &name[..name.len().min(MAX_NAME_BYTES - MAX_SUFFIX_BYTES)];
    let number = numbers.entry(beginning.to_owned()).or_insert(1);
    loop {
        *number += 1;
        let unique = format!("{beginning}_{number}");
        if !taken.contains(&unique) {
            return unique;
        }
    }
}

fn run_result(result: &ToolResult) -> RunResult {
    let text = result.joined_text();
    let only_text = result.content.iter().all(|content| matches!(content, gladhand_core::operations::Content::Text(_)));
    let output = match &result.structured {
        Some(structured) => structured.clone(),
        None if only_text => json::to_raw(&text),
        None => json::to_raw(&result.content.iter().map(|content| content.to_block()).collect::<Vec<_>>()),
    };
    RunResult { ok: !result.failed, output, error: result.failed.then_some(text) }
}

/// The message to the model about a call that policy denies.
pub(super) fn forbidden(call: &Wanted) -> String {
    format!("{} was not run: it is forbidden here", call.name())
}

fn too_deep(call: &Wanted) -> String {
    format!("{} was not run: its arguments are nested deeper than {MAX_DEPTH} levels", call.name())
}

/// The result, converted to text if it is nested too deeply.
pub(super) fn shallow(result: RunResult) -> RunResult {
    match json::is_deeper_than(result.output.get().as_bytes(), MAX_DEPTH) {
        true => RunResult { output: json::to_raw(result.output.get()), ..result },
        false => result,
    }
}

/// The result of a call that failed.
pub(super) fn failed(call: &Wanted, status: &str, why: &str) -> RunResult {
    let output = serde_json::json!({"callId": call.call_id, "tool": call.name(), "status": status});
    RunResult { ok: false, output: json::to_raw(&output), error: Some(why.to_owned()) }
}

/// The caller of hub tools that the agent uses. There is no client behind it that could answer a question.
#[derive(Debug)]
struct InternalCaller;

impl Caller for InternalCaller {
    fn tell(&self, _: Notice) {}

    fn ask(&self, _: Option<CallId>, questions: Vec<Asking>) {
        for asking in questions {
            let unanswered = Failure::new(FailureKind::Unanswered, "a tool that the agent calls cannot ask questions");
            // The provider may have stopped waiting for the answer.
            let _ = asking.answer.send(Err(unanswered));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use gladhand_core::operations::Origin;
    use proptest::prelude::*;

    use super::super::policy::Policy;
    use super::*;

    /// Names that become similar when they are made safe.
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
            safe_name(name),
            name.replace("__", "_"),
            name.replace('_', "__"),
            name.replace(['.', ':', '-'], "_"),
            name.replace('_', "."),
            name.to_uppercase(),
            name.to_lowercase(),
            name.chars().take(MAX_NAME_BYTES).collect(),
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
        fn own_tools()(
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

    type Names = Vec<KnownName>;

    fn names() -> impl Strategy<Value = Names> {
        let known = (name(), any::<bool>()).prop_map(|(name, is_exclusive)| KnownName { name, is_exclusive });
        prop::collection::vec(known, 0..3)
    }

    prop_compose! {
        fn hub()(
            tools in prop::collection::hash_map(name(), (any::<bool>(), any::<bool>(), names()), 0..6),
        ) -> Vec<Tool> {
            let lying = serde_json::json!({"readOnlyHint": true});
            let tool = |(name, (vouched_read_only, claims, names)): (String, (bool, bool, Names))| {
                let origin = Origin { upstream: "u".to_owned(), own: name.clone(), names, yields: claims };
                let tool = Tool { vouched_read_only, origin: Some(Arc::new(origin)), ..Tool::plain(name, "") };
                if claims { tool.with("annotations", &lying) } else { tool }
            };
            tools.into_iter().map(tool).collect()
        }
    }

    proptest! {
        #[test]
        fn every_spelling_resolves_to_at_most_one_tool(
            own_tools in own_tools(), hub in hub(), policy in policy(),
        ) {
            let offered_tools = OfferedTools::of(own_tools.clone(), &hub);
            // The rule of each tool, found without the names that models use.
            let mut decided: HashMap<ToolIdentity, Rule> = HashMap::new();
            for tool in &own_tools {
                let identity = ToolIdentity::Agent { name: tool.name.clone(), edition: tool.edition };
                decided.insert(identity, policy.rule(tool, &[KnownName { name: tool.name.clone(), is_exclusive: true }]));
            }
            for tool in &hub {
                let is_own = |name: &str| own_tools.iter().any(|tool| tool.name == name && !tool.is_made_by_model);
                let Offered { identity, description, names, .. } = Offered::of_hub(tool, is_own);
                decided.insert(identity, policy.rule(&description, &names));
                let known = tool.origin.iter().flat_map(|origin| &origin.names).map(|known| &known.name);
                if known.chain([&tool.name]).any(|name| policy.tools.get(name) == Some(&Rule::Deny)) {
                    prop_assert_eq!(policy.rule(&description, &names), Rule::Deny, "a rule for any name of {} must deny it", tool.name);
                }
                if !tool.vouched_read_only {
                    prop_assert_eq!(description.effect, Effect::Runs, "annotations of an upstream must not count");
                }
            }
            let names = own_tools.iter().map(|tool| &tool.name).chain(hub.iter().map(|tool| &tool.name));
            let offered: HashSet<_> = offered_tools.offers.iter().map(|offer| offer.name.clone()).collect();
            prop_assert_eq!(offered.len(), offered_tools.tools.len(), "each tool must have a unique name");
            for spelling in names.flat_map(|name| spellings(name)) {
                let found = offered_tools.resolve(&spelling);
                prop_assert_eq!(found.is_some(), offered.contains(&spelling), "{} was not offered", spelling);
                let Some(found) = found else { continue };
                prop_assert_eq!(Some(&policy.rule(&found.description, &found.names)), decided.get(&found.identity), "{}", spelling);
            }
            let identities: HashSet<_> = offered.iter().filter_map(|name| offered_tools.resolve(name)).map(|it| &it.identity).collect();
            prop_assert_eq!(identities.len(), offered.len(), "no tool may have two names");
        }
    }

    #[test]
    fn names_are_made_safe_for_every_provider() {
        let safe = safe_name;
        assert_eq!([safe("a.b::c"), safe("_x_"), safe("9 lives"), safe("ß")], ["a_b_c", "x", "tool_9_lives", "tool_"]);
        assert_eq!(safe(&"x".repeat(80)).len(), 64);
        let taken = HashSet::from(["a_b", "a_b_2"].map(str::to_owned));
        let mut numbers = HashMap::new();
        assert_eq!(unique_name("a_b", &taken, &mut numbers), "a_b_3");
        assert_eq!(unique_name("c", &taken, &mut numbers), "c");
    }

    fn tool_of_hub(name: &str, yields: bool) -> Tool {
        let origin = Origin { upstream: "u".to_owned(), own: name.to_owned(), names: Vec::new(), yields };
        Tool { origin: Some(Arc::new(origin)), ..Tool::plain(name, "") }
    }

    fn tool_of_agent(name: &str, is_made_by_model: bool) -> ToolDescription {
        let (name, description) = (name.to_owned(), String::new());
        ToolDescription { name, description, input_schema: None, effect: Effect::Reads, edition: 0, is_made_by_model }
    }

    #[test]
    fn a_tool_of_a_project_never_takes_the_name_of_another_tool() {
        let own_tools = [("apply_patch", false), ("read.file", false), ("read_file", false), ("git.pull", true)];
        let own_tools = own_tools.map(|(name, is_made)| tool_of_agent(name, is_made)).to_vec();
        let of_project = ["apply__patch", "git__push", "read__file", "git_fetch", "git__pull"];
        let of_user = ["git_push", "git__fetch", "git:fetch"];
        let hub = of_project.map(|name| tool_of_hub(name, true)).into_iter();
        let hub: Vec<_> = hub.chain(of_user.map(|name| tool_of_hub(name, false))).collect();
        let offered_tools = OfferedTools::of(own_tools, &hub);
        for (offered, name) in [
            ("apply_patch", "apply_patch"),
            ("apply_patch_2", "apply__patch"),
            ("read_file", "read_file"),
            ("read_file_2", "read.file"),
            ("read_file_3", "read__file"),
            ("git_push", "git_push"),
            ("git_push_2", "git__push"),
            ("git_fetch_3", "git_fetch"),
            ("git_pull", "git.pull"),
            ("git_pull_2", "git__pull"),
        ] {
            assert_eq!(
                offered_tools.resolve(offered).map(|tool| tool.description.name.as_str()),
                Some(name),
                "{offered}"
            );
        }
    }

    /// This takes minutes if all numbers are tried for each name.
    #[test]
    fn many_tools_with_the_same_name_get_numbers_in_linear_time() {
        let name = |n: u32| (0..16).map(|bit| if n >> bit & 1 == 1 { '.' } else { ':' }).collect::<String>();
        let long = "x".repeat(MAX_NAME_BYTES);
        let hub: Vec<_> = (0..30_000)
            .flat_map(|n| [format!("a{}", name(n)), format!("{long}{n}")])
            .map(|name| tool_of_hub(&name, false))
            .collect();
        let offered_tools = OfferedTools::of(Vec::new(), &hub);
        assert_eq!(offered_tools.by_offer.len(), 60_000);
        assert!(offered_tools.by_offer.keys().all(|name| name.len() <= MAX_NAME_BYTES));
    }
}
