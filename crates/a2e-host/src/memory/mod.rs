//! The capability `memory`: entries under composite keys, found again by key, tag, tier and text.
//!
//! Working memory belongs to a session and ends with it. Episodic memory belongs to one agent of a principal, semantic
//! memory to all agents of a principal; both are in the database. Any other tier is stored like episodic memory, under
//! its own name. In every tier, the memories of different principals, namespaces and scopes are separate.

mod entry;
mod persistent;
mod ranking;
mod search;
mod storing;
mod words;
mod working;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};

use gladhand_core::hex;
use gladhand_core::operations::{CapabilityCall, Failure, Outcome, Party};
use gladhand_core::sync::Unpoisoned as _;
use gladhand_core::wire::{RawValue, json};
use gladhand_hub::{
    Answer, CapabilityProvider, Context, Features, Portions, Provider, SessionId, SessionObserver, Settling,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use self::entry::{Entry, Identity, InvalidEntry, identity};
use self::persistent::Persistent;
use self::ranking::Query;
use self::search::Search;
use self::storing::{Storing, TURN_ENTRIES};
use self::working::Working;
use crate::clock::Clock;
use crate::grants::{self, Programs};
use crate::owner::Owner;
use crate::reply;
use crate::storage::{Access, Step, Storage, StorageError};

/// Limits of memory.
#[derive(Debug, Clone)]
pub struct MemorySettings {
    /// Working memory of a session. The oldest entries are removed to make room.
    pub working: Bound,
    /// Maximum size in bytes of the working memories of all sessions together, shared fairly between parties. Beyond
    /// it, storing fails with `memory_full`.
    pub working_total_bytes: usize,
    /// Episodic memory and own tiers of an agent. The oldest entries are removed to make room.
    pub episodic: Bound,
    /// Semantic memory of all agents of a principal together. Nothing is removed, because no agent may push out the
    /// knowledge of others. When it is full, storing fails with `memory_full`.
    pub semantic: Bound,
    /// Maximum size of one entry in bytes. Storing a larger one fails with `memory_full`.
    pub entry_bytes: usize,
    /// Maximum size in bytes of all entries in the database. Beyond it, storing fails with `memory_full`.
    pub total_bytes: usize,
    /// Maximum size in bytes of the entries in one response. Entries beyond it are only counted in `total`.
    pub reply_bytes: usize,
    /// Maximum number of entries or keys in one request. More are refused, because other requests wait meanwhile.
    pub request_items: usize,
    /// Maximum number of memory ids of one session. Beyond it, `init` fails with `memory_full`.
    pub memories: usize,
}

/// A limit of entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bound {
    /// Maximum number of entries.
    pub entries: usize,
    /// Maximum size of all entries, in bytes.
    pub bytes: usize,
}

const MIB: usize = 1024 * 1024;

impl Default for MemorySettings {
    fn default() -> Self {
        Self {
            working: Bound { entries: 1_000, bytes: 8 * MIB },
            working_total_bytes: 256 * MIB,
            episodic: Bound { entries: 10_000, bytes: 64 * MIB },
            semantic: Bound { entries: 10_000, bytes: 256 * MIB },
            entry_bytes: MIB,
            total_bytes: 1024 * MIB,
            reply_bytes: 8 * MIB,
            request_items: 200,
            memories: 256,
        }
    }
}

/// Provider of the capability `memory`.
#[derive(Debug)]
pub struct Memory {
    storage: Storage,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    settings: MemorySettings,
    clock: Clock,
    sessions: Mutex<HashMap<SessionId, SessionMemory>>,
    /// The space that all working memories share.
    room: Arc<Portions>,
}

/// The data of one session.
#[derive(Debug)]
struct SessionMemory {
    memories: HashMap<String, Arc<MemoryHandle>>,
    working: Arc<Mutex<Working>>,
}

/// The part of memory that a memory id opens.
#[derive(Debug)]
struct MemoryHandle {
    agent: Arc<AgentKeys>,
    space: Space,
    /// The space in working memory, which is separate for each agent of the session.
    working: Space,
}

/// An agent that has opened memory, and the keys of its entries. All its memory ids in a session share them.
#[derive(Debug)]
struct AgentKeys {
    owner: Owner,
    /// The database owners of the agent's own entries, and of those that the agents of its principal share.
    own: String,
    shared: String,
}

impl AgentKeys {
    fn new(owner: Owner) -> Self {
        Self { own: owner.own_memory(), shared: owner.shared_memory(), owner }
    }
}

impl MemoryHandle {
    fn new(agent: Arc<AgentKeys>, namespace: &str, scope: &BTreeMap<String, String>) -> Self {
        let space = crate::sha256(&[json::to_raw(&(namespace, scope)).get().as_bytes()]);
        let working = crate::sha256(&[&space, agent.own.as_bytes()]);
        Self { agent, space, working }
    }
}

/// A digest of a namespace and its scope.
type Space = [u8; 32];

impl Memory {
    /// Keeps persistent memory in a database.
    pub fn new(storage: Storage, settings: MemorySettings) -> Self {
        Self { storage, shared: Arc::new(Shared::new(settings, Clock::default())) }
    }

    /// Replaces the clock.
    pub fn by(self, clock: Clock) -> Self {
        Self { shared: Arc::new(Shared::new(self.shared.settings.clone(), clock)), ..self }
    }
}

impl Provider for Memory {
    fn name(&self) -> &str {
        "memory"
    }

    fn features(&self) -> Features {
        Features { silent: true, ..Features::default() }
    }

    fn closing(&self) -> Option<Settling> {
        Some(self.storage.closing())
    }

    fn as_capabilities(&self) -> Option<&dyn CapabilityProvider> {
        Some(self)
    }

    fn as_session_observer(&self) -> Option<&dyn SessionObserver> {
        Some(self)
    }
}

impl CapabilityProvider for Memory {
    fn capabilities(&self) -> Vec<&'static str> {
        vec!["memory"]
    }

    fn open_capabilities(&self) -> Vec<&'static str> {
        grants::open("memory", Programs::None)
    }

    fn serve(&self, call: CapabilityCall<'_>, context: &Context<'_>) -> Answer {
        let (session, owner) = (context.caller.session(), Owner::of(context));
        let work = match call.kind {
            "memory/init/req" => return Answer::Now(self.shared.init(&call, session, owner, context.terms.party)),
            "memory/store/req" => Shared::store,
            "memory/retrieve/req" => Shared::retrieve,
            "memory/forget/req" => Shared::forget,
            kind => {
                return Answer::Now(Err(Failure::of_capability("invalid_message", format!("{kind} is not a request"))));
            }
        };
        let (shared, call) = (Arc::clone(&self.shared), call.into_owned());
        self.storage.answer(context.terms.party, move || work(&shared, &call, &Requester { session, owner }))
    }
}

impl SessionObserver for Memory {
    fn left(&self, session: SessionId) {
        self.shared.sessions().remove(&session);
    }
}

/// The caller.
#[derive(Debug)]
struct Requester {
    session: SessionId,
    owner: Owner,
}

impl Shared {
    fn new(settings: MemorySettings, clock: Clock) -> Self {
        let room = Portions::lasting(settings.working_total_bytes, 0);
        Self { settings, clock, sessions: Mutex::default(), room }
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<SessionId, SessionMemory>> {
        self.sessions.lock().unpoisoned()
    }

    /// Opens a part of memory. `metadata` of the request has no effect and is not kept.
    fn init(&self, call: &CapabilityCall<'_>, session: SessionId, owner: Owner, party: Option<Party>) -> Outcome {
        #[derive(Deserialize)]
        struct Init {
            #[serde(default = "default_namespace")]
            namespace: String,
            #[serde(default)]
            scope: BTreeMap<String, String>,
        }
        fn default_namespace() -> String {
            "default".to_owned()
        }

        let init: Init = call.read()?;
        if session == SessionId::NONE {
            return Err(Failure::refused("memory needs a session"));
        }
        let mut sessions = self.sessions();
        let session_memory = sessions.entry(session).or_insert_with(|| {
            let working = Working::within(party.map(|party| self.room.portion(party)));
            SessionMemory { memories: HashMap::new(), working: Arc::new(Mutex::new(working)) }
        });
        if session_memory.memories.len() >= self.settings.memories {
            let max = self.settings.memories;
            return Err(Failure::of_capability(
                "memory_full",
                format!("the limit of {max} memories per session is reached"),
            ));
        }
        if !lock(&session_memory.working).add_handle() {
            return Err(Failure::of_capability("memory_full", "working memory is full"));
        }
        let memory_id = hex::uuid(gladhand_system::random_bytes());
        let same = session_memory.memories.values().find(|handle| handle.agent.owner == owner);
        let agent = same.map_or_else(|| Arc::new(AgentKeys::new(owner)), |handle| Arc::clone(&handle.agent));
        let handle = MemoryHandle::new(agent, &init.namespace, &init.scope);
        session_memory.memories.insert(memory_id.clone(), Arc::new(handle));
        reply(&json!({ "memory_id": memory_id, "namespace": init.namespace, "success": true }))
    }

    /// The part of memory that a memory id opens. Only the agent that received the id may use it.
    fn open(
        &self,
        memory_id: &str,
        requester: &Requester,
    ) -> Result<(Arc<MemoryHandle>, Arc<Mutex<Working>>), Failure> {
        let sessions = self.sessions();
        let session_memory = sessions.get(&requester.session);
        let handle = session_memory
            .and_then(|session_memory| Some((session_memory.memories.get(memory_id)?, &session_memory.working)));
        match handle.filter(|(handle, _)| handle.agent.owner == requester.owner) {
            Some((handle, working)) => Ok((Arc::clone(handle), Arc::clone(working))),
            None => Err(Failure::of_capability("memory_not_found", format!("unknown memory id: {memory_id:.64}"))),
        }
    }

    fn store(self: &Arc<Self>, call: &CapabilityCall<'_>, requester: &Requester) -> Result<Step, StorageError> {
        #[derive(Deserialize)]
        struct Store {
            memory_id: String,
            #[serde(default)]
            entries: Vec<Box<RawValue>>,
        }

        let Store { memory_id, entries } = call.read()?;
        let (handle, working) = self.open(&memory_id, requester)?;
        self.check_number(entries.len())?;
        let now = self.clock.now();
        let entries = entries.iter().enumerate().map(|(place, written)| self.check(place, written, now));
        let entries = entries.collect::<Result<Vec<_>, _>>()?;
        let keys = entries.iter().map(|entry| &*entry.key).collect();
        let stored = json::to_raw(&Stored { stored: keys, errors: [] });
        let (working_entries, persistent_entries): (Vec<_>, Vec<_>) =
            entries.into_iter().partition(|entry| entry.tier == "working");
        // Space is reserved first, so that a request is stored as a whole or not at all.
        let reserved = lock(&working).reserve(&working_entries);
        let reserved = reserved.ok_or_else(|| StorageError::of("memory_full", "working memory is full"))?;
        let shared = Arc::clone(self);
        let finish = {
            let handle = Arc::clone(&handle);
            move || {
                lock(&working).store(handle.working, working_entries, shared.settings.working, now);
                drop(reserved);
                Ok(Step::Done(stored))
            }
        };
        if persistent_entries.is_empty() {
            return finish();
        }
        Storing { shared: Arc::clone(self), handle, now, entries: persistent_entries, has_room: false }.begin(finish)
    }

    fn identities(&self, keys: &[Box<RawValue>]) -> Result<HashSet<Identity>, Failure> {
        self.check_number(keys.len())?;
        Ok(keys.iter().map(|key| identity(key)).collect())
    }

    fn check_number(&self, items: usize) -> Result<(), Failure> {
        let max = self.settings.request_items;
        if items <= max {
            return Ok(());
        }
        Err(Failure::refused(format!("a request must not have more than {max} entries or keys")))
    }

    /// Parses and checks an entry.
    fn check(&self, place: usize, written: &RawValue, now: f64) -> Result<Entry, Failure> {
        let entry = Entry::read(written, now).map_err(|invalid| match invalid {
            InvalidEntry::Wrong(problem) => Failure::refused(format!("entries.{place}: {problem}")),
            InvalidEntry::Large(problem) => {
                Failure::of_capability("memory_full", format!("entries.{place}: {problem}"))
            }
        })?;
        let max = self.bound(&entry.tier).bytes.min(self.settings.entry_bytes);
        if entry.bytes > max {
            let problem = format!("entries.{place}: it has {} bytes, the limit is {max}", entry.bytes);
            return Err(Failure::of_capability("memory_full", problem));
        }
        Ok(entry)
    }

    fn bound(&self, tier: &str) -> Bound {
        match tier {
            "working" => self.settings.working,
            "semantic" => self.settings.semantic,
            _ => self.settings.episodic,
        }
    }

    fn retrieve(self: &Arc<Self>, call: &CapabilityCall<'_>, requester: &Requester) -> Result<Step, StorageError> {
        #[derive(Deserialize)]
        struct Retrieve {
            memory_id: String,
            #[serde(default)]
            keys: Vec<Box<RawValue>>,
            #[serde(default)]
            query: String,
            #[serde(default)]
            tags: HashSet<String>,
            #[serde(default)]
            tier: String,
            #[serde(default = "ten", deserialize_with = "crate::integer")]
            limit: i64,
            #[serde(default)]
            min_score: f64,
        }
        fn ten() -> i64 {
            10
        }

        let request: Retrieve = call.read()?;
        let (handle, working) = self.open(&request.memory_id, requester)?;
        let (now, persistent) = (self.clock.now(), Arc::clone(&handle));
        let identities = self.identities(&request.keys)?;
        let query = Query::new(request.tier, identities, request.tags, &request.query, request.min_score);
        let (limit, bytes) = (request.limit, self.settings.reply_bytes);
        let find = move |query: &Query, persistent: Option<Persistent<'_>>| {
            let working = &lock(&working).current(handle.working, now);
            Search { query, limit, bytes, working, persistent }.find()
        };
        if !query.wants_persistent() {
            return Step::done(&find(&query, None)?);
        }
        Step::next(Access::Read, move |database| {
            let found = database.read(|rows| find(&query, Some(Persistent { rows, handle: &persistent, now })));
            Step::done(&found?)
        })
    }

    fn forget(self: &Arc<Self>, call: &CapabilityCall<'_>, requester: &Requester) -> Result<Step, StorageError> {
        #[derive(Deserialize)]
        struct Forget {
            memory_id: String,
            #[serde(default)]
            keys: Vec<Box<RawValue>>,
            #[serde(default)]
            tags: HashSet<String>,
            #[serde(default = "default_tier")]
            tier: String,
        }
        fn default_tier() -> String {
            "episodic".to_owned()
        }

        let request: Forget = call.read()?;
        let (handle, working) = self.open(&request.memory_id, requester)?;
        let now = self.clock.now();
        let query = Query::new(request.tier, self.identities(&request.keys)?, request.tags, "", 0.0);
        let (is_of_working, is_of_database) = (query.wants_working(), query.wants_persistent());
        let persistent = Arc::clone(&handle);
        let finish = move |query: &Query, deleted: usize| {
            let working = if is_of_working { lock(&working).forget(handle.working, query, now) } else { 0 };
            Step::done(&json!({ "deleted": deleted + working }))
        };
        if !is_of_database {
            return finish(&query, 0);
        }
        Step::next(Access::Read, move |database| {
            let ids = database.read(|rows| Persistent { rows, handle: &persistent, now }.named(&query))?;
            delete(persistent, ids, 0, now, move |deleted| finish(&query, deleted))
        })
    }
}

/// Deletes entries, a few in each turn. `then` gets their number.
fn delete(
    handle: Arc<MemoryHandle>,
    mut ids: Vec<i64>,
    deleted: usize,
    now: f64,
    then: impl FnOnce(usize) -> Result<Step, StorageError> + Send + 'static,
) -> Result<Step, StorageError> {
    if ids.is_empty() {
        return then(deleted);
    }
    Step::next(Access::Change, move |database| {
        let later = ids.split_off(ids.len().min(TURN_ENTRIES));
        let deleted = deleted + database.change(|rows| Persistent { rows, handle: &handle, now }.forget(&ids))?;
        delete(handle, later, deleted, now, then)
    })
}

/// The response to a store request. Keys are returned as they were written.
#[derive(Debug, Serialize)]
struct Stored<'a> {
    stored: Vec<&'a RawValue>,
    /// Always empty: any error fails the whole request.
    errors: [&'static str; 0],
}

fn lock(working: &Mutex<Working>) -> MutexGuard<'_, Working> {
    working.lock().unpoisoned()
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use gladhand_store::Database;

    use super::*;

    #[test]
    fn an_ended_session_leaves_no_data() {
        let folder = tempfile::tempdir().unwrap();
        let memory = Memory::new(Storage::new(Database::open(folder.path()).unwrap()), MemorySettings::default());
        let message = Cow::Owned(json::raw("{}".to_owned()));
        let call = CapabilityCall { kind: "memory/init/req", capability: "memory", request: None, message };
        for session in [1, 1, 2] {
            memory.shared.init(&call, SessionId(session), Owner::local("a"), None).unwrap();
        }
        assert_eq!(memory.shared.sessions().len(), 2);
        memory.left(SessionId(1));
        memory.left(SessionId(2));
        assert!(memory.shared.sessions().is_empty());
    }
}
