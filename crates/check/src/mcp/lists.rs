//! Lists of tools, resources, templates and prompts, and their pages.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Presence::{Optional, Required};
use super::{entry_member, is_object, label, must, refused_with, result_member, should};
use crate::message::{View, shown};
use crate::rule::Rule;
use crate::tally::Tally;

/// A cursor that no server gave. A script sends it.
pub(crate) const BAD_CURSOR: &str = "gladhand-no-such-cursor";

const TOOL: &str = "server/tools: Tool";
const RESOURCE: &str = "server/resources: Resource";
const TEMPLATE: &str = "server/resources: Resource Templates";
const PROMPT: &str = "server/prompts: Prompt";
const PAGES: &str = "server/utilities/pagination";

const TOOLS: (&str, &str) = ("tools/list", "tools");
const RESOURCES: (&str, &str) = ("resources/list", "resources");
const TEMPLATES: (&str, &str) = ("resources/templates/list", "resourceTemplates");
const PROMPTS: (&str, &str) = ("prompts/list", "prompts");
const LISTS: [(&str, &str); 4] = [TOOLS, RESOURCES, TEMPLATES, PROMPTS];

/// Whether a text is a URI: a scheme, a colon, and something behind it.
fn is_uri(value: &Value) -> bool {
    let Some((scheme, rest)) = value.as_str().and_then(|text| text.split_once(':')) else { return false };
    let is_scheme = scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    is_scheme && scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && !rest.is_empty()
}

/// No two entries of all pages of a list have the same name.
fn unique(view: &View<'_>, tally: &mut Tally, (method, list): (&str, &str), key: &str) {
    let results = view.results(method);
    let given: Vec<_> = results.iter().filter_map(|(_, page)| page.get("nextCursor")?.as_str()).collect();
    let mut pages: Vec<&str> = Vec::new();
    let mut seen = BTreeSet::new();
    for (pair, page) in &results {
        let cursor = pair.request.text_at("/params/cursor").unwrap_or_default();
        // The same page may have been requested twice. A page behind an invented cursor is no page of the list.
        if pages.contains(&cursor) || !cursor.is_empty() && !given.contains(&cursor) {
            continue;
        }
        pages.push(cursor);
        let entries = page.get(list).and_then(Value::as_array).into_iter().flatten();
        for name in entries.filter_map(|entry| entry.get(key)?.as_str()) {
            tally.expect(seen.insert(name), &pair.lines(), || format!("`{name}` again"));
        }
    }
}

/// A JSON Schema for objects.
fn is_object_schema(value: &Value) -> bool {
    value.get("type").and_then(Value::as_str) == Some("object")
}

fn hint(view: &View<'_>, tally: &mut Tally, name: &str) {
    for (pair, tool) in view.entries(TOOLS.0, TOOLS.1) {
        if let Some(hint) = tool.get("annotations").and_then(|annotations| annotations.get(name)) {
            tally.expect(hint.is_boolean(), &pair.lines(), || format!("`{name}` of {} is {hint}", label(tool)));
        }
    }
}

pub(crate) static RULES: &[Rule] = &[
    must("mcp.tools.list", "server/tools: Listing Tools", "`tools/list` returns `tools`, an array", |view, tally| {
        result_member(view, tally, TOOLS.0, ("/tools", Required), Value::is_array);
    }),
    must("mcp.tools.name", TOOL, "a tool has `name`, a string", |view, tally| {
        entry_member(view, tally, TOOLS, ("name", Required), Value::is_string);
    }),
    should("mcp.tools.name-unique", TOOL, "no two tools have the same name", |view, tally| {
        unique(view, tally, TOOLS, "name");
    }),
    should(
        "mcp.tools.name-characters",
        "server/tools: Tool Names",
        "a name has 1 to 128 letters, digits, `_`, `-` and `.`",
        |view, tally| {
            for (pair, tool) in view.entries(TOOLS.0, TOOLS.1) {
                let name = tool.get("name").and_then(Value::as_str).unwrap_or_default();
                let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte));
                tally.expect(is_plain && (1..=128).contains(&name.len()), &pair.lines(), || {
                    format!("the name is {name:?}")
                });
            }
        },
    )
    .since("2025-11-25"),
    must("mcp.tools.title", TOOL, "`title` of a tool is a string", |view, tally| {
        entry_member(view, tally, TOOLS, ("title", Optional), Value::is_string);
    })
    .since("2025-06-18"),
    must("mcp.tools.description", TOOL, "`description` of a tool is a string", |view, tally| {
        entry_member(view, tally, TOOLS, ("description", Optional), Value::is_string);
    }),
    must("mcp.tools.input-schema", TOOL, "a tool has `inputSchema`, an object", |view, tally| {
        entry_member(view, tally, TOOLS, ("inputSchema", Required), is_object);
    }),
    must("mcp.tools.input-type", TOOL, "the root of `inputSchema` has the type `object`", |view, tally| {
        entry_member(view, tally, TOOLS, ("inputSchema", Required), is_object_schema);
    }),
    must(
        "mcp.tools.output-schema",
        "server/tools: Output Schema",
        "`outputSchema` is an object schema",
        |view, tally| {
            entry_member(view, tally, TOOLS, ("outputSchema", Optional), is_object_schema);
        },
    )
    .between("2025-06-18", "2025-11-25"),
    must("mcp.tools.annotations", "schema: ToolAnnotations", "`annotations` of a tool is an object", |view, tally| {
        entry_member(view, tally, TOOLS, ("annotations", Optional), is_object);
    })
    .since("2025-03-26"),
    must("mcp.tools.read-only-hint", "schema: ToolAnnotations", "`readOnlyHint` is a boolean", |view, tally| {
        hint(view, tally, "readOnlyHint");
    })
    .since("2025-03-26"),
    must("mcp.tools.destructive-hint", "schema: ToolAnnotations", "`destructiveHint` is a boolean", |view, tally| {
        hint(view, tally, "destructiveHint");
    })
    .since("2025-03-26"),
    must("mcp.tools.idempotent-hint", "schema: ToolAnnotations", "`idempotentHint` is a boolean", |view, tally| {
        hint(view, tally, "idempotentHint");
    })
    .since("2025-03-26"),
    must("mcp.tools.open-world-hint", "schema: ToolAnnotations", "`openWorldHint` is a boolean", |view, tally| {
        hint(view, tally, "openWorldHint");
    })
    .since("2025-03-26"),
    must(
        "mcp.tools.task-support",
        "basic/utilities/tasks",
        "`execution.taskSupport` is `forbidden`, `optional` or `required`",
        |view, tally| {
            for (pair, tool) in view.entries(TOOLS.0, TOOLS.1) {
                if let Some(support) = tool.pointer("/execution/taskSupport") {
                    let fits = matches!(support.as_str(), Some("forbidden" | "optional" | "required"));
                    tally.expect(fits, &pair.lines(), || format!("it is {support}"));
                }
            }
        },
    )
    .between("2025-11-25", "2025-11-25"),
    must(
        "mcp.resources.list",
        "server/resources: Listing Resources",
        "`resources/list` returns `resources`, an array",
        |view, tally| {
            result_member(view, tally, RESOURCES.0, ("/resources", Required), Value::is_array);
        },
    ),
    must("mcp.resources.uri", RESOURCE, "a resource has `uri`, a URI", |view, tally| {
        entry_member(view, tally, RESOURCES, ("uri", Required), is_uri);
    }),
    should("mcp.resources.uri-unique", RESOURCE, "no two resources have the same URI", |view, tally| {
        unique(view, tally, RESOURCES, "uri");
    }),
    must("mcp.resources.name", RESOURCE, "a resource has `name`, a string", |view, tally| {
        entry_member(view, tally, RESOURCES, ("name", Required), Value::is_string);
    }),
    must("mcp.resources.mime-type", RESOURCE, "`mimeType` of a resource is a string", |view, tally| {
        entry_member(view, tally, RESOURCES, ("mimeType", Optional), Value::is_string);
    }),
    must("mcp.resources.size", RESOURCE, "`size` of a resource is a number", |view, tally| {
        entry_member(view, tally, RESOURCES, ("size", Optional), Value::is_number);
    }),
    must(
        "mcp.resources.priority",
        "server/resources: Annotations",
        "`annotations.priority` is between 0 and 1",
        |view, tally| {
            for (pair, resource) in view.entries(RESOURCES.0, RESOURCES.1) {
                if let Some(priority) = resource.pointer("/annotations/priority") {
                    let fits = priority.as_f64().is_some_and(|priority| (0.0..=1.0).contains(&priority));
                    tally.expect(fits, &pair.lines(), || format!("it is {priority}"));
                }
            }
        },
    ),
    must(
        "mcp.resources.audience",
        "server/resources: Annotations",
        "`annotations.audience` lists `user` and `assistant`",
        |view, tally| {
            for (pair, resource) in view.entries(RESOURCES.0, RESOURCES.1) {
                if let Some(audience) = resource.pointer("/annotations/audience") {
                    let is_role = |role: &Value| matches!(role.as_str(), Some("user" | "assistant"));
                    let fits = audience.as_array().is_some_and(|roles| roles.iter().all(is_role));
                    tally.expect(fits, &pair.lines(), || format!("it is {}", shown(Some(audience))));
                }
            }
        },
    ),
    must(
        "mcp.templates.list",
        TEMPLATE,
        "`resources/templates/list` returns `resourceTemplates`, an array",
        |view, tally| {
            result_member(view, tally, TEMPLATES.0, ("/resourceTemplates", Required), Value::is_array);
        },
    ),
    must("mcp.templates.uri", TEMPLATE, "a template has `uriTemplate`, a string", |view, tally| {
        entry_member(view, tally, TEMPLATES, ("uriTemplate", Required), Value::is_string);
    }),
    must("mcp.templates.name", TEMPLATE, "a template has `name`, a string", |view, tally| {
        entry_member(view, tally, TEMPLATES, ("name", Required), Value::is_string);
    }),
    must(
        "mcp.prompts.list",
        "server/prompts: Listing Prompts",
        "`prompts/list` returns `prompts`, an array",
        |view, tally| {
            result_member(view, tally, PROMPTS.0, ("/prompts", Required), Value::is_array);
        },
    ),
    must("mcp.prompts.name", PROMPT, "a prompt has `name`, a string", |view, tally| {
        entry_member(view, tally, PROMPTS, ("name", Required), Value::is_string);
    }),
    should("mcp.prompts.name-unique", PROMPT, "no two prompts have the same name", |view, tally| {
        unique(view, tally, PROMPTS, "name");
    }),
    must("mcp.prompts.arguments", PROMPT, "`arguments` of a prompt is an array", |view, tally| {
        entry_member(view, tally, PROMPTS, ("arguments", Optional), Value::is_array);
    }),
    must("mcp.prompts.argument-name", PROMPT, "an argument of a prompt has `name`, a string", |view, tally| {
        for (pair, prompt) in view.entries(PROMPTS.0, PROMPTS.1) {
            for argument in prompt.get("arguments").and_then(Value::as_array).into_iter().flatten() {
                let name = argument.get("name");
                tally.expect(name.is_some_and(Value::is_string), &pair.lines(), || {
                    format!("an argument of {} has the name {}", label(prompt), shown(name))
                });
            }
        }
    }),
    must("mcp.prompts.argument-required", PROMPT, "`required` of an argument is a boolean", |view, tally| {
        for (pair, prompt) in view.entries(PROMPTS.0, PROMPTS.1) {
            for argument in prompt.get("arguments").and_then(Value::as_array).into_iter().flatten() {
                if let Some(required) = argument.get("required") {
                    tally.expect(required.is_boolean(), &pair.lines(), || format!("it is {required}"));
                }
            }
        }
    }),
    must("mcp.pages.next-cursor", PAGES, "`nextCursor` is a string", |view, tally| {
        for (method, _) in LISTS {
            result_member(view, tally, method, ("/nextCursor", Optional), Value::is_string);
        }
    }),
    must("mcp.pages.end", PAGES, "the pages of a list come to an end", |view, tally| {
        for (method, _) in LISTS {
            let mut given: Vec<&str> = Vec::new();
            for (pair, result) in view.results(method) {
                if let Some(cursor) = result.get("nextCursor").and_then(Value::as_str) {
                    let asked = pair.request.text_at("/params/cursor");
                    tally.expect(asked != Some(cursor), &pair.lines(), || "a page names itself as the next".to_owned());
                    given.push(cursor);
                }
            }
        }
    }),
    should("mcp.pages.bad-cursor", PAGES, "an invalid cursor is answered with -32602", |view, tally| {
        let is_bad = |pair: &crate::message::Pair<'_, '_>| pair.request.text_at("/params/cursor") == Some(BAD_CURSOR);
        for (method, _) in LISTS {
            let pairs: Vec<_> = view.pairs(method).into_iter().filter(is_bad).collect();
            refused_with(tally, pairs, &[-32602]);
        }
    }),
];
