//! A provider put together from closures.

use std::fmt;
use std::future::Future;

use gladhand_core::operations::{
    Completion, CompletionCall, Failure, Prompt, Reply, Resource, Template, Tool, ToolCall,
};

use crate::hub::Hub;
use crate::provider::{Answer, Context, Features, Provider, Reporter};
use crate::provider_features::{CompletionProvider, PromptProvider, ResourceProvider};
use crate::routes::HubError;

type Result<T, E = Failure> = std::result::Result<T, E>;
type Called = Box<dyn Fn(ToolCall<'_>, &Context<'_>) -> Result<Answer> + Send + Sync>;
type Read = Box<dyn Fn(&str, &Context<'_>) -> Result<Answer> + Send + Sync>;
type Completed = Box<dyn Fn(&CompletionCall<'_>) -> Option<Completion> + Send + Sync>;

/// Tools, resources and prompts of one's own, without a type of one's own.
///
/// ```
/// use gladhand_hub::Kit;
/// use gladhand_core::operations::{Tool, ToolResult};
///
/// let kit = Kit::new().tool(Tool::plain("hello", "Says hello."), |_, _| Ok(ToolResult::text("hello")));
/// let hub = kit.into_hub()?;
/// # Ok::<(), gladhand_hub::HubError>(())
/// ```
///
/// What takes a while is handed over as a future ([`Kit::slow_tool`], or [`Answer::later`] from any closure); it is
/// dropped when its call is cancelled.
#[derive(Default)]
pub struct Kit {
    tools: Vec<(Tool, Called)>,
    resources: Vec<(Resource, Read)>,
    templates: Vec<(Template, Read)>,
    prompts: Vec<(Prompt, Called)>,
    completions: Vec<Completed>,
    resource_updates: bool,
}

impl Kit {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// One more tool, which answers at once or with [`Answer::later`].
    pub fn tool<A: Into<Answer>>(
        mut self,
        tool: Tool,
        call: impl Fn(ToolCall<'_>, &Context<'_>) -> Result<A> + Send + Sync + 'static,
    ) -> Self {
        self.tools.push((tool, Box::new(move |asked, context| call(asked, context).map(Into::into))));
        self
    }

    /// One more tool that takes a while: it may report and ask on the way.
    pub fn slow_tool<W, R>(
        self,
        tool: Tool,
        call: impl Fn(ToolCall<'static>, Reporter) -> W + Send + Sync + 'static,
    ) -> Self
    where
        W: Future<Output = Result<R>> + Send + 'static,
        R: Into<Reply>,
    {
        self.tool(tool, move |asked, context| Ok(Answer::later(call(asked.into_owned(), context.reporter()))))
    }

    /// One more resource; the closure is given its URI.
    pub fn resource<A: Into<Answer>>(
        mut self,
        resource: Resource,
        read: impl Fn(&str, &Context<'_>) -> Result<A> + Send + Sync + 'static,
    ) -> Self {
        self.resources.push((resource, Box::new(move |uri, context| read(uri, context).map(Into::into))));
        self
    }

    /// One more family of resources; the closure is given the URI of the one that is read
    /// ([`Template::variables`] takes it apart).
    pub fn template<A: Into<Answer>>(
        mut self,
        template: Template,
        read: impl Fn(&str, &Context<'_>) -> Result<A> + Send + Sync + 'static,
    ) -> Self {
        self.templates.push((template, Box::new(move |uri, context| read(uri, context).map(Into::into))));
        self
    }

    /// One more prompt. Its arguments are strings.
    pub fn prompt<A: Into<Answer>>(
        mut self,
        prompt: Prompt,
        fill: impl Fn(ToolCall<'_>, &Context<'_>) -> Result<A> + Send + Sync + 'static,
    ) -> Self {
        self.prompts.push((prompt, Box::new(move |asked, context| fill(asked, context).map(Into::into))));
        self
    }

    /// Completes arguments of prompts and templates: `None` where it does not know the argument.
    pub fn completion(
        mut self,
        complete: impl Fn(&CompletionCall<'_>) -> Option<Completion> + Send + Sync + 'static,
    ) -> Self {
        self.completions.push(Box::new(complete));
        self
    }

    /// Promises to call [`ChangeNotifier::resource_updated`](crate::ChangeNotifier::resource_updated) when a resource changes.
    pub fn resource_updates(self) -> Self {
        Self { resource_updates: true, ..self }
    }

    /// A hub with nothing but this.
    pub fn into_hub(self) -> Result<Hub, HubError> {
        Hub::new(vec![Box::new(self)])
    }
}

impl Provider for Kit {
    fn tools(&self) -> Vec<Tool> {
        self.tools.iter().map(|(tool, _)| tool.clone()).collect()
    }

    fn features(&self) -> Features {
        Features {
            completions: !self.completions.is_empty(),
            resource_updates: self.resource_updates,
            ..Features::default()
        }
    }

    fn call(&self, call: ToolCall<'_>, context: &Context<'_>) -> Answer {
        match self.tools.iter().find(|(tool, _)| tool.name == call.name) {
            Some((_, work)) => or_failed(work(call, context)),
            None => Answer::Now(Err(Failure::unknown_tool(&call.name))),
        }
    }

    fn as_resources(&self) -> Option<&dyn ResourceProvider> {
        Some(self)
    }

    fn as_prompts(&self) -> Option<&dyn PromptProvider> {
        Some(self)
    }

    fn as_completions(&self) -> Option<&dyn CompletionProvider> {
        Some(self)
    }
}

impl ResourceProvider for Kit {
    fn resources(&self) -> Vec<Resource> {
        self.resources.iter().map(|(resource, _)| resource.clone()).collect()
    }

    fn templates(&self) -> Vec<Template> {
        self.templates.iter().map(|(template, _)| template.clone()).collect()
    }

    fn read(&self, uri: &str, context: &Context<'_>) -> Answer {
        let by_name = self.resources.iter().find(|(resource, _)| resource.uri == uri).map(|(_, read)| read);
        let by_template =
            || self.templates.iter().find(|(template, _)| template.variables(uri).is_some()).map(|(_, read)| read);
        match by_name.or_else(by_template) {
            Some(read) => or_failed(read(uri, context)),
            None => Answer::Now(Err(Failure::unknown_resource(uri))),
        }
    }
}

impl PromptProvider for Kit {
    fn prompts(&self) -> Vec<Prompt> {
        self.prompts.iter().map(|(prompt, _)| prompt.clone()).collect()
    }

    fn prompt(&self, call: ToolCall<'_>, context: &Context<'_>) -> Answer {
        match self.prompts.iter().find(|(prompt, _)| prompt.name == call.name) {
            Some((_, fill)) => or_failed(fill(call, context)),
            None => Answer::Now(Err(Failure::unknown_prompt(&call.name))),
        }
    }
}

impl CompletionProvider for Kit {
    fn complete(&self, call: CompletionCall<'_>, _: &Context<'_>) -> Answer {
        let known = self.completions.iter().find_map(|complete| complete(&call));
        Answer::Now(Ok(Reply::Completion(known.unwrap_or_default())))
    }
}

fn or_failed(answer: Result<Answer>) -> Answer {
    answer.unwrap_or_else(|failure| Answer::Now(Err(failure)))
}

impl fmt::Debug for Kit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tools: Vec<&str> = self.tools.iter().map(|(tool, _)| tool.name.as_str()).collect();
        f.debug_struct("Kit").field("tools", &tools).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use gladhand_core::negotiation::{Agreement, Defined, Minimum, Offer, Peer, Rules, VersionRule, agree};
    use gladhand_core::operations::{
        Call, CallId, CompletionOf, Contents, FailureKind, Notice, Operation, PromptResult, ToolResult,
    };
    use gladhand_core::validation::Validation;
    use gladhand_core::wire::json;
    use gladhand_schemas::Schemas;

    use super::*;
    use crate::provider::{Asking, Caller};

    #[derive(Debug)]
    struct Nobody;

    impl Caller for Nobody {
        fn tell(&self, _: Notice) {}
        fn ask(&self, _: Option<CallId>, _: Vec<Asking>) {}
    }

    fn agreement() -> Arc<Agreement> {
        let rules = Rules {
            dialect: "test",
            versions: VersionRule::Common,
            minimum: Minimum::Nothing,
            defines: |_, _, _| Defined::Yes,
        };
        let offer = Offer::new(Peer::default(), ["1"]);
        Arc::new(agree(&rules, &offer, &offer).expect("one version on both sides"))
    }

    async fn outcome(hub: &Hub, operation: Operation<'_>) -> Result<Reply, FailureKind> {
        let nobody: Arc<dyn Caller> = Arc::new(Nobody);
        let outcome = hub.answer(Call::new(CallId(1), operation), &agreement(), &nobody).outcome().await;
        outcome.map_err(|failure| failure.kind)
    }

    fn call(name: &'static str) -> ToolCall<'static> {
        ToolCall { name: name.into(), arguments: std::borrow::Cow::Owned(json::raw(r#"{"n":1}"#.to_owned())) }
    }

    #[tokio::test]
    async fn each_closure_of_a_kit_answers_for_its_item() {
        let template = Template::new("x:{id}", "x", "");
        let kit = Kit::new()
            .tool(Tool::plain("now", ""), |call, _| Ok(ToolResult::text(call.arguments.get())))
            .slow_tool(Tool::plain("slow", ""), |call, _| async move { Ok(ToolResult::text(&call.name)) })
            .tool(Tool::plain("fails", ""), |_, _| Err::<Answer, _>(Failure::invalid_argument("n", "no")))
            .resource(Resource::new("x:one", "one", ""), |uri, _| Ok(Contents::text(uri, "text/plain", "by name")))
            .template(template, |uri, _| Ok(Contents::text(uri, "text/plain", "by template")))
            .prompt(Prompt::new("p", ""), |_, _| Ok(PromptResult::text("said")))
            .completion(|call| (call.argument == "a").then(Completion::default));
        let hub = kit.into_hub().unwrap();
        let text = |reply| match reply {
            Ok(Reply::Tool(result)) => result.joined_text(),
            Ok(Reply::Contents(contents)) => contents.parts[0].get().to_owned(),
            other => format!("{other:?}"),
        };
        assert_eq!(text(outcome(&hub, Operation::CallTool(call("now"))).await), r#"{"n":1}"#);
        assert_eq!(text(outcome(&hub, Operation::CallTool(call("slow"))).await), "slow");
        assert_eq!(outcome(&hub, Operation::CallTool(call("fails"))).await.unwrap_err(), FailureKind::InvalidArguments);
        assert!(text(outcome(&hub, Operation::ReadResource("x:one".into())).await).contains("by name"));
        assert!(text(outcome(&hub, Operation::ReadResource("x:two".into())).await).contains("by template"));
        assert!(matches!(outcome(&hub, Operation::GetPrompt(call("p"))).await, Ok(Reply::Prompt(_))));
        let completion = CompletionCall {
            of: CompletionOf::Prompt("p".into()),
            argument: "a".into(),
            value: "".into(),
            context: None,
        };
        assert!(matches!(outcome(&hub, Operation::Complete(completion)).await, Ok(Reply::Completion(_))));
        assert_eq!(hub.features(), Features { completions: true, ..Features::default() });
    }

    #[tokio::test]
    async fn dialects_without_resources_and_prompts_get_tools_for_them() {
        let hub = || {
            let kit = Kit::new().tool(Tool::plain("get_prompt", "its own"), |_, _| Ok(ToolResult::text("own")));
            let kit =
                kit.resource(Resource::new("x:1", "one", ""), |uri, _| Ok(Contents::text(uri, "text/plain", "1")));
            kit.prompt(Prompt::new("p", ""), |_, _| Ok(PromptResult::text("said"))).into_hub().unwrap()
        };
        let Ok(Reply::Tools(tools)) = outcome(&hub(), Operation::ListTools).await else { panic!() };
        let names: Vec<_> = tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names, ["get_prompt", "list_resources", "read_resource", "list_prompts"]);
        let read = |arguments: &str| {
            let arguments = std::borrow::Cow::Owned(json::raw(arguments.to_owned()));
            Operation::CallTool(ToolCall { name: "read_resource".into(), arguments })
        };
        let reply = outcome(&hub(), read(r#"{"uri":"x:1"}"#)).await;
        assert!(matches!(reply, Ok(Reply::Tool(result)) if result.joined_text() == "1"));
        assert_eq!(outcome(&hub(), read("{}")).await.unwrap_err(), FailureKind::InvalidArguments);
        assert_eq!(outcome(&hub(), read(r#"{"uri":"y"}"#)).await.unwrap_err(), FailureKind::UnknownResource);
        let own = outcome(&hub(), Operation::CallTool(call("get_prompt"))).await;
        assert!(
            matches!(own, Ok(Reply::Tool(result)) if result.joined_text() == "own"),
            "a tool of that name goes before"
        );
    }

    #[tokio::test]
    async fn arguments_and_results_are_checked_against_schemas_if_policy_requires_it() {
        let numbers = serde_json::json!({"type": "object", "properties": {"n": {"type": "integer"}}});
        let words = serde_json::json!({"type": "object", "properties": {"n": {"type": "string"}}});
        let hub = || {
            let fine = Tool::plain("fine", "").taking(&numbers).returning(&numbers);
            let fussy = Tool::plain("fussy", "").taking(&words);
            let wrong = Tool::plain("wrong", "").returning(&words);
            let echo = |call: ToolCall<'static>| async move { Ok(ToolResult::structured(call.arguments.into_owned())) };
            let kit = Kit::new().slow_tool(fine, move |call, _| echo(call)).slow_tool(fussy, move |call, _| echo(call));
            kit.slow_tool(wrong, move |call, _| echo(call)).into_hub().unwrap()
        };
        for (validating, expected) in [
            (None, [None, None, None]),
            (
                Some(Arc::new(Schemas) as Arc<dyn Validation>),
                [None, Some(FailureKind::InvalidArguments), Some(FailureKind::ToolFailed)],
            ),
        ] {
            let hub = hub().validating(validating);
            for (name, expected) in ["fine", "fussy", "wrong"].into_iter().zip(expected) {
                assert_eq!(outcome(&hub, Operation::CallTool(call(name))).await.err(), expected, "{name}");
            }
        }
    }
}
