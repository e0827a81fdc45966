//! `run_integration_workflow`: every stage in order, over one survey of the tree.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::context::{
    AgentSignal, ContextInput, Document, FrameworkSignal, IntegrationContext, RepoProfile, RunnerConfig, Topic,
    documents, workflow_topics,
};
use crate::frameworks::{Detection, Framework, NONE_FOUND, ProfileInput};
use crate::plan::{Edit, Plan};
use crate::profile::Profile;
use crate::recipes::Target;
use crate::root::Root;
use crate::site::Site;
use crate::steps::{Step, Steps};
use crate::survey::Survey;
use crate::validate::{Validation, validate};
use crate::{RepositoryError, Setting, Stage};

/// Below this confidence, the first framework is reported as uncertain.
const SURE: f64 = 0.7;
/// Two frameworks whose confidence differs by less than this are reported as equally likely.
const CLOSE: f64 = 0.05;
/// The default question.
const USUAL_QUESTION: &str = "Prepare FluxLoop integration context.";

/// The input of `run_integration_workflow`.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct WorkflowInput {
    /// The folder of the repository.
    #[serde(default)]
    pub root: Option<String>,
    /// The question of the user.
    #[serde(default)]
    pub question: Option<String>,
    /// The files and folders that the question is about.
    #[serde(default, deserialize_with = "crate::input::object_or_nothing")]
    pub context: Option<ContextInput>,
    /// The integration target: `fluxloop`, `mcp-server`, `gladhand` or one of the user's own recipes.
    #[serde(default)]
    pub target: Option<String>,
}

/// The results of all stages.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Workflow {
    /// The result of `analyze_repository`.
    pub profile: Profile,
    /// The result of `detect_frameworks`.
    pub detection: Detection,
    /// The result of `generate_integration_steps`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub integration_steps: Option<Staged<Steps>>,
    /// The result of `propose_edit_plan`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub edit_plan: Option<Staged<Plan>>,
    /// The result of `validate_edit_plan`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validation: Option<Validation>,
    /// The result of `collect_repo_profile`.
    pub repo_profile: RepoProfile,
    /// The files and folders that the question is about.
    pub integration_context: IntegrationContext,
    /// The parts of the result for a language model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub llm_inputs: Option<LlmInputs>,
    /// The question.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub question: Option<String>,
    /// Limits and doubts of the answer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// The result of a stage, or the reason why it has none.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Staged<T> {
    /// The result.
    Done(T),
    /// The reason why there is no result.
    Failed {
        /// The reason, in one sentence.
        error: String,
    },
}

impl<T> Staged<T> {
    /// The result of the stage, if it succeeded.
    pub fn done(&self) -> Option<&T> {
        match self {
            Self::Done(given) => Some(given),
            Self::Failed { .. } => None,
        }
    }
}

/// The parts of the result for a language model.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct LlmInputs {
    /// A summary of the repository.
    pub structure_context: StructureContext,
    /// Topics to look up in the documentation.
    pub rag_topics: Vec<Topic>,
    /// The files and folders that the question is about.
    pub integration_context: IntegrationContext,
    /// Passages of the documentation on the topics.
    pub rag_documents: Vec<Document>,
}

/// The most important results of all stages.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct StructureContext {
    /// Three frameworks.
    pub framework_candidates: Vec<FrameworkSignal>,
    /// Five uses of the SDK.
    pub agent_components: Vec<AgentSignal>,
    /// Three runners.
    pub runner_configs: Vec<RunnerConfig>,
    /// Three frameworks, with evidence.
    pub detection_summary: Vec<Framework>,
    /// Five steps.
    pub integration_steps: Vec<Step>,
    /// The summary of the plan.
    pub edit_plan_summary: String,
    /// Three edits.
    pub edit_plan_edits: Vec<Edit>,
    /// The result of checking the plan.
    pub validation: ValidationSummary,
}

/// A short result of checking a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ValidationSummary {
    /// Whether it can be applied.
    pub valid: bool,
    /// Five issues.
    pub issues: Vec<String>,
    /// Five warnings.
    pub warnings: Vec<String>,
}

/// Runs every stage. If a stage fails, its result holds the reason, and the other stages continue.
pub fn run_integration_workflow(input: &WorkflowInput, setting: &Setting<'_>) -> Result<Workflow, RepositoryError> {
    let target = setting.recipes.target(input.target.as_deref())?;
    let question = input.question.as_deref().map(str::trim).filter(|question| !question.is_empty());
    let root = Root::existing(setting.places, input.root.as_deref())?;
    let survey = Survey::take(root, setting)?;
    let profile = stage(setting, Stage::Analyze, || Profile::of(&survey))?;
    let detection = stage(setting, Stage::Detect, || Detection::of(&survey, target))?;
    let repo_profile = stage(setting, Stage::Collect, || RepoProfile::of(&survey, &profile, &detection, setting.now))?;
    let context = input.context.clone().unwrap_or_default();
    let integration_context = IntegrationContext::of(&survey.root, &context, question);
    let mut workflow = Workflow {
        warnings: doubts(&detection),
        profile,
        detection,
        integration_steps: None,
        edit_plan: None,
        validation: None,
        repo_profile,
        integration_context,
        llm_inputs: None,
        question: None,
    };
    if !workflow.detection.frameworks.is_empty() {
        workflow.integrate(&survey, target, setting)?;
        workflow.question = question.map(str::to_owned);
    }
    workflow.llm_inputs = Some(workflow.for_model(question, setting));
    Ok(workflow)
}

/// The result of `fetch_integration_context`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct FetchedContext {
    /// The results of all stages, without the parts for a language model.
    pub workflow: Workflow,
    /// As in the workflow.
    pub repo_profile: RepoProfile,
    /// As in the workflow.
    pub integration_context: IntegrationContext,
    /// The most important results of all stages.
    pub structure_context: Option<StructureContext>,
    /// Topics to look up in the documentation.
    pub rag_topics: Vec<Topic>,
    /// Limits and doubts of the answer.
    pub warnings: Vec<String>,
}

/// Runs the workflow and returns the parts for a language model. Without a question, it uses a general one.
pub fn fetch_integration_context(
    input: &WorkflowInput,
    setting: &Setting<'_>,
) -> Result<FetchedContext, RepositoryError> {
    let asked = input.question.as_deref().is_some_and(|question| !question.trim().is_empty());
    let question = if asked { input.question.clone() } else { Some(USUAL_QUESTION.to_owned()) };
    let mut workflow = run_integration_workflow(&WorkflowInput { question, ..input.clone() }, setting)?;
    let (structure_context, rag_topics) = match workflow.llm_inputs.take() {
        Some(inputs) => (Some(inputs.structure_context), inputs.rag_topics),
        None => (None, Vec::new()),
    };
    Ok(FetchedContext {
        repo_profile: workflow.repo_profile.clone(),
        integration_context: workflow.integration_context.clone(),
        structure_context,
        rag_topics,
        warnings: workflow.warnings.clone(),
        workflow,
    })
}

/// Runs one stage, unless the caller has cancelled.
fn stage<T>(setting: &Setting<'_>, stage: Stage, run: impl FnOnce() -> T) -> Result<T, RepositoryError> {
    setting.progress.report(stage, 0, Some(1));
    if setting.progress.cancelled() {
        return Err(RepositoryError::Cancelled);
    }
    let given = run();
    setting.progress.report(stage, 1, Some(1));
    Ok(given)
}

/// The uncertainties of a detection.
fn doubts(detection: &Detection) -> Vec<String> {
    match detection.frameworks.as_slice() {
        [] => vec![NONE_FOUND.to_owned()],
        [first, ..] if first.confidence < SURE => {
            vec![format!("{} is not sure (confidence {}).", first.title, first.confidence)]
        }
        [first, second, ..] if first.confidence - second.confidence < CLOSE => {
            vec![format!(
                "{} and {} are about as likely; the first with a recipe was taken.",
                first.title, second.title
            )]
        }
        _ => Vec::new(),
    }
}

impl Workflow {
    /// The stages that need a framework: steps, plan, validation.
    fn integrate(&mut self, survey: &Survey, target: &Target, setting: &Setting<'_>) -> Result<(), RepositoryError> {
        let Some(primary) = self.detection.primary(target).map(|framework| framework.name.clone()) else {
            let first = self.detection.frameworks.first().map(|framework| framework.name.as_str());
            let error = target.recipe_for(first).err().map(|error| error.to_string()).unwrap_or_default();
            self.integration_steps = Some(Staged::Failed { error: error.clone() });
            self.edit_plan = Some(Staged::Failed { error });
            self.validation = Some(validate(&serde_json::Map::new(), &survey.root));
            return Ok(());
        };
        let (_, recipe) = target.recipe_for(Some(&primary))?;
        let site = Site::new(&primary, Some(survey), &ProfileInput::default(), None);
        let knows_entry_points = !self.profile.entry_points.is_empty();
        self.integration_steps =
            Some(Staged::Done(stage(setting, Stage::Steps, || Steps::of(&site, target, recipe, knows_entry_points))?));
        let plan = stage(setting, Stage::Plan, || Plan::of(&site, target, recipe))?;
        let written = serde_json::to_value(&plan).ok().and_then(|plan| plan.as_object().cloned()).unwrap_or_default();
        self.edit_plan = Some(Staged::Done(plan));
        self.validation = Some(stage(setting, Stage::Validate, || validate(&written, &survey.root))?);
        Ok(())
    }

    fn for_model(&self, question: Option<&str>, setting: &Setting<'_>) -> LlmInputs {
        let warnings = self.validation.as_ref().map_or(&[][..], |validation| &validation.warnings);
        let rag_topics = workflow_topics(question, &self.repo_profile, warnings, &self.integration_context);
        LlmInputs {
            structure_context: self.structure(),
            rag_documents: documents(&rag_topics, setting.documents),
            rag_topics,
            integration_context: self.integration_context.clone(),
        }
    }

    fn structure(&self) -> StructureContext {
        let steps = self.integration_steps.as_ref().and_then(Staged::done);
        let plan = self.edit_plan.as_ref().and_then(Staged::done);
        let validation = match &self.validation {
            Some(found) => ValidationSummary {
                valid: found.valid,
                issues: first(&found.issues, 5),
                warnings: first(&found.warnings, 5),
            },
            None => ValidationSummary {
                valid: false,
                issues: vec!["No frameworks detected".to_owned()],
                warnings: Vec::new(),
            },
        };
        StructureContext {
            framework_candidates: first(&self.repo_profile.framework_signals, 3),
            agent_components: first(&self.repo_profile.agent_signals, 5),
            runner_configs: first(&self.repo_profile.runner_configs, 3),
            detection_summary: first(&self.detection.frameworks, 3),
            integration_steps: steps.map_or_else(Vec::new, |steps| first(&steps.steps, 5)),
            edit_plan_summary: plan.map_or_else(String::new, |plan| plan.summary.clone()),
            edit_plan_edits: plan.map_or_else(Vec::new, |plan| first(&plan.edits, 3)),
            validation,
        }
    }
}

fn first<T: Clone>(list: &[T], most: usize) -> Vec<T> {
    list.iter().take(most).cloned().collect()
}
