//! Applies a policy to calls, and holds its mutable state: meters, consents and the audit log.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, RwLock};
use std::time::Instant;

use gladhand_core::negotiation::Agreement;
use gladhand_core::operations::{Failure, FailureKind};
use gladhand_core::sync::Unpoisoned as _;
use gladhand_core::wire::{RawValue, json};

use super::asking::{self, Consent};
use super::audit::{AuditObserver, Auditor, Record};
use super::limits::{Meters, Permit};
use super::pins::{Definition, DefinitionSource, PinMode, Pinboard, Standing, Stopped};
use super::view::View;
use super::{CallTarget, Decision, Kind, Policy, Who};
use crate::call_log;
use crate::call_observers::{CallObserver, ObservedCall, PolicyDecision};
use crate::provider::{Answer, Context, Listed, Reporter, SessionId, Settling, Work};
use crate::routes::Routes;
use crate::watched::Subscriber;

/// How often a comparison waits for new pins: others may be new each time.
const MOST_WAITS: usize = 8;

/// Applies a policy to a hub's calls.
#[derive(Debug, Default)]
pub struct Governor {
    in_force: RwLock<Arc<PolicyInForce>>,
    auditor: Option<Arc<dyn Auditor>>,
    pinboard: OnceLock<Arc<dyn Pinboard>>,
    /// Whether definitions are compared with pins. Kept here because every call needs to know it.
    is_pinning: AtomicBool,
    /// How often the pins were compared for all sessions. An older result may be outdated, because a user may have
    /// approved the change since.
    looks: AtomicU64,
    /// Definitions that have changed, by the names under which a user approves them.
    changed: Mutex<BTreeSet<String>>,
}

/// A policy, with the usage and the consents under it.
#[derive(Debug, Default)]
struct PolicyInForce {
    policy: Policy,
    /// Number of policies that were in force before.
    number: u64,
    meters: Arc<Meters>,
    hides_anything: bool,
    /// The consents for the rest of a session. They end with the policy, because another policy may use the same name
    /// for another rule.
    consents: Mutex<HashMap<SessionId, HashSet<Consented>>>,
}

/// The rule that asked, and the thing that was allowed: its kind, its provider and the provider's own name for it.
type Consented = (String, Kind, String, String);

impl PolicyInForce {
    fn after(&self, policy: Policy) -> Arc<Self> {
        let hides_anything = policy.hides_anything();
        let meters = Arc::new(self.meters.succeeded(&self.policy.limits, &policy.limits));
        Arc::new(Self { policy, number: self.number + 1, meters, hides_anything, consents: Mutex::default() })
    }

    fn has_consent(&self, session: SessionId, rule: &str, what: &CallTarget<'_>) -> bool {
        let is_it = |(by, kind, upstream, own): &Consented| {
            by == rule && *kind == what.kind && upstream == what.upstream && own == what.own
        };
        self.consents().get(&session).is_some_and(|given| given.iter().any(is_it))
    }

    fn consents(&self) -> MutexGuard<'_, HashMap<SessionId, HashSet<Consented>>> {
        self.consents.lock().unpoisoned()
    }
}

/// The decision on a call.
#[derive(Debug)]
pub(crate) enum Course {
    /// The call is made.
    Go,
    /// The call is made if the caller agrees.
    AskFirst {
        /// The rule that asks.
        rule: String,
        /// The reason.
        reason: String,
    },
    /// The call is refused.
    Refused(Failure),
}

impl Governor {
    /// A governor that applies this policy.
    pub fn new(policy: Policy) -> Self {
        let governor = Self::default();
        governor.replace(policy);
        governor
    }

    /// Records calls with this auditor.
    pub fn audited(self, auditor: Arc<dyn Auditor>) -> Self {
        Self { auditor: Some(auditor), ..self }
    }

    /// Pins the definitions of tools, as the policy says.
    pub fn pinning(self, pinboard: Arc<dyn Pinboard>) -> Self {
        self.pin_on(pinboard);
        self
    }

    /// Pins the definitions of tools from now on, as the policy says. Once only: later calls have no effect.
    pub fn pin_on(&self, pinboard: Arc<dyn Pinboard>) {
        let _ = self.pinboard.set(pinboard);
        self.note_pinning();
    }

    /// Whether definitions can be pinned.
    pub fn has_pinboard(&self) -> bool {
        self.pinboard.get().is_some()
    }

    /// Applies another policy from now on. Usage carries over for limits that stay the same. Consents for the rest of a
    /// session are asked for again. Returns whether any caller may see different lists: the hub shows them after
    /// [`crate::Hub::look_again`].
    pub fn replace(&self, policy: Policy) -> bool {
        let mut in_force = self.in_force.write().unpoisoned();
        let shows_something_else = !policy.shows_the_same_as(&in_force.policy);
        let next = in_force.after(policy);
        *in_force = next;
        drop(in_force);
        self.note_pinning();
        shows_something_else
    }

    fn note_pinning(&self) {
        let is_pinning = self.has_pinboard() && self.in_force().policy.pins != PinMode::Off;
        self.is_pinning.store(is_pinning, Ordering::Release);
    }

    /// Whether definitions are compared with pins. If so, no call may reach an upstream session whose own definitions
    /// were not compared.
    pub fn is_pinning(&self) -> bool {
        self.is_pinning.load(Ordering::Acquire)
    }

    /// How often the pins were compared so far. A result of [`Self::inspect`] is valid as long as this stays the same.
    pub fn looks(&self) -> u64 {
        self.looks.load(Ordering::Acquire)
    }

    /// Compares the definitions that an upstream sends in one session with the pins, after new pins are stored.
    pub async fn inspect(&self, upstream: &str, listed: &Listed, instructions: Option<&str>) -> Stopped {
        let definitions = Definition::all(upstream, listed, instructions);
        let mut stopped = self.compare(&definitions, DefinitionSource::Session);
        for _ in 0..MOST_WAITS {
            match self.storing() {
                Some(storing) => storing.await,
                // The pins were stored after the comparison.
                None if stopped.awaits_pins => {}
                None => break,
            }
            stopped = self.compare(&definitions, DefinitionSource::Session);
        }
        stopped
    }

    /// If pins are being stored: a future that ends when they are.
    pub(crate) fn storing(&self) -> Option<Settling> {
        if !self.is_pinning() {
            return None;
        }
        self.pinboard.get()?.storing()
    }

    /// Definitions that have changed, whether they are stopped or not.
    pub fn changed_definitions(&self) -> Vec<String> {
        self.changed.lock().unpoisoned().iter().cloned().collect()
    }

    /// Whether tools may be stopped and allowed again while sessions are open.
    pub fn stops_changes(&self) -> bool {
        self.has_pinboard() && self.in_force().policy.pins == PinMode::Stop
    }

    /// A session has ended.
    pub(crate) fn left(&self, session: SessionId) {
        let in_force = self.in_force();
        in_force.consents().remove(&session);
        in_force.meters.left(session);
    }

    /// The definitions in these routes that are stopped because they changed.
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
        self.compare(&tools.chain(prompts).chain(instructions).collect::<Vec<_>>(), DefinitionSource::Routes)
    }

    /// Compares definitions with the pins, and returns the stopped ones.
    fn compare(&self, seen: &[Definition], source: DefinitionSource) -> Stopped {
        let mut stopped = Stopped::default();
        let (mode, Some(pinboard)) = (self.in_force().policy.pins, self.pinboard.get()) else { return stopped };
        if mode == PinMode::Off || seen.is_empty() {
            return stopped;
        }
        for (definition, standing) in seen.iter().zip(pinboard.look(seen, source)) {
            let is_stopped = mode == PinMode::Stop;
            let (name, since) = match standing {
                Standing::Pinned => continue,
                Standing::Changed { name, since } => (name, since),
                Standing::Pending { name } => {
                    stopped.awaits_pins = true;
                    if is_stopped {
                        stopped.add(definition, format!("{name}: its pin is not stored yet; try again later"));
                    }
                    continue;
                }
                Standing::Unpinned { name, why } => {
                    let kind = tracing::field::display(definition.kind);
                    tracing::warn!(kind, name, why, is_stopped, "a definition cannot be pinned");
                    if is_stopped {
                        stopped.add(definition, format!("{name}: the definition cannot be compared: {why}"));
                    }
                    continue;
                }
            };
            if self.changed.lock().unpoisoned().insert(name.clone()) {
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

    /// The view of a caller, or `None` if it sees everything.
    pub(crate) fn view(&self, who: &Who<'_>, routes: &Routes) -> Option<Arc<View>> {
        let in_force = self.in_force();
        let is_partial = in_force.hides_anything || !routes.stopped.is_empty() || !routes.refused.is_empty();
        is_partial.then(|| routes.views.of(&in_force.policy, who, routes))
    }

    /// The observer that makes the audit records, if calls are recorded.
    pub(crate) fn observer(&self) -> Option<Arc<dyn CallObserver>> {
        let auditor = self.auditor.as_ref()?;
        Some(Arc::new(AuditObserver(Arc::clone(auditor))))
    }

    /// Records calls of tools that a transport refused because the principal's token lacks scopes.
    pub fn refused_for_scopes(&self, principal: &str, dialect: &'static str, tools: &[String]) {
        call_log::refused(principal, tools, SCOPES);
        let Some(auditor) = &self.auditor else { return };
        tools.iter().for_each(|tool| auditor.record(Record::out_of_scope(principal, dialect, tool, SCOPES)));
    }

    /// Records a request that was refused because the session has not negotiated the capability that it needs.
    pub fn declined(&self, who: &Who<'_>, agreement: &Agreement, (request, capability): (&str, &str)) {
        if let Some(auditor) = &self.auditor {
            auditor.record(Record::declined(who, agreement, request, capability));
        }
    }

    /// Decides on a call.
    pub(crate) fn course(
        &self,
        what: &CallTarget<'_>,
        arguments: &RawValue,
        context: &Context<'_>,
        observed: Option<&ObservedCall>,
    ) -> Course {
        let (who, in_force) = (Who::of(context), self.in_force());
        if let Some(scopes) = in_force.policy.lacking_scopes(&who, what, context.terms.record.as_deref()) {
            observed.inspect(|call| call.decided_by(SCOPES));
            return Course::Refused(out_of_scope(what.name, &scopes));
        }
        match in_force.policy.decide(&who, what, arguments) {
            Decision::Allow => {
                observed.inspect(|call| call.decided(PolicyDecision::Allow));
                Course::Go
            }
            Decision::Deny { rule, reason } => {
                observed.inspect(|call| call.decided_by(&rule));
                Course::Refused(denied(what.name, &rule, &reason))
            }
            Decision::Ask { rule, .. } if in_force.has_consent(who.session, &rule, what) => {
                observed.inspect(|call| call.decided(PolicyDecision::Allow));
                Course::Go
            }
            Decision::Ask { rule, reason } if asking::can_be_asked(context.agreement) => {
                observed.inspect(|call| call.decided(PolicyDecision::Ask));
                Course::AskFirst { rule, reason }
            }
            Decision::Ask { rule, reason } => {
                observed.inspect(|call| call.decided_by(&rule));
                let between = if reason.is_empty() { "" } else { "; " };
                let reason = format!("{reason}{between}a user must be asked first, and this client cannot ask");
                Course::Refused(denied(what.name, &rule, &reason))
            }
        }
    }

    /// The reason why a call is refused if no person can be asked. A rule that would ask then refuses, too.
    pub fn refuses(&self, what: &CallTarget<'_>, arguments: &RawValue, context: &Context<'_>) -> Option<Failure> {
        self.refusal(what, arguments, context).map(|(_, failure)| failure)
    }

    /// The same, with the rule that refuses.
    pub(crate) fn refusal(
        &self,
        what: &CallTarget<'_>,
        arguments: &RawValue,
        context: &Context<'_>,
    ) -> Option<(String, Failure)> {
        let (who, in_force) = (Who::of(context), self.in_force());
        if let Some(scopes) = in_force.policy.lacking_scopes(&who, what, context.terms.record.as_deref()) {
            return Some((SCOPES.to_owned(), out_of_scope(what.name, &scopes)));
        }
        match in_force.policy.decide(&who, what, arguments) {
            Decision::Allow => None,
            Decision::Deny { rule, reason } | Decision::Ask { rule, reason } => {
                let failure = denied(what.name, &rule, &reason);
                Some((rule, failure))
            }
        }
    }

    /// The number of the current policy, unique within this governor.
    pub(crate) fn policy_number(&self) -> u64 {
        self.in_force().number
    }

    /// Whether the current policy lets a subscriber receive a change of a resource. The consent of a person ends with
    /// the policy that asked for it.
    pub(crate) fn lets_hear(&self, subscriber: &Subscriber, what: &CallTarget<'_>, arguments: &RawValue) -> bool {
        let (who, in_force) = (subscriber.who(), self.in_force());
        let policy = &in_force.policy;
        policy.profile(&who).is_none_or(|profile| profile.shows_upstream(what.upstream))
            && policy.lacking_scopes(&who, what, None).is_none()
            && match policy.decide(&who, what, arguments) {
                Decision::Allow => true,
                Decision::Deny { .. } => false,
                Decision::Ask { rule, .. } => {
                    subscriber.policy == in_force.number || in_force.has_consent(who.session, &rule, what)
                }
            }
    }

    /// Whether a thing is denied to a caller regardless of the arguments, so that it is not listed.
    pub fn hides(&self, what: &CallTarget<'_>, context: &Context<'_>) -> bool {
        self.in_force().policy.denied_always(&Who::of(context), what).is_some()
    }

    /// Admits a call of a substitute tool. The underlying operation is decided, counted and recorded separately.
    pub(crate) fn admit_stand_in(
        &self,
        what: &CallTarget<'_>,
        arguments: &RawValue,
        context: &Context<'_>,
    ) -> Result<CallPermit, Failure> {
        match self.refuses(what, arguments, context) {
            Some(failure) => Err(failure),
            None => self.admit(what, context),
        }
    }

    /// Asks the caller whether a call may be made.
    pub(crate) async fn ask(
        &self,
        request: ConsentRequest<'_>,
        reporter: &Reporter,
        session: SessionId,
        observed: Option<&ObservedCall>,
    ) -> Result<(), Failure> {
        let ConsentRequest { what, arguments, rule, reason } = request;
        // If the policy is replaced while the person decides, the consent is not valid under the new policy.
        let in_force = self.in_force();
        let has_session = session != SessionId::NONE;
        let Some(question) = asking::question(what.name, arguments, reason, has_session) else {
            observed.inspect(|call| call.decided_by(rule));
            let why = "a person must allow it first, and the arguments are too long to be shown";
            return Err(denied(what.name, rule, why));
        };
        match asking::consent(&reporter.ask(question).await) {
            Consent::Once => Ok(()),
            Consent::Always => {
                if has_session {
                    let consented = (rule.to_owned(), what.kind, what.upstream.to_owned(), what.own.to_owned());
                    in_force.consents().entry(session).or_default().insert(consented);
                }
                Ok(())
            }
            Consent::Refused => {
                observed.inspect(|call| call.decided_by(rule));
                Err(denied(what.name, rule, "the user did not allow it"))
            }
        }
    }

    /// Admits a call, if the limits allow it.
    pub(crate) fn admit(&self, what: &CallTarget<'_>, context: &Context<'_>) -> Result<CallPermit, Failure> {
        let in_force = self.in_force();
        if in_force.policy.limits.is_empty() {
            return Ok(CallPermit(Permit::default()));
        }
        in_force.meters.admit(&in_force.policy.limits, &Who::of(context), what, Instant::now()).map(CallPermit)
    }

    fn in_force(&self) -> Arc<PolicyInForce> {
        Arc::clone(&self.in_force.read().unpoisoned())
    }
}

/// The call that a person is asked about.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConsentRequest<'a> {
    pub(crate) what: CallTarget<'a>,
    pub(crate) arguments: &'a RawValue,
    pub(crate) rule: &'a str,
    pub(crate) reason: &'a str,
}

/// Permission to make a call, with its limits.
#[derive(Debug)]
pub(crate) struct CallPermit(Permit);

impl CallPermit {
    /// The same answer, subject to the limits.
    pub(crate) fn bound(self, answer: Answer) -> Answer {
        if self.0.is_unbounded() {
            return answer;
        }
        match answer {
            Answer::Now(outcome) => Answer::Now(self.0.capped(outcome)),
            Answer::Later(work) => Answer::Later(self.bound_work(work)),
            Answer::TaskLater(work) => Answer::TaskLater(self.bound_work(work)),
            Answer::AsTask(work) => Answer::AsTask(self.bound_work(work)),
        }
    }

    fn bound_work(self, work: Work) -> Work {
        Box::pin(async move {
            let outcome = match self.0.timeout {
                None => work.await,
                Some(timeout) => match tokio::time::timeout(timeout, work).await {
                    Ok(outcome) => outcome,
                    Err(_) => Err(Permit::timed_out(timeout)),
                },
            };
            self.0.capped(outcome)
        })
    }
}

/// The rule name in the audit file for refusals because of scopes.
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
