//! The calls of the hub to its governor: for the lists that a caller sees, and for each operation on a thing of a
//! provider.
//!
//! All operations take the same path: the operation resolves to exactly one target, policy decides on the target,
//! limits count it, and the audit file names it.

use std::borrow::Cow;
use std::sync::Arc;

use gladhand_core::negotiation::Agreement;
use gladhand_core::operations::{
    CallId, CompletionCall, CompletionOf, Failure, FailureKind, Operation, Origin, Terms, WatchId,
};
use gladhand_core::wire::{Members, RawValue, json};

use crate::call_observers::{ObservedCall, name, sent};
use crate::hub::Hub;
use crate::policy::{ConsentRequest, Course, Governor, View, Who};
use crate::provider::{Answer, Caller, Context};
use crate::routes::{Routes, Target};
use crate::routing::{ResolvedCall, missing};
use crate::watched::{Change, Subscriber};

impl Hub {
    /// The view of the caller, or `None` if it sees everything.
    pub(crate) fn view(&self, routes: &Routes, context: &Context<'_>) -> Option<Arc<View>> {
        self.governor()?.view(&Who::of(context), routes)
    }

    /// The origin of the tool that a caller would call now by this name. `None` if there is none, or if it is one of
    /// the hub's own tools.
    pub fn origin(
        &self,
        name: &str,
        terms: &Terms<'_>,
        agreement: &Arc<Agreement>,
        caller: &Arc<dyn Caller>,
    ) -> Option<Arc<Origin>> {
        let routes = self.inner.routes_for(terms, agreement, caller.session());
        let context = Context { call: CallId(0), terms, agreement, caller, notifier: &self.notifier };
        let place = match self.view(&routes, &context) {
            Some(view) => view.tool(name),
            None => routes.place_of(name),
        };
        place.and_then(|place| routes.tools[place].origin.clone())
    }

    /// Carries out an operation, if policy allows it. `target`: what [`Routes::target`] says about it, if that is known.
    pub(crate) fn answer_governed(
        &self,
        governor: &Arc<Governor>,
        operation: Operation<'_>,
        target: Option<Target>,
        routes: Arc<Routes>,
        context: &Context<'_>,
        observed: Option<&Arc<ObservedCall>>,
    ) -> Answer {
        let view = self.view(&routes, context);
        let shows = |mount| view.as_ref().is_none_or(|view| view.shows(mount));
        let target = match (&operation, &view) {
            (Operation::CallTool(call), Some(view)) => view.tool(&call.name).map(Target::Tool),
            _ => target.or_else(|| routes.target(&operation)).filter(|target| shows(routes.mount_of(target))),
        };
        let target = target.or_else(|| routes.unlisted_target(&operation, shows));
        let Some(target) = target else { return refused(missing(&operation, &routes, view.as_deref())) };
        let course = {
            let what = routes.what(&target, name(&operation));
            observed.inspect(|call| call.leads_to(what.upstream, what.own));
            if let Some(why) = routes.stopped.why(&what) {
                observed.inspect(|call| call.decided_by("pin"));
                return refused(Failure::new(FailureKind::Denied, why));
            }
            if let Some(why) = routes.refusal(&target) {
                observed.inspect(|call| call.decided_by("invisible"));
                return refused(Failure::new(FailureKind::Denied, why));
            }
            governor.course(&what, &arguments(&operation), context, observed.map(|call| &**call))
        };
        if let Course::Refused(failure) = course {
            return refused(failure);
        }
        let resolved = match self.resolve(operation, target, routes, context) {
            Ok(resolved) => resolved,
            Err(failure) => return refused(failure),
        };
        match course {
            Course::AskFirst { rule, reason } => {
                self.ask_first(governor, resolved.into_owned(), (rule, reason), context, observed)
            }
            _ => self.run_admitted(governor, resolved, context),
        }
    }

    /// Runs a resolved call within the limits.
    fn run_admitted(&self, governor: &Governor, resolved: ResolvedCall<'_>, context: &Context<'_>) -> Answer {
        match governor.admit(&resolved.routes.what(&resolved.target, name(&resolved.operation)), context) {
            Ok(permit) => permit.bound(self.run(resolved, context)),
            Err(failure) => refused(failure),
        }
    }

    /// Asks the caller, and runs the call if the answer is yes. The time that a person takes does not count against
    /// the limits.
    fn ask_first(
        &self,
        governor: &Arc<Governor>,
        resolved: ResolvedCall<'static>,
        (rule, reason): (String, String),
        context: &Context<'_>,
        observed: Option<&Arc<ObservedCall>>,
    ) -> Answer {
        let (hub, governor) = (self.clone(), Arc::clone(governor));
        let (id, terms, notifier) = (context.call, context.terms.clone().into_owned(), context.notifier.clone());
        let (agreement, caller, reporter) =
            (Arc::clone(context.agreement), Arc::clone(context.caller), context.reporter());
        let observed = observed.cloned();
        let is_tool = matches!(resolved.target, Target::Tool(_));
        let work = Box::pin(async move {
            let arguments = arguments(&resolved.operation).into_owned();
            let what = resolved.routes.what(&resolved.target, name(&resolved.operation));
            let request = ConsentRequest { what, arguments: &arguments, rule: &rule, reason: &reason };
            governor.ask(request, &reporter, caller.session(), observed.as_deref()).await?;
            let answer = {
                let context =
                    Context { call: id, terms: &terms, agreement: &agreement, caller: &caller, notifier: &notifier };
                hub.run_admitted(&governor, resolved, &context)
            };
            if matches!(answer, Answer::AsTask(_)) {
                reporter.go_on_as_task();
            }
            answer.outcome().await
        });
        // Only calls of tools can become tasks.
        if is_tool { Answer::TaskLater(work) } else { Answer::Later(work) }
    }
}

fn refused(failure: Failure) -> Answer {
    Answer::Now(Err(failure))
}

/// The subscribers that may not receive a change of a resource under the current policy. The decision is the same as
/// for a call.
pub(crate) fn denied(
    governor: &Governor,
    change: Change<'_>,
    subscribers: &[Arc<Subscriber>],
    routes: &Routes,
) -> Vec<WatchId> {
    let target = routes.place(change.provider).map(|mount| routes.resource_at(mount, change.own, change.shown));
    let what = target.as_ref().filter(|target| routes.refusal(target).is_none());
    let what = what.map(|target| routes.what(target, change.shown));
    let what = what.filter(|what| routes.stopped.why(what).is_none());
    let arguments = of_uri(change.shown);
    let may_hear = |one: &&Arc<Subscriber>| what.is_some_and(|what| governor.lets_hear(one, &what, &arguments));
    subscribers.iter().filter(|one| !may_hear(one)).map(|one| one.id).collect()
}

/// The arguments that rules check: arguments as they were sent, or the URI of a resource. For a completion of a prompt
/// argument, the arguments that are known so far.
fn arguments<'o>(operation: &'o Operation<'_>) -> Cow<'o, RawValue> {
    match operation {
        Operation::Complete(CompletionCall { of: CompletionOf::Prompt(_), argument, value, context }) => {
            with_context(argument, value, context.as_deref())
        }
        operation => match sent(operation) {
            Some(sent) => Cow::Borrowed(sent),
            None => Cow::Owned(of_uri(name(operation))),
        },
    }
}

/// An argument and the other known ones, as the caller wrote them. A duplicate name stays duplicate, so that rules on
/// arguments refuse it.
fn with_context<'c>(argument: &str, value: &str, context: Option<&'c RawValue>) -> Cow<'c, RawValue> {
    let own = json::to_raw(&serde_json::json!({ argument: value }));
    let Some(context) = context else { return Cow::Owned(own) };
    if Members::of(context).and_then(|known| known.str(argument)).as_deref() == Some(value) {
        return Cow::Borrowed(context);
    }
    fn members(object: &str) -> Option<&str> {
        object.trim().strip_prefix('{')?.strip_suffix('}').map(str::trim)
    }
    let own = members(own.get()).unwrap_or_default();
    // A context that is no object cannot be read. Repeating the argument makes the result ambiguous, so that rules
    // refuse it.
    let text = match members(context.get()).unwrap_or(own) {
        "" => format!("{{{own}}}"),
        others => format!("{{{own},{others}}}"),
    };
    Cow::Owned(json::raw(text))
}

fn of_uri(uri: &str) -> Box<RawValue> {
    json::to_raw(&serde_json::json!({ "uri": uri }))
}
