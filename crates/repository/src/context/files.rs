//! Files and folders that a question is about.

use std::path::Path;

use gladhand_core::Order as _;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{LARGEST, SHORT};
use crate::root::Root;
use crate::text;

/// How many targets count, and how many names of a folder are shown.
const MOST: usize = 10;

/// The files and folders that a question is about.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContextInput {
    /// Free text, such as `workspace`, `activeFile`, `selection`, `folder` or `files`.
    #[serde(default)]
    pub scope: Option<String>,
    /// Files or folders, relative to the root or absolute. The first ten count.
    #[serde(default)]
    pub targets: Option<Vec<String>>,
    /// The text that is selected in the editor.
    #[serde(default)]
    pub selection_snippet: Option<String>,
}

/// The files and folders that a question is about, with their contents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IntegrationContext {
    /// The scope of the input, or `workspace`.
    pub scope: String,
    /// As given.
    pub selection_snippet: Option<String>,
    /// The targets of the input, or the root.
    pub targets: Vec<String>,
    /// The contents of the targets.
    pub files: Vec<ContextFile>,
    /// Targets that could not be read.
    pub errors: Vec<ContextError>,
    /// The question.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub question: Option<String>,
}

/// A file or a folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum ContextFile {
    /// A folder, with some of the names in it, sorted.
    Directory {
        /// Relative to the root.
        path: String,
        /// At most ten names.
        entries: Vec<String>,
    },
    /// A file, with its beginning.
    File {
        /// Relative to the root.
        path: String,
        /// In bytes.
        size: u64,
        /// Its first 2000 characters.
        snippet: String,
    },
}

/// A target that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ContextError {
    /// Always `collect_context`.
    pub stage: &'static str,
    /// As given.
    pub target: String,
    /// The reason why it could not be read.
    pub message: String,
}

impl IntegrationContext {
    pub(crate) fn of(root: &Root, input: &ContextInput, question: Option<&str>) -> Self {
        let given: Vec<String> = input.targets.iter().flatten().take(MOST).cloned().collect();
        let targets = if given.is_empty() { vec![root.shown()] } else { given };
        let (mut files, mut errors) = (Vec::new(), Vec::new());
        for target in &targets {
            match look(root, target) {
                Ok(file) => files.push(file),
                Err(message) => errors.push(ContextError { stage: "collect_context", target: target.clone(), message }),
            }
        }
        let scope = input.scope.clone().filter(|scope| !scope.is_empty()).unwrap_or_else(|| "workspace".to_owned());
        let question = question.map(str::to_owned);
        Self { scope, selection_snippet: input.selection_snippet.clone(), targets, files, errors, question }
    }
}

impl ContextFile {
    pub(crate) fn path(&self) -> &str {
        match self {
            Self::Directory { path, .. } | Self::File { path, .. } => path,
        }
    }
}

fn look(root: &Root, target: &str) -> Result<ContextFile, String> {
    // An absolute target is compared by its parts, so that a sibling of a similar name is outside.
    let inner = match Path::new(target).strip_prefix(root.path()) {
        Ok(inner) => inner.to_string_lossy().into_owned(),
        Err(_) => target.to_owned(),
    };
    let resolved = if inner.is_empty() { Ok(root.path().to_path_buf()) } else { root.inside(&inner) };
    let path = resolved.map_err(|_| "Target outside workspace; skipped".to_owned())?;
    let shown = match path.strip_prefix(root.path()) {
        Ok(relative) if relative.as_os_str().is_empty() => ".".to_owned(),
        Ok(relative) => relative.to_string_lossy().replace('\\', "/"),
        Err(_) => return Err("Target outside workspace; skipped".to_owned()),
    };
    if root.secrets().cover(&path) {
        return Err("Files that may hold secrets are not shown".to_owned());
    }
    if path.is_dir() {
        let entries = std::fs::read_dir(&path).map_err(|why| format!("Unable to read directory: {}", why.kind()))?;
        let mut names: Vec<String> =
            entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.order();
        names.truncate(MOST);
        Ok(ContextFile::Directory { path: shown, entries: names })
    } else if path.is_file() {
        let bytes =
            root.secrets().read(&path, LARGEST).map_err(|why| format!("Unable to read file: {}", why.kind()))?;
        let snippet = text::decode(&bytes).chars().take(SHORT).collect();
        Ok(ContextFile::File { path: shown, size: bytes.len() as u64, snippet })
    } else {
        Err("Target is neither file nor directory".to_owned())
    }
}
