//! Requests for prompts and for completions.

use std::borrow::Cow;
use std::sync::Arc;

use gladhand_core::operations::call::no_arguments;
use gladhand_core::operations::{CompletionCall, CompletionOf, Operation, ToolCall};
use gladhand_core::wire::json::{self, Kind, RawValue};
use gladhand_core::wire::{Members, rpc};

use super::capabilities::InForce;
use super::errors;
use super::incoming_requests::RequestKind;
use super::requests::NoticeOptions;
use super::revision::Revision;
use super::server::{McpServer, Request};
use crate::side::Output;

impl McpServer {
    pub(super) fn get_prompt<'a>(
        &mut self,
        request: Request<'_, 'a>,
        notice_options: NoticeOptions<'_>,
        in_force: &Arc<InForce>,
        out: &mut Output<'a>,
    ) {
        let problem = match (request.params.name().and_then(json::string), request.params.arguments()) {
            (None, _) => "`name` must be a string",
            (_, Some(arguments)) if !holds_only_strings(arguments) => "`arguments` must be an object of strings",
            (Some(name), arguments) => {
                let prompt = ToolCall { name, arguments: arguments.map_or_else(no_arguments, Cow::Borrowed) };
                let operation = Operation::GetPrompt(prompt);
                return self.deliver(request, RequestKind::Prompt, operation, notice_options, in_force, out);
            }
        };
        self.refuse(&request.to, &errors::invalid_params(problem), out);
    }

    pub(super) fn complete<'a>(
        &mut self,
        request: Request<'_, 'a>,
        notice_options: NoticeOptions<'_>,
        in_force: &Arc<InForce>,
        out: &mut Output<'a>,
    ) {
        match read_completion(request.all_params(), in_force.revision) {
            Ok(completion) => {
                let operation = Operation::Complete(completion);
                self.deliver(request, RequestKind::Completion, operation, notice_options, in_force, out);
            }
            Err(error) => self.refuse(&request.to, &error, out),
        }
    }
}

/// Parses the parameters of `completion/complete`, or returns which of them is wrong.
fn read_completion(params: Option<&RawValue>, revision: Revision) -> Result<CompletionCall<'_>, rpc::Error<'static>> {
    let wrong = |field: &str, expected: &str| errors::invalid_params(format!("`{field}` must be {expected}"));
    let params = params.and_then(Members::of).unwrap_or_default();
    let reference = params.object("ref").ok_or_else(|| wrong("ref", "an object"))?;
    let of = match reference.str("type").as_deref() {
        Some("ref/prompt") => CompletionOf::Prompt(reference.str("name").ok_or_else(|| wrong("ref.name", "a string"))?),
        Some("ref/resource") => {
            CompletionOf::Template(reference.str("uri").ok_or_else(|| wrong("ref.uri", "a string"))?)
        }
        _ => return Err(wrong("ref.type", "\"ref/prompt\" or \"ref/resource\"")),
    };
    let argument = params.object("argument").ok_or_else(|| wrong("argument", "an object"))?;
    let text = |name: &str| argument.str(name).ok_or_else(|| wrong(&format!("argument.{name}"), "a string"));
    let context = params.object("context").filter(|_| revision.has_completion_context());
    let context = context.and_then(|context| context.some("arguments"));
    if context.is_some_and(|context| !holds_only_strings(context)) {
        return Err(wrong("context.arguments", "an object of strings"));
    }
    Ok(CompletionCall { of, argument: text("name")?, value: text("value")?, context: context.map(Cow::Borrowed) })
}

fn holds_only_strings(raw: &RawValue) -> bool {
    Members::of(raw).is_some_and(|members| members.iter().all(|(_, value)| Kind::of(value) == Kind::String))
}
