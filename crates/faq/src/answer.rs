//! The answer: the passage of the best section, further passages, and their sources.

use gladhand_core::Order as _;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::index::Index;
use crate::passage::Passages;
use crate::rank::Ranking;
use crate::reading::{Reading, Readings};

/// The text of an answer without a match.
pub const NOT_FOUND: &str = "No relevant information available.";

/// How long the passage of the best section may be, in bytes.
const LONG: usize = 1000;

/// How long the passages of the others may be.
const SHORT: usize = 260;

/// The room that a further piece of a section is worth, in bytes.
const ROOM_FOR_MORE: usize = 150;

/// The separator between two pieces of a section.
const BETWEEN: &str = "\n\n…\n\n";

/// A section that fits much worse than the best one only distracts.
const WORTH_MENTIONING: f64 = 0.6;

/// Extracts from the documentation, with their sources.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Answer {
    /// The extracts, in Markdown, or [`NOT_FOUND`].
    pub answer: String,
    /// The sections of the extracts, by path and line. Empty if nothing was found.
    pub citations: Vec<Citation>,
    /// How well the best section fits, from 0 to 1.
    pub score: f64,
    /// The number of sections in the answer.
    pub chunks_used: usize,
    /// Files that could not be read or were left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl Answer {
    /// How long the passage of a section may be, by its place in the answer.
    pub(crate) fn longest(place: usize) -> usize {
        if place == 0 { LONG } else { SHORT }
    }

    /// The answer that extracts make together, the best of them first.
    pub(crate) fn of(extracts: Vec<Extract>) -> Self {
        let mut answer = String::new();
        for (place, Extract { citation: Citation { path, section, .. }, text }) in extracts.iter().enumerate() {
            if place == 0 {
                answer.push_str(if text.is_empty() { section } else { text });
                continue;
            }
            if place == 1 {
                answer.push_str("\n\n### Related\n");
            }
            answer.push_str(&format!("\n- **{path}**: {section}"));
            for line in text.lines() {
                answer.push_str("\n  ");
                answer.push_str(line);
            }
        }
        if extracts.is_empty() {
            answer.push_str(NOT_FOUND);
        }
        let score = extracts.first().map_or(0.0, |best| best.citation.score);
        let mut citations: Vec<Citation> = extracts.into_iter().map(|extract| extract.citation).collect();
        citations.order_by(|a, b| (&a.path, a.line, &a.section).cmp(&(&b.path, b.line, &b.section)));
        Self { answer, score, chunks_used: citations.len(), citations, warnings: Vec::new() }
    }

    /// Whether anything fits the question.
    pub fn is_found(&self) -> bool {
        !self.citations.is_empty()
    }
}

/// A section that the answer was taken from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Citation {
    /// The document, as a path below the folder.
    pub path: String,
    /// The heading of the section, or the title or name of the document when it has none.
    pub section: String,
    /// The line where the section begins; the first is 1.
    pub line: usize,
    /// How well the section fits, from 0 to 1.
    pub score: f64,
}

/// A passage of the documentation, and its source.
#[derive(Debug, Clone, PartialEq)]
pub struct Extract {
    /// The section that it was taken from.
    pub citation: Citation,
    /// The passage, in Markdown; empty where the section has nothing but its heading.
    pub text: String,
}

/// Reads the candidates and takes their best passages, the best section first.
/// `longest` returns the maximum length of the passage of the first, the second, … section, in bytes.
pub(crate) fn extracts(
    index: &Index,
    readings: &mut Readings,
    ranking: &Ranking,
    longest: impl Fn(usize) -> usize,
) -> rusqlite::Result<Vec<Extract>> {
    let mut candidates = Vec::with_capacity(ranking.candidates.len());
    for candidate in &ranking.candidates {
        candidates.extend(readings.of(index, candidate.section)?.map(|reading| (candidate, reading)));
    }
    let mut sections: Vec<(f64, &Reading, Passages<'_>)> = (candidates.iter())
        .map(|(candidate, reading)| {
            let passages = Passages::of(reading, &ranking.search_terms);
            (candidate.score(&passages), &**reading, passages)
        })
        .collect();
    // The sort is stable: equals stay in the order of the ranking.
    sections.order_by(|(score, ..), (than, ..)| than.total_cmp(score));
    let best = sections.first().map_or(0.0, |(score, ..)| *score);
    sections.retain(|(score, ..)| *score >= ranking.least.max(WORTH_MENTIONING * best));

    let mut extracts: Vec<Extract> = Vec::new();
    for (at, (score, Reading { path, line, heading, .. }, _)) in sections.iter().enumerate() {
        if extracts.len() == ranking.wanted {
            break;
        }
        // A long section is indexed in pieces, and the best of them speaks for it.
        if extracts.iter().any(|known| known.citation.path == *path && known.citation.section == *heading) {
            continue;
        }
        let is_same = |other: &Reading| other.path == *path && other.heading == *heading;
        let pieces = sections[at..].iter().filter(|(_, other, _)| is_same(other));
        let pieces = pieces.map(|(_, other, passages)| (other.line, passages));
        let text = together(pieces, longest(extracts.len()));
        let citation = Citation { path: path.clone(), section: heading.clone(), line: *line, score: *score };
        extracts.push(Extract { citation, text });
    }
    Ok(extracts)
}

/// The passage of a section: that of its best piece, and of its other pieces as far as there is room. Takes the pieces with
/// their lines, the best first.
fn together<'a>(pieces: impl Iterator<Item = (usize, &'a Passages<'a>)>, longest: usize) -> String {
    let mut parts: Vec<(usize, String)> = Vec::new();
    let mut room = longest;
    for (line, piece) in pieces {
        if !parts.is_empty() && room < ROOM_FOR_MORE {
            break;
        }
        let part = piece.best(room);
        room = room.saturating_sub(part.len() + BETWEEN.len());
        parts.push((line, part));
    }
    parts.order_by_key(|(line, _)| *line);
    parts.into_iter().map(|(_, part)| part).collect::<Vec<_>>().join(BETWEEN)
}
