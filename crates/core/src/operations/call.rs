//! A call, what it asks for, and its one outcome.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::wire::RawValue;
use serde::de::DeserializeOwned;

use crate::operations::agent::AgentCall;
use crate::operations::capability::CapabilityCall;
use crate::operations::failure::Failure;
use crate::operations::notice::Level;
use crate::operations::prompt::{Completion, Prompt, PromptResult};
use crate::operations::resource::{Contents, Resource, Template};
use crate::operations::scopes::ScopeRecord;
use crate::operations::tool::{Content, Tool, ToolResult};

/// Names one call of one session on this side. Never on the wire: a peer's own id stays in its dialect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId(pub u64);

/// A request that wants exactly one outcome.
#[derive(Debug, Clone)]
pub struct Call<'a> {
    /// Under which its outcome, progress and cancellation go by.
    pub id: CallId,
    /// What is asked for.
    pub operation: Operation<'a>,
    /// What the caller said beside it.
    pub terms: Terms<'a>,
}

/// What a caller says beside what it asks for. By default: nothing.
#[derive(Debug, Clone, Default)]
pub struct Terms<'a> {
    /// Whether it asked to hear of progress.
    pub wants_progress: bool,
    /// How long it is ready to wait, if it said so.
    pub timeout: Option<Duration>,
    /// Whether it would take a task in place of the outcome.
    pub task: TaskWish,
    /// From which level on it wants log lines, if it said so.
    pub log_level: Option<Level>,
    /// What it sent along for whoever answers: a raw JSON object as MCP's `_meta`. What in it is between the caller and
    /// us only is nobody else's business, and left out by whoever passes it on.
    pub meta: Option<Cow<'a, RawValue>>,
    /// Who it has proved to be, where the transport knows.
    pub principal: Option<Arc<str>>,
    /// The scopes that its proof was granted, separated by spaces. They go with the principal: whoever makes a call on a
    /// principal's behalf passes both on ([`Self::on_behalf`]). A principal without them has none.
    pub scopes: Option<Arc<str>>,
    /// Where the scopes are recorded that the call needs, if its result is kept for later requests. It goes with the scopes.
    pub record: Option<Arc<ScopeRecord>>,
    /// Whose share it takes, where callers of more than one party come the same way: over a network, and only there.
    pub party: Option<Party>,
    /// The folder that it works in, where it has one: relative paths in its arguments begin there.
    pub folder: Option<Arc<Path>>,
}

/// Whose share an input takes of what many peers have in common: a principal's, or an address's where nobody proved who
/// they are. It says nothing of what anybody may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Party(pub u64);

impl Terms<'_> {
    /// The terms of another call that is made on behalf of the same caller: who that is, and nothing else.
    pub fn on_behalf(&self) -> Terms<'static> {
        let (principal, scopes, record) = (self.principal.clone(), self.scopes.clone(), self.record.clone());
        Terms { principal, scopes, record, party: self.party, ..Terms::default() }
    }

    /// Whether the caller came over a transport that others can reach too. A caller on standard streams did not.
    pub fn is_over_network(&self) -> bool {
        self.party.is_some()
    }

    /// The same terms, free of the line they were read from.
    pub fn into_owned(self) -> Terms<'static> {
        Terms { meta: self.meta.map(|meta| Cow::Owned(meta.into_owned())), ..self }
    }
}

/// Whether a caller takes a task (something to come back for) in place of an outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TaskWish {
    /// It does not, or its dialect has no tasks.
    #[default]
    Never,
    /// It would; whoever answers decides.
    Able,
    /// It asks for one, and for nothing else.
    Only,
}

impl<'a> Call<'a> {
    /// A call for an operation, with nothing unusual about it.
    pub fn new(id: CallId, operation: Operation<'a>) -> Self {
        Self { id, operation, terms: Terms::default() }
    }
}

impl Call<'_> {
    /// The same call, of a caller that wants to hear of progress.
    pub fn reporting(mut self) -> Self {
        self.terms.wants_progress = true;
        self
    }

    /// The same call, free of the line it was read from.
    pub fn into_owned(self) -> Call<'static> {
        Call { id: self.id, operation: self.operation.into_owned(), terms: self.terms.into_owned() }
    }
}

/// What a call asks for. Paging and searching are done by the dialect that has them.
#[derive(Debug, Clone)]
pub enum Operation<'a> {
    /// All tools, in a fixed order.
    ListTools,
    /// Run a tool.
    CallTool(ToolCall<'a>),
    /// All resources, in a fixed order.
    ListResources,
    /// All templates of resources, in a fixed order.
    ListTemplates,
    /// What is in a resource, by its URI.
    ReadResource(Cow<'a, str>),
    /// Tell of changes of a resource from now on, by its URI. Taken back without a call.
    Watch(Cow<'a, str>),
    /// All prompts, in a fixed order.
    ListPrompts,
    /// A prompt filled in: its name, and its arguments as a raw JSON object.
    GetPrompt(ToolCall<'a>),
    /// What an argument of a prompt or of a template could be.
    Complete(CompletionCall<'a>),
    /// Something of the agent.
    Agent(AgentCall<'a>),
    /// Something of a capability that is more than tools.
    Capability(CapabilityCall<'a>),
}

impl Operation<'_> {
    /// The same operation, free of the line it was read from.
    pub fn into_owned(self) -> Operation<'static> {
        let text = |text: Cow<'_, str>| Cow::Owned(text.into_owned());
        match self {
            Self::ListTools => Operation::ListTools,
            Self::CallTool(call) => Operation::CallTool(call.into_owned()),
            Self::ListResources => Operation::ListResources,
            Self::ListTemplates => Operation::ListTemplates,
            Self::ReadResource(uri) => Operation::ReadResource(text(uri)),
            Self::Watch(uri) => Operation::Watch(text(uri)),
            Self::ListPrompts => Operation::ListPrompts,
            Self::GetPrompt(call) => Operation::GetPrompt(call.into_owned()),
            Self::Complete(call) => Operation::Complete(CompletionCall {
                of: match call.of {
                    CompletionOf::Prompt(name) => CompletionOf::Prompt(text(name)),
                    CompletionOf::Template(uri) => CompletionOf::Template(text(uri)),
                },
                argument: text(call.argument),
                value: text(call.value),
                context: call.context.map(|context| Cow::Owned(context.into_owned())),
            }),
            Self::Agent(call) => Operation::Agent(call.into_owned()),
            Self::Capability(call) => Operation::Capability(call.into_owned()),
        }
    }
}

impl Operation<'_> {
    /// The outcome where there are tools and nothing else: what there is none of is an empty list. `None` for tools.
    pub fn where_there_are_only_tools(&self) -> Option<Outcome> {
        Some(match self {
            Self::ListTools | Self::CallTool(_) => return None,
            Self::ListResources => Ok(Reply::Resources(Arc::from([]))),
            Self::ListTemplates => Ok(Reply::Templates(Arc::from([]))),
            Self::ListPrompts => Ok(Reply::Prompts(Arc::from([]))),
            Self::ReadResource(uri) => Err(Failure::unknown_resource(uri)),
            Self::Watch(_) => Err(Failure::cannot_watch()),
            Self::GetPrompt(prompt) => Err(Failure::unknown_prompt(&prompt.name)),
            Self::Complete(_) => Ok(Reply::Completion(Completion::default())),
            Self::Agent(_) => Err(Failure::no_agent()),
            Self::Capability(call) => Err(Failure::no_capability(call.capability)),
        })
    }
}

/// The name of a tool or a prompt, and its arguments.
#[derive(Debug, Clone)]
pub struct ToolCall<'a> {
    /// The name as the downstream knows it.
    pub name: Cow<'a, str>,
    /// A raw JSON object; `{}` when the caller gave none.
    pub arguments: Cow<'a, RawValue>,
}

impl ToolCall<'_> {
    /// Its arguments, read into a type of the tool's own.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        serde_json::from_str(self.arguments.get()).map_err(|error| {
            let problem = error.to_string();
            // Where in the line it is says nothing to whoever wrote the arguments.
            let problem = problem.rsplit_once(" at line ").map_or(problem.as_str(), |(problem, _)| problem);
            Failure::invalid_argument("arguments", problem)
        })
    }

    /// The same, free of the line it was read from.
    pub fn into_owned(self) -> ToolCall<'static> {
        ToolCall { name: Cow::Owned(self.name.into_owned()), arguments: Cow::Owned(self.arguments.into_owned()) }
    }
}

/// An argument that somebody is typing.
#[derive(Debug, Clone)]
pub struct CompletionCall<'a> {
    /// What it is an argument of.
    pub of: CompletionOf<'a>,
    /// Its name.
    pub argument: Cow<'a, str>,
    /// What was typed so far.
    pub value: Cow<'a, str>,
    /// The other arguments, as far as they are known: a raw JSON object of strings.
    pub context: Option<Cow<'a, RawValue>>,
}

/// What has arguments that can be completed.
#[derive(Debug, Clone)]
pub enum CompletionOf<'a> {
    /// A prompt, by its name.
    Prompt(Cow<'a, str>),
    /// A template of resources, by its text.
    Template(Cow<'a, str>),
}

/// The arguments of a call that gave none.
pub fn no_arguments<'a>() -> Cow<'a, RawValue> {
    Cow::Owned(crate::wire::json::raw("{}".to_owned()))
}

/// How a call ended.
pub type Outcome = Result<Reply, Failure>;

/// How many bytes each part of an outcome takes beyond its text, roughly.
const PART_OVERHEAD: usize = 64;

/// How many bytes of memory an outcome takes, roughly. Lists are shared by all calls and count nothing.
pub fn outcome_weight(outcome: &Outcome) -> usize {
    fn part(raw: &RawValue) -> usize {
        raw.get().len() + PART_OVERHEAD
    }
    fn parts(parts: &[Box<RawValue>], extra: &[(String, Box<RawValue>)]) -> usize {
        let extra = extra.iter().map(|(name, value)| name.len() + part(value));
        parts.iter().map(|raw| part(raw)).chain(extra).sum()
    }
    match outcome {
        Ok(Reply::Tool(result)) => {
            let blocks = result.content.iter().map(|(Content::Text(raw) | Content::Block(raw))| part(raw));
            blocks.chain(result.structured.as_deref().map(part)).sum::<usize>() + parts(&[], &result.extra)
        }
        Ok(Reply::Contents(contents)) => parts(&contents.parts, &contents.extra),
        Ok(Reply::Prompt(prompt)) => parts(&prompt.messages, &prompt.extra),
        Ok(Reply::Agent(document) | Reply::Capability(document)) => part(document),
        Ok(_) => PART_OVERHEAD,
        Err(failure) => failure.message.len() + failure.data.as_deref().map_or(0, part),
    }
}

/// The good end of a call.
#[derive(Debug, Clone)]
pub enum Reply {
    /// All tools, in a fixed order.
    Tools(Arc<[Tool]>),
    /// What the tool returned, which may be its own report of failure.
    Tool(ToolResult),
    /// All resources, in a fixed order.
    Resources(Arc<[Resource]>),
    /// All templates, in a fixed order.
    Templates(Arc<[Template]>),
    /// What is in a resource.
    Contents(Contents),
    /// All prompts, in a fixed order.
    Prompts(Arc<[Prompt]>),
    /// A prompt, filled in.
    Prompt(PromptResult),
    /// What an argument could be.
    Completion(Completion),
    /// What the agent says: a JSON document.
    Agent(Box<RawValue>),
    /// What a capability answers: the members of its message, a raw JSON object.
    Capability(Box<RawValue>),
    /// Changes of the resource are told from now on, to this subscription.
    Watching(WatchId),
    /// It is done, and there is nothing to say about it.
    Done,
}

/// Names a subscription to a resource: one granted [`Operation::Watch`], while the process lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WatchId(pub u64);

impl From<ToolResult> for Reply {
    fn from(result: ToolResult) -> Self {
        Self::Tool(result)
    }
}

impl From<Contents> for Reply {
    fn from(contents: Contents) -> Self {
        Self::Contents(contents)
    }
}

impl From<PromptResult> for Reply {
    fn from(result: PromptResult) -> Self {
        Self::Prompt(result)
    }
}

impl From<Completion> for Reply {
    fn from(completion: Completion) -> Self {
        Self::Completion(completion)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::json;

    #[test]
    fn every_part_of_an_outcome_has_weight() {
        let large = || json::raw(format!("\"{}\"", "x".repeat(1000)));
        let extra = || vec![("_meta".to_owned(), large())];
        let blocks = ToolResult::of((0..100).map(|_| Content::Block(json::raw("{}".to_owned()))));
        let outcomes = [
            Ok(Reply::Tool(ToolResult { extra: extra(), ..ToolResult::default() })),
            Ok(Reply::Tool(ToolResult { structured: Some(large()), ..ToolResult::default() })),
            Ok(Reply::Tool(blocks)),
            Ok(Reply::Contents(Contents { parts: vec![large()], extra: Vec::new() })),
            Ok(Reply::Prompt(PromptResult { extra: extra(), ..PromptResult::default() })),
            Ok(Reply::Capability(large())),
            Err(Failure { data: Some(large()), ..Failure::panicked() }),
        ];
        for outcome in outcomes {
            assert!(outcome_weight(&outcome) > 1000, "{outcome:?}");
        }
    }

    #[test]
    fn arguments_are_read_into_a_type_or_the_mistake_is_named() {
        let call =
            |arguments: &str| ToolCall { name: "t".into(), arguments: Cow::Owned(json::raw(arguments.to_owned())) };
        type Read = std::collections::BTreeMap<String, u8>;
        assert_eq!(call(r#"{"n":7}"#).read::<Read>().unwrap(), Read::from([("n".to_owned(), 7)]));
        let failure = call(r#"{"n":"x"}"#).read::<Read>().unwrap_err();
        assert_eq!(failure.to_string(), r#"arguments: invalid type: string "x", expected u8"#);
    }
}
