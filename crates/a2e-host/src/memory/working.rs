//! Working memory: entries that last as long as their session.

use std::collections::VecDeque;

use gladhand_core::wire::{RawValue, json};
use gladhand_hub::Portion;

use super::entry::{Entry, ReturnedEntry};
use super::ranking::{Candidate, EntryLocation, Query};
use super::words::each_word;
use super::{Bound, Space};

/// The working memory of a session, in the order in which it was written.
#[derive(Debug)]
pub(super) struct Working {
    entries: VecDeque<(Space, Entry)>,
    bytes: usize,
    /// Its part of the space that all sessions share; `None` for the user who started this process.
    room: Option<Portion>,
}

impl Working {
    /// Creates an empty memory within the shared space.
    pub(super) fn within(room: Option<Portion>) -> Self {
        Self { entries: VecDeque::new(), bytes: 0, room }
    }

    /// Reserves space for `more` bytes. Returns whether there was enough.
    pub(super) fn reserve(&mut self, more: usize) -> bool {
        let total = self.bytes + more;
        self.room.as_mut().is_none_or(|room| room.resize(total))
    }

    /// Reduces the reservation to the size of the entries.
    pub(super) fn settle(&mut self) {
        if let Some(room) = &mut self.room {
            room.resize(self.bytes);
        }
    }

    /// Stores entries, and replaces those with the same key. The oldest are removed to make room.
    pub(super) fn store(&mut self, space: Space, entries: Vec<Entry>, bound: Bound, now: f64) {
        self.keep(|_, entry| is_current(entry, now));
        for mut entry in entries {
            let same = |(other, old): &(Space, Entry)| *other == space && old.identity == entry.identity;
            if let Some(old) = self.entries.iter().position(same).and_then(|at| self.entries.remove(at)) {
                self.bytes -= old.1.bytes;
                entry.created_at = entry.created_at.or(old.1.created_at);
            }
            entry.created_at = entry.created_at.or(Some(now));
            self.bytes += entry.bytes;
            self.entries.push_back((space, entry));
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

    /// The entries that pass all filters except the text query.
    pub(super) fn find(&self, space: Space, query: &Query, now: f64) -> Vec<Candidate> {
        let entries = self.entries.iter().enumerate();
        let here = entries.filter(|(_, (other, entry))| *other == space && is_current(entry, now));
        let candidates = here.filter_map(|(at, (_, entry))| {
            let base = query.base(&entry.tier, &entry.identity, &entry.tags)?;
            let (words, hits) = if query.query_words.is_some() { count(entry, query) } else { (0, Vec::new()) };
            Some(Candidate { place: EntryLocation::Working(at), words, hits, base })
        });
        candidates.collect()
    }

    /// The entry at an index, as it is returned.
    pub(super) fn returned(&self, at: usize, score: f64) -> Option<Box<RawValue>> {
        let (_, entry) = self.entries.get(at)?;
        Some(json::to_raw(&ReturnedEntry {
            key: &entry.key,
            content: &entry.content,
            tier: &entry.tier,
            tags: &entry.tags,
            source: &entry.source,
            score,
            ttl: entry.ttl,
            created_at: entry.created_at.unwrap_or(entry.updated_at),
            updated_at: entry.updated_at,
        }))
    }

    fn keep(&mut self, is_kept: impl Fn(&Space, &Entry) -> bool) {
        self.entries.retain(|(space, entry)| is_kept(space, entry));
        self.bytes = self.entries.iter().map(|(_, entry)| entry.bytes).sum();
        self.settle();
    }
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
