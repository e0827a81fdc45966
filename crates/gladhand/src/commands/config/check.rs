//! `gladhand config check`.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use anyhow::anyhow;
use gladhand_core::Order as _;
use gladhand_core::Pattern;
use gladhand_redaction::redact;
use serde_json::{Value, json};

use super::{CheckArgs, counted};
use crate::commands::serve::Memory;
use crate::commands::shared::existence_checks;
use crate::commands::shared::references::Sources;
use crate::commands::{CommandError, print_report};
use crate::config::{
    self, Config, Examined, File, Grants, Layers, MOST_SHOWN, Problem, Project, Reading, SetAside, Standing,
    TrustStore, UpstreamConfig,
};
use crate::exit::Exit;
use crate::from_config;
use crate::recorder::Masks;
use crate::terminal::layout;
use crate::terminal::text::plain_lines;

const BAD: Style = AnsiColor::Red.on_default().bold();
const ODD: Style = AnsiColor::Yellow.on_default().bold();
const GOOD: Style = AnsiColor::Green.on_default().bold();

pub(super) fn run(args: &CheckArgs) -> Result<ExitCode, CommandError> {
    let data = config::data_dir(args.data_dir.as_deref());
    let named = args.file.as_ref().or(args.config.as_ref()).map(PathBuf::as_path);
    let layers = Layers::find(named, &TrustStore::in_folder(data.as_deref())).map_err(CommandError::usage)?;
    let own = layers.own.as_ref().map(|file| (file, judge(file, None, data.clone())));
    let project = layers.project.as_ref().map(|Project { file, standing }| {
        let grants = match standing {
            Standing::Trusted(grants) => grants.clone(),
            Standing::Changed { .. } | Standing::Unknown => Grants::default(),
            Standing::Unreadable { why, .. } => return (file, Verdict::unreadable(why)),
        };
        let beside = layers.own.as_ref().and_then(|own| own.examine(Reading::AsWritten).config).unwrap_or_default();
        (file, judge(file, Some((&beside, &grants)), data.clone()))
    });
    let checked: Vec<_> = own.into_iter().chain(project).collect();
    let worst = checked.iter().map(|(_, verdict)| verdict.exit()).max_by_key(|exit| *exit as u8);
    let worst = worst.unwrap_or(Exit::Success);
    if args.json {
        // The nearest file as always, and all of them.
        let nothing = Verdict::default();
        let (file, verdict) = checked.last().map_or((None, &nothing), |(file, verdict)| (Some(*file), verdict));
        let mut report = as_json(file, verdict);
        report["files"] = checked.iter().map(|(file, verdict)| as_json(Some(file), verdict)).collect();
        let count = |what: &str, number: fn(&Verdict) -> usize| {
            counted(checked.iter().map(|(_, verdict)| number(verdict)).sum(), what)
        };
        let errors = count("error", |verdict| verdict.errors.len());
        let warnings = count("warning", |verdict| verdict.unavailable.len() + verdict.warnings.len());
        let bad_news = || CommandError::new(worst, anyhow!("the configuration has {errors} and {warnings}"));
        print_report(report, (worst != Exit::Success).then(bad_news).as_ref())
    } else {
        let drawn = match &checked[..] {
            [] => "There is no configuration file: the defaults hold.\n".to_owned(),
            checked => checked.iter().map(|(file, verdict)| drawn(file, verdict, layout::report_width())).collect(),
        };
        super::print(&drawn)?;
        if let Some(line) = layers.untrusted() {
            super::say(&line);
        }
        Ok(worst.into())
    }
}

/// The result of a check.
#[derive(Debug, Default)]
struct Verdict {
    /// The file is wrong.
    errors: Vec<Problem>,
    /// Upstreams that are not available until a variable or a secret is there. The file is right, and everything else works.
    unavailable: Vec<Problem>,
    /// The file is right, and something is not there.
    warnings: Vec<Problem>,
    upstreams: usize,
}

impl Verdict {
    /// The file cannot be read.
    fn unreadable(why: &str) -> Self {
        let error = Problem { line: 0, column: 0, key: String::new(), message: format!("could not be read: {why}") };
        Self { errors: vec![error], ..Self::default() }
    }

    fn exit(&self) -> Exit {
        if self.errors.is_empty() { Exit::Success } else { Exit::Usage }
    }
}

/// Examines a file. A project file stands beside the user's own configuration, has grants, and may say less than another.
fn judge(file: &File, of_project: Option<(&Config, &Grants)>, data: Option<PathBuf>) -> Verdict {
    let (sources, memory) = (Sources::with_store_in(data.clone()), Memory::in_folder(data));
    let examined = sources.lookup(|lookup| {
        let whole = Reading::Whole(lookup);
        file.examine(of_project.map_or(whole, |(_, grants)| whole.granted(grants)))
    });
    let Examined { config, problems: mut errors, refused, unresolved, places } = examined;
    let (malformed, missing): (Vec<_>, Vec<_>) = unresolved.into_iter().partition(config::is_malformed);
    errors.extend(malformed);
    errors.order_by_key(|problem| (problem.line, problem.column));
    let missing = missing.into_iter().map(|problem| Problem { message: unavailable(&problem), ..problem });
    let warnings = match of_project {
        Some((own, _)) => own.refusals(refused, file).into_iter().map(|SetAside(problem)| problem).collect(),
        None => refused,
    };
    let mut verdict = Verdict { errors, unavailable: missing.collect(), warnings, ..Verdict::default() };
    if let (Some(config), Some((own, _))) = (&config, of_project) {
        verdict.warnings.extend(own.set_aside(config, &places).into_iter().map(|SetAside(problem)| problem));
    }
    // `[authorization]` of a project has no effect, and its files are not read.
    let own = config.as_ref().filter(|_| of_project.is_none());
    for (key, message) in own.into_iter().flat_map(|config| from_config::mistakes(&config.authorization)) {
        let problem = places.problem(&key.split('.').collect::<Vec<_>>(), message);
        verdict.errors.push(problem);
    }
    if let Some(error) = own.and_then(|config| Masks::of(&config.record.mask).err()) {
        verdict.errors.push(places.problem(&["record", "mask"], error.to_string()));
    }
    verdict.errors.order_by_key(|problem| (problem.line, problem.column));
    let left_open = config.iter().filter_map(existence_checks::left_open);
    let keys = own.into_iter().flat_map(existence_checks::missing_keys);
    let recordings = own.and_then(existence_checks::unusable_recordings);
    for missing in
        config.iter().flat_map(existence_checks::missing_elsewhere).chain(left_open).chain(keys).chain(recordings)
    {
        if !missing.is_mistaken(&verdict.errors) {
            let path: Vec<_> = missing.key.split('.').collect();
            verdict.warnings.push(places.problem(&path, format!("{}: {}", missing.message, missing.advice)));
        }
    }
    for (name, message) in config.iter().flat_map(|config| config.upstreams.clashes()) {
        verdict.warnings.push(places.problem(&["upstreams", &name], message));
    }
    let written: HashMap<_, _> = file.all_written().into_iter().collect();
    let nothing = UpstreamConfig::default();
    for (name, upstream) in config.iter().flat_map(|config| &config.upstreams.0).filter(|(_, one)| one.enabled) {
        verdict.upstreams += 1;
        // An upstream with a mistake gets no further messages.
        let told = verdict.errors.iter().chain(&verdict.unavailable);
        if told.into_iter().any(|error| error.is_of(&["upstreams", name])) {
            continue;
        }
        for missing in existence_checks::missing(upstream, written.get(name).unwrap_or(&nothing)) {
            let message = format!("{}: {}", missing.message, missing.advice);
            verdict.warnings.push(places.problem(&["upstreams", name, &missing.key], message));
        }
        let known = from_config::target(upstream).and_then(|target| memory.names(name, &target));
        for (key, wanted) in known.iter().flat_map(|known| idle(upstream, known)) {
            let message = format!("`{wanted}` is nothing that it had when it was last asked");
            verdict.warnings.push(places.problem(&["upstreams", name, key], message));
        }
    }
    for problem in verdict.errors.iter_mut().chain(&mut verdict.unavailable).chain(&mut verdict.warnings) {
        problem.message = redact(&problem.message).into_owned();
    }
    verdict
}

/// A reference that stands for nothing, as a warning about its upstream.
fn unavailable(problem: &Problem) -> String {
    let upstream = problem.key.split('.').nth(1).unwrap_or_default();
    format!("upstream {upstream} is not available until this is there: {}", problem.message)
}

/// The keys and patterns that match no name of an upstream.
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
    let severities = [("error", &verdict.errors), ("warning", &verdict.unavailable), ("warning", &verdict.warnings)];
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

fn drawn(file: &File, verdict: &Verdict, width: Option<usize>) -> String {
    let mut text = String::new();
    let Verdict { errors, unavailable, warnings, .. } = verdict;
    for (style, word, problems) in [(BAD, "error", errors), (ODD, "warning", unavailable), (ODD, "warning", warnings)] {
        for problem in problems.iter().take(MOST_SHOWN) {
            let Problem { line, column, .. } = problem;
            let place = match line {
                0 => file.path.display().to_string(),
                _ => format!("{}:{line}:{column}", file.path.display()),
            };
            let told = format!("{place}: {word}: {}", plain_lines(&problem.without_place()));
            let styled = format!(": {style}{word}:{style:#}");
            text.push_str(&layout::message(&told, width).replacen(&format!(": {word}:"), &styled, 1));
        }
        if let Some(more) = config::more(problems.len()) {
            let _ = writeln!(text, "{more}");
        }
    }
    let upstreams = counted(verdict.upstreams, "upstream");
    let _ = match (errors.len(), unavailable.len() + warnings.len()) {
        (0, 0) => writeln!(text, "{GOOD}{} is fine{GOOD:#}, with {upstreams}", file.path.display()),
        (errors, warnings) => writeln!(text, "{}, {}", counted(errors, "error"), counted(warnings, "warning")),
    };
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_tool_names_in_filters_are_reported() {
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
