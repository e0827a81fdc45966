//! Whether arguments and results are what a tool's schemas say.
//!
//! A schema may come from an upstream and arguments from anybody, so nothing here may take long or reach out: remote
//! references are never fetched, patterns run in linear time, and what a schema can cost is weighed before it is used
//! (`weight.rs`). A schema that cannot be used checks nothing; the log says so once.

use std::fmt::Write as _;
use std::sync::OnceLock;

use gladhand_operations::{Failure, FailureKind, Reply, Tool, ToolResult};
use gladhand_wire::RawValue;
use jsonschema::paths::{Location, LocationSegment};
use jsonschema::{PatternOptions, ValidationError, Validator};
use serde_json::Value;

use crate::weight::Weight;

/// The longest schema that is used.
const LONGEST: usize = 256 * 1024;

/// How much a compiled pattern may take.
const LARGEST_PATTERN: usize = 1024 * 1024;

/// How many problems are told at once.
const PROBLEMS: usize = 5;

/// How many characters of a problem are told: it may quote what was sent.
const PROBLEM_CHARS: usize = 200;

/// The schemas of one tool, compiled when they are first needed.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    input: OnceLock<Option<Check>>,
    output: OnceLock<Option<Check>>,
}

impl Checks {
    /// Whether a tool may be called with these arguments.
    pub(crate) fn arguments(&self, tool: &Tool, arguments: &RawValue) -> Result<(), Failure> {
        let check = self.input.get_or_init(|| Check::of(tool, "input", &tool.input_schema));
        let problems = check.as_ref().and_then(|check| check.problems("arguments", arguments));
        problems.map_or(Ok(()), |problems| Err(Failure::new(FailureKind::InvalidArguments, problems)))
    }

    /// Whether a tool may return this. What it says of a failure is not held to the schema.
    pub(crate) fn reply(&self, tool: &Tool, reply: &Reply) -> Result<(), Failure> {
        let Reply::Tool(ToolResult { structured: Some(data), failed: false, .. }) = reply else { return Ok(()) };
        let Some(schema) = &tool.output_schema else { return Ok(()) };
        let check = self.output.get_or_init(|| Check::of(tool, "output", schema));
        match check.as_ref().and_then(|check| check.problems("result", data)) {
            None => Ok(()),
            Some(problems) => {
                let message = format!("the tool returned what its own schema forbids: {problems}");
                Err(Failure::new(FailureKind::ToolFailed, message))
            }
        }
    }
}

/// One schema that can be used.
#[derive(Debug)]
pub(crate) struct Check {
    validator: Validator,
    weight: Weight,
}

impl Check {
    fn of(tool: &Tool, which: &'static str, schema: &RawValue) -> Option<Self> {
        let compiled = Self::compile(schema.get());
        compiled.inspect_err(|why| tracing::warn!(tool = tool.name, which, why, "this schema checks nothing")).ok()
    }

    pub(crate) fn compile(schema: &str) -> Result<Self, String> {
        if schema.len() > LONGEST {
            return Err(format!("it is longer than {LONGEST} bytes"));
        }
        let schema: Value = serde_json::from_str(schema).map_err(|error| error.to_string())?;
        let weight = Weight::of(&schema)?;
        let validator = jsonschema::options()
            .offline()
            .with_pattern_options(PatternOptions::regex().size_limit(LARGEST_PATTERN))
            .build(&schema)
            .map_err(|error| shortened(&error.to_string()))?;
        Ok(Self { validator, weight })
    }

    /// Whether a value is right for certain: what would take too long to find out is not.
    pub(crate) fn holds(&self, value: &Value) -> bool {
        self.weight.allows(value) && self.validator.is_valid(value)
    }

    /// What is wrong with a value, if anything is: each problem with its place.
    fn problems(&self, root: &str, value: &RawValue) -> Option<String> {
        // What is nested too deeply to be read is for the tool to refuse.
        let value: Value = serde_json::from_str(value.get()).ok()?;
        if !self.weight.allows(&value) || self.validator.is_valid(&value) {
            return None;
        }
        let mut errors = self.validator.iter_errors(&value);
        let told: Vec<String> = errors.by_ref().take(PROBLEMS).map(|error| told(root, &error)).collect();
        let more = if errors.next().is_some() { "; and more" } else { "" };
        Some(told.join("; ") + more)
    }
}

/// A problem and its place, such as `arguments.limit: 7 is greater than the maximum of 5`.
fn told(root: &str, error: &ValidationError<'_>) -> String {
    shortened(&format!("{}: {error}", place(root, error.instance_path())))
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
