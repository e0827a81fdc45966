//! Finds the provider that answers a call.

use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use gladhand_core::negotiation::Agreement;
use gladhand_core::operations::{
    Call, CompletionCall, CompletionOf, Failure, FailureKind, Level, Log, Notice, Operation, Outcome, Party, Reply,
    TaskSupport, TaskWish, Tool, ToolCall,
};
use gladhand_core::validation::Validation;
use gladhand_core::wire::{json, values};

use crate::call_observers::{CallOrigin, Observation, ObservedCall, name};
use crate::hub::Hub;
use crate::policy::{CallTarget, Governor, View, Who};
use crate::provider::{Answer, Caller, Context, List, Provider, Work};
use crate::routes::{Mount, Route, Routes, Target};
use crate::stand_ins::{self, StandIn};

impl Hub {
    /// Answers a call, now or later.
    pub fn answer(&self, mut call: Call<'_>, agreement: &Arc<Agreement>, caller: &Arc<dyn Caller>) -> Answer {
        match self.inner.observers.begin(&mut call, CallOrigin::Client, agreement, caller) {
            None => self.find(call, agreement, caller, None),
            Some(observation) => {
                let answer = self.find(call, agreement, caller, Some(observation.call()));
                observation.until_answered(answer)
            }
        }
    }

    fn find(
        &self,
        call: Call<'_>,
        agreement: &Arc<Agreement>,
        caller: &Arc<dyn Caller>,
        observed: Option<&Arc<ObservedCall>>,
    ) -> Answer {
        let routes = self.inner.routes_for(&call.terms, agreement, caller.session());
        let is_pinned = self.storing_pins().is_none();
        if is_pinned {
            // If the provider is known, the call need not wait for providers without lists yet.
            let target = routes.target(&call.operation);
            if target.is_some() || matches!(call.operation, Operation::Agent(_)) {
                return self.route(call, target, routes, agreement, caller, observed);
            }
        }
        let mut unsettled = self.unsettled();
        {
            let context = Context { call: call.id, terms: &call.terms, agreement, caller, notifier: &self.notifier };
            unsettled.extend(routes.mounts.iter().filter_map(|mount| mount.provider.settling_for(&context)));
        }
        if is_pinned && unsettled.is_empty() {
            // The lists of this caller may have become known just now.
            let routes = self.inner.routes_for(&call.terms, agreement, caller.session());
            return self.route(call, None, routes, agreement, caller, observed);
        }
        let observed = observed.cloned();
        let (hub, call) = (self.clone(), call.into_owned());
        let (agreement, caller) = (Arc::clone(agreement), Arc::clone(caller));
        Answer::Later(Box::pin(async move {
            hub.settle(unsettled).await;
            let routes = hub.inner.routes_for(&call.terms, &agreement, caller.session());
            hub.route(call, None, routes, &agreement, &caller, observed.as_ref()).outcome().await
        }))
    }

    /// Carries out a call. `target`: what [`Routes::target`] says about it, if that is known.
    fn route(
        &self,
        call: Call<'_>,
        target: Option<Target>,
        routes: Arc<Routes>,
        agreement: &Arc<Agreement>,
        caller: &Arc<dyn Caller>,
        observed: Option<&Arc<ObservedCall>>,
    ) -> Answer {
        let context = Context { call: call.id, terms: &call.terms, agreement, caller, notifier: &self.notifier };
        let operation = match call.operation {
            Operation::CallTool(tool) => {
                let tool = routes.completed(tool, caller.session());
                if let Some(stand_in) = stand_ins::stand_in(&tool.name, &routes, agreement) {
                    return self.call_stand_in(stand_in, &tool, routes, &context, observed);
                }
                Operation::CallTool(tool)
            }
            Operation::Agent(asked) => {
                return match self.agent() {
                    Some(agent) => agent.ask(asked, &context),
                    None => Answer::Now(Err(Failure::no_agent())),
                };
            }
            Operation::ListTools | Operation::ListResources | Operation::ListTemplates | Operation::ListPrompts => {
                return self.list(&call.operation, &routes, &context);
            }
            operation => operation,
        };
        match self.governor() {
            Some(governor) => self.answer_governed(governor, operation, target, routes, &context, observed),
            None => {
                let target = target.or_else(|| routes.target(&operation));
                let target = target.or_else(|| routes.unlisted_target(&operation, |_| true));
                let Some(target) = target else { return Answer::Now(Err(missing(&operation, &routes, None))) };
                if let Some(call) = observed {
                    let what = routes.what(&target, name(&operation));
                    call.leads_to(what.upstream, what.own);
                }
                match self.resolve(operation, target, routes, &context) {
                    Ok(resolved) => self.run(resolved, &context),
                    Err(failure) => Answer::Now(Err(failure)),
                }
            }
        }
    }

    fn list(&self, operation: &Operation<'_>, routes: &Routes, context: &Context<'_>) -> Answer {
        let view = self.view(routes, context);
        let (list, is_empty, reply) = match operation {
            Operation::ListResources => {
                let resources = view.as_ref().map_or(&routes.resources, |view| &view.resources);
                (List::Resources, resources.is_empty(), Reply::Resources(Arc::clone(resources)))
            }
            Operation::ListTemplates => {
                let templates = view.as_ref().map_or(&routes.templates, |view| &view.templates);
                (List::Resources, templates.is_empty(), Reply::Templates(Arc::clone(templates)))
            }
            Operation::ListPrompts => {
                let prompts = view.as_ref().map_or(&routes.prompts, |view| &view.prompts);
                (List::Prompts, prompts.is_empty(), Reply::Prompts(Arc::clone(prompts)))
            }
            _ => {
                let tools = view.as_ref().map_or(&routes.tools, |view| &view.tools);
                let is_hidden =
                    |tool: &Tool, by: &Arc<Governor>| by.hides(&CallTarget::tool("", &tool.name, tool), context);
                let is_shown = |tool: &Tool| !self.governor().is_some_and(|by| is_hidden(tool, by));
                let tools = stand_ins::with_stand_ins(tools, routes, context.agreement, is_shown);
                (List::Tools, tools.is_empty(), Reply::Tools(tools))
            }
        };
        // If the list is empty because an upstream failed, the caller gets that failure.
        let trouble: Vec<_> = troubles(routes, list, view.as_deref()).map(|(_, failure)| failure).collect();
        for failure in trouble.iter().filter(|_| !is_empty) {
            let log = Log::new(Level::Warning, None, json::to_raw(&failure.message));
            context.caller.tell(Notice::Log(Some(context.call), log));
        }
        Answer::Now(together(trouble).filter(|_| is_empty).map_or(Ok(reply), Err))
    }

    /// Calls a substitute tool for a feature that the caller's dialect does not have.
    fn call_stand_in(
        &self,
        stand_in: StandIn,
        call: &ToolCall<'_>,
        routes: Arc<Routes>,
        context: &Context<'_>,
        observed: Option<&Arc<ObservedCall>>,
    ) -> Answer {
        let tool = stand_in.tool();
        let what = CallTarget::tool("", &tool.name, &tool);
        let permit = match self.governor().map(|governor| governor.admit_stand_in(&what, &call.arguments, context)) {
            Some(Err(refused)) => return Answer::Now(Err(refused)),
            permit => permit.and_then(Result::ok),
        };
        observed.inspect(|call| call.admitted_as_stand_in());
        let operation = match stand_in.operation(call) {
            Ok(operation) => operation,
            Err(failure) => return Answer::Now(Err(failure)),
        };
        let view = self.view(&routes, context);
        let templates = Arc::clone(view.as_ref().map_or(&routes.templates, |view| &view.templates));
        let mut meant = Call { id: context.call, operation, terms: context.terms.clone() };
        let observation =
            self.inner.observers.begin(&mut meant, CallOrigin::StandIn, context.agreement, context.caller);
        let observed = observation.as_ref().map(Observation::call);
        let answer = self.route(meant, None, routes, context.agreement, context.caller, observed);
        let answer = match observation {
            Some(observation) => observation.until_answered(answer),
            None => answer,
        };
        let answer = stand_ins::as_answer(answer, templates);
        match permit {
            Some(permit) => permit.bound(answer),
            None => answer,
        }
    }

    /// An operation that is ready to run.
    pub(crate) fn resolve<'a>(
        &self,
        operation: Operation<'a>,
        target: Target,
        routes: Arc<Routes>,
        context: &Context<'_>,
    ) -> Result<ResolvedCall<'a>, Failure> {
        let mut as_task = false;
        if let (Operation::CallTool(call), Target::Tool(tool)) = (&operation, &target) {
            as_task = is_task(&call.name, context.terms.task, routes.tools[*tool].tasks)?;
            if let Some(validation) = self.inner.validation() {
                routes.checks_of(*tool, &*validation).arguments(&routes.tools[*tool], &call.arguments)?;
            }
        }
        Ok(ResolvedCall { operation, target, as_task, routes })
    }

    /// Carries out a resolved call.
    pub(crate) fn run(&self, resolved: ResolvedCall<'_>, context: &Context<'_>) -> Answer {
        let ResolvedCall { operation, target, as_task, routes } = resolved;
        match (operation, target) {
            (Operation::CallTool(call), Target::Tool(tool)) => {
                let Route { mount, own, .. } = routes.route_of(tool);
                let call = ToolCall { name: Cow::Borrowed(own), arguments: call.arguments };
                let answer = guarded(&routes, *mount, |provider| provider.call(call, context));
                let answer = match self.inner.validation() {
                    Some(validation) => checked(answer, routes, tool, validation),
                    None => answer,
                };
                match answer {
                    Answer::Now(outcome) if as_task => Answer::AsTask(Box::pin(std::future::ready(outcome))),
                    Answer::Later(work) if as_task => Answer::AsTask(work),
                    answer => answer,
                }
            }
            (Operation::ReadResource(_), Target::Resource(to)) => {
                guarded(&routes, to.mount, |provider| provider.read(&to.own, context))
            }
            (Operation::Watch(uri), Target::Resource(_)) => {
                let watching = self.watch(&uri, &Who::of(context), context.terms.party, &routes);
                Answer::Now(watching.map(Reply::Watching))
            }
            (Operation::GetPrompt(prompt), Target::Prompt(to)) => {
                let prompt = ToolCall { name: Cow::Borrowed(&to.own), arguments: prompt.arguments };
                guarded(&routes, to.mount, |provider| provider.prompt(prompt, context))
            }
            (Operation::Complete(completion), Target::Prompt(to)) => {
                let completion = CompletionCall { of: CompletionOf::Prompt(to.own.into()), ..completion };
                guarded(&routes, to.mount, |provider| provider.complete(completion, context))
            }
            (Operation::Complete(completion), Target::Resource(to)) => {
                let completion = CompletionCall { of: CompletionOf::Template(to.own.into()), ..completion };
                guarded(&routes, to.mount, |provider| provider.complete(completion, context))
            }
            (Operation::Capability(asked), Target::Capability(_, mount)) => {
                // The provider reads the message into a tree, and may keep it as long as the call runs.
                let mut read = self.inner.messages.portion(context.terms.party.unwrap_or(Party(0)));
                if !read.grow(values::memory_of(asked.message.get())) {
                    let why = "the running requests of this client take too much memory";
                    return Answer::Now(Err(Failure::new(FailureKind::Busy, why)));
                }
                match guarded(&routes, mount, |provider| provider.serve(asked, context)) {
                    Answer::Later(work) => Answer::Later(Box::pin(async move {
                        let _read = read;
                        work.await
                    })),
                    answer => answer,
                }
            }
            (operation, _) => Answer::Now(Err(missing(&operation, &routes, None))),
        }
    }
}

/// An operation that is ready to run.
#[derive(Debug)]
pub(crate) struct ResolvedCall<'a> {
    pub(crate) operation: Operation<'a>,
    /// The target.
    pub(crate) target: Target,
    as_task: bool,
    pub(crate) routes: Arc<Routes>,
}

impl ResolvedCall<'_> {
    /// The same call, without borrows from the line that it was parsed from.
    pub(crate) fn into_owned(self) -> ResolvedCall<'static> {
        let Self { operation, target, as_task, routes } = self;
        ResolvedCall { operation: operation.into_owned(), target, as_task, routes }
    }
}

/// The failure of an operation on a target that no known provider has. It mentions only providers that the caller sees.
pub(crate) fn missing(operation: &Operation<'_>, routes: &Routes, view: Option<&View>) -> Failure {
    match operation {
        Operation::CallTool(call) => {
            let unknown = || Failure::unknown_tool(&call.name);
            trouble_with(routes, List::Tools, &call.name, view).unwrap_or_else(unknown)
        }
        Operation::GetPrompt(call) => {
            let unknown = || Failure::unknown_prompt(&call.name);
            trouble_with(routes, List::Prompts, &call.name, view).unwrap_or_else(unknown)
        }
        Operation::Capability(call) => {
            // A provider that could not be asked may serve it.
            let trouble = together(troubles(routes, List::Tools, view).map(|(_, failure)| failure).collect());
            trouble.unwrap_or_else(|| Failure::no_capability(call.capability))
        }
        Operation::ReadResource(uri) | Operation::Watch(uri) => Failure::unknown_resource(uri),
        Operation::Complete(CompletionCall { of: CompletionOf::Prompt(name), .. }) => Failure::unknown_prompt(name),
        Operation::Complete(CompletionCall { of: CompletionOf::Template(uri), .. }) => Failure::unknown_resource(uri),
        Operation::Agent(_) => Failure::no_agent(),
        Operation::ListTools | Operation::ListResources | Operation::ListTemplates | Operation::ListPrompts => {
            Failure::panicked()
        }
    }
}

/// The answer of one provider. A panic fails the call, not the session. The provider is shared and has no `&mut`
/// access, so it cannot leave state of the hub half changed.
fn guarded(routes: &Routes, mount: usize, answer: impl FnOnce(&dyn Provider) -> Answer) -> Answer {
    let answer = AssertUnwindSafe(|| answer(&*routes.mounts[mount].provider));
    let answer = catch_unwind(answer).unwrap_or_else(|_| Answer::Now(Err(Failure::panicked())));
    routes.invisible.answer(answer)
}

/// The reasons why visible providers do not know one of their lists, with their mounts.
fn troubles<'r>(routes: &'r Routes, list: List, view: Option<&'r View>) -> impl Iterator<Item = (&'r Mount, Failure)> {
    let is_seen = move |place: usize| view.is_none_or(|view| view.sees(place));
    let seen = routes.mounts.iter().enumerate().filter(move |(place, _)| is_seen(*place));
    seen.filter_map(move |(_, mount)| Some((mount, routes.invisible.failure(mount.provider.trouble(list)?))))
}

/// The reason why the provider that a name would belong to does not know its list. If several providers match, the
/// reasons of all of them.
fn trouble_with(routes: &Routes, list: List, name: &str, view: Option<&View>) -> Option<Failure> {
    let fitting = troubles(routes, list, view).filter_map(|(mount, failure)| Some((mount.naming.fits(name)?, failure)));
    let fitting: Vec<_> = fitting.collect();
    let closest = fitting.iter().map(|(fit, _)| *fit).max()?;
    together(fitting.into_iter().filter(|(fit, _)| *fit == closest).map(|(_, failure)| failure).collect())
}

/// One failure with the messages of all.
fn together(failures: Vec<Failure>) -> Option<Failure> {
    let message = failures.iter().map(|failure| failure.message.as_str()).collect::<Vec<_>>().join("; ");
    failures.into_iter().next().map(|first| Failure { message, ..first })
}

/// Whether a call becomes a task, given the caller's request and the tool's support.
fn is_task(name: &str, wish: TaskWish, support: TaskSupport) -> Result<bool, Failure> {
    match (wish, support) {
        (TaskWish::Never | TaskWish::Able, TaskSupport::Forbidden) | (TaskWish::Never, TaskSupport::Optional) => {
            Ok(false)
        }
        (TaskWish::Able | TaskWish::Only, TaskSupport::Optional | TaskSupport::Required) => Ok(true),
        (TaskWish::Only, TaskSupport::Forbidden) => {
            Err(Failure::new(FailureKind::NotAsTask, format!("{name} cannot be had as a task")))
        }
        (TaskWish::Never, TaskSupport::Required) => {
            Err(Failure::new(FailureKind::OnlyAsTask, format!("{name} can only be had as a task")))
        }
    }
}

/// The same answer, with its result validated against the tool's schema.
fn checked(answer: Answer, routes: Arc<Routes>, tool: usize, validation: Arc<dyn Validation>) -> Answer {
    if routes.tools[tool].output_schema.is_none() {
        return answer;
    }
    let check = move |outcome: Outcome| {
        let reply = outcome?;
        routes.checks_of(tool, &*validation).reply(&routes.tools[tool], &reply)?;
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
    use crate::{CapabilityProvider, ServerProvider};
    use gladhand_core::operations::call::no_arguments;
    use gladhand_core::operations::{CallId, CapabilityCall, Terms, ToolResult};
    use gladhand_core::wire::values::MAX_VALUES;

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
        fn ask(&self, _: Option<CallId>, _: Vec<crate::Asking>) {}
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

    /// Does not know its lists.
    #[derive(Debug)]
    struct Broken(&'static str);

    impl Provider for Broken {
        fn as_server(&self) -> Option<&dyn ServerProvider> {
            Some(self)
        }
    }

    impl ServerProvider for Broken {
        fn trouble(&self, list: List) -> Option<Failure> {
            let why = format!("upstream {} failed", self.0);
            (list == List::Tools).then(|| Failure::new(FailureKind::UpstreamLost, why))
        }
    }

    #[test]
    fn with_several_failed_providers_the_error_names_the_one_that_was_called() {
        let mount = |name: &'static str, prefix: &str| Mount {
            provider: Arc::new(Broken(name)),
            naming: crate::Naming::prefixed(prefix),
        };
        let hub = Hub::of(vec![mount("a", "a"), mount("b", "b"), mount("ab", "a__b")]);
        let nobody: Arc<dyn Caller> = Arc::new(Nobody);
        let agreement = Arc::new(agreement());
        let failure =
            |operation: Operation<'static>| match hub.answer(Call::new(CallId(1), operation), &agreement, &nobody) {
                Answer::Now(outcome) => outcome.err().map(|failure| failure.message),
                _ => panic!("it was to answer at once"),
            };
        let call = |name: &'static str| {
            let tool = ToolCall { name: name.into(), arguments: no_arguments() };
            failure(Operation::CallTool(tool)).unwrap()
        };
        assert_eq!(call("a__x"), "upstream a failed");
        assert_eq!(call("b__x"), "upstream b failed");
        assert_eq!(call("a__b__x"), "upstream ab failed", "the longest prefix counts");
        assert_eq!(call("c__x"), "unknown tool: c__x", "a name of none of them is unknown");
        let all = "upstream a failed; upstream b failed; upstream ab failed";
        assert_eq!(failure(Operation::ListTools).as_deref(), Some(all));
        assert_eq!(failure(Operation::ListPrompts), None, "that list is known");
    }

    fn agreement() -> Agreement {
        use gladhand_core::negotiation::{Defined, Minimum, Offer, Peer, Rules, VersionRule, agree};
        let rules = Rules {
            dialect: "test",
            versions: VersionRule::Common,
            minimum: Minimum::Nothing,
            defines: |_, _, _| Defined::Yes,
        };
        let offer = Offer::new(Peer::default(), ["1"]);
        agree(&rules, &offer, &offer).expect("one version on both sides")
    }

    /// A capability that never answers.
    #[derive(Debug)]
    struct Silent;

    impl Provider for Silent {
        fn as_capabilities(&self) -> Option<&dyn CapabilityProvider> {
            Some(self)
        }
    }

    impl CapabilityProvider for Silent {
        fn capabilities(&self) -> Vec<&'static str> {
            vec!["memory"]
        }

        fn serve(&self, _: CapabilityCall<'_>, _: &Context<'_>) -> Answer {
            Answer::Later(Box::pin(std::future::pending()))
        }
    }

    #[test]
    fn messages_of_running_requests_have_a_bound_that_parties_share() {
        let hub = Hub::new(vec![Box::new(Silent)]).expect("one provider");
        let (agreement, caller): (_, Arc<dyn Caller>) = (Arc::new(agreement()), Arc::new(Nobody));
        // Short text that becomes a large tree.
        let message = json::raw(format!("[{}]", vec![r#"{"":0}"#; MAX_VALUES / 4].join(",")));
        let ask = |party: u64| {
            let (kind, capability) = ("memory/store/req", "memory");
            let message = Cow::Borrowed(&*message);
            let operation = Operation::Capability(CapabilityCall { kind, capability, request: None, message });
            let terms = Terms { party: Some(Party(party)), ..Terms::default() };
            match hub.answer(Call { id: CallId(1), operation, terms }, &agreement, &caller) {
                Answer::Now(Err(failure)) => {
                    assert_eq!(failure.kind, FailureKind::Busy, "{failure}");
                    None
                }
                Answer::Now(Ok(_)) => panic!("it never answers"),
                answer => Some(answer),
            }
        };
        let first: Vec<_> = std::iter::from_fn(|| ask(1)).take(100).collect();
        assert!((2..20).contains(&first.len()), "{}", first.len());
        assert!(ask(2).is_some(), "another party has its share");
        drop(first);
        assert!(ask(1).is_some(), "a request that ends gives its memory back");
    }
}
