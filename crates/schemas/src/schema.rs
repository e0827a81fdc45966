//! Validates arguments and results against the schemas of a tool.
//!
//! A schema may come from an upstream, and arguments from any client, so a check must be fast and must not use the
//! network. Remote references are never fetched, patterns run in linear time, and the cost of a check is computed
//! before the check (`weight.rs`). A value that would cost too much is refused. A schema that cannot be used checks
//! nothing; the log says so once.

use std::fmt::{self, Write as _};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use gladhand_core::operations::{Failure, FailureKind, Reply, Tool, ToolResult};
use gladhand_core::validation::{ArgumentSchema, TOO_COSTLY, ToolChecks, Validation, Verdict};
use gladhand_core::wire::RawValue;
use gladhand_core::wire::values::{self, ReadError};
use jsonschema::paths::{Location, LocationSegment};
use jsonschema::{PatternOptions, ValidationError, Validator};
use serde_json::Value;

use crate::unique_items::UniqueItems;
use crate::weight::Weight;

/// Maximum length of a schema in bytes.
const LONGEST: usize = 256 * 1024;

/// Maximum size of a compiled pattern in bytes.
const LARGEST_PATTERN: usize = 1024 * 1024;

/// Maximum size of all patterns of a schema in bytes.
const ALL_PATTERNS: usize = 4 * LARGEST_PATTERN;

/// Maximum estimated size in bytes of all compiled schemas in this process. Beyond it, a schema is compiled again for
/// each call.
const MOST_KEPT: usize = 64 * 1024 * 1024;

/// Their current size in bytes.
static KEPT: AtomicUsize = AtomicUsize::new(0);

/// Maximum number of problems in one message.
const PROBLEMS: usize = 5;

/// Maximum number of characters of a problem, which may quote the value that was sent.
const PROBLEM_CHARS: usize = 200;

/// Validates the calls of tools with the `jsonschema` crate.
#[derive(Debug, Clone, Copy, Default)]
pub struct Schemas;

impl Validation for Schemas {
    fn of_tool(&self) -> Box<dyn ToolChecks> {
        Box::<Checks>::default()
    }
}

/// The schemas of one tool, compiled when they are first needed.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    input: Compiled,
    output: Compiled,
}

/// A compiled schema that is kept; `None` inside: the schema cannot be used.
#[derive(Debug, Default)]
struct Compiled(OnceLock<Option<(Check, KeptShare)>>);

impl Compiled {
    /// Uses the schema, and compiles it first if necessary.
    fn with<T>(&self, compile: impl FnOnce() -> Option<Check>, look: impl FnOnce(Option<&Check>) -> T) -> T {
        if let Some(compiled) = self.0.get() {
            return look(compiled.as_ref().map(|(check, _)| check));
        }
        let Some(check) = compile() else {
            let _ = self.0.set(None);
            return look(None);
        };
        let looked = look(Some(&check));
        if let Some(kept) = KeptShare::take(check.memory()) {
            // Another call may have stored it first.
            let _ = self.0.set(Some((check, kept)));
        }
        looked
    }
}

/// A share of [`KEPT`].
#[derive(Debug)]
struct KeptShare(usize);

impl KeptShare {
    fn take(bytes: usize) -> Option<Self> {
        let add = |kept: usize| kept.checked_add(bytes).filter(|kept| *kept <= MOST_KEPT);
        KEPT.try_update(Ordering::Relaxed, Ordering::Relaxed, add).ok().map(|_| Self(bytes))
    }
}

impl Drop for KeptShare {
    fn drop(&mut self) {
        KEPT.fetch_sub(self.0, Ordering::Relaxed);
    }
}

impl ToolChecks for Checks {
    fn arguments(&self, tool: &Tool, arguments: &RawValue) -> Result<(), Failure> {
        let compile = || Check::of(tool, "input", &tool.input_schema);
        let checked =
            self.input.with(compile, |check| check.map_or(Ok(()), |check| check.check("arguments", arguments)));
        checked.map_err(|problem| Failure::new(FailureKind::InvalidArguments, problem.to_string()))
    }

    fn reply(&self, tool: &Tool, reply: &Reply) -> Result<(), Failure> {
        let Reply::Tool(ToolResult { structured: Some(data), failed: false, .. }) = reply else { return Ok(()) };
        let Some(schema) = &tool.output_schema else { return Ok(()) };
        let compile = || Check::of(tool, "output", schema);
        let checked = self.output.with(compile, |check| check.map_or(Ok(()), |check| check.check("result", data)));
        checked.map_err(|problem| {
            let what = match problem {
                Problem::Violations(_) => "the result of the tool violates its output schema",
                Problem::CannotBeTold(_) => "the result of the tool cannot be checked against its output schema",
            };
            Failure::new(FailureKind::ToolFailed, format!("{what}: {problem}"))
        })
    }
}

/// The reason for refusing a value.
#[derive(Debug)]
pub enum Problem {
    /// The violations, each with its place.
    Violations(String),
    /// The reason why the value cannot be checked.
    CannotBeTold(String),
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Violations(told) | Self::CannotBeTold(told) => f.write_str(told),
        }
    }
}

/// One usable schema.
#[derive(Debug)]
pub struct Check {
    validator: Validator,
    weight: Weight,
}

impl Check {
    fn of(tool: &Tool, which: &'static str, schema: &RawValue) -> Option<Self> {
        let compiled = Self::compile(schema.get());
        compiled.inspect_err(|why| tracing::warn!(tool = tool.name, which, why, "this schema checks nothing")).ok()
    }

    /// Compiles a schema, or returns the reason why it cannot be used.
    pub fn compile(schema: &str) -> Result<Self, String> {
        if schema.len() > LONGEST {
            return Err(format!("it is longer than {LONGEST} bytes"));
        }
        let schema: Value = values::read(schema).map_err(|error| error.to_string())?;
        let weight = Weight::of(&schema)?;
        let share = largest_pattern(&weight);
        let validator = jsonschema::options()
            .offline()
            .with_pattern_options(PatternOptions::regex().size_limit(share).dfa_size_limit(share))
            .with_keyword("uniqueItems", UniqueItems::build)
            .build(&schema)
            .map_err(|error| shortened(&error.to_string()))?;
        Ok(Self { validator, weight })
    }

    /// The approximate size in bytes: each pattern, and as much again to match with it.
    fn memory(&self) -> usize {
        self.weight.memory(2 * largest_pattern(&self.weight))
    }

    /// Whether a value, which is called `root` in messages, matches.
    fn check(&self, root: &str, raw: &RawValue) -> Result<(), Problem> {
        let value: Value = values::read(raw.get()).map_err(|error| match error {
            ReadError::TooManyValues => Problem::CannotBeTold(format!("{root}: {TOO_COSTLY}")),
            ReadError::Json(error) => Problem::CannotBeTold(shortened(&format!("{root}: {error}"))),
        })?;
        if !self.weight.allows_any_of(raw.get().len()) {
            return self.check_value(root, &value);
        }
        self.find_problems(root, &value, shown)
    }

    /// Whether a value, which is called `root` in messages, matches.
    pub fn check_value(&self, root: &str, value: &Value) -> Result<(), Problem> {
        self.affordable(root, value)?;
        self.find_problems(root, value, shown)
    }

    /// Whether a value that may hold secrets matches. Messages do not quote it.
    pub fn check_secret(&self, root: &str, value: &Value) -> Result<(), Problem> {
        self.affordable(root, value)?;
        self.find_problems(root, value, |error| error.masked().to_string())
    }

    fn affordable(&self, root: &str, value: &Value) -> Result<(), Problem> {
        if self.weight.allows(value) {
            return Ok(());
        }
        Err(Problem::CannotBeTold(format!("{root}: {TOO_COSTLY}")))
    }

    fn find_problems(
        &self,
        root: &str,
        value: &Value,
        words: impl Fn(&ValidationError<'_>) -> String,
    ) -> Result<(), Problem> {
        if self.validator.is_valid(value) {
            return Ok(());
        }
        if !self.weight.allows_details(value) {
            return Err(Problem::Violations(format!("{root}: the schema forbids it, and it is too large for details")));
        }
        let mut errors = self.validator.iter_errors(value);
        // Such as `arguments.limit: 7 is greater than the maximum of 5`.
        let told = |error: ValidationError<'_>| {
            shortened(&format!("{}: {}", place(root, error.instance_path()), words(&error)))
        };
        let told: Vec<String> = errors.by_ref().take(PROBLEMS).map(told).collect();
        let more = if errors.next().is_some() { "; and more" } else { "" };
        Err(Problem::Violations(told.join("; ") + more))
    }
}

impl ArgumentSchema for Check {
    fn verdict(&self, arguments: &Value) -> Verdict {
        if !self.weight.allows(arguments) {
            Verdict::CannotBeTold
        } else if self.validator.is_valid(arguments) {
            Verdict::Fits
        } else {
            Verdict::DoesNotFit
        }
    }
}

/// The text of a problem, which quotes the value.
fn shown(error: &ValidationError<'_>) -> String {
    error.to_string()
}

/// Maximum size of each pattern of a schema in bytes.
fn largest_pattern(weight: &Weight) -> usize {
    LARGEST_PATTERN.min(ALL_PATTERNS / weight.patterns().max(1))
}

fn place(root: &str, location: &Location) -> String {
    let mut place = root.to_owned();
    for segment in location {
        match segment {
            LocationSegment::Property(name) => place.extend([".", &name]),
            LocationSegment::Index(index) => {
                let _ = write!(place, "[{index}]");
            }
        }
    }
    place
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(PROBLEM_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
#[path = "schema_tests.rs"]
mod tests;
