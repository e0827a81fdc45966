//! The capability `memory`: entries under composite keys, found again by key, tag, tier and text.
//!
//! Working memory belongs to a session and ends with it. Episodic memory belongs to an agent of a principal, semantic memory
//! to all agents of a principal; both are in the database. Any other tier is kept with the episodic ones, under its own word.
//! Whatever the tier, memories of different principals, namespaces or scopes never meet.

mod entry;
mod kept;
mod ranking;
mod search;
mod words;
mod working;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gladhand_core::operations::{CapabilityCall, Failure, Outcome, Party};
use gladhand_core::wire::{RawValue, json};
use gladhand_hub::{Answer, Context, Features, Portions, Provider, SessionId, Settling};
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use self::entry::{Entry, Identity, Unfit, identity};
use self::kept::Kept;
use self::ranking::Wanted;
use self::search::Search;
use self::working::Working;
use crate::clock::Clock;
use crate::grants::{self, Programs};
use crate::owner::Owner;
use crate::storage::{Place, Setback, Storage, Turn};
use crate::{hex_id, reply};

/// How much is remembered.
#[derive(Debug, Clone)]
pub struct Settings {
    /// What a session may have in working memory. The oldest entries make room.
    pub working: Bound,
    /// Bytes that the working memories of all sessions may have together, shared fairly between parties. Storing fails with
    /// `memory_full` beyond.
    pub working_in_all: usize,
    /// What an agent may have in episodic memory, and in tiers of its own. The oldest entries make room.
    pub episodic: Bound,
    /// What all agents of a principal together may have in semantic memory. Nothing makes room, because no agent may push
    /// out what others know: when it is full, storing fails with `memory_full`.
    pub semantic: Bound,
    /// Bytes of one entry; a larger one fails with `memory_full`.
    pub entry_bytes: usize,
    /// Bytes of everything in the database together, beyond which storing fails with `memory_full`.
    pub total_bytes: usize,
    /// Bytes of the entries in one answer; what is beyond is counted in `total` only.
    pub reply_bytes: usize,
    /// Entries or keys in one request; more are refused, because others wait meanwhile.
    pub request_items: usize,
    /// Memory ids of one session; beyond, `init` fails with `memory_full`.
    pub memories: usize,
}

/// How much there may be of something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bound {
    /// Entries.
    pub entries: usize,
    /// Their bytes.
    pub bytes: usize,
}

const MIB: usize = 1024 * 1024;

/// Working memories up to this size do not count for their party.
const LITTLE: usize = 64 * 1024;

impl Default for Settings {
    fn default() -> Self {
        Self {
            working: Bound { entries: 1_000, bytes: 8 * MIB },
            working_in_all: 256 * MIB,
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

/// Serves `memory`.
#[derive(Debug)]
pub struct Memory {
    storage: Storage,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    settings: Settings,
    clock: Clock,
    visitors: Mutex<HashMap<SessionId, Visitor>>,
    /// The room of all working memories.
    room: Arc<Portions>,
}

/// What is kept of a session.
#[derive(Debug)]
struct Visitor {
    memories: HashMap<String, Arc<Corner>>,
    working: Arc<Mutex<Working>>,
}

/// The part of memory that a memory id opens.
#[derive(Debug)]
struct Corner {
    /// The agent that opened it.
    owner: Owner,
    /// The owners of entries in the database: of its own, and of those that agents of its principal share.
    own: String,
    shared: String,
    space: Space,
    /// The space in working memory, which no other agent of the session has.
    working: Space,
}

impl Corner {
    fn new(owner: Owner, namespace: &str, scope: &BTreeMap<String, String>) -> Self {
        let own = owner.own_memory();
        let space = Sha256::digest(json::to_raw(&(namespace, scope)).get()).into();
        let working = Sha256::new().chain_update(space).chain_update(&own).finalize().into();
        Self { own, shared: owner.shared_memory(), owner, space, working }
    }
}

/// A namespace with its scope.
type Space = [u8; 32];

impl Memory {
    /// Memory in a database.
    pub fn new(storage: Storage, settings: Settings) -> Self {
        Self { storage, shared: Arc::new(Shared::new(settings, Clock::default())) }
    }

    /// The same memory, by another clock.
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
                return Answer::Now(Err(Failure::of_capability("invalid_message", format!("{kind} is no request"))));
            }
        };
        let turn = if call.kind == "memory/retrieve/req" { Turn::Read } else { Turn::Change };
        let (shared, call) = (Arc::clone(&self.shared), call.into_owned());
        self.storage.answer(turn, move |database| work(&shared, &call, &Guest { session, owner }, database))
    }

    fn left(&self, session: SessionId) {
        self.shared.visitors().remove(&session);
    }

    fn closing(&self) -> Option<Settling> {
        Some(self.storage.closing())
    }
}

/// Who asks.
#[derive(Debug)]
struct Guest {
    session: SessionId,
    owner: Owner,
}

impl Shared {
    fn new(settings: Settings, clock: Clock) -> Self {
        let room = Portions::lasting(settings.working_in_all, LITTLE);
        Self { settings, clock, visitors: Mutex::default(), room }
    }

    fn visitors(&self) -> MutexGuard<'_, HashMap<SessionId, Visitor>> {
        self.visitors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a part of memory. What the caller says about it otherwise (`metadata`) is of no consequence and not kept.
    fn init(&self, call: &CapabilityCall<'_>, session: SessionId, owner: Owner, party: Option<Party>) -> Outcome {
        #[derive(Deserialize)]
        struct Init {
            #[serde(default = "usual")]
            namespace: String,
            #[serde(default)]
            scope: BTreeMap<String, String>,
        }
        fn usual() -> String {
            "default".to_owned()
        }

        let init: Init = call.read()?;
        if session == SessionId::NONE {
            return Err(Failure::refused("memory needs a session"));
        }
        let mut visitors = self.visitors();
        let visitor = visitors.entry(session).or_insert_with(|| {
            let working = Working::within(party.map(|party| self.room.portion(party)));
            Visitor { memories: HashMap::new(), working: Arc::new(Mutex::new(working)) }
        });
        if visitor.memories.len() >= self.settings.memories {
            let most = self.settings.memories;
            return Err(Failure::of_capability("memory_full", format!("a session has at most {most} memories")));
        }
        let memory_id = uuid();
        let corner = Corner::new(owner, &init.namespace, &init.scope);
        visitor.memories.insert(memory_id.clone(), Arc::new(corner));
        reply(&json!({ "memory_id": memory_id, "namespace": init.namespace, "success": true }))
    }

    /// What a memory id opens for a guest, who must be the agent that it was given to.
    fn open(&self, memory_id: &str, guest: &Guest) -> Result<(Arc<Corner>, Arc<Mutex<Working>>), Failure> {
        let visitors = self.visitors();
        let visitor = visitors.get(&guest.session);
        let corner = visitor.and_then(|visitor| Some((visitor.memories.get(memory_id)?, &visitor.working)));
        match corner.filter(|(corner, _)| corner.owner == guest.owner) {
            Some((corner, working)) => Ok((Arc::clone(corner), Arc::clone(working))),
            None => Err(Failure::of_capability("memory_not_found", format!("unknown memory id: {memory_id:.64}"))),
        }
    }

    fn store(&self, call: &CapabilityCall<'_>, guest: &Guest, database: &Place) -> Result<Box<RawValue>, Setback> {
        #[derive(Deserialize)]
        struct Store {
            memory_id: String,
            #[serde(default)]
            entries: Vec<Box<RawValue>>,
        }

        let Store { memory_id, entries } = call.read()?;
        let (corner, working) = self.open(&memory_id, guest)?;
        self.check_number(entries.len())?;
        let now = self.clock.now();
        let entries = entries.iter().enumerate().map(|(place, written)| self.check(place, written, now));
        let entries = entries.collect::<Result<Vec<_>, _>>()?;
        let keys = entries.iter().map(|entry| &*entry.key).collect();
        let stored = json::to_raw(&Stored { stored: keys, errors: [] });
        let (fleeting, lasting): (Vec<_>, Vec<_>) = entries.into_iter().partition(|entry| entry.tier == "working");
        // Taken first, so that a request is stored as a whole or not at all.
        let has_room = lock(&working).reserve(fleeting.iter().map(|entry| entry.bytes).sum());
        let kept = match has_room {
            false => Err(Setback::of("memory_full", "there is no room left in working memory")),
            true if lasting.is_empty() => Ok(()),
            true => database.change(|rows| Kept { rows, corner: &corner, now }.store(&lasting, &self.settings)),
        };
        if let Err(setback) = kept {
            lock(&working).settle();
            return Err(setback);
        }
        lock(&working).store(corner.working, fleeting, self.settings.working, now);
        Ok(stored)
    }

    fn identities(&self, keys: &[Box<RawValue>]) -> Result<HashSet<Identity>, Failure> {
        self.check_number(keys.len())?;
        Ok(keys.iter().map(|key| identity(key)).collect())
    }

    fn check_number(&self, items: usize) -> Result<(), Failure> {
        let most = self.settings.request_items;
        if items <= most {
            return Ok(());
        }
        Err(Failure::refused(format!("a request has at most {most} entries or keys")))
    }

    /// An entry that can be stored as it is.
    fn check(&self, place: usize, written: &RawValue, now: f64) -> Result<Entry, Failure> {
        let entry = Entry::read(written, now).map_err(|unfit| match unfit {
            Unfit::Wrong(problem) => Failure::refused(format!("entries.{place}: {problem}")),
            Unfit::Large(problem) => Failure::of_capability("memory_full", format!("entries.{place}: {problem}")),
        })?;
        let most = self.bound(&entry.tier).bytes.min(self.settings.entry_bytes);
        if entry.bytes > most {
            let problem = format!("entries.{place}: it has {} bytes, and an entry may have {most}", entry.bytes);
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

    fn retrieve(&self, call: &CapabilityCall<'_>, guest: &Guest, database: &Place) -> Result<Box<RawValue>, Setback> {
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

        let asked: Retrieve = call.read()?;
        let (corner, working) = self.open(&asked.memory_id, guest)?;
        let now = self.clock.now();
        let identities = self.identities(&asked.keys)?;
        let wanted = Wanted::new(asked.tier, identities, asked.tags, &asked.query, asked.min_score);
        let find = |kept: Option<Kept<'_>>| {
            let working = &*lock(&working);
            let (limit, bytes, space) = (asked.limit, self.settings.reply_bytes, corner.working);
            Search { wanted: &wanted, limit, bytes, space, working, kept, now }.find()
        };
        let found = if wanted.wants_kept() {
            database.read(|rows| find(Some(Kept { rows, corner: &corner, now })))
        } else {
            find(None)
        };
        Ok(json::to_raw(&found?))
    }

    fn forget(&self, call: &CapabilityCall<'_>, guest: &Guest, database: &Place) -> Result<Box<RawValue>, Setback> {
        #[derive(Deserialize)]
        struct Forget {
            memory_id: String,
            #[serde(default)]
            keys: Vec<Box<RawValue>>,
            #[serde(default)]
            tags: HashSet<String>,
            #[serde(default = "usual")]
            tier: String,
        }
        fn usual() -> String {
            "episodic".to_owned()
        }

        let asked: Forget = call.read()?;
        let (corner, working) = self.open(&asked.memory_id, guest)?;
        let now = self.clock.now();
        let unwanted = Wanted::new(asked.tier, self.identities(&asked.keys)?, asked.tags, "", 0.0);
        let mut deleted = 0;
        if unwanted.wants_kept() {
            deleted += database.change(|rows| Kept { rows, corner: &corner, now }.forget(&unwanted))?;
        }
        if unwanted.wants_working() {
            deleted += lock(&working).forget(corner.working, &unwanted, now);
        }
        Ok(json::to_raw(&json!({ "deleted": deleted })))
    }
}

/// The answer to a request to store. Keys are as they were written.
#[derive(Debug, Serialize)]
struct Stored<'a> {
    stored: Vec<&'a RawValue>,
    /// What is wrong fails the whole request, so there is nothing to say here.
    errors: [&'static str; 0],
}

fn lock(working: &Mutex<Working>) -> MutexGuard<'_, Working> {
    working.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A version-4 UUID with dashes.
fn uuid() -> String {
    let id = hex_id::<16>();
    let variant = ["8", "9", "a", "b"][usize::from(id.as_bytes()[16]) % 4];
    format!("{}-{}-4{}-{variant}{}-{}", &id[..8], &id[8..12], &id[13..16], &id[17..20], &id[20..])
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use gladhand_store::Database;

    use super::*;

    #[test]
    fn nothing_is_left_of_a_session_that_left() {
        let folder = tempfile::tempdir().unwrap();
        let memory = Memory::new(Storage::new(Database::open(folder.path()).unwrap()), Settings::default());
        let message = Cow::Owned(json::raw("{}".to_owned()));
        let call = CapabilityCall { kind: "memory/init/req", capability: "memory", request: None, message };
        for session in [1, 1, 2] {
            memory.shared.init(&call, SessionId(session), Owner::local("a"), None).unwrap();
        }
        assert_eq!(memory.shared.visitors().len(), 2);
        memory.left(SessionId(1));
        memory.left(SessionId(2));
        assert!(memory.shared.visitors().is_empty());
    }
}
