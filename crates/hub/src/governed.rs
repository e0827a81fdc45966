//! Where a hub asks its governor: what is seen, and each call of a tool.

use std::sync::Arc;

use gladhand_operations::{Failure, FailureKind, Operation, ToolCall};

use crate::hub::Hub;
use crate::policy::{Asked, Course, Governor, Logged, View, Who};
use crate::provider::{Answer, Context};
use crate::routes::{Route, Routes};
use crate::routing::Errand;

impl Hub {
    /// What the caller gets to see, unless it is everything.
    pub(crate) fn view(&self, routes: &Routes, context: &Context<'_>) -> Option<Arc<View>> {
        self.governor()?.view(&Who::of(context), routes)
    }

    /// Begins to write down what is read or filled in, where calls are. A call of a tool writes down itself.
    pub(crate) fn written_down(
        &self,
        operation: &Operation<'_>,
        routes: &Routes,
        context: &Context<'_>,
    ) -> Option<Logged> {
        let governor = self.governor().filter(|governor| governor.is_audited())?;
        let (mut logged, route) = match operation {
            Operation::ReadResource(uri) => (governor.begin("resource", uri, None, context), routes.resource(uri)),
            Operation::GetPrompt(prompt) => {
                let logged = governor.begin("prompt", &prompt.name, Some(&prompt.arguments), context);
                (logged, routes.prompt(&prompt.name).cloned())
            }
            Operation::Capability(call) => {
                let logged = governor.begin("capability", call.kind, Some(&call.message), context);
                let to = |mount| Route { mount, own: call.capability.to_owned() };
                (logged, routes.capability(call.capability).map(to))
            }
            _ => return None,
        };
        if let Some(route) = route {
            logged.leads_to(routes.upstream(route.mount), &route.own);
        }
        Some(logged)
    }

    /// Calls a tool, as far as policy allows.
    pub(crate) fn call_governed(
        &self,
        governor: &Arc<Governor>,
        call: ToolCall<'_>,
        routes: Arc<Routes>,
        context: &Context<'_>,
    ) -> Answer {
        let mut logged = governor.begin("tool", &call.name, Some(&call.arguments), context);
        let place = match self.view(&routes, context) {
            Some(view) => view.tool(&call.name),
            None => routes.place_of(&call.name),
        };
        let Some(tool) = place else { return logged.refused(Failure::unknown_tool(&call.name)) };
        let what = routes.what(tool);
        logged.leads_to(what.upstream, what.own);
        if let Some(why) = routes.stopped.get(&tool) {
            logged.decided_by("pin");
            return logged.refused(Failure::new(FailureKind::Denied, why.clone()));
        }
        if let Some(why) = routes.refused.get(&tool) {
            logged.decided_by("invisible");
            return logged.refused(Failure::new(FailureKind::Denied, why.clone()));
        }
        let course = governor.course(&what, &call.arguments, context, &mut logged);
        if let Course::Refused(failure) = course {
            return logged.refused(failure);
        }
        let errand = match self.errand(call, tool, routes, context) {
            Ok(errand) => errand,
            Err(failure) => return logged.refused(failure),
        };
        match course {
            Course::AskFirst { rule, reason } => {
                self.ask_first(governor, errand.into_owned(), (rule, reason), context, logged)
            }
            _ => self.run_admitted(governor, errand, context, logged),
        }
    }

    /// Runs an errand within the limits.
    fn run_admitted(&self, governor: &Governor, errand: Errand<'_>, context: &Context<'_>, logged: Logged) -> Answer {
        match governor.admit(&errand.routes.what(errand.tool), context) {
            Ok(leave) => leave.hold(self.run(errand, context), logged),
            Err(failure) => logged.refused(failure),
        }
    }

    /// Asks the caller, and runs the errand if the answer is yes. A person's time is not held against the limits.
    fn ask_first(
        &self,
        governor: &Arc<Governor>,
        errand: Errand<'static>,
        (rule, reason): (String, String),
        context: &Context<'_>,
        mut logged: Logged,
    ) -> Answer {
        let (hub, governor) = (self.clone(), Arc::clone(governor));
        let (id, terms, bell) = (context.call, context.terms.clone().into_owned(), context.bell.clone());
        let (agreement, caller, reporter) =
            (Arc::clone(context.agreement), Arc::clone(context.caller), context.reporter());
        Answer::TaskLater(Box::pin(async move {
            let asked = Asked {
                tool: &errand.routes.tools[errand.tool].name,
                arguments: &errand.call.arguments,
                rule: &rule,
                reason: &reason,
            };
            if let Err(failure) = governor.ask(asked, &reporter, caller.session(), &mut logged).await {
                return logged.end(Err(failure));
            }
            let answer = {
                let context = Context { call: id, terms: &terms, agreement: &agreement, caller: &caller, bell: &bell };
                hub.run_admitted(&governor, errand, &context, logged)
            };
            if matches!(answer, Answer::AsTask(_)) {
                reporter.go_on_as_task();
            }
            answer.outcome().await
        }))
    }
}
