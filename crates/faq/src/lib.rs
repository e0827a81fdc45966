//! Answers questions from a folder of documentation: extracts with their places, or "not found".
//!
//! A folder is cut into sections by its headings (`sections/`), indexed with BM25 in one SQLite file of the data
//! directory (`index`), and scanned again when its files may have changed (`survey`, `folder_index`). A question is split into
//! words (`words`). The words and their synonyms (`synonyms`, `search_terms`) find sections (`rank`), which are read once and
//! cached (`reading`). The best passage of each section (`passage`) goes into the answer (`answer`). Without a folder,
//! the built-in documentation of the project answers (`own`).
//!
//! Everything here is synchronous and blocks for as long as the disk takes. This crate knows nothing of dialects, tools
//! or permissions: the caller decides which folder may be asked about. It never writes into that folder, follows no
//! link and runs nothing. The same files and the same question give the same answer.

mod answer;
mod error;
mod folder_index;
mod index;
mod library;
mod own;
mod passage;
mod question;
mod rank;
mod reading;
mod search_terms;
mod sections;
mod survey;
mod synonyms;
mod words;

pub use answer::{Answer, Citation, Extract, NOT_FOUND};
pub use error::FaqError;
pub use library::Library;
pub use question::{Context, Limits, Question, Secrets};
