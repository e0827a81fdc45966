//! The errors of the repository tools.

use serde_json::{Value, json};

/// The reason why a repository tool could not answer. An oddity of a tree is a warning in the answer, never an error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RepositoryError {
    /// The folder does not exist.
    #[error("root path does not exist: {0}")]
    NoRoot(String),
    /// The folder may not be read.
    #[error("root path is outside the allowed folders: {0}")]
    RootNotAllowed(String),
    /// No framework was named.
    #[error("framework is required")]
    NoFramework {
        /// The frameworks that the target has recipes for.
        valid: Vec<String>,
    },
    /// A parameter whose type differs from its schema.
    #[error("parameter `{param}`: expected {expected}")]
    WrongType {
        /// The path of the parameter.
        param: String,
        /// The expected type.
        expected: String,
    },
    /// There is no edit plan, or it is no object.
    #[error("plan must be an object")]
    PlanNotObject {
        /// Whether the plan is missing.
        is_missing: bool,
    },
    /// The integration target has no recipe for the framework.
    #[error("no recipe available for framework '{framework}'{}", why.as_ref().map(|why| format!(": {why}")).unwrap_or_default())]
    NoRecipe {
        /// The framework as it was asked for.
        framework: String,
        /// The purpose of the target, if it is documented.
        why: Option<String>,
        /// The frameworks that the target has recipes for.
        valid: Vec<String>,
    },
    /// There is no such integration target.
    #[error("no integration target '{target}'")]
    NoTarget {
        /// The target as it was asked for.
        target: String,
        /// The existing targets.
        valid: Vec<String>,
    },
    /// There is no such member in the repository.
    #[error("no member '{0}' in the repository")]
    NoMember(String),
    /// There is no such tool here.
    #[error("unknown tool '{0}'")]
    NoTool(String),
    /// The caller cancelled the call.
    #[error("cancelled")]
    Cancelled,
}

impl RepositoryError {
    /// The code that Fluxloop peers know.
    pub fn code(&self) -> &'static str {
        match self {
            Self::WrongType { .. } => "invalid_payload",
            Self::NoTool(_) => "unknown_tool",
            _ => "tool_error",
        }
    }

    /// Facts for programs, in the shape that Fluxloop's `details` has.
    pub fn details(&self) -> Option<Value> {
        match self {
            Self::NoFramework { valid } => Some(json!({
                "missing_param": "framework", "param": "framework", "expected": "string", "valid_frameworks": valid,
            })),
            Self::PlanNotObject { is_missing: true } => {
                Some(json!({ "missing_param": "plan", "param": "plan", "expected": "object" }))
            }
            Self::PlanNotObject { is_missing: false } => Some(json!({ "param": "plan", "expected": "object" })),
            Self::WrongType { param, expected } => Some(json!({ "param": param, "expected": json_type(expected) })),
            Self::NoRecipe { valid, .. } => Some(json!({ "valid_frameworks": valid })),
            Self::NoTarget { valid, .. } => Some(json!({ "valid_targets": valid })),
            _ => None,
        }
    }
}

/// The name that JSON Schema has for what serde expected.
fn json_type(expected: &str) -> &str {
    match expected {
        "a string" => "string",
        "a boolean" => "boolean",
        "a sequence" => "array",
        "a map" | "an object" => "object",
        "u32" | "u64" | "usize" | "i64" => "integer",
        other if other.starts_with("struct ") => "object",
        other => other,
    }
}
