//! The answer: the passage of the best section, what else fits, and where all of it stands.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::index::Index;
use crate::passage::Passages;
use crate::rank::Ranking;
use crate::reading::{Reading, Readings};

/// What the answer says when nothing fits.
pub const NOT_FOUND: &str = "No relevant information available.";

/// How long the passage of the best section may be, in bytes.
const LONG: usize = 700;

/// How long the passages of the others may be.
const SHORT: usize = 260;

/// A section that fits much worse than the best one only distracts.
const WORTH_MENTIONING: f64 = 0.6;

/// Extracts from the documentation, and where they stand.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Answer {
    /// The extracts, in Markdown, or [`NOT_FOUND`].
    pub answer: String,
    /// The sections that they were taken from, by path and line; none when nothing was found.
    pub citations: Vec<Citation>,
    /// How well the best section fits, from 0 to 1.
    pub score: f64,
    /// How many sections the answer was taken from.
    pub chunks_used: usize,
    /// What could not be read or was left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl Answer {
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

/// Reads the candidates and writes the answer down.
pub(crate) fn compose(index: &Index, readings: &mut Readings, ranking: &Ranking) -> rusqlite::Result<Answer> {
    let mut candidates = Vec::with_capacity(ranking.candidates.len());
    for candidate in &ranking.candidates {
        candidates.extend(readings.of(index, candidate.section)?.map(|reading| (candidate, reading)));
    }
    let mut sections: Vec<(f64, &Reading, Passages<'_>)> = (candidates.iter())
        .map(|(candidate, reading)| {
            let passages = Passages::of(reading, &ranking.sought);
            (candidate.score(passages.closeness()), &**reading, passages)
        })
        .collect();
    // The sort is stable: equals stay in the order of the ranking.
    sections.sort_by(|(score, ..), (than, ..)| than.total_cmp(score));
    let best = sections.first().map_or(0.0, |(score, ..)| *score);
    sections.retain(|(score, ..)| *score >= ranking.least.max(WORTH_MENTIONING * best));

    let mut answer = String::new();
    let mut citations: Vec<Citation> = Vec::new();
    for (score, Reading { path, line, heading, .. }, passages) in sections {
        if citations.len() == ranking.wanted {
            break;
        }
        // A long section is indexed in pieces, and the best of them speaks for it.
        if citations.iter().any(|known| known.path == *path && known.section == *heading) {
            continue;
        }
        if citations.is_empty() {
            let text = passages.best(LONG);
            answer.push_str(if text.is_empty() { heading } else { &text });
        } else {
            if citations.len() == 1 {
                answer.push_str("\n\n### Related\n");
            }
            answer.push_str(&format!("\n- **{path}**: {heading}"));
            for line in passages.best(SHORT).lines() {
                answer.push_str("\n  ");
                answer.push_str(line);
            }
        }
        citations.push(Citation { path: path.clone(), section: heading.clone(), line: *line, score });
    }
    let score = citations.first().map_or(0.0, |best| best.score);
    if citations.is_empty() {
        answer.push_str(NOT_FOUND);
    }
    citations.sort_by(|a, b| (&a.path, a.line, &a.section).cmp(&(&b.path, b.line, &b.section)));
    Ok(Answer { answer, score, chunks_used: citations.len(), citations, warnings: Vec::new() })
}
