//! The question, and the limits for answering it.

use std::time::Duration;

pub use gladhand_ignore_files::Secrets;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::sections::Format;

/// Default number of sections that an answer is taken from.
const SECTIONS: u32 = 5;

/// Maximum number of sections that a question can ask for.
const MOST_SECTIONS: u32 = 20;

/// A question about the documentation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Question {
    /// The question, or the words to search for.
    #[schemars(length(min = 1))]
    pub query: String,
    /// The maximum number of sections in the answer; 5 by default.
    #[serde(default, rename = "topK", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 20))]
    pub top_k: Option<u32>,
    /// The known facts about the project of the user. Sections about its framework come first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Context>,
}

impl Question {
    /// A question without context.
    pub fn new(query: impl Into<String>) -> Self {
        Self { query: query.into(), ..Self::default() }
    }

    /// The number of sections that the answer may be taken from, within the allowed range.
    pub(crate) fn sections(&self) -> usize {
        self.top_k.unwrap_or(SECTIONS).clamp(1, MOST_SECTIONS) as usize
    }

    /// The framework of the caller's project, or an empty string.
    pub(crate) fn framework(&self) -> &str {
        self.context.as_ref().and_then(|context| context.detected_framework.as_deref()).unwrap_or_default()
    }
}

/// The known facts about the project of the user. Other members are ignored.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Context {
    /// The framework that the project uses, such as `fastapi`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detected_framework: Option<String>,
}

/// The limits for reading a folder, and the minimum score of a section. The warnings of the answer name everything that
/// a limit left out.
#[derive(Debug, Clone, PartialEq)]
pub struct Limits {
    /// Maximum number of files of one folder that are indexed.
    pub files: usize,
    /// Maximum size of a file in bytes.
    pub file_bytes: u64,
    /// Maximum total size in bytes of the indexed files of one folder.
    pub total_bytes: u64,
    /// Maximum duration of one scan of a folder. The next scan indexes the rest.
    pub time: Duration,
    /// How long a scan stays valid. Unless it is zero, it is longer for folders that take long to scan.
    pub fresh: Duration,
    /// The score that a section must reach to be an answer, from 0 to 1. See [`Limits::default`] for the choice of the
    /// value.
    pub min_score: f64,
    /// The files that are not read.
    pub secrets: Secrets,
}

impl Limits {
    /// The largest file of a format that is read: an index holds many documents in one file.
    pub(crate) fn bytes_of(&self, format: Format) -> u64 {
        if format == Format::Chunks { self.total_bytes } else { self.file_bytes }
    }
}

impl Default for Limits {
    /// The score grows with the share of the question's words that a section has, each weighed by how rare it is; words that no
    /// document has count like the rarest. In the accuracy set (`tests/accuracy.rs`) the questions that have an answer reach 0.60 and
    /// more, and those that have none 0.42 and less. The least score lies near the lower end: a section that shares words with
    /// the question is worth showing.
    fn default() -> Self {
        Self {
            files: 20_000,
            file_bytes: 2 << 20,
            total_bytes: 256 << 20,
            time: Duration::from_secs(20),
            fresh: Duration::from_secs(1),
            min_score: 0.44,
            secrets: Secrets::default(),
        }
    }
}
