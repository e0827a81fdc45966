//! `validate_edit_plan`: applies a plan in memory and reports every problem.
//!
//! The caller may send any plan, so nothing in it is trusted: types, paths and anchors are all checked. A mistake is an
//! entry in the answer, never a failure of the tool.

mod outcome;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use self::outcome::Outcome;
use crate::edit::{Change, Direction, Document, append, place_code, place_import};
use crate::language::Language;
use crate::root::{Outside, Root};
use crate::{RepositoryError, Setting, Stage, text};

/// Strategies that write a whole file.
const CREATES: [&str; 3] = ["create_or_replace", "create_file", "create"];

/// All known strategies, including those of Fluxloop's documentation.
const STRATEGIES: [&str; 10] = [
    "insert_middleware",
    "wrap_router",
    "wrap_bootstrap",
    "create_or_replace",
    "create_file",
    "create",
    "add_decorator",
    "add_import",
    "modify_config",
    "append_file",
];

const CHECKS: [&str; 10] = [
    "required fields",
    "paths inside the root",
    "files exist and can be read",
    "anchors found exactly once",
    "nothing added twice",
    "known strategies and anchors",
    "no overlapping edits",
    "results still parse",
    "patches do what the edits say",
    "checks and rollback given",
];

/// The largest file that a plan may edit.
const LARGEST: u64 = 2 << 20;
/// Maximum number of edits in a plan, and of anchors that are searched for in each edit.
const MOST_EDITS: usize = 200;
const MOST_ANCHORS: usize = 16;

/// The input of `validate_edit_plan`.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct ValidateInput {
    /// The plan, as `propose_edit_plan` gives it.
    #[serde(default)]
    #[schemars(required, with = "Map<String, Value>")]
    pub plan: Option<Value>,
    /// The folder of the repository.
    #[serde(default)]
    pub root: Option<String>,
}

/// The result of checking a plan.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, JsonSchema)]
pub struct Validation {
    /// Whether it can be applied as it is.
    pub valid: bool,
    /// Errors: the plan cannot be applied.
    pub issues: Vec<String>,
    /// Doubts: the plan can be applied, but may be wrong.
    pub warnings: Vec<String>,
    /// The same errors and doubts, with files and lines.
    pub problems: Vec<Problem>,
    /// The checks that were made.
    pub checks_performed: Vec<String>,
}

/// An error or a doubt in a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Problem {
    /// `issue` or `warning`.
    pub severity: &'static str,
    /// The edit, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub edit: Option<usize>,
    /// The file, as the plan names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The line in it, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// The description of the problem.
    pub message: String,
}

/// Checks a plan against the files that it is for.
pub fn validate_edit_plan(input: &ValidateInput, setting: &Setting<'_>) -> Result<Validation, RepositoryError> {
    let Some(Value::Object(plan)) = &input.plan else {
        return Err(RepositoryError::PlanNotObject { is_missing: input.plan.as_ref().is_none_or(Value::is_null) });
    };
    let root = Root::named(setting.places, input.root.as_deref())?;
    let validation = validate(plan, &root);
    setting.progress.report(Stage::Validate, 1, Some(1));
    if setting.progress.cancelled() { Err(RepositoryError::Cancelled) } else { Ok(validation) }
}

/// Checks a plan against the files of a root.
pub(crate) fn validate(plan: &Map<String, Value>, root: &Root) -> Validation {
    let mut check = Check { root, validation: Validation::default(), outcomes: BTreeMap::new() };
    check.missing_fields(plan);
    match plan.get("edits").and_then(Value::as_array).filter(|edits| !edits.is_empty()) {
        None => check.issue(None, None, None, "No edits defined in plan.".to_owned()),
        Some(edits) => {
            if edits.len() > MOST_EDITS {
                check.issue(None, None, None, format!("The plan has more than {MOST_EDITS} edits."));
            }
            edits.iter().take(MOST_EDITS).enumerate().for_each(|(number, edit)| check.edit(number, edit));
        }
    }
    check.results(plan);
    if is_empty(plan.get("postChecks")) {
        check.warning(None, None, None, "plan.postChecks is empty; add verification steps.".to_owned());
    }
    if plan.get("rollback").and_then(|rollback| rollback.get("instruction")).is_none() {
        check.warning(None, None, None, "rollback instruction missing; add guidance for reverting changes.".to_owned());
    }
    check.finished()
}

struct Check<'r> {
    root: &'r Root,
    validation: Validation,
    /// The result of the edits for each file.
    outcomes: BTreeMap<String, Outcome>,
}

/// An edit of an existing file.
#[derive(Clone, Copy)]
struct Subject<'e> {
    number: usize,
    path: &'e str,
    text: &'e str,
    language: Option<Language>,
    /// Whether it writes the whole file.
    creates: bool,
}

/// The position of an anchor, and the position where code goes.
type AnchorMatch = (std::ops::Range<usize>, Direction);

impl Check<'_> {
    fn missing_fields(&mut self, plan: &Map<String, Value>) {
        let missing: Vec<&str> = ["edits", "summary"].into_iter().filter(|name| !plan.contains_key(*name)).collect();
        if !missing.is_empty() {
            self.issue(None, None, None, format!("Missing fields: {}", missing.join(", ")));
        }
    }

    fn edit(&mut self, number: usize, edit: &Value) {
        let Value::Object(edit) = edit else {
            return self.issue(Some(number), None, None, format!("Edit #{number} is not an object."));
        };
        let missing: Vec<&str> =
            ["filepath", "strategy"].into_iter().filter(|name| !edit.contains_key(*name)).collect();
        if !missing.is_empty() {
            self.issue(Some(number), None, None, format!("Edit #{number} missing fields: {}", missing.join(", ")));
        }
        let path = match edit.get("filepath") {
            // The issue was reported above; older callers expect this warning too.
            None => {
                let message = format!("Edit #{number} missing filepath; cannot evaluate anchors.");
                return self.warning(Some(number), None, None, message);
            }
            Some(Value::String(path)) => path,
            Some(_) => {
                return self.issue(Some(number), None, None, format!("Edit #{number}: filepath must be a string."));
            }
        };
        if path.trim().is_empty() {
            return self.issue(Some(number), None, None, format!("Edit #{number}: filepath is empty."));
        }
        let strategy = edit.get("strategy").and_then(Value::as_str).unwrap_or_default();
        if !strategy.is_empty() && !STRATEGIES.contains(&strategy) {
            self.warning(Some(number), Some(path), None, format!("Edit #{number}: unknown strategy '{strategy}'."));
        }
        self.in_file(number, path, CREATES.contains(&strategy), edit);
    }

    fn in_file(&mut self, number: usize, path: &str, creates: bool, edit: &Map<String, Value>) {
        let file = match self.root.inside(path) {
            Ok(file) => file,
            Err(outside) => {
                let how = match outside {
                    Outside::Leaves => "leaves the root",
                    Outside::LinkLeaves => "leads out of the root through a link",
                };
                return self.issue(Some(number), Some(path), None, format!("Edit #{number}: path '{path}' {how}."));
            }
        };
        let payload = match edit.get("payload") {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(payload)) => payload.clone(),
            Some(_) => {
                return self.issue(
                    Some(number),
                    Some(path),
                    None,
                    format!("Edit #{number}: payload must be an object."),
                );
            }
        };
        if !file.exists() {
            if !creates {
                return self.issue(
                    Some(number),
                    Some(path),
                    None,
                    format!("Edit #{number}: file '{path}' does not exist."),
                );
            }
            let code = payload.get("code").and_then(Value::as_str).unwrap_or_default();
            self.outcomes.insert(path.to_owned(), Outcome::created(number, code));
            return;
        }
        let Ok(bytes) = self.root.secrets().read(&file, LARGEST) else {
            return self.issue(Some(number), Some(path), None, format!("Edit #{number}: unable to read '{path}'."));
        };
        let document = Document::new(&text::decode(&bytes));
        let language = Language::of(path, &bytes);
        let subject = Subject { number, path, text: &document.text, language, creates };
        let anchor_matches = self.anchors(&subject, edit);
        let changes = self.changes(&subject, &payload, anchor_matches);
        let outcome = self.outcomes.entry(path.to_owned()).or_insert_with(|| Outcome::changed(document, language));
        outcome.changes.extend(changes.into_iter().map(|change| (number, change)));
    }

    /// The positions of the anchors of an edit that occur exactly once.
    fn anchors(&mut self, subject: &Subject<'_>, edit: &Map<String, Value>) -> Vec<AnchorMatch> {
        let Subject { number, path, text, creates, .. } = *subject;
        let anchors: Vec<&Value> = match edit.get("anchors") {
            Some(Value::Array(anchors)) => anchors.iter().take(MOST_ANCHORS).collect(),
            Some(one @ Value::Object(_)) => vec![one],
            _ => Vec::new(),
        };
        if anchors.is_empty() && !creates {
            let message = format!("Edit #{number}: no anchors specified; manual placement required.");
            self.warning(Some(number), Some(path), None, message);
        }
        let mut anchor_matches = Vec::new();
        for anchor in anchors {
            let kind = anchor.get("type").and_then(Value::as_str).unwrap_or("after_match");
            let Some(direction) = Direction::named(kind) else {
                self.warning(Some(number), Some(path), None, format!("Edit #{number}: unknown anchor type '{kind}'."));
                continue;
            };
            let pattern = match anchor.get("pattern") {
                Some(Value::String(pattern)) => pattern.replace("\r\n", "\n"),
                None | Some(Value::Null) => String::new(),
                Some(_) => {
                    self.issue(
                        Some(number),
                        Some(path),
                        None,
                        format!("Edit #{number}: anchor pattern must be a string."),
                    );
                    continue;
                }
            };
            if pattern.is_empty() {
                continue;
            }
            let found: Vec<usize> = memchr::memmem::find_iter(text.as_bytes(), &pattern).collect();
            match found.as_slice() {
                [] => {
                    let message = format!("Edit #{number}: anchor pattern '{pattern}' not found in '{path}'.");
                    self.issue(Some(number), Some(path), None, message);
                }
                [at] => anchor_matches.push((*at..at + pattern.len(), direction)),
                [_, second, ..] => {
                    let line = text::line_at(text, *second);
                    let times = found.len();
                    let message =
                        format!("Edit #{number}: anchor pattern '{pattern}' occurs {times} times in '{path}'.");
                    self.issue(Some(number), Some(path), Some(line), message);
                }
            }
        }
        anchor_matches
    }

    /// The changes of an edit in an existing file.
    fn changes(
        &mut self,
        subject: &Subject<'_>,
        payload: &Map<String, Value>,
        anchor_matches: Vec<AnchorMatch>,
    ) -> Vec<Change> {
        let Subject { number, path, text, language, creates } = *subject;
        let mut changes = Vec::new();
        let new = |check: &mut Self, key: &str| {
            let snippet = payload.get(key).and_then(Value::as_str)?;
            let Some(at) = text.find(snippet.trim_matches('\n')) else { return Some(snippet) };
            let message = format!("Edit #{number}: {key} snippet already present in '{path}'.");
            check.warning(Some(number), Some(path), Some(text::line_at(text, at)), message);
            None
        };
        if let Some(import) = new(self, "import") {
            changes.push(place_import(language, path, text, import));
        }
        match new(self, "code") {
            None => {}
            Some(code) if creates && anchor_matches.is_empty() => {
                changes.push(Change { range: 0..text.len(), text: code.to_owned() });
            }
            Some(code) => changes.extend(anchor_matches.into_iter().map(|(at, direction)| match direction {
                Direction::Append => append(text, code),
                _ => place_code(text, at, direction, code),
            })),
        }
        changes
    }

    /// Checks that edits do not overlap and that the results can still be parsed.
    fn results(&mut self, plan: &Map<String, Value>) {
        let outcomes = std::mem::take(&mut self.outcomes);
        for (path, outcome) in &outcomes {
            if let Some((earlier, later, line)) = outcome.overlap() {
                let message = format!("Edit #{later}: overlaps with edit #{earlier} in '{path}'.");
                self.issue(Some(later), Some(path), Some(line), message);
                continue;
            }
            if let Some((edit, line, why)) = outcome.mistake(path) {
                self.issue(
                    edit,
                    Some(path),
                    Some(line),
                    format!("The result does not parse: '{path}' line {line}{why}."),
                );
            }
        }
        for patch in plan.get("patches").and_then(Value::as_array).into_iter().flatten() {
            let (Some(path), Some(diff)) =
                (patch.get("filepath").and_then(Value::as_str), patch.get("diff").and_then(Value::as_str))
            else {
                continue;
            };
            if let Some(why) = outcomes.get(path).and_then(|outcome| outcome.differs_from(diff)) {
                self.issue(None, Some(path), None, format!("The patch for '{path}' {why}."));
            }
        }
    }

    fn issue(&mut self, edit: Option<usize>, file: Option<&str>, line: Option<usize>, message: String) {
        self.validation.issues.push(message.clone());
        self.problem("issue", edit, file, line, message);
    }

    fn warning(&mut self, edit: Option<usize>, file: Option<&str>, line: Option<usize>, message: String) {
        self.validation.warnings.push(message.clone());
        self.problem("warning", edit, file, line, message);
    }

    fn problem(
        &mut self,
        severity: &'static str,
        edit: Option<usize>,
        file: Option<&str>,
        line: Option<usize>,
        message: String,
    ) {
        self.validation.problems.push(Problem { severity, edit, file: file.map(str::to_owned), line, message });
    }

    fn finished(mut self) -> Validation {
        self.validation.valid = self.validation.issues.is_empty();
        self.validation.checks_performed = CHECKS.map(str::to_owned).to_vec();
        self.validation
    }
}

/// Nothing, or what counts as nothing in the language of the first server.
fn is_empty(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null | Value::Bool(false)) => true,
        Some(Value::String(text)) => text.is_empty(),
        Some(Value::Array(list)) => list.is_empty(),
        Some(Value::Object(object)) => object.is_empty(),
        Some(Value::Number(number)) => number.as_f64() == Some(0.0),
        Some(Value::Bool(true)) => false,
    }
}
