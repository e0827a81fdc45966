//! `generate_integration_steps`: the checklist of a recipe, with the names and commands of the project.

use schemars::JsonSchema;
use serde::Serialize;

use crate::integration::{Integration, IntegrationInput, Look};
use crate::recipes::{Recipe, Target};
use crate::site::Site;
use crate::{RepositoryError, Setting, Stage};

/// A checklist.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Steps {
    /// The framework.
    pub framework: String,
    /// The pattern by which the integration runs the application.
    pub runner_pattern: String,
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// The estimated time.
    pub estimated_time: String,
    /// The package manager that the commands are for.
    pub package_manager: String,
    /// Warnings for the user.
    pub warnings: Vec<String>,
    /// The integration target.
    pub target: String,
    /// Conditions that must be met first.
    pub prerequisites: Vec<String>,
}

/// One step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Step {
    /// Its name for programs.
    pub id: String,
    /// Its name for people.
    pub title: String,
    /// The instructions.
    pub details: String,
    /// The URL of the documentation.
    pub doc_ref: String,
}

/// Writes the checklist for a framework.
pub fn generate_integration_steps(input: &IntegrationInput, setting: &Setting<'_>) -> Result<Steps, RepositoryError> {
    let integration = Integration::of(input, Look::IfNamed, setting)?;
    let Integration { target, recipe, profile, .. } = &integration;
    let site = integration.site();
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
        let mut warnings: Vec<String> = site.doubt().into_iter().collect();
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
