//! Ranks sections by how well they match a question.
//!
//! Each word of the question is looked up separately, because the BM25 score of several words is the sum of their
//! scores. So it is known which section has which word, and a lookup is cached until the index changes.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::index::Index;
use crate::passage::Passages;
use crate::question::{Limits, Question};
use crate::search_terms::SearchTerms;
use crate::synonyms::{distant, implied, related, synonyms};
use crate::words::words;
use gladhand_core::Order as _;

/// Maximum length of a question in bytes. The rest is ignored.
const LONGEST_QUESTION: usize = 8192;

/// Maximum number of words of a question that are looked up.
const MOST_TERMS: usize = 32;

/// Shorter words do not match as prefixes of other words.
const SHORTEST_BEGINNING: usize = 4;

/// Maximum number of cached word positions: some 30 MB.
const MOST_REMEMBERED: usize = 4_000_000;

/// The weight of a word that only begins with the word of the question.
const BEGINNING: f32 = 0.8;

/// The weight of a synonym, relative to the word itself.
const SIMILAR: f32 = 0.8;

/// The weight of a related word that the answer may have instead.
const RELATED: f32 = 0.7;

/// The weight of a word at two steps from the word of the question: a synonym of a related word, or the reverse.
const DISTANT: f32 = 0.35;

/// The weight of a meaning that a phrase of the question implies.
const IMPLIED: f32 = 0.9;

/// The share of the sections with a synonym that count as sections with the word itself when its rarity is determined: a
/// question that says `directory` is about folders where the documents say `folder`.
const AS_COMMON: f32 = 0.45;

/// The weight of BM25. These weights and those below are fitted to all of `tests/questions*.txt`.
const BY_RELEVANCE: f32 = 0.85;

/// The weight of question words in the title, the path and the headings.
const BY_NAME: f32 = 1.1;

/// The weight of words that follow each other as in the question.
const BY_ORDER: f32 = 0.8;

/// The weight of a heading that consists of question words only.
const BY_COVERAGE: f32 = 0.3;

/// The weight of question words that one sentence, row or list item has.
const BY_UNIT: f32 = 0.2;

/// The weight of question words among the first words of one sentence, row or list item, where its subject is.
const BY_BEGINNING: f32 = 0.8;

/// The weight of question words in and around one sentence, row or list item.
const BY_FOCUS: f32 = 0.25;

/// How much the share of words in and around one unit decides about the whole, rather than the share of words in the section.
const FOCUSED: f32 = 0.25;

/// The share of the evidence that a section loses if it has all its words in other forms than the question.
const OTHER_FORMS: f32 = 0.1;

/// The amount of evidence that gives a score of one half.
const HALF: f32 = 0.7;

/// The number of sections that are read to rank them, at least.
const CLOSELY: usize = 24;

/// The weight of a word that belongs to the form of the question, not to its subject.
const WEAK: f32 = 0.55;

/// The weight of an identifier such as `page_size`: a question that names one is about exactly that.
const STRONG: f32 = 1.4;

/// The bonus of a section that mentions the framework of the caller's project.
const BY_FRAMEWORK: f32 = 0.3;

/// Words that belong to the form of a question, not to its subject, in any form. Documents need not have them.
const ASKING: &str =
    "above across add after again against allow along already although always among apart around away back became become
    before behind below beside besides best beyond big certain change choose come correct create deal define difference different
    during earlier early either enable enough every everybody everyone everything exactly example except far fast find first fix
    forever further go good handle help however instead integrate keep kept large last late later least less long look low
    made make maybe mean need neither never new next nobody none nothing off old once one order otherwise over own per perhaps
    pick place possible put rather return right run same see set setup several show since small soon start support sure take
    talk thing try turn two under unless use usual various whatever whenever wherever whole within without work";

/// A word of a question, or a name with its parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Term {
    /// The word, or the whole name.
    pub(crate) stem: String,
    /// The parts of a name.
    pub(crate) parts: Vec<String>,
    /// The form in the question, in lower case.
    pub(crate) form: String,
    /// Whether longer words that begin with it match, too.
    begins_others: bool,
    /// Synonyms.
    others: &'static [String],
    /// Related words that the answer may have instead.
    related: &'static [String],
    /// Words at two steps from it.
    distant: &'static [String],
    /// Whether the question does not contain the word, but a phrase that means one of `others`.
    implied: bool,
}

impl Term {
    /// A term for the meaning of a phrase of the question: any of these words.
    fn implied(others: &'static [String]) -> Self {
        let (stem, form) = (String::new(), String::new());
        Self { stem, parts: Vec::new(), form, begins_others: false, others, related: &[], distant: &[], implied: true }
    }

    /// Whether a word of a text is this one, or begins with it.
    pub(crate) fn is_named_by(&self, stem: &str) -> bool {
        match self.implied {
            true => self.others.iter().any(|other| other == stem),
            false => self.stem == stem || self.begins_others && stem.starts_with(&self.stem),
        }
    }

    /// Whether a word of a text is this one, begins with it, or means the same.
    pub(crate) fn is_met_by(&self, stem: &str) -> bool {
        self.is_named_by(stem) || self.others.iter().any(|other| other == stem)
    }

    /// Whether a word of a text is related to this one.
    pub(crate) fn is_related_to(&self, stem: &str) -> bool {
        self.related.iter().any(|other| other == stem)
    }

    /// Whether it is an identifier, such as `page_size`, and not a word of a language.
    fn is_identifier(&self) -> bool {
        !self.parts.is_empty() || self.stem.contains(|c: char| c.is_ascii_digit())
    }

    /// The expression that finds it.
    fn expression(&self) -> String {
        match self.parts.is_empty() {
            true if self.implied => any_of(self.others),
            true => quoted(&self.stem),
            false => format!("{} OR \"{}\"", quoted(&self.stem), self.parts.join(" ")),
        }
    }
}

/// The terms of a text, each once, in order.
pub(crate) fn terms(text: &str) -> Vec<Term> {
    let mut terms: Vec<Term> = Vec::new();
    let text = clipped(text);
    for word in words(text) {
        match terms.last_mut() {
            Some(name) if word.part => {
                name.parts.push(word.stem);
                name.begins_others = false;
            }
            _ => {
                let begins_others =
                    word.stem.chars().count() >= SHORTEST_BEGINNING && word.stem.chars().all(char::is_alphabetic);
                let form = text[word.place].to_lowercase();
                let (others, related) = (synonyms(&word.stem), related(&word.stem));
                let distant = distant(&word.stem);
                terms.push(Term {
                    stem: word.stem,
                    parts: Vec::new(),
                    form,
                    begins_others,
                    others,
                    related,
                    distant,
                    implied: false,
                });
            }
        }
    }
    let mut seen = HashSet::new();
    terms.retain(|term| seen.insert(term.stem.clone()));
    terms.truncate(MOST_TERMS);
    terms
}

/// The part of a question that is read.
fn clipped(text: &str) -> &str {
    &text[..text.floor_char_boundary(LONGEST_QUESTION)]
}

fn quoted(word: &str) -> String {
    format!("\"{word}\"")
}

/// The expression that finds any of some words.
fn any_of(words: &[String]) -> String {
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" OR ")
}

/// The candidate sections, best first as far as that is known without reading them.
#[derive(Debug, Default)]
pub(crate) struct Ranking {
    /// More than are wanted, because several can be pieces of one section, and reading them may change their order.
    pub(crate) candidates: Vec<Candidate>,
    /// The number of sections that the answer may be taken from.
    pub(crate) wanted: usize,
    /// The minimum score.
    pub(crate) least: f64,
    /// The terms that were searched for, with their weights.
    pub(crate) search_terms: SearchTerms,
}

/// A section that may match.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Candidate {
    pub(crate) section: i64,
    /// The share of the question's words that it has.
    words: f32,
    /// Its BM25, as a share of the best.
    relevance: f32,
    /// The share of the question's words that are in the title, the path, its heading or one above.
    named: f32,
    /// The share of the question's pairs of words that follow each other in it.
    order: f32,
    /// Whether it mentions the framework of the caller's project.
    framework: bool,
}

impl Candidate {
    /// The evidence that is known without reading the section.
    fn promise(&self) -> f32 {
        BY_RELEVANCE * self.relevance
            + BY_NAME * self.named
            + BY_ORDER * self.order
            + if self.framework { BY_FRAMEWORK } else { 0.0 }
    }

    /// The score of the section, from 0 to 1.
    pub(crate) fn score(&self, passages: &Passages<'_>) -> f64 {
        let focus = passages.focus();
        let read = BY_COVERAGE * passages.heading_coverage().powi(2)
            + BY_UNIT * passages.in_one_unit()
            + BY_BEGINNING * passages.at_a_beginning()
            + BY_FOCUS * focus;
        let forms = 1.0 - OTHER_FORMS + OTHER_FORMS * (passages.exactness() / self.words).min(1.0);
        let words = FOCUSED * focus + (1.0 - FOCUSED) * self.words;
        let evidence = forms * words * (self.promise() + read);
        let score = f64::from(evidence / (evidence + HALF));
        (score * 1e4).round() / 1e4
    }
}

/// Finds sections. Caches the positions of words.
#[derive(Debug)]
pub(crate) struct Finder {
    /// The words of [`ASKING`] in the form of the index.
    asking: HashSet<String>,
    /// The generation of the index that the cache belongs to.
    generation: i64,
    /// All sections, in the order in which equal ones are shown, and the reverse mapping.
    order: Vec<i64>,
    slots: HashMap<i64, u32>,
    scores: HashMap<String, Arc<[SectionScore]>>,
    remembered: usize,
}

/// A section that matches an expression, and its BM25.
type SectionScore = (u32, f32);

/// The evidence for one section.
#[derive(Debug, Clone, Copy, Default)]
struct Merits {
    relevance: f32,
    words: f32,
    named: f32,
    order: f32,
    /// The last term that was counted, plus one.
    counted: u32,
    framework: bool,
}

impl Default for Finder {
    fn default() -> Self {
        Self {
            asking: words(ASKING).into_iter().map(|word| word.stem).collect(),
            generation: 0,
            order: Vec::new(),
            slots: HashMap::new(),
            scores: HashMap::new(),
            remembered: 0,
        }
    }
}

impl Finder {
    /// The sections that match `question`, in this `generation` of the index.
    pub(crate) fn find(
        &mut self,
        index: &Index,
        generation: i64,
        question: &Question,
        limits: &Limits,
    ) -> rusqlite::Result<Ranking> {
        if self.generation != generation {
            self.forget(index, generation)?;
        }
        let terms = terms(&question.query);
        let mut merits = vec![Merits::default(); self.order.len()];
        let mut search_terms = Vec::with_capacity(terms.len());
        for (number, term) in (1..).zip(&terms) {
            search_terms.push((term.clone(), self.weigh(index, term, number, &mut merits)?));
        }
        // A section need not contain the meaning of a phrase, but gains by it.
        let whole = search_terms.iter().map(|(_, weight)| weight).sum();
        let pair_weight = |pair: &[(Term, f32)]| pair[0].1.min(pair[1].1);
        let pairs = search_terms.windows(2).map(pair_weight).sum::<f32>().max(f32::MIN_POSITIVE);
        for (pair, weighed) in terms.windows(2).zip(search_terms.windows(2)) {
            let weight = pair_weight(weighed);
            if self.is_nowhere(&pair[0]) || self.is_nowhere(&pair[1]) {
                continue;
            }
            let first = pair[0].parts.last().unwrap_or(&pair[0].stem);
            for (slot, _) in self.scores(index, format!("\"{first} {}\"", pair[1].stem))?.iter() {
                merits[*slot as usize].order += weight / pairs;
            }
        }
        for (number, meanings) in (1 + MOST_TERMS as u32..).zip(implied(clipped(&question.query))) {
            let term = Term::implied(meanings);
            let weight = self.weigh(index, &term, number, &mut merits)?;
            search_terms.push((term, weight));
        }
        for term in self::terms(question.framework()) {
            for (slot, _) in self.scores(index, term.expression())?.iter() {
                merits[*slot as usize].framework = true;
            }
        }
        let wanted = question.sections();
        let candidates = self.candidates(&merits, whole, CLOSELY.max(wanted * 3));
        Ok(Ranking { candidates, wanted, least: limits.min_score, search_terms: SearchTerms::new(search_terms) })
    }

    /// Credits each section for a term, and returns the weight of the term. Rare terms weigh more, and terms that occur
    /// nowhere weigh like the rarest.
    fn weigh(&mut self, index: &Index, term: &Term, number: u32, merits: &mut [Merits]) -> rusqlite::Result<f32> {
        let exact = self.scores(index, term.expression())?;
        let beginning = match term.begins_others {
            true => self.scores(index, format!("{}*", quoted(&term.stem)))?,
            false => Arc::default(),
        };
        let similar = if term.implied { Arc::default() } else { self.any(index, term.others)? };
        let related = self.any(index, term.related)?;
        let distant = self.any(index, term.distant)?;
        let having = if exact.is_empty() { beginning.len() } else { exact.len() }.max(1) as f32;
        let having = having.max(AS_COMMON * similar.len() as f32);
        let strength = self.strength(term);
        let weight = strength * (1.0 + ((merits.len() as f32 - having).max(0.0) + 0.5) / (having + 0.5)).ln();
        for (scores, share) in
            [(&exact, 1.0), (&beginning, BEGINNING), (&similar, SIMILAR), (&related, RELATED), (&distant, DISTANT)]
        {
            for (slot, relevance) in scores.iter() {
                let merits = &mut merits[*slot as usize];
                if merits.counted != number {
                    merits.counted = number;
                    merits.relevance += share * strength * relevance;
                    merits.words += share * weight;
                }
            }
        }
        let expression = format!("{{above title heading}} : ({})", term.expression());
        for (slot, _) in self.scores(index, expression)?.iter() {
            merits[*slot as usize].named += weight;
        }
        Ok(weight)
    }

    /// The positions of any of some words.
    fn any(&mut self, index: &Index, words: &[String]) -> rusqlite::Result<Arc<[SectionScore]>> {
        if words.is_empty() { Ok(Arc::default()) } else { self.scores(index, any_of(words)) }
    }

    /// The weight of a term by its kind: question words, identifiers, other words.
    fn strength(&self, term: &Term) -> f32 {
        match self.asking.contains(&term.stem) {
            _ if term.implied => IMPLIED,
            true => WEAK,
            false if term.is_identifier() => STRONG,
            false => 1.0,
        }
    }

    /// Whether a weighed term is in no section, so that no pair with it can be either.
    fn is_nowhere(&self, term: &Term) -> bool {
        self.scores.get(&term.expression()).is_some_and(|scores| scores.is_empty())
    }

    fn candidates(&self, merits: &[Merits], whole: f32, most: usize) -> Vec<Candidate> {
        let best = merits.iter().map(|merits| merits.relevance).fold(f32::MIN_POSITIVE, f32::max);
        // By the evidence so far; equal ones in the order of their documents.
        let mut found: Vec<(f32, usize, Candidate)> = (self.order.iter().zip(merits).enumerate())
            .filter(|(_, (_, merits))| merits.counted > 0)
            .map(|(slot, (section, merits))| {
                let candidate = Candidate {
                    section: *section,
                    words: merits.words / whole,
                    relevance: merits.relevance / best,
                    named: merits.named / whole,
                    order: merits.order,
                    framework: merits.framework,
                };
                (candidate.words * candidate.promise(), slot, candidate)
            })
            .collect();
        let better = |a: &(f32, usize, Candidate), b: &(f32, usize, Candidate)| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1));
        if found.len() > most {
            found.select_nth_unstable_by(most, better);
            found.truncate(most);
        }
        found.order_by(better);
        found.into_iter().map(|(_, _, candidate)| candidate).collect()
    }

    /// The matches of an expression, by section.
    fn scores(&mut self, index: &Index, expression: String) -> rusqlite::Result<Arc<[SectionScore]>> {
        if let Some(scores) = self.scores.get(&expression) {
            return Ok(Arc::clone(scores));
        }
        let matches = index.matches(&expression)?;
        let scores: Arc<[SectionScore]> =
            matches.into_iter().filter_map(|(id, relevance)| Some((*self.slots.get(&id)?, relevance as f32))).collect();
        // The expression itself takes memory, too, and words that occur nowhere have nothing else.
        self.remembered += scores.len() + 16;
        if self.remembered > MOST_REMEMBERED {
            self.scores.clear();
            self.remembered = scores.len() + 16;
        }
        self.scores.insert(expression, Arc::clone(&scores));
        Ok(scores)
    }

    fn forget(&mut self, index: &Index, generation: i64) -> rusqlite::Result<()> {
        let order = index.sections()?;
        let slots = (0..).zip(&order).map(|(slot, id)| (*id, slot)).collect();
        *self = Self { generation, order, slots, ..Self::default() };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_term_with_parts() {
        let terms = terms("How do I set WIDGET_TOKEN? Set it!");
        assert_eq!(terms.iter().map(|term| &*term.stem).collect::<Vec<_>>(), ["set", "widgettoken"]);
        let name = &terms[1];
        assert_eq!((&*name.form, name.begins_others), ("widget_token", false));
        assert_eq!(name.parts, ["widget", "token"]);
        assert_eq!(name.expression(), "\"widgettoken\" OR \"widget token\"");
    }

    #[test]
    fn a_question_without_end_has_an_end() {
        let long = (0..200_000).map(|number| format!("word{number} ")).collect::<String>();
        assert_eq!(terms(&long).len(), MOST_TERMS);
        assert!(terms(&"ü".repeat(1 << 20)).len() == 1);
    }
}
