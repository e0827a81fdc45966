//! `gladhand config check`.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use gladhand_hub::Pattern;
use serde_json::{Value, json};

use super::{CheckArgs, counted};
use crate::commands::lookup::Sources;
use crate::commands::plain::plain_lines;
use crate::commands::serve::Memory;
use crate::commands::{CommandError, outside};
use crate::config::{self, Examined, File, Problem, UpstreamConfig};
use crate::exit::Exit;

const BAD: Style = AnsiColor::Red.on_default().bold();
const ODD: Style = AnsiColor::Yellow.on_default().bold();
const GOOD: Style = AnsiColor::Green.on_default().bold();

pub(super) fn run(args: &CheckArgs) -> Result<ExitCode, CommandError> {
    let file =
        config::find(args.file.as_ref().or(args.config.as_ref()).map(PathBuf::as_path)).map_err(CommandError::usage)?;
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
    let data = config::data_dir(data.as_deref());
    let (sources, memory) = (Sources::with_store_in(data.clone()), Memory::in_folder(data));
    let Examined { config, problems: errors, places } = sources.lookup(|lookup| config::examine(file, lookup));
    let mut verdict = Verdict { errors, ..Verdict::default() };
    for missing in config.iter().flat_map(outside::missing_elsewhere) {
        if !missing.is_mistaken(&verdict.errors) {
            let path: Vec<_> = missing.key.split('.').collect();
            verdict.warnings.push(places.problem(&path, format!("{}: {}", missing.message, missing.advice)));
        }
    }
    for (name, upstream) in config.iter().flat_map(|config| &config.upstreams.0).filter(|(_, one)| one.enabled) {
        verdict.upstreams += 1;
        // Of what is wrong in itself nothing more needs to be said.
        if verdict.errors.iter().any(|error| error.is_of(&["upstreams", name])) {
            continue;
        }
        for missing in outside::missing(upstream) {
            let message = format!("{}: {}", missing.message, missing.advice);
            verdict.warnings.push(places.problem(&["upstreams", name, &missing.key], message));
        }
        let known = upstream.target().and_then(|target| memory.names(name, &target));
        for (key, wanted) in known.iter().flat_map(|known| idle(upstream, known)) {
            let message = format!("`{wanted}` is nothing that it had when it was last asked");
            verdict.warnings.push(places.problem(&["upstreams", name, key], message));
        }
    }
    verdict
}

/// What is said of names that an upstream does not have, and under which key.
fn idle<'u>(upstream: &'u UpstreamConfig, known: &[String]) -> Vec<(&'static str, &'u str)> {
    let fits_nothing = |pattern: &&String| {
        let pattern = Pattern((*pattern).clone());
        !known.iter().any(|name| pattern.fits(name))
    };
    let patterns = |key, all: &'u [String]| all.iter().filter(fits_nothing).map(move |name| (key, name.as_str()));
    let renamed = upstream.rename.keys().filter(|name| !known.contains(name)).map(|name| ("rename", name.as_str()));
    patterns("only", &upstream.only).chain(patterns("hide", &upstream.hide)).chain(renamed).collect()
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
            let _ = writeln!(text, "{place}: {style}{word}:{style:#} {}", plain_lines(&format!("{key}{message}")));
        }
    }
    let upstreams = counted(verdict.upstreams, "upstream");
    let _ = match (verdict.errors.len(), verdict.warnings.len()) {
        (0, 0) => writeln!(text, "{GOOD}{} is fine{GOOD:#}, with {upstreams}", file.path.display()),
        (errors, warnings) => writeln!(text, "{}, {}", counted(errors, "error"), counted(warnings, "warning")),
    };
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_an_upstream_does_not_have_are_told() {
        let one = |text: &str| vec![text.to_owned()];
        let upstream = UpstreamConfig {
            only: vec!["read*".to_owned(), "write*".to_owned()],
            hide: one("read_all"),
            rename: [("gone".to_owned(), "x".to_owned()), ("read".to_owned(), "y".to_owned())].into(),
            ..UpstreamConfig::default()
        };
        let expected = [("only", "write*"), ("hide", "read_all"), ("rename", "gone")];
        assert_eq!(idle(&upstream, &one("read")), expected);
    }
}
