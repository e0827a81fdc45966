//! `fetch_experiment_context` and `fetch_insight_context`: the results of earlier simulations in `experiments`.

use std::path::PathBuf;
use std::time::SystemTime;

use gladhand_core::Order as _;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::inputs::shown;
use super::{LARGEST, LONG, LimitedInput, Preview, RepoProfile, RunnerConfig, Topic};
use crate::root::Root;
use crate::{RepositoryError, Setting};

/// Earlier simulations, and the configuration of new ones.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ExperimentContext {
    /// The profile of the repository.
    pub repo_profile: RepoProfile,
    /// Earlier simulations, newest first.
    pub recent_experiments: Vec<Experiment>,
    /// Files that configure simulations.
    pub simulation_templates: Vec<Preview>,
    /// Runners that are configured.
    pub runner_configs: Vec<RunnerConfig>,
    /// Missing folders, and files that could not be read.
    pub warnings: Vec<String>,
    /// Topics to look up in the documentation.
    pub rag_topics: Vec<Topic>,
}

/// One earlier simulation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Experiment {
    /// Its folder.
    pub path: String,
    /// Its summary file, unchanged.
    pub summary: Option<String>,
    /// Whether it has traces.
    pub has_traces: bool,
}

/// The results of simulations.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct InsightContext {
    /// One report for each summary file, newest first.
    pub reports: Vec<Report>,
    /// The sums and averages of all reports.
    pub aggregated_metrics: Metrics,
    /// Missing folders, and files that could not be read.
    pub warnings: Vec<String>,
    /// Topics to look up in the documentation.
    pub rag_topics: Vec<Topic>,
}

/// The results of one simulation.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Report {
    /// The summary file.
    pub path: String,
    /// Its results.
    pub results: Value,
    /// Its configuration.
    pub config: Value,
}

/// The results of all simulations together.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, JsonSchema)]
pub struct Metrics {
    /// The number of runs.
    pub total_runs: u64,
    /// The number of successful runs.
    pub successful: u64,
    /// The share of successful runs, from 0 to 1.
    pub success_rate: Option<f64>,
    /// The average duration of a run.
    pub avg_duration_seconds: Option<f64>,
}

/// Returns earlier simulations and the configuration of new ones.
pub fn fetch_experiment_context(
    input: &LimitedInput,
    setting: &Setting<'_>,
) -> Result<ExperimentContext, RepositoryError> {
    let root = Root::existing(setting.places, input.root.as_deref())?;
    let repo_profile = input.repo_profile(setting)?;
    let folders = folders(&root);
    let mut warnings = Vec::new();
    match &folders {
        None => warnings.push("experiments directory not found; run at least one evaluation.".to_owned()),
        Some(found) if found.is_empty() => {
            warnings.push("experiments directory is empty; run at least one evaluation.".to_owned())
        }
        Some(_) => {}
    }
    let experiment = |folder: &String| Experiment {
        path: folder.clone(),
        summary: shown(&root, &format!("{folder}/summary.json"), LONG).map(|file| file.preview),
        has_traces: ["traces.jsonl", "traces", "trace_summary.jsonl"]
            .iter()
            .any(|name| root.path().join(folder).join(name).exists()),
    };
    let recent_experiments = folders.iter().flatten().take(input.most()).map(experiment).collect();
    let templates = ["configs/simulation.yaml", "simulation.yaml", "configs/experiment.yaml"];
    let topics = repo_profile.runner_configs.iter().take(3).map(|runner| {
        let kind = &runner.runner_type;
        Topic::new(format!("runner-{kind}"), format!("{kind} runner configuration tips"), vec![runner.path.clone()])
    });
    let rag_topics = or_general(topics.collect(), "experiment-general", "FluxLoop experiment configuration overview");
    Ok(ExperimentContext {
        recent_experiments,
        simulation_templates: templates.iter().filter_map(|path| shown(&root, path, LONG)).collect(),
        runner_configs: repo_profile.runner_configs.clone(),
        repo_profile,
        warnings,
        rag_topics,
    })
}

/// Returns the findings of simulations.
pub fn fetch_insight_context(input: &LimitedInput, setting: &Setting<'_>) -> Result<InsightContext, RepositoryError> {
    let root = Root::existing(setting.places, input.root.as_deref())?;
    let folders = folders(&root);
    let mut warnings = Vec::new();
    if folders.is_none() {
        warnings.push("experiments directory not found; run evaluations to enable insight mode.".to_owned());
    }
    let mut reports = Vec::new();
    for folder in folders.into_iter().flatten().take(input.most()) {
        let path = format!("{folder}/summary.json");
        let Ok(file) = root.inside(&path) else { continue };
        let Ok(text) = root.secrets().read(&file, LARGEST) else { continue };
        match serde_json::from_slice::<Value>(&text) {
            Ok(summary) => reports.push(Report {
                path,
                results: summary.get("results").cloned().unwrap_or(Value::Null),
                config: summary.get("config").cloned().unwrap_or(Value::Null),
            }),
            Err(why) => warnings.push(format!("{path} could not be read: {why}.")),
        }
    }
    let aggregated_metrics = Metrics::of(&reports);
    let topics = match aggregated_metrics.success_rate {
        Some(rate) if rate < 1.0 => {
            vec![Topic::new("insight-failures", "FluxLoop evaluation failures", vec![format!("success rate {rate}")])]
        }
        _ => Vec::new(),
    };
    let rag_topics = or_general(topics, "insight-general", "FluxLoop evaluation troubleshooting");
    Ok(InsightContext { reports, aggregated_metrics, warnings, rag_topics })
}

impl Metrics {
    fn of(reports: &[Report]) -> Self {
        let number =
            |report: &Report, names: &[&str]| names.iter().find_map(|name| report.results.get(*name)?.as_f64());
        let whole = |value: f64| if value.is_finite() && value >= 0.0 { value as u64 } else { 0 };
        let mut metrics = Self::default();
        let mut durations = Vec::new();
        for report in reports {
            metrics.total_runs += number(report, &["total_runs", "total"]).map_or(0, whole);
            metrics.successful += number(report, &["successful", "success"]).map_or(0, whole);
            durations.extend(number(report, &["avg_duration_seconds", "duration_seconds"]));
        }
        if metrics.total_runs > 0 {
            metrics.success_rate = Some(metrics.successful as f64 / metrics.total_runs as f64);
        }
        if !durations.is_empty() {
            metrics.avg_duration_seconds = Some(durations.iter().sum::<f64>() / durations.len() as f64);
        }
        metrics
    }
}

/// The folders of `experiments`, newest first; then by name.
fn folders(root: &Root) -> Option<Vec<String>> {
    let entries = std::fs::read_dir(root.inside("experiments").ok()?).ok()?;
    let folder = |path: PathBuf| {
        let changed =
            path.metadata().ok().filter(std::fs::Metadata::is_dir)?.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        Some((std::cmp::Reverse(changed), format!("experiments/{}", path.file_name()?.to_string_lossy())))
    };
    let mut folders: Vec<_> = entries.flatten().filter_map(|entry| folder(entry.path())).collect();
    folders.order();
    Some(folders.into_iter().map(|(_, path)| path).collect())
}

fn or_general(topics: Vec<Topic>, id: &str, query: &str) -> Vec<Topic> {
    if topics.is_empty() { vec![Topic::new(id, query, Vec::new())] } else { topics }
}
