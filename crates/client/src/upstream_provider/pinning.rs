//! Pins: before a call passes in a session with an upstream, the definitions that the upstream lists in that very session
//! are compared with the pins.
//!
//! The lists of the hub may be older than the session: they are remembered between runs, and the first call opens the
//! session. Without this check, that call would reach a tool which changed meanwhile.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use gladhand_core::negotiation::Agreement;
use gladhand_core::operations::{Failure, FailureKind, Operation};
use gladhand_core::sync::Unpoisoned as _;
use gladhand_hub::policy::{Governor, Stopped};
use gladhand_hub::{ChangeNotifier, Hub};

use super::Inner;
use super::forwarding::ForwardedCall;
use super::lists::Lists;
use super::upstream_connection::UpstreamConnection;
use crate::upstream::Upstream;

/// The definitions that were compared in the session of a connection.
#[derive(Debug, Default)]
pub(super) struct Pinning {
    compared: Mutex<Option<Arc<Compared>>>,
    /// Held while lists are fetched, so that calls that wait for the same session fetch them once.
    fetching: tokio::sync::Mutex<()>,
}

/// The definitions that an upstream lists in one session, compared with the pins.
#[derive(Debug)]
struct Compared {
    /// Stands for the session: each has its own.
    agreement: Arc<Agreement>,
    lists: Arc<Lists>,
    tools: HashSet<String>,
    prompts: HashSet<String>,
    /// The stopped definitions, and the governor's count of looks at the pins at that time; `None`: not compared yet.
    found: Option<(u64, Stopped)>,
}

impl Compared {
    fn new(agreement: Arc<Agreement>, lists: Arc<Lists>, found: Option<(u64, Stopped)>) -> Self {
        let tools = lists.tools.iter().map(|tool| tool.name.clone()).collect();
        let prompts = lists.prompts.iter().map(|prompt| prompt.name.clone()).collect();
        Self { agreement, lists, tools, prompts, found }
    }

    /// The stopped definitions, if the comparison belongs to this count of looks.
    fn stopped(&self, looks: u64) -> Option<&Stopped> {
        self.found.as_ref().filter(|(at, _)| *at == looks).map(|(_, stopped)| stopped)
    }
}

impl Pinning {
    /// Keeps the lists that an upstream has now. The next call compares them.
    pub(super) fn note(&self, session: &Upstream, lists: &Arc<Lists>) {
        *self.lock() = Some(Arc::new(Compared::new(session.agreement(), Arc::clone(lists), None)));
    }

    /// The comparison of this session, if there is one.
    fn of(&self, agreement: &Arc<Agreement>) -> Option<Arc<Compared>> {
        self.lock().clone().filter(|compared| Arc::ptr_eq(&compared.agreement, agreement))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Arc<Compared>>> {
        self.compared.lock().unpoisoned()
    }
}

impl Inner {
    /// Whether calls wait for the comparison.
    pub(super) fn is_pinning(&self) -> bool {
        self.notifier.get().is_some_and(ChangeNotifier::is_pinning)
    }

    /// Refuses a call of something that is not, in this session, what was pinned.
    pub(super) async fn check_pins(
        &self,
        connection: &UpstreamConnection,
        session: &Upstream,
        forwarded: &ForwardedCall,
    ) -> Result<(), Failure> {
        let Some(hub) = self.notifier.get().and_then(ChangeNotifier::hub) else { return Ok(()) };
        let Some(governor) = hub.governor() else { return Ok(()) };
        let compared = match self.compared(connection, session, governor).await {
            Ok(compared) => compared,
            Err(failure) if governor.stops_changes() => {
                let why =
                    format!("the definitions of {} could not be compared with the pins: {failure}", self.spec.name);
                return Err(Failure::new(FailureKind::UpstreamLost, why));
            }
            Err(_) => return Ok(()),
        };
        let stopped = compared.found.as_ref().map(|(_, stopped)| stopped);
        // Where every request declares its own client, that client may see more than the lists of the session show.
        let own = session.agreement().per_request.then(|| self.seen_by(forwarded.viewer())).flatten();
        let refused = match &forwarded.operation {
            Operation::CallTool(call) => {
                let why = stopped.and_then(|stopped| stopped.why_tool(&self.label, &call.name));
                let has_it = |lists: &Arc<Lists>| lists.tools.iter().any(|tool| tool.name == *call.name);
                let is_there = compared.tools.contains(&*call.name) || own.as_ref().is_some_and(has_it);
                why.map(denied).or_else(|| (!is_there).then(|| Failure::unknown_tool(&call.name)))
            }
            Operation::GetPrompt(call) => {
                let why = stopped.and_then(|stopped| stopped.why_prompt(&self.label, &call.name));
                let has_it = |lists: &Arc<Lists>| lists.prompts.iter().any(|prompt| prompt.name == *call.name);
                let is_there = compared.prompts.contains(&*call.name) || own.as_ref().is_some_and(has_it);
                why.map(denied).or_else(|| (!is_there).then(|| Failure::unknown_prompt(&call.name)))
            }
            _ => None,
        };
        refused.filter(|_| governor.stops_changes()).map_or(Ok(()), Err)
    }

    async fn compared(
        &self,
        connection: &UpstreamConnection,
        session: &Upstream,
        governor: &Arc<Governor>,
    ) -> Result<Arc<Compared>, Failure> {
        let agreement = session.agreement();
        let known =
            || connection.pinning.of(&agreement).filter(|compared| compared.stopped(governor.looks()).is_some());
        if let Some(compared) = known() {
            return Ok(compared);
        }
        let _fetching = connection.pinning.fetching.lock().await;
        if let Some(compared) = known() {
            return Ok(compared);
        }
        let looks = governor.looks();
        let lists = match connection.pinning.of(&agreement) {
            // Only the pins may have changed.
            Some(compared) => Arc::clone(&compared.lists),
            None => Arc::new(Lists::fetch(session, &self.spec, None).await?),
        };
        let stopped = governor.inspect(&self.label, &lists.listed(), lists.instructions.as_deref()).await;
        let compared = Arc::new(Compared::new(agreement, lists, Some((looks, stopped))));
        *connection.pinning.lock() = Some(Arc::clone(&compared));
        Ok(compared)
    }

    /// The instructions, unless they changed since they were pinned.
    pub(super) fn passed_on<'l>(&self, lists: &'l Lists) -> Option<&'l String> {
        let hub = self.notifier.get().and_then(ChangeNotifier::hub);
        let withholds = |hub: Hub| hub.withholds_instructions(&self.label);
        lists.instructions.as_ref().filter(|_| !hub.is_some_and(withholds))
    }
}

fn denied(why: &str) -> Failure {
    Failure::new(FailureKind::Denied, why)
}
