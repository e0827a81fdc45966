//! The workbench: dispatches tool calls, and holds the state that tools share.

use std::collections::HashMap;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use gladhand_core::wire::RawValue;
use tokio_util::sync::CancellationToken;

use crate::contract::{Bench, GuardedPath, Ran, Run, ToolDescription};
use crate::custom::Custom;
use crate::desk::Desk;
use crate::files::bounds::{Bounds, Surroundings};
use crate::input::Input;
use crate::outcome::{self, Outcome, Problem};
use crate::process::programs;
use crate::settings::WorkbenchSettings;
use crate::shell::Shell;
use crate::web::Searcher;
use crate::{catalogue, files, scripts, shell};

/// The built-in tools, and the custom tools of a folder.
#[derive(Debug)]
pub struct Workbench {
    pub(crate) settings: WorkbenchSettings,
    surroundings: Arc<Surroundings>,
    pub(crate) shell: Option<Shell>,
    pub(crate) searcher: Searcher,
    custom: Custom,
    built_in: Vec<ToolDescription>,
    extras: Vec<ToolDescription>,
    desks: Mutex<HashMap<String, Arc<Desk>>>,
    closing: CancellationToken,
}

/// One call, with everything that a tool needs.
#[derive(Debug)]
pub(crate) struct Job<'a> {
    pub(crate) bench: &'a Workbench,
    pub(crate) desk: &'a Desk,
    pub(crate) input: Input,
    pub(crate) raw: &'a RawValue,
    /// The working directory of the session.
    pub(crate) folder: &'a Path,
    /// Where its file tools may read and write.
    pub(crate) bounds: Bounds,
    /// Cancelled when the caller or the workbench stops the call.
    pub(crate) stop: &'a CancellationToken,
}

impl Job<'_> {
    /// Resolves a path relative to the session's folder.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        files::within(self.folder, path)
    }

    /// The directory that the input names, or the session's folder.
    pub(crate) fn cwd(&self) -> Result<PathBuf, Problem> {
        let folder = self.input.word("cwd").map_or_else(|| self.folder.to_owned(), |cwd| self.path(cwd));
        if folder.is_dir() {
            Ok(folder)
        } else {
            Err(Problem::invalid(format!("`cwd` is not a directory: {}", folder.display())))
        }
    }
}

impl Workbench {
    /// Prepares the tools. Custom tools are third-party code, so they are loaded only when they are first needed
    /// ([`Bench::ready`]).
    pub fn open(settings: WorkbenchSettings) -> Arc<Self> {
        let built_in = catalogue::built_in();
        let mut extras = if settings.extras { catalogue::extras() } else { Vec::new() };
        extras.retain(|tool| tool.name != "run_python" || programs::find("python3", &settings.environment).is_some());
        let taken = built_in.iter().cloned().chain(catalogue::extras()).map(|tool| tool.name).collect();
        let custom = Custom::new(&settings, taken);
        Arc::new(Self {
            surroundings: Arc::new(Surroundings::new(&settings)),
            shell: Shell::find(&settings.environment),
            searcher: Searcher::default(),
            custom,
            built_in,
            extras,
            desks: Mutex::default(),
            closing: CancellationToken::new(),
            settings,
        })
    }

    /// Whether there may be custom tools that are not loaded yet.
    pub fn may_have_more(&self) -> bool {
        self.custom.may_have_more()
    }

    fn desks(&self) -> MutexGuard<'_, HashMap<String, Arc<Desk>>> {
        self.desks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn desk(&self, session: &str) -> Arc<Desk> {
        let mut desks = self.desks();
        if let Some(desk) = desks.get(session) {
            return Arc::clone(desk);
        }
        let desk = Arc::new(Desk::new(self.closing.child_token()));
        desks.insert(session.to_owned(), Arc::clone(&desk));
        desk
    }

    async fn dispatch(&self, run: &Run<'_>, desk: &Desk, stop: &CancellationToken) -> Option<Outcome> {
        if run.edition != 0 {
            return self.custom.run(run.name, run.edition, run.input, stop).await;
        }
        let is_known = self.built_in.iter().chain(&self.extras).any(|tool| tool.name == run.name);
        if !is_known {
            return None;
        }
        let (input, bounds) = (Input::read(run.input), Bounds::of(&self.surroundings, run));
        let job = Job { bench: self, desk, input, raw: run.input, folder: run.folder, bounds, stop };
        Some(match run.name {
            "bash" => shell::bash::run(&job).await,
            "read_background_bash" => shell::background::read(&job),
            "write_background_bash" => shell::background::write(&job).await,
            "resize_background_bash" => shell::background::resize(&job).await,
            "stop_background_bash" => shell::background::stop(&job).await,
            "list_background_bash" => shell::background::list(&job),
            "read_file" => files::read::run(&job).await,
            "list_dir" => files::list::run(&job).await,
            "grep_files" => files::grep::run(&job).await,
            "glob_files" => files::glob::run(&job).await,
            "apply_patch" => files::patch::run(&job).await,
            "search_web" => self.searcher.run(&job).await,
            "run_js" => scripts::run::javascript(&job).await,
            "run_python" => scripts::run::python(&job).await,
            "install_js_packages" => scripts::packages::install(&job).await,
            "run_js_module" => scripts::packages::run_module(&job).await,
            "start_background_js" => scripts::background::start(&job).await,
            "read_background_js" => scripts::background::read(&job),
            "write_background_js" => scripts::background::write(&job).await,
            "stop_background_js" => scripts::background::stop(&job).await,
            "list_background_js" => scripts::background::list(&job),
            "create_persistent_tool" => self.custom.create(&job).await,
            _ => return None,
        })
    }
}

#[async_trait]
impl Bench for Workbench {
    fn tools(&self) -> Vec<ToolDescription> {
        let mut tools = self.built_in.clone();
        let custom = self.custom.tools();
        tools.extend(self.extras.iter().filter(|extra| custom.iter().all(|tool| tool.name != extra.name)).cloned());
        tools.extend(custom);
        tools.sort_by_cached_key(|tool| catalogue::order(&tool.name));
        tools
    }

    async fn ready(&self) {
        self.custom.ready().await;
    }

    async fn reach(&self, run: &Run<'_>) -> Vec<GuardedPath> {
        if run.edition != 0 {
            return Vec::new();
        }
        let used = files::used(run.name, &Input::read(run.input), run.folder);
        if used.is_empty() {
            return Vec::new();
        }
        let bounds = Bounds::of(&self.surroundings, run);
        let look = move || used.iter().filter_map(|(path, access)| bounds.reach(path, *access)).collect();
        // If the lookup fails, no place is reported for approval, and the tool itself refuses the path.
        tokio::task::spawn_blocking(look).await.unwrap_or_default()
    }

    async fn run(&self, run: Run<'_>) -> Ran {
        let desk = self.desk(run.session);
        let stop = desk.closing.child_token();
        if stop.is_cancelled() {
            return Problem::Broke("the tools are shutting down".to_owned()).into_ran(run.call_id, run.name);
        }
        let relay = async {
            run.cancel.cancelled().await;
            stop.cancel();
            std::future::pending::<Infallible>().await
        };
        let outcome = tokio::select! {
            // The relay comes first, so that a call that was cancelled before it started sees that.
            biased;
            never = relay => match never {},
            outcome = Box::pin(self.dispatch(&run, &desk, &stop)) => outcome,
        };
        match outcome {
            Some(Ok(ran)) => ran,
            Some(Err(problem)) => problem.into_ran(run.call_id, run.name),
            None => outcome::not_found(run.call_id, run.name),
        }
    }

    async fn forget(&self, session: &str) {
        let desk = self.desks().remove(session);
        if let Some(desk) = desk {
            desk.clear().await;
        }
    }

    async fn close(&self) {
        self.closing.cancel();
        let desks = std::mem::take(&mut *self.desks());
        let mut endings = tokio::task::JoinSet::new();
        for desk in desks.into_values() {
            endings.spawn(async move { desk.clear().await });
        }
        endings.join_all().await;
        self.custom.close().await;
    }
}
