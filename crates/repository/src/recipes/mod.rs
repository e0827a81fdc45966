//! Integration targets and their recipes, as they are written in `recipes/` and in folders of the user's own.

mod install;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use gladhand_core::Order as _;
use serde::Deserialize;

pub(crate) use self::install::{add_command, ecosystem_of, usual_manager};
use crate::RepositoryError;
use crate::frameworks::TABLE;
use crate::manifest::Ecosystem;
use crate::source::Family;

/// The target that is meant when none is named: the original.
const USUAL: &str = "fluxloop";

/// All integration targets that are known.
#[derive(Debug, Clone)]
pub struct Recipes {
    targets: BTreeMap<String, Target>,
}

/// Why a file of recipes cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("recipes in {}: {why}", path.display())]
pub struct RecipeError {
    path: PathBuf,
    why: String,
}

/// Something that can be integrated.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Target {
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) summary: String,
    pub(crate) rollback: String,
    /// Why there is no recipe for other frameworks.
    #[serde(default)]
    unsuited: Option<String>,
    #[serde(default)]
    packages: BTreeMap<Ecosystem, String>,
    /// The versions of them that the recipes are written for.
    #[serde(default)]
    versions: BTreeMap<Ecosystem, String>,
    #[serde(rename = "recipe")]
    recipes: Vec<Recipe>,
}

/// How it is integrated into applications of some frameworks.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Recipe {
    #[serde(default)]
    frameworks: Vec<String>,
    #[serde(default)]
    families: Vec<Family>,
    pub(crate) runner_pattern: String,
    pub(crate) doc_url: String,
    #[serde(default)]
    packages: BTreeMap<Ecosystem, String>,
    #[serde(default)]
    versions: BTreeMap<Ecosystem, String>,
    #[serde(default)]
    pub(crate) missing: Option<String>,
    #[serde(default)]
    pub(crate) steps: Vec<StepRecipe>,
    #[serde(default)]
    pub(crate) edits: Vec<EditRecipe>,
}

/// A package that an integration needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Package<'a> {
    pub(crate) name: &'a str,
    /// Which versions of it, as its ecosystem writes that; none: any.
    pub(crate) versions: Option<&'a str>,
    pub(crate) ecosystem: Ecosystem,
}

/// One step of the checklist.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StepRecipe {
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) details: String,
}

/// One edit.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EditRecipe {
    pub(crate) place: EditLocation,
    pub(crate) strategy: String,
    #[serde(default)]
    pub(crate) file: Option<String>,
    /// Only if the project has this folder.
    #[serde(default)]
    pub(crate) beside: Option<String>,
    #[serde(default)]
    pub(crate) import: Option<String>,
    #[serde(default)]
    pub(crate) require: Option<String>,
    pub(crate) code: String,
    #[serde(default)]
    pub(crate) unless: Vec<String>,
    #[serde(default)]
    pub(crate) rationale: Option<String>,
    #[serde(default)]
    pub(crate) only: Option<Family>,
}

/// The position of an edit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum EditLocation {
    /// After the statement that creates the application object.
    Constructor,
    /// At the end of the file that creates it.
    End,
    /// In a file of its own.
    File,
}

impl Default for Recipes {
    fn default() -> Self {
        Self::shipped()
    }
}

impl Recipes {
    /// The built-in recipes.
    pub fn shipped() -> Self {
        let texts = [
            include_str!("../../recipes/fluxloop.toml"),
            include_str!("../../recipes/mcp-server.toml"),
            include_str!("../../recipes/gladhand.toml"),
        ];
        let targets = texts.map(|text| toml::from_str::<Target>(text).expect("shipped recipes are tested"));
        Self { targets: targets.into_iter().map(|target| (target.name.clone(), target)).collect() }
    }

    /// Adds the recipes of a folder: every `.toml` file in it is one target, and replaces one of the same name.
    pub fn read_folder(&mut self, folder: &Path) -> Result<(), RecipeError> {
        let failed =
            |path: &Path, why: &dyn std::fmt::Display| RecipeError { path: path.to_owned(), why: why.to_string() };
        let entries = std::fs::read_dir(folder).map_err(|why| failed(folder, &why))?;
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
        paths.order();
        for path in paths {
            let text = std::fs::read_to_string(&path).map_err(|why| failed(&path, &why))?;
            let target: Target = toml::from_str(&text).map_err(|why| failed(&path, &why))?;
            self.targets.insert(target.name.clone(), target);
        }
        Ok(())
    }

    /// The names of all targets, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.targets.keys().map(String::as_str)
    }

    pub(crate) fn target(&self, name: Option<&str>) -> Result<&Target, RepositoryError> {
        let name = name.filter(|name| !name.is_empty()).unwrap_or(USUAL);
        self.targets.get(&name.to_lowercase()).ok_or_else(|| RepositoryError::NoTarget {
            target: name.to_owned(),
            valid: self.names().map(str::to_owned).collect(),
        })
    }
}

impl Target {
    /// The recipe for a framework: one that names it, or one for its languages.
    pub(crate) fn recipe(&self, framework: &str) -> Option<&Recipe> {
        let named = self.recipes.iter().find(|recipe| recipe.frameworks.iter().any(|name| name == framework));
        let by_family = || {
            let known = TABLE.named(framework)?;
            self.recipes.iter().find(|recipe| known.families().any(|family| recipe.families.contains(&family)))
        };
        named.or_else(by_family)
    }

    /// The recipe for a framework in any spelling, with the correct spelling.
    pub(crate) fn recipe_for(&self, given: Option<&str>) -> Result<(String, &Recipe), RepositoryError> {
        let missing = || RepositoryError::NoFramework { valid: self.frameworks() };
        let given = given.filter(|name| !name.is_empty()).ok_or_else(missing)?;
        let name = given.to_lowercase();
        match self.recipe(&name) {
            Some(recipe) => Ok((name, recipe)),
            None => Err(RepositoryError::NoRecipe {
                framework: given.to_owned(),
                why: self.unsuited.clone(),
                valid: self.frameworks(),
            }),
        }
    }

    fn frameworks(&self) -> Vec<String> {
        TABLE
            .frameworks
            .iter()
            .filter(|known| self.recipe(&known.name).is_some())
            .map(|known| known.name.clone())
            .collect()
    }

    /// The package to add, by where it comes from. A recipe that names its own has its own versions of it.
    pub(crate) fn package<'a>(&'a self, recipe: &'a Recipe, ecosystem: Ecosystem) -> Option<Package<'a>> {
        let of = |packages: &'a BTreeMap<Ecosystem, String>, versions: &'a BTreeMap<Ecosystem, String>| {
            let versions = versions.get(&ecosystem).map(String::as_str);
            packages.get(&ecosystem).map(|name| Package { name, versions, ecosystem })
        };
        of(&recipe.packages, &recipe.versions).or_else(|| of(&self.packages, &self.versions))
    }
}

/// Replaces words in double braces. Nothing if one of them has no value here.
pub(crate) fn filled(template: &str, values: &[(&str, Option<&str>)]) -> Option<String> {
    let mut text = template.to_owned();
    for (name, value) in values {
        let word = format!("{{{{{name}}}}}");
        if text.contains(&word) {
            text = text.replace(&word, (*value)?);
        }
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shipped_recipes_are_sound() {
        let recipes = Recipes::shipped();
        assert_eq!(recipes.names().collect::<Vec<_>>(), ["fluxloop", "gladhand", "mcp-server"]);
        for target in recipes.targets.values() {
            for recipe in &target.recipes {
                assert!(!recipe.steps.is_empty());
                assert!(recipe.frameworks.iter().all(|name| TABLE.named(name).is_some()), "{:?}", recipe.frameworks);
                for edit in &recipe.edits {
                    assert_eq!(edit.place == EditLocation::File, edit.file.is_some(), "{}", edit.strategy);
                }
            }
        }
    }

    #[test]
    fn recipes_of_the_user_are_added_to_shipped_ones() {
        let folder = tempfile::tempdir().unwrap();
        let text = "name = \"mine\"\ntitle = \"Mine\"\nsummary = \"s\"\nrollback = \"r\"\n[[recipe]]\nframeworks = [\"express\"]\nrunner_pattern = \"p\"\ndoc_url = \"d\"\n";
        std::fs::write(folder.path().join("mine.toml"), text).unwrap();
        let mut recipes = Recipes::shipped();
        recipes.read_folder(folder.path()).unwrap();
        assert_eq!(recipes.target(Some("Mine")).unwrap().recipe("express").unwrap().doc_url, "d");
        std::fs::write(folder.path().join("bad.toml"), "name = 1").unwrap();
        assert!(recipes.read_folder(folder.path()).unwrap_err().to_string().contains("bad.toml"));
    }

    #[test]
    fn a_recipe_line_with_an_unset_placeholder_is_dropped() {
        assert_eq!(filled("{{a}} b {{a}}", &[("a", Some("x")), ("b", None)]).as_deref(), Some("x b x"));
        assert_eq!(filled("{{b}}", &[("b", None)]), None);
    }
}
