//! The report of a script run.

use serde::Serialize;

use crate::contract::RunResult;
use crate::outcome::{done, failed};
use crate::process::Plan;
use crate::process::foreground::Finished;
use crate::process::shown;

#[derive(Serialize)]
struct Report<'a, Target> {
    status: &'a str,
    mode: &'a str,
    cwd: String,
    #[serde(flatten)]
    target: &'a Target,
    command: String,
    args: Vec<String>,
    exit_code: Option<i32>,
    signal: Option<&'a str>,
    timed_out: bool,
    /// Only present when true: older clients do not know it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    aborted: bool,
    duration_ms: u64,
    stdout: &'a str,
    stderr: &'a str,
    truncated_stdout: bool,
    truncated_stderr: bool,
}

/// Reports what was run by which plan, and how it ended.
pub(super) fn report(mode: &str, target: &impl Serialize, plan: &Plan, finished: &Finished) -> RunResult {
    let report = Report {
        status: finished.status(),
        mode,
        cwd: shown(&plan.folder),
        target,
        command: shown(&plan.program),
        args: plan.shown_arguments(),
        exit_code: finished.exit.code,
        signal: finished.exit.signal,
        timed_out: finished.timed_out,
        aborted: finished.aborted,
        duration_ms: finished.duration_ms,
        stdout: &finished.stdout,
        stderr: &finished.stderr,
        truncated_stdout: finished.truncated_stdout,
        truncated_stderr: finished.truncated_stderr,
    };
    match finished.failure() {
        None => done(&report),
        Some(error) => failed(&report, error),
    }
}
