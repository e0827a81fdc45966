//! The interface of a JSON Schema validator. The validator itself is in another crate, so that a program which embeds the
//! hub without one does not build it.

use serde_json::Value;

use crate::operations::{Failure, Reply, Tool};
use crate::wire::RawValue;

/// Validates the calls of tools against their schemas.
pub trait Validation: Send + Sync {
    /// The checks of one tool. They are kept as long as the definition of the tool, so that a schema is compiled once.
    fn of_tool(&self) -> Box<dyn ToolChecks>;
}

crate::debug_as_name!(Validation);

/// The checks of one tool.
pub trait ToolChecks: Send + Sync {
    /// Whether the tool may be called with these arguments.
    fn arguments(&self, tool: &Tool, arguments: &RawValue) -> Result<(), Failure>;

    /// Whether the tool may return this. A failed result is not validated.
    fn reply(&self, tool: &Tool, reply: &Reply) -> Result<(), Failure>;
}

crate::debug_as_name!(ToolChecks);

/// A compiled schema for the arguments of a call, as a policy rule has one.
pub trait ArgumentSchema: Send + Sync {
    /// Whether the arguments match the schema.
    fn verdict(&self, arguments: &Value) -> Verdict;
}

crate::debug_as_name!(ArgumentSchema);

/// Whether a value matches a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It does.
    Fits,
    /// It does not.
    DoesNotFit,
    /// The check would take too long.
    CannotBeTold,
}

/// The message about a value whose check would take too long.
pub const TOO_COSTLY: &str = "too large or too deeply nested to be checked against the schema";
