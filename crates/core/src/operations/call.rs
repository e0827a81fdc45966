//! A call, its operation, and its single outcome.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::wire::{RawValue, values};
use serde::de::DeserializeOwned;

use crate::operations::agent::AgentCall;
use crate::operations::capability::CapabilityCall;
use crate::operations::failure::Failure;
use crate::operations::notice::Level;
use crate::operations::prompt::{Completion, Prompt, PromptResult};
use crate::operations::resource::{Contents, Resource, Template};
use crate::operations::scopes::ScopeRecord;
use crate::operations::tool::{Content, Tool, ToolResult};

/// Identifies one call of one session on our side. It never appears on the wire: the dialect keeps the peer's own id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId(pub u64);

/// A request that has exactly one outcome.
#[derive(Debug, Clone)]
pub struct Call<'a> {
    /// The id that its outcome, progress and cancellation refer to.
    pub id: CallId,
    /// The requested operation.
    pub operation: Operation<'a>,
    /// Parameters of the call other than the operation.
    pub terms: Terms<'a>,
}

/// The parameters of a call other than its operation. All are empty by default.
#[derive(Debug, Clone, Default)]
pub struct Terms<'a> {
    /// Whether the caller wants progress reports.
    pub wants_progress: bool,
    /// The caller's timeout, if it gave one.
    pub timeout: Option<Duration>,
    /// Whether the caller accepts a task instead of the outcome.
    pub task: TaskWish,
    /// The minimum level of log lines that the caller wants, if it gave one.
    pub log_level: Option<Level>,
    /// Metadata for the provider: a raw JSON object like MCP's `_meta`. Members that concern only the caller and us are
    /// removed when the call is forwarded.
    pub meta: Option<Cow<'a, RawValue>>,
    /// The authenticated principal, if the transport knows it.
    pub principal: Option<Arc<str>>,
    /// The scopes granted to the principal, separated by spaces. A call on behalf of a principal must pass on both
    /// principal and scopes ([`Self::on_behalf`]). A principal without this value has no scopes.
    pub scopes: Option<Arc<str>>,
    /// If the result is kept for later requests, the scopes that the call needs are recorded here. Passed on together
    /// with the scopes.
    pub record: Option<Arc<ScopeRecord>>,
    /// The party whose share of shared resources the call uses. Set only over a network, where callers of several
    /// parties use the same transport.
    pub party: Option<Party>,
    /// The caller's working folder, if it has one. Relative paths in the arguments are resolved against it.
    pub folder: Option<Arc<Path>>,
}

/// The party whose share of common resources an input uses: a principal, or an address if there is no authenticated
/// principal. It grants no permission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Party(pub u64);

impl Terms<'_> {
    /// The terms for another call on behalf of the same caller: its identity and nothing else.
    pub fn on_behalf(&self) -> Terms<'static> {
        let (principal, scopes, record) = (self.principal.clone(), self.scopes.clone(), self.record.clone());
        Terms { principal, scopes, record, party: self.party, ..Terms::default() }
    }

    /// Whether the caller uses a transport that other clients can reach too. Standard streams are not such a transport.
    pub fn is_over_network(&self) -> bool {
        self.party.is_some()
    }

    /// The same terms without borrowed data.
    pub fn into_owned(self) -> Terms<'static> {
        Terms { meta: self.meta.map(|meta| Cow::Owned(meta.into_owned())), ..self }
    }
}

/// Whether a caller accepts a task, whose result it fetches later, instead of an outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TaskWish {
    /// The caller does not accept one, or its dialect has no tasks.
    #[default]
    Never,
    /// The caller accepts one. The provider decides.
    Able,
    /// The caller requires one.
    Only,
}

impl<'a> Call<'a> {
    /// A call of an operation with default terms.
    pub fn new(id: CallId, operation: Operation<'a>) -> Self {
        Self { id, operation, terms: Terms::default() }
    }
}

impl Call<'_> {
    /// The same call with progress reports requested.
    pub fn reporting(mut self) -> Self {
        self.terms.wants_progress = true;
        self
    }

    /// The same call without borrowed data.
    pub fn into_owned(self) -> Call<'static> {
        Call { id: self.id, operation: self.operation.into_owned(), terms: self.terms.into_owned() }
    }
}

/// The operation of a call. Paging and searching are done by the dialects that have them.
#[derive(Debug, Clone)]
pub enum Operation<'a> {
    /// List all tools, in a fixed order.
    ListTools,
    /// Call a tool.
    CallTool(ToolCall<'a>),
    /// List all resources, in a fixed order.
    ListResources,
    /// List all resource templates, in a fixed order.
    ListTemplates,
    /// Read the contents of the resource with this URI.
    ReadResource(Cow<'a, str>),
    /// Subscribe to changes of the resource with this URI. Cancelling the subscription needs no call.
    Watch(Cow<'a, str>),
    /// List all prompts, in a fixed order.
    ListPrompts,
    /// Fill in a prompt: its name, and its arguments as a raw JSON object.
    GetPrompt(ToolCall<'a>),
    /// Suggest values for an argument of a prompt or of a template.
    Complete(CompletionCall<'a>),
    /// A request to the agent.
    Agent(AgentCall<'a>),
    /// A request to a capability other than tools.
    Capability(CapabilityCall<'a>),
}

impl Operation<'_> {
    /// The same operation without borrowed data.
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
    /// The outcome of this operation at a provider that has only tools: an empty list, or a failure. `None` for the
    /// operations on tools.
    pub fn outcome_with_only_tools(&self) -> Option<Outcome> {
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
    /// The name that the downstream uses.
    pub name: Cow<'a, str>,
    /// A raw JSON object. `{}` if the caller gave none.
    pub arguments: Cow<'a, RawValue>,
}

impl ToolCall<'_> {
    /// Deserializes the arguments into a type of the tool.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        values::read(self.arguments.get()).map_err(|error| Failure::invalid_argument("arguments", error.to_string()))
    }

    /// The same without borrowed data.
    pub fn into_owned(self) -> ToolCall<'static> {
        ToolCall { name: Cow::Owned(self.name.into_owned()), arguments: Cow::Owned(self.arguments.into_owned()) }
    }
}

/// An argument value that a user is typing.
#[derive(Debug, Clone)]
pub struct CompletionCall<'a> {
    /// The prompt or template of the argument.
    pub of: CompletionOf<'a>,
    /// The name of the argument.
    pub argument: Cow<'a, str>,
    /// The text typed so far.
    pub value: Cow<'a, str>,
    /// The other known arguments: a raw JSON object of strings.
    pub context: Option<Cow<'a, RawValue>>,
}

/// An item whose arguments can be completed.
#[derive(Debug, Clone)]
pub enum CompletionOf<'a> {
    /// A prompt, by its name.
    Prompt(Cow<'a, str>),
    /// A resource template, by its pattern.
    Template(Cow<'a, str>),
}

/// The arguments of a call that has none.
pub fn no_arguments<'a>() -> Cow<'a, RawValue> {
    Cow::Owned(crate::wire::json::raw("{}".to_owned()))
}

/// The result of a call: a reply or a failure.
pub type Outcome = Result<Reply, Failure>;

/// Approximate number of bytes that each part of an outcome uses in addition to its text.
const PART_OVERHEAD: usize = 64;

/// Approximate number of bytes of memory that an outcome uses. Lists are shared by all calls and count as nothing.
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

/// The successful outcome of a call.
#[derive(Debug, Clone)]
pub enum Reply {
    /// All tools, in a fixed order.
    Tools(Arc<[Tool]>),
    /// The result of the tool, which can be a failure that the tool reports itself.
    Tool(ToolResult),
    /// All resources, in a fixed order.
    Resources(Arc<[Resource]>),
    /// All templates, in a fixed order.
    Templates(Arc<[Template]>),
    /// The contents of a resource.
    Contents(Contents),
    /// All prompts, in a fixed order.
    Prompts(Arc<[Prompt]>),
    /// A filled-in prompt.
    Prompt(PromptResult),
    /// The suggested values of an argument.
    Completion(Completion),
    /// The agent's response: a JSON document.
    Agent(Box<RawValue>),
    /// The capability's response: the members of its message, as a raw JSON object.
    Capability(Box<RawValue>),
    /// The subscription to the resource is active under this id.
    Watching(WatchId),
    /// The operation is complete and has no result data.
    Done,
}

/// Identifies a subscription to a resource, which a granted [`Operation::Watch`] creates. Valid until the process ends.
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
            Ok(Reply::Contents(Contents { parts: vec![large()], ..Contents::default() })),
            Ok(Reply::Prompt(PromptResult { extra: extra(), ..PromptResult::default() })),
            Ok(Reply::Capability(large())),
            Err(Failure { data: Some(large()), ..Failure::panicked() }),
        ];
        for outcome in outcomes {
            assert!(outcome_weight(&outcome) > 1000, "{outcome:?}");
        }
    }

    #[test]
    fn arguments_are_deserialized_or_the_error_is_named() {
        let call =
            |arguments: &str| ToolCall { name: "t".into(), arguments: Cow::Owned(json::raw(arguments.to_owned())) };
        type Read = std::collections::BTreeMap<String, u8>;
        assert_eq!(call(r#"{"n":7}"#).read::<Read>().unwrap(), Read::from([("n".to_owned(), 7)]));
        let failure = call(r#"{"n":"x"}"#).read::<Read>().unwrap_err();
        assert_eq!(failure.to_string(), r#"arguments: invalid type: string "x", expected u8"#);
    }
}
