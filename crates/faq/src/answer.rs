//! The answer: the passage of the best section, what else fits, and where all of it stands.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::index::{Index, Shown};
use crate::passage::passage;
use crate::rank::Ranking;

/// What the answer says when nothing fits.
pub const NOT_FOUND: &str = "No relevant information available.";

/// How long the passage of the best section may be, in bytes.
const LONG: usize = 700;

/// How long the passages of the others may be.
const SHORT: usize = 260;

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

/// Writes the answer down.
pub(crate) fn compose(index: &Index, ranking: &Ranking) -> rusqlite::Result<Answer> {
    let mut answer = String::new();
    let mut citations: Vec<Citation> = Vec::new();
    for (id, score) in &ranking.hits {
        if citations.len() == ranking.wanted {
            break;
        }
        let Some(Shown { path, line, heading, body }) = index.show(*id)? else { continue };
        // A long section is indexed in pieces, and the best of them speaks for it.
        if citations.iter().any(|known| known.path == path && known.section == heading) {
            continue;
        }
        if citations.is_empty() {
            let text = passage(&body, &ranking.sought, LONG);
            answer.push_str(if text.is_empty() { &heading } else { &text });
        } else {
            if citations.len() == 1 {
                answer.push_str("\n\n### Related\n");
            }
            answer.push_str(&format!("\n- **{path}**: {heading}"));
            for line in passage(&body, &ranking.sought, SHORT).lines() {
                answer.push_str("\n  ");
                answer.push_str(line);
            }
        }
        citations.push(Citation { path, section: heading, line, score: *score });
    }
    let score = citations.first().map_or(0.0, |best| best.score);
    if citations.is_empty() {
        answer.push_str(NOT_FOUND);
    }
    citations.sort_by(|a, b| (&a.path, a.line, &a.section).cmp(&(&b.path, b.line, &b.section)));
    Ok(Answer { answer, score, chunks_used: citations.len(), citations, warnings: Vec::new() })
}
