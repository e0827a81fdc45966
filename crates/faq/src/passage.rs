//! The passage of a section that fits a question best: a few sentences, some rows of a table, a block of code.
//!
//! A text is cut into blocks, and these into units: sentences, lines of code, rows, items of a list. The run of units is taken that has most of
//! what was asked for in least room. Code stays in its fence and a table keeps its head.

use std::ops::Range;

use crate::rank::Term;
use crate::sections::Fence;
use crate::words::words;

/// Words stand close together when no more than this many bytes are around them.
const CLOSE: usize = 300;

/// How much more a term counts at the beginning of a unit, where definitions have it.
const LEADS: f32 = 0.2;

/// A section that was read with a question in mind.
#[derive(Debug)]
pub(crate) struct Passages<'a> {
    text: &'a str,
    blocks: Vec<Block>,
    weights: Vec<f32>,
    /// The terms that the heading has.
    in_heading: Terms,
}

/// Which of the terms are met, one bit each.
type Terms = u64;

/// What stands between blank lines, or between fences.
#[derive(Debug)]
struct Block {
    place: Range<usize>,
    kind: Kind,
    units: Vec<Unit>,
}

/// How a block is cut and put together again.
#[derive(Debug)]
enum Kind {
    /// Units are sentences or items.
    Text,
    /// Units are the lines between the one that opens the fence and the one that closes it.
    Code(Fence),
    /// Units are the rows after the head, which ends here.
    Table(usize),
}

/// A piece of text that is taken as a whole.
#[derive(Debug, Clone)]
struct Unit {
    place: Range<usize>,
    met: Terms,
    /// The terms that it begins with.
    leads: Terms,
}

impl<'a> Passages<'a> {
    /// Reads the text of a section.
    pub(crate) fn of(heading: &str, text: &'a str, sought: &[(Term, f32)]) -> Self {
        let blocks = blocks(text).into_iter().map(|place| Block::of(text, place, sought)).collect();
        let weights = sought.iter().map(|(_, weight)| *weight).take(Terms::BITS as usize).collect();
        Self { text, blocks, weights, in_heading: Unit::of(heading, 0..heading.len(), sought).met }
    }

    /// The share of what was sought that stands close together, the heading included.
    pub(crate) fn closeness(&self) -> f32 {
        let units: Vec<Unit> = self.blocks.iter().flat_map(|block| block.units.iter().cloned()).collect();
        let run = best_run(&units, CLOSE, |met, _| self.worth(met | self.in_heading));
        let met = units[run].iter().fold(self.in_heading, |met, unit| met | unit.met);
        self.worth(met) / self.worth(Terms::MAX).max(f32::MIN_POSITIVE)
    }

    /// The passage that has most of what the heading does not say already, with about `longest` bytes at most.
    pub(crate) fn best(&self, longest: usize) -> String {
        if self.text.len() <= longest || self.blocks.is_empty() {
            return self.text.to_owned();
        }
        let wholes: Vec<Unit> = self.blocks.iter().map(Block::whole).collect();
        let mut run = best_run(&wholes, longest, |met, leads| self.novelty(met, leads));
        // A sentence that ends in a colon and what it announces belong together.
        if run.start > 0 && self.announces(run.start - 1) {
            run.start -= 1;
        }
        if run.end < wholes.len() && self.announces(run.end - 1) {
            run.end += 1;
        }
        self.blocks[run].iter().map(|block| self.shorten(block, longest)).collect::<Vec<_>>().join("\n\n")
    }

    fn announces(&self, block: usize) -> bool {
        self.text[self.blocks[block].place.clone()].trim_end().ends_with(':')
    }

    /// The best part of a block.
    fn shorten(&self, block: &Block, longest: usize) -> String {
        let whole = &self.text[block.place.clone()];
        if whole.len() <= longest || block.units.is_empty() {
            return whole.to_owned();
        }
        let units = &block.units;
        let mut run = best_run(units, longest, |met, leads| self.novelty(met, leads));
        // What room is left goes to what follows.
        while run.end < units.len() && units[run.end].place.end - units[run.start].place.start <= longest {
            run.end += 1;
        }
        let part = &self.text[units[run.start].place.start..units[run.end - 1].place.end];
        let cut = if part.len() <= 2 * longest { part.len() } else { part.floor_char_boundary(longest) };
        let part = format!("{}{}", &part[..cut], if cut < part.len() { "…" } else { "" });
        match &block.kind {
            Kind::Text => part,
            Kind::Code(fence) => format!("{}\n{part}\n{}", whole.lines().next().unwrap_or_default(), fence.closing()),
            Kind::Table(head) => format!("{}\n{part}", &self.text[block.place.start..*head]),
        }
    }

    fn worth(&self, met: Terms) -> f32 {
        self.weights.iter().enumerate().filter(|(bit, _)| met & (1 << bit) != 0).map(|(_, weight)| weight).sum()
    }

    fn novelty(&self, met: Terms, leads: Terms) -> f32 {
        self.worth(met & !self.in_heading) + LEADS * self.worth(leads & !self.in_heading)
    }
}

/// The run of units that is worth most with at most `longest` bytes; the shortest of equals, and the first of those. A unit
/// that is longer by itself may be a run of its own. When nothing is worth anything, it is as much of the beginning as there is room for.
fn best_run(units: &[Unit], longest: usize, worth: impl Fn(Terms, Terms) -> f32) -> Range<usize> {
    let mut best = 0..0;
    let mut most = (0.0, usize::MAX);
    for (start, first) in units.iter().enumerate() {
        let mut met = 0;
        for (end, unit) in units.iter().enumerate().skip(start) {
            let length = unit.place.end - first.place.start;
            if length > longest && end > start {
                break;
            }
            met |= unit.met;
            let worth = worth(met, first.leads);
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

impl Block {
    fn of(text: &str, place: Range<usize>, sought: &[(Term, f32)]) -> Self {
        let lines = lines(text, place.clone());
        let written = |line: &Range<usize>| &text[line.clone()];
        let is_item = |line: &Range<usize>| written(line).trim_start().starts_with(['-', '*', '+']);
        let (kind, units) = if let Some(fence) = Fence::opened_by(written(&lines[0])) {
            let closed = lines.len() > 1 && lines.last().is_some_and(|last| fence.is_closed_by(written(last)));
            (Kind::Code(fence), lines[1..lines.len() - usize::from(closed)].to_vec())
        } else if lines.len() > 2 && written(&lines[0]).trim_start().starts_with('|') {
            (Kind::Table(lines[1].end), lines[2..].to_vec())
        } else if lines.iter().filter(|line| is_item(line)).count() > 1 {
            (Kind::Text, items(&lines, is_item))
        } else {
            (Kind::Text, sentences(text, place.clone()))
        };
        Self { place, kind, units: units.into_iter().map(|unit| Unit::of(text, unit, sought)).collect() }
    }

    /// The block as one unit.
    fn whole(&self) -> Unit {
        let met = self.units.iter().fold(0, |met, unit| met | unit.met);
        let leads = self.units.iter().fold(0, |leads, unit| leads | unit.leads);
        Unit { place: self.place.clone(), met, leads }
    }
}

impl Unit {
    fn of(text: &str, place: Range<usize>, sought: &[(Term, f32)]) -> Self {
        let mut unit = Self { place: place.clone(), met: 0, leads: 0 };
        let words = words(&text[place]);
        for (bit, (term, _)) in sought.iter().enumerate().take(Terms::BITS as usize) {
            let first = words.iter().position(|word| term.is_met_by(&word.stem));
            let in_parts =
                || !term.parts.is_empty() && term.parts.iter().all(|part| words.iter().any(|word| word.stem == *part));
            if first.is_some() || in_parts() {
                unit.met |= 1 << bit;
            }
            if first == Some(0) {
                unit.leads |= 1 << bit;
            }
        }
        unit
    }
}

/// Paragraphs, lists, tables and blocks of code: what stands between blank lines, code with all of its own.
fn blocks(text: &str) -> Vec<Range<usize>> {
    let mut blocks: Vec<Range<usize>> = Vec::new();
    let mut open: Option<Fence> = None;
    let mut apart = true;
    for line in lines(text, 0..text.len()) {
        let written = &text[line.clone()];
        let blank = written.trim().is_empty();
        let fenced = open.is_some();
        let opens = if fenced { None } else { Fence::opened_by(written) };
        if fenced || !blank {
            match blocks.last_mut() {
                Some(block) if fenced || !apart && opens.is_none() => block.end = line.end,
                _ => blocks.push(line.clone()),
            }
            apart = false;
        }
        match &open {
            Some(fence) if fence.is_closed_by(written) => {
                open = None;
                apart = true;
            }
            Some(_) => {}
            None => {
                apart |= blank;
                open = opens;
            }
        }
    }
    blocks
}

/// The lines of a part of a text, without their newlines.
fn lines(text: &str, part: Range<usize>) -> Vec<Range<usize>> {
    let mut lines = Vec::new();
    let mut start = part.start;
    for line in text[part].split_inclusive('\n') {
        lines.push(start..start + line.trim_end_matches(['\n', '\r']).len());
        start += line.len();
    }
    lines
}

/// The items of a list: lines that begin one, with the lines that go on with it.
fn items(lines: &[Range<usize>], begins: impl Fn(&Range<usize>) -> bool) -> Vec<Range<usize>> {
    let mut items: Vec<Range<usize>> = Vec::new();
    for line in lines {
        match items.last_mut() {
            Some(item) if !begins(line) => item.end = line.end,
            _ => items.push(line.clone()),
        }
    }
    items
}

/// The sentences of a paragraph: what ends with a full stop and is followed by something that can begin one.
fn sentences(text: &str, paragraph: Range<usize>) -> Vec<Range<usize>> {
    let mut sentences = Vec::new();
    let mut start = paragraph.start;
    for (at, _) in text[paragraph.clone()].match_indices(['.', '!', '?']) {
        let end = paragraph.start + at + 1;
        let rest = &text[end..paragraph.end];
        let next = rest.trim_start();
        if next.len() < rest.len() && next.starts_with(|c: char| !c.is_lowercase()) {
            sentences.push(start..end);
            start = paragraph.end - next.len();
        }
    }
    if start < paragraph.end {
        sentences.push(start..paragraph.end);
    }
    sentences
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rank::terms;

    fn about(question: &str, text: &str, longest: usize) -> String {
        let sought: Vec<_> = terms(question).into_iter().map(|term| (term, 1.0)).collect();
        Passages::of("", text, &sought).best(longest)
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
