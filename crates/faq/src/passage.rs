//! The passage of a section that fits a question best: a few sentences, some rows of a table, a block of code.
//!
//! Of the units that a section was cut into (`reading`), the run is taken that has most of what was asked for in least room. Code stays
//! in its fence and a table keeps its head.

use std::ops::Range;

use crate::rank::Term;
use crate::reading::{Block, Kind, Reading, Words};

/// Words stand close together when no more than this many bytes are around them.
const CLOSE: usize = 300;

/// How much more a term counts at the beginning of a unit, where definitions have it.
const LEADS: f32 = 0.2;

/// A section, with a question in mind.
#[derive(Debug)]
pub(crate) struct Passages<'a> {
    reading: &'a Reading,
    weights: Vec<f32>,
    /// What is met in each unit.
    met: Vec<Met>,
    /// The terms that the heading has.
    in_heading: Terms,
}

/// Which of the terms are met, one bit each.
type Terms = u64;

/// What is met in a piece of text.
#[derive(Debug, Clone)]
struct Met {
    place: Range<usize>,
    terms: Terms,
    /// The terms that it begins with.
    leads: Terms,
}

impl<'a> Passages<'a> {
    /// Looks through a section.
    pub(crate) fn of(reading: &'a Reading, sought: &[(Term, f32)]) -> Self {
        let weights = sought.iter().map(|(_, weight)| *weight).take(Terms::BITS as usize).collect();
        let met = reading.units.iter().map(|unit| Met::of(&unit.words, unit.place.clone(), sought)).collect();
        let in_heading = Met::of(&reading.heading_words, 0..0, sought).terms;
        Self { reading, weights, met, in_heading }
    }

    /// The share of what was sought that stands close together, the heading included.
    pub(crate) fn closeness(&self) -> f32 {
        let run = best_run(&self.met, CLOSE, |terms, _| self.worth(terms | self.in_heading));
        let terms = self.met[run].iter().fold(self.in_heading, |terms, met| terms | met.terms);
        self.worth(terms) / self.worth(Terms::MAX).max(f32::MIN_POSITIVE)
    }

    /// The passage that has most of what the heading does not say already, with about `longest` bytes at most.
    pub(crate) fn best(&self, longest: usize) -> String {
        let Reading { text, blocks, .. } = self.reading;
        if text.len() <= longest || blocks.is_empty() {
            return text.clone();
        }
        let wholes: Vec<Met> = blocks.iter().map(|block| self.whole(block)).collect();
        let mut run = best_run(&wholes, longest, |terms, leads| self.novelty(terms, leads));
        // A sentence that ends in a colon and what it announces belong together.
        if run.start > 0 && self.announces(run.start - 1) {
            run.start -= 1;
        }
        if run.end < wholes.len() && self.announces(run.end - 1) {
            run.end += 1;
        }
        blocks[run].iter().map(|block| self.shorten(block, longest)).collect::<Vec<_>>().join("\n\n")
    }

    fn announces(&self, block: usize) -> bool {
        self.reading.text[self.reading.blocks[block].place.clone()].trim_end().ends_with(':')
    }

    /// What is met in a whole block.
    fn whole(&self, block: &Block) -> Met {
        let (mut terms, mut leads) = (0, 0);
        for met in &self.met[block.units.clone()] {
            terms |= met.terms;
            leads |= met.leads;
        }
        Met { place: block.place.clone(), terms, leads }
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
        // What room is left goes to what follows.
        while run.end < units.len() && units[run.end].place.end - units[run.start].place.start <= longest {
            run.end += 1;
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

    fn worth(&self, terms: Terms) -> f32 {
        self.weights.iter().enumerate().filter(|(bit, _)| terms & (1 << bit) != 0).map(|(_, weight)| weight).sum()
    }

    fn novelty(&self, terms: Terms, leads: Terms) -> f32 {
        self.worth(terms & !self.in_heading) + LEADS * self.worth(leads & !self.in_heading)
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
            terms |= unit.terms;
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

impl Met {
    fn of(words: &Words, place: Range<usize>, sought: &[(Term, f32)]) -> Self {
        let mut met = Self { place, terms: 0, leads: 0 };
        for (bit, (term, _)) in sought.iter().enumerate().take(Terms::BITS as usize) {
            let first = words.iter().position(|word| term.is_met_by(word));
            let in_parts =
                || !term.parts.is_empty() && term.parts.iter().all(|part| words.iter().any(|word| word == part));
            if first.is_some() || in_parts() {
                met.terms |= 1 << bit;
            }
            if first == Some(0) {
                met.leads |= 1 << bit;
            }
        }
        met
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::Shown;
    use crate::rank::terms;

    fn about(question: &str, text: &str, longest: usize) -> String {
        let sought: Vec<_> = terms(question).into_iter().map(|term| (term, 1.0)).collect();
        let shown = Shown { path: String::new(), line: 1, heading: String::new(), body: text.to_owned() };
        Passages::of(&Reading::of(shown), &sought).best(longest)
    }

    #[test]
    fn the_sentences_that_fit_are_taken() {
        let text = "Jobs wait in a queue. They are taken in order. A job that fails is put back with a delay. The delay doubles every time. Nothing else happens to it, whatever it was.";
        assert_eq!(
            about("delay of a failed job", text, 90),
            "A job that fails is put back with a delay. The delay doubles every time."
        );
    }

    #[test]
    fn a_table_keeps_its_head() {
        let text = "| code | meaning |\n|---|---|\n| W1 | token missing |\n| W2 | widget lost |\n| W3 | queue full, and rather long |";
        assert_eq!(about("W2", text, 30), "| code | meaning |\n|---|---|\n| W2 | widget lost |");
    }

    #[test]
    fn code_stays_in_its_fence_with_what_announces_it() {
        let code = format!("```toml\n{}port = 1 # `x`\n{}```", "other = 2\n".repeat(9), "more = 3\n".repeat(9));
        let text = format!("Something before that is of no use here at all.\n\nSet it:\n\n{code}\n\nAfter.");
        assert_eq!(about("port", &text, 40), "Set it:\n\n```toml\nport = 1 # `x`\nmore = 3\nmore = 3\n```");
    }

    #[test]
    fn what_begins_with_the_word_explains_it() {
        let text =
            "- gate: looks at the agreement\n- agreement: what survives both offers\n- refusal: why there is none";
        assert_eq!(about("what is an agreement", text, 42), "- agreement: what survives both offers");
    }

    #[test]
    fn without_a_word_it_is_the_beginning() {
        assert_eq!(about("nothing", "First of all.\n\nSecond.", 15), "First of all.");
        assert_eq!(about("nothing", &"é".repeat(100), 15), format!("{}…", "é".repeat(7)));
        assert_eq!(about("x", "", 15), "");
    }
}
