//! Background shell commands: in a terminal, or on pipes.

use std::sync::Arc;

use serde::Serialize;

use super::bash::InitialState;
use super::{Shell, keys};
use crate::background::{list_of, listed, read_streams, stop_process, write_bytes};
use crate::outcome::{Outcome, Problem, done, failed};
use crate::process::background::{Background, Size, Start};
use crate::process::{Plan, shown};
use crate::tool_set::Job;

/// The default size of a terminal.
const SIZE: Size = Size { cols: 120, rows: 36 };

#[derive(Serialize)]
struct Started<'a> {
    status: &'a str,
    mode: &'a str,
    session_id: &'a str,
    session_name: &'a str,
    shell: &'a str,
    shell_command: &'a str,
    shell_args: [&'a str; 2],
    command: &'a str,
    pid: Option<u32>,
    cwd: String,
    created_at: &'a str,
    updated_at: String,
    session_updated: bool,
    cwd_before: String,
    cwd_after: String,
    #[serde(flatten)]
    terminal: Terminal,
}

/// The terminal members of a report.
#[derive(Serialize)]
struct Terminal {
    transport: &'static str,
    full_terminal: bool,
    terminal_cols: Option<u16>,
    terminal_rows: Option<u16>,
}

impl Terminal {
    /// Without a terminal, the default size is shown.
    fn of(background: &Background) -> Self {
        let size = background.size();
        let shown = size.unwrap_or(SIZE);
        Self {
            transport: transport(background),
            full_terminal: size.is_some(),
            terminal_cols: Some(shown.cols),
            terminal_rows: Some(shown.rows),
        }
    }
}

fn transport(background: &Background) -> &'static str {
    if background.size().is_some() { "pty" } else { "pipe" }
}

/// Starts a command, or returns the running one with the same name.
pub(super) async fn start(job: &Job<'_>, shell: &Shell, command: &str, initial: InitialState) -> Outcome {
    let name = job.input.word("session_name").unwrap_or("background-bash");
    let has_terminal = job.input.flag("full_terminal", true);
    let same = job.session_state.shells.same(name, &initial.folder, has_terminal);
    let (status, background) = match same.filter(|_| job.input.flag("reuse_session", true)) {
        Some(background) => ("reused", background),
        None => {
            let plan = Plan {
                program: shell.program.clone(),
                arguments: shell.arguments(command),
                folder: initial.folder,
                environment: initial.environment,
            };
            let terminal = has_terminal.then(|| Size {
                cols: side(job, "terminal_cols", SIZE.cols, COLS),
                rows: side(job, "terminal_rows", SIZE.rows, ROWS),
            });
            let name = name.to_owned();
            let start = Start { plan, prefix: "bg-bash", name, terminal, strips_escapes: true, script: None };
            ("started", job.session_state.shells.start(start, job).await?)
        }
    };
    let cwd = shown(&background.plan.folder);
    Ok(done(&Started {
        status,
        mode: "bash",
        session_id: &background.id,
        session_name: &background.name,
        shell: shell.name,
        shell_command: shell.name,
        shell_args: shell.shown_arguments(),
        command: given_command(&background),
        pid: background.pid,
        cwd: cwd.clone(),
        created_at: &background.created_at,
        updated_at: background.updated_at(),
        session_updated: true,
        cwd_before: cwd.clone(),
        cwd_after: cwd,
        terminal: Terminal::of(&background),
    }))
}

/// The command as it was given: the last argument of the shell.
fn given_command(background: &Background) -> &str {
    background.plan.arguments.last().and_then(|command| command.to_str()).unwrap_or_default()
}

/// The allowed sizes of a terminal.
const COLS: (usize, usize) = (40, 400);
const ROWS: (usize, usize) = (10, 200);

fn side(job: &Job<'_>, name: &str, default: u16, (min, max): (usize, usize)) -> u16 {
    u16::try_from(job.input.within(name, default.into(), min, max)).unwrap_or(default)
}

/// The background command that the input names.
fn named(job: &Job<'_>, tool: &str) -> Result<Arc<Background>, Problem> {
    let found = job.input.word("session_id").and_then(|id| job.session_state.shells.find(id));
    found.ok_or_else(|| Problem::invalid(format!("{tool} requires a valid `session_id`.")))
}

/// `read_background_bash`.
pub(crate) fn read(job: &Job<'_>) -> Outcome {
    read_streams(job, &*named(job, "read_background_bash")?)
}

/// `write_background_bash`.
pub(crate) async fn write(job: &Job<'_>) -> Outcome {
    let tool = "write_background_bash";
    let background = named(job, tool)?;
    let has_terminal = background.size().is_some();
    let newline = if has_terminal { "\r" } else { "\n" };
    let mut bytes = String::new();
    if let Some(input) = job.input.text("input") {
        bytes.push_str(input);
        if job.input.flag("append_newline", true) {
            bytes.push_str(newline);
        }
    }
    if let Some(key) = job.input.word("key") {
        let Some(sent) = keys::sent(key, has_terminal) else {
            return Err(Problem::invalid(format!("unknown `key`: {key}")));
        };
        bytes.push_str(&sent.repeat(job.input.within("repeat", 1, 1, 100)));
    }
    if bytes.is_empty() {
        return Err(Problem::invalid(format!("{tool} requires `input` or `key`.")));
    }
    write_bytes(&background, &bytes, "background bash session is not running", Some(transport(&background))).await
}

/// `resize_background_bash`.
pub(crate) async fn resize(job: &Job<'_>) -> Outcome {
    #[derive(Serialize)]
    struct Resized<'a> {
        status: &'a str,
        session_id: &'a str,
        #[serde(flatten)]
        terminal: Terminal,
    }
    let background = named(job, "resize_background_bash")?;
    if background.size().is_none() {
        let terminal = Terminal { transport: "pipe", full_terminal: false, terminal_cols: None, terminal_rows: None };
        let report = Resized { status: "unsupported", session_id: &background.id, terminal };
        return Ok(failed(&report, "resize_background_bash requires a PTY full_terminal session"));
    }
    let (Some(_), Some(_)) = (job.input.whole("cols"), job.input.whole("rows")) else {
        return Err(Problem::invalid("resize_background_bash requires the numbers `cols` and `rows`."));
    };
    let is_running = background.is_running();
    if is_running {
        background
            .resize(Size { cols: side(job, "cols", SIZE.cols, COLS), rows: side(job, "rows", SIZE.rows, ROWS) })
            .await?;
    }
    let status = if is_running { "ok" } else { "not_running" };
    let report = Resized { status, session_id: &background.id, terminal: Terminal::of(&background) };
    Ok(if is_running { done(&report) } else { failed(&report, "background bash session is not running") })
}

/// `stop_background_bash`.
pub(crate) async fn stop(job: &Job<'_>) -> Outcome {
    stop_process(job, &*named(job, "stop_background_bash")?).await
}

/// `list_background_bash`.
pub(crate) fn list(job: &Job<'_>) -> Outcome {
    #[derive(Serialize)]
    struct Row<'a> {
        session_id: &'a str,
        session_name: &'a str,
        running: bool,
        status: &'a str,
        shell: &'a str,
        command: &'a str,
        cwd: String,
        created_at: &'a str,
        updated_at: String,
        unread_stdout_chars: usize,
        unread_stderr_chars: usize,
        #[serde(flatten)]
        terminal: Terminal,
    }
    let shell = job.tools.shell.as_ref().map_or("", |shell| shell.name);
    let listed = listed(job, job.session_state.shells.all());
    let rows = listed.iter().map(|background| {
        let running = background.is_running();
        let (unread_stdout_chars, unread_stderr_chars) = background.unread();
        Row {
            session_id: &background.id,
            session_name: &background.name,
            running,
            status: if running { "running" } else { "exited" },
            shell,
            command: given_command(background),
            cwd: shown(&background.plan.folder),
            created_at: &background.created_at,
            updated_at: background.updated_at(),
            unread_stdout_chars,
            unread_stderr_chars,
            terminal: Terminal::of(background),
        }
    });
    list_of(rows.collect())
}
