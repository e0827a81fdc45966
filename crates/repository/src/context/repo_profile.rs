//! `collect_repo_profile`: frameworks, uses of the SDK and configured runners in one answer.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::frameworks::{self, Detection};
use crate::language::Language;
use crate::profile::Profile;
use crate::root::Root;
use crate::survey::Survey;
use crate::{RepositoryError, Setting, Stage, text};

/// Maximum number of Python files that are searched for uses of the SDK.
const MOST_FILES: usize = 2000;
/// Maximum number of characters that are searched in each file.
const MOST_LETTERS: usize = 200_000;

/// The input of `collect_repo_profile`.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct CollectInput {
    /// The folder of the repository.
    #[serde(default)]
    pub root: Option<String>,
    /// An earlier result of `analyze_repository`. Accepted for older callers and ignored: the files are always read again.
    #[serde(default)]
    pub profile_cache: Option<Value>,
    /// An earlier result of `detect_frameworks`. Accepted for older callers and ignored: the files are always read again.
    #[serde(default)]
    pub detection_cache: Option<Value>,
}

/// The frameworks, the uses of the SDK and the runners of a repository.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct RepoProfile {
    /// The time of the answer, in UTC.
    #[serde(rename = "generatedAt")]
    pub generated_at: String,
    /// The folder, absolute.
    #[serde(rename = "workspaceRoot")]
    pub workspace_root: String,
    /// Frameworks, the most likely first.
    pub framework_signals: Vec<FrameworkSignal>,
    /// Python files that use the SDK, by path.
    pub agent_signals: Vec<AgentSignal>,
    /// Runners that are configured.
    pub runner_configs: Vec<RunnerConfig>,
    /// Files that could not be read.
    pub errors: Vec<ScanError>,
}

/// A framework.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct FrameworkSignal {
    /// Its name.
    pub name: String,
    /// From 0 to 0.99.
    pub confidence: f64,
    /// All entry points.
    pub entrypoints: Vec<String>,
    /// The reason.
    pub rationale: Vec<String>,
    /// `anchor:FILE:TEXT` for each place where code could go.
    pub hints: Vec<String>,
    /// `confirmed`, `likely` or `ambiguous`.
    pub status: &'static str,
}

/// A Python file that uses the SDK.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct AgentSignal {
    /// The file.
    pub module: String,
    /// The kind of agent, guessed from the path.
    pub agent_type: &'static str,
    /// The first class with bases, or else the first function.
    pub class_or_function: Option<String>,
    /// The package that it uses.
    pub framework_dep: &'static str,
    /// The lines that use it.
    pub evidence: Vec<AgentEvidence>,
    /// The confidence, from 0 to 1.
    pub confidence: f64,
    /// The line.
    pub notes: String,
}

/// Where a file uses the SDK.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct AgentEvidence {
    /// The text that was searched for.
    pub pattern: &'static str,
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
}

/// A configured runner.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct RunnerConfig {
    /// The kind of file that configures it.
    pub source: &'static str,
    /// The file and the key in it.
    pub path: String,
    /// The kind of runner.
    pub runner_type: String,
    /// The module or command that it runs.
    pub target: String,
    /// Its parameters.
    pub parameters: Value,
    /// Frameworks that it names.
    pub linked_frameworks: Value,
    /// The confidence, from 0 to 1.
    pub confidence: f64,
}

/// A file that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ScanError {
    /// `agent_scan` or `runner_scan`.
    pub stage: &'static str,
    /// The file.
    pub file: String,
    /// The reason why it could not be read.
    pub message: String,
}

/// Collects frameworks, uses of the SDK and configured runners.
pub fn collect_repo_profile(input: &CollectInput, setting: &Setting<'_>) -> Result<RepoProfile, RepositoryError> {
    let survey = Survey::take(Root::existing(setting.places, input.root.as_deref())?, setting)?;
    let detection = Detection::of(&survey, frameworks::default_target(setting.recipes)?);
    setting.progress.report(Stage::Collect, 1, Some(1));
    Ok(RepoProfile::of(&survey, &Profile::of(&survey), &detection, setting.now))
}

impl RepoProfile {
    pub(crate) fn of(survey: &Survey, profile: &Profile, detection: &Detection, now: &str) -> Self {
        let mut errors = Vec::new();
        Self {
            generated_at: now.to_owned(),
            workspace_root: profile.root.clone(),
            framework_signals: framework_signals(profile, detection),
            agent_signals: agent_signals(survey, &mut errors),
            runner_configs: runner_configs(survey, &mut errors),
            errors,
        }
    }
}

fn framework_signals(profile: &Profile, detection: &Detection) -> Vec<FrameworkSignal> {
    let signal = |name: &str, confidence: f64, rationale: Vec<String>, hints: Vec<String>| FrameworkSignal {
        name: name.to_owned(),
        confidence,
        entrypoints: profile.entry_points.clone(),
        rationale,
        hints,
        status: match confidence {
            sure if sure >= 0.75 => "confirmed",
            likely if likely >= 0.5 => "likely",
            _ => "ambiguous",
        },
    };
    let detected = detection.frameworks.iter().map(|framework| {
        let hints =
            framework.insert_anchors.iter().map(|anchor| format!("anchor:{}:{}", anchor.filepath, anchor.pattern));
        signal(&framework.name, framework.confidence, framework.reasons.clone(), hints.collect())
    });
    let only_named = profile
        .framework_candidates
        .iter()
        .filter(|name| !detection.frameworks.iter().any(|known| known.name == **name));
    let candidates = only_named
        .map(|name| signal(name, 0.35, vec!["Detected via dependency or file heuristic".to_owned()], Vec::new()));
    detected.chain(candidates).collect()
}

fn agent_signals(survey: &Survey, errors: &mut Vec<ScanError>) -> Vec<AgentSignal> {
    let mut signals = Vec::new();
    let python = survey.files.iter().filter(|file| file.language == Some(Language::Python));
    for file in python.take(MOST_FILES) {
        let Some(content) = survey.text_of(&file.path) else {
            errors.push(ScanError {
                stage: "agent_scan",
                file: file.path.clone(),
                message: "Unable to read file".to_owned(),
            });
            continue;
        };
        let end = content.char_indices().nth(MOST_LETTERS).map_or(content.len(), |(end, _)| end);
        let content = &content[..end];
        let Some(at) = content.find("fluxloop") else { continue };
        let line = text::line_at(content, at);
        signals.push(AgentSignal {
            module: file.path.clone(),
            agent_type: agent_type(&file.path),
            class_or_function: first_named(content, "class ").or_else(|| first_named(content, "def ")),
            framework_dep: "fluxloop",
            evidence: vec![AgentEvidence { pattern: "fluxloop", file: file.path.clone(), line }],
            confidence: 0.65,
            notes: text::line_text(content, at),
        });
    }
    signals
}

/// Decides by the path below the root: folders above it do not describe the file.
fn agent_type(path: &str) -> &'static str {
    let path = path.to_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| path.contains(word));
    if has(&["input"]) {
        "base_input_generator"
    } else if has(&["experiment", "simulation"]) {
        "experiment_runner"
    } else if has(&["insight", "analysis"]) {
        "insight_analyzer"
    } else {
        "integration_agent"
    }
}

/// The name in the first `class NAME(` or `def NAME(`.
fn first_named(content: &str, keyword: &str) -> Option<String> {
    content.match_indices(keyword).find_map(|(at, _)| {
        let rest = &content[at + keyword.len()..];
        let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        (!name.is_empty() && rest[name.len()..].starts_with('(')).then_some(name)
    })
}

fn runner_configs(survey: &Survey, errors: &mut Vec<ScanError>) -> Vec<RunnerConfig> {
    let mut configs = Vec::new();
    for (path, source) in [("configs/simulation.yaml", "simulation_yaml"), ("configs/input.yaml", "input_yaml")] {
        if let Some(content) = survey.text_of(path) {
            match from_yaml(&content) {
                Ok(runner) => configs.push(runner_config(source, path, &runner)),
                Err(message) => errors.push(ScanError { stage: "runner_scan", file: path.to_owned(), message }),
            }
        }
    }
    let variable = "FLUXLOOP_RUNNER_TARGET=";
    let environment = survey.text_of(".env").unwrap_or_default();
    if let Some(target) = environment.lines().find_map(|line| line.strip_prefix(variable)) {
        configs.push(RunnerConfig {
            source: "env",
            path: ".env#FLUXLOOP_RUNNER_TARGET".to_owned(),
            runner_type: "configured".to_owned(),
            target: target.trim().to_owned(),
            parameters: Value::Object(Map::new()),
            linked_frameworks: Value::Array(Vec::new()),
            confidence: 0.5,
        });
    }
    configs
}

fn from_yaml(content: &str) -> Result<Map<String, Value>, String> {
    let document: Value =
        serde_saphyr::from_str(content).map_err(|why| why.to_string().lines().next().unwrap_or_default().to_owned())?;
    match document.get("runner") {
        Some(Value::Object(runner)) => Ok(runner.clone()),
        _ => Err("runner section missing or invalid".to_owned()),
    }
}

fn runner_config(source: &'static str, path: &str, runner: &Map<String, Value>) -> RunnerConfig {
    let string = |key: &str, default: &str| runner.get(key).and_then(Value::as_str).unwrap_or(default).to_owned();
    RunnerConfig {
        source,
        path: format!("{path}#runner"),
        runner_type: string("type", "unknown"),
        target: string("target", ""),
        parameters: runner.get("parameters").cloned().unwrap_or_else(|| Value::Object(Map::new())),
        linked_frameworks: runner.get("frameworks").cloned().unwrap_or_else(|| Value::Array(Vec::new())),
        confidence: 0.8,
    }
}
