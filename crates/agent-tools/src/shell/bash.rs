//! `bash`: runs a command with the directory and variables that the previous one left.

use std::ffi::OsStr;
use std::path::PathBuf;

use serde::Serialize;

use super::state::{StateFile, existing_or};
use super::{Shell, background};
use crate::outcome::{Outcome, Problem, done, failed};
use crate::process::{Environment, Plan, foreground, shown};
use crate::session_state::ShellState;
use crate::tool_set::Job;

/// The initial directory and variables of a command.
#[derive(Debug)]
pub(super) struct InitialState {
    pub(super) folder: PathBuf,
    pub(super) environment: Environment,
    /// Whether the variables differ from the initial ones.
    has_own_environment: bool,
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
    let Some(shell) = &job.tools.shell else {
        return Err(Problem::Broke("no shell was found: zsh, bash or sh must be on the search path".to_owned()));
    };
    let initial = begin(job)?;
    if job.input.flag("run_in_background", false) {
        return background::start(job, shell, command, initial).await;
    }
    wait_for(job, shell, command, initial).await
}

async fn wait_for(job: &Job<'_>, shell: &Shell, command: &str, initial: InitialState) -> Outcome {
    let state = StateFile::new()?;
    let path = initial.environment.get(OsStr::new("PATH")).filter(|_| initial.has_own_environment);
    let plan = Plan {
        program: shell.program.clone(),
        arguments: shell.arguments(&state.script(command, path.map(AsRef::as_ref))),
        folder: initial.folder,
        environment: initial.environment,
    };
    let finished = foreground::run(job, &plan).await?;
    let left = if finished.timed_out || finished.aborted { None } else { state.read() };
    let state_captured = left.is_some();
    if let Some(left) = left {
        *job.session_state.shell() = left;
    }
    let cwd_after = job.session_state.shell().folder.clone().unwrap_or_else(|| plan.folder.clone());
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

/// The initial state of a command: the state after the previous one, changed by the input. The changes are kept
/// even if the command fails.
fn begin(job: &Job<'_>) -> Result<InitialState, Problem> {
    let mut state =
        if job.input.flag("reset_session", false) { ShellState::default() } else { job.session_state.shell().clone() };
    if let Some(cwd) = job.input.word("cwd") {
        let from = existing_or(state.folder.as_deref(), job.folder);
        let folder = crate::files::within(&from, cwd);
        if !folder.is_dir() {
            return Err(Problem::invalid(format!("`cwd` is not a directory: {}", folder.display())));
        }
        state.folder = Some(folder);
    }
    let changes = job.input.inner("env");
    for (name, value) in changes.texts() {
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            return Err(Problem::invalid(format!("`env` holds a name or value that no variable can have: {name:?}")));
        }
        let environment = state.environment.get_or_insert_with(|| job.tools.settings.environment.clone());
        environment.insert(name.into(), value.into());
    }
    let initial = InitialState {
        folder: existing_or(state.folder.as_deref(), job.folder),
        has_own_environment: state.environment.is_some(),
        environment: state.environment.clone().unwrap_or_else(|| job.tools.settings.environment.clone()),
    };
    *job.session_state.shell() = state;
    Ok(initial)
}
