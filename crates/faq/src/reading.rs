//! Sections as they are read: cut into blocks and units, with the words of each. That is the same for every question, so it is done once.
//!
//! A block is the text between blank lines or between fences; its units are sentences, lines of code, rows, items of a list.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use crate::index::{Index, ShownSection};
use crate::sections::{Fence, lead_of};
use crate::words::stems;

/// The most bytes of text whose readings are kept. They take some three times as much memory.
const MOST_KEPT: usize = 8 << 20;

/// A section that was read.
#[derive(Debug)]
pub(crate) struct Reading {
    pub(crate) path: String,
    pub(crate) line: usize,
    pub(crate) heading: String,
    /// The heading is the title of the document.
    pub(crate) is_title: bool,
    pub(crate) text: String,
    /// The words of the heading.
    pub(crate) heading_words: Words,
    /// The words that the text begins with in bold.
    pub(crate) lead_words: Words,
    /// Path, heading and text in lower case.
    pub(crate) lower: String,
    pub(crate) blocks: Vec<Block>,
    /// Those of all blocks, in order.
    pub(crate) units: Vec<Unit>,
}

/// The text between blank lines, or between fences.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) place: Range<usize>,
    pub(crate) kind: Kind,
    /// Which units are in it.
    pub(crate) units: Range<usize>,
    /// The words of the head of a table.
    pub(crate) head: Words,
}

/// How a block is cut and put together again.
#[derive(Debug)]
pub(crate) enum Kind {
    /// Units are sentences or items.
    Text,
    /// Units are the lines between the one that opens the fence and the one that closes it.
    Code(Fence),
    /// Units are the rows after the head, which ends here.
    Table(usize),
}

/// A piece of text that is taken as a whole.
#[derive(Debug)]
pub(crate) struct Unit {
    pub(crate) place: Range<usize>,
    pub(crate) words: Words,
}

/// The words of a text as the index knows them.
#[derive(Debug)]
pub(crate) struct Words(Box<str>);

impl Words {
    fn of(text: &str) -> Self {
        Self(stems(text).into())
    }

    /// One after the other.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.split(' ').filter(|word| !word.is_empty())
    }
}

impl Reading {
    /// Reads a section.
    pub(crate) fn of(ShownSection { path, line, heading, body: text, is_title }: ShownSection) -> Self {
        let mut units = Vec::new();
        let mut block = |place: Range<usize>| {
            let (kind, places) = cut(&text, place.clone());
            let first = units.len();
            units.extend(places.into_iter().map(|place| Unit { words: Words::of(&text[place.clone()]), place }));
            let head = if let Kind::Table(end) = kind { &text[place.start..end] } else { "" };
            Block { head: Words::of(head), place, kind, units: first..units.len() }
        };
        let blocks = blocks(&text).into_iter().map(&mut block).collect();
        Self {
            heading_words: Words::of(&heading),
            lead_words: Words::of(lead_of(&text)),
            lower: format!("{path}\n{heading}\n{text}").to_lowercase(),
            path,
            line,
            heading,
            is_title,
            blocks,
            units,
            text,
        }
    }
}

/// The readings of sections that were asked for, in one generation of the index.
#[derive(Debug, Default)]
pub(crate) struct Readings {
    generation: i64,
    kept: HashMap<i64, Arc<Reading>>,
    /// How many bytes of text they have.
    bytes: usize,
}

impl Readings {
    /// Switches to a generation of the index. The results of another generation are dropped.
    pub(crate) fn begin(&mut self, generation: i64) {
        if self.generation != generation {
            *self = Self { generation, ..Self::default() };
        }
    }

    /// The reading of a section, if there is such a section.
    pub(crate) fn of(&mut self, index: &Index, section: i64) -> rusqlite::Result<Option<Arc<Reading>>> {
        if let Some(known) = self.kept.get(&section) {
            return Ok(Some(Arc::clone(known)));
        }
        let Some(reading) = index.show(section)?.map(|shown| Arc::new(Reading::of(shown))) else { return Ok(None) };
        self.bytes += reading.text.len();
        if self.bytes > MOST_KEPT {
            self.kept.clear();
            self.bytes = reading.text.len();
        }
        self.kept.insert(section, Arc::clone(&reading));
        Ok(Some(reading))
    }
}

/// How a block is cut, and where its units are.
fn cut(text: &str, place: Range<usize>) -> (Kind, Vec<Range<usize>>) {
    let lines = lines(text, place.clone());
    let written = |line: &Range<usize>| &text[line.clone()];
    let is_item = |line: &Range<usize>| written(line).trim_start().starts_with(['-', '*', '+']);
    if let Some(fence) = Fence::opened_by(written(&lines[0])) {
        let closed = lines.len() > 1 && lines.last().is_some_and(|last| fence.is_closed_by(written(last)));
        (Kind::Code(fence), lines[1..lines.len() - usize::from(closed)].to_vec())
    } else if lines.len() > 2 && written(&lines[0]).trim_start().starts_with('|') {
        (Kind::Table(lines[1].end), lines[2..].to_vec())
    } else if lines.iter().filter(|line| is_item(line)).count() > 1 {
        (Kind::Text, items(&lines, is_item))
    } else {
        (Kind::Text, sentences(text, place))
    }
}

/// Paragraphs, lists, tables and blocks of code. Blank lines separate them, except inside code.
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
