//! Filters of a memory query, and the score of entries.
//!
//! Filters are ANDed. The score of an entry is the sum of these parts:
//!
//! - 0.25 if the query names a tier,
//! - 1 if the query names keys,
//! - the share of the requested tags that the entry has,
//! - the BM25 score of its text, from 0 to 1.
//!
//! BM25 counts only entries that the caller may see, so no agent can infer from its scores what others have stored.

use std::collections::HashSet;

use super::entry::Identity;
use super::words::QueryWord;
use gladhand_core::Order as _;

/// BM25 parameters: how quickly repetitions of a word count less, and how much long texts are penalised.
const K1: f64 = 1.2;
const B: f64 = 0.75;

/// A query.
#[derive(Debug)]
pub(super) struct Query {
    pub(super) tier: String,
    pub(super) identities: HashSet<Identity>,
    pub(super) tags: HashSet<String>,
    /// The words of the text query; `None` if there is no text query.
    pub(super) query_words: Option<Vec<QueryWord>>,
    min_score: f64,
}

/// The location of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EntryLocation {
    /// In working memory, at this index.
    Working(usize),
    /// In the database, with this id.
    Persistent(i64),
}

/// An entry that passes all filters except the text query.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) place: EntryLocation,
    /// Its number of words.
    pub(super) words: usize,
    /// For each word of the query, how often the entry contains it.
    pub(super) hits: Vec<usize>,
    /// The score without the text part.
    pub(super) base: f64,
}

impl Query {
    pub(super) fn new(
        tier: String,
        identities: HashSet<Identity>,
        tags: HashSet<String>,
        text: &str,
        min_score: f64,
    ) -> Self {
        let query_words = (!text.trim().is_empty()).then(|| QueryWord::of_query(text));
        Self { tier, identities, tags, query_words, min_score }
    }

    pub(super) fn wants_working(&self) -> bool {
        matches!(self.tier.as_str(), "" | "working")
    }

    pub(super) fn wants_persistent(&self) -> bool {
        self.tier != "working"
    }

    /// The words of the text query, if any.
    pub(super) fn words(&self) -> &[QueryWord] {
        self.query_words.as_deref().unwrap_or_default()
    }

    /// The score without the text part, if the entry passes all filters except the text query.
    pub(super) fn base(&self, tier: &str, identity: &Identity, tags: &[String]) -> Option<f64> {
        let by_tier = if self.tier.is_empty() { 0.0 } else { 0.25 };
        let by_key = if self.identities.is_empty() { 0.0 } else { 1.0 };
        let common = self.tags_in_common(tags);
        let by_tags = if self.tags.is_empty() { 0.0 } else { common as f64 / self.tags.len() as f64 };
        let is_wanted = (self.tier.is_empty() || self.tier == tier)
            && (self.identities.is_empty() || self.identities.contains(identity))
            && (self.tags.is_empty() || common > 0);
        is_wanted.then_some(by_tier + by_key + by_tags)
    }

    /// Whether a forget request matches an entry: by its key or by one of its tags.
    pub(super) fn names(&self, tier: &str, identity: &Identity, tags: &[String]) -> bool {
        (self.tier.is_empty() || self.tier == tier)
            && (self.identities.contains(identity) || self.tags_in_common(tags) > 0)
    }

    fn tags_in_common(&self, tags: &[String]) -> usize {
        tags.iter().filter(|tag| self.tags.contains(*tag)).collect::<HashSet<_>>().len()
    }

    /// The entries with a sufficient score, the best first. The sort is stable.
    pub(super) fn rank(&self, candidates: Vec<Candidate>) -> Vec<(EntryLocation, f64)> {
        let texts = self.query_words.as_ref().map(|query_words| Texts::new(query_words.len(), &candidates));
        let scored = candidates.iter().filter_map(|candidate| {
            let text = match &texts {
                Some(texts) => texts.score(candidate)?,
                None => 0.0,
            };
            Some((candidate.place, candidate.base + text))
        });
        let mut ranked: Vec<_> = scored.filter(|(_, score)| *score >= self.min_score).collect();
        ranked.order_by(|(_, left), (_, right)| right.total_cmp(left));
        ranked
    }
}

/// Statistics of all texts that the score of one text needs.
struct Texts {
    average: f64,
    /// The weight of each word of the query: rare words weigh more.
    weights: Vec<f64>,
}

impl Texts {
    fn new(query_words: usize, candidates: &[Candidate]) -> Self {
        let count = candidates.len() as f64;
        let words: usize = candidates.iter().map(|candidate| candidate.words).sum();
        let weight = |word: usize| {
            let with = candidates.iter().filter(|candidate| candidate.hits[word] > 0).count() as f64;
            (1.0 + (count - with + 0.5) / (with + 0.5)).ln()
        };
        Self { average: words as f64 / count.max(1.0), weights: (0..query_words).map(weight).collect() }
    }

    /// BM25 as a share of the maximum that the words of the query can reach. `None` if the text contains none of the
    /// words.
    fn score(&self, candidate: &Candidate) -> Option<f64> {
        if candidate.hits.iter().all(|&hits| hits == 0) {
            return None;
        }
        let damping = K1 * (1.0 - B + B * candidate.words as f64 / self.average.max(1.0));
        let reached = self.weights.iter().zip(&candidate.hits).map(|(weight, &hits)| {
            let hits = hits as f64;
            weight * hits / (hits + damping)
        });
        Some(reached.sum::<f64>() / self.weights.iter().sum::<f64>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_query(text: &str, min_score: f64) -> Query {
        Query::new(String::new(), HashSet::new(), HashSet::new(), text, min_score)
    }

    fn candidate(id: i64, words: usize, hits: &[usize]) -> Candidate {
        Candidate { place: EntryLocation::Persistent(id), words, hits: hits.to_vec(), base: 0.0 }
    }

    fn order(ranked: &[(EntryLocation, f64)]) -> Vec<i64> {
        let id = |(place, _): &(EntryLocation, f64)| match place {
            EntryLocation::Persistent(id) => *id,
            EntryLocation::Working(_) => panic!("no entry is in working memory"),
        };
        ranked.iter().map(id).collect()
    }

    #[test]
    fn rare_words_short_texts_and_repetition_count_more() {
        let ranked = text_query("rare common", 0.0).rank(vec![
            candidate(1, 10, &[0, 1]),
            candidate(2, 10, &[0, 3]),
            candidate(3, 10, &[1, 0]),
            candidate(4, 10, &[1, 1]),
            candidate(5, 90, &[0, 1]),
            candidate(6, 10, &[0, 0]),
        ]);
        assert_eq!(order(&ranked), [4, 3, 2, 1, 5]);
        assert!(ranked.iter().all(|(_, score)| (0.0..1.0).contains(score)), "{ranked:?}");
    }

    #[test]
    fn entries_below_the_minimum_score_are_left_out() {
        let all = || vec![candidate(1, 5, &[1]), candidate(2, 500, &[1])];
        assert_eq!(order(&text_query("word", 0.0).rank(all())), [1, 2]);
        assert_eq!(order(&text_query("word", 0.4).rank(all())), [1]);
    }

    #[test]
    fn a_query_without_words_finds_nothing_and_no_query_finds_all() {
        let all = || vec![candidate(2, 5, &[]), candidate(1, 5, &[])];
        assert_eq!(order(&text_query("?!", 0.0).rank(all())), [] as [i64; 0]);
        assert_eq!(order(&text_query("  ", 0.0).rank(all())), [2, 1]);
    }

    #[test]
    fn tier_key_and_tags_add_up() {
        let tags = |tags: &[&str]| tags.iter().map(|tag| (*tag).to_owned()).collect::<Vec<_>>();
        let query =
            Query::new("t".to_owned(), HashSet::from([[1; 32]]), tags(&["a", "b"]).into_iter().collect(), "", 0.0);
        assert_eq!(query.base("t", &[1; 32], &tags(&["b", "c"])), Some(1.75));
        assert_eq!(query.base("t", &[1; 32], &tags(&["b", "b"])), Some(1.75));
        assert_eq!(query.base("t", &[1; 32], &tags(&["b", "a"])), Some(2.25));
        assert_eq!(query.base("t", &[1; 32], &tags(&["c"])), None);
        assert_eq!(query.base("t", &[2; 32], &tags(&["a"])), None);
        assert_eq!(query.base("u", &[1; 32], &tags(&["a"])), None);
        assert!(query.names("t", &[2; 32], &tags(&["a"])) && query.names("t", &[1; 32], &[]));
        assert!(!query.names("t", &[2; 32], &[]) && !query.names("u", &[1; 32], &[]));
    }
}
