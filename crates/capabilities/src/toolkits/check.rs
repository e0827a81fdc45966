//! Whether a configuration is what a toolkit's schema asks for.

use jsonschema::paths::{Location, LocationSegment};
use jsonschema::{PatternOptions, Validator};
use serde_json::Value;

/// How much a compiled pattern may take.
const LARGEST_PATTERN: usize = 1024 * 1024;

/// How many problems are told at once.
const PROBLEMS: usize = 5;

/// A schema that can be used. Nothing that it refers to is fetched.
#[derive(Debug)]
pub(super) struct Check(Validator);

impl Check {
    pub(super) fn new(schema: &Value) -> Result<Self, String> {
        jsonschema::options()
            .offline()
            .with_pattern_options(PatternOptions::regex().size_limit(LARGEST_PATTERN))
            .build(schema)
            .map(Self)
            .map_err(|error| error.to_string())
    }

    /// What is wrong with a configuration, each problem with its place. What is in it may be secret and is not repeated.
    pub(super) fn holds(&self, config: &Value) -> Result<(), String> {
        let problems = self.0.iter_errors(config).take(PROBLEMS);
        let told: Vec<_> =
            problems.map(|problem| format!("{}: {}", place(problem.instance_path()), problem.masked())).collect();
        if told.is_empty() { Ok(()) } else { Err(told.join("; ")) }
    }
}

fn place(location: &Location) -> String {
    location.iter().fold("config".to_owned(), |place, segment| match segment {
        LocationSegment::Property(name) => format!("{place}.{name}"),
        LocationSegment::Index(index) => format!("{place}[{index}]"),
    })
}
