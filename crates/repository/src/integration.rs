//! The input of steps and plans, and their common first stage.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::frameworks::ProfileInput;
use crate::recipes::{Recipe, Target};
use crate::root::Root;
use crate::site::Site;
use crate::survey::Survey;
use crate::{RepositoryError, Setting};

/// The input of `generate_integration_steps` and of `propose_edit_plan`.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct IntegrationInput {
    /// The framework, as `detect_frameworks` names it.
    #[serde(default)]
    #[schemars(required, with = "String")]
    pub framework: Option<String>,
    /// A result of `analyze_repository`. If its root can be read, the answer comes from the files there.
    #[serde(default, deserialize_with = "crate::input::object")]
    pub repository_profile: Option<ProfileInput>,
    /// The package manager to use, instead of the project's own.
    #[serde(default)]
    pub package_manager: Option<String>,
    /// The folder of the repository, instead of a profile.
    #[serde(default)]
    pub root: Option<String>,
    /// The integration target: `fluxloop`, `mcp-server`, `gladhand` or one of the user's own recipes.
    #[serde(default)]
    pub target: Option<String>,
}

/// The target, its recipe, and the project that it is integrated into.
#[derive(Debug)]
pub(crate) struct Integration<'a> {
    pub(crate) target: &'a Target,
    pub(crate) recipe: &'a Recipe,
    pub(crate) profile: ProfileInput,
    framework: String,
    manager: Option<&'a str>,
    survey: Option<Survey>,
}

/// The folder that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    /// The folder that the input names. Without one, the answer is for any project of the framework.
    IfNamed,
    /// The folder that the input names, or the working folder.
    Always,
}

impl<'a> Integration<'a> {
    /// The integration that an input requests. The folder of a profile need not exist.
    pub(crate) fn of(input: &'a IntegrationInput, look: Look, setting: &Setting<'a>) -> Result<Self, RepositoryError> {
        let target = setting.recipes.target(input.target.as_deref())?;
        let (framework, recipe) = target.recipe_for(input.framework.as_deref())?;
        let profile = input.repository_profile.clone().unwrap_or_default();
        let is_looked_at = look == Look::Always || input.root.is_some() || profile.is_readable(setting);
        let named = input.root.as_deref().or(profile.root.as_deref());
        let survey = if is_looked_at { survey_of(named, setting)? } else { None };
        let manager = input.package_manager.as_deref();
        Ok(Self { target, recipe, profile, framework, manager, survey })
    }

    /// The part of the project that the integration changes.
    pub(crate) fn site(&self) -> Site<'_> {
        Site::new(&self.framework, self.survey.as_ref(), &self.profile, self.manager)
    }
}

/// The files below a root, if it exists.
fn survey_of(root: Option<&str>, setting: &Setting<'_>) -> Result<Option<Survey>, RepositoryError> {
    let root = Root::named(setting.places, root)?;
    if root.path().is_dir() { Survey::take(root, setting).map(Some) } else { Ok(None) }
}
