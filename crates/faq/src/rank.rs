//! Which sections fit a question, and how well.
//!
//! Each word of the question is looked up by itself, because BM25 of several words is the sum of theirs: so it is known which
//! section has which word, and what was looked up once is remembered until the index changes.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::index::Index;
use crate::question::{Limits, Question};
use crate::words::words;

/// No more of a question is read.
const LONGEST_QUESTION: usize = 8192;

/// No more words of a question are looked up.
const MOST_TERMS: usize = 32;

/// Shorter words are not taken for beginnings of others.
const SHORTEST_BEGINNING: usize = 4;

/// The most places of words that are remembered: some 30 MB.
const MOST_REMEMBERED: usize = 4_000_000;

/// What a word counts that only begins with the one asked for.
const BEGINNING: f32 = 0.6;

/// What is left of the score of a section that has all words but nothing else to show for itself. The rest is for the best
/// BM25, for words in its heading, for words that follow each other as in the question, and for words that stand close together.
const BY_WORDS: f32 = 0.35;
const BY_RELEVANCE: f32 = 0.2;
const BY_HEADING: f32 = 0.2;
const BY_ORDER: f32 = 0.05;
const BY_CLOSENESS: f32 = 0.2;

/// How many sections are read for that, at least.
const CLOSELY: usize = 8;

/// What a word counts that is more about asking than about what is asked.
const WEAK: f32 = 0.3;

/// What a section gains by speaking of the framework that the asker uses.
const BY_FRAMEWORK: f32 = 0.1;

/// Words by which people ask rather than what they ask about, in any form. Documents need not have them.
const ASKING: &str =
    "add allow became become best big change choose come correct create define deal different difference enable
    exactly example fast fix go good handle help integrate keep kept large look made make mean need new old order place possible
    put right see set setup small start support take thing try turn use work";

/// A word of a question, or a name with its parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Term {
    /// The word, or the whole name.
    pub(crate) stem: String,
    /// The parts of a name.
    pub(crate) parts: Vec<String>,
    /// Longer words that begin with it count as well.
    begins_others: bool,
}

impl Term {
    /// Whether a word of a text is this one, or begins with it.
    pub(crate) fn is_met_by(&self, stem: &str) -> bool {
        self.stem == stem || self.begins_others && stem.starts_with(&self.stem)
    }

    /// The expression that finds it.
    fn expression(&self) -> String {
        if self.parts.is_empty() {
            quoted(&self.stem)
        } else {
            format!("{} OR \"{}\"", quoted(&self.stem), self.parts.join(" "))
        }
    }
}

/// The terms of a text, each once, in order.
pub(crate) fn terms(text: &str) -> Vec<Term> {
    let mut terms: Vec<Term> = Vec::new();
    for word in words(&text[..text.floor_char_boundary(LONGEST_QUESTION)]) {
        match terms.last_mut() {
            Some(name) if word.part => {
                name.parts.push(word.stem);
                name.begins_others = false;
            }
            _ => {
                let begins_others =
                    word.stem.chars().count() >= SHORTEST_BEGINNING && word.stem.chars().all(char::is_alphabetic);
                terms.push(Term { stem: word.stem, parts: Vec::new(), begins_others });
            }
        }
    }
    let mut seen = HashSet::new();
    terms.retain(|term| seen.insert(term.stem.clone()));
    terms.truncate(MOST_TERMS);
    terms
}

fn quoted(word: &str) -> String {
    format!("\"{word}\"")
}

/// The sections that may fit, the best first as far as can be said without reading them.
#[derive(Debug, Default)]
pub(crate) struct Ranking {
    /// Some more than are wanted, since several can be pieces of one, and reading them may change their order.
    pub(crate) candidates: Vec<Candidate>,
    /// How many of them the answer may be taken from.
    pub(crate) wanted: usize,
    /// The score that they must reach.
    pub(crate) least: f64,
    /// What was looked for, with how much it counts.
    pub(crate) sought: Vec<(Term, f32)>,
}

/// A section that may fit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Candidate {
    pub(crate) section: i64,
    /// The share of the question's words that it has.
    words: f32,
    /// What else speaks for it.
    merit: f32,
}

impl Candidate {
    /// How well the section fits, from 0 to 1, if this share of the words stands close together in it.
    pub(crate) fn score(&self, closeness: f32) -> f64 {
        let score = f64::from(self.words * (self.merit + BY_CLOSENESS * closeness)).min(1.0);
        (score * 1e4).round() / 1e4
    }
}

/// Finds sections. Remembers where words are.
#[derive(Debug)]
pub(crate) struct Finder {
    /// The words of [`ASKING`] as the index knows them.
    asking: HashSet<String>,
    /// The state of the index that all of this is about.
    generation: i64,
    /// All sections, in the order in which equally good ones are shown, and the way back.
    order: Vec<i64>,
    slots: HashMap<i64, u32>,
    places: HashMap<String, Arc<[Place]>>,
    remembered: usize,
}

/// A section that matches an expression, and its BM25.
type Place = (u32, f32);

/// What speaks for one section.
#[derive(Debug, Clone, Copy, Default)]
struct Merits {
    relevance: f32,
    words: f32,
    heading: f32,
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
            places: HashMap::new(),
            remembered: 0,
        }
    }
}

impl Finder {
    /// The sections that fit `question`, by what the index says in `generation`.
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
        let mut sought = Vec::with_capacity(terms.len());
        for (number, term) in (1..).zip(&terms) {
            sought.push((term.clone(), self.weigh(index, term, number, &mut merits)?));
        }
        let pairs = terms.len().saturating_sub(1).max(1) as f32;
        for pair in terms.windows(2) {
            if self.is_nowhere(&pair[0]) || self.is_nowhere(&pair[1]) {
                continue;
            }
            let first = pair[0].parts.last().unwrap_or(&pair[0].stem);
            for (slot, relevance) in self.places(index, format!("\"{first} {}\"", pair[1].stem))?.iter() {
                merits[*slot as usize].relevance += 0.5 * relevance;
                merits[*slot as usize].order += 1.0 / pairs;
            }
        }
        for term in self::terms(question.framework()) {
            for (slot, _) in self.places(index, term.expression())?.iter() {
                merits[*slot as usize].framework = true;
            }
        }
        let whole = sought.iter().map(|(_, weight)| weight).sum();
        let wanted = question.sections();
        let candidates = self.candidates(&merits, whole, CLOSELY.max(wanted * 3 / 2));
        Ok(Ranking { candidates, wanted, least: limits.min_score, sought })
    }

    /// Gives each section what it deserves for a term, and says how much the term counts: rare ones count more, and those
    /// that are nowhere count like the rarest.
    fn weigh(&mut self, index: &Index, term: &Term, number: u32, merits: &mut [Merits]) -> rusqlite::Result<f32> {
        let exact = self.places(index, term.expression())?;
        let beginning = match term.begins_others {
            true => self.places(index, format!("{}*", quoted(&term.stem)))?,
            false => Arc::default(),
        };
        let having = if exact.is_empty() { beginning.len() } else { exact.len() }.max(1) as f32;
        let strength = if self.asking.contains(&term.stem) { WEAK } else { 1.0 };
        let weight = strength * (1.0 + ((merits.len() as f32 - having).max(0.0) + 0.5) / (having + 0.5)).ln();
        for (places, share) in [(&exact, 1.0), (&beginning, BEGINNING)] {
            for (slot, relevance) in places.iter() {
                let merits = &mut merits[*slot as usize];
                if merits.counted != number {
                    merits.counted = number;
                    merits.relevance += share * relevance;
                    merits.words += share * weight;
                }
            }
        }
        let expression = format!("heading : ({})", term.expression());
        for (slot, _) in self.places(index, expression)?.iter() {
            merits[*slot as usize].heading += weight;
        }
        Ok(weight)
    }

    /// Whether a term that was weighed is in no section, so that nothing that it is part of can be.
    fn is_nowhere(&self, term: &Term) -> bool {
        self.places.get(&term.expression()).is_some_and(|places| places.is_empty())
    }

    fn candidates(&self, merits: &[Merits], whole: f32, most: usize) -> Vec<Candidate> {
        let best = merits.iter().map(|merits| merits.relevance).fold(f32::MIN_POSITIVE, f32::max);
        let merit = |merits: &Merits| {
            BY_WORDS
                + BY_RELEVANCE * merits.relevance / best
                + BY_HEADING * merits.heading / whole
                + BY_ORDER * merits.order
                + if merits.framework { BY_FRAMEWORK } else { 0.0 }
        };
        // By what can be said so far, and equals in the order of their documents.
        let mut found: Vec<(f32, usize, Candidate)> = (self.order.iter().zip(merits).enumerate())
            .filter(|(_, (_, merits))| merits.counted > 0)
            .map(|(slot, (section, merits))| {
                let candidate = Candidate { section: *section, words: merits.words / whole, merit: merit(merits) };
                (candidate.words * candidate.merit, slot, candidate)
            })
            .collect();
        let better = |a: &(f32, usize, Candidate), b: &(f32, usize, Candidate)| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1));
        if found.len() > most {
            found.select_nth_unstable_by(most, better);
            found.truncate(most);
        }
        found.sort_unstable_by(better);
        found.into_iter().map(|(_, _, candidate)| candidate).collect()
    }

    /// Where an expression matches, by section.
    fn places(&mut self, index: &Index, expression: String) -> rusqlite::Result<Arc<[Place]>> {
        if let Some(places) = self.places.get(&expression) {
            return Ok(Arc::clone(places));
        }
        let matches = index.matches(&expression)?;
        let places: Arc<[Place]> =
            matches.into_iter().filter_map(|(id, relevance)| Some((*self.slots.get(&id)?, relevance as f32))).collect();
        // The expression itself takes room too, and words that are nowhere have nothing but that.
        self.remembered += places.len() + 16;
        if self.remembered > MOST_REMEMBERED {
            self.places.clear();
            self.remembered = places.len() + 16;
        }
        self.places.insert(expression, Arc::clone(&places));
        Ok(places)
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
        let name = Term {
            stem: "widgettoken".to_owned(),
            parts: vec!["widget".to_owned(), "token".to_owned()],
            begins_others: false,
        };
        let set = Term { stem: "set".to_owned(), parts: Vec::new(), begins_others: false };
        assert_eq!(terms("How do I set WIDGET_TOKEN? Set it!"), [set, name.clone()]);
        assert_eq!(name.expression(), "\"widgettoken\" OR \"widget token\"");
    }

    #[test]
    fn a_question_without_end_has_an_end() {
        let long = (0..200_000).map(|number| format!("word{number} ")).collect::<String>();
        assert_eq!(terms(&long).len(), MOST_TERMS);
        assert!(terms(&"ü".repeat(1 << 20)).len() == 1);
    }
}
