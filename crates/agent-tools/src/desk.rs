//! What the tools of one session share: where its shell stands, and what it left running.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

use crate::bench::Job;
use crate::outcome::Problem;
use crate::process::Environment;
use crate::process::background::{Background, Start};
use crate::process::starting::{Held, end};

/// How many processes of one kind may run in the background of a session at once.
const RUNNING: usize = 64;

/// How many that have ended are remembered.
const REMEMBERED: usize = 32;

/// A session's place at the bench.
#[derive(Debug)]
pub(crate) struct Desk {
    /// What was started here and may have left something running.
    held: Mutex<Vec<Arc<dyn Held>>>,
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
    pub(crate) fn new(closing: CancellationToken) -> Self {
        Self {
            held: Mutex::default(),
            place: Mutex::default(),
            shells: Shelf::default(),
            scripts: Shelf::default(),
            closing,
        }
    }

    fn held(&self) -> MutexGuard<'_, Vec<Arc<dyn Held>>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is started for the session stays until that ends.
    pub(crate) fn hold(&self, held: Arc<dyn Held>) {
        let mut all = self.held();
        all.retain(|held| !held.is_gone());
        all.push(held);
    }

    /// Where the shell stands.
    pub(crate) fn place(&self) -> MutexGuard<'_, Place> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends everything that was started here.
    pub(crate) async fn clear(&self) {
        self.closing.cancel();
        let all = std::mem::take(&mut *self.held());
        let mut endings = tokio::task::JoinSet::new();
        for held in all.into_iter().filter(|held| !held.is_gone()) {
            endings.spawn(async move { end(&*held).await });
        }
        endings.join_all().await;
        // Reports may be asked for afterwards, and are to know of the end.
        for background in self.shells.all().into_iter().chain(self.scripts.all()) {
            background.has_ended().await;
        }
    }
}

/// Processes in the background, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Shelf {
    all: Mutex<Vec<Arc<Background>>>,
    /// One is started at a time, so that there are never too many.
    starting: tokio::sync::Mutex<()>,
}

impl Shelf {
    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Background>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
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
    pub(crate) async fn start(&self, start: Start, job: &Job<'_>) -> Result<Arc<Background>, Problem> {
        let _alone = self.starting.lock().await;
        if self.lock().iter().filter(|one| one.is_running()).count() >= RUNNING {
            let message = format!("{RUNNING} background processes are running already. stop one of them first.");
            return Err(Problem::invalid(message));
        }
        let background = Background::start(start, job).await?;
        let mut shelf = self.lock();
        let mut excess = shelf.iter().filter(|one| !one.is_running()).count().saturating_sub(REMEMBERED - 1);
        shelf.retain(|one| {
            let goes = excess > 0 && !one.is_running();
            excess -= usize::from(goes);
            !goes
        });
        shelf.push(Arc::clone(&background));
        Ok(background)
    }
}
