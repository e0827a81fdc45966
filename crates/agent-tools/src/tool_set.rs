//! The set of tools: dispatches tool calls, and holds the state that tools share.

use std::collections::HashMap;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use gladhand_core::sync::Unpoisoned as _;
use gladhand_core::wire::RawValue;
use tokio_util::sync::CancellationToken;

use crate::contract::{GuardedPath, Run, RunResult, ToolDescription, ToolProvider};
use crate::custom::Custom;
use crate::files::bounds::{AccessRules, Bounds};
use crate::input::Input;
use crate::outcome::{self, Outcome, Problem};
use crate::process::programs;
use crate::session_state::SessionState;
use crate::settings::ToolSettings;
use crate::shell::Shell;
use crate::web::Searcher;
use crate::{catalogue, files, scripts, shell};

/// The built-in tools, and the custom tools of a folder.
#[derive(Debug)]
pub struct ToolSet {
    pub(crate) settings: ToolSettings,
    access_rules: Arc<AccessRules>,
    pub(crate) shell: Option<Shell>,
    pub(crate) searcher: Searcher,
    custom: Custom,
    built_in: Vec<ToolDescription>,
    extras: Vec<ToolDescription>,
    session_states: Mutex<HashMap<String, Arc<SessionState>>>,
    closing: CancellationToken,
}

/// One call, with everything that a tool needs.
#[derive(Debug)]
pub(crate) struct Job<'a> {
    pub(crate) tools: &'a ToolSet,
    pub(crate) session_state: &'a SessionState,
    pub(crate) input: Input,
    pub(crate) raw: &'a RawValue,
    /// The working directory of the session.
    pub(crate) folder: &'a Path,
    /// Where its file tools may read and write.
    pub(crate) bounds: Bounds,
    /// Cancelled when the caller or the set of tools stops the call.
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

impl ToolSet {
    /// Prepares the tools. Custom tools are third-party code, so they are loaded only when they are first needed
    /// ([`ToolProvider::ready`]).
    pub fn open(settings: ToolSettings) -> Arc<Self> {
        let built_in = catalogue::built_in();
        let mut extras = if settings.extras { catalogue::extras() } else { Vec::new() };
        extras.retain(|tool| tool.name != "run_python" || programs::find("python3", &settings.environment).is_some());
        let taken = built_in.iter().cloned().chain(catalogue::extras()).map(|tool| tool.name).collect();
        let custom = Custom::new(&settings, taken);
        Arc::new(Self {
            access_rules: Arc::new(AccessRules::new(&settings)),
            shell: Shell::find(&settings.environment),
            searcher: Searcher::default(),
            custom,
            built_in,
            extras,
            session_states: Mutex::default(),
            closing: CancellationToken::new(),
            settings,
        })
    }

    /// Whether there may be custom tools that are not loaded yet.
    pub fn may_have_more(&self) -> bool {
        self.custom.may_have_more()
    }

    fn session_states(&self) -> MutexGuard<'_, HashMap<String, Arc<SessionState>>> {
        self.session_states.lock().unpoisoned()
    }

    fn session_state(&self, session: &str) -> Arc<SessionState> {
        let mut session_states = self.session_states();
        if let Some(session_state) = session_states.get(session) {
            return Arc::clone(session_state);
        }
        let session_state = Arc::new(SessionState::new(self.closing.child_token()));
        session_states.insert(session.to_owned(), Arc::clone(&session_state));
        session_state
    }

    async fn dispatch(&self, run: &Run<'_>, session_state: &SessionState, stop: &CancellationToken) -> Option<Outcome> {
        if run.edition != 0 {
            return self.custom.run(run.name, run.edition, run.input, stop).await;
        }
        let is_known = self.built_in.iter().chain(&self.extras).any(|tool| tool.name == run.name);
        if !is_known {
            return None;
        }
        let (input, bounds) = (Input::read(run.input), Bounds::of(&self.access_rules, run));
        let used = files::used(run.name, &input, run.folder);
        let bounds = bounds.with_used(&used);
        let job = Job { tools: self, session_state, input, raw: run.input, folder: run.folder, bounds, stop };
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
impl ToolProvider for ToolSet {
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

    async fn guarded_paths(&self, run: &Run<'_>) -> Vec<GuardedPath> {
        if run.edition != 0 {
            return Vec::new();
        }
        let used = files::used(run.name, &Input::read(run.input), run.folder);
        if used.is_empty() {
            return Vec::new();
        }
        let bounds = Bounds::of(&self.access_rules, run).with_used(&used);
        let look = move || used.iter().filter_map(|(path, access)| bounds.reach(path, *access)).collect();
        // If the lookup fails, no place is reported for approval, and the tool itself refuses the path.
        tokio::task::spawn_blocking(look).await.unwrap_or_default()
    }

    async fn run(&self, run: Run<'_>) -> RunResult {
        let session_state = self.session_state(run.session);
        let stop = session_state.closing.child_token();
        if stop.is_cancelled() {
            return Problem::Broke("the tools are shutting down".to_owned()).into_result(run.call_id, run.name);
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
            outcome = Box::pin(self.dispatch(&run, &session_state, &stop)) => outcome,
        };
        match outcome {
            Some(Ok(ran)) => ran,
            Some(Err(problem)) => problem.into_result(run.call_id, run.name),
            None => outcome::not_found(run.call_id, run.name),
        }
    }

    async fn forget(&self, session: &str) {
        let session_state = self.session_states().remove(session);
        if let Some(session_state) = session_state {
            session_state.clear().await;
        }
    }

    async fn close(&self) {
        self.closing.cancel();
        let session_states = std::mem::take(&mut *self.session_states());
        let mut endings = tokio::task::JoinSet::new();
        for session_state in session_states.into_values() {
            endings.spawn(async move { session_state.clear().await });
        }
        endings.join_all().await;
        self.custom.close().await;
    }
}
