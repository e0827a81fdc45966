//! The set of tools, with real processes and files in temporary folders.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod background;
mod custom;
mod ending;
mod files;
mod scripts;
mod shell;
mod web;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gladhand_agent_tools::{GuardedPath, Run, ToolProvider, ToolSet, ToolSettings};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use tokio_util::sync::CancellationToken;

/// A set of tools in a temporary folder.
struct Shop {
    tools: Arc<ToolSet>,
    home: tempfile::TempDir,
}

/// The result of a call.
#[derive(Debug)]
struct Said {
    ok: bool,
    output: Value,
    /// The output text, with the folder as `<CWD>` and durations as 0.
    written: String,
    error: Option<String>,
}

impl Shop {
    async fn open() -> Self {
        Self::with(|_| ()).await
    }

    /// A set of tools with other settings. `change` may also create files.
    async fn with(change: impl FnOnce(&mut ToolSettings)) -> Self {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join("cwd")).unwrap();
        let mut settings = ToolSettings::new(home.path().join("data"));
        // Login shells must not read the real home.
        settings.environment.insert("HOME".into(), home.path().into());
        change(&mut settings);
        let tools = ToolSet::open(settings);
        tools.ready().await;
        Self { tools, home }
    }

    fn folder(&self) -> PathBuf {
        self.home.path().join("cwd").canonicalize().unwrap()
    }

    fn file(&self, path: &str, text: &str) -> PathBuf {
        let path = self.folder().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    async fn call(&self, name: &str, input: Value) -> Said {
        self.call_for("session", name, input, &CancellationToken::new()).await
    }

    async fn call_for(&self, session: &str, name: &str, input: Value, cancel: &CancellationToken) -> Said {
        let (folder, input) = (self.folder(), to_raw_value(&input).unwrap());
        self.run(Run { session, cancel, ..self.order(name, &input, &folder, cancel) }).await
    }

    /// Runs a call with approval for everything that it reaches. Returns the result and these places.
    async fn approving(&self, name: &str, input: Value) -> (Said, Vec<GuardedPath>) {
        let (folder, cancel) = (self.folder(), CancellationToken::new());
        let input = input.to_string().replace("<CWD>", folder.to_str().unwrap());
        let input = RawValue::from_string(input).unwrap();
        let order = || self.order(name, &input, &folder, &cancel);
        let reached = self.tools.guarded_paths(&order()).await;
        (self.run(Run { approved: &reached, ..order() }).await, reached)
    }

    fn order<'a>(
        &self,
        name: &'a str,
        input: &'a RawValue,
        folder: &'a Path,
        cancel: &'a CancellationToken,
    ) -> Run<'a> {
        let tools = self.tools.tools();
        let edition = tools.iter().find(|tool| tool.name == name).map_or(0, |tool| tool.edition);
        let (call_id, session, is_workspace, approved) = ("c1", "session", true, &[]);
        Run { name, edition, call_id, input, session, folder, is_workspace, approved, cancel }
    }

    async fn run(&self, run: Run<'_>) -> Said {
        let folder = self.folder();
        let ran = self.tools.run(run).await;
        let written = ran.output.get().replace(&folder.display().to_string(), "<CWD>");
        let output: Value = serde_json::from_str(ran.output.get()).unwrap();
        let written = match output.get("duration_ms").and_then(Value::as_u64) {
            Some(duration) => written.replace(&format!("\"duration_ms\":{duration}"), "\"duration_ms\":0"),
            None => written,
        };
        Said {
            ok: ran.ok,
            output,
            written,
            error: ran.error.map(|error| error.replace(folder.to_str().unwrap(), "<CWD>")),
        }
    }

    async fn bash(&self, command: &str) -> Said {
        self.call("bash", serde_json::json!({ "command": command })).await
    }
}

impl Said {
    fn text(&self, name: &str) -> &str {
        self.output[name].as_str().unwrap_or_else(|| panic!("expected a string {name} in {self:?}"))
    }
}

/// Waits until a condition holds. The timeout is long, because duration is not part of the tests.
async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(30), "timed out waiting until {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Whether a process exists and is not a zombie.
fn is_alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

/// The number in a file, once it is written.
async fn pid_in(path: &Path) -> String {
    let read = || std::fs::read_to_string(path).unwrap_or_default();
    until("a process writes its id", || read().ends_with('\n')).await;
    read().trim().to_owned()
}

/// Fails if a required program is missing, instead of skipping the test.
fn needs(program: &str) {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
    assert!(found, "{program} is not installed: `cargo xtask test` installs it");
}
