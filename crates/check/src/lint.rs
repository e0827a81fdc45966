//! The lint: what models see of a server, in any dialect.
//!
//! No specification asks for these rules. A tool that breaks one works, but models choose it wrongly, call it wrongly, or
//! pay for it with tokens.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use gladhand_core::wire::invisible::strip_json;
use serde_json::Value;

use crate::message::{View, brief};
use crate::rule::{Level, Rule};
use crate::tally::Tally;

/// Bounds, in estimated tokens of four characters each.
const MOST_TOKENS_OF_A_TOOL: usize = 1000;
const MOST_TOKENS: usize = 10_000;
const MOST_TOKENS_OF_INSTRUCTIONS: usize = 2000;

/// With more tools, models choose worse.
const MOST_TOOLS: usize = 60;

/// A shorter description says no more than the name.
const SHORTEST_DESCRIPTION: usize = 20;

/// How deep the schema of arguments may be nested.
const DEEPEST: usize = 5;

const fn lint(id: &'static str, about: &'static str, judge: fn(&View<'_>, &mut Tally)) -> Rule {
    Rule::new(crate::LINT, Level::Lint, id, "what models see", about, judge)
}

/// A tool of any dialect, as a model sees it.
struct Tool<'v> {
    /// The line of the list.
    line: usize,
    name: &'v str,
    description: &'v str,
    /// Its arguments: a name and a schema or a parameter of A2E.
    arguments: Vec<(&'v str, &'v Value)>,
    /// The whole definition.
    definition: &'v Value,
}

/// The tools in all lists of the exchange, each name once.
fn tools<'v>(view: &'v View<'_>) -> Vec<Tool<'v>> {
    let (mut tools, mut seen): (Vec<Tool<'v>>, BTreeSet<&str>) = (Vec::new(), BTreeSet::new());
    for message in view.ours() {
        let listed = match message.kind() {
            Some("tool/list/resp") => message.get("tools"),
            Some(_) => None,
            // MCP and loaf.
            None => message.at("/result/tools"),
        };
        for definition in listed.and_then(Value::as_array).into_iter().flatten() {
            let Some(name) = definition.get("name").and_then(Value::as_str) else { continue };
            if !seen.insert(name) {
                continue;
            }
            let description = definition.get("description").and_then(Value::as_str).unwrap_or_default();
            tools.push(Tool { line: message.line, name, description, arguments: arguments(definition), definition });
        }
    }
    tools
}

fn arguments(definition: &Value) -> Vec<(&str, &Value)> {
    let schema = ["inputSchema", "input_schema", "parameters"].into_iter().find_map(|key| definition.get(key));
    let properties = schema.and_then(|schema| schema.get("properties")).and_then(Value::as_object);
    let parameters = definition.get("input_parameters").and_then(Value::as_array);
    let of_schema = properties.into_iter().flatten().map(|(name, schema)| (name.as_str(), schema));
    let of_a2e = parameters.into_iter().flatten().filter_map(|one| Some((one.get("name")?.as_str()?, one)));
    of_schema.chain(of_a2e).collect()
}

fn each(view: &View<'_>, tally: &mut Tally, problem: fn(&Tool<'_>) -> Option<String>) {
    for tool in tools(view) {
        let problem = problem(&tool);
        let note = problem.as_deref().unwrap_or_default();
        tally.expect(problem.is_none(), &[tool.line], || format!("`{}`: {note}", brief(tool.name)));
    }
}

/// No two tools have the same value.
fn same(view: &View<'_>, tally: &mut Tally, value: fn(&Tool<'_>) -> Option<Vec<String>>) {
    let mut seen: BTreeMap<Vec<String>, &str> = BTreeMap::new();
    for tool in tools(view) {
        let Some(value) = value(&tool) else { continue };
        let first = *seen.entry(value).or_insert(tool.name);
        tally.expect(first == tool.name, &[tool.line], || format!("`{}` and `{}`", brief(tool.name), brief(first)));
    }
}

/// The words of a name: `readFile` and `read_file` have the same.
fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = vec![String::new()];
    let mut was_lower = false;
    for c in name.chars() {
        if !c.is_alphanumeric() || c.is_uppercase() && was_lower {
            words.push(String::new());
        }
        if c.is_alphanumeric()
            && let Some(last) = words.last_mut()
        {
            last.extend(c.to_lowercase());
        }
        was_lower = c.is_lowercase();
    }
    words.retain(|word| !word.is_empty());
    words
}

const CHANGING: [&str; 24] = [
    "add", "append", "apply", "cancel", "clear", "close", "commit", "create", "delete", "deploy", "drop", "edit",
    "execute", "insert", "kill", "move", "publish", "purge", "remove", "rename", "send", "update", "upload", "write",
];
const DESTROYING: [&str; 7] = ["delete", "destroy", "drop", "kill", "purge", "remove", "wipe"];
const READING: [&str; 9] = ["count", "describe", "find", "get", "list", "query", "read", "search", "show"];

fn hint(tool: &Tool<'_>, name: &str) -> Option<bool> {
    tool.definition.get("annotations")?.get(name)?.as_bool()
}

fn verb(tool: &Tool<'_>) -> String {
    words(tool.name).into_iter().next().unwrap_or_default()
}

fn tokens(text: &str) -> usize {
    text.chars().count().div_ceil(4)
}

fn depth(value: &Value) -> usize {
    let below = value.get("properties").and_then(Value::as_object).into_iter().flatten().map(|(_, schema)| schema);
    let deepest = below.chain(value.get("items")).map(depth).max();
    deepest.map_or(0, |deepest| deepest + 1)
}

/// Every `$ref` below a value.
fn references(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            found.extend(members.get("$ref").and_then(Value::as_str).map(str::to_owned));
            members.values().for_each(|member| references(member, found));
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
    }
}

pub(crate) static RULES: &[Rule] = &[
    lint("lint.tool.description", "a tool has a description", |view, tally| {
        each(view, tally, |tool| tool.description.trim().is_empty().then(|| "no description".to_owned()));
    }),
    lint("lint.tool.description-short", "a description says more than the name", |view, tally| {
        each(view, tally, |tool| {
            let text = tool.description.trim();
            let repeats = !text.is_empty() && words(text) == words(tool.name);
            let is_short = !text.is_empty() && text.chars().count() < SHORTEST_DESCRIPTION;
            (repeats || is_short).then(|| format!("the description is {text:?}"))
        });
    }),
    lint("lint.tool.tokens", "the definition of a tool takes at most 1000 tokens", |view, tally| {
        each(view, tally, |tool| {
            let tokens = tokens(&tool.definition.to_string());
            (tokens > MOST_TOKENS_OF_A_TOOL).then(|| format!("about {tokens} tokens"))
        });
    }),
    lint("lint.tools.tokens", "the definitions of all tools take at most 10,000 tokens", |view, tally| {
        let tools = tools(view);
        let Some(first) = tools.first() else { return };
        let total: usize = tools.iter().map(|tool| tokens(&tool.definition.to_string())).sum();
        tally.expect(total <= MOST_TOKENS, &[first.line], || {
            let mut sizes: Vec<_> =
                tools.iter().map(|tool| (tokens(&tool.definition.to_string()), tool.name)).collect();
            sizes.sort_unstable_by(|one, other| other.cmp(one));
            let mut note = format!("about {total} tokens in {} tools; the largest:", tools.len());
            for (size, name) in sizes.into_iter().take(3) {
                // Writing to a String cannot fail.
                let _ = write!(note, " `{}` {size}", brief(name));
            }
            note
        });
    }),
    lint("lint.tools.count", "a server has at most 60 tools", |view, tally| {
        let tools = tools(view);
        if let Some(first) = tools.first() {
            tally.expect(tools.len() <= MOST_TOOLS, &[first.line], || format!("{} tools", tools.len()));
        }
    }),
    lint("lint.tool.name-ambiguous", "names differ in more than case and separators", |view, tally| {
        same(view, tally, |tool| Some(words(tool.name)));
    }),
    lint("lint.tool.description-same", "no two tools have the same description", |view, tally| {
        same(view, tally, |tool| Some(tool.description.trim()).filter(|text| !text.is_empty()).map(words));
    }),
    lint("lint.tool.name-generic", "a name says what the tool does", |view, tally| {
        const GENERIC: [&str; 12] = [
            "action", "call", "do", "execute", "function", "handle", "helper", "process", "run", "task", "tool", "use",
        ];
        each(view, tally, |tool| {
            let is_generic = matches!(words(tool.name).as_slice(), [word] if GENERIC.contains(&word.as_str()));
            is_generic.then(|| "a single general word".to_owned())
        });
    }),
    lint("lint.tool.name-long", "a name has at most 64 characters", |view, tally| {
        each(view, tally, |tool| {
            let length = tool.name.chars().count();
            // Some hosts add a prefix and refuse what is longer than 64 together.
            (length > 64).then(|| format!("{length} characters"))
        });
    }),
    lint("lint.tool.invisible", "a definition has no invisible characters", |view, tally| {
        each(view, tally, |tool| {
            let definition = tool.definition.to_string();
            let hidden = definition.chars().count() - strip_json(&definition).chars().count();
            (hidden > 0).then(|| format!("{hidden} invisible characters"))
        });
    }),
    lint(
        "lint.tool.injection",
        "a description gives the model no orders about other tools or its instructions",
        |view, tally| {
            const ORDERS: [&str; 8] = [
                "ignore previous",
                "ignore all previous",
                "disregard previous",
                "do not tell the user",
                "don't tell the user",
                "without telling the user",
                "<important>",
                "system prompt",
            ];
            each(view, tally, |tool| {
                let definition = tool.definition.to_string().to_lowercase();
                ORDERS.iter().find(|order| definition.contains(*order)).map(|order| format!("it says \"{order}\""))
            });
        },
    ),
    lint("lint.annotation.missing", "a tool says whether it only reads", |view, tally| {
        // Only MCP has annotations.
        if view.exchange.dialect == "mcp" && view.exchange.version.as_str() >= "2025-03-26" {
            each(view, tally, |tool| hint(tool, "readOnlyHint").is_none().then(|| "no `readOnlyHint`".to_owned()));
        }
    }),
    lint(
        "lint.annotation.read-only",
        "a tool with `readOnlyHint` has no name that promises a change",
        |view, tally| {
            each(view, tally, |tool| {
                let verb = verb(tool);
                let contradicts = hint(tool, "readOnlyHint") == Some(true) && CHANGING.contains(&verb.as_str());
                contradicts.then(|| format!("it only reads, and its name begins with `{verb}`"))
            });
        },
    ),
    lint("lint.annotation.reads", "a tool that changes something has no name that promises to read", |view, tally| {
        each(view, tally, |tool| {
            let verb = verb(tool);
            let contradicts = hint(tool, "destructiveHint") == Some(true)
                && hint(tool, "readOnlyHint") != Some(true)
                && READING.contains(&verb.as_str());
            contradicts.then(|| format!("it destroys, and its name begins with `{verb}`"))
        });
    }),
    lint("lint.annotation.destructive", "a tool that deletes does not deny that it destroys", |view, tally| {
        each(view, tally, |tool| {
            let verb = verb(tool);
            let contradicts = hint(tool, "destructiveHint") == Some(false) && DESTROYING.contains(&verb.as_str());
            contradicts.then(|| format!("`destructiveHint` is false, and its name begins with `{verb}`"))
        });
    }),
    lint("lint.annotation.both", "a tool is not both read-only and destructive", |view, tally| {
        each(view, tally, |tool| {
            let both = hint(tool, "readOnlyHint") == Some(true) && hint(tool, "destructiveHint") == Some(true);
            both.then(|| "`readOnlyHint` and `destructiveHint` are true".to_owned())
        });
    }),
    lint("lint.argument.description", "an argument has a description", |view, tally| {
        each(view, tally, |tool| {
            let described =
                |schema: &Value| schema.get("description").and_then(Value::as_str).is_some_and(|text| !text.is_empty());
            let without = tool.arguments.iter().filter(|(_, schema)| !described(schema));
            let names: Vec<_> = without.map(|(name, _)| *name).collect();
            (!names.is_empty()).then(|| format!("no description of {}", brief(&names.join(", "))))
        });
    }),
    lint("lint.argument.type", "an argument has a type", |view, tally| {
        const KINDS: [&str; 8] = ["type", "enum", "const", "$ref", "anyOf", "oneOf", "allOf", "not"];
        each(view, tally, |tool| {
            let without =
                tool.arguments.iter().filter(|(_, schema)| !KINDS.iter().any(|kind| schema.get(kind).is_some()));
            let names: Vec<_> = without.map(|(name, _)| *name).collect();
            (!names.is_empty()).then(|| format!("no type of {}", brief(&names.join(", "))))
        });
    }),
    lint("lint.argument.required", "required arguments are defined", |view, tally| {
        each(view, tally, |tool| {
            let required = tool.definition.pointer("/inputSchema/required").and_then(Value::as_array);
            let is_defined = |name: &&str| tool.arguments.iter().any(|(defined, _)| defined == name);
            let mut names = required.into_iter().flatten().filter_map(Value::as_str);
            names.find(|name| !is_defined(name)).map(|name| format!("`{}` is required and not defined", brief(name)))
        });
    }),
    lint("lint.argument.depth", "arguments are nested at most 5 levels deep", |view, tally| {
        each(view, tally, |tool| {
            let deepest = tool.definition.get("inputSchema").map_or(0, depth);
            (deepest > DEEPEST).then(|| format!("{deepest} levels"))
        });
    }),
    lint("lint.schema.reference", "a schema refers to nothing outside of itself", |view, tally| {
        each(view, tally, |tool| {
            let mut found = Vec::new();
            references(tool.definition, &mut found);
            let outside = found.iter().find(|reference| !reference.starts_with('#'));
            outside.map(|reference| format!("it refers to {}", brief(reference)))
        });
    }),
    lint("lint.prompt.description", "a prompt has a description", |view, tally| {
        described(view, tally, "/result/prompts");
    }),
    lint("lint.resource.description", "a resource has a description or a title", |view, tally| {
        described(view, tally, "/result/resources");
    }),
    lint("lint.instructions.tokens", "instructions take at most 2000 tokens", |view, tally| {
        for message in view.ours() {
            if let Some(text) = message.text_at("/result/instructions") {
                let tokens = tokens(text);
                tally.expect(tokens <= MOST_TOKENS_OF_INSTRUCTIONS, &[message.line], || {
                    format!("about {tokens} tokens")
                });
            }
        }
    }),
    lint("lint.instructions.invisible", "instructions have no invisible characters", |view, tally| {
        for message in view.ours() {
            if let Some(text) = message.at("/result/instructions").filter(|text| text.is_string()) {
                let json = text.to_string();
                let hidden = json.chars().count() - strip_json(&json).chars().count();
                tally.expect(hidden == 0, &[message.line], || format!("{hidden} invisible characters"));
            }
        }
    }),
];

fn described(view: &View<'_>, tally: &mut Tally, list: &str) {
    for message in view.ours() {
        for entry in message.at(list).and_then(Value::as_array).into_iter().flatten() {
            let has = ["description", "title"]
                .iter()
                .any(|name| entry.get(name).and_then(Value::as_str).is_some_and(|text| !text.trim().is_empty()));
            let name = entry.get("name").and_then(Value::as_str).unwrap_or_default();
            tally.expect(has, &[message.line], || format!("`{}`: no description", brief(name)));
        }
    }
}
