//! `run_js` and `run_python`: run a script from text and wait for its end.

use std::path::PathBuf;

use serde::Serialize;

use super::report::report;
use super::{Runtime, code, format, write};
use crate::outcome::{Outcome, Problem};
use crate::process::{Plan, arguments, foreground, programs, shown};
use crate::tool_set::Job;

/// The script that was run.
#[derive(Serialize)]
struct ScriptRun {
    #[serde(rename = "scriptPath")]
    script_path: String,
    runtime: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<&'static str>,
}

/// `run_js`.
pub(crate) async fn javascript(job: &Job<'_>) -> Outcome {
    let code = code(job, "run_js")?;
    let format = format(job)?;
    let environment = &job.tools.settings.environment;
    let runtime = Runtime::find(job.input.word("runtime").unwrap_or("auto"), environment)?;
    run(job, "run_js", code, runtime, format.ending, Some(format.name)).await
}

/// `run_python`.
pub(crate) async fn python(job: &Job<'_>) -> Outcome {
    let code = code(job, "run_python")?;
    let program = programs::find("python3", &job.tools.settings.environment);
    let program = program.ok_or_else(|| Problem::invalid("no python3 was found on PATH."))?;
    run(job, "run_python", code, Runtime { name: "python3", program }, "py", None).await
}

async fn run(
    job: &Job<'_>,
    mode: &str,
    code: &str,
    runtime: Runtime,
    ending: &str,
    format: Option<&'static str>,
) -> Outcome {
    let folder = job.cwd()?;
    let script = write(&runs(job), ending, code, job.input.flag("keep_script", false))?;
    let mut words = runtime.words(&script);
    words.extend(arguments(job.input.list("args")));
    let plan = Plan {
        program: runtime.program,
        arguments: words,
        folder,
        environment: job.tools.settings.environment.clone(),
    };
    let finished = foreground::run(job, &plan).await?;
    let script_run = ScriptRun { script_path: shown(&script), runtime: runtime.name, format };
    Ok(report(mode, &script_run, &plan, &finished))
}

/// The folder where scripts are written.
fn runs(job: &Job<'_>) -> PathBuf {
    job.tools.settings.data.join("js-runtime").join("runs")
}
