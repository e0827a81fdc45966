//! The terms that a question searches for, and the words of a text that match them.

use std::cell::RefCell;
use std::collections::HashMap;

use crate::rank::Term;
use crate::reading::Words;

/// Which of the terms are met, one bit each.
pub(crate) type Terms = u64;

/// The terms of a question with how much each counts. Remembers what each word of a text is, since sections share most words.
#[derive(Debug, Default)]
pub(crate) struct SearchTerms {
    pub(crate) terms: Vec<(Term, f32)>,
    known: RefCell<HashMap<Box<str>, TermMatches>>,
}

/// The terms that a word, or a piece of text, stands for.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct TermMatches {
    /// By the term itself.
    pub(crate) named: Terms,
    /// By the term itself or a synonym.
    pub(crate) met: Terms,
    /// By a related word.
    pub(crate) related: Terms,
}

impl TermMatches {
    /// The union of the matches in two pieces of text.
    pub(crate) fn join(self, other: Self) -> Self {
        Self { named: self.named | other.named, met: self.met | other.met, related: self.related | other.related }
    }
}

impl SearchTerms {
    pub(crate) fn new(mut terms: Vec<(Term, f32)>) -> Self {
        terms.truncate(Terms::BITS as usize);
        Self { terms, known: RefCell::default() }
    }

    /// The terms that a word stands for.
    pub(crate) fn word(&self, word: &str) -> TermMatches {
        if let Some(known) = self.known.borrow().get(word) {
            return *known;
        }
        let mut found = TermMatches::default();
        for (bit, (term, _)) in self.terms.iter().enumerate() {
            found.named |= Terms::from(term.is_named_by(word)) << bit;
            found.met |= Terms::from(term.is_met_by(word)) << bit;
            found.related |= Terms::from(term.is_related_to(word)) << bit;
        }
        self.known.borrow_mut().insert(word.into(), found);
        found
    }

    /// The terms that a piece of text has.
    pub(crate) fn text(&self, words: &Words) -> TermMatches {
        let mut found = words.iter().fold(TermMatches::default(), |found, word| found.join(self.word(word)));
        for (bit, (term, _)) in self.terms.iter().enumerate().filter(|(_, (term, _))| !term.parts.is_empty()) {
            if term.parts.iter().all(|part| words.iter().any(|word| word == part)) {
                found.named |= 1 << bit;
                found.met |= 1 << bit;
            }
        }
        found
    }

    /// How much terms count together.
    pub(crate) fn worth(&self, terms: Terms) -> f32 {
        let counted = self.terms.iter().enumerate().filter(|(bit, _)| terms & (1 << bit) != 0);
        counted.map(|(_, (_, weight))| weight).sum()
    }
}
