//! Working memory: entries that last as long as their session.

use std::collections::VecDeque;
use std::sync::Arc;

use gladhand_core::wire::{RawValue, json};
use gladhand_hub::Portion;

use super::entry::{Entry, ReturnedEntry};
use super::ranking::{Candidate, EntryLocation, Query};
use super::words::each_word;
use super::{Bound, Space};

/// The working memory of a session, in the order in which it was written.
#[derive(Debug)]
pub(super) struct Working {
    /// Entries are shared with searches, which do not hold the lock.
    entries: VecDeque<(Space, Arc<Entry>)>,
    /// The size of the entries, as it counts towards the limit of the session.
    bytes: usize,
    /// The number of memory ids that the session has opened.
    handles: usize,
    /// Its part of the space that all sessions share; `None` for the user who started this process.
    room: Option<Portion>,
}

/// Space for entries that are about to be stored.
#[derive(Debug)]
pub(super) struct Reserved {
    /// `None` for the user who started this process.
    _room: Option<Portion>,
}

/// The memory that an entry takes in addition to its text, approximately: its place in the list, the entry itself, and
/// the allocations of its parts.
const ENTRY_BYTES: usize = size_of::<(Space, Arc<Entry>)>() + size_of::<Entry>() + 6 * 16;

/// The memory that a memory id takes, approximately.
const HANDLE_BYTES: usize = 512;

impl Working {
    /// Creates an empty memory within the shared space.
    pub(super) fn within(room: Option<Portion>) -> Self {
        Self { entries: VecDeque::new(), bytes: 0, handles: 0, room }
    }

    /// Reserves space for entries until they are stored. `None` if there is not enough.
    pub(super) fn reserve(&self, entries: &[Entry]) -> Option<Reserved> {
        let mut room = self.room.as_ref().map(Portion::another);
        let held = entries.iter().map(|entry| entry.bytes + ENTRY_BYTES).sum();
        room.as_mut().is_none_or(|room| room.resize(held)).then_some(Reserved { _room: room })
    }

    /// Counts one more memory id. Returns whether there is space for it.
    pub(super) fn add_handle(&mut self) -> bool {
        self.handles += 1;
        let has_room = self.settle();
        if !has_room {
            self.handles -= 1;
            self.settle();
        }
        has_room
    }

    /// Counts the memory that is in use. Returns whether there is space for it.
    fn settle(&mut self) -> bool {
        let held = self.bytes + self.entries.len() * ENTRY_BYTES + self.handles * HANDLE_BYTES;
        self.room.as_mut().is_none_or(|room| room.resize(held))
    }

    /// Stores entries, and replaces those with the same key. The oldest are removed to make room.
    pub(super) fn store(&mut self, space: Space, entries: Vec<Entry>, bound: Bound, now: f64) {
        self.keep(|_, entry| is_current(entry, now));
        for mut entry in entries {
            let same = |(other, old): &(Space, Arc<Entry>)| *other == space && old.identity == entry.identity;
            if let Some(old) = self.entries.iter().position(same).and_then(|at| self.entries.remove(at)) {
                self.bytes -= old.1.bytes;
                entry.created_at = entry.created_at.or(old.1.created_at);
            }
            entry.created_at = entry.created_at.or(Some(now));
            self.bytes += entry.bytes;
            self.entries.push_back((space, Arc::new(entry)));
            while self.entries.len() > bound.entries || self.bytes > bound.bytes {
                let Some((_, oldest)) = self.entries.pop_front() else { break };
                self.bytes -= oldest.bytes;
            }
        }
        self.settle();
    }

    /// Deletes entries that match the keys or tags. Returns how many.
    pub(super) fn forget(&mut self, space: Space, query: &Query, now: f64) -> usize {
        self.keep(|_, entry| is_current(entry, now));
        let before = self.entries.len();
        self.keep(|other, entry| *other != space || !query.names(&entry.tier, &entry.identity, &entry.tags));
        before - self.entries.len()
    }

    /// The current entries of a space, to be searched without the lock.
    pub(super) fn current(&self, space: Space, now: f64) -> Vec<Arc<Entry>> {
        let here = self.entries.iter().filter(|(other, entry)| *other == space && is_current(entry, now));
        here.map(|(_, entry)| Arc::clone(entry)).collect()
    }

    fn keep(&mut self, is_kept: impl Fn(&Space, &Entry) -> bool) {
        self.entries.retain(|(space, entry)| is_kept(space, entry));
        self.bytes = self.entries.iter().map(|(_, entry)| entry.bytes).sum();
        self.settle();
    }
}

/// The entries that pass all filters except the text query.
pub(super) fn find(entries: &[Arc<Entry>], query: &Query) -> Vec<Candidate> {
    let candidates = entries.iter().enumerate().filter_map(|(at, entry)| {
        let base = query.base(&entry.tier, &entry.identity, &entry.tags)?;
        let (words, hits) = if query.query_words.is_some() { count(entry, query) } else { (0, Vec::new()) };
        Some(Candidate { place: EntryLocation::Working(at), words, hits, base })
    });
    candidates.collect()
}

/// An entry as it is returned.
pub(super) fn returned(entry: &Entry, score: f64) -> Box<RawValue> {
    json::to_raw(&ReturnedEntry {
        key: &entry.key,
        content: &entry.content,
        tier: &entry.tier,
        tags: &entry.tags,
        source: &entry.source,
        score,
        ttl: entry.ttl,
        created_at: entry.created_at.unwrap_or(entry.updated_at),
        updated_at: entry.updated_at,
    })
}

fn is_current(entry: &Entry, now: f64) -> bool {
    entry.expires_at.is_none_or(|end| end > now)
}

/// The number of words of an entry, and how often it contains each word of the query.
fn count(entry: &Entry, query: &Query) -> (usize, Vec<usize>) {
    let mut words = 0;
    let mut hits = vec![0; query.words().len()];
    each_word(&entry.key, &entry.content, &entry.tags, &mut |word| {
        words += 1;
        for (hits, query_word) in hits.iter_mut().zip(query.words()) {
            *hits += usize::from(query_word.is(word));
        }
    });
    (words, hits)
}
