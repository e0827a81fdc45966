//! `fetch_base_input_context`: material for the inputs of simulations.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CollectInput, LARGEST, LONG, RepoProfile, SHORT, Topic, collect_repo_profile, preview};
use crate::root::Root;
use crate::walk::use_plain_ignore_files;
use crate::{RepositoryError, Setting, text};

/// The default number of items.
const USUAL: usize = 5;

/// The input of the tools with a limited number of results.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct LimitedInput {
    /// The folder of the repository.
    #[serde(default)]
    pub root: Option<String>,
    /// The maximum number of results: 5 by default, 100 at most.
    #[serde(default)]
    pub limit: Option<usize>,
}

impl LimitedInput {
    pub(super) fn most(&self) -> usize {
        self.limit.unwrap_or(USUAL).min(100)
    }

    pub(super) fn repo_profile(&self, setting: &Setting<'_>) -> Result<RepoProfile, RepositoryError> {
        collect_repo_profile(&CollectInput { root: self.root.clone(), ..CollectInput::default() }, setting)
    }
}

/// Material for the inputs of simulations.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct BaseInputContext {
    /// The profile of the repository.
    pub repo_profile: RepoProfile,
    /// Files below `inputs`, by path.
    pub input_samples: Vec<InputSample>,
    /// The settings of the service.
    pub service_settings: Option<Preview>,
    /// Missing folders, and files that could not be read.
    pub warnings: Vec<String>,
    /// Topics to look up in the documentation.
    pub rag_topics: Vec<Topic>,
}

/// A file with inputs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct InputSample {
    /// The file.
    pub path: String,
    /// In bytes.
    pub size: u64,
    /// Its beginning.
    pub preview: String,
}

/// The beginning of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Preview {
    /// The file.
    pub path: String,
    /// Its beginning.
    pub preview: String,
}

/// Returns material for the inputs of simulations.
pub fn fetch_base_input_context(
    input: &LimitedInput,
    setting: &Setting<'_>,
) -> Result<BaseInputContext, RepositoryError> {
    let root = Root::existing(setting.places, input.root.as_deref())?;
    let repo_profile = input.repo_profile(setting)?;
    let mut warnings = Vec::new();
    if !root.path().join("inputs").is_dir() {
        warnings.push("inputs directory not found; create inputs/ to seed base prompts.".to_owned());
    }
    let settings = ["setting.yaml", "settings.yaml", "configs/input.yaml"];
    let topics = repo_profile.framework_signals.iter().take(3).map(|signal| {
        let query = format!("FluxLoop base input examples for {}", signal.name);
        Topic::new(format!("framework-{}", signal.name), query, signal.rationale.clone())
    });
    let rag_topics = topics.collect();
    Ok(BaseInputContext {
        repo_profile,
        input_samples: samples(&root, input.most()),
        service_settings: settings.iter().find_map(|path| shown(&root, path, LONG)),
        warnings,
        rag_topics,
    })
}

/// The beginning of a file inside the root, if it can be read and holds no secrets.
pub(super) fn shown(root: &Root, path: &str, most: usize) -> Option<Preview> {
    let bytes = root.secrets().read(&root.inside(path).ok()?, LARGEST).ok()?;
    Some(Preview { path: path.to_owned(), preview: preview(&text::decode(&bytes), most) })
}

/// The first files below `inputs`, in the order of paths.
fn samples(root: &Root, most: usize) -> Vec<InputSample> {
    let Ok(inputs) = root.inside("inputs") else { return Vec::new() };
    let mut walk = ignore::WalkBuilder::new(&inputs);
    walk.sort_by_file_name(Ord::cmp).require_git(false);
    use_plain_ignore_files(&mut walk, &inputs);
    let files = walk.build().flatten().filter(|entry| entry.file_type().is_some_and(|kind| kind.is_file()));
    let sample = |entry: ignore::DirEntry| {
        let path = entry.path().strip_prefix(root.path()).ok()?.to_string_lossy().replace('\\', "/");
        let size = entry.metadata().ok()?.len();
        Some(InputSample { preview: shown(root, &path, SHORT)?.preview, path, size })
    };
    files.filter_map(sample).take(most).collect()
}
