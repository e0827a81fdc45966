//! Custom tools from a folder: JavaScript files that people or the model wrote.

mod generated;
mod helper;
mod persistent;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use gladhand_core::Order as _;
use gladhand_core::sync::Unpoisoned as _;
use gladhand_core::wire::RawValue;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use crate::contract::{Effect, RunResult, ToolDescription};
use crate::outcome::{Outcome, Problem};
use crate::scripts::Runtime;
use crate::settings::ToolSettings;
use generated::Generated;
use helper::Helper;

/// Maximum number of files that are loaded.
const MAX_FILES: usize = 1000;

/// The custom tools.
#[derive(Debug)]
pub(crate) struct Custom {
    folder: PathBuf,
    /// Names that are already taken.
    taken: BTreeSet<String>,
    /// `None` if no JavaScript runtime is installed.
    helper: Option<Helper>,
    tools: Mutex<Vec<Tool>>,
    /// Files may change at run time. Each load gets a new version. Built-in tools have version 0.
    version: AtomicU64,
    /// Only one tool is created at a time.
    making: tokio::sync::Mutex<()>,
    loaded: tokio::sync::OnceCell<()>,
}

/// A tool and its file.
#[derive(Debug, Clone)]
struct Tool {
    description: ToolDescription,
    path: PathBuf,
}

/// The description of a tool, as its file gives it.
#[derive(Debug, Deserialize)]
struct Described {
    name: String,
    description: String,
    #[serde(default)]
    schema: Option<Box<RawValue>>,
}

impl Tool {
    /// The version, which is unique among all loaded tools.
    fn version(&self) -> u64 {
        self.description.edition
    }
}

impl Custom {
    /// Prepares the tools of the folder without loading them.
    pub(crate) fn new(settings: &ToolSettings, taken: BTreeSet<String>) -> Self {
        let runtime = Runtime::find("auto", &settings.environment).ok();
        let helper = runtime.map(|runtime| Helper::new(runtime, settings));
        Self {
            folder: settings.data.join("tools"),
            taken,
            helper,
            tools: Mutex::default(),
            version: AtomicU64::new(1),
            making: tokio::sync::Mutex::default(),
            loaded: tokio::sync::OnceCell::new(),
        }
    }

    /// Loads all tools of the folder, once. Errors in files are logged.
    pub(crate) async fn ready(&self) {
        let load = || async {
            for path in files(&self.folder) {
                let loaded = self.load_file(&path).await.and_then(|tool| self.add(tool));
                if let Err(why) = loaded {
                    tracing::warn!(file = %path.display(), why, "could not load a custom tool");
                }
            }
        };
        self.loaded.get_or_init(load).await;
    }

    /// Whether there are files that are not loaded yet.
    pub(crate) fn may_have_more(&self) -> bool {
        !self.loaded.initialized() && !files(&self.folder).is_empty()
    }

    /// Ends the process that runs them.
    pub(crate) async fn close(&self) {
        if let Some(helper) = &self.helper {
            helper.close().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Tool>> {
        self.tools.lock().unpoisoned()
    }

    /// The descriptions of the loaded tools.
    pub(crate) fn tools(&self) -> Vec<ToolDescription> {
        self.lock().iter().map(|tool| tool.description.clone()).collect()
    }

    /// Runs a tool, if it is loaded in this version.
    pub(crate) async fn run(
        &self,
        name: &str,
        version: u64,
        input: &RawValue,
        stop: &CancellationToken,
    ) -> Option<Outcome> {
        #[derive(Deserialize)]
        struct Result {
            ok: bool,
            #[serde(default)]
            output: Option<Box<RawValue>>,
            #[serde(default)]
            error: Option<String>,
        }
        let tool = self.lock().iter().find(|tool| tool.description.name == name).cloned()?;
        if tool.version() != version {
            return Some(Err(Problem::invalid(format!("{name} was replaced since it was offered: call it again"))));
        }
        let helper = self.helper.as_ref()?;
        Some(match helper.run::<Result>(&tool.path, tool.version(), input, stop).await {
            Ok(Result { ok, output, error }) => {
                Ok(RunResult { ok, output: output.unwrap_or_else(|| RawValue::NULL.to_owned()), error })
            }
            Err(why) => Err(Problem::Broke(why)),
        })
    }

    /// Loads the tool of a file without adding it. A file that a person wrote is imported, which runs its code. A file
    /// that the model wrote is only read.
    async fn load_file(&self, path: &Path) -> Result<Tool, String> {
        let (helper, version) = (self.helper()?, self.next_version());
        match Generated::read(path)? {
            Some(generated) => Self::tool(path, version, generated.described(), true),
            None => Self::tool(path, version, helper.load(path, version).await?, false),
        }
    }

    /// Checks the syntax of the body of a function, without running it.
    async fn check(&self, body: &str) -> Result<(), String> {
        self.helper()?.check(body).await
    }

    fn helper(&self) -> Result<&Helper, String> {
        self.helper.as_ref().ok_or_else(|| "neither bun nor node is on the search path".to_owned())
    }

    fn next_version(&self) -> u64 {
        self.version.fetch_add(1, Ordering::Relaxed)
    }

    fn tool(path: &Path, version: u64, described: Described, is_made_by_model: bool) -> Result<Tool, String> {
        if !is_name(&described.name) {
            return Err(format!("{:?} is not a valid tool name", described.name));
        }
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        let description = match described.description {
            none if none.is_empty() => format!("custom tool from {file}"),
            some => some,
        };
        let description = ToolDescription {
            name: described.name,
            description,
            input_schema: described.schema,
            effect: Effect::Runs,
            edition: version,
            is_made_by_model,
        };
        Ok(Tool { description, path: path.to_owned() })
    }

    /// Adds a tool, unless its name is taken.
    fn add(&self, tool: Tool) -> Result<(), String> {
        let name = &tool.description.name;
        let mut tools = self.lock();
        if self.taken.contains(name) || tools.iter().any(|other| other.description.name == *name) {
            return Err(format!("a tool named {name} exists already"));
        }
        tools.push(tool);
        Ok(())
    }
}

/// Whether a text is a valid tool name.
fn is_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "_.:-".contains(c))
}

/// All files below a folder that may contain a tool, sorted by path.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = match std::fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) => {
                if error.kind() != std::io::ErrorKind::NotFound {
                    tracing::warn!(folder = %folder.display(), %error, "could not read the folder of custom tools");
                }
                continue;
            }
        };
        for entry in entries.flatten() {
            let path = entry.path();
            let ending = path.extension().and_then(|ending| ending.to_str());
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && entry.file_name() != "node_modules" => folders.push(path),
                Ok(kind) if kind.is_file() && matches!(ending, Some("js" | "mjs" | "cjs")) => files.push(path),
                _ => {}
            }
        }
        if files.len() > MAX_FILES {
            tracing::warn!(folder = %folder.display(), "too many custom tools; the rest is ignored");
            break;
        }
    }
    files.order();
    files.truncate(MAX_FILES);
    files
}
