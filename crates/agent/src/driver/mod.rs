//! Performs the effects of sessions: calls models, runs tools, writes files, and sends events to clients.
//!
//! One lock protects all sessions. A step under the lock takes microseconds and never waits. Longer work runs in
//! one task per busy session, which feeds the result back as the next step.

mod agent;
mod answers;
mod commands;
mod followers;
mod offered_tools;
mod policy;
mod preparing;
mod resuming;
mod runner;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use gladhand_agent_tools::{SecretFiles, ToolProvider};
use gladhand_core::negotiation::Agreement;
use gladhand_core::operations::{Failure, Terms};
use gladhand_core::sync::Unpoisoned as _;
use gladhand_hub::{Context, Hub};
use gladhand_models::Models;
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;

pub use policy::{LivePolicy, Policy, Rule};

use self::followers::Followers;
use self::offered_tools::OfferedTools;
use self::preparing::Setup;
use crate::account_service::AccountService;
use crate::accounts::Chosen;
use crate::chats::{Chats, Claim};
use crate::moment::Moment;
use crate::payloads::CompactionReport;
use crate::session::{Effect, RequestSizes, Session, StepContext, ToolTotals};
use crate::skills::{Skills, TrustedFiles};

/// The settings of the agent.
#[derive(Debug, Clone)]
pub struct AgentSettings {
    /// The folder of chats and skills.
    pub data: PathBuf,
    /// The default folder of sessions.
    pub folder: PathBuf,
    /// The user's home folder.
    pub home: Option<PathBuf>,
    /// Folders that tools can use without approval, in addition to the folder of the session.
    pub roots: Vec<PathBuf>,
    /// Files that no image of a prompt is read from.
    pub secret_files: SecretFiles,
    /// Which tools may run.
    pub policy: LivePolicy,
    /// Which skills of projects may be used.
    pub trusted: TrustedFiles,
}

/// How long running work may take to end at shutdown.
const GRACE: Duration = Duration::from_secs(5);
/// The maximum number of open sessions.
const SESSIONS: usize = 4096;

/// The agent: all conversations of this process. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Conversations {
    core: Arc<Core>,
}

impl Conversations {
    /// Creates an agent with these accounts and tools.
    pub fn new(
        settings: AgentSettings,
        accounts: Arc<dyn AccountService>,
        tool_provider: Arc<dyn ToolProvider>,
    ) -> Self {
        let skills = Skills::scan(&settings.folder, &settings.data, settings.home.as_deref(), &settings.trusted);
        let core = Core {
            chats: Chats::new(&settings.data),
            followers: Followers::default(),
            shared: Mutex::new(Shared { skills, ..Shared::default() }),
            runners: watch::Sender::new(0),
            hub: OnceLock::new(),
            settings,
            accounts,
            tool_provider,
        };
        core.update_tool_totals(&core.known_tools());
        Self { core: Arc::new(core) }
    }

    /// Adds the tools of the hub. Can be called once.
    pub fn with_hub(&self, hub: Hub) {
        if self.core.hub.set(hub).is_err() {
            tracing::warn!("the agent has a hub already");
        }
        self.core.update_tool_totals(&self.core.known_tools());
    }
}

/// The state that all calls and tasks share.
#[derive(Debug)]
pub(super) struct Core {
    settings: AgentSettings,
    accounts: Arc<dyn AccountService>,
    tool_provider: Arc<dyn ToolProvider>,
    hub: OnceLock<Hub>,
    chats: Chats,
    followers: Followers,
    shared: Mutex<Shared>,
    /// The number of running tasks.
    runners: watch::Sender<usize>,
}

/// The mutable state.
#[derive(Debug, Default)]
struct Shared {
    sessions: HashMap<String, SessionEntry>,
    /// The session ids, in order of creation.
    order: Vec<String>,
    last_message: u64,
    debug: bool,
    skills: Skills,
    tools: ToolTotals,
}

/// A session and its resources.
#[derive(Debug)]
struct SessionEntry {
    session: Session,
    folder: PathBuf,
    /// Whether file tools can use the folder without approval.
    is_workspace: bool,
    /// Cancels the current work of the session.
    cancel: CancellationToken,
    /// The setup of the running turn.
    setup: Option<Arc<Setup>>,
    /// The tools of the turn.
    offered_tools: Option<Arc<OfferedTools>>,
    /// The model that summarizes the conversation.
    summariser: Option<Arc<dyn Models>>,
    /// The model that the conversation is being compacted for, before it is selected.
    considered: Option<Chosen>,
    requester: Requester,
    /// The lock on the chat that the session writes.
    claim: Option<Claim>,
    /// Callers that wait for the end of the running turn.
    waiting: Vec<oneshot::Sender<()>>,
    /// The caller that waits for the result of a compaction.
    report: Option<oneshot::Sender<Result<CompactionReport, String>>>,
    /// Whether the session was deleted and only exists until its work has ended.
    is_leaving: bool,
}

/// The peer on whose behalf tools of the hub are called.
#[derive(Debug, Clone)]
pub(super) struct Requester {
    agreement: Arc<Agreement>,
    /// The principal and its scopes.
    terms: Terms<'static>,
}

impl Requester {
    fn of(context: &Context<'_>) -> Self {
        Self { agreement: Arc::clone(context.agreement), terms: context.terms.on_behalf() }
    }
}

impl Core {
    /// Runs one step of a session. Immediate effects are performed; the others are returned.
    fn step<T>(
        &self,
        id: &str,
        act: impl FnOnce(&mut Session, &mut StepContext<'_>) -> T,
    ) -> Result<(T, Vec<Effect>), Failure> {
        let provider = self.accounts.chosen(Some(id)).provider;
        let mut shared = self.shared();
        let tools = shared.tools;
        let considered = shared.sessions.get(id).and_then(|entry| entry.considered.as_ref());
        let provider = considered.map_or(provider, |considered| considered.provider.clone());
        let request_sizes = RequestSizes { provider, pinned: preparing::pinned(self.accounts.searches()), tools };
        self.step_in(&mut shared, id, request_sizes, act)
    }

    /// Runs a step that estimates no tokens, so it does not look up the selected model. Such steps are frequent.
    fn light_step(&self, id: &str, act: impl FnOnce(&mut Session, &mut StepContext<'_>)) {
        // If the session is gone, there is nothing to do.
        let _ = self.step_in(&mut self.shared(), id, RequestSizes::default(), act);
    }

    fn step_in<T>(
        &self,
        shared: &mut Shared,
        id: &str,
        request_sizes: RequestSizes,
        act: impl FnOnce(&mut Session, &mut StepContext<'_>) -> T,
    ) -> Result<(T, Vec<Effect>), Failure> {
        let Shared { sessions, last_message, debug, order, .. } = shared;
        let entry = sessions.get_mut(id).ok_or_else(|| Failure::unknown_session(id))?;
        let (now, mut new_id) = (Moment::now(), new_id);
        let mut context =
            StepContext { now, last_message, new_id: &mut new_id, request_sizes, debug: *debug, effects: Vec::new() };
        let result = act(&mut entry.session, &mut context);
        let effects = context.effects;
        let work = self.perform_now(entry, effects);
        if entry.is_leaving && !entry.session.is_busy() {
            sessions.remove(id);
            order.retain(|other| other != id);
        }
        Ok((result, work))
    }

    /// Performs immediate effects, in order. This happens under the lock, so the events of one session keep their
    /// order.
    fn perform_now(&self, entry: &mut SessionEntry, effects: Vec<Effect>) -> Vec<Effect> {
        let mut work = Vec::new();
        for effect in effects {
            match effect {
                Effect::Emit(event) => self.followers.emit(&event),
                Effect::Cancel => entry.cancel.cancel(),
                Effect::Ended => {
                    entry.cancel = CancellationToken::new();
                    for waiting in entry.waiting.drain(..) {
                        // The caller may have stopped waiting.
                        let _ = waiting.send(());
                    }
                }
                Effect::Report(report) => {
                    entry.considered = None;
                    if let Some(waiting) = entry.report.take() {
                        let _ = waiting.send(report);
                    }
                }
                Effect::Keep(_) | Effect::Journal(..) | Effect::Do(_) => work.push(effect),
            }
        }
        work
    }

    /// Whether a client may use this session.
    fn is_known(&self, id: &str) -> Result<(), Failure> {
        let shared = self.shared();
        let is_there = shared.sessions.get(id).is_some_and(|entry| !entry.is_leaving);
        if is_there { Ok(()) } else { Err(Failure::unknown_session(id)) }
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unpoisoned()
    }
}

/// A new unique id: a UUID of version 4.
fn new_id() -> String {
    gladhand_core::hex::uuid(gladhand_system::random_bytes())
}
