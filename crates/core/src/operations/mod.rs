//! The neutral model: the operations, results and notices that all dialects share.
//!
//! A call has exactly one outcome; a notice has none. Payloads stay raw JSON until code on this side needs a value
//! inside. This module knows no wire format and no dialect.

pub mod agent;
pub mod call;
pub mod capability;
pub mod failure;
pub mod feature;
pub mod member_order;
pub mod notice;
pub mod prompt;
pub mod question;
pub mod resource;
pub mod scopes;
pub mod tool;

pub use agent::{AgentCall, AgentEvent, ImageInput, ModelChoice};
pub use call::{
    Call, CallId, CompletionCall, CompletionOf, Operation, Outcome, Party, Reply, TaskWish, Terms, ToolCall, WatchId,
    outcome_weight,
};
pub use capability::{CapabilityCall, CapabilityEvent};
pub use failure::{Failure, FailureKind, excerpt};
pub use feature::Feature;
pub use member_order::{Member, MemberOrder};
pub use notice::{Level, Log, Notice, Progress, Update};
pub use prompt::{Completion, Prompt, PromptArgument, PromptResult};
pub use question::{Answered, Question, QuestionId, QuestionKind};
pub use resource::{
    Contents, MAX_EXPRESSIONS, MAX_TEMPLATE_BYTES, MAX_URI_BYTES, Resource, Template, is_part_of, subscription_weight,
    wholes_of,
};
pub use scopes::ScopeRecord;
pub use tool::{Content, KnownName, Origin, TaskSupport, Tool, ToolResult};
