//! The state that the tools of one session share: the shell's directory and variables, and background processes.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use gladhand_core::sync::Unpoisoned as _;
use gladhand_process::starting::Held;
use tokio_util::sync::CancellationToken;

use crate::outcome::Problem;
use crate::process::Environment;
use crate::process::background::{Background, Start};
use crate::process::ending::end;
use crate::tool_set::Job;

/// Maximum number of running background processes of one kind per session.
const MAX_RUNNING: usize = 64;

/// How many ended background processes are remembered.
const MAX_REMEMBERED: usize = 32;

/// The tool state of a session.
#[derive(Debug)]
pub(crate) struct SessionState {
    /// Started processes that may still have running descendants.
    held: Mutex<Vec<Arc<dyn Held>>>,
    /// The directory and variables of the shell.
    pub(crate) shell: Mutex<ShellState>,
    /// Background shells.
    pub(crate) shells: BackgroundProcesses,
    /// Background scripts.
    pub(crate) scripts: BackgroundProcesses,
    /// Cancelled when the session has ended.
    pub(crate) closing: CancellationToken,
}

/// The directory and the variables that one command leaves to the next.
#[derive(Debug, Clone, Default)]
pub(crate) struct ShellState {
    /// The directory, once a command has changed it.
    pub(crate) folder: Option<PathBuf>,
    /// The variables, once a command has changed them.
    pub(crate) environment: Option<Environment>,
}

impl SessionState {
    /// Creates an empty state.
    pub(crate) fn new(closing: CancellationToken) -> Self {
        Self {
            held: Mutex::default(),
            shell: Mutex::default(),
            shells: BackgroundProcesses::default(),
            scripts: BackgroundProcesses::default(),
            closing,
        }
    }

    fn held(&self) -> MutexGuard<'_, Vec<Arc<dyn Held>>> {
        self.held.lock().unpoisoned()
    }

    /// Keeps a started process until the session ends.
    pub(crate) fn hold(&self, held: Arc<dyn Held>) {
        let mut all = self.held();
        all.retain(|held| !held.is_gone());
        all.push(held);
    }

    /// The directory and variables of the shell.
    pub(crate) fn shell(&self) -> MutexGuard<'_, ShellState> {
        self.shell.lock().unpoisoned()
    }

    /// Ends all processes of the session.
    pub(crate) async fn clear(&self) {
        self.closing.cancel();
        let all = std::mem::take(&mut *self.held());
        let mut endings = tokio::task::JoinSet::new();
        for held in all.into_iter().filter(|held| !held.is_gone()) {
            endings.spawn(async move { end(&*held).await });
        }
        endings.join_all().await;
        // Later reports must know that the processes have ended.
        for background in self.shells.all().into_iter().chain(self.scripts.all()) {
            background.wait_for_end().await;
        }
    }
}

/// Background processes, oldest first.
#[derive(Debug, Default)]
pub(crate) struct BackgroundProcesses {
    all: Mutex<Vec<Arc<Background>>>,
    /// Serializes starts, so that the limit holds.
    starting: tokio::sync::Mutex<()>,
}

impl BackgroundProcesses {
    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Background>>> {
        self.all.lock().unpoisoned()
    }

    /// All background processes.
    pub(crate) fn all(&self) -> Vec<Arc<Background>> {
        self.lock().clone()
    }

    /// The process with this id.
    pub(crate) fn find(&self, id: &str) -> Option<Arc<Background>> {
        self.lock().iter().find(|background| background.id == id).cloned()
    }

    /// A running process with this name in this directory, with or without a terminal.
    pub(crate) fn same(&self, name: &str, folder: &Path, has_terminal: bool) -> Option<Arc<Background>> {
        let is_same = |one: &&Arc<Background>| {
            one.name == name && one.plan.folder == folder && one.size().is_some() == has_terminal && one.is_running()
        };
        self.lock().iter().find(is_same).cloned()
    }

    /// Starts another process, unless the limit is reached.
    pub(crate) async fn start(&self, start: Start, job: &Job<'_>) -> Result<Arc<Background>, Problem> {
        let _alone = self.starting.lock().await;
        if self.lock().iter().filter(|one| one.is_running()).count() >= MAX_RUNNING {
            let message = format!("{MAX_RUNNING} background processes are running already. stop one of them first.");
            return Err(Problem::invalid(message));
        }
        let background = Background::start(start, job).await?;
        let mut processes = self.lock();
        let mut excess = processes.iter().filter(|one| !one.is_running()).count().saturating_sub(MAX_REMEMBERED - 1);
        processes.retain(|one| {
            let is_removed = excess > 0 && !one.is_running();
            excess -= usize::from(is_removed);
            !is_removed
        });
        processes.push(Arc::clone(&background));
        Ok(background)
    }
}
