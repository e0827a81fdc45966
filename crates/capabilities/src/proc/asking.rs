//! Whether a process may be started as it was asked for, and how.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use super::Settings;
use crate::starting::Plan;

/// How variables begin that make programs run code of somebody else's, so that what is allowed would be anything.
const LOADING: [&str; 14] = [
    "LD_",
    "DYLD_",
    "GCONV_PATH",
    "GLIBC_TUNABLES",
    "BASH_",
    "PYTHON",
    "NODE_",
    "PERL5",
    "RUBY",
    "JAVA_TOOL_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "_JAVA_OPTIONS",
    "GIT_",
    "GLADHAND_",
];

/// What such variables are called otherwise.
const LEADING: [&str; 7] = ["PATH", "IFS", "ENV", "BASHOPTS", "SHELLOPTS", "PS4", "PROMPT_COMMAND"];

/// `proc/spawn/req`.
#[derive(Debug, Deserialize)]
#[serde(default)]
pub(super) struct Spawn {
    pub(super) cmd: Vec<String>,
    cwd: String,
    env: BTreeMap<String, String>,
    stdin_mode: String,
    #[serde(deserialize_with = "crate::integer")]
    timeout: i64,
}

impl Default for Spawn {
    fn default() -> Self {
        let (cmd, cwd, env) = (Vec::new(), String::new(), BTreeMap::new());
        Self { cmd, cwd, env, stdin_mode: "pipe".to_owned(), timeout: 0 }
    }
}

impl Spawn {
    /// How it is to be started; or why it may not be.
    pub(super) fn plan(&self, settings: &Settings) -> Result<Plan, String> {
        let program = self.cmd.first().ok_or("Empty command")?;
        if !settings.allowed.contains(program) {
            return Err("Command not allowed".to_owned());
        }
        let mut environment = settings.environment.clone();
        // The program is looked for where we are told to, not where the caller says: names are what was allowed.
        let program = found(program, &environment, settings.roots.first().map(PathBuf::as_path));
        for (name, value) in &self.env {
            if !may_be_set(name) || value.contains('\0') {
                return Err(format!("environment variable not allowed: {name}"));
            }
            environment.retain(|(set, _)| set != name);
            environment.push((name.clone(), value.clone()));
        }
        let folder = self.folder(&settings.roots)?;
        let command = std::iter::once(program).chain(self.cmd[1..].iter().cloned()).collect();
        Ok(Plan { command, folder, environment })
    }

    /// How long it may run, given how long anything may.
    pub(super) fn time(&self, longest: Option<Duration>) -> Option<Duration> {
        let asked = u64::try_from(self.timeout).ok().filter(|seconds| *seconds > 0).map(Duration::from_secs);
        [asked, longest].into_iter().flatten().min()
    }

    /// Whether it is given anything to read.
    pub(super) fn reads(&self) -> Result<bool, String> {
        match self.stdin_mode.as_str() {
            "pipe" => Ok(true),
            "null" => Ok(false),
            other => Err(format!("unknown stdin_mode: {other:?}")),
        }
    }

    /// Where it works, with links followed: in one of the roots.
    fn folder(&self, roots: &[PathBuf]) -> Result<Option<PathBuf>, String> {
        let first = roots.first();
        if self.cwd.is_empty() {
            return Ok(first.cloned());
        }
        let refused = || format!("cwd not allowed: {}", self.cwd);
        let base = first.ok_or_else(refused)?;
        let folder = std::fs::canonicalize(base.join(&self.cwd)).map_err(|_| refused())?;
        let is_inside = |root: &PathBuf| std::fs::canonicalize(root).is_ok_and(|root| folder.starts_with(root));
        if folder.is_dir() && roots.iter().any(is_inside) { Ok(Some(folder)) } else { Err(refused()) }
    }
}

/// Whether a caller may give a process a variable: not those that would make any allowed program every program.
fn may_be_set(name: &str) -> bool {
    let is_a_name = !name.is_empty() && !name.contains(['=', '\0']);
    is_a_name && !LEADING.contains(&name) && !LOADING.iter().any(|prefix| name.starts_with(prefix))
}

/// The program of a name, where the environment says that programs are. One that is not found keeps its name, and starting
/// it says so.
fn found(name: &str, environment: &[(String, String)], base: Option<&Path>) -> String {
    if name.contains('/') {
        // It may work elsewhere, and is not to be looked for there.
        let base = base.map(Path::to_owned).or_else(|| std::env::current_dir().ok()).unwrap_or_default();
        return base.join(name).to_string_lossy().into_owned();
    }
    let path = environment.iter().find(|(variable, _)| variable == "PATH").map_or("", |(_, value)| value);
    let mut candidates = std::env::split_paths(path).filter(|folder| folder.is_absolute()).map(|at| at.join(name));
    candidates.find(|at| is_program(at)).map_or_else(|| name.to_owned(), |at| at.to_string_lossy().into_owned())
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}
