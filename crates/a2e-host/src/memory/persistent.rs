//! Persistent memory in the database: the tiers episodic and semantic, and the agents' own tiers.

use std::collections::{BTreeMap, HashMap};

use gladhand_core::hex;
use gladhand_core::wire::{RawValue, json};
use rusqlite::{OptionalExtension as _, Transaction, params};

use super::entry::{Entry, Identity, ReturnedEntry};
use super::ranking::{Candidate, EntryLocation, Query};
use super::words::each_word;
use super::{Bound, MemoryHandle, MemorySettings};
use crate::storage::StorageError;

const SAME: &str =
    "SELECT id, created_at, bytes FROM memory WHERE owner = ?1 AND space = ?2 AND identity = ?3 AND tier = ?4";
const INSERT: &str = "INSERT INTO memory (owner, space, tier, identity, tags, words, bytes, ttl, expires_at, created_at, \
    updated_at, source, key, content) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)";
/// The `+` keeps SQLite from scanning all entries of an owner in the order of ids.
const HEADS: &str = "SELECT id, tier, identity, tags, words FROM memory WHERE owner = ?1 AND space = ?2 \
    AND (expires_at IS NULL OR expires_at > ?3) AND (?4 = '' OR tier = ?4) ORDER BY +id";
const HEADS_OF_KEYS: &str = "SELECT id, tier, identity, tags, words FROM memory WHERE owner = ?1 AND space = ?2 \
    AND (expires_at IS NULL OR expires_at > ?3) AND (?4 = '' OR tier = ?4) \
    AND identity IN (SELECT unhex(value) FROM json_each(?5)) ORDER BY +id";
/// The exact word sorts before all words that begin with it, so the limit never cuts it off.
const HITS: &str = "SELECT entry, sum(times) FROM \
    (SELECT entry, times FROM memory_words WHERE corner = ?1 AND word BETWEEN ?2 AND ?3 ORDER BY word LIMIT ?4) \
    GROUP BY entry";
const WHOLE: &str = "SELECT key, content, tier, tags, source, ttl, created_at, updated_at FROM memory WHERE id = ?1";

const EXPIRED_OWN: &str = "SELECT id FROM memory WHERE expires_at <= ?1 AND owner IN (?2, ?3) LIMIT ?4";
const EXPIRED: &str = "SELECT id FROM memory WHERE expires_at <= ?1 AND owner NOT IN (?2, ?3) LIMIT ?4";

const TAKEN: &str = "SELECT coalesce(sum(bytes), 0), \
    coalesce(sum(CASE WHEN substr(owner, 1, length(?1)) = ?1 THEN bytes END), 0) FROM memory_usage";

/// Maximum number of index rows that are read for one word of a query.
const MAX_INDEX_ROWS: u32 = 50_000;

/// The part of the database that a memory id opens, at one point in time.
#[derive(Debug)]
pub(super) struct Persistent<'a> {
    pub(super) rows: &'a Transaction<'a>,
    pub(super) handle: &'a MemoryHandle,
    pub(super) now: f64,
}

/// The columns of an entry that are needed to select it.
struct Head {
    id: i64,
    tier: String,
    identity: Identity,
    tags: Vec<String>,
    words: usize,
}

/// The entries that a request adds to those of an owner.
#[derive(Debug, Default)]
struct Added {
    entries: usize,
    bytes: usize,
    /// The entries that it replaces, and their size.
    replaced: Vec<i64>,
    replaced_bytes: usize,
}

impl Added {
    fn add(&mut self, bytes: usize, old: Option<(i64, usize)>) {
        self.entries += 1;
        self.bytes += bytes;
        if let Some((id, bytes)) = old {
            self.replaced.push(id);
            self.replaced_bytes += bytes;
        }
    }

    /// The number and size of the owner's entries after the request.
    fn after(&self, (entries, bytes): (usize, usize)) -> (usize, usize) {
        (entries + self.entries - self.replaced.len(), bytes + self.bytes - self.replaced_bytes)
    }
}

fn check_semantic(entries: usize, bytes: usize, settings: &MemorySettings) -> Result<(), StorageError> {
    if entries <= settings.semantic.entries && bytes <= settings.semantic.bytes {
        return Ok(());
    }
    Err(StorageError::of("memory_full", "semantic memory is full"))
}

/// Checks the size of all entries and of those of one principal. Agents can invent ids. So no principal except the local
/// user gets more than half of what the others leave.
fn check_total(all: usize, own: usize, settings: &MemorySettings) -> Result<(), StorageError> {
    if all + own <= settings.total_bytes {
        return Ok(());
    }
    Err(StorageError::of("memory_full", "memory is full"))
}

impl Persistent<'_> {
    /// Makes room for entries, and checks that all of them fit. Returns how many entries it removed. `max` of them means
    /// that there may be more to remove.
    pub(super) fn make_room(
        &self,
        entries: &[Entry],
        settings: &MemorySettings,
        max: usize,
    ) -> Result<usize, StorageError> {
        let mut removed = self.remove_expired(max)?;
        let (mut own, mut shared) = (Added::default(), Added::default());
        let mut seen = HashMap::new();
        for entry in entries {
            // The last of several entries with the same key counts.
            seen.insert((&entry.tier, entry.identity), entry);
        }
        for entry in seen.into_values() {
            let added = if entry.tier == "semantic" { &mut shared } else { &mut own };
            let mut old = self.rows.prepare_cached(SAME)?;
            let same = params![self.owner(&entry.tier), self.handle.space, entry.identity, entry.tier];
            let old = old.query_row(same, |row| Ok((row.get(0)?, to_size(row.get(2)?)))).optional()?;
            added.add(entry.bytes, old);
        }
        let shared_before = self.usage(&self.handle.agent.shared)?;
        let shared_after = shared.after(shared_before);
        check_semantic(shared_after.0, shared_after.1, settings)?;
        let mut oldest = self.rows.prepare_cached("SELECT id FROM memory WHERE owner = ?1 ORDER BY id LIMIT ?2")?;
        let limit = to_number(max + own.replaced.len());
        let oldest = oldest.query_map(params![self.handle.agent.own, limit], |row| row.get(0))?;
        let mut oldest = oldest.collect::<rusqlite::Result<Vec<i64>>>()?.into_iter();
        let (bound, is_replaced) = (settings.episodic, |id: &i64| own.replaced.contains(id));
        let (before, after) = loop {
            let before = self.usage(&self.handle.agent.own)?;
            let after = own.after(before);
            if after.0 <= bound.entries && after.1 <= bound.bytes {
                break (before, after);
            }
            if removed >= max {
                return Ok(removed);
            }
            match oldest.by_ref().find(|id| !is_replaced(id)) {
                Some(id) => removed += self.delete(id)?,
                // The request itself exceeds the limit. Its own oldest entries will be removed.
                None => break (before, after),
            }
        };
        let (all, principal) = self.taken()?;
        let (less, more) = (before.1 + shared_before.1, after.1.min(bound.bytes) + shared_after.1);
        // 0 for the local user, who may use all the space.
        let principal = self.handle.agent.owner.memory_of_all().map_or(0, |_| (principal + more).saturating_sub(less));
        check_total((all + more).saturating_sub(less), principal, settings)?;
        Ok(removed)
    }

    /// Deletes expired entries: those of the caller's principal, and a few others.
    fn remove_expired(&self, max: usize) -> Result<usize, StorageError> {
        let mut removed = 0;
        for (select, limit) in [(EXPIRED_OWN, max), (EXPIRED, max / 4)] {
            let limit = to_number(limit.min(max - removed));
            let mut expired = self.rows.prepare_cached(select)?;
            let expired = expired
                .query_map(params![self.now, self.handle.agent.own, self.handle.agent.shared, limit], |row| {
                    row.get(0)
                })?;
            for id in expired.collect::<rusqlite::Result<Vec<i64>>>()? {
                removed += self.delete(id)?;
            }
        }
        Ok(removed)
    }

    /// Stores entries, and replaces those with the same key and tier. All are stored, or none.
    pub(super) fn store(&self, entries: &[Entry], settings: &MemorySettings) -> Result<(), StorageError> {
        for entry in entries {
            self.put(entry)?;
        }
        self.remove_excess(settings.episodic)?;
        let (number, bytes) = self.usage(&self.handle.agent.shared)?;
        check_semantic(number, bytes, settings)?;
        let (all, own) = self.taken()?;
        check_total(all, own, settings)
    }

    fn put(&self, entry: &Entry) -> rusqlite::Result<()> {
        let owner = self.owner(&entry.tier);
        let same = params![owner, self.handle.space, entry.identity, entry.tier];
        let mut find = self.rows.prepare_cached(SAME)?;
        let old = find.query_row(same, |row| Ok((row.get::<_, i64>(0)?, row.get::<_, f64>(1)?))).optional()?;
        if let Some((id, _)) = old {
            self.delete(id)?;
        }
        let created_at = entry.created_at.or_else(|| old.map(|(_, created_at)| created_at)).unwrap_or(self.now);
        let mut words: BTreeMap<String, i64> = BTreeMap::new();
        each_word(&entry.key, &entry.content, &entry.tags, &mut |word| *words.entry(word.to_owned()).or_default() += 1);
        self.rows.prepare_cached(INSERT)?.execute(params![
            owner,
            self.handle.space,
            entry.tier,
            entry.identity,
            json::to_raw(&entry.tags).get(),
            words.values().sum::<i64>(),
            to_number(entry.bytes),
            entry.ttl,
            entry.expires_at,
            created_at,
            entry.updated_at,
            entry.source,
            entry.key.get(),
            entry.content.get(),
        ])?;
        let id = self.rows.last_insert_rowid();
        let index_id = self.index_id(owner);
        let mut index = self.rows.prepare_cached("INSERT INTO memory_words VALUES (?1, ?2, ?3, ?4)")?;
        for (word, times) in words {
            index.execute(params![index_id, word, id, times])?;
        }
        Ok(())
    }

    /// Deletes the oldest entries of the agent until it is within its limit.
    fn remove_excess(&self, bound: Bound) -> rusqlite::Result<()> {
        let owner = &self.handle.agent.own;
        loop {
            let (number, bytes) = self.usage(owner)?;
            if number <= bound.entries && bytes <= bound.bytes {
                return Ok(());
            }
            let oldest = "SELECT id FROM memory WHERE owner = ?1 ORDER BY id LIMIT 1";
            let oldest = self.rows.prepare_cached(oldest)?.query_row([owner], |row| row.get(0)).optional()?;
            match oldest {
                Some(id) => drop(self.delete(id)?),
                None => return Ok(()),
            }
        }
    }

    /// The bytes of all entries, and those of the principal's entries. The latter is 0 for the local user.
    fn taken(&self) -> rusqlite::Result<(usize, usize)> {
        let principal = self.handle.agent.owner.memory_of_all();
        let mut taken = self.rows.prepare_cached(TAKEN)?;
        taken.query_row([principal], |row| Ok((to_size(row.get(0)?), to_size(row.get(1)?))))
    }

    fn usage(&self, owner: &str) -> rusqlite::Result<(usize, usize)> {
        let mut usage = self.rows.prepare_cached("SELECT entries, bytes FROM memory_usage WHERE owner = ?1")?;
        let used = usage.query_row([owner], |row| Ok((to_size(row.get(0)?), to_size(row.get(1)?)))).optional()?;
        Ok(used.unwrap_or_default())
    }

    /// Deletes an entry. Returns how many were deleted: one, unless it does not exist any more.
    fn delete(&self, id: i64) -> rusqlite::Result<usize> {
        self.rows.prepare_cached("DELETE FROM memory WHERE id = ?1")?.execute([id])
    }

    /// Deletes entries. Returns how many.
    pub(super) fn forget(&self, ids: &[i64]) -> Result<usize, StorageError> {
        let mut deleted = 0;
        for id in ids {
            deleted += self.delete(*id)?;
        }
        Ok(deleted)
    }

    /// The entries that match the keys or tags of a forget request.
    pub(super) fn named(&self, query: &Query) -> Result<Vec<i64>, StorageError> {
        let mut named = Vec::new();
        if query.identities.is_empty() && query.tags.is_empty() {
            return Ok(named);
        }
        for owner in self.owners(query) {
            // Matching by tags must look at every entry.
            let heads = self.heads(owner, query, query.tags.is_empty())?.into_iter();
            named.extend(heads.filter(|head| query.names(&head.tier, &head.identity, &head.tags)).map(|head| head.id));
        }
        Ok(named)
    }

    /// The entries that pass all filters except the text query: those of the agent, then those that the agents of its
    /// principal share.
    pub(super) fn find(&self, query: &Query) -> Result<Vec<Candidate>, StorageError> {
        let mut candidates = Vec::new();
        for owner in self.owners(query) {
            let counted = self.counted(owner, query)?;
            for head in self.heads(owner, query, !query.identities.is_empty())? {
                if let Some(base) = query.base(&head.tier, &head.identity, &head.tags) {
                    let hits = counted.get(&head.id).cloned().unwrap_or_else(|| vec![0; query.words().len()]);
                    candidates.push(Candidate {
                        place: EntryLocation::Persistent(head.id),
                        words: head.words,
                        hits,
                        base,
                    });
                }
            }
        }
        Ok(candidates)
    }

    /// For each entry that contains any of the words: how often it contains each of them.
    fn counted(&self, owner: &str, query: &Query) -> rusqlite::Result<HashMap<i64, Vec<usize>>> {
        let mut counted = HashMap::new();
        for (place, query_words) in query.words().iter().enumerate() {
            let (first, last) = query_words.range();
            let mut hits = self.rows.prepare_cached(HITS)?;
            let mut hits = hits.query(params![self.index_id(owner), first, last, MAX_INDEX_ROWS])?;
            while let Some(row) = hits.next()? {
                let of_entry = counted.entry(row.get(0)?).or_insert_with(|| vec![0; query.words().len()]);
                of_entry[place] = to_size(row.get(1)?);
            }
        }
        Ok(counted)
    }

    fn heads(&self, owner: &str, query: &Query, only_keys: bool) -> rusqlite::Result<Vec<Head>> {
        let read = |row: &rusqlite::Row<'_>| {
            let tags: String = row.get(3)?;
            Ok(Head {
                id: row.get(0)?,
                tier: row.get(1)?,
                identity: row.get(2)?,
                tags: read_tags(&tags),
                words: to_size(row.get(4)?),
            })
        };
        if only_keys {
            let keys: Vec<String> = query.identities.iter().map(|key| hex::encode(key)).collect();
            let keys = json::to_raw(&keys);
            let mut heads = self.rows.prepare_cached(HEADS_OF_KEYS)?;
            heads.query_map(params![owner, self.handle.space, self.now, query.tier, keys.get()], read)?.collect()
        } else {
            let mut heads = self.rows.prepare_cached(HEADS)?;
            heads.query_map(params![owner, self.handle.space, self.now, query.tier], read)?.collect()
        }
    }

    /// An entry as it is returned.
    pub(super) fn returned(&self, id: i64, score: f64) -> Result<Box<RawValue>, StorageError> {
        let mut whole = self.rows.prepare_cached(WHOLE)?;
        let returned = whole.query_row([id], |row| {
            let tags: String = row.get(3)?;
            Ok(json::to_raw(&ReturnedEntry {
                key: &json::raw(row.get(0)?),
                content: &json::raw(row.get(1)?),
                tier: row.get_ref(2)?.as_str()?,
                tags: &read_tags(&tags),
                source: row.get_ref(4)?.as_str()?,
                score,
                ttl: row.get(5)?,
                created_at: row.get(6)?,
                updated_at: row.get(7)?,
            }))
        })?;
        Ok(returned)
    }

    /// The owner of the entries of a tier.
    fn owner(&self, tier: &str) -> &str {
        match tier {
            "semantic" => &self.handle.agent.shared,
            _ => &self.handle.agent.own,
        }
    }

    /// The number under which the words of an owner are indexed. If two owners had the same number, their entries would
    /// still be separate.
    fn index_id(&self, owner: &str) -> i64 {
        let digest = crate::sha256(&[&self.handle.space, owner.as_bytes()]);
        digest.iter().take(8).fold(0, |number, &byte| number << 8 | i64::from(byte))
    }

    /// The owners that have entries of the requested tier, in the order in which entries are returned.
    fn owners(&self, query: &Query) -> Vec<&str> {
        match query.tier.as_str() {
            "" => vec![&self.handle.agent.own, &self.handle.agent.shared],
            tier => vec![self.owner(tier)],
        }
    }
}

fn read_tags(tags: &str) -> Vec<String> {
    serde_json::from_str(tags).unwrap_or_default()
}

fn to_size(number: i64) -> usize {
    usize::try_from(number).unwrap_or(0)
}

fn to_number(size: usize) -> i64 {
    i64::try_from(size).unwrap_or(i64::MAX)
}
