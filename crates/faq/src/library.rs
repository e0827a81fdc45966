//! All documentation that was asked about: the built-in one, and a few folders that are kept open.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use fs_err as fs;
use gladhand_core::hex;
use gladhand_core::sync::Unpoisoned as _;
use ring::digest::{SHA256, digest};

use crate::answer::{Answer, Extract};
use crate::error::FaqError;
use crate::folder_index::FolderIndex;
use crate::question::{Limits, Question};
use crate::sections::INDEX_FILE;

/// Maximum number of folders that are kept open. The least recently used one is closed first.
const MOST_OPEN: usize = 16;

/// Answers questions about folders of documentation. It may be shared between threads: questions about one folder take turns.
#[derive(Debug)]
pub struct Library {
    /// The folder for indexes.
    data: PathBuf,
    open_indexes: Mutex<OpenIndexes>,
}

/// The indexes that are open, by folder. The built-in documentation has no folder.
#[derive(Debug, Default)]
struct OpenIndexes {
    /// With the number of the question that used it last.
    open: HashMap<Option<PathBuf>, (u64, Slot)>,
    questions: u64,
}

/// The index of a folder, or an empty slot that its first user opens. Opening may take a while, and users of other indexes do not
/// wait.
type Slot = Arc<Mutex<Option<FolderIndex>>>;

impl Library {
    /// A library that keeps its indexes in `data`, which is made when there is something to keep. Cheap: nothing is read yet.
    pub fn open(data: impl Into<PathBuf>) -> Self {
        Self { data: data.into(), open_indexes: Mutex::default() }
    }

    /// Answers from the documentation in `folder`, or from our own when there is none. The first question about a folder takes as
    /// long as it takes to index it, within `limits`; the index is kept for the next time.
    pub fn ask(&self, question: &Question, folder: Option<&Path>, limits: &Limits) -> Result<Answer, FaqError> {
        self.with_index(question, folder, |folder_index| folder_index.ask(question, limits))
    }

    /// The passages that an answer would be taken from, the best first, each with about `longest` bytes at most.
    pub fn extracts(
        &self,
        question: &Question,
        folder: Option<&Path>,
        limits: &Limits,
        longest: usize,
    ) -> Result<Vec<Extract>, FaqError> {
        self.with_index(question, folder, |folder_index| folder_index.extracts(question, limits, |_| longest))
    }

    fn with_index<T>(
        &self,
        question: &Question,
        folder: Option<&Path>,
        ask: impl FnOnce(&mut FolderIndex) -> Result<T, FaqError>,
    ) -> Result<T, FaqError> {
        if question.query.trim().is_empty() {
            return Err(FaqError::Blank);
        }
        let folder = folder.map(resolve).transpose()?;
        let slot = hold(&self.open_indexes).slot(folder.as_deref());
        let mut folder_index = hold(&slot);
        let folder_index = match &mut *folder_index {
            Some(folder_index) => folder_index,
            empty => empty.insert(match folder {
                Some(folder) => FolderIndex::open(self.index_of(&folder), folder)?,
                None => FolderIndex::own()?,
            }),
        };
        ask(folder_index)
    }

    /// The file that holds the index of a folder.
    fn index_of(&self, folder: &Path) -> PathBuf {
        let hash = digest(&SHA256, folder.as_os_str().as_encoded_bytes());
        self.data.join("faq").join(format!("{}.sqlite", hex::encode(&hash.as_ref()[..12])))
    }
}

impl OpenIndexes {
    fn slot(&mut self, folder: Option<&Path>) -> Slot {
        self.questions += 1;
        let folder = folder.map(Path::to_owned);
        if self.open.len() >= MOST_OPEN
            && !self.open.contains_key(&folder)
            && let Some(oldest) = self.open.iter().min_by_key(|(_, (used, _))| *used).map(|(folder, _)| folder.clone())
        {
            self.open.remove(&oldest);
        }
        let (used, slot) = self.open.entry(folder).or_default();
        *used = self.questions;
        Arc::clone(slot)
    }
}

/// The canonical path of a folder, so that it has one index. The path of a Fluxloop index file means its folder, of which only
/// that file is read (`survey`).
fn resolve(folder: &Path) -> Result<PathBuf, FaqError> {
    // The error names the path itself, and the one of `fs_err` would do so again.
    let mut resolved =
        std::fs::canonicalize(folder).map_err(|source| FaqError::Folder { path: folder.to_owned(), source })?;
    if resolved.file_name().is_some_and(|name| name == INDEX_FILE) && resolved.is_file() {
        resolved.pop();
    }
    if !fs::metadata(&resolved).is_ok_and(|about| about.is_dir()) {
        return Err(FaqError::NotAFolder { path: folder.to_owned() });
    }
    Ok(resolved)
}

/// A panic of another thread leaves the state intact: every change of an index is one transaction.
fn hold<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unpoisoned()
}
