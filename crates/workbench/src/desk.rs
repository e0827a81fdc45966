//! What the tools of one session share: where its shell stands, and what it left running.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

use crate::outcome::Problem;
use crate::process::Environment;
use crate::process::background::{Background, Start};
use crate::process::family;

/// How many processes of one kind may run in the background of a session at once.
const RUNNING: usize = 64;

/// How many that have ended are remembered.
const REMEMBERED: usize = 32;

/// A session's place at the bench.
#[derive(Debug)]
pub(crate) struct Desk {
    /// What everything that is started here is recognised by.
    mark: String,
    started: AtomicU64,
    /// Where the shell stands.
    pub(crate) place: Mutex<Place>,
    /// Shells in the background.
    pub(crate) shells: Shelf,
    /// Scripts in the background.
    pub(crate) scripts: Shelf,
    /// The session has ended.
    pub(crate) closing: CancellationToken,
}

/// The directory and the variables that one command leaves to the next.
#[derive(Debug, Clone, Default)]
pub(crate) struct Place {
    /// The directory, once somebody went elsewhere than where the session works.
    pub(crate) folder: Option<PathBuf>,
    /// The variables, once they differ from those at first.
    pub(crate) environment: Option<Environment>,
}

impl Desk {
    /// An empty desk.
    pub(crate) fn new(mark: String, closing: CancellationToken) -> Self {
        Self {
            mark,
            started: AtomicU64::new(0),
            place: Mutex::default(),
            shells: Shelf::default(),
            scripts: Shelf::default(),
            closing,
        }
    }

    /// A mark for the next process.
    pub(crate) fn next_mark(&self) -> String {
        format!("{}.{}", self.mark, self.started.fetch_add(1, Ordering::Relaxed))
    }

    /// Where the shell stands.
    pub(crate) fn place(&self) -> MutexGuard<'_, Place> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends everything that was started here.
    pub(crate) async fn clear(&self) {
        self.closing.cancel();
        let mut endings = tokio::task::JoinSet::new();
        for background in self.shells.all().into_iter().chain(self.scripts.all()) {
            endings.spawn(async move { background.end().await });
        }
        endings.join_all().await;
        family::sweep(&self.mark).await;
    }
}

/// Processes in the background, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Shelf(Mutex<Vec<Arc<Background>>>);

impl Shelf {
    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Background>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<Arc<Background>> {
        self.lock().clone()
    }

    /// The one with this id.
    pub(crate) fn find(&self, id: &str) -> Option<Arc<Background>> {
        self.lock().iter().find(|background| background.id == id).cloned()
    }

    /// A running one of this name in this directory, with or without a terminal.
    pub(crate) fn same(&self, name: &str, folder: &Path, has_terminal: bool) -> Option<Arc<Background>> {
        let is_same = |one: &&Arc<Background>| {
            one.name == name && one.plan.folder == folder && one.size().is_some() == has_terminal && one.is_running()
        };
        self.lock().iter().find(is_same).cloned()
    }

    /// Starts another one, unless there are too many.
    pub(crate) fn start(&self, start: Start) -> Result<Arc<Background>, Problem> {
        let mut shelf = self.lock();
        if shelf.iter().filter(|one| one.is_running()).count() >= RUNNING {
            let message = format!("{RUNNING} background processes are running already. stop one of them first.");
            return Err(Problem::invalid(message));
        }
        let mut excess = shelf.iter().filter(|one| !one.is_running()).count().saturating_sub(REMEMBERED - 1);
        shelf.retain(|one| {
            let goes = excess > 0 && !one.is_running();
            excess -= usize::from(goes);
            !goes
        });
        let background = Background::start(start)?;
        shelf.push(Arc::clone(&background));
        Ok(background)
    }
}
