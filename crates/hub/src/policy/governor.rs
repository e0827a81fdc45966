//! Applies a policy: what is counted, remembered and written down on the way.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::Instant;

use gladhand_operations::{Failure, FailureKind, Outcome, Tool};
use gladhand_wire::{RawValue, json};

use super::asking::{self, Consent};
use super::audit::{Auditor, Entry};
use super::limits::{Meters, Permit};
use super::pins::{Definition, PinMode, Pinboard, Standing};
use super::view::View;
use super::{Decision, Policy, What, Who};
use crate::provider::{Answer, Context, Reporter, SessionId, Work};
use crate::routes::Routes;

/// Applies a policy to a hub's calls.
#[derive(Debug, Default)]
pub struct Governor {
    regime: RwLock<Arc<Regime>>,
    auditor: Option<Arc<dyn Auditor>>,
    pinboard: OnceLock<Arc<dyn Pinboard>>,
    /// Tools that were seen to be not what they were.
    changed: Mutex<BTreeSet<String>>,
}

/// A policy, and what was used up and allowed under it.
#[derive(Debug, Default)]
struct Regime {
    policy: Policy,
    meters: Arc<Meters>,
    hides_anything: bool,
    /// What was allowed for the rest of a session: the rule that asked, and the tool. Under another policy the same name may
    /// be that of another rule.
    consents: Mutex<HashMap<SessionId, HashSet<(String, String)>>>,
}

impl Regime {
    fn of(policy: Policy, meters: Arc<Meters>) -> Arc<Self> {
        let hides_anything = policy.hides_anything();
        Arc::new(Self { policy, meters, hides_anything, consents: Mutex::default() })
    }

    fn has_consent(&self, session: SessionId, rule: &str, tool: &str) -> bool {
        let consents = self.consents();
        consents.get(&session).is_some_and(|given| given.iter().any(|(by, to)| by == rule && to == tool))
    }

    fn consents(&self) -> MutexGuard<'_, HashMap<SessionId, HashSet<(String, String)>>> {
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
        Self { regime: RwLock::new(Regime::of(policy, Arc::default())), ..Self::default() }
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
    }

    /// Whether there is something to pin definitions on.
    pub fn has_pinboard(&self) -> bool {
        self.pinboard.get().is_some()
    }

    /// Applies another policy from now on. What was used up of limits counts on if they are the same; what was allowed for
    /// the rest of a session is asked for again. Returns whether anybody may get to see something else:
    /// [`crate::Hub::look_again`] makes it so.
    pub fn replace(&self, policy: Policy) -> bool {
        let mut regime = self.regime.write().unwrap_or_else(PoisonError::into_inner);
        let shows_something_else = !policy.shows_the_same_as(&regime.policy);
        let is_as_limited = policy.limits == regime.policy.limits;
        let meters = if is_as_limited { Arc::clone(&regime.meters) } else { Arc::default() };
        *regime = Regime::of(policy, meters);
        shows_something_else
    }

    /// Tools that were seen to be not what they were, stopped or not.
    pub fn changed_tools(&self) -> Vec<String> {
        self.changed.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// Whether tools may be stopped and let back in while sessions are open.
    pub(crate) fn stops_tools(&self) -> bool {
        self.has_pinboard() && self.regime().policy.pins == PinMode::Stop
    }

    /// A session has ended.
    pub(crate) fn left(&self, session: SessionId) {
        self.regime().consents().remove(&session);
    }

    /// Which tools are stopped because they are not what they were, and why: by their place in the routes.
    pub(crate) fn look(&self, routes: &Routes) -> HashMap<usize, String> {
        let (mode, Some(pinboard)) = (self.regime().policy.pins, self.pinboard.get()) else { return HashMap::new() };
        if mode == PinMode::Off || routes.tools.is_empty() {
            return HashMap::new();
        }
        let definition = |index| {
            let what = routes.what(index);
            Definition::of(what.upstream, what.own, what.tool)
        };
        let seen: Vec<_> = (0..routes.tools.len()).map(definition).collect();
        let mut stopped = HashMap::new();
        for (index, standing) in pinboard.look(&seen).into_iter().enumerate() {
            let Standing::Changed { since } = standing else { continue };
            let tool = &routes.tools[index].name;
            let is_stopped = mode == PinMode::Stop;
            if self.changed.lock().unwrap_or_else(PoisonError::into_inner).insert(tool.clone()) {
                tracing::warn!(tool, since, is_stopped, "the definition of a tool changed");
            }
            if is_stopped {
                let hint = format!("`gladhand policy approve {tool}` lets it back in");
                stopped.insert(index, format!("{tool}: the definition changed since {since}; {hint}"));
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

    /// Whether calls are written down.
    pub(crate) fn is_audited(&self) -> bool {
        self.auditor.is_some()
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

    /// How a call goes on.
    pub(crate) fn course(
        &self,
        what: &What<'_>,
        arguments: &RawValue,
        context: &Context<'_>,
        logged: &mut Logged,
    ) -> Course {
        let (who, regime) = (Who::of(context), self.regime());
        match regime.policy.decide(&who, what, arguments) {
            Decision::Allow => Course::Go,
            Decision::Deny { rule, reason } => {
                logged.decided_by(&rule);
                Course::Refused(denied(&what.tool.name, &rule, &reason))
            }
            Decision::Ask { rule, .. } if regime.has_consent(who.session, &rule, &what.tool.name) => Course::Go,
            Decision::Ask { rule, reason } if asking::can_be_asked(context.agreement) => {
                Course::AskFirst { rule, reason }
            }
            Decision::Ask { rule, reason } => {
                logged.decided_by(&rule);
                let between = if reason.is_empty() { "" } else { "; " };
                let reason =
                    format!("{reason}{between}somebody must be asked first, and this client cannot ask anybody");
                Course::Refused(denied(&what.tool.name, &rule, &reason))
            }
        }
    }

    /// Why a tool of our own, which stands in for something else, may not be called. Where somebody would have to be
    /// asked first, it may not: what it leads to is not asked about.
    pub(crate) fn refuses(&self, tool: &Tool, arguments: &RawValue, context: &Context<'_>) -> Option<Failure> {
        let what = What { upstream: "", own: &tool.name, tool };
        match self.regime().policy.decide(&Who::of(context), &what, arguments) {
            Decision::Allow => None,
            Decision::Deny { rule, reason } | Decision::Ask { rule, reason } => {
                Some(denied(&tool.name, &rule, &reason))
            }
        }
    }

    /// Whether a tool of our own is not to be shown to a caller.
    pub(crate) fn hides(&self, tool: &Tool, context: &Context<'_>) -> bool {
        let what = What { upstream: "", own: &tool.name, tool };
        self.regime().policy.denied_always(&Who::of(context), &what).is_some()
    }

    /// Asks the caller whether a call may be made.
    pub(crate) async fn ask(
        &self,
        asked: Asked<'_>,
        reporter: &Reporter,
        session: SessionId,
        logged: &mut Logged,
    ) -> Result<(), Failure> {
        let Asked { tool, arguments, rule, reason } = asked;
        // Who answers when another policy holds has not consented to anything in that.
        let regime = self.regime();
        let has_session = session != SessionId::NONE;
        let answered = reporter.ask(asking::question(tool, arguments, reason, has_session)).await;
        match asking::consent(&answered) {
            Consent::Once => Ok(()),
            Consent::Always => {
                if has_session {
                    regime.consents().entry(session).or_default().insert((rule.to_owned(), tool.to_owned()));
                }
                Ok(())
            }
            Consent::Refused => {
                logged.decided_by(rule);
                Err(denied(tool, rule, "whoever was asked did not allow it"))
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
    pub(crate) tool: &'a str,
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

    /// The same answer, written down when it is there.
    pub(crate) fn hold(self, answer: Answer) -> Answer {
        Leave(Permit::default()).hold(answer, self)
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

fn denied(tool: &str, rule: &str, reason: &str) -> Failure {
    let why = if reason.is_empty() { String::new() } else { format!(": {reason}") };
    let message = format!("policy forbids {tool} (rule `{rule}`){why}");
    let data = Some(json::to_raw(&serde_json::json!({"rule": rule, "reason": reason})));
    Failure { data, ..Failure::new(FailureKind::Denied, message) }
}
