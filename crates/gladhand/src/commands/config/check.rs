//! `gladhand config check`.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use serde_json::{Value, json};

use super::{CheckArgs, counted};
use crate::commands::lookup::Sources;
use crate::commands::{CommandError, outside};
use crate::config::{self, Examined, File, Problem};
use crate::exit::Exit;

const BAD: Style = AnsiColor::Red.on_default().bold();
const ODD: Style = AnsiColor::Yellow.on_default().bold();
const GOOD: Style = AnsiColor::Green.on_default().bold();

pub(super) fn run(args: &CheckArgs) -> Result<ExitCode, CommandError> {
    let file = config::find(args.file.as_deref()).map_err(CommandError::usage)?;
    let verdict = file.as_ref().map(judge).unwrap_or_default();
    if args.json {
        super::print_json(&as_json(file.as_ref(), &verdict))?;
    } else {
        super::print(&drawn(file.as_ref(), &verdict))?;
    }
    Ok(verdict.exit().into())
}

/// What was found.
#[derive(Debug, Default)]
struct Verdict {
    /// The file is wrong.
    errors: Vec<Problem>,
    /// The file is right, and something is not there.
    warnings: Vec<Problem>,
    upstreams: usize,
}

impl Verdict {
    fn exit(&self) -> Exit {
        match (self.errors.is_empty(), self.warnings.is_empty()) {
            (false, _) => Exit::Usage,
            (true, false) => Exit::Failure,
            (true, true) => Exit::Success,
        }
    }
}

fn judge(file: &File) -> Verdict {
    let data = std::env::var_os(config::env::DATA_DIR).map(PathBuf::from);
    let sources = Sources::with_store_in(config::data_dir(data.as_deref()));
    let Examined { config, problems: errors, places } = sources.lookup(|lookup| config::examine(&file.text, lookup));
    let mut verdict = Verdict { errors, ..Verdict::default() };
    for (name, upstream) in config.iter().flat_map(|config| &config.upstreams.0).filter(|(_, one)| one.enabled) {
        verdict.upstreams += 1;
        // Of what is wrong in itself nothing more needs to be said.
        if verdict.errors.iter().any(|error| error.is_of(&["upstreams", name])) {
            continue;
        }
        for missing in outside::missing(upstream) {
            let message = format!("{}: {}", missing.message, missing.advice);
            verdict.warnings.push(places.problem(&["upstreams", name, missing.key], message));
        }
    }
    verdict
}

fn as_json(file: Option<&File>, verdict: &Verdict) -> Value {
    let severities = [("error", &verdict.errors), ("warning", &verdict.warnings)];
    let problem = |severity: &str, problem: &Problem| {
        let Problem { line, column, key, message } = problem;
        json!({ "severity": severity, "line": line, "column": column, "key": key, "message": message })
    };
    let problems: Vec<_> =
        severities.iter().flat_map(|(severity, all)| all.iter().map(|one| problem(severity, one))).collect();
    json!({
        "file": file.map(|file| file.path.display().to_string()),
        "ok": verdict.errors.is_empty(),
        "upstreams": verdict.upstreams,
        "problems": problems,
    })
}

fn drawn(file: Option<&File>, verdict: &Verdict) -> String {
    let Some(file) = file else { return "There is no configuration file: the defaults hold.\n".to_owned() };
    let mut text = String::new();
    for (style, word, problems) in [(BAD, "error", &verdict.errors), (ODD, "warning", &verdict.warnings)] {
        for problem in problems {
            let Problem { line, column, key, message } = problem;
            let place = format!("{}:{line}:{column}", file.path.display());
            let key = if key.is_empty() { String::new() } else { format!("{key}: ") };
            // A string takes everything.
            let _ = writeln!(text, "{place}: {style}{word}:{style:#} {key}{message}");
        }
    }
    let upstreams = counted(verdict.upstreams, "upstream");
    let _ = match (verdict.errors.len(), verdict.warnings.len()) {
        (0, 0) => writeln!(text, "{GOOD}{} is fine{GOOD:#}, with {upstreams}", file.path.display()),
        (errors, warnings) => writeln!(text, "{}, {}", counted(errors, "error"), counted(warnings, "warning")),
    };
    text
}
