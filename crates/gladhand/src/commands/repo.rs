//! `gladhand repo`: the repository tools from the command line, as tables for people and as JSON for programs.

use std::fmt::Write as _;
use std::io::{IsTerminal, Read as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::anyhow;
use clap::{Args, Subcommand, ValueHint};
use gladhand_repository::{Progress, Stage};
use gladhand_wire::{RawValue, json};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Value, json};

use crate::commands::plain::plain;
use crate::commands::settings::{self, Part, Settings};
use crate::commands::{CommandError, print_data, print_json, screen};
use crate::config;
use crate::exit::Exit;
use crate::providers::RepositoryTools;

/// Options of `repo`.
#[derive(Debug, Args)]
pub struct RepoArgs {
    /// What to look at.
    #[command(subcommand)]
    pub what: What,
}

/// What can be asked about a repository.
#[derive(Debug, Subcommand)]
pub enum What {
    /// What a repository is made of: languages, package managers, entry points, members, risks.
    Analyze(Place),
    /// Which frameworks it uses, with the evidence.
    Frameworks(Place),
    /// Answer a question from documentation.
    Faq {
        /// The question.
        question: String,
        /// The folder of documentation; without it, the configured one, or our own.
        #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
        docs: Option<PathBuf>,
        /// Print the answer as JSON.
        #[arg(long)]
        json: bool,
    },
    /// The edits that integrate something into it, as a patch. Changes nothing.
    Plan {
        /// Where.
        #[command(flatten)]
        place: Place,
        /// What to integrate: fluxloop, mcp-server, gladhand, or a recipe of one's own.
        #[arg(long, default_value = "fluxloop")]
        target: String,
        /// The framework; found out if it is not said.
        #[arg(long)]
        framework: Option<String>,
    },
    /// Whether a plan (as `plan --json` prints it) can be applied as it is.
    Validate {
        /// Where.
        #[command(flatten)]
        place: Place,
        /// The file with the plan; `-` is stdin.
        #[arg(long, value_name = "FILE", default_value = "-")]
        plan: PathBuf,
    },
}

/// A repository, and how to print what is found.
#[derive(Debug, Args)]
pub struct Place {
    /// The folder of the repository.
    #[arg(default_value = ".", value_hint = ValueHint::DirPath)]
    pub path: PathBuf,
    /// Print the answer as JSON.
    #[arg(long)]
    pub json: bool,
}

/// Looks, and prints what was found.
pub fn run(args: &RepoArgs) -> Result<ExitCode, CommandError> {
    let data = config::data_dir(None).ok_or_else(|| CommandError::usage(anyhow!("there is no data folder")))?;
    let Settings { config, .. } =
        settings::load(None, Some(&data), Part::WithoutUpstreams).map_err(CommandError::usage)?;
    let tools = RepositoryTools::new(&config.repository, data, false);
    let ask = |name: &str, arguments: &Value| -> Result<Value, CommandError> {
        let bar = Bar::new();
        let answer = tools.run(name, &json::to_raw(arguments), &bar);
        bar.0.finish_and_clear();
        let answer =
            answer.map_err(|failure| CommandError::new(Exit::CallFailed, anyhow!("{}", plain(&failure.message))))?;
        Ok(read(&answer))
    };
    let root = |place: &Place| place.path.to_string_lossy().into_owned();
    match &args.what {
        What::Analyze(place) => {
            let profile = ask("analyze_repository", &json!({ "root": root(place) }))?;
            print(&profile, place.json, profile_text)
        }
        What::Frameworks(place) => {
            let found = ask("detect_frameworks", &json!({ "root": root(place) }))?;
            print(&found, place.json, frameworks_text)
        }
        What::Faq { question, docs, json } => {
            let answer = ask("faq", &json!({ "query": question, "docs": docs }))?;
            print(&answer, *json, answer_text)
        }
        What::Plan { place, target, framework } => {
            let framework = match framework {
                Some(framework) => framework.clone(),
                None => surest(&ask("detect_frameworks", &json!({ "root": root(place), "target": target }))?)?,
            };
            let input = json!({ "root": root(place), "target": target, "framework": framework });
            let plan = ask("propose_edit_plan", &input)?;
            print(&plan, place.json, plan_text)?;
            Ok(if is_empty(&plan) { Exit::Failure } else { Exit::Success }.into())
        }
        What::Validate { place, plan } => {
            let plan: Value = serde_json::from_str(&text_of(plan)?)
                .map_err(|error| CommandError::usage(anyhow!("the plan is no JSON: {error}")))?;
            let verdict = ask("validate_edit_plan", &json!({ "root": root(place), "plan": plan }))?;
            print(&verdict, place.json, verdict_text)?;
            Ok(if verdict["valid"] == true { Exit::Success } else { Exit::Failure }.into())
        }
    }
}

fn read(answer: &RawValue) -> Value {
    serde_json::from_str(answer.get()).unwrap_or_default()
}

fn text_of(file: &Path) -> Result<String, CommandError> {
    if file.as_os_str() == "-" {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map_err(CommandError::usage)?;
        return Ok(text);
    }
    fs_err::read_to_string(file).map_err(CommandError::usage)
}

/// The surest framework for which the target has a recipe; where it has none, the surest, of which it can be told why.
fn surest(found: &Value) -> Result<String, CommandError> {
    let recommended = found["recommended_patterns"][0]["framework"].as_str();
    let name = recommended.or_else(|| found["frameworks"][0]["name"].as_str()).map(str::to_owned);
    name.ok_or_else(|| CommandError::usage(anyhow!("no framework was found")).hint("name one with --framework"))
}

fn print(answer: &Value, as_json: bool, text: fn(&Value) -> String) -> Result<ExitCode, CommandError> {
    match as_json {
        true => print_json(&format!("{answer:#}"))?,
        false => print_data(&text(answer))?,
    }
    Ok(Exit::Success.into())
}

fn words(value: &Value) -> String {
    let words = value.as_array().into_iter().flatten().filter_map(Value::as_str).map(plain);
    words.collect::<Vec<_>>().join(", ")
}

/// Rows of a name and what belongs to it; those without anything are left out.
fn rows(rows: &[(&str, String)]) -> String {
    let mut text = String::new();
    for (name, value) in rows.iter().filter(|(_, value)| !value.is_empty()) {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{name:<17} {value}");
    }
    text
}

fn add_warnings(text: &mut String, answer: &Value) {
    for warning in answer["warnings"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        screen::write_line(text, 0, &format!("warning: {}", plain(warning)), screen::width());
    }
}

fn profile_text(profile: &Value) -> String {
    let stats = &profile["stats"];
    let mut text = rows(&[
        ("root", plain(profile["root"].as_str().unwrap_or_default())),
        ("languages", words(&profile["languages"])),
        ("package managers", words(&profile["packageManagers"])),
        ("entry points", words(&profile["entryPoints"])),
        ("candidates", words(&profile["frameworkCandidates"])),
        ("code", format!("{} files, {} lines", stats["files"], stats["loc"])),
    ]);
    for member in profile["members"].as_array().into_iter().flatten() {
        let path = plain(member["path"].as_str().unwrap_or_default());
        let _ = writeln!(text, "member            {path}  ({})", words(&member["languages"]));
    }
    for risk in profile["risks"].as_array().into_iter().flatten() {
        let message = plain(risk["message"].as_str().unwrap_or_default());
        screen::write_line(&mut text, 0, &format!("risk              {message}"), screen::width());
    }
    add_warnings(&mut text, profile);
    text
}

fn frameworks_text(found: &Value) -> String {
    let mut text = String::new();
    let frameworks = found["frameworks"].as_array().map(Vec::as_slice).unwrap_or_default();
    for framework in frameworks {
        let said = |name: &str| plain(framework[name].as_str().unwrap_or_default());
        let confidence = framework["confidence"].as_f64().unwrap_or_default() * 100.0;
        let version = framework["version_detected"].as_str().map(|version| format!(" {}", plain(version)));
        let _ = writeln!(text, "{}{}  {confidence:.0} %", said("title"), version.unwrap_or_default());
        // One line of a file may be evidence of several kinds.
        let mut lines: Vec<String> = Vec::new();
        for evidence in framework["evidence"].as_array().into_iter().flatten() {
            let shown = |name: &str| plain(evidence[name].as_str().unwrap_or_default());
            let number = evidence["line"].as_u64().map(|line| format!(":{line}")).unwrap_or_default();
            let line = format!("  {}{number}  {}\n", shown("file"), shown("text").trim());
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
        text.extend(lines);
    }
    if frameworks.is_empty() {
        text.push_str("no framework was found\n");
    }
    add_warnings(&mut text, found);
    text
}

fn answer_text(answer: &Value) -> String {
    let mut text = String::new();
    for line in answer["answer"].as_str().unwrap_or_default().lines() {
        screen::write_line(&mut text, 0, &plain(line), screen::width());
    }
    for citation in answer["citations"].as_array().into_iter().flatten() {
        let said = |name: &str| plain(citation[name].as_str().unwrap_or_default());
        let _ = writeln!(text, "  {}:{}  {}", said("path"), citation["line"], said("section"));
    }
    add_warnings(&mut text, answer);
    text
}

/// Whether there is nothing to apply.
fn is_empty(plan: &Value) -> bool {
    plan["edits"].as_array().is_none_or(Vec::is_empty)
}

fn plan_text(plan: &Value) -> String {
    let summary = if is_empty(plan) { "nothing to apply" } else { plan["summary"].as_str().unwrap_or_default() };
    let mut text = format!("{}\n", plain(summary));
    for patch in plan["patches"].as_array().into_iter().flatten() {
        for line in patch["diff"].as_str().unwrap_or_default().lines() {
            let _ = writeln!(text, "{}", plain(line));
        }
    }
    for check in plan["postChecks"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        let _ = writeln!(text, "afterwards: {}", plain(check));
    }
    add_warnings(&mut text, plan);
    text
}

fn verdict_text(verdict: &Value) -> String {
    let mut text = String::from(if verdict["valid"] == true { "valid\n" } else { "not valid\n" });
    for problem in verdict["problems"].as_array().into_iter().flatten() {
        let said = |name: &str| plain(problem[name].as_str().unwrap_or_default());
        let line = problem["line"].as_u64().map(|line| format!(":{line}")).unwrap_or_default();
        let _ = writeln!(text, "  {}{line}: {}: {}", said("file"), said("severity"), said("message"));
    }
    text
}

/// How far a scan is, on a terminal.
#[derive(Debug)]
struct Bar(ProgressBar);

impl Bar {
    fn new() -> Self {
        let target = match std::io::stderr().is_terminal() {
            true => ProgressDrawTarget::stderr(),
            false => ProgressDrawTarget::hidden(),
        };
        let style = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len}")
            .unwrap_or_else(|_| ProgressStyle::default_bar());
        Self(ProgressBar::with_draw_target(None, target).with_style(style))
    }
}

impl Progress for Bar {
    fn report(&self, stage: Stage, done: usize, total: Option<usize>) {
        self.0.set_message(stage.name());
        if let Some(total) = total {
            self.0.set_length(total as u64);
        }
        self.0.set_position(done as u64);
    }
}
