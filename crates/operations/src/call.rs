//! A call, what it asks for, and its one outcome.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use gladhand_wire::RawValue;

use crate::failure::Failure;
use crate::tool::{Tool, ToolResult};

/// Names one call of one session on this side. Never on the wire: a peer's own id stays in its dialect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId(pub u64);

/// A request that wants exactly one outcome.
#[derive(Debug, Clone)]
pub struct Call<'a> {
    /// Under which its outcome, progress and cancellation go by.
    pub id: CallId,
    /// What is asked for.
    pub operation: Operation<'a>,
    /// Whether the caller asked to hear of progress.
    pub wants_progress: bool,
    /// How long the caller is ready to wait, if it said so.
    pub timeout: Option<Duration>,
}

impl Call<'_> {
    /// The same call, free of the line it was read from.
    pub fn into_owned(self) -> Call<'static> {
        Call {
            id: self.id,
            operation: self.operation.into_owned(),
            wants_progress: self.wants_progress,
            timeout: self.timeout,
        }
    }
}

/// What a call asks for.
#[derive(Debug, Clone)]
pub enum Operation<'a> {
    /// All tools, in a fixed order. Paging and searching are done by the dialect that has them.
    ListTools,
    /// Run a tool.
    CallTool(ToolCall<'a>),
}

impl Operation<'_> {
    /// The same operation, free of the line it was read from.
    pub fn into_owned(self) -> Operation<'static> {
        match self {
            Self::ListTools => Operation::ListTools,
            Self::CallTool(call) => Operation::CallTool(ToolCall {
                name: Cow::Owned(call.name.into_owned()),
                arguments: Cow::Owned(call.arguments.into_owned()),
            }),
        }
    }
}

/// The name of a tool and its arguments.
#[derive(Debug, Clone)]
pub struct ToolCall<'a> {
    /// The tool's name as the downstream knows it.
    pub name: Cow<'a, str>,
    /// A raw JSON object; `{}` when the caller gave none.
    pub arguments: Cow<'a, RawValue>,
}

/// The arguments of a call that gave none.
pub fn no_arguments<'a>() -> Cow<'a, RawValue> {
    Cow::Owned(gladhand_wire::json::raw("{}".to_owned()))
}

/// How a call ended.
pub type Outcome = Result<Reply, Failure>;

/// The good end of a call.
#[derive(Debug, Clone)]
pub enum Reply {
    /// All tools, in a fixed order.
    Tools(Arc<[Tool]>),
    /// What the tool returned, which may be its own report of failure.
    Tool(ToolResult),
}
