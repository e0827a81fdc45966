//! Checks a spawn request against the operator's settings, and plans how the process is started.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use super::ProcSettings;
use crate::roots::inside;
use crate::starting::{ProcessSpec, find_program};

/// Variables that any agent may set: language, time zone and terminal. Every other variable can change what a program
/// does (which files it reads, which libraries and helpers it loads), so an agent sets only those that the operator
/// names.
const ALWAYS_ALLOWED: [&str; 15] = [
    "LANG",
    "LC_ALL",
    "LC_COLLATE",
    "LC_CTYPE",
    "LC_MESSAGES",
    "LC_MONETARY",
    "LC_NUMERIC",
    "LC_TIME",
    "TZ",
    "TERM",
    "COLUMNS",
    "LINES",
    "COLORTERM",
    "NO_COLOR",
    "FORCE_COLOR",
];

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
    /// How the process is started, or why it is refused.
    pub(super) fn spec(&self, settings: &ProcSettings) -> Result<ProcessSpec, String> {
        let program = self.cmd.first().ok_or("Empty command")?;
        if !settings.allowed.contains(program) {
            return Err("Command not allowed".to_owned());
        }
        let mut environment = settings.environment.clone();
        // The client chooses the working directory and some variables. Neither may change which program the allowed
        // word means.
        let path = environment.iter().find(|(variable, _)| variable == "PATH").map_or("", |(_, value)| value);
        let program = find_program(program, OsStr::new(path), settings.base.as_deref());
        for (name, value) in &self.env {
            if !may_be_set(name, value, settings) {
                return Err(format!("environment variable not allowed: {name}"));
            }
            environment.retain(|(set, _)| set != name);
            environment.push((name.clone(), value.clone()));
        }
        let folder = self.folder(&settings.roots)?;
        let command = std::iter::once(program).chain(self.cmd[1..].iter().cloned()).collect();
        Ok(ProcessSpec { command, folder, environment })
    }

    /// The timeout of the process: the shorter of the request's and the operator's.
    pub(super) fn time(&self, max_duration: Option<Duration>) -> Option<Duration> {
        let requested = u64::try_from(self.timeout).ok().filter(|seconds| *seconds > 0).map(Duration::from_secs);
        [requested, max_duration].into_iter().flatten().min()
    }

    /// Whether it gets an open stdin.
    pub(super) fn reads(&self) -> Result<bool, String> {
        match self.stdin_mode.as_str() {
            "pipe" => Ok(true),
            "null" => Ok(false),
            other => Err(format!("unknown stdin_mode: {other:?}")),
        }
    }

    /// The working directory, with links followed. It must be inside one of the roots.
    fn folder(&self, roots: &[PathBuf]) -> Result<Option<PathBuf>, String> {
        let first = roots.first();
        if self.cwd.is_empty() {
            return Ok(first.cloned());
        }
        let refused = || format!("cwd not allowed: {}", self.cwd);
        let base = first.ok_or_else(refused)?;
        let folder = inside(&base.join(&self.cwd), roots).filter(|folder| folder.is_dir());
        folder.map(Some).ok_or_else(refused)
    }
}

/// Whether a client may set a variable of a process.
fn may_be_set(name: &str, value: &str, settings: &ProcSettings) -> bool {
    let is_always_allowed = || ALWAYS_ALLOWED.contains(&name) && is_plain(value);
    !value.contains('\0') && (settings.variables.iter().any(|named| named == name) || is_always_allowed())
}

/// Whether a value is a plain word, and not a path to a file of the caller's choice, which some libraries would read.
fn is_plain(value: &str) -> bool {
    let is_part = |character: char| character.is_ascii_alphanumeric() || "_-+.@,:/".contains(character);
    value.chars().all(is_part) && !value.starts_with(['/', ':', '.']) && !value.contains("..")
}
