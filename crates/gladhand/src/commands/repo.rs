//! `gladhand repo`: the repository tools from the command line, as tables for people and as JSON for programs.

use std::fmt::Write as _;
use std::io::{IsTerminal, Read as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::anyhow;
use clap::{Args, Subcommand, ValueHint};
use gladhand_core::operations::{Failure, FailureKind};
use gladhand_core::wire::{RawValue, json};
use gladhand_repository::{Progress, Stage};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Value, json};

use crate::commands::shared::settings::{self, Part, Settings};
use crate::commands::{CommandError, print_data, print_report};
use crate::config;
use crate::exit::Exit;
use crate::logging;
use crate::providers::RepositoryTools;
use crate::terminal::layout;
use crate::terminal::text::plain;

const REPO_HELP: &str = "\
The repository is not changed. Clients can call the same tools.

Examples:
  gladhand repo analyze ~/project
  gladhand repo frameworks ~/project
  gladhand repo faq 'How are secrets kept?'
  gladhand repo plan ~/project --json > plan.json
  gladhand repo validate ~/project --plan plan.json";

const ANALYZE_HELP: &str = "\
Examples:
  gladhand repo analyze
  gladhand repo analyze ~/project --json";

const FRAMEWORKS_HELP: &str = "\
Examples:
  gladhand repo frameworks
  gladhand repo frameworks ~/project --json";

const FAQ_HELP: &str = "\
Examples:
  gladhand repo faq 'How are secrets kept?'
  gladhand repo faq 'How is it installed?' --docs ~/project/docs --json";

const PLAN_HELP: &str = "\
Exit code 1: the plan has no edits.

Examples:
  gladhand repo plan
  gladhand repo plan ~/project --target mcp-server --framework fastapi
  gladhand repo plan ~/project --json > plan.json";

const VALIDATE_HELP: &str = "\
Exit code 1: the plan cannot be applied.

Examples:
  gladhand repo validate ~/project --plan plan.json
  gladhand repo plan ~/project --json | gladhand repo validate ~/project --json";

/// Options of `repo`.
#[derive(Debug, Args)]
#[command(after_help = REPO_HELP)]
pub struct RepoArgs {
    /// What to look at.
    #[command(subcommand)]
    pub command: RepoCommand,
}

/// What can be asked about a repository.
#[derive(Debug, Subcommand)]
pub enum RepoCommand {
    /// Show languages, package managers, entry points, members and risks.
    #[command(after_help = ANALYZE_HELP)]
    Analyze(RepositoryArgs),
    /// Show the frameworks that the repository uses, with evidence.
    #[command(after_help = FRAMEWORKS_HELP)]
    Frameworks(RepositoryArgs),
    /// Answer a question from documentation, by default that of Gladhand.
    #[command(after_help = FAQ_HELP)]
    Faq {
        /// Question to answer.
        question: String,
        /// Folder of documentation [default: the configured one, or the documentation of Gladhand].
        #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
        docs: Option<PathBuf>,
        /// Print the answer as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print a patch that integrates an MCP server, Gladhand or Fluxloop.
    #[command(after_help = PLAN_HELP)]
    Plan {
        /// Where.
        #[command(flatten)]
        place: RepositoryArgs,
        /// Integration: mcp-server, gladhand, fluxloop, or the name of your own recipe [default: `gladhand` for an MCP
        /// server, `mcp-server` for any other application].
        #[arg(long)]
        target: Option<String>,
        /// Framework of the repository [default: detected].
        #[arg(long)]
        framework: Option<String>,
    },
    /// Check whether a plan from `plan --json` can be applied.
    #[command(after_help = VALIDATE_HELP)]
    Validate {
        /// Where.
        #[command(flatten)]
        place: RepositoryArgs,
        /// File with the plan; `-` reads standard input.
        #[arg(long, value_name = "FILE", default_value = "-")]
        plan: PathBuf,
    },
}

/// A repository, and how to print what is found.
#[derive(Debug, Args)]
pub struct RepositoryArgs {
    /// Folder of the repository.
    #[arg(default_value = ".", value_hint = ValueHint::DirPath)]
    pub path: PathBuf,
    /// Print the answer as JSON.
    #[arg(long)]
    pub json: bool,
}

/// Looks, and prints what was found.
pub fn run(args: &RepoArgs) -> Result<ExitCode, CommandError> {
    let data = config::data_dir(None).ok_or_else(|| CommandError::usage(anyhow!("there is no data folder")))?;
    let Settings { config, layers } =
        settings::load(None, Some(&data), Part::WithoutUpstreams, settings::note).map_err(CommandError::usage)?;
    let tools = RepositoryTools::new(&config.repository, config::OwnFiles::of(&data, &config, &layers), false);
    let ask = |name: &str, arguments: &Value| -> Result<Value, CommandError> {
        let bar = Bar::new();
        let answer = tools.run(name, &json::to_raw(arguments), &bar);
        bar.0.finish_and_clear();
        answer.map(|answer| read(&answer)).map_err(failed)
    };
    let root = |place: &RepositoryArgs| -> Result<String, CommandError> {
        Ok(existing(&place.path)?.to_string_lossy().into_owned())
    };
    match &args.command {
        RepoCommand::Analyze(place) => {
            let profile = ask("analyze_repository", &json!({ "root": root(place)? }))?;
            print(profile, place.json, profile_text, None)
        }
        RepoCommand::Frameworks(place) => {
            let found = ask("detect_frameworks", &json!({ "root": root(place)? }))?;
            print(found, place.json, frameworks_text, None)
        }
        RepoCommand::Faq { question, docs, json } => {
            let docs = docs.as_deref().map(existing).transpose()?;
            let answer = ask("faq", &json!({ "query": question, "docs": docs }))?;
            print(answer, *json, answer_text, None)
        }
        RepoCommand::Plan { place, target, framework } => {
            let target = match target {
                Some(target) => target.as_str(),
                None => {
                    usual_target(&ask("detect_frameworks", &json!({ "root": root(place)? }))?, framework.as_deref())
                }
            };
            let framework = match framework {
                Some(framework) => framework.clone(),
                None => surest(&ask("detect_frameworks", &json!({ "root": root(place)?, "target": target }))?)?,
            };
            let input = json!({ "root": root(place)?, "target": target, "framework": framework });
            let plan = ask("propose_edit_plan", &input)?;
            let nothing = || CommandError::from(anyhow!("the plan has nothing to apply"));
            let bad_news = is_empty(&plan).then(nothing);
            print(plan, place.json, plan_text, bad_news)
        }
        RepoCommand::Validate { place, plan } => {
            let plan: Value = serde_json::from_str(&text_of(plan)?)
                .map_err(|error| CommandError::usage(anyhow!("the plan is no JSON: {error}")))?;
            let verdict = ask("validate_edit_plan", &json!({ "root": root(place)?, "plan": plan }))?;
            let invalid = || CommandError::from(anyhow!("the plan cannot be applied as it is"));
            let bad_news = (verdict["valid"] != true).then(invalid);
            print(verdict, place.json, verdict_text, bad_news)
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

/// The target for who names none: what a project with these frameworks gains most from.
fn usual_target(found: &Value, framework: Option<&str>) -> &'static str {
    let is_server = |one: &Value| one["kind"] == "mcp" && framework.is_none_or(|name| one["name"] == name);
    let has_server = found["frameworks"].as_array().into_iter().flatten().any(is_server);
    if has_server { "gladhand" } else { "mcp-server" }
}

/// The surest framework for which the target has a recipe; where it has none, the surest, of which it can be told why.
fn surest(found: &Value) -> Result<String, CommandError> {
    let recommended = found["recommended_patterns"][0]["framework"].as_str();
    let name = recommended.or_else(|| found["frameworks"][0]["name"].as_str()).map(str::to_owned);
    name.ok_or_else(|| CommandError::usage(anyhow!("no framework was found")).hint("name one with --framework"))
}

/// A file or folder that the command line names.
fn existing(path: &Path) -> Result<&Path, CommandError> {
    let missing = || CommandError::usage(anyhow!("{} does not exist", plain(&path.display().to_string())));
    path.exists().then_some(path).ok_or_else(missing)
}

/// A tool's failure. One with details is about an argument, which here is a word of the command line.
fn failed(failure: Failure) -> CommandError {
    let is_usage = failure.kind == FailureKind::InvalidArguments || failure.data.is_some();
    let exit = if is_usage { Exit::Usage } else { Exit::CallFailed };
    let error = CommandError::new(exit, anyhow!("{}", plain(&failure.message)));
    let details = failure.data.as_deref().map(read).unwrap_or_default();
    let lists = [("targets", &details["valid_targets"]), ("frameworks", &details["valid_frameworks"])];
    match lists.into_iter().find(|(_, list)| list.is_array()) {
        Some((what, list)) => error.hint(format!("there are these {what}: {}", words(list))),
        None => error,
    }
}

/// Prints an answer, and ends as its bad news says.
fn print(
    answer: Value,
    as_json: bool,
    text: fn(&Value) -> String,
    bad_news: Option<CommandError>,
) -> Result<ExitCode, CommandError> {
    if as_json {
        return print_report(answer, bad_news.as_ref());
    }
    print_data(&text(&answer))?;
    Ok(bad_news.map_or(Exit::Success, |error| error.exit).into())
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
        layout::write_line(text, 0, &format!("warning: {}", plain(warning)), layout::width());
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
        layout::write_line(&mut text, 0, &format!("risk              {message}"), layout::width());
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
    // The report itself warns of that.
    if frameworks.is_empty() && found["warnings"].as_array().is_none_or(Vec::is_empty) {
        text.push_str("no framework was found\n");
    }
    add_warnings(&mut text, found);
    text
}

fn answer_text(answer: &Value) -> String {
    let mut text = String::new();
    let (found, width) = (answer["answer"].as_str().unwrap_or_default(), layout::width());
    let lines = if width.is_some() { unwrapped(found) } else { found.lines().map(str::to_owned).collect() };
    for line in lines {
        layout::write_line(&mut text, 0, &plain(&line), width);
    }
    for citation in answer["citations"].as_array().into_iter().flatten() {
        let said = |name: &str| plain(citation[name].as_str().unwrap_or_default());
        let _ = writeln!(text, "  {}:{}  {}", said("path"), citation["line"], said("section"));
    }
    add_warnings(&mut text, answer);
    text
}

/// The lines of a Markdown text, with the lines of each paragraph and list item joined, so that they can be broken anew.
fn unwrapped(text: &str) -> Vec<String> {
    let (mut lines, mut is_code, mut can_continue) = (Vec::<String>::new(), false, false);
    for line in text.lines() {
        let words = line.trim();
        let is_fence = words.starts_with("```") || words.starts_with("~~~");
        is_code ^= is_fence;
        let is_numbered = words.split_once(['.', ')']).is_some_and(|(number, rest)| {
            !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) && rest.starts_with(' ')
        });
        let is_item = is_numbered || ["- ", "* ", "+ "].iter().any(|mark| words.starts_with(mark));
        let is_alone = is_code || is_fence || words.is_empty() || words.starts_with(['#', '|', '>']);
        match lines.last_mut() {
            Some(last) if can_continue && !is_item && !is_alone => {
                last.push(' ');
                last.push_str(words);
            }
            _ => lines.push(line.to_owned()),
        }
        can_continue = !is_alone;
    }
    lines
}

/// Whether there is nothing to apply.
fn is_empty(plan: &Value) -> bool {
    plan["edits"].as_array().is_none_or(Vec::is_empty)
}

fn plan_text(plan: &Value) -> String {
    let summary = if is_empty(plan) { "nothing to apply" } else { plan["summary"].as_str().unwrap_or_default() };
    let mut text = format!("{}\n", plain(summary));
    let said = |name: &str| plain(plan[name].as_str().unwrap_or_default());
    let _ = writeln!(text, "target: {}, framework: {}", said("target"), said("framework"));
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
        let target = match std::io::stderr().is_terminal() && !logging::is_json() {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrapped_prose_is_joined_and_everything_else_keeps_its_lines() {
        let text = "# Title\nOne\ntwo.\n\n- a\n  b\n- c\n1. d\ne\n| x |\n| y |\n```\nf\ng\n```\nh\ni";
        let expected =
            ["# Title", "One two.", "", "- a b", "- c", "1. d e", "| x |", "| y |", "```", "f", "g", "```", "h i"];
        assert_eq!(unwrapped(text), expected);
    }
}
