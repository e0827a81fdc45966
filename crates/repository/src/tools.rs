//! All tools by name, with their schemas: what an edge needs to offer them without knowing any of them.

use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::{
    IntegrationInput, RepositoryError, Setting, context, frameworks, plan, profile, steps, validate, workflow,
};

/// A repository tool.
#[derive(Debug)]
pub struct RepositoryTool {
    /// Its name.
    pub name: &'static str,
    /// Its name for people.
    pub title: &'static str,
    /// The description for clients.
    pub description: &'static str,
    /// JSON Schema of its input.
    pub input_schema: Value,
    /// JSON Schema of its output.
    pub output_schema: Value,
    run: fn(Value, &Setting<'_>) -> Result<Box<RawValue>, RepositoryError>,
}

impl RepositoryTool {
    /// Runs the tool. Takes as long as reading the tree does, so never on a thread that others wait for.
    pub fn call(&self, arguments: Value, setting: &Setting<'_>) -> Result<Box<RawValue>, RepositoryError> {
        (self.run)(arguments, setting)
    }
}

/// The tool with a name.
pub fn tool(name: &str) -> Option<&'static RepositoryTool> {
    tools().iter().find(|tool| tool.name == name)
}

/// All tools: those of Fluxloop's page in its order, then the later ones.
pub fn tools() -> &'static [RepositoryTool] {
    static TOOLS: LazyLock<Vec<RepositoryTool>> = LazyLock::new(all);
    &TOOLS
}

macro_rules! tool {
    ($run:path, $input:ty => $output:ty, $name:literal, $title:literal, $description:literal) => {
        RepositoryTool {
            name: $name,
            title: $title,
            description: $description,
            input_schema: schema::<$input>(),
            output_schema: schema::<$output>(),
            run: |arguments, setting| give(&$run(&read_input::<$input>(arguments)?, setting)?),
        }
    };
}

fn all() -> Vec<RepositoryTool> {
    vec![
        tool!(profile::analyze_repository, profile::AnalyzeInput => profile::Profile, "analyze_repository", "Analyze a repository",
            "Describes the contents of a repository: languages, package managers, entry points, members of a monorepo, frameworks that its manifests name, and risks. Reads the files that git does not ignore."),
        tool!(frameworks::detect_frameworks, frameworks::DetectInput => frameworks::Detection, "detect_frameworks", "Detect frameworks",
            "Lists the frameworks that a repository uses, the most likely first, each with its evidence (file, line, text) and with anchors where code could be inserted. Needs `root` or a result of `analyze_repository`."),
        tool!(steps::generate_integration_steps, IntegrationInput => steps::Steps, "generate_integration_steps", "Generate integration steps",
            "Writes the checklist that integrates a target (`fluxloop`, `mcp-server`, `gladhand`) into an application of a framework, with the commands of its package manager."),
        tool!(plan::propose_edit_plan, IntegrationInput => plan::Plan, "propose_edit_plan", "Propose an edit plan",
            "Proposes the edits that integrate a target into a repository: anchored in existing text, with exact unified diffs. Changes nothing."),
        tool!(validate::validate_edit_plan, validate::ValidateInput => validate::Validation, "validate_edit_plan", "Validate an edit plan",
            "Applies an edit plan in memory and lists all problems, with file and line. Changes nothing."),
        tool!(workflow::run_integration_workflow, workflow::WorkflowInput => workflow::Workflow, "run_integration_workflow", "Run the integration workflow",
            "Analyzes a repository, detects its frameworks, and returns steps, an edit plan and its validation for the most likely framework that has a recipe."),
        tool!(context::collect_repo_profile, context::CollectInput => context::RepoProfile, "collect_repo_profile", "Collect the repository profile",
            "Collects frameworks, Python files that use the Fluxloop SDK, and configured runners of a repository."),
        tool!(workflow::fetch_integration_context, workflow::WorkflowInput => workflow::FetchedContext, "fetch_integration_context", "Fetch integration context",
            "Runs the integration workflow and returns the parts that a language model needs to help with the integration."),
        tool!(context::fetch_base_input_context, context::LimitedInput => context::BaseInputContext, "fetch_base_input_context", "Fetch base input context",
            "Shows the material for inputs of simulations: samples, settings of the service, frameworks."),
        tool!(context::fetch_experiment_context, context::LimitedInput => context::ExperimentContext, "fetch_experiment_context", "Fetch experiment context",
            "Shows recent simulations of a repository, templates for new ones, and configured runners."),
        tool!(context::fetch_insight_context, context::LimitedInput => context::InsightContext, "fetch_insight_context", "Fetch insight context",
            "Shows the results of recent simulations of a repository, and their sums and averages."),
    ]
}

fn schema<T: JsonSchema>() -> Value {
    schemars::generate::SchemaSettings::draft2020_12()
        .with(|settings| settings.inline_subschemas = true)
        .into_generator()
        .into_root_schema_for::<T>()
        .to_value()
}

/// The input of a tool, or which parameter has the wrong type. `null` is the same as an empty object.
pub fn read_input<T: DeserializeOwned + Default>(arguments: Value) -> Result<T, RepositoryError> {
    if arguments.is_null() {
        return Ok(T::default());
    }
    serde_path_to_error::deserialize(arguments).map_err(|wrong| {
        let path = wrong.path().to_string();
        let told = wrong.inner().to_string();
        let expected = told.split("expected ").nth(1).unwrap_or(&told).to_owned();
        let param = if path == "." { "params".to_owned() } else { path };
        RepositoryError::WrongType { param, expected }
    })
}

fn give<T: Serialize>(answer: &T) -> Result<Box<RawValue>, RepositoryError> {
    Ok(serde_json::value::to_raw_value(answer).expect("answers are plain data"))
}
