//! The passage of a section that fits a question best: a few sentences, some rows of a table, a block of code.
//!
//! A text is cut into units (blocks; in a block that is too long by itself, its sentences or lines), and the run of units is taken that has
//! most of what was asked for in least room. Code stays in its fence and a table keeps its head.

use std::ops::Range;

use crate::rank::Term;
use crate::sections::Fence;
use crate::words::words;

/// The passage of `text` that has most of what was `sought`, with about `longest` bytes at most.
pub(crate) fn passage(text: &str, sought: &[(Term, f32)], longest: usize) -> String {
    if text.len() <= longest {
        return text.to_owned();
    }
    let blocks = blocks(text);
    let units: Vec<Unit> = blocks.iter().map(|block| Unit::of(text, block.clone(), sought)).collect();
    let best = best_run(&units, sought, longest);
    let mut from = best.start;
    let mut to = best.end;
    // A sentence that ends in a colon and what it announces belong together.
    if from > 0 && announces(&text[blocks[from - 1].clone()]) {
        from -= 1;
    }
    if to < blocks.len() && announces(&text[blocks[to - 1].clone()]) {
        to += 1;
    }
    let shares = |block: &Range<usize>| {
        longest.saturating_sub(blocks[from].len().min(longest / 3) * usize::from(*block != blocks[from]))
    };
    let chosen: Vec<String> =
        blocks[from..to].iter().map(|block| shorten(&text[block.clone()], sought, shares(block))).collect();
    chosen.join("\n\n")
}

/// A piece of text that is taken as a whole.
#[derive(Debug)]
struct Unit {
    length: usize,
    /// Which of the terms it has, one bit each.
    met: u64,
}

impl Unit {
    fn of(text: &str, place: Range<usize>, sought: &[(Term, f32)]) -> Self {
        let mut met = 0;
        for word in words(&text[place.clone()]) {
            for (bit, (term, _)) in sought.iter().enumerate().take(64) {
                if term.is_met_by(&word.stem) {
                    met |= 1 << bit;
                }
            }
        }
        Self { length: place.len(), met }
    }
}

/// The run of units that has most of what was sought in at most `longest` bytes; the shortest of equals, and the first of those. A unit that
/// is longer by itself may be a run of its own. When nothing is met, it is what the text begins with.
fn best_run(units: &[Unit], sought: &[(Term, f32)], longest: usize) -> Range<usize> {
    let worth = |met: u64| -> f32 {
        sought.iter().enumerate().take(64).filter(|(bit, _)| met & (1 << bit) != 0).map(|(_, (_, weight))| weight).sum()
    };
    let mut best = 0..1;
    let mut most = (0.0, usize::MAX);
    for start in 0..units.len() {
        let (mut met, mut length) = (0, 0);
        for (end, unit) in units.iter().enumerate().skip(start) {
            length += unit.length;
            if length > longest && end > start {
                break;
            }
            met |= unit.met;
            let worth = worth(met);
            if worth > most.0 || worth == most.0 && worth > 0.0 && length < most.1 {
                most = (worth, length);
                best = start..end + 1;
            }
        }
    }
    best
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

fn announces(block: &str) -> bool {
    block.trim_end().ends_with(':')
}

/// The best part of one block that may be too long.
fn shorten(block: &str, sought: &[(Term, f32)], longest: usize) -> String {
    if block.len() <= longest {
        return block.to_owned();
    }
    let lines = lines(block, 0..block.len());
    if let Some(fence) = Fence::opened_by(block) {
        let code = &lines[1..];
        let code = if lines.last().is_some_and(|last| fence.is_closed_by(&block[last.clone()])) {
            &code[..code.len().saturating_sub(1)]
        } else {
            code
        };
        return format!("{}\n{}\n{}", &block[lines[0].clone()], run(block, code, sought, longest), fence.closing());
    }
    if block.trim_start().starts_with('|') && lines.len() > 2 {
        let head = &block[lines[0].start..lines[1].end];
        return format!("{head}\n{}", run(block, &lines[2..], sought, longest.saturating_sub(head.len())));
    }
    let listed = lines.iter().filter(|line| block[(*line).clone()].trim_start().starts_with(['-', '*', '+'])).count();
    if listed > 1 {
        return run(block, &items(block, &lines), sought, longest);
    }
    run(block, &sentences(block), sought, longest)
}

/// The best run of `units` of a block, cut off where even one unit is too long.
fn run(block: &str, units: &[Range<usize>], sought: &[(Term, f32)], longest: usize) -> String {
    if units.is_empty() {
        return String::new();
    }
    let measured: Vec<Unit> = units.iter().map(|unit| Unit::of(block, unit.clone(), sought)).collect();
    let mut best = best_run(&measured, sought, longest);
    // What room is left goes to what follows.
    while best.end < units.len() && units[best.end].end - units[best.start].start <= longest {
        best.end += 1;
    }
    let text = &block[units[best.start].start..units[best.end - 1].end];
    if text.len() <= 2 * longest {
        text.to_owned()
    } else {
        format!("{}…", &text[..text.floor_char_boundary(longest)])
    }
}

/// The items of a list: lines that begin one, with the lines that go on with it.
fn items(block: &str, lines: &[Range<usize>]) -> Vec<Range<usize>> {
    let mut items: Vec<Range<usize>> = Vec::new();
    for line in lines {
        let begins = block[line.clone()].trim_start().starts_with(['-', '*', '+']);
        match items.last_mut() {
            Some(item) if !begins => item.end = line.end,
            _ => items.push(line.clone()),
        }
    }
    items
}

/// The sentences of a paragraph: what ends with a full stop and is followed by something that can begin one.
fn sentences(block: &str) -> Vec<Range<usize>> {
    let mut sentences = Vec::new();
    let mut start = 0;
    for (at, _) in block.match_indices(['.', '!', '?']) {
        let rest = &block[at + 1..];
        let next = rest.trim_start();
        if next.len() < rest.len() && next.starts_with(|c: char| !c.is_lowercase()) {
            sentences.push(start..at + 1);
            start = block.len() - next.len();
        }
    }
    if start < block.len() {
        sentences.push(start..block.len());
    }
    sentences
}
