//! `bash`: runs a command with the directory and variables that the previous one left.

use std::ffi::OsStr;
use std::path::PathBuf;

use serde::Serialize;

use super::state::{StateFile, still_there};
use super::{Shell, background};
use crate::bench::Job;
use crate::desk::ShellState;
use crate::outcome::{Outcome, Problem, done, failed};
use crate::process::{Environment, Plan, foreground, shown};

/// The initial directory and variables of a command.
#[derive(Debug)]
pub(super) struct Beginning {
    pub(super) folder: PathBuf,
    pub(super) environment: Environment,
    /// Whether the variables differ from the initial ones.
    is_own: bool,
}

#[derive(Serialize)]
struct Report<'a> {
    status: &'a str,
    mode: &'a str,
    shell: &'a str,
    shell_command: &'a str,
    shell_args: [&'a str; 2],
    command: &'a str,
    exit_code: Option<i32>,
    signal: Option<&'a str>,
    timed_out: bool,
    aborted: bool,
    duration_ms: u64,
    stdout: &'a str,
    stderr: &'a str,
    truncated_stdout: bool,
    truncated_stderr: bool,
    cwd_before: String,
    cwd_after: String,
    state_captured: bool,
    session_updated: bool,
}

/// Runs the tool.
pub(crate) async fn run(job: &Job<'_>) -> Outcome {
    let Some(command) = job.input.text("command").filter(|_| job.input.word("command").is_some()) else {
        return Err(Problem::invalid("bash requires a non-empty `command` string."));
    };
    let Some(shell) = &job.bench.shell else {
        return Err(Problem::Broke("no shell was found: zsh, bash or sh must be on the search path".to_owned()));
    };
    let beginning = begin(job)?;
    if job.input.flag("run_in_background", false) {
        return background::start(job, shell, command, beginning).await;
    }
    wait_for(job, shell, command, beginning).await
}

async fn wait_for(job: &Job<'_>, shell: &Shell, command: &str, beginning: Beginning) -> Outcome {
    let state = StateFile::new()?;
    let path = beginning.environment.get(OsStr::new("PATH")).filter(|_| beginning.is_own);
    let plan = Plan {
        program: shell.program.clone(),
        arguments: shell.arguments(&state.script(command, path.map(AsRef::as_ref))),
        folder: beginning.folder,
        environment: beginning.environment,
    };
    let finished = foreground::run(job, &plan).await?;
    let left = if finished.timed_out || finished.aborted { None } else { state.read() };
    let state_captured = left.is_some();
    if let Some(left) = left {
        *job.desk.place() = left;
    }
    let cwd_after = job.desk.place().folder.clone().unwrap_or_else(|| plan.folder.clone());
    let stdout = if state_captured { finished.stdout.trim_end_matches('\n') } else { &finished.stdout };
    let report = Report {
        status: finished.status(),
        mode: "bash",
        shell: shell.name,
        shell_command: shell.name,
        shell_args: shell.shown_arguments(),
        command,
        exit_code: finished.exit.code,
        signal: finished.exit.signal,
        timed_out: finished.timed_out,
        aborted: finished.aborted,
        duration_ms: finished.duration_ms,
        stdout,
        stderr: &finished.stderr,
        truncated_stdout: finished.truncated_stdout,
        truncated_stderr: finished.truncated_stderr,
        cwd_before: shown(&plan.folder),
        cwd_after: shown(&cwd_after),
        state_captured,
        session_updated: true,
    };
    Ok(match finished.failure() {
        None => done(&report),
        Some(error) => failed(&report, error),
    })
}

/// The initial state of a command: the state after the previous one, changed by the input. The changes are kept,
/// whatever the result of the command.
fn begin(job: &Job<'_>) -> Result<Beginning, Problem> {
    let mut place =
        if job.input.flag("reset_session", false) { ShellState::default() } else { job.desk.place().clone() };
    if let Some(cwd) = job.input.word("cwd") {
        let from = still_there(place.folder.as_deref(), job.folder);
        let folder = crate::files::within(&from, cwd);
        if !folder.is_dir() {
            return Err(Problem::invalid(format!("`cwd` is not a directory: {}", folder.display())));
        }
        place.folder = Some(folder);
    }
    let changes = job.input.inner("env");
    for (name, value) in changes.texts() {
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            return Err(Problem::invalid(format!("`env` holds a name or value that no variable can have: {name:?}")));
        }
        let environment = place.environment.get_or_insert_with(|| job.bench.settings.environment.clone());
        environment.insert(name.into(), value.into());
    }
    let beginning = Beginning {
        folder: still_there(place.folder.as_deref(), job.folder),
        is_own: place.environment.is_some(),
        environment: place.environment.clone().unwrap_or_else(|| job.bench.settings.environment.clone()),
    };
    *job.desk.place() = place;
    Ok(beginning)
}
