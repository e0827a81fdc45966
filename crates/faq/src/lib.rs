//! Answers questions from a folder of documentation: extracts with the places where they stand, or "not found".
//!
//! A folder is cut into sections by its headings (`sections/`), indexed with BM25 in one SQLite file of the data directory
//! (`index`), and looked at again when its files may have changed (`survey`, `shelf`). A question becomes words (`words`),
//! the words and those that mean the same (`synonyms`, `sought`) find sections (`rank`), these are read once and kept
//! (`reading`), and the most fitting passage of each (`passage`) becomes the answer (`answer`). Without a folder the project's
//! own documentation answers, which is part of the program (`own`).
//!
//! Everything here is synchronous and blocks for as long as the disk takes. It knows nothing of dialects, tools or who may read
//! what: whoever calls decides which folder may be asked about. It never writes into that folder, follows no link and runs
//! nothing. The same files and the same question give the same answer.

mod answer;
mod error;
mod index;
mod library;
mod own;
mod passage;
mod question;
mod rank;
mod reading;
mod sections;
mod shelf;
mod sought;
mod survey;
mod synonyms;
mod words;

pub use answer::{Answer, Citation, Extract, NOT_FOUND};
pub use error::FaqError;
pub use library::Library;
pub use question::{Context, Limits, Question, Secrets};
