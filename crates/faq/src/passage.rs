//! The passage of a section that fits a question best: a few sentences, some rows of a table, a block of code.
//!
//! Of the units that a section was cut into (`reading`), the run is taken that has most of what was asked for in least room. Code stays
//! in its fence and a table keeps its head.

use std::collections::VecDeque;
use std::ops::Range;

use crate::reading::{Block, Kind, Reading, Words};
use crate::search_terms::{SearchTerms, TermMatches, Terms};

/// The least room that is filled with a part of a longer block, in bytes.
const WORTH_FILLING: usize = 200;

/// The weight of a term that a unit has in another form than the question.
const OTHER_FORM: f32 = 0.5;

/// How much more a term counts at the beginning of a unit, where definitions have it.
const LEADS: f32 = 0.2;

/// How much more a term counts that is the very first word of a unit, when sections are compared.
const AT_FIRST: f32 = 0.3;

/// The weight for a unit of a term in the unit right before or after it.
const NEAR: f32 = 0.7;

/// The weight for a unit of a term anywhere in its piece of a section.
const FAR: f32 = 0.55;

/// The weight for a unit of a term in the heading above it.
const IN_HEADING: f32 = 0.75;

/// The weight of a synonym or a related word in a unit, relative to the word itself.
const IN_OTHER_WORDS: f32 = 0.7;

/// The number of words at the beginning of a unit that name its subject.
const BEGINNING: usize = 4;

/// A section, together with the terms of a question.
#[derive(Debug)]
pub(crate) struct Passages<'a> {
    reading: &'a Reading,
    search_terms: &'a SearchTerms,
    /// The matches in each unit.
    met: Vec<Met>,
    /// The terms that the heading has.
    in_heading: Terms,
    /// The terms that the section has in the same form as the question.
    exact: Terms,
    /// The matches in the head of each block, in order.
    heads: Vec<Terms>,
    /// The share of the heading that consists of search terms.
    coverage: f32,
}

/// The matches in a piece of text.
#[derive(Debug, Clone)]
struct Met {
    place: Range<usize>,
    found: TermMatches,
    /// The terms that it begins with.
    leads: Terms,
    /// The terms among its first words.
    beginning: Terms,
}

impl<'a> Passages<'a> {
    /// Finds the matches in a section.
    pub(crate) fn of(reading: &'a Reading, search_terms: &'a SearchTerms) -> Self {
        let met = reading.units.iter().map(|unit| Met::of(&unit.words, unit.place.clone(), search_terms)).collect();
        let in_heading = search_terms.text(&reading.heading_words).met;
        let heads = reading.blocks.iter().map(|block| search_terms.text(&block.head).met).collect();
        let by_heading = if reading.is_title { 0.0 } else { coverage(&reading.heading_words, search_terms) };
        let coverage = by_heading.max(coverage(&reading.lead_words, search_terms));
        let mut exact = 0;
        for (bit, (term, _)) in search_terms.terms.iter().enumerate() {
            exact |= Terms::from(has_word(&reading.lower, &term.form)) << bit;
        }
        Self { reading, search_terms, met, in_heading, exact, heads, coverage }
    }

    /// The share of the search terms, by weight.
    fn share(&self, terms: Terms) -> f32 {
        self.search_terms.worth(terms) / self.search_terms.worth(Terms::MAX).max(f32::MIN_POSITIVE)
    }

    /// The largest share of the search terms that one sentence, row or list item has.
    pub(crate) fn in_one_unit(&self) -> f32 {
        let share =
            |met: &Met| self.share(met.found.met & self.exact) + OTHER_FORM * self.share(met.found.met & !self.exact);
        self.met.iter().map(share).fold(0.0, f32::max)
    }

    /// The largest share of the search terms that the first words of one sentence, row or list item have.
    pub(crate) fn at_a_beginning(&self) -> f32 {
        let share = |met: &Met| self.share(met.beginning) + AT_FIRST * self.share(met.leads);
        self.met.iter().map(share).fold(0.0, f32::max)
    }

    /// The largest share of the search terms that one unit has, where those count less that stand near it or above it.
    pub(crate) fn focus(&self) -> f32 {
        let heading =
            self.search_terms.text(&self.reading.heading_words).join(self.search_terms.text(&self.reading.lead_words));
        let all = self.met.iter().fold(TermMatches::default(), |all, met| all.join(met.found));
        let found = |at: usize| self.met.get(at).map(|met| met.found).unwrap_or_default();
        let share = |at: usize| {
            let near = found(at.wrapping_sub(1)).join(found(at + 1));
            self.graded_share([(found(at), 1.0), (near, NEAR), (all, FAR), (heading, IN_HEADING)])
        };
        (0..self.met.len()).map(share).fold(0.0, f32::max)
    }

    /// The share of the search terms, each in the place where it counts most.
    fn graded_share(&self, places: [(TermMatches, f32); 4]) -> f32 {
        let credit = |bit: usize| {
            let grade = |(found, grade): (TermMatches, f32)| match 1 << bit {
                term if found.named & term != 0 => grade,
                term if (found.met | found.related) & term != 0 => grade * IN_OTHER_WORDS,
                _ => 0.0,
            };
            places.into_iter().map(grade).fold(0.0, f32::max)
        };
        let credits = self.search_terms.terms.iter().enumerate().map(|(bit, (_, weight))| weight * credit(bit));
        credits.sum::<f32>() / self.search_terms.worth(Terms::MAX).max(f32::MIN_POSITIVE)
    }

    /// The share of the search terms that the section has in the same form as the question.
    pub(crate) fn exactness(&self) -> f32 {
        self.share(self.exact)
    }

    /// The share of the heading, or of the bold words at the beginning, that consists of search terms.
    pub(crate) fn heading_coverage(&self) -> f32 {
        self.coverage
    }

    /// The passage that has most of what the heading does not say already, with about `longest` bytes at most.
    pub(crate) fn best(&self, longest: usize) -> String {
        let Reading { text, blocks, .. } = self.reading;
        if text.len() <= longest || blocks.is_empty() {
            return text.clone();
        }
        let wholes = blocks.iter().zip(&self.heads).map(|(block, head)| self.whole(block, *head));
        let wholes: Vec<Met> = wholes.collect();
        let mut run = best_run(&wholes, longest, |terms, leads| self.novelty(terms, leads));
        // A sentence that ends in a colon and what it announces belong together.
        if run.start > 0 && self.announces(run.start - 1) {
            run.start -= 1;
        }
        if run.end < wholes.len() && self.announces(run.end - 1) {
            run.end += 1;
        }
        let (before, rest) = (&blocks[..run.start], &blocks[run.end..]);
        let mut passage: VecDeque<String> = blocks[run].iter().map(|block| self.shorten(block, longest)).collect();
        let room = |passage: &VecDeque<String>| longest.saturating_sub(passage.iter().map(|part| part.len() + 2).sum());
        // The remaining room is filled with the blocks that follow, then with those before.
        for block in rest {
            let room = room(&passage);
            if block.place.len() > room && room < WORTH_FILLING {
                break;
            }
            passage.push_back(self.shorten(block, room));
        }
        for block in before.iter().rev() {
            let room = room(&passage);
            if block.place.len() > room && room < WORTH_FILLING {
                break;
            }
            passage.push_front(self.shorten(block, room));
        }
        Vec::from(passage).join("\n\n")
    }

    fn announces(&self, block: usize) -> bool {
        self.reading.text[self.reading.blocks[block].place.clone()].trim_end().ends_with(':')
    }

    /// The matches in a whole block.
    fn whole(&self, block: &Block, head: Terms) -> Met {
        let (mut terms, mut leads) = (head, 0);
        for met in &self.met[block.units.clone()] {
            terms |= met.found.met;
            leads |= met.leads;
        }
        Met {
            place: block.place.clone(),
            found: TermMatches { met: terms, ..TermMatches::default() },
            leads,
            beginning: 0,
        }
    }

    /// The best part of a block.
    fn shorten(&self, block: &Block, longest: usize) -> String {
        let text = &self.reading.text;
        let whole = &text[block.place.clone()];
        let units = &self.met[block.units.clone()];
        if whole.len() <= longest || units.is_empty() {
            return whole.to_owned();
        }
        let mut run = best_run(units, longest, |terms, leads| self.novelty(terms, leads));
        // The remaining room is filled with the units that follow.
        while run.end < units.len() && units[run.end].place.end - units[run.start].place.start <= longest {
            run.end += 1;
        }
        while run.start > 0 && units[run.end - 1].place.end - units[run.start - 1].place.start <= longest {
            run.start -= 1;
        }
        let part = &text[units[run.start].place.start..units[run.end - 1].place.end];
        let cut = if part.len() <= 2 * longest { part.len() } else { part.floor_char_boundary(longest) };
        let part = format!("{}{}", &part[..cut], if cut < part.len() { "…" } else { "" });
        match &block.kind {
            Kind::Text => part,
            Kind::Code(fence) => format!("{}\n{part}\n{}", whole.lines().next().unwrap_or_default(), fence.closing()),
            Kind::Table(head) => format!("{}\n{part}", &text[block.place.start..*head]),
        }
    }

    fn novelty(&self, terms: Terms, leads: Terms) -> f32 {
        self.search_terms.worth(terms & !self.in_heading) + LEADS * self.search_terms.worth(leads & !self.in_heading)
    }
}

/// The run of units that is worth most with at most `longest` bytes; the shortest of equals, and the first of those. A unit
/// that is longer by itself may be a run of its own. When nothing is worth anything, it is as much of the beginning as there is room for.
fn best_run(units: &[Met], longest: usize, worth: impl Fn(Terms, Terms) -> f32) -> Range<usize> {
    let mut best = 0..0;
    let mut most = (0.0, usize::MAX);
    for (start, first) in units.iter().enumerate() {
        let mut terms = 0;
        for (end, unit) in units.iter().enumerate().skip(start) {
            let length = unit.place.end - first.place.start;
            if length > longest && end > start {
                break;
            }
            terms |= unit.found.met;
            let worth = worth(terms, first.leads);
            if worth > most.0 || worth == most.0 && worth > 0.0 && length < most.1 {
                most = (worth, length);
                best = start..end + 1;
            }
        }
    }
    if best.is_empty() && !units.is_empty() {
        let fits = units.iter().take_while(|unit| unit.place.end - units[0].place.start <= longest).count();
        best = 0..fits.max(1);
    }
    best
}

/// The share of words that are search terms; a synonym counts half.
fn coverage(words: &Words, search_terms: &SearchTerms) -> f32 {
    let is_part = |word: &str| search_terms.terms.iter().any(|(term, _)| term.parts.iter().any(|part| part == word));
    let worth = |word: &str| match search_terms.word(word) {
        found if found.named != 0 || is_part(word) => 1.0,
        found if found.met != 0 => 0.5,
        _ => 0.0,
    };
    words.iter().map(worth).sum::<f32>() / words.iter().count().max(1) as f32
}

/// Whether a text has a whole word; both are in lower case.
fn has_word(text: &str, word: &str) -> bool {
    let is_apart = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric());
    let is_whole =
        |at: usize| is_apart(text[..at].chars().next_back()) && is_apart(text[at + word.len()..].chars().next());
    !word.is_empty() && text.match_indices(word).any(|(at, _)| is_whole(at))
}

impl Met {
    fn of(words: &Words, place: Range<usize>, search_terms: &SearchTerms) -> Self {
        let first: Vec<Terms> = words.iter().take(BEGINNING).map(|word| search_terms.word(word).met).collect();
        let beginning = first.iter().fold(0, |all, terms| all | terms);
        Self { place, found: search_terms.text(words), leads: first.first().copied().unwrap_or_default(), beginning }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::ShownSection;
    use crate::rank::terms;

    fn about(question: &str, text: &str, longest: usize) -> String {
        let search_terms: Vec<_> = terms(question).into_iter().map(|term| (term, 1.0)).collect();
        let shown = ShownSection {
            path: String::new(),
            line: 1,
            heading: String::new(),
            body: text.to_owned(),
            is_title: false,
        };
        Passages::of(&Reading::of(shown), &SearchTerms::new(search_terms)).best(longest)
    }

    #[test]
    fn the_sentences_that_fit_are_taken() {
        let text = "Jobs wait in a queue. They are taken in order. A job that fails is put back with a delay. The delay doubles every time. Nothing else happens to it in any case.";
        assert_eq!(
            about("delay of a failed job", text, 90),
            "A job that fails is put back with a delay. The delay doubles every time."
        );
    }

    #[test]
    fn a_passage_of_a_table_keeps_its_head() {
        let text = "| code | meaning |\n|---|---|\n| W1 | token missing |\n| W2 | widget lost |\n| W3 | queue full, and rather long |";
        assert_eq!(about("W2", text, 30), "| code | meaning |\n|---|---|\n| W2 | widget lost |");
    }

    #[test]
    fn a_passage_keeps_code_in_its_fence_with_the_sentence_before_it() {
        let code = format!("```toml\n{}port = 1 # `x`\n{}```", "other = 2\n".repeat(9), "more = 3\n".repeat(9));
        let text = format!("Something before that is of no use here at all.\n\nSet it:\n\n{code}\n\nAfter.");
        assert_eq!(about("port", &text, 40), "Set it:\n\n```toml\nport = 1 # `x`\nmore = 3\nmore = 3\n```");
    }

    #[test]
    fn a_passage_prefers_the_item_that_begins_with_the_word() {
        let text =
            "- gate: looks at the agreement\n- agreement: what survives both offers\n- refusal: why there is none";
        assert_eq!(about("what is an agreement", text, 42), "- agreement: what survives both offers");
    }

    #[test]
    fn a_passage_without_a_matching_word_is_the_beginning() {
        assert_eq!(about("nothing", "First of all.\n\nSecond.", 15), "First of all.");
        assert_eq!(about("nothing", &"é".repeat(100), 15), format!("{}…", "é".repeat(7)));
        assert_eq!(about("x", "", 15), "");
    }
}
