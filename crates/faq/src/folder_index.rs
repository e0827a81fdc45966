//! The documentation of one folder, or the built-in one: checks whether it changed, keeps its index, and answers from
//! it.

use std::borrow::Cow;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fs_err as fs;
use ring::digest::{SHA256, digest};

use crate::answer::{Answer, Extract, extracts};
use crate::error::FaqError;
use crate::index::{Change, Index, Stamp, is_damage};
use crate::own;
use crate::question::{Limits, Question};
use crate::rank::Finder;
use crate::reading::Readings;
use crate::sections::{INDEX_FILE, cut};
use crate::survey::{DocumentFile, Survey};

/// A scan of the folder stays valid for this many times its own duration, so that questions spend their time on
/// answers.
const WORTH: u32 = 20;

/// Maximum number of warnings in an answer.
const MOST_WARNINGS: usize = 20;

/// One folder and its index.
#[derive(Debug)]
pub(crate) struct FolderIndex {
    folder: Option<PathBuf>,
    index: Index,
    finder: Finder,
    readings: Readings,
    /// When the last scan of the folder ended, and how long it took.
    looked: Option<(Instant, Duration)>,
    /// Whether the last scan found a Fluxloop index.
    is_index: bool,
    /// The problems that the last scan found in the folder.
    left_out: Vec<String>,
    /// The problem with the index, as long as this process runs.
    about_index: Option<String>,
    /// The problems with single files, in the given generation of the index.
    about_files: (i64, Vec<String>),
}

impl FolderIndex {
    /// The built-in documentation, which does not change at run time.
    pub(crate) fn own() -> Result<Self, FaqError> {
        let mut folder_index = Self::new(None, Index::in_memory()?);
        let mut change = folder_index.index.change()?;
        for (path, text) in own::DOCUMENTS {
            let stamp = Stamp { size: text.len() as i64, modified: Stamp::UNSETTLED, hash: Vec::new() };
            change.put(path, &stamp, &cut(own::FORMAT, &stem(path), text), None)?;
        }
        change.commit()?;
        Ok(folder_index)
    }

    /// The documentation in `folder`, with its index in the file `index`, or in memory if the file cannot be used.
    pub(crate) fn open(index: PathBuf, folder: PathBuf) -> Result<Self, FaqError> {
        let made = index.parent().map_or(Ok(()), fs::create_dir_all).map_err(|error| error.to_string());
        match made.and_then(|()| Index::open(&index).map_err(|error| error.to_string())) {
            Ok(index) => Ok(Self::new(Some(folder), index)),
            Err(error) => {
                let mut folder_index = Self::new(Some(folder), Index::in_memory()?);
                folder_index.about_index = Some(format!("the index is kept in memory only: {error}"));
                Ok(folder_index)
            }
        }
    }

    fn new(folder: Option<PathBuf>, index: Index) -> Self {
        let about_index = index.was_damaged().then(|| REBUILT.to_owned());
        Self {
            folder,
            index,
            finder: Finder::default(),
            readings: Readings::default(),
            looked: None,
            is_index: false,
            left_out: Vec::new(),
            about_index,
            about_files: (0, Vec::new()),
        }
    }

    /// Answers from the current contents of the folder.
    pub(crate) fn ask(&mut self, question: &Question, limits: &Limits) -> Result<Answer, FaqError> {
        let mut answer = Answer::of(self.extracts(question, limits, Answer::longest)?);
        let warnings = || self.about_index.iter().chain(&self.left_out).chain(&self.about_files.1);
        answer.warnings = warnings().take(MOST_WARNINGS).cloned().collect();
        if let more @ 1.. = warnings().count().saturating_sub(MOST_WARNINGS) {
            answer.warnings.push(format!("and {more} more"));
        }
        Ok(answer)
    }

    /// The passages that match a question, the best section first. `longest` limits the length by the rank.
    pub(crate) fn extracts(
        &mut self,
        question: &Question,
        limits: &Limits,
        longest: impl Fn(usize) -> usize,
    ) -> Result<Vec<Extract>, FaqError> {
        let extracts = match self.try_extracts(question, limits, &longest) {
            Err(error) if is_damage(&error) => {
                self.index.repair()?;
                (self.finder, self.readings) = (Finder::default(), Readings::default());
                self.looked = None;
                self.about_index = Some(REBUILT.to_owned());
                self.try_extracts(question, limits, &longest)?
            }
            outcome => outcome?,
        };
        match &self.folder {
            Some(folder) if extracts.is_empty() && self.is_index && self.index.is_empty()? => {
                Err(FaqError::NoChunk { path: folder.join(INDEX_FILE) })
            }
            _ => Ok(extracts),
        }
    }

    fn try_extracts(
        &mut self,
        question: &Question,
        limits: &Limits,
        longest: impl Fn(usize) -> usize,
    ) -> rusqlite::Result<Vec<Extract>> {
        self.look(limits)?;
        let Self { index, finder, readings, about_files, .. } = self;
        index.read(|index| {
            let generation = index.generation()?;
            if about_files.0 != generation {
                *about_files = (generation, index.warnings()?);
            }
            let ranking = finder.find(index, generation, question, limits)?;
            readings.begin(generation);
            extracts(index, readings, &ranking, longest)
        })
    }

    /// Brings the index up to date with the folder, unless that was done a moment ago.
    fn look(&mut self, limits: &Limits) -> rusqlite::Result<()> {
        let Some(folder) = &self.folder else { return Ok(()) };
        let holds = |took: Duration| if limits.fresh.is_zero() { limits.fresh } else { limits.fresh.max(took * WORTH) };
        if self.looked.is_some_and(|(when, took)| when.elapsed() < holds(took)) {
            return Ok(());
        }
        let began = Instant::now();
        let deadline = began + limits.time;
        let survey = Survey::of(folder, limits, deadline);
        self.is_index = survey.is_index;
        self.left_out = survey.warnings.clone();
        let known = self.index.stamps()?;
        let same = |found: &DocumentFile| known.get(&found.path).is_some_and(|stamp| is_same(found, stamp));
        let mut complete = survey.complete;
        if survey.found.len() != known.len() || !survey.found.iter().all(same) {
            let mut change = self.index.change()?;
            complete &= update(&mut change, &survey, limits, deadline)?;
            change.commit()?;
        }
        if !complete {
            self.left_out.push(format!("some files: left out for now, looking took more than {:?}", limits.time));
        }
        self.looked = Some((Instant::now(), began.elapsed()));
        Ok(())
    }
}

const REBUILT: &str = "the index was damaged and has been rebuilt";

fn is_same(found: &DocumentFile, stamp: &Stamp) -> bool {
    found.modified != Stamp::UNSETTLED && (found.size, found.modified) == (stamp.size, stamp.modified)
}

/// Adds changed files to the index, and removes deleted ones. Returns whether there was time for all of them.
fn update(change: &mut Change<'_>, survey: &Survey, limits: &Limits, deadline: Instant) -> rusqlite::Result<bool> {
    let mut known = change.stamps()?;
    for found in &survey.found {
        let before = known.remove(&found.path);
        if before.as_ref().is_some_and(|stamp| is_same(found, stamp)) {
            continue;
        }
        if Instant::now() >= deadline {
            return Ok(false);
        }
        let (text, warning) = match read(found, limits) {
            Ok((text, warning)) => (Some(text), warning),
            Err(why) => (None, Some(why)),
        };
        let hash = text.as_ref().map(|text| digest(&SHA256, text.as_bytes()).as_ref().to_vec()).unwrap_or_default();
        let stamp = Stamp { size: found.size, modified: found.modified, hash };
        if before.is_some_and(|before| before.hash == stamp.hash) {
            change.touch(&found.path, &stamp)?;
        } else {
            let sections = text.map(|text| cut(found.format, &stem(&found.path), &text)).unwrap_or_default();
            change.put(&found.path, &stamp, &sections, warning.as_deref())?;
        }
    }
    if survey.complete {
        for gone in known.keys() {
            change.remove(gone)?;
        }
    }
    Ok(true)
}

/// The text of a document with a warning, if there is one; or the reason why it cannot be read.
fn read(found: &DocumentFile, limits: &Limits) -> Result<(String, Option<String>), String> {
    let failed = |error: std::io::Error| error.kind().to_string();
    // The survey saw a regular file, which may have been replaced since.
    let is_file = fs::symlink_metadata(&found.file).map_err(failed)?.is_file();
    let file = if is_file {
        gladhand_store::open_regular(&found.file).map_err(failed)?
    } else {
        return Err("is no file".to_owned());
    };
    let about = file.metadata().map_err(failed)?;
    if !about.is_file() || (limits.secrets.0)(&found.file, &about) {
        return Err("left out, may hold secrets".to_owned());
    }
    let mut bytes = Vec::new();
    file.take(limits.bytes_of(found.format)).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.contains(&0) {
        return Err("left out, is no text".to_owned());
    }
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    Ok(match String::from_utf8_lossy(bytes) {
        Cow::Borrowed(text) => (text.to_owned(), None),
        Cow::Owned(text) => (text, Some("is not UTF-8 throughout".to_owned())),
    })
}

/// The title of a document without one: its file name without the extension.
fn stem(path: &str) -> String {
    Path::new(path).file_stem().unwrap_or_default().to_string_lossy().into_owned()
}
