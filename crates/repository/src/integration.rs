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

/// What is integrated, how, and into what.
#[derive(Debug)]
pub(crate) struct Integration<'a> {
    pub(crate) target: &'a Target,
    pub(crate) recipe: &'a Recipe,
    pub(crate) profile: ProfileInput,
    framework: String,
    manager: Option<&'a str>,
    survey: Option<Survey>,
}

/// Which tree is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    /// One that the input names. Without one, the answer is for any project of the framework.
    IfNamed,
    /// That, or the working folder.
    Always,
}

impl<'a> Integration<'a> {
    /// What an input asks for. A tree that it names in a profile need not be there.
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

    /// Where it goes.
    pub(crate) fn site(&self) -> Site<'_> {
        Site::new(&self.framework, self.survey.as_ref(), &self.profile, self.manager)
    }
}

/// The tree below a root, if there is one.
fn survey_of(root: Option<&str>, setting: &Setting<'_>) -> Result<Option<Survey>, RepositoryError> {
    let root = Root::named(setting.places, root)?;
    if root.path().is_dir() { Survey::take(root, setting).map(Some) } else { Ok(None) }
}
