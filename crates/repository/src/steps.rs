//! `generate_integration_steps`: the checklist of a recipe, in the words of the project.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::frameworks::ProfileInput;
use crate::recipes::{Recipe, Target};
use crate::site::{Site, survey_of};
use crate::{RepositoryError, Setting, Stage};

/// The input of `generate_integration_steps`.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct StepsInput {
    /// The framework, as `detect_frameworks` names it.
    #[serde(default)]
    #[schemars(required, with = "String")]
    pub framework: Option<String>,
    /// A profile as `analyze_repository` gives it. If its root can be read, the files there decide.
    #[serde(default, deserialize_with = "crate::input::object")]
    pub repository_profile: Option<ProfileInput>,
    /// The package manager to use, instead of the project's own.
    #[serde(default)]
    pub package_manager: Option<String>,
    /// The folder to look at, instead of a profile.
    #[serde(default)]
    pub root: Option<String>,
    /// What to integrate: `fluxloop`, `mcp-server`, `gladhand` or one of the user's own recipes.
    #[serde(default)]
    pub target: Option<String>,
}

/// A checklist.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Steps {
    /// The framework.
    pub framework: String,
    /// How the application is run by what is integrated.
    pub runner_pattern: String,
    /// What to do, in order.
    pub steps: Vec<Step>,
    /// How long it takes.
    pub estimated_time: String,
    /// The package manager that the commands are for.
    pub package_manager: String,
    /// What to know about it.
    pub warnings: Vec<String>,
    /// What is integrated.
    pub target: String,
    /// What must be there before.
    pub prerequisites: Vec<String>,
}

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Step {
    /// Its name for programs.
    pub id: String,
    /// Its name for people.
    pub title: String,
    /// What to do.
    pub details: String,
    /// Where that is documented.
    pub doc_ref: String,
}

/// Writes the checklist for a framework.
pub fn generate_integration_steps(input: &StepsInput, setting: &Setting<'_>) -> Result<Steps, RepositoryError> {
    let target = setting.recipes.target(input.target.as_deref())?;
    let (framework, recipe) = target.recipe_for(input.framework.as_deref())?;
    let profile = input.repository_profile.clone().unwrap_or_default();
    let reads = input.root.is_some() || profile.is_readable(setting);
    let survey = if reads { survey_of(input.root.as_deref(), &profile, setting)? } else { None };
    let site = Site::new(&framework, survey.as_ref(), &profile, input.package_manager.as_deref());
    let has_entry_points = profile.entry_points.as_ref().is_some_and(|points| !points.is_empty());
    setting.progress.report(Stage::Steps, 1, Some(1));
    Ok(Steps::of(&site, target, recipe, has_entry_points || site.constructor.is_some()))
}

impl Steps {
    pub(crate) fn of(site: &Site<'_>, target: &Target, recipe: &Recipe, knows_entry_points: bool) -> Self {
        let step = |step: &crate::recipes::StepRecipe| {
            let details = site.fill(&step.details, target, recipe)?;
            Some(Step { id: step.id.clone(), title: step.title.clone(), details, doc_ref: recipe.doc_url.clone() })
        };
        let mut warnings = Vec::new();
        if !knows_entry_points {
            warnings.push("No entry points detected; verify runner target manually.".to_owned());
        }
        let left_out = recipe.steps.iter().filter(|one| step(one).is_none());
        warnings.extend(
            left_out.map(|one| format!("Step '{}' needs the application object, which was not found.", one.id)),
        );
        Self {
            framework: site.framework.to_owned(),
            runner_pattern: recipe.runner_pattern.clone(),
            steps: recipe.steps.iter().filter_map(step).collect(),
            estimated_time: "10 minutes".to_owned(),
            package_manager: site.manager.clone(),
            warnings,
            target: target.name.clone(),
            prerequisites: vec![format!("{} is installed.", site.manager)],
        }
    }
}
