//! `cargo xtask prose`: counts sentences that make a reader stop, in comments, messages, docs and help texts.
//!
//! [`text`] takes the prose out of a file, [`rules`] counts its faults, [`test_names`] finds vague names of tests. The
//! counts are per 10,000 words, so that trees of different sizes compare. A low count does not make a sentence clear; a
//! high count shows where to look first.

mod rules;
mod test_names;
mod text;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::shell;
use rules::{Counts, Rule};

/// The highest score of all comments, messages and docs together.
const MAX_TREE: f64 = 15.0;
/// The highest score of README.md and docs/.
const MAX_DOCS: f64 = 4.0;
/// The highest score of the help texts of all commands.
const MAX_HELP: f64 = 12.0;

/// How many places `--top` shows if it names no number.
const DEFAULT_TOP: usize = 40;

/// The files to measure, and how to show the result.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    /// Measure the help texts of the program instead of files.
    is_cli: bool,
    /// Exit with 1 if a score is above its limit.
    is_strict: bool,
    /// How many of the worst places to show.
    top: usize,
    /// Files and folders to measure; all tracked files if empty.
    paths: Vec<PathBuf>,
}

impl Options {
    /// Reads the words after `prose`, or returns the word that is not understood.
    pub(crate) fn read(words: &[&str]) -> Result<Self, String> {
        let mut options = Self::default();
        let mut words = words.iter().peekable();
        while let Some(word) = words.next() {
            match *word {
                "--cli" => options.is_cli = true,
                "--strict" => options.is_strict = true,
                "--top" => {
                    let number = words.next_if(|number| number.parse::<usize>().is_ok());
                    options.top = number.and_then(|number| number.parse().ok()).unwrap_or(DEFAULT_TOP);
                }
                unknown if unknown.starts_with('-') => return Err(unknown.to_owned()),
                path => options.paths.push(path.into()),
            }
        }
        Ok(options)
    }
}

/// One piece of prose that broke a rule.
struct Finding {
    place: String,
    counts: Counts,
    text: String,
}

/// The counts of several pieces of prose.
#[derive(Default)]
struct Report {
    words: usize,
    counts: Counts,
    findings: Vec<Finding>,
}

impl Report {
    fn add(&mut self, place: String, prose: &str) {
        let prose = rules::flat(prose);
        let counts = Counts::of(&prose);
        self.words += prose.split(' ').count();
        self.counts += &counts;
        if counts.total() > 0 {
            self.findings.push(Finding { place, counts, text: prose });
        }
    }

    fn score(&self) -> f64 {
        per_ten_thousand(self.counts.total(), self.words)
    }

    /// Shows the worst places and the score; returns whether it is within the limit.
    fn show(&mut self, name: &str, max: f64, top: usize) -> bool {
        self.findings.sort_by_key(|finding| std::cmp::Reverse(finding.counts.total()));
        for Finding { place, counts, text } in self.findings.iter().take(top) {
            let shown: String = text.chars().take(200).collect();
            println!("{place}  [{}]  {shown}", counts.total());
        }
        let parts = Rule::ALL
            .map(|rule| format!("{} {:.1}", rule.name(), per_ten_thousand(self.counts.of_rule(rule), self.words)));
        let score = self.score();
        println!("{name}: {score:.1} of at most {max} in {} words ({})", self.words, parts.join(", "));
        score <= max
    }
}

fn per_ten_thousand(count: usize, words: usize) -> f64 {
    count as f64 * 10_000.0 / words.max(1) as f64
}

/// Measures, and prints the scores.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let is_within = if options.is_cli {
        help_texts()?.show("help texts", MAX_HELP, options.top)
    } else {
        let (mut tree, mut docs) = reports(&options.paths)?;
        let docs_are_within = docs.words == 0 || docs.show("README.md and docs", MAX_DOCS, 0);
        let tree_is_within = tree.show("everything", MAX_TREE, options.top);
        show_test_names(&options.paths, options.top)? && tree_is_within && docs_are_within
    };
    Ok(if is_within || !options.is_strict { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Shows vague names of tests and their number; returns whether there are none.
fn show_test_names(paths: &[PathBuf], top: usize) -> Result<bool> {
    let mut count = 0;
    for path in files(paths)?.iter().filter(|path| path.extension().is_some_and(|extension| extension == "rs")) {
        let text = read(path)?;
        for (line, name) in test_names::vague_names(&text) {
            count += 1;
            if count <= top {
                println!("{}:{line}  {name}", path.display());
            }
        }
    }
    println!("test names with a vague word: {count} of at most 0");
    Ok(count == 0)
}

/// The score of all comments, messages and docs together.
pub(crate) fn tree_score() -> Result<f64> {
    Ok(reports(&[])?.0.score())
}

/// The counts of all files below the paths, and of those among them that are pages of the documentation.
fn reports(paths: &[PathBuf]) -> Result<(Report, Report)> {
    let (mut tree, mut docs) = (Report::default(), Report::default());
    for path in files(paths)? {
        let text = read(&path)?;
        let is_page = path.starts_with("docs") || path == Path::new("README.md");
        for (line, prose) in text::prose_of(&path, &text) {
            let place = format!("{}:{line}", path.display());
            if is_page {
                docs.add(place.clone(), &prose);
            }
            tree.add(place, &prose);
        }
    }
    Ok((tree, docs))
}

fn read(path: &Path) -> Result<String> {
    let text = std::fs::read_to_string(shell::root().join(path));
    text.with_context(|| format!("could not read {}", path.display()))
}

/// The tracked Rust and Markdown files, or those of them below the paths. Texts of other projects are left out.
fn files(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let root = shell::root();
    let listed = shell::output_of("git", &["-C", &root.to_string_lossy(), "ls-files", "*.rs", "*.md"]);
    let listed = listed.context("`git ls-files` failed: is this a clone?")?;
    let is_ours = |path: &PathBuf| !path.components().any(|part| part.as_os_str() == "fixtures");
    let is_wanted = |path: &PathBuf| paths.is_empty() || paths.iter().any(|wanted| path.starts_with(wanted));
    Ok(listed.lines().map(PathBuf::from).filter(|path| is_ours(path) && is_wanted(path)).collect())
}

/// The help text of every command, found by asking each command for its own commands.
fn help_texts() -> Result<Report> {
    shell::run(&mut shell::cargo(&["build", "--quiet", "--package", "gladhand", "--bin", "gladhand"]), "")?;
    let program = shell::target().join("debug/gladhand").to_string_lossy().into_owned();
    let (mut report, mut open) = (Report::default(), vec![Vec::<String>::new()]);
    let mut seen = BTreeMap::new();
    while let Some(command) = open.pop() {
        let mut words: Vec<&str> = command.iter().map(String::as_str).collect();
        words.push("--help");
        let help = shell::output_of(&program, &words);
        let help = help.with_context(|| format!("`gladhand {}` failed", words.join(" ")))?;
        for name in text::commands_of(&help) {
            let below: Vec<String> = command.iter().cloned().chain([name.to_owned()]).collect();
            if seen.insert(below.clone(), ()).is_none() {
                open.push(below);
            }
        }
        for piece in text::pieces_of_help(&help) {
            report.add(format!("gladhand {}", words.join(" ")), &piece);
        }
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read() {
        let read = |words: &[&str]| Options::read(words);
        assert_eq!(read(&[]), Ok(Options::default()));
        let expected = Options { is_strict: true, top: 7, paths: vec!["docs".into()], ..Options::default() };
        assert_eq!(read(&["--top", "7", "--strict", "docs"]), Ok(expected));
        assert_eq!(read(&["--top"]).map(|options| options.top), Ok(DEFAULT_TOP));
        assert_eq!(read(&["--loud"]), Err("--loud".to_owned()));
    }
}
