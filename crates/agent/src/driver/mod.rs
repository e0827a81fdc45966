//! Does what sessions ask for: asks models, runs tools, writes files, and tells everybody who follows.
//!
//! One lock holds all sessions. A step under it takes microseconds and never waits; what takes a while is done by one task
//! per busy session, which brings the outcome back as the next step.

mod agent;
mod answers;
mod commands;
mod followers;
mod policy;
mod preparing;
mod resuming;
mod runner;
#[cfg(test)]
mod tests;
mod toolset;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use gladhand_agent_tools::Bench;
use gladhand_core::negotiation::Agreement;
use gladhand_core::operations::{Failure, Terms};
use gladhand_hub::{Context, Hub};
use gladhand_models::Models;
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;

pub use policy::{LivePolicy, Policy, Rule};

use self::followers::Followers;
use self::preparing::Setup;
use self::toolset::Toolset;
use crate::accounts::Chosen;
use crate::chats::{Chats, Claim};
use crate::desk::Desk;
use crate::moment::Moment;
use crate::payloads::CompactionReport;
use crate::session::{Effect, Scales, Scene, Session, ToolTotals};
use crate::skills::{Skills, TrustedFiles};

/// Where the agent works.
#[derive(Debug, Clone)]
pub struct AgentSettings {
    /// The folder of chats and skills.
    pub data: PathBuf,
    /// The folder that sessions work in unless they have another.
    pub folder: PathBuf,
    /// The user's home.
    pub home: Option<PathBuf>,
    /// Folders that are used freely besides that of a session.
    pub roots: Vec<PathBuf>,
    /// Which tools may run.
    pub policy: LivePolicy,
    /// Which skills of projects may be used.
    pub trusted: TrustedFiles,
}

/// How long what runs may take to end when everything ends.
const GRACE: Duration = Duration::from_secs(5);
/// Sessions that may be open at once.
const SESSIONS: usize = 4096;

/// The agent: all conversations of this process. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Conversations {
    core: Arc<Core>,
}

impl Conversations {
    /// An agent with these accounts and these tools.
    pub fn new(settings: AgentSettings, desk: Arc<dyn Desk>, bench: Arc<dyn Bench>) -> Self {
        let skills = Skills::scan(&settings.folder, &settings.data, settings.home.as_deref(), &settings.trusted);
        let core = Core {
            chats: Chats::new(&settings.data),
            followers: Followers::default(),
            house: Mutex::new(House { skills, ..House::default() }),
            runners: watch::Sender::new(0),
            hub: OnceLock::new(),
            settings,
            desk,
            bench,
        };
        core.weigh_tools(&core.known_tools());
        Self { core: Arc::new(core) }
    }

    /// Gives it the tools of the hub. Once only.
    pub fn with_hub(&self, hub: Hub) {
        if self.core.hub.set(hub).is_err() {
            tracing::warn!("the agent has a hub already");
        }
        self.core.weigh_tools(&self.core.known_tools());
    }
}

/// What all calls and tasks share.
#[derive(Debug)]
pub(super) struct Core {
    settings: AgentSettings,
    desk: Arc<dyn Desk>,
    bench: Arc<dyn Bench>,
    hub: OnceLock<Hub>,
    chats: Chats,
    followers: Followers,
    house: Mutex<House>,
    /// How many sessions are being worked for.
    runners: watch::Sender<usize>,
}

/// What changes.
#[derive(Debug, Default)]
struct House {
    sessions: HashMap<String, Room>,
    /// Their ids, in the order in which they were created.
    order: Vec<String>,
    last_message: u64,
    debug: bool,
    skills: Skills,
    tools: ToolTotals,
}

/// A session, and what belongs to it.
#[derive(Debug)]
struct Room {
    session: Session,
    folder: PathBuf,
    /// Whether file tools use that folder freely.
    is_workspace: bool,
    /// Ends what is being done for the session at the moment.
    cancel: CancellationToken,
    /// With what the running turn is held.
    setup: Option<Arc<Setup>>,
    /// Its tools.
    toolset: Option<Arc<Toolset>>,
    /// Who puts the conversation into few words.
    summariser: Option<Arc<dyn Models>>,
    /// The model that it is being compacted for, before it is chosen.
    considered: Option<Chosen>,
    asker: Asker,
    /// The chat that it writes is nobody else's.
    claim: Option<Claim>,
    /// Who waits for the end of what runs.
    waiting: Vec<oneshot::Sender<()>>,
    /// Who waits for a compaction.
    report: Option<oneshot::Sender<Result<CompactionReport, String>>>,
    /// Whether it was deleted, and is only there until what runs has ended.
    is_leaving: bool,
}

/// On whose behalf the tools of the hub are called.
#[derive(Debug, Clone)]
pub(super) struct Asker {
    agreement: Arc<Agreement>,
    /// Its principal and its scopes.
    terms: Terms<'static>,
}

impl Asker {
    fn of(context: &Context<'_>) -> Self {
        Self { agreement: Arc::clone(context.agreement), terms: context.terms.on_behalf() }
    }
}

impl Core {
    /// One step of a session. What can be done at once is done; what takes a while is returned.
    fn step<T>(
        &self,
        id: &str,
        act: impl FnOnce(&mut Session, &mut Scene<'_>) -> T,
    ) -> Result<(T, Vec<Effect>), Failure> {
        let provider = self.desk.chosen(Some(id)).provider;
        let mut house = self.house();
        let tools = house.tools;
        let considered = house.sessions.get(id).and_then(|room| room.considered.as_ref());
        let provider = considered.map_or(provider, |considered| considered.provider.clone());
        let scales = Scales { provider, pinned: preparing::pinned(self.desk.searches()), tools };
        self.step_in(&mut house, id, scales, act)
    }

    /// A step that estimates nothing, and so need not know by whom the session is answered. There are many of these.
    fn light_step(&self, id: &str, act: impl FnOnce(&mut Session, &mut Scene<'_>)) {
        // A session that is gone has nobody to be told.
        let _ = self.step_in(&mut self.house(), id, Scales::default(), act);
    }

    fn step_in<T>(
        &self,
        house: &mut House,
        id: &str,
        scales: Scales,
        act: impl FnOnce(&mut Session, &mut Scene<'_>) -> T,
    ) -> Result<(T, Vec<Effect>), Failure> {
        let House { sessions, last_message, debug, order, .. } = house;
        let room = sessions.get_mut(id).ok_or_else(|| Failure::unknown_session(id))?;
        let (now, mut new_id) = (Moment::now(), new_id);
        let mut scene = Scene { now, last_message, new_id: &mut new_id, scales, debug: *debug, effects: Vec::new() };
        let result = act(&mut room.session, &mut scene);
        let effects = scene.effects;
        let work = self.perform_now(room, effects);
        if room.is_leaving && !room.session.is_busy() {
            sessions.remove(id);
            order.retain(|other| other != id);
        }
        Ok((result, work))
    }

    /// Does what takes no time, in order. Under the lock, so that what one session tells keeps its order.
    fn perform_now(&self, room: &mut Room, effects: Vec<Effect>) -> Vec<Effect> {
        let mut work = Vec::new();
        for effect in effects {
            match effect {
                Effect::Tell(event) => self.followers.tell(&event),
                Effect::Cancel => room.cancel.cancel(),
                Effect::Ended => {
                    room.cancel = CancellationToken::new();
                    for waiting in room.waiting.drain(..) {
                        // Who does not wait any more need not be told.
                        let _ = waiting.send(());
                    }
                }
                Effect::Report(report) => {
                    room.considered = None;
                    if let Some(waiting) = room.report.take() {
                        let _ = waiting.send(report);
                    }
                }
                Effect::Keep(_) | Effect::Journal(..) | Effect::Do(_) => work.push(effect),
            }
        }
        work
    }

    /// Whether a client may ask about this session.
    fn is_known(&self, id: &str) -> Result<(), Failure> {
        let house = self.house();
        let is_there = house.sessions.get(id).is_some_and(|room| !room.is_leaving);
        if is_there { Ok(()) } else { Err(Failure::unknown_session(id)) }
    }

    fn house(&self) -> MutexGuard<'_, House> {
        self.house.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An id that nobody has: a UUID of version 4.
fn new_id() -> String {
    let mut bytes = [0; 16];
    if getrandom::fill(&mut bytes).is_err() {
        // Without a source of chance ids still have to differ.
        use std::hash::{BuildHasher as _, RandomState};
        let halves = [RandomState::new().hash_one(1), RandomState::new().hash_one(2)];
        bytes[..8].copy_from_slice(&halves[0].to_ne_bytes());
        bytes[8..].copy_from_slice(&halves[1].to_ne_bytes());
    }
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}
