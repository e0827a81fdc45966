//! Substitute tools for features that a caller's dialect does not have.
//!
//! Resources and prompts exist in one dialect only. Clients of the other dialects reach them through four tools with
//! clear names, which other clients do not see. If a provider has a tool of the same name, that tool wins.

use std::sync::Arc;

use gladhand_core::negotiation::{Agreement, Side};
use gladhand_core::operations::call::no_arguments;
use gladhand_core::operations::{
    Content, Contents, Failure, Operation, Prompt, PromptResult, Reply, Resource, Template, Tool, ToolCall, ToolResult,
};
use gladhand_core::wire::{Members, RawValue, json};
use serde::Deserialize;
use serde_json::json;

use crate::provider::Answer;
use crate::routes::Routes;

/// The substitute tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StandIn {
    ListResources,
    ReadResource,
    ListPrompts,
    GetPrompt,
}

impl StandIn {
    const ALL: [Self; 4] = [Self::ListResources, Self::ReadResource, Self::ListPrompts, Self::GetPrompt];

    /// The substitute tool with this name.
    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }

    /// The substitute tools that a caller needs, given the available features and the agreement.
    fn needed(agreement: &Agreement, has_resources: bool, has_prompts: bool) -> impl Iterator<Item = Self> {
        let lacks = |capability| agreement.term(Side::Server, capability).is_none();
        let (resources, prompts) = (has_resources && lacks("resources"), has_prompts && lacks("prompts"));
        Self::ALL.into_iter().filter(move |one| match one {
            Self::ListResources | Self::ReadResource => resources,
            Self::ListPrompts | Self::GetPrompt => prompts,
        })
    }

    fn name(self) -> &'static str {
        match self {
            Self::ListResources => "list_resources",
            Self::ReadResource => "read_resource",
            Self::ListPrompts => "list_prompts",
            Self::GetPrompt => "get_prompt",
        }
    }

    /// The tool definition.
    pub(crate) fn tool(self) -> Tool {
        let object = |properties: serde_json::Value, required: &[&str]| json!({"type": "object", "properties": properties, "required": required});
        let string = |description: &str| json!({"type": "string", "description": description});
        let (description, schema) = match self {
            Self::ListResources => (
                "Lists the resources that can be read, and the templates that URIs may follow.",
                object(json!({}), &[]),
            ),
            Self::ReadResource => (
                "Reads a resource by its URI.",
                object(json!({"uri": string("The URI, as listed or as a template says.")}), &["uri"]),
            ),
            Self::ListPrompts => {
                ("Lists the prompts that can be filled in, with their arguments.", object(json!({}), &[]))
            }
            Self::GetPrompt => (
                "Fills in a prompt and returns its messages.",
                object(
                    json!({
                        "name": string("The name, as listed."),
                        "arguments": {"type": "object", "additionalProperties": {"type": "string"}},
                    }),
                    &["name"],
                ),
            ),
        };
        let reads = json!({"readOnlyHint": true});
        Tool::plain(self.name(), description).taking(&schema).with("annotations", &reads)
    }

    /// The operation that the call stands for.
    pub(crate) fn operation(self, call: &ToolCall<'_>) -> Result<Operation<'static>, Failure> {
        #[derive(Deserialize)]
        struct Read {
            uri: String,
        }
        #[derive(Deserialize)]
        struct Get {
            name: String,
            arguments: Option<Box<RawValue>>,
        }
        Ok(match self {
            Self::ListResources => Operation::ListResources,
            Self::ReadResource => Operation::ReadResource(call.read::<Read>()?.uri.into()),
            Self::ListPrompts => Operation::ListPrompts,
            Self::GetPrompt => {
                let Get { name, arguments } = call.read()?;
                let arguments = arguments.map_or_else(no_arguments, std::borrow::Cow::Owned);
                Operation::GetPrompt(ToolCall { name: name.into(), arguments })
            }
        })
    }
}

/// The tools that a caller sees, including the substitutes that it needs.
pub(crate) fn with_stand_ins(
    tools: &Arc<[Tool]>,
    routes: &Routes,
    agreement: &Agreement,
    is_shown: impl Fn(&Tool) -> bool,
) -> Arc<[Tool]> {
    let mut needed = needed(routes, agreement).map(StandIn::tool).filter(is_shown).peekable();
    if needed.peek().is_none() {
        return Arc::clone(tools);
    }
    tools.iter().cloned().chain(needed).collect()
}

/// The substitute tool that this caller means by a name, if any.
pub(crate) fn stand_in(name: &str, routes: &Routes, agreement: &Agreement) -> Option<StandIn> {
    let meant = StandIn::named(name)?;
    needed(routes, agreement).find(|one| *one == meant)
}

fn needed(routes: &Routes, agreement: &Agreement) -> impl Iterator<Item = StandIn> {
    let has_resources = !routes.resources.is_empty() || !routes.templates.is_empty();
    let needed = StandIn::needed(agreement, has_resources, !routes.prompts.is_empty());
    needed.filter(|one| routes.place_of(one.name()).is_none())
}

/// The answer to the underlying operation, as the answer of a tool.
pub(crate) fn as_answer(answer: Answer, templates: Arc<[Template]>) -> Answer {
    match answer {
        Answer::Now(outcome) => Answer::Now(outcome.map(|reply| as_result(reply, &templates))),
        later => {
            Answer::Later(Box::pin(async move { later.outcome().await.map(|reply| as_result(reply, &templates)) }))
        }
    }
}

/// A reply as the result of a tool.
fn as_result(reply: Reply, templates: &[Template]) -> Reply {
    Reply::Tool(match reply {
        Reply::Resources(resources) => structured(&json!({
            "resources": resources.iter().map(resource).collect::<Vec<_>>(),
            "templates": templates.iter().map(template).collect::<Vec<_>>(),
        })),
        Reply::Prompts(prompts) => structured(&json!({"prompts": prompts.iter().map(prompt).collect::<Vec<_>>()})),
        Reply::Contents(contents) => read(contents),
        Reply::Prompt(PromptResult { description, messages, .. }) => {
            structured(&json!({"description": description, "messages": messages}))
        }
        other => return other,
    })
}

fn structured(value: &serde_json::Value) -> ToolResult {
    ToolResult::structured(json::to_raw(value))
}

fn resource(one: &Resource) -> serde_json::Value {
    json!({"uri": one.uri, "name": one.name, "description": one.description, "mimeType": one.mime_type})
}

fn template(one: &Template) -> serde_json::Value {
    json!({"uriTemplate": one.uri_template, "name": one.name, "description": one.description, "mimeType": one.mime_type})
}

fn prompt(one: &Prompt) -> serde_json::Value {
    let arguments = one.arguments.iter().map(
        |argument| json!({"name": argument.name, "description": argument.description, "required": argument.required}),
    );
    json!({"name": one.name, "description": one.description, "arguments": arguments.collect::<Vec<_>>()})
}

/// Converts text to text content, and anything else to a resource block.
fn read(contents: Contents) -> ToolResult {
    let parts = contents.parts.into_iter().map(|part| {
        match Members::of(&part).and_then(|members| members.raw("text").map(ToOwned::to_owned)) {
            Some(text) => Content::Text(text),
            None => Content::Block(json::raw(format!(r#"{{"type":"resource","resource":{}}}"#, part.get()))),
        }
    });
    ToolResult::of(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stand_in_tools_are_found_by_name_and_become_operations() {
        let call = |arguments: &str| ToolCall {
            name: "x".into(),
            arguments: std::borrow::Cow::Owned(json::raw(arguments.to_owned())),
        };
        for one in StandIn::ALL {
            assert_eq!((StandIn::named(one.name()), one.tool().name.as_str()), (Some(one), one.name()));
        }
        assert_eq!(StandIn::named("echo"), None);
        let read = StandIn::ReadResource.operation(&call(r#"{"uri":"a:b"}"#)).unwrap();
        assert!(matches!(read, Operation::ReadResource(uri) if uri == "a:b"));
        assert!(StandIn::ReadResource.operation(&call("{}")).is_err());
        let get = StandIn::GetPrompt.operation(&call(r#"{"name":"p","arguments":{"a":"b"}}"#)).unwrap();
        assert!(matches!(get, Operation::GetPrompt(call) if call.arguments.get() == r#"{"a":"b"}"#));
    }

    #[test]
    fn replies_become_tool_results_with_the_same_content() {
        let text = |reply| match as_result(reply, &[Template::new("x:{n}", "t", "")]) {
            Reply::Tool(result) => result.joined_text(),
            other => panic!("{other:?}"),
        };
        let listed = text(Reply::Resources(vec![Resource::new("x:1", "one", "")].into()));
        assert!(listed.contains(r#""uri":"x:1""#) && listed.contains("x:{n}"), "{listed}");
        assert_eq!(text(Reply::Contents(Contents::text("x:1", "text/plain", "hi"))), "hi");
        assert!(text(Reply::Prompt(PromptResult::text("said"))).contains("said"));
        assert!(
            text(Reply::Prompts(vec![Prompt::new("p", "").argument("a", "")].into())).contains(r#""required":true"#)
        );
    }
}
