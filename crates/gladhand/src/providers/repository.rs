//! The repository tools and `faq`, for peers of every dialect.
//!
//! A call reads a tree on a separate thread for as long as that takes. It reports its progress, and ends when its
//! caller no longer wants the answer. The descriptions of the tools are stored in a file (`repository_tools.jsonl`)
//! rather than built at each start; a test checks that they are current. They do not include the output schemas, which
//! would make them ten times as long.
//!
//! By default, only clients that speak Fluxloop get these twelve tools, because they would clutter the tool list of
//! other clients. The configuration can change that.

use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use gladhand_agent_tools::SecretFiles;
use gladhand_core::operations::{Failure, FailureKind, Progress, Tool, ToolCall, ToolResult};
use gladhand_core::sync::Unpoisoned as _;
use gladhand_core::wire::{RawValue, json, values};
use gladhand_faq::{Extract, Library, Question};
use gladhand_hub::{Answer, ChangeNotifier, Context, Opening, Provider, Reporter, SessionObserver};
use gladhand_repository::{
    Documents, Limits, Passage, Places, Progress as Watcher, Recipes, RepositoryError, Secrets, Setting, Stage,
    read_input, tool,
};
use serde::Deserialize;

use crate::config::{OwnFiles, RepositoryConfig};
use crate::from_config;
use crate::utc;

/// How often at most a caller hears how far its call is.
const REPORTS: Duration = Duration::from_millis(100);

/// How long a passage for a language model may be, in bytes.
const LONGEST_PASSAGE: usize = 600;

/// The variables of Fluxloop that name the index which `faq` and the workflow use, the stronger first.
const INDEX_VARIABLES: [&str; 2] = ["MCP_INDEX_PATH", "FLUXLOOP_MCP_INDEX_DIR"];

/// The tool descriptions that peers receive.
const DESCRIPTIONS: &str = include_str!("repository_tools.jsonl");

/// Clients of this dialect expect these tools.
const NATIVE: &str = "fluxloop";

/// The tools, and what they share.
#[derive(Debug)]
pub struct RepositoryTools {
    inner: Arc<Inner>,
    /// Whether they are shown.
    is_shown: AtomicBool,
    notifier: OnceLock<ChangeNotifier>,
}

#[derive(Debug)]
struct Inner {
    places: Places,
    /// The files that file tools do not read freely: these tools never read them.
    secrets: SecretFiles,
    /// The folder that `faq` answers from unless a call names another.
    docs: Option<PathBuf>,
    /// Where further recipes are.
    recipes_in: Option<PathBuf>,
    recipes: OnceLock<Recipes>,
    library: Library,
}

#[derive(Debug, Deserialize)]
struct Described {
    name: String,
    title: String,
    description: String,
    input_schema: Box<RawValue>,
}

/// The input of `faq`.
#[derive(Debug, Default, Deserialize)]
struct FaqInput {
    query: Option<String>,
    #[serde(rename = "topK")]
    top_k: Option<u32>,
    context: Option<gladhand_faq::Context>,
    /// A folder of documentation inside the allowed ones.
    docs: Option<PathBuf>,
}

impl RepositoryTools {
    /// As the configuration wants them; indexes are kept in the data folder. Clients over a network can read the
    /// configured folders and nothing else.
    pub fn new(config: &RepositoryConfig, files: impl Into<OwnFiles>, is_networked: bool) -> Self {
        let files = files.into();
        let allowed = (is_networked || !config.roots.is_empty()).then(|| config.roots.clone());
        let mut settings = gladhand_agent_tools::ToolSettings::new(files.data.join("agent"));
        from_config::keep_from(&files, &mut settings);
        let inner = Inner {
            secrets: SecretFiles::new(&settings),
            places: Places {
                working_folder: std::env::current_dir().unwrap_or_default(),
                home: crate::config::home_dir(),
                allowed,
                ..Places::default()
            },
            docs: index_of_environment().or_else(|| config.docs.clone()),
            recipes_in: config.recipes.clone(),
            recipes: OnceLock::new(),
            library: Library::open(files.data),
        };
        let is_shown = AtomicBool::new(config.enabled == Some(true));
        Self { inner: Arc::new(inner), is_shown, notifier: OnceLock::new() }
    }

    /// Runs a tool on this thread.
    pub fn run(
        &self,
        name: &str,
        arguments: &RawValue,
        watcher: &(dyn Watcher + Sync),
    ) -> Result<Box<RawValue>, Failure> {
        self.inner.run(name, arguments, None, watcher)
    }
}

impl Provider for RepositoryTools {
    fn name(&self) -> &str {
        "repository"
    }

    fn attach(&self, notifier: &ChangeNotifier) {
        let _ = self.notifier.set(notifier.clone());
    }

    fn tools(&self) -> Vec<Tool> {
        if !self.is_shown.load(Ordering::Relaxed) {
            return Vec::new();
        }
        // One tool on a line, so that what is taken from it as it is has no line breaks.
        let described = DESCRIPTIONS.lines().filter_map(|line| serde_json::from_str::<Described>(line).ok());
        let read_only = || json::raw(r#"{"readOnlyHint":true,"openWorldHint":false}"#.to_owned());
        described
            .map(|tool| Tool {
                title: Some(tool.title),
                extra: vec![("annotations".to_owned(), read_only())],
                vouched_read_only: true,
                ..Tool::new(tool.name, tool.description, tool.input_schema)
            })
            .collect()
    }

    fn call(&self, call: ToolCall<'_>, context: &Context<'_>) -> Answer {
        if call.name != "faq" && tool(&call.name).is_none() {
            return Answer::Now(Err(Failure::unknown_tool(&call.name)));
        }
        let (inner, call) = (Arc::clone(&self.inner), call.into_owned());
        let reporter = context.terms.wants_progress.then(|| context.reporter());
        let folder = context.terms.folder.clone();
        Answer::later(async move {
            let told = Arc::new(ProgressReporter {
                reporter,
                is_unwanted: AtomicBool::new(false),
                last: Mutex::new(LastReport::new()),
            });
            let wanted = Wanted(Arc::clone(&told));
            let running =
                tokio::task::spawn_blocking(move || inner.run(&call.name, &call.arguments, folder.as_deref(), &*told));
            let answer = running.await.unwrap_or_else(|_| Err(Failure::panicked()));
            drop(wanted);
            answer.map(ToolResult::structured)
        })
    }

    fn as_session_observer(&self) -> Option<&dyn SessionObserver> {
        Some(self)
    }
}

impl SessionObserver for RepositoryTools {
    fn opening(&self, fact: Opening<'_>) {
        let is_native = matches!(fact, Opening::Dialect(NATIVE));
        if is_native && !self.is_shown.swap(true, Ordering::Relaxed) {
            self.notifier.get().inspect(|notifier| notifier.tools_changed());
        }
    }
}

impl Inner {
    /// Runs a tool for a caller that works in a folder.
    fn run(
        &self,
        name: &str,
        arguments: &RawValue,
        folder: Option<&Path>,
        watcher: &(dyn Watcher + Sync),
    ) -> Result<Box<RawValue>, Failure> {
        let mut places = Places { secrets: Secrets(self.is_secret()), ..self.places.clone() };
        if let Some(folder) = folder {
            // A model chooses the arguments here, and no approval is asked for. It keeps to the folder of its session, unless the
            // operator named other folders. The root of all files is no such folder.
            let is_root = folder.canonicalize().is_ok_and(|real| real.parent().is_none());
            folder.clone_into(&mut places.working_folder);
            places.allowed.get_or_insert_with(|| if is_root { Vec::new() } else { vec![folder.to_owned()] });
        }
        let places = &places;
        if name == "faq" {
            return self.answer(arguments, places);
        }
        let tool = tool(name).ok_or_else(|| Failure::unknown_tool(name))?;
        let arguments = object(arguments)?;
        let now = utc::now().replace('Z', "000+00:00");
        let setting = Setting {
            limits: Limits::default(),
            progress: watcher,
            places,
            recipes: self.recipes(),
            documents: self,
            now: &now,
        };
        tool.call(arguments, &setting).map_err(|error| failure(&error))
    }

    fn answer(&self, arguments: &RawValue, places: &Places) -> Result<Box<RawValue>, Failure> {
        let FaqInput { query, top_k, context, docs } =
            read_input(object(arguments)?).map_err(|error| failure(&error))?;
        let folder = match &docs {
            Some(named) => Some(allowed(named, places)?),
            None => self.docs.clone(),
        };
        let question = Question { query: query.unwrap_or_default(), top_k, context };
        let answer = self.library.ask(&question, folder.as_deref(), &self.limits());
        answer.map(|answer| json::to_raw(&answer)).map_err(|error| {
            let message = error.to_string();
            match error {
                gladhand_faq::FaqError::Blank => Failure { message, ..Failure::missing_argument("query", "string") },
                _ => Failure::new(FailureKind::ToolFailed, message),
            }
        })
    }

    /// The rule about files for one call.
    fn is_secret(&self) -> Arc<impl Fn(&Path, &Metadata) -> bool + Send + Sync + use<>> {
        let secrets = self.secrets.for_another_call();
        Arc::new(move |real: &Path, about: &Metadata| secrets.contain(real, about))
    }

    /// Limits on the files that `faq` reads in one call.
    fn limits(&self) -> gladhand_faq::Limits {
        let secrets = Secrets(self.is_secret());
        gladhand_faq::Limits { secrets, ..gladhand_faq::Limits::default() }
    }

    fn recipes(&self) -> &Recipes {
        self.recipes.get_or_init(|| {
            let mut recipes = Recipes::shipped();
            if let Some(folder) = &self.recipes_in
                && let Err(error) = recipes.read_folder(folder)
            {
                tracing::warn!(%error, "recipes of that folder are left out");
            }
            recipes
        })
    }
}

impl Documents for Inner {
    fn best(&self, query: &str, most: usize) -> Vec<Passage> {
        let question = Question { top_k: u32::try_from(most).ok(), ..Question::new(query) };
        let extracts = self.library.extracts(&question, self.docs.as_deref(), &self.limits(), LONGEST_PASSAGE);
        let passage = |Extract { citation, text }: Extract| Passage {
            path: citation.path,
            number: citation.line,
            text: if text.is_empty() { citation.section } else { text },
            score: citation.score,
        };
        extracts.unwrap_or_default().into_iter().map(passage).collect()
    }
}

/// The index that the environment names.
fn index_of_environment() -> Option<PathBuf> {
    let named = |name: &&str| std::env::var_os(name).filter(|path| !path.is_empty());
    INDEX_VARIABLES.iter().find_map(named).map(PathBuf::from)
}

/// The arguments of a call as an object.
fn object(arguments: &RawValue) -> Result<serde_json::Value, Failure> {
    let object = values::read(arguments.get()).ok();
    object.ok_or_else(|| Failure::invalid_argument("arguments", "expected an object"))
}

/// A folder that a caller named, if it may be read.
fn allowed(named: &Path, places: &Places) -> Result<PathBuf, Failure> {
    let folder = places.working_folder.join(named);
    let denied = || Failure::new(FailureKind::Denied, format!("{} may not be read here", named.display()));
    let Ok(real) = std::fs::canonicalize(&folder) else {
        return if places.allowed.is_none() { Ok(folder) } else { Err(denied()) };
    };
    if real.metadata().is_ok_and(|about| (places.secrets.0)(&real, &about)) {
        return Err(denied());
    }
    let Some(allowed) = &places.allowed else { return Ok(real) };
    let is_inside = |root: &PathBuf| std::fs::canonicalize(root).is_ok_and(|root| real.starts_with(root));
    if allowed.iter().any(is_inside) { Ok(real) } else { Err(denied()) }
}

/// A failure in neutral words.
fn failure(error: &RepositoryError) -> Failure {
    let kind = match error {
        RepositoryError::WrongType { .. } | RepositoryError::NoFramework { .. } => FailureKind::InvalidArguments,
        RepositoryError::NoTool(_) => FailureKind::UnknownTool,
        RepositoryError::RootNotAllowed(_) => FailureKind::Denied,
        RepositoryError::Cancelled => FailureKind::Cancelled,
        _ => FailureKind::ToolFailed,
    };
    let data = error.details().map(|details| json::to_raw(&details));
    Failure { data, ..Failure::new(kind, error.to_string()) }
}

/// Tells a caller how far its call is.
#[derive(Debug)]
struct ProgressReporter {
    reporter: Option<Reporter>,
    is_unwanted: AtomicBool,
    last: Mutex<LastReport>,
}

/// The last progress report to a caller.
#[derive(Debug)]
struct LastReport {
    at: Option<Instant>,
    stage: Option<Stage>,
    reports: u32,
}

impl LastReport {
    fn new() -> Self {
        Self { at: None, stage: None, reports: 0 }
    }
}

/// Marks the answer as unwanted when it is dropped.
struct Wanted(Arc<ProgressReporter>);

impl Drop for Wanted {
    fn drop(&mut self) {
        self.0.is_unwanted.store(true, Ordering::Relaxed);
    }
}

impl Watcher for ProgressReporter {
    fn report(&self, stage: Stage, done: usize, total: Option<usize>) {
        let Some(reporter) = &self.reporter else { return };
        let mut last = self.last.lock().unpoisoned();
        let is_news = last.stage != Some(stage) || last.at.is_none_or(|at| at.elapsed() >= REPORTS);
        if is_news {
            *last = LastReport { at: Some(Instant::now()), stage: Some(stage), reports: last.reports + 1 };
            let of = total.map(|total| format!(" ({done} of {total})")).unwrap_or_default();
            let message = Some(format!("{}{of}", stage.name()));
            reporter.progress(Progress { progress: f64::from(last.reports), total: None, message });
        }
    }

    fn cancelled(&self) -> bool {
        self.is_unwanted.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recorded_descriptions_of_repository_tools_are_current() {
        let repository = gladhand_repository::tools().iter().map(|tool| {
            serde_json::json!({
                "name": tool.name,
                "title": tool.title,
                "description": tool.description,
                "input_schema": tool.input_schema,
            })
        });
        let mut all: Vec<serde_json::Value> = repository.collect();
        all.insert(0, faq());
        let actual: String = all.iter().map(|tool| format!("{tool}\n")).collect();
        if std::env::var_os("GLADHAND_BLESS").is_some() {
            let file = concat!(env!("CARGO_MANIFEST_DIR"), "/src/providers/repository_tools.jsonl");
            std::fs::write(file, &actual).unwrap();
            return;
        }
        assert!(actual == DESCRIPTIONS, "run this test with GLADHAND_BLESS=1");
    }

    #[test]
    fn relative_paths_begin_where_the_caller_works() {
        let (here, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::write(here.path().join("go.mod"), "module example.com/a\n").unwrap();
        std::fs::create_dir(here.path().join("docs")).unwrap();
        std::fs::write(here.path().join("docs/a.md"), "# Gizmo\n\nA gizmo turns left.\n").unwrap();
        let tools = RepositoryTools::new(&RepositoryConfig::default(), data.path().to_owned(), false);
        let run = |name: &str, arguments: &str| {
            let answer = tools.inner.run(name, &json::raw(arguments.to_owned()), Some(here.path()), &());
            answer.unwrap().get().to_owned()
        };
        assert!(run("analyze_repository", r#"{"root":"."}"#).contains(r#""packageManagers":["go"]"#));
        assert!(run("faq", r#"{"query":"gizmo","docs":"docs"}"#).contains("turns left"));
        let roots = vec![here.path().join("docs")];
        let config = RepositoryConfig { roots, ..RepositoryConfig::default() };
        let tools = RepositoryTools::new(&config, data.path().to_owned(), false);
        let arguments = json::raw(r#"{"root":"."}"#.to_owned());
        let refused = tools.inner.run("analyze_repository", &arguments, Some(here.path()), &()).unwrap_err();
        assert_eq!(refused.kind, FailureKind::Denied, "what may be read is the same wherever one works");
    }

    #[test]
    fn a_session_of_the_agent_keeps_to_its_folder() {
        let (here, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let tools = RepositoryTools::new(&RepositoryConfig::default(), data.path().to_owned(), false);
        for (name, arguments) in [
            ("analyze_repository", r#"{"root":".."}"#),
            ("analyze_repository", r#"{"root":"~"}"#),
            ("faq", r#"{"query":"gizmo","docs":".."}"#),
        ] {
            let arguments = json::raw(arguments.to_owned());
            let refused = tools.inner.run(name, &arguments, Some(here.path()), &()).unwrap_err();
            assert_eq!(refused.kind, FailureKind::Denied, "{name} {arguments}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn repository_tools_do_not_show_files_that_may_contain_secrets() {
        let (home, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let here = home.path().canonicalize().unwrap();
        for folder in [".aws", "docs/.ssh", ".kube"] {
            std::fs::create_dir_all(here.join(folder)).unwrap();
        }
        std::fs::write(data.path().join("kept.md"), "# Gizmo\n\ngizmo hunter2\n").unwrap();
        std::fs::hard_link(data.path().join("kept.md"), here.join("docs/linked.md")).unwrap();
        for file in [".aws/credentials", "docs/.ssh/a.md", ".kube/config"] {
            std::fs::write(here.join(file), "gizmo hunter2").unwrap();
        }
        let tools = RepositoryTools::new(&RepositoryConfig::default(), data.path().to_owned(), false);
        let run = |name: &str, arguments: String, folder: &Path| {
            let answer = tools.inner.run(name, &json::raw(arguments), Some(folder), &());
            answer.map(|answer| answer.get().to_owned())
        };
        for target in [".aws/credentials", ".kube/config", "docs/linked.md"] {
            let arguments = format!(r#"{{"root":".","context":{{"targets":["{target}"]}}}}"#);
            let answer = run("fetch_integration_context", arguments, &here).unwrap();
            assert!(answer.contains("may hold secrets") && !answer.contains("hunter2"), "{target}: {answer}");
        }
        for docs in [".", "docs"] {
            let answer = run("faq", format!(r#"{{"query":"gizmo","docs":"{docs}"}}"#), &here).unwrap();
            assert!(!answer.contains("hunter2"), "{docs}: {answer}");
        }
        for (name, arguments) in [
            ("faq", r#"{"query":"gizmo","docs":".aws"}"#),
            ("fetch_integration_context", r#"{"root":".aws","context":{"targets":["credentials"]}}"#),
        ] {
            assert_eq!(run(name, arguments.to_owned(), &here).unwrap_err().kind, FailureKind::Denied, "{name}");
        }
        let environment = r#"{"root":"/proc/self","context":{"targets":["environ"]}}"#;
        for folder in [Path::new("/"), Path::new("/proc")] {
            let refused = run("fetch_integration_context", environment.to_owned(), folder).unwrap_err();
            assert_eq!(refused.kind, FailureKind::Denied, "{}", folder.display());
        }
        assert!(run("analyze_repository", r#"{"root":"/"}"#.to_owned(), Path::new("/")).is_err());
    }

    /// `faq` with the folder that only a tool has.
    fn faq() -> serde_json::Value {
        let mut schema = schemars::schema_for!(Question).to_value();
        schema["properties"]["docs"] = serde_json::json!({
            "type": "string",
            "description": "A folder of documentation to answer from, instead of the configured one",
        });
        serde_json::json!({
            "name": "faq",
            "title": "Answer from documentation",
            "description": "Answers a question with extracts from documentation (Markdown, RST, HTML, text), each with its place, or says that nothing fits.",
            "input_schema": schema,
        })
    }
}
