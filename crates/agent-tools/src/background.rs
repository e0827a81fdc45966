//! Shared parts of the tools for background shells and background scripts.

use std::sync::Arc;

use serde::Serialize;

use crate::outcome::{Outcome, Problem, done, failed};
use crate::process::background::{Background, StopMode, Stream};
use crate::process::output::Reading;
use crate::tool_set::Job;

/// The report of reading a background process.
#[derive(Serialize)]
struct Read<'a> {
    status: &'a str,
    session_id: &'a str,
    session_name: &'a str,
    running: bool,
    exit_code: Option<i32>,
    signal: Option<&'a str>,
    stdout: String,
    stderr: String,
    stdout_cursor: usize,
    stderr_cursor: usize,
    stdout_has_more: bool,
    stderr_has_more: bool,
    stdout_dropped: bool,
    stderr_dropped: bool,
}

/// Reads the streams that the input selects.
pub(crate) fn read_streams(job: &Job<'_>, background: &Background) -> Outcome {
    let (out, err) = match job.input.word("stream").unwrap_or("both") {
        "both" => (true, true),
        "stdout" => (true, false),
        "stderr" => (false, true),
        _ => return Err(Problem::invalid("`stream` must be one of: both, stdout, stderr.")),
    };
    let max_units = job.input.within("max_chars", 8000, 1, 120_000);
    let is_peek = job.input.flag("peek", false);
    let read = |wanted, stream| -> Reading {
        if wanted { background.read(stream, max_units, is_peek) } else { background.skip(stream) }
    };
    // Check the exit first: if the process has ended, the output read below is complete.
    let exit = background.exit();
    let (stdout, stderr) = (read(out, Stream::Stdout), read(err, Stream::Stderr));
    Ok(done(&Read {
        status: "ok",
        session_id: &background.id,
        session_name: &background.name,
        running: exit.is_none(),
        exit_code: exit.and_then(|exit| exit.code),
        signal: exit.and_then(|exit| exit.signal),
        stdout_cursor: stdout.cursor,
        stderr_cursor: stderr.cursor,
        stdout_has_more: stdout.has_more,
        stderr_has_more: stderr.has_more,
        stdout_dropped: stdout.dropped,
        stderr_dropped: stderr.dropped,
        stdout: stdout.text,
        stderr: stderr.text,
    }))
}

/// The report of writing to a background process.
#[derive(Serialize)]
struct InputReport<'a> {
    status: &'a str,
    session_id: &'a str,
    running: bool,
    exit_code: Option<i32>,
    signal: Option<&'a str>,
    bytes_written: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    transport: Option<&'a str>,
}

/// Writes to a background process, if it still runs.
pub(crate) async fn write_bytes(
    background: &Background,
    bytes: &str,
    not_running: &str,
    transport: Option<&str>,
) -> Outcome {
    let written = if background.is_running() { Some(background.write(bytes.as_bytes()).await) } else { None };
    let exit = background.exit();
    let report = |status, bytes_written| InputReport {
        status,
        session_id: &background.id,
        running: exit.is_none(),
        exit_code: exit.and_then(|exit| exit.code),
        signal: exit.and_then(|exit| exit.signal),
        bytes_written,
        transport,
    };
    Ok(match written {
        Some(Ok(())) => done(&report("ok", Some(bytes.len()))),
        Some(Err(error)) => failed(&report("error", None), error.to_string()),
        None => failed(&report("not_running", None), not_running),
    })
}

/// Stops a background process. Kills it if the input has `force`.
pub(crate) async fn stop_process(job: &Job<'_>, background: &Background) -> Outcome {
    #[derive(Serialize)]
    struct Already<'a> {
        status: &'a str,
        session_id: &'a str,
        running: bool,
        exit_code: Option<i32>,
        signal: Option<&'a str>,
    }
    #[derive(Serialize)]
    struct Requested<'a> {
        status: &'a str,
        session_id: &'a str,
        signal: &'a str,
        running: bool,
        exit_code: Option<i32>,
    }
    if let Some(exit) = background.exit() {
        return Ok(done(&Already {
            status: "already_stopped",
            session_id: &background.id,
            running: false,
            exit_code: exit.code,
            signal: exit.signal,
        }));
    }
    let (mode, name) =
        if job.input.flag("force", false) { (StopMode::Kill, "SIGKILL") } else { (StopMode::Terminate, "SIGTERM") };
    background.stop(mode).await;
    let exit = background.exit();
    Ok(done(&Requested {
        status: "stop_requested",
        session_id: &background.id,
        signal: name,
        running: exit.is_none(),
        exit_code: exit.and_then(|exit| exit.code),
    }))
}

/// The processes that a list shows.
pub(crate) fn listed(job: &Job<'_>, mut all: Vec<Arc<Background>>) -> Vec<Arc<Background>> {
    let include_exited = job.input.flag("include_exited", false);
    all.retain(|background| include_exited || background.is_running());
    all
}

/// A list of background processes.
pub(crate) fn list_of<Row: Serialize>(sessions: Vec<Row>) -> Outcome {
    #[derive(Serialize)]
    struct List<Row> {
        status: &'static str,
        count: usize,
        sessions: Vec<Row>,
    }
    Ok(done(&List { status: "ok", count: sessions.len(), sessions }))
}
