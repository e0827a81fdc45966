//! How a call finds who answers it.

use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use gladhand_accord::Agreement;
use gladhand_operations::{
    Call, CompletionCall, CompletionOf, Failure, FailureKind, Level, Log, Notice, Operation, Outcome, Reply,
    TaskSupport, TaskWish, Tool, ToolCall,
};
use gladhand_wire::json;

use crate::hub::{Hub, settle};
use crate::policy::Governor;
use crate::provider::{Answer, Caller, Context, Provider, Work};
use crate::routes::{Mount, Route, Routes};
use crate::stand_ins;

impl Hub {
    /// Answers a call, now or later.
    pub fn answer(&self, call: Call<'_>, agreement: &Arc<Agreement>, caller: &Arc<dyn Caller>) -> Answer {
        let routes = self.inner.routes_for(caller.session());
        if self.is_answerable(&call.operation, &routes) {
            return self.route(call, routes, agreement, caller);
        }
        let unsettled = self.unsettled();
        if unsettled.is_empty() {
            return self.route(call, routes, agreement, caller);
        }
        let (hub, call) = (self.clone(), call.into_owned());
        let (agreement, caller) = (Arc::clone(agreement), Arc::clone(caller));
        Answer::Later(Box::pin(async move {
            settle(unsettled).await;
            let routes = hub.inner.routes_for(caller.session());
            hub.route(call, routes, &agreement, &caller).outcome().await
        }))
    }

    /// Whether it is known who answers, so that nobody who is still finding out matters.
    fn is_answerable(&self, operation: &Operation<'_>, routes: &Routes) -> bool {
        match operation {
            Operation::CallTool(tool) => routes.place_of(&tool.name).is_some(),
            Operation::GetPrompt(prompt) => routes.prompt(&prompt.name).is_some(),
            Operation::ReadResource(uri) | Operation::Watch(uri) => routes.resource(uri).is_some(),
            Operation::Complete(completion) => routes.completion(&completion.of).is_some(),
            Operation::Capability(call) => routes.capability(call.capability).is_some(),
            Operation::Agent(_) => true,
            Operation::ListTools | Operation::ListResources | Operation::ListTemplates | Operation::ListPrompts => {
                false
            }
        }
    }

    fn route(
        &self,
        call: Call<'_>,
        routes: Arc<Routes>,
        agreement: &Arc<Agreement>,
        caller: &Arc<dyn Caller>,
    ) -> Answer {
        let context = Context { call: call.id, terms: &call.terms, agreement, caller, bell: &self.bell };
        let now = |outcome: Outcome| Answer::Now(outcome);
        // Whoever finds nothing because somebody could not be asked is told so.
        let listed = |is_empty: bool, reply| {
            let trouble = trouble(&routes);
            if let Some(failure) = trouble.as_ref().filter(|_| !is_empty) {
                let log = Log { level: Level::Warning, logger: None, data: json::to_raw(&failure.message) };
                caller.tell(Notice::Log(Some(call.id), log));
            }
            Answer::Now(trouble.filter(|_| is_empty).map_or(Ok(reply), Err))
        };
        let missing = |failure| Answer::Now(Err(trouble(&routes).unwrap_or(failure)));
        // A call of a tool looks for itself, and most there are.
        let is_call = matches!(call.operation, Operation::CallTool(_));
        let view = if is_call { None } else { self.view(&routes, &context) };
        let seen = |route: Option<Route>| route.filter(|to| view.as_ref().is_none_or(|view| view.shows(to.mount)));
        let logged = self.written_down(&call.operation, &routes, &context);
        let answer = match call.operation {
            Operation::CallTool(tool) => {
                let tool = routes.completed(tool, caller.session());
                if let Some(stand_in) = stand_ins::stand_in(&tool.name, &routes, agreement) {
                    let refused = |by: &Arc<Governor>| by.refuses(&stand_in.tool(), &tool.arguments, &context);
                    if let Some(failure) = self.governor().and_then(refused) {
                        return Answer::Now(Err(failure));
                    }
                    return match stand_in.operation(&tool) {
                        Ok(operation) => {
                            let meant = Call { id: call.id, operation, terms: call.terms.clone() };
                            let templates = Arc::clone(&routes.templates);
                            stand_ins::as_answer(self.route(meant, routes, agreement, caller), templates)
                        }
                        Err(failure) => Answer::Now(Err(failure)),
                    };
                }
                let answer = match self.governor() {
                    Some(governor) => self.call_governed(governor, tool, Arc::clone(&routes), &context),
                    None => self.call_tool(tool, Arc::clone(&routes), &context),
                };
                match answer {
                    Answer::Now(Err(failure)) if failure.kind == FailureKind::UnknownTool => missing(failure),
                    answer => answer,
                }
            }
            Operation::ListTools => {
                let tools = view.as_ref().map_or(&routes.tools, |view| &view.tools);
                let is_shown = |tool: &Tool| !self.governor().is_some_and(|by| by.hides(tool, &context));
                let tools = stand_ins::with_stand_ins(tools, &routes, agreement, is_shown);
                listed(tools.is_empty(), Reply::Tools(tools))
            }
            Operation::ListResources => {
                let resources = view.as_ref().map_or(&routes.resources, |view| &view.resources);
                listed(resources.is_empty(), Reply::Resources(Arc::clone(resources)))
            }
            Operation::ListTemplates => {
                let templates = view.as_ref().map_or(&routes.templates, |view| &view.templates);
                listed(templates.is_empty(), Reply::Templates(Arc::clone(templates)))
            }
            Operation::ListPrompts => {
                let prompts = view.as_ref().map_or(&routes.prompts, |view| &view.prompts);
                listed(prompts.is_empty(), Reply::Prompts(Arc::clone(prompts)))
            }
            Operation::ReadResource(uri) => match seen(routes.resource(&uri)) {
                Some(route) => guarded(&routes, route.mount, |provider| provider.read(&route.own, &context)),
                None => self.read_unlisted(&uri, &routes, &context),
            },
            Operation::Watch(uri) => match seen(routes.resource(&uri)) {
                Some(_) if self.watch(&uri, &routes) => now(Ok(Reply::Done)),
                _ => now(Err(Failure::unknown_resource(&uri))),
            },
            Operation::GetPrompt(prompt) => match seen(routes.prompt(&prompt.name).cloned()) {
                Some(route) => {
                    let prompt = ToolCall { name: Cow::Borrowed(&route.own), arguments: prompt.arguments };
                    guarded(&routes, route.mount, |provider| provider.prompt(prompt, &context))
                }
                None => missing(Failure::unknown_prompt(&prompt.name)),
            },
            Operation::Complete(completion) => match (seen(routes.completion(&completion.of)), &completion.of) {
                (Some(Route { mount, own }), of) => {
                    let of = match of {
                        CompletionOf::Prompt(_) => CompletionOf::Prompt(own.into()),
                        CompletionOf::Template(_) => CompletionOf::Template(own.into()),
                    };
                    let completion = CompletionCall { of, ..completion };
                    guarded(&routes, mount, |provider| provider.complete(completion, &context))
                }
                (None, CompletionOf::Prompt(name)) => now(Err(Failure::unknown_prompt(name))),
                (None, CompletionOf::Template(uri)) => now(Err(Failure::unknown_resource(uri))),
            },
            Operation::Agent(asked) => match self.agent() {
                Some(agent) => agent.ask(asked, &context),
                None => now(Err(Failure::no_agent())),
            },
            Operation::Capability(asked) => match routes.capability(asked.capability) {
                Some(mount) => guarded(&routes, mount, |provider| provider.serve(asked, &context)),
                None => missing(Failure::no_capability(asked.capability)),
            },
        };
        match logged {
            Some(logged) => logged.hold(answer),
            None => answer,
        }
    }

    /// Reads what nobody lists: whoever may have such is asked, one after the other.
    fn read_unlisted(&self, uri: &str, routes: &Arc<Routes>, context: &Context<'_>) -> Answer {
        let may_have_it = |mount: &Mount| mount.provider.features().unlisted_resources;
        let view = self.view(routes, context);
        let is_seen = |index: usize| view.as_ref().is_none_or(|view| view.shows(index));
        let mounts = routes.mounts.iter().enumerate();
        let candidates: Vec<usize> =
            mounts.filter(|(index, mount)| may_have_it(mount) && is_seen(*index)).map(|(index, _)| index).collect();
        match candidates[..] {
            [] => return Answer::Now(Err(Failure::unknown_resource(uri))),
            [one] => return guarded(routes, one, |provider| provider.read(uri, context)),
            _ => {}
        }
        let (uri, routes, bell) = (uri.to_owned(), Arc::clone(routes), self.bell.clone());
        let (call, terms) = (context.call, context.terms.clone().into_owned());
        let (agreement, caller) = (Arc::clone(context.agreement), Arc::clone(context.caller));
        Answer::later(async move {
            for candidate in candidates {
                let answer = {
                    let context = Context { call, terms: &terms, agreement: &agreement, caller: &caller, bell: &bell };
                    guarded(&routes, candidate, |provider| provider.read(&uri, &context))
                };
                match answer.outcome().await {
                    Err(failure) if failure.kind == FailureKind::UnknownResource => {}
                    outcome => return outcome,
                }
            }
            Err(Failure::unknown_resource(&uri))
        })
    }

    fn call_tool(&self, call: ToolCall<'_>, routes: Arc<Routes>, context: &Context<'_>) -> Answer {
        let Some(tool) = routes.place_of(&call.name) else {
            return Answer::Now(Err(Failure::unknown_tool(&call.name)));
        };
        match self.errand(call, tool, routes, context) {
            Ok(errand) => self.run(errand, context),
            Err(failure) => Answer::Now(Err(failure)),
        }
    }

    /// A call of a tool that can be made as it is.
    pub(crate) fn errand<'a>(
        &self,
        call: ToolCall<'a>,
        tool: usize,
        routes: Arc<Routes>,
        context: &Context<'_>,
    ) -> Result<Errand<'a>, Failure> {
        let as_task = is_task(&call.name, context.terms.task, routes.tools[tool].tasks)?;
        if self.inner.validating.load(Ordering::Relaxed) {
            routes.checks[tool].arguments(&routes.tools[tool], &call.arguments)?;
        }
        Ok(Errand { call, tool, as_task, routes })
    }

    /// Makes the call.
    pub(crate) fn run(&self, errand: Errand<'_>, context: &Context<'_>) -> Answer {
        let Errand { call, tool, as_task, routes } = errand;
        let Route { mount, own } = routes.route_of(tool);
        let call = ToolCall { name: Cow::Borrowed(own), arguments: call.arguments };
        let answer = guarded(&routes, *mount, |provider| provider.call(call, context));
        let validating = self.inner.validating.load(Ordering::Relaxed);
        let answer = if validating { checked(answer, routes, tool) } else { answer };
        match answer {
            Answer::Now(outcome) if as_task => Answer::AsTask(Box::pin(std::future::ready(outcome))),
            Answer::Later(work) if as_task => Answer::AsTask(work),
            answer => answer,
        }
    }
}

/// A call of a tool that can be made as it is.
#[derive(Debug)]
pub(crate) struct Errand<'a> {
    pub(crate) call: ToolCall<'a>,
    /// The tool's place in the routes.
    pub(crate) tool: usize,
    as_task: bool,
    pub(crate) routes: Arc<Routes>,
}

impl Errand<'_> {
    /// The same errand, free of the line it was read from.
    pub(crate) fn into_owned(self) -> Errand<'static> {
        Errand { call: self.call.into_owned(), tool: self.tool, as_task: self.as_task, routes: self.routes }
    }
}

/// What one provider answers. One that panics fails its call, not the session: it is shared and gets nothing by `&mut`,
/// so there is no state of ours that it could have left half changed.
fn guarded(routes: &Routes, mount: usize, answer: impl FnOnce(&dyn Provider) -> Answer) -> Answer {
    let answer = AssertUnwindSafe(|| answer(&*routes.mounts[mount].provider));
    let answer = catch_unwind(answer).unwrap_or_else(|_| Answer::Now(Err(Failure::panicked())));
    routes.invisible.answer(answer)
}

/// Why somebody does not know what it has, if there is such a one.
fn trouble(routes: &Routes) -> Option<Failure> {
    routes.mounts.iter().find_map(|mount| mount.provider.trouble()).map(|failure| routes.invisible.failure(failure))
}

/// Whether a call becomes a task, by what its caller wishes and what the tool can.
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

/// The same answer, with its result held to the tool's schema.
fn checked(answer: Answer, routes: Arc<Routes>, tool: usize) -> Answer {
    if routes.tools[tool].output_schema.is_none() {
        return answer;
    }
    let check = move |outcome: Outcome| {
        let reply = outcome?;
        routes.checks[tool].reply(&routes.tools[tool], &reply)?;
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
    use gladhand_operations::{CallId, ToolResult};

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
}
