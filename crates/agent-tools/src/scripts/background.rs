//! Background scripts, on pipes.

use std::sync::Arc;

use serde::Serialize;

use super::{Runtime, code, format, write as write_script};
use crate::background::{list_of, listed, read_streams, stop_process, write_bytes};
use crate::outcome::{Outcome, Problem, done};
use crate::process::background::{Background, Start};
use crate::process::{Plan, arguments, shown};
use crate::tool_set::Job;

/// `start_background_js`.
pub(crate) async fn start(job: &Job<'_>) -> Outcome {
    #[derive(Serialize)]
    struct Started<'a> {
        status: &'a str,
        session_id: &'a str,
        session_name: &'a str,
        pid: Option<u32>,
        runtime: String,
        command: String,
        args: Vec<String>,
        cwd: String,
        created_at: &'a str,
    }
    let code = code(job, "start_background_js")?;
    let format = format(job)?;
    let environment = &job.tools.settings.environment;
    let runtime = Runtime::find(job.input.word("runtime").unwrap_or("auto"), environment)?;
    let folder = job.cwd()?;
    // Only an explicit name refers to an earlier script.
    let name = job.input.word("session_name");
    let same = name.and_then(|name| job.session_state.scripts.same(name, &folder, false));
    let (status, background) = match same.filter(|_| job.input.flag("reuse_session", true)) {
        Some(background) => ("reused", background),
        None => {
            let scripts = job.tools.settings.data.join("js-runtime").join("background");
            let script = write_script(&scripts, format.ending, code, job.input.flag("keep_script", false))?;
            let mut words = runtime.words(&script);
            words.extend(arguments(job.input.list("args")));
            let plan = Plan { program: runtime.program, arguments: words, folder, environment: environment.clone() };
            let name = name.unwrap_or("background-js").to_owned();
            let start = Start { plan, prefix: "bg", name, terminal: None, strips_escapes: false, script: Some(script) };
            ("started", job.session_state.scripts.start(start, job).await?)
        }
    };
    let program = &background.plan.program;
    Ok(done(&Started {
        status,
        session_id: &background.id,
        session_name: &background.name,
        pid: background.pid,
        runtime: program.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        command: shown(program),
        args: background.plan.shown_arguments(),
        cwd: shown(&background.plan.folder),
        created_at: &background.created_at,
    }))
}

fn named(job: &Job<'_>, tool: &str) -> Result<Arc<Background>, Problem> {
    let found = job.input.word("session_id").and_then(|id| job.session_state.scripts.find(id));
    found.ok_or_else(|| Problem::invalid(format!("{tool} requires a valid `session_id`.")))
}

/// `read_background_js`.
pub(crate) fn read(job: &Job<'_>) -> Outcome {
    read_streams(job, &*named(job, "read_background_js")?)
}

/// `write_background_js`.
pub(crate) async fn write(job: &Job<'_>) -> Outcome {
    let background = named(job, "write_background_js")?;
    let Some(input) = job.input.text("input") else {
        return Err(Problem::invalid("write_background_js requires an `input` string."));
    };
    let newline = if job.input.flag("append_newline", true) { "\n" } else { "" };
    write_bytes(&background, &format!("{input}{newline}"), "background js session is not running", None).await
}

/// `stop_background_js`.
pub(crate) async fn stop(job: &Job<'_>) -> Outcome {
    stop_process(job, &*named(job, "stop_background_js")?).await
}

/// `list_background_js`.
pub(crate) fn list(job: &Job<'_>) -> Outcome {
    #[derive(Serialize)]
    struct Row<'a> {
        session_id: &'a str,
        session_name: &'a str,
        pid: Option<u32>,
        status: &'a str,
        running: bool,
        exit_code: Option<i32>,
        signal: Option<&'a str>,
        created_at: &'a str,
        updated_at: String,
        unread_stdout_chars: usize,
        unread_stderr_chars: usize,
    }
    let listed = listed(job, job.session_state.scripts.all());
    let rows = listed.iter().map(|background| {
        let exit = background.exit();
        let (unread_stdout_chars, unread_stderr_chars) = background.unread();
        Row {
            session_id: &background.id,
            session_name: &background.name,
            pid: background.pid,
            status: if exit.is_none() { "running" } else { "exited" },
            running: exit.is_none(),
            exit_code: exit.and_then(|exit| exit.code),
            signal: exit.and_then(|exit| exit.signal),
            created_at: &background.created_at,
            updated_at: background.updated_at(),
            unread_stdout_chars,
            unread_stderr_chars,
        }
    });
    list_of(rows.collect())
}
