//! Applies a policy: what is counted, remembered and written down on the way.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::Instant;

use gladhand_core::negotiation::Agreement;
use gladhand_core::operations::{Failure, FailureKind, Outcome};
use gladhand_core::wire::{RawValue, json};

use super::asking::{self, Consent};
use super::audit::{Auditor, Entry, Record};
use super::limits::{Meters, Permit};
use super::pins::{Definition, PinMode, Pinboard, Standing, Stopped};
use super::view::View;
use super::{Decision, Kind, Policy, What, Who};
use crate::call_log;
use crate::provider::{Answer, Context, Listed, Reporter, SessionId, Work};
use crate::routes::Routes;
use crate::watched::Subscriber;

/// Applies a policy to a hub's calls.
#[derive(Debug, Default)]
pub struct Governor {
    regime: RwLock<Arc<Regime>>,
    auditor: Option<Arc<dyn Auditor>>,
    pinboard: OnceLock<Arc<dyn Pinboard>>,
    /// Whether definitions are compared with pins, for those who must know it with every call.
    is_pinning: AtomicBool,
    /// How often pins were looked at for all sessions: what was found before may have been approved since.
    looks: AtomicU64,
    /// Definitions that were seen to be not what they were, by the names under which they are approved.
    changed: Mutex<BTreeSet<String>>,
}

/// A policy, and what was used up and allowed under it.
#[derive(Debug, Default)]
struct Regime {
    policy: Policy,
    /// How many policies were in force before.
    number: u64,
    meters: Arc<Meters>,
    hides_anything: bool,
    /// What was allowed for the rest of a session. Under another policy the same name may be that of another rule.
    consents: Mutex<HashMap<SessionId, HashSet<Consented>>>,
}

/// The rule that asked, and what was allowed: its kind, its provider and what the provider calls it.
type Consented = (String, Kind, String, String);

impl Regime {
    fn after(&self, policy: Policy) -> Arc<Self> {
        let hides_anything = policy.hides_anything();
        let meters = Arc::new(self.meters.succeeded(&self.policy.limits, &policy.limits));
        Arc::new(Self { policy, number: self.number + 1, meters, hides_anything, consents: Mutex::default() })
    }

    fn has_consent(&self, session: SessionId, rule: &str, what: &What<'_>) -> bool {
        let is_it = |(by, kind, upstream, own): &Consented| {
            by == rule && *kind == what.kind && upstream == what.upstream && own == what.own
        };
        self.consents().get(&session).is_some_and(|given| given.iter().any(is_it))
    }

    fn consents(&self) -> MutexGuard<'_, HashMap<SessionId, HashSet<Consented>>> {
        self.consents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How a call goes on.
#[derive(Debug)]
pub(crate) enum Course {
    /// It is made.
    Go,
    /// It is made if the caller agrees.
    AskFirst {
        /// By which rule.
        rule: String,
        /// Why.
        reason: String,
    },
    /// It is not made.
    Refused(Failure),
}

impl Governor {
    /// Applies this policy.
    pub fn new(policy: Policy) -> Self {
        let governor = Self::default();
        governor.replace(policy);
        governor
    }

    /// Writes down calls.
    pub fn audited(self, auditor: Arc<dyn Auditor>) -> Self {
        Self { auditor: Some(auditor), ..self }
    }

    /// Pins the definitions of tools, as the policy says.
    pub fn pinning(self, pinboard: Arc<dyn Pinboard>) -> Self {
        self.pin_on(pinboard);
        self
    }

    /// Pins the definitions of tools from now on, as the policy says. Once only: where they are pinned already, it stays so.
    pub fn pin_on(&self, pinboard: Arc<dyn Pinboard>) {
        let _ = self.pinboard.set(pinboard);
        self.note_pinning();
    }

    /// Whether there is something to pin definitions on.
    pub fn has_pinboard(&self) -> bool {
        self.pinboard.get().is_some()
    }

    /// Applies another policy from now on. What was used up counts on for limits that stay the same; what was allowed for
    /// the rest of a session is asked for again. Returns whether anybody may get to see something else:
    /// [`crate::Hub::look_again`] makes it so.
    pub fn replace(&self, policy: Policy) -> bool {
        let mut regime = self.regime.write().unwrap_or_else(PoisonError::into_inner);
        let shows_something_else = !policy.shows_the_same_as(&regime.policy);
        let next = regime.after(policy);
        *regime = next;
        drop(regime);
        self.note_pinning();
        shows_something_else
    }

    fn note_pinning(&self) {
        let is_pinning = self.has_pinboard() && self.regime().policy.pins != PinMode::Off;
        self.is_pinning.store(is_pinning, Ordering::Release);
    }

    /// Whether definitions are compared with pins. Then no call may reach a session with an upstream whose definitions were
    /// not compared in that very session.
    pub fn is_pinning(&self) -> bool {
        self.is_pinning.load(Ordering::Acquire)
    }

    /// How often pins were looked at so far. What [`Self::inspect`] found holds as long as this stays the same.
    pub fn looks(&self) -> u64 {
        self.looks.load(Ordering::Acquire)
    }

    /// Compares what an upstream says of itself in one session with the pins.
    pub fn inspect(&self, upstream: &str, listed: &Listed, instructions: Option<&str>) -> Stopped {
        self.compare(&Definition::all(upstream, listed, instructions))
    }

    /// Definitions that were seen to be not what they were, stopped or not.
    pub fn changed_definitions(&self) -> Vec<String> {
        self.changed.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// Whether tools may be stopped and let back in while sessions are open.
    pub fn stops_changes(&self) -> bool {
        self.has_pinboard() && self.regime().policy.pins == PinMode::Stop
    }

    /// A session has ended.
    pub(crate) fn left(&self, session: SessionId) {
        self.regime().consents().remove(&session);
    }

    /// What is stopped because it is not what it was, of all that is shown.
    pub(crate) fn look(&self, routes: &Routes) -> Stopped {
        self.looks.fetch_add(1, Ordering::AcqRel);
        if !self.is_pinning() {
            return Stopped::default();
        }
        let tools = (0..routes.tools.len()).map(|index| {
            let (route, tool) = (routes.route_of(index), &routes.tools[index]);
            let definition = Definition::of_tool(routes.upstream(route.mount), &route.own, tool);
            Definition { shown: Some(tool.name.clone()), ..definition }
        });
        let prompts = routes.prompts.iter().filter_map(|prompt| {
            let route = routes.prompt(&prompt.name)?;
            let definition = Definition::of_prompt(routes.upstream(route.mount), &route.own, prompt);
            Some(Definition { shown: Some(prompt.name.clone()), ..definition })
        });
        let instructions = routes.mounts.iter().enumerate().filter_map(|(index, mount)| {
            Definition::of_instructions(routes.upstream(index), mount.provider.instructions().as_deref())
        });
        self.compare(&tools.chain(prompts).chain(instructions).collect::<Vec<_>>())
    }

    /// Compares definitions with the pins: which of them are stopped.
    fn compare(&self, seen: &[Definition]) -> Stopped {
        let mut stopped = Stopped::default();
        let (mode, Some(pinboard)) = (self.regime().policy.pins, self.pinboard.get()) else { return stopped };
        if mode == PinMode::Off || seen.is_empty() {
            return stopped;
        }
        for (definition, standing) in seen.iter().zip(pinboard.look(seen)) {
            let Standing::Changed { name, since } = standing else { continue };
            let is_stopped = mode == PinMode::Stop;
            if self.changed.lock().unwrap_or_else(PoisonError::into_inner).insert(name.clone()) {
                let kind = tracing::field::display(definition.kind);
                tracing::warn!(kind, name, since, is_stopped, "a pinned definition changed");
            }
            if is_stopped {
                let hint = format!("`gladhand policy approve {name}` lets it back in");
                stopped.add(definition, format!("{name}: the definition changed since {since}; {hint}"));
            }
        }
        stopped
    }

    /// What somebody gets to see, unless it is everything.
    pub(crate) fn view(&self, who: &Who<'_>, routes: &Routes) -> Option<Arc<View>> {
        let regime = self.regime();
        let is_partial = regime.hides_anything || !routes.stopped.is_empty() || !routes.refused.is_empty();
        is_partial.then(|| routes.views.of(&regime.policy, who, routes))
    }

    /// Begins to write down a call, where calls are written down.
    pub(crate) fn begin(
        &self,
        operation: &'static str,
        name: &str,
        arguments: Option<&RawValue>,
        context: &Context<'_>,
    ) -> Logged {
        Logged(self.auditor.as_ref().map(|auditor| Entry::begin(auditor, operation, name, arguments, context)))
    }

    /// Writes down calls of tools that a transport refused because the principal's token lacks scopes.
    pub fn refused_for_scopes(&self, principal: &str, dialect: &'static str, tools: &[String]) {
        call_log::refused(principal, tools, SCOPES);
        let Some(auditor) = &self.auditor else { return };
        tools.iter().for_each(|tool| auditor.record(Record::out_of_scope(principal, dialect, tool, SCOPES)));
    }

    /// Writes down a request that was refused because the capability that it needs is not in force in its session.
    pub fn declined(&self, who: &Who<'_>, agreement: &Agreement, (request, capability): (&str, &str)) {
        if let Some(auditor) = &self.auditor {
            auditor.record(Record::declined(who, agreement, request, capability));
        }
    }

    /// How a call goes on.
    pub(crate) fn course(
        &self,
        what: &What<'_>,
        arguments: &RawValue,
        context: &Context<'_>,
        logged: &mut Logged,
    ) -> Course {
        let (who, regime) = (Who::of(context), self.regime());
        if let Some(scopes) = regime.policy.lacking_scopes(&who, what, context.terms.record.as_deref()) {
            logged.decided_by(SCOPES);
            return Course::Refused(out_of_scope(what.name, &scopes));
        }
        match regime.policy.decide(&who, what, arguments) {
            Decision::Allow => Course::Go,
            Decision::Deny { rule, reason } => {
                logged.decided_by(&rule);
                Course::Refused(denied(what.name, &rule, &reason))
            }
            Decision::Ask { rule, .. } if regime.has_consent(who.session, &rule, what) => Course::Go,
            Decision::Ask { rule, reason } if asking::can_be_asked(context.agreement) => {
                Course::AskFirst { rule, reason }
            }
            Decision::Ask { rule, reason } => {
                logged.decided_by(&rule);
                let between = if reason.is_empty() { "" } else { "; " };
                let reason =
                    format!("{reason}{between}somebody must be asked first, and this client cannot ask anybody");
                Course::Refused(denied(what.name, &rule, &reason))
            }
        }
    }

    /// Why something may not be called, where no person can be asked first: then that is a refusal too.
    pub fn refuses(&self, what: &What<'_>, arguments: &RawValue, context: &Context<'_>) -> Option<Failure> {
        self.refusal(what, arguments, context).map(|(_, failure)| failure)
    }

    /// The same with the rule that refuses.
    pub(crate) fn refusal(
        &self,
        what: &What<'_>,
        arguments: &RawValue,
        context: &Context<'_>,
    ) -> Option<(String, Failure)> {
        let (who, regime) = (Who::of(context), self.regime());
        if let Some(scopes) = regime.policy.lacking_scopes(&who, what, context.terms.record.as_deref()) {
            return Some((SCOPES.to_owned(), out_of_scope(what.name, &scopes)));
        }
        match regime.policy.decide(&who, what, arguments) {
            Decision::Allow => None,
            Decision::Deny { rule, reason } | Decision::Ask { rule, reason } => {
                let failure = denied(what.name, &rule, &reason);
                Some((rule, failure))
            }
        }
    }

    /// Names the policy that holds now, while this governor lasts.
    pub(crate) fn policy_number(&self) -> u64 {
        self.regime().number
    }

    /// Whether a subscriber may hear of a change of a resource, by the policy that holds now. The consent of a person does
    /// not outlive the policy that asked for it.
    pub(crate) fn lets_hear(&self, subscriber: &Subscriber, what: &What<'_>, arguments: &RawValue) -> bool {
        let (who, regime) = (subscriber.who(), self.regime());
        let policy = &regime.policy;
        policy.profile(&who).is_none_or(|profile| profile.shows_upstream(what.upstream))
            && policy.lacking_scopes(&who, what, None).is_none()
            && match policy.decide(&who, what, arguments) {
                Decision::Allow => true,
                Decision::Deny { .. } => false,
                Decision::Ask { rule, .. } => {
                    subscriber.policy == regime.number || regime.has_consent(who.session, &rule, what)
                }
            }
    }

    /// Whether something is denied to a caller whatever the arguments, so that it is not to be listed.
    pub fn hides(&self, what: &What<'_>, context: &Context<'_>) -> bool {
        self.regime().policy.denied_always(&Who::of(context), what).is_some()
    }

    /// Leave to call a tool of ours that stands in for something else. What it leads to is decided, counted and written
    /// down by itself.
    pub(crate) fn admit_stand_in(
        &self,
        what: &What<'_>,
        arguments: &RawValue,
        context: &Context<'_>,
    ) -> Result<Leave, Answer> {
        let admitted = match self.refuses(what, arguments, context) {
            Some(failure) => Err(failure),
            None => self.admit(what, context),
        };
        admitted.map_err(|failure| self.begin("tool", what.name, Some(arguments), context).refused(failure))
    }

    /// Asks the caller whether a call may be made.
    pub(crate) async fn ask(
        &self,
        asked: Asked<'_>,
        reporter: &Reporter,
        session: SessionId,
        logged: &mut Logged,
    ) -> Result<(), Failure> {
        let Asked { what, arguments, rule, reason } = asked;
        // Who answers when another policy holds has not consented to anything in that.
        let regime = self.regime();
        let has_session = session != SessionId::NONE;
        let Some(question) = asking::question(what.name, arguments, reason, has_session) else {
            logged.decided_by(rule);
            let why = "a person must allow it first, and the arguments are too long to be shown";
            return Err(denied(what.name, rule, why));
        };
        match asking::consent(&reporter.ask(question).await) {
            Consent::Once => Ok(()),
            Consent::Always => {
                if has_session {
                    let consented = (rule.to_owned(), what.kind, what.upstream.to_owned(), what.own.to_owned());
                    regime.consents().entry(session).or_default().insert(consented);
                }
                Ok(())
            }
            Consent::Refused => {
                logged.decided_by(rule);
                Err(denied(what.name, rule, "whoever was asked did not allow it"))
            }
        }
    }

    /// Leave to make a call, if the limits have any left.
    pub(crate) fn admit(&self, what: &What<'_>, context: &Context<'_>) -> Result<Leave, Failure> {
        let regime = self.regime();
        if regime.policy.limits.is_empty() {
            return Ok(Leave(Permit::default()));
        }
        regime.meters.admit(&regime.policy.limits, &Who::of(context), what, Instant::now()).map(Leave)
    }

    fn regime(&self) -> Arc<Regime> {
        Arc::clone(&self.regime.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What a person is asked about.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) what: What<'a>,
    pub(crate) arguments: &'a RawValue,
    pub(crate) rule: &'a str,
    pub(crate) reason: &'a str,
}

/// A call as it is written down, or not.
#[derive(Debug)]
pub(crate) struct Logged(Option<Entry>);

impl Logged {
    /// Says where the call leads.
    pub(crate) fn leads_to(&mut self, upstream: &str, own: &str) {
        if let Some(entry) = &mut self.0 {
            entry.leads_to(upstream, own);
        }
    }

    /// Says which rule refused.
    pub(crate) fn decided_by(&mut self, rule: &str) {
        if let Some(entry) = &mut self.0 {
            entry.decided_by(rule);
        }
    }

    /// The end of a call.
    pub(crate) fn end(self, outcome: Outcome) -> Outcome {
        if let Some(entry) = self.0 {
            entry.end(&outcome);
        }
        outcome
    }

    /// The end of a call that was not made.
    pub(crate) fn refused(self, failure: Failure) -> Answer {
        Answer::Now(self.end(Err(failure)))
    }
}

/// Leave to make a call.
#[derive(Debug)]
pub(crate) struct Leave(Permit);

impl Leave {
    /// The same answer, within the bounds of the leave.
    pub(crate) fn bound(self, answer: Answer) -> Answer {
        self.hold(answer, Logged(None))
    }

    /// The same answer, within the bounds of the leave, written down when it is there.
    pub(crate) fn hold(self, answer: Answer, logged: Logged) -> Answer {
        if self.0.is_unbounded() && logged.0.is_none() {
            return answer;
        }
        match answer {
            Answer::Now(outcome) => Answer::Now(logged.end(self.0.capped(outcome))),
            Answer::Later(work) => Answer::Later(self.held(work, logged)),
            Answer::TaskLater(work) => Answer::TaskLater(self.held(work, logged)),
            Answer::AsTask(work) => Answer::AsTask(self.held(work, logged)),
        }
    }

    fn held(self, work: Work, logged: Logged) -> Work {
        Box::pin(async move {
            let outcome = match self.0.timeout {
                None => work.await,
                Some(timeout) => match tokio::time::timeout(timeout, work).await {
                    Ok(outcome) => outcome,
                    Err(_) => Err(Permit::timed_out(timeout)),
                },
            };
            logged.end(self.0.capped(outcome))
        })
    }
}

/// What decided where scopes did, in the audit file.
const SCOPES: &str = "tool_scopes";

fn out_of_scope(name: &str, scopes: &str) -> Failure {
    let data = Some(json::to_raw(&serde_json::json!({"rule": SCOPES, "scope": scopes})));
    Failure {
        data,
        ..Failure::new(FailureKind::Denied, format!("{name} needs a scope that was not granted: {scopes}"))
    }
}

fn denied(tool: &str, rule: &str, reason: &str) -> Failure {
    let why = if reason.is_empty() { String::new() } else { format!(": {reason}") };
    let message = format!("policy forbids {tool} (rule `{rule}`){why}");
    let data = Some(json::to_raw(&serde_json::json!({"rule": rule, "reason": reason})));
    Failure { data, ..Failure::new(FailureKind::Denied, message) }
}
