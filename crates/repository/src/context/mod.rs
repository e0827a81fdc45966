//! Context for language models: the five tools that Fluxloop's server added later, and the parts of its workflow that they
//! share.

mod experiments;
mod files;
mod inputs;
mod repo_profile;
mod topics;

pub use self::experiments::{
    Experiment, ExperimentContext, InsightContext, Metrics, Report, fetch_experiment_context, fetch_insight_context,
};
pub use self::files::{ContextError, ContextFile, ContextInput, IntegrationContext};
pub use self::inputs::{BaseInputContext, InputSample, LimitedInput, Preview, fetch_base_input_context};
pub use self::repo_profile::{
    AgentEvidence, AgentSignal, CollectInput, FrameworkSignal, RepoProfile, RunnerConfig, ScanError,
    collect_repo_profile,
};
pub use self::topics::{Document, Topic};
pub(crate) use self::topics::{documents, workflow_topics};

/// How much of a file is shown where it is only an impression.
const SHORT: usize = 2000;
/// How much of a file is shown where its content matters.
const LONG: usize = 4000;
/// The largest file, in bytes, that is read to show some of it.
const LARGEST: u64 = 8 << 20;

/// The beginning of a text, and that it is only that.
fn preview(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}\n...[truncated]", &text[..end]),
        None => text.to_owned(),
    }
}
