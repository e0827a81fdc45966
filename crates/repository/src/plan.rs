//! `propose_edit_plan`: the edits of a recipe, anchored in existing text.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::edit::{Change, Direction, Document, anchor_before, append, apply, creation, place_code, place_import};
use crate::integration::{Integration, IntegrationInput, Look};
use crate::language::Language;
use crate::manifest::{Addition, addition};
use crate::recipes::{EditLocation, EditRecipe, Recipe, Target};
use crate::site::Site;
use crate::survey::{FileFacts, Survey};
use crate::{RepositoryError, Setting, Stage};

/// The edits that integrate a target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Plan {
    /// A summary in one sentence.
    pub summary: String,
    /// The edits, in order.
    pub edits: Vec<Edit>,
    /// Commands that check the result.
    #[serde(rename = "postChecks")]
    pub post_checks: Vec<String>,
    /// How to undo it.
    pub rollback: Rollback,
    /// Warnings for the user.
    pub warnings: Vec<String>,
    /// The framework.
    pub framework: String,
    /// The integration target.
    pub target: String,
    /// The exact changes, one unified diff for each file.
    pub patches: Vec<Patch>,
}

/// One edit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Edit {
    /// The file, relative to the root.
    pub filepath: String,
    /// The kind of edit.
    pub strategy: String,
    /// The positions of the edit. Empty: the payload is the whole file.
    pub anchors: Vec<EditAnchor>,
    /// The text to insert.
    pub payload: Payload,
    /// The reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rationale: Option<String>,
}

/// A position in a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct EditAnchor {
    /// `after_match`, `append_file` or `replace_match`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// Literal text that the file has exactly once.
    pub pattern: String,
}

/// The text that an edit inserts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Payload {
    /// Text for the imports of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub import: Option<String>,
    /// Text for the position of the anchor.
    pub code: String,
}

/// How to undo a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Rollback {
    /// The command.
    pub instruction: String,
}

/// The changes of the plan in one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Patch {
    /// The file, relative to the root.
    pub filepath: String,
    /// A unified diff.
    pub diff: String,
}

/// Proposes edits for a framework.
pub fn propose_edit_plan(input: &IntegrationInput, setting: &Setting<'_>) -> Result<Plan, RepositoryError> {
    let integration = Integration::of(input, Look::Always, setting)?;
    let plan = Plan::of(&integration.site(), integration.target, integration.recipe);
    setting.progress.report(Stage::Plan, 1, Some(1));
    Ok(plan)
}

impl Plan {
    pub(crate) fn of(site: &Site<'_>, target: &Target, recipe: &Recipe) -> Self {
        let mut draft = Draft { title: target.title.clone(), ..Draft::default() };
        match site.doubt() {
            Some(doubt) => draft.warn(doubt),
            None => {
                for edit in recipe.edits.iter().filter(|edit| applies(edit, site)) {
                    draft.add(site, target, recipe, edit);
                }
            }
        }
        if !draft.edits.is_empty() {
            draft.add_dependency(site, target, recipe);
        }
        if draft.edits.is_empty() && draft.warnings.is_empty() {
            draft.warnings.push("The recipe has no edits for this project; follow its steps.".to_owned());
        }
        let mut post_checks = site.checks();
        if post_checks.is_empty() {
            post_checks.push("Run project tests or build command to ensure integration is successful.".to_owned());
        }
        let instruction = draft.rollback(&target.rollback);
        Self {
            summary: site.fill(&target.summary, target, recipe).unwrap_or_else(|| target.title.clone()),
            patches: draft.patches(),
            edits: draft.edits,
            post_checks,
            rollback: Rollback { instruction },
            warnings: draft.warnings,
            framework: site.framework.to_owned(),
            target: target.name.clone(),
        }
    }
}

/// Whether an edit is intended for a project like this one.
fn applies(edit: &EditRecipe, site: &Site<'_>) -> bool {
    let has_folder = |folder: &str| {
        let folder = format!("{}/", site.outer(folder));
        site.project.is_some_and(|(survey, _)| survey.files.iter().any(|file| file.path.starts_with(&folder)))
    };
    edit.beside.as_deref().is_none_or(has_folder) && edit.only.is_none_or(|only| site.family() == Some(only))
}

/// A plan under construction.
#[derive(Debug, Default)]
struct Draft {
    /// The name of the integration target, for people.
    title: String,
    edits: Vec<Edit>,
    warnings: Vec<String>,
    /// The changes of existing files.
    changed: BTreeMap<String, (Document, Vec<Change>)>,
    created: BTreeMap<String, String>,
}

impl Draft {
    fn add(&mut self, site: &Site<'_>, target: &Target, recipe: &Recipe, edit: &EditRecipe) {
        let missing = || {
            recipe
                .missing
                .clone()
                .unwrap_or_else(|| "The statement that makes the application object was not found.".to_owned())
        };
        let Some(code) = site.fill(&edit.code, target, recipe) else { return self.warn(missing()) };
        match (edit.place, &edit.file) {
            (EditLocation::File, Some(file)) => self.add_file(site, edit, site.outer(file), &code),
            _ => match Spot::of(site) {
                Some(spot) => {
                    let import = spot.import(edit).and_then(|import| site.fill(import, target, recipe));
                    self.add_change(edit, &spot, import, code);
                }
                None => self.warn(missing()),
            },
        }
    }

    fn add_file(&mut self, site: &Site<'_>, edit: &EditRecipe, path: String, code: &str) {
        let exists =
            |survey: &Survey| survey.has_file(&path) || survey.root.inside(&path).is_ok_and(|file| file.exists());
        if site.project.is_some_and(|(survey, _)| exists(survey)) {
            return self.warn(format!("{path} exists already and is left as it is."));
        }
        let code = code.trim_start_matches('\n').to_owned();
        self.created.insert(path.clone(), code.clone());
        self.edits.push(Edit {
            filepath: path,
            strategy: edit.strategy.clone(),
            anchors: Vec::new(),
            payload: Payload { import: None, code },
            rationale: edit.rationale.clone(),
        });
    }

    fn add_change(&mut self, edit: &EditRecipe, spot: &Spot<'_>, import: Option<String>, code: String) {
        let Spot { file: FileFacts { path, language, .. }, document, anchor } = spot;
        let has = |needle: &str| document.text.contains(needle.trim_matches('\n'));
        if has(&code) || edit.unless.iter().any(|sign| has(sign)) {
            if import.as_deref().is_some_and(has) {
                self.warn(format!("Import already present in {path}; avoid duplicates."));
            }
            return self.warn(format!("{} code snippet already exists in {path}.", self.title));
        }
        let mut import = import.map(|import| import.trim_matches('\n').to_owned());
        if import.as_deref().is_some_and(has) {
            self.warn(format!("Import already present in {path}; avoid duplicates."));
            import = None;
        }
        let Some(at) = document.text.find(*anchor) else {
            return self.warn(format!("Anchor pattern '{anchor}' not found in {path}."));
        };
        let mut changes = Vec::new();
        changes.extend(import.as_deref().map(|import| place_import(*language, path, &document.text, import)));
        let (kind, change) = match edit.place {
            EditLocation::End => ("append_file", append(&document.text, &code)),
            EditLocation::Constructor | EditLocation::File => {
                ("after_match", place_code(&document.text, at..at + anchor.len(), Direction::After, &code))
            }
        };
        changes.push(change);
        let entry = self.changed.entry(path.clone()).or_insert_with(|| (document.clone(), Vec::new()));
        entry.1.extend(changes);
        self.edits.push(Edit {
            filepath: path.clone(),
            strategy: edit.strategy.clone(),
            anchors: vec![EditAnchor { kind, pattern: (*anchor).to_owned() }],
            payload: Payload { import, code },
            rationale: edit.rationale.clone(),
        });
    }

    /// Adds the package that the edits import to the dependencies of the project.
    fn add_dependency(&mut self, site: &Site<'_>, target: &Target, recipe: &Recipe) {
        let Some((package, command)) = site.install(target, recipe) else { return };
        let manifests = site.declaring(package.ecosystem);
        if manifests.iter().any(|(_, manifest)| manifest.needs(&package)) {
            return;
        }
        let declare = |path: &str| {
            let document = Document::new(&site.project?.0.plain_text_of(path)?);
            let Addition { at, text } = addition(path, &document.text, &package)?;
            let anchor = anchor_before(&document.text, at)?.to_owned();
            Some((path.to_owned(), document, at, anchor, text))
        };
        let Some((path, document, at, anchor, text)) = manifests.iter().find_map(|(file, _)| declare(&file.path))
        else {
            return self.warn(format!("{} must be added to the dependencies of the project: {command}", package.name));
        };
        self.edits.push(Edit {
            filepath: path.clone(),
            strategy: "modify_config".to_owned(),
            payload: Payload { import: None, code: format!("{anchor}{text}") },
            anchors: vec![EditAnchor { kind: "replace_match", pattern: anchor }],
            rationale: Some(format!("The code needs {}. `{command}` declares it too, and fetches it.", package.name)),
        });
        self.changed.insert(path, (document, vec![Change { range: at..at, text }]));
    }

    fn warn(&mut self, warning: String) {
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    /// The commands that undo the edits. They touch only the edited files, because other files may hold uncommitted
    /// work.
    fn rollback(&self, restore: &str) -> String {
        let files = |is_created: bool| -> Vec<String> {
            let files = self.files().into_iter().filter(|file| self.created.contains_key(*file) == is_created);
            files.map(quoted).collect()
        };
        let (changed, created) = (files(false).join(" "), files(true).join(" "));
        let mut commands = Vec::new();
        if !changed.is_empty() {
            commands.push(restore.replace("{{files}}", &changed));
        }
        if !created.is_empty() {
            // Git does not know these files yet, so it cannot restore them.
            commands.push(format!("rm -- {created}"));
        }
        if commands.is_empty() { "Nothing to undo: the plan has no edits.".to_owned() } else { commands.join(" && ") }
    }

    /// The files that the edits touch, in their order.
    fn files(&self) -> Vec<&str> {
        let mut files: Vec<&str> = Vec::new();
        for Edit { filepath, .. } in &self.edits {
            if !files.contains(&filepath.as_str()) {
                files.push(filepath);
            }
        }
        files
    }

    fn patches(&self) -> Vec<Patch> {
        let diff = |path: &str| match self.changed.get(path) {
            Some((document, changes)) => {
                document.diff(path, &apply(&document.text, &changes.iter().collect::<Vec<_>>()))
            }
            None => creation(path, self.created.get(path).map(String::as_str).unwrap_or_default()),
        };
        self.files().into_iter().map(|path| Patch { filepath: path.to_owned(), diff: diff(path) }).collect()
    }
}

/// A path quoted as one word of a shell command.
fn quoted(path: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | '@' | '+');
    if path.chars().all(is_plain) { path.to_owned() } else { format!("'{}'", path.replace('\'', r"'\''")) }
}

/// The statement that creates the application object, with its file.
struct Spot<'s> {
    file: &'s FileFacts,
    document: Document,
    anchor: &'s str,
}

impl<'s> Spot<'s> {
    fn of(site: &Site<'s>) -> Option<Self> {
        let ((survey, _), (file, finding)) = site.project.zip(site.constructor)?;
        Some(Self { file, document: Document::new(&survey.text_of(&file.path)?), anchor: finding.anchor.as_deref()? })
    }

    /// The import in the style of the file: a file that only uses `require` gets a `require`.
    fn import<'e>(&self, edit: &'e EditRecipe) -> Option<&'e String> {
        let is_commonjs = self.file.language == Some(Language::Javascript)
            && self.document.text.contains("require(")
            && !self.document.text.lines().any(|line| line.starts_with("import "));
        if is_commonjs { edit.require.as_ref().or(edit.import.as_ref()) } else { edit.import.as_ref() }
    }
}
