//! Calls of tools, contents of resources and prompts, and completion.

use serde_json::Value;

use super::Presence::{Optional, Required};
use super::{handshake, must, refused_with, result_member, should};
use crate::message::{Pair, View, shown};
use crate::rule::Rule;
use crate::tally::Tally;

/// A tool, a prompt and a resource that no server has. A script asks for them.
pub(crate) const UNKNOWN_NAME: &str = "gladhand_no_such_name";
pub(crate) const UNKNOWN_URI: &str = "gladhand-check://no/such/resource";

const RESULTS: &str = "server/tools: Tool Result";
const CONTENTS: &str = "server/resources: Resource Contents";

/// The pairs of a method whose parameter has a value.
fn with<'v, 'e>(view: &'v View<'e>, method: &str, pointer: &str, value: &str) -> Vec<Pair<'v, 'e>> {
    view.pairs(method).into_iter().filter(|pair| pair.request.text_at(pointer) == Some(value)).collect()
}

/// A content block has a type of the revision and the members of its type.
fn block_problem(block: &Value, version: &str) -> Option<String> {
    let has = |name: &str| block.get(name).is_some_and(Value::is_string);
    let kind = block.get("type").and_then(Value::as_str).unwrap_or_default();
    let lacks = |names: &[&str]| names.iter().find(|name| !has(name)).map(|name| format!("`{kind}` has no `{name}`"));
    match kind {
        "text" => lacks(&["text"]),
        "image" => lacks(&["data", "mimeType"]),
        "audio" if version >= "2025-03-26" => lacks(&["data", "mimeType"]),
        "resource_link" if version >= "2025-06-18" => lacks(&["uri", "name"]),
        "resource" => {
            (!block.get("resource").is_some_and(Value::is_object)).then(|| "`resource` has no resource".into())
        }
        // Messages of sampling have two more.
        "tool_use" | "tool_result" if version >= "2025-11-25" => None,
        other => Some(format!("the type is {other:?}")),
    }
}

pub(crate) static RULES: &[Rule] = &[
    must("mcp.call.unknown-tool", "server/tools: Error Handling", "a call of an unknown tool fails", |view, tally| {
        for pair in with(view, "tools/call", "/params/name", UNKNOWN_NAME) {
            let is_failure =
                pair.answer.get("error").is_some() || pair.answer.at("/result/isError") == Some(&Value::Bool(true));
            tally.expect(is_failure, &pair.lines(), || "the call succeeds".to_owned());
        }
    }),
    should(
        "mcp.call.unknown-tool-code",
        "server/tools: Error Handling",
        "an unknown tool is answered with -32602",
        |view, tally| {
            if super::declares(view, "/tools") == Some(true) {
                refused_with(tally, with(view, "tools/call", "/params/name", UNKNOWN_NAME), &[-32602]);
            }
        },
    ),
    must("mcp.call.content", RESULTS, "the result of a call has `content`, an array", |view, tally| {
        for (pair, result) in view.results("tools/call") {
            let other = result.get("resultType").and_then(Value::as_str).is_some_and(|kind| kind != "complete");
            // A task answers later.
            if !other && result.get("task").is_none() {
                let content = result.get("content");
                tally.expect(content.is_some_and(Value::is_array), &pair.lines(), || {
                    format!("it is {}", shown(content))
                });
            }
        }
    }),
    must("mcp.call.blocks", RESULTS, "each content block has a known type and its members", |view, tally| {
        for (pair, block) in view.entries("tools/call", "content") {
            let problem = block_problem(block, super::version_in_force(view).unwrap_or(&view.exchange.version));
            tally.expect(problem.is_none(), &pair.lines(), || problem.clone().unwrap_or_default());
        }
    }),
    must("mcp.call.is-error", RESULTS, "`isError` is a boolean", |view, tally| {
        result_member(view, tally, "tools/call", ("/isError", Optional), Value::is_boolean);
    }),
    must(
        "mcp.call.structured",
        "server/tools: Structured Content",
        "`structuredContent` is an object",
        |view, tally| {
            result_member(view, tally, "tools/call", ("/structuredContent", Optional), Value::is_object);
        },
    )
    .between("2025-06-18", "2025-11-25"),
    should(
        "mcp.call.structured-text",
        "server/tools: Structured Content",
        "structured content is also given as text",
        |view, tally| {
            for (pair, result) in view.results("tools/call") {
                if result.get("structuredContent").is_some() {
                    let is_text = |block: &Value| block.get("type").and_then(Value::as_str) == Some("text");
                    let has_text = result
                        .get("content")
                        .and_then(Value::as_array)
                        .is_some_and(|blocks| blocks.iter().any(is_text));
                    tally.expect(has_text, &pair.lines(), || "no text block".to_owned());
                }
            }
        },
    )
    .since("2025-06-18"),
    must(
        "mcp.read.contents",
        "server/resources: Reading Resources",
        "`resources/read` returns `contents`, an array",
        |view, tally| {
            result_member(view, tally, "resources/read", ("/contents", Required), Value::is_array);
        },
    ),
    must("mcp.read.uri", CONTENTS, "each content has `uri`, a string", |view, tally| {
        for (pair, content) in view.entries("resources/read", "contents") {
            tally.expect(content.get("uri").is_some_and(Value::is_string), &pair.lines(), || "no `uri`".to_owned());
        }
    }),
    must("mcp.read.data", CONTENTS, "each content has `text` or `blob`", |view, tally| {
        for (pair, content) in view.entries("resources/read", "contents") {
            let has = |name: &str| content.get(name).is_some_and(Value::is_string);
            tally.expect(has("text") != has("blob"), &pair.lines(), || "neither or both".to_owned());
        }
    }),
    must("mcp.read.base64", CONTENTS, "`blob` is base64", |view, tally| {
        for (pair, content) in view.entries("resources/read", "contents") {
            if let Some(blob) = content.get("blob").and_then(Value::as_str) {
                let is_base64 = blob.len() % 4 == 0
                    && blob
                        .trim_end_matches('=')
                        .bytes()
                        .all(|byte| byte.is_ascii_alphanumeric() || b"+/".contains(&byte));
                // A recording may have a masked value.
                tally.expect(is_base64 || blob.contains("***"), &pair.lines(), || "other characters".to_owned());
            }
        }
    }),
    must("mcp.read.unknown", "server/resources: Error Handling", "reading an unknown resource fails", |view, tally| {
        for pair in with(view, "resources/read", "/params/uri", UNKNOWN_URI) {
            tally.expect(pair.answer.get("error").is_some(), &pair.lines(), || "it succeeds".to_owned());
        }
    }),
    handshake(should(
        "mcp.read.unknown-code",
        "server/resources: Error Handling",
        "an unknown resource is answered with -32002",
        |view, tally| {
            if super::declares(view, "/resources") == Some(true) {
                refused_with(tally, with(view, "resources/read", "/params/uri", UNKNOWN_URI), &[-32002]);
            }
        },
    )),
    should(
        "mcp.prompts.unknown",
        "server/prompts: Error Handling",
        "an unknown prompt is answered with -32602",
        |view, tally| {
            if super::declares(view, "/prompts") == Some(true) {
                refused_with(tally, with(view, "prompts/get", "/params/name", UNKNOWN_NAME), &[-32602]);
            }
        },
    ),
    must(
        "mcp.prompts.messages",
        "server/prompts: Getting a Prompt",
        "`prompts/get` returns `messages`, an array",
        |view, tally| {
            for (pair, result) in view.results("prompts/get") {
                if result.get("resultType").and_then(Value::as_str).is_none_or(|kind| kind == "complete") {
                    let messages = result.get("messages");
                    tally.expect(messages.is_some_and(Value::is_array), &pair.lines(), || {
                        format!("it is {}", shown(messages))
                    });
                }
            }
        },
    ),
    must(
        "mcp.prompts.role",
        "server/prompts: PromptMessage",
        "a message of a prompt is of `user` or `assistant`",
        |view, tally| {
            for (pair, message) in view.entries("prompts/get", "messages") {
                let role = message.get("role");
                let fits = matches!(role.and_then(Value::as_str), Some("user" | "assistant"));
                tally.expect(fits, &pair.lines(), || format!("the role is {}", shown(role)));
            }
        },
    ),
    must(
        "mcp.prompts.content",
        "server/prompts: PromptMessage",
        "a message of a prompt has one content block",
        |view, tally| {
            for (pair, message) in view.entries("prompts/get", "messages") {
                let version = super::version_in_force(view).unwrap_or(&view.exchange.version);
                let problem = message
                    .get("content")
                    .map_or_else(|| Some("no `content`".to_owned()), |block| block_problem(block, version));
                tally.expect(problem.is_none(), &pair.lines(), || problem.clone().unwrap_or_default());
            }
        },
    ),
    must(
        "mcp.completion.values",
        "server/utilities/completion",
        "a completion has at most 100 values, each a string",
        |view, tally| {
            completion(view, tally, |completion| {
                let values = completion.get("values").and_then(Value::as_array);
                values.is_some_and(|values| values.len() <= 100 && values.iter().all(Value::is_string))
            });
        },
    ),
    must(
        "mcp.completion.total",
        "server/utilities/completion",
        "`total` is an integer and `hasMore` a boolean",
        |view, tally| {
            completion(view, tally, |completion| {
                completion.get("total").is_none_or(|total| total.is_u64() || total.is_f64())
                    && completion.get("hasMore").is_none_or(Value::is_boolean)
            });
        },
    ),
    should(
        "mcp.completion.unknown",
        "server/utilities/completion: Error Handling",
        "completion for an unknown prompt is answered with -32602",
        |view, tally| {
            if super::declares(view, "/completions") == Some(true) {
                refused_with(tally, with(view, "completion/complete", "/params/ref/name", UNKNOWN_NAME), &[-32602]);
            }
        },
    )
    .since("2025-03-26"),
];

fn completion(view: &View<'_>, tally: &mut Tally, fits: fn(&Value) -> bool) {
    for (pair, result) in view.results("completion/complete") {
        let completion = result.get("completion");
        tally.expect(completion.is_some_and(fits), &pair.lines(), || format!("it is {}", shown(completion)));
    }
}
