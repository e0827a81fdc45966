//! Names to providers.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use gladhand_accord::Agreement;
use gladhand_operations::{
    Call, CompletionOf, Failure, FailureKind, Notice, Operation, Outcome, Prompt, Reply, Resource, TaskSupport,
    TaskWish, Template, Tool, ToolCall,
};
use tokio::sync::broadcast;

use crate::bell::Bell;
use crate::provider::{Answer, Caller, Context, Features, Provider, Work};
use crate::schema::Checks;

/// Changes that a session may fall behind; later ones push out the oldest, and the session is told that it missed some.
const CHANGES: usize = 64;

/// Finds who answers a call. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Hub {
    inner: Arc<Inner>,
    bell: Bell,
}

#[derive(Debug)]
pub(crate) struct Inner {
    providers: Vec<Box<dyn Provider>>,
    listed: RwLock<Arc<Listed>>,
    /// How many want to hear of changes of a resource.
    watched: Mutex<HashMap<String, usize>>,
    changes: broadcast::Sender<Notice>,
    /// Whether arguments and results are held to the tools' schemas.
    validating: AtomicBool,
}

/// All lists as they are now, and who is behind each name.
#[derive(Debug)]
struct Listed {
    tools: Arc<[Tool]>,
    /// Tool name to its index in `tools` and that of its provider.
    tool_routes: HashMap<String, (usize, usize)>,
    /// The schemas of each tool.
    checks: Vec<Checks>,
    resources: Arc<[Resource]>,
    resource_routes: HashMap<String, usize>,
    templates: Arc<[Template]>,
    /// The provider of each template.
    template_routes: Vec<usize>,
    prompts: Arc<[Prompt]>,
    prompt_routes: HashMap<String, usize>,
}

/// Why a hub cannot be built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HubError {
    /// Two providers have something of the same name.
    Duplicate {
        /// What it is: a tool, a resource, a prompt.
        what: &'static str,
        /// The name.
        name: String,
    },
}

impl std::fmt::Display for HubError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Duplicate { what, name } => write!(f, "two providers have a {what} named `{name}`"),
        }
    }
}

impl std::error::Error for HubError {}

impl Listed {
    /// Asks all providers. The first of two equal names counts; the second is reported.
    fn ask(providers: &[Box<dyn Provider>]) -> (Self, Option<HubError>) {
        let mut duplicate = None;
        let mut note = |what, name: &str, known: bool| {
            if known && duplicate.is_none() {
                duplicate = Some(HubError::Duplicate { what, name: name.to_owned() });
            }
            !known
        };
        let (mut tools, mut tool_routes) = (Vec::new(), HashMap::new());
        let (mut resources, mut resource_routes) = (Vec::new(), HashMap::new());
        let (mut templates, mut template_routes) = (Vec::new(), Vec::new());
        let (mut prompts, mut prompt_routes) = (Vec::new(), HashMap::new());
        for (index, provider) in providers.iter().enumerate() {
            for tool in provider.tools() {
                if note("tool", &tool.name, tool_routes.contains_key(&tool.name)) {
                    tool_routes.insert(tool.name.clone(), (tools.len(), index));
                    tools.push(tool);
                }
            }
            for resource in provider.resources() {
                if note("resource", &resource.uri, resource_routes.contains_key(&resource.uri)) {
                    resource_routes.insert(resource.uri.clone(), index);
                    resources.push(resource);
                }
            }
            for template in provider.templates() {
                templates.push(template);
                template_routes.push(index);
            }
            for prompt in provider.prompts() {
                if note("prompt", &prompt.name, prompt_routes.contains_key(&prompt.name)) {
                    prompt_routes.insert(prompt.name.clone(), index);
                    prompts.push(prompt);
                }
            }
        }
        let listed = Self {
            checks: tools.iter().map(|_| Checks::default()).collect(),
            tools: tools.into(),
            tool_routes,
            resources: resources.into(),
            resource_routes,
            templates: templates.into(),
            template_routes,
            prompts: prompts.into(),
            prompt_routes,
        };
        (listed, duplicate)
    }

    /// Who has the resource of a URI: by name, else by a template that it follows.
    fn provider_of(&self, uri: &str) -> Option<usize> {
        let by_template = || {
            let mut templates = self.templates.iter().zip(&self.template_routes);
            templates.find(|(template, _)| template.variables(uri).is_some()).map(|(_, provider)| *provider)
        };
        self.resource_routes.get(uri).copied().or_else(by_template)
    }
}

impl Inner {
    fn listed(&self) -> Arc<Listed> {
        Arc::clone(&self.listed.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Something changed: asks for the lists again if it was one of them, then tells every session.
    pub(crate) fn changed(&self, notice: Notice) {
        if matches!(notice, Notice::ToolsChanged | Notice::ResourcesChanged | Notice::PromptsChanged) {
            let (listed, _) = Listed::ask(&self.providers);
            *self.listed.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(listed);
        }
        // Nobody listening is no failure.
        let _ = self.changes.send(notice);
    }

    /// What one provider answers. One that panics fails its call, not the session: it is shared and gets nothing by
    /// `&mut`, so there is no state of ours that it could have left half changed.
    fn guarded(&self, provider: usize, answer: impl FnOnce(&dyn Provider) -> Answer) -> Answer {
        let answer = AssertUnwindSafe(|| answer(&*self.providers[provider]));
        catch_unwind(answer).unwrap_or_else(|_| Answer::Now(Err(Failure::panicked())))
    }
}

impl Hub {
    /// A hub in front of these providers; what they have is shown in this order.
    pub fn new(providers: Vec<Box<dyn Provider>>) -> Result<Self, HubError> {
        let (listed, duplicate) = Listed::ask(&providers);
        if let Some(error) = duplicate {
            return Err(error);
        }
        let inner = Arc::new(Inner {
            providers,
            listed: RwLock::new(Arc::new(listed)),
            watched: Mutex::default(),
            changes: broadcast::Sender::new(CHANGES),
            validating: AtomicBool::new(false),
        });
        let bell = Bell { hub: Arc::downgrade(&inner) };
        inner.providers.iter().for_each(|provider| provider.attach(&bell));
        Ok(Self { inner, bell })
    }

    /// Holds arguments and structured results to the tools' schemas, or leaves that to the tools (the default).
    pub fn validating(self, validating: bool) -> Self {
        self.inner.validating.store(validating, Ordering::Relaxed);
        self
    }

    /// Answers a call, now or later.
    pub fn answer(&self, call: Call<'_>, agreement: &Arc<Agreement>, caller: &Arc<dyn Caller>) -> Answer {
        let context = Context { call: call.id, agreement, caller, bell: &self.bell };
        let inner = &*self.inner;
        let listed = inner.listed();
        let now = |outcome: Outcome| Answer::Now(outcome);
        match call.operation {
            Operation::CallTool(tool) => self.call_tool(tool, call.task, listed, &context),
            Operation::ListTools => now(Ok(Reply::Tools(Arc::clone(&listed.tools)))),
            Operation::ListResources => now(Ok(Reply::Resources(Arc::clone(&listed.resources)))),
            Operation::ListTemplates => now(Ok(Reply::Templates(Arc::clone(&listed.templates)))),
            Operation::ListPrompts => now(Ok(Reply::Prompts(Arc::clone(&listed.prompts)))),
            Operation::ReadResource(uri) => match listed.provider_of(&uri) {
                Some(provider) => inner.guarded(provider, |provider| provider.read(&uri, &context)),
                None => now(Err(Failure::unknown_resource(&uri))),
            },
            Operation::Watch(uri) => match listed.provider_of(&uri) {
                Some(provider) => {
                    let mut watched = inner.watched.lock().unwrap_or_else(PoisonError::into_inner);
                    let count = watched.entry(uri.clone().into_owned()).or_default();
                    *count += 1;
                    if *count == 1 {
                        inner.providers[provider].watch(&uri);
                    }
                    now(Ok(Reply::Done))
                }
                None => now(Err(Failure::unknown_resource(&uri))),
            },
            Operation::GetPrompt(prompt) => match listed.prompt_routes.get(prompt.name.as_ref()) {
                Some(&provider) => inner.guarded(provider, |provider| provider.prompt(prompt, &context)),
                None => now(Err(Failure::unknown_prompt(&prompt.name))),
            },
            Operation::Complete(completion) => {
                let provider = match &completion.of {
                    CompletionOf::Prompt(name) => listed.prompt_routes.get(name.as_ref()).copied(),
                    CompletionOf::Template(uri) => {
                        let mut templates = listed.templates.iter().zip(&listed.template_routes);
                        let named = templates.find(|(template, _)| template.uri_template == *uri);
                        named.map(|(_, provider)| *provider).or_else(|| listed.provider_of(uri))
                    }
                };
                match (provider, &completion.of) {
                    (Some(provider), _) => inner.guarded(provider, |provider| provider.complete(completion, &context)),
                    (None, CompletionOf::Prompt(name)) => now(Err(Failure::unknown_prompt(name))),
                    (None, CompletionOf::Template(uri)) => now(Err(Failure::unknown_resource(uri))),
                }
            }
        }
    }

    fn call_tool(&self, call: ToolCall<'_>, wish: TaskWish, listed: Arc<Listed>, context: &Context<'_>) -> Answer {
        let Some(&(tool, provider)) = listed.tool_routes.get(call.name.as_ref()) else {
            return Answer::Now(Err(Failure::unknown_tool(&call.name)));
        };
        let as_task = match (wish, listed.tools[tool].tasks) {
            (TaskWish::Never | TaskWish::Able, TaskSupport::Forbidden) | (TaskWish::Never, TaskSupport::Optional) => {
                false
            }
            (TaskWish::Able | TaskWish::Only, TaskSupport::Optional | TaskSupport::Required) => true,
            (TaskWish::Only, TaskSupport::Forbidden) => {
                let message = format!("{} cannot be had as a task", call.name);
                return Answer::Now(Err(Failure::new(FailureKind::NotAsTask, message)));
            }
            (TaskWish::Never, TaskSupport::Required) => {
                let message = format!("{} can only be had as a task", call.name);
                return Answer::Now(Err(Failure::new(FailureKind::OnlyAsTask, message)));
            }
        };
        let validating = self.inner.validating.load(Ordering::Relaxed);
        if validating && let Err(failure) = listed.checks[tool].arguments(&listed.tools[tool], &call.arguments) {
            return Answer::Now(Err(failure));
        }
        let answer = self.inner.guarded(provider, |provider| provider.call(call, context));
        let answer = if validating { checked(answer, listed, tool) } else { answer };
        match answer {
            Answer::Now(outcome) if as_task => Answer::AsTask(Box::pin(std::future::ready(outcome))),
            Answer::Later(work) if as_task => Answer::AsTask(work),
            answer => answer,
        }
    }

    /// Takes back one [`Operation::Watch`].
    pub fn unwatch(&self, uri: &str) {
        let mut watched = self.inner.watched.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(count) = watched.get_mut(uri) else { return };
        *count -= 1;
        if *count == 0 {
            watched.remove(uri);
            if let Some(provider) = self.inner.listed().provider_of(uri) {
                self.inner.providers[provider].unwatch(uri);
            }
        }
    }

    /// What changes for everybody, from now on.
    pub fn changes(&self) -> broadcast::Receiver<Notice> {
        self.inner.changes.subscribe()
    }

    /// What the providers do together beyond answering calls.
    pub fn features(&self) -> Features {
        let all = self.inner.providers.iter().map(|provider| provider.features());
        all.fold(Features::default(), |sum, one| Features {
            completions: sum.completions || one.completions,
            resource_updates: sum.resource_updates || one.resource_updates,
            tool_changes: sum.tool_changes || one.tool_changes,
            resource_changes: sum.resource_changes || one.resource_changes,
            prompt_changes: sum.prompt_changes || one.prompt_changes,
        })
    }

    /// All tools as they are now, in a fixed order.
    pub fn tools(&self) -> Arc<[Tool]> {
        Arc::clone(&self.inner.listed().tools)
    }

    /// All resources as they are now, in a fixed order.
    pub fn resources(&self) -> Arc<[Resource]> {
        Arc::clone(&self.inner.listed().resources)
    }

    /// All templates as they are now, in a fixed order.
    pub fn templates(&self) -> Arc<[Template]> {
        Arc::clone(&self.inner.listed().templates)
    }

    /// All prompts as they are now, in a fixed order.
    pub fn prompts(&self) -> Arc<[Prompt]> {
        Arc::clone(&self.inner.listed().prompts)
    }
}

/// The same answer, with its result held to the tool's schema.
fn checked(answer: Answer, listed: Arc<Listed>, tool: usize) -> Answer {
    if listed.tools[tool].output_schema.is_none() {
        return answer;
    }
    let check = move |outcome: Outcome| {
        let reply = outcome?;
        listed.checks[tool].reply(&listed.tools[tool], &reply)?;
        Ok(reply)
    };
    let later = |work: Work, check: Box<dyn FnOnce(Outcome) -> Outcome + Send>| -> Work {
        Box::pin(async move { check(work.await) })
    };
    match answer {
        Answer::Now(outcome) => Answer::Now(check(outcome)),
        Answer::Later(work) => Answer::Later(later(work, Box::new(check))),
        Answer::TaskLater(work) => Answer::TaskLater(later(work, Box::new(check))),
        Answer::AsTask(work) => Answer::AsTask(later(work, Box::new(check))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gladhand_operations::call::no_arguments;
    use gladhand_operations::{CallId, FailureKind, ToolCall, ToolResult};
    use gladhand_wire::json;

    #[derive(Debug)]
    struct Named(&'static [&'static str]);

    impl Provider for Named {
        fn tools(&self) -> Vec<Tool> {
            self.0.iter().map(|name| Tool::new(*name, "", json::raw(r#"{"type":"object"}"#.to_owned()))).collect()
        }

        fn call(&self, call: ToolCall<'_>, _: &Context<'_>) -> Answer {
            Answer::Now(Ok(Reply::Tool(ToolResult::text(&format!("{} of {:?}", call.name, self.0)))))
        }
    }

    #[derive(Debug)]
    struct Nobody;

    impl Caller for Nobody {
        fn tell(&self, _: Notice) {}
        fn ask(&self, _: CallId, _: Vec<crate::Asking>) {}
    }

    #[derive(Debug)]
    struct Clumsy;

    impl Provider for Clumsy {
        fn tools(&self) -> Vec<Tool> {
            Named(&["stumble"]).tools()
        }

        fn call(&self, _: ToolCall<'_>, _: &Context<'_>) -> Answer {
            panic!("over its own feet")
        }
    }

    #[test]
    fn a_provider_that_panics_fails_its_call_and_nothing_else() {
        let hub = Hub::new(vec![Box::new(Clumsy), Box::new(Named(&["a"]))]).unwrap();
        let nobody: Arc<dyn Caller> = Arc::new(Nobody);
        let agreement = Arc::new(agreement());
        let answer = |name: &'static str| {
            let operation = Operation::CallTool(ToolCall { name: name.into(), arguments: no_arguments() });
            match hub.answer(Call::new(CallId(1), operation), &agreement, &nobody) {
                Answer::Now(outcome) => outcome.map_err(|failure| failure.kind),
                Answer::Later(_) | Answer::TaskLater(_) | Answer::AsTask(_) => panic!("it was to answer at once"),
            }
        };
        assert!(matches!(answer("stumble"), Err(FailureKind::Internal)));
        assert!(matches!(answer("a"), Ok(Reply::Tool(_))));
    }

    fn agreement() -> Agreement {
        use gladhand_accord::{Defined, Minimum, Offer, Peer, Rules, VersionRule, agree};
        let rules = Rules {
            dialect: "test",
            versions: VersionRule::Common,
            minimum: Minimum::Nothing,
            defines: |_, _, _| Defined::Yes,
        };
        let offer = Offer::new(Peer::default(), ["1"]);
        agree(&rules, &offer, &offer).expect("one version on both sides")
    }

    #[test]
    fn two_tools_of_one_name_are_refused() {
        let error = Hub::new(vec![Box::new(Named(&["a", "b"])), Box::new(Named(&["b"]))]).unwrap_err();
        assert_eq!(error, HubError::Duplicate { what: "tool", name: "b".to_owned() });
    }

    #[test]
    fn tools_keep_the_order_of_their_providers() {
        let hub = Hub::new(vec![Box::new(Named(&["z", "b"])), Box::new(Named(&["a"]))]).unwrap();
        assert_eq!(hub.tools().iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), ["z", "b", "a"]);
    }
}
